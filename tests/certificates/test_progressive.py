import itertools

import numpy as np
import pytest

from auucmax.certificates import progressive_certificate
from auucmax.certificates.fixed_bets import LEAST


def _chunks(n=2000, n_chunks=4, seed=0, effect=0.4, share=0.5):
    """Rows whose effect rises with x; each chunk's score is x with noise that shrinks."""
    rng = np.random.default_rng(seed)
    chunks = []
    for k in range(n_chunks):
        x, t = rng.random(n), rng.random(n) < share
        y = (rng.random(n) < 0.2 + effect * t * x).astype(float)
        chunks.append((y, x + rng.normal(size=n) / (1 + k) if k else None, t))
    return chunks


@pytest.mark.gate
@pytest.mark.parametrize("delta", [0.3, 0.9])
def test_exact_probability_of_a_miss(delta):
    """All samples of two chunks of one block, and the model of the second learns from the first.

    A row has x = 0 or 1, P = 1/2 each, and an outcome; the treated respond if x = 1, with a chance
    of .9, the others with .5 anyway. The second model ranks by x if the first treated row
    responded, otherwise against it. At delta = .9 the bound is sometimes too high.
    """
    rng = np.random.default_rng(0)
    first = (rng.integers(2, size=30).astype(float), None, np.arange(30) % 2 == 0)
    rate = {True: np.array([0.1, 0.9]), False: np.array([0.5, 0.5])}
    mid = np.array([0.25, 0.75])
    auuc = 0.5 * (rate[True] - rate[False]) @ mid
    gain = 0.5 * (rate[True] - rate[False]) @ (mid - 0.5)
    treated, kinds = np.array([True, False]), list(itertools.product((0, 1), (0, 1)))
    missed, total, bounds = np.zeros(2), 0.0, set()
    for sample in itertools.product(kinds, repeat=4):
        x, y = np.array(sample, float).T
        chance = 1.0
        for row in range(4):
            response = rate[bool(treated[row % 2])][int(x[row])]
            chance *= 0.5 * (response if y[row] else 1 - response)
        sign = 1 if y[0] else -1
        chunks = [first, (y[:2], x[:2], treated), (y[2:], sign * x[2:], treated)]
        found = progressive_certificate(chunks, delta=delta, n_dealings=2)
        effect = 0.5 * (rate[True] - rate[False]).sum()
        truth = np.array([auuc, gain])
        if sign < 0:  # the reversed score has the rest of the effect, and minus the gain
            truth = np.array([effect, 0.0]) / 2
        missed += chance * (np.array([found.lower_bound, found.gain_lower_bound]) > truth)
        total += chance
        bounds.add(found.gain_lower_bound)
    assert total == pytest.approx(1)
    assert (missed <= delta).all()
    assert len(bounds) > 5
    if delta == 0.9:
        assert missed.max() > 0.05


@pytest.mark.gate
def test_bounds_are_below_the_truth_and_near_it():
    chunks = _chunks(20_000, share=0.3)
    found = progressive_certificate(chunks)
    assert 0.01 < found.gain_lower_bound < 0.4 / 12
    assert found.gain_lower_bound + 0.05 < found.lower_bound < 0.4 / 3
    assert found.n_rows == 60_000
    assert found.n_models == 3
    assert found.trained_on == (0.25, 0.75)
    wide = progressive_certificate(chunks, joint=True, n_candidates=5)
    assert wide.gain_lower_bound < found.gain_lower_bound
    assert wide.lower_bound == progressive_certificate(chunks, delta=0.005).lower_bound
    assert progressive_certificate(chunks) == found
    assert progressive_certificate(chunks, random_state=1) != found


def test_one_size_of_bet_by_its_definition(monkeypatch):
    """From the statistics of each chunk's blocks, in one line of plain arithmetic."""
    from auucmax.certificates import fixed_bets

    dealt, chunks = [], _chunks(300)
    real = fixed_bets.deal
    monkeypatch.setattr(
        fixed_bets, "deal", lambda *args: dealt.append(real(*args)[:, :, :1]) or dealt[-1]
    )
    level, found = 0.1, progressive_certificate(chunks, delta=0.1, n_dealings=1)
    w = np.concatenate(dealt, axis=1)[:, :, 0]
    y, t = chunks[0][0], chunks[0][2]
    mean = (y.sum() + 0.5) / (len(y) + 1)
    variance = [(((y[a] - mean) ** 2).sum() + 0.3) / (a.sum() + 3) for a in (t, ~t)]
    size = {"auuc": 1 / 3, "gain": 1 / 12}
    theta = {"auuc": (y[t].mean() - y[~t].mean()) / 2, "gain": 0.0}
    for number, target in enumerate(("auuc", "gain")):
        # Blocks of 4 rows hold nearly 2 of each arm: the bet is known to a few percent.
        deviation = np.sqrt(size[target] * (variance[0] + variance[1]) / 2)
        bet = np.sqrt(2 * np.log(1 / level) / w.shape[1]) / deviation
        log_wealth = np.log1p(bet * (w[number] - theta[target])).sum()
        bound = theta[target] + (log_wealth + np.log(level)) / (bet * w.shape[1])
        ours = found.lower_bound if target == "auuc" else found.gain_lower_bound
        assert ours == pytest.approx(bound, abs=0.003)


def test_small_chunks_are_no_error():
    one = np.array([1.0]), np.array([0.5]), np.array([True])
    empty = np.empty(0), np.empty(0), np.empty(0, bool)
    found = progressive_certificate([(one[0], None, one[2]), one, empty])
    assert (found.lower_bound, found.gain_lower_bound) == LEAST
    assert (found.n_rows, found.n_models) == (0, 0)
    both = np.array([1.0, 0.0]), np.array([0.1, 0.2]), np.array([True, False])
    found = progressive_certificate([(np.empty(0), None, np.empty(0, bool)), one, both])
    assert (found.n_rows, found.n_models) == (2, 1)
    assert found.gain_lower_bound == LEAST[1]


def test_outcomes_with_a_range_scale():
    chunks = _chunks()
    plain = progressive_certificate(chunks)
    money = [(10 * y - 3, s, t) for y, s, t in chunks]
    scaled = progressive_certificate(money, outcome_range=(-3, 7))
    assert scaled.gain_lower_bound == pytest.approx(10 * plain.gain_lower_bound)
    assert scaled.lower_bound == pytest.approx(10 * plain.lower_bound)
    with pytest.raises(ValueError, match=r"0/1, or given with outcome_range.*-3 to 7"):
        progressive_certificate(money)
    with pytest.raises(ValueError, match=r"0 to 1, got -3 to 7"):
        progressive_certificate(money, outcome_range=(0, 1))


def test_clusters_are_dealt_whole():
    chunks = _chunks(1000)
    copies = np.repeat(np.arange(1000), 3)
    groups = [1000 * k + copies for k in range(len(chunks))]
    tripled = [tuple(None if c is None else c[copies] for c in chunk) for chunk in chunks]
    single = progressive_certificate(chunks)
    clustered = progressive_certificate(tripled, groups=groups)
    assert clustered.gain_lower_bound == pytest.approx(single.gain_lower_bound, abs=0.003)
    assert progressive_certificate(tripled).gain_lower_bound > single.gain_lower_bound + 0.003
    with pytest.raises(ValueError, match="1000 that reach into another"):
        progressive_certificate(tripled, groups=[copies] * len(chunks))
    with pytest.raises(ValueError, match="one array for each of the 4 chunks"):
        progressive_certificate(tripled, groups=groups[:2])


def test_bad_chunks():
    chunks = _chunks(50)
    with pytest.raises(ValueError, match="at least two"):
        progressive_certificate(chunks[:1])
    with pytest.raises(ValueError, match="chunks should be at least two, with None in chunk 0"):
        progressive_certificate(chunks[1:])
    with pytest.raises(ValueError, match="treated should be boolean or 0/1"):
        progressive_certificate([chunks[0], (chunks[1][0], chunks[1][1], np.full(50, 2))])
