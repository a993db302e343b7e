"""Certificates for policies with several arms.

A block holds rows of the control and of each of K arms, chosen without looking at anything but the
arms. chosen_i is the arm that a policy gives to row i, whatever the row got; the policy comes from
other rows. With b_a the block's rows of arm a, b_0 those of the control and r_i = y_i - m,

    w = sum over arms a of  [ mean over rows that got a       of r_i u_ia
                            - mean over rows of the control   of r_i u_ia ],

u_ia = 1{chosen_i = a}. The expectation of w is the gain per person of the policy over treating
nobody; with u_ia = 1{chosen_i = a} - (share of the block's other rows that the policy gives a) it
is the gain over giving the same arms, in the same numbers, to random people. Minus what the block's
rows cost, w is the net value. Where chances of the arms are known and differ, a block is any rows,
and w the mean over them of h_a of the arm that is chosen (``blocks.py``), or of h_a u_ia.
docs/guarantees.md has the proofs. Bets are of one size (``fixed_bets.py``), on one policy or on
those of models trained on one chunk after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from auucmax._errors import InputError
from auucmax._progress import track
from auucmax._validation import Floats, check_column, check_positive
from auucmax.certificates.blocks import (
    ArmMeans,
    block_size,
    check_codes,
    check_dealings,
    even_ends,
    known_range,
    propensity_range,
)
from auucmax.certificates.fixed_bets import (
    PRIOR_ROWS,
    PRIOR_VARIANCE,
    Stake,
    best_bet,
    wealth_bound,
)
from auucmax.certificates.types import Guarantee, shared_level
from auucmax.metrics.allocation import check_chances
from auucmax.results import LEAST_ROWS

Codes = NDArray[np.intp]
#: (outcomes, chosen arm, arm that was got), arms as numbers, 0 for the control.
PolicyChunk = tuple[ArrayLike, ArrayLike | None, ArrayLike]


@dataclass(frozen=True, repr=False, kw_only=True)
class PolicyCertificate(Guarantee):
    """Lower bounds of a policy's gain per person, each with probability 1 - ``delta``.

    ``gain_lower_bound``: over treating nobody; ``random_lower_bound``: over giving the same arms to
    as many random people; ``net_lower_bound``: value times the gain, minus costs, if value and cost
    were given, else None. ``n_models`` policies were evaluated, each made from the rows before
    those it is evaluated on.
    """

    gain_lower_bound: float
    random_lower_bound: float
    net_lower_bound: float | None
    n_models: int


def certify_policy(
    chunks: Sequence[PolicyChunk],
    *,
    n_arms: int,
    delta: float = 0.05,
    outcome_range: tuple[float, float] = (0.0, 1.0),
    value: float | None = None,
    cost: ArrayLike | None = None,
    treated_share: float = 0.5,
    n_candidates: int = 1,
    propensity: Sequence[ArrayLike] | None = None,
    n_dealings: int | None = None,
    random_state: int = 0,
) -> PolicyCertificate:
    """Certify the gain of a policy fixed beforehand, or of one policy per chunk.

    Parameters
    ----------
    chunks : (y, chosen, got) each: outcomes, the arm that the policy gives to each row, and the arm
        that it got: 0 for the control, 1 to K. The rows of the first chunk are not bet on: they
        only decide how large bets are, and its ``chosen`` is None. Later ones: the policy of chunk
        k must come from the chunks before it, or from other rows.
    n_arms : K.
    delta : probability with which a bound may fail.
    outcome_range : lowest and highest possible outcome.
    value, cost : value of one unit of the outcome, and cost (K,) of giving each arm to a person,
        for the bound on the net value.
    treated_share : a guess, made beforehand, of the part of the people who get an arm. It sizes the
        bets; a wrong one widens the bound, which stays valid.
    n_candidates : number of policies among which this one was chosen on these rows.
    propensity : (n, K + 1) of each chunk, the chances of the control and of each arm by design,
        where they differed between people; None: they were the same for all.
    n_dealings, random_state : number of dealings of rows into blocks, and their seed, which must be
        fixed beforehand.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, got = rng.random(30_000), rng.integers(0, 3, 30_000)
    >>> chosen = np.where(x < 0.5, 1, 2)  # each arm helps half of the people
    >>> y = (rng.random(30_000) < 0.2 + 0.1 * (got == chosen)).astype(float)
    >>> first, rest = slice(0, 500), slice(500, None)
    >>> found = certify_policy(
    ...     [(y[first], None, got[first]), (y[rest], chosen[rest], got[rest])], n_arms=2
    ... )
    >>> bool(0.05 < found.gain_lower_bound < 0.1), bool(0.03 < found.random_lower_bound < 0.05)
    (True, True)
    """
    level = shared_level(delta, n_candidates)
    rows = []
    for k, (y, chosen, got) in enumerate(chunks):
        if (chosen is None) != (k == 0):
            raise InputError(
                "chosen", "None in the first chunk, which is not bet on, and given in the others",
                "none" if chosen is None else "arms", "Set some rows apart as the first.",
            )  # fmt: skip
        outcome, chance = check_column(y, "y"), None
        arms = check_codes(got, "got", len(outcome), n_arms + 1)
        given = arms if chosen is None else check_codes(chosen, "chosen", len(arms), n_arms + 1)
        if propensity is not None:
            chance = check_chances(propensity[k], len(outcome), n_arms)
        rows.append(PolicyRows(outcome, given, arms, chance))
    if (value is None) != (cost is None):
        raise InputError("value", "given together with cost", "one of them", "Pass both.")
    y = np.concatenate([part.y for part in rows])
    low, high = known_range(outcome_range, y.min(), y.max())
    unit = high - low
    prices = None  # of each arm, per value of the outcome range
    if value is not None and cost is not None:
        costs = np.broadcast_to(check_column(np.atleast_1d(cost), "cost"), (n_arms,))
        value = check_positive(value, "value", "Pass that of one outcome.")
        prices = np.append(0.0, costs) / (value * unit)
    first, *later = (part._replace(y=(part.y - low) / unit) for part in rows)
    # Random people are the others of a block.
    judged = [part for part in later if part.block_counts(n_arms).min() > (propensity is not None)]
    n_rows = sum(len(part.y) for part in judged)
    n_dealings, seed = check_dealings(n_dealings, n_rows + 1, random_state)
    bounds = [-np.inf] * 3
    if judged:
        game = Game.of(first, judged, n_arms, prices, treated_share, level)
        wealth = np.zeros((n_dealings, 3))
        seeds = seed.spawn(n_dealings)
        for own, dealing in zip(wealth, track(seeds, n_dealings, "betting on blocks"), strict=True):
            rng = np.random.default_rng(dealing)
            for part, ends in zip(judged, game.ends, strict=True):
                for target, w in enumerate(game.statistics(part, ends, rng)):
                    stake = game.stakes[target]
                    own[target] += np.log1p(stake.bet * (w - stake.theta)).sum()
        n_blocks = sum(ends.shape[1] for ends in game.ends)
        bounds = [
            wealth_bound(own, stake, n_blocks, level)
            for own, stake in zip(wealth.T, game.stakes, strict=True)
        ]
    return PolicyCertificate(
        gain_lower_bound=bounds[0] * unit,
        random_lower_bound=bounds[1] * unit,
        net_lower_bound=None if prices is None else bounds[2] * unit,
        delta=delta,
        n_rows=n_rows,
        n_models=len(judged),
        outcome_range=(low, high),
        n_candidates=n_candidates,
        propensity=propensity_range(None if propensity is None else np.concatenate(propensity)),
    )


SHARES = tuple(k / 20 for k in range(1, 21))  #: of people, at which gains are certified together
_REFERENCE = 0.1  # of the rows of a chunk, whose scores cut the shares, and which are not bet on
_FOR_SHARES = 0.1  # of delta, for how many people lie above the cuts


@dataclass(frozen=True, repr=False, kw_only=True)
class ShareCertificate(Guarantee):
    """Simultaneous lower bounds of the gain from treating the top people at several cuts.

    A cut of share q is the score above which q of some rows lie that are not bet on; of all people
    about as many lie above it, and at most what ``share_upper_bounds`` says.
    ``gain_lower_bounds``: of treating everybody above the cut over treating nobody, per person of
    all people. All bounds hold at once with probability 1 - ``delta``, so share, value and cost may
    be chosen after looking.
    """

    shares: tuple[float, ...]
    gain_lower_bounds: tuple[float, ...]
    share_upper_bounds: tuple[float, ...]
    n_models: int

    def net_lower_bounds(self, value: float, cost: float) -> Floats:
        """Lower bounds (shares,) of value * gain - cost per person at each cut.

        >>> found = ShareCertificate(
        ...     shares=(0.5, 1.0), gain_lower_bounds=(0.02, 0.03), share_upper_bounds=(0.51, 1.0),
        ...     n_models=1, delta=0.05, n_rows=1000, outcome_range=(0.0, 1.0),
        ... )
        >>> found.net_lower_bounds(10, 0.2).round(3).tolist()
        [0.098, 0.1]
        """
        return value * np.array(self.gain_lower_bounds) - cost * np.array(self.share_upper_bounds)


def certify_shares(
    chunks: Sequence[PolicyChunk],
    *,
    shares: Sequence[float] = SHARES,
    delta: float = 0.05,
    outcome_range: tuple[float, float] = (0.0, 1.0),
    n_candidates: int = 1,
    n_dealings: int | None = None,
    random_state: int = 0,
) -> ShareCertificate | None:
    """Certify the gain of treating everyone above a cut, for all cuts together.

    Parameters
    ----------
    chunks : (y, score, treated) of each chunk, as in :func:`progressive_certificate`: the first
        has no score and sizes the bets; the scores of others come from a model of the chunks before
        it, or, of one more chunk only, from other rows.
    shares : shares of people, above 0, which share delta. A tenth of the rows of each chunk, which
        are not bet on, gives the cuts.
    outcome_range, n_candidates, n_dealings, random_state : as in :func:`certify_policy`.

    Returns None if no later chunk has rows enough of both arms.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> first = np.arange(trial.n_rows) % 20 == 0
    >>> rows = [(trial.y[own], trial.treated[own]) for own in (first, ~first)]
    >>> score = trial.X["womens"][~first]
    >>> found = certify_shares([(rows[0][0], None, rows[0][1]), (rows[1][0], score, rows[1][1])])
    >>> bool(found.gain_lower_bounds[9] > 0.02)
    True
    """
    parts = [(check_column(y, "y"), score, np.asarray(arms, np.intp)) for y, score, arms in chunks]
    first = parts[0]
    rng = np.random.default_rng(np.random.SeedSequence(random_state).spawn(1)[0])
    later = [
        Ranked.of(y, check_column(score, "score", len(y)), arms, rng)
        for y, score, arms in parts[1:]
        if score is not None and np.bincount(arms, minlength=2).min() >= LEAST_ROWS
    ]
    later = [part for part in later if np.bincount(part.got, minlength=2).all()]
    if not later:
        return None
    n_bounds = n_candidates * len(shares)
    found = [
        certify_policy(
            [
                (first[0], None, first[2]),
                *((part.y, part.chosen(share), part.got) for part in later),
            ],
            n_arms=1,
            delta=delta * (1 - _FOR_SHARES),
            outcome_range=outcome_range,
            treated_share=share,
            n_candidates=n_bounds,
            n_dealings=2 if n_dealings is None else n_dealings,
            random_state=random_state,
        )
        for share in shares
    ]
    return ShareCertificate(
        shares=tuple(map(float, shares)),
        gain_lower_bounds=tuple(own.gain_lower_bound for own in found),
        share_upper_bounds=most_above(later, shares, shared_level(delta, n_bounds) * _FOR_SHARES),
        delta=delta,
        n_rows=found[0].n_rows,
        n_models=found[0].n_models,
        outcome_range=found[0].outcome_range,
        n_candidates=n_candidates,
    )


class Ranked(NamedTuple):
    """Rows of a chunk used for bets, and reference scores of its other rows.

    ``coin`` (n,) decides which rows of a level that a share cuts are chosen.
    """

    y: Floats
    score: Floats
    got: Codes
    coin: Floats
    reference: Floats

    @classmethod
    def of(cls, y: Floats, score: Floats, arms: Codes, rng: np.random.Generator) -> Ranked:
        """Split off the reference rows at random."""
        n = int(max(_REFERENCE * len(y), min(200, len(y) / 4)))
        order = rng.permutation(len(y))
        bet = np.sort(order[n:])
        reference = np.sort(score[order[:n]])[::-1]
        return cls(y[bet], score[bet], arms[bet], rng.random(len(bet)), reference)

    def chosen(self, share: float) -> Codes:
        """Rows above the reference quantile of this share, as 0/1."""
        if share >= 1:
            return np.ones(len(self.y), np.intp)
        cut = self.reference[min(int(share * len(self.reference)), len(self.reference) - 1)]
        above, level = (self.reference > cut).mean(), (self.reference == cut).mean()
        inside = (self.score == cut) & (self.coin < (share - above) / level)
        return ((self.score > cut) | inside).astype(np.intp)


def most_above(parts: list[Ranked], shares: Sequence[float], level: float) -> tuple[float, ...]:
    """Upper bound of the population share above each cut, by Hoeffding's inequality.

    Chunks weigh as their blocks do, as in the mean that the gains are bounds of.
    """
    n_rows = np.array([len(part.y) for part in parts])
    ends = block_ends([np.bincount(part.got, minlength=2) for part in parts], n_arms=1)
    weight = np.array([own.shape[1] for own in ends])
    weight = weight / weight.sum()
    error = float(np.sqrt(np.log(1 / level) / 2 * (weight**2 / n_rows).sum()))
    found = [weight @ [part.chosen(share).mean() for part in parts] + error for share in shares]
    return tuple(float(min(share, 1.0)) for share in found)


class PolicyRows(NamedTuple):
    """Validated rows of a chunk; ``chance`` (n, K + 1) if propensities differ."""

    y: Floats
    chosen: Codes
    got: Codes
    chance: Floats | None = None

    def block_counts(self, n_arms: int) -> NDArray[np.intp]:
        """Number of rows to spread over the blocks: by arm, or in total if propensities differ."""
        if self.chance is not None:
            return np.array([len(self.y)])
        return np.bincount(self.got, minlength=n_arms + 1)


def block_ends(counts: Sequence[NDArray[np.intp]], n_arms: int) -> list[NDArray[np.int64]]:
    """Cumulative rows of each kind over the blocks of each chunk, (kinds, blocks)."""
    size = max(block_size(int(sum(own.sum() for own in counts))), 2.0 * (n_arms + 1))
    return [even_ends(own, size) for own in counts]


@dataclass(frozen=True)
class Game:
    """Quantities fixed before the first bet, from the pilot and the assigned arms.

    ``means``: guesses of the arms' mean outcomes, where chances are known and differ; otherwise
    ``shift`` is taken off all outcomes. ``stakes``: the bets on gain, gain beyond random people,
    and net value.
    """

    n_arms: int
    shift: float
    means: ArmMeans | None
    prices: Floats | None
    ends: list[NDArray[np.int64]]
    stakes: tuple[Stake, ...]

    @classmethod
    def of(
        cls,
        pilot: PolicyRows,
        chunks: list[PolicyRows],
        n_arms: int,
        prices: Floats | None,
        treated_share: float,
        level: float,
    ) -> Game:
        ends = block_ends([part.block_counts(n_arms) for part in chunks], n_arms)
        sizes = np.hstack([np.diff(end, axis=1, prepend=0) for end in ends])
        share = float(np.clip(treated_share, 0.01, 1.0))
        # A prior of one row stabilises the guess with few rows.
        shift, means = float((pilot.y.sum() + 0.5) / (len(pilot.y) + 1)), None
        # Variances are as if arms were chosen without looking at outcomes, and each as often.
        if pilot.chance is None:
            parts = np.full((n_arms + 1, 1), share / n_arms)
            parts[0] = share
            noise = shift * (1 - shift) * float((parts / sizes).sum()) + 1e-12 * sizes.shape[1]
            floor = n_arms * shift + 1 - shift
            floor_beyond = (n_arms + 1) * max(shift, 1 - shift)
        else:
            means = ArmMeans.of(pilot.y, pilot.got, pilot.chance)
            h = means.effects(pilot.y, pilot.got, pilot.chance)[:, 1:]
            prior = PRIOR_ROWS * PRIOR_VARIANCE * (1 / means.least[1:] + 1 / means.least[0])
            square = ((h**2).sum(axis=0) + prior) / (len(h) + PRIOR_ROWS)
            noise = share * float(square.mean()) * float((1 / sizes).sum())
            # How far below 0 the h of any row and arm may be, and above.
            rise, control = means.mean[1:] - means.mean[0], means.mean[0]
            below = np.maximum(means.mean[1:] / means.least[1:], (1 - control) / means.least[0])
            above = np.maximum((1 - means.mean[1:]) / means.least[1:], control / means.least[0])
            floor = max(float((below - rise).max()), 0.0)
            floor_beyond = floor + max(float((above + rise).max()), 0.0)
        dearest = 0.0 if prices is None else float(prices.max())
        floors = floor, floor_beyond, floor + dearest
        variances = noise, noise * max(1 - share, 0.1), noise
        stakes = tuple(
            Stake(0.0, float(best_bet(variance, level, lowest)), lowest)
            for lowest, variance in zip(floors, variances, strict=True)
        )
        return cls(n_arms, shift, means, prices, ends, stakes)

    def statistics(
        self, part: PolicyRows, ends: NDArray[np.int64], rng: np.random.Generator
    ) -> Floats:
        """Block statistics of a new partition, (3, blocks): gain, gain over random, net value."""
        n_blocks = ends.shape[1]
        sizes = np.diff(ends, axis=1, prepend=0)
        total = sizes.sum(axis=0)
        kind = part.got if self.means is None else np.zeros(len(part.y), np.intp)
        block = np.empty(len(part.y), np.int64)
        for number, own_sizes in enumerate(sizes):
            own = rng.permutation(np.flatnonzero(kind == number))
            block[own] = np.repeat(np.arange(n_blocks), own_sizes)
        share = (part.y - self.shift) / sizes[kind, block]
        if self.means is not None and part.chance is not None:
            h = self.means.effects(part.y, part.got, part.chance) / total[block, None]
        w = np.zeros((3, n_blocks))
        for arm in range(1, self.n_arms + 1):
            # What each row contributes to the effect of the arm in its block.
            if self.means is None:
                effect = np.where(part.got == arm, share, np.where(part.got == 0, -share, 0.0))
            else:
                effect = h[:, arm]
            is_chosen = part.chosen == arm
            given = np.bincount(block, is_chosen, n_blocks)
            others = (given[block] - is_chosen) / (total[block] - 1)
            w[0] += np.bincount(block, effect * is_chosen, n_blocks)
            w[1] += np.bincount(block, effect * (is_chosen - others), n_blocks)
        w[2] = w[0]
        if self.prices is not None:
            w[2] -= np.bincount(block, self.prices[part.chosen], n_blocks) / total
        return w
