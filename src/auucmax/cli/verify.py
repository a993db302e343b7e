"""``auucmax verify``: what a targeted campaign gained, and whether that confirms its forecast."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from auucmax.cli import options
from auucmax.cli.failures import tells_failures
from auucmax.cli.output import print_banner, print_json, print_result, working

if TYPE_CHECKING:
    from auucmax.campaign.arm_verification import ArmsVerification
    from auucmax.campaign.verification import Comparison, Verification


@tells_failures
def verify(
    data: options.Data,
    chosen: Annotated[
        str | None,
        typer.Option(
            "--chosen",
            help="Column that says who was chosen: 0/1, yes and no, or the arm that `target` gave.",
        ),
    ] = None,
    people: Annotated[
        str | None,
        typer.Option(
            "--list",
            help="List that `target` or `assign` wrote, of two arms or several, in the place of "
            "--chosen; matched by --id.",
        ),
    ] = None,
    propensity: Annotated[
        str | None,
        typer.Option(
            "--propensity",
            help="Column with the chance of treatment that everyone had, as `assign` writes it; "
            "without, one chance among the chosen and one among the rest.",
        ),
    ] = None,
    treatment: options.ModelKnowsTreatment = None,
    outcome: options.ModelKnowsOutcome = None,
    treated: options.Treated = None,
    control: options.Control = None,
    model: Annotated[
        Path | None,
        typer.Option(
            "--model",
            "-m",
            help="File of the model that chose: has the forecast, and knows what has changed.",
            resolve_path=True,
        ),
    ] = None,
    id: Annotated[
        str | None, typer.Option("--id", help="Column that names each person; a MODEL knows it.")
    ] = None,
    groups: options.Groups = None,
    largest_group: Annotated[
        int | None,
        typer.Option(
            "--largest-group",
            help="People that one of --groups has at most, known without DATA: otherwise what is "
            "certified is about groups of at most twice the size of some.",
        ),
    ] = None,
    lower_is_better: options.LowerIsBetter = False,
    drop_missing_outcomes: options.DropMissing = False,
    outcome_range: options.OutcomeRange = None,
    new_levels: options.NewLevels = "error",
    query: options.Query = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    as_json: options.AsJson = False,
    details: options.Details = False,
    quiet: options.Quiet = False,
) -> None:
    """Say what a targeted campaign gained, as it was run, and whether that confirms its forecast.

    DATA holds a row for each person of the campaign, chosen or not. Some of the chosen must have
    been left untreated by chance; with some of the rest treated by chance more can be told. Gains
    have intervals and certified ends. With a MODEL: are people, scores, rates and effects still
    those of its trial, and is it to be kept, recalibrated or fitted again. With a MODEL, or a list
    of `assign`, of several arms: against nobody, the best single arm, and the same arms at random.
    """
    from auucmax.campaign import verify as verified
    from auucmax.campaign import verify_arms
    from auucmax.cli.trials import Source, arm_labels, read_model, read_rows
    from auucmax.data.reading import read_table
    from auucmax.model import ArmsModel

    fitted = None if model is None else read_model(model, new_levels)
    table = read_rows(Source(data, query, decimal, encoding), fitted)
    chosen_people = None if people is None else read_table(people)
    listed = [] if chosen_people is None else list(map(str, chosen_people.columns))
    # As `assign` and `target` write the list of several arms.
    of_arms = any(
        own in listed and sum(name.startswith(word) for name in listed) > 1
        for own, word in (("chosen", "chance "), ("arm", "uplift "))
    )
    named: dict[str, Any] = {
        "treatment": treatment, "outcome": outcome, "id": id, "groups": groups,
        "largest_group": largest_group, "people": chosen_people, "lower_is_better": lower_is_better,
        "drop_missing_outcomes": drop_missing_outcomes, "outcome_range": outcome_range,
    }  # fmt: skip
    with working("verifying"):
        if isinstance(fitted, ArmsModel) or of_arms:
            _check_no_arm(treated, fitted)
            found: Any = verify_arms(
                table, chosen=chosen or "chosen", propensity=propensity or "chance",
                control=control, model=fitted if isinstance(fitted, ArmsModel) else None, **named,
            )  # fmt: skip
        else:
            labels: dict[str, Any] = {"treated": treated, "control": control}
            if treatment is not None:
                labels = arm_labels(table, treatment=treatment, **labels)
            who: dict[str, Any] = {"chosen": chosen, "propensity": propensity, "model": fitted}
            found = verified(table, **who, **named, **labels)
    if as_json:
        print_json(found.to_dict())
        return
    for doubt in found.doubts:
        print_banner(doubt)
    _tell(found)


def _tell(found: Verification | ArmsVerification) -> None:
    """What the campaign gained first, then what to compare it with, and what to do."""
    rows, against = found.rows(), found.comparisons
    certified = any(one.certified_lower is not None for one in against.values())
    kept = [f"gain in {found.outcome}, {found.against[name]}" for name in _FIRST]
    lines = {name: rows[name] for name in kept}
    if found.promise is not None:
        lines["forecast"] = str(found.promise)
    if (advice := getattr(found, "advice", None)) is not None:
        lines["what to do with the model"] = str(advice)
    cautions = [*found.notes, *([] if certified else [found.certificate])]
    if found.next_time is not None:
        cautions.append(found.next_time)
    print_result(
        f"{found.headline}{_certified(against['as_run'])}", lines, cautions=cautions, details=rows,
        notes=[f"{found.title}.", *([found.certificate] if certified else [])],
    )  # fmt: skip


_FIRST = ("nobody", "random")  #: comparisons in the lines; all others are details


def _certified(gain: Comparison) -> str:
    """Whether a gain or a loss is certified."""
    low, high = gain.certified_lower, gain.certified_upper
    if low is None or high is None or low <= 0 <= high:
        return ""
    return f" The {'gain' if low > 0 else 'loss'} is certified."


def _check_no_arm(treated: str | None, model: Any) -> None:
    from auucmax.model import TrialModel

    if treated is not None or isinstance(model, TrialModel):
        got = "a MODEL of two" if isinstance(model, TrialModel) else f"--treated {treated}"
        raise ValueError(
            f"a campaign of several arms should be verified as a whole, got {got}. Leave it out, "
            f"or pass the MODEL of several arms."
        )
