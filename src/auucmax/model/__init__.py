"""A model fitted on a table of trial rows: from raw columns to scores, with its own evidence."""

from __future__ import annotations

from auucmax._archive import ModelFileError
from auucmax.model.arm_choosing import ArmLimits, ArmTargeting, target_arms
from auucmax.model.arm_evidence import ArmsEvidence
from auucmax.model.arm_fitting import fit_arms_model
from auucmax.model.arms import ArmsModel
from auucmax.model.by_name import MODELS
from auucmax.model.columns import ColumnNames, name_columns
from auucmax.model.crossfit import Recipe
from auucmax.model.evidence import Evidence
from auucmax.model.file import load_model, save_model
from auucmax.model.file_new import load
from auucmax.model.pipeline import fit
from auucmax.model.fitting import fit_trial_model, with_rivals
from auucmax.model.judging import Judged, evidence_of
from auucmax.model.model import TrialModel
from auucmax.model.rows import TrialRows, trial_rows
from auucmax.model.chosen import Limits, Targeting, target
from auucmax.model.uplift_model import Scorer, UpliftModel

__all__ = [
    "MODELS",
    "ArmLimits",
    "ArmTargeting",
    "ArmsEvidence",
    "ArmsModel",
    "ColumnNames",
    "Evidence",
    "Judged",
    "Limits",
    "ModelFileError",
    "Recipe",
    "Scorer",
    "Targeting",
    "TrialModel",
    "TrialRows",
    "UpliftModel",
    "evidence_of",
    "fit",
    "fit_arms_model",
    "fit_trial_model",
    "load",
    "load_model",
    "name_columns",
    "save_model",
    "target",
    "target_arms",
    "trial_rows",
    "with_rivals",
]
