"""Which share of the trial's people is above each score of a model."""

from __future__ import annotations

import numpy as np

from auucmax._validation import Floats
from auucmax.results import Numbers, Result

LARGE_SHIFT = 0.1  #: of the people, from which on scores are distributed differently
FAR = 0.2  #: of the people, from which on they are not like those of the trial


class ScoreShift(Result):
    """How differently scores of new people are distributed from those of the trial.

    ``distance`` is the largest difference, over all thresholds, of the shares of people above it
    (Kolmogorov and Smirnov); two samples of one population exceed ``by_chance`` once in a thousand
    times. ``above`` and ``below`` are the shares of new people beyond the trial's scores.
    """

    distance: float
    by_chance: float
    above: float
    below: float

    @property
    def is_large(self) -> bool:
        """More than a tenth of the people, and more than chance explains."""
        return self.distance > max(LARGE_SHIFT, self.by_chance)

    @property
    def is_unlike(self) -> bool:
        """The trial says nothing about such people."""
        return self.is_large and self.distance >= FAR


class ScoreQuantiles(Result):
    """Scores, from the highest down, with the share of people above each and at least at each.

    None of them is the score of fewer than 20 people. Between two scores the share is a straight
    line. ``n_rows`` is the number of rows behind, less if their weights differ.

    >>> found = ScoreQuantiles.of(np.repeat([3.0, 1.0, 2.0], [20, 40, 20]))
    >>> found.score, found.above, found.reach
    ((3.0, 2.0, 1.0), (0.0, 0.25, 0.5), (0.25, 0.5, 1.0))
    """

    score: Numbers
    above: Numbers
    reach: Numbers
    n_rows: float

    def __post_init__(self) -> None:
        score, above, reach = self._columns
        ok = len(score) == len(above) == len(reach) > 0 and self.n_rows >= 1
        ok = ok and bool((np.diff(score) < 0).all()) and (above[0], reach[-1]) == (0, 1)
        if not ok or (above > reach).any() or (reach[:-1] > above[1:]).any():
            raise ValueError("score quantiles should have falling scores and rising shares.")

    @property
    def _columns(self) -> tuple[Floats, Floats, Floats]:
        return np.array(self.score), np.array(self.above), np.array(self.reach)

    @classmethod
    def of(cls, score: Floats, weight: Floats | None = None, least: int = 20) -> ScoreQuantiles:
        """Quantiles of scores: levels of ``least`` people are kept, otherwise the mean score of so
        many people around each per cent, or around shares with so many people between them."""
        levels, code = np.unique(-score, return_inverse=True)
        # Kish's effective size: rows of unequal weight count as fewer.
        people = np.ones(len(score)) if weight is None else weight
        n_rows = float(people.sum() ** 2 / np.sum(people**2))
        total = np.concatenate([[0.0], np.cumsum(np.bincount(code, people))])
        share = total / total[-1]
        counts = np.diff(share) * n_rows
        sums = np.concatenate([[0.0], np.cumsum(-levels * counts)])
        wide = min(float(least), n_rows)
        cent = np.linspace(0, 1, int(np.clip(n_rows // least, 1, 100)) + 1)
        start = np.clip(cent * n_rows - wide / 2, 0, n_rows - wide)
        ends = np.interp([start, start + wide], share * n_rows, sums)
        # A per cent inside a large level is that level.
        large = np.flatnonzero(counts >= least - 1e-6)
        free = ~((cent[:, None] >= share[large]) & (cent[:, None] <= share[large + 1])).any(axis=1)
        own_score = np.concatenate([(ends[1] - ends[0])[free] / wide, -levels[large]])
        above = np.concatenate([cent[free], share[large]])
        reach = np.concatenate([cent[free], share[large + 1]])
        order = np.lexsort((-own_score, above))
        # Means around neighbouring shares may tie with a level: scores must fall strictly.
        lowest = np.minimum.accumulate(own_score[order])
        order = order[np.concatenate([[True], own_score[order][1:] < lowest[:-1]])]
        found = [tuple(column[order].tolist()) for column in (own_score, above, reach)]
        return cls(score=found[0], above=found[1], reach=found[2], n_rows=n_rows)

    def cut(self, share: Floats) -> tuple[Floats, Floats]:
        """The score that cuts off each share, and the part of the people at it that is taken.

        Infinite for nobody and minus infinite for everybody.
        """
        score, above, reach = self._columns
        # A share that is a level's own but for rounding is cut off by that level, not the next.
        shares = np.column_stack([above, reach]).ravel()
        threshold = np.interp(share - 1e-10, shares, np.repeat(score, 2))
        number = np.minimum(np.searchsorted(-score, -threshold), len(score) - 1)
        level = reach[number] - above[number]
        is_level = (score[number] == threshold) & (level > 0)
        part = np.divide(share - above[number], level, out=np.ones(len(share)), where=is_level)
        threshold = np.where(share <= 0, np.inf, np.where(share >= 1, -np.inf, threshold))
        return threshold, np.clip(part, 0, 1)

    def share_of(self, threshold: float, part: float) -> float:
        """The share of people above a score, and the given part of those at it."""
        score, above, reach = self._columns
        number = int(np.searchsorted(-score, -threshold))
        if number < len(score) and score[number] == threshold:
            return float(above[number] + part * (reach[number] - above[number]))
        shares = np.column_stack([above, reach]).ravel()
        return float(np.interp(-threshold, -np.repeat(score, 2), shares, left=0.0, right=1.0))

    def count(self, new: Floats, share: Floats) -> Floats:
        """How many of new people each share of the trial's people stands for."""
        cohort = np.sort(new)
        threshold, part = self.cut(share)
        n_above, n_reach = (
            len(cohort) - np.searchsorted(cohort, threshold, side=side)
            for side in ("right", "left")
        )
        return np.asarray(n_above + np.rint(part * (n_reach - n_above)), dtype=np.float64)

    def shift(self, new: Floats, n_compared: int = 1) -> ScoreShift:
        """How far scores of new people are from these; of ``n_compared`` arms together."""
        cohort = np.sort(new)
        score, above, reach = self._columns
        own_above, own_reach = (
            (len(cohort) - np.searchsorted(cohort, score, side=side)) / len(cohort)
            for side in ("right", "left")
        )
        distance = max(np.abs(own_above - above).max(), np.abs(own_reach - reach).max())
        chance = np.sqrt(np.log(2 * n_compared / 0.001) / 2 * (1 / self.n_rows + 1 / len(cohort)))
        return ScoreShift(
            distance=float(distance),
            by_chance=float(chance),
            above=float(np.mean(cohort > score[0])),
            below=float(np.mean(cohort < score[-1])),
        )
