"""docs/results.md and the pages of its appendix, each a pure function of the JSON lines."""

from __future__ import annotations

from pathlib import Path

from experiments import page
from experiments.harness import NAMES, RESULTS, Line, module_of, read_lines, results_file

FIRST = "results.md"
HEAD = """\
# Results

Written by `python -m experiments all --render` from the JSON lines in `experiments/results`, and
not edited by hand; the page of an experiment in the appendix names its command. The trials are
those of [datasets](results/datasets.md). "The paper" is Betlei,
Diemert and Amini, arXiv 2012.09897; TM is two models, one an arm. AUUC is that of test rows with
joint ranking; a random ranking has half the average effect. Splits of a trial share its rows:
spreads and intervals over splits describe the splits, and say less about another sample of people
than their size suggests; a *widened* interval allows for it (Nadeau and Bengio 2003).
"""
#: Title, and the experiments whose ``summary(lines)`` follows.
SECTIONS = {
    "Which model ranks best on real trials": ("arena",),
    "Which outcome to learn from to rank by money": ("money",),
    "Who gets which of several treatments": ("arms",),
    "Intervals and certificates": (
        "intervals", "coverage", "tightness", "progressive", "monitor", "power",
    ),
    "Table 1: test AUUC on Hillstrom": ("table-1", "hillstrom-linear"),
}  # fmt: skip
#: Experiments whose ``claims(lines)`` judge statements of the paper.
CLAIMS = ("table-1", "cu2", "jobs", "coverage", "bounds-figure", "arena")


def render_pages(folder: Path = RESULTS) -> dict[str, str]:
    """The first page, and one for each experiment that has lines, by their places below docs/."""
    found = {name: read_lines(results_file(name, folder)) for name in NAMES}
    found = {name: lines for name, lines in found.items() if lines}
    pages = {page.address(name): module_of(name).render(lines) for name, lines in found.items()}
    return {FIRST: render(found), **pages}


def render(found: dict[str, list[Line]]) -> str:
    """The first page, of the experiments that have lines."""
    parts = [HEAD]
    for title, names in SECTIONS.items():
        texts = [module_of(name).summary(found[name]) for name in names if name in found]
        parts += [f"## {title}\n", *texts] if texts else []
    rows = [
        f"| {claim.said} | {claim.found} | {claim.holds} | {page.link(name)} |\n"
        for name in CLAIMS
        if name in found
        for claim in module_of(name).claims(found[name])
    ]
    if rows:
        # Text, so that all columns are aligned to the left.
        header = "| the paper | here | holds | page |\n| --- | --- | --- | --- |\n"
        parts += ["## What holds of the paper, and what does not\n", header + "".join(rows)]
    if found:
        parts.append(
            f"## Appendix\n\nA page for each experiment, with its command, all tables and how they "
            f"are to be read: {', '.join(map(page.link, found))}.\n"
        )
    return page.joined(parts)
