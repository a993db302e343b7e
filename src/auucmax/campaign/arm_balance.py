"""Are the arms alike? Counts of all people who ever entered, and a test that holds at every look.

Each column, and the score, is cut into bins; of each bin it is counted how many control and how
many treated people entered. If treatment is given by chance, the same for all, then arms are drawn
with one probability p, whatever the bins. The rival to that is the law of Krichevsky and Trofimov,
which learns a share of treated for each bin b: with t_b treated and c_b control people,

    ratio = prod over b of B(t_b + 1/2, c_b + 1/2) / B(1/2, 1/2)  over  max over p of p^T (1 - p)^C.

For every p it is at most a likelihood ratio against p, a non-negative martingale in the people that
starts at 1; so is a mean over columns. By Ville's inequality it *ever* reaches 1/alpha with
probability at most alpha, at whichever looks: no limit theorem, no plan of looks. Where chances of
treatment are known, and may differ, the rival is that the odds in a bin are larger or smaller by
some factor (:data:`TILTS`), the same for all of the bin.

Levels are bins by themselves, numbers are cut at eighths of the first :data:`UNITS` people who
came, which look at columns alone; missing values are a bin. Numbers are also cut more coarsely, two
bins as one: few bins find a weak dependence sooner, many one that is not monotone. The days of
arrival are bins, too, of which a sum is enough: a day comes whole, and once.

Half of the capital is divided among the first columns. A model that takes over with other columns
releases a part of the rest, for those that changed or are new: they are counted anew, with what
they had won before; others are counted on, and what a column that is gone has won is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, logsumexp, xlogy

from auucmax._validation import Bools, Floats
from auucmax.certificates.anytime import SUPERBLOCK_ROWS

#: People, or households, whose values say where numbers are cut. Those of the first superblock: a
#: model takes over no earlier, so that arms have no part in their scores.
UNITS = SUPERBLOCK_ROWS
BINS = 8  #: of a number, but for missing values
#: Where chances differ: ln of how many times as large the odds of treatment might be.
TILTS = np.concatenate([own * np.array([0.02, 0.05, 0.1, 0.2, 0.5]) for own in (-1, 1)])
LARGEST = 3e38  #: values beyond count as this
MISSING = 3.2e38  #: what stands for no value: beyond all others, and a float of four bytes
RATIO_ROWS = 1000.0  #: how many rows the guess of another share of treated is worth
DAY = "day of arrival"  #: what the column of days is called
NOTHING = -1e300  #: ln of no capital, as a finite number


@dataclass(eq=False)
class ArmBalance:
    """Who entered, by bin and arm, of some columns and of the days.

    ``names`` and ``levels``: of the columns; a number has None for the levels. ``by_chance``: each
    person's chance of treatment is known. ``edges``: of each column the highest value of each bin
    but the last; None of a number before so many people came that it is cut. ``n_changes``: models
    that took over with other columns. ``counts`` (bins of all columns, 2): control and treated;
    ``tilts`` (bins, factors): sums of log likelihood ratios, if chances are known. ``totals`` (2,):
    control and treated people of all days, whose ln ratio (less what the share of all explains) is
    ``log_days``. ``capital``: ln of that of the days, of each column, and of what is kept of
    columns that are gone. ``values`` (columns that are not cut, n), ``treated`` (n,) and ``chance``
    (n,) are of people who came before these are cut.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> age, arm = rng.integers(18, 80, 2000), rng.random(2000)
    >>> for treated in (arm < 0.5, arm < np.where(age > 60, 0.6, 0.4)):
    ...     balance = ArmBalance.of([("age", None)])
    ...     balance.add(age[None], treated, np.full(2000, 0.5))
    ...     print(balance.n_units, balance.log_evidence > np.log(1e4))
    [2000] False
    [2000] True
    """

    names: tuple[str, ...]
    levels: tuple[int | None, ...]
    by_chance: bool
    edges: tuple[tuple[float, ...] | None, ...]
    counts: NDArray[np.int64] = field(repr=False)
    tilts: Floats = field(repr=False)
    capital: Floats = field(repr=False)
    values: Floats = field(repr=False)
    treated: Bools = field(default_factory=lambda: np.empty(0, np.bool_), repr=False)
    chance: Floats = field(default_factory=lambda: np.empty(0), repr=False)
    totals: NDArray[np.int64] = field(default_factory=lambda: np.zeros(2, np.int64), repr=False)
    log_days: float = 0.0
    n_changes: int = 0

    @classmethod
    def of(cls, columns: Sequence[tuple[str, int | None]], *, by_chance: bool = False) -> Self:
        """Before anybody came; of each column its name, and how many levels it has."""
        names, levels = tuple(own[0] for own in columns), tuple(own[1] for own in columns)
        # Levels are bins from the first person on.
        edges = tuple(None if own is None else _edges(np.empty(0), own) for own in levels)
        n_bins, share = sum(len(own) + 1 for own in edges if own is not None), 0.5
        capital = np.full(len(names) + 2, np.log(share / (len(names) + 1)))
        capital[-1] = NOTHING
        return cls(
            names, levels, by_chance, edges, np.zeros((n_bins, 2), np.int64),
            np.zeros((n_bins if by_chance else 0, len(TILTS))), capital,
            np.empty((levels.count(None), 0)),
        )  # fmt: skip

    def is_of(self, columns: Sequence[tuple[str, int | None]]) -> bool:
        """Whether these are its columns."""
        return [*zip(self.names, self.levels, strict=True)] == [*columns]

    @property
    def n_bins(self) -> list[int]:
        """Of each column, that of missing values among them; 0 before it is cut."""
        return [0 if own is None else len(own) + 1 for own in self.edges]

    @property
    def n_units(self) -> list[int]:
        """People, or households, that are counted by each column."""
        return [int(self.counts[place].sum()) for place in self._places()]

    @property
    def units(self) -> list[NDArray[np.int64]]:
        """Control and treated people of each column, those who wait for it to be cut among them."""
        n_treated = int(self.treated.sum())
        waiting = np.array([len(self.treated) - n_treated, n_treated])
        found = zip(self._places(), self.edges, strict=True)
        return [waiting if cut is None else self.counts[own].sum(axis=0) for own, cut in found]

    @property
    def is_sound(self) -> bool:
        """Whether its parts are of the sizes, and in the order, that such counts have."""
        n_columns, n, bins = len(self.names), len(self.treated), sum(self.n_bins)
        n_uncut = self.edges.count(None)
        own = zip(self.edges, self.levels, strict=False)
        return (
            n_columns == len(self.levels) == len(self.edges) > 0
            and all(levels is None or levels >= 0 for levels in self.levels)
            and all(_are_edges(edges, levels) for edges, levels in own)
            and self.values.shape == (n_uncut, n)
            and self.chance.shape == (n,)
            and n < (UNITS if n_uncut else 1)
            and bool(((self.chance > 0) & (self.chance < 1)).all())
            and bool((self.values == _known(self.values)).all())
            and self.counts.shape == (bins, 2)
            and bool((self.counts >= 0).all())
            and self.tilts.shape == (bins if self.by_chance else 0, len(TILTS))
            and self.totals.shape == (2,)
            and self.capital.shape == (n_columns + 2,)
            and self.n_changes >= 0
        )

    def add(self, values: Sequence[Any], treated: Bools, chance: Floats) -> None:
        """Count people who came: (n,) values of each column, NaN where missing; a level's place."""
        wait = [k for k, own in enumerate(self.edges) if own is None]
        self._count({k: own for k, own in enumerate(values) if k not in wait}, treated, chance)
        if not wait:
            return
        n = UNITS - len(self.treated)
        some = np.array([_known(values[k][:n]) for k in wait])
        self.values = np.concatenate([self.values, some], axis=1)
        self.treated = np.concatenate([self.treated, treated[:n]])
        self.chance = np.concatenate([self.chance, chance[:n]])
        if len(self.treated) < UNITS:
            return
        first = dict(zip(wait, self.values, strict=True))
        self._cut({k: _edges(own, None) for k, own in first.items()})
        self._count(first, self.treated, self.chance)
        self._count({k: values[k][n:] for k in wait}, treated[n:], chance[n:])
        self.values, self.treated = np.empty((0, 0)), np.empty(0, bool)
        self.chance = np.empty(0)

    def add_days(self, day: Any, treated: Bools, chance: Floats) -> None:
        """Count people of days none of whom was counted before, and all of whom are here."""
        _, code = np.unique(day, return_inverse=True)
        cells = np.bincount(2 * code + treated, minlength=2 * (code.max(initial=-1) + 1))
        cells = cells.reshape(-1, 2)
        self.totals = self.totals + cells.sum(axis=0)
        if self.by_chance:
            sums = [np.bincount(code, step, len(cells)) for step in _steps(treated, chance)]
            self.log_days += tilted(np.array(sums, np.float64).T)
        else:
            self.log_days += _kt(cells)

    def hand_over(self, columns: Sequence[tuple[str, int | None]]) -> None:
        """Go on with the columns of another model, from the next person on.

        Those that stay are counted on. If any changed or is new, the k-th such model releases
        2^-(k+1), in equal parts: a column whose levels changed bets it, and all that it had, anew.
        """
        assert not len(self.treated)  # models take over when numbers are cut, or nobody came
        fresh = ArmBalance.of(columns, by_chance=self.by_chance)
        ratios = np.where([own is None for own in self.edges], 0.0, self.log_ratios[1:])
        had, places = self.capital[1:-1], [*self._places()]
        left = [*range(len(self.names))]
        stay, before = dict[int, int](), dict[int, int]()
        for asked, found in ((True, stay), (False, before)):
            for k, (name, levels) in enumerate(columns):
                same = (j for j in left if self.names[j] == name)
                j = next((j for j in same if not asked or self.levels[j] == levels), None)
                if k not in stay and j is not None:
                    found[k] = j
                    left.remove(j)
        anew = [k for k in range(len(columns)) if k not in stay]
        self.n_changes += bool(anew)
        share = -(self.n_changes + 1) * np.log(2) - np.log(max(len(anew), 1))
        fresh.capital[1:-1] = [
            had[stay[k]] if k in stay
            else np.logaddexp(share, had[before[k]] + ratios[before[k]]) if k in before
            else share
            for k in range(len(columns))
        ]  # fmt: skip
        kept = [self.capital[-1], *(had[j] + ratios[j] for j in left)]
        fresh.capital[[0, -1]] = self.capital[0], np.logaddexp.reduce(kept)
        fresh._cut({k: own for k, j in stay.items() if (own := self.edges[j]) is not None})
        for k, place in enumerate(fresh._places()):
            if k in stay:
                fresh.counts[place] = self.counts[places[stay[k]]]
                fresh.tilts[place] = self.tilts[places[stay[k]]]
        for name in ("names", "levels", "edges", "counts", "tilts", "capital", "values"):
            setattr(self, name, getattr(fresh, name))

    def _cut(self, cuts: dict[int, tuple[float, ...]]) -> None:
        """Numbers get bins, with nobody in them."""
        counts, tilts = list[Any](), list[Any]()
        for k, place in enumerate(self._places()):
            n = len(cuts[k]) + 1 if self.edges[k] is None and k in cuts else 0
            counts += [self.counts[place], np.zeros((n, 2), np.int64)]
            tilts += [self.tilts[place], np.zeros((n if self.by_chance else 0, len(TILTS)))]
        self.counts, self.tilts = np.concatenate(counts), np.concatenate(tilts)
        self.edges = tuple(cuts.get(k, own) for k, own in enumerate(self.edges))
        self.values = np.empty((self.edges.count(None), len(self.treated)))

    def _count(self, values: dict[int, Any], treated: Bools, chance: Floats) -> None:
        """Count people by some columns, which are cut."""
        steps = _steps(treated, chance) if self.by_chance else ()
        places = [*self._places()]
        for k, own in values.items():
            edges = self.edges[k] or ()
            code, n_bins = np.searchsorted(edges, _known(own)), len(edges) + 1
            cells = np.bincount(2 * code + treated, minlength=2 * n_bins)
            self.counts[places[k]] += cells.reshape(n_bins, 2)
            for number, step in enumerate(steps):
                self.tilts[places[k], number] += np.bincount(code, step, minlength=n_bins)

    def _places(self) -> Iterator[slice]:
        """Where the bins of each column are among those of all."""
        ends = np.cumsum(self.n_bins).tolist()
        return (slice(end - n, end) for end, n in zip(ends, self.n_bins, strict=True))

    @property
    def log_ratios(self) -> Floats:
        """(1 + columns,) ln of the ratio of days and of each column, the mean over its cuts.

        A column that is not cut has none: what its people will say is no part of it yet.
        """
        found = [self.log_days]
        if not self.by_chance:
            found[0] -= _share_of_all(self.totals)
        log_ratio = tilted if self.by_chance else kt_ratio
        sums = self.tilts if self.by_chance else self.counts
        for place, levels, edges in zip(self._places(), self.levels, self.edges, strict=True):
            own = [log_ratio(table) for table in _coarser(sums[place], levels is None)]
            found.append(NOTHING if edges is None else float(_log_mean(np.array(own))))
        return np.array(found)

    @property
    def log_evidence(self) -> float:
        """ln of what all columns have, kept what the gone ones had: ever 1/alpha by alpha."""
        return float(np.logaddexp.reduce(self.capital + np.append(self.log_ratios, 0.0)))

    def suspects(self, log_level: float) -> list[str]:
        """Names of columns: that with the most first, and those beyond the level by themselves."""
        own, names = self.capital[:-1] + self.log_ratios, (DAY, *self.names)
        order = np.argsort(-own, kind="stable")
        return [names[k] for n, k in enumerate(order) if n == 0 or own[k] >= log_level]


def _steps(treated: Bools, chance: Floats) -> Floats:
    """(factors, n) ln of how many times as likely an arm is if odds are larger by a factor."""
    return np.asarray(
        TILTS[:, None] * treated - np.log1p(np.outer(np.expm1(TILTS), chance)), np.float64
    )


def ratio_path(treated: Bools, before: tuple[int, int], share: float) -> Floats:
    """(n,) ln of the mixture over shares of the likelihood ratio against ``share``, row by row.

    With k of n rows treated and a Beta(a, b) mixture around the share e,

        M = B(a + k, b + n - k) / (B(a, b) e^k (1 - e)^(n - k)),

    a non-negative martingale that starts at 1 if each row is treated with probability e.

    >>> even, odd = np.arange(5000) % 2 == 0, np.arange(5000) % 9 < 5
    >>> [round(float(np.exp(-ratio_path(arms, (0, 0), 0.5).max())), 3) for arms in (even, odd)]
    [1.0, 0.0]
    """
    a, b = RATIO_ROWS * share, RATIO_ROWS * (1 - share)
    k = before[1] + np.cumsum(treated)
    others = before[0] + np.cumsum(~treated)
    expected = k * np.log(share) + others * np.log1p(-share)
    return np.asarray(betaln(a + k, b + others) - betaln(a, b) - expected)


def tilt_path(treated: Bools, chance: Floats, before: Floats) -> tuple[Floats, Floats]:
    """(n,) ln of the mean over tilts b of the likelihood ratios, row by row; and those at the end.

    If odds of treatment were exp(b) times what a chance e says, a row with arm t would be
    exp(b t) / (1 - e + e exp(b)) times as likely: the mean of it is 1 if chances are as they
    should be, so the product is a non-negative martingale that starts at 1.

    >>> chance = np.tile([0.2, 0.8], 1000)
    >>> right, wrong = (np.arange(2000) % 10 < part for part in (5, 6))
    >>> [bool(tilt_path(own, chance, np.zeros(10))[0].max() > 4.6) for own in (right, wrong)]
    [False, True]
    """
    path = before + np.cumsum(_steps(treated, chance).T, axis=0)
    return np.asarray(logsumexp(path, axis=1) - np.log(len(TILTS))), path[-1]


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
    return _kt(counts) - _share_of_all(counts.sum(axis=0))


def _kt(counts: Any) -> float:
    """ln of how likely arms are where each bin has a share of its own."""
    return float((betaln(counts[:, 1] + 0.5, counts[:, 0] + 0.5) - betaln(0.5, 0.5)).sum())


def _share_of_all(total: Any) -> float:
    """ln of how likely arms are by the best share that is the same for all."""
    return float(xlogy(total, total / max(total.sum(), 1)).sum())


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


def _are_edges(edges: Sequence[float] | None, levels: int | None) -> bool:
    """Whether a column may be cut so."""
    if edges is None:
        return levels is None
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
