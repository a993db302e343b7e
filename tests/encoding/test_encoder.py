"""Raw tables as features: equal to the slow definition, whatever the order of rows and columns."""

import datetime
import json
from decimal import Decimal
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from tests.encoding.reference import encode_slow
from tests.encoding.tables import tables

from auucmax.data.reading import read_table
from auucmax.encoding import encoder as encoder_module
from auucmax.encoding.columns import Column, Term
from auucmax.encoding.encoder import TableEncoder
from auucmax.encoding.kinds import MISSING_TEXTS

pytestmark = pytest.mark.filterwarnings("ignore:columns should tell rows apart")


def fitted(frame, **options):
    """The encoder, or None if no column tells the rows apart."""
    try:
        return TableEncoder(**options).fit(frame)
    except ValueError as error:
        assert "should have a column that tells rows apart" in str(error)  # noqa: PT017
        return None


OPTIONS = st.fixed_dictionaries(
    {"max_levels": st.integers(1, 4), "min_level_rows": st.integers(1, 3)}
)


@settings(max_examples=60, deadline=None)
@given(tables(), OPTIONS, st.randoms(use_true_random=False))
def test_transform_is_the_slow_definition(frame, options, random):
    encoder = fitted(frame, **options)
    if encoder is None:
        return
    features = encoder.transform(frame)
    assert features.dtype == np.float64
    assert features.shape == (len(frame), len(encoder.terms_))
    assert np.isfinite(features).all()
    np.testing.assert_allclose(features, encode_slow(frame, encoder), rtol=1e-12, atol=1e-9)
    with patch.object(encoder_module, "_BLOCK", 3):  # rows are written in blocks
        np.testing.assert_array_equal(encoder.transform(frame), features)
    # Neither the order of rows nor that of columns matters.
    rows = list(range(len(frame)))
    random.shuffle(rows)
    names = list(frame.columns)
    random.shuffle(names)
    np.testing.assert_array_equal(encoder.transform(frame[names].iloc[rows]), features[rows])
    again = TableEncoder(**options).fit(frame.iloc[rows])
    assert again.terms_ == encoder.terms_
    assert again.columns_ == encoder.columns_


@settings(max_examples=40, deadline=None)
@given(tables(), OPTIONS)
def test_json_round_trip(frame, options):
    encoder = fitted(frame, **options)
    if encoder is None:
        return
    text = json.dumps(encoder.to_dict(), allow_nan=False)
    again = TableEncoder.from_dict(json.loads(text))
    assert again.terms_ == encoder.terms_
    assert again.columns_ == encoder.columns_
    assert again.get_params() == encoder.get_params()
    np.testing.assert_array_equal(again.transform(frame), encoder.transform(frame))
    assert json.dumps(again.to_dict()) == json.dumps(encoder.to_dict())


def small(**columns):
    return pd.DataFrame(columns)


def test_numbers_dates_and_booleans():
    frame = small(
        age=[30.0, None, 50, 40],
        seen=pd.to_datetime(["1970-01-02 12:00", "1969-12-31 12:00", None, "1970-01-03 12:00"]),
        ok=[True, False, True, True],
    )
    encoder = TableEncoder(min_level_rows=1, numeric=["age"]).fit(frame)
    assert encoder.get_feature_names_out().tolist() == [
        "age", "age: missing", "seen", "seen: missing", "ok",
    ]  # fmt: skip
    np.testing.assert_array_equal(
        encoder.transform(frame),
        [[30, 0, 1.5, 0, 1], [40, 1, -0.5, 0, 0], [50, 0, 1.5, 1, 1], [40, 0, 2.5, 0, 1]],
    )
    assert encoder.columns_[0] == Column("age", "number", has_missing=True, fill=40.0)
    assert encoder.terms_[1] == Term("missing", "age", None, 0.0, "age: missing")


def test_new_levels():
    frame = small(town=["a", "b"] * 5, age=range(10))
    new = small(town=["a", "new", "newer", "new"], age=[1, 2, 3, 4])
    strict = TableEncoder(min_level_rows=1).fit(frame)
    with pytest.raises(ValueError, match=r"column 'town'.*got 'new', 'newer' in 3 rows.*'other'"):
        strict.transform(new)
    told = (
        r"'town' should mostly hold levels of training, 'a', 'b'; got other values in 75% .*'new'"
    )
    lenient = clone(strict).set_params(new_levels="other").fit(frame)
    with pytest.warns(UserWarning, match=told):
        features = lenient.transform(new)
    np.testing.assert_array_equal(features[:, :2], [[1, 0], [0, 0], [0, 0], [0, 0]])
    with_other = TableEncoder(min_level_rows=2).fit(small(town=["a", "b"] * 5 + ["c", "d"]))
    with pytest.warns(UserWarning, match=told):
        features = with_other.transform(new[["town"]])
    np.testing.assert_array_equal(features[:, 2], [0, 1, 1, 1])


def test_levels_that_only_rows_kept_apart_have_are_accepted():
    frame = small(town=["a", "b"] * 5, size=["s", "l"] * 5)
    kept = small(town=["rare", "a"], size=["s", "l"])
    encoder = TableEncoder(min_level_rows=1).fit(frame)
    before = encoder.transform(frame)
    encoder.accept(kept)
    np.testing.assert_array_equal(encoder.transform(frame), before)
    np.testing.assert_array_equal(encoder.transform(kept), [[0, 0, 0, 1], [1, 0, 1, 0]])
    np.testing.assert_array_equal(encoder.transform(kept), encode_slow(kept, encoder))
    with pytest.raises(ValueError, match="column 'size'"):
        encoder.transform(small(town=["a"], size=["x"]))
    nothing = small(town=["NA", ""], size=["", "s"])
    again = TableEncoder(min_level_rows=1).fit(frame).accept(nothing)
    assert [column.takes_new for column in again.columns_] == [False, False]
    assert [column.takes_new for column in encoder.columns_] == [True, False]


SAME = {
    "whole numbers": [1, 2, None],
    "floats": [1.0, 2.0, np.nan],
    "decimals": [Decimal("1.00"), Decimal("2"), None],
    "a mix": [1, "2", None],
    "another mix": [Decimal("1.0"), 2.0, "NA"],
    "texts with zeros": ["1.0", "2.00", "null"],
}


@pytest.mark.parametrize("values", list(SAME.values()), ids=list(SAME))
@pytest.mark.parametrize("rare", [True, False])
def test_equal_values_are_one_level_whatever_their_type(values, rare):
    train = small(code=["1", "2", None] * 2 + ["x"] * rare)
    encoder = TableEncoder(min_level_rows=2).fit(train)
    new = small(code=pd.Series(values, dtype=None if values == SAME["floats"] else object))
    expected = encoder.transform(train[:3])
    assert expected[:, [0, 1, -1]].tolist() == np.eye(3).tolist()
    np.testing.assert_array_equal(encoder.transform(new), expected)
    np.testing.assert_array_equal(encode_slow(new, encoder), expected)


ANSWERS = {
    "booleans": [True, False, True, None],
    "a bool dtype": pd.Series([True, False, True, None], dtype="boolean"),
    "whole numbers": [1, 0, 1, None],
    "floats": [1.0, -0.0, 1.0, np.nan],
    "as DuckDB writes": ["true", "false", "true", ""],
    "as pandas writes": ["True", "False", "True", None],
    "as R writes": ["TRUE", "FALSE", "TRUE", "NA"],
    "texts of numbers": ["1", "0", "1.0", "null"],
    "a category": pd.Series(["True", "False", "True", None], dtype="category"),
    "a mix": [True, "false", "1", None],
}


@pytest.mark.parametrize("values", list(ANSWERS.values()), ids=list(ANSWERS))
@pytest.mark.parametrize("gaps", [True, False])
def test_a_boolean_is_the_same_from_all_files(values, gaps):
    train = small(ok=pd.Series([True, False, False, None if gaps else True], dtype="boolean"))
    encoder = TableEncoder(min_level_rows=1).fit(train)
    assert encoder.columns_[0].kind == "boolean"
    new = small(ok=values)
    expected = [[1, 0], [0, 0], [1, 0], [0, 1]] if gaps else [[1], [0], [1], [0.5]]
    np.testing.assert_array_equal(encoder.transform(new), expected)
    np.testing.assert_array_equal(encode_slow(new, encoder), expected)


@pytest.mark.parametrize(
    ("values", "digits"),
    [
        ([1.0, 1e16], 53),
        (np.array([1, 2**24], dtype=np.float32), 24),
        (pd.Series(["1", -(2.0**53)], dtype=object), 53),
    ],
)
def test_floats_that_stand_for_several_whole_numbers(values, digits):
    encoder = TableEncoder(min_level_rows=1, new_levels="other")
    encoder.fit(small(code=["1", "1e+16", "10000000000000000"]))
    with pytest.raises(ValueError, match=rf"column 'code' should hold floats below 2\^{digits}"):
        encoder.transform(small(code=values))
    encoder.transform(small(code=[10**16, 1]))


@pytest.mark.parametrize("text", MISSING_TEXTS)
def test_texts_that_stand_for_nothing_are_missing_wherever_they_come_from(text, tmp_path):
    train = small(town=["a", text, "b"] * 20, size=["s", "l", "m"] * 20)
    encoder = TableEncoder().fit(train)
    assert encoder.columns_[0] == Column("town", "category", ("a", "b"), has_missing=True)
    train.to_csv(tmp_path / "rows.csv", index=False)
    train.to_parquet(tmp_path / "rows.parquet")
    for name in ("rows.csv", "rows.parquet"):
        rows = read_table(tmp_path / name)
        assert TableEncoder().fit(rows).columns_ == encoder.columns_
        np.testing.assert_array_equal(encoder.transform(rows), encoder.transform(train))
    np.testing.assert_array_equal(encoder.transform(train)[1, :3], [0, 0, 1])


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ({"town": ["a", datetime.date(2024, 1, 1)]}, "column 'town' should hold numbers, texts"),
        ({"n": ["1", "two"]}, "column 'n' should hold numbers as in training, got texts.*'1'"),
        ({"ok": [2, 0]}, "'ok' should hold booleans as in training, got numbers such as '2.0'"),
        ({"ok": ["true", "yes"]}, "'ok' should hold booleans as in training, got texts .* 'yes'"),
        ({"ok": [True, "t"]}, "'ok' should hold booleans as in training, got texts such as 't'"),
        ({"ok": [True, 2]}, "'ok' should hold booleans as in training, got texts such as '2'"),
        (
            {"n": pd.to_datetime(["2006-04-12", "2006-04-13"])},
            "'n' should hold numbers as in training, got dates such as '2006-04-12 00:00:00'",
        ),
        ({"day": [1, 2]}, "'day' should hold dates as in training, got numbers such as '1'\\."),
        ({"n": [1.0, np.inf]}, "column 'n' should be finite numbers, got 1 infinite"),
        ({"n": [1, "a"]}, "column 'n' should hold numbers, texts, booleans or dates, and one"),
        ({"n": [1j, 2j]}, "column 'n' should hold numbers, texts, booleans or dates, and one"),
        ({"town": [b"a", b"b"]}, "column 'town' should hold numbers, texts, booleans or dates"),
    ],
)
def test_other_kinds_than_in_training(new, message):
    frame = small(
        n=[1, 2],
        ok=[True, False],
        day=pd.to_datetime(["2024-01-01", "2024-01-02"]),
        town=["a", "b"],
    )
    encoder = TableEncoder(min_level_rows=1).fit(frame)
    changed = frame.assign(**{k: pd.Series(v) for k, v in new.items()})
    with pytest.raises(ValueError, match=message):
        encoder.transform(changed)


def test_columns_by_name():
    frame = small(age=[1, 2, 3], town=["a", "b", "a"])
    encoder = TableEncoder(min_level_rows=1).fit(frame)
    more = frame.assign(extra=[1j, 2, 3])
    np.testing.assert_array_equal(encoder.transform(more), encoder.transform(frame))
    with pytest.raises(
        ValueError, match=r"should be a table with the column 'age', got.*Rename 'Age'"
    ):
        encoder.transform(frame.rename(columns={"age": "Age"}))
    twice = pd.concat([frame, frame[["age"]]], axis=1)
    with pytest.raises(ValueError, match="'age' more than once"):
        encoder.transform(twice)
    with pytest.raises(ValueError, match="frame with named columns, got ndarray"):
        encoder.transform(np.zeros((2, 2)))


def test_columns_that_say_nothing_are_dropped_and_named():
    frame = small(one=[7] * 6, none=[None] * 6, same=["a"] * 6, age=range(6), key=list("abcdef"))
    encoder = TableEncoder(min_level_rows=2)
    with pytest.warns(UserWarning, match=r"'one', 'same' with one value; 'none' without values"):
        encoder.fit(frame)
    assert set(encoder.dropped_) == {"one", "none", "same", "key"}
    assert encoder.dropped_["key"] == "with rare levels only"
    assert [column.name for column in encoder.columns_] == ["age"]
    np.testing.assert_array_equal(encoder.transform(frame[["age"]])[:, 0], range(6))
    with pytest.raises(ValueError, match="should have a column that tells rows apart"):
        TableEncoder().fit(frame[["one"]])


def broken():
    """Changes that make of a good dictionary one that no encoder wrote."""
    yield lambda d: d.pop("columns")
    yield lambda d: d.update(parameters={"max_levels": 3, "code": "x"})
    yield lambda d: d["parameters"].update(max_levels="3")
    yield lambda d: d["columns"][0].update(kind="function")
    yield lambda d: d["columns"][0].update(fill=float("nan"))
    yield lambda d: d["columns"][0].update(fill=None)
    yield lambda d: d["columns"][1].update(levels=["a", "a"])
    yield lambda d: d["columns"][1].update(levels=[1, 2])
    yield lambda d: d["columns"][1].update(levels=None)
    yield lambda d: d["columns"][1].update(name="age")
    yield lambda d: d["columns"][0].update(has_missing="yes")
    yield lambda d: d["columns"][1].update(other_share=1.5)
    yield lambda d: d["columns"][1].update(other_share="0")
    yield lambda d: d["columns"].append(3)
    yield lambda d: d["columns"][0].update(varies=False)  # then it would have no feature
    yield lambda d: d["columns"][1].update(levels=["a"])
    yield lambda d: d["columns"][1].update(takes_new=1)
    yield lambda d: d["columns"][1].update(fill=1.0)
    yield lambda d: d["columns"].clear()
    yield lambda d: d.update(columns=7)


@pytest.mark.parametrize("spoil", list(broken()))
def test_a_dictionary_that_no_encoder_wrote(spoil):
    encoder = TableEncoder(min_level_rows=1).fit(small(age=[1.0, 2, 3], town=["a", "b", "a"]))
    plain = json.loads(json.dumps(encoder.to_dict()))
    TableEncoder.from_dict(plain)
    spoil(plain)
    with pytest.raises(ValueError, match="an encoder should be what to_dict returns"):
        TableEncoder.from_dict(plain)


PLANS = small(plan=[1, 2, 7, 2] * 20 + [8, 9] * 11, x=np.linspace(0, 1, 102))


def test_few_whole_numbers_are_levels():
    encoder = TableEncoder().fit(PLANS)
    assert encoder.columns_[0] == Column(
        "plan", "code", ("1", "2", "7"), other_share=22 / 102, takes_new=True
    )
    names = encoder.get_feature_names_out().tolist()
    assert names == ["plan=1", "plan=2", "plan=7", "plan: other", "x"]
    assert encoder.code_columns == ["plan"]
    assert encoder.transform(PLANS)[:, :4].sum(axis=0).tolist() == [20, 40, 20, 22]


@pytest.mark.parametrize(
    "dtype", ["int8", "int64", "uint16", "float32", "float64", "Int32", object]
)
@pytest.mark.parametrize("file", [None, "rows.csv", "rows.parquet"])
def test_codes_are_the_same_of_all_types_and_files(dtype, file, tmp_path):
    frame = small(plan=PLANS["plan"].astype(dtype), x=PLANS["x"])
    if file == "rows.csv":
        frame.to_csv(tmp_path / file, index=False)
    elif file:
        frame.to_parquet(tmp_path / file)
    rows = read_table(tmp_path / file) if file else frame
    encoder = TableEncoder().fit(rows)
    assert encoder.columns_ == TableEncoder().fit(PLANS).columns_
    np.testing.assert_array_equal(encoder.transform(rows), encoder.transform(PLANS))


@pytest.mark.parametrize("rare", [True, False])
def test_a_new_number_is_no_error_and_counts_to_no_level(rare):
    train = PLANS if rare else PLANS[:80]
    encoder = TableEncoder().fit(train)
    new = small(plan=[2, 55, 1.0, None, 2.5, 7, 7, 7], x=0.5)
    expected = np.zeros((8, 4 if rare else 3))
    expected[[0, 2, 5, 6, 7], [1, 0, 2, 2, 2]] = 1
    expected[[1, 4], 3:] = 1
    np.testing.assert_array_equal(encoder.transform(new)[:, :-1], expected)
    np.testing.assert_array_equal(encode_slow(new, encoder), encoder.transform(new))
    huge = small(plan=[2, 1, 1e300, -(2.0**60)], x=0.5)
    np.testing.assert_array_equal(encode_slow(huge, encoder), encoder.transform(huge))
    flags = small(plan=[True, False, True], x=0.5)  # 1 and 0
    np.testing.assert_array_equal(encoder.transform(flags)[:, 0], [1, 0, 1])
    with pytest.warns(UserWarning, match="'plan' should mostly hold levels .* got other .* 100%"):
        encoder.transform(small(plan=range(55, 65), x=0.5))
    with pytest.raises(ValueError, match="'plan' should hold numbers as in training, got texts"):
        encoder.transform(small(plan=["2", "gold"], x=0.5))
    with pytest.raises(ValueError, match="finite numbers, got 1 infinite"):
        encoder.transform(small(plan=[2, np.inf], x=0.5))


def test_columns_that_the_user_decides_on():
    frame = PLANS.assign(shop=[10.5, 20, 30] * 34, ok=[True, False, True] * 34)
    encoder = TableEncoder(numeric=["plan"], categorical=["shop", "ok"]).fit(frame)
    assert encoder.code_columns == []
    assert encoder.get_feature_names_out().tolist() == [
        "plan", "x", "shop=10.5", "shop=20", "shop=30", "ok=false", "ok=true",
    ]  # fmt: skip
    # What was a number in training takes others, what was a text or a boolean does not.
    new = small(plan=[8, 2], x=0.5, shop=[20, 40], ok=[True, True])
    features = encoder.transform(new)
    np.testing.assert_array_equal(features[:, 2:5], [[0, 1, 0], [0, 0, 0]])
    np.testing.assert_array_equal(features, encode_slow(new, encoder))
    texts = new.assign(shop=["20.0", "A1"])  # a shop of another kind makes a CSV column of texts
    np.testing.assert_array_equal(encoder.transform(texts), features)
    with pytest.raises(ValueError, match="column 'ok' should be one of the training levels"):
        encoder.transform(new.assign(ok=["true", "maybe"]))
    again = TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    assert again.columns_ == encoder.columns_
    assert (again.categorical, again.numeric) == (("shop", "ok"), ("plan",))
    assert clone(encoder).fit(frame).columns_ == encoder.columns_
