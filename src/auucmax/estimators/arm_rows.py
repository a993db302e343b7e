"""The rows of a trial with several arms, and what a choice of arms gains on them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from auucmax._validation import Bools, Floats


class Part(NamedTuple):
    """The rows of one arm and of the control."""

    X: Any
    y: Floats
    treated: Bools
    weight: Floats | None

    def take(self, index: NDArray[np.intp]) -> Part:
        weight = None if self.weight is None else self.weight[index]
        return Part(_safe_indexing(self.X, index), self.y[index], self.treated[index], weight)

    def effect(self) -> float:
        weight = np.ones(len(self.y)) if self.weight is None else self.weight
        treated, control = (
            np.average(self.y[arm], weights=weight[arm]) for arm in (self.treated, ~self.treated)
        )
        return float(treated - control)


class ArmRows(NamedTuple):
    X: Any
    y: Floats
    labels: NDArray[Any]
    control: Any
    weight: Floats | None

    def arms(self) -> tuple[Any, ...]:
        others = [label for label in pd.unique(self.labels).tolist() if label != self.control]
        return tuple(sorted(others, key=lambda v: (isinstance(v, str), v)))

    def units(self) -> Floats:
        """(n,) weights whose mean is 1."""
        if self.weight is None:
            return np.ones(len(self.y))
        return np.asarray(self.weight / self.weight.mean())

    def against_control(self, arm: Any) -> tuple[NDArray[np.intp], Part]:
        treated = np.asarray(self.labels == arm, dtype=bool)
        index = np.flatnonzero(treated | (self.labels == self.control))
        return index, Part(self.X, self.y, treated, self.weight).take(index)


def stratified_gain(
    rows: ArmRows, weight: Floats, chosen: NDArray[np.intp], arms: tuple[Any, ...]
) -> tuple[float, float]:
    """Sum over arms of share times effect, among the people for whom the arm is chosen.

    Its variance is that of the means, plus that of the shares: people come with the effect of the
    arm chosen for them.
    """
    total, variance, effect = weight.sum(), 0.0, np.zeros(len(chosen))
    for place, arm in enumerate(arms):
        here = chosen == place
        groups = [here & (rows.labels == label) & (weight > 0) for label in (arm, rows.control)]
        if min(np.count_nonzero(group) for group in groups) < 2:
            continue
        (treated, its), (control, other) = (_mean(rows.y[g], weight[g]) for g in groups)
        effect[here] = treated - control
        variance += (weight[here].sum() / total) ** 2 * (its + other)
    gain = float(weight @ effect / total)
    shares = float(np.sum((weight * (effect - gain)) ** 2)) / total**2
    return gain, float(np.sqrt(variance + shares))


def _mean(values: Floats, weight: Floats) -> tuple[float, float]:
    """Weighted mean and its variance; with equal weights the usual ones."""
    n, total = len(values), float(weight.sum())
    mean = float(weight @ values / total)
    squares = float(np.sum((weight * (values - mean)) ** 2))
    return mean, squares / total**2 * n / (n - 1)


def array_of(labels: list[Any]) -> NDArray[Any]:
    """Labels as an array; of their own types, where these differ.

    >>> array_of([1, 2, "none"]).tolist(), array_of([1, 2, 0]).dtype.kind
    ([1, 2, 'none'], 'i')
    """
    types = {type(label.item() if isinstance(label, np.generic) else label) for label in labels}
    return np.array(labels, dtype=object) if len(types) > 1 else np.array(labels)
