"""Blocks: small sets of rows whose statistic is an unbiased estimate of AUUC.

A block holds a treated and b control rows, chosen without looking at anything but the treatment.
With M = a + b, for a row i of the block

    v_i = [#{j != i: f_j < f_i} + 1/2 #{j != i: f_j = f_i}] / (M - 1) - c,   j in the block,
    w   = 1/a sum over treated of r_i v_i  -  1/b sum over control of r_i v_i,

r_i = y_i - m(x_i), y in [0, 1], m any function that was fixed beforehand (0 without adjustment).
The expectation of w given the treatments is AUUC for c = 0, and AUUC - ATE/2, the gain over random
targeting, for c = 1/2; and w is never below -phi(a, b) of :func:`block_floor`. docs/guarantees.md
has the proofs. One dealing gives w for both centres: they differ by half the difference of the
arms' mean outcomes in the block.

Rows are assigned to blocks at random, and blocks are grouped into superblocks, within which rows
are reassigned many times: the average over assignments compares nearly all pairs of rows in a
superblock, where one assignment compares only those that share a block. With clusters, units are
assigned whole, and each dealing lets one member of each cluster, drawn at random, stand for it.

**Known, unequal propensities.** Rows are independent; a row got its arm by an independent draw,
with known propensities p_0 of the control and p_a of arm a. With mean_a, guesses of the mean
outcomes that were fixed beforehand,

    h_a = mean_a - mean_0 + 1{got a} (y - mean_a) / p_a - 1{got control} (y - mean_0) / p_0

has the effect of arm a on the person as its mean given the features (Horvitz and Thompson 1952; the
guesses remove noise and add no bias). A block is any M rows, drawn without looking at anything, and
for one arm

    w = 1/M sum over its rows of h_i v_i,

is unbiased for AUUC, or for the gain. As |h| <= B, w is at least -B/M sum over k < M of
|k / (M - 1) - c|. So bets of one size hold (``fixed_bets.py``). To the dealing, all rows are one
arm whose outcome is h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from auucmax._errors import InputError
from auucmax._validation import Bools, Floats, check_column, check_range, check_whole
from auucmax.metrics.ranking import rank_rows

Indices = NDArray[np.integer[Any]]

PILOT_BLOCKS = 10  #: not bet on: they set the grid and the first guess of a block's deviation
LARGEST_PART = 200  #: rows of one arm in a block
SUPERBLOCK = 0.08  #: share of the blocks left that make the next superblock
EVEN_SUPERBLOCK = 40  #: blocks of a superblock where bets have one size
_CAUTIOUS_VARIANCE = 0.1  #: of an outcome, before any is seen; counts as much as 3 blocks
_CAUTIOUS_BLOCKS = 3
CENTRES = (0.0, 0.5)  #: of AUUC and of the gain; the first axis of the statistics
_NO_ROWS = np.empty(0, np.int32)
NEARER = 0.8  #: known propensities may be so much nearer to 0 and 1 than those of the pilot


class DealtUnits(NamedTuple):
    """The units (rows or clusters) from which blocks are drawn, by arm.

    Cluster u owns the rows ``members[starts[u]:starts[u + 1]]``; without members units are rows.
    """

    treated: Indices
    control: Indices
    starts: Indices = _NO_ROWS
    members: Indices = _NO_ROWS

    @classmethod
    def of(cls, treated: Bools, clusters: NDArray[np.intp] | None = None) -> DealtUnits:
        # Half the bytes: dealing many rows is a matter of memory. All are of one type, for which
        # kernels are compiled once.
        if clusters is None:
            arms = (np.flatnonzero(arm).astype(np.int32) for arm in (treated, ~treated))
            return cls(*arms)
        members = np.argsort(clusters, kind="stable")
        starts = np.flatnonzero(np.diff(clusters[members], prepend=-1, append=-1))
        n_treated = np.add.reduceat(treated[members].astype(np.int64), starts[:-1])
        mixed = int(np.count_nonzero((n_treated > 0) & (n_treated < np.diff(starts))))
        if mixed:
            raise InputError(
                "groups", "clusters of rows that are all treated or all control",
                f"{mixed} clusters with both",
                "Leave groups out if each row was randomised by itself and rows are independent.",
            )  # fmt: skip
        own = np.flatnonzero(n_treated), np.flatnonzero(n_treated == 0), starts, members
        return cls(*(part.astype(np.int32) for part in own))

    @property
    def counts(self) -> tuple[int, int]:
        """Number of treated and control units."""
        return len(self.treated), len(self.control)

    def as_one_arm(self) -> DealtUnits:
        """All units in row order, as if they were one arm."""
        both = np.sort(np.concatenate([self.treated, self.control]))
        return self._replace(treated=both, control=self.control[:0])

    def after(self, n_treated: int, n_control: int) -> DealtUnits:
        """The units except the first of each arm."""
        return self._replace(treated=self.treated[n_treated:], control=self.control[n_control:])

    def shuffled(self, seed: np.random.SeedSequence) -> DealtUnits:
        """The units in random order; the first of each arm form the pilot."""
        rng = np.random.default_rng(seed)
        return self._replace(
            treated=rng.permutation(self.treated), control=rng.permutation(self.control)
        )

    def rows_of_first(self, n_treated: int, n_control: int) -> Indices:
        """Row numbers of the first units of each arm."""
        units = np.concatenate([self.treated[:n_treated], self.control[:n_control]])
        if not len(self.members):
            return units
        rows = [self.members[self.starts[u] : self.starts[u + 1]] for u in units]
        return np.concatenate([_NO_ROWS, *rows])


def check_whole_clusters(clusters: NDArray[Any], part: NDArray[Any], what: str) -> None:
    """Raise an InputError for clusters with rows in several folds or chunks."""
    if beyond := int((pd.Series(part).groupby(clusters).nunique() > 1).sum()):
        raise InputError(
            "groups", f"clusters that each lie in one {what}", f"{beyond} that reach into another",
            f"Assign whole clusters to a {what}: models must not know the rows that judge them.",
        )  # fmt: skip


@dataclass(frozen=True)
class BlockDesign:
    """Block sizes, which depend only on the numbers of treated and control units.

    ``ends`` (2, blocks): how many treated and control units the blocks up to this one hold.
    ``superblocks``: how many blocks the superblocks up to this one hold; ``n_pilot``: how many
    blocks the pilot holds, which is the first superblock if there is one.
    """

    ends: Indices
    superblocks: Indices
    n_redealings: int
    n_pilot: int

    @classmethod
    def of(
        cls, n_treated: int, n_control: int, *, size: float | None = None, pilot: bool = True
    ) -> BlockDesign:
        """Choose block sizes; without a pilot, all superblocks have equal size.

        ``n_control`` is 0 where all units count as one arm (known propensities).
        """
        n_units = n_treated + n_control
        size = block_size(n_units) if size is None else size
        # Beyond so many rows of the larger arm the noise is that of the other one, and time grows
        # as the square: each dealing then takes some of them only.
        ends = even_ends(np.array([n_treated, n_control]), size, LARGEST_PART)
        n_blocks, n_used = ends.shape[1], ends[:, -1].sum()
        # Noise of the average over re-dealings falls as their number times the size of a block. Of
        # very many rows it is small compared with what they would cost.
        most = max(2.0, 2e12 / n_units**2)
        n_redealings = int(np.clip(240 * n_blocks / n_used, min(8.0, most), most))
        if not pilot:
            shared = np.rint(np.linspace(0, n_blocks, max(1, n_blocks // EVEN_SUPERBLOCK) + 1))
            return cls(ends, shared[1:].astype(np.int64), n_redealings, 0)
        # The grid of values that are tried starts far below the pilot's estimate: a larger pilot
        # makes it shorter where blocks are many.
        most = PILOT_BLOCKS * max(1.0, (n_blocks / 20_000) ** 2)
        done = int(min(most, max(PILOT_BLOCKS, n_blocks // 100), max(1, n_blocks // 5)))
        superblocks = [done]
        while done < n_blocks:  # superblocks first double, then take a share of what is left
            done += max(1, min(done, int(SUPERBLOCK * (n_blocks - done))))
            superblocks.append(done)
        return cls(ends, np.array(superblocks), n_redealings, superblocks[0])

    @property
    def n_blocks(self) -> int:
        return self.ends.shape[1]

    def pilot_units(self) -> tuple[int, int]:
        """Number of treated and control units in the pilot."""
        treated, control = self.ends[:, self.n_pilot - 1] if self.n_pilot else (0, 0)
        return int(treated), int(control)

    @property
    def sizes(self) -> Indices:
        """Number of treated and control units in each block, (2, blocks)."""
        return np.diff(self.ends, axis=1, prepend=0)

    def floor(self, centre: float, adjustment: tuple[float, float] = (0.0, 0.0)) -> float:
        """Bound phi of all blocks: no statistic is below -phi."""
        shapes = np.unique(self.sizes, axis=1).T.tolist()
        return max(block_floor(a, b, centre, adjustment) for a, b in shapes)


def block_size(n_units: int) -> float:
    """The recommended number of rows per block.

    Small blocks keep the floor small compared with a block's deviation, which shrinks as the root
    of its size; large ones are quicker. The size recommended here grows with the root of n.
    """
    return max(4 if n_units < 5000 else 6, np.sqrt(n_units) / 50)


def even_ends(
    counts: NDArray[np.integer[Any]], size: float, most: float = np.inf
) -> NDArray[np.int64]:
    """Units of each kind up to the end of each block, (kinds, blocks), spread evenly.

    Blocks have about ``size`` units, some of every kind that has units (``counts``), and at most
    ``most`` of one kind.
    """
    n_blocks = max(1, int(min(counts.sum() / size, counts[counts > 0].min())))
    used = np.minimum(counts, most * n_blocks)
    return np.rint(np.outer(used, np.arange(1, n_blocks + 1)) / n_blocks).astype(np.int64)


def check_dealings(
    n_dealings: int | None, n_rows: int, random_state: int
) -> tuple[int, np.random.SeedSequence]:
    """Validate the number of random partitions and their seed.

    The default number is 20 up to 250,000 rows, at least 2.
    """
    seed = np.random.SeedSequence(check_whole(random_state, "random_state", 0))
    if n_dealings is None:
        n_dealings = int(np.clip(5e6 / n_rows, 2, 20))
    return check_whole(n_dealings, "n_dealings", 1), seed


def known_range(outcome_range: Any, lowest: float, highest: float) -> tuple[float, float]:
    """Validate the outcome range, which must contain all outcomes."""
    low, high = check_range(outcome_range, "outcome_range")
    if lowest < low or highest > high:
        raise InputError(
            "y", f"in the range that is known beforehand, {low:g} to {high:g}",
            f"{lowest:g} to {highest:g}",
            "Pass outcome_range=(lowest, highest) as they are possible, not as they came out (in "
            "Python: or use method='asymptotic').",
        )  # fmt: skip
    return low, high


def check_codes(values: ArrayLike, name: str, n_rows: int, n: int) -> NDArray[np.intp]:
    """Validate whole numbers from 0 to n - 1, one per row."""
    numbers = check_column(values, name, n_rows)
    codes = numbers.astype(np.intp)
    if (codes != numbers).any() or codes.min() < 0 or codes.max() >= n:
        raise InputError(
            name, f"whole numbers from 0 to {n - 1}", f"{numbers.min():g} to {numbers.max():g}",
            "Number strata and arms so; arm 0 is the control.",
        )  # fmt: skip
    return codes


def dense_ranks(score: Floats) -> NDArray[np.int32]:
    """Dense ranks 0, 1, ... from the lowest score; ties share a rank."""
    ranking = rank_rows(score)
    n_levels = len(score) if ranking.starts is None else len(ranking.starts)
    ranks = np.empty(len(score), dtype=np.int32)
    ranks[ranking.order] = ranking.spread(np.arange(float(n_levels)))
    return ranks


def block_floor(
    a: int, b: int, centre: float, adjustment: tuple[float, float] = (0.0, 0.0)
) -> float:
    """The bound phi(a, b): w >= -phi for blocks of a treated and b control rows.

    ``adjustment`` = (lowest, highest) value of m. Attained if y and m take all their values.
    Without control rows, (1 - B, B) is for treated rows whose outcomes lie in [-B, B].

    Examples
    --------
    >>> round(block_floor(3, 3, centre=0.5), 3)
    0.6
    """
    low, high = adjustment
    p = np.arange(a + b) / (a + b - 1) - centre
    treated = np.abs(p) * np.where(p > 0, high, 1 - low) / a
    if b == 0:
        return float(treated.sum())
    control = np.abs(p) * np.where(p > 0, 1 - low, high) / b
    largest = np.sort(control - treated)[a:]  # which b places the controls take
    return float(treated.sum() + largest.sum())


def deviations(w: Floats, design: BlockDesign, centre: float) -> Floats:
    """Standard deviation of w before each superblock, from earlier blocks and the pilot.

    ``w`` (blocks, re-dealings). The average over re-dealings varies less than a single one, by the
    variance over re-dealings of a superblock's sum: that is taken off.
    """
    ends = design.superblocks
    starts = np.concatenate([[0], ends[:-1]])
    sizes = ends - starts
    mean = np.cumsum(np.add.reduceat(w.mean(axis=1), starts)) / ends
    squares = np.add.reduceat(np.einsum("ij,ij->i", w, w), starts) / w.shape[1]
    sums = np.add.reduceat(w, starts, axis=0)
    around = squares - 2 * mean * sums.mean(axis=1) + sizes * mean**2
    if w.shape[1] > 1:
        around -= np.where(sizes > 1, sums.var(axis=1, ddof=1), 0.0)
    # A lucky superblock must not claim that there is no noise.
    around = np.maximum(around, 0.05 * squares)
    # A cautious guess of the variance, before any outcome is seen.
    spread = 1 / 12 + (0.5 - centre) ** 2  # mean square of a uniform rank around the centre
    guess = _CAUTIOUS_VARIANCE * spread * (1 / design.sizes).sum(axis=0).mean()
    before = np.cumsum(around)[:-1] + _CAUTIOUS_BLOCKS * guess
    return np.concatenate([[0.0], np.sqrt(before / (ends[:-1] + _CAUTIOUS_BLOCKS))])


def deal(
    ranks: NDArray[np.int32],
    signs: Floats,
    residual: Floats,
    shift: float,
    units: DealtUnits,
    design: BlockDesign,
    seed: np.random.SeedSequence,
    mixed: Bools | None = None,
) -> Floats:
    """Assign units to blocks at random, permute within superblocks, and compute every w.

    ``ranks`` (scores, n), integers in the order of the scores; the statistic is the sum over scores
    of sign times w, so that signs (1, -1) compare two. r = ``residual`` - ``shift``.

    ``mixed`` (levels,) marks ranks whose rows may differ in score: every pair of such rows is
    assumed to be in the worse order.

    Returns an array (2, blocks, random assignments), with one row for each of ``CENTRES``. With
    ``mixed`` there is a third row: the amount that the worse orders subtracted.
    """
    from auucmax.certificates import kernels

    rng = np.random.default_rng(seed)
    state = rng.integers(2**63, size=1).astype(np.uint64)
    pilot = design.pilot_units()  # the same units in every dealing
    assigned = [
        np.concatenate([part[:n], rng.permutation(part[n:])])
        for part, n in zip((units.treated, units.control), pilot, strict=True)
    ]
    if not len(units.members):  # units are rows: bring those of a superblock together
        order = np.concatenate(assigned)
        ranks, residual = np.take(ranks, order, axis=1), residual[order]
        assigned = np.split(np.arange(len(order), dtype=np.int32), [len(assigned[0])])
    w = np.empty((2 if mixed is None else 3, design.n_blocks, design.n_redealings))
    kernels.deal_statistics(
        ranks,
        signs,
        residual,
        shift,
        np.empty(0, bool) if mixed is None else mixed,
        *assigned,
        units.starts,
        units.members,
        design.ends,
        design.superblocks,
        state,
        w,
    )
    return w


class ChancesBeyond(InputError):
    """Propensities outside the range seen in the pilot rows."""


class ArmMeans(NamedTuple):
    """Prior guesses of mean outcomes by arm, in [0, 1], from rows that are not bet on; (K + 1,).

    ``least`` (K + 1,): the smallest propensities that are certified. They must not depend on the
    rows that are bet on, because they decide the size of the bets.
    """

    mean: Floats
    least: Floats

    @classmethod
    def of(cls, y: Floats, got: NDArray[Any], chance: Floats) -> ArmMeans:
        """Estimate from pilot rows with propensities ``chance``, (n, K + 1) or of one arm (n,)."""
        got, chance = got.astype(np.intp), _by_arm(chance)
        weight = 1 / chance[np.arange(len(y)), got]
        total, n = (
            np.bincount(got, own, minlength=chance.shape[1]) for own in (weight * y, weight)
        )
        # A prior of one row of each outcome stabilises the guesses with few rows.
        return cls((total + 0.5) / (n + 1), NEARER * chance.min(axis=0, initial=0.5))

    def effects(self, y: Floats, got: NDArray[Any], chance: Floats) -> Floats:
        """Unbiased effect of each arm on each person, (n, K + 1); 0 for the control."""
        got, chance = got.astype(np.intp), _by_arm(chance)
        least = ", ".join(f"{least:.3g}" for least in self.least)
        check_beyond(np.any(chance < self.least * (1 - 1e-9), axis=1), least)
        h = np.tile(self.mean - self.mean[0], (len(y), 1))
        rows, treated = np.arange(len(y)), got > 0
        away = (y - self.mean[got]) / chance[rows, got]
        h[treated, got[treated]] += away[treated]
        h[~treated] -= away[~treated, None]
        h[:, 0] = 0.0
        return h


def _by_arm(chance: Floats) -> Floats:
    """Propensities of the control and of each arm, (n, K + 1)."""
    return chance if chance.ndim == 2 else np.column_stack([1 - chance, chance])


def check_beyond(far: Bools, least: str) -> None:
    """Raise ChancesBeyond if propensities lie below the pilot's ``least``."""
    if far.any():
        raise ChancesBeyond(
            "propensity", f"at least {least} (of each arm), the range seen in the pilot rows",
            f"smaller ones in {int(far.sum()):,} of {len(far):,} rows",
            "Leave such people out: the certificate is then about the others.",
        )  # fmt: skip


def most_people(people: Floats) -> float:
    """The largest inverse propensity, from rows that are not bet on."""
    return float(people.max(initial=1.0)) / NEARER


def evenly_drawn(people: Floats, most: float, draw: Floats) -> Bools:
    """A random subset of the rows of two arms in which all people are equally likely.

    ``people`` (n,): one over the chance to be in one of the two. A row is kept with probability
    people / ``most``, ``most`` fixed beforehand: who is in the two arms and kept is then a draw
    with probability 1 / most for everybody, and among these the chance of treatment stays. ``draw``
    (n,): uniform in [0, 1), the same for rows of a group.
    """
    check_beyond(people > most, f"{1 / most:.3g}, to be in one of the two arms")
    return np.asarray(draw * most < people)


def propensity_range(chance: ArrayLike | None) -> tuple[float, float] | None:
    """Lowest and highest propensity; None if there are none."""
    return None if chance is None else (float(np.min(chance)), float(np.max(chance)))
