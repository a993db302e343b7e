"""``auucmax evaluate``: evaluate a ranking on held-out rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from auucmax._errors import InputError
from auucmax.cli.frame import Answer, command
from auucmax.cli.options import (
    SOURCE,
    NewLevels,
    Source,
    check_roles,
    columns,
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
    trial = read_new_rows(model, files[1], source, given)
    return Answer(model.evaluate(trial), model=path)


_HINT = "See auucmax evaluate --help."
