"""What all commands share: options of output, one-line errors, exit codes, text and tables."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any, TextIO

import typer
from typer.core import TyperCommand, TyperGroup

from auucmax._errors import InputError, visible, visible_lines, without_passwords
from auucmax._files import check_source, check_target, whole_file
from auucmax._progress import quiet as without_progress
from auucmax._progress import speaking
from auucmax.cli.options import OUTPUT, Group

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


BAD_INPUT = 2
INTERRUPTED = 130
UNHEARD = 141  #: exit code that a shell reports when nobody reads the output any more

_CONTEXT = Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)
_UsageError: Any = typer.BadParameter.__base__


_KINDS = {bool: "", int: "N", float: "NUMBER", Path: "FILE", str: "TEXT"}


class _Params:
    """Show the types of options in words, and none for flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        # A mixin: the command beside it has this method.
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

    Keyword arguments named like a group are dictionaries of its options. ``--json``, ``--details``
    and ``--quiet`` are options of every command.
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
        # typer takes the options from the signature, which inspect.signature reads here first.
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

    A failed check is a result: exit code 1, and ``--json`` prints it. Errors other than bad input
    are bugs and keep their traceback.
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
