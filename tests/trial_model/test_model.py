"""A fitted model scores raw rows, and says on which it may be judged."""

import numpy as np
import pandas as pd
import pytest
from tests.trial_model.trial_table import NAMES, trial_table

from auucmax.trial_model import ColumnNames, fit_trial_model


@pytest.fixture(scope="module")
def table():
    return trial_table()


@pytest.fixture(scope="module")
def by_id(table):
    return fit_trial_model(table, **NAMES, id="person", model="tm")


@pytest.fixture(scope="module")
def by_position(table):
    return fit_trial_model(table.drop(columns="person"), **NAMES, model="tm")


def test_scores_need_only_the_features(table, by_id):
    features = table[["spent", "joined", "member", "town", "age"]]
    np.testing.assert_array_equal(by_id.predict(features), by_id.predict(table))
    with pytest.raises(ValueError, match="should have the column 'age'"):
        by_id.predict(features.drop(columns="age"))
    with pytest.raises(ValueError, match="should have rows to score, got none"):
        by_id.predict(features.head(0))
    with pytest.raises(ValueError, match=r"column 'town'.*got 'Paris' in 1 row"):
        by_id.predict(features.head(1).assign(town="Paris"))


def test_uplift_keeps_the_order(table, by_id):
    score, uplift = by_id.predict(table), by_id.uplift(table)
    order = np.argsort(score)
    assert (np.diff(uplift[order]) >= 0).all()
    assert uplift[table["age"] < 40].mean() > uplift[table["age"] > 50].mean() + 0.05


def test_on_the_file_of_the_fit_only_test_rows_are_judged(table, by_id, by_position):
    for model in (by_id, by_position):
        held_out = model.held_out(table)
        counts = model.summary["rows"]["parts"]["test"]
        assert held_out.treatment.sum() == counts["treated"]
        assert (1 - held_out.treatment).sum() == counts["control"]
        assert held_out.seen_before
        assert "no evidence" in held_out.note
        rows = table.iloc[held_out.positions]
        np.testing.assert_array_equal(rows["visit"], held_out.y)
        np.testing.assert_array_equal(rows["arm"] == "mail", held_out.treatment == 1)
        assert len(held_out.frame) == len(held_out.y)


def test_rows_that_were_learnt_from_are_all_the_others(table, by_id, by_position):
    for model in (by_id, by_position):
        learnt, held_out = model.learnt(table), model.held_out(table)
        everyone = np.sort(np.concatenate([learnt.positions, held_out.positions]))
        np.testing.assert_array_equal(everyone, np.flatnonzero(table["arm"] != "phone"))
        assert set(model.trained(table).positions) < set(learnt.positions)
        rows = table.iloc[learnt.positions]
        np.testing.assert_array_equal(rows["visit"], learnt.y)
        np.testing.assert_array_equal(rows["arm"] == "mail", learnt.treatment == 1)
        other = trial_table(500, random_state=9)
        other["person"] = "new " + other["person"]
        with pytest.raises(ValueError, match="got none of them"):
            model.learnt(other)


def test_test_rows_are_kept_without_the_table(table, by_id):
    held_out, kept = by_id.held_out(table), by_id.test_rows
    np.testing.assert_array_equal(kept.y, held_out.y)
    np.testing.assert_array_equal(kept.treatment, held_out.treatment)
    np.testing.assert_array_equal(kept.score, by_id.predict(held_out.frame))


def test_another_file_is_judged_as_a_whole(by_id, by_position):
    other = trial_table(500, random_state=9)
    other["person"] = "new " + other["person"]
    for model in (by_id, by_position):
        held_out = model.held_out(other)
        assert len(held_out.y) == (other["arm"] != "phone").sum()
        assert not held_out.seen_before
        assert held_out.note == (
            f"All {len(held_out.y)} rows are new to the model."
            if model is by_id
            else f"All {len(held_out.y)} rows: no row was recognised as one that the model learnt "
            f"from."
        )


def test_the_file_of_the_fit_in_another_format(table, by_position):
    before = by_position.held_out(table)
    other = table.assign(
        member=table["member"].map({True: "yes", False: "no"}),
        joined=table["joined"].dt.tz_localize("UTC"),
        visit=table["visit"].map({1: "Yes", 0: "No"}),
    )
    after = by_position.held_out(other)
    np.testing.assert_array_equal(after.positions, before.positions)
    np.testing.assert_array_equal(after.y, before.y)


def test_known_rows_among_new_ones_are_left_out_and_it_is_said(table, by_position):
    new = trial_table(1_000, random_state=9)
    known = by_position.learnt(table).frame.head(1)
    held_out = by_position.held_out(pd.concat([new, known]))
    n = int((new["arm"] != "phone").sum())
    assert len(held_out.y) == n
    assert not held_out.seen_before
    assert held_out.note.startswith(f"{n} of {n + 1} rows: the others look like rows that the")


def test_rows_that_cannot_be_told_apart_are_said_to_be_so(table):
    few = table[["arm", "visit", "member"]]
    model = fit_trial_model(few, **NAMES, model="tm")
    found = model.held_out(few.head(2_000))
    assert "look too much alike to be told apart without ids" in found.note
    assert "only if you know that they are new" in found.note
    assert not found.is_sure
    assert model.held_out(few).is_sure


def test_rows_that_only_their_ids_tell_apart_are_said_to_be_so(table):
    few = table[["person", "arm", "visit", "member"]]
    model = fit_trial_model(few, **NAMES, id="person", model="tm")
    same = model.held_out(few.sample(frac=1, random_state=0))
    assert same.note.endswith("which are no evidence.")
    new = trial_table(500, random_state=9).assign(person=range(500))
    found = model.held_out(new)
    assert found.note.startswith(
        f"All {len(found.y)} rows are new to the model. This goes by their"
    )
    assert found.note.endswith("only if ids are written as in the file of the fit.")
    with pytest.raises(ValueError, match=r"these rows under other ids.*write the ids as they are"):
        model.held_out(few.assign(person="0" + few["person"]))


def test_names_that_are_no_texts(table, by_id):
    held_out = by_id.held_out(table.assign(**{"more": 1}).rename(columns={"more": 7}))
    assert "7" in held_out.frame.columns
    with pytest.raises(ValueError, match="columns of different names, got '7' more than once"):
        by_id.held_out(table.assign(a=1, b=2).rename(columns={"a": 7, "b": "7"}))


def test_reordered_files(table, by_id, by_position):
    mixed = table.sample(frac=1, random_state=3)
    people = set(table["person"].iloc[by_id.held_out(table).positions])
    assert set(mixed["person"].iloc[by_id.held_out(mixed).positions]) == people
    for changed in (mixed, table.head(4_000), table.iloc[1:], table.head(50)):
        with pytest.raises(ValueError, match=r"there are no ids.*fit the model with an id column"):
            by_position.held_out(changed)


def test_a_part_of_the_file_with_ids(table, by_id):
    some = table.sample(300, random_state=0)
    held_out = by_id.held_out(some)
    everyone = set(table["person"].iloc[by_id.held_out(table).positions])
    assert set(held_out.frame["person"]) == everyone & set(some["person"])
    test_rows = table.iloc[by_id.held_out(table).positions]
    learnt = table[(table["arm"] != "phone") & ~table["person"].isin(test_rows["person"])]
    with pytest.raises(ValueError, match="both arms should be left to judge the model on, got 0"):
        by_id.held_out(learnt)


def test_a_table_without_outcomes_cannot_judge(table, by_id):
    with pytest.raises(ValueError, match="should have the column 'visit'"):
        by_id.held_out(table.drop(columns="visit"))
    with pytest.raises(ValueError, match="should have the column 'person'"):
        by_id.held_out(table.drop(columns="person"))
    with pytest.raises(ValueError, match="should hold 'mail' and 'none', got 'phone'"):
        by_id.held_out(table[table["arm"] == "phone"])


def test_column_names_as_json(by_id):
    plain = by_id.columns.to_dict()
    assert ColumnNames.from_dict(plain) == by_id.columns
    for change in ({"features": []}, {"features": [1]}, {"outcome": None}, {"x": 1}):
        with pytest.raises(ValueError, match="should"):
            ColumnNames.from_dict(plain | change)


def test_repr(by_id):
    assert repr(by_id) == "TrialModel('tm', 5 columns, outcome 'visit', treatment 'arm')"
