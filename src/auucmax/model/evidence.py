"""What is known of a ranking, as numbers: what a model file may hold, and how it is told.

Report, plan and printed tables read an :class:`Evidence`; none of them needs a row of the trial.
:func:`auucmax.model.judging.evidence_of` makes one from rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Self

import numpy as np

from auucmax._json import LARGEST_NUMBER, plain, read
from auucmax._shown import Shown
from auucmax._validation import Floats
from auucmax.data import RandomisationReport
from auucmax.data.outcomes import KINDS
from auucmax.metrics.inference import interval_words
from auucmax.targeting.decision import Decision, Terms, certified_place, decide, unknown
from auucmax.targeting.planning import Expectation

#: What is said of a rival.
VERDICTS = ("worse", "better", "not told apart")
MOST_DIFFERENCES = 20
ALL = "everybody"  #: whom a decision is about where no share is chosen
MOST_PARTS = 8  #: leaves of a tree of depth 3


@dataclass(frozen=True, eq=False, repr=False)
class Evidence(Shown):
    """How good a ranking is, and how sure that is: numbers and lists of them, no rows.

    Attributes
    ----------
    expected : :class:`auucmax.targeting.planning.Expectation`, the uplift curve with its errors.
    facts : plain JSON, with the entries

        * ``rows``: how many, by arm, their outcomes; ``effect``: of treating everybody;
        * ``auuc``: AUUC and gain over a random order with intervals; ``qini``;
        * ``ratio``: at each share of ``expected``, the part of the whole effect that treating this
          share gives, with its interval, or None; ``risk``: the policy risk there (0/1 outcomes);
        * ``deciles``, ``score_levels``, ``drivers``: tables of the page;
        * ``rivals``: other rankings of the same rows, with paired differences;
        * ``certificate``, ``randomisation``: as JSON, or None;
        * ``certified_shares``: what treating all above the cut of a share gains at least, and how
          many people these are at most, at some shares together, or None;
        * ``people``: bins of columns, in the top and in the rest, or None; ``segments``: parts of
          the people with effects of their own, and what is certified of these, none if the rows
          do not tell their effects apart;
        * ``failed_check``: why the rows cannot be taken for those of a trial, or None: there is
          then no certificate, and all numbers mean little;
        * ``notes``.
    """

    expected: Expectation
    facts: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.facts[name]

    def __str__(self) -> str:
        if self["failed_check"] is not None:
            return f"The rows cannot be taken for those of a trial: {self['failed_check']}"
        auuc, certificate = self["auuc"], self["certificate"]
        ends = auuc["gain_lower"], auuc["gain_upper"]
        words = interval_words(ends, self["level"], auuc["gain_declined"])
        told = f"gain over random {auuc['gain']:+.5f} ({words}), {self['rows']['n_rows']:,} rows"
        lines = [self.harm, told, None if certificate is None else certificate["text"]]
        return "\n".join(filter(None, lines))

    @property
    def harm(self) -> str | None:
        """What to say first if treating everybody is shown to do harm; None if it is not."""
        return self.harm_at(1.0, ALL)

    def harm_at(self, share: float, who: str) -> str | None:
        """The same of the people with the highest scores."""
        found = self.decision_at(share, who)
        return found.lead if found.state == "harm" else None

    def decision_at(self, share: float, who: str) -> Decision:
        """Whether to treat the people with the highest scores, by the rule of the report."""
        terms = Terms(who=who)
        if self["failed_check"] is not None:
            return unknown("gain", terms)
        known, certified = self.expected, self["certified_shares"]
        plan = {
            "share": known.share, "gain": known.uplift, "gain_lower": known.lower,
            "gain_upper": known.upper, "profit": None,
        }  # fmt: skip
        cut = None if certified is None else certified_place(certified["share"], share)
        at_least = None if cut is None else certified["gain_lower"][cut]
        return decide(plan, _nearest(known.share, share), at_least, terms)

    def told(self) -> dict[str, Any]:
        """The facts for machines, and whether to treat everybody."""
        return told(self.facts) | {"decision": self.decision_at(1.0, ALL).to_dict(ALL)}

    def with_facts(self, **facts: Any) -> Evidence:
        """The evidence with some facts replaced."""
        return replace(self, facts=self.facts | plain(facts))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"expected": self.expected.to_dict(), "facts": self.facts}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Restore what ``to_dict`` wrote, or raise a ValueError for anything else."""
        expected = Expectation.from_dict(values["expected"])
        facts = dict(values["facts"])
        facts.setdefault("people", None)  # of files of before there were any
        facts.setdefault("segments", [])
        if "share_upper" not in (facts.get("certified_shares") or {}):
            facts["certified_shares"] = None  # files of before there were any, or proofs of them
        facts = read(_FACTS, facts, "evidence")
        rows, bins, rivals = facts["rows"], facts["deciles"]["bin"], facts["rivals"]
        curves = [facts["ratio"], *(rival["uplift"] for rival in rivals)]
        curves += [] if facts["risk"] is None else [facts["risk"]]
        tenths = [column for column in facts["deciles"].values() if isinstance(column, list)]
        arms = (rows["treated"], rows["control"])
        right = (
            facts["level"] == expected.level
            and rows["n_rows"] == sum(arms) == expected.n_rows
            and min(arms) >= 1
            and rows["outcome"] in KINDS
            and _all_or_none(rows["events_treated"], rows["events_control"])
            and _all_or_none(rows["groups"], rows["groups_treated"], rows["groups_control"])
            and all(len(curve) == len(expected.share) for curve in curves)
            and all(ratio is None or len(ratio) == 3 for ratio in facts["ratio"])
            and bins == list(range(1, len(bins) + 1)) != []
            and all(len(column) == len(bins) for column in tenths)
            and all(rival["verdict"] in VERDICTS for rival in rivals)
            and all(map(has_ends_or_reason, (facts["effect"], facts["auuc"])))
            and (not facts["segments"] or are_parts(facts["segments"]))
            and all(is_effect(one["effect"]) for one in facts["segments"])
            and (facts["people"] is None or are_bins_of_people(facts["people"]))
            and (facts["certificate"] is None or 0 < facts["certificate"]["delta"] < 1)
            and _are_certified(facts["certified_shares"])
            and all(has_ends_or_reason(r["auuc"]) for r in rivals)
            and all(has_ends_or_reason(r["difference"]) for r in rivals)
        )
        if not right:
            raise ValueError("evidence should have numbers that belong together, got others.")
        return cls(expected, facts)


def are_bins_of_people(people: Mapping[str, Any]) -> bool:
    """Whether columns in bins have as many shares of people as bins, and these are shares."""
    return people["n_columns"] >= len(people["columns"]) and all(
        len(one["bins"]) == len(one["top"]) == len(one["rest"]) > 1
        and all(share is None or 0 <= share <= 1 for share in (*one["top"], *one["rest"]))
        and 0 <= one["distance"] <= 1 + len(one["bins"]) * 0.01  # of rounded shares
        for one in people["columns"]
    )


def are_parts(parts: Sequence[Mapping[str, Any]]) -> bool:
    """Whether these are parts of the people as a tree tells them: words, rows and shares."""
    return (
        2 <= len(parts) <= MOST_PARTS
        and sum(part["share"] for part in parts) <= 1 + 1e-9  # of rounded ones
        and all(part["share"] > 0 and part["rows"] > 0 for part in parts)
        and all(part["rule"] and all(map(str.strip, part["rule"])) for part in parts)
    )


def is_effect(one: Mapping[str, Any]) -> bool:
    """Whether it is an estimate in its interval, with an error that can be squared."""
    return (
        has_ends_or_reason(one)
        and one["lower"] is not None
        and one["lower"] <= one["estimate"] <= one["upper"]
        and 0 <= one["standard_error"] <= LARGEST_NUMBER**0.5
    )


def describe_randomisation(report: RandomisationReport | None) -> dict[str, Any] | None:
    """The report as JSON, with the largest differences only, and none of a few people."""
    if report is None:
        return None
    found = report.for_others().to_dict()
    found["n_differences"] = len(report.differences)
    for name in ("differences", "missing"):
        found[name] = found[name][:MOST_DIFFERENCES]
    return dict(plain(found))


def provided(sentence: str, check: Mapping[str, Any] | None) -> str:
    """A sentence, with the condition in front that a question of the check leaves open.

    >>> provided("It gains.", {"doubts": [{"feature": "clicks"}]})
    'Provided that clicks was known before treatment: it gains.'
    """
    doubts = [] if check is None else check["doubts"]
    names = list(dict.fromkeys(doubt["feature"] for doubt in doubts))
    if not names:
        return sentence
    were = "was" if len(names) == 1 else "were"
    return (
        f"Provided that {', '.join(names)} {were} known before treatment: "
        f"{sentence[:1].lower()}{sentence[1:]}"
    )


def failed_check(report: RandomisationReport | None) -> str | None:
    """Why the rows cannot be taken for those of a trial; None if they can, or may."""
    if report is None or not report.stops:
        return None
    return (
        f"{report.for_others().verdict} So no gain is announced and nothing is certified: what the "
        f"numbers show may have nothing to do with the treatment."
    )


#: Facts, and entries of a report, that tell how good a ranking is or what it brings.
JUDGEMENTS = (
    "effect", "auuc", "qini", "ratio", "risk", "deciles", "rivals", "curve", "plan",
    "certified_shares", "curves", "segments",
)  # fmt: skip


def told(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts for machines: of rows that fail their check, judgements are under a name that says so.

    >>> told({"failed_check": "no trial", "qini": 0.1, "certificate": None})
    {'failed_check': 'no trial', 'certificate': None, 'despite_failed_check': {'qini': 0.1}}
    """
    if facts["failed_check"] is None:
        return dict(facts)
    void = {name: facts[name] for name in JUDGEMENTS if name in facts}
    rest = {name: value for name, value in facts.items() if name not in void}
    return rest | {"despite_failed_check": void}


# What a file may hold, as :func:`auucmax._json.read` takes it.
_MAYBE, _MAYBE_COUNT, _MAYBE_TEXT = (float, None), (int, None), (str, None)
_DRIVER = {
    "name": str, "level": _MAYBE_TEXT, "correlation": _MAYBE, "top": _MAYBE, "rest": _MAYBE,
    "difference": _MAYBE, "is_date": bool,
}  # fmt: skip
_AUUC = (
    dict.fromkeys(("estimate", "gain"), float)
    | dict.fromkeys(("lower", "upper", "gain_lower", "gain_upper", "p_value"), _MAYBE)
    | dict.fromkeys(("declined", "gain_declined"), _MAYBE_TEXT)
)
EFFECT = dict.fromkeys(("estimate", "standard_error", "detectable"), float) | {
    "lower": _MAYBE, "upper": _MAYBE, "declined": _MAYBE_TEXT,
}  # fmt: skip
_FACTS: dict[str, Any] = {
    "failed_check": _MAYBE_TEXT,
    "level": float,
    "rows": {
        "n_rows": int, "outcome": str, "binary": bool, "lower_is_better": bool,
        "groups": _MAYBE_COUNT,
        **{f"{what}{arm}": kind for arm in ("treated", "control") for what, kind in (
            ("", int), ("mean_", float), ("events_", _MAYBE_COUNT), ("groups_", _MAYBE_COUNT))},
    },
    "effect": EFFECT,
    "auuc": _AUUC,
    "qini": float,
    "ratio": [(None, [float])],
    "risk": (None, [float]),
    "score_levels": int,
    "deciles": {
        "bin": [int], "rows": [int], "predicted": (None, [_MAYBE]), "caveat": _MAYBE_TEXT,
        **{name: [_MAYBE] for name in ("uplift", "standard_error", "lower", "upper")},
    },
    "drivers": {
        "share": float, "n_features": int, "skipped": [str],
        "features": [_DRIVER],
        "linear": (None, [{"name": str, "coefficient": float, "weight": float}]),
    },
    "rivals": [{
        "name": str, "uplift": [float], "auuc": _AUUC, "verdict": str,
        "difference": {"estimate": float, "declined": _MAYBE_TEXT,
                       **dict.fromkeys(("lower", "upper", "p_value"), _MAYBE)},
    }],
    "certificate": (None, {"text": str, "gain_lower_bound": float, "delta": float, ...: ...}),
    "certified_shares": (None, {
        "share": [float], "gain_lower": [float], "share_upper": [float], "delta": float,
        "text": str,
    }),
    "people": (None, {
        "share": float, "n_columns": int,
        "columns": [{"name": str, "bins": [str], "top": [_MAYBE], "rest": [_MAYBE],
                     "distance": float}],
    }),
    "segments": [{
        "rule": [str], "rows": int, "share": float, "effect": EFFECT, "certified": _MAYBE,
    }],
    "randomisation": (None, {
        "ok": bool, "stops": bool, "verdict": str, "advice": [str], "alpha": float,
        "notes": [str], "doubts": [{"feature": str, ...: ...}],
        "tests": [{"name": str, "arm": str, "adjusted_p_value": float, "detail": str, ...: ...}],
        ...: ...,
    }),
    "notes": [str],
}  # fmt: skip


def has_ends_or_reason(values: Mapping[str, Any]) -> bool:
    """Whether each interval has both ends, or words that say why it has none."""
    return all(
        _all_or_none(values[f"{of}lower"], values[f"{of}upper"])
        and (values[f"{of}lower"] is None) == (values[f"{of}declined"] is not None)
        for of in ("", "gain_")
        if f"{of}lower" in values
    )


def _are_certified(found: Mapping[str, Any] | None) -> bool:
    """Whether there is a bound for each share, from low to high."""
    if found is None:
        return True
    share = found["share"]
    return (
        len(found["gain_lower"]) == len(found["share_upper"]) == len(share) > 0
        and share[0] > 0
        and share[-1] <= 1
        and all(low < high for low, high in pairwise(share))
        and 0 < found["delta"] < 1
    )


def _nearest(shares: Sequence[float] | Floats, share: float) -> int:
    return int(np.abs(np.asarray(shares) - share).argmin())


def _all_or_none(*values: Any) -> bool:
    return len({value is None for value in values}) == 1
