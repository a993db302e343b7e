import numpy as np
import pandas as pd
import pytest
from hypothesis import given as drawing
from hypothesis import strategies as st

from auucmax.data.binning import binned
from auucmax.data.few import LEAST_ROWS
from auucmax.trial_model.columns import Bounded
from auucmax.trial_model.judging import Judged, average_effect
from auucmax.trial_model.people import (
    DELTA,
    _sides,
    deepen,
    describe_arms,
    describe_people,
    grow,
    segments_of,
)

ZERO_ONE = Bounded((0.0, 1.0), "")


def made(n, seed=0, effect=0.2):
    """People of whom those with ``old`` up to 2 and another shop than c gain by the treatment."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "old": rng.integers(0, 6, n).astype(float),
            "shop": rng.choice(list("abc"), n),
            "noise": rng.normal(size=n),
        }
    )
    gains = (frame["old"] <= 2) & (frame["shop"] != "c")
    treated = rng.random(n) < 0.5
    y = (rng.random(n) < 0.2 + effect * gains.to_numpy() * treated).astype(float)
    return frame, Judged(y, np.zeros(n), treated), gains.to_numpy()


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


def best_tree_slow(columns, y, treated, least):
    """The value of the best tree of depth 2, from masks of rows."""

    def value(rows):
        arms = y[rows & treated], y[rows & ~treated]
        if min(map(len, arms)) < least:
            return -np.inf
        tau = arms[0].mean() - arms[1].mean()
        return rows.sum() * (tau**2 - 2 * sum(a.var() / len(a) for a in arms))

    def best_of(rows, used, deeper):
        found = value(rows)
        for column in columns:
            if column is not used:
                for yes, no in _sides(column):
                    parts = [rows & yes.holds(), rows & no.holds()]
                    own = sum(
                        max(value(p), best_of(p, column, False)) if deeper else value(p)
                        for p in parts
                    )
                    found = max(found, own)
        return found

    return best_of(np.ones(len(y), bool), None, True)


@pytest.mark.parametrize("seed", range(4))
def test_the_tree_is_the_best_of_all(seed):
    frame, rows, _ = made(600, seed)
    frame.loc[::7, "old"] = np.nan
    columns = binned(frame, 3)
    rules = grow(columns, rows.y, rows.treated, np.arange(600), 20)
    total, everywhere = 0.0, np.zeros(600, dtype=int)
    for rule in rules:
        inside = np.logical_and.reduce([np.ones(600, bool), *(side.holds() for side in rule)])
        everywhere += inside
        arms = rows.y[inside & rows.treated], rows.y[inside & ~rows.treated]
        tau = arms[0].mean() - arms[1].mean()
        total += inside.sum() * (tau**2 - 2 * sum(a.var() / len(a) for a in arms))
    assert (everywhere == 1).all()  # leaves share nobody, and leave nobody out
    assert total == pytest.approx(best_tree_slow(columns, rows.y, rows.treated, 20))


def test_segments_are_told_in_words_and_certified_on_other_rows():
    frame, rows, gains = made(8_000)
    learn = np.arange(8_000) % 5 < 2
    found = segments_of(binned(frame), rows, learn, ZERO_ONE)
    first = found[0]
    assert set(first["rule"]) == {"old up to 2", "shop not c"}
    inside = gains & ~learn
    assert first["rows"] == inside.sum()
    y, t = rows.y[inside], rows.treated[inside]
    assert first["effect"]["estimate"] == pytest.approx(y[t].mean() - y[~t].mean())
    assert 0.1 < first["certified"] < first["effect"]["lower"]
    assert sum(one["share"] for one in found) == pytest.approx(1.0)
    # Intervals hold together, and the order is that of the rows that segments were made from.
    alone = average_effect(Judged(y, np.zeros(len(y)), t))
    assert first["effect"]["lower"] < alone["lower"] < alone["upper"] < first["effect"]["upper"]
    changed = rows._replace(y=np.where(learn, rows.y, 1 - rows.y))
    other = segments_of(binned(frame), changed, learn, ZERO_ONE)
    assert [one["rule"] for one in other] == [one["rule"] for one in found]
    assert other[0]["effect"]["estimate"] < min(one["effect"]["estimate"] for one in other[1:])
    without = segments_of(binned(frame), rows, learn, None)
    assert [one["certified"] for one in without] == [None] * len(without)


def test_a_third_condition_is_told_where_other_rows_bear_it_out():
    """Half of those who gain by two conditions do: depth 3 tells which half, and only then."""
    depths = []
    for third in (True, False):
        frame, rows, gains = made(24_000, seed=1, effect=0.0)
        if third:
            gains = gains & (frame["noise"] > 0)
        rng = np.random.default_rng(5)
        chance = 0.2 + 0.3 * np.asarray(gains) * rows.treated
        rows = rows._replace(y=(rng.random(24_000) < chance).astype(float))
        found = segments_of(binned(frame), rows, np.arange(24_000) % 5 < 2, ZERO_ONE)
        depths.append(max(len(one["rule"]) for one in found))
        first = found[0]
        assert len(first["rule"]) == (3 if third else 2)
        assert {"old up to 2", "shop not c"} <= set(first["rule"])
        assert sum(one["share"] for one in found) == pytest.approx(1.0)
        assert abs(first["effect"]["estimate"] - 0.3) < 4 * first["effect"]["standard_error"]
    assert depths == [3, 2]


def test_leaves_of_a_deeper_tree_share_nobody_and_noise_is_hardly_ever_split():
    n_deep = 0
    for seed in range(40):
        frame, rows, _ = made(3_000, seed)
        frame.loc[::7, "old"] = np.nan
        columns, order = binned(frame, 4), np.random.default_rng(seed).permutation(3_000)
        shallow = grow(columns, rows.y, rows.treated, order, 30)
        deep = deepen(shallow, columns, rows.y, rows.treated, order, 30)
        everywhere = sum(np.logical_and.reduce([s.holds() for s in rule]) * 1 for rule in deep)
        assert (everywhere == 1).all()
        n_deep += len(deep) > len(shallow)
    # Two conditions are the truth; each of four leaves may be split by mistake.
    assert n_deep <= 40 * 0.05 + 3 * (40 * 0.05 * 0.95) ** 0.5


def test_nothing_is_told_of_few_rows_of_groups_or_of_unequal_chances():
    frame, rows, _ = made(120)
    learn = np.arange(120) % 2 == 0
    assert segments_of(binned(frame), rows, learn, ZERO_ONE) == []
    frame, rows, _ = made(4_000)
    learn = np.arange(4_000) % 2 == 0
    assert segments_of(binned(frame), rows, learn, ZERO_ONE) != []
    grouped = rows._replace(groups=np.arange(4_000) // 2)
    assert segments_of(binned(frame), grouped, learn, ZERO_ONE) == []
    weighted = rows._replace(propensity=np.full(4_000, 0.5))
    assert segments_of(binned(frame), weighted, learn, ZERO_ONE) == []


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


@pytest.mark.parametrize(("missing", "told"), [(1, False), (600, True)])
def test_missing_values_of_few_are_in_no_segment_in_words(missing, told):
    frame, rows, _ = made(8_000)
    frame.loc[frame.index[-missing:], "old"] = np.nan
    found = segments_of(binned(frame), rows, np.arange(8_000) % 5 < 2, ZERO_ONE)
    words = {word for one in found for word in one["rule"]}
    assert any(word.startswith("old over") for word in words)
    assert any("or missing" in word for word in words) == told


@pytest.mark.gate
@pytest.mark.parametrize("base", [0.2, 0.03])
def test_without_different_effects_segments_are_hardly_ever_told(base):
    """One effect for all: a tree finds leaves all the same, and the other rows do not."""
    n_trials, told = 200, 0
    for seed in range(n_trials):
        frame, rows, _ = made(1_500, seed)
        y = np.random.default_rng([seed, 1]).random(1_500) < base + 0.05 * rows.treated
        own = rows._replace(y=y.astype(float))
        told += bool(segments_of(binned(frame, 3), own, np.arange(1_500) % 2 == 0, None))
    assert told / n_trials <= DELTA + 3 * np.sqrt(DELTA * (1 - DELTA) / n_trials)


@pytest.mark.gate
def test_certified_numbers_of_segments_hold_together():
    """Of trials without any effect, at most 5% certify one somewhere, within three errors."""
    n, wrong = 150, 0
    for seed in range(n):
        frame, rows, _ = made(600, seed, effect=0.0)
        found = segments_of(binned(frame, 3), rows, np.arange(600) % 2 == 0, ZERO_ONE)
        wrong += any(one["certified"] > 0 for one in found)
    assert wrong / n <= DELTA + 3 * np.sqrt(DELTA * (1 - DELTA) / n)


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
