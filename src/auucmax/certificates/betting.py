"""Block betting: lower bounds on AUUC and on the gain over random that hold for every sample size.

For a value theta, start with wealth 1 and bet on block after block (``blocks.py``) that its
statistic is above theta: wealth times 1 + lambda (w - theta), lambda chosen before the block is
seen. If the truth is at most theta, wealth does not grow on average whatever lambda is, so by
Markov it reaches 1/delta with probability at most delta; theta is *rejected* when it does. The
bound is the largest value of a grid that is rejected together with all smaller ones.

**Bets.** Those that replicate a digital option, which pays 1/delta exactly when the sum of the
blocks ends above its 1 - delta quantile. With progress q = delta wealth, z its normal quantile, s
the deviation of a block and R the number of blocks left,

    lambda = normal density(z) / (q s sqrt(R)).

The width comes to that of the normal interval, and the proof uses neither normality nor s. Bets of
one size, which are wider and simpler, are in ``fixed_bets.py``.

**Dealings.** A single dealing of rows into blocks leaves luck in the bound, and a temptation to try
seeds. So wealth is averaged over ``n_dealings`` dealings, which keeps its expectation at most 1;
hedges aim at 1 / (.75 delta) so that a few unlucky dealings do not matter. For very many rows there
are fewer dealings: luck is then small compared with their cost.

**Strides.** Far below the bound one grid value in 25 is tried: if its wealth reaches 1000/delta,
the 24 below it are rejected with it. A thousandth of delta pays for that.

The proofs, and what is assumed, are in docs/guarantees.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri_exp

from auucmax._errors import InputError
from auucmax._progress import track
from auucmax._validation import (
    Bools,
    Floats,
    ScoredRows,
    check_choice,
    check_column,
    check_groups,
    check_range,
    check_rows,
)
from auucmax.certificates.blocks import (
    CENTRES,
    BlockDesign,
    DealtUnits,
    check_dealings,
    deal,
    dense_ranks,
    deviations,
    known_range,
)
from auucmax.certificates.fixed_bets import (
    LARGEST_LOSS,
    BetRows,
    Pilot,
    one_size_bounds,
    pilot_rows,
)
from auucmax.certificates.types import LowerBound, shared_level
from auucmax.metrics.ranking import sorted_rows

TARGETS = {"auuc": 0, "gain": 1}  #: place of the target in ``blocks.CENTRES``
AIM = 0.75  #: hedges aim at 1 / (AIM delta)
GRID_STEP = 0.04  #: in standard deviations of the whole estimate
GRID_REACH = 6  #: how far below the pilot the grid starts, in its standard deviations
GRID_STRIDE = 25  #: one value of so many is tried first, at the share ``SKIP`` of delta
SKIP = 0.001
_CHUNK = 16  # thetas that are tried together
_CHANCE_PILOT = 5  # times as many rows in the pilot, which shows how small propensities may be


def betting_bounds(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    targets: Sequence[str] = ("auuc", "gain"),
    delta: float = 0.05,
    bets: str = "hedged",
    outcome_range: tuple[float, float] = (0.0, 1.0),
    outcome_model: ArrayLike | None = None,
    outcome_model_range: tuple[float, float] | None = None,
    groups: ArrayLike | None = None,
    n_candidates: int = 1,
    n_dealings: int | None = None,
    random_state: int = 0,
    propensity: ArrayLike | None = None,
    control: Any = None,
) -> tuple[LowerBound, ...]:
    """Lower bounds on the population AUUC and on the gain over random, by betting on blocks.

    Each holds with probability 1 - delta. ``estimate`` is that of the outcome minus its mean in the
    pilot (or minus ``outcome_model``): the same target as :func:`auucmax.auuc_score`, with less
    noise. One dealing of rows into blocks serves all targets.

    Parameters
    ----------
    y, score, treatment : (n,) held-out rows; the score must not have been fitted on them.
    targets : among "auuc" and "gain" (AUUC - ATE/2).
    bets : "hedged", or "fixed".
    outcome_range : lowest and highest possible outcome, known beforehand.
    outcome_model : (n,) predictions of y, whatever the arm, by a model fitted on other rows; makes
        the bound narrower where they predict well. Clipped to ``outcome_model_range``, which must
        be known beforehand too (default: ``outcome_range``; narrower is better).
    groups : (n,) cluster of each row; clusters lie in one arm and count equally, whatever their
        size: the target is that of a random member of a random cluster.
    n_candidates : number of scores among which this one was chosen on these rows.
    n_dealings : number of dealings of rows into blocks (default: 20 up to 250 thousand rows, then
        fewer, 5 at a million, 2 at least).
    random_state : seed of the dealings.
    propensity : (n,) known chance of treatment of each row, where it was not the same for all; each
        row was treated by an independent draw. Bets are then "fixed", on Horvitz-Thompson
        statistics, and there is no outcome model.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> auuc, gain = betting_bounds(trial.y, trial.X["womens"], treatment=trial.treatment)
    >>> bool(0.005 < gain.lower < gain.estimate < 0.008 < 0.02 < auuc.lower < auuc.estimate)
    True
    """
    for target in targets:
        check_choice(target, "target", TARGETS)
    rows = check_rows(y, score, treatment=treatment, control=control, propensity=propensity)
    if propensity is not None and (bets != "fixed" or outcome_model is not None):
        raise InputError(
            "bets", "'fixed', and without outcome_model, with propensity", repr(bets),
            "Only such bets are proven for unequal chances.",
        )  # fmt: skip
    options = (outcome_range, outcome_model, outcome_model_range, groups)
    game = Game.of(rows, [rows.score], *options)
    wanted = [TARGETS[target] for target in targets]
    return game.bounds(wanted, delta, n_candidates, bets, n_dealings, random_state)


def betting_bound(
    y: ArrayLike, score: ArrayLike, *, treatment: ArrayLike, target: str = "gain", **options: Any
) -> LowerBound:
    """Lower bound on one target, "gain" or "auuc"; options as in :func:`betting_bounds`."""
    return betting_bounds(y, score, treatment=treatment, targets=(target,), **options)[0]


@dataclass(frozen=True)
class Game:
    """Everything that is fixed before the first bet.

    ``ranks`` (scores, n): one score, or two whose difference is bet on. ``residual`` (n,): outcomes
    in [0, 1], minus the outcome model if there is one, whose range is ``adjustment``. ``unit``:
    what 1 is in the units of y. ``chance`` (n,): known chances of treatment, if they differ.
    """

    ranks: NDArray[np.int32]
    residual: Floats
    treated: Bools
    units: DealtUnits
    clusters: NDArray[np.intp] | None = None
    adjustment: tuple[float, float] | None = None
    unit: float = 1.0
    chance: Floats | None = None

    @classmethod
    def of(
        cls,
        rows: ScoredRows,
        scores: list[Floats],
        outcome_range: tuple[float, float],
        outcome_model: ArrayLike | None,
        model_range: tuple[float, float] | None,
        groups: ArrayLike | None,
    ) -> Game:
        low, high = known_range(outcome_range, rows.y.min(), rows.y.max())
        unit = high - low
        residual, adjustment = (rows.y - low) / unit, None
        given = check_range(model_range or (low, high), "outcome_model_range")
        if given[0] > high or given[1] < low or (outcome_model is None and model_range):
            raise InputError(
                "outcome_model_range",
                f"given together with outcome_model, within the range of outcomes, {low:g} to "
                f"{high:g}", repr(given), "Predictions are clipped to it.",
            )  # fmt: skip
        if outcome_model is not None:
            clip = np.clip(given, low, high)
            predicted = check_column(outcome_model, "outcome_model", len(rows.y))
            residual = residual - (np.clip(predicted, *clip) - low) / unit
            adjustment = float((clip[0] - low) / unit), float((clip[1] - low) / unit)
        clusters = None if groups is None else check_groups(groups, len(rows.y))
        return cls(
            # Only the order matters, and small integers are compared faster than scores.
            np.array([dense_ranks(score) for score in scores], dtype=np.int32),
            residual,
            rows.treated,
            DealtUnits.of(rows.treated, clusters),
            clusters,
            adjustment,
            unit,
            rows.propensity,
        )

    def bounds(
        self,
        targets: Sequence[int],
        delta: float,
        n_candidates: int,
        bets: str,
        n_dealings: int | None,
        random_state: int,
    ) -> tuple[LowerBound, ...]:
        """One bound per target, from the same random blocks."""
        level = shared_level(delta, n_candidates)
        check_choice(bets, "bets", ("hedged", "fixed"))
        n_dealings, seed = check_dealings(n_dealings, len(self.residual), random_state)
        lower = [-np.inf] * len(CENTRES)
        if bets == "hedged":
            name = "betting"
            with ThreadPoolExecutor(min(n_dealings, os.cpu_count() or 1)) as pool:
                dealings, design, shift = self.deal(n_dealings, seed, pool.map)
                for target in targets:
                    centre = CENTRES[target]
                    w = [dealing[target] for dealing in dealings]
                    floor = self.floor(design, centre, shift)
                    lower[target] = _climb(w, design, floor, level, centre, pool.map)
            outcomes = self.residual
        else:
            name = "betting-fixed"
            first, then = seed.spawn(2)
            # Bets of one size are decided by rows that no dealing bets on: with known propensities
            # by so many rows, whatever their arm, because blocks may not depend on treatment.
            units = self.units if self.chance is None else self.units.as_one_arm()
            units = units.shuffled(first)
            n_pilot = pilot_rows(*units.counts, 1 if self.chance is None else _CHANCE_PILOT)
            known = units.rows_of_first(*n_pilot)
            units = units.after(*n_pilot)
            chance = None if self.chance is None else self.chance[known]
            pilot = Pilot.of(self.residual[known], self.treated[known], chance, self.adjustment)
            outcomes = pilot.outcomes(self.residual, self.treated, self.chance)
            shift = pilot.shift
            if self.chance is None or len(units.treated) > 1:
                part = BetRows(self.ranks, outcomes, units)
                lower, _ = one_size_bounds(pilot, [part], level, n_dealings, then)
        estimates = self._estimates(outcomes - shift)
        return tuple(
            LowerBound(name, lower[target] * self.unit, estimates[target] * self.unit, delta)
            for target in targets
        )

    def floor(self, design: BlockDesign, centre: float, shift: float) -> float:
        """Minus the lower bound of the block statistics."""
        adjustment = (shift, shift) if self.adjustment is None else self.adjustment
        floor = design.floor(centre, adjustment)
        if len(self.ranks) == 2:  # minus the statistic is that with the arms swapped
            floor += replace(design, ends=design.ends[::-1]).floor(centre, adjustment)
        return floor

    def deal(
        self, n_dealings: int, seed: np.random.SeedSequence, parallel: Callable[..., Any]
    ) -> tuple[list[Floats], BlockDesign, float]:
        """Block statistics of all random partitions, their design, and the offset."""
        # The pilot is the same in all dealings: it sets their grid, and none of them bets on it.
        design = BlockDesign.of(*self.units.counts)
        first, *others = seed.spawn(n_dealings + 1)
        units = self.units.shuffled(first)
        signs = np.array([1.0, -1.0])[: len(self.ranks)]
        shift = 0.0
        if self.adjustment is None:  # the simplest model of the outcome: its mean in the pilot
            shift = float(self.residual[units.rows_of_first(*design.pilot_units())].mean())

        def one(seed: np.random.SeedSequence) -> Floats:
            return deal(self.ranks, signs, self.residual, shift, units, design, seed)

        assigned = track(parallel(one, others), n_dealings, "dealing rows into blocks")
        return list(assigned), design, shift

    def _estimates(self, outcomes: Floats) -> tuple[float, float]:
        """Point estimates of AUUC and gain from the rows bet on; clusters have equal weight."""
        # So the gap is what the bets cost and nothing else.
        weight, treated = None, self.treated
        if self.clusters is not None:
            weight = 1 / np.bincount(self.clusters)[self.clusters]
        if self.chance is not None:  # outcomes are effects
            treated = np.ones(len(outcomes), bool)
        auuc = gain = 0.0
        for ranks, sign in zip(self.ranks, (1, -1), strict=False):
            rows = sorted_rows(ScoredRows(outcomes, ranks.astype(float), treated, weight, None))
            auuc += sign * rows.area()
            gain += sign * (rows.area() - rows.effect() / 2)
        return auuc, gain


def _climb(
    dealings: list[Floats],
    design: BlockDesign,
    floor: float,
    delta: float,
    centre: float,
    parallel: Callable[..., Any],
) -> float:
    """The largest grid value rejected together with all smaller ones, else minus the floor."""
    from auucmax.certificates import kernels

    n_pilot, n_blocks = design.n_pilot, design.n_blocks
    if n_blocks == n_pilot:
        return -floor
    spread = list(parallel(partial(deviations, design=design, centre=centre), dealings))
    # The grid may depend on the pilot, which is not bet on.
    pilot = float(np.mean([w[:n_pilot].mean() for w in dealings]))
    deviation = float(np.mean([of_dealing[1] for of_dealing in spread]))
    step = GRID_STEP * deviation / np.sqrt(n_blocks)
    start = pilot - GRID_REACH * deviation / np.sqrt(n_pilot)
    start = max(start, -floor + step)

    def n_rejected(theta: Floats, level: float) -> int:
        """The number of values rejected before the first that is not."""

        def wealth(number: int) -> Floats:
            out = np.empty_like(theta)
            game = dealings[number], design.superblocks, spread[number], theta, floor
            kernels.hedged_wealth(*game, LARGEST_LOSS, 1 / (AIM * level), HEDGE, out)
            return out

        wealths = np.array(list(parallel(wealth, range(len(dealings)))))
        passed = wealths.mean(axis=0) >= 1 / level
        return _CHUNK if passed.all() else int(np.argmin(passed))

    # Strides first: most of the grid lies far below the bound, where wealth is won quickly.
    number = 0  # of grid values that are rejected
    for stride, level in ((GRID_STRIDE, SKIP * delta), (1, (1 - SKIP) * delta)):
        found = _CHUNK
        while found == _CHUNK:
            ahead = number + stride * np.arange(1, _CHUNK + 1)
            found = n_rejected(start + step * (ahead - 1), level)
            number += stride * found
    return float(start + step * (number - 1)) if number else -floor


def _hedge_table() -> Floats:
    """Table of hedge sizes, normal density(z) / q, at ln q = 0, -step, ..."""
    step = 0.02
    log_q = -step * np.arange(3500)  # 70: a delta of 1e-20, and wealth 1e-10 of what it was
    z = ndtri_exp(log_q)
    size = np.exp(-0.5 * z**2 - log_q) / np.sqrt(2 * np.pi)
    return np.concatenate([[step], size])


HEDGE = _hedge_table()
