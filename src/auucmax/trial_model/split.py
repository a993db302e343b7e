"""Which rows a model learns from, is calibrated on and is judged on; and how to tell them again.

The part of a row follows from a keyed hash of its id, so it stays the same in any order and any
extract of the table. Without ids it follows from the row's position and the contents of the whole
file: the same file has the same parts, and a file that was reordered or changed is refused if more
of its rows look like rows that the model learnt from than chance explains. It is no protection
against someone who wants to deceive: it is there to catch a slip.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats, missing_message
from auucmax.data.fingerprint import hash_rows_slow

__all__ = ["PARTS", "RowMarks", "RowSplit", "id_texts", "mark_rows"]

PARTS = ("train", "calibration", "test")
_TRAIN, _CALIBRATION, _TEST = range(3)
_KEY = 16  # characters
_SLACK = 0.05  # more rows than this, beyond chance, are no coincidence

Short = NDArray[np.uint32]


class RowMarks(NamedTuple):
    """What tells rows apart: ids, if there are some, and hashes of contents, (n,) each."""

    ids: NDArray[Any] | None
    hashes: NDArray[np.uint64]

    @property
    def digest(self) -> str:
        """Of all rows in this order, with their ids."""
        ids = b"" if self.ids is None else pd.util.hash_array(self.ids).tobytes()
        return blake2b(self.hashes.tobytes() + ids, digest_size=16).hexdigest()


def mark_rows(
    features: pd.DataFrame, y: Floats, treated: Bools, ids: NDArray[Any] | None
) -> RowMarks:
    """Hash each row: features as numbers or texts, outcome and treatment."""
    contents = np.column_stack([_as_numbers(features.iloc[:, k]) for k in range(features.shape[1])])
    return RowMarks(ids, hash_rows_slow(contents, y, treated))


def _as_numbers(column: pd.Series) -> Floats:
    """Numbers as they are; of other values a hash of the text."""
    if pd.api.types.is_numeric_dtype(column) and not isinstance(column.dtype, pd.CategoricalDtype):
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    codes, values = pd.factorize(column)
    hashes = pd.util.hash_array(np.array([str(value) for value in values], dtype=object))
    return np.append(hashes.astype(np.float64), np.nan)[codes]  # missing: code -1, the last


def id_texts(column: pd.Series, name: str) -> NDArray[Any]:
    """Ids as texts, all there and all different; 1, 1.0 and "1" are one id."""
    if n_missing := int(column.isna().sum()):
        raise ValueError(missing_message(f"the id {name!r}", n_missing))
    values = column.to_numpy()
    if values.dtype.kind == "f" and np.array_equal(values, np.rint(values)):
        values = values.astype(np.int64)
    texts = values.astype(str).astype(object)
    repeated = pd.Series(texts)[pd.Series(texts).duplicated()]
    if len(repeated):
        raise ValueError(
            f"the id {name!r} should be different in every row, got {repeated.iloc[0]!r} and "
            f"{len(repeated) - 1} more again: rows of one id cannot be told apart. Keep one row an "
            f"id, or leave the id out."
        )
    return texts


@dataclass(frozen=True, eq=False)
class RowSplit:
    """How rows were dealt into train, calibration and test, and which the model learnt from.

    ``by`` is "id" or "position"; ``digest`` is of the file in its order. ``learnt_ids`` and
    ``learnt_rows`` are sorted short hashes of the ids (none by position) and of the contents of
    train and calibration rows; ``chance`` is the share of test rows with such contents, which is
    what to expect of new rows.
    """

    key: str
    test_share: float
    calibration_share: float
    by: str
    digest: str
    chance: float
    learnt_ids: Short = field(repr=False)
    learnt_rows: Short = field(repr=False)

    @classmethod
    def deal(
        cls, marks: RowMarks, *, test_share: float, calibration_share: float, key: str
    ) -> tuple[Self, NDArray[np.int8]]:
        """The split of a file, and the part (0, 1, 2: see PARTS) of each of its rows."""
        hashes = _hashes(marks, key)
        place = hashes.astype(np.float64) / 2**64
        parts = np.where(place < test_share + calibration_share, _CALIBRATION, _TRAIN)
        parts = np.where(place < test_share, _TEST, parts).astype(np.int8)
        learnt, rows = parts != _TEST, _short(marks.hashes)
        seen = np.isin(rows[~learnt], rows[learnt])
        split = cls(
            key=key,
            test_share=test_share,
            calibration_share=calibration_share,
            by="position" if marks.ids is None else "id",
            digest=marks.digest,
            chance=float(seen.mean()) if len(seen) else 0.0,
            learnt_ids=np.unique(_short(hashes[learnt & (marks.ids is not None)])),
            learnt_rows=np.unique(rows[learnt]),
        )
        return split, parts

    def judgeable(self, marks: RowMarks) -> tuple[Bools, bool]:
        """Rows that the model has not learnt from, and whether others are among them.

        ValueError if that cannot be told.
        """
        same_file = marks.digest == self.digest
        everyone = np.ones(len(marks.hashes), dtype=bool)
        if self.by == "id" and marks.ids is not None:
            known = np.isin(_short(_hashes(marks, self.key)), self.learnt_ids)
            if not same_file:
                self._check_contents(marks, ~known, "their ids are new")
            return ~known, bool(known.any())
        if same_file:
            return _hashes(marks, self.key).astype(np.float64) / 2**64 < self.test_share, True
        self._check_contents(marks, everyone, "there are no ids")
        return everyone, False

    def _check_contents(self, marks: RowMarks, rows: Bools, why: str) -> None:
        """ValueError if more rows have contents of learnt rows than new rows would by chance."""
        n = int(rows.sum())
        if n == 0:
            return
        share = float(np.isin(_short(marks.hashes[rows]), self.learnt_rows).mean())
        error = np.sqrt(self.chance * (1 - self.chance) / n)
        if share > self.chance + _SLACK + 4 * error:
            raise ValueError(
                f"the rows should be the file that the model was fitted on, in its order, or rows "
                f"that are new to it; got rows of which {share:.0%} look like rows that it was "
                f"fitted on, and {why}, so the others cannot be told. Pass the file as it was, or "
                f"fit the model with an id column."
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, without the hashes of rows."""
        return {name: getattr(self, name) for name in _PLAIN}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any], learnt_ids: Short, learnt_rows: Short) -> Self:
        """What ``to_dict`` wrote; ValueError if it cannot have."""
        if not isinstance(plain, Mapping) or set(plain) != set(_PLAIN):
            raise ValueError("a split should have the entries that to_dict writes, got others.")
        texts = [plain[name] for name in ("key", "by", "digest")]
        shares = [plain[name] for name in ("test_share", "calibration_share")]
        right = (
            all(type(text) is str for text in texts)
            and all(type(share) is float and 0 <= share < 1 for share in shares)
            and 0 < sum(shares) < 1
            and type(plain["chance"]) is float
            and 0 <= plain["chance"] <= 1
            and len(plain["key"]) == _KEY
            and plain["key"].isascii()
            and plain["by"] in ("id", "position")
        )
        if not right:
            raise ValueError("a split should hold shares, a key and a digest, got other values.")
        values = {name: plain[name] for name in _PLAIN}
        return cls(**values, learnt_ids=learnt_ids, learnt_rows=learnt_rows)


_PLAIN = ("key", "test_share", "calibration_share", "by", "digest", "chance")


def _hashes(marks: RowMarks, key: str) -> NDArray[np.uint64]:
    """(n,) keyed hashes, of ids, or of positions in this very file."""
    if marks.ids is not None:
        return np.asarray(pd.util.hash_array(marks.ids, hash_key=key))
    own = blake2b(marks.digest.encode(), key=key.encode(), digest_size=_KEY // 2).hexdigest()
    texts = np.arange(len(marks.hashes)).astype(str).astype(object)
    return np.asarray(pd.util.hash_array(texts, hash_key=own))


def _short(hashes: NDArray[np.uint64]) -> Short:
    """Half of the bits: by chance a new row is taken for a known one n times in 2^32."""
    return (hashes & np.uint64(0xFFFFFFFF)).astype(np.uint32)
