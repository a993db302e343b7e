"""Columns as plain data, and the waves of dates."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auucmax.encoding import TableEncoder
from auucmax.encoding.columns import CYCLES, SHIFTS, Column, wave

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


def test_seasons_follow_the_calendar():
    first = pd.date_range("1970-01-01", "2100-01-01", freq="YS")
    days = (first - pd.Timestamp("1970-01-01")).days.to_numpy(dtype=float)
    assert np.abs(wave(days, "sine", "year")).max() < math.sin(2 * math.pi * 2 / 365)  # two days
    assert wave(days + 365.2425 / 2, "cosine", "year").max() < -0.99


DATES = {
    "a month of days": (pd.date_range("2024-03-01", periods=31), ["week"]),
    "two years of days": (pd.date_range("2022-03-01", periods=731), ["year", "week"]),
    "Mondays of two years": (pd.date_range("2022-02-28", periods=105, freq="7D"), ["year"]),
    "hours of a day": (pd.date_range("2022-03-01", periods=20, freq="h"), []),
    "hours of a week": (pd.date_range("2022-03-01", periods=190, freq="h"), ["week", "day"]),
    "noons": (pd.date_range("2022-03-01 13:20", periods=400), ["year", "week"]),
    "hours": (pd.date_range("2022-03-01", periods=400, freq="37h"), ["year", "week", "day"]),
    "years before 1970": (pd.date_range("1948-03-01", periods=900), ["year", "week"]),
}


@pytest.mark.parametrize("name", list(DATES))
def test_dates_have_the_waves_that_they_tell(name):
    dates, cycles = DATES[name]
    encoder = TableEncoder().fit(pd.DataFrame({"d": dates}))
    assert encoder.columns_[0].cycles == tuple(cycles)
    expected = [f"d: {kind} of the {cycle}" for cycle in cycles for kind in SHIFTS]
    assert encoder.get_feature_names_out().tolist() == ["d", *expected]
    assert np.ptp(encoder.transform(pd.DataFrame({"d": dates})), axis=0).min() > 0.1


def test_a_missing_date_has_no_place_in_a_cycle():
    dates = pd.Series([*pd.date_range("2022-03-01", periods=800), None])
    encoder = TableEncoder().fit(pd.DataFrame({"d": dates}))
    found = encoder.transform(pd.DataFrame({"d": dates.tail(1)}))
    assert found.tolist() == [[encoder.columns_[0].fill, 0, 0, 0, 0, 1]]


COLUMNS = [
    Column("age", "number", has_missing=True, fill=40.0),
    Column("d", "date", fill=19_700.0, cycles=("year", "week")),
    Column("town", "category", ("a", "b"), has_other=True, other_share=0.25),
    Column("zip", "category", ("a", "b"), takes_new=True, base=(0.1, -0.2, 0.0)),
    Column("zip", "category", ("a",), has_missing=True, base=(0.1, 0.0), effect=(0.0, 0.5)),
    Column("plan", "code", ("1", "20")),
]


@pytest.mark.parametrize("column", COLUMNS)
def test_plain_data_has_what_is_unusual_and_is_read_back(column):
    plain = json.loads(json.dumps(column.to_plain(), allow_nan=False))
    assert Column.of_plain(plain) == column
    usual = {"has_other", "varies", "takes_new", "more"} - {
        field for field in ("has_other", "takes_new") if getattr(column, field)
    }
    assert not usual & set(plain)


@pytest.mark.parametrize(
    "change",
    [
        {"base": [0.1, 0.2]},
        {"base": [0.1, 0.2, "x"]},
        {"base": [0.1, 0.2, float("nan")]},
        {"effect": [0.1, 0.2, float("inf")]},
        {"effect": [True, False, True]},
        {"effect": [0.1, 0.2, 1e300]},
        {"levels": ["a", "a"]},
        {"unknown": 1},
        {"base": 3},
        {"more": ["c"]},
        {"cycles": ["year"]},
        {"kind": "code", "levels": ["1", "2"]},
        {"levels": []},
    ],
)
def test_plain_data_that_no_encoder_wrote_is_refused(change):
    plain = Column("zip", "category", ("a", "b"), base=(0.1, -0.2, 0.0)).to_plain()
    with pytest.raises(ValueError, match=r"no such column|should (be|have)"):
        Column.of_plain(plain | change)


@pytest.mark.parametrize("cycles", [["week", "year"], ["month"], ["year", "year"]])
def test_cycles_are_known(cycles):
    with pytest.raises(ValueError, match="no such column"):
        Column.of_plain({"name": "d", "kind": "date", "fill": 1.0, "cycles": cycles})
