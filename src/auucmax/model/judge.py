"""Compute the evidence of a model from scored rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from auucmax._errors import short
from auucmax._validation import Bools, Floats
from auucmax.data import RandomisationReport
from auucmax.data.pair import Pair
from auucmax.data.trial import Trial
from auucmax.metrics import AUUCDifference, Levels, UpliftBand
from auucmax.metrics.allocation import Allocation
from auucmax.metrics.curves import largest_draws
from auucmax.metrics.gains import AllocationRows, Gains
from auucmax.results import (
    LEAST_ROWS,
    ArmEvidence,
    ArmRows,
    CertifiedGain,
    CheckFacts,
    Contrast,
    Curve,
    Cuts,
    Deciles,
    Drivers,
    Estimate,
    Kind,
    People,
    PolicyEvidence,
    Why,
    plain,
)
from auucmax.targeting.calibration import Calibration, calibrate

LEVEL = 0.95
FAILED = Why.FAILED_CHECK  #: instead of any certificate
EVERY_PERCENT = np.linspace(0, 1, 101)
_MOST_DIFFERENCES = 20
_STEPS = 50  # of the spend of a policy
_PARTS = 5  # of the rows, whose outcome model is fitted on the others
_ROWS_A_TERM = 20  # that an outcome model needs


def numbers(values: Any) -> tuple[Any, ...]:
    """Convert numbers to a tuple with None for NaN."""
    return tuple(plain(np.asarray(values, dtype=np.float64)))


def quietly_calibrated(pair: Pair, score: Floats) -> Calibration:
    """Calibrate on a subset without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return calibrate(pair.y, score, **pair.design)


def arm_evidence(
    pair: Pair,
    score: Floats,
    *,
    check: RandomisationReport | None,
    cross_fitted: bool = False,
    rivals: Mapping[str, Floats] | None = None,
    predicted: Floats | None = None,
    guarantee: tuple[CertifiedGain | Why | None, Cuts | None] = (None, None),
    drivers: Drivers | None = None,
    people: tuple[People, ...] = (),
) -> ArmEvidence:
    """Evidence of one arm against the control, from out-of-fold scores.

    ``cross_fitted``: scores are ranks by models of several folds, so the variance of a gain counts
    twice. ``predicted`` (m,): calibrated uplifts from other rows. ``rivals``: other scores.
    ``guarantee``: the certificate, or why there is none, and cuts. None holds if the check fails.
    """
    levels = Levels.of(pair.y, score, **pair.design)
    grid = share_grid(levels.ranked.treated, levels.ranked.weight)
    how: dict[str, Any] = {"level": LEVEL, "cross_fitted": cross_fitted}
    band = levels.band(grid, random_state=0, **how)
    outcome = pair.trial.roles.outcome
    certificate, cuts = guarantee
    if check is not None and check.stops:
        certificate, cuts = FAILED, None
    contrasts = []
    for name, of_rival in (rivals or {}).items():
        other = Levels.of(pair.y, of_rival, **pair.design)
        contrasts.append(
            Contrast(
                against=short(name),
                difference=_difference(levels.difference(other, **how)),
                curve=numbers(np.interp(grid, *other.curve(centred=True))),
                **_auuc(other, how),
            )
        )
    chance = pair.propensity
    return ArmEvidence(
        arm=pair.name,
        rows=describe_rows(pair),
        n_groups=None if pair.groups is None else int(pair.groups.max()) + 1,
        effect=effect_of(band),
        **_auuc(levels, how),
        qini=float(levels.qini()),
        n_levels=len(levels.scores),
        curve=_curve_of_band(band, (1.0,), band.share * band.uplift[-1]),
        ratio=_ratios(band),
        risk=numbers(levels.policy_risk(grid)) if outcome.kind == Kind.BINARY else None,
        deciles=_deciles(band, levels, predicted),
        rivals=tuple(contrasts),
        **certificate_fields(certificate),
        cuts=cuts,
        drivers=drivers,
        people=people,
        check=None if check is None else describe_check(check),
        propensity=None if chance is None else (float(chance.min()), float(chance.max())),
    )


def certificate_fields(guarantee: CertifiedGain | Why | None) -> dict[str, Any]:
    """The certificate, or the reason why it is missing, as result fields."""
    name = "missing" if isinstance(guarantee, Why) else "certificate"
    return {"certificate": None, "missing": None, name: guarantee}


def describe_rows(pair: Pair) -> tuple[ArmRows, ArmRows]:
    """Rows, mean outcomes, events and groups of control and arm."""
    roles, recorded, weight = pair.trial.roles, pair.trial.y[pair.index], pair.weight
    has_events = roles.outcome.kind in (Kind.BINARY, Kind.MONEY)
    found = []
    for name, own in ((roles.arms[0], ~pair.treated), (pair.name, pair.treated)):
        y = recorded[own]
        found.append(
            ArmRows(
                name=name,
                n_rows=len(y),
                mean=float(np.average(y, weights=None if weight is None else weight[own])),
                n_events=int((y != 0).sum()) if has_events else None,
                n_groups=None if pair.groups is None else len(np.unique(pair.groups[own])),
            )
        )
    return found[0], found[1]


def share_grid(treated: Bools, weight: Floats | None = None) -> Floats:
    """Grid of shares from 0 to 1 with at least 20 rows of each arm between neighbours.

    ``treated`` (n,) from the lowest score to the highest; ``weight`` (n,): people per row.

    >>> share_grid(np.arange(1000) % 2 == 0)[:4].tolist()
    [0.0, 0.05, 0.1, 0.15]
    """
    n_treated = np.concatenate([[0], np.cumsum(treated[::-1])])
    both = np.stack([n_treated, np.arange(len(treated) + 1) - n_treated])
    for step in (1, 2, 5, 10, 20, 25, 50):
        shares = EVERY_PERCENT[::step]
        cuts = _whole_rows(shares, len(treated), weight)
        if np.diff(both[:, cuts], axis=1).min() >= LEAST_ROWS:
            return shares
    return EVERY_PERCENT[::100]


def _whole_rows(shares: Floats, n_rows: int, weight: Floats | None) -> NDArray[np.intp]:
    """Number of whole rows in each top share."""
    total = np.cumsum(np.ones(n_rows) if weight is None else weight[::-1])
    return np.searchsorted(total, shares * total[-1] * (1 + 1e-12), side="right")


def effect_of(band: UpliftBand) -> Estimate:
    """Average effect: the end of the curve, with its pointwise interval."""
    ends = band.lower[-1], band.upper[-1]
    missing = band.declined if np.isnan(ends[0]) else None
    return Estimate.of(band.uplift[-1], ends, se=band.standard_error[-1], missing=missing)


def _auuc(levels: Levels, how: Mapping[str, Any]) -> dict[str, Any]:
    """AUUC, and its gain over random targeting."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="score should tell rows apart")
        found = levels.inference(**how)
    return {
        "auuc": Estimate.of(
            found.estimate, found.interval, se=found.standard_error, missing=found.declined
        ),
        "gain": Estimate.of(
            found.gain, found.gain_interval, se=found.gain_standard_error, p_value=found.p_value,
            missing=found.gain_declined,
        ),
    }  # fmt: skip


def _curve_of_band(band: UpliftBand, costs: tuple[float, ...], random: Floats) -> Curve:
    shares = band.share[:, None] if band.shares is None else band.shares
    return Curve(
        costs=costs,
        spend=numbers(band.share),
        shares=tuple(numbers(row) for row in shares),
        gain=numbers(band.uplift),
        se=numbers(band.standard_error),
        lower=numbers(band.lower),
        upper=numbers(band.upper),
        band_lower=numbers(band.simultaneous_lower),
        band_upper=numbers(band.simultaneous_upper),
        random=numbers(random),
        missing=band.declined,
    )


def _deciles(band: UpliftBand, levels: Levels, predicted: Floats | None) -> Deciles:
    """Effects in tenths (or fewer parts), from differences of the curve."""
    n_points = len(band.share)  # of a grid that has tenths, or fewer parts
    places = np.arange(0, n_points, max(1, n_points // 10))
    width = np.diff(band.share[places])
    step = np.diff(np.eye(n_points)[places], axis=0) / width[:, None]
    uplift = step @ band.uplift
    error = np.sqrt(np.maximum(np.sum(step @ band.covariance * step, axis=1), 0))
    half = band.multiple * error
    cuts = _whole_rows(band.share[places], levels.n_rows, levels.ranked.weight)
    means = None
    if predicted is not None:
        best_first = predicted[levels.ranked.order[::-1]]
        parts = [best_first[start:end] for start, end in pairwise(cuts.tolist())]
        means = tuple(float(part.mean()) if len(part) else None for part in parts)
    return Deciles(
        n_rows=tuple(np.diff(cuts).tolist()),
        uplift=numbers(uplift),
        se=numbers(error),
        lower=numbers(uplift - half),
        upper=numbers(uplift + half),
        predicted=means,
    )


def _ratios(band: UpliftBand) -> tuple[Estimate | None, ...]:
    """Share of the total effect V(q) / V(1) with Fieller's interval; None if V(1) is unclear.

    All r with |V(q) - r V(1)| <= t se(V(q) - r V(1)): between the roots of a quadratic in r, which
    is an interval exactly when V(1) is more than t standard errors from 0. t is such that the
    intervals hold at all shares of the band together.
    """
    whole, c, n_points = float(band.uplift[-1]), band.covariance, len(band.share)
    if not band.lower[-1] > 0:
        return (None,) * n_points
    # The multiple is that of normal draws, and as much wider as the intervals at one share are than
    # normal ones. Neither nobody nor everybody has an error.
    away = np.eye(n_points)
    away[:, -1] -= band.uplift / whole
    of_ratio = away @ c @ away.T
    error = np.sqrt(np.maximum(np.diag(of_ratio), 0))
    vary = error > 1e-6 * band.standard_error.max()
    multiple = 0.0
    if vary.any():
        draws = largest_draws(of_ratio[np.ix_(vary, vary)], error[vary], 0)
        largest = float(np.quantile(draws, band.level))
        multiple = float(band.multiple * max(largest / ndtri((1 + band.level) / 2), 1.0))
    if whole <= multiple * band.standard_error[-1]:
        return (None,) * n_points
    quadratic = whole**2 - multiple**2 * c[-1, -1]
    linear = band.uplift * whole - multiple**2 * c[:, -1]
    constant = band.uplift**2 - multiple**2 * np.diag(c)
    root = np.sqrt(np.maximum(linear**2 - quadratic * constant, 0))
    ratios = band.uplift / whole, (linear - root) / quadratic, (linear + root) / quadratic
    known = np.isfinite(band.simultaneous_lower)
    return tuple(
        Estimate(value=value, lower=lower, upper=upper) if is_known else None
        for is_known, (value, lower, upper) in zip(known, np.array(ratios).T.tolist(), strict=True)
    )


def describe_check(report: RandomisationReport) -> CheckFacts:
    """Convert a check to plain JSON, without numbers about small groups of people."""
    found = report.for_others().to_dict()
    for name in ("differences", "missing"):
        found[name] = found[name][:_MOST_DIFFERENCES]
    return plain(found)


def policy_evidence(
    trial: Trial, uplift: Floats, costs: Sequence[float], fold: NDArray[Any] | None
) -> PolicyEvidence:
    """Evidence of a policy: curve, rates, and contrasts with simpler policies.

    ``uplift`` (n, K) by models that were not trained on the rows; ``fold`` (n,) if they are models
    of several folds: each fold then spends the budget by itself.
    """
    names = trial.roles.arms[1:]
    cost = np.broadcast_to(np.array(costs, dtype=np.float64), uplift.shape)
    groups = None if trial.groups is None else np.unique(trial.groups, return_inverse=True)[1]
    rows = AllocationRows(
        trial.benefit, trial.arm, cost, chance=trial.propensity, clusters=groups,
        model=_outcome_model(trial, uplift, groups, fold),
    )  # fmt: skip
    best = int(rows.effects.argmax())
    chosen = Allocation.of(uplift, cost, fold=fold)
    singles = [
        Allocation.of(uplift, cost, np.broadcast_to(only, uplift.shape), fold=fold)
        for only in np.eye(len(names), dtype=bool)
    ]
    # One uplift for all: as many random people as the budget allows.
    only_best = np.broadcast_to(np.arange(len(names)) == best, cost.shape)
    everyone = Allocation.of(only_best.astype(np.float64), cost)
    most = max(float(one.most.max()) for one in (everyone, chosen, *singles))
    fewest = int(np.bincount(trial.arm).min())
    n_steps = int(np.clip(fewest // LEAST_ROWS, 1, _STEPS))
    grid = np.linspace(0, most, n_steps + 1) if most > 0 else np.zeros(1)
    how: dict[str, Any] = {"level": LEVEL, "cross_fitted": fold is not None}
    gains = Gains(rows, chosen, grid)
    alone = [Gains(rows, one, grid) for one in singles]
    best_alone = int(np.argmax([one.gain.mean() for one in alone]))
    others = (
        ("random", None),
        (names[best_alone], alone[best_alone]),
        (f"everyone: {names[best]}", Gains(rows, everyone, grid)),
    )
    contrasts = tuple(
        Contrast(
            against=against,
            # An arm that these rows chose has no p-value.
            difference=_difference(gains.difference(other, **how), tested=other is None),
            curve=numbers(gains.random_gain if other is None else other.gain),
        )
        for against, other in others
    )
    curve = _curve_of_band(gains.band(**how), tuple(costs), gains.random_gain)
    # The rate of the last step that each budget pays for; 0 where none is left.
    steps = chosen.steps
    order = np.argsort(-steps.rate, kind="stable")
    spent = np.cumsum(steps.cost[order]) / trial.n_rows
    rates = np.append(steps.rate[order], 0.0)[np.searchsorted(spent, grid * (1 - 1e-12))]
    # Steps that cost nothing have no rate; three digits, since a rate is that of one person.
    rate = [float(f"{own:.3g}") if np.isfinite(own) else None for own in rates]
    return PolicyEvidence(curve=curve, rate=tuple(rate), contrasts=contrasts)


def _difference(found: AUUCDifference, *, tested: bool = True) -> Estimate:
    return Estimate.of(
        found.estimate, found.interval, se=found.standard_error,
        p_value=found.p_value if tested else None, missing=found.declined,
    )  # fmt: skip


def _outcome_model(
    trial: Trial, uplift: Floats, groups: NDArray[np.intp] | None, fold: NDArray[Any] | None
) -> Floats | None:
    """Expected outcomes (n, K + 1), linear in uplifts and propensities, from other rows.

    What propensities explain is not left to weights alone, which has less noise. None where they
    were the same for all.
    """
    if trial.propensity is None:
        return None
    n, y = trial.n_rows, trial.benefit
    X = np.column_stack([uplift, trial.propensity[:, 1:]])
    X = np.column_stack([np.ones(n), X - X.mean(axis=0)])
    part = (np.arange(n) if groups is None else groups) % _PARTS if fold is None else fold
    found = np.full((n, len(trial.roles.arms)), float(y.mean()))
    for k in np.unique(part):
        inside = part == k
        for arm in range(found.shape[1]):
            own = ~inside & (trial.arm == arm)
            if own.sum() >= _ROWS_A_TERM * X.shape[1]:
                line = np.linalg.lstsq(X[own], y[own], rcond=1e-9)[0]
                found[inside, arm] = X[inside] @ line
    return np.clip(found, y.min(), y.max())
