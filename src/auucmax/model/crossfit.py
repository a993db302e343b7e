"""Cross-fitting: every row is judged by a model that has not seen it, and every row is learnt from.

Rows are dealt into folds by a keyed hash of their group, their id, or their place. For each fold a
model is fitted on the others, encoder and all choices included. For the certificate the folds are
chunks in an order: model k has learnt from the chunks before k and is bet on chunk k.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._json import short
from auucmax._progress import Work
from auucmax._validation import Bools, Floats
from auucmax.certificates.known_chances import evenly_drawn, most_people
from auucmax.data import RandomisationReport
from auucmax.data.hashing import Checksum
from auucmax.data.outcomes import responders
from auucmax.data.reading import table_of
from auucmax.encoding import TableEncoder
from auucmax.model.columns import ColumnNames
from auucmax.model.judging import Judged, ranks_within
from auucmax.model.rows import Hashes, chances_note, check_trial_rows, trial_rows
from auucmax.rows import ArrayRows

LEAST = 20  #: rows with the outcome, and without it, of each arm, that a model is fitted on
MANY_ROWS = 1_000_000  #: above, two folds are enough
N_CHUNKS = 5
#: About how long models take for as many rows, in that of "auto"; others take as long.
_WORK = {"shrunk": 0.3, "boosted": 0.7, "auucmax": 0.1, "tm": 0.05, "response": 0.05, "cvt": 0.05}

Codes = NDArray[np.int64]


def work_of(names: Iterable[str]) -> float:
    """How much work it is to fit models of these names once."""
    return sum(_WORK.get(name, 1.0) for name in names)


class Fitted(NamedTuple):
    """An encoder, and estimators of the rows that it encodes, by name."""

    encoder: TableEncoder
    estimators: dict[str, Any]


class Scored(NamedTuple):
    """Scores (n,) and checksum of all rows, standard deviations (p,) of the encoded features."""

    score: Floats
    checksum: Checksum
    deviation: Floats


class TableRows:
    """The rows of two arms of a table.

    ``raw`` has them with all their columns; ``rows`` are :class:`auucmax.rows.Rows` with frames as
    X and hashes of ids, or of places, as keys. ``y``, ``treated``, ``keys`` and, if chances of
    treatment are known, ``weight`` are (n,).
    """

    def __init__(self, table: Any, columns: ColumnNames, key: str) -> None:
        self.table = table_of(table, columns.all, columns.ignored)
        self.columns = columns
        self.raw = raw = trial_rows(self.table, columns)
        self.left_out = _frequent(raw.left_out)
        self.y, self.treated, self.keys = raw.y, raw.treated, raw.keys(key)
        self.propensity, self.people, self.chances = raw.propensity, raw.people, raw.chances
        self.weight = raw.weight
        self.rows = ArrayRows(self.features, self.y, self.treated, self.weight, keys=self.keys)

    def judged(self, score: Floats, some: Bools | None = None) -> Judged:
        """The rows, or some of them, with their scores, (some,); groups numbered anew."""
        own = slice(None) if some is None else some
        groups = None
        if self.columns.groups is not None:
            groups = np.unique(self.keys[own], return_inverse=True)[1]
        chance, people = (
            None if values is None else values[own] for values in (self.propensity, self.people)
        )
        return Judged(self.y[own], score, self.treated[own], groups, chance, people)

    @property
    def features(self) -> pd.DataFrame:
        """The raw features."""
        return self.raw.frame[list(self.columns.features)]

    def of_arm(self, treated: bool) -> Self:
        """The rows of one of the arms alone, to be scored by models of other arms, too."""
        found, own = copy.copy(self), self.treated == treated
        found.rows = self.rows.take(own)
        found.y, found.treated, found.keys = self.y[own], self.treated[own], self.keys[own]
        found.chances = None if self.chances is None else self.chances[own]
        return found

    def check(self) -> RandomisationReport:
        """Was treatment given at random, as far as the rows tell?"""
        return check_trial_rows(self.raw, self.columns)

    @property
    def chances_told(self) -> list[str]:
        """A sentence on unequal chances, if there are such."""
        return chances_note(self.columns, self.propensity)

    def fit(self, estimators: Mapping[str, Any], keep: Chosen) -> Fitted:
        """An encoder and estimators, fitted on some of the rows."""
        features, columns = self.features, self.columns
        encoder = TableEncoder(categorical=columns.categorical, numeric=columns.numeric)
        encoder.fit(features[keep(self.keys)]).accept(features)
        some = self._some(keep)
        encoded = some.part(encoder.fit_means(some))
        weight = {} if encoded.weight is None else {"sample_weight": encoded.weight}
        for one in estimators.values():
            one.fit(np.asarray(encoded.X), encoded.y, treatment=encoded.treated, **weight)
        return Fitted(encoder, dict(estimators))

    def scores(self, fitted: Fitted, keep: Chosen) -> Floats:
        """Scores of some of the rows, in their order, by each estimator: (estimators, rows)."""
        X = accepting(fitted.encoder)(self._some(keep).X)
        found = [one.predict(X) for one in fitted.estimators.values()]
        return np.array(found, dtype=np.float64)

    def _some(self, keep: Chosen) -> ArrayRows:
        return self.rows.take(keep(self.rows.keys))

    def scored(self, encode: Encode, estimator: Any) -> Scored:
        """Scores of all rows by a model, and their checksum."""

        X = encode(self.rows.X)
        score = np.asarray(estimator.predict(X), dtype=np.float64)
        return Scored(score, Checksum.of(X, self.y, self.treated), _deviations(X))


def _deviations(X: Floats) -> Floats:
    """(p,) standard deviations; features of 1e200 have none."""
    with np.errstate(over="ignore", invalid="ignore"):
        apart = X - X[:1]  # the first row as the centre keeps the squares from cancelling
        mean, square = np.array([apart.sum(axis=0), (apart**2).sum(axis=0)]) / len(X)
        return np.asarray(np.sqrt(np.maximum(square - mean**2, 0)))


def _frequent(labels: Mapping[str, int]) -> dict[str, int]:
    """Numbers of rows by label; labels of few rows, which may tell of a person, are not named."""
    kept = {short(label): n for label, n in labels.items() if n >= LEAST}
    rest = sum(labels.values()) - sum(kept.values())
    return kept | ({"other values": rest} if rest else {})


Chosen = Callable[[Hashes], Bools]


def every_row(keys: Hashes) -> Bools:
    return np.ones(len(keys), dtype=bool)


Encode = Callable[[pd.DataFrame], Floats]


def accepting(encoder: TableEncoder) -> Encode:
    """Encodes raw rows; a level that only rows of other folds have is no error."""
    return lambda frame: encoder.accept(frame).transform(frame)


@dataclass(frozen=True)
class Recipe:
    """How rows are dealt and what is fitted: all that is needed to do it again.

    ``hold_out`` is the share of rows that the model does not learn from, 0 with cross-fitting, and
    then ``n_folds`` is the number of folds. ``key`` is that of the hashes, ``seed`` the model's.
    ``n_candidates``: among how many models the user chose this one on these rows.
    """

    model: str
    key: str
    seed: int
    hold_out: float
    n_folds: int
    n_candidates: int = 1

    @property
    def fits(self) -> list[float]:
        """The shares of the rows that are learnt from: for folds, chunks and the model kept."""
        if self.hold_out:
            return [1 - self.hold_out]
        chunks = [k * self.per_chunk / self.n_folds for k in range(1, self.n_chunks)]
        shared = self.per_chunk == 1  # the model of the last chunk is that of the last fold
        chunks = chunks[:-1] if shared else chunks
        return [1 - 1 / self.n_folds] * self.n_folds + chunks + [1.0]

    def size(self, share: float, n_rows: int) -> float:
        """How much work it is to learn from a share of the rows, in that of all of them."""
        return share + 2_000 / n_rows  # some of it for any number of rows

    @property
    def per_chunk(self) -> int:
        """How many folds are a chunk."""
        return -(-self.n_folds // N_CHUNKS)

    @property
    def n_chunks(self) -> int:
        return self.n_folds // self.per_chunk

    def folds(self, keys: Hashes) -> Codes:
        """(n,) the fold of each row."""
        return (_places(keys) * self.n_folds).astype(np.int64)

    def inside(self, *folds: int) -> Chosen:
        """The rows of some folds."""
        return lambda keys: np.isin(self.folds(keys), folds)

    def outside(self, fold: int) -> Chosen:
        """The rows of all other folds."""
        return lambda keys: self.folds(keys) != fold

    def before(self, fold: int) -> Chosen:
        """The rows of the folds before one."""
        return lambda keys: self.folds(keys) < fold

    def held_out(self, keys: Hashes) -> Bools:
        """(n,) the rows that are set aside."""
        return np.asarray(_places(keys) < self.hold_out)


class OutOfFold(NamedTuple):
    """Ranks of every row by models that have not seen it, and the chunks of the certificate.

    ``ranks`` (n,) by name, within the rows of a fold; ``fold`` (n,). A chunk has outcomes, scores
    and treatments; the first has no scores and is not bet on. There is no chunk if the rows before
    the last one are too few to learn from. ``keys`` are those of the rows of each chunk,
    ``chances`` their chances of treatment; empty, if these are the same for all.
    ``people``: how many people they stand for; empty, if everybody was as likely to be in one of
    the two arms. ``scores`` (2, n) are of the first kind of model, by that of the fold and by that
    of the chunk (NaN where there is none), of the rows themselves, and then of each table of
    further rows.
    """

    ranks: dict[str, Floats]
    fold: Codes
    chunks: list[tuple[Floats, Floats | None, Bools]]
    keys: list[Hashes]
    chances: list[Floats]
    scores: list[Floats]
    people: list[Floats]

    def evenly_drawn(self) -> OutOfFold:
        """With chunks in which everybody is as likely to be, whatever the chance to be in one of
        the two arms; :class:`ChancesBeyond` if the first chunk does not let expect such chances."""
        if not self.people:
            return self
        most, mix = most_people(self.people[0]), np.uint64(0xA24BAED4963EE407)
        parts = [
            evenly_drawn(own, most, _places(keys * mix))  # other bits than those of folds
            for own, keys in zip(self.people, self.keys, strict=True)
        ]
        chunks = [
            (y[part], None if score is None else score[part], treated[part])
            for part, (y, score, treated) in zip(parts, self.chunks, strict=True)
        ]
        keys = [own[part] for part, own in zip(parts, self.keys, strict=True)]
        chances = [own[part] for part, own in zip(parts, self.chances, strict=True)]
        return self._replace(chunks=chunks, keys=keys, chances=chances)


def cross_fit(
    rows: TableRows,
    makes: Mapping[str, Callable[[], Any]],
    recipe: Recipe,
    *,
    with_chunks: bool,
    work: Work | None = None,
    also: Sequence[TableRows] = (),
) -> OutOfFold:
    """Fit models for each fold and, of the first kind, for each chunk of the certificate.

    ``work`` is told which part is done. ``also``: further rows, which nobody learns from, to be
    scored by the models of their folds and chunks.
    """
    work = Work("") if work is None else work
    fold, first = recipe.folds(rows.keys), next(iter(makes))
    score = np.empty((len(makes), len(rows.y)))
    found = [np.full((2, len(table.y)), np.nan) for table in (rows, *also)]
    # The first chunks have the fewest rows: soon they tell how long the rest takes.
    with _of_a_part():
        bet_on = _chunk_scores(rows, makes, recipe, work, found, also) if with_chunks else []
    for k in range(recipe.n_folds):
        size = work_of(makes) * recipe.size(1 - 1 / recipe.n_folds, len(rows.y))
        with work.part(f"fold {k + 1} of {recipe.n_folds}", size), _of_a_part():
            inside = fold == k
            if any(recipe.inside(k)(table.keys).any() for table in (rows, *also)):
                made = {name: make() for name, make in makes.items()}
                fitted = rows.fit(made, recipe.outside(k))
                if inside.any():
                    score[:, inside] = rows.scores(fitted, recipe.inside(k))
                first_alone = Fitted(fitted.encoder, {first: made[first]})
                _score_further(first_alone, recipe.inside(k), also, [own[0] for own in found[1:]])
    found[0][0] = score[0]
    ranks = {name: ranks_within(own, fold) for name, own in zip(makes, score, strict=True)}
    if recipe.per_chunk == 1 and bet_on:  # the model of the last fold is that of the last chunk
        for table, own in zip((rows, *also), found, strict=True):
            last = recipe.folds(table.keys) == recipe.n_folds - 1
            own[1, last] = own[0, last]
    chunks, parts = _chunks(rows, recipe, bet_on, found[0][1])
    keys = [rows.keys[part] for part in parts]
    chances = [] if rows.propensity is None else [rows.propensity[part] for part in parts]
    people = [] if rows.people is None else [rows.people[part] for part in parts]
    return OutOfFold(ranks, fold, chunks, keys, chances, found, people)


@contextmanager
def _of_a_part() -> Iterator[None]:
    """What only part of the rows lack is no warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="columns should tell rows apart")
        yield


def _chunks(
    rows: TableRows, recipe: Recipe, bet_on: Sequence[int], score: Floats
) -> tuple[list[tuple[Floats, Floats | None, Bools]], list[Bools]]:
    """Chunks as the certificate takes them, and which rows are in each, (n,)."""
    chunk = recipe.folds(rows.keys) // recipe.per_chunk
    chunks: list[tuple[Floats, Floats | None, Bools]] = []
    parts: list[Bools] = []  # rows of each chunk
    for k in bet_on:
        inside = chunk == k
        if not chunks:
            before = chunk < k
            chunks.append((rows.y[before], None, rows.treated[before]))
            parts.append(before)
        chunks.append((rows.y[inside], score[inside], rows.treated[inside]))
        parts.append(inside)
    return chunks, parts


def _score_further(
    fitted: Fitted, keep: Chosen, also: Sequence[TableRows], into: Sequence[Floats]
) -> None:
    for table, own in zip(also, into, strict=True):
        inside = keep(table.keys)
        if inside.any():
            own[inside] = table.scores(fitted, keep)[0]


def _chunk_scores(
    rows: TableRows,
    makes: Mapping[str, Callable[[], Any]],
    recipe: Recipe,
    work: Work,
    into: Sequence[Floats],
    also: Sequence[TableRows],
) -> list[int]:
    """Put scores of each chunk that is bet on, by a model of the chunks before it, ``into[:][1]``.

    But for the last chunk, if it is a fold: the model of the fold has learnt from the same rows.
    Chunks are folds, or several of them together. Those that are bet on are returned.
    """
    chunk, n_chunks = recipe.folds(rows.keys) // recipe.per_chunk, recipe.n_chunks
    name, make = next(iter(makes.items()))
    bet_on = range(first_chunk(rows, chunk, n_chunks), n_chunks)
    for k in bet_on:
        if k == n_chunks - 1 and recipe.per_chunk == 1:
            continue
        size = work_of([name]) * recipe.size(k / n_chunks, len(rows.y))
        with work.part(f"certificate, part {k} of {n_chunks - 1}", size):
            own = range(k * recipe.per_chunk, (k + 1) * recipe.per_chunk)
            fitted = rows.fit({name: make()}, recipe.before(own[0]))
            _score_further(fitted, recipe.inside(*own), (rows, *also), [one[1] for one in into])
    return list(bet_on)


def first_chunk(rows: TableRows, chunk: Codes, n_chunks: int) -> int:
    """The first chunk before which there are rows enough to learn from, or ``n_chunks``."""
    for k in range(1, n_chunks):
        if fewest_rows(rows.y, rows.treated, chunk < k) >= LEAST and (chunk == k).any():
            return k
    return n_chunks


def number_of_folds(rows: TableRows, key: str) -> int:
    """5, 2 of very many rows, or as many as leave enough in every training part.

    ValueError if no number does.
    """
    if len(rows.y) > MANY_ROWS:
        return 2
    # More folds leave more rows to learn from.
    for n_folds in (5, 10, 20):
        fold = Recipe("", key, 0, 0.0, n_folds).folds(rows.keys)
        least = min(fewest_rows(rows.y, rows.treated, fold != k) for k in range(n_folds))
        if least >= LEAST:
            return n_folds
    what = f"{LEAST} rows"
    if responders(rows.y) is not None:
        what = f"{what} with the outcome and {LEAST} without it"
    raise ValueError(
        f"each arm should have at least {what} in every part that a model learns from, got {least} "
        f"of one kind. There are too few rows: collect more."
    )


def fewest_rows(y: Floats, treated: Bools, some: Bools | slice) -> int:
    """Of some rows, the fewest of a kind: arm, by whether they respond if that can be told."""
    code = treated.astype(np.int64)
    n_kinds, who = 2, responders(y)
    if who is not None:
        code, n_kinds = 2 * code + who, 4
    return int(np.bincount(code[some], minlength=n_kinds).min())


def _places(keys: Hashes) -> Floats:
    """Places of hashes between 0 and 1, less than 1."""
    return np.asarray((keys >> np.uint64(11)).astype(np.float64) / 2.0**53)
