"""A score in the units of the raw table: what each column, level and gap adds to it.

The encoder makes features of raw columns, and the formula weighs features; here both are folded
into one. Hinges and trees look at single features, which are effects of a raw column as well.
Every export is written from it, so that they cannot differ in what they mean.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np

from auucmax.encoding.columns import CYCLES, SHIFTS, Column, Term
from auucmax.encoding.encoder import TableEncoder
from auucmax.encoding.kinds import other_spellings
from auucmax.estimators.formula import LINKS, Formula, Part, RankMean
from auucmax.estimators.trees import TreeScores

T = TypeVar("T")

FORMAT = "auucmax score"
VERSION = 3
#: Terms that are computed once, however many parts weigh them.
_SHARED = ("base", "effect", *SHIFTS)


def to_json(encoder: TableEncoder, scorer: Any, *, calibration: Any = None) -> str:
    """The score as JSON text, so that any program can compute it; docs/export.md has one.

        score = mean over members of F(constant + sum_k weight_k link_k(z_k))
        z_k = intercept_k + what each raw column adds, and features, and hinges, and trees

    Parameters
    ----------
    encoder : fitted ``TableEncoder``.
    scorer : ``Formula``, ``RankMean`` or fitted estimator that is one; see ``formula_of``.
    calibration : ``Calibration`` or None; its knots are written too.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from auucmax.estimators.formula import Formula, Part
    >>> encoder = TableEncoder(min_level_rows=1).fit(pd.DataFrame({"age": [30.0, 40.0, 50.0]}))
    >>> formula = Formula((Part(2.0, "sigmoid", -1.0, np.array([0.5])),))
    >>> json.loads(to_json(encoder, formula))["members"][0]["parts"][0]["effects"]
    [{'column': 'age', 'kind': 'number', 'per_unit': 0.5, 'fill': 40.0, 'missing': 0.0}]
    """
    formula = raw_formula(encoder, scorer)
    plain = {
        "format": FORMAT,
        "version": VERSION,
        "columns": [{"name": name, "kind": kind} for name, kind in formula.columns],
        "features": [_effect_entry(effect) for effect in formula.features],
        "hinges": [{"feature": k, "above": q} for k, q in formula.hinges],
        "trees": [_tree_entries(trees) for trees in formula.trees],
        "members": [_member_entry(member) for member in formula.members],
        "calibration": None,
    }
    if calibration is not None:
        scores, uplifts = zip(*knots_of(calibration), strict=True)
        plain["calibration"] = {"score": scores, "uplift": uplifts}
    return json.dumps(plain, ensure_ascii=False, allow_nan=False, indent=2)


class ArmScore(NamedTuple):
    """The score of one of several arms, and what makes an uplift of it.

    uplift = calibration(score) + slope (score - centre), and the arm is worth value * uplift - cost
    to a person.
    """

    label: str
    encoder: TableEncoder
    scorer: Any
    calibration: Any
    slope: float = 0.0
    centre: float = 0.0
    cost: float = 0.0

    @property
    def score_name(self) -> str:
        return f"score {self.label}"

    @property
    def uplift_name(self) -> str:
        return f"uplift {self.label}"


def arms_to_json(arms: Sequence[ArmScore], *, control: str, value: float = 1.0) -> str:
    """Several arms as JSON text: for each its score as of :func:`to_json`, slope, centre and cost.

    A person is given the arm of the highest value * uplift - cost, or the control if none is above
    0; see :class:`ArmScore`.
    """
    plain = {
        "format": "auucmax arms",
        "version": 1,
        "control": control,
        "value": value,
        "arms": [
            {
                "label": arm.label,
                "slope": arm.slope,
                "centre": arm.centre,
                "cost": arm.cost,
                "score": json.loads(to_json(arm.encoder, arm.scorer, calibration=arm.calibration)),
            }
            for arm in arms
        ],
    }
    return json.dumps(plain, ensure_ascii=False, allow_nan=False, indent=2)


def _member_entry(member: RawMember) -> dict[str, Any]:
    parts = [
        vars(part) | {"effects": [_effect_entry(effect) for effect in part.effects]}
        for part in member.parts
    ]
    ranks = None
    if member.knots is not None:
        scores, of_scores = zip(*member.knots, strict=True)
        ranks = {"score": scores, "rank": of_scores}
    return {"constant": member.constant, "parts": parts, "ranks": ranks}


def _tree_entries(trees: TreeScores) -> list[Any]:
    """Each tree as a leaf's number, or [feature, threshold, tree if at most, tree if more]."""
    found: dict[int, Any] = {}
    for node in range(len(trees.feature) - 1, -1, -1):  # children come after their parents
        left, right = int(trees.left[node]), int(trees.right[node])
        found[node] = float(trees.value[node])
        if left != node:
            cut = int(trees.feature[node]), float(trees.threshold[node])
            found[node] = [*cut, found.pop(left), found.pop(right)]
    return [found[int(root)] for root in trees.roots]


def _effect_entry(effect: Effect | Wave) -> dict[str, Any]:
    if isinstance(effect, Wave):
        return {"column": effect.column, "kind": effect.kind} | vars(effect)
    plain = vars(effect) | {"levels": dict(effect.levels)}
    own = ("levels", "other") if effect.kind in ("category", "code") else ("per_unit", "fill")
    return {name: plain[name] for name in ("column", "kind", *own, "missing")}


@dataclass(frozen=True)
class Effect:
    """What one raw column adds to a linear predictor.

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
    def when_missing(self) -> float:
        """What a missing value adds.

        >>> Effect("age", "number", per_unit=0.5, fill=40.0, missing=1.0).when_missing
        21.0
        """
        return self.per_unit * self.fill + self.missing

    @property
    def is_zero(self) -> bool:
        """Whether no value of the column changes anything."""
        weights = [weight for _, weight in self.levels]
        return not any((self.per_unit, self.other, self.missing, *weights))


@dataclass(frozen=True)
class Wave:
    """A feature of a date: sin(2 pi (days / period + shift)), to 6 digits; 0 if it is missing."""

    column: str
    period: float
    shift: float

    @property
    def kind(self) -> str:
        """What tells it from effects."""
        return "wave"


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
    features: tuple[float, ...] = ()
    hinges: tuple[float, ...] = ()
    trees: tuple[float, ...] = ()


@dataclass(frozen=True)
class RawMember:
    """constant + sum of parts; if it has ``knots``, (score, rank) pairs, the rank of that."""

    constant: float
    parts: tuple[RawPart, ...]
    knots: tuple[tuple[float, float], ...] | None = None


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
    features: tuple[Effect | Wave, ...] = ()
    hinges: tuple[tuple[int, float], ...] = ()
    trees: tuple[TreeScores, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether it is one sum of parts that are linear in the raw columns."""
        ranked = any(member.knots is not None for member in self.members)
        return not (self.features or self.trees or ranked or len(self.members) > 1)


def raw_formula(encoder: TableEncoder, scorer: Any) -> RawFormula:
    """The score of raw rows, from a fitted encoder and a scorer, both as of :func:`to_json`."""
    formula = checked_formula(encoder, scorer)
    members: tuple[Formula, ...] = (formula,) if isinstance(formula, Formula) else formula.members
    ranks = [None] if isinstance(formula, Formula) else formula.knots
    hinges = dict.fromkeys(hinge for member in members for hinge in member.hinges)
    trees = tuple(trees for member in members for trees in member.trees)
    looked_at = {c for c, _ in hinges}.union(*(_split_features(t) for t in trees))
    parts = [part for member in members for part in member.parts]
    looked_at |= {k for k in _shared(encoder) if any(part.coef[k] != 0 for part in parts)}
    place = {feature: k for k, feature in enumerate(sorted(looked_at))}
    n_before, raw = 0, []
    for member, knots in zip(members, ranks, strict=True):
        of_hinges = [list(hinges).index(hinge) for hinge in member.hinges]
        of_trees = list(range(n_before, n_before + len(member.trees)))
        n_before += len(member.trees)
        spread = (len(hinges), of_hinges), (len(trees), of_trees)
        own = [_raw_part(encoder, part, list(place), *spread) for part in member.parts]
        pairs = None if knots is None else tuple(zip(*knots.tolist(), strict=True))
        raw.append(RawMember(float(member.constant), tuple(own), pairs))
    used = {term.column for term in encoder.terms_}
    return RawFormula(
        tuple(raw),
        tuple((c.name, c.kind) for c in encoder.columns_ if c.name in used),
        tuple(_feature(encoder, feature) for feature in place),
        tuple((place[c], float(q)) for c, q in hinges),
        tuple(_renumbered(t, place) for t in trees),
    )


def _raw_part(
    encoder: TableEncoder,
    part: Part,
    looked_at: list[int],
    hinges: tuple[int, list[int]],
    trees: tuple[int, list[int]],
) -> RawPart:
    """A part in raw columns; ``hinges`` and ``trees`` say how many there are, and where its own."""
    n_features, shared = len(encoder.terms_), _shared(encoder)
    effects = []
    for column, weighted in by_column(encoder, part.coef[:n_features].tolist()).items():
        if plain := [(term, weight) for term, weight in weighted if term.kind not in _SHARED]:
            effects.append(_effect(column, plain))
    features = tuple(float(part.coef[k]) if k in shared else 0.0 for k in looked_at)
    rest, spread = part.coef[n_features:].tolist(), [features]
    for size, places in (hinges, trees):
        numbers = [0.0] * size
        for k, place in enumerate(places):
            numbers[place] = rest[k]
        rest = rest[len(places) :]
        spread.append(tuple(numbers))
    return RawPart(float(part.weight), part.link, float(part.intercept), tuple(effects), *spread)


def _shared(encoder: TableEncoder) -> set[int]:
    """Numbers of the terms that are computed once."""
    return {k for k, term in enumerate(encoder.terms_) if term.kind in _SHARED}


def _split_features(trees: TreeScores) -> set[int]:
    inner = trees.left != np.arange(len(trees.left))
    return set(trees.feature[inner].tolist())


def _renumbered(trees: TreeScores, place: dict[int, int]) -> TreeScores:
    """Trees whose nodes name features by their new numbers; leaves name the first, unused."""
    number = [place.get(feature, 0) for feature in trees.feature.tolist()]
    return replace(trees, feature=np.array(number, dtype=np.int64))


def _feature(encoder: TableEncoder, number: int) -> Effect | Wave:
    """A feature of the encoder as what its column adds where its coefficient is 1."""
    term = encoder.terms_[number]
    if term.kind in SHIFTS:
        return Wave(term.column, CYCLES[str(term.level)], SHIFTS[term.kind])
    (column,) = (c for c in encoder.columns_ if c.name == term.column)
    return _effect(column, [(own, float(own == term)) for own in column.terms])


def checked_formula(encoder: TableEncoder, scorer: Any) -> Formula | RankMean:
    """The formula, or that of an estimator, with a finite coefficient for each feature."""
    formula = scorer
    if not isinstance(scorer, Formula | RankMean):
        from auucmax.estimators.formula_rules import formula_of

        formula = formula_of(scorer)
    if isinstance(formula, Formula):
        _check_formula(encoder, formula)
        return formula
    for member, knots in zip(formula.members, formula.knots, strict=True):
        _check_formula(encoder, member)
        if np.shape(knots)[:1] != (2,) or not np.size(knots) or not np.isfinite(knots).all():
            raise _bad_knots("ranks", np.size(knots) // 2)
        if (np.diff(knots[0]) <= 0).any():
            raise _bad_knots("ranks", len(knots[0]))
    return formula


def _check_formula(encoder: TableEncoder, formula: Formula) -> None:
    n_features, n_more = len(encoder.terms_), len(formula.hinges) + len(formula.trees)
    for part in formula.parts:
        if part.link not in LINKS:
            raise ValueError(
                f"the link of a part should be one of {', '.join(LINKS)}, got {part.link!r}. "
                f"Only these can be exported."
            )
        if np.shape(part.coef) != (n_features + n_more,):
            raise ValueError(
                f"the formula should have a coefficient for each of the encoder's "
                f"{n_features} features, got {np.size(part.coef) - n_more}. Pass the encoder that "
                f"the model was fitted with."
            )
        if not np.isfinite([formula.constant, part.weight, part.intercept, *part.coef]).all():
            raise ValueError(
                "the coefficients of a formula should be finite, got some that are not. Fit the "
                "model again; look for huge values in the training rows."
            )
    for trees in formula.trees:
        trees.check(n_features)
    if not all(0 <= c < n_features and np.isfinite(q) for c, q in formula.hinges):
        raise ValueError(
            f"hinges should be finite numbers of the encoder's {n_features} features, got others. "
            f"Pass the encoder that the model was fitted with."
        )


def knots_of(calibration: Any) -> list[tuple[float, float]]:
    """(score, uplift) of a calibration, scores increasing: linear between, constant outside."""
    plain = calibration.to_dict()
    scores, uplifts = plain["score"], plain["uplift"]
    knots = [(float(s), float(u)) for s, u in zip(scores, uplifts, strict=True)]
    if not knots or any(a >= b for (a, _), (b, _) in pairwise(knots)):
        raise _bad_knots("a calibration", len(knots))
    return knots


def _bad_knots(of: str, size: int) -> ValueError:
    return ValueError(
        f"the knots of {of} should be increasing scores, got {size} of which some are not. Fit the "
        f"model again."
    )


def by_column(encoder: TableEncoder, weights: Iterable[T]) -> dict[Column, list[tuple[Term, T]]]:
    """The terms of each raw column that has some, each with its weight; in training's order."""
    own: dict[str, list[tuple[Term, T]]] = {column.name: [] for column in encoder.columns_}
    for term, weight in zip(encoder.terms_, weights, strict=True):
        own[term.column].append((term, weight))
    return {column: own[column.name] for column in encoder.columns_ if own[column.name]}


def _effect(column: Column, weighted: list[tuple[Term, float]]) -> Effect:
    """What a column adds by these terms of it, none of which is a wave, unless it weighs 0."""
    sums = dict.fromkeys(("value", "missing", "other", *_SHARED), 0.0)
    levels: dict[str, float] = {}
    for term, weight in weighted:
        if term.kind == "level":
            levels[str(term.level)] = weight
        else:
            sums[term.kind] += weight
    for kind in column.learnt:
        *of_levels, of_other = getattr(column, kind)
        for level, number in zip(column.levels, of_levels, strict=True):
            levels[level] = levels.get(level, 0.0) + sums[kind] * number
        sums["other"] += sums[kind] * of_other
    spelt = {text: levels[own] for text, own in other_spellings(levels).items()}
    return Effect(
        column=column.name,
        kind=column.kind,
        per_unit=sums["value"],
        fill=next((float(term.fill) for term, _ in weighted if term.kind == "value"), 0.0),
        levels=tuple((levels | spelt).items()),
        other=sums["other"],
        missing=sums["missing"],
    )
