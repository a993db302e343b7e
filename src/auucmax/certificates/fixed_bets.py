"""Bets of one size: a bound for one score, for counts in bins of scores, or for many models.

Fix a value theta_0 and a size of bet lambda on a pilot, rows that are not bet on. With N blocks, w
their statistics (``blocks.py``) and W = product over blocks of 1 + lambda (w - theta_0),

    mean over blocks of theta >= theta_0 + (ln W - ln(1/delta)) / (lambda N)

with probability 1 - delta, where theta is the target of the score that ranks the block: the same
for all of them, or that of another model for each chunk of rows (``progressive.py``). W may be
the mean over dealings, and smaller than it could be. The proof is in docs/guarantees.md; about
sqrt(2 ln(1/delta)) / z, half as much again, is what it costs against the hedge of ``betting.py``.

**Bins.** The pilot reads outcomes and treatments only, so no bet depends on how rows are ranked.
That is why bins of scores may be cut by looking at these very scores: where rows of a bin share a
block, each pair of them is taken to be in the worse order, which makes w, and so W, no larger than
with the exact scores, whatever the bins.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from auucmax._progress import track
from auucmax._validation import Bools, Floats, check_level, check_whole
from auucmax.certificates.blocks import (
    CENTRES,
    BlockDesign,
    DealtUnits,
    block_size,
    deal,
    n_dealings_of,
)
from auucmax.certificates.bound import LowerBound
from auucmax.metrics.bins import BinnedLevels

LARGEST_LOSS = 0.9  #: share of the wealth that one block may cost
#: AUUC and gain of any score are at least minus these: ranks are uniform, outcomes in [0, 1].
LEAST = (-0.5, -0.25)
MOST_ROWS = 20_000_000  #: of a histogram, in each dealing
_BATCH = 1_000_000  # rows of a histogram that are in memory together
_PRIOR_ROWS, _PRIOR_VARIANCE = 3, 0.1


class BetRows(NamedTuple):
    """Rows that one score ranks: dense ranks (1, n), residuals of outcomes, units of the blocks.

    ``mixed`` (levels,): whether rows of equal rank may differ in their exact scores; None: no.
    """

    ranks: NDArray[np.int32]
    residual: Floats
    units: DealtUnits
    mixed: Bools | None = None


class Pilot(NamedTuple):
    """What is known before the first bet, from outcomes and treatments of rows not bet on.

    ``shift`` is taken off the residuals; after that they lie between minus the higher and 1 minus
    the lower number of ``adjustment``.
    """

    shift: float
    effect: float
    variances: tuple[float, float]
    adjustment: tuple[float, float]

    @classmethod
    def of(
        cls, residual: Floats, treated: Bools, adjustment: tuple[float, float] | None = None
    ) -> Pilot:
        """``adjustment``: the range of an outcome model that was taken off, if there was one."""
        # A prior of a few rows keeps the guesses sane if there are hardly any.
        shift = 0.0
        if adjustment is None:
            shift = float((residual.sum() + 0.5) / (len(residual) + 1))
            adjustment = shift, shift
        arms = residual[treated], residual[~treated]
        prior = _PRIOR_ROWS * _PRIOR_VARIANCE
        squares = [float(((r - shift) ** 2).sum()) + prior for r in arms]
        variances = (
            squares[0] / (len(arms[0]) + _PRIOR_ROWS),
            squares[1] / (len(arms[1]) + _PRIOR_ROWS),
        )
        effect = float(arms[0].mean() - arms[1].mean()) if len(arms[0]) and len(arms[1]) else 0.0
        return cls(shift, effect, variances, adjustment)

    def stake(self, designs: Sequence[BlockDesign], centre: float, level: float) -> Stake:
        """The bet that would be best if ranks knew nothing of outcomes."""
        sizes = np.hstack([np.diff(design.ends, axis=1, prepend=0) for design in designs])
        spread = 1 / 12 + (0.5 - centre) ** 2  # mean square of a uniform rank around the centre
        variance = spread * (np.array(self.variances) @ (1 / sizes)).mean()
        floor = max(design.floor(centre, self.adjustment) for design in designs)
        # What a random order has: factors differ little from 1 at any small distance from it.
        theta = max((1 - 2 * centre) * self.effect / 2, -0.25)
        best = float(np.sqrt(2 * np.log(1 / level) / (sizes.shape[1] * variance)))
        return Stake(theta, min(best, LARGEST_LOSS / (floor + theta)), floor)


class Stake(NamedTuple):
    """theta_0, lambda, and phi: no statistic is below minus it."""

    theta: float
    bet: float
    floor: float


class SizesBets(Protocol):
    """What decides bets beforehand: :class:`Pilot`, or one that knows unequal chances."""

    @property
    def shift(self) -> float: ...

    def stake(self, designs: Sequence[BlockDesign], centre: float, level: float) -> Stake: ...


def one_size_bounds(
    pilot: SizesBets,
    designs: Sequence[BlockDesign],
    rows_of: Callable[[np.random.SeedSequence], Iterable[BetRows]],
    level: float,
    n_dealings: int,
    random_state: np.random.SeedSequence,
) -> tuple[list[float], float]:
    """Bounds of AUUC and gain, of outcomes in [0, 1]; and what bins took off w on average.

    ``rows_of(seed)`` gives the rows of one dealing, as many as ``designs``.
    """
    from auucmax.certificates import kernels

    stakes = [pilot.stake(designs, centre, level) for centre in CENTRES]
    n_blocks = sum(design.n_blocks for design in designs)

    def play(seed: np.random.SeedSequence) -> Floats:
        first, *seeds = seed.spawn(len(designs) + 1)
        result = np.zeros(3)  # ln W of AUUC and of gain, and what bins take off
        for part, design, own in zip(rows_of(first), designs, seeds, strict=True):
            rows = part.ranks, np.ones(1), part.residual, pilot.shift, part.units
            w = deal(*rows, design, own, part.mixed)
            for target, stake in enumerate(stakes):
                above = w[target] if part.mixed is None else np.maximum(w[target], -stake.floor)
                result[target] += kernels.log_wealth(
                    above, design.superblocks, stake.theta, stake.bet
                )
            if part.mixed is not None:
                result[2] += w[2].mean() * design.n_blocks / n_blocks
        return result

    seeds = random_state.spawn(n_dealings)
    with ThreadPoolExecutor(min(n_dealings, os.cpu_count() or 1)) as pool:
        results = np.array(list(track(pool.map(play, seeds), n_dealings, "betting on blocks")))
    wealth = logsumexp(results[:, :2], axis=0) - np.log(n_dealings)
    bounds = [
        max(least, float(stake.theta + (log_w + np.log(level)) / (stake.bet * n_blocks)))
        for least, stake, log_w in zip(LEAST, stakes, wealth, strict=True)
    ]
    return bounds, float(results[:, 2].mean())


def histogram_betting_bounds(
    histogram: BinnedLevels,
    *,
    delta: float = 0.05,
    n_candidates: int = 1,
    n_dealings: int | None = None,
    random_state: int = 0,
) -> tuple[LowerBound, LowerBound, float]:
    """Bounds on AUUC and gain of the *exact* scores, and what the bins cost; outcomes are 0/1.

    Rows of one arm, bin and outcome are interchangeable, so counts are enough to form blocks.
    Each dealing takes at most ``MOST_ROWS`` rows, drawn at random.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> from auucmax.metrics import BinnedLevels, score_edges
    >>> trial = load_hillstrom()
    >>> score = trial.X["history"]
    >>> histogram = BinnedLevels.of(trial.y, score, trial.treatment, score_edges(score, 1000))
    >>> auuc, gain, bin_gap = histogram_betting_bounds(histogram)
    >>> round(gain.gap, 4), round(bin_gap, 6)
    (0.0025, 0.000141)
    """
    check_level(delta, "delta")
    level = delta / check_whole(n_candidates, "n_candidates", 1)
    random_state = check_whole(random_state, "random_state", 0)
    first, then = np.random.SeedSequence(random_state).spawn(2)
    counts = _counts(histogram)
    sizes = counts.sum(axis=(1, 2))
    if n_dealings is None:
        n_dealings = n_dealings_of(int(sizes.sum()))
    rng = np.random.default_rng(first)
    if sizes.sum() > MOST_ROWS:  # a coin for each row: it looks at nothing
        counts = rng.binomial(counts, MOST_ROWS / sizes.sum())
    pilot, counts = _pilot_of(counts, rng)
    n_batches = -int(-counts.sum() // _BATCH)
    # Sizes depend on the numbers of rows only, as the proof asks.
    batches = [
        np.diff(np.rint(np.linspace(0, n, n_batches + 1)).astype(np.int64))
        for n in counts.sum(axis=(1, 2))
    ]
    size = block_size(int(counts.sum()))
    designs = [
        BlockDesign.of(int(treated), int(control), size=size, pilot=False)
        for control, treated in zip(*batches, strict=True)
    ]
    mixed = histogram.low < histogram.high

    def rows_of(seed: np.random.SeedSequence) -> Iterator[BetRows]:
        left, rng = counts, np.random.default_rng(seed)
        # Without replacement: a dealing uses each row once.
        for sizes in zip(*batches, strict=True):
            drawn = _draw(left, sizes, rng)
            left = left - drawn
            yield _bet_rows(drawn, mixed if mixed.any() else None)

    lower, bin_gap = one_size_bounds(pilot, designs, rows_of, level, n_dealings, then)
    estimates = _estimates(histogram, pilot.shift)
    auuc, gain = (
        LowerBound("betting-fixed", lower=low, estimate=estimate, delta=delta)
        for low, estimate in zip(lower, estimates, strict=True)
    )
    return auuc, gain, bin_gap


def pilot_rows(n_treated: int, n_control: int, scale: int = 1) -> tuple[int, int]:
    """How many units of each arm the pilot takes: 1%, some 20 at least, and half at most.

    ``scale``: so many times as many, up to a thousand.
    """
    share = min(0.5, scale * max(0.01, 20 / (n_treated + n_control)))
    return min(1000, int(share * n_treated)), min(1000, int(share * n_control))


def _counts(histogram: BinnedLevels) -> NDArray[np.int64]:
    """(2, 2, B): rows of the control and the treated arm, by outcome 0 and 1, in each bin."""
    rows, responders = histogram.sums[:, :, 0], histogram.sums[:, :, 1]
    return np.stack([rows - responders, responders], axis=1).astype(np.int64)


def _pilot_of(
    counts: NDArray[np.int64], rng: np.random.Generator
) -> tuple[Pilot, NDArray[np.int64]]:
    """Draw the rows of the pilot; return what they show, and the counts of the other rows."""
    control, treated = counts.sum(axis=(1, 2)).tolist()
    taken = _draw(counts, pilot_rows(treated, control)[::-1], rng)
    rows = _bet_rows(taken, None)
    is_treated = np.arange(len(rows.residual)) < len(rows.units.treated)
    return Pilot.of(rows.residual, is_treated), counts - taken


def _draw(
    counts: NDArray[np.int64], sizes: Sequence[int], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw so many rows of each arm at random, without replacement; counts as those given."""
    return np.array(
        [
            rng.multivariate_hypergeometric(arm.ravel(), int(size), method="marginals")
            for arm, size in zip(counts, sizes, strict=True)
        ]
    ).reshape(counts.shape)


def _bet_rows(counts: NDArray[np.int64], mixed: Bools | None) -> BetRows:
    """Rows with these counts, the treated ones first."""
    levels = np.arange(counts.shape[2], dtype=np.int32)
    arms = counts[::-1]
    ranks = np.concatenate([np.repeat(np.tile(levels, 2), arm.ravel()) for arm in arms])
    outcomes = [np.repeat([0.0, 1.0], arm.sum(axis=1)) for arm in arms]
    residual = np.concatenate(outcomes)
    return BetRows(
        ranks[None], residual, DealtUnits.of(np.arange(len(residual)) < len(outcomes[0])), mixed
    )


def _estimates(histogram: BinnedLevels, shift: float) -> tuple[float, float]:
    """AUUC and gain of what was bet on, outcomes minus ``shift``."""
    rows, responders = histogram.sums[:, :, 0], histogram.sums[:, :, 1]
    sums = (responders - shift * rows) / rows.sum(axis=1, keepdims=True)
    below = histogram.below()[0]
    auuc, gain = (float((sums[1] - sums[0]) @ (below - centre)) for centre in CENTRES)
    return auuc, gain
