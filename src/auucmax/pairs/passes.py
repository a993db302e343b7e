"""Passes over the rows: five sums contain all work proportional to n.

Every row has a class code, a weight, and a score x.w. The score axis is cut into bins of
one width; bin k holds the scores in [k width, (k+1) width), for *absolute* integers k, so two sets
of rows that were binned apart still share their bins. A row's offset inside its bin is

    r = score / width - floor(score / width) - 1/2,   -1/2 <= r < 1/2.

Below ``COMPILE_ROWS`` rows the functions of ``kernels_numpy.py`` do the work and nothing is
compiled. From there on their twins in ``kernels.py`` run over a fixed number of row blocks in
threads, and the blocks' results are added in block order: the result is the same, bit for bit, for
any number of threads. Beyond X they need at most about 8 bytes a row.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Floats
from auucmax.pairs import kernels_numpy

DEGREE = 5  #: of the polynomial in r that describes a bin; moments go from 0 to DEGREE
COMPILE_ROWS = 200_000  #: from this many rows on, numba
MAX_BLOCKS = 32
_RANGE_ROWS = 2**18  # rows whose extremes are looked for at a time
_NONE = np.empty(0)


class Bins(NamedTuple):
    """Consecutive bins of equal width, numbered from ``first``."""

    width: float
    first: int
    size: int

    @classmethod
    def covering(cls, low: float, high: float, width: float) -> Bins:
        """Bins that cover scores in [low, high], with a spare bin on each side.

        The spare bins absorb the rounding of a score that is summed in another order than low.
        """
        first = int(np.floor(low / width)) - 1
        return cls(width, first, int(np.floor(high / width)) + 2 - first)


class PairRows(NamedTuple):
    """Validated rows: X (n, d) of any float dtype, class codes, weights or None.

    Codes go from 0 to ``n_classes`` - 1: the treated classes, then as many of the control arm.
    """

    X: NDArray[Any]
    codes: NDArray[np.int8]
    weight: Floats | None = None
    n_classes: int = 4

    @classmethod
    def of_scores(
        cls,
        score: Floats,
        codes: NDArray[np.int8],
        weight: Floats | None = None,
        n_classes: int = 4,
    ) -> PairRows:
        """Rows with the score as their only feature."""
        return cls(score[:, None], codes, weight, n_classes)


def moments(rows: PairRows, w: Floats, bins: Bins) -> Floats:
    """Sums of weight r^p by class and bin; shape (classes, bins, DEGREE + 1)."""
    args = (w, 1.0 / bins.width, bins.first)
    return _add_blocks("moments", rows, args, np.zeros((rows.n_classes, bins.size, DEGREE + 1)))


def vector_moments(rows: PairRows, w: Floats, bins: Bins, degree: int = DEGREE) -> Floats:
    """Sums of weight r^p (x, 1) by class and bin, (classes, bins, degree + 1, d + 1)."""
    shape = (rows.n_classes, bins.size, degree + 1, rows.X.shape[1] + 1)
    args = (w, 1.0 / bins.width, bins.first)
    return _add_blocks("vector_moments", rows, args, np.zeros(shape))


def weighted_sum(rows: PairRows, w: Floats, bins: Bins, coefficients: Floats) -> Floats:
    """Sum of weight_i f_i x_i, f_i a polynomial in r by class and bin; (d,).

    ``coefficients`` have shape (classes, bins, any number of terms).
    """
    args = (w, 1.0 / bins.width, bins.first, coefficients)
    return _add_blocks("weighted_sum", rows, args, np.zeros(rows.X.shape[1]))


def weighted_gram(rows: PairRows, w: Floats, bins: Bins, coefficients: Floats) -> Floats:
    """Sum of weight_i f_i x_i x_i', f_i a polynomial in r by class and bin; (d, d)."""
    d = rows.X.shape[1]
    args = (w, 1.0 / bins.width, bins.first, coefficients)
    lower = np.tril(_add_blocks("weighted_gram", rows, args, np.zeros((d, d))))
    return lower + np.tril(lower, -1).T


def row_values(rows: PairRows, w: Floats, bins: Bins, coefficients: Floats) -> Floats:
    """weight_i f_i for each row, f_i a polynomial in r by class and bin; (n,)."""
    args = (w, 1.0 / bins.width, bins.first, coefficients)
    out = np.empty(len(rows.codes))
    _each_block("row_values", rows, args, [out] * (MAX_BLOCKS if _is_compiled(rows) else 1))
    return out


def scores(X: NDArray[Any], w: Floats) -> Floats:
    """Scores X w in float64, without a float64 copy of X."""
    return np.concatenate([part @ w for _, part in kernels_numpy.parts(X, 0, len(X))])


def column_range(X: NDArray[Any]) -> tuple[Floats, Floats]:
    """Minimum and maximum of each column, (d,) each."""
    if len(X) <= _RANGE_ROWS:
        low, high = _over_rows(np.min, X), _over_rows(np.max, X)
    else:  # numpy works outside the lock

        def extremes(start: int) -> list[NDArray[Any]]:
            return [
                _over_rows(extreme, X[start : start + _RANGE_ROWS]) for extreme in (np.min, np.max)
            ]

        with ThreadPoolExecutor(2) as pool:
            lows, highs = zip(*pool.map(extremes, range(0, len(X), _RANGE_ROWS)), strict=True)
        low, high = np.min(lows, axis=0), np.max(highs, axis=0)
    return low.astype(np.float64), high.astype(np.float64)


def _over_rows(extreme: Callable[..., NDArray[Any]], X: NDArray[Any]) -> NDArray[Any]:
    """Column minima or maxima, with short rows joined for speed."""
    n, d = X.shape
    if not X.flags.c_contiguous or n < 1000:
        return extreme(X, axis=0)
    cut = n - n % 64
    wide = extreme(X[:cut].reshape(-1, 64 * d), axis=0).reshape(64, d)
    return extreme(np.concatenate([wide, X[cut:]]), axis=0)


def transposed_product(X: NDArray[Any], c: Floats) -> Floats:
    """Product X'c in float64, without a float64 copy of X."""
    total = np.zeros(X.shape[1])
    for i, part in kernels_numpy.parts(X, 0, len(X)):
        total += c[i : i + len(part)] @ part
    return total


def _add_blocks(name: str, rows: PairRows, args: tuple[Any, ...], out: Floats) -> Floats:
    # Partial results take 8 bytes a row at most; their number depends on shapes, not on threads.
    n_blocks = int(np.clip(8 * len(rows.codes) // max(out.nbytes, 1), 1, MAX_BLOCKS))
    if not _is_compiled(rows):
        n_blocks = 1
    outs = [out, *(np.zeros_like(out) for _ in range(n_blocks - 1))]
    _each_block(name, rows, args, outs)
    for other in outs[1:]:
        out += other
    return out


def _each_block(name: str, rows: PairRows, args: tuple[Any, ...], outs: list[Floats]) -> None:
    weight = _NONE if rows.weight is None else rows.weight
    edges = np.linspace(0, len(rows.codes), len(outs) + 1).astype(np.int64)
    call = getattr(_compiled_kernels() if _is_compiled(rows) else kernels_numpy, name)

    def run(b: int) -> int | None:
        span = (outs[b], int(edges[b]), int(edges[b + 1]))
        result: int | None = call(rows.X, rows.codes, weight, *args, *span)
        return result

    if len(outs) == 1:
        outside = [run(0)]
    else:
        with ThreadPoolExecutor(_compiled_kernels().thread_count()) as pool:
            outside = list(pool.map(run, range(len(outs))))
    if any(outside):
        raise ValueError(
            f"scores should stay inside the range that the column minima and maxima allow, got "
            f"{sum(o or 0 for o in outside)} rows outside. X was changed after the objective was "
            f"built: build a new one."
        )


def _is_compiled(rows: PairRows) -> bool:
    return len(rows.codes) >= COMPILE_ROWS


def _compiled_kernels() -> Any:
    from auucmax.pairs import kernels  # late: numba takes half a second to import

    return kernels
