"""The mean rank of several models, by default a linear one and boosted trees.

A score of one model says little on the scale of another; ranks are on one scale. A model's rank of
a person is that of the score among the training rows, between 0 and 1, which is kept
as at most 1,000 knots with straight lines between them, each the mean of at least 20 rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import get_tags

from auucmax._errors import InputError
from auucmax._validation import Bools, Floats
from auucmax.estimators.base import UpliftEstimator, count_parameters, free_random_states
from auucmax.estimators.boosted import BoostedEffect
from auucmax.estimators.formula import Formula, RankMean
from auucmax.estimators.shrunk import ShrunkInteractions
from auucmax.estimators.targets import SAMPLE
from auucmax.results import LEAST_ROWS
from auucmax.rows import Sample

MOST_KNOTS = 1_000


@dataclass(eq=False, repr=False)
class UpliftEnsemble(UpliftEstimator):
    """Mean rank of a logistic model with shrunk interactions and of boosted trees.

    Or of any other models.

        score(x) = mean over models m of F_m(score_m(x)),   F_m: their distribution in training

    The default of ``auucmax fit``. A linear model ranks badly where effects have steps and
    interactions, trees where they are linear; the mean of both does badly in neither case. Outcomes
    may be any number, if all members take that, as the default ones do
    (:mod:`auucmax.estimators.targets`). Features may be missing (NaN), if all members take that, as
    the default ones do.

    Parameters
    ----------
    estimators : models with ``fit(X, y, *, treatment)`` and ``predict(X)``; None:
        ``ShrunkInteractions`` and ``BoostedEffect``.
    random_state : seed of members whose own is None: the default members use the same folds.
    control : label of the control group, when treatment is not 0/1.

    Attributes
    ----------
    estimators_ : the fitted models.
    knots_ : for each model an array (2, k): scores, and their ranks between 0 and 1.
    n_parameters_ : sum over models and knots; None if unknown for one of them.

    Examples
    --------
    >>> from auucmax import TwoModels, AUUCMax, make_trial
    >>> train, test = make_trial(6_000, random_state=0).split(random_state=0)
    >>> model = UpliftEnsemble([TwoModels(), AUUCMax()], random_state=0)
    >>> model = model.fit(train.X, train.y, treatment=train.treatment)
    >>> score = model.predict(test.X)
    >>> bool(0 <= score.min() and score.max() <= 1)
    True
    """

    estimators: Sequence[Any] | None = None
    _: KW_ONLY
    random_state: int | None = None

    def _fit(
        self, X: NDArray[Any], y: Floats, treated: Bools, sample_weight: Floats | None
    ) -> None:
        self.estimators_ = self.new_members()
        weight = {} if sample_weight is None else {"sample_weight": sample_weight}
        for model in self.estimators_:
            model.fit(X, y, treatment=treated, **weight)
        ones = np.ones(len(y)) if sample_weight is None else sample_weight
        keys = np.arange(len(y), dtype=np.uint64)
        self.knots_ = []
        for model in self.estimators_:
            values = np.column_stack([model.predict(X), ones])
            self.knots_.append(rank_knots(*Sample.of(values, keys, SAMPLE, n_rows=len(y)).values.T))
        members = [getattr(model, "formula_", None) for model in self.estimators_]
        plain = tuple(member for member in members if isinstance(member, Formula))
        self.formula_ = RankMean(plain, tuple(self.knots_)) if len(plain) == len(members) else None
        count = count_parameters(*self.estimators_)
        knots = sum(own.size for own in self.knots_)
        self.n_parameters_: int | None = None if count is None else count + knots

    def new_members(self) -> list[Any]:
        """The models to be fitted, with their seeds.

        Models of different classes share a seed, so that they use the same folds; a second model of
        a class gets another seed, or it would equal the first.
        """
        given = self.estimators
        if given is None:
            given = [ShrunkInteractions(), BoostedEffect()]
        if not len(given):
            raise InputError("estimators", "at least one model", "none", "Name some.")
        seeds = np.random.SeedSequence(self.random_state).generate_state(len(given)).tolist()
        models: list[Any] = []
        for model in given:
            seed = seeds[sum(type(one) is type(model) for one in models)]
            own = dict.fromkeys(free_random_states(model), seed)
            if hasattr(model, "control"):  # members learn from booleans, whatever the user's labels
                own["control"] = None
            models.append(clone(model).set_params(**own))
        return models

    def _predict(self, X: NDArray[Any]) -> Floats:
        total = np.zeros(len(X))
        for model, knots in zip(self.estimators_, self.knots_, strict=True):
            total += np.interp(model.predict(X), *knots)
        return total / len(self.estimators_)

    @property
    def _allows_missing(self) -> bool:
        given = [] if self.estimators is None else self.estimators
        return all(get_tags(model).input_tags.allow_nan for model in given)


def rank_knots(score: Floats, weight: Floats | None = None) -> Floats:
    """Knots (2, k): increasing scores, and their ranks between 0 and 1.

    A knot is the mean of at least 20 rows' scores, and of their ranks, so that it reveals nobody's
    score; rows of one score share their middle rank. Two further knots, as far out as the next ones
    are in, have the ranks 0 and 1.

    >>> knots = rank_knots(np.repeat([3.0, 1, 2], [20, 60, 20]))
    >>> knots.round(6).tolist()
    [[0.0, 1.0, 2.0, 3.0, 4.0], [0.0, 0.3, 0.7, 0.9, 1.0]]
    """
    levels, code, count = np.unique(score, return_inverse=True, return_counts=True)
    mass = np.bincount(code, weights=weight)
    through = np.cumsum(mass)
    rank = (through - mass / 2) / through[-1]
    # Neighbouring levels, together at least so many rows.
    least = max(LEAST_ROWS, len(score) / MOST_KNOTS)
    before = np.cumsum(count) - count
    block = np.minimum(before // least, max(len(score) // least - 1, 0))
    first = np.flatnonzero(np.diff(block, prepend=-1))
    size = np.add.reduceat(count, first)
    knots = np.array([np.add.reduceat(count * part, first) / size for part in (levels, rank)])
    knots = knots[:, np.diff(knots[0], prepend=-np.inf) > 0]  # scores may be equal up to rounding
    if knots.shape[1] < 2:
        return knots
    (low, second), (last, high) = knots[0, :2], knots[0, -2:]
    ends = np.array([[2 * low - second], [0.0]]), np.array([[2 * high - last], [1.0]])
    return np.concatenate([ends[0], knots, ends[1]], axis=1)
