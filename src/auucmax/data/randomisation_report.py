"""What a check of the randomisation found: its tests, the verdict, what to ask and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from auucmax._messages import visible
from auucmax._shown import Shown
from auucmax.data.balance import SMALL, Suspect
from auucmax.data.few import rounded, significant

_GROUPS_ASKED = (
    "Do rows of one {} belong together, as of a household or a shop? Treatment goes by it. Then "
    "pass groups={!r}: without, intervals and certificates are too good, and the tests may blame a "
    "fair trial."
)
_CHANCES_ASKED = (
    "If chances differed by design (strata, waves, exploration), pass propensity=COLUMN, with the "
    "chance of treatment that each row had."
)
# What to do about arms, or strata, of another size than planned.
_SIZES_ADVICE = {
    "sample ratio": "Find out which rows were lost or added after assignment: no analysis of the "
    "rows that are left can repair it.",
    "chances": "Find out which chances rows had by design, and whether rows were lost after "
    "assignment: propensity should be the chance of being treated, not that of the arm that the "
    "row is in.",
}
# A corrected p-value below this stops what would follow; one good trial in a hundred must not be.
STOP = 1e-4
# Below this, a check that passes remarks on it.
REMARK = 0.05


class FailedCheckError(ValueError):
    """The rows do not look like those of a randomised trial, or a feature gives the outcome away.

    ``report`` is the :class:`RandomisationReport` that says so, if rows were just checked.
    """

    exit_code = 1  # of commands: nothing is wrong with the input as such

    def __init__(self, message: str, report: RandomisationReport | None = None) -> None:
        super().__init__(message)
        self.report = report


@dataclass(frozen=True)
class RandomisationTest:
    """One test of one arm against the control (of all arms, for the sample ratio).

    ``name`` is "sample ratio", "chances", "likelihood ratio", "classifier", "missing values" or
    "missing outcomes"; ``adjusted_p_value`` is corrected by Holm's method over all tests of the
    report. ``few``: what it counts, fewer than 20 people of an arm have.
    """

    name: str
    arm: str
    statistic: float
    p_value: float
    detail: str
    adjusted_p_value: float = 1.0
    few: bool = False

    def for_others(self, alpha: float) -> RandomisationTest:
        """Of few people: whether it stops, fails or neither, and no number."""
        if not self.few:
            return self
        p_values = [
            1.0 if own > alpha else min(alpha, STOP / 10) if own < STOP else alpha
            for own in (self.p_value, self.adjusted_p_value)
        ]
        detail = "of few people of an arm, so that p is told as at most this"
        return RandomisationTest(
            self.name, self.arm, float("nan"), p_values[0], detail, p_values[1], few=True
        )


@dataclass(frozen=True, eq=False, repr=False)
class RandomisationReport(Shown):
    """All numbers of a check of the randomisation; printing it gives the verdict first.

    Attributes
    ----------
    trial_name, n_rows, alpha
        What was tested, and the chance of a false alarm that was accepted.
    counts : dict of arm name to rows, control first
    expected_shares : dict of arm name to planned share, or None if none was given
    tests : tuple of RandomisationTest
    differences : DataFrame
        arm, feature, means of control and treated, and their standardised difference, the largest
        first; step, what others see the means rounded to, not a number where they are of few.
    missing : DataFrame
        arm, feature, share missing in control and treated, and p_value, the smallest first; few,
        whether fewer than 20 people of an arm lack the value, or have it.
    suspects : tuple of Suspect
        Features that look like the outcome or the treatment in disguise.
    detectable_difference : float
        The standardised difference of a single feature that would be found four times in five.
    notes : tuple of str
        What was not tested, and why.
    grouping : str
        Whether rows or clusters were tested, and why; empty if no groups were given.
    provided : tuple of str
        Features that were not tested, for they are said to be known only after treatment.
    households : tuple of str
        Columns that look like a household or a shop, if no groups were given.
    doubts : tuple of Suspect
        Features that predict the outcome so well that one has to ask when they were recorded.
    names : tuple of str
        Those of the tested features that name rows or groups.
    evened : str
        On which rows the arms were compared, if chances of treatment were given; empty otherwise.
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
        """The tests that fail, at level ``alpha`` over all tests together."""
        return tuple(test for test in self.tests if test.adjusted_p_value <= self.alpha)

    @property
    def ok(self) -> bool:
        """Something could be tested, no test fails and no feature is suspect."""
        return bool(self.tests) and not self.failures and not self.suspects

    @property
    def stops(self) -> bool:
        """Nothing should be learnt from these rows: chance does not explain what was found."""
        return bool(self.suspects) or any(t.adjusted_p_value < STOP for t in self.failures)

    @property
    def verdict(self) -> str:
        """One sentence: no evidence against randomisation, or what fails or is lacking."""
        if self.stops:
            return f"The check fails: {'; '.join(_reasons(self))}."
        if self.failures:
            return (
                f"The check warns: {'; '.join(_reasons(self))}. One in {1 / self.alpha:,.0f} of "
                f"properly randomised trials looks so."
            )
        if not self.tests:
            return (
                "Nothing could be tested, so nothing is known of the randomisation: pass "
                "expected_share=, or features (numbers or categories) of more rows."
            )
        worst = min(self.tests, key=lambda test: test.adjusted_p_value)
        smallest = worst.adjusted_p_value
        plural = "" if len(self.tests) == 1 else "s"
        if smallest < REMARK:
            return (
                f"Passed with a remark: the smallest corrected p of {len(self.tests)} "
                f"test{plural} is {smallest:.2g} ({_label(worst)}), and the check warns at "
                f"{self.alpha:g}{_condition(self.provided)}."
            )
        return (
            f"No evidence against randomisation ({len(self.tests)} test{plural}, smallest "
            f"corrected p {_p(smallest, '= ')}){_condition(self.provided)}."
        )

    @property
    def questions(self) -> tuple[str, ...]:
        """What only someone who knows the trial can answer; empty if there is nothing to ask."""
        asked = [doubt.question for doubt in self.doubts]
        if self.households:
            names = " or ".join(map(repr, self.households))
            asked.insert(0, _GROUPS_ASKED.format(names, self.households[0]))
        return tuple(asked)

    @property
    def advice(self) -> tuple[str, ...]:
        """What to do about each thing that fails or is asked; empty if there is nothing."""
        failed = {test.name for test in self.failures}
        after = list(dict.fromkeys(found.feature for found in self.suspects if found.is_after))
        depends = failed & {"likelihood ratio", "classifier"} or len(after) < len(self.suspects)
        advice = [
            *self.questions,
            *(_SIZES_ADVICE[name] for name in _SIZES_ADVICE if name in failed),
        ]
        if after:
            advice.append(
                f"{', '.join(after)}: known only after treatment? Then nothing may be learnt from "
                f"it: pass after={after}."
            )
        if depends:
            advice.append(
                "Find out how treatment was assigned. Do not compare rankings by a raw AUUC: it "
                "rewards a score that has learnt who was treated (in Python, metrics take a "
                "propensity, known or estimated)."
            )
            advice += [] if self.evened else [_CHANCES_ASKED]
            largest = self.differences["difference"].abs().max()
            if failed and largest < SMALL:
                advice.append(
                    f"No feature differs by more than {largest:.3f} standard deviations: with so "
                    f"many rows a trace shows, and may matter little."
                )
        if numbered := [name for name in _treated_by(self) if name in self.names]:
            advice.append(
                f"If {', '.join(numbered)} was given after treatment, as by numbering the rows of "
                f"a sorted file, it tells nothing of the randomisation: pass after={numbered}."
            )
        if (failed or depends) and not self.grouping:
            advice.append(
                "If treatment was given to whole groups of rows (households, shops), pass groups=, "
                "for rows of one group are not independent, and the tests take them to be."
            )
        if "missing values" in failed:
            advice.append("Find out why values are missing more often in one arm.")
        if "missing outcomes" in failed:
            advice.append(
                "Find out why outcomes are missing more often in one arm: the rows that are left "
                "are not comparable, and no analysis of them can repair it."
            )
        return tuple(advice)

    def for_others(self) -> RandomisationReport:
        """The report without numbers of fewer than 20 people, for pages and files to hand on."""
        own = self.differences[self.differences["step"].notna()].reset_index(drop=True)
        control, treated = (rounded(own[arm], own["step"]) for arm in ("control", "treated"))
        gap = (own["treated"] - own["control"]).to_numpy()
        per_gap = np.divide(own["difference"], gap, out=np.zeros(len(own)), where=gap != 0)
        difference = (treated - control) * significant(per_gap)
        return replace(
            self,
            tests=tuple(test.for_others(self.alpha) for test in self.tests),
            differences=own.assign(control=control, treated=treated, difference=difference),
            missing=self.missing[~self.missing["few"].astype(bool)].reset_index(drop=True),
        )

    def to_dict(self) -> dict[str, Any]:
        """The numbers of the report, and its verdict, as lists and dictionaries, for JSON."""
        plain = ("trial_name", "n_rows", "alpha", "counts", "expected_shares", "grouping", "evened")
        return {name: getattr(self, name) for name in (*plain, "verdict", "ok", "stops")} | {
            "households": list(self.households),
            "advice": list(self.advice),
            "tests": [asdict(test) for test in self.tests],
            "failures": [asdict(test) for test in self.failures],
            "suspects": [asdict(suspect) for suspect in self.suspects],
            "doubts": [asdict(doubt) for doubt in self.doubts],
            "differences": self.differences.to_dict("records"),
            "missing": self.missing.to_dict("records"),
            "detectable_difference": self.detectable_difference,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        lines = [self.verdict, *(f"  {advice}" for advice in self.advice)]
        total = max(sum(self.counts.values()), 1)
        arms = (f"{name} {n:,} ({n / total:.1%})" for name, n in self.counts.items())
        lines.append(f"{self.trial_name}: {self.n_rows:,} rows: {', '.join(arms)}")
        lines += [f"  {told}" for told in (self.grouping, self.evened) if told]
        width = max((len(_label(test)) for test in self.tests), default=0)
        lines += [
            f"  {_label(test):<{width}}  p {_p(test.p_value, '= ')} (corrected "
            f"{_p(test.adjusted_p_value)}); {test.detail}"
            for test in self.tests
        ]
        # A feature without values in one arm has no difference.
        if len(largest := self.differences.dropna(subset="difference").head(5)):
            shown = ", ".join(
                f"{row.feature}{f' ({row.arm})' if row.arm else ''} {row.difference:+.3f}"
                for row in largest.itertuples()
            )
            lines.append(f"  largest standardised differences: {shown}")
            lines.append(
                f"  (one of {self.detectable_difference:.3f} would be found four times in five)"
            )
        lines += [f"  suspect: {suspect}" for suspect in self.suspects]
        lines += [f"  not tested: {note}" for note in self.notes]
        return "\n".join(map(visible, lines))


def _reasons(report: RandomisationReport) -> list[str]:
    reasons = []
    if names := _treated_by(report):
        reasons.append(f"treatment depends on {', '.join(names)}: not randomised")
    told = {"treatment": "tell who was treated", "outcome": "almost settle the outcome"}
    after = [found for found in report.suspects if found.is_after]
    for target, text in told.items():
        if names := [found.feature for found in after if found.target == target]:
            reasons.append(f"these features {text}: {', '.join(names)}")
    texts = {
        "sample ratio": "the arms do not have the planned sizes",
        "chances": "the numbers treated contradict the chances",
        "likelihood ratio": "the features predict who was treated",
        "classifier": "the features predict who was treated",
        "missing values": "missing values differ between the arms",
        "missing outcomes": "outcomes are missing more often in one arm",
    }
    by_text: dict[str, list[str]] = {}
    for test in report.failures:
        by_text.setdefault(texts[test.name], []).append(f"{_label(test)}: {test.detail}")
    return reasons + [f"{text} ({'; '.join(found)})" for text, found in by_text.items()]


def _treated_by(report: RandomisationReport, most: int = 3) -> list[str]:
    """Features that treatment depends on beyond chance, by themselves."""
    names = [found.feature for found in report.suspects if not found.is_after]
    sure = {test.name for test in report.failures if test.adjusted_p_value < STOP}
    if sure & {"likelihood ratio", "classifier"}:
        table = report.differences
        large = table["difference"].abs() > report.detectable_difference
        # A level, "town=Oslo", stands for its feature.
        names += [str(name).partition("=")[0] for name in table["feature"][large].head(most)]
    return list(dict.fromkeys(names))


def _condition(untested: Sequence[str]) -> str:
    if not untested:
        return ""
    were = "was" if len(untested) == 1 else "were"
    return f", provided that {', '.join(untested)} {were} known only after treatment"


def _label(test: RandomisationTest) -> str:
    return f"{test.name} ({test.arm})" if test.arm else test.name


def _p(value: float, sign: str = "") -> str:
    return "< 0.0001" if value < 1e-4 else f"{sign}{value:.2g}"
