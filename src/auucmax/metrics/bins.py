"""Levels from binned scores: sums for rows that do not fit into memory.

A :class:`BinnedLevels` keeps, for each arm and bin of scores, a few sums of the outcome. Tables of
batches add up to that of all rows, and AUUC, its standard error, the uplift curve and a certificate
(:func:`auucmax.certify`) come from the sums alone. Rows of a bin count as tied, and each result
comes with a proven limit on what that can change; a bin whose rows have one score changes nothing,
since they are tied.

What the proofs share: n_b rows of a bin have ranks that follow each other, so with d_i the rank of
row i minus the mean rank of its bin, the d of a bin are the numbers -(n_b - 1)/2, ..., (n_b - 1)/2
in some order, or averages over such orders where scores tie. Edges may be chosen by looking at the
rows: nothing below asks how they were.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from auucmax._validation import Floats, check_choice, check_column, check_mask, check_whole
from auucmax.data.reading import read_table
from auucmax.data.tables import check_columns
from auucmax.metrics.curves import ArmSweep
from auucmax.metrics.inference import ClusterUnits, Support
from auucmax.metrics.intervals import small_sample
from auucmax.metrics.levels import Levels
from auucmax.metrics.ranking import RANKINGS, RankedRows, RankingKind, rank_rows
from auucmax.rows import Batch, Rows, Sample

N_BINS = 65_536


@dataclass(frozen=True, eq=False, repr=False)
class BinnedLevels(Levels):
    """Sums of outcomes in bins of scores; tables of different rows add.

    ``edges`` (B - 1,), strictly increasing: bin b holds edges[b - 1] < score <= edges[b].
    ``sums`` (2, B, 4): for the control (0) and the treated (1) rows of a bin, their number and the
    sums of y, y^2 and |y|. ``low``, ``high`` (B,): smallest and largest score of a bin, infinite
    where it is empty; ``outcome_low``, ``outcome_high``: of y. These six are plain arrays and
    numbers, which can be saved and passed to the class again.

    All methods of :class:`Levels` but ``difference`` work on the bins' sums. What bins can change
    is known for AUUC and its interval, which allows for it; curves, bands and risks take the bins
    as the scores.

    Sums of y^2 lose digits when outcomes are far from 0 for their spread: subtract a constant then.

    Examples
    --------
    >>> y, score, treated = [1, 0, 1, 0], [4, 3, 2, 1], [True, True, False, False]
    >>> halves = [BinnedLevels.of(y[h], score[h], treated[h], edges=[1.5, 2.5, 3.5])
    ...           for h in (slice(0, 3), slice(3, 4))]
    >>> whole = halves[0] + halves[1]
    >>> whole
    BinnedLevels(4 rows in 4 bins)
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
    # Bins need edges in place of the row options: another way to make the same object.
    def of(  # type: ignore[override]
        cls, y: ArrayLike, score: ArrayLike, treated: ArrayLike, edges: ArrayLike
    ) -> BinnedLevels:
        """Bin some rows; they may lack an arm."""
        edges = np.asarray(edges, dtype=np.float64)
        if edges.ndim != 1 or not np.isfinite(edges).all() or not (edges[1:] > edges[:-1]).all():
            raise ValueError(
                f"edges should be strictly increasing finite numbers, got an array of shape "
                f"{edges.shape} that is not. Make them with score_edges."
            )
        n_bins = len(edges) + 1
        sums = np.zeros((2, n_bins, 4))
        low, high = np.full(n_bins, np.inf), np.full(n_bins, -np.inf)
        if np.size(y) == np.size(score) == 0:
            return cls(edges, sums, low, high, np.inf, -np.inf)
        y = check_column(y, "y")
        score = check_column(score, "score", len(y))
        arm = check_mask(treated, "treated", len(y))
        # Looking up the edges in sorted scores takes a tenth of the time of looking up each score.
        order = rank_rows(score).order
        score, y = score.take(order), y.take(order)
        ends = np.append(np.searchsorted(score, edges, side="right"), len(score))
        counts = np.diff(ends, prepend=0)
        filled = counts > 0
        low[filled] = score[ends[filled] - counts[filled]]
        high[filled] = score[ends[filled] - 1]
        # Cells are the bins of the control arm, and then those of the treated.
        cell = np.repeat(np.arange(n_bins), counts)
        cell += n_bins * arm.take(order)
        is_binary = np.array_equal(np.square(y), y)
        for column, values in enumerate((None, y, np.square(y), np.abs(y))):
            if column < 2 or not is_binary:  # 0/1 outcomes are their squares and sizes
                found = np.bincount(cell, weights=values, minlength=2 * n_bins)
            sums[:, :, column] = found.reshape(2, n_bins)
        return cls(edges, sums, low, high, float(y.min()), float(y.max()))

    def __add__(self, other: BinnedLevels) -> BinnedLevels:
        if not isinstance(other, BinnedLevels):
            return NotImplemented
        if self.edges is not other.edges and not np.array_equal(self.edges, other.edges):
            raise ValueError(
                f"tables that are added should have the same edges, got {self.n_bins} and "
                f"{other.n_bins} bins with different ones. Make both with the same edges."
            )
        return BinnedLevels(
            self.edges,
            self.sums + other.sums,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            min(self.outcome_low, other.outcome_low),
            max(self.outcome_high, other.outcome_high),
        )

    def __repr__(self) -> str:
        return f"BinnedLevels({self.n_rows:,} rows in {self.n_bins:,} bins)"

    @cached_property
    # Computed on first use, where Levels has an attribute.
    def ranked(self) -> RankedRows:  # type: ignore[override]
        """Two lines per occupied bin, control and treated."""
        self.check_arms()
        filled = self.sums[:, np.isfinite(self.low), :3].transpose(2, 1, 0)
        rows, y, squares = (np.ascontiguousarray(column).ravel() for column in filled)
        # Control and treated lines alternate, so that each bin is a level of two lines.
        index = np.arange(len(y))
        return RankedRows(
            order=index,
            starts=index[::2],
            y=y,
            treated=index % 2 == 1,
            weight=rows,
            arm_weight=rows,
            rows=rows,
            squares=squares,
        )

    @property
    def scores(self) -> Floats:
        """Largest score of each occupied bin."""
        return self.high[np.isfinite(self.high)]

    @property
    def n_bins(self) -> int:
        return len(self.low)

    @property
    def arm_rows(self) -> tuple[int, int]:
        """Number of control and of treated rows."""
        control, treated = self.sums[:, :, 0].sum(axis=1)
        return int(control), int(treated)

    def check_arms(self) -> None:
        """Raise an error unless both arms have rows."""
        control, treated = self.arm_rows
        if not (control and treated):
            raise ValueError(
                f"levels should hold rows of both arms, got {treated} treated and {control} "
                f"control rows. An effect needs both: check which rows were read."
            )

    @property
    def binary(self) -> bool:
        """Whether every outcome is 0 or 1, where y^2 = y."""
        inside = self.outcome_low >= 0 and self.outcome_high <= 1
        return inside and np.array_equal(self.sums[:, :, 1], self.sums[:, :, 2])

    def _support(self, units: ClusterUnits | None) -> Support:
        """Responders are known only for 0/1 outcomes."""
        n = self.arm_rows
        if not self.binary:
            return Support("even", n, n, (0, 0))
        some = round(self.sums[0, :, 1].sum()), round(self.sums[1, :, 1].sum())
        return Support("binary", n, some, (n[0] - some[0], n[1] - some[1]))

    def auuc_error(self, ranking: RankingKind = "joint") -> float:
        """Bound on the difference between :meth:`auuc` and the AUUC of the exact scores.

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
        return self._costs(ranking)[0]

    def _bin_costs(self, ranking: RankingKind) -> tuple[tuple[float, float], ...]:
        own = self._costs(ranking)
        if ranking == "separate":
            return own, own
        # Gains and the terms psi are linear in the outcome, so those of y - c are those of y less c
        # times those of 1. Ranked separately, an outcome of 1 has no gain, and no error.
        ones = np.repeat(self.sums[:, :, :1], 4, axis=2)
        unit = replace(self, sums=ones, outcome_low=1.0, outcome_high=1.0)._costs(ranking)
        size = abs(self.ranked.mean())
        return own, (own[0] + size * unit[0], own[1] + size * unit[1])

    def _costs(self, ranking: RankingKind) -> tuple[float, float]:
        """Cost of binning for AUUC (:meth:`auuc_error`) and for its standard error.

        Within an arm and a bin the terms psi are linear in y, so the sums of y and y^2 give their
        variance. Student's intervals contain those of the exact scores, and p values are not below
        theirs: to t standard errors, as to score limits, are added :meth:`auuc_error` and t times

            sqrt(sum over arms of n_g / (n_g - 1) sum over rows of c_i^2),
            c_i = [|y_i| (n_b - 1) / n_g + (sum of |y| / n_g over the bin's rows)] / (2n).

        *Proof.* The standard error is a seminorm of psi, so it changes by at most the norm of the
        change of psi. There u_i changes by at most (n_b - 1)/(2n), and the curve V_i, which counts
        half of the bin, by at most half of the sum of the absolute terms of the bin.
        """
        check_choice(ranking, "ranking", RANKINGS)
        self.check_arms()
        rows, outcome, square, size = np.moveaxis(self.sums, 2, 0)
        ranked = rows  # with each arm
        if ranking == "joint":
            ranked = np.broadcast_to(rows.sum(axis=0), rows.shape)
        totals, arms = ranked.sum(axis=1, keepdims=True), rows.sum(axis=1, keepdims=True)
        mixed = self.low < self.high  # bins of one score cost nothing
        cost = np.zeros_like(ranked)
        for sign, most in ((1, self.outcome_high), (-1, -self.outcome_low)):
            if most > 0:
                # The sum of the positive outcomes, or of the sizes of the negative ones.
                part = np.maximum((size + sign * outcome) / 2, 0.0)
                cost += part * np.maximum(ranked - np.maximum(part / most, 1.0), 0.0)
        error = (cost * mixed / (2 * totals * arms)).sum()
        terms = size / arms
        if ranking == "joint":
            terms = np.broadcast_to(terms.sum(axis=0), terms.shape)
        own, curve = np.maximum(ranked - 1, 0.0) / (2 * totals * arms), terms / (2 * totals)
        squares = own**2 * square + 2 * own * curve * size + curve**2 * rows
        return float(error), float(np.sqrt((squares * mixed * small_sample(arms)).sum()))

    def _rule(self, share: float | ArrayLike | None, sweep: ArmSweep) -> Floats:
        if share is None and ((self.low <= 0) & (self.high > 0)).any():
            raise ValueError(
                "the sign of the scores should be that of a whole bin, got a bin with scores of "
                "both signs. Pass share=..., or make 0 one of the edges."
            )
        return super()._rule(share, sweep)


def score_edges(sample: ArrayLike, n_bins: int = N_BINS) -> Floats:
    """Inner edges of at most ``n_bins`` bins, from a random ``sample`` of scores.

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
    values = alone = np.unique(ordered)
    if n_bins <= 2 * len(values) <= 2 * n_bins:
        left, right = values[:-1], values[1:]
        middle = left / 2 + right / 2
        # Between neighbouring numbers there is no other: the left one separates them.
        return np.where((middle > left) & (middle < right), middle, left)
    if len(values) > n_bins:
        places = np.arange(1, n_bins) * len(ordered)
        values = ordered[-(-places // n_bins) - 1]
        alone = values[1:][values[1:] == values[:-1]]
    # Edges at the values, and just below those that get a bin of their own.
    with np.errstate(over="ignore"):  # below the smallest number there is no edge, and no score
        lower = np.nextafter(alone, -np.inf)
    edges = np.unique(np.concatenate([values, lower]))
    return edges[np.isfinite(edges)]


def score_levels(rows: Rows, model: Any, *, n_bins: int = N_BINS) -> BinnedLevels:
    """Levels of scores in two passes: a sample for the edges, then the sums.

    Parameters
    ----------
    rows : trial rows that are read batch by batch; some of them: ``rows.part(...)``.
    model : a fitted model, or a function that can be pickled: (m, d) features to (m,) scores.
    n_bins : largest number of bins. With 65,536 the table takes 5 MB.

    The evaluation is honest only if the score was not fitted on these rows.
    """
    n_bins = check_whole(n_bins, "n_bins", 1)
    summary = _Scored(model, rows.names, 16 * n_bins)
    (sample,) = rows.total(summary)
    if not len(sample.values):
        raise ValueError(
            "rows should hold at least one row to evaluate, got none. Check the source."
        )
    # Nothing in the proofs asks how edges were found, so these rows may choose them.
    (levels,) = rows.total(replace(summary, edges=score_edges(sample.values, n_bins)))
    levels.check_arms()
    return cast(BinnedLevels, levels)


@dataclass(frozen=True)
class _Scored:
    """Summary of a batch: a random sample of its scores or, with ``edges``, their bins."""

    model: Any
    names: tuple[str, ...]
    size: int
    edges: Floats | None = None

    def __call__(self, batch: Batch) -> Sample | BinnedLevels:
        X: Any = batch.X
        if hasattr(self.model, "feature_names_in_"):  # the model checks names and their order
            X = pd.DataFrame(X, columns=list(self.names))
        score = np.zeros(0)
        if len(batch.y):
            predict = getattr(self.model, "predict", self.model)
            score = check_column(predict(X), "score", len(batch.y))
        if self.edges is None:
            return Sample.of(score, batch.keys, self.size)
        if batch.weight is not None:  # sums of numbers of rows have no place for them
            raise ValueError(
                "rows whose scores are put into bins should all weigh 1, got weights. Read the "
                "rows into memory, and pass sample_weight."
            )
        return BinnedLevels.of(batch.y, score, batch.treated, self.edges)


def column_levels(
    table: Any, *, score: str, treatment: str, outcome: str, n_bins: int = N_BINS
) -> BinnedLevels:
    """Levels of a score column of an ibis table, aggregated in the database.

    Two queries are sent, and no row comes back: the range of the scores, then one line for each arm
    and each of at most ``n_bins`` bins of equal width. The largest score of a bin is its edge, so
    these are the levels that :meth:`BinnedLevels.of` makes of the rows with the same edges.

    Parameters
    ----------
    table : any table of ibis.
    score, outcome : names of columns of numbers.
    treatment : name of a column of 0 and 1, or of booleans.
    n_bins : largest number of bins. What bins can change is known: ``levels.auuc_error()``.
    """
    n_bins = check_whole(n_bins, "n_bins", 1)
    columns = {"score": score, "y": outcome, "arm": treatment}
    check_columns([*columns.values()], table.columns, "the table of ibis")
    rows = table.select(**{name: table[own].cast("float64") for name, own in columns.items()})
    known = {name: rows[name].count() for name in columns}
    ends = {"low": rows["score"].min(), "high": rows["score"].max()}
    found = read_table(rows.aggregate(n=rows.count(), **known, **ends)).iloc[0]
    for name, column in columns.items():
        if found[name] != found["n"]:
            raise ValueError(
                f"{column!r} should be without missing values, got "
                f"{found['n'] - found[name]:,.0f} of {found['n']:,.0f}. Leave these "
                f"rows out of the table."
            )
    low, width = float(found["low"]), float(found["high"] - found["low"])
    place = ((rows["score"] - low) * (n_bins / width if width > 0 else 0.0)).floor()
    y = rows["y"]
    sums = {"n": rows.count(), "sum": y.sum(), "squares": (y * y).sum(), "sizes": y.abs().sum()}
    wanted = sums | ends | {"y_low": y.min(), "y_high": y.max()}
    by = rows.group_by(place=place.cast("int64"), arm=rows["arm"])
    cells = read_table(by.aggregate(**{name: own.cast("float64") for name, own in wanted.items()}))
    if not set(cells["arm"]) <= {0.0, 1.0}:
        raise ValueError(
            f"{treatment!r} should be 0 or 1 in every row, got {sorted(set(cells['arm']))[:5]}. "
            f"Make a column of the table that is."
        )
    if not np.isfinite(cells.to_numpy(np.float64)).all():
        raise ValueError(
            "scores and outcomes should be finite numbers, got others. Leave these rows out."
        )
    places, bins = np.unique(cells["place"], return_inverse=True)
    by_arm = np.zeros((2, len(places), 4))
    by_arm[cells["arm"].to_numpy(np.int64), bins] = cells[[*sums]]
    highs = cells.groupby("place")["high"].max().to_numpy()
    levels = BinnedLevels(
        highs[:-1],
        by_arm,
        cells.groupby("place")["low"].min().to_numpy(),
        highs,
        float(cells["y_low"].min()),
        float(cells["y_high"].max()),
    )
    levels.check_arms()
    return levels
