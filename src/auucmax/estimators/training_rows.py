"""Rows that a linear score is fitted on: in memory, or read batch by batch.

Both kinds answer the same questions, so everything above them is written once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any, NamedTuple, Protocol, Self, cast

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats
from auucmax.data.batches import Batch, Extremes, Part, RowSource, SharedReadings
from auucmax.data.fingerprint import Fingerprint, fingerprint
from auucmax.data.splits import TrialKFold
from auucmax.estimators.scaling import Scaling, fit_scaling, scaled_radius, scaling_of
from auucmax.evaluation.bins import BinnedLevels, score_levels_each
from auucmax.evaluation.metrics import auuc_score
from auucmax.evaluation.ranking import RankingKind
from auucmax.pairs import PairObjective, StreamedObjective, Surrogate, column_range, scores
from auucmax.pairs.linear import LinearPairs
from auucmax.pairs.streamed import MAX_BYTES, ClassSums, class_sums, pair_rows

__all__ = ["LearningRows", "StreamedRows", "TrainingRows"]

N_FOLDS = 5
_FOLD_BINS = 16_384  # of the histograms that compare candidates: an error of about 1e-6


class LearningRows(Protocol):
    """What fitting and choosing a linear score needs of its rows."""

    @property
    def n_features(self) -> int: ...

    def class_counts(self) -> tuple[float, float, float, float]:
        """Weight of treated responders and others, control responders and others."""

    def column_range(self) -> tuple[Floats, Floats]: ...

    def scaling(self, kind: str) -> Scaling: ...

    def radius(self, scaling: Scaling) -> Callable[[], float]:
        """R, the largest norm of a scaled row, when it is asked for."""

    def scaled(self, scaling: Scaling) -> Self:
        """These rows with X as the objective takes it: scaled by row, columns in the factors."""

    def objective(
        self, surrogate: Surrogate, weights: str | tuple[float, float]
    ) -> LinearPairs: ...

    def auucs(self, coefs: Sequence[Floats], ranking: RankingKind) -> list[float]:
        """AUUC of the scores X coef, for each."""

    def folds(self, random_state: int | None) -> Iterator[tuple[Self, Self]]:
        """Training and test rows of each fold."""


class TrainingRows(NamedTuple):
    """Checked rows in memory; X is scaled by row only (column scalings are in the coefficients)."""

    X: NDArray[Any]
    y: Floats
    treated: Bools
    weight: Floats | None

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    def take(self, index: NDArray[np.intp]) -> TrainingRows:
        weight = None if self.weight is None else self.weight[index]
        return TrainingRows(self.X[index], self.y[index], self.treated[index], weight)

    def class_counts(self) -> tuple[float, float, float, float]:
        weight = np.ones(len(self.y)) if self.weight is None else self.weight
        counts = [
            float(weight[(self.treated == arm) & (self.y == value)].sum())
            for arm in (True, False)
            for value in (1, 0)
        ]
        return counts[0], counts[1], counts[2], counts[3]

    def column_range(self) -> tuple[Floats, Floats]:
        return column_range(self.X)

    def scaling(self, kind: str) -> Scaling:
        return fit_scaling(self.X, kind, self.weight)

    def radius(self, scaling: Scaling) -> Callable[[], float]:
        return cache(lambda: scaled_radius(self.X, scaling))

    def scaled(self, scaling: Scaling) -> TrainingRows:
        return self._replace(X=scaling.training_rows(self.X))

    def objective(self, surrogate: Surrogate, weights: str | tuple[float, float]) -> PairObjective:
        return PairObjective(
            self.X,
            self.y,
            treatment=self.treated,
            surrogate=surrogate,
            weights=weights,
            sample_weight=self.weight,
        )

    def auucs(self, coefs: Sequence[Floats], ranking: RankingKind) -> list[float]:
        return [
            auuc_score(
                self.y,
                scores(self.X, coef),
                treatment=self.treated,
                ranking=ranking,
                sample_weight=self.weight,
            )
            for coef in coefs
        ]

    def folds(self, random_state: int | None) -> Iterator[tuple[TrainingRows, TrainingRows]]:
        """By treatment; by outcome too, and in fewer folds, where an outcome is rare."""
        unweighted = self._replace(weight=None)
        fewest = int(min(unweighted.class_counts()))
        _check_fewest(fewest)
        folds = TrialKFold(
            min(N_FOLDS, fewest),
            by="treatment-outcome" if fewest < 4 * N_FOLDS else "treatment",
            random_state=random_state,
        )
        for train, test in folds.split(self.X, self.y, treatment=self.treated):
            yield self.take(train), self.take(test)


class StreamedRows:
    """Rows of a source, or of parts of it; each question is one or two readings."""

    def __init__(self, source: RowSource, how: Prepared | None = None) -> None:
        self.source = source if isinstance(source, SharedReadings) else SharedReadings(source)
        self.how = how or Prepared()
        # Summaries that travel should be small: their source says so.
        self.max_bytes = int(getattr(self.source.source, "max_bytes", MAX_BYTES))

    @property
    def n_features(self) -> int:
        return len(self.source.feature_names)

    @property
    def most_bins(self) -> int:
        """Of a histogram: the sample that finds its edges has 16 scores of 16 bytes a bin."""
        return self.max_bytes // 256

    @cached_property
    def first_look(self) -> FirstLook:
        """What one reading tells of the rows; they are checked here."""
        (found,) = self.source.total(partial(_look, how=self.how))
        found.check(self.source.feature_names)
        return cast(FirstLook, found)

    def class_counts(self) -> tuple[float, float, float, float]:
        counts = self.first_look.sums.products[:, 0, 0]
        return float(counts[0]), float(counts[1]), float(counts[3]), float(counts[2])

    def column_range(self) -> tuple[Floats, Floats]:
        extremes = self.first_look.sums.extremes
        return extremes.low, extremes.high

    def scaling(self, kind: str) -> Scaling:
        rows = self._unit_rows if kind == "unit-rows" else self
        return scaling_of(kind, *rows.column_range(), squares=rows.first_look.squares)

    @cached_property
    def _unit_rows(self) -> StreamedRows:
        d = self.n_features
        unit = Scaling("unit-rows", np.ones(d), np.zeros(d))
        return StreamedRows(self.source, replace(self.how, scaling=unit))

    def radius(self, scaling: Scaling) -> Callable[[], float]:
        found = self.source.later(partial(_largest_norm, how=self.how, scaling=scaling))
        return lambda: float(found().high)

    def scaled(self, scaling: Scaling) -> StreamedRows:
        if scaling.offset is not None:
            return StreamedRows(self.source, replace(self.how, scaling=scaling))
        return self._unit_rows if scaling.kind == "unit-rows" else self

    def objective(
        self, surrogate: Surrogate, weights: str | tuple[float, float]
    ) -> StreamedObjective:
        return StreamedObjective(
            self.source,
            prepare=self.how,
            max_bytes=self.max_bytes,
            known=self.first_look.sums,
            surrogate=surrogate,
            weights=weights,
        )

    def histograms(self, coefs: Sequence[Floats], n_bins: int) -> list[BinnedLevels]:
        predicts = [partial(scores, w=coef) for coef in coefs]
        return score_levels_each(self.source, predicts, n_bins=n_bins, keep=self.how)

    def auucs(self, coefs: Sequence[Floats], ranking: RankingKind) -> list[float]:
        return [found.auuc(ranking) for found in self.histograms(coefs, _FOLD_BINS)]

    def folds(self, random_state: int | None) -> Iterator[tuple[StreamedRows, StreamedRows]]:
        """By a hash of the row's number; arms and outcomes are left to chance, there are many."""
        fewest = int(min(self.class_counts()))
        _check_fewest(fewest)
        if fewest < 20 * N_FOLDS:
            raise ValueError(
                f"each arm should have at least {20 * N_FOLDS} rows of each outcome for "
                f"selection='cv' of rows that are read batch by batch, got {fewest} in one. Use "
                f"selection='bound' or None, or read them into memory."
            )
        seed = _seed(random_state)
        for k in range(N_FOLDS):
            rest = tuple(j for j in range(N_FOLDS) if j != k)
            yield self._part(N_FOLDS, rest, seed), self._part(N_FOLDS, (k,), seed)

    def halves(self, random_state: int | None) -> tuple[StreamedRows, StreamedRows]:
        """Rows to learn from, and rows kept apart."""
        seed = _seed(random_state)
        return self._part(2, (0,), seed), self._part(2, (1,), seed)

    def _part(self, n_parts: int, members: tuple[int, ...], seed: int) -> StreamedRows:
        self.source.keep_order()
        parts = (*self.how.parts, Part(n_parts, members, seed))
        return StreamedRows(self.source, replace(self.how, parts=parts))


@dataclass(frozen=True)
class Prepared:
    """What is done to a batch before it is used: parts of its rows, as they are trained on."""

    parts: tuple[Part, ...] = ()
    scaling: Scaling | None = None

    def __call__(self, batch: Batch) -> Batch:
        for part in self.parts:
            batch = part(batch)
        if self.scaling is None:
            return batch
        return batch._replace(X=self.scaling.training_rows(batch.X))


@dataclass(frozen=True)
class FirstLook:
    """What one reading tells: sums by class, sums of squares of the columns, who the rows are."""

    sums: ClassSums
    squares: Floats
    rows: Fingerprint

    def __add__(self, other: FirstLook) -> FirstLook:
        return FirstLook(
            self.sums + other.sums, self.squares + other.squares, self.rows + other.rows
        )

    def check(self, names: Sequence[str]) -> None:
        low, high = self.sums.extremes.low, self.sums.extremes.high
        bad = np.flatnonzero(~np.isfinite(low) | ~np.isfinite(high))
        if len(bad) and self.rows.n_rows:
            raise ValueError(
                f"features should be finite numbers, got a missing or infinite one in "
                f"{names[bad[0]]!r}. Fill it in, or leave the column out."
            )
        n_treated = int(self.sums.products[:2, 0, 0].sum())
        if self.rows.n_rows and n_treated in (0, self.rows.n_rows):
            raise ValueError(
                f"treatment should have two levels, treated and control; all "
                f"{self.rows.n_rows:,} rows are {'treated' if n_treated else 'control'}. An effect "
                f"needs both arms."
            )


def _look(batch: Batch, how: Prepared) -> FirstLook:
    batch = how(batch)
    binary = (batch.y == 0) | (batch.y == 1)
    if not binary.all():
        raise ValueError(
            f"y should be 0 or 1 for this model, got {batch.y[~binary][0]:g}. Cut the outcome at a "
            f"threshold first."
        )
    return FirstLook(
        class_sums(pair_rows(batch)),
        np.einsum("ij,ij->j", batch.X, batch.X, dtype=np.float64),
        fingerprint(batch.X, batch.y, batch.treated),
    )


def _largest_norm(batch: Batch, how: Prepared, scaling: Scaling) -> Extremes:
    largest = scaled_radius(how(batch).X, scaling)
    return Extremes(np.zeros(()), np.asarray(largest))


def _seed(random_state: int | None) -> int:
    return int(np.random.default_rng(random_state).integers(2**62))


def _check_fewest(fewest: int) -> None:
    if fewest < 2:
        raise ValueError(
            f"each arm should have at least 2 rows of each outcome for selection='cv', got "
            f"{fewest} in one. Use selection='bound' or selection=None."
        )
