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
from collections.abc import Iterable, Sequence
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
from auucmax.certificates.known_chances import NEARER, ArmMeans
from auucmax.metrics.bins import BinnedLevels

LARGEST_LOSS = 0.9  #: share of the wealth that one block may cost
#: AUUC and gain of any score are at least minus these: ranks are uniform, outcomes in [0, 1].
LEAST = (-0.5, -0.25)
MOST_ROWS = 20_000_000  #: of a histogram, in each dealing
_BATCH = 1_000_000  # rows of a histogram that are dealt together
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
    the lower number of ``adjustment``. ``variances``: of a treated and of a control row. ``means``:
    where propensities are known and differ; then all rows are one arm, whose outcomes are effects.
    """

    shift: float
    effect: float
    variances: tuple[float, float]
    adjustment: tuple[float, float]
    means: ArmMeans | None = None

    @classmethod
    def of(
        cls,
        residual: Floats,
        treated: Bools,
        chance: Floats | None = None,
        adjustment: tuple[float, float] | None = None,
    ) -> Pilot:
        """Estimate from pilot rows; ``adjustment``: range of a subtracted outcome model."""
        if chance is not None:
            means = ArmMeans.of(residual, treated, chance)
            least = float(means.least.min())
            means = means._replace(least=np.full(2, least))
            h = means.effects(residual, treated, chance)[:, 1]
            prior = PRIOR_ROWS * PRIOR_VARIANCE * NEARER / least
            square = (float(h @ h) + prior) / (len(h) + PRIOR_ROWS)
            # |h| is largest where the rarer arm was drawn.
            largest = float(max(means.mean.max(), 1 - means.mean.min())) / least
            effect = float(means.mean[1] - means.mean[0])
            return cls(0.0, effect, (square, 0.0), (1 - largest, largest), means)
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

    def outcomes(self, residual: Floats, treated: Bools, chance: Floats | None) -> Floats:
        """Outcomes to bet on: residuals, or effects where propensities are known."""
        if chance is None:
            return residual
        assert self.means is not None
        return self.means.effects(residual, treated, chance)[:, 1]

    def stake(self, designs: Sequence[BlockDesign], centre: float, level: float) -> Stake:
        """The optimal bet if ranks and outcomes were independent."""
        sizes = np.hstack([design.sizes for design in designs])
        inverse = 1 / np.where(sizes > 0, sizes, np.inf)
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
    parts: Sequence[BetRows],
    level: float,
    n_dealings: int,
    seed: np.random.SeedSequence,
) -> tuple[list[float], float]:
    """Bounds of AUUC and gain for outcomes in [0, 1], with the cost of binning.

    ``parts``: the rows, in chunks.
    """
    from auucmax.certificates import kernels

    # One size for all chunks, so that the mean over blocks is that over rows.
    size = block_size(sum(sum(part.units.counts) for part in parts))
    designs = [BlockDesign.of(*part.units.counts, size=size, pilot=False) for part in parts]
    stakes = [pilot.stake(designs, centre, level) for centre in CENTRES]
    n_blocks = sum(design.n_blocks for design in designs)

    def play(seed: np.random.SeedSequence) -> Floats:
        result = np.zeros(3)  # ln W of AUUC and of gain, and what bins take off
        seeds = seed.spawn(len(parts) + 1)[1:]
        for part, design, own in zip(parts, designs, seeds, strict=True):
            rows = part.ranks, np.ones(1), part.residual, pilot.shift, part.units
            w = deal(*rows, design, own, part.mixed)
            for target, stake in enumerate(stakes):
                above = np.maximum(w[target], -stake.floor) if len(w) > 2 else w[target]
                bet = np.array([stake.bet])
                won = kernels.log_wealth(above, design.superblocks, stake.theta, bet)
                result[target] += won.sum()
            if len(w) > 2:
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
    rows, responders = histogram.sums[:, :, 0], histogram.sums[:, :, 1]
    counts = np.stack([rows - responders, responders], axis=1).astype(np.int64)
    n_rows = int(counts.sum())
    n_dealings, seed = check_dealings(n_dealings, n_rows, random_state)
    first, then = seed.spawn(2)
    rng = np.random.default_rng(first)
    if n_rows > MOST_ROWS:  # a coin for each row: it looks at nothing
        counts = rng.binomial(counts, MOST_ROWS / n_rows)
    n_control, n_treated = counts.sum(axis=(1, 2)).tolist()
    drawn = _draw(counts, pilot_rows(n_treated, n_control)[::-1], rng)
    counts = counts - drawn
    known = _bet_rows(drawn)
    pilot = Pilot.of(known.residual, np.arange(len(known.residual)) < len(known.units.treated))
    mixed = histogram.low < histogram.high
    # Sizes depend on the numbers of rows only, as the proof asks.
    n_batches = -int(-counts.sum() // _BATCH)
    ends = np.rint(np.linspace(0, counts.sum(axis=(1, 2)), n_batches + 1)).astype(np.int64)
    parts = []
    for sizes in np.diff(ends, axis=0):
        drawn = _draw(counts, sizes, rng)
        counts = counts - drawn
        parts.append(_bet_rows(drawn)._replace(mixed=mixed if mixed.any() else None))
    lower, bin_gap = one_size_bounds(pilot, parts, level, n_dealings, then)
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


def _draw(
    counts: NDArray[np.int64], sizes: Iterable[int], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw rows of each arm at random without replacement, as counts."""
    return np.array(
        [
            rng.multivariate_hypergeometric(arm.ravel(), int(size), method="marginals")
            for arm, size in zip(counts, sizes, strict=True)
        ]
    ).reshape(counts.shape)


def _bet_rows(counts: NDArray[np.int64]) -> BetRows:
    """Expand counts to rows, the treated ones first."""
    levels = np.arange(counts.shape[2], dtype=np.int32)
    arms = counts[::-1]
    ranks = np.concatenate([np.repeat(np.tile(levels, 2), arm.ravel()) for arm in arms])
    residual = np.repeat([0.0, 1.0, 0.0, 1.0], arms.sum(axis=2).ravel())
    treated = np.arange(len(residual)) < arms[0].sum()
    return BetRows(ranks[None], residual, DealtUnits.of(treated))
