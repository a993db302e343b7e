"""``auucmax export``: the model as SQL, ONNX or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from auucmax.cli.failures import tells_failures
from auucmax.cli.options import Model, listed

FORMATS = ("sql", "onnx", "json")


@tells_failures
def export(
    model: Model,
    to: Annotated[str, typer.Option("--to", help="sql, onnx or json.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File; else to the screen (not onnx).")
    ] = None,
    dialect: Annotated[
        str, typer.Option("--dialect", help="duckdb, postgres, bigquery or snowflake.")
    ] = "duckdb",
    table: Annotated[str, typer.Option("--table", help="Table that the SQL reads.")] = "people",
    keep: Annotated[
        str | None, typer.Option("--keep", help="Columns to keep, with commas; or all.")
    ] = None,
) -> None:
    """Write the scores as a query, a graph or coefficients that need no Python.

    SQL and JSON are for linear and logistic models; ONNX takes networks and trees as well.
    """
    from auucmax._files import check_target, whole_file
    from auucmax._validation import check_choice
    from auucmax.export import to_json, to_onnx, to_sql
    from auucmax.trial_model import load_model

    check_choice(to, "--to", FORMATS)
    if output is not None:
        check_target(output, model)
    elif to == "onnx":
        raise ValueError("an ONNX model should go to a file, got no --output. Name one.")
    fitted = load_model(model)
    parts, calibration = (fitted.encoder, fitted.estimator), fitted.calibration
    if to == "onnx":
        content = to_onnx(*parts, calibration=calibration)
    elif to == "json":
        content = (to_json(*parts, calibration=calibration) + "\n").encode()
    else:
        own = [] if fitted.columns.id is None else [fitted.columns.id]
        kept = own if keep is None else "all" if keep == "all" else listed(keep) or []
        query = to_sql(*parts, table=table, dialect=dialect, keep=kept, calibration=calibration)
        content = f"{query}\n".encode()
    if output is None:
        typer.echo(content.decode(), nl=False)
        return
    with whole_file(output) as beside:
        beside.write_bytes(content)
    typer.echo(f"Written to {output}.")
