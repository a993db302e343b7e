"""Slow twins: short implementations of the definitions, for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from auucmax._validation import Floats, ScoredRows, check_groups, check_rows
from auucmax.metrics.ranking import Ranking, RankingKind


def rank_rows_slow(score: Floats) -> Ranking:
    """Slow twin of :func:`rank_rows`: a stable argsort, and where scores change."""
    order = np.argsort(score, kind="stable")
    in_order = score[order]
    starts = np.flatnonzero(np.concatenate([[True], in_order[1:] != in_order[:-1]]))
    return Ranking(order, None if len(starts) == len(score) else starts)


def auuc_by_pairs(
    y: Floats,
    score: Floats,
    treated: NDArray[np.bool_],
    *,
    ranking: RankingKind = "joint",
    weight: Floats | None = None,
    propensity: Floats | None = None,
) -> float:
    """AUUC from all pairs of rows, O(n^2), ties half."""
    weight = np.ones(len(y)) if weight is None else weight
    propensity = np.full(len(y), 0.5) if propensity is None else propensity
    area = {}
    for arm in (True, False):
        own = treated == arm
        mean_weight = weight[own] / (propensity[own] if arm else 1 - propensity[own])
        others, rank_weight = (score, weight) if ranking == "joint" else (score[own], mean_weight)
        below = np.sign(score[own, None] - others[None, :]) / 2 + 0.5
        u = below @ rank_weight / rank_weight.sum()
        area[arm] = float(np.sum(mean_weight * y[own] * u) / mean_weight.sum())
    return area[True] - area[False]


def uplift_curve_at(share: float, y: Floats, score: Floats, treated: NDArray[np.bool_]) -> float:
    """Joint uplift curve at one share, splitting the level at the cut; O(n)."""
    n_rows = len(y)
    value = 0.0
    for i in range(n_rows):
        above, level = np.sum(score > score[i]), np.sum(score == score[i])
        part = np.clip((share * n_rows - above) / level, 0, 1)
        value += part * y[i] * (1 / treated.sum() if treated[i] else -1 / (~treated).sum())
    return float(value)


def budget_gain_slow(
    budget: float, y: Floats, uplift: Floats, arm: NDArray[np.intp], cost: Floats
) -> tuple[float, Floats]:
    """Gain per person of a policy at one budget, and its shares M (n, K).

    Step by step: the step of the highest rate among all people's next ones, those of one rate
    together, until the money is spent. ``arm`` is 0 for the control and 1 to K, as the rows got it.
    """
    n, n_arms = uplift.shape
    part, at, left = np.zeros((n, n_arms)), [-1] * n, budget * n
    while True:
        steps = {}
        for i in range(n):
            gain, spent = (0.0, 0.0) if at[i] < 0 else (uplift[i, at[i]], cost[i, at[i]])
            rates = []
            for k in range(n_arms):
                more, price = uplift[i, k] - gain, cost[i, k] - spent
                if more > 0 and price >= 0:
                    rates.append((more / price if price > 0 else np.inf, -price, more, k))
            if rates:
                steps[i] = max(rates)
        if not steps or left < 0:
            break
        top = max(step[0] for step in steps.values())
        taken = {i: step[-1] for i, step in steps.items() if step[0] == top}
        price = sum(-steps[i][1] for i in taken)
        share = 1.0 if price <= left * (1 + 1e-12) else left / price
        for i, k in taken.items():
            part[i, k] += share
            if at[i] >= 0:
                part[i, at[i]] -= share
            at[i] = k
        left -= price
        if share < 1:
            break
    arms = [arm == k + 1 for k in range(n_arms)]
    treated = sum(float(part[own, k] @ y[own]) / own.sum() for k, own in enumerate(arms))
    control = float(part[arm == 0].sum(axis=1) @ y[arm == 0]) / (arm == 0).sum()
    return treated - control, part


def bootstrap(
    metric: Callable[..., Any],
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    sample_weight: ArrayLike | None = None,
    propensity: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    n_draws: int = 1000,
    random_state: int | Generator | None = None,
    **options: Any,
) -> Floats:
    """Bootstrap a metric, resampling rows within arms or whole clusters, (n_draws,).

    Its standard deviation is the slow twin of the standard errors of :func:`auuc_inference` and
    :func:`policy_risk_inference`; the cut of a share moves with each draw. ``options`` are those of
    the metric.

    Examples
    --------
    >>> from auucmax.metrics import auuc_score, policy_risk
    >>> y, treatment = [1, 1, 0], [1, 1, 0]
    >>> bootstrap(auuc_score, y, [1, 1, 1], treatment=treatment, n_draws=2, random_state=0)
    array([0.5, 0.5])
    >>> bootstrap(policy_risk, y, y, treatment=treatment, share=1, n_draws=2, random_state=0)
    array([0., 0.])
    """
    rows = check_rows(
        y, score, treatment=treatment, sample_weight=sample_weight, propensity=propensity
    )
    found = []
    for drawn in _resamples(rows, groups, n_draws, random_state):
        weights = {"sample_weight": drawn.weight, "propensity": drawn.propensity}
        found.append(metric(drawn.y, drawn.score, treatment=drawn.treated, **weights, **options))
    return np.array(found)


def _resamples(
    rows: ScoredRows, groups: ArrayLike | None, n_draws: int, random_state: int | Generator | None
) -> Iterator[ScoredRows]:
    rng = np.random.default_rng(random_state)
    units = np.arange(len(rows.y)) if groups is None else check_groups(groups, len(rows.y))
    members = np.split(np.argsort(units, kind="stable"), np.cumsum(np.bincount(units))[:-1])
    # Clusters that lie in one arm are drawn within it; clusters of both arms form a stratum.
    treated_share = np.array([rows.treated[m].mean() for m in members])
    strata = [np.flatnonzero(s) for s in (treated_share == 1, treated_share == 0)]
    strata.append(np.flatnonzero((treated_share > 0) & (treated_share < 1)))
    for _ in range(n_draws):
        chosen = np.concatenate([rng.choice(s, len(s)) for s in strata if len(s)])
        yield rows.take(np.concatenate([members[c] for c in chosen]))
