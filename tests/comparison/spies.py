"""Models that remember what they were shown, or fail, and a trial for them."""

from __future__ import annotations

import pandas as pd
from sklearn.base import BaseEstimator

from auucmax import TwoModels, make_trial
from auucmax.baselines import MinimaxLinear
from auucmax.comparison import Comparison
from auucmax.estimators import TransformedOutcome

TRIAL = make_trial(600, n_features=4, base_rate=0.4, random_state=0)


LINEAR = [TwoModels(), TransformedOutcome(), MinimaxLinear(scale="column-l2")]


class Spy(BaseEstimator):
    """Scores by the first feature, and remembers what it was shown."""

    shown: tuple = ()

    def __init__(self, number=0, random_state=None):
        self.number = number
        self.random_state = random_state

    def fit(self, X, y, **others):
        Spy.shown += (("fit", X, y, others, self.random_state),)
        return self

    def predict(self, X, **others):
        Spy.shown += (("predict", X, None, others, self.random_state),)
        return X.iloc[:, 0].to_numpy()


class Stubborn(Spy):
    """Fails on the fits in ``fails``, counted over the class."""

    fails: tuple = ()
    error: type[BaseException] = ArithmeticError
    count = 0

    def fit(self, X, y, *, treatment):
        Stubborn.count += 1
        if Stubborn.count in self.fails:
            raise self.error("no luck.")
        return self


def same(a: Comparison, b: Comparison) -> None:
    pd.testing.assert_frame_equal(
        a.frame.drop(columns="fit_seconds"), b.frame.drop(columns="fit_seconds"), check_exact=True
    )


def fits() -> int:
    return sum(what == "fit" for what, *_ in Spy.shown)
