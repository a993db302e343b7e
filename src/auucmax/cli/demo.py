"""``auucmax demo``: from the embedded trial to a list of people, and a page that shows it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from auucmax._files import check_target
from auucmax.cli.failures import tells_failures
from auucmax.cli.fit import ModelName
from auucmax.cli.options import AsJson, Details, Quiet
from auucmax.cli.output import between, print_json, print_result
from auucmax.cli.ranking import lines_of, to_try

if TYPE_CHECKING:
    from auucmax.model.choosing import Targeting

SHARE = 0.3
#: What the rivals are, for somebody who has never heard of them.
_KINDS = {
    "response": "ranking by the chance of a visit",
    "tm": "two logistic models, one an arm",
    "auucmax": "the linear model of AUUC maximisation",
}


@tells_failures
def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to save the page (HTML).")
    ] = Path("auucmax-demo.html"),
    model: ModelName = "auto",
    as_json: AsJson = False,
    details: Details = False,
    quiet: Quiet = False,
) -> None:
    """Learn whom to e-mail from Hillstrom's trial of 2008: check, rank, judge, choose, show.

    Needs no data and no network: the trial is part of the package. It is what `check`, `fit`,
    `target` and `report` do with a file of your own.
    """
    from auucmax import load_hillstrom
    from auucmax._progress import speaking
    from auucmax.model import fit_trial_model
    from auucmax.model.choosing import target
    from auucmax.present import summarise_model, write_report

    check_target(output)
    trial = load_hillstrom(encoding="raw")
    table = trial.X.assign(mail=trial.treatment != trial.control, visit=trial.y)
    with speaking():
        fitted = fit_trial_model(table, treatment="mail", outcome="visit", model=model)
    found = target(fitted, table, share=SHARE)
    write_report(summarise_model(fitted, share=SHARE), output)
    facts = fitted.evidence.facts
    if as_json:
        told = {"trial": trial.summary().to_dict(), "model": fitted.summary, "evidence": facts,
                "target": found.to_dict(), "file": str(output)}  # fmt: skip
        print_json(told)
        return
    print_result(
        _advice(found, facts), lines_of(facts, "visits a customer"), cautions=to_try(facts),
        notes=[_ranking(facts), *_rivals(model, facts), *facts["notes"], *str(trial).split("\n")],
        written=[f"The page with all of it, and a slider for the share: {output}"],
    )  # fmt: skip


def _ranking(facts: dict[str, Any]) -> str:
    """What the ranking is worth, and what of that is certain."""
    auuc, sure = facts["auuc"], facts["certificate"]
    gain = between(auuc, "gain", "gain_lower", "gain_upper", 4, sign=True)
    low, high = (f"{share:.0%}" for share in sure["learnt"])
    return (
        f"Customers ranked by how much an e-mail brings: {gain} visits a customer more than in a "
        f"random order, averaged over all shares that one could e-mail. Every customer was ranked "
        f"by a model that had not seen them. Certified, with probability {1 - sure['delta']:g}: "
        f"models that learnt from only {low} to {high} of the customers gain at least "
        f"{sure['gain_lower_bound']:+.4f} on average."
    )


def _advice(found: Targeting, facts: dict[str, Any]) -> str:
    """Whom to treat, and what to expect of it."""
    row, n_people = found.expected, len(found.people)
    return (
        f"E-mail the {SHARE:.0%} with the highest scores, {row.n_treated:,} of {n_people:,} "
        f"customers: {row.gain:,.0f} more visits expected ({row.gain_lower:,.0f} to "
        f"{row.gain_upper:,.0f}); as many drawn at random would give "
        f"{facts['effect']['estimate'] * row.n_treated:,.0f}."
    )


def _rivals(model: str, facts: dict[str, Any]) -> list[str]:
    """Whether other rankings of the same customers can be told from this one; a line, or none.

    >>> apart = {"estimate": -0.0003, "lower": -0.0018, "upper": 0.0011}
    >>> rival = {"name": "tm", "difference": apart, "verdict": "not told apart"}
    >>> print(*_rivals("auto", {"rivals": [rival]}))
    On the same customers, auto cannot be told from two logistic models, one an arm (tm): a
    difference of -0.0003 (-0.0018 to +0.0011).
    """
    words = {"worse": "gains more than", "better": "gains less than"}
    told = []
    for verdict in ("worse", "not told apart", "better"):
        alike = [rival for rival in facts["rivals"] if rival["verdict"] == verdict]
        names = [f"{_KINDS.get(rival['name'], 'another')} ({rival['name']})" for rival in alike]
        sizes = [
            between(r["difference"], "estimate", "lower", "upper", 4, sign=True) for r in alike
        ]
        if alike:
            what = words.get(verdict, "cannot be told from")
            differences = "a difference" if len(alike) == 1 else "differences"
            told.append(f"{what} {_both(names)}: {differences} of {_both(sizes)}")
    return [f"On the same customers, {model} {'; it '.join(told)}."] if told else []


def _both(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
