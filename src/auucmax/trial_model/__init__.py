"""A model fitted on a table of trial rows: from raw columns to scores, with its own evidence."""

from __future__ import annotations

from auucmax.trial_model.choosing import Targeting, target
from auucmax.trial_model.file import ModelFileError, load_model, save_model
from auucmax.trial_model.fitting import MODELS, fit_trial_model, name_columns
from auucmax.trial_model.marks import PARTS
from auucmax.trial_model.model import HeldOut, JudgedRows, ModelRows, TrialModel
from auucmax.trial_model.rivals import rival_scores
from auucmax.trial_model.rows import ColumnNames, TrialRows, trial_rows
from auucmax.trial_model.split import RowSplit

__all__ = [
    "MODELS",
    "PARTS",
    "ColumnNames",
    "HeldOut",
    "JudgedRows",
    "ModelFileError",
    "ModelRows",
    "RowSplit",
    "Targeting",
    "TrialModel",
    "TrialRows",
    "fit_trial_model",
    "load_model",
    "name_columns",
    "rival_scores",
    "save_model",
    "target",
    "trial_rows",
]
