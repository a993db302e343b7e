"""docs/results.md: what a reader finishes. The rest is in the appendix, a page an experiment."""

from __future__ import annotations

from experiments import (
    arena_page,
    arms,
    bounds_figure,
    coverage,
    cu2_page,
    hillstrom_linear,
    intervals,
    jobs_page,
    money,
    monitor,
    page,
    power,
    progressive,
    table_1_page,
    tightness,
)
from experiments.harness import Line

Found = dict[str, list[Line]]

HEAD = """\
# Results

Written by `python -m experiments all --render` from the JSON lines in `experiments/results`, and
not edited by hand; every number comes from a command of this repository, which its page in the
appendix names. The trials are those of [datasets](results/datasets.md). "The paper" is Betlei,
Diemert and Amini, arXiv 2012.09897; TM is two models, one per arm. AUUC is that of test rows with
joint ranking; a random ranking has half the average effect. Splits of a trial share its rows:
spreads and intervals over splits describe the splits, and say less about another sample of people
than their size suggests; a *widened* interval allows for it (Nadeau and Bengio 2003).
"""

#: Title, and what is made of the lines of which experiment.
SECTIONS = (
    ("Which model ranks best on real trials", (("arena", arena_page.summary),)),
    ("Which outcome to train on to rank by money", (("money", money.summary),)),
    ("Who gets which of several treatments", (("arms", arms.summary),)),
    (
        "Intervals and certificates",
        (
            ("intervals", intervals.summary),
            ("coverage", coverage.summary),
            ("tightness", tightness.summary),
            ("progressive", progressive.summary),
            ("monitor", monitor.summary),
            ("power", power.summary),
        ),
    ),
    (
        "Table 1: test AUUC on Hillstrom",
        (("table-1", table_1_page.summary), ("hillstrom-linear", hillstrom_linear.summary)),
    ),
)
#: What each experiment says to a statement of the paper.
CLAIMS = (
    ("table-1", table_1_page.claims),
    ("cu2", cu2_page.claims),
    ("jobs", jobs_page.claims),
    ("coverage", coverage.claims),
    ("bounds-figure", bounds_figure.claims),
    ("arena", arena_page.claims),
)


def render(found: Found) -> str:
    """The page, of the experiments that have lines."""
    parts = [HEAD]
    for title, own in SECTIONS:
        texts = [make(found[name]) for name, make in own if name in found]
        parts += [f"## {title}\n", *texts] if texts else []
    parts += [_claims(found), _appendix(found)] if found else []
    return "\n".join(part.rstrip("\n") + "\n" for part in parts if part)


def _claims(found: Found) -> str:
    rows = [
        [claim.said, claim.found, claim.holds, f"[{name}]({page.address(name)})"]
        for name, make in CLAIMS
        if name in found
        for claim in make(found[name])
    ]
    if not rows:
        return ""
    # Text, so that all columns but the last are aligned to the left.
    header = "| the paper | here | holds | page |\n| --- | --- | --- | --- |\n"
    lines = "".join("| " + " | ".join(row) + " |\n" for row in rows)
    return f"## What holds of the paper, and what does not\n\n{header}{lines}"


def _appendix(found: Found) -> str:
    names = ", ".join(f"[{name}]({page.address(name)})" for name in found)
    return (
        f"## Appendix\n\nA page for each experiment, with its command, all tables and how they are "
        f"to be read: {names}.\n"
    )
