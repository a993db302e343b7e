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

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import binomtest

from auucmax._errors import InputError
from auucmax._validation import Floats, check_column, check_level, listed
from auucmax.campaign.contrasts import CellMeans, minus, scaled
from auucmax.certificates.strata import GroupsError, strata_bounds
from auucmax.data import FailedCheckError, Trial, check_randomisation
from auucmax.data.balance import equal_shares, holm
from auucmax.data.randomisation import varies_within
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
    RANDOM = "random"  #: against the same arms for random people: above 0 if scores still rank
    EVERYONE = "everyone"  #: against one arm for everyone


class Cell(Result):
    """People with the same chosen arm and the same probability of any treatment, if it is known.

    ``given``: how many of them got each arm, the control first. ``p_values``: of the tests of
    randomisation within the cell ("propensity", "missing outcomes", "balance"), corrected for all
    tests of all cells.
    """

    chosen: str
    propensity: float | None
    given: tuple[int, ...]
    p_values: dict[str, float]


class Comparison(Result):
    """A gain of the campaign in outcomes of all its people, as a benefit.

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


class Forecast(Result):
    """The forecast for the people who were treated, their gain, and the verdict.

    ``all_treated``: whether it covers all who were treated, or only the chosen among them.
    ``verdict`` is None if the forecast is 0 or less and no harm is significant.
    """

    forecast: Estimate
    realised: Estimate
    difference: Estimate
    verdict: ForecastVerdict | None
    all_treated: bool


class Verification(Result):
    """What :func:`verify` found.

    Attributes
    ----------
    roles : how the table was read; ``roles.arms[0]`` is the control.
    state : whether the campaign as it was run gained: HARM, GUARANTEED, SIGNIFICANT, UNCLEAR, or
        UNKNOWN if its gain is not known.
    cells : the people by chosen arm and propensity. Without known propensities, everyone with one
        chosen arm is assumed to have had the same.
    level, delta : of the intervals, and of each certified end.
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
    certificate_missing: Missing | None = None

    def against(self, name: str, arm: str | None = None) -> Comparison:
        """The comparison of this name, with EVERYONE also of this arm.

        >>> found.against("everyone", "mail").gain  # doctest: +SKIP
        """
        return next(c for c in self.comparisons if (c.against, c.arm) == (name, arm))


@dataclass(frozen=True, eq=False)
class _Campaign:
    """Rows with an outcome, and their cells.

    ``keys`` has a row for each cell: the number of the chosen arm and, if they are known, the
    propensities of the arms but the control. ``assigned`` (cells, A, 2): rows with an outcome and
    without one, each group by its first row.
    """

    trial: Trial
    frame: pd.DataFrame
    keys: Floats
    cell: Codes
    means: CellMeans
    assigned: NDArray[np.intp]
    n_not_in_list: int
    n_absent: int

    @property
    def arms(self) -> tuple[str, ...]:
        return self.trial.roles.arms

    @property
    def chosen(self) -> Codes:
        """(cells,) the chosen arm."""
        return self.keys[:, 0].astype(np.intp)


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
    cells = _checked_cells(campaign, model)
    arms, counts = campaign.arms, campaign.means.counts
    each = np.eye(len(arms))
    sizes, own = counts.sum(axis=1, keepdims=True), each[campaign.chosen]
    given = (
        counts - sizes * each[0]
    )  # in the arms but the control: n_ca; in the control: minus them
    contrasts: list[tuple[Against, str | None, Floats]] = [
        (Against.AS_RUN, None, given),
        (Against.NOBODY, None, sizes * (own - each[0])),
        (Against.RANDOM, None, sizes * (own - (sizes * own).sum(axis=0) / sizes.sum())),
    ]
    for k, label in enumerate(arms[1:], start=1):
        contrasts.append((Against.EVERYONE, label, sizes * (own - each[k])))
    lacking = [np.argwhere((weights != 0) & (counts == 0)) for *_, weights in contrasts]
    known = [k for k, cell in enumerate(lacking) if not len(cell)]
    ends, size, why = _certified(
        campaign, [contrasts[k][2] for k in known], delta, largest_group, random_state
    )
    found = []
    for k, (against, arm, weights) in enumerate(contrasts):
        if k not in known:
            cell, without = lacking[k][0].tolist()
            found.append(Comparison(against=against, arm=arm, lacking=(cell, arms[without])))
            continue
        gain = campaign.means.contrast(weights, level)
        lower, upper = ends[known.index(k)]
        profit = None
        if cost is not None and value is not None:
            # People who get each arm more often than with the alternative.
            spent = float(weights.sum(axis=0)[1:] @ arm_costs(cost, arms[1:]))
            profit = scaled(gain, value, -spent)
        found.append(
            Comparison(
                against=against, arm=arm, gain=gain, certified_lower=lower, certified_upper=upper,
                profit=profit,
            )
        )  # fmt: skip
    return Verification(
        roles=campaign.trial.roles,
        state=_state(found[0]),
        cells=cells,
        level=level,
        delta=delta,
        comparisons=tuple(found),
        forecast=_forecast(campaign, given, level, model),
        n_not_in_list=campaign.n_not_in_list,
        n_absent=campaign.n_absent,
        n_without_outcome=int(campaign.assigned[..., 1].sum()),
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
    contrasts: list[Floats],
    delta: float,
    largest_group: int | None,
    random_state: int,
) -> tuple[list[tuple[float | None, float | None]], int | None, Missing | None]:
    """Certified ends of each contrast, the size of groups they hold for, or why there are none."""
    trial, groups = campaign.trial, campaign.means.groups
    counted = counted_range(trial)
    none: list[tuple[float | None, float | None]] = [(None, None)] * len(contrasts)
    some = [k for k, weights in enumerate(contrasts) if weights.any()]
    if isinstance(counted, Missing) or not some:
        return none, None, counted if isinstance(counted, Missing) else None
    try:
        bounds = strata_bounds(
            np.clip(trial.benefit, *counted), treatment=trial.arm, stratum=campaign.cell,
            groups=groups, outcome_range=counted, largest_group=largest_group, delta=delta,
            weights=np.stack([contrasts[k] for k in some]), random_state=random_state,
        )  # fmt: skip
    except GroupsError:
        is_mixed = pd.Series(campaign.means.place).groupby(groups).nunique().max() > 1
        return none, None, Missing(why=Why.MIXED_GROUPS if is_mixed else Why.GROUPS)
    ends = dict(
        zip(some, zip(bounds.lower.tolist(), bounds.upper.tolist(), strict=True), strict=True)
    )
    # Contrasts without coefficients are 0 for sure.
    return [ends.get(k, (0.0, 0.0)) for k in range(len(contrasts))], bounds.largest_group, None


# The forecast


def _forecast(
    campaign: _Campaign, given: Floats, level: float, model: UpliftModel | None
) -> Forecast | None:
    """The forecast of all who were treated, or of the chosen among them if no more is known."""
    if model is not None and model.evidence.failed_check:
        return None
    score, uplift = _known_uplifts(campaign, model)
    z = float(ndtri((1 + level) / 2))
    for cells in (np.ones(len(given), dtype=bool), campaign.chosen > 0):
        own = given * cells[:, None]
        arm = np.where(cells[campaign.cell], campaign.trial.arm, 0)
        found = _by_trial(campaign, model, score, arm > 0) or _by_uplifts(
            model, uplift, arm, campaign.arms
        )
        if found is None or not own.any() or ((own != 0) & (campaign.means.counts == 0)).any():
            continue
        total, se = found
        forecast = Estimate(value=total, se=se, lower=total - z * se, upper=total + z * se)
        realised = campaign.means.contrast(own, level)
        return Forecast(
            forecast=forecast,
            realised=realised,
            difference=minus(realised, forecast),
            verdict=verdict_on(realised, forecast),
            all_treated=bool(cells.all()),
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
    """(n,) scores of one arm and (n, A - 1) uplifts, by the model or else of the list."""
    frame, arms = campaign.frame, campaign.arms[1:]
    score = uplift = None
    if model is not None and {*model.columns} <= {*frame.columns}:
        scores = model.scores(frame)
        score = scores[:, 0] if len(model.arms) == 1 else None
        if {*arms} <= {*model.arms}:
            uplift = model.uplift_of(scores)[:, [model.arms.index(label) for label in arms]]
        return score, uplift
    names = ["uplift"] if len(arms) == 1 else [f"uplift {label}" for label in arms]
    known = frame.filter(regex="^(score|uplift)").apply(pd.to_numeric, errors="coerce")
    if {*names} <= {*known}:
        uplift = known[names].to_numpy(dtype=np.float64)
    if "score" in known and len(arms) == 1:
        score = known["score"].to_numpy(dtype=np.float64)
        if uplift is None and model is not None:
            uplift = model.scorers[0].calibration(score)[:, None]
    return score, uplift


def _in_trial(model: UpliftModel, k: int, share: float) -> tuple[float, float]:
    """The gain of an arm for the top share of the trial, per person of it; and its error."""
    curve = model.evidence.arms[k].curve
    return at(curve, share)[1] / share, float(np.interp(share, curve.spend, curve.se)) / share


def _by_trial(
    campaign: _Campaign, model: UpliftModel | None, score: Floats | None, treated: NDArray[np.bool_]
) -> tuple[float, float] | None:
    """What as many of the trial's people gained, of the top share and of the rest; and its error.

    None if the chosen are no top share, or the treated are no random part of either.
    """
    chosen = campaign.chosen[campaign.cell] > 0
    several = len(np.unique(campaign.chosen)) < len(campaign.keys)
    if model is None or score is None or several or not np.isfinite(score[chosen]).all():
        return None
    lowest = float(score[chosen].min())
    if (score[~chosen] > lowest).any():
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
    model: UpliftModel | None, uplift: Floats | None, arm: Codes, arms: tuple[str, ...]
) -> tuple[float, float] | None:
    """The sum of the uplifts of what people got, and a rough error from the trial's curves."""
    rows = np.flatnonzero(arm)
    total = np.nan if uplift is None else float(uplift[rows, arm[rows] - 1].sum())
    if not np.isfinite(total):
        return None
    errors = [0.0]
    for own, n in zip(*np.unique(arm[rows], return_counts=True), strict=True):
        if model is not None and arms[own] in model.arms:
            k = model.arms.index(arms[own])
            errors.append(n * _in_trial(model, k, n / len(arm))[1])
    return total, float(np.linalg.norm(errors))


# Reading


def _read(
    table: Any,
    people: Any,
    chosen: str | None,
    propensity: str | None,
    model: UpliftModel | None,
    named: dict[str, Any],
) -> _Campaign:
    frame = table_of(table).reset_index(drop=True)
    if (chosen is None) == (people is None):
        got = "neither" if chosen is None else "both"
        raise InputError("chosen", "given, or a list, but not both", got, "Pass one of them.")
    if model is not None:
        named = _as_fitted(named, model, frame)
    is_assigned, left_out = False, (0, 0)
    if people is not None:
        people = table_of(people)
        is_assigned = "chosen" in people
        frame, left_out = _with_list(frame, people, named)
    elif chosen is not None:
        check_names(frame, [chosen])
        frame[_CHOSEN] = frame[chosen]
    trial = read_trial(frame, **named, features=[_CHOSEN])
    arms, roles = trial.roles.arms, trial.roles
    codes = _codes(frame[_CHOSEN], arms)
    if (codes < 0).any() and len(arms) == 2:
        texts = frame[_CHOSEN].map(arm_text).str.lower()
        codes = _codes(texts, next((p for p in NO_AND_YES if {*texts} <= {*p}), arms))
    if (codes < 0).any():
        wrong = frame[_CHOSEN][codes < 0].drop_duplicates().map(arm_text)
        raise InputError(
            "chosen", f"for each row an arm of the campaign, {listed(arms)}, or 0 and 1 for one",
            listed(wrong), "Write labels as in the treatment, and the control for all others.",
        )  # fmt: skip
    cell, keys = _cells(codes, frame, propensity, is_assigned, arms)
    # People were assigned with and without an outcome; groups as a whole, unless arms vary in them.
    arm = _codes(frame[roles.treatment], arms)
    lost = frame[roles.outcome.name].isna().to_numpy(dtype=int)
    drawn = arm >= 0
    if roles.groups is not None:
        unit = frame.groupby([frame[roles.groups], cell]).ngroup().to_numpy()[drawn]
        if not varies_within(unit, arm[drawn]):
            drawn[drawn] = ~pd.Series(unit).duplicated().to_numpy()
    assigned = np.zeros((len(keys), len(arms), 2), dtype=np.intp)
    np.add.at(assigned, (cell[drawn], arm[drawn], lost[drawn]), 1)
    place = trial.place
    groups = None if trial.groups is None else pd.factorize(trial.groups)[0].astype(np.intp)
    means = CellMeans(trial.benefit, trial.arm, cell[place], groups, len(keys), len(arms))
    if not (codes > 0).any() or ((means.counts > 0).sum(axis=1) < 2).all():
        raise InputError(
            "table", "some of the chosen untreated, or some of the others treated, at random",
            "neither",
            "Next time keep a random part of the list untreated and treat a random part of the "
            "others: auucmax assign --model MODEL --share .3 --explore .1.",
        )  # fmt: skip
    return _Campaign(
        trial, frame.iloc[place], keys, cell[place], means, assigned, left_out[0], left_out[1]
    )


def _codes(column: pd.Series, labels: tuple[str, ...]) -> Codes:
    """(n,) the number of each row's label; -1 for others."""
    codes, values = pd.factorize(column, use_na_sentinel=False)
    return pd.Index(labels).get_indexer([arm_text(value) for value in values])[codes]


def _as_fitted(named: dict[str, Any], model: UpliftModel, frame: pd.DataFrame) -> dict[str, Any]:
    """Columns and labels as given, otherwise those of the model."""
    own = model.roles
    known: dict[str, Any] = {
        "outcome": own.outcome.name,
        "lower_is_better": own.outcome.lower_is_better,
        "groups": own.groups,
        "outcome_range": own.outcome.range,
        "id": own.id if own.id in frame.columns else None,
    }
    for name in ("outcome", "lower_is_better"):
        if named[name] and named[name] != known[name]:
            expected = f"{known[name]!r}, as the model was fitted"
            raise InputError(name, expected, repr(named[name]), "Leave it out.")
    if named["treatment"] in (None, own.treatment):
        known |= {"treatment": own.treatment, "control": own.arms[0], "treated": own.arms[1:]}
    return named | {name: value for name, value in known.items() if not named[name]}


def _with_list(
    frame: pd.DataFrame, people: pd.DataFrame, named: dict[str, Any]
) -> tuple[pd.DataFrame, tuple[int, int]]:
    """The rows with what a list says about them: rows not in it, and people of it not in rows.

    People who are not in a list of ``target`` were not chosen; those who are not in one of
    ``assign`` are left out.
    """
    id, control = named["id"], named["control"]
    if id is None:
        raise InputError("id", "given with a list", "none", "Name the column of ids in both.")
    check_names(frame, [id])
    check_names(people, [id])
    own, texts = (id_texts(t[id], f"the id {id!r}") for t in (frame, people))
    place = pd.Index(texts).get_indexer_for(own) if len({*texts}) == len(texts) else None
    if place is None or (place < 0).all():
        raise InputError(
            "people", f"people of the table, each once, with {id!r} such as {own[0]!r}",
            f"{len(texts):,} rows of {len({*texts}):,} people, such as {texts[0]!r}",
            "Write ids in the same way, and keep one row of each.",
        )  # fmt: skip
    in_list = place >= 0
    n_absent = len(people) - len(np.unique(place[in_list]))
    n_others = 0
    if "chosen" in people:
        n_others = int((~in_list).sum())
        frame, place = frame[in_list].copy(), place[in_list]
        columns = people.iloc[place].set_axis(frame.index)
        frame[_CHOSEN] = columns.pop("chosen")
        named["treatment"] = named["treatment"] or "arm"
        columns = columns.rename(columns={"arm": named["treatment"]})
        second = str(people.columns[1])  # `assign` writes the id and the group first
        if second != "arm":
            named["groups"] = named["groups"] or second
    else:
        columns = people.iloc[place].set_axis(frame.index)
        frame[_CHOSEN] = in_list.astype(int)
        if "arm" in people and (people["arm"].nunique() > 1 or control is not None):
            frame[_CHOSEN] = columns["arm"].astype(object).where(in_list, control or "0")
        columns = columns.filter(regex="^(score|uplift)")[in_list]
    return frame.join(columns[columns.columns.difference(frame.columns)]), (n_others, n_absent)


def _cells(
    codes: Codes,
    frame: pd.DataFrame,
    propensity: str | None,
    is_assigned: bool,
    arms: tuple[str, ...],
) -> tuple[Codes, Floats]:
    """The cell of each row, and the keys of the cells: chosen arm, propensities of the arms."""
    word = propensity or ("propensity" if len(arms) == 2 else "chance")
    names = [word] if len(arms) == 2 else [f"{word} {label}" for label in arms[1:]]
    if propensity is None and not (is_assigned and {*names} <= {*frame}):
        names = []
    check_names(frame, names)
    columns = [check_column(frame[name].to_numpy(), f"the propensity {name!r}") for name in names]
    chances = np.round(np.reshape(columns, (len(names), len(codes))), _DIGITS)
    # Certificates are drawn in this order: with one arm the chosen come first.
    order = -1 if len(arms) == 2 else 1
    keys, cell = np.unique(np.column_stack([order * codes, *chances]), axis=0, return_inverse=True)
    keys[:, 0] *= order
    total = keys[:, 1:].sum(axis=1)
    if len(keys) > _MOST_CELLS or keys[:, 1:].min(initial=0) < 0 or total.max() > 1 + 1e-6:
        raise InputError(
            "propensity", f"between 0 and 1, at most {_MOST_CELLS} values among the chosen arms",
            f"{len(keys):,} up to {total.max():g}", "Pass those that `auucmax assign` wrote.",
        )  # fmt: skip
    return cell.ravel().astype(np.intp), keys


# The check


def _checked_cells(campaign: _Campaign, model: UpliftModel | None) -> tuple[Cell, ...]:
    """The cells, with tests of counts against propensities, of lost outcomes, and of features."""
    found: list[tuple[int, str, float]] = []
    for k, (assigned, (_, *own)) in enumerate(zip(campaign.assigned, campaign.keys, strict=True)):
        counts = assigned.sum(axis=1)
        if own and counts.any():
            chance = np.clip([1 - sum(own), *own], 0, 1)
            p_values = [
                binomtest(n, int(counts.sum()), p).pvalue
                for n, p in zip(counts.tolist(), chance.tolist(), strict=True)
                if p > 0 or n
            ]
            # The counts of two arms are one number.
            tests = p_values[-1:] if len(p_values) == 2 else p_values
            found.append((k, "propensity", len(tests) * min(tests)))
        there = assigned[counts > 0]
        if assigned[:, 1].any() and len(there) > 1:
            p_values = [equal_shares(there[[0, j]]) for j in range(1, len(there))]
            found.append((k, "missing outcomes", len(p_values) * min(p_values)))
    names = model.roles.features if model is not None else ()
    features = campaign.frame.filter(regex="^(score|uplift)")
    if model is not None and {*names} <= {*campaign.frame}:
        features = campaign.frame[[*names]]
    for k, counts in enumerate(campaign.means.counts):
        rows = campaign.cell == k
        own = features[rows]
        if own.isna().all(axis=1).any() or counts.min() < _FEWEST:
            continue  # a list of `target` knows nothing of people who are not in it
        groups = campaign.means.groups
        trial = Trial(
            own.reset_index(drop=True), campaign.trial.benefit[rows],
            np.array(campaign.arms, dtype=object)[campaign.trial.arm[rows]],
            control=campaign.arms[0], groups=None if groups is None else groups[rows],
        )  # fmt: skip
        tests = [test.adjusted_p_value for test in check_randomisation(trial).tests]
        if tests:
            found.append((k, "balance", min(tests)))
    adjusted = holm(np.array([p for *_, p in found])).tolist()
    cells = []
    for k, (chosen, *own) in enumerate(campaign.keys.tolist()):
        by_test = {what: p for (cell, what, _), p in zip(found, adjusted, strict=True) if cell == k}
        cells.append(
            Cell(
                chosen=campaign.arms[int(chosen)],
                propensity=round(sum(own), _DIGITS) if own else None,
                given=tuple(campaign.means.counts[k].tolist()),
                p_values=by_test,
            )
        )
        for what, p_value in by_test.items():
            if p_value < _STOPS:
                raise FailedCheckError(
                    f"arms should be random among people with the chosen arm {cells[k].chosen!r}, "
                    f"but a test of the {what} fails (corrected p < 0.0001). Find out how people "
                    f"were assigned, and what was recorded."
                )
    return tuple(cells)
