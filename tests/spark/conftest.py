"""One Spark session for all tests: a driver and two executors, each a process of its own."""

import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.spark.cases import PART

SRC = Path(__file__).resolve().parents[2] / "src"
FAST_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": FAST_START,
    "spark.driver.host": "127.0.0.1",
    "spark.executor.extraJavaOptions": FAST_START,
    "spark.executor.memory": "1g",
    "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",
    "spark.executorEnv.PYTHONPATH": str(SRC),
    "spark.network.timeout": "600s",
    # Slow tasks are begun a second time, which should change nothing.
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.3",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def environment(home):
    """Variables for Spark to run in a folder; the test is skipped where it cannot."""
    pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java, which is not installed")
    for entry in Path(pyspark.__file__).parent.iterdir():  # workers write beside what they start
        (home / entry.name).symlink_to(entry)
    return {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_DIRS": str(home / "local"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    variables = environment(tmp_path_factory.mktemp("spark"))
    if "PYTEST_XDIST_WORKER" in os.environ:  # a second session would be a slow mistake, so say it
        (tmp_path_factory.getbasetemp().parent / "one spark session").mkdir()
    given = dict(os.environ)
    os.environ |= variables
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("auucmax")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
    os.environ.clear()
    os.environ.update(given)


@pytest.fixture
def in_executors(monkeypatch):
    """Functions that are sent to executors find the number of their partition."""
    pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")
    monkeypatch.setenv("NUMBA_NUM_THREADS", os.environ.get("NUMBA_NUM_THREADS", "1"))
    context = SimpleNamespace(partitionId=lambda: PART[0])
    monkeypatch.setattr(pyspark, "TaskContext", SimpleNamespace(get=lambda: context))
