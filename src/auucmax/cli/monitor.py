"""``auucmax monitor``: what is known of a trial that is still running."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from auucmax.cli import options
from auucmax.cli.failures import tells_failures
from auucmax.cli.output import print_banner, print_json, print_result, tell, working

if TYPE_CHECKING:
    from auucmax.campaign import ArmsLook, Look
    from auucmax.model import ArmsModel, TrialModel

MODEL_AND_DATA = "the model file and the rows so far; or the rows with --score-column"


@tells_failures
def monitor(
    files: Annotated[
        list[str],
        typer.Argument(metavar="[MODEL] DATA", help=MODEL_AND_DATA, show_default=False),
    ],
    state: Annotated[
        Path, typer.Option("--state", help="File that is kept between two looks, and added to.")
    ],
    date: Annotated[
        str | None,
        typer.Option("--date", help="Column of the day on which a person came into the trial."),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            "--window", help="How long after that day an outcome counts: 30d, 4w, 36h. 0 at first."
        ),
    ] = None,
    score_column: Annotated[
        str | None, typer.Option("--score-column", help="Scores that were fixed beforehand.")
    ] = None,
    rival_column: Annotated[
        str | None, typer.Option("--rival-column", help="Other scores, to compare with.")
    ] = None,
    new_model: Annotated[
        Path | None,
        typer.Option(
            "--new-model",
            help="Model that is to take over from MODEL: it ranks the rows from here on, none of "
            "which it has learnt from.",
        ),
    ] = None,
    treatment: options.ModelKnowsTreatment = None,
    outcome: options.ModelKnowsOutcome = None,
    treated: options.Treated = None,
    control: options.Control = None,
    id: options.Id = None,
    groups: Annotated[
        str | None,
        typer.Option("--groups", help="Column of households, each in one arm and of one day."),
    ] = None,
    propensity: Annotated[
        str | None,
        typer.Option("--propensity", help="Column of known chances of treatment that differ."),
    ] = None,
    least_chance: Annotated[
        float | None,
        typer.Option(
            "--least-chance",
            help="The least chance of treatment, or of none, by design; with --propensity.",
        ),
    ] = None,
    lower_is_better: options.LowerIsBetter = False,
    outcome_range: options.OutcomeRange = None,
    treated_share: Annotated[
        str | None,
        typer.Option(
            "--treated-share",
            help="Share of rows that should be treated, by design: watched, too. Of several arms "
            'that of all together, in equal parts, or of each: "A=.3,B=.2".',
        ),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option("--delta", help="Chance that any bound ever fails. 0.05 at first."),
    ] = None,
    as_of: Annotated[
        str | None, typer.Option("--as-of", help="Day of the look; today by default.")
    ] = None,
    new_levels: options.NewLevels = "error",
    query: options.Query = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    as_json: options.AsJson = False,
    details: options.Details = False,
    quiet: options.Quiet = False,
) -> None:
    """Look at a running trial, as often as you like: every answer may be acted on.

    Lower and upper bounds on the gain over random, on the average effect and on the difference of
    two rankings, all of which hold at all looks together. DATA has the rows so far, or those since
    the last look; a row enters when its outcome window has closed. Options are told at the first
    look, and need not be told again. A --new-model may take over on the way: what is bounded is
    then the mean gain of the models, each counted by the rows that it ranked. Of several arms (a
    MODEL of them, or --control alone) each is compared with the control, all in one state. Exit
    code 1 if treatment was not given by chance: then nothing is told, now and at later looks.
    """
    from auucmax._files import check_target
    from auucmax.campaign import monitor_trial
    from auucmax.cli.trials import Source, read_rows
    from auucmax.data import FailedCheckError

    model, data = _model_and_data(files)
    check_target(state, *files, is_own=True)
    named: dict[str, Any] = {
        "treatment": treatment, "outcome": outcome, "treated": treated, "control": control,
        "id": id, "date": date, "window": window, "score_column": score_column,
        "rival_column": rival_column, "groups": groups, "propensity": propensity,
        "least_chance": least_chance,
        "outcome_range": outcome_range, "treated_share": _share(treated_share), "delta": delta,
        "lower_is_better": lower_is_better or None,
    }  # fmt: skip
    fitted, newer = (
        None if own is None else _of_arm(own, new_levels, treated) for own in (model, new_model)
    )
    table = read_rows(Source(data, query, decimal, encoding), fitted)
    look_at = partial(monitor_trial, table, state, model=fitted, new_model=newer, as_of=as_of)
    try:
        with working("betting"):
            look = look_at(**named)
    except FailedCheckError as error:
        if not as_json:
            raise
        tell(f"auucmax: {error}", err=True)
        look = look_at()  # what the state tells of it from now on
    if as_json:
        print_json(look.to_dict() | {"verdict": look.verdict, "file": str(state)})
    else:
        _print(look, state)
    if look.failed is not None:
        raise typer.Exit(1)


def _print(look: Look | ArmsLook, state: Path) -> None:
    print_banner(look.failed)
    rows, cautions = look.rows(), [] if look.failed else list(look.notes)
    if look.n_beyond:
        cautions.append(f"{look.n_beyond:,} outcomes beyond the range are clipped to it.")
    if look.ratio is not None and look.failed is None:
        rows["share treated"] = f"as designed, as far as rows tell (anytime p = {look.ratio:.2g})"
    kept = (
        f"State in {state}: it holds some rows, and everybody's arm by a hash of the id, with the "
        f"key of the hash. Do not share it."
    )
    verdict = look.verdict if look.failed is None else "Nothing is told of this trial."
    rows["rows"] = look.title
    print_result(verdict, rows, cautions=cautions, written=[kept])


def _model_and_data(files: list[str]) -> tuple[Path | None, str]:
    if len(files) not in (1, 2):
        names = ", ".join(files)
        raise ValueError(f"monitor should get {MODEL_AND_DATA}; got {names}. Name two at most.")
    return (Path(files[0]) if len(files) == 2 else None), files[-1]


def _of_arm(path: Path, new_levels: str, treated: str | None) -> TrialModel | ArmsModel:
    """The model; of one of several arms, that of --treated, if it is told."""
    from auucmax._validation import listed
    from auucmax.cli.trials import read_model
    from auucmax.model import TrialModel

    model = read_model(path, new_levels)
    if isinstance(model, TrialModel) or treated is None:
        return model
    if treated in model.models:
        return model.models[treated]
    raise ValueError(
        f"--treated should be one of the {len(model.labels)} arms {listed(model.labels)}, got "
        f"{treated!r}. Leave it out to monitor all of them in one state."
    )


def _share(text: str | None) -> float | dict[str, float] | None:
    """A share, or that of each arm."""
    from auucmax.cli.arms import texts_by_arm

    if text is None:
        return None
    try:
        if "=" not in text:
            return float(text)
        labels = [part.rpartition("=")[0].strip() for part in text.split(",")]
        found = texts_by_arm(text, labels, "--treated-share")
        return {label: float(share) for label, share in found.items()}
    except ValueError as error:
        raise ValueError(
            f"--treated-share should be a share, as .5, or one of each arm, as A=.3,B=.2, got "
            f"{text!r}. Write decimals with a point."
        ) from error
