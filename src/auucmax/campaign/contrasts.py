"""Sums of mean outcomes over cells and arms, with intervals.

A *cell* holds rows with the same chosen arm and the same propensities. With m_ca the mean outcome
of arm a in cell c, every gain of a campaign is a contrast, sum over cells and arms of k_ca m_ca:
for the gain of treating a list k is plus or minus its people in the cell, in the treated and in the
control arm.

Intervals: for 0/1 outcomes of independent rows the score limits of each mean, joined as Newcombe
joins two (Donner and Zou 2012); otherwise Student's t with Hall's transformation, on the totals of
groups if rows belong together. With too few rows there is no interval, and the reason is kept.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from auucmax._validation import Bools, Floats
from auucmax.metrics.inference import SKEWED, Support
from auucmax.metrics.intervals import ArmMean, Moments, Spread, area_limits
from auucmax.results import Estimate

Codes = NDArray[np.intp]


def scaled(own: Estimate, factor: float, shift: float = 0.0) -> Estimate:
    """The estimate times a positive ``factor``, plus ``shift``."""
    ends = (None if end is None else factor * end + shift for end in (own.lower, own.upper))
    se = None if own.se is None else factor * own.se
    lower, upper = ends
    return replace(own, value=factor * own.value + shift, se=se, lower=lower, upper=upper)


def minus(own: Estimate, other: Estimate) -> Estimate:
    """Difference of two independent estimates; interval arms add in quadrature.

    >>> found = minus(
    ...     Estimate(value=5.0, se=2.0, lower=1.0, upper=9.0),
    ...     Estimate(value=2.0, se=1.5, lower=-1.0, upper=5.0),
    ... )
    >>> found.value, found.lower, found.upper
    (3.0, -2.0, 8.0)
    """
    value, se = own.value - other.value, float(np.hypot(own.se or 0.0, other.se or 0.0))
    if own.lower is None or own.upper is None or other.lower is None or other.upper is None:
        return Estimate(value=value, se=se, missing=own.missing or other.missing)
    below = float(np.hypot(own.value - own.lower, other.upper - other.value))
    above = float(np.hypot(own.upper - own.value, other.value - other.lower))
    return Estimate(value=value, se=se, lower=value - below, upper=value + above)


class CellMeans:
    """Mean outcomes of the rows of each cell and arm.

    ``y`` are kept in units of the largest one: their fourth powers are numbers. ``place`` (n,): the
    number of arms times the row's cell, plus its arm, 0 for the control. ``groups``: codes of rows
    that belong together, or None. ``counts`` and ``means``: (cells, arms), 0 where there is no row.
    """

    def __init__(
        self,
        y: Floats,
        arm: Bools | Codes,
        cell: Codes,
        groups: Codes | None = None,
        n_cells: int | None = None,
        n_arms: int = 2,
    ) -> None:
        shape = (int(cell.max()) + 1 if n_cells is None else n_cells, n_arms)
        self.unit = float(np.abs(y).max()) or 1.0
        self.y = y / self.unit
        self.groups = groups
        self.place: Codes = n_arms * cell + arm
        self.counts = np.bincount(self.place, minlength=shape[0] * n_arms).reshape(shape)
        sums = np.bincount(self.place, self.y, minlength=shape[0] * n_arms).reshape(shape)
        self.means: Floats = sums / np.maximum(self.counts, 1)

    def contrast(self, coefficients: Floats, level: float = 0.95) -> Estimate:
        """The contrast with these ``coefficients`` (cells, arms) of the means, with its interval.

        >>> y, treated = np.array([0, 1, 0, 1, 1, 1.0] * 20), np.arange(120) % 6 > 2
        >>> found = CellMeans(y, treated, np.zeros(120, dtype=np.intp))
        >>> found = found.contrast(np.array([[-1.0, 1.0]]))
        >>> [round(end, 3) for end in (found.value, found.se, found.lower, found.upper)]
        [0.667, 0.061, 0.527, 0.773]
        """
        flat, mean = coefficients.ravel(), self.means.ravel()
        used = np.flatnonzero(flat)
        if not len(used):  # both sides are the same
            return Estimate(value=0.0, se=0.0, lower=0.0, upper=0.0)
        value = float(flat @ mean)
        moments = self._moments(flat, used)
        error = float(Spread.of(moments).error)
        if why := self._support(used).why_no_area():
            known = error if np.isfinite(error) else None
            return scaled(Estimate(value=value, se=known, missing=why), self.unit)
        multiple = float(ndtri((1 + level) / 2))
        lower, upper = area_limits(value, moments, multiple)
        if self._shape == "binary":
            # Wilson's limits of each mean, joined: the squares of their distances add.
            low, high = ArmMean(mean, 1.0, 1.0, np.maximum(self.counts.ravel(), 1)).limits(multiple)
            below, above = (
                np.linalg.norm(flat * np.where((flat > 0) == is_below, mean - low, high - mean))
                for is_below in (True, False)
            )
            lower, upper = value - below, value + above
        found = Estimate(value=value, se=error, lower=float(lower), upper=float(upper))
        return scaled(found, self.unit)

    def _moments(self, flat: Floats, used: Codes) -> list[Moments]:
        counts = self.counts.ravel()
        if self.groups is None:
            return [Moments.of(flat[k] / counts[k] * self.y[self.place == k]) for k in used]
        scale = np.divide(flat, counts, out=np.zeros(len(flat)), where=counts > 0)
        terms = scale[self.place] * (self.y - self.means.ravel()[self.place])
        some = np.isin(self.place, used)
        _, own = np.unique(self.groups[some], return_inverse=True)
        leverage = np.zeros(int(own.max()) + 1)
        for k in used:
            members = np.bincount(own[self.place[some] == k], minlength=len(leverage))
            leverage = np.maximum(leverage, members / counts[k])
        totals = np.bincount(own, terms[some]).astype(np.float64)
        return [Moments.of_clusters(totals, leverage)]

    def _support(self, used: Codes) -> Support:
        """The number of rows that support the interval of a contrast."""
        unit = np.arange(len(self.y)) if self.groups is None else self.groups
        found = []
        for k in used:
            rows = self.place == k
            own, responds = unit[rows], self.y[rows] != 0
            found.append([len(np.unique(own[p])) for p in (..., responds, ~responds)])
        units, responders, others = zip(*found, strict=True)
        return Support(self._shape, units, responders, others, self.groups is not None)

    @cached_property
    def _shape(self) -> str:
        if self.groups is None and np.isin(self.y, (0.0, 1.0)).all():
            return "binary"
        d = self.y - self.means.ravel()[self.place]
        spread = float((d**2).mean())
        skew = float((d**3).mean()) / spread**1.5 if spread > 0 else 0.0
        return "skewed" if abs(skew) >= SKEWED else "even"
