"""Small raw tables of all kinds of columns, for tests with hypothesis."""

import datetime

import pandas as pd
from hypothesis import strategies as st

TOWNS = ["Oslo", "Rome", "", "NaN", "'quoted\"", "日本", "1", "1.0", "1.50", "True", "true", "-0"]
LATEST = datetime.datetime(2100, 1, 1)


def column_of(kind, n):
    """A strategy for a column of a kind, with missing values."""
    plain = {
        "number": st.one_of(st.none(), st.floats(-1e6, 1e6), st.integers(-5, 5)),
        "integer": st.integers(-3, 3),
        "code": st.one_of(st.none(), st.sampled_from([-1, 0, 7, 12])),
        "boolean": st.booleans(),
        "maybe": st.one_of(st.none(), st.booleans()),
        "text": st.one_of(st.none(), st.sampled_from(TOWNS)),
        "category": st.one_of(st.none(), st.sampled_from(["a", "b", "c"])),
        "date": st.one_of(st.none(), st.datetimes(datetime.datetime(1900, 1, 1))),
        "day": st.one_of(st.none(), st.dates()),
        "decimal": st.one_of(st.none(), st.decimals(-99, 99, places=2)),
        "zoned": st.one_of(st.none(), st.datetimes(datetime.datetime(1950, 1, 1), LATEST)),
    }[kind]
    values = st.lists(plain, min_size=n, max_size=n)
    made = {
        "number": lambda v: pd.Series(v, dtype="float64"),
        "integer": lambda v: pd.Series(v, dtype="int64"),
        "code": lambda v: pd.Series(v, dtype="Int64"),
        "boolean": lambda v: pd.Series(v, dtype="bool"),
        "maybe": lambda v: pd.Series(v, dtype="boolean"),
        "category": lambda v: pd.Series(pd.Categorical(v, categories=["c", "a", "b", "z"])),
        "date": lambda v: pd.Series(v, dtype="datetime64[us]"),
        "zoned": lambda v: pd.Series(v, dtype="datetime64[us, UTC]").dt.tz_convert("Asia/Tokyo"),
    }
    return values.map(made.get(kind, lambda v: pd.Series(v, dtype=object)))


KINDS = ["number", "integer", "code", "boolean", "maybe", "text", "category", "date", "day",
         "decimal", "zoned"]  # fmt: skip


@st.composite
def tables(draw, min_rows=2):
    n = draw(st.integers(min_rows, 14))
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))
    return pd.DataFrame({f"{kind} {k}": draw(column_of(kind, n)) for k, kind in enumerate(kinds)})
