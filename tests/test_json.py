import json
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd
import pytest

from auucmax._json import plain, read


def test_plain_takes_what_numpy_and_pandas_give():
    value = {
        1: np.float32(0.5),
        "a": [np.inf, -np.inf, float("nan"), np.int8(3), np.bool_(True)],
        "b": pd.Series([1, 2]),
        "c": pd.Timestamp("2020-01-01"),
    }
    expected = {
        "1": 0.5,
        "a": [None, None, None, 3, True],
        "b": [1, 2],
        "c": "2020-01-01 00:00:00",
    }
    assert json.loads(json.dumps(plain(value), allow_nan=False)) == expected


@dataclass(frozen=True)
class Inner:
    names: tuple[str, ...]
    top: float | None = None


@dataclass(frozen=True)
class Outer:
    n: int
    inner: Inner
    is_on: bool = False


def test_dataclasses_are_read_back():
    known = Outer(3, Inner(("a", "b"), 0.5))
    again = json.loads(json.dumps(asdict(known)))
    assert read(Outer, again) == known
    assert read(Inner, {"names": [], "top": 2}) == Inner((), 2.0)


@pytest.mark.parametrize(
    "change",
    [
        {"n": 3.0},
        {"n": True},
        {"n": "3"},
        {"n": 2**60},
        {"is_on": 1},
        {"is_on": None},
        {"more": 1},
        {"inner": None},
        {"inner": {"names": "ab", "top": None}},
        {"inner": {"names": ["a", 1], "top": None}},
        {"inner": {"names": ["a"]}},
        {"inner": {"names": ["a"], "top": "high"}},
        {"inner": {"names": ["a"], "top": 1e300}},
        {"inner": {"names": ["a"], "top": float("nan")}},
    ],
    ids=str,
)
def test_anything_else_is_refused(change):
    with pytest.raises(ValueError, match="should"):
        read(Outer, {"n": 3, "inner": {"names": ["a"], "top": 1.0}, "is_on": False} | change)


def test_entries_that_may_have_others():
    kind = {"a": int, ...: ...}
    assert read(kind, {"a": 1, "b": [None]}) == {"a": 1, "b": [None]}
    for wrong in ({"b": 1}, [], {"a": None}):
        with pytest.raises(ValueError, match="should"):
            read(kind, wrong)


def test_names_of_a_file_do_not_steer_a_terminal():
    for kind, value in (({"a": int}, {"a": 1, "\x1b[2J": 1}), ({"\x1b[2J": int}, {"\x1b[2J": ""})):
        with pytest.raises(ValueError, match=r"\ufffd.2J"):
            read(kind, value)
