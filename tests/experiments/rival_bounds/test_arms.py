import numpy as np
import pytest
from experiments.rival_bounds.arms import (
    Arm,
    auuc_of_risks,
    binary_rows,
    class_rows,
)
from hypothesis import given, settings
from tests.strategies import small_trials

from auucmax import auuc_score

pytestmark = pytest.mark.gate


def auc(first, last):
    wins = np.sign(first[:, None] - last)
    return (wins.mean() + 1) / 2


@settings(deadline=None)
@given(small_trials(min_arm=2, outcomes=("binary",)))
def test_auuc_from_ranking_risks(trial):
    """Proposition 1: AUUC with arms ranked separately is gamma - lam_T R_T - lam_C R_C."""
    y = trial.y.copy()
    for arm in (trial.treated, ~trial.treated):
        y[np.flatnonzero(arm)[:2]] = [0, 1]
    rows, arms = binary_rows(y, trial.score, treatment=trial.treated)
    treated, control = (
        auc(rows.score[classes.positive], rows.score[classes.negative])
        for classes in class_rows(rows)
    )
    expected = auuc_score(y, trial.score, treatment=trial.treated, ranking="separate")
    assert auuc_of_risks(arms, 1 - treated, control) == pytest.approx(expected, abs=1e-12)
    assert [(arm.positive, arm.negative) for arm in arms] == [
        (len(classes.positive), len(classes.negative)) for classes in class_rows(rows)
    ]


def test_the_squares_of_what_a_row_can_move():
    arm = Arm(30, 170)
    assert arm.weight**2 * arm.inverse_sizes == pytest.approx(arm.weight / arm.size)


def test_bad_rows():
    score, t = [1, 2, 3, 4], [1, 1, 0, 0]
    with pytest.raises(ValueError, match=r"y should be 0 or 1.*got other values.*auuc_inference"):
        binary_rows([0, 1, 2, 1], score, treatment=t)
    with pytest.raises(ValueError, match="both outcomes, got 2 positive and 0 negative"):
        binary_rows([1, 1, 0, 1], score, treatment=t)
    with pytest.raises(ValueError, match="score should be of as many rows"):
        binary_rows([1, 0, 0, 1], score[:3], treatment=t)
