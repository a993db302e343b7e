"""Save and load models as archives of JSON and arrays; no code is executed.

The header holds the recipe, the evidence, what was fitted, the checksum of the training rows and,
for each arm, encoder, calibration and score quantiles; ``arm0.*.npy`` are the arrays of the formula
of the first arm's score. No person's row is in it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from auucmax._archive import ArchiveFormat, check_same_names
from auucmax._json import read
from auucmax.data.hashing import Checksum
from auucmax.encoding import TableEncoder
from auucmax.estimators.formula import from_arrays, to_arrays
from auucmax.model.folds import Recipe
from auucmax.model.registry import MODELS
from auucmax.model.uplift_model import Scorer, UpliftModel
from auucmax.results import Evidence, Fit
from auucmax.targeting.calibration import Calibration
from auucmax.targeting.quantiles import ScoreQuantiles

FORMAT = ArchiveFormat("auucmax model", 11, "model file")
_LARGEST = 1e200
_SCORER = {"encoder", "calibration", "quantiles", "slope", "centre"}


def save(model: UpliftModel, path: str | os.PathLike[str]) -> None:
    """Save a fitted model to ``path``, atomically.

    Examples
    --------
    >>> import tempfile
    >>> from auucmax import fit, make_trial
    >>> trial = make_trial(8_000, random_state=0)
    >>> model = fit(trial, "tm")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/visits.model")
    ...     again = load(f"{folder}/visits.model")
    >>> bool((again.predict(trial.X) == model.predict(trial.X)).all())
    True
    """
    header: dict[str, Any] = {
        "recipe": model.recipe.to_json(),
        "evidence": model.evidence.to_json(),
        "info": model.info.to_json(),
        "checksum": asdict(model.checksum),
        "scorers": [
            {
                "encoder": one.encoder.to_dict(),
                "calibration": asdict(one.calibration),
                "quantiles": one.quantiles.to_json(),
                "slope": one.slope,
                "centre": one.centre,
            }
            for one in model.scorers
        ],
    }
    members = {
        f"arm{k}.{name}.npy": array
        for k, one in enumerate(model.scorers)
        for name, array in to_arrays(one.formula).items()
    }
    FORMAT.write(path, header, members)


def load(path: str | os.PathLike[str]) -> UpliftModel:
    """Load a model written by :func:`save`; no code is executed.

    A ModelFileError, in one line, for a file that is missing, damaged, of another kind or version.
    """
    return FORMAT.read(path, _restored)


def _restored(header: Mapping[str, Any], members: dict[str, Any]) -> UpliftModel:
    check_same_names("fields", set(header), {"recipe", "evidence", "info", "checksum", "scorers"})
    if _size(header) > _LARGEST:
        raise ValueError(f"its numbers should be at most {_LARGEST:g} in size")
    recipe = Recipe.from_json(header["recipe"])
    evidence = Evidence.from_json(header["evidence"])
    n_arms = len(evidence.roles.arms) - 1
    scorers = [_scorer(own, members, k, evidence) for k, own in enumerate(header["scorers"])]
    if recipe.model not in MODELS or members:
        raise ValueError("it has an unknown model, or members of no arm")
    if n_arms < 1 or len(scorers) != n_arms or len(evidence.arms) != n_arms:
        raise ValueError("it should have a scorer and evidence for each arm")
    return UpliftModel(
        recipe=recipe,
        scorers=tuple(scorers),
        evidence=evidence,
        checksum=read(Checksum, header["checksum"], "its checksum"),
        info=Fit.from_json(header["info"]),
    )


def _size(values: Any) -> float:
    """Largest magnitude in a JSON value, to rule out overflow."""
    if isinstance(values, Mapping | list):
        own = values.values() if isinstance(values, Mapping) else values
        return max(map(_size, own), default=0.0)
    return abs(float(values)) if isinstance(values, int | float) else 0.0


def _scorer(
    header: Mapping[str, Any], members: dict[str, Any], k: int, evidence: Evidence
) -> Scorer:
    check_same_names("fields", set(header), _SCORER)
    encoder = TableEncoder.from_dict(header["encoder"])
    if not {column.name for column in encoder.columns_} <= set(evidence.roles.features):
        raise ValueError("its encoder has other columns than the model")
    arrays = {
        name.removeprefix(f"arm{k}.").removesuffix(".npy"): members.pop(name)
        for name in list(members)
        if name.startswith(f"arm{k}.")
    }
    return Scorer(
        encoder=encoder,
        formula=from_arrays(arrays, len(encoder.terms_)),
        calibration=read(Calibration, header["calibration"], "its calibration"),
        quantiles=ScoreQuantiles.from_json(header["quantiles"]),
        slope=read(float, header["slope"], "slope"),
        centre=read(float, header["centre"], "centre"),
    )
