"""Cross-fitting: every row is scored by a model that was not trained on it.

Rows are assigned to folds by a keyed hash of their group, id or place. For each fold a model is
trained on the others, with its own encoder. For the certificate the folds are chunks in an order:
model k is trained on the chunks before k and bets on chunk k.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._errors import InputError
from auucmax._progress import Work
from auucmax._validation import Bools, Floats
from auucmax.data.hashing import Hashes
from auucmax.data.pair import Pair
from auucmax.encoding import TableEncoder
from auucmax.encoding.kinds import responders
from auucmax.results import Result

LEAST = 20  #: rows with and without the outcome, of each arm, that a model is trained on
MANY_ROWS = 1_000_000  #: above, two folds are enough
N_CHUNKS = 5

Codes = NDArray[np.int64]
Makes = Mapping[str, Callable[[], Any]]


class Recipe(Result):
    """Fold assignment and models of a fit, sufficient to reproduce it.

    ``hold_out`` is the share of rows that the model is not trained on, 0 with cross-fitting.
    ``key`` is that of the hashes, ``seed`` the model's. ``n_candidates``: the number of models that
    were tried on these rows, of which this one is kept.
    """

    model: str
    key: str
    seed: int
    hold_out: float = 0.0
    n_folds: int = 1
    n_candidates: int = 1

    def __post_init__(self) -> None:
        key_ok = len(self.key) == 16 and self.key.isascii()
        numbers_ok = 0 <= self.hold_out < 1 and 1 <= self.n_folds <= 100 and self.seed >= 0
        if not (key_ok and numbers_ok):
            raise ValueError("a recipe should have a key of 16 characters and at most 100 folds.")

    @property
    def per_chunk(self) -> int:
        """Number of folds per chunk."""
        return -(-self.n_folds // N_CHUNKS)

    @property
    def n_chunks(self) -> int:
        return self.n_folds // self.per_chunk

    def folds(self, keys: Hashes) -> Codes:
        """Fold of each row, (n,)."""
        return (places(keys) * self.n_folds).astype(np.int64)

    def held_out(self, keys: Hashes) -> Bools:
        """Mask of held-out rows, (n,)."""
        return np.asarray(places(keys) < self.hold_out)


def places(keys: Hashes) -> Floats:
    """Hashes as numbers in [0, 1)."""
    return np.asarray((keys >> np.uint64(11)).astype(np.float64) / 2.0**53)


@dataclass
class Fitted:
    """A fitted encoder with fitted estimators by name."""

    encoder: TableEncoder
    estimators: dict[str, Any]

    def scores(self, frame: pd.DataFrame) -> dict[str, Floats]:
        """Scores (n,) by estimator name; new categories are allowed."""
        X = self.encoder.accept(frame).transform(frame)
        return {
            name: np.asarray(own.predict(X), dtype=np.float64)
            for name, own in self.estimators.items()
        }


def train(pair: Pair, makes: Makes, some: Bools) -> Fitted:
    """Fit an encoder and named estimators to some rows of a pair."""
    roles, features = pair.trial.roles, pair.X
    encoder = TableEncoder(categorical=roles.categorical, numeric=roles.numeric)
    y, treated = pair.y[some], pair.treated[some]
    weight = None if pair.weight is None else pair.weight[some]
    X = encoder.fit_transform(features[some], y, treated, pair.keys[some], weight)
    encoder.accept(features)
    weights = {} if weight is None else {"sample_weight": weight}
    estimators = {name: make() for name, make in makes.items()}
    for one in estimators.values():
        one.fit(X, y, treatment=treated, **weights)
    return Fitted(encoder, estimators)


@dataclass
class OutOfFold:
    """Out-of-fold scores of all rows.

    ``fold`` (n,) of all rows of the trial; ``ranks`` (m,) by name, of the rows of the pair within
    their fold. ``rank`` and ``chunk_score`` (n,) are of the first model, for all rows of the trial:
    the rank among rows of the pair, and the score by the model of the chunks before, NaN where
    there is none.
    ``parts``: the rows of the pair in the chunks before the first that has a model, and in each
    that has one; none if too few rows come before the last chunk.
    """

    fold: Codes
    ranks: dict[str, Floats]
    rank: Floats
    chunk_score: Floats
    parts: list[NDArray[np.intp]]


def cross_fit(
    pair: Pair, makes: Makes, recipe: Recipe, keys: Hashes, *, with_chunks: bool, work: Work
) -> OutOfFold:
    """Cross-fit models for each fold and, for the first model, each certificate chunk.

    ``keys`` are those of all rows of the trial: rows of other arms are scored as well.
    """
    trial, n = pair.trial, pair.trial.n_rows
    fold = recipe.folds(keys)
    chunk = fold // recipe.per_chunk
    own_fold, own_chunk = fold[pair.index], chunk[pair.index]
    first, last = next(iter(makes)), recipe.n_chunks - 1
    bet_on = list(range(1, recipe.n_chunks)) if with_chunks else []
    # The first one has rows, and enough before it to train on.
    while bet_on and not (
        (own_chunk == bet_on[0]).any() and fewest_rows(pair, own_chunk < bet_on[0]) >= LEAST
    ):
        del bet_on[0]
    scores = {name: np.full(n, np.nan) for name in makes}
    of_chunk = {first: np.full(n, np.nan)}
    # The smallest first: they show how long the rest takes. The model of the last chunk is that of
    # the last fold if a chunk is one fold.
    parts = [
        (f"certificate, part {k} of {last}", of_chunk, own_chunk < k, chunk == k)
        for k in bet_on
        if k < last or recipe.per_chunk > 1
    ]
    parts += [
        (f"fold {k + 1} of {recipe.n_folds}", scores, own_fold != k, fold == k)
        for k in range(recipe.n_folds)
    ]
    # In time for the first model: rivals are quick beside it.
    sizes = [float(some.mean()) for _, _, some, _ in parts]
    work.expect(sum(sizes) + 1.0)
    with warnings.catch_warnings():
        # A column that lacks something in part of the rows only.
        warnings.filterwarnings("ignore", message="columns should tell rows apart")
        for (label, found, some, own), size in zip(parts, sizes, strict=True):
            inside = np.flatnonzero(own)
            with work.part(label, size):
                if len(inside):
                    fitted = train(pair, {name: makes[name] for name in found}, some)
                    for name, score in fitted.scores(trial.X.iloc[inside]).items():
                        found[name][inside] = score
    chunk_score = of_chunk[first]
    if recipe.per_chunk == 1 and bet_on:
        chunk_score[chunk == last] = scores[first][chunk == last]
    ranks = {name: ranks_within(own[pair.index], own_fold) for name, own in scores.items()}
    rank = np.full(n, 0.5)
    for k in np.unique(own_fold):
        inside, own = fold == k, pair.index[own_fold == k]
        rank[inside] = ranks_among(scores[first][inside], scores[first][own])
    masks = [own_chunk < k for k in bet_on[:1]] + [own_chunk == k for k in bet_on]
    return OutOfFold(fold, ranks, rank, chunk_score, [np.flatnonzero(mask) for mask in masks])


def number_of_folds(pair: Pair, key: str) -> int:
    """Number of folds: 5, 2 for very many rows, or as many as leave enough training rows."""
    if len(pair.y) > MANY_ROWS:
        return 2
    least = 0
    for n_folds in (5, 10, 20):  # more folds leave more rows to train on
        fold = Recipe(model="", key=key, seed=0, n_folds=n_folds).folds(pair.keys)
        least = min(fewest_rows(pair, fold != k) for k in range(n_folds))
        if least >= LEAST:
            return n_folds
    raise too_few("the trial", least, pair, "Collect more rows: no --model needs fewer.")


def too_few(parameter: str, least: int, pair: Pair, hint: str) -> InputError:
    """Error for a part of the trial with too few rows to train or evaluate on."""
    rows = {"control rows": ~pair.treated, "treated rows": pair.treated}
    if (who := responders(pair.y)) is not None:
        rows = {
            f"{name} {how} the outcome": some & own
            for name, some in rows.items()
            for how, own in (("with", who), ("without", ~who))
        }
    rarest = min(rows, key=lambda name: int(rows[name].sum()))
    return InputError(
        parameter,
        f"at least {LEAST} rows of each arm, with and without the outcome, in every part that a "
        f"model is trained on or judged on",
        f"{least} in one part: there are {rows[rarest].sum():,} {rarest}", hint,
    )  # fmt: skip


def fewest_rows(pair: Pair, some: Bools) -> int:
    """Smallest count of rows, or of responders and non-responders, in an arm."""
    code = pair.treated.astype(np.int64)
    n_kinds, who = 2, responders(pair.y)
    if who is not None:
        code, n_kinds = 2 * code + who, 4
    return int(np.bincount(code[some], minlength=n_kinds).min())


def ranks_within(score: Floats, fold: NDArray[np.integer[Any]]) -> Floats:
    """Rank of each score within its fold, between 0 and 1, ties averaged, (n,).

    >>> score, fold = np.array([5.0, 7.0, 0.1, 0.3, 0.1, 0.2]), np.array([0, 0, 1, 1, 1, 1])
    >>> ranks_within(score, fold).tolist()
    [0.25, 0.75, 0.25, 0.875, 0.25, 0.625]
    """
    own = pd.Series(score).groupby(fold)
    return np.asarray((own.rank() - 0.5) / own.transform("size"), dtype=np.float64)


def ranks_among(score: Floats, others: Floats) -> Floats:
    """Share of the other scores that are lower, ties half, (n,).

    >>> ranks_among(np.array([1.0, 2.5, 9.0]), np.array([1.0, 2.0, 3.0, 1.0])).tolist()
    [0.25, 0.75, 1.0]
    """
    ordered = np.sort(others)
    below, reached = (np.searchsorted(ordered, score, side=side) for side in ("left", "right"))
    return np.asarray((below + reached) / (2 * len(ordered)))
