"""The evidence for scores of any origin, on rows that they were not made from."""

from __future__ import annotations

from typing import Any

from auucmax._validation import check_column
from auucmax.data.pair import Pair, row_keys
from auucmax.data.trial import Trial
from auucmax.model.guarantee import held_out, without_guarantee
from auucmax.model.judge import LEVEL, arm_evidence, counted_range
from auucmax.results import Basis, Evidence, Missing, PolicyEvidence, Why



def judge_scores(trial: Trial, score: Any) -> Evidence:
    """The evidence for the scores of the rows of a trial, made by any other tool.

    The numbers hold if the scores were not made from these rows. Each arm is ranked by the same
    score.

    Examples
    --------
    >>> from auucmax.data import make_trial
    >>> trial = make_trial(2_000, n_features=3, random_state=0)
    >>> found = judge_scores(trial, trial.effect)
    >>> found.arms[0].gain.value > 0, found.basis
    (True, <Basis.NEW_ROWS: 'new rows'>)
    """
    scores = check_column(score, "the scores", trial.n_rows)
    arms = []
    for pair in Pair.each(trial, row_keys(trial)):
        pair.check_copies(all_columns=True)
        own = scores[pair.index]
        counted = counted_range(trial.roles.outcome, trial.y[pair.index])
        found = counted if isinstance(counted, Missing) else held_out(pair, own, counted, 1)
        certificate, missing = without_guarantee(found)
        arms.append(
            arm_evidence(pair, own, check=pair.check(), certificate=certificate, missing=missing)
        )
    return Evidence(
        roles=trial.roles,
        basis=Basis.NEW_ROWS,
        level=LEVEL,
        n_rows=trial.n_rows,
        n_folds=None,
        arms=tuple(arms),
        policy=PolicyEvidence(
            curve=arms[0].curve,
            rate=(),
            contrasts=(),
            certificate=None,
            missing=None if len(arms) == 1 else Missing(why=Why.OTHER_ARMS),
            people=(),
            segments=None,
        ),
        failed_check=any(one.missing == Missing(why=Why.FAILED_CHECK) for one in arms),
    )
