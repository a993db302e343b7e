import numpy as np
import pytest
from hypothesis import given, settings
from tests.strategies import small_trials

from auucmax import load_hillstrom
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
