"""Certificates of a fit: the rows, scores and ranges that they are made from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats
from auucmax.certificates import certify, certify_shares
from auucmax.certificates.known_chances import ChancesBeyond, evenly_drawn, most_people
from auucmax.certificates.policies import certify_policy
from auucmax.certificates.progressive import progressive_certificate
from auucmax.data.few import LEAST_ROWS
from auucmax.data.hashing import Hashes
from auucmax.data.outcomes import MOST_BEYOND, share_beyond
from auucmax.data.pair import Pair
from auucmax.data.trial import Trial
from auucmax.metrics.allocation import arm_steps
from auucmax.model.folds import OutOfFold, Recipe, places, ranks_among, ranks_within
from auucmax.model.judge import number, quietly_calibrated
from auucmax.results import Certificate, Cut, Cuts, Kind, Missing, Why
from auucmax.targeting.choose import choose

TILT = 1e-4  #: of the outcomes' standard deviation, from the lowest score of an arm to the highest
SIZING = 0.05  #: of held-out rows, which size the bets and are not bet on
_GUIDES = 10  # one row in so many of a chunk shows the policy's cut, and is not bet on
_MIX = np.uint64(0xA24BAED4963EE407)

Range = tuple[float, float]
Chunk = tuple[Floats, Floats | None, Bools]


def counted_range(rows: Pair | Trial) -> Range | Missing:
    """The range of outcomes, as benefits, that a certificate counts; or why there is none."""
    trial, index = (rows.trial, rows.index) if isinstance(rows, Pair) else (rows, slice(None))
    outcome = trial.roles.outcome
    if outcome.kind == Kind.BINARY:
        return 0.0, 1.0
    if outcome.range is None:
        return Missing(why=Why.NO_RANGE)
    low, high = outcome.range
    lost = share_beyond(trial.y[index], (low, high))
    if lost > MOST_BEYOND:
        return Missing(why=Why.NARROW_RANGE, got=lost, needed=MOST_BEYOND)
    return (-high, -low) if outcome.lower_is_better else (low, high)


def chunk_parts(pair: Pair, apart: OutOfFold, recipe: Recipe) -> list[NDArray[np.intp]]:
    """Rows of the pair in the chunks before the first bet, then in each that is bet on."""
    chunk = apart.fold[pair.index] // recipe.per_chunk
    masks = [chunk < k for k in apart.bet_on[:1]] + [chunk == k for k in apart.bet_on]
    return [np.flatnonzero(mask) for mask in masks]


def chunk_rows(
    pair: Pair, apart: OutOfFold, parts: Sequence[NDArray[np.intp]], counted: Range
) -> list[Chunk]:
    """The chunks as :func:`progressive_certificate` takes them; the first one has no scores."""
    score, y = apart.chunk_score[pair.index], np.clip(pair.y, *counted)
    return [
        (y[part], score[part] if k else None, pair.treated[part]) for k, part in enumerate(parts)
    ]


def sized_rows(pair: Pair, score: Floats, counted: Range, seed: int) -> list[Chunk]:
    """Held-out rows: some that size the bets, and those that are bet on."""
    y = np.clip(pair.y, *counted)
    sizing = np.random.default_rng(seed).random(len(y)) < SIZING
    rest = ~sizing
    return [(y[sizing], None, pair.treated[sizing]), (y[rest], score[rest], pair.treated[rest])]


def progressive(pair: Pair, apart: OutOfFold, recipe: Recipe) -> Certificate | Missing:
    """The guarantee for models trained on more and more chunks; or why there is none."""
    counted = counted_range(pair)
    if isinstance(counted, Missing):
        return counted
    if pair.has_mixed_groups:
        return Missing(why=Why.MIXED_GROUPS)
    if not apart.bet_on:
        return Missing(why=Why.FEW_ROWS)
    parts = chunk_parts(pair, apart, recipe)
    try:
        if pair.people is not None:  # everyone must be as likely to be among the rows
            most = most_people(pair.people[parts[0]])
            parts = [
                part[evenly_drawn(pair.people[part], most, places(pair.keys[part] * _MIX))]
                for part in parts
            ]
        chance = pair.propensity
        found = progressive_certificate(
            chunk_rows(pair, apart, parts, counted),
            groups=None if pair.groups is None else [pair.keys[part] for part in parts],
            propensity=None if chance is None else [chance[part] for part in parts],
            n_candidates=recipe.n_candidates,
            outcome_range=counted,
        )
    except ChancesBeyond:
        return Missing(why=Why.EXTREME_PROPENSITY)
    return _certificate(pair, found, counted, n_models=found.n_models, trained_on=found.trained_on)


def held_out(pair: Pair, score: Floats, n_candidates: int) -> Certificate | Missing:
    """The guarantee for a score on rows that its model was not trained on."""
    counted = counted_range(pair)
    if isinstance(counted, Missing):
        return counted
    if pair.has_mixed_groups:
        return Missing(why=Why.MIXED_GROUPS)
    some = np.arange(len(pair.y))
    try:
        if pair.people is not None:
            unit = some if pair.groups is None else pair.groups
            draws = np.random.default_rng(0).random((2, int(unit.max()) + 1))
            first, draw = draws[0, unit], draws[1, unit]
            # These rows size the weights, and are not certified on.
            most = most_people(pair.people[first < SIZING])
            some = np.flatnonzero(first >= SIZING)
            some = some[evenly_drawn(pair.people[some], most, draw[some])]
        options: dict[str, Any] = {}
        if pair.groups is not None:
            options["groups"] = pair.groups[some]
        if pair.propensity is not None:
            options["propensity"] = pair.propensity[some]
        if counted != (0.0, 1.0):
            options["outcome_range"] = counted
        found = certify(
            score[some], y=np.clip(pair.y[some], *counted), treatment=pair.treated[some],
            n_candidates=n_candidates, **options,
        )  # fmt: skip
    except ChancesBeyond:
        return Missing(why=Why.EXTREME_PROPENSITY)
    return _certificate(pair, found, counted)


def _certificate(pair: Pair, found: Any, counted: Range, **more: Any) -> Certificate | Missing:
    if not np.isfinite(found.gain_lower_bound):
        return Missing(why=Why.FEW_ROWS)
    return Certificate(
        claim="ranking",
        gain=found.gain_lower_bound,
        auuc=number(found.lower_bound),
        delta=found.delta,
        n_rows=found.n_rows,
        n_candidates=found.n_candidates,
        counted=counted,
        beyond=share_beyond(pair.y, counted),
        **more,
    )


def guaranteed_cuts(chunks: Sequence[Chunk], counted: Range, n_candidates: int) -> Cuts | None:
    """What treating all above the cuts of 20 shares gains at least, together.

    There are fewer shares where less than 20 rows of an arm would lie between two.
    """
    if len(chunks) < 2:
        return None
    treated = np.concatenate([arms for _, _, arms in chunks[1:]])
    least = min(int(treated.sum()), int((~treated).sum())) / LEAST_ROWS
    n_shares = next((n for n in (20, 10, 4) if n <= least), None)
    if n_shares is None:
        return None
    found = certify_shares(
        chunks,
        shares=[k / n_shares for k in range(1, n_shares + 1)],
        outcome_range=counted,
        n_candidates=n_candidates,
    )
    if found is None:
        return None
    columns = (found.shares, found.share_upper_bounds, found.gain_lower_bounds)
    return Cuts(
        delta=found.delta,
        n_rows=found.n_rows,
        cuts=tuple(
            Cut(share=float(share), share_upper=float(most), lower=float(lower))
            for share, most, lower in zip(*columns, strict=True)
        ),
    )


def policy_guarantee(
    trial: Trial,
    pairs: Sequence[Pair],
    chunk_scores: Sequence[Floats],
    recipe: Recipe,
    keys: Hashes,
    costs: Sequence[float],
    budget: float | None,
) -> Certificate | Missing:
    """What the policies of the chunks gain at least at a budget that was fixed in advance.

    ``chunk_scores``: (n,) for each arm, of all rows, by models trained on the chunks before. A
    tenth of the rows of a chunk, which are not bet on, show the rate that spends the budget.
    """
    if budget is None:
        return Missing(why=Why.NO_BUDGET)
    counted = counted_range(trial)
    if isinstance(counted, Missing):
        return counted
    if trial.groups is not None:
        return Missing(why=Why.GROUPS)
    chunk = recipe.folds(keys) // recipe.per_chunk
    is_scored = np.asarray(np.isfinite(np.stack(chunk_scores)).all(axis=0))
    bet_on = [k for k in range(1, recipe.n_chunks) if is_scored[chunk == k].all()]
    if not bet_on:
        return Missing(why=Why.FEW_ROWS)
    y, arm, chance = np.clip(trial.benefit, *counted), trial.arm, trial.propensity
    cost = np.asarray(costs, dtype=np.float64)
    before = chunk < bet_on[0]
    parts = [before]
    given: list[NDArray[np.intp] | None] = [None]
    guide = guides(keys)
    for k in bet_on:
        inside = np.flatnonzero(chunk == k)
        own = guide[inside]
        columns = [
            _chunk_uplift(pair, score, chunk, k, bet_on, inside, own)
            for pair, score in zip(pairs, chunk_scores, strict=True)
        ]
        uplift = np.column_stack(columns)
        given.append(arms_above(uplift[~own], cost, rate_of(uplift[own], cost, budget)))
        parts.append((chunk == k) & ~guide)
    rows = [(y[part], chosen, arm[part]) for part, chosen in zip(parts, given, strict=True)]
    try:
        found = certify_policy(
            rows, n_arms=len(cost), outcome_range=counted, n_candidates=recipe.n_candidates,
            propensity=None if chance is None else [chance[part] for part in parts],
        )  # fmt: skip
    except ChancesBeyond:
        return Missing(why=Why.EXTREME_PROPENSITY)
    if not np.isfinite(found.gain_lower_bound):
        return Missing(why=Why.FEW_ROWS)
    bets = np.concatenate([chosen for chosen in given if chosen is not None])
    return Certificate(
        claim="policy",
        gain=found.gain_lower_bound,
        over_random=found.random_lower_bound,
        delta=found.delta,
        n_rows=found.n_rows,
        n_models=found.n_models,
        trained_on=(float(before.mean()), float((chunk < bet_on[-1]).mean())),
        n_candidates=found.n_candidates,
        budget=budget,
        spent=float(np.concatenate([[0.0], cost])[bets].mean()),
        counted=counted,
        beyond=share_beyond(trial.benefit, counted),
    )


def _chunk_uplift(
    pair: Pair, score: Floats, chunk: NDArray[np.int64], k: int, bet_on: Sequence[int],
    inside: NDArray[np.intp], guide: Bools,
) -> Floats:  # fmt: skip
    """(rows of chunk k,) uplifts by the chunks before it, from ranks among its guide rows."""
    own = chunk[pair.index]
    rank = ranks_among(score[inside], score[inside[guide]])
    tilted = TILT * float(pair.y[own < k].std()) * (rank - 0.5)
    earlier = np.isin(own, [j for j in bet_on if j < k])
    if not earlier.any():  # nothing was ranked yet: everyone gets the average effect
        y, treated = pair.y[own < k], pair.treated[own < k]
        weight = np.ones(len(y)) if pair.weight is None else pair.weight[own < k]
        means = [np.average(y[arm], weights=weight[arm]) for arm in (treated, ~treated)]
        return tilted + means[0] - means[1]
    ranks = ranks_within(score[pair.index][earlier], own[earlier])
    return tilted + quietly_calibrated(pair.take(earlier), ranks)(rank)


def guides(keys: Hashes) -> Bools:
    """(n,) one row in ten, by other bits of the keys than those of the folds."""
    mixed = keys * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray((mixed >> np.uint64(32)) % np.uint64(_GUIDES) == 0)


def rate_of(uplift: Floats, cost: Floats, budget: float) -> float:
    """The lowest rate of uplift to cost that a budget per person pays for; 0 if money is left."""
    found = choose(uplift, cost=cost, budget=budget * len(uplift))
    return found.threshold if found.is_cut else 0.0


def arms_above(uplift: Floats, cost: Floats, rate: float) -> NDArray[np.intp]:
    """(n,) the arm, 1 to K, that each person gets if steps of this rate and above are taken."""
    steps = arm_steps(uplift, np.broadcast_to(cost, uplift.shape))
    steps = steps.take(np.flatnonzero(steps.rate >= rate))
    chosen = np.zeros(len(uplift), dtype=np.intp)
    chosen[steps.person] = steps.arm + 1  # later steps of a person come later
    return chosen
