"""Segments: groups described by conditions on columns, with their effects.

They are the leaves of a tree of depth 2 or 3 over raw columns. It is grown on some of the rows by
the criterion of honest trees: with tau the difference of two arms' means in a leaf of n rows and v
its variance, the sum over leaves, and over all pairs of arms (the control is one), of

    n (tau^2 - 2 v),

which estimates how much the effects of the leaves differ, less what noise adds to that. A leaf of
depth 2 is split once more, as one half of these rows suggests, if the other half confirms that the
effects of both sides differ. Estimates, intervals and certificates of a leaf come from the other
rows. There are no segments unless these reject that all leaves have the same effects, because a
tree finds leaves in any noise. No number is about fewer than 20 people of an arm.
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
from auucmax.data.covariates import Binned
from auucmax.metrics import Levels
from auucmax.model.judge import effect_of
from auucmax.results import LEAST_ROWS, ArmContrast, Range, Segment, Segments, Why

SEARCHED = 12  #: columns among which pairs of splits are searched, at most
LEAST_PART = 0.05  #: of the rows in a segment
MOST_ROWS = 100_000  #: that a tree is grown on
DELTA = 0.05
CONFIRMED = 2.5  #: standard errors by which effects must differ on rows that did not suggest it

Arms = NDArray[np.intp]  # 0 for the control


class Side(NamedTuple):
    """A condition on a column: the cells it admits, missing values and then each bin.

    Missing values are on the side that does not hold the first bin.
    """

    column: Binned
    cells: Bools
    words: str

    def holds(self) -> Bools:
        """Whether the condition holds for each row, (n,)."""
        return self.cells[self.column.code + 1]

    def text(self, arm: Arms) -> str:
        """The condition in words; missing values are named if 20 people of each arm have none."""
        missing = np.bincount(arm[self.column.code < 0], minlength=int(arm.max()) + 1)
        enough = missing.min() >= LEAST_ROWS
        return f"{self.words} or missing" if enough and self.cells[0] else self.words


Rule = tuple[Side, ...]


def find_segments(
    columns: Sequence[Binned],
    y: Floats,
    arm: Arms,
    trained: Bools,
    names: Sequence[str],
    counted: Range | Why,
) -> Segments | None:
    """Find segments on some rows, and estimate effects on the others.

    The segment with the largest effect of an arm, on the rows that it was grown on, comes first.

    Parameters
    ----------
    columns : raw columns.
    y, arm : (n,) independent outcomes of arms of equal propensity, and codes 0 (control) to K.
    trained : (n,) the rows that segments are grown on.
    names : K + 1 labels of the arms.
    counted : the range of outcomes that certificates count, or why there is no certificate.

    All intervals hold together at 95%, and so do all guaranteed bounds. None if the other rows
    show no difference between the effects of the segments (chi-square test at 5%).
    """
    some = np.flatnonzero(trained)
    rng = np.random.default_rng(0)
    if len(some) > MOST_ROWS:
        some = np.sort(rng.choice(some, MOST_ROWS, replace=False))
    least = max(LEAST_ROWS, int(LEAST_PART * _fewest(arm, [some])))
    rules = grow(columns, y, arm, some, least)
    rules = deepen(rules, columns, y, arm, rng.permutation(some), least)
    inside = [_inside(rule, len(y)) for rule in rules]
    others = [own & ~trained for own in inside]
    if len(rules) < 2 or _fewest(arm, others) < LEAST_ROWS:
        return None
    if not _differ(*_moments(y, arm, others)):
        return None
    means = _moments(y, arm, [some[own[some]] for own in inside])[0]
    effects = means[:, 1:] - means[:, :1]
    pairs = list(combinations(range(len(names)), 2))
    level = 1 - DELTA / (len(pairs) * len(rules))
    code, bounds = np.select(others, range(len(rules)), -1), []
    for k in range(1, len(names)):
        if isinstance(counted, Why):
            break
        # Lower bounds on the effect of arm k, that hold together in all segments for all arms.
        kept = (code >= 0) & np.isin(arm, (0, k))
        found = strata_bounds(
            np.clip(y[kept], *counted),
            treatment=arm[kept] > 0,
            stratum=code[kept],
            weights=np.eye(len(rules)),
            delta=DELTA / (len(names) - 1) / len(rules),
            outcome_range=counted,
        )
        bounds.append(found.lower)
    parts = []
    for k in np.argsort(-effects.max(axis=1), kind="stable").tolist():
        contrasts = []
        for over, high in pairs:
            rows = others[k] & np.isin(arm, (over, high))
            levels = Levels.of(y[rows], np.zeros(int(rows.sum())), treatment=arm[rows] == high)
            effect = effect_of(levels.band([1.0], level=level))
            if effect.missing is not None:
                return None
            contrasts.append(ArmContrast(arm=names[high], over=names[over], effect=effect))
        parts.append(
            Segment(
                rule=tuple(side.text(arm) for side in rules[k]),
                n_rows=int(others[k].sum()),
                share=float(others[k].sum() / (~trained).sum()),
                trained=tuple(effects[k].tolist()),
                contrasts=tuple(contrasts),
                guaranteed=tuple(float(own[k]) for own in bounds) or None,
            )
        )
    return Segments(level=level, parts=tuple(parts))


def _fewest(arm: Arms, leaves: Sequence[Any]) -> int:
    """Smallest number of rows of an arm in a leaf."""
    return min(int(np.bincount(arm[own], minlength=arm.max() + 1).min()) for own in leaves)


def _moments(y: Floats, arm: Arms, leaves: Sequence[Any]) -> Floats:
    """Means and variances of outcomes by leaf and arm, (2, L, K + 1)."""
    found = []
    for own in leaves:
        parts = [y[own][arm[own] == k] for k in range(arm.max() + 1)]
        means = [part.mean() for part in parts]
        found.append([means, [part.var(ddof=1) / len(part) for part in parts]])
    return np.array(found).transpose(1, 0, 2)


def _differ(mean: Floats, variance: Floats) -> bool:
    """Whether the effects of leaves differ, by Wald's test at 5%; means are (L, K + 1)."""
    value = mean[:, 1:] - mean[:, :1]
    # All effects have the control in common.
    covariance = np.eye(value.shape[1]) * variance[:, None, 1:] + variance[:, :1, None]
    if not (np.linalg.det(covariance) > 0).all():
        return False
    weight = np.linalg.inv(covariance)
    middle = np.linalg.solve(weight.sum(axis=0), np.einsum("ljk,lk->j", weight, value))
    away = value - middle
    distance = np.einsum("lj,ljk,lk->", away, weight, away)
    return bool(chdtrc((len(value) - 1) * value.shape[1], distance) < DELTA)


def deepen(
    rules: Sequence[Rule], columns: Sequence[Binned], y: Floats, arm: Arms, some: Any, least: int
) -> list[Rule]:
    """Split each leaf once more by the best column on one half of ``some`` rows.

    The rows are in random order. A split is kept if the effects of its sides differ on the other
    half as well, in the same direction. ``least`` rows of each arm are needed among all of them.
    """
    found: list[Rule] = []
    first, second = some[: len(some) // 2], some[len(some) // 2 :]
    n_arms = int(arm.max(initial=0)) + 1
    for rule in rules:
        own = first[_inside(rule, len(y))[first]]
        best = float(_values(_sums(0, 1, arm[own], y[own], n_arms), least // 2)[0])
        leaves, used = [rule], {side.column.name for side in rule}
        for column in columns if rule else ():
            value, pair = _best_alone(column, own, arm[own], y[own], least // 2, n_arms)
            if column.name not in used and value > best + 1e-12:
                best, leaves = value, [(*rule, side) for side in pair]
        if len(leaves) == 2:
            gaps = [_gaps(leaves, y, arm, half, least // 2) for half in (first, second)]
            largest = np.abs(gaps[0]).argmax()
            if not (gaps[1] * np.sign(gaps[0]))[largest] > CONFIRMED:
                leaves = [rule]
        found += leaves
    return found


def _gaps(rules: Sequence[Rule], y: Floats, arm: Arms, some: Any, least: int) -> Floats:
    """Standardised effect differences of two leaves by pair of arms; 0 for arms with few rows."""
    low, high = np.array(list(combinations(range(arm.max() + 1), 2))).T
    inside = [some[_inside(rule, len(y))[some]] for rule in rules]
    if _fewest(arm, inside) < least:
        return np.zeros(len(low))
    means, noise = _moments(y, arm, inside)
    effect = means[:, high] - means[:, low]
    variance = (noise[:, high] + noise[:, low]).sum(axis=0)
    return np.asarray((effect[0] - effect[1]) / np.where(variance > 0, variance, np.inf) ** 0.5)


def grow(columns: Sequence[Binned], y: Floats, arm: Arms, some: Any, least: int) -> list[Rule]:
    """Leaves of the best tree of depth 2; a single empty leaf if no split gains.

    All pairs of columns are tried: the sums of a leaf come from a table of their bins.
    """
    n_arms = int(arm.max(initial=0)) + 1
    y, arm = y[some], arm[some]
    centred = y - y.mean()
    # Columns that split well by themselves, on these rows alone: the others judge the tree.
    alone = [_best_alone(own, some, arm, centred, least, n_arms)[0] for own in columns]
    columns = [columns[k] for k in np.argsort(alone, kind="stable")[::-1][:SEARCHED]]
    sides = [_sides(column) for column in columns]
    codes = [column.code[some] + 1 for column in columns]  # 0: missing
    sizes = [len(column.names) + 1 for column in columns]
    found: list[Rule] = [()]
    best = float(_values(_sums(0, 1, arm, centred, n_arms), least)[0])
    for a in range(len(columns)):
        tables = [
            _sums(codes[a] * size + code, sizes[a] * size, arm, centred, n_arms).reshape(
                3, n_arms, sizes[a], size
            )
            for code, size in zip(codes, sizes, strict=True)
        ]
        for pair in sides[a]:
            value, rules = 0.0, list[Rule]()
            for side in pair:
                sums = [table[:, :, side.cells].sum(axis=2) for table in tables]
                # The rows of a side are split once more by another column, or not at all.
                own = float(_values(sums[0].sum(axis=2, keepdims=True), least)[0])
                leaves: list[Rule] = [(side,)]
                for b in range(len(columns)):
                    again, both = _best_split(sides[b], sums[b], least)
                    if b != a and again > own:
                        own, leaves = again, [(side, other) for other in both]
                value, rules = value + own, rules + leaves
            if value > best * (1 + 1e-9) + 1e-12:
                best, found = value, rules
    return found


def _best_alone(
    column: Binned, rows: Any, arm: Arms, y: Floats, least: int, n_arms: int
) -> tuple[float, tuple[Side, Side]]:
    """Best split of rows by one column: value and sides."""
    sums = _sums(column.code[rows] + 1, len(column.names) + 1, arm, y, n_arms)
    return _best_split(_sides(column), sums, least)


def _best_split(
    sides: Sequence[tuple[Side, Side]], sums: Floats, least: int
) -> tuple[float, tuple[Side, Side]]:
    """Best split from sums, and its value: minus infinity if all leave too few rows."""
    left = sums @ np.column_stack([yes.cells for yes, _ in sides])
    values = _values(np.dstack([left, sums.sum(axis=2, keepdims=True) - left]), least)
    both = values.reshape(2, -1).sum(axis=0)
    best = int(both.argmax())
    return float(both[best]), sides[best]


def _sums(code: Any, size: int, arm: Arms, y: Floats, n_arms: int) -> Floats:
    """Rows, sums and squared sums of y by arm and cell, (3, arms, cells)."""
    cell = arm * size + code
    found = [np.bincount(cell, own, n_arms * size) for own in (None, y, y**2)]
    return np.array(found, dtype=np.float64).reshape(3, n_arms, size)


def _values(sums: Floats, least: int) -> Floats:
    """Sum of n (tau^2 - 2 v) over pairs of arms; minus infinity if an arm has too few rows."""
    n, total, squares = sums
    counted = np.maximum(n, 1.0)
    mean = total / counted
    noise = np.maximum(squares / counted - mean**2, 0.0) / counted
    value = sum(
        (mean[k] - mean[j]) ** 2 - 2 * (noise[j] + noise[k])
        for j, k in combinations(range(len(n)), 2)
    )
    return np.where(n.min(axis=0) < least, -np.inf, n.sum(axis=0) * value)


def _sides(column: Binned) -> list[tuple[Side, Side]]:
    """All binary splits of a column: at a cut, or one level against the others."""
    n, found = len(column.names), []
    for k in range(n - 1 if column.ordered or n == 2 else n):
        bins = np.arange(n) <= k if column.ordered else np.arange(n) == k
        words = f"= {column.names[k]}", f"not {column.names[k]}"
        if column.ordered:
            words = f"up to {column.cuts[k]}", f"over {column.cuts[k]}"
        elif n == 2:
            words = f"= {column.names[0]}", f"= {column.names[1]}"
        yes, no = (f"{column.name} {word}" for word in words)
        cells = np.append(~bins[:1], bins)
        found.append((Side(column, cells, yes), Side(column, ~cells, no)))
    return found


def _inside(rule: Rule, n_rows: int) -> Bools:
    return np.logical_and.reduce([np.ones(n_rows, dtype=bool), *(side.holds() for side in rule)])
