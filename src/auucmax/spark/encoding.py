"""What a table encoder learns, counted by Spark where the rows are: equal to what memory gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from auucmax.data.table_errors import TableError
from auucmax.encoding.encoder import Column, TableEncoder
from auucmax.encoding.kinds import infinite_numbers
from auucmax.encoding.texts import END_ZEROS, MISSING_TEXTS, arm_text, other_spellings
from auucmax.rows.arrow import CHECK_ARMS, ArrowColumns
from auucmax.spark.frame import NAME, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

MAX_ARMS = 10_000  #: different values of a treatment whose arms are named
ACCURACY = 10_000  #: a median is first known to one rank in so many


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


def fit_encoder(
    df: DataFrame, columns: Sequence[str], encoder: TableEncoder, arms: ArrowColumns
) -> TableEncoder:
    """The encoder, fitted to the columns of the rows of both arms: equal to one fitted in memory.

    At most four jobs: the values of arms that are named, the levels of texts, the counts of all
    columns with near quantiles, and the exact medians of numbers.
    """
    from pyspark.sql import functions as F

    kinds = _kinds(df, columns)
    frame = _rows_of_arms(df, arms)
    levels = _levels(frame, kinds, encoder)
    numbers = [name for name, kind in kinds.items() if kind != "category"]
    parts = [_number(df, name).alias(f"x{k}") for k, name in enumerate(numbers)]
    parts += [F.col(quoted(name)).alias(f"t{k}") for k, name in enumerate(levels)]
    rows = frame.select(*parts)
    wanted = [F.count(F.lit(1)).alias("n")]
    for k in range(len(numbers)):
        wanted += [F.struct(*_summaries(F.col(f"x{k}"))).alias(f"x{k}")]
    for k, own in enumerate(levels.values()):
        wanted += [F.struct(*_text_counts(F.col(f"t{k}"), own)).alias(f"t{k}")]
    found = rows.agg(*wanted).collect()[0]
    if not found.n:
        raise TableError(f"{NAME} should have rows of the two arms, got none. {CHECK_ARMS}")
    for k, name in enumerate(numbers):
        if n_infinite := found[f"x{k}"].n_infinite:
            raise infinite_numbers(name, n_infinite)
    medians = _medians(rows, {f"x{k}": found[f"x{k}"] for k in range(len(numbers))})
    learnt = {}
    for k, (name, own) in enumerate(levels.items()):
        counts = found[f"t{k}"].asDict()
        learnt[name] = Column.of_texts(name, own, n_rows=found.n, **counts)
    for k, name in enumerate(numbers):
        summary = found[f"x{k}"]
        learnt[name] = Column(
            name,
            kinds[name] if summary.n else "number",
            has_missing=summary.n < found.n,
            varies=summary.low != summary.high,
            fill=medians.get(f"x{k}"),
        )
    return encoder.fit_columns([learnt[name] for name in kinds])


def _rows_of_arms(df: DataFrame, arms: ArrowColumns) -> DataFrame:
    """The rows of the two arms, by the values that have their texts: one job."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import FloatType

    if arms.treated is None:
        return df
    column = df.select(F.col(quoted(arms.treatment)).alias("arm"))
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
    return df.where(F.col(quoted(arms.treatment)).isin(ours))


def _levels(
    frame: DataFrame, kinds: Mapping[str, str], encoder: TableEncoder
) -> dict[str, tuple[str, ...]]:
    """The most frequent texts of each category, counted and cut by Spark itself: one job."""
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


def _text_counts(text: SparkColumn, levels: Sequence[str]) -> list[SparkColumn]:
    """Numbers of missing values, and of texts that count as none of the levels."""
    from pyspark.sql import functions as F

    is_missing = text.isNull() | text.isin(*MISSING_TEXTS)
    # As encoding.texts.counted_as: a level, a boolean in another spelling, zeros at the end.
    without_zeros = F.regexp_replace(text, rf"\A(?:{END_ZEROS})\z", "$1$2$3$4")
    known = text.isin(*levels, *other_spellings(levels)) | without_zeros.isin(*levels)
    return [
        F.count_if(is_missing).alias("n_missing"),
        F.count_if(~is_missing & ~known).alias("n_other"),
    ]


def _number(df: DataFrame, name: str) -> SparkColumn:
    """A column of numbers, booleans or dates as doubles; null where missing."""
    from pyspark.sql import functions as F
    from pyspark.sql import types

    column, kind = F.col(quoted(name)), df.select(quoted(name)).schema[0].dataType
    if isinstance(kind, types.DateType):
        return F.unix_date(column).cast("double")
    if isinstance(kind, types.TimestampNTZType):  # taken to be UTC, whatever the session's zone
        column = F.concat(column.cast("string"), F.lit("Z")).cast("timestamp")
    if isinstance(kind, (types.TimestampType, types.TimestampNTZType)):
        return F.unix_micros(column) / F.lit(86_400e6)
    number = column.cast("double")
    return F.when(~F.isnan(number), number)


def _summaries(x: SparkColumn) -> list[SparkColumn]:
    """What one reading tells of a column of numbers; ``near`` encloses its median."""
    from pyspark.sql import functions as F

    margin = 3 / ACCURACY
    near = F.percentile_approx(x, [0.5 - margin, 0.5 + margin], ACCURACY)
    is_infinite = F.abs(x) == float("inf")
    return [
        F.count(x).alias("n"),
        F.count_if(is_infinite).alias("n_infinite"),
        F.min(x).alias("low"),
        F.max(x).alias("high"),
        near.alias("near"),
    ]


def _medians(rows: DataFrame, summaries: Mapping[str, Any]) -> dict[str, float]:
    """The exact median of each column that has values: one job.

    The values near the middle are few, so that they can be fetched and sorted, once it is known how
    many there are below.
    """
    from pyspark.sql import functions as F

    ends = {
        # Of few rows all: then the two in the middle may lie outside of the near quantiles.
        name: (own.low, own.high) if own.n < ACCURACY else tuple(own.near)
        for name, own in summaries.items()
        if own.n
    }
    wanted = []
    for name, (low, high) in ends.items():
        x = F.col(name)
        inside = F.collect_list(F.when((x > low) & (x < high), x))
        counts = F.count_if(x < low).alias("below"), F.count_if(x == low).alias("lowest")
        highest = F.count_if(x == high).alias("highest")
        wanted.append(F.struct(*counts, highest, inside.alias("inside")).alias(name))
    if not wanted:
        return {}
    found = rows.agg(*wanted).collect()[0]
    medians = {}
    for name, (low, high) in ends.items():
        own, n = found[name], summaries[name].n
        values = [low] * own.lowest + sorted(own.inside) + [high] * own.highest * (low < high)
        first, second = (n - 1) // 2 - own.below, n // 2 - own.below
        if first < 0 or second >= len(values):  # the quantiles were not as near as they should be
            medians[name] = float(rows.agg(F.median(name)).collect()[0][0])
        else:
            medians[name] = float(np.median([values[first], values[second]]))
    return medians
