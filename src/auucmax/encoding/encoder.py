"""Encode a table of numbers, texts, booleans and dates as features.

Each feature is one *term* of one column, so that the same encoding can be written as SQL, as JSON
or as a graph. A fitted encoder is a list of columns and a list of terms, plain data.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
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
    unknown_columns,
)
from auucmax.encoding.columns import (
    CYCLES,
    MOST_LEVELS,
    Column,
    fold_of,
    means_apart,
    means_of,
    sums_of,
    write_features,
)
from auucmax.encoding.frames import frame_of
from auucmax.encoding.kinds import (
    MISSING_TEXTS,
    are_number_texts,
    code_counts,
    code_places,
    kind_of,
    level_text,
    numbers_of,
    places_of,
    texts_of,
    truths_of,
    unknown_kind,
)

NEW_LEVELS = ("error", "other")
_MANY_NEW = 0.5  # share of unknown texts that a warning names
_BLOCK = 2**12  # rows whose features are written together: their matrix fits into the cache
_SAME_MOMENT = 1e-6  # days: times of two dates that differ by less, in floats, may be the same

# Which kinds of a new table may stand for a kind of the training table.
_TAKES = {
    "number": ("number", "boolean"),
    "boolean": ("boolean", "number", "category", "mixed"),
    "date": ("date",),
    "category": ("category", "number", "boolean", "mixed"),
    "code": ("number", "boolean"),
}
_PLURAL = {
    "number": "numbers", "category": "texts", "date": "dates", "boolean": "booleans",
    "code": "numbers", "mixed": "texts",
}  # fmt: skip
# Which kinds a user may declare as levels, or as quantities.
_DECIDED = {
    "categorical": ("number", "category", "boolean", "mixed"),
    "numeric": ("number", "boolean"),
}


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode a raw table as numeric features (n, p), each a term of one column.

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
      ``min_level_rows`` rows together: fewer do not determine a coefficient.
    * *base* and *effect*: how far the outcome of a level, and the difference of the arms in it, are
      from those of all rows, shrunk as far as chance may explain it; see
      :mod:`auucmax.encoding.columns`. A category has them in the place of *level* and *other* if it
      has more than ``max_levels`` levels, and outcomes and treatment of training are given; of
      these the ones that differ clearly. The 500 most frequent levels have separate numbers, all
      other texts a common one; effects need ``min_level_rows`` rows of each arm. A category whose
      levels have the same outcomes is dropped.

    A column of 3 to 10 different whole numbers that repeat is probably one of *codes*: its values
    are levels, as texts are, and a number that training did not have counts as *other*, or to no
    level. (Treating a quantity as levels costs next to nothing.) ``numeric`` keeps such a column as
    numbers; ``categorical`` treats any other column of numbers as levels.

    Columns are found by name, in any order; further ones are ignored. A missing value in a column
    that had few or none in training becomes the median, or zeros in all levels of a category.
    Columns with one value, or none, are dropped with a warning.

    In a category the texts that mean missing in a CSV file (the empty one, NA, N/A, NaN, nan, NULL,
    null, \\N) are missing, wherever the rows come from. Numbers and booleans stand for texts, mixed
    with them or not: see :func:`auucmax.encoding.kinds.level_text`. A text that has zeros at the
    end of its decimals counts as the same without ("1.0" as "1"; "-0" as "0"), unless it is a level
    itself. Floats of 2^53 and more are an error there: they may stand for several whole numbers.

    Booleans are the same from all files: true, True and TRUE are one text, unless two of them are
    levels, and stand for the boolean in a category; a column that was boolean in training takes
    these texts, and 0 and 1.

    A warning names a category if more than half of its values, and clearly more than in training,
    are no level: its texts are then probably spelt differently.

    Parameters
    ----------
    max_levels : most levels of a category that have a feature each.
    min_level_rows : fewest rows of a level, of all other texts, and of missing values.
    new_levels : what to do with a text that is no level in a category without *other*: "error", or
        "other", which encodes it as zeros. Numbers that are new are never an error.
    categorical : names of columns whose numbers, or booleans, are levels.
    numeric : names of columns whose whole numbers are quantities.

    Attributes
    ----------
    columns_ : tuple of :class:`auucmax.encoding.columns.Column`, in the order of training.
    terms_ : tuple of :class:`auucmax.encoding.columns.Term`, one per feature.
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

    _apart: dict[str, Floats]  # numbers of levels from the rows outside each fold

    # In a pipeline it does not use outcomes: the model after it could not recognise its training
    # rows by the features of ``transform``.
    __metadata_request__fit: ClassVar = {
        "treatment": False,
        "keys": False,
        "weight": False,
    }

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
        self,
        frame: Any,
        y: Any = None,
        treatment: Any = None,
        keys: ArrayLike | None = None,
        weight: Floats | None = None,
    ) -> Self:
        """Learn columns and terms from training rows; row order does not matter.

        Parameters
        ----------
        frame : the rows, columns with names: a frame of pandas or polars, an Arrow table or a
            DuckDB relation, here and in ``transform``.
        y, treatment : (n,) outcome, and 0/1 or boolean, for the terms that are estimated from them;
            without both there are none. Training rows are to be encoded by
            ``fit_transform`` then, others by ``transform``.
        keys : (n,) whole numbers that identify the rows, the same for rows of one household, say.
            Default: their places.
        weight : (n,) weights of the rows for these terms; default: all count as one.
        """
        self._check_parameters()
        table = frame_of(frame)
        names = list(table.columns)
        if not len(table):
            raise ValueError("the table should have rows, got none. Check where it comes from.")
        if unknown := [n for n in (*self.categorical, *self.numeric) if n not in names]:
            raise unknown_columns("the table", unknown, names)
        found = [self._column(table[name]) for name in names]
        dropped = {column.name: column.flaw for column, _ in found if not column.terms}
        reasons = "; ".join(
            f"{listed(name for name, flaw in dropped.items() if flaw == reason)} {reason}"
            for reason in dict.fromkeys(dropped.values())
        )
        if len(dropped) == len(names):
            raise ValueError(
                f"the table should have a column that tells rows apart, got {reasons}. "
                f"Pass more columns or more rows."
            )
        if dropped:
            warnings.warn(
                f"columns should tell rows apart, got {reasons}: dropped. Leave them "
                f"out to silence this.",
                UserWarning,
                stacklevel=2,
            )
        self._set([column for column, _ in found if column.terms], dropped, names)
        if y is not None and treatment is not None:
            outcome = check_column(y, "y", len(table))
            treated = check_treatment(treatment, len(table))
            keys = np.arange(len(table)) if keys is None else np.asarray(keys)
            least = int(self.min_level_rows)
            many: dict[str, tuple[Column, Floats]] = {}
            for column, rarer in found:
                if not rarer:
                    continue
                levels = tuple(sorted((*column.levels, *rarer)))
                column = replace(column, levels=levels, takes_new=True)
                places = self._values(table[column.name], column)
                sums = sums_of(places, len(levels), outcome, treated, keys, weight)
                means = means_of(sums.sum(axis=0), least, clearly=True)
                base, effect = (tuple(map(three_digits, own)) if own.any() else () for own in means)
                if base or effect:
                    n = sums[:, :-1, :, 0].sum(axis=(0, 2))
                    # Rows with other texts, if they are few, have 0, as all rows on average.
                    share = float(n[-1] / n.sum()) if n[-1] >= least else 0.0
                    column = replace(column, base=base, effect=effect, other_share=share)
                else:
                    column = replace(column, levels=(), other_share=1.0)
                many[column.name] = column, sums
            columns = [many[c.name][0] if c.name in many else c for c in self.columns_]
            same = {c.name: "with levels of the same outcomes" for c in columns if not c.terms}
            if len(same) < len(columns):  # a table must have features
                self._set([column for column in columns if column.terms], dropped | same, names)
            self._apart = {
                c.name: means_apart(many[c.name][1], c) for c in self.columns_ if c.outcome_terms
            }
        return self

    def fit_transform(
        self,
        frame: Any,
        y: Any = None,
        treatment: Any = None,
        keys: ArrayLike | None = None,
        weight: Floats | None = None,
    ) -> Floats:
        """Fit, and return the features of the same rows, (n, p).

        Terms that are estimated from outcomes have numbers from rows of other folds, so that no
        row's own outcome is in its features: train models on these. For such a model the rows of
        ``transform`` differ: :func:`auucmax.certify` cannot recognise them.
        """
        return self.fit(frame, y, treatment, keys, weight).training_features(frame, keys)

    def training_features(self, frame: Any, keys: ArrayLike | None = None) -> Floats:
        """Features (n, p) for training, whose outcome terms come from other folds.

        Terms that are estimated from outcomes have numbers from the rows of other folds. ``keys``
        as in ``fit``, the same for each row.
        """
        table = frame_of(frame, [column.name for column in self.columns_])
        return self._features(table, np.arange(len(table)) if keys is None else np.asarray(keys))

    def _check_parameters(self) -> None:
        check_whole(self.max_levels, "max_levels", 1)
        check_whole(self.min_level_rows, "min_level_rows", 1)
        check_choice(self.new_levels, "new_levels", NEW_LEVELS)
        if both := [name for name in self.categorical if name in self.numeric]:
            raise InputError(
                "numeric", "columns that are not also categorical", listed(both), "Decide for one."
            )

    def _column(self, series: pd.Series) -> tuple[Column, list[str]]:
        """Fit a column; for a category also return the levels beyond ``max_levels``."""
        name, n_rows = str(series.name), len(series)
        if series.isna().all():
            return Column(name, "number"), []
        kind = kind_of(series)
        least, most = int(self.min_level_rows), int(self.max_levels)
        decided: bool | None = None  # whether the user wants levels
        for option, kinds in _DECIDED.items():
            if name in getattr(self, option):
                decided = option == "categorical"
                if kind not in kinds:
                    raise ValueError(
                        f"{option} should name columns of other values, got {_PLURAL[kind]} in "
                        f"{name!r}. Leave it out, or convert the column."
                    )
        if kind == "mixed" and not decided:
            raise unknown_kind(series)
        counts: Mapping[Any, int] | None
        if kind == "category" or decided:
            codes, texts = texts_of(series, kind)
            rows = np.bincount(codes[codes >= 0], minlength=len(texts)).tolist()
            counts = {t: n for t, n in zip(texts, rows, strict=True) if t not in MISSING_TEXTS}
            is_code, takes_new = False, kind == "number"
        else:
            values = numbers_of(series, kind)
            present = values[~np.isnan(values)]
            # A median, or a coefficient, of fewer people would reveal them.
            if len(present) < least <= n_rows:
                return Column(name, "number"), []
            counts = None
            if kind == "number" and decided is None:
                counts = code_counts(present, least)
            is_code = takes_new = True
        if counts is None:
            span = float(np.ptp(present))
            cycles = [
                cycle
                for cycle, period in CYCLES.items()
                # Dates span one cycle at least, and fall on different places in it.
                if kind == "date"
                and span >= period
                and np.ptp(np.mod(present, period)) > _SAME_MOMENT
            ]
            return Column(
                name,
                kind,
                has_missing=n_rows - len(present) >= least,
                varies=span > 0,
                fill=three_digits(float(np.median(present, overwrite_input=True))),
                cycles=tuple(cycles),
            ), []
        order = sorted(counts, key=lambda value: (-counts[value], value))
        frequent = [v for v in order[: max(MOST_LEVELS, most)] if counts[v] >= least]
        levels = [str(level) for level in sorted(frequent[:most])]
        places = places_of([str(value) for value in counts], levels)[0][:-1]
        n_other = int(np.array(list(counts.values()), dtype=np.int64)[places == len(levels)].sum())
        n_present = sum(counts.values())
        # Fewer rows with other values, or with none, get no feature, which would reveal them.
        return Column(
            name,
            "code" if is_code else "category",
            tuple(levels),
            has_missing=n_rows - n_present >= least,
            other_share=n_other / n_present if n_other >= least else 0.0,
            takes_new=takes_new or 0 < n_other < least,
        ), [] if is_code else frequent[most:]

    def _set(self, columns: list[Column], dropped: dict[str, str], names: list[str]) -> Self:
        self.columns_ = tuple(columns)
        self.terms_ = tuple(term for column in columns for term in column.terms)
        self.dropped_ = dropped
        self.n_features_in_ = len(names)
        self.feature_names_in_ = np.array(names, dtype=object)
        self._apart = {}
        return self

    @property
    def code_columns(self) -> list[str]:
        """Columns whose whole numbers are treated as categories by default."""
        return [column.name for column in self.columns_ if column.kind == "code"]

    def transform(self, frame: Any) -> Floats:
        """Features (n, p) of a table with the columns of training."""
        check_is_fitted(self, "terms_")
        return self._features(frame_of(frame, [column.name for column in self.columns_]), None)

    def _features(self, table: pd.DataFrame, keys: NDArray[Any] | None) -> Floats:
        """Features of rows; for training rows (``keys``), outcome terms are from other folds."""
        fold = None if keys is None or not self._apart else fold_of(keys)
        parts = []
        first = 0
        for column in self.columns_:
            own = slice(first, first := first + len(column.terms))
            values = self._values(table[column.name], column)
            means = np.empty((len(table), 0))
            if column.outcome_terms and fold is None:
                means = column.means[values]
            elif column.outcome_terms:
                means = self._apart[column.name][fold, values]
            parts.append((own, column, values, means))
        features = np.zeros((len(table), len(self.terms_)))
        # Rows in blocks: a column of the whole matrix is spread over all of its memory.
        for start in range(0, len(table), _BLOCK):
            some = slice(start, start + _BLOCK)
            for own, column, values, means in parts:
                write_features(features[some, own], column, values[some], means[some])
        return features

    def accept(self, frame: Any) -> Self:
        """Accept new categories, encoded as zeros, in the columns where these rows have some.

        For rows held out from ``fit``: a text so rare that only they have it is not an error. No
        feature of any other row changes.
        """
        table, columns = frame_of(frame), []
        for column in self.columns_:
            if column.kind == "category" and not (column.has_other or column.takes_new):
                series = table[column.name]
                new = places_of(texts_of(series, kind_of(series))[1], column.levels)[1]
                column = replace(column, takes_new=bool(new))
            columns.append(column)
        self.columns_ = tuple(columns)
        return self

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Names of the features, (p,)."""
        check_is_fitted(self, "terms_")
        return np.array([term.name for term in self.terms_], dtype=object)

    def to_dict(self) -> dict[str, Any]:
        """The fitted encoder as plain JSON.

        >>> encoder = TableEncoder(min_level_rows=1).fit(pd.DataFrame({"town": ["Oslo", "Rome"]}))
        >>> TableEncoder.from_dict(encoder.to_dict()).terms_ == encoder.terms_
        True
        """
        names = {option: list(getattr(self, option)) for option in _DECIDED}
        return {
            "parameters": self.get_params() | names,
            "columns": [column.to_plain() for column in self.columns_],
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Restore an encoder from ``to_dict``; raise a ValueError for anything else."""
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
        return encoder._set(columns, {}, [column.name for column in columns])

    def _values(self, series: pd.Series, column: Column) -> NDArray[Any]:
        """Values as numbers (NaN where missing) or level codes (-1 where missing)."""
        if series.isna().all():
            return np.full(len(series), -1 if column.has_levels else np.nan)
        kind = kind_of(series)
        if kind not in _TAKES[column.kind]:
            present = series[series.notna()]
            if kind == "mixed":
                raise unknown_kind(series)
            if column.kind not in ("number", "code") or not are_number_texts(present):
                raise _other_kind(column, kind, present.iloc[0])
            series, kind = pd.to_numeric(series), "number"
        if column.kind == "boolean":
            values, unknown = truths_of(series, kind)
            if unknown:
                other = "category" if isinstance(unknown[0], str) else "number"
                raise _other_kind(column, other, unknown[0])
            return values
        if not column.has_levels:
            return numbers_of(series, kind)
        n_levels = len(column.levels)
        if column.kind == "code":
            values = numbers_of(series, kind)
            places = code_places(values, column.levels)
            new = [level_text(value) for value in pd.unique(values[places == n_levels])[:10]]
        else:
            codes, texts = texts_of(series, kind)
            of_text, new = places_of(texts, column.levels)
            places = of_text[codes]
        if not new:
            return places
        rows = int((places == n_levels).sum())
        if not (column.has_other or column.takes_new) and self.new_levels == "error":
            raise InputError(
                f"column {column.name!r}", f"one of the training levels, {listed(column.levels)}",
                f"{listed(new)} in {rows} row{'s' * (rows != 1)}",
                "Correct the values, train again with them, or ignore them by new_levels='other' "
                "(--new-levels other).",
            )  # fmt: skip
        # As many as half are usual, and up to three standard errors more than in training.
        present = int((places >= 0).sum())
        share = column.other_share
        usual = max(_MANY_NEW, share + 3 * float(np.sqrt(share * (1 - share) / max(present, 1))))
        if rows > present * usual:
            warnings.warn(
                f"column {column.name!r} should mostly hold levels of training, "
                f"{listed(column.levels)}; got other values in {rows / present:.0%} of the rows "
                f"that have one: {listed(new)}. Check that they are written as in training.",
                UserWarning,
                stacklevel=5,
            )
        return places


def three_digits(value: float) -> float:
    """Round to three digits, since a median or mean may be the value of one person.

    >>> three_digits(1234.5), three_digits(-0.0098765)
    (1230.0, -0.00988)
    """
    return float(f"{value:.3g}")


def _other_kind(column: Column, kind: str, example: Any) -> ValueError:
    return ValueError(
        f"column {column.name!r} should hold {_PLURAL[column.kind]} as in training, got "
        f"{_PLURAL[kind]} such as {str(example)!r}. Convert the column, or clean these values."
    )
