"""Held-out rows for certificates, and the check that the model has not seen them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from auucmax._errors import InputError
from auucmax._validation import Bools, Floats, check_column, check_treatment, check_whole
from auucmax.data.hashing import Checksum


def scored(
    models: Sequence[Any],
    X: Any,
    y: ArrayLike | None,
    treatment: ArrayLike | None,
    control: Any,
    n_candidates: int,
) -> tuple[Floats, Bools, list[Floats], int]:
    """Validate held-out rows: outcome, treatment, scores by model, and the number of candidates.

    ``models`` are fitted models, or scores.
    """
    if y is None or treatment is None:
        raise InputError(
            "y" if y is None else "treatment", "a column of the held-out rows", "none",
            "Call certify(model, X, y, treatment=t), or certify(score, y=y, treatment=t).",
        )  # fmt: skip
    n_candidates = check_whole(n_candidates, "n_candidates", 1)
    outcome = check_column(y, "y")
    if control is None:
        control = getattr(models[0], "control", None)
    treated = check_treatment(treatment, len(outcome), control=control)
    scores = []
    for model in models:
        scores.append(check_column(_predictions(model, X), "score", len(outcome)))
        fitted = fitted_on(model)
        if fitted is not None:
            n_candidates *= fitted.candidates(Checksum.of(fitted.seen(X), outcome, treated))
    return outcome, treated, scores, n_candidates


@dataclass(frozen=True)
class InnerRows:
    """Rows as seen by a nested model, after the ``steps`` before it.

    A function from X of the outer model to X of the inner one, which has ``n_features``. It can be
    pickled without either model.
    """

    steps: tuple[Any, ...] = ()
    n_features: int | None = None

    def __call__(self, X: Any) -> Any:
        for step in self.steps:
            X = step.transform(X)
        return X


class FittedOn(NamedTuple):
    """The rows a model was fitted on, as the model received them.

    ``n_candidates`` were compared on rows that the model set aside. Such rows look like new ones,
    so a certificate corrects for the candidates on all rows.
    """

    checksum: Checksum
    seen: InnerRows
    n_candidates: int = 1

    def candidates(self, rows: Checksum) -> int:
        """Return ``n_candidates``, or raise an error if these are the training rows."""
        if rows == self.checksum:
            raise InputError(
                "the rows", "new to the model", "the rows that it was fitted on",
                "They are no evidence of how it ranks others: certify on rows that were kept "
                "apart, or fit AUUCMax(selection='certificate'), which keeps half of them apart.",
            )  # fmt: skip
        return self.n_candidates


def fitted_on(model: Any) -> FittedOn | None:
    """The training rows of a model, if known, else None.

    It may be inside a search, a pipeline or an UpliftModel, and these inside each other.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import FunctionTransformer
    >>> from auucmax import TwoModels, make_trial
    >>> trial = make_trial(1000, random_state=0)
    >>> model = TwoModels().fit(trial.X, trial.y, treatment=trial.treatment)
    >>> found = fitted_on(make_pipeline(FunctionTransformer(np.abs), model))
    >>> found.checksum.n_rows
    1000
    >>> np.array_equal(found.seen(trial.X), np.abs(trial.X))
    True
    """
    steps: tuple[Any, ...] = ()
    n_tried = 1
    # From the outermost model inwards, with the steps that its rows take on the way.
    while not hasattr(model, "checksum_"):
        if hasattr(model, "best_estimator_"):
            n_tried *= len(model.cv_results_["params"]) if hasattr(model, "cv_results_") else 1
            model = model.best_estimator_
        elif hasattr(model, "steps"):
            steps += (model[:-1],) if len(model.steps) > 1 else ()
            model = model.steps[-1][1]
        elif hasattr(model, "scorers") and len(model.scorers) == 1:  # an UpliftModel
            if model.evidence.failed_check:
                raise InputError(
                    "the model", "that of a randomised trial", "one whose trial failed the check",
                    "Use model.evaluate(table), which checks the rows first.",
                )  # fmt: skip
            (scorer,) = model.scorers
            seen = InnerRows((*steps, scorer.encoder), len(scorer.encoder.terms_))
            # With a hold-out, rows that were set aside look like new ones.
            n_candidates = model.recipe.n_candidates if model.recipe.hold_out else 1
            return FittedOn(model.checksum, seen, n_candidates)
        else:
            return None
    # A search compared its models on all rows that it was given, those set aside included.
    n_candidates = len(model.selection_path_) * n_tried if hasattr(model, "certificate_") else 1
    return FittedOn(model.checksum_, InnerRows(steps, model.n_features_in_), n_candidates)


def predicted_outcome(model: Any, X: Any) -> Any:
    """Predictions of an outcome model; other values are returned unchanged."""
    if hasattr(model, "predict_proba"):
        return _predictions(model, X, "predict_proba")[:, 1]
    return _predictions(model, X)


def _predictions(model: Any, X: Any, method: str = "predict") -> Any:
    if not hasattr(model, method):
        return model
    if X is None:
        raise InputError(
            "X", "the features of the held-out rows when a model is given", "none",
            "Call certify(model, X, y, treatment=t), or pass predictions.",
        )  # fmt: skip
    return getattr(model, method)(X)
