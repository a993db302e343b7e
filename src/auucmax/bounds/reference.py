"""Slow twins: block statistics and the wealth of the hedge, by their definitions."""

import numpy as np

from auucmax._validation import Floats
from auucmax.bounds.betting import AIM, HEDGE
from auucmax.bounds.blocks import Indices
from auucmax.bounds.fixed_bets import LARGEST_LOSS


def block_statistics_slow(
    score: Floats,
    residual: Floats,
    centre: float,
    treated: Indices,
    control: Indices,
    ends: Indices,
) -> Floats:
    """The statistics of one dealing of one score, by their definition; the kernel's slow twin."""
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
        result.append(terms[:n_treated].mean() - terms[n_treated:].mean())
    return np.array(result)


def hedged_wealth_slow(
    w: Floats,
    superblocks: Indices,
    deviation: Floats,
    theta: float,
    floor: float,
    delta: float,
) -> float:
    """Wealth of the hedge at one theta, by its definition: the twin of the compiled one."""
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
