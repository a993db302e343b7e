"""What the commands print and write."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from auucmax._files import check_target, whole_file
from auucmax._messages import visible, visible_lines, without_passwords
from auucmax._progress import is_quiet
from auucmax._progress import quiet as without_progress

if TYPE_CHECKING:
    import pandas as pd

# The library speaks of parameters, as groups=; whoever types commands knows options. What is only
# for programmers is in brackets that begin with "in Python".
PARAMETERS = (
    "treatment", "outcome", "treated", "control", "id", "groups", "features", "ignore", "after",
    "categorical", "numeric", "lower_is_better", "drop_missing_outcomes", "despite_check", "model",
    "hold_out", "n_candidates", "share", "budget", "cost", "value",
    "n_people", "new_levels", "query", "decimal", "encoding", "expected_share", "splits",
    "n_jobs", "dialect", "keep", "outcome_range", "propensity", "window", "date", "as_of",
    "treated_share", "score_column", "rival_column", "delta", "state", "chosen", "people",
    "at_most", "at_least", "cost_column", "forbid", "arms", "key", "explore", "power", "base_rate",
    "gain", "effect_sd", "explained", "other_gain", "agreement", "outcome_sd", "effect", "strata",
    "blocked", "cross_fitted", "campaign", "least_chance", "new_model", "n_arms", "n_rows",
    "random_state", "cohort", "largest_group", "currency", "page", "reasons",
)  # fmt: skip
_CALLED = {
    "n_candidates": "candidates", "n_people": "cohort", "n_jobs": "jobs", "people": "list",
    "n_arms": "arms", "n_rows": "rows", "random_state": "seed",
}  # fmt: skip
_NAMES = "|".join(PARAMETERS)
_NAME = re.compile(rf"\b(?:{_NAMES})\b")
_BETWEEN = r"(?:, | [+] |,? (?:and|or|with) )"
# "People should" begins a sentence of English.
_SUBJECTS = "|".join(name for name in PARAMETERS if name != "people")
_FIRST = re.compile(
    rf"^(?:(?:auucmax|note): )?(?:{_SUBJECTS})(?:{_BETWEEN}(?:{_SUBJECTS}))*(?=,? should )"
)
# No word of English has an underscore; names of columns stand in quotes.
_UNDERSCORED = "|".join(name for name in PARAMETERS if "_" in name)
_BARE = re.compile(rf"(?<![-\w./'\"])(?:{_UNDERSCORED})(?![\w'\"/=(-]|[.]\w)")
_GIVEN = re.compile(
    rf"(?<![-\w.'\"])({_NAMES})="
    r"(\[[^\]]*\]|\([^()]*\)|'[^']*'|\"[^\"]*\"|\.\.\.|[^\s,;.:'\"()]+(?:\.\w+)?)?"
)
_VARIABLES = {"y": "the outcome", "X": "the features"}
_VARIABLE = re.compile(r"(?<![\w'\"])(?:\w+Error: )?([yX])(?= should )")
_PYTHON = re.compile(r" ?\(in Python(?:[^()]|\([^()]*\))*\)")
LONGEST_MESSAGE = 10_000  #: characters; a text of a file may have millions
WRITERS = (".csv", ".parquet")
_FORMULA = r"[=@\t\r]|[+-](?![\d.,]+$)"  # what a spreadsheet would run; -5 is a number


def print_json(values: Mapping[str, Any]) -> None:
    """Print a value as JSON on one line, with null for numbers that are not finite."""
    from auucmax._json import plain

    typer.echo(json.dumps(told(plain(values)), allow_nan=False, default=str))


def tell(*lines: str, err: bool = False) -> None:
    """Lines for people: texts from files can neither steer a terminal nor show a password."""
    typer.echo("\n".join(map(_shown, lines)), err=err)


def _shown(text: str) -> str:
    # Passwords first: of one that is cut nothing could be recognised.
    return visible(as_options(without_passwords(text)))


def print_text(text: str, *, nl: bool = True) -> None:
    """Print a query or program for other programs; a terminal gets nothing that would steer it."""
    if not sys.stdout.isatty():  # a pipe gets what a file would
        typer.echo(text, nl=nl, color=True)
        return
    shown = visible_lines(text)
    typer.echo(shown, nl=nl, color=True)
    if shown != text:
        note(
            "texts in it have control characters, which a terminal would obey, and which are not "
            "shown: what is on the screen is not to be copied. Send it to a file, by > FILE."
        )


def as_options(message: str) -> str:
    """A message of the library, with options in place of parameters.

    >>> as_options("hold_out should be below 1, got 2. Pass treated=... and control='no'.")
    '--hold-out should be below 1, got 2. Pass --treated ... and --control no.'
    >>> as_options("Pass after=['sent', 'opened'], or despite_check=True (in Python: or norm=1).")
    'Pass --after "sent,opened", or --despite-check.'
    >>> as_options("Pass outcome_range=(0, 500), say.")
    'Pass --outcome-range 0 500, say.'
    >>> as_options("share or budget should be given, got both. Lower at_least, not 'at_least'.")
    "--share or --budget should be given, got both. Lower --at-least, not 'at_least'."
    """
    if len(message) > LONGEST_MESSAGE:
        message = f"{message[:LONGEST_MESSAGE]}…"
    message = _VARIABLE.sub(lambda found: _VARIABLES[found[1]], _PYTHON.sub("", message))
    message = _FIRST.sub(lambda first: _NAME.sub(lambda own: _option(own[0]), first[0]), message)
    return _BARE.sub(lambda own: _option(own[0]), _GIVEN.sub(_given, message))


def _option(parameter: str) -> str:
    return f"--{_CALLED.get(parameter, parameter).replace('_', '-')}"


def _given(found: re.Match[str]) -> str:
    option, value = _option(found[1]), found[2] or ""
    if value in ("", "True"):
        return option
    if value.startswith("("):
        return f"{option} {value.strip('()').replace(', ', ' ')}"
    names = ",".join(name.strip(" '\"") for name in value.strip("[]").split(","))
    if value in ("','", '","'):
        names = ","
    is_plain = re.fullmatch(r"[\w.-]*\w|\.\.\.", names)
    return f"{option} {names}" if is_plain else f'{option} "{names}"'


def told(values: Any) -> Any:
    """The same of all sentences in a dictionary or list, and of nothing else.

    >>> told({"advice": ["Pass groups='home'."], "feature": "groups=a"})
    {'advice': ['Pass --groups home.'], 'feature': 'groups=a'}
    """
    if isinstance(values, Mapping):
        return {name: told(value) for name, value in values.items()}
    if isinstance(values, list | tuple):
        return [told(value) for value in values]
    is_sentence = isinstance(values, str) and " " in values and values.endswith((".", ")"))
    return as_options(values) if is_sentence else values


_amount: ContextVar[str] = ContextVar("amount", default="lines")


@contextmanager
def telling(*, details: bool = False, quiet: bool = False) -> Iterator[None]:
    """How much results tell while the block runs: details, some lines, or the verdict alone."""
    if details and quiet:
        raise ValueError("--details or --quiet should be given, got both. Leave one out.")
    before = _amount.set("details" if details else "verdict" if quiet else "lines")
    try:
        with without_progress() if quiet else nullcontext():
            yield
    finally:
        _amount.reset(before)


def print_result(
    verdict: str,
    lines: Mapping[str, str],
    *,
    cautions: Sequence[str] = (),
    details: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
    written: Sequence[str] = (),
) -> None:
    """The result of a command: its verdict, the few lines that a reader needs, and warnings.

    ``details`` take the place of the lines, and ``notes`` are added, if ``--details`` asks for
    them; ``--quiet`` leaves the verdict and the ``cautions``, which are always told.
    """
    amount = _amount.get()
    tell(verdict)
    if amount == "details":
        _print_table(lines if details is None else details, framed=True)
        _print_notes((*cautions, *notes, *written))
        return
    if amount == "lines":
        _print_table(lines, framed=False)
    _print_notes(cautions)
    if amount == "lines":
        more = ["`--details` tells more."] if details or notes else []
        _print_notes((*written, *more))


def _print_table(rows: Mapping[str, str], *, framed: bool) -> None:
    """Names and values, each in a column."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    table = Table(show_header=False, box=box.HEAVY_HEAD if framed else None, pad_edge=True)
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(escape(_shown(name)), escape(_shown(value)))
    with console.capture() as shown:
        if rows:
            console.print(table)
    # Cells are filled up to the width of their column.
    typer.echo("".join(f"{line.rstrip()}\n" for line in shown.get().splitlines()), nl=False)


def _print_notes(notes: Sequence[str]) -> None:
    """Sentences, folded at the width of a terminal."""
    from rich.console import Console
    from rich.markup import escape

    console = Console()
    with console.capture() as shown:
        for note in notes:
            # A name of a file that is broken in two is of no use to a script.
            console.print(escape(_shown(note)), highlight=False, soft_wrap=not console.is_terminal)
    typer.echo(shown.get(), nl=False)


def print_banner(failed_check: str | None) -> None:
    """Print, before anything else, that a trial failed its check, if it did."""
    if failed_check is not None:
        tell(f"WARNING. {failed_check}", "")


def unit_for(rows: Mapping[str, Any], digits: int = 5) -> dict[str, Any]:
    """How numbers of a ranking are written, for ``between``: of 0/1 and of any number as they are.

    >>> unit_for({"outcome": "money with zeros"})
    {'digits': 2, 'scale': 100, 'unit': ' per 100 people'}
    """
    from auucmax.data.outcomes import BINARY, unit_of

    scale, per = unit_of(rows["outcome"])
    if rows["outcome"] == BINARY or scale == 1:
        return {"digits": digits}
    return {"digits": 2, "scale": scale, "unit": f" {per}"}


def between(
    values: Mapping[str, Any],
    middle: str,
    low: str,
    high: str,
    digits: int,
    *,
    scale: float = 1,
    unit: str = "",
    sign: bool = False,
) -> str:
    """An estimate and its interval, or why it has none.

    >>> between({"a": 0.5, "b": 0.25, "c": 0.75}, "a", "b", "c", 2)
    '0.50 (0.25 to 0.75)'
    >>> between({"a": 0.5, "b": None, "c": None, "declined": "few rows"}, "a", "b", "c", 2)
    '0.50 (interval cannot be said: few rows)'
    """
    form = f"{'+' if sign else ''}.{digits}f"
    shown = f"{values[middle] * scale:{form}}{unit}"
    if values[low] is None:
        why = values["gain_declined" if low == "gain_lower" else "declined"]
        return f"{shown} (interval cannot be said: {why})"
    return f"{shown} ({values[low] * scale:{form}} to {values[high] * scale:{form}})"


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


def quantities_told(columns: Sequence[str]) -> str:
    """Which columns of whole numbers were taken for quantities though they might be codes.

    >>> quantities_told(["age", "zip"])
    'age, zip. --categorical NAME takes each value of one for a level'
    """
    return f"{', '.join(columns)}. --categorical NAME takes each value of one for a level"


def write_frame(frame: pd.DataFrame, path: Path) -> None:
    """Write a frame as CSV or Parquet, by the name of the file; whole or not at all."""
    check_table_target(path)
    with whole_file(path) as beside:
        if path.suffix.lower() == ".parquet":
            from auucmax.data.databases import write_parquet

            write_parquet(frame, beside)
        else:
            frame.to_csv(beside, index=False)
            tell_formulas(frame)


def tell_formulas(frame: pd.DataFrame) -> None:
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
def working(text: str) -> Iterator[None]:
    """A spinner while something takes long, on terminals only."""
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True)
    if is_quiet() or not console.is_terminal:
        yield
        return
    with console.status(escape(visible(text))):
        yield
