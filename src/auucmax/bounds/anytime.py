"""Bets that may be looked at after every row: bounds that hold at all looks together.

Rows come in the order of arrival. A *superblock* is filled with them and closes at the first row at
which it has enough rows of both arms, which looks at treatments only; when it is closed its rows
are dealt, and dealt again, into blocks (``blocks.py``), and bets of many sizes lambda_k are played
on it. With fixed weights p_k, E_B,k the mean over re-dealings of the product over the blocks of
1 + lambda_k (w - theta_0), and |B| blocks in B,

    M(theta) = sum over k of  p_k  prod over closed B of  E_B,k exp(-lambda_k |B| (theta - theta_0))

is, at the true theta, a non-negative supermartingale that starts at 1. By Ville's inequality it
*ever* reaches 1/delta with probability at most delta; it falls with theta, so the theta at which it
is 1/delta is a lower bound that holds at every look, however looks are chosen. Upper bounds are the
same of minus w. The mixture of sizes stands in the place of a horizon. The proof is in
docs/guarantees.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from auucmax._validation import Bools, Floats
from auucmax.bounds.betting import dense_ranks
from auucmax.bounds.blocks import BlockDesign, Indices, block_floor
from auucmax.bounds.fixed_bets import LARGEST_LOSS, Pilot

TARGETS = ("gain", "effect", "difference")
#: What a target cannot fall below, whatever the rows: ranks are uniform, outcomes in [0, 1].
LEAST = np.array([-0.25, -1.0, -0.5])
SUPERBLOCK_ROWS = 240  #: rows at which a superblock closes, if
SUPERBLOCK_ARM = 12  #: it has so many of each arm
BLOCK_ROWS = 6
REDEALINGS = 24
#: Bets are those that would be best after so many blocks; the fewer believed in, the less weight.
HORIZONS = 2.0 ** np.arange(4, 22)
_CENTRE = 0.5  # of the gain; that of a difference cancels
_AT_ONCE = 120_000  # rows whose statistics are in memory together


def _log_weights() -> Floats:
    """Most weight on horizons of a thousand to a million rows."""
    rows = HORIZONS * BLOCK_ROWS
    weight = np.where((rows > 1e3) & (rows < 1e6), 1.0, 0.3)
    return np.log(weight / weight.sum())


LOG_WEIGHTS = _log_weights()


class WaitingRows(NamedTuple):
    """Rows in the order of arrival: outcomes in [0, 1] (n,), scores (scores, n), arms (n,)."""

    y: Floats
    scores: Floats
    treated: Bools

    def part(self, start: int, stop: int | None = None) -> WaitingRows:
        return WaitingRows(self.y[start:stop], self.scores[:, start:stop], self.treated[start:stop])

    def __add__(self, later: WaitingRows) -> WaitingRows:  # type: ignore[override]
        return WaitingRows(
            np.concatenate([self.y, later.y]),
            np.concatenate([self.scores, later.scores], axis=1),
            np.concatenate([self.treated, later.treated]),
        )


class Wealth(NamedTuple):
    """Of each target, side (lower, upper) and size of bet, (..., targets, 2, sizes).

    ln(wealth at theta) is ``credit`` - theta ``staked``, theta of the side's own sign.
    """

    credit: Floats
    staked: Floats

    def limits(self, level: float) -> Floats:
        """(..., targets, 2) lower and upper limits, each of which fails with chance ``level``."""
        least = LEAST[: self.credit.shape[-3], None]
        low = np.broadcast_to(least, self.credit.shape[:-1]).copy()
        high = -low
        for _ in range(50):  # until both ends agree to rounding
            middle = (low + high) / 2
            rejected = self.log_wealth(middle) >= -np.log(level)
            low, high = np.where(rejected, middle, low), np.where(rejected, high, middle)
        return low * np.array([1.0, -1.0])

    def log_wealth(self, theta: Floats) -> Floats:
        """ln M of each target and side; ``theta`` (..., targets, 2) of the side's own sign."""
        return np.asarray(
            logsumexp(LOG_WEIGHTS + self.credit - theta[..., None] * self.staked, axis=-1)
        )


@dataclass(frozen=True)
class Known:
    """What is known before the first bet: a usual outcome, a guess of the effect, and of the
    standard deviation of a block's statistic, for each target."""

    shift: float
    effect: float
    deviations: tuple[float, ...]

    @classmethod
    def of(cls, rows: WaitingRows) -> Known:
        pilot = Pilot.of(rows.y, rows.treated)
        ranks = [(dense_ranks(score) + 0.5) / len(rows.y) for score in rows.scores]
        apart = float(np.square(ranks[0] - ranks[-1]).mean())
        n_treated = int(rows.treated.sum())
        sizes = np.diff(_design(n_treated, len(rows.y) - n_treated), axis=1, prepend=0)
        variance = float((np.array(pilot.variances) @ (1 / sizes)).mean())
        # Ranks that know nothing of outcomes; two that agree differ a little later on.
        spreads = (1 / 12, 1.0, max(apart, 0.005))[: 1 + len(ranks)]
        deviations = tuple(float(np.sqrt(spread * variance)) for spread in spreads)
        return cls(pilot.shift, float(np.clip(pilot.effect, -0.5, 0.5)), deviations)


@dataclass
class AnytimeBets:
    """What is kept between two looks; no row but those of the open superblock.

    ``n_scores``: 1, or 2 to bound the difference of the AUUC of the first and that of the second,
    too. ``known`` comes from the first superblock, which is not bet on. ``sums`` (targets,) of the
    statistics of all ``n_blocks`` blocks, which have ``n_rows``.
    """

    n_scores: int = 1
    random_state: int = 0
    known: Known | None = None
    n_superblocks: int = 0
    n_blocks: int = 0
    n_rows: int = 0
    wealth: Wealth = None  # type: ignore[assignment]
    sums: Floats = None  # type: ignore[assignment]
    waiting: WaitingRows = field(default=None)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.wealth is None:
            shape = self.n_targets, 2, len(HORIZONS)
            self.wealth = Wealth(np.zeros(shape), np.zeros(shape))
            self.sums = np.zeros(self.n_targets)
            self.waiting = WaitingRows(np.empty(0), np.empty((self.n_scores, 0)), np.empty(0, bool))

    @property
    def n_targets(self) -> int:
        return 1 + self.n_scores

    @property
    def estimates(self) -> Floats:
        """(targets,) the mean over the blocks so far; NaN before the first."""
        return self.sums / self.n_blocks if self.n_blocks else np.full(self.n_targets, np.nan)

    def add(self, y: Floats, scores: Floats, treated: Bools, level: float) -> Wealth:
        """Bet on rows that have come; ``level`` only sizes the bets.

        Returns the wealth after each superblock that they closed, (superblocks, ...).
        """
        found = []
        for start in range(0, max(len(y), 1), _AT_ONCE):
            some = WaitingRows(y, scores, treated).part(start, start + _AT_ONCE)
            rows = self.waiting + some
            cuts = superblock_cuts(rows.treated)
            if self.known is None and len(cuts) > 1:
                self.known = Known.of(rows.part(0, int(cuts[1])))
                rows, cuts = rows.part(int(cuts[1])), cuts[1:] - cuts[1]
            found.append(self._play(rows, cuts, level))
            self.waiting = rows.part(int(cuts[-1]))
        return Wealth(*(np.concatenate(parts) for parts in zip(*found, strict=True)))

    def _play(self, rows: WaitingRows, cuts: Indices, level: float) -> Wealth:
        """Bet on all closed superblocks of the rows."""
        from auucmax.bounds import kernels

        credit, staked = (
            np.repeat(part[None], len(cuts), axis=0) for part in self.wealth
        )  # the first entry is that before any of them
        if self.known is None or len(cuts) == 1:
            return Wealth(credit[1:], staked[1:])
        designs = [_design(*sizes) for sizes in _arm_sizes(rows.treated, cuts)]
        statistics = self._statistics(rows, cuts, designs)
        ends = np.cumsum([design.shape[1] for design in designs])
        thetas = 0.0, self.known.effect, 0.0
        for target, w in enumerate(statistics):
            for side, sign in enumerate((1.0, -1.0)):
                theta = sign * thetas[target]
                bets = self._bets(target, side, theta, designs, level)
                game = sign * w, ends, theta, bets
                kernels.mixture_path(*game, credit[:, target, side], staked[:, target, side])
            self.sums[target] += w.mean(axis=1).sum()
        self.n_superblocks += len(designs)
        self.n_blocks += int(ends[-1])
        self.n_rows += int(cuts[-1])
        self.wealth = Wealth(credit[-1].copy(), staked[-1].copy())
        return Wealth(credit[1:], staked[1:])

    def _bets(
        self, target: int, side: int, theta: float, designs: list[Indices], level: float
    ) -> Floats:
        """(superblocks, sizes): none so large that a block could cost more than may be lost."""
        assert self.known is not None
        best = np.sqrt(2 * np.log(1 / level) / HORIZONS) / self.known.deviations[target]
        floors = [
            _floor(target, side, self.known.shift, design.shape[1], *design[:, -1].tolist())
            for design in designs
        ]
        return np.minimum(best, LARGEST_LOSS / (np.array(floors)[:, None] + theta))

    def _statistics(self, rows: WaitingRows, cuts: Indices, designs: list[Indices]) -> list[Floats]:
        """(blocks, re-dealings) of each target, for all closed superblocks."""
        from auucmax.bounds import kernels

        assert self.known is not None
        places = [[], []]  # type: list[list[Indices]]
        for start, stop, design in zip(cuts[:-1], cuts[1:], designs, strict=True):
            inside = rows.treated[start:stop]
            # Of a much larger arm, those that came first.
            for arm, own in enumerate((inside, ~inside)):
                places[arm].append(start + np.flatnonzero(own)[: design[arm, -1]])
        before = np.cumsum([design[:, -1] for design in designs], axis=0)
        before = np.vstack([np.zeros((1, 2), np.int64), before[:-1]])
        ends = np.hstack([d + b[:, None] for d, b in zip(designs, before, strict=True)])
        superblocks = np.cumsum([design.shape[1] for design in designs])
        # Each superblock has its own seed, so that it does not matter in which call it closes.
        numbers = range(self.n_superblocks, self.n_superblocks + len(designs))
        state = np.array([_seed(self.random_state, number) for number in numbers], np.uint64)
        ranks = np.array([dense_ranks(score) for score in rows.scores], np.int32)
        nothing, found = np.empty(0, np.int32), []
        for n_scores in range(1, self.n_scores + 1):
            w = np.empty((2, int(superblocks[-1]), REDEALINGS))
            kernels.deal_statistics(
                ranks[:n_scores], np.array([1.0, -1.0])[:n_scores], rows.y, self.known.shift,
                np.empty(0, bool), *(np.concatenate(own) for own in places), nothing, nothing,
                ends, superblocks, state.copy(), w,
            )  # fmt: skip
            found.append(w)
        gain, effect = found[0][1], 2 * (found[0][0] - found[0][1])
        return [gain, effect, *(w[1] for w in found[1:])]


def superblock_cuts(treated: Bools) -> NDArray[np.int64]:
    """0, and where superblocks close: what comes after the last number is still open."""
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


def _arm_sizes(treated: Bools, cuts: Indices) -> list[tuple[int, int]]:
    n_treated = np.diff(np.concatenate([[0], np.cumsum(treated)])[cuts])
    return list(zip(n_treated.tolist(), (np.diff(cuts) - n_treated).tolist(), strict=True))


@lru_cache(maxsize=4096)
def _design(n_treated: int, n_control: int) -> Indices:
    """(2, blocks) how many treated and control rows the blocks up to each one hold."""
    return BlockDesign.of(n_treated, n_control, size=BLOCK_ROWS, pilot=False).ends


@lru_cache(maxsize=65536)
def _floor(
    target: int, side: int, shift: float, n_blocks: int, n_treated: int, n_control: int
) -> float:
    """No statistic of a target and side is below minus this in a superblock of such sizes."""
    if TARGETS[target] == "effect":  # one arm at minus the shift, the other at 1 minus it
        return 1.0
    places = np.arange(1, n_blocks + 1)
    ends = np.array([np.rint(places * n / n_blocks) for n in (n_treated, n_control)], np.int64)
    shapes = np.unique(np.diff(ends, axis=1, prepend=0), axis=1).T.tolist()
    adjustment = shift, shift
    own = max(block_floor(a, b, _CENTRE, adjustment) for a, b in shapes)
    swapped = max(block_floor(b, a, _CENTRE, adjustment) for a, b in shapes)
    if TARGETS[target] == "difference":
        return own + swapped
    return swapped if side else own


def _seed(random_state: int, number: int) -> int:
    return int(np.random.SeedSequence([random_state, number]).generate_state(1, np.uint64)[0])
