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
same of minus w. The mixture of sizes stands in the place of a horizon. The proof is in
docs/guarantees.md.

Rows of a household are one *unit*: it is assigned as a whole, and each reassignment draws one of
its rows. With known chances of treatment, which may differ, blocks are formed without looking at
arms, and w is the sum after Horvitz and Thompson of ``known_chances.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats
from auucmax.certificates.betting import dense_ranks
from auucmax.certificates.blocks import BlockDesign, Indices, block_floor
from auucmax.certificates.fixed_bets import LARGEST_LOSS, Pilot
from auucmax.certificates.known_chances import ArmMeans, effect_pilot

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
_AT_ONCE = 120_000  # rows whose statistics are in memory together


def _log_weights() -> Floats:
    """Log weights of bet sizes, concentrated on horizons of a thousand to a million rows."""
    rows = HORIZONS * BLOCK_ROWS
    weight = np.where((rows > 1e3) & (rows < 1e6), 1.0, 0.3)
    return np.log(weight / weight.sum())


LOG_WEIGHTS = _log_weights()


@dataclass(frozen=True)
class _InJson:
    """Serialise arrays as lists with pydantic."""

    dtype: type

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            lambda own: np.asarray(own, dtype=self.dtype),
            serialization=core_schema.plain_serializer_function_ser_schema(np.ndarray.tolist),
        )


_Floats = Annotated[Floats, _InJson(float)]
_Bools = Annotated[Bools, _InJson(bool)]


@dataclass(frozen=True, eq=False)
class WaitingRows:
    """Rows in order of arrival, (n,) each: outcomes in [0, 1], scores and treatment.

    ``first``: whether a row is the first of its unit; those of a unit stand together. ``chance``:
    of treatment, where it is known to differ.
    """

    y: _Floats
    score: _Floats
    treated: _Bools
    first: _Bools
    chance: _Floats

    @classmethod
    def of(
        cls,
        y: Floats,
        score: Floats,
        treated: Bools,
        first: Bools | None = None,
        chance: Floats | None = None,
    ) -> Self:
        """Make waiting rows; without ``first`` each row is its own unit."""
        first = np.ones(len(y), bool) if first is None else first
        return cls(y, score, treated, first, np.full(len(y), 0.5) if chance is None else chance)

    def part(self, start: int, stop: int | None = None) -> WaitingRows:
        return WaitingRows(*(own[start:stop] for own in vars(self).values()))

    def then(self, later: WaitingRows) -> WaitingRows:
        both = zip(vars(self).values(), vars(later).values(), strict=True)
        return WaitingRows(*map(np.concatenate, both))


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
        # Of a few sizes of bet: scipy's logsumexp takes ten times as long to begin.
        logs = LOG_WEIGHTS + self.credit - theta[..., None] * self.staked
        return np.asarray(np.logaddexp.reduce(logs, axis=-1))


@dataclass(frozen=True)
class Known:
    """Quantities fixed before the first bet, from rows that are not bet on.

    ``shift``: a usual outcome, which is taken off; ``effect``: a guess of it; ``deviations``:
    guesses of those of a block's gain and effect. ``means``: with known chances that differ,
    the usual outcomes of treated and control, which stand in the place of the shift.
    """

    shift: float
    effect: float
    deviations: tuple[float, float]
    means: tuple[float, ...] = ()

    @classmethod
    def of(cls, rows: WaitingRows, *, by_chance: bool = False) -> Known:
        if by_chance:
            guesses, pilot = effect_pilot(rows.y, rows.treated, rows.chance)
            means: tuple[float, ...] = tuple(guesses.mean[::-1].tolist())
            shift, effect, variance = 0.0, pilot.effect, pilot.variances[0] / BLOCK_ROWS
        else:
            pilot = Pilot.of(rows.y, rows.treated)
            shift, effect, means = pilot.shift, pilot.effect, ()
            sizes = np.diff(_design(*_arm_sizes(rows.treated[rows.first])), axis=1, prepend=0)
            variance = float((np.array(pilot.variances) @ (1 / sizes)).mean())
        deviation = float(np.sqrt(variance))
        # Ranks that know nothing of outcomes have a variance of 1/12.
        deviations = float(np.sqrt(1 / 12 * variance)), deviation
        return cls(shift, float(np.clip(effect, -0.5, 0.5)), deviations, means)

    def floors(self, least: float | None) -> tuple[float, float]:
        """Lower bounds of the block statistics of each target and side, as positive numbers."""
        if least is None:
            gain, effect = largest_floor(self.shift), 1.0
        else:
            effect = max(*self.means, *(1 - own for own in self.means)) / least
            # Blocks have BLOCK_ROWS or one more.
            sizes = BLOCK_ROWS, BLOCK_ROWS + 1
            gain = max(block_floor(own, 0, _CENTRE, (1 - effect, effect)) for own in sizes)
        return gain, effect


@dataclass
class AnytimeBets:
    """The state kept between two looks; it contains only rows of the open superblock.

    ``least``: of the known chances of treatment, and of those of no treatment, by design; None
    if all rows have the same. ``known`` comes from the first superblock, which is not bet on.
    ``sums`` (2,) of the statistics of all ``n_blocks`` blocks, which have ``n_rows``.
    """

    random_state: int
    least: float | None
    wealth: Wealth
    sums: _Floats
    waiting: WaitingRows
    known: Known | None = None
    n_superblocks: int = 0
    n_blocks: int = 0
    n_rows: int = 0

    @classmethod
    def fresh(cls, random_state: int = 0, least: float | None = None) -> Self:
        """The initial state, before the first row."""
        shape = 2, 2, len(HORIZONS)
        wealth = Wealth(np.zeros(shape), np.zeros(shape))
        none = WaitingRows.of(np.empty(0), np.empty(0), np.empty(0, bool))
        return cls(random_state, least, wealth, np.zeros(2), none)

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

        Returns the wealth after each superblock that they closed, (superblocks, ...).
        """
        found, new = [], WaitingRows.of(y, score, treated, first, chance)
        starts = np.append(np.flatnonzero(new.first), len(y))
        steps = np.arange(0, max(len(y), 1) + _AT_ONCE, _AT_ONCE)
        ends = starts[np.minimum(np.searchsorted(starts, steps), len(starts) - 1)]
        for start, stop in pairwise(ends.tolist()):
            rows = self.waiting.then(new.part(start, stop))
            cuts = self._cuts(rows)
            if self.known is None and len(cuts) > 1:
                own = rows.part(0, int(cuts[1]))
                self.known = Known.of(own, by_chance=self.least is not None)
                rows, cuts = rows.part(int(cuts[1])), cuts[1:] - cuts[1]
            found.append(self._play(rows, cuts, level))
            self.waiting = rows.part(int(cuts[-1]))
        return Wealth(
            np.concatenate([own.credit for own in found]),
            np.concatenate([own.staked for own in found]),
        )

    def _cuts(self, rows: WaitingRows) -> NDArray[np.int64]:
        """Row numbers at which superblocks end, starting with 0."""
        starts = np.append(np.flatnonzero(rows.first), len(rows.y))
        if self.least is not None:  # arms decide nothing
            return np.asarray(starts[::SUPERBLOCK_ROWS], np.int64)
        return np.asarray(starts[superblock_cuts(rows.treated[rows.first])], np.int64)

    def _play(self, rows: WaitingRows, cuts: Indices, level: float) -> Wealth:
        """Bet on all complete superblocks."""
        from auucmax.certificates import kernels

        # The first entry is that before any of them.
        credit, staked = (
            np.repeat(part[None], len(cuts), axis=0)
            for part in (self.wealth.credit, self.wealth.staked)
        )
        if self.known is None or len(cuts) == 1:
            return Wealth(credit[1:], staked[1:])
        statistics, ends = self._statistics(rows, cuts)
        thetas, bets = (0.0, self.known.effect), self._bets(level)
        for target, w in enumerate(statistics):
            for side, sign in enumerate((1.0, -1.0)):
                game = sign * w, ends, sign * thetas[target], bets[target, side]
                kernels.mixture_path(*game, credit[:, target, side], staked[:, target, side])
            self.sums[target] += w.mean(axis=1).sum()
        self.n_superblocks += len(ends)
        self.n_blocks += int(ends[-1])
        self.n_rows += int(cuts[-1])
        self.wealth = Wealth(credit[-1].copy(), staked[-1].copy())
        return Wealth(credit[1:], staked[1:])

    def _bets(self, level: float) -> Floats:
        """Bets (2, 2, sizes), capped so that no block can lose more than the permitted share."""
        assert self.known is not None
        deviations = np.array(self.known.deviations)
        best = np.sqrt(2 * np.log(1 / level) / HORIZONS) / deviations[:, None, None]
        guesses = np.array([0.0, self.known.effect])
        floors = np.array(self.known.floors(self.least))
        largest = LARGEST_LOSS / (floors[:, None] + guesses[:, None] * np.array([1.0, -1.0]))
        return np.minimum(best, largest[:, :, None])

    def _statistics(self, rows: WaitingRows, cuts: Indices) -> tuple[tuple[Floats, ...], Indices]:
        """Block statistics of gain and effect, (blocks, permutations), and superblock ends."""
        from auucmax.certificates import kernels

        assert self.known is not None
        starts = np.append(np.flatnonzero(rows.first), len(rows.y))
        outcome, arm = rows.y, rows.treated[rows.first]
        if self.least is not None:
            own = ArmMeans(np.array(self.known.means[::-1]), np.zeros(2))
            outcome = own.one_effect(rows.y, rows.treated, rows.chance)
            arm = np.ones(len(arm), bool)
        places, ends, superblocks = _dealt(arm, np.searchsorted(starts, cuts))
        # Each superblock has its own seed, so that it does not matter in which call it closes.
        numbers = range(self.n_superblocks, self.n_superblocks + len(superblocks))
        state = np.array([_seed(self.random_state, number) for number in numbers], np.uint64)
        ranks = dense_ranks(rows.score).astype(np.int32)[None]
        units = np.empty(0, np.int32), np.empty(0, np.int32)
        if not rows.first.all():
            units = starts.astype(np.int32), np.arange(len(rows.y), dtype=np.int32)
        w = np.empty((2, int(superblocks[-1]), REDEALINGS))
        kernels.deal_statistics(
            ranks, np.ones(1), outcome, self.known.shift, np.empty(0, bool), *places, *units,
            ends, superblocks, state, w,
        )  # fmt: skip
        return (w[1], 2 * (w[0] - w[1])), superblocks


def _dealt(arm: Bools, cuts: Indices) -> tuple[list[Indices], Indices, Indices]:
    """Units of both arms in random order, cumulative block sizes, and superblocks."""
    places: list[list[Indices]] = [[], []]
    designs = []
    for start, stop in pairwise(cuts.tolist()):
        inside = arm[start:stop]
        designs.append(_design(*_arm_sizes(inside)))
        # Of a much larger arm, those that came first.
        for number, own in enumerate((inside, ~inside)):
            places[number].append(start + np.flatnonzero(own)[: designs[-1][number, -1]])
    before = np.cumsum([design[:, -1] for design in designs], axis=0)
    before = np.vstack([np.zeros((1, 2), np.int64), before[:-1]])
    ends = np.hstack([d + b[:, None] for d, b in zip(designs, before, strict=True)])
    superblocks = np.cumsum([design.shape[1] for design in designs])
    # Of the type that the kernels of certificates are compiled for.
    return [np.concatenate(own).astype(np.int32) for own in places], ends, superblocks


def superblock_cuts(treated: Bools) -> NDArray[np.int64]:
    """The ends of complete superblocks, starting with 0; later rows are still open."""
    arms = np.flatnonzero(treated), np.flatnonzero(~treated)
    counts = [np.concatenate([[0], np.cumsum(own)]) for own in (treated, ~treated)]
    cuts = [0]
    while True:
        ends = [cuts[-1] + SUPERBLOCK_ROWS]
        for places, count in zip(arms, counts, strict=True):
            last = count[cuts[-1]] + SUPERBLOCK_ARM - 1
            ends.append(int(places[last]) + 1 if last < len(places) else len(treated) + 1)
        if max(ends) > len(treated):
            return np.array(cuts)
        cuts.append(max(ends))


def _arm_sizes(treated: Bools) -> tuple[int, int]:
    n_treated = int(treated.sum())
    return n_treated, len(treated) - n_treated


@lru_cache(maxsize=4096)
def _design(n_treated: int, n_control: int) -> Indices:
    """Cumulative numbers of treated and control units over the blocks, (2, blocks)."""
    return BlockDesign.of(n_treated, n_control, size=BLOCK_ROWS, pilot=False).ends


@lru_cache(maxsize=64)
def largest_floor(shift: float) -> float:
    """Bound on the gain statistic of blocks with at least ``SMALLEST_BLOCK`` rows.

    Arms of any sizes; larger blocks have smaller floors, so those of a few more rows tell it.

    >>> round(largest_floor(0.1), 3), round(block_floor(30, 40, 0.5, (0.1, 0.1)), 3)
    (0.625, 0.461)
    """
    sizes = [
        (a, size - a) for size in range(SMALLEST_BLOCK, 2 * BLOCK_ROWS) for a in range(1, size)
    ]
    return max(block_floor(a, b, _CENTRE, (shift, shift)) for a, b in sizes)


def _seed(random_state: int, number: int) -> int:
    return int(np.random.SeedSequence([random_state, number]).generate_state(1, np.uint64)[0])
