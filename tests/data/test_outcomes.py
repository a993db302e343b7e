"""Kinds of outcomes, who stands apart from the usual outcome, and what a range leaves out."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auucmax import load_hillstrom
from auucmax.data.read_trial import read_trial
from auucmax.encoding.kinds import (
    outcome_kind,
    responders,
    share_beyond,
    usual_value,
)
from auucmax.model.guarantee import counted_range
from auucmax.results import Kind, Why


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        ([0, 1, 1], "0/1"),
        ([1, 1], "0/1"),
        ([0, 1, 2], "count"),
        ([3, 4], "count"),
        ([0, 0.5], "money with zeros"),
        ([0] + [0.5] * 99, "money with zeros"),
        ([0] + [0.5] * 100, "any number"),
        ([-1, 0, 0], "any number"),
        ([2.5, 3], "any number"),
    ],
)
def test_the_kind_of_an_outcome(y, kind):
    assert outcome_kind(np.array(y, dtype=float)) == kind


def test_kinds_of_hillstroms_outcomes():
    kinds = [outcome_kind(load_hillstrom(outcome=name).y) for name in ("visit", "spend")]
    assert kinds == ["0/1", "money with zeros"]


@given(st.lists(st.integers(-2, 3), min_size=1, max_size=30), st.integers(1, 9))
def test_a_kind_knows_neither_order_nor_copies(y, copies):
    y = np.array(y, dtype=float) / 2
    assert outcome_kind(y) in Kind
    assert outcome_kind(np.tile(y[::-1], copies)) == outcome_kind(y)
    assert usual_value(np.tile(y[::-1], copies)) == usual_value(y)


@given(st.lists(st.integers(-2, 3), min_size=1, max_size=30), st.sampled_from([2.5, -1.0]))
def test_the_usual_value_moves_with_the_outcomes(y, factor):
    """Money that is to be low, 1 - y, is learnt from as money."""
    y = np.array(y, dtype=float)
    usual = usual_value(y)
    if usual is not None:
        assert np.mean(y == usual) >= 0.5
        assert usual in (y.min(), y.max())
    moved = usual_value(1 + factor * y)
    if len(np.unique(y)) != 2:  # of two values, half each, either is the usual one
        assert moved == (None if usual is None else 1 + factor * usual)


def test_responders_are_all_that_are_not_usual():
    assert responders(np.array([0, 1, 1, 1.0])).tolist() == [False, True, True, True]
    assert responders(np.array([1, 1, 1, -4.0])).tolist() == [False, False, False, True]
    assert responders(np.array([1.0, 2, 3])) is None


def test_a_range_that_leaves_out_too_much_certifies_nothing():
    """What is counted would not stand for what is paid: small orders may rise, large ones fall."""
    y = np.repeat([0.0, 10.0, 1_000.0], [80, 15, 5])
    assert share_beyond(y, (0, 1_000)) == 0
    assert share_beyond(y, (0, 100)) == pytest.approx(4_500 / 5_150)
    table = pd.DataFrame({"t": np.arange(100) % 2, "y": y, "x": np.arange(100.0) ** 2})

    def counted(outcome_range, **options):
        trial = read_trial(
            table, treatment="t", outcome="y", outcome_range=outcome_range, **options
        )  # fmt: skip
        return counted_range(trial)

    for outcome_range in ((0, 100), (2_000, 3_000)):
        assert counted(outcome_range).why == Why.NARROW_RANGE
    assert counted((0, 1_000)) == (0, 1_000)
    assert counted((0, 1_000), lower_is_better=True) == (-1_000, 0)
    assert counted(None).why == Why.NO_RANGE
