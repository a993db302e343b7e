from itertools import permutations, product

import numpy as np
import pytest
from experiments.rival_bounds import (
    block_bernstein_bound,
    mcdiarmid_conditional_bound,
    per_class_bound,
    threshold_band_bound,
)
from experiments.rival_bounds.classical import held_out_rows
from experiments.rival_bounds.held_out import _block_statistics, _deal, rate_limits
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from tests.strategies import small_trials

from auucmax import load_hillstrom
from auucmax.certificates.blocks import block_floor

pytestmark = pytest.mark.gate

quick = settings(deadline=None, max_examples=100)
TARGETS = ["auuc", "gain"]


def trial_rows(n=400, seed=0, share=0.5):
    rng = np.random.default_rng(seed)
    score = rng.normal(size=n).round(1)
    t = rng.permutation(n) < share * n
    y = (rng.random(n) < 0.3 + 0.2 * t * (score > 0)).astype(float)
    return y, score, t


def class_terms(y, treated):
    """lam, 1/m+ + 1/m- of both arms."""
    for arm in (treated, ~treated):
        yield y[arm].mean() * (1 - y[arm].mean()), 1 / y[arm].sum() + 1 / (1 - y[arm]).sum()


@quick
@given(small_trials(outcomes=("binary",)), st.sampled_from(["counts", "rates"]), st.integers(1, 4))
def test_by_the_formulas(rows, form, n_candidates):
    y, score, t = rows.y, rows.score, rows.treated
    band = threshold_band_bound(y, score, treatment=t, form=form, n_candidates=n_candidates)
    d = 0.05 / n_candidates
    thresholds = [np.inf, *np.unique(score)[::-1]]
    assert band.threshold.tolist() == thresholds
    for k, s in enumerate(thresholds):
        value = {g: np.mean((y * (score >= s))[t == g]) for g in (True, False)}
        assert band.share[k] == pytest.approx(np.mean(score >= s))
        assert band.estimate[k] == pytest.approx(value[True] - value[False], abs=1e-12)
        if form == "counts":
            gap = sum(np.sqrt(np.log(2 / d) / (2 * np.sum(t == g))) for g in (True, False))
            assert band.estimate[k] - band.lower[k] == pytest.approx(gap)
            continue
        limits = {}
        for g, sign in ((True, -1), (False, 1)):
            n, m = np.sum(t == g), y[t == g].sum()
            rate = rate_limits(m, n, 0.05 / 4)[0 if g else 1]
            with np.errstate(divide="ignore"):
                error = np.sqrt(np.log(4 / d) / (2 * m))
            share = value[g] * n / m if m else 0.0
            limits[g] = rate * np.clip(share + sign * error, 0, 1)
        assert band.lower[k] == pytest.approx(limits[True] - limits[False], abs=1e-12)


def test_gaps_on_half_of_hillstrom():
    trial = load_hillstrom()
    half = np.random.default_rng(0).permutation(trial.n_rows)[: trial.n_rows // 2]
    y, t = trial.y[half], trial.treatment[half]
    score = np.random.default_rng(1).random(len(half))
    counts = threshold_band_bound(y, score, treatment=t)
    assert counts.estimate - counts.lower == pytest.approx(0.0263, abs=6e-5)
    rates = threshold_band_bound(y, score, treatment=t, form="rates")
    gap = rates.estimate - rates.lower
    for share in (0.1, 0.3, 0.5):
        place = np.searchsorted(rates.share, share)
        assert gap[place] == pytest.approx(0.010 + 0.0145 * share, abs=0.001)


def test_bad_input():
    y, score, t = [1, 0, 1, 0], [4, 3, 2, 1], [1, 1, 0, 0]
    with pytest.raises(ValueError, match="y should be 0 or 1"):
        threshold_band_bound([3, 0, 1, 0], score, treatment=t)
    with pytest.raises(ValueError, match="form should be one of 'counts', 'rates'"):
        threshold_band_bound(y, score, treatment=t, form="both")
    with pytest.raises(ValueError, match="delta should be a number strictly"):
        threshold_band_bound(y, score, treatment=t, delta=1)
    with pytest.raises(ValueError, match="n_candidates should be a whole number"):
        threshold_band_bound(y, score, treatment=t, n_candidates=0)


@pytest.mark.parametrize("n_candidates", [1, 5])
@pytest.mark.parametrize("reverse", [1, -1])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("flip", [False, True])
def test_per_class_is_the_worst_case_within_its_limits(target, flip, reverse, n_candidates):
    y, score, t = trial_rows(share=0.7)
    y, score = (1 - y if flip else y), reverse * score
    parts = 4 if target == "auuc" else 8
    sides = []
    for arm, (_, inverse), sign in zip((t, ~t), class_terms(y, t), (1, -1), strict=True):
        error = np.sqrt(inverse * np.log(4 * n_candidates / 0.05) / 2)
        above = np.sign(score[arm][y[arm] == 1][:, None] - score[arm][y[arm] == 0]) / 2 + 0.5
        auc = np.clip(above.mean() - sign * error, 0, 1)
        p = np.linspace(*rate_limits(y[arm].sum(), arm.sum(), 0.05 / parts), 2001)
        theta = p * (1 - p) * auc + p**2 / 2 - (p / 2 if target == "gain" else 0)
        sides.append(np.min(sign * theta))
    bound = per_class_bound(y, score, treatment=t, target=target, n_candidates=n_candidates)
    assert bound.lower == pytest.approx(sum(sides), abs=1e-7)


@pytest.mark.parametrize(("hits", "n"), [(0, 7), (3, 7), (7, 7), (40, 90)])
def test_rate_limits_are_those_of_clopper_and_pearson(hits, n):
    low, high = rate_limits(hits, n, 0.03)
    assert (low == 0) if hits == 0 else binom.sf(hits - 1, n, low) == pytest.approx(0.03)
    assert (high == 1) if hits == n else binom.cdf(hits, n, high) == pytest.approx(0.03)


def test_an_arm_of_one_class_says_nothing_of_auc():
    t, score = np.arange(8) < 4, np.arange(8.0)
    nobody = np.where(t, 0.0, score % 2)
    bound = per_class_bound(nobody, score, treatment=t)
    assert bound.lower <= -0.5 * rate_limits(2, 4, 0.05 / 4)[1] ** 2
    assert mcdiarmid_conditional_bound(nobody, score, treatment=t).gap == pytest.approx(
        np.sqrt(0.25 / 4 * np.log(20) / 2)
    )


@quick
@given(small_trials(min_arm=3, outcomes=("binary",)), st.integers(1, 3), st.integers(0, 10**6))
def test_block_statistics_by_their_definition(rows, n_blocks, seed):
    block = _deal(rows.treated, n_blocks, np.random.default_rng(seed))
    checked, _ = held_out_rows(
        rows.y, rows.score, treatment=rows.treated, control=None, outcome_range=(0, 1)
    )
    w, shapes = _block_statistics(checked, block, 0.5)
    seen = set()
    for k in range(n_blocks):
        y, f, t = (column[block == k] for column in (rows.y, rows.score, rows.treated))
        seen.add((int(t.sum()), int((~t).sum())))
        v = [(np.sum(f < s) + (np.sum(f == s) - 1) / 2) / (len(f) - 1) - 0.5 for s in f]
        expected = np.mean((y * v)[t]) - np.mean((y * v)[~t])
        assert w[k] == pytest.approx(expected, abs=1e-12)
    assert shapes == seen
    sizes = np.array(sorted(seen))
    assert (np.ptp(sizes, axis=0) <= 1).all()


@pytest.mark.parametrize("centre", [0.0, 0.5])
@pytest.mark.parametrize(("a", "b"), [(1, 1), (2, 1), (1, 3), (2, 3)])
def test_no_block_leaves_its_range(a, b, centre):
    """All orders of the rows and all 0/1 outcomes (w is linear in y, and ties are averages)."""
    treated = np.arange(a + b) < a
    values = []
    for order in permutations(range(a + b)):
        v = np.array(order) / (a + b - 1) - centre
        outcomes = np.array(list(product((0, 1), repeat=a + b)))
        values.extend(
            (outcomes * v)[:, treated].mean(axis=1) - (outcomes * v)[:, ~treated].mean(axis=1)
        )
    assert min(values) == pytest.approx(-block_floor(a, b, centre))
    assert max(values) == pytest.approx(block_floor(b, a, centre))


def test_block_bernstein_by_its_formula():
    """40 treated and 20 control rows: six blocks of 6 or 7 and 3 or 4."""
    rng = np.random.default_rng(0)
    t = np.arange(60) < 40
    y, score = (rng.random(60) < 0.4).astype(float), rng.normal(size=60).round(1)
    rows, _ = held_out_rows(y, score, treatment=t, control=None, outcome_range=(0, 1))
    w, shapes = _block_statistics(rows, _deal(t, 6, np.random.default_rng(5)), 0.0)
    assert shapes == {(7, 4), (7, 3), (6, 3)}
    length = max(block_floor(*s, 0.0) for s in shapes)
    length += max(block_floor(*s[::-1], 0.0) for s in shapes)
    log_term = np.log(2 * 3 / 0.05)
    gap = np.sqrt(2 * np.var(w, ddof=1) * log_term / 6) + 7 * length * log_term / 15
    bound = block_bernstein_bound(y, score, treatment=t, n_candidates=3, random_state=5)
    assert bound.estimate == pytest.approx(np.mean(w))
    assert bound.gap == pytest.approx(gap)


def test_dealing_is_repeatable_and_ignores_the_order_of_the_file():
    rng = np.random.default_rng(1)
    t = rng.random(2000) < 0.5
    y, score = (rng.random(2000) < 0.4).astype(float), rng.normal(size=2000)
    lowers = [block_bernstein_bound(y, score, treatment=t).lower for _ in range(2)]
    assert lowers[0] == lowers[1]
    assert block_bernstein_bound(y, score, treatment=t, random_state=7).lower != lowers[0]
    # Sorted by outcome, dealing in file order would make blocks that are alike inside.
    order = np.argsort(y, kind="stable")
    estimates = [
        block_bernstein_bound(y[o], score[o], treatment=t[o], random_state=s).estimate
        for s, o in product(range(20), (slice(None), order))
    ]
    spread = np.std(estimates[::2])
    assert np.mean(estimates[::2]) == pytest.approx(np.mean(estimates[1::2]), abs=spread)


def test_too_few_rows_for_blocks():
    rng = np.random.default_rng(0)
    given = {"treatment": np.arange(19) < 5}
    with pytest.raises(ValueError, match="two blocks of 10, each with both arms; got 5 treated"):
        block_bernstein_bound(np.ones(19), rng.random(19), **given)
    assert block_bernstein_bound(np.ones(19), rng.random(19), block_size=9, **given).gap > 1
    with pytest.raises(ValueError, match="block_size should be a whole number of at least 2"):
        block_bernstein_bound(np.ones(19), rng.random(19), block_size=1, **given)
