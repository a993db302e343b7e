"""What commands tell of a ranking: the verdict, the lines below it, and what to try."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from auucmax.cli.output import between, unit_for

_ENDS = "estimate", "lower", "upper"
_NOT_TOLD = "Nothing is told of the ranking: the check of the trial fails."


def verdict_of(facts: Mapping[str, Any]) -> str:
    """Whether a ranking beats a random order, and how sure that is.

    >>> auuc = {"gain": 0.01, "gain_lower": -0.01, "gain_upper": 0.03}
    >>> none = dict.fromkeys(("certificate", "failed_check", "randomisation"))
    >>> verdict_of({"auuc": auuc} | none)
    'The ranking is not shown to beat a random order.'
    """
    from auucmax.model.evidence import provided

    if facts["failed_check"] is not None:
        return _NOT_TOLD
    low, high = facts["auuc"]["gain_lower"], facts["auuc"]["gain_upper"]
    told = "The ranking is not shown to beat a random order."
    if _is_certified(facts):
        told = "The ranking beats a random order, which is certified."
    elif low is not None and low > 0:
        told = "The ranking beats a random order by its interval; this is not certified."
    elif high is not None and high < 0:
        told = "The ranking is worse than a random order."
    return provided(told, facts["randomisation"])


def _is_certified(facts: Mapping[str, Any]) -> bool:
    certificate = facts["certificate"]
    return certificate is not None and certificate["gain_lower_bound"] > 0


def lines_of(facts: Mapping[str, Any], gain: str) -> dict[str, str]:
    """The few lines that a reader needs: effect, gain, certificate, other models, rows."""
    rows = facts["rows"]
    counted = f"{rows['n_rows']:,} ({rows['treated']:,} treated)"
    if facts["randomisation"] is not None:
        counted += f". {facts['randomisation']['verdict']}"
    if facts["failed_check"] is not None:
        return {"rows": counted}
    unit = unit_for(rows)
    told = {
        "effect of treating everybody": effect_of(facts, gain),
        "gain over a random order": between(
            facts["auuc"], "gain", "gain_lower", "gain_upper", **unit, sign=True
        ),
    }
    if facts["certificate"] is not None:
        told["certified gain"] = _certified(facts["certificate"], unit)
    if facts["rivals"]:
        told["other models"] = against(facts["rivals"])
    return told | {"rows": counted}


def effect_of(facts: Mapping[str, Any], gain: str) -> str:
    """The average effect on all rows, with its interval."""
    return f"{between(facts['effect'], *_ENDS, **unit_for(facts['rows'], 4), sign=True)} in {gain}"


def _certified(found: Mapping[str, Any], unit: Mapping[str, Any]) -> str:
    at_least = f"{found['gain_lower_bound'] * unit.get('scale', 1):+.{unit['digits']}f}"
    told = f"at least {at_least}{unit.get('unit', '')} with probability {1 - found['delta']:.4g}"
    if "learnt" in found:
        low, high = (f"{share:.0%}" for share in found["learnt"])
        told += f", of models that learnt from {low} to {high} of the rows"
    # What lies beyond the range of outcomes is said after the last assumption.
    beyond = found["text"].rpartition(f"{found['assumptions'][-1]}.")[2].strip()
    return f"{told}. {beyond}" if beyond else told


def against(rivals: Sequence[Mapping[str, Any]]) -> str:
    """Which other models rank worse or better, and which cannot be told apart.

    >>> against([{"name": "tm", "verdict": "worse"}, {"name": "cvt", "verdict": "not told apart"}])
    'better than tm; not told apart from cvt'
    """
    words = {
        "better": "worse than",
        "worse": "better than",
        "not told apart": "not told apart from",
    }
    told = []
    for verdict, opening in words.items():
        names = [str(rival["name"]) for rival in rivals if rival["verdict"] == verdict]
        told += [f"{opening} {', '.join(names)}"] if names else []
    return "; ".join(told)


def to_try(facts: Mapping[str, Any], model: str | None = None) -> list[str]:
    """A line of what to try, if another model is better, or the gain is not certified; or none.

    ``model`` is the file, which `auucmax plan` reads; None of scores that no file makes.
    """
    if facts["failed_check"] is not None:
        return []
    better = [rival for rival in facts["rivals"] if rival["verdict"] == "better"]
    if better:
        best = max(better, key=lambda rival: float(rival["auuc"]["estimate"]))["name"]
        return [
            f"To try: `auucmax fit --model {best} --candidates {1 + len(facts['rivals'])}`, which "
            f"ranks better on these rows."
        ]
    if facts["certificate"] is None or _is_certified(facts):
        return []  # why there is none is a note of its own
    plan = ""
    if model is not None and facts["auuc"]["gain"] > 0:
        plan = f" (`auucmax plan --model {model}` says how many show such a gain)"
    return [f"To try: more rows{plan}, or columns that tell who gains more."]


def rivals_told(model: str, found: Mapping[str, Any]) -> dict[str, str]:
    """AUUC of a random order and of other models on the same rows, and what the model has more.

    >>> auuc = {"estimate": 0.03, "gain": 0.01, "gain_lower": 0.005, "gain_upper": 0.015}
    >>> rivals_told("auto", {"auuc": auuc, "rivals": [], "rows": {"outcome": "0/1"}})
    {'against a random order': 'AUUC 0.02000; auto has +0.01000 (+0.00500 to +0.01500): better'}
    """
    auuc = found["auuc"]
    low, high = (auuc["gain_lower"] or 0) > 0, (auuc["gain_upper"] or 0) < 0
    random = {
        "name": "a random order",
        "auuc": {"estimate": auuc["estimate"] - auuc["gain"]},
        "difference": {
            "estimate": auuc["gain"],
            "lower": auuc["gain_lower"],
            "upper": auuc["gain_upper"],
            "declined": auuc.get("gain_declined"),
        },
        "verdict": "worse" if low else "better" if high else "not told apart",
    }
    told, unit = {}, unit_for(found["rows"])
    scale, digits = unit.get("scale", 1), unit["digits"]
    for rival in (random, *found["rivals"]):
        difference = between(rival["difference"], *_ENDS, **unit, sign=True)
        verdict = {"worse": "better", "better": "worse"}.get(rival["verdict"], rival["verdict"])
        own = f"{rival['auuc']['estimate'] * scale:.{digits}f}"
        told[f"against {rival['name']}"] = f"AUUC {own}; {model} has {difference}: {verdict}"
    return told
