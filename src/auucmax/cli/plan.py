"""``auucmax plan``: plan the size of a trial."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from auucmax._errors import InputError
from auucmax.cli.frame import Answer, command
from auucmax.cli.options import SOURCE, Group, Source, columns, read_model, read_rows, shared

_ASSUMED: Group = (
    shared("base_rate", float | None, "Mean outcome without treatment; .1 is 10%. Default: "
           "estimated from PAST or --model."),
    shared("effect", float | None, "Average effect; .02 is 2 per 100 people (required without a "
           "model)."),
    shared("gain", float | None, "Gain of the ranking over random targeting: its AUUC minus half "
           "the effect (required without a model or --effect-sd)."),
    shared("effect_sd", float | None, "Instead of --gain, with --explained: standard deviation of "
           "effects across people."),
    shared("explained", float | None, "Share of the variance of effects that the score "
           "explains."),
    shared("treated_share", float | None, "Share of rows in all treatment arms together. "
           "Default: .5."),
    shared("outcome_sd", float | None, "Standard deviation of an outcome that is not 0/1."),
    shared("outcome_range", tuple[float, float] | None, "Range of the outcome for guarantees, if "
           "it is not 0/1.", metavar="LOW HIGH"),
    shared("power", float, "Probability that the trial detects the effect of an arm, each on its "
           "own.", default=0.8),
    shared("cross_fitted", bool, "The model will be fitted on the trial itself, as `auucmax fit` "
           "does.", default=False),
)  # fmt: skip


@command(given=columns("outcome treatment control groups"), assumed=_ASSUMED, source=SOURCE)
def plan(
    given: dict[str, Any],
    assumed: dict[str, Any],
    source: Source,
    data: Annotated[
        str | None,
        typer.Argument(metavar="[PAST]", help="Table of past rows, in any format that fit reads."),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="Use the gain that this model showed in its own trial.")
    ] = None,
    n_arms: Annotated[
        int,
        typer.Option("--arms", help="Number of treatment arms; each is compared with the control."),
    ] = 1,
    n_rows: Annotated[
        int | None,
        typer.Option("--rows", "-n", help="Report the power of a trial with this many rows."),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(help="Plot power against the number of rows, as .png, .svg or .pdf."),
    ] = None,
) -> Answer:
    """Plan a trial: how many people it needs to detect the effect and the gain of a ranking.

    Give the gain over random targeting with --gain, take it from --model, or compute it from
    --effect-sd and --explained. Base rate and clustering are estimated from PAST. With --treatment
    only its control rows are used. Power assumes a score fixed before the trial, unless
    --cross-fitted is given.
    """
    from auucmax._files import check_target, whole_file
    from auucmax.campaign import past_rows, plan_trial

    if picture is not None:
        check_target(picture)
        if picture.suffix.lower() not in (".png", ".svg", ".pdf"):
            raise InputError("picture", "a .png, .svg or .pdf file", picture.name, "Rename it.")
    found: dict[str, Any] = {}
    fitted = None if model is None else read_model(model, "other")
    named = {name: own for name, own in given.items() if own is not None}
    if data is not None:
        if "outcome" not in named:
            raise InputError("outcome", "a column of PAST", "none", "Name the column.")
        found = past_rows(read_rows(data, source, fitted), model=fitted, **named)
    elif named:
        raise InputError(next(iter(named)), "given with PAST", "no table", "Name the table.")
    found |= {name: own for name, own in assumed.items() if own is not None}
    planned = plan_trial(model=fitted, n_arms=n_arms, n_rows=n_rows, **found)
    if picture is not None:
        with whole_file(picture) as beside:
            kind = picture.suffix.lower().lstrip(".")
            planned.draw().savefig(beside, dpi=150, format=kind)
    return Answer(planned, saved=picture)
