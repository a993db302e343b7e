"""A score as one Python file that needs numpy alone: a model, and the program of its scores.

The program is the source of :mod:`auucmax.export.numpy_scorer`, the same for all models. The model
is JSON in it, in ASCII, as literals that ``repr`` writes: no text of a trial becomes code.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from typing import Any

from auucmax.encoding import TableEncoder
from auucmax.estimators.trees import TreeScores
from auucmax.export import numpy_scorer
from auucmax.export.raw_formula import (
    ArmScore,
    Effect,
    RawFormula,
    RawPart,
    Wave,
    knots_of,
    raw_formula,
)

_PLACE = 'json.loads("{}")'  # where the program has its model
_WIDTH = 88  # characters of a literal


def to_python(
    encoder: TableEncoder,
    scorer: Any,
    *,
    calibration: Any = None,
    keep: Sequence[str] = (),
    decimal: str | None = None,
) -> str:
    """One file of Python whose ``scores(columns)`` are those of ``scorer``; it imports numpy alone.

    Its docstring says how to call it, and how to score a CSV file with it. Values count as in
    :func:`to_json`.

    Parameters
    ----------
    encoder : fitted ``TableEncoder``.
    scorer : ``Formula``, ``RankMean`` or fitted estimator that is one; see ``formula_of``.
    calibration : ``Calibration`` or None. With it the file gives the calibrated uplift, too.
    keep : columns of a CSV file that are written beside the scores, if it has them.
    decimal : the sign before decimals in texts, that of the table of the fit (``model.decimal``):
        with "," the text 1.696 is more than a thousand, and 1.5 an error. Otherwise it is a point.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from auucmax.estimators.formula import Formula, Part
    >>> encoder = TableEncoder(min_level_rows=1).fit(pd.DataFrame({"age": [30.0, 40.0, 50.0]}))
    >>> text = to_python(encoder, Formula((Part(1.0, "identity", -1.0, np.array([0.5])),)))
    >>> names = {"__name__": "a module"}
    >>> exec(text, names)
    >>> names["scores"]({"age": [30, None]})
    {'score': array([14., 19.])}
    """
    _check_names(keep, ["score", "uplift"])
    score = _score(encoder, scorer, calibration, decimal)
    return _file({"keep": list(keep), "score": score})


def arms_to_python(
    arms: Sequence[ArmScore],
    *,
    control: str,
    value: float = 1.0,
    keep: Sequence[str] = (),
    decimal: str | None = None,
) -> str:
    """Several arms as one file of Python: ``uplift LABEL`` of each, and the ``arm`` of a person.

    That is the arm of the highest value * uplift - cost, or the control if none is above 0. Others
    as in :func:`to_python`.
    """
    _check_names(keep, [*(arm.uplift_name for arm in arms), "arm"])
    plain = [
        {
            "label": arm.label,
            "slope": arm.slope,
            "centre": arm.centre,
            "cost": arm.cost,
            "score": _score(arm.encoder, arm.scorer, arm.calibration, decimal),
        }
        for arm in arms
    ]
    return _file({"keep": list(keep), "control": control, "value": value, "arms": plain})


def _file(model: dict[str, Any]) -> str:
    text = json.dumps(model, allow_nan=False, separators=(",", ":"))
    lines = [repr(text[k : k + _WIDTH]) for k in range(0, len(text), _WIDTH)]
    before, after = inspect.getsource(numpy_scorer).split(_PLACE)
    literals = "\n    ".join(lines)
    return f"{before}json.loads(\n    {literals}\n){after}"


def _score(
    encoder: TableEncoder, scorer: Any, calibration: Any, decimal: str | None
) -> dict[str, Any]:
    """The score in lists and numbers; a column has its levels once, and effects their numbers."""
    formula = raw_formula(encoder, scorer)
    places = {name: k for k, (name, _) in enumerate(formula.columns)}
    levels = _levels(formula)
    return {
        "columns": [
            {"name": name, "kind": kind, "levels": list(levels[name]), "decimal": decimal or "."}
            for name, kind in formula.columns
        ],
        "features": [_effect(own, places, levels) for own in formula.features],
        "hinges": [list(hinge) for hinge in formula.hinges],
        "trees": [_trees(own) for own in formula.trees],
        "members": [
            {
                "constant": member.constant,
                "parts": [_part(part, places, levels) for part in member.parts],
                "ranks": None if member.knots is None else list(zip(*member.knots, strict=True)),
            }
            for member in formula.members
        ],
        "calibration": None if calibration is None else _lines(calibration),
    }


def _lines(calibration: Any) -> list[Any]:
    return list(zip(*knots_of(calibration), strict=True))


def _levels(formula: RawFormula) -> dict[str, dict[str, None]]:
    """Texts that are levels, of each column, in one order for all of its effects."""
    found: dict[str, dict[str, None]] = {name: {} for name, _ in formula.columns}
    parts = [part for member in formula.members for part in member.parts]
    for own in [*formula.features, *(effect for part in parts for effect in part.effects)]:
        if isinstance(own, Effect):
            found[own.column] |= dict.fromkeys(text for text, _ in own.levels)
    return found


def _part(
    part: RawPart, places: dict[str, int], levels: dict[str, dict[str, None]]
) -> dict[str, Any]:
    return {
        "weight": part.weight,
        "sigmoid": part.link == "sigmoid",
        "intercept": part.intercept,
        "effects": [_effect(own, places, levels) for own in part.effects if not own.is_zero],
        "weights": [*part.features, *part.hinges, *part.trees],
    }


def _effect(
    own: Effect | Wave, places: dict[str, int], levels: dict[str, dict[str, None]]
) -> dict[str, Any]:
    plain: dict[str, Any] = {"column": places[own.column]}
    if isinstance(own, Wave):
        return plain | {"period": own.period, "shift": own.shift}
    if own.kind not in ("category", "code"):
        return plain | {"per_unit": own.per_unit, "missing": own.when_missing}
    numbers = dict(own.levels)
    of_levels = [numbers.get(level, own.other) for level in levels[own.column]]
    return plain | {"levels": [*of_levels, own.other, own.missing]}


def _trees(trees: TreeScores) -> list[list[list[float]]]:
    """Nodes of each tree, by their places in it: a leaf, or feature, threshold and children."""
    ends = [*trees.roots[1:].tolist(), len(trees.feature)]
    found = []
    for start, end in zip(trees.roots.tolist(), ends, strict=True):
        nodes: list[list[float]] = []
        for k in range(start, end):
            left, right = int(trees.left[k]), int(trees.right[k])
            split = [int(trees.feature[k]), float(trees.threshold[k]), left - start, right - start]
            nodes.append([float(trees.value[k])] if left == k else split)
        found.append(nodes)
    return found


def _check_names(keep: Sequence[str], added: Sequence[str]) -> None:
    """What is kept of a file has other names than what is added to it."""
    if same := [name for name in added if name in keep]:
        raise ValueError(
            f"the columns of the result should have different names, got {same[0]!r} twice. Keep "
            f"fewer columns."
        )
