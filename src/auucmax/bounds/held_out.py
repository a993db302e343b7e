"""Held-out rows that a model, or scores, are certified on: are they new to the model?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from auucmax._validation import Bools, Floats, check_column, check_treatment
from auucmax.data.fingerprint import Fingerprint, TrainingRecord, fingerprint, hash_ids


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
        return candidates_compared(record, fingerprint(seen(self.X), self.y, self.treated))

    def _check_ids(self, record: TrainingRecord | None) -> None:
        if self.ids is None:
            return
        if record is None or record.ids is None:
            raise ValueError(
                "ids should be checked against those that a model was fitted with, got no such "
                "model. Fit it with ids=..., or leave ids out."
            )
        seen = np.isin(hash_ids(self.ids, len(self.y)), record.ids)
        if seen.any():
            raise ValueError(
                f"the rows should be new to the model, got {int(seen.sum())} of {len(seen)} ids "
                f"that it was fitted on. Certify on rows that were kept apart."
            )


def candidates_compared(record: TrainingRecord, rows: Fingerprint) -> int:
    """How many candidates a model compared on these rows; an error if it learnt from them."""
    if rows in (record.given, record.learnt) or rows.overlaps(record.learnt):
        share = 1.0 if rows in (record.given, record.learnt) else rows.share_seen(record.learnt)
        raise ValueError(
            f"the rows should be new to the model, got rows of which {share:.0%} are rows that "
            f"it was fitted on: what they show is no evidence of how it ranks others. Certify "
            f"on rows that were kept apart, or fit AUUCMax(selection='certificate'), which "
            f"keeps half of them apart."
        )
    aside = record.set_aside
    known = aside is not None and (rows == aside or rows.overlaps(aside))
    return record.n_candidates if known else 1


@dataclass(frozen=True)
class SeenRows:
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


def record_of(model: Any) -> tuple[TrainingRecord | None, SeenRows]:
    """What a model remembers of its rows, and how it sees others.

    It may be inside a search, a pipeline or a TrialModel, and these inside each other.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import FunctionTransformer
    >>> from auucmax import TwoModels, make_trial
    >>> trial = make_trial(100, random_state=0)
    >>> model = TwoModels().fit(trial.X, trial.y, treatment=trial.treatment)
    >>> record, seen = record_of(make_pipeline(FunctionTransformer(np.abs), model))
    >>> record
    TrainingRecord(100 rows)
    >>> np.array_equal(seen(trial.X), np.abs(trial.X))
    True
    """
    steps: tuple[Any, ...] = ()
    while not hasattr(model, "training_record_"):
        if hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif hasattr(model, "steps"):
            steps += (model[:-1],) if len(model.steps) > 1 else ()
            model = model.steps[-1][1]
        elif hasattr(model, "encoder") and hasattr(model, "estimator"):  # a TrialModel
            steps += (model.encoder,)
            model = model.estimator
        else:
            return None, SeenRows(steps)
    return model.training_record_, SeenRows(steps, model.n_features_in_)


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
