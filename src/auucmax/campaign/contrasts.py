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

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from auucmax._validation import Bools, Floats
from auucmax.metrics.inference import SKEWED, Support
from auucmax.metrics.intervals import ArmMean, Moments, Spread, area_limits
from auucmax.results import Estimate

Codes = NDArray[np.intp]


def minus(own: Estimate, other: Estimate) -> Estimate:
    """Difference of two independent estimates; distances to the limits add in quadrature.

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

    ``y`` are kept in units of the largest one, so that fourth powers do not overflow. ``place``
    (n,): the number of arms times the row's cell, plus its arm, 0 for the control. ``groups``:
    codes of rows that belong together, or None. ``counts`` and ``means``: (cells, arms), 0 where
    there is no row. ``shape`` of the outcomes: see :class:`auucmax.metrics.inference.Support`.
    """

    def __init__(
        self,
        y: Floats,
        arm: Bools | Codes,
        cell: Codes,
        groups: Codes | None = None,
        n_cells: int = 0,
    ) -> None:
        n_arms = int(arm.max()) + 1
        n_places = n_arms * max(n_cells, int(cell.max()) + 1)
        self.unit = float(np.abs(y).max()) or 1.0
        self.y = y / self.unit
        self.groups = groups
        self.place: Codes = n_arms * cell + arm
        counts = np.bincount(self.place, minlength=n_places)
        means = np.bincount(self.place, self.y, minlength=n_places) / np.maximum(counts, 1)
        self.counts = counts.reshape(-1, n_arms)
        self.means: Floats = means.reshape(-1, n_arms)
        d = self.y - means[self.place]
        spread = float((d**2).mean()) or 1.0
        self.shape = "even"
        if groups is None and np.isin(self.y, (0.0, 1.0)).all():
            self.shape = "binary"
        elif abs(float((d**3).mean())) >= SKEWED * spread**1.5:
            self.shape = "skewed"

    def contrast(self, coefficients: Floats, level: float = 0.95) -> Estimate:
        """The contrast with these ``coefficients`` (cells, arms) of the means, with its interval.

        >>> y, treated = np.array([0, 1, 0, 1, 1, 1.0] * 20), np.arange(120) % 6 > 2
        >>> found = CellMeans(y, treated, np.zeros(120, dtype=np.intp))
        >>> found = found.contrast(np.array([[-1.0, 1.0]]))
        >>> [round(end, 3) for end in (found.value, found.se, found.lower, found.upper)]
        [0.667, 0.061, 0.527, 0.773]
        """
        flat, mean, counts = coefficients.ravel(), self.means.ravel(), self.counts.ravel()
        used = np.flatnonzero(flat)
        if not len(used):  # both sides are the same
            return Estimate(value=0.0, se=0.0, lower=0.0, upper=0.0)
        unit = np.arange(len(self.y)) if self.groups is None else self.groups
        moments, sizes = [], []
        for k in used:
            own, y = (column[self.place == k] for column in (unit, self.y))
            sizes.append([len(np.unique(some)) for some in (own, own[y != 0], own[y == 0])])
            moments.append(Moments.of(flat[k] / counts[k] * y))
        if self.groups is not None:
            some = np.isin(self.place, used)
            place = self.place[some]
            _, own = np.unique(self.groups[some], return_inverse=True)
            terms = flat[place] / counts[place] * (self.y[some] - mean[place])
            totals = np.bincount(own, terms).astype(np.float64)
            pairs, members = np.unique(len(flat) * own + place, return_counts=True)
            leverage = np.zeros(len(totals))
            np.maximum.at(leverage, pairs // len(flat), members / counts[pairs % len(flat)])
            moments = [Moments.of_clusters(totals, leverage)]
        value = float(flat @ mean)
        error = float(Spread.of(moments).error)
        units, responders, others = zip(*sizes, strict=True)
        support = Support(self.shape, units, responders, others, self.groups is not None)
        if why := support.why_no_area():
            known = error if np.isfinite(error) else None
            return Estimate(value=value, se=known, missing=why).scaled(self.unit)
        means = None
        if self.shape == "binary":
            sign, size = np.sign(flat).astype(int), np.abs(flat)
            means = [ArmMean(size[k] * mean[k], size[k], 1.0, counts[k], sign[k]) for k in used]
        lower, upper = area_limits(value, moments, float(ndtri((1 + level) / 2)), means=means)
        found = Estimate(value=value, se=error, lower=float(lower), upper=float(upper))
        return found.scaled(self.unit)
