"""Held-out rows that a model, or scores, are certified on: are they new to the model?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from auucmax._validation import Bools, Floats, check_column, check_treatment
from auucmax.data.hashing import hash_ids
from auucmax.data.seen import RowSet, TrainingRecord


class HeldOut(NamedTuple):
    """The checked rows of a certificate."""

    X: Any
    y: Floats
    treated: Bools
    ids: ArrayLike | None

    @classmethod
    def of(
        cls,
        X: Any,
        y: ArrayLike | None,
        treatment: ArrayLike | None,
        ids: ArrayLike | None,
        control: Any,
    ) -> HeldOut:
        if y is None:
            raise ValueError(
                "y should be the outcome of the held-out rows, got none. Call certify(model, X, y, "
                "treatment=t), or certify(score, y=y, treatment=t)."
            )
        if treatment is None:
            raise ValueError(
                "treatment should say which held-out rows were treated, got none. Call "
                "certify(model, X, y, treatment=t), or certify(score, y=y, treatment=t)."
            )
        outcome = check_column(y, "y")
        treated = check_treatment(treatment, len(outcome), control=control)
        return cls(X, outcome, treated, ids)

    def scores(self, model_or_score: Any, mixed: bool = False) -> Floats:
        """Scores of the rows; ``mixed``: models and scores may come together."""
        if hasattr(model_or_score, "predict"):
            if self.X is None:
                raise ValueError(
                    "X should hold the features of the held-out rows when a model is certified, "
                    "got none. Call certify(model, X, y, treatment=t)."
                )
            return check_column(model_or_score.predict(self.X), "score", len(self.y))
        if self.X is not None and not mixed:
            raise ValueError(
                "X should be left out when scores are certified, got both. Call certify(score, "
                "y=y, treatment=t), or pass a fitted model."
            )
        return check_column(model_or_score, "score", len(self.y))

    def candidates_of(self, model: Any) -> int:
        """How many candidates the model compared on these rows; an error if it learnt from them."""
        record, seen = record_of(model)
        self._check_ids(record)
        if record is None:
            return 1
        rows = RowSet.of(seen(self.X), self.y, self.treated)
        return record.candidates_compared(rows, by_ids=self.ids is not None)

    def _check_ids(self, record: TrainingRecord | None) -> None:
        if self.ids is None:
            return
        if record is None or record.ids is None:
            raise ValueError(
                "ids should be checked against those that a model was fitted with, got no such "
                "model (pickles and files do not keep them). Fit it with ids=..., or leave ids out."
            )
        seen = np.isin(hash_ids(self.ids, len(self.y)), record.ids)
        if seen.any():
            raise ValueError(
                f"the rows should be new to the model, got {int(seen.sum())} of {len(seen)} ids "
                f"that it was fitted on. Certify on rows that were kept apart."
            )


@dataclass(frozen=True)
class InnerRows:
    """Rows as a model sees them that is inside others: after the ``steps`` before it.

    A function from X of the outer model to X of the inner one, which has ``n_features``. It can be
    pickled without either model.
    """

    steps: tuple[Any, ...] = ()
    n_features: int | None = None

    def __call__(self, X: Any) -> Any:
        for step in self.steps:
            X = step.transform(X)
        return X


def record_of(model: Any) -> tuple[TrainingRecord | None, InnerRows]:
    """Return what a model remembers of its rows, and how it sees other rows.

    It may be inside a search, a pipeline or a TrialModel, and these inside each other.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import FunctionTransformer
    >>> from auucmax import TwoModels, make_trial
    >>> trial = make_trial(1000, random_state=0)
    >>> model = TwoModels().fit(trial.X, trial.y, treatment=trial.treatment)
    >>> record, seen = record_of(make_pipeline(FunctionTransformer(np.abs), model))
    >>> record
    TrainingRecord(1,000 rows)
    >>> np.array_equal(seen(trial.X), np.abs(trial.X))
    True
    """
    steps: tuple[Any, ...] = ()
    n_tried = 1
    # From the outermost model inwards, with the steps that its rows take on the way.
    while not hasattr(model, "training_record_"):
        if hasattr(model, "best_estimator_"):
            n_tried *= len(model.cv_results_["params"]) if hasattr(model, "cv_results_") else 1
            model = model.best_estimator_
        elif hasattr(model, "steps"):
            steps += (model[:-1],) if len(model.steps) > 1 else ()
            model = model.steps[-1][1]
        elif hasattr(model, "encoder") and hasattr(model, "record"):  # a TrialModel
            return model.record, InnerRows((*steps, model.encoder), len(model.encoder.terms_))
        else:
            return None, InnerRows(steps)
    record = model.training_record_
    if record.set_aside is not None:
        # A search compared its models on all rows that it was given, those set aside included.
        record = replace(record, n_candidates=record.n_candidates * n_tried)
    return record, InnerRows(steps, model.n_features_in_)


def predicted_outcome(options: dict[str, Any], X: Any) -> dict[str, Any]:
    """Predictions in place of a fitted outcome model."""
    model = options.get("outcome_model")
    if model is None or not hasattr(model, "predict"):
        return options
    if X is None:
        raise ValueError(
            "X should be given when outcome_model is a model, got none. Pass X, or predictions."
        )
    predict = getattr(model, "predict_proba", None)
    predicted = model.predict(X) if predict is None else predict(X)[:, 1]
    return options | {"outcome_model": predicted}
