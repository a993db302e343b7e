"""Rows for the tests of the pair engine: heavy ties, scores a knot apart, one-row classes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from auucmax.pairs import ALL_SURROGATES


class Rows(NamedTuple):
    score: np.ndarray
    codes: np.ndarray
    weight: np.ndarray | None

    @property
    def y(self):
        return np.isin(self.codes, (0, 3)).astype(int)

    @property
    def treatment(self):
        return (self.codes < 2).astype(int)


@st.composite
def coded_rows(draw, length=1.0, all_classes=False, max_rows=40):
    """Scores on lattices of the surrogate's length (ties, knots hit exactly) or anywhere."""
    n = draw(st.integers(4, max_rows))
    codes = draw(npst.arrays(np.int8, n, elements=st.integers(0, 3)))
    if all_classes:
        codes[:4] = range(4)
    steps, divisor = draw(st.sampled_from([(0, 1), (2, 1), (9, 4), (50, 7), (10**6, 10**5)]))
    score = draw(npst.arrays(np.int64, n, elements=st.integers(-steps, steps))) / divisor
    shift = draw(st.sampled_from([0.0, 0.3, -1000.0]))
    weight = None
    if draw(st.booleans()):
        weight = draw(npst.arrays(np.int64, n, elements=st.integers(0, 5))) / 2.0
        weight[:4] += 0.5
    return Rows(length * (score + shift), codes, weight)


def trial(n, d=4, seed=0, scale=1.0):
    """Features, outcome, treatment, weights and a direction of the given length."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    w = rng.normal(size=d)
    y = (rng.random(n) < 0.3).astype(int)
    treatment = (rng.random(n) < 0.6).astype(int)
    return X, y, treatment, rng.uniform(0.5, 2.0, n), scale * w / np.linalg.norm(w)


every = pytest.mark.parametrize("s", ALL_SURROGATES, ids=str)
