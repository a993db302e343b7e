"""What fitting and choosing a linear score asks of its rows, in memory or elsewhere.

For rows that are read batch by batch, one pass collects what is needed to start, and AUUC comes
from bins of scores. In memory answers are exact. Folds are the same for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats, ScoredRows
from auucmax.certificates.certify import Certificate, certify
from auucmax.data.hashing import Checksum
from auucmax.estimators.logistic import DealtPart, dealt_folds, weight_sums
from auucmax.estimators.scaling import (
    Scaling,
    column_squares,
    scaled_radius,
    scaling_of,
    unit_rows,
)
from auucmax.metrics.bins import (
    N_BINS,
    area_of,
    bin_weights,
    score_edges,
    score_levels,
    score_sample,
)
from auucmax.metrics.levels import Levels
from auucmax.metrics.ranking import RankingKind
from auucmax.pairs import (
    OutcomeLevels,
    PairObjective,
    StreamedObjective,
    Surrogate,
    column_range,
    scores,
)
from auucmax.pairs.outcomes import BINARY, FewValues, outcome_sums
from auucmax.pairs.streamed import ClassSums, class_sums
from auucmax.rows import ArrayRows, Batch, Extremes, HashedPart, Question, Rows, Share
from auucmax.rows.base import Step

N_FOLDS = 5
RARE_ROWS = 1000  #: of each outcome and arm, on average, that a part of the rows should hold
_BINS = 16_384  # of scores that compare candidates on all rows: an error of about 1e-6
FOLD_BINS = 4096  #: on a fold: far below the differences that folds show

Counts = tuple[float, float, float, float]


@dataclass(frozen=True)
class Look:
    """What one reading tells: sums by class, sums of squares of the columns, who the rows are."""

    sums: ClassSums
    squares: Floats
    rows: Checksum
    outcomes: FewValues

    def __add__(self, other: Look) -> Look:
        return Look(
            self.sums + other.sums,
            self.squares + other.squares,
            self.rows + other.rows,
            self.outcomes + other.outcomes,
        )

    def check(self, names: Sequence[str]) -> None:
        """Raise a ValueError for features that are missing or infinite, or rows of one arm."""
        low, high = self.sums.extremes.low, self.sums.extremes.high
        bad = np.flatnonzero(~np.isfinite(low) | ~np.isfinite(high))
        if len(bad) and self.rows.n_rows:
            raise ValueError(
                f"features should be finite numbers, got a missing or infinite one in "
                f"{names[bad[0]]!r}. Fill it in, or leave the column out."
            )
        counts = self.sums.counts
        n_treated = int(counts[: len(counts) // 2].sum())
        if self.rows.n_rows and n_treated in (0, self.rows.n_rows):
            raise ValueError(
                f"treatment should have two levels, treated and control; all "
                f"{self.rows.n_rows:,} rows are {'treated' if n_treated else 'control'}. An effect "
                f"needs both arms."
            )


class Fold(NamedTuple):
    """Rows to learn from and rows to judge by.

    They are taken when they are asked for: in memory a part is a copy, and one fold of them is held
    at a time.
    """

    train: Callable[[], LearningRows]
    test: Callable[[], LearningRows]


class LearningRows:
    """Rows that a linear score learns from, wherever they are; :meth:`of` makes them.

    Readings are what costs: one pass collects what is needed to start, and ``known`` are sums of
    the rows by class where somebody has them, so that even the look can be spared. ``levels`` are
    those of the outcome: 0/1 by default; None: found from the rows, which takes one
    more reading if outcomes are not 0/1, and two if they are many.
    """

    def __init__(
        self,
        rows: Rows,
        known: ClassSums | None = None,
        levels: OutcomeLevels | None = BINARY,
    ) -> None:
        self.rows, self._known, self._levels = rows, known, levels

    @staticmethod
    def of(
        rows: Rows, known: ClassSums | None = None, levels: OutcomeLevels | None = BINARY
    ) -> LearningRows:
        """Make them of rows of any kind; of arrays answers are exact: :class:`InMemory`."""
        kind = InMemory if isinstance(rows, ArrayRows) else LearningRows
        return kind(rows, known, levels)

    @property
    def n_features(self) -> int:
        return len(self.rows.names)

    @cached_property
    def look(self) -> Look:
        """All that one reading tells, in which the rows are checked."""
        (found,) = self.rows.total(partial(_look, levels=self._levels))
        found.check(self.rows.names)
        return found

    @cached_property
    def levels(self) -> OutcomeLevels:
        """Levels of the outcome, given or found."""
        return self._learnt[0] if self._levels is None else self._levels

    @property
    def sums(self) -> ClassSums:
        """Sums by class: known beforehand, or of one look."""
        if self._known is None:
            return self._learnt[1] if self._levels is None else self.look.sums
        return self._known

    @cached_property
    def _learnt(self) -> tuple[OutcomeLevels, ClassSums]:
        """Levels, and sums by class, which only those of 0/1 outcomes have from the look."""
        levels = OutcomeLevels.cut(self.rows, self.look.outcomes)
        if levels.binary:
            return levels, self.look.sums
        by_class, sums = self.rows.total(
            partial(class_sums, levels=levels), partial(outcome_sums, levels=levels)
        )
        return levels.valued(sums), by_class

    @property
    def n_rows(self) -> int:
        sums = self.look.sums if self._known is None else self._known
        return int(sums.counts.sum())

    def class_counts(self) -> Counts:
        """Weight of treated responders and others, control responders and others.

        Of outcomes that are not 0/1: of rows with high outcomes and others, see ``OutcomeLevels``.
        """
        a, b, c, d = self.levels.high_counts(self.sums.weights).tolist()
        return a, b, c, d

    def column_range(self) -> tuple[Floats, Floats]:
        """Smallest and largest value of each column."""
        return self.sums.extremes.low, self.sums.extremes.high

    def squares(self) -> Floats:
        """Sum of squares of each column, (d,)."""
        return self.look.squares

    def scaling(self, kind: str) -> Scaling:
        """A scaling of this kind, with factors and shifts of these rows."""
        rows = self._unit if kind == "unit-rows" else self
        squares = rows.squares() if kind == "column-l2" else None
        return scaling_of(kind, *rows.column_range(), squares=squares)

    def scaled(self, scaling: Scaling) -> LearningRows:
        """The rows as the objective takes them: of unit norm, or moved, if the scaling says so.

        Columns are not scaled here but in the coefficients, which spares a copy.
        """
        if scaling.offset is not None:
            return LearningRows.of(self.rows.map(scaling.training_rows), levels=self.levels)
        return self._unit if scaling.kind == "unit-rows" else self

    @cached_property
    def _unit(self) -> LearningRows:
        return LearningRows.of(self.rows.map(unit_rows), levels=self.levels)

    def radius(self, scaling: Scaling) -> Question[float]:
        """R, the largest norm of a row that a scaling makes of these."""
        ((found,),) = yield [(self.rows, (partial(_largest_norm, scaling=scaling),))]
        return float(found.high)

    def objective(
        self, surrogate: Surrogate, weights: str | tuple[float, float], level: int = 0
    ) -> PairObjective | StreamedObjective:
        """What is minimised; ``level`` is that of an objective of similar rows."""
        # One for each solver: it remembers the last point, and solvers take turns.
        return StreamedObjective(
            self.rows,
            levels=self.levels,
            known=self.sums,
            surrogate=surrogate,
            weights=weights,
            level=level,
        )

    def auucs(
        self, coefs: Sequence[Floats], ranking: RankingKind, n_bins: int = _BINS
    ) -> Question[list[float]]:
        """AUUC of the scores X coef, for each: two readings, one for the edges of bins."""
        n_bins = self._at_most(n_bins)
        predicts = [partial(scores, w=coef) for coef in coefs]
        samples = [partial(score_sample, predict=own, size=16 * n_bins) for own in predicts]
        (found,) = yield [(self.rows, samples)]
        edges = [score_edges(sample.values, n_bins) for sample in found]
        tables = [
            partial(bin_weights, predict=own, edges=cut)
            for own, cut in zip(predicts, edges, strict=True)
        ]
        (found,) = yield [(self.rows, tables)]
        return [area_of(own, ranking) for own in found]

    def certified(self, coef: Floats, **options: Any) -> Certificate:
        """The certificate of the scores X coef on these rows, which were kept apart."""
        predict = partial(scores, w=coef)
        return certify(score_levels(self.rows, predict, n_bins=self._at_most(N_BINS)), **options)

    def _at_most(self, n_bins: int) -> int:
        """The number of bins, or fewer where summaries must be small: a bin takes 256 bytes."""
        return min(n_bins, self.rows.max_bytes // 256)

    def folds(self, random_state: int | None) -> Question[list[Fold]]:
        """Five folds by a hash of the row's key: rows have the same ones wherever they are."""
        fewest = self._fewest()
        if fewest < 2:
            raise ValueError(
                f"each arm should have at least 2 rows {self._of_each_outcome}, got {fewest} in "
                f"one. Collect more rows."
            )
        seed = seed_of(random_state)
        test: Sequence[Step] = [HashedPart(N_FOLDS, (k,), seed) for k in range(N_FOLDS)]
        rest: Sequence[Step] = [HashedPart(N_FOLDS, _others(k), seed) for k in range(N_FOLDS)]
        if fewest < 20 * N_FOLDS:  # too rare to be left to chance: each fold has its share
            cut = float(np.nextafter(self.levels.cut_point, -np.inf))
            assigned = yield from dealt_folds(self.rows, N_FOLDS, seed, cut)
            test, rest = (
                [DealtPart(assigned, k, own) for k in range(assigned.n_folds)]
                for own in (True, False)
            )
        # The sums of the rows to learn from follow from those of all: no reading of their own.
        sums = yield from self._sums_of(test)
        return [
            Fold(
                partial(self._part, rest[k], sums[k] and self.sums.without(sums[k])),
                partial(self._part, test[k], sums[k]),
            )
            for k in range(len(test))
        ]

    def _fewest(self) -> int:
        """Rows of the rarest outcome of an arm; weights do not count."""
        return int(self.levels.high_counts(self.sums.counts).min())

    @property
    def _of_each_outcome(self) -> str:
        if self.levels.binary:
            return "of each outcome"
        return f"with an outcome of at least {self.levels.cut_point:g}, and below"

    def _sums_of(self, parts: Sequence[Step]) -> Question[Sequence[Any]]:
        """Sums of some parts of the rows, all of them in one reading."""
        of_classes = partial(class_sums, levels=self.levels)
        sums = yield [(self.rows.part(part), (of_classes,)) for part in parts]
        return [own for (own,) in sums]

    def halves(self, random_state: int | None) -> tuple[LearningRows, LearningRows]:
        """Rows to learn from, and rows kept apart, by a hash of the row's key."""
        seed = seed_of(random_state)
        # Unknown levels are found from the first half alone, without another reading.
        learn, kept = (self.rows.part(HashedPart(2, (k,), seed)) for k in (0, 1))
        return LearningRows.of(learn, levels=self._levels), LearningRows.of(kept)

    def _part(self, step: Step, known: ClassSums | None = None) -> LearningRows:
        return LearningRows.of(self.rows.part(step), known, self.levels)

    @contextmanager
    def at_most(self, n_rows: int, random_state: int | None) -> Iterator[LearningRows]:
        """These rows, or about ``n_rows`` random ones of them, where they are read fast.

        More, where an outcome is so rare that fewer than ``RARE_ROWS`` of an arm would have it.
        """
        share = 1.0
        if self.n_rows > n_rows:
            share = max(n_rows / self.n_rows, RARE_ROWS / max(min(self.class_counts()), 1))
        if share >= 1:
            yield self
            return
        # A separate seed: folds of the rows that are drawn should not follow from the draw.
        with self.rows.part(Share(share, seed_of(random_state) ^ 1)).cached() as few:
            yield LearningRows.of(few, levels=self.levels)


class InMemory(LearningRows):
    """Rows in arrays: the same questions, answered exactly, without bins, and with weights."""

    rows: ArrayRows
    _made: tuple[dict[str, Any], PairObjective] | None = None

    @property
    def n_rows(self) -> int:
        return len(self.rows.y)

    @cached_property
    def levels(self) -> OutcomeLevels:
        return OutcomeLevels.of(self.rows) if self._levels is None else self._levels

    @property
    def cells(self) -> NDArray[np.intp]:
        """0..3 for each row: control with a low and with a high outcome, treated with either."""
        return 2 * self.rows.treated.astype(np.intp) + (self.rows.y >= self.levels.cut_point)

    def class_counts(self) -> Counts:
        d, c, b, a = np.bincount(self.cells, self.rows.weight, minlength=4).tolist()
        return a, b, c, d

    def column_range(self) -> tuple[Floats, Floats]:
        return self._extremes

    @cached_property
    def _extremes(self) -> tuple[Floats, Floats]:
        return column_range(self.rows.X)

    def squares(self) -> Floats:
        return column_squares(self.rows.X, self.rows.weight)

    def objective(
        self, surrogate: Surrogate, weights: str | tuple[float, float], level: int = 0
    ) -> PairObjective:
        how: dict[str, Any] = {"surrogate": surrogate, "weights": weights}
        # Solvers in memory do not take turns, so one objective, which is dear to make, is enough.
        if self._made is None or self._made[0] != how:
            X, y, treated, weight = self.rows.columns
            own: dict[str, Any] = {"levels": self.levels, "extremes": self.column_range()}
            made = PairObjective(X, y, treatment=treated, sample_weight=weight, **own, **how)
            self._made = how, made
        return self._made[1]

    def auucs(
        self, coefs: Sequence[Floats], ranking: RankingKind, n_bins: int = _BINS
    ) -> Question[list[float]]:
        yield from ()  # a question, as of rows elsewhere, though nothing has to be read
        X, y, treated, weight = self.rows.columns
        rows = (ScoredRows(y, scores(X, coef), treated, weight) for coef in coefs)
        return [Levels.of_rows(own).auuc(ranking) for own in rows]

    def take(self, places: NDArray[Any]) -> InMemory:
        """The rows at these places."""
        return InMemory(self.rows.take(places), levels=self.levels)

    def certified(self, coef: Floats, **options: Any) -> Certificate:
        X, y, treated, _ = self.rows.columns
        return certify(scores(X, coef), y=y, treatment=treated, **options)

    def _fewest(self) -> int:
        return int(np.bincount(self.cells, minlength=4).min())

    def _sums_of(self, parts: Sequence[Step]) -> Question[Sequence[Any]]:
        yield from ()
        return [None] * len(parts)  # nothing is spared: parts of arrays are copies


def _others(fold: int) -> tuple[int, ...]:
    return tuple(k for k in range(N_FOLDS) if k != fold)


def cells(rows: ArrayRows | Batch) -> NDArray[np.intp]:
    """0..3 for each row: control without and with response, treated without and with."""
    return 2 * rows.treated.astype(np.intp) + (rows.y == 1)


def array_rows(
    X: NDArray[Any], y: Floats, treated: Bools, sample_weight: Floats | None
) -> ArrayRows:
    """Rows in memory, with weights as :func:`scaled_weights` has them."""
    rows = scaled_weights(ArrayRows(X, y, treated, sample_weight))
    assert isinstance(rows, ArrayRows)  # a view of some is one
    return rows


def scaled_weights(rows: Rows) -> Rows:
    """The rows, with weights as :func:`auucmax.estimators.base.row_weights` has them.

    Weights that are not whole are scaled to mean 1: a reading, if there are weights.

    >>> rows = ArrayRows(np.zeros((3, 1)), np.zeros(3), np.arange(3) < 1, np.array([0.1, 0.2, 0.3]))
    >>> scaled_weights(rows).weight
    array([0.5, 1. , 1.5])
    """
    if not rows.weighted:
        return rows
    ((n_rows, total, n_broken),) = rows.total(weight_sums)
    return rows.part(_Weighed(n_rows / total)) if n_broken else rows


@dataclass(frozen=True)
class _Weighed:
    """A step of a view: weights times a factor."""

    factor: float

    def __call__(self, batch: Batch) -> Batch:
        assert batch.weight is not None  # of rows that are weighted
        return batch._replace(weight=batch.weight * self.factor)


def seed_of(random_state: int | None) -> int:
    """The seed of the hash that draws parts of rows: the same for the same random state."""
    return int(np.random.default_rng(random_state).integers(2**62))


def _look(batch: Batch, levels: OutcomeLevels | None) -> Look:
    outcomes = FewValues.of(batch.y)
    coded = batch
    if not outcomes.binary:
        if levels is None:  # counts, for now: sums of the levels need another reading
            coded, levels = batch._replace(y=(batch.y != 0).astype(np.float64)), BINARY
        elif levels.binary:
            other = batch.y[(batch.y != 0) & (batch.y != 1)][0]
            raise ValueError(
                f"y should be 0 or 1 for this model, got {other:g}. Cut the outcome at a threshold "
                f"first."
            )
    return Look(
        class_sums(coded, BINARY if levels is None else levels),
        column_squares(batch.X, batch.weight),
        Checksum.of(batch.X, batch.y, batch.treated),
        outcomes,
    )


def _largest_norm(batch: Batch, scaling: Scaling) -> Extremes:
    return Extremes(np.zeros(()), np.asarray(scaled_radius(batch.X, scaling)))
