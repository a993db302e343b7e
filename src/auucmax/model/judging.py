"""Judging a ranking: every number that is told of it, made once from rows, and kept without them.

A model file holds them, so shares and tenths are chosen such that between two numbers lie at least
20 rows of each arm: no difference of numbers tells an outcome of a single person.

What drives a score: how it goes with each feature, and whom it puts on top.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import ndtri

from auucmax._json import plain, short
from auucmax._validation import Bools, Floats, check_column
from auucmax.data import RandomisationReport
from auucmax.data.chances import own_chance
from auucmax.data.covariates import Covariates, encode
from auucmax.data.few import LEAST_ROWS, rounded, significant, step_of, tellable_columns
from auucmax.data.outcomes import BINARY, MONEY, outcome_kind, turned
from auucmax.metrics import Levels, UpliftBand
from auucmax.metrics.curves import largest_draws
from auucmax.model.evidence import (
    VERDICTS,
    Evidence,
    describe_randomisation,
    failed_check,
    provided,
)
from auucmax.targeting.planning import EVERY_PERCENT, Expectation, ScoreQuantiles

MOST_DRIVERS = 25


def describe_drivers(features: pd.DataFrame, score: Floats, *, share: float) -> dict[str, Any]:
    """Each feature (each level of a category) against the score, the strongest first.

    ``correlation`` is that of the ranks of the score with the feature (ranks of a number, 0/1 of a
    level); ``top`` and ``rest`` are the means of the feature in the top-scored ``share`` and in the
    rest (for a level: the share of people who have it), ``difference`` that of the two in standard
    deviations. Means of dates are days since 1970 (``is_date``). Missing values are left out. At
    most 25 are kept, none that tells fewer than 20 people from the others, and numbers are rounded
    (:mod:`auucmax.data.few`).

    >>> frame = pd.DataFrame({"age": [20, 30, 40, 50] * 10, "home": ["yes", "no"] * 20})
    >>> found = describe_drivers(frame, np.array([1.0, 2.0, 3.0, 4.0] * 10), share=0.5)
    >>> first = found["features"][0]
    >>> first["name"], first["correlation"], first["top"], first["rest"]
    ('age', 1.0, 45.0, 25.0)
    """
    covariates = encode(features)
    rank, on_top = pd.Series(score).rank().to_numpy(), top_part(score, share)
    top, rest, deviation = _means(covariates, on_top)
    correlation = _correlations(covariates.ranked(), rank)
    order = np.argsort(-np.nan_to_num(np.abs(correlation)), kind="stable")
    parts = np.stack([on_top, 1 - on_top])
    order = order[tellable_columns(covariates, parts, of_arms=False)[order]][:MOST_DRIVERS]
    correlation = rounded(correlation, step_of(len(score)))
    levels = [level for f in covariates.features for level in (f.levels or (None,))]
    names = [f.name for f in covariates.features for _ in (f.levels or (None,))]
    scale = np.where([level is None for level in levels], deviation, 1.0)
    step = step_of(parts.sum(axis=1).min(), scale)
    # Dates count from 1970: the first of the column, from which they come, is somebody's.
    starts = [f.start for f in covariates.features for _ in (f.levels or (None,))]
    since = np.array([start or 0.0 for start in starts])
    top, rest = rounded(top + since, step), rounded(rest + since, step)
    deviation = significant(deviation)
    difference = np.divide(
        top - rest, deviation, out=np.full(len(top), np.nan), where=deviation > 0
    )
    rows = [
        {
            "name": short(names[j]),
            "level": None if levels[j] is None else short(levels[j]),
            "correlation": correlation[j],
            "top": top[j],
            "rest": rest[j],
            "difference": difference[j],
            "is_date": starts[j] is not None,
        }
        for j in order
    ]
    skipped = [short(text) for text in covariates.skipped[:MOST_DRIVERS]]
    found = {"share": share, "features": rows, "n_features": len(names), "skipped": skipped}
    return dict(plain(found))


def top_part(score: Floats, share: float) -> Floats:
    """(n,) which part of each row is in the top share: rows of a level that it cuts in part.

    >>> top_part(np.array([1.0, 3.0, 2.0, 2.0]), 0.5).tolist()
    [0.0, 1.0, 0.5, 0.5]
    """
    level, size = np.unique(score, return_inverse=True, return_counts=True)[1:]
    n_above = len(score) - np.cumsum(size)
    return np.asarray(np.clip((share * len(score) - n_above) / size, 0, 1)[level])


def linear_weights(coef: Floats, names: Sequence[str], deviation: Floats) -> list[dict[str, Any]]:
    """Coefficient times standard deviation of each column of a linear score, the largest first.

    ``names`` and ``deviation`` (p,) are of the columns that ``coef`` (p,) multiplies. Deviations
    count to two digits: that of a level tells how many have it.

    >>> linear_weights(np.array([2.0, 0.5]), ["a", "b"], np.array([0.5, 4.0]))
    [{'name': 'b', 'coefficient': 0.5, 'weight': 2.0}, {'name': 'a', 'coefficient': 2.0, ...}]
    """
    scaled = coef * significant(deviation, 2)
    # Two levels of a column have equal ones; rounding should not say which comes first.
    order = np.argsort(-significant(np.abs(scaled), 9), kind="stable")[:MOST_DRIVERS]
    return [
        {"name": short(names[j]), "coefficient": float(coef[j]), "weight": float(scaled[j])}
        for j in order
    ]


def _means(covariates: Covariates, on_top: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean of each real column on top and in the rest, and its standard deviation over all."""
    n, total, square, centre = _sums(covariates, np.stack([on_top, 1 - on_top]))
    top, rest = np.divide(total, n, out=np.full(n.shape, np.nan), where=n > 0) + centre
    count = np.maximum(n.sum(axis=0), 1)
    variance = square / count - (total.sum(axis=0) / count) ** 2
    return top, rest, np.sqrt(np.maximum(variance, 0))


def _correlations(covariates: Covariates, rank: Floats) -> Floats:
    """Correlation of ``rank`` with each real column, over the rows where the column is known."""
    rank = (rank - rank.mean()) / len(rank)
    n, total, square, _ = _sums(covariates, np.stack([np.ones(len(rank)), rank, rank**2]))
    count = np.maximum(n[0], 1)
    mean_x, mean_r = total[0] / count, n[1] / count
    spread = np.maximum(square / count - mean_x**2, 0) * np.maximum(n[2] / count - mean_r**2, 0)
    product = total[1] / count - mean_x * mean_r
    out = np.full(len(count), np.nan)
    return np.divide(product, np.sqrt(spread), out=out, where=spread > 1e-24)


def _sums(covariates: Covariates, weights: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Over the rows where a column is known: sums of each of the weights (m, n), and of weights
    times the column minus a centre, (m, k) both; sums of squares around the centre, which is last.
    """
    k = len(covariates.columns)
    n, total, square = np.zeros((len(weights), k)), np.zeros((len(weights), k)), np.zeros(k)
    centre: Any = None
    for rows, values in covariates.blocks():
        known = np.isfinite(values)
        if centre is None:  # any value near the data keeps the squares from cancelling
            with np.errstate(invalid="ignore"):
                centre = np.nan_to_num(np.nansum(values, axis=0) / np.maximum(known.sum(axis=0), 1))
        filled = np.where(known, values - centre, 0.0)
        n += weights[:, rows] @ known
        total += weights[:, rows] @ filled
        square += (filled**2).sum(axis=0)
    return n, total, square, np.zeros(k) if centre is None else centre


class Judged(NamedTuple):
    """Rows that were ranked by models that have not learnt from them, (n,) each.

    ``score`` is the rank within the rows of the same model, where there are several models.
    ``groups`` are codes of households or shops, if rows are not independent. ``propensity`` are the
    chances of treatment, if these were not the same for all. ``weight`` says how many people a row
    stands for, if not everybody was as likely to be among the rows.
    """

    y: Floats
    score: Floats
    treated: Bools
    groups: NDArray[np.intp] | None = None
    propensity: Floats | None = None
    weight: Floats | None = None

    def levels(self, score: Floats | None = None) -> Levels:
        """The rows sorted by their score, or by another one."""
        more: dict[str, Any] = {"groups": self.groups, "propensity": self.propensity}
        more["sample_weight"] = self.weight
        own = self.score if score is None else score
        return Levels.of(self.y, own, treatment=self.treated, **more)

    @property
    def has_mixed_groups(self) -> bool:
        """Whether a group has rows of both arms, so that nothing can be certified."""
        if self.groups is None:
            return False
        arms = np.bincount(self.groups, self.treated) / np.bincount(self.groups)
        return not np.isin(arms, (0, 1)).all()


def evidence_of(
    rows: Judged,
    *,
    scores: ScoreQuantiles | None = None,
    rivals: Mapping[str, Any] | None = None,
    predicted: Floats | None = None,
    caveat: str | None = None,
    drivers: Mapping[str, Any] | None = None,
    certificate: Any = None,
    beyond: str = "",
    randomisation: RandomisationReport | None = None,
    level: float = 0.95,
    lower_is_better: bool = False,
    cross_fitted: bool = False,
    every_percent: bool = False,
    random_state: int | Generator | None = 0,
    **facts: Any,
) -> Evidence:
    """Judge a ranking: every number that is told of it.

    Parameters
    ----------
    rows : checked rows.
    scores : of the model that is kept, where ``rows`` have ranks of other models.
    rivals : name to (n,) scores, or ranks, of other rankings of the same rows.
    predicted : (n,) calibrated uplift, by a calibration from other rows; caveat : its words.
    drivers : from :func:`describe_drivers`.
    certificate : a dataclass whose text is its statement; left out if the check failed.
    beyond : a sentence to end that text with: how much of the outcomes it does not count.
    lower_is_better : the outcomes of ``rows`` are turned round
        (:func:`auucmax.data.outcomes.turned`); those of the table are told of.
    cross_fitted : the rows were ranked by models of several folds, each of which learnt from the
        rows of the others: the variance of a gain counts twice
        (:func:`auucmax.metrics.curves.allowing_for_folds`).
    every_percent : numbers at every per cent of the rows, however few lie between two; for numbers
        that are shown but not kept in a model file.
    random_state : of the simultaneous band.
    facts : ``notes``, ``certified_shares``, ``people``, ``segments``.
    """
    levels = rows.levels()  # sorted once, and asked every number
    grid = EVERY_PERCENT if every_percent else _told_shares(rows, levels, rivals or {})
    folds: dict[str, Any] = {"level": level, "cross_fitted": cross_fitted}
    band = levels.band(grid, random_state=random_state, **folds)
    kind = outcome_kind(turned(rows.y) if lower_is_better else rows.y)
    failed, check = failed_check(randomisation), describe_randomisation(randomisation)
    found = {
        "failed_check": failed,
        "level": level,
        "rows": _describe_rows(rows, lower_is_better, kind),
        "effect": _effect_of(band),
        "auuc": _auuc(levels, folds),
        "qini": levels.qini(),
        "ratio": ratio_intervals(band),
        "risk": levels.policy_risk(grid) if kind == BINARY else None,
        "score_levels": len(levels.scores),
        "deciles": (_parts_of(band, levels) if rows.groups is not None or not every_percent
                    else levels.deciles(10, level).reset_index()[[*_OF_PARTS]].to_dict("list"))
        | _predicted(levels, predicted, grid, every_percent)
        | {"caveat": None if predicted is None else caveat},
        "drivers": drivers or {"share": 0.3, "features": [], "n_features": 0, "skipped": [],
                               "linear": None},
        "rivals": [
            _rival(levels, rows, name, other, grid, folds)
            for name, other in (rivals or {}).items()
        ],
        "certificate": None
        if certificate is None or failed
        else asdict(certificate)
        | {"text": f"{provided(str(certificate), check)} {beyond}".rstrip()},
        "certified_shares": None,
        "people": None,
        "segments": [],
        "randomisation": check,
        "notes": [],
    }  # fmt: skip
    expected = Expectation.of_band(band, levels, scores)
    if not every_percent:
        step = float(np.diff(grid).max())
        expected = replace(expected, scores=expected.scores.smoothed(LEAST_ROWS), step=step)
    return Evidence(expected, dict(plain(found | facts)))


def _told_shares(rows: Judged, levels: Levels, rivals: Mapping[str, Any]) -> Floats:
    """The shares that a ranking and its rivals are told at: those of the coarsest of them."""
    orders = [levels, *(rows.levels(_checked(*one, rows)) for one in rivals.items())]
    grids = (private_shares(one.ranked.treated, one.ranked.rank_weight) for one in orders)
    return min(grids, key=len)


def ranks_within(score: Floats, fold: NDArray[np.integer[Any]]) -> Floats:
    """(n,) the place of each score among those of its fold, between 0 and 1; equal ones share one.

    >>> score, fold = np.array([5.0, 7.0, 0.1, 0.3, 0.1, 0.2]), np.array([0, 0, 1, 1, 1, 1])
    >>> ranks_within(score, fold).tolist()
    [0.25, 0.75, 0.25, 0.875, 0.25, 0.625]
    """
    own = pd.Series(score).groupby(fold).rank() - 0.5
    return np.asarray(own / pd.Series(fold).groupby(fold).transform("size"), dtype=np.float64)


def private_shares(treated: Bools, weight: Floats | None = None) -> Floats:
    """Shares at equal distances, from 0 to 1, with at least 20 rows of each arm between two.

    ``treated`` (n,): whether each row is, from the lowest score to the highest; ``weight`` (n,):
    how many people it stands for.

    >>> private_shares(np.arange(1000) % 2 == 0)[:4].tolist()
    [0.0, 0.05, 0.1, 0.15]
    """
    # Rows of each arm from the top down to any place.
    n_treated = np.concatenate([[0], np.cumsum(treated[::-1])])
    both = np.stack([n_treated, np.arange(len(treated) + 1) - n_treated])
    for step in (1, 2, 5, 10, 20, 25, 50):
        shares = EVERY_PERCENT[::step]
        cuts = _cuts(shares, len(treated), weight)
        if np.diff(both[:, cuts], axis=1).min() >= LEAST_ROWS:
            return shares
    return EVERY_PERCENT[::100]


def _cuts(shares: Floats, n_rows: int, weight: Floats | None) -> NDArray[np.intp]:
    """How many whole rows each share has, from the highest score down; weights as ranked."""
    if weight is None:
        return np.floor(shares * n_rows + 1e-9).astype(np.intp)
    total = np.cumsum(weight[::-1])
    return np.searchsorted(total, shares * total[-1] * (1 + 1e-12), side="right")


def _describe_rows(rows: Judged, lower_is_better: bool, kind: str) -> dict[str, Any]:
    y, _, treated, groups, chance, people = rows
    binary = kind == BINARY
    weight = np.ones(len(y)) if people is None else people
    weight = weight if chance is None else weight / own_chance(treated, chance)
    found: dict[str, Any] = {"n_rows": len(y), "outcome": kind, "binary": binary, "groups": None}
    found["lower_is_better"] = lower_is_better
    y = turned(y) if lower_is_better else y  # as the table has it
    for name, arm in (("treated", treated), ("control", ~treated)):
        found[name] = int(arm.sum())
        found[f"mean_{name}"] = float(np.average(y[arm], weights=weight[arm]))
        found[f"events_{name}"] = int((y[arm] != 0).sum()) if kind in (BINARY, MONEY) else None
        found[f"groups_{name}"] = None if groups is None else len(np.unique(groups[arm]))
    if groups is not None:
        found["groups"] = int(groups.max()) + 1
    return found


def average_effect(rows: Judged, level: float = 0.95) -> dict[str, Any]:
    """The average effect with its interval, as :attr:`Evidence.facts` has it."""
    return _effect_of(rows.levels(np.zeros(len(rows.y))).band([1.0], level=level))


def _effect_of(band: UpliftBand) -> dict[str, Any]:
    """The average effect: the curve's end, with its own interval (no share is chosen there)."""
    error = float(band.standard_error[-1])
    return {
        "estimate": band.uplift[-1],
        "standard_error": error,
        "lower": band.lower[-1],
        "upper": band.upper[-1],
        "declined": band.declined if np.isnan(band.lower[-1]) else None,
        # Two-sided 5%, found four times in five: 1.96 + 0.84 standard errors.
        "detectable": 2.8 * error,
    }


def _auuc(levels: Levels, folds: dict[str, Any]) -> dict[str, Any]:
    with warnings.catch_warnings():
        # A constant score is told of among the caveats.
        warnings.filterwarnings("ignore", message="score should tell rows apart")
        found = levels.inference(**folds)
    return {
        "estimate": found.estimate,
        "lower": found.interval[0],
        "upper": found.interval[1],
        "declined": found.declined,
        "gain": found.gain,
        "gain_lower": found.gain_interval[0],
        "gain_upper": found.gain_interval[1],
        "gain_declined": found.gain_declined,
        "p_value": found.p_value,
    }


def _checked(name: str, score: Any, rows: Judged) -> Floats:
    """(n,) scores of a rival."""
    return check_column(score, f"rivals[{short(name)!r}]", len(rows.y))


def _rival(
    levels: Levels, rows: Judged, name: str, score: Any, grid: Floats, folds: dict[str, Any]
) -> dict[str, Any]:
    """Curve and AUUC of a rival, and the AUUC of the ranking minus that of the rival."""
    other = rows.levels(_checked(name, score, rows))
    found = levels.difference(other, **folds)
    lower, upper = found.interval
    # Without an interval neither end is a number: the two are not told apart.
    verdict = VERDICTS[0 if lower > 0 else 1 if upper < 0 else 2]
    return {
        "name": short(name),
        "uplift": np.interp(grid, *other.curve(centred=True)),
        "auuc": _auuc(other, folds),
        "difference": {
            "estimate": found.estimate,
            "lower": lower,
            "upper": upper,
            "p_value": found.p_value,
            "declined": found.declined,
        },
        "verdict": verdict,
    }


_OF_PARTS = ("bin", "rows", "uplift", "standard_error", "lower", "upper")


def _parts_of(band: UpliftBand, levels: Levels) -> dict[str, Any]:
    """Effect in each tenth, or in fewer parts, from the curve: it tells nothing more of rows."""
    places = _part_places(band.share)
    width = np.diff(band.share[places])
    rises = np.zeros((len(width), len(band.share)))
    for j, (start, end) in enumerate(pairwise(places)):
        rises[j, start], rises[j, end] = -1 / width[j], 1 / width[j]
    uplift = rises @ band.uplift
    error = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", rises, band.covariance, rises), 0))
    half = band.multiple * error
    rows = np.diff(_cuts(band.share[places], levels.n_rows, levels.ranked.rank_weight))
    columns = (uplift, error, uplift - half, uplift + half)
    numbers = list(range(1, len(width) + 1))
    return dict(zip(_OF_PARTS, (numbers, rows, *columns), strict=True))


def _part_places(share: Floats) -> list[int]:
    """Places of the shares that cut tenths, if they are all there, otherwise of all shares."""
    tenths = np.linspace(0, 1, 11)
    places = np.abs(share[:, None] - tenths).argmin(axis=0)
    exact = np.abs(share[places] - tenths).max() < 1e-9
    return places.tolist() if exact else list(range(len(share)))


def _predicted(
    levels: Levels, predicted: Floats | None, share: Floats, every_percent: bool
) -> dict[str, Any]:
    """The mean predicted uplift in each part."""
    if predicted is None:
        return {"predicted": None}
    cuts = np.linspace(0, 1, 11) if every_percent else share[_part_places(share)]
    best_first = predicted[levels.ranked.index[::-1]]
    places = _cuts(cuts, levels.n_rows, levels.ranked.rank_weight)
    parts = [best_first[start:end] for start, end in pairwise(places.tolist())]
    return {"predicted": [part.mean() if len(part) else None for part in parts]}


def ratio_intervals(band: UpliftBand) -> list[tuple[float, float, float] | None]:
    """V(q) / V(1) with Fieller's interval, at each share; None unless V(1) is clearly above 0.

    All r with |V(q) - r V(1)| <= t se(V(q) - r V(1)): between the roots of a quadratic in r, which
    is an interval exactly when V(1) is more than t standard errors from 0. t is such that the
    intervals hold at all shares of the band together.
    """
    # An effect that may be 0 has no parts.
    whole, c = float(band.uplift[-1]), band.covariance
    multiple = _ratio_multiple(band) if band.lower[-1] > 0 else None
    if multiple is None or whole <= multiple * band.standard_error[-1]:
        return [None] * len(band.share)
    quadratic = whole**2 - multiple**2 * c[-1, -1]
    found: list[tuple[float, float, float] | None] = []
    for at, top in enumerate(band.uplift.tolist()):
        if np.isnan(band.simultaneous_lower[at]):
            found.append(None)
            continue
        linear = top * whole - multiple**2 * c[at, -1]
        constant = top**2 - multiple**2 * c[at, at]
        root = math.sqrt(max(linear**2 - quadratic * constant, 0.0))
        found.append((top / whole, (linear - root) / quadratic, (linear + root) / quadratic))
    return found


def _ratio_multiple(band: UpliftBand) -> float:
    """Level quantile of the largest |V(q) - r(q) V(1)| in standard errors, r(q) = V(q) / V(1).

    From normal draws, always the same, and as much wider as the band's own intervals at one share
    are than normal ones.
    """
    ratio, end = band.uplift / band.uplift[-1], band.covariance[:, -1]
    cross = np.outer(ratio, end)
    c = band.covariance - cross - cross.T + np.outer(ratio, ratio) * end[-1]
    error = np.sqrt(np.maximum(np.diag(c), 0))
    vary = error > 1e-6 * band.standard_error.max()  # neither nobody nor everybody has an error
    if not vary.any():
        return 0.0
    draws = largest_draws(c[np.ix_(vary, vary)], error[vary], 0)
    largest = float(np.quantile(draws, band.level))
    return float(band.multiple * max(largest / ndtri((1 + band.level) / 2), 1.0))
