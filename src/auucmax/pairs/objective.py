"""The AUUC-max objective of any scores, and the choice of bins.

    objective = weight_T mean over treated pairs of s(z) + weight_C mean over control pairs of s(z),

z the score of the row that should rank higher minus that of the other (the paper's AUUC-max
problem without its constant C_delta). In the treated arm the higher outcome should rank higher, in
the control arm the lower one, and a pair counts the difference of its outcomes: 1, if they are 0
and 1. An objective is independent of solvers and cheap to call repeatedly: a call is one or two
passes over the rows. That of a linear score is in ``linear.py``.

:func:`group_weights` says how much treated and control pairs count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from auucmax._validation import Floats, check_column, check_treatment, check_weight
from auucmax.pairs import passes
from auucmax.pairs.exact import sorted_pair_sums
from auucmax.pairs.losses import (
    BINARY,
    OutcomeLevels,
    PolynomialSurrogate,
    Surrogate,
    get_surrogate,
    pair_sums,
)
from auucmax.pairs.passes import Bins, PairRows
from auucmax.pairs.summary import PairField, PairSummary, bins_per_length
from auucmax.rows import ArrayRows


def group_weights(
    weights: str | tuple[float, float], totals: Floats, gaps: Floats = BINARY.gaps
) -> tuple[float, float]:
    """Weights of the mean pair loss in the treated and the control arm.

    With n_g the rows of arm g (or their weight) and lam_g the sum of (y_i - y_j)+ over its ordered
    pairs, by n_g^2, which for 0/1 outcomes at a rate of p_g is p_g (1 - p_g):

    =============  =====================  ==========================================================
    ``weights``    weight of arm g        the 0/1 objective is, up to constants and sign,
    =============  =====================  ==========================================================
    ``"lambda"``   lam_g                  AUUC, arms ranked apart (Proposition 1 and Theorem 1)
    ``"absolute"`` n_g lam_g              the lift in numbers of responders, or in money, treated
                                          minus control (Kuusisto et al., SVM-DP); differs if arms
                                          differ in size
    ``"uniform"``  1                      AUC of the treated plus flipped AUC of the controls (the
                                          paper's optimisation box, which leaves lam_g out)
    ``(a, b)``     a, b                   what you say
    =============  =====================  ==========================================================

    ``totals`` is the weight of the classes, of 0/1 outcomes as coded by ``code_rows``, and
    ``gaps`` what their pairs count: :attr:`OutcomeLevels.gaps`. An arm without pairs is an error,
    unless the weights are numbers and its own is 0.

    >>> group_weights("lambda", np.array([20.0, 80.0, 90.0, 10.0]))  # rates .2 and .1
    (0.16, 0.09)
    """
    size = totals.reshape(2, -1).sum(axis=1)
    pairs = pair_sums(totals, gaps)
    lam = pairs / np.maximum(size, 1e-300) ** 2
    known = {"lambda": lam, "absolute": size * lam, "uniform": np.ones(2)}
    if isinstance(weights, str) and weights in known:
        chosen = known[weights]
        needed = np.ones(2)
    elif (
        not isinstance(weights, str)
        and np.shape(weights) == (2,)
        and np.isfinite(weights).all()
        and min(weights) >= 0 < max(weights)
    ):
        chosen = needed = np.array(weights)
    else:
        raise ValueError(
            f"weights should be 'lambda', 'absolute', 'uniform' or two numbers (treated, control) "
            f"that are not negative and not both 0, got {weights!r}. 'lambda' is the weighting of "
            f"AUUC."
        )
    for arm, weight, own in zip(("treated", "control"), needed, pairs, strict=True):
        if weight > 0 and not own > 0:
            outcomes = "both outcomes" if gaps is BINARY.gaps else "different outcomes"
            raise ValueError(
                f"each arm should have {outcomes}, got one in all {arm} rows: there is no pair to "
                f"rank. Collect more rows, or take another outcome."
            )
    return float(chosen[0]), float(chosen[1])


SORTED_ROWS = 20_000  #: up to which s_poly is summed by sorting, if outcomes have many levels
_FIRST_BINS = 1024  # where the search for the number of bins starts, for a surrogate with a knot


class TooManyBinsError(ValueError):
    """The scores are spread too widely for the surrogate's length."""


class RowDerivatives(NamedTuple):
    """Objective, with first and second derivatives in each score, (n,)."""

    value: float
    gradient: Floats
    curvature: Floats


class Pairs:
    """The part of the objective that does not depend on scores: labels and bins."""

    def __init__(
        self,
        totals: Floats,
        n_rows: int,
        *,
        levels: OutcomeLevels = BINARY,
        surrogate: str | Surrogate = "s_poly",
        weights: str | tuple[float, float] = "lambda",
        accuracy: float = 1e-8,
        max_bins: int = 32_768,
        few_bins: int = _FIRST_BINS,
        level: int = 0,
    ) -> None:
        self.surrogate = get_surrogate(surrogate)
        self.accuracy, self.max_bins = accuracy, max_bins
        self.totals, self.n_rows, self.levels = totals, n_rows, levels
        self.weights = group_weights(weights, self.totals, levels.gaps)
        # From a sum over pairs to a weighted mean. An arm of weight 0 may have no pairs.
        pairs = np.maximum(pair_sums(totals, levels.gaps), 1e-300)
        self.multipliers = float(self.weights[0] / pairs[0]), float(self.weights[1] / pairs[1])
        self.few_bins, self.level = few_bins, level

    def _widths(self, span: tuple[float, float]) -> Iterator[tuple[float, int]]:
        """Bin widths to try, coarse to fine, and the maximum number of bins.

        Without a knot there is one, and it is accurate. With one they are few against the rows, and
        the search begins where the last one ended: neighbouring points need similar bins. There is
        none for a kink in s or s' (hinge, s_poly with p = 2).
        """
        if self.surrogate.knot is None:
            per_length = bins_per_length(self.surrogate, self.accuracy)
            yield self.surrogate.length / per_length, self.max_bins
        elif self.surrogate.n_derivatives >= 2:
            most = min(self.max_bins, max(self.few_bins, self.n_rows // 16))
            while True:
                yield self._dividing_width(span, _FIRST_BINS * 4**self.level), most
                if _FIRST_BINS * 4 ** (self.level + 1) > most:
                    return
                self.level += 1

    def _bins(self, span: tuple[float, float]) -> Iterator[Bins]:
        """Bins to try, coarse to fine."""
        for width, most in self._widths(span):
            bins = Bins.covering(*span, width)
            if self.surrogate.knot is None:
                yield self._at_most(bins)
            elif bins.size <= most:
                yield bins

    def _field_of(self, summary: PairSummary) -> PairField:
        return PairField(summary, self.surrogate, self.multipliers, self.levels.gaps)

    def _dividing_width(self, span: tuple[float, float], target: int) -> float:
        """Surrogate length over a power of two, for at most ``target`` bins if possible.

        A width that divides the knot leaves one diagonal of bin pairs that sees it.
        """
        length, spread = self.surrogate.length, span[1] - span[0]
        if spread < length:  # no pair reaches the knot: a polynomial, exact in any bins
            return length / 16
        return length / 2 ** int(np.log2(max((target - 4) * length / spread, 1.0)))

    def _is_accurate(self, field: PairField) -> bool:
        if self.surrogate.knot is None:  # bins were cut for it
            return True
        radius = field.bins.size * field.bins.width
        pairs = np.dot(self.multipliers, pair_sums(self.totals, self.levels.gaps))
        return bool(
            field.error_bound(1) <= self.accuracy * field.largest(1)
            and field.error_bound(0) <= self.accuracy * pairs * float(self.surrogate(-radius))
        )

    def _at_most(self, bins: Bins) -> Bins:
        if bins.size > self.max_bins:
            raise TooManyBinsError(
                f"scores should span at most {self.max_bins} bins, got {bins.size}: they run over "
                f"{bins.size * bins.width / self.surrogate.length:.3g} lengths of "
                f"{self.surrogate}. Scale the features down, take a larger length, or raise "
                f"max_bins."
            )
        return bins


class ArrayPairs(Pairs):
    """Objective of rows in memory."""

    def __init__(
        self,
        y: ArrayLike,
        *,
        treatment: ArrayLike,
        control: Any = None,
        sample_weight: ArrayLike | None = None,
        levels: OutcomeLevels | None = None,
        **options: Any,
    ) -> None:
        y = check_column(y, "y")
        treated = check_treatment(treatment, len(y), control=control)
        self.sample_weight = None if sample_weight is None else check_weight(sample_weight, treated)
        if levels is None:
            levels = OutcomeLevels.of(ArrayRows(y[:, None], y, treated, self.sample_weight))
        self.codes = levels.codes(y, treated)
        if self.sample_weight is None:  # bincount would make a copy of eight bytes a row
            each = range(levels.n_classes)
            totals = np.array([np.count_nonzero(self.codes == code) for code in each], float)
        else:
            totals = np.bincount(self.codes, self.sample_weight, minlength=levels.n_classes)
        super().__init__(totals, len(self.codes), levels=levels, **options)

    def _widths(self, span: tuple[float, float]) -> Iterator[tuple[float, int]]:
        # Convolutions of many levels take longer than sorting few rows does.
        few = self.n_rows <= SORTED_ROWS and len(self.levels.starts) > 2
        if not (few and isinstance(self.surrogate, PolynomialSurrogate)):
            yield from super()._widths(span)

    def _sorted(self, score: Floats) -> tuple[float, Floats, Floats]:
        if not isinstance(self.surrogate, PolynomialSurrogate):
            raise ValueError(
                f"a surrogate with a knot should be s_poly or hinge to be summed exactly, got "
                f"{self.surrogate}, and bins do not reach the accuracy {self.accuracy:g}. "
                f"Ask for less accuracy."
            )
        losses, gradient, curvature = sorted_pair_sums(
            score,
            self.codes,
            self.surrogate,
            self.sample_weight,
            self.multipliers,
            self.levels.gaps,
        )
        return float(np.dot(self.multipliers, losses)), gradient, curvature


class ScoreObjective(ArrayPairs):
    """Objective as a function of n scores, with two derivatives per row.

    For learners that move scores themselves: boosting takes (gradient, curvature), a network
    passes the gradient on. Parameters as in :class:`PairObjective`, without X.

    Examples
    --------
    >>> objective = ScoreObjective([1, 0, 0, 1], treatment=[1, 1, 0, 0], surrogate="s_log",
    ...                            weights="uniform")
    >>> round(objective.derivatives([0.0, 0.0, 0.0, 0.0]).value, 8)  # s(0) + s(0)
    2.0
    """

    def derivatives(self, score: ArrayLike) -> RowDerivatives:
        """Value, and first and second derivatives in each score.

        The second derivatives are the diagonal of the Hessian; they are not negative if the
        surrogate is convex. The gradient is right to ``accuracy`` times its largest entry, the
        curvature to 1e-4 times its largest entry.
        """
        score = check_column(score, "score", len(self.codes))
        one, n_classes = np.ones(1), self.levels.n_classes
        rows = PairRows(score[:, None], self.codes, self.sample_weight, n_classes)
        span = float(score.min()), float(score.max())
        fields = (self._field_of(PairSummary.from_rows(rows, one, b)) for b in self._bins(span))
        field = next(filter(self._is_accurate, fields), None)
        if field is None or (
            self.surrogate.knot is not None and field.error_bound(2) > 1e-4 * field.largest(2)
        ):
            return RowDerivatives(*self._sorted(score))
        first, second = (
            passes.row_values(rows, one, field.bins, field.coefficients(order)) for order in (1, 2)
        )
        return RowDerivatives(field.value, first, second)
