"""Which column plays which part, and the rows of the two arms."""

import hashlib

import numpy as np
import pandas as pd
import pytest
from tests.model.trial_table import NAMES, trial_table

from auucmax.data import read_table
from auucmax.encoding import TableEncoder
from auucmax.model.columns import name_columns
from auucmax.model.rows import check_trial_rows, id_texts, trial_rows


def test_rows_of_the_two_arms_in_their_order():
    table = trial_table(1_000).sample(frac=1, random_state=0)
    rows = trial_rows(table, name_columns(table, **NAMES, id="person"))
    kept = table["arm"].isin(["mail", "none"]).to_numpy()
    np.testing.assert_array_equal(rows.y, table["visit"].to_numpy()[kept])
    np.testing.assert_array_equal(rows.treated, (table["arm"] == "mail").to_numpy()[kept])
    np.testing.assert_array_equal(rows.positions, np.flatnonzero(kept))
    assert rows.left_out == {"phone": int((table["arm"] == "phone").sum())}


def test_chances_are_those_of_the_rows():
    table = trial_table(3_000).assign(chance=np.arange(1, 3_001) / 3_001)
    rows = trial_rows(table, name_columns(table, **NAMES, id="person", propensity="chance"))
    np.testing.assert_array_equal(rows.propensity, (rows.positions + 1) / 3_001)


@pytest.mark.parametrize("blank", ["", "  ", "\t"])
def test_blank_ids_are_missing_ids_and_no_repeats(blank):
    table = trial_table(1_000)
    table.loc[table.index[table["arm"] == "mail"][:7], "person"] = blank
    with pytest.raises(ValueError, match="in every row, got 7 blank texts"):
        trial_rows(table, name_columns(table, **NAMES, id="person"))
    table["person"] = table["person"].replace(blank, None)
    with pytest.raises(ValueError, match="the id 'person' should have no missing values, got 7"):
        trial_rows(table, name_columns(table, **NAMES, id="person"))


def test_groups_without_outcomes_are_counted_once():
    """Of 100 shops of 20, 12 are lost, 9 of them treated: chance does that to shops, not rows."""
    rng = np.random.default_rng(0)
    shop, drawn = np.repeat(np.arange(100), 20), np.arange(100) % 2
    table = pd.DataFrame({"shop": shop, "mail": drawn[shop], "x": rng.normal(size=2_000)})
    table["chance"] = np.where(shop < 2, 0.4, 0.5)
    table["visit"] = (rng.random(2_000) < 0.3).astype(float)
    gone = [*range(11, 29, 2), 30, 32, 34]
    table.loc[np.isin(shop, gone), "visit"] = np.nan
    named = {"treatment": "mail", "outcome": "visit", "groups": "shop", "propensity": "chance"}
    columns = name_columns(table, **named, drop_missing_outcomes=True)
    rows = trial_rows(table, columns)
    assert [own.sum() for own in rows.lost_first] == [3, 9]
    assert [len(own) for own in rows.lost_chances] == [60, 180]
    assert rows.lost == (60, 180)
    found = {test.name: test for test in check_trial_rows(rows, columns).tests}
    assert found["missing outcomes"].p_value > 0.05
    with pytest.raises(ValueError, match=r"60 of [\d,]+ control rows\. If they were lost"):
        trial_rows(table, name_columns(table, **named))


def test_people_without_outcomes_are_counted_where_groups_have_both_arms():
    rng = np.random.default_rng(0)
    n = 6_000
    mail, shop = rng.integers(2, size=n), rng.integers(60, size=n)
    table = pd.DataFrame({"shop": shop, "mail": mail, "x": rng.normal(size=n)})
    gone = rng.random(n) < (0.05 + 0.01 * mail) * rng.uniform(0, 2, 60)[shop]
    table["visit"] = np.where(gone, np.nan, rng.random(n) < 0.3)
    named = {"treatment": "mail", "outcome": "visit", "groups": "shop"}
    columns = name_columns(table, **named, drop_missing_outcomes=True)
    rows = trial_rows(table, columns)
    tests = {test.name: test for test in check_trial_rows(rows, columns).tests}
    found = tests["missing outcomes"]
    assert f"({gone[mail == 1].sum()} of {(mail == 1).sum():,} rows)" in found.detail
    assert 1e-4 < found.p_value < 0.5


@pytest.mark.gate
def test_lost_groups_of_very_different_sizes_are_no_attrition():
    """Scaled rows would stop a fifth of such trials."""
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
        columns = name_columns(table, **named, drop_missing_outcomes=True)
        rows = trial_rows(table, columns)
        found = {test.name: test for test in check_trial_rows(rows, columns).tests}
        low += found["missing outcomes"].p_value < 0.05
        assert found["missing outcomes"].detail.endswith(" groups)")
    assert low / n_trials <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n_trials)


def odd_rows():
    """Rows of a CSV file: missing texts, numbers and dates, codes, words, dates far away."""
    for k in range(400):
        town, until = ("Oslo", "Rome", "", "it's")[k % 4], ("9999-12-31", "", "0099-01-01")[k % 3]
        spent, vip = "" if k % 7 == 0 else f"{k * k % 997 / 8}", ("true", "", "False")[k % 5 % 3]
        yield f"p{k},{town},{spent},{vip},2024-01-{k % 31 + 1:02d},{until},{k % 6},0{k % 9}"


def test_what_is_learnt_from_is_the_same_with_every_pandas(tmp_path):
    """Before pandas 3, texts are objects, missing ones among them None, and moments end in 2262."""
    path = tmp_path / "odd.csv"
    path.write_text("\n".join(["id,town,spent,vip,joined,until,plan,shop", *odd_rows()]) + "\n")
    table = read_table(path)
    encoder = TableEncoder(min_level_rows=5).fit(table.drop(columns="id"))
    features = np.round(encoder.transform(table), 12)  # what a sine is differs by machine
    objects = table.astype(object).where(table.notna(), None)  # as of a database
    np.testing.assert_array_equal(np.round(encoder.transform(objects), 12), features)
    found = [" ".join(encoder.get_feature_names_out()).encode(), features.tobytes(),
             " ".join(id_texts(table["id"], "id")).encode()]  # fmt: skip
    assert [hashlib.sha256(part).hexdigest()[:12] for part in found] == [
        "95327f78d1b4", "868255e8a021", "4efe15a3699d"
    ]  # fmt: skip
