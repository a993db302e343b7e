"""Parts of rows: the same for the same ids or the same file, and no row judged that was learnt."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auucmax.trial_model.split import RowSplit, id_texts, mark_rows

KEY = "0123456789abcdef"


def rows(n=500, seed=0, ids=True):
    rng = np.random.default_rng(seed)
    features = pd.DataFrame({"x": rng.normal(size=n), "town": rng.choice(["a", "b", None], n)})
    y, treated = rng.random(n), rng.random(n) < 0.5
    return features, y, treated, np.array([f"{seed}-{k}" for k in range(n)], dtype=object)


def marks(n=500, seed=0, ids=True, order=slice(None), rename=None):
    features, y, treated, names = rows(n, seed)
    names = names if rename is None else np.array([rename + name for name in names], dtype=object)
    names = names[order] if ids else None
    return mark_rows(features.iloc[order], y[order], treated[order], names)


def deal(given, **options):
    options = {"test_share": 0.3, "calibration_share": 0.2, "key": KEY} | options
    return RowSplit.deal(given, **options)


@pytest.mark.parametrize("ids", [True, False])
def test_shares_are_about_those_asked_for(ids):
    _, parts = deal(marks(20_000, ids=ids))
    shares = np.bincount(parts, minlength=3) / len(parts)
    # Standard errors are .0035 at most.
    np.testing.assert_allclose(shares, [0.5, 0.2, 0.3], atol=0.012)


@pytest.mark.parametrize("ids", [True, False])
def test_the_part_tells_nothing_of_the_row(ids):
    _, parts = deal(marks(20_000, ids=ids))
    treated = rows(20_000)[2]
    in_test = parts == 2
    difference = treated[in_test].mean() - treated[~in_test].mean()
    assert abs(difference) < 4 * 0.5 * np.sqrt(1 / in_test.sum() + 1 / (~in_test).sum())
    halves = np.arange(len(parts)) < len(parts) // 2
    assert abs(in_test[halves].mean() - in_test[~halves].mean()) < 4 * 0.0065


def test_key_and_nothing_else_decides_on_ids():
    first, parts = deal(marks())
    order = np.random.default_rng(1).permutation(500)[:200]
    _, again = deal(marks(order=order))
    np.testing.assert_array_equal(again, parts[order])
    assert first.by == "id"
    _, other = deal(marks(), key="f" * 16)
    assert (other != parts).mean() > 0.4


def test_the_same_file_has_the_same_test_rows():
    for ids in (True, False):
        split, parts = deal(marks(ids=ids))
        usable, seen = split.judgeable(marks(ids=ids))
        np.testing.assert_array_equal(usable, parts == 2)
        assert seen


def test_with_ids_rows_may_come_in_any_order_and_with_others():
    split, parts = deal(marks())
    order = np.random.default_rng(1).permutation(500)
    usable, seen = split.judgeable(marks(order=order))
    np.testing.assert_array_equal(usable, parts[order] == 2)
    assert seen
    usable, seen = split.judgeable(marks(seed=7))
    assert usable.all()
    assert not seen
    only_test = np.flatnonzero(parts == 2)
    usable, seen = split.judgeable(marks(order=only_test))
    assert usable.all()
    assert not seen


def test_rows_under_new_ids_are_still_known():
    split, _ = deal(marks())
    with pytest.raises(ValueError, match="look like rows that it was fitted on, and their ids are"):
        split.judgeable(marks(rename="new "))
    # Ids that were given anew after the rows were mixed name other rows.
    order = np.random.default_rng(1).permutation(500)
    mixed = marks(order=order)._replace(ids=marks().ids)
    with pytest.raises(ValueError, match="look like rows that it was fitted on"):
        split.judgeable(mixed)


def test_without_ids_a_changed_file_is_refused_and_a_new_one_is_not():
    split, parts = deal(marks(ids=False))
    order = np.random.default_rng(1).permutation(500)
    for changed in (order, order[:300], np.arange(499), order[:10], np.arange(20)):
        with pytest.raises(ValueError, match="fit the model with an id column"):
            split.judgeable(marks(ids=False, order=changed))
    usable, seen = split.judgeable(marks(seed=3, ids=False))
    assert usable.all()
    assert not seen
    # The test rows by themselves are new to the model, whatever their order.
    usable, seen = split.judgeable(marks(ids=False, order=np.flatnonzero(parts == 2)[::-1]))
    assert usable.all()
    assert not seen


def coarse(n, seed, order=slice(None)):
    """Rows of few values, many of which occur again and again."""
    rng = np.random.default_rng(seed)
    features = pd.DataFrame({"a": rng.integers(0, 12, n), "b": rng.integers(0, 40, n)})
    y, treated = (rng.random((2, n)) < 0.5).astype(float)
    return mark_rows(features.iloc[order], y[order], treated[order] > 0, None)


def test_rows_that_look_alike_by_chance():
    split, parts = deal(coarse(2_000, 0))
    assert 0.2 < split.chance < 0.6
    for seed in range(1, 21):  # 20 new files of each size
        for n in (20, 100, 3_000):
            assert split.judgeable(coarse(n, seed))[0].all()
    rng = np.random.default_rng(0)
    learnt = np.flatnonzero(parts != 2)
    for n in (30, 100, 900):  # extracts of known rows
        with pytest.raises(ValueError, match="look like rows that it was fitted on"):
            split.judgeable(coarse(2_000, 0, rng.choice(learnt, n, replace=False)))


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 60), st.booleans(), st.data())
def test_no_row_that_was_learnt_from_is_ever_judged(n, ids, data):
    split, parts = deal(marks(n, ids=ids))
    order = np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=1, unique=True)))
    try:
        usable, _ = split.judgeable(marks(n, ids=ids, order=order))
    except ValueError:
        return
    # Without ids, one in twenty may be missed; each row is different here.
    learnt = parts[order][usable] != 2
    assert learnt.mean() <= (0 if ids else 0.05) if len(learnt) else True


def test_types_of_a_column_do_not_matter_to_the_marks():
    features, y, treated, names = rows()
    as_category = features.assign(town=features["town"].astype("category"), x=features["x"])
    assert mark_rows(features, y, treated, names).digest == (
        mark_rows(as_category, y, treated, names).digest
    )
    whole = pd.DataFrame({"k": [1, 2, 3]})
    y, treated = np.zeros(3), np.array([True, False, True])
    digests = {
        mark_rows(whole.astype(kind), y, treated, None).digest
        for kind in ("int64", "float64", "Int32")
    }
    assert len(digests) == 1
    assert mark_rows(whole[::-1], y, treated, None).digest not in digests


def test_ids():
    assert id_texts(pd.Series([1.0, 2.0]), "id").tolist() == ["1", "2"]
    assert id_texts(pd.Series([1, 2], dtype="Int64"), "id").tolist() == ["1", "2"]
    assert id_texts(pd.Series(["1", "2"]), "id").tolist() == ["1", "2"]
    with pytest.raises(ValueError, match="the id 'who' should have no missing values, got 1"):
        id_texts(pd.Series(["a", None]), "who")
    with pytest.raises(ValueError, match="'who' should be different in every row, got 'a' and 1"):
        id_texts(pd.Series(["a", "b", "a", "b"]), "who")


def test_round_trip_as_json():
    split, parts = deal(marks())
    plain = json.loads(json.dumps(split.to_dict()))
    again = RowSplit.from_dict(plain, split.learnt_ids, split.learnt_rows)
    np.testing.assert_array_equal(again.judgeable(marks())[0], parts == 2)
    assert again.to_dict() == split.to_dict()


@pytest.mark.parametrize(
    "change",
    [
        {"key": "short"},
        {"key": 5},
        {"test_share": 2.0},
        {"test_share": float("nan")},
        {"by": "luck"},
        {"chance": 2.0},
        {"chance": float("nan")},
        {"more": 1},
    ],
)
def test_a_dictionary_that_no_split_wrote(change):
    split, _ = deal(marks())
    with pytest.raises(ValueError, match="a split should h"):
        RowSplit.from_dict(split.to_dict() | change, split.learnt_ids, split.learnt_rows)
