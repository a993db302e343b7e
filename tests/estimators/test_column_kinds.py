"""What columns hold, by their type or by their values."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from auucmax.estimators.column_kinds import KINDS, kind_of, numbers_of

COLUMNS = {
    "number": [
        [1, 2], [1.5, None], pd.Series([1, None], dtype="Int64"), [Decimal("1.5"), None],
        pd.Series([1, 2.5], dtype=object),
    ],
    "boolean": [
        [True, False], pd.Series([True, None], dtype="boolean"),
        pd.Series([True, None], dtype=object),
    ],
    "category": [["a", None], pd.Series(["a", "b"], dtype="category"), ["true", "false"]],
    "date": [
        [datetime.date(2024, 1, 1)], pd.to_datetime(["2024-01-01", None]),
        pd.to_datetime(["2024-01-01"]).tz_localize("Asia/Tokyo"),
    ],
    "empty": [[None, None], [np.nan], []],
}  # fmt: skip


@pytest.mark.parametrize("kind", list(COLUMNS))
def test_kinds(kind):
    assert kind in (*KINDS, "empty")
    for values in COLUMNS[kind]:
        assert kind_of(pd.Series(values)) == kind


def test_columns_of_several_kinds_or_of_others_are_refused():
    for values in ([1, "a"], [True, "a"], [1j], [b"a"], [{}]):
        with pytest.raises(ValueError, match="column 'c' should hold numbers, texts, booleans"):
            kind_of(pd.Series(values, name="c", dtype=object))


def test_numbers():
    assert numbers_of(pd.Series([True, False]), "boolean").tolist() == [1, 0]
    moments = pd.Series(pd.to_datetime(["1970-01-02 12:00", None]))
    np.testing.assert_array_equal(numbers_of(moments, "date"), [1.5, np.nan])
    with pytest.raises(ValueError, match="column 'c' should hold finite numbers, got 1 infinite"):
        numbers_of(pd.Series([1.0, -np.inf], name="c"), "number")
