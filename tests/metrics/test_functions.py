import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.metrics.reference import auuc_by_pairs
from tests.strategies import small_trials

from auucmax import load_hillstrom
from auucmax.metrics.functions import auuc_score

RANKINGS = ["joint", "separate"]
quick = settings(deadline=None, max_examples=150)


@quick
@given(small_trials(), st.sampled_from(RANKINGS), st.booleans(), st.booleans())
def test_ranks_equal_pairs(rows, ranking, weighted, adjusted):
    """With weights and propensities, and with any predictions taken off the outcome."""
    weight, propensity = (rows.weight, rows.propensity) if weighted else (None, None)
    model = np.cos(np.arange(len(rows.y))) * 3 + rows.score if adjusted else np.zeros(len(rows.y))
    fast = auuc_score(
        rows.y, rows.score, treatment=rows.treated, ranking=ranking, sample_weight=weight,
        propensity=propensity, outcome_model=model if adjusted else None,
    )  # fmt: skip
    slow = auuc_by_pairs(
        rows.y - model, rows.score, rows.treated, ranking=ranking, weight=weight,
        propensity=propensity,
    )  # fmt: skip
    assert fast == pytest.approx(slow, abs=1e-11 * (1 + np.abs(model).max()))


@quick
@given(small_trials(outcomes=("binary",)), st.sampled_from(RANKINGS), st.randoms())
def test_row_order_and_monotone_transforms_change_nothing_at_all(rows, ranking, random):
    shuffled = list(range(len(rows.y)))
    random.shuffle(shuffled)
    here = auuc_score(rows.y, rows.score, treatment=rows.treated, ranking=ranking)
    there = auuc_score(
        rows.y[shuffled],
        np.arctan(rows.score[shuffled] / 1e6) * 3 + 5,
        treatment=rows.treated[shuffled],
        ranking=ranking,
    )
    assert here == there


@quick
@given(small_trials(outcomes=("binary",)), st.sampled_from(RANKINGS))
def test_constant_score_is_exactly_half_the_effect(rows, ranking):
    constant = np.full(len(rows.y), 0.3)
    value = auuc_score(rows.y, constant, treatment=rows.treated, ranking=ranking)
    half = rows.y[rows.treated].sum() / (2 * rows.treated.sum())
    half -= rows.y[~rows.treated].sum() / (2 * (~rows.treated).sum())
    assert value == half


@quick
@given(small_trials(outcomes=("binary",)))
def test_separate_ranking_is_the_decomposition_into_two_aucs(rows):
    """lam_T AUC_T + p_T^2/2 - lam_C AUC_C - p_C^2/2 (Proposition 1)."""
    total = 0.0
    for arm, sign in ((True, 1), (False, -1)):
        y, score = rows.y[rows.treated == arm], rows.score[rows.treated == arm]
        winners, losers, p = score[y == 1], score[y == 0], y.mean()
        auc = 0.0
        if len(winners) and len(losers):
            auc = np.mean(np.sign(winners[:, None] - losers[None, :]) / 2 + 0.5)
        total += sign * (p * (1 - p) * auc + p**2 / 2)
    value = auuc_score(rows.y, rows.score, treatment=rows.treated, ranking="separate")
    assert value == pytest.approx(total, abs=1e-12)


def test_hillstrom_facts():
    trial = load_hillstrom()
    constant = np.zeros(trial.n_rows)
    assert auuc_score(trial.y, constant, treatment=trial.treatment) == pytest.approx(
        0.022617, abs=5e-7
    )
    # The extremes of the separate ranking: gamma, and gamma - lam_T - lam_C.
    best = np.where(trial.treatment == 1, trial.y, 1 - trial.y)
    for score, fact in ((best, 0.134304), (-best, -0.089070)):
        value = auuc_score(trial.y, score, treatment=trial.treatment, ranking="separate")
        assert value == pytest.approx(fact, abs=5e-7)


def test_joint_ranks_do_not():
    """Nobody is helped; AUUC is the luck of ranks times an outcome far from 0."""
    assert auuc_score([9, 9], [2, 1], treatment=[1, 0]) == 4.5
    assert auuc_score([9, 9], [2, 1], treatment=[1, 0], outcome_model=[9, 9]) == 0.0


def test_the_mixed_model_gives_the_augmented_estimator():
    """m = (1 - e) m1 + e m0: AUUC is the mean of u times the AIPW effect of each row."""
    rng = np.random.default_rng(3)
    n, e = 40, 0.75
    y, score, m1, m0 = rng.normal(size=(4, n))
    t = rng.permutation(n) < e * n
    u = (np.argsort(np.argsort(score)) + 0.5) / n
    effect = m1 - m0 + t * (y - m1) / e - ~t * (y - m0) / (1 - e)
    value = auuc_score(y, score, treatment=t, outcome_model=(1 - e) * m1 + e * m0)
    assert value == pytest.approx(np.mean(u * effect), abs=1e-12)
