from __future__ import annotations

from datetime import date

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auucmax.data.covariates import binned, encode


def test_encoding_of_every_type() -> None:
    X = pd.DataFrame(
        {
            "number": np.array([1, 2, 3], dtype=np.int16),
            "float": [1.0, np.inf, np.nan],
            "flag": [True, False, True],
            "nullable": pd.array([1, None, 3], dtype="Int64"),
            "maybe": pd.array([True, None, False], dtype="boolean"),
            "date": pd.to_datetime(["2020-01-01", None, "2020-01-03"]).tz_localize("UTC"),
            "wait": pd.to_timedelta([1, 2, None], "D"),
            "text": ["x", "y", None],
            "level": pd.Categorical(["u", "v", "u"], categories=["w", "v", "u"]),
            "mixed": np.array([1, "one", None], dtype=object),
            "objects": np.array([1.0, 2.0, None], dtype=object),
            "list": [[1], [2], [1]],
            "day": [date(2024, 1, 3), None, date(2024, 1, 1)],
            "never": pd.to_datetime([None, None, None]),
            "code": ["1", "1.0", "NA"],
            "empty": [None, None, None],
            "same": ["s", "s", "s"],
        }
    )
    features, skipped = encode(X)
    table = {}
    for feature in features:
        numbers = feature.numbers()
        table[feature.name] = numbers
        for k, level in enumerate(feature.levels):
            table[f"{feature.name}={level}"] = np.where(np.isnan(numbers), np.nan, numbers == k)
    assert table["number"].tolist() == [1, 2, 3]
    assert table["flag"].tolist() == [1, 0, 1]
    np.testing.assert_array_equal(table["float"], [1, np.nan, np.nan])
    np.testing.assert_array_equal(table["nullable"], [1, np.nan, 3])
    np.testing.assert_array_equal(table["maybe"], [1, np.nan, 0])
    np.testing.assert_array_equal(table["date"] - table["date"][0], [0, np.nan, 2])
    np.testing.assert_array_equal(table["wait"], [1, 2, np.nan])
    np.testing.assert_array_equal(table["objects"], [1, 2, np.nan])
    np.testing.assert_array_equal(table["text=x"], [1, 0, np.nan])
    np.testing.assert_array_equal(table["level=u"], [1, 0, 1])
    np.testing.assert_array_equal(table["list=[1]"], [1, 0, 1])
    np.testing.assert_array_equal(table["day"] - table["day"][2], [2, np.nan, 0])
    np.testing.assert_array_equal(table["code=1.0"], [0, 1, np.nan])
    assert "mixed=one" in table
    assert skipped == [
        "never (it has no values)",
        "empty (it has no values)",
        "same (it has only one value)",
    ]
    missing = {feature.name: feature.missing.tolist() for feature in features}
    assert missing["float"] == [False, True, True]
    assert missing["text"] == [False, False, True]


def test_rare_levels_are_pooled_and_identifiers_skipped() -> None:
    n = 1_000
    X = pd.DataFrame({"id": [f"u{i}" for i in range(n)], "shop": [f"s{i % 60}" for i in range(n)]})
    (shop,), skipped = encode(X)
    assert "id (it has 1,000 values, a different one in nearly every row)" in skipped
    assert len(shop.levels) == 31
    assert shop.levels[-1] == "(30 others)"
    assert np.bincount(shop.values, minlength=31).sum() == n


@pytest.mark.parametrize(
    "values", [["1.5", "2.5", "1.5"], [1j, 2j, 1j], [1, "one", 1], [10**400, 1, 1]]
)
def test_what_is_no_number_stays_a_level(values: list[object]) -> None:
    (feature,), _ = encode(pd.DataFrame({"x": pd.Series(values, dtype=object)}))
    assert len(feature.levels) == 2


def only(frame, **options):
    (found,) = binned(frame, **options)
    return found


def test_numbers_are_cut_at_rounded_quantiles():
    rng = np.random.default_rng(0)
    values = rng.gamma(2, 50, 10_000)
    found = only(pd.DataFrame({"money": values}))
    cuts = [float(cut.replace(",", "")) for cut in found.cuts]
    assert found.ordered
    assert 5 <= len(found.names) <= 6
    np.testing.assert_array_equal(found.code, np.searchsorted(cuts, values))
    assert all(round(cut, -1) == cut for cut in cuts)  # two digits of the spread
    assert found.counts().min() > 1000
    assert found.names[0] == f"up to {found.cuts[0]}"


def test_levels_two_values_booleans_dates_and_missing_values():
    frame = pd.DataFrame(
        {
            "shop": list("aaaabbbccd") * 10,
            "two": [0, 1] * 50,
            "is": [True, False] * 50,
            "day": pd.date_range("2026-01-01", periods=100),
            "age": [np.nan, 1.0, 2.0, 3.0] * 25,
            "one": [1] * 100,
            "id": [f"p{k}" for k in range(100)],
        }
    )
    found = {one.name: one for one in binned(frame, 3)}
    assert set(found) == {"shop", "two", "is", "day", "age"}
    assert found["shop"].names == ("a", "b", "others")
    assert found["two"].names == ("0", "1")
    assert found["is"].names == ("no", "yes")
    assert found["day"].names[0].startswith("up to 2026-0")
    assert found["age"].names == ("up to 1", "1 to 2", "over 2")
    assert (found["age"].code == np.tile([-1, 0, 1, 2], 25)).all()


def test_a_number_or_date_that_few_have_is_no_cut():
    rng = np.random.default_rng(0)
    dose, since = rng.choice([0.0, 1.0, 2.0, 5.0], 3_000), rng.choice([0, 366, 1096], 3_000)
    dose[7], since[9], born = 3.1416, 806, rng.integers(0, 15_000, 3_000)
    born[3] = -13_325  # 1913, the first by far: no other date may be told by its distance
    days = pd.Timestamp("1950-01-01") + pd.to_timedelta(born, "D")
    frame = pd.DataFrame(
        {
            "dose": dose,
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(since, "D"),
            "born": days,
        }
    )
    found = {one.name: one for one in binned(frame)}
    assert found["dose"].cuts == ("0", "1", "2")
    assert found["since"].cuts == ("2020-01-01", "2021-01-01")
    moved = frame.assign(born=days.where(np.arange(3_000) != 3, pd.Timestamp("1913-07-10")))
    assert {one.name: one for one in binned(moved)}["born"].cuts == found["born"].cuts


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 8), min_size=2, max_size=60), st.integers(1, 25), st.booleans())
def test_bins_of_few_rows_become_one_with_a_neighbour(values, least, ordered):
    column = pd.Series(values) if ordered else pd.Series([f"l{v}" for v in values])
    for one in binned(pd.DataFrame({"x": column, "y": range(len(values))}))[:1]:
        found = one.with_least(least)
        if found is None:
            assert len(values) < 2 * least or one.counts().min() < least
            continue
        assert found.counts().min() >= least
        assert found.counts().sum() == one.counts().sum()
        assert len(found.names) > 1
        if found.ordered:  # no two rows change places
            order = np.argsort(one.code, kind="stable")
            assert (np.diff(found.code[order]) >= 0).all()
