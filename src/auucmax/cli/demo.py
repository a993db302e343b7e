"""``auucmax demo``: from the embedded trial to a list of people, and a page that shows it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from auucmax._files import check_target
from auucmax.cli.failures import tells_failures
from auucmax.cli.fit import ModelName
from auucmax.cli.options import AsJson
from auucmax.cli.output import between, print_json, tell, working

if TYPE_CHECKING:
    from rich.table import Table

    from auucmax.trial_model.choosing import Targeting

SHARE = 0.3
NOTE = (
    "AUUC: visits gained per customer, averaged over all shares that one could e-mail. Every "
    "customer was ranked by models that had not seen them. response: ranks by the chance of a "
    "visit. tm: a logistic model of each arm. auucmax: the linear model of AUUC maximisation."
)


@tells_failures
def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to save the page (HTML).")
    ] = Path("auucmax-demo.html"),
    model: ModelName = "auto",
    as_json: AsJson = False,
) -> None:
    """Learn whom to e-mail from Hillstrom's trial of 2008: check, rank, judge, choose, show.

    Needs no data and no network: the trial is part of the package. It is what `check`, `fit`,
    `target` and `report` do with a file of your own.
    """
    from rich.console import Console

    from auucmax import load_hillstrom
    from auucmax.report import summarise_model, write_report
    from auucmax.trial_model import fit_trial_model, target

    check_target(output)
    console = Console(quiet=as_json)
    trial = load_hillstrom(encoding="raw")
    console.print(str(trial), highlight=False)
    table = trial.X.assign(mail=trial.treatment != trial.control, visit=trial.y)
    with working(f"fitting {model}, some half a minute", table):
        fitted = fit_trial_model(table, treatment="mail", outcome="visit", model=model)
        found = target(fitted, table, share=SHARE)
        write_report(summarise_model(fitted, share=SHARE), output)
    facts = fitted.evidence.facts
    if as_json:
        told = {"trial": trial.summary().to_dict(), "model": fitted.summary, "evidence": facts,
                "target": found.to_dict(), "note": NOTE, "file": str(output)}  # fmt: skip
        print_json(told)
        return
    console.print(f"\n{facts['randomisation']['verdict']}\n", highlight=False)
    console.print(_table(model, facts))
    console.print(NOTE, highlight=False)
    console.print(f"\n{facts['certificate']['text']}", highlight=False)
    console.print(f"\n{_advice(found, facts)}", highlight=False)
    tell("", f"The page with all of it, and a slider for the share: {output}")


def _table(model: str, facts: dict[str, Any]) -> Table:
    """The ranking, and its rivals with paired differences."""
    from rich.table import Table

    auuc = facts["auuc"]
    table = Table(title=f"{facts['rows']['n_rows']:,} customers, ranked by models")
    for column in ("ranking", "AUUC", f"{model} ranks better by", ""):
        table.add_column(column, justify="left" if column in ("ranking", "") else "right")
    table.add_row(model, between(auuc, "estimate", "lower", "upper", 4), "", "")
    for rival in facts["rivals"]:
        difference = between(rival["difference"], "estimate", "lower", "upper", 4, sign=True)
        told = {"worse": "told apart", "better": f"{rival['name']} is better"}
        words = told.get(rival["verdict"], rival["verdict"])
        table.add_row(rival["name"], f"{rival['auuc']['estimate']:.4f}", difference, words)
    gain = between(auuc, "gain", "gain_lower", "gain_upper", 4, sign=True)
    words = "told apart" if (auuc["gain_lower"] or 0) > 0 else "not told apart"
    table.add_row("random order", f"{auuc['estimate'] - auuc['gain']:.4f}", gain, words)
    return table


def _advice(found: Targeting, facts: dict[str, Any]) -> str:
    """Whom to treat, and what to expect of it."""
    row, n_people = found.expected, len(found.people)
    return (
        f"E-mail the {SHARE:.0%} with the highest scores, {row.n_treated:,} of {n_people:,} "
        f"customers: {row.gain:,.0f} more visits expected ({row.gain_lower:,.0f} to "
        f"{row.gain_upper:,.0f}); as many drawn at random would give "
        f"{facts['effect']['estimate'] * row.n_treated:,.0f}."
    )
