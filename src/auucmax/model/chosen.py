"""Choose whom to treat in a table, and forecast the result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._errors import InputError
from auucmax._validation import Floats, listed
from auucmax.data.read_trial import id_texts
from auucmax.data.reading import table_of
from auucmax.encoding.frames import as_given, first_rows
from auucmax.encoding.kinds import arm_text, outcome_numbers
from auucmax.model.profiles import others_of, reasons_of
from auucmax.model.uplift_model import UpliftModel
from auucmax.results import Decision, Evidence, Plan, Shown, Terms, Why
from auucmax.targeting.calibration import scaled_to_gain
from auucmax.targeting.choose import Choice, arm_costs, by_arm, check_money, choose
from auucmax.targeting.quantiles import LARGE_SHIFT, ScoreShift
from auucmax.targeting.rule import (
    at,
    best_spend,
    check_terms,
    decide,
    plan_at,
    price_factor,
    share_as_budget,
)

_COMPARED_ROWS = 20_000  # of the people, some of whom the chosen are compared with for reasons


@dataclass(frozen=True)
class Limits:
    """Limits by arm label; columns refer to the table of people.

    ``at_most`` and ``at_least``: numbers of people; ``forbid``: columns that are 1, true or yes for
    people who may not get the arm; ``cost_column``: columns with the cost of each person.
    """

    at_most: Mapping[Any, float] | None = None
    at_least: Mapping[Any, float] | None = None
    forbid: Mapping[Any, str] | None = None
    cost_column: Mapping[Any, str] | None = None

    def _by_arm(self, name: str) -> dict[str, Any]:
        return {arm_text(label): own for label, own in (getattr(self, name) or {}).items()}

    def columns(self, arms: Sequence[str]) -> list[str]:
        """Column names in the limits; InputError for unknown arms."""
        for name in vars(self):
            given = self._by_arm(name)
            if unknown := [label for label in given if label not in arms]:
                raise InputError(
                    name, f"arms, {listed(arms)}", listed(unknown), "Check the spelling."
                )
        columns = by_arm(self.cost_column, arms, "cost_column") if self.cost_column else []
        return list(dict.fromkeys(map(str, [*columns, *(self.forbid or {}).values()])))

    def read(self, frame: pd.DataFrame, arms: Sequence[str]) -> dict[str, Any]:
        """The limits as arguments of :func:`choose`."""
        found: dict[str, Any] = {}
        if self.cost_column:
            columns = by_arm(self.cost_column, arms, "cost_column")
            prices = frame[list(map(str, columns))]
            found["cost"] = prices.apply(pd.to_numeric, errors="coerce").to_numpy(np.float64)
            if n := int((~np.isfinite(found["cost"]) | (found["cost"] < 0)).sum()):
                raise InputError(
                    "cost_column", "numbers, 0 or more, in every row", f"{n:,} that are not",
                    "Fill them in.",
                )  # fmt: skip
        for label, name in self._by_arm("forbid").items():
            values = np.full(len(frame), np.nan)
            with suppress(ValueError):  # other texts
                values = outcome_numbers(frame[str(name)]).to_numpy(np.float64, na_value=np.nan)
            if n := int((~np.isin(values, (0, 1))).sum()):
                raise InputError(
                    f"{name!r}", "1 or yes for people who may not get the arm, else 0 or no",
                    f"something else in {n:,} rows", "Write 1 or 0 there.",
                )  # fmt: skip
            free = found.setdefault("allowed", np.ones((len(frame), len(arms)), dtype=bool))
            free[:, list(arms).index(label)] = values != 1
        for name, none in (("at_most", np.inf), ("at_least", 0.0)):
            if given := self._by_arm(name):
                found[name] = [
                    check_money(given[arm], name) if arm in given else none for arm in arms
                ]
        return found


@dataclass(frozen=True, eq=False, repr=False)
class Targeting(Shown):
    """Ranked people of a table, and the decision whom to treat.

    Attributes
    ----------
    people : frame
        One row for each person: the id (or ``row``, counted from 1) and rank; with one arm score,
        uplift, decile and arm, with several the arm, the uplift of each (``uplift LABEL``) and the
        cost. It is a frame of the library that the table came from.
    choice : Choice
        Who gets which arm.
    decision : Decision
        Whether to treat them, with the plan.
    shifts : how far the scores of each arm are from those of the trial.
    uplift : sum of the uplifts of the chosen.
    is_own : the people are those of the trial; uplifts add up to the expected gain.
    assumed_costs : the costs are those of the fit.
    n_excluded, n_unknown_ids : people left out by their ids, and ids that nobody has.
    n_repeated : rows left out because a row before has the same id.
    n_nameless : people left out because they have no id.
    warnings : checks of the trial that did not pass.
    """

    people: Any
    choice: Choice
    decision: Decision
    shifts: tuple[ScoreShift, ...]
    uplift: float
    is_own: bool = False
    assumed_costs: bool = False
    n_excluded: int = 0
    n_unknown_ids: int = 0
    n_repeated: int = 0
    n_nameless: int = 0
    warnings: tuple[Mapping[str, Any], ...] = ()

    @property
    def plan(self) -> Plan:
        return self.decision.plan

    @property
    def n_treated(self) -> int:
        return sum(self.choice.counts)

    def to_json(self) -> dict[str, Any]:
        """All numbers as plain JSON, without the people."""
        shifts = [shift.to_json() for shift in self.shifts]
        found = vars(self) | {"decision": self.decision.to_json(), "shifts": shifts}
        del found["people"], found["choice"]
        return found

    def chosen(self) -> Any:
        """Only the people to treat."""
        return first_rows(self.people, self.n_treated)


def target(
    model: UpliftModel,
    people: Any,
    *,
    share: float | None = None,
    budget: float | None = None,
    cost: Any = None,
    value: float | None = None,
    limits: Limits | None = None,
    exclude: Iterable[Any] | None = None,
    reasons: bool = False,
) -> Targeting:
    """Rank the people of a table and choose whom to treat.

    Parameters
    ----------
    model : UpliftModel
    people : frame
        One row for each person, with the feature columns of the trial.
    share : float, optional
        Treat this part of the people (several arms with ``cost``: spend what treats it in the
        trial); or
    budget : float, optional
        treat as many as the money pays for, at ``cost``; or neither, with ``cost`` and ``value``:
        the share, or budget, with the highest expected profit.
    cost : float, mapping or sequence, optional
        Cost of treating one person; with several arms one each, by label. By default that of the
        fit.
    value : float, optional
        Value of one unit of the outcome.
    limits : Limits, optional
        With several arms: numbers of people, who may not get an arm, costs of single people.
    exclude : list of ids, optional
        People who may not be treated. Shares are of all others.
    reasons : bool, default False
        Add the columns that move the score of each of the chosen most.

    A table that does not fit into memory is passed as ``read_table(path, each=model.narrow)``.

    Forecasts come from the curve in the model. With limits, costs of single people or cost ratios
    other than those of the fit, only the sum of the uplifts is known.

    Examples
    --------
    >>> from auucmax import fit, load_hillstrom
    >>> trial = load_hillstrom()
    >>> found = target(fit(trial, "tm"), trial.X.head(1000), share=0.3)
    >>> found.n_treated, len(found.chosen())
    (300, 300)
    """
    evidence, arms = model.evidence, model.arms
    limits = limits or Limits()
    one_arm = len(arms) == 1
    of_limits = limits.columns(arms)
    if one_arm and limits != Limits():
        name = next(name for name, given in vars(limits).items() if given is not None)
        raise InputError(
            name, "left out with one arm", "a limit",
            "Leave people out by their ids (--exclude FILE), set their number by --share.",
        )  # fmt: skip
    if cost is not None and limits.cost_column:
        raise InputError("cost", "left out with cost_column", "both", "Leave one out.")
    assumed = cost is None and not limits.cost_column and model.costs is not None
    assumed = assumed and (budget is not None or value is not None)
    costs = model.costs if assumed else None if cost is None else arm_costs(cost, arms)
    terms = Terms(share=share, budget=budget, cost=costs, value=value)
    if not limits.cost_column:
        check_terms(terms, evidence)
    needed, is_narrow = model.columns, False
    if isinstance(people, pd.DataFrame) and {*model.narrow_names} <= {*people.columns}:
        needed, is_narrow = model.narrow_names, True
    if is_narrow and reasons:
        raise InputError(
            "reasons", "left out where the table has scores in place of features", "both",
            "Leave them out.",
        )  # fmt: skip
    table = table_of(people, [*needed, *of_limits], model.roles.columns)
    scores = table[needed].to_numpy(np.float64) if is_narrow else model.scores(table)
    names, left_out = _people(model, table, exclude)
    place = names.index.to_numpy()
    scores = scores[place]
    n = len(scores)
    uplift = model.uplift_of(scores)
    shifts = tuple(
        one.quantiles.shift(own, len(arms))
        for one, own in zip(model.scorers, scores.T, strict=True)
    )
    is_whole = not (left_out["n_excluded"] or left_out["n_nameless"])
    is_other = not is_whole or any(own.distance > own.by_chance for own in shifts)
    if is_other:  # guarantees hold for people like those of the trial only
        evidence = replace(evidence, arms=tuple(replace(arm, cuts=None) for arm in evidence.arms))
    within = limits.read(table[of_limits].iloc[place], arms)
    missing = points = parts = None
    if one_arm:
        choice, spend, points = _choose_one(model, evidence, terms, scores[:, 0])
        parts = _parts_at_cut(model, choice) if is_other else None
    else:
        worth = terms.value if terms.share is None else None  # a share takes what does not pay, too
        if cost is not None and not within:
            terms = share_as_budget(evidence.policy.curve, terms, n)
        choice, spend, missing = _choose_arms(evidence, terms, uplift, within, worth)
    used = (np.array(choice.counts) > 0) | (at(evidence.policy.curve, spend)[0] > 0)
    # Everybody gains the average effect only where scores are distributed as in the trial.
    all_others = one_arm and choice.counts[0] == n and parts is None and shifts[0].is_large
    unlike = any(shifts[k].is_unlike for k in np.flatnonzero(used)) or all_others
    if sum(choice.counts) and unlike:
        missing = Why.UNLIKE_TRIAL
    plan = plan_at(evidence, terms, n, spend, counts=choice.counts, missing=missing, parts=parts)
    chosen = np.flatnonzero(choice.arm >= 0)
    asked, each = terms, within.get("cost")
    if each is not None:
        plan = replace(plan, spend=float(each[chosen, choice.arm[chosen]].sum()))
        asked = Terms(share=1.0)  # only the plan knows what is spent
    elif costs is not None:
        each = np.broadcast_to(np.array(costs), uplift.shape)
    decision = decide(evidence, asked, n, plan=plan, points=points)
    if is_other:  # the trial's average effect may be another one
        decision = replace(decision, everyone=None)
    order = _order(scores, uplift, each, choice)
    is_own = one_arm and plan.missing is None and is_whole
    is_own = is_own and model.has_people(people)
    if is_own and plan.gain:  # uplifts add up to the expected gain
        whole = n * evidence.policy.curve.gain[-1]
        uplift[order, 0] = scaled_to_gain(
            uplift[order, 0], scores[order, 0], len(chosen), plan.gain.value, whole
        )
    labels = np.array(model.roles.arms, dtype=object)[choice.arm + 1]
    columns: dict[str, Any] = {"rank": np.arange(1, n + 1)}
    if one_arm:
        columns |= {"score": scores[order, 0], "uplift": uplift[order, 0]}
        columns |= {"decile": np.arange(n) * 10 // n + 1, "arm": labels[order]}
    else:
        columns["arm"] = labels[order]
        columns |= {f"uplift {arm}": uplift[order, k] for k, arm in enumerate(arms)}
        if each is not None:
            paid = each[np.arange(n), choice.arm]
            columns["cost"] = np.where(choice.arm >= 0, paid, 0.0)[order]
    if reasons:
        found = np.full(n, "", dtype=object)
        for k, scorer in enumerate(model.scorers):
            own = np.flatnonzero(choice.arm == k)
            if len(own):
                others = others_of(scorer, table.head(_COMPARED_ROWS))
                found[own] = reasons_of(scorer, table.iloc[place[own]], others)
        columns["reasons"] = found[order]
    # An id may have the name of one of these columns.
    columns = {"auucmax_" * (name == names.name) + name: own for name, own in columns.items()}
    ranked = pd.DataFrame({names.name: names.to_numpy()[order], **columns})
    return Targeting(
        people=as_given(ranked, people, [model.roles.id]),
        choice=choice,
        decision=decision,
        shifts=shifts,
        uplift=float(uplift[chosen, choice.arm[chosen]].sum()),
        is_own=is_own,
        assumed_costs=assumed,
        warnings=tuple(own.check for own in evidence.arms if own.check and not own.check["ok"]),
        **left_out,
    )


def _choose_one(
    model: UpliftModel, evidence: Evidence, terms: Terms, score: Floats
) -> tuple[Choice, float, list[Plan]]:
    """Choice with one arm: highest scores first; share of the trial and other plans."""
    quantiles, n = model.scorers[0].quantiles, len(score)
    grid = np.union1d(np.array(evidence.policy.curve.spend), np.linspace(0, 1, 101))
    counts = quantiles.count(score, grid)
    best = None
    if terms.share is not None:
        choice = choose(score, share=terms.share)
    elif terms.budget is not None:
        choice = choose(score, budget=terms.budget, cost=(terms.cost or (1.0,))[0])
    else:
        best = best_spend(evidence, terms, n, counts)
        choice = choose(score, share=float(counts[np.abs(grid - best).argmin()]) / n)
    n_treated = sum(choice.counts)
    spend = 1.0 if n_treated == n else 0.0
    if 0 < n_treated < n:
        share_taken = choice.n_tied_taken / choice.n_tied
        spend = best or quantiles.share_of(choice.threshold, share_taken)
    points = [
        plan_at(evidence, terms, n, float(q), counts=(int(count),))
        for q, count in zip(grid, counts, strict=True)
        if count > 0 or q == 0
    ]
    return choice, spend, points


def _parts_at_cut(model: UpliftModel, choice: Choice) -> list[tuple[float, float]] | None:
    """Points of the curve and their weights if the cut divides a level unlike in the trial."""
    level = model.scorers[0].quantiles.level_of(choice.threshold)
    if level is None or level[0] == level[1]:
        return None
    above, reach = level
    inside = choice.n_tied_taken / (reach - above)
    parts = [(reach, inside)]
    if above:
        parts.append((above, (sum(choice.counts) - choice.n_tied_taken) / above - inside))
    return parts


def _choose_arms(
    evidence: Evidence, terms: Terms, uplift: Floats, within: dict[str, Any], value: float | None
) -> tuple[Choice, float, Why | None]:
    """Choice with several arms, its spend on the trial's curve, or why it is unknown.

    ``within``: limits and costs of each person, and ``value`` that of one unit of the outcome, as
    arguments of :func:`choose`.
    """
    curve, n, is_share = evidence.policy.curve, len(uplift), terms.share is not None
    factor = price_factor(curve, terms)
    budget = terms.budget
    if budget is None and not is_share and factor is not None and not within:
        budget, value = n * factor * best_spend(evidence, terms, n), None
    how = {"cost": np.array(terms.cost or 1.0)} | within
    choice = choose(uplift, share=terms.share, budget=budget, value=value, **how)
    if within:
        return choice, 0.0, Why.LIMITS
    if factor is None:
        why = Why.PEOPLE_NOT_MONEY if terms.cost is None else Why.OTHER_COSTS
        return choice, 0.0, why
    price = 1.0 if is_share or not any(terms.cost or ()) else terms.cost or 1.0
    spend = min(float(np.multiply(choice.counts, price).sum()) / n / factor, curve.spend[-1])
    away = float(np.abs(at(curve, spend)[0] - np.array(choice.counts) / n).max())
    is_other = away > max(LARGE_SHIFT, 2 / np.sqrt(n))
    return choice, spend, Why.OTHER_ARMS if is_other else None


def _people(
    model: UpliftModel, table: pd.DataFrame, exclude: Iterable[Any] | None
) -> tuple[pd.Series, dict[str, int]]:
    """Ids (or row numbers) of eligible people, with counts of those left out.

    The index of the ids has their places in the table. The first row of an id counts, unless ids
    are groups.
    """
    id = model.roles.id
    names = pd.Series(np.arange(1, len(table) + 1), name="row")
    nameless = np.zeros(len(names), dtype=bool)
    if has_ids := id in table.columns:
        names = table[id].reset_index(drop=True)
        nameless = names.isna().to_numpy(dtype=bool)
        if names.dtype.kind == "O":
            nameless = nameless | (names.astype(str).str.strip() == "").to_numpy(dtype=bool)
    # People without an id may be anybody: they are not one person.
    once = nameless | (id == model.roles.groups) | ~names.duplicated().to_numpy(dtype=bool)
    names, nameless = names[once], nameless[once]
    out, n_unknown = np.zeros(len(names), dtype=bool), 0
    if exclude is not None:
        if not has_ids:
            raise InputError(
                "exclude", "ids of the people in the table", f"a table without ids ({id})",
                "Add the column of ids that the model was fitted with, or fit with id=.",
            )  # fmt: skip
        unwanted = np.unique(id_texts(pd.Series(list(exclude)), "the ids to exclude"))
        texts = id_texts(names[~nameless], f"the id {names.name!r}")
        out[~nameless] = np.isin(texts, unwanted)
        if out.all() or (len(unwanted) and not out.any()):
            raise InputError(
                "exclude", f"ids of some of the people, such as {texts[0]!r}",
                f"{len(unwanted):,} ids, such as {unwanted[0]!r}, of {out.sum():,} of "
                f"{len(out):,} people",
                "Check the ids, and how they are written.",
            )  # fmt: skip
        n_unknown = len(unwanted) - len(np.intersect1d(texts, unwanted))
    if len(nameless) and nameless.all():
        raise InputError(
            f"the id {id!r}", "known for the people", "none in any row",
            "Fill it in, or leave the column out to have row numbers.",
        )  # fmt: skip
    return names[~(out | nameless)], {
        "n_excluded": int(out.sum()),
        "n_unknown_ids": n_unknown,
        "n_repeated": int((~once).sum()),
        "n_nameless": int(nameless.sum()),
    }


def _order(
    scores: Floats, uplift: Floats, costs: Floats | None, choice: Choice
) -> NDArray[np.intp]:
    """Order of the list: by score with one arm; with several, by uplift over cost.

    With several arms the people who get one come first.
    """
    rows, is_left = np.arange(len(scores)), choice.arm < 0
    if scores.shape[1] == 1:
        return np.lexsort((is_left, -scores[:, 0]))
    arm = np.where(is_left, uplift.argmax(axis=1), choice.arm)
    gain = uplift[rows, arm]
    price = np.ones(len(rows)) if costs is None else costs[rows, arm]
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(price > 0, gain / price, np.where(gain > 0, np.inf, gain))
    return np.lexsort((-gain, -rate, is_left))
