"""Numba kernels that grow and evaluate trees; imported late.

Twins: ``grow_slow`` in ``reference.py``, ``predict_slow`` in ``trees.py``.

Gradient and Hessian of a row are packed into one whole number of 64 bits, so that a histogram takes
one addition for a row and a column. Rows are added up in blocks that are small enough for the sums
not to run over, which are then taken apart. Sums of whole numbers do not depend on an order.

Loops are written out: numba takes seconds to compile array expressions.
"""

# mypy: disallow-untyped-defs=False
from __future__ import annotations

import numpy as np

from auucmax._optional import compiled

GAP = 255  #: the code of a missing value
LANES = 4  #: columns whose histograms are made together
BLOCK = 4_096  #: rows that are added up before sums are taken apart
HESSIAN_BITS = 30  #: of a sum of Hessians; gradients have the others
_LOW = (1 << HESSIAN_BITS) - 1
_HALF = 2.0**40  # keeps numbers above 0 while they are rounded
_STEEPEST = 2.0**21 - 1  # 4,096 of them are still below 2^33


@compiled(nogil=True, error_model="numpy")
def pack(minus, binomial, slope, y, weight, scales, found):
    """Gradient and Hessian of the loss in the score, as whole numbers, packed.

    ``minus`` is minus the linear predictor or, if ``binomial``, the odds against the outcome.
    Gradients beyond the largest that fits count as much as it.
    """
    for i in range(found.shape[0]):
        mean = 1.0 / (1.0 + minus[i]) if binomial else -minus[i]
        bend = mean * (1.0 - mean) if binomial else 1.0
        pull = slope[i] * weight[i]
        first = min(max(pull * (mean - y[i]) * scales[0], -_STEEPEST), _STEEPEST)
        second = pull * slope[i] * bend * scales[1]
        whole = np.int64(first + (_HALF + 0.5)) - np.int64(_HALF)
        found[i] = (whole << HESSIAN_BITS) + np.int64(second + 0.5)


@compiled(nogil=True, error_model="numpy")
def add_rows(codes, n_columns, rows, packed, direct, sums, found):
    """Add rows to histograms; ``rows`` are positions, or all rows if ``direct``.

    ``sums`` (LANES, 256) is 0 before and afterwards; ``found`` (2, columns, 256).
    """
    one, two, three, four = sums[0], sums[1], sums[2], sums[3]
    for first in range(0, packed.shape[0], BLOCK):
        own = packed[first : first + BLOCK]
        places = rows[first : first + BLOCK]
        for k in range(0, n_columns, LANES):
            if direct:
                last = first + BLOCK
                a, b = codes[k, first:last], codes[k + 1, first:last]
                c, d = codes[k + 2, first:last], codes[k + 3, first:last]
                for i in range(own.shape[0]):
                    value = own[i]
                    one[a[i]] += value
                    two[b[i]] += value
                    three[c[i]] += value
                    four[d[i]] += value
            else:
                a, b, c, d = codes[k], codes[k + 1], codes[k + 2], codes[k + 3]
                for j in range(own.shape[0]):
                    value, i = own[j], places[j]
                    one[a[i]] += value
                    two[b[i]] += value
                    three[c[i]] += value
                    four[d[i]] += value
            for lane in range(LANES):
                for code in range(256):
                    found[0, k + lane, code] += sums[lane, code] >> HESSIAN_BITS
                    found[1, k + lane, code] += sums[lane, code] & _LOW
                    sums[lane, code] = 0


@compiled(nogil=True, error_model="numpy")
def best_split(found, n_bins, has_gap, n_rows, limits, scales, is_open, split):
    """Find the best split of a leaf (column, code, missing side); return its gain or 0.

    As LightGBM has it: rows of a side are counted by their Hessians, codes are tried from the last
    to the first and, where values are missing, once more with these on the right. Columns that are
    not ``is_open`` are left out; one that offers no gain is closed, for the leaves below as well.
    """
    least_rows, least_hessian, penalty = limits[0], limits[1], limits[2]
    total, whole = 0, 0
    for code in range(256):
        total += found[0, 0, code]
        whole += found[1, 0, code]
    each = n_rows / max(whole, 1)
    all_g, all_h = total / scales[0], whole / scales[1]
    before = all_g * all_g / (all_h + penalty)
    best = 0.0
    for k in range(n_bins.shape[0]):
        if not is_open[k]:
            continue
        is_open[k] = False
        for gap_right in range(1 + has_gap[k]):
            g, h, count = 0, 0, 0
            if gap_right:  # missing values are on the side that is added up
                g, h = found[0, k, GAP], found[1, k, GAP]
                count = int(h * each + 0.5)
            for code in range(n_bins[k] - 1 + gap_right, 0, -1):
                if code < n_bins[k]:
                    g += found[0, k, code]
                    h += found[1, k, code]
                    count += int(found[1, k, code] * each + 0.5)
                right_h = h / scales[1]
                if count < least_rows or right_h < least_hessian:
                    continue
                left_h = all_h - right_h
                if n_rows - count < least_rows or left_h < least_hessian:
                    break
                right_g = g / scales[0]
                left_g = all_g - right_g
                gain = left_g * left_g / (left_h + penalty) - before
                gain += right_g * right_g / (right_h + penalty)
                if gain > 0:
                    is_open[k] = True
                if gain > best:
                    best = gain
                    split[0], split[1], split[2] = k, code - 1, 1 - gap_right
    return best


@compiled(nogil=True, error_model="numpy")
def divide(codes, split, leaf, new, parts, node):
    """Move the rows right of a split to a new leaf; return the number of training rows."""
    last, own = np.uint8(split[1]), codes[split[0]]
    old, other = np.uint8(leaf), np.uint8(new)
    beyond = np.uint8(GAP) if split[2] else np.uint8(0)  # a code that stays, whatever the split
    for i in range(node.shape[0]):
        right = (own[i] > last) & (own[i] != beyond) & (node[i] == old)
        node[i] = other if right else node[i]
    n_right = 0
    for part in range(parts.shape[0]):
        some = node[parts[part, 0] : parts[part, 1]]
        for i in range(some.shape[0]):
            n_right += some[i] == other
    return n_right


@compiled(nogil=True, error_model="numpy")
def collect(node, leaf, parts, packed, rows, own):
    """Collect positions, packed values and count of a leaf's training rows."""
    n, wanted = 0, np.uint8(leaf)
    for part in range(parts.shape[0]):
        start = parts[part, 0]
        some = node[start : parts[part, 1]]
        for i in range(some.shape[0]):
            rows[n] = start + i
            n += some[i] == wanted
    for j in range(n):
        own[j] = packed[rows[j]]
    return n


@compiled(nogil=True, error_model="numpy")
def grow(codes, packed, parts, n_bins, has_gap, limits, scales, node, room, splits, values):
    """Grow a tree: splits (k, 4) of leaf, column, last code on the left, missing side.

    ``parts`` (m, 2) are ranges of rows to learn from; ``node`` (n,) are the leaves of all rows, to
    be found; ``room`` is memory: histograms (leaves, 2, columns, 256) and sums (LANES, 256), which
    are 0, places (n,), packed numbers (n,). ``limits`` are the fewest rows and the smallest Hessian
    of a leaf, and the penalty. ``values`` (leaves,) gets what each leaf adds, before the rate.
    """
    hists, sums, rows, own = room
    n_leaves, n_splits = values.shape[0], 0
    counts, gains = np.zeros(n_leaves, np.int64), np.zeros(n_leaves)
    place = np.zeros(n_leaves, np.int64)  # of a leaf's histogram
    best = np.zeros((n_leaves, 3), np.int64)
    is_open = np.ones((n_leaves, n_bins.shape[0]), np.bool_)
    for i in range(node.shape[0]):
        node[i] = 0
    for part in range(parts.shape[0]):
        start, stop = parts[part, 0], parts[part, 1]
        add_rows(codes[:, start:stop], len(codes), rows, packed[start:stop], True, sums, hists[0])
        counts[0] += parts[part, 1] - parts[part, 0]
    gains[0] = best_split(hists[0], n_bins, has_gap, counts[0], limits, scales, is_open[0], best[0])
    while n_splits < n_leaves - 1:
        leaf = np.argmax(gains[: n_splits + 1])
        if not gains[leaf] > 0:
            break
        splits[n_splits, 0] = leaf
        for entry in range(3):
            splits[n_splits, 1 + entry] = best[leaf, entry]
        n_splits = new = n_splits + 1
        counts[new] = divide(codes, best[leaf], leaf, new, parts, node)
        counts[leaf] -= counts[new]
        # The histogram of the smaller child is made, that of the other is what is left.
        small, large = (new, leaf) if counts[new] <= counts[leaf] else (leaf, new)
        whole = place[leaf]
        place[large], place[small] = whole, new
        n = collect(node, small, parts, packed, rows, own)
        # For the last leaves only the sums are needed, which any column has.
        n_columns = LANES if n_splits == n_leaves - 1 else len(codes)
        add_rows(codes, n_columns, rows, own[:n], False, sums, hists[new])
        for side in range(2):
            for k in range(n_columns):
                for code in range(256):
                    hists[whole, side, k, code] -= hists[new, side, k, code]
        if n_splits == n_leaves - 1:
            break
        for k in range(n_bins.shape[0]):
            is_open[new, k] = is_open[leaf, k]
        for at in (leaf, new):
            own_room = hists[place[at]], n_bins, has_gap, counts[at], limits, scales
            gains[at] = best_split(*own_room, is_open[at], best[at])
    for leaf in range(n_splits + 1):  # a Newton step, from sums that every column has
        g, h = 0, 0
        for code in range(256):
            g += hists[place[leaf], 0, 0, code]
            h += hists[place[leaf], 1, 0, code]
        values[leaf] = -(g / scales[0]) / (h / scales[1] + limits[2])
    return n_splits


@compiled(nogil=True, error_model="numpy")
def add_leaves(node, values, offset, slope, score, logit):
    """Add leaf values to scores; ``logit`` gets -(offset + slope score)."""
    for i in range(node.shape[0]):
        score[i] += values[node[i]]
        logit[i] = -(offset[i] + slope[i] * score[i])


@compiled(nogil=True)
def walk(X, feature, threshold, left, right, missing_left, value, roots, scores):
    """Set the score of each row, by walking from each root to a leaf; see ``TreeScores``."""
    for i in range(len(X)):
        total = 0.0
        for tree in range(len(roots)):
            node = roots[tree]
            while left[node] != node:
                x = X[i, feature[node]]
                goes_left = x <= threshold[node] or (missing_left[node] and x != x)
                node = left[node] if goes_left else right[node]
            total += value[node]
        scores[i] = total
