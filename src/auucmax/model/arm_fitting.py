"""From a table of trial rows with several arms to a model of each arm, and of their policy."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._json import plain
from auucmax._progress import working_on
from auucmax._validation import Floats, control_among, listed
from auucmax.certificates.known_chances import ChancesBeyond
from auucmax.data.binning import binned
from auucmax.data.reading import table_of
from auucmax.encoding.kinds import arm_text
from auucmax.metrics.arm_policy import Policy
from auucmax.model.arm_evidence import (
    ArmsEvidence,
    FixedBudget,
    JudgedArms,
    PolicyChunkRows,
    arms_at,
    guides,
    policy_certificate,
    policy_curve,
    segments_told,
    top_shares,
    with_provisos,
)
from auucmax.model.arms import TILT, AllRows, ArmsModel
from auucmax.model.by_name import rivals_of
from auucmax.model.columns import ColumnNames, arm_counts, name_columns
from auucmax.model.crossfit import (
    LEAST,
    OutOfFold,
    Recipe,
    TableRows,
    number_of_folds,
)
from auucmax.model.fitting import (
    FitPlan,
    calibrated,
    check_options,
    checked,
    collected,
    fit_checked,
    new_recipe,
)
from auucmax.model.judging import ranks_within
from auucmax.model.model import TrialModel
from auucmax.model.people import describe_arms
from auucmax.model.segments_old import arm_segments_of
from auucmax.targeting.policy import check_money

PEOPLE_PART = 0.3  #: of the largest budget, at which it is told who gets which arm


def fit_arms_model(
    table: Any,
    *,
    treatment: str,
    outcome: str,
    control: Any = None,
    cost: Mapping[Any, float] | None = None,
    budget: float | None = None,
    despite_check: bool = False,
    model: str = "auto",
    n_candidates: int = 1,
    random_state: int | np.random.Generator | None = 0,
    **columns: Any,
) -> ArmsModel:
    """Fit a model of each arm of a trial against its control, and judge their policy.

    All labels of the treatment but that of the control are arms; one with fewer than 40 rows is
    left out, with a warning. Each arm is fitted and judged as by :func:`fit_trial_model`. The
    policy, who gets which arm at every budget, is judged on the rows of all arms by uplifts of
    models that have not learnt from them.

    Parameters
    ----------
    table, treatment, outcome : as in :func:`fit_trial_model`.
    control : label of the control; None: the label "control".
    cost : of giving each arm to a person, by label. What the policy gains is kept for these costs;
        None: 1 for each arm, where a budget is a number of people. Other costs can be given when
        people are chosen; what to expect then has no interval.
    budget : money per person, fixed before looking at the rows, at which the policy is certified.
    despite_check, model, n_candidates, random_state : as there.
    columns : ``id``, ``groups``, ``features``, ``ignore``, ``after``, ``lower_is_better``,
        ``drop_missing_outcomes``, ``categorical``, ``numeric``, ``outcome_range``, as there;
        ``propensity``: by label, the column with the chance of each arm, where chances differed by
        design; or the word that such columns begin with, "chance" for "chance LABEL".

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial, _ = load_hillstrom(arm="all").split(test_size=0.9, random_state=0)
    >>> table = trial.X.assign(visit=trial.y, segment=trial.treatment)
    >>> model = fit_arms_model(
    ...     table, treatment="segment", outcome="visit", control="No E-Mail", model="tm"
    ... )
    >>> model.labels
    ['Mens E-Mail', 'Womens E-Mail']
    >>> model.uplift(table.head(3)).shape
    (3, 2)
    """
    table = table_of(table)
    check_options(model, 0.0)
    with collected() as messages:
        named, labels = _named(table, str(treatment), outcome, control, columns)
        prices = check_arm_costs(cost, labels, "cost")
        fixed = None if budget is None else _fixed(budget, prices)
        recipe = new_recipe(model, 0.0, n_candidates, random_state)
        tables, plans = [], []
        for label in labels:
            with working_on(f"checking {label}"):
                rows = TableRows(table, replace(named, treated=label), recipe.key)
                rivals = rivals_of(model, rows)
                check = checked(rows, despite_check)
            tables.append(rows)
            plans.append(FitPlan(recipe, rivals, check))
        # As many folds as the arm with the fewest rows needs, the same for all.
        recipe = replace(recipe, n_folds=max(number_of_folds(t, recipe.key) for t in tables))
        plans = [plan._replace(recipe=recipe) for plan in plans]
        everybody = AllRows.of(tables)
        models, apart = _fitted(everybody, tables, plans, labels)
        with working_on("judging the policy"):
            policy = _policy(everybody, apart, recipe, dict(zip(labels, prices, strict=True)))
            told = _certified(everybody, apart, recipe, fixed)
    policy["certificate"] = told if isinstance(told, dict) else None
    policy["notes"] += [told] if isinstance(told, str) else []
    evidence = {label: one.evidence for label, one in models.items()}
    policy = with_provisos(policy, [one["randomisation"] for one in evidence.values()])
    facts = ArmsEvidence.of(evidence, policy).facts
    lost = {named.control: tables[0].raw.lost[0]}
    lost |= {label: one.raw.lost[1] for label, one in zip(labels, tables, strict=True)}
    return ArmsModel(models, facts, plain({"warnings": messages, "without_outcome": lost}))


def _fitted(
    everybody: AllRows,
    tables: Sequence[TableRows],
    plans: Sequence[FitPlan],
    labels: Sequence[str],
) -> tuple[dict[str, TrialModel], list[_Apart]]:
    """The model of each arm, and what models of its folds say of the rows of all arms."""
    models, apart = {}, []
    for k, (label, rows, plan) in enumerate(zip(labels, tables, plans, strict=True)):
        others = [one for j, one in enumerate(everybody.tables) if j not in (0, k + 1)]
        with working_on(f"fitting {plan.recipe.model} for {label}") as work:
            models[label], found = fit_checked(rows, plan, work, others)
        assert found is not None  # without a hold-out there are folds
        apart.append(_Apart(rows, found, k, models[label].evidence.expected.share))
    return models, apart


def _named(
    table: pd.DataFrame,
    treatment: str,
    outcome: str,
    control: Any,
    columns: Mapping[str, Any],
) -> tuple[ColumnNames, list[str]]:
    """Which column plays which part, and the labels of the arms that have rows enough."""
    counts = arm_counts(table, treatment)
    own = control_among(counts) if control is None else arm_text(control)
    if own not in counts:
        raise ValueError(
            f"control should be one of the labels of {treatment!r}, {listed(sorted(counts))}; got "
            f"{own!r}. {'Pass control=...' if own is None else 'Check the spelling.'}"
        )
    few = {label: n for label, n in counts.items() if n < 2 * LEAST and label != own}
    labels = sorted(label for label in counts if label != own and label not in few)
    if few:
        told = ", ".join(f"{label!r} {n:,}" for label, n in sorted(few.items()))
        warnings.warn(
            f"each arm should have at least {2 * LEAST} rows, got {told}: left out.",
            UserWarning,
            stacklevel=3,
        )
    if len(labels) < 2:
        raise ValueError(
            f"{treatment!r} should hold at least two arms of {2 * LEAST} rows beside the control "
            f"{own!r}, got {listed(labels) or 'none'}. Collect more rows, or pass treated=... to "
            f"fit one arm."
        )
    named = name_columns(
        table, treatment=treatment, outcome=outcome, treated=labels[0], control=own, **columns
    )
    if isinstance(named.propensity, str):
        raise ValueError(
            f"propensity should name a column with the chance of each arm, got "
            f"{named.propensity!r} for {listed(labels)}. Name them by arm, as in "
            f'"A=chance A,B=chance B" (in Python: a mapping of labels to columns).'
        )
    if named.propensity is not None and few:
        raise ValueError(
            f"with propensity each arm should have at least {2 * LEAST} rows, got "
            f"{listed(sorted(few))} with fewer: without them, the others would not stand for all "
            f"people. Leave propensity= out, or collect more rows."
        )
    return named, labels


def check_arm_costs(
    cost: Mapping[Any, float] | None, labels: Sequence[str], name: str
) -> tuple[float, ...]:
    """(K,) what each arm costs a person: 1 each if nothing is said."""
    if cost is None:
        return (1.0,) * len(labels)
    given = {arm_text(label): value for label, value in cost.items()}
    check_arm_names(given, labels, name)
    if missing := [label for label in labels if label not in given]:
        raise ValueError(
            f"{name} should tell that of every arm, got none for {listed(missing)}. Pass 0 for an "
            f"arm that costs nothing."
        )
    return tuple(check_money(given[label], f"{name} of {label!r}") for label in labels)


def check_arm_names(given: Mapping[str, Any], labels: Sequence[str], name: str) -> None:
    """ValueError for labels of no arm."""
    if unknown := [label for label in given if label not in labels]:
        raise ValueError(
            f"{name} should name arms, {listed(labels)}; got {listed(unknown)}. Check the spelling."
        )


class _Apart(NamedTuple):
    """The rows of an arm and the control, what models of folds and chunks say, its place, and
    the shares that its evidence tells."""

    rows: TableRows
    found: OutOfFold
    place: int
    share: Floats

    def top_shares(self, everybody: AllRows) -> tuple[Policy, Floats]:
        """What the evidence of the arm tells, among the rows of all arms."""
        own, n_people = everybody.places_of(self.rows, self.place), sum(everybody.counts())
        return top_shares(self.ranks, own, self.place, n_people, self.share, self.rows.people)

    def scores(self) -> Floats:
        """(2, n) scores of the rows of all arms, by the models of their folds and chunks."""
        own, *others = self.found.scores
        treated = self.rows.treated
        others.insert(self.place, own[:, treated])
        return np.concatenate([own[:, ~treated], *others], axis=1)

    @property
    def ranks(self) -> Floats:
        """(own rows,) ranks within their folds, by the models of the folds."""
        return next(iter(self.found.ranks.values()))


def _policy(
    everybody: AllRows, apart: Sequence[_Apart], recipe: Recipe, costs: Mapping[str, float]
) -> dict[str, Any]:
    """What the policy gains at these costs.

    Policies of other costs are others for a few people: what they gain would tell of these.
    """
    judged = everybody.judged(np.column_stack([_uplifts(everybody, one, recipe) for one in apart]))
    judged = judged._replace(fold=recipe.folds(everybody.keys))
    known = [one.top_shares(everybody) for one in apart]
    control = apart[0].rows.columns.control
    return {
        "control": control,
        "rows": dict(zip((control, *costs), everybody.counts(), strict=True)),
        "level": 0.95,
        "tilt": _tilt(judged.y),
        "curves": [policy_curve(judged, costs, known=known)],
        **_people(everybody, apart, judged, costs, recipe),
        "notes": [
            f"Every row was given its arm by models of the other {recipe.n_folds - 1} of "
            f"{recipe.n_folds} folds, which had not seen it; the best single arm, and the arm for "
            f"everybody, were chosen with all rows, which is in their favour.",
            *everybody.chances_told,
        ],
    }


def _people(
    everybody: AllRows,
    apart: Sequence[_Apart],
    judged: JudgedArms,
    costs: Mapping[str, float],
    recipe: Recipe,
) -> dict[str, Any]:
    """Who gets each arm, against all others, where a part of the largest budget is spent; and
    segments with effects of the arms."""
    price = np.array(list(costs.values()))
    budget = PEOPLE_PART * float(price.max())
    given = arms_at(judged.uplift, price, budget)
    frames, places = [], []
    for k, one in enumerate(apart):
        own = one.rows.treated | (k == 0)  # the control rows once
        frames.append(one.rows.features[own])
        places.append(everybody.places_of(one.rows, k)[own])
    columns = binned(pd.concat(frames, ignore_index=True))
    some = np.concatenate(places)
    told = describe_arms(columns, given[some], list(costs))
    people = {"part": PEOPLE_PART, "budget": budget, "arms": told}
    if judged.groups is not None or judged.chance is not None or judged.fold is None:
        return {"people": people, "segments": None}
    learn = judged.fold[some] < recipe.n_folds // 2
    bounded = apart[0].rows.columns.bounded(judged.y)
    found = arm_segments_of(columns, judged.y[some], judged.arm[some], learn, bounded)
    control = apart[0].rows.columns.control
    return {"people": people, "segments": segments_told(found, [control, *costs])}


def _tilt(y: Floats) -> float:
    return TILT * float(y.std())


def _fixed(budget: float, prices: tuple[float, ...]) -> FixedBudget:
    budget = check_money(budget, "budget")
    if budget > max(prices) > 0:
        raise ValueError(
            f"budget should be money per person here, at most the cost of the dearest arm, "
            f"{max(prices):g}; got {budget:g}. Divide what all people may cost by their number."
        )
    return FixedBudget(budget, prices)


def _uplifts(everybody: AllRows, apart: _Apart, recipe: Recipe) -> Floats:
    """(n,) uplift of an arm for all rows, by models of other folds.

    The calibration for a fold is learnt from the rows of the others, whose ranks come from models
    that learnt from this fold, too. Intervals allow for that as for the models themselves; the
    certificate has calibrations of earlier chunks.
    """
    own, fold = apart.found.fold, recipe.folds(everybody.keys)
    score, judged = apart.scores()[0], apart.rows.judged(apart.ranks)
    rank, uplift = np.full(len(fold), 0.5), np.empty(len(fold))
    for k in np.unique(fold):
        inside = fold == k
        if (own == k).any():
            rank[inside] = _ranks_among(score[inside], apart.found.scores[0][0, own == k])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the calibration of all rows told it
            uplift[inside] = calibrated(judged, own != k)(rank[inside])
    return uplift + _tilt(everybody.y) * (rank - 0.5)


def _ranks_among(score: Floats, others: Floats) -> Floats:
    """(n,) the share of others of a lower score, equal ones half.

    >>> _ranks_among(np.array([1.0, 2.5, 9.0]), np.array([1.0, 2.0, 3.0, 1.0])).tolist()
    [0.25, 0.75, 1.0]
    """
    ordered = np.sort(others)
    below, reached = (np.searchsorted(ordered, score, side=side) for side in ("left", "right"))
    return np.asarray((below + reached) / (2 * len(ordered)))


def _certified(
    everybody: AllRows, apart: Sequence[_Apart], recipe: Recipe, fixed: FixedBudget | None
) -> dict[str, Any] | str:
    """The certificate of the policy, or why there is none."""
    columns, arm = apart[0].rows.columns, everybody.arm
    y, bounded = everybody.y, columns.bounded(everybody.y)
    chunk = recipe.folds(everybody.keys) // recipe.per_chunk
    score = np.stack([one.scores()[1] for one in apart])
    is_scored = ~np.isnan(score).any(axis=0)
    bet_on = [k for k in range(1, recipe.n_chunks) if is_scored[chunk == k].all()]
    if fixed is None:
        return (
            "The policy has no certificate: pass budget=, the money per person, fixed before "
            "looking at the rows."
        )
    if bounded is None or columns.groups is not None or not bet_on:
        why = "too few rows to learn from a part of them"
        why = "outcomes have no range" if bounded is None else why
        why = "rows come in groups" if columns.groups is not None else why
        return f"The policy has no certificate: {why}."
    guide, chunks, chance = guides(everybody.keys), [], everybody.chances
    for k in bet_on:
        inside = chunk == k
        uplift = np.column_stack(
            [_chunk_uplift(arm, k, bet_on, inside, guide, own, recipe)
             for arm, own in zip(apart, score, strict=True)]
        )  # fmt: skip
        own_chance = None if chance is None else chance[inside]
        chunks.append(PolicyChunkRows(y[inside], arm[inside], uplift, guide[inside], own_chance))
    before = chunk < bet_on[0]
    first = y[before], arm[before], None if chance is None else chance[before]
    try:
        found = policy_certificate(first, chunks, fixed, bounded, recipe.n_candidates)
    except ChancesBeyond as error:
        return f"The policy has no certificate: {error}"
    if not np.isfinite(found["gain_lower_bound"]):
        return "The policy has no certificate: a part of the rows lacks an arm."
    return found


def _chunk_uplift(
    apart: _Apart,
    k: int,
    bet_on: Sequence[int],
    inside: NDArray[np.bool_],
    guide: NDArray[np.bool_],
    score: Floats,
    recipe: Recipe,
) -> Floats:
    """(rows of chunk k,) uplifts of an arm by the chunks before, and ranks among the guides."""
    chunk, rows = apart.found.fold // recipe.per_chunk, apart.rows
    rank = _ranks_among(score[inside], score[inside & guide])
    tilted = _tilt(rows.y[chunk < k]) * (rank - 0.5)
    earlier = np.isin(chunk, [j for j in bet_on if j < k])
    if not earlier.any():  # nothing was ranked yet: everybody gets the average effect
        y, treated, weight = rows.y[chunk < k], rows.treated[chunk < k], rows.weight
        weight = np.ones(len(chunk)) if weight is None else weight
        means = [np.average(y[own], weights=weight[chunk < k][own]) for own in (treated, ~treated)]
        return tilted + means[0] - means[1]
    own = apart.found.scores[0][1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        known = rows.judged(ranks_within(own[earlier], chunk[earlier]), earlier)
        return tilted + calibrated(known)(rank)
