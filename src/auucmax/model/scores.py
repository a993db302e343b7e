"""Evidence for scores from any source, on rows they were not derived from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from auucmax._errors import InputError
from auucmax._validation import check_column, listed
from auucmax.data.pair import Pair, row_keys
from auucmax.data.trial import Trial
from auucmax.model.guarantee import held_out
from auucmax.model.judge import LEVEL, arm_evidence
from auucmax.results import ArmEvidence, Basis, Evidence, Missing, PolicyEvidence, Why

_KEY = "0" * 16  # groups are numbered by hashes


def judge_scores(trial: Trial, score: Any) -> Evidence:
    """Evaluate scores of the rows of a trial, made by any tool.

    The numbers hold if the scores were not made from these rows.

    Examples
    --------
    >>> from auucmax.data import make_trial
    >>> trial = make_trial(2_000, n_features=4, random_state=0)
    >>> found = judge_scores(trial, trial.effect)
    >>> found.arms[0].gain.value > 0, found.basis
    (True, <Basis.NEW_ROWS: 'new rows'>)
    """
    if len(trial.roles.arms) > 2:
        raise InputError(
            "treated", "the label of one arm: one score ranks people for one arm",
            listed(trial.roles.arms[1:]), "Name the arm.",
        )  # fmt: skip
    (pair,) = Pair.each(trial, row_keys(trial))
    pair.check_copies(all_columns=True)
    own = check_column(score, "the scores", trial.n_rows)[pair.index]
    arm = arm_evidence(pair, own, check=pair.check(), guarantee=held_out(pair, own, 1)[0])
    return on_new_rows(trial, [arm], PolicyEvidence(curve=arm.curve))


def on_new_rows(trial: Trial, arms: Sequence[ArmEvidence], policy: PolicyEvidence) -> Evidence:
    """Evidence on rows that no model was trained on."""
    failed = Missing(why=Why.FAILED_CHECK)
    return Evidence(
        roles=trial.roles, basis=Basis.NEW_ROWS, level=LEVEL, n_rows=trial.n_rows, n_folds=None,
        arms=tuple(arms), policy=policy, failed_check=any(one.missing == failed for one in arms),
    )  # fmt: skip
