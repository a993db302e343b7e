"""Bounds from held-out rows: each against its formula, and the facts of their proofs."""

from itertools import permutations, product

import numpy as np
import pytest
from experiments.rival_bounds.held_out import (
    HELD_OUT_BOUNDS,
    agarwal_fixed_bound,
    assign_blocks,
    block_bernstein_bound,
    block_statistics,
    checked,
    dkw_bernstein_bound,
    mcdiarmid_bound,
    mcdiarmid_conditional_bound,
    per_class_bound,
    rate_limits,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from tests.strategies import small_trials

from auucmax import TwoModels, auuc_inference, auuc_score, load_hillstrom
from auucmax.certificates.blocks import block_floor

pytestmark = pytest.mark.gate

quick = settings(deadline=None, max_examples=100)
TARGETS = ["auuc", "gain"]
CENTRES = {"auuc": 0, "gain": 0.5}
FUNCTIONS = {entry.name: entry.function for entry in HELD_OUT_BOUNDS}
binary = small_trials(min_arm=2, outcomes=("binary",))


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


def test_gaps_on_half_of_hillstrom():
    """Held-out rows, scored by two logistic regressions of the other half."""
    trial = load_hillstrom()
    order = np.random.default_rng(0).permutation(trial.n_rows)
    train, test = np.array_split(order, 2)
    model = TwoModels().fit(trial.X.iloc[train], trial.y[train], treatment=trial.treatment[train])
    score, rows = model.predict(trial.X.iloc[test]), {"treatment": trial.treatment[test]}
    gaps = {name: bound(trial.y[test], score, **rows).gap for name, bound in FUNCTIONS.items()}
    assert gaps == pytest.approx(
        {"mcdiarmid": 0.0168, "mcdiarmid-conditional": 0.0056, "agarwal-fixed": 0.0088,
         "per-class": 0.0171, "dkw-bernstein": 0.0118, "block-bernstein": 0.0143,
         "asymptotic": 0.0046}, abs=3e-4,
    )  # fmt: skip


def other_rows_area(y, score, centre):
    """mean of y (share of the other rows below - centre), by pairs."""
    above = np.sign(score[:, None] - score[None, :]) / 2 + 0.5
    np.fill_diagonal(above, 0)
    return np.mean(y * (above.sum(axis=1) / (len(y) - 1) - centre))


@quick
@given(binary, st.sampled_from(TARGETS))
def test_mcdiarmid_equals_pairs(rows, target):
    bound = mcdiarmid_bound(rows.y, rows.score, treatment=rows.treated, target=target)
    slow = [
        other_rows_area(rows.y[arm], rows.score[arm], CENTRES[target])
        for arm in (rows.treated, ~rows.treated)
    ]
    assert bound.estimate == pytest.approx(slow[0] - slow[1], abs=1e-11)
    sizes = 1 / rows.treated.sum() + 1 / (~rows.treated).sum()
    assert bound.gap == pytest.approx(np.sqrt(sizes * np.log(20) / 2))


@quick
@given(binary, st.sampled_from(TARGETS), st.integers(0, 10**6))
def test_one_row_moves_the_estimate_by_at_most_one_over_its_arm(rows, target, number):
    """The heart of McDiarmid's inequality, for every place that the row could take."""
    k = number % len(rows.y)
    values = []
    for outcome, place in product((0.0, 1.0), [*rows.score, -1e9, 1e9]):
        y, score = rows.y.copy(), rows.score.copy()
        y[k], score[k] = outcome, place
        values.append(mcdiarmid_bound(y, score, treatment=rows.treated, target=target).estimate)
    n_arm = np.sum(rows.treated == rows.treated[k])
    assert np.ptp(values) <= 1 / n_arm + 1e-12


@quick
@given(small_trials(outcomes=("binary",)), st.sampled_from(TARGETS))
def test_conditional_estimates_are_the_separate_auuc(rows, target):
    value = auuc_score(rows.y, rows.score, treatment=rows.treated, ranking="separate")
    if target == "gain":
        value -= auuc_score(rows.y, 0 * rows.y, treatment=rows.treated)
    for name in ("mcdiarmid-conditional", "agarwal-fixed", "per-class"):
        bound = FUNCTIONS[name](rows.y, rows.score, treatment=rows.treated, target=target)
        assert bound.estimate == pytest.approx(value, abs=1e-12)


@settings(deadline=None, max_examples=40)
@given(small_trials(outcomes=("binary",), max_rows=12))
def test_the_squares_of_what_a_row_can_move_sum_to_at_most_v(rows):
    """V is what the gap of the conditional bound implies; scores move, outcomes stay."""
    given = {"treatment": rows.treated, "ranking": "separate"}
    squares = 0.0
    for k in range(len(rows.y)):
        values = []
        for place in (*rows.score, -1e9, 1e9):
            score = rows.score.copy()
            score[k] = place
            values.append(auuc_score(rows.y, score, **given))
        squares += np.ptp(values) ** 2
    gap = mcdiarmid_conditional_bound(rows.y, rows.score, treatment=rows.treated).gap
    assert squares <= 2 * gap**2 / np.log(20) + 1e-12


def test_conditional_gaps_by_class_counts():
    y, score, t = trial_rows(share=0.8)
    terms = list(class_terms(y, t))
    v2 = np.sqrt(sum(lam**2 * inverse for lam, inverse in terms) * np.log(1 / 0.1) / 2)
    given = {"treatment": t, "delta": 0.1}
    assert mcdiarmid_conditional_bound(y, score, **given).gap == pytest.approx(v2)
    agarwal = sum(lam * np.sqrt(inverse * np.log(2 / 0.1) / 2) for lam, inverse in terms)
    assert agarwal_fixed_bound(y, score, **given).gap == pytest.approx(agarwal)


@quick
@given(binary, st.sampled_from(TARGETS))
def test_dkw_bernstein_by_its_formula(rows, target):
    y, score, n, d = rows.y, rows.score, len(rows.y), 0.1
    eps, log_term = np.sqrt(np.log(2 / (0.2 * d)) / (2 * n)), np.log(2 / (0.8 * d))
    below = [np.mean(score < s) + np.mean(score == s) / 2 for s in score]
    z = y * (np.array(below) - CENTRES[target])
    arms = [rows.treated, ~rows.treated]
    gap = eps * sum(y[g].mean() for g in arms)
    gap += np.sqrt(2 * log_term * sum(z[g].var(ddof=1) / g.sum() for g in arms))
    gap += eps * np.sqrt(2 * log_term * sum(np.mean(y[g] ** 2) / (g.sum() - 1) for g in arms))
    gap += 7 * log_term / (3 * (min(g.sum() for g in arms) - 1))
    bound = dkw_bernstein_bound(y, score, treatment=rows.treated, target=target, delta=d)
    assert bound.estimate == pytest.approx(z[arms[0]].mean() - z[arms[1]].mean(), abs=1e-12)
    assert bound.gap == pytest.approx(gap)


@pytest.mark.parametrize("reverse", [1, -1])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("flip", [False, True])
def test_per_class_is_the_worst_case_within_its_limits(target, flip, reverse):
    y, score, t = trial_rows(share=0.7)
    y, score = (1 - y if flip else y), reverse * score
    parts = 4 if target == "auuc" else 8
    sides = []
    for arm, (_, inverse), sign in zip((t, ~t), class_terms(y, t), (1, -1), strict=True):
        error = np.sqrt(inverse * np.log(4 / 0.05) / 2)
        above = np.sign(score[arm][y[arm] == 1][:, None] - score[arm][y[arm] == 0]) / 2 + 0.5
        auc = np.clip(above.mean() - sign * error, 0, 1)
        p = np.linspace(*rate_limits(y[arm].sum(), arm.sum(), 0.05 / parts), 2001)
        theta = p * (1 - p) * auc + p**2 / 2 - p * CENTRES[target]
        sides.append(np.min(sign * theta))
    bound = per_class_bound(y, score, treatment=t, target=target)
    assert bound.lower == pytest.approx(sum(sides), abs=1e-7)


@pytest.mark.parametrize(("hits", "n"), [(0, 7), (3, 7), (7, 7), (40, 90)])
def test_rate_limits_are_those_of_clopper_and_pearson(hits, n):
    low, high = rate_limits(hits, n, 0.03)
    assert (low == 0) if hits == 0 else binom.sf(hits - 1, n, low) == pytest.approx(0.03)
    assert (high == 1) if hits == n else binom.cdf(hits, n, high) == pytest.approx(0.03)


@quick
@given(small_trials(min_arm=3, outcomes=("binary",)), st.integers(1, 3), st.integers(0, 10**6))
def test_block_statistics_by_their_definition(rows, n_blocks, seed):
    block = assign_blocks(rows.treated, n_blocks, np.random.default_rng(seed))
    valid, centre = checked(rows.y, rows.score, rows.treated, "gain")
    w, shapes = block_statistics(valid, block, centre)
    seen = set()
    for k in range(n_blocks):
        y, f, t = (column[block == k] for column in (rows.y, rows.score, rows.treated))
        seen.add((int(t.sum()), int((~t).sum())))
        v = [(np.sum(f < s) + (np.sum(f == s) - 1) / 2) / (len(f) - 1) - 0.5 for s in f]
        assert w[k] == pytest.approx(np.mean((y * v)[t]) - np.mean((y * v)[~t]), abs=1e-12)
    assert shapes == seen
    assert (np.ptp(np.array(sorted(seen)), axis=0) <= 1).all()


@pytest.mark.parametrize("centre", [0.0, 0.5])
@pytest.mark.parametrize(("a", "b"), [(1, 1), (2, 1), (1, 3), (2, 3)])
def test_no_block_leaves_its_range(a, b, centre):
    """All orders of the rows and all 0/1 outcomes (w is linear in y, and ties are averages)."""
    treated, values = np.arange(a + b) < a, []
    for order in permutations(range(a + b)):
        v = np.array(order) / (a + b - 1) - centre
        terms = np.array(list(product((0, 1), repeat=a + b))) * v
        values.extend(terms[:, treated].mean(axis=1) - terms[:, ~treated].mean(axis=1))
    assert min(values) == pytest.approx(-block_floor(a, b, centre))
    assert max(values) == pytest.approx(block_floor(b, a, centre))


def test_block_bernstein_by_its_formula():
    """40 treated and 20 control rows: six blocks of 6 or 7 and 3 or 4."""
    rng = np.random.default_rng(0)
    t = np.arange(60) < 40
    y, score = (rng.random(60) < 0.4).astype(float), rng.normal(size=60).round(1)
    rows, centre = checked(y, score, t, "auuc")
    w, shapes = block_statistics(rows, assign_blocks(t, 6, np.random.default_rng(5)), centre)
    assert shapes == {(7, 4), (7, 3), (6, 3)}
    length = max(block_floor(*s, 0.0) for s in shapes)
    length += max(block_floor(*s[::-1], 0.0) for s in shapes)
    log_term = np.log(2 / 0.05)
    gap = np.sqrt(2 * np.var(w, ddof=1) * log_term / 6) + 7 * length * log_term / 15
    bound = block_bernstein_bound(y, score, treatment=t, random_state=5)
    assert bound.estimate == pytest.approx(np.mean(w))
    assert bound.gap == pytest.approx(gap)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["mcdiarmid", "block-bernstein"])
def test_unbiased_over_all_samples_of_a_small_population(name, target, monkeypatch):
    """Three values of the score, two of them tied as one; every sample of 2 + 2 rows."""
    monkeypatch.setattr("experiments.rival_bounds.held_out.BLOCK_SIZE", 2)
    x_share, score = np.array([0.5, 0.3, 0.2]), np.array([1.0, 2.0, 2.0])
    rates = {True: np.array([0.2, 0.9, 0.5]), False: np.array([0.6, 0.3, 0.3])}
    treated = np.array([True, True, False, False])
    mid = np.array([0.25, 0.75, 0.75]) - CENTRES[target]
    truth = np.sum(x_share * (rates[True] - rates[False]) * mid)
    mean = 0.0
    for x in product(range(3), repeat=4):
        for y in product((0, 1), repeat=4):
            rows = list(zip(x, y, treated, strict=True))
            p = np.prod([x_share[i] * (rates[g][i] if o else 1 - rates[g][i]) for i, o, g in rows])
            bound = FUNCTIONS[name](y, score[list(x)], treatment=treated, target=target)
            mean += p * bound.estimate
    assert mean == pytest.approx(truth, abs=1e-12)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("entry", HELD_OUT_BOUNDS, ids=lambda entry: entry.name)
def test_every_bound(entry, target):
    y, score, t = trial_rows(share=0.7)
    bound = entry.function(y, score, treatment=t, target=target)
    assert (bound.name, bound.delta) == (entry.name, 0.05)
    assert bound.lower < bound.estimate < 0.5
    found = auuc_inference(y, score, treatment=t)
    assert bound.estimate == pytest.approx(
        {"auuc": found.estimate, "gain": found.gain}[target],
        abs=0.03 if entry.name == "block-bernstein" else 0.005,
    )
    surer = entry.function(y, score, treatment=t, target=target, delta=0.01)
    assert surer.lower < bound.lower
    monotone = entry.function(y, np.exp(score) - 7, treatment=t, target=target)
    assert monotone.lower == pytest.approx(bound.lower, abs=1e-12)
    y, score, t = trial_rows(1600, share=0.7)
    assert entry.function(y, score, treatment=t, target=target).gap < 0.56 * bound.gap


def test_other_outcomes_and_targets_are_refused():
    y, score, t = trial_rows(40)
    with pytest.raises(ValueError, match="y should be 0 or 1"):
        mcdiarmid_bound(2 * y, score, treatment=t)
    with pytest.raises(ValueError, match="target should be one of 'auuc', 'gain'"):
        mcdiarmid_bound(y, score, treatment=t, target="qini")
