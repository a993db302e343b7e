"""Fit a model to a trial, evaluate and save it, and choose whom to treat."""

from __future__ import annotations

from auucmax.model.check import TrialCheck, check_trial
from auucmax.model.chosen import Limits, Targeting, target
from auucmax.model.file import ModelFileError, load
from auucmax.model.folds import Recipe
from auucmax.model.pipeline import fit, judge_scores
from auucmax.model.registry import MODELS
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
