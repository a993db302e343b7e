"""Roles of columns: what is named, guessed and read back."""

import json

import pandas as pd
import pytest
from tests.model.trial_table import NAMES, trial_table

from auucmax.model.columns import ColumnNames, name_columns
from auucmax.model.columns import _arm_labels as arm_labels


def test_labels_of_arms():
    arms = pd.Series(["mail", "none", "mail", None])
    for given in (("mail", "none"), ("mail", None), (None, "none")):
        assert arm_labels(arms.dropna(), "arm", *given) == ("mail", "none")
    for zero_one in ([0, 1], [0.0, 1.0], ["0", "1"]):
        assert arm_labels(pd.Series(zero_one), "arm", None, None) == ("1", "0")
    assert arm_labels(pd.Series([True, False]), "arm", None, None) == ("true", "false")
    # The command line knows texts only.
    assert arm_labels(pd.Series([1.0, 2.0, 3.0]), "arm", "2", "1") == ("2", "1")
    assert arm_labels(pd.Series([1, 2]), "arm", 2, None) == ("2", "1")


def test_a_label_control_is_the_control_unless_another_is_named():
    for label in ("control", " Control "):
        two, three = [label, "a", label], [label, "a", "mail"]
        assert arm_labels(two, "arm", None, None) == ("a", label)
        assert arm_labels(two, "arm", None, "a") == (label, "a")
        assert arm_labels(two, "arm", label, None) == (label, "a")
        assert arm_labels(three, "arm", "mail", None) == ("mail", label)
        with pytest.raises(ValueError, match="the control alone takes all others for arms"):
            arm_labels(three, "arm", None, None)


@pytest.mark.parametrize("labels", [["Ja", "ja", "Nein"], ["no  mail", "No mail", "mail"]])
def test_labels_that_are_spelt_in_two_ways_are_no_arms(labels):
    with pytest.raises(ValueError, match="should differ in more than capitals and blanks, got"):
        arm_labels(pd.Series(labels), "sent", labels[0], labels[2])


def test_a_column_that_names_every_row_is_an_id_until_told_otherwise():
    table = trial_table(1_000).assign(number=lambda t: 10**6 - t.index)
    with pytest.warns(UserWarning, match=r"'person', 'number' should be features, got another val"):
        columns = name_columns(table, **NAMES)
    assert set(columns.features) == {"age", "town", "member", "joined", "spent"}
    chosen = name_columns(table, **NAMES, features=["number", "age"])  # told otherwise
    assert chosen.features == ("number", "age")
    few = name_columns(table.head(60), **NAMES)  # which may differ by chance
    assert {"number", "person"} <= set(few.features)


def test_columns_are_read_back():
    table = trial_table(1_000)
    named = name_columns(table, **NAMES, id="person", ignore=["age"], categorical=["town"])
    again = ColumnNames.from_dict(json.loads(json.dumps(named.to_dict())))
    assert again == named


@pytest.mark.parametrize(
    "change",
    [
        {"features": []},
        {"features": "town"},
        {"categorical": ["visit"]},
        {"id": 1},
        {"lower_is_better": 1},
        {"more": None},
    ],
)
def test_columns_that_no_fit_writes_are_refused(change):
    named = name_columns(trial_table(1_000), **NAMES, id="person")
    with pytest.raises(ValueError, match="should"):
        ColumnNames.from_dict(named.to_dict() | change)
