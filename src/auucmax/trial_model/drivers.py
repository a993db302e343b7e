"""What drives a score: how it goes with each feature, and whom it puts on top."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from auucmax._json import plain, short
from auucmax._validation import Floats
from auucmax.data.covariates import Covariates, encode

MOST_DRIVERS = 25


def describe_drivers(features: pd.DataFrame, score: Floats, *, share: float) -> dict[str, Any]:
    """Each feature (each level of a category) against the score, the strongest first.

    ``correlation`` is that of the ranks of the score with the feature (ranks of a number, 0/1 of a
    level); ``top`` and ``rest`` are the means of the feature in the top-scored ``share`` and in the
    rest (for a level: the share of people who have it), ``difference`` that of the two in standard
    deviations. Missing values are left out. At most 25 are kept.

    >>> frame = pd.DataFrame({"age": [20, 30, 40, 50], "home": ["yes", "no", "yes", "no"]})
    >>> found = describe_drivers(frame, np.array([1.0, 2.0, 3.0, 4.0]), share=0.5)
    >>> first = found["features"][0]
    >>> first["name"], first["correlation"], first["top"], first["rest"]
    ('age', 1.0, 45.0, 25.0)
    """
    covariates = encode(features)
    rank = pd.Series(score).rank().to_numpy()
    # Rows of a level that the share cuts count in part, as everywhere.
    on_top = _part_on_top(rank, share)
    top, rest, deviation = _means(covariates, on_top)
    correlation = _correlations(covariates.ranked(), rank)
    difference = np.divide(
        top - rest, deviation, out=np.full(len(top), np.nan), where=deviation > 0
    )
    levels = [level for f in covariates.features for level in (f.levels or (None,))]
    names = [f.name for f in covariates.features for _ in (f.levels or (None,))]
    order = np.argsort(-np.nan_to_num(np.abs(correlation)), kind="stable")[:MOST_DRIVERS]
    rows = [
        {
            "name": short(names[j]),
            "level": None if levels[j] is None else short(levels[j]),
            "correlation": correlation[j],
            "top": top[j],
            "rest": rest[j],
            "difference": difference[j],
        }
        for j in order
    ]
    skipped = [short(text) for text in covariates.skipped[:MOST_DRIVERS]]
    found = {"share": share, "features": rows, "n_features": len(names), "skipped": skipped}
    return dict(plain(found))


def linear_weights(coef: Floats, names: Sequence[str], deviation: Floats) -> list[dict[str, Any]]:
    """Coefficient times standard deviation of each column of a linear score, the largest first.

    ``names`` and ``deviation`` (p,) are of the columns that ``coef`` (p,) multiplies.

    >>> linear_weights(np.array([2.0, 0.5]), ["a", "b"], np.array([0.5, 4.0]))
    [{'name': 'b', 'coefficient': 0.5, 'weight': 2.0}, {'name': 'a', 'coefficient': 2.0, ...}]
    """
    scaled = coef * deviation
    order = np.argsort(-np.abs(scaled), kind="stable")[:MOST_DRIVERS]
    return [
        {"name": short(names[j]), "coefficient": float(coef[j]), "weight": float(scaled[j])}
        for j in order
    ]


def _part_on_top(rank: Floats, share: float) -> Floats:
    """1 for rows among the top share, 0 below, a fraction in the level of equal ranks it cuts."""
    code = np.unique(rank, return_inverse=True)[1]
    size = np.bincount(code)
    above = len(rank) - np.cumsum(size)  # rows strictly above the level
    return np.asarray(np.clip((share * len(rank) - above) / size, 0, 1)[code])


def _means(covariates: Covariates, on_top: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean of each real column on top and in the rest, and its standard deviation over all."""
    k = len(covariates.columns)
    n, total, square = np.zeros((2, k)), np.zeros((2, k)), np.zeros(k)
    centre = None
    for rows, values in covariates.blocks():
        known = np.isfinite(values)
        if centre is None:  # any value near the data keeps the squares from cancelling
            with np.errstate(invalid="ignore"):
                centre = np.nan_to_num(np.nansum(values, axis=0) / np.maximum(known.sum(axis=0), 1))
        filled = np.where(known, values - centre, 0.0)
        for side, weight in enumerate((on_top[rows], 1 - on_top[rows])):
            n[side] += weight @ known
            total[side] += weight @ filled
        square += (filled**2).sum(axis=0)
    means = np.divide(total, n, out=np.full((2, k), np.nan), where=n > 0)
    count = np.maximum(n.sum(axis=0), 1)
    variance = square / count - (total.sum(axis=0) / count) ** 2
    shift = np.zeros(k) if centre is None else centre
    return means[0] + shift, means[1] + shift, np.sqrt(np.maximum(variance, 0))


def _correlations(covariates: Covariates, rank: Floats) -> Floats:
    """Correlation of ``rank`` with each real column, over the rows where the column is known."""
    k = len(covariates.columns)
    sums = np.zeros((6, k))
    rank = (rank - rank.mean()) / len(rank)
    for rows, values in covariates.blocks():
        known = np.isfinite(values)
        x, r = np.where(known, values, 0.0), rank[rows]
        sums += np.array(
            [known.sum(axis=0), x.sum(axis=0), r @ known, (x**2).sum(axis=0), r**2 @ known, r @ x]
        )
    n = np.maximum(sums[0], 1)
    mean_x, mean_r = sums[1] / n, sums[2] / n
    spread = np.maximum(sums[3] / n - mean_x**2, 0) * np.maximum(sums[4] / n - mean_r**2, 0)
    product = sums[5] / n - mean_x * mean_r
    out = np.full(k, np.nan)
    return np.divide(product, np.sqrt(spread), out=out, where=spread > 1e-24)
