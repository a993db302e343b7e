"""One fit, by time and memory, from 100 thousand rows to more than fit into memory, and on Spark.

fit     AUUC-max in memory and from Parquet files, without a choice of the norm and by default;
        two logistic regressions (scikit-learn) and two boosted models (LightGBM); CausalML's uplift
        forest where it takes less than minutes
command ``auucmax fit`` with its defaults, and of AUUC-max alone, from Parquet and from CSV
larger  a table of 29 GB, larger than memory: ``auucmax fit`` on a sample of it, and ``auucmax
        target`` over all rows
stream  AUUC-max, and the AUUC with its certificate, of 100 million rows that stay on the disk
spark   AUUC-max and Spark ML's two logistic regressions, on two worker processes of one core each,
        from a cached DataFrame: AUUC-max packs its columns, Spark ML assembles them to vectors and
        keeps these; "assembled": that was done before

Rows are like those of Criteo-UPLIFT v2.1: 12 columns of float32, 85% treated. ``resident MB`` is
all that the process holds. Files are made once, in the system's folder for temporary files.
"""

from __future__ import annotations

import os
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
WIDE_ROWS, WIDE = 60_000_000, 60
WIDE_FILE = 1_000_000
CHUNK = 2**20  # rows of a file
REFERENCES = {
    "to TM logistic": ["TM scikit-learn", "TM Spark ML"],
    "to assembled": ["TM Spark ML, assembled"],
    "to TM LightGBM": ["TM LightGBM"],
    "to in memory": ["auucmax"],
}
SEARCHED = {"selection": "cv"}
#: Library -> function, and its options.
LIBRARIES: dict[str, tuple[str, dict[str, Any]]] = {
    "auucmax": ("memory_auucmax", {}),
    "auucmax as it comes": ("memory_auucmax", SEARCHED),
    "auucmax from Parquet": ("stream_auucmax", {}),
    "auucmax as it comes, from Parquet": ("stream_auucmax", SEARCHED),
    "TM scikit-learn": ("memory_logistic", {}),
    "TM LightGBM": ("memory_lightgbm", {}),
}
ON_SPARK: dict[str, tuple[str, dict[str, Any]]] = {
    "auucmax on Spark": ("spark_auucmax", {}),
    "auucmax as it comes, on Spark": ("spark_auucmax", SEARCHED),
    "TM Spark ML": ("spark_logistic", {}),
    "TM Spark ML, assembled": ("spark_logistic", {"assembled": True}),
}


def cases(*, quick: bool = False) -> list[Case]:
    """All cases; ``quick``: the smallest size."""
    sizes = SIZES[:1] if quick else SIZES
    found = [
        _case("fit", library, rows, function, **options)
        for rows in sizes
        for library, (function, options) in LIBRARIES.items()
    ]
    found.append(_case("fit", "CausalML uplift forest", FOREST_ROWS, "forest"))
    for kind in ("parquet", "csv"):
        for model in ("auto", "auucmax"):
            label = f"auucmax fit -m {model}, {kind}"
            found.append(_case("command", label, sizes[-1], "command", kind=kind, model=model))
    found += [
        _case("spark", library, rows, function, **options)
        for rows in (sizes if quick else SIZES[1:])
        for library, (function, options) in ON_SPARK.items()
    ]
    if not quick:
        found.append(_case("stream", "auucmax from Parquet", STREAM_ROWS, "stream_auucmax"))
        found.append(_case("stream", "AUUC and certificate", STREAM_ROWS, "stream_evaluation"))
        for library, function in (
            ("auucmax fit on a sample", "larger_fit"),
            ("auucmax target, all rows", "larger_list"),
        ):
            found.append(Case("larger", library, WIDE_ROWS, WIDE, f"{__name__}:{function}", {}))
    return found


def _case(case: str, library: str, rows: int, function: str, **more: Any) -> Case:
    arguments = {"rows": rows} | more
    return Case(case, library, rows, FEATURES, f"benchmarks.scale:{function}", arguments)


# In memory


def memory_auucmax(rows: int, selection: str | None = None) -> Callable[[], Any]:
    from auucmax import AUUCMax

    X, y, treatment = in_memory(rows)
    model = AUUCMax(selection=selection, random_state=0)
    return lambda: model.fit(X, y, treatment=treatment)


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


def stream_auucmax(rows: int, selection: str | None = None) -> Callable[[], Any]:
    from auucmax import AUUCMax

    stream = streamed(rows)
    return lambda: AUUCMax(selection=selection, random_state=0).fit(stream)


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


def command(rows: int, kind: str, model: str) -> Callable[[], Any]:
    """The whole command, from the files to the model file."""
    source = parquet_rows(rows) if kind == "parquet" else csv_rows(rows)
    return partial(run_fit, source, source.with_suffix(".auucmax"), "-m", model)


def run_fit(source: Path, output: Path, *options: str) -> None:
    """``auucmax fit``, in this process."""
    from auucmax.cli import app

    output.unlink(missing_ok=True)
    line = ["fit", str(source), "-t", "treatment", "-y", "visit", "-o", str(output), *options]
    app(line, standalone_mode=False)


def csv_rows(rows: int) -> Path:
    """The same rows in one CSV file; made if it is not there."""
    import duckdb

    file = parquet_rows(rows).with_suffix(".csv")
    if not file.exists():
        beside = file.with_suffix(".part")
        duckdb.sql(f"COPY (FROM '{parquet_rows(rows)}/*.parquet') TO '{beside}' (FORMAT csv)")
        beside.rename(file)
    return file


# Larger than memory


def wide_rows() -> Path:
    """A folder of Parquet files, 29 GB of random numbers in columns of doubles."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = Path(tempfile.gettempdir()) / "auucmax-benchmarks" / "wide"
    if folder.exists():
        return folder
    beside = folder.with_suffix(".part")
    beside.mkdir(parents=True, exist_ok=True)
    for number in range(WIDE_ROWS // WIDE_FILE):
        rng = np.random.default_rng(number)
        columns = {f"x{k}": rng.standard_normal(WIDE_FILE) for k in range(WIDE)}
        treatment = rng.random(WIDE_FILE) < 0.5
        chance = 0.2 + 0.1 * (columns["x0"] > 0) + 0.1 * treatment * (columns["x1"] > 0)
        columns["visit"] = (rng.random(WIDE_FILE) < chance).astype(np.int8)
        columns["treatment"] = treatment.astype(np.int8)
        columns["person"] = np.arange(number * WIDE_FILE, (number + 1) * WIDE_FILE)
        file = beside / f"part-{number:04}.parquet"
        pq.write_table(pa.table(columns), file, use_dictionary=False, compression="none")
    beside.rename(folder)
    return folder


def larger_fit() -> Callable[[], Any]:
    """Two models on the sample that fits, from the files to the model file."""
    people = wide_rows()
    return partial(run_fit, people, people.with_suffix(".auucmax"), "-m", "tm", "--id", "person")


def larger_list() -> Callable[[], Any]:
    """The best 30% of all rows in a Parquet file, by the command."""
    from auucmax.cli import app

    people = wide_rows()
    line = ["target", str(people.with_suffix(".auucmax")), str(people), "--share", ".3"]
    output = str(people.with_suffix(".list.parquet"))
    return lambda: app([*line, "-o", output], standalone_mode=False)


# On Spark


def spark_auucmax(rows: int, selection: str | None = None) -> Callable[[], Any]:
    from auucmax import AUUCMax, spark

    frame, model = _spark_frame(rows), AUUCMax(selection=selection, random_state=0)
    return lambda: spark.fit(frame, treatment="treatment", outcome="visit", model=model)


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


# What the table cannot show: memory. And what pages show of the table.

Known = dict[tuple[str, str, int], dict[str, Any]]


def summary(records: list[dict[str, Any]]) -> str:
    """All that is resident."""
    return "\n".join(
        f"resident {library:<22} {rows:>12,} rows: {record['resident_mb']:8,.0f} MB"
        for (case, library, rows), record in _known(records).items()
        if (case == "fit" and "auucmax" in library) or case in ("stream", "command", "larger")
    )


def _known(records: list[dict[str, Any]]) -> Known:
    return {(r["case"], r["library"], r["rows"]): r for r in records if r["seconds"] is not None}


def guide(records: list[dict[str, Any]]) -> str:
    """The table of the guide to large tables."""
    known = _known(records)
    lines = ["| rows | one fit | seconds | resident MB |", "|---:|---|---:|---:|"]
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
                    lines.append(f"| {n:,} | {label} | {record['seconds']:.2f} | {memory} |")
    return "\n".join(lines)
