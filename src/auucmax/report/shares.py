"""Every number of the page that depends on the share treated, on a grid of 101 shares.

The page only looks them up and interpolates. They are those of :func:`auucmax.targeting.plan`, with
intervals from the simultaneous band: these hold together at all shares of the grid, and so at one
chosen by looking.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from auucmax._json import plain
from auucmax._validation import Floats
from auucmax.evaluation import UpliftBand
from auucmax.report.plain import digits_for, short
from auucmax.targeting import Plan
from auucmax.targeting.planning import EVERY_PERCENT
from auucmax.targeting.reliability import reliable_shares

__all__ = ["GRID", "Economy", "describe_plan", "effect_of", "ratio_interval", "reliable_shares"]

GRID = EVERY_PERCENT
_N_DRAWS = 10_000


@dataclass(frozen=True)
class Economy:
    """The cohort to be treated, what a treatment costs and what one unit of the outcome is worth.

    Without ``cost`` there is no budget, and without ``cost`` and ``value`` no profit.

    >>> Economy(cohort=100_000, cost=0.05, value=1.5, currency="USD").cohort
    100000
    """

    cohort: int = 10_000
    cost: float | None = None
    value: float | None = None
    currency: str = ""

    @property
    def has_profit(self) -> bool:
        return self.cost is not None and self.value is not None


def describe_plan(found: Plan, economy: Economy, risk: Floats | None) -> dict[str, Any]:
    """The columns of a plan over the grid as lists; None where cost or value is not known.

    ``risk`` is the policy risk at the same shares (None unless the outcome is 0/1). ``best_share``
    has the highest expected profit, ``cautious_share`` the highest lower end of it, both of the
    shares at which there are rows enough, and ``digits``
    says with how many decimals the numbers are written.
    """
    table = found.table
    names = ["gain", "gain_lower", "gain_upper"]
    money = ["profit", "profit_lower", "profit_upper"]
    plan: dict[str, Any] = {name: table[name].tolist() for name in ("share", *names)}
    plan |= {name: table[name].tolist() if economy.has_profit else None for name in money}
    error = found.n_people * float(found.band.standard_error.max())
    price = max(economy.cost or 0.0, (economy.value or 0.0) * error)
    plan |= {
        "cohort": found.n_people,
        "people": table["n_treated"].tolist(),
        "cost": None if economy.cost is None else table["cost"].tolist(),
        "risk": risk,
        "cost_per_person": economy.cost,
        "value_per_outcome": economy.value,
        "currency": short(economy.currency),
        "best_share": found.best.share if economy.has_profit else None,
        "cautious_share": found.cautious.share if economy.has_profit else None,
        "population": found.population,
        "digits": {"gain": digits_for(error), "money": 0 if price >= 20 else 2},
    }
    return dict(plain(plan))


def effect_of(band: UpliftBand) -> dict[str, Any]:
    """The average effect: the curve's end, with its own interval (no share is chosen there)."""
    estimate, error = float(band.uplift[-1]), float(band.standard_error[-1])
    return dict(
        plain(
            {
                "estimate": estimate,
                "standard_error": error,
                "lower": band.lower[-1],
                "upper": band.upper[-1],
                # Two-sided 5%, found four times in five: 1.96 + 0.84 standard errors.
                "detectable": 2.8 * error,
            }
        )
    )


def ratio_interval(band: UpliftBand, at: int) -> tuple[float, float, float] | None:
    """V(q) / V(1) with Fieller's interval, for the ``at``-th share; None unless V(1) is above 0.

    All r with |V(q) - r V(1)| <= t se(V(q) - r V(1)): between the roots of a quadratic in r, which
    is an interval exactly when V(1) is more than t standard errors from 0. t is such that the
    intervals hold at all shares of the band together.
    """
    top, whole = float(band.uplift[at]), float(band.uplift[-1])
    if not band.lower[-1] > 0:
        return None
    t = _ratio_multiple(band)
    if not whole > t * band.standard_error[-1]:
        return None
    c = band.covariance
    quadratic = whole**2 - t**2 * c[-1, -1]
    linear = top * whole - t**2 * c[at, -1]
    constant = top**2 - t**2 * c[at, at]
    root = math.sqrt(max(linear**2 - quadratic * constant, 0.0))
    return top / whole, (linear - root) / quadratic, (linear + root) / quadratic


def _ratio_multiple(band: UpliftBand) -> float:
    """Level quantile of the largest |V(q) - r(q) V(1)| in standard errors, r(q) = V(q) / V(1).

    From normal draws, always the same, and as much wider as the band's own intervals at one share
    are than normal ones.
    """
    ratio, end = band.uplift / band.uplift[-1], band.covariance[:, -1]
    cross = np.outer(ratio, end)
    c = band.covariance - cross - cross.T + np.outer(ratio, ratio) * end[-1]
    error = np.sqrt(np.maximum(np.diag(c), 0))
    vary = error > 1e-6 * band.standard_error.max()  # neither nobody nor everybody has an error
    if not vary.any():
        return 0.0
    widest = int(band.standard_error.argmax())
    one = (band.upper - band.uplift)[widest] / band.standard_error[widest]
    values, vectors = np.linalg.eigh(c[np.ix_(vary, vary)] / np.outer(error[vary], error[vary]))
    root = vectors * np.sqrt(np.maximum(values, 0))
    draws = np.random.default_rng(0).standard_normal((_N_DRAWS, len(root))) @ root.T
    largest = float(np.quantile(np.abs(draws).max(axis=1), band.level))
    return float(one * max(largest / ndtri((1 + band.level) / 2), 1.0))
