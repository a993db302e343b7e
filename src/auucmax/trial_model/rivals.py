"""Other models on the folds of a fitted one, judged on the same rows."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from auucmax._validation import check_choice
from auucmax.data.pieces import PiecedTable
from auucmax.trial_model.crossfit import cross_fit
from auucmax.trial_model.evidence import Evidence, Judged, evidence_of
from auucmax.trial_model.fitting import MODELS, makers
from auucmax.trial_model.model import TrialModel


def with_rivals(
    model: TrialModel, table: pd.DataFrame | PiecedTable, names: Sequence[str]
) -> Evidence:
    """The evidence of a model with rivals, which are fitted on the folds of the model.

    ``table`` is the one that the model was fitted on. The model's own recipe is fitted anew beside
    them, with the same seed, and all are ranked on the same rows: differences are paired. With a
    hold-out, rivals learn from the rows that the model learnt from.

    Examples
    --------
    >>> from auucmax import make_trial
    >>> from auucmax.trial_model import fit_trial_model
    >>> trial = make_trial(4_000, random_state=0)
    >>> table = trial.X.assign(visit=trial.y, mail=trial.treatment)
    >>> model = fit_trial_model(table, treatment="mail", outcome="visit", model="tm")
    >>> [rival["name"] for rival in with_rivals(model, table, ["cvt", "mom"])["rivals"]]
    ['cvt', 'mom']
    """
    for name in names:
        check_choice(name, "a rival", MODELS)
    if isinstance(table, PiecedTable):
        raise ValueError(
            f"rivals should be fitted on a table that fits into memory, got {table.name}, "
            f"{table.size}. Name no other models, pass fewer rows, or allow more memory."
        )
    rows, recipe = model.own_rows(table), model.recipe
    others = [name for name in dict.fromkeys(names) if name != recipe.model]
    makes = makers([recipe.model, *others], recipe.seed)
    if recipe.hold_out:
        made = {name: make() for name, make in makes.items()}
        fitted = rows.fit(made, lambda keys: ~recipe.held_out(keys))
        ranks = dict(zip(makes, rows.scores(fitted, recipe.held_out), strict=True))
        apart = recipe.held_out(rows.keys)
        y, treated = rows.y[apart], rows.treated[apart]
    else:
        ranks = cross_fit(rows, makes, recipe, with_chunks=False).ranks
        y, treated = rows.y, rows.treated
    judged = Judged(y, ranks.pop(recipe.model), treated)
    return model.evidence.with_facts(rivals=evidence_of(judged, rivals=ranks)["rivals"])
