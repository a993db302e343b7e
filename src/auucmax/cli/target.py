"""``auucmax target``: the list of people to treat."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auucmax.cli import options
from auucmax.cli.arms import CostOfArms, limits_of, price_of_one, tell_choice, tell_half, written
from auucmax.cli.failures import tells_failures
from auucmax.cli.output import (
    check_table_target,
    print_banner,
    print_json,
    print_result,
    working,
    write_frame,
)
from auucmax.cli.ranking import verdict_of

if TYPE_CHECKING:
    from auucmax.model.choosing import Targeting
    from auucmax.targeting import PlanRow, Selection


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
    cost: CostOfArms = None,
    value: options.Value = None,
    cost_column: Annotated[
        str | None,
        typer.Option(help='Of several arms: columns of NEW with the cost of each person, "A=COL".'),
    ] = None,
    at_most: Annotated[
        str | None, typer.Option(help='Of several arms: most people of an arm, "A=5000".')
    ] = None,
    at_least: Annotated[
        str | None, typer.Option(help='Of several arms: fewest people of an arm, "A=100".')
    ] = None,
    forbid: Annotated[
        str | None,
        typer.Option(help='Of several arms: columns that say who may not get an arm, "A=COL".'),
    ] = None,
    exclude: Annotated[
        str | None,
        typer.Option(help="Table of people who may not be treated, by the column of ids."),
    ] = None,
    groups: options.Groups = None,
    new_levels: options.NewLevels = "error",
    reasons: Annotated[
        bool,
        typer.Option(
            "--reasons",
            help="Add the columns that move the score of each of the chosen most, in words; of "
            "several arms, that of the arm that is given.",
        ),
    ] = False,
    everyone: Annotated[bool, typer.Option("--all", help="List everyone, not the chosen.")] = False,
    query: options.Query = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    as_json: options.AsJson = False,
    details: options.Details = False,
    quiet: options.Quiet = False,
) -> None:
    """Choose whom to treat: by a share, a budget, or what an outcome is worth.

    Writes the chosen people, best first, with rank, score, uplift, decile and arm. The expected
    gain is that of the trial's rows that the model has not seen; intervals hold at whatever share
    is chosen after looking. Uplifts of the trial's own people, if NEW is its file, add up to it.
    Of several arms each person gets at most one: most uplift for the money, and the list has the
    uplift of every arm.
    """
    from auucmax.cli.trials import Source, check_decided, read_ids, read_model, read_rows
    from auucmax.model import TrialModel, target_arms
    from auucmax.model.choosing import check_policy
    from auucmax.model.choosing import target as choose

    check_table_target(output, model, new, *([] if exclude is None else [exclude]))
    fitted = read_model(model, new_levels)
    check_decided(fitted.columns, groups=groups)
    of_arms = {"--cost-column": cost_column, "--at-most": at_most, "--at-least": at_least,
               "--forbid": forbid}  # fmt: skip
    if isinstance(fitted, TrialModel):
        price = _check_for_two(cost, of_arms)
        check_policy(share, budget, price, value)
        if value is not None:  # a cost alone tells what is spent
            tell_half(price is not None, True)
    else:
        limits = limits_of(fitted.labels, cost, *of_arms.values())
    table = read_rows(Source(new, query, decimal, encoding), fitted)
    unwanted = None if exclude is None else read_ids(exclude, fitted.columns.id)
    if not isinstance(fitted, TrialModel):
        with working("choosing"):
            arms = target_arms(
                fitted, table, share=share, budget=budget, value=value, limits=limits,
                exclude=unwanted, reasons=reasons,
            )  # fmt: skip
        write_frame(arms.people if everyone else arms.chosen(), output)
        if value is not None:
            tell_half(arms.has_cost, True)
        by_value = share is None and budget is None
        tell_choice(arms, fitted.columns.gain, output, as_json, by_value)
        return
    with working("choosing"):
        found = choose(
            fitted, table, share=share, budget=budget, cost=price, value=value, exclude=unwanted,
            reasons=reasons,
        )  # fmt: skip
    write_frame(found.people if everyone else found.chosen(), output)
    _tell(found, fitted.columns.gain, output, as_json, verdict_of(fitted.evidence.facts))


def _tell(found: Targeting, gain: str, output: Path, as_json: bool, ranking: str) -> None:
    """What was chosen, and what is known of it; ``ranking``: the verdict on the model's order."""
    if as_json:
        print_json(found.to_dict() | {"file": str(output)})
        return
    print_banner(found.failed_check)
    rows = {"treated": _treated(found.selection, found.cost)}
    cautions, more, notes = _cautions(found, ranking), dict[str, str](), list[str]()
    if not found.unknown and not found.nobody:
        # One number next to a verdict: after a guarantee the interval is a detail.
        sure = found.decision.at_least is not None
        more[f"expected gain in {gain}"] = _between(found.expected, "gain")
        rows[f"expected gain in {gain}"] = (
            f"{found.expected.gain:,.1f}" if sure else _between(found.expected, "gain")
        )
    if found.of_uplift:
        more["sum of the uplifts"] = f"{found.uplift:,.1f}"
        notes.append(found.of_uplift)
    if found.has_profit and not found.failed_check:
        if not found.unknown and not found.nobody:
            more["expected profit"] = _between(found.expected, "profit")
            rows["expected profit"] = (
                f"{found.expected.profit:,.1f}" if sure else _between(found.expected, "profit")
            )
        rows["highest expected profit"] = _peak(found, found.plan.best)
        more["highest lower limit of it"] = _peak(found, found.plan.cautious)
    if near := found.certified_near:
        cut = f"treating all above the cut of {near.share:.0%}"
        for by in ("gain",) if near.profit is None else ("profit", "gain"):
            more[f"guaranteed {by}, at least"] = f"{getattr(near, by):,.1f} ({cut})"
    best = found.certified_best
    if best is not None and best.profit is not None and best.profit > 0:
        more["highest guaranteed profit"] = (
            f"{best.profit:,.1f} (treating all above the cut of {best.share:.0%})"
        )
    notes += _of_certified(found)
    if not found.failed_check:  # it is on numbers of the trial, none of which is told then
        notes.append(found.plan.population)
    print_result(
        str(found).split("\n")[0], rows, cautions=cautions, details=rows | more, notes=notes,
        written=[written(found.decision.state, output)],
    )  # fmt: skip


def _cautions(found: Targeting, ranking: str) -> list[str]:
    """What must be known of a list before it is used."""
    unknown = None if found.failed_check else found.unknown
    left_out = None if found.excluded is None else str(found.excluded)
    if found.excluded is not None and found.excluded.n_people:
        left_out = f"{left_out} Nothing is certified of the others: the trial was of all."
    told = [note for note in (left_out, found.of_repeated, found.of_nameless, unknown) if note]
    if found.proviso and not found.unknown:
        told.append(found.proviso)
    if found.unknown or not found.selection.n_treated:
        return told
    if "not shown" in ranking or "worse" in ranking:
        told.append(ranking)
    return told


def _of_certified(found: Targeting) -> list[str]:
    """On what the certified numbers rest; nothing if there are none."""
    if (near := found.certified_near) is None:
        return []
    return [
        f"What is certified holds at all shares together with probability {near.chance:.4g}, for "
        f"people like those of the trial; unless rows were held out, of models that learnt from "
        f"fewer rows than this one. Cuts come from some rows of the trial: above that of "
        f"{near.share:.0%} lie at most {near.share_upper:.1%} of all people"
        + (", whose costs are counted." if near.profit is not None else ".")
    ]


def _check_for_two(cost: str | None, of_arms: dict[str, str | None]) -> float | None:
    """What treating one person costs, if nothing is said of arms."""
    for name, given in of_arms.items():
        if given is not None:
            raise ValueError(
                f"{name} should come with a MODEL of several arms, got one of two. Leave it out."
            )
    return price_of_one(cost)


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
