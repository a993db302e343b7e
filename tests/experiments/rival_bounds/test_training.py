import numpy as np
import pytest
from experiments.rival_bounds.arms import Arm, auuc_of_risks
from experiments.rival_bounds.training import (
    _mean_squared_distance,
    agarwal_uniform_bound,
    agarwal_uniform_gap,
    freund_bound,
    freund_gap,
    margin_bound,
    ramp_risk,
    usunier_bound,
    usunier_penalty,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from auucmax import auuc_score

pytestmark = pytest.mark.gate

HILLSTROM = Arm(3238, 18149), Arm(2262, 19044)


def sphere(rng, n, d):
    X = rng.normal(size=(n, d))
    return X / np.linalg.norm(X, axis=1)[:, None]


def noisy_trial(rng, counts=(20, 60, 30, 50), d=5):
    """Rows on the unit sphere that know nothing of outcomes: every ranking risk is 1/2."""
    y = np.repeat([1, 0, 1, 0], counts)
    t = np.repeat([1, 0], [sum(counts[:2]), sum(counts[2:])])
    X = sphere(rng, len(y), d)
    w = np.where(t == 1, y, 1 - y) @ X - np.where(t == 1, 1 - y, y) @ X  # fits the noise
    arms = Arm(*counts[:2]), Arm(*counts[2:])
    return y, X, t, w / np.linalg.norm(w), auuc_of_risks(arms, 0.5, 0.5)


# sqrt(7) is the radius of the 22 features scaled to [0, 1]: seven of them can be 1 at once.
RATIOS = [(0.5, 0.0147), (1.0, 0.0232), (np.sqrt(7), 0.0512)]


@pytest.mark.parametrize(("ratio", "penalty"), RATIOS)
def test_usunier_penalty_on_hillstrom(ratio, penalty):
    value = usunier_penalty(HILLSTROM, norm=ratio, rho=2.0, radius=2.0)
    assert value == pytest.approx(penalty, abs=6e-5)


def test_counting_bounds_written_out():
    """One arm of 40 + 60 rows twice, lam = .24; each arm at delta / 2."""
    arms, d, delta = (Arm(40, 60), Arm(60, 40)), 3, 0.1
    agarwal = np.sqrt(8 * 100 * (d * np.log(8 * np.e * 2400 / d) + np.log(4 / (delta / 2))) / 2400)
    assert agarwal_uniform_gap(arms, dimension=d, delta=delta) == pytest.approx(0.48 * agarwal)
    freund = sum(
        2 * np.sqrt((4 * (np.log(2 * m / 4) + 1) + np.log(18 / (delta / 2))) / m) for m in (40, 60)
    )
    assert freund_gap(arms, dimension=d, delta=delta) == pytest.approx(0.48 * freund)


def ramp_risk_slow(first, last, rho):
    """The loop over all pairs."""
    losses = [min(1.0, max(0.0, 1.0 - (a - b) / rho)) for a in first for b in last]
    return np.mean(losses)


scores = npst.arrays(np.int64, st.integers(1, 12), elements=st.integers(-6, 6))
rhos = st.sampled_from([0.01, 0.5, 1.0, 1.7, 30.0])


@settings(deadline=None)
@given(scores, scores, rhos, st.sampled_from([1.0, 0.37]))
def test_ramp_risk_agrees_with_its_slow_twin(first, last, rho, scale):
    fast = ramp_risk(scale * first, scale * last, rho)
    assert fast == pytest.approx(ramp_risk_slow(scale * first, scale * last, rho), abs=1e-11)


def test_ramp_risk_lies_above_the_ranking_risk():
    rng = np.random.default_rng(1)
    first, last = rng.integers(0, 5, 30).astype(float), rng.integers(0, 5, 40).astype(float)
    ranking = (first[:, None] < last).mean() + (first[:, None] == last).mean() / 2
    risks = [ramp_risk(first, last, rho) for rho in (1e-9, 0.5, 1.0, 2.0)]
    assert (np.diff([ranking, *risks]) >= 0).all()
    assert risks[0] == (first[:, None] <= last).mean()


def test_mean_squared_distance():
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(7, 3)) + 5, rng.normal(size=(4, 3))
    pairs = ((a[:, None] - b) ** 2).sum(axis=2).mean()
    assert _mean_squared_distance(a, b) == pytest.approx(pairs)


def test_margin_bound_written_out():
    rng = np.random.default_rng(3)
    y, X, t, w, _ = noisy_trial(rng)
    score, delta, rho, norm = X @ w, 0.1, 0.4, 1.5
    p_t, p_c = 20 / 80, 30 / 80
    lam = np.array([p_t * (1 - p_t), p_c * (1 - p_c)])
    gamma = p_t - p_t**2 / 2 - p_c**2 / 2
    V = (lam / 80).sum()
    classes = [np.flatnonzero((t == a) & (y == v)) for a, v in ((1, 1), (1, 0), (0, 0), (0, 1))]
    risks = [ramp_risk_slow(score[i], score[j], rho) for i, j in (classes[:2], classes[2:])]
    m = np.array([20, 30])
    common = gamma - lam @ risks
    rows = {"treatment": t, "norm": norm, "rho": rho, "delta": delta}
    prior = common - 4 * norm / rho * (lam / np.sqrt(m)).sum() - np.sqrt(V * np.log(10) / 2)
    assert margin_bound(y, score, radius=1, **rows).lower == pytest.approx(prior)
    D = np.array([
        ((X[i][:, None] - X[j]) ** 2).sum(axis=2).mean() for i, j in (classes[:2], classes[2:])
    ])  # fmt: skip
    read = common - 2 * norm / rho * (lam * np.sqrt(D / m)).sum()
    read -= 3 * np.sqrt(V * np.log(20) / 2)
    assert margin_bound(y, score, X=X, **rows).lower == pytest.approx(read)
    chosen = margin_bound(y, score, radius=1, n_candidates=4, **rows)
    one_of_four = margin_bound(y, score, radius=1, **{**rows, "delta": delta / 4})
    assert chosen.lower == one_of_four.lower
    assert chosen.delta == delta


@pytest.mark.gate
@pytest.mark.parametrize("d", [5, 300])
def test_they_hold_on_noise(d):
    """delta = .2, 400 trials: none misses more often, though the training AUUC nearly always does.

    With 300 features every pair of the training rows is ranked right.
    """
    rng, delta, n_trials = np.random.default_rng(6), 0.2, 400
    misses = dict.fromkeys(["margin", "margin, X", "usunier", "agarwal", "freund", "none"], 0)
    for _ in range(n_trials):
        y, X, t, w, truth = noisy_trial(
            rng, (200, 250, 150, 300) if d == 5 else (20, 25, 15, 30), d
        )
        rows = {"treatment": t, "delta": delta}
        lowers = {
            "margin": max(
                margin_bound(y, X @ w, norm=1, rho=rho, radius=1, n_candidates=3, **rows).lower
                for rho in (0.5, 1, 2)
            ),
            "margin, X": max(
                margin_bound(y, X @ w, norm=1, rho=rho, X=X, n_candidates=3, **rows).lower
                for rho in (0.5, 1, 2)
            ),
            "usunier": usunier_bound(y, X @ w, norm=1, rho=1, radius=1, **rows).lower,
            "agarwal": agarwal_uniform_bound(y, X @ w, dimension=d, **rows).lower,
            "freund": freund_bound(y, X @ w, dimension=d, **rows).lower,
            "none": auuc_score(y, X @ w, treatment=t, ranking="separate"),
        }
        for name, lower in lowers.items():
            misses[name] += lower > truth
    assert misses.pop("none") > 0.95 * n_trials
    allowed = delta + 3 * np.sqrt(delta * (1 - delta) / n_trials)
    assert max(misses.values()) / n_trials <= allowed, misses


def test_scores_beyond_the_stated_norm_are_refused():
    y, score, t = [1, 0, 1, 0], [1.0, 0.5, 0.0, 0.2], [1, 1, 0, 0]
    with pytest.raises(ValueError, match=r"spread at most 0\.2; got 1\. Pass the scores"):
        usunier_bound(y, score, treatment=t, norm=0.1, rho=1, radius=1)
    with pytest.raises(ValueError, match="exactly one of radius and X"):
        margin_bound(y, score, treatment=t, norm=1, rho=1)
