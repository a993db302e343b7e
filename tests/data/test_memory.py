"""Tables that do not fit into memory are refused before they are read."""

from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

from auucmax._errors import InputError
from auucmax.data import memory, read_table


def write(frame, kind, folder):
    """The file and the query of it."""
    path = folder / f"rows.{kind}"
    if kind in ("csv", "csv.gz"):
        frame.to_csv(path, index=False)
    elif kind == "parquet":
        frame.to_parquet(path)
    elif kind == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        with duckdb.connect(str(path)) as db:
            db.execute("CREATE TABLE t AS SELECT * FROM frame")
        return path, "t"
    return path, None


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "jsonl", "duckdb"])
def test_a_table_that_does_not_fit_is_refused(kind, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(size=3_000), "town": rng.choice(["a", "bc"], 3_000)})
    path, query = write(frame, kind, tmp_path)
    whole = read_table(path, query=query)
    at_limit = memory.WORKING * whole.memory_usage(deep=True, index=False).sum()
    monkeypatch.setattr(memory, "_ALWAYS", 0)
    monkeypatch.setattr(memory, "free_memory", lambda: 1.05 * at_limit)
    pd.testing.assert_frame_equal(read_table(path, query=query), whole)
    monkeypatch.setattr(memory, "free_memory", lambda: 0.95 * at_limit)
    with pytest.raises(InputError, match="Pass fewer rows or columns") as told:
        read_table(path, query=query)
    assert told.value.parameter == f"rows.{kind}"
    assert told.value.received.startswith("3,000 rows and 2 columns")
    assert "stream_table" in told.value.hint
    assert list(read_table(path, query=query, columns=["age"])) == ["age"]  # which fits


def test_the_size_is_that_of_rows_from_all_over_the_table(tmp_path, monkeypatch):
    n = 150_000
    text = pd.Series(np.where(np.arange(n) < 130_000, None, "x" * 500), dtype=object)
    path, _ = write(pd.DataFrame({"text": text}), "parquet", tmp_path)
    n_bytes = read_table(path).memory_usage(deep=True).sum()
    monkeypatch.setattr(memory, "_ALWAYS", 0)
    monkeypatch.setattr(memory, "free_memory", lambda: 0.9 * memory.WORKING * n_bytes)
    with pytest.raises(InputError):
        read_table(path)
    monkeypatch.setattr(memory, "free_memory", lambda: 1.1 * memory.WORKING * n_bytes)
    assert len(read_table(path)) == n


def test_a_small_table_is_read_whatever_is_free(tmp_path, monkeypatch):
    path, _ = write(pd.DataFrame({"age": [1.0, 2.0]}), "parquet", tmp_path)
    monkeypatch.setattr(memory, "free_memory", lambda: 0.0)
    assert len(read_table(path)) == 2


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="only Linux has it")
def test_free_memory():
    assert 2**20 < memory.free_memory() < 2**50
