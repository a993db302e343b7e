"""What tests with a Spark session share."""

import numpy as np
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
    """A DataFrame with as many rows of the frame in each partition, none in some if told so."""
    assert sum(sizes) == len(frame)
    whole, ends = frame.astype(object).to_numpy().tolist(), np.cumsum(sizes)
    parts = [whole[end - size : end] for end, size in zip(ends, sizes, strict=True)]
    rows = spark.sparkContext.parallelize(parts, len(parts)).flatMap(lambda part: part)
    return spark.createDataFrame(rows, spark.createDataFrame(frame).schema)
