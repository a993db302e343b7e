"""Profiles of people and drivers of scores: right numbers, and none about fewer than 20 people."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from auucmax.data.covariates import binned
from auucmax.model.profiles import (
    describe_arms,
    describe_drivers,
    describe_top,
    top_part,
)


def test_shares_of_the_top_and_the_rest_are_counted():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.choice(["x", "y"], 1000), "b": rng.normal(size=1000)})
    score = np.where(frame["a"] == "x", 1.0, 0.0) + 0.01 * rng.random(1000)
    found = next(one for one in describe_top(binned(frame), score) if one.share == 0.4)
    first = found.columns[0]
    assert (first.name, found.n_columns, found.arm) == ("a", 2, None)
    inside = np.isin(np.arange(1000), np.argsort(-score)[:400])
    for own, side in ((first.inside, inside), (first.outside, ~inside)):
        for name, share in zip(first.bins, own, strict=True):
            count = int(((frame["a"] == name) & side).sum())
            assert share is None if count < 20 else share == pytest.approx(count / side.sum())


def test_arms_of_few_people_are_left_out():
    frame = pd.DataFrame({"age": np.arange(400.0), "home": ["yes", "no"] * 200})
    given = np.repeat([0, 1, 2, 3], [180, 100, 19, 101])
    found = describe_arms(binned(frame), given, ["a", "b", "c"], 0.3)
    assert [own.arm for own in found] == ["a", "c"]
    age = found[1].columns[0]  # those who get c are the oldest
    assert age.name == "age"
    assert age.inside[-1] > 0.5
    assert age.inside[0] is None


def test_tied_people_at_the_cut_are_in_the_top_in_part():
    score = np.array([2.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    assert top_part(score, 0.3).tolist() == [1.0, 0.5, 0.5, 0.5, 0.5, 0, 0, 0, 0, 0]
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0] * 40})
    (found,) = describe_drivers(frame, np.zeros(160), 0.25).drivers
    assert found.top == found.rest == 1.5
    assert found.correlation is None


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "skew": rng.exponential(size=500),
            "far": 1e9 + rng.standard_normal(500),
            "city": rng.choice(["a", "b", "c"], 500),
            "holes": np.where(rng.random(500) < 0.2, np.nan, rng.standard_normal(500)),
        }
    )


def by_name(found):
    return {(own.name, own.category): own for own in found.drivers}


def test_correlation_is_spearmans_and_means_are_those_of_the_parts(frame):
    rng = np.random.default_rng(1)
    score = frame["skew"].to_numpy() + rng.standard_normal(500)
    rows = by_name(describe_drivers(frame, score, 0.2))
    top = score >= np.sort(score)[-100]
    for name in ("skew", "far", "holes"):
        known = frame[name].notna().to_numpy()
        row, x = rows[name, None], frame[name].to_numpy()
        if name != "holes":  # ranks of the score are over all rows
            assert row.correlation == pytest.approx(spearmanr(score, x).statistic)
        assert row.top == pytest.approx(x[top & known].mean())
        assert row.rest == pytest.approx(x[~top & known].mean())
        difference = (x[top & known].mean() - x[~top & known].mean()) / x[known].std()
        assert row.difference == pytest.approx(difference, rel=1e-6)
    is_b = (frame["city"] == "b").to_numpy()
    assert rows["city", "b"].top == pytest.approx(is_b[top].mean())


def test_strongest_first_and_monotone_transforms_change_nothing(frame):
    score = frame["skew"].to_numpy()
    found = describe_drivers(frame, score, 0.3)
    assert found.drivers[0].name == "skew"
    assert found.drivers[0].correlation == pytest.approx(1)
    sizes = [abs(own.correlation) for own in found.drivers]
    assert sizes == sorted(sizes, reverse=True)
    assert describe_drivers(frame, np.exp(score), 0.3) == found


@pytest.mark.parametrize("n", [1, 19, 20, 60])
def test_no_number_is_about_fewer_than_20_people(frame, n):
    city = np.where(np.arange(500) < n, "Zed", frame["city"])
    rows = by_name(describe_drivers(frame.assign(city=city), -np.arange(500.0), 0.3))
    assert (("city", "Zed") in rows) == (n >= 20)
    if n >= 20:  # all of them are on top
        assert rows["city", "Zed"].top == pytest.approx(n / 150)
        assert rows["city", "Zed"].rest is None
    flags = pd.DataFrame({"flag": (np.arange(500) < n).astype(float), "far": frame["far"]})
    assert (("flag", None) in by_name(describe_drivers(flags, np.arange(500.0), 0.3))) == (n >= 20)
