"""``auucmax monitor``: take a look at a running trial."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from auucmax._errors import InputError
from auucmax.cli.frame import Answer, command
from auucmax.cli.options import (
    SOURCE,
    Group,
    NewLevels,
    Source,
    amounts,
    by_arm,
    columns,
    read_model,
    read_rows,
    shared,
)

_FILES = "The rows so far, optionally after a model file."
_SETTINGS: Group = (
    shared("date", str | None, "Column with the day a person entered the trial "
           "(required at the first look).",
           metavar="COLUMN"),
    shared("window", str | None, "Days after entry until the outcome is final, such as 30d. "
           "Default: 0."),
    shared("score", str | None, "Column with scores that were fixed before the trial.",
           metavar="COLUMN", option="--score-column"),
    shared("least_propensity", float | None, "Smallest propensity of any arm in the design, with "
           "--propensity.", option="--least-chance"),
    shared("treated_share", str | None, "Planned share of treated rows, such as .5, or one per "
           "arm: \"A=.3,B=.2\". It is tested at every look."),
    shared("delta", float | None, "Probability that any bound is ever wrong. Default: .05."),
)  # fmt: skip
_COLUMNS: Group = (
    shared("treatment", str | None, "Column with the assigned arm (required without a "
           "model).", "-t", metavar="COLUMN"),
    shared("outcome", str | None, "Column with the outcome; cells may be empty where the outcome "
           "is unknown (required without a model).", "-y", metavar="COLUMN"),
    *columns("treated control groups propensity lower_is_better outcome_range"),
    shared("id", str | None, "Column that identifies each person at all looks.", metavar="COLUMN"),
)  # fmt: skip


@command(given=_COLUMNS, settings=_SETTINGS, source=SOURCE)
def monitor(
    files: Annotated[
        list[str], typer.Argument(metavar="[MODEL] DATA", help=_FILES, show_default=False)
    ],
    state: Annotated[Path, typer.Option(help="File that keeps the state between looks.")],
    given: dict[str, Any],
    settings: dict[str, Any],
    source: Source,
    as_of: Annotated[
        str | None, typer.Option(metavar="DAY", help="Day of the look. Default: today.")
    ] = None,
    new_levels: NewLevels = "error",
) -> Answer:
    """Look at a running trial as often as you like: all bounds hold at all looks together.

    Reports bounds on the average effect of each arm and, with scores, on the gain over random
    targeting. DATA holds all rows so far, or the rows since the last look; a row counts once its
    outcome window has closed. Options are set at the first look and may be omitted later. The exit
    code is 1 if treatment was not randomised as planned; the trial then cannot be interpreted.
    """
    from auucmax._files import check_target
    from auucmax.campaign import monitor_trial

    if len(files) not in (1, 2):
        raise InputError("files", _FILES, ", ".join(files), "See auucmax monitor --help.")
    check_target(state, *files, is_own=True)
    model = None if len(files) == 1 else read_model(Path(files[0]), new_levels)
    named = given | settings | {"lower_is_better": given["lower_is_better"] or None}
    named["treated_share"] = amounts("treated_share", settings["treated_share"])
    if "=" in (given["propensity"] or ""):
        named["propensity"] = by_arm("propensity", given["propensity"])
    look = monitor_trial(
        read_rows(files[-1], source, model), state, model=model, as_of=as_of, **named
    )
    return Answer(look, saved=state, failed=look.verdict.is_failure)
