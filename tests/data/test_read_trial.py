"""From tables to trials: roles, arms, rows, and the pairs of an arm and the control."""

import numpy as np
import pandas as pd
import pytest
from tests.model.trial_table import trial_table

from auucmax import read_trial
from auucmax._errors import InputError
from auucmax.data.pair import Pair, row_keys
from auucmax.data.read_trial import id_texts, trial_of
from auucmax.results import Kind, Roles

NAMES = {"treatment": "arm", "outcome": "visit", "treated": "mail", "control": "none"}


def read(labels, **options):
    """The arms of a trial whose treatment has these labels."""
    table = pd.DataFrame({"arm": labels, "y": [0.0, 1.0] * (len(labels) // 2), "x": 1.5})
    return read_trial(table, treatment="arm", outcome="y", **options).roles.arms


@pytest.mark.parametrize("labels", [[0, 1], [0.0, 1.0], ["0", "1"], ["no", "yes"], ["N", "Y"]])
def test_no_and_yes_need_no_control(labels):
    control, treated = read(labels * 2)
    assert (control.lower(), treated.lower()) in (("0", "1"), ("no", "yes"), ("n", "y"))


def test_which_labels_are_arms():
    assert read([True, False] * 2) == ("false", "true")
    assert read(["mail", "none"] * 2, control="none") == ("none", "mail")
    assert read(["mail", "none"] * 2, treated="mail") == ("none", "mail")
    assert read([" Control ", "a"] * 2) == (" Control ", "a")
    assert read(["control", "a"] * 2, treated="control") == ("a", "control")
    three = ["control", "b", "a", "b"] * 100
    assert read(three) == ("control", "a", "b")
    assert read(three, treated="b") == ("control", "b")
    assert read(three, treated=["b", "a"]) == ("control", "a", "b")
    assert read([1.0, 2.0, 3.0, 2.0] * 50, control=1) == ("1", "2", "3")


@pytest.mark.parametrize(
    ("labels", "options", "parameter"),
    [
        (["a", "b"] * 2, {}, "control"),
        (["a", "b", "c", "a"] * 20, {}, "control"),
        (["a", "b"] * 2, {"control": "c"}, "control"),
        (["a", "b"] * 2, {"control": "a", "treated": "x"}, "treated"),
        (["a", "b"] * 2, {"control": "a", "treated": "a"}, "control"),
        (["Ja", "ja", "Nein", "ja"], {"control": "Nein"}, "the treatment 'arm'"),
        (["no  mail", "No mail", "mail", "mail"], {}, "the treatment 'arm'"),
    ],
)
def test_labels_that_do_not_say_who_was_treated(labels, options, parameter):
    with pytest.raises(InputError) as caught:
        read(labels, **options)
    assert caught.value.parameter == parameter


def test_a_small_arm_of_several_is_left_out():
    labels = ["no", "mail", "call", "mail"] * 50 + ["fax"] * 2
    with pytest.warns(UserWarning, match="'fax' 2"):
        arms = read(labels, control="no")
    assert arms == ("no", "call", "mail")


def test_rows_of_the_arms_in_their_order():
    table = trial_table(1_000).sample(frac=1, random_state=0)
    trial = read_trial(table, **NAMES, id="person")
    kept = table["arm"].isin(["mail", "none"]).to_numpy()
    np.testing.assert_array_equal(trial.y, table["visit"].to_numpy()[kept])
    np.testing.assert_array_equal(trial.arm, (table["arm"] == "mail").to_numpy()[kept])
    np.testing.assert_array_equal(trial.place, np.flatnonzero(kept))
    assert trial.other_arms == {"phone": int((table["arm"] == "phone").sum())}
    several = read_trial(table, treatment="arm", outcome="visit", control="none", id="person")
    assert several.roles.arms == ("none", "mail", "phone")
    np.testing.assert_array_equal(
        np.array(several.roles.arms)[several.arm], table["arm"].to_numpy()
    )


def test_pairs_hold_the_rows_of_an_arm_and_the_control():
    table = trial_table(1_000)
    trial = read_trial(table, treatment="arm", outcome="visit", control="none", id="person")
    keys = row_keys(trial, "0123456789abcdef")
    for pair, label in zip(Pair.each(trial, keys), ("mail", "phone"), strict=True):
        own = table["arm"].isin([label, "none"]).to_numpy()
        assert pair.name == label
        np.testing.assert_array_equal(pair.index, np.flatnonzero(own))
        np.testing.assert_array_equal(pair.treated, (table["arm"] == label)[own])
        half = pair.take(np.arange(len(pair.y)) % 2 == 0)
        np.testing.assert_array_equal(half.y, pair.y[::2])


@pytest.mark.parametrize("kind", ["binary", "money"])
def test_lower_is_better_turns_outcomes_round(kind):
    table = trial_table(600).assign(cost=lambda t: np.where(t["visit"] > 0, t["spent"], 0.0))
    outcome = "visit" if kind == "binary" else "cost"
    trial = read_trial(table, **NAMES | {"outcome": outcome}, lower_is_better=True, id="person")
    assert trial.roles.outcome.kind == (Kind.BINARY if kind == "binary" else Kind.MONEY)
    np.testing.assert_array_equal(trial.benefit, (kind == "binary") - trial.y)


def test_a_column_that_is_unique_in_every_row_is_an_identifier():
    table = trial_table(1_000).assign(number=lambda t: 10**6 - t.index)
    with pytest.warns(UserWarning, match=r"unique in every row .* got 'person', 'number'"):
        trial = read_trial(table, **NAMES)
    assert set(trial.roles.features) == {"age", "town", "member", "joined", "spent"}
    assert {"person", "number"} <= set(trial.roles.ignored)
    named = read_trial(table, **NAMES, features=["number", "age"])
    assert named.roles.features == ("number", "age")
    few = read_trial(table.head(60), **NAMES)  # may differ by chance
    assert {"number", "person"} <= set(few.roles.features)


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"treatment": None}, "treatment"),
        ({"outcome": "arm"}, "treatment"),
        ({"groups": "visit"}, "outcome"),
        ({"features": ["visit"]}, "features"),
        ({"features": []}, "features"),
        ({"categorical": ["arm"]}, "categorical"),
        ({"propensity": "visit"}, "propensity"),
    ],
)
def test_roles_that_exclude_each_other(options, parameter):
    with pytest.raises(InputError) as caught:
        read_trial(trial_table(300), **NAMES | {"id": "person"} | options)
    assert caught.value.parameter == parameter


def test_missing_outcomes_are_an_error_or_counted():
    table = trial_table(2_000)
    table["visit"] = table["visit"].astype(float)
    table.loc[::50, "visit"] = np.nan
    with pytest.raises(InputError) as caught:
        read_trial(table, **NAMES, id="person")
    assert caught.value.parameter == "the outcome 'visit'"
    trial = read_trial(table, **NAMES, id="person", drop_missing_outcomes=True)
    lost = table[table["visit"].isna() & table["arm"].isin(["mail", "none"])]
    assert np.bincount(trial.lost.arm).tolist() == [
        int((lost["arm"] == "none").sum()), int((lost["arm"] == "mail").sum()),
    ]  # fmt: skip
    assert len(trial.y) == table["arm"].isin(["mail", "none"]).sum() - len(lost)


@pytest.mark.parametrize("blank", ["", "  ", "\t"])
def test_blank_ids_are_missing_ids(blank):
    table = trial_table(1_000)
    table.loc[table.index[table["arm"] == "mail"][:7], "person"] = blank
    with pytest.raises(InputError, match="7 blank texts"):
        read_trial(table, **NAMES, id="person")
    table["person"] = table["person"].replace(blank, None)
    with pytest.raises(ValueError, match="without missing values, got 7"):
        read_trial(table, **NAMES, id="person")


def test_repeated_ids_are_an_error_unless_they_are_groups():
    table = trial_table(1_000)
    table["person"] = table["person"].str.slice(0, 3)
    with pytest.raises(InputError) as caught:
        read_trial(table, **NAMES, id="person")
    assert caught.value.parameter == "the id 'person'"
    assert read_trial(table, **NAMES, id="person", groups="person").groups is not None


def test_propensities_of_two_arms():
    table = trial_table(3_000).assign(chance=np.arange(1, 3_001) / 3_001)
    trial = read_trial(table, **NAMES, id="person", propensity="chance")
    np.testing.assert_allclose(trial.propensity[:, 1], (trial.place + 1) / 3_001)
    np.testing.assert_allclose(trial.propensity.sum(axis=1), 1)
    assert "chance" not in trial.roles.features
    (pair,) = Pair.each(trial, row_keys(trial, "0" * 16))
    np.testing.assert_allclose(pair.propensity, trial.propensity[:, 1])
    assert pair.people is None


def test_propensities_of_several_arms():
    rng = np.random.default_rng(0)
    n = 900
    chance = rng.dirichlet([5, 5, 5], n)
    code = (rng.random(n)[:, None] > np.cumsum(chance, axis=1)).sum(axis=1)
    table = pd.DataFrame({
        "arm": np.array(["no", "a", "b"])[code], "y": rng.integers(0, 2, n),
        "x": rng.normal(size=n),
        "chance a": chance[:, 1], "chance b": chance[:, 2],
    })  # fmt: skip
    named = {"treatment": "arm", "outcome": "y", "control": "no"}
    trial = read_trial(table, **named, propensity="chance")
    np.testing.assert_allclose(trial.propensity, chance)
    one = read_trial(table, **named, treated="b", propensity={"a": "chance a", "b": "chance b"})
    (pair,) = Pair.each(one, row_keys(one, "0" * 16))
    own = chance[code != 1]
    np.testing.assert_allclose(pair.propensity, own[:, 2] / (own[:, 0] + own[:, 2]))
    np.testing.assert_allclose(pair.people, 1 / (own[:, 0] + own[:, 2]))
    with pytest.raises(InputError) as caught:
        read_trial(table, **named, propensity="chance a")
    assert caught.value.parameter == "propensity"


def test_groups_without_outcomes_are_counted_once():
    """Of 100 shops of 20, 12 are lost, 9 of them treated: chance explains it for shops."""
    rng = np.random.default_rng(0)
    shop, drawn = np.repeat(np.arange(100), 20), np.arange(100) % 2
    table = pd.DataFrame({"shop": shop, "mail": drawn[shop], "x": rng.normal(size=2_000)})
    table["chance"] = np.where(shop < 2, 0.4, 0.5)
    table["visit"] = (rng.random(2_000) < 0.3).astype(float)
    gone = [*range(11, 29, 2), 30, 32, 34]
    table.loc[np.isin(shop, gone), "visit"] = np.nan
    named = {"treatment": "mail", "outcome": "visit", "groups": "shop", "propensity": "chance"}
    trial = read_trial(table, **named, drop_missing_outcomes=True)
    assert [int(trial.lost.first[trial.lost.arm == k].sum()) for k in (0, 1)] == [3, 9]
    (pair,) = Pair.each(trial, row_keys(trial, "0" * 16))
    found = {test.name: test for test in pair.check().tests}
    assert found["missing outcomes"].p_value > 0.05


def test_people_without_outcomes_are_counted_where_groups_have_both_arms():
    rng = np.random.default_rng(0)
    n = 6_000
    mail, shop = rng.integers(2, size=n), rng.integers(60, size=n)
    table = pd.DataFrame({"shop": shop, "mail": mail, "x": rng.normal(size=n)})
    gone = rng.random(n) < (0.05 + 0.01 * mail) * rng.uniform(0, 2, 60)[shop]
    table["visit"] = np.where(gone, np.nan, rng.random(n) < 0.3)
    named = {"treatment": "mail", "outcome": "visit", "groups": "shop"}
    trial = read_trial(table, **named, drop_missing_outcomes=True)
    (pair,) = Pair.each(trial, row_keys(trial, "0" * 16))
    assert pair.has_mixed_groups
    found = {test.name: test for test in pair.check().tests}["missing outcomes"]
    assert f"({gone[mail == 1].sum()} of {(mail == 1).sum():,} rows)" in found.detail
    assert 1e-4 < found.p_value < 0.5


@pytest.mark.gate
def test_lost_groups_of_very_different_sizes_are_no_attrition():
    """Counting rows would stop a fifth of such trials."""
    n_trials, low = 50, 0
    for seed in range(n_trials):
        rng = np.random.default_rng(seed)
        size = np.minimum(np.ceil(5 * rng.pareto(1.2, 200) + 1), 3_000).astype(int)
        shop = np.repeat(np.arange(200), size)
        table = pd.DataFrame({"shop": shop, "mail": rng.integers(0, 2, 200)[shop]})
        table = table.assign(
            x=rng.normal(size=len(shop)), visit=rng.integers(0, 2, len(shop)) * 1.0
        )
        table.loc[(rng.random(200) < 0.3)[shop], "visit"] = np.nan
        named = {"treatment": "mail", "outcome": "visit", "groups": "shop"}
        trial = read_trial(table, **named, drop_missing_outcomes=True)
        (pair,) = Pair.each(trial, row_keys(trial, "0" * 16))
        found = {test.name: test for test in pair.check().tests}
        low += found["missing outcomes"].p_value < 0.05
    assert low / n_trials <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n_trials)


def test_copies_of_rows_are_refused_and_chance_twins_are_not():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"mail": rng.integers(0, 2, 1_000), "x": rng.normal(size=1_000)})
    table["y"] = rng.integers(0, 2, 1_000)
    named = {"treatment": "mail", "outcome": "y"}

    def pair_of(frame):
        trial = read_trial(frame, **named)
        return next(Pair.each(trial, row_keys(trial, "0" * 16)))

    pair_of(table).check_copies()
    with pytest.raises(InputError) as caught:
        pair_of(pd.concat([table, table])).check_copies()
    assert caught.value.parameter == "the table"
    pair_of(table.assign(x=rng.integers(0, 5, 1_000) + 0.5)).check_copies()


def test_roles_read_new_rows_as_those_of_the_fit():
    table = trial_table(1_000)
    trial = read_trial(table, **NAMES, id="person", ignore=["spent"])
    again = Roles.from_json(trial.roles.to_json())
    new = trial_of(table.head(400), again)
    assert new.roles == trial.roles
    np.testing.assert_array_equal(new.y, trial.y[: len(new.y)])
    with pytest.raises(InputError, match="in no row"):
        trial_of(table[table["arm"] == "none"], again)


def test_a_trial_is_read_from_a_file(tmp_path):
    table = trial_table(400)
    table.to_csv(tmp_path / "trial.csv", index=False)
    trial = read_trial(tmp_path / "trial.csv", **NAMES, id="person")
    np.testing.assert_array_equal(trial.y, read_trial(table, **NAMES, id="person").y)


def test_texts_of_ids():
    assert id_texts(pd.Series([1.0, 2.0]), "id").tolist() == ["1", "2"]
    assert id_texts(pd.Series([1, 2]), "id").tolist() == ["1", "2"]
    days = pd.Series(pd.to_datetime(["2024-01-01", "2024-01-01 10:00"], format="ISO8601"))
    assert id_texts(days, "id").tolist() == ["2024-01-01", "2024-01-01T10:00:00"]
    with pytest.raises(InputError):
        id_texts(pd.Series([[1], [2]]), "id")
