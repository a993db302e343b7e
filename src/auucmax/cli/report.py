"""``auucmax report``: the page to show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from auucmax.cli.failures import tells_failures
from auucmax.cli.options import AsJson, Cost, Data, Model, Query, Value
from auucmax.cli.output import print_json, working


@tells_failures
def report(
    model: Model,
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path(
        "report.html"
    ),
    share: Annotated[float, typer.Option("--share", "-s", help="Of the headline.")] = 0.3,
    cohort: Annotated[int, typer.Option("--cohort", help="People to be treated or not.")] = 10_000,
    cost: Cost = None,
    value: Value = None,
    rivals: Annotated[
        str | None,
        typer.Option("--rivals", help="Other models to draw, with commas; fitted like this one."),
    ] = "tm",
    query: Query = None,
    as_json: AsJson = False,
) -> None:
    """One HTML file that shows the trial, the ranking, its limits, and a slider for the share.

    It needs no network. --json prints the same numbers.
    """
    from auucmax._files import check_target
    from auucmax.cli.options import listed
    from auucmax.data.reading import read_table
    from auucmax.report import Economy, summarise_model, write_report
    from auucmax.trial_model import load_model

    check_target(output)
    fitted = load_model(model)
    with working("reading and judging"):
        summary = summarise_model(
            fitted,
            read_table(data, query=query),
            economy=Economy(cohort=cohort, cost=cost, value=value),
            share=share,
            rivals=listed(rivals) or (),
        )
        write_report(summary, output)
    if as_json:
        print_json(summary)
        return
    typer.echo(f"{summary['headline']['text']}\nWritten to {output}.")
