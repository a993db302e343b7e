"""Trials with several treatments: one model an arm, and at most one arm a person."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, validate_data

from auucmax._validation import (
    Bools,
    Floats,
    check_column,
    check_labels,
    check_shares,
    check_treatment_given,
    check_weight,
    listed,
)
from auucmax.data.trial import TrialKFold, make_strata
from auucmax.estimators.base import (
    UpliftEstimator,
    copy_with,
    count_parameters,
    fit_rows,
    free_random_states,
)
from auucmax.metrics.functions import auuc_score
from auucmax.metrics.ranking import rank_rows


class OneArm(NamedTuple):
    """The rows of one arm and of the control: a trial of its own."""

    X: Any
    y: Floats
    treated: Bools
    weight: Floats | None

    def take(self, index: NDArray[np.intp]) -> OneArm:
        weight = None if self.weight is None else self.weight[index]
        return OneArm(_safe_indexing(self.X, index), self.y[index], self.treated[index], weight)

    def effect(self) -> float:
        weight = np.ones(len(self.y)) if self.weight is None else self.weight
        treated, control = (
            np.average(self.y[arm], weights=weight[arm]) for arm in (self.treated, ~self.treated)
        )
        return float(treated - control)


class ArmRows(NamedTuple):
    X: Any
    y: Floats
    labels: NDArray[Any]
    control: Any
    weight: Floats | None

    def arms(self) -> tuple[Any, ...]:
        others = [label for label in pd.unique(self.labels).tolist() if label != self.control]
        return tuple(sorted(others, key=lambda v: (isinstance(v, str), v)))

    def against_control(self, arm: Any) -> tuple[NDArray[np.intp], OneArm]:
        treated = np.asarray(self.labels == arm, dtype=bool)
        index = np.flatnonzero(treated | (self.labels == self.control))
        return index, OneArm(self.X, self.y, treated, self.weight).take(index)


def label_array(labels: list[Any]) -> NDArray[Any]:
    """Labels as an array; of their own types, where these differ.

    >>> label_array([1, 2, "none"]).tolist(), label_array([1, 2, 0]).dtype.kind
    ([1, 2, 'none'], 'i')
    """
    types = {type(label.item() if isinstance(label, np.generic) else label) for label in labels}
    return np.array(labels, dtype=object) if len(types) > 1 else np.array(labels)


N_FOLDS = 5


class MultiArm(UpliftEstimator):
    """One clone of an estimator for each arm against the control; ranks (person, arm) pairs.

    Arms can be weighed against each other only if their scores are on one scale. TwoModels,
    TransformedOutcome, ClassTransformation and the representations estimate the effect itself.
    Scores of AUUCMax, SVMDifferentialPrediction and UpliftLambdaMART only rank. So by default each
    arm's score is calibrated to an effect, linear in the rank:

        effect of arm a on x = ATE_a + gain_a / var(u) (u - 1/2)

    with u the share of training rows of lower score (ties half), var(u) = 1/12 without ties, and
    gain_a = AUUC - ATE/2 of cross-fitted scores (mean of 5 folds, arms ranked separately; taken as
    0 if below). That is the best linear prediction of the effect from the rank, since the gain is
    the covariance of effect and u. The order within an arm stays, also of scores beyond those of
    the training rows, which share the half of a row that is left there. An arm whose score does not
    gain gets the same effect for everybody.

    Parameters
    ----------
    estimator : any of our estimators, or a pipeline or search of one; cloned for each arm. It sees
        the arm as 1, the control as 0.
    calibrate : "linear", or None: scores as they are.
    random_state : of the folds of the calibration, and of the estimator where its own is None.
    control : label of the control group; None means 0.

    Attributes
    ----------
    arms_ : tuple of the labels of the arms, without the control, in the order of ``predict``.
    estimators_ : the fitted estimator of each arm, by label.
    n_parameters_ : those of all arms together; None if the estimator does not say.
    calibration_ : frame with effect (ATE), gain (cross-fitted) and slope of each arm; None if not
        calibrated.

    Examples
    --------
    >>> from auucmax import TwoModels, load_hillstrom
    >>> train, test = load_hillstrom(arm="all").split(random_state=0)
    >>> model = MultiArm(TwoModels(), control="No E-Mail", random_state=0)
    >>> model = model.fit(train.X, train.y, treatment=train.treatment)
    >>> model.arms_
    ('Mens E-Mail', 'Womens E-Mail')
    >>> model.predict(test.X).shape
    (19200, 2)
    >>> model.rank_pairs(test.X, share=0.1).shape  # columns row, arm and score
    (1920, 3)
    """

    def __init__(
        self,
        estimator: Any,
        *,
        calibrate: str | None = "linear",
        random_state: int | Generator | None = None,
        control: Any = None,
    ) -> None:
        self.estimator = estimator
        self.calibrate = calibrate
        self.random_state = random_state
        self.control = control

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        *,
        treatment: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit each arm against the control; ``treatment`` holds the labels of all arms.

        Other parameters are those of every estimator.
        """
        if self.calibrate not in ("linear", None):
            raise ValueError(
                f"calibrate should be 'linear' or None, got {self.calibrate!r}. None leaves the "
                f"scores of the estimator as they are."
            )
        rows = self._rows(X, y, treatment, sample_weight)
        validate_data(self, X, skip_check_array=True)
        rng = np.random.default_rng(self.random_state)
        new = self._new_estimator(rng)
        self.arms_ = rows.arms()
        self.estimators_: dict[Any, Any] = {}
        self._scales: dict[Any, _Scale] = {}
        for arm in self.arms_:
            _, part = rows.against_control(arm)
            model = _fitted(clone(new), part)
            self.estimators_[arm] = model
            if self.calibrate is not None:
                gain = _crossfitted_gain(new, part, rng)
                self._scales[arm] = _Scale.of(part, gain, model.predict(part.X))
        scales = [(arm, s.effect, s.gain, s.slope) for arm, s in self._scales.items()]
        table = pd.DataFrame(scales, columns=["arm", "effect", "gain", "slope"])
        self.calibration_ = None if self.calibrate is None else table
        self.n_parameters_ = count_parameters(*self.estimators_.values())
        return self

    def predict(self, X: Any) -> Floats:
        """(n, arms): the score of each arm, an effect if it is calibrated; see ``arms_``."""
        self._check_is_fitted()
        scores = np.column_stack([self.estimators_[arm].predict(X) for arm in self.arms_])
        for place, arm in enumerate(self.arms_):
            if arm in self._scales:
                scores[:, place] = self._scales[arm].effect_of(scores[:, place])
        return scores

    def best_arm(self, X: Any, *, minimum: float | None = None) -> NDArray[Any]:
        """(n,) label of the arm of the highest score; the control where none is above ``minimum``.

        With effects as scores, ``minimum=0`` leaves alone whom no arm is estimated to help.
        """
        scores = self.predict(X)
        labels = label_array([*self.arms_, self._control()])
        best = scores.argmax(axis=1)
        if minimum is not None:
            best = np.where(scores.max(axis=1) > minimum, best, len(self.arms_))
        return labels[best]

    def rank_pairs(
        self, X: Any, *, share: float = 1.0, minimum: float | None = None
    ) -> pd.DataFrame:
        """Each person's best arm, from the highest score down: whom to treat, and with what.

        Returns a frame with columns row (position in X), arm and score: the first
        round(share * n) people, of whom those at or below ``minimum`` are left out.
        """
        (share,) = check_shares(share)
        scores = self.predict(X)
        best = scores.argmax(axis=1)
        top = scores[np.arange(len(scores)), best]
        order = np.argsort(-top, kind="stable")[: round(share * len(top))]
        if minimum is not None:
            order = order[top[order] > minimum]
        arms = pd.Series(list(self.arms_))
        return pd.DataFrame(
            {"row": order, "arm": arms.iloc[best[order]].to_numpy(), "score": top[order]}
        )

    def score(
        self,
        X: Any,
        y: ArrayLike,
        *,
        treatment: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Mean over the arms of the AUUC of each against the control.

        It tells how well each arm's score ranks, not whether arms are chosen well: for that see
        :func:`auucmax.metrics.budget_curve`, which takes what :meth:`predict` returns.
        """
        rows, scores = self._rows(X, y, treatment, sample_weight), self.predict(X)
        self._check_arms(rows)
        values = []
        for place, arm in enumerate(self.arms_):
            index, part = rows.against_control(arm)
            score = scores[index, place]
            values.append(
                auuc_score(part.y, score, treatment=part.treated, sample_weight=part.weight)
            )
        return float(np.mean(values))

    def _control(self) -> Any:
        return 0 if self.control is None else self.control

    def _new_estimator(self, rng: Generator) -> Any:
        # The arms come as 1 and 0, whatever the labels.
        model = copy_with(self.estimator, control=None)
        free = free_random_states(self.estimator)
        seed = int(rng.integers(2**31 - 1)) if free else None
        return model.set_params(**dict.fromkeys(free, seed))

    def _rows(
        self, X: Any, y: ArrayLike, given: ArrayLike | None, sample_weight: ArrayLike | None
    ) -> ArmRows:
        outcome = check_column(y, "y", _num_samples(X), than="X")
        labels = check_labels(check_treatment_given(given), "treatment", len(outcome))
        is_control = np.asarray(labels == self._control(), dtype=bool)
        if not is_control.any() or is_control.all():
            raise ValueError(
                f"treatment should hold the label of the control group, {self._control()!r}, and "
                f"at least one other, got {listed(pd.unique(labels).tolist())}. "
                f"Name the control with control=..."
            )
        weight = None if sample_weight is None else check_weight(sample_weight, ~is_control)
        return ArmRows(X, outcome, labels, self._control(), weight)

    def _check_arms(self, rows: ArmRows) -> None:
        if rows.arms() != self.arms_:
            raise ValueError(
                f"treatment should hold the arms that the model was fitted on, "
                f"{listed(self.arms_)}; got {listed(rows.arms())}. Drop the rows of other arms."
            )


class _Scale(NamedTuple):
    """A line from the scores of an arm to effects, so that arms can be compared."""

    effect: float
    gain: float
    slope: float
    levels: Floats  # different training scores, from lowest to highest
    below: Floats  # u of each: share of the training rows of lower score, ties half
    spread: float  # standard deviation of the training scores

    @classmethod
    def of(cls, part: OneArm, gain: float, score: Floats) -> _Scale:
        ranking = rank_rows(score)
        weight = np.ones(len(score)) if part.weight is None else part.weight
        sums = ranking.level_sums(weight[ranking.order])
        first = slice(None) if ranking.starts is None else ranking.starts
        below = (np.cumsum(sums) - sums / 2) / sums.sum()
        variance = float(np.average((below - 0.5) ** 2, weights=sums))
        slope = max(gain, 0.0) / variance if len(below) > 1 else 0.0
        levels = score[ranking.order][first]
        spread = float(np.sqrt(np.cov(levels, aweights=sums, ddof=0))) or 1.0
        return cls(part.effect(), gain, slope, levels, below, spread)

    def effect_of(self, score: Floats) -> Floats:
        """Effects of scores; those beyond the training scores keep their order too."""
        lowest, highest = self.levels[[0, -1]]
        u = np.interp(score, self.levels, self.below)
        # Below the lowest training score u falls towards 0, above the highest it rises towards 1.
        u *= np.exp(np.minimum(score - lowest, 0.0) / self.spread)
        u = 1.0 - (1.0 - u) * np.exp(np.minimum(highest - score, 0.0) / self.spread)
        return self.effect + self.slope * (u - 0.5)


def _fitted(model: Any, part: OneArm) -> Any:
    more = {} if part.weight is None else {"sample_weight": part.weight}
    return fit_rows(model, part.X, part.y, treatment=part.treated.astype(np.int8), **more)


def _crossfitted_gain(model: Any, part: OneArm, rng: Generator) -> float:
    """Mean over folds of AUUC - ATE/2, of models fitted on the other folds."""
    # Learners of a 0/1 outcome need both values in each arm, in every fold.
    by = "treatment-outcome" if len(np.unique(part.y)) == 2 else "treatment"
    strata = make_strata(part.treated, part.y, by=by)
    strata.require(2, "to be calibrated", "use calibrate=None")
    n_folds = min(N_FOLDS, int(np.bincount(strata.codes).min()))
    folds = TrialKFold(n_folds, by=by, random_state=rng)
    gains = []
    for train, test in folds.split(part.y[:, None], part.y, treatment=part.treated):
        held_out = part.take(test)
        score = _fitted(clone(model), part.take(train)).predict(held_out.X)
        # Ranked arm by arm, people of the two arms have the same mean u: less noise.
        auuc = auuc_score(
            held_out.y,
            score,
            treatment=held_out.treated,
            ranking="separate",
            sample_weight=held_out.weight,
        )
        gains.append(auuc - held_out.effect() / 2)
    return float(np.mean(gains))
