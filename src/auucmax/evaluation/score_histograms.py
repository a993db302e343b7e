"""From rows that are read batch by batch to histograms of their scores: edges first, then sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from auucmax._validation import Floats, check_column, check_whole
from auucmax.evaluation.histogram import ScoreHistogram
from auucmax.rows import Batch, Rows, Sample

__all__ = ["N_BINS", "score_edges", "score_histogram", "score_histograms"]

Predict = Callable[[NDArray[Any]], Floats]
Keep = Callable[[Batch], Batch]

N_BINS = 65_536


def score_edges(sample: ArrayLike, n_bins: int = N_BINS) -> Floats:
    """Inner edges of at most ``n_bins`` bins for scores of which ``sample`` is a random sample.

    Where the bins are enough, each value of the sample gets its own, and so do the gaps between
    values if the bins allow that too. Otherwise edges are at quantiles of the sample, and a value
    that several quantiles share has a bin of its own: rows that really tie then cost nothing.

    Examples
    --------
    >>> score_edges([0, 0, 1, 2], n_bins=3).tolist()
    [0.5, 1.5]
    >>> score_edges([1, 2, 3, 4, 5, 6, 7, 8], n_bins=4).tolist()
    [2.0, 4.0, 6.0]
    """
    n_bins = check_whole(n_bins, "n_bins", 1)
    ordered = np.sort(check_column(sample, "sample"))
    values = ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])]
    if 2 * len(values) < n_bins:
        return _around(values, values)
    if len(values) <= n_bins:
        left, right = values[:-1], values[1:]
        middle = left / 2 + right / 2
        # Between neighbouring numbers there is no other: the left one separates them.
        return np.where((middle > left) & (middle < right), middle, left)
    places = np.arange(1, n_bins) * len(ordered)
    quantiles = ordered[-(-places // n_bins) - 1]
    return _around(quantiles, quantiles[1:][quantiles[1:] == quantiles[:-1]])


def _around(values: Floats, alone: Floats) -> Floats:
    """Edges at the values, and just below those that should be alone in their bins."""
    with np.errstate(over="ignore"):  # below the smallest number there is no edge, and no score
        lower = np.nextafter(alone, -np.inf)
    edges = np.unique(np.concatenate([values, lower]))
    return edges[np.isfinite(edges)]


def score_histogram(
    rows: Rows, model: Any, *, n_bins: int = N_BINS, keep: Keep | None = None
) -> ScoreHistogram:
    """Histogram of the scores of all rows, in two readings: a sample for the edges, then the sums.

    Parameters
    ----------
    rows : trial rows that are read batch by batch.
    model : a fitted model, or a function that can be pickled: (m, d) features to (m,) scores.
    n_bins : largest number of bins. With 65,536 the histogram takes 5 MB.
    keep : batch to the rows of it that count, for held-out rows of a larger source.

    The evaluation is honest only if the score was not fitted on these rows.
    """
    predict = NamedPredict(model, rows.names) if hasattr(model, "predict") else model
    (histogram,) = score_histograms(rows, [predict], n_bins=n_bins, keep=keep)
    return histogram


@dataclass(frozen=True)
class NamedPredict:
    """A model's scores of the rows of a source, whose columns it may know by name."""

    model: Any
    names: tuple[str, ...]

    def __call__(self, X: NDArray[Any]) -> Floats:
        if hasattr(self.model, "feature_names_in_"):  # the model checks names and their order
            return np.asarray(self.model.predict(pd.DataFrame(X, columns=list(self.names))))
        return np.asarray(self.model.predict(X))


def score_histograms(
    rows: Rows,
    predicts: Sequence[Predict],
    *,
    n_bins: int = N_BINS,
    keep: Keep | None = None,
) -> list[ScoreHistogram]:
    """As :func:`score_histogram`, of several scores in the same two readings."""
    n_bins = check_whole(n_bins, "n_bins", 1)
    size = 16 * n_bins
    samples = rows.total(*(partial(_sample, predict=p, keep=keep, size=size) for p in predicts))
    if not len(samples[0].values):
        raise ValueError(
            "rows should hold at least one row to evaluate, got none. Check the source, and keep."
        )
    histograms = rows.total(
        *(
            partial(_histogram, predict=p, keep=keep, edges=score_edges(sample.values, n_bins))
            for p, sample in zip(predicts, samples, strict=True)
        )
    )
    for histogram in histograms:
        histogram._arms()
    return histograms


def _scored(batch: Batch, predict: Predict, keep: Keep | None) -> tuple[Batch, Floats]:
    kept = batch if keep is None else keep(batch)
    if len(kept.y) == 0:
        return kept, np.zeros(0)
    return kept, check_column(predict(kept.X), "score", len(kept.y))


def _sample(batch: Batch, *, predict: Predict, keep: Keep | None, size: int) -> Sample:
    kept, score = _scored(batch, predict, keep)
    return Sample.of(score, kept.keys, size)


def _histogram(
    batch: Batch, *, predict: Predict, keep: Keep | None, edges: Floats
) -> ScoreHistogram:
    kept, score = _scored(batch, predict, keep)
    return ScoreHistogram.of(kept.y, score, kept.treated, edges)
