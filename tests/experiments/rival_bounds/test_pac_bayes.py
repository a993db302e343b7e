"""PAC-Bayes bounds: written out by all pairs, the steps of their proofs, and simulated misses."""

import numpy as np
import pytest
from experiments.rival_bounds.arms import Arm, auuc_of_risks
from experiments.rival_bounds.pac_bayes import (
    INEQUALITIES,
    auuc_of_aucs,
    chromatic_pac_bayes_bound,
    gibbs_auc,
    kl_inverse,
    log_xi,
    pac_bayes_bound,
    variation,
)
from scipy.special import kl_div, ndtr
from scipy.stats import binom

from auucmax import AUUCMax, auuc_score, load_hillstrom

pytestmark = pytest.mark.gate


@pytest.fixture
def small():
    """Features of few levels, so that many rows are equal."""
    rng = np.random.default_rng(0)
    X, t = rng.integers(0, 3, size=(120, 3)) * [1.0, 0.3, 2.0], np.arange(120) % 2
    y = (rng.random(120) < 0.3 + 0.2 * t * (X[:, 0] > 0)).astype(int)
    return {"y": y, "X": X, "treatment": t, "w": np.array([2.0, 0.1, -0.5])}


def by_all_pairs(y, X, treatment, w, mu):
    """AUC of each arm expected over w ~ N(mu w / ||w||, I), pair by pair."""
    found = []
    for arm in (1, 0):
        terms = []
        for i in np.flatnonzero((treatment == arm) & (y == 1)):
            for j in np.flatnonzero((treatment == arm) & (y == 0)):
                z = X[i] - X[j]
                cosine = w @ z / np.linalg.norm(w) / np.linalg.norm(z) if z.any() else 0.0
                terms.append(ndtr(mu * cosine))
        found.append(np.mean(terms))
    return np.array(found)


def test_expectations_are_those_of_all_pairs_and_of_draws(small):
    mus = [0.0, 1.7]
    exact = gibbs_auc(**small, mu=mus, n_pairs=None)
    sampled = gibbs_auc(**small, mu=mus, n_pairs=200_000, random_state=0)
    for mu in mus:
        assert exact.aucs[mu] == pytest.approx(by_all_pairs(**small, mu=mu))
        # The variance of a value in [0, 1] is at most 1/4.
        assert np.abs(sampled.aucs[mu] - exact.aucs[mu]).max() < 4 * 0.5 / np.sqrt(200_000)
    rng, direction = np.random.default_rng(1), small["w"] / np.linalg.norm(small["w"])
    draws = [
        auuc_score(small["y"], (small["X"] @ (1.7 * direction + rng.normal(size=3))).round(9),
                   treatment=small["treatment"], ranking="separate")
        for _ in range(2000)
    ]  # fmt: skip
    error = np.std(draws) / np.sqrt(len(draws))
    assert np.mean(draws) == pytest.approx(auuc_of_aucs(exact.arms, exact.aucs[1.7]), abs=4 * error)


def test_hillstrom():
    """Features in known ranges, and the direction of AUUC-max without a constraint."""
    trial = load_hillstrom()
    X = trial.X.to_numpy()
    X = (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))
    rows = {"treatment": trial.treatment != trial.control}
    w = AUUCMax(selection=None, scale="none").fit(X, trial.y, **rows).coef_
    rows |= {"y": trial.y, "X": X, "w": w, "n_pairs": 100_000, "random_state": 0}
    alone = {}
    for mu, auuc in ((2.0, 0.0272), (4.0, 0.0298), (8.0, 0.0314)):
        alone[mu] = pac_bayes_bound(mu=[mu], **rows)
        assert alone[mu].estimate == pytest.approx(auuc, abs=4e-4)
    best = pac_bayes_bound(mu=[8.0, 2.0, 4.0], **rows)
    assert best.mu == 4.0 == max(alone, key=lambda mu: alone[mu].lower)
    assert alone[4.0].lower - 0.001 < best.lower < alone[4.0].lower  # the grid is paid for
    chromatic = chromatic_pac_bayes_bound(mu=[4.0], **rows)
    assert 0.0165 < chromatic.lower < 0.0205


def test_gap_written_out(small):
    """E_Q exact takes all of delta; sampled, it takes a tenth, in equal parts for each mu."""
    t, mus, delta = small["treatment"], [1.0, 3.0], 0.1
    n = np.bincount(t)[::-1]
    p = np.array([small["y"][t == arm].mean() for arm in (1, 0)])
    lam = p * (1 - p)
    v = (lam / n).sum()
    best = pac_bayes_bound(mu=mus, n_pairs=None, delta=delta, **small)
    assert best.gap == pytest.approx(np.sqrt(v * (best.mu**2 / 2 + np.log(20)) / 2))
    sampled = pac_bayes_bound(mu=mus, n_pairs=70, delta=delta, random_state=0, **small)
    gap = np.sqrt(v * (sampled.mu**2 / 2 + np.log(2 / 0.09)) / 2)
    assert sampled.gap == pytest.approx(gap + np.hypot(*lam) * np.sqrt(np.log(2 / 0.01) / 140))
    narrow = pac_bayes_bound(mu=mus, n_pairs=None, inequality="hoeffding", **small)
    assert narrow.gap < pac_bayes_bound(mu=mus, n_pairs=None, **small).gap


def test_chromatic_written_out():
    """Every pair right, a large mu: E_Q R^ = 0, and kl(0, p) = -ln(1 - p)."""
    y, t = np.tile([1, 0], 100), np.repeat([1, 0], 100)
    rows = {"y": y, "X": np.where(y == t, 1.0, -1.0)[:, None], "treatment": t, "w": [1.0]}
    bound = chromatic_pac_bayes_bound(mu=[9.0], n_pairs=None, delta=0.1, **rows)
    risk = -np.expm1(-(81 / 2 + log_xi(50) + np.log(20)) / 50)
    assert (bound.lower, bound.estimate) == pytest.approx((0.25 - 0.5 * risk, 0.25))
    # Sampled: a tenth of delta, in equal parts for two arms and two mu.
    bound = chromatic_pac_bayes_bound(
        mu=[9.0, 12.0], delta=0.1, n_pairs=500, random_state=0, **rows
    )
    error = np.sqrt(np.log(4 / 0.01) / 1000)
    risk = kl_inverse(error, (81 / 2 + log_xi(50) + np.log(2 / 0.09)) / 50)
    assert bound.mu == 9
    assert bound.lower == pytest.approx(0.25 - 0.5 * risk, rel=1e-9)


@pytest.mark.parametrize("inequality", INEQUALITIES)
def test_exponential_moment(inequality):
    """E exp(sigma Z - sigma^2 V / 8) <= 1: the step that the proof rests on, near its worst case.

    The rarer class falls on either side of the other by the toss of a coin. With half of V it
    would fail.
    """
    rng, arms = np.random.default_rng(2), (Arm(10, 200), Arm(200, 10))
    tosses = rng.binomial(10, 0.5, size=(40_000, 2)) / 10
    z = np.array([auuc_of_aucs(arms, aucs) for aucs in tosses])
    z -= auuc_of_aucs(arms, np.array([0.5, 0.5]))
    v = sum(variation(arm, inequality) for arm in arms)
    sigma = 2 / np.sqrt(v)
    moments = np.exp(sigma * z - sigma**2 * v / 8)
    error = moments.std() / np.sqrt(len(moments))
    assert 0.88 < moments.mean() <= 1 + 3 * error
    assert np.exp(sigma * z - sigma**2 * v / 16).mean() > 1 + 10 * error


def test_exponential_moment_of_kl():
    """xi(m) is E exp(m kl(k / m, p)) for k binomial, whatever p; between sqrt(m) and 2 sqrt(m)."""
    for m in (1, 2, 7, 40, 300):
        for p in (0.5, 0.03):
            k = np.arange(m + 1)
            kl = kl_div(k / m, p) + kl_div(1 - k / m, 1 - p)
            moment = np.exp(binom.logpmf(k, m, p) + m * kl).sum()
            assert np.exp(log_xi(m)) == pytest.approx(moment, rel=1e-6)
        assert np.sqrt(m) <= np.exp(log_xi(m)) <= min(m + 1, 2 * np.sqrt(m)) * (1 + 1e-9)


def test_kl_inverse():
    for q, bound in ((0.3, 0.02), (0.0, 0.1), (0.9, 1.0), (0.5, 1e-6)):
        p = kl_inverse(q, bound)
        kl = (q * np.log(q / p) if q else 0) + (1 - q) * np.log((1 - q) / (1 - p))
        assert q < p < 1
        assert kl == pytest.approx(bound, rel=1e-6)
    assert kl_inverse(1.0, 0.1) == 1


@pytest.mark.parametrize("signal", [0.0, 0.6])
def test_they_hold_given_the_outcomes(signal):
    """delta = .2, 300 trials of 120 rows; the direction is fitted to them."""
    rng, delta, n_trials, d = np.random.default_rng(3), 0.2, 300, 4
    counts, noise = (20, 40, 25, 35), np.random.default_rng(4).normal(size=(20_000, d))
    y, t = np.repeat([1, 0, 1, 0], counts), np.repeat([1, 0], 60)
    arms, mus = (Arm(*counts[:2]), Arm(*counts[2:])), [0.5, 2.0]
    shift = np.eye(d)[0] * signal  # treated positives lie off the others
    z = shift + np.sqrt(2) * noise
    misses = dict.fromkeys([*INEQUALITIES, "chromatic", "none"], 0)
    for _ in range(n_trials):
        X = rng.normal(size=(120, d)) + (y * t)[:, None] * shift
        w = np.where(t == 1, 2 * y - 1, 1 - 2 * y) @ X
        rows = {"y": y, "X": X, "treatment": t, "w": w, "mu": mus}
        sampled = rows | {"delta": delta, "n_pairs": 3000, "random_state": rng}
        cosines = z @ (w / np.linalg.norm(w)) / np.linalg.norm(z, axis=1)
        truths = {mu: auuc_of_risks(arms, 1 - ndtr(mu * cosines).mean(), 0.5) for mu in mus}
        bounds = {name: pac_bayes_bound(inequality=name, **sampled) for name in INEQUALITIES}
        bounds["chromatic"] = chromatic_pac_bayes_bound(**sampled)
        for name, bound in bounds.items():
            misses[name] += bound.lower > truths[bound.mu]
        own = gibbs_auc(**rows, n_pairs=20_000, random_state=rng).aucs[2.0]
        misses["none"] += auuc_of_aucs(arms, own) > truths[2.0]
    assert misses.pop("none") > 0.8 * n_trials
    allowed = delta + 3 * np.sqrt(delta * (1 - delta) / n_trials)
    assert max(misses.values()) / n_trials <= allowed, misses
