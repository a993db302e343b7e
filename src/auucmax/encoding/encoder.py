"""A table of numbers, texts, booleans and dates as features of a model, in plain terms.

Each feature is one *term* of one column, so that the same encoding can be written as SQL, as JSON
or as a graph. A fitted encoder is a list of columns and a list of terms, plain data.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from auucmax._errors import InputError
from auucmax._validation import (
    Floats,
    check_choice,
    check_column,
    check_treatment,
    check_whole,
    listed,
    unknown_columns_message,
)
from auucmax.encoding.columns import (
    CYCLES,
    MOST_LEVELS,
    Column,
    LevelSums,
    cycles_of,
    fold_of,
    means_apart,
    means_of,
    sums_of,
    write_features,
)
from auucmax.encoding.frames import frame_of
from auucmax.encoding.kinds import (
    are_codes,
    are_number_texts,
    code_places,
    infinite_numbers,
    kind_of,
    level_text,
    numbers_of,
    places_of,
    several_kinds,
    texts_of,
    truths_of,
    unknown_kind,
)
from auucmax.encoding.summaries import ColumnSummary, Counting, TextCounts, three_digits

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
# Which kinds a user may declare as levels, or as quantities.
_DECIDED = {
    "categorical": ("number", "category", "boolean", "mixed", "empty"),
    "numeric": ("number", "boolean", "empty"),
}


class TableEncoder(TransformerMixin, BaseEstimator):
    """Features from a raw table: (n, p) numbers, each a term of one column.

    * *value*: the number; 0/1 for a boolean; days since 1970-01-01 (UTC, with fractions) for a
      date. A missing value becomes the median of the training rows, to three digits.
    * *missing*: 1 where the value is missing, if ``min_level_rows`` were in training.
    * *sine* and *cosine* of the place of a date in the year (the season), in the week and in the
      day (the time), rounded to 6 digits; 0 where it is missing. A cycle has them if the dates of
      training span one at least and do not all fall on the same place of it: dates without times
      have none of the day.
    * *level*: 1 where the text equals the level. All levels have a feature, none is left out.
    * *other*: 1 where the text is present and no level. It exists if training had rare levels, in
      fewer than ``min_level_rows`` rows or beyond the ``max_levels`` most frequent, and these had
      ``min_level_rows`` rows together: a coefficient tells nothing of fewer.
    * *base* and *effect*: how far the outcome of a level, and the difference of the arms in it, are
      from those of all rows, shrunk as far as chance may explain it; see
      :mod:`auucmax.encoding.columns`. A category has them in the place of *level* and *other* if it
      has more than ``max_levels`` levels, and outcomes and treatment of training are given; of
      these the ones that differ clearly. The 500 most frequent levels have numbers of their own,
      all other texts one together; effects need ``min_level_rows`` rows of each arm. A category
      whose levels have the same outcomes is dropped.

    A column of 3 to 10 different whole numbers that repeat is probably one of *codes*: its values
    are levels, as texts are, and a number that training did not have counts as *other*, or to no
    level. (Levels of what is a quantity cost next to nothing.) ``numeric`` keeps such a column as
    numbers; ``categorical`` takes any other column of numbers for levels, whatever its values.

    Columns are found by name, in any order; further ones are ignored. A missing value in a column
    that had few or none in training becomes the median, or zeros in all levels of a category.
    Columns with one value, or none, are dropped with a warning.

    In a category the texts that a CSV file has for nothing (the empty one, NA, N/A, NaN, nan,
    NULL, null) are missing, wherever the rows come from. Numbers and booleans stand for texts,
    mixed with them or not: see :func:`auucmax.encoding.kinds.level_text`. A text that has
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
    max_levels : most levels of a category that have a feature each.
    min_level_rows : fewest rows of a level, of all other texts, and of missing values.
    new_levels : what to do with a text that is no level in a category without *other*: "error", or
        "other", which makes zeros of it. Numbers that are new are never an error.
    categorical : names of columns whose numbers, or booleans, are levels.
    numeric : names of columns whose whole numbers are quantities.

    Attributes
    ----------
    columns_ : tuple of :class:`auucmax.encoding.columns.Column`, in the order of training.
    terms_ : tuple of :class:`auucmax.encoding.columns.Term`, one a feature.
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

    # In a pipeline it learns nothing from outcomes: the model after it could not tell its rows by
    # the features that ``transform`` makes of them.
    __metadata_request__fit: ClassVar = {"treatment": False, "keys": False}

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

    def fit(
        self, frame: Any, y: Any = None, treatment: Any = None, keys: ArrayLike | None = None
    ) -> Self:
        """Learn columns and terms from training rows, whatever their order.

        Parameters
        ----------
        frame : the rows, columns with names: a frame of pandas or polars, an Arrow table or a
            DuckDB relation, here and in ``transform``.
        y, treatment : (n,) outcome, and 0/1 or boolean, for the terms that are estimated from them;
            without both there are none. Training rows are to be encoded by
            ``fit_transform`` then, others by ``transform``.
        keys : (n,) whole numbers that name the rows, the same for rows of one household, say.
            Default: their places.
        """
        self._fit(frame, y, treatment, keys)
        return self

    def fit_transform(
        self, frame: Any, y: Any = None, treatment: Any = None, keys: ArrayLike | None = None
    ) -> Floats:
        """Learn from rows, as ``fit`` does, and give their features, (n, p).

        Terms that are estimated from outcomes have numbers from rows of other folds, so that no
        row's own outcome is in its features: a model is to learn from these. For it the rows that
        ``transform`` makes are others, and :func:`auucmax.certify` does not tell them.
        """
        table = frame_of(frame)
        return self._features(table, *self._fit(table, y, treatment, keys))

    def _fit(
        self, frame: Any, y: Any, treatment: Any, keys: ArrayLike | None
    ) -> tuple[dict[str, Floats], NDArray[Any]]:
        """Fit; return numbers of the levels outside each fold, and the rows' keys."""
        self._check_parameters()
        table = frame_of(frame)
        if not len(table):
            raise _no_rows()
        found = [ColumnSummary.of(table[name], self.takes_for_levels) for name in table.columns]
        self._learn([self._column(*one) for one in zip(map(str, table), found, strict=True)])
        names = np.arange(len(table)) if keys is None else np.asarray(keys)
        if y is None or treatment is None:
            return {}, names
        outcome = check_column(y, "y", len(table))
        treated = check_treatment(treatment, len(table))
        return self._learn_means(self.level_sums(table, outcome, treated, names)), names

    def fit_rows(self, rows: Any) -> Self:
        """Learn columns and terms from rows, wherever they are: those that ``fit`` learns of them.

        There are one to three readings, more than one if columns hold numbers, and another one for
        a column of more texts than are counted at a time (one for each 32 bytes of
        ``rows.max_bytes``). Of such a column of texts, a level may be missing only if it is rarer
        than one row in half as many as these texts.

        Parameters
        ----------
        rows : :class:`auucmax.rows.Rows` with frames as X.
        """
        self._check_parameters()
        most = max(MOST_LEVELS, int(self.max_levels))
        counting = Counting.first(self.takes_for_levels, rows.names, rows.max_bytes // 32)
        (found,) = rows.total(counting)
        while more := counting.again(found, most, int(self.min_level_rows)):
            (others,) = rows.total(more)
            found = replace(found, columns=found.columns | others.columns)
        if not next(iter(found.columns.values())).n_rows:
            raise _no_rows()
        self._learn([self._column(name, own) for name, own in found.columns.items()])
        return self

    def fit_means(self, rows: Any) -> TrainingEncoder:
        """Learn from the outcomes of rows, wherever they are, and give what encodes these rows.

        ``rows`` are :class:`auucmax.rows.Rows` with frames as X, of which the columns are known.
        One reading, if a column has many levels; none otherwise.
        """
        if not self._many:
            return TrainingEncoder(self, {})
        rows.keep_order()
        (sums,) = rows.total(self._batch_sums)
        return TrainingEncoder(self, self._learn_means(sums))

    def _batch_sums(self, batch: Any) -> LevelSums:
        return self.level_sums(batch.X, batch.y, batch.treated, batch.keys, batch.weight)

    def level_sums(
        self,
        frame: Any,
        y: Floats,
        treated: NDArray[np.bool_],
        keys: NDArray[Any],
        weight: Floats | None = None,
    ) -> LevelSums:
        """Sums of rows for columns of many levels; sums of batches add up."""
        table, found = frame_of(frame), {}
        for column in self._many:
            places = np.empty(0, dtype=np.intp)
            if len(table):
                places = self._values(table[column.name], column)
            found[column.name] = sums_of(places, len(column.levels), y, treated, keys, weight)
        return LevelSums(found)

    def _learn_means(self, sums: LevelSums) -> dict[str, Floats]:
        """Terms of levels by their outcomes; of each column what the rows of other folds tell."""
        found = {
            column.name: self._with_means(column, sums.of[column.name]) for column in self._many
        }
        columns = [found.get(column.name, column) for column in self.columns_]
        dropped = {c.name: "with levels of the same outcomes"
                   for c in columns if not c.terms}  # fmt: skip
        if len(dropped) < len(columns):  # a table must have features
            kept = [column for column in columns if column.terms]
            self._set(kept, self.dropped_ | dropped, list(self.feature_names_in_))
        return {c.name: means_apart(sums.of[c.name], c) for c in self.columns_ if c.outcome_terms}

    def _with_means(self, column: Column, sums: Floats) -> Column:
        """A column of many levels with their outcome terms; one level if they do not differ."""
        total = sums.sum(axis=0)
        # To three digits a number is nobody's.
        base, effect = (
            tuple(three_digits(value) for value in values) if values.any() else ()
            for values in means_of(total, int(self.min_level_rows), clearly=True)
        )
        if not (base or effect):
            return replace(column, levels=(), has_other=True, other_share=1.0)
        n = total[:-1, :, 0].sum(axis=1)
        share = float(n[-1] / n.sum()) if n[-1] >= int(self.min_level_rows) else 0.0
        # Rows with other texts, if they are few, have 0, as all rows on average.
        return replace(column, base=base, effect=effect, has_other=share > 0, other_share=share,
                       takes_new=column.takes_new or n[-1] > 0)  # fmt: skip

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

    def _column(self, name: str, summary: ColumnSummary) -> Column:
        """A fitted column, from its summary."""
        kind, numbers, n_rows = summary.kind(name), summary.numbers, summary.n_rows
        decided = self.takes_for_levels(name, kind)
        if kind == "mixed" and not decided:
            raise several_kinds(name, summary.kinds)
        if kind == "category" or (decided and kind != "empty"):
            texts = TextCounts(0, {}) if summary.texts is None else summary.texts
            return self._column_of_texts(name, texts, n_rows, takes_new=kind == "number")
        least = int(self.min_level_rows)
        if numbers is not None and numbers.n_infinite:
            raise infinite_numbers(name, numbers.n_infinite)
        # A median, or a coefficient, of fewer people would reveal them.
        if numbers is None or not numbers.n or numbers.n < least <= n_rows:
            return Column(name, "number")
        if kind == "number" and decided is None and numbers.few and are_codes(numbers.few, least):
            codes = {int(value): n for value, n in numbers.few.items()}
            return self._column_of_codes(name, codes, n_rows)
        span, *spreads = (numbers.high - numbers.low).tolist()
        cycles = cycles_of(span, dict(zip(CYCLES, spreads, strict=True))) if spreads else ()
        return Column(
            name,
            kind,
            has_missing=n_rows - numbers.n >= least,
            varies=span > 0,
            fill=numbers.bounds[0],
            cycles=cycles,
        )

    def _column_of_texts(
        self, name: str, texts: TextCounts, n_rows: int, *, takes_new: bool
    ) -> Column:
        """A category, by how many of its rows have each text; the others have none."""
        order = self._frequent(texts.counts)
        levels, more = sorted(order[: int(self.max_levels)]), order[int(self.max_levels) :]
        places = places_of(list(texts.counts), levels)[0][:-1]
        rows = np.array(list(texts.counts.values()), dtype=np.int64)
        return Column.of_levels(
            name,
            levels,
            n_other=texts.n - int(rows[places < len(levels)].sum()),
            n_missing=n_rows - texts.n,
            n_rows=n_rows,
            takes_new=takes_new,
            more=more,
            least=int(self.min_level_rows),
        )

    def _column_of_codes(self, name: str, counts: Mapping[int, int], n_rows: int) -> Column:
        """A column of codes, by how many of its rows have each; the others have none."""
        levels = sorted(self._frequent(counts)[: int(self.max_levels)])
        n_present = sum(counts.values())
        return Column.of_levels(
            name,
            map(str, levels),
            n_other=n_present - sum(counts[level] for level in levels),
            n_missing=n_rows - n_present,
            n_rows=n_rows,
            kind="code",
            takes_new=True,
            least=int(self.min_level_rows),
        )

    def _frequent(self, counts: Mapping[Any, int]) -> list[Any]:
        """The values that may be levels, the most frequent first; of equally frequent ones the
        first."""
        order = sorted(counts, key=lambda value: (-counts[value], value))
        most = max(MOST_LEVELS, int(self.max_levels))
        return [value for value in order[:most] if counts[value] >= self.min_level_rows]

    @property
    def code_columns(self) -> list[str]:
        """The columns whose whole numbers are treated as levels by default."""
        return [column.name for column in self.columns_ if column.kind == "code"]

    def _learn(self, columns: list[Column]) -> Self:
        # A median may be the value of one person: to three digits it is nobody's.
        columns = [c if c.fill is None else replace(c, fill=three_digits(c.fill)) for c in columns]
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
                stacklevel=4,
            )
        self._many = tuple(
            replace(c, levels=tuple(sorted((*c.levels, *c.more))), more=(), takes_new=True)
            for c in columns
            if c.more
        )
        kept = [replace(c, more=()) for c in columns if c.name not in dropped]
        return self._set(kept, dropped, names)

    def _set(self, columns: list[Column], dropped: dict[str, str], names: list[str]) -> Self:
        self.columns_ = tuple(columns)
        self.terms_ = tuple(term for column in columns for term in column.terms)
        self.dropped_, self.n_features_in_ = dropped, len(names)
        self.feature_names_in_ = np.array(names, dtype=object)
        return self

    def transform(self, frame: Any) -> Floats:
        """(n, p) features of the rows of a table that has the columns of training."""
        check_is_fitted(self, "terms_")
        table = frame_of(frame, [column.name for column in self.columns_])
        return self._features(table, {}, np.empty(0))

    def column_values(self, frame: Any) -> Floats:
        """(columns, n) a number for each raw column: its value, or the place of its level.

        NaN where it is missing. Of texts that are no level it is the number of levels.

        >>> frame = pd.DataFrame({"age": [30, None, 50], "town": ["Oslo", "Bergen", "Oslo"]})
        >>> TableEncoder(min_level_rows=1).fit(frame).column_values(frame).tolist()
        [[30.0, nan, 50.0], [1.0, 0.0, 1.0]]
        """
        check_is_fitted(self, "terms_")
        table = frame_of(frame, [column.name for column in self.columns_])
        found = np.empty((len(self.columns_), len(table)))
        for own, column in zip(found, self.columns_, strict=True):
            own[:] = self._values(table[column.name], column)
            if column.has_levels:
                own[own < 0] = np.nan
        return found

    def _features(
        self, table: pd.DataFrame, apart: Mapping[str, Floats], keys: NDArray[Any]
    ) -> Floats:
        """``apart``: numbers of levels by fold, and then ``keys`` assign the rows to the folds."""
        fold = fold_of(keys) if apart else None
        parts, first = [], 0
        for column in self.columns_:
            own, means = slice(first, first := first + len(column.terms)), None
            values = self._values(table[column.name], column)
            if column.outcome_terms:
                found = apart.get(column.name)
                means = column.means[values] if found is None else found[fold, values]
            parts.append((own, column, values, means))
        features = np.zeros((len(table), len(self.terms_)))
        # Rows in blocks: a column of the whole matrix is spread over all of its memory.
        for start in range(0, len(table), _BLOCK):
            some = slice(start, start + _BLOCK)
            for own, column, values, means in parts:
                numbers = None if means is None else means[some]
                write_features(features[some, own], column, values[some], numbers)
        return features

    def accept(self, frame: Any) -> Self:
        """Categories take unknown texts from now on where these rows have some: as zeros.

        For rows that were kept from ``fit`` though they were there: a text that is so rare that
        only they have it is no mistake. No feature of any other row changes.
        """
        table, columns = frame_of(frame), []
        for column in self.columns_:
            if column.kind == "category" and not (column.has_other or column.takes_new):
                series = table[column.name]
                new = places_of(texts_of(series, kind_of(series))[1], column.levels)[1]
                column = replace(column, takes_new=True) if new else column
            columns.append(column)
        self.columns_ = tuple(columns)
        return self

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Printed names of the features, (p,)."""
        check_is_fitted(self, "terms_")
        return np.array([term.name for term in self.terms_], dtype=object)

    def to_dict(self) -> dict[str, Any]:
        """The fitted encoder as plain JSON.

        >>> encoder = TableEncoder(min_level_rows=1).fit(pd.DataFrame({"town": ["Oslo", "Rome"]}))
        >>> TableEncoder.from_dict(encoder.to_dict()).terms_ == encoder.terms_
        True
        """
        check_is_fitted(self, "terms_")
        names = {option: list(getattr(self, option)) for option in _DECIDED}
        return {
            "parameters": self.get_params() | names,
            "columns": [column.to_plain() for column in self.columns_],
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """The encoder that ``to_dict`` wrote; anything else is a ValueError."""
        try:
            given = plain["parameters"]
            encoder = cls(**(given | {option: tuple(given[option]) for option in _DECIDED}))
            encoder._check_parameters()
            columns = [Column.of_plain(entry) for entry in plain["columns"]]
            if not columns or len({c.name for c in columns}) < len(columns):
                raise ValueError("there should be columns, with different names")
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise ValueError(
                f"an encoder should be what to_dict returns, got something else ({error}). "
                f"Save it again."
            ) from error
        encoder._many = ()
        return encoder._set(columns, {}, [column.name for column in columns])

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
            raise InputError(
                f"column {column.name!r}", f"one of the training levels, {listed(column.levels)}",
                f"{listed(new)} in {rows} row{'s' * (rows != 1)}",
                "Correct the values, train again with them, or set new levels to 'other', which "
                "ignores them.",
            )  # fmt: skip
        _tell_many_new(column, rows, present, new)
        return places


@dataclass(frozen=True)
class TrainingEncoder:
    """Encodes training rows: a step of rows, from batch to batch.

    Numbers of levels come from the rows of other folds, ``apart``.
    """

    encoder: TableEncoder
    apart: Mapping[str, Floats]

    def __call__(self, batch: Any) -> Any:
        if not len(batch.y):
            return batch
        table = frame_of(batch.X, [column.name for column in self.encoder.columns_])
        return batch._replace(X=self.encoder._features(table, self.apart, batch.keys))


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
            stacklevel=7,
        )


def _other_kind(column: Column, kind: str, example: Any) -> ValueError:
    shown = repr(example) if isinstance(example, str) else str(example)
    return ValueError(
        f"column {column.name!r} should hold {_PLURAL[column.kind]} as in training, got "
        f"{_PLURAL[kind]} such as {shown}. Convert the column, or clean these values."
    )


def _no_rows() -> ValueError:
    return ValueError("the table should have rows, got none. Check where it comes from.")


def listed_kinds(kinds: Iterable[str]) -> str:
    """Kinds of columns in words."""
    return ", ".join(dict.fromkeys(_PLURAL[kind] for kind in kinds if kind != "empty"))


def _reasons(dropped: Mapping[str, str]) -> str:
    return "; ".join(
        f"{listed(n for n, why in dropped.items() if why == reason)} {reason}"
        for reason in dict.fromkeys(dropped.values())
    )
