"""Anytime-valid block betting: bounds that hold at all looks together.

Rows come in the order of arrival. A *superblock* is filled with them and closes at the first row at
which it has enough rows of both arms, which looks at treatments only; when it is closed its rows
are assigned, and reassigned, to blocks (``blocks.py``), and bets of many sizes lambda_k are played
on it. With fixed weights p_k, E_B,k the mean over re-dealings of the product over the blocks of
1 + lambda_k (w - theta_0), and N blocks in all closed superblocks,

    M(theta) = sum over k of  p_k exp(-lambda_k N (theta - theta_0))  prod over closed B of  E_B,k

is, at the true theta, a non-negative supermartingale that starts at 1. By Ville's inequality it
*ever* reaches 1/delta with probability at most delta; it falls with theta, so the theta at which it
is 1/delta is a lower bound that holds at every look, however looks are chosen. Upper bounds are the
same of minus w. The mixture of sizes replaces a horizon. The proof is in docs/guarantees.md.

Rows of a household are one *unit*: it is assigned as a whole, and each reassignment draws one of
its rows. With known chances of treatment, which may differ, blocks are formed without looking at
arms, and w is the Horvitz-Thompson statistic of ``blocks.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainSerializer, PlainValidator

from auucmax._validation import Bools, Floats
from auucmax.certificates.blocks import ArmMeans, BlockDesign, Indices, block_floor, dense_ranks
from auucmax.certificates.fixed_bets import LARGEST_LOSS, Pilot

#: What gain and effect cannot fall below: ranks are uniform, outcomes in [0, 1].
LEAST = np.array([-0.25, -1.0])
SUPERBLOCK_ROWS = 240  #: units at which a superblock closes, if
SUPERBLOCK_ARM = 12  #: it has so many of each arm
BLOCK_ROWS = 6
SMALLEST_BLOCK = 5  #: rows that a block has at least: both arms are rounded
REDEALINGS = 24
#: Bets are those that would be best after so many blocks; the fewer believed in, the less weight.
HORIZONS = 2.0 ** np.arange(4, 22)
_CENTRE = 0.5  # of the gain
# Weights of these sizes, larger for horizons of a thousand to a million rows.
_weight = np.where((HORIZONS * BLOCK_ROWS > 1e3) & (HORIZONS * BLOCK_ROWS < 1e6), 1.0, 0.3)
LOG_WEIGHTS = np.log(_weight / _weight.sum())


#: Arrays are lists in JSON.
_Floats = Annotated[
    Floats,
    PlainValidator(lambda own: np.asarray(own, dtype=np.float64)),
    PlainSerializer(lambda own: own.tolist()),
]


@dataclass(frozen=True, eq=False)
class Wealth:
    """Log wealth per target (gain, effect), side and size of bet, (..., 2, 2, sizes).

    ln(wealth at theta) is ``credit`` - theta ``staked``, theta of the side's own sign.
    """

    credit: _Floats
    staked: _Floats

    def limits(self, level: float) -> Floats:
        """Lower and upper limits, (..., 2, 2), each with error probability ``level``."""
        low = np.broadcast_to(LEAST[:, None], self.credit.shape[:-1]).copy()
        high = -low
        for _ in range(50):  # until both ends agree to rounding
            middle = (low + high) / 2
            rejected = self.log_wealth(middle) >= -np.log(level)
            low, high = np.where(rejected, middle, low), np.where(rejected, high, middle)
        return low * np.array([1.0, -1.0])

    def log_wealth(self, theta: Floats) -> Floats:
        """Log wealth ln M of each target and side at ``theta`` (..., 2, 2)."""
        # For a few sizes of bet: scipy's logsumexp has ten times the overhead.
        logs = LOG_WEIGHTS + self.credit - theta[..., None] * self.staked
        return np.asarray(np.logaddexp.reduce(logs, axis=-1))


@dataclass(frozen=True)
class Known:
    """Quantities fixed before the first bet, from rows that no bet uses.

    ``shift``: a typical outcome, which is subtracted; ``effect``: a guess of it; ``deviations``:
    guesses of the standard deviations of a block's gain and effect; ``floors``: lower bounds of
    these two on each side, as positive numbers. ``means``: with known chances that differ, typical
    outcomes of control and treated, in place of the shift.
    """

    shift: float
    effect: float
    deviations: tuple[float, float]
    floors: tuple[float, float]
    means: tuple[float, ...] = ()

    @classmethod
    def of(cls, rows: Floats, least: float | None = None) -> Known:
        """Estimate from rows as in ``AnytimeBets.waiting``.

        ``least``: the smallest propensity by design, None if all rows have the same.
        """
        y, _, _, _, chance = rows
        treated, first = rows[2:4].astype(bool)
        pilot = Pilot.of(y, treated, None if least is None else chance)
        if pilot.means is None or least is None:
            means: tuple[float, ...] = ()
            units = treated[first]
            sizes = np.diff(_ends(int(units.sum()), int((~units).sum())), axis=1, prepend=0)
            floors = largest_floor(pilot.shift), 1.0
        else:
            means = tuple(pilot.means.mean.tolist())
            sizes = np.full((2, 1), BLOCK_ROWS)
            largest = max(*means, *(1 - own for own in means)) / least
            # Blocks have BLOCK_ROWS or one more.
            n_rows = BLOCK_ROWS, BLOCK_ROWS + 1
            gain = max(block_floor(n, 0, _CENTRE, (1 - largest, largest)) for n in n_rows)
            floors = gain, largest
        deviation = float(np.sqrt((np.array(pilot.variances) @ (1 / sizes)).mean()))
        # Ranks that are independent of outcomes have variance 1/12.
        deviations = deviation / float(np.sqrt(12)), deviation
        return cls(pilot.shift, float(np.clip(pilot.effect, -0.5, 0.5)), deviations, floors, means)

    def bets(self, level: float) -> Floats:
        """Bets (2, 2, sizes), capped so that no block can lose more than the permitted share."""
        best = np.sqrt(2 * np.log(1 / level) / HORIZONS) / np.array(self.deviations)[:, None, None]
        guesses = np.outer([0.0, self.effect], [1.0, -1.0])
        largest = LARGEST_LOSS / (np.array(self.floors)[:, None] + guesses)
        return np.minimum(best, largest[:, :, None])


@dataclass
class AnytimeBets:
    """State kept between two looks; it contains only rows of the open superblock.

    ``least``: of the known chances of treatment, and of those of no treatment, by design; None
    if all rows have the same. ``known`` comes from the first superblock, which is not bet on.
    ``sums`` (2,) of the statistics of all ``n_blocks`` blocks, which have ``n_rows``. ``waiting``
    (5, n): rows in order of arrival, their outcomes in [0, 1], scores, treatment, whether a row is
    the first of its unit (those of a unit stand together), and propensities.
    """

    random_state: int
    least: float | None
    wealth: Wealth
    sums: _Floats
    waiting: _Floats
    known: Known | None = None
    n_superblocks: int = 0
    n_blocks: int = 0
    n_rows: int = 0

    @classmethod
    def fresh(cls, random_state: int = 0, least: float | None = None) -> Self:
        """The initial state, before the first row."""
        shape = 2, 2, len(HORIZONS)
        wealth = Wealth(np.zeros(shape), np.zeros(shape))
        return cls(random_state, least, wealth, np.zeros(2), np.zeros((5, 0)))

    @property
    def estimates(self) -> Floats:
        """Mean gain and effect over all blocks so far, (2,); NaN before the first."""
        return self.sums / self.n_blocks if self.n_blocks else np.full(2, np.nan)

    def add(
        self,
        y: Floats,
        score: Floats,
        treated: Bools,
        level: float,
        first: Bools | None = None,
        chance: Floats | None = None,
    ) -> Wealth:
        """Add complete units and bet on them; ``level`` only affects the size of the bets.

        Without ``first`` each row is its own unit; ``chance`` of treatment, where it differs.

        Returns the wealth after each superblock that they closed, (superblocks, ...).
        """
        from auucmax.certificates import kernels

        one = np.ones(len(y))
        new = [
            y,
            score,
            treated,
            one if first is None else first,
            one if chance is None else chance,
        ]
        rows = np.hstack([self.waiting, np.array(new, float)])
        y, score, _, _, chance = rows
        treated, first = rows[2:4].astype(bool)
        starts = np.append(np.flatnonzero(first), len(y))  # of units
        arm = treated[first]
        if self.least is None:
            cuts = superblock_cuts(arm)
        else:  # arms decide nothing
            cuts = np.arange(0, len(starts), SUPERBLOCK_ROWS)
        self.waiting = rows[:, starts[cuts[-1]] :].copy()
        if self.known is None and len(cuts) > 1:
            self.known = Known.of(rows[:, : starts[cuts[1]]], self.least)
            cuts = cuts[1:]
        credit, staked = (
            np.repeat(own[None], len(cuts), axis=0)
            for own in (self.wealth.credit, self.wealth.staked)
        )
        if self.known is None or len(cuts) == 1:
            return Wealth(credit[1:], staked[1:])
        bets = self.known.bets(level)
        signed = bets * np.array([1.0, -1.0])[:, None]
        if self.least is not None:
            means = ArmMeans(np.array(self.known.means), np.zeros(2))
            y = means.effects(y, treated, chance)[:, 1]
            arm = np.ones(len(arm), bool)
        ranks = dense_ranks(score)[None]
        units = np.empty(0, np.int32), np.empty(0, np.int32)
        if not first.all():
            units = starts.astype(np.int32), np.arange(len(y), dtype=np.int32)
        for number, (start, stop) in enumerate(pairwise(cuts.tolist())):
            inside = arm[start:stop]
            ends = _ends(int(inside.sum()), int((~inside).sum()))
            n_blocks = ends.shape[1]
            # From a much larger arm, those that came first. Kernels are compiled for this type.
            places = [
                (start + np.flatnonzero(own)[:n]).astype(np.int32)
                for own, n in zip((inside, ~inside), ends[:, -1], strict=True)
            ]
            # Each superblock has its own seed, so that it does not matter in which call it closes.
            seed = np.random.SeedSequence([self.random_state, self.n_superblocks])
            state = seed.generate_state(1, np.uint64)
            w = np.empty((2, n_blocks, REDEALINGS))
            end = np.array([n_blocks])
            kernels.deal_statistics(
                ranks, np.ones(1), y, self.known.shift, np.empty(0, bool), *places, *units, ends,
                end, state, w,
            )  # fmt: skip
            staked[number + 1] = staked[number] + n_blocks * bets
            for target, own in enumerate((w[1], 2 * (w[0] - w[1]))):  # gain, effect
                theta = target * self.known.effect
                sizes = signed[target]
                won = kernels.log_wealth(own, end, theta, sizes.ravel()).reshape(sizes.shape)
                credit[number + 1, target] = credit[number, target] + won + n_blocks * theta * sizes
                self.sums[target] += own.mean(axis=1).sum()
            self.n_superblocks += 1
            self.n_blocks += n_blocks
        self.n_rows += int(starts[cuts[-1]] - starts[cuts[0]])
        self.wealth = Wealth(credit[-1].copy(), staked[-1].copy())
        return Wealth(credit[1:], staked[1:])


def superblock_cuts(treated: Bools) -> NDArray[np.int64]:
    """The ends of complete superblocks, starting with 0; later rows are still open."""
    counts = [np.append(0, np.cumsum(own)) for own in (treated, ~treated)]
    cuts = [0]
    while True:
        start = cuts[-1]
        enough = [int(np.searchsorted(own, own[start] + SUPERBLOCK_ARM)) for own in counts]
        end = max(start + SUPERBLOCK_ROWS, *enough)
        if end > len(treated):
            return np.array(cuts)
        cuts.append(end)


@lru_cache(maxsize=4096)
def _ends(n_treated: int, n_control: int) -> Indices:
    """Cumulative numbers of treated and control units over the blocks, (2, blocks)."""
    return BlockDesign.of(n_treated, n_control, size=BLOCK_ROWS, pilot=False).ends


def largest_floor(shift: float) -> float:
    """Bound on the gain statistic of blocks with at least ``SMALLEST_BLOCK`` rows.

    For arms of any size; larger blocks have smaller floors, so it is reached within a few more
    rows.

    >>> round(largest_floor(0.1), 3), round(block_floor(30, 40, 0.5, (0.1, 0.1)), 3)
    (0.625, 0.461)
    """
    sizes = [
        (a, size - a) for size in range(SMALLEST_BLOCK, 2 * BLOCK_ROWS) for a in range(1, size)
    ]
    return max(block_floor(a, b, _CENTRE, (shift, shift)) for a, b in sizes)
