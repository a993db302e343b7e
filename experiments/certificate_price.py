"""``python -m experiments.certificate_price [KINDS]``: what a certificate costs, and the fit of it.

The constants of ``auucmax.campaign.plan.certificate_quantile`` are the last line of its output:
the price beyond the quantile z of the hedge, as a (r z)^2 + b / sqrt(N) + c / N. Trials differ in
rows, base rate, treated share and delta; each fourth compares two scores. Some minutes on one core.

These terms were chosen by the same trials, as the best of all sums of up to three of 13 terms in r,
z, N and delta: a description between 800 and 25,000 rows, and no law beyond.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from auucmax import make_trial
from auucmax.certificates import betting_bound, certify_difference
from auucmax.certificates.betting import AIM
from auucmax.certificates.blocks import BlockDesign
from auucmax.metrics import Levels

KINDS, TRIALS = 40, 14


class Kind(NamedTuple):
    """A kind of trial; ``compares`` two scores."""

    n_rows: int
    base_rate: float
    treated: float
    delta: float
    compares: bool


class Price(NamedTuple):
    """How many standard errors the bound is below what is bet on, N, and r z."""

    quantile: float
    hedge: float
    n_blocks: int
    loss: float


def kinds(number: int) -> list[Kind]:
    rng, found = np.random.default_rng(5), []
    for place in range(number):
        n = int(np.exp(rng.uniform(np.log(800), np.log(25_000))))
        base = float(np.exp(rng.uniform(np.log(0.01), np.log(0.5))))
        treated = float(rng.choice([0.3, 0.5, 0.5, 0.7, 0.85]))
        delta = float(rng.choice([0.05, 0.05, 0.01, 0.1]))
        base = max(base, 15 / n / min(treated, 1 - treated))
        found.append(Kind(n, base, treated, delta, place % 4 == 3))
    return found


def measure(kind: Kind, place: int, trials: int = TRIALS) -> Price:
    found = np.array([_one(kind, 1000 * place + k, k) for k in range(trials)])
    n_treated = round(kind.n_rows * kind.treated)
    design = BlockDesign.of(n_treated, kind.n_rows - n_treated)
    middle = 1.1 * kind.base_rate, 1.1 * kind.base_rate
    floor = design.floor(0.5, middle)
    if kind.compares:
        floor += replace(design, ends=design.ends[::-1]).floor(0.5, middle)
    quantile, error = found.mean(axis=0)
    hedge = float(-ndtri(AIM * kind.delta))
    loss = floor / (error * design.n_blocks)
    return Price(float(quantile), hedge, design.n_blocks, float(loss))


def _one(kind: Kind, seed: int, noise: int) -> tuple[float, float]:
    """Distance of the bound in standard errors, and the standard error."""
    n, rng = kind.n_rows, np.random.default_rng(noise)
    trial = make_trial(
        n, n_features=4, n_noise=0, base_rate=kind.base_rate, ate=0.2 * kind.base_rate,
        treatment_share=kind.treated, heterogeneity=0.8, random_state=seed,
    )  # fmt: skip
    own, other = (trial.effect + k * rng.normal(size=n) * trial.effect.std() for k in (1, 2))
    centred = {"treatment": trial.treatment, "outcome_model": np.full(n, trial.y.mean())}
    levels, given = Levels.of(trial.y, own, **centred), {"treatment": trial.treatment}
    if kind.compares:
        error = levels.difference(Levels.of(trial.y, other, **centred)).standard_error
        bound = certify_difference(own, other, y=trial.y, **given, delta=kind.delta)
    else:
        error = levels.inference().gain_standard_error
        bound = betting_bound(trial.y, own, **given, delta=kind.delta)
    return (bound.estimate - bound.lower) / error, error


def fit(prices: list[Price]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """a, b and c, and the residuals."""
    terms = np.array([[(p.loss * p.hedge) ** 2, p.n_blocks**-0.5, 1 / p.n_blocks] for p in prices])
    more = np.array([p.quantile - p.hedge for p in prices])
    found = np.linalg.lstsq(terms, more, rcond=None)[0]
    return found, more - terms @ found


def main() -> None:
    prices = []
    for place, kind in enumerate(kinds(int(sys.argv[1]) if len(sys.argv) > 1 else KINDS)):
        prices.append(measure(kind, place))
        print(kind, f"quantile {prices[-1].quantile:.3f}, hedge {prices[-1].hedge:.3f}", flush=True)
    if len(prices) > 3:
        found, left = fit(prices)
        left = np.abs(left)
        print("a, b, c:", found.round(2), f"left: {left.mean():.3f} on average, {left.max():.3f}")


if __name__ == "__main__":
    main()
