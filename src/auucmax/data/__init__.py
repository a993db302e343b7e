"""Data: trials, tables, public and synthetic data sets, and the randomisation check."""

from __future__ import annotations

from auucmax.data.fetch import (
    DataNotFoundError,
    fetch_criteo,
    fetch_ihdp,
    fetch_jobs,
    fetch_social_pressure,
    load_hillstrom,
)
from auucmax.data.folds import TrialKFold
from auucmax.data.randomisation import FailedCheckError, RandomisationReport, check_randomisation
from auucmax.data.read_trial import read_trial
from auucmax.data.reading import read_table
from auucmax.data.synthetic import SyntheticTrial, make_trial
from auucmax.data.trial import Trial

__all__ = [
    "DataNotFoundError",
    "FailedCheckError",
    "RandomisationReport",
    "SyntheticTrial",
    "Trial",
    "TrialKFold",
    "check_randomisation",
    "fetch_criteo",
    "fetch_ihdp",
    "fetch_jobs",
    "fetch_social_pressure",
    "load_hillstrom",
    "make_trial",
    "read_table",
    "read_trial",
]
