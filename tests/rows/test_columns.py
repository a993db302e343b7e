"""Arrow columns as rows of a trial: arms by their values, whatever the type; types of the roles."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from auucmax.data.table_errors import TableError
from auucmax.encoding.texts import arm_text
from auucmax.rows.arrow import ArrowColumns

X, Y = pa.array([1.0, 2.0, 3.0, 4.0]), pa.array([0, 1, 1, 0])
DAYS = [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2), None, datetime.date(2024, 1, 3)]
PRICES = [Decimal("0.00"), Decimal("1.00"), None, Decimal("1.50")]


def table(arms: pa.Array, outcome: pa.Array = Y) -> pa.Table:
    return pa.table({"x": X, "y": outcome, "t": arms})


def rows_of(given: pa.Table, **arms) -> ArrowColumns:
    return ArrowColumns.of(given.schema, ["x"], "y", "t", **arms)


def treated_and_keys(given: pa.Table, **arms) -> tuple[list[bool], list[int]]:
    keys = np.arange(given.num_rows, dtype=np.uint64)
    batch = rows_of(given, **arms).batch(given, keys)
    return batch.treated.tolist(), batch.keys.tolist()


# Rows: control, treated, missing, another arm; and other ways to write its two labels.
ARMS = {
    "booleans": (
        pa.array([False, True, None, None]),
        [(True, False), ("true", "false"), ("TRUE", "False")],
    ),
    "texts of booleans": (
        pa.array(["False", "TRUE", None, "no"]),
        [(True, False), ("true", "false")],
    ),
    "integers": (
        pa.array([0, 1, None, 2], pa.int8()),
        [(1, 0), (1.0, 0.0), ("1", "0"), (Decimal("1.0"), -0.0)],
    ),
    "floats": (pa.array([0.0, 1.0, None, 1.5]), [(1, 0), ("1", "0"), (np.float32(1), np.int8(0))]),
    "single floats": (pa.array([0.1, 0.2, None, 0.3], pa.float32()), [(0.2, 0.1), ("0.2", "0.1")]),
    "half floats": (pa.array(np.array([0, 1, 2, 3], np.float16)), [(1, 0)]),
    "negative zero": (pa.array([-0.0, 1.0, None, np.nan]), [(1, 0)]),
    "decimals": (
        pa.array(PRICES, pa.decimal128(5, 2)),
        [(1, 0), ("1", "0"), (1.0, Decimal("0.000"))],
    ),
    "texts": (pa.array(["none", "mail", None, "phone"]), [("mail", "none")]),
    "long texts": (
        pa.array(["none", "mail", None, "phone"], pa.large_string()),
        [("mail", "none")],
    ),
    "views of texts": (
        pa.array(["none", "mail", None, "phone"], pa.string_view()),
        [("mail", "none")],
    ),
    "categories": (
        pa.array(["none", "mail", None, "phone"]).dictionary_encode(),
        [("mail", "none")],
    ),
    "categories of numbers": (pa.array([0, 1, None, 2]).dictionary_encode(), [(1.0, "0")]),
    "a missing category": (
        pa.DictionaryArray.from_arrays(
            pa.array([0, 1, 2, 3], pa.uint8()), pa.array(["a", "b", None, "c"])
        ),
        [("b", "a")],
    ),
    "dates": (pa.array(DAYS), [(DAYS[1], DAYS[0]), ("2024-01-02", "2024-01-01")]),
}


@pytest.mark.parametrize("case", ARMS)
def test_arms_are_known_by_their_value_whatever_its_type(case):
    column, labels = ARMS[case]
    for treated, control in labels:
        found = treated_and_keys(table(column), treated=treated, control=control)
        assert found == ([False, True], [0, 1])
        one_more = pa.concat_tables([table(column)] * 2)  # a column in two pieces
        again = treated_and_keys(one_more, treated=treated, control=control)
        assert again == ([False, True] * 2, [0, 1, 4, 5])
        swapped = treated_and_keys(table(column), treated=control, control=treated)
        assert swapped == ([True, False], [0, 1])


def test_missing_arms_are_no_arm_of_that_name():
    given = table(pa.array(["None", "nan", None, "1"]))
    assert treated_and_keys(given, treated="None", control="nan") == ([True, False], [0, 1])


def test_labels_are_kept_as_texts():
    found = rows_of(table(pa.array([0, 1, 2, 3])), treated=1.0, control=False)
    assert (found.treated, found.control) == ("1", "false")
    assert arm_text(found.treated) == found.treated  # they may pass here twice


@pytest.mark.parametrize(("treated", "control"), [(1, "1"), (1.0, 1), (True, "True"), ("a", "a")])
def test_two_arms_are_two_values(treated, control):
    with pytest.raises(TableError, match=r"should be two values, got .* and .*Name both arms"):
        rows_of(table(pa.array([0, 1, 2, 3])), treated=treated, control=control)


@pytest.mark.parametrize(
    "outcome",
    [
        pa.array(["0", "1", "1", "0"]),
        pa.array([datetime.date(2024, 1, 1)] * 4),
        pa.array([datetime.datetime(2024, 1, 1)] * 4),
        pa.array([[0.0]] * 4),
        pa.array([{"value": 1}] * 4),
        pa.nulls(4),
        pa.array(["0", "1", "1", "0"]).dictionary_encode(),
    ],
    ids=lambda column: str(column.type)[:10],
)
def test_outcomes_are_numbers(outcome):
    given = table(pa.array([0, 1, 1, 0]), outcome)
    with pytest.raises(
        TableError, match=r"'y' should hold numbers or booleans.*Convert it"
    ) as said:
        rows_of(given)
    assert "\n" not in str(said.value)


@pytest.mark.parametrize("kind", [pa.bool_(), pa.uint8(), pa.int64(), pa.float16(), pa.float64()])
def test_numbers_and_booleans_are_outcomes(kind):
    given = table(pa.array([0, 1, 1, 0]), Y.cast(pa.float32()).cast(kind))
    y = rows_of(given).batch(given, np.arange(4, dtype=np.uint64)).y
    assert (y.dtype, y.tolist()) == (np.float64, [0, 1, 1, 0])


def test_decimals_are_outcomes():
    price = pa.array([Decimal("0.10"), Decimal("1.00"), Decimal("-2.50"), Decimal(0)])
    given = table(pa.array([0, 1, 1, 0]), price)
    y = rows_of(given).batch(given, np.arange(4, dtype=np.uint64)).y
    assert y.tolist() == [0.1, 1, -2.5, 0]


@pytest.mark.parametrize(
    ("value", "said"),
    [(np.inf, "infinite"), (-np.inf, "infinite"), (np.nan, "missing"), (None, "missing")],
)
def test_outcomes_are_finite(value, said):
    given = table(pa.array([0, 1, 1, 0]), pa.array([0.0, value, 1.0, 1.0]))
    with pytest.raises(TableError, match=f"'y' should have a finite number .*, got an? {said}"):
        rows_of(given).batch(given, np.arange(4, dtype=np.uint64))
    # Of rows that are left out, nothing is asked.
    named = rows_of(given, treated=0, control=7)
    assert named.batch(given, np.arange(4, dtype=np.uint64)).y.tolist() == [0, 1]


@pytest.mark.parametrize(
    "arms",
    [
        pa.array(["0", "1", "1", "0"]),
        pa.array(["0", "1", "1", "0"]).dictionary_encode(),
        pa.array([datetime.date(2024, 1, 1)] * 4),
    ],
    ids=lambda column: str(column.type)[:10],
)
def test_arms_of_other_types_are_named(arms):
    with pytest.raises(TableError, match=r"'t' should be 0 or 1 .* treated= and control=") as said:
        rows_of(table(arms))
    assert "\n" not in str(said.value)


@pytest.mark.parametrize("arms", [pa.array([[0]] * 4), pa.array([{"a": 1}] * 4), pa.nulls(4)])
@pytest.mark.parametrize("named", [{}, {"treated": 1, "control": 0}])
def test_arms_are_single_values(arms, named):
    with pytest.raises(TableError, match="'t' should hold numbers, booleans, texts or dates"):
        rows_of(table(arms), **named)


def test_treatment_and_outcome_are_two_columns():
    given = table(pa.array([0, 1, 1, 0]))
    with pytest.raises(TableError, match="should be two columns, got 't' for both"):
        ArrowColumns.of(given.schema, ["x"], "t", "t")
    score = ArrowColumns.of(given.schema, ["y"], "y", "t")  # evaluated as the outcome of itself
    assert score.columns == ("y", "y", "t")


def test_arms_in_short_decimals():
    arms = pa.array([Decimal("1.00"), Decimal("0.00"), None], pa.decimal128(5, 2))
    table = pa.table({"x": [0.0, 1, 2], "y": [0, 1, 0], "t": arms.cast(pa.decimal64(5, 2))})
    rows = ArrowColumns.of(table.schema, ["x"], "y", "t", treated=1, control="0")
    found = rows.batch(table, np.arange(3, dtype=np.uint64))
    assert found.treated.tolist() == [True, False]
    assert found.keys.tolist() == [0, 1]
