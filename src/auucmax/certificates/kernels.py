"""Numba kernels of block betting, imported late; tests compare them with slow twins."""

# mypy: disallow-untyped-defs=False
from __future__ import annotations

import numba
import numpy as np

from auucmax._optional import compiled

_part = numba.njit(nogil=True)
_kernel = compiled(nogil=True)


@_part
def _below(state, bound):
    """Random integer below ``bound`` < 2^32; advances ``state`` (splitmix64)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    # Each number comes up within 2^-32 of its share.
    return np.int64(((z >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32))


@_kernel
def redeal(units, start, stop, starts, members, state, rows):
    """Shuffle ``units[start:stop]`` and draw one row of each.

    Unit u owns the rows ``members[starts[u]:starts[u + 1]]``. Without ``members`` units are rows,
    and ``rows`` is ``units``.
    """
    for last in range(stop - 1, start, -1):
        other = np.uint64(start + _below(state, last - start + 1))
        units[np.uint64(last)], units[other] = units[other], units[np.uint64(last)]
    if len(members) == 0:
        return
    for place in range(start, stop):
        unit = units[place]
        first, size = starts[unit], starts[unit + 1] - starts[unit]
        rows[place] = members[first] if size == 1 else members[first + _below(state, size)]


@_kernel
def block_statistics(
    ranks, signs, residual, shift, mixed, treated, control, ends, first, last, out
):
    """Statistics w (see ``blocks.py``) of the blocks ``first`` to ``last``, summed over scores.

    ``out`` (2, blocks): around 0 (AUUC) and around 1/2 (gain). A centre c takes c times the
    difference of the arms' mean outcomes off, so both come from the same comparisons.

    r = ``residual`` - ``shift``. What the shift takes off depends on the comparisons between the
    arms alone, so rows whose residual is 0 need no rank of their own.

    ``treated``, ``control``: row numbers by place; block j has the places up to ``ends[g, j]``.
    ``ranks`` (scores, n) integers in the order of the scores. ``mixed`` (levels,): whether rows of
    equal rank may differ in score; then w is that of the worst order of each pair of them, and
    ``out`` has a third row, for what that took off. Empty: no.
    """
    start_a, start_b = (ends[0, first - 1], ends[1, first - 1]) if first > 0 else (0, 0)
    local, outcomes = np.empty(0, np.int32), np.empty(0)
    for j in range(first, last):
        a, b = ends[0, j] - start_a, ends[1, j] - start_b
        size, w, effect = a + b, 0.0, 0.0
        if size > len(local):
            local, outcomes = np.empty(2 * size, np.int32), np.empty(2 * size)
        for s in range(len(signs)):
            for i in range(a):
                row = np.uint64(treated[start_a + i])  # a sign would have to be tested
                local[i], outcomes[i] = ranks[s, row], residual[row]
            for i in range(b):
                row = np.uint64(control[start_b + i])
                local[a + i], outcomes[a + i] = ranks[s, row], residual[row]
            for i in range(size):
                outcome = outcomes[i]
                if outcome == 0.0:
                    continue
                own, twice = local[i], 0
                for k in range(size):  # itself counts once in <=
                    twice += (local[k] < own) + (local[k] <= own)
                part = signs[s] * outcome / (a if i < a else -b)
                w += part * (twice - 1) / (2.0 * (size - 1))
                effect += part
            if shift != 0.0:
                above = 0
                for i in range(a):
                    for k in range(a, size):
                        above += (local[k] < local[i]) + (local[k] <= local[i])
                sum_v = (a * (a - 1) + above) / (2.0 * (size - 1))  # of treated rows
                w -= signs[s] * shift * (sum_v / a - (0.5 * size - sum_v) / b)
        if len(mixed) > 0:
            lost = 0.0
            for i in range(size):
                if not mixed[local[i]]:
                    continue
                part = (outcomes[i] - shift) / (a if i < a else -b)
                for k in range(i + 1, size):
                    if local[k] == local[i]:
                        lost += abs(part - (outcomes[k] - shift) / (a if k < a else -b))
            out[2, j] = lost / (2.0 * (size - 1))
            w -= out[2, j]
        out[0, j], out[1, j] = w, w - 0.5 * effect
        start_a, start_b = ends[0, j], ends[1, j]


@_kernel
def deal_statistics(
    ranks,
    signs,
    residual,
    shift,
    mixed,
    treated,
    control,
    starts,
    members,
    ends,
    superblocks,
    state,
    w,
):
    """Compute block statistics ``w`` (2 or 3, blocks, permutations), superblock by superblock."""
    rows_a, rows_b = treated, control
    if len(members) > 0:
        rows_a, rows_b = np.empty_like(treated), np.empty_like(control)
    first = np.int64(0)  # a plain 0 is another type, compiled once more
    for last in superblocks:
        a0, b0 = (ends[0, first - 1], ends[1, first - 1]) if first > 0 else (0, 0)
        a1, b1 = ends[0, last - 1], ends[1, last - 1]
        for p in range(w.shape[2]):
            redeal(treated, a0, a1, starts, members, state, rows_a)
            redeal(control, b0, b1, starts, members, state, rows_b)
            block_statistics(
                ranks, signs, residual, shift, mixed, rows_a, rows_b, ends, first, last, w[:, :, p]
            )
        first = last


@_kernel
def hedged_wealth(w, ends, deviation, theta, floor, largest, target, hedge, out):
    """Stopped wealth of the hedged bet for each theta; ``hedge`` tabulates the bet size.

    ``w`` (blocks, re-dealings); superblock B has the blocks up to ``ends[B]``; ``deviation[B]`` is
    the guess of a block's standard deviation from earlier ones, 0: do not bet.
    """
    n_blocks, n_deals = w.shape
    product = np.empty(n_deals)
    for g in range(len(theta)):
        wealth, start = 1.0, 0
        cap = largest / (floor + theta[g])
        for number in range(len(ends)):
            if wealth >= target:
                break
            place = -np.log(wealth / target) / hedge[0]
            if place > len(hedge) - 3:  # nothing left to bet with
                break
            k = int(place)
            size = hedge[k + 1] + (place - k) * (hedge[k + 2] - hedge[k + 1])
            if deviation[number] > 0:
                bet = min(size / (deviation[number] * np.sqrt(n_blocks - start)), cap)
                wealth *= _step(w, start, ends[number], theta[g], bet, product)
            start = ends[number]
        out[g] = wealth


@_kernel
def log_wealth(w, ends, theta, bets):
    """Log wealth won in each superblock by constant bets, (superblocks, sizes).

    ``w`` (blocks, re-dealings), ``bets`` (sizes,).
    """
    product, out = np.empty(w.shape[1]), np.empty((len(ends), len(bets)))
    start = 0
    for number in range(len(ends)):
        for k, bet in enumerate(bets):
            out[number, k] = np.log(_step(w, start, ends[number], theta, bet, product))
        start = ends[number]
    return out


@_part
def _step(w, start, end, theta, bet, product):
    """Mean over permutations of the product over blocks of 1 + bet (w - theta)."""
    product[:] = 1.0
    for j in range(start, end):
        for p in range(len(product)):
            product[p] *= 1.0 + bet * (w[j, p] - theta)
    return product.mean()
