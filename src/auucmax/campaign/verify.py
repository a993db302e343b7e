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
from auucmax.campaign.contrasts import CellMeans, minus, scaled
from auucmax.certificates.strata import GroupsError, strata_bounds
from auucmax.data import FailedCheckError, Trial, check_randomisation
from auucmax.data.balance import equal_shares, holm
from auucmax.data.randomisation import BY_CLUSTER, within_clusters
from auucmax.data.read_trial import id_texts, read_trial
from auucmax.data.reading import table_of
from auucmax.data.roles import NO_AND_YES, check_names
from auucmax.encoding.kinds import arm_text
from auucmax.model import UpliftModel
from auucmax.model.guarantee import counted_range
from auucmax.results import Estimate, Missing, Result, Roles, State, Why
from auucmax.targeting.costs import arm_costs
from auucmax.targeting.rule import at

Codes = NDArray[np.intp]
_CHOSEN = "auucmax_chosen"
_MOST_CELLS = 20
_DIGITS = 6  # propensities that agree in so many are one
_FEWEST = 50  # rows of each arm of a cell whose features are compared
_STOPS = 1e-4  # corrected p-value, as in check_randomisation


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
    """Rows with an outcome: chosen and given arms, and cells.

    ``cells`` has the key of each cell: the number of the chosen arm and, if they are known, the
    propensities of the arms but the control. ``lost`` and ``kept`` (cells, A): rows without an
    outcome and with one, each group by its first row.
    """

    trial: Trial
    frame: pd.DataFrame
    chosen: Codes
    cell: Codes
    cells: tuple[tuple[float, ...], ...]
    lost: NDArray[np.intp]
    kept: NDArray[np.intp]
    n_not_in_list: int
    n_absent: int

    @property
    def arms(self) -> tuple[str, ...]:
        return self.trial.roles.arms

    @cached_property
    def groups(self) -> Codes | None:
        own = self.trial.groups
        return None if own is None else pd.factorize(own)[0].astype(np.intp)

    @cached_property
    def means(self) -> CellMeans:
        y, arm = self.trial.benefit, self.trial.arm
        return CellMeans.of(y, arm, self.cell, self.groups, len(self.cells), len(self.arms))

    @cached_property
    def cell_chosen(self) -> Codes:
        """(cells,) the chosen arm."""
        return np.array([key[0] for key in self.cells], dtype=np.intp)

    def describe(self, cell: int) -> Cell:
        chosen, *propensity = self.cells[cell]
        known = round(sum(propensity), _DIGITS) if propensity else None
        return Cell(chosen=self.arms[int(chosen)], propensity=known)

    def lacking(self, coefficients: Floats) -> Lacking | None:
        """The first mean that a contrast needs and that nobody has."""
        found = np.argwhere((coefficients != 0) & (self.means.counts == 0))
        if not len(found):
            return None
        cell, arm = found[0].tolist()
        return Lacking(cell=self.describe(cell), arm=self.arms[arm])


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
    campaign = _read(table, people, chosen, propensity, model, named)
    tests = _check(campaign, model)
    arms, n_rows, each = campaign.arms, campaign.trial.n_rows, np.eye(len(campaign.arms))
    counts = campaign.means.counts.astype(np.float64)
    sizes, own = counts.sum(axis=1), each[campaign.cell_chosen]
    given = np.hstack([-counts[:, 1:].sum(axis=1, keepdims=True), counts[:, 1:]])
    policy = sizes @ own
    contrasts: dict[tuple[Against, str | None], Floats] = {
        (Against.AS_RUN, None): given,
        (Against.NOBODY, None): sizes[:, None] * (own - each[0]),
        (Against.RANDOM, None): sizes[:, None] * (own - policy / sizes.sum()),
    }
    # People who would get each arm more often than with the alternative, which costs money.
    more = [counts.sum(axis=0), policy, np.zeros(len(arms))]
    for k, label in enumerate(arms[1:], start=1):
        contrasts[Against.EVERYONE, label] = sizes[:, None] * (own - each[k])
        more.append(policy - n_rows * each[k])
    prices = None if cost is None else np.array([0.0, *arm_costs(cost, arms[1:])])
    found = []
    for (against, arm), coefficients, n_more in zip(
        contrasts, contrasts.values(), more, strict=True
    ):
        lacking, gain, profit = campaign.lacking(coefficients), None, None
        if lacking is None:
            gain = campaign.means.contrast(coefficients, level)
            if prices is not None and value is not None:
                profit = scaled(gain, value, -float(n_more @ prices))
        found.append(
            Comparison(against=against, arm=arm, gain=gain, lacking=lacking, profit=profit)
        )
    comparisons, size, why = _certified(
        campaign, found, [*contrasts.values()], delta, largest_group, random_state
    )
    ranking = comparisons[2].gain
    is_chosen = campaign.chosen > 0
    return Verification(
        roles=campaign.trial.roles,
        state=_state(comparisons[0]),
        n_people=n_rows,
        chosen=tuple(np.bincount(campaign.chosen, minlength=len(arms)).tolist()),
        given=tuple(np.bincount(campaign.trial.arm, minlength=len(arms)).tolist()),
        n_chosen_treated=int((is_chosen & (campaign.trial.arm > 0)).sum()),
        level=level,
        delta=delta,
        comparisons=comparisons,
        forecast=_forecast(campaign, given, level, model),
        ranking=None if ranking is None else scaled(ranking, 1 / int(is_chosen.sum())),
        tests=tests,
        n_not_in_list=campaign.n_not_in_list,
        n_absent=campaign.n_absent,
        n_without_outcome=int(campaign.lost.sum()),
        has_propensity=len(campaign.cells[0]) > 1,
        largest_group=size,
        certificate_missing=why,
    )


def _state(one: Comparison) -> State:
    """The first that holds: harm, guaranteed, significant, unclear."""
    gain = one.gain
    if gain is None:
        return State.UNKNOWN
    upper = one.certified_upper if gain.upper is None else gain.upper
    if upper is not None and upper < 0:
        return State.HARM
    if one.certified_lower is not None and one.certified_lower > 0:
        return State.GUARANTEED
    return State.SIGNIFICANT if gain.lower is not None and gain.lower > 0 else State.UNCLEAR


def _certified(
    campaign: _Campaign,
    found: list[Comparison],
    contrasts: list[Floats],
    delta: float,
    largest_group: int | None,
    random_state: int,
) -> tuple[tuple[Comparison, ...], int | None, Missing | None]:
    """The comparisons with certified ends, the size of groups they hold for, or why not."""
    trial = campaign.trial
    counted = counted_range(trial)
    some = [k for k, one in enumerate(found) if one.gain is not None and contrasts[k].any()]
    if isinstance(counted, Missing) or not some:
        return tuple(found), None, counted if isinstance(counted, Missing) else None
    try:
        bounds = strata_bounds(
            np.clip(trial.benefit, *counted), treatment=trial.arm, stratum=campaign.cell,
            groups=campaign.groups, outcome_range=counted, largest_group=largest_group,
            weights=np.stack([contrasts[k] for k in some]), delta=delta,
            random_state=random_state,
        )  # fmt: skip
    except GroupsError:
        pairs = np.stack([campaign.groups, campaign.cell, trial.arm])  # type: ignore[list-item]
        mixed = len(np.unique(pairs, axis=1).T) > len(np.unique(pairs[0]))
        why = Missing(why=Why.MIXED_GROUPS if mixed else Why.GROUPS)
        return tuple(found), None, why
    # Contrasts without coefficients are 0 for sure.
    ends = {k: (0.0, 0.0) for k, one in enumerate(found) if one.gain is not None}
    ends |= dict(zip(some, zip(bounds.lower, bounds.upper, strict=True), strict=True))
    certified = list(found)
    for k, both in ends.items():
        lower, upper = (float(end) if np.isfinite(end) else None for end in both)
        certified[k] = replace(found[k], certified_lower=lower, certified_upper=upper)
    return tuple(certified), bounds.largest_group, None


# The forecast


def _forecast(
    campaign: _Campaign, given: Floats, level: float, model: UpliftModel | None
) -> Forecast | None:
    """The forecast of all who were treated, or of the chosen among them if no more is known."""
    if model is not None and model.evidence.failed_check:
        return None
    score, uplift = _known_uplifts(campaign, model)
    z = float(ndtri((1 + level) / 2))
    harmed = False
    for all_treated in (True, False):
        cells = np.ones(len(campaign.cells), bool) if all_treated else campaign.cell_chosen > 0
        own = given * cells[:, None]
        if campaign.lacking(own) is not None or not own.any():
            continue
        realised = campaign.means.contrast(own, level)
        harmed = harmed or (realised.upper is not None and realised.upper < 0)
        rows = (campaign.trial.arm > 0) & cells[campaign.cell]
        found = _by_trial(campaign, model, score, rows)
        by_trial = found is not None
        if found is None:
            found = _by_uplifts(campaign, model, uplift, rows)
        if found is None:
            continue
        total, se = found
        forecast = Estimate(value=total, se=se, lower=total - z * se, upper=total + z * se)
        return Forecast(
            forecast=forecast,
            realised=realised,
            difference=minus(realised, forecast),
            verdict=ForecastVerdict.HARM if harmed else verdict_on(realised, forecast),
            all_treated=all_treated,
            by_trial=by_trial,
        )
    return None


def verdict_on(realised: Estimate, forecast: Estimate) -> ForecastVerdict | None:
    """The verdict on a forecast from other rows than the gain; None if it was 0 or less.

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
    if realised.lower is None:
        return ForecastVerdict.TOO_NOISY
    below = minus(realised, forecast).upper
    if below is not None and below < 0:
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

    def listed_numbers(columns: list[str]) -> Floats | None:
        if not {*columns} <= {*frame.columns} - {*used}:
            return None
        return frame[columns].apply(pd.to_numeric, errors="coerce").to_numpy(dtype=np.float64)

    uplift, score = listed_numbers(names), listed_numbers(["score"])
    score = score[:, 0] if score is not None and len(arms) == 1 else None
    if model is not None and {*model.columns} <= {*frame.columns}:
        scores = model.scores(frame)
        score = scores[:, 0] if len(arms) == 1 else None
        if uplift is None and {*arms} <= {*model.arms}:
            uplift = model.uplift_of(scores)[:, [model.arms.index(label) for label in arms]]
    elif model is not None and uplift is None and score is not None:
        uplift = model.scorers[0].calibration(score)[:, None]
    return score, uplift


def _effect(model: UpliftModel, k: int, share: float) -> tuple[float, float, bool]:
    """The effect on a person in the top share of the trial, its error, and whether it is known."""
    curve = model.evidence.arms[k].curve
    _, gain, lower, _ = at(curve, share)
    se = float(np.interp(share, curve.spend, curve.se))
    return gain / share, se / share, bool(np.isfinite(lower))


def _by_trial(
    campaign: _Campaign, model: UpliftModel | None, score: Floats | None, rows: Bools
) -> tuple[float, float] | None:
    """What as many of the trial's people gained, of the top share and of the rest; and its error.

    None if the chosen are no top share, or the treated are no random part of either.
    """
    chosen = campaign.chosen > 0
    n_cells = int((campaign.cell_chosen > 0).sum())
    if model is None or score is None or n_cells > 1 or len(campaign.cells) - n_cells > 1:
        return None
    if not np.isfinite(score[chosen]).all():
        return None
    lowest = float(score[chosen].min())
    share = 1.0
    if not chosen.all():
        if (score[~chosen] > lowest).any():
            return None
        tied = score == lowest
        share = model.scorers[0].quantiles.share_of(lowest, float(chosen[tied].mean()))
    if share <= 0:
        return None
    effect, error, is_known = _effect(model, 0, share)
    n_top, n_rest = int((rows & chosen).sum()), int((rows & ~chosen).sum())
    if not is_known or (n_rest and share >= 1):
        return None
    if n_rest == 0:
        return n_top * effect, n_top * error
    # The rest of the trial are other rows, with no larger variance than the whole.
    whole, whole_error, _ = _effect(model, 0, 1.0)
    total = n_top * effect + n_rest * (whole - share * effect) / (1 - share)
    return total, float(np.hypot(n_top * error, n_rest * whole_error / (1 - share)))


def _by_uplifts(
    campaign: _Campaign, model: UpliftModel | None, uplift: Floats | None, rows: Bools
) -> tuple[float, float] | None:
    """The sum of the uplifts of what people got, and a rough error from the trial's curves."""
    if uplift is None:
        return None
    arm = campaign.trial.arm[rows]
    total, squares = float(uplift[rows, arm - 1].sum()), 0.0
    if not np.isfinite(total):
        return None
    for own, n in zip(*np.unique(arm, return_counts=True), strict=True):
        label = campaign.arms[own]
        if model is None or label not in model.arms:
            return total, 0.0
        _, error, _ = _effect(model, model.arms.index(label), n / campaign.trial.n_rows)
        squares += (n * error) ** 2
    return total, float(np.sqrt(squares))


# Reading


def _read(
    table: Any,
    people: Any,
    chosen: str | None,
    propensity: str | None,
    model: UpliftModel | None,
    named: dict[str, Any],
) -> _Campaign:
    frame = table_of(table).copy(deep=False)
    people = None if people is None else table_of(people)
    is_assignment = people is not None and "chosen" in people.columns
    if people is not None and "rule" in people.columns and not is_assignment:
        raise InputError(
            "people", "a list of people whom a model chose",
            "one of a trial, assigned without a model", "Use fit or evaluate for a trial.",
        )  # fmt: skip
    if (chosen is None) == (people is None):
        got = "neither" if chosen is None else "both"
        raise InputError("chosen", "given, or people, but not both", got, "Pass one of them.")
    if model is not None:
        named = _as_fitted(named, model, frame)
    elif is_assignment and named["treatment"] is None:
        named["treatment"] = "arm"
    n_others = n_absent = 0
    if people is not None:
        frame, n_others, n_absent = _with_list(frame, people, named, is_assignment)
    elif chosen is not None:
        check_names(frame, [chosen])
        frame[_CHOSEN] = frame[chosen]
    if n_missing := int(frame[_CHOSEN].isna().sum()):
        raise InputError(
            "chosen", "known for every row", f"nothing in {n_missing:,} rows",
            "Write the control, or 0, for people who were not chosen.",
        )  # fmt: skip
    for name in ("treatment", "outcome"):
        if named[name] is None:
            raise InputError(name, "the name of a column", "none", "Name it, or pass a model.")
    trial = read_trial(frame, **named, features=[_CHOSEN])
    arms, place = trial.roles.arms, trial.place
    codes = _chosen_codes(frame[_CHOSEN], arms)
    if not (codes > 0).any():
        raise InputError("chosen", "an arm for somebody", "none", "Check the column or the list.")
    cell, keys = _cells(codes, frame, propensity, is_assignment, arms)
    # Rows of all arms, with and without an outcome, are in cells.
    arm = pd.Index(arms).get_indexer(pd.Index(frame[trial.roles.treatment].map(arm_text)))
    ours = np.flatnonzero(arm >= 0)
    own = None if trial.roles.groups is None else frame[trial.roles.groups].to_numpy()[ours]
    first = ours[_drawn(own, cell[ours], arm[ours])]
    missing = frame[trial.roles.outcome.name].isna().to_numpy(dtype=bool)[first]
    counts = np.zeros((2, len(keys), len(arms)), dtype=np.intp)
    np.add.at(counts, (missing.astype(int), cell[first], arm[first]), 1)
    found = _Campaign(
        trial=trial,
        frame=frame.iloc[place],
        chosen=codes[place],
        cell=cell[place],
        cells=keys,
        lost=counts[1],
        kept=counts[0],
        n_not_in_list=n_others,
        n_absent=n_absent,
    )
    if ((found.means.counts > 0).sum(axis=1) < 2).all():
        raise InputError(
            "table", "some of the chosen untreated, or some of the others treated, at random",
            "neither",
            "Next time keep a random part of the list untreated and treat a random part of the "
            "others: auucmax assign --model MODEL --share .3 --explore .1.",
        )  # fmt: skip
    return found


def _as_fitted(named: dict[str, Any], model: UpliftModel, frame: pd.DataFrame) -> dict[str, Any]:
    """Columns and labels as given, otherwise those of the model."""
    own = model.roles
    known = {"outcome": own.outcome.name, "lower_is_better": own.outcome.lower_is_better}
    for name, value in known.items():
        if named[name] and named[name] != value:
            raise InputError(
                name, f"{value!r}, as the model was fitted", repr(named[name]), "Leave it out."
            )
    known |= {
        "groups": own.groups,
        "outcome_range": own.outcome.range,
        "id": own.id if own.id in frame.columns else None,
    }
    if named["treatment"] in (None, own.treatment):
        known |= {
            "treatment": own.treatment, "control": own.arms[0], "treated": list(own.arms[1:])
        }  # fmt: skip
    return named | {name: value for name, value in known.items() if not named[name]}


def _with_list(
    frame: pd.DataFrame, people: pd.DataFrame, named: dict[str, Any], is_assignment: bool
) -> tuple[pd.DataFrame, int, int]:
    """The rows with what a list says about them: rows not in it, and people of it not in rows.

    People who are not in a list of ``target`` were not chosen; those who are not in one of
    ``assign`` are left out.
    """
    id, control = named["id"], named["control"]
    if id is None:
        raise InputError("id", "given with people", "none", "Name the column of ids in both.")
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
    in_list = place >= 0
    n_absent = len(people) - len(np.unique(place[in_list]))

    def column(name: str) -> pd.Series:
        return people[name].iloc[place].set_axis(frame.index)

    if is_assignment:
        frame[_CHOSEN] = column("chosen")
        second = str(people.columns[1])  # `assign` writes the id and the group first
        if named["groups"] is None and second != "arm":
            named["groups"] = second
    elif "arm" in people.columns and (people["arm"].nunique() > 1 or control is not None):
        none = "0" if control is None else control
        frame[_CHOSEN] = column("arm").astype(object).where(in_list, none)
    else:
        frame[_CHOSEN] = in_list.astype(int)
    for name in map(str, people.columns):
        new = named["treatment"] if name == "arm" and is_assignment else name
        wanted = is_assignment or name == "score" or name.startswith("uplift")
        if wanted and name != "chosen" and new not in frame.columns:
            frame[new] = column(name).where(in_list)
    return frame, n_others, n_absent


def _chosen_codes(column: pd.Series, arms: tuple[str, ...]) -> Codes:
    """(n,) the chosen arm of each row, by labels or, with one arm, by yes and no."""
    codes, values = pd.factorize(column)
    texts = [arm_text(value) for value in values]
    place = {label: k for k, label in enumerate(arms)}
    if len(arms) == 2 and not {*texts} <= {*arms}:
        lower = {text.lower() for text in texts}
        pair = next((pair for pair in NO_AND_YES if lower <= {*pair}), None)
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
) -> tuple[Codes, tuple[tuple[float, ...], ...]]:
    """The cell of each row, and the keys of the cells: chosen arm, propensities of the arms."""
    word = propensity or ("propensity" if len(arms) == 2 else "chance")
    names = [word] if len(arms) == 2 else [f"{word} {label}" for label in arms[1:]]
    if propensity is None and not (
        {*names} <= {*frame.columns} and (is_assignment or len(arms) > 2)
    ):
        names = []
    check_names(frame, names)
    columns = [check_column(frame[name].to_numpy(), f"the propensity {name!r}") for name in names]
    chances = np.round(np.reshape(columns, (len(names), len(codes))), _DIGITS)
    if names and (chances.min() < 0 or chances.sum(axis=0).max() > 1 + 1e-6):
        raise InputError(
            "propensity", "between 0 and 1", f"{chances.min():g} to {chances.max():g}",
            "Write .9 for 90%.",
        )  # fmt: skip
    # Certificates are drawn in this order: with one arm the chosen come first.
    order = -1 if len(arms) == 2 else 1
    keys, cell = np.unique(np.column_stack([order * codes, *chances]), axis=0, return_inverse=True)
    keys[:, 0] *= order
    if len(keys) > _MOST_CELLS:
        raise InputError(
            "propensity", f"at most {_MOST_CELLS} different values among the chosen arms",
            f"{len(keys):,}", "Pass those that `auucmax assign` wrote.",
        )  # fmt: skip
    return cell.ravel().astype(np.intp), tuple(map(tuple, keys.tolist()))


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


def _check(campaign: _Campaign, model: UpliftModel | None) -> tuple[CellTest, ...]:
    """Tests in each cell of counts against propensities, of lost outcomes, and of features."""
    found: list[tuple[CellCheck, int, float]] = []
    arm, n_arms = campaign.trial.arm, len(campaign.arms)
    first = _drawn(campaign.groups, campaign.cell, arm)
    features = _features(campaign, model)
    for number, (_, *own) in enumerate(campaign.cells):
        if own:
            chance = np.clip([1 - sum(own), *own], 0, 1)
            # All rows of a cell where nothing is random, otherwise one of each draw.
            rows = np.arange(len(arm)) if np.isclose(chance, 1).any() else first
            counts = np.bincount(arm[rows[campaign.cell[rows] == number]], minlength=n_arms)
            if counts.any():
                found.append((CellCheck.PROPENSITY, number, _counts_p(counts, chance)))
    for number, (lost, kept) in enumerate(zip(campaign.lost, campaign.kept, strict=True)):
        there = np.flatnonzero(lost + kept)
        if lost.any() and len(there) > 1:
            table = np.column_stack([lost, kept])[there]
            p_values = [equal_shares(np.stack([table[0], own])) for own in table[1:]]
            p_value = float(holm(np.array(p_values)).min())
            found.append((CellCheck.MISSING_OUTCOMES, number, p_value))
    for number in range(len(campaign.cells)):
        if features is None:
            break
        rows = campaign.cell == number
        own = features[rows]
        if own.isna().all(axis=1).any() or campaign.means.counts[number].min() < _FEWEST:
            continue  # a list of `target` knows nothing of people who are not in it
        trial = Trial(
            own.reset_index(drop=True), campaign.trial.benefit[rows],
            np.array(campaign.arms, dtype=object)[arm[rows]], control=campaign.arms[0],
            groups=None if campaign.groups is None else campaign.groups[rows],
        )  # fmt: skip
        p_values = [test.adjusted_p_value for test in check_randomisation(trial).tests]
        if p_values:
            found.append((CellCheck.BALANCE, number, float(min(p_values))))
    adjusted = holm(np.array([p for _, _, p in found]))
    tests = tuple(
        CellTest(what=what, cell=campaign.describe(number), p_value=float(p))
        for (what, number, _), p in zip(found, adjusted, strict=True)
    )
    worst = min(tests, key=lambda test: test.p_value, default=None)
    if worst is not None and worst.p_value < _STOPS:
        raise FailedCheckError(
            f"arms should be random among people with the chosen arm {worst.cell.chosen!r}, but a "
            f"test of the {worst.what} fails (corrected p < 0.0001). Find out how people were "
            f"assigned, and what was recorded."
        )
    return tests


def _counts_p(counts: Codes, chance: Floats) -> float:
    """The p-value of the counts of arms: exact for each arm, corrected for all."""
    from scipy.stats import binomtest

    n = int(counts.sum())
    p_values = [
        float(binomtest(int(own), n, float(p)).pvalue)
        for own, p in zip(counts, chance, strict=True)
        if p > 0 or own
    ]
    # The counts of two arms are one number.
    return float(holm(np.array(p_values[-1:] if len(p_values) == 2 else p_values)).min(initial=1.0))


def _features(campaign: _Campaign, model: UpliftModel | None) -> pd.DataFrame | None:
    """The features of the model, or else the scores or uplifts of the list."""
    if model is not None and {*model.roles.features} <= {*campaign.frame.columns}:
        return campaign.frame[list(model.roles.features)]
    score, uplift = _known_uplifts(campaign, None)
    known = score[:, None] if score is not None else uplift
    if known is None:
        return None
    return pd.DataFrame(known, index=campaign.frame.index).rename(columns=str)
