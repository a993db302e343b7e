"""Check of a trial before fitting: randomisation, effects and power."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from auucmax._validation import check_level
from auucmax.data import FailedCheckError, RandomisationReport
from auucmax.data.pair import Pair, row_keys
from auucmax.data.trial import Trial
from auucmax.encoding import TableEncoder
from auucmax.metrics import Levels
from auucmax.model.judge import LEVEL, describe_check, describe_rows, effect_of
from auucmax.model.pipeline import quantities_of
from auucmax.results import ArmRows, Estimate, Shown
from auucmax.targeting.choose import by_arm

POWER = 0.8  #: with which an effect of the detectable size is significant


@dataclass(frozen=True, eq=False)
class ArmCheck:
    """One arm against the control.

    ``rows`` of the control and of the arm; ``detectable``: the average effect that is significant
    with a probability of 80%, None if the standard error is not known.
    """

    arm: str
    report: RandomisationReport
    rows: tuple[ArmRows, ArmRows]
    effect: Estimate
    detectable: float | None

    @property
    def failed(self) -> bool:
        """Whether the check fails or nothing could be tested."""
        return self.report.stops or not self.report.tests


@dataclass(frozen=True, eq=False, repr=False)
class TrialCheck(Shown):
    """Results of the check of a trial, by arm.

    ``codes`` and ``quantities``: columns of whole numbers that a fit takes for categories, and for
    quantities, unless ``numeric`` or ``categorical`` name them.
    """

    trial: Trial
    arms: tuple[ArmCheck, ...]
    codes: tuple[str, ...]
    quantities: tuple[str, ...]

    @property
    def failed(self) -> bool:
        """Whether the check of any arm fails."""
        return any(one.failed for one in self.arms)

    def require(self) -> None:
        """Raise a FailedCheckError if the trial does not look randomised."""
        for one in self.arms:
            if one.report.stops:
                raise FailedCheckError(report=one.report)

    def to_json(self) -> dict[str, Any]:
        """All numbers as plain JSON."""
        arms = [
            {
                "arm": one.arm,
                "failed": one.failed,
                "rows": [own.to_json() for own in one.rows],
                "effect": one.effect.to_json(),
                "detectable_effect": one.detectable,
                "power": POWER,
                "randomisation": describe_check(one.report),
            }
            for one in self.arms
        ]
        return {
            "failed": self.failed,
            "roles": self.trial.roles.to_json(),
            "n_rows": self.trial.n_rows,
            "arms": arms,
            "codes": list(self.codes),
            "quantities": list(self.quantities),
            "other_arms": self.trial.other_arms or {},
        }


def check_trial(
    trial: Trial, *, expected_share: float | Mapping[Any, float] | None = None
) -> TrialCheck:
    """Check the randomisation of every arm against the control, as ``fit`` does.

    Parameters
    ----------
    trial : Trial
        From :func:`auucmax.read_trial`.
    expected_share : float or mapping, optional
        Planned share of the treated rows; with several arms the share of each arm, by label.

    Examples
    --------
    >>> from auucmax.data import make_trial
    >>> found = check_trial(make_trial(2_000, n_features=4, random_state=0), expected_share=0.5)
    >>> found.failed, round(found.arms[0].effect.value, 1)
    (False, 0.1)
    """
    labels = trial.roles.arms[1:]
    planned: dict[str, float] = {}  # of each arm, relative to arm plus control
    if expected_share is not None:
        if isinstance(expected_share, Mapping):
            shares = by_arm(expected_share, labels, "expected_share")
        else:
            check_level(expected_share, "expected_share")
            shares = [expected_share / len(labels)] * len(labels)
        control = 1 - sum(shares)
        check_level(min(*shares, control), "expected_share")
        planned = {arm: own / (own + control) for arm, own in zip(labels, shares, strict=True)}
    arms = []
    for pair in Pair.each(trial, row_keys(trial)):
        report = pair.check(expected_share=planned.get(pair.name))
        levels = Levels.of(pair.y, np.zeros(len(pair.y)), **pair.design)
        effect = effect_of(levels.band([1.0], level=LEVEL))
        multiple = float(ndtri(0.5 + LEVEL / 2) + ndtri(POWER))
        detectable = None if effect.se is None else multiple * effect.se
        arms.append(ArmCheck(pair.name, report, describe_rows(pair), effect, detectable))
    roles, codes = trial.roles, tuple[str, ...]()
    with warnings.catch_warnings(), suppress(ValueError, OverflowError):  # a fit reports them
        warnings.simplefilter("ignore", UserWarning)
        encoder = TableEncoder(categorical=roles.categorical, numeric=roles.numeric)
        codes = tuple(encoder.fit(trial.X).code_columns)
    return TrialCheck(trial, tuple(arms), codes, quantities_of(trial))
