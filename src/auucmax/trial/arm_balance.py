"""Are the arms alike? Counts of all people who ever entered, and a test that holds at every look.

Each column, and the score, is cut into bins; of each bin it is counted how many control and how
many treated people entered. If treatment is given by chance, the same for all, then arms are drawn
with one probability p, whatever the bins. The rival to that is the law of Krichevsky and Trofimov,
which learns a share of treated for each bin b: with t_b treated and c_b control people,

    ratio = prod over b of B(t_b + 1/2, c_b + 1/2) / B(1/2, 1/2)  over  max over p of p^T (1 - p)^C.

For every p it is at most a likelihood ratio against p, a non-negative martingale in the people that
starts at 1; so is the mean over columns. By Ville's inequality it *ever* reaches 1/alpha with
probability at most alpha, at whichever looks: no limit theorem, no plan of looks. Where chances of
treatment are known, and may differ, the rival is that the odds in a bin are larger or smaller by
some factor (:data:`TILTS`), the same for all of the bin.

Levels are bins by themselves, numbers are cut at eighths of the first :data:`UNITS` people who
came, which look at columns alone; missing values are a bin. Numbers are also cut more coarsely, two
bins as one: few bins find a weak dependence sooner, many one that is not monotone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, xlogy

from auucmax._validation import Bools, Floats
from auucmax.bounds.anytime import SUPERBLOCK_ROWS

#: People, or households, whose values say where numbers are cut. Those of the first superblock: a
#: model takes over no earlier, so that arms have no part in their scores.
UNITS = SUPERBLOCK_ROWS
BINS = 8  #: of a number, but for missing values
#: Where chances differ: ln of how many times as large the odds of treatment might be.
TILTS = np.concatenate([own * np.array([0.02, 0.05, 0.1, 0.2, 0.5]) for own in (-1, 1)])
LARGEST = 3e38  #: values beyond count as this
MISSING = 3.2e38  #: what stands for no value: beyond all others, and a float of four bytes


@dataclass(eq=False)
class ArmBalance:
    """Who entered, by bin and arm, of some columns.

    ``names`` and ``levels``: of the columns; a number has None for the levels. ``by_chance``: each
    person's chance of treatment is known. ``edges``: the highest value of each bin but the last, of
    each column; None before so many people came that columns are cut. ``counts`` (bins of all
    columns, 2): control and treated; ``tilts`` (bins, factors): sums of log likelihood ratios, if
    chances are known. ``values`` (columns, n), ``treated`` (n,) and ``chance`` (n,) are of people
    who came before columns are cut.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> age, arm = rng.integers(18, 80, 2000), rng.random(2000)
    >>> for treated in (arm < 0.5, arm < np.where(age > 60, 0.6, 0.4)):
    ...     balance = ArmBalance.of([("age", None)])
    ...     balance.add(age[None], treated, np.full(2000, 0.5))
    ...     print(balance.n_units, balance.log_ratio > np.log(1e4))
    2000 False
    2000 True
    """

    names: tuple[str, ...]
    levels: tuple[int | None, ...]
    by_chance: bool = False
    edges: tuple[tuple[float, ...], ...] | None = None
    counts: NDArray[np.int64] = field(
        default_factory=lambda: np.empty((0, 2), np.int64), repr=False
    )
    tilts: Floats = field(default_factory=lambda: np.empty((0, len(TILTS))), repr=False)
    values: Floats = field(default_factory=lambda: np.empty((0, 0)), repr=False)
    treated: Bools = field(default_factory=lambda: np.empty(0, np.bool_), repr=False)
    chance: Floats = field(default_factory=lambda: np.empty(0), repr=False)

    @classmethod
    def of(cls, columns: Sequence[tuple[str, int | None]], *, by_chance: bool = False) -> Self:
        """Before anybody came; of each column its name, and how many levels it has."""
        names, levels = zip(*columns, strict=True)
        return cls(names, levels, by_chance, values=np.empty((len(names), 0)))

    def is_of(self, other: ArmBalance) -> bool:
        """Whether both count the same columns, with as many levels."""
        return (self.names, self.levels) == (other.names, other.levels)

    @property
    def n_bins(self) -> list[int]:
        """Of each column, that of missing values among them."""
        return [len(own) + 1 for own in self.edges or ()]

    @property
    def n_units(self) -> int:
        """People, or households, that are counted."""
        return int(self.counts[: self.n_bins[0]].sum()) if self.edges else 0

    @property
    def totals(self) -> list[NDArray[np.int64]]:
        """Control and treated people that are counted, by each column; zeros before any is."""
        if self.edges is None:
            return [np.zeros(2, np.int64)] * len(self.names)
        return [self.counts[place].sum(axis=0) for place in self._places()]

    @property
    def is_sound(self) -> bool:
        """Whether its parts are of the sizes, and in the order, that such counts have."""
        n_columns, n = len(self.names), len(self.treated)
        bins, are_cut = sum(self.n_bins), self.edges is not None
        return (
            n_columns == len(self.levels) > 0
            and all(own is None or own >= 0 for own in self.levels)
            and self.values.shape == (n_columns, n)
            and self.chance.shape == (n,)
            and n < (1 if are_cut else UNITS)
            and bool(((self.chance > 0) & (self.chance < 1)).all())
            and bool((self.values == _known(self.values)).all())
            and (not are_cut or len(self.edges or ()) == n_columns)
            and all(map(_are_edges, self.edges or (), self.levels))
            and self.counts.shape == (bins, 2)
            and bool((self.counts >= 0).all())
            and self.tilts.shape == (bins if self.by_chance else 0, len(TILTS))
            and (not are_cut or self.n_units >= UNITS)
        )

    def add(self, values: Sequence[Any], treated: Bools, chance: Floats) -> None:
        """Count people who came: (n,) values of each column, NaN where missing; a level's place."""
        if self.edges is None:
            n = UNITS - len(self.treated)
            some = np.array([_known(own[:n]) for own in values])
            self.values = np.concatenate([self.values, some], axis=1)
            self.treated = np.concatenate([self.treated, treated[:n]])
            self.chance = np.concatenate([self.chance, chance[:n]])
            if len(self.treated) < UNITS:
                return
            first = [*self.values], self.treated, self.chance
            self._cut()
            self._count(*first)
            values, treated, chance = [own[n:] for own in values], treated[n:], chance[n:]
        self._count(values, treated, chance)

    def _cut(self) -> None:
        """Columns are cut by the values of the first people, who wait no longer."""
        self.edges = tuple(_edges(*own) for own in zip(self.values, self.levels, strict=True))
        self.counts = np.zeros((sum(self.n_bins), 2), np.int64)
        self.tilts = np.zeros((sum(self.n_bins) if self.by_chance else 0, len(TILTS)))
        self.values, self.treated = np.empty((len(self.names), 0)), np.empty(0, bool)
        self.chance = np.empty(0)

    def _count(self, values: Sequence[Any], treated: Bools, chance: Floats) -> None:
        steps = np.empty((0, len(treated)))
        if self.by_chance:
            steps = TILTS[:, None] * treated - np.log1p(np.outer(np.expm1(TILTS), chance))
        for own, edges, place in zip(values, self.edges or (), self._places(), strict=True):
            code, n_bins = np.searchsorted(edges, _known(own)), len(edges) + 1
            cells = np.bincount(2 * code + treated, minlength=2 * n_bins)
            self.counts[place] += cells.reshape(n_bins, 2)
            for number, step in enumerate(steps):
                self.tilts[place, number] += np.bincount(code, step, minlength=n_bins)

    def _places(self) -> Iterator[slice]:
        """Where the bins of each column are among those of all."""
        ends = np.cumsum(self.n_bins).tolist()
        return (slice(end - n, end) for end, n in zip(ends, self.n_bins, strict=True))

    @property
    def log_ratios(self) -> Floats:
        """(columns,) ln of the ratio of each, the mean over its cuts; 0 before any is counted."""
        if self.edges is None:
            return np.zeros(len(self.names))
        found, sums = [], self.tilts if self.by_chance else self.counts
        log_ratio = tilted if self.by_chance else kt_ratio
        for place, levels in zip(self._places(), self.levels, strict=True):
            own = [log_ratio(table) for table in _coarser(sums[place], levels is None)]
            found.append(float(_log_mean(np.array(own))))
        return np.array(found)

    @property
    def log_ratio(self) -> float:
        """ln of the mean of the ratios of all columns."""
        return float(_log_mean(self.log_ratios))

    def suspects(self, log_level: float) -> list[str]:
        """Names of columns: the largest ratio first, and those beyond the level by themselves."""
        own = self.log_ratios - np.log(len(self.names))
        order = np.argsort(-own, kind="stable")
        return [self.names[k] for n, k in enumerate(order) if n == 0 or own[k] >= log_level]


def _known(values: Any) -> Floats:
    """Numbers of a column as they are counted, all of them finite."""
    values = np.asarray(values, np.float64)
    lacks = np.isnan(values) | (values == MISSING)
    return np.where(lacks, MISSING, np.clip(values, -LARGEST, LARGEST))


def kt_ratio(counts: Any) -> float:
    """ln of the ratio of one table (bins, 2) of control and treated people.

    >>> round(kt_ratio(np.array([[50, 50], [50, 50]])), 2), round(kt_ratio([[90, 10], [10, 90]]), 2)
    (-5.06, 68.55)
    """
    counts = np.asarray(counts)
    total = counts.sum(axis=0)
    rival = (betaln(counts[:, 1] + 0.5, counts[:, 0] + 0.5) - betaln(0.5, 0.5)).sum()
    return float(rival - xlogy(total, total / max(total.sum(), 1)).sum())


def kt_ratio_slow(bins: Sequence[int], treated: Sequence[bool]) -> float:
    """The same of people one by one: how likely each arm seemed from those before in its bin."""
    log_rival, seen = 0.0, dict[tuple[int, bool], int]()
    for own, arm in zip(bins, treated, strict=True):
        same, other = seen.get((own, arm), 0), seen.get((own, not arm), 0)
        log_rival += float(np.log((same + 0.5) / (same + other + 1)))
        seen[own, arm] = same + 1
    share = sum(treated) / max(len(treated), 1)
    chances = [share if arm else 1 - share for arm in treated]
    return log_rival - float(np.log(chances).sum())


def tilted(sums: Floats) -> float:
    """ln of the product over bins of the mean over factors, 1 among them; ``sums`` as in tilts."""
    with_one = np.hstack([sums, np.zeros((len(sums), 1))])
    return float(_log_mean(with_one).sum())


def _log_mean(logs: Floats) -> Floats:
    """ln of the mean of numbers whose logarithms these are, over the last axis."""
    largest = logs.max(axis=-1, keepdims=True)
    return np.asarray(np.log(np.exp(logs - largest).mean(axis=-1)) + largest[..., 0])


def _coarser(table: Any, ordered: bool) -> Iterator[Any]:
    """A table, and if its bins are ordered also those with two neighbours as one, down to two.

    The last bin, of missing values, stays.
    """
    yield table
    body = table[:-1]
    while ordered and len(body) > 2:
        body = np.add.reduceat(body, np.arange(0, len(body), 2))
        yield np.concatenate([body, table[-1:]])


def _are_edges(edges: Sequence[float], levels: int | None) -> bool:
    """Whether a column may be cut so."""
    if levels is not None:
        return len(edges) == levels + 1 and tuple(edges) == _edges(np.empty(0), levels)
    return 1 < len(edges) <= BINS and edges[-1] == LARGEST and bool((np.diff(edges) > 0).all())


def _edges(values: Floats, levels: int | None) -> tuple[float, ...]:
    """The highest value of each bin but the last, which is that of missing values.

    Places of levels, and of other values, are bins by themselves. A number that all have is one,
    between those below and those above.

    >>> _edges(np.array([1.0, 2, 3, 4, MISSING]), None)[:-1], _edges(np.array([7.0]), None)[1:-1]
    ((1.0, 2.0, 3.0), (7.0,))
    """
    if levels is not None:
        return tuple(map(float, range(levels + 1)))
    known = values[values < MISSING]
    if not len(known):
        return 0.0, LARGEST
    cuts = np.quantile(known, np.arange(1, BINS) / BINS, method="inverted_cdf")
    cuts = np.unique(cuts[cuts < known.max()])
    if not len(cuts):
        cuts = np.array([np.nextafter(known[0], -np.inf), known[0]])
    return (*cuts[cuts < LARGEST].tolist(), LARGEST)
