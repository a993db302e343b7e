"""The objective of a linear score for rows that are read in batches.

Reading rows is the main cost, so each reading yields as much as possible:

* the first gives numbers, sums and products of the columns by class, of which value, gradient and
  Hessian at w = 0 (where every solver starts) follow without another;
* value and gradient at any other w come from one reading, with moments of r^p x beside those of
  r^p, while these fit into the rows' ``max_bytes`` (otherwise from two);
* the Hessian takes one more reading than the gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from auucmax._validation import Floats
from auucmax.pairs import passes
from auucmax.pairs.field import PairField
from auucmax.pairs.linear import HESSIAN_BINS, HESSIAN_DEGREE, LinearPairs, Sum
from auucmax.pairs.outcomes import BINARY, OutcomeLevels
from auucmax.pairs.passes import DEGREE, Bins, PairRows
from auucmax.pairs.summary import PairSummary
from auucmax.rows import Batch, Extremes, Rows

MAX_PRODUCTS = 500  #: columns, up to which all their products are summed; fewer of many classes
MOST_BINS = 16_384  #: that are tried of few rows; in memory they would be sorted


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

    Of very many columns the first row of each matrix only: weights and sums, (classes, 1, d + 1).
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

    def without(self, some: ClassSums) -> ClassSums:
        """Subtract the sums of some rows; the extremes stay, as bounds."""
        products, counts = self.products - some.products, self.counts - some.counts
        return ClassSums(products, counts, self.extremes)


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
