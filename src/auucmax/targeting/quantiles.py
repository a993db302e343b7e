"""Map scores to shares of the trial's people, and detect shifts."""

from __future__ import annotations

import numpy as np

from auucmax._validation import Floats
from auucmax.results import LEAST_ROWS, Numbers, Result

LARGE_SHIFT = 0.1  #: share of people from which scores are distributed differently
FAR = 0.2  #: share of people from which they are not like those of the trial


class ScoreShift(Result):
    """Difference between the score distributions of new people and the trial.

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
        """Whether the shift exceeds a tenth of the people and chance."""
        return self.distance > max(LARGE_SHIFT, self.by_chance)

    @property
    def is_unlike(self) -> bool:
        """Whether the trial's results do not apply to such people."""
        return self.is_large and self.distance >= FAR


class ScoreQuantiles(Result):
    """Scores from the highest down, with the share of people above and at each.

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
        score, *_, shares = self._columns
        rises = (np.diff(score) < 0).all() and (np.diff(shares) >= 0).all()
        ends = shares.min(initial=1), shares.max(initial=0)
        if not rises or ends != (0, 1) or self.n_rows < 1:
            raise ValueError("score quantiles should have falling scores and rising shares.")

    @property
    def _columns(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Scores and alternating shares, for interpolation."""
        score, above, reach = np.array([self.score, self.above, self.reach])
        return score, above, reach, np.ravel([above, reach], order="F")

    @classmethod
    def of(
        cls, score: Floats, weight: Floats | None = None, least: int = LEAST_ROWS
    ) -> ScoreQuantiles:
        """Summarise scores, keeping only numbers about at least ``least`` people.

        Levels of so many people are kept; other scores become means of so many people around
        each percentile, or around wider shares for few people.
        """
        levels, code = np.unique(-score, return_inverse=True)
        # Kish's effective size: rows of unequal weight count as fewer.
        people = np.ones(len(score)) if weight is None else weight
        n_rows = float(people.sum() ** 2 / np.sum(people**2))
        share = np.append(0.0, np.cumsum(np.bincount(code, people)))
        share /= share[-1]
        counts = np.diff(share) * n_rows
        sums = np.append(0.0, np.cumsum(-levels * counts))
        wide = min(float(least), n_rows)
        cent = np.linspace(0, 1, int(np.clip(n_rows // least, 1, 100)) + 1)
        start = np.clip(cent * n_rows - wide / 2, 0, n_rows - wide)
        (mean,) = np.diff(np.interp([start, start + wide], share * n_rows, sums), axis=0) / wide
        # A per cent inside a large level is that level.
        large = np.flatnonzero(counts >= least - 1e-6)
        above, reach = share[large], share[large + 1]
        free = ~((cent[:, None] >= above) & (cent[:, None] <= reach)).any(axis=1)
        columns = np.hstack([np.array([mean, cent, cent])[:, free], [-levels[large], above, reach]])
        columns = columns[:, np.lexsort((-columns[0], columns[1]))]
        # Means around neighbouring shares may tie with a level: scores must fall strictly.
        lowest = np.minimum.accumulate(columns[0])
        columns = columns[:, np.append(True, columns[0, 1:] < lowest[:-1])]
        own, first, last = map(tuple, columns.tolist())
        return cls(score=own, above=first, reach=last, n_rows=n_rows)

    def cut(self, share: Floats) -> tuple[Floats, Floats]:
        """Score that cuts off each share, and the fraction of ties to take.

        Infinite for nobody and minus infinite for everybody.
        """
        score, above, reach, shares = self._columns
        # A share that equals a level's up to rounding is cut off by that level, not the next.
        threshold = np.interp(share - 1e-10, shares, np.repeat(score, 2))
        number = np.minimum(np.searchsorted(-score, -threshold), len(score) - 1)
        level = np.where(score[number] == threshold, (reach - above)[number], 0.0)
        part = np.divide(share - above[number], level, out=np.ones(len(share)), where=level > 0)
        threshold = np.where(share <= 0, np.inf, np.where(share >= 1, -np.inf, threshold))
        return threshold, np.clip(part, 0, 1)

    def share_of(self, threshold: float, part: float) -> float:
        """Share of people above a score, plus a fraction of those at it."""
        score, *_, shares = self._columns
        if level := self.level_of(threshold):
            return level[0] + part * (level[1] - level[0])
        return float(np.interp(-threshold, -np.repeat(score, 2), shares, left=0.0, right=1.0))

    def level_of(self, threshold: float) -> tuple[float, float] | None:
        """Shares of people above a kept score, and at or above it; None for any other score."""
        if threshold not in self.score:
            return None
        number = self.score.index(threshold)
        return self.above[number], self.reach[number]

    def count(self, new: Floats, share: Floats) -> Floats:
        """Number of new people at each share of the trial's people."""
        threshold, part = self.cut(share)
        above, reach = _tops(new, threshold)
        return above + np.rint(part * (reach - above))

    def shift(self, new: Floats, n_compared: int = 1) -> ScoreShift:
        """Compare the scores of new people, for ``n_compared`` arms together."""
        score, above, reach, _ = self._columns
        own = _tops(new, score) / len(new)
        chance = np.sqrt(np.log(2 * n_compared / 0.001) / 2 * (1 / self.n_rows + 1 / len(new)))
        return ScoreShift(
            distance=float(np.abs(own - [above, reach]).max()),
            by_chance=float(chance),
            above=float(np.mean(new > score[0])),
            below=float(np.mean(new < score[-1])),
        )


def _tops(new: Floats, score: Floats) -> Floats:
    """Numbers of new people above, and at or above, each score, (2, scores)."""
    cohort = np.sort(new)
    reached = [np.searchsorted(cohort, score, side="right"), np.searchsorted(cohort, score)]
    return len(new) - np.array(reached, dtype=np.float64)
