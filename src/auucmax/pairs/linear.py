"""The objective of a linear score x.w as a function of w: what solvers call.

:class:`LinearPairs` knows how value, gradient and Hessian follow from sums over rows;
:class:`PairObjective` takes these sums over arrays, :class:`StreamedObjective` over rows that are
read batch by batch. There readings are what costs, so as much as can be is taken from each:

* the first gives numbers, sums and products of the columns by class, of which value, gradient and
  Hessian at w = 0 (where every solver starts) follow without another;
* value and gradient at any other w come from one reading, with moments of r^p x beside those of
  r^p, while these fit into the rows' ``max_bytes`` (otherwise from two);
* the Hessian takes one more reading than the gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from auucmax._validation import Floats, check_column
from auucmax.pairs import passes
from auucmax.pairs.exact import PolynomialPairs
from auucmax.pairs.losses import BINARY, OutcomeLevels, PolynomialSurrogate
from auucmax.pairs.objective import ArrayPairs, Pairs
from auucmax.pairs.passes import DEGREE, Bins, PairRows
from auucmax.pairs.summary import PairField, PairSummary, box_range
from auucmax.rows import Batch, Extremes, Rows

#: A function of rows whose values for different rows add up.
Sum = Callable[[PairRows], Any]

HESSIAN_DEGREE = 3  #: of the polynomials in the Hessian; its error is about 1e-5 of its size
ROUGH_ROWS = 2**20  #: that the Hessian of many more rows is made from
HESSIAN_BINS = 256  #: for a surrogate with a knot
MAX_PRODUCTS = 500  #: columns, up to which all their products are summed; fewer of many classes
MOST_BINS = 16_384  #: that are tried of few rows; in memory they would be sorted


class LinearPairs(Pairs):
    """Objective of x.w from sums over rows, which subclasses compute.

    ``low`` and ``high`` (d,) are the columns' extremes.
    """

    low: Floats
    high: Floats

    def __init__(self, totals: Floats, n_rows: int, **options: Any) -> None:
        super().__init__(totals, n_rows, **options)
        self._kept: dict[str, tuple[bytes, Any]] = {}

    def _totals(self, *sums: Sum) -> list[Any]:
        """The sums over all rows."""
        raise NotImplementedError

    def value(self, w: ArrayLike) -> float:
        """The objective at w."""
        return self.value_and_gradient(w)[0]

    def value_and_gradient(self, w: ArrayLike) -> tuple[float, Floats]:
        """Objective and gradient (d,) at w; two passes over X."""
        raise NotImplementedError

    def hessian(self, w: ArrayLike) -> Floats:
        """Approximate Hessian (d, d) at w; two more passes over X.

        Right to about 1e-5 of its size, less where scores lie exactly a knot apart (s'' of s_poly
        bends there) or where a saturated sigmoid leaves little to sum.

        sum over pairs of s''(z_ij) (x_i - x_j)(x_i - x_j)', with the same polynomial for s'' in
        all its parts: a direction in which all rows agree (one-hot blocks) is null to rounding.
        """
        w = self._check_w(w)
        return self._hessian_of(self._hessian_field(w), w, self._totals)

    def _last(self, name: str, w: Floats, make: Callable[[Floats], Any]) -> Any:
        """Cache for the last w, since value, gradient and Hessian are requested in turn."""
        key = w.tobytes()
        if name not in self._kept or self._kept[name][0] != key:
            self._kept[name] = key, make(w)
        return self._kept[name][1]

    def field_at(self, w: Floats) -> PairField | None:
        """Field of the scores X w; None if only sorting is accurate."""
        field: PairField | None = self._last("field", w, self._accurate_field)
        return field

    def _accurate_field(self, w: Floats) -> PairField | None:
        field: PairField | None = None
        for bins in self._bins(self._range(w)):
            field = self._field_of(self._summarise(w, bins))
            if self._is_accurate(field):
                return field
        return self._without_accuracy(w, field)

    def _without_accuracy(self, w: Floats, finest: PairField | None) -> PairField | None:
        """Fallback if no bins are accurate; None: sort the rows."""
        return None

    def _gradient_of(self, field: PairField, w: Floats) -> Floats:
        (gradient,) = self._totals(
            partial(passes.weighted_sum, w=w, bins=field.bins, coefficients=field.coefficients(1))
        )
        return np.asarray(gradient)

    def _hessian_of(self, field: PairField, w: Floats, totals: Callable[..., list[Any]]) -> Floats:
        bend = field.coefficients(2, HESSIAN_DEGREE)
        vectors, gram = totals(
            partial(passes.vector_moments, w=w, bins=field.bins, degree=HESSIAN_DEGREE),
            partial(passes.weighted_gram, w=w, bins=field.bins, coefficients=bend),
        )
        cross = field.cross(vectors[..., :-1])
        return np.asarray(gram - (cross + cross.T))

    def _hessian_field(self, w: Floats) -> PairField:
        field = self.field_at(w) if self.surrogate.knot is None else None
        if field is not None:
            return field
        if self.surrogate.n_derivatives < 1:
            raise ValueError(
                f"the surrogate should have a second derivative, got {self.surrogate}, which has a "
                f"kink. Use s_poly(mu, p=2) or s_poly(mu, p=3)."
            )
        coarse: PairField = self._last("coarse", w, self._coarse_field)
        return coarse

    def _coarse_field(self, w: Floats) -> PairField:
        span = self._range(w)
        width = self._dividing_width(span, HESSIAN_BINS)
        bins = self._at_most(Bins.covering(*span, width))
        return self._field_of(self._summarise(w, bins))

    def _summarise(self, w: Floats, bins: Bins) -> PairSummary:
        if not w.any():  # where solvers begin
            return PairSummary.at_zero(bins.width, self.totals)
        (summary,) = self._totals(partial(PairSummary.from_rows, w=w, bins=bins))
        return summary

    def _range(self, w: Floats) -> tuple[float, float]:
        """Bounds on the scores; exact only if loose bounds need too many bins."""
        span = box_range(self.low, self.high, w)
        width, most = next(self._widths(span), (self._dividing_width(span, HESSIAN_BINS), 2**30))
        if Bins.covering(*span, width).size > most:
            return self._exact_range(w)
        return span

    def _exact_range(self, w: Floats) -> tuple[float, float]:
        (extremes,) = self._totals(partial(_score_extremes, w=w))
        return float(extremes.low), float(extremes.high)

    def _check_w(self, w: ArrayLike) -> Floats:
        w = np.ascontiguousarray(w, dtype=np.float64)
        if w.shape != (len(self.low),) or not np.isfinite(w).all():
            raise ValueError(
                f"w should hold {len(self.low)} finite numbers, one a column of X; got an "
                f"array of shape {w.shape}"
                + ("." if np.isfinite(w).all() else " with NaN or infinite entries.")
                + " Check the step that produced it."
            )
        return w


class PairObjective(ArrayPairs, LinearPairs):
    """Objective of a linear score x.w for rows in memory.

    Parameters
    ----------
    X : (n, d) array. float32 and float64 of any memory order are used in place from 200,000 rows
        on; s_poly on fewer rows keeps a float64 copy with the rows of a class together.
    y : outcome of each row, any finite number; a pair counts the difference of its outcomes.
    treatment : 0/1 a row; ``control`` names the control label if treatment holds labels.
    levels : :class:`OutcomeLevels`, if they are not those of y itself: classes of the outcome.
    surrogate : name or object; "s_poly" is the paper's, mu = 0.1, p = 3.
    weights : "lambda", "absolute", "uniform" or two numbers, see :func:`group_weights`.
    sample_weight : weight of each row; a pair weighs the product.
    extremes : smallest and largest value of each column, (d,) each, if they are known.
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
        extremes: tuple[Floats, Floats] | None = None,
        **options: Any,
    ) -> None:
        matrix, n_rows = np.asarray(X), len(np.asarray(y))
        if matrix.ndim != 2 or len(matrix) != n_rows or matrix.shape[1] == 0:
            raise ValueError(
                f"X should have shape ({n_rows}, d), a row for each y and at least one column; got "
                f"{matrix.shape}. Pass the rows of y, in their order."
            )
        if matrix.dtype not in (np.float32, np.float64):
            matrix = matrix.astype(np.float64)
        if sample_weight is not None:
            weight = check_column(sample_weight, "sample_weight", len(matrix))
            if not weight.all():  # rows of weight 0 are no rows
                kept = weight != 0
                matrix, sample_weight = matrix[kept], weight[kept]
                y, treatment = np.asarray(y)[kept], np.asarray(treatment)[kept]
        super().__init__(y, treatment=treatment, sample_weight=sample_weight, **options)
        self.rows = PairRows(matrix, self.codes, self.sample_weight, self.levels.n_classes)
        self.low, self.high = extremes or passes.column_range(matrix)
        bad = np.flatnonzero(~np.isfinite(self.low) | ~np.isfinite(self.high))
        if len(bad):
            raise ValueError(
                f"X should be finite numbers, got NaN or infinity in column {bad[0]}"
                + (f" and {len(bad) - 1} more" if len(bad) > 1 else "")
                + ". Impute or drop them first."
            )
        self._polynomial: PolynomialPairs | None = None
        if (
            isinstance(self.surrogate, PolynomialSurrogate)
            and self.surrogate.p >= 2
            and len(self.codes) < passes.COMPILE_ROWS
        ):
            self._polynomial = PolynomialPairs(
                self.rows, self.surrogate, self.multipliers, self.levels.gaps
            )

    def scores(self, w: ArrayLike) -> Floats:
        """Scores X w in float64, (n,)."""
        return passes.scores(self.rows.X, self._check_w(w))

    def _totals(self, *sums: Sum) -> list[Any]:
        return [one(self.rows) for one in sums]

    def value_and_gradient(self, w: ArrayLike) -> tuple[float, Floats]:
        """Objective and gradient (d,) at w; at most two passes over X."""
        w = self._check_w(w)
        if (exact := self._as_polynomial(w)) is not None:
            return exact[0].value_and_gradient(exact[1])
        field = self.field_at(w)
        if field is None:
            value, slopes, _ = self._sorted(self.scores(w))
            return value, passes.transposed_product(self.rows.X, slopes)
        return field.value, self._gradient_of(field, w)

    def hessian(self, w: ArrayLike) -> Floats:
        """Approximate Hessian (d, d) at w; above two million rows, of a million of them."""
        w = self._check_w(w)
        if (exact := self._as_polynomial(w)) is not None:
            return exact[0].hessian(exact[1])
        step = len(self.codes) // ROUGH_ROWS
        if step < 2:
            return super().hessian(w)
        X, codes, weight, n_classes = self.rows
        weight = None if weight is None else weight[::step]
        few = PairRows(X[::step], codes[::step], weight, n_classes)
        repeat = len(codes) / len(few.codes)
        field = self._hessian_field(w)
        return self._hessian_of(field, w, lambda *sums: [repeat * one(few) for one in sums])

    def _as_polynomial(self, w: Floats) -> tuple[PolynomialPairs, Floats] | None:
        """Exact polynomial path and its scores, if no pair reaches the knot."""
        if self._polynomial is None:
            return None
        score = self._last("scores", w, self._polynomial.scores)
        return (self._polynomial, score) if self._polynomial.holds(score) else None

    def _range(self, w: Floats) -> tuple[float, float]:
        if self.surrogate.knot is not None and self.n_rows < passes.COMPILE_ROWS:
            # Cheap here, and a tight range: finer bins.
            return self._exact_range(w)
        return super()._range(w)


def _score_extremes(rows: PairRows, w: Floats) -> Extremes:
    score = passes.scores(rows.X, w) if len(rows.codes) else np.empty(0)
    low, high = np.min(score, initial=np.inf), np.max(score, initial=-np.inf)
    return Extremes(np.asarray(low), np.asarray(high))


class StreamedObjective(LinearPairs):
    """:class:`PairObjective` for rows that are read in batches.

    Parameters
    ----------
    rows : their ``max_bytes`` says how large a summary may be.
    levels : :class:`OutcomeLevels` of the rows; by default those of outcomes 0/1.
    known : the sums of ``class_sums`` over the rows, if already computed.
    options : surrogate, weights, accuracy, max_bins as in :class:`PairObjective`. A surrogate with
        a kink (hinge, s_poly with p = 2) needs all scores at once and is refused; where bins do not
        reach the accuracy asked for, the finest are used.
    """

    def __init__(
        self,
        rows: Rows,
        *,
        levels: OutcomeLevels = BINARY,
        known: ClassSums | None = None,
        **options: Any,
    ) -> None:
        self.source = rows
        if known is None:
            (known,) = rows.total(partial(class_sums, levels=levels))
        self.sums, self.low, self.high = known.products, known.extremes.low, known.extremes.high
        options |= {"levels": levels, "few_bins": MOST_BINS}
        super().__init__(self.sums[:, 0, 0], int(known.counts.sum()), **options)
        if self.surrogate.knot is not None and self.surrogate.n_derivatives < 2:
            raise ValueError(
                f"the surrogate should be smooth for rows that are read batch by batch, got "
                f"{self.surrogate}, which has a kink. Use s_poly(mu, p=3) or s_log."
            )

    def _totals(self, *sums: Sum) -> list[Any]:
        return list(
            self.source.total(*(partial(_of_pairs, total=one, levels=self.levels) for one in sums))
        )

    def value_and_gradient(self, w: ArrayLike) -> tuple[float, Floats]:
        """Objective and gradient (d,) at w; one reading, or two for large summaries."""
        w = self._check_w(w)
        field = self._fine_field(w)
        if field.summary.vectors is not None:
            return field.value, field.gradient()
        return field.value, self._gradient_of(field, w)

    def hessian(self, w: ArrayLike) -> Floats:
        w = self._check_w(w)
        field = self._hessian_field(w)
        if field.summary.vectors is None or not (w.any() or self.sums.shape[1] > 1):
            return super().hessian(w)
        bend = field.coefficients(2, HESSIAN_DEGREE)
        if w.any():
            (gram,) = self._totals(
                partial(passes.weighted_gram, w=w, bins=field.bins, coefficients=bend)
            )
        else:
            curvature = bend[:, 0] @ (-0.5) ** np.arange(bend.shape[2])
            gram = np.tensordot(curvature, self.sums[:, 1:, 1:], axes=1)
        cross = field.cross(field.summary.vectors[:, :, : HESSIAN_DEGREE + 1])
        return np.asarray(gram - (cross + cross.T))

    def _fine_field(self, w: Floats) -> PairField:
        field = self.field_at(w)
        assert field is not None  # the finest that was tried is taken
        return field

    def _coarse_field(self, w: Floats) -> PairField:
        """Coarse field, from the gradient's finer summary if its bins can be merged."""
        fine, width = (
            self._fine_field(w).summary,
            self._dividing_width(self._range(w), HESSIAN_BINS),
        )
        if fine.vectors is None or fine.bins.width > width:
            return super()._coarse_field(w)
        return self._field_of(fine.coarsened(round(width / fine.bins.width)))

    def _without_accuracy(self, w: Floats, finest: PairField | None) -> PairField | None:
        """The finest field tried, or the coarse one if no bins are fine enough."""
        return super()._coarse_field(w) if finest is None else finest

    def _summarise(self, w: Floats, bins: Bins) -> PairSummary:
        if not w.any():
            return PairSummary.at_zero(bins.width, self.sums[:, 0, 0], self.sums[:, 0, 1:])
        n_bytes = 8 * len(self.totals) * bins.size * (DEGREE + 1) * (len(self.low) + 1)
        vectors = n_bytes <= self.source.max_bytes
        (summary,) = self._totals(partial(PairSummary.from_rows, w=w, bins=bins, vectors=vectors))
        return summary


def _of_pairs(batch: Batch, total: Sum, levels: OutcomeLevels) -> Any:
    """Turn a function of pair rows into one of a batch."""
    return total(pair_rows(batch, levels))


def pair_rows(batch: Batch, levels: OutcomeLevels) -> PairRows:
    """Pair rows of a batch, with class codes."""
    codes = levels.codes(batch.y, batch.treated)
    return PairRows(batch.X, codes, batch.weight, levels.n_classes)


@dataclass(frozen=True, eq=False)
class ClassSums:
    """Weighted sums of (1, x)(1, x)' by class, (classes, d + 1, d + 1), and extremes.

    With very many columns only the first row of each matrix: weights and sums, (classes, 1, d + 1).
    ``counts`` (classes,) are numbers of rows, whatever they weigh.
    """

    products: Floats
    counts: Floats
    extremes: Extremes

    @property
    def weights(self) -> Floats:
        """Total weight by class, (classes,)."""
        return self.products[:, 0, 0]

    def __add__(self, other: ClassSums) -> ClassSums:
        products, counts = self.products + other.products, self.counts + other.counts
        return ClassSums(products, counts, self.extremes + other.extremes)


def class_sums(batch: Batch, levels: OutcomeLevels = BINARY) -> ClassSums:
    """Class sums of a batch."""
    rows = pair_rows(batch, levels)
    n, d = rows.X.shape
    all_products = d * d * rows.n_classes <= 4 * MAX_PRODUCTS**2
    sums = np.zeros((rows.n_classes, d + 1 if all_products else 1, d + 1))
    for start in range(0, n, 16_384):  # a block's float64 copy stays in the cache
        codes = rows.codes[start : start + 16_384]
        block = np.ones((len(codes), d + 1))
        block[:, 1:] = rows.X[start : start + 16_384]
        weight = None if rows.weight is None else rows.weight[start : start + 16_384, None]
        for c in range(rows.n_classes):
            some = codes == c
            own = block[some]
            weighted = own if weight is None else own * weight[some]
            sums[c] += weighted.T @ own if all_products else weighted.sum(axis=0)
    counts = np.bincount(rows.codes, minlength=rows.n_classes).astype(np.float64)
    if not n:
        return ClassSums(sums, counts, Extremes(np.full(d, np.inf), np.full(d, -np.inf)))
    return ClassSums(sums, counts, Extremes(*passes.column_range(rows.X)))
