from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.campaign.trial_days import NAMED, running

from auucmax import load_hillstrom
from auucmax._archive import ArchiveFormat, ModelFileError
from auucmax.campaign import Monitor, arrivals, monitor_trial
from auucmax.campaign.arm_balance import ArmBalance, ratio_path
from auucmax.campaign.arrivals import read_arrivals
from auucmax.campaign.monitor_state import FORMAT
from auucmax.data.randomisation_report import FailedCheckError
from auucmax.model import fit_trial_model

END = "2026-06-01"


@pytest.fixture
def rows():
    return running()


@pytest.fixture
def looked(rows):
    """A monitor that has seen the first ten days, and the rows of all days."""
    monitor = Monitor.of(rows, **NAMED)
    monitor.look(rows, as_of="2026-01-16")
    return monitor


def test_the_same_seed_gives_the_same_bounds(rows):
    found = [Monitor.of(rows, **NAMED).look(rows, as_of=END).bounds for _ in range(2)]
    assert found[0] == found[1]
    other = Monitor.of(rows, **NAMED | {"random_state": 1}).look(rows, as_of=END).bounds
    assert other != found[0]


def day(number):
    return str(pd.Timestamp("2026-01-01") + pd.Timedelta(number, "D"))


@given(data=st.data())
@settings(max_examples=5, deadline=None)
def test_any_number_of_looks_is_one_look(data):
    """With all rows so far, or with those of the last days, whenever one looks."""
    table = running(3_000, per_day=150)
    days = sorted(data.draw(st.lists(st.integers(0, 40), max_size=4)))
    first = data.draw(st.sampled_from(["all", "new"]))
    one = Monitor.of(table, **NAMED | {"rival_column": "other"})
    many = Monitor(one.settings, one.key, type(one.bets).fresh(2))
    for number in days:
        start = 0 if first == "all" or many.last_day is None else many.n_rows
        many.look(table[start:], as_of=day(number))
    whole, parts = (monitor.look(table, as_of=END) for monitor in (one, many))
    for name, own in whole.bounds.items():
        assert own == pytest.approx(parts.bounds[name], abs=1e-9)
    np.testing.assert_array_equal(one.people, many.people)
    np.testing.assert_array_equal(one.day_totals, many.day_totals)
    assert one.counts == many.counts
    assert one.alike.edges == many.alike.edges
    np.testing.assert_array_equal(one.alike.counts, many.alike.counts)


def test_a_state_that_is_kept_in_a_file(tmp_path, rows):
    path = tmp_path / "trial.state"
    for number in (10, 20, 30, 60):
        found = monitor_trial(rows, path, as_of=day(number), **NAMED)
        assert Monitor.load(path).n_rows == found.n_rows
    assert found.bounds["gain"]["lower"] > 0
    assert path.stat().st_mode & 0o77 == 0
    assert path.stat().st_size < 8 * len(rows) + 40_000
    assert [file.name for file in tmp_path.iterdir()] == ["trial.state"]
    assert found.n_new == 0 or found.n_waiting == 0
    assert monitor_trial(rows, path, as_of=day(60)).n_new == 0  # nothing need be told again


def test_rows_of_yesterday_are_not_needed(rows, looked):
    found = looked.look(rows[rows["sent"] >= "2026-01-11"], as_of=END)
    assert (found.n_rows, found.n_new) == (4000, 3000)


def test_a_look_says_what_may_be_acted_on(rows, looked):
    assert "cannot be told from a random order yet" in looked.look(rows, as_of="2026-01-17").verdict
    found = looked.look(rows, as_of=END)
    assert "is better than a random order" in found.verdict
    assert "at this look and at every other, with probability 0.95" in str(found)
    worse = Monitor.of(rows, **NAMED | {"rival_column": "other"})
    found = worse.look(rows.assign(score=-rows["score"]), as_of=END)
    assert "is worse than a random order, and worse than its rival" in found.verdict
    assert "harm" not in found.verdict
    harmed = rows.assign(visit=rows["visit"].where(rows["mail"] == 0, 0))
    found = Monitor.of(rows, **NAMED).look(harmed, as_of=END)
    assert found.verdict.startswith("The treatment does harm on average: stop it, or treat few.")
    early = Monitor.of(rows, **NAMED).look(rows[:100], as_of=END)
    assert early.bounds is None
    assert "Nothing can be said yet: 100 rows" in early.verdict


def refuse(monitor, table, match, as_of=END):
    """What is refused leaves the state as it was."""
    before = monitor.n_rows, monitor.last_day, monitor.bets.wealth.credit.copy()
    with pytest.raises(ValueError, match=match) as caught:
        monitor.look(table, as_of=as_of)
    assert "\n" not in str(caught.value)
    assert (monitor.n_rows, monitor.last_day) == before[:2]
    np.testing.assert_array_equal(monitor.bets.wealth.credit, before[2])
    assert monitor.look(running(), as_of=END).n_rows == 4000


def test_a_table_of_yesterday_closes_no_day_without_its_rows(tmp_path, rows):
    """Nor does an empty one: the rows come with the next table, and are not late."""
    path = tmp_path / "s"
    monitor_trial(rows[:1000], path, as_of="2026-01-16", **NAMED)
    for stale in (rows[:0], rows[:1000]):
        found = monitor_trial(stale, path, as_of="2026-02-20")
        assert (found.until, found.n_rows, found.n_new) == ("2026-01-10", 1000, 0)
    found = monitor_trial(rows, path, as_of="2026-02-20")
    assert (found.until, found.n_rows, found.n_new) == ("2026-02-09", 4000, 3000)
    waiting = Monitor.of(rows, **NAMED)
    assert waiting.look(rows[:2000], as_of="2026-01-16").until == "2026-01-10"  # others wait
    assert Monitor.of(rows, **NAMED).look(rows[:0], as_of="2026-01-16").until == "now"


def test_a_day_that_was_left_out_is_told_at_the_look_that_closes_it(tmp_path, rows):
    """Of a file that was not brought; weekends without rows are as they always are."""
    path, gone = tmp_path / "s", rows["sent"].isin(pd.to_datetime(["2026-01-13", "2026-01-14"]))
    first = monitor_trial(rows, path, as_of="2026-01-16", **NAMED)
    assert (first.skipped, first.gap) == ((), None)
    found = monitor_trial(rows[~gone], path, as_of="2026-01-25")
    assert found.skipped == ("2026-01-13", "2026-01-14")
    assert "No row is of 2026-01-13, 2026-01-14, though days like these have 20" in str(found)
    assert monitor_trial(rows[~gone], path, as_of=END).skipped == ()
    weekdays = rows[rows["sent"].dt.day_of_week < 5]
    assert Monitor.of(rows, **NAMED).look(weekdays, as_of=END).skipped == ()
    some = weekdays[weekdays["sent"] != pd.Timestamp("2026-01-06")]
    assert Monitor.of(rows, **NAMED).look(some, as_of=END).skipped == ("2026-01-06",)
    few = running(200, per_day=5)
    few = few[few["sent"] != pd.Timestamp("2026-01-20")]
    assert Monitor.of(few, **NAMED).look(few, as_of=END).skipped == ()


def test_rows_that_come_late(rows, looked):
    late = rows.iloc[[2000]].assign(sent=pd.Timestamp("2026-01-05"), person=99)
    refuse(looked, pd.concat([rows, late]), "in the order of their dates, got 1 of days until 2026")


def test_rows_that_disappear(rows, looked):
    refuse(looked, rows.drop(index=[5, 7]), r"got 2 rows fewer of the days since 2026-01-01")


def test_days_that_disappear(rows, looked):
    gone = rows["sent"].between("2026-01-03", "2026-01-04")
    refuse(looked, rows[~gone], "got 200 rows fewer")


def test_arms_that_change(rows, looked):
    changed = rows.assign(mail=rows["mail"].where(rows["person"] != 1003, 1 - rows["mail"]))
    refuse(looked, changed, "everybody should stay in one arm, got 1 who")


def test_outcomes_that_change(rows, looked):
    changed = rows.assign(visit=rows["visit"].where(rows["person"] != 1003, 1 - rows["visit"]))
    refuse(looked, changed, "rows should stay as they were when their outcome window closed")


def test_people_who_come_twice(rows, looked):
    again = rows[:100].assign(sent=pd.Timestamp("2026-02-20"))
    refuse(looked, again, "got 100 rows of people who")


def test_people_who_come_twice_at_one_look(rows, looked):
    twice = rows.assign(person=rows["person"].where(rows["person"] != 4000, 4001))
    refuse(looked, twice, "each person should come into the trial once, got 1 rows")


def test_people_who_come_again_in_the_other_arm(rows, looked):
    again = rows.iloc[[3999]].assign(person=1003, mail=1 - rows["mail"][3])
    refuse(looked, again, "everybody should stay in one arm, got 1 who")


def test_a_look_before_the_last(rows, looked):
    refuse(looked, rows, "as_of should not be before the last look", as_of="2026-01-10")


def test_without_ids_rows_that_disappear_or_change_are_seen(rows):
    monitor = Monitor.of(rows, **NAMED | {"id": None})
    monitor.look(rows, as_of="2026-01-16")
    with pytest.raises(ValueError, match="got 1 rows fewer"):
        monitor.look(rows.drop(index=3), as_of=END)
    with pytest.raises(ValueError, match="rows should stay as they were"):
        monitor.look(rows.assign(visit=rows["visit"].where(rows.index != 3, 1 - rows["visit"])))
    late = rows.iloc[[2000]].assign(sent=pd.Timestamp("2026-01-05"))
    with pytest.raises(ValueError, match="in the order of their dates"):
        monitor.look(pd.concat([rows, late]), as_of=END)
    assert monitor.look(rows, as_of=END).n_rows == 4000


@pytest.mark.parametrize(
    ("named", "match"),
    [
        ({"score_column": "other"}, "score_column should be 'score', as in the state file s, got"),
        ({"outcome": "other"}, "It is the state of another score or trial"),
        ({"window": "6d"}, "window should be 5.0"),
        ({"delta": 0.01}, "delta should be 0.05"),
        ({"treated": "0"}, "treated should be '1'"),
        ({"rival_column": "other"}, "rival_column should be None"),
    ],
)
def test_the_state_of_another_score_or_trial(tmp_path, rows, named, match):
    path = tmp_path / "s"
    monitor_trial(rows, path, as_of="2026-01-16", **NAMED)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=match):
        monitor_trial(rows, path, as_of=END, **NAMED | named)
    assert path.read_bytes() == before


def test_labels_that_come_later_are_refused(tmp_path, rows):
    path, named = tmp_path / "s", NAMED | {"treated": "mail", "control": "none"}
    rows = rows.assign(mail=np.where(rows["mail"] == 1, "mail", "none"))
    monitor_trial(rows, path, as_of="2026-01-16", **named)
    before = path.read_bytes()
    buyers = (rows["mail"] == "mail") & (rows["visit"] == 1) & (rows["sent"] >= "2026-01-11")
    other = rows.assign(mail=rows["mail"].where(~buyers, "Mail"))
    said = rf"'mail', 'none', as at the first look, got 'Mail' in {buyers.sum():,} rows\. Check"
    with pytest.raises(ValueError, match=said):
        monitor_trial(other, path, as_of=END)
    assert path.read_bytes() == before


def test_what_another_run_has_written_is_not_replaced(tmp_path, rows):
    """Two runs begin with one state; the first stops the trial, and the second must not forget."""
    path = tmp_path / "s"
    monitor_trial(rows, path, as_of="2026-01-16", **NAMED)
    slow = Monitor.load(path)
    biased = rows[1000:].assign(score=rows["score"] + 0.5 * rows["mail"])
    assert monitor_trial(biased, path, as_of=END).failed is not None
    stopped = path.read_bytes()
    assert slow.look(rows, as_of=END).failed is None
    said = "s should be as it was when this look began, got another state"
    with pytest.raises(ValueError, match=said) as caught:
        slow.save(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match=said):
        Monitor.of(rows, **NAMED).save(path)  # of another trial
    assert path.read_bytes() == stopped
    slow.save(tmp_path / "t")
    slow.look(rows, as_of=END)
    slow.save(tmp_path / "t")  # its own


@pytest.mark.parametrize(("some", "got"), [(slice(0), "no rows"), (slice(1), "rows of '0' alone")])
def test_a_first_look_at_one_arm_alone(rows, some, got):
    with pytest.raises(ValueError, match=f"should have rows of all arms in 'mail', got {got}"):
        Monitor.of(rows[some], **NAMED)


def test_files_that_are_no_state(tmp_path, rows):
    path = tmp_path / "s"
    monitor_trial(rows, path, as_of="2026-01-16", **NAMED)
    whole = path.read_bytes()
    for damaged in (b"person,mail\n", whole[:-200], whole.replace(b"last_day", b"past_day")):
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError, match="s should be a whole state file"):
            monitor_trial(rows, path, as_of=END, **NAMED)
        assert path.read_bytes() == damaged
    for damaged in (b"", whole[: len(whole) // 2]):
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError, match="Put back a copy of the state, or begin") as found:
            monitor_trial(rows, path, as_of=END)
        assert "model" not in str(found.value)


@pytest.mark.parametrize(
    ("named", "match"),
    [
        ({"score_column": None}, "should be a column of scores or a model, got neither"),
        ({"date": None}, "date should be the column of the day"),
        ({"treatment": None}, "treatment should name a column, got none. Pass treatment="),
        ({"outcome": None}, "outcome should name a column, got none. Pass outcome="),
        ({"delta": 1.5}, "delta should be a number strictly between"),
        ({"treated_share": 2}, "treated_share should be"),
        ({"outcome_range": (1, 0)}, "outcome_range should be two finite numbers"),
    ],
)
def test_options_that_are_none(rows, named, match):
    with pytest.raises(ValueError, match=match):
        Monitor.of(rows, **NAMED | named)


def test_arms_that_are_not_as_designed(rows):
    monitor = Monitor.of(rows, **NAMED | {"treated_share": 0.5})
    assert monitor.look(rows[:1000], as_of="2026-02-01").ratio > 0.05
    # Every fifth control row of all later days is lost.
    later = rows[1000:].assign(sent=rows["sent"] + pd.Timedelta(60, "D"))
    lost = (later["mail"] == 0) & (later["person"] % 5 == 0)
    found = monitor.look(later[~lost], as_of=END)
    assert found.ratio < 0.01
    assert found.bounds is None
    assert "The arms are not as they should be" in found.verdict
    assert " are treated by now, where 0.5 of them should be (p = " in found.verdict
    assert " at its worst, however often" in found.verdict
    even = rows[:2].assign(mail=[0, 1], sent=pd.Timestamp("2026-06-02"), person=[1, 2])
    assert monitor.look(even, as_of="2026-08-01").failed is not None  # it is not forgotten


def test_the_ratio_is_a_mixture_over_shares():
    """Against a fine sum over shares, weighed by the Beta density."""
    treated = np.random.default_rng(0).random(50) < 0.4
    share = (np.arange(200_000) + 0.5) / 200_000
    k, n = int(treated.sum()), len(treated)
    log_prior = (1000 * 0.3 - 1) * np.log(share) + (1000 * 0.7 - 1) * np.log1p(-share)
    prior = np.exp(log_prior - log_prior.max())
    ratio = (share / 0.3) ** k * ((1 - share) / 0.7) ** (n - k)
    expected = np.log((prior * ratio).sum() / prior.sum())
    assert ratio_path(treated, (0, 0), 0.3)[-1] == pytest.approx(expected, abs=1e-6)
    halves = ratio_path(treated[20:], (int((~treated[:20]).sum()), int(treated[:20].sum())), 0.3)
    assert halves[-1] == pytest.approx(expected, abs=1e-6)


@pytest.fixture(scope="module")
def table():
    trial = load_hillstrom()
    days = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(trial.n_rows) // 500, "D")
    frame = trial.X.assign(mail=trial.treatment, visit=trial.y, sent=days)
    return frame.assign(person=np.arange(trial.n_rows)).sample(12_000, random_state=0)


@pytest.fixture(scope="module")
def model(table):
    return fit_trial_model(
        table[:5000], treatment="mail", outcome="visit", id="person", ignore=["sent"],
        model="tm",
    )  # fmt: skip


def test_scores_are_those_of_the_model(table, model):
    new = table[5000:]
    monitor = Monitor.of(new, model=model, date="sent")
    found = monitor.look(new, model=model, as_of=END)
    column = Monitor.of(
        new.assign(score=0.0), date="sent", treatment="mail", outcome="visit", id="person",
        score_column="score",
    )  # fmt: skip
    scored = new.assign(score=model.predict(new))
    assert column.look(scored, as_of=END).bounds == found.bounds


def test_treatment_that_goes_by_a_feature_is_refused_and_nothing_is_taken(table, model):
    new = table[5000:]
    rng = np.random.default_rng(0)
    older = new[model.columns.features[0]].rank(pct=True) > 0.5
    kept = new[(new["mail"] == 1) | older | (rng.random(len(new)) < 0.5)]
    monitor = Monitor.of(kept, model=model, date="sent")
    with pytest.raises(FailedCheckError, match=r"the same for all\. The check fails"):
        monitor.look(kept, model=model, as_of=END)
    assert (monitor.n_rows, monitor.last_day) == (0, None)
    split = new[(new["mail"] == 1) == older]
    with pytest.raises(FailedCheckError, match="The check fails") as caught:
        Monitor.of(split, model=model, date="sent").look(split, model=model, as_of=END)
    assert "after=" not in str(caught.value)
    found = Monitor.of(kept, model=model, date="sent").look(new, model=model, as_of=END)
    assert found.balance is not None
    assert "Not tested: whether the arms have the sizes of the design" in str(found)
    assert "if treatment was given by chance, the same for all" in found.verdict


def lost_controls(rows, name, part):
    """Without some of the control people who have little of a column."""
    little = rows[name].rank(pct=True) < 0.5
    draw = np.random.default_rng(0).random(len(rows))
    return rows[(rows["mail"] == 1) | ~little | (draw > part)]


def days_of(rows, per_day):
    return rows.assign(sent=pd.Timestamp("2026-01-01") + pd.to_timedelta(
        np.arange(len(rows)) // per_day, "D"))  # fmt: skip


def new_rows_day_by_day(rows, model, path, **named):
    """The first look that fails, of looks at the rows of each day alone."""
    for today, own in rows.groupby("sent"):
        as_of = str((today + pd.Timedelta(1, "D")).date())
        look = monitor_trial(own, path, model=model, as_of=as_of, date="sent", **named)
        if look.failed is not None:
            return look
    return look


@pytest.mark.gate
def test_treatment_that_goes_with_a_column_is_found_in_new_rows_alone(tmp_path, table, model):
    """No day shows it; all of them do. It is not forgotten, whatever comes."""
    rows, path = days_of(lost_controls(table[5000:], "history", 0.5), 300), tmp_path / "s"
    found = new_rows_day_by_day(rows, model, path)
    assert found.failed.startswith("Treatment was not given by chance, the same for all: of ")
    assert "it goes with 'history" in found.failed
    assert "however often one looks). So nothing is told of the trial" in found.failed
    assert "start anew, with another state file" in found.verdict
    assert (found.bounds, found.n_new, found.checked) == (None, 300, "")
    kept = Monitor.load(path)
    assert kept.n_rows == found.n_rows == kept.alike.n_units[0] < len(rows)  # they have entered
    good = days_of(table[:300], 300).assign(sent=pd.Timestamp("2026-05-01"))
    later = monitor_trial(good, path, model=model, as_of=END)
    assert (later.failed, later.n_rows, later.n_new) == (found.failed, found.n_rows, 0)
    assert later.rows() == {}


@pytest.mark.gate
def test_by_the_chances_of_the_design_the_same_rows_are_right(tmp_path, table, model):
    """Half of the control people with little of a column are left: two of three are treated."""
    new = table[5000:]
    little = new["history"].rank(pct=True) < 0.5
    own = lost_controls(new.assign(chance=np.where(little, 2 / 3, 0.5)), "history", 0.5)
    own, named = days_of(own, 500), {"propensity": "chance", "least_chance": 1 / 3}
    found = new_rows_day_by_day(own, model, tmp_path / "s", **named)
    assert (found.failed, found.n_rows) == (None, len(own))
    wrong = own.assign(chance=own["mail"].mean())
    found = new_rows_day_by_day(wrong, model, tmp_path / "t", **named)
    assert "by the chances of 'chance': of" in found.failed
    assert "it goes with 'history" in found.failed


@pytest.mark.gate
def test_rows_that_are_alike_are_told_to_have_been_compared(tmp_path, table, model):
    rows = days_of(table[5000:7000], 500)
    found = new_rows_day_by_day(rows, model, tmp_path / "s")
    assert found.failed is None
    assert "At all looks together 2,000 rows were compared by 'recency_1'" in found.checked
    assert "nothing found (p = " in found.checked
    kept = Monitor.load(tmp_path / "s").alike
    assert kept.names[-1] == "score of the model"
    assert set(kept.names[:-1]) == set(model.score_columns)
    levels = {own.name: len(own.levels) for own in model.encoder.columns_ if own.has_levels}
    assert {n: k for n, k in zip(kept.names, kept.levels, strict=True) if k is not None} == levels


@pytest.mark.gate
def test_a_failed_check_is_remembered_and_a_copy_of_the_state_may_be_put_back(
    tmp_path, table, model
):
    rows, path = days_of(table[5000:], 500), tmp_path / "s"
    first, rest = rows[:500], rows[500:]
    monitor_trial(first, path, model=model, date="sent", as_of="2026-01-02")
    before = path.read_bytes()
    with pytest.raises(FailedCheckError, match="the state keeps that it was found") as error:
        monitor_trial(lost_controls(rest, "history", 0.7), path, model=model, as_of=END)
    kept = Monitor.load(path)
    assert (kept.n_rows, kept.stopped) == (500, f"Found in rows until 2026-05-31: {error.value}")
    for later in (first, rest[:50]):  # too few to be compared
        found = monitor_trial(later, path, model=model, as_of=END)
        assert (found.failed, found.n_rows, found.bounds) == (kept.stopped, 500, None)
    path.write_bytes(before)
    assert monitor_trial(rest, path, model=model, as_of=END).failed is None
    # Of a first look as well.
    with pytest.raises(FailedCheckError):
        monitor_trial(lost_controls(rows, "history", 0.7), tmp_path / "t", model=model, date="sent")
    found = monitor_trial(rows, tmp_path / "t", model=model)
    assert found.failed.startswith("Found in rows until ")
    assert "0 rows until now" in str(found)


def test_scores_alone_show_it_as_well(rows):
    chosen = (rows["mail"] == 1) | (rows["score"] > 0.5) | (rows["person"] % 2 == 0)
    found = Monitor.of(rows, **NAMED).look(rows[chosen], as_of=END)
    assert "it goes with 'score' (p = " in found.failed
    good = Monitor.of(rows, **NAMED | {"rival_column": "other"}).look(rows, as_of=END)
    assert "4,000 rows were compared by 'score', 'other'" in good.checked
    assert "Not tested: whether the arms are alike in other ways" in good.checked


def test_arms_of_a_state_share_what_chance_may_blame(rows):
    monitor = Monitor.of(rows, **NAMED)
    monitor.look(rows, as_of=END)
    level, one = np.log(1e4), (np.zeros(1, np.int64), np.ones(1, bool), np.full(1, 0.5))
    for n_together, more, stops in ((1, 0.1, True), (3, 0.1, False), (3, np.log(3) + 0.1, True)):
        monitor.n_together, monitor.log_uneven, monitor.stopped = n_together, 0.0, None
        monitor.alike.capital[-1] = level + more  # as if a column that is gone had won so much
        monitor._compare(*one)
        assert (monitor.stopped is not None) == stops
    monitor.log_uneven = np.log(5e4)
    assert monitor.uneven == pytest.approx(3 / 5e4)


def by_weekday(rows):
    """Treated from Monday to Friday, and nobody at weekends, when people visit more."""
    weekend = rows["sent"].dt.day_of_week >= 5
    visit = np.random.default_rng(5).random(len(rows)) < np.where(weekend, 0.5, 0.3)
    return rows.assign(mail=(~weekend).astype(int), visit=visit.astype(int))


def test_arms_that_go_by_the_day_are_found_by_a_column_of_scores_alone(tmp_path, rows):
    rows, path = by_weekday(rows), tmp_path / "s"
    for number in range(12, 47, 7):
        found = monitor_trial(rows, path, as_of=day(number), **NAMED)
        if found.failed:
            break
    assert (found.bounds, found.rows()) == (None, {})
    assert "it goes with 'day of arrival' (p = " in found.failed
    assert "differed by design from day to day (strata, waves, a share that was raised)" in (
        found.failed
    )
    assert "name them: propensity=COLUMN" in found.failed
    assert "If households, or shops, were in one arm, name them: groups=COLUMN" in found.failed
    good = Monitor.of(running(), **NAMED).look(running(), as_of=END)
    assert "4,000 rows were compared by 'score', 'day of arrival': nothing" in good.checked


def test_a_share_that_was_raised_is_right_by_the_chances_that_are_named(rows):
    chance = np.where(rows["sent"] < "2026-01-15", 0.1, 0.5)
    rows = rows.assign(
        mail=(np.random.default_rng(5).random(len(rows)) < chance).astype(int), chance=chance
    )
    found = Monitor.of(rows, **NAMED).look(rows, as_of=END)
    assert "it goes with 'day of arrival'" in found.failed
    known = {"propensity": "chance", "least_chance": 0.1}
    found = Monitor.of(rows, **NAMED | known).look(rows, as_of=END)
    assert found.failed is None
    assert "by 'score', 'chance', 'day of arrival'" in found.checked
    assert "if treatment was given by chance, by the chances of 'chance': you may" in found.verdict


def test_arms_that_follow_the_chance_for_sure_are_found(rows):
    """Nobody was drawn: all whose chance is large are treated, as many as there should be."""
    rich = np.random.default_rng(5).random(len(rows)) < 0.5
    known = {"propensity": "chance", "least_chance": 0.2}
    rows = rows.assign(chance=np.where(rich, 0.8, 0.2), mail=rich.astype(int))
    found = Monitor.of(rows, **NAMED | known).look(rows, as_of=END)
    assert "by the chances of 'chance': of 4,000 rows" in found.failed
    assert "it goes with 'chance' (p = " in found.failed
    assert found.bounds is None


@pytest.mark.gate
def test_a_model_of_other_columns_counts_on_by_those_that_stay(tmp_path, table, model):
    rows, path = table.assign(sent=np.sort(table["sent"]))[5000:], tmp_path / "s"
    fewer = fitted(table[:5000].drop(columns="newbie"))
    middle, late = (str(rows["sent"].iloc[own]) for own in (3000, 5000))
    monitor_trial(rows, path, model=model, date="sent", as_of=middle)
    before = Monitor.load(path)
    monitor_trial(rows, path, model=model, new_model=fewer, as_of=late)
    between = Monitor.load(path)
    assert "newbie" not in between.alike.names
    assert set(between.alike.n_units) == {between.n_rows}
    assert between.log_uneven >= before.log_uneven
    found = monitor_trial(rows, path, model=fewer, new_model=model, as_of=END)
    after = Monitor.load(path)
    own = read_arrivals(rows, between.settings, between.key, between.last_day, 10**6, fewer)[1]
    n_old = between.n_rows + between.bets.rows_to_close(own.treated)
    place = after.alike.names.index("newbie")
    others = set(after.alike.n_units[:place] + after.alike.n_units[place + 1 :])
    assert (after.alike.n_units[place], others) == (len(rows) - n_old, {len(rows)})
    assert after.alike.n_changes == 1
    assert f"together {len(rows):,} rows were compared by 'recency_1'" in str(found)
    assert f", {len(rows) - n_old:,} since a model brought it by 'newbie': nothing" in str(found)
    assert monitor_trial(rows, path, model=model, as_of=END).failed is None


def test_a_state_of_other_columns_than_the_model_is_refused(table, model):
    monitor = Monitor.of(table, model=model, date="sent")
    monitor.alike = ArmBalance.of([("height", None)])
    with pytest.raises(ValueError, match=r"should be of the columns 'recency_1'.*of 'height'"):
        monitor.look(table[5000:], model=model, as_of=END)


def test_of_few_rows_arms_are_not_compared(table, model):
    few = table[5000:5080]
    found = Monitor.of(few, model=model, date="sent").look(few, model=model, as_of=END)
    assert found.balance is None
    assert "Not tested: whether the arms are alike" in found.checked


def test_the_rows_of_the_fit_are_refused(table, model):
    monitor = Monitor.of(table, model=model, date="sent")
    with pytest.raises(ValueError, match="new to the model, got those that it was fitted on"):
        monitor.look(table[:5000], model=model, as_of=END)
    assert monitor.n_rows == 0


@pytest.mark.gate
def test_another_model_is_refused(tmp_path, table, model):
    new, path = table[5000:], tmp_path / "s"
    monitor_trial(new, path, model=model, date="sent", as_of=END)
    other = fit_trial_model(
        table[:5000], treatment="mail", outcome="visit", id="person", ignore=["sent"],
        model="tm", random_state=1,
    )  # fmt: skip
    with pytest.raises(ValueError, match="the model should be that of the last look"):
        monitor_trial(new, path, model=other, as_of=END)
    with pytest.raises(ValueError, match=r"that of the last look, got none"):
        monitor_trial(new, path, as_of=END)


def fitted(rows, **options):
    named = {"treatment": "mail", "outcome": "visit", "id": "person", "ignore": ["sent"]}
    return fit_trial_model(rows, **named, model="tm", **options)


@pytest.mark.gate
def test_a_new_model_takes_over_from_the_next_superblock_on(tmp_path, table, model):
    """It has learnt from rows that the first one ranked; the bounds are of their mean."""
    rows, path = table.assign(sent=np.sort(table["sent"]))[5000:], tmp_path / "s"
    middle = str(rows["sent"].iloc[4000])
    newer = fitted(pd.concat([table[:5000], rows[rows["sent"] < middle]]))
    monitor_trial(rows, path, model=model, date="sent", as_of=middle)
    before = Monitor.load(path)
    found = monitor_trial(rows, path, model=model, new_model=newer, as_of=END)
    after = Monitor.load(path)
    assert found.taken_over
    assert found.blocks == (after.starts[1], after.bets.n_blocks - after.starts[1])
    assert after.starts[1] >= before.bets.n_blocks
    # It has the same columns: people are counted as before, and no model alone.
    units = [set(own.alike.n_units) for own in (before, after)]
    assert units == [{before.n_rows}, {len(rows)}]
    assert after.alike.n_changes == 0
    assert f"At all looks together {len(rows):,} rows were compared" in str(found)
    # The superblock that was open is that of the first model; no block has rows of both.
    later = rows[rows["sent"] >= middle]
    monitor = Monitor.of(rows, model=model, date="sent")
    monitor.key, monitor.bets, monitor.last_day = before.key, before.bets, before.last_day
    own = read_arrivals(rows, monitor.settings, before.key, before.last_day, 10**6, model)[1]
    stop = before.bets.rows_to_close(own.treated)
    assert 0 < stop < 240
    scores = read_arrivals(rows, after.settings, before.key, before.last_day, 10**6, newer)[
        1
    ].scores
    assert len(own.day) == len(later)
    bets = before.bets
    for part, ranked in ((slice(stop), own.scores), (slice(stop, None), scores)):
        bets.add(own.y[part], ranked[:, part], own.treated[part], before.level)
    np.testing.assert_array_equal(bets.wealth.credit, after.bets.wealth.credit)
    # From here on it is the model; the first one, or the same again as a new one, is refused.
    with pytest.raises(ValueError, match="that of the last look, got another"):
        monitor_trial(rows, path, model=model, as_of=END)
    with pytest.raises(ValueError, match=r"it has taken over\. Pass it as the model"):
        monitor_trial(rows, path, model=newer, new_model=newer, as_of=END)
    assert monitor_trial(rows, path, model=newer, as_of=END).blocks == found.blocks


@pytest.mark.gate
def test_a_new_model_that_has_learnt_from_the_rows_is_refused(tmp_path, table, model):
    rows, path = table[5000:], tmp_path / "s"
    monitor_trial(rows, path, model=model, date="sent", as_of="2026-02-01")
    state = path.read_bytes()
    with pytest.raises(ValueError, match="new to the model"):
        monitor_trial(rows, path, model=model, new_model=fitted(rows), as_of=END)
    other = fitted(table[:5000], lower_is_better=True)
    with pytest.raises(ValueError, match="of the same lower_is_better, False, got True"):
        monitor_trial(rows, path, model=model, new_model=other, as_of=END)
    assert path.read_bytes() == state


@pytest.mark.gate
def test_a_new_model_waits_until_the_open_superblock_is_full(table, model):
    rows = table.assign(sent=np.sort(table["sent"]))[5000:]
    newer = fitted(table[:5000], random_state=1)
    monitor = Monitor.of(rows, model=model, date="sent")
    days = rows["sent"].unique()
    monitor.look(rows, model=model, as_of=str(days[1]))
    found = monitor.look(rows, model=model, new_model=newer, as_of=str(days[1]))
    assert not found.taken_over
    assert "has not taken over" in str(found)
    found = monitor.look(rows, model=model, new_model=newer, as_of=END)
    assert found.taken_over
    assert found.blocks[0] == 0  # the first superblock is not bet on
    assert found.verdict.startswith("The ranking ")


def households(n_rows=4000, seed=0):
    """Homes of one to three people, who share an arm, a day and a part of the outcome."""
    rows, rng = running(n_rows, seed=seed), np.random.default_rng([seed, 1])
    home = np.repeat(np.arange(n_rows), rng.integers(1, 4, n_rows))[:n_rows]
    rows["home"] = [f"h{k}" for k in home]
    first = rows.groupby("home").transform("first")
    visit = (rng.random(n_rows) < 0.2 + 0.3 * first["mail"] * rows["score"]).astype(int)
    return rows.assign(mail=first["mail"], sent=first["sent"], visit=visit)


def test_households_are_bet_on_as_a_whole(tmp_path):
    rows, path = households(), tmp_path / "s"
    named = NAMED | {"groups": "home", "treated_share": 0.5}
    for number in (20, 30, 60):
        found = monitor_trial(rows, path, as_of=day(number), **named)
    monitor, n_homes = Monitor.load(path), rows["home"].nunique()
    assert sum(monitor.counts) == len(monitor.homes) == monitor.alike.n_units[0] == n_homes
    assert f"{n_homes:,} groups were compared by 'score'" in found.checked
    assert monitor.n_rows == found.n_rows == len(rows)
    whole = Monitor.of(rows, **named).look(rows.sample(frac=1, random_state=0), as_of=END)
    assert whole.bounds["gain"] == pytest.approx(found.bounds["gain"], abs=1e-9)
    assert found.bounds["gain"]["lower"] > 0
    alone = rows.drop_duplicates("home")
    single = Monitor.of(alone, **NAMED).look(alone, as_of=END)
    # Members are drawn again and again: narrower than with one row of each.
    widths = [own.bounds["gain"]["upper"] - own.bounds["gain"]["lower"] for own in (found, single)]
    assert 0.6 * widths[1] < widths[0] < widths[1]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"mail": lambda r: r["person"] % 2}, "people of one 'home' should be in one arm, got"),
        ({"sent": lambda r: r["sent"] + pd.to_timedelta(r["person"] % 2, "D")}, "come on one day"),
    ],
)
def test_households_that_are_not_whole_are_refused(change, match):
    rows = households()
    monitor = Monitor.of(rows, **NAMED | {"groups": "home"})
    with pytest.raises(ValueError, match=match):
        monitor.look(rows.assign(**change), as_of=END)
    assert monitor.n_rows == 0
    monitor.look(rows[:2000], as_of=END)
    again = rows[:1].assign(person=7, sent=pd.Timestamp("2026-07-01"))
    with pytest.raises(ValueError, match="people of one 'home' should come once, got 1 that"):
        monitor.look(again, as_of="2026-10-01")


def by_chance(n_rows=6000, seed=0):
    """Chances of treatment that go with the score, which knows whom treatment helps."""
    rows, rng = running(n_rows, seed=seed), np.random.default_rng([seed, 1])
    chance = np.where(rows["score"] > 0.5, 0.7, 0.3)
    mail = rng.random(n_rows) < chance
    visit = rng.random(n_rows) < 0.2 + 0.4 * mail * rows["score"]
    return rows.assign(mail=mail.astype(int), visit=visit.astype(int), chance=chance)


CHANCES = {"propensity": "chance", "least_chance": 0.3}


def test_known_chances_that_differ(tmp_path):
    rows, path = by_chance(), tmp_path / "s"
    for number in (20, 40, 90):
        found = monitor_trial(rows, path, as_of=day(number), **NAMED | CHANCES)
    assert found.ratio > 0.05
    gain, effect = found.bounds["gain"], found.bounds["effect"]
    assert 0 < gain["lower"] < 0.4 / 12 < gain["upper"]
    assert 0 < effect["lower"] < 0.2 < effect["upper"]
    whole = Monitor.of(rows, **NAMED | CHANCES).look(rows, as_of=END)
    assert whole.bounds["gain"] == pytest.approx(gain, abs=1e-9)
    # Without them treatment goes with the score.
    naive = Monitor.of(rows, **NAMED).look(rows, as_of=END)
    assert "the same for all: of 6,000 rows" in naive.failed


def test_chances_beyond_what_was_said_are_refused_and_wrong_ones_are_seen():
    rows = by_chance()
    monitor = Monitor.of(rows, **NAMED | CHANCES)
    with pytest.raises(ValueError, match=r"should lie between 0.3 and 0.7, as least_chance= says"):
        monitor.look(rows.assign(chance=rows["chance"].where(rows["person"] != 1003, 0.1)))
    assert monitor.n_rows == 0
    found = monitor.look(rows.assign(chance=0.4), as_of=END)
    assert found.ratio < 0.01
    assert "was not given by chance, by the chances of 'chance': of 6,000 rows" in found.verdict
    few = Monitor.of(rows, **NAMED | CHANCES)
    draw = np.random.default_rng(0).random(230) < 0.7
    found = few.look(rows[:230].assign(mail=draw.astype(int)), as_of=END)
    assert found.ratio < 0.01
    assert "their chances do not explain so many" in found.verdict


def _forged(path, out, change):
    """The state with something else in it."""
    kept = {}

    def restore(header, members):
        kept.update(header=header, members=members)

    FORMAT.read(path, restore)
    (state,) = kept["header"]["states"]
    members = {name.removeprefix("0."): array for name, array in kept["members"].items()}
    change(state, members)
    FORMAT.write(out, kept["header"], {f"0.{name}": array for name, array in members.items()})
    return out


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    """The file of a monitor that has looked twice, whose parts can be written again as they are."""
    rows, path = running(), tmp_path_factory.mktemp("states") / "s"
    monitor = Monitor.of(rows, **NAMED)
    for number in (16, 17):
        monitor.look(rows, as_of=f"2026-01-{number}")
    monitor.save(path)
    same = _forged(path, path.with_name("same"), lambda h, m: None)
    assert Monitor.load(same).n_rows == monitor.n_rows
    return path


def _split(counts):
    """As many people of each arm, in bins of their own: a stop that the state does not tell."""
    apart = np.zeros_like(counts)
    apart[0, 0], apart[1, 1] = counts.sum(0)
    return apart


@pytest.mark.parametrize(
    "change",
    [
        lambda h, m: h["settings"].update(delta=-1),
        lambda h, m: h["settings"].update(delta=0),
        lambda h, m: h["settings"].update(window=-1),
        lambda h, m: h["settings"].update(window=1e199),
        lambda h, m: h["settings"].update(outcome_range=[0, 0]),
        lambda h, m: h["settings"].update(treated_share=2.0),
        lambda h, m: h["settings"].update(random_state=-1),
        lambda h, m: h["known"].update(deviations=h["known"]["deviations"][:1]),
        lambda h, m: h["known"].update(deviations=[0.0, 0.0]),
        lambda h, m: h["known"].update(shift=5.0),
        lambda h, m: h.update(known=None),
        lambda h, m: h.update(key="g" * 32),
        lambda h, m: h.update(counts=[-1, 4001]),
        lambda h, m: h.update(bets=[1, 2]),
        lambda h, m: h.update(last_day=2**60),
        lambda h, m: h.update(more=1),
        lambda h, m: h.update(n_together=2),
        lambda h, m: h.update(n_checks=1),
        lambda h, m: h.update(checked_rows=10**6),
        lambda h, m: h.update(starts=[]),
        lambda h, m: h.update(starts=[0, 10**6]),
        lambda h, m: h["settings"].update(least_chance=0.1),
        lambda h, m: h["known"].update(means=[0.1, 0.2]),
        lambda h, m: m.update({"tilts.npy": np.zeros(3)}),
        lambda h, m: m.update({"homes.npy": m["people.npy"]}),
        lambda h, m: m.update({"first.npy": ~m["first.npy"]}),
        lambda h, m: m.update({"chance.npy": 0 * m["chance.npy"]}),
        lambda h, m: m.update({"more.npy": np.zeros(3)}),
        lambda h, m: m.pop("sums.npy"),
        lambda h, m: m.update({"credit.npy": m["credit.npy"].astype(np.uint8)}),
        lambda h, m: m.update({"staked.npy": -m["staked.npy"]}),
        lambda h, m: m.update({"y.npy": m["y.npy"] * 1000 + 2}),
        lambda h, m: m.update({"day.npy": m["day.npy"][::-1].copy()}),
        lambda h, m: m.update({"day_rows.npy": m["day_rows.npy"].astype(float)}),
        lambda h, m: m.update({"people.npy": m["people.npy"][:10]}),
        lambda h, m: h.update(alike=None),
        lambda h, m: h.update(log_uneven=-1.0),
        lambda h, m: h["alike"].update(n_changes=-1),
        lambda h, m: h["alike"].update(n_changes=1),
        lambda h, m: h["alike"].update(log_days="x"),
        lambda h, m: m.update({"alike_totals.npy": m["alike_totals.npy"] + 1}),
        lambda h, m: m.update({"alike_capital.npy": m["alike_capital.npy"][1:]}),
        lambda h, m: h.update(stopped=1),
        lambda h, m: h.update(stopped=""),
        lambda h, m: h.update(log_uneven=50.0),
        lambda h, m: m.update({"alike_counts.npy": _split(m["alike_counts.npy"])}),
        lambda h, m: h["alike"].update(edges=None),
        lambda h, m: h["alike"].update(edges=[None]),
        lambda h, m: h["alike"].update(edges=[[0.5, 0.2, 3e38]]),
        lambda h, m: h["alike"].update(names=["score", "more"]),
        lambda h, m: h["alike"].update(levels=[7]),
        lambda h, m: h["alike"].update(levels=[10**9]),
        lambda h, m: m.update({"alike_counts.npy": m["alike_counts.npy"][:-1]}),
        lambda h, m: m.update({"alike_counts.npy": m["alike_counts.npy"][:, ::-1].copy()}),
        lambda h, m: m.update({"alike_counts.npy": m["alike_counts.npy"] - [[9, -9]]}),
        lambda h, m: m.update({"alike_counts.npy": m["alike_counts.npy"] * 1.0}),
        lambda h, m: m.update({"alike_tilts.npy": np.zeros((9, 10))}),
        lambda h, m: m.update({"alike_values.npy": np.zeros((1, 1))}),
        lambda h, m: m.update({"alike_treated.npy": np.ones(1, bool)}),
    ],
)
def test_a_state_that_no_monitor_wrote_is_refused(tmp_path, state, change):
    with pytest.raises(ModelFileError, match="should be a whole state file") as error:
        Monitor.load(_forged(state, tmp_path / "forged", change))
    assert "\n" not in str(error.value)


def test_the_state_of_an_older_version_is_refused_in_a_clear_line(tmp_path, rows, looked):
    ArchiveFormat("auucmax monitor", 3, "state file").write(tmp_path / "s", {}, {})
    with pytest.raises(ModelFileError, match=r"version 4, got version 3. An older auucmax wrote"):
        monitor_trial(rows, tmp_path / "s", as_of=END)
    with pytest.raises(ModelFileError, match="end this trial with it, or begin a new state file"):
        Monitor.load(tmp_path / "s")


def test_a_look_in_the_future_is_refused_unless_the_rows_reach_it(rows, looked):
    tomorrow = pd.Timestamp.now("UTC").normalize().tz_localize(None) + pd.Timedelta(1, "D")
    far = str((tomorrow + pd.Timedelta(30, "D")).date())
    refuse(
        looked,
        rows,
        "as_of should not be after today.*got 2062-02-01. Check the year",
        "2062-02-01",
    )
    other = Monitor.of(rows, **NAMED)
    with pytest.raises(ValueError, match="as_of should not be after today"):
        other.look(rows, as_of=far)
    assert other.last_day is None
    # Rows that are dated so, a simulation say, are looked at when their windows close.
    shift = tomorrow - rows["sent"].min() + pd.Timedelta(5, "D")
    later = rows.assign(sent=rows["sent"] + shift)
    last = later["sent"].max() + pd.Timedelta(6, "D")
    assert other.look(later, as_of=str(last.date())).n_rows == len(rows)


def test_checks_of_the_balance_share_what_chance_may_blame(table, model, monkeypatch):
    """The m-th gets a level of .0001 / m^2; rows must grow by a quarter before the next."""
    levels = []

    def check(table, settings, key, day, model, level):
        levels.append(level)
        return "nothing found.", len(table)

    monkeypatch.setattr("auucmax.campaign.monitoring.check_arrivals", check)
    rows = table.assign(sent=np.sort(table["sent"]))[5000:]
    monitor = Monitor.of(rows, model=model, date="sent")
    days = pd.date_range(rows["sent"].min(), rows["sent"].max() + pd.Timedelta(2, "D"))
    sizes = []
    for day in days[1::2]:
        before = monitor.checked_rows
        found = monitor.look(rows[rows["sent"] < day], model=model, as_of=str(day.date()))
        sizes += [] if monitor.checked_rows == before else [monitor.checked_rows]
    assert len(days[1::2]) > 2 * len(levels)
    np.testing.assert_allclose(levels, 1e-4 / np.arange(1, len(levels) + 1) ** 2)
    assert all(later >= 1.25 * before for before, later in pairwise(sizes))
    assert sum(levels) < 1e-4 * np.pi**2 / 6 < 2e-4
    assert found.balance == f"At {sizes[-1]:,} rows: nothing found."


@pytest.mark.gate
def test_of_new_rows_alone_it_is_told_that_only_they_were_compared(table, model):
    rows = table.assign(sent=np.sort(table["sent"]))[5000:]
    middle = rows["sent"].iloc[len(rows) // 2]
    monitor = Monitor.of(rows, model=model, date="sent")
    monitor.look(rows[rows["sent"] < middle], model=model, as_of=str(middle.date()))
    late = rows[rows["sent"] >= middle]
    found = monitor.look(
        late, model=model, as_of=str((rows["sent"].max() + pd.Timedelta(2, "D")).date())
    )
    assert found.n_rows == len(rows)
    assert f"At {len(rows):,} rows, of which {len(late):,} were compared" in found.balance


@pytest.mark.gate_cases("0")
@pytest.mark.parametrize(("p_value", "is_stopped"), [(1e-5, True), (5e-5, False), (0.5, False)])
def test_what_chance_does_at_one_of_many_looks_stops_nothing(
    table, model, p_value, is_stopped, monkeypatch
):
    own = arrivals.check_trial_rows

    def check(*given, **named):
        report = own(*given, **named)
        return replace(
            report, tests=tuple(replace(t, adjusted_p_value=p_value) for t in report.tests)
        )

    monkeypatch.setattr(arrivals, "check_trial_rows", check)
    monitor = Monitor.of(
        table[5000:],
        model=model,
        date="sent",
    )
    monitor.n_checks = 1
    if is_stopped:
        with pytest.raises(FailedCheckError):
            monitor.look(table[5000:], model=model, as_of=END)
        assert (monitor.n_checks, monitor.n_rows) == (1, 0)
        assert monitor.look(table[5000:], model=model, as_of=END).failed == monitor.stopped
        return
    found = monitor.look(table[5000:], model=model, as_of=END)
    assert ("one look in 20,000" in found.balance) == (p_value < 1e-4)
    assert monitor.n_checks == 2


@pytest.mark.gate
def test_columns_that_no_model_learns_from_are_counted_among_the_tests(table, model, monkeypatch):
    """The day and the id are tested, too: single p-values are times all of these."""
    counts = []

    def told(report, n_columns, level, rule):
        counts.append(n_columns)
        return "nothing found."

    monkeypatch.setattr(arrivals, "told_of_check", told)
    monitor = Monitor.of(table[5000:], model=model, date="sent")
    monitor.look(table[5000:], model=model, as_of=END)
    assert (model.columns.ignored, model.columns.id) == (("sent",), "person")
    assert counts == [len(model.columns.features) + 2]
