"""What a table encoder learns, counted by Spark where the rows are: equal to what memory gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from auucmax.data.table_errors import TableError
from auucmax.encoding.columns import CYCLES, MOST_LEVELS, Column, cycles_of
from auucmax.encoding.encoder import TableEncoder
from auucmax.encoding.kinds import (
    END_ZEROS,
    MISSING_TEXTS,
    MOST_CODES,
    are_codes,
    arm_text,
    infinite_numbers,
    level_text,
    other_spellings,
)
from auucmax.rows.arrow import CHECK_ARMS, ArrowColumns
from auucmax.spark.rows import NAME, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

#: Different values of a treatment whose arms are named, and of numbers that are levels.
MAX_VALUES = 10_000
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

    At most five jobs: the values of arms that are named, the levels of texts, the counts of all
    columns with near quantiles, the values of columns that have few of them, and the exact medians
    of numbers; and one for each column of numbers that the user takes for levels.
    """
    from pyspark.sql import functions as F

    kinds = _kinds(df, columns)
    decided = {name: encoder.takes_for_levels(name, kind) for name, kind in kinds.items()}
    frame = _rows_of_arms(df, arms)
    texts = _frequent_texts(frame, kinds, encoder)
    most = int(encoder.max_levels)
    levels = {name: tuple(sorted(own[:most])) for name, own in texts.items()}
    valued = [name for name in kinds if decided[name] and name not in levels]
    numbers = [name for name in kinds if name not in levels and name not in valued]
    parts = [_number(df, name).alias(f"x{k}") for k, name in enumerate(numbers)]
    parts += [F.col(quoted(name)).alias(f"t{k}") for k, name in enumerate(levels)]
    rows = frame.select(*parts)
    wanted = [F.count(F.lit(1)).alias("n")]
    for k in range(len(numbers)):
        is_date = kinds[numbers[k]] == "date"
        wanted += [F.struct(*_summaries(F.col(f"x{k}"), is_date)).alias(f"x{k}")]
    for k, own in enumerate(levels.values()):
        wanted += [F.struct(*_text_counts(F.col(f"t{k}"), own)).alias(f"t{k}")]
    found = rows.agg(*wanted).collect()[0]
    if not found.n:
        raise TableError(f"{NAME} should have rows of the two arms, got none. {CHECK_ARMS}")
    learnt = _columns_of_values(df, frame, valued, encoder, found.n)
    for k, (name, own) in enumerate(levels.items()):
        counts = found[f"t{k}"].asDict()
        more = texts[name][most:]
        learnt[name] = Column.of_levels(
            name, own, n_rows=found.n, more=more, least=int(encoder.min_level_rows), **counts
        )
    summaries = {name: found[f"x{k}"] for k, name in enumerate(numbers)}
    undecided = [n for n in numbers if kinds[n] == "number" and decided[n] is None]
    learnt |= _numeric_columns(rows, summaries, undecided, encoder, found.n, kinds)
    return encoder.fit_columns([learnt[name] for name in kinds])


def _numeric_columns(
    rows: DataFrame,
    summaries: Mapping[str, Any],
    undecided: Sequence[str],
    encoder: TableEncoder,
    n_rows: int,
    kinds: Mapping[str, str],
) -> dict[str, Column]:
    """Columns of numbers, booleans and dates, x0, x1, ... of ``rows``; some may hold codes."""
    places = {name: f"x{k}" for k, name in enumerate(summaries)}
    for name, summary in summaries.items():
        if summary.n_infinite:
            raise infinite_numbers(name, summary.n_infinite)
    # The estimate of so few different values is never too large.
    few = [name for name in undecided if summaries[name].n_about <= MOST_CODES]
    counts = _counts_of_few(rows, [places[name] for name in few])
    learnt = {
        name: encoder.column_of_codes(name, {int(v): n for v, n in own.items()}, n_rows)
        for name in few
        if are_codes(own := counts[places[name]], int(encoder.min_level_rows))
    }
    others = {name: own for name, own in summaries.items() if name not in learnt}
    medians = _medians(rows, {places[name]: own for name, own in others.items()})
    return learnt | {
        name: Column(
            name,
            kinds[name] if own.n else "number",
            has_missing=n_rows - own.n >= int(encoder.min_level_rows),
            varies=own.low != own.high,
            fill=medians.get(places[name]),
            cycles=_cycles(own) if own.n and kinds[name] == "date" else (),
        )
        for name, own in others.items()
    }


def _cycles(summary: Any) -> tuple[str, ...]:
    """The cycles that the dates of a column tell."""
    spreads = {cycle: summary[f"last_{cycle}"] - summary[f"first_{cycle}"] for cycle in CYCLES}
    return cycles_of(summary.high - summary.low, spreads)


def _columns_of_values(
    df: DataFrame, frame: DataFrame, names: Sequence[str], encoder: TableEncoder, n_rows: int
) -> dict[str, Column]:
    """Numbers and booleans that the user takes for levels, by the texts of their values."""
    from pyspark.sql.types import FloatType, NumericType

    fields = [df.select(quoted(name)).schema[0].dataType for name in names]
    learnt = {}
    for name, field in zip(names, fields, strict=True):
        texts: dict[str, int] = {}
        for value, n in _value_counts(frame, name):
            # As in _rows_of_arms: the text of a single float is of its own digits.
            text = level_text(np.float32(value) if isinstance(field, FloatType) else value)
            texts[text] = texts.get(text, 0) + n
        learnt[name] = encoder.column_of_texts(
            name, texts, n_rows, takes_new=isinstance(field, NumericType)
        )
    return learnt


def _counts_of_few(rows: DataFrame, names: Sequence[str]) -> dict[str, dict[float, int]]:
    """Rows of each value, of columns of numbers that have few different ones: one job."""
    from pyspark.sql import functions as F

    counts: dict[str, dict[float, int]] = {name: {} for name in names}
    if names:
        cells = rows.unpivot([], [F.col(name) for name in names], "column", "value")
        known = cells.where(F.col("value").isNotNull())
        for row in known.groupBy("column", "value").count().collect():
            counts[row["column"]][row["value"]] = row["count"]
    return counts


def _value_counts(frame: DataFrame, name: str) -> list[tuple[Any, int]]:
    """The values of a column that are there, and the rows of each: one job."""
    from pyspark.sql import functions as F

    values = frame.groupBy(F.col(quoted(name)).alias("value")).count()
    found = values.limit(MAX_VALUES + 1).collect()
    if len(found) > MAX_VALUES:
        raise TableError(
            f"the column {name!r} should have few different values, for these are levels, got more "
            f"than {MAX_VALUES:,}. Leave it out of categorical, or convert it to texts."
        )
    known = [row for row in found if row["value"] is not None and row["value"] == row["value"]]
    return [(row["value"], row["count"]) for row in known]


def _rows_of_arms(df: DataFrame, arms: ArrowColumns) -> DataFrame:
    """The rows of the two arms, by the values that have their texts: one job."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import FloatType

    if arms.treated is None:
        return df
    column = df.select(F.col(quoted(arms.treatment)).alias("arm"))
    found = column.where("arm is not null").distinct().limit(MAX_VALUES + 1).collect()
    if len(found) > MAX_VALUES:
        raise TableError(
            f"the column {arms.treatment!r} should name the arms, got more than {MAX_VALUES:,} "
            f"different values. Check that it is the treatment."
        )
    # Python has one kind of floats; the text of a single one is of its own digits.
    single = isinstance(column.schema[0].dataType, FloatType)
    texts = {row.arm: arm_text(np.float32(row.arm) if single else row.arm) for row in found}
    ours = [value for value, text in texts.items() if text in (arms.treated, arms.control)]
    return df.where(F.col(quoted(arms.treatment)).isin(ours))


def _frequent_texts(
    frame: DataFrame, kinds: Mapping[str, str], encoder: TableEncoder
) -> dict[str, list[str]]:
    """The most frequent texts of each category, in this order, counted and cut by Spark: one job.

    Of equally frequent ones the first.
    """
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
        .where(F.col("place") <= max(MOST_LEVELS, int(encoder.max_levels)))
        .orderBy("place")
        .collect()
    )
    return {name: [row["text"] for row in found if row["column"] == name] for name in names}


def _text_counts(text: SparkColumn, levels: Sequence[str]) -> list[SparkColumn]:
    """Numbers of missing values, and of texts that count as none of the levels."""
    from pyspark.sql import functions as F

    is_missing = text.isNull() | text.isin(*MISSING_TEXTS)
    # As encoding.kinds.counted_as: a level, a boolean in another spelling, zeros at the end.
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


def _summaries(x: SparkColumn, is_date: bool = False) -> list[SparkColumn]:
    """What one reading tells of a column of numbers; ``near`` encloses its median.

    Of dates also the first and last place in each cycle.
    """
    from pyspark.sql import functions as F

    margin = 3 / ACCURACY
    near = F.percentile_approx(x, [0.5 - margin, 0.5 + margin], ACCURACY)
    is_infinite = F.abs(x) == float("inf")
    return [
        F.count(x).alias("n"),
        F.count_if(is_infinite).alias("n_infinite"),
        F.approx_count_distinct(x + F.lit(0.0)).alias("n_about"),  # -0 is 0
        F.min(x).alias("low"),
        F.max(x).alias("high"),
        near.alias("near"),
        *(
            end(F.pmod(x, F.lit(period))).alias(f"{which}_{cycle}")
            for cycle, period in CYCLES.items()
            for which, end in (("first", F.min), ("last", F.max))
            if is_date
        ),
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
