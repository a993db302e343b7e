"""Certificates of policies: unbiased blocks, their floor, all samples of a small population."""

from itertools import product

import numpy as np
import pytest

from auucmax.bounds.policies import _Game, _PolicyRows, certify_policy


def population(rng, n, n_arms=2, effect=0.1):
    x, got = rng.random(n), rng.integers(0, n_arms + 1, n)
    chosen = (x * (n_arms + 1)).astype(int)
    y = (rng.random(n) < 0.3 + effect * ((got == chosen) & (got > 0))).astype(float)
    return y, chosen, got


def test_blocks_are_unbiased_for_all_three_targets():
    rng = np.random.default_rng(0)
    prices, means = np.array([0.0, 0.02, 0.04]), []
    for _ in range(60):
        pilot, rest = (_PolicyRows(*population(rng, n)) for n in (100, 3000))
        game = _Game.of(pilot, [rest], 2, prices)
        means.append([w.mean() for w in game._statistics(rest, game.ends[0], rng)])
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
            pilot = _PolicyRows(np.full(3, shift_y), np.zeros(3, int), np.zeros(3, int))
            for y in product([0.0, 1.0], repeat=len(got)):
                for chosen in product([0, 1, 2], repeat=len(got)):
                    rows = _PolicyRows(np.array(y), np.array(chosen), got)
                    game = _Game.of(pilot, [rows], 2, np.array([0.0, 0.3, 0.5]))
                    ends = np.array(sizes)[:, None]
                    w = game._statistics(rows, ends, np.random.default_rng(0))
                    for value, stake in zip(w, game.stakes(0.5, 0.05), strict=True):
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
    text = str(found)
    assert text.startswith("With probability 0.95, this policy gains per person at least +0.0")
    assert "over giving the same arms to random people" in text


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
    ("chunks", "options", "message"),
    [
        ([([0, 1], [0, 1], [0, 1])], {}, "chosen should be None in the first chunk"),
        ([([0, 1], None, [0, 2])], {}, "got should be whole numbers from 0, the control, to 1"),
        ([([0, 2], None, [0, 1])], {}, "y should lie in the range that is known beforehand"),
        ([([0, 1], None, [0, 1])], {"value": 1.0}, "value and cost should come together"),
    ],
)
def test_messages(chunks, options, message):
    with pytest.raises(ValueError, match=message):
        certify_policy(chunks, n_arms=1, **options)
