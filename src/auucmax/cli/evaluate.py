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
    ModelKnowsOutcome,
    ModelKnowsTreatment,
    Query,
    Treated,
)
from auucmax.cli.output import print_json, print_rows

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
    query: Query = None,
    as_json: AsJson = False,
) -> None:
    """Judge a ranking: AUUC and gain over random with intervals, and a certificate.

    Of the file that the model was fitted on, only the rows that were set aside are used, and that
    is said. With --score-column (and --treatment, --outcome) scores of any origin are judged; they
    must not have been made from these rows.
    """
    rows, note = (
        _by_column(files, score_column, treatment, outcome, treated, control, query)
        if score_column is not None
        else _by_model(files, query)
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
            "certificate": found["certificate"]["text"],
        },
        (note,),
    )


def _judge(y: Any, score: Any, treatment: Any) -> dict[str, Any]:
    from auucmax import auuc_inference, certify, qini_score

    certificate = certify(score, y=y, treatment=treatment)
    return {
        "auuc": asdict(auuc_inference(y, score, treatment=treatment)),
        "qini": qini_score(y, score, treatment=treatment),
        "certificate": asdict(certificate) | {"text": str(certificate)},
    }


def _by_model(files: list[str], query: str | None) -> tuple[dict[str, Any], str]:
    from auucmax.cli.trials import read_rows
    from auucmax.trial_model import load_model

    if len(files) != 2:
        names = ", ".join(files)
        raise ValueError(f"evaluate should get {MODEL_OR_DATA}; got {names}. Name both files.")
    model = load_model(Path(files[0]))
    held = model.held_out(read_rows(files[1], query))
    return {"y": held.y, "score": model.predict(held.frame), "treatment": held.treatment}, held.note


def _by_column(
    files: list[str],
    column: str,
    treatment: str | None,
    outcome: str | None,
    treated: str | None,
    control: str | None,
    query: str | None,
) -> tuple[dict[str, Any], str]:
    from auucmax.cli.trials import column_options, read_rows
    from auucmax.trial_model import name_columns, trial_rows

    if len(files) != 1 or treatment is None or outcome is None:
        raise ValueError(
            "evaluate with --score-column should get one DATA, --treatment and --outcome; got "
            "something else. A MODEL makes its own scores."
        )
    frame = read_rows(files[0], query)
    named = column_options(
        frame, treatment=treatment, outcome=outcome, treated=treated, control=control,
        features=None, ignore=None,
    )  # fmt: skip
    columns = name_columns(frame, **(named | {"features": [column]}))
    rows = trial_rows(frame, columns)
    note = f"Scores from {column!r}: the numbers hold if they were not made from these rows."
    return {"y": rows.y, "score": rows.frame[column].to_numpy(), "treatment": rows.treated}, note
