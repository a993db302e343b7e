"""Trials that were properly randomised."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from auucmax.data.randomisation import RandomisationReport, check_randomisation
from auucmax.data.trial import Trial


def fair_trial(seed: int, n: int = 2_000, share: float = 0.5) -> Trial:
    """Properly randomised rows with features of every type."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 4)), columns=list("abcd"))
    X["copy"] = 2 * X["a"]
    X["zone"] = pd.Categorical(rng.choice(["rural", "town", "city"], n, p=[0.6, 0.3, 0.1]))
    X["channel"] = rng.choice(np.array(["web", "phone", None], dtype=object), n)
    X["spent"] = rng.lognormal(0, 2, n)
    X["new"] = rng.random(n) < 0.05
    X["since"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(900, size=n), "D")
    X["visits"] = pd.array(np.where(rng.random(n) < 0.2, None, rng.poisson(2, n)), dtype="Int64")
    X.loc[rng.random(n) < 0.1, "b"] = np.nan
    treatment = (rng.random(n) < share).astype(int)
    y = rng.random(n) < 0.1 + 0.1 * treatment
    return Trial(X, y, treatment)


def with_feature(trial: Trial, **features: object) -> Trial:
    return Trial(trial.X.assign(**features), trial.y, trial.treatment)


def checked(
    trial: Trial,
    *,
    groups: Any = None,
    propensity: Any = None,
    ignore: Collection[str] = (),
    after: Collection[str] = (),
    **options: Any,
) -> RandomisationReport:
    """The check of a trial of which more of the design is known."""
    roles = replace(trial.roles, ignored=tuple(ignore), after=tuple(after))
    known = {}
    if groups is not None:  # of a text, which has no order
        known["groups"] = np.array([None if own is None else f"group {own}" for own in groups])
    if propensity is not None:
        known["propensity"] = propensity
    if ignore:
        known["extra"] = trial.X[list(ignore)]
    X = trial.X.drop(columns=[*ignore, *after])
    return check_randomisation(replace(trial, X=X, roles=roles, **known), **options)
