"""``auucmax plan``: how many rows a trial needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from auucmax._files import check_target, whole_file
from auucmax.cli import options
from auucmax.cli.failures import tells_failures
from auucmax.cli.output import note, print_json, print_result

if TYPE_CHECKING:
    import pandas as pd

    from auucmax.campaign import TrialPlan
    from auucmax.campaign.power import Assumed


@tells_failures
def plan(
    data: Annotated[
        str | None,
        typer.Argument(metavar="PAST", help="Rows of the past: a table as for fit."),
    ] = None,
    outcome: Annotated[
        str | None, typer.Option("--outcome", "-y", help="Column of PAST with the outcome.")
    ] = None,
    treatment: Annotated[
        str | None,
        typer.Option(
            "--treatment", "-t", help="Column of PAST with the arm: its control rows alone count."
        ),
    ] = None,
    control: options.Control = None,
    groups: Annotated[
        str | None,
        typer.Option("--groups", help="Column of PAST of the household or shop, treated as one."),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option("--model", help="Plan with what a fitted model gained in its own trial."),
    ] = None,
    base_rate: Annotated[
        float | None, typer.Option(help="Mean outcome without treatment; PAST or MODEL tell it.")
    ] = None,
    effect: Annotated[
        float | None, typer.Option(help="Average effect to assume; MODEL tells it.")
    ] = None,
    gain: Annotated[
        float | None, typer.Option(help="Gain of the ranking over a random order, AUUC - ATE/2.")
    ] = None,
    effect_sd: Annotated[
        float | None, typer.Option(help="In place of --gain: how much effects differ (sd), and")
    ] = None,
    explained: Annotated[
        float | None, typer.Option(help="the share of their variance that the score explains.")
    ] = None,
    treated_share: Annotated[
        float | None,
        typer.Option(help="Of the rows, in all arms together; .5 unless MODEL tells another."),
    ] = None,
    n_arms: Annotated[
        int,
        typer.Option("--arms", help="Arms beside the control: each is compared with it."),
    ] = 1,
    budget: Annotated[
        float | None,
        typer.Option(
            help="Of a MODEL of several arms: money per person at which its policy is compared "
            "with the best arm alone; that of its certificate unless told."
        ),
    ] = None,
    rows: Annotated[
        int | None, typer.Option("--rows", "-n", help="Tell the power of a trial of so many.")
    ] = None,
    power: Annotated[float, typer.Option(help="Chance with which it is to be shown.")] = 0.8,
    other_gain: Annotated[
        float | None, typer.Option(help="Also compare with another ranking, of this gain.")
    ] = None,
    agreement: Annotated[
        float, typer.Option(help="Rank correlation of the two scores, for --other-gain.")
    ] = 0.5,
    share: Annotated[
        float | None,
        typer.Option("--share", "-s", help="Also compare treating this top share with nobody."),
    ] = None,
    outcome_sd: Annotated[
        float | None, typer.Option(help="Sd of an outcome that is not 0/1; PAST or MODEL tell it.")
    ] = None,
    outcome_range: options.OutcomeRange = None,
    cross_fitted: Annotated[
        bool,
        typer.Option(help="The model is to be fitted on the trial itself, as `auucmax fit` does."),
    ] = False,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Draw power against rows: .png, .svg, .pdf.")
    ] = None,
    query: options.Query = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    as_json: options.AsJson = False,
    details: options.Details = False,
    quiet: options.Quiet = False,
) -> None:
    """Plan a trial: how many rows until a ranking is shown to be better than random.

    The ranking is as good as --gain says, or a pilot (--model), or --effect-sd and --explained.
    Base rate and clusters come from rows of the past, or are told. Power is that of a score that
    is fixed before the trial, by its interval and by its certificate; --cross-fitted: of a model
    that is fitted on the trial itself. --arms 3: of three arms, each against the control, at levels
    that hold together. With a MODEL of several arms: its arms, and its policy at a --budget.
    """
    from auucmax.campaign.planning import model_evidence, plan_arms, plan_trial
    from auucmax.model import ArmsModel

    _check_given(data, {"outcome": outcome, "treatment": treatment, "groups": groups}, picture)
    origin: list[str] = []
    fitted = None
    found: dict[str, Any] = {}
    if model is not None:
        from auucmax.cli.trials import read_model

        fitted = read_model(model, "other")
    given = {
        "base_rate": base_rate, "effect": effect, "gain": gain, "effect_sd": effect_sd,
        "explained": explained, "treated_share": treated_share, "outcome_sd": outcome_sd,
        "other_gain": other_gain,
    }  # fmt: skip
    more: dict[str, Any] = {
        "outcome_range": outcome_range, "share": share, "n_rows": rows, "power": power,
        "cross_fitted": cross_fitted,
    }  # fmt: skip
    _check_arms(fitted, budget, given | {"PAST": data, "arms": None if n_arms == 1 else n_arms})
    if isinstance(fitted, ArmsModel):
        return _tell(plan_arms(fitted, budget=budget, **more), picture, origin, as_json=as_json)
    if fitted is not None:
        found = model_evidence(fitted)
    if data is not None:
        form = {"query": query, "decimal": decimal, "encoding": encoding}
        frame, told = _untreated(data, str(outcome), groups, treatment, control, form)
        found |= _past(frame, str(outcome), groups, fitted)
        origin += [] if base_rate is not None else [told]
    if gain is not None or explained is not None:  # another quality than that of the model
        found = {name: own for name, own in found.items() if name not in ("gain", "notes")}
    found |= {name: own for name, own in given.items() if own is not None}
    for name, advice in (
        ("base_rate", ".1, the mean outcome without treatment; or PAST, a table, and --outcome"),
        ("effect", ".02, what treatment adds to the outcome on average; or --model"),
    ):
        if name not in found:
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"{option} should be given, got none. Pass {option} {advice}.")
    found |= {name: own for name, own in more.items() if own is not None}
    planned = plan_trial(**found, agreement=agreement, n_arms=n_arms)
    _tell(planned, picture, origin, as_json=as_json)


def _tell(planned: TrialPlan, picture: Path | None, origin: list[str], *, as_json: bool) -> None:
    if picture is not None:
        with whole_file(picture) as beside:
            kind = picture.suffix.lower().lstrip(".")
            planned.draw().savefig(beside, dpi=150, format=kind)
    if as_json:
        more = {"origin": origin, "picture": None if picture is None else str(picture)}
        print_json(planned.to_dict() | more)
    else:
        _show(planned, picture, origin)


def _check_arms(fitted: Any, budget: float | None, given: dict[str, Any]) -> None:
    """Raise a ValueError for what a model of several arms says itself, or alone can say."""
    from auucmax.model import ArmsModel

    several = isinstance(fitted, ArmsModel)
    if budget is not None and not several:
        raise ValueError(
            f"--budget should come with a MODEL of several arms, got {budget:g} without. Leave it "
            f"out."
        )
    for name, value in given.items() if several else ():
        if value is not None:
            option = name if name == "PAST" else f"--{name.replace('_', '-')}"
            raise ValueError(
                f"{option} should be left out with a MODEL of several arms, which tells it of each "
                f"arm, got {value!r}. Leave it out, or plan one arm with --arms and no MODEL."
            )


def _check_given(data: str | None, columns: dict[str, str | None], picture: Path | None) -> None:
    if data is None and any(name is not None for name in columns.values()):
        raise ValueError(
            "--outcome, --treatment and --groups should name columns of PAST, got no table."
        )
    if data is not None and columns["outcome"] is None:
        raise ValueError("--outcome should name a column of PAST, got none. Pass --outcome visit.")
    if picture is not None:
        check_target(picture)
        if picture.suffix.lower() not in (".png", ".svg", ".pdf"):
            raise ValueError(
                f"--picture should be a .png, .svg or .pdf file, got {picture.name!r}. Name it so."
            )


def _untreated(
    data: str,
    outcome: str,
    groups: str | None,
    treatment: str | None,
    control: str | None,
    form: dict[str, Any],
) -> tuple[pd.DataFrame, str]:
    """The control rows of the past, or all if no treatment is named; and which they are."""
    from auucmax._validation import control_among, listed, unknown_columns_message
    from auucmax.data.reading import read_table
    from auucmax.encoding.frames import frame_of
    from auucmax.encoding.kinds import arm_text
    from auucmax.model.columns import NO_AND_YES

    frame = frame_of(read_table(data, **form))
    wanted = [name for name in (outcome, groups, treatment) if name is not None]
    if unknown := [name for name in wanted if name not in frame.columns]:
        raise ValueError(unknown_columns_message("PAST", unknown, list(frame.columns)))
    known = frame[outcome].notna().to_numpy(dtype=bool)
    if lost := int((~known).sum()):
        note(f"{lost:,} rows of PAST without an outcome are left out.")
    frame = frame[known]
    if treatment is None:
        return frame, (
            f"Base rate: the mean of all {len(frame):,} rows of PAST, as if none had been treated. "
            f"Pass --treatment if some were."
        )
    arms = frame[treatment].map(arm_text, na_action="ignore")
    labels = sorted(arms.dropna().unique())
    lower = {label.lower() for label in labels}
    usual = control_among(labels)
    no = next((pair[0] for pair in NO_AND_YES if lower <= set(pair)), usual and usual.lower())
    wanted_arm = arm_text(control).lower() if control is not None else no
    kept = arms.str.lower() == wanted_arm
    if not kept.any():
        got = "none" if control is None else repr(control)
        raise ValueError(
            f"--control should be the label of untreated rows in {treatment!r}, one of "
            f"{listed(labels)}, got {got}. Name it."
        )
    return frame[kept], f"Base rate: the mean of the {int(kept.sum()):,} control rows of PAST."


def _past(frame: pd.DataFrame, outcome: str, groups: str | None, fitted: Any) -> dict[str, Any]:
    """What the rows of the past tell; with the model's scores, if they have its columns."""
    from auucmax.campaign.planning import past_rows
    from auucmax.encoding.kinds import outcome_numbers
    from auucmax.model.rows import id_texts

    codes = None if groups is None else id_texts(frame[groups], f"the group {groups!r}")
    score = None
    if fitted is not None and all(c.name in frame for c in fitted.encoder.columns_):
        score = fitted.predict(frame)
    y = outcome_numbers(frame[outcome]).to_numpy(dtype=float)
    if fitted is not None and fitted.columns.lower_is_better:
        from auucmax.data.outcomes import turned

        y = turned(y)
    return past_rows(y, codes, score)


def _show(planned: TrialPlan, picture: Path | None, origin: list[str]) -> None:
    treated = f"{planned.treated_share:.0%} treated"
    if planned.n_arms > 1:
        treated += f" in {planned.n_arms} arms"
    rows = {f"assumed of {label}": _assumed(own) for label, own in planned.arms.items()}
    if planned.arms:
        rows["arms"] = f"{treated}, each in its share of the model's own trial"
    else:
        rows["assumed"] = _assumed(planned.assumed, treated)
    for line in planned.table():
        needed = "more rows than anybody has" if line["rows"] is None else f"{line['rows']:,} rows"
        text = f"{needed} for a power of {planned.power:.0%}"
        if planned.n_rows is not None and line["power"] is not None:
            text += f"; {planned.n_rows:,} rows have {line['power']:.0%}"
        if line["width"] is not None:
            text += f"; interval {line['width']:.4g} wide"
        rows[f"{line['statement']} ({line['by']})"] = text
    if planned.best_share is not None:
        rows["best treated share"] = f"{planned.best_share:.0%}"
    cautions, how = [*planned.notes, *origin], [_how(planned)]
    if not any(line["by"] == "certificate" for line in planned.table()):
        cautions, how = [*cautions, *how], []
    print_result(
        _verdict(planned), rows, cautions=cautions, notes=how,
        written=[] if picture is None else [f"Drawn in {picture}."],
    )  # fmt: skip


def _verdict(planned: TrialPlan) -> str:
    """How many rows the first statement needs, by its interval; of several arms each does."""
    table = planned.table()
    if planned.arms:
        told = [
            f"{line['statement']}, "
            + ("no number of rows" if line["rows"] is None else f"{line['rows']:,} rows")
            for line in table
            if line["by"] == "interval"
        ]
        return f"For a power of {planned.power:.0%} to show it: {'; '.join(told)}."
    first = table[0]
    many = "No number of rows is" if first["rows"] is None else f"{first['rows']:,} rows are"
    return (
        f"{many} enough to show, with a chance (power) of {planned.power:.0%}, that the ranking is "
        f"{first['statement']}."
    )


def _assumed(own: Assumed, *more: str) -> str:
    told = [f"base rate {own.base_rate:.4g}", f"average effect {own.effect:.4g}"]
    told += [f"gain over a random order {own.gain:.4g}", *more]
    if own.design_effect != 1:
        told.append(f"{own.design_effect:.2f} times the variance of independent rows")
    return ", ".join(told)


def _how(planned: TrialPlan) -> str:
    """What both verdicts are, and where their power comes from."""
    first = planned.statements[0]
    told = f"Interval: two-sided, at a level of {first.level:.4g}; its power is a closed form."
    if not any(line["by"] == "certificate" for line in planned.table()):
        return f"{told} No certificate: outcomes are not 0/1, and no --outcome-range is known."
    return (
        f"{told} Certificate: a lower bound alone, which fails with probability "
        f"{first.delta:.4g} at most, so it may need fewer rows; what it costs beyond the normal "
        f"quantile was measured on simulated trials."
    )
