"""The forecast gain of the treated people, compared with the measured one."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri

from auucmax._validation import Floats
from auucmax.campaign.cells import Campaign
from auucmax.campaign.contrasts import Codes, minus
from auucmax.model import UpliftModel
from auucmax.results import Estimate, Result
from auucmax.targeting.rule import at


class ForecastVerdict(StrEnum):
    """Verdict on a forecast: the first that applies."""

    HARM = "harm"  #: the interval of the gain lies below 0
    BELOW = "below forecast"  #: that of the gain minus the forecast does, with both errors
    CONFIRMED = "confirmed"  #: the interval of the gain lies above half of the forecast
    TOO_NOISY = "too noisy"  #: none of these


class Forecast(Result):
    """The forecast gain, the measured gain and the verdict.

    ``all_treated``: whether it covers all who were treated, or only the chosen among them.
    ``verdict`` is None if the forecast is 0 or less and no harm is significant.
    """

    forecast: Estimate
    realised: Estimate
    difference: Estimate
    verdict: ForecastVerdict | None
    all_treated: bool


def forecast_of(
    campaign: Campaign, given: Floats, level: float, model: UpliftModel | None
) -> Forecast | None:
    """The forecast for all treated people, or only for the chosen if others lack scores.

    ``given`` (cells, arms): the coefficients of the means in the gain of all who were treated.
    """
    if model is not None and model.evidence.failed_check:
        return None
    score, uplift = _known_scores(campaign, model)
    z = float(ndtri((1 + level) / 2))
    for cells in (np.ones(len(given), dtype=bool), campaign.chosen > 0):
        weights = given * cells[:, None]
        arm = np.where(cells[campaign.cell], campaign.trial.arm, 0)
        found = None
        if model is not None and score is not None:
            found = _by_trial(campaign, model, score, arm > 0)
        if found is None and uplift is not None:
            found = _by_uplifts(campaign, model, uplift, arm)
        lacking = ((weights != 0) & (campaign.means.counts == 0)).any()
        if found is None or lacking or not weights.any():
            continue
        total, se = found
        forecast = Estimate(value=total, se=se, lower=total - z * se, upper=total + z * se)
        realised = campaign.means.contrast(weights, level)
        return Forecast(
            forecast=forecast,
            realised=realised,
            difference=minus(realised, forecast),
            verdict=verdict_on(realised, forecast),
            all_treated=bool(cells.all()),
        )
    return None


def verdict_on(realised: Estimate, forecast: Estimate) -> ForecastVerdict | None:
    """Compare a forecast with an independent gain; None if no gain was forecast.

    >>> forecast = Estimate(value=443.0, se=50.0, lower=345.0, upper=541.0)
    >>> verdict_on(Estimate(value=-251.0, se=126.0, lower=-498.0, upper=-4.0), forecast).value
    'harm'
    >>> verdict_on(Estimate(value=300.0, se=30.0, lower=241.0, upper=359.0), forecast).value
    'below forecast'
    >>> verdict_on(Estimate(value=400.0, se=60.0, lower=282.0, upper=518.0), forecast).value
    'confirmed'
    """
    if realised.upper is not None and realised.upper < 0:
        return ForecastVerdict.HARM
    if forecast.value <= 0:
        return None
    below = minus(realised, forecast).upper
    if below is not None and below < 0:
        return ForecastVerdict.BELOW
    if realised.lower is not None and realised.lower > forecast.value / 2:
        return ForecastVerdict.CONFIRMED
    return ForecastVerdict.TOO_NOISY


def _known_scores(
    campaign: Campaign, model: UpliftModel | None
) -> tuple[Floats | None, Floats | None]:
    """Scores (n,), or uplifts (n, K), from the model or from the list."""
    frame, labels = campaign.frame, campaign.arms[1:]
    if model is not None and {*model.columns} <= {*frame}:
        scores = model.scores(frame)
        score = scores[:, 0] if len(model.arms) == 1 else None
        if not {*labels} <= {*model.arms}:
            return score, None
        return score, model.uplift_of(scores)[:, [model.arms.index(label) for label in labels]]
    known = frame.filter(regex="^(score|uplift)").apply(pd.to_numeric, errors="coerce")
    known = known.astype(np.float64)
    score = uplift = None
    if "score" in known and len(labels) == 1:
        score = known["score"].to_numpy()
        if model is not None:
            uplift = model.scorers[0].calibration(score)[:, None]
    names = ["uplift"] if len(labels) == 1 else [f"uplift {label}" for label in labels]
    if {*names} <= {*known}:
        uplift = known[names].to_numpy()
    return score, uplift


def _by_trial(
    campaign: Campaign, model: UpliftModel, score: Floats, treated: NDArray[np.bool_]
) -> tuple[float, float] | None:
    """Gain of the same share of the trial's people, for the top and the rest, with its error.

    None if the chosen are no top share, or the treated are no random part of either.
    """
    chosen = campaign.chosen[campaign.cell] > 0
    several = len(np.unique(campaign.chosen)) < len(campaign.chosen)
    lowest = float(score[chosen].min())
    if several or not np.isfinite(score[chosen]).all() or (score[~chosen] > lowest).any():
        return None
    share = 1.0
    if not chosen.all():
        share = model.scorers[0].quantiles.share_of(lowest, float(chosen[score == lowest].mean()))
    n_top, n_rest = int((treated & chosen).sum()), int((treated & ~chosen).sum())
    if share <= 0 or (n_rest and share >= 1):
        return None
    gain, error = _in_trial(model, 0, share)
    whole, whole_error = _in_trial(model, 0, 1.0)
    rest = n_rest / (1 - share) if n_rest else 0.0
    # The rest of the trial are other rows, with no larger variance than the whole.
    total = n_top * gain + rest * (whole - share * gain)
    return total, float(np.hypot(n_top * error, rest * whole_error))


def _by_uplifts(
    campaign: Campaign, model: UpliftModel | None, uplift: Floats, arm: Codes
) -> tuple[float, float] | None:
    """The sum of the predicted uplifts, with a rough error from the trial's curves."""
    rows = np.flatnonzero(arm)
    total = float(uplift[rows, arm[rows] - 1].sum())
    if not np.isfinite(total):
        return None
    errors = [0.0]
    for own, n in zip(*np.unique(arm[rows], return_counts=True), strict=True):
        label = campaign.arms[own]
        if model is not None and label in model.arms:
            errors.append(n * _in_trial(model, model.arms.index(label), n / len(arm))[1])
    return total, float(np.linalg.norm(errors))


def _in_trial(model: UpliftModel, k: int, share: float) -> tuple[float, float]:
    """The gain per person of treating the trial's top share with an arm, with its error."""
    curve = model.evidence.arms[k].curve
    return at(curve, share)[1] / share, float(np.interp(share, curve.spend, curve.se)) / share
