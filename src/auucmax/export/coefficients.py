"""A linear score as plain JSON: coefficients in the units of the raw table."""

from __future__ import annotations

import json
from typing import Any

from auucmax.encoding import TableEncoder
from auucmax.export.raw_formula import Effect, RawPart, knots_of, raw_formula

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
        "effects": [_effect(effect) for effect in part.effects],
    }


def _effect(effect: Effect) -> dict[str, Any]:
    named = {"column": effect.column, "kind": effect.kind}
    if effect.kind == "category":
        levels = dict(effect.levels)
        return named | {"levels": levels, "other": effect.other, "missing": effect.missing}
    numbers = {"per_unit": effect.per_unit, "fill": effect.fill, "missing": effect.missing}
    return named | numbers


def _calibration(calibration: Any) -> dict[str, list[float]]:
    scores, uplifts = zip(*knots_of(calibration), strict=True)
    return {"score": list(scores), "uplift": list(uplifts)}
