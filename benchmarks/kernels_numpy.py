"""What is compiled by numba, in plain numpy: the same arguments and results, as fast as it gets.

For `python -m benchmarks kernels`, which asks what the package would be without numba. The passes
of `pairs` and the scores of trees have twins in numpy in the package itself; those of
the others are loops, which tests compare with, and no rival. Here are no clusters and no bins of
scores: what a fit as it comes does not have.
"""

# mypy: disallow-untyped-defs=False
from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from os import cpu_count

import numpy as np

GAP, HESSIAN_BITS, HALF, STEEPEST = 255, 30, 2.0**40, 2.0**21 - 1
_PAIRS = 2**16  # rows of blocks that are sorted together: they stay in the cache


def use_numpy() -> None:
    """Put the functions of this file, and the package's own in numpy, in the place of numba's."""
    from auucmax.certificates import kernels
    from auucmax.estimators import trees, trees_kernel
    from auucmax.pairs import kernels_numpy, passes

    for module, names in (
        (kernels, ("deal_statistics", "hedged_wealth", "log_wealth", "mixture_path")),
        (trees_kernel, ("pack", "grow", "add_leaves")),
    ):
        for name in names:
            setattr(module, name, globals()[name])
    # Blocks of rows in threads, as with numba: numpy works outside the lock, too.
    passes._call_compiled = lambda name, *args: getattr(kernels_numpy, name)(*args)
    trees.TreeScores.predict = predict


def in_threads(work, n_rows: int, size: int) -> list:
    """What is made of each block of rows, by all processors."""
    with ThreadPoolExecutor(cpu_count()) as pool:
        spans = (slice(start, start + size) for start in range(0, n_rows, size))
        return list(pool.map(work, spans))


def predict(trees, X, num_threads=None):
    return np.concatenate(in_threads(lambda own: trees.predict_slow(X[own]), len(X), 2**14))


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
    assert not len(members) and not len(mixed)  # noqa: PT018
    rng = np.random.default_rng(state)
    last = ends[:, superblocks - 1]
    first = np.hstack([np.zeros((2, 1), np.int64), last[:, :-1]])
    for p in range(w.shape[2]):
        for own, begin, end in ((treated, first[0], last[0]), (control, first[1], last[1])):
            for start, stop in zip(begin.tolist(), end.tolist(), strict=True):
                rng.shuffle(own[start:stop])
        block_statistics(ranks, signs, residual, shift, treated, control, ends, w[:, :, p])


def block_statistics(ranks, signs, residual, shift, treated, control, ends, out):
    """w of all blocks: those of equal sizes are the rows of a matrix, which are sorted."""
    sizes = np.diff(ends, axis=1, prepend=0)
    for shape in np.unique(sizes[0] << 32 | sizes[1]).tolist():
        a, b = shape >> 32, shape & (2**32 - 1)
        of_shape = np.flatnonzero((sizes[0] == a) & (sizes[1] == b))
        some = max(_PAIRS // (a + b), 1)
        share = np.concatenate([np.full(a, 1.0 / a), np.full(b, -1.0 / b)])
        for k in range(0, len(of_shape), some):
            blocks = of_shape[k : k + some]
            places = [
                own[(ends[arm, blocks] - n)[:, None] + np.arange(n)]
                for arm, own, n in ((0, treated, a), (1, control, b))
            ]
            rows = np.hstack(places)
            outcome = (residual[rows] - shift) * share
            found = np.zeros(len(blocks))
            for own, sign in zip(ranks, signs, strict=True):
                found += sign * rank_sums(own[rows], outcome) / (2.0 * (a + b - 1))
            out[0, blocks] = found
            out[1, blocks] = found - 0.5 * signs.sum() * outcome.sum(axis=1)


def rank_sums(values, outcome):
    """(rows,) sums of outcomes times twice the smaller values of a row, and once the equal ones."""
    n, m = values.shape
    bits = int(m).bit_length()
    keys = (values.astype(np.int64) << bits) | np.arange(m)  # integers are sorted much faster
    keys.sort(axis=1)
    level = keys >> bits
    keys &= (1 << bits) - 1
    keys += m * np.arange(n)[:, None]
    outcome = outcome.ravel()[keys]
    new = level[:, 1:] != level[:, :-1]
    if new.all():
        return outcome @ (2.0 * np.arange(m))
    edge, index = np.ones((n, 1), bool), np.arange(m)
    first = np.maximum.accumulate(np.where(np.hstack([edge, new]), index, 0), axis=1)
    last = np.where(np.hstack([new, edge]), index, m)[:, ::-1]
    last = np.minimum.accumulate(last, axis=1)[:, ::-1]
    return np.einsum("ij,ij->i", outcome, first + last)


def hedged_wealth(w, ends, deviation, theta, floor, largest, target, hedge, out):
    cap, start, out[:] = largest / (floor + theta), 0, 1.0
    playing = np.arange(len(theta))
    for end, guess in zip(ends.tolist(), deviation.tolist(), strict=True):
        place = -np.log(out[playing] / target) / hedge[0]
        goes_on = (out[playing] < target) & (place <= len(hedge) - 3)
        playing, place = playing[goes_on], place[goes_on]
        if not len(playing):
            return
        if guess > 0:
            size = np.interp(place, np.arange(len(hedge) - 1), hedge[1:])
            bet = np.minimum(size / (guess * np.sqrt(len(w) - start)), cap[playing])
            game = w[start:end, :, None] * bet
            game += 1.0 - bet * theta[playing]
            out[playing] *= np.multiply.reduce(game, axis=0).mean(axis=0)
        start = end


def log_wealth(w, ends, theta, bet):
    return float(np.log(_steps(w, ends, theta, bet)).sum())


def mixture_path(w, ends, theta, bets, credit, staked):
    sizes = np.diff(ends, prepend=0)
    for k, bet in enumerate(bets.tolist()):
        stake = bet * sizes
        won = np.log(_steps(w, ends, theta, bet)) + stake * theta
        credit[1:, k] = credit[0, k] + np.cumsum(won)
        staked[1:, k] = staked[0, k] + np.cumsum(stake)


def _steps(w, ends, theta, bet):
    game = w * bet
    game += 1.0 - bet * theta
    return np.multiply.reduceat(game, np.append(0, ends[:-1]), axis=0).mean(axis=1)


def pack(minus, binomial, slope, y, weight, scales, found):
    mean = -minus.astype(np.float64)
    if binomial:
        mean = 1.0 / (1.0 - mean)
    pull, bend = slope * weight, mean * (1 - mean) if binomial else 1.0
    first = np.clip(pull * (mean - y) * scales[0], -STEEPEST, STEEPEST)
    whole = (first + (HALF + 0.5)).astype(np.int64) - np.int64(HALF)
    found[:] = (whole << HESSIAN_BITS) + (pull * slope * bend * scales[1] + 0.5).astype(np.int64)


def add_leaves(node, values, offset, slope, score, logit):
    score += values[node]
    logit[:] = -(offset + slope * score)


def grow(codes, packed, parts, n_bins, has_gap, limits, scales, node, room, splits, values):
    learnt = np.concatenate([np.arange(start, stop) for start, stop in parts.tolist()])
    own = packed[learnt]
    # Sums of whole numbers below 2^53 are exact as floats, which bincount adds.
    slopes = (own >> HESSIAN_BITS).astype(np.float64), (own & (2**HESSIAN_BITS - 1)).astype(float)
    wide, is_whole = _wide(codes, len(n_bins)), len(learnt) == len(node)
    if not is_whole:
        wide = wide[:, learnt]
    node[:] = 0
    leaves = [np.arange(len(learnt))]
    sums = [_histogram(wide, None, slopes)]
    is_open = [np.ones(len(n_bins), bool)]
    known = n_bins, has_gap, limits, scales
    best = [_best_split(sums[0], len(learnt), is_open[0], *known)]
    n_splits = 0
    while n_splits < len(values) - 1:
        leaf = int(np.argmax([gain for gain, _ in best]))
        gain, split = best[leaf]
        if not gain > 0:
            break
        splits[n_splits] = leaf, *split
        n_splits += 1
        right = codes[split[0]] > split[1]
        if split[2]:
            right &= codes[split[0]] != GAP
        node[right & (node == leaf)] = n_splits
        rows = leaves[leaf]
        goes_right = node[rows if is_whole else learnt[rows]] == n_splits
        leaves[leaf], other = rows[~goes_right], rows[goes_right]
        leaves.append(other)
        # The histogram of the smaller child is made, that of the other is what is left.
        small = n_splits if len(other) <= len(leaves[leaf]) else leaf
        of_small = _histogram(wide, leaves[small], slopes)
        of_large = sums[leaf] - of_small
        sums[leaf] = of_small if small == leaf else of_large
        sums.append(of_large if small == leaf else of_small)
        is_open.append(is_open[leaf].copy())
        best.append((0.0, (0, 0, 0)))
        if n_splits < len(values) - 1:
            for at in (leaf, n_splits):
                best[at] = _best_split(sums[at], len(leaves[at]), is_open[at], *known)
    for leaf in range(n_splits + 1):
        g, h = sums[leaf][:, 0].sum(axis=1)
        values[leaf] = -(g / scales[0]) / (h / scales[1] + limits[2])
    return n_splits


def _wide(codes, n_columns):
    """Codes as bincount takes them, cast once for all trees."""
    if _CAST.get("of") is not codes:
        _CAST.update({"of": codes, "wide": codes[:n_columns].astype(np.intp)})
    return _CAST["wide"]


_CAST: dict = {}


def _histogram(wide, rows, slopes):
    """(2, columns, 256) sums of gradients and Hessians."""
    own = slopes if rows is None else [slope[rows] for slope in slopes]
    columns = wide if rows is None else (column[rows] for column in wide)
    sums = [[np.bincount(column, side, 256) for side in own] for column in columns]
    return np.array(sums).transpose(1, 0, 2)


def _best_split(sums, n_rows, is_open, n_bins, has_gap, limits, scales):
    """All columns, sides of missing values and codes at once: (columns, 2, codes from the last)."""
    total_g, total_h = sums[:, 0].sum(axis=1)
    each = n_rows / max(total_h, 1)
    counts = np.floor(sums[1] * each + 0.5)
    three = np.stack([*sums, counts])
    gaps = three[:, :, GAP] * has_gap
    three[:, :, GAP] = 0.0
    right = np.cumsum(three[:, :, ::-1], axis=2)  # of codes from the last to this one
    g, h, count = np.stack([right, right + gaps[:, :, None]], axis=2)
    code = np.arange(255, -1, -1)[None, None]
    all_g, all_h = total_g / scales[0], total_h / scales[1]
    right_g, right_h = g / scales[0], h / scales[1]
    left_g, left_h = all_g - right_g, all_h - right_h
    gap_right = np.array([0, 1])[None, :, None]
    may = (code >= 1) & (code <= (n_bins - 1)[:, None, None] + gap_right)
    may &= (has_gap[:, None, None] | (gap_right == 0)) & is_open[:, None, None]
    may &= (count >= limits[0]) & (right_h >= limits[1])
    may &= (n_rows - count >= limits[0]) & (left_h >= limits[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = left_g * left_g / (left_h + limits[2]) - all_g * all_g / (all_h + limits[2])
        gain += right_g * right_g / (right_h + limits[2])
    gain = np.where(may, gain, 0.0)
    is_open &= (gain > 0).any(axis=(1, 2))
    column, side, place = np.unravel_index(np.argmax(gain), gain.shape)
    return float(gain[column, side, place]), (int(column), 254 - int(place), 1 - int(side))
