"""Segments of one arm and of several: learnt on some rows, judged on others, or not told."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from auucmax.data.binning import binned
from auucmax.model.columns import Bounded
from auucmax.model.judging import Judged, average_effect
from auucmax.model.segments import (
    DELTA,
    _sides,
    arm_segments_of,
    deepen,
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


def value_slow(y, arm, rows, least):
    """n (tau^2 - 2 v) of some rows, over all pairs of arms."""
    parts = [y[rows & (arm == k)] for k in range(arm.max() + 1)]
    if min(map(len, parts)) < least:
        return -np.inf
    return rows.sum() * sum(
        (one.mean() - two.mean()) ** 2 - 2 * (one.var() / len(one) + two.var() / len(two))
        for one, two in combinations(parts, 2)
    )


def best_tree_slow(columns, y, arm, least):
    """The value of the best tree of depth 2, from masks of rows."""

    def best_of(rows, used, deeper):
        found = value_slow(y, arm, rows, least)
        for column in columns:
            if column is not used:
                for yes, no in _sides(column):
                    parts = [rows & yes.holds(), rows & no.holds()]
                    own = sum(
                        max(value_slow(y, arm, p, least), best_of(p, column, False))
                        if deeper
                        else value_slow(y, arm, p, least)
                        for p in parts
                    )
                    found = max(found, own)
        return found

    return best_of(np.ones(len(y), bool), None, True)


@pytest.mark.parametrize("n_arms", [2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_the_tree_is_the_best_of_all(seed, n_arms):
    frame, rows, _ = made(600, seed)
    frame.loc[::7, "old"] = np.nan
    columns = binned(frame, 3)
    arm = rows.treated.astype(int)
    if n_arms == 3:
        arm = np.random.default_rng([seed, 2]).integers(0, 3, 600)
    rules = grow(columns, rows.y, arm, np.arange(600), 20)
    total, everywhere = 0.0, np.zeros(600, dtype=int)
    for rule in rules:
        inside = np.logical_and.reduce([np.ones(600, bool), *(side.holds() for side in rule)])
        everywhere += inside
        total += value_slow(rows.y, arm, inside, 20)
    assert (everywhere == 1).all()  # leaves share nobody, and leave nobody out
    assert total == pytest.approx(best_tree_slow(columns, rows.y, arm, 20))


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


@pytest.mark.gate
def test_leaves_of_a_deeper_tree_share_nobody_and_noise_is_hardly_ever_split():
    n_deep = 0
    for seed in range(40):
        frame, rows, _ = made(3_000, seed)
        frame.loc[::7, "old"] = np.nan
        columns, order = binned(frame, 4), np.random.default_rng(seed).permutation(3_000)
        arm = rows.treated.astype(int)
        shallow = grow(columns, rows.y, arm, order, 30)
        deep = deepen(shallow, columns, rows.y, arm, order, 30)
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


def with_arms(n, seed=0, effect=0.15):
    """Arm 1 helps the young, arm 2 the old."""
    rng = np.random.default_rng([seed, 3])
    frame = pd.DataFrame({
        "age": rng.integers(18, 80, n).astype(float),
        "town": rng.choice(list("abc"), n),
        "noise": rng.normal(size=n),
    })  # fmt: skip
    arm, young = rng.integers(0, 3, n), (frame["age"] <= 45).to_numpy()
    helped = ((arm == 1) & young) | ((arm == 2) & ~young)
    return frame, (rng.random(n) < 0.2 + effect * helped).astype(float), arm, young


def rows_of(part, columns):
    """(n,) whether the words of a segment hold."""
    sides = {side.words: side for own in columns for pair in _sides(own) for side in pair}
    return np.logical_and.reduce([sides[word].holds() for word in part["rule"]])


def test_arms_of_segments_are_learnt_on_some_rows_and_judged_on_others():
    frame, y, arm, young = with_arms(8_000)
    columns, learn = binned(frame), np.arange(8_000) % 5 < 2
    found = arm_segments_of(columns, y, arm, learn, ZERO_ONE)
    everywhere = np.zeros(8_000, dtype=int)
    for part in found["parts"]:
        inside = rows_of(part, columns)
        everywhere += inside
        assert part["rows"] == (inside & ~learn).sum()
        own, others = ([y[inside & some & (arm == k)].mean() for k in range(3)]
                       for some in (learn, ~learn))  # fmt: skip
        np.testing.assert_allclose(part["learnt"], np.array(own[1:]) - own[0])
        assert part["learnt"].argmax() == (young[inside].mean() < 0.5)
        told = [(one["arm"], one["over"]) for one in part["contrasts"]]
        assert told == [(1, 0), (2, 0), (2, 1)]
        for one in part["contrasts"]:
            gap = others[one["arm"]] - others[one["over"]]
            assert one["estimate"] == pytest.approx(gap)
            assert one["lower"] < gap < one["upper"]
        for lower, one in zip(part["certified"], part["contrasts"], strict=False):
            assert lower < one["estimate"]
    assert (everywhere == 1).all()
    # Segments and choices are those of the rows that they are made from, whatever others say.
    other = arm_segments_of(columns, np.where(learn, y, 1 - y), arm, learn, None)
    assert [p["rule"] for p in other["parts"]] == [p["rule"] for p in found["parts"]]
    assert all(part["certified"] is None for part in other["parts"])


def test_of_few_rows_no_arms_are_told():
    frame, y, arm, _ = with_arms(150)
    assert arm_segments_of(binned(frame), y, arm, np.arange(150) % 2 == 0, None) is None


@pytest.mark.gate
@pytest.mark.parametrize("effects", [(0.05, 0.05), (0.02, 0.12)])
def test_without_different_effects_arms_of_segments_are_hardly_ever_told(effects):
    """Each arm has one effect for all."""
    n_trials, told = 150, 0
    for seed in range(n_trials):
        frame, _, arm, _ = with_arms(2_000, seed)
        chance = 0.2 + np.array([0.0, *effects])[arm]
        y = (np.random.default_rng([seed, 1]).random(2_000) < chance).astype(float)
        learn = np.arange(2_000) % 2 == 0
        told += arm_segments_of(binned(frame, 3), y, arm, learn, None) is not None
    assert told / n_trials <= DELTA + 3 * np.sqrt(DELTA * (1 - DELTA) / n_trials)


@pytest.mark.gate
def test_intervals_of_arms_of_segments_hold_together():
    n_trials, missed, found_both = 80, 0, 0
    for seed in range(n_trials):
        frame, y, arm, young = with_arms(6_000, seed)
        columns, learn = binned(frame, 4), np.arange(6_000) % 2 == 0
        found = arm_segments_of(columns, y, arm, learn, None)
        if found is None:
            continue
        given = [1 + int(part["learnt"].argmax()) for part in found["parts"]]
        found_both += {*given} == {1, 2}
        right = True
        for part in found["parts"]:
            share = young[rows_of(part, columns) & ~learn].mean()
            truth = [0.0, 0.15 * share, 0.15 * (1 - share)]
            for one in part["contrasts"]:
                right &= one["lower"] <= truth[one["arm"]] - truth[one["over"]] <= one["upper"]
        missed += not right
    assert found_both >= 0.9 * n_trials
    assert missed / n_trials <= DELTA + 3 * np.sqrt(DELTA * (1 - DELTA) / n_trials)
