"""Who of a table gets which arm, and what to expect of it: no row of the trial is needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._errors import InputError
from auucmax._shown import Shown
from auucmax._validation import Bools, Floats, listed
from auucmax.data.read_trial import id_texts
from auucmax.data.reading import table_of
from auucmax.encoding.frames import as_given, first_rows
from auucmax.encoding.kinds import arm_text, outcome_numbers
from auucmax.model.reasons import others_of, reasons_of
from auucmax.model.uplift_model import UpliftModel
from auucmax.results import Decision, Missing, Plan, Terms, Why
from auucmax.targeting.calibration import scaled_to_gain
from auucmax.targeting.choose import Choice, check_money, choose
from auucmax.targeting.costs import arm_costs
from auucmax.targeting.quantiles import LARGE_SHIFT, ScoreShift
from auucmax.targeting.rule import at, best_spend, check_terms, decide, plan_at, price_factor

_COMPARED_ROWS = 20_000  # of the people, some of whom the chosen are compared with for reasons


@dataclass(frozen=True)
class Limits:
    """Limits of the arms, each by label; columns are of the table of people.

    ``at_most`` and ``at_least``: numbers of people; ``forbid``: columns that are 1, true or yes for
    people who may not get the arm; ``cost_column``: columns with the cost of each person.
    """

    at_most: Mapping[Any, float] | None = None
    at_least: Mapping[Any, float] | None = None
    forbid: Mapping[Any, str] | None = None
    cost_column: Mapping[Any, str] | None = None

    def columns(self, arms: Sequence[str]) -> list[str]:
        """The columns that they name; an InputError if they name other arms than there are."""
        for name in ("at_most", "at_least", "forbid", "cost_column"):
            given = [arm_text(label) for label in getattr(self, name) or ()]
            if unknown := [label for label in given if label not in arms]:
                raise InputError(
                    name, f"arms, {listed(arms)}", listed(unknown), "Check the spelling."
                )
        if self.cost_column is not None and len(self.cost_column) < len(arms):
            raise InputError(
                "cost_column", "a column for every arm", listed(self.cost_column), "Name them all."
            )
        columns = [*(self.cost_column or {}).values(), *(self.forbid or {}).values()]
        return list(dict.fromkeys(map(str, columns)))

    def costs(self, frame: pd.DataFrame, arms: Sequence[str]) -> Floats | None:
        """(n, K) the cost of each person and arm, if columns hold it."""
        if self.cost_column is None:
            return None
        given = {arm_text(label): frame[str(name)] for label, name in self.cost_column.items()}
        found = [pd.to_numeric(given[label], errors="coerce").to_numpy(float) for label in arms]
        prices = np.column_stack(found)
        if n := int((~np.isfinite(prices) | (prices < 0)).sum()):
            raise InputError(
                "cost_column", "numbers, 0 or more, in every row", f"{n:,} that are not",
                "Fill them in.",
            )  # fmt: skip
        return prices

    def allowed(self, frame: pd.DataFrame, arms: Sequence[str]) -> Bools | None:
        """(n, K) who may get which arm; None: everybody may get every arm."""
        if not self.forbid:
            return None
        free = np.ones((len(frame), len(arms)), dtype=bool)
        for label, name in self.forbid.items():
            values = np.full(len(frame), np.nan)
            with suppress(ValueError):  # other texts
                values = outcome_numbers(frame[str(name)]).to_numpy(np.float64, na_value=np.nan)
            if n := int((~np.isin(values, (0, 1))).sum()):
                raise InputError(
                    f"{name!r}", "1 or yes for people who may not get the arm, else 0 or no",
                    f"something else in {n:,} rows", "Write 1 or 0 there.",
                )  # fmt: skip
            free[:, list(arms).index(arm_text(label))] = values != 1
        return free

    def numbers(self, arms: Sequence[str]) -> dict[str, Any]:
        """``at_most`` and ``at_least`` as :func:`choose` takes them."""
        found: dict[str, Any] = {}
        for name, none in (("at_most", np.inf), ("at_least", 0.0)):
            if given := getattr(self, name):
                own = {arm_text(label): check_money(n, name) for label, n in given.items()}
                found[name] = [own.get(label, none) for label in arms]
        return found


@dataclass(frozen=True, eq=False, repr=False)
class Targeting(Shown):
    """People of a table, those to treat first, and the decision about them.

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
    n_repeated : rows left out because a row before has the same id. n_nameless : people without id.
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

    @property
    def plan(self) -> Plan:
        return self.decision.plan

    @property
    def n_treated(self) -> int:
        return sum(self.choice.counts)

    def to_json(self) -> dict[str, Any]:
        """All numbers as plain JSON, without the people."""
        kept = {f.name: getattr(self, f.name) for f in fields(self)}
        results = {
            "decision": self.decision.to_json(),
            "shifts": [s.to_json() for s in self.shifts],
        }
        left_out = ("people", "choice", *results)
        return {name: own for name, own in kept.items() if name not in left_out} | results

    def chosen(self) -> Any:
        """The people to treat alone."""
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
        Treat this part of the people; or
    budget : float, optional
        treat as many as the money pays for, at ``cost``; or neither, with ``cost`` and ``value``:
        the share, or budget, with the highest expected profit.
    cost : float, mapping or sequence, optional
        Of treating one person; with several arms one each, by label. By default those of the fit.
    value : float, optional
        Of one unit of the outcome.
    limits : Limits, optional
        With several arms: numbers of people, who may not get an arm, costs of single people.
    exclude : list of ids, optional
        People who may not be treated. Shares are of all others.
    reasons : bool, default False
        Add the columns that move the score of each of the chosen most.

    What to expect comes from the curve that was kept with the model. With limits, costs of single
    people or other cost ratios than those of the fit the policy is another one: nothing is known
    but the sum of the uplifts.

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
        raise InputError("limits", "left out with one arm", "some", "Leave them out.")
    costs, assumed = _costs(model, cost, budget, value, limits)
    terms = Terms(share=share, budget=budget, cost=costs, value=value)
    if limits.cost_column is None:
        check_terms(terms, evidence)
    rows = table_of(people, [*model.columns, *of_limits], model.roles.columns)
    names, scores, more, n_repeated = _once(model, rows, of_limits)
    kept, n_unknown = _kept(exclude, names, model)
    names, scores, more = names[kept], scores[kept], more[kept]
    n = len(scores)
    uplift = model.uplift_of(scores)
    prices = limits.costs(more, arms)
    missing, points, spend = None, None, 0.0
    if one_arm:
        choice, spend, points = _choose_one(model, terms, scores[:, 0])
    else:
        choice = _choose_arms(model, terms, uplift, prices, limits, more)
        curve = evidence.policy.curve
        factor = price_factor(curve, terms)
        missing = _unjudged(terms, factor, limits)
        if missing is None and factor is not None:
            by_people = terms.share is not None or not any(terms.cost or ())
            spent = choice.counts if by_people else np.multiply(choice.counts, costs or 1.0)
            spend = min(float(np.sum(spent)) / n / factor, float(curve.spend[-1]))
            away = np.abs(at(curve, spend)[0] - np.array(choice.counts) / n).max()
            if away > max(LARGE_SHIFT, 2 / np.sqrt(n)):
                missing = Missing(why=Why.OTHER_ARMS, got=float(away))
    shifts = tuple(
        one.quantiles.shift(own, len(arms))
        for one, own in zip(model.scorers, scores.T, strict=True)
    )
    missing = _unlike(model, shifts, choice, spend) or missing
    plan = plan_at(evidence, terms, n, spend, counts=choice.counts, missing=missing)
    if not kept.all() or any(own.is_large for own in shifts):
        # Guarantees hold for people like those of the trial only.
        plan = replace(plan, guaranteed=None)
        points = points and [replace(point, guaranteed=None) for point in points]
    chosen = np.flatnonzero(choice.arm >= 0)
    if prices is not None:
        plan = replace(plan, spend=float(prices[chosen, choice.arm[chosen]].sum()))
    # With costs of single people only the plan knows what is spent.
    asked = terms if prices is None else Terms(share=1.0)
    decision = decide(evidence, asked, n, plan=plan, points=points)
    is_own = one_arm and plan.missing is None and bool(kept.all()) and model.has_people(people)
    why = _reasons(model, rows, names, choice.arm) if reasons else None
    if is_own and plan.gain is not None:  # uplifts add up to the expected gain
        whole = plan_at(evidence, Terms(share=1.0), n, 1.0).gain
        order = np.lexsort((np.arange(n), choice.arm < 0, -scores[:, 0]))
        gains = plan.gain.value, whole.value if whole is not None else 0.0
        uplift[order, 0] = scaled_to_gain(uplift[order, 0], scores[order, 0], len(chosen), *gains)
    each = prices
    if prices is None and costs is not None:
        each = np.broadcast_to(np.array(costs), uplift.shape)
    listed_people = _list(model, names, scores, uplift, each, choice, why)
    total = float(uplift[chosen, choice.arm[chosen]].sum())
    return Targeting(
        people=as_given(listed_people, people, [model.roles.id]),
        choice=choice,
        decision=decision,
        shifts=shifts,
        uplift=total,
        is_own=is_own,
        assumed_costs=assumed,
        n_excluded=int((~kept).sum()),
        n_unknown_ids=n_unknown,
        n_repeated=n_repeated,
        n_nameless=int(_nameless(names, model.roles.id).sum()),
    )


def _costs(
    model: UpliftModel, cost: Any, budget: float | None, value: float | None, limits: Limits
) -> tuple[tuple[float, ...] | None, bool]:
    """The costs of the arms, and whether they are those of the fit."""
    if cost is not None and limits.cost_column is not None:
        raise InputError("cost", "left out with cost_column", "both", "Leave one out.")
    if cost is not None:
        return arm_costs(cost, model.arms), False
    own = model.evidence.policy.curve.costs
    if len(own) == 1 or set(own) == {1.0} or (budget is None and value is None):
        return None, False
    return (own, True) if limits.cost_column is None else (None, False)


def _choose_one(
    model: UpliftModel, terms: Terms, score: Floats
) -> tuple[Choice, float, list[Plan]]:
    """People from the highest score down, the share of the trial they stand for, other plans."""
    evidence, quantiles, n = model.evidence, model.scorers[0].quantiles, len(score)
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


def _choose_arms(
    model: UpliftModel,
    terms: Terms,
    uplift: Floats,
    prices: Floats | None,
    limits: Limits,
    frame: pd.DataFrame,
) -> Choice:
    n, arms = len(uplift), model.arms
    rules = limits.numbers(arms) | {"allowed": limits.allowed(frame, arms)}
    cost = prices if prices is not None else np.array(terms.cost or 1.0)
    if terms.share is not None:
        return choose(uplift, share=terms.share, **rules)
    budget = terms.budget
    factor = price_factor(model.evidence.policy.curve, terms)
    if budget is None and factor is not None and limits == Limits():
        budget = n * factor * best_spend(model.evidence, terms, n)
        return choose(uplift, cost=cost, budget=budget)
    return choose(uplift, cost=cost, budget=budget, value=terms.value, **rules)


def _unjudged(terms: Terms, factor: float | None, limits: Limits) -> Missing | None:
    """Why the trial has not judged this policy."""
    if limits != Limits():
        return Missing(why=Why.LIMITS)
    if factor is None:
        by_people = terms.share is not None
        return Missing(why=Why.PEOPLE_NOT_MONEY if by_people else Why.OTHER_COSTS)
    return None


def _unlike(
    model: UpliftModel, shifts: Sequence[ScoreShift], choice: Choice, spend: float
) -> Missing | None:
    """That people are not like those of the trial, by the scores of an arm that matters."""
    if not sum(choice.counts):
        return None
    given = (np.array(choice.counts) > 0) | (at(model.evidence.policy.curve, spend)[0] > 0)
    unlike = [k for k in np.flatnonzero(given).tolist() if shifts[k].is_unlike]
    if not unlike:
        return None
    k = max(unlike, key=lambda number: shifts[number].distance)
    own = shifts[k]
    return Missing(why=Why.UNLIKE_TRIAL, arm=model.arms[k], got=own.distance, needed=own.by_chance)


def _once(
    model: UpliftModel, table: pd.DataFrame, more: Sequence[str]
) -> tuple[pd.Series, Floats, pd.DataFrame, int]:
    """Ids (or rows from 1 on), scores (n, K), more columns, and the number of repeated rows.

    The index of the ids has their places in the table. The first row of an id counts, unless ids
    are groups.
    """
    id = model.roles.id
    scores = model.scores(table)
    names = pd.Series(np.arange(1, len(table) + 1), name="row")
    if id in table.columns:
        names = table[id].reset_index(drop=True)
    once = np.ones(len(names), dtype=bool)
    if id is not None and names.name == id != model.roles.groups:
        # People without an id may be anybody: they are not one person.
        once = ~names.duplicated().to_numpy(dtype=bool) | _nameless(names, id)
    columns = table[list(more)].reset_index(drop=True)
    return names[once], scores[once], columns[once], int((~once).sum())


def _nameless(names: pd.Series, id: str | None) -> Bools:
    """Whose id is missing or blank."""
    if id is None or names.name != id:
        return np.zeros(len(names), dtype=bool)
    found = names.isna()
    if names.dtype.kind == "O":
        found |= names.astype(str).str.strip() == ""
    return found.to_numpy(dtype=bool)


def _kept(exclude: Iterable[Any] | None, names: pd.Series, model: UpliftModel) -> tuple[Bools, int]:
    """(n,) the people who are not excluded, and the number of ids that nobody has."""
    if exclude is None:
        return np.ones(len(names), dtype=bool), 0
    id = model.roles.id
    if names.name != id:
        got = f"a table without the column {id!r}" if id else "a model without an id column"
        raise InputError(
            "exclude", "ids of the people in the table", got,
            "Add the column." if id else "Fit with id=, the column of ids.",
        )  # fmt: skip
    unwanted = np.unique(id_texts(pd.Series(list(exclude)), "the ids to exclude"))
    is_known = ~_nameless(names, id)
    texts = id_texts(names[is_known], f"the id {names.name!r}")
    out = np.zeros(len(names), dtype=bool)
    out[is_known] = np.isin(texts, unwanted)
    if out.all():
        raise InputError(
            "exclude", "ids that leave somebody to choose from",
            f"the ids of all {len(out):,} people", "Check the ids.",
        )  # fmt: skip
    if len(unwanted) and not out.any():
        raise InputError(
            "exclude", f"ids of the people, such as {texts[0]!r}",
            f"{len(unwanted):,} ids that nobody has, such as {unwanted[0]!r}",
            "Write them in the same way.",
        )  # fmt: skip
    return ~out, len(unwanted) - len(np.unique(texts[out[is_known]]))


def _reasons(
    model: UpliftModel, table: pd.DataFrame, names: pd.Series, arm: NDArray[np.intp]
) -> NDArray[Any]:
    """(n,) the reasons for the arm of each person; empty for those who get none."""
    place, found = names.index.to_numpy(), np.full(len(names), "", dtype=object)
    for k, scorer in enumerate(model.scorers):
        own = np.flatnonzero(arm == k)
        if len(own):
            others = others_of(scorer, table.head(_COMPARED_ROWS))
            found[own] = reasons_of(scorer, table.iloc[place[own]], others)
    return found


def _list(
    model: UpliftModel,
    names: pd.Series,
    scores: Floats,
    uplift: Floats,
    costs: Floats | None,
    choice: Choice,
    reasons: NDArray[Any] | None,
) -> pd.DataFrame:
    """The list of people.

    With one arm the highest scores come first. With several those come first who get an arm, from
    most uplift for the money down.
    """
    n, one_arm = len(uplift), len(model.arms) == 1
    rows, labels = np.arange(n), np.array(model.roles.arms, dtype=object)
    columns: dict[str, Any] = {"rank": rows + 1}
    if one_arm:
        order = np.lexsort((rows, choice.arm < 0, -scores[:, 0]))
        columns |= {"score": scores[order, 0], "uplift": uplift[order, 0]}
        columns |= {"decile": rows * 10 // n + 1, "arm": labels[choice.arm[order] + 1]}
    else:
        arm = np.where(choice.arm >= 0, choice.arm, uplift.argmax(axis=1))
        gain = uplift[rows, arm]
        price = np.ones(n) if costs is None else costs[rows, arm]
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = np.where(price > 0, gain / price, np.where(gain > 0, np.inf, gain))
        order = np.lexsort((rows, -gain, -rate, choice.arm < 0))
        columns["arm"] = labels[choice.arm[order] + 1]
        columns |= {f"uplift {own}": uplift[order, k] for k, own in enumerate(model.arms)}
        if costs is not None:
            columns["cost"] = np.where(choice.arm >= 0, price, 0.0)[order]
    if reasons is not None:
        columns["reasons"] = reasons[order]
    # An id may have the name of one of these columns.
    columns = {"auucmax_" * (name == names.name) + name: own for name, own in columns.items()}
    return pd.DataFrame({names.name: names.to_numpy()[order], **columns})
