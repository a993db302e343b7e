import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.certificates.reference import hedged_wealth_slow

from auucmax import auuc_difference, auuc_inference, auuc_score
from auucmax._errors import InputError
from auucmax._validation import check_rows
from auucmax.certificates import certify_difference, kernels
from auucmax.certificates.betting import (
    AIM,
    HEDGE,
    LARGEST_LOSS,
    Game,
    betting_bound,
)
from auucmax.certificates.blocks import CENTRES, BlockDesign, DealtUnits, deal, deviations


def _rows(n=1500, seed=0, effect=0.3, levels=None, share=0.5):
    rng = np.random.default_rng(seed)
    score = rng.random(n) if levels is None else rng.integers(levels, size=n).astype(float)
    t = (rng.random(n) < share).astype(int)
    scaled = score / max(score.max(), 1)
    y = (rng.random(n) < 0.2 + effect * t * scaled).astype(float)
    return y, score, t


@given(seed=st.integers(0, 1000), theta=st.floats(-0.1, 0.1), n_blocks=st.integers(3, 60))
@settings(deadline=None, max_examples=50)
def test_wealth_agrees_with_its_twin(seed, theta, n_blocks):
    rng = np.random.default_rng(seed)
    w = rng.uniform(-0.6, 0.6, size=(n_blocks, 3))
    superblocks = np.unique(np.append(rng.integers(1, n_blocks, size=4), n_blocks))
    deviation = rng.uniform(0.1, 0.5, size=len(superblocks))
    deviation[0] = 0
    out = np.empty(1)
    kernels.hedged_wealth(
        w,
        superblocks,
        deviation,
        np.array([theta]),
        0.6,
        LARGEST_LOSS,
        1 / (AIM * 0.05),
        HEDGE,
        out,
    )
    slow = hedged_wealth_slow(w, superblocks, deviation, theta, 0.6, 0.05)
    assert out[0] == pytest.approx(slow, rel=1e-9)
    fixed = kernels.log_wealth(w, superblocks, theta, np.array([0.3])).sum()
    parts = np.split(1 + 0.3 * (w - theta), superblocks[:-1])
    assert fixed == pytest.approx(np.log(np.prod([p.prod(axis=0).mean() for p in parts])))


@pytest.mark.gate
@pytest.mark.parametrize("bets", ["hedged", "fixed"])
@pytest.mark.parametrize("centre", [0.5, 0.0])
@pytest.mark.parametrize(
    ("n_rows", "n_treated", "delta"),
    [(6, 3, 0.4), pytest.param(7, 4, 0.6, marks=pytest.mark.gate)],
)
def test_exact_probability_of_a_miss(n_rows, n_treated, delta, centre, bets):
    """All samples of a small population, each with its probability.

    Two scores, P = 1/2 each, tied often; P(y = 1) depends on score and arm. A row is one of 4 kinds
    (score, outcome), so there are 4^6 samples of 6 rows, 4^7 of 7. At the truth the expected wealth
    is 1, to rounding; above it less; and the bound exceeds the truth with a probability of at most
    delta, at a delta at which it sometimes does, so that the test bites.
    """
    treated = np.arange(n_rows) < n_treated
    kinds = np.array(list(itertools.product((0, 1), (0, 1))))  # score, outcome
    rate = {True: np.array([0.1, 0.9]), False: np.array([0.5, 0.5])}
    mid = np.array([0.25, 0.75]) - centre
    truth = float(0.5 * (rate[True] @ mid) - 0.5 * (rate[False] @ mid))
    samples = np.array(list(itertools.product(range(4), repeat=n_rows)))
    chance = np.ones(len(samples))
    for row in range(n_rows):
        low, high = rate[bool(treated[row])]
        chance *= 0.5 * np.array([1 - low, low, 1 - high, high])[samples[:, row]]
    assert chance.sum() == pytest.approx(1)

    blocks = n_rows - n_treated
    ends = np.array([np.rint(np.arange(1, blocks + 1) * n / blocks) for n in (n_treated, blocks)])
    design = BlockDesign(ends.astype(np.int64), np.arange(2, blocks + 1), 3, n_pilot=2)
    shift, units = 0.3, DealtUnits.of(treated)
    floor = design.floor(centre, (shift, shift))
    grid = np.arange(-floor + 0.05, 0.6, 0.05)
    grid = np.sort(np.append(grid[np.abs(grid - truth) > 1e-6], truth))
    deviation = np.full(len(design.superblocks), 0.3)
    wealth = np.zeros((len(samples), len(grid)))
    for number, sample in enumerate(samples):
        score, y = kinds[sample].T
        ranks, residual = score[None].astype(np.int32), y.astype(float)
        for seed in np.random.SeedSequence(1).spawn(2):
            w = deal(ranks, np.ones(1), residual, shift, units, design, seed)
            w = w[CENTRES.index(centre)]
            out = np.empty(len(grid))
            if bets == "hedged":
                aim = 1 / (AIM * delta)
                kernels.hedged_wealth(
                    w, design.superblocks, deviation, grid, floor, LARGEST_LOSS, aim, HEDGE, out
                )
            else:
                ends = design.superblocks
                bet = np.array([0.7])
                won = [kernels.log_wealth(w, ends, value, bet).sum() for value in grid]
                out = np.exp(won)
            wealth[number] += out / 2
    expected = chance @ wealth
    at_truth = int(np.flatnonzero(grid == truth)[0])
    assert expected[at_truth] == pytest.approx(1, abs=1e-9)
    assert (expected[at_truth + 1 :] < 1).all()
    assert (expected[:at_truth] > 1).all()
    rejected = wealth >= 1 / delta
    missed = rejected[:, : at_truth + 1].all(axis=1)  # the bound is at or above a value > truth
    assert 0 < chance @ rejected[:, at_truth] <= delta
    assert chance @ missed <= delta


@pytest.mark.gate
@pytest.mark.parametrize("kind", ["plain", "model", "clusters", "difference"])
@pytest.mark.parametrize("centre", [0.5, 0.0])
def test_expected_wealth_at_the_truth(centre, kind):
    """From rows to wealth as the bound does it, pilot, shift and deviations included: mean 1.

    Scores 0 to 3, 30% treated; the response rises with the score among the treated.
    """
    rng = np.random.default_rng(4)
    n, delta, wealth = 160, 0.25, []
    rate = {1: np.array([0.05, 0.1, 0.2, 0.6]), 0: np.full(4, 0.2)}
    mid = (np.arange(4) + 0.5) / 4 - centre
    truth = float(np.mean((rate[1] - rate[0]) * mid))
    for number in range(1200):
        score, t = rng.integers(4, size=n).astype(float), np.arange(n) % 10 < 3
        y = (rng.random(n) < np.where(t, rate[1][score.astype(int)], 0.2)).astype(float)
        scores, value, model, groups = [score], truth, None, None
        if kind == "model":
            model = 0.1 + 0.1 * score
        elif kind == "clusters":  # of one to three equal rows
            rows = np.repeat(np.arange(n), rng.integers(1, 4, size=n))
            y, t, scores, groups = y[rows], t[rows], [score[rows]], rows
        elif kind == "difference":  # with a useless score: minus the gain of that, which is 0
            scores.append(rng.random(n))
            value = float(np.mean((rate[1] - rate[0]) * (mid + centre - 0.5)))
        rows = check_rows(y, scores[0], treatment=t)
        used = 0.5 if kind == "difference" else centre
        game = Game.of(rows, scores, (0, 1), model, None, groups)
        (dealing,), design, shift = game.deal(1, np.random.SeedSequence(number), map)
        w = dealing[CENTRES.index(used)]
        floor = game.floor(design, used, shift)
        out = np.empty(1)
        kernels.hedged_wealth(
            w,
            design.superblocks,
            deviations(w, design, used),
            np.array([value]),
            floor,
            LARGEST_LOSS,
            1 / (AIM * delta),
            HEDGE,
            out,
        )
        assert w.min() >= -floor - 1e-12
        wealth.append(out[0])
    error = np.std(wealth, ddof=1) / np.sqrt(len(wealth))
    assert abs(np.mean(wealth) - 1) < 4 * error
    assert 0.01 < np.mean(np.array(wealth) >= 1 / delta) < delta


@pytest.mark.gate
@pytest.mark.parametrize("target", ["gain", "auuc"])
def test_close_to_the_normal_limit(target):
    y, score, t = _rows(20_000)
    result = auuc_inference(y, score, treatment=t)
    bound = betting_bound(y, score, treatment=t, target=target)
    estimate = result.gain if target == "gain" else result.estimate
    error = result.gain_standard_error if target == "gain" else result.standard_error
    assert bound.estimate == pytest.approx(estimate, abs=2 * error)  # of the centred outcome
    assert 1.2 * error < bound.gap < 2.3 * error
    fixed = betting_bound(y, score, treatment=t, target=target, bets="fixed")
    assert bound.gap < fixed.gap < 3.2 * error


def test_difference_of_two_scores():
    y, score, t = _rows(8000, effect=0.6)
    worse = np.random.default_rng(5).permutation(score)
    bound = certify_difference(score, worse, y=y, treatment=t)
    expected = auuc_difference(y, score, worse, treatment=t)
    assert bound.estimate == pytest.approx(expected.estimate, abs=expected.standard_error)
    assert bound.lower > 0
    assert bound.gap < 2.6 * expected.standard_error
    assert certify_difference(score, score, y=y, treatment=t).lower < 0


def test_same_seed_same_bound_and_more_candidates_are_wider():
    y, score, t = _rows()
    first = betting_bound(y, score, treatment=t)
    assert betting_bound(y, score, treatment=t) == first
    assert betting_bound(y, np.exp(score), treatment=t) == first  # the order is all
    assert betting_bound(y, score, treatment=t, random_state=1).lower != first.lower
    assert betting_bound(y, score, treatment=t, n_candidates=20).lower < first.lower
    assert betting_bound(y, score, treatment=t, delta=0.5).lower > first.lower


def test_outcome_range_scales():
    y, score, t = _rows()
    bound = betting_bound(y, score, treatment=t)
    money = betting_bound(10 * y - 3, score, treatment=t, outcome_range=(-3, 7))
    assert money.lower == pytest.approx(10 * bound.lower)
    assert money.estimate == pytest.approx(10 * bound.estimate)


@pytest.mark.gate
def test_adjustment_narrows_where_the_outcome_can_be_predicted():
    rng = np.random.default_rng(0)
    n = 10_000
    score, base, t = rng.random(n), np.where(rng.random(n) < 0.5, 0.05, 0.85), np.arange(n) % 2
    y = (rng.random(n) < base + 0.1 * t * score).astype(float)
    plain = betting_bound(y, score, treatment=t)
    adjusted = betting_bound(
        y, score, treatment=t, outcome_model=base, outcome_model_range=(0, 0.9)
    )
    assert adjusted.gap < 0.75 * plain.gap
    rest = y - base
    half_effect = (rest[t == 1].mean() - rest[t == 0].mean()) / 2
    gain = auuc_score(rest, score, treatment=t) - half_effect
    assert adjusted.estimate == pytest.approx(gain, abs=1e-12)


@pytest.mark.gate
def test_clusters_are_dealt_whole():
    """Copies of a row in one cluster say nothing new: the bound is that of one row a cluster."""
    y, score, t = _rows(3000)
    copies = np.repeat(np.arange(len(y)), 3)
    single = betting_bound(y, score, treatment=t)
    clustered = betting_bound(y[copies], score[copies], treatment=t[copies], groups=copies)
    assert clustered.estimate == pytest.approx(single.estimate, abs=0.002)  # centred apart
    assert clustered.gap == pytest.approx(single.gap, rel=0.15)
    assert betting_bound(y[copies], score[copies], treatment=t[copies]).gap < 0.75 * clustered.gap


@pytest.mark.parametrize("n_treated", [1, 2])
def test_very_few_rows(n_treated):
    y, score, t = np.ones(6), np.arange(6.0), np.arange(6) < n_treated
    for target in ("gain", "auuc"):
        bound = betting_bound(y, score, treatment=t, target=target)
        assert -1 - 1e-9 <= bound.lower <= bound.estimate


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"outcome_range": (0.5, 1)}, "y"),
        ({"target": "qini"}, "target"),
        ({"bets": "bold"}, "bets"),
        ({"outcome_range": (1, 0)}, "outcome_range"),
        ({"outcome_model": [0.5]}, "outcome_model"),
        ({"n_candidates": 0}, "n_candidates"),
    ],
)
def test_bad_input(options, parameter):
    y, score, t = _rows(50)
    with pytest.raises(InputError) as raised:
        betting_bound(y, score, treatment=t, **options)
    assert raised.value.parameter == parameter
