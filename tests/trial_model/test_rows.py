"""Which column plays which part, and the rows of the two arms."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.trial_model.trial_table import NAMES, trial_table

from auucmax.data import open_table
from auucmax.trial_model.rows import ColumnNames, joined, name_columns, trial_pieces, trial_rows
from auucmax.trial_model.rows import _arm_labels as arm_labels


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


def test_rows_of_the_two_arms_in_their_order():
    table = trial_table(1_000).sample(frac=1, random_state=0)
    rows = trial_rows(table, name_columns(table, **NAMES, id="person"))
    kept = table["arm"].isin(["mail", "none"]).to_numpy()
    np.testing.assert_array_equal(rows.y, table["visit"].to_numpy()[kept])
    np.testing.assert_array_equal(rows.treated, (table["arm"] == "mail").to_numpy()[kept])
    np.testing.assert_array_equal(rows.positions, np.flatnonzero(kept))
    assert rows.left_out == {"phone": int((table["arm"] == "phone").sum())}


def test_pieces_join_to_the_rows_of_the_table(tmp_path):
    """A table that is read in pieces has the same rows and keys."""
    table = trial_table(3_000).assign(chance=np.arange(1, 3_001) / 3_001)
    table.to_parquet(tmp_path / "trial.parquet", row_group_size=500)
    pieces = open_table(tmp_path / "trial.parquet", memory=1)
    columns = name_columns(table, **NAMES, id="person", propensity="chance")
    whole = trial_rows(table, columns)
    found = list(trial_pieces(pieces, columns))
    together = joined(found)
    np.testing.assert_array_equal(together.y, whole.y)
    np.testing.assert_array_equal(together.treated, whole.treated)
    np.testing.assert_array_equal(together.positions, whole.positions)
    np.testing.assert_array_equal(together.propensity, whole.propensity)
    np.testing.assert_array_equal(whole.propensity, (whole.positions + 1) / 3_001)
    np.testing.assert_array_equal(together.keys("ab" * 8), whole.keys("ab" * 8))
