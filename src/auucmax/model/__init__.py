"""Fit a model on a trial, judge it, keep it in a file, and choose whom to treat."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from auucmax._archive import ModelFileError
from auucmax.model.check import TrialCheck, check_trial
from auucmax.model.chosen import Limits, Targeting, target
from auucmax.model.file import load
from auucmax.model.folds import Recipe
from auucmax.model.pipeline import fit
from auucmax.model.registry import MODELS
from auucmax.model.scores import judge_scores
from auucmax.model.uplift_model import Scorer, UpliftModel

__all__ = [
    "MODELS",
    "Limits",
    "ModelFileError",
    "Recipe",
    "Scorer",
    "Targeting",
    "TrialCheck",
    "UpliftModel",
    "check_trial",
    "fit",
    "judge_scores",
    "load",
    "target",
]

_OLD = {
    name: home
    for home, names in {
        "arm_choosing": ("ArmLimits", "ArmTargeting", "target_arms"),
        "arm_evidence": ("ArmsEvidence",),
        "arm_fitting": ("fit_arms_model",),
        "arms": ("ArmsModel",),
        "columns": ("ColumnNames", "name_columns"),
        "evidence": ("Evidence",),
        "file_old": ("load_model", "save_model"),
        "fitting": ("fit_trial_model", "with_rivals"),
        "judging": ("Judged", "evidence_of"),
        "model": ("TrialModel",),
        "rows": ("TrialRows", "trial_rows"),
    }.items()
    for name in names
}


def __getattr__(name: str) -> Any:
    if name not in _OLD:
        raise AttributeError(f"module 'auucmax.model' has no attribute {name!r}")
    return getattr(import_module(f"auucmax.model.{_OLD[name]}"), name)
