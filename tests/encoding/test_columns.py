"""Columns as plain data, and the waves of dates.

Numbers of levels, learnt from outcomes.
"""

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.encoding.reference import encode_slow, means_slow

from auucmax.encoding import TableEncoder
from auucmax.encoding.columns import (
    CYCLES,
    N_FOLDS,
    Column,
    fold_of,
    means_of,
    sums_of,
    wave,
)

DAYS = st.floats(-700_000, 3_000_000)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(DAYS, min_size=1, max_size=9),
    st.sampled_from([*CYCLES]),
    st.sampled_from(["sine", "cosine"]),
)
def test_a_wave_is_the_sine_of_the_place_in_its_cycle(days, cycle, kind):
    function = {"sine": math.sin, "cosine": math.cos}[kind]
    exact = [function(2 * math.pi * math.fmod(day, CYCLES[cycle]) / CYCLES[cycle]) for day in days]
    # A day of many digits is known to some 1e-10 only.
    assert np.abs(wave(np.array(days), kind, cycle) - exact).max() < 1e-6
    later = wave(np.array(days) + 7 * CYCLES[cycle], kind, cycle)
    np.testing.assert_allclose(later, wave(np.array(days), kind, cycle), rtol=0, atol=2e-6)


COLUMNS = [
    Column("age", "number", has_missing=True, fill=40.0),
    Column("d", "date", fill=19_700.0, cycles=("year", "week")),
    Column("town", "category", ("a", "b"), other_share=0.25),
    Column("zip", "category", ("a", "b"), takes_new=True, base=(0.1, -0.2, 0.0)),
    Column("zip", "category", ("a",), has_missing=True, base=(0.1, 0.0), effect=(0.0, 0.5)),
    Column("plan", "code", ("1", "20")),
]


@pytest.mark.parametrize("column", COLUMNS)
def test_plain_data_has_what_is_unusual_and_is_read_back(column):
    plain = json.loads(json.dumps(column.to_plain(), allow_nan=False))
    assert Column.of_plain(plain) == column
    usual = {"varies"} if column.takes_new else {"varies", "takes_new"}
    assert not usual & set(plain)


@pytest.mark.parametrize(
    "change",
    [
        {"base": [0.1, 0.2]},
        {"base": [0.1, 0.2, "x"]},
        {"base": [0.1, 0.2, float("nan")]},
        {"effect": [0.1, 0.2, float("inf")]},
        {"effect": [True, False, True]},
        {"levels": ["a", "a"]},
        {"unknown": 1},
        {"base": 3},
        {"cycles": ["year"]},
        {"kind": "code", "levels": ["1", "2"]},
        {"levels": []},
    ],
)
def test_plain_data_that_no_encoder_wrote_is_refused(change):
    plain = Column("zip", "category", ("a", "b"), base=(0.1, -0.2, 0.0)).to_plain()
    with pytest.raises(ValueError, match=r"no such column|validation error"):
        Column.of_plain(plain | change)


LEVELS = ["a", "b", "c", "d"]


def many(n, n_levels, rng, *, base=0.1, effect=0.1, rate=0.4, gaps=0.0):
    """Rows of a trial with a column of many levels, of which some have more rows."""
    weight = 1 / np.arange(1, n_levels + 1) ** 0.5
    place = rng.choice(n_levels, n, p=weight / weight.sum())
    own = rng.normal(size=(2, n_levels)) * [[base], [effect]]
    treated = rng.random(n) < 0.5
    chance = np.clip(rate + own[0, place] + (0.05 + own[1, place]) * treated, 0.01, 0.99)
    texts = np.array([f"z{k:03d}" for k in range(n_levels)], dtype=object)[place]
    texts[rng.random(n) < gaps] = None
    frame = pd.DataFrame({"age": rng.normal(size=n), "zip": texts})
    return frame, (rng.random(n) < chance).astype(float), treated, own, place


@st.composite
def rows(draw):
    n = draw(st.integers(8, 60))
    texts = draw(st.lists(st.sampled_from([*LEVELS, "e", "f", None]), min_size=n, max_size=n))
    outcome = st.integers(0, 1) if draw(st.booleans()) else st.floats(-5, 5, width=16)
    y = draw(st.lists(outcome, min_size=n - 2, max_size=n - 2))
    treated = draw(st.lists(st.booleans(), min_size=n - 2, max_size=n - 2))
    # Both arms are there; outcomes that levels tell apart are as likely as any.
    y = [
        value + 2 * draw(st.sampled_from([0, 1])) * (text in ("a", "b"))
        for value, text in zip([*y, 0, 1], texts, strict=True)
    ]
    return texts, np.array(y, dtype=float), np.array([*treated, True, False])


@settings(max_examples=150, deadline=None)
@given(rows(), st.integers(1, 4))
def test_means_are_the_slow_definition(given_rows, fewest):
    texts, y, treated = given_rows
    places = np.array([-1 if t is None else [*LEVELS, t].index(t) for t in texts])
    sums = sums_of(places, len(LEVELS), y, treated, np.arange(len(y)))
    assert sums.shape == (N_FOLDS, len(LEVELS) + 2, 2, 3)
    assert sums[..., 0].sum() == len(y)
    found = means_of(sums.sum(axis=0), fewest, clearly=True)
    expected = means_slow(texts, y.tolist(), treated.tolist(), LEVELS, fewest)
    for own, slow in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, slow, rtol=1e-6, atol=1e-9)


def test_training_rows_have_the_numbers_of_their_fold_and_others_those_of_all():
    rng = np.random.default_rng(1)
    frame, y, treated, *_ = many(6_000, 60, rng, gaps=0.05)
    encoder = TableEncoder()
    outcome_terms = encoder.fit_transform(frame, y, treatment=treated)
    names = encoder.get_feature_names_out().tolist()
    assert names == ["age", "zip: base", "zip: effect", "zip: missing"]
    features = encoder.transform(frame)
    np.testing.assert_array_equal(features[:300], encode_slow(frame.head(300), encoder))
    np.testing.assert_array_equal(outcome_terms[:, [0, 3]], features[:, [0, 3]])
    same = TableEncoder().fit(frame, y, treated)
    assert same.columns_ == encoder.columns_
    # One number a level for new rows, one a level and fold for those that were learnt from.
    table = pd.DataFrame({"zip": frame["zip"], "fold": fold_of(np.arange(len(y)))})
    table["new"], table["own"] = features[:, 1], outcome_terms[:, 1]
    assert table.groupby("zip")["new"].nunique().max() == 1
    assert table.groupby(["zip", "fold"])["own"].nunique().max() == 1
    assert table.groupby("zip")["own"].nunique().median() == N_FOLDS
    assert np.corrcoef(table["new"], table["own"])[0, 1] > 0.9


def test_levels_that_outcomes_do_not_tell_apart_have_no_feature():
    rng = np.random.default_rng(4)
    frame, y, treated, *_ = many(4_000, 50, rng, base=0.0, effect=0.0)
    encoder = TableEncoder().fit(frame, y, treated)
    assert encoder.get_feature_names_out().tolist() == ["age"]
    assert encoder.dropped_ == {"zip": "with levels of the same outcomes"}
    assert encoder.feature_names_in_.tolist() == ["age", "zip"]
    # That a value is missing is known all the same.
    frame.loc[:200, "zip"] = None
    encoder = TableEncoder().fit(frame, y, treated)
    assert encoder.get_feature_names_out().tolist() == ["age", "zip: other", "zip: missing"]
    assert encoder.columns_[1].levels == ()
    new = pd.DataFrame({"age": [0.0] * 3, "zip": ["z001", "never seen", None]})
    assert encoder.transform(new)[:, 1:].tolist() == [[1, 0], [1, 0], [0, 1]]
    # A table of this column alone has to have features.
    known = frame["zip"].notna().to_numpy()
    alone = TableEncoder().fit(frame.loc[known, ["zip"]], y[known], treated[known])
    assert len(alone.terms_) == 31
    assert TableEncoder.from_dict(encoder.to_dict()).columns_ == encoder.columns_


def test_numbers_of_few_people_are_not_in_the_file():
    rng = np.random.default_rng(6)
    frame, y, treated, *_ = many(9_000, 400, rng, base=0.3, effect=0.3)
    counts = pd.crosstab(frame["zip"], treated)
    encoder = TableEncoder().fit(frame, y, treated)
    (column,) = (c for c in encoder.columns_ if c.name == "zip")
    of_arms = counts.loc[list(column.levels)].to_numpy()
    assert 30 < len(column.levels) < 400
    assert of_arms.sum(axis=1).min() >= 20
    few = of_arms.min(axis=1) < 20
    assert few.sum() > 20
    assert (np.array(column.effect[:-1])[few] == 0).all()
    assert (np.array(column.effect[:-1])[~few] != 0).all()
    assert all(value == float(f"{value:.3g}") for value in (*column.base, *column.effect))
    text = json.dumps(encoder.to_dict())
    assert not any(f'"{name}"' in text for name, n in counts.sum(axis=1).items() if n < 20)


@pytest.mark.parametrize("spread", [0.1, 0.3])
def test_shrunk_numbers_are_nearer_to_the_truth(spread):
    """Than those of the level alone, and than none at all: by standard errors, over many trials."""
    rng = np.random.default_rng(8)
    better = []
    for _ in range(30):
        _, y, treated, own, place = many(4_000, 80, rng, base=0.0, effect=spread, rate=0.45)
        sums = sums_of(place, 80, y, treated, np.arange(len(y))).sum(axis=0)
        found = means_of(sums, 5, clearly=False).effect[:-1]
        n, total = sums[:-2, :, 0], sums[:-2, :, 1]
        alone = np.diff(total / np.maximum(n, 1))[:, 0] - np.diff(total.sum(0) / n.sum(0))
        truth = own[1] - np.average(own[1], weights=n.sum(axis=1))
        squares = [(number - truth) ** 2 for number in (found, alone, 0.0)]
        loss = [np.average(square, weights=n.sum(axis=1)) for square in squares]
        better.append([loss[1] - loss[0], loss[2] - loss[0]])
    mean, error = np.mean(better, axis=0), np.std(better, axis=0) / np.sqrt(len(better))
    assert (mean > 2 * error).all()


@pytest.mark.gate
def test_levels_that_do_not_differ_are_seldom_told_apart():
    rng = np.random.default_rng(9)
    n_columns, told = 400, np.zeros(2)
    for _ in range(n_columns):
        _, y, treated, _, place = many(3_000, 60, rng, base=0.0, effect=0.0, rate=0.1)
        sums = sums_of(place, 60, y, treated, np.arange(len(y))).sum(axis=0)
        told += [values.any() for values in means_of(sums, 20, clearly=True)]
    share = told / n_columns
    assert (share < 0.05 + 3 * np.sqrt(0.05 * 0.95 / n_columns)).all()
    assert (share > 0).all()
