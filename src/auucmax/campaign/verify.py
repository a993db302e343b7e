"""What a targeted campaign gained, against what it could have gained and what was forecast.

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri

from auucmax._errors import InputError
from auucmax._validation import Bools, Floats, check_column, check_level, listed
from auucmax.campaign.contrasts import CellMeans
from auucmax.campaign.contrasts import Estimate as CellEstimate
from auucmax.certificates.strata import GroupsError, strata_bounds
from auucmax.data import FailedCheckError, Trial, check_randomisation
from auucmax.data.balance import equal_shares, holm
from auucmax.data.randomisation import BY_CLUSTER, within_clusters
from auucmax.data.read_trial import id_texts, read_trial
from auucmax.data.reading import table_of
from auucmax.data.roles import NO_AND_YES, check_names
from auucmax.encoding.frames import frame_of
from auucmax.encoding.kinds import arm_text
from auucmax.model import UpliftModel
from auucmax.model.judge import counted_range
from auucmax.results import Estimate, Missing, Result, Roles, State, Why
from auucmax.targeting.costs import arm_costs
from auucmax.targeting.rule import at

Codes = NDArray[np.intp]
_CHOSEN = "auucmax_chosen"
_MOST_CELLS = 20
_DIGITS = 6  # propensities that agree in so many are one
_FEWEST = 50  # rows of each arm of a cell whose features are compared
_STOPS = 1e-4  # corrected p-value, as in check_randomisation
_OWN_COLUMNS = {"arm", "chosen", "rule", "propensity", "score", "uplift"}  # of a list


class ForecastVerdict(StrEnum):
    """What the gain of a campaign says about its forecast: the first of these that holds."""

    HARM = "harm"  #: the interval of the gain lies below 0
    BELOW = "below forecast"  #: that of the gain minus the forecast does, with both errors
    CONFIRMED = "confirmed"  #: the interval of the gain lies above half of the forecast
    TOO_NOISY = "too noisy"  #: none of these


class Against(StrEnum):
    """What a campaign is compared with."""

    AS_RUN = "as run"  #: the campaign with its exploration, against treating nobody
    NOBODY = "nobody"  #: had everybody got the chosen arm, against treating nobody
    RANDOM = "random"  #: against the same arms for random people
    EVERYONE = "everyone"  #: against one arm for everyone


class Cell(Result):
    """People with the same chosen arm and the same probability of any treatment, if it is known."""

    chosen: str
    propensity: float | None


class Lacking(Result):
    """Nobody of a cell got an arm that a comparison needs."""

    cell: Cell
    arm: str


class Comparison(Result):
    """A gain of the campaign in outcomes of all its people, as a benefit.

    ``gain`` is None if it is not known, and ``lacking`` says why. The certified ends each hold with
    probability 1 - delta, for every number of rows. ``profit`` needs cost and value. ``arm``: the
    arm that everyone would get.
    """

    against: Against
    arm: str | None = None
    gain: Estimate | None = None
    lacking: Lacking | None = None
    certified_lower: float | None = None
    certified_upper: float | None = None
    profit: Estimate | None = None


class Forecast(Result):
    """The forecast for the people who were treated, their gain, and the verdict.

    ``all_treated``: whether it covers all who were treated, or only the chosen among them.
    ``by_trial``: from the trial's curve, or else the sum of uplifts. ``verdict`` is None if the
    forecast is 0 or less and no harm is significant.
    """

    forecast: Estimate
    realised: Estimate
    difference: Estimate
    verdict: ForecastVerdict | None
    all_treated: bool
    by_trial: bool


class CellCheck(StrEnum):
    """What a test within a cell compares between the arms."""

    PROPENSITY = "propensity"
    MISSING_OUTCOMES = "missing outcomes"
    BALANCE = "balance"


class CellTest(Result):
    """A test of the randomisation within a cell; the p-value is corrected for all of them."""

    what: CellCheck
    cell: Cell
    p_value: float


class Verification(Result):
    """What :func:`verify` found.

    Attributes
    ----------
    roles : how the table was read; ``roles.arms[0]`` is the control.
    state : whether the campaign as it was run gained: HARM, GUARANTEED, SIGNIFICANT, UNCLEAR, or
        UNKNOWN if its gain is not known.
    n_people : people with an outcome. n_without_outcome, n_not_in_list, n_absent : people left out,
        rows of people who are not in the list, and people of the list who are in no row.
    chosen, given : people for each arm, the control first.
    n_chosen_treated : chosen people who were treated.
    level, delta : of the intervals, and of each certified end.
    comparisons : one for each of :class:`Against`, and for each arm with EVERYONE.
    forecast : the forecast against the gain; None if there is no forecast.
    ranking : the gain over random targeting per chosen person: above 0 if the scores still rank.
    tests : of the randomisation within cells.
    has_propensity : whether propensities are known; otherwise everyone with one chosen arm is
        assumed to have had the same.
    largest_group : the size of groups that the certified ends hold for.
    certificate_missing : why there are no certified ends.
    """

    roles: Roles
    state: State
    n_people: int
    chosen: tuple[int, ...]
    given: tuple[int, ...]
    n_chosen_treated: int
    level: float
    delta: float
    comparisons: tuple[Comparison, ...]
    forecast: Forecast | None
    ranking: Estimate | None
    tests: tuple[CellTest, ...]
    n_not_in_list: int = 0
    n_absent: int = 0
    n_without_outcome: int = 0
    has_propensity: bool = False
    largest_group: int | None = None
    certificate_missing: Missing | None = None

    def against(self, name: str, arm: str | None = None) -> Comparison:
        """The comparison of this name, with EVERYONE also of this arm.

        >>> found.against("everyone", "mail").gain  # doctest: +SKIP
        """
        return next(c for c in self.comparisons if (c.against, c.arm) == (name, arm))


@dataclass(frozen=True, eq=False)
class _Campaign:
    """Rows with an outcome: chosen and given arms, cells, and what is known of their uplifts."""

    trial: Trial
    frame: pd.DataFrame
    arms: tuple[str, ...]
    chosen: Codes
    cell: Codes
    cell_chosen: Codes
    propensity: Floats | None  # (cells, A)
    lost: NDArray[np.intp]  # (cells, A) rows without an outcome
    kept: NDArray[np.intp]  # and with one, each group by its first row
    n_not_in_list: int
    n_absent: int

    @cached_property
    def groups(self) -> Codes | None:
        own = self.trial.groups
        return None if own is None else pd.factorize(own)[0].astype(np.intp)

    @cached_property
    def means(self) -> CellMeans:
        n_cells, n_arms = len(self.cell_chosen), len(self.arms)
        y, arm = self.trial.benefit, self.trial.arm
        return CellMeans.of(y, arm, self.cell, self.groups, n_cells, n_arms)

    @property
    def sizes(self) -> Floats:
        return self.means.counts.sum(axis=1).astype(np.float64)

    def name(self, cell: int) -> str:
        own = self.arms[int(self.cell_chosen[cell])]
        several = len(self.arms) > 2
        who = f"people chosen for {own!r}" if several else "the chosen"
        who = "the others" if self.cell_chosen[cell] == 0 else who
        if self.propensity is None:
            return who
        return f"{who} with propensity {1 - self.propensity[cell, 0]:g}"

    def why_unknown(self, coefficients: Floats) -> str | None:
        """Why a contrast is not known: nobody of a cell got an arm that it needs."""
        lacking = np.argwhere((coefficients != 0) & (self.means.counts == 0))
        if not len(lacking):
            return None
        cell, arm = lacking[0].tolist()
        return f"nobody of {self.name(cell)} got {self.arms[arm]!r}"


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
        Column with the probability of treatment, or the word that the columns of several arms begin
        with ("chance" for "chance mail"). Without it, everyone with the same chosen arm is assumed
        to have had the same.
    treatment, outcome, treated, control, id, groups, lower_is_better, drop_missing_outcomes,
        outcome_range : as in :func:`auucmax.read_trial`; a ``model`` knows them.
    largest_group : int, optional
        The largest size of a group, known without these rows, for certified ends with groups.
    model : UpliftModel, optional
        That chose the people; it has the forecast.
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
    >>> gain.certified_lower > 0, gain.gain.lower < 0.7 * 0.08 * top.sum() < gain.gain.upper
    (True, True)
    """
    check_level(level)
    check_level(delta, "delta")
    named = {
        "treatment": treatment, "outcome": outcome, "treated": treated, "control": control,
        "id": id, "groups": groups, "lower_is_better": lower_is_better,
        "outcome_range": outcome_range, "drop_missing_outcomes": drop_missing_outcomes,
    }  # fmt: skip
    campaign = _read(table, people, chosen, propensity, model, named)
    tests = _check(campaign, model)
    sizes, each = campaign.sizes, np.eye(len(campaign.arms))
    own = each[campaign.cell_chosen]
    given = campaign.means.counts.astype(np.float64)
    given[:, 0] = -given[:, 1:].sum(axis=1)
    share = sizes @ own / sizes.sum()
    contrasts = {
        "as run": given,
        "nobody": sizes[:, None] * (own - each[0]),
        "random": sizes[:, None] * (own - share),
    }
    for k, label in enumerate(campaign.arms[1:], start=1):
        contrasts[f"everyone: {label}"] = sizes[:, None] * (own - each[k])
    costs = None if cost is None else (0.0, *arm_costs(cost, campaign.arms[1:]))
    spent = {} if costs is None else _spending(campaign, costs)
    found = []
    for name, coefficients in contrasts.items():
        gain, unknown = _estimated(campaign, coefficients, level)
        profit = None
        if gain is not None and value is not None and name in spent:
            profit = _scaled(gain, value, -spent[name])
        found.append(Comparison(against=name, gain=gain, unknown=unknown, profit=profit))
    comparisons, size, why = _certified(
        campaign, found, contrasts, delta, largest_group, random_state
    )
    ranking = next(one.gain for one in comparisons if one.against == "random")
    n_chosen = int((campaign.chosen > 0).sum())
    return Verification(
        roles=campaign.trial.roles,
        arms=campaign.arms,
        n_people=campaign.trial.n_rows,
        chosen=tuple(np.bincount(campaign.chosen, minlength=len(campaign.arms)).tolist()),
        given=tuple(np.bincount(campaign.trial.arm, minlength=len(campaign.arms)).tolist()),
        n_chosen_treated=int(((campaign.chosen > 0) & (campaign.trial.arm > 0)).sum()),
        level=level,
        delta=delta,
        comparisons=comparisons,
        forecast=_forecast(campaign, given, level, model),
        ranking=None if ranking is None else _scaled(ranking, 1 / n_chosen),
        tests=tests,
        n_not_in_list=campaign.n_not_in_list,
        n_absent=campaign.n_absent,
        n_without_outcome=int(campaign.lost.sum()),
        has_propensity=campaign.propensity is not None,
        largest_group=size,
        certificate_missing=why,
    )


def _spending(campaign: _Campaign, costs: tuple[float, ...]) -> dict[str, float]:
    """What the campaign cost more than each alternative."""
    n = campaign.trial.n_rows
    price = np.array(costs)
    policy = float(price[campaign.chosen].sum())
    found = {
        "as run": float(price[campaign.trial.arm].sum()), "nobody": policy, "random": 0.0,
    }  # fmt: skip
    return found | {
        f"everyone: {label}": policy - n * price[k]
        for k, label in enumerate(campaign.arms[1:], start=1)
    }


def _scaled(own: Estimate, factor: float, shift: float = 0.0) -> Estimate:
    ends = [None if end is None else factor * end + shift for end in (own.lower, own.upper)]
    se = None if own.se is None else factor * own.se
    return replace(own, value=factor * own.value + shift, se=se, lower=ends[0], upper=ends[1])


def _of_cells(own: CellEstimate) -> Estimate:
    known = own.declined is None
    return Estimate(
        value=own.value,
        se=own.standard_error if np.isfinite(own.standard_error) else None,
        lower=own.lower if known else None,
        upper=own.upper if known else None,
        missing=own.declined,
    )


def _estimated(
    campaign: _Campaign, coefficients: Floats, level: float
) -> tuple[Estimate | None, str | None]:
    if (why := campaign.why_unknown(coefficients)) is not None:
        return None, why
    if not coefficients.any():  # the same for all
        return Estimate(value=0.0, se=0.0, lower=0.0, upper=0.0), None
    return _of_cells(campaign.means.contrast(coefficients, level)), None


def _certified(
    campaign: _Campaign,
    found: Sequence[Comparison],
    contrasts: Mapping[str, Floats],
    delta: float,
    largest_group: int | None,
    random_state: int,
) -> tuple[tuple[Comparison, ...], int | None, str | None]:
    """The comparisons with certified ends, the size of groups they hold for, or why not."""
    trial = campaign.trial
    counted = counted_range(trial.roles.outcome, trial.y)
    names = [one.against for one in found if one.gain is not None]
    some = [name for name in names if contrasts[name].any()]
    if isinstance(counted, Missing):
        return tuple(found), None, "outcomes are not 0/1 and have no range: pass outcome_range="
    if not some:
        return tuple(found), None, "no comparison is known"
    try:
        bounds = strata_bounds(
            np.clip(trial.benefit, *counted), treatment=trial.arm, stratum=campaign.cell,
            groups=campaign.groups, outcome_range=counted, largest_group=largest_group,
            weights=np.stack([contrasts[name] for name in some]), delta=delta,
            random_state=random_state,
        )  # fmt: skip
    except GroupsError as error:
        return tuple(found), None, str(error)
    ends = dict.fromkeys(names, (0.0, 0.0))
    both = zip(bounds.lower.tolist(), bounds.upper.tolist(), strict=True)
    ends |= dict(zip(some, both, strict=True))
    certified = [
        replace(one, certified_lower=_finite(ends[one.against][0]),
                certified_upper=_finite(ends[one.against][1]))
        if one.against in ends else one
        for one in found
    ]  # fmt: skip
    return tuple(certified), bounds.largest_group, None


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


# The forecast


def _forecast(
    campaign: _Campaign, given: Floats, level: float, model: UpliftModel | None
) -> Forecast | None:
    """The forecast of all who were treated, or of the chosen among them if no more is known."""
    if model is not None and model.evidence.failed_check:
        return None
    score, uplift = _known_uplifts(campaign, model)
    harmed = False
    for all_treated in (True, False):
        cells = (
            np.ones(len(campaign.cell_chosen), bool) if all_treated else campaign.cell_chosen > 0
        )
        own = given * cells[:, None]
        if campaign.why_unknown(own) is not None or not own.any():
            continue
        realised = campaign.means.contrast(own, level)
        harmed = harmed or (realised.declined is None and realised.upper < 0)
        rows = (campaign.trial.arm > 0) & cells[campaign.cell]
        forecast = _by_trial(campaign, model, score, rows)
        by_trial = forecast is not None
        if forecast is None:
            forecast = _by_uplifts(campaign, model, uplift, rows)
        if forecast is None:
            continue
        reach = float(ndtri((1 + level) / 2)) * forecast.standard_error
        low, high = forecast.value - reach, forecast.value + reach
        forecast = forecast._replace(lower=low, upper=high)
        verdict = ForecastVerdict.HARM if harmed else verdict_on(realised, forecast)
        off = realised.minus(forecast)
        return Forecast(
            forecast=_of_cells(forecast),
            realised=_of_cells(realised),
            difference=_of_cells(off),
            verdict=verdict,
            all_treated=all_treated,
            by_trial=by_trial,
        )
    return None


def verdict_on(realised: CellEstimate, forecast: CellEstimate) -> ForecastVerdict | None:
    """The verdict on a forecast from other rows than the gain; None if it was 0 or less.

    >>> forecast = CellEstimate(443.0, 50.0, 345.0, 541.0)
    >>> verdict_on(CellEstimate(-251.0, 126.0, -498.0, -4.0), forecast).value
    'harm'
    >>> verdict_on(CellEstimate(300.0, 30.0, 241.0, 359.0), forecast).value
    'below forecast'
    >>> verdict_on(CellEstimate(400.0, 60.0, 282.0, 518.0), forecast).value
    'confirmed'
    """
    if realised.declined is None and realised.upper < 0:
        return ForecastVerdict.HARM
    if forecast.value <= 0:
        return None
    if realised.declined is not None:
        return ForecastVerdict.TOO_NOISY
    if realised.minus(forecast).upper < 0:
        return ForecastVerdict.BELOW
    if realised.lower > forecast.value / 2:
        return ForecastVerdict.CONFIRMED
    return ForecastVerdict.TOO_NOISY


def _known_uplifts(
    campaign: _Campaign, model: UpliftModel | None
) -> tuple[Floats | None, Floats | None]:
    """(n,) scores of one arm and (n, A - 1) uplifts, of the list or of the model."""
    frame, arms = campaign.frame, campaign.arms[1:]
    names = ["uplift"] if len(arms) == 1 else [f"uplift {label}" for label in arms]
    used = () if model is None else model.roles.features
    uplift = score = None
    if set(names) <= set(frame.columns) and not set(names) & set(used):
        uplift = frame[names].apply(pd.to_numeric, errors="coerce").to_numpy(dtype=np.float64)
    if len(arms) == 1 and "score" in frame and "score" not in used:
        score = pd.to_numeric(frame["score"], errors="coerce").to_numpy(dtype=np.float64)
    if model is not None and set(model.columns) <= set(frame.columns):
        scores = model.scores(frame)
        place = pd.Index(model.arms).get_indexer(pd.Index(arms))
        score = scores[:, 0] if len(arms) == 1 else None
        if uplift is None:
            uplift = np.where(place >= 0, model.uplift_of(scores)[:, place], np.nan)
    elif model is not None and uplift is None and score is not None:
        known = np.isfinite(score)
        uplift = np.full((len(score), 1), np.nan)
        uplift[known, 0] = model.scorers[0].calibration(score[known])
    return score, uplift


def _effect(model: UpliftModel, k: int, share: float) -> tuple[float, float, bool]:
    """The effect on a person in the top share of the trial, its error, and whether it is known."""
    curve = model.evidence.arms[k].curve
    _, gain, lower, _ = at(curve, share)
    se = float(np.interp(share, curve.spend, curve.se))
    return gain / share, se / share, bool(np.isfinite(lower))


def _by_trial(
    campaign: _Campaign, model: UpliftModel | None, score: Floats | None, rows: Bools
) -> CellEstimate | None:
    """What as many of the trial's people gained, of the top share and of the rest.

    None if the chosen are no top share, or the treated are no random part of either.
    """
    chosen = campaign.chosen > 0
    if model is None or score is None or len(campaign.arms) > 2:
        return None
    n_cells = int((campaign.cell_chosen > 0).sum())
    if n_cells > 1 or len(campaign.cell_chosen) - n_cells > 1:
        return None
    if not np.isfinite(score[chosen]).all():
        return None
    lowest = float(score[chosen].min())
    known = np.isfinite(score)
    share = 1.0
    if not chosen.all():
        if (score[known & ~chosen] > lowest).any():
            return None
        tied = score == lowest
        part = float((tied & chosen).sum() / tied.sum())
        share = model.scorers[0].quantiles.share_of(lowest, part)
    if share <= 0:
        return None
    effect, error, is_known = _effect(model, 0, share)
    if not is_known:
        return None
    n_top, n_rest = int((rows & chosen).sum()), int((rows & ~chosen).sum())
    if n_rest == 0:
        return CellEstimate(n_top * effect, n_top * error, np.nan, np.nan)
    if share >= 1:
        return None
    # The rest of the trial are other rows, with no larger variance than the whole.
    whole, whole_error, _ = _effect(model, 0, 1.0)
    value = n_top * effect + n_rest * (whole - share * effect) / (1 - share)
    squares = (n_top * error) ** 2 + (n_rest * whole_error / (1 - share)) ** 2
    return CellEstimate(value, float(np.sqrt(squares)), np.nan, np.nan)


def _by_uplifts(
    campaign: _Campaign, model: UpliftModel | None, uplift: Floats | None, rows: Bools
) -> CellEstimate | None:
    """The sum of the uplifts of what people got, with a rough error from the trial's curves."""
    if uplift is None:
        return None
    arm = campaign.trial.arm[rows]
    total, squares = float(uplift[rows, arm - 1].sum()), 0.0
    if not np.isfinite(total):
        return None
    for own, n in zip(*np.unique(arm, return_counts=True), strict=True):
        label = campaign.arms[own]
        if model is None or label not in model.arms:
            return CellEstimate(total, 0.0, np.nan, np.nan)
        _, error, _ = _effect(model, model.arms.index(label), n / campaign.trial.n_rows)
        squares += (n * error) ** 2
    return CellEstimate(total, float(np.sqrt(squares)), np.nan, np.nan)


# Reading


def _read(
    table: Any,
    people: Any,
    chosen: str | None,
    propensity: str | None,
    model: UpliftModel | None,
    named: dict[str, Any],
) -> _Campaign:
    frame = frame_of(table_of(table)).copy(deep=False)
    people = None if people is None else frame_of(people)
    is_assignment = people is not None and "chosen" in people.columns
    if people is not None and "rule" in people.columns and not is_assignment:
        raise InputError(
            "people", "a list of people whom a model chose",
            "one of a trial, assigned without a model", "Use fit or evaluate for a trial.",
        )  # fmt: skip
    named = _known_names(named, model, frame, is_assignment)
    if (chosen is None) == (people is None):
        got = "neither" if chosen is None else "both"
        raise InputError("chosen", "given, or people, but not both", got, "Pass one of them.")
    n_others = n_absent = 0
    if people is not None:
        frame, n_others, n_absent = _with_list(frame, people, is_assignment, propensity, named)
    elif chosen is not None:
        check_names(frame, [chosen])
        frame[_CHOSEN] = frame[chosen]
    if frame[_CHOSEN].isna().any():
        n = int(frame[_CHOSEN].isna().sum())
        raise InputError(
            "chosen", "known for every row", f"nothing in {n:,} rows",
            "Write the control, or 0, for people who were not chosen.",
        )  # fmt: skip
    used = {"propensity": None, "features": [_CHOSEN]}
    trial = read_trial(frame, **(named | used))
    arms = trial.roles.arms
    codes = _chosen_codes(frame[_CHOSEN], arms)
    if not (codes > 0).any():
        raise InputError("chosen", "an arm for somebody", "none", "Check the column or the list.")
    # Rows of all arms, with and without an outcome, are in cells.
    labels = frame[trial.roles.treatment].map(arm_text)
    arm = pd.Index(arms).get_indexer(pd.Index(labels))
    cell, keys, names = _cells(codes, frame, propensity, is_assignment, arms)
    missing = frame[trial.roles.outcome.name].isna().to_numpy(dtype=bool)
    own_groups = None if trial.roles.groups is None else frame[trial.roles.groups].to_numpy()
    lost, kept = _missing_counts(missing, cell, arm, own_groups, (len(keys), len(arms)))
    place = trial.place
    found = _Campaign(
        trial=trial,
        frame=frame.iloc[place],
        arms=arms,
        chosen=codes[place],
        cell=cell[place],
        cell_chosen=np.array([int(key[0]) for key in keys], dtype=np.intp),
        propensity=np.array([(1 - sum(key[1:]), *key[1:]) for key in keys]) if names else None,
        lost=lost,
        kept=kept,
        n_not_in_list=n_others,
        n_absent=n_absent,
    )
    counts = found.means.counts
    if all((counts[k] > 0).sum() < 2 for k in range(len(counts))):
        raise InputError(
            "table", "some of the chosen untreated, or some of the others treated, by chance",
            "neither",
            "Next time keep a random part of the list untreated and treat a random part of the "
            "others: auucmax assign --model MODEL --share .3 --explore .1.",
        )  # fmt: skip
    return found


def _known_names(
    named: dict[str, Any], model: UpliftModel | None, frame: pd.DataFrame, is_assignment: bool
) -> dict[str, Any]:
    """Columns and labels as given, otherwise those of the model."""
    if model is None:
        if named["treatment"] is None and is_assignment:
            named["treatment"] = "arm"
        return named
    own = model.roles
    for name, known in (
        ("outcome", own.outcome.name), ("lower_is_better", own.outcome.lower_is_better or None),
    ):  # fmt: skip
        given = named[name] or None
        if given is not None and given != known:
            raise InputError(
                name, f"{known!r}, as the model was fitted", repr(given), "Leave it out."
            )
    if named["treatment"] in (None, own.treatment):
        named["treatment"] = own.treatment
        named["control"] = own.arms[0] if named["control"] is None else named["control"]
        if named["treated"] is None:
            named["treated"] = list(own.arms[1:])
    if named["id"] is None and own.id in frame.columns:
        named["id"] = own.id
    named["groups"] = own.groups if named["groups"] is None else named["groups"]
    named["outcome_range"] = named["outcome_range"] or own.outcome.range
    return named | {"outcome": own.outcome.name, "lower_is_better": own.outcome.lower_is_better}


def _with_list(
    frame: pd.DataFrame,
    people: pd.DataFrame,
    is_assignment: bool,
    propensity: str | None,
    named: dict[str, Any],
) -> tuple[pd.DataFrame, int, int]:
    """The rows with what a list says about them: rows not in it, and people of it not in rows.

    People who are not in a list of ``target`` were not chosen; those who are not in one of
    ``assign`` are left out.
    """
    id = named["id"]
    if id is None:
        raise InputError("id", "given with people", "none", "Pass id=, the column of ids in both.")
    check_names(frame, [id])
    check_names(people, [id])
    own, texts = (id_texts(t[id], f"the id {id!r}") for t in (frame, people))
    if n_twice := len(texts) - len(np.unique(texts)):
        raise InputError(
            "people", "each person once", f"{n_twice:,} rows with the {id!r} of another",
            "Keep one row of each.",
        )  # fmt: skip
    place = pd.Index(texts).get_indexer(pd.Index(own))
    if not (place >= 0).any():
        raise InputError(
            "people", f"people of the table, with {id!r} such as {own[0]!r}",
            f"{len(texts):,} such as {texts[0]!r}", "Write ids in the same way.",
        )  # fmt: skip
    n_others = int((place < 0).sum()) if is_assignment else 0
    if n_others:
        frame, place = frame[place >= 0].copy(deep=False), place[place >= 0]
    n_absent = len(people) - len(np.unique(place[place >= 0]))
    control = named["control"]
    if is_assignment:
        frame[_CHOSEN] = people["chosen"].iloc[place].set_axis(frame.index)
    elif "arm" in people.columns and (people["arm"].nunique() > 1 or control is not None):
        none = "0" if control is None else control
        listed_arm = people["arm"].iloc[place].set_axis(frame.index).astype(object)
        frame[_CHOSEN] = listed_arm.where(place >= 0, none)
    else:
        frame[_CHOSEN] = (place >= 0).astype(int)
    if is_assignment and named["groups"] is None:
        named["groups"] = _groups_of(people, named)
    for name in people.columns:
        new = named["treatment"] if name == "arm" and is_assignment else name
        wanted = is_assignment or name in ("score", "uplift") or name.startswith("uplift ")
        if wanted and new not in frame.columns and name != "chosen":
            frame[new] = people[name].iloc[place].set_axis(frame.index).where(place >= 0)
    return frame, n_others, n_absent


def _groups_of(people: pd.DataFrame, named: Mapping[str, Any]) -> str | None:
    """The column by which ``assign`` kept people together: the one that is not its own."""
    known = {*_OWN_COLUMNS, *(named[n] for n in ("id", "treatment", "outcome"))}
    for name in map(str, people.columns):
        if name in known or name.startswith(("chance ", "uplift ")):
            continue
        own = people[name]
        together = own.notna().all() and own.duplicated().any()
        if together and people.groupby(name)["arm"].nunique().max() == 1:
            return name
    return None


def _chosen_codes(column: pd.Series, arms: tuple[str, ...]) -> Codes:
    """(n,) the chosen arm of each row, by labels or, with one arm, by yes and no."""
    codes, values = pd.factorize(column)
    texts = [arm_text(value) for value in values]
    place = {label: k for k, label in enumerate(arms)}
    if len(arms) == 2 and not set(texts) <= set(arms):
        lower = {text.lower() for text in texts}
        pair = next((pair for pair in NO_AND_YES if lower <= set(pair)), None)
        if pair is not None:
            place = {text: int(text.lower() == pair[1]) for text in texts}
    if unknown := [text for text in texts if text not in place]:
        raise InputError(
            "chosen", f"arms of the campaign, {listed(arms)}, or 0 and 1 for one arm",
            listed(unknown), "Write labels as in the treatment.",
        )  # fmt: skip
    return np.array([place[text] for text in texts], dtype=np.intp)[codes]


def _cells(
    codes: Codes,
    frame: pd.DataFrame,
    propensity: str | None,
    is_assignment: bool,
    arms: tuple[str, ...],
) -> tuple[Codes, list[tuple[float, ...]], list[str]]:
    """The cell of each row, its key (chosen arm, propensities of the arms), and the columns."""
    word = propensity or ("propensity" if len(arms) == 2 else "chance")
    names = [word] if len(arms) == 2 else [f"{word} {label}" for label in arms[1:]]
    if propensity is None and not (is_assignment and set(names) <= set(frame.columns)):
        names = [] if not set(names) <= set(frame.columns) or len(arms) == 2 else names
    check_names(frame, names)
    columns = [check_column(frame[name].to_numpy(), f"the propensity {name!r}") for name in names]
    chances = np.round(columns, _DIGITS)
    if names and (chances.min() < 0 or chances.sum(axis=0).max() > 1 + 1e-6):
        raise InputError(
            "propensity", "between 0 and 1", f"{chances.min():g} to {chances.max():g}",
            "Write .9 for 90 per cent.",
        )  # fmt: skip
    keys, cell = np.unique(np.column_stack([codes, *chances]), axis=0, return_inverse=True)
    if len(keys) > _MOST_CELLS:
        raise InputError(
            "propensity", f"at most {_MOST_CELLS} different values among the chosen arms",
            f"{len(keys):,}", "Pass those that `auucmax assign` wrote.",
        )  # fmt: skip
    return cell.ravel().astype(np.intp), [tuple(map(float, key)) for key in keys], names


# The check


def _drawn(groups: NDArray[Any] | None, cell: Codes, arm: Codes) -> Codes:
    """Places of one row of each draw: the first of each group, or all if people were drawn."""
    if groups is None:
        return np.arange(len(arm))
    codes, found, expected = pd.factorize(groups)[0], 0.0, 0.0
    for number in np.unique(cell):
        own = cell == number
        variation = within_clusters(pd.factorize(codes[own])[0], arm[own])
        found, expected = found + variation.found, expected + variation.expected
    if expected > 0 and found >= BY_CLUSTER * expected:
        return np.arange(len(arm))
    return np.flatnonzero(~pd.Series(codes).duplicated().to_numpy())


def _missing_counts(
    missing: Bools, cell: Codes, arm: Codes, groups: NDArray[Any] | None, shape: tuple[int, int]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """(cells, arms) rows without an outcome and with one, one of each draw."""
    ours = np.flatnonzero(arm >= 0)
    first = ours[_drawn(None if groups is None else groups[ours], cell[ours], arm[ours])]
    place = cell * shape[1] + arm
    counts = [
        np.bincount(place[first][own], minlength=shape[0] * shape[1]).reshape(shape)
        for own in (missing[first], ~missing[first])
    ]
    return counts[0], counts[1]


def _check(campaign: _Campaign, model: UpliftModel | None) -> tuple[CellTest, ...]:
    """Tests in each cell of counts against propensities, of lost outcomes, and of features."""
    found: list[tuple[str, int, float]] = []
    arm, n_arms = campaign.trial.arm, len(campaign.arms)
    first = _drawn(campaign.groups, campaign.cell, arm)
    if campaign.propensity is not None:
        for number, chance in enumerate(campaign.propensity):
            sure = bool(np.isclose(chance, 1).any())  # nothing was left to chance
            rows = np.arange(len(arm)) if sure else first
            own = arm[rows[campaign.cell[rows] == number]]
            if len(own):
                counts = np.bincount(own, minlength=n_arms)
                found.append(("propensity", number, _counts_p(counts, chance)))
    for number, (lost, kept) in enumerate(zip(campaign.lost, campaign.kept, strict=True)):
        there = np.flatnonzero(lost + kept)
        if lost.any() and len(there) > 1:
            table = np.column_stack([lost, kept])[there]
            p_values = [equal_shares(np.stack([table[0], own])) for own in table[1:]]
            found.append(("missing outcomes", number, float(holm(np.array(p_values)).min())))
    found += _balance(campaign, model)
    adjusted = holm(np.array([p for _, _, p in found]))
    tests = tuple(
        CellTest(what=what, cell=campaign.name(number), p_value=float(p))
        for (what, number, _), p in zip(found, adjusted, strict=True)
    )
    worst = min(tests, key=lambda test: test.p_value, default=None)
    if worst is not None and worst.p_value < _STOPS:
        raise FailedCheckError(
            f"arms should have been given by chance within {worst.cell}, and were not (test of "
            f"{worst.what}, corrected p < 0.0001). Find out how people were assigned, and what was "
            f"recorded."
        )
    return tests


def _counts_p(counts: Codes, chance: Floats) -> float:
    """The p-value of the counts of arms: exact for each arm, corrected for all."""
    from scipy.stats import binomtest

    n = int(counts.sum())
    p_values = [
        float(binomtest(int(own), n, float(p)).pvalue)
        for own, p in zip(counts, np.clip(chance, 0, 1), strict=True)
        if p > 0 or own
    ]
    # With two arms, one says it all.
    return float(holm(np.array(p_values[-1:] if len(p_values) == 2 else p_values)).min(initial=1.0))


def _balance(campaign: _Campaign, model: UpliftModel | None) -> list[tuple[str, int, float]]:
    """Features, or scores, of the arms of each cell that has many rows of each."""
    frame = campaign.frame
    if model is not None and set(model.roles.features) <= set(frame.columns):
        features = frame[list(model.roles.features)]
    else:
        score, uplift = _known_uplifts(campaign, None)
        known = score[:, None] if score is not None else uplift
        if known is None:
            return []
        features = pd.DataFrame(known, index=frame.index).rename(columns=str)
    found, names = [], np.array(campaign.arms, dtype=object)
    for number in range(len(campaign.cell_chosen)):
        rows = campaign.cell == number
        own = features[rows]
        if own.isna().all(axis=1).any() or campaign.means.counts[number].min() < _FEWEST:
            continue  # a list of `target` knows nothing of people who are not in it
        groups = None if campaign.groups is None else campaign.groups[rows]
        trial = Trial(
            own.reset_index(drop=True), campaign.trial.benefit[rows],
            names[campaign.trial.arm[rows]], control=campaign.arms[0], groups=groups,
        )  # fmt: skip
        p_values = [test.adjusted_p_value for test in check_randomisation(trial).tests]
        if p_values:
            found.append(("balance", number, float(min(p_values))))
    return found
