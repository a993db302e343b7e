"""``auucmax assign``: who gets which arm."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Annotated, Any

import typer

from auucmax._errors import InputError
from auucmax.cli.frame import Answer, check_table_target, command, note_formulas, write_table
from auucmax.cli.options import (
    SOURCE,
    NewLevels,
    Output,
    Share,
    Source,
    columns,
    listed_columns,
    read_model,
    read_rows,
)


@command(given=columns("groups"), source=SOURCE)
def assign(
    data: Annotated[
        str, typer.Argument(metavar="PEOPLE", help="Table of people, in any format that fit reads.")
    ],
    id: Annotated[str, typer.Option(metavar="COLUMN", help="Column with unique ids.")],
    key: Annotated[
        str,
        typer.Option(
            help="A long secret text, a new one for each trial. It determines the arm of each "
            "id. The list contains a hash of the key, from which a short key could be guessed."
        ),
    ],
    output: Output,
    given: dict[str, Any],
    source: Source,
    arms: Annotated[
        str | None, typer.Option(help='Arms and their shares, control first: "control=.5,mail=.5".')
    ] = None,
    strata: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMNS", help="Columns to stratify by: shares are exact in each stratum."
        ),
    ] = None,
    blocked: Annotated[
        bool, typer.Option("--blocked", help="Make the shares exact even without strata.")
    ] = False,
    model: Annotated[
        Path | None,
        typer.Option(help="Instead of --arms: treat the top --share by the scores of this model."),
    ] = None,
    share: Share = None,
    explore: Annotated[
        float,
        typer.Option(help="Probability that a person gets a different arm than the model chose."),
    ] = 0.1,
    add: Annotated[
        bool,
        typer.Option(
            "--add", help="Add new people to an existing list; earlier assignments are kept."
        ),
    ] = False,
    new_levels: NewLevels = "error",
) -> Answer:
    """Assign people to arms at random; anyone who has the key can reproduce the list.

    Writes id, arm and propensity (the probability of treatment; with several arms, one column
    "chance LABEL" per arm). With --model the top --share is treated, but with
    probability --explore a person gets a different arm, so that `auucmax verify` can measure the
    gain. An existing list is never overwritten.
    """
    from auucmax.campaign import assign as assigned
    from auucmax.data.reading import read_table

    check_table_target(output, data)
    if output.exists() and not add:
        raise InputError(
            "output", "a new file", f"{output.name}, which exists", "Add people to it with --add."
        )
    if add and not output.exists():
        raise InputError("add", "given with a list that exists", str(output), "Leave it out.")
    fitted = None if model is None else read_model(model, new_levels)
    people = read_rows(data, source, fitted)
    before = read_table(str(output)) if add else None
    found = assigned(
        people, id=id, key=key, arms=arms, model=fitted, share=share, explore=explore,
        strata=listed_columns(strata, set(map(str, people.columns))) or (), blocked=blocked,
        before=before, **given,
    )  # fmt: skip
    if before is None:
        write_table(found.people, output)
    elif len(found.people):
        _append(found.people, before, output)
    return Answer(found, saved=output)


def _append(people: Any, before: Any, output: Path) -> None:
    """Append people to a list; existing bytes of a CSV file stay unchanged."""
    import pandas as pd

    from auucmax._files import whole_file

    if output.suffix.lower() == ".parquet":
        write_table(pd.concat([before, people[list(before.columns)]]), output)
        return
    old = output.read_bytes()
    header = people.head(0).to_csv(index=False, lineterminator="\n").rstrip("\n").encode()
    start = old.removeprefix(b"\xef\xbb\xbf").removeprefix(header)
    ending = next((own for own in ("\n", "\r\n") if start.startswith(own.encode())), None)
    if ending is None or start == old:
        raise InputError(
            "output", f"a list as auucmax writes it, in UTF-8, with the header {header.decode()}",
            f"{output.name} in another form", "Save it in this form, or write another list.",
        )  # fmt: skip
    lines = io.StringIO()
    people.to_csv(lines, index=False, header=False, lineterminator=ending)
    between = "" if old.endswith(b"\n") else ending
    with whole_file(output) as beside:
        beside.write_bytes(old + f"{between}{lines.getvalue()}".encode())
    note_formulas(people)
