"""Slow twins that tests compare with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from auucmax._validation import Bools, Floats
from auucmax.estimators.boosted import GAP, STEPS, Bins, Boosting, Codes, Growth, Tree
from auucmax.estimators.targets import BINOMIAL, Loss


def mean_of(loss: Loss, z: Floats) -> Floats:
    """Mean outcome at a linear predictor."""
    return np.asarray(expit(z)) if loss is BINOMIAL else z


def grow_slow(boosting: Boosting) -> Tree | None:
    """Slow twin: the next tree of :class:`Boosting`, row by row; None if there is none."""
    how, sums = boosting.growth, _Sums.of(boosting)
    node = np.zeros(len(sums.gradient), dtype=np.int64)
    splits: list[tuple[int, ...]] = []
    is_open = {0: [True] * len(boosting.bins.cuts)}  # columns of each leaf that may be split by
    found = {0: sums.best_split(node == 0, how, is_open[0])}
    while len(splits) < how.n_leaves - 1:
        leaf = max(found, key=lambda k: found[k][0])
        gain, (column, code, gap_left) = found[leaf]
        if not gain > 0:
            break
        splits.append((leaf, column, code, gap_left))
        right = (node == leaf) & sums.is_right(column, code, gap_left)
        node[right] = len(splits)
        is_open[len(splits)] = is_open[leaf].copy()
        for child in (leaf, len(splits)):
            found[child] = sums.best_split(node == child, how, is_open[child])
    leaves = [sums.value(node == leaf, how) for leaf in range(len(splits) + 1)]
    return Tree(np.array(splits), how.rate * np.array(leaves)) if splits else None


class _Sums(NamedTuple):
    """Training rows: codes (columns, m) with integer gradients and Hessians (m,)."""

    bins: Bins
    codes: Codes
    gradient: Floats
    hessian: Floats
    scales: Floats

    @classmethod
    def of(cls, run: Boosting) -> _Sums:
        rows = np.concatenate([np.arange(start, stop) for start, stop in run.parts])
        slope, pull = run.slope[rows], run.slope[rows] * run.weight[rows]
        z = run.offset[rows] + slope * run.score[rows]
        gradient = np.rint(pull * (mean_of(run.loss, z) - run.y[rows]) * run.scales[0])
        gradient = np.clip(gradient, -STEPS[0], STEPS[0])
        hessian = np.rint(pull * slope * run.loss.hessian(z) * run.scales[1])
        return cls(run.bins, run.bins.codes[:, rows], gradient, hessian, run.scales)

    def is_right(self, column: int, code: int, gap_left: int) -> Bools:
        own = self.codes[column]
        return (own > code) & ~((own == GAP) & bool(gap_left))

    def value(self, some: Bools, how: Growth) -> float:
        """Newton step for these rows."""
        first, second = self.gradient[some].sum(), self.hessian[some].sum()
        return float(-(first / self.scales[0]) / (second / self.scales[1] + how.penalty))

    def gain(self, some: Bools, how: Growth) -> float:
        return -self.value(some, how) * float(self.gradient[some].sum() / self.scales[0])

    def best_split(
        self, inside: Bools, how: Growth, is_open: list[bool]
    ) -> tuple[float, tuple[int, int, int]]:
        """Best split: gain (or 0), column, last code on the left, side of missing values."""
        best, found = 0.0, (0, 0, 0)
        each = inside.sum() / self.hessian[inside].sum()
        for column, cuts in enumerate(self.bins.cuts):
            if not is_open[column]:
                continue
            is_open[column] = False
            # Rows are counted by their Hessians, code by code.
            counts = np.bincount(self.codes[column, inside], self.hessian[inside], minlength=256)
            counts = np.floor(counts * each + 0.5)
            for gap_left in (1, 0) if self.bins.has_gap[column] else (1,):
                for code in range(len(cuts) - gap_left, -1, -1):
                    right = inside & self.is_right(column, code, gap_left)
                    left = inside & ~right
                    n_right = counts[code + 1 : len(cuts) + 1].sum() + (1 - gap_left) * counts[GAP]
                    smallest = min(self.hessian[side].sum() for side in (left, right))
                    gain = sum(self.gain(side, how) for side in (left, right))
                    gain -= self.gain(inside, how)
                    if (
                        min(n_right, inside.sum() - n_right) >= how.least_rows
                        and smallest >= how.least_hessian * self.scales[1]
                        and gain > 1e-12
                    ):
                        is_open[column] = True
                        if gain > best * (1 + 1e-12):
                            best, found = gain, (column, code, gap_left)
        return best, found
