"""``auucmax report``: write the HTML report of a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from auucmax._errors import InputError
from auucmax.cli.frame import Answer, command, note
from auucmax.cli.options import (
    SOURCE,
    Budget,
    Cost,
    Model,
    NewLevels,
    Share,
    Source,
    Value,
    amounts,
    columns,
    names_in,
    read_model,
    read_new_rows,
)
from auucmax.results import N_PEOPLE


@command(given=columns("propensity drop_missing_outcomes"), source=SOURCE)
def report(
    model: Model,
    given: dict[str, Any],
    source: Source,
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="[DATA]",
            help="New rows to evaluate the model on; with --rivals, the file it was fitted on.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path(
        "report.html"
    ),
    share: Share = None,
    budget: Budget = None,
    cost: Cost = None,
    value: Value = None,
    n_people: Annotated[
        int, typer.Option("--cohort", help="Number of people to choose from.")
    ] = N_PEOPLE,
    currency: Annotated[
        str, typer.Option(help="Currency of --cost and --value, such as EUR.")
    ] = "",
    rivals: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Other models to compare with, separated by commas, trained on the folds of the "
            "fit.",
        ),
    ] = None,
    campaign: Annotated[
        Path | None,
        typer.Option(help="Output of `auucmax verify --json` for a campaign with this model."),
    ] = None,
    new_levels: NewLevels = "error",
) -> Answer:
    """Write an HTML page with the decision, the evidence behind it and a slider for the share.

    MODEL alone is enough: it contains the evidence from its fit. With DATA the page shows evidence
    from these new rows. A slider changes the share or the budget. The page loads
    nothing from the network.
    """
    from auucmax._files import check_target
    from auucmax.present.page import write_report
    from auucmax.present.randomisation import verdict

    check_target(output, model, *(file for file in (data, campaign) if file is not None))
    costs = amounts("cost", cost)
    came = None if campaign is None else _read_campaign(campaign)
    fitted = read_model(model, new_levels)
    evidence = None
    if rivals is not None and data is None:
        raise InputError("rivals", "given with DATA, the file of the fit", rivals, "Name the file.")
    if data is not None:
        trial = read_new_rows(fitted, data, source, given)
        names = names_in(rivals)
        evidence = fitted.compare(trial, names) if names else fitted.evaluate(trial)
    found = write_report(
        fitted, output, share=share, budget=budget, cost=costs, value=value, n_people=n_people,
        evidence=evidence, currency=currency, campaign=came,
    )  # fmt: skip
    checks = [arm.check for arm in (evidence or fitted.evidence).arms if found and arm.check]
    for text in dict.fromkeys(verdict(check) for check in checks if not check["ok"]):
        note(text)
    shown = found or evidence or fitted.evidence  # no decision if the trial failed its check
    return Answer(shown, saved=output, model=model)


def _read_campaign(path: Path) -> Any:
    """Read the output of ``auucmax verify --json``."""
    from auucmax.campaign import Verification

    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return Verification.from_json(found["result"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(
            "campaign", "a file that `auucmax verify --json` printed", str(path),
            "Write it again: auucmax verify ... --json > campaign.json.",
        ) from None  # fmt: skip
