"""Certificates for sums of effects over strata with arbitrary treatment probabilities.

Rows are in strata s, in each of which everyone had the same chance of each arm; mu_sa is the mean
outcome of arm a in stratum s. For coefficients k_sa that were fixed without the outcomes, and sum
to 0 over the arms of a stratum, bound

    theta = sum over strata and arms of k_sa mu_sa,

as the sum over strata of omega_s times the effect in s: k = omega_s for the treated, minus it for
the control. A block holds rows of each arm of one stratum, chosen by looking at the arms only; w,
the sum of k_sa / omega_s times its arms' mean outcomes, omega_s the sum of those k_sa that are
above 0, lies in [-1, 1] if outcomes lie in [0, 1]. Bets are of one size in each stratum: with N_s
blocks and one number Lambda,

    lambda_s = Lambda omega_s / N_s,    W = product over blocks of 1 + lambda_s w,

    theta >= ( ln W - ln(1/delta) ) / Lambda    with probability 1 - delta.

docs/guarantees.md has the proof. An upper bound is minus the lower bound for the negated
coefficients. Rows that belong together, as of a household, are one unit, whose outcome is their
sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from auucmax._errors import InputError
from auucmax._validation import (
    Floats,
    check_column,
    check_groups,
    check_level,
    check_whole,
)
from auucmax.certificates.blocks import (
    block_size,
    check_codes,
    check_dealings,
    even_ends,
    known_range,
)
from auucmax.certificates.fixed_bets import PRIOR_VARIANCE, best_bet

Codes = NDArray[np.intp]
PILOT_ROWS = 100  #: of a stratum that are not bet on, but a tenth at most, and 1% of many
_LARGER = 2.0  # than the largest group of these another may be


class GroupsError(InputError):
    """Groups are too large, or span several arms or strata."""


class StrataBounds(NamedTuple):
    """Bounds (J,) of J sums of effects; each holds with probability 1 - ``delta``.

    With groups, they are about groups of at most ``largest_group`` rows; None without.
    """

    lower: Floats
    upper: Floats
    delta: float
    n_rows: int
    largest_group: int | None = None


def strata_bounds(
    y: ArrayLike,
    *,
    treatment: ArrayLike,
    stratum: ArrayLike,
    weights: ArrayLike,
    groups: ArrayLike | None = None,
    largest_group: int | None = None,
    delta: float = 0.05,
    outcome_range: tuple[float, float] = (0.0, 1.0),
    n_dealings: int | None = None,
    random_state: int = 0,
) -> StrataBounds:
    """Lower and upper bounds of sums of stratum effects.

    Parameters
    ----------
    y, treatment : (n,) outcomes, and 0/1, or arms 0 to A - 1.
    stratum : (n,) whole numbers 0 to S - 1. Everyone of a stratum had the same chance of each arm,
        which may differ from stratum to stratum and need not be known.
    weights : (J, S), or (S,) for J = 1: of the effects in the strata in each sum, fixed without the
        outcomes; or (J, S, A): of the arms' mean outcomes, which sum to 0 over arms. An arm that a
        stratum lacks must have weight 0.
    groups : (n,) of rows that belong together, each in one arm and stratum. The effect in a stratum
        is then that on the sum of a group over the mean size of the groups.
    largest_group : maximum size of a group in the population, known without these rows. Without it,
        bounds are about groups of at most twice the rows of the largest of those that are not bet
        on. Larger ones among the rows are an error.
    delta : probability with which each bound may fail.
    outcome_range : lowest and highest possible outcome.
    n_dealings, random_state : number of dealings of rows into blocks, and their seed, which must be
        fixed beforehand.

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
    sums = np.asarray(weights, dtype=np.float64)
    if sums.ndim < 3:
        sums = np.atleast_2d(sums)[:, :, None] * np.array([-1.0, 1.0])
    if np.abs(sums.sum(axis=2)).max() > 1e-9 * max(1.0, float(np.abs(sums).max())):
        raise InputError(
            "weights", "such that those of arms sum to 0 in each stratum", "others",
            "Compare each arm with another.",
        )  # fmt: skip
    _, n_strata, n_arms = sums.shape
    arm = check_codes(treatment, "treatment", len(outcome), n_arms)
    code = check_codes(stratum, "stratum", len(outcome), n_strata)
    low, high = known_range(outcome_range, outcome.min(), outcome.max())
    dealings, seed = check_dealings(n_dealings, len(outcome), random_state)
    if largest_group is not None and groups is None:
        raise InputError(
            "largest_group", "given together with groups", f"{largest_group} without",
            "Pass the groups, or leave it out.",
        )  # fmt: skip
    first, *seeds = seed.spawn(1 + dealings)
    used = np.flatnonzero((sums != 0).any(axis=(0, 2)))
    units = Units.of((outcome - low) / (high - low), arm, code, groups)
    n_rows = np.bincount(code, minlength=n_strata)
    n_units = np.bincount(units.stratum, minlength=n_strata)
    sums = sums * (n_units / np.maximum(n_rows, 1))[:, None]
    rng = np.random.default_rng(first)
    strata = [Stratum.of(units, int(s), (sums[:, s] != 0).any(axis=0), rng) for s in used]
    most_rows = 1
    if groups is not None:
        # Not by the groups that are bet on: they must not decide the size of the bets.
        most_rows = int(_LARGER * max(one.pilot_size for one in strata))
        why = f"{_LARGER:g} times as many as the largest of those that size bets"
        if largest_group is not None:
            most_rows, why = check_whole(largest_group, "largest_group", 1), "as was declared"
        largest = max(one.largest_size for one in strata)
        if largest > most_rows:
            raise GroupsError(
                "groups", f"of at most {most_rows:,} rows, {why}, to be certified",
                f"larger ones, of up to {int(largest):,}",
                "Name the largest size of a group, if it is known without these rows, or leave "
                "them out by a rule older than the outcomes.",
            )  # fmt: skip
    both = np.concatenate([sums, -sums])[:, used]  # the second half: for upper bounds
    bets = sizes_of_bets(strata, both, delta, most_rows)
    wealth = np.array([log_wealth(strata, both, bets, seed) for seed in seeds])
    total = logsumexp(wealth, axis=0) - np.log(len(wealth))
    # No effect is beyond 1 in size, so no sum is beyond that of the weights.
    most = np.maximum(both, 0).sum(axis=(1, 2)) * most_rows
    found = np.maximum((total + np.log(delta)) / bets, -most) * (high - low)
    lower, upper = np.split(found, 2)
    known = None if groups is None else most_rows
    return StrataBounds(lower, -upper, delta, int(n_rows[used].sum()), known)


class Units(NamedTuple):
    """Block units: rows, or groups with their sizes and outcome sums in [0, 1]."""

    total: Floats
    size: Floats
    arm: Codes
    stratum: Codes

    @classmethod
    def of(cls, y: Floats, arm: Codes, stratum: Codes, groups: ArrayLike | None) -> Units:
        if groups is None:
            return cls(y, np.ones(len(y)), arm, stratum)
        code = check_groups(groups, len(y))
        first = np.unique(code, return_index=True)[1]
        apart = (arm != arm[first][code]) | (stratum != stratum[first][code])
        if n := len(np.unique(code[apart])):
            raise GroupsError(
                "groups", "each in one arm and one stratum for a certificate",
                f"{n:,} groups that are not",
                "Leave groups out if each row was randomised by itself and rows are independent.",
            )  # fmt: skip
        total, size = (np.bincount(code, own).astype(np.float64) for own in (y, np.ones(len(y))))
        return cls(total, size, arm[first], stratum[first])


class Stratum(NamedTuple):
    """The units of each arm in a stratum that are bet on, and their division into blocks.

    An arm that has no weight has no units. ``sizes`` (A, N): units of each arm in each block;
    ``variance``: a guess, from the pilot, units that are not bet on, at that of an outcome;
    ``pilot_size``, ``largest_size``: rows of the largest unit of the pilot, and of all.
    """

    outcomes: list[Floats]
    sizes: NDArray[np.int64]
    variance: float
    pilot_size: float
    largest_size: float

    @classmethod
    def of(
        cls, units: Units, stratum: int, used: Sequence[bool], rng: np.random.Generator
    ) -> Stratum:
        arms = []
        for number, is_used in enumerate(used):
            own = np.flatnonzero((units.stratum == stratum) & (units.arm == number))
            if is_used and not len(own):
                raise InputError(
                    "strata with a weight", "rows of both arms",
                    f"none of arm {number} in stratum {stratum}",
                    "Give it weight 0: the effect there is unknown.",
                )  # fmt: skip
            # Sorted: the order of rows never matters.
            own = own[np.lexsort((units.size[own], units.total[own]))]
            arms.append(own if is_used else own[:0])
        share = min(0.1, max(0.01, PILOT_ROWS / sum(map(len, arms))))
        # The last arm first, which is the treated one of two.
        arms = [rng.permutation(own) for own in reversed(arms)][::-1]
        pilot = np.concatenate([own[: int(share * len(own))] for own in arms])
        bet_on = [own[int(share * len(own)) :] for own in arms]
        # Less their size times the mean outcome of the pilot, which the arms share: that removes
        # noise of sizes and adds no bias.
        mean = float(units.total[pilot].sum() / max(units.size[pilot].sum(), 1.0))
        outcome = units.total - mean * units.size
        # A prior of one row stabilises the guess with few rows.
        guess = (outcome[pilot].var() * len(pilot) if len(pilot) else 0.0) + PRIOR_VARIANCE
        counts = np.array([len(own) for own in bet_on])
        ends = even_ends(counts, block_size(int(counts.sum())))
        return cls(
            [outcome[own] for own in bet_on],
            np.diff(ends, axis=1, prepend=0),
            guess / (len(pilot) + 1),
            float(units.size[pilot].max(initial=0.0)),
            float(units.size[np.concatenate(arms)].max()),
        )

    def means(self, rng: np.random.Generator) -> Floats:
        """Mean outcome of each arm in every block of a new partition, (arms, blocks)."""
        found = np.zeros(self.sizes.shape)
        for number in reversed(range(len(found))):
            own, sizes = self.outcomes[number], self.sizes[number]
            if len(own):
                starts = np.cumsum(sizes) - sizes
                found[number] = np.add.reduceat(rng.permutation(own), starts) / sizes
        return found


def sizes_of_bets(
    strata: Sequence[Stratum], weights: Floats, delta: float, most_rows: int = 1
) -> Floats:
    """Optimal bet of each sum, (J,), for zero effects and the guessed variances.

    No outcome is further from another than ``most_rows``, the largest size of a unit.
    """
    variance, largest = np.full(len(weights), 1e-300), np.full(len(weights), 1e-300)
    for number, stratum in enumerate(strata):
        sizes, own = stratum.sizes, weights[:, number]
        n_blocks = sizes.shape[1]
        inverse = 1 / np.where(sizes > 0, sizes, np.inf)
        variance += own**2 @ inverse.mean(axis=1) * stratum.variance / n_blocks
        # No block may cost more than its part of the wealth.
        loss = np.maximum(own, 0).sum(axis=1) * most_rows / n_blocks
        largest = np.maximum(largest, loss)
    return np.asarray(best_bet(variance, delta, largest))


def log_wealth(
    strata: Sequence[Stratum], weights: Floats, bets: Floats, seed: np.random.SeedSequence
) -> Floats:
    """Log wealth of each sum after one partition, (J,)."""
    rng = np.random.default_rng(seed)
    found = np.zeros(len(weights))
    for number, stratum in enumerate(strata):
        means = stratum.means(rng)
        for place in np.flatnonzero(weights[:, number].any(axis=1)):
            own = bets[place] / means.shape[1] * weights[place, number]
            found[place] += np.log1p(own @ means).sum()
    return found
