"""Synthetic trials whose true effects, and so whose population AUUC, are known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._validation import check_choice, check_level, check_whole
from auucmax.data.population import BLOCK, Population
from auucmax.data.trial import Trial

# Rows, shares and rates are the published ones; signal and heterogeneity are chosen by us.
PRESETS: dict[str, dict[str, Any]] = {
    "hillstrom": {
        "n_rows": 42_693,
        "treatment_share": 21_387 / 42_693,
        "n_features": 22,
        "n_noise": 6,
        "base_rate": 2_262 / 21_306,
        "ate": 3_238 / 21_387 - 2_262 / 21_306,
        "signal": 0.5,
        "heterogeneity": 0.25,
    },
    "cu2-1m": {
        "n_rows": 1_000_000,
        "treatment_share": 0.8502,
        "n_features": 12,
        "n_noise": 2,
        "base_rate": 0.04631,
        "ate": 0.00313,
        "signal": 1.5,
        "heterogeneity": 0.09,
    },
    "criteo": {
        "n_rows": 13_979_592,
        "treatment_share": 11_882_655 / 13_979_592,
        "n_features": 12,
        "n_noise": 2,
        "base_rate": 80_105 / 2_096_937,
        "ate": 576_824 / 11_882_655 - 80_105 / 2_096_937,
        "signal": 1.5,
        "heterogeneity": 0.2,
    },
}

DEFAULTS: dict[str, Any] = {
    "n_rows": 10_000,
    "treatment_share": 0.5,
    "n_features": 10,
    "n_noise": 2,
    "base_rate": 0.1,
    "ate": 0.03,
    "signal": 0.5,
    "heterogeneity": 0.3,
}


@dataclass(frozen=True, repr=False, eq=False)
class SyntheticTrial(Trial):
    """A trial drawn from a known population: ``effect`` holds the true effect of each row.

    ``population`` knows the rest: ``population.uplift(X)``, ``population.best_auuc`` and
    ``population.auuc(score)``, see :class:`~auucmax.data.population.Population`.
    """

    population: Population = field(kw_only=True)


def make_trial(
    n_rows: int | None = None,
    *,
    preset: str | None = None,
    n_features: int | None = None,
    n_noise: int | None = None,
    treatment_share: float | None = None,
    base_rate: float | None = None,
    ate: float | None = None,
    signal: float | None = None,
    heterogeneity: float | None = None,
    nonlinearity: float = 0.0,
    outcome: str = "binary",
    dtype: str = "float32",
    random_state: int | np.random.Generator | None = None,
) -> SyntheticTrial:
    """A randomised trial with known effects: its best AUUC, and that of any score, can be computed.

    The population depends on the arguments, not on the seed: two seeds give two trials of the same
    population, for training and for testing. Exactly round(treatment_share * n_rows) rows, chosen
    at random, are treated.

    Parameters
    ----------
    n_rows : int, default 10,000
        Number of rows.
    preset : {"hillstrom", "cu2-1m", "criteo"}, optional
        Rows, features, treated share, base rate and effect of a published trial, for whatever is
        not given. The features are normals, not those of the trial; heterogeneity is chosen so
        that the best AUUC lies a little above what is reported for learned models.

        * "hillstrom": women's e-mail against none, visits: 42,693 rows, 22 features.
        * "cu2-1m": the sample of Criteo-UPLIFT2 in the data set table of the AUUC-max paper.
        * "criteo": Criteo-UPLIFT v2.1, visits (Diemert et al. 2021, arXiv 2111.10106): 13,979,592
          rows, of which 11,882,655 treated with 576,824 visits and 2,096,937 controls with 80,105
          (rates .04854 and .03820, as tabulated from the full file in the repository
          kuochh/criteo-ab-testing-uplift, streamlit/data/itt_effects.csv; effect .01034).
    n_features, n_noise : int, default 10 and 2
        Columns of X, and how many of them (the last ones) have no bearing on the outcome.
    treatment_share : float, default 0.5
        Share of treated rows.
    base_rate, ate : float, default 0.1 and 0.03
        Mean outcome of the control and average effect, in the population.
    signal, heterogeneity : float, default 0.5 and 0.3
        Standard deviation, over the population, of the log-odds in the control and of the effect
        on them (of the means, for a continuous outcome).
    nonlinearity : float in [0, 1], default 0
        0: logistic regression in each arm is the true model. 1: no linear score beats chance. The
        best AUUC is the same for all values.
    outcome : {"binary", "continuous"}, default "binary"
        0/1, or normal with standard deviation 1 around the mean.
    dtype : {"float32", "float64"}, default "float32"
        Type of the features.
    random_state : int, Generator or None
        The same seed gives the same trial.

    Returns
    -------
    SyntheticTrial
        A :class:`~auucmax.data.trial.Trial` with ``effect`` (true effect of each row) and
        ``population``.

    Examples
    --------
    >>> from auucmax.data.synthetic import make_trial
    >>> trial = make_trial(2_000, treatment_share=0.25, random_state=0)
    >>> int(trial.treatment.sum())
    500
    >>> population = trial.population
    >>> round(population.best_auuc, 4), population.ate / 2
    (0.0248, 0.015)
    >>> linear = lambda X: X["x0"] - X["x7"]
    >>> round(population.auuc(linear), 4)
    0.0214
    """
    given: dict[str, Any] = {
        "n_rows": n_rows,
        "n_features": n_features,
        "n_noise": n_noise,
        "treatment_share": treatment_share,
        "base_rate": base_rate,
        "ate": ate,
        "signal": signal,
        "heterogeneity": heterogeneity,
    }
    if preset is not None:
        check_choice(preset, "preset", PRESETS)
    chosen = DEFAULTS | PRESETS.get(preset or "", {})
    chosen |= {name: value for name, value in given.items() if value is not None}
    check_choice(dtype, "dtype", ("float32", "float64"))
    share = chosen.pop("treatment_share")
    n_rows = check_whole(chosen.pop("n_rows"), "n_rows", 2)
    n_treated = _count_treated(n_rows, share)
    population = Population(nonlinearity=nonlinearity, outcome=outcome, **chosen)
    name = "synthetic trial" if preset is None else f"synthetic {preset}"
    rng = np.random.default_rng(random_state)
    return _draw(population, n_rows, n_treated, np.dtype(dtype), rng, name)


def _count_treated(n_rows: int, share: float) -> int:
    check_level(share, "treatment_share")
    n_treated = round(share * n_rows)
    if not 1 <= n_treated <= n_rows - 1:
        raise ValueError(
            f"n_rows should leave at least one row in each arm, got {n_rows} rows with a "
            f"treatment_share of {share:g}. Ask for more rows."
        )
    return n_treated


def _draw(
    population: Population,
    n_rows: int,
    n_treated: int,
    dtype: np.dtype[Any],
    rng: np.random.Generator,
    name: str,
) -> SyntheticTrial:
    X = np.empty((n_rows, population.n_features), dtype=dtype)
    rng.standard_normal(dtype=dtype.type, out=X)
    treatment = np.zeros(n_rows, dtype=np.int8)
    treatment[:n_treated] = 1
    rng.shuffle(treatment)
    y, effect = np.empty(n_rows), np.empty(n_rows)
    for start in range(0, n_rows, BLOCK):
        part = slice(start, start + BLOCK)
        control, treated = population.potential_means(X[part])
        np.subtract(treated, control, out=effect[part])
        mean = np.where(treatment[part] == 1, treated, control)
        y[part] = _outcomes(mean, population.outcome, rng)
    return SyntheticTrial(
        # The frame shares the array: a copy would double the memory of a large trial.
        X=pd.DataFrame(X, columns=list(population.feature_names), copy=False),
        y=y,
        treatment=treatment,
        effect=effect,
        name=name,
        arm_names=("control", "treated"),
        population=population,
    )


def _outcomes(mean: NDArray[np.float64], outcome: str, rng: np.random.Generator) -> NDArray[Any]:
    if outcome == "continuous":
        return mean + rng.standard_normal(len(mean))
    return rng.random(len(mean)) < mean
