"""``verify_arms``: what a campaign of several arms has gained, each person having got one of them.

The policy gives a person the arm that was chosen, or the control; the campaign gave it with most of
the chance, and each other arm with the rest. A *cell* holds the people for whom the same arm was
chosen, with the same chances. With n_c people and the mean outcome m_ca of arm a in cell c, whose
policy arm is a(c), giving everybody what was chosen brings

    sum of n_c (m_c,a(c) - m_c,control)          more than treating nobody,
    sum of n_c (m_c,a(c) - m_c,b), treated c     more than giving them all one arm b,
    sum of n_c (m_c,a(c) - sum of q_a m_ca)      more than the same arms, q_a each, at random.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._validation import (
    Floats,
    check_column,
    check_groups,
    check_level,
    control_among,
    listed,
)
from auucmax.campaign.campaign import (
    NEXT_TIME,
    Campaign,
    Cell,
    Codes,
    cells_by,
    check_campaign,
    found_places,
    missing_counts,
    with_groups,
)
from auucmax.campaign.drift import DriftTest, drift_tests
from auucmax.campaign.forecast import ForecastVerdict
from auucmax.campaign.verification import (
    BEST_SINGLE,
    LOST,
    LOST_AS_RUN,
    Comparison,
    Verification,
    advice_on,
    as_run,
    certified,
    compared,
    harm_shown,
    promised,
    shared_facts,
)
from auucmax.data.reading import table_of
from auucmax.encoding.frames import frame_of
from auucmax.encoding.kinds import arm_text, outcome_numbers
from auucmax.model import ArmsModel, name_columns
from auucmax.model.columns import check_names, different_values

_NO_FEATURES = (
    "The features of the model are not among the columns: whether the people and their scores are "
    "still those of its trial cannot be told."
)


@dataclass(frozen=True, repr=False)
class ArmsVerification(Verification):
    """What :func:`verify_arms` found; printing it tells all of it, ``to_dict`` gives plain JSON.

    Beside what a :class:`Verification` has:

    Attributes
    ----------
    chosen, given : people for whom each arm was chosen, and who got it, the control first.
    comparisons : "as_run": what the campaign as it was run gained over treating nobody; and what
        the policy gains over "nobody", "random" (the same arms in the same numbers for random
        people), "single LABEL" (one arm for all who got any) and "best single" (the best of these,
        whichever that is).
    promise : the sum of the uplifts of the arms that people got, of the list or of the model,
        against the gain; None if there are none.
    """

    against: ClassVar[Mapping[str, str]] = {
        "as_run": "as run, against treating nobody",
        "nobody": "had all got the chosen arm, against nobody",
        "random": "against the same arms at random",
        BEST_SINGLE: "against the best single",
    }

    chosen: dict[str, int]
    given: dict[str, int]

    @property
    def title(self) -> str:
        """For how many each arm was chosen."""
        control, *arms = self.chosen
        told = ", ".join(f"{arm} for {self.chosen[arm]:,}" for arm in arms)
        return f"{self.n_people:,} people: chosen were {told}, and {control} for others"


def verify_arms(
    table: Any,
    *,
    chosen: str = "chosen",
    propensity: str = "chance",
    treatment: str | None = None,
    outcome: str | None = None,
    control: Any = None,
    id: str | None = None,
    groups: str | None = None,
    largest_group: int | None = None,
    people: Any = None,
    model: ArmsModel | None = None,
    lower_is_better: bool = False,
    drop_missing_outcomes: bool = False,
    outcome_range: tuple[float, float] | None = None,
    level: float = 0.95,
    delta: float = 0.05,
    random_state: int = 0,
) -> ArmsVerification:
    """Say what a campaign of several arms gained, and what that says about its forecast.

    Parameters
    ----------
    table : a row for each person of the campaign, treated or not.
    chosen : column with the arm that was chosen for each, the control for those who were to get
        none. propensity : chances of the arms are in columns of this name and their labels, as
        "chance Mens E-Mail"; without them all for whom the same was chosen had the same.
    people : the list that ``assign`` wrote, which has all these; rows are matched by ``id``. Or
        that of ``target``, whose ``arm`` is the one that was chosen, the control for all others.
    treatment : column of the arm that each person got; ``arm`` of the list by default.
    model : of several arms, that chose: it knows outcome, control and id. Rates and effects, and
        with its features people and scores, are compared with those of its trial.
    control, outcome, groups, largest_group, lower_is_better, drop_missing_outcomes, outcome_range,
        level, delta, random_state : as in :func:`auucmax.campaign.verify`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> arms = np.array(["no", "mail", "call"])
    >>> best = rng.integers(0, 3, 20_000)
    >>> arm = np.where(rng.random(20_000) < 0.8, best, rng.integers(0, 3, 20_000))
    >>> visit = rng.random(20_000) < 0.1 + 0.1 * (arm == best) * (arm > 0)
    >>> table = pd.DataFrame({"chosen": arms[best], "arm": arms[arm], "visit": visit})
    >>> found = verify_arms(table, treatment="arm", outcome="visit", control="no")
    >>> bool(found.comparisons["best single"].certified_lower > 0)
    True
    """
    check_level(level)
    check_level(delta, "delta")
    people = None if people is None else frame_of(people)
    table = table_of(table)
    named = _known_names(model, treatment, outcome, control, id, groups, lower_is_better, people)
    named["control"] = _control(table, people, named)
    campaign = _read(
        table, people, chosen, propensity, named,
        outcome_range=outcome_range or (None if model is None else model.columns.outcome_range),
        drop_missing_outcomes=drop_missing_outcomes,
        model=model,
    )  # fmt: skip
    check = check_campaign(campaign, model)
    own = _coefficients(campaign)
    singles = [name for name in own if name.startswith("single ")]
    found = {name: compared(campaign, name, one, level) for name, one in own.items()}
    found[BEST_SINGLE] = _best(campaign, own, found, singles, level)
    found, certificate = certified(
        campaign, found, own, delta, largest_group, random_state, singles
    )
    reasons = dict.fromkeys(one.unknown for one in found.values() if one.unknown)
    promise = promised(campaign, own["as_run"], level, model)
    # The error of a sum of uplifts is a rough one: to miss it is no reason to change a model.
    telling = (ForecastVerdict.CONFIRMED, ForecastVerdict.HARM)
    kept = promise if promise is not None and promise.verdict in telling else None
    kept = None if kept is not None and kept.is_exceeded else kept
    drift = tuple[DriftTest, ...]()
    if model is not None and not model.warning:
        drift = drift_tests(campaign, model)
    harm = harm_shown(campaign, {LOST: own["nobody"], LOST_AS_RUN: own["as_run"]}, level)
    return ArmsVerification(
        comparisons=found,
        promise=promise,
        drift=drift,
        advice=advice_on(model, drift, kept, found["random"], harm),
        certificate=certificate,
        next_time=_next_time(list(reasons)),
        notes=campaign.notes,
        chosen=_people_by_arm(campaign, campaign.policy),
        given=_people_by_arm(campaign, campaign.arm),
        **shared_facts(campaign, level, delta, check),
    )


def _people_by_arm(campaign: Campaign, arm: Codes) -> dict[str, int]:
    counts = np.bincount(arm, minlength=len(campaign.labels))
    return dict(zip(campaign.labels, counts.tolist(), strict=True))


def _next_time(reasons: Sequence[str]) -> str | None:
    if not reasons:
        return None
    return (
        f"Next time, give everybody each arm with some chance ({'; '.join(reasons)}): {NEXT_TIME}"
    )


def _coefficients(campaign: Campaign) -> dict[str, Floats]:
    """(cells, arms) of each comparison."""
    sizes, each = campaign.sizes.astype(np.float64), np.eye(len(campaign.labels))
    own = each[campaign.cell_policy]
    share = sizes @ own / sizes.sum()
    found = {"as_run": as_run(campaign), "nobody": sizes[:, None] * (own - each[0])}
    found["random"] = sizes[:, None] * (own - share)
    treated = sizes * campaign.is_chosen
    for arm, label in zip(each[1:], campaign.labels[1:], strict=True):
        found[f"single {label}"] = treated[:, None] * (own - arm)
    return found


def _best(
    campaign: Campaign,
    coefficients: Mapping[str, Floats],
    found: Mapping[str, Comparison],
    singles: Sequence[str],
    level: float,
) -> Comparison:
    """The policy against the best of the arms alone, whichever it is.

    The least of the lower ends is one of that; upper ends must hold together.
    """
    for name in singles:
        if (why := found[name].unknown) is not None:
            return Comparison(BEST_SINGLE, unknown=why)
    least = min((found[name] for name in singles), key=lambda one: float(one.estimate or 0))
    if why := next((found[name].declined for name in singles if found[name].declined), None):
        return Comparison(BEST_SINGLE, least.estimate, least.standard_error, declined=why)
    wider = 1 - (1 - level) / len(singles)
    uppers = [compared(campaign, name, coefficients[name], wider).upper for name in singles]
    lower, upper = (
        min(float(end or 0) for end in ends)
        for ends in ([found[name].lower for name in singles], uppers)
    )
    return Comparison(BEST_SINGLE, least.estimate, least.standard_error, lower, upper)


def _known_names(
    model: ArmsModel | None,
    treatment: str | None,
    outcome: str | None,
    control: Any,
    id: str | None,
    groups: str | None,
    lower_is_better: bool,
    people: pd.DataFrame | None,
) -> dict[str, Any]:
    named = {"treatment": treatment, "outcome": outcome, "control": control, "id": id}
    named |= {"groups": groups, "lower_is_better": lower_is_better}
    if treatment is None and people is not None and "chosen" in people.columns:
        named["treatment"] = "arm"
    if model is not None:
        own = model.columns
        if outcome not in (None, own.outcome):
            raise ValueError(
                f"outcome should be {own.outcome!r}, as the model was fitted, got {outcome!r}. "
                f"Leave it out: the model decides it."
            )
        for name in ("treatment", "outcome", "control", "id", "groups"):
            named[name] = getattr(own, name) if named[name] is None else named[name]
        named["lower_is_better"] = own.lower_is_better
    for name in ("treatment", "outcome"):
        _check_given(name, named[name])
    if people is not None and named["id"] is None:
        raise ValueError(
            "the list should come with the column that names people in both tables, got none. "
            "Pass id=COLUMN."
        )
    return named


def _check_given(name: str, value: Any) -> None:
    if value is None:
        raise ValueError(
            f"{name} should be given, got none. Pass {name}=..., or the model, which knows it."
        )


def _control(table: pd.DataFrame, people: pd.DataFrame | None, named: dict[str, Any]) -> str:
    """The control that was named, or else the label "control" of the arms that people got."""
    control, treatment = named["control"], named["treatment"]
    for own, column in ((table, treatment), (people, "arm")):
        if control is None and own is not None and column in own.columns:
            control = control_among({arm_text(value) for value in different_values(own, column)})
    _check_given("control", control)
    return arm_text(control)


def _read(
    table: Any,
    people: pd.DataFrame | None,
    chosen: str,
    propensity: str,
    named: dict[str, Any],
    *,
    outcome_range: Any,
    drop_missing_outcomes: bool,
    model: ArmsModel | None,
) -> Campaign:
    frame, notes = frame_of(table).copy(deep=False), list[str]()
    if people is not None:
        others = [name for name in people.columns if name.startswith(("chance ", "uplift "))]
        if "chosen" in people.columns:
            named, told = with_groups(people.drop(columns=others), True, propensity, named)
            notes += told
        else:  # of `target`: who is not in it was to get nothing
            people = _of_everybody(frame, people, named)
        frame = _with_list(frame, people, chosen, named, notes)
    parts = [named[name] for name in ("treatment", "outcome", "id", "groups")] + [chosen]
    check_names(frame, [name for name in parts if name is not None])
    arms, chosen_arms = (
        np.array([arm_text(own) for own in frame[name]], dtype=object)
        for name in (named["treatment"], chosen)
    )
    labels = _labels(arms, chosen_arms, named["control"], chosen, model)
    columns = name_columns(
        frame, treatment=named["treatment"], outcome=named["outcome"], id=named["id"],
        groups=named["groups"], treated=labels[1], control=labels[0], features=[chosen],
        lower_is_better=named["lower_is_better"], outcome_range=outcome_range or None,
    )  # fmt: skip
    arm, policy = (
        pd.Index(labels).get_indexer(pd.Index(own)).astype(np.intp) for own in (arms, chosen_arms)
    )
    cell, cells = _cells(frame, policy, propensity, labels)
    known = _known_outcomes(frame[columns.outcome], drop_missing_outcomes, notes)
    of = None if columns.groups is None else frame[columns.groups].to_numpy()
    lost, there = missing_counts(~known, cell, arm, of, (len(cells), len(labels)))
    kept = frame[known]
    y = outcome_numbers(kept[columns.outcome]).to_numpy()
    y = columns.in_table(check_column(y, f"the outcome {columns.outcome!r}"))
    groups = None if columns.groups is None else check_groups(kept[columns.groups], len(kept))
    score, uplift = _by_model(kept, labels, model)
    if model is not None and score is None:
        notes.append(_NO_FEATURES)
    return Campaign(
        kept, y, arm[known], cell[known], cells, tuple(labels), columns, groups, score, uplift,
        lost, there, score is not None, tuple(notes),
    )  # fmt: skip


def _of_everybody(frame: pd.DataFrame, people: pd.DataFrame, named: dict[str, Any]) -> pd.DataFrame:
    """A list of ``target`` as one of everybody: its arm was chosen, the control for all others."""
    if "arm" not in people.columns:
        raise ValueError(
            f"the list should be one that `assign --model` or `target` wrote for several arms, "
            f"with a column 'chosen' or 'arm', got {listed(people.columns)}. Pass such a list."
        )
    id = named["id"]
    others = frame[id][found_places(frame, people, id) < 0]
    rest = pd.DataFrame({id: others, "chosen": named["control"]})
    return pd.concat([people.rename(columns={"arm": "chosen"}), rest], ignore_index=True)


def _with_list(
    frame: pd.DataFrame,
    people: pd.DataFrame,
    chosen: str,
    named: dict[str, Any],
    notes: list[str],
) -> pd.DataFrame:
    """The rows of people of the list, with all that it says of them and the table does not."""
    place = found_places(frame, people, named["id"])
    if n_others := int((place < 0).sum()):
        notes.append(f"People who are not in the list are left out: {n_others:,}.")
    frame, place = frame[place >= 0].copy(deep=False), place[place >= 0]
    if n_absent := len(people) - len(np.unique(place)):
        notes.append(f"{n_absent:,} of the list are not among the rows.")
    for own in people.columns:
        name = named["treatment"] if own == "arm" else chosen if own == "chosen" else own
        if name not in frame.columns:
            frame[name] = people[own].iloc[place].set_axis(frame.index)
    return frame


def _labels(
    arms: NDArray[Any], chosen_arms: NDArray[Any], control: str, chosen: str, model: Any
) -> list[str]:
    given, picked = set(arms.tolist()), set(chosen_arms.tolist())
    if control not in given:
        raise ValueError(
            f"the control {control!r} should be among the arms that people got, got "
            f"{listed(sorted(given))}. Keep a random part of the people untreated: {NEXT_TIME}"
        )
    if strange := sorted(picked - given):
        raise ValueError(
            f"the column {chosen!r} should hold arms that people got, {listed(sorted(given))}, got "
            f"{listed(strange)}. Write labels as in the treatment, and {control!r} for nobody."
        )
    if picked <= {control}:
        raise ValueError("an arm should have been chosen for somebody, got none. Check the column.")
    known = sorted(given) if model is None else model.labels
    others = [label for label in known if label in given and label != control]
    return [control, *others, *sorted(given - {control, *others})]


def _cells(
    frame: pd.DataFrame, policy: Codes, propensity: str, labels: list[str]
) -> tuple[Codes, tuple[Cell, ...]]:
    """The cell of each row, and the cells, by the arm that was chosen and the chances of all."""
    names = [f"{propensity} {label}" for label in labels[1:]]
    cell, keys = cells_by(policy, frame, names if set(names) <= set(frame.columns) else [])
    cells = []
    for own, *chances in keys:
        who = f"those for whom {labels[int(own)]!r} was chosen"
        all_chances = (1 - sum(chances), *chances) if chances else None
        cells.append(Cell(int(own), all_chances, who))
    return cell, tuple(cells)


def _known_outcomes(column: pd.Series, drop: bool, notes: list[str]) -> NDArray[np.bool_]:
    known = column.notna().to_numpy(dtype=bool)
    if n := int((~known).sum()):
        if not drop:
            raise ValueError(
                f"the outcome {column.name!r} should be known of all rows, got none in {n:,}. "
                f"Write 0 where nothing happened, or pass drop_missing_outcomes=True."
            )
        notes.append(f"{n:,} rows without an outcome are left out.")
    return known


def _by_model(
    frame: pd.DataFrame, labels: list[str], model: ArmsModel | None
) -> tuple[Floats | None, Floats | None]:
    """(n, A - 1) scores of the model, if its features are there; uplifts of the list, or its."""
    uplift = _uplifts(frame, labels)
    if model is None or not set(model.columns.features) <= set(frame.columns):
        return None, uplift
    score = model.predict(frame)
    if uplift is None:
        uplift = _by_labels(model.uplift_of(score), model, labels)
    return _by_labels(score, model, labels), uplift


def _by_labels(values: Floats, model: ArmsModel, labels: list[str]) -> Floats:
    """(n, A - 1) numbers of a model in the order of labels, NaN of arms that it does not know."""
    known = pd.Index(model.labels).get_indexer(pd.Index(labels[1:]))
    return np.where(known >= 0, values[:, known], np.nan)


def _uplifts(frame: pd.DataFrame, labels: list[str]) -> Floats | None:
    names = [f"uplift {label}" for label in labels[1:]]
    if not set(names) <= set(frame.columns):
        return None
    return frame[names].apply(pd.to_numeric, errors="coerce").to_numpy(dtype=np.float64)
