"""Certificates of policies: unbiased blocks, their floor, all samples of a small population."""

from itertools import product

import numpy as np
import pytest

from auucmax._errors import InputError
from auucmax.certificates.blocks import ChancesBeyond
from auucmax.certificates.policies import (
    SHARES,
    Game,
    PolicyRows,
    Ranked,
    block_ends,
    certify_policy,
    certify_shares,
    most_above,
)


def population(rng, n, n_arms=2, effect=0.1):
    x, got = rng.random(n), rng.integers(0, n_arms + 1, n)
    chosen = (x * (n_arms + 1)).astype(int)
    y = (rng.random(n) < 0.3 + effect * ((got == chosen) & (got > 0))).astype(float)
    return y, chosen, got


def test_blocks_are_unbiased_for_all_three_targets():
    rng = np.random.default_rng(0)
    prices, means = np.array([0.0, 0.02, 0.04]), []
    for _ in range(60):
        pilot, rest = (PolicyRows(*population(rng, n)) for n in (100, 3000))
        game = Game.of(pilot, [rest], 2, prices, 0.5, 0.05)
        means.append([w.mean() for w in game.statistics(rest, game.ends[0], rng)])
    mean, error = np.mean(means, axis=0), np.std(means, axis=0) / np.sqrt(len(means))
    # A third gets each arm, and gains .1; random people would gain .1 in a third of the cases.
    truth = np.array([0.2 / 3, 0.2 / 3 - 0.2 / 9, 0.2 / 3 - 0.06 / 3])
    assert (np.abs(mean - truth) < 3.5 * error).all()


@pytest.mark.gate
def test_no_block_is_below_its_floor():
    """Over all outcomes, choices and sizes of small blocks."""
    game = None
    for sizes in ([1, 1, 1], [2, 1, 1], [1, 2, 1]):
        got = np.repeat([0, 1, 2], sizes)
        for shift_y in (0.0, 1.0):
            pilot = PolicyRows(np.full(3, shift_y), np.zeros(3, int), np.zeros(3, int))
            for y in product([0.0, 1.0], repeat=len(got)):
                for chosen in product([0, 1, 2], repeat=len(got)):
                    rows = PolicyRows(np.array(y), np.array(chosen), got)
                    game = Game.of(pilot, [rows], 2, np.array([0.0, 0.3, 0.5]), 0.5, 0.05)
                    ends = np.array(sizes)[:, None]
                    w = game.statistics(rows, ends, np.random.default_rng(0))
                    for value, stake in zip(w, game.stakes, strict=True):
                        assert value.min() >= -stake.floor - 1e-12
    assert game is not None


def test_bounds_are_below_what_the_policy_gains_and_close_to_it():
    rng = np.random.default_rng(1)
    first, rest = population(rng, 500), population(rng, 40_000)
    found = certify_policy(
        [(first[0], None, first[2]), rest], n_arms=2, treated_share=0.66, value=10, cost=[0.2, 0.4]
    )
    assert 0.045 < found.gain_lower_bound < 0.2 / 3
    assert 0.02 < found.random_lower_bound < 0.4 / 9
    assert 0.03 < found.net_lower_bound < 0.2 / 3 - 0.02


def test_units_of_the_outcome_scale_the_bounds():
    rng = np.random.default_rng(2)
    first, (y, chosen, got) = population(rng, 500), population(rng, 10_000)
    plain = certify_policy([(first[0], None, first[2]), (y, chosen, got)], n_arms=2)
    money = certify_policy(
        [(50 * first[0], None, first[2]), (50 * y, chosen, got)], n_arms=2, outcome_range=(0, 50)
    )
    assert money.gain_lower_bound == pytest.approx(50 * plain.gain_lower_bound)


@pytest.mark.gate
@pytest.mark.parametrize("effect", [0.0, 0.1])
@pytest.mark.parametrize("n", [600, 5000])
def test_bounds_miss_as_rarely_as_promised(n, effect):
    """Also for policies that were learnt from the chunks before."""
    rng, misses = np.random.default_rng(n), 0
    n_trials = 400
    for trial in range(n_trials):
        y, chosen, got = population(rng, n, effect=effect)
        cut = n // 5
        later = slice(cut, None)
        # The best policy of the first chunk's noise: arms by what they had there.
        best = 1 + int(y[:cut][got[:cut] == 2].mean() > y[:cut][got[:cut] == 1].mean())
        learnt = np.where(chosen > 0, best, 0)
        found = certify_policy(
            [(y[:cut], None, got[:cut]), (y[later], learnt[later], got[later])],
            n_arms=2, random_state=trial, n_dealings=4,
        )  # fmt: skip
        gain = effect / 3
        misses += found.gain_lower_bound > gain
        misses += found.random_lower_bound > gain - effect * 2 / 9
    assert misses / (2 * n_trials) <= 0.05


def test_few_rows_say_nothing():
    found = certify_policy([([0.0, 1.0], None, [0, 1]), ([1.0], [1], [1])], n_arms=1)
    assert found.gain_lower_bound == -np.inf


@pytest.mark.parametrize(
    ("chunks", "options", "parameter"),
    [
        ([([0, 1], [0, 1], [0, 1])], {}, "chosen"),
        ([([0, 1], None, [0, 2])], {}, "got"),
        ([([0, 2], None, [0, 1])], {}, "y"),
        ([([0, 1], None, [0, 1])], {"value": 1.0}, "value"),
    ],
)
def test_bad_input(chunks, options, parameter):
    with pytest.raises(InputError) as raised:
        certify_policy(chunks, n_arms=1, **options)
    assert raised.value.parameter == parameter


def ranked(n, seed=0, *, effect=0.2, tied=False):
    """Rows that are not bet on, and rows with a score that knows whom treatment helps."""
    rng = np.random.default_rng(seed)
    score, treated = rng.random(n), rng.random(n) < 0.5
    score = np.floor(3 * score) / 3 if tied else score
    y = (rng.random(n) < 0.2 + effect * treated * (score - 0.4)).astype(float)
    first = np.arange(n) < n // 20
    return [(y[first], None, treated[first]), (y[~first], score[~first], treated[~first])]


def test_shares_are_below_what_they_gain_and_close_to_it():
    found = certify_shares(ranked(40_000))
    q = np.array(found.shares)
    truth = 0.2 * (0.5 * (1 - (1 - q) ** 2) - 0.4 * q)  # the integral of effects from the top
    gaps = truth - np.array(found.gain_lower_bounds)
    assert (gaps > 0).all()
    assert gaps.max() < 0.02
    assert len(q) == 20


def test_value_and_cost_may_be_chosen_afterwards():
    found = certify_shares(ranked(40_000))
    np.testing.assert_allclose(
        found.net_lower_bounds(10, 0.5),
        10 * np.array(found.gain_lower_bounds) - 0.5 * np.array(found.share_upper_bounds),
    )
    most = np.array(found.share_upper_bounds) - np.array(found.shares)
    assert most[-1] == 0  # everybody is everybody
    assert (most[:-1] > 0).any()
    assert most.max() < 0.04


@pytest.mark.gate_cases("3")
@pytest.mark.parametrize("n_chunks", [1, 3])
def test_no_more_people_are_above_cuts_than_is_said(n_chunks):
    """Bets apart: the people above each cut are known, for scores are uniform."""
    shares, misses = np.array(SHARES), np.zeros(2)
    for seed in range(200):
        rng = np.random.default_rng(seed)
        parts, truth = [], []
        for _ in range(n_chunks):
            score, arms = rng.random(900), rng.integers(0, 2, 900)
            parts.append(Ranked.of(score, score, arms, rng))
            at = (shares * len(parts[-1].reference)).astype(int)
            cuts = parts[-1].reference[np.minimum(at, len(parts[-1].reference) - 1)]
            truth.append(np.where(shares < 1, 1 - cuts, 1))
        weight = np.array(
            [end.shape[1] for end in block_ends([np.bincount(p.got) for p in parts], 1)]
        )
        above = np.average(truth, axis=0, weights=weight)
        for k, level in enumerate((0.2 / len(SHARES), 0.9999)):
            misses[k] += (above > most_above(parts, SHARES, level)).any()
    assert misses[0] <= 200 * 0.2
    assert misses[1] > 200 * 0.5  # where next to nothing is added


def test_levels_that_a_share_cuts_are_chosen_in_part():
    """A third of the people has each of three scores: half of a share that ends in one of them."""
    rows = ranked(8_000, tied=True)[1]
    part = Ranked.of(rows[0], rows[1], rows[2].astype(np.intp), np.random.default_rng(0))
    for share in (0.1, 1 / 3, 0.5, 0.9, 1.0):
        chosen = part.chosen(share)
        assert chosen.mean() == pytest.approx(share, abs=0.04)
        assert (np.diff(chosen[np.argsort(-part.score, kind="stable")]) <= 0).mean() > 0.5
        assert part.score[chosen == 1].min() >= part.score[chosen == 0].max(initial=0) - 1e-9
    assert len(part.y) + len(part.reference) == 7_600


def test_chunks_of_progressive_models():
    first, rest = ranked(20_000)
    halves = [tuple(column[k::2] for column in rest) for k in (0, 1)]
    found = certify_shares([first, *halves])
    assert found.n_models == 2
    few = certify_shares([first, tuple(column[:30] for column in rest)])
    assert few is None


@pytest.mark.gate
@pytest.mark.parametrize("tied", [False, True])
def test_shares_miss_together_as_rarely_as_promised(tied):
    """No effect at all: no share gains anything, whatever its cut."""
    misses = 0
    for seed in range(300):
        found = certify_shares(ranked(1_000, seed, effect=0.0, tied=tied), random_state=seed)
        misses += max(found.gain_lower_bounds) > 0
    assert misses <= 300 * 0.05 + 3 * np.sqrt(300 * 0.05 * 0.95)


@pytest.mark.gate
def test_net_values_miss_together_as_rarely_as_promised():
    """Everybody gains .5, at a cost of .5: the net value of all above any cut is 0."""
    misses, n, told = 0, 20_000, []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        score, treated = rng.random(n), rng.random(n) < 0.5
        y = (rng.random(n) < 0.25 + 0.5 * treated).astype(float)
        first, rest = slice(0, n // 20), slice(n // 20, None)
        found = certify_shares(
            [(y[first], None, treated[first]), (y[rest], score[rest], treated[rest])],
            random_state=seed,
        )
        misses += found.net_lower_bounds(1, 0.5).max() > 0
        told.append(found.gain_lower_bounds[9])
    assert misses <= 60 * 0.05
    assert np.mean(told) > 0.2  # of .25 at a half


#: A person has x = 0 or 1 with these probabilities, these chances of the control and of two arms,
#: these rates of the outcome with each, and is given this arm by the policy.
SHARE = np.array([0.6, 0.4])
CHANCE = np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])
RATE = np.array([[0.3, 0.2, 0.5], [0.4, 0.9, 0.1]])
GIVEN = np.array([2, 1])


def chance_game(rows, prices=None):
    own = np.array([1.0, 0.0, 1.0]), np.zeros(3, int), np.arange(3)
    first = PolicyRows(*own, CHANCE[[0, 1, 1]])
    return Game.of(first, [rows], 2, prices, 0.5, 0.05)


def test_blocks_by_known_chances_are_unbiased_over_all_samples():
    """All 12^2 samples of two rows, each with its probability: means are exact, floors hold."""
    prices, total, mean = np.array([0.0, 0.1, 0.3]), 0.0, np.zeros(3)
    for sample in product(product(range(2), range(3), (0, 1)), repeat=2):
        x, got, y = map(np.array, zip(*sample, strict=True))
        p = np.prod(SHARE[x] * CHANCE[x, got] * np.where(y, RATE[x, got], 1 - RATE[x, got]))
        rows = PolicyRows(y.astype(float), GIVEN[x], got, CHANCE[x])
        game = chance_game(rows, prices)
        w = game.statistics(rows, np.array([[2]]), np.random.default_rng(0))
        for value, stake in zip(w, game.stakes, strict=True):
            assert value[0] >= -stake.floor - 1e-12
        total, mean = total + p, mean + p * np.array([own[0] for own in w])
    effect = RATE[:, 1:] - RATE[:, :1]
    gain = SHARE @ effect[[0, 1], GIVEN - 1]
    at_random = SHARE[::-1] @ (SHARE @ effect)  # 40% get the first arm
    assert total == pytest.approx(1)
    np.testing.assert_allclose(mean, [gain, gain - at_random, gain - SHARE @ prices[GIVEN]])


def unequal(rng, n):
    """Those who respond anyway had the second arm more often, which helps nobody."""
    x = rng.random(n)
    chance = np.where((x > 0.5)[:, None], [0.2, 0.2, 0.6], [0.5, 0.3, 0.2])
    got = (rng.random(n)[:, None] > np.cumsum(chance, axis=1)).sum(axis=1)
    rate = 0.1 + 0.4 * (x > 0.5) + 0.2 * ((got == 1) & (x < 0.3))
    return (rng.random(n) < rate).astype(float), x, got, chance


def test_a_policy_is_certified_by_known_chances():
    rng = np.random.default_rng(3)
    first, (y, x, got, chance) = unequal(rng, 1_000), unequal(rng, 40_000)
    chances = [first[3], chance]

    def bounds(chosen, propensity):
        chunks = [(first[0], None, first[2]), (y, chosen, got)]
        return certify_policy(chunks, n_arms=2, propensity=propensity)

    useless, good = np.full(len(y), 2), np.where(x < 0.3, 1, 0)
    assert bounds(useless, None).gain_lower_bound > 0.05  # false: chances are not the same
    assert bounds(useless, chances).gain_lower_bound < 0
    found = bounds(good, chances)
    assert 0.03 < found.gain_lower_bound < 0.06
    assert found.random_lower_bound > 0.02
    assert found.propensity == (0.2, 0.6)


def test_a_chunk_of_one_row_is_left_out():
    """It has no others who are random people."""
    rng = np.random.default_rng(5)
    parts = [unequal(rng, n) for n in (500, 2_000, 1)]
    chunks = [(y, None if k == 0 else (x < 0.3).astype(int), got)
              for k, (y, x, got, _) in enumerate(parts)]  # fmt: skip
    chances = [part[3] for part in parts]
    found = certify_policy(chunks, n_arms=2, propensity=chances)
    assert found == certify_policy(chunks[:2], n_arms=2, propensity=chances[:2])
    assert np.isfinite(found.random_lower_bound)
    alone = certify_policy([chunks[0], chunks[2]], n_arms=2, propensity=[chances[0], chances[2]])
    assert alone.random_lower_bound == -np.inf


def test_chances_that_are_none_or_beyond_those_of_the_pilot_are_refused():
    rng = np.random.default_rng(4)
    first, (y, x, got, chance) = unequal(rng, 500), unequal(rng, 500)
    chunks = [(first[0], None, first[2]), (y, (x > 0.5).astype(int), got)]
    with pytest.raises(ValueError, match="propensity should be a row for each of 500 people"):
        certify_policy(chunks, n_arms=2, propensity=[first[3], chance[:, 1:]])
    near = chance.copy()
    near[0] = [0.01, 0.01, 0.98]
    with pytest.raises(ChancesBeyond, match=r"should be at least 0\.16, 0\.16, 0\.16"):
        certify_policy(chunks, n_arms=2, propensity=[first[3], near])


@pytest.mark.gate
def test_bounds_by_known_chances_miss_no_more_often_than_delta():
    """Of a policy by x, whose gain is known."""
    rng, missed, n_times = np.random.default_rng(5), 0, 300
    for _ in range(n_times):
        first, (y, x, got, chance) = unequal(rng, 300), unequal(rng, 1_500)
        chunks = [(first[0], None, first[2]), (y, np.where(x < 0.3, 1, 2), got)]
        found = certify_policy(
            chunks, n_arms=2, propensity=[first[3], chance], delta=0.2, n_dealings=2
        )
        missed += found.gain_lower_bound > 0.06
    assert missed / n_times < 0.2 + 3 * np.sqrt(0.16 / n_times)
