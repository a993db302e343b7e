"""``auucmax export``: the model as SQL, ONNX or JSON."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from auucmax._messages import visible_lines
from auucmax.cli import options
from auucmax.cli.failures import tells_failures
from auucmax.cli.options import listed_columns
from auucmax.cli.output import note, print_json, tell

if TYPE_CHECKING:
    from auucmax.trial_model import TrialModel

FORMATS = ("sql", "onnx", "json")


@tells_failures
def export(
    model: options.Model,
    to: Annotated[str, typer.Option("--to", help="sql, onnx or json.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File; else to the screen (not onnx).")
    ] = None,
    dialect: Annotated[
        str, typer.Option("--dialect", help="duckdb, postgres, bigquery or snowflake.")
    ] = "duckdb",
    table: Annotated[str, typer.Option("--table", help="Table that the SQL reads.")] = "people",
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", help="Columns to keep, with commas or several times; or all."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Write the scores as a query, a graph or coefficients that need no Python.

    SQL and JSON are for all models but networks and DDR; ONNX takes networks as well. --json tells
    what was written and which columns it needs; without a file it has the text, too.
    """
    from auucmax._files import check_target, whole_file
    from auucmax._validation import check_choice
    from auucmax.trial_model import load_model

    check_choice(to, "--to", FORMATS)
    if output is not None:
        check_target(output, model)
    elif to == "onnx":
        raise ValueError("an ONNX model should go to a file, got no --output. Name one.")
    fitted = load_model(model)
    if fitted.warning is not None:
        note(fitted.warning)
    content = _content(fitted, to, table, dialect, keep)
    if output is not None:
        with whole_file(output) as beside:
            beside.write_bytes(content)
    if as_json:
        text = content.decode() if output is None else None
        file = None if output is None else str(output)
        dialect_used = dialect if to == "sql" else None
        told = {"kind": to, "dialect": dialect_used, "file": file, "text": text}
        print_json(told | _needs(fitted))
    elif output is None:
        text = content.decode()
        # A pipe gets what a file would: nothing is stripped.
        shown = visible_lines(text) if sys.stdout.isatty() else text
        typer.echo(shown, nl=False, color=True)
    else:
        tell(f"Written to {output}.")


def _content(
    fitted: TrialModel, to: str, table: str, dialect: str, keep: list[str] | None
) -> bytes:
    from auucmax.export import to_json, to_onnx, to_sql

    parts, calibration = (fitted.encoder, fitted.estimator), fitted.calibration
    if to == "onnx":
        return to_onnx(*parts, calibration=calibration)
    if to == "json":
        return (to_json(*parts, calibration=calibration) + "\n").encode()
    own = [] if fitted.columns.id is None else [fitted.columns.id]
    known = [*fitted.columns.features, *own]
    kept = own if not keep else "all" if keep == ["all"] else listed_columns(keep, known) or []
    query = to_sql(*parts, table=table, dialect=dialect, keep=kept, calibration=calibration)
    return f"{query}\n".encode()


def _needs(fitted: TrialModel) -> dict[str, Any]:
    """The model, and the columns that its score is made of."""
    used = {term.column for term in fitted.encoder.terms_}
    columns = [column for column in fitted.encoder.columns_ if column.name in used]
    return {
        "model": fitted.model_name,
        "n_parameters": getattr(fitted.estimator, "n_parameters_", None),
        "columns": [{"name": column.name, "kind": column.kind} for column in columns],
        "has_uplift": fitted.calibration is not None,
    }
