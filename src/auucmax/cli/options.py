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
        "database, or a postgresql://, bigquery://, databricks://, mysql://, snowflake://, "
        "sqlite:// or trino:// address, with --query.",
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
    typer.Option(
        "--treatment",
        "-t",
        help="Column that says who was assigned to treatment, whether it was taken or not.",
    ),
]
Outcome = Annotated[
    str,
    typer.Option("--outcome", "-y", help="Column with the outcome; empty where it is not known."),
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
    str | None,
    typer.Option("--control", help="Value of the control rows, if it is not 0 or control."),
]
Id = Annotated[
    str | None,
    typer.Option("--id", help="Column that names each row; keeps the split if rows are reordered."),
]
Groups = Annotated[
    str | None,
    typer.Option(
        "--groups",
        help="Column of the household or shop whose rows belong together: folds keep it whole, and "
        "intervals and certificates are by group. A MODEL knows it.",
    ),
]
Propensity = Annotated[
    str | None,
    typer.Option(
        "--propensity",
        help="Column with the chance of treatment that each row had by design, where it was not "
        "the same for all (strata, waves, exploration). Of several arms a column for each but the "
        'control, "A=chance A,B=chance B"; or chance, for columns "chance LABEL". No feature, '
        "unless named as one. A MODEL knows it.",
    ),
]
Features = Annotated[
    list[str] | None,
    typer.Option(
        "--features",
        help="Columns to learn from, with commas or one each time; all others by default.",
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore",
        help="Columns not to learn from, with commas or one each time; they are still checked.",
    ),
]
After = Annotated[
    list[str] | None,
    typer.Option(
        "--after",
        help="Columns that were recorded after treatment, such as other outcomes: neither learnt "
        "from nor checked.",
    ),
]
LowerIsBetter = Annotated[
    bool,
    typer.Option(
        "--lower-is-better",
        help="The outcome is a cost or a relapse: gains are told as what is avoided of it.",
    ),
]
OutcomeRange = Annotated[
    tuple[float, float] | None,
    typer.Option(
        "--outcome-range",
        metavar="LOW HIGH",
        help="Lowest and highest outcome that a certificate counts, where outcomes are not 0/1; "
        "those beyond are clipped to it. A MODEL knows it.",
    ),
]
DropMissing = Annotated[
    bool,
    typer.Option(
        "--drop-missing-outcomes",
        help="Leave out rows without an outcome (lost, or not known yet); it is tested whether the "
        "arms differ in it.",
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
Decimal = Annotated[
    str | None,
    typer.Option(
        "--decimal",
        help='Decimal sign of the numbers of a CSV file, "." or ",", where they do not show it.',
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        "--encoding", help="Of the text of a CSV file that is not UTF-8: latin-1, cp1252, utf-16."
    ),
]
Categorical = Annotated[
    list[str] | None,
    typer.Option(
        "--categorical", help="Columns whose numbers are codes, as of shops: each value is a level."
    ),
]
Numeric = Annotated[
    list[str] | None,
    typer.Option(
        "--numeric",
        help="Columns whose whole numbers are quantities: 3 to 10 different ones are taken for "
        "codes otherwise.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print all numbers as JSON, for machines.")]
# `tells_failures` reads both for all commands.
Details = Annotated[
    bool, typer.Option("--details", help="Tell everything: all numbers, and how they were found.")
]
Quiet = Annotated[
    bool, typer.Option("--quiet", help="The verdict and warnings alone, and no progress.")
]
Seed = Annotated[int, typer.Option("--seed", help="Of splits and models.")]
Value = Annotated[float | None, typer.Option("--value", help="Of one outcome, in the same money.")]


def names_in(text: str | None) -> list[str] | None:
    """Names between commas.

    >>> names_in("age, income")
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
    return [name for text in texts for name in ([text] if text in known else names_in(text) or [])]
