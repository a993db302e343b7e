"""``auucmax check``: was the trial randomised, and what can be learned from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from auucmax.cli.failures import tells_failures
from auucmax.cli.options import (
    AsJson,
    Control,
    Data,
    Features,
    Id,
    Ignore,
    Memory,
    Outcome,
    Query,
    Treated,
    Treatment,
)
from auucmax.cli.output import print_json

if TYPE_CHECKING:
    from auucmax import Trial

POWER = 0.8


@tells_failures
def check(
    data: Data,
    treatment: Treatment,
    outcome: Outcome,
    treated: Treated = None,
    control: Control = None,
    id: Id = None,
    features: Features = None,
    ignore: Ignore = None,
    expected_share: float | None = typer.Option(
        None, "--expected-share", help="Planned share of treated rows, such as .5."
    ),
    query: Query = None,
    memory: Memory = None,
    as_json: AsJson = False,
) -> None:
    """Check a trial: is it randomised, how large is the effect, how small a one could be seen.

    The verdict comes first; exit code 1 if the check fails.
    """
    from auucmax import check_randomisation
    from auucmax.cli.trials import read_trial

    trial = read_trial(
        data, query, memory, treatment=treatment, outcome=outcome, treated=treated,
        control=control, id=id, features=features, ignore=ignore,
    )  # fmt: skip
    report = check_randomisation(trial, expected_share=expected_share)
    smallest = detectable_effect(trial)
    if as_json:
        print_json(
            {"randomisation": report.to_dict(), "trial": trial.summary().to_dict(),
             "detectable_effect": smallest, "power": POWER}
        )  # fmt: skip
    else:
        typer.echo(f"{report}\n\n{trial}")
        typer.echo(f"  an average effect of {smallest:.4g} would be found {POWER:.0%} of the time")
    if not report.ok:
        raise typer.Exit(1)


def detectable_effect(trial: Trial, alpha: float = 0.05) -> float:
    """The average effect that a two-sided test at ``alpha`` finds with a probability of POWER."""
    from scipy.special import ndtri

    (effect,) = trial.summary().effects
    return float((ndtri(1 - alpha / 2) + ndtri(POWER)) * effect.standard_error)
