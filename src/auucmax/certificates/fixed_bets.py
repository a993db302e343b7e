"""Bets of constant size: bounds for one score, binned scores, or many models.

Fix a value theta_0 and a size of bet lambda on a pilot, rows that are not bet on. With N blocks, w
their statistics (``blocks.py``) and W = product over blocks of 1 + lambda (w - theta_0),

    mean over blocks of theta >= theta_0 + (ln W - ln(1/delta)) / (lambda N)

with probability 1 - delta, where theta is the target of the score that ranks the block: the same
for all of them, or that of another model for each chunk of rows. W may be
the mean over dealings, and smaller than it could be. The proof is in docs/guarantees.md; the bound
is about sqrt(2 ln(1/delta)) / z, half as much again, as wide as that of ``betting.py``.

**Bins.** The pilot reads outcomes and treatments only, so no bet depends on how rows are ranked.
That is why bins of scores may be cut by looking at these very scores: where rows of a bin share a
block, each pair of them is assumed to be in the worse order, which makes w, and so W, no larger
than with the exact scores, whatever the bins.

**Progressive validation** certifies models on each chunk before they are trained on it. Rows are
assigned to chunks at random. Model k was trained on the chunks before chunk k and is judged on
chunk k, so every row but those of the first chunk is bet on, and every model may be as greedy as
it likes. What is certified is the mean of theta_k, the AUUC (or the gain) of model k, over the
blocks of all chunks, by bets that chunk 0 decides: 1 + x <= exp(x) turns the mean of each factor,
1 + lambda (theta_k - theta_0), into a power whose exponents add up, whatever the models.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from auucmax._errors import InputError
from auucmax._progress import track
from auucmax._validation import (
    Bools,
    Floats,
    check_chance,
    check_column,
    check_labels,
    check_mask,
)
from auucmax.certificates.blocks import (
    CENTRES,
    NEARER,
    ArmMeans,
    BlockDesign,
    DealtUnits,
    block_size,
    check_dealings,
    check_whole_clusters,
    deal,
    dense_ranks,
    known_range,
    propensity_range,
)
from auucmax.certificates.types import Guarantee, LowerBound, shared_level
from auucmax.metrics.bins import BinnedLevels

LARGEST_LOSS = 0.9  #: share of the wealth that one block may cost
#: AUUC and gain of any score are at least minus these: ranks are uniform, outcomes in [0, 1].
LEAST = (-0.5, -0.25)
MOST_ROWS = 20_000_000  #: of a histogram, in each dealing
_BATCH = 1_000_000  # rows of a histogram that are assigned together
PRIOR_ROWS = 3  #: prior rows with this variance stabilise guesses
PRIOR_VARIANCE = 0.1
Chunk = tuple[ArrayLike, ArrayLike | None, ArrayLike]


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
    shifted = histogram.ranked.less(pilot.shift)
    estimates = shifted.area(), shifted.area() - shifted.effect() / 2
    auuc, gain = (
        LowerBound("betting-fixed", low, estimate, delta)
        for low, estimate in zip(lower, estimates, strict=True)
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


@dataclass(frozen=True, repr=False, kw_only=True)
class ProgressiveCertificate(Guarantee):
    """Lower bounds of the mean AUUC and gain of models trained on growing data.

    ``lower_bound`` (AUUC) and ``gain_lower_bound`` (AUUC - ATE/2) hold *each* with probability
    1 - ``delta``; both at once only if ``joint``. ``n_models`` models were judged, trained on the
    shares ``trained_on`` (lowest, highest) of all rows.
    """

    lower_bound: float
    gain_lower_bound: float
    joint: bool
    n_models: int
    trained_on: tuple[float, float]


def progressive_certificate(
    chunks: Sequence[Chunk],
    *,
    delta: float = 0.05,
    joint: bool = False,
    n_candidates: int = 1,
    outcome_range: tuple[float, float] | None = None,
    groups: Sequence[ArrayLike] | None = None,
    propensity: Sequence[ArrayLike] | None = None,
    n_dealings: int | None = None,
    random_state: int = 0,
) -> ProgressiveCertificate:
    """Certify the average AUUC and gain of the models of progressive validation.

    Parameters
    ----------
    chunks : (y, score, treated) of each chunk, rows assigned to chunks at random. The first chunk
        has no score (None) and is not bet on; the scores of chunk k come from a model, with all
        its choices, that was trained on the chunks before it.
    delta : probability with which a bound may fail; ``joint``: both bounds at once, at delta/2.
    n_candidates : number of training methods among which this one was chosen on these rows.
    outcome_range : lowest and highest possible outcome, known beforehand; outcomes that are not
        0/1 cannot do without it.
    groups : cluster of each row, an array for each chunk; clusters lie in one chunk and one arm,
        and count equally whatever their size.
    propensity : known chance of treatment of each row, an array for each chunk, where it was not
        the same for all; each row was treated by an independent draw. Bets are then on
        Horvitz-Thompson statistics. Chances less than .8 times as far from 0 and 1 as those of
        the first chunk are refused: the size of bets must not depend on the rows that are bet on.
    n_dealings : number of dealings of rows into blocks (default: 20 up to 250 thousand rows, then
        fewer, 2 at least).
    random_state : seed of the dealings.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> chunk = np.random.default_rng(0).integers(5, size=trial.n_rows)
    >>> rows = [(trial.y[chunk == k], trial.treated[chunk == k]) for k in range(5)]
    >>> women = [trial.X["womens"][chunk == k] for k in range(5)]  # in place of four models
    >>> chunks = [(y, women[k] if k else None, t) for k, (y, t) in enumerate(rows)]
    >>> progressive_certificate(chunks).gain_lower_bound > 0.003
    True
    """
    level = shared_level(delta, n_candidates) / (2 if joint else 1)
    sizes = [np.size(y) for y, _, _ in chunks]
    has_score = [score is not None for _, score, _ in chunks]
    if len(sizes) < 2 or has_score != [k > 0 for k in range(len(sizes))]:
        raise InputError(
            "chunks", "at least two, with None in chunk 0, before any model is fitted, and scores "
            "in all others",
            f"{len(sizes)} with scores in chunks {np.flatnonzero(has_score).tolist()}",
            "Score chunk k with the model of the chunks before it.",
        )  # fmt: skip

    def joined(name: str, parts: Sequence[Any]) -> NDArray[Any]:
        if [np.size(part) for part in parts] != sizes:
            raise InputError(
                name, f"one array for each of the {len(sizes)} chunks, with a value a row",
                f"arrays of {', '.join(str(np.size(part)) for part in parts)} rows",
                "Cut the column as the rows were cut.",
            )  # fmt: skip
        return np.concatenate(parts)

    y = check_column(joined("y", [y for y, _, _ in chunks]), "y")
    n_rows = len(y)
    scores = [np.zeros(sizes[0]), *(score for _, score, _ in chunks[1:])]
    score = check_column(joined("score", scores), "score", n_rows)
    treated = check_mask(joined("treated", [arms for _, _, arms in chunks]), "treated", n_rows)
    chance = clusters = None
    if propensity is not None:
        chance = check_chance(joined("propensity", propensity), n_rows)
    if groups is not None:
        labels = check_labels(joined("groups", groups), "groups", n_rows)
        clusters = np.unique(labels, return_inverse=True)[1]
        check_whole_clusters(clusters, np.repeat(np.arange(len(sizes)), sizes), "chunk")
    if outcome_range is None and not np.isin(y, (0, 1)).all():
        raise InputError(
            "outcomes", "0/1, or given with outcome_range=(lowest, highest), as they are possible",
            f"outcomes from {y.min():g} to {y.max():g} and no range",
            "Pass it, or use the interval of auuc_inference, which is no guarantee.",
        )  # fmt: skip
    low, high = known_range(outcome_range or (0.0, 1.0), y.min(), y.max())
    y = (y - low) / (high - low)
    n_dealings, seed = check_dealings(n_dealings, n_rows, random_state)
    ends = np.cumsum([0, *sizes])
    first, *later = [slice(start, stop) for start, stop in pairwise(ends.tolist())]
    pilot = Pilot.of(y[first], treated[first], None if chance is None else chance[first])
    y = pilot.outcomes(y, treated, chance)
    rows, judged = [], []
    for k, part in enumerate(later):
        units = DealtUnits.of(treated[part], None if clusters is None else clusters[part])
        if chance is not None:  # blocks may not depend on treatment
            units = units.as_one_arm()
        if np.greater_equal(units.counts, (1, 1) if chance is None else (2, 0)).all():
            rows.append(BetRows(dense_ranks(score[part])[None], y[part], units))
            judged.append(k)
    bounds = list(LEAST)
    if judged:
        bounds, _ = one_size_bounds(pilot, rows, level, n_dealings, seed)
    shares = (ends[1:] / n_rows)[judged].tolist() or [0.0]
    return ProgressiveCertificate(
        lower_bound=bounds[0] * (high - low),
        gain_lower_bound=bounds[1] * (high - low),
        delta=delta,
        joint=joint,
        n_rows=sum(len(own.residual) for own in rows),
        n_models=len(judged),
        trained_on=(shares[0], shares[-1]),
        outcome_range=(low, high),
        n_candidates=n_candidates,
        propensity=propensity_range(chance),
        grouped=groups is not None,
    )
