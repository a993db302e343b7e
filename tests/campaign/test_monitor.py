"""Looks at a running trial: what enters, what is remembered, what is refused."""

from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.campaign.people import ARMS, make_trial
from tests.campaign.trial_days import NAMED, running

from auucmax._errors import InputError
from auucmax._files import check_target
from auucmax.campaign import Monitor, monitor_trial
from auucmax.campaign.monitor import Verdict, ratio_path, tilt_path
from auucmax.certificates.anytime import AnytimeBets

END = "2026-06-01"


def day(number):
    return str((pd.Timestamp("2026-01-01") + pd.Timedelta(number, "D")).date())


def fresh(**options):
    return Monitor(**(NAMED | options))


def bounds(look):
    return [
        end
        for arm in look.arms
        for own in (arm.effect, arm.gain)
        for end in (own.value, own.lower, own.upper)
    ]


@pytest.fixture
def rows():
    return running()


@pytest.fixture
def looked(rows):
    """A monitor that has seen the first ten days."""
    monitor = fresh()
    monitor.look(rows, as_of="2026-01-16")
    return monitor


@pytest.fixture(scope="module")
def three():
    """Rows of two arms, 100 a day."""
    table = make_trial(2, 4_000)
    sent = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(4_000) // 100, "D")
    return table.assign(sent=sent, score=table["age"])


THREE = {"treatment": "arm", "outcome": "visit", "date": "sent", "id": "person", "control": "no"}


def test_the_same_seed_gives_the_same_bounds(rows):
    found = [bounds(fresh().look(rows, as_of=END)) for _ in range(2)]
    assert found[0] == found[1]
    assert bounds(fresh(random_state=1).look(rows, as_of=END)) != found[0]
    assert bounds(fresh().look(rows.sample(frac=1.0, random_state=1), as_of=END)) == found[0]


@given(data=st.data())
@settings(max_examples=5, deadline=None)
def test_any_number_of_looks_is_one_look(data):
    """With all rows so far, or with those of the last days, whenever one looks."""
    table = running(3_000, per_day=150)
    days = sorted(data.draw(st.lists(st.integers(1, 40), max_size=4)))
    only_new = data.draw(st.booleans())
    many = fresh(treated_share=0.5)
    for number in days:
        start = 0 if not only_new or many.state is None else sum(many.state.n_rows)
        many.look(table[start:], as_of=day(number))
    whole, parts = (monitor.look(table, as_of=END) for monitor in (fresh(treated_share=0.5), many))
    assert bounds(whole) == pytest.approx(bounds(parts), abs=1e-9)
    assert whole.ratio_p_value == pytest.approx(parts.ratio_p_value)
    assert (whole.counts, whole.n_rows) == (parts.counts, parts.n_rows)


def test_a_state_that_is_kept_in_a_file(tmp_path, rows):
    path, memory = tmp_path / "trial.state", fresh(treated_share=0.5)
    for number in (10, 20, 30, 60):
        found = monitor_trial(rows, path, as_of=day(number), **NAMED, treated_share=0.5)
        assert found == memory.look(rows, as_of=day(number))
    assert found.arms[0].gain.lower > 0
    assert path.stat().st_mode & 0o77 == 0
    assert path.stat().st_size < 60_000
    assert [file.name for file in tmp_path.iterdir()] == ["trial.state"]
    assert monitor_trial(rows, path, as_of=day(60)).n_new == 0  # options may be left out
    assert type(found).from_json(found.to_json()) == found


def test_no_other_output_replaces_a_state(tmp_path, rows):
    monitor_trial(rows, tmp_path / "s", as_of="2026-01-16", **NAMED)
    with pytest.raises(ValueError, match="state of a monitor"):
        check_target(tmp_path / "s")


def test_rows_of_yesterday_are_not_needed(rows, looked):
    found = looked.look(rows[rows["sent"] >= "2026-01-11"], as_of=END)
    assert (found.n_rows, found.n_new) == (4000, 3000)


def test_rows_of_one_arm_wait_for_the_others(rows, looked):
    entered = sum(looked.state.n_rows)
    later = rows[entered:]
    one_arm = later[later["mail"] == later["mail"].iloc[0]]
    look = looked.look(one_arm, as_of=END)
    assert (look.n_rows, look.n_new, look.n_waiting) == (entered, 0, len(one_arm))
    whole = bounds(fresh().look(rows, as_of=END))
    assert bounds(looked.look(rows, as_of=END)) == pytest.approx(whole, rel=1e-9)


def test_verdicts(rows):
    early = fresh().look(rows[:100], as_of=END)
    assert (early.verdict, early.arms[0].effect, early.stops) == (Verdict.TOO_EARLY, None, ())
    assert fresh().look(rows[:600], as_of=END).verdict == Verdict.CONTINUE
    found = fresh().look(rows, as_of=END)
    assert found.verdict == Verdict.EFFECT_SHOWN
    assert {stop.verdict for stop in found.stops} == {Verdict.EFFECT_SHOWN, Verdict.GAIN_SHOWN}
    worse = fresh().look(rows.assign(score=-rows["score"]), as_of=END)
    assert {stop.verdict for stop in worse.stops} == {Verdict.EFFECT_SHOWN, Verdict.LOSS_SHOWN}
    harmed = rows.assign(visit=rows["visit"].where(rows["mail"] == 0, 0))
    assert fresh().look(harmed, as_of=END).verdict == Verdict.HARM
    turned = fresh(lower_is_better=True).look(rows, as_of=END)
    assert turned.verdict == Verdict.HARM
    assert turned.arms[0].effect.upper == pytest.approx(-found.arms[0].effect.lower)


def test_a_stop_is_remembered(tmp_path, rows):
    """Rows without any effect come later: what was shown stays shown."""
    path = tmp_path / "s"
    for number in range(10, 50, 2):
        found = monitor_trial(rows, path, as_of=day(number), **NAMED)
        if found.needs_check:
            break
    rng = np.random.default_rng(1)
    later = rows.assign(
        visit=np.where(rows["sent"] > found.until, rng.random(4000) < 0.3, rows["visit"] == 1) * 1
    )
    after = monitor_trial(later, path, as_of=END)
    assert after.stops[: len(found.stops)] == found.stops
    assert after.verdict == found.verdict
    assert after.n_rows > found.stops[0].n_rows


def test_without_scores_there_is_the_average_effect_alone(rows):
    with_score = fresh().look(rows, as_of=END)
    found = fresh(score=None).look(rows, as_of=END)
    assert found.arms[0].gain is None
    # Its bounds have the part of delta that those of the gain took.
    one, other = (look.arms[0].effect for look in (found, with_score))
    assert other.lower < one.lower < one.upper < other.upper
    same = fresh(delta=0.025, score=None).look(rows, as_of=END).arms[0].effect
    assert same.lower == pytest.approx(other.lower)


def test_each_arm_is_as_by_itself_with_a_part_of_delta(three):
    found = Monitor(**THREE, score="score").look(three, as_of=END)
    for label, arm in zip(ARMS[1:], found.arms, strict=True):
        alone = Monitor(**THREE, score="score", treated=[label], delta=0.025)
        own = alone.look(three, as_of=END).arms[0]
        assert (arm.n_rows, arm.n_bet) == (own.n_rows, own.n_bet)
        for name in ("effect", "gain"):
            assert getattr(arm, name).lower == pytest.approx(getattr(own, name).lower)
            assert getattr(arm, name).upper == pytest.approx(getattr(own, name).upper)


def test_arms_may_have_scores_of_their_own(three, arms_model):
    new = three.assign(person=three["person"] + "x", age=(three["age"] ** 2).round(4))
    scores = zip(arms_model.arms, arms_model.scores(new).T, strict=True)
    named = new.assign(**{f"score {label}": own for label, own in scores})
    found = Monitor(model=arms_model, date="sent").look(new, as_of=END)
    by_column = Monitor(**THREE, score="score").look(named, as_of=END)
    assert bounds(found) == pytest.approx(bounds(by_column))


def test_a_model_does_not_rank_its_own_rows(model, tmp_path):
    own = make_trial(1).assign(sent=pd.Timestamp("2026-01-01"))
    with pytest.raises(ValueError, match="trained on other rows") as error:
        Monitor(model=model, date="sent").look(own, as_of=END)
    assert error.value.parameter == "model"
    new = make_trial(1, seed=5).assign(sent=pd.Timestamp("2026-01-01"))
    monitor_trial(new, tmp_path / "s", model=model, date="sent", as_of=END)
    with pytest.raises(ValueError, match="got none") as error:
        monitor_trial(new, tmp_path / "s", as_of=END)
    assert error.value.parameter == "model"


def refuse(monitor, table, parameter, as_of=END):
    """What is refused leaves the state as it was."""
    before = deepcopy(monitor.state)
    with pytest.raises(ValueError, match="should") as caught:
        monitor.look(table, as_of=as_of)
    assert "\n" not in str(caught.value)
    assert parameter in getattr(caught.value, "parameter", str(caught.value))
    assert monitor.state.to_json() == before.to_json()
    assert monitor.look(running(), as_of=END).n_rows == 4000


CHANGES = {
    "late": lambda t: pd.concat(
        [t, t.iloc[[2000]].assign(sent=pd.Timestamp("2026-01-05"), person=99)]
    ),
    "rows gone": lambda t: t.drop(index=[5, 7]),
    "days gone": lambda t: t[~t["sent"].between("2026-01-03", "2026-01-04")],
    "another arm": lambda t: t.assign(mail=t["mail"].where(t["person"] != 1003, 1 - t["mail"])),
    "another outcome": lambda t: t.assign(
        visit=t["visit"].where(t["person"] != 1003, 1 - t["visit"])
    ),
    "another id": lambda t: t.assign(person=t["person"].where(t["person"] != 1003, 9)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_entered_rows_that_change_are_refused(looked, rows, change):
    refuse(looked, CHANGES[change](rows), "table")


@pytest.mark.parametrize("change", ["late", "rows gone", "another arm", "another outcome"])
def test_without_ids_they_are_seen_too(rows, change):
    monitor = fresh(id=None)
    monitor.look(rows, as_of="2026-01-16")
    refuse(monitor, CHANGES[change](rows), "table")


@pytest.mark.parametrize(
    ("change", "parameter"),
    [
        (lambda t: pd.concat([t, t[:100].assign(sent=pd.Timestamp("2026-02-20"))]), "id"),
        (lambda t: t.assign(person=t["person"].where(t["person"] != 4000, 4001)), "id"),
        (lambda t: t.assign(mail=t["mail"].where(t["sent"] < "2026-01-20", 2)), "treatment"),
        (lambda t: t.assign(visit=t["visit"].astype(float).where(t["person"] != 4000)), "outcome"),
        (lambda t: t.assign(visit=t["visit"] * 3), "outcome_range"),
        (lambda t: t.assign(sent=t["sent"].dt.strftime("%d/%m/%Y")), "date"),
        (lambda t: t.drop(columns="score"), "score"),
        (lambda t: t.assign(score=np.nan), "score"),
    ],
)
def test_rows_that_cannot_enter(looked, rows, change, parameter):
    refuse(looked, change(rows), parameter)


def test_the_day_of_a_look(looked, rows):
    """A look in the past shows what has entered."""
    assert looked.look(rows, as_of="2026-01-10").n_rows == 1000
    for wrong in ("03.02.2026", "soon", "2126-02-03"):
        with pytest.raises(ValueError, match="as_of should be"):
            looked.look(rows, as_of=wrong)


def test_a_table_of_yesterday_closes_no_day_without_its_rows(tmp_path, rows):
    """Nor does an empty one: the rows come with the next table, and are not late."""
    path = tmp_path / "s"
    monitor_trial(rows[:1000], path, as_of="2026-01-16", **NAMED)
    for stale in (rows[:0], rows[:1000]):
        found = monitor_trial(stale, path, as_of="2026-02-20")
        assert (found.until, found.n_rows, found.n_new) == ("2026-01-10", 1000, 0)
    found = monitor_trial(rows, path, as_of="2026-02-20")
    assert (found.until, found.n_rows, found.n_new) == ("2026-02-09", 4000, 3000)


@pytest.mark.parametrize(
    ("option", "value"),
    [("score", "other"), ("outcome", "other"), ("window", "6d"), ("delta", 0.01), ("treated", "0")],
)
def test_options_of_another_trial(tmp_path, rows, option, value):
    path = tmp_path / "s"
    monitor_trial(rows, path, as_of="2026-01-16", **NAMED)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="as at the first look") as error:
        monitor_trial(rows, path, as_of=END, **{option: value})
    assert error.value.parameter == option
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"date": None}, "date"),
        ({"treatment": None}, "treatment"),
        ({"outcome": None}, "outcome"),
        ({"delta": 1.5}, "delta"),
        ({"window": "soon"}, "window"),
        ({"outcome_range": (1, 0)}, "outcome_range"),
        ({"propensity": "score"}, "least_propensity"),
        ({"propensity": "score", "least_propensity": 0.7}, "least_propensity"),
        ({"window": "-3d"}, "window"),
    ],
)
def test_options_that_cannot_be(options, parameter):
    with pytest.raises(ValueError, match=f"{parameter} should be") as error:
        fresh(**options)
    assert getattr(error.value, "parameter", parameter) == parameter


@pytest.mark.parametrize(
    ("options", "parameter"),
    [({"treated_share": 1.2}, "treated_share"), ({"treated_share": {"2": 0.5}}, "treated_share"),
     ({"control": "none"}, "control"), ({"treated": ["0", "1"]}, "control")],
)  # fmt: skip
def test_arms_that_cannot_be(rows, options, parameter):
    with pytest.raises(ValueError, match="should be") as error:
        fresh(**options).look(rows, as_of=END)
    assert error.value.parameter == parameter
    with pytest.raises(ValueError, match="control should be"):
        fresh().look(rows[:1], as_of=END)  # one arm alone


def test_arms_that_are_not_as_designed(rows, tmp_path):
    path, named = tmp_path / "s", NAMED | {"treated_share": 0.5}
    assert monitor_trial(rows[:1000], path, as_of="2026-02-01", **named).ratio_p_value > 0.05
    # Every fifth control row of all later days is lost.
    later = rows[1000:].assign(sent=rows["sent"] + pd.Timedelta(60, "D"))
    lost = (later["mail"] == 0) & (later["person"] % 5 == 0)
    found = monitor_trial(later[~lost], path, as_of=END)
    assert found.ratio_p_value < 0.01
    assert found.verdict == Verdict.STOP_FAILED_RATIO
    assert found.arms[0].effect is found.arms[0].gain is None
    assert not found.needs_check
    even = rows[:200].assign(sent=pd.Timestamp("2026-06-02"), person=range(200))
    after = monitor_trial(even, path, as_of="2026-08-01")  # it is not forgotten
    assert (after.verdict, after.n_new) == (Verdict.STOP_FAILED_RATIO, 0)


def test_bounds_that_contradict_each_other_end_the_trial(rows, looked):
    """Treatment that was not random can show harm, and then an effect."""
    turned = rows.assign(visit=np.where(rows["mail"] == rows["sent"].gt("2026-01-17"), 1, 0))
    turned.loc[turned["sent"] <= "2026-01-10", "visit"] = rows["visit"]
    for number in range(17, 60):
        found = looked.look(turned, as_of=day(number))
    assert found.verdict == Verdict.STOP_FAILED_BOUNDS
    assert found.arms[0].effect is None


def test_the_ratio_is_a_mixture_over_shares():
    """Against a fine sum over shares, weighed by the Beta density."""
    treated = np.random.default_rng(0).random(50) < 0.4
    share = (np.arange(200_000) + 0.5) / 200_000
    k, n = int(treated.sum()), len(treated)
    log_prior = (1000 * 0.3 - 1) * np.log(share) + (1000 * 0.7 - 1) * np.log1p(-share)
    prior = np.exp(log_prior - log_prior.max())
    ratio = (share / 0.3) ** k * ((1 - share) / 0.7) ** (n - k)
    expected = np.log((prior * ratio).sum() / prior.sum())
    arm, shares = treated.astype(int), np.array([0.7, 0.3])
    assert ratio_path(arm, np.zeros(2, int), shares)[-1] == pytest.approx(expected, abs=1e-6)
    halves = ratio_path(arm[20:], np.bincount(arm[:20], minlength=2), shares)
    assert halves[-1] == pytest.approx(expected, abs=1e-6)
    even = ratio_path(np.arange(60) % 3, np.zeros(3, int), np.full(3, 1 / 3))
    assert even.max() <= 0.01


def test_tilts_of_arms_are_those_of_each():
    """The mean over both arms of what each would have by itself."""
    rng = np.random.default_rng(0)
    propensity = rng.dirichlet([2, 1, 1], 200)
    arm = np.array([rng.choice(3, p=own) for own in propensity])
    path, end = tilt_path(arm, propensity, np.zeros(20))
    alone = [
        tilt_path(
            (arm == k) * 1, np.column_stack([1 - propensity[:, k], propensity[:, k]]), np.zeros(10)
        )[0]
        for k in (1, 2)
    ]
    assert path == pytest.approx(np.logaddexp(*alone) - np.log(2))
    _, half = tilt_path(arm[:100], propensity[:100], np.zeros(20))
    again, _ = tilt_path(arm[100:], propensity[100:], half)
    assert again[-1] == pytest.approx(path[-1])
    assert len(end) == 20


def test_known_propensities_replace_the_shares(three, rows):
    """Of two arms they are columns by label; bounds of one are those of its bets."""
    chance = np.where(rows["score"] > 0.5, 0.7, 0.3)
    table = rows.assign(
        chance=chance, mail=(np.random.default_rng(1).random(4000) < chance).astype(int)
    )
    found = fresh(propensity="chance", least_propensity=0.3).look(table, as_of=END)
    assert found.ratio_p_value > 0.01
    wrong = fresh(propensity="chance", least_propensity=0.3)
    wrong = wrong.look(table.assign(chance=0.95 * table["chance"] + 0.015), as_of=END)
    assert wrong.ratio_p_value < found.ratio_p_value
    with pytest.raises(ValueError, match="propensity should be"):
        fresh(propensity="chance", least_propensity=0.4).look(table, as_of=END)
    even = three.assign(**{f"chance {label}": 1 / 3 for label in ARMS[1:]})
    by_word = Monitor(**THREE, propensity="chance", least_propensity=0.5)
    columns = {label: f"chance {label}" for label in ARMS[1:]}
    by_label = Monitor(**THREE, propensity=columns, least_propensity=0.5)
    first, second = (one.look(even, as_of=END) for one in (by_word, by_label))
    assert [arm.effect for arm in first.arms] == [arm.effect for arm in second.arms]
    assert first.ratio_p_value > 0.01
    # A person is as likely to be in one of the two arms as anybody else.
    uneven = even.assign(**{f"chance {ARMS[1]}": np.where(even["age"] > 0.5, 0.5, 1 / 3)})
    with pytest.raises(InputError) as caught:
        Monitor(**THREE, propensity=columns, least_propensity=0.1).look(uneven, as_of=END)
    assert caught.value.parameter == "propensity"


def test_groups_have_one_arm_and_one_day(rows):
    table = rows.assign(home=rows.index // 2)
    table["mail"] = table["home"].map(table.groupby("home")["mail"].first())
    found = fresh(groups="home", treated_share=0.5).look(table, as_of=END)
    assert (found.n_rows, sum(found.counts)) == (4000, 2000)
    for name, value in (("mail", 1 - table["mail"]), ("sent", pd.Timestamp("2026-01-02"))):
        wrong = table.assign(**{name: table[name].where(table["person"] != 1001, value)})
        with pytest.raises(ValueError, match="people with the same") as error:
            fresh(groups="home").look(wrong, as_of=END)
        assert "home" in error.value.parameter


def test_bounds_are_those_of_the_bets(rows):
    """With one row a day the order is that of the days."""
    table = rows[:1500].assign(
        sent=pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(1500), "D")
    )
    own = fresh(window=0).look(table, as_of=END).arms[0]
    bets = AnytimeBets.fresh()
    y, score = table["visit"].to_numpy(float), table["score"].to_numpy()
    bets.add(y, score, table["mail"].to_numpy() == 1, 0.05 / 4)
    limits = bets.wealth.limits(0.05 / 4)
    assert [own.gain.lower, own.gain.upper] == pytest.approx(limits[0])
    assert [own.effect.lower, own.effect.upper] == pytest.approx(limits[1])


def test_money_is_bounded_in_its_range(rows):
    money = rows.assign(visit=rows["visit"] * 250.0)
    found = fresh(outcome_range=(0, 500)).look(money, as_of=END)
    halves = fresh(outcome_range=(0, 2)).look(rows, as_of=END)
    assert np.array(bounds(found)) == pytest.approx(250 * np.array(bounds(halves)))
    assert found.n_clipped == 0
    clipped = fresh(outcome_range=(0, 100)).look(money, as_of=END)
    assert clipped.n_clipped == rows["visit"].sum()


def test_files_that_are_no_state(tmp_path, rows):
    path = tmp_path / "s"
    monitor_trial(rows, path, as_of="2026-01-16", **NAMED)
    whole = path.read_bytes()
    renamed, newer = (b"last_day", b"past_day"), (b'"n_clipped"', b'"more":1,"n_clipped"')
    damaged = [b"", b"person,mail\n", whole[:-200], b"[" * 100_000, b"\xff\xfe"]
    for wrong in (*damaged, whole.replace(*renamed), whole.replace(*newer)):
        path.write_bytes(wrong)
        with pytest.raises(ValueError, match="state should be") as error:
            monitor_trial(rows, path, as_of=END)
        assert error.value.parameter == "state"
        assert path.read_bytes() == wrong
