"""The numbers of a trial that printing it shows: arms, average effects, their uncertainty."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

if TYPE_CHECKING:
    from auucmax.data.trial import Trial


@dataclass(frozen=True)
class ArmSummary:
    """Rows, share of all rows and mean outcome of one arm."""

    label: Any
    name: str
    n_rows: int
    share: float
    mean: float
    standard_error: float


@dataclass(frozen=True)
class EffectSummary:
    """Average effect of one arm against the control, with a 95% interval."""

    label: Any
    name: str
    effect: float
    standard_error: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True)
class TrialSummary:
    """The numbers of a trial; ``str`` renders them, ``to_dict`` hands them on."""

    name: str
    outcome_name: str
    treatment_name: str
    n_rows: int
    n_features: int
    weighted: bool
    n_randomised: int | None
    true_effect: float | None
    arms: tuple[ArmSummary, ...]
    effects: tuple[EffectSummary, ...]

    def to_dict(self) -> dict[str, Any]:
        """The same numbers as nested dictionaries."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(_summary_lines(self))


def summarise(trial: Trial) -> TrialSummary:
    """All numbers of the trial, over the randomised rows where only some were."""
    used = slice(None) if trial.randomised is None else trial.randomised
    y, treatment = trial.y[used], trial.treatment[used]
    weight = None if trial.sample_weight is None else trial.sample_weight[used]
    arms: list[ArmSummary] = []
    counted: list[int] = []
    for label, name in zip(trial.arms, trial.arm_names or (), strict=True):
        rows = treatment == label
        n = int(rows.sum())
        mean, error = _mean_and_error(y[rows], None if weight is None else weight[rows])
        arms.append(ArmSummary(label, name, n, n / len(y), mean, error))
        # A row of weight zero is no observation.
        counted.append(n if weight is None else int(np.count_nonzero(weight[rows])))
    return TrialSummary(
        name=trial.name,
        outcome_name=trial.outcome_name,
        treatment_name=trial.treatment_name,
        n_rows=trial.n_rows,
        n_features=trial.n_features,
        weighted=weight is not None,
        n_randomised=None if trial.randomised is None else len(y),
        true_effect=(
            None
            if trial.effect is None
            else float(np.average(trial.effect, weights=trial.sample_weight))
        ),
        arms=tuple(arms),
        effects=tuple(
            _effect(arm, arms[0], n, counted[0])
            for arm, n in zip(arms[1:], counted[1:], strict=True)
        ),
    )


def _mean_and_error(
    y: NDArray[np.float64], weight: NDArray[np.float64] | None
) -> tuple[float, float]:
    n = len(y) if weight is None else np.count_nonzero(weight)
    if n == 0:
        return float("nan"), float("nan")
    mean = float(np.average(y, weights=weight))
    if n == 1:
        return mean, float("nan")
    share = np.full(n, 1 / n) if weight is None else weight / weight.sum()
    return mean, float(np.sqrt(n / (n - 1) * np.sum((share * (y - mean)) ** 2)))


def _effect(
    arm: ArmSummary, control: ArmSummary, n_arm: int, n_control: int, level: float = 0.95
) -> EffectSummary:
    effect = arm.mean - control.mean
    parts = np.array([arm.standard_error, control.standard_error]) ** 2
    error = float(np.sqrt(parts.sum()))
    if np.isnan(error) or error == 0:
        p_value = error if np.isnan(error) else float(effect == 0)
        return EffectSummary(
            arm.label, arm.name, effect, error, effect - error, effect + error, p_value
        )
    # Welch-Satterthwaite degrees of freedom.
    n = np.array([n_arm, n_control])
    freedom = parts.sum() ** 2 / np.sum(parts**2 / (n - 1))
    half = float(stdtrit(freedom, (1 + level) / 2)) * error
    p_value = float(2 * stdtr(freedom, -abs(effect) / error))
    return EffectSummary(arm.label, arm.name, effect, error, effect - half, effect + half, p_value)


def _summary_lines(summary: TrialSummary) -> list[str]:
    features = f"{summary.n_features:,} feature{'' if summary.n_features == 1 else 's'}"
    treatment = "" if summary.treatment_name == "treatment" else f" by {summary.treatment_name}"
    lines = [
        f"{summary.name}: {summary.n_rows:,} rows, {features}; "
        f"outcome {summary.outcome_name}{treatment}"
    ]
    if summary.n_randomised is not None:
        lines.append(f"the {summary.n_randomised:,} randomised rows:")
    mean = f"{'weighted ' if summary.weighted else ''}mean of {summary.outcome_name}"
    table = [("arm", "rows", "share", mean)]
    table += [(a.name, f"{a.n_rows:,}", f"{a.share:.1%}", f"{a.mean:.4g}") for a in summary.arms]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for first, *rest in table:
        cells = [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]))
    for e in summary.effects:
        p_value = "p < 0.0001" if e.p_value < 1e-4 else f"p = {e.p_value:.2g}"
        lines += [
            f"effect of {e.name} against {summary.arms[0].name}: {e.effect:.4g} "
            f"(standard error {e.standard_error:.2g})",
            f"  95% interval {e.low:.4g} to {e.high:.4g}, {p_value}",
        ]
    if summary.true_effect is not None:
        lines.append(f"true average effect: {summary.true_effect:.4g}")
    return lines
