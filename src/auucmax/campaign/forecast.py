"""The forecast gain of the treated people, compared with the measured one."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import pandas as pd
from scipy.special import ndtri

from auucmax._validation import Floats
from auucmax.campaign.cells import Campaign
from auucmax.campaign.contrasts import minus
from auucmax.model import UpliftModel
from auucmax.results import Estimate, Result


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

    It is the sum of the uplifts of the arms that people got. Its standard error is that of the
    curve of the trial of the model, where as large a share of the people is treated.

    ``given`` (cells, arms): the coefficients of the means in the gain of all who were treated.
    """
    if model is not None and model.evidence.failed_check:
        return None
    # Uplifts (n, K) by the model, or else those of the list.
    frame, labels = campaign.frame, campaign.arms[1:]
    known = frame.filter(regex="^(score|uplift)").apply(pd.to_numeric, errors="coerce")
    names = ["uplift"] if len(labels) == 1 else [f"uplift {label}" for label in labels]
    if model is not None and {*model.columns} <= {*frame} and {*labels} <= {*model.arms}:
        uplift = model.uplift(frame)[:, [model.arms.index(label) for label in labels]]
    elif {*names} <= {*known}:
        uplift = known[names].to_numpy(np.float64)
    elif model is not None and "score" in known and len(labels) == 1:
        score = known[["score"]].to_numpy(np.float64)
        uplift = np.where(np.isnan(score), np.nan, model.uplift_of(np.nan_to_num(score)))
    else:
        return None

    z = float(ndtri((1 + level) / 2))
    for cells in (np.ones(len(given), dtype=bool), campaign.chosen > 0):
        weights = given * cells[:, None]
        arm = np.where(cells[campaign.cell], campaign.trial.arm, 0)
        rows = np.flatnonzero(arm)
        total = float(uplift[rows, arm[rows] - 1].sum())
        lacking = ((weights != 0) & (campaign.means.counts == 0)).any()
        if not np.isfinite(total) or lacking or not weights.any():
            continue
        se = 0.0
        for evidence in model.evidence.arms if model is not None else ():
            if evidence.arm in labels:
                share = np.mean(arm == 1 + labels.index(evidence.arm))
                error = np.interp(share, evidence.curve.spend, evidence.curve.se)
                se = float(np.hypot(se, len(arm) * error))
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
