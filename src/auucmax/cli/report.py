"""``auucmax report``: the page to show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auucmax.cli import options
from auucmax.cli.failures import tells_failures
from auucmax.cli.options import listed
from auucmax.cli.output import print_json, tell, working
from auucmax.cli.output import told as as_commands

if TYPE_CHECKING:
    import pandas as pd

    from auucmax.data.pieces import PiecedTable
    from auucmax.trial_model import Evidence, TrialModel


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
        float, typer.Option("--share", "-s", help="Share treated in the headline.")
    ] = 0.3,
    cohort: Annotated[
        int, typer.Option("--cohort", help="Number of people to choose from.")
    ] = 10_000,
    cost: options.Cost = None,
    value: options.Value = None,
    rivals: Annotated[
        str | None,
        typer.Option(
            "--rivals",
            help="Other models to draw, with commas, fitted on the folds of MODEL: DATA is then "
            "the file of its fit.",
            show_default=False,
        ),
    ] = None,
    drop_missing_outcomes: options.DropMissing = False,
    groups: options.Groups = None,
    new_levels: options.NewLevels = "error",
    query: options.Query = None,
    memory: options.Memory = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    as_json: options.AsJson = False,
) -> None:
    """One HTML file that shows the trial, the ranking, its limits, and a slider for the share.

    MODEL alone is enough: it knows what was found when it was fitted. With DATA of new people the
    page is about these. It needs no network. --json prints the same numbers.
    """
    from auucmax._files import check_target
    from auucmax.cli.trials import Source, check_decided, read_model, read_rows

    check_target(output, model, *([] if data is None else [data]))
    names = listed(rivals) or []
    if names and data is None:
        raise ValueError(
            f"--rivals should come with the DATA of the fit, got {rivals!r} alone. Name the file: "
            f"rivals are fitted on it."
        )
    fitted = read_model(model, new_levels, drop_missing_outcomes)
    check_decided(fitted.columns, groups=groups)
    from auucmax.report import Economy, summarise_model, write_report

    evidence = None
    if data is not None:
        table = read_rows(Source(data, query, memory, decimal, encoding))
        with working("judging", table):
            evidence = _evidence(fitted, table, names)
    economy = Economy(cohort=cohort, cost=cost, value=value)
    summary = as_commands(summarise_model(fitted, evidence, economy=economy, share=share))
    write_report(summary, output)
    if as_json:
        from auucmax.trial_model.evidence import told

        print_json(told(summary))
        return
    lines = dict.fromkeys(filter(None, [summary["banner"], summary["headline"]["text"]]))
    tell(*lines, f"Written to {output}.")


def _evidence(fitted: TrialModel, table: pd.DataFrame | PiecedTable, names: list[str]) -> Evidence:
    from auucmax.trial_model import with_rivals

    return with_rivals(fitted, table, names) if names else fitted.judge(table)
