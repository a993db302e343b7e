"""Summaries of numbers over splits. Splits share one data set, so all of them are descriptive."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binomtest, rankdata, t

from experiments.harness import Line


class Paired(NamedTuple):
    """Mean of differences with a t interval over splits, the sign test, the standard error."""

    mean: float
    low: float
    high: float
    share_above: float
    p_value: float
    error: float

    @property
    def half(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves 0 out."""
        return abs(self.mean) > self.half


def paired(
    values: ArrayLike,
    others: ArrayLike,
    level: float = 0.95,
    *,
    overlap: float = 0.0,
) -> Paired:
    """Differences on the same splits; ties count half in the share and drop out of the test.

    ``overlap``, test rows over training rows, widens the interval for splits that share their rows
    (Nadeau and Bengio 2003): variance times 1 / n + overlap in place of 1 / n.

    Examples
    --------
    >>> paired([3.0, 4.0, 5.0, 4.0], [2.0, 2.0, 2.0, 2.0])._replace(low=0, high=0, error=0)
    Paired(mean=2.0, low=0, high=0, share_above=1.0, p_value=0.125, error=0)
    """
    difference = np.asarray(values, dtype=np.float64) - np.asarray(others, dtype=np.float64)
    n, mean = len(difference), float(difference.mean())
    error = float(difference.std(ddof=1) * np.sqrt(1 / n + overlap)) if n > 1 else float("nan")
    half = float(t.ppf(0.5 + level / 2, n - 1)) * error if n > 1 else float("nan")
    above, below = int(np.sum(difference > 0)), int(np.sum(difference < 0))
    p_value = float(binomtest(above, above + below).pvalue) if above + below else 1.0
    share = (above + (n - above - below) / 2) / n
    return Paired(mean, mean - half, mean + half, share, p_value, error)


def mean_ranks(table: Sequence[Sequence[float]]) -> list[float]:
    """Mean over blocks of the rank of each column, 1 for the largest number of a block.

    Examples
    --------
    >>> mean_ranks([[0.3, 0.2], [0.1, 0.2], [0.5, 0.4], [0.1, 0.1]])
    [1.375, 1.625]
    """
    ranks = [rankdata(-np.asarray(block, dtype=np.float64)) for block in table]
    return [float(r) for r in np.mean(ranks, axis=0)]


class Scores:
    """The lines of one trial by model and split; models in the given order."""

    def __init__(self, lines: Iterable[Line], order: Iterable[str]) -> None:
        found: dict[str, dict[int, Line]] = {}
        for line in sorted(lines, key=lambda line: line["split"]):
            found.setdefault(line["model"], {})[line["split"]] = line
        self.lines = {model: found[model] for model in order if model in found}
        self.models = list(self.lines)
        self.common = self.splits(*self.models)

    def splits(self, *models: str) -> list[int]:
        """Those that all of these models have."""
        own = [set(self.lines.get(model, ())) for model in models]
        return sorted(set.intersection(*own)) if own else []

    def values(
        self, model: str, name: str = "auuc", splits: Sequence[int] | None = None
    ) -> list[float]:
        return [self.lines[model][k][name] for k in (splits or self.lines[model])]

    def mean(self, model: str, name: str = "auuc", splits: Sequence[int] | None = None) -> float:
        return float(np.mean(self.values(model, name, splits)))

    def spread(self, model: str, name: str = "auuc", splits: Sequence[int] | None = None) -> float:
        """Two standard deviations over splits, as the paper prints; 0 for one split."""
        values = self.values(model, name, splits)
        return 2 * float(np.std(values, ddof=1)) if len(values) > 1 else 0.0

    def difference(
        self,
        model: str,
        other: str,
        name: str = "auuc",
        *,
        overlap: float = 0.0,
        splits: Sequence[int] | None = None,
    ) -> Paired:
        """The first minus the second, on the splits that both have."""
        splits = splits or self.splits(model, other)
        a, b = (self.values(m, name, splits) for m in (model, other))
        return paired(a, b, overlap=overlap)
