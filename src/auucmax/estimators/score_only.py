"""Adapter for models of other libraries, or any scoring function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import is_classifier
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from auucmax._errors import InputError
from auucmax._validation import (
    Floats,
    check_column,
    check_treatment_given,
)
from auucmax.data.hashing import Checksum
from auucmax.estimators.base import UpliftEstimator, count_parameters


@dataclass(eq=False, repr=False)
class ScoreOnly(UpliftEstimator):
    """Wrap an external model or scoring function as an estimator.

    Scores are the values of, whichever ``model`` has first,

    * ``model.effect(X)`` (EconML);
    * ``model.predict(X)`` (scikit-uplift; CausalML's meta-learners, trees and forests; a regressor
      of the uplift). Where CausalML returns the response rates of control and treatment, in two
      columns, the score is their difference;
    * ``model(X)``, any function.

    X is passed on unchanged, frame or array. Scores must be finite, one per row: (n,) or (n, 1).
    For a model of several treatments pass a function that selects one, such as
    ``lambda X: model.predict(X)[:, 0]``. A classifier of the outcome is refused, since its
    ``predict`` returns labels.

    ``ScoreOnly(model)`` is ready at once, ``fit`` checks its arguments and changes nothing, and
    ``clone`` keeps the fitted model. It must then have been fitted on *other* rows than those it is
    evaluated on, the training part of every split included. ``ScoreOnly(fit_with=...)`` is fitted
    anew by each ``fit``.

    Parameters
    ----------
    model : a fitted model, or a function X -> scores.
    fit_with : a function (X, y, treatment) -> fitted model or function X -> scores, called by
        ``fit`` with X unchanged, y as float and treatment as 0/1 arrays. Weights are passed as
        ``sample_weight``, if there are any.
    control : label of the control group, when treatment is not 0/1.

    Attributes
    ----------
    scorer_ : what ``fit_with`` returned.
    n_parameters_ : number of parameters of the model; None if unknown.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> train, test = load_hillstrom().split(random_state=0)
    >>> rule = ScoreOnly(lambda X: X["womens"])
    >>> round(rule.score(test.X, test.y, treatment=test.treatment), 3)
    0.031

    Another library's learner, fitted again on each split; here a scikit-learn regressor of a
    transformed outcome stands for it:

    >>> from sklearn.linear_model import Ridge
    >>> learner = ScoreOnly(fit_with=lambda X, y, t: Ridge().fit(X, y * (2 * t - 1)))
    >>> learner = learner.fit(train.X, train.y, treatment=train.treatment)
    >>> round(learner.score(test.X, test.y, treatment=test.treatment), 3)
    0.03
    """

    model: Any = None
    _: KW_ONLY
    fit_with: Callable[..., Any] | None = None

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        treatment: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Call ``fit_with`` on these rows; with a fitted ``model`` only check them.

        Parameters are those of every estimator, but X may hold whatever the model takes.
        """
        self._check_parameters()
        given = check_treatment_given(treatment)
        outcome, treated, weight = self._check_columns(X, y, given, sample_weight)
        if self.fit_with is None:
            return self
        validate_data(self, X, skip_check_array=True)  # remembers the columns
        more = {} if weight is None else {"sample_weight": weight}
        self.scorer_ = self.fit_with(X, outcome, treated.astype(np.int8), **more)
        _scoring_function(self.scorer_)
        try:
            self.checksum_ = Checksum.of(np.asarray(X, dtype=np.float64), outcome, treated)
        except (TypeError, ValueError):  # rows that are no numbers
            self.__dict__.pop("checksum_", None)
        return self

    def predict(self, X: Any) -> Floats:
        """Scores, (n,): the higher, the sooner a person should be treated."""
        self._check_parameters()
        check_is_fitted(self)
        if hasattr(self, "n_features_in_"):
            validate_data(self, X, reset=False, skip_check_array=True)
        scorer = self.model if self.fit_with is None else self.scorer_
        values = np.asarray(_scoring_function(scorer)(X))
        arms, control = list(getattr(scorer, "classes_", ())), getattr(scorer, "control_name", None)
        if values.ndim == 2 and values.shape[1] == len(arms) == 2 and control in arms:
            place = arms.index(control)
            values = values[:, 1 - place] - values[:, place]
        return check_column(values, "score", _num_samples(X), than="X")

    @property
    def n_parameters_(self) -> int | None:
        """Number of fitted parameters, if known."""
        check_is_fitted(self)
        return count_parameters(self.model if self.fit_with is None else self.scorer_)

    def _check_parameters(self) -> None:
        if (self.model is None) == (self.fit_with is None):
            raise InputError(
                "model", "given, or fit_with", "neither" if self.model is None else "both",
                "Pass a fitted model or a function of X, or a function that fits one.",
            )  # fmt: skip
        if self.fit_with is None:
            _scoring_function(self.model)

    def __sklearn_is_fitted__(self) -> bool:
        return self.fit_with is None or hasattr(self, "scorer_")

    def __sklearn_clone__(self) -> ScoreOnly:
        # scikit-learn would clone the model too, and so forget its fit.
        return type(self)(self.model, fit_with=self.fit_with, control=self.control)


def _scoring_function(scorer: Any) -> Callable[[Any], Any]:
    """What scores rows: ``effect``, ``predict`` or the function itself."""
    is_object = not isinstance(scorer, type)
    # The predict of a classifier returns labels.
    if is_object and not (hasattr(scorer, "__sklearn_tags__") and is_classifier(scorer)):
        for function in (getattr(scorer, "effect", None), getattr(scorer, "predict", None), scorer):
            if callable(function):
                return cast("Callable[[Any], Any]", function)
    raise InputError(
        "model", "a function X -> scores, or a fitted model with effect(X) or predict(X) of scores",
        repr(scorer), "Pass for example lambda X: model.predict_proba(X)[:, 1].",
    )  # fmt: skip
