"""What tells rows of a table apart, and one table from another: ids, looks, and their sums.

A row has three looks, each a hash of outcome, treatment and features: all features to 6 digits,
every second one to 3 digits, and the others to 3 digits. The last two still know a row when a
column was changed, or numbers were rounded.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from hashlib import blake2b
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats, missing_message
from auucmax.encoding.texts import level_text

__all__ = [
    "N_LOOKS",
    "PARTS",
    "RowMarks",
    "TableMarks",
    "check_ids",
    "id_texts",
    "mark_rows",
    "parts_of",
    "remembered",
    "repeated_ids",
    "short",
]

PARTS = ("train", "calibration", "test")
TRAIN, CALIBRATION, TEST = range(3)
KEY_LENGTH = 16  # characters

_DIGITS = (6, 3, 3)  # of the numbers in each look
N_LOOKS = len(_DIGITS)
_BOOLEANS = {"true": 1.0, "yes": 1.0, "t": 1.0, "y": 1.0}
_BOOLEANS |= {"false": 0.0, "no": 0.0, "f": 0.0, "n": 0.0}

Short = NDArray[np.uint32]
Hashes = NDArray[np.uint64]


class RowMarks(NamedTuple):
    """What tells rows apart: ids (n,), if there are some, and looks (3, n).

    ``strata`` (n,) are hashes of features and treatment alone, ``y`` (n,) outcomes, ``places`` (n,)
    those of the rows in the table.
    """

    ids: NDArray[Any] | None
    looks: Hashes
    strata: Hashes
    y: Floats
    places: NDArray[np.int64]

    @property
    def n_rows(self) -> int:
        return self.looks.shape[1]

    def hashes(self, key: str, digest: str) -> Hashes:
        """(n,) keyed hashes, of ids, or of positions in the table with this digest."""
        if self.ids is not None:
            return np.asarray(pd.util.hash_array(self.ids, hash_key=key))
        own = blake2b(digest.encode(), key=key.encode(), digest_size=KEY_LENGTH // 2).hexdigest()
        texts = self.places.astype(str).astype(object)
        return np.asarray(pd.util.hash_array(texts, hash_key=own))

    def take(self, rows: Bools) -> RowMarks:
        """Some of the rows."""
        ids = None if self.ids is None else self.ids[rows]
        kept = self.looks[:, rows], self.strata[rows], self.y[rows], self.places[rows]
        return RowMarks(ids, *kept)


class TableMarks(NamedTuple):
    """What tells a table from another.

    ``digest`` is of all rows in their order, with their ids; ``totals``, one of each look, are of
    all rows in any order: sums modulo 2^64.
    """

    n_rows: int
    digest: str
    totals: tuple[str, ...]

    @classmethod
    def of(cls, pieces: Iterable[RowMarks]) -> Self:
        """Of a table, from its pieces in their order."""
        looks, ids = blake2b(digest_size=16), blake2b(digest_size=16)
        totals, n_rows = np.zeros(N_LOOKS, dtype=np.uint64), 0
        for marks in pieces:
            n_rows += marks.n_rows
            totals += marks.looks.sum(axis=1, dtype=np.uint64)
            looks.update(marks.looks[0].tobytes())
            if marks.ids is not None:
                ids.update(pd.util.hash_array(marks.ids).tobytes())
        digest = blake2b(looks.digest() + ids.digest(), digest_size=16).hexdigest()
        return cls(n_rows, digest, tuple(f"{int(total):016x}" for total in totals))


class _Values(NamedTuple):
    """A column: numbers (n,), NaN for texts and missing values; hashes of texts (n,), else 0."""

    numbers: Floats
    texts: Hashes

    def codes(self, digits: int) -> Hashes:
        """Of each value, with numbers to so many digits."""
        rounded = _rounded(self.numbers, digits)
        return np.asarray(pd.util.hash_array(rounded) ^ self.texts)


def mark_rows(
    features: pd.DataFrame, y: Floats, treated: Bools, ids: NDArray[Any] | None, first: int = 0
) -> RowMarks:
    """Hash each row as the encoder reads it, whatever types the columns are stored in.

    ``first`` is the place of the first of these rows in their table.

    >>> y, treated = np.zeros(2), np.array([True, False])
    >>> texts, numbers = pd.DataFrame({"zip": ["10115", "7"]}), pd.DataFrame({"zip": [10115.0, 7]})
    >>> given = [mark_rows(frame, y, treated, None) for frame in (texts, numbers)]
    >>> TableMarks.of(given[:1]).digest == TableMarks.of(given[1:]).digest
    True
    """
    columns = [_values(features.iloc[:, k]) for k in range(features.shape[1])]
    always = [_numbers_only(y), _numbers_only(treated.astype(np.float64))]
    chosen = (columns, columns[::2], columns[1::2])
    looks = [
        _combined([values.codes(digits) for values in always + some])
        for some, digits in zip(chosen, _DIGITS, strict=True)
    ]
    strata = _combined([values.codes(_DIGITS[0]) for values in always[1:] + columns])
    return RowMarks(ids, np.array(looks), strata, y, np.arange(first, first + len(y)))


def _combined(codes: list[Hashes]) -> Hashes:
    """One hash of a row from those of its values."""
    frame = pd.DataFrame(dict(enumerate(codes)))
    return np.asarray(pd.util.hash_pandas_object(frame, index=False).to_numpy())


def _numbers_only(numbers: Floats) -> _Values:
    return _Values(numbers, np.zeros(len(numbers), dtype=np.uint64))


def _values(column: pd.Series) -> _Values:
    """Numbers, texts of numbers, booleans and days since 1970 as numbers; other texts."""
    types, dtype = pd.api.types, column.dtype
    if types.is_datetime64_any_dtype(dtype):
        return _numbers_only(_days(column))
    is_category = isinstance(dtype, pd.CategoricalDtype)
    if types.is_numeric_dtype(dtype) and not is_category and not types.is_complex_dtype(dtype):
        return _numbers_only(column.to_numpy(dtype=np.float64, na_value=np.nan))
    codes, values = pd.factorize(column)
    different = [_plain(value) for value in values]
    texts = np.array([v if isinstance(v, str) else "" for v in different], dtype=object)
    numbers = np.array([np.nan if isinstance(v, str) else v for v in different], dtype=np.float64)
    parsed = np.asarray(pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce"), dtype=float)
    numbers = np.where(np.isnan(numbers), parsed, numbers)
    is_text = np.isnan(numbers) & (texts != "")  # an empty text is a missing value
    hashes = np.where(is_text, pd.util.hash_array(texts), np.uint64(0))
    # Missing: code -1, the last.
    return _Values(np.append(numbers, np.nan)[codes], np.append(hashes, np.uint64(0))[codes])


def _plain(value: Any) -> str | float:
    """A date or a boolean as a number, anything else as the text that stands for it."""
    if isinstance(value, (date, np.datetime64)):  # a Timestamp is a date, too
        moment = pd.Timestamp(value)
        moment = moment.tz_convert(None) if moment.tzinfo else moment
        return float((moment - pd.Timestamp(0)) // pd.Timedelta(days=1))
    text = level_text(value).strip()
    return _BOOLEANS.get(text.lower(), text)


def _days(column: pd.Series) -> Floats:
    """Whole days since 1970-01-01 (UTC); a time without a zone is taken to be UTC."""
    if not isinstance(column.dtype, (np.dtype, pd.DatetimeTZDtype)):
        column = column.astype(object)
    moments = pd.to_datetime(column, utc=True).dt.tz_localize(None)
    days = moments.to_numpy().astype("datetime64[us]").astype("datetime64[D]")
    return np.where(np.isnat(days), np.nan, days.astype(np.int64).astype(np.float64))


def _rounded(numbers: Floats, digits: int) -> Floats:
    """To significant digits; whole numbers are kept if there are 6. NaN, 0 and -0 are one each.

    By way of float32: a table may be stored so, and its numbers printed with as few digits.
    """
    size = np.abs(numbers)
    scalable = np.isfinite(numbers) & (size > 1e-30) & (size < 1e30)
    if digits >= _DIGITS[0]:
        scalable &= numbers != np.rint(np.where(scalable, numbers, 0.5))
    short = np.where(scalable, numbers, 1.0).astype(np.float32).astype(np.float64)
    scale = 10.0 ** (digits - 1 - np.floor(np.log10(np.abs(short))))
    rounded = np.where(scalable, np.rint(short * scale) / scale, numbers)
    return np.where(np.isnan(rounded), np.nan, rounded + 0.0)


def id_texts(column: pd.Series, name: str) -> NDArray[Any]:
    """Ids as texts, all there; 1, 1.0 and "1" are one id."""
    if n_missing := int(column.isna().sum()):
        raise ValueError(missing_message(f"the id {name!r}", n_missing))
    values = column.to_numpy()
    texts = values.astype(str).astype(object)
    if values.dtype.kind == "f":  # value by value: the text of an id is the same in every extract
        whole = (values == np.rint(values)) & (np.abs(values) < 2.0**63)
        texts[whole] = values[whole].astype(np.int64).astype(str)
    return texts


def check_ids(ids: NDArray[Any], name: str) -> None:
    """All are different."""
    repeated = pd.Series(ids)[pd.Series(ids).duplicated()]
    if len(repeated):
        raise repeated_ids(name, repr(repeated.iloc[0]), len(repeated))


def repeated_ids(name: str, example: str, n_repeated: int) -> ValueError:
    return ValueError(
        f"the id {name!r} should be different in every row, got {example} and {n_repeated - 1} "
        f"more again: rows of one id cannot be told apart. Keep one row an id, or leave the id out."
    )


def parts_of(hashes: Hashes, test_share: float, calibration_share: float) -> NDArray[np.int8]:
    """The part of each row, by the place of its hash between 0 and 1."""
    place = hashes.astype(np.float64) / 2**64
    parts = np.where(place < test_share + calibration_share, CALIBRATION, TRAIN)
    return np.where(place < test_share, TEST, parts).astype(np.int8)


def remembered(hashes: NDArray[Any], one_in: int) -> Bools:
    """Hashes that are kept when one in so many is."""
    return np.asarray(hashes % hashes.dtype.type(one_in) == 0)


def short(hashes: Hashes) -> Short:
    """Half of the bits: by chance a new row is taken for a known one n times in 2^32."""
    return (hashes & np.uint64(0xFFFFFFFF)).astype(np.uint32)
