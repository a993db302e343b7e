"""docs/results.md from the JSON lines, and what its sections have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from experiments.harness import RESULTS, Line, module_of, read_lines, results_file
from experiments.summaries import Paired

HEAD = """\
# Results

Written by `python -m experiments all --render` from the JSON lines in `experiments/results`; not
edited by hand. Each section names the command that made its lines; a command that was interrupted
goes on where it stopped. AUUC is that of test rows with joint ranking, unless a column says
otherwise; a random ranking has half the average effect. "The paper" is Betlei, Diemert and Amini,
arXiv 2012.09897. Splits of a trial share its rows: spreads, intervals and p values over splits
describe the splits, and say less about another sample of people than their size suggests.
"""


def render_page(folder: Path = RESULTS) -> str:
    """The page: a section for each experiment that has lines."""
    from experiments.__main__ import NAMES

    found = {name: read_lines(results_file(name, folder)) for name in NAMES}
    sections = [module_of(name).render(lines) for name, lines in found.items() if lines]
    return "\n".join(section.rstrip("\n") + "\n" for section in [HEAD, *sections])


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


def share(value: float) -> str:
    return f"{value:.0%}"


def p_value(value: float) -> str:
    return "< .0001" if value < 1e-4 else f"{value:.2g}"
