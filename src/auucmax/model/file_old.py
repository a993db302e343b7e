"""Fitted models as files: plain JSON and arrays.

A model file is an archive of :mod:`auucmax._archive` with

* the header: version of auucmax, encoder, columns, recipe, calibration, evidence, checksum of the
  rows, summary;
* ``score.*.npy``: the arrays of the formula of the score (:mod:`auucmax.estimators.formula`).

A model of several arms has such a header for each arm, ``arms``, and the members of the first are
named ``arm0.score.*.npy`` and so on.

No person's row is in it, and loading it runs no code.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from auucmax._archive import ArchiveFormat, check_same_names
from auucmax._json import read
from auucmax._version import __version__
from auucmax.data.hashing import Checksum
from auucmax.encoding import TableEncoder
from auucmax.estimators.formula import from_arrays, to_arrays
from auucmax.model.arm_evidence import ArmsEvidence
from auucmax.model.arms import ArmsModel
from auucmax.model.by_name import MODELS
from auucmax.model.columns import ColumnNames
from auucmax.model.crossfit import Recipe
from auucmax.model.evidence import Evidence
from auucmax.model.model import TrialModel
from auucmax.targeting import Calibration

FORMAT = ArchiveFormat("auucmax model", 10, "model file")
_HEADER = {
    "auucmax", "encoder", "columns", "recipe", "calibration", "evidence", "checksum", "summary",
}  # fmt: skip


def save_model(model: TrialModel | ArmsModel, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to ``path``, whole or not at all.

    Examples
    --------
    >>> import tempfile
    >>> from auucmax import make_trial
    >>> from auucmax.model import fit_trial_model
    >>> trial = make_trial(8_000, random_state=0)
    >>> table = trial.X.assign(visit=trial.y, mail=trial.treatment)
    >>> model = fit_trial_model(table, treatment="mail", outcome="visit", model="tm")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, f"{folder}/visits.model")
    ...     again = load_model(f"{folder}/visits.model")
    >>> bool((again.predict(table) == model.predict(table)).all())
    True
    """
    models = list(model.models.values()) if isinstance(model, ArmsModel) else [model]
    written = [_written(one) for one in models]
    if isinstance(model, ArmsModel):
        header: dict[str, Any] = {
            "arms": dict(zip(model.models, (own for own, _ in written), strict=True)),
            "policy": model.policy,
            "summary": model.summary,
        }
        members = {
            f"arm{k}.{name}": array
            for k, (_, own) in enumerate(written)
            for name, array in own.items()
        }
    else:
        header, members = written[0]
    FORMAT.write(path, header, members)


def _written(model: TrialModel) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and members of a model of two arms."""
    header = {
        "auucmax": __version__,
        "encoder": model.encoder.to_dict(),
        "columns": model.columns.to_dict(),
        "recipe": asdict(model.recipe),
        "calibration": model.calibration.to_dict(),
        "evidence": model.evidence.to_dict(),
        "checksum": asdict(model.checksum),
        "summary": model.summary,
    }
    return header, {f"score.{k}.npy": a for k, a in to_arrays(model.formula).items()}


def load_model(path: str | os.PathLike[str]) -> TrialModel | ArmsModel:
    """Read a model that :func:`save_model` wrote; nothing in the file is executed.

    ModelFileError, in one line, for a file that is absent, damaged, of another kind or another
    version, or made to do harm.
    """
    return FORMAT.read(path, _restored)


def _restored(header: Mapping[str, Any], members: dict[str, Any]) -> TrialModel | ArmsModel:
    return (_arms if "arms" in header else _two_arms)(header, members)


def _arms(header: Mapping[str, Any], members: dict[str, Any]) -> ArmsModel:
    """A model of several arms, all of the same table and folds."""
    check_same_names("fields", set(header), {"arms", "policy", "summary"})
    read({...: ...}, header["summary"], "its summary")
    arms, models = read({...: {...: ...}}, header["arms"], "its arms"), {}
    for k, (label, own) in enumerate(arms.items()):
        names = [name for name in members if name.startswith(f"arm{k}.")]
        parts = {name.removeprefix(f"arm{k}."): members.pop(name) for name in names}
        models[label] = _two_arms(own, parts)
    if members or len(models) < 2:
        raise ValueError("its arms should be two or more, each with its own members")
    first = next(iter(models.values()))
    for label, one in models.items():
        if one.columns != replace(first.columns, treated=label) or one.recipe != first.recipe:
            raise ValueError("its arms should be of one table and its folds, got others")
    evidence = ArmsEvidence.from_dict(
        {label: one.evidence for label, one in models.items()}, header["policy"]
    )
    if first.columns.control != evidence["control"] or first.columns.control in models:
        raise ValueError("its policy should have the control of its arms, got another")
    return ArmsModel(models, evidence.facts, header["summary"])


def _two_arms(header: Mapping[str, Any], members: dict[str, Any]) -> TrialModel:
    check_same_names("fields", set(header), _HEADER)
    recipe = _recipe(header["recipe"])
    read({...: ...}, header["summary"], "its summary")
    encoder = TableEncoder.from_dict(header["encoder"])
    columns = ColumnNames.from_dict(header["columns"])
    if not {column.name for column in encoder.columns_} <= set(columns.features):
        raise ValueError("its encoder knows other columns than the model")
    arrays = {
        name.removeprefix("score.").removesuffix(".npy"): array for name, array in members.items()
    }
    return TrialModel(
        encoder=encoder,
        formula=from_arrays(arrays, len(encoder.terms_)),
        recipe=recipe,
        columns=columns,
        calibration=Calibration.from_dict(header["calibration"]),
        evidence=Evidence.from_dict(header["evidence"]),
        checksum=read(Checksum, header["checksum"], "its checksum"),
        summary=header["summary"],
    )


def _recipe(plain: Mapping[str, Any]) -> Recipe:
    """Read a recipe, or raise a ValueError for one that no fit writes."""
    recipe: Recipe = read(Recipe, plain, "its recipe")
    right = (
        recipe.model in MODELS
        and len(recipe.key) == 16
        and recipe.key.isascii()
        and 0 <= recipe.seed < 2**31
        and 0 <= recipe.hold_out < 1
        and 1 <= recipe.n_folds <= 100
        and 1 <= recipe.n_candidates < 2**31
    )
    if not right:
        raise ValueError("it has an unknown kind of model, or folds that no fit makes")
    return recipe
