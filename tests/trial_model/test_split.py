"""Parts of rows: the same for the same ids or the same file, and no row judged that was learnt."""

import json
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auucmax.trial_model import dealing
from auucmax.trial_model.dealing import Dealer, deal
from auucmax.trial_model.marks import TableMarks, check_ids, id_texts, mark_rows
from auucmax.trial_model.split import RowSplit

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


def dealt(given, **options):
    options = {"test_share": 0.3, "calibration_share": 0.2, "key": KEY} | options
    return deal(given, **options)


class Judged(NamedTuple):
    usable: np.ndarray
    trained: np.ndarray
    seen: bool
    n_alike: int
    told: bool


def judged(split, given):
    """As one piece, and as pieces of different sizes: the same rows and the same words."""
    (found, reason), again = (judged_pieces(split, pieces) for pieces in ([given], cut(given)))
    assert again[1] == reason
    if reason is not None:
        raise ValueError(reason)
    for one, other in zip(found, again[0], strict=True):
        np.testing.assert_array_equal(one, other)
    return found


def judged_pieces(split, pieces):
    try:
        found = split.judge(lambda: iter(pieces))
    except ValueError as error:
        return None, str(error)
    usable = np.concatenate([found.usable(piece) for piece in pieces])
    trained = np.concatenate([found.trained(piece) for piece in pieces])
    assert found.n_usable == usable.sum()
    assert found.table.n_rows == len(usable)
    return Judged(usable, trained, found.seen, found.n_alike, found.told), None


def cut(given):
    places = np.arange(given.n_rows)
    ends = [given.n_rows // 7, given.n_rows // 2]
    pieces = [places < ends[0], (places >= ends[0]) & (places < ends[1]), places >= ends[1]]
    return [given.take(piece) for piece in pieces]


def digest(given):
    return TableMarks.of([given]).digest


@pytest.mark.parametrize("ids", [True, False])
def test_pieces_are_dealt_as_the_whole(ids):
    given = marks(ids=ids)
    split, parts = dealt(given)
    pieces = cut(given)
    table = TableMarks.of(pieces)
    assert table == TableMarks.of([given])
    dealer = Dealer(table, key=KEY, test_share=0.3, calibration_share=0.2, by=split.by)
    np.testing.assert_array_equal(np.concatenate([dealer.parts(own) for own in pieces]), parts)
    np.testing.assert_array_equal(np.concatenate([dealer(own) for own in pieces]), parts)
    again = dealer.split()
    assert again.to_dict() == split.to_dict() | {"high": pytest.approx(split.high, rel=1e-12)}
    np.testing.assert_array_equal(again.learnt_ids, split.learnt_ids)
    np.testing.assert_array_equal(again.learnt_strata, split.learnt_strata)
    for one, other in zip(again.learnt_rows, split.learnt_rows, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.fixture
def forgetful(monkeypatch):
    """Hashes of one row in five are remembered."""
    monkeypatch.setattr(dealing, "REMEMBERED", 400)


@pytest.mark.parametrize("ids", [True, False])
def test_where_few_hashes_are_remembered(forgetful, ids):
    n = 2_000
    split, parts = dealt(marks(n, ids=ids))
    assert split.one_in == 5
    assert len(split.learnt_rows[0]) == pytest.approx((parts != 2).sum() / 5, rel=0.2)
    found = judged(split, marks(n, ids=ids))
    np.testing.assert_array_equal(found.usable, parts == 2)
    np.testing.assert_array_equal(found.trained, parts == 0)
    assert found.seen
    new = judged(split, marks(n, seed=3, ids=ids))
    assert new.usable.all()
    assert not new.seen
    order = np.random.default_rng(0).permutation(n)[: n // 2]
    if ids:
        found = judged(split, marks(n, order=order))
        np.testing.assert_array_equal(found.usable, parts[order] == 2)
        # Half of the rows under other ids: their looks tell.
        with pytest.raises(ValueError, match="look like rows that it was fitted on"):
            judged(split, marks(n, order=order, rename="new "))
    else:
        with pytest.raises(ValueError, match="look like rows that it was fitted on"):
            judged(split, marks(n, ids=False, order=order))


def test_ids_of_which_some_are_known_and_few_remembered(forgetful):
    """New rows whose ids would have put them among learnt ones are left out as well."""
    n = 2_000
    split, parts = dealt(marks(n))
    found = judged(split, joined(marks(n, seed=3), marks(n)))
    np.testing.assert_array_equal(found.usable[n:], parts == 2)
    _, others = dealt(marks(n, seed=3))
    np.testing.assert_array_equal(found.usable[:n], others == 2)


@pytest.mark.parametrize("ids", [True, False])
def test_shares_are_about_those_asked_for(ids):
    _, parts = dealt(marks(20_000, ids=ids))
    shares = np.bincount(parts, minlength=3) / len(parts)
    # Standard errors are .0035 at most.
    np.testing.assert_allclose(shares, [0.5, 0.2, 0.3], atol=0.012)


@pytest.mark.parametrize("ids", [True, False])
def test_the_part_tells_nothing_of_the_row(ids):
    _, parts = dealt(marks(20_000, ids=ids))
    treated = rows(20_000)[2]
    in_test = parts == 2
    difference = treated[in_test].mean() - treated[~in_test].mean()
    assert abs(difference) < 4 * 0.5 * np.sqrt(1 / in_test.sum() + 1 / (~in_test).sum())
    halves = np.arange(len(parts)) < len(parts) // 2
    assert abs(in_test[halves].mean() - in_test[~halves].mean()) < 4 * 0.0065


def test_key_and_nothing_else_decides_on_ids():
    first, parts = dealt(marks())
    order = np.random.default_rng(1).permutation(500)[:200]
    _, again = dealt(marks(order=order))
    np.testing.assert_array_equal(again, parts[order])
    assert first.by == "id"
    _, other = dealt(marks(), key="f" * 16)
    assert (other != parts).mean() > 0.4


def test_the_same_file_has_the_same_test_rows():
    for ids in (True, False):
        split, parts = dealt(marks(ids=ids))
        found = judged(split, marks(ids=ids))
        np.testing.assert_array_equal(found.usable, parts == 2)
        np.testing.assert_array_equal(found.trained, parts == 0)
        assert found.seen
        assert found.told
        assert found.n_alike == 0


def test_with_ids_rows_may_come_in_any_order_and_with_others():
    split, parts = dealt(marks())
    order = np.random.default_rng(1).permutation(500)
    found = judged(split, marks(order=order))
    np.testing.assert_array_equal(found.usable, parts[order] == 2)
    np.testing.assert_array_equal(found.trained, parts[order] == 0)
    assert found.seen
    only_test = np.flatnonzero(parts == 2)
    for found in (judged(split, marks(seed=7)), judged(split, marks(order=only_test))):
        assert found.usable.all()
        assert not found.trained.any()
        assert not found.seen


def test_rows_under_new_ids_are_still_known():
    split, _ = dealt(marks())
    with pytest.raises(ValueError, match="got these rows under other ids, and their ids are new"):
        judged(split, marks(rename="new "))
    with pytest.raises(ValueError, match="look like rows that it was fitted on, and their ids are"):
        judged(split, marks(rename="new ", order=slice(1, None)))
    # Ids that were given anew after the rows were mixed name other rows.
    order = np.random.default_rng(1).permutation(500)
    mixed = marks(order=order)._replace(ids=marks().ids)
    with pytest.raises(ValueError, match="look like rows that it was fitted on"):
        judged(split, mixed)


def test_without_ids_a_changed_file_is_refused_and_a_new_one_is_not():
    split, parts = dealt(marks(ids=False))
    order = np.random.default_rng(1).permutation(500)
    for changed in (order, order[:300], np.arange(499), order[:10], np.arange(20)):
        with pytest.raises(ValueError, match="fit the model with an id column"):
            judged(split, marks(ids=False, order=changed))
    # The test rows by themselves are new to the model, whatever their order.
    only_test = marks(ids=False, order=np.flatnonzero(parts == 2)[::-1])
    for found in (judged(split, marks(seed=3, ids=False)), judged(split, only_test)):
        assert found.usable.all()
        assert not found.seen


def coarse(n, seed, order=slice(None), ids=None):
    """Rows of few values, many of which occur again and again."""
    rng = np.random.default_rng(seed)
    features = pd.DataFrame({"a": rng.integers(0, 12, n), "b": rng.integers(0, 40, n)})
    y, treated = (rng.random((2, n)) < 0.5).astype(float)
    return mark_rows(features.iloc[order], y[order], treated[order] > 0, ids)


def alike(n, seed, order=slice(None), ids=None):
    """Rows of 200 kinds: nearly every new row looks like a known one."""
    rng = np.random.default_rng(seed)
    features = pd.DataFrame({"a": rng.integers(0, 10, n), "b": rng.integers(0, 10, n)})
    y, treated = (rng.random((2, n)) < 0.4).astype(float)
    return mark_rows(features.iloc[order], y[order], treated[order] > 0, ids)


def numbered(n, pattern="{}", start=0):
    return np.array([pattern.format(k) for k in range(start, start + n)], dtype=object)


def test_alike_rows_under_ids_that_are_written_in_another_way():
    n = 6_000
    split, parts = dealt(alike(n, 0, ids=numbered(n)))
    assert split.chance[0] > 0.99
    with pytest.raises(ValueError, match=r"got these rows under other ids.*write the ids as they"):
        judged(split, alike(n, 0, ids=numbered(n, "{:07d}")))
    half = np.where(np.arange(n) % 2, numbered(n), numbered(n, "{:07d}"))
    for ids in (numbered(n, "{:07d}"), half):
        with pytest.raises(ValueError, match=r"outcomes agree.* and their ids are new"):
            judged(split, alike(n, 0, slice(0, n - 5), ids=ids[: n - 5]))
    # The same ids in another order are those of the fit.
    order = np.random.default_rng(0).permutation(n)
    found = judged(split, alike(n, 0, order, ids=numbered(n)[order]))
    np.testing.assert_array_equal(found.usable, parts[order] == 2)
    assert found.told


def test_alike_rows_that_are_new_are_not_refused_but_the_doubt_is_told():
    split, _ = dealt(alike(6_000, 0, ids=numbered(6_000)))
    for seed in range(1, 21):
        for n in (100, 1_500, 6_000):
            found = judged(split, alike(n, seed, ids=numbered(n, start=10_000)))
            assert found.usable.all()
            assert not found.seen
            assert not found.told


def test_alike_rows_without_ids_and_without_some_rows():
    split, parts = dealt(alike(6_000, 0))
    for order in (slice(0, 5_999), slice(1, None), slice(0, 3_000)):
        with pytest.raises(ValueError, match=r"outcomes agree.* and there are no ids"):
            judged(split, alike(6_000, 0, order))
    for new in (alike(6_000, 1), alike(6_000, 0, parts == 2)):
        found = judged(split, new)
        assert found.usable.all()
        assert not found.told


def test_parts_of_one_file_are_the_same_from_its_hashes_and_from_the_model():
    """Of so many ids some share half of their hash with another."""
    n = 60_000
    ids = numbered(n)
    zeros = np.zeros(n)
    given = mark_rows(pd.DataFrame({"x": zeros}), zeros, np.arange(n) % 2 > 0, ids)
    split, parts = dealt(given)
    np.testing.assert_array_equal(judged(split, given).usable, parts == 2)
    turned = mark_rows(pd.DataFrame({"x": zeros}), zeros, np.arange(n) % 2 == 0, ids[::-1])
    np.testing.assert_array_equal(judged(split, turned).usable, parts[::-1] == 2)
    other = turned._replace(ids=numbered(n, start=n))
    assert not np.isin(split.learnt_ids, pd.util.hash_array(other.ids, hash_key=KEY)).any()


def test_rows_that_look_alike_by_chance():
    split, parts = dealt(coarse(2_000, 0))
    assert 0.2 < split.chance[0] < 0.6
    assert not split.tells_apart
    for seed in range(1, 21):  # 20 new files of each size
        for n in (20, 100, 3_000):
            assert judged(split, coarse(n, seed))[0].all()
    rng = np.random.default_rng(0)
    learnt = np.flatnonzero(parts != 2)
    for n in (30, 100, 900):  # extracts of known rows
        with pytest.raises(ValueError, match="look like rows that it was fitted on"):
            judged(split, coarse(2_000, 0, rng.choice(learnt, n, replace=False)))


def joined(*given):
    """The rows of several tables, one below the other."""
    stacked = {
        name: np.concatenate([getattr(each, name) for each in given], axis=-1)
        for name in ("looks", "strata", "y")
    }
    ids = None if given[0].ids is None else np.concatenate([each.ids for each in given])
    return given[0]._replace(**stacked, ids=ids, places=np.arange(len(stacked["y"])))


def test_rows_of_few_values_in_another_order_are_refused_all_the_same():
    def binary(order=slice(None)):
        rng = np.random.default_rng(0)
        features = pd.DataFrame(rng.integers(0, 2, (3_000, 4))).iloc[order]
        y, treated = rng.integers(0, 2, (2, 3_000))[:, order]
        return mark_rows(features, y.astype(float), treated > 0, None)

    split, _ = dealt(binary())
    assert split.chance == (1, 1, 1)
    order = np.random.default_rng(1).permutation(3_000)
    with pytest.raises(ValueError, match="got these rows in another order, and there are no ids"):
        judged(split, binary(order))
    assert judged(split, binary(order[:1_500]))[0].all()  # half of them cannot be known
    assert not split.tells_apart


def test_a_file_that_is_diluted_with_new_rows():
    split, parts = dealt(marks(ids=False))
    assert split.tells_apart
    with pytest.raises(ValueError, match="look like rows that it was fitted on"):
        judged(split, joined(marks(1_000, seed=5, ids=False), marks(ids=False)))
    # So few that chance might explain them, after 150 test rows: each is left out.
    found = judged(split, joined(marks(30_000, seed=5, ids=False), marks(ids=False)))
    np.testing.assert_array_equal(found.usable[30_000:], parts == 2)
    assert found.n_alike >= (parts != 2).sum()


def test_a_few_known_rows_among_new_ones_are_left_out():
    split, parts = dealt(marks(2_000, ids=False))
    learnt = np.flatnonzero(parts != 2)[:2]
    mixed = joined(marks(1_000, seed=5, ids=False), marks(2_000, ids=False, order=learnt))
    found = judged(split, mixed)
    np.testing.assert_array_equal(found.usable, np.arange(1_002) < 1_000)
    assert found.n_alike == 2
    assert not found.seen


@pytest.mark.parametrize("n_columns", [1, 2, 5])
def test_new_rows_are_hardly_ever_refused(n_columns):
    def some(n, seed):
        rng = np.random.default_rng(seed)
        features = pd.DataFrame(rng.normal(size=(n, n_columns)))
        return mark_rows(features, rng.integers(0, 2, n) * 1.0, rng.random(n) < 0.5, None)

    split, _ = dealt(some(1_000, 0))
    for seed in range(1, 31):
        assert judged(split, some(200 if seed % 2 else 5_000, seed)).usable.mean() > 0.99


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 60), st.booleans(), st.data())
def test_no_row_that_was_learnt_from_is_ever_judged(n, ids, data):
    split, parts = dealt(marks(n, ids=ids))
    order = np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=1, unique=True)))
    try:
        usable = judged(split, marks(n, ids=ids, order=order)).usable
    except ValueError:
        return
    assert not (parts[order][usable] != 2).any()  # each row is different here


def test_types_of_a_column_do_not_matter_to_the_marks():
    features, y, treated, names = rows()
    as_category = features.assign(town=features["town"].astype("category"), x=features["x"])
    assert digest(mark_rows(features, y, treated, names)) == (
        digest(mark_rows(as_category, y, treated, names))
    )
    whole = pd.DataFrame({"k": [1, 2, 3]})
    y, treated = np.zeros(3), np.array([True, False, True])
    digests = {
        digest(mark_rows(whole.astype(kind), y, treated, None))
        for kind in ("int64", "float64", "Int32")
    }
    assert len(digests) == 1
    assert digest(mark_rows(whole[::-1], y, treated, None)) not in digests


def table(n=400):
    rng = np.random.default_rng(2)
    return pd.DataFrame(
        {
            "zip": rng.choice(["10115", "10117", None], n),
            "x": rng.normal(size=n),
            "member": rng.random(n) < 0.5,
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 99, n), unit="D"),
            "spent": rng.gamma(2, 30, n),
        }
    )


STORED = {
    "numbers for texts": lambda t: t.assign(zip=t["zip"].astype(float)),
    "nullable numbers": lambda t: t.assign(zip=t["zip"].astype(float).astype("Int64")),
    "category": lambda t: t.assign(zip=t["zip"].astype("category")),
    "empty texts": lambda t: t.assign(zip=t["zip"].fillna("")),
    "a zone": lambda t: t.assign(day=t["day"].dt.tz_localize("UTC").dt.tz_convert("Europe/Oslo")),
    "dates": lambda t: t.assign(day=t["day"].dt.date),
    "0/1": lambda t: t.assign(member=t["member"].astype(int)),
    "yes/no": lambda t: t.assign(member=np.where(t["member"], "Yes", "No")),
    "true/false": lambda t: t.assign(member=t["member"].astype(str)),
    "texts of numbers": lambda t: t.assign(x=[repr(float(x)) for x in t["x"]]),
    "single precision": lambda t: t.astype({"x": "float32", "spent": "float32"}),
    "printed single": lambda t: t.assign(x=t["x"].astype("float32").astype(str).astype(float)),
    "objects": lambda t: t.astype(object),
}


@pytest.mark.parametrize("how", STORED)
def test_the_file_is_known_in_another_format(how):
    features = table()
    rng = np.random.default_rng(0)
    y, treated = rng.integers(0, 2, 400).astype(float), rng.random(400) < 0.5
    split, parts = dealt(mark_rows(features, y, treated, None))
    found = judged(split, mark_rows(STORED[how](features), y, treated, None))
    np.testing.assert_array_equal(found.usable, parts == 2)
    assert found.seen


CHANGED = {
    "rounded": lambda t: t.round({"x": 4, "spent": 4}),
    "rounded to cents": lambda t: t.round({"spent": 2}),
    "a local day": lambda t: t.assign(day=t["day"].dt.tz_localize("Asia/Tokyo")),
    "another text": lambda t: t.assign(zip="D-" + t["zip"]),
    "another unit": lambda t: t.assign(x=2.54 * t["x"]),
}


@pytest.mark.parametrize("how", CHANGED)
def test_rows_are_known_though_a_column_was_changed(how):
    features = table(3_000)
    rng = np.random.default_rng(0)
    y, treated = rng.integers(0, 2, 3_000).astype(float), rng.random(3_000) < 0.5
    split, _ = dealt(mark_rows(features, y, treated, None))
    with pytest.raises(ValueError, match="rows that it was fitted on"):
        judged(split, mark_rows(CHANGED[how](features), y, treated, None))


@pytest.mark.parametrize("ids", [True, False])
def test_of_few_rows_nothing_is_told_where_few_hashes_are_remembered(forgetful, ids):
    n = 2_000
    split, parts = dealt(marks(n, ids=ids))
    for seed in range(20):
        learnt = np.random.default_rng(seed).permutation(np.flatnonzero(parts != 2))[:6]
        try:
            found = judged(split, marks(n, ids=ids, order=np.sort(learnt)))
        except ValueError:
            continue
        assert not found.usable.any() if ids else not found.told


def test_known_rows_among_new_ones_are_left_out_where_few_are_remembered(forgetful):
    n = 2_000
    split, parts = dealt(marks(n, ids=False))
    new, learnt = marks(60_000, seed=3, ids=False), np.flatnonzero(parts != 2)[:40]
    found = judged(split, joined(new, marks(n, ids=False, order=learnt)))
    assert found.n_alike >= (~found.usable[60_000:]).sum() > 0


def test_ids():
    mixed = id_texts(pd.Series([1.0, 2.5, 1e300]), "id").tolist()
    assert mixed == ["1", "2.5", "1e+300"]
    assert id_texts(pd.Series([1.0, 2.0]), "id").tolist() == ["1", "2"]
    assert id_texts(pd.Series([1, 2], dtype="Int64"), "id").tolist() == ["1", "2"]
    assert id_texts(pd.Series(["1", "2"]), "id").tolist() == ["1", "2"]
    with pytest.raises(ValueError, match="the id 'who' should have no missing values, got 1"):
        id_texts(pd.Series(["a", None]), "who")
    with pytest.raises(ValueError, match="'who' should be different in every row, got 'a' and 1"):
        check_ids(id_texts(pd.Series(["a", "b", "a", "b"]), "who"), "who")


def test_round_trip_as_json():
    split, parts = dealt(marks())
    plain = json.loads(json.dumps(split.to_dict()))
    again = RowSplit.from_dict(plain, split.learnt_ids, split.learnt_rows, split.learnt_strata)
    np.testing.assert_array_equal(judged(again, marks())[0], parts == 2)
    assert again.to_dict() == split.to_dict()


@pytest.mark.parametrize(
    "change",
    [
        {"key": "short"},
        {"key": 5},
        {"test_share": 2.0},
        {"test_share": float("nan")},
        {"by": "luck"},
        {"chance": 0.5},
        {"chance": [2.0, 0.0, 0.0]},
        {"chance": [float("nan"), 0.0, 0.0]},
        {"chance": [0.0, 0.0]},
        {"totals": [1, 2, 3]},
        {"n_rows": -1},
        {"n_test": 0.5},
        {"high": None},
        {"high": float("nan")},
        {"more": 1},
    ],
)
def test_a_dictionary_that_no_split_wrote(change):
    split, _ = dealt(marks())
    with pytest.raises(ValueError, match="a split should h"):
        RowSplit.from_dict(
            split.to_dict() | change, split.learnt_ids, split.learnt_rows, split.learnt_strata
        )
