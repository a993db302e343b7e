"""What a check of the randomisation found, and how it is told."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from auucmax.data.suspects import Suspect

__all__ = ["RandomisationReport", "RandomisationTest"]

# Below this standardised difference an imbalance is too small to matter much to an average.
SMALL = 0.02


@dataclass(frozen=True)
class RandomisationTest:
    """One test of one arm against the control (of all arms, for the sample ratio).

    ``name`` is "sample ratio", "likelihood ratio", "classifier" or "missing values";
    ``adjusted_p_value`` is corrected by Holm's method over all tests of the report.
    """

    name: str
    arm: str
    statistic: float
    p_value: float
    adjusted_p_value: float
    detail: str


@dataclass(frozen=True, eq=False, repr=False)
class RandomisationReport:
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
        first.
    missing : DataFrame
        arm, feature, share missing in control and treated, and p_value, the smallest first.
    suspects : tuple of Suspect
        Features that look like the outcome or the treatment in disguise.
    detectable_difference : float
        The standardised difference of a single feature that would be found four times in five.
    notes : tuple of str
        What was not tested, and why.
    grouping : str
        Whether rows or clusters were tested, and why; empty if no groups were given.
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

    @property
    def failures(self) -> tuple[RandomisationTest, ...]:
        """The tests that fail, at level ``alpha`` over all tests together."""
        return tuple(test for test in self.tests if test.adjusted_p_value <= self.alpha)

    @property
    def ok(self) -> bool:
        """Something could be tested, no test fails and no feature is suspect."""
        return bool(self.tests) and not self.failures and not self.suspects

    @property
    def verdict(self) -> str:
        """One sentence: no evidence against randomisation, or what fails or is lacking."""
        if self.failures or self.suspects:
            return f"The check fails: {'; '.join(_reasons(self))}."
        if not self.tests:
            return (
                "Nothing could be tested, so nothing is known of the randomisation: pass "
                "expected_share, or features (numbers or categories) of more rows."
            )
        smallest = min(test.adjusted_p_value for test in self.tests)
        plural = "" if len(self.tests) == 1 else "s"
        return (
            f"No evidence against randomisation ({len(self.tests)} test{plural}, smallest "
            f"corrected p {_p(smallest, '= ')})."
        )

    @property
    def advice(self) -> tuple[str, ...]:
        """What to do about each thing that fails; empty if nothing does."""
        return tuple(_advice(self))

    def to_dict(self) -> dict[str, Any]:
        """The same numbers as lists and dictionaries."""
        plain = ("trial_name", "n_rows", "alpha", "counts", "expected_shares", "grouping")
        return {name: getattr(self, name) for name in (*plain, "verdict", "ok")} | {
            "advice": list(self.advice),
            "tests": [asdict(test) for test in self.tests],
            "failures": [asdict(test) for test in self.failures],
            "suspects": [asdict(suspect) for suspect in self.suspects],
            "differences": self.differences.to_dict("records"),
            "missing": self.missing.to_dict("records"),
            "detectable_difference": self.detectable_difference,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def __repr__(self) -> str:
        return str(self)


def _reasons(report: RandomisationReport) -> list[str]:
    reasons = []
    for target, text in (
        ("treatment", "these features tell who was treated"),
        ("outcome", "these features almost settle the outcome"),
    ):
        names = [suspect.feature for suspect in report.suspects if suspect.target == target]
        if names:
            reasons.append(f"{text}: {', '.join(names)}")
    texts = {
        "sample ratio": "the arms do not have the planned sizes",
        "likelihood ratio": "the features predict who was treated",
        "classifier": "the features predict who was treated",
        "missing values": "missing values differ between the arms",
    }
    by_text: dict[str, list[str]] = {}
    for test in report.failures:
        by_text.setdefault(texts[test.name], []).append(f"{_label(test)}: {test.detail}")
    return reasons + [f"{text} ({'; '.join(found)})" for text, found in by_text.items()]


def _advice(report: RandomisationReport) -> list[str]:
    failed = {test.name for test in report.failures}
    advice = []
    if report.suspects:
        advice.append(
            "Drop the suspect features unless they were known before treatment, and check again."
        )
    if "sample ratio" in failed:
        advice.append(
            "Find out which rows were lost or added after assignment: no analysis of the rows "
            "that are left can repair it."
        )
    if failed & {"likelihood ratio", "classifier"}:
        advice.append(
            "Find out how treatment was assigned. Do not compare rankings by a raw AUUC: it "
            "rewards a score that has learnt who was treated. Pass propensity, known or "
            "estimated, to the metrics."
        )
        largest = report.differences["difference"].abs().max()
        if largest < SMALL:
            advice.append(
                f"No feature differs by more than {largest:.3f} standard deviations: with so "
                f"many rows a trace shows, and may matter little."
            )
    if failed and not report.grouping:
        advice.append(
            "If treatment was given to whole groups of rows (households, shops), pass groups: rows "
            "of one group are not independent, and the tests take them to be."
        )
    if "missing values" in failed:
        advice.append(
            "Find out whether these features were recorded after treatment, and drop them if so."
        )
    return advice


def _lines(report: RandomisationReport) -> list[str]:
    lines = [report.verdict, *(f"  {advice}" for advice in report.advice)]
    total = max(sum(report.counts.values()), 1)
    arms = (f"{name} {n:,} ({n / total:.1%})" for name, n in report.counts.items())
    lines.append(f"{report.trial_name}: {report.n_rows:,} rows: {', '.join(arms)}")
    lines += [f"  {report.grouping}"] if report.grouping else []
    width = max((len(_label(test)) for test in report.tests), default=0)
    lines += [
        f"  {_label(test):<{width}}  p {_p(test.p_value, '= ')} (corrected "
        f"{_p(test.adjusted_p_value)}); {test.detail}"
        for test in report.tests
    ]
    largest = report.differences.head(5)
    if len(largest):
        shown = ", ".join(
            f"{row.feature}{f' ({row.arm})' if row.arm else ''} {row.difference:+.3f}"
            for row in largest.itertuples()
        )
        lines.append(f"  largest standardised differences: {shown}")
        lines.append(
            f"  (one of {report.detectable_difference:.3f} would be found four times in five)"
        )
    lines += [f"  suspect: {suspect}" for suspect in report.suspects]
    lines += [f"  not tested: {note}" for note in report.notes]
    return lines


def _label(test: RandomisationTest) -> str:
    return f"{test.name} ({test.arm})" if test.arm else test.name


def _p(value: float, sign: str = "") -> str:
    return "< 0.0001" if value < 1e-4 else f"{sign}{value:.2g}"
