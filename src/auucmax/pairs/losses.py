"""What a pair of rows costs: the gap of its outcomes times a surrogate of its score difference.

Surrogates are smooth upper bounds or approximations of 1[z <= 0]. z is the score of the row that
should rank higher (the winner) minus the score of the row that should rank lower (the loser); a
surrogate is a decreasing function s(z) >= 0. Each is a small object: its value and three
derivatives, vectorised, and the constants that bounds and solvers need. A new one is a subclass of
:class:`Surrogate`; nothing else in the package has to change.

Outcome levels approximate pairs of real outcomes by a few classes. AUUC is a sum over the pairs of
an arm in which each pair counts the difference of its outcomes, (y_i - y_j)+. Cut into L levels, an
arm has L classes, and

    (v_a - v_b)+ = sum over the thresholds t between levels of (v_t+1 - v_t) 1[a > t >= b],

so pairs of any outcome are L - 1 problems of winners and losers on the same summaries. Outcomes
of 0 and 1 have one threshold: four classes in both arms, and each pair counts 1.

Few different outcomes (0/1, counts) have a level each, and nothing is lost. With more, 0 has a
level by itself and the others are cut at quantiles, with at least ``MIN_ROWS`` rows of an arm in a
level, or none of it (of an arm of less than four times as many, a quarter). The value of a level is
the mean of its rows in the arm, so that an arm's total stays what it is. One order of 5,000 then
counts as the mean of the largest twenty or more: the ranking does not hang on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from auucmax._validation import Bools, Floats, check_outcome, check_positive
from auucmax.rows import Batch, Rows, Sample


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


MAX_LEVELS = 32  #: of an outcome; codes of two arms stay below 64, and the cost grows with them
MIN_ROWS = 20  #: of an arm, in a level of several outcomes that holds some of it
SAMPLE_ROWS = 2**15  #: of each arm, of an outcome other than 0: quantiles are theirs


@dataclass(frozen=True, eq=False)
class OutcomeLevels:
    """Outcomes cut into L levels, which with the arm give 2 L classes.

    Attributes
    ----------
    starts : (L,), the smallest outcome of each level, from the lowest level up.
    values : (2, L), what a level counts in the treated and in the control arm.
    exact : whether all outcomes of a level are equal.
    share : how much of the sum of all pairs' differences lies between levels, at least. What lies
        within a level is not ranked. The rest is bounded by Gini's mean difference: n rows with
        standard deviation sigma have a sum over pairs of at most n^2 sigma / sqrt(3).
    middle : the level from which on outcomes are "high", where rows are counted in two heaps: the
        number of rows in the smallest heap of an arm is as large as it can be. Of 0/1 it is 1.

    Examples
    --------
    >>> from auucmax.rows import ArrayRows
    >>> y, treated = np.array([0.0, 2.0, 5.0, 0.0, 2.0, 0.0]), np.arange(6) < 3
    >>> levels = OutcomeLevels.of(ArrayRows(y[:, None], y, treated))
    >>> levels.codes(y, treated)
    array([2, 1, 0, 3, 4, 3], dtype=int8)
    >>> levels.gaps[:3, :3]  # a treated 5 over a treated 2, over a treated 0, ...
    array([[0., 3., 5.],
           [0., 0., 2.],
           [0., 0., 0.]])
    """

    starts: Floats
    values: Floats
    exact: bool = True
    share: float = 1.0
    middle: int = 1

    @classmethod
    def of(cls, rows: Rows) -> OutcomeLevels:
        """Compute levels in one pass for 0/1 outcomes, else in two or three."""
        (few,) = rows.total(few_values)
        levels = cls.cut(rows, few)
        if levels.binary:
            return levels
        (sums,) = rows.total(partial(outcome_sums, levels=levels))
        return levels.valued(sums)

    @classmethod
    def cut(cls, rows: Rows, few: FewValues) -> OutcomeLevels:
        """Choose level boundaries from the distinct outcomes, without the values of the levels."""
        if few.binary:
            return BINARY
        if few.values is None:
            sizes, treated, control = rows.total(
                _arm_sizes, partial(_sample, arm=True), partial(_sample, arm=False)
            )
            # A quarter of a small arm, so that it keeps pairs to rank.
            fewest = np.clip(sizes // 4, 1, MIN_ROWS)
            starts = _quantile_starts(treated.values, control.values, fewest)
            return cls(starts, np.stack([starts, starts]), exact=False)
        if len(few.values) < 2:
            raise ValueError(
                f"y should have two levels, got {few.values[0]:g} in all rows. There is nothing "
                f"to learn."
            )
        return cls(few.values, np.stack([few.values, few.values]))

    def valued(self, sums: Floats) -> OutcomeLevels:
        """Set the mean of each level from ``outcome_sums``."""
        # From classes to levels: those of the treated go down.
        arms = sums.reshape(2, -1, 3)
        arms = np.stack([arms[0, ::-1], arms[1]])
        rows, total, squares = np.moveaxis(arms, 2, 0)
        filled = np.where(rows > 0, rows, 1.0)
        mean = total / filled
        values = np.maximum.accumulate(self.starts + mean, axis=1)
        spread = np.sqrt(np.maximum(squares / filled - mean**2, 0.0))
        if self.exact:
            values, spread = self.values, np.zeros_like(spread)
        # The level that splits rows so that the smallest of four heaps is as large as possible.
        high = rows[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
        smallest = np.minimum(high, rows.sum(axis=1, keepdims=True) - high).min(axis=0)
        made = replace(self, values=values, middle=1 + int(np.argmax(smallest)))
        size = rows.sum(axis=1)
        size = np.where(size > 0, size, 1.0) ** 2  # some rows may be of one arm
        between = (pair_sums(sums[:, 0], made.gaps) / size).sum()
        within = ((rows**2 * spread).sum(axis=1) / size).sum() / np.sqrt(3)
        share = float(between / (between + within)) if between > 0 else 1.0
        return replace(made, share=share)

    @property
    def n_classes(self) -> int:
        return 2 * len(self.starts)

    @property
    def binary(self) -> bool:
        """Whether the outcomes are 0 and 1."""
        return self.exact and np.array_equal(self.starts, (0.0, 1.0))

    @property
    def cut_point(self) -> float:
        """Smallest outcome that counts as high; see ``middle``."""
        return float(self.starts[self.middle])

    @cached_property
    def gaps(self) -> Floats:
        """Gap of a pair of classes (2 L, 2 L), where the first should win; else 0."""
        n = len(self.starts)
        up = self.values[:, None, :] - self.values[:, :, None]  # [arm, lower, higher]
        gaps = np.zeros((2 * n, 2 * n))
        gaps[:n, :n] = np.triu(up[0].T[::-1, ::-1], 1)
        gaps[n:, n:] = np.triu(up[1], 1)
        return gaps

    def codes(self, y: Floats, treated: Bools) -> NDArray[np.int8]:
        """Class of each row: treated from the highest level down, control from the lowest up.

        Within an arm, rows of a class should rank above those of the classes that follow.
        """
        if self.binary:
            codes = y.astype(np.int8)
        else:
            codes = np.searchsorted(self.starts, y, side="right").astype(np.int8)
            codes = np.maximum(codes, 1) - np.int8(1)
        n = len(self.starts)
        return np.where(treated, np.int8(n - 1) - codes, np.int8(n) + codes)

    def high_counts(self, totals: Floats) -> Floats:
        """Total weights of high and low outcomes, of treated and then control rows."""
        n, high = len(self.starts), len(self.starts) - self.middle
        edges = (0, high, n, n + self.middle)
        a, b, d, c = np.add.reduceat(totals, edges)
        return np.array([a, b, c, d])


def pair_sums(totals: Floats, gaps: Floats) -> Floats:
    """Sum of the gaps of all pairs of each arm, (2,): their number if gaps are 1."""
    n = len(totals) // 2
    return np.array([totals[g] @ gaps[g, g] @ totals[g] for g in (slice(0, n), slice(n, None))])


#: Outcomes 0 and 1, whether or not both are there.
BINARY = OutcomeLevels(np.array([0.0, 1.0]), np.array([[0.0, 1.0], [0.0, 1.0]]))


@dataclass(frozen=True, eq=False)
class FewValues:
    """Sorted distinct outcomes; None if there are too many."""

    values: Floats | None

    @property
    def binary(self) -> bool:
        return self.values is not None and bool(np.isin(self.values, (0.0, 1.0)).all())

    def __add__(self, other: FewValues) -> FewValues:
        if self.values is None or other.values is None:
            return FewValues(None)
        return _at_most(np.union1d(self.values, other.values))


def few_values(batch: Batch) -> FewValues:
    """Batch summary: distinct outcomes, if they are few."""
    y = np.asarray(batch.y, dtype=np.float64)
    if len(y) and np.array_equal(y, y.astype(bool)):
        return FewValues(np.unique([y.min(), y.max()]))
    check_outcome(np.append(y, 0.0))  # with 0, differences within a batch do not matter
    if len(np.unique(y[:4096])) > MAX_LEVELS:  # spare the sort of all
        return FewValues(None)
    return _at_most(np.unique(y))


def _at_most(values: Floats) -> FewValues:
    return FewValues(values if len(values) <= MAX_LEVELS else None)


def outcome_sums(batch: Batch, levels: OutcomeLevels) -> Floats:
    """Batch summary: weight, and sums of y - start and its square, by class."""
    y = np.asarray(batch.y, dtype=np.float64)
    codes = levels.codes(y, batch.treated)
    start = np.concatenate([levels.starts[::-1], levels.starts])
    weight = np.ones(len(y)) if batch.weight is None else batch.weight
    above = y - start[codes]
    terms = (weight, weight * above, weight * above**2)
    return np.stack([np.bincount(codes, term, levels.n_classes) for term in terms], axis=1)


def _sample(batch: Batch, arm: bool) -> Sample:
    """Batch summary: a sample of an arm's non-zero outcomes, independent of batching."""
    kept = (batch.treated == arm) & (batch.y != 0)
    y = np.asarray(batch.y[kept], dtype=np.float64)
    return Sample.of(y, batch.keys[kept], SAMPLE_ROWS)


def _arm_sizes(batch: Batch) -> NDArray[np.int64]:
    """Batch summary: numbers of treated and control rows."""
    n_treated = np.count_nonzero(batch.treated)
    return np.array([n_treated, len(batch.treated) - n_treated])


def _quantile_starts(treated: Floats, control: Floats, fewest: NDArray[np.int64]) -> Floats:
    """Level boundaries: negative quantiles, 0, and positive quantiles.

    ``fewest`` (2,) rows of each arm are in a level, or none.
    """
    y = np.concatenate([treated, control])
    arm = np.repeat([0, 1], [len(treated), len(control)])
    order = np.argsort(y, kind="stable")
    y, arm = y[order], arm[order]
    zero, most = int(np.searchsorted(y, 0.0)), MAX_LEVELS - 1
    n_below = int(np.clip(round(most * zero / len(y)), min(zero, 1), most - min(len(y) - zero, 1)))
    starts = [np.zeros(1)]
    if zero:
        starts.insert(0, _side(y[:zero], arm[:zero], n_below, fewest, inwards=1))
    if zero < len(y):
        above = _side(y[zero:], arm[zero:], most - n_below, fewest, inwards=-1)
        above[0] = np.nextafter(0.0, 1.0)  # rows that are not in the sample may lie below it
        starts.append(above)
    return np.concatenate(starts)


def _side(
    y: Floats, arm: NDArray[np.int64], n_levels: int, fewest: NDArray[np.int64], inwards: int
) -> Floats:
    """Boundaries of at most ``n_levels`` levels for sorted outcomes of one sign.

    Quantiles, to which both arms contribute as much, are joined from the far end inwards until a
    level has enough rows of each arm that is in it. ``inwards`` is 1 if that is upwards, as of
    negative outcomes, else -1.
    """
    share = 1 / np.bincount(arm, minlength=2)[arm]
    below, wanted = share.cumsum() - share, np.arange(n_levels) * share.sum() / n_levels
    # A little less than wanted: rounding should not move a quantile to the next row.
    places = np.searchsorted(below, wanted - 1e-9 * share.sum())
    starts = np.unique(y[np.minimum(places, len(y) - 1)])
    place = np.searchsorted(starts, y, side="right") - 1
    counts = np.bincount(2 * place + arm, minlength=2 * len(starts)).reshape(-1, 2)[::inwards]

    def enough(first: int, end: int) -> bool:
        held = counts[first:end].sum(axis=0)
        return bool(((held >= fewest) | (held == 0)).all())

    ends = [0]
    for end in range(1, len(starts) + 1):
        if enough(ends[-1], end):
            ends.append(end)
    # What is left over next to 0 goes to the levels before it.
    ends = [0, *(end for end in ends[1:-1] if enough(end, len(starts))), len(starts)]
    if inwards == 1:
        return starts[ends[:-1]]
    return starts[len(starts) - np.array(ends[:0:-1])]
