"""Slow twins of block statistics and wealth, straight from the definitions."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from auucmax._validation import Bools, Floats
from auucmax.certificates import anytime
from auucmax.certificates.betting import AIM, HEDGE
from auucmax.certificates.blocks import BlockDesign, Indices
from auucmax.certificates.fixed_bets import LARGEST_LOSS


def block_statistics_slow(
    score: Floats,
    residual: Floats,
    centre: float,
    treated: Indices,
    control: Indices,
    ends: Indices,
) -> Floats:
    """Block statistics of one partition and score, from the definition.

    ``control`` is empty where all rows count as one arm.
    """
    result = []
    for j in range(ends.shape[1]):
        start = ends[:, j - 1] if j else (0, 0)
        arms = treated[start[0] : ends[0, j]], control[start[1] : ends[1, j]]
        rows = np.concatenate(arms)
        f, r = score[rows], residual[rows]
        others = len(rows) - 1
        below = (f[None, :] < f[:, None]).sum(axis=1) + 0.5 * (
            (f[None, :] == f[:, None]).sum(axis=1) - 1
        )
        terms = r * (below / others - centre)
        n_treated = len(arms[0])
        of_control = terms[n_treated:].mean() if len(arms[1]) else 0.0
        result.append(terms[:n_treated].mean() - of_control)
    return np.array(result)


def hedged_wealth_slow(
    w: Floats,
    superblocks: Indices,
    deviation: Floats,
    theta: float,
    floor: float,
    delta: float,
) -> float:
    """Wealth of the hedged bet at one theta, from the definition."""
    wealth, target, start = 1.0, 1 / (AIM * delta), 0
    for end, s in zip(superblocks, deviation, strict=True):
        q = wealth / target
        if q >= 1 or -np.log(q) > HEDGE[0] * (len(HEDGE) - 3):
            break
        if s > 0:
            hedge = np.interp(-np.log(q), HEDGE[0] * np.arange(len(HEDGE) - 1), HEDGE[1:])
            bet = min(hedge / (s * np.sqrt(len(w) - start)), LARGEST_LOSS / (floor + theta))
            wealth *= float(np.prod(1 + bet * (w[start:end] - theta), axis=0).mean())
        start = end
    return wealth


class _Played(NamedTuple):
    """Block statistics (blocks, targets) and bets (targets, 2, sizes) of a superblock.

    ``guess`` (targets, 2) is theta_0 of each target and side.
    """

    w: Floats
    bets: Floats
    guess: Floats


def anytime_wealth_slow(
    y: Floats, score: Floats, treated: Bools, level: float, random_state: int = 0
) -> Callable[[Floats], Floats]:
    """Anytime log wealth at (2, 2) values with one permutation, from the definition."""
    played: list[_Played] = []
    start, known = 0, None
    for stop in range(1, len(y) + 1):
        own = treated[start:stop]
        arms = int(own.sum()), int((~own).sum())
        if len(own) < anytime.SUPERBLOCK_ROWS or min(arms) < anytime.SUPERBLOCK_ARM:
            continue
        rows, start = np.arange(start, stop), stop
        if known is None:
            ones = np.ones(stop)
            waiting = [y[:stop], score[:stop], treated[:stop], ones, ones]
            known = anytime.Known.of(np.array(waiting, float))
            continue
        seed = np.random.SeedSequence([random_state, len(played)])
        assigned = rows[own], rows[~own]
        played.append(_play_slow(y, score, assigned, known, level, seed))

    def log_wealth(theta: Floats) -> Floats:
        result = np.zeros((*theta.shape, len(anytime.HORIZONS)))
        for w, bets, guess in played:
            for values in w:
                sided = np.outer(values, [1.0, -1.0])
                result += np.log(1 + bets * (sided - guess)[:, :, None])
                result -= bets * (theta - guess)[:, :, None]
        return np.asarray(np.log(np.exp(result + anytime.LOG_WEIGHTS).sum(axis=-1)))

    return log_wealth


def _play_slow(
    y: Floats,
    score: Floats,
    assigned: tuple[Indices, Indices],
    known: anytime.Known,
    level: float,
    seed: np.random.SeedSequence,
) -> _Played:
    """Partition a superblock once, with the kernel's random numbers."""
    from auucmax.certificates import kernels

    ends = BlockDesign.of(*map(len, assigned), size=anytime.BLOCK_ROWS, pilot=False).ends
    state, none = seed.generate_state(1, np.uint64), np.empty(0, np.int32)
    assigned = assigned[0].astype(np.int32), assigned[1].astype(np.int32)
    for part in assigned:
        kernels.redeal(part, 0, len(part), none, none, state, part)
    r = y - known.shift
    gain = block_statistics_slow(score, r, 0.5, *assigned, ends)
    effect = block_statistics_slow(np.zeros(len(y)), 2 * r, 0.0, *assigned, ends)  # all are ties
    w = np.array([gain, effect]).T
    floor = np.array(known.floors)[:, None]
    guess = np.outer([0.0, known.effect], [1.0, -1.0])
    best = np.sqrt(2 * np.log(1 / level) / anytime.HORIZONS)
    best = best / np.array(known.deviations)[:, None, None]
    return _Played(w, np.minimum(best, LARGEST_LOSS / (floor + guess)[:, :, None]), guess)


def strata_wealth_slow(
    treated: Sequence[Sequence[Floats]],
    control: Sequence[Sequence[Floats]],
    weights: Floats,
    bet: float,
) -> float:
    """Log wealth of one sum over strata, block by block."""
    total = 0.0
    for weight, own_treated, own_control in zip(weights, treated, control, strict=True):
        for a, b in zip(own_treated, own_control, strict=True):
            total += np.log(1 + bet * weight / len(own_treated) * (np.mean(a) - np.mean(b)))
    return float(total)
