import numpy as np
import pandas as pd
import pytest
from hypothesis import given as drawing
from hypothesis import strategies as st

from auucmax.data.binning import binned
from auucmax.data.few import LEAST_ROWS
from auucmax.model.people import describe_arms, describe_people


def test_the_top_and_the_rest_are_counted_and_few_are_not_told():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.choice(["x", "y"], 1000), "b": rng.normal(size=1000)})
    score = np.where(frame["a"] == "x", 1.0, 0.0) + 0.01 * rng.random(1000)
    found = describe_people(binned(frame), score, share=0.4)
    first = found["columns"][0]
    assert (found["share"], first["name"], found["n_columns"]) == (0.4, "a", 2)
    top = np.argsort(-score)[:400]
    inside = np.isin(np.arange(1000), top)
    for own, side in ((first["top"], inside), (first["rest"], ~inside)):
        for name, part in zip(first["bins"], own, strict=True):
            count = int(((frame["a"] == name) & side).sum())
            close = pytest.approx(count / side.sum(), abs=0.00501)  # whole per cents
            assert np.isnan(part) if count < 20 else part == close
            assert np.isnan(part) or part == round(part, 2)
    # Ten people on top: nothing can be told of a part of them.
    few = describe_people(binned(frame), score, share=0.01)["columns"]
    assert all(np.isnan(column["top"]).all() for column in few)


def test_people_who_are_not_told_cannot_be_counted_from_the_others():
    """One hidden person, or twelve: the fractions of those who are told are the same."""
    found = []
    for n_hidden in (1, 12):
        town = np.array(["a"] * 300 + ["b"] * 290 + ["c"] * 400 + ["d"] * 100, dtype=object)
        score = np.r_[np.ones(590), np.zeros(500)]
        town[590 - n_hidden : 590] = "c"
        town[:n_hidden] = None
        frame = pd.DataFrame({"town": town})
        found.append(describe_people(binned(frame), score, share=590 / 1090)["columns"][0])
    assert found[0]["bins"] == found[1]["bins"] == ["c", "a", "b", "d"]
    for one in found:
        assert np.isnan(one["top"][[0, 3]]).all()
        np.testing.assert_array_equal(one["top"], np.round(one["top"], 2))
        assert one["distance"] == round(one["distance"], 3)


def test_arms_of_few_people_are_not_told_of():
    frame = pd.DataFrame({"age": np.arange(400.0), "home": ["yes", "no"] * 200})
    given = np.repeat([0, 1, 2, 3], [180, 100, 19, 101])
    found = describe_arms(binned(frame), given, ["a", "b", "c"])
    assert [own["arm"] for own in found] == ["a", "c"]
    (age,) = [own for own in found[1]["columns"] if own["name"] == "age"]
    assert found[1]["columns"][0] is age  # those who get c are the oldest
    assert age["top"][-1] > 0.5
    assert np.isnan(age["top"][0])  # nobody: fewer than 20


@st.composite
def gifts(draw):
    """Who gets which arm of up to three, of some hundred people; some arms are of a few."""
    sizes = draw(st.lists(st.integers(0, 25) | st.integers(60, 400), min_size=3, max_size=4))
    given = np.repeat(np.arange(len(sizes)), sizes)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    n = len(given)
    town = np.where(rng.random(n) < 0.1 * given, "a", rng.choice(list("abcd"), n))
    age = rng.normal(size=n) + given
    age[rng.random(n) < draw(st.sampled_from([0.0, 0.05]))] = np.nan
    return pd.DataFrame({"town": town, "age": age}), given


@pytest.mark.gate
@drawing(gifts())
def test_arms_subtracted_from_each_other_tell_of_nobody_or_of_20_people(drawn):
    frame, given = drawn
    if len(frame) < 2:
        return
    labels = ["a", "b", "c"][: given.max()]
    columns = {own.name: own for own in binned(frame)}
    found = describe_arms([*columns.values()], given, labels)
    told = [1 + labels.index(own["arm"]) for own in found]
    part = np.where(np.isin(given, told), given, 0)
    if told:
        assert all(size == 0 or size >= LEAST_ROWS for size in np.bincount(part))
    for arm in found:
        for column in arm["columns"]:
            code = codes_of(columns[column["name"]], column["bins"])
            for number in range(len(labels) + 1):
                cells = np.bincount(code[(part == number) & (code >= 0)])
                assert not ((cells > 0) & (cells < LEAST_ROWS)).any()


def codes_of(column, bins):
    """(n,) the bin of each row, by the names of the bins that are told."""
    if column.ordered:
        at = [float(name.removeprefix("up to ").split(" to ")[-1]) for name in bins[:-1]]
        cuts = [float(cut) for cut in column.cuts]
        joined = np.searchsorted(at, [*cuts, np.inf])
        return np.append(joined, -1)[column.code]
    place = {name: k for k, name in enumerate(bins)}
    return np.array([place.get(name, place.get("others", -1)) for name in column.names])[
        column.code
    ]


def test_those_who_get_another_arm_or_none_are_not_told_by_subtraction():
    """Five people get a; who gets b, and who gets c, are all but these."""
    given = np.repeat([1, 2, 3], [5, 100, 120])
    frame = pd.DataFrame({"ill": np.where(np.arange(225) % 3 == 0, "yes", "no")})
    frame.loc[:4, "ill"] = "yes"
    assert [own["arm"] for own in describe_arms(binned(frame), given, ["a", "b", "c"])] == ["c"]
    given = np.repeat([0, 1, 2], [40, 100, 120])  # enough, but two of them are ill
    frame = pd.DataFrame({"ill": np.where(np.arange(260) % 3 == 0, "yes", "no")})
    frame.loc[:39, "ill"] = ["yes"] * 2 + ["no"] * 38
    assert describe_arms(binned(frame), given, ["a", "b"]) == []
