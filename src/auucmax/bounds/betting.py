"""Block betting: lower bounds on AUUC and on the gain over random that hold for every sample size.

For a value theta, start with wealth 1 and bet on block after block (``blocks.py``) that its
statistic is above theta: wealth times 1 + lambda (w - theta), lambda chosen before the block is
seen. If the truth is at most theta, wealth does not grow on average whatever lambda is, so by
Markov it reaches 1/delta with probability at most delta; theta is *rejected* when it does. The
bound is the largest value of a grid that is rejected together with all smaller ones.

**Bets.** ``"hedged"``: the bets that replicate a digital option, which pays 1/delta exactly when
the sum of the blocks ends above its 1 - delta quantile. With progress q = delta wealth, z its
normal quantile, s the deviation of a block and R the number of blocks left,

    lambda = normal density(z) / (q s sqrt(R)).

Its width comes to that of the normal interval, and the proof uses neither normality nor s.
``"fixed"``: one lambda for all blocks, sqrt(2 ln(1/delta) / (s^2 K)), s from the pilot; wider by
about sqrt(2 ln(1/delta)) / z, but rejection is monotone in theta and there is no grid.

**Dealings.** One dealing of rows into blocks leaves luck in the bound, and with it a temptation to
try seeds. So wealth is averaged over ``n_dealings`` dealings, which keeps its expectation at most
1; hedges aim at 1 / (.75 delta) so that a few unlucky dealings do not matter.

The proofs, and what is assumed, are in docs/guarantees.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri_exp

from auucmax._progress import track
from auucmax._validation import (
    Floats,
    Rows,
    check_choice,
    check_column,
    check_groups,
    check_level,
    check_rows,
    check_whole,
)
from auucmax.bounds.blocks import BlockDesign, Dealing, Units, deal
from auucmax.bounds.lower_bound import LowerBound
from auucmax.bounds.registry import Bound
from auucmax.evaluation.metrics import auuc_score
from auucmax.evaluation.ranking import rank_rows

__all__ = ["BETTING_BOUNDS", "betting_bound", "betting_difference_bound", "hedged_wealth_slow"]

TARGETS = {"auuc": 0.0, "gain": 0.5}
LARGEST_LOSS = 0.9  #: share of the wealth that one block may cost
AIM = 0.75  #: hedges aim at 1 / (AIM delta)
GRID_STEP = 0.04  #: in standard deviations of the whole estimate
GRID_REACH = 6  #: how far below the pilot the grid starts, in its standard deviations
_CHUNK = 16  # thetas that are tried together


def betting_bound(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    target: str = "gain",
    delta: float = 0.05,
    bets: str = "hedged",
    outcome_range: tuple[float, float] = (0.0, 1.0),
    outcome_model: ArrayLike | None = None,
    outcome_model_range: tuple[float, float] | None = None,
    groups: ArrayLike | None = None,
    n_candidates: int = 1,
    n_dealings: int = 20,
    random_state: int = 0,
    control: Any = None,
) -> LowerBound:
    """Lower bound on the population AUUC, or on the gain over random, by betting on blocks.

    ``estimate`` is that of the outcome minus its mean in the pilot (or minus ``outcome_model``):
    the same target as :func:`auucmax.auuc_score`, with less noise.

    Parameters
    ----------
    y, score, treatment : (n,) held-out rows; the score must not have been fitted on them.
    target : "gain" (AUUC - ATE/2) or "auuc".
    bets : "hedged", or "fixed".
    outcome_range : lowest and highest possible outcome, known beforehand.
    outcome_model : (n,) predictions of y, whatever the arm, by a model fitted on other rows; makes
        the bound narrower where they predict well. Clipped to ``outcome_model_range``, which must
        be known beforehand too (default: ``outcome_range``; narrower is better).
    groups : (n,) cluster of each row; clusters lie in one arm and count equally, whatever their
        size: the target is that of a random member of a random cluster.
    n_candidates : how many scores this one was chosen from on these rows.
    n_dealings, random_state : of rows into blocks.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> bound = betting_bound(trial.y, trial.X["womens"], treatment=trial.treatment)
    >>> bool(0.005 < bound.lower < bound.estimate < 0.008)
    True
    """
    check_choice(target, "target", TARGETS)
    rows = check_rows(y, score, treatment=treatment, control=control)
    game = _Game.of(
        rows,
        [rows.score],
        TARGETS[target],
        outcome_range,
        outcome_model,
        outcome_model_range,
        groups,
    )
    lower, shift = game.play(_level(delta, n_candidates), bets, n_dealings, random_state)
    estimate = _estimate(rows, game, shift, TARGETS[target])
    return LowerBound("betting", lower=lower, estimate=estimate, delta=delta)


def betting_difference_bound(
    y: ArrayLike,
    score_a: ArrayLike,
    score_b: ArrayLike,
    *,
    treatment: ArrayLike,
    delta: float = 0.05,
    bets: str = "hedged",
    outcome_range: tuple[float, float] = (0.0, 1.0),
    groups: ArrayLike | None = None,
    n_candidates: int = 1,
    n_dealings: int = 20,
    random_state: int = 0,
    control: Any = None,
) -> LowerBound:
    """Lower bound on the population AUUC of score a minus that of score b; arguments as above.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> a, b = trial.X["womens"], trial.X["newbie"]
    >>> bound = betting_difference_bound(trial.y, a, b, treatment=trial.treatment)
    >>> bool(0 < bound.lower < bound.estimate < 0.007)
    True
    """
    rows = check_rows(y, score_a, treatment=treatment, control=control, score_name="score_a")
    other = check_rows(y, score_b, treatment=treatment, control=control, score_name="score_b")
    scores = [rows.score, other.score]
    # The centre cancels in the difference; around 1/2 the two floors are smallest.
    game = _Game.of(rows, scores, 0.5, outcome_range, None, None, groups)
    lower, shift = game.play(_level(delta, n_candidates), bets, n_dealings, random_state)
    estimate = _estimate(rows, game, shift, 0.5) - _estimate(other, game, shift, 0.5)
    return LowerBound("betting-difference", lower=lower, estimate=estimate, delta=delta)


def _level(delta: float, n_candidates: int) -> float:
    check_level(delta, "delta")
    return delta / check_whole(n_candidates, "n_candidates", 1)


def _estimate(rows: Rows, game: _Game, shift: float, centre: float) -> float:
    """AUUC minus ``centre`` times ATE of what was bet on; each cluster has a total weight of 1."""
    weight = None
    if game.clusters is not None:
        weight = 1 / np.bincount(game.clusters)[game.clusters]
    y = (game.residual - shift) * game.unit
    auuc = auuc_score(y, rows.score, treatment=rows.treated, sample_weight=weight)
    # A constant score has exactly ATE/2.
    half = auuc_score(y, np.zeros(len(y)), treatment=rows.treated, sample_weight=weight)
    return auuc - 2 * centre * half


@dataclass(frozen=True)
class _Game:
    """Everything that is known before the first bet."""

    ranks: NDArray[np.int32]
    residual: Floats
    units: Units
    clusters: NDArray[np.intp] | None
    centre: float
    adjustment: tuple[float, float] | None
    unit: float

    @classmethod
    def of(
        cls,
        rows: Rows,
        scores: list[Floats],
        centre: float,
        outcome_range: tuple[float, float],
        outcome_model: ArrayLike | None,
        model_range: tuple[float, float] | None,
        groups: ArrayLike | None,
    ) -> _Game:
        low, high = _check_range(outcome_range, "outcome_range")
        if rows.y.min() < low or rows.y.max() > high:
            raise ValueError(
                f"y should lie in the range that is known beforehand, {low:g} to {high:g}; got "
                f"{rows.y.min():g} to {rows.y.max():g}. Pass outcome_range=(lowest, highest) as "
                f"they are possible, not as they came out, or use method='asymptotic'."
            )
        unit = high - low
        residual, adjustment = (rows.y - low) / unit, None
        if outcome_model is None and model_range is not None:
            raise ValueError(
                "outcome_model_range should come with outcome_model, got it alone. Pass "
                "predictions, or leave it out."
            )
        if outcome_model is not None:
            given = (low, high) if model_range is None else model_range
            clip = _check_range(given, "outcome_model_range")
            clip = max(clip[0], low), min(clip[1], high)
            if clip[0] > clip[1]:
                raise ValueError(
                    f"outcome_model_range should meet the range of outcomes, {low:g} to {high:g}; "
                    f"got {given!r}. Predictions are clipped to it."
                )
            predicted = check_column(outcome_model, "outcome_model", len(rows.y))
            residual = residual - (np.clip(predicted, *clip) - low) / unit
            adjustment = (clip[0] - low) / unit, (clip[1] - low) / unit
        clusters = None if groups is None else check_groups(groups, len(rows.y))
        ranks = np.array([_dense_ranks(score) for score in scores], dtype=np.int32)
        units = Units.of(rows.treated, clusters)
        return cls(ranks, residual, units, clusters, centre, adjustment, unit)

    def floor(self, design: BlockDesign, adjustment: tuple[float, float]) -> float:
        """No block statistic is below minus this; for a difference, the two floors together."""
        floor = design.floor(self.centre, adjustment)
        if len(self.ranks) == 2:  # minus the statistic is that with the arms swapped
            swapped = BlockDesign(design.ends[::-1], design.superblocks, design.n_redealings)
            floor += swapped.floor(self.centre, adjustment)
        return floor

    def play(
        self, delta: float, bets: str, n_dealings: int, random_state: int | None
    ) -> tuple[float, float]:
        """The bound, in the units of y, and what was taken off the residuals."""
        check_choice(bets, "bets", ("hedged", "fixed"))
        n_dealings = check_whole(n_dealings, "n_dealings", 1)
        if random_state is not None:
            random_state = check_whole(random_state, "random_state", 0)
        with ThreadPoolExecutor(min(n_dealings, os.cpu_count() or 1)) as pool:
            dealings, floor, shift = self.deal(n_dealings, random_state, pool.map)
            search = _climb if bets == "hedged" else _bisect
            lower = search(dealings, floor, delta, self.centre, pool.map)
        return lower * self.unit, shift

    def deal(
        self, n_dealings: int, random_state: int | None, parallel: Callable[..., Any]
    ) -> tuple[list[Dealing], float, float]:
        """All dealings, their floor, and the shift of the residuals."""
        design = BlockDesign.of(len(self.units.treated), len(self.units.control))
        first, *others = np.random.SeedSequence(random_state).spawn(n_dealings + 1)
        units = self.units.shuffled(first)
        signs = np.array([1.0, -1.0])[: len(self.ranks)]
        shift, adjustment = 0.0, self.adjustment
        if adjustment is None:  # the simplest model of the outcome: its mean in the pilot
            shift = float(self.residual[units.rows_of_first(*design.pilot_units())].mean())
            adjustment = shift, shift

        def one(seed: np.random.SeedSequence) -> Dealing:
            return deal(self.ranks, signs, self.residual, shift, units, design, self.centre, seed)

        dealt = track(parallel(one, others), n_dealings, "dealing rows into blocks")
        return list(dealt), self.floor(design, adjustment), shift


def _climb(
    dealings: list[Dealing], floor: float, delta: float, centre: float, parallel: Callable[..., Any]
) -> float:
    """The largest grid value rejected together with all smaller ones, or minus the floor."""
    from auucmax.bounds import kernels

    design = dealings[0].design
    n_pilot, n_blocks = int(design.superblocks[0]), design.ends.shape[1]
    if n_blocks == n_pilot:
        return -floor
    deviations = [dealing.deviations(centre) for dealing in dealings]
    # The grid may depend on the pilot, which is not bet on.
    pilot = float(np.mean([dealing.pilot().mean() for dealing in dealings]))
    deviation = float(np.mean([of_dealing[1] for of_dealing in deviations]))
    step = GRID_STEP * deviation / np.sqrt(n_blocks)
    start = pilot - GRID_REACH * deviation / np.sqrt(n_pilot)
    start = max(start, -floor + step)

    def wealth(theta: Floats, number: int) -> Floats:
        out = np.empty_like(theta)
        kernels.hedged_wealth(
            dealings[number].w,
            design.superblocks,
            deviations[number],
            theta,
            floor,
            LARGEST_LOSS,
            1 / (AIM * delta),
            HEDGE,
            out,
        )
        return out

    rejected, numbers = -floor, range(len(dealings))
    while True:
        theta = start + step * np.arange(_CHUNK)
        wealths = np.array(list(parallel(partial(wealth, theta), numbers)))
        passed = wealths.mean(axis=0) >= 1 / delta
        n_passed = _CHUNK if passed.all() else int(np.argmin(passed))
        if n_passed:
            rejected = float(theta[n_passed - 1])
        if n_passed < _CHUNK:
            return rejected
        start = start + step * _CHUNK


def _bisect(
    dealings: list[Dealing], floor: float, delta: float, centre: float, parallel: Callable[..., Any]
) -> float:
    """The value at which the wealth of a bet of one size falls to 1/delta: it falls with theta."""
    from auucmax.bounds import kernels

    design = dealings[0].design
    n_pilot, n_blocks = int(design.superblocks[0]), design.ends.shape[1]
    if n_blocks == n_pilot:
        return -floor
    deviation = float(np.mean([dealing.deviations(centre)[1] for dealing in dealings]))
    size = np.sqrt(2 * np.log(1 / delta) / (n_blocks - n_pilot)) / deviation
    bet = min(size, LARGEST_LOSS / (floor + 1))

    def rejected(theta: float) -> bool:
        def wealth(dealing: Dealing) -> float:
            out = np.empty(1)
            kernels.fixed_wealth(
                dealing.w[n_pilot:], design.superblocks[1:] - n_pilot, bet, np.array([theta]), out
            )
            return float(out[0])

        return float(np.mean(list(parallel(wealth, dealings)))) >= 1 / delta

    low, high = -floor, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if rejected(middle) else (low, middle)
    return low


def hedged_wealth_slow(
    w: Floats,
    superblocks: NDArray[np.int64],
    deviation: Floats,
    theta: float,
    floor: float,
    delta: float,
) -> float:
    """Wealth of the hedge at one theta, by its definition: the twin of the compiled one."""
    wealth, target, start = 1.0, 1 / (AIM * delta), 0
    for end, s in zip(superblocks, deviation, strict=True):
        q = wealth / target
        if q >= 1 or -np.log(q) > HEDGE[0] * (len(HEDGE) - 3):
            break
        if s > 0:
            hedge = np.interp(-np.log(q), HEDGE[0] * np.arange(len(HEDGE) - 1), HEDGE[1:])
            bet = min(hedge / (s * np.sqrt(len(w) - start)), LARGEST_LOSS / (floor + theta))
            wealth *= float(np.prod(1 + bet * (w[start:end] - theta), axis=0).mean())
        start = end
    return wealth


def _hedge_table() -> Floats:
    """Size of the hedge, normal density(z) / q, at ln q = 0, -step, ...; first entry: the step."""
    step = 0.02
    log_q = -step * np.arange(3500)  # 70: a delta of 1e-20, and wealth 1e-10 of what it was
    z = ndtri_exp(log_q)
    size = np.exp(-0.5 * z**2 - log_q) / np.sqrt(2 * np.pi)
    return np.concatenate([[step], size])


HEDGE = _hedge_table()


def _dense_ranks(score: Floats) -> NDArray[np.int32]:
    """0, 1, ... from the lowest score; equal scores share one."""
    ranking = rank_rows(score)
    levels = np.arange(len(score) if ranking.starts is None else len(ranking.starts))
    ranks = np.empty(len(score), dtype=np.int32)
    ranks[ranking.order] = ranking.spread(levels.astype(np.float64)).astype(np.int32)
    return ranks


def _check_range(value: Any, name: str) -> tuple[float, float]:
    try:
        low, high = (float(v) for v in value)
    except (TypeError, ValueError):
        low, high = 1.0, 0.0
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ValueError(
            f"{name} should be two finite numbers, lowest and highest, got {value!r}. "
            f"For a 0/1 outcome it is (0, 1)."
        )
    return low, high


_ASSUMPTIONS = (
    "randomised trial; rows (or clusters) independent; score fixed before (or one of n_candidates);"
    " y in a known range"
)
BETTING_BOUNDS = (
    Bound(
        name="betting",
        function=betting_bound,
        target="AUUC, or gain over random, of the population",
        ranking="joint",
        rows="held out",
        assumptions=_ASSUMPTIONS,
        formula="largest theta such that it, and all smaller ones on a grid, are rejected by "
        "mean over dealings of prod over superblocks of mean over re-dealings of "
        "prod (1 + lambda (w - theta)) >= 1/delta",
        reference="proved in docs/guarantees.md; betting: Waudby-Smith and Ramdas 2024; hedged "
        "bets: after Voracek and Orabona 2025, arXiv 2505.22422",
        validity="holds for every n",
    ),
    Bound(
        name="betting-difference",
        function=betting_difference_bound,
        target="AUUC of one score minus that of another, of the population",
        ranking="joint",
        rows="held out",
        assumptions=_ASSUMPTIONS,
        formula="as betting, on the differences of the two scores' block statistics",
        reference="proved in docs/guarantees.md",
        validity="holds for every n",
    ),
)
