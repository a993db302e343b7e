"""Populations of which the AUUC of a score is known: six to rounding, others by simulation.

In the six, features are independent standard normal numbers, x_0 the prognosis and x_1 the
responsiveness:

    P(y = 1 | x, control) = sigmoid(a_C + b x_0),
    P(y = 1 | x, treated) = sigmoid(a_T + b x_0 + h x_1).

A score is x.w with ||w|| = 1, or its quintile. Given (x_0, x_1) it is normal, so the expectation of
its rank G is a formula, and theta_g = E[Y G | arm g] an integral over the plane; AUUC = theta_T -
theta_C. The trapezoid rule is exact to rounding for such integrands (a step of .085 of a normal
density).
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr, ndtri
from sklearn.exceptions import ConvergenceWarning

from auucmax import AUUCMax
from auucmax.data import synthetic

Floats = NDArray[np.float64]

LEVELS = 5
_FIXED_WEIGHTS = np.array([0.3, 0.6, np.sqrt(1 - 0.3**2 - 0.6**2)])


class Population(NamedTuple):
    """Log-odds a of the arms, b and h as above; ``share`` of the rows are treated."""

    share: float
    control: float
    treated: float
    prognosis: float
    heterogeneity: float
    n_features: int = 3
    tied: bool = False
    fitted: bool = False

    def means(self, x0: Floats, x1: Floats) -> tuple[Floats, Floats]:
        """P(y = 1 | x) of control and treated."""
        shared = self.prognosis * x0
        return (
            expit(self.control + shared),
            expit(self.treated + shared + self.heterogeneity * x1),
        )

    def draw(
        self, weights: Floats, n_rows: int, rng: np.random.Generator
    ) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """y, score and treatment of a trial; the number of treated is fixed."""
        X, y, treated = self.draw_rows(n_rows, rng)
        score = X @ weights
        return y, np.floor(LEVELS * ndtr(score)) if self.tied else score, treated

    def draw_rows(
        self, n_rows: int, rng: np.random.Generator
    ) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """X, y and treatment of a trial."""
        X = rng.normal(size=(n_rows, self.n_features))
        treated = rng.permutation(n_rows) < round(self.share * n_rows)
        control_mean, treated_mean = self.means(X[:, 0], X[:, 1])
        y = rng.random(n_rows) < np.where(treated, treated_mean, control_mean)
        return X, y.astype(np.float64), treated

    def weights(self, n_rows: int, rng: np.random.Generator) -> Floats:
        """Fixed, or those of AUUCMax on a trial of its own with so many rows; of length 1."""
        if not self.fitted:
            return _FIXED_WEIGHTS
        X, y, treated = self.draw_rows(n_rows, rng)
        with warnings.catch_warnings():
            # Whether the solver got to the end does not matter: any score has its truth.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = AUUCMax(random_state=0).fit(X, y, treatment=treated)
        return np.asarray(model.coef_ / np.linalg.norm(model.coef_))

    def truth(self, weights: Floats) -> Truth:
        """What the score x.w has in the population."""
        z = np.linspace(-8.5, 8.5, 201)
        density = np.exp(-(z**2) / 2)
        density = np.outer(density, density) / density.sum() ** 2
        x0, x1 = z[:, None], z[None, :]
        mean = weights[0] * x0 + weights[1] * x1
        variance = 1 - weights[0] ** 2 - weights[1] ** 2
        if self.tied:
            cuts = ndtri(np.arange(1, LEVELS) / LEVELS)
            rank = 0.5 + sum(ndtr((mean - cut) / np.sqrt(variance)) for cut in cuts)
            rank = rank / LEVELS
        else:
            rank = ndtr(mean / np.sqrt(1 + variance))
        rates, areas = [], []
        for p in self.means(x0, x1):
            rates.append(float(np.sum(density * p)))
            areas.append(float(np.sum(density * p * rank)))
        return Truth(np.array(rates), np.array(areas))


class Truth(NamedTuple):
    """P(y = 1) and theta of control and treated (2,)."""

    rates: Floats
    areas: Floats

    def value(self, target: str) -> float:
        """AUUC, or the gain over random."""
        return self._difference(self.rates, self.areas, target)

    def conditional(self, target: str, y: Floats, treated: NDArray[np.bool_]) -> float:
        """The same with the AUC of the population and the rates of these rows."""
        auc = (self.areas - self.rates**2 / 2) / (self.rates * (1 - self.rates))
        p = np.array([y[~treated].mean(), y[treated].mean()])
        return self._difference(p, p * (1 - p) * auc + p**2 / 2, target)

    @staticmethod
    def _difference(rates: Floats, areas: Floats, target: str) -> float:
        centred = areas - rates / 2 if target == "gain" else areas
        return float(centred[1] - centred[0])


POPULATIONS = {
    "balanced": Population(0.5, -2.1, -1.75, 0.5, 0.3),
    "85% treated": Population(0.85, -1.2, -0.9, 0.5, 0.5, tied=True),
    "rare outcome": Population(0.85, -5.0, -4.6, 0.5, 0.5),
    "no effect": Population(0.5, 0.0, 0.0, 0.5, 0.0),
    "strong effect": Population(0.5, -1.5, 0.5, 0.5, 1.5),
    "many noise features": Population(0.5, -1.5, -1.2, 0.5, 0.6, n_features=200, fitted=True),
}


def auuc_with_error(population: synthetic.Population, score: Any) -> tuple[float, float]:
    """AUUC of a score in a population of ``make_trial``, with its simulation standard error.

    It is the covariance of effect and rank over a fixed sample of rows. Its error is reduced by
    that of the true effect as a score, whose AUUC is known.
    """
    tau, values = population.effects_and_scores(score)
    # A control variate: the AUUC of the true effect is known, so what this sample gets wrong of it
    # is taken off that of the score, as far as the two go together.
    covariance, influence = rank_covariance(tau, values)
    best, control = rank_covariance(tau, tau)
    # Plain sums: the threads of a BLAS dot cost more than the product, on a busy machine.
    spread = np.sum(control * control)
    slope = np.sum(influence * control) / spread if spread > 0 else 0.0
    error = np.std(influence - slope * control) / np.sqrt(len(tau))
    known = population.best_auuc - population.ate / 2
    return float(population.ate / 2 + covariance - slope * (best - known)), float(error)


def rank_covariance(tau: Floats, score: Floats) -> tuple[float, Floats]:
    """Sample Cov(tau, G(score)) with mid-distribution G, and its influence values.

    The covariance is a U-statistic of order two, so with tau centred its influence at row i is
    tau_i (G_i - 1/2) + mean(tau_j 1[score_j > score_i]) - 2 Cov, ties counted half.
    """
    centred = tau - np.mean(tau)
    level = np.unique(score, return_inverse=True)[1]
    size = np.bincount(level) / len(tau)
    total = np.bincount(level, centred) / len(tau)
    part = centred * ((np.cumsum(size) - size / 2)[level] - 0.5)
    covariance = float(np.mean(part))
    return covariance, part + (total / 2 - np.cumsum(total))[level] - 2 * covariance
