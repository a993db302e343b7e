"""The AUUC-max objective of a linear score, or of any scores: what solvers and learners call.

    objective = weight_T mean over treated pairs of s(z) + weight_C mean over control pairs of s(z),

z the score of the row that should rank higher minus that of the other (the paper's AUUC-max
problem without its constant C_delta). An objective knows nothing of solvers and is cheap to call
again and again: a call is one or two passes over the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from auucmax._validation import check_column, check_weight
from auucmax.pairs import passes
from auucmax.pairs.field import PairField
from auucmax.pairs.passes import Bins, PairRows
from auucmax.pairs.polynomial import PolynomialPairs
from auucmax.pairs.sorted import sorted_pair_sums
from auucmax.pairs.summary import PairSummary, box_range, code_rows
from auucmax.pairs.surrogates import PolynomialSurrogate, Surrogate, get_surrogate
from auucmax.pairs.table import bins_per_length
from auucmax.pairs.weights import group_weights, pair_multipliers

__all__ = ["PairObjective", "RowDerivatives", "ScoreObjective", "TooManyBinsError"]

Floats = NDArray[np.float64]

HESSIAN_DEGREE = 3  #: of the polynomials in the Hessian; its error is about 1e-5 of its size
_FIRST_BINS = 1024  # where the search for the number of bins starts, for a surrogate with a knot
_HESSIAN_BINS = 256  # for a surrogate with a knot


class TooManyBinsError(ValueError):
    """Scores that are spread too widely for the surrogate's length."""


class RowDerivatives(NamedTuple):
    """Objective, and its first and second derivative in each row's score, (n,) each."""

    value: float
    gradient: Floats
    curvature: Floats


class _ScoreRange:
    """Bounds on the scores; the exact range is found only when the bounds ask for too many bins."""

    def __init__(
        self, low: float, high: float, exact: Callable[[], tuple[float, float]] | None = None
    ) -> None:
        self.low, self.high, self._exact = low, high, exact

    def bins(self, width: float, most: int) -> Bins:
        """Bins of this width that hold every score."""
        bins = Bins.covering(self.low, self.high, width)
        if bins.size > most and self._exact is not None:
            self.low, self.high = self._exact()
            self._exact = None
            bins = Bins.covering(self.low, self.high, width)
        return bins


class _Pairs:
    """The labels' side of an objective, and the choice of bins; the scores come later."""

    def __init__(
        self,
        y: ArrayLike,
        *,
        treatment: ArrayLike,
        control: Any = None,
        surrogate: str | Surrogate = "s_poly",
        weights: str | tuple[float, float] = "lambda",
        sample_weight: ArrayLike | None = None,
        accuracy: float = 1e-8,
        max_bins: int = 32_768,
    ) -> None:
        self.surrogate = get_surrogate(surrogate)
        self.codes = code_rows(y, treatment=treatment, control=control)
        treated = self.codes < 2
        self.sample_weight = None if sample_weight is None else check_weight(sample_weight, treated)
        self.accuracy, self.max_bins = accuracy, max_bins
        self.totals = np.bincount(self.codes, self.sample_weight, minlength=4).astype(np.float64)
        self.weights = group_weights(weights, self.totals)
        self.multipliers = pair_multipliers(self.weights, self.totals)
        self._level = 0

    def _field(self, rows: PairRows, w: Floats, span: _ScoreRange) -> PairField | None:
        """The field of the scores X w, or None if only sorting is accurate enough."""
        if self.surrogate.knot is None:
            width = self.surrogate.length / bins_per_length(self.surrogate, self.accuracy)
            return self._field_of_width(rows, w, self._at_most(span.bins(width, self.max_bins)))
        if self.surrogate.n_derivatives < 2:  # hinge, s_poly with p = 2: a kink in s or s'
            return None
        for bins in self._finer_and_finer(span):
            field = self._field_of_width(rows, w, bins)
            if self._is_accurate(field):
                return field
        return None

    def _field_of_width(self, rows: PairRows, w: Floats, bins: Bins) -> PairField:
        summary = PairSummary.from_rows(rows, w, bins)
        return PairField(summary, self.surrogate, self.multipliers)

    def _finer_and_finer(self, span: _ScoreRange) -> Iterator[Bins]:
        """Bins to try, coarse to fine, while they are few against the rows.

        The search begins where the last one ended: neighbouring points need similar bins.
        """
        most = min(self.max_bins, max(_FIRST_BINS, len(self.codes) // 16))
        while True:
            bins = span.bins(self._dividing_width(span, _FIRST_BINS * 4**self._level), most)
            if bins.size <= most:
                yield bins
            if _FIRST_BINS * 4 ** (self._level + 1) > most:
                return
            self._level += 1

    def _dividing_width(self, span: _ScoreRange, target: int) -> float:
        """The surrogate's length over a power of two, for at most ``target`` bins if it can be.

        A width that divides the knot leaves one diagonal of bin pairs that sees it.
        """
        length, spread = self.surrogate.length, span.high - span.low
        if spread < length:  # no pair reaches the knot: a polynomial, exact in any bins
            return length / 16
        return length / 2 ** int(np.log2(max((target - 4) * length / spread, 1.0)))

    def _is_accurate(self, field: PairField) -> bool:
        radius = field.bins.size * field.bins.width
        pairs = np.dot(self.multipliers, self.totals[::2] * self.totals[1::2])
        return bool(
            field.error_bound(1) <= self.accuracy * field.largest(1)
            and field.error_bound(0) <= self.accuracy * pairs * self.surrogate.max_value(radius)
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

    def _sorted(self, score: Floats) -> tuple[float, Floats, Floats]:
        if not isinstance(self.surrogate, PolynomialSurrogate):
            raise ValueError(
                f"a surrogate with a knot should be s_poly or hinge to be summed exactly, got "
                f"{self.surrogate}, and bins do not reach the accuracy {self.accuracy:g}. "
                f"Ask for less accuracy."
            )
        losses, gradient, curvature = sorted_pair_sums(
            score, self.codes, self.surrogate, self.sample_weight, self.multipliers
        )
        return float(np.dot(self.multipliers, losses)), gradient, curvature


class ScoreObjective(_Pairs):
    """The objective as a function of the n scores, with two derivatives a row.

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
        """Value, and first and second derivative in each row's score.

        The second derivatives are the diagonal of the Hessian; they are not negative if the
        surrogate is convex. The gradient is right to ``accuracy`` times its largest entry, the
        curvature to 1e-4 times its largest entry.
        """
        score = check_column(score, "score", len(self.codes))
        rows, one = PairRows.of_scores(score, self.codes, self.sample_weight), np.ones(1)
        field = self._field(rows, one, _ScoreRange(float(score.min()), float(score.max())))
        if field is None or (
            self.surrogate.knot is not None and field.error_bound(2) > 1e-4 * field.largest(2)
        ):
            return RowDerivatives(*self._sorted(score))
        first, second = (
            passes.row_values(rows, one, field.bins, field.coefficients(order)) for order in (1, 2)
        )
        return RowDerivatives(field.value, first, second)


class PairObjective(_Pairs):
    """The objective of a linear score x.w, as a function of w.

    Parameters
    ----------
    X : (n, d) array. float32 and float64 of any memory order are used in place from 200,000 rows
        on; s_poly on fewer rows keeps a float64 copy with the rows of a class together.
    y, treatment : 0/1 a row; ``control`` names the control label if treatment holds labels.
    surrogate : name or object; "s_poly" is the paper's, mu = 0.1, p = 3.
    weights : "lambda", "absolute", "uniform" or two numbers, see :func:`group_weights`.
    sample_weight : weight of each row; a pair weighs the product.
    accuracy : the value's error is at most this times the largest possible value, that of a row's
        slope at most this times the largest slope. Bins are chosen accordingly; s_poly falls back
        on sorting (exact, about ten times slower) when no number of bins will do.
    max_bins : a surrogate without a knot raises an error if the scores need more bins than this.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    >>> objective = PairObjective(X, [1, 0, 0, 1], treatment=[1, 1, 0, 0], surrogate="s_log")
    >>> value, gradient = objective.value_and_gradient(np.zeros(2))
    >>> round(value, 8)  # a constant score pays s(0) = 1 a pair: lambda_T + lambda_C
    0.5
    >>> objective.hessian(np.zeros(2)).shape
    (2, 2)
    """

    def __init__(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        treatment: ArrayLike,
        sample_weight: ArrayLike | None = None,
        **options: Any,
    ) -> None:
        matrix = _check_matrix(X, len(np.asarray(y)))
        if sample_weight is not None:
            weight = check_column(sample_weight, "sample_weight", len(matrix))
            if not weight.all():  # rows of weight 0 are no rows
                kept = weight != 0
                matrix, sample_weight = matrix[kept], weight[kept]
                y, treatment = np.asarray(y)[kept], np.asarray(treatment)[kept]
        super().__init__(y, treatment=treatment, sample_weight=sample_weight, **options)
        self.rows = PairRows(matrix, self.codes, self.sample_weight)
        self.low, self.high = _column_range(matrix)
        self._kept: dict[str, tuple[Floats, PairField | None]] = {}
        self._last_scores: tuple[Floats, Floats] | None = None
        self._polynomial: PolynomialPairs | None = None
        if (
            isinstance(self.surrogate, PolynomialSurrogate)
            and self.surrogate.p >= 2
            and len(self.codes) < passes.COMPILE_ROWS
        ):
            self._polynomial = PolynomialPairs(self.rows, self.surrogate, self.multipliers)

    @property
    def n_features(self) -> int:
        return int(self.rows.X.shape[1])

    def value(self, w: ArrayLike) -> float:
        """The objective at w; one pass over X."""
        w = self._check_w(w)
        if (exact := self._as_polynomial(w)) is not None:
            return exact[0].value_and_gradient(exact[1])[0]
        field = self._at(w)
        return self._sorted(self.scores(w))[0] if field is None else field.value

    def value_and_gradient(self, w: ArrayLike) -> tuple[float, Floats]:
        """Objective and its gradient (d,) at w; two passes over X."""
        w = self._check_w(w)
        if (exact := self._as_polynomial(w)) is not None:
            return exact[0].value_and_gradient(exact[1])
        field = self._at(w)
        if field is None:
            value, slopes, _ = self._sorted(self.scores(w))
            return value, passes.transposed_product(self.rows.X, slopes)
        gradient = passes.weighted_sum(self.rows, w, field.bins, field.coefficients(1))
        return field.value, gradient

    def hessian(self, w: ArrayLike) -> Floats:
        """Hessian (d, d) at w, for steps rather than for statements; two passes beyond those of w.

        Right to about 1e-5 of its size, less where scores lie exactly a knot apart (s'' of s_poly
        bends there) or where a saturated sigmoid leaves little to sum.

        sum over pairs of s''(z_ij) (x_i - x_j)(x_i - x_j)', with the same polynomial for s'' in
        all its parts: a direction in which all rows agree (one-hot blocks) is null to rounding.
        """
        w = self._check_w(w)
        if (exact := self._as_polynomial(w)) is not None:
            return exact[0].hessian(exact[1])
        field = self._hessian_field(w)
        bend = field.coefficients(2, HESSIAN_DEGREE)
        vectors = passes.vector_moments(self.rows, w, field.bins, HESSIAN_DEGREE)
        cross = field.cross(vectors[..., :-1])
        return passes.weighted_gram(self.rows, w, field.bins, bend) - (cross + cross.T)

    def value_gradient_hessian(self, w: ArrayLike) -> tuple[float, Floats, Floats]:
        """Objective, gradient (d,) and Hessian (d, d) at w; what a Newton step needs."""
        return *self.value_and_gradient(w), self.hessian(w)

    def hessian_vector(self, w: ArrayLike, v: ArrayLike) -> Floats:
        """Hessian at w times v, (d,), without the matrix; two passes over X."""
        w, v = self._check_w(w), self._check_w(v, "v")
        field = self._hessian_field(w)
        coupled = field.coupled_coefficients(passes.moments(self.rows, w, field.bins, v)[1])
        bend = field.coefficients(2)
        return passes.weighted_sum(self.rows, w, field.bins, coupled, v, bend)

    def scores(self, w: ArrayLike) -> Floats:
        """X w in float64, (n,)."""
        return passes.scores(self.rows.X, self._check_w(w))

    def _as_polynomial(self, w: Floats) -> tuple[PolynomialPairs, Floats] | None:
        """The path without bins and its scores, where no pair reaches the knot."""
        if self._polynomial is None:
            return None
        # Scores of the last w are kept: gradient and Hessian are asked for in turn.
        if self._last_scores is None or not np.array_equal(self._last_scores[0], w):
            self._last_scores = (w.copy(), self._polynomial.scores(w))
        score = self._last_scores[1]
        return (self._polynomial, score) if self._polynomial.holds(score) else None

    def _at(self, w: Floats) -> PairField | None:
        return self._keep("field", w, lambda: self._field(self.rows, w, self._range(w)))

    def _hessian_field(self, w: Floats) -> PairField:
        if self.surrogate.knot is None:
            return self._at(w)  # type: ignore[return-value]  # None only with a knot
        if self.surrogate.n_derivatives < 1:
            raise ValueError(
                f"the surrogate should have a second derivative, got {self.surrogate}, which has a "
                f"kink. Use s_poly(mu, p=2) or s_poly(mu, p=3)."
            )
        field = self._keep("hessian", w, lambda: self._coarse_field(w))
        return field  # type: ignore[return-value]  # _coarse_field never gives None

    def _coarse_field(self, w: Floats) -> PairField:
        span = self._range(w)
        bins = span.bins(self._dividing_width(span, _HESSIAN_BINS), self.max_bins)
        return self._field_of_width(self.rows, w, self._at_most(bins))

    def _keep(self, name: str, w: Floats, make: Callable[[], PairField | None]) -> PairField | None:
        """The field of the last w is kept: value, gradient and Hessian are asked for in turn."""
        kept = self._kept.get(name)
        if kept is None or not np.array_equal(kept[0], w):
            self._kept[name] = kept = (w.copy(), make())
        return kept[1]

    def _range(self, w: Floats) -> _ScoreRange:
        def exact() -> tuple[float, float]:
            score = self.scores(w)
            return float(score.min()), float(score.max())

        if self.surrogate.knot is not None and len(self.codes) < passes.COMPILE_ROWS:
            return _ScoreRange(*exact())  # cheap here, and a tight range means finer bins
        return _ScoreRange(*box_range(self.low, self.high, w), exact)

    def _check_w(self, w: ArrayLike, name: str = "w") -> Floats:
        w = np.ascontiguousarray(w, dtype=np.float64)
        if w.shape != (self.n_features,) or not np.isfinite(w).all():
            raise ValueError(
                f"{name} should hold {self.n_features} finite numbers, one a column of X; got an "
                f"array of shape {w.shape}"
                + ("." if np.isfinite(w).all() else " with NaN or infinite entries.")
                + " Check the step that produced it."
            )
        return w


def _check_matrix(X: ArrayLike, n_rows: int) -> NDArray[Any]:
    matrix = np.asarray(X)
    if matrix.ndim != 2 or len(matrix) != n_rows or matrix.shape[1] == 0:
        raise ValueError(
            f"X should have shape ({n_rows}, d), a row for each y and at least one column; got "
            f"{matrix.shape}. Pass the rows of y, in their order."
        )
    if matrix.dtype not in (np.float32, np.float64):
        matrix = matrix.astype(np.float64)
    return matrix


def _column_range(X: NDArray[Any]) -> tuple[Floats, Floats]:
    low, high = passes.column_range(X)
    bad = np.flatnonzero(~np.isfinite(low) | ~np.isfinite(high))
    if len(bad):
        raise ValueError(
            f"X should hold finite numbers, got NaN or infinity in column {bad[0]}"
            + (f" and {len(bad) - 1} more" if len(bad) > 1 else "")
            + ". Impute or drop them first."
        )
    return low, high
