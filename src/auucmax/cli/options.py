"""Arguments and options that several commands share, each described once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="CSV, Parquet, Arrow, JSON lines or Excel file; a folder or glob of them; a DuckDB "
        "database or a postgresql:// address with --query.",
        show_default=False,
    ),
]
Model = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="File that `auucmax fit` wrote.",
        show_default=False,
        resolve_path=True,  # messages name a file by its last part, and "." has none
    ),
]
Query = Annotated[
    str | None, typer.Option("--query", "-q", help="SELECT, or table, of a database.")
]
Treatment = Annotated[
    str,
    typer.Option("--treatment", "-t", help="Column that says who was treated.", show_default=False),
]
Outcome = Annotated[
    str,
    typer.Option("--outcome", "-y", help="Column with the outcome; higher is better."),
]
ModelKnowsTreatment = Annotated[
    str | None,
    typer.Option("--treatment", "-t", help="Column that says who was treated; a MODEL knows it."),
]
ModelKnowsOutcome = Annotated[
    str | None,
    typer.Option("--outcome", "-y", help="Column with the outcome; a MODEL knows it."),
]
Treated = Annotated[
    str | None, typer.Option("--treated", help="Value of the treated rows, if it is not 1.")
]
Control = Annotated[
    str | None, typer.Option("--control", help="Value of the control rows, if it is not 0.")
]
Id = Annotated[
    str | None,
    typer.Option("--id", help="Column that names each row; keeps the split if rows are reordered."),
]
Features = Annotated[
    list[str] | None,
    typer.Option(
        "--features",
        help="Columns to learn from, with commas or one each time; all others by default.",
        show_default=False,
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore",
        help="Columns not to learn from, with commas or one each time.",
        show_default=False,
    ),
]
NewLevels = Annotated[
    str,
    typer.Option(
        "--new-levels",
        help="What to do with texts that training did not have: error, or other, which counts them "
        "to no level.",
    ),
]
Memory = Annotated[
    float | None,
    typer.Option(
        "--memory",
        help="GB of memory to use; larger tables are read piece by piece. By default what is free.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print all numbers as JSON, for machines.")]
Seed = Annotated[int, typer.Option("--seed", help="Of splits and models.")]
Cost = Annotated[float | None, typer.Option("--cost", help="Of treating one person.")]
Value = Annotated[float | None, typer.Option("--value", help="Of one outcome, in the same money.")]


def listed(text: str | None) -> list[str] | None:
    """Names between commas.

    >>> listed("age, income")
    ['age', 'income']
    """
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def listed_columns(texts: Sequence[str] | None, known: Collection[str]) -> list[str] | None:
    """Names between commas, of one option or several; a text that is a known name is one.

    >>> listed_columns(["age, income", "town,country"], ["age", "income", "town,country"])
    ['age', 'income', 'town,country']
    """
    if not texts:
        return None
    return [name for text in texts for name in ([text] if text in known else listed(text) or [])]
