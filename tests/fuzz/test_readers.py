"""Any bytes in a file of rows: a table, or TableError in one line; no hang, no flood of memory."""

import gzip
import json
from datetime import datetime

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest
from tests.fuzz.damage import VALUES, damaged, odd_value
from tests.fuzz.feeding import feed

from auucmax.data.reading import TableError, read_table

# Notes on what was made of columns are as good as silence.
pytestmark = [pytest.mark.gate, pytest.mark.filterwarnings("ignore::UserWarning")]

FRAME = pd.DataFrame(
    {
        "x": [1, -2, 3, 40, 5, 6],
        "town": ["Oslo", "Rome", None, "", "Bérn", 'a "b", c'],
        "z": [0.5, np.nan, 1e-3, 2.0, -1e300, 0.0],
        "day": [datetime(2024, 1, 31)] * 5 + [None],
        "ok": [True, False] * 3,
    }
)
FIELDS = (
    "1", "-2", "0.5", "1e999", "00123", "1,5", "", " ", "NA", "nan", "x", "é", '"', '""', '"a"',
    '"a""b"', '"a\nb"', '"open', 'a"b', '\\"', "\\", "\x00", "\ufeff", "2024-01-31", "2024-13-01",
    "9" * 30, "2024-01-31T10:00:00Z", "2024-01-31 25:00", "true", "#", "y" * 3_000, "0x1F", "-",
    "+1", "1_000", "∞",
)  # fmt: skip


@pytest.fixture
def one_database(monkeypatch):
    """A new DuckDB takes longer than a small read, and keeps nothing between reads: one serves."""
    connect = duckdb.connect
    options = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    with connect(":memory:", config=options) as shared:
        monkeypatch.setattr(duckdb, "connect", lambda *args, **more: shared.cursor())
        yield


def reader(path, good, query=None):
    """Reads contents by way of the file, and sees to every value; now and then a good one."""
    n_read = 0

    def read(content):
        nonlocal n_read
        n_read += 1
        if n_read % 100 == 0:  # the database has not been put out of order by a damaged file
            path.write_bytes(good)
            assert len(read_table(path, query=query)) > 0
        path.unlink(missing_ok=True)  # to write over a file waits for the disk
        path.write_bytes(content)
        frame = read_table(path, query=query)
        assert len(frame) > 0
        assert all(len(values) == len(frame) for values in frame.to_dict("list").values())

    return read


def lines_of_fields(rng):
    """A table of fields that mean something to a reader of CSV files, seldom in order."""
    delimiter, end = rng.choice(",,,;\t|"), rng.choice(("\n", "\n", "\r\n", "\r"))
    width = rng.randint(1, 4)
    header = [f"{rng.choice(('a', 'b', 'A', 'x y', ''))}{k}" for k in range(width)]
    lines = [header if rng.random() < 0.8 else rng.choices(FIELDS, k=width)]
    widths = (width if rng.random() < 0.95 else rng.randint(0, 5) for _ in range(rng.randint(0, 5)))
    lines += [rng.choices(FIELDS, k=k) for k in widths]
    text = end.join(delimiter.join(line) for line in lines) + rng.choice((end, ""))
    return text.encode("latin-1" if rng.random() < 0.05 else "utf-8", "replace")


def csv_content(rng):
    if rng.random() < 0.5:
        return lines_of_fields(rng)
    samples = [FRAME.to_csv(index=False).encode(), FRAME.to_csv(index=False, sep=";").encode()]
    return damaged(rng, samples)


def test_csv(tmp_path, one_database):
    read = reader(tmp_path / "t.csv", FRAME.to_csv(index=False).encode())
    feed("csv", csv_content, read, TableError)


def packed(rng):
    """Packed after the damage, or damaged after the packing."""
    inside = csv_content(rng) if rng.random() < 0.4 else FRAME.to_csv(index=False).encode()
    if rng.random() < 0.5:
        content = gzip.compress(inside, mtime=0)
    else:
        content = pa.Codec("zstd").compress(inside, asbytes=True)
    return content if rng.random() < 0.4 else damaged(rng, [content])


def test_packed_csv(tmp_path, one_database):
    good = {suffix: tmp_path / f"t.csv.{suffix}" for suffix in ("gz", "zst")}
    whole = gzip.compress(FRAME.to_csv(index=False).encode(), mtime=0)
    as_gz = reader(good["gz"], whole)
    as_zst = reader(
        good["zst"], pa.Codec("zstd").compress(FRAME.to_csv().encode()[1:], asbytes=True)
    )

    def read(content):
        (as_zst if content.startswith(b"\x28\xb5\x2f\xfd") else as_gz)(content)

    feed("packed csv", packed, read, TableError)


def json_lines(rng):
    keys = [rng.choice(("a", "b", "A", "", "é", "a b", 'x"y')) for _ in range(rng.randint(1, 3))]
    rows = [{key: odd_value(rng) for key in keys} for _ in range(rng.randint(1, 5))]
    return rng.choice(("\n", "\n", ",", "")).join(map(json.dumps, rows)).encode()


def json_content(rng):
    text = FRAME.to_json(orient="records", lines=True, date_format="iso").encode()
    whole = FRAME.to_json(orient="records", date_format="iso").encode()
    way = rng.random()
    if way < 0.03:
        return rng.choice((b"[", b'{"a":')) * rng.choice((10, 1_000, 100_000))
    if way < 0.06:
        return json.dumps(rng.choice(VALUES)).encode()
    return json_lines(rng) if way < 0.4 else damaged(rng, [text, whole])


def test_json(tmp_path, one_database):
    good = FRAME.to_json(orient="records", lines=True, date_format="iso").encode()
    feed("json", json_content, reader(tmp_path / "t.jsonl", good), TableError)


def test_parquet(tmp_path, one_database):
    nested = FRAME.head(3).assign(many=[[1, 2], [], None], inside=[{"a": 1}] * 3)
    samples = [
        FRAME.to_parquet(),
        FRAME.to_parquet(compression=None),
        FRAME.to_parquet(compression="zstd", use_dictionary=False),
        nested.to_parquet(compression="gzip"),
    ]
    read = reader(tmp_path / "t.parquet", samples[0])
    feed("parquet", lambda rng: damaged(rng, samples), read, TableError)


def arrow_samples(folder):
    table = pa.Table.from_pandas(FRAME.assign(kind=FRAME["town"].astype("category")))
    for compression in ("lz4", "zstd", "uncompressed"):
        pyarrow.feather.write_feather(table, folder / "t.feather", compression=compression)
        yield (folder / "t.feather").read_bytes()
    yield b"FEA1" + bytes(200)  # the old format: refused, since its damage is not survived
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    yield sink.getvalue().to_pybytes()


def test_arrow(tmp_path, one_database):
    samples = list(arrow_samples(tmp_path))
    read = reader(tmp_path / "t.arrow", samples[0])
    feed("arrow", lambda rng: damaged(rng, samples), read, TableError)


def test_duckdb(tmp_path):
    with duckdb.connect(str(tmp_path / "t.duckdb")) as db:
        db.execute("CREATE TABLE t AS SELECT 1 AS x, 'Oslo' AS town")
    good = (tmp_path / "t.duckdb").read_bytes()
    read = reader(tmp_path / "t.duckdb", good, query="t")
    feed("duckdb", lambda rng: damaged(rng, [good]), read, TableError)
