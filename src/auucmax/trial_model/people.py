"""Who they are: the top of a ranking against the rest, and segments with effects of their own.

Segments are the leaves of a tree of depth 2 or 3 over raw columns. It is learnt on some rows, by
the criterion of honest trees: with tau the difference of the arms' means in a leaf of n rows and v
its variance, the sum over leaves of

    n (tau^2 - 2 v),

which estimates how much the leaves' effects differ, less what noise adds to that. A leaf of depth 2
is split once more, by what a half of these rows finds, if the other half tells the effects of both
sides apart. What is told of a leaf, estimate and certificate, comes from yet other rows, and
nothing is told unless these reject that all leaves have one effect: a tree finds leaves in any
noise. No number is about fewer than 20 people.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from auucmax._validation import Bools, Floats
from auucmax.bounds.strata import strata_bounds
from auucmax.data.binning import Binned
from auucmax.data.few import LEAST_ROWS, rounded, step_of
from auucmax.trial_model.columns import Bounded
from auucmax.trial_model.judging import Judged, average_effect, top_part

MOST_COLUMNS = 8  #: of the top against the rest that are kept
SEARCHED = 12  #: columns that pairs of splits are looked for in, at most
LEAST_PART = 0.05  #: of the rows in a segment
MOST_ROWS = 100_000  #: that a tree is learnt from
DELTA = 0.05
TOLD = 2.5  #: standard errors from which on rows tell two effects apart that others have found


def describe_people(columns: Sequence[Binned], score: Floats, *, share: float) -> dict[str, Any]:
    """Of each column, which parts of the top-scored share and of the rest are in which bin.

    The columns that differ most are kept. Bins of fewer than 20 people are not told (None), and
    the others are parts of those who are told, rounded (:mod:`auucmax.data.few`).

    >>> import pandas as pd
    >>> from auucmax.data.binning import binned
    >>> frame = pd.DataFrame({"age": np.arange(200), "home": ["yes", "no"] * 100})
    >>> found = describe_people(binned(frame, 2), np.arange(200.0), share=0.5)
    >>> [(one["bins"], one["top"].tolist()) for one in found["columns"]]
    [(['up to 100', 'over 100'], [nan, 1.0]), (['yes', 'no'], [0.5, 0.5])]
    """
    found = compared(columns, top_part(score, share))
    return {"share": share, "n_columns": len(found), "columns": found[:MOST_COLUMNS]}


def describe_arms(
    columns: Sequence[Binned], given: NDArray[np.intp], labels: Sequence[str]
) -> list[dict[str, Any]]:
    """The same of those who get each arm, against all others: ``given`` (n,) is 0 for no arm.

    Those who get an arm that is told of are among the others of the next, so numbers of two arms
    can be subtracted: what is left is nobody, or 20 people. Hence arms that fewer than 20 people
    get, or all but fewer than 20, are left out, and smaller ones until that goes for those who get
    none that is told of; and in a bin of a column are 20 people of each of these parts, or nobody.
    """
    part = _told_parts(given)
    kept = [own for column in columns if (own := _in_parts(column, part)) is not None]
    found = []
    for number, label in enumerate(labels, start=1):
        own = part == number
        if own.any() and kept:
            told = compared(kept, own.astype(np.float64))
            found.append({"arm": label, "n_columns": len(told), "columns": told[:MOST_COLUMNS]})
    return found


def _told_parts(given: NDArray[np.intp]) -> NDArray[np.intp]:
    """(n,) the arm of those who get one that is told of; 0 of all others."""
    size = np.bincount(given, minlength=1)
    told = (size >= LEAST_ROWS) & (size <= len(given) - LEAST_ROWS)
    told[0] = False
    while told.any() and 0 < size[~told].sum() < LEAST_ROWS:
        told[np.flatnonzero(told)[size[told].argmin()]] = False
    return np.where(told[given], given, 0)


def _in_parts(column: Binned, part: NDArray[np.intp]) -> Binned | None:
    """A column whose bins have 20 people of each part, or nobody; None if that leaves one bin."""
    own, known = column.with_least(LEAST_ROWS), column.code >= 0
    while own is not None and len(own.names) > 1:
        size = int(part.max(initial=0)) + 1, len(own.names)
        cell = part[known] * size[1] + own.code[known]
        counts = np.bincount(cell, minlength=size[0] * size[1]).reshape(size)
        few = ((counts > 0) & (counts < LEAST_ROWS)).any(axis=0)
        if not few.any():
            return own
        # Levels are sorted by their people: rarer ones become one until it is large enough.
        left = size[1] - 2
        if own.ordered:
            people = counts.sum(axis=0).astype(np.float64)
            worst = int(np.where(few, people, np.inf).argmin())
            around = np.concatenate([[np.inf], people, [np.inf]])
            left = worst if around[worst + 2] < around[worst] else worst - 1
        own = own.merged(left)
    return None


def compared(columns: Sequence[Binned], weight: Floats) -> list[dict[str, Any]]:
    """Bins of some people, by the ``weight`` (n,) of each, and of the others; most unlike first."""
    found: list[dict[str, Any]] = []
    for column in columns:
        own = column.with_least(LEAST_ROWS)
        if own is None:
            continue
        top, rest = _shares(own.counts(weight)), _shares(own.counts(1 - weight))
        bins = {"name": own.name, "bins": list(own.names), "top": top, "rest": rest}
        distance = float(np.abs(np.nan_to_num(top) - np.nan_to_num(rest)).sum() / 2)
        found.append(bins | {"distance": distance})
    return sorted(found, key=lambda one: -one["distance"])


def _shares(counts: Floats) -> Floats:
    """Parts of some people in each bin; bins of fewer than 20 are not told, nor counted.

    Fractions of all who are told would tell how many these are, and so the others: hence rounded.
    """
    told = np.where(counts >= LEAST_ROWS - 1e-6, counts, np.nan)
    total = max(float(np.nansum(told)), 1.0)
    return rounded(told / total, step_of(total))


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

    def told(self, treated: Bools) -> str:
        """Its words, with missing values if 20 people of each arm lack the value."""
        missing = treated[self.column.code < 0]
        enough = min(missing.sum(), (~missing).sum()) >= LEAST_ROWS
        return f"{self.words} or missing" if enough and not self.bins[0] else self.words


Rule = tuple[Side, ...]


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
    some = np.flatnonzero(learn)
    rng = np.random.default_rng(random_state)
    if len(some) > MOST_ROWS:
        some = np.sort(rng.choice(some, MOST_ROWS, replace=False))
    least = max(
        LEAST_ROWS, int(LEAST_PART * min(rows.treated[some].sum(), (~rows.treated[some]).sum()))
    )
    rules = grow(columns, rows.y, rows.treated, some, least)
    rules = deepen(rules, columns, rows.y, rows.treated, rng.permutation(some), least)
    inside = [_inside(rule, len(rows.y)) & ~learn for rule in rules]
    fewest = min((min(int((own & rows.treated).sum()), int((own & ~rows.treated).sum()))
                  for own in inside), default=0)  # fmt: skip
    if len(rules) < 2 or fewest < LEAST_ROWS:
        return []
    level, n_rows = 1 - DELTA / len(rules), int((~learn).sum())
    found = [_told(rule, rows, own, n_rows, level) for rule, own in zip(rules, inside, strict=True)]
    if not _told_apart([one["effect"] for one in found]):
        return []
    for one, lower in zip(found, _certified(rows, inside, bounded), strict=True):
        one["certified"] = lower
    # Not by the estimates that are told: the largest of several is too large.
    learnt = np.zeros(len(rows.y), dtype=bool)
    learnt[some] = True
    gains = [_difference(rows, _inside(rule, len(rows.y)) & learnt) for rule in rules]
    return [found[k] for k in np.argsort(gains, kind="stable")[::-1]]


def _difference(rows: Judged, own: Bools) -> float:
    """The mean outcome of the treated minus that of the others, of some rows."""
    return float(rows.y[own & rows.treated].mean() - rows.y[own & ~rows.treated].mean())


def _told_apart(effects: Sequence[dict[str, Any]]) -> bool:
    """Whether effects of other people each differ by more than their noise: Wald's test at 5%."""
    if any(one["declined"] is not None or not one["standard_error"] > 0 for one in effects):
        return False
    value = np.array([one["estimate"] for one in effects])
    weight = np.array([one["standard_error"] for one in effects]) ** -2.0
    distance = weight @ (value - weight @ value / weight.sum()) ** 2
    return bool(chdtrc(len(value) - 1, distance) < DELTA)


def deepen(
    rules: Sequence[Rule], columns: Sequence[Binned], y: Floats, treated: Bools, some: Any,
    least: int,
) -> list[Rule]:  # fmt: skip
    """Leaves, each split once more by the column that pays most among a half of ``some`` rows.

    The rows are in random order; a split is kept if the other half tells the effects of its sides
    apart, the same way round. ``least`` is for all of them.
    """
    found: list[Rule] = []
    first, second = some[: len(some) // 2], some[len(some) // 2 :]
    for rule in rules:
        inside = _inside(rule, len(y))
        own, arm = first[inside[first]], treated[first[inside[first]]].astype(np.intp)
        best = _value(_sums([np.zeros(len(own), np.intp)], [1], arm, y[own])[:, 0], least // 2)
        leaves, used = [rule], {side.column.name for side in rule}
        for column in columns if rule else ():
            code = column.code[own] + 1
            value, pair = _best_alone(column, code, arm, y[own], least // 2)
            if pair is None or column.name in used or not value > best + 1e-12:
                continue
            best, leaves = value, [(*rule, side) for side in pair]
        if len(leaves) == 2:
            gaps = [_gap(leaves, y, treated, half, least // 2) for half in (first, second)]
            leaves = leaves if gaps[1] * np.sign(gaps[0]) > TOLD else [rule]
        found += leaves
    return found


def _gap(rules: Sequence[Rule], y: Floats, treated: Bools, some: Any, least: int) -> float:
    """How far the effects in two leaves are apart, in standard errors; 0 if one has few rows."""
    effect, variance = [], 0.0
    for rule in rules:
        own = some[_inside(rule, len(y))[some]]
        arms = y[own[treated[own]]], y[own[~treated[own]]]
        if min(map(len, arms)) < least:
            return 0.0
        effect.append(float(arms[0].mean() - arms[1].mean()))
        variance += sum(float(part.var()) / len(part) for part in arms)
    return (effect[0] - effect[1]) / variance**0.5 if variance > 0 else 0.0


def grow(columns: Sequence[Binned], y: Floats, treated: Bools, some: Any, least: int) -> list[Rule]:
    """The leaves of the best tree of depth 2, each as its conditions; one of none if no split pays.

    All pairs of columns are looked at: the sums of a leaf come from a table of their bins.
    """
    y, arm = y[some], treated[some].astype(np.intp)
    centred = y - y.mean()
    # Columns that split well by themselves, of these rows alone: others must not have a say.
    alone = [
        _best_alone(column, column.code[some] + 1, arm, centred, least)[0] for column in columns
    ]
    columns = [columns[k] for k in np.argsort(alone, kind="stable")[::-1][:SEARCHED]]
    codes = [column.code[some] + 1 for column in columns]  # 0: missing
    sides = [_sides(column) for column in columns]
    found: list[Rule] = [()]
    best = _value(_sums([np.zeros(len(y), np.intp)], [1], arm, centred)[:, 0], least)
    tables: dict[tuple[int, int], Floats] = {}
    for a, first in enumerate(sides):
        for yes, no in first:
            value, rule = 0.0, list[Rule]()
            for side in (yes, no):
                own, leaves = _split(a, side, columns, sides, codes, arm, centred, tables, least)
                value, rule = value + own, rule + leaves
            if value > best * (1 + 1e-9) + 1e-12:
                best, found = value, rule
    return found


def _best_alone(
    column: Binned, code: Any, arm: Any, y: Floats, least: int
) -> tuple[float, tuple[Side, Side] | None]:
    """The best split of some rows by one column: its value, and its sides."""
    sums = _sums([code], [len(column.names) + 1], arm, y)
    best, found = -np.inf, None
    for pair in _sides(column):
        left = sums[:, np.append(not pair[0].bins[0], pair[0].bins)].sum(axis=1)
        value = _value(left, least) + _value(sums.sum(axis=1) - left, least)
        if value > best:
            best, found = value, pair
    return best, found


def _split(
    a: int, side: Side, columns: Sequence[Binned], sides: Sequence[list[tuple[Side, Side]]],
    codes: Sequence[Any], arm: Any, y: Floats, tables: dict[tuple[int, int], Floats], least: int,
) -> tuple[float, list[Rule]]:  # fmt: skip
    """The best way to split the rows of a side once more, or not at all, and its value."""
    chosen = np.append(not side.bins[0], side.bins)
    best, found = -np.inf, list[Rule]()
    for b, second in enumerate(sides):
        if (a, b) not in tables:
            sizes = [len(columns[a].names) + 1, len(columns[b].names) + 1]
            tables[a, b] = _sums([codes[a], codes[b]], sizes, arm, y).reshape(6, *sizes)
        own = tables[a, b][:, chosen].sum(axis=1)
        if best == -np.inf:
            best, found = _value(own.sum(axis=1), least), [(side,)]
        if b == a:
            continue
        for yes, no in second:
            left = own[:, np.append(not yes.bins[0], yes.bins)].sum(axis=1)
            value = _value(left, least) + _value(own.sum(axis=1) - left, least)
            if value > best:
                best, found = value, [(side, yes), (side, no)]
    return best, found


def _sums(codes: Sequence[Any], sizes: Sequence[int], arm: Any, y: Floats) -> Floats:
    """(6, cells): rows, sums and sums of squares of y of the control, then of the treated rows."""
    cell = arm
    for code, size in zip(codes, sizes, strict=True):
        cell = cell * size + code
    n_cells = 2 * int(np.prod(sizes))
    found = [np.bincount(cell, weights=w, minlength=n_cells) for w in (None, y, y**2)]
    return np.stack([own.reshape(2, -1) for own in found], axis=1).reshape(6, -1).astype(np.float64)


def _value(sums: Floats, least: int) -> float:
    """n (tau^2 - 2 v) of a leaf; minus infinite if it has too few rows of an arm."""
    (n0, s0, q0), (n1, s1, q1) = sums[:3], sums[3:]
    if min(n0, n1) < least:
        return -np.inf
    v = sum(max(q / n - (s / n) ** 2, 0.0) / n for n, s, q in ((n0, s0, q0), (n1, s1, q1)))
    return float((n0 + n1) * ((s1 / n1 - s0 / n0) ** 2 - 2 * v))


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


def _told(rule: Rule, rows: Judged, inside: Bools, n_rows: int, level: float) -> dict[str, Any]:
    own = Judged(rows.y[inside], np.zeros(int(inside.sum())), rows.treated[inside])
    return {
        "rule": [side.told(rows.treated) for side in rule],
        "rows": int(inside.sum()),
        "share": float(inside.sum() / n_rows),
        "effect": average_effect(own, level),
        "certified": None,
    }


def _certified(
    rows: Judged, inside: Sequence[Bools], bounded: Bounded | None
) -> Sequence[float | None]:
    """A lower bound on the effect in each segment, all of them together."""
    if bounded is None:
        return [None] * len(inside)
    code = np.full(len(rows.y), -1)
    for number, own in enumerate(inside):
        code[own] = number
    kept = code >= 0
    found = strata_bounds(
        np.clip(rows.y[kept], *bounded.range),
        treatment=rows.treated[kept],
        stratum=code[kept],
        weights=np.eye(len(inside)),
        delta=DELTA / len(inside),
        outcome_range=bounded.range,
    )
    return [float(one) for one in found.lower]
