"""One fit, by time and memory, from 100 thousand rows to more than fit into memory, and on Spark.

fit     AUUC-max in memory and from Parquet files, without a choice of the norm and as it comes;
        two logistic regressions (scikit-learn) and two boosted models (LightGBM); CausalML's uplift
        forest where it takes less than minutes
command ``auucmax fit`` with its defaults
pass    one reading of the files, alone and with what is summed; histograms take two
stream  AUUC-max, and the AUUC with its certificate, of 100 million rows that stay on the disk
spark   AUUC-max and Spark ML's two logistic regressions, on two worker processes of one core each,
        from a cached DataFrame: AUUC-max packs its columns, Spark ML assembles them to vectors and
        keeps these; "assembled": that was done before

Rows are like those of Criteo-UPLIFT v2.1: 12 columns of float32, 85% treated. ``resident MB`` is
all that the process holds. Files are made once, in the system's folder for temporary files.
"""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fit import CRITEO_ROWS, FEATURES, two_logistic
from benchmarks.harness import Case

SIZES = (100_000, 1_000_000, CRITEO_ROWS)
STREAM_ROWS = 100_000_000
FOREST_ROWS = 100_000
CHUNK = 2**20  # rows of a file
REFERENCES = {
    "to TM logistic": ["TM scikit-learn", "TM Spark ML"],
    "to assembled": ["TM Spark ML, assembled"],
    "to TM LightGBM": ["TM LightGBM"],
    "to in memory": ["auucmax", "auucmax fit"],
}
PASSES = ("reading", "first look", "gradient", "histogram")
LIBRARIES = {
    "auucmax": "memory_auucmax",
    "auucmax as it comes": "memory_searched",
    "auucmax from Parquet": "stream_auucmax",
    "auucmax as it comes, from Parquet": "stream_searched",
    "TM scikit-learn": "memory_logistic",
    "TM LightGBM": "memory_lightgbm",
}


def cases(*, quick: bool = False) -> list[Case]:
    """All cases; ``quick``: the smallest size."""
    sizes = SIZES[:1] if quick else SIZES
    found = [
        _case("fit", library, rows, function)
        for rows in sizes
        for library, function in LIBRARIES.items()
    ]
    found.append(_case("fit", "CausalML uplift forest", FOREST_ROWS, "forest"))
    found.append(_case("command", "auucmax fit", sizes[-1], "command"))
    found += [
        _case("pass", kind, rows, "one_pass", kind=kind)
        for rows in (sizes if quick else SIZES[1:])
        for kind in PASSES
    ]
    spark = sizes if quick else SIZES[1:]
    for rows in spark:
        found += [
            _case("spark", "auucmax on Spark", rows, "spark_auucmax"),
            _case("spark", "auucmax as it comes, on Spark", rows, "spark_searched"),
            _case("spark", "TM Spark ML", rows, "spark_logistic"),
            _case("spark", "TM Spark ML, assembled", rows, "spark_logistic", assembled=True),
        ]
    if not quick:
        found += [
            _case("stream", "auucmax from Parquet", STREAM_ROWS, "stream_auucmax"),
            _case("stream", "AUUC and certificate", STREAM_ROWS, "stream_evaluation"),
        ]
    return found


def _case(case: str, library: str, rows: int, function: str, **more: Any) -> Case:
    arguments = {"rows": rows} | more
    return Case(case, library, rows, FEATURES, f"benchmarks.scale:{function}", arguments)


# In memory


def memory_auucmax(rows: int) -> Callable[[], Any]:
    from auucmax import AUUCMax

    X, y, treatment = in_memory(rows)
    return lambda: AUUCMax(selection=None).fit(X, y, treatment=treatment)


def memory_searched(rows: int) -> Callable[[], Any]:
    from auucmax import AUUCMax

    X, y, treatment = in_memory(rows)
    return lambda: AUUCMax(random_state=0).fit(X, y, treatment=treatment)


def memory_logistic(rows: int) -> Callable[[], Any]:
    X, y, treatment = in_memory(rows)
    return lambda: two_logistic(X, y, treatment == 1)


def memory_lightgbm(rows: int) -> Callable[[], Any]:
    from lightgbm import LGBMClassifier

    X, y, treatment = in_memory(rows)
    arms = (treatment == 1, treatment == 0)
    return lambda: [LGBMClassifier(verbose=-1).fit(X[arm], y[arm]) for arm in arms]


def forest(rows: int) -> Callable[[], Any]:
    from causalml.inference.tree import UpliftRandomForestClassifier

    X, y, treatment = in_memory(rows)
    names = np.where(treatment == 1, "treated", "control")
    model = UpliftRandomForestClassifier(control_name="control", n_estimators=10, n_jobs=2)
    return lambda: model.fit(X.astype(np.float64), names, y.astype(int))


def in_memory(rows: int) -> tuple[Any, Any, Any]:
    """The rows of the files, as arrays."""
    import pyarrow.parquet as pq

    X = np.empty((rows, FEATURES), dtype=np.float32)
    y, treatment, start = np.empty(rows), np.empty(rows, dtype=np.int8), 0
    for file in sorted(parquet_rows(rows).glob("*.parquet")):
        table = pq.read_table(file)
        part = slice(start, start := start + table.num_rows)
        for k in range(FEATURES):
            X[part, k] = table[f"x{k}"]
        y[part], treatment[part] = table["visit"], table["treatment"]
    return X, y, treatment


# From the disk


def stream_auucmax(rows: int) -> Callable[[], Any]:
    return _CountedFit(streamed(rows), selection=None)


def stream_searched(rows: int) -> Callable[[], Any]:
    return _CountedFit(streamed(rows), random_state=0)


class _CountedFit:
    """A fit that knows how often it has read all rows."""

    def __init__(self, stream: Any, **settings: Any) -> None:
        self.stream, self.settings, self.n_readings = stream, settings, 0

    def __call__(self) -> Any:
        from auucmax import AUUCMax
        from auucmax.rows import Rows

        counted, stream = self, self.stream

        class Counted(Rows):
            names = stream.names

            def batches(self) -> Any:
                counted.n_readings += 1
                return stream.batches()

        self.n_readings = 0
        return AUUCMax(**self.settings).fit(Counted())

    def facts(self) -> dict[str, Any]:
        return {"readings": self.n_readings}


def one_pass(rows: int, kind: str) -> Callable[[], Any]:
    """One reading of the files, with nothing, or with one summary, of every batch."""
    from auucmax import AUUCMax
    from auucmax.estimators.learning_rows import known_of
    from auucmax.pairs import StreamedObjective

    stream = streamed(rows)
    if kind == "reading":
        return lambda: stream.total(_n_rows)
    if kind == "first look":
        return lambda: known_of(stream, "min-max")
    if kind == "histogram":
        model = AUUCMax(selection=None).fit(streamed(SIZES[0]))
        return partial(score_histogram_pass, stream, model)
    w = AUUCMax(selection=None).fit(streamed(SIZES[0])).coef_
    return _Gradient(StreamedObjective(stream, known=known_of(stream, "min-max").sums), w)


class _Gradient:
    """Loss and gradient at points near the minimiser, never the same twice."""

    def __init__(self, objective: Any, w: Any) -> None:
        self.objective, self.w, self.n_calls = objective, w, 0

    def __call__(self) -> Any:
        self.n_calls += 1
        return self.objective.value_and_gradient(self.w * (1 + 1e-3 * self.n_calls))

    def facts(self) -> dict[str, Any]:
        summary = self.objective.field_at(self.w).summary
        return {"bins": summary.bins.size, "bytes": len(pickle.dumps(summary))}


def _n_rows(batch: Any) -> Any:
    return np.array(len(batch.y))


def score_histogram_pass(stream: Any, model: Any) -> Any:
    from auucmax.metrics import score_levels

    return score_levels(stream, model)  # two readings


def stream_evaluation(rows: int) -> Callable[[], Any]:
    from auucmax import AUUCMax, certify
    from auucmax.metrics import score_levels

    model, stream = AUUCMax(selection=None).fit(streamed(SIZES[0])), streamed(rows)

    def call() -> Any:
        histogram = score_levels(stream, model)
        return histogram.inference(), certify(histogram)

    return call


def streamed(rows: int) -> Any:
    from auucmax.rows import stream_table

    return stream_table(parquet_rows(rows), treatment="treatment", outcome="visit")


def parquet_rows(rows: int) -> Path:
    """A folder of Parquet files with so many rows; made if it is not there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from auucmax import make_trial

    folder = Path(tempfile.gettempdir()) / "auucmax-benchmarks" / f"criteo-{rows}"
    if folder.exists():
        return folder
    beside = folder.with_suffix(".part")
    beside.mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(range(0, rows, CHUNK)):
        trial = make_trial(min(CHUNK, rows - start), preset="criteo", random_state=number)
        columns = {name: trial.X[name].to_numpy() for name in trial.X}
        columns |= {"visit": trial.y.astype(np.int8), "treatment": trial.treatment}
        file = beside / f"part-{number:04}.parquet"
        pq.write_table(pa.table(columns), file, use_dictionary=False, compression="none")
    beside.rename(folder)
    return folder


# From the shell


def command(rows: int) -> Callable[[], Any]:
    """The whole command, from the files to the model file."""
    from auucmax.cli import app

    folder = parquet_rows(rows)
    line = ["fit", str(folder), "-t", "treatment", "-y", "visit", "-m", "auucmax"]

    def call() -> Any:
        with tempfile.TemporaryDirectory() as place:
            return app([*line, "-o", f"{place}/m.model"], standalone_mode=False)

    return call


# On Spark


def spark_auucmax(rows: int) -> Callable[[], Any]:
    from auucmax import AUUCMax, spark

    frame = _spark_frame(rows)
    model = AUUCMax(selection=None)
    return lambda: spark.fit(frame, treatment="treatment", outcome="visit", model=model)


def spark_searched(rows: int) -> Callable[[], Any]:
    from auucmax import spark

    frame = _spark_frame(rows)
    return lambda: spark.fit(frame, treatment="treatment", outcome="visit")


def spark_logistic(rows: int, assembled: bool = False) -> Callable[[], Any]:
    """The fits read vectors from the cache; ``assembled``: they are there before."""
    from pyspark.ml.classification import LogisticRegression
    from pyspark.ml.feature import VectorAssembler

    frame = _spark_frame(rows)
    assembler = VectorAssembler(inputCols=[f"x{k}" for k in range(FEATURES)], outputCol="features")
    model = LogisticRegression(labelCol="visit")

    def vectors() -> Any:
        both = assembler.transform(frame).select("features", "visit", "treatment").cache()
        both.count()
        return both

    def fits(both: Any) -> Any:
        return [model.fit(both.filter(f"treatment = {arm}")) for arm in (1, 0)]

    if assembled:
        return partial(fits, vectors())

    def call() -> Any:
        both = vectors()
        fitted = fits(both)
        both.unpersist()
        return fitted

    return call


def _spark_frame(rows: int) -> Any:
    """Cached rows on two worker processes."""
    frame = spark_session().read.parquet(str(parquet_rows(rows))).cache()
    frame.count()
    return frame


def spark_session() -> Any:
    """Two worker processes of one core each."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = (
        SparkSession.builder.master("local-cluster[2,1,3072]")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.executor.memory", "3g")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


# What the table cannot show: memory, and a model of the cost.

Known = dict[tuple[str, str, int], dict[str, Any]]
PAPER_ROWS, EXECUTORS, EXECUTOR_CORES, PARTITIONS = 10**10, 100, 4, 1600


def summary(records: list[dict[str, Any]]) -> str:
    """All that is resident, and what the passes say that fits take."""
    known = _known(records)
    lines = [
        f"resident {library:<22} {rows:>12,} rows: {record['resident_mb']:8,.0f} MB"
        for (case, library, rows), record in known.items()
        if (case in ("fit", "stream") and "auucmax" in library) or case == "stream"
    ]
    return "\n".join([*lines, "", *_cost_lines(known)])


def _known(records: list[dict[str, Any]]) -> Known:
    return {(r["case"], r["library"], r["rows"]): r for r in records if r["seconds"] is not None}


def _cost_lines(known: Known) -> list[str]:
    passes = {kind: known.get(("pass", kind, CRITEO_ROWS)) for kind in PASSES}
    if not all(passes.values()):
        return []
    gradient = passes["gradient"] or {}
    lines = [
        f"a row and a pass, {FEATURES} columns of float32, 2 cores: "
        + ", ".join(f"{kind} {1e9 * cost:.0f} ns" for kind, cost in _row_costs(known).items()),
        f"a summary: {gradient['bins']:,} bins, {gradient['bytes'] / 1e6:.2f} MB = "
        f"8 bytes x 4 classes x 6 powers x (columns + 1) x bins",
    ]
    for case, rows, readings, expected, measured in _checked(known):
        lines.append(
            f"{case:<6} {rows:>12,} rows, {readings} readings: expected {expected:7.2f} s, "
            f"measured {measured:7.2f} s"
        )
    paper = _on_paper(known)
    if paper:
        lines += [
            f"on Spark here (2 cores): {paper['fixed']:.1f} s a fit + {paper['row_ns']:.0f} ns a "
            f"row, {paper['row_bytes']:.0f} bytes a row kept in the executors",
            f"on paper, {PAPER_ROWS:,} rows, {EXECUTORS} executors of {EXECUTOR_CORES} cores: "
            f"{paper['work']:.0f} s of work a fit if it divides by the cores, "
            f"{paper['readings']} jobs, each moving {PARTITIONS:,} summaries, "
            f"{paper['moved_mb']:,.0f} MB in all; {paper['kept_gb']:.0f} GB an executor",
        ]
    return lines


def _row_costs(known: Known) -> dict[str, float]:
    """Seconds a row of each pass."""
    return {
        kind: known["pass", kind, CRITEO_ROWS]["seconds"] / CRITEO_ROWS
        for kind in PASSES
        if ("pass", kind, CRITEO_ROWS) in known
    }


def _checked(known: Known) -> list[tuple[str, int, int, float, float]]:
    """Fits from Parquet: a first look, and a gradient a further reading; expected and measured."""
    cost, found = _row_costs(known), []
    for (case, library, rows), record in known.items():
        if library == "auucmax from Parquet" and "readings" in record and len(cost) == len(PASSES):
            expected = rows * (cost["first look"] + (record["readings"] - 1) * cost["gradient"])
            found.append((case, rows, record["readings"], expected, record["seconds"]))
    return found


def _on_paper(known: Known) -> dict[str, float]:
    """10^10 rows on 100 executors of 4 cores, from the time on two worker processes here."""
    large = known.get(("spark", "auucmax on Spark", CRITEO_ROWS))
    small = known.get(("spark", "auucmax on Spark", SIZES[1]))
    fit = known.get(("fit", "auucmax from Parquet", CRITEO_ROWS))
    gradient = known.get(("pass", "gradient", CRITEO_ROWS))
    if not (large and small and fit and gradient):
        return {}
    slope = (large["seconds"] - small["seconds"]) / (CRITEO_ROWS - SIZES[1])
    row_bytes = 4 * (FEATURES + 1)  # features, outcome and treatment: see auucmax.spark.packed
    return {
        "fixed": small["seconds"] - slope * SIZES[1],
        "row_ns": 1e9 * slope,
        "row_bytes": row_bytes,
        "work": slope * 2 * PAPER_ROWS / (EXECUTORS * EXECUTOR_CORES),
        "readings": fit["readings"],
        "moved_mb": PARTITIONS * gradient["bytes"] / 1e6,
        "kept_gb": PAPER_ROWS * row_bytes / EXECUTORS / 1e9,
    }


def guide(records: list[dict[str, Any]]) -> str:
    """What the guide to large tables says of the cost, in Markdown."""
    known = _known(records)
    rows = [
        "| rows | one fit | seconds | resident MB |",
        "|---:|---|---:|---:|",
    ]
    words = {
        "auucmax": "AUUC-max, in memory",
        "auucmax from Parquet": "AUUC-max, from Parquet",
        "TM scikit-learn": "two logistic regressions, scikit-learn",
        "TM LightGBM": "two boosted models, LightGBM",
        "auucmax on Spark": "AUUC-max, Spark on two cores",
        "TM Spark ML": "two logistic regressions, Spark ML on two cores",
        "TM Spark ML, assembled": "the same, with vectors assembled and cached before",
    }
    for n in (*SIZES[1:], STREAM_ROWS):
        for library, label in words.items():
            for case in ("fit", "spark", "stream"):
                if record := known.get((case, library, n)):
                    memory = "" if case == "spark" else f"{record['resident_mb']:,.0f}"
                    rows.append(f"| {n:,} | {label} | {record['seconds']:.2f} | {memory} |")
    cost, paper = _row_costs(known), _on_paper(known)
    if len(cost) < len(PASSES) or not paper:
        return "\n".join(rows)
    checks = "; ".join(
        f"{expected:.2f} s expected and {measured:.2f} s measured at {n:,} rows, in {readings} "
        f"readings"
        for case, n, readings, expected, measured in _checked(known)
    )
    return "\n".join(
        [
            *rows,
            "",
            f"A first look costs {1e9 * cost['first look']:.0f} ns a row of {FEATURES} columns on "
            f"two cores, each further reading {1e9 * cost['gradient']:.0f} ns (reading alone: "
            f"{1e9 * cost['reading']:.0f}, from plain Parquet files that the system has in its "
            f"memory), a histogram of the scores, which takes two readings, "
            f"{1e9 * cost['histogram']:.0f}. For fits that makes {checks}.",
            "",
            f"On Spark, from a DataFrame that is cached, a fit took {paper['fixed']:.1f} s and "
            f"{paper['row_ns']:.0f} ns a row here, and keeps {paper['row_bytes']:.0f} bytes a row "
            f"in the executors. A partition sends "
            f"8 bytes x 4 classes x 6 powers x (columns + 1) for every bin of the scores, "
            f"{paper['moved_mb'] / PARTITIONS:.2f} MB here. For {PAPER_ROWS:,} rows on {EXECUTORS} "
            f"executors of {EXECUTOR_CORES} cores that is, on paper: {paper['work']:.0f} s of work "
            f"if it divides by the cores, in {paper['readings']:.0f} passes, each of which after "
            f"the first moves {PARTITIONS:,} summaries or {paper['moved_mb'] / 1000:.1f} GB to the "
            f"few tasks that add them; {paper['kept_gb']:.0f} GB an executor. Nobody has measured "
            f"that.",
        ]
    )
