"""Several arms in one state: as each by itself, and together."""

import numpy as np
import pandas as pd
import pytest
from tests.campaign.test_monitor_state import three_arms
from tests.campaign.trial_days import NAMED
from tests.model.arms_table import arms_table, fitted

from auucmax.campaign import ArmsMonitor, Monitor, monitor_trial
from auucmax.campaign.arm_balance import ratio_path
from auucmax.campaign.arm_monitoring import load_monitor, ratio_of_shares
from auucmax.campaign.monitoring import RATIO_LEVEL
from auucmax.data.randomisation_report import FailedCheckError

END = "2026-06-01"
KNOWN = NAMED | {"control": "none"}


@pytest.fixture
def rows():
    return three_arms()


def test_each_arm_is_as_by_itself_with_a_part_of_delta(rows):
    found = ArmsMonitor.of(rows, **KNOWN).look(rows, as_of=END)
    for label, look in found.arms.items():
        alone = Monitor.of(rows, **KNOWN, treated=label, delta=0.025).look(rows, as_of=END)
        assert look.bounds == alone.bounds
        assert look.n_rows == alone.n_rows
    assert "All bounds of all arms hold together" in found.verdict
    assert "with probability 0.95" in found.verdict
    text = str(found)
    assert "mail: gain over a random order: +" in text
    assert "Not tested: whether the arms have the sizes" in text
    assert found.to_dict()["arms"]["call"]["delta"] == 0.025


def test_one_command_and_one_file(tmp_path, rows):
    path = tmp_path / "s"
    early = monitor_trial(rows, path, as_of="2026-01-10", treated_share=0.5, **KNOWN)
    assert set(early.arms) == {"mail", "call"}
    found = monitor_trial(rows, path, as_of=END)  # nothing need be told again
    whole = ArmsMonitor.of(rows, **KNOWN).look(rows, as_of=END)
    for label, look in whole.arms.items():
        assert found.arms[label].bounds["gain"] == pytest.approx(look.bounds["gain"], abs=1e-9)
    assert [file.name for file in tmp_path.iterdir()] == ["s"]
    before = path.read_bytes()
    for named, match in (
        ({"treated": "mail"}, "treated should be left out, for the state file s is of"),
        ({"delta": 0.1}, "delta should be 0.05"),
        ({"treated_share": 0.6}, "treated_share should be"),
        ({"score_column": "other"}, "score_column should be 'score'"),
        ({"control": "call"}, "control should be 'none'"),
        ({"window": "9d"}, "window should be 5.0"),
    ):
        with pytest.raises(ValueError, match=match):
            monitor_trial(rows, path, as_of=END, **named)
    assert path.read_bytes() == before


def test_scores_of_each_arm(rows):
    scored = rows.rename(columns={"score": "score mail"}).assign(**{"score call": rows["other"]})
    found = ArmsMonitor.of(scored, **KNOWN).look(scored, as_of=END)
    call = Monitor.of(rows, **KNOWN | {"score_column": "other"}, treated="call", delta=0.025)
    assert found.arms["call"].bounds == call.look(rows, as_of=END).bounds
    assert found.arms["mail"].bounds["gain"]["lower"] > 0


def test_what_is_wrong_with_one_arm_takes_nothing_of_any(rows):
    monitor = ArmsMonitor.of(rows, **KNOWN)
    monitor.look(rows, as_of="2026-01-20")
    days = {label: own.last_day for label, own in monitor.monitors.items()}
    odd = rows.assign(visit=rows["visit"].where(rows["mail"] != "mail", 7))
    with pytest.raises(ValueError, match=r"^mail: ") as caught:
        monitor.look(odd, as_of=END)
    assert "\n" not in str(caught.value)
    assert {label: own.last_day for label, own in monitor.monitors.items()} == days
    # Somebody of the mail comes again, to be called.
    treated = rows[rows["mail"] == "mail"].iloc[:1]
    again = treated.assign(mail="call", sent=pd.Timestamp("2026-02-20"))
    with pytest.raises(ValueError, match="everybody should stay in one arm, got 1 who are in two"):
        monitor.look(pd.concat([rows, again]), as_of=END)
    assert monitor.look(rows, as_of=END).arms["mail"].bounds is not None


def test_a_day_without_rows_is_told_once_for_all_arms(rows):
    some = rows[rows["sent"] != rows["sent"].unique()[8]]
    found = ArmsMonitor.of(some, **KNOWN).look(some, as_of="2026-06-01")
    assert sum(note.startswith("No row is of 2026-01-09, though") for note in found.notes) == 1


def test_sizes_of_all_arms_are_watched_together(rows):
    monitor = ArmsMonitor.of(rows, **KNOWN, treated_share={"mail": 0.25, "call": 0.25})
    assert monitor.look(rows[:1000], as_of="2026-01-16").ratio > 0.05
    lost = (rows["mail"] == "call") & (rows["person"] % 2 == 0)
    found = monitor.look(rows[1000:][~lost[1000:]], as_of=END)
    assert found.ratio <= RATIO_LEVEL
    assert found.failed == found.verdict
    assert found.rows() == {}
    assert all(look.bounds is None for look in found.arms.values())
    assert "the arms have" in found.failed
    later = rows[:3].assign(
        mail=["none", "mail", "call"], sent=pd.Timestamp("2026-07-01"), person=[1, 2, 3]
    )
    assert monitor.look(later, as_of="2026-09-01").failed is not None  # it is not forgotten


def test_an_arm_that_goes_with_the_score_stops_all_of_them(tmp_path, rows):
    """Who has a low score is seldom called."""
    path = tmp_path / "s"
    rows = rows[(rows["mail"] != "call") | (rows["score"] > 0.5) | (rows["person"] % 4 == 0)]
    for today, own in rows.groupby("sent"):
        found = monitor_trial(own, path, as_of=str(today + pd.Timedelta(6, "D")), **KNOWN)
        if found.failed is not None:
            break
    assert found.failed.startswith("call: Treatment was not given by chance, the same for all")
    assert "mail: Treatment" not in found.failed
    assert (found.rows(), found.notes, found.verdict) == ({}, (), found.failed)
    assert all(look.failed == found.failed for look in found.arms.values())
    later = monitor_trial(rows[-5:], path, as_of=END)
    assert later.failed == found.failed
    assert {look.n_new for look in later.arms.values()} == {0}


def test_people_are_counted_as_by_each_arm_alone(rows):
    monitor = ArmsMonitor.of(rows, **KNOWN)
    found = monitor.look(rows, as_of=END)
    for label, own in monitor.monitors.items():
        alone = Monitor.of(rows, **KNOWN, treated=label)
        alone.look(rows, as_of=END)
        np.testing.assert_array_equal(alone.alike.counts, own.alike.counts)
        assert f"{label}: At all looks together {own.n_rows:,} rows" in " ".join(found.notes)
        # Two arms share what chance may blame.
        own.log_uneven = 8.0
        assert own.uneven == pytest.approx(2 * np.exp(-8))
    assert "Not tested: whether 'call', 'mail' and the control are alike in other ways" in str(
        found
    )


def test_a_failed_check_of_one_arm_is_remembered_of_all(tmp_path, rows, monkeypatch):
    def check(self, old):
        if self.settings.treated == "mail":
            self.stopped = "Found: nothing is told."
            raise FailedCheckError("nothing is told.")

    path = tmp_path / "s"
    monitor_trial(rows, path, as_of="2026-01-10", **KNOWN)
    n_rows = {label: own.n_rows for label, own in load_monitor(path).monitors.items()}
    with monkeypatch.context() as patch:
        patch.setattr(Monitor, "_check_old", check)
        with pytest.raises(FailedCheckError, match=r"mail: nothing is told\."):
            monitor_trial(rows, path, as_of=END)
    found = monitor_trial(rows, path, as_of=END)
    assert found.failed == "mail: Found: nothing is told."
    assert {label: look.n_rows for label, look in found.arms.items()} == n_rows


def test_the_ratio_of_two_arms_is_that_of_one():
    treated = np.random.default_rng(0).random(500) < 0.4
    counts = np.array([(~treated).sum(), treated.sum()])
    for share in (0.3, 0.5):
        one = ratio_path(treated, (0, 0), share)[-1]
        assert ratio_of_shares(counts, np.array([1 - share, share])) == pytest.approx(one)


def test_false_alarms_of_the_sizes_are_rarer_than_they_may_be():
    """Looks after every 20 rows of 3,000, 100 trials: Ville's inequality, simulated."""
    rng, shares = np.random.default_rng(0), np.array([0.5, 0.3, 0.2])
    alarms, n_trials, level = 0, 100, 0.2
    for _ in range(n_trials):
        counts = np.cumsum(rng.multinomial(20, shares, 150), axis=0)
        alarms += max(ratio_of_shares(own, shares) for own in counts) >= -np.log(level)
    assert alarms / n_trials <= level + 3 * np.sqrt(level * (1 - level) / n_trials)


@pytest.mark.parametrize(
    ("named", "match"),
    [
        ({"propensity": "score", "least_chance": 0.1}, "propensity should be left out with"),
        ({"treated": "mail"}, "treated should be left out with several arms, got 'mail'"),
        ({"treated_share": {"mail": 0.3}}, "treated_share should name each of"),
        ({"treated_share": 1.5}, "treated_share should be above 0"),
        ({"delta": 2}, "delta should be"),
        ({"score_column": None}, "should be a column of scores or a model, got neither"),
        ({"date": None}, "date should be the column"),
        ({"treatment": None}, "treatment should name a column"),
    ],
)
def test_bad_input(rows, named, match):
    with pytest.raises(ValueError, match=match) as caught:
        ArmsMonitor.of(rows, **KNOWN | named)
    assert "\n" not in str(caught.value)


@pytest.mark.gate
def test_a_model_of_several_arms_ranks(tmp_path):
    model = fitted(arms_table(2_000))
    table = arms_table(3_000, random_state=7).assign(
        sent=pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(3_000) // 100, "D")
    )
    table["person"] = "later " + table["person"].astype(str)
    found = monitor_trial(table, tmp_path / "s", model=model, date="sent", as_of=END)
    for label, look in found.arms.items():
        alone = Monitor.of(table, model=model.models[label], date="sent", delta=0.025)
        own = alone.look(table, model=model.models[label], as_of=END)
        assert own.bounds == look.bounds
        assert look.balance is not None
    assert f"mail: {found.arms['mail'].balance}" in found.notes
    with pytest.raises(ValueError, match="the model should be of several arms, as the state is"):
        monitor_trial(table, tmp_path / "s", model=model.models["mail"], as_of=END)
    one = tmp_path / "one"
    monitor_trial(table, one, model=model.models["mail"], date="sent", as_of=END)
    with pytest.raises(ValueError, match="the model should be of one arm, as the state is"):
        monitor_trial(table, one, model=model, as_of=END)


@pytest.mark.gate
def test_arms_to_which_a_new_model_comes_one_after_the_other(tmp_path):
    """The superblock of a small arm fills later than that of a large one: both models again."""
    rng, path = np.random.default_rng(0), tmp_path / "s"
    old, new = (fitted(arms_table(2_000, random_state=seed)) for seed in (1, 2))
    table = arms_table(6_000, random_state=7).assign(
        sent=pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(6_000) // 100, "D"),
        arm=rng.choice(["none", "mail", "phone"], 6_000, p=[0.49, 0.49, 0.02]),
        person=[f"later {k}" for k in range(6_000)],
    )
    monitor_trial(table, path, model=old, date="sent", as_of="2026-01-21")
    both = {"model": old, "new_model": new}
    found = monitor_trial(table, path, **both, as_of="2026-01-24")
    assert {label: look.taken_over for label, look in found.arms.items()} == {
        "mail": True,
        "phone": False,
    }
    assert "mail: The new model ranks its rows from here on; other arms wait for it." in found.notes
    assert "phone: The new model has not taken over" in str(found)
    assert "pass it as the model from now on" not in str(found)
    found = monitor_trial(table, path, **both, as_of=END)
    assert [look.taken_over for look in found.arms.values()] == [None, True]
    assert "phone: The new model ranks the rows from here on: pass it as the model" in str(found)
    with pytest.raises(ValueError, match=r"it has taken over\. Pass it as the model"):
        monitor_trial(table, path, **both, as_of=END)
    assert monitor_trial(table, path, model=new, as_of=END).failed is None


def test_labels_that_come_later_are_refused(tmp_path, rows):
    path = tmp_path / "s"
    monitor_trial(rows, path, as_of="2026-01-10", **KNOWN)
    with pytest.raises(ValueError, match="as at the first look, got 'Call' in") as caught:
        monitor_trial(rows.replace({"mail": {"call": "Call"}}), path, as_of=END)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="should have rows of all arms in 'mail', got no rows"):
        ArmsMonitor.of(rows[:0], **KNOWN)


def test_what_another_run_has_written_is_not_replaced(tmp_path, rows):
    path = tmp_path / "s"
    monitor_trial(rows, path, as_of="2026-01-10", **KNOWN)
    slow = load_monitor(path)
    monitor_trial(rows, path, as_of="2026-01-12")
    slow.look(rows, as_of=END)
    with pytest.raises(ValueError, match="s should be as it was when this look began"):
        slow.save(path)
