"""``auucmax fit``: from a table to a model file with its own evidence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from auucmax.cli.arms import CostOfArms, costs_by_arm
from auucmax.cli.failures import tells_failures
from auucmax.cli.options import (
    After,
    AsJson,
    Categorical,
    Control,
    Data,
    Decimal,
    Details,
    DropMissing,
    Encoding,
    Features,
    Groups,
    Id,
    Ignore,
    LowerIsBetter,
    Numeric,
    Outcome,
    OutcomeRange,
    Propensity,
    Query,
    Quiet,
    Seed,
    Treated,
    Treatment,
)
from auucmax.cli.output import (
    between,
    codes_told,
    print_banner,
    print_json,
    print_result,
    quantities_told,
    unit_for,
)
from auucmax.cli.ranking import effect_of, lines_of, rivals_told, to_try, verdict_of

if TYPE_CHECKING:
    from auucmax.model import ArmsModel, TrialModel

ModelName = Annotated[
    str, typer.Option("--model", "-m", help="auto (a shrunk logistic model and boosted trees "
                      "together), shrunk, boosted, auucmax, tm, cvt or response.")
]  # fmt: skip
Output = Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")]


@tells_failures
def fit(
    data: Data,
    treatment: Treatment,
    outcome: Outcome,
    output: Output,
    treated: Treated = None,
    control: Control = None,
    id: Id = None,
    groups: Groups = None,
    propensity: Propensity = None,
    features: Features = None,
    ignore: Ignore = None,
    after: After = None,
    categorical: Categorical = None,
    numeric: Numeric = None,
    lower_is_better: LowerIsBetter = False,
    outcome_range: OutcomeRange = None,
    drop_missing_outcomes: DropMissing = False,
    despite_check: Annotated[
        bool,
        typer.Option(
            "--despite-check",
            help="Fit even if the check of the trial fails: there is no certificate then, and all "
            "commands say it first.",
        ),
    ] = False,
    model: ModelName = "auto",
    hold_out: Annotated[
        float,
        typer.Option(
            "--hold-out",
            help="Share of rows that the model does not learn from, to judge and certify itself "
            "on them; 0: cross-fitting, where every row is learnt from.",
        ),
    ] = 0.0,
    candidates: Annotated[
        int,
        typer.Option(
            "--candidates",
            help="How many models you have tried on these rows, to keep this one: the certificate "
            "pays for all of them.",
        ),
    ] = 1,
    cost: CostOfArms = None,
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget",
            help="Of several arms: money per person, fixed before looking at the rows, at which "
            "the policy is certified.",
        ),
    ] = None,
    seed: Seed = 0,
    query: Query = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    as_json: AsJson = False,
    details: Details = False,
    quiet: Quiet = False,
) -> None:
    """Learn whom to treat from a trial, and judge it by rows that a model has not seen.

    Numbers, texts, dates and missing values are taken as they are: the encoding is part of the
    model. 3 to 10 different whole numbers are taken for codes, which is said. Every row is judged
    by a model that was fitted on other rows, dealt by a hash of the id, or of the place in the
    file; the model that is written learns from all rows. With --control alone, all other labels of
    the treatment are arms: the model tells who should get which. A trial that fails its check, as
    `auucmax check` tells it, is not learnt from: exit code 1.
    """
    from auucmax._files import check_target
    from auucmax._progress import speaking
    from auucmax.cli.trials import Source, column_options, read_rows, several_arms
    from auucmax.model import fit_arms_model, fit_trial_model

    check_target(output, data)
    table = read_rows(Source(data, query, decimal, encoding))
    named = column_options(
        table, treatment=treatment, outcome=outcome, treated=treated, control=control, id=id,
        groups=groups, features=features, ignore=ignore, after=after,
        categorical=categorical, numeric=numeric,
        lower_is_better=lower_is_better, drop_missing_outcomes=drop_missing_outcomes,
        outcome_range=outcome_range, propensity=propensity,
    )  # fmt: skip
    how: dict[str, Any] = {
        "despite_check": despite_check, "model": model, "n_candidates": candidates,
        "random_state": seed,
    }  # fmt: skip
    with speaking():
        if labels := several_arms(table, named):
            _check_for_arms(hold_out)
            named.pop("treated")
            fitted_arms = fit_arms_model(
                table, **named, cost=costs_by_arm(cost, labels), budget=budget, **how
            )
            _save_arms(fitted_arms, data, output, as_json)
            return
        _check_for_two(cost=cost, budget=budget)
        fitted = fit_trial_model(table, **named, **how, hold_out=hold_out)
    _save(fitted, fitted.summary["table"], data, output)
    if as_json:
        print_json(fitted.evidence.told() | fitted.summary | {"file": str(output)})
        return
    found = fitted.evidence.facts | fitted.summary
    _tell(found, fitted.columns.gain, output, fitted.evidence.harm)


def _tell(found: dict[str, Any], gain: str, output: Path, harm: str | None) -> None:
    """What was learnt; ``harm`` comes first, and more rows are no advice then."""
    print_banner(found["failed_check"])
    how, *others = found["notes"]
    # What was a warning has been told already.
    cautions = [note for note in others if note not in found["warnings"]]
    if codes := found["features"]["codes"]:
        cautions.append(f"Whole numbers are taken for codes: {codes_told(codes)}.")
    if (trees := found["tree_rows"]) and trees < (learnt := found["table"]["learnt"]):
        cautions.append(f"Trees learnt from {trees:,} of {learnt:,} rows, drawn at random.")
    lines = lines_of(found, gain)
    lines["rows"] += _left_out(found["table"])
    cautions += [] if harm else to_try(found, str(output))
    verdict = f"{harm} {verdict_of(found)}" if harm else verdict_of(found)
    print_result(
        verdict, lines, cautions=cautions,
        details=_told(found["model"], found, gain), notes=[how], written=[f"Written to {output}."],
    )  # fmt: skip


def _left_out(table: dict[str, Any]) -> str:
    """How many rows were not learnt from, in words that follow on."""
    others, lost = sum(table["left_out"].values()), table["without_outcome"]
    told = [f"{others:,} of other arms"] if others else []
    told += [f"{lost:,} without an outcome"] if lost else []
    return f" Left out: {' and '.join(told)}." if told else ""


def _check_for_arms(hold_out: float) -> None:
    if hold_out:
        raise ValueError(
            f"--hold-out should be left out with several arms, got {hold_out:g}: their policy is "
            f"judged by models of folds. Or name one of the arms by --treated."
        )


def _check_for_two(**options: Any) -> None:
    for name, given in options.items():
        if given is not None:
            raise ValueError(
                f"--{name} should come with several arms, got {given} for two. Name it when people "
                f"are chosen: auucmax target --{name}."
            )


def _save(fitted: TrialModel | ArmsModel, summary: dict[str, Any], data: str, output: Path) -> None:
    """Write a model; what is known of its rows says from which file they come."""
    from auucmax.cli.trials import file_name
    from auucmax.model import save_model

    summary["file"] = file_name(data)
    save_model(fitted, output)


def _save_arms(fitted: ArmsModel, data: str, output: Path, as_json: bool) -> None:
    from auucmax.cli.arms import as_json as for_machines
    from auucmax.cli.arms import harm_of_arms, lines_of_arms, told_of_arms, verdict_of_arms

    _save(fitted, fitted.summary, data, output)
    evidence = fitted.evidence
    if as_json:
        summaries = {label: one.summary for label, one in fitted.models.items()}
        found = for_machines(evidence, summaries) | fitted.summary
        print_json(found | {"file": str(output)})
        return
    print_banner(evidence["failed_check"])
    how, *others = evidence["notes"]
    cautions = [note for note in others if note not in fitted.summary["warnings"]]
    if any(lost := fitted.summary["without_outcome"].values()):
        each = ", ".join(f"{label} {n:,}" for label, n in fitted.summary["without_outcome"].items())
        cautions.append(f"Rows without an outcome are left out: {sum(lost):,} ({each}).")
    print_result(
        " ".join([*harm_of_arms(evidence), verdict_of_arms(evidence)]),
        lines_of_arms(evidence, fitted.columns.gain),
        cautions=cautions,
        details=told_of_arms(evidence), notes=[how], written=[f"Written to {output}."],
    )  # fmt: skip


def _told(model: str, found: dict[str, Any], gain: str) -> dict[str, str]:
    rows = found["rows"]
    told = {
        "model": found["about"],
        "outcome": found["learnt"],
        "rows to learn from": f"{found['table']['learnt']:,}",
        "rows to judge on": f"{rows['n_rows']:,} ({rows['treated']:,} treated)",
        "columns": f"{found['features']['columns']} as {found['features']['terms']} features",
        "randomisation": found["randomisation"]["verdict"],
    }
    if found["failed_check"] is None:
        told |= _numbers(found, gain) | rivals_told(model, found)
    if left_out := found["table"]["left_out"]:
        named = ", ".join(f"{name} {count:,}" for name, count in left_out.items())
        told["rows of other arms, left out"] = named
    if lost := found["table"]["without_outcome"]:
        told["rows without an outcome, left out"] = f"{lost:,}"
    if quantities := found["features"]["quantities"]:
        told["whole numbers taken for quantities"] = quantities_told(quantities)
    if rare := found["features"]["rare_levels"]:
        told["columns of rare levels"] = "; ".join(
            f"{name}: {share:.0%} of the rows have a level without a feature of its own"
            for name, share in rare.items()
        )
    if dropped := found["features"]["dropped"]:
        told["columns without use"] = "; ".join(f"{name}: {why}" for name, why in dropped.items())
    return told


def _numbers(found: dict[str, Any], gain: str) -> dict[str, str]:
    auuc, rows = found["auuc"], found["rows"]
    ends = "estimate", "lower", "upper"
    return {
        "effect of treating everybody": effect_of(found, gain),
        "AUUC of the ranking": between(auuc, *ends, **unit_for(rows)),
        "certificate": (found["certificate"] or {"text": "none"})["text"],
    }
