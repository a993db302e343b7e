"""The report of a fitted model on a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from auucmax.bounds import certify
from auucmax.data import check_randomisation
from auucmax.data.pieces import PiecedTable
from auucmax.estimators.formula import FormulaError, formula_of
from auucmax.report.shares import Economy
from auucmax.report.summary import Names, summarise
from auucmax.trial_model import ColumnNames, TrialModel, rival_scores, trial_rows

__all__ = ["summarise_model"]


def summarise_model(
    model: TrialModel,
    table: pd.DataFrame | PiecedTable,
    *,
    economy: Economy | None = None,
    share: float = 0.3,
    rivals: Sequence[str] | None = (),
) -> dict[str, Any]:
    """All numbers of the report, from the rows of a table that the model may be judged on.

    ``rivals`` are names of models, fitted on the rows that the model was fitted on; a table without
    those rows has none, and None stands for "tm" where the table has them. Other parameters as in
    :func:`summarise`. There is no certificate from rows that the model may have learnt from.

    Examples
    --------
    >>> from auucmax import make_trial
    >>> from auucmax.trial_model import fit_trial_model
    >>> trial = make_trial(4_000, random_state=0)
    >>> table = trial.X.assign(visit=trial.y, mail=trial.treatment)
    >>> model = fit_trial_model(table, treatment="mail", outcome="visit")
    >>> found = summarise_model(model, table, rivals=["tm"])
    >>> found["rows"]["n_rows"] < len(table), [rival["name"] for rival in found["rivals"]]
    (True, ['tm'])
    """
    held_out, scores = rival_scores(model, table, rivals)
    columns = model.columns
    features = held_out.frame[list(columns.features)]
    score = model.predict(features)
    linear = _linear(model, features)
    return summarise(
        held_out.y,
        score,
        treatment=held_out.treatment,
        features=features,
        calibration=model.calibration,
        rivals=scores,
        linear=linear,
        names=Names(
            outcome=columns.outcome,
            treatment=columns.treatment,
            treated=_arm(columns, columns.treated),
            control=_arm(columns, columns.control),
            model=model.model_name,
        ),
        economy=economy,
        share=share,
        certificate=certify(score, y=held_out.y, treatment=held_out.treatment)
        if held_out.is_sure
        else None,
        doubt=None if held_out.is_sure else held_out.note,
        # Randomisation is a matter of all rows of the trial; of very many, some are enough.
        randomisation=check_randomisation(
            trial_rows(
                table.sample(table.sample_rows) if isinstance(table, PiecedTable) else table,
                columns,
            ).trial(columns)
        ),
        notes=[held_out.note],
    )


def _arm(columns: ColumnNames, label: str) -> str:
    """A label that says something by itself, or with the name of its column."""
    return f"{columns.treatment} = {label}" if label in ("0", "1", "true", "false") else label


def _linear(model: TrialModel, features: pd.DataFrame) -> tuple[Any, pd.DataFrame] | None:
    """Coefficients of a score that is linear in the encoded features, and those features."""
    try:
        formula = formula_of(model.estimator)
    except FormulaError:
        return None
    if len(formula.parts) != 1 or formula.parts[0].link != "identity":
        return None
    encoded = pd.DataFrame(
        model.encoder.transform(features), columns=model.encoder.get_feature_names_out()
    )
    return formula.parts[0].weight * formula.parts[0].coef, encoded
