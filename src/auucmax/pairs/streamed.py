"""The objective of a linear score, of rows that are read batch by batch.

Readings are what costs, so as much as can be is taken from each:

* the first gives numbers, sums and products of the columns by class, of which value, gradient and
  Hessian at w = 0 (where every solver starts) follow without another;
* value and gradient at any other w come from one reading, with moments of r^p x beside those of
  r^p, while these fit into ``max_bytes`` (otherwise from two);
* the Hessian takes one more reading than the gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auucmax.data.batches import Batch, Extremes, RowSource
from auucmax.pairs import passes
from auucmax.pairs.field import PairField
from auucmax.pairs.linear import HESSIAN_DEGREE, Last, LinearPairs, Sum
from auucmax.pairs.objective import ScoreRange
from auucmax.pairs.passes import DEGREE, Bins, PairRows
from auucmax.pairs.summary import PairSummary

__all__ = ["ClassSums", "StreamedObjective", "class_sums", "pair_rows"]

Floats = NDArray[np.float64]
Prepare = Callable[[Batch], Batch]

MAX_PRODUCTS = 500  #: columns, up to which all their products are summed
MAX_BYTES = 2**25  #: of the vector moments of one summary


class StreamedObjective(LinearPairs):
    """As :class:`PairObjective`, of the rows of a source.

    Parameters
    ----------
    rows : the source. Outcomes 0/1.
    prepare : applied to every batch before anything else: a part of the rows, another scale.
    known : the sums of ``class_sums`` over the prepared rows, if somebody has them already.
    max_bytes : how large a summary of the rows may be. Summaries that travel should be small.
    options : surrogate, weights, accuracy, max_bins as in :class:`PairObjective`. A surrogate with
        a kink (hinge, s_poly with p = 2) needs all scores at once and is refused; where bins do not
        reach the accuracy asked for, the finest are used.
    """

    def __init__(
        self,
        rows: RowSource,
        *,
        prepare: Prepare | None = None,
        max_bytes: int = MAX_BYTES,
        known: ClassSums | None = None,
        **options: Any,
    ) -> None:
        self.source, self.prepare, self.max_bytes = rows, prepare, max_bytes
        if known is None:
            (known,) = self._sum(class_sums)
        self.sums, self.low, self.high = known.products, known.extremes.low, known.extremes.high
        counts = self.sums[:, 0, 0]
        super().__init__(counts, int(counts.sum()), **options)
        if self.surrogate.knot is not None and self.surrogate.n_derivatives < 2:
            raise ValueError(
                f"the surrogate should be smooth for rows that are read batch by batch, got "
                f"{self.surrogate}, which has a kink. Use s_poly(mu, p=3) or s_log."
            )
        self._last_field: Last[PairField] = Last()

    @property
    def has_products(self) -> bool:
        return bool(self.sums.shape[1] > 1)

    def _sum(self, *sums: Sum) -> list[Any]:
        (added,) = self.source.total(_Summaries(sums, self.prepare))
        return list(added.values)

    def _score_range(self, w: Floats) -> tuple[float, float]:
        (extremes,) = self._sum(partial(_score_extremes, w=w))
        return float(extremes.low), float(extremes.high)

    def _value(self, w: Floats) -> float:
        return self._field_at(w).value

    def _value_and_gradient(self, w: Floats) -> tuple[float, Floats]:
        field = self._field_at(w)
        if field.summary.vectors is not None:
            return field.value, field.gradient()
        return field.value, self._gradient_of(field, w)

    def _hessian(self, w: Floats) -> Floats:
        field = self._hessian_field(w)
        if field.summary.vectors is None or not (w.any() or self.has_products):
            return super()._hessian(w)
        bend = field.coefficients(2, HESSIAN_DEGREE)
        if w.any():
            (gram,) = self._sum(
                partial(passes.weighted_gram, w=w, bins=field.bins, coefficients=bend)
            )
        else:
            curvature = bend[:, 0] @ (-0.5) ** np.arange(bend.shape[2])
            gram = np.tensordot(curvature, self.sums[:, 1:, 1:], axes=1)
        cross = field.cross(field.summary.vectors[:, :, : HESSIAN_DEGREE + 1])
        return np.asarray(gram - (cross + cross.T))

    def _coarse_field(self, w: Floats) -> PairField:
        """From the summary of the gradient, which was asked for before, where its bins divide."""
        fine, width = self._field_at(w).summary, self._coarse_bins(w).width
        if fine.vectors is None or fine.bins.width > width:
            return super()._coarse_field(w)
        return self._field_of(fine.coarsened(round(width / fine.bins.width)))

    def _range(self, w: Floats) -> ScoreRange:
        if self.surrogate.knot is not None and self.n_rows < passes.COMPILE_ROWS:
            return ScoreRange(*self._score_range(w))  # as for few rows in memory: the same bins
        return super()._range(w)

    def _field_at(self, w: Floats) -> PairField:
        return self._last_field.of(w, self._finest_field)

    def _finest_field(self, w: Floats) -> PairField:
        """The first that is accurate, otherwise the finest that was tried."""
        field: PairField | None = None
        for field in self._fields(partial(self._summarise, w), self._range(w)):
            if self._is_accurate(field):
                break
        # Scores that are spread too widely for any that is tried: bins as wide as can be.
        return super()._coarse_field(w) if field is None else field

    def _summarise(self, w: Floats, bins: Bins) -> PairSummary:
        if not w.any():
            return self._at_zero(bins.width)
        n_bytes = 8 * 4 * bins.size * (DEGREE + 1) * (self.n_features + 1)
        (summary,) = self._sum(
            partial(PairSummary.from_rows, w=w, bins=bins, vectors=n_bytes <= self.max_bytes)
        )
        return summary

    def _at_zero(self, width: float) -> PairSummary:
        """All scores are 0: they lie at the lower end of bin 0, at r = -1/2."""
        powers = (-0.5) ** np.arange(DEGREE + 1)
        both = self.sums[:, 0][:, None, None, :] * powers[:, None]
        return PairSummary(Bins(width, 0, 1), both[..., 0], both[..., 1:])


@dataclass(frozen=True)
class _Summaries:
    """Several functions of the pair rows of a batch, as one."""

    sums: tuple[Sum, ...]
    prepare: Prepare | None

    def __call__(self, batch: Batch) -> _Added:
        rows = pair_rows(batch if self.prepare is None else self.prepare(batch))
        return _Added([one(rows) for one in self.sums])


@dataclass(frozen=True, eq=False)
class _Added:
    values: list[Any]

    def __add__(self, other: _Added) -> _Added:
        return _Added([a + b for a, b in zip(self.values, other.values, strict=True)])


def pair_rows(batch: Batch) -> PairRows:
    """Rows with class codes: treated 1 - y, control 2 + y."""
    y = batch.y.astype(np.int8)
    return PairRows(batch.X, np.where(batch.treated, np.int8(1) - y, np.int8(2) + y))


@dataclass(frozen=True, eq=False)
class ClassSums:
    """Sums of (1, x)(1, x)' by class, (4, d + 1, d + 1), and the columns' extremes.

    Of very many columns the first row of each matrix only: numbers and sums, (4, 1, d + 1).
    """

    products: Floats
    extremes: Extremes

    def __add__(self, other: ClassSums) -> ClassSums:
        return ClassSums(self.products + other.products, self.extremes + other.extremes)


def class_sums(rows: PairRows) -> ClassSums:
    n, d = rows.X.shape
    all_products = d <= MAX_PRODUCTS
    sums = np.zeros((4, d + 1 if all_products else 1, d + 1))
    for start in range(0, n, 16_384):  # a block's float64 copy stays in the cache
        codes = rows.codes[start : start + 16_384]
        block = np.ones((len(codes), d + 1))
        block[:, 1:] = rows.X[start : start + 16_384]
        for c in range(4):
            own = block[codes == c]
            sums[c] += own.T @ own if all_products else own.sum(axis=0)
    if not n:
        return ClassSums(sums, Extremes(np.full(d, np.inf), np.full(d, -np.inf)))
    return ClassSums(sums, Extremes(*passes.column_range(rows.X)))


def _score_extremes(rows: PairRows, w: Floats) -> Extremes:
    score = passes.scores(rows.X, w) if len(rows.codes) else np.empty(0)
    low, high = np.min(score, initial=np.inf), np.max(score, initial=-np.inf)
    return Extremes(np.asarray(low), np.asarray(high))
