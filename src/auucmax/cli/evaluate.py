"""``auucmax evaluate``: how good a ranking is on rows that it was not made from."""

from __future__ import annotations

from dataclasses import asdict
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
from auucmax.cli.output import print_json, print_rows

NO_CERTIFICATE = "none, for the model may have learnt from these rows"
MODEL_OR_DATA = "the model file and the data; or only the data, with --score-column"


@tells_failures
def evaluate(
    files: Annotated[
        list[str],
        typer.Argument(metavar="[MODEL] DATA", help=MODEL_OR_DATA, show_default=False),
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

    Of the file that the model was fitted on, only the rows that were set aside are used, and that
    is said; where it cannot be told, there is no certificate. With --score-column (and --treatment,
    --outcome) scores of any origin are judged; they must not have been made from these rows.
    """
    named = {"treatment": treatment, "outcome": outcome, "treated": treated, "control": control}
    if score_column is None:
        rows, note = _by_model(files, new_levels, query, memory, named)
    elif new_levels == "error":
        rows, note = _by_column(files, score_column, query, memory, named)
    else:
        raise ValueError(
            f"--new-levels should come with a MODEL, got {new_levels!r} with --score-column. Leave "
            f"it out: the scores are made already."
        )
    found = _judge(**rows)
    if as_json:
        print_json(found | {"note": note})
        return
    auuc = found["auuc"]
    (low, high), (gain_low, gain_high) = auuc["interval"], auuc["gain_interval"]
    gain = f"{auuc['gain']:+.5f} ({gain_low:+.5f} to {gain_high:+.5f})"
    print_rows(
        f"{auuc['n_rows']:,} rows",
        {
            "AUUC": f"{auuc['estimate']:.5f} ({low:.5f} to {high:.5f})",
            "gain over a random order": gain,
            "Qini": f"{found['qini']:.5f}",
            "certificate": (found["certificate"] or {"text": NO_CERTIFICATE})["text"],
        },
        (note,),
    )


def _judge(y: Any, score: Any, treatment: Any, is_sure: bool) -> dict[str, Any]:
    from auucmax import auuc_inference, certify, qini_score

    found: dict[str, Any] = {
        "auuc": asdict(auuc_inference(y, score, treatment=treatment)),
        "qini": qini_score(y, score, treatment=treatment),
        "certificate": None,
    }
    if is_sure:
        certificate = certify(score, y=y, treatment=treatment)
        found["certificate"] = asdict(certificate) | {"text": str(certificate)}
    return found


def _by_model(
    files: list[str],
    new_levels: str,
    query: str | None,
    memory: float | None,
    named: dict[str, str | None],
) -> tuple[dict[str, Any], str]:
    from auucmax.cli.trials import check_decided, read_model, read_rows

    if len(files) != 2:
        names = ", ".join(files)
        raise ValueError(f"evaluate should get {MODEL_OR_DATA}; got {names}. Name both files.")
    model = read_model(Path(files[0]), new_levels)
    check_decided(model.columns, **named)
    held = model.held_out(read_rows(files[1], query, memory))
    score = model.predict(held.frame)
    rows = {"y": held.y, "score": score, "treatment": held.treatment, "is_sure": held.is_sure}
    return rows, held.note


def _by_column(
    files: list[str],
    column: str,
    query: str | None,
    memory: float | None,
    named: dict[str, str | None],
) -> tuple[dict[str, Any], str]:
    from auucmax.cli.trials import column_options, read_rows, some_rows
    from auucmax.trial_model import name_columns, trial_rows

    if len(files) != 1 or named["treatment"] is None or named["outcome"] is None:
        raise ValueError(
            "evaluate with --score-column should get one DATA, --treatment and --outcome; got "
            "something else. A MODEL makes its own scores."
        )
    table = read_rows(files[0], query, memory)
    options = column_options(table, **named, features=None, ignore=None)
    columns = name_columns(table, **(options | {"features": [column]}))
    rows = trial_rows(some_rows(table, [columns.treatment, columns.outcome, column]), columns)
    note = f"Scores from {column!r}: the numbers hold if they were not made from these rows."
    score = rows.frame[column].to_numpy()
    return {"y": rows.y, "score": score, "treatment": rows.treated, "is_sure": True}, note
