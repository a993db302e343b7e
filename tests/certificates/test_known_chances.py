import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.certificates.reference import block_statistics_slow

from auucmax import auuc_score, certify
from auucmax.certificates import betting_bounds, progressive_certificate
from auucmax.certificates.blocks import (
    CENTRES,
    ArmMeans,
    BlockDesign,
    ChancesBeyond,
    DealtUnits,
    block_floor,
    deal,
    dense_ranks,
    evenly_drawn,
    most_people,
)
from auucmax.certificates.fixed_bets import Pilot

#: A person has x = 0, 1 or 2 with these probabilities and chances of treatment, and responds so.
SHARE = np.array([0.5, 0.3, 0.2])
CHANCE = np.array([0.2, 0.5, 0.9])
RATE = {True: np.array([0.1, 0.4, 0.9]), False: np.array([0.3, 0.4, 0.2])}
EFFECT = RATE[True] - RATE[False]
BELOW = np.cumsum(SHARE) - SHARE / 2


def theta(centre):
    return float(SHARE * EFFECT @ (BELOW - centre))


def w_of(score, h, centre, size):
    """The statistics of rows in their order, ``size`` in a block, by their definition."""
    ends = np.arange(size, len(h) + 1, size)
    rows, none = np.arange(len(h)), np.empty(0, np.int64)
    return block_statistics_slow(score, h, centre, rows, none, np.array([ends, 0 * ends]))


@pytest.mark.parametrize("centre", CENTRES)
def test_a_block_is_unbiased_over_all_samples(centre):
    """All 12^3 samples of three rows, with ties, each with its probability: the mean is exact."""
    means = ArmMeans(np.array([0.2, 0.7]), np.zeros(2))
    total, mean = 0.0, 0.0
    kinds = list(itertools.product(range(3), (True, False), (1.0, 0.0)))
    for sample in itertools.product(kinds, repeat=3):
        x, treated, y = map(np.array, zip(*sample, strict=True))
        p = 1.0
        for kind, t, outcome in sample:
            rate = RATE[t][kind]
            p *= SHARE[kind] * (CHANCE[kind] if t else 1 - CHANCE[kind])
            p *= rate if outcome else 1 - rate
        h = means.effects(y, treated, CHANCE[x])[:, 1]
        total += p
        mean += p * w_of(x.astype(float), h, centre, 3)[0]
    assert total == pytest.approx(1)
    assert mean == pytest.approx(theta(centre), abs=1e-12)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_the_dealing_has_its_slow_twin_and_its_floor(data):
    """One superblock of one block: whatever the dealing, w is that of the rows."""
    n = data.draw(st.integers(2, 6))
    score = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)), float)
    y = np.array(data.draw(st.lists(st.sampled_from([0.0, 0.4, 1.0]), min_size=n, max_size=n)))
    treated = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    chance = np.array(data.draw(st.lists(st.sampled_from([0.1, 0.5, 0.8]), min_size=n, max_size=n)))
    pilot = Pilot.of(y, treated, chance)
    h, largest = pilot.outcomes(y, treated, chance), pilot.adjustment[1]
    assert np.abs(h).max() <= largest + 1e-12
    design = BlockDesign.of(n, 0, size=n, pilot=False)
    units = DealtUnits.of(treated).as_one_arm()
    ranks, seed = dense_ranks(score)[None], np.random.SeedSequence(0)
    w = deal(ranks, np.ones(1), h, pilot.shift, units, design, seed)
    for of_centre, centre in zip(w, CENTRES, strict=True):
        slow = w_of(score, h, centre, n)[0]
        np.testing.assert_allclose(of_centre, slow, atol=1e-12)
        distance = np.abs(np.arange(n) / (n - 1) - centre).mean()
        assert block_floor(n, 0, centre, pilot.adjustment) == pytest.approx(largest * distance)
        assert slow >= -largest * distance - 1e-12


def _trial(n, seed, effect=0.3):
    """Those on top respond anyway, and were mostly treated; the effect falls with x."""
    rng = np.random.default_rng(seed)
    x = rng.random(n)
    chance = np.where(x > 0.8, 0.8, 0.2)
    treated = rng.random(n) < chance
    y = (rng.random(n) < np.where(x > 0.8, 0.7, 0.1) + effect * treated * (1 - x)).astype(float)
    return x, chance, treated, y


@pytest.mark.gate
def test_a_useless_score_is_not_certified_and_a_good_one_is():
    """By x, who was treated and who responds, the raw gain is large; in truth it is negative."""
    x, chance, treated, y = _trial(20_000, 0)
    raw = certify(x, y=y, treatment=treated)
    assert raw.gain_lower_bound > 0.01  # false, for the chances are not the same
    bad = certify(x, y=y, treatment=treated, propensity=chance)
    assert bad.method == "betting-fixed"
    assert bad.gain_lower_bound < -0.3 / 12
    good = certify(-x, y=y, treatment=treated, propensity=chance)
    assert 0.01 < good.gain_lower_bound < 0.3 / 12
    assert 0.05 < good.lower_bound < 0.3 * (1 / 4 + 1 / 12)
    shown = auuc_score(y, -x, treatment=treated, propensity=chance)
    assert good.estimate == pytest.approx(shown, abs=1e-12)
    assert good.propensity == (0.2, 0.8)
    assert "0.2 to 0.8 by design" in str(good)
    assert "with equal probability" not in str(good)


@pytest.mark.gate
def test_chunks_are_certified_by_their_chances():
    parts = [_trial(5_000, seed) for seed in range(4)]
    chunks = [(y, -x if k else None, t) for k, (x, _, t, y) in enumerate(parts)]
    chances = [chance for _, chance, _, _ in parts]
    found = progressive_certificate(chunks, propensity=chances)
    assert 0.005 < found.gain_lower_bound < 0.3 / 12
    assert progressive_certificate(chunks, propensity=chances) == found
    assert found.propensity == (0.2, 0.8)
    false = progressive_certificate([(y, s if s is None else -s, t) for y, s, t in chunks])
    assert false.gain_lower_bound > 0
    with pytest.raises(ValueError, match="propensity should be one array for each of the 4 chunks"):
        progressive_certificate(chunks, propensity=chances[1:])


def test_bets_do_not_know_the_chances_of_rows_that_are_bet_on():
    """What sizes bets is told by the first chunk: others are bet on, or refused."""
    parts = [_trial(3_000, seed) for seed in range(3)]
    chunks = [(y, -x if k else None, t) for k, (x, _, t, y) in enumerate(parts)]
    chances = [chance.copy() for _, chance, _, _ in parts]
    pilot = Pilot.of(parts[0][3], parts[0][2], chances[0])
    means = pilot.means
    assert means.least == pytest.approx([0.16, 0.16])
    assert pilot.adjustment[1] == pytest.approx(max(*means.mean, *(1 - means.mean)) / 0.16)
    chances[2][0] = 0.17  # by design, though nobody of the first chunk had it
    progressive_certificate(chunks, propensity=chances)
    for beyond in (0.15, 0.85):
        chances[2][0] = beyond
        with pytest.raises(ChancesBeyond, match=r"at least 0\.16, 0\.16 .* in 1 of 9,000 rows"):
            progressive_certificate(chunks, propensity=chances)


def test_only_what_is_proven_takes_chances():
    x, chance, treated, y = _trial(500, 3)
    rows = {"y": y, "treatment": treated, "propensity": chance}
    with pytest.raises(ValueError, match=r"^propensity should be left out.*method='betting'"):
        certify(x, **rows, method="betting")
    with pytest.raises(ValueError, match="bets should be 'fixed'"):
        betting_bounds(y, x, treatment=treated, propensity=chance)
    found = certify(x, y=y * 3.5, treatment=treated, propensity=chance)
    assert found.method == "asymptotic"


def test_everybody_is_as_likely_to_be_drawn_whatever_the_chance_to_be_in_two_arms():
    rng = np.random.default_rng(0)
    chance = np.where(rng.random(40_000) < 0.5, 0.4, 0.9)  # of being in one of the two arms
    inside = rng.random(len(chance)) < chance
    people = 1 / chance[inside]
    most = most_people(people[:100])
    assert most == pytest.approx(2.5 / 0.8)
    kept = evenly_drawn(people, most, rng.random(len(people)))
    for own in (0.4, 0.9):
        n = int((chance == own).sum())
        share = (kept & (chance[inside] == own)).sum() / n
        assert abs(share - 1 / most) < 4 * np.sqrt(0.25 / n)
    with pytest.raises(ChancesBeyond, match="to be in one of the two arms"):
        evenly_drawn(np.array([2.0, 9.0]), most, np.zeros(2))
