"""A table of numbers, texts, booleans and dates as features of a model, in plain terms.

Each feature is one *term* of one column, so that the same encoding can be written as SQL, as JSON
or as a graph: the value of a number, 1 where it is missing, 1 where a text equals a level, 1 where
it is another text. What was learnt is a list of columns and a list of terms, plain data.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from auucmax._validation import (
    Floats,
    check_choice,
    check_whole,
    listed,
    unknown_columns_message,
)
from auucmax.encoding.kinds import (
    KINDS,
    are_number_texts,
    code_counts,
    code_places,
    kind_of,
    numbers_of,
    texts_of,
    truths_of,
    unknown_kind,
)
from auucmax.encoding.texts import MISSING_TEXTS, counted_as, level_text, places_of, truth_slow

NEW_LEVELS = ("error", "other")
_MANY_NEW = 0.5  # share of unknown texts that a warning names
_BLOCK = 2**12  # rows whose features are written together: their matrix fits into the cache

# Which kinds of a new table may stand for a kind of the training table.
_TAKES = {
    "number": ("number", "boolean", "empty"),
    "boolean": ("boolean", "number", "category", "mixed", "empty"),
    "date": ("date", "empty"),
    "category": ("category", "number", "boolean", "mixed", "empty"),
    "code": ("number", "boolean", "empty"),
}
_PLURAL = {
    "number": "numbers", "category": "texts", "date": "dates", "boolean": "booleans",
    "code": "numbers", "mixed": "texts",
}  # fmt: skip
# Which kinds a user may have taken for levels, or for quantities.
_DECIDED = {
    "categorical": ("number", "category", "boolean", "mixed", "empty"),
    "numeric": ("number", "boolean", "empty"),
}


@dataclass(frozen=True)
class Term:
    """A feature: what of a column's value becomes a number, and the name it is printed by.

    ``kind`` is "value", "missing", "level" or "other".
    """

    kind: str
    column: str
    level: str | None = None
    fill: float = 0.0
    name: str = ""


@dataclass(frozen=True)
class Column:
    """What was learnt of a raw column; its terms follow from it.

    A category has ``levels``, sorted; ``has_other`` if training had texts that are no level, with
    their share among all texts; ``takes_new`` if such texts are no mistake though training had
    none. A code has levels, too, the texts of whole numbers. Another kind has ``fill``, the median,
    for missing values (None: all were missing), and ``varies`` unless all its values are the same.
    """

    name: str
    kind: str
    levels: tuple[str, ...] = ()
    has_other: bool = False
    has_missing: bool = False
    fill: float | None = None
    varies: bool = True
    other_share: float = 0.0
    takes_new: bool = False

    @classmethod
    def of_levels(
        cls,
        name: str,
        levels: Iterable[str],
        *,
        n_other: int,
        n_missing: int,
        n_rows: int,
        kind: str = "category",
        takes_new: bool = False,
    ) -> Self:
        """Levels of so many rows, some of them with other values than the levels, or none."""
        share = n_other / max(n_rows - n_missing, 1)
        return cls(
            name,
            kind,
            tuple(levels),
            has_other=n_other > 0,
            has_missing=n_missing > 0,
            other_share=share,
            takes_new=takes_new,
        )

    @property
    def has_levels(self) -> bool:
        """Whether it is a category, or a code."""
        return self.kind in ("category", "code")

    @property
    def terms(self) -> list[Term]:
        """The features that it makes, in their order; none if it does not tell rows apart.

        >>> [term.name for term in Column("town", "category", ("a", "b"), has_other=True).terms]
        ['town=a', 'town=b', 'town: other']
        """
        name, terms = self.name, []
        if self.has_levels:
            terms += [Term("level", name, level, 0.0, f"{name}={level}") for level in self.levels]
            terms += [Term("other", name, None, 0.0, f"{name}: other")] if self.has_other else []
        elif self.fill is None:
            return []
        elif self.varies:
            terms.append(Term("value", name, None, self.fill, name))
        # One value and missing ones: all that there is to know is which.
        if self.has_missing:
            terms.append(Term("missing", name, None, 0.0, f"{name}: missing"))
        return [] if self.has_levels and len(terms) == 1 else terms

    @property
    def flaw(self) -> str:
        """Why it does not tell rows apart, if it has no terms."""
        if self.has_other:
            return "with rare levels only"
        return "with one value" if self.levels or self.fill is not None else "without values"


class TableEncoder(TransformerMixin, BaseEstimator):
    """Features from a raw table: (n, p) numbers, each a term of one column.

    * *value*: the number; 0/1 for a boolean; days since 1970-01-01 (UTC, with fractions) for a
      date. A missing value becomes the median of the training rows, to three digits.
    * *missing*: 1 where the value is missing, if some were in training.
    * *level*: 1 where the text equals the level. All levels have a feature, none is left out.
    * *other*: 1 where the text is present and no level. It exists if training had rare levels: in
      fewer than ``min_level_rows`` rows, or beyond the ``max_levels`` most frequent.

    A column of 3 to 10 different whole numbers that repeat is probably one of *codes*: its values
    are levels, as texts are, and a number that training did not have counts as *other*, or to no
    level. (Levels of what is a quantity cost next to nothing.) ``numeric`` keeps such a column as
    numbers; ``categorical`` takes any other column of numbers for levels, whatever its values.

    Columns are found by name, in any order; further ones are ignored. A missing value in a column
    that had none in training becomes the median, or zeros in all levels of a category. Columns
    with one value, or none, are dropped with a warning.

    In a category the texts that a CSV file has for nothing (the empty one, NA, N/A, NaN, nan,
    NULL, null) are missing, wherever the rows come from. Numbers and booleans stand for texts,
    mixed with them or not: see :func:`auucmax.encoding.texts.level_text`. A text that has
    zeros at the end of its decimals counts as the same without ("1.0" as "1"; "-0" as "0"), unless
    it is a level itself. Floats of 2^53 and more are an error there: they may stand for several
    whole numbers.

    Booleans are the same from all files: true, True and TRUE are one text, unless two of them are
    levels, and stand for the boolean in a category; a column that was boolean in training takes
    these texts, and 0 and 1.

    A warning names a category if more than half of its values, and clearly more than in training,
    are no level: then its texts are probably written in another way.

    Parameters
    ----------
    max_levels : most levels of a category.
    min_level_rows : fewest rows of a level.
    new_levels : what to do with a text that is no level in a category without *other*: "error", or
        "other", which makes zeros of it. Numbers that are new are never an error.
    categorical : names of columns whose numbers, or booleans, are levels.
    numeric : names of columns whose whole numbers are quantities.

    Attributes
    ----------
    columns_ : tuple of :class:`Column`, in the order of training.
    terms_ : tuple of :class:`Term`, one a feature.
    dropped_ : dict of column names and why they were dropped.

    Examples
    --------
    >>> frame = pd.DataFrame({"age": [30, None, 50], "town": ["Oslo", "Bergen", "Oslo"]})
    >>> encoder = TableEncoder(min_level_rows=1).fit(frame)
    >>> encoder.get_feature_names_out().tolist()
    ['age', 'age: missing', 'town=Bergen', 'town=Oslo']
    >>> encoder.transform(frame)
    array([[30.,  0.,  0.,  1.],
           [40.,  1.,  1.,  0.],
           [50.,  0.,  0.,  1.]])

    Few whole numbers are levels, unless they are named:

    >>> frame = pd.DataFrame({"plan": [1, 2, 7] * 20, "children": [0, 1, 2] * 20})
    >>> encoder = TableEncoder(numeric=["children"]).fit(frame)
    >>> encoder.get_feature_names_out().tolist(), encoder.code_columns
    (['plan=1', 'plan=2', 'plan=7', 'children'], ['plan'])
    """

    def __init__(
        self,
        *,
        max_levels: int = 30,
        min_level_rows: int = 20,
        new_levels: str = "error",
        categorical: Sequence[str] = (),
        numeric: Sequence[str] = (),
    ) -> None:
        self.max_levels = max_levels
        self.min_level_rows = min_level_rows
        self.new_levels = new_levels
        self.categorical = categorical
        self.numeric = numeric

    def fit(self, frame: Any, y: Any = None) -> Self:
        """Learn columns and terms from training rows, whatever their order."""
        self._check_parameters()
        table = _table(frame)
        if not len(table):
            raise ValueError("the table should have rows, got none. Check where it comes from.")
        return self._learn([self._column(table[name]) for name in table.columns])

    def fit_columns(self, columns: Iterable[Column]) -> Self:
        """Learn terms from what is known of each column: for rows that are counted elsewhere."""
        self._check_parameters()
        return self._learn(list(columns))

    def _check_parameters(self) -> None:
        check_whole(self.max_levels, "max_levels", 1)
        check_whole(self.min_level_rows, "min_level_rows", 1)
        check_choice(self.new_levels, "new_levels", NEW_LEVELS)
        for option in _DECIDED:
            names = getattr(self, option)
            if isinstance(names, str) or not all(isinstance(name, str) for name in names):
                raise ValueError(
                    f"{option} should be a list of names of columns, got {names!r:.80}. Pass a "
                    f"list of texts."
                )
        if both := [name for name in self.categorical if name in self.numeric]:
            raise ValueError(
                f"categorical and numeric should name different columns, got {listed(both)} in "
                f"both. Decide for one."
            )

    def takes_for_levels(self, name: str, kind: str) -> bool | None:
        """What the user decided of a column of this kind; None: nothing.

        >>> TableEncoder(categorical=["plan"]).takes_for_levels("plan", "number")
        True
        """
        for option, kinds in _DECIDED.items():
            if name in getattr(self, option):
                if kind not in kinds:
                    raise ValueError(
                        f"{option} should name columns of {listed_kinds(kinds)}, got "
                        f"{_PLURAL[kind]} in {name!r}. Leave it out, or convert the column."
                    )
                return option == "categorical"
        return None

    def _column(self, series: pd.Series) -> Column:
        name, kind = str(series.name), kind_of(series)
        decided = self.takes_for_levels(name, kind)
        if kind == "mixed" and not decided:
            raise unknown_kind(series)
        if kind == "category" or (decided and kind != "empty"):
            codes, texts = texts_of(series, kind)
            rows = np.bincount(codes[codes >= 0], minlength=len(texts)).tolist()
            counts = dict(zip(texts, rows, strict=True))
            return self.column_of_texts(name, counts, len(series), takes_new=kind == "number")
        values = np.empty(0) if kind == "empty" else numbers_of(series, kind)
        present = values[~np.isnan(values)]
        if not len(present):
            return Column(name, "number")
        if kind == "number" and decided is None:
            codes_found = code_counts(present, int(self.min_level_rows))
            if codes_found is not None:
                return self.column_of_codes(name, codes_found, len(values))
        return Column(
            name,
            kind,
            has_missing=len(present) < len(values),
            varies=bool(np.ptp(present) > 0),
            fill=float(np.median(present, overwrite_input=True)),
        )

    def column_of_texts(
        self, name: str, counts: Mapping[str, int], n_rows: int, *, takes_new: bool = False
    ) -> Column:
        """A category, by how many of its rows have each text; the others have none."""
        levels = sorted(self._frequent({t: n for t, n in counts.items() if t not in MISSING_TEXTS}))
        places = places_of(list(counts), levels)[0][:-1]
        rows = np.array(list(counts.values()), dtype=np.int64)
        n_other, n_present = rows[places == len(levels)].sum(), rows[places >= 0].sum()
        return Column.of_levels(
            name,
            levels,
            n_other=int(n_other),
            n_missing=n_rows - int(n_present),
            n_rows=n_rows,
            takes_new=takes_new,
        )

    def column_of_codes(self, name: str, counts: Mapping[int, int], n_rows: int) -> Column:
        """A column of codes, by how many of its rows have each; the others have none."""
        levels = sorted(self._frequent(counts))
        n_present = sum(counts.values())
        return Column.of_levels(
            name,
            map(str, levels),
            n_other=n_present - sum(counts[level] for level in levels),
            n_missing=n_rows - n_present,
            n_rows=n_rows,
            kind="code",
            takes_new=True,
        )

    def _frequent(self, counts: Mapping[Any, int]) -> list[Any]:
        """The values that are levels: the most frequent; of equally frequent ones the first."""
        order = sorted(counts, key=lambda value: (-counts[value], value))
        kept = order[: int(self.max_levels)]
        return [value for value in kept if counts[value] >= self.min_level_rows]

    @property
    def code_columns(self) -> list[str]:
        """The columns whose whole numbers were taken for levels, though nobody said so."""
        return [column.name for column in self.columns_ if column.kind == "code"]

    def _learn(self, columns: list[Column]) -> Self:
        # A median may be the value of one person: to three digits it is nobody's.
        columns = [
            c if c.fill is None else replace(c, fill=float(f"{c.fill:.3g}")) for c in columns
        ]
        names = [column.name for column in columns]
        if unknown := [n for n in (*self.categorical, *self.numeric) if n not in names]:
            raise ValueError(unknown_columns_message("the table", unknown, names))
        dropped = {column.name: column.flaw for column in columns if not column.terms}
        if len(dropped) == len(columns):
            raise ValueError(
                f"the table should have a column that tells rows apart, got {_reasons(dropped)}. "
                f"Pass more columns or more rows."
            )
        if dropped:
            warnings.warn(
                f"columns should tell rows apart, got {_reasons(dropped)}: dropped. Leave them "
                f"out to silence this.",
                UserWarning,
                stacklevel=3,
            )
        return self._set(columns, dropped)

    def _set(self, columns: list[Column], dropped: dict[str, str]) -> Self:
        self.columns_ = tuple(column for column in columns if column.name not in dropped)
        self.terms_ = tuple(term for column in self.columns_ for term in column.terms)
        self.dropped_, self.n_features_in_ = dropped, len(columns)
        self.feature_names_in_ = np.array([column.name for column in columns], dtype=object)
        return self

    def transform(self, frame: Any) -> Floats:
        """(n, p) features of the rows of a table that has the columns of training."""
        check_is_fitted(self, "terms_")
        table = _table(frame)
        wanted = [column.name for column in self.columns_]
        if unknown := [name for name in wanted if name not in table.columns]:
            raise ValueError(unknown_columns_message("the table", unknown, list(table.columns)))
        parts, first = [], 0
        for column in self.columns_:
            last = first + len(column.terms)
            parts.append((slice(first, last), column, self._values(table[column.name], column)))
            first = last
        features = np.zeros((len(table), len(self.terms_)))
        # Rows in blocks: a column of the whole matrix is spread over all of its memory.
        for start in range(0, len(table), _BLOCK):
            block = features[start : start + _BLOCK]
            for own, column, values in parts:
                _write(block[:, own], column, values[start : start + _BLOCK])
        return features

    def accept(self, frame: Any) -> Self:
        """Categories take unknown texts from now on where these rows have some: as zeros.

        For rows that were kept from ``fit`` though they were there: a text that is so rare that
        only they have it is no mistake. No feature of any other row changes.
        """
        table = _table(frame)
        columns = []
        for column in self.columns_:
            if column.kind == "category" and not (column.has_other or column.takes_new):
                series = table[column.name]
                new = places_of(texts_of(series, kind_of(series))[1], column.levels)[1]
                column = replace(column, takes_new=bool(new))
            columns.append(column)
        self.columns_ = tuple(columns)
        return self

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Printed names of the features, (p,)."""
        check_is_fitted(self, "terms_")
        return np.array([term.name for term in self.terms_], dtype=object)

    def to_dict(self) -> dict[str, Any]:
        """What was learnt, as plain JSON.

        >>> encoder = TableEncoder(min_level_rows=1).fit(pd.DataFrame({"town": ["Oslo", "Rome"]}))
        >>> TableEncoder.from_dict(encoder.to_dict()).terms_ == encoder.terms_
        True
        """
        check_is_fitted(self, "terms_")
        names = {option: list(getattr(self, option)) for option in _DECIDED}
        return {
            "parameters": self.get_params() | names,
            "columns": [asdict(c) | {"levels": list(c.levels)} for c in self.columns_],
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """The encoder that ``to_dict`` wrote; ValueError if it cannot have."""
        try:
            given = plain["parameters"]
            encoder = cls(**(given | {option: tuple(given[option]) for option in _DECIDED}))
            encoder._check_parameters()
            columns = [_column_of(entry) for entry in plain["columns"]]
            if not columns or len({c.name for c in columns}) < len(columns):
                raise ValueError("there should be columns, with different names")
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise ValueError(
                f"an encoder should be what to_dict returns, got something else ({error}). "
                f"Save it again."
            ) from error
        return encoder._set(columns, {})

    def _values(self, series: pd.Series, column: Column) -> NDArray[Any]:
        """Numbers (NaN where missing); of a category the place of the level, -1 where missing."""
        kind = kind_of(series)
        if kind not in _TAKES[column.kind]:
            present = series[series.notna()]
            if kind == "mixed":
                raise unknown_kind(series)
            if column.kind in ("number", "code") and are_number_texts(present):
                series, kind = pd.to_numeric(series), "number"
            elif len(present):
                raise _other_kind(column, kind, present.iloc[0])
            else:
                kind = "empty"
        if kind == "empty":
            return np.full(len(series), -1 if column.has_levels else np.nan)
        if column.kind == "category":
            return self._places(series, kind, column)
        if column.kind == "code":
            return _places_of_codes(numbers_of(series, kind), column)
        if column.kind != "boolean":
            return numbers_of(series, kind)
        values, unknown = truths_of(series, kind)
        if unknown and isinstance(unknown[0], str):
            raise _other_kind(column, "category", unknown[0])
        if unknown:
            raise ValueError(
                f"column {column.name!r} should hold booleans or 0/1 as in training, got other "
                f"numbers such as {unknown[0]!r}. Convert the column."
            )
        return values

    def _places(self, series: pd.Series, kind: str, column: Column) -> NDArray[np.intp]:
        codes, texts = texts_of(series, kind)
        place_of_text, new = places_of(texts, column.levels)
        places = place_of_text[codes]
        if not new:
            return places
        rows, present = int((places == len(column.levels)).sum()), int((places >= 0).sum())
        if not (column.has_other or column.takes_new) and self.new_levels == "error":
            raise ValueError(
                f"column {column.name!r} should hold levels of training, {listed(column.levels)}; "
                f"got {listed(new)} in {rows} row{'s' * (rows != 1)}. Correct the values, train "
                f"again with them, or use new_levels='other', which counts them to no level."
            )
        _tell_many_new(column, rows, present, new)
        return places


def _places_of_codes(values: Floats, column: Column) -> NDArray[np.intp]:
    places = code_places(values, column.levels)
    is_new = places == len(column.levels)
    if rows := int(is_new.sum()):
        new = [level_text(value) for value in pd.unique(values[is_new])[:10]]
        _tell_many_new(column, rows, int((places >= 0).sum()), new)
    return places


def _tell_many_new(column: Column, rows: int, present: int, new: Sequence[str]) -> None:
    """A warning if more of the values that are present than usual are no level."""
    # As many as half are usual, and up to three standard errors more than in training.
    share = column.other_share
    usual = max(_MANY_NEW, share + 3 * float(np.sqrt(share * (1 - share) / max(present, 1))))
    if rows > present * usual:
        warnings.warn(
            f"column {column.name!r} should mostly hold levels of training, "
            f"{listed(column.levels)}; got other values in {rows / present:.0%} of the rows "
            f"that have one: {listed(new)}. Check that they are written as in training.",
            UserWarning,
            stacklevel=6,
        )


def _column_of(entry: Mapping[str, Any]) -> Column:
    """The column of a dictionary; ValueError if no encoder wrote it."""
    column = Column(**{**entry, "levels": tuple(entry["levels"])})
    flags = (column.has_other, column.has_missing, column.varies, column.takes_new)
    is_filled = type(column.fill) is float and bool(np.isfinite(column.fill))
    right = (
        column.kind in KINDS
        and all(type(text) is str for text in (column.name, *column.levels))
        and all(type(flag) is bool for flag in flags)
        and type(column.other_share) is float
        and 0 <= column.other_share <= 1
        and (column.fill is None if column.has_levels else is_filled)
        and (column.kind != "code" or _are_numbers(column.levels))
        and len(set(column.levels)) == len(column.levels)
        and column.terms
    )
    if not right:
        raise ValueError(f"there is no such column as {column!r}"[:200])
    return column


def _are_numbers(levels: Sequence[str]) -> bool:
    """Whether texts are those of different whole numbers, sorted, as of a column of codes."""
    numbers = [int(level) for level in levels]
    exact = list(map(str, numbers)) == list(levels) and all(abs(n) < 2**53 for n in numbers)
    return bool(numbers) and exact and numbers == sorted(set(numbers))


def _write(features: Floats, column: Column, values: NDArray[Any]) -> None:
    """Fill the features of one column, which are all zero, from what ``_values`` made of it."""
    if not column.has_levels:
        missing = np.isnan(values)
        if column.varies:
            features[:, 0] = values
            features[missing, 0] = column.fill
        if column.has_missing:
            features[:, -1] = missing
        return
    # The feature of each place; the last is that of missing values, whose place is -1.
    n_levels, n_terms = len(column.levels), features.shape[1]
    of_place = np.arange(n_levels + 2)
    of_place[n_levels] = n_levels if column.has_other else -1
    of_place[-1] = n_terms - 1 if column.has_missing else -1
    own = of_place[values]
    rows = np.flatnonzero(own >= 0)
    features[rows, own[rows]] = 1.0


def _other_kind(column: Column, kind: str, example: Any) -> ValueError:
    return ValueError(
        f"column {column.name!r} should hold {_PLURAL[column.kind]} as in training, got "
        f"{_PLURAL[kind]} such as {example!r}. Convert the column, or clean these values."
    )


def listed_kinds(kinds: Iterable[str]) -> str:
    """Kinds of columns in words."""
    return ", ".join(dict.fromkeys(_PLURAL[kind] for kind in kinds if kind != "empty"))


def encode_slow(frame: pd.DataFrame, encoder: TableEncoder) -> Floats:
    """The definition of the features, a row and a term at a time: the twin of ``transform``."""
    columns = {column.name: column for column in encoder.columns_}

    def feature(term: Term, value: Any) -> float:
        column = columns[term.column]
        missing = bool(pd.isna(value))
        if column.kind == "boolean" and not missing:
            value = truth_slow(value)
            missing = value is None
        if term.kind == "value":
            if missing or not isinstance(value, (date, np.datetime64)):
                return term.fill if missing else float(value)
            moment = pd.Timestamp(value)  # which is a date, too
            moment = moment if moment.tzinfo else moment.tz_localize(UTC)
            return (moment.to_pydatetime() - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(days=1)
        if not column.has_levels:
            return float(missing)
        if column.kind == "code" and not missing:
            value = float(value)
        text = None if missing else counted_as(level_text(value), column.levels)
        if term.kind == "missing":
            return float(text is None)
        if term.kind == "level":
            return float(text == term.level)
        return float(text is not None and text not in column.levels)

    rows = range(len(frame))
    return np.array([[feature(t, frame[t.column].iloc[k]) for t in encoder.terms_] for k in rows])


def _table(frame: Any) -> pd.DataFrame:
    """A pandas frame whose columns have different names, all texts; the rows are not copied."""
    if not isinstance(frame, pd.DataFrame):
        if not hasattr(frame, "to_pandas"):
            raise ValueError(
                f"the table should be a frame with named columns, got {type(frame).__name__}. "
                f"Pass a pandas or polars frame."
            )
        frame = frame.to_pandas()
    return text_names(frame)


def text_names(frame: pd.DataFrame) -> pd.DataFrame:
    """The same rows in columns whose names are texts, all different.

    >>> text_names(pd.DataFrame({1: [2.0], "a": [3.0]})).columns.tolist()
    ['1', 'a']
    """
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(
            f"the table should have columns of different names, got {listed(repeated)} more than "
            f"once. Rename or drop them."
        )
    return frame.set_axis(names, axis=1)


def _reasons(dropped: Mapping[str, str]) -> str:
    return "; ".join(
        f"{listed(n for n, why in dropped.items() if why == reason)} {reason}"
        for reason in dict.fromkeys(dropped.values())
    )
