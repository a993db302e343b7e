from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from auucmax.data.hillstrom import _table, load_hillstrom

COLUMNS_22 = [
    *(f"recency_{month}" for month in range(1, 13)),
    *("zip_Rural", "zip_Surburban", "zip_Urban"),
    *("channel_Multichannel", "channel_Phone", "channel_Web"),
    *("history", "mens", "womens", "newbie"),
]
COLUMNS_18 = [
    *("recency", "history", "mens", "womens", "newbie"),
    *(f"history_segment_{number}" for number in range(1, 8)),
    *COLUMNS_22[12:18],
]
ONE_HOT = {"recency_": 12, "zip_": 3, "channel_": 3, "history_segment_": 7}


def test_the_published_facts_of_the_default():
    trial = load_hillstrom()
    y, treated = trial.y, trial.treated
    assert (trial.n_rows, trial.n_features) == (42_693, 22)
    assert (treated.sum(), (~treated).sum()) == (21_387, 21_306)
    assert (y[treated].sum(), (1 - y[treated]).sum()) == (3_238, 18_149)
    assert (y[~treated].sum(), (1 - y[~treated]).sum()) == (2_262, 19_044)
    p_t, p_c = y[treated].mean(), y[~treated].mean()
    facts = [p_t, p_c, p_t * (1 - p_t), p_c * (1 - p_c), p_t - p_t**2 / 2 - p_c**2 / 2, p_t - p_c]
    published = [0.151400, 0.106167, 0.128478, 0.094896, 0.134304, 0.045233]
    assert np.round(facts, 6).tolist() == published
    assert round(treated.mean(), 5) == 0.50095
    assert round(y.mean(), 5) == 0.12883
    assert trial.summary().effects[0].effect == pytest.approx(p_t - p_c)


@pytest.mark.parametrize(
    ("arm", "counts"),
    [
        ("womens", {0: 21_306, 1: 21_387}),
        ("mens", {0: 21_306, 1: 21_307}),
        ("any", {0: 21_306, 1: 42_694}),
        ("all", {"No E-Mail": 21_306, "Womens E-Mail": 21_387, "Mens E-Mail": 21_307}),
    ],
)
def test_arms(arm, counts):
    trial = load_hillstrom(arm)
    assert pd.Series(trial.treatment).value_counts().to_dict() == counts
    assert trial.is_multi_arm == (arm == "all")
    assert trial.arm_names[0] == "No E-Mail"
    assert trial.control == ("No E-Mail" if arm == "all" else 0)


def test_one_arm_of_all_is_the_two_arm_trial():
    pair = load_hillstrom("all", "spend").select_arm("Mens E-Mail")
    mens = load_hillstrom("mens", "spend")
    np.testing.assert_array_equal(pair.y, mens.y)
    np.testing.assert_array_equal(pair.treatment, mens.treatment)
    np.testing.assert_array_equal(pair.X, mens.X)
    assert pair.arm_names == mens.arm_names


def test_outcomes():
    spend = load_hillstrom("all", "spend").y
    conversion = load_hillstrom("all", "conversion").y
    visit = load_hillstrom("all", "visit").y
    assert (visit.sum(), conversion.sum()) == (9_394, 578)
    np.testing.assert_array_equal(spend > 0, conversion == 1)
    assert (visit >= conversion).all()


@pytest.mark.parametrize(
    ("encoding", "columns"),
    [("22", COLUMNS_22), (22, COLUMNS_22), ("18", COLUMNS_18), (18, COLUMNS_18)],
)
def test_number_encodings(encoding, columns):
    X = load_hillstrom("all", encoding=encoding).X
    assert list(X.columns) == columns
    assert X.dtypes.eq(np.float64).all()
    for prefix, levels in ONE_HOT.items():
        block = X[[c for c in columns if c.startswith(prefix)]]
        if block.shape[1]:
            assert block.shape[1] == levels
            assert block.isin([0.0, 1.0]).all(axis=None)
            assert (block.sum(axis=1) == 1).all()
            assert (block.sum() > 0).all()
    assert (X["history"].min(), X["history"].max()) == (29.99, 3345.93)


def test_the_raw_columns_and_the_codes_agree():
    raw = load_hillstrom("all", encoding="raw").X
    assert list(raw.columns) == [
        *("recency", "history_segment", "history", "mens"),
        *("womens", "zip_code", "newbie", "channel"),
    ]
    text = ["history_segment", "zip_code", "channel"]
    assert [c for c in raw if isinstance(raw[c].dtype, pd.CategoricalDtype)] == text
    X = load_hillstrom("all", encoding=18).X.join(load_hillstrom("all").X.filter(like="recency_"))
    segment = raw["history_segment"].astype(str)
    for number in range(1, 8):
        np.testing.assert_array_equal(
            X[f"history_segment_{number}"] == 1, segment.str.startswith(f"{number})")
        )
    np.testing.assert_array_equal(X["zip_Surburban"] == 1, raw["zip_code"] == "Surburban")
    np.testing.assert_array_equal(X["channel_Web"] == 1, raw["channel"] == "Web")
    np.testing.assert_array_equal(X["recency_12"] == 1, raw["recency"] == 12)
    assert raw.iloc[0].tolist() == [10, "2) $100 - $200", 142.44, 1, 0, "Surburban", 0, "Phone"]


def test_each_call_has_its_own_table():
    first = load_hillstrom("all", encoding="raw")
    first.X.loc[:, "history"] = -1.0
    first.y[:] = -1.0
    again = load_hillstrom("all", encoding="raw")
    assert again.X["history"].min() > 0
    assert again.y.min() == 0


@pytest.mark.parametrize("outcome", ["visit", "conversion", "spend"])
@pytest.mark.parametrize("encoding", ["22", "18", "raw"])
@pytest.mark.parametrize("arm", ["all", "any", "mens"])
def test_a_trial_shares_nothing_with_the_table_in_memory(arm, outcome, encoding):
    trial, table = load_hillstrom(arm, outcome, encoding), _table()
    kept = [table[name].to_numpy() for name in table]
    given = [trial.y, trial.treatment]
    given += [trial.X[name].to_numpy() for name in trial.X if trial.X[name].dtype.kind in "if"]
    assert not any(np.shares_memory(a, b) for a in given for b in kept if a.dtype == b.dtype)
    before = trial.y.sum()
    trial.y[:] = 0
    trial.treatment[:] = trial.control
    again = load_hillstrom(arm, outcome, encoding)
    assert again.y.sum() == before
    assert len(again.arms) == (3 if arm == "all" else 2)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"arm": "both"}, "arm should be one of 'womens', 'mens', 'any', 'all', got 'both'"),
        ({"outcome": "clicks"}, "outcome should be one of"),
        ({"encoding": 20}, "encoding should be one of '22', '18', 'raw', got '20'"),
    ],
)
def test_unknown_choices(wrong, message):
    with pytest.raises(ValueError, match=message):
        load_hillstrom(**wrong)
