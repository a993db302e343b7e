"""Segments: grown on some rows, judged on others, or none at all."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from auucmax.data.covariates import binned
from auucmax.metrics import Levels
from auucmax.model.judge import effect_of
from auucmax.model.segments import DELTA, _sides, find_segments, grow
from auucmax.results import Why

ZERO_ONE = (0.0, 1.0)
NAMES = ("none", "mail", "phone")


def segments_of(columns, rows, trained, counted):
    y, arm = rows
    counted = counted or Why.NO_RANGE
    found = find_segments(columns, y, arm, trained, NAMES[: arm.max() + 1], counted)
    return () if found is None else found.parts


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
    return frame, (y, treated.astype(int)), gains.to_numpy()


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
    y, arm = rows
    if n_arms == 3:
        arm = np.random.default_rng([seed, 2]).integers(0, 3, 600)
    rules = grow(columns, y, arm, np.arange(600), 20)
    total, everywhere = 0.0, np.zeros(600, dtype=int)
    for rule in rules:
        inside = np.logical_and.reduce([np.ones(600, bool), *(side.holds() for side in rule)])
        everywhere += inside
        total += value_slow(y, arm, inside, 20)
    assert (everywhere == 1).all()  # leaves share nobody, and leave nobody out
    assert total == pytest.approx(best_tree_slow(columns, y, arm, 20))


def test_effects_and_guarantees_come_from_other_rows():
    frame, rows, gains = made(8_000)
    y, arm = rows
    trained = np.arange(8_000) % 5 < 2
    found = segments_of(binned(frame), rows, trained, ZERO_ONE)
    first = found[0]
    effect = first.contrasts[0].effect
    assert set(first.rule) == {"old up to 2", "shop not c"}
    inside = gains & ~trained
    assert first.n_rows == inside.sum()
    own, treated = y[inside], arm[inside] == 1
    assert effect.value == pytest.approx(own[treated].mean() - own[~treated].mean())
    assert 0.1 < first.guaranteed[0] < effect.lower
    assert sum(one.share for one in found) == pytest.approx(1.0)
    # Intervals hold together, and the order is that of the rows that segments were grown on.
    alone = effect_of(Levels.of(own, np.zeros(len(own)), treatment=treated).band([1.0]))
    assert effect.lower < alone.lower < alone.upper < effect.upper
    other = segments_of(binned(frame), (np.where(trained, y, 1 - y), arm), trained, ZERO_ONE)
    assert [one.rule for one in other] == [one.rule for one in found]
    values = [one.contrasts[0].effect.value for one in other]
    assert values[0] < min(values[1:])
    without = segments_of(binned(frame), rows, trained, None)
    assert [one.guaranteed for one in without] == [None] * len(without)


def test_a_third_condition_needs_confirmation_by_other_rows():
    """Half of those who gain by two conditions do: depth 3 finds which half, and only then."""
    depths = []
    for third in (True, False):
        frame, (_, arm), gains = made(24_000, seed=1, effect=0.0)
        if third:
            gains = gains & (frame["noise"] > 0)
        rng = np.random.default_rng(5)
        chance = 0.2 + 0.3 * np.asarray(gains) * arm
        rows = (rng.random(24_000) < chance).astype(float), arm
        found = segments_of(binned(frame), rows, np.arange(24_000) % 5 < 2, ZERO_ONE)
        depths.append(max(len(one.rule) for one in found))
        first = found[0]
        assert len(first.rule) == (3 if third else 2)
        assert {"old up to 2", "shop not c"} <= set(first.rule)
        assert sum(one.share for one in found) == pytest.approx(1.0)
        effect = first.contrasts[0].effect
        assert abs(effect.value - 0.3) < 4 * effect.se
    assert depths == [3, 2]


@pytest.mark.parametrize("n", [120, 4_000])
def test_few_rows_have_no_segments(n):
    frame, rows, _ = made(n)
    found = segments_of(binned(frame), rows, np.arange(n) % 2 == 0, ZERO_ONE)
    assert bool(found) == (n > 1_000)


@pytest.mark.parametrize(("missing", "named"), [(1, False), (600, True)])
def test_missing_values_of_few_people_are_in_no_rule(missing, named):
    frame, rows, _ = made(8_000)
    frame.loc[frame.index[-missing:], "old"] = np.nan
    found = segments_of(binned(frame), rows, np.arange(8_000) % 5 < 2, ZERO_ONE)
    words = {word for one in found for word in one.rule}
    assert any(word.startswith("old over") for word in words)
    assert any("or missing" in word for word in words) == named


@pytest.mark.gate
@pytest.mark.parametrize("base", [0.2, 0.03])
def test_without_different_effects_segments_are_rarely_found(base):
    """One effect for all: a tree finds leaves all the same, and the other rows do not."""
    n_trials, n_found = 200, 0
    for seed in range(n_trials):
        frame, (_, arm), _ = made(1_500, seed)
        y = np.random.default_rng([seed, 1]).random(1_500) < base + 0.05 * arm
        own = y.astype(float), arm
        n_found += bool(segments_of(binned(frame, 3), own, np.arange(1_500) % 2 == 0, None))
    assert n_found / n_trials <= DELTA + 3 * np.sqrt(DELTA * (1 - DELTA) / n_trials)


@pytest.mark.gate
def test_guarantees_of_segments_hold_together():
    """At most 5% of trials without any effect guarantee one somewhere, within three errors."""
    n, wrong = 150, 0
    for seed in range(n):
        frame, rows, _ = made(600, seed, effect=0.0)
        found = segments_of(binned(frame, 3), rows, np.arange(600) % 2 == 0, ZERO_ONE)
        wrong += any(one.guaranteed[0] > 0 for one in found)
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
    """(n,) whether the rule of a segment holds."""
    sides = {side.words: side for own in columns for pair in _sides(own) for side in pair}
    return np.logical_and.reduce([sides[word].holds() for word in part.rule])


def test_arms_of_segments_are_chosen_on_some_rows_and_judged_on_others():
    frame, y, arm, young = with_arms(8_000)
    columns, trained = binned(frame), np.arange(8_000) % 5 < 2
    found = segments_of(columns, (y, arm), trained, ZERO_ONE)
    everywhere = np.zeros(8_000, dtype=int)
    for part in found:
        inside = rows_of(part, columns)
        everywhere += inside
        assert part.n_rows == (inside & ~trained).sum()
        own, others = ([y[inside & some & (arm == k)].mean() for k in range(3)]
                       for some in (trained, ~trained))  # fmt: skip
        np.testing.assert_allclose(part.trained, np.array(own[1:]) - own[0])
        assert np.argmax(part.trained) == (young[inside].mean() < 0.5)
        pairs = [(NAMES.index(one.arm), NAMES.index(one.over)) for one in part.contrasts]
        assert pairs == [(1, 0), (2, 0), (2, 1)]
        for (high, low), one in zip(pairs, part.contrasts, strict=True):
            gap = others[high] - others[low]
            assert one.effect.value == pytest.approx(gap)
            assert one.effect.lower < gap < one.effect.upper
        for lower, one in zip(part.guaranteed, part.contrasts, strict=False):
            assert lower < one.effect.value
    assert (everywhere == 1).all()
    # Segments and choices are those of the rows that they are grown on, whatever others show.
    other = segments_of(columns, (np.where(trained, y, 1 - y), arm), trained, None)
    assert [part.rule for part in other] == [part.rule for part in found]


@pytest.mark.gate
@pytest.mark.parametrize("effects", [(0.05, 0.05), (0.02, 0.12)])
def test_without_different_effects_arms_of_segments_are_rarely_found(effects):
    """Each arm has one effect for all."""
    n_trials, n_found = 150, 0
    for seed in range(n_trials):
        frame, _, arm, _ = with_arms(2_000, seed)
        chance = 0.2 + np.array([0.0, *effects])[arm]
        y = (np.random.default_rng([seed, 1]).random(2_000) < chance).astype(float)
        n_found += bool(segments_of(binned(frame, 3), (y, arm), np.arange(2_000) % 2 == 0, None))
    assert n_found / n_trials <= DELTA + 3 * np.sqrt(DELTA * (1 - DELTA) / n_trials)


@pytest.mark.gate
def test_intervals_of_arms_of_segments_hold_together():
    n_trials, missed, found_both = 80, 0, 0
    for seed in range(n_trials):
        frame, y, arm, young = with_arms(6_000, seed)
        columns, trained = binned(frame, 4), np.arange(6_000) % 2 == 0
        found = segments_of(columns, (y, arm), trained, None)
        if not found:
            continue
        found_both += {int(np.argmax(part.trained)) for part in found} == {0, 1}
        right = True
        for part in found:
            share = young[rows_of(part, columns) & ~trained].mean()
            truth = dict(zip(NAMES, (0.0, 0.15 * share, 0.15 * (1 - share)), strict=True))
            for one in part.contrasts:
                right &= one.effect.lower <= truth[one.arm] - truth[one.over] <= one.effect.upper
        missed += not right
    assert found_both >= 0.9 * n_trials
    assert missed / n_trials <= DELTA + 3 * np.sqrt(DELTA * (1 - DELTA) / n_trials)
