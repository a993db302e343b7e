import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auucmax.campaign.cells import CellMeans
from auucmax.campaign.verify import minus
from auucmax.metrics.intervals import ArmMean, score_limits
from auucmax.results import Estimate


def cells(seed, n=400, kind="binary"):
    rng = np.random.default_rng(seed)
    cell, treated = rng.integers(0, 3, n), rng.random(n) < 0.5
    y = rng.random(n) < 0.4
    if kind != "binary":
        y = rng.normal(size=n)
    return np.asarray(y, dtype=float), treated, cell.astype(np.intp)


def effect(cells, weights):
    """The sum over cells of weights times the effect in the cell."""
    return cells.contrast(np.outer(weights, [-1.0, 1.0]))


def numbers(own):
    return [own.value, own.se, own.lower, own.upper]


def test_two_arms_have_newcombes_interval():
    y, treated, _ = cells(0)
    found = effect(CellMeans(y, treated, np.zeros(len(y), dtype=np.intp)), np.ones(1))
    arms = [
        ArmMean(y[arm].mean(), 1.0, 1.0, arm.sum(), sign)
        for arm, sign in ((treated, 1), (~treated, -1))
    ]
    expected = score_limits(arms[0].mean - arms[1].mean, arms, 1.959964)
    assert [found.lower, found.upper] == pytest.approx(expected, abs=1e-6)
    errors = [y[arm].var(ddof=1) / arm.sum() for arm in (treated, ~treated)]
    assert found.se == pytest.approx(np.sqrt(sum(errors)))


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10_000), kind=st.sampled_from(["binary", "number"]))
def test_the_sum_is_that_of_the_means_whatever_the_order(seed, kind):
    y, treated, cell = cells(seed, kind=kind)
    weights = np.array([1.0, -0.5, 2.0])
    slow = sum(
        weight * (y[(cell == c) & treated].mean() - y[(cell == c) & ~treated].mean())
        for c, weight in enumerate(weights)
    )
    found = effect(CellMeans(y, treated, cell), weights)
    assert found.value == pytest.approx(slow)
    assert found.lower < found.value < found.upper
    order = np.random.default_rng(seed).permutation(len(y))
    again = effect(CellMeans(y[order], treated[order], cell[order]), weights)
    assert numbers(again) == pytest.approx(numbers(found))
    turned = effect(CellMeans(y, treated, cell), -weights)
    assert [-turned.upper, -turned.lower] == pytest.approx([found.lower, found.upper])


def test_groups_of_one_row_have_nearly_the_interval_of_rows():
    y, treated, cell = cells(5, kind="number")
    weights = np.ones(3) / 3
    rows = effect(CellMeans(y, treated, cell), weights)
    groups = effect(CellMeans(y, treated, cell, np.arange(len(y))), weights)
    assert groups.se == pytest.approx(rows.se, rel=1e-3)
    # Copies of a row tell nothing new.
    twice = np.repeat(np.arange(len(y)), 2)
    again = effect(CellMeans(y[twice], treated[twice], cell[twice], twice), weights)
    assert again.se == pytest.approx(groups.se)


@pytest.mark.parametrize(
    ("y", "groups"),
    [
        (np.repeat([0.0, 1.0], [97, 3]), None),
        (np.random.default_rng(0).lognormal(0, 2, 100), None),
        (np.arange(100.0), np.arange(100) % 4),
    ],
)
def test_where_nothing_holds_there_is_no_interval(y, groups):
    treated = np.arange(100) % 3 == 0
    groups = None if groups is None else groups.astype(np.intp)
    found = effect(CellMeans(y, treated, np.zeros(100, dtype=np.intp), groups), np.ones(1))
    assert found.missing is not None
    assert found.lower is found.upper is None


def test_the_difference_of_two_has_both_reasons():
    known = Estimate(value=1.0, se=1.0, lower=0.0, upper=2.0)
    unknown = Estimate(value=1.0, se=1.0, missing="few rows")
    assert minus(known, unknown).missing == minus(unknown, known).missing == "few rows"
    assert minus(known, known).scaled(2.0).lower == pytest.approx(-2 * np.sqrt(2))
    assert known.scaled(2.0, -1.0).upper == 3.0
    assert minus(known, Estimate(value=0.5)).se is None
