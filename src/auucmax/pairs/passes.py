"""Passes over the rows: five sums contain all work proportional to n.

Every row has a class code, a weight, and a score x.w. The score axis is cut into bins of
one width; bin k holds the scores in [k width, (k+1) width), for *absolute* integers k, so two sets
of rows that were binned apart still share their bins. A row's offset inside its bin is

    r = score / width - floor(score / width) - 1/2,   -1/2 <= r < 1/2.

Below ``COMPILE_ROWS`` rows numpy does the work and nothing is compiled. From there on the twins in
``kernels.py`` run over a fixed number of row blocks in threads, and the blocks' results are added
in block order: the result is the same, bit for bit, for any number of threads. Beyond X they need
at most about 8 bytes a row.
"""

# mypy: disallow-untyped-defs=False
from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from auucmax._validation import Floats
from auucmax.rows.base import n_threads

DEGREE = 5  #: of the polynomial in r that describes a bin; moments go from 0 to DEGREE
COMPILE_ROWS = 200_000  #: from this many rows on, numba
MAX_BLOCKS = 32
_CHUNK = 16_384  # rows at a time, so that temporaries stay in the cache
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


def moments(rows: PairRows, w: Floats, bins: Bins) -> Floats:
    """Sums of weight r^p by class and bin; shape (classes, bins, DEGREE + 1)."""
    return _add_blocks("moments", rows, w, bins, (rows.n_classes, bins.size, DEGREE + 1))


def vector_moments(rows: PairRows, w: Floats, bins: Bins, degree: int = DEGREE) -> Floats:
    """Sums of weight r^p (x, 1) by class and bin, (classes, bins, degree + 1, d + 1)."""
    shape = rows.n_classes, bins.size, degree + 1, rows.X.shape[1] + 1
    return _add_blocks("vector_moments", rows, w, bins, shape)


def weighted_sum(rows: PairRows, w: Floats, bins: Bins, coefficients: Floats) -> Floats:
    """Sum of weight_i f_i x_i, f_i a polynomial in r by class and bin; (d,).

    ``coefficients`` have shape (classes, bins, any number of terms).
    """
    return _add_blocks("weighted_sum", rows, w, bins, rows.X.shape[1:], coefficients)


def weighted_gram(rows: PairRows, w: Floats, bins: Bins, coefficients: Floats) -> Floats:
    """Sum of weight_i f_i x_i x_i', f_i a polynomial in r by class and bin; (d, d)."""
    d = rows.X.shape[1]
    lower = np.tril(_add_blocks("weighted_gram", rows, w, bins, (d, d), coefficients))
    return lower + np.tril(lower, -1).T


def row_values(rows: PairRows, w: Floats, bins: Bins, coefficients: Floats) -> Floats:
    """weight_i f_i for each row, f_i a polynomial in r by class and bin; (n,)."""
    out = np.empty(len(rows.codes))
    n_blocks = MAX_BLOCKS if _is_compiled(rows) else 1
    _each_block("row_values", rows, w, bins, [out] * n_blocks, coefficients)
    return out


def scores(X: NDArray[Any], w: Floats) -> Floats:
    """Scores X w in float64, without a float64 copy of X."""
    return np.concatenate([part @ w for _, part in _parts(X, 0, len(X))])


def column_range(X: NDArray[Any]) -> tuple[Floats, Floats]:
    """Minimum and maximum of each column, (d,) each."""
    n, d = X.shape

    def extremes(find: Callable[..., NDArray[Any]]) -> Floats:
        if not X.flags.c_contiguous or n < 1000:
            return find(X, axis=0).astype(np.float64)
        # Short rows are joined for speed.
        cut = n - n % 64
        wide = find(X[:cut].reshape(-1, 64 * d), axis=0).reshape(64, d)
        return find(np.concatenate([wide, X[cut:]]), axis=0).astype(np.float64)

    if n < COMPILE_ROWS:
        return extremes(np.min), extremes(np.max)
    with ThreadPoolExecutor(2) as pool:  # numpy works outside the lock
        low, high = pool.map(extremes, (np.min, np.max))
    return low, high


def transposed_product(X: NDArray[Any], c: Floats) -> Floats:
    """Product X'c in float64, without a float64 copy of X."""
    total = np.zeros(X.shape[1])
    for i, part in _parts(X, 0, len(X)):
        total += c[i : i + len(part)] @ part
    return total


def _add_blocks(
    name: str, rows: PairRows, w: Floats, bins: Bins, shape: tuple[int, ...], *coefficients: Floats
) -> Floats:
    out = np.zeros(shape)
    # Partial results take 8 bytes a row at most; their number depends on shapes, not on threads.
    n_blocks = int(np.clip(8 * len(rows.codes) // max(out.nbytes, 1), 1, MAX_BLOCKS))
    if not _is_compiled(rows):
        n_blocks = 1
    outs = [out, *(np.zeros(shape) for _ in range(n_blocks - 1))]
    _each_block(name, rows, w, bins, outs, *coefficients)
    for other in outs[1:]:
        out += other
    return out


def _each_block(
    name: str, rows: PairRows, w: Floats, bins: Bins, outs: list[Floats], *coefficients: Floats
) -> None:
    weight = _NONE if rows.weight is None else rows.weight
    edges = np.linspace(0, len(rows.codes), len(outs) + 1).astype(np.int64)
    call = getattr(_compiled_kernels(), name) if _is_compiled(rows) else _NUMPY[name]

    def run(b: int) -> int | None:
        span = outs[b], int(edges[b]), int(edges[b + 1])
        args = w, 1.0 / bins.width, bins.first, *coefficients
        result: int | None = call(rows.X, rows.codes, weight, *args, *span)
        return result

    if len(outs) == 1:
        outside = [run(0)]
    else:
        with ThreadPoolExecutor(n_threads()) as pool:
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


# The passes in numpy, with the arguments of those in ``kernels.py``.


def _parts(X: NDArray[Any], start: int, stop: int) -> Iterator[tuple[int, Floats]]:
    for i in range(start, stop, _CHUNK):
        yield i, np.asarray(X[i : min(i + _CHUNK, stop)], dtype=np.float64)


class _Placed(NamedTuple):
    x: Floats
    weight: Floats
    where: NDArray[np.int64]  # class and bin, as one number
    r: Floats
    outside: int


def _placed(X, codes, weight, w, scale, first, count, start, stop):
    """Bin and offset of each row, some rows at a time."""
    for i, x in _parts(X, start, stop):
        span = slice(i, i + len(x))
        position = (x @ w) * scale
        floor = np.floor(position)
        cell = floor.astype(np.int64) - first
        inside = np.clip(cell, 0, count - 1)
        part_weight = weight[span] if weight.size else np.ones(len(x))
        outside = int(np.count_nonzero(cell != inside))
        where = codes[span].astype(np.int64) * count + inside
        yield _Placed(x, part_weight, where, position - floor - 0.5, outside)


def _horner(part, coefficients):
    own = coefficients.reshape(-1, coefficients.shape[2])[part.where]
    value = own[:, -1].copy()
    for p in range(own.shape[1] - 2, -1, -1):
        value *= part.r
        value += own[:, p]
    return value * part.weight


def _moments(X, codes, weight, w, scale, first, out, start, stop):
    outside = 0
    n_classes, count, _ = out.shape
    for part in _placed(X, codes, weight, w, scale, first, count, start, stop):
        outside += part.outside
        power = part.weight.copy()
        for p in range(out.shape[2]):
            out[:, :, p] += np.bincount(part.where, power, n_classes * count).reshape(-1, count)
            power *= part.r
    return outside


def _vector_moments(X, codes, weight, w, scale, first, out, start, stop):
    outside = 0
    n_classes, count, n_moments, width = out.shape
    for part in _placed(X, codes, weight, w, scale, first, count, start, stop):
        outside += part.outside
        extended = np.column_stack([part.x, np.ones(len(part.x))])
        power = part.weight.copy()
        for p in range(n_moments):
            # One entry a column: row i of x goes, times its power, to the bin of row i.
            entries = (power, part.where, np.arange(len(power) + 1))
            spread = csc_array(entries, shape=(n_classes * count, len(power)))
            out[:, :, p] += (spread @ extended).reshape(n_classes, count, width)
            power = power * part.r
    return outside


def _weighted_sum(X, codes, weight, w, scale, first, coefficients, out, start, stop):
    for part in _placed(X, codes, weight, w, scale, first, coefficients.shape[1], start, stop):
        out += _horner(part, coefficients) @ part.x


def _weighted_gram(X, codes, weight, w, scale, first, coefficients, out, start, stop):
    for part in _placed(X, codes, weight, w, scale, first, coefficients.shape[1], start, stop):
        out += part.x.T @ (_horner(part, coefficients)[:, None] * part.x)


def _row_values(X, codes, weight, w, scale, first, coefficients, out, start, stop):
    done = start
    for part in _placed(X, codes, weight, w, scale, first, coefficients.shape[1], start, stop):
        out[done : done + len(part.r)] = _horner(part, coefficients)
        done += len(part.r)


_NUMPY: dict[str, Callable[..., Any]] = {
    "moments": _moments,
    "vector_moments": _vector_moments,
    "weighted_sum": _weighted_sum,
    "weighted_gram": _weighted_gram,
    "row_values": _row_values,
}
