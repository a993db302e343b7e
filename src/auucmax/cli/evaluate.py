"""``auucmax evaluate`` and ``compare``: how good a ranking is, and which model is best."""

from __future__ import annotations

from functools import partial
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

_FILES = "A model file; a model file and new data; or data with --score-column."
_COLUMNS = columns(
    "treatment outcome treated control groups propensity after lower_is_better outcome_range "
    "drop_missing_outcomes"
)


@command(given=_COLUMNS, source=SOURCE)
def evaluate(
    files: Annotated[
        list[str], typer.Argument(metavar="[MODEL] [DATA]", help=_FILES, show_default=False)
    ],
    given: dict[str, Any],
    source: Source,
    score_column: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column with scores from any other tool.")
    ] = None,
    new_levels: NewLevels = "error",
) -> Answer:
    """Evaluate a ranking: AUUC and gain over random targeting, with intervals and a guarantee.

    MODEL alone shows the evidence from its fit, on held-out rows. With DATA the model is evaluated
    on these rows, which must be new to it. With --score-column, --treatment and --outcome, scores
    from any tool are evaluated; the tool must not have seen the outcomes of these rows. --details
    shows all numbers.
    """
    if score_column is not None:
        from auucmax.model.pipeline import judge_scores

        if len(files) != 1:
            raise InputError("files", "DATA alone with --score-column", ", ".join(files), _HINT)
        trial = read_rows_of_trial(files[0], source, given | {"features": [score_column]})
        return Answer(judge_scores(trial, trial.X[score_column]))
    if len(files) not in (1, 2):
        raise InputError("files", _FILES, ", ".join(files), _HINT)
    path = Path(files[0])
    model = read_model(path, new_levels)
    check_roles(model.roles, given)
    if len(files) == 1:
        return Answer(model.evidence, model=path)
    chances = given.get("propensity") or ""
    names = [chances, *(f"{chances} {arm}" for arm in model.roles.arms)]
    names += [part.partition("=")[2].strip() for part in chances.split(",")]
    each = partial(model.narrow, columns=names)
    trial = read_new_rows(model, files[1], source, given, each=each)
    return Answer(model.evaluate(trial), model=path)


_HINT = "See auucmax evaluate --help."


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
