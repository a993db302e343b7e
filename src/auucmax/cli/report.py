"""``auucmax report``: the page to show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from auucmax.cli.failures import tells_failures
from auucmax.cli.options import AsJson, Cost, Data, Memory, Model, NewLevels, Query, Value
from auucmax.cli.output import print_json, working


@tells_failures
def report(
    model: Model,
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path(
        "report.html"
    ),
    share: Annotated[
        float, typer.Option("--share", "-s", help="Share treated in the headline.")
    ] = 0.3,
    cohort: Annotated[
        int, typer.Option("--cohort", help="Number of people to choose from.")
    ] = 10_000,
    cost: Cost = None,
    value: Value = None,
    rivals: Annotated[
        str | None,
        typer.Option(
            "--rivals",
            help="Other models to draw, with commas, fitted on the training rows of MODEL; '' "
            "for none. By default tm, if DATA is the file of the fit.",
            show_default=False,
        ),
    ] = None,
    new_levels: NewLevels = "error",
    query: Query = None,
    memory: Memory = None,
    as_json: AsJson = False,
) -> None:
    """One HTML file that shows the trial, the ranking, its limits, and a slider for the share.

    It needs no network. --json prints the same numbers.
    """
    from auucmax._files import check_target
    from auucmax.cli.options import listed
    from auucmax.cli.trials import read_model, read_rows
    from auucmax.report import Economy, summarise_model, write_report

    check_target(output, model, data)
    fitted = read_model(model, new_levels)
    table = read_rows(data, query, memory)
    with working("judging", table):
        summary = summarise_model(
            fitted,
            table,
            economy=Economy(cohort=cohort, cost=cost, value=value),
            share=share,
            rivals=listed(rivals),
        )
        write_report(summary, output)
    if as_json:
        print_json(summary)
        return
    typer.echo(f"{summary['headline']['text']}\nWritten to {output}.")
