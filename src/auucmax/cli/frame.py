"""What all commands share: common options, one-line errors, exit codes."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any, TextIO

import typer
from typer.core import TyperCommand, TyperGroup

from auucmax._errors import InputError
from auucmax._files import check_source
from auucmax._progress import quiet as without_progress
from auucmax._progress import speaking
from auucmax.cli.options import OUTPUT, Group
from auucmax.cli.output import Answer, note, print_json, show, tell

BAD_INPUT = 2
INTERRUPTED = 130
UNHEARD = 141  #: whoever read the output has gone: what a shell reports of such a program

_CONTEXT = Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)
_UsageError: Any = typer.BadParameter.__base__


_KINDS = {bool: "", int: "N", float: "NUMBER", Path: "FILE", str: "TEXT"}


class _Params:
    """Show the types of options in words, and none for flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for own in found:
            if own.param_type_name == "argument":
                own.display_type_rich = _no_type
            elif own.metavar is None:
                own.metavar = _KINDS.get(own.type_descriptor.annotation)
        return found


def _no_type(ctx: Any) -> None:
    """Hide the types of arguments."""


class Command(_Params, TyperCommand):
    """A command."""


class Commands(_Params, TyperGroup):
    """The group of commands; wrong options are reported on one line."""

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
                name = f" {error.ctx.info_name}" if error.ctx and error.ctx.parent else ""
                message = " ".join(error.format_message().split()).rstrip(".")
                tell(f"auucmax: {message}. See: auucmax{name} --help", err=True)
            sys.exit(BAD_INPUT)
        sys.exit(code if isinstance(code, int) else 0)


def command(**groups: Group) -> Callable[[Callable[..., Answer | None]], Callable[..., None]]:
    """Turn a function that returns an :class:`Answer` into a command.

    Its keyword arguments called as the groups are dictionaries of their options. ``--json``,
    ``--details`` and ``--quiet`` are options of every command.
    """

    def decorate(function: Callable[..., Answer | None]) -> Callable[..., None]:
        own = signature(function, eval_str=True).parameters.values()
        every = [parameter for parameter in own if parameter.name not in groups]
        every += [parameter for group in (*groups.values(), OUTPUT) for parameter in group]
        every = [p.replace(kind=p.KEYWORD_ONLY) for p in every]
        every.sort(key=lambda p: p.default is not p.empty)  # required ones first

        def run(context: typer.Context, **given: Any) -> None:
            how = {parameter.name: given.pop(parameter.name) for parameter in OUTPUT}
            for name, group in groups.items():
                given[name] = {own.name: given.pop(own.name) for own in group}
            _run(function, given, how, _options(context))

        every = [_CONTEXT, *every]
        run.__name__ = function.__name__
        paragraphs = (function.__doc__ or "").split("\n\n")  # each one line, for it is folded
        run.__doc__ = "\n\n".join(" ".join(text.split()) for text in paragraphs)
        run.__signature__ = Signature(every)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in every}
        return run

    return decorate


def _options(context: typer.Context) -> dict[str, str]:
    """The spelling of each parameter as an option of the command."""
    return {
        own.name: own.opts[0] if own.opts[0].startswith("-") else own.metavar or own.name
        for own in context.command.params
        if own.name
    }


def _run(
    function: Callable[..., Answer | None],
    given: dict[str, Any],
    how: dict[str, bool],
    options: dict[str, str],
) -> None:
    """Run a command and show its result; errors and warnings go to standard error.

    A failed check is a result: exit code 1, and ``--json`` prints it. Anything but bad input is a
    defect of ours and keeps its traceback.
    """
    if how["details"] and how["quiet"]:
        raise typer.BadParameter("--details and --quiet cannot be combined")
    with warnings.catch_warnings(), without_progress() if how["quiet"] else speaking():
        warnings.simplefilter("default")
        warnings.showwarning = partial(_show_warning, set())
        try:
            _interruptible()
            # Before libraries are imported that read tables, which takes a second.
            for name in ("data", "new"):
                if given.get(name) is not None:
                    check_source(given[name])
            answer = function(**given)
            if answer is not None:
                show(answer, **how)
                if answer.failed:
                    raise typer.Exit(1)
        except BrokenPipeError:
            _drop_unwritable_output()
            raise typer.Exit(UNHEARD) from None
        except (ValueError, OSError, ImportError, MemoryError) as error:
            if isinstance(error, ImportError) and (error.name or "").startswith("auucmax"):
                raise
            _drop_unwritable_output()
            code = getattr(error, "exit_code", BAD_INPUT)
            if code == BAD_INPUT:
                tell(f"auucmax: {message_of(error, options)}", err=True)
            else:
                _show_failed_check(error, how, options)
            raise typer.Exit(code) from None
        except KeyboardInterrupt:
            tell("auucmax: interrupted; no file was changed", err=True)
            raise typer.Exit(INTERRUPTED) from None


def message_of(error: BaseException, options: Mapping[str, str]) -> str:
    """Format an error as one line that names the options of this command."""
    if isinstance(error, InputError):
        subject = options.get(error.parameter, error.parameter)
        text = f"{subject} should be {error.expected}, got {error.received}. {error.hint}"
    elif isinstance(error, MemoryError):
        text = "the data do not fit into memory. Use fewer columns or rows."
    elif isinstance(error, OSError) and error.strerror:
        name = f" ({error.filename})" if error.filename else ""
        text = f"{error.strerror}{name}. Fix this and run it again. No partial file was written."
    else:
        text = str(error)
    return " ".join(text.split())


def _show_failed_check(error: BaseException, how: dict[str, bool], options: dict[str, str]) -> None:
    """Report a failed check on two lines, and as JSON if requested."""
    from auucmax.present.brief import as_json, brief

    report = getattr(error, "report", None)
    lines = [message_of(error, options)]
    if report is not None:
        found = brief(report)
        more = f"Next: {found.next_step}" if found.next_step else None
        lines = [found.verdict, *(found.caveats[:1] if more is None else [more])]
    tell(f"auucmax: {lines[0]}", *lines[1:], err=True)
    if how["as_json"]:
        print_json({"failed_check": lines[0], "check": None if report is None else as_json(report)})


def _show_warning(
    seen: set[str],
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    text = " ".join(str(message).split())
    is_in_brief = category.__name__ == "CheckWarning"
    if issubclass(category, UserWarning) and text not in seen and not is_in_brief:
        seen.add(text)
        note(text)


def _interruptible() -> None:
    """Turn SIGINT and SIGTERM into exceptions, so that temporary files are removed."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, _end)


def _end(*_: Any) -> None:
    raise SystemExit(128 + signal.SIGTERM)


def _drop_unwritable_output() -> None:
    """Redirect output that cannot be written, so that flushing at exit succeeds."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
