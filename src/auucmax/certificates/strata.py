"""Certificates for sums of effects in strata, whatever the chance of each arm in each of them.

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

docs/guarantees.md has the proof. An upper bound is minus the lower bound of the coefficients turned
round. Rows that belong together, as of a household, are one unit, whose outcome is their sum.
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
    check_groups,
    check_level,
    check_one_dimensional,
    check_treatment,
    check_whole,
)
from auucmax.certificates.betting import known_range
from auucmax.certificates.blocks import block_size, n_dealings_of
from auucmax.certificates.fixed_bets import LARGEST_LOSS

Codes = NDArray[np.intp]
PILOT_ROWS = 100  #: of a stratum that are not bet on, but a tenth at most, and 1% of many
_LARGER = 2.0  # than the largest group of these another may be
_PRIOR_VARIANCE = 0.1


class GroupsError(ValueError):
    """Groups are larger than bounds are about, or not each in one arm and one stratum."""


class StrataBounds(NamedTuple):
    """Bounds (J,) on J sums of effects, each end with probability 1 - ``delta`` by itself.

    Of groups, they are about groups of at most ``largest_group`` rows; None without groups.
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
    """Bound sums of the effects in strata, from below and from above.

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
    largest_group : rows that a group of the population has at most, known without these rows.
        Without it, bounds are about groups of at most twice the rows of the largest of those that
        are not bet on. Larger ones among the rows are an error.
    delta : probability with which each bound may fail.
    outcome_range : lowest and highest possible outcome.
    n_dealings, random_state : rows are assigned to blocks so many times; the seed must be fixed
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
    sums = _coefficients(weights)
    if sums.shape[2] == 2:
        arm = check_treatment(treatment, len(outcome)).astype(np.intp)
    else:
        arm = _codes(treatment, len(outcome), sums.shape[2], "treatment")
    code = _codes(stratum, len(outcome), sums.shape[1], "stratum")
    low, high = known_range(outcome_range, outcome.min(), outcome.max())
    units = Units.of((outcome - low) / (high - low), arm, code, groups)
    sums = sums * (units.counts(sums.shape[1]) / np.maximum(np.bincount(
        code, minlength=sums.shape[1]), 1))[:, None]  # fmt: skip
    dealings = n_dealings_of(len(outcome)) if n_dealings is None else n_dealings
    own_seed = np.random.SeedSequence(check_whole(random_state, "random_state", 0))
    first, *seeds = own_seed.spawn(1 + check_whole(dealings, "n_dealings", 1))
    used = np.flatnonzero((sums != 0).any(axis=(0, 2)))
    rng = np.random.default_rng(first)
    pilots = [Pilot.of(units.of_stratum(int(s), (sums[:, s] != 0).any(axis=0)), rng) for s in used]
    if largest_group is not None and groups is None:
        raise ValueError(
            f"largest_group should come with groups, got {largest_group} without. Pass the groups, "
            f"or leave it out."
        )
    most_rows = None if groups is None else _most_rows(pilots, largest_group)
    strata = [Stratum.of(pilot, most_rows) for pilot in pilots]
    both = np.concatenate([sums, -sums])[:, used]  # the second half: for upper bounds
    bets = _bets(strata, both, delta)
    wealth = np.array([_log_wealth(strata, both, bets, seed) for seed in seeds])
    total = logsumexp(wealth, axis=0) - np.log(len(wealth))
    # No effect is beyond 1 in size, so no sum is beyond that of the weights.
    most = np.maximum(both, 0).sum(axis=2) @ np.array([one.largest for one in strata])
    found = np.maximum((total + np.log(delta)) / bets, -most) * (high - low)
    lower, upper = np.split(found, 2)
    return StrataBounds(lower, -upper, delta, int(np.isin(code, used).sum()), most_rows)


class Units(NamedTuple):
    """Units of blocks: rows, or groups with their sizes and sums of outcomes in [0, 1]."""

    total: Floats
    size: Floats
    arm: Codes
    stratum: Codes
    are_groups: bool

    @classmethod
    def of(cls, y: Floats, arm: Codes, stratum: Codes, groups: ArrayLike | None) -> Units:
        if groups is None:
            return cls(y, np.ones(len(y)), arm, stratum, False)
        code = check_groups(groups, len(y))
        first = np.unique(code, return_index=True)[1]
        apart = (arm != arm[first][code]) | (stratum != stratum[first][code])
        if n := len(np.unique(code[apart])):
            raise GroupsError(
                f"the rows of a group should be in one arm and one stratum for a certificate, got "
                f"{n:,} groups that are not. Leave groups out if each row was randomised by itself "
                f"and rows are independent."
            )
        total, size = (np.bincount(code, own).astype(np.float64) for own in (y, np.ones(len(y))))
        return cls(total, size, arm[first], stratum[first], True)

    def counts(self, n_strata: int) -> NDArray[np.intp]:
        """(strata,) units."""
        return np.bincount(self.stratum, minlength=n_strata)

    def of_stratum(self, s: int, used: Bools) -> list[tuple[Floats, Floats] | None]:
        """Sums and sizes of the units of each arm, sorted: the order of rows never matters."""
        found: list[tuple[Floats, Floats] | None] = []
        for number, is_used in enumerate(used):
            own = np.flatnonzero((self.stratum == s) & (self.arm == number))
            if is_used and not len(own):
                raise ValueError(
                    f"strata with a weight should have rows of both arms, got none of arm {number} "
                    f"in stratum {s}. Give it weight 0: the effect there is unknown."
                )
            own = own[np.lexsort((self.size[own], self.total[own]))]
            size = self.size[own] if self.are_groups else np.empty(0)
            found.append((self.total[own], size) if is_used else None)
        return found


class Pilot(NamedTuple):
    """Sums and sizes of the units of each arm in random order; the first ones are not bet on."""

    arms: tuple[tuple[Floats, Floats], ...]
    n_pilot: tuple[int, ...]

    @classmethod
    def of(cls, arms: Sequence[tuple[Floats, Floats] | None], rng: np.random.Generator) -> Pilot:
        n_units = sum(len(own[0]) for own in arms if own is not None)
        share = min(0.1, max(0.01, PILOT_ROWS / n_units))
        # The last arm first, which is the treated one of two.
        orders = [rng.permutation(0 if own is None else len(own[0])) for own in arms[::-1]][::-1]
        drawn = tuple(
            (np.empty(0), np.empty(0))
            if own is None
            else (own[0][order], own[1][order] if len(own[1]) else own[1])
            for own, order in zip(arms, orders, strict=True)
        )
        return cls(drawn, tuple(int(share * len(order)) for order in orders))

    @property
    def apart(self) -> tuple[Floats, Floats]:
        """Sums and sizes of the units that are not bet on."""
        found = zip(self.arms, self.n_pilot, strict=True)
        total, size = zip(*((own[0][:n], own[1][:n]) for own, n in found), strict=True)
        return np.concatenate(total), np.concatenate(size)


def _most_rows(pilots: Sequence[Pilot], declared: int | None) -> int:
    """Rows of a group that bounds are about, at most: one number, which the text can say."""
    if declared is not None:
        found, why = check_whole(declared, "largest_group", 1), "as was declared"
    else:
        # Not by the groups that are bet on: they must not decide how much is.
        found = int(_LARGER * max(pilot.apart[1].max(initial=0.0) for pilot in pilots))
        why = f"{_LARGER:g} times as many as the largest of those that size bets"
    sizes = [size for pilot in pilots for _, size in pilot.arms]
    if beyond := int(sum((size > found).sum() for size in sizes)):
        most = int(max(size.max(initial=0.0) for size in sizes))
        raise GroupsError(
            f"groups should have at most {found:,} rows, {why}, to be certified; got {beyond:,} "
            f"larger ones, of up to {most:,}. Name the largest size of a group, if it is known "
            f"without these rows, or leave them out by a rule older than the outcomes."
        )
    return found


class Stratum(NamedTuple):
    """Outcomes of the units of each arm that are bet on, and how they form blocks.

    ``sizes`` (A, N): units of each arm in each block; ``variances`` (A,) guesses, from units that
    are not bet on, at those of the mean over all blocks; both 0 for an arm that is not used, which
    has no ``outcomes``. No outcome is further from another than ``largest``.
    """

    outcomes: tuple[Floats, ...]
    sizes: NDArray[np.int64]
    variances: Floats
    largest: float = 1.0

    @classmethod
    def of(cls, drawn: Pilot, most_rows: int | None = None) -> Stratum:
        outcomes, n_pilot = (
            _centred(drawn) if most_rows is not None else [own[0] for own in drawn.arms],
            drawn.n_pilot,
        )
        largest = 1.0 if most_rows is None else float(most_rows)
        pilot = np.concatenate([own[:n] for own, n in zip(outcomes, n_pilot, strict=True)])
        # A prior of one row keeps the guess sane if there are hardly any.
        guess = (pilot.var() * len(pilot) if len(pilot) else 0.0) + _PRIOR_VARIANCE
        guess /= len(pilot) + 1
        bet_on = [own[n:] for own, n in zip(outcomes, n_pilot, strict=True)]
        counts = np.array([len(own) for own in bet_on])
        n_units = int(counts.sum())
        n_blocks = max(1, int(min(n_units / block_size(n_units), *counts[counts > 0])))
        ends = np.rint(np.outer(counts, np.arange(n_blocks + 1)) / n_blocks)
        sizes: NDArray[np.int64] = np.diff(ends, axis=1).astype(np.int64)
        inverse = np.divide(1.0, sizes, out=np.zeros(sizes.shape), where=sizes > 0)
        return cls(tuple(bet_on), sizes, guess * inverse.mean(axis=1) / n_blocks, largest)

    def means(self, rng: np.random.Generator) -> Floats:
        """Mean outcomes of the arms in every block of a new dealing, (A, N)."""
        found = np.zeros(self.sizes.shape)
        for number in reversed(range(len(found))):
            own, sizes = self.outcomes[number], self.sizes[number]
            if len(own):
                starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
                found[number] = np.add.reduceat(rng.permutation(own), starts) / sizes
        return found


def _centred(drawn: Pilot) -> list[Floats]:
    """Sums of groups less their size times the mean outcome of the pilot.

    The arms share it, so that it takes noise of sizes away and no bias in.
    """
    totals, sizes = drawn.apart
    mean = float(totals.sum() / max(sizes.sum(), 1.0))
    return [total - mean * size for total, size in drawn.arms]


def _coefficients(weights: ArrayLike) -> Floats:
    """(J, S, A)"""
    found = np.asarray(weights, dtype=np.float64)
    if found.ndim < 3:
        found = np.atleast_2d(found)[:, :, None] * np.array([-1.0, 1.0])
    if np.abs(found.sum(axis=2)).max() > 1e-9 * max(1.0, float(np.abs(found).max())):
        raise ValueError(
            "weights of arms should sum to 0 in each stratum, got others. Compare each arm with "
            "another."
        )
    return found


def _codes(values: ArrayLike, n_rows: int, n: int, name: str) -> Codes:
    found = check_one_dimensional(values, name, n_rows)
    if found.dtype.kind not in "biu" or found.min() < 0 or found.max() >= n:
        raise ValueError(
            f"{name} should be whole numbers from 0 to {n - 1}, a column of weights each; "
            f"got {found.dtype} from {found.min()} to {found.max()}. Number the strata so."
        )
    return found.astype(np.intp)


def _bets(strata: Sequence[Stratum], weights: Floats, delta: float) -> Floats:
    """Lambda of each sum, (J,): the best one if effects were 0 and variances as guessed."""
    variance = np.einsum("jsa,sa->j", weights**2, np.array([one.variances for one in strata]))
    best = np.sqrt(2 * np.log(1 / delta) / np.maximum(variance, 1e-300))
    per_block = np.array([one.largest / one.sizes.shape[1] for one in strata])
    # No block may cost more than so much of the wealth.
    largest = (np.maximum(weights, 0).sum(axis=2) * per_block).max(axis=1)
    return np.minimum(best, LARGEST_LOSS / np.maximum(largest, 1e-300))


def _log_wealth(
    strata: Sequence[Stratum], weights: Floats, bets: Floats, seed: np.random.SeedSequence
) -> Floats:
    """ln W of each sum, (J,), after one dealing."""
    rng = np.random.default_rng(seed)
    found = np.zeros(len(weights))
    for number, stratum in enumerate(strata):
        means = stratum.means(rng)
        for place in np.flatnonzero(weights[:, number].any(axis=1)):
            own = bets[place] / means.shape[1] * weights[place, number]
            found[place] += np.log1p(own @ means).sum()
    return found
