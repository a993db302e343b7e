"""``auucmax check``: was the trial randomised, and what can be learned from it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from auucmax.cli import options
from auucmax.cli.failures import tells_failures
from auucmax.cli.output import codes_told, print_json, print_result, quantities_told, tell
from auucmax.cli.output import told as as_commands

if TYPE_CHECKING:
    import pandas as pd

    from auucmax.data.randomisation_report import RandomisationReport
    from auucmax.data.trial import TrialSummary
    from auucmax.model import ColumnNames, TrialRows

POWER = 0.8


@tells_failures
def check(
    data: options.Data,
    treatment: options.Treatment,
    outcome: options.Outcome,
    treated: options.Treated = None,
    control: options.Control = None,
    id: options.Id = None,
    groups: options.Groups = None,
    propensity: options.Propensity = None,
    features: options.Features = None,
    ignore: options.Ignore = None,
    after: options.After = None,
    categorical: options.Categorical = None,
    numeric: options.Numeric = None,
    expected_share: float | None = typer.Option(
        None, "--expected-share", help="Planned share of treated rows, such as .5."
    ),
    page: Annotated[
        Path | None,
        typer.Option("--page", help="HTML file to write: arms, balance, columns at a glance."),
    ] = None,
    query: options.Query = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    as_json: options.AsJson = False,
    details: options.Details = False,
    quiet: options.Quiet = False,
) -> None:
    """Check a trial: is it randomised, how large is the effect, how small a one could be seen.

    All columns are tested that were known before treatment, learnt from or not. Rows without an
    outcome are counted by arm, tested, and left out. The verdict comes first; exit code 1 if the
    check fails, or if nothing could be tested. With --control alone, every other label of the
    treatment is an arm, which is compared with it.
    """
    from auucmax._files import check_target
    from auucmax.cli.trials import Source, column_options, read_rows, several_arms

    if page is not None:
        check_target(page, data)
    table = read_rows(Source(data, query, decimal, encoding))
    named = column_options(
        table, treatment=treatment, outcome=outcome, treated=treated,
        control=control, id=id, groups=groups, propensity=propensity,
        features=features, ignore=ignore, after=after,
        categorical=categorical, numeric=numeric,
        drop_missing_outcomes=True,
    )  # fmt: skip
    arms = several_arms(table, named)
    if arms and expected_share is not None:
        raise ValueError(
            f"--expected-share should come with two arms, got it for {len(arms) + 1}. Name one by "
            f"--treated, or the planned chances of all by --propensity."
        )
    if arms and page is not None:
        raise ValueError(
            f"--page should come with two arms, got it for {len(arms) + 1}. Name one by --treated."
        )
    found: dict[str, Any] = {}
    failed = []
    for label in arms or [named["treated"]]:
        if arms and not as_json:
            tell(*([""] if found else []), f"{label} against {named['control']}:")
        found[label], failed_one = _check(
            table, named | {"treated": label}, expected_share, as_json, page, data, alone=not arms
        )
        failed.append(failed_one)
    if as_json:
        print_json({"arms": found} if arms else found[named["treated"]])
    if any(failed):
        raise typer.Exit(1)


def _check(
    table: pd.DataFrame,
    named: dict[str, Any],
    expected_share: float | None,
    as_json: bool,
    page: Path | None,
    data: str,
    *,
    alone: bool,
) -> tuple[dict[str, Any], bool]:
    """All numbers of two arms, told unless as JSON; and whether their check fails.

    ``alone``: rows of other arms are told, for they are not compared here.
    """
    from auucmax.cli.trials import rows_of_arms
    from auucmax.model.rows import check_trial_rows, code_columns, quantity_columns

    rows, columns = rows_of_arms(table, **named)
    report = check_trial_rows(rows, columns, expected_share=expected_share)
    trial = _summary(rows, columns)
    smallest, codes = detectable_effect(trial), code_columns(rows, columns)
    quantities = quantity_columns(rows, columns)
    if page is not None:
        _write_page(page, report, trial, rows, columns, data)
    if not as_json:
        told = _lines(trial, smallest) | {"outcome": f"{columns.outcome} is {columns.kind(rows.y)}"}
        if alone and rows.left_out:
            told["rows of other arms, left out"] = ", ".join(
                f"{label} {n:,}" for label, n in rows.left_out.items()
            )
        cautions = list(report.advice) + [f"Suspect: {found}." for found in report.suspects]
        cautions += [f"Not tested: {own}." for own in report.notes]
        cautions += [f"`fit` takes whole numbers for codes: {codes_told(codes)}."] if codes else []
        notes = [*str(report).split("\n")[1 + len(report.advice) :], *str(trial).split("\n")]
        if quantities:
            notes.append(f"`fit` takes whole numbers for quantities: {quantities_told(quantities)}")
        print_result(
            report.verdict, told, cautions=cautions, notes=notes,
            written=[] if page is None else [f"Written to {page}."],
        )  # fmt: skip
    numbers = {
        "randomisation": report.to_dict(), "trial": trial.to_dict(),
        "detectable_effect": smallest, "power": POWER, "codes": codes,
        "outcome": columns.kind(rows.y), "quantities": quantities, "left_out": rows.left_out,
    }  # fmt: skip
    return numbers, report.stops or not report.tests


def _lines(trial: TrialSummary, smallest: float) -> dict[str, str]:
    """Arms, effect and how small an effect would have been found."""
    arms = [f"{arm.name} {arm.n_rows:,} ({arm.share:.1%})" for arm in trial.arms]
    means = [f"{arm.name} {arm.mean:.4g}" for arm in trial.arms]
    weighted = "weighted " if trial.weighted else ""
    (effect,) = trial.effects
    ends = f"{effect.low:.4g} to {effect.high:.4g}"
    if not math.isfinite(effect.standard_error):
        ends = "95% interval cannot be said: an arm has one row, or group, only"
    elif effect.declined is not None:
        ends = f"95% interval cannot be said: {effect.declined}"
    told = {
        "rows": f"{trial.n_rows:,}: {', '.join(arms)}",
        "average effect": f"{effect.effect:.4g} ({ends}); {weighted}means {', '.join(means)}",
    }
    if math.isfinite(smallest):
        told["power"] = (
            f"an average effect of {smallest:.4g} would be found {POWER:.0%} of the time"
        )
    return told


def _write_page(
    page: Path,
    report: RandomisationReport,
    trial: TrialSummary,
    rows: TrialRows,
    columns: ColumnNames,
    data: str,
) -> None:
    from auucmax.cli.trials import file_name
    from auucmax.present import summarise_check, write_report

    found = summarise_check(
        report, trial, rows.frame[list(columns.features)], rows.treated,
        outcome=columns.kind(rows.y), file=file_name(data),
    )  # fmt: skip
    write_report(as_commands(found), page)


def _summary(rows: TrialRows, columns: ColumnNames) -> TrialSummary:
    """The numbers of the trial, with the interval of the effect that ``fit`` has."""
    import numpy as np

    from auucmax._validation import check_groups
    from auucmax.model.judging import Judged, average_effect

    found = rows.trial(columns).summary()
    groups = None if rows.groups is None else check_groups(rows.groups, len(rows.y))
    none = np.zeros(len(rows.y))
    judged = Judged(rows.y, none, rows.treated, groups, rows.propensity, rows.people)
    own = average_effect(judged)
    (effect,) = found.effects
    ends = {"low": own["lower"], "high": own["upper"], "declined": own["declined"],
            "standard_error": own["standard_error"]}  # fmt: skip
    return replace(found, effects=(replace(effect, **ends),))


def detectable_effect(trial: TrialSummary, alpha: float = 0.05) -> float:
    """The average effect that a two-sided test at ``alpha`` finds with a probability of POWER."""
    from scipy.special import ndtri

    (effect,) = trial.effects
    return float((ndtri(1 - alpha / 2) + ndtri(POWER)) * effect.standard_error)
