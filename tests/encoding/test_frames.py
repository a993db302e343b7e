"""A table of any library is read as the same rows, shares memory, and results go back in it."""

import datetime as dt
import warnings
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.frame_kinds import KINDS, as_kind

from auucmax.data.covariates import encode
from auucmax.data.read_trial import id_texts
from auucmax.encoding import TableEncoder
from auucmax.encoding.frames import as_given, first_rows, frame_of

_WHOLE = st.integers(1 - 2**53, 2**53 - 1)  # as floats, others are refused where texts are made
_DAYS = st.dates(dt.date(1900, 1, 1), dt.date(2200, 1, 1))
_MOMENTS = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1))
#: Arrow types, and values that a column of them may hold.
TYPES = {
    "whole": (pa.int64(), _WHOLE),
    "code": (pa.int16(), st.integers(1, 4)),
    "small": (pa.uint8(), st.integers(0, 255)),
    "number": (pa.float64(), st.one_of(st.floats(-1e9, 1e9), st.just(float("nan")))),
    "single": (pa.float32(), st.floats(-1e9, 1e9, width=32)),
    "truth": (pa.bool_(), st.booleans()),
    "text": (pa.string(), st.sampled_from(["a", "b", "NA", "", "1.0", "ø"])),
    "long text": (pa.large_string(), st.text(max_size=3)),
    "levels": (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["x", "y", "z"])),
    "money": (pa.decimal128(12, 2), st.decimals(-10**6, 10**6, places=2)),
    "day": (pa.date32(), _DAYS),
    "moment": (pa.timestamp("us"), _MOMENTS),
    "seconds": (pa.timestamp("s"), _MOMENTS.map(lambda own: own.replace(microsecond=0))),
    "zoned": (pa.timestamp("us", "UTC"), _MOMENTS),
    "far": (pa.timestamp("ms", "Europe/Oslo"), st.datetimes(
        dt.datetime(2000, 1, 1), dt.datetime(2030, 1, 1)
    ).map(lambda own: own.replace(microsecond=0))),
    "nothing": (pa.null(), st.none()),
}  # fmt: skip


@st.composite
def tables(draw, missing=True):
    n = draw(st.integers(2, 12))
    names = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=6, unique=True))
    columns = {}
    for name in names:
        type_, values = TYPES[name]
        own = st.one_of(st.none(), values) if missing else values
        columns[name] = pa.array(draw(st.lists(own, min_size=n, max_size=n)), type_)
    return pa.table(columns)


def outcome_of(call, *arguments):
    """What a call gives, or what it says."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call(*arguments)
        except ValueError as error:
            return str(error)


def learnt(frame, levels=()):
    encoder = TableEncoder(min_level_rows=1, new_levels="other", categorical=levels)
    features = encoder.fit_transform(frame)
    return encoder.columns_, features.tobytes(), encoder.transform(frame).tobytes()


@pytest.mark.gate
@given(tables(), st.booleans())
@settings(max_examples=25, deadline=None)
def test_features_are_the_same_bit_for_bit(table, as_levels):
    may = {"whole", "code", "small", "number", "single", "truth", "money"}
    levels = [name for name in table.column_names if as_levels and name in may]
    expected = outcome_of(learnt, as_kind(table, "numpy"), levels)
    for kind in KINDS:
        assert outcome_of(learnt, as_kind(table, kind), levels) == expected, kind


def checked(frame):
    features, skipped = encode(frame_of(frame))
    values = [np.asarray(f.values, dtype=np.float64).tobytes() for f in features]
    return skipped, [(f.name, f.kind, f.levels) for f in features], values


@pytest.mark.gate
@given(tables())
@settings(max_examples=25, deadline=None)
def test_what_is_checked_is_the_same(table):
    expected = outcome_of(checked, as_kind(table, "numpy"))
    for kind in KINDS:
        assert outcome_of(checked, as_kind(table, kind)) == expected, kind


def named(frame):
    frame = frame_of(frame)
    return {name: list(id_texts(frame[name], name)) for name in frame.columns}


@pytest.mark.gate
@given(tables(missing=False))
@settings(max_examples=25, deadline=None)
def test_ids_have_the_same_texts(table):
    expected = outcome_of(named, as_kind(table, "numpy"))
    for kind in KINDS:
        assert outcome_of(named, as_kind(table, kind)) == expected, kind


ROWS = {
    "whole": [1, 5, 5], "code": [1, 2, 1], "small": [0, 255, 7], "number": [0.5, -1.0, 2.0],
    "single": [0.1, 3.0, 0.2], "truth": [True, False, True], "text": ["a", "NA", "1.0"],
    "long text": ["ø", "x", "x"], "levels": ["z", "y", "z"],
    "money": [Decimal("1.50"), Decimal("2.00"), Decimal("-3.10")],
    "day": [dt.date(2024, 1, 1), dt.date(2024, 2, 1), dt.date(1999, 12, 31)],
    "moment": [dt.datetime(2024, 1, 1, 12, 30), dt.datetime(2024, 1, 2), dt.datetime(1950, 1, 1)],
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_type_of_column(kind):
    table = pa.table({name: pa.array(own, TYPES[name][0]) for name, own in ROWS.items()})
    holes = pa.table(
        {name: pa.array([None, *own[1:]], TYPES[name][0]) for name, own in ROWS.items()}
    )
    assert named(as_kind(table, kind)) == named(as_kind(table, "numpy"))
    for rows in (table, holes):
        assert outcome_of(learnt, as_kind(rows, kind)) == outcome_of(learnt, rows.to_pandas())
        assert checked(as_kind(rows, kind)) == checked(rows.to_pandas())


@pytest.mark.parametrize("kind", KINDS)
def test_only_columns_that_are_asked_for_are_read(kind):
    table = pa.table({"a": [1, 2], "b": ["x", "y"], "c": [0.5, None]})
    frame = frame_of(as_kind(table, kind), ["c"], ["a", "not there"])
    if kind in ("numpy", "nullable", "arrow-backed"):
        assert list(frame.columns) == ["a", "b", "c"]  # to choose some would copy them
    else:
        assert list(frame.columns) == ["a", "c"]
    with pytest.raises(
        ValueError, match=r"the table should be a table with the column 'd', got 'a', 'b', "
    ):
        frame_of(as_kind(table, kind), ["d"])


@pytest.mark.skipif(pd.__version__ < "3", reason="pandas 2 copies texts, and frames")
@pytest.mark.parametrize("kind", ["arrow-backed", "polars", "pyarrow"])
def test_memory_is_shared(kind):
    """Numbers, moments and texts are those of the table; only validity costs memory."""
    n = 50_000
    columns = {"x": np.arange(n) / 7, "n": np.arange(n), "t": np.arange(n).astype("M8[us]")}
    frame = as_kind(pa.table(columns), kind)
    before = pa.total_allocated_bytes()
    found = frame_of(frame)
    again = frame_of(frame)
    for name in columns:
        assert np.shares_memory(found[name].to_numpy(), again[name].to_numpy())
    texts = pa.table({"s": pa.array(["some text"] * n, pa.large_string())})
    (own,) = frame_of(texts)["s"].array.__arrow_array__().chunks
    assert own.buffers()[2].address == texts["s"].chunk(0).buffers()[2].address
    del texts, own
    assert pa.total_allocated_bytes() - before < n


def test_a_dictionary_with_a_level_twice_or_without_a_value_is_read_by_its_values():
    codes, levels = pa.array([0, 1, 2, None, 3], pa.uint8()), pa.array(["a", "a", None, "b"])
    table = pa.table({"town": pa.DictionaryArray.from_arrays(codes, levels)})
    found = frame_of(table)["town"]
    assert found[[0, 1, 4]].tolist() == ["a", "a", "b"]
    assert found.isna().tolist() == [False, False, True, True, False]


@pytest.mark.parametrize("kind", KINDS)
def test_results_come_back_in_the_library_of_the_table(kind):
    table = as_kind(pa.table({"id": pa.array([3, 1], pa.int16()), "x": [1.0, 2.0]}), kind)
    frame = frame_of(table)
    result = pd.DataFrame({"id": frame["id"].to_numpy()[::-1], "rank": [1, 2]})
    found = as_given(result, table, ["id", None])
    own = {"polars": pl.DataFrame, "pyarrow": pa.Table, "duckdb": pa.Table}
    assert isinstance(found, own.get(kind.split()[0], pd.DataFrame))
    assert len(found) == 2
    assert first_rows(found, 1)["id"].to_pylist() == [1] if isinstance(found, pa.Table) else True
    assert frame_of(found).to_dict("list") == {"id": [1, 3], "rank": [1, 2]}
    assert len(first_rows(found, 1)) == 1
    assert len(first_rows(found, 0)) == 0


def test_keys_have_the_types_of_the_table():
    days = [dt.date(2024, 1, 2), dt.date(2024, 1, 1)]
    table = pl.DataFrame({
        "level": pl.Series(["b", "a"], dtype=pl.Enum(["b", "a"])),
        "town": pl.Series(["Oslo", "Rome"], dtype=pl.Categorical),
        "day": days, "n": pl.Series([1, None], dtype=pl.UInt8), "arm": [1, 0],
        "cost": [Decimal("1.50"), Decimal("2.00")],
    })  # fmt: skip
    keys = [name for name in table.columns if name != "arm"]
    frame = frame_of(table)
    result = pd.DataFrame({name: frame[name].to_numpy() for name in keys} | {"arm": ["x", "y"]})
    found = as_given(result, table, keys)
    assert found.select(keys).equals(table.select(keys))
    assert dict(found.schema) == dict(table.schema) | {"arm": pl.String}
    assert table.lazy().join(found.lazy(), on="level").collect().height == 2
    for other in (table.to_arrow(), duckdb.from_arrow(table.select("day", "n", "arm").to_arrow())):
        arrow = other if isinstance(other, pa.Table) else other.to_arrow_table()
        own = [name for name in keys if name in arrow.column_names]
        back = as_given(result[own], other, own)
        assert back.schema.types == arrow.select(own).schema.types


class DataFrame:
    """Looks like one of Spark to nobody."""


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([[1.0, 2.0]], r"a frame with named columns, got list\. Pass a frame of pandas or polars"),
        (DataFrame(), r"got DataFrame\. Pass a frame of pandas"),
        ("rows.csv", "got str. Pass a frame .*; files are read by auucmax.data.read_table"),
        (pl.Series([1]), r"got Series\. Pass a frame"),
        (pa.table([[1], [2]], names=["a", "a"]), r"unique column names, got"),
        (lambda: duckdb.sql("SELECT 1 AS a, 2 AS a"), r"different names, got 'a' more than once"),
        (pd.DataFrame([[1, 2]], columns=["1", 1]), r"different names, got '1' more than once"),
    ],
)
def test_what_is_no_table_is_told(table, message):
    with pytest.raises(ValueError, match=message):
        frame_of(table() if callable(table) else table)
