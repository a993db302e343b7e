"""Other models, made from the same rows as a fitted one, and judged on the same rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from auucmax._validation import Floats, check_choice
from auucmax.data.pieces import PiecedTable
from auucmax.trial_model.fitting import MODELS
from auucmax.trial_model.model import HeldOut, TrialModel

__all__ = ["rival_scores"]

DEFAULT = ("tm",)


def rival_scores(
    model: TrialModel,
    table: pd.DataFrame | PiecedTable,
    names: Sequence[str] | None,
    *,
    random_state: int = 0,
) -> tuple[HeldOut, dict[str, Floats]]:
    """The rows of the model's own file that it may be judged on, and scores of rivals for them.

    Rivals have their defaults and the model's encoding, and learn from the rows that the model was
    fitted on; those of its calibration are for nobody. A table without those rows has no rivals:
    that is an error, unless ``names`` is None, which stands for "tm" where it can. So it is for a
    table that is read in pieces: rivals learn in memory.

    Examples
    --------
    >>> from auucmax import make_trial
    >>> from auucmax.trial_model import fit_trial_model
    >>> trial = make_trial(6_000, random_state=0)
    >>> table = trial.X.assign(visit=trial.y, mail=trial.treatment)
    >>> model = fit_trial_model(table, treatment="mail", outcome="visit")
    >>> held_out, scores = rival_scores(model, table, ["tm", "cvt"])
    >>> list(scores), len(scores["tm"]) == len(held_out.y)
    (['tm', 'cvt'], True)
    """
    wanted = DEFAULT if names is None else tuple(names)
    for name in wanted:
        check_choice(name, "a rival", MODELS)
    if names and isinstance(table, PiecedTable):
        raise ValueError(
            f"rivals should be fitted on a table that fits into memory, got {table.name}, "
            f"{table.size}. Name no other models, pass fewer rows, or allow more memory."
        )
    held_out = model.held_out(table)
    can = held_out.seen_before and isinstance(table, pd.DataFrame)
    if not wanted or (names is None and not can):
        return held_out, {}
    if not held_out.seen_before:
        raise ValueError(
            "rivals should be fitted on the rows that the model was fitted on, and this table has "
            "none of them. Pass the file of the fit, or no rivals."
        )
    trained = model.trained(table)
    X = model.encoder.transform(trained.frame)
    X_held_out = model.encoder.transform(held_out.frame)
    scores = {}
    for name in wanted:
        fitted = MODELS[name](random_state).fit(X, trained.y, treatment=trained.treatment)
        scores[name] = np.asarray(fitted.predict(X_held_out), dtype=np.float64)
    return held_out, scores
