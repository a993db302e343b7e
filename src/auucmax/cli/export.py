"""``auucmax export``: the model as SQL, ONNX, JSON or a card."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from auucmax._errors import InputError
from auucmax.cli.frame import Answer, command
from auucmax.cli.options import Cost, Model, Value, amounts, listed_columns

FORMATS = ("sql", "onnx", "json", "card")


@command()
def export(
    model: Model,
    to: Annotated[str, typer.Option(metavar="|".join(FORMATS), help="Format to write.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File to write. Default: print to the screen (not for onnx)."
        ),
    ] = None,
    dialect: Annotated[
        str,
        typer.Option(
            help="SQL dialect: duckdb, postgres, bigquery, snowflake, spark or databricks."
        ),
    ] = "duckdb",
    table: Annotated[str, typer.Option(help="Table that the SQL reads from.")] = "people",
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMNS",
            help="Columns to select in addition to the score, separated by commas, or all.",
        ),
    ] = None,
    cost: Cost = None,
    value: Value = None,
) -> Answer:
    """Export a model as SQL, ONNX, JSON or a model card.

    The export gives the same scores and uplifts as Python. With several arms, it has the uplift of
    each arm and the arm with the highest --value times uplift minus --cost. --json also lists the
    input columns.
    """
    from auucmax import export as write
    from auucmax._files import check_target, whole_file
    from auucmax._validation import check_choice
    from auucmax.model import load

    check_choice(to, "to", FORMATS)
    if output is not None:
        check_target(output, model)
    elif to == "onnx":
        raise InputError("output", "a file for an ONNX model", "none", "Pass --output m.onnx.")
    worth: dict[str, Any] = {"cost": amounts("cost", cost), "value": value}
    fitted = load(model)
    content: str | bytes
    if to == "card":
        from auucmax.present.page import model_card

        content = model_card(fitted)
    elif to == "sql":
        own = [fitted.roles.id] if fitted.roles.id else []
        known = [*fitted.roles.features, *own]
        kept = "all" if keep == ["all"] else listed_columns(keep, known) or own
        content = write.to_sql(fitted, dialect=dialect, table=table, keep=kept, **worth)
    elif to == "json":
        content = write.to_json(fitted, **worth)
    else:
        content = write.to_onnx(fitted, **worth)
    whole = content if isinstance(content, bytes) else f"{content.rstrip()}\n".encode()
    if output is not None:
        with whole_file(output) as beside:
            beside.write_bytes(whole)
    text = whole.decode() if output is None else None
    more = {
        "kind": to,
        "dialect": dialect if to == "sql" else None,
        "text": text,
        "model": fitted.recipe.model,
        "n_parameters": fitted.info.n_parameters,
        "columns": [{"name": name, "kind": kind} for name, kind in fitted.inputs.items()],
        "arms": fitted.arms,
    }
    return Answer(text, saved=output, more=more)
