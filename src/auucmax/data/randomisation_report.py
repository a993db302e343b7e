"""The result of a randomisation check."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from importlib import import_module
from typing import Any

import pandas as pd

from auucmax.results import Shown

# A corrected p-value below this stops what would follow; one good trial in a hundred must not be.
STOP = 1e-4


class CheckWarning(UserWarning):
    """Warning: a randomisation check failed mildly or has open questions."""


class FailedCheckError(ValueError):
    """The trial does not look randomised, or a feature reveals the outcome.

    ``report``: the :class:`RandomisationReport` with the reasons, if rows were just checked.
    """

    exit_code = 1  # of commands: nothing is wrong with the input as such

    def __init__(self, message: str = "", report: RandomisationReport | None = None) -> None:
        super().__init__(message if report is None else f"{report.message} {message}".strip())
        self.report = report


@dataclass(frozen=True)
class RandomisationTest:
    """One test of one arm against the control (of all arms, for the sample ratio).

    ``name`` is "sample ratio", "chances", "likelihood ratio", "classifier", "missing values" or
    "missing outcomes"; ``adjusted_p_value`` is corrected by Holm's method over all tests of the
    report. ``few``: whether it counts fewer than 20 people of an arm.
    """

    name: str
    arm: str
    statistic: float
    p_value: float
    detail: str
    adjusted_p_value: float = 1.0
    few: bool = False


@dataclass(frozen=True)
class Suspect:
    """A suspicious feature, which should be looked at before it is used.

    ``target`` is "outcome" or "treatment"; ``measure`` is "AUC" or "Spearman" (of the feature with
    the target), "rows" (how many rows at one end of the feature all have the same target), "values"
    (how many values the feature has, all of them in one arm: it is missing in the other), or "p"
    (of the difference between the arms, for a feature that predicts the outcome). ``is_high``: it
    predicts the outcome so well that one must ask when it was recorded.
    """

    feature: str
    target: str
    measure: str
    value: float
    is_high: bool = False

    @property
    def is_after(self) -> bool:
        """Whether the feature was probably recorded after treatment.

        It determines the outcome or the arm almost without error. Treatment that merely depends on
        a feature was not randomised.
        """
        return self.target == "outcome" or self.measure not in ("rows", "p")


@dataclass(frozen=True, eq=False, repr=False)
class RandomisationReport(Shown):
    """Results of a randomisation check; printing shows the verdict first.

    Attributes
    ----------
    trial_name, n_rows, alpha
        What was tested, and the accepted probability of a false alarm.
    counts : dict of arm name to rows, control first
    expected_shares : dict of arm name to planned share, or None if none was given
    tests : tuple of RandomisationTest
    differences : DataFrame
        arm, feature, means of control and treated, and their standardised difference, the largest
        first; few, whether that is about fewer than 20 people of an arm.
    missing : DataFrame
        arm, feature, share missing in control and treated, and p_value, the smallest first; few,
        whether fewer than 20 people of an arm lack the value, or have it.
    suspects : tuple of Suspect
        Features that look like the outcome or the treatment in disguise.
    detectable_difference : float
        The standardised difference of a single feature that is detected with 80% power.
    notes : tuple of str
        What was not tested, and why.
    grouping : str
        Whether rows or clusters were tested, and why; empty if no groups were given.
    provided : tuple of str
        Features that were not tested, because the user named them as recorded after treatment.
    households : tuple of str
        Columns that look like a household or a shop, if no groups were given.
    doubts : tuple of Suspect
        Features that predict the outcome so well that one must ask when they were recorded.
    names : tuple of str
        Tested features that identify rows or groups.
    evened : str
        The rows on which arms were compared, if propensities were given; empty otherwise.
    """

    trial_name: str
    n_rows: int
    alpha: float
    counts: dict[str, int]
    expected_shares: dict[str, float] | None
    tests: tuple[RandomisationTest, ...]
    differences: pd.DataFrame
    missing: pd.DataFrame
    suspects: tuple[Suspect, ...]
    detectable_difference: float
    notes: tuple[str, ...]
    grouping: str = ""
    provided: tuple[str, ...] = ()
    households: tuple[str, ...] = ()
    doubts: tuple[Suspect, ...] = ()
    names: tuple[str, ...] = ()
    evened: str = ""

    @property
    def failures(self) -> tuple[RandomisationTest, ...]:
        """Tests that fail at the joint level ``alpha``."""
        return tuple(test for test in self.tests if test.adjusted_p_value <= self.alpha)

    @property
    def ok(self) -> bool:
        """Whether something was tested, nothing failed and no feature is suspicious."""
        return bool(self.tests) and not self.failures and not self.suspects

    @property
    def stops(self) -> bool:
        """Whether the failure is too clear to train a model on these rows."""
        return bool(self.suspects) or any(t.adjusted_p_value < STOP for t in self.failures)

    @property
    def treated_by(self) -> tuple[str, ...]:
        """Up to three features that treatment depends on individually."""
        names = [found.feature for found in self.suspects if not found.is_after]
        sure = {test.name for test in self.failures if test.adjusted_p_value < STOP}
        if sure & {"likelihood ratio", "classifier"}:
            table = self.differences
            large = table["difference"].abs() > self.detectable_difference
            # A level, "town=Oslo", stands for its feature.
            names += [str(name).partition("=")[0] for name in table["feature"][large].head(3)]
        return tuple(dict.fromkeys(names))

    @property
    def message(self) -> str:
        """Verdict, questions and advice in one line, for errors and warnings."""
        return str(import_module("auucmax.present.randomisation").message(self.to_dict()))

    def for_others(self) -> RandomisationReport:
        """The report without numbers of fewer than 20 people, for pages and files to hand on.

        Of their tests only the result (stops, fails, passes) is kept.
        """
        tests = []
        for test in self.tests:
            if test.few:
                p_value, adjusted = (
                    1.0 if own > self.alpha else min(self.alpha, STOP / 10 if own < STOP else 1.0)
                    for own in (test.p_value, test.adjusted_p_value)
                )
                detail = "fewer than 20 people of an arm: p is at most this"
                test = RandomisationTest(
                    test.name, test.arm, float("nan"), p_value, detail, adjusted, few=True
                )
            tests.append(test)
        differences, missing = (
            table[~table["few"].astype(bool)].reset_index(drop=True)
            for table in (self.differences, self.missing)
        )
        return replace(self, tests=tuple(tests), differences=differences, missing=missing)

    def to_dict(self) -> dict[str, Any]:
        """The numbers of the report as plain dictionaries."""
        found = asdict(self)
        for name in ("ok", "stops", "treated_by"):
            found[name] = getattr(self, name)
        found["failures"] = [asdict(test) for test in self.failures]
        for name in ("suspects", "doubts"):
            found[name] = [asdict(own) | {"is_after": own.is_after} for own in getattr(self, name)]
        for name in ("differences", "missing"):
            found[name] = found[name].to_dict("records")
        return found
