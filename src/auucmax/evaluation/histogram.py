"""Rows that are too many for memory: a histogram of scores holds what evaluation needs of them.

A :class:`ScoreHistogram` keeps, for each arm and bin of scores, a few sums of the outcome.
Histograms of batches add up to that of all rows, and AUUC, its standard error, the uplift curve and
a certificate (:func:`auucmax.certify`) come from the sums alone. Rows of a bin count as tied, and
each result comes with a proven limit on what that can change; a bin whose rows have one score
changes nothing, since they are tied.

What the proofs share: n_b rows of a bin have ranks that follow each other, so with d_i the rank of
row i minus the mean rank of its bin, the d of a bin are the numbers -(n_b - 1)/2, ..., (n_b - 1)/2
in some order, or averages over such orders where scores tie. Edges may be chosen by looking at the
rows: nothing below asks how they were.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from auucmax._validation import (
    Floats,
    check_choice,
    check_column,
    check_level,
    check_mask,
)
from auucmax.evaluation.auuc import RANKINGS, RankingKind
from auucmax.evaluation.inference import AUUCInference, interval_around, p_value_of
from auucmax.evaluation.ranking import rank_rows

__all__ = ["ScoreHistogram"]

_SIGNS = np.array([[-1.0], [1.0]])  # of an arm's mean in an effect: control, treated


@dataclass(frozen=True, eq=False, repr=False)
class ScoreHistogram:
    """Sums of the outcome in bins of scores; the sum of two histograms is that of all their rows.

    ``edges`` (B - 1,), strictly increasing: bin b holds edges[b - 1] < score <= edges[b].
    ``sums`` (2, B, 4): for the control (0) and the treated (1) rows of a bin, their number and the
    sums of y, y^2 and |y|. ``low``, ``high`` (B,): smallest and largest score of a bin, infinite
    where it is empty; ``outcome_low``, ``outcome_high``: of y.

    Sums of y^2 lose digits when outcomes are far from 0 for their spread: subtract a constant then.

    Examples
    --------
    >>> y, score, treated = [1, 0, 1, 0], [4, 3, 2, 1], [True, True, False, False]
    >>> halves = [ScoreHistogram.of(y[h], score[h], treated[h], edges=[1.5, 2.5, 3.5])
    ...           for h in (slice(0, 3), slice(3, 4))]
    >>> whole = halves[0] + halves[1]
    >>> whole
    ScoreHistogram(4 rows in 4 bins)
    >>> whole.auuc(), whole.auuc_error()
    (0.25, 0.0)
    """

    edges: Floats
    sums: Floats
    low: Floats
    high: Floats
    outcome_low: float
    outcome_high: float

    @classmethod
    def of(
        cls, y: ArrayLike, score: ArrayLike, treated: ArrayLike, edges: ArrayLike
    ) -> ScoreHistogram:
        """Histogram of some rows; they may be of one arm, or none."""
        edges = _check_edges(edges)
        n_bins = len(edges) + 1
        sums, low, high = (
            np.zeros((2, n_bins, 4)),
            np.full(n_bins, np.inf),
            np.full(n_bins, -np.inf),
        )
        if np.size(y) == np.size(score) == 0:
            return cls(edges, sums, low, high, np.inf, -np.inf)
        y = check_column(y, "y")
        score = check_column(score, "score", len(y))
        arm = check_mask(treated, "treated", len(y))
        # Looking up the edges in sorted scores takes a tenth of the time of looking up each score.
        order = rank_rows(score).order
        score, y = score.take(order), y.take(order)
        ends = np.append(np.searchsorted(score, edges, side="right"), len(y))
        counts = np.diff(ends, prepend=0)
        filled = counts > 0
        low[filled] = score[ends[filled] - counts[filled]]
        high[filled] = score[ends[filled] - 1]
        cell = np.repeat(np.arange(n_bins), counts)
        cell += n_bins * arm.take(order)
        outcome_low, outcome_high = float(y.min()), float(y.max())
        sums[:, :, 0] = _cell_sums(cell, None, n_bins)
        sums[:, :, 1] = _cell_sums(cell, y, n_bins)
        square = np.square(y)
        same = np.array_equal(square, y)  # outcomes are 0 or 1
        sums[:, :, 2] = sums[:, :, 1] if same else _cell_sums(cell, square, n_bins)
        sums[:, :, 3] = sums[:, :, 1] if outcome_low >= 0 else _cell_sums(cell, np.abs(y), n_bins)
        return cls(edges, sums, low, high, outcome_low, outcome_high)

    def __add__(self, other: ScoreHistogram) -> ScoreHistogram:
        if not isinstance(other, ScoreHistogram):
            return NotImplemented
        if self.edges is not other.edges and not np.array_equal(self.edges, other.edges):
            raise ValueError(
                f"histograms that are added should have the same edges, got {self.n_bins} and "
                f"{other.n_bins} bins with different ones. Make both with the same edges."
            )
        return ScoreHistogram(
            self.edges,
            self.sums + other.sums,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            min(self.outcome_low, other.outcome_low),
            max(self.outcome_high, other.outcome_high),
        )

    def __repr__(self) -> str:
        return f"ScoreHistogram({self.n_rows:,} rows in {self.n_bins:,} bins)"

    @property
    def n_bins(self) -> int:
        return len(self.low)

    @property
    def n_rows(self) -> int:
        return int(self.sums[:, :, 0].sum())

    @property
    def arm_rows(self) -> tuple[int, int]:
        """Number of control and of treated rows."""
        control, treated = self.sums[:, :, 0].sum(axis=1)
        return int(control), int(treated)

    @property
    def binary(self) -> bool:
        """Whether every outcome is 0 or 1: between them y^2 = y for no other number."""
        inside = self.outcome_low >= 0 and self.outcome_high <= 1
        return inside and np.array_equal(self.sums[:, :, 1], self.sums[:, :, 2])

    def below(self, ranking: RankingKind = "joint") -> Floats:
        """Share of rows ranked below those of each bin, half of the bin included; (2, B).

        Of all rows, or of the same arm's (``"separate"``).
        """
        ranked, totals = self._ranked(ranking)
        return (np.cumsum(ranked, axis=1) - ranked / 2) / totals

    def auuc(self, ranking: RankingKind = "joint") -> float:
        """:func:`auuc_score` of the rows, with the number of the bin in the place of the score."""
        (ranked, totals), arms = self._ranked(ranking), self._arms()
        # Sums first, the ratio last, as there: exact for 0/1 outcomes.
        below = np.cumsum(ranked, axis=1) - ranked / 2
        areas = (below * self.sums[:, :, 1]).sum(axis=1, keepdims=True) / (totals * arms)
        return float((_SIGNS * areas).sum())

    def auuc_error(self, ranking: RankingKind = "joint") -> float:
        """Largest possible difference between :meth:`auuc` and AUUC of the exact scores.

        With P the sum of the positive outcomes of an arm in a bin, M the largest of all outcomes,
        N the same for the negative ones and m for the smallest (as positive numbers),

            sum over arms and bins of [P (n_b - max(1, P/M)) + N (n_b - max(1, N/m))] / (2 n n_g)

        over bins with more than one score; for 0/1 outcomes P/M is the number of responders.
        Ranked separately, n_b and n count the arm's rows only. The gain over random,
        AUUC - ATE/2, has the same limit, since the effect does not depend on bins.

        *Proof.* The difference is the sum of +- y_i d_i / (n n_g). Take the positive y of an arm in
        a bin. No d_i exceeds (n_b - 1)/2, so their sum(y d) is at most P (n_b - 1)/2. Given P it is
        largest if as many rows as possible have y = M and stand above the rest of the bin: k = P/M
        of them, if k is whole, and the k largest d sum to k (n_b - k)/2. Between whole k the
        largest sum is linear in P, so it stays below the concave P (n_b - P/M)/2. Numbers d are
        symmetric around 0, so -sum(y d) has the same limit, and so have the negative y. With 0/1
        outcomes the limit is reached: treated responders on top of each bin, control responders at
        its bottom.
        """
        (ranked, totals), arms = self._ranked(ranking), self._arms()
        cost = np.zeros_like(ranked)
        ends = max(self.outcome_high, 0.0), max(-self.outcome_low, 0.0)
        for part, most in zip(self._signed_parts(), ends, strict=True):
            if most > 0:
                cost += part * np.maximum(ranked - np.maximum(part / most, 1.0), 0.0)
        return float((cost * self._mixed / (2 * totals * arms)).sum())

    def rank_error(self) -> float:
        """Largest possible change of a row's share of rows below it: max of (n_b - 1) / (2 n).

        Over bins with more than one score; 0 if there are none.
        """
        rows = self.sums[:, :, 0].sum(axis=0)[self._mixed]
        return float((rows.max() - 1) / (2 * self.n_rows)) if len(rows) else 0.0

    def inference(self, level: float = 0.95, ranking: RankingKind = "joint") -> AUUCInference:
        """:func:`auuc_inference` of the rows with bin numbers for scores, and what bins cost.

        Within an arm and a bin the terms psi are linear in y, so the sums of y and y^2 give their
        variance. The intervals contain those of the exact scores, and ``p_value`` is not below
        theirs: to t standard errors are added ``bin_error`` (:meth:`auuc_error`) and t times

            sqrt(sum over arms of n_g / (n_g - 1) sum over rows of c_i^2),
            c_i = [|y_i| (n_b - 1) / n_g + (sum of |y| / n_g over the bin's rows)] / (2n).

        *Proof.* The standard error is a seminorm of psi, so it changes by at most the norm of the
        change of psi. There u_i changes by at most (n_b - 1)/(2n), and the curve V_i, which counts
        half of the bin, by at most half of the sum of the absolute terms of the bin.
        """
        check_level(level)
        arms = self._arms()
        half_effect = 0.5 * float(
            (_SIGNS * self.sums[:, :, 1].sum(axis=1, keepdims=True) / arms).sum()
        )
        estimate, bin_error = self.auuc(ranking), self.auuc_error(ranking)
        gain = estimate - half_effect
        error, gain_error = (self._standard_error(ranking, centre) for centre in (0.0, 0.5))
        if np.count_nonzero(np.isfinite(self.low)) == 1:
            warnings.warn(
                "score should tell rows apart, got one bin for all of them: AUUC is then ATE/2 and "
                "the gain over random zero, by definition. Check the model, or the edges.",
                UserWarning,
                stacklevel=2,
            )
            gain, gain_error = 0.0, 0.0 * gain_error
        degrees, more = int(arms.min()) - 1, self._standard_error_cost(ranking)

        def widened(value: float, error: float) -> tuple[float, float]:
            low, high = interval_around(value, error + more, level, degrees)
            return low - bin_error, high + bin_error

        return AUUCInference(
            estimate=estimate,
            standard_error=error,
            interval=widened(estimate, error),
            gain=gain,
            gain_standard_error=gain_error,
            gain_interval=widened(gain, gain_error),
            p_value=p_value_of(max(abs(gain) - bin_error, 0.0), gain_error + more, degrees),
            level=level,
            n_rows=self.n_rows,
            bin_error=bin_error,
        )

    def curve(self) -> tuple[Floats, Floats]:
        """:func:`uplift_curve` at the bins' edges, where it is that of the exact scores.

        Returns
        -------
        share, uplift : both (1 + number of bins with rows,)
        """
        arms = self._arms()
        filled = np.isfinite(self.low)[::-1]
        rows = self.sums[:, ::-1, 0].sum(axis=0)[filled]
        gains = (_SIGNS * self.sums[:, ::-1, 1] / arms).sum(axis=0)[filled]
        share, uplift = np.zeros(len(rows) + 1), np.zeros(len(rows) + 1)
        share[1:] = np.cumsum(rows) / self.n_rows
        np.cumsum(gains, out=uplift[1:])
        return share, uplift

    def curve_error(self) -> float:
        """Largest possible distance of the exact curve from the lines that join the knots.

        max over bins with more than one score of max(P, N), P and -N the sums of the positive and
        negative terms +- y_i / n_g of the bin.

        *Proof.* Where a share x of the bin is treated, row i counts w_i in [0, 1] in the exact
        curve, x in the line: the difference, sum of (w_i - x) s_i over the terms s_i, is at most
        (1 - x) P + x N, and at least -(x P + (1 - x) N).
        """
        positive, negative = self._signed_parts() / self._arms()
        ups, downs = positive[1] + negative[0], positive[0] + negative[1]
        return float(np.max(np.maximum(ups, downs) * self._mixed))

    @property
    def _mixed(self) -> NDArray[np.bool_]:
        """Bins with more than one score: only there does it matter that rows count as tied."""
        return self.low < self.high

    def _arms(self) -> Floats:
        """Number of control and treated rows, (2, 1); none may be 0."""
        control, treated = self.arm_rows
        if not (control and treated):
            raise ValueError(
                f"a histogram should hold rows of both arms, got {treated} treated and {control} "
                f"control rows. An effect needs both: check which rows were read."
            )
        return np.array([[control], [treated]], dtype=np.float64)

    def _ranked(self, ranking: str) -> tuple[Floats, Floats]:
        """Rows of each bin that are ranked with an arm's (2, B), and their total (2, 1)."""
        check_choice(ranking, "ranking", RANKINGS)
        rows = self.sums[:, :, 0]
        ranked = rows if ranking == "separate" else np.broadcast_to(rows.sum(axis=0), rows.shape)
        return ranked, ranked.sum(axis=1, keepdims=True)

    def _signed_parts(self) -> Floats:
        """Sums of positive and, as positive numbers, of negative outcomes; (2, 2, B)."""
        outcome, size = self.sums[:, :, 1], self.sums[:, :, 3]
        return np.maximum(np.stack([size + outcome, size - outcome]) / 2, 0.0)

    def _standard_error(self, ranking: RankingKind, centre: float) -> float:
        """Of mean(y (u - centre) | T) - mean(y (u - centre) | C)."""
        (_, totals), arms = self._ranked(ranking), self._arms()
        rows, outcome, square, _ = np.moveaxis(self.sums, 2, 0)
        terms = _SIGNS * outcome / arms
        if ranking == "joint":
            terms = np.broadcast_to(terms.sum(axis=0), terms.shape)
        above = terms.sum(axis=1, keepdims=True) - np.cumsum(terms, axis=1) + terms / 2
        # psi = slope y + level in an arm and bin.
        slope = _SIGNS * (self.below(ranking) - centre) / arms
        level = above / totals
        mean = (slope * outcome + level * rows).sum(axis=1, keepdims=True) / arms
        present = np.maximum(rows, 1.0)
        between = rows * (slope * (outcome / present) + level - mean) ** 2
        within = slope**2 * np.maximum(square - outcome**2 / present, 0.0)
        return _root_of_squares(between + within, arms)

    def _standard_error_cost(self, ranking: str) -> float:
        """What bins can change in the standard errors: the norm of the c_i of :meth:`inference`."""
        (ranked, totals), arms = self._ranked(ranking), self._arms()
        rows, _, square, size = np.moveaxis(self.sums, 2, 0)
        terms = size / arms
        if ranking == "joint":
            terms = np.broadcast_to(terms.sum(axis=0), terms.shape)
        own, curve = np.maximum(ranked - 1, 0.0) / (2 * totals * arms), terms / (2 * totals)
        squares = own**2 * square + 2 * own * curve * size + curve**2 * rows
        return _root_of_squares(squares * self._mixed, arms)


def _root_of_squares(squares: Floats, arms: Floats) -> float:
    """Square root of the sum over arms of n_g / (n_g - 1) times the squares of its bins (2, B)."""
    if arms.min() < 2:
        return float("nan")
    return float(np.sqrt((squares.sum(axis=1, keepdims=True) * arms / (arms - 1)).sum()))


def _cell_sums(cell: NDArray[np.int64], values: Floats | None, n_bins: int) -> NDArray[Any]:
    return np.bincount(cell, weights=values, minlength=2 * n_bins).reshape(2, n_bins)


def _check_edges(edges: ArrayLike) -> Floats:
    array = np.asarray(edges, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all() or not (array[1:] > array[:-1]).all():
        raise ValueError(
            f"edges should be strictly increasing finite numbers, got an array of shape "
            f"{array.shape} that is not. Make them with score_edges."
        )
    return array
