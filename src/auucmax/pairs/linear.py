"""The objective of a linear score x.w as a function of w: what solvers call.

:class:`LinearPairs` knows how value, gradient and Hessian follow from sums over rows, and asks for
these sums; :class:`PairObjective` takes them over arrays, :class:`auucmax.pairs.StreamedObjective`
over rows that are read batch by batch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from auucmax._validation import check_column
from auucmax.pairs import passes
from auucmax.pairs.field import PairField
from auucmax.pairs.objective import ArrayPairs, Pairs, ScoreRange
from auucmax.pairs.passes import Bins, PairRows
from auucmax.pairs.polynomial import PolynomialPairs
from auucmax.pairs.summary import PairSummary, box_range
from auucmax.pairs.surrogates import PolynomialSurrogate

__all__ = ["Last", "LinearPairs", "PairObjective"]

Floats = NDArray[np.float64]
Sum = Callable[[PairRows], Any]
T = TypeVar("T")

HESSIAN_DEGREE = 3  #: of the polynomials in the Hessian; its error is about 1e-5 of its size
ROUGH_ROWS = 2**20  #: that a rough Hessian is made from
_HESSIAN_BINS = 256  # for a surrogate with a knot


class Last(Generic[T]):
    """What was made of the last w: value, gradient and Hessian are asked for in turn."""

    def __init__(self) -> None:
        self._kept: tuple[Floats, T] | None = None

    def of(self, w: Floats, make: Callable[[Floats], T]) -> T:
        if self._kept is None or not np.array_equal(self._kept[0], w):
            self._kept = (w.copy(), make(w))
        return self._kept[1]


class LinearPairs(Pairs):
    """The objective of x.w, from sums over rows. A subclass says how rows are summed.

    ``low`` and ``high`` (d,) are the columns' extremes.
    """

    low: Floats
    high: Floats

    def __init__(self, totals: Floats, n_rows: int, **options: Any) -> None:
        super().__init__(totals, n_rows, **options)
        self._last_coarse: Last[PairField] = Last()

    @property
    def n_features(self) -> int:
        return len(self.low)

    def _sum(self, *sums: Sum) -> list[Any]:
        """Each function of the rows, summed over all rows; reads them once."""
        raise NotImplementedError

    def _score_range(self, w: Floats) -> tuple[float, float]:
        """Smallest and largest score."""
        raise NotImplementedError

    def value(self, w: ArrayLike) -> float:
        """The objective at w; one pass over X."""
        return self._value(self._check_w(w))

    def value_and_gradient(self, w: ArrayLike) -> tuple[float, Floats]:
        """Objective and its gradient (d,) at w; two passes over X."""
        return self._value_and_gradient(self._check_w(w))

    def hessian(self, w: ArrayLike) -> Floats:
        """Hessian (d, d) at w, for steps rather than for statements; two passes beyond those of w.

        Right to about 1e-5 of its size, less where scores lie exactly a knot apart (s'' of s_poly
        bends there) or where a saturated sigmoid leaves little to sum.

        sum over pairs of s''(z_ij) (x_i - x_j)(x_i - x_j)', with the same polynomial for s'' in
        all its parts: a direction in which all rows agree (one-hot blocks) is null to rounding.
        """
        return self._hessian(self._check_w(w))

    def rough_hessian(self, w: ArrayLike) -> Floats:
        """Good enough to choose a step by: of very many rows in memory, some stand for all."""
        return self.hessian(w)

    def value_gradient_hessian(self, w: ArrayLike) -> tuple[float, Floats, Floats]:
        """Objective, gradient (d,) and Hessian (d, d) at w; what a Newton step needs."""
        return *self.value_and_gradient(w), self.hessian(w)

    def hessian_vector(self, w: ArrayLike, v: ArrayLike) -> Floats:
        """Hessian at w times v, (d,), without the matrix; two passes over X."""
        w, v = self._check_w(w), self._check_w(v, "v")
        field = self._hessian_field(w)
        (both,) = self._sum(partial(passes.moments, w=w, bins=field.bins, v=v))
        coupled, bend = field.coupled_coefficients(both[1]), field.coefficients(2)
        (product,) = self._sum(
            partial(
                passes.weighted_sum, w=w, bins=field.bins, coefficients=coupled, v=v, slopes=bend
            )
        )
        return np.asarray(product)

    def _field_at(self, w: Floats) -> PairField | None:
        """The field of the scores X w; None, only with a knot, if sorting alone is accurate."""
        raise NotImplementedError

    def _value(self, w: Floats) -> float:
        raise NotImplementedError

    def _value_and_gradient(self, w: Floats) -> tuple[float, Floats]:
        raise NotImplementedError

    def _gradient_of(self, field: PairField, w: Floats) -> Floats:
        (gradient,) = self._sum(
            partial(passes.weighted_sum, w=w, bins=field.bins, coefficients=field.coefficients(1))
        )
        return np.asarray(gradient)

    def _hessian(self, w: Floats) -> Floats:
        return self._hessian_of(self._hessian_field(w), w, self._sum)

    def _hessian_of(
        self, field: PairField, w: Floats, sums: Callable[..., list[Any]], repeat: float = 1.0
    ) -> Floats:
        """From sums over rows, each of which stands for ``repeat`` ones."""
        bend = field.coefficients(2, HESSIAN_DEGREE)
        vectors, gram = sums(
            partial(passes.vector_moments, w=w, bins=field.bins, degree=HESSIAN_DEGREE),
            partial(passes.weighted_gram, w=w, bins=field.bins, coefficients=bend),
        )
        cross = field.cross(repeat * vectors[..., :-1])
        return np.asarray(repeat * gram - (cross + cross.T))

    def _hessian_field(self, w: Floats) -> PairField:
        if self.surrogate.knot is None and (field := self._field_at(w)) is not None:
            return field
        if self.surrogate.n_derivatives < 1:
            raise ValueError(
                f"the surrogate should have a second derivative, got {self.surrogate}, which has a "
                f"kink. Use s_poly(mu, p=2) or s_poly(mu, p=3)."
            )
        return self._last_coarse.of(w, self._coarse_field)

    def _coarse_field(self, w: Floats) -> PairField:
        return self._field_of(self._summarise(w, self._coarse_bins(w)))

    def _coarse_bins(self, w: Floats) -> Bins:
        span = self._range(w)
        return self._at_most(span.bins(self._dividing_width(span, _HESSIAN_BINS), self.max_bins))

    def _summarise(self, w: Floats, bins: Bins) -> PairSummary:
        (summary,) = self._sum(partial(PairSummary.from_rows, w=w, bins=bins))
        return summary

    def _range(self, w: Floats) -> ScoreRange:
        return ScoreRange(*box_range(self.low, self.high, w), lambda: self._score_range(w))

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


class PairObjective(ArrayPairs, LinearPairs):
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
        self._last_field: Last[PairField | None] = Last()
        self._last_scores: Last[Floats] = Last()
        self._polynomial: PolynomialPairs | None = None
        if (
            isinstance(self.surrogate, PolynomialSurrogate)
            and self.surrogate.p >= 2
            and len(self.codes) < passes.COMPILE_ROWS
        ):
            self._polynomial = PolynomialPairs(self.rows, self.surrogate, self.multipliers)

    def scores(self, w: ArrayLike) -> Floats:
        """X w in float64, (n,)."""
        return passes.scores(self.rows.X, self._check_w(w))

    def _sum(self, *sums: Sum) -> list[Any]:
        return [one(self.rows) for one in sums]

    def _field_at(self, w: Floats) -> PairField | None:
        return self._last_field.of(
            w, lambda w: self._field(partial(self._summarise, w), self._range(w))
        )

    def _value(self, w: Floats) -> float:
        if (exact := self._as_polynomial(w)) is not None:
            return exact[0].value_and_gradient(exact[1])[0]
        field = self._field_at(w)
        return self._sorted(self.scores(w))[0] if field is None else field.value

    def _value_and_gradient(self, w: Floats) -> tuple[float, Floats]:
        if (exact := self._as_polynomial(w)) is not None:
            return exact[0].value_and_gradient(exact[1])
        field = self._field_at(w)
        if field is None:
            value, slopes, _ = self._sorted(self.scores(w))
            return value, passes.transposed_product(self.rows.X, slopes)
        return field.value, self._gradient_of(field, w)

    def _hessian(self, w: Floats) -> Floats:
        if (exact := self._as_polynomial(w)) is not None:
            return exact[0].hessian(exact[1])
        return super()._hessian(w)

    def rough_hessian(self, w: ArrayLike) -> Floats:
        """As ``hessian``; from a million rows spread over all, where there are more than twice."""
        step = len(self.codes) // ROUGH_ROWS
        if step < 2:
            return self.hessian(w)
        w, (X, codes, weight) = self._check_w(w), self.rows
        few = PairRows(X[::step], codes[::step], None if weight is None else weight[::step])
        field, repeat = self._hessian_field(w), len(codes) / len(few.codes)
        return self._hessian_of(field, w, lambda *sums: [one(few) for one in sums], repeat)

    def _as_polynomial(self, w: Floats) -> tuple[PolynomialPairs, Floats] | None:
        """The path without bins and its scores, where no pair reaches the knot."""
        if self._polynomial is None:
            return None
        score = self._last_scores.of(w, self._polynomial.scores)
        return (self._polynomial, score) if self._polynomial.holds(score) else None

    def _score_range(self, w: Floats) -> tuple[float, float]:
        score = self.scores(w)
        return float(score.min()), float(score.max())

    def _range(self, w: Floats) -> ScoreRange:
        if self.surrogate.knot is not None and self.n_rows < passes.COMPILE_ROWS:
            return ScoreRange(*self._score_range(w))  # cheap here, and a tight range: finer bins
        return super()._range(w)


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
