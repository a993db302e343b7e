import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pairs.pair_rows import coded_rows, every, trial
from tests.pairs.reference import pair_sums

from auucmax.metrics import auuc_score
from auucmax.pairs import (
    PairObjective,
    ScoreObjective,
    group_weights,
    s_poly,
    sigmoid,
)


@every
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_row_derivatives_equal_the_written_out_sums(s, data):
    """Loss to 1e-8 of pairs x max s, slopes to 1e-8 and curvatures to 1e-4 of the largest."""
    rows = data.draw(coded_rows(s.length, all_classes=True))
    score = rows.score
    if s.n_derivatives == 0:  # a slope that jumps: let no pair lie on the kink up to rounding
        score = np.round(score * 4) / 4
    objective = ScoreObjective(
        rows.y, treatment=rows.treated, surrogate=s, sample_weight=rows.weight
    )
    exact = pair_sums(score, rows.cut, rows.treated, s, rows.weight)
    got, each = objective.derivatives(score), rows.each(objective.multipliers)
    gradient, curvature = each * exact.gradient, each * exact.curvature
    z = np.ptp(score) * np.linspace(-1, 1, 101)
    rounding = 1e-13 * (1 + np.abs(score).max() / s.length / 10) * np.abs(each).max()
    rounding *= (
        objective.totals.sum()
        * max(np.ptp(rows.cut), 1.0)
        * (1 if rows.weight is None else rows.weight.max())
    )
    scale = np.dot(objective.weights, [1, 1]) * s(-np.ptp(score))
    assert got.value == pytest.approx(np.dot(objective.multipliers, exact.losses), abs=1e-8 * scale)
    for order, fast, slow, share in (
        (1, got.gradient, gradient, 1e-8),
        (2, got.curvature, curvature, 1e-4),
    ):
        floor = rounding * max(np.abs(s.derivative(z, order)).max(), s.length ** -float(order))
        assert fast == pytest.approx(slow, abs=share * np.abs(slow).max() + floor)


@every
def test_swapped_arms_and_flipped_labels(s):
    X, y, treatment, _, w = trial(300)

    def value(y, treatment, weights, w):
        made = PairObjective(X, y, treatment=treatment, surrogate=s, weights=weights)
        return made.value(w)

    here = value(y, treatment, (0.3, 0.7), w)
    same = {"rel": 1e-7}
    # Who wins over whom is unchanged if arms and labels both change; the arms' weights move along.
    assert value(1 - y, 1 - treatment, (0.7, 0.3), w) == pytest.approx(here, **same)
    # One change alone turns every pair round, and so does the opposite ranking.
    assert value(y, 1 - treatment, (0.7, 0.3), -w) == pytest.approx(here, **same)
    assert value(1 - y, treatment, (0.3, 0.7), -w) == pytest.approx(here, **same)
    assert value(1 - y, treatment, (0.3, 0.7), w) != pytest.approx(here, rel=1e-3)


@every
def test_a_constant_score_pays_s_of_zero(s):
    X, y, treatment, *_ = trial(300)
    objective = PairObjective(X, y, treatment=treatment, surrogate=s, weights=(2.0, 3.0))
    assert objective.value(np.zeros(4)) == pytest.approx(5 * float(s(0.0)), rel=1e-8)


def test_auuc_by_pairs():
    """A steep sigmoid counts pairs: gamma - objective is the AUUC with the arms ranked apart."""
    rng = np.random.default_rng(7)
    score, y, treatment = rng.integers(0, 9, 900), rng.integers(0, 2, 900), rng.integers(0, 2, 900)
    pairs = ScoreObjective(y, treatment=treatment, surrogate=sigmoid(0.02)).derivatives(score)
    p_t, p_c = y[treatment == 1].mean(), y[treatment == 0].mean()
    gamma = p_t - p_t**2 / 2 - p_c**2 / 2
    auuc = auuc_score(y, score, treatment=treatment, ranking="separate")
    assert gamma - pairs.value == pytest.approx(auuc, abs=1e-9)


@pytest.mark.parametrize("values", [(0, 1, 2, 7), (-2.5, 0, 0.5, 30.0, 31.0), (3, 4)], ids=str)
@pytest.mark.parametrize("weights", ["lambda", "absolute", "uniform"])
def test_auuc_of_any_outcome_by_pairs(values, weights):
    """AUUC, arms ranked apart, is a constant minus the pairs in the wrong order, times their gaps.

    Of each pair the better order gives the larger outcome of treated rows, the smaller of control
    rows; and each row counts half for itself.
    """
    rng = np.random.default_rng(7)
    score, treated = rng.integers(0, 9, 900), rng.random(900) < 0.4
    y = rng.choice(values, 900)
    objective = ScoreObjective(y, treatment=treated, surrogate=sigmoid(0.02), weights=weights)
    arms = [y[treated], y[~treated]]
    gaps = [np.maximum(own[:, None] - own, 0).sum() for own in arms]
    size = np.array([len(own) for own in arms])
    lam = gaps / size**2.0
    expected = {"lambda": lam, "absolute": size * lam, "uniform": (1, 1)}[weights]
    assert objective.weights == pytest.approx(tuple(expected))
    if weights == "lambda":
        best, worst = (
            (np.triu(f(own[:, None], own), 1).sum() + own.sum() / 2) / len(own) ** 2
            for f, own in zip((np.maximum, np.minimum), arms, strict=True)
        )
        auuc = auuc_score(y, score, treatment=treated, ranking="separate")
        value = objective.derivatives(score).value
        assert best - worst - value == pytest.approx(auuc, abs=1e-9 * np.ptp(values))


@every
def test_weights_equal_repetition(s):
    X, y, treatment, _, w = trial(200)
    times = np.arange(200) % 3 + 1
    weighted = PairObjective(
        X, y, treatment=treatment, surrogate=s, sample_weight=times.astype(float)
    )
    repeated = PairObjective(
        X.repeat(times, axis=0), y.repeat(times), treatment=treatment.repeat(times), surrogate=s
    )
    (a, b), (c, d) = weighted.value_and_gradient(w), repeated.value_and_gradient(w)
    assert a == pytest.approx(c, rel=1e-8)
    assert b == pytest.approx(d, abs=1e-7 * np.abs(d).max())


def test_scores_exactly_a_knot_apart_are_sorted():
    """Ties at z = mu leave an error that no number of bins removes; the exact sums step in."""
    rng = np.random.default_rng(0)
    X, w = rng.integers(0, 2, (500, 1)).astype(float), np.array([0.1])
    _, y, treatment, *_ = trial(500)
    objective = PairObjective(X, y, treatment=treatment, surrogate=s_poly(0.1), accuracy=1e-11)
    assert objective.field_at(w) is None
    exact = pair_sums(X @ w, y, treatment == 1, s_poly(0.1))
    assert objective.value(w) == pytest.approx(
        np.dot(objective.multipliers, exact.losses), rel=1e-12
    )


def test_too_many_bins():
    X, y, treatment, _, w = trial(300)
    objective = PairObjective(X, y, treatment=treatment, surrogate=sigmoid(1e-6))
    with pytest.raises(ValueError, match="span at most 32768 bins"):
        objective.value(w)
    steep = PairObjective(X, y, treatment=treatment, surrogate=s_poly(mu=1e-6))
    exact = pair_sums(X @ w, y, treatment == 1, s_poly(mu=1e-6)).losses
    assert steep.value(w) == pytest.approx(np.dot(steep.multipliers, exact), rel=1e-9)


def test_group_weights():
    totals = np.array([20.0, 80.0, 360.0, 40.0])  # rates .2 of 100, .1 of 400
    assert group_weights("lambda", totals) == pytest.approx((0.16, 0.09))
    assert group_weights("absolute", totals) == pytest.approx((16.0, 36.0))
    assert group_weights("uniform", totals) == (1.0, 1.0)
    assert group_weights((1, 0), totals) == (1.0, 0.0)
    for wrong in ("relative", (0, 0), (1, -1), (1, 2, 3), (1, np.nan)):
        with pytest.raises(ValueError, match="weights should be"):
            group_weights(wrong, totals)
