"""Rows that are dealt and encoded, in memory or on the disk: to fit, to calibrate, to judge.

A table that is read in pieces is read twice. The first time its rows are marked, and some are drawn
from which the encoder learns, if they turn out to be train rows. The second time all rows are
encoded and written to a temporary folder, a file each part, from which the model learns as often as
it has to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._optional import import_optional
from auucmax._validation import Bools, Floats
from auucmax.data import Trial
from auucmax.data.pieces import PiecedTable, sampled
from auucmax.data.table_errors import TableError
from auucmax.estimators.table_encoder import TableEncoder
from auucmax.rows import ArrowRows, stream_table
from auucmax.trial_model.dealing import Dealer, deal
from auucmax.trial_model.marks import PARTS, TRAIN, RowMarks, TableMarks
from auucmax.trial_model.model import JudgedRows
from auucmax.trial_model.rows import (
    ColumnNames,
    TrialRows,
    check_unchanged,
    trial_pieces,
    trial_rows,
)
from auucmax.trial_model.split import RowSplit

__all__ = ["Dealing", "DealtRows", "Part", "deal_rows"]

#: Most rows of a table in pieces that are kept from training, of each part.
MOST_ROWS = {"calibration": 1_000_000, "test": 2_000_000}


class Dealing(NamedTuple):
    """How rows are dealt: shares of the parts, and the key of their hashes."""

    test_share: float
    calibration_share: float
    key: str


class Part(Protocol):
    """Encoded rows of one part."""

    def fit(self, estimator: Any) -> Any:
        """The estimator, fitted on them."""

    def judged(self, estimator: Any) -> JudgedRows:
        """Their outcomes, scores and treatments."""


@dataclass(frozen=True, eq=False)
class DealtRows:
    """The rows of a trial, dealt and encoded.

    ``trial`` has the raw rows, or as many as were drawn from a table in pieces. ``counts`` are the
    numbers of treated and control rows of each part, ``left_out`` those of other arms.
    """

    split: RowSplit
    encoder: TableEncoder
    parts: Mapping[str, Part]
    counts: dict[str, dict[str, int]]
    n_given: int
    left_out: dict[str, int]
    is_binary: bool
    trial: Trial = field(repr=False)


class MemoryPart(NamedTuple):
    """Encoded rows of one part, as arrays."""

    X: Floats
    y: Floats
    treated: Bools

    def fit(self, estimator: Any) -> Any:
        """The estimator, fitted on them."""
        return estimator.fit(self.X, self.y, treatment=self.treated)

    def judged(self, estimator: Any) -> JudgedRows:
        """Their outcomes, scores and treatments."""
        score = np.asarray(estimator.predict(self.X), dtype=np.float64)
        return JudgedRows(self.y, score, self.treated.astype(np.int8))


class DiskPart(NamedTuple):
    """Encoded rows of one part, in a file."""

    stream: ArrowRows

    def fit(self, estimator: Any) -> Any:
        """The estimator, fitted on them."""
        fitted = estimator.fit(self.stream)
        del fitted.feature_names_in_  # those of the file are of no use
        return fitted

    def judged(self, estimator: Any) -> JudgedRows:
        """Their outcomes, scores and treatments."""
        found = [
            (batch.y, estimator.predict(batch.X), batch.treated) for batch in self.stream.batches()
        ]
        y, score, treated = (np.concatenate(column) for column in zip(*found, strict=True))
        return JudgedRows(y, score, treated.astype(np.int8))


def deal_rows(
    table: pd.DataFrame | PiecedTable, columns: ColumnNames, dealing: Dealing
) -> AbstractContextManager[DealtRows]:
    """The rows of a table, for as long as the context lasts."""
    if isinstance(table, PiecedTable):
        return _deal_pieces(table, columns, dealing)
    return _deal_frame(table, columns, dealing)


@contextmanager
def _deal_frame(frame: pd.DataFrame, columns: ColumnNames, dealing: Dealing) -> Iterator[DealtRows]:
    """The rows of a frame."""
    rows = trial_rows(frame, columns)
    split, number = deal(
        rows.marks(columns.features),
        test_share=dealing.test_share,
        calibration_share=dealing.calibration_share,
        key=dealing.key,
    )
    counts = _counts(rows.treated, number)
    _check_counts(counts)
    table = rows.frame[list(columns.features)]
    encoder = TableEncoder().fit(table[number == TRAIN]).accept(table)
    parts = {
        name: MemoryPart(
            encoder.transform(table[number == k]), rows.y[number == k], rows.treated[number == k]
        )
        for k, name in enumerate(PARTS)
        if any(counts[name].values())
    }
    yield DealtRows(
        split=split,
        encoder=encoder,
        parts=parts,
        counts=counts,
        n_given=len(frame),
        left_out=rows.left_out,
        is_binary=_is_binary(rows.y),
        trial=rows.trial(columns),
    )


@contextmanager
def _deal_pieces(table: PiecedTable, columns: ColumnNames, dealing: Dealing) -> Iterator[DealtRows]:
    """The rows of a table that is read in pieces; their encoded copy is gone at the end."""
    marks, drawn = _first_reading(table, columns)
    test, calibration = (
        min(share, MOST_ROWS[part] / marks.n_rows)
        for part, share in (
            ("test", dealing.test_share), ("calibration", dealing.calibration_share)
        )
    )  # fmt: skip
    dealer = Dealer(
        marks,
        key=dealing.key,
        test_share=test,
        calibration_share=calibration,
        by="position" if columns.id is None else "id",
    )
    sample = pd.concat([rows.frame for rows, _ in drawn])
    is_train = np.concatenate([dealer.parts(own) == TRAIN for _, own in drawn])
    encoder = TableEncoder().fit(sample.loc[is_train, list(columns.features)])
    trial = trial_rows(sample, columns).trial(columns)
    del drawn, sample
    with TemporaryDirectory(prefix="auucmax-") as folder:
        files = _PartFiles(Path(folder), encoder)
        left_out: dict[str, int] = {}

        def dealt() -> Iterator[RowMarks]:
            for rows in trial_pieces(table, columns):
                yield (own := rows.marks(columns.features))
                files.write(rows, dealer(own), list(columns.features))
                for label, n in rows.left_out.items():
                    left_out[label] = left_out.get(label, 0) + n

        with _room_for_rows(), files:
            check_unchanged(TableMarks.of(dealt()), marks, table)
        _check_counts(files.counts)
        yield DealtRows(
            split=dealer.split(),
            encoder=encoder,
            parts=files.parts(),
            counts=files.counts,
            n_given=table.n_rows,
            left_out=left_out,
            is_binary=files.is_binary,
            trial=trial,
        )


def _first_reading(
    table: PiecedTable, columns: ColumnNames
) -> tuple[TableMarks, list[tuple[TrialRows, RowMarks]]]:
    """What tells the table from others, and rows drawn at random, with their marks."""
    drawn = []

    def marked() -> Iterator[RowMarks]:
        for rows in trial_pieces(table, columns, check=True):
            marks = rows.marks(columns.features)
            some = sampled(rows.positions, table.sample_rows, table.n_rows)
            drawn.append((rows.take(some), marks.take(some)))
            yield marks

    return TableMarks.of(marked()), drawn


@contextmanager
def _room_for_rows() -> Iterator[None]:
    """Failures of the folder for temporary files, told as such."""
    try:
        yield
    except OSError as error:
        raise TableError(
            f"the folder for temporary files, {gettempdir()}, should have room for the encoded "
            f"rows, got: {error}. Set TMPDIR to another."
        ) from error


class _PartFiles:
    """Encoded rows, written to a Parquet file for each part."""

    def __init__(self, folder: Path, encoder: TableEncoder) -> None:
        self.folder, self.encoder = folder, encoder
        self.counts = {name: {"treated": 0, "control": 0} for name in PARTS}
        self.is_binary = True
        self._stack, self._writers = ExitStack(), dict[str, Any]()

    def __enter__(self) -> _PartFiles:
        arrow = import_optional("pyarrow", extra="tables")
        parquet = import_optional("pyarrow.parquet", extra="tables")
        number, truth = arrow.float64(), arrow.int8()  # terms other than values are 0 or 1
        kinds = [number if term.kind == "value" else truth for term in self.encoder.terms_]
        fields = [(f"x{k}", kind) for k, kind in enumerate(kinds)]
        self._schema = arrow.schema([*fields, ("y", number), ("treated", truth)])
        for name in PARTS:
            writer = parquet.ParquetWriter(self._file(name), self._schema, compression="zstd")
            self._writers[name] = self._stack.enter_context(writer)
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def write(self, rows: TrialRows, number: NDArray[np.int8], features: list[str]) -> None:
        """Append a piece."""
        arrow = import_optional("pyarrow", extra="tables")
        table = rows.frame[features]
        X = self.encoder.accept(table).transform(table)
        columns = [*X.T, rows.y, rows.treated]
        self.is_binary = self.is_binary and _is_binary(rows.y)
        counts = _counts(rows.treated, number)
        for k, name in enumerate(PARTS):
            own = number == k
            if not own.any():
                continue
            arrays = [
                arrow.array(column[own].astype(kind.to_pandas_dtype()))
                for column, kind in zip(columns, self._schema.types, strict=True)
            ]
            self._writers[name].write_table(arrow.Table.from_arrays(arrays, schema=self._schema))
            for arm, n in counts[name].items():
                self.counts[name][arm] += n

    def parts(self) -> dict[str, Part]:
        """What was written."""
        return {
            name: DiskPart(stream_table(self._file(name), treatment="treated", outcome="y"))
            for name in PARTS
            if any(self.counts[name].values())
        }

    def _file(self, name: str) -> str:
        return str(self.folder / f"{name}.parquet")


def _counts(treated: Bools, number: NDArray[np.int8]) -> dict[str, dict[str, int]]:
    """Treated and control rows of each part."""
    both = np.bincount(2 * number + treated, minlength=2 * len(PARTS)).reshape(-1, 2)
    return {
        name: {"treated": int(n_treated), "control": int(n_control)}
        for name, (n_control, n_treated) in zip(PARTS, both, strict=True)
    }


def _check_counts(counts: Mapping[str, Mapping[str, int]]) -> None:
    for name, own in counts.items():
        n_rows = sum(own.values())
        if (n_rows or name != "calibration") and not all(own.values()):
            raise ValueError(
                f"the {name} rows should hold both arms, got {own['treated']} treated of "
                f"{n_rows}. There are too few rows: collect more, or change the shares."
            )


def _is_binary(y: Floats) -> bool:
    return bool(np.isin(y, (0, 1)).all())
