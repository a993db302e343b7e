"""Segments: parts of the people, in the words of their columns, with effects of their own.

They are the leaves of a tree of depth 2 or 3 over raw columns. It is learnt on some rows, by the
criterion of honest trees: with tau the difference of two arms' means in a leaf of n rows and v its
variance, the sum over leaves, and over all pairs of arms (the control is one), of

    n (tau^2 - 2 v),

which estimates how much the leaves' effects differ, less what noise adds to that. A leaf of depth 2
is split once more, by what a half of these rows finds, if the other half tells the effects of both
sides apart. Of several arms, the same rows say which of them a leaf should get. What is told of a
leaf, estimate and certificate, comes from yet other rows, and nothing is told unless these reject
that the effects are the same in all leaves: a tree finds leaves in any noise. No number is about
fewer than 20 people of an arm.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from auucmax._validation import Bools, Floats
from auucmax.certificates.strata import strata_bounds
from auucmax.data.binning import Binned
from auucmax.data.few import LEAST_ROWS
from auucmax.model.columns import Bounded
from auucmax.model.judging import Judged, average_effect

SEARCHED = 12  #: columns that pairs of splits are looked for in, at most
LEAST_PART = 0.05  #: of the rows in a segment
MOST_ROWS = 100_000  #: that a tree is learnt from
DELTA = 0.05
TOLD = 2.5  #: standard errors from which on rows tell two effects apart that others have found

Arms = NDArray[np.intp]  # 0 for the control


class Side(NamedTuple):
    """A condition on a column: the bins that it admits, and its words.

    Missing values go with the side that does not hold the first bin.
    """

    column: Binned
    bins: Bools
    words: str

    def holds(self) -> Bools:
        """(n,) whether it holds of each row; missing values count to no bin."""
        return np.append(self.bins, not self.bins[0])[self.column.code]

    def told(self, arm: Arms) -> str:
        """Its words, with missing values if 20 people of each arm lack the value."""
        missing = np.bincount(arm[self.column.code < 0], minlength=int(arm.max()) + 1)
        enough = missing.min() >= LEAST_ROWS
        return f"{self.words} or missing" if enough and not self.bins[0] else self.words


Rule = tuple[Side, ...]


class Leaves(NamedTuple):
    """Rules that no two hold of one person, and the rows that they were made from and not."""

    rules: list[Rule]
    made_from: list[Bools]
    others: list[Bools]


def segments_of(
    columns: Sequence[Binned],
    rows: Judged,
    learn: Bools,
    bounded: Bounded | None,
    *,
    random_state: int = 0,
) -> list[dict[str, Any]]:
    """Segments of the people, with effects of rows that they are not made from.

    The first is that of most effect among the rows that they are made from.

    Parameters
    ----------
    columns : raw columns of ``rows``, whose score is not looked at.
    learn : (n,) the rows that the segments are made from.
    bounded : range of the outcomes, for the certificate; None: nothing is certified.

    Each certified number is a lower bound on the effect in a segment; all hold together with
    probability .95, and so do the intervals. Empty if the other rows do not tell the effects of
    segments apart (chi-square at 5%), or rows are in groups or unequal chances.
    """
    if rows.groups is not None or rows.propensity is not None:
        return []
    arm = rows.treated.astype(np.intp)
    leaves = _leaves(columns, rows.y, arm, learn, random_state)
    if leaves is None:
        return []
    level = 1 - DELTA / len(leaves.rules)
    effects = [_difference(rows.y, arm, own, (1, 0), level) for own in leaves.others]
    if any(one["declined"] is not None for one in effects):
        return []
    value = np.array([[one["estimate"]] for one in effects])
    variance = np.array([[[one["standard_error"] ** 2]] for one in effects])
    if not _told_apart(value, variance):
        return []
    sure = _certified(rows.y, arm, leaves.others, 1, bounded, DELTA)
    found = [
        {**told, "effect": effect, "certified": lower}
        for told, effect, lower in zip(_words(leaves, arm, learn), effects, sure, strict=True)
    ]
    # Not by the estimates that are told: the largest of several is too large.
    gains = np.array([_means(rows.y, arm, own)[0] for own in leaves.made_from]) @ [-1, 1]
    return [found[k] for k in np.argsort(gains, kind="stable")[::-1]]


def arm_segments_of(
    columns: Sequence[Binned],
    y: Floats,
    arm: Arms,
    learn: Bools,
    bounded: Bounded | None,
    *,
    random_state: int = 0,
) -> dict[str, Any] | None:
    """Segments of several arms, with effects of rows that they are not made from.

    Parameters
    ----------
    columns : raw columns. y, arm : (n,) outcomes, and 0 for the control, 1 to K.
    learn, bounded : as in :func:`segments_of`.

    ``parts``: of each segment, ``learnt`` (K,), the effects of the arms on the rows that it is made
    from: by these a segment gets its arm, whatever arms cost. ``contrasts``: the effect of each
    ``arm`` ``over`` each one before it, the control among them, on the other rows; ``certified``
    (K,): lower bounds on the effects of arms, or None. All intervals hold together at 95%, with one
    of ``level`` for a sum of them, and so does what is certified. None if the other rows do not
    tell effects of arms apart.
    """
    leaves = _leaves(columns, y, arm, learn, random_state)
    if leaves is None or not _told_apart(*_effects([_means(y, arm, own) for own in leaves.others])):
        return None
    pairs = list(combinations(range(int(arm.max()) + 1), 2))
    level = 1 - DELTA / (len(pairs) * len(leaves.rules) + 1)
    n_arms = int(arm.max())
    sure = [
        _certified(y, arm, leaves.others, k, bounded, DELTA / n_arms) for k in range(1, n_arms + 1)
    ]
    parts = []
    for k, told in enumerate(_words(leaves, arm, learn)):
        means, _ = _means(y, arm, leaves.made_from[k])
        contrasts = [
            {"arm": high, "over": low, **_difference(y, arm, leaves.others[k], (high, low), level)}
            for low, high in pairs
        ]
        if any(one["declined"] is not None for one in contrasts):
            return None
        parts.append({
            **told,
            "learnt": means[1:] - means[0],
            "contrasts": contrasts,
            "certified": None if bounded is None else [own[k] for own in sure],
        })  # fmt: skip
    return {"level": level, "parts": parts}


def _leaves(
    columns: Sequence[Binned], y: Floats, arm: Arms, learn: Bools, random_state: int
) -> Leaves | None:
    """The leaves of a tree of some rows; None if there is one, or few other rows are in one."""
    some, rng = np.flatnonzero(learn), np.random.default_rng(random_state)
    if len(some) > MOST_ROWS:
        some = np.sort(rng.choice(some, MOST_ROWS, replace=False))
    n_arms = int(arm.max(initial=0)) + 1
    least = max(LEAST_ROWS, int(LEAST_PART * np.bincount(arm[some], minlength=n_arms).min()))
    rules = grow(columns, y, arm, some, least)
    rules = deepen(rules, columns, y, arm, rng.permutation(some), least)
    inside = [_inside(rule, len(y)) for rule in rules]
    others = [own & ~learn for own in inside]
    fewest = min(int(np.bincount(arm[own], minlength=n_arms).min()) for own in others)
    if len(rules) < 2 or fewest < LEAST_ROWS:
        return None
    made_from = np.zeros(len(y), dtype=bool)
    made_from[some] = True
    return Leaves(rules, [own & made_from for own in inside], others)


def _words(leaves: Leaves, arm: Arms, learn: Bools) -> list[dict[str, Any]]:
    """The rule of each leaf in words, and how many of the rows that judge it are in it."""
    n_rows = int((~learn).sum())
    return [
        {
            "rule": [side.told(arm) for side in rule],
            "rows": int(own.sum()),
            "share": float(own.sum() / n_rows),
        }
        for rule, own in zip(leaves.rules, leaves.others, strict=True)
    ]


def _difference(
    y: Floats, arm: Arms, own: Bools, arms: tuple[int, int], level: float
) -> dict[str, Any]:
    """The effect of one arm against another on some rows, with its interval."""
    some = own & np.isin(arm, arms)
    return average_effect(Judged(y[some], np.zeros(int(some.sum())), arm[some] == arms[0]), level)


def _means(y: Floats, arm: Arms, own: Bools) -> tuple[Floats, Floats]:
    """(K + 1,) the mean outcome of each arm in some rows, and its variance."""
    parts = [y[own & (arm == k)] for k in range(int(arm.max()) + 1)]
    return (
        np.array([part.mean() for part in parts]),
        np.array([part.var(ddof=1) / len(part) for part in parts]),
    )


def _effects(moments: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """(leaves, K) effects of the arms, and their covariances: all have the control in common."""
    mean, variance = (np.array(own) for own in zip(*moments, strict=True))
    diagonal = np.eye(mean.shape[1] - 1) * variance[:, None, 1:]
    return mean[:, 1:] - mean[:, :1], diagonal + variance[:, :1, None]


def _told_apart(value: Floats, covariance: Floats) -> bool:
    """Whether effects (L, K) of other people each differ by more than their noise: Wald's test at
    5%, with covariances (L, K, K)."""
    if not (np.linalg.det(covariance) > 0).all():
        return False
    weight = np.linalg.inv(covariance)
    middle = np.linalg.solve(weight.sum(axis=0), np.einsum("ljk,lk->j", weight, value))
    away = value - middle
    distance = np.einsum("lj,ljk,lk->", away, weight, away)
    return bool(chdtrc((len(value) - 1) * value.shape[1], distance) < DELTA)


def _certified(
    y: Floats, arm: Arms, inside: Sequence[Bools], given: int, bounded: Bounded | None, delta: float
) -> Sequence[float | None]:
    """A lower bound on the effect of an arm in each segment, all of them together."""
    if bounded is None:
        return [None] * len(inside)
    code = np.full(len(y), -1)
    for number, own in enumerate(inside):
        code[own & np.isin(arm, (0, given))] = number
    kept = code >= 0
    found = strata_bounds(
        np.clip(y[kept], *bounded.range),
        treatment=arm[kept] > 0,
        stratum=code[kept],
        weights=np.eye(len(inside)),
        delta=delta / len(inside),
        outcome_range=bounded.range,
    )
    return [float(one) for one in found.lower]


def deepen(
    rules: Sequence[Rule], columns: Sequence[Binned], y: Floats, arm: Arms, some: Any, least: int
) -> list[Rule]:
    """Leaves, each split once more by the column that pays most among a half of ``some`` rows.

    The rows are in random order; a split is kept if the other half tells the effects of its sides
    apart, the same way round. ``least`` is for all of them.
    """
    found: list[Rule] = []
    first, second = some[: len(some) // 2], some[len(some) // 2 :]
    n_arms = int(arm.max(initial=0)) + 1
    for rule in rules:
        inside = _inside(rule, len(y))
        own = first[inside[first]]
        whole = _sums([np.zeros(len(own), np.intp)], [1], arm[own], y[own], n_arms)
        best = float(_values(whole, least // 2)[0])
        leaves, used = [rule], {side.column.name for side in rule}
        for column in columns if rule else ():
            code = column.code[own] + 1
            value, pair = _best_alone(column, code, arm[own], y[own], least // 2, n_arms)
            if pair is None or column.name in used or not value > best + 1e-12:
                continue
            best, leaves = value, [(*rule, side) for side in pair]
        if len(leaves) == 2:
            gaps = [_gaps(leaves, y, arm, half, least // 2) for half in (first, second)]
            pair_of_arms = np.abs(gaps[0]).argmax()
            told = (gaps[1] * np.sign(gaps[0]))[pair_of_arms]
            leaves = leaves if told > TOLD else [rule]
        found += leaves
    return found


def _gaps(rules: Sequence[Rule], y: Floats, arm: Arms, some: Any, least: int) -> Floats:
    """(pairs of arms,) how far the effects in two leaves are apart, in standard errors; 0 if one
    leaf has few rows of an arm."""
    n_arms = int(arm.max(initial=0)) + 1
    pairs = np.array(list(combinations(range(n_arms), 2))).T
    effect, variance = [], np.zeros(pairs.shape[1])
    for rule in rules:
        own = some[_inside(rule, len(y))[some]]
        parts = [y[own[arm[own] == k]] for k in range(n_arms)]
        if min(map(len, parts)) < least:
            return np.zeros(pairs.shape[1])
        mean = np.array([part.mean() for part in parts])
        noise = np.array([part.var() / len(part) for part in parts])
        effect.append(mean[pairs[1]] - mean[pairs[0]])
        variance += noise[pairs[1]] + noise[pairs[0]]
    known = np.where(variance > 0, variance, np.inf)
    return np.asarray((effect[0] - effect[1]) / known**0.5)


def grow(columns: Sequence[Binned], y: Floats, arm: Arms, some: Any, least: int) -> list[Rule]:
    """The leaves of the best tree of depth 2, each as its conditions; one of none if no split pays.

    All pairs of columns are looked at: the sums of a leaf come from a table of their bins.
    """
    n_arms = int(arm.max(initial=0)) + 1
    y, arm = y[some], arm[some]
    centred = y - y.mean()
    # Columns that split well by themselves, of these rows alone: others must not have a say.
    alone = [
        _best_alone(column, column.code[some] + 1, arm, centred, least, n_arms)[0]
        for column in columns
    ]
    columns = [columns[k] for k in np.argsort(alone, kind="stable")[::-1][:SEARCHED]]
    splits = [Splits.of(column) for column in columns]
    codes = [column.code[some] + 1 for column in columns]  # 0: missing
    sizes = [len(column.names) + 1 for column in columns]
    found: list[Rule] = [()]
    whole = _sums([np.zeros(len(y), np.intp)], [1], arm, centred, n_arms)
    best = float(_values(whole, least)[0])
    for a in range(len(columns)):
        tables = [
            _sums([codes[a], codes[b]], [sizes[a], sizes[b]], arm, centred, n_arms).reshape(
                3 * n_arms, sizes[a], sizes[b]
            )
            for b in range(len(columns))
        ]
        for pair in splits[a].sides:
            value, rule = 0.0, list[Rule]()
            for side in pair:
                own, leaves = _split(a, side, splits, tables, least)
                value, rule = value + own, rule + leaves
            if value > best * (1 + 1e-9) + 1e-12:
                best, found = value, rule
    return found


def _best_alone(
    column: Binned, code: Any, arm: Arms, y: Floats, least: int, n_arms: int
) -> tuple[float, tuple[Side, Side] | None]:
    """The best split of some rows by one column: its value, and its sides."""
    sums = _sums([code], [len(column.names) + 1], arm, y, n_arms)
    return Splits.of(column).best(sums, least)


class Splits(NamedTuple):
    """All ways to split a column in two, with the cells (missing, then bins) of the first side."""

    sides: list[tuple[Side, Side]]
    cells: list[NDArray[np.intp]]

    @classmethod
    def of(cls, column: Binned) -> Splits:
        sides = _sides(column)
        return cls(
            sides, [np.flatnonzero(np.append(not yes.bins[0], yes.bins)) for yes, _ in sides]
        )

    def best(self, sums: Floats, least: int) -> tuple[float, tuple[Side, Side] | None]:
        """The best of them and its value, by sums (3 arms, cells); none if all leave too few."""
        if not self.sides:
            return -np.inf, None
        left = np.stack([sums[:, cells].sum(axis=1) for cells in self.cells], axis=1)
        values = _values(np.hstack([left, sums.sum(axis=1)[:, None] - left]), least)
        both = values[: len(self.sides)] + values[len(self.sides) :]
        best = int(both.argmax())
        found = self.sides[best] if both[best] > -np.inf else None
        return float(both[best]), found


def _split(
    a: int, side: Side, splits: Sequence[Splits], tables: Sequence[Floats], least: int
) -> tuple[float, list[Rule]]:
    """The best way to split the rows of a side once more, or not at all, and its value."""
    chosen = np.append(not side.bins[0], side.bins)
    whole = tables[0][:, chosen].sum(axis=1).sum(axis=1)
    best, found = float(_values(whole[:, None], least)[0]), list[Rule]([(side,)])
    for b, own in enumerate(splits):
        if b == a:
            continue
        value, pair = own.best(tables[b][:, chosen].sum(axis=1), least)
        if pair is not None and value > best:
            best, found = value, [(side, other) for other in pair]
    return best, found


def _sums(codes: Sequence[Any], sizes: Sequence[int], arm: Arms, y: Floats, n_arms: int) -> Floats:
    """(3 arms, cells): rows, sums and sums of squares of y of the control, then of each arm."""
    cell: Any = arm
    for code, size in zip(codes, sizes, strict=True):
        cell = cell * size + code
    n_cells = n_arms * int(np.prod(sizes))
    found = [np.bincount(cell, weights=w, minlength=n_cells) for w in (None, y, y**2)]
    parts = np.stack([own.reshape(n_arms, -1) for own in found], axis=1)
    return parts.reshape(3 * n_arms, -1).astype(np.float64)


def _values(sums: Floats, least: int) -> Floats:
    """(leaves,) n (tau^2 - 2 v) of each leaf, of all pairs of arms; minus infinite if it has too
    few rows of one."""
    n, total, squares = sums.reshape(-1, 3, sums.shape[1]).transpose(1, 0, 2)
    counted = np.maximum(n, 1.0)
    mean = total / counted
    noise = np.maximum(squares / counted - mean**2, 0.0) / counted
    value = sum(
        (mean[k] - mean[j]) ** 2 - 2 * (noise[j] + noise[k])
        for j, k in combinations(range(len(n)), 2)
    )
    return np.where(n.min(axis=0) < least, -np.inf, n.sum(axis=0) * value)


def _sides(column: Binned) -> list[tuple[Side, Side]]:
    """All ways to split a column in two: at a cut, or one level against the others."""
    n, found = len(column.names), []
    for k in range(n - 1 if column.ordered or n == 2 else n):
        bins = np.arange(n) <= k if column.ordered else np.arange(n) == k
        if column.ordered:
            words = f"up to {column.cuts[k]}", f"over {column.cuts[k]}"
        else:
            words = f"= {column.names[k]}", f"not {column.names[k]}"
            if n == 2:
                words = f"= {column.names[0]}", f"= {column.names[1]}"
        yes, no = (f"{column.name} {word}" for word in words)
        found.append((Side(column, bins, yes), Side(column, ~bins, no)))
    return found


def _inside(rule: Rule, n_rows: int) -> Bools:
    found = np.ones(n_rows, dtype=bool)
    for side in rule:
        found &= side.holds()
    return found

def find_segments(*a,**k): return None
