"""What the commands print and write."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from auucmax._files import check_target, whole_file
from auucmax._messages import visible, without_passwords

if TYPE_CHECKING:
    import pandas as pd

# The library speaks of parameters; whoever types commands knows options.
_VALUES = re.compile(
    r"\b(treated|control|share|new_levels|hold_out|groups|encoding)=(['\"]?)([^\s,;'\"]+)\2"
)
_NAMES = {
    "hold_out": "--hold-out",
    "expected_share": "--expected-share",
    "forget_rows": "--forget-rows",
    "n_people": "--cohort",
    "n_jobs": "--jobs",
    "n_candidates": "--candidates",
    "drop_missing_outcomes=True": "--drop-missing-outcomes",
    "despite_check=True": "--despite-check",
}
_FIRST = re.compile(r"(?<![-\w])(decimal|encoding|categorical|numeric)(?= (and numeric )?should )")
_LISTS = re.compile(r"\b(ignore|after)=\[([^\]]*)\]")
_SENTENCES = {
    "Lower min_rows, or hold out more rows.": "Collect more rows.",
    "pass groups: rows": "pass --groups COLUMN: rows",
    " for selection='cv', got": ", got",
    "Use selection='bound' or selection=None.": "Collect more rows.",
    "Use selection='bound' or None, or read": "Collect more rows, or read",
    "Pass propensity, known or estimated, to the metrics.": "In Python, metrics take a propensity.",
    "model should be one of": "--model should be one of",
    "minutes should be": "--minutes should be",
    "learnt from it: pass ignore=": "learnt from it: pass after=",
    "Use one for any outcome (TwoModels, TransformedOutcome)": "Use -m tm, which takes any",
    "allow more memory": "allow more --memory",
    "Name them among the features to learn": "Name them with --features to learn",
    "decimal=',' or decimal='.'": '--decimal "," or --decimal "."',
    "Check the encoding.": "Check --encoding.",
}
WRITERS = (".csv", ".parquet")
_FORMULA = r"[=@\t\r]|[+-](?![\d.,]+$)"  # what a spreadsheet would run; -5 is a number


def print_json(values: Mapping[str, Any]) -> None:
    """Print a value as JSON on one line, with null for numbers that are not finite."""
    from auucmax._json import plain

    typer.echo(json.dumps(plain(values), allow_nan=False, default=str))


def tell(text: str, *, err: bool = False) -> None:
    """A line for people: texts from files can neither steer a terminal nor show a password."""
    typer.echo(visible(without_passwords(as_options(text))), err=err)


def as_options(message: str) -> str:
    """A message of the library, with options in place of parameters.

    >>> as_options("hold_out should be below 1, got 2. Pass treated=... and control='no'.")
    '--hold-out should be below 1, got 2. Pass --treated ... and --control no.'
    >>> as_options("Pass ignore=['sent', 'opened'].")
    'Pass --ignore "sent,opened".'
    """
    for sentence, other in _SENTENCES.items():
        message = message.replace(sentence, other)
    message = _LISTS.sub(_ignored, message)
    message = re.sub(r"^(auucmax: )?(?=(share|budget|cost|value) should )", r"\1--", message)
    message = _FIRST.sub(r"--\1", message)
    message = _VALUES.sub(lambda found: f"--{found[1].replace('_', '-')} {found[3]}", message)
    names = rf"(?<![-\w'])({'|'.join(_NAMES)})(?![\w'])"
    return re.sub(names, lambda found: _NAMES[found[0]], message)


def _ignored(found: re.Match[str]) -> str:
    names = ",".join(name.strip(" '") for name in found[2].split(","))
    return f"--{found[1]} {names}" if names.isidentifier() else f'--{found[1]} "{names}"'


def print_rows(title: str, rows: Mapping[str, str], notes: tuple[str, ...] = ()) -> None:
    """A table of names and values, and what has to be known with it."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    table = Table(title=escape(visible(title)), show_header=False, title_justify="left")
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(escape(visible(name)), escape(visible(value)))
    with console.capture() as shown:
        console.print(table)
        for note in notes:
            # A name of a file that is broken in two is of no use to a script.
            console.print(
                escape(visible(as_options(note))),
                highlight=False,
                soft_wrap=not console.is_terminal,
            )
    typer.echo(shown.get(), nl=False)


def print_banner(failed_check: str | None) -> None:
    """Print, before anything else, that a trial failed its check, if it did."""
    if failed_check is not None:
        tell(f"WARNING. {failed_check}\n")


def between(
    values: Mapping[str, Any], middle: str, low: str, high: str, digits: int, *, sign: bool = False
) -> str:
    """An estimate and its interval, or why it has none.

    >>> between({"a": 0.5, "b": 0.25, "c": 0.75}, "a", "b", "c", 2)
    '0.50 (0.25 to 0.75)'
    >>> between({"a": 0.5, "b": None, "c": None, "declined": "few rows"}, "a", "b", "c", 2)
    '0.50 (interval cannot be said: few rows)'
    """
    form = f"{'+' if sign else ''}.{digits}f"
    if values[low] is None:
        why = values["gain_declined" if low == "gain_lower" else "declined"]
        return f"{values[middle]:{form}} (interval cannot be said: {why})"
    return f"{values[middle]:{form}} ({values[low]:{form}} to {values[high]:{form}})"


def codes_told(columns: Sequence[str]) -> str:
    """Which columns of whole numbers were taken for levels, and how to change it.

    >>> codes_told(["plan", "shop"])
    'plan, shop: each value is a level. --numeric plan,shop keeps them as quantities'
    """
    names = ",".join(columns)
    given = names if names.replace(",", "").isidentifier() else f'"{names}"'
    return (
        f"{', '.join(columns)}: each value is a level. --numeric {given} keeps them as quantities"
    )


def write_frame(frame: pd.DataFrame, path: Path) -> None:
    """Write a frame as CSV or Parquet, by the name of the file; whole or not at all."""
    check_table_target(path)
    with whole_file(path) as beside:
        if path.suffix.lower() == ".parquet":
            frame.to_parquet(beside, index=False)
        else:
            frame.to_csv(beside, index=False)
            _tell_formulas(frame)


def _tell_formulas(frame: pd.DataFrame) -> None:
    """Texts are written as they are, for other programs; a spreadsheet would run some of them."""
    found = {}
    for name in frame.columns[[str(kind) in ("object", "str", "string") for kind in frame.dtypes]]:
        texts = frame[name].dropna().astype(str)
        if n := int(texts.str.match(_FORMULA).sum()):
            found[str(name)] = n
    found |= {str(name): 1 for name in frame.columns if re.match(_FORMULA, str(name))}
    if found:
        named = ", ".join(f"{name!r} {n:,}" for name, n in found.items())
        note(
            f"texts of the list begin with =, +, - or @, which a spreadsheet takes for formulas "
            f"and runs ({named}). Import these columns as text, or write a .parquet file."
        )


def check_table_target(path: Path, *inputs: str | Path) -> None:
    """The name of the file says how it is written."""
    check_target(path, *inputs)
    if path.suffix.lower() not in WRITERS:
        raise ValueError(
            f"the list should be a .csv or .parquet file, got {path.name!r}. Name it so."
        )


def note(text: str) -> None:
    """Print what has to be known apart from the results."""
    tell(f"note: {text}", err=True)


@contextmanager
def working(text: str, table: Any = None) -> Iterator[None]:
    """A spinner while something takes long, on terminals only; pieces of a table show their own."""
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True)
    if not console.is_terminal or hasattr(table, "pieces"):
        yield
        return
    with console.status(escape(visible(text))):
        yield
