"""Who of a new table gets which of several arms, and what to expect of it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._shown import Shown
from auucmax._validation import Bools, Floats, check_shares, listed
from auucmax.data.reading import table_of
from auucmax.encoding.frames import as_given, first_rows
from auucmax.encoding.kinds import arm_text, outcome_numbers
from auucmax.model.arm_evidence import is_judged
from auucmax.model.arm_fitting import check_arm_costs, check_arm_names
from auucmax.model.arms import ArmsModel
from auucmax.model.choosing import (
    Excluded,
    kept_people,
    nameless,
    reasons_for,
    scored_people,
    unlike,
    without_ids,
)
from auucmax.targeting.arms import ArmChoice, choose_arms
from auucmax.targeting.decision import Decision, Terms, decide, of_list, terms_of_arms, unknown
from auucmax.targeting.planning import ScoreShift, shift_message
from auucmax.targeting.policy import check_money

LARGE_SHIFT = 0.1  #: of the people who get an arm: others than in the trial are not like its people


class ExpectedGain(NamedTuple):
    """What a choice brings in all, in units of the outcome, with an interval that holds at whatever
    budget is chosen after looking; its ends are not numbers where too few rows tell it."""

    gain: float
    lower: float
    upper: float


@dataclass(frozen=True, repr=False)
class ArmTargeting(Shown):
    """People of a table, those who get an arm first, and what that brings.

    Attributes
    ----------
    people : a row for each person: the id (or ``row``, counted from 1), rank, arm, the uplift of
        each arm (``uplift LABEL``) and the cost of the arm that is given. If the id has one of
        these names, the other column is called ``auucmax_rank``, and so on. It is a frame of the
        library that the table came from; of a DuckDB relation, an Arrow table.
    choice : :class:`auucmax.targeting.ArmChoice`, arms in the order of ``labels``.
    expected : :class:`ExpectedGain`, from rows of the trial that models had not seen; None if it
        is not known, and ``unknown`` then says why.
    decision : whether to treat them, by the rule of the report.
    has_cost, value : whether costs were given, and the value of a unit of the outcome, or None.
    failed_check : why the trial of the model is none; None if it passed its check.
    nobody : why nobody is treated, in a sentence; None if somebody is.
    excluded : people who were left out by their ids, or None.
    repeated : rows with the id of one before, which are left out. nameless : people without an id.
    assumed : a sentence on costs that were not given, and taken from the fit; or None.
    shifts : how far the scores of each arm are from those of the trial, by label.
    is_unlike : these people are not like those of the trial, by the scores of an arm that matters:
        the sum of their uplifts tells what it brings no better than the trial's rows do.
    """

    people: Any
    labels: list[str]
    choice: ArmChoice
    expected: ExpectedGain | None
    unknown: str | None
    decision: Decision
    has_cost: bool
    value: float | None = None
    failed_check: str | None = None
    nobody: str | None = None
    excluded: Excluded | None = None
    repeated: int = 0
    nameless: int = 0
    assumed: str | None = None
    shifts: Mapping[str, ScoreShift] = field(default_factory=dict)
    is_unlike: bool = False

    def __str__(self) -> str:
        if self.nobody is not None:
            return self.nobody
        counts = zip(self.labels, self.choice.counts, strict=True)
        arms = ", ".join(f"{label} {n:,}" for label, n in counts)
        who = f"{self.choice.n_treated:,} of {len(self.people):,} people ({arms})"
        if self.expected is None or self.failed_check:
            told = of_list(self.decision, who, "what that brings is not known")
            return "\n".join(filter(None, [told, self.failed_check or self.unknown]))
        gain, low, high = self.expected
        ends = f"{low:,.1f} to {high:,.1f}" if np.isfinite(low) else "interval cannot be said"
        return of_list(self.decision, who, f"expected gain {gain:,.1f} ({ends})")

    def chosen(self) -> Any:
        """The people who get an arm alone."""
        return first_rows(self.people, self.choice.n_treated)

    @property
    def profit(self) -> ExpectedGain | None:
        """Value of the expected gain minus cost, if both were given."""
        if self.expected is None or self.value is None or not self.has_cost:
            return None
        return ExpectedGain(*(self.value * end - self.choice.cost for end in self.expected))

    @property
    def of_nameless(self) -> str | None:
        """That people have no id; None if all have one."""
        return without_ids(self.nameless)

    @property
    def caution(self) -> str | None:
        """Which of two numbers to expect, where the expected gain has no interval; or None."""
        if self.expected is None or np.isfinite(self.expected.lower):
            return None
        return (
            "The expected gain is that of few rows of the trial near this budget, and has no "
            "interval. The sum of the uplifts draws on all of its rows, each towards the average "
            "effect of the arm: it is the steadier number."
        )

    def to_dict(self) -> dict[str, Any]:
        """All numbers but the people, as plain JSON; None for what is not known."""
        part = self.choice.part
        return {
            "failed_check": self.failed_check,
            "n_people": len(self.people),
            "n_treated": self.choice.n_treated,
            "arms": dict(zip(self.labels, self.choice.counts, strict=True)),
            "cost": self.choice.cost if self.has_cost else None,
            "uplift": None if self.failed_check else self.choice.uplift,
            "decision": None if self.nobody else self.decision.to_dict(),
            "expected": _told(self.expected),
            "profit": _told(self.profit),
            "unknown": self.unknown,
            "caution": self.caution,
            "tied": {"people": self.choice.n_tied, "taken": self.choice.n_tied_taken},
            "part": None if part is None else {"arm": self.labels[part.arm], "paid": part.paid},
            "nobody": self.nobody,
            "excluded": None if self.excluded is None else self.excluded._asdict(),
            "repeated": self.repeated,
            "nameless": self.nameless,
            "assumed": self.assumed,
            "shifts": {label: shift._asdict() for label, shift in self.shifts.items()},
        }


def _told(gain: ExpectedGain | None) -> dict[str, float | None] | None:
    if gain is None:
        return None
    return {name: end if np.isfinite(end) else None for name, end in gain._asdict().items()}


@dataclass(frozen=True)
class ArmLimits:
    """What a user asks of arms, each by label; columns are of the table of people.

    ``cost`` of giving the arm to anybody, or ``cost_column`` with that of each person;
    ``at_most`` and ``at_least``: numbers of people; ``forbid``: columns that are 1, true or yes
    for people who may not get the arm.
    """

    cost: Mapping[Any, float] | None = None
    cost_column: Mapping[Any, str] | None = None
    at_most: Mapping[Any, float] | None = None
    at_least: Mapping[Any, float] | None = None
    forbid: Mapping[Any, str] | None = None

    def columns(self, labels: Sequence[str]) -> list[str]:
        """The columns that they name; ValueError if they name other arms than there are."""
        names = "cost", "cost_column", "at_most", "at_least", "forbid"
        for name in names:
            given = getattr(self, name) or {}
            check_arm_names({arm_text(label): 0 for label in given}, labels, name)
        if self.cost is not None and self.cost_column is not None:
            raise ValueError("cost or cost_column should be given, got both. Leave one out.")
        columns = [*(self.cost_column or {}).values(), *(self.forbid or {}).values()]
        return list(dict.fromkeys(map(str, columns)))

    def costs(self, frame: pd.DataFrame, labels: Sequence[str]) -> Floats:
        """(K,) or (n, K)."""
        if self.cost_column is None:
            return np.array(check_arm_costs(self.cost, labels, "cost"))
        given = {arm_text(label): str(column) for label, column in self.cost_column.items()}
        if missing := [label for label in labels if label not in given]:
            raise ValueError(
                f"cost_column should name a column for every arm, got none for {listed(missing)}. "
                f"Name one."
            )
        return np.column_stack([_amounts(frame[given[label]]) for label in labels])

    def allowed(self, frame: pd.DataFrame, labels: Sequence[str]) -> Bools | None:
        """(n, K) or None: everybody may get every arm."""
        if not self.forbid:
            return None
        free = np.ones((len(frame), len(labels)), dtype=bool)
        for label, column in self.forbid.items():
            free[:, labels.index(arm_text(label))] = ~_flags(frame[str(column)])
        return free

    def numbers(self, labels: Sequence[str]) -> dict[str, Any]:
        """``at_most`` and ``at_least`` as :func:`choose_arms` takes them."""
        found: dict[str, Any] = {}
        for name, none in (("at_most", np.inf), ("at_least", 0.0)):
            if given := getattr(self, name):
                own = {arm_text(label): check_money(n, name) for label, n in given.items()}
                found[name] = [own.get(label, none) for label in labels]
        if len(found) == 2:
            for label, most, least in zip(labels, *found.values(), strict=True):
                if least > most:
                    raise ValueError(
                        f"at_least should not be above at_most, got {least:g} and {most:g} for "
                        f"{label!r}. Lower the one, or raise the other."
                    )
        return found

    @property
    def bind(self) -> bool:
        """Whether they make another policy than budget and costs do."""
        return bool(self.cost_column or self.at_most or self.at_least or self.forbid)


def _amounts(column: pd.Series) -> Floats:
    values = pd.to_numeric(column, errors="coerce").to_numpy(np.float64)
    if not np.isfinite(values).all() or (values < 0).any():
        n = int((~np.isfinite(values) | (values < 0)).sum())
        raise ValueError(
            f"the costs {column.name!r} should be numbers, 0 or more, in every row, got {n:,} that "
            f"are not. Fill them in."
        )
    return values


def _flags(column: pd.Series) -> Bools:
    values = np.full(len(column), np.nan)
    with suppress(ValueError):  # other texts
        values = outcome_numbers(column).to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = ~np.isin(values, (0, 1))
    if wrong.any():
        others = dict.fromkeys(column[wrong].dropna().astype(str))
        raise ValueError(
            f"{column.name!r} should say by 1 or yes who may not get the arm, and by 0 or no who "
            f"may, in every row; got {listed(others) or 'nothing'} in {int(wrong.sum()):,} rows. "
            f"Write 1 or 0 there."
        )
    return np.asarray(values == 1)


def target_arms(
    model: ArmsModel,
    table: Any,
    *,
    share: float | None = None,
    budget: float | None = None,
    value: float | None = None,
    limits: ArmLimits | None = None,
    exclude: Iterable[Any] | None = None,
    reasons: bool = False,
) -> ArmTargeting:
    """Choose who of a table gets which arm.

    Each person gets at most one arm: most uplift for the money, the optimum of the fractional
    knapsack (:func:`auucmax.targeting.choose_arms`).

    Parameters
    ----------
    model : fitted by :func:`fit_arms_model`.
    table : a row for each person, with the feature columns of the trial.
    share : treat this part of the people, whatever arms cost; or
    budget : money to spend. Or neither, with ``value``: everybody whose uplift is worth more than
        it costs.
    value : of one unit of the outcome. With it nobody gets an arm that costs more than its worth.
    limits : :class:`ArmLimits`: costs, how many people an arm may have, who may not get it. With a
        budget or a value, costs are those of the fit unless others are given.
    exclude : ids of people who may not be treated, as in :func:`target`.
    reasons : add the columns that move the score of the arm that each person gets most, as there.

    What to expect comes from the curve of the policy that was kept with the model, for costs in the
    ratios of the fit's ``cost``, or all equal. With other costs, costs of single people or limits
    of arms the policy is another one, which no row of the trial has judged: the sum of the uplifts
    is told, and no interval. Of people whose scores of an arm are distributed otherwise than those
    of the trial it is not known, as in :func:`target`.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> from auucmax.model import fit_arms_model
    >>> trial, _ = load_hillstrom(arm="all").split(test_size=0.9, random_state=0)
    >>> table = trial.X.assign(visit=trial.y, segment=trial.treatment)
    >>> model = fit_arms_model(
    ...     table, treatment="segment", outcome="visit", control="No E-Mail", model="tm"
    ... )
    >>> target_arms(model, trial.X.head(1000), share=0.3).choice.n_treated
    300
    """
    limits, assumed = _with_costs(model, limits or ArmLimits(), share, budget, value)
    _check_policy(model, share, budget, value)
    labels = model.labels
    of_limits = limits.columns(labels)
    rows = table_of(table, [*model.score_columns, *of_limits], model.columns.all)
    names, score, more, repeated = scored_people(model, rows, of_limits)
    kept, excluded = kept_people(exclude, names, model)
    names, score, more = names[kept], score[kept], more[kept]
    uplift, n = model.uplift_of(score), int(kept.sum())
    cost, rules = limits.costs(more, labels), limits.numbers(labels)
    free = limits.allowed(more, labels)
    if share is not None:  # of people, whatever they cost
        found = choose_arms(uplift, budget=round(share * n), value=None, allowed=free, **rules)
    else:
        found = choose_arms(uplift, cost=cost, budget=budget, value=value, allowed=free, **rules)
    costs = np.broadcast_to(cost, uplift.shape)
    given = np.flatnonzero(found.arm >= 0)
    spent = float(costs[given, found.arm[given]].sum())
    failed = model.evidence["failed_check"]
    has_cost = limits.cost is not None or limits.cost_column is not None
    judged: Judged | str = failed or _judged_policy(model, found, share, limits, cost)
    shifts, strange = _compared(model, score, judged, found)
    expected = failed or strange or _expected(judged, found)
    money = (value, cost) if value is not None and has_cost else None
    why = reasons_for(list(model.models.values()), rows, names, found.arm) if reasons else None
    people = _people(model, names, uplift, costs, found, why, has_cost)
    return ArmTargeting(
        people=as_given(people, table, [model.columns.id]),
        labels=labels,
        choice=ArmChoice(**(vars(found) | {"cost": spent})),
        expected=None if isinstance(expected, str) else expected,
        unknown=expected if isinstance(expected, str) else None,
        decision=_decision(judged, expected, found, spent, money),
        has_cost=has_cost,
        value=value,
        failed_check=failed,
        nobody=None if found.n_treated else _nobody(found, share, budget),
        excluded=excluded,
        repeated=repeated,
        nameless=int(nameless(names, model.columns.id).sum()),
        assumed=assumed,
        shifts=shifts,
        is_unlike=strange is not None,
    )


def _with_costs(
    model: ArmsModel,
    limits: ArmLimits,
    share: float | None,
    budget: float | None,
    value: float | None,
) -> tuple[ArmLimits, str | None]:
    """The limits with the costs of the fit, if money comes without any; and a note of it."""
    given = limits.cost is not None or limits.cost_column is not None
    if given or (budget is None and value is None):
        return limits, None
    costs = model.costs
    if costs is not None:
        told = ", ".join(f"{label} {cost:g}" for label, cost in costs.items())
        assumed = f"Costs are those that the model was fitted with: {told}."
        return replace(limits, cost=costs), assumed
    if share is None:
        money = "a value" if budget is None else "a budget"
        raise ValueError(
            f"{money} should come with the cost of each arm, got none, and the model was fitted "
            f"without. Pass cost=..., or a share of the people."
        )
    return limits, None


def _check_policy(
    model: ArmsModel, share: float | None, budget: float | None, value: float | None
) -> None:
    if share is not None:
        check_shares(share)
    for name, amount in (("budget", budget), ("value", value)):
        if amount is not None:
            check_money(amount, name)
    if share is not None and budget is not None:
        raise ValueError("share or budget should be given, got both. Leave one out.")
    if share is None and budget is None and value is None:
        raise ValueError(
            "who gets an arm should be said by a share, by a budget, or by a value; got none of "
            "them. Pass share=0.3, for example."
        )
    if share is None and budget is None and model.evidence["failed_check"] is not None:
        raise ValueError(
            f"share or budget should be given, got neither: no profit is known. "
            f"{model.evidence['failed_check']} Pass share=0.3, for example."
        )


class Judged(NamedTuple):
    """The curve of the policy on the trial's rows: its budgets times ``factor`` are in the unit of
    the costs, or people."""

    curve: Mapping[str, Any]
    factor: float
    by_people: bool

    def gains(self, n: int) -> dict[str, Floats]:
        """What each budget brings to n people, with the ends of its interval."""
        found, budget = {}, np.array(self.curve["budget"])
        sources = "gain", "simultaneous_lower", "simultaneous_upper"
        for name, source in zip(("gain", "gain_lower", "gain_upper"), sources, strict=True):
            known = self.curve["policy"][source]
            own = np.array([np.nan if v is None else v for v in known], dtype=np.float64)
            # At a budget of 0 the gain is 0, and needs no interval.
            found[name] = n * np.where(budget == 0, np.nan_to_num(own), own)
        return found


def _decision(
    judged: Judged | str,
    expected: ExpectedGain | str,
    found: ArmChoice,
    spent: float,
    money: tuple[float, Floats] | None,
) -> Decision:
    """Whether to treat those who get an arm; ``money``: value of the outcome, and costs of arms."""
    if isinstance(judged, str) or isinstance(expected, str):
        return unknown("gain" if money is None else "profit")
    n, shares = len(found.arm), np.array(judged.curve["policy"]["shares"])
    plan: dict[str, Any] = dict.fromkeys(("profit", "profit_lower", "profit_upper"))
    # Those who are chosen come last, after all budgets of the curve.
    for (name, own), end in zip(judged.gains(n).items(), expected, strict=True):
        plan[name] = np.append(own, end)
        if money is not None:
            cost = np.append(n * shares @ money[1], spent)
            plan[name.replace("gain", "profit")] = money[0] * plan[name] - cost
    plan |= {
        "treated": n * shares.sum(axis=1),
        "cost": n * judged.factor * np.array(judged.curve["budget"]),
        "currency": "",
        "digits": {"money": 2},
    }
    return decide(plan, len(shares), terms=terms_of_arms(judged.by_people))


def decision_at(model: ArmsModel, share: float, n_people: int, who: str) -> Decision:
    """Whether to give arms to a share of so many people, by what the trial's rows tell of it."""
    known = model.evidence.curve_for([1.0] * len(model.labels))
    if known is None or model.evidence["failed_check"] is not None:
        return unknown("gain", Terms(who=who))
    judged = Judged(*known, by_people=True)
    treated = np.array(judged.curve["policy"]["shares"]).sum(axis=1)
    plan = {"profit": None, "treated": n_people * treated, **judged.gains(n_people)}
    place = int(np.abs(np.array(judged.curve["budget"]) - share).argmin())
    return decide(plan, place, terms=terms_of_arms(True)._replace(who=who))


def _judged_policy(
    model: ArmsModel, found: ArmChoice, share: float | None, limits: ArmLimits, cost: Floats
) -> Judged | str:
    """What the trial's rows tell of the same policy; or why they do not."""
    if limits.bind:
        return (
            "What this brings has no interval: with limits of arms, or costs of single people, the "
            "policy is another one than the trial has judged."
        )
    # What costs nothing is a matter of people.
    by_people = share is not None or not cost.any()
    known = model.evidence.curve_for([1.0] * len(model.labels) if by_people else cost.tolist())
    if known is None and by_people:
        return (
            "What this brings has no interval: the trial has judged the policy by money, at the "
            "costs of the fit, and a share of people is another policy. Pass budget=..., or fit "
            "the model without cost=..., to judge shares."
        )
    if known is None:
        return (
            "What this brings has no interval: the trial has judged the policy at other costs. Fit "
            "the model with these by cost=..., in any unit."
        )
    return Judged(*known, by_people)


def _compared(
    model: ArmsModel, score: Floats, judged: Judged | str, found: ArmChoice
) -> tuple[dict[str, ScoreShift], str | None]:
    """How far people's scores (n, K) are from the trial's, by arm, and why the trial tells nothing
    of them, if they are quite different. It warns as the plan of one arm does."""
    shifts = {  # arms are compared together: a false alarm of any of them is as rare as of one
        label: own.evidence.expected.scores.shift(np.sort(column), len(model.models))
        for (label, own), column in zip(model.models.items(), score.T, strict=True)
    }
    far = _farthest(shifts, judged, found)
    if far is None:
        return shifts, None
    warnings.warn(shift_message(shifts[far], far), UserWarning, stacklevel=3)
    return shifts, unlike(shifts[far], far)


def _farthest(
    shifts: Mapping[str, ScoreShift], judged: Judged | str, found: ArmChoice
) -> str | None:
    """The arm whose scores are farthest from the trial's, by more than chance explains; or None.

    An arm counts if somebody gets it, of these people or of the trial's at the same budget: no
    other is part of what is promised.
    """
    if found.n_treated == 0:
        return None
    given = np.array(found.counts) > 0
    if not isinstance(judged, str):
        given |= _of_trial(judged, found)[1] > 0
    pairs = zip(shifts.items(), given, strict=True)
    large = {label: own.distance for (label, own), some in pairs if some and own.is_large}
    return max(large, key=lambda label: large[label], default=None)


def _of_trial(judged: Judged, found: ArmChoice) -> tuple[float, Floats]:
    """The budget of the curve at which the choice is judged, and the shares (K,) of the trial's
    people who get the arms there."""
    grid = np.array(judged.curve["budget"])
    spent = (found.n_treated if judged.by_people else found.cost) / len(found.arm) / judged.factor
    spent = min(spent, float(grid[-1]))
    shares = np.array(judged.curve["policy"]["shares"])
    return spent, np.array([np.interp(spent, grid, own) for own in shares.T])


def _expected(judged: Judged | str, found: ArmChoice) -> ExpectedGain | str:
    """What the policy brings at the same money per person; or why that is not known."""
    if found.n_treated == 0:
        return ExpectedGain(0.0, 0.0, 0.0)
    if isinstance(judged, str):
        return judged
    n, grid = len(found.arm), np.array(judged.curve["budget"])
    spent, of_trial = _of_trial(judged, found)
    if not is_judged(spent, grid):
        return (
            "What this brings has no interval: too few rows of the trial get other arms at budgets "
            "near to this one for the policy to be judged there."
        )
    away = np.abs(of_trial - np.array(found.counts) / n).max()
    if away > max(LARGE_SHIFT, 2 / np.sqrt(n)):
        return (
            f"What this brings has no interval: other parts of these people get the arms than "
            f"where the trial judges (they differ by {away:.0%} of the people). Models that learnt "
            f"from parts of the trial judge there, and choose otherwise; or these people are not "
            f"like those of the trial."
        )
    place = min(int(np.searchsorted(grid, spent * (1 - 1e-12), side="right")), len(grid) - 1)
    around = slice(max(place - 1, 0), place + 1)
    ends = [float(np.interp(spent, grid[around], own[around])) for own in judged.gains(n).values()]
    if not np.isfinite(ends[0]):
        return "What this brings is not known: too few rows of the trial tell it."
    return ExpectedGain(*ends)


def _nobody(found: ArmChoice, share: float | None, budget: float | None) -> str:
    n = len(found.arm)
    why = "no arm is estimated to help anybody for the money"
    if share is not None and round(share * n) == 0:
        why = f"a share of {share:g} of {n:,} people is less than one person"
    elif budget is not None and found.part is not None:
        why = f"a budget of {budget:g} does not pay for one person"
    return f"Treat nobody: {why}."


def _people(
    model: ArmsModel,
    names: pd.Series,
    uplift: Floats,
    costs: Floats,
    found: ArmChoice,
    reasons: NDArray[Any] | None,
    has_cost: bool,
) -> pd.DataFrame:
    """The list: those who get an arm first, from most uplift for the money down."""
    n, rows = len(uplift), np.arange(len(uplift))
    arm = np.where(found.arm >= 0, found.arm, uplift.argmax(axis=1))
    gain, price = uplift[rows, arm], costs[rows, arm]
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(price > 0, gain / price, np.where(gain > 0, np.inf, gain))
    order = np.lexsort((rows, -gain, -rate, found.arm < 0))
    labels = np.array([model.control, *model.labels], dtype=object)
    columns: dict[str, Any] = {"rank": np.arange(1, n + 1)}
    columns["arm"] = labels[found.arm[order] + 1]
    for k, label in enumerate(model.labels):
        columns[f"uplift {label}"] = uplift[order, k]
    if has_cost:
        columns["cost"] = np.where(found.arm >= 0, price, 0.0)[order]
    if reasons is not None:
        columns["reasons"] = reasons[order]
    columns = {"auucmax_" * (name == names.name) + name: own for name, own in columns.items()}
    return pd.DataFrame({names.name: names.to_numpy()[order], **columns})
