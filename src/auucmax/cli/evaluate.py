"""``auucmax evaluate``: how good a ranking is on rows that it was not made from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from auucmax.cli.failures import tells_failures
from auucmax.cli.options import (
    AsJson,
    Control,
    Memory,
    ModelKnowsOutcome,
    ModelKnowsTreatment,
    NewLevels,
    Query,
    Treated,
)
from auucmax.cli.output import between, print_json, print_rows

MODEL_OR_DATA = "the model file; the model file and new data; or data with --score-column"


@tells_failures
def evaluate(
    files: Annotated[
        list[str],
        typer.Argument(metavar="[MODEL] [DATA]", help=MODEL_OR_DATA, show_default=False),
    ],
    score_column: Annotated[
        str | None, typer.Option("--score-column", help="Scores made by any other tool.")
    ] = None,
    treatment: ModelKnowsTreatment = None,
    outcome: ModelKnowsOutcome = None,
    treated: Treated = None,
    control: Control = None,
    new_levels: NewLevels = "error",
    query: Query = None,
    memory: Memory = None,
    as_json: AsJson = False,
) -> None:
    """Judge a ranking: AUUC and gain over random with intervals, and a certificate.

    Of a MODEL alone, what was found when it was fitted, on rows that its models had not seen. With
    DATA, what these rows show: rows that the model learnt from are left out if ids tell them;
    otherwise a file with such rows is refused. With --score-column (and --treatment, --outcome)
    scores of any origin are judged; they must not have been made from these rows.
    """
    named = {"treatment": treatment, "outcome": outcome, "treated": treated, "control": control}
    if score_column is None:
        found = _by_model(files, new_levels, query, memory, named)
    elif new_levels == "error":
        found = _by_column(files, score_column, query, memory, named)
    else:
        raise ValueError(
            f"--new-levels should come with a MODEL, got {new_levels!r} with --score-column. Leave "
            f"it out: the scores are made already."
        )
    if as_json:
        print_json(found)
        return
    auuc = found["auuc"]
    print_rows(
        f"{found['rows']['n_rows']:,} rows",
        {
            "AUUC": between(auuc, "estimate", "lower", "upper", 5),
            "gain over a random order": between(
                auuc, "gain", "gain_lower", "gain_upper", 5, sign=True
            ),
            "Qini": f"{found['qini']:.5f}",
            "certificate": (found["certificate"] or {"text": _no_certificate(found)})["text"],
        },
        tuple(found["notes"]),
    )


def _no_certificate(found: dict[str, Any]) -> str:
    if found["doubt"] is not None:
        return "none, for the model may have learnt from these rows"
    return "none"


def _by_model(
    files: list[str],
    new_levels: str,
    query: str | None,
    memory: float | None,
    named: dict[str, str | None],
) -> dict[str, Any]:
    from auucmax.cli.trials import check_decided, read_model, read_rows

    if len(files) not in (1, 2):
        names = ", ".join(files)
        raise ValueError(f"evaluate should get {MODEL_OR_DATA}; got {names}. Name two at most.")
    model = read_model(Path(files[0]), new_levels)
    check_decided(model.columns, **named)
    if len(files) == 1:
        return model.evidence.facts
    return model.judge(read_rows(files[1], query, memory)).facts


def _by_column(
    files: list[str],
    column: str,
    query: str | None,
    memory: float | None,
    named: dict[str, str | None],
) -> dict[str, Any]:
    if len(files) != 1 or named["treatment"] is None or named["outcome"] is None:
        raise ValueError(
            "evaluate with --score-column should get one DATA, --treatment and --outcome; got "
            "something else. A MODEL makes its own scores."
        )
    from auucmax import certify
    from auucmax._validation import check_column
    from auucmax.cli.trials import column_options, read_rows, some_rows
    from auucmax.trial_model import Judged, evidence_of, name_columns, trial_rows

    table = read_rows(files[0], query, memory)
    options = column_options(table, **named, features=None, ignore=None)
    columns = name_columns(table, **(options | {"features": [column]}))
    rows = trial_rows(some_rows(table, [columns.treatment, columns.outcome, column]), columns)
    score = check_column(rows.frame[column].to_numpy(), f"the scores {column!r}")
    note = f"Scores from {column!r}: the numbers hold if they were not made from these rows."
    return evidence_of(
        Judged(rows.y, score, rows.treated),
        certificate=certify(score, y=rows.y, treatment=rows.treated),
        every_percent=True,
        notes=[note],
    ).facts
