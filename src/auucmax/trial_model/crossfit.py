"""Cross-fitting: every row is judged by a model that has not seen it, and every row is learnt from.

Rows are dealt into folds by a keyed hash of their id, or of their place. Of each fold there is a
model that was fitted on the others, encoder and all choices included. For the certificate the folds
are chunks in an order: model k has learnt from the chunks before k and is bet on chunk k.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._progress import track
from auucmax._validation import Bools, Floats
from auucmax.data.pieces import PiecedTable, sampled
from auucmax.data.stream import stream_table
from auucmax.data.table_errors import TableError, changed_message
from auucmax.estimators.table_encoder import TableEncoder
from auucmax.trial_model.columns import ColumnNames
from auucmax.trial_model.evidence import is_binary, ranks_within
from auucmax.trial_model.rows import Hashes, TrialRows, trial_pieces

LEAST = 20  #: rows with the outcome, and without it, of each arm, that a model is fitted on
LEAST_IN_PIECES = 100  #: of a table in pieces: the search deals its rows into five folds
MANY_ROWS = 1_000_000  #: above, two folds are enough
N_CHUNKS = 5

Codes = NDArray[np.int64]


class Fitted(NamedTuple):
    """An encoder, and estimators of the rows that it encodes, by name."""

    encoder: TableEncoder
    estimators: dict[str, Any]

    def predict(self, frame: pd.DataFrame) -> Floats:
        """Scores of raw rows by each estimator, (estimators, n)."""
        X = self.encoder.transform(frame)
        return np.array([one.predict(X) for one in self.estimators.values()], dtype=np.float64)


class TableRows:
    """The rows of two arms of a table: outcomes and hashes in memory, raw columns where they are.

    ``y``, ``treated`` and ``keys`` (hashes of ids, or of places) are (n,). ``sample`` has raw rows:
    all of a frame; of a table that is read in pieces, as many as an encoder needs.
    """

    def __init__(self, table: pd.DataFrame | PiecedTable, columns: ColumnNames, key: str) -> None:
        self.table, self.columns, self.key = table, columns, key
        self.is_frame = isinstance(table, pd.DataFrame)
        pieces, sample, starts = [], [], []
        self.left_out: dict[str, int] = {}
        for rows in trial_pieces(table, columns, check=True):
            if isinstance(table, PiecedTable):
                some = sampled(rows.positions, table.sample_rows, table.n_rows)
                sample.append(rows.take(some))
                starts.append(rows.first + np.flatnonzero(some))
            else:
                sample.append(rows)
            pieces.append((rows.y, rows.treated, rows.keys(key)))
            for label, n in rows.left_out.items():
                self.left_out[label] = self.left_out.get(label, 0) + n
        self.y: Floats
        self.treated: Bools
        self.keys: Hashes
        self.y, self.treated, self.keys = map(np.concatenate, zip(*pieces, strict=True))
        self.sample = sample[0] if len(sample) == 1 else _joined(sample)
        # Places of the sample among the rows; all of a frame.
        self.sampled = np.concatenate(starts) if starts else np.arange(len(self.y))

    @property
    def least(self) -> int:
        """Rows of each outcome and arm that a model needs."""
        return LEAST if self.is_frame else LEAST_IN_PIECES

    @property
    def n_given(self) -> int:
        """Rows of the table, those of other arms included."""
        return len(self.table) if isinstance(self.table, pd.DataFrame) else self.table.n_rows

    def batches(self) -> Iterator[tuple[slice, pd.DataFrame]]:
        """Which rows, and their raw columns; all of a frame at once."""
        features = list(self.columns.features)
        if self.is_frame:
            yield slice(0, len(self.y)), self.sample.frame[features]
            return
        start = 0
        for rows in trial_pieces(self.table, self.columns):
            own = slice(start, start := start + len(rows.y))
            same = np.array_equal(rows.y, self.y[own]) and np.array_equal(
                rows.treated, self.treated[own]
            )
            if not same:
                raise TableError(changed_message(self.table.name))
            yield own, rows.frame[features]
        if start != len(self.y):
            raise TableError(changed_message(self.table.name))

    def fit(self, estimators: Mapping[str, Any], some: Bools) -> Fitted:
        """An encoder and estimators, fitted on some of the rows."""
        features = self.sample.frame[list(self.columns.features)]
        encoder = TableEncoder().fit(features[some[self.sampled]])
        if self.is_frame:
            X = encoder.accept(features).transform(features[some])
            y, treated = self.y[some], self.treated[some]
            for one in estimators.values():
                one.fit(X, y, treatment=treated)
            return Fitted(encoder, dict(estimators))
        with self._encoded(encoder, some) as file:
            for one in estimators.values():
                one.fit(stream_table(file, treatment="treated", outcome="y"))
                del one.feature_names_in_  # those of the file are of no use
        return Fitted(encoder, dict(estimators))

    def scores(self, fitted: Fitted, some: Bools) -> Floats:
        """Scores of some of the rows, in their order, by each estimator: (estimators, rows)."""
        found = [
            fitted.predict(frame[some[own]]) for own, frame in self.batches() if some[own].any()
        ]
        return np.concatenate(found, axis=1)

    @contextmanager
    def _encoded(self, encoder: TableEncoder, some: Bools) -> Iterator[Path]:
        """A temporary Parquet file of encoded rows: a model reads them several times."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        number, truth = pa.float64(), pa.int8()  # terms other than values are 0 or 1
        kinds = [number if term.kind == "value" else truth for term in encoder.terms_]
        fields = [(f"x{k}", kind) for k, kind in enumerate(kinds)]
        schema = pa.schema([*fields, ("y", number), ("treated", truth)])
        with TemporaryDirectory(prefix="auucmax-") as folder:
            file = Path(folder) / "rows.parquet"
            try:
                with pq.ParquetWriter(file, schema, compression="zstd") as writer:
                    for own, frame in self.batches():
                        kept = some[own]
                        X = encoder.accept(frame).transform(frame[kept])
                        columns = [*X.T, self.y[own][kept], self.treated[own][kept]]
                        arrays = [
                            pa.array(column.astype(kind.to_pandas_dtype()))
                            for column, kind in zip(columns, schema.types, strict=True)
                        ]
                        writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            except OSError as error:
                raise TableError(
                    f"the folder for temporary files, {gettempdir()}, should have room for the "
                    f"encoded rows, got: {error}. Set TMPDIR to another."
                ) from error
            yield file


@dataclass(frozen=True)
class Recipe:
    """How rows are dealt and what is fitted: all that is needed to do it again.

    ``hold_out`` is the share of rows that the model does not learn from, 0 with cross-fitting, and
    then ``n_folds`` is the number of folds. ``key`` is that of the hashes, ``seed`` the model's.
    """

    model: str
    key: str
    seed: int
    hold_out: float
    n_folds: int

    def folds(self, keys: Hashes) -> Codes:
        """(n,) the fold of each row."""
        return (_places(keys) * self.n_folds).astype(np.int64)

    def held_out(self, keys: Hashes) -> Bools:
        """(n,) the rows that are set aside."""
        return np.asarray(_places(keys) < self.hold_out)


class OutOfFold(NamedTuple):
    """Ranks of every row by models that have not seen it, and the chunks of the certificate.

    ``ranks`` (n,) by name, within the rows of a fold; ``fold`` (n,). A chunk has outcomes, scores
    and treatments; the first has no scores and is not bet on. There is no chunk if the rows before
    the last one are too few to learn from.
    """

    ranks: dict[str, Floats]
    fold: Codes
    chunks: list[tuple[Floats, Floats | None, Bools]]


def cross_fit(
    rows: TableRows, makes: Mapping[str, Callable[[], Any]], recipe: Recipe, *, with_chunks: bool
) -> OutOfFold:
    """Fit models for each fold and, of the first kind, for each chunk of the certificate."""
    fold = recipe.folds(rows.keys)
    parts = [(fold != k, fold == k) for k in range(recipe.n_folds) if (fold == k).any()]
    score = np.empty((len(makes), len(rows.y)))
    for others, inside in track(parts, len(parts), f"fitting {', '.join(makes)}"):
        fitted = rows.fit({name: make() for name, make in makes.items()}, others)
        score[:, inside] = rows.scores(fitted, inside)
    ranks = {name: ranks_within(own, fold) for name, own in zip(makes, score, strict=True)}
    if not with_chunks:
        return OutOfFold(ranks, fold, [])
    n_chunks = min(N_CHUNKS, recipe.n_folds)
    chunk = fold * n_chunks // recipe.n_folds
    start = first_chunk(rows, chunk, n_chunks)
    chunks: list[tuple[Floats, Floats | None, Bools]] = []
    if start < n_chunks:
        chunks.append((rows.y[chunk < start], None, rows.treated[chunk < start]))
    name, make = next(iter(makes.items()))
    for k in track(range(start, n_chunks), n_chunks - start, "fitting for the certificate"):
        inside = chunk == k
        # The last model of as many chunks as folds is that of the last fold.
        own = score[0, inside]
        if k < n_chunks - 1 or n_chunks < recipe.n_folds:
            own = rows.scores(rows.fit({name: make()}, chunk < k), inside)[0]
        chunks.append((rows.y[inside], own, rows.treated[inside]))
    return OutOfFold(ranks, fold, chunks)


def first_chunk(rows: TableRows, chunk: Codes, n_chunks: int) -> int:
    """The first chunk before which there are rows enough to learn from, or ``n_chunks``."""
    for k in range(1, n_chunks):
        if fewest_rows(rows.y, rows.treated, chunk < k) >= rows.least and (chunk == k).any():
            return k
    return n_chunks


def number_of_folds(rows: TableRows, key: str) -> int:
    """5, 2 of very many rows, or as many as leave enough in every training part.

    ValueError if no number does.
    """
    if len(rows.y) > MANY_ROWS:
        return 2
    for n_folds in (5, 10, 20):
        fold = Recipe("", key, 0, 0.0, n_folds).folds(rows.keys)
        least = min(fewest_rows(rows.y, rows.treated, fold != k) for k in range(n_folds))
        if least >= rows.least:
            return n_folds
    what = f"{rows.least} rows"
    if is_binary(rows.y):
        what = f"{what} with the outcome and {rows.least} without it"
    raise ValueError(
        f"each arm should have at least {what} in every part that a model learns from, got {least} "
        f"of one kind. There are too few rows: collect more."
    )


def fewest_rows(y: Floats, treated: Bools, some: Bools) -> int:
    """Of some rows, the fewest of a kind: arm by outcome if it is 0/1, otherwise arm."""
    code = treated.astype(np.int64)
    n_kinds = 2
    if is_binary(y):
        code, n_kinds = 2 * code + (y > 0), 4
    return int(np.bincount(code[some], minlength=n_kinds).min())


def _places(keys: Hashes) -> Floats:
    """Places of hashes between 0 and 1, less than 1."""
    return np.asarray((keys >> np.uint64(11)).astype(np.float64) / 2.0**53)


def _joined(pieces: list[TrialRows]) -> TrialRows:
    """The rows of several pieces of one table."""
    frames, ys, treated, ids, positions, *_ = zip(*pieces, strict=True)
    return TrialRows(
        pd.concat(frames),
        np.concatenate(ys),
        np.concatenate(treated),
        None if ids[0] is None else np.concatenate(ids),
        np.concatenate(positions),
        {},
    )
