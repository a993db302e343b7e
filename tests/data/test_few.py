import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auucmax.data.covariates import encode
from auucmax.data.few import LEAST_ROWS, rounded, significant, step_of, tellable, tellable_columns

COUNTS = st.lists(st.tuples(*[st.sampled_from([0, 1, 5, 19, 20, 25, 300])] * 2), max_size=6)


@settings(deadline=None)
@given(COUNTS, st.booleans())
def test_neither_a_level_nor_what_the_others_leave_is_few(counts, of_arms):
    counts = np.array(counts, dtype=float).reshape(-1, 2).T
    told = tellable(counts, of_arms=of_arms)
    groups = [*counts[:, told].T]
    if told.any():
        groups.append(counts[:, ~told].sum(axis=1))
    for own in groups:
        nobody = (own == 0).all() if of_arms else own == 0
        assert (nobody | (own >= LEAST_ROWS)).all()
    if told.any():  # nothing is kept back that could be told
        plenty = (counts >= LEAST_ROWS).all(axis=0)
        assert told[plenty].sum() >= plenty.sum() - (not plenty.all()) * 2


def test_levels_that_leave_one_person_are_not_told():
    counts = np.array([[500.0, 300, 40, 1], [500, 300, 40, 0]])
    assert tellable(counts, of_arms=True).tolist() == [True, True, False, False]
    assert tellable(counts[:, :3], of_arms=True).all()
    only = np.array([[500.0, 25], [500, 0]])  # all who have the level are of one arm
    assert not tellable(only, of_arms=True).any()
    assert tellable(only, of_arms=False).all()  # none of them is on top, as their features say


def test_columns_are_told_by_the_people_of_each_part():
    n = 400
    frame = pd.DataFrame(
        {
            "flag": np.arange(n) < 30,  # 30 people, 25 of them in the first part
            "age": np.arange(n) % 50,
            "town": np.where(np.arange(n) == 7, "Zed", np.where(np.arange(n) % 2, "a", "b")),
        }
    )
    first = np.isin(np.arange(n), np.r_[0:25, 100:250]).astype(float)
    found = tellable_columns(encode(frame), np.stack([first, 1 - first]), of_arms=True)
    assert found.tolist() == [False, True, True, False, False]
    even = (np.arange(n) // 2) % 2  # the flag is of 15 people of each part
    parts = np.stack([even, 1 - even]).astype(float)
    assert not tellable_columns(encode(frame), parts, of_arms=True)[0]


@given(st.integers(20, 10**7), st.integers(1, 19))
def test_a_share_does_not_tell_its_denominator(n, missing):
    """That of all people is as good as that of those who have a value."""
    share, step = (n // 3) / n, step_of(n).item()
    assert step <= max(20 / n, 0.01)
    told = rounded(np.array([share]), step).item()
    assert abs(told - share) <= step / 2 * (1 + 1e-9)
    other = np.arange(n - missing + 1) / max(n - missing, 1) if n < 1000 else np.array([])
    if n > 100 and len(other):  # some number of people fits both
        assert (np.abs(other - told) <= step / 2 + 1e-12).any()


def test_numbers_are_rounded_by_their_spread():
    assert step_of(4_000, 30.0) == pytest.approx(0.1)
    assert step_of(4_000, 0.0) == 0
    assert rounded(np.array([1234.567, np.nan]), 10.0).tolist()[0] == 1230
    assert rounded(np.array([1.2345]), 0.0).tolist() == [1.2345]
    assert significant(np.array([1234.5, np.nan]))[0] == 1230
