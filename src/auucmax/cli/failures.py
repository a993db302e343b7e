"""What a user can mend is told in one line, with exit code 2 and no traceback."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any, TextIO

import typer

__all__ = ["BAD_INPUT", "INTERRUPTED", "tells_failures"]

BAD_INPUT = 2
INTERRUPTED = 130


def tells_failures(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with errors and warnings as single lines on stderr.

    Anything but bad input is a defect of ours and keeps its traceback.
    """

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = _note
            try:
                command(*args, **kwargs)
            except (ValueError, OSError, ImportError, MemoryError) as error:
                typer.echo(f"auucmax: {_one_line(error)}", err=True)
                raise typer.Exit(BAD_INPUT) from None
            except KeyboardInterrupt:
                typer.echo("auucmax: interrupted; files are as they were", err=True)
                raise typer.Exit(INTERRUPTED) from None

    return run


def _one_line(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "the data should fit into memory, and do not. Use fewer columns or rows."
    if isinstance(error, OSError) and error.strerror:
        name = f" ({error.filename})" if error.filename else ""
        return f"{error.strerror}{name}."
    return " ".join(str(error).split())


def _note(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    if issubclass(category, UserWarning):
        print(f"note: {' '.join(str(message).split())}", file=file or sys.stderr)
