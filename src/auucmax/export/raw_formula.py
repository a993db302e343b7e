"""The score formula in terms of raw columns: effects of columns, levels and missing values.

The encoder makes features of raw columns, and the formula weighs features; here both are combined.
Hinges and trees look at single features, which are effects of a raw column as well. SQL, ONNX and
JSON are written from this, so that they cannot differ in what they mean.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from auucmax._errors import InputError
from auucmax.encoding.columns import CYCLES, SHIFTS, Column, Term
from auucmax.encoding.encoder import TableEncoder
from auucmax.encoding.kinds import other_spellings
from auucmax.estimators.formula import Formula, Part, RankMean, TreeScores
from auucmax.targeting.choose import arm_costs, check_money

FORMAT = "auucmax model"
VERSION = 4
#: Terms that are computed once, however many parts weigh them.
_SHARED = ("base", "effect", *SHIFTS)

Knots = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Effect:
    """Effect of one raw column on a linear predictor.

    number, boolean, date:  per_unit * (value, or ``fill`` if missing) + (``missing`` if missing)
    category, code:         levels[value], or ``other`` if it is none of them, or ``missing``

    ``levels`` has a level that is true or false in all spellings of booleans.
    """

    column: str
    kind: str
    per_unit: float = 0.0
    fill: float = 0.0
    levels: tuple[tuple[str, float], ...] = ()
    other: float = 0.0
    missing: float = 0.0

    @property
    def has_levels(self) -> bool:
        """Whether the column is a category or a code."""
        return self.kind in ("category", "code")

    @property
    def when_missing(self) -> float:
        """Effect of a missing value.

        >>> Effect("age", "number", per_unit=0.5, fill=40.0, missing=1.0).when_missing
        21.0
        """
        return self.per_unit * self.fill + self.missing

    @property
    def is_zero(self) -> bool:
        """Whether the effect is 0 for all values."""
        weights = [weight for _, weight in self.levels]
        return not any((self.per_unit, self.other, self.missing, *weights))


@dataclass(frozen=True)
class Wave:
    """A feature of a date: sin(2 pi (days / period + shift)), to 6 digits; 0 if it is missing."""

    column: str
    period: float
    shift: float

    kind = "wave"


@dataclass(frozen=True)
class RawPart:
    """weight * link(intercept + sum of effects + features, hinges and sums of trees).

    Each of the latter is multiplied by a number: ``features``, ``hinges`` and ``trees`` have as
    many as the formula has of these.
    """

    weight: float
    link: str
    intercept: float
    effects: tuple[Effect, ...]
    features: tuple[float, ...]
    hinges: tuple[float, ...]
    trees: tuple[float, ...]


@dataclass(frozen=True)
class RawMember:
    """constant + sum of parts; if it has ``knots``, (score, rank) pairs, the rank of that."""

    constant: float
    parts: tuple[RawPart, ...]
    knots: Knots | None = None


@dataclass(frozen=True)
class RawFormula:
    """score = mean over members.

    ``columns`` names the raw columns that it reads, each with its kind, in the order of training.
    ``features`` are what hinges and trees look at, or what is costly to compute, each an effect or
    a wave. ``hinges`` are pairs (k, q) that stand for max(feature k - q, 0); the nodes of ``trees``
    have numbers of features.
    """

    members: tuple[RawMember, ...]
    columns: tuple[tuple[str, str], ...]
    features: tuple[Effect | Wave, ...]
    hinges: tuple[tuple[int, float], ...]
    trees: tuple[TreeScores, ...]


@dataclass(frozen=True)
class RawArm:
    """One arm: its score, and uplift = calibration(score) + slope (score - centre).

    The calibration is straight lines between ``knots``, (score, uplift) pairs, and constant
    outside. ``names`` are those of score and uplift in the result.
    """

    label: str
    names: tuple[str, str]
    score: RawFormula
    knots: Knots
    slope: float
    centre: float
    cost: float


@dataclass(frozen=True)
class RawModel:
    """All arms; a person gets the arm with the highest positive value * uplift - cost."""

    control: str
    arms: tuple[RawArm, ...]
    value: float

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Names and kinds of the raw columns, without repeats."""
        return list(dict.fromkeys(column for arm in self.arms for column in arm.score.columns))

    @property
    def names(self) -> list[str]:
        """Names of all output columns."""
        return [*(name for arm in self.arms for name in arm.names), "arm"]


def raw_model(model: Any, cost: Any = None, value: float | None = None) -> RawModel:
    """Raw formulas of an ``UpliftModel``; by default the arm with the highest uplift wins."""
    if (cost is None) != (value is None):
        given, absent = ("value", "cost") if cost is None else ("cost", "value")
        raise InputError(
            absent, f"an amount, where {given} is given", "none",
            "Pass cost, that of treating a person, and value, that of one unit of the outcome, "
            "or neither.",
        )  # fmt: skip
    control, *labels = model.roles.arms
    names = model.score_names
    costs = (0.0,) * len(labels) if cost is None else arm_costs(cost, labels)
    arms = [
        RawArm(
            label=label,
            names=(names[2 * k], names[2 * k + 1]),
            score=raw_formula(own.encoder, own.formula),
            knots=tuple(zip(own.calibration.score, own.calibration.uplift, strict=True)),
            slope=own.slope,
            centre=own.centre,
            cost=price,
        )
        for k, (label, own, price) in enumerate(zip(labels, model.scorers, costs, strict=True))
    ]
    return RawModel(control, tuple(arms), 1.0 if value is None else check_money(value, "value"))


def raw_formula(encoder: TableEncoder, formula: Formula | RankMean) -> RawFormula:
    """The score as a formula of raw columns."""
    members: tuple[Formula, ...] = (formula,) if isinstance(formula, Formula) else formula.members
    ranks = [None] * len(members) if isinstance(formula, Formula) else formula.knots
    shared = {k for k, term in enumerate(encoder.terms_) if term.kind in _SHARED}
    hinges = list(dict.fromkeys(hinge for member in members for hinge in member.hinges))
    trees = [own for member in members for own in member.trees]
    looked_at = {c for c, _ in hinges}
    for own in trees:
        looked_at |= set(own.feature[own.left != np.arange(len(own.left))].tolist())
    looked_at |= {k for k in shared for m in members for part in m.parts if part.coef[k] != 0}
    place = {feature: k for k, feature in enumerate(sorted(looked_at))}

    def raw_part(member: Formula, part: Part, n_before: int) -> RawPart:
        n_features = len(encoder.terms_)
        weights = part.coef.tolist()
        n_bent = n_features + len(member.hinges)
        bent = dict(zip(member.hinges, weights[n_features:n_bent], strict=True))
        of_trees = [0.0] * len(trees)
        of_trees[n_before : n_before + len(member.trees)] = weights[n_bent:]
        plain = [(t, w) for t, w in zip(encoder.terms_, weights, strict=False)
                 if t.kind not in _SHARED]  # fmt: skip
        effects = [
            _effect(column, own)
            for column in encoder.columns_
            if (own := [(t, w) for t, w in plain if t.column == column.name])
        ]
        return RawPart(
            weight=float(part.weight),
            link=part.link,
            intercept=float(part.intercept),
            effects=tuple(effects),
            features=tuple(weights[k] if k in shared else 0.0 for k in place),
            hinges=tuple(bent.get(hinge, 0.0) for hinge in hinges),
            trees=tuple(of_trees),
        )

    raw = []
    n_before = 0
    for member, knots in zip(members, ranks, strict=True):
        parts = tuple(raw_part(member, part, n_before) for part in member.parts)
        pairs = None if knots is None else tuple(zip(*knots.tolist(), strict=True))
        raw.append(RawMember(float(member.constant), parts, pairs))
        n_before += len(member.trees)
    return RawFormula(
        members=tuple(raw),
        columns=tuple((c.name, c.kind) for c in encoder.columns_),
        features=tuple(_feature(encoder, feature) for feature in place),
        hinges=tuple((place[c], float(q)) for c, q in hinges),
        trees=tuple(
            replace(own, feature=np.array([place.get(k, 0) for k in own.feature.tolist()]))
            for own in trees
        ),
    )


def _feature(encoder: TableEncoder, number: int) -> Effect | Wave:
    """A single encoder feature as the effect of its column."""
    term = encoder.terms_[number]
    if term.kind in SHIFTS:
        return Wave(term.column, CYCLES[str(term.level)], SHIFTS[term.kind])
    (column,) = (c for c in encoder.columns_ if c.name == term.column)
    return _effect(column, [(own, float(own == term)) for own in column.terms])


def _effect(column: Column, weighted: Iterable[tuple[Term, float]]) -> Effect:
    """Combined effect of a column's terms, which contain no waves."""
    sums = dict.fromkeys(("value", "missing", "other", *_SHARED), 0.0)
    levels: dict[str, float] = {}
    fill = 0.0
    for term, weight in weighted:
        if term.kind == "level":
            levels[str(term.level)] = weight
        else:
            sums[term.kind] += weight
        if term.kind == "value":
            fill = float(term.fill)
    for kind in column.outcome_terms:
        *of_levels, of_other = getattr(column, kind)
        for level, number in zip(column.levels, of_levels, strict=True):
            levels[level] = levels.get(level, 0.0) + sums[kind] * number
        sums["other"] += sums[kind] * of_other
    spelt = {text: levels[own] for text, own in other_spellings(levels).items()}
    return Effect(
        column=column.name,
        kind=column.kind,
        per_unit=sums["value"],
        fill=fill,
        levels=tuple((levels | spelt).items()),
        other=sums["other"],
        missing=sums["missing"],
    )


def check_names(result: Iterable[str], columns: Iterable[str]) -> None:
    """Raise an InputError if column names clash, ignoring case."""
    names = sorted((name.casefold(), name) for name in (*columns, *result))
    for (first, _), (second, name) in pairwise(names):
        if first == second:
            raise InputError(
                "keep", "columns of different names in the result", f"{name!r} twice",
                "Keep fewer columns, or rename the column or the arm and fit again.",
            )  # fmt: skip


def to_json(model: Any, *, cost: Any = None, value: float | None = None) -> str:
    """Export a model as JSON text, from which any program can compute scores.

        score = mean over members of F(constant + sum_k weight_k link_k(z_k))
        z_k = intercept_k + what each raw column adds, and features, and hinges, and trees
        uplift = calibration(score) + slope (score - centre)

    A person gets the arm of the highest value * uplift - cost, or the control if none is above 0.

    Parameters
    ----------
    model : ``UpliftModel``.
    cost, value : as in :func:`auucmax.export.to_sql`.

    Examples
    --------
    >>> from auucmax import fit, make_trial
    >>> model = fit(make_trial(2_000, random_state=0), "tm")
    >>> arm, = json.loads(to_json(model))["arms"]
    >>> [part["link"] for part in arm["score"]["members"][0]["parts"]]
    ['sigmoid', 'sigmoid']
    """
    raw = raw_model(model, cost, value)
    plain = {
        "format": FORMAT,
        "version": VERSION,
        "control": raw.control,
        "value": raw.value,
        "arms": [
            {
                "label": arm.label,
                "score": _score_entry(arm.score) | {"calibration": _knots(arm.knots, "uplift")},
                "slope": arm.slope,
                "centre": arm.centre,
                "cost": arm.cost,
            }
            for arm in raw.arms
        ],
    }
    return json.dumps(plain, ensure_ascii=False, allow_nan=False, indent=2)


def _score_entry(formula: RawFormula) -> dict[str, Any]:
    return {
        "columns": [{"name": name, "kind": kind} for name, kind in formula.columns],
        "features": [_effect_entry(effect) for effect in formula.features],
        "hinges": [{"feature": k, "above": q} for k, q in formula.hinges],
        # A leaf is a number, a node [feature, threshold, tree if at most, tree if more].
        "trees": [nested(own, float, lambda *node: node) for own in formula.trees],
        "members": [
            {
                "constant": member.constant,
                "parts": [
                    vars(part) | {"effects": [_effect_entry(effect) for effect in part.effects]}
                    for part in member.parts
                ],
                "ranks": None if member.knots is None else _knots(member.knots, "rank"),
            }
            for member in formula.members
        ],
    }


def _knots(knots: Knots, name: str) -> dict[str, Any]:
    scores, heights = zip(*knots, strict=True)
    return {"score": scores, name: heights}


def nested(
    trees: TreeScores, leaf: Callable[[float], Any], branch: Callable[[int, float, Any, Any], Any]
) -> list[Any]:
    """Each tree as nested expressions: ``branch`` joins feature, threshold and the two sides."""
    found: dict[int, Any] = {}
    for node in range(len(trees.feature) - 1, -1, -1):  # children come after their parents
        left, right = int(trees.left[node]), int(trees.right[node])
        if left == node:
            found[node] = leaf(float(trees.value[node]))
        else:
            cut = int(trees.feature[node]), float(trees.threshold[node])
            found[node] = branch(*cut, found.pop(left), found.pop(right))
    return [found[int(root)] for root in trees.roots]


def _effect_entry(effect: Effect | Wave) -> dict[str, Any]:
    plain = vars(effect) | {"kind": effect.kind}
    if isinstance(effect, Wave):
        return plain
    plain["levels"] = dict(effect.levels)
    own = ("levels", "other") if effect.has_levels else ("per_unit", "fill")
    return {name: plain[name] for name in ("column", "kind", *own, "missing")}
