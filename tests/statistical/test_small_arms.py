"""Intervals hold where arms are small, responders few or outcomes skewed, or are declined."""

import numpy as np
import pytest
from experiments import intervals
from experiments.harness import Task

pytestmark = pytest.mark.gate
N_TRIALS = 600
STANDARD_ERROR = np.sqrt(0.05 * 0.95 / N_TRIALS)


@pytest.mark.parametrize(
    ("outcome", "cell"),
    [
        ("20% respond", "500 rows, 95% treated"),
        ("2% respond", "1,000 rows, 5% treated"),
        ("50% respond", "500 rows, 10% treated"),
        ("20% respond", "400 clusters, 40 treated"),
        ("lognormal", "2,000 rows, 10% treated"),
        ("lognormal, 10% not 0", "5,000 rows, 10% treated"),
        ("normal", "200 rows, 5% treated"),
    ],
)
def test_misses_of_all_intervals(outcome, cell):
    line = intervals.run_chunk(Task("intervals", outcome, cell, 7), N_TRIALS)
    for what in intervals.WHAT:
        rate, declined = line["missed"][what] / N_TRIALS, line["declined"][what] / N_TRIALS
        assert rate <= 0.05 + 4 * STANDARD_ERROR, (what, rate)
        if declined == 0:
            assert rate >= 0.05 - 4 * STANDARD_ERROR, (what, rate)
