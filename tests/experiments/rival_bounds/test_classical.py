from itertools import product

import numpy as np
import pytest
from experiments.rival_bounds import (
    HELD_OUT_BOUNDS,
    agarwal_fixed_bound,
    asymptotic_bound,
    dkw_bernstein_bound,
    mcdiarmid_bound,
    mcdiarmid_conditional_bound,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import small_trials

from auucmax import TwoModels, auuc_inference, auuc_score, load_hillstrom

quick = settings(deadline=None, max_examples=100)
TARGETS = ["auuc", "gain"]
FUNCTIONS = {entry.name: entry.function for entry in HELD_OUT_BOUNDS}
RANGED = ["mcdiarmid", "dkw-bernstein", "block-bernstein"]
BINARY = ["mcdiarmid-conditional", "agarwal-fixed", "per-class"]


def trial_rows(n=400, seed=0, share=0.5):
    rng = np.random.default_rng(seed)
    score = rng.normal(size=n).round(1)
    t = rng.permutation(n) < share * n
    y = (rng.random(n) < 0.3 + 0.2 * t * (score > 0)).astype(float)
    return y, score, t


@pytest.fixture(scope="module")
def half_of_hillstrom():
    """Held-out rows, scored by two logistic regressions of the other half."""
    trial = load_hillstrom()
    order = np.random.default_rng(0).permutation(trial.n_rows)
    train, test = np.array_split(order, 2)
    model = TwoModels().fit(trial.X.iloc[train], trial.y[train], treatment=trial.treatment[train])
    return trial.y[test], model.predict(trial.X.iloc[test]), trial.treatment[test]


@pytest.mark.parametrize(
    ("name", "n_candidates", "gap", "places"),
    [
        ("mcdiarmid-conditional", 1, 0.0056, 6e-5),
        ("mcdiarmid-conditional", 6, 0.0071, 6e-5),
        ("mcdiarmid", 1, 0.0168, 6e-5),
        ("agarwal-fixed", 1, 0.0088, 6e-5),
        ("per-class", 1, 0.0171, 2e-4),
        ("dkw-bernstein", 1, 0.0118, 3e-4),
        ("block-bernstein", 1, 0.0143, 3e-4),
        ("asymptotic", 1, 0.0046, 1e-4),
    ],
)
def test_gaps_on_half_of_hillstrom(half_of_hillstrom, name, n_candidates, gap, places):
    y, score, t = half_of_hillstrom
    bound = FUNCTIONS[name](y, score, treatment=t, n_candidates=n_candidates)
    assert bound.gap == pytest.approx(gap, abs=places)


def other_rows_area(y, score, centre):
    """mean of y (share of the other rows below - centre), by pairs."""
    above = np.sign(score[:, None] - score[None, :]) / 2 + 0.5
    np.fill_diagonal(above, 0)
    return np.mean(y * (above.sum(axis=1) / (len(y) - 1) - centre))


def by_pairs(y, score, treated, target):
    centre = {"auuc": 0, "gain": 0.5}[target]
    return other_rows_area(y[treated], score[treated], centre) - other_rows_area(
        y[~treated], score[~treated], centre
    )


@quick
@given(small_trials(min_arm=2), st.sampled_from(TARGETS))
def test_mcdiarmid_equals_pairs(rows, target):
    bound = mcdiarmid_bound(
        rows.y, rows.score, treatment=rows.treated, target=target, outcome_range=(-38, 42)
    )
    slow = by_pairs(rows.y, rows.score, rows.treated, target)
    assert bound.estimate == pytest.approx(slow, abs=1e-11)
    sizes = 1 / rows.treated.sum() + 1 / (~rows.treated).sum()
    assert bound.gap == pytest.approx(80 * np.sqrt(sizes * np.log(20) / 2))


@pytest.mark.gate
@quick
@given(
    small_trials(min_arm=2, outcomes=("binary",)), st.sampled_from(TARGETS), st.integers(0, 10**6)
)
def test_one_row_moves_the_estimate_by_at_most_one_over_its_arm(rows, target, number):
    """The heart of McDiarmid's inequality, for every place that the row could take."""
    k = number % len(rows.y)
    values = []
    for outcome, place in product((0.0, 0.4, 1.0), [*rows.score, -1e9, 1e9]):
        y, score = rows.y.copy(), rows.score.copy()
        y[k], score[k] = outcome, place
        values.append(mcdiarmid_bound(y, score, treatment=rows.treated, target=target).estimate)
    n_arm = np.sum(rows.treated == rows.treated[k])
    assert np.ptp(values) <= 1 / n_arm + 1e-12


def test_ranked_together_one_row_moves_more():
    """Treated rows without, controls with a response: a treated row from the bottom to the top."""
    t, y = np.arange(10) < 5, np.where(np.arange(10) < 5, 0.0, 1.0)
    middle = np.arange(10.0)

    def joint(outcome, place):
        score, new = middle.copy(), y.copy()
        score[0], new[0] = place, outcome
        below = np.sign(score[:, None] - score[None, :]) / 2 + 0.5
        v = (below.sum(axis=1) - 0.5) / 9
        return np.mean((new * v)[t]) - np.mean((new * v)[~t])

    assert joint(1, 99) - joint(0, -99) == pytest.approx(1 / 5 + 1 / 9)


@pytest.mark.quick_cases("block-bernstein-auuc")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["mcdiarmid", "block-bernstein"])
def test_unbiased_over_all_samples_of_a_small_population(name, target):
    """Three values of the score, two of them tied as one; every sample of 2 + 2 rows."""
    x_share, score = np.array([0.5, 0.3, 0.2]), np.array([1.0, 2.0, 2.0])
    rates = {True: np.array([0.2, 0.9, 0.5]), False: np.array([0.6, 0.3, 0.3])}
    treated = np.array([True, True, False, False])
    mid = np.array([0.25, 0.75, 0.75]) - (0.5 if target == "gain" else 0)
    truth = np.sum(x_share * (rates[True] - rates[False]) * mid)
    options = {"block_size": 2} if name == "block-bernstein" else {}
    mean = 0.0
    for x in product(range(3), repeat=4):
        for y in product((0, 1), repeat=4):
            rows = list(zip(x, y, treated, strict=True))
            p = np.prod([x_share[i] * (rates[g][i] if o else 1 - rates[g][i]) for i, o, g in rows])
            bound = FUNCTIONS[name](y, score[list(x)], treatment=treated, target=target, **options)
            mean += p * bound.estimate
    assert mean == pytest.approx(truth, abs=1e-12)


@quick
@given(small_trials(outcomes=("binary",)), st.sampled_from(TARGETS))
def test_conditional_estimates_are_the_separate_auuc(rows, target):
    value = auuc_score(rows.y, rows.score, treatment=rows.treated, ranking="separate")
    if target == "gain":
        value -= auuc_score(rows.y, 0 * rows.y, treatment=rows.treated)
    for name in BINARY:
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


def class_terms(y, treated):
    """lam, 1/m+ + 1/m- of both arms."""
    for arm in (treated, ~treated):
        yield y[arm].mean() * (1 - y[arm].mean()), 1 / y[arm].sum() + 1 / (1 - y[arm]).sum()


def test_conditional_gaps_by_class_counts():
    y, score, t = trial_rows(share=0.8)
    terms = list(class_terms(y, t))
    v2 = np.sqrt(sum(lam**2 * inverse for lam, inverse in terms) * np.log(3 / 0.1) / 2)
    given = {"treatment": t, "delta": 0.1, "n_candidates": 3}
    assert mcdiarmid_conditional_bound(y, score, **given).gap == pytest.approx(v2)
    agarwal = sum(lam * np.sqrt(inverse * np.log(6 / 0.1) / 2) for lam, inverse in terms)
    assert agarwal_fixed_bound(y, score, **given).gap == pytest.approx(agarwal)


@pytest.mark.parametrize("target", TARGETS)
def test_asymptotic_is_one_side_of_the_interval(target):
    y, score, t = trial_rows()
    model = 0.3 + 0.01 * score
    for option in ({}, {"outcome_model": model}):
        result = auuc_inference(y, score, treatment=t, level=0.9, **option)
        bound = asymptotic_bound(y, score, treatment=t, target=target, **option)
        interval = result.interval if target == "auuc" else result.gain_interval
        assert bound.lower == interval[0]
    many = asymptotic_bound(y, score, treatment=t, n_candidates=10)
    assert many.lower == auuc_inference(y, score, treatment=t, level=0.99).interval[0]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("entry", HELD_OUT_BOUNDS, ids=lambda entry: entry.name)
def test_every_bound(entry, target):
    y, score, t = trial_rows(share=0.7)
    bound = entry.function(y, score, treatment=t, target=target)
    assert (bound.name, bound.delta) == (entry.name, 0.05)
    assert bound.lower < bound.estimate < 0.5
    assert bound.estimate == pytest.approx(
        getattr(auuc_inference(y, score, treatment=t), {"auuc": "estimate"}.get(target, "gain")),
        abs=0.03 if entry.name == "block-bernstein" else 0.005,
    )
    surer = entry.function(y, score, treatment=t, target=target, delta=0.01)
    chosen = entry.function(y, score, treatment=t, target=target, n_candidates=5)
    assert surer.lower <= chosen.lower < bound.lower
    monotone = entry.function(y, np.exp(score) - 7, treatment=t, target=target)
    assert monotone.lower == pytest.approx(bound.lower, abs=1e-12)
    labels = np.where(t, "mail", "none")
    labelled = entry.function(y, score, treatment=labels, target=target, control="none")
    assert labelled.lower == bound.lower
    if entry.name != "block-bernstein":  # which deals rows at random
        order = np.argsort(y, kind="stable")
        again = entry.function(y[order], score[order], treatment=t[order], target=target)
        assert again.lower == pytest.approx(bound.lower, abs=1e-12)


@pytest.mark.parametrize("entry", HELD_OUT_BOUNDS, ids=lambda entry: entry.name)
def test_four_times_the_rows_at_least_halve_the_gap(entry):
    gaps = []
    for n in (2000, 8000):
        y, score, t = trial_rows(n)
        gaps.append(entry.function(y, score, treatment=t).gap)
    assert gaps[1] < 0.53 * gaps[0]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", RANGED)
def test_outcome_range_shifts_and_scales(name, target):
    y, score, t = trial_rows()
    plain = FUNCTIONS[name](y, score, treatment=t, target=target)
    scaled = FUNCTIONS[name](
        100 * y - 20, score, treatment=t, target=target, outcome_range=(-20, 80)
    )
    assert scaled.lower == pytest.approx(100 * plain.lower)
    assert scaled.estimate == pytest.approx(100 * plain.estimate)


def test_registry_entries_say_what_they_are():
    names = [entry.name for entry in HELD_OUT_BOUNDS]
    assert len(set(names)) == len(names) == 7
    for entry in HELD_OUT_BOUNDS:
        assert entry.rows == "held out"
        assert entry.validity.startswith("no guarantee" if entry.name == "asymptotic" else "holds")
        assert entry.ranking in ("joint", "separate")


@pytest.mark.parametrize("entry", HELD_OUT_BOUNDS, ids=lambda entry: entry.name)
@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"delta": 0}, "delta should be a number strictly between 0 and 1"),
        ({"n_candidates": 0}, "n_candidates should be a whole number of at least 1"),
        ({"n_candidates": 1.5}, "n_candidates should be a whole number of at least 1"),
        ({"target": "qini"}, "target should be one of 'auuc', 'gain'"),
        ({"control": "none"}, "control should be one of the labels"),
    ],
)
def test_bad_options(entry, option, message):
    y, score, t = trial_rows(40)
    with pytest.raises(ValueError, match=message):
        entry.function(y, score, treatment=t.astype(int), **option)


@pytest.mark.parametrize("name", BINARY)
def test_binary_outcomes_only(name):
    with pytest.raises(ValueError, match="y should be 0 or 1 for this bound"):
        FUNCTIONS[name]([0.5, 0, 1, 1], [1, 2, 3, 4], treatment=[1, 1, 0, 0])


@pytest.mark.parametrize("name", RANGED)
def test_bad_ranges_and_too_few_rows(name):
    y, score, t = trial_rows(40)
    with pytest.raises(ValueError, match="known beforehand, 0 to 1, got"):
        FUNCTIONS[name](2 * y, score, treatment=t)
    for outcome_range in ((1, 0), (0, np.inf), (0, np.nan), 1, ("a", "b"), (0, 1, 2)):
        with pytest.raises(ValueError, match="outcome_range should be two finite numbers"):
            FUNCTIONS[name](y, score, treatment=t, outcome_range=outcome_range)
    with pytest.raises(ValueError, match="each arm should have at least two rows, got 1 treated"):
        FUNCTIONS[name](y, score, treatment=np.arange(40) == 3)


@quick
@given(
    small_trials(min_arm=2, outcomes=("binary",)),
    st.sampled_from(["auuc", "gain"]),
    st.integers(1, 9),
)
def test_dkw_bernstein_by_its_formula(rows, target, n_candidates):
    y, score, n = rows.y, rows.score, len(rows.y)
    d = 0.1 / n_candidates
    eps, log_term = np.sqrt(np.log(2 / (0.2 * d)) / (2 * n)), np.log(2 / (0.8 * d))
    below = [np.mean(score < s) + np.mean(score == s) / 2 for s in score]
    z = y * (np.array(below) - (0.5 if target == "gain" else 0.0))
    arms = [rows.treated, ~rows.treated]
    gap = eps * sum(y[g].mean() for g in arms)
    gap += np.sqrt(2 * log_term * sum(z[g].var(ddof=1) / g.sum() for g in arms))
    gap += eps * np.sqrt(2 * log_term * sum(np.mean(y[g] ** 2) / (g.sum() - 1) for g in arms))
    gap += 7 * log_term / (3 * (min(g.sum() for g in arms) - 1))
    bound = dkw_bernstein_bound(
        y, score, treatment=rows.treated, target=target, delta=0.1, n_candidates=n_candidates
    )
    assert bound.estimate == pytest.approx(z[arms[0]].mean() - z[arms[1]].mean(), abs=1e-12)
    assert bound.gap == pytest.approx(gap)


@settings(deadline=None, max_examples=40)
@given(small_trials(min_arm=2, max_rows=12), st.integers(0, 10**6))
def test_the_variance_of_two_samples_bounds_itself(rows, number):
    """What the proof uses: W falls by (z_k - mean of the others)^2 / n_g^2 and no further."""
    rng = np.random.default_rng(number)
    z = rng.random(len(rows.y))
    arms = [rows.treated, ~rows.treated]

    def variance(values):
        return sum(values[g].var(ddof=1) / g.sum() for g in arms)

    drops, smallest = [], min(g.sum() for g in arms)
    for k in range(len(z)):
        own = rows.treated == rows.treated[k]
        others = own & (np.arange(len(z)) != k)
        lowest = min(
            variance(np.where(np.arange(len(z)) == k, value, z))
            for value in (z[others].mean(), *np.linspace(0, 1, 5))
        )
        drops.append(variance(z) - lowest)
        assert drops[-1] == pytest.approx((z[k] - z[others].mean()) ** 2 / own.sum() ** 2)
    scaled = smallest**2 * np.array(drops)
    assert scaled.max() <= 1
    limit = smallest / (smallest - 1) * smallest**2 * variance(z)
    assert np.sum(scaled**2) <= limit + 1e-12
