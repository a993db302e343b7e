"""A table of numbers, texts, booleans and dates as features of a model, in plain terms.

Each feature is one *term* of one column, so that the same encoding can be written as SQL, as JSON
or as a graph: the value of a number, 1 where it is missing, 1 where a text equals a level, 1 where
it is another text. What was learnt is a list of columns and a list of terms, plain data.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from auucmax._validation import Floats, check_choice, check_whole, listed
from auucmax.data.reading import MISSING_TEXTS, unknown_columns_message

__all__ = ["END_ZEROS", "Column", "TableEncoder", "Term", "counted_as", "encode_slow", "level_text"]

KINDS = ("number", "category", "date", "boolean")
TERMS = ("value", "missing", "level", "other")
NEW_LEVELS = ("error", "other")
_MICROSECONDS = 86_400e6  # of a day
_MANY_NEW = 0.5  # share of unknown texts that is told
_LONGEST_DECIMAL = 60  # digits; beyond, a decimal is a text as it prints
#: A number with zeros at the end of its decimals: either group is the number without them.
END_ZEROS = r"(-?[0-9]+)[.]0+|(-?[0-9]+[.][0-9]*[1-9])0+"

# Which kinds of a new table may stand for a kind of the training table.
_TAKES = {
    "number": ("number", "boolean"),
    "boolean": ("boolean", "number"),
    "date": ("date",),
    "category": ("category", "number", "boolean"),
}
_INFERRED = {
    "string": "category",
    "categorical": "category",
    "boolean": "boolean",
    "integer": "number",
    "floating": "number",
    "mixed-integer-float": "number",
    "decimal": "number",
    "date": "date",
    "datetime": "date",
    "datetime64": "date",
    "empty": "empty",
}


@dataclass(frozen=True)
class Column:
    """A raw column: its kind, its levels if it is a category, the fill of missing values if not.

    ``other_share`` is the share of rare texts among those of the training rows.
    """

    name: str
    kind: str
    levels: tuple[str, ...] = ()
    has_other: bool = False
    has_missing: bool = False
    fill: float | None = None
    other_share: float = 0.0


@dataclass(frozen=True)
class Term:
    """A feature: what of a column's value becomes a number, and the name it is printed by."""

    kind: str
    column: str
    level: str | None = None
    fill: float = 0.0
    name: str = ""


class TableEncoder(TransformerMixin, BaseEstimator):
    """Features from a raw table: (n, p) numbers, each a term of one column.

    * *value*: the number; 0/1 for a boolean; days since 1970-01-01 (UTC, with fractions) for a
      date. A missing value becomes the median of the training rows.
    * *missing*: 1 where the value is missing, if some were in training.
    * *level*: 1 where the text equals the level. All levels have a feature, none is left out.
    * *other*: 1 where the text is present and no level. It exists if training had rare levels: in
      fewer than ``min_level_rows`` rows, or beyond the ``max_levels`` most frequent.

    Columns are found by name, in any order; further ones are ignored. A missing value in a column
    that had none in training becomes the median, or zeros in all levels of a category. Columns
    with one value, or none, are dropped with a warning.

    In a category the texts that a CSV file has for nothing (the empty one, NA, N/A, NaN, nan,
    NULL, null) are missing, wherever the rows come from. Numbers and booleans stand for texts,
    mixed with them or not: see :func:`level_text`. A text that has zeros at the end of its decimals
    counts as the same without ("1.0" as "1"), unless it is a level itself. Floats of 2^53 and more
    are an error there: they may stand for several whole numbers.

    A warning names a category if more than half of its values, and clearly more than in training,
    are no level: then its texts are probably written in another way.

    Parameters
    ----------
    max_levels : most levels of a category.
    min_level_rows : fewest rows of a level.
    new_levels : what to do with a text that is no level in a category without *other*: "error", or
        "other", which makes zeros of it.

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
    """

    def __init__(
        self, *, max_levels: int = 30, min_level_rows: int = 20, new_levels: str = "error"
    ) -> None:
        self.max_levels = max_levels
        self.min_level_rows = min_level_rows
        self.new_levels = new_levels

    def fit(self, frame: Any, y: Any = None) -> Self:
        """Learn columns and terms from training rows, whatever their order."""
        check_whole(self.max_levels, "max_levels", 1)
        check_whole(self.min_level_rows, "min_level_rows", 1)
        check_choice(self.new_levels, "new_levels", NEW_LEVELS)
        table = _table(frame)
        if not len(table):
            raise ValueError("the table should have rows, got none. Check where it comes from.")
        columns, terms, dropped = [], [], {}
        for name in table.columns:
            column, its_terms, reason = self._fit_column(table[name])
            if its_terms:
                columns.append(column)
                terms.extend(its_terms)
            else:
                dropped[name] = reason
        if not columns:
            raise ValueError(
                f"the table should have a column that tells rows apart, got {_reasons(dropped)}. "
                f"Pass more columns or more rows."
            )
        if dropped:
            warnings.warn(
                f"columns should tell rows apart, got {_reasons(dropped)}: dropped. Leave them "
                f"out to silence this.",
                UserWarning,
                stacklevel=2,
            )
        self.columns_, self.terms_, self.dropped_ = tuple(columns), tuple(terms), dropped
        self.n_features_in_ = table.shape[1]
        self.feature_names_in_ = np.array(table.columns, dtype=object)
        return self

    def transform(self, frame: Any) -> Floats:
        """(n, p) features of the rows of a table that has the columns of training."""
        check_is_fitted(self, "terms_")
        table = _table(frame)
        wanted = [column.name for column in self.columns_]
        if unknown := [name for name in wanted if name not in table.columns]:
            raise ValueError(unknown_columns_message("the table", unknown, list(table.columns)))
        features = np.empty((len(table), len(self.terms_)))
        for column in self.columns_:
            values = self._values(table[column.name], column)
            for place, term in enumerate(self.terms_):
                if term.column == column.name:
                    features[:, place] = _feature(values, term, column)
        return features

    def accept(self, frame: Any) -> Self:
        """Categories take unknown texts from now on where these rows have some: as zeros.

        For rows that were kept from ``fit`` though they were there: a text that is so rare that
        only they have it is no mistake. No feature of any other row changes.
        """
        table = _table(frame)
        columns = []
        for column in self.columns_:
            if column.kind == "category" and not column.has_other:
                _, n_new = _placed(_texts(table[column.name])[1], column.levels)
                column = replace(column, has_other=n_new > 0)
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
        return {
            "parameters": self.get_params(),
            "columns": [asdict(c) | {"levels": list(c.levels)} for c in self.columns_],
            "terms": [asdict(term) for term in self.terms_],
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """The encoder that ``to_dict`` wrote; ValueError if it cannot have."""
        try:
            encoder = cls(**plain["parameters"])
            check_whole(encoder.max_levels, "max_levels", 1)
            check_whole(encoder.min_level_rows, "min_level_rows", 1)
            check_choice(encoder.new_levels, "new_levels", NEW_LEVELS)
            columns = tuple(_column(entry) for entry in plain["columns"])
            terms = tuple(_term(entry, columns) for entry in plain["terms"])
            if len({c.name for c in columns}) < len(columns) or not terms:
                raise ValueError("columns have different names, and there is a term")
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise ValueError(
                f"an encoder should be what to_dict returns, got something else ({error}). "
                f"Save it again."
            ) from error
        encoder.columns_, encoder.terms_, encoder.dropped_ = columns, terms, {}
        encoder.n_features_in_ = len(columns)
        encoder.feature_names_in_ = np.array([c.name for c in columns], dtype=object)
        return encoder

    def _fit_column(self, series: pd.Series) -> tuple[Column, list[Term], str]:
        """The column, its terms, and if it has none the reason."""
        name, kind = str(series.name), _kind(series)
        if kind == "empty":
            return Column(name, "number"), [], "without values"
        if kind == "category":
            column = self._fit_category(series)
            several = len(column.levels) + column.has_other + column.has_missing > 1
            reason = "with rare levels only" if column.has_other else "with one value"
            reason = reason if column.has_other or column.levels else "without values"
            return column, _category_terms(column) if several else [], reason
        has_missing = bool(series.isna().any())
        values = _numbers(series, kind)
        present = values[~np.isnan(values)]
        fill = float(np.median(present))
        column = Column(name, kind, has_missing=has_missing, fill=fill)
        # One value and missing ones: all that there is to know is which.
        terms = [Term("value", name, None, fill, name)] if np.ptp(present) > 0 else []
        terms += [Term("missing", name, None, 0.0, f"{name}: missing")] if has_missing else []
        return column, terms, "with one value"

    def _fit_category(self, series: pd.Series) -> Column:
        codes, texts = _texts(series)
        counts = np.bincount(codes[codes >= 0], minlength=len(texts))
        present = [pair for pair in zip(-counts, texts, strict=True) if pair[1] not in _MISSING]
        frequent = sorted(present)[: int(self.max_levels)]
        levels = sorted(text for minus, text in frequent if -minus >= self.min_level_rows)
        places = _placed(texts, levels)[0][codes]
        n_other, n_missing = int((places == len(levels)).sum()), int((places == -1).sum())
        return Column(
            str(series.name),
            "category",
            tuple(levels),
            n_other > 0,
            n_missing > 0,
            other_share=n_other / max(len(places) - n_missing, 1),
        )

    def _values(self, series: pd.Series, column: Column) -> NDArray[Any]:
        """Numbers (NaN where missing); of a category the place of the level, -1 where missing."""
        if column.kind == "category" and _is_mix(series):
            return self._places(series, column)
        kind = _kind(series)
        if kind == "empty":
            empty = np.nan if column.kind != "category" else -1
            return np.full(len(series), empty)
        if kind not in _TAKES[column.kind]:
            example = series[series.notna()].iloc[0]
            raise ValueError(
                f"column {column.name!r} should hold {_PLURAL[column.kind]} as in training, got "
                f"{_PLURAL[kind]} such as {example!r}. Convert the column, or clean these values."
            )
        if column.kind != "category":
            values = _numbers(series, kind)
            if column.kind == "boolean" and not np.isin(values[~np.isnan(values)], (0, 1)).all():
                raise ValueError(
                    f"column {column.name!r} should hold booleans or 0/1 as in training, got other "
                    f"numbers. Convert the column."
                )
            return values
        return self._places(series, column)

    def _places(self, series: pd.Series, column: Column) -> NDArray[np.intp]:
        codes, texts = _texts(series)
        place_of_text, n_new = _placed(texts, column.levels)
        places = place_of_text[codes]
        if not n_new:
            return places
        new = [
            t for t, place in zip(texts, place_of_text, strict=False) if place == len(column.levels)
        ]
        rows, present = int((places == len(column.levels)).sum()), int((places >= 0).sum())
        if not column.has_other and self.new_levels == "error":
            raise ValueError(
                f"column {column.name!r} should hold levels of training, {listed(column.levels)}; "
                f"got {listed(new)} in {rows} row{'s' * (rows != 1)}. Correct the values, train "
                f"again with them, or use new_levels='other', which counts them to no level."
            )
        if rows > present * _usual(column.other_share, present):
            warnings.warn(
                f"column {column.name!r} should mostly hold levels of training, "
                f"{listed(column.levels)}; got other values in {rows / present:.0%} of the rows "
                f"that have one: {listed(new)}. Check that they are written as in training.",
                UserWarning,
                stacklevel=5,
            )
        return places


_PLURAL = {"number": "numbers", "category": "texts", "date": "dates", "boolean": "booleans"}


def encode_slow(frame: pd.DataFrame, encoder: TableEncoder) -> Floats:
    """The definition of the features, a row and a term at a time: the twin of ``transform``."""
    columns = {column.name: column for column in encoder.columns_}

    def feature(term: Term, value: Any) -> float:
        missing = bool(pd.isna(value))
        if term.kind == "value":
            return term.fill if missing else _number_slow(value)
        column = columns[term.column]
        if column.kind != "category":
            return float(missing)
        text = None if missing else counted_as(level_text(value), column.levels)
        if term.kind == "missing":
            return float(text is None)
        if term.kind == "level":
            return float(text == term.level)
        return float(text is not None and text not in column.levels)

    rows = range(len(frame))
    return np.array([[feature(t, frame[t.column].iloc[k]) for t in encoder.terms_] for k in rows])


def _number_slow(value: Any) -> float:
    if isinstance(value, (date, np.datetime64)):  # a Timestamp is a date, too
        moment = pd.Timestamp(value).to_pydatetime()
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return (moment - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(days=1)
    return float(value)


def level_text(value: Any) -> str:
    """The text that stands for a value of a category: equal numbers have one, whatever their type.

    >>> level_text("north"), level_text(1), level_text(1.0), level_text(1.5), level_text(True)
    ('north', '1', '1', '1.5', 'true')
    >>> level_text(Decimal("1.00")), level_text(Decimal("1.50")), level_text(np.float32(0.1))
    ('1', '1.5', '0.1')
    """
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return _decimal_text(value)
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)


def _decimal_text(value: Decimal) -> str:
    if not value.is_finite() or abs(value.adjusted()) > _LONGEST_DECIMAL:
        return str(value)
    if value == value.to_integral_value():
        return str(int(value))
    near = str(float(value))  # small numbers print with an exponent
    return near if Decimal(near) == value else _without_end_zeros(format(value, "f"))


def counted_as(text: str, levels: Container[str]) -> str | None:
    """The text that a text of a category counts as, which may be a level; None: as missing.

    >>> counted_as("1.0", {"1"}), counted_as("1.0", {"1", "1.0"}), counted_as("NA", {"1"})
    ('1', '1.0', None)
    """
    if text in levels:
        return text
    return None if text in _MISSING else _without_end_zeros(text)


_MISSING = frozenset(MISSING_TEXTS)


def _without_end_zeros(text: str) -> str:
    found = re.fullmatch(END_ZEROS, text)
    return str(found[1] or found[2]) if found else text


def _placed(texts: list[str], levels: Sequence[str]) -> tuple[NDArray[np.intp], int]:
    """Place of the level of each text, and last -1; and the number of texts that are no level.

    -1 is of missing values, whose code is -1 as well; of unknown texts the place is after all.
    """
    known = {level: place for place, level in enumerate(levels)}
    counted = [counted_as(text, known) for text in texts]
    places = [-1 if text is None else known.get(text, len(known)) for text in counted]
    return np.array([*places, -1], dtype=np.intp), places.count(len(known))


def _usual(share: float, n_rows: int) -> float:
    """The most unknown texts that are not told: half, or three standard errors above training."""
    return max(_MANY_NEW, share + 3 * float(np.sqrt(share * (1 - share) / max(n_rows, 1))))


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


def _kind(series: pd.Series) -> str:
    """What a column holds; "empty" if all is missing."""
    if not series.notna().any():
        return "empty"
    kind = _kind_of_dtype(series.dtype)
    if kind is None:
        kind = _INFERRED.get(pd.api.types.infer_dtype(series.astype(object), skipna=True))
    if kind is None:
        example = series[series.notna()].iloc[0]
        raise ValueError(
            f"column {series.name!r} should hold numbers, texts, booleans or dates, and one of "
            f"these only; got {series.dtype} values such as {example!r}. Convert or drop the "
            f"column."
        )
    return kind


def _kind_of_dtype(dtype: Any) -> str | None:
    """What the type tells; None if the values have to be looked at."""
    types = pd.api.types
    if isinstance(dtype, (pd.CategoricalDtype, pd.StringDtype)):
        return "category"
    if types.is_bool_dtype(dtype):
        return "boolean"
    if types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype):
        return "number"
    return "date" if types.is_datetime64_any_dtype(dtype) else None


def _numbers(series: pd.Series, kind: str) -> Floats:
    """Numbers, booleans or dates as float64, NaN where missing."""
    if kind == "date":
        return _days(series)
    if series.dtype == object:
        series = series.where(series.notna(), np.nan)
    values = np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    if n_infinite := int(np.isinf(values).sum()):
        raise ValueError(
            f"column {series.name!r} should hold finite numbers, got {n_infinite} infinite. Clip "
            f"them, or make them missing."
        )
    return values


def _days(series: pd.Series) -> Floats:
    """Days since 1970-01-01; a time without a zone is taken to be UTC."""
    if not isinstance(series.dtype, (np.dtype, pd.DatetimeTZDtype)):
        series = series.astype(object)
    moments = pd.to_datetime(series, utc=True).dt.tz_localize(None)
    micro = moments.to_numpy().astype("datetime64[us]")
    return np.where(np.isnat(micro), np.nan, micro.astype(np.int64) / _MICROSECONDS)


def _is_mix(series: pd.Series) -> bool:
    """Whether it is texts, numbers and booleans in one column, each of which is a text."""
    if series.dtype != object or pd.api.types.infer_dtype(series, skipna=True) not in _MIXED:
        return False
    types = set(map(type, series[series.notna()]))
    return all(issubclass(own, (str, Real, Decimal, np.bool_)) for own in types)


_MIXED = ("mixed", "mixed-integer")


def _texts(series: pd.Series) -> tuple[NDArray[np.intp], list[str]]:
    """Code of the text of each row (-1 where missing), and the texts."""
    if _is_mix(series):  # factorize would take True and 1 for one value
        series = series.map(lambda value: _exact_text(value, series.name), na_action="ignore")
    codes, values = pd.factorize(series)
    if pd.api.types.is_float_dtype(values.dtype):
        values = np.asarray(values)  # single precision stays: its 0.1 prints as such
    text_of_value = np.array([_exact_text(value, series.name) for value in values], dtype=object)
    own, texts = pd.factorize(text_of_value)
    return np.append(own, -1)[codes].astype(np.intp), [str(text) for text in texts]


def _exact_text(value: Any, name: Any) -> str:
    """The text of a value, unless it is a float that stands for several whole numbers."""
    if isinstance(value, (float, np.floating)) and np.isfinite(value):
        digits = np.finfo(type(value)).nmant + 1
        if abs(float(value)) >= 2.0**digits:
            raise ValueError(
                f"column {name!r} should hold floats below 2^{digits} where they stand for texts, "
                f"got {float(value)!r}, in which several whole numbers fall together. Convert the "
                f"column to integers or texts where it comes from."
            )
    return level_text(value)


def _category_terms(column: Column) -> list[Term]:
    name = column.name
    terms = [Term("level", name, level, 0.0, f"{name}={level}") for level in column.levels]
    terms += [Term("other", name, None, 0.0, f"{name}: other")] if column.has_other else []
    return terms + (
        [Term("missing", name, None, 0.0, f"{name}: missing")] if column.has_missing else []
    )


def _feature(values: NDArray[Any], term: Term, column: Column) -> NDArray[Any]:
    """One feature from what ``_values`` made of the column."""
    if term.kind == "value":
        return np.where(np.isnan(values), term.fill, values)
    if column.kind != "category":
        return np.isnan(values)
    if term.kind == "missing":
        return np.asarray(values == -1)
    place = len(column.levels) if term.level is None else column.levels.index(term.level)
    return np.asarray(values == place)


def _reasons(dropped: Mapping[str, str]) -> str:
    return "; ".join(
        f"{listed(n for n, why in dropped.items() if why == reason)} {reason}"
        for reason in dict.fromkeys(dropped.values())
    )


def _column(entry: Mapping[str, Any]) -> Column:
    column = Column(**{**entry, "levels": tuple(entry["levels"])})
    texts = [column.name, *column.levels]
    flags = [column.has_other, column.has_missing]
    is_filled = type(column.fill) is float and bool(np.isfinite(column.fill))
    right = all(type(t) is str for t in texts) and all(type(f) is bool for f in flags)
    right = right and type(column.other_share) is float and 0 <= column.other_share <= 1
    if column.kind not in KINDS or not right or is_filled == (column.kind == "category"):
        raise ValueError(f"there is no such column as {column!r}"[:200])
    if len(set(column.levels)) < len(column.levels):
        raise ValueError(f"the levels of {column.name!r} are not different")
    return column


def _term(entry: Mapping[str, Any], columns: tuple[Column, ...]) -> Term:
    term = Term(**entry)
    found = [column for column in columns if column.name == term.column]
    is_level = term.kind in ("level", "other")
    right = (
        len(found) == 1
        and term.kind in TERMS
        and type(term.name) is str
        and type(term.fill) is float
        and bool(np.isfinite(term.fill))
        and (term.kind == "missing" or is_level == (found[0].kind == "category"))
        and (term.level in found[0].levels if term.kind == "level" else term.level is None)
    )
    if not right:
        raise ValueError(f"there is no such term as {term!r}"[:200])
    return term
