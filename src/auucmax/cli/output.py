"""Output of commands: text, JSON and tables."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import typer

from auucmax._errors import InputError, visible, visible_lines, without_passwords
from auucmax._files import check_target, whole_file

LONGEST_MESSAGE = 10_000  #: characters; a text from a file may have millions
WRITERS = (".csv", ".parquet")
_FORMULA = r"[=@\t\r]|[+-](?![\d.,]+$)"  # what a spreadsheet would run; -5 is a number


@dataclass(frozen=True)
class Answer:
    """The result of a command: an object that :mod:`auucmax.present` can show, or text.

    ``saved``: the file that was written, with a ``remark``; ``model``: the file of the model, for
    the next step; ``more``: what ``--json`` adds; ``failed``: exit code 1.
    """

    result: Any
    saved: Path | None = None
    remark: str = ""
    model: Path | None = None
    more: Mapping[str, Any] = field(default_factory=dict)
    failed: bool = False


def show(answer: Answer, *, as_json: bool, details: bool, quiet: bool) -> None:
    """Print a result as JSON or text; ``quiet`` keeps only the verdict and caveats."""
    from auucmax.present import brief

    model = None if answer.model is None else os.path.relpath(answer.model)
    is_text = answer.result is None or isinstance(answer.result, str)
    if as_json:
        numbers = {} if is_text else brief.as_json(answer.result, file=model)
        file = None if answer.saved is None else str(answer.saved)
        print_json({**numbers, **answer.more, "file": file})
        return
    if is_text:
        print_text(answer.result or "")
    else:
        found = brief.brief(answer.result)
        if quiet:
            found = replace(found, facts=(), details=(), next_step=None)
        if model is None and "MODEL" in (found.next_step or ""):  # there is no file to name
            found = replace(found, next_step=None)
        tell(*brief.text(found, details=details, file=model).split("\n"))
    if answer.saved is not None and not quiet:
        tell(f"Saved {answer.saved}{answer.remark}")


def print_json(values: Mapping[str, Any]) -> None:
    """Print a value as one line of JSON; non-finite numbers become null."""
    from auucmax.results import plain

    typer.echo(json.dumps(plain(values), allow_nan=False, default=str))


def tell(*lines: str, err: bool = False) -> None:
    """Print lines without control characters or passwords."""
    # Passwords first: a shortened one could not be recognised.
    shown = [without_passwords(line) for line in lines]
    cut = [line if len(line) <= LONGEST_MESSAGE else f"{line[:LONGEST_MESSAGE]}…" for line in shown]
    typer.echo("\n".join(map(visible, cut)), err=err)


def note(text: str) -> None:
    """Print a note to standard error."""
    tell(f"note: {text}", err=True)


def print_text(text: str) -> None:
    """Print text for other programs; on a terminal without control characters."""
    if not sys.stdout.isatty():  # a pipe gets what a file would
        typer.echo(text, nl=False, color=True)
        return
    shown = visible_lines(text)
    typer.echo(shown, nl=False, color=True)
    if shown != text:
        note("control characters are not shown. Do not copy this text: write it with --output.")


def check_table_target(path: Path, *inputs: str | Path) -> None:
    """Raise an error unless a table can be written there, as CSV or Parquet by its name."""
    check_target(path, *inputs)
    if path.suffix.lower() not in WRITERS:
        raise InputError("output", "a .csv or .parquet file", repr(path.name), "Rename it.")


def write_table(table: Any, path: Path) -> None:
    """Write a table as CSV or Parquet, whole or not at all."""
    with whole_file(path) as beside:
        if path.suffix.lower() == ".parquet":
            from auucmax.data.databases import write_parquet

            write_parquet(table, beside)
            return
        table.to_csv(beside, index=False)
    note_formulas(table)


def note_formulas(table: Any) -> None:
    """Warn if a spreadsheet would run texts of a CSV file as formulas."""
    found = [str(name) for name, own in table.items() if _has_formula(name, own)]
    if found:
        note(
            f"some texts begin with =, +, - or @, which a spreadsheet runs as formulas: "
            f"{', '.join(map(repr, found))}. Import these columns as text, or write .parquet."
        )


def _has_formula(name: Any, column: Any) -> bool:
    texts = [str(name)]
    if str(column.dtype) in ("object", "str", "string"):
        texts += column.dropna().astype(str).tolist()
    return any(re.match(_FORMULA, text) for text in texts)
