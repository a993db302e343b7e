"""A linear score in the units of the raw table: what each column, level and gap adds to it.

The encoder makes features of raw columns, and the formula weighs features; here both are folded
into one. Every export is written from it, so that they cannot differ in what they mean.

A linear score as plain JSON: coefficients in the units of the raw table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from auucmax.encoding.encoder import Column, TableEncoder, Term
from auucmax.encoding.texts import other_spellings
from auucmax.estimators.formula import LINKS, Formula, formula_of

FORMAT = "auucmax score"
VERSION = 1


def to_json(encoder: TableEncoder, scorer: Any, *, calibration: Any = None) -> str:
    """The score as JSON text, so that any program can compute it; docs/export.md has one.

        score = constant + sum_k weight_k link_k(intercept_k + what each raw column adds)

    Parameters
    ----------
    encoder : fitted ``TableEncoder``.
    scorer : ``Formula`` or fitted estimator that is one; see ``formula_of``.
    calibration : ``Calibration`` or None; its knots are written too.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from auucmax.estimators.formula import Formula, Part
    >>> encoder = TableEncoder(min_level_rows=1).fit(pd.DataFrame({"age": [30.0, 40.0, 50.0]}))
    >>> formula = Formula((Part(2.0, "sigmoid", -1.0, np.array([0.5])),))
    >>> json.loads(to_json(encoder, formula))["parts"][0]["effects"]
    [{'column': 'age', 'kind': 'number', 'per_unit': 0.5, 'fill': 40.0, 'missing': 0.0}]
    """
    formula = raw_formula(encoder, scorer)
    plain = {
        "format": FORMAT,
        "version": VERSION,
        "columns": [{"name": name, "kind": kind} for name, kind in formula.columns],
        "constant": formula.constant,
        "parts": [_part(part) for part in formula.parts],
        "calibration": None if calibration is None else _calibration(calibration),
    }
    return json.dumps(plain, ensure_ascii=False, allow_nan=False, indent=2)


def _part(part: RawPart) -> dict[str, Any]:
    return {
        "weight": part.weight,
        "link": part.link,
        "intercept": part.intercept,
        "effects": [_effect_entry(effect) for effect in part.effects],
    }


def _effect_entry(effect: Effect) -> dict[str, Any]:
    named = {"column": effect.column, "kind": effect.kind}
    if effect.kind == "category":
        levels = dict(effect.levels)
        return named | {"levels": levels, "other": effect.other, "missing": effect.missing}
    numbers = {"per_unit": effect.per_unit, "fill": effect.fill, "missing": effect.missing}
    return named | numbers


def _calibration(calibration: Any) -> dict[str, list[float]]:
    scores, uplifts = zip(*knots_of(calibration), strict=True)
    return {"score": list(scores), "uplift": list(uplifts)}


@dataclass(frozen=True)
class Effect:
    """What one raw column adds to a linear predictor.

    number, boolean, date:  per_unit * (value, or ``fill`` if missing) + (``missing`` if missing)
    category:               levels[value], or ``other`` if it is none of them, or ``missing``

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
class RawPart:
    """weight * link(intercept + sum of effects)."""

    weight: float
    link: str
    intercept: float
    effects: tuple[Effect, ...]


@dataclass(frozen=True)
class RawFormula:
    """score = constant + sum over parts of weight * link(intercept + sum of effects).

    ``columns`` names the raw columns that it reads, each with its kind, in the order of training.
    """

    constant: float
    parts: tuple[RawPart, ...]
    columns: tuple[tuple[str, str], ...]


def raw_formula(encoder: TableEncoder, scorer: Any) -> RawFormula:
    """The score of raw rows, from a fitted encoder and a formula of its features.

    Parameters
    ----------
    encoder : fitted ``TableEncoder``.
    scorer : ``Formula``, or a fitted estimator that is one (see ``formula_of``).

    Raises
    ------
    FormulaError
        if the estimator is no formula.
    ValueError
        if the number of features differs, or a coefficient is not finite.
    """
    formula = checked_formula(encoder, scorer)
    terms, columns = tuple(encoder.terms_), {c.name: c for c in encoder.columns_}
    parts = tuple(
        RawPart(
            float(part.weight),
            part.link,
            float(part.intercept),
            _effects(columns, zip(terms, part.coef.tolist(), strict=True)),
        )
        for part in formula.parts
    )
    used = dict.fromkeys(term.column for term in terms)
    named = tuple((name, column.kind) for name, column in columns.items() if name in used)
    return RawFormula(float(formula.constant), parts, named)


def checked_formula(encoder: TableEncoder, scorer: Any) -> Formula:
    """The formula, or that of an estimator, with a finite coefficient for each feature."""
    formula = scorer if isinstance(scorer, Formula) else formula_of(scorer)
    for part in formula.parts:
        if part.link not in LINKS:
            raise ValueError(
                f"the link of a part should be one of {', '.join(LINKS)}, got {part.link!r}. "
                f"Only these can be exported."
            )
        if np.shape(part.coef) != (len(encoder.terms_),):
            raise ValueError(
                f"the formula should have a coefficient for each of the encoder's "
                f"{len(encoder.terms_)} features, got {np.size(part.coef)}. Pass the encoder that "
                f"the model was fitted with."
            )
        if not np.isfinite([formula.constant, part.weight, part.intercept, *part.coef]).all():
            raise ValueError(
                "the coefficients of a formula should be finite, got some that are not. Fit the "
                "model again; look for huge values in the training rows."
            )
    return formula


def knots_of(calibration: Any) -> list[tuple[float, float]]:
    """(score, uplift) of a calibration, scores increasing: linear between, constant outside."""
    plain = calibration.to_dict()
    scores, uplifts = plain["score"], plain["uplift"]
    knots = [(float(s), float(u)) for s, u in zip(scores, uplifts, strict=True)]
    if not knots or any(a >= b for (a, _), (b, _) in pairwise(knots)):
        raise ValueError(
            f"the knots of a calibration should be increasing scores, got {len(knots)} of which "
            f"some are not. Fit it with auucmax.targeting.calibrate."
        )
    return knots


def _effects(
    columns: Mapping[str, Column], weighted: Iterable[tuple[Term, float]]
) -> tuple[Effect, ...]:
    """Terms of the same raw column put together, columns in the order of training."""
    own: dict[str, list[tuple[Term, float]]] = {name: [] for name in columns}
    for term, weight in weighted:
        own[term.column].append((term, weight))
    return tuple(_effect(columns[name], found) for name, found in own.items() if found)


def _effect(column: Column, weighted: list[tuple[Term, float]]) -> Effect:
    sums = dict.fromkeys(("value", "missing", "other"), 0.0)
    levels: dict[str, float] = {}
    fill = 0.0
    for term, weight in weighted:
        if term.kind == "level":
            levels[str(term.level)] = weight
        else:
            sums[term.kind] += weight
        if term.kind == "value":
            fill = float(term.fill)
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
