import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import small_trials

from auucmax import load_hillstrom
from auucmax.evaluation.curves import uplift_at_k
from auucmax.evaluation.policy import pehe, policy_risk


def by_hand(y, picked, treated):
    q = picked.mean()
    a = y[picked & treated].mean() if (picked & treated).any() else 0
    b = y[~picked & ~treated].mean() if (~picked & ~treated).any() else 0
    return 1 - (q * a + (1 - q) * b)


@settings(deadline=None, max_examples=100)
@given(small_trials())
def test_sign_rule_and_untied_shares_by_hand(rows):
    risk = policy_risk(rows.y, rows.score, treatment=rows.treated)
    assert risk == pytest.approx(by_hand(rows.y, rows.score > 0, rows.treated), abs=1e-12)
    for threshold in np.unique(rows.score):
        picked = rows.score >= threshold
        at_share = policy_risk(rows.y, rows.score, treatment=rows.treated, share=picked.mean())
        assert at_share == pytest.approx(by_hand(rows.y, picked, rows.treated), abs=1e-9)


@settings(deadline=None, max_examples=100)
@given(small_trials(), st.floats(0, 1), st.booleans())
def test_weighted_risk_equals_its_slow_twin(rows, share, at_knot):
    """Each row's part in the top share, row by row; copies stand for weights."""
    w = rows.weight
    if at_knot:
        share = w[rows.score >= rows.score[0]].sum() / w.sum()
    part = np.empty(len(w))
    for i in range(len(w)):
        above, level = w[rows.score > rows.score[i]].sum(), w[rows.score == rows.score[i]].sum()
        part[i] = np.clip((share * w.sum() - above) / level, 0, 1)
    value = 0.0
    for q, inside in ((share, part * rows.treated), (1 - share, (1 - part) * ~rows.treated)):
        if (inside * w).sum() > 1e-9:
            value += q * np.average(rows.y, weights=inside * w)
    risk = policy_risk(
        rows.y, rows.score, treatment=rows.treated, share=share, sample_weight=rows.weight
    )
    assert risk == pytest.approx(1 - value, abs=1e-5)
    copies = np.repeat(np.arange(len(w)), w.astype(int))
    by_sign = policy_risk(rows.y, rows.score, treatment=rows.treated, sample_weight=w)
    repeated = by_hand(rows.y[copies], rows.score[copies] > 0, rows.treated[copies])
    assert by_sign == pytest.approx(repeated, abs=1e-12)


def test_rounding_of_a_share_does_not_conjure_people():
    y, score = np.zeros(10), np.arange(10.0)[::-1]
    t = np.isin(np.arange(10), (3, 7))
    y[3] = 1
    for three_tenths in (0.3, 0.1 * 3, 0.1 + 0.2):
        assert policy_risk(y, score, treatment=t, share=three_tenths) == 1.0
        assert np.isnan(uplift_at_k(y, score, treatment=t, share=three_tenths))


def test_propensity_weighs_the_cells():
    y, score, t = np.array([1, 0, 1, 0.0]), np.array([2, 2, 1, 1.0]), np.array([1, 1, 1, 0])
    risk = policy_risk(y, score, treatment=t, propensity=[0.2, 0.8, 0.5, 0.5])
    assert risk == pytest.approx(1 - (5 + 2) / (5 + 1.25 + 2))  # all are picked


def test_nobody_and_everybody_on_hillstrom():
    trial = load_hillstrom()
    risk = policy_risk(trial.y, trial.X["history"], treatment=trial.treatment, share=[0, 1])
    assert risk == pytest.approx([1 - 0.106167, 1 - 0.151400], abs=1e-6)


def test_only_randomised_rows_count():
    rng = np.random.default_rng(0)
    y, score, t = rng.random(60), rng.normal(size=60), rng.random(60) < 0.5
    e = np.arange(60) < 40
    some = policy_risk(y, score, treatment=t, share=0.3, randomised=e)
    assert some == policy_risk(y[:40], score[:40], treatment=t[:40], share=0.3)
    with pytest.raises(ValueError, match="hold both arms"):
        policy_risk(y, score, treatment=t, randomised=np.zeros(60))


def test_pehe():
    assert pehe([1, 2], [1, 4]) == pytest.approx(2**0.5)
    assert pehe([1, 2], [1, 4], squared=True) == 2
    with pytest.raises(ValueError, match="as many rows"):
        pehe([1, 2], [1, 4, 3])
