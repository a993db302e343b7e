"""``auucmax target``: the list of people to treat."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auucmax.cli import options
from auucmax.cli.failures import tells_failures
from auucmax.cli.output import (
    check_table_target,
    print_banner,
    print_json,
    print_rows,
    working,
    write_frame,
)

if TYPE_CHECKING:
    from auucmax.targeting import PlanRow, Selection
    from auucmax.trial_model import Targeting


@tells_failures
def target(
    model: options.Model,
    new: Annotated[
        str, typer.Argument(metavar="NEW", help="The people: a table as for fit, without outcome.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="List to write, .csv or .parquet.")
    ],
    share: Annotated[
        float | None, typer.Option("--share", "-s", help="Share of people to treat, such as .3.")
    ] = None,
    budget: Annotated[
        float | None, typer.Option("--budget", "-b", help="Money to spend, with --cost.")
    ] = None,
    cost: options.Cost = None,
    value: options.Value = None,
    exclude: Annotated[
        str | None,
        typer.Option(help="Table of people who may not be treated, by the column of ids."),
    ] = None,
    groups: options.Groups = None,
    new_levels: options.NewLevels = "error",
    everyone: Annotated[bool, typer.Option("--all", help="List everyone, not the chosen.")] = False,
    query: options.Query = None,
    memory: options.Memory = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    as_json: options.AsJson = False,
) -> None:
    """Choose whom to treat: by a share, a budget, or what an outcome is worth.

    Writes the chosen people, best first, with rank, score, uplift, decile and arm. The expected
    gain is that of the trial's rows that the model has not seen; intervals hold at whatever share
    is chosen after looking. Uplifts of the trial's own people, if NEW is its file, add up to it.
    """
    from auucmax.cli.trials import Source, check_decided, read_ids, read_model, read_rows
    from auucmax.trial_model import target as choose
    from auucmax.trial_model.choosing import check_policy

    check_table_target(output, model, new, *([] if exclude is None else [exclude]))
    check_policy(share, budget, cost, value)
    fitted = read_model(model, new_levels)
    check_decided(fitted.columns, groups=groups)
    table = read_rows(Source(new, query, memory, decimal, encoding))
    unwanted = None if exclude is None else read_ids(exclude, fitted.columns.id)
    with working("choosing", table):
        found = choose(
            fitted, table, share=share, budget=budget, cost=cost, value=value, exclude=unwanted
        )
    write_frame(found.people if everyone else found.chosen(), output)
    if as_json:
        print_json(found.to_dict() | {"file": str(output)})
        return
    print_banner(found.failed_check)
    rows = {"treated": _treated(found.selection, cost)}
    unknown = None if found.failed_check else found.unknown
    left_out = None if found.excluded is None else str(found.excluded)
    notes = [note for note in (left_out, found.nobody, unknown) if note]
    if found.proviso and not found.unknown:
        notes.append(found.proviso)
    if not found.unknown:
        rows[f"expected gain in {fitted.columns.gain}"] = _between(found.expected, "gain")
    if found.of_uplift:
        rows["sum of the uplifts"] = f"{found.uplift:,.1f}"
        notes.append(found.of_uplift)
    if found.has_profit and not found.failed_check:
        if not found.unknown:
            rows["expected profit"] = _between(found.expected, "profit")
        rows["highest expected profit"] = _peak(found, found.plan.best)
        rows["highest lower limit of it"] = _peak(found, found.plan.cautious)
    print_rows(
        f"{len(found.people):,} people",
        rows,
        (*notes, found.plan.population, f"Written to {output}."),
    )


def _treated(selection: Selection, cost: float | None) -> str:
    """Who is treated; what it costs only if that was said."""
    text = str(selection)
    return text if cost is not None else text.replace(f", cost {selection.cost:,.2f}", "", 1)


def _between(row: PlanRow, name: str) -> str:
    low, high = getattr(row, f"{name}_lower"), getattr(row, f"{name}_upper")
    if not math.isfinite(low):
        return f"{getattr(row, name):,.1f} (interval cannot be said)"
    return f"{getattr(row, name):,.1f} ({low:,.1f} to {high:,.1f})"


def _peak(found: Targeting, row: PlanRow) -> str:
    if not row.n_treated:
        return "treat nobody"
    known = _between(row, "profit") if found.is_known(row.share) else "too few rows of the trial"
    return f"{row.n_treated:,} people ({row.n_treated / len(found.people):.0%}): {known}"
