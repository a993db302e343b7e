"""``auucmax verify``: measure what a campaign gained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from auucmax.cli.frame import Answer, command
from auucmax.cli.options import (
    SOURCE,
    Cost,
    Data,
    NewLevels,
    Source,
    Value,
    amounts,
    columns,
    read_model,
    read_rows,
    shared,
)

_COLUMNS = (
    *columns(
        "treatment outcome treated control groups propensity lower_is_better outcome_range "
        "drop_missing_outcomes"
    ),
    shared("id", str | None, "Column that identifies each person, in DATA and in --list.",
           metavar="COLUMN"),
)  # fmt: skip


@command(given=_COLUMNS, source=SOURCE)
def verify(
    data: Data,
    given: dict[str, Any],
    source: Source,
    chosen: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column with the chosen arm, or 0/1."),
    ] = None,
    people: Annotated[
        str | None,
        typer.Option(
            "--list",
            metavar="FILE",
            help="List written by `target` or `assign`, instead of --chosen; matched by --id.",
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            "--model",
            "-m",
            help="Model that made the choice; its forecast is compared with the result.",
        ),
    ] = None,
    largest_group: Annotated[
        int | None,
        typer.Option(help="Largest possible size of a group, known before looking at DATA."),
    ] = None,
    cost: Cost = None,
    value: Value = None,
    new_levels: NewLevels = "error",
) -> Answer:
    """Measure what a targeted campaign gained, and compare it with the forecast.

    DATA has one row per person of the campaign, chosen or not. Some of the chosen must have been
    left untreated at random; if a random part of the others was treated, the comparisons with
    everyone and with random targeting can be measured too. The campaign is compared with treating
    nobody, everyone, and the same number of people chosen at random, with intervals and guarantees.
    --details shows all numbers.
    """
    from auucmax.campaign import verify as verified
    from auucmax.data.reading import read_table

    costs = amounts("cost", cost)
    fitted = None if model is None else read_model(model, new_levels)
    found = verified(
        read_rows(data, source, fitted), chosen=chosen, model=fitted, largest_group=largest_group,
        people=None if people is None else read_table(people), cost=costs, value=value, **given,
    )  # fmt: skip
    return Answer(found)
