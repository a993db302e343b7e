from __future__ import annotations

import dataclasses
from datetime import date
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from auucmax.data.balance import _centred
from auucmax.data.covariates import encode


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
    np.testing.assert_array_equal(table["date"], [0, np.nan, 2])
    np.testing.assert_array_equal(table["wait"], [1, 2, np.nan])
    np.testing.assert_array_equal(table["objects"], [1, 2, np.nan])
    np.testing.assert_array_equal(table["text=x"], [1, 0, np.nan])
    np.testing.assert_array_equal(table["level=u"], [1, 0, 1])
    np.testing.assert_array_equal(table["list=[1]"], [1, 0, 1])
    np.testing.assert_array_equal(table["day"], [2, np.nan, 0])
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


OBJECTS = {
    "decimals": [Decimal("1.5"), Decimal("-2"), Decimal("1.5"), None],
    "fractions": [Fraction(3, 2), Fraction(-2), Fraction(3, 2), None],
    "mixed": [1.5, Decimal(-2), Fraction(3, 2), pd.NA],
    "undefined": [Decimal("1.5"), np.int8(-2), np.float32(1.5), Decimal("NaN")],
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_numbers_of_every_type_are_numbers(kind: str) -> None:
    (feature,), _ = encode(pd.DataFrame({"x": pd.Series(OBJECTS[kind], dtype=object)}))
    assert feature.levels == ()
    np.testing.assert_array_equal(feature.numbers(slice(None)), [1.5, -2, 1.5, np.nan])


@pytest.mark.parametrize(
    "values", [["1.5", "2.5", "1.5"], [1j, 2j, 1j], [1, "one", 1], [10**400, 1, 1]]
)
def test_what_is_no_number_stays_a_level(values: list[object]) -> None:
    (feature,), _ = encode(pd.DataFrame({"x": pd.Series(values, dtype=object)}))
    assert len(feature.levels) == 2


def test_a_column_of_decimals_is_no_identifier() -> None:
    prices = [Decimal(i) / 7 for i in range(1_000)]
    assert encode(pd.DataFrame({"price": prices}))[1] == []


def test_ranks_share_ties_and_leave_gaps_and_levels_are_centred() -> None:
    X = pd.DataFrame(
        {
            "x": [3.0, 1e300, 3.0, np.nan, -7.0, np.inf],
            "flag": [True, False, True, True, False, False],
            "zone": ["a", "b", "a", None, "b", "b"],
        }
    )
    features, _ = encode(X)
    x, flag, zone = (_centred(feature)(slice(0, 6)) for feature in features)
    # Ranks 2.5, 4, 2.5, 1 of four values, less their mean 2.5, over 4.
    np.testing.assert_allclose(x[:, 0], [0, 0.375, 0, 0, -0.375, 0])
    np.testing.assert_allclose(flag[:, 0], np.where(X["flag"], 0.25, -0.25))
    np.testing.assert_allclose(zone[:, 0], [-0.6, 0.4, -0.6, 0, 0.4, 0.4])  # "b", in 3 of 5 rows
    assert features[0].values[1] == 1e300
    nothing = dataclasses.replace(features[0], values=np.array([np.nan, np.inf]))
    assert (_centred(nothing)(slice(0, 2)) == 0).all()
