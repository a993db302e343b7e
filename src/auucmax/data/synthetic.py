"""Synthetic trials with known effects and known population AUUC.

They come with the true effects, and the population AUUC of any score.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import expit

from auucmax._errors import InputError
from auucmax._validation import (
    Floats,
    check_choice,
    check_column,
    check_level,
    check_positive,
    check_whole,
)
from auucmax.data.trial import Trial

# Rows handled at a time: the float64 copy of a block stays in cache, whatever the trial's size.
BLOCK = 2**16
# A list cannot collide with an integer seed, so no trial shares its rows with the evaluation.
EVALUATION_SEED = [20121, 9897]
EVALUATION_ROWS = 2**19


@dataclass(frozen=True)
class Population:
    """A population with independent normal features and known treatment effects.

    Two indices of a row, prognosis ``z`` and responsiveness ``v``, carry all that the features
    reveal about the outcome; in the population they are independent standard normals. With a binary
    outcome the log-odds are

        control: a0 + signal z          treated: a1 + signal z + heterogeneity v

    and the intercepts are solved for, so that the mean outcome of the control is ``base_rate`` and
    the average effect is ``ate``. With a continuous outcome the same lines, without the sigmoid,
    are the means of y, and y scatters around them with standard deviation 1.

    ``z = z'x_A + z''h(x_B)`` uses every informative feature. ``h`` maps a pair of features (r, t)
    in polar coordinates to (r, 2t): again two independent standard normals, but even in x, hence
    uncorrelated with every linear function. So ``nonlinearity`` changes what a model has to learn
    and leaves the law of the effects, and with it ``best_auuc``, as it is. At 0 a logistic
    regression in each arm is the true model; at 1 no linear score beats a random one.

    The parameters are those of :func:`make_trial`; ``nonlinearity`` is the share of the variance of
    z and of v that goes through h.

    Examples
    --------
    >>> from auucmax.data.synthetic import Population
    >>> population = Population(base_rate=0.1, ate=0.03)
    >>> print(f"{population.best_auuc:.4f}")
    0.0248
    >>> print(f"{population.auuc(lambda X: X['x0']):.4f}")
    0.0205
    >>> population.auuc(lambda X: 0 * X["x0"]) == 0.03 / 2
    True
    """

    n_features: int = 10
    n_noise: int = 2
    base_rate: float = 0.1
    ate: float = 0.03
    signal: float = 0.5
    heterogeneity: float = 0.3
    nonlinearity: float = 0.0
    outcome: str = "binary"

    def __post_init__(self) -> None:
        check_choice(self.outcome, "outcome", ("binary", "continuous"))
        for name in ("n_features", "n_noise"):
            object.__setattr__(self, name, check_whole(getattr(self, name), name, 0))
        for name in ("signal", "heterogeneity"):
            check_positive(getattr(self, name), name, "0.3 is usual.", or_zero=True)
        n_used = self.n_features - self.n_noise
        least = 4 if 0 < self.nonlinearity < 1 else 2  # two features on each side of h
        if n_used < least or (self.nonlinearity == 1 and n_used % 2):
            raise InputError(
                "n_features - n_noise",
                f"at least {least}, and even if nonlinearity is 1, since features then go in pairs",
                f"{self.n_features} - {self.n_noise}", "Ask for more features.",
            )  # fmt: skip
        if not 0 <= self.nonlinearity <= 1:
            raise InputError(
                "nonlinearity", "a share between 0 and 1", repr(self.nonlinearity),
                "0 makes logistic regression the true model.",
            )  # fmt: skip
        if self.outcome == "binary":
            check_level(self.base_rate, "base_rate")
            check_level(self.base_rate + self.ate, "base_rate + ate")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The columns of X: x0, x1, ..., the noise features last."""
        return tuple(f"x{j}" for j in range(self.n_features))

    def potential_means(self, X: ArrayLike | pd.DataFrame) -> tuple[Floats, Floats]:
        """Expected outcomes E[y | x] without and with treatment, two arrays (n,)."""
        rows = np.asarray(X[list(self.feature_names)] if isinstance(X, pd.DataFrame) else X)
        means = np.empty((2, len(rows)))
        for start in range(0, len(rows), BLOCK):
            part = slice(start, start + BLOCK)
            means[:, part] = self._means(*self._indices(rows[part]))
        return means[0], means[1]

    def uplift(self, X: ArrayLike | pd.DataFrame) -> Floats:
        """True effects tau(x) = E[y | x, treated] - E[y | x, control], (n,)."""
        control, treated = self.potential_means(X)
        return treated - control

    @cached_property
    def best_auuc(self) -> float:
        """AUUC of the true effect, the highest possible, accurate to about 1e-6.

        The effect depends on a row through z and v alone, so E[tau G(tau)], G the mid-distribution
        function, is an integral over the plane. The trapezoid rule on a grid of normal density
        gives the means to machine precision and the ranks with an error of the squared step.
        """
        if self.outcome == "continuous":
            return float(self.ate / 2 + self.heterogeneity / (2 * np.sqrt(np.pi)))
        z, weight = _normal_grid(801)
        control, treated = self._means(z[:, None], z)
        tau = (treated - control).ravel()
        return self.ate / 2 + _rank_covariance(tau, tau, np.outer(weight, weight).ravel())

    def auuc(self, score: Any) -> float:
        """Population AUUC of a score, accurate to about 1e-5.

            AUUC(f) = E[tau(X) G(f(X))] = ate/2 + Cov(tau(X), G(f(X)))

        with G the mid-distribution function of f(X): the limit of the joint and of the separate
        AUUC as the trial grows. The covariance is taken over a fixed sample of 524,288 rows with
        their true effects, so the outcomes add no noise: its standard error is at most about .29
        sd / 724, with sd the standard deviation of the effects.

        Parameters
        ----------
        score : callable or fitted model
            ``score(X)`` or ``score.predict(X)``: a number for each row of a frame with the columns
            ``feature_names`` (an array for a model that was fitted on one).
        """
        return self.ate / 2 + _rank_covariance(*self.effects_and_scores(score))

    def effects_and_scores(self, score: Any) -> tuple[Floats, Floats]:
        """True effects and scores of a fixed sample of rows, (m,) each."""
        X = np.random.default_rng(EVALUATION_SEED).standard_normal(
            (EVALUATION_ROWS, self.n_features)
        )
        rows: Any = X
        # A model that was fitted on an array would warn of the names of a frame.
        if not hasattr(score, "n_features_in_") or hasattr(score, "feature_names_in_"):
            rows = pd.DataFrame(X, columns=list(self.feature_names), copy=False)
        values = getattr(score, "predict", score)(rows)
        return self.uplift(X), check_column(values, "score", len(X))

    @cached_property
    def _intercepts(self) -> tuple[float, float]:
        if self.outcome == "continuous":
            return self.base_rate, self.base_rate + self.ate
        spread = np.hypot(self.signal, self.heterogeneity)
        return (
            _logit_intercept(self.base_rate, self.signal),
            _logit_intercept(self.base_rate + self.ate, spread),
        )

    @cached_property
    def _directions(self) -> tuple[int, int, Floats]:
        """Number of informative features, of nonlinear ones, and the weights (2, k)."""
        n_used = self.n_features - self.n_noise
        # With features of both kinds there are two at least of each: all have a weight.
        most = (n_used - (self.nonlinearity < 1)) // 2
        n_pairs = int(np.clip(round(self.nonlinearity * n_used / 2), self.nonlinearity > 0, most))
        n_doubled = 2 * n_pairs
        n_linear = n_used - n_doubled
        weights = np.hstack(
            [
                np.sqrt(1 - self.nonlinearity) * _orthonormal_pair(n_linear),
                np.sqrt(self.nonlinearity) * _orthonormal_pair(n_doubled),
            ]
        )
        return n_used, n_doubled, weights

    def _indices(self, block: NDArray[Any]) -> tuple[Floats, Floats]:
        """Prognostic index z and responsiveness index v of rows."""
        n_used, n_doubled, weights = self._directions
        x = block[:, :n_used].astype(np.float64)
        if n_doubled:  # each pair of columns at (r, t) in polar coordinates moves to (r, 2t)
            doubled = x[:, n_used - n_doubled :]
            pair = doubled[:, 0::2] + 1j * doubled[:, 1::2]
            radius = np.abs(pair)
            pair = pair * pair / np.where(radius > 0, radius, 1.0)
            doubled[:, 0::2], doubled[:, 1::2] = pair.real, pair.imag
        z, v = weights @ x.T
        return z, v

    def _means(self, z: Floats, v: Floats) -> tuple[Floats, Floats]:
        """Mean outcomes without and with treatment."""
        a0, a1 = self._intercepts
        control = a0 + self.signal * z
        treated = a1 + self.signal * z + self.heterogeneity * v
        if self.outcome == "continuous":
            return control, treated
        return expit(control), expit(treated)


def _orthonormal_pair(size: int) -> Floats:
    """Two orthogonal unit vectors, of shape (2, size): equal weights, and a cosine."""
    angles = np.pi * (np.arange(size) + 0.5) / size
    pair = np.vstack([np.ones(size), np.cos(angles)])
    return pair / np.linalg.norm(pair, axis=1, keepdims=True)


def _normal_grid(size: int) -> tuple[Floats, Floats]:
    """Nodes and weights of the trapezoid rule for the standard normal."""
    z = np.linspace(-8.5, 8.5, size)
    weight = np.exp(-0.5 * z * z)
    return z, weight / weight.sum()


def _logit_intercept(mean: float, spread: float) -> float:
    """Solve E[sigmoid(a + spread N(0, 1))] = mean for a."""
    z, weight = _normal_grid(2001)
    reach = 40 + 9 * spread
    return float(brentq(lambda a: weight @ expit(a + spread * z) - mean, -reach, reach, xtol=1e-14))


def _rank_covariance(tau: Floats, score: Floats, weight: Floats | None = None) -> float:
    """Sample Cov(tau, G(score)) with mid-distribution G; rows have equal weights by default."""
    weight = np.ones(len(tau)) if weight is None else weight
    centred = tau - np.average(tau, weights=weight)
    level = np.unique(score, return_inverse=True)[1]
    size = np.bincount(level, weight) / weight.sum()
    rank = (np.cumsum(size) - size / 2)[level]
    return float(np.average(centred * (rank - 0.5), weights=weight))


# Rows, shares and rates are the published ones; signal and heterogeneity are chosen by us.
PRESETS: dict[str, dict[str, Any]] = {
    "hillstrom": {
        "n_rows": 42_693, "treatment_share": 21_387 / 42_693, "n_features": 22, "n_noise": 6,
        "base_rate": 2_262 / 21_306, "ate": 3_238 / 21_387 - 2_262 / 21_306,
        "signal": 0.5, "heterogeneity": 0.25,
    },
    "cu2-1m": {
        "n_rows": 1_000_000, "treatment_share": 0.8502, "n_features": 12, "n_noise": 2,
        "base_rate": 0.04631, "ate": 0.00313, "signal": 1.5, "heterogeneity": 0.09,
    },
    "criteo": {
        "n_rows": 13_979_592, "treatment_share": 11_882_655 / 13_979_592,
        "n_features": 12, "n_noise": 2,
        "base_rate": 80_105 / 2_096_937, "ate": 576_824 / 11_882_655 - 80_105 / 2_096_937,
        "signal": 1.5, "heterogeneity": 0.2,
    },
}  # fmt: skip


@dataclass(frozen=True, repr=False, eq=False)
class SyntheticTrial(Trial):
    """A trial from a known population; ``effect`` holds the true effects.

    ``population`` has the rest: ``population.uplift(X)``, ``population.best_auuc`` and
    ``population.auuc(score)``, see :class:`~auucmax.data.synthetic.Population`.
    """

    population: Population = field(kw_only=True)


def make_trial(
    n_rows: int | None = None,
    *,
    preset: str | None = None,
    treatment_share: float | None = None,
    random_state: int | np.random.Generator | None = None,
    **population: Any,
) -> SyntheticTrial:
    """Make a randomised trial with known effects and known AUUC of any score.

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
    treatment_share : float, default 0.5
        Share of treated rows.
    random_state : int, Generator or None
        The same seed gives the same trial.
    n_features, n_noise : int, default 10 and 2
        Columns of X, and how many of them (the last ones) have no bearing on the outcome.
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
    if preset is not None:
        check_choice(preset, "preset", PRESETS)
    # All other defaults are those of the population.
    chosen = {"n_rows": 10_000, "treatment_share": 0.5} | PRESETS.get(preset or "", {}) | population
    given = {"n_rows": n_rows, "treatment_share": treatment_share}
    chosen |= {name: value for name, value in given.items() if value is not None}
    share = chosen.pop("treatment_share")
    n_rows = check_whole(chosen.pop("n_rows"), "n_rows", 2)
    check_level(share, "treatment_share")
    law = Population(**chosen)
    name = "synthetic trial" if preset is None else f"synthetic {preset}"
    rng = np.random.default_rng(random_state)
    return _draw(law, n_rows, round(share * n_rows), np.dtype("float32"), rng, name)


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
    control, treated = population.potential_means(X)
    mean = np.where(treatment == 1, treated, control)
    if population.outcome == "continuous":
        y = mean + rng.standard_normal(n_rows)
    else:
        y = (rng.random(n_rows) < mean).astype(np.float64)
    return SyntheticTrial(
        # The frame shares the array: a copy would double the memory of a large trial.
        X=pd.DataFrame(X, columns=list(population.feature_names), copy=False),
        y=y,
        treatment=treatment,
        effect=treated - control,
        name=name,
        arm_names=("control", "treated"),
        population=population,
    )
