"""``auucmax compare``: compare models on unseen people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from auucmax._errors import InputError
from auucmax.cli.frame import Answer, command
from auucmax.cli.options import (
    COLUMNS,
    SEED,
    SOURCE,
    Data,
    NewLevels,
    Source,
    check_roles,
    columns,
    names_in,
    read_model,
    read_new_rows,
    read_rows_of_trial,
)


@command(given=columns(" ".join(own.name for own in COLUMNS)), how=SEED, source=SOURCE)
def compare(
    data: Data,
    given: dict[str, Any],
    how: dict[str, Any],
    source: Source,
    models: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Models as in fit --model, separated by commas."),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            help="Compare with this model file on its own folds; DATA is the file it was fitted on."
        ),
    ] = None,
    splits: Annotated[
        int | None, typer.Option(help="Number of random splits (not with --against). Default: 10.")
    ] = None,
    n_jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            help="Number of processes (not with --against). Default: 1; -1 uses all cores.",
        ),
    ] = None,
    new_levels: NewLevels = "error",
) -> Answer:
    """Compare models on the same rows, by random splits or against a fitted model.

    With --against, columns, arms, folds and seed come from the model file. --details shows all
    numbers.
    """
    import auucmax
    from auucmax.model.check import check_trial

    names = names_in(models) or None
    if against is None:
        trial = read_rows_of_trial(data, source, given)
        check_trial(trial).require()
        options: dict[str, Any] = {"splits": splits, "n_jobs": n_jobs}
        how |= {name: value for name, value in options.items() if value is not None}
        return Answer(auucmax.compare(names, trial, **how))
    for name, value in (("splits", splits), ("n_jobs", n_jobs)):
        if value is not None:
            raise InputError(name, "left out with --against", str(value), "Leave it out.")
    model = read_model(against, new_levels)
    check_roles(model.roles, given)
    trial = read_new_rows(model, data, source, given)
    return Answer(model.compare(trial, names or ()), model=against)
