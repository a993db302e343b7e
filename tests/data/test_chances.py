import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auucmax.data.balance import compare_counts, even_rows
from auucmax.data.pair import chance_weights, own_chance
from auucmax.data.read_trial import arm_chances, arm_columns, check_chances

NAME = "the propensity 'p'"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0.5, None], "the propensity 'p' should be .* in every row, got nan in 1 rows"),
        ([0.5, -0.1], "above 0 and below 1, in every row, got -0.1 in 1 rows"),
        ([90.0, 10.0], "got 90.0, 10.0 in 2 rows. If these are per cent, divide by 100"),
        ([0.5, 1.0, 0.0], "got 1.0, 0.0 in 2 rows. .* Leave out rows"),
        (["0.5", "high"], "got 'high'"),
    ],
)
def test_wrong_chances_are_refused_in_one_line(values, message):
    with pytest.raises(ValueError, match=message) as error:
        check_chances(pd.Series(values), NAME)
    assert "\n" not in str(error.value)


chances = st.floats(0.02, 0.98)


@given(st.lists(st.tuples(chances, st.booleans()), min_size=1, max_size=30), st.integers(0, 99))
def test_one_chance_for_all_changes_nothing(rows, seed):
    chance, treated = np.full(len(rows), rows[0][0]), np.array([t for _, t in rows])
    assert even_rows(treated, chance, np.random.default_rng(seed)).all()
    weight = chance_weights(treated, chance)
    for arm in (treated, ~treated):
        assert len(np.unique(weight[arm])) <= 1


def test_weights_make_each_arm_stand_for_everybody():
    rng = np.random.default_rng(0)
    x = rng.random(200_000)
    chance = 0.1 + 0.8 * x
    treated = rng.random(len(x)) < chance
    weight = chance_weights(treated, chance)
    for arm in (treated, ~treated):
        terms = weight[arm] * (x[arm] - 0.5)
        assert abs(terms.sum()) < 4 * np.sqrt((terms**2).sum())
        assert weight[arm].sum() == pytest.approx(arm.sum(), rel=0.02)
    # Without them the arms differ by hundreds of standard errors.
    assert x[treated].mean() - x[~treated].mean() > 0.2


def test_drawn_rows_had_one_chance_whatever_their_stratum():
    """Within 4 standard errors, in strata of chances from .05 to .95; an arm of each is whole."""
    rng = np.random.default_rng(1)
    values = np.array([0.05, 0.3, 0.5, 0.95])
    chance = rng.choice(values, 100_000)
    treated = rng.random(len(chance)) < chance
    kept = even_rows(treated, chance, np.random.default_rng(2))
    odds = np.exp(np.mean(np.log(chance) - np.log1p(-chance)))
    share = odds / (1 + odds)
    for value in values:
        own = kept & (chance == value)
        error = np.sqrt(share * (1 - share) / own.sum())
        assert abs(treated[own].mean() - share) < 4 * error
        rarer = treated if value < share else ~treated
        assert kept[(chance == value) & rarer].all()


def test_data_of_the_same_seed_do_not_go_with_the_draw():
    stratum = np.random.default_rng(0).random(4_000) < 0.5
    chance = np.where(stratum, 0.9, 0.1)
    treated = np.random.default_rng(5).random(4_000) < chance
    kept = even_rows(treated, chance, np.random.default_rng(0))
    shares = [treated[kept & own].mean() for own in (stratum, ~stratum)]
    assert abs(shares[0] - shares[1]) < 4 * np.sqrt(0.25 / 400 * 2)


def test_numbers_that_contradict_the_chances_are_found():
    rng = np.random.default_rng(3)
    chance = np.repeat([0.9, 0.2], 1_000)
    right = rng.random(2_000) < chance
    assert compare_counts(right, chance).p_value > 0.01
    half = np.where(chance == 0.9, rng.random(2_000) < 0.5, right)
    found = compare_counts(half, chance)
    assert found.p_value < 1e-10
    assert found.detail.startswith("of 1,000 rows of chance 0.9, ")
    # The chance of the arm that a row is in, a common slip.
    assert compare_counts(right, own_chance(right, chance)).p_value < 1e-10


@pytest.mark.gate
def test_false_alarms_are_rare_of_few_and_of_many_chances():
    """400 trials each; p below .05 at most 5% of the time, and 3.5 standard errors."""
    rng = np.random.default_rng(4)
    most = 0.05 + 3.5 * np.sqrt(0.05 * 0.95 / 400)
    for few in (True, False):
        alarms = 0
        for _ in range(400):
            chance = rng.choice([0.1, 0.7], 300) if few else rng.uniform(0.05, 0.95, 300)
            alarms += compare_counts(rng.random(300) < chance, chance).p_value < 0.05
        assert alarms / 400 < most


def test_many_chances_are_tested_in_tenths():
    rng = np.random.default_rng(5)
    chance = rng.uniform(0.05, 0.95, 20_000)
    assert compare_counts(rng.random(20_000) < chance, chance).p_value > 0.01
    assert compare_counts(rng.random(20_000) < 1 - chance, chance).p_value < 1e-10


FRAME = pd.DataFrame({"a": [0.2, 0.5], "b": [0.3, 0.5]})
ARMS = ["no", "mail", "phone"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mail": "a"}, "a column for each arm of .* got {'mail': 'a'}"),
        ({"mail": "a", "phone": "b", "no": "c"}, "a column for each arm"),
        ({"mail": "a", "fone": "b"}, "of 'mail', 'no', 'phone', .* got {'mail': 'a', 'fone'"),
        ({"mail": "a", "phone": "c"}, "should be a table with the column 'c'"),
        ({"mail": "a", "phone": "a"}, "a column for each arm"),
        ("chance", "got 'chance'"),
    ],
)
def test_columns_that_are_not_those_of_the_arms_are_refused(given, message):
    with pytest.raises(ValueError, match=message) as error:
        arm_columns(given, ARMS, list(FRAME))
    assert "\n" not in str(error.value)


def test_chances_that_leave_the_control_none_are_refused():
    named = arm_columns({"mail": "a", "phone": "b"}, ARMS, list(FRAME))
    with pytest.raises(ValueError, match=r"'a', 'b' should be less than 1 together .* in 1 rows"):
        arm_chances(FRAME, named, ARMS)
    with pytest.raises(ValueError, match="per cent"):
        arm_chances(FRAME * 100, named, ARMS)
    with pytest.raises(ValueError, match="nothing was left to chance"):
        arm_chances(FRAME.assign(a=[0.0, 0.2]), named, ARMS)


def test_weights_of_two_of_several_arms_are_of_all_people():
    """Rows of two arms are mostly people who had a small chance of the third."""
    rng = np.random.default_rng(1)
    x = rng.random(200_000)
    frame = pd.DataFrame({"a": 0.2 + 0.1 * x, "b": 0.1 + 0.5 * x})
    named = (("mail", "a"), ("phone", "b"))
    chances = arm_chances(frame, named, ["no", "mail", "phone"])
    got = (rng.random(len(x))[:, None] > np.cumsum(chances, axis=1)).sum(axis=1)
    both = got < 2
    either = chances[both][:, :2].sum(axis=1)
    chance, treated = chances[both][:, 1] / either, got[both] == 1
    for people, is_right in ((None, False), (1 / either, True)):
        weight = chance_weights(treated, chance, people)
        for arm in (treated, ~treated):
            terms = weight[arm] * (x[both][arm] - 0.5)
            assert (abs(terms.sum()) < 4 * np.sqrt((terms**2).sum())) == is_right
            assert weight[arm].sum() == pytest.approx(arm.sum(), rel=0.02)
