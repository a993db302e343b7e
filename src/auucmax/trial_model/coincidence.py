"""Whether two tables share rows though no row of them can be told from others.

Take the rows of one look (features and treatment) as a stratum. Of the N rows that both tables have
in it, K have a high outcome, and the second table, with n of the N, has a of the K. If the tables
are separate draws, a is hypergeometric, whatever design chose features and treatment:

    X = (a - n K / N)^2 / V,    V = n (N - n) K (N - K) / (N^2 (N - 1)),    E X = 1.

Rows that are in both tables make the outcomes agree too well: if they are the part 2 o / N of the
rows, X is smaller by about that part. The sum over strata is compared with a multiple of a
chi-square variable of the same mean and variance.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import gammainc

from auucmax._validation import Bools, Floats

__all__ = ["agrees_too_well", "count_outcomes", "sum_outcomes"]

Short = NDArray[np.uint32]

_FEWEST_STRATA = 20  # of fewer, all may agree exactly by chance
_RARE = 1e-5


def count_outcomes(strata: Short, high: Bools) -> Short:
    """Sorted strata, number of rows and of high outcomes in each: (3, number of strata).

    >>> count_outcomes(np.array([7, 5, 7], np.uint32), np.array([True, False, False])).tolist()
    [[5, 7], [1, 2], [0, 1]]
    """
    codes, found = pd.factorize(strata, sort=True)
    rows = np.bincount(codes, minlength=len(found))
    events = np.bincount(codes, high, minlength=len(found))
    return np.array([found, rows, events], dtype=np.uint32)


def sum_outcomes(counts: Sequence[Short]) -> Short:
    """What ``count_outcomes`` would find in all rows, from what it found in parts of them."""
    strata, rows, events = np.concatenate(counts, axis=1)
    codes, found = pd.factorize(strata, sort=True)
    sums = [np.bincount(codes, own, minlength=len(found)) for own in (rows, events)]
    return np.array([found, *sums], dtype=np.uint32)


def agrees_too_well(first: Short, second: Short) -> bool:
    """Whether outcomes of two tables agree more than those of separate draws ever do.

    ``first`` and ``second`` are what ``count_outcomes`` found. By chance that happens once in some
    100,000 times; if one table is a half of the other, nearly always from a hundred strata of ten
    rows on.
    """
    _, here, there = np.intersect1d(first[0], second[0], assume_unique=True, return_indices=True)
    n, a = own = second[1:, there].astype(np.float64)
    N, K = own + first[1:, here]
    telling = (N > 3) & (K > 0) & (K < N)
    n, a, N, K = n[telling], a[telling], N[telling], K[telling]
    if len(n) < _FEWEST_STRATA:
        return False
    variance = n * (N - n) * K * (N - K) / (N**2 * (N - 1))
    X = (a - n * K / N) ** 2 / variance
    spread = 2 + _excess_kurtosis(N, K, n)  # the variance of X
    weight = 1 / np.maximum(spread, 1)
    mean = float(weight.sum())
    scale = float((weight**2 * spread).sum()) / mean  # of the gamma variable with this variance
    if scale <= 0:
        return False
    return bool(gammainc(mean / scale, float((weight * X).sum()) / scale) < _RARE)


def _excess_kurtosis(N: Floats, K: Floats, n: Floats) -> Floats:
    """Of the number of K marked rows among n that are drawn from N > 3 without replacement."""
    kept, drawn = K * (N - K), n * (N - n)
    top = (N - 1) * N**2 * (N * (N + 1) - 6 * kept - 6 * drawn) + 6 * kept * drawn * (5 * N - 6)
    return np.asarray(top / (kept * drawn * (N - 2) * (N - 3)))
