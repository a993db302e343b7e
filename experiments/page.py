"""What the pages of results share: their head, tables, and the forms of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from experiments.harness import Line
from experiments.summaries import Paired


class Claim(NamedTuple):
    """What the paper says, what was found here, and whether that agrees, in a word or two."""

    said: str
    found: str
    holds: str


def address(experiment: str) -> str:
    """The page of an experiment, below docs/."""
    return f"results/{experiment}.md"


def link(experiment: str) -> str:
    return f"[{experiment}]({address(experiment)})"


def written(title: str, lines: Sequence[Line], *parts: str, work: str = "fitting") -> str:
    """A whole page: the title ("NAME: what it is about"), how it was made, and its parts."""
    head = [f"# {title}\n", made_by(title.partition(":")[0], lines, work)]
    return joined([*head, *parts])


def joined(parts: Iterable[str]) -> str:
    """Paragraphs, tables and headings with an empty line between them."""
    return "\n".join(part.rstrip("\n") + "\n" for part in parts if part)


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


def listed(names: Sequence[str], none: str = "none") -> str:
    return ", ".join(names) or none


def auuc(value: float) -> str:
    return f"{value:.5f}"


def signed(value: float) -> str:
    return f"{value:+.5f}"


def interval(difference: Paired) -> str:
    """Mean difference, and its interval in brackets."""
    return f"{signed(difference.mean)} ({ends(difference)})"


def ends(difference: Paired) -> str:
    return f"{signed(difference.low)} to {signed(difference.high)}"


def units(difference: Paired) -> str:
    """Mean and interval in units of .00001."""
    mean, low, high = (round(1e5 * v) for v in (difference.mean, difference.low, difference.high))
    return f"{mean:+d} ({low:+d} to {high:+d})"


def with_half(difference: Paired) -> str:
    """Mean, and half the width of its interval."""
    return f"{difference.mean:+.3f} ± {difference.half:.3f}"


def with_error(difference: Paired) -> str:
    """Mean and standard error in units of .00001."""
    return f"{1e5 * difference.mean:+.0f} ({1e5 * difference.error:.0f})"


def share(value: float) -> str:
    return f"{value:.0%}"


def p_value(value: float) -> str:
    return "< .0001" if value < 1e-4 else f"{value:.2g}"
