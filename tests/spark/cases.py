"""What tests with a Spark session share."""

import contextlib
import threading
import time
from types import SimpleNamespace

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from auucmax import spark as on_spark

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


def executors():
    """The processes of this session's executors."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # one that has just ended
            if "CoarseGrainedExecutorBackend" in " ".join(process.cmdline()):
                found.append(process)
    return found


@contextlib.contextmanager
def lost_executor(reading, monkeypatch, folder):
    """A context in which an executor is killed in the middle of this reading of rows."""
    victims, readings, started, killed = [], [], folder / "started", folder / "killed"

    class Slow:  # in here, so that it travels whole: executors know nothing of tests
        def __init__(self, summary):
            self.summary = summary

        def __call__(self, batch):
            started.touch()
            while not killed.exists():
                time.sleep(0.02)
            return self.summary(batch)

    def kill():
        while not started.exists():
            time.sleep(0.02)
        victims.append(executors()[0])
        victims[0].kill()
        killed.touch()

    def total(self, steps, summaries):
        readings.append(1)
        if len(readings) == reading:
            threading.Thread(target=kill, daemon=True).start()
            return original(self, steps, [Slow(one) for one in summaries])
        return original(self, steps, summaries)

    original = on_spark.SparkRows._total
    monkeypatch.setattr(on_spark.SparkRows, "_total", total)
    yield
    assert len(victims) == 1
    assert not victims[0].is_running()
    assert len(readings) > reading


PART = [0]


class Partitions:
    """A DataFrame without Spark: Arrow tables, which come back in another order.

    Functions travel pickled, as to executors.
    """

    sparkSession = SimpleNamespace(conf=SimpleNamespace(get=lambda name: "false"))

    def __init__(self, tables, chunk=3):
        self.tables, self.chunk = tables, chunk

    @property
    def columns(self):
        return self.tables[0].column_names

    def _of(self, tables):
        return Partitions(tables, self.chunk)

    def select(self, *columns):
        return self._of([t.select([c.strip("`") for c in columns]) for t in self.tables])

    def toDF(self, *names):
        return self._of([t.rename_columns(names) for t in self.tables])

    def mapInArrow(self, function, schema):
        from pyspark import cloudpickle

        results, names = [], [name.split()[0] for name in schema.split(",")]
        for part, table in enumerate(self.tables):
            PART[0] = part
            own = cloudpickle.loads(cloudpickle.dumps(function))
            results.append(list(own(iter(table.to_batches(max_chunksize=self.chunk)))))
        made = [pa.Table.from_batches(result) if result else None for result in results]
        none = next((t.slice(0, 0) for t in made if t), pa.table({name: [] for name in names}))
        return self._of([none if t is None else t for t in made])

    def groupBy(self, column):
        table = pa.concat_tables(self.tables[::-1])
        groups = [table.filter(pc.equal(table[column], k)) for k in table[column].unique()]
        return SimpleNamespace(
            applyInArrow=lambda function, _: self._of([function(own) for own in groups] or [table])
        )

    def cache(self):
        return self

    def unpersist(self):
        return self

    def count(self):
        return sum(map(len, self.tables))

    def toLocalIterator(self, prefetchPartitions):
        return (SimpleNamespace(**row) for t in self.tables for row in t.to_pylist())

    def toPandas(self):
        return pa.concat_tables(self.tables).to_pandas()

    def collect(self):
        return [SimpleNamespace(**row) for t in self.tables[::-1] for row in t.to_pylist()]
