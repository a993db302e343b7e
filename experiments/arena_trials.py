"""Trials of the arena: real ones in families that share no rows, and populations that are known."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from auucmax import Trial, load_hillstrom
from auucmax._validation import Floats
from auucmax.data.fetch import fetch_social_pressure
from auucmax.data.synthetic import Population, SyntheticTrial, _draw, _normal_grid
from experiments import cu2
from experiments.datasets import JOBS, load_jobs

HILLSTROM, SOCIAL_PRESSURE, CRITEO = "Hillstrom", "social pressure", cu2.REAL
WOMEN, MEN = "Womens E-Mail", "Mens E-Mail"


def men_against_women(outcome: str) -> Trial:
    """The e-mail for men as the treatment, that for women as the control."""
    trial = load_hillstrom("all", outcome, "raw")
    mailed = np.isin(trial.treatment, (MEN, WOMEN))
    return Trial(
        trial.X[mailed].reset_index(drop=True),
        trial.y[mailed],
        trial.treatment[mailed],
        control=WOMEN,
        name="Hillstrom, men against women",
        outcome_name=outcome,
    )


def _hillstrom() -> dict[str, Callable[[], Trial]]:
    found: dict[str, Callable[[], Trial]] = {}
    for outcome in ("visit", "conversion"):
        for arm, name in (("womens", "women"), ("mens", "men"), ("any", "any mail")):
            found[f"{name}, {outcome}"] = partial(load_hillstrom, arm, outcome, "raw")
        found[f"men against women, {outcome}"] = partial(men_against_women, outcome)
    return found


#: Families, from small to large; trials of one family share rows.
FAMILIES: dict[str, dict[str, Callable[[], Trial]]] = {
    "Jobs": {JOBS: load_jobs},
    HILLSTROM: {f"{HILLSTROM} {name}": load for name, load in _hillstrom().items()},
    SOCIAL_PRESSURE: {
        f"{SOCIAL_PRESSURE}, {name}": partial(fetch_social_pressure, arm, download=False)
        for name, arm in (
            ("neighbours", "neighbors"),
            ("self", "self"),
            ("Hawthorne", "hawthorne"),
            ("civic duty", "civic"),
        )
    },
    # A million of its rows, the same as in cu2.
    "Criteo": {CRITEO: partial(cu2.load_trial, CRITEO)},
}
LOADERS = {name: load for family in FAMILIES.values() for name, load in family.items()}
#: Trials of more than 100,000 rows, which have fewer splits.
LARGE = (*FAMILIES[SOCIAL_PRESSURE], CRITEO)


#: Where AUUC-max on learned representations is tried, and how many splits it has.
LEARNT_TRIALS = (
    JOBS,
    f"{HILLSTROM} women, visit",
    f"{HILLSTROM} men, visit",
    f"{HILLSTROM} women, conversion",
    "linear, 20,000 rows",
    "threshold, 20,000 rows",
    "interaction, 20,000 rows",
)
LEARNT_SPLITS = 8


@lru_cache(maxsize=len(LOADERS))
def load_trial(name: str) -> Trial:
    """The trial of this name; read once."""
    return LOADERS[name]()


class Threshold(Population):
    """The effect on the log-odds is a step: above or below the middle of the responsiveness v.

    treated: a1 + signal z + heterogeneity sign(v). A score that is right about the sign of v is
    right about nearly all; one that is linear in v orders people whose effects are equal.
    """

    @cached_property
    def _intercepts(self) -> tuple[float, float]:
        control, _ = super()._intercepts
        z, weight = _normal_grid(2001)

        def excess(a: float) -> float:
            steps = expit(a + self.signal * z + self.heterogeneity * _SIGNS)
            return float((steps @ weight).mean()) - self.base_rate - self.ate

        return control, float(brentq(excess, -60, 60, xtol=1e-14))

    @cached_property
    def best_auuc(self) -> float:
        """As in the population it comes from, with an integral over z and two values of v."""
        z, weight = _normal_grid(20_001)
        control, treated = self._means(z, _SIGNS)
        tau, weight = (treated - control).ravel(), np.tile(weight / 2, 2)
        order = np.argsort(tau)
        tau, weight = tau[order], weight[order]
        below = np.cumsum(weight) - weight / 2
        return float(self.ate / 2 + np.sum(weight * (tau - self.ate) * (below - 0.5)))

    def _means(self, z: Floats, v: Floats) -> tuple[Floats, Floats]:
        return super()._means(z, np.sign(v))


_SIGNS = np.array([[1.0], [-1.0]])


class Drawn(NamedTuple):
    """So many rows of a population, a share of them treated."""

    n_rows: int
    options: dict[str, Any]
    share: float = 0.5
    law: type[Population] = Population


_RARE = {"base_rate": 0.005, "ate": 0.002, "heterogeneity": 0.5}
POPULATIONS = {
    "linear, 2,000 rows": Drawn(2_000, {}),
    "linear, 20,000 rows": Drawn(20_000, {}),
    "linear, 200,000 rows": Drawn(200_000, {}),
    "strong effects, 2,000 rows": Drawn(2_000, {"heterogeneity": 1.0}),
    "threshold, 20,000 rows": Drawn(20_000, {}, law=Threshold),
    "threshold, 200,000 rows": Drawn(200_000, {}, law=Threshold),
    "interaction, 20,000 rows": Drawn(20_000, {"nonlinearity": 1.0}),
    "interaction, 200,000 rows": Drawn(200_000, {"nonlinearity": 1.0}),
    "half interaction, 50,000 rows": Drawn(50_000, {"nonlinearity": 0.5}),
    "rare outcome, 50,000 rows": Drawn(50_000, _RARE),
    "rare outcome, 200,000 rows": Drawn(200_000, _RARE),
    "no heterogeneity, 20,000 rows": Drawn(20_000, {"heterogeneity": 0.0}),
    "85% treated, 20,000 rows": Drawn(20_000, {}, share=0.85),
    "200 noise features, 10,000 rows": Drawn(10_000, {"n_features": 208, "n_noise": 200}),
}
#: Populations whose fits take long, of many rows or many features.
COSTLY = tuple(
    name
    for name, drawn in POPULATIONS.items()
    if drawn.n_rows >= 200_000 or drawn.options.get("n_features", 0) > 100
)


@lru_cache(maxsize=1)
def draw_trial(name: str, seed: int) -> SyntheticTrial:
    """A trial of a population; what :func:`auucmax.make_trial` does, for Threshold too."""
    drawn = POPULATIONS[name]
    rng = np.random.default_rng(seed)
    treated = round(drawn.share * drawn.n_rows)
    law = drawn.law(**drawn.options)
    return _draw(law, drawn.n_rows, treated, np.dtype("float64"), rng, name)
