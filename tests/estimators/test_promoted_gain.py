"""PCG against its definition; its gradients against all pairs and against differences."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auucmax import auuc_score
from auucmax.estimators.lambdamart import (
    PromotedGainObjective,
    pair_gradients_slow,
    promoted_cumulative_gain,
)


def rows(seed, n, *, levels=None, share=0.5, rate=0.4):
    """Rows of a trial with both arms and both outcomes; ``levels``: that many tied scores."""
    rng = np.random.default_rng(seed)
    treated = rng.random(n) < share
    y = (rng.random(n) < rate).astype(float)
    treated[:2], y[:2] = (True, False), (1, 0)
    score = 2 * rng.normal(size=n)
    return y, treated, score if levels is None else rng.integers(levels, size=n).astype(float)


sizes = st.integers(3, 40)
ties = st.sampled_from([None, 1, 2, 5])


def test_gain_is_the_sum_of_the_curve():
    y, treated, score = rows(0, 200, share=0.3)
    order = np.argsort(-score)
    curve = np.cumsum(np.where(treated, y / treated.sum(), -y / (~treated).sum())[order])
    gain = promoted_cumulative_gain(y, score, treatment=treated)
    assert gain == pytest.approx(curve.sum(), abs=1e-12)


@given(seed=st.integers(0, 10_000), n=sizes, levels=ties)
@settings(deadline=None)
def test_gain_is_auuc_in_other_units(seed, n, levels):
    y, treated, score = rows(seed, n, levels=levels)
    effect = y[treated].mean() - y[~treated].mean()
    auuc = auuc_score(y, score, treatment=treated)
    gain = promoted_cumulative_gain(y, score, treatment=treated)
    assert gain == pytest.approx(n * auuc + effect / 2, abs=1e-12)


def test_gain_with_labels_and_weights_as_copies():
    y, treated, score = rows(1, 60, levels=9)
    copies = np.random.default_rng(0).integers(1, 4, 60)
    labels = np.where(treated, "mail", "none")
    weighted = promoted_cumulative_gain(
        y, score, treatment=labels, sample_weight=copies, control="none"
    )
    repeated = (np.repeat(v, copies) for v in (y, score))
    assert weighted == pytest.approx(
        promoted_cumulative_gain(*repeated, treatment=np.repeat(treated, copies)), abs=1e-12
    )


@given(seed=st.integers(0, 10_000), n=st.integers(3, 20))
@settings(deadline=None)
def test_what_an_exchange_changes(seed, n):
    y, treated, score = rows(seed, n)
    relevance = np.where(treated, y / treated.sum(), -y / (~treated).sum())
    rank = np.argsort(np.argsort(score))
    a, b = np.random.default_rng(seed).choice(n, 2, replace=False)
    exchanged = score.copy()
    exchanged[[a, b]] = score[[b, a]]
    change = promoted_cumulative_gain(y, exchanged, treatment=treated) - promoted_cumulative_gain(
        y, score, treatment=treated
    )
    expected = abs(relevance[a] - relevance[b]) * abs(rank[a] - rank[b])
    assert abs(change) == pytest.approx(expected, abs=1e-12)


@given(seed=st.integers(0, 10_000), n=sizes, levels=ties, share=st.sampled_from([0.15, 0.5]))
@settings(deadline=None)
def test_one_row_a_bin_is_exact(seed, n, levels, share):
    y, treated, score = rows(seed, n, levels=levels, share=share)
    fast = PromotedGainObjective(y, treated, n_bins=n)(score)
    for ours, expected in zip(fast, pair_gradients_slow(y, treated, score), strict=True):
        assert ours == pytest.approx(expected, abs=1e-10 * np.abs(expected).max() + 1e-300)


def test_few_levels_are_exact_with_few_bins():
    y, treated, score = rows(0, 500, levels=8)
    fast = PromotedGainObjective(y, treated, n_bins=8)(score)
    for ours, expected in zip(fast, pair_gradients_slow(y, treated, score), strict=True):
        assert ours == pytest.approx(expected, rel=1e-10)


@given(seed=st.integers(0, 10_000))
@settings(deadline=None, max_examples=20)
def test_fewer_bins_are_near(seed):
    y, treated, score = rows(seed, 600, share=0.4)
    exact = pair_gradients_slow(y, treated, score)
    top = score > np.median(score)
    for n_bins in (15, 60, 240):
        fast = PromotedGainObjective(y, treated, n_bins=n_bins)(score)
        for ours, expected in zip(fast, exact, strict=True):
            # A row's error is of the order of a bin's width; in sums, as trees take them, errors
            # partly cancel.
            assert np.abs(ours - expected).mean() < 1.2 / n_bins * np.abs(expected).mean()
            total = abs((ours - expected)[top].sum())
            assert total < 0.6 / n_bins * np.abs(expected[top]).sum()


@pytest.mark.parametrize("levels", [None, 6])
def test_gradients_are_those_of_the_loss_with_ranks_fixed(levels):
    """An independent check of the slow twin, by differences."""
    n, step = 25, 1e-5
    y, treated, score = rows(3, n, levels=levels)
    relevance = np.where(treated, y / treated.sum(), -y / (~treated).sum())
    places = np.empty(n)
    gap = np.zeros((n, n))
    rng = np.random.default_rng(0)
    for _ in range(4000 if levels else 1):  # ties in random order
        places[np.lexsort((rng.random(n), score))] = np.arange(n)
        gap += np.abs(places[:, None] - places)
    gap /= 4000 if levels else 1
    pairs = [(a, b) for a in range(n) for b in range(n) if relevance[a] > relevance[b]]
    weight = {(a, b): (relevance[a] - relevance[b]) * gap[a, b] for a, b in pairs}
    scale = 12 * n / ((n + 1) * 2 * sum(relevance[a] - relevance[b] for a, b in pairs))

    def loss(s):
        return scale * sum(weight[a, b] * np.log1p(np.exp(s[b] - s[a])) for a, b in pairs)

    gradient, hessian = pair_gradients_slow(y, treated, score)
    tolerance = 0.02 if levels else 1e-4
    for i in range(0, n, 4):
        move = step * (np.arange(n) == i)
        up, here, down = loss(score + 1e3 * move), loss(score), loss(score - 1e3 * move)
        slope = (loss(score + move) - loss(score - move)) / (2 * step)
        curvature = (up - 2 * here + down) / (1e3 * step) ** 2
        assert gradient[i] == pytest.approx(slope, rel=tolerance, abs=tolerance)
        assert hessian[i] == pytest.approx(curvature, rel=tolerance, abs=tolerance)


def test_weights_are_copies_and_order_does_not_matter():
    y, treated, score = rows(5, 300, levels=90)
    rng = np.random.default_rng(0)
    copies = rng.integers(1, 4, 300)
    index = np.repeat(np.arange(300), copies)
    for n_bins in (300, 20):
        weighted = PromotedGainObjective(y, treated, copies.astype(float), n_bins)(score)
        repeated = PromotedGainObjective(y[index], treated[index], None, n_bins)(score[index])
        order = rng.permutation(300)
        shuffled = PromotedGainObjective(
            y[order], treated[order], copies[order].astype(float), n_bins
        )(score[order])
        for a, b, c in zip(weighted, repeated, shuffled, strict=True):
            assert a == pytest.approx(np.bincount(index, weights=b), rel=1e-9)
            assert a[order] == pytest.approx(c, rel=1e-9)


def test_scale_and_far_scores():
    y, treated, _ = rows(6, 400)
    objective = PromotedGainObjective(y, treated)
    gradient, hessian = objective(np.zeros(400))
    assert hessian.sum() == pytest.approx(400)
    assert gradient.sum() == pytest.approx(0, abs=1e-9)
    assert gradient[treated & (y == 1)].max() < 0 < gradient[~treated & (y == 1)].min()
    # Scores that are far apart, and right: nothing is left to do.
    relevance = np.where(treated, y, -y)
    gradient, hessian = objective(1e6 * relevance)
    assert np.abs(gradient).max() < 1e-9
    assert hessian.min() >= 0
    assert np.isfinite(objective(-1e6 * relevance)[0]).all()
