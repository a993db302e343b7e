"""A table of numbers, texts, booleans and dates as features of a model, in plain terms.

Each feature is one *term* of one column, so that the same encoding can be written as SQL, as JSON
or as a graph: the value of a number, 1 where it is missing, 1 where a text equals a level, 1 where
it is another text. What was learnt is a list of columns and a list of terms, plain data.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from auucmax._validation import Floats, check_choice, check_whole, listed
from auucmax.data.level_texts import (
    counted_as,
    is_mix,
    level_text,
    places_of,
    texts_of,
    truth_slow,
    truths,
)
from auucmax.data.table_errors import unknown_columns_message
from auucmax.data.text_types import MISSING_TEXTS
from auucmax.estimators.column_kinds import kind_of, numbers_of
from auucmax.estimators.column_summary import ColumnSummary, learn_column
from auucmax.estimators.table_terms import Column, Term, column_of, term_of

__all__ = ["Column", "TableEncoder", "Term", "encode_slow", "text_names"]

NEW_LEVELS = ("error", "other")
_MANY_NEW = 0.5  # share of unknown texts that is told

# Which kinds of a new table may stand for a kind of the training table.
_TAKES = {
    "number": ("number", "boolean"),
    "boolean": ("boolean", "number", "category"),
    "date": ("date",),
    "category": ("category", "number", "boolean"),
}


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
    mixed with them or not: see :func:`auucmax.data.level_texts.level_text`. A text that has
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
        self._check_parameters()
        table = _table(frame)
        if not len(table):
            raise ValueError("the table should have rows, got none. Check where it comes from.")
        return self._learn([self._summarise(table[name]) for name in table.columns])

    def fit_summaries(self, summaries: Sequence[ColumnSummary]) -> Self:
        """As ``fit``, from what is to be known of each column: for rows that are elsewhere."""
        self._check_parameters()
        return self._learn(summaries)

    def _learn(self, summaries: Sequence[ColumnSummary]) -> Self:
        columns, terms, dropped = [], [], {}
        for summary in summaries:
            column, its_terms, reason = learn_column(summary)
            if its_terms:
                columns.append(column)
                terms.extend(its_terms)
            else:
                dropped[summary.name] = reason
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
                stacklevel=3,
            )
        self.columns_, self.terms_, self.dropped_ = tuple(columns), tuple(terms), dropped
        self.n_features_in_ = len(summaries)
        self.feature_names_in_ = np.array([summary.name for summary in summaries], dtype=object)
        return self

    def _check_parameters(self) -> None:
        check_whole(self.max_levels, "max_levels", 1)
        check_whole(self.min_level_rows, "min_level_rows", 1)
        check_choice(self.new_levels, "new_levels", NEW_LEVELS)

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
                _, n_new = places_of(texts_of(table[column.name])[1], column.levels)
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
            encoder._check_parameters()
            columns = tuple(column_of(entry) for entry in plain["columns"])
            terms = tuple(term_of(entry, columns) for entry in plain["terms"])
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

    def _summarise(self, series: pd.Series) -> ColumnSummary:
        name, kind, n_rows = str(series.name), kind_of(series), len(series)
        if kind == "category":
            return self._summarise_category(series)
        if kind == "empty":
            return ColumnSummary(name, kind, n_rows, n_rows)
        values = numbers_of(series, kind)
        present = values[~np.isnan(values)]
        fill, n_missing = float(np.median(present)), int(series.isna().sum())
        return ColumnSummary(
            name, kind, n_rows, n_missing, fill=fill, differ=bool(np.ptp(present) > 0)
        )

    def _summarise_category(self, series: pd.Series) -> ColumnSummary:
        codes, texts = texts_of(series)
        counts = np.bincount(codes[codes >= 0], minlength=len(texts))
        present = [
            pair for pair in zip(-counts, texts, strict=True) if pair[1] not in MISSING_TEXTS
        ]
        frequent = sorted(present)[: int(self.max_levels)]
        levels = sorted(text for minus, text in frequent if -minus >= self.min_level_rows)
        places = places_of(texts, levels)[0][codes]
        n_other, n_missing = int((places == len(levels)).sum()), int((places == -1).sum())
        return ColumnSummary(
            str(series.name), "category", len(places), n_missing, tuple(levels), n_other
        )

    def _values(self, series: pd.Series, column: Column) -> NDArray[Any]:
        """Numbers (NaN where missing); of a category the place of the level, -1 where missing."""
        is_texts = column.kind in ("category", "boolean") and is_mix(series)
        kind = "category" if is_texts else kind_of(series)
        if kind == "empty":
            empty = np.nan if column.kind != "category" else -1
            return np.full(len(series), empty)
        if kind not in _TAKES[column.kind]:
            raise _other_kind(column, kind, series[series.notna()].iloc[0])
        if column.kind == "category":
            return self._places(series, column)
        return (
            _truths(series, column, kind) if column.kind == "boolean" else numbers_of(series, kind)
        )

    def _places(self, series: pd.Series, column: Column) -> NDArray[np.intp]:
        codes, texts = texts_of(series)
        place_of_text, n_new = places_of(texts, column.levels)
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


def _other_kind(column: Column, kind: str, example: Any) -> ValueError:
    return ValueError(
        f"column {column.name!r} should hold {_PLURAL[column.kind]} as in training, got "
        f"{_PLURAL[kind]} such as {example!r}. Convert the column, or clean these values."
    )


def _truths(series: pd.Series, column: Column, kind: str) -> Floats:
    """0 and 1 of booleans, of these numbers, or of the texts that files have for booleans."""
    if kind == "category":
        values, unknown = truths(series)
        if unknown:
            raise _other_kind(column, kind, unknown[0])
        return values
    values = numbers_of(series, kind)
    if not np.isin(values[~np.isnan(values)], (0, 1)).all():
        raise ValueError(
            f"column {column.name!r} should hold booleans or 0/1 as in training, got other "
            f"numbers. Convert the column."
        )
    return values


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
            return term.fill if missing else _number_slow(value)
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
