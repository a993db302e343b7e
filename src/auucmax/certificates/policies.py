"""Certificates for policies of several arms: what a fixed choice of arms gains at least.

A block holds rows of the control and of each of K arms, chosen without looking at anything but the
arms. chosen_i is the arm that a policy gives to row i, whatever the row got; the policy comes from
other rows. With b_a the block's rows of arm a, b_0 those of the control and r_i = y_i - m,

    w = sum over arms a of  [ mean over rows that got a       of r_i u_ia
                            - mean over rows of the control   of r_i u_ia ],

u_ia = 1{chosen_i = a}. The expectation of w is the gain per person of the policy over treating
nobody; with u_ia = 1{chosen_i = a} - (share of the block's other rows that the policy gives a) it
is the gain over giving the same arms, in the same numbers, to random people. Minus what the block's
rows cost, w is the net value. Where chances of the arms are known and differ, a block is any rows,
and w the mean over them of h_a of the arm that is chosen (``known_chances.py``), or of h_a u_ia.
docs/guarantees.md has the proofs. Bets are of one size
(``fixed_bets.py``), on one policy or on those of models that learn chunk after chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from auucmax._progress import track
from auucmax._shown import Shown
from auucmax._validation import Floats, check_column, check_level, check_whole
from auucmax.certificates.betting import known_range
from auucmax.certificates.blocks import block_size, n_dealings_of
from auucmax.certificates.fixed_bets import LARGEST_LOSS, Stake
from auucmax.certificates.known_chances import PolicyPilot

Codes = NDArray[np.intp]
#: (outcomes, chosen arm, arm that was got), arms as numbers, 0 for the control.
PolicyChunk = tuple[ArrayLike, ArrayLike | None, ArrayLike]


@dataclass(frozen=True, repr=False)
class PolicyCertificate(Shown):
    """Lower bounds on what a policy gains per person, each with probability 1 - ``delta``.

    ``gain_lower_bound``: over treating nobody; ``random_lower_bound``: over giving the same arms to
    as many random people; ``net_lower_bound``: value times the gain, minus costs, if value and cost
    were given, else None. ``n_rows`` were bet on, ``n_models`` policies judged, each of which comes
    from the rows before those that judge it.
    """

    gain_lower_bound: float
    random_lower_bound: float
    net_lower_bound: float | None
    delta: float
    n_rows: int
    n_models: int
    assumptions: tuple[str, ...]
    n_candidates: int = 1


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
    """Certify the gain of a policy that was fixed beforehand, or of one for each chunk of rows.

    Parameters
    ----------
    chunks : (y, chosen, got) each: outcomes, the arm that the policy gives to each row, and the arm
        that it got: 0 for the control, 1 to K. The rows of the first chunk are not bet on: they
        only decide how large bets are, and its ``chosen`` is None. Later ones: the policy of chunk
        k must come from the chunks before it, or from other rows.
    n_arms : K.
    delta : probability with which a bound may fail.
    outcome_range : lowest and highest possible outcome.
    value, cost : of one unit of the outcome, and (K,) of giving each arm to a person, for the bound
        on the net value.
    treated_share : a guess, made beforehand, of the part of the people who get an arm. It sizes the
        bets; a wrong one costs width, not truth.
    n_candidates : how many policies this one was chosen from on these rows.
    propensity : (n, K + 1) of each chunk, the chances of the control and of each arm by design,
        where they differed between people; None: they were the same for all.
    n_dealings, random_state : rows are assigned to blocks so many times; the seed must be fixed
        beforehand.

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
    check_level(delta, "delta")
    level = delta / check_whole(n_candidates, "n_candidates", 1)
    rows = [
        _checked(chunk, k == 0, n_arms, None if propensity is None else propensity[k])
        for k, chunk in enumerate(chunks)
    ]
    y = np.concatenate([part.y for part in rows])
    low, high = known_range(outcome_range, y.min(), y.max())
    unit = high - low
    rows = [part._replace(y=(part.y - low) / unit) for part in rows]
    judged = [
        part
        for part in rows[1:]
        # Random people are the others of a block.
        if (
            len(part.y) > 1
            if part.chance is not None
            else np.bincount(part.got, minlength=n_arms + 1).all()
        )
    ]
    n_rows = sum(len(part.y) for part in judged)
    prices = _prices(value, cost, unit, n_arms)
    if n_dealings is None:
        n_dealings = n_dealings_of(n_rows + 1)
    bounds = [-np.inf] * 3
    if judged:
        kind = _Game if propensity is None else _ChanceGame
        game = kind.of(rows[0], judged, n_arms, prices)
        n_dealings = check_whole(n_dealings, "n_dealings", 1)
        seeds = np.random.SeedSequence(random_state).spawn(n_dealings)
        bounds = _played(game, game.stakes(treated_share, level), seeds, level)
    return PolicyCertificate(
        gain_lower_bound=bounds[0] * unit,
        random_lower_bound=bounds[1] * unit,
        net_lower_bound=None if prices is None else bounds[2] * unit,
        delta=delta,
        n_rows=n_rows,
        n_models=len(judged),
        assumptions=_assumptions(low, high, n_candidates, propensity is not None),
        n_candidates=n_candidates,
    )


SHARES = tuple(k / 20 for k in range(1, 21))  #: of people, at which gains are certified together
_REFERENCE = 0.1  # of the rows of a chunk, whose scores cut the shares, and which are not bet on
_FOR_SHARES = 0.1  # of delta, for how many people lie above the cuts


@dataclass(frozen=True, repr=False)
class ShareCertificate(Shown):
    """What treating the best-ranked people gains at least, at several cuts together.

    A cut of share q is the score above which q of some rows lie that are not bet on; of all people
    about as many lie above it, and at most what ``share_upper_bounds`` says.
    ``gain_lower_bounds``: of treating everybody above the cut over treating nobody, per person of
    all people. All bounds hold at once with probability 1 - ``delta``, so share, value and cost may
    be chosen after looking.
    """

    shares: tuple[float, ...]
    gain_lower_bounds: tuple[float, ...]
    share_upper_bounds: tuple[float, ...]
    delta: float
    n_rows: int
    n_models: int
    assumptions: tuple[str, ...]

    def net_lower_bounds(self, value: float, cost: float) -> Floats:
        """(shares,) value times gain minus cost of all above the cut, per person, at least.

        >>> found = ShareCertificate((0.5, 1.0), (0.02, 0.03), (0.51, 1.0), 0.05, 1000, 1, ())
        >>> found.net_lower_bounds(10, 0.2).round(3).tolist()
        [0.098, 0.1]
        """
        return value * np.array(self.gain_lower_bounds) - cost * np.array(self.share_upper_bounds)


def certify_shares(
    chunks: Sequence[tuple[ArrayLike, ArrayLike | None, ArrayLike]],
    *,
    shares: Sequence[float] = SHARES,
    delta: float = 0.05,
    outcome_range: tuple[float, float] = (0.0, 1.0),
    n_candidates: int = 1,
    n_dealings: int | None = None,
    random_state: int = 0,
) -> ShareCertificate | None:
    """Certify what treating all above a cut gains over treating nobody, at all cuts together.

    Parameters
    ----------
    chunks : (y, score, treated) of each chunk, as in :func:`progressive_certificate`: the first
        has no score and sizes the bets; the scores of others come from a model of the chunks before
        it, or, of one more chunk only, from other rows.
    shares : of people, above 0, that are cut off on a tenth of the rows of each chunk, which are
        not bet on; they share delta.
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
    check_level(delta, "delta")
    low, high = outcome_range
    parts = [(check_column(y, "y"), score, np.asarray(arms, np.intp)) for y, score, arms in chunks]
    first, seeds = parts[0], np.random.SeedSequence(random_state)
    rng = np.random.default_rng(seeds.spawn(1)[0])
    later = [
        _reference(y, check_column(score, "score", len(y)), arms, rng)
        for y, score, arms in parts[1:]
        if score is not None and np.bincount(arms, minlength=2).min() >= 20
    ]
    later = [part for part in later if np.bincount(part.got, minlength=2).all()]
    if not later:
        return None
    lower = []
    n_bounds = n_candidates * len(shares)
    for share in shares:
        rows: list[PolicyChunk] = [(first[0], None, first[2])]
        rows += [(part.y, part.chosen(share), part.got) for part in later]
        found = certify_policy(
            rows,
            n_arms=1,
            delta=delta * (1 - _FOR_SHARES),
            outcome_range=outcome_range,
            treated_share=share,
            n_candidates=n_bounds,
            n_dealings=2 if n_dealings is None else n_dealings,
            random_state=random_state,
        )
        lower.append(found.gain_lower_bound)
    return ShareCertificate(
        tuple(map(float, shares)),
        tuple(lower),
        _most_above(later, shares, delta * _FOR_SHARES / n_bounds),
        delta,
        found.n_rows,
        found.n_models,
        _assumptions(low, high, n_candidates),
    )


class _Ranked(NamedTuple):
    """Rows of a chunk that are bet on, and scores of others of it, the highest first.

    ``coin`` (n,) decides which rows of a level that a share cuts are chosen.
    """

    y: Floats
    score: Floats
    got: Codes
    coin: Floats
    reference: Floats

    def chosen(self, share: float) -> Codes:
        """1 for the rows above the score that cuts off the share of the reference."""
        if share >= 1:
            return np.ones(len(self.y), np.intp)
        cut = self.reference[min(int(share * len(self.reference)), len(self.reference) - 1)]
        above, level = (self.reference > cut).mean(), (self.reference == cut).mean()
        inside = (self.score == cut) & (self.coin < (share - above) / level)
        return ((self.score > cut) | inside).astype(np.intp)


def _reference(y: Floats, score: Floats, arms: Codes, rng: np.random.Generator) -> _Ranked:
    """Set some rows apart, without looking at anything."""
    n = int(max(_REFERENCE * len(y), min(200, len(y) / 4)))
    order = rng.permutation(len(y))
    apart, bet = order[:n], np.sort(order[n:])
    ranked = np.sort(score[apart])[::-1]
    return _Ranked(y[bet], score[bet], arms[bet], rng.random(len(bet)), ranked)


def _most_above(parts: list[_Ranked], shares: Sequence[float], level: float) -> tuple[float, ...]:
    """At most so many of all people are above each cut: Hoeffding's bound, from the rows bet on.

    Chunks weigh as their blocks do, as in the mean that the gains are bounds of.
    """
    n_rows = np.array([len(part.y) for part in parts])
    n_blocks = np.array([end.shape[1] for end in _block_ends([part.got for part in parts], 1)])
    weight = n_blocks / n_blocks.sum()
    error = float(np.sqrt(np.log(1 / level) / 2 * (weight**2 / n_rows).sum()))
    found = [weight @ [part.chosen(share).mean() for part in parts] + error for share in shares]
    return tuple(float(min(share, 1.0)) for share in found)


def _assumptions(
    low: float, high: float, n_candidates: int, by_chances: bool = False
) -> tuple[str, ...]:
    arms = "rows are independent, and arms were randomised with the same chances for all"
    if by_chances:
        arms = (
            "rows are independent, each got its arm by an independent draw with known chances by "
            "design (statistics after Horvitz and Thompson)"
        )
    own = [
        arms,
        f"outcomes lie in [{low:g}, {high:g}]",
        "each policy comes from other rows than those that judge it",
    ]
    if n_candidates > 1:
        own.append(f"the {n_candidates} ways of making policies were fixed without these rows")
    return tuple(own)


class _PolicyRows(NamedTuple):
    """Checked rows of a chunk, arms as numbers."""

    y: Floats
    chosen: Codes
    got: Codes
    chance: Floats | None = None


def _checked(
    chunk: PolicyChunk, is_first: bool, n_arms: int, chance: ArrayLike | None
) -> _PolicyRows:
    y, chosen, got = chunk
    if is_first != (chosen is None):
        raise ValueError(
            f"chosen should be None in the first chunk, which is not bet on, and given in the "
            f"others; got {'none' if chosen is None else 'arms'}. Set some rows apart as the first."
        )
    outcome = check_column(y, "y")
    arms = [
        _codes(values, name, len(outcome), n_arms)
        for name, values in (("chosen", chosen), ("got", got))
        if values is not None
    ]
    if chance is None:
        return _PolicyRows(outcome, arms[0], arms[-1])
    table = np.asarray(chance, dtype=np.float64)
    right = table.shape == (len(outcome), n_arms + 1) and (table > 0).all()
    if not right or np.abs(table.sum(axis=1) - 1).max(initial=0.0) > 1e-6:
        raise ValueError(
            f"propensity should have a row for each of {len(outcome):,} people of a chunk, the "
            f"chances of the control and of {n_arms} arms, above 0, which add up to 1; got an "
            f"array of shape {table.shape} or other numbers. Pass the chances by design."
        )
    return _PolicyRows(outcome, arms[0], arms[-1], table)


def _codes(values: ArrayLike, name: str, n_rows: int, n_arms: int) -> Codes:
    numbers = check_column(values, name, n_rows)
    codes = numbers.astype(np.intp)
    if (codes != numbers).any() or codes.min() < 0 or codes.max() > n_arms:
        raise ValueError(
            f"{name} should be whole numbers from 0, the control, to {n_arms}, got "
            f"{numbers.min():g} to {numbers.max():g}. Number the arms so."
        )
    return codes


def _prices(value: float | None, cost: Any, unit: float, n_arms: int) -> Floats | None:
    """(K + 1,) what arms cost, 0 for the control, in units of a whole range of outcomes.

    The value of one outcome is taken out: bounds are in units of the outcome.
    """
    if (value is None) != (cost is None):
        raise ValueError("value and cost should come together, got one of them. Pass both.")
    if value is None:
        return None
    if not value > 0:
        raise ValueError(f"value should be above 0, got {value!r}. Pass that of one outcome.")
    costs = np.broadcast_to(check_column(np.atleast_1d(cost), "cost"), (n_arms,))
    return np.concatenate([[0.0], costs]) / (value * unit)


def _block_ends(chunks: list[Codes], n_arms: int) -> list[NDArray[np.int64]]:
    """Of each chunk (K + 1, blocks): rows of each arm up to a block, by the arms that rows got."""
    size = max(block_size(sum(map(len, chunks))), 2.0 * (n_arms + 1))
    ends = []
    for got in chunks:
        counts = np.bincount(got, minlength=n_arms + 1)
        n_blocks = max(1, int(min(len(got) / size, counts.min())))
        places = np.arange(1, n_blocks + 1)
        ends.append(np.rint(np.outer(counts, places) / n_blocks).astype(np.int64))
    return ends


def _played(
    game: _Game | _ChanceGame,
    stakes: list[Stake],
    seeds: Sequence[np.random.SeedSequence],
    level: float,
) -> list[float]:
    """A bound for each target, of outcomes in [0, 1]."""
    wealth = np.zeros((len(seeds), len(stakes)))
    for number, seed in enumerate(track(seeds, len(seeds), "betting on blocks")):
        rng = np.random.default_rng(seed)
        for part, ends in zip(game.chunks, game.ends, strict=True):
            statistics = game.statistics(part, ends, rng)
            for target, (w, stake) in enumerate(zip(statistics, stakes, strict=True)):
                wealth[number, target] += np.log1p(stake.bet * (w - stake.theta)).sum()
    n_blocks = sum(end.shape[1] for end in game.ends)
    total = logsumexp(wealth, axis=0) - np.log(len(seeds))
    return [
        float(stake.theta + (log_w + np.log(level)) / (stake.bet * n_blocks))
        for stake, log_w in zip(stakes, total, strict=True)
    ]


def _sized(low: float, variance: float, n_blocks: int, level: float) -> Stake:
    """The bet around 0 that is best for a variance of a block, if its floor allows it."""
    best = float(np.sqrt(2 * np.log(1 / level) / (n_blocks * variance)))
    return Stake(0.0, min(best, LARGEST_LOSS / low), low)


@dataclass(frozen=True)
class _Game:
    """What is fixed before the first bet: from the pilot, and from the arms that rows got."""

    chunks: list[_PolicyRows]
    n_arms: int
    shift: float
    prices: Floats | None
    ends: list[NDArray[np.int64]]

    @classmethod
    def of(
        cls, pilot: _PolicyRows, chunks: list[_PolicyRows], n_arms: int, prices: Floats | None
    ) -> _Game:
        ends = _block_ends([part.got for part in chunks], n_arms)
        # A prior of one row keeps the guess sane if there are hardly any.
        shift = float((pilot.y.sum() + 0.5) / (len(pilot.y) + 1))
        return cls(chunks, n_arms, shift, prices, ends)

    def stakes(self, treated_share: float, level: float) -> list[Stake]:
        """The bets on gain, gain beyond random people, and net value, all around 0."""
        m, share = self.shift, float(np.clip(treated_share, 0.01, 1.0))
        sizes = np.hstack([np.diff(end, axis=1, prepend=0) for end in self.ends])
        # As if arms were chosen without looking at outcomes, and each as often.
        parts = np.full((self.n_arms + 1, 1), share / self.n_arms)
        parts[0] = share
        noise = m * (1 - m) * float((parts / sizes).sum(axis=0).mean()) + 1e-12
        dearest = 0.0 if self.prices is None else float(self.prices.max())
        floor = self.n_arms * m + 1 - m
        return [
            _sized(low, variance, sizes.shape[1], level)
            for low, variance in (
                (floor, noise),
                ((self.n_arms + 1) * max(m, 1 - m), noise * max(1 - share, 0.1)),
                (floor + dearest, noise),
            )
        ]

    def statistics(
        self, part: _PolicyRows, ends: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[Floats, Floats, Floats]:
        """w of every block of a new dealing: gain, beyond random people, net value; (blocks,)."""
        n_arms, n_blocks = self.n_arms, ends.shape[1]
        sizes = np.diff(ends, axis=1, prepend=0)
        block = np.empty(len(part.y), np.int64)
        for arm in range(n_arms + 1):
            own = rng.permutation(np.flatnonzero(part.got == arm))
            block[own] = np.repeat(np.arange(n_blocks), sizes[arm])
        r = part.y - self.shift
        total = sizes.sum(axis=0)
        gain, beyond = np.zeros(n_blocks), np.zeros(n_blocks)
        for arm in range(1, n_arms + 1):
            is_chosen = part.chosen == arm
            given = np.bincount(block, is_chosen, minlength=n_blocks)
            for got, sign in ((arm, 1.0), (0, -1.0)):
                some = part.got == got
                own, chosen, scale = block[some], is_chosen[some], sign / sizes[got]
                gain += scale * np.bincount(own, r[some] * chosen, minlength=n_blocks)
                others = (given[own] - chosen) / (total[own] - 1)
                away = r[some] * (chosen - others)
                beyond += scale * np.bincount(own, away, minlength=n_blocks)
        net = gain
        if self.prices is not None:
            net = gain - np.bincount(block, self.prices[part.chosen], minlength=n_blocks) / total
        return gain, beyond, net


@dataclass(frozen=True)
class _ChanceGame:
    """The same where chances of the arms are known and differ: blocks are of any rows."""

    chunks: list[_PolicyRows]
    n_arms: int
    pilot: PolicyPilot
    prices: Floats | None
    ends: list[NDArray[np.int64]]

    @classmethod
    def of(
        cls, first: _PolicyRows, chunks: list[_PolicyRows], n_arms: int, prices: Floats | None
    ) -> _ChanceGame:
        assert first.chance is not None
        pilot = PolicyPilot.of(first.y, first.got, first.chance)
        size = max(block_size(sum(len(part.y) for part in chunks)), 2.0 * (n_arms + 1))
        ends = []
        for part in chunks:
            n_blocks = max(1, int(len(part.y) / size))
            places = np.arange(1, n_blocks + 1)
            ends.append(np.rint(len(part.y) * places / n_blocks).astype(np.int64)[None, :])
        return cls(chunks, n_arms, pilot, prices, ends)

    def stakes(self, treated_share: float, level: float) -> list[Stake]:
        """The bets on gain, gain beyond random people, and net value, all around 0."""
        share = float(np.clip(treated_share, 0.01, 1.0))
        sizes = np.concatenate([np.diff(end[0], prepend=0) for end in self.ends])
        # As if arms were chosen without looking at outcomes, and each as often.
        noise = share * float(self.pilot.square.mean()) * float((1 / sizes).mean())
        dearest = 0.0 if self.prices is None else float(self.prices.max())
        below, above = self.pilot.floors
        return [
            _sized(low, variance, len(sizes), level)
            for low, variance in (
                (below, noise),
                (below + above, noise * max(1 - share, 0.1)),
                (below + dearest, noise),
            )
        ]

    def statistics(
        self, part: _PolicyRows, ends: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[Floats, Floats, Floats]:
        """w of every block of a new dealing: gain, beyond random people, net value; (blocks,)."""
        assert part.chance is not None
        n, n_blocks, sizes = len(part.y), ends.shape[1], np.diff(ends[0], prepend=0)
        block = np.empty(n, np.int64)
        block[rng.permutation(n)] = np.repeat(np.arange(n_blocks), sizes)
        h = self.pilot.effects(part.y, part.got, part.chance)
        gain = np.bincount(block, h[np.arange(n), part.chosen], minlength=n_blocks) / sizes
        beyond = np.zeros(n_blocks)
        for arm in range(1, self.n_arms + 1):
            is_chosen = part.chosen == arm
            given = np.bincount(block, is_chosen, minlength=n_blocks)
            others = (given[block] - is_chosen) / (sizes[block] - 1)
            beyond += np.bincount(block, h[:, arm] * (is_chosen - others), minlength=n_blocks)
        net = gain
        if self.prices is not None:
            net = gain - np.bincount(block, self.prices[part.chosen], minlength=n_blocks) / sizes
        return gain, beyond / sizes, net
