"""``auucmax report``: the page to show."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from auucmax.cli import options
from auucmax.cli.arms import CostOfArms, costs_by_arm, price_of_one, tell_half
from auucmax.cli.failures import tells_failures
from auucmax.cli.options import names_in
from auucmax.cli.output import print_banner, print_json, print_result, working
from auucmax.cli.output import told as as_commands
from auucmax.cli.ranking import effect_of

if TYPE_CHECKING:
    import pandas as pd

    from auucmax.model import ArmsEvidence, ArmsModel, Evidence, TrialModel


@tells_failures
def report(
    model: options.Model,
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="[DATA]",
            help="New rows to judge the model on; or, with --rivals, the file of the fit.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path(
        "report.html"
    ),
    share: Annotated[
        float | None,
        typer.Option(
            "--share",
            "-s",
            help="Share treated at first: of the highest expected profit, or .3 without one.",
            show_default=False,
        ),
    ] = None,
    cohort: Annotated[
        int, typer.Option("--cohort", help="Number of people to choose from.")
    ] = 10_000,
    cost: CostOfArms = None,
    value: options.Value = None,
    currency: Annotated[
        str, typer.Option("--currency", help="Of cost and value, such as EUR: a word on the page.")
    ] = "",
    rivals: Annotated[
        str | None,
        typer.Option(
            "--rivals",
            help="Other models to draw, with commas, fitted on the folds of MODEL: DATA is then "
            "the file of its fit.",
            show_default=False,
        ),
    ] = None,
    campaign: Annotated[
        Path | None,
        typer.Option(
            "--campaign",
            help="What `auucmax verify --json` printed of people whom MODEL chose: what was "
            "promised and what came.",
        ),
    ] = None,
    drop_missing_outcomes: options.DropMissing = False,
    groups: options.Groups = None,
    propensity: options.Propensity = None,
    new_levels: options.NewLevels = "error",
    query: options.Query = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    as_json: options.AsJson = False,
    details: options.Details = False,
    quiet: options.Quiet = False,
) -> None:
    """One HTML file that shows the decision, its limits, and a slider for the share.

    Cost, value and number of people can be changed on the page, too. Of several arms: who gets
    which at every budget; the one at first treats --share of the people.
    MODEL alone is enough: it knows what was found when it was fitted. With DATA of new people the
    page is about these. It needs no network. --json prints the same numbers.
    """
    from auucmax._files import check_target
    from auucmax.cli import trials
    from auucmax.model import TrialModel
    from auucmax.present import Economy, summarise_arms, summarise_model, write_report

    check_target(output, model, *(file for file in (data, campaign) if file is not None))
    names = names_in(rivals) or []
    if names and data is None:
        raise ValueError(
            f"--rivals should come with the DATA of the fit, got {rivals!r} alone. Name the file: "
            f"rivals are fitted on it."
        )
    fitted = trials.read_model(model, new_levels, drop_missing_outcomes)
    if names or campaign:
        fitted = trials.of_two_arms(fitted, f"report --{'rivals' if names else 'campaign'}")
    if data is not None and not names:
        trials.take_chances(fitted, propensity)
    trials.check_decided(fitted.columns, groups=groups, propensity=propensity)
    table = None
    if data is not None:
        table = trials.read_rows(trials.Source(data, query, decimal, encoding), fitted)
    money = Economy(cohort=cohort, value=value, currency=currency)
    if isinstance(fitted, TrialModel):
        tell_half(cost is not None, value is not None)
        money = replace(money, cost=price_of_one(cost))
        evidence = None if table is None else _evidence(fitted, table, names)
        came = None if campaign is None else _read_campaign(campaign)
        summary = summarise_model(fitted, evidence, economy=money, share=share, campaign=came)
    else:
        costs = costs_by_arm(cost, fitted.labels)
        judged = None if table is None else _judged(fitted, table)
        summary = summarise_arms(fitted, judged, costs=costs, economy=money, share=share)
        if summary["plan"]["by_people"]:  # nor did the fit have costs
            tell_half(False, value is not None)
    summary = as_commands(summary)
    write_report(summary, output)
    if as_json:
        from auucmax.model.evidence import told

        print_json(told(summary))
        return
    _tell(summary, output)


def _tell(summary: dict[str, Any], output: Path) -> None:
    """The decision, and what it rests on."""
    from auucmax.present.sentences import segment_lines

    headline = summary["headline"]["text"]
    if summary["banner"] != headline:
        print_banner(summary["banner"])
    caveats, lines = summary["caveats"], dict[str, str]()
    if summary["failed_check"] is None and "arms" in summary:
        gain = summary["names"]["gain"]
        lines = {
            f"effect of {arm['label']}": effect_of(arm | {"rows": summary["rows"]}, gain)
            for arm in summary["arms"]
        }
    elif summary["failed_check"] is None:
        lines = {"effect": summary["trial"]["effect"], "ranking": summary["auuc"]["text"]}
    print_result(
        headline, lines, details=lines | segment_lines(summary),
        cautions=[own["text"] for own in caveats if own["severity"] != "note"],
        notes=[own["text"] for own in caveats if own["severity"] == "note"],
        written=[f"Written to {output}."],
    )  # fmt: skip


def _read_campaign(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else "its text is no JSON"
        raise ValueError(
            f"--campaign should be a file that `auucmax verify --json` printed, got {path}, which "
            f"cannot be read as one: {why}. Write it again: auucmax verify ... --json > "
            f"campaign.json."
        ) from None
    return found if isinstance(found, dict) else {"told": found}


def _evidence(fitted: TrialModel, table: pd.DataFrame, names: list[str]) -> Evidence:
    from auucmax.model import with_rivals

    with working("judging"):
        return with_rivals(fitted, table, names) if names else fitted.judge(table)


def _judged(fitted: ArmsModel, table: pd.DataFrame) -> ArmsEvidence:
    with working("judging"):
        return fitted.judge(table)
