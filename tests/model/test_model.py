"""A fitted model scores raw rows, and is judged on rows that are new to it."""

from itertools import pairwise

import numpy as np
import pytest
from tests.model.trial_table import NAMES, named_model, trial_table

from auucmax import auuc_inference, certify
from auucmax.model import ColumnNames, fit_trial_model
from auucmax.model.model import CHANCES_BEYOND, NEW_ROWS


@pytest.fixture(scope="module")
def table():
    return trial_table()


@pytest.fixture(scope="module")
def by_id():
    return named_model("tm", 6_000)  # of the table


@pytest.fixture(scope="module")
def by_position(table):
    return fit_trial_model(table.drop(columns="person"), **NAMES, model="tm")


@pytest.fixture(scope="module")
def new():
    other = trial_table(2_000, random_state=9)
    return other.assign(person="new " + other["person"])


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


def test_the_file_of_the_fit_shows_what_the_fit_has_found(table, by_id, by_position):
    for model in (by_id, by_position):
        assert model.judge(table) is model.evidence
        # In any order, and whatever types the columns have.
        assert model.judge(table.sample(frac=1, random_state=3)) is model.evidence
        other = table.assign(
            joined=table["joined"].dt.tz_localize("UTC"),
            visit=table["visit"].map({1: "Yes", 0: "No"}),
        )
        assert model.judge(other) is model.evidence


def test_new_rows_are_judged_by_the_model_itself(by_id, by_position, new):
    for model in (by_id, by_position):
        found = model.judge(new)
        ours = new[new["arm"] != "phone"]
        assert found["rows"]["n_rows"] == len(ours)
        y, treated = ours["visit"].to_numpy(), ours["arm"] == "mail"
        score = model.predict(ours)
        expected = auuc_inference(y, score, treatment=treated)
        assert found["auuc"]["estimate"] == pytest.approx(expected.estimate)
        certificate = certify(score, y=y, treatment=treated)
        assert found["certificate"]["lower_bound"] == certificate.lower_bound
        assert found["notes"] == [NEW_ROWS]
    assert len(by_id.judge(new, every_percent=True).expected.share) == 101


def test_part_of_the_rows_of_the_fit_is_judged_with_the_reminder(table, by_id):
    found = by_id.judge(table.iloc[1:])
    assert found is not by_id.evidence
    assert found["notes"][0] == NEW_ROWS


def test_no_few_people_are_between_two_numbers_of_new_rows(by_position, new):
    few = new[new["arm"] != "phone"].head(220)
    found = by_position.judge(few)
    n, share = found["rows"]["n_rows"], found.expected.share
    score, treated = by_position.predict(few), (few["arm"] == "mail").to_numpy()
    assert n == len(few)
    order = np.argsort(-score, kind="stable")
    assert 2 < len(share) < 101
    cuts = np.floor(share * n + 1e-9).astype(int)
    for start, end in pairwise(cuts):
        own = treated[order[start:end]]
        assert min(own.sum(), (~own).sum()) >= 20
    assert found["deciles"]["bin"] == list(range(1, len(share)))
    with pytest.raises(ValueError, match="at least 20 of each arm"):
        by_position.judge(few.head(30))
    assert by_position.judge(few.head(30), every_percent=True)["rows"]["n_rows"] == 30


def test_names_that_are_no_texts(table, by_id):
    assert by_id.judge(table.assign(**{"more": 1}).rename(columns={"more": 7})) is by_id.evidence
    with pytest.raises(ValueError, match="columns of different names, got '7' more than once"):
        by_id.judge(table.assign(a=1, b=2).rename(columns={"a": 7, "b": "7"}))


def test_a_table_without_outcomes_cannot_judge(table, by_id):
    with pytest.raises(ValueError, match="should have the column 'visit'"):
        by_id.judge(table.drop(columns="visit"))
    with pytest.raises(ValueError, match="should have the column 'person'"):
        by_id.judge(table.drop(columns="person"))
    with pytest.raises(ValueError, match="should hold 'mail' and 'none', got 'phone'"):
        by_id.judge(table[table["arm"] == "phone"])


def test_column_names_as_json(by_id):
    plain = by_id.columns.to_dict()
    assert ColumnNames.from_dict(plain) == by_id.columns
    for change in ({"features": []}, {"features": [1]}, {"outcome": None}, {"x": 1}):
        with pytest.raises(ValueError, match="should"):
            ColumnNames.from_dict(plain | change)


def test_repr(by_id):
    assert repr(by_id) == "TrialModel('tm', 5 columns, outcome 'visit', treatment 'arm')"


@pytest.mark.gate
def test_new_rows_with_a_chance_far_beyond_the_others_are_not_certified(table, new):
    model = fit_trial_model(table.assign(p=0.5), **NAMES, id="person", propensity="p", model="tm")
    sure = model.judge(new.assign(p=0.5))
    assert sure["certificate"] is not None
    assert CHANCES_BEYOND not in sure["notes"]
    rare = new.assign(p=np.where(np.arange(len(new)) == 3, 0.01, 0.5))
    refused = []
    for seed in range(4):  # in some order, that row is not among those that size bets
        found = model.judge(rare.sample(frac=1, random_state=seed))
        refused.append(found["certificate"] is None)
        assert refused[-1] == (CHANCES_BEYOND in found["notes"])
    assert any(refused)
