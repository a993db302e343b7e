"""The state file: one arm or several, and what belongs together."""

import fcntl
import os
import threading
from dataclasses import fields

import numpy as np
import pytest
from tests.campaign.trial_days import NAMED, running

from auucmax._archive import ModelFileError
from auucmax.campaign import ArmsMonitor, Monitor, monitor_state
from auucmax.campaign.arm_monitoring import load_monitor
from auucmax.campaign.monitor_state import FORMAT, read_states


def three_arms(n_rows=3_000):
    rows = running(n_rows)
    other = np.random.default_rng(5).random(n_rows) < 0.5
    rows["mail"] = np.where(rows["mail"] == 0, "none", np.where(other, "mail", "call"))
    return rows


@pytest.fixture
def states(tmp_path):
    """Files of one arm and of two, with what was written."""
    rows = three_arms()
    one = Monitor.of(rows, **NAMED, treated="mail", control="none")
    several = ArmsMonitor.of(rows, **NAMED, control="none", treated_share=0.5)
    for monitor, name in ((one, "one"), (several, "several")):
        monitor.look(rows, as_of="2026-01-20")
        monitor.save(tmp_path / name)
    return tmp_path, one, several


def same(one, other):
    assert one.settings == other.settings
    assert one.key == other.key
    assert one.counts == other.counts
    np.testing.assert_array_equal(one.bets.wealth.credit, other.bets.wealth.credit)
    np.testing.assert_array_equal(one.people, other.people)


def test_what_is_written_is_read(states):
    folder, one, several = states
    same(Monitor.load(folder / "one"), one)
    assert isinstance(load_monitor(folder / "one"), Monitor)
    again = load_monitor(folder / "several")
    assert list(again.monitors) == ["call", "mail"]
    for label, own in several.monitors.items():
        same(again.monitors[label], own)
    assert (again.delta, again.shares) == (several.delta, several.shares)
    assert again.log_ratio == several.log_ratio
    assert (folder / "several").stat().st_mode & 0o77 == 0
    with pytest.raises(ValueError, match="should be the state of one arm, got one of 2"):
        Monitor.load(folder / "several")


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h.update(shared=None),
        lambda h: h["states"].pop(),
        lambda h: h["shared"].update(delta=0.2),
        lambda h: h["shared"].update(shares=[0.5, 0.5]),
        lambda h: h["shared"].update(shares=[0.5, 0.6, -0.1]),
        lambda h: h["shared"].update(more=1),
        lambda h: h["states"][0]["settings"].update(treated="mail"),
        lambda h: h["states"][0]["settings"].update(control="call"),
        lambda h: h["states"][0].update(key="0" * 32),
        lambda h: h["states"][0].update(last_day=5),
        lambda h: h["states"][0].update(n_together=1),
    ],
)
def test_arms_that_do_not_belong_together_are_refused(states, change):
    folder, kept = states[0], {}
    FORMAT.read(folder / "several", lambda h, m: kept.update(header=h, members=m))
    change(kept["header"])
    FORMAT.write(folder / "forged", kept["header"], kept["members"])
    with pytest.raises(ModelFileError, match="should be a whole state file"):
        read_states(folder / "forged")


@pytest.mark.parametrize("name", ["one", "several"])
@pytest.mark.parametrize("sides", [slice(None), slice(1)])
def test_a_state_whose_bounds_contradict_each_other_is_read_and_tells_nothing(states, name, sides):
    """As if all bets had been won, on the effect being high (and on its being low).

    Chance makes such states, though rarely: they are no forgeries, and stay failed.
    """
    folder, kept = states[0], {}
    FORMAT.read(folder / name, lambda h, m: kept.update(header=h, members=m))
    credit = kept["members"]["0.credit.npy"].copy()
    credit[..., sides, :] = 1e308
    FORMAT.write(folder / "odd", kept["header"], kept["members"] | {"0.credit.npy": credit})
    monitor = load_monitor(folder / "odd")
    look = monitor.look(three_arms(), as_of="2026-01-20")
    assert "A lower bound lies above its upper bound" in look.verdict
    assert look.rows() == {}
    monitor.save(folder / "odd")
    again = load_monitor(folder / "odd").look(three_arms(), as_of="2026-02-01")
    assert again.failed == look.failed


def people_who_wait(n_rows):
    """A state of so few people that columns are not cut, or of some more."""
    rows = three_arms(n_rows)
    monitor = Monitor.of(rows, **NAMED, treated="mail", control="none")
    monitor.look(rows, as_of="2026-06-01")
    return monitor


@pytest.mark.parametrize("n_rows", [100, 600])
def test_what_is_counted_of_people_is_written_and_read(tmp_path, n_rows):
    monitor = people_who_wait(n_rows)
    assert (monitor.alike.edges == (None,)) == (n_rows == 100)
    monitor.stopped, monitor.log_uneven = "Found.", 3.5
    monitor.save(tmp_path / "s")
    again = Monitor.load(tmp_path / "s")
    assert (again.stopped, again.log_uneven) == ("Found.", 3.5)
    for own in fields(monitor.alike):
        found, expected = (getattr(one.alike, own.name) for one in (again, monitor))
        assert (found.tolist() == expected.tolist()) if own.repr is False else (found == expected)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.update({"0.alike_values.npy": m["0.alike_values.npy"][:, 1:]}),
        lambda m: m.update({"0.alike_values.npy": m["0.alike_values.npy"] + 1e39}),
        lambda m: m.update({"0.alike_treated.npy": ~m["0.alike_treated.npy"]}),
        lambda m: m.update({"0.alike_chance.npy": 0 * m["0.alike_chance.npy"]}),
    ],
)
def test_people_who_wait_and_are_others_are_refused(tmp_path, change):
    people_who_wait(100).save(tmp_path / "s")
    kept = {}
    FORMAT.read(tmp_path / "s", lambda h, m: kept.update(header=h, members=m))
    change(kept["members"])
    FORMAT.write(tmp_path / "forged", kept["header"], kept["members"])
    with pytest.raises(ModelFileError, match="its numbers do not belong together"):
        Monitor.load(tmp_path / "forged")


@pytest.mark.parametrize("n", [1_000, 5_000])  # as many as fill superblocks, as have come
def test_rows_that_cannot_wait_are_refused(states, n):
    folder, kept = states[0], {}
    assert states[1].bets.is_open
    FORMAT.read(folder / "one", lambda h, m: kept.update(header=h, members=m))
    for name in ("y", "scores", "first", "chance"):
        own = kept["members"][f"0.{name}.npy"]
        kept["members"][f"0.{name}.npy"] = np.repeat(own[..., :1], n, axis=-1)
    arm = np.arange(n) % 2 == 0 if n < 2_000 else np.ones(n, bool)  # of one arm none is full
    kept["members"]["0.treated.npy"] = arm
    kept["header"]["states"][0]["bets"] = [0, 0, 0]
    for name in ("credit", "staked", "sums"):
        kept["members"][f"0.{name}.npy"][...] = 0
    FORMAT.write(folder / "forged", kept["header"], kept["members"])
    with pytest.raises(ModelFileError, match=f"{n:,} rows wait to be bet on, more than"):
        Monitor.load(folder / "forged")


def test_of_two_runs_at_once_one_writes(states):
    """Both have read the same state: the second must not undo what the first has written."""
    path = states[0] / "one"
    for _ in range(20):
        runs, told = [Monitor.load(path) for _ in range(2)], list[str]()
        for number, own in enumerate(runs):
            own.n_beyond += 1 + number
        start = threading.Barrier(2)

        def save(own, start=start, told=told):
            start.wait()
            try:
                own.save(path)
            except ValueError as error:
                told.append(str(error))

        threads = [threading.Thread(target=save, args=(own,)) for own in runs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(told) == 1
        assert "one run at a time" in told[0]


def test_runs_that_name_a_state_by_different_links_wait_for_each_other(states, monkeypatch):
    """The folder of the file itself is locked, and the system ends the lock with its holder."""
    folder, one, _ = states
    monkeypatch.setattr(monitor_state, "_WAITS", 2)
    before = (folder / "one").read_bytes()
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "link").symlink_to(folder / "one")
    held = os.open(folder, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(ValueError, match="by one run at a time, got another one that is writing"):
        one.save(folder / "elsewhere" / "link")
    assert (folder / "one").read_bytes() == before
    os.close(held)
    one.save(folder / "elsewhere" / "link")
    assert [path.name for path in (folder / "elsewhere").iterdir()] == ["link"]


def test_nothing_is_told_of_bounds_that_contradict_each_other(states):
    monitor = states[1]
    monitor.bets.wealth.credit[...] = 1e308
    look = monitor.look(three_arms(), as_of="2026-01-20")
    assert look.bounds is None
    assert look.verdict.startswith("A lower bound lies above its upper bound")
