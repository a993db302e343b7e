"""Surrogate losses: smooth upper bounds or approximations of 1[z <= 0].

z is the score of the row that should rank higher (the winner) minus the score of the row that
should rank lower (the loser); a surrogate is a decreasing function s(z) >= 0. Each is a small
object: its value and three derivatives, vectorised, and the constants that bounds and solvers need.
A new one is a subclass of :class:`Surrogate`; nothing else in the package has to change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from auucmax._validation import Floats, check_positive


class Surrogate:
    """A decreasing function s(z) >= 0 with derivatives; hashable, for caching.

    Attributes
    ----------
    length : the scale of z on which s bends; bins are cut in proportion to it.
    convex : whether s is convex.
    knot : where s is glued together from two polynomials; None if s is analytic.
    n_derivatives : how many derivatives are continuous (a large number if all are).
    """

    convex: bool

    @property
    def length(self) -> float:
        raise NotImplementedError

    @property
    def knot(self) -> float | None:
        return None

    @property
    def n_derivatives(self) -> int:
        return 1000

    def derivative(self, z: ArrayLike, order: int = 1) -> Floats:
        """Derivative of order 0 (the value) to 3 at each z."""
        raise NotImplementedError

    def __call__(self, z: ArrayLike) -> Floats:
        return self.derivative(z, 0)


@dataclass(frozen=True)
class PolynomialSurrogate(Surrogate):
    """The paper's polynomial surrogate ``s_poly``, s(z) = (mu - z)^p 1[z < mu].

    Convex. It bounds the indicator 1[z <= 0] from above if and only if mu >= 1. The third
    derivative of p = 3 jumps at z = mu. The paper's experiments use mu = 0.1, p = 3.

    >>> s_poly(mu=1.0)([-1.0, 0.0, 0.5, 2.0])
    array([8.   , 1.   , 0.125, 0.   ])
    """

    mu: float = 0.1
    p: int = 3

    def __post_init__(self) -> None:
        check_positive(self.mu, "mu", "The paper uses 0.1.")
        if int(self.p) != self.p or not 1 <= self.p <= 10:
            raise ValueError(f"p should be an integer from 1 to 10, got {self.p!r}. Use 3.")

    convex = True

    @property
    def length(self) -> float:
        return self.mu

    @property
    def knot(self) -> float:
        return self.mu

    @property
    def n_derivatives(self) -> int:
        return self.p - 1

    def derivative(self, z: ArrayLike, order: int = 1) -> Floats:
        """(-1)^order p!/(p-order)! (mu - z)^(p-order) for z < mu, 0 from mu on."""
        gap = self.mu - np.asarray(z, dtype=np.float64)
        if order > self.p:
            return np.zeros_like(gap)
        factor = (-1) ** order * math.perm(self.p, order)
        return np.where(gap > 0, factor * np.maximum(gap, 0.0) ** (self.p - order), 0.0)


@dataclass(frozen=True)
class LogisticSurrogate(Surrogate):
    """The paper's logistic surrogate ``s_log``, s(z) = ln(1 + exp(-z)) / ln 2.

    Convex, Lipschitz with constant 1/ln 2, and above the indicator 1[z <= 0] since s(0) = 1.

    >>> s_log()([0.0, 700.0])[0]
    np.float64(1.0)
    """

    length = 1.0
    convex = True

    def derivative(self, z: ArrayLike, order: int = 1) -> Floats:
        """With q = 1/(1+exp(-z)): ln(1+exp(-z)), q-1, q(1-q), q(1-q)(1-2q), each over ln 2."""
        z = np.asarray(z, dtype=np.float64)
        if order == 0:
            return np.logaddexp(0.0, -z) / math.log(2)
        if order == 1:
            return -expit(-z) / math.log(2)
        bump = expit(z) * expit(-z) / math.log(2)
        return bump if order == 2 else -bump * np.tanh(z / 2)


@dataclass(frozen=True)
class SigmoidSurrogate(Surrogate):
    """``sigmoid``, s(z) = 1 / (1 + exp(z / tau)); the indicator itself as tau -> 0.

    Bounded by 1, not convex, and not above the indicator: s(0) = 1/2, the credit of a tied pair.

    >>> sigmoid(0.5)(0.0)
    array(0.5)
    """

    tau: float = 0.1

    def __post_init__(self) -> None:
        advice = "A tenth of the standard deviation of the scores is a start."
        check_positive(self.tau, "tau", advice)

    convex = False

    @property
    def length(self) -> float:
        return self.tau

    def derivative(self, z: ArrayLike, order: int = 1) -> Floats:
        """With a = s(1-s): s, -a/tau, a tanh(z/2tau)/tau^2, -a(1-6a)/tau^3."""
        u = np.asarray(z, dtype=np.float64) / self.tau
        if order == 0:
            return np.asarray(expit(-u))
        bump = expit(u) * expit(-u) / self.tau**order
        if order == 1:
            return -bump
        if order == 2:
            return bump * np.tanh(u / 2)
        return -bump * (1.0 - 6.0 * expit(u) * expit(-u))


def hinge(mu: float = 1.0) -> PolynomialSurrogate:
    """The hinge of SVM-DP, s(z) = max(0, mu - z): s_poly with p = 1.

    At the kink z = mu the derivative is taken as 0, so gradients are one of the subgradients.

    >>> hinge()([-1.0, 0.5, 2.0])
    array([2. , 0.5, 0. ])
    """
    return PolynomialSurrogate(mu, 1)


s_poly = PolynomialSurrogate
s_log = LogisticSurrogate
sigmoid = SigmoidSurrogate

_BY_NAME: dict[str, Any] = {"s_poly": s_poly, "s_log": s_log, "hinge": hinge, "sigmoid": sigmoid}


def get_surrogate(surrogate: str | Surrogate) -> Surrogate:
    """Get a surrogate by name; surrogate objects are returned unchanged.

    >>> get_surrogate("s_poly")
    PolynomialSurrogate(mu=0.1, p=3)
    """
    if isinstance(surrogate, Surrogate):
        return surrogate
    if surrogate not in _BY_NAME:
        raise ValueError(
            f"surrogate should be one of {', '.join(map(repr, _BY_NAME))} or a Surrogate object, "
            f"got {surrogate!r}. For other constants pass an object, such as s_poly(mu=1)."
        )
    made: Surrogate = _BY_NAME[surrogate]()
    return made
