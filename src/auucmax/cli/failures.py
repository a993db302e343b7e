"""What a user can mend is told in one line, with exit code 2 and no traceback."""

from __future__ import annotations

import functools
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TextIO

import typer
from typer.core import TyperGroup

from auucmax._files import check_source
from auucmax.cli.output import print_json, tell, telling

BAD_INPUT = 2
INTERRUPTED = 130
UNHEARD = 141  #: whoever read the output has gone: what a shell tells of a program that stops then

_UsageError: Any = typer.BadParameter.__base__


class OneLineGroup(TyperGroup):
    """Commands whose wrong options are told like any other bad input: in one line."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command; exit if standalone."""
        given = (args, prog_name, complete_var, False, windows_expand_args)
        if not standalone_mode:
            return super().main(*given, **extra)
        try:
            code = super().main(*given, **extra)
        except _UsageError as error:
            if type(error).__name__ == "NoArgsIsHelpError":  # the message is the help
                error.show()
            else:
                tell(f"auucmax: {_usage(error, sys.argv[1:] if args is None else args)}", err=True)
            sys.exit(BAD_INPUT)
        sys.exit(code if isinstance(code, int) else 0)


def _usage(error: Any, words: Sequence[str]) -> str:
    context = error.ctx
    command = f" {context.info_name}" if context is not None and context.parent else ""
    message = " ".join(error.format_message().split()).rstrip(".")
    if found := re.search("valid (number|integer), unable to parse", message):
        names, n_values = error.param.opts, error.param.nargs
        place = next((k for k, word in enumerate(words) if word.split("=")[0] in names), len(words))
        given = [*words[place].partition("=")[2:], *words[place + 1 :]] if words[place:] else []
        got = " ".join([text for text in given if text][:n_values])
        kind, form = (
            ("number", "as 0.3, with a point") if found[1] == "number" else ("whole number", "as 3")
        )
        several = f"{n_values} {kind}s" if n_values > 1 else f"a {kind}"
        message = f"{names[0]} should be {several}, got {got!r}. Write it {form}, without signs"
    return f"{message}. See: auucmax{command} --help"


def tells_failures(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with errors and warnings as single lines on stderr.

    That rows failed their check is a result, which ``--json`` has on stdout as well. Anything but
    bad input is a defect of ours and keeps its traceback.
    """

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            # A table may be looked at twice, and is told of once.
            warnings.showwarning = functools.partial(_note, set())
            try:
                _interruptible()
                # Told at once: libraries that read tables take a second to load.
                for name in ("data", "new"):
                    if kwargs.get(name) is not None:
                        check_source(kwargs[name])
                with telling(
                    details=kwargs.get("details", False), quiet=kwargs.get("quiet", False)
                ):
                    command(*args, **kwargs)
            except BrokenPipeError:
                _drop_unwritable_output()
                raise typer.Exit(UNHEARD) from None
            except (ValueError, OSError, ImportError, MemoryError) as error:
                _drop_unwritable_output()
                tell(f"auucmax: {_one_line(error)}", err=True)
                # A check that fails is a result, not bad input.
                code = getattr(error, "exit_code", BAD_INPUT)
                if code != BAD_INPUT and kwargs.get("as_json"):
                    print_json(_failed_check(error))
                raise typer.Exit(code) from None
            except KeyboardInterrupt:
                typer.echo("auucmax: interrupted; files are as they were", err=True)
                raise typer.Exit(INTERRUPTED) from None

    return run


def _one_line(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "the data should fit into memory, and do not. Use fewer columns or rows."
    if isinstance(error, OSError) and error.strerror:
        name = f" ({error.filename})" if error.filename else ""
        return f"{error.strerror}{name}. Mend that and run it again: no file is half written."
    return " ".join(str(error).split())


def _failed_check(error: BaseException) -> dict[str, Any]:
    """That rows failed their check, for machines; and what was tested, if that is known."""
    report = getattr(error, "report", None)
    found = None if report is None else report.to_dict()
    return {"failed_check": _one_line(error), "randomisation": found}


def _interruptible() -> None:
    """Make Ctrl-C, or a request to end, an exception, so that half-written files are removed."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, _end)


def _end(*_: Any) -> None:
    raise SystemExit(128 + signal.SIGTERM)


def _drop_unwritable_output() -> None:
    """Drop output that cannot be written, or flushing it at exit would fail once more."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _note(
    told: set[str],
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    text = " ".join(str(message).split())
    if issubclass(category, UserWarning) and text not in told:
        told.add(text)
        tell(f"note: {text}", err=True)
