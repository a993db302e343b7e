"""Score quantiles: shares above scores, cuts, counts and shifts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from auucmax.targeting.quantiles import ScoreQuantiles


@given(st.integers(0, 10_000), st.sampled_from([1.0, 0.1, 1e-3]))
def test_cut_and_share_are_each_others_inverse(seed, step):
    rng = np.random.default_rng(seed)
    score = np.round(rng.normal(size=400) / step) * step
    found = ScoreQuantiles.of(score)
    shares = np.linspace(0.05, 0.95, 19)
    threshold, part = found.cut(shares)
    again = [found.share_of(float(t), float(p)) for t, p in zip(threshold, part, strict=True)]
    np.testing.assert_allclose(again, shares, atol=1e-6)


def test_levels_of_many_people_are_kept_exactly():
    score = np.repeat([0.0, 1.0, 2.0], [500, 300, 200])
    found = ScoreQuantiles.of(score)
    assert found.score == (2.0, 1.0, 0.0)
    np.testing.assert_allclose(found.reach, [0.2, 0.5, 1.0])
    np.testing.assert_allclose(
        found.count(score, np.array([0.0, 0.1, 0.35, 1.0])), [0, 100, 350, 1000]
    )


def test_no_quantile_is_the_score_of_one_person():
    score = np.random.default_rng(0).normal(size=3_000)
    found = ScoreQuantiles.of(score)
    assert not set(found.score) & set(score.tolist())
    assert 90 < len(found.score) <= 101
    for q in (0.1, 0.5, 0.9):
        (threshold,), _ = found.cut(np.array([q]))
        assert abs(np.mean(score >= threshold) - q) < 0.01


def slow_count(score, weight, q, cohort):
    """The threshold that cuts off the top q, and how many of the cohort are above it (a float)."""
    if q in (0, 1):
        return np.inf if q == 0 else -np.inf, q * len(cohort)
    reach = [s for s in np.unique(score) if weight[score >= s].sum() >= (q - 1e-12) * weight.sum()]
    cut = max(reach)
    above, level = (weight[where].sum() / weight.sum() for where in (score > cut, score == cut))
    return cut, (cohort > cut).sum() + (q - above) / level * (cohort == cut).sum()


@given(st.integers(0, 10_000), st.booleans())
def test_counts_of_new_people_are_those_of_the_definition(seed, weighted):
    rng = np.random.default_rng(seed)
    score = rng.integers(0, 6, 30).astype(float)
    weight = rng.integers(1, 4, 30).astype(float) if weighted else np.ones(30)
    cohort = rng.choice(score, 15) + rng.choice([0.0, 1e-3])
    shares = np.array([0.0, 0.1, 0.35, 0.5, 0.8, 1.0])
    # Levels of one row are kept as they are.
    found = ScoreQuantiles.of(score, weight, least=weight.sum() ** 2 / (weight**2).sum() / 30)
    slow = [slow_count(score, weight, q, cohort) for q in shares]
    assert found.cut(shares)[0] == pytest.approx([cut for cut, _ in slow])
    assert np.abs(found.count(cohort, shares) - [n for _, n in slow]).max() <= 0.5 + 1e-9


def test_the_distance_is_that_of_kolmogorov_and_smirnov():
    score = np.random.default_rng(3).normal(size=8_000).round(1)
    new = np.sort(score)[2_000:5_000] + 0.2
    found = ScoreQuantiles.of(score)
    assert found.shift(new).distance == pytest.approx(ks_2samp(score, new).statistic, abs=0.01)
    one, four = found.shift(new), found.shift(new, 4)
    assert four.by_chance / one.by_chance == pytest.approx(np.sqrt(np.log(8_000) / np.log(2_000)))
    beyond = np.concatenate([new, np.full(1_000, 9.0)])
    assert found.shift(beyond).above == pytest.approx(0.25)
