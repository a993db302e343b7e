"""docs/results.md and the pages of its appendix from the JSON lines, and what they share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from experiments.harness import RESULTS, Line, module_of, read_lines, results_file
from experiments.summaries import Paired

FIRST = "results.md"


class Claim(NamedTuple):
    """What the paper says, what was found here, and whether that agrees, in a word or two."""

    said: str
    found: str
    holds: str


def address(experiment: str) -> str:
    """The page of an experiment, below docs/."""
    return f"results/{experiment}.md"


def render_pages(folder: Path = RESULTS) -> dict[str, str]:
    """The first page, and one for each experiment that has lines, by their places below docs/."""
    from experiments.__main__ import NAMES
    from experiments.first_page import render

    found = {name: read_lines(results_file(name, folder)) for name in NAMES}
    found = {name: lines for name, lines in found.items() if lines}
    pages = {address(name): module_of(name).render(lines) for name, lines in found.items()}
    return {FIRST: render(found), **pages}


def made_by(experiment: str, lines: Sequence[Line], work: str = "fitting") -> str:
    """The command, versions, dates and time behind the lines."""
    versions = sorted({tuple(line["versions"].items()) for line in lines})
    named = "; ".join(", ".join(f"{k} {v}" for k, v in version) for version in versions)
    dates = sorted({line["date"] for line in lines})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    minutes = sum(line.get("cpu_seconds", line["fit_seconds"]) for line in lines) / 60
    return (
        f"`python -m experiments {experiment}`, {when}; {named}; {len(lines):,} lines, "
        f"{minutes:.0f} minutes of {work} on one core.\n"
    )


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; the first column is text, the others are numbers."""
    cells = [list(header), ["---", *["---:"] * (len(header) - 1)], *map(list, rows)]
    return "".join("| " + " | ".join(row) + " |\n" for row in cells)


def auuc(value: float) -> str:
    return f"{value:.5f}"


def signed(value: float) -> str:
    return f"{value:+.5f}"


def interval(difference: Paired) -> str:
    """Mean difference, and its interval in brackets."""
    low, high = signed(difference.low), signed(difference.high)
    return f"{signed(difference.mean)} ({low} to {high})"


def units(difference: Paired) -> str:
    """The same in units of .00001."""
    mean, low, high = (round(1e5 * v) for v in (difference.mean, difference.low, difference.high))
    return f"{mean:+d} ({low:+d} to {high:+d})"


def with_error(difference: Paired) -> str:
    """Mean and standard error in units of .00001."""
    return f"{1e5 * difference.mean:+.0f} ({1e5 * difference.error:.0f})"


def share(value: float) -> str:
    return f"{value:.0%}"


def p_value(value: float) -> str:
    return "< .0001" if value < 1e-4 else f"{value:.2g}"
