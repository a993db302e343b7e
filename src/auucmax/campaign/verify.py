"""Measure what a targeted campaign gained, compared with alternatives and its forecast.

Every person has the arm that was *chosen* (0 is the control) and the arm that was *given*, with
known propensities. A *cell* holds the people with the same chosen arm and the same propensities;
within a cell the arms were given by chance, so the arms' means are compared there. With n_c people
and the mean m_ca of arm a in cell c, whose chosen arm is a(c), giving everybody the chosen arm
gains

    sum of n_c (m_c,a(c) - m_c0)               over treating nobody,
    sum of n_c (m_c,a(c) - m_cb)               over giving everyone arm b,
    sum of n_c (m_c,a(c) - sum_a q_a m_ca)     over the same arms, q_a each, for random people,

and the campaign as it was run, with n_ca people of cell c in arm a, sum of n_ca (m_ca - m_c0). It
takes some of the chosen untreated, and some of the others treated, by chance: an assignment with
exploration.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from auucmax._validation import Floats, check_level
from auucmax.campaign.cells import Campaign, Cell, read_campaign
from auucmax.certificates.strata import GroupsError, strata_bounds
from auucmax.model import UpliftModel
from auucmax.model.guarantee import counted_range
from auucmax.results import Estimate, Result, Roles, State, Why
from auucmax.targeting.choose import arm_costs


class Against(StrEnum):
    """The alternatives that a campaign is compared with."""

    AS_RUN = "as run"  #: the campaign with its exploration, against treating nobody
    NOBODY = "nobody"  #: had everybody got the chosen arm, against treating nobody
    RANDOM = "random"  #: against the same arms for random people: above 0 if scores still rank
    EVERYONE = "everyone"  #: against one arm for everyone


class Comparison(Result):
    """A gain of the campaign over all its people; positive is better.

    ``gain`` is None if it is not known; ``lacking`` are then the number of a cell and an arm that
    nobody of it got. The certified ends each hold with probability 1 - delta, for every number of
    rows. ``profit`` needs cost and value. ``arm``: the arm that everyone would get.
    """

    against: Against
    arm: str | None = None
    gain: Estimate | None = None
    lacking: tuple[int, str] | None = None
    certified_lower: float | None = None
    certified_upper: float | None = None
    profit: Estimate | None = None


class ForecastVerdict(StrEnum):
    """Verdict on a forecast: the first that applies."""

    HARM = "harm"  #: the interval of the gain lies below 0
    BELOW = "below forecast"  #: that of the gain minus the forecast does; both errors are known
    CONFIRMED = "confirmed"  #: the interval of the gain lies above half of the forecast
    TOO_NOISY = "too noisy"  #: none of these


class Forecast(Result):
    """The forecast gain, the measured gain and the verdict.

    ``all_treated``: whether it covers all who were treated, or only the chosen among them.
    ``verdict`` is None if the forecast is 0 or less and no harm is significant. Without the model
    the forecast is the sum of the uplifts of the list; it has no standard error, and the verdict is
    never BELOW.
    """

    forecast: Estimate
    realised: Estimate
    difference: Estimate
    verdict: ForecastVerdict | None
    all_treated: bool


class Verification(Result):
    """The result of :func:`verify`.

    Attributes
    ----------
    roles : how the table was read; ``roles.arms[0]`` is the control.
    state : whether the campaign as it was run gained: HARM, GUARANTEED, SIGNIFICANT, UNCLEAR, or
        UNKNOWN if its gain is not known.
    cells : the people by chosen arm and propensity. Without known propensities, everyone with one
        chosen arm is assumed to have had the same.
    level, delta : level of the intervals, and error of each certified end.
    comparisons : one for each of :class:`Against`, and for each arm with EVERYONE.
    forecast : the forecast against the gain; None if there is no forecast.
    n_without_outcome, n_not_in_list, n_absent : people left out, rows of people who are not in the
        list, and people of the list who are in no row.
    largest_group : the size of groups that the certified ends hold for.
    certificate_missing : why there are no certified ends.
    """

    roles: Roles
    state: State
    cells: tuple[Cell, ...]
    level: float
    delta: float
    comparisons: tuple[Comparison, ...]
    forecast: Forecast | None
    n_not_in_list: int = 0
    n_absent: int = 0
    n_without_outcome: int = 0
    largest_group: int | None = None
    certificate_missing: Why | None = None

    def against(self, name: str, arm: str | None = None) -> Comparison:
        """The comparison with this alternative; EVERYONE also needs an arm.

        >>> found.against("everyone", "mail").gain  # doctest: +SKIP
        """
        return next(c for c in self.comparisons if (c.against, c.arm) == (name, arm))


def verify(
    table: Any,
    *,
    chosen: str | None = None,
    people: Any = None,
    propensity: str | None = None,
    treatment: str | None = None,
    outcome: str | None = None,
    treated: Any = None,
    control: Any = None,
    id: str | None = None,
    groups: str | None = None,
    largest_group: int | None = None,
    model: UpliftModel | None = None,
    cost: Any = None,
    value: float | None = None,
    lower_is_better: bool = False,
    drop_missing_outcomes: bool = False,
    outcome_range: tuple[float, float] | None = None,
    level: float = 0.95,
    delta: float = 0.05,
    random_state: int = 0,
) -> Verification:
    """Verify what a targeted campaign gained, and whether that confirms its forecast.

    Parameters
    ----------
    table : frame
        One row for each person of the campaign, chosen or not, with the outcome.
    chosen : str, optional
        Column with the arm that was chosen for each person (0/1 or yes and no for one arm).
    people : frame, optional
        The list that ``target`` or ``assign`` wrote, instead of ``chosen``; rows are matched by
        ``id``. A list of ``assign`` also has the arm that was given, propensities and groups.
    propensity : str, optional
        Column with the probability of treatment, or the prefix of the columns of several arms
        ("chance" for "chance mail"). Without it, everyone with the same chosen arm is assumed to
        have had the same.
    treatment, outcome, treated, control, id, groups, lower_is_better, drop_missing_outcomes,
        outcome_range : as in :func:`auucmax.read_trial`; a ``model`` knows them.
    largest_group : int, optional
        The largest size of a group, known without these rows, for certified ends with groups.
    model : UpliftModel, optional
        The model that chose the people; it has the forecast.
    cost, value : optional
        Cost of treating a person with each arm, and value of one unit of the outcome, for profits.
    level, delta : float
        Level of the intervals, and probability that a certified end fails.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> top = rng.random(20_000) < 0.3
    >>> chance = np.where(top, 0.9, 0.1)
    >>> mail = rng.random(20_000) < chance
    >>> visit = rng.random(20_000) < 0.1 + 0.08 * top * mail
    >>> table = pd.DataFrame({"top": top, "chance": chance, "mail": mail, "visit": visit})
    >>> found = verify(
    ...     table, chosen="top", propensity="chance", treatment="mail", outcome="visit"
    ... )
    >>> gain = found.against("random")
    >>> gain.certified_lower > 0, bool(gain.gain.lower < 0.056 * top.sum() < gain.gain.upper)
    (True, True)
    """
    check_level(level)
    check_level(delta, "delta")
    named = {
        "treatment": treatment, "outcome": outcome, "treated": treated, "control": control,
        "id": id, "groups": groups, "lower_is_better": lower_is_better,
        "outcome_range": outcome_range, "drop_missing_outcomes": drop_missing_outcomes,
    }  # fmt: skip
    campaign = read_campaign(table, people, chosen, propensity, model, named)
    trial, means, arms = campaign.trial, campaign.means, campaign.trial.roles.arms
    each = np.eye(len(arms))
    sizes, own = means.counts.sum(axis=1, keepdims=True), each[campaign.chosen]
    given = means.counts - sizes * each[0]  # n_ca of each arm, and minus all of them of the control
    random = (sizes * own).sum(axis=0) / sizes.sum()
    instead = np.stack([each[0], random, *each[1:]])[:, None]  # who would have got each arm
    weights = np.concatenate([given[None], sizes * (own - instead)])
    lacking = (weights != 0) & (means.counts == 0)
    is_known = ~lacking.any(axis=(1, 2))

    # Certified ends, or the reason why there are none.
    bounds, certificate_missing, counted = None, None, counted_range(trial)
    if isinstance(counted, Why):
        certificate_missing = counted
    elif weights[is_known].any():
        try:
            bounds = strata_bounds(
                np.clip(trial.benefit, *counted), treatment=trial.arm, stratum=campaign.cell,
                groups=means.groups, outcome_range=counted, largest_group=largest_group,
                delta=delta, weights=weights[is_known], random_state=random_state,
            )  # fmt: skip
        except GroupsError:
            certificate_missing = Why.GROUPS
    ends = np.full((len(weights), 2), None)
    if bounds is not None:
        ends[is_known] = np.column_stack([bounds.lower, bounds.upper])

    names = [(Against.AS_RUN, None), (Against.NOBODY, None), (Against.RANDOM, None)]
    comparisons = []
    for k, (against, arm) in enumerate([*names, *((Against.EVERYONE, own) for own in arms[1:])]):
        found: dict[str, Any] = {"certified_lower": ends[k, 0], "certified_upper": ends[k, 1]}
        if is_known[k]:
            found["gain"] = means.contrast(weights[k], level)
            if cost is not None and value is not None:
                # People who get each arm more often than with the alternative.
                spent = float(weights[k].sum(axis=0)[1:] @ arm_costs(cost, arms[1:]))
                found["profit"] = found["gain"].scaled(value, -spent)
        else:
            cell, without = np.argwhere(lacking[k])[0].tolist()
            found["lacking"] = cell, arms[without]
        comparisons.append(Comparison(against=against, arm=arm, **found))

    # The first state that applies to the campaign as it was run.
    state, run = State.UNKNOWN, comparisons[0]
    if run.gain is not None:
        upper = run.certified_upper if run.gain.upper is None else run.gain.upper
        if upper is not None and upper < 0:
            state = State.HARM
        elif (run.certified_lower or 0.0) > 0:
            state = State.GUARANTEED
        else:
            state = State.SIGNIFICANT if (run.gain.lower or 0.0) > 0 else State.UNCLEAR
    return Verification(
        roles=trial.roles,
        state=state,
        cells=campaign.cells,
        level=level,
        delta=delta,
        comparisons=tuple(comparisons),
        forecast=forecast_of(campaign, given, level, model),
        n_not_in_list=campaign.n_not_in_list,
        n_absent=campaign.n_absent,
        n_without_outcome=0 if trial.lost is None else len(trial.lost.arm),
        largest_group=None if bounds is None else bounds.largest_group,
        certificate_missing=certificate_missing,
    )


def forecast_of(
    campaign: Campaign, given: Floats, level: float, model: UpliftModel | None
) -> Forecast | None:
    """The forecast for all treated people, or only for the chosen if others lack uplifts.

    It is the sum of the uplifts of the arms that people got, by the model or else by the list. Its
    standard error is that of the curve of the trial of the model, where as large a share of the
    people is treated; without the model it is not known.

    ``given`` (cells, arms): the coefficients of the means in the gain of all who were treated.
    """
    if model is not None and model.evidence.failed_check:
        return None
    frame, labels, cell = campaign.frame, campaign.trial.roles.arms[1:], campaign.cell
    names = ["uplift"] if len(labels) == 1 else [f"uplift {label}" for label in labels]
    evidence = {} if model is None else {own.arm: own for own in model.evidence.arms}
    is_of_model = {*labels} <= {*evidence}
    if model is not None and is_of_model and {*model.columns} <= {*frame}:
        uplift = model.uplift(frame)[:, [model.arms.index(label) for label in labels]]
    elif {*names} <= {*frame}:
        uplift = frame[names].apply(pd.to_numeric, errors="coerce").to_numpy(np.float64)
    else:
        return None

    # The uplift of the arm that each person got, (n,); 0 for the control.
    arm = campaign.trial.arm
    own = np.column_stack([np.zeros(len(arm)), uplift])[np.arange(len(arm)), arm]
    is_known = ~((given != 0) & (campaign.means.counts == 0)).any(axis=1)
    is_known[cell[~np.isfinite(own)]] = False
    all_treated = bool(is_known.all())
    if not all_treated:
        is_known &= campaign.chosen > 0
    weights, counted = given * is_known[:, None], is_known[cell]
    if not weights.any():
        return None
    total = float(own[counted].sum())
    forecast = Estimate(value=total, missing="the model was not given")
    if is_of_model:
        se = 0.0
        for k, label in enumerate(labels, start=1):
            curve, share = evidence[label].curve, np.mean(counted & (arm == k))
            se = float(np.hypot(se, len(arm) * np.interp(share, curve.spend, curve.se)))
        half = float(ndtri((1 + level) / 2)) * se
        forecast = Estimate(value=total, se=se, lower=total - half, upper=total + half)
    realised = campaign.means.contrast(weights, level)
    return Forecast(
        forecast=forecast,
        realised=realised,
        difference=minus(realised, forecast),
        verdict=verdict_on(realised, forecast),
        all_treated=all_treated,
    )


def verdict_on(realised: Estimate, forecast: Estimate) -> ForecastVerdict | None:
    """Compare a forecast with an independent gain; None if no gain was forecast.

    A forecast without an interval is a number whose error is not known: the gain may confirm it,
    but is never below it.

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


def minus(own: Estimate, other: Estimate) -> Estimate:
    """Difference of two independent estimates; distances to the limits add in quadrature.

    If the error of one is not known, neither is that of the difference.

    >>> found = minus(
    ...     Estimate(value=5.0, se=2.0, lower=1.0, upper=9.0),
    ...     Estimate(value=2.0, se=1.5, lower=-1.0, upper=5.0),
    ... )
    >>> found.value, found.lower, found.upper
    (3.0, -2.0, 8.0)
    """
    value = own.value - other.value
    se = None if own.se is None or other.se is None else float(np.hypot(own.se, other.se))
    if own.lower is None or own.upper is None or other.lower is None or other.upper is None:
        return Estimate(value=value, se=se, missing=own.missing or other.missing)
    below = float(np.hypot(own.value - own.lower, other.upper - other.value))
    above = float(np.hypot(own.upper - own.value, other.value - other.lower))
    return Estimate(value=value, se=se, lower=value - below, upper=value + above)
