"""What fitting and choosing a linear score asks of its rows, in memory or elsewhere.

In memory answers are exact and cost no reading: AUUC is that of the ranks. Of other rows one look
tells what is needed to start with, and AUUC comes from histograms. Folds are the same for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import methodcaller
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from auucmax._validation import Floats
from auucmax.data.seen import RowSet, TrainingRecord
from auucmax.data.splits import TrialKFold
from auucmax.estimators.base import UpliftEstimator
from auucmax.estimators.scaling import Scaling, fit_scaling, scaled_radius, scaling_of, unit_rows
from auucmax.evaluation.bins import BinnedLevels, score_edges, score_levels
from auucmax.evaluation.metrics import auuc_score
from auucmax.evaluation.ranking import RankingKind
from auucmax.pairs import PairObjective, StreamedObjective, Surrogate, column_range, scores
from auucmax.pairs.streamed import ClassSums, class_sums
from auucmax.rows import ArrayRows, Batch, Extremes, Part, Question, Rows, Sample, Share
from auucmax.rows.base import Step

N_FOLDS = 5
RARE_ROWS = 1000  #: of each outcome and arm, on average, that a part of the rows should hold
_BINS = 16_384  # of the histograms that compare candidates on all rows: an error of about 1e-6
FOLD_BINS = 4096  #: on a fold: far below the differences that folds show


@dataclass(frozen=True)
class Look:
    """What one reading tells: sums by class, sums of squares of the columns, who the rows are."""

    sums: ClassSums
    squares: Floats
    rows: RowSet

    def __add__(self, other: Look) -> Look:
        return Look(self.sums + other.sums, self.squares + other.squares, self.rows + other.rows)

    def check(self, names: Sequence[str]) -> None:
        """ValueError for features that are missing or infinite, or rows of one arm only."""
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


class Fold(NamedTuple):
    """Rows to learn from and rows to judge by; taken when they are asked for."""

    train: Callable[[], LearningRows]
    test: Callable[[], LearningRows]


@dataclass(frozen=True)
class LearningRows:
    """Rows that a linear score learns from. ``known``: their sums, where somebody has them."""

    rows: Rows
    known: ClassSums | None = None
    _made: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def n_features(self) -> int:
        return len(self.rows.names)

    @property
    def n_rows(self) -> int:
        if isinstance(self.rows, ArrayRows):
            return len(self.rows.y)
        return int(self.sums.products[:, 0, 0].sum())

    @cached_property
    def look(self) -> Look:
        """Of rows that are not in memory: one reading, in which they are checked."""
        (found,) = self.rows.total(_look)
        found.check(self.rows.names)
        return found

    @property
    def sums(self) -> ClassSums:
        return self.look.sums if self.known is None else self.known

    def class_counts(self) -> tuple[float, float, float, float]:
        """Weight of treated responders and others, control responders and others."""
        if isinstance(self.rows, ArrayRows):
            d, c, b, a = np.bincount(cells(self.rows), self.rows.weight, minlength=4)
        else:
            a, b, d, c = self.sums.products[:, 0, 0]
        return float(a), float(b), float(c), float(d)

    def column_range(self) -> tuple[Floats, Floats]:
        """Smallest and largest value of each column."""
        if isinstance(self.rows, ArrayRows):
            return column_range(self.rows.X)
        return self.sums.extremes.low, self.sums.extremes.high

    def scaling(self, kind: str) -> Scaling:
        """Learnt from these rows."""
        if isinstance(self.rows, ArrayRows):
            return fit_scaling(self.rows.X, kind, self.rows.weight)
        rows = self._unit if kind == "unit-rows" else self
        return scaling_of(kind, *rows.column_range(), squares=rows.look.squares)

    def scaled(self, scaling: Scaling) -> LearningRows:
        """With X as the objective takes it: scaled by row; columns are scaled in the factors."""
        if scaling.offset is not None:
            return LearningRows(self.rows.map(scaling.training_rows))
        return self._unit if scaling.kind == "unit-rows" else self

    @cached_property
    def _unit(self) -> LearningRows:
        return LearningRows(self.rows.map(unit_rows))

    def radius(self, scaling: Scaling) -> Question[float]:
        """R, the largest norm of a row that a scaling makes of these."""
        if isinstance(self.rows, ArrayRows):
            return scaled_radius(self.rows.X, scaling)
        ((found,),) = yield [(self.rows, (partial(_largest_norm, scaling=scaling),))]
        return float(found.high)

    def objective(
        self, surrogate: Surrogate, weights: str | tuple[float, float], level: int = 0
    ) -> PairObjective | StreamedObjective:
        """What is minimised; ``level`` is that of an objective of similar rows."""
        if not isinstance(self.rows, ArrayRows):
            # One for each solver: it remembers the last point, and solvers take turns.
            return StreamedObjective(
                self.rows, known=self.sums, surrogate=surrogate, weights=weights, level=level
            )
        how = {"surrogate": surrogate, "weights": weights}
        if self._made.get("how") != how:  # in memory solvers do not, and one is enough
            X, y, treated, weight = self.rows.columns
            made = PairObjective(X, y, treatment=treated, sample_weight=weight, **how)
            self._made.update(how=how, objective=made)
        return self._made["objective"]

    def auucs(
        self, coefs: Sequence[Floats], ranking: RankingKind, n_bins: int = _BINS
    ) -> Question[list[float]]:
        """AUUC of the scores X coef, for each; two readings of rows that are not in memory."""
        if isinstance(self.rows, ArrayRows):
            X, y, treated, weight = self.rows.columns
            how: dict[str, Any] = {
                "treatment": treated,
                "ranking": ranking,
                "sample_weight": weight,
            }
            return [auuc_score(y, scores(X, coef), **how) for coef in coefs]
        n_bins = min(n_bins, self.rows.max_bytes // 256)  # 16 scores of 16 bytes a bin
        (samples,) = yield [
            (self.rows, [partial(_sample, coef=coef, size=16 * n_bins) for coef in coefs])
        ]
        edges = [score_edges(sample.values, n_bins) for sample in samples]
        (histograms,) = yield [
            (
                self.rows,
                [partial(_histogram, coef=c, edges=e) for c, e in zip(coefs, edges, strict=True)],
            )
        ]
        return [histogram.auuc(ranking) for histogram in histograms]

    def folds(self, random_state: int | None) -> Question[list[Fold]]:
        """By a hash of the row's key, so that rows have the same folds wherever they are.

        Arms and outcomes are left to chance where there are many rows of each. Where not, folds
        are dealt by arm and outcome, and fewer of them; only of rows in memory.
        """
        rows = self.rows
        if isinstance(rows, ArrayRows):  # of which it is rows, not weights, that are counted
            fewest = int(np.bincount(cells(rows), minlength=4).min())
        else:
            fewest = int(min(self.class_counts()))
        if fewest < 2:
            raise ValueError(
                f"each arm should have at least 2 rows of each outcome for selection='cv', got "
                f"{fewest} in one. Use selection='bound' or selection=None."
            )
        if fewest >= 20 * N_FOLDS:
            steps = _hashed_folds(random_state)
        elif isinstance(rows, ArrayRows):
            steps = _strata_folds(rows, min(N_FOLDS, fewest), random_state)
        else:
            raise ValueError(
                f"each arm should have at least {20 * N_FOLDS} rows of each outcome for "
                f"selection='cv' of rows that are read batch by batch, got {fewest} in one. Use "
                f"selection='bound' or None, or read them into memory."
            )
        # The sums of the rows to learn from follow from those of all: no reading of their own.
        sums: list[Any] = [[None]] * len(steps)
        if not isinstance(rows, ArrayRows):
            sums = yield [(rows.part(test), (class_sums,)) for _, test in steps]
        # In memory a fold is a copy: taken when it is its turn, so that one is held at a time.
        return [
            Fold(
                partial(self._part, train, None if own is None else self.sums.without(own)),
                partial(self._part, test, own),
            )
            for (train, test), (own,) in zip(steps, sums, strict=True)
        ]

    def halves(self, random_state: int | None) -> tuple[LearningRows, LearningRows]:
        """Rows to learn from, and rows kept apart, by a hash of the row's key."""
        seed = seed_of(random_state)
        return self._part(Part(2, (0,), seed)), self._part(Part(2, (1,), seed))

    def _part(self, step: Step, known: ClassSums | None = None) -> LearningRows:
        return LearningRows(self.rows.part(step), known)

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
        # A seed of its own: folds of the rows that are drawn should not follow from the draw.
        with self.rows.part(Share(share, seed_of(random_state) ^ 1)).cached() as few:
            yield LearningRows(few)


class FitsRows(UpliftEstimator):
    """What models share that also learn from rows that are read batch by batch.

    A subclass writes ``_fit_rows(rows)``, which returns the rows that were learnt from, and those
    that were kept apart to choose among candidates, or None.
    """

    n_candidates_: int = 1  #: among which rows that were kept apart chose

    def _fit_rows(self, rows: Rows) -> tuple[LearningRows, LearningRows | None]:
        raise NotImplementedError

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        treatment: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        ids: ArrayLike | None = None,
    ) -> Self:
        """Learn to rank from the rows of a trial: arrays, or rows that are read batch by batch.

        Parameters
        ----------
        X : (n, d) features, array or frame of numbers; or rows of
            :func:`auucmax.rows.stream_table`, which bring outcome and treatment with them, need
            memory for a few batches only and give the same coefficients to 1e-6; to 1e-5 where rows
            hardly determine one (a column that differs in one row only, a fit that warns). Folds
            and halves are drawn by a hash of the row's number in memory as well, so the choice is
            the same. (On Spark a row's number is that of its partition and its place there.)
        y, treatment, sample_weight, ids : as for every model; see :class:`UpliftEstimator`.
        """
        if isinstance(X, Rows):
            given = {"y": y, "treatment": treatment, "sample_weight": sample_weight, "ids": ids}
            if named := [name for name, value in given.items() if value is not None]:
                raise ValueError(
                    f"{named[0]} should be left out with rows that are read batch by batch, which "
                    f"bring it with them; got one. Call fit(rows)."
                )
            self.n_features_in_ = len(X.names)
            self.feature_names_in_ = np.array(X.names, dtype=object)
            learn, kept = self._fit_rows(X)
            aside = () if kept is None else (kept.look.rows, self.n_candidates_)
            self.training_record_ = TrainingRecord.of(learn.look.rows, *aside)
            return self
        if y is None or treatment is None:
            raise TypeError(
                f"{'y' if y is None else 'treatment'} should be given with X, got none. Call "
                f"fit(X, y, treatment=treatment)."
            )
        return super().fit(X, y, treatment=treatment, sample_weight=sample_weight, ids=ids)

    def score(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        treatment: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """AUUC (joint ranking) of the scores of ``X``, rows that are read batch by batch included.

        Of these it is right to :meth:`auucmax.evaluation.BinnedLevels.auuc_error`.
        """
        if isinstance(X, Rows):
            return score_levels(X, self).auuc()
        if y is None or treatment is None:
            raise TypeError("y and treatment should be given with X, got none. Pass both.")
        return super().score(X, y, treatment=treatment, sample_weight=sample_weight)


def cells(rows: ArrayRows | Batch) -> NDArray[np.intp]:
    """0..3 for each row: control without and with response, treated without and with."""
    return 2 * rows.treated.astype(np.intp) + (rows.y == 1)


def seed_of(random_state: int | None) -> int:
    """Of the hash that draws parts."""
    return int(np.random.default_rng(random_state).integers(2**62))


def _hashed_folds(random_state: int | None) -> list[tuple[Step, Step]]:
    """Which rows are learnt from, and which are judged by, in each fold."""
    seed, numbers = seed_of(random_state), range(N_FOLDS)
    return [
        (Part(N_FOLDS, tuple(j for j in numbers if j != k), seed), Part(N_FOLDS, (k,), seed))
        for k in numbers
    ]


def _strata_folds(
    rows: ArrayRows, n_folds: int, random_state: int | None
) -> list[tuple[Step, Step]]:
    folds = TrialKFold(n_folds, by="treatment-outcome", random_state=random_state)
    return [
        (methodcaller("take", train), methodcaller("take", test))
        for train, test in folds.split(rows.X, rows.y, treatment=rows.treated)
    ]


def _look(batch: Batch) -> Look:
    if batch.weight is not None:
        raise ValueError(
            "rows that are read batch by batch should all weigh 1, got weights. Fit on arrays with "
            "sample_weight."
        )
    binary = (batch.y == 0) | (batch.y == 1)
    if not binary.all():
        raise ValueError(
            f"y should be 0 or 1 for this model, got {batch.y[~binary][0]:g}. Cut the outcome at a "
            f"threshold first."
        )
    return Look(
        class_sums(batch),
        np.einsum("ij,ij->j", batch.X, batch.X, dtype=np.float64),
        RowSet.of(batch.X, batch.y, batch.treated),
    )


def _largest_norm(batch: Batch, scaling: Scaling) -> Extremes:
    return Extremes(np.zeros(()), np.asarray(scaled_radius(batch.X, scaling)))


def _sample(batch: Batch, coef: Floats, size: int) -> Sample:
    return Sample.of(_scores(batch, coef), batch.keys, size)


def _histogram(batch: Batch, coef: Floats, edges: Floats) -> BinnedLevels:
    return BinnedLevels.of(batch.y, _scores(batch, coef), batch.treated, edges)


def _scores(batch: Batch, coef: Floats) -> Floats:
    return scores(batch.X, coef) if len(batch.y) else np.zeros(0)
