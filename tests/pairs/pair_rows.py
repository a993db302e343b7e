"""Rows for the tests of the pair engine: heavy ties, scores a knot apart, one-row classes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from auucmax.pairs import Bins, OutcomeLevels, PairRows, PairSummary, hinge, s_log, s_poly, sigmoid
from auucmax.rows import ArrayRows


@dataclass
class Rows:
    score: np.ndarray
    y: np.ndarray
    treated: np.ndarray
    weight: np.ndarray | None

    @cached_property
    def levels(self):
        return OutcomeLevels.of(ArrayRows(self.score[:, None], self.y, self.treated, self.weight))

    @cached_property
    def codes(self):
        return self.levels.codes(self.y, self.treated)

    @property
    def cut(self):
        """The outcomes as their levels count them."""
        levels = self.levels
        return np.concatenate([levels.values[0, ::-1], levels.values[1]])[self.codes]

    def each(self, multipliers):
        """The multiplier of each row's arm."""
        return np.where(self.treated, *multipliers)


#: Few values are levels of their own; more than 32 are cut at quantiles.
OUTCOMES = ((0.0, 1.0), (0.0, 1.0, 2.0, 5.0), (-40.0, -0.5, 0.0, 0.25, 19.99, 1000.0), (-3.0, 2.0))


@st.composite
def coded_rows(draw, length=1.0, all_classes=False, max_rows=44, outcomes=OUTCOMES):
    """Scores on lattices of the surrogate's length (ties, knots hit exactly) or anywhere."""
    n = draw(st.integers(4, max_rows))
    treated = draw(npst.arrays(np.bool_, n))
    values = np.array(draw(st.sampled_from((*outcomes, None)[: len(outcomes) + (n > 34)])))
    if values.ndim:
        y = values[draw(npst.arrays(np.int64, n, elements=st.integers(0, len(values) - 1)))]
    else:
        y = np.arange(n) ** 2 / 7.0 - draw(st.integers(0, 300))
        if draw(st.booleans()):
            y = np.where(draw(npst.arrays(np.bool_, n)), y, 0.0)
    y[:2] = values[:2] if values.ndim else (0.0, 1.0)  # one outcome alone is refused
    if all_classes:
        treated[:4] = True, True, False, False
        y[:4] = y.min(), y.max(), y.max(), y.min()
    steps, divisor = draw(st.sampled_from([(0, 1), (2, 1), (9, 4), (50, 7), (10**6, 10**5)]))
    score = draw(npst.arrays(np.int64, n, elements=st.integers(-steps, steps))) / divisor
    shift = draw(st.sampled_from([0.0, 0.3, -1000.0]))
    weight = None
    if draw(st.booleans()):
        weight = draw(npst.arrays(np.int64, n, elements=st.integers(0, 5))) / 2.0
        weight[:4] += 0.5
    return Rows(length * (score + shift), y, treated, weight)


def trial(n, d=4, seed=0, scale=1.0, outcome="binary"):
    """Features, outcome, treatment, weights and a direction of the given length.

    ``outcome`` is "binary", "count" (few values) or "money" (many, 0 among them, some below).
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    w = rng.normal(size=d)
    y = (rng.random(n) < 0.3).astype(int)
    treatment = (rng.random(n) < 0.6).astype(int)
    weight = rng.uniform(0.5, 2.0, n)
    if outcome == "count":
        y = y * rng.poisson(2.0, n)
    elif outcome == "money":
        y = y * (rng.lognormal(3.0, 1.0, n).round(2) - 5.0)
    return X, y, treatment, weight, scale * w / np.linalg.norm(w)


def level_values(objective, y, treatment):
    """The outcomes as the levels of an objective count them."""
    values = objective.levels.values
    codes = objective.levels.codes(np.asarray(y, float), np.asarray(treatment) == 1)
    return np.concatenate([values[0, ::-1], values[1]])[codes]


any_outcome = pytest.mark.parametrize("outcome", ["binary", "count", "money"])
#: s_poly with both values of mu that the paper names.
SURROGATES = (s_poly(), s_poly(mu=1.0), s_log(), hinge(), sigmoid())
every = pytest.mark.parametrize("s", SURROGATES, ids=str)


def summary_of(score, codes, width, weight=None, n_classes=4):
    """Moments of given scores."""
    bins = Bins.covering(score.min(), score.max(), width)
    rows = PairRows(score[:, None], codes, weight, n_classes)
    return PairSummary.from_rows(rows, np.ones(1), bins)
