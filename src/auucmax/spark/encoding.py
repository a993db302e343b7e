"""A table encoder that is fitted where the rows are: from counts, never from the rows themselves.

Medians are exact. Numbers are counted in bins of the order that their bits have; the bin of the
middle one is cut again, until it holds a single value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._validation import Floats
from auucmax.data.level_texts import arm_text, places_of, texts_of
from auucmax.data.table_errors import TableError
from auucmax.data.text_types import MISSING_TEXTS
from auucmax.estimators.column_kinds import numbers_of
from auucmax.estimators.column_summary import ColumnSummary
from auucmax.estimators.table_encoder import TableEncoder
from auucmax.rows import Batch, Rows
from auucmax.spark.frame import quoted
from auucmax.spark.rows import MAX_BYTES, SparkRows, TableRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["fit_encoder", "needs_encoder"]

Keys = NDArray[np.uint64]
MAX_ARMS = 10_000  #: different values of a treatment whose arms are named


def needs_encoder(df: DataFrame, columns: Sequence[str]) -> bool:
    """Whether some columns are not numbers."""
    return any(kind not in ("number", "boolean") for kind in _kinds(df, columns).values())


def _kinds(df: DataFrame, columns: Sequence[str]) -> dict[str, str]:
    """What the columns hold, in the encoder's words, by their Spark types."""
    from pyspark.sql import types

    kinds = {
        "number": (types.NumericType,),
        "boolean": (types.BooleanType,),
        "date": (types.DateType, types.TimestampType, types.TimestampNTZType),
        "category": (types.StringType,),
    }
    found = {}
    for field in df.select(*map(quoted, columns)).schema.fields:
        kind = [name for name, known in kinds.items() if isinstance(field.dataType, known)]
        if not kind:
            raise TableError(
                f"column {field.name!r} should hold numbers, texts, booleans or dates, got "
                f"{field.dataType.simpleString():.50}. Convert or drop the column."
            )
        found[field.name] = kind[0]
    return found


def fit_encoder(rows: SparkRows, encoder: TableEncoder) -> TableEncoder:
    """The encoder, fitted to the raw columns of ``rows``: equal to one that is fitted in memory.

    One job for the levels of texts, one for the values of arms that are named, and one to six for
    the medians of numbers.
    """
    reading = rows.reading
    if not isinstance(reading, TableRows) or not reading.raw:
        raise TypeError("the rows should have raw columns, got columns of features.")
    kinds = _kinds(rows.frame, reading.raw)
    levels = _levels(_of_arms(rows.frame, reading), kinds, encoder)
    values = RawValues(kinds, levels)
    source = rows.map(values, tuple(kinds))
    numbers = [k for k, kind in enumerate(kinds.values()) if kind != "category"]
    (places, counts) = source.total(
        partial(_place_counts, n_places=2 + max(map(len, levels.values()), default=0)),
        partial(_KeyCounts.of, columns=numbers, brackets=[(0, 2**64 - 1)] * len(numbers)),
    )
    medians = _medians(source, numbers, counts)
    n_rows = int(places[0].sum())
    summaries = []
    for k, (name, kind) in enumerate(kinds.items()):
        if kind == "category":
            own = levels[name]
            n_missing, n_other = int(places[k, 0]), int(places[k, 1 + len(own)])
            summaries.append(ColumnSummary(name, kind, n_rows, n_missing, own, n_other))
        else:
            j = numbers.index(k)
            n_missing = n_rows - int(counts.counts[j].sum())
            low, high = counts.ends(j)
            summaries.append(
                ColumnSummary(name, kind, n_rows, n_missing, fill=medians[j], differ=low < high)
            )
    return encoder.fit_summaries(summaries)


def _of_arms(frame: DataFrame, reading: TableRows) -> DataFrame:
    """The rows of the two arms, by the values that have their texts: one job."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import FloatType

    arms = reading.of_arms
    if arms.treated is None:
        return frame
    column = frame.select(F.col(quoted(arms.treatment)).alias("arm"))
    found = column.where("arm is not null").distinct().limit(MAX_ARMS + 1).collect()
    if len(found) > MAX_ARMS:
        raise TableError(
            f"the column {arms.treatment!r} should name the arms, got more than {MAX_ARMS:,} "
            f"different values. Check that it is the treatment."
        )
    # Python has one kind of floats; the text of a single one is of its own digits.
    single = isinstance(column.schema[0].dataType, FloatType)
    texts = {row.arm: arm_text(np.float32(row.arm) if single else row.arm) for row in found}
    ours = [value for value, text in texts.items() if text in (arms.treated, arms.control)]
    return frame.where(F.col(quoted(arms.treatment)).isin(ours))


def _levels(
    frame: DataFrame, kinds: Mapping[str, str], encoder: TableEncoder
) -> dict[str, tuple[str, ...]]:
    """The most frequent texts of each category, counted and cut by Spark itself."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    names = [name for name, kind in kinds.items() if kind == "category"]
    if not names:
        return {}
    texts = frame.unpivot([], [F.col(quoted(name)) for name in names], "column", "text")
    known = texts.where(F.col("text").isNotNull() & ~F.col("text").isin(*MISSING_TEXTS))
    counts = known.groupBy("column", "text").count()
    order = Window.partitionBy("column").orderBy(F.col("count").desc(), F.col("text"))
    found = (
        counts.where(F.col("count") >= int(encoder.min_level_rows))
        .withColumn("place", F.row_number().over(order))
        .where(F.col("place") <= int(encoder.max_levels))
        .collect()
    )
    return {
        name: tuple(sorted(row["text"] for row in found if row["column"] == name)) for name in names
    }


@dataclass(frozen=True)
class RawValues:
    """A raw table as (m, c) numbers, NaN where missing; of a category the place of the level.

    The place after all levels is that of other texts, -1 that of missing ones.
    """

    kinds: Mapping[str, str]
    levels: Mapping[str, tuple[str, ...]]

    def __call__(self, frame: pd.DataFrame) -> Floats:
        columns = [self._column(frame[name], kind) for name, kind in self.kinds.items()]
        return np.column_stack(columns).astype(np.float64)

    def _column(self, series: pd.Series, kind: str) -> NDArray[Any]:
        if kind != "category":
            return numbers_of(series, kind)
        codes, texts = texts_of(series)
        return places_of(texts, self.levels[str(series.name)])[0][codes]


def _place_counts(batch: Batch, n_places: int) -> NDArray[np.int64]:
    """Number of rows of each column at the places -1, 0, ...; (c, n_places)."""
    counts = np.zeros((batch.X.shape[1], n_places), dtype=np.int64)
    for k, column in enumerate(batch.X.T):
        places = np.clip(np.nan_to_num(column, nan=-1), -1, n_places - 2).astype(np.int64)
        counts[k] = np.bincount(places + 1, minlength=n_places)
    return counts


@dataclass(frozen=True, eq=False)
class _KeyCounts:
    """Numbers of each of c columns in B bins of their keys, and each bin's extreme keys; (c, B)."""

    counts: NDArray[np.int64]
    low: Keys
    high: Keys

    @classmethod
    def of(
        cls, batch: Batch, columns: Sequence[int], brackets: Sequence[tuple[int, int]]
    ) -> _KeyCounts:
        """Of the keys inside the brackets, which are cut into bins of equal width."""
        n_bits = int(np.clip(np.log2(MAX_BYTES / (24 * max(len(columns), 1))), 4, 14))
        shape = len(columns), 2**n_bits
        result = cls(
            np.zeros(shape, dtype=np.int64),
            np.full(shape, 2**64 - 1, dtype=np.uint64),
            np.zeros(shape, dtype=np.uint64),
        )
        for j, (k, (low, high)) in enumerate(zip(columns, brackets, strict=True)):
            keys = np.sort(_keys(batch.X[:, k]))
            inside = keys[
                np.searchsorted(keys, np.uint64(low)) : np.searchsorted(
                    keys, np.uint64(high), side="right"
                )
            ]
            shift = max((high - low).bit_length() - n_bits, 0)
            bins = ((inside - np.uint64(low)) >> np.uint64(shift)).astype(np.int64)
            filled, first, count = np.unique(bins, return_index=True, return_counts=True)
            result.counts[j, filled] = count
            result.low[j, filled] = inside[first]
            result.high[j, filled] = inside[first + count - 1]
        return result

    def __add__(self, other: _KeyCounts) -> _KeyCounts:
        return _KeyCounts(
            self.counts + other.counts,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )

    def ends(self, column: int) -> tuple[int, int]:
        return int(self.low[column].min()), int(self.high[column].max())

    def middle(self, column: int, rank: int) -> tuple[int, int, int]:
        """Keys of the two numbers at rank / 2, rounded down and up, or what encloses them.

        The third number is how many keys come before; -1 if the keys are the numbers' own.
        """
        upto = np.cumsum(self.counts[column])
        lower, upper = (
            int(np.searchsorted(upto, r, side="right")) for r in (rank // 2, -(-rank // 2))
        )
        if lower != upper:  # they are neighbours: the last of a bin, and the first of the next
            return int(self.high[column, lower]), int(self.low[column, upper]), -1
        low, high = int(self.low[column, lower]), int(self.high[column, lower])
        before = int(upto[lower] - self.counts[column, lower])
        return low, high, -1 if low == high else before


def _medians(source: Rows, columns: Sequence[int], counts: _KeyCounts) -> list[float | None]:
    """Median of each column; None where all is missing."""
    medians: list[float | None] = [None] * len(columns)
    n_present = counts.counts.sum(axis=1)
    # Twice the place of the median among the keys of the bracket that is looked at.
    ranks = {j: int(n) - 1 for j, n in enumerate(n_present) if n}
    places = {j: j for j in ranks}
    while ranks:
        brackets = {}
        for j in list(ranks):
            low, high, before = counts.middle(places[j], ranks[j])
            if before < 0:
                medians[j] = float(np.median([_number(key) for key in {low, high}]))
                del ranks[j]
            else:
                brackets[j], ranks[j] = (low, high), ranks[j] - 2 * before
        if not ranks:
            break
        places = {j: place for place, j in enumerate(ranks)}
        (counts,) = source.total(
            partial(
                _KeyCounts.of,
                columns=[columns[j] for j in ranks],
                brackets=[brackets[j] for j in ranks],
            )
        )
    return medians


def _keys(values: Floats) -> Keys:
    """Whole numbers in the order of the values, without missing ones: of a float, its bits.

    >>> np.argsort(_keys(np.array([2.0, -1.0, 0.5, -3.0]))).tolist()
    [3, 1, 2, 0]
    """
    bits = (values[~np.isnan(values)] + 0.0).view(np.uint64)  # 0.0 and -0.0 are one number
    top = np.uint64(2**63)
    return np.where(bits & top, ~bits, bits | top)


def _number(key: int) -> np.float64:
    """The value of a key."""
    bits = np.array([key - 2**63 if key >= 2**63 else 2**64 - 1 - key], dtype=np.uint64)
    return np.float64(bits.view(np.float64)[0])
