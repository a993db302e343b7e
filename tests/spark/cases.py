"""What tests with a Spark session share."""

import functools

import pytest

# Python's own complaints about pyspark, none of which is ours to mend: it has not yet been released
# for pandas 3, and leaves sockets and processes to the garbage collector.
MARKS = [
    pytest.mark.gate,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore:The copy keyword is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning"),
]


def partitions(spark, frame, sizes):
    """A DataFrame with as many rows of the frame in each partition."""
    whole = spark.createDataFrame(frame)
    parts, first = [], 0
    for size in sizes:
        rows = frame.iloc[first : first + size]
        part = spark.createDataFrame(rows, whole.schema).coalesce(1) if size else None
        parts.append(whole.limit(0).coalesce(1) if part is None else part)
        first += size
    assert first == len(frame)
    return functools.reduce(lambda one, other: one.union(other), parts)
