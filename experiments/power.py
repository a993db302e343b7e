"""Promised and simulated power: what `auucmax plan` promises against trials whose truth is known.

A line holds some trials of one case; the score is fixed before the trial. Scores of most cases are
effects on the log-odds with noise, and the plan gets base rate, effect and gain only. Scores of
the others ("pilot") are the effects themselves with noise, whose ends have higher base rates than
its middle, which these numbers do not show: there the plan also gets the standard error of a pilot.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from auucmax import make_trial
from auucmax.campaign import plan_trial
from auucmax.campaign.plan import Assumed, certificate_quantile
from auucmax.certificates import betting_bound
from auucmax.metrics import Levels
from experiments import page
from experiments.harness import Line, Task
from experiments.models import timed_line

NAME = "power"
SIMULATION = "simulation"
LINES, CHUNK = 6, 500
CERTIFIED = 50  # trials of a line that are certified, in the cases that are
POPULATION = 400_000  # rows from which the truth is computed
TOLERANCE = 0.03
Floats = NDArray[np.float64]


class Case(NamedTuple):
    """A population, a score, a size and what is to be shown: "gain" or "effect"."""

    n_rows: int
    base_rate: float = 0.1
    ate: float = 0.03
    heterogeneity: float = 0.6
    noise: float = 1.0  # of the score, in standard deviations of what it is made of
    treated: float = 0.5
    shows: str = "gain"
    outcome: str = "binary"
    pilot: bool = False
    certified: bool = False

    @property
    def name(self) -> str:
        kind = "" if self.outcome == "binary" else ", continuous"
        kind += ", pilot" if self.pilot else ""
        return (
            f"{self.shows}: {self.n_rows:,} rows, {self.treated:.0%} treated, base rate "
            f"{self.base_rate:g}, effect {self.ate:g}, heterogeneity {self.heterogeneity:g}, noise "
            f"{self.noise:g}{kind}"
        )

    @property
    def population(self) -> dict[str, Any]:
        return {"base_rate": self.base_rate, "ate": self.ate, "n_features": 4, "n_noise": 0,
                "heterogeneity": self.heterogeneity, "outcome": self.outcome,
                "treatment_share": self.treated}  # fmt: skip


CASES = (
    Case(2_000, certified=True),
    Case(1_200, noise=0.5),
    Case(2_500, noise=2.0),
    Case(2_400, treated=0.8),
    Case(1_600, treated=0.25, heterogeneity=0.8, certified=True),
    Case(1_500, base_rate=0.3, ate=0.05, certified=True),
    Case(1_200, base_rate=0.5, ate=0.1, heterogeneity=0.8, certified=True),
    Case(3_000, base_rate=0.03, ate=0.01, heterogeneity=0.9, certified=True),
    Case(6_000, base_rate=0.02, ate=0.005),
    Case(2_000, ate=-0.02, heterogeneity=0.8),
    Case(2_000, ate=0.0),
    Case(1_500, base_rate=1.0, ate=0.1, heterogeneity=0.3, outcome="continuous"),
    Case(1_500, base_rate=0.0, ate=0.0, heterogeneity=0.4, noise=2.0, outcome="continuous"),
    Case(2_000, pilot=True),
    Case(3_000, base_rate=0.03, ate=0.01, heterogeneity=0.9, pilot=True, certified=True),
    Case(1_500, shows="effect"),
    Case(2_000, shows="effect", base_rate=0.05, ate=0.02, treated=0.6),
    Case(1_000, shows="effect", base_rate=0.2, ate=0.1, heterogeneity=0.5, outcome="continuous"),
    Case(20_000, shows="effect", base_rate=0.05, ate=0.015, treated=0.95),
    Case(20_000, shows="effect", base_rate=0.03, ate=0.01, treated=0.05),
)
BY_NAME = {case.name: case for case in CASES}


def tasks(splits: int | None = None) -> list[Task]:
    number = LINES if splits is None else min(splits, LINES)
    return [Task(NAME, case.name, SIMULATION, k) for case in CASES for k in range(number)]


def parameters(task: Task) -> dict[str, Any]:
    case = BY_NAME[task.trial]
    return case._asdict() | {"trials": CHUNK, "certificates": CERTIFIED if case.certified else 0}


def run(task: Task) -> Line:
    return timed_line(task, parameters(task), lambda: simulate(BY_NAME[task.trial], task.split))


@cache
def promised(case: Case) -> Assumed:
    """What `plan_trial` assumes for a case, if that is true: power and width follow from it."""
    rng = np.random.default_rng(2026)
    trial = make_trial(POPULATION, **case.population, random_state=rng)
    score = scores(case, trial, rng)
    known: dict[str, Any] = {"base_rate": case.base_rate, "effect": case.ate,
                             "gain": _gain(trial.effect, score),
                             "treated_share": case.treated}  # fmt: skip
    if case.outcome == "continuous":
        known["outcome_sd"] = float(trial.y[trial.treatment == 0].std())
        known["effect_sd"] = float(trial.effect.std())

    if case.pilot:
        seen = Levels.of(trial.y, score, treatment=trial.treatment).inference()
        expected = plan_trial(**known).assumed[0].variance(case.shows) / POPULATION
        known["design_effect"] = seen.gain_standard_error**2 / expected
    return plan_trial(**known).assumed[0]


def scores(case: Case, trial: Any, rng: np.random.Generator) -> Floats:
    """The score: effects on the log-odds, or effects, with noise."""
    signal = trial.effect
    if not case.pilot and case.outcome == "binary":
        control, treated = trial.population.potential_means(trial.X)
        signal = logit(treated) - logit(control)
    return signal + case.noise * float(np.std(signal)) * rng.standard_normal(len(signal))


def _gain(effect: Floats, score: Floats) -> float:
    rank = np.argsort(np.argsort(score)) / len(score)
    return float(np.mean((effect - effect.mean()) * (rank - 0.5)))


def simulate(case: Case, split: int, trials: int = CHUNK, certificates: int = CERTIFIED) -> Line:
    """How often the interval, and the certificate, is above 0; and the mean width."""
    assumed = promised(case)
    shown, width, likely, certified, likely_too = 0, 0.0, 0, 0, 0
    error = float(np.sqrt(assumed.variance(case.shows) / case.n_rows))
    quantile = certificate_quantile(assumed, case.n_rows, error)
    place = CASES.index(case) if case in CASES else len(CASES)
    for number in range(trials):
        rng = np.random.default_rng([20_26, place, split, number])
        trial = make_trial(case.n_rows, **case.population, random_state=rng)
        score = scores(case, trial, rng)
        levels = Levels.of(trial.y, score, treatment=trial.treatment)
        if case.shows == "effect":
            band = levels.band([1.0])
            low, high = band.lower[-1], band.upper[-1]
        else:
            low, high = levels.inference().gain_interval
        shown += low > 0
        width += high - low
        if not case.certified:
            continue
        mean = np.full(len(score), trial.y.mean())
        centred = Levels.of(
            trial.y, score, treatment=trial.treatment, outcome_model=mean
        ).inference()
        is_likely = centred.gain / centred.gain_standard_error > quantile
        likely += is_likely
        if number < certificates:
            own = {"treatment": trial.treatment, "random_state": number}
            certified += betting_bound(trial.y, score, **own).lower > 0
            likely_too += is_likely
    found: Line = {
        "promised": {
            name: assumed.power(case.n_rows, what)
            for name, what in (("interval", case.shows), ("certificate", "guaranteed gain"))
            if name == "interval" or (case.shows == "gain" and what in assumed.statements)
        },
        "promised_width": assumed.width(case.n_rows, case.shows),
        "shown": int(shown),
        "width": float(width / trials),
    }
    if case.certified:
        counts = {"certified": certified, "likely": likely, "likely_too": likely_too}
        found |= {name: int(count) for name, count in counts.items()}
    return found


class Compared(NamedTuple):
    """Promised and simulated power of a case, and the standard error of the latter, about."""

    promised: float
    simulated: float
    error: float


def compared(lines: Sequence[Line]) -> dict[str, Compared]:
    """Of the lines of one case: by the interval and, if there were certificates, by these."""
    first = lines[0]
    trials = sum(line["parameters"]["trials"] for line in lines)
    share = sum(line["shown"] for line in lines) / trials
    error = float(np.sqrt(share * (1 - share) / trials))
    found = {"interval": Compared(first["promised"]["interval"], share, error)}
    if "certified" in first:
        # Certificates are slow: those of some trials correct the count over all trials by the
        # promised limit in standard errors.
        n = sum(line["parameters"]["certificates"] for line in lines)
        likely = sum(line["likely"] for line in lines) / trials
        differ = sum(line["certified"] - line["likely_too"] for line in lines) / n
        error = float(np.sqrt(likely * (1 - likely) / trials + abs(differ) / n + 0.05 / n))
        found["certificate"] = Compared(first["promised"]["certificate"], likely + differ, error)
    return found


def by_case(lines: Sequence[Line]) -> dict[str, list[Line]]:
    """The lines of each case, in the order of the cases."""
    found = {name: [line for line in lines if line["trial"] == name] for name in BY_NAME}
    return {name: own for name, own in found.items() if own}


def render(lines: list[Line]) -> str:
    rows = []
    for name, own in by_case(lines).items():
        found = compared(own)
        width = float(np.mean([line["width"] for line in own]))
        powers = [
            [f"{found[by].promised:.1%}", f"{found[by].simulated:.1%}"] if by in found else ["", ""]
            for by in ("interval", "certificate")
        ]
        widths = [f"{own[0]['promised_width']:.4g}", f"{width:.4g}"]
        rows.append([name, *powers[0], *widths, *powers[1]])
    header = ["case", "promised", "simulated", "width promised", "width", "certificate promised",
              "certificate simulated"]  # fmt: skip
    return page.written(
        f"{NAME}: what `auucmax plan` promises, and what simulated trials show",
        lines,
        f"{LINES * CHUNK:,} trials of each case, whose power has a standard error of up to .9 "
        f"percentage points; that of certificates, of which {LINES * CERTIFIED} a case were made, "
        f"about 1.5. Scores are fixed before the trial: effects on the log-odds (continuous "
        f"outcomes: effects) with noise, and the plan gets base rate, effect, gain and treated "
        f"share only. `pilot`: effects with noise, and the plan also gets the standard error of a "
        f"pilot. `effect`: the average effect. Intervals at 95%, certificates at delta .05. The "
        f"price of a certificate beyond the normal quantile was fitted to other simulated trials; "
        f"the rest is closed form.\n",
        page.table(header, rows),
        "**How far to trust this.** The formulas were not fixed before this grid was seen; these "
        "trials are no independent test of them. Cases that played no part in this are in "
        "`tests/campaign/test_plan.py`. Without a pilot, the power of scores that are correlated "
        "with the base rate is promised too high.\n",
        work="simulation",
    )


def summary(lines: list[Line]) -> str:
    found = [compared(own) for own in by_case(lines).values()]
    off = {
        by: 100
        * np.array([abs(own[by].promised - own[by].simulated) for own in found if by in own])
        for by in ("interval", "certificate")
    }
    if not len(off["interval"]) or not len(off["certificate"]):
        return ""
    return (
        f"Planned power ({page.link(NAME)}): of {len(off['interval'])} kinds of "
        f"trials, the power that `auucmax plan` promises is {off['interval'].mean():.1f} "
        f"percentage points from the simulated one on average and {off['interval'].max():.1f} at "
        f"most; that of a certificate, of {len(off['certificate'])} kinds, "
        f"{off['certificate'].mean():.1f} and {off['certificate'].max():.1f}. The formulas were "
        f"not fixed before these kinds were seen.\n"
    )
