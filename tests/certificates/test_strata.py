from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.certificates.reference import strata_wealth_slow

from auucmax._errors import InputError
from auucmax.certificates.strata import (
    GroupsError,
    Stratum,
    Units,
    log_wealth,
    sizes_of_bets,
    strata_bounds,
)


def rows(seed, n=600, effects=(0.0, 0.3), chances=(0.2, 0.8), base=0.3):
    rng = np.random.default_rng(seed)
    stratum = rng.integers(0, len(effects), n)
    treated = rng.random(n) < np.take(chances, stratum)
    y = (rng.random(n) < base + np.take(effects, stratum) * treated).astype(float)
    return y, treated, stratum


WEIGHTS = [[0.0, 1.0], [-0.5, 0.5], [1.0, 0.0]]


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10_000))
def test_wealth_is_that_of_its_definition(seed):
    y, treated, code = rows(seed, n=120)
    rng = np.random.default_rng(seed)
    units = Units.of(y, treated.astype(int), code, None)
    strata = [Stratum.of(units, s, [True, True], rng) for s in (0, 1)]
    weights = np.array(WEIGHTS)
    sums = weights[:, :, None] * [-1.0, 1.0]
    bets = sizes_of_bets(strata, sums, 0.05)
    own = np.random.SeedSequence(seed)
    fast = log_wealth(strata, sums, bets, own)
    again = np.random.default_rng(own)
    arms = ([], [])
    for stratum in strata:
        own_arms = stratum.outcomes[::-1], stratum.sizes[::-1]
        for kept, arm, sizes in zip(arms, *own_arms, strict=True):
            kept.append(np.split(again.permutation(arm), np.cumsum(sizes)[:-1]))
    slow = [strata_wealth_slow(*arms, w, bet) for w, bet in zip(weights, bets, strict=True)]
    assert fast == pytest.approx(slow)


def test_over_all_samples_the_wealth_is_no_larger_than_the_proof_allows():
    """Two strata of two blocks of a pair each: all 2^8 outcomes with their probabilities."""
    rates = np.array([[0.3, 0.6], [0.2, 0.1]])  # control and treated, of each stratum
    weights, bet = np.array([0.7, -0.4]), 1.5
    expected = 0.0
    for outcomes in product((0.0, 1.0), repeat=8):
        y = np.array(outcomes).reshape(2, 2, 2)  # stratum, block, control or treated
        chance = np.where(y == 1, rates[:, None], 1 - rates[:, None]).prod()
        blocks = [[list(y[s, :, [arm]].reshape(2, 1)) for s in (0, 1)] for arm in (1, 0)]
        expected += chance * np.exp(strata_wealth_slow(*blocks, weights, bet))
    theta = weights @ (rates[:, 1] - rates[:, 0])
    exact = np.prod([(1 + bet * w / 2 * d) ** 2 for w, d in zip(weights, (0.3, -0.1), strict=True)])
    assert expected == pytest.approx(exact)
    assert expected <= np.exp(bet * theta)


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10_000))
def test_neither_the_order_of_rows_nor_the_unit_matters(seed):
    y, treated, code = rows(seed)
    found = strata_bounds(y, treatment=treated, stratum=code, weights=WEIGHTS)
    order = np.random.default_rng(seed).permutation(len(y))
    again = strata_bounds(
        100 * y[order] - 5, treatment=treated[order], stratum=code[order], weights=WEIGHTS,
        outcome_range=(-5, 95),
    )  # fmt: skip
    assert again.lower == pytest.approx(100 * found.lower)
    assert again.upper == pytest.approx(100 * found.upper)
    assert (found.lower < found.upper).all()


def test_a_stratum_without_an_arm_must_not_count():
    y, treated, code = rows(1)
    treated[code == 0] = False
    options = {"treatment": treated, "stratum": code}
    assert np.isfinite(strata_bounds(y, **options, weights=[0, 1]).lower).all()
    with pytest.raises(ValueError, match=r"got none of arm 1 in stratum 0\. Give it weight 0"):
        strata_bounds(y, **options, weights=[1, 1])


def test_few_rows_are_never_beyond_what_is_possible():
    y, treated, code = np.array([1.0, 0, 1, 0]), np.array([True, False] * 2), np.zeros(4, int)
    found = strata_bounds(y, treatment=treated, stratum=code, weights=[2.0])
    assert -2 <= found.lower[0] < found.upper[0] <= 2


@pytest.mark.parametrize(
    ("change", "parameter"),
    [
        ({"stratum": [0.5] * 4}, "stratum"),
        ({"stratum": [0, 1, 2, 0]}, "stratum"),
        ({"delta": 2}, "delta"),
        ({"y": [0, 1, 2, 1]}, "y"),
        ({"random_state": -1}, "random_state"),
        ({"weights": [[[1, 1], [0, 0]]]}, "weights"),
        ({"groups": [1, 1, 2, 3]}, "groups"),
    ],
)
def test_bad_input(change, parameter):
    given = {"y": [0, 1, 0, 1], "treatment": [0, 1, 1, 0], "stratum": [0, 0, 1, 1]}
    given |= {"weights": [1, 1]} | change
    with pytest.raises(InputError) as raised:
        strata_bounds(given.pop("y"), **given)
    assert raised.value.parameter == parameter


@pytest.mark.gate
@pytest.mark.parametrize("base", [0.02, 0.3])
def test_bounds_miss_no_more_often_than_they_may(base):
    weights = np.array(WEIGHTS)
    truth, n_trials = weights @ [0.0, 0.1], 400
    misses = np.zeros((2, len(weights)))
    for seed in range(n_trials):
        y, treated, code = rows(seed, 1_500, (0.0, 0.1), (0.1, 0.9), base)
        found = strata_bounds(
            y, treatment=treated, stratum=code, weights=weights, n_dealings=3, random_state=seed
        )
        misses += [found.lower > truth, found.upper < truth]
    assert (misses / n_trials <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n_trials)).all()


def arms_rows(seed, n=1_500):
    """Two strata, three arms; arm 2 is best in stratum 1, arm 1 in stratum 0."""
    rng = np.random.default_rng(seed)
    stratum = rng.integers(0, 2, n)
    arm = np.where(rng.random(n) < 0.6, np.take([1, 2], stratum), rng.integers(0, 3, n))
    rate = np.array([[0.2, 0.4, 0.2], [0.2, 0.25, 0.5]])
    return (rng.random(n) < rate[stratum, arm]).astype(float), arm, stratum, rate


#: Against nobody, against arm 1 for all, and against both arms at random.
OF_ARMS = np.array(
    [
        [[-1, 1, 0], [-1, 0, 1]],
        [[0, 0, 0], [0, -1, 1]],
        [[0, 0.5, -0.5], [0, -0.5, 0.5]],
    ]
)


def test_of_two_arms_coefficients_are_weights():
    y, treated, code = rows(4)
    one = strata_bounds(y, treatment=treated, stratum=code, weights=WEIGHTS)
    sums = np.array(WEIGHTS)[:, :, None] * [-1, 1]
    other = strata_bounds(y, treatment=treated.astype(int), stratum=code, weights=sums)
    np.testing.assert_array_equal(one.lower, other.lower)
    none = np.concatenate([sums, np.zeros((3, 2, 1))], axis=2)  # an arm that nobody got
    third = strata_bounds(y, treatment=treated.astype(int), stratum=code, weights=none)
    np.testing.assert_allclose(third.upper, one.upper)


@pytest.mark.gate
def test_bounds_of_several_arms_miss_no_more_often_than_they_may():
    n_trials, misses = 300, np.zeros((2, 3))
    for seed in range(n_trials):
        y, arm, stratum, rate = arms_rows(seed)
        truth = (OF_ARMS * rate).sum(axis=(1, 2))
        found = strata_bounds(
            y, treatment=arm, stratum=stratum, weights=OF_ARMS, n_dealings=2, random_state=seed
        )
        misses += [found.lower > truth, found.upper < truth]
    assert (misses / n_trials <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n_trials)).all()
    assert found.lower[0] > 0.2  # and they tell something


def homes(seed, n=500, effect=0.2):
    """Homes of one to five, whose people mostly do the same; larger ones more often."""
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 6, n)
    stratum, treated = rng.integers(0, 2, n), rng.random(n) < 0.7
    rate = 0.1 + 0.05 * size + effect * treated * stratum
    y = (np.repeat(rng.random(n), size) < np.repeat(rate, size)).astype(float)
    own = [np.repeat(part, size) for part in (treated, stratum, np.arange(n))]
    return y, *own, size


def test_a_group_far_larger_than_others_is_not_certified():
    y, treated, stratum, group, _ = homes(0)
    y, treated, stratum, group = (
        np.concatenate([own, np.repeat(own[:1], 60)]) for own in (y, treated, stratum, group)
    )
    with pytest.raises(GroupsError, match=r"groups should be of at most \d+ rows, 2 times as many"):
        strata_bounds(y, treatment=treated, stratum=stratum, weights=[1, 1], groups=group)


def test_groups_are_certified_up_to_a_size_that_is_said_or_declared():
    y, treated, stratum, group, _ = homes(0)
    named = {"treatment": treated, "stratum": stratum, "weights": [1, 1], "groups": group}
    found, declared = strata_bounds(y, **named), strata_bounds(y, **named, largest_group=5)
    assert (found.largest_group, declared.largest_group) == (10, 5)
    assert declared.lower[0] >= found.lower[0]
    assert (
        strata_bounds(y, treatment=treated, stratum=stratum, weights=[1, 1]).largest_group is None
    )
    with pytest.raises(GroupsError, match=r"at most 4 rows, as was declared, .* of up to 5\."):
        strata_bounds(y, **named, largest_group=4)
    with pytest.raises(ValueError, match="largest_group should be given together with groups"):
        strata_bounds(y, **(named | {"groups": None}), largest_group=4)


@pytest.mark.gate
def test_bounds_of_groups_hold_of_those_up_to_the_size_that_is_said():
    """One shop in a thousand is large and harmed: bounds say that they are not about it."""
    n_trials, misses, certified = 200, np.zeros(2), 0
    for seed in range(n_trials):
        rng = np.random.default_rng(seed)
        size = np.where(rng.random(600) < 1e-3, 600, rng.integers(1, 4, 600))
        treated = rng.random(600) < 0.5
        rate = np.where(size < 9, np.where(treated, 0.8, 0.5), np.where(treated, 0.0, 1.0))
        y, group = rng.random(size.sum()) < np.repeat(rate, size), np.repeat(np.arange(600), size)
        named = {"treatment": treated[group], "stratum": 0 * group, "weights": [len(y)]}
        named |= {"groups": group, "n_dealings": 2, "random_state": seed}
        try:
            found = strata_bounds(y, **named)
        except GroupsError:
            assert size.max() == 600
            continue
        certified += 1
        # Now and then the shop is among those that size bets.
        truth = {6: 360, 1200: 600 * (0.999 * 0.6 - 0.001 * 600)}[found.largest_group]
        misses += [found.lower[0] > truth, found.upper[0] < truth]
        with pytest.raises(GroupsError):
            strata_bounds(y, **named, largest_group=2)
    assert certified > 80
    assert (misses / certified <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / certified)).all()


@pytest.mark.gate
def test_bounds_of_groups_miss_no_more_often_than_they_may():
    """The sum over groups of what treating them brings; as rows they would miss far more often."""
    n_trials, misses, naive = 300, np.zeros(2), 0
    for seed in range(n_trials):
        y, treated, stratum, group, _ = homes(seed)
        n_homes = len(np.unique(group[stratum == 1]))
        truth = 0.2 * 3 * n_homes  # three people a home, on average
        weight = [0, float((stratum == 1).sum())]
        named = {"treatment": treated, "stratum": stratum, "weights": weight, "n_dealings": 2}
        found = strata_bounds(y, **named, groups=group, random_state=seed)
        misses += [found.lower[0] > truth, found.upper[0] < truth]
        found = strata_bounds(y, **named, random_state=seed)
        naive += found.lower[0] > truth or found.upper[0] < truth
    assert (misses / n_trials <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n_trials)).all()
    assert naive / n_trials > misses.max() / n_trials
