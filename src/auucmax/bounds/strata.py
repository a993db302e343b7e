"""Certificates for sums of effects in strata, whatever the chance of treatment in each of them.

Rows are in strata s, in each of which everyone had the same chance of treatment; d_s is the average
effect in stratum s. For weights omega_s that were fixed without the outcomes, bound

    theta = sum over strata of omega_s d_s.

A block holds a treated and b control rows of one stratum, chosen by looking at the treatments only;
w, the difference of its arms' mean outcomes, is an unbiased estimate of d_s, and lies in [-1, 1] if
outcomes lie in [0, 1]. Bets are of one size in each stratum: with N_s blocks and one number Lambda,

    lambda_s = Lambda |omega_s| / N_s,    W = product over blocks of 1 + lambda_s sign(omega_s) w,

    theta >= ( ln W - ln(1/delta) ) / Lambda    with probability 1 - delta.

docs/guarantees.md has the proof. An upper bound is minus the lower bound of the weights turned
round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from auucmax._validation import (
    Bools,
    Floats,
    check_column,
    check_level,
    check_one_dimensional,
    check_treatment,
    check_whole,
)
from auucmax.bounds.betting import known_range
from auucmax.bounds.blocks import block_size, n_dealings_of
from auucmax.bounds.fixed_bets import LARGEST_LOSS

Codes = NDArray[np.intp]
PILOT_ROWS = 100  #: of a stratum that are not bet on, but a tenth at most, and 1% of many
_PRIOR_VARIANCE = 0.1


class StrataBounds(NamedTuple):
    """Bounds (J,) on J sums of effects, each end with probability 1 - ``delta`` by itself."""

    lower: Floats
    upper: Floats
    delta: float
    n_rows: int


def strata_bounds(
    y: ArrayLike,
    *,
    treatment: ArrayLike,
    stratum: ArrayLike,
    weights: ArrayLike,
    delta: float = 0.05,
    outcome_range: tuple[float, float] = (0.0, 1.0),
    n_dealings: int | None = None,
    random_state: int = 0,
) -> StrataBounds:
    """Bound sums of the effects in strata, from below and from above.

    Parameters
    ----------
    y, treatment : (n,) outcomes and 0/1.
    stratum : (n,) whole numbers 0 to S - 1. Everyone of a stratum had the same chance of treatment,
        which may differ from stratum to stratum and need not be known.
    weights : (J, S), or (S,) for J = 1: of the strata in each sum, fixed without the outcomes. A
        stratum that lacks an arm must have weight 0.
    delta : probability with which each bound may fail.
    outcome_range : lowest and highest possible outcome.
    n_dealings, random_state : rows are dealt into blocks so many times; the seed must be fixed
        beforehand.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> stratum = (rng.random(20_000) < 0.5).astype(int)
    >>> treated = rng.random(20_000) < np.where(stratum == 1, 0.9, 0.1)
    >>> y = rng.random(20_000) < 0.1 + 0.1 * stratum * treated  # helps in stratum 1 only
    >>> found = strata_bounds(y, treatment=treated, stratum=stratum, weights=[[0, 1], [-1, 1]])
    >>> bool((found.lower > 0.04).all()), bool((found.upper > 0.1).all())
    (True, True)
    """
    check_level(delta, "delta")
    outcome = check_column(y, "y")
    treated = check_treatment(treatment, len(outcome))
    sums = np.atleast_2d(np.asarray(weights, dtype=np.float64))
    code = _codes(stratum, len(outcome), sums.shape[1])
    low, high = known_range(outcome_range, outcome.min(), outcome.max())
    outcome = (outcome - low) / (high - low)
    dealings = n_dealings_of(len(outcome)) if n_dealings is None else n_dealings
    own_seed = np.random.SeedSequence(check_whole(random_state, "random_state", 0))
    first, *seeds = own_seed.spawn(1 + check_whole(dealings, "n_dealings", 1))
    used = np.flatnonzero((sums != 0).any(axis=0))
    own = [(outcome[code == s], treated[code == s]) for s in used]
    lacking = [int(s) for s, (_, arm) in zip(used, own, strict=True) if arm.all() or not arm.any()]
    if lacking:
        raise ValueError(
            f"strata with a weight should have rows of both arms, got one arm in {lacking}. Give "
            f"them weight 0: what treatment does there cannot be told."
        )
    rng = np.random.default_rng(first)
    strata = [Stratum.of(*rows, rng) for rows in own]
    both = np.concatenate([sums, -sums])[:, used]  # the second half: for upper bounds
    bets = _bets(strata, both, delta)
    wealth = np.array([_log_wealth(strata, both, bets, seed) for seed in seeds])
    total = logsumexp(wealth, axis=0) - np.log(len(wealth))
    # No effect is beyond 1 in size, so no sum is beyond that of the weights.
    found = np.maximum((total + np.log(delta)) / bets, -np.abs(both).sum(axis=1)) * (high - low)
    lower, upper = np.split(found, 2)
    return StrataBounds(lower, -upper, delta, int(np.isin(code, used).sum()))


class Stratum(NamedTuple):
    """Outcomes of the treated and of the control rows that are bet on, and how they are dealt.

    ``sizes`` (2, N): treated and control rows of each block; ``variance`` a guess, from rows that
    are not bet on, at the variance of the mean of all its w.
    """

    treated: Floats
    control: Floats
    sizes: NDArray[np.int64]
    variance: float

    @classmethod
    def of(cls, y: Floats, treated: Bools, rng: np.random.Generator) -> Stratum:
        # Sorted first: the order of the rows never matters.
        arms = [rng.permutation(np.sort(y[arm])) for arm in (treated, ~treated)]
        share = min(0.1, max(0.01, PILOT_ROWS / len(y)))
        n_pilot = [int(share * len(arm)) for arm in arms]
        pilot = np.concatenate([arm[:n] for arm, n in zip(arms, n_pilot, strict=True)])
        # A prior of one row keeps the guess sane if there are hardly any.
        guess = (pilot.var() * len(pilot) if len(pilot) else 0.0) + _PRIOR_VARIANCE
        guess /= len(pilot) + 1
        bet_on = [arm[n:] for arm, n in zip(arms, n_pilot, strict=True)]
        n_rows = len(bet_on[0]) + len(bet_on[1])
        n_blocks = max(1, int(min(n_rows / block_size(n_rows), *map(len, bet_on))))
        ends = np.rint(np.outer([len(arm) for arm in bet_on], np.arange(n_blocks + 1)) / n_blocks)
        sizes: NDArray[np.int64] = np.diff(ends, axis=1).astype(np.int64)
        variance = float(guess * (1 / sizes).sum(axis=0).mean()) / n_blocks
        return cls(bet_on[0], bet_on[1], sizes, variance)

    def statistics(self, rng: np.random.Generator) -> Floats:
        """w of every block of a new dealing, (N,)."""
        means = []
        for arm, sizes in zip((self.treated, self.control), self.sizes, strict=True):
            starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
            means.append(np.add.reduceat(rng.permutation(arm), starts) / sizes)
        return np.asarray(means[0] - means[1])


def _codes(stratum: ArrayLike, n_rows: int, n_strata: int) -> Codes:
    values = check_one_dimensional(stratum, "stratum", n_rows)
    if values.dtype.kind not in "biu" or values.min() < 0 or values.max() >= n_strata:
        raise ValueError(
            f"stratum should be whole numbers from 0 to {n_strata - 1}, a column of weights each; "
            f"got {values.dtype} from {values.min()} to {values.max()}. Number the strata so."
        )
    return values.astype(np.intp)


def _bets(strata: Sequence[Stratum], weights: Floats, delta: float) -> Floats:
    """Lambda of each sum, (J,): the best one if effects were 0 and variances as guessed."""
    variance = weights**2 @ np.array([stratum.variance for stratum in strata])
    best = np.sqrt(2 * np.log(1 / delta) / np.maximum(variance, 1e-300))
    n_blocks = np.array([stratum.sizes.shape[1] for stratum in strata])
    # No block may cost more than so much of the wealth: w is at least -1.
    largest = (np.abs(weights) / n_blocks).max(axis=1)
    return np.minimum(best, LARGEST_LOSS / np.maximum(largest, 1e-300))


def _log_wealth(
    strata: Sequence[Stratum], weights: Floats, bets: Floats, seed: np.random.SeedSequence
) -> Floats:
    """ln W of each sum, (J,), after one dealing."""
    rng = np.random.default_rng(seed)
    found = np.zeros(len(weights))
    for stratum, weight in zip(strata, weights.T, strict=True):
        w = stratum.statistics(rng)
        for place in np.flatnonzero(weight):
            found[place] += np.log1p(bets[place] * weight[place] / len(w) * w).sum()
    return found
