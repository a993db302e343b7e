"""Bets of constant size: bounds for one score, binned scores, or many models.

Fix a value theta_0 and a size of bet lambda on a pilot, rows that are not bet on. With N blocks, w
their statistics (``blocks.py``) and W = product over blocks of 1 + lambda (w - theta_0),

    mean over blocks of theta >= theta_0 + (ln W - ln(1/delta)) / (lambda N)

with probability 1 - delta, where theta is the target of the score that ranks the block: the same
for all of them, or that of another model for each chunk of rows (``progressive.py``). W may be
the mean over dealings, and smaller than it could be. The proof is in docs/guarantees.md; the bound
is about sqrt(2 ln(1/delta)) / z, half as much again, as wide as that of ``betting.py``.

**Bins.** The pilot reads outcomes and treatments only, so no bet depends on how rows are ranked.
That is why bins of scores may be cut by looking at these very scores: where rows of a bin share a
block, each pair of them is assumed to be in the worse order, which makes w, and so W, no larger
than with the exact scores, whatever the bins.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from auucmax._progress import track
from auucmax._validation import Bools, Floats
from auucmax.certificates.blocks import (
    CENTRES,
    BlockDesign,
    DealtUnits,
    block_size,
    check_dealings,
    deal,
)
from auucmax.certificates.bound import LowerBound, shared_level
from auucmax.metrics.bins import BinnedLevels

LARGEST_LOSS = 0.9  #: share of the wealth that one block may cost
#: AUUC and gain of any score are at least minus these: ranks are uniform, outcomes in [0, 1].
LEAST = (-0.5, -0.25)
MOST_ROWS = 20_000_000  #: of a histogram, in each dealing
_BATCH = 1_000_000  # rows of a histogram that are in memory together
PRIOR_ROWS = 3  #: so many rows of an outcome with this variance keep guesses sane
PRIOR_VARIANCE = 0.1


class BetRows(NamedTuple):
    """Rows ranked by one score: dense ranks (1, n), residuals, and units of the blocks.

    ``mixed`` (levels,): whether rows of equal rank may differ in their exact scores; None: no.
    """

    ranks: NDArray[np.int32]
    residual: Floats
    units: DealtUnits
    mixed: Bools | None = None


class Pilot(NamedTuple):
    """Quantities fixed before the first bet, from pilot rows that are not bet on.

    ``shift`` is taken off the residuals; after that they lie between minus the higher and 1 minus
    the lower number of ``adjustment``. ``variances``: of a treated and of a control row.
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
        shift = 0.0
        if adjustment is None:
            shift = float((residual.sum() + 0.5) / (len(residual) + 1))
            adjustment = shift, shift
        arms = residual[treated], residual[~treated]
        treated_variance, control_variance = (
            float(((arm - shift) ** 2).sum() + PRIOR_ROWS * PRIOR_VARIANCE)
            / (len(arm) + PRIOR_ROWS)
            for arm in arms
        )
        effect = float(arms[0].mean() - arms[1].mean()) if all(map(len, arms)) else 0.0
        return cls(shift, effect, (treated_variance, control_variance), adjustment)

    def stake(self, designs: Sequence[BlockDesign], centre: float, level: float) -> Stake:
        """The optimal bet if ranks and outcomes were independent."""
        sizes = np.hstack([design.sizes for design in designs])
        inverse = np.divide(1.0, sizes, out=np.zeros(sizes.shape), where=sizes > 0)
        spread = 1 / 12 + (0.5 - centre) ** 2  # mean square of a uniform rank around the centre
        variance = spread * (np.array(self.variances) @ inverse).sum()
        floor = max(design.floor(centre, self.adjustment) for design in designs)
        # What a random order has: factors differ little from 1 at any small distance from it.
        theta = max((1 - 2 * centre) * self.effect / 2, -0.25)
        return Stake(theta, float(best_bet(variance, level, floor + theta)), floor)


class Stake(NamedTuple):
    """The null value theta_0, the bet lambda, and the floor -phi of the statistics."""

    theta: float
    bet: float
    floor: float


def best_bet(variance: Any, level: float, largest_loss: Any) -> Any:
    """The optimal bet for a sum of blocks with this variance.

    ``largest_loss``: what a block may be below theta_0.
    """
    return np.minimum(np.sqrt(2 * np.log(1 / level) / variance), LARGEST_LOSS / largest_loss)


def one_size_bounds(
    pilot: Pilot,
    unit_counts: Sequence[tuple[int, int]],
    rows_of: Callable[[np.random.SeedSequence], Iterable[BetRows]],
    level: float,
    n_dealings: int,
    seed: np.random.SeedSequence,
) -> tuple[list[float], float]:
    """Bounds of AUUC and gain for outcomes in [0, 1], with the cost of binning.

    ``rows_of(seed)`` gives the rows of one dealing in chunks, ``unit_counts`` the treated and
    control units of each.
    """
    from auucmax.certificates import kernels

    # One size for all chunks, so that the mean over blocks is that over rows.
    size = block_size(sum(map(sum, unit_counts)))
    designs = [BlockDesign.of(*counts, size=size, pilot=False) for counts in unit_counts]
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

    with ThreadPoolExecutor(min(n_dealings, os.cpu_count() or 1)) as pool:
        played = pool.map(play, seed.spawn(n_dealings))
        results = np.array(list(track(played, n_dealings, "betting on blocks")))
    bounds = [
        max(least, wealth_bound(results[:, target], stake, n_blocks, level))
        for target, (least, stake) in enumerate(zip(LEAST, stakes, strict=True))
    ]
    return bounds, float(results[:, 2].mean())


def wealth_bound(log_wealth: Floats, stake: Stake, n_blocks: int, level: float) -> float:
    """Lower bounds that follow from the log wealth of each partition."""
    mean = logsumexp(log_wealth) - np.log(len(log_wealth))
    return float(stake.theta + (mean + np.log(level)) / (stake.bet * n_blocks))


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
    level = shared_level(delta, n_candidates)
    counts = _counts(histogram)
    n_rows = int(counts.sum())
    n_dealings, seed = check_dealings(n_dealings, n_rows, random_state)
    first, then = seed.spawn(2)
    rng = np.random.default_rng(first)
    if n_rows > MOST_ROWS:  # a coin for each row: it looks at nothing
        counts = rng.binomial(counts, MOST_ROWS / n_rows)
    n_control, n_treated = counts.sum(axis=(1, 2)).tolist()
    drawn = _draw(counts, pilot_rows(n_treated, n_control)[::-1], rng)
    counts = counts - drawn
    known = _bet_rows(drawn, None)
    pilot = Pilot.of(known.residual, np.arange(len(known.residual)) < len(known.units.treated))
    n_batches = -int(-counts.sum() // _BATCH)
    # Sizes depend on the numbers of rows only, as the proof asks.
    batches = [
        np.diff(np.rint(np.linspace(0, n, n_batches + 1)).astype(np.int64)).tolist()
        for n in counts.sum(axis=(1, 2))
    ]
    mixed = histogram.low < histogram.high

    def rows_of(seed: np.random.SeedSequence) -> Iterator[BetRows]:
        left, rng = counts, np.random.default_rng(seed)
        # Without replacement: a dealing uses each row once.
        for sizes in zip(*batches, strict=True):
            drawn = _draw(left, sizes, rng)
            left = left - drawn
            yield _bet_rows(drawn, mixed if mixed.any() else None)

    unit_counts = list(zip(batches[1], batches[0], strict=True))
    lower, bin_gap = one_size_bounds(pilot, unit_counts, rows_of, level, n_dealings, then)
    rows, responders = histogram.sums[:, :, 0], histogram.sums[:, :, 1]
    sums = (responders - pilot.shift * rows) / rows.sum(axis=1, keepdims=True)
    auuc, gain = (
        LowerBound(
            "betting-fixed",
            lower=low,
            estimate=float((sums[1] - sums[0]) @ (histogram.below() - centre)),
            delta=delta,
        )
        for low, centre in zip(lower, CENTRES, strict=True)
    )
    return auuc, gain, bin_gap


def pilot_rows(n_treated: int, n_control: int, scale: int = 1) -> tuple[int, int]:
    """Number of pilot units per arm: 1%, at least about 20, at most half.

    ``scale``: so many times as many, up to a thousand.
    """
    share = min(0.5, scale * max(0.01, 20 / (n_treated + n_control)))
    return min(1000, int(share * n_treated)), min(1000, int(share * n_control))


def _counts(histogram: BinnedLevels) -> NDArray[np.int64]:
    """Counts of rows by arm, 0/1 outcome and bin, (2, 2, bins)."""
    rows, responders = histogram.sums[:, :, 0], histogram.sums[:, :, 1]
    return np.stack([rows - responders, responders], axis=1).astype(np.int64)


def _draw(
    counts: NDArray[np.int64], sizes: Sequence[int], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw rows of each arm at random without replacement, as counts."""
    return np.array(
        [
            rng.multivariate_hypergeometric(arm.ravel(), int(size), method="marginals")
            for arm, size in zip(counts, sizes, strict=True)
        ]
    ).reshape(counts.shape)


def _bet_rows(counts: NDArray[np.int64], mixed: Bools | None) -> BetRows:
    """Expand counts to rows, the treated ones first."""
    levels = np.arange(counts.shape[2], dtype=np.int32)
    arms = counts[::-1]
    ranks = np.concatenate([np.repeat(np.tile(levels, 2), arm.ravel()) for arm in arms])
    residual = np.repeat([0.0, 1.0, 0.0, 1.0], arms.sum(axis=2).ravel())
    treated = np.arange(len(residual)) < arms[0].sum()
    return BetRows(ranks[None], residual, DealtUnits.of(treated), mixed)
