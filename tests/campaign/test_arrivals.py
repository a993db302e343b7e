from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from tests.campaign.trial_days import running

from auucmax.campaign.arrivals import last_closed_day, read_arrivals, told_of_check
from auucmax.campaign.settings import Settings, window_days
from auucmax.data.balance import Suspect
from auucmax.data.randomisation_report import FailedCheckError

KEY = bytes(range(16))
SETTINGS = Settings("mail", "visit", "sent", "1", "0", "score", "person", window=5.0)
FIRST = 20454  # 2026-01-01
LAST = 10**6


def arrived(table, settings=SETTINGS, last_day=None, day=LAST):
    return read_arrivals(table, settings, KEY, last_day, day, None)


def test_days_enter_whole_when_their_window_has_closed():
    assert last_closed_day("2026-01-07", 5) == FIRST
    assert last_closed_day("2026-01-06 23:59", 5) == FIRST - 1
    assert last_closed_day("2026-01-07T01:00+02:00", 5) == FIRST - 1
    old, new = arrived(running(1000), last_day=FIRST + 1, day=FIRST + 3)
    assert (len(old.day), len(new.day), new.n_waiting) == (200, 200, 600)
    assert set(new.day.tolist()) == {FIRST + 2, FIRST + 3}


@pytest.mark.parametrize("window", ["soon", "-3d", None, "30 months", True])
def test_windows_that_are_none(window):
    with pytest.raises(ValueError, match="window should be a time such as '30d'"):
        window_days(window)
    assert window_days("36h") == 1.5


def test_dates_in_several_forms_are_refused_and_not_guessed():
    rows = running(10)
    days = rows["sent"].dt.strftime("%Y-%m-%d")
    for form in ("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d %B %Y"):
        other = rows["sent"].dt.strftime(form)
        mixed = days.where(rows.index != 7, other)
        got = f"got 1 of 10 rows with another form, such as {other[7]!r}"
        with pytest.raises(ValueError, match=got):
            arrived(rows.assign(sent=mixed))
        with pytest.raises(ValueError, match="got 10 of 10 rows with another form"):
            arrived(rows.assign(sent=other))
    noon = days + "T12:00:00+02:00"
    assert arrived(rows.assign(sent=noon.where(rows.index > 4, days)))[1].day.tolist() == (
        arrived(rows)[1].day.tolist()
    )


def test_dates_that_are_none():
    table = running(10)
    with pytest.raises(ValueError, match=r"the date 'other' should hold the day .* such as '0\."):
        arrived(table, Settings("mail", "visit", "other", "1", "0", "score"))
    with pytest.raises(ValueError, match="the date 'sent' should have no missing values, got 1"):
        arrived(table.assign(sent=table["sent"].where(table["person"] != 1003)))
    with pytest.raises(ValueError, match="as_of should be a date"):
        last_closed_day("tomorrow", 0)


def test_the_order_is_that_of_days_and_does_not_look_at_arms_or_outcomes():
    table = running(500)
    _, new = arrived(table)
    assert (np.diff(new.day) >= 0).all()
    turned = table.assign(mail=1 - table["mail"], visit=1 - table["visit"])
    _, other = arrived(turned.sample(frac=1, random_state=0))
    np.testing.assert_array_equal(new.scores, other.scores)
    np.testing.assert_array_equal(new.treated, ~other.treated)
    np.testing.assert_array_equal(new.y, 1 - other.y)


def test_without_ids_rows_of_a_day_are_shuffled():
    settings = Settings("mail", "visit", "sent", "1", "0", "score")
    table = running(100).sort_values("visit")
    _, new = arrived(table, settings)
    assert len(set(new.person.tolist())) == 100
    assert not np.array_equal(new.y, np.sort(new.y))


def test_outcomes_as_shares_of_their_range():
    table = running(100).assign(visit=np.arange(100.0))
    with pytest.raises(ValueError, match="the outcome 'visit' should be 0/1, or come with its"):
        arrived(table)
    money = Settings("mail", "visit", "sent", "1", "0", "score", "person", outcome_range=(0, 50))
    _, new = arrived(table, money)
    assert (new.y.min(), new.y.max(), int(new.beyond.sum())) == (0, 1, 49)
    less = Settings(
        "mail", "visit", "sent", "1", "0", "score", "person",
        outcome_range=(0, 50), lower_is_better=True,
    )  # fmt: skip
    np.testing.assert_allclose(arrived(table, less)[1].y, 1 - new.y)
    lost = running(100).assign(visit=np.nan)
    with pytest.raises(ValueError, match="should be known of every row whose window has closed"):
        arrived(lost)
    assert arrived(lost, day=FIRST - 1)[1].n_waiting == 100


def test_rows_of_other_arms_are_left_out():
    table = running(300)
    table["mail"] = np.where(table["person"] % 3 == 0, "post", table["mail"].astype(str))
    _, new = arrived(table, replace(SETTINGS, others=("post",)))
    assert (len(new.day), len(arrived(table[:0])[1].day)) == (200, 0)


def test_labels_that_were_not_there_at_the_first_look_are_refused():
    table = running(300)
    table["mail"] = np.where(table["person"] % 3 == 0, "Post", table["mail"].astype(str))
    said = r"should hold '1', '0', 'post', as at the first look, got 'Post' in 100 rows\. Check"
    with pytest.raises(ValueError, match=said) as caught:
        arrived(table, replace(SETTINGS, others=("post",)))
    assert "\n" not in str(caught.value)


def test_the_last_day_of_a_table_is_told_though_its_window_is_open():
    assert arrived(running(1000), day=FIRST + 3)[1].last == FIRST + 9
    assert arrived(running(10)[:0])[1].last is None


def test_an_empty_table_has_no_rows():
    old, new = arrived(running(10).iloc[:0])
    assert len(old.day) == len(new.day) == 0


def test_columns_that_are_missing_are_named():
    with pytest.raises(ValueError, match=r"should have the columns? 'visit'"):
        arrived(running(10).drop(columns="visit"))
    dates = running(10).assign(sent=lambda rows: rows["sent"].dt.strftime("%Y-%m-%d"))
    assert set(arrived(pd.DataFrame(dates))[1].day.tolist()) == {FIRST}


def test_a_day_that_could_be_of_two_months_is_refused():
    with pytest.raises(ValueError, match="as_of should be a date such as"):
        last_closed_day("03.02.2026", 14)


@pytest.mark.parametrize(
    ("measure", "value", "stops"),
    [("p", 5e-4, False), ("p", 4e-6, True), ("AUC", 0.999, True)],
)
def test_a_column_that_predicts_well_stops_no_more_looks_than_others(measure, value, stops):
    """One good trial in a thousand has p < .001 in such a column at a look, and looks are many."""
    suspect = Suspect("replied", "treatment", measure, value)
    report = SimpleNamespace(suspects=(suspect,), tests=(), stops=True, verdict="", advice=())
    if not stops:
        assert told_of_check(report, 10, 1e-4).startswith("chance makes arms differ so at one look")
        return
    with pytest.raises(FailedCheckError):
        told_of_check(report, 10, 1e-4)
