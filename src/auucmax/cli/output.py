"""What the commands print and write."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from auucmax._files import check_target, whole_file

if TYPE_CHECKING:
    import pandas as pd

WRITERS = (".csv", ".parquet")


def print_json(values: Mapping[str, Any]) -> None:
    """On one line, numbers that are not finite as null."""
    from auucmax._json import plain

    typer.echo(json.dumps(plain(values), allow_nan=False, default=str))


def visible(text: str) -> str:
    """Without the control characters by which a text from a file could steer a terminal.

    >>> visible("fine\x1b[2J")
    'fine�[2J'
    """
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )


def print_rows(title: str, rows: Mapping[str, str], notes: tuple[str, ...] = ()) -> None:
    """A table of names and values, and what has to be known with it."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    table = Table(title=escape(title), show_header=False, title_justify="left")
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(escape(visible(name)), escape(visible(value)))
    console.print(table)
    for note in notes:
        # A name of a file that is broken in two is of no use to a script.
        console.print(escape(visible(note)), highlight=False, soft_wrap=not console.is_terminal)


def between(
    values: Mapping[str, Any], middle: str, low: str, high: str, digits: int, *, sign: bool = False
) -> str:
    """An estimate and its interval.

    >>> between({"a": 0.5, "b": 0.25, "c": 0.75}, "a", "b", "c", 2)
    '0.50 (0.25 to 0.75)'
    """
    form = f"{'+' if sign else ''}.{digits}f"
    return f"{values[middle]:{form}} ({values[low]:{form}} to {values[high]:{form}})"


def write_frame(frame: pd.DataFrame, path: Path) -> None:
    """As CSV or Parquet, by the name of the file; whole or not at all."""
    check_table_target(path)
    with whole_file(path) as beside:
        if path.suffix.lower() == ".parquet":
            frame.to_parquet(beside, index=False)
        else:
            frame.to_csv(beside, index=False)


def check_table_target(path: Path, *inputs: str | Path) -> None:
    """The name of the file says how it is written."""
    check_target(path, *inputs)
    if path.suffix.lower() not in WRITERS:
        raise ValueError(
            f"the list should be a .csv or .parquet file, got {path.name!r}. Name it so."
        )


def note(text: str) -> None:
    """What has to be known, apart from the results."""
    typer.echo(f"note: {text}", err=True)


@contextmanager
def working(text: str, table: Any = None) -> Iterator[None]:
    """A spinner while something takes long, on terminals only; pieces of a table show their own."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal or hasattr(table, "pieces"):
        yield
        return
    with console.status(text):
        yield
