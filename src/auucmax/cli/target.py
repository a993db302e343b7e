"""``auucmax target``: choose whom to treat."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from auucmax.cli.frame import Answer, check_table_target, command, write_table
from auucmax.cli.options import (
    SOURCE,
    Budget,
    Cost,
    Model,
    NewLevels,
    Output,
    Share,
    Source,
    Value,
    amounts,
    by_arm,
    read_ids,
    read_model,
    read_rows,
)


@command(source=SOURCE)
def target(
    model: Model,
    new: Annotated[
        str,
        typer.Argument(
            metavar="NEW", help="Table of people, in any format that fit reads; no outcome needed."
        ),
    ],
    output: Output,
    source: Source,
    share: Share = None,
    budget: Budget = None,
    cost: Cost = None,
    value: Value = None,
    cost_column: Annotated[
        str | None, typer.Option(help='Columns of NEW with the cost per person: "A=COLUMN".')
    ] = None,
    at_most: Annotated[
        str | None, typer.Option(help='Largest number of people in an arm: "A=5000".')
    ] = None,
    at_least: Annotated[
        str | None, typer.Option(help='Smallest number of people in an arm: "A=100".')
    ] = None,
    forbid: Annotated[
        str | None,
        typer.Option(
            help='Columns of NEW that are 1 for people who must not get that arm: "A=COLUMN".'
        ),
    ] = None,
    exclude: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Table with the ids of people who must not be treated."),
    ] = None,
    reasons: Annotated[
        bool,
        typer.Option(
            "--reasons", help="Add the columns that contribute most to each person's score."
        ),
    ] = False,
    everyone: Annotated[
        bool, typer.Option("--all", help="List all people, not only those chosen.")
    ] = False,
    new_levels: NewLevels = "error",
) -> Answer:
    """Choose whom to treat: by --share, by --budget, or for the highest profit (--cost, --value).

    Writes the chosen people to a .csv or .parquet file, best first, with rank, score, uplift and
    arm. The expected gain is estimated on held-out rows of the trial; its interval holds for any
    share. With several arms, each person gets at most one of them. --details shows all numbers.
    """
    from auucmax.model import Limits
    from auucmax.results import State

    check_table_target(output, model, new, *([] if exclude is None else [exclude]))
    limits = Limits(
        cost_column=None if cost_column is None else by_arm("cost_column", cost_column),
        at_most=amounts("at_most", at_most),
        at_least=amounts("at_least", at_least),
        forbid=None if forbid is None else by_arm("forbid", forbid),
    )
    costs = amounts("cost", cost)
    fitted = read_model(model, new_levels)
    unwanted = None if exclude is None else read_ids(exclude, fitted)
    # Reasons need the features of the chosen in memory.
    each = None if reasons else partial(fitted.narrow, columns=limits.columns(fitted.arms))
    found = fitted.target(
        read_rows(new, source, fitted, each=each), share=share, budget=budget, cost=costs,
        value=value, limits=limits, exclude=unwanted, reasons=reasons,
    )  # fmt: skip
    write_table(found.people if everyone else found.chosen(), output)
    remark = ""
    if found.n_treated and found.decision.state in (State.HARM, State.LOSS, State.UNCLEAR):
        remark = " (as requested, but treating these people is not advised)"
    return Answer(found, saved=output, remark=remark, model=model)
