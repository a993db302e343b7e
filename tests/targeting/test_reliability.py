"""Shares with rows enough for an interval."""

import numpy as np

from auucmax._validation import check_rows
from auucmax.targeting.reliability import reliable_shares


def test_the_first_share_that_holds_ten_of_each_kind():
    # From the top: treated with, treated without, control with, control without, and again.
    y, treatment = np.tile([1.0, 0.0, 1.0, 0.0], 25), np.tile([1, 1, 0, 0], 25)
    rows = check_rows(y, -np.arange(100.0), treatment=treatment)
    shares = np.array([0.0, 0.39, 0.4, 1.0])
    assert reliable_shares(rows, shares, binary=True) == [False, False, True, True]
    # Thirty rows in each arm: the 60th is a control row.
    shares = np.array([0.59, 0.6])
    assert reliable_shares(rows, shares, binary=False) == [False, True]
