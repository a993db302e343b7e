"""Which rows a model learns from, is calibrated on and is judged on; and how to tell them again.

The part of a row follows from a keyed hash of its id, so it stays the same in any order and any
extract of the table. Without ids it follows from the row's position and the contents of the whole
file: the same file has the same parts, whatever the format it is stored in, and a file that was
reordered or changed is refused if more of its rows look like rows that the model learnt from than
chance explains. So is a file whose ids are new and whose rows are not, for ids can be written in
several ways. It is no protection against someone who wants to deceive: it is there to catch a slip.

A row has three looks, each a hash of outcome, treatment and features: all features to 6 digits,
every second one to 3 digits, and the others to 3 digits. The last two still know a row when a
column was changed, or numbers were rounded. Where rows are alike, and looks tell little, outcomes
of the same features and treatment are compared: those of rows that were learnt from agree too well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from hashlib import blake2b
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats, missing_message
from auucmax.estimators.level_texts import level_text
from auucmax.trial_model.coincidence import agrees_too_well, count_outcomes

__all__ = ["PARTS", "Judgeable", "RowMarks", "RowSplit", "id_texts", "mark_rows"]

PARTS = ("train", "calibration", "test")
_TRAIN, _CALIBRATION, _TEST = range(3)
_KEY = 16  # characters
_SLACK = 0.05  # a new population may repeat itself more often: by this at most, and twice as often
_TOLD_APART = 0.01  # below this chance, a row that looks like a known one is taken for it
_DIGITS = (6, 3, 3)  # of the numbers in each look
_N_LOOKS = len(_DIGITS)
_BOOLEANS = {"true": 1.0, "yes": 1.0, "t": 1.0, "y": 1.0}
_BOOLEANS |= {"false": 0.0, "no": 0.0, "f": 0.0, "n": 0.0}

Short = NDArray[np.uint32]
Hashes = NDArray[np.uint64]


class RowMarks(NamedTuple):
    """What tells rows apart: ids (n,), if there are some, and looks (3, n).

    ``strata`` (n,) are hashes of features and treatment alone, ``y`` (n,) outcomes.
    """

    ids: NDArray[Any] | None
    looks: Hashes
    strata: Hashes
    y: Floats

    @property
    def n_rows(self) -> int:
        return self.looks.shape[1]

    @property
    def digest(self) -> str:
        """Of all rows in this order, with their ids."""
        ids = b"" if self.ids is None else pd.util.hash_array(self.ids).tobytes()
        return blake2b(self.looks[0].tobytes() + ids, digest_size=16).hexdigest()

    @property
    def totals(self) -> tuple[str, ...]:
        """Of each look, of all rows in any order: sums modulo 2^64."""
        return tuple(f"{int(look.sum(dtype=np.uint64)):016x}" for look in self.looks)


class Judgeable(NamedTuple):
    """Rows that a model has not learnt from, ``usable`` (n,), and those it trained on (n,).

    ``seen``: rows that it learnt from are there, known by their ids or by the file. ``n_alike``: so
    many others are left out because they look like such rows. ``told``: no usable row can be one
    that it learnt from, or rows differ so much that this would have been seen.
    """

    usable: Bools
    trained: Bools
    seen: bool
    n_alike: int = 0
    told: bool = True


class _Values(NamedTuple):
    """A column: numbers (n,), NaN for texts and missing values; hashes of texts (n,), else 0."""

    numbers: Floats
    texts: Hashes

    def codes(self, digits: int) -> Hashes:
        """Of each value, with numbers to so many digits."""
        rounded = _rounded(self.numbers, digits)
        return np.asarray(pd.util.hash_array(rounded) ^ self.texts)


def mark_rows(
    features: pd.DataFrame, y: Floats, treated: Bools, ids: NDArray[Any] | None
) -> RowMarks:
    """Hash each row as the encoder reads it, whatever types the columns are stored in.

    >>> y, treated = np.zeros(2), np.array([True, False])
    >>> texts, numbers = pd.DataFrame({"zip": ["10115", "7"]}), pd.DataFrame({"zip": [10115.0, 7]})
    >>> given = [mark_rows(frame, y, treated, None) for frame in (texts, numbers)]
    >>> given[0].digest == given[1].digest
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
    return RowMarks(ids, np.array(looks), strata, y)


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

    ``by`` is "id" or "position". ``digest`` is of the file in its order, ``totals`` (of each look)
    and ``n_rows`` are of its rows in any order. ``chance`` is the share of the ``n_test`` test rows
    that look like a learnt row, for each look: what to expect of new rows. ``high`` is the outcome
    above which one counts as high. Of train and calibration rows there are ``learnt_ids``, sorted
    hashes of ids (none by position), ``learnt_rows``, sorted short hashes of each look, and
    ``learnt_strata``, see ``count_outcomes``, of which only those with two rows or more are kept.
    """

    key: str
    test_share: float
    calibration_share: float
    by: str
    digest: str
    totals: tuple[str, ...]
    n_rows: int
    n_test: int
    chance: tuple[float, ...]
    high: float
    learnt_ids: Hashes = field(repr=False)
    learnt_rows: tuple[Short, ...] = field(repr=False)
    learnt_strata: Short = field(repr=False)

    @classmethod
    def deal(
        cls, marks: RowMarks, *, test_share: float, calibration_share: float, key: str
    ) -> tuple[Self, NDArray[np.int8]]:
        """The split of a file, and the part (0, 1, 2: see PARTS) of each of its rows."""
        hashes = _hashes(marks, key)
        parts = _parts(hashes, test_share, calibration_share)
        learnt, looks = parts != _TEST, _short(marks.looks)
        n_test = int((~learnt).sum())
        high = float(marks.y[learnt].mean()) if learnt.any() else 0.0
        strata = count_outcomes(_short(marks.strata[learnt]), marks.y[learnt] > high)
        seen = [np.isin(look[~learnt], look[learnt]) for look in looks]
        split = cls(
            key=key,
            test_share=test_share,
            calibration_share=calibration_share,
            by="position" if marks.ids is None else "id",
            digest=marks.digest,
            totals=marks.totals,
            n_rows=marks.n_rows,
            n_test=n_test,
            chance=tuple(float(known.mean()) if n_test else 0.0 for known in seen),
            high=high,
            learnt_ids=np.unique(hashes[learnt & (marks.ids is not None)]),
            learnt_rows=tuple(np.unique(look[learnt]) for look in looks),
            learnt_strata=strata[:, strata[1] > 1],
        )
        return split, parts

    @property
    def tells_apart(self) -> bool:
        """Whether rows differ so much that a row can be known by its contents."""
        return self.chance[0] < _TOLD_APART

    def judgeable(self, marks: RowMarks) -> Judgeable:
        """Rows that the model has not learnt from; ValueError if that cannot be told."""
        hashes = _hashes(marks, self.key)
        parts = _parts(hashes, self.test_share, self.calibration_share)
        if self.by == "id" and marks.ids is not None:
            return self._by_id(marks, hashes, parts)
        if marks.digest == self.digest:
            return Judgeable(parts == _TEST, parts == _TRAIN, seen=True)
        everyone = np.ones(marks.n_rows, dtype=bool)
        self._check_order(marks)
        self._check_contents(marks, everyone)
        alike = ~everyone
        if self.tells_apart:
            alike = np.isin(_short(marks.looks[0]), self.learnt_rows[0])
        return Judgeable(~alike, ~everyone, False, int(alike.sum()), self.tells_apart)

    def _by_id(self, marks: RowMarks, hashes: Hashes, parts: NDArray[np.int8]) -> Judgeable:
        known = np.isin(hashes, self.learnt_ids)
        if marks.digest != self.digest:
            if int(known.sum()) < len(self.learnt_ids):
                self._check_order(marks)
            self._check_contents(marks, ~known)
        # Rows of the fit are known or test rows: any other id is of a new row, or written anew.
        told = self.tells_apart or not (~known & (parts != _TEST)).any()
        return Judgeable(~known, known & (parts == _TRAIN), bool(known.any()), told=told)

    def _check_order(self, marks: RowMarks) -> None:
        """ValueError for the rows of the fit in another order, however much they look alike."""
        telling = [k == 0 or self.chance[k] < _TOLD_APART for k in range(_N_LOOKS)]
        equal = [a == b for a, b in zip(marks.totals, self.totals, strict=True)]
        if marks.n_rows == self.n_rows and (np.array(telling) & equal).any():
            how = "in another order" if marks.ids is None else "under other ids"
            raise ValueError(self._refusal(f"got these rows {how}"))

    def _check_contents(self, marks: RowMarks, rows: Bools) -> None:
        """ValueError if more rows look like learnt rows than new rows would by chance."""
        n = int(rows.sum())
        if n == 0:
            return
        for look, learnt, chance in zip(marks.looks, self.learnt_rows, self.chance, strict=True):
            share = float(np.isin(_short(look[rows]), learnt).mean())
            if share > self._explained(chance, n):
                rows_got = f"rows of which {_percent(share)} look like rows that it was fitted on"
                raise ValueError(self._refusal(f"got {rows_got}"))
        strata = count_outcomes(_short(marks.strata[rows]), marks.y[rows] > self.high)
        if agrees_too_well(self.learnt_strata, strata):
            rows_got = "rows whose outcomes agree with rows that it was fitted on as no new rows do"
            raise ValueError(self._refusal(f"got {rows_got}"))

    def _refusal(self, got: str) -> str:
        why, advice = "there are no ids", "fit the model with an id column"
        if self.by == "id":
            why, advice = "their ids are new", "write the ids as they are written there"
        return (
            f"the rows should be the file that the model was fitted on, in its order, or rows that "
            f"are new to it; {got}, and {why}, so the others cannot be told. Pass the file as it "
            f"was, or {advice}."
        )

    def _explained(self, chance: float, n: int) -> float:
        """The largest share of n new rows that look like learnt ones, by chance.

        4 standard errors above what the test rows have; two successes and two failures more keep a
        count of none from being taken for certainty.
        """
        p = (chance * self.n_test + 2) / (self.n_test + 4)
        error = np.sqrt(p * (1 - p) * (1 / n + 1 / (self.n_test + 4)))
        return float(p + min(_SLACK, chance) + 4 * error)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, without the hashes of rows."""
        plain = {name: getattr(self, name) for name in _PLAIN}
        return plain | {"totals": list(self.totals), "chance": list(self.chance)}

    @classmethod
    def from_dict(
        cls,
        plain: Mapping[str, Any],
        learnt_ids: Hashes,
        learnt_rows: Sequence[Short],
        learnt_strata: Short,
    ) -> Self:
        """What ``to_dict`` wrote; ValueError if it cannot have."""
        if not isinstance(plain, Mapping) or set(plain) != set(_PLAIN):
            raise ValueError("a split should have the entries that to_dict writes, got others.")
        texts = [plain[name] for name in ("key", "by", "digest")]
        shares = [plain[name] for name in ("test_share", "calibration_share")]
        right = (
            all(type(text) is str for text in texts)
            and all(type(share) is float and 0 <= share < 1 for share in shares)
            and 0 < sum(shares) < 1
            and all(type(plain[name]) is int and plain[name] >= 0 for name in ("n_rows", "n_test"))
            and _is_triple(plain["chance"], float)
            and all(0 <= chance <= 1 for chance in plain["chance"])
            and _is_triple(plain["totals"], str)
            and type(plain["high"]) is float
            and np.isfinite(plain["high"])
            and len(plain["key"]) == _KEY
            and plain["key"].isascii()
            and plain["by"] in ("id", "position")
        )
        if not right or len(learnt_rows) != _N_LOOKS:
            raise ValueError("a split should hold shares, a key and a digest, got other values.")
        values = {name: plain[name] for name in _PLAIN}
        values |= {name: tuple(plain[name]) for name in ("totals", "chance")}
        return cls(
            **values,
            learnt_ids=learnt_ids,
            learnt_rows=tuple(learnt_rows),
            learnt_strata=learnt_strata,
        )


_PLAIN = (
    "key", "test_share", "calibration_share", "by", "digest", "totals", "n_rows", "n_test",
    "chance", "high",
)  # fmt: skip


def _is_triple(values: Any, kind: type) -> bool:
    """One value of a kind for each look, in a list of JSON."""
    is_list = type(values) is list and len(values) == _N_LOOKS
    return is_list and all(type(value) is kind for value in values)


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else f"{share:.2%}"


def _parts(hashes: Hashes, test_share: float, calibration_share: float) -> NDArray[np.int8]:
    """The part of each row, by the place of its hash between 0 and 1."""
    place = hashes.astype(np.float64) / 2**64
    parts = np.where(place < test_share + calibration_share, _CALIBRATION, _TRAIN)
    return np.where(place < test_share, _TEST, parts).astype(np.int8)


def _hashes(marks: RowMarks, key: str) -> Hashes:
    """(n,) keyed hashes, of ids, or of positions in this very file."""
    if marks.ids is not None:
        return np.asarray(pd.util.hash_array(marks.ids, hash_key=key))
    own = blake2b(marks.digest.encode(), key=key.encode(), digest_size=_KEY // 2).hexdigest()
    texts = np.arange(marks.n_rows).astype(str).astype(object)
    return np.asarray(pd.util.hash_array(texts, hash_key=own))


def _short(hashes: Hashes) -> Short:
    """Half of the bits: by chance a new row is taken for a known one n times in 2^32."""
    return (hashes & np.uint64(0xFFFFFFFF)).astype(np.uint32)
