"""Certificates of a fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats
from auucmax.certificates import certify, certify_shares
from auucmax.certificates.blocks import ChancesBeyond, evenly_drawn, most_people
from auucmax.certificates.fixed_bets import progressive_certificate
from auucmax.certificates.policies import certify_policy
from auucmax.data.hashing import Hashes, second_hashes
from auucmax.data.pair import Pair
from auucmax.data.trial import Trial
from auucmax.encoding.kinds import MOST_BEYOND, share_beyond
from auucmax.metrics.allocation import arm_steps
from auucmax.model.folds import Recipe, places, ranks_among, ranks_within
from auucmax.model.judge import quietly_calibrated
from auucmax.results import LEAST_ROWS, CertifiedGain, Cut, Cuts, Kind, Range, Why, plain
from auucmax.targeting.choose import choose

TILT = 1e-4  #: of the outcomes' standard deviation, from the lowest score of an arm to the highest
SIZING = 0.05  #: of held-out rows, which size the bets and are not bet on
_GUIDES = 10  # one row in so many of a chunk shows the policy's cut, and is not bet on
_MIX = np.uint64(0xA24BAED4963EE407)

Chunk = tuple[Floats, Floats | None, Bools]


def counted_range(rows: Pair | Trial) -> Range | Why:
    """Outcome range (as benefits) for certificates, or the reason for none."""
    trial, index = (rows.trial, rows.index) if isinstance(rows, Pair) else (rows, slice(None))
    outcome = trial.roles.outcome
    if outcome.kind == Kind.BINARY:
        return 0.0, 1.0
    if outcome.range is None:
        return Why.NO_RANGE
    low, high = outcome.range
    if share_beyond(trial.y[index], (low, high)) > MOST_BEYOND:
        return Why.NARROW_RANGE
    return (-high, -low) if outcome.lower_is_better else (low, high)


def guaranteed(
    pair: Pair,
    score: Floats,
    n_candidates: int,
    *,
    parts: list[NDArray[np.intp]] | None = None,
    seed: int | None = None,
) -> tuple[CertifiedGain | Why, Cuts | None]:
    """Certificate of a score, or the reason for none, and guarantees of cuts.

    ``parts``: chunks of rows, each scored by a model of the chunks before; the first one sizes the
    bets. None: no model was trained on the rows; with a ``seed``, which draws the rows that size
    the bets, there are cuts as well.
    """
    counted, cuts = counted_range(pair), None
    if isinstance(counted, Why):
        return counted, None
    y, of_cuts = np.clip(pair.y, *counted), parts or []
    if seed is not None:
        sizing = np.random.default_rng(seed).random(len(y)) < SIZING
        of_cuts = [np.flatnonzero(sizing), np.flatnonzero(~sizing)]
    if pair.groups is None and pair.propensity is None:
        cuts = _guaranteed_cuts(_chunks(pair, y, score, of_cuts), counted, n_candidates)
    if pair.has_mixed_groups:
        return Why.MIXED_GROUPS, None
    if parts is not None and not parts:
        return Why.FEW_ROWS, None
    how: dict[str, Any] = {"outcome_range": counted, "n_candidates": n_candidates}
    known: dict[str, Any] = {}
    if pair.groups is not None:
        known["groups"] = pair.keys
    if pair.propensity is not None:
        known["propensity"] = pair.propensity
    more: dict[str, Any] = {}
    found: Any
    try:
        if parts is None:
            some = np.arange(len(y))
            if pair.people is not None:  # everyone must be as likely to be among the rows
                unit = some if pair.groups is None else pair.groups
                first, draw = np.random.default_rng(0).random((2, unit.max() + 1))[:, unit]
                # These rows size the weights, and are not certified on.
                most = most_people(pair.people[first < SIZING])
                some = np.flatnonzero(first >= SIZING)
                some = some[evenly_drawn(pair.people[some], most, draw[some])]
            how |= {name: own[some] for name, own in known.items()}
            found = certify(score[some], y=y[some], treatment=pair.treated[some], **how)
        else:
            if pair.people is not None:
                most, draw = most_people(pair.people[parts[0]]), places(pair.keys * _MIX)
                parts = [p[evenly_drawn(pair.people[p], most, draw[p])] for p in parts]
            how |= {name: [own[part] for part in parts] for name, own in known.items()}
            found = progressive_certificate(_chunks(pair, y, score, parts), **how)
            more = {"n_models": found.n_models, "trained_on": found.trained_on}
    except ChancesBeyond:
        return Why.EXTREME_PROPENSITY, None
    if not np.isfinite(found.gain_lower_bound):
        return Why.FEW_ROWS, cuts
    certificate = CertifiedGain(
        claim="ranking",
        gain=found.gain_lower_bound,
        auuc=plain(found.lower_bound),
        delta=found.delta,
        n_rows=found.n_rows,
        n_candidates=n_candidates,
        counted=counted,
        beyond=share_beyond(pair.y, counted),
        **more,
    )
    return certificate, cuts


def _chunks(pair: Pair, y: Floats, score: Floats, parts: Sequence[NDArray[np.intp]]) -> list[Chunk]:
    """Chunks of rows for certificates; the first has no scores."""
    return [
        (y[part], score[part] if k else None, pair.treated[part]) for k, part in enumerate(parts)
    ]


def _guaranteed_cuts(chunks: Sequence[Chunk], counted: Range, n_candidates: int) -> Cuts | None:
    """Simultaneous guarantees of treating everyone above the cuts of 20 shares.

    There are fewer shares where less than 20 rows of an arm would lie between two.
    """
    if len(chunks) < 2:
        return None
    treated = np.concatenate([arms for _, _, arms in chunks[1:]])
    least = np.bincount(treated, minlength=2).min() / LEAST_ROWS
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
    arms: Sequence[tuple[Pair, Floats]],
    recipe: Recipe,
    keys: Hashes,
    cost: Floats,
    budget: float | None,
) -> CertifiedGain | Why:
    """Certificate of the chunk policies at a budget fixed in advance.

    ``arms``: the rows of each arm, and scores (n,) of all rows by models trained on the chunks
    before. A tenth of the rows of a chunk, which are not bet on, show the rate that spends the
    budget.
    """
    if budget is None:
        return Why.NO_BUDGET
    counted = counted_range(trial)
    if isinstance(counted, Why):
        return counted
    if trial.groups is not None:
        return Why.GROUPS
    chunk = recipe.folds(keys) // recipe.per_chunk
    is_scored = np.asarray(np.isfinite([score for _, score in arms]).all(axis=0))
    bet_on = [k for k in range(1, recipe.n_chunks) if is_scored[chunk == k].all()]
    if not bet_on:
        return Why.FEW_ROWS
    y, chance = np.clip(trial.benefit, *counted), trial.propensity
    before = chunk < bet_on[0]
    parts, given = [before], list[NDArray[np.intp]]()
    # One row in ten, drawn apart from the folds.
    guide = np.asarray((second_hashes(keys) >> np.uint64(32)) % np.uint64(_GUIDES) == 0)
    for k in bet_on:
        inside = np.flatnonzero(chunk == k)
        own, columns = guide[inside], list[Floats]()
        for pair, score in arms:  # uplifts from earlier chunks, by ranks among the guides
            of_row = chunk[pair.index]
            known = of_row < k
            rank = ranks_among(score[inside], score[inside[own]])
            tilted = TILT * float(pair.y[known].std()) * (rank - 0.5)
            ranks = np.zeros(known.sum())
            if k > bet_on[0]:  # else nothing was ranked yet: everyone gets the average effect
                known &= of_row >= bet_on[0]
                ranks = ranks_within(score[pair.index][known], of_row[known])
            columns.append(tilted + quietly_calibrated(pair.take(known), ranks)(rank))
        uplift = np.column_stack(columns)
        given.append(arms_at(uplift[~own], uplift[own], cost, budget))
        parts.append((chunk == k) & ~guide)
    try:
        found = certify_policy(
            [
                (y[part], chosen, trial.arm[part])
                for part, chosen in zip(parts, [None, *given], strict=True)
            ],
            n_arms=len(cost), outcome_range=counted, n_candidates=recipe.n_candidates,
            propensity=None if chance is None else [chance[part] for part in parts],
        )  # fmt: skip
    except ChancesBeyond:
        return Why.EXTREME_PROPENSITY
    if not np.isfinite(found.gain_lower_bound):
        return Why.FEW_ROWS
    return CertifiedGain(
        claim="policy",
        gain=found.gain_lower_bound,
        over_random=found.random_lower_bound,
        delta=found.delta,
        n_rows=found.n_rows,
        n_models=found.n_models,
        trained_on=(float(before.mean()), float((chunk < bet_on[-1]).mean())),
        n_candidates=recipe.n_candidates,
        budget=budget,
        spent=float(np.append(0.0, cost)[np.concatenate(given)].mean()),
        counted=counted,
        beyond=share_beyond(trial.benefit, counted),
    )


def arms_at(uplift: Floats, guides: Floats, cost: Floats, budget: float) -> NDArray[np.intp]:
    """Arm of each person at a budget per person, (n,): 1 to K, or 0 for none.

    Steps are taken down to the lowest rate of uplift to cost that the budget pays for among other
    people, whose uplifts are ``guides``; to 0 if money is left.
    """
    found = choose(guides, cost=cost, budget=budget * len(guides))
    steps = arm_steps(uplift, np.broadcast_to(cost, uplift.shape))
    steps = steps.take(np.flatnonzero(steps.rate >= (found.threshold if found.is_cut else 0.0)))
    chosen = np.zeros(len(uplift), dtype=np.intp)
    chosen[steps.person] = steps.arm + 1  # later steps of a person come later
    return chosen
