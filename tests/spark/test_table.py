"""A trial model of a DataFrame is that of the same rows in memory."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.model.arms_table import COSTS, arms_table, unequal_arms
from tests.model.arms_table import NAMES as ARMS
from tests.model.trial_table import NAMES, households, trial_table, two_strata
from tests.spark.cases import MARKS, Partitions, lost_executor, partitions

from auucmax import model as models
from auucmax import spark as on_spark
from auucmax.data import open_table, pieces
from auucmax.data.pieces import PiecedTable, sampled
from auucmax.data.table_errors import TableError
from auucmax.estimators import ensemble, logistic, targets
from auucmax.model import arm_fitting, by_name, crossfit, fitting
from auucmax.spark.table import open_frame

MAX_ROWS = 1_000  # fewer than any table here has: executors read, encode and score the rows


def frame_of(table, sizes):
    """A DataFrame without Spark, with as many rows of a table in each partition."""
    whole, ends = pa.Table.from_pandas(table, preserve_index=False), np.cumsum(sizes)
    assert ends[-1] == len(table)
    parts = [whole.slice(end - n, n) for end, n in zip(ends, sizes, strict=True)]
    return Partitions(parts, chunk=2_000)


@pytest.fixture
def few_tree_rows(monkeypatch):
    """Trees of fits in memory learn from as many rows as those of a DataFrame do."""
    for module in (fitting, arm_fitting):
        original = module.new_recipe
        monkeypatch.setattr(
            module, "new_recipe", lambda *args, of=original: replace(of(*args), max_rows=MAX_ROWS)
        )


@pytest.fixture
def two_folds(monkeypatch, few_tree_rows):
    """Folds as of more than a million rows, and no rivals, which take their time."""
    monkeypatch.setattr(crossfit, "MANY_ROWS", MAX_ROWS)
    monkeypatch.setattr(by_name, "RIVALS", dict.fromkeys(("auto", "shrunk", "auucmax"), ()))


def with_money(table, buyers=0.5):
    """The outcome as money, which some of those who respond spend."""
    rng = np.random.default_rng(0)
    spent = rng.lognormal(3, 1, len(table)).round(2) * (rng.random(len(table)) < buyers)
    return table.assign(visit=table["visit"] * spent)


def differences(one, other, path=""):
    """Where two structures of numbers and texts differ, numbers by more than 1e-6."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return [d for k in one for d in differences(one[k], other[k], f"{path}.{k}")]
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        both = enumerate(zip(one, other, strict=True))
        return [d for k, (a, b) in both for d in differences(a, b, f"{path}[{k}]")]
    same = one == other
    if isinstance(one, float) and isinstance(other, float):
        same = one == pytest.approx(other, rel=1e-6, abs=1e-6, nan_ok=True)
    return [] if same else [(path, one, other)]


def assert_same(found, expected, table):
    """Scores and all evidence, that of rivals among it."""
    np.testing.assert_allclose(found.predict(table), expected.predict(table), rtol=0, atol=1e-6)
    assert differences(found.evidence.facts, expected.evidence.facts) == []


def assert_same_arms(found, expected, table):
    np.testing.assert_allclose(found.uplift(table), expected.uplift(table), rtol=0, atol=1e-6)
    assert differences(found.policy, expected.policy) == []
    assert expected.policy["certificate"] is not None


def fitted(df, **named):
    return on_spark.fit_trial_model(df, **named, max_rows=MAX_ROWS)


@pytest.mark.gate
@pytest.mark.parametrize("model", ["auto", "shrunk"])
def test_models_and_evidence_are_those_in_memory(in_executors, few_tree_rows, model, tmp_path):
    table = trial_table(4_000)
    named = NAMES | {"model": model, "hold_out": 0.3, "id": "person"}
    found = fitted(frame_of(table, [1_500, 0, 2_400, 100]), **named)
    assert_same(found, models.fit_trial_model(table, **named), table)
    if model == "auto":
        assert found.summary["tree_rows"] == MAX_ROWS
        assert "Its trees learnt from 1,000 of 2," in str(found)
        models.save_model(found, tmp_path / "model")
        again = models.load_model(tmp_path / "model")
        np.testing.assert_array_equal(again.predict(table), found.predict(table))
        assert again.evidence.facts == found.evidence.facts


@pytest.mark.gate
def test_folds_and_certificate_are_those_in_memory(in_executors):
    """Without ids rows are known by their places: other partitions change nothing."""
    table = trial_table(7_000)
    named = NAMES | {"model": "auucmax", "ignore": ["person"]}
    expected = models.fit_trial_model(table, **named)
    assert expected.evidence["certificate"] is not None
    found = fitted(frame_of(table, [3, 0, 0, 6_600, 0, 397]), **named)
    assert_same(found, expected, table)


@pytest.mark.gate
def test_households(in_executors):
    table = households(1_500)
    named = NAMES | {"model": "auucmax", "groups": "home", "ignore": ["person"]}
    found = fitted(frame_of(table, [1_000, len(table) - 1_000]), **named)
    assert_same(found, models.fit_trial_model(table, **named), table)
    assert found.evidence["rows"]["groups"]


@pytest.mark.gate
def test_of_more_rows_than_samples_hold(in_executors, few_tree_rows, monkeypatch):
    """Hinges, amounts and ranks are learnt from the same rows as in memory."""
    monkeypatch.setattr(logistic, "_SAMPLE", 500)
    monkeypatch.setattr(pieces, "SAMPLE_ROWS", 700)
    for module in (targets, ensemble):
        monkeypatch.setattr(module, "SAMPLE", 300)
    table = with_money(trial_table(4_000))
    named = NAMES | {"hold_out": 0.3, "id": "person", "outcome_range": (0, 400)}
    found = fitted(frame_of(table, [1_500, 2_500]), **named)
    expected = models.fit_trial_model(table, **named)
    np.testing.assert_allclose(found.predict(table), expected.predict(table), rtol=0, atol=1e-6)
    for name in ("auuc", "rivals", "certificate"):
        assert differences(found.evidence[name], expected.evidence[name]) == []


@pytest.mark.gate
def test_any_number(in_executors, few_tree_rows):
    """And its rivals: least squares, and AUUC-max of levels."""
    table = trial_table(4_000)
    rng = np.random.default_rng(0)
    table["visit"] = rng.normal(50 + 20 * table["visit"], 10).round(3)
    named = NAMES | {"hold_out": 0.3, "id": "person", "outcome_range": (0, 100)}
    found = fitted(frame_of(table, [1_500, 2_500]), **named)
    assert_same(found, models.fit_trial_model(table, **named), table)
    assert len(found.evidence["rivals"]) == 3


@pytest.mark.gate
def test_money_that_is_mostly_0(in_executors, few_tree_rows):
    table = trial_table(4_000)
    spend = np.random.default_rng(0).lognormal(3, 1, len(table)).round(2)
    table["visit"] = table["visit"] * spend
    named = NAMES | {"hold_out": 0.3, "id": "person", "outcome_range": (0, 400)}
    found = fitted(frame_of(table, [1_500, 2_500]), **named)
    assert_same(found, models.fit_trial_model(table, **named), table)


@pytest.mark.gate
def test_several_arms_with_money_and_costs(in_executors, two_folds):
    table = with_money(arms_table(6_000), buyers=0.8)
    named = ARMS | {"id": "person", "model": "shrunk", "outcome_range": (0, 400)}
    named |= {"cost": COSTS, "budget": 0.5}
    found = fitted(frame_of(table, [4_000, 0, 2_000]), **named)
    assert_same_arms(found, models.fit_arms_model(table, **named), table)


@pytest.mark.gate
def test_two_logistic_regressions_are_those_of_a_table_in_pieces(in_executors, tmp_path):
    """And those that scikit-learn fits in memory."""
    table = trial_table(4_000)
    table.to_parquet(tmp_path / "rows.parquet")
    named = NAMES | {"model": "tm", "hold_out": 0.3, "id": "person"}
    found = fitted(frame_of(table, [1_500, 2_500]), **named)
    in_pieces = open_table(tmp_path / "rows.parquet", memory=1)
    assert_same(found, models.fit_trial_model(in_pieces, **named), table)
    memory = models.fit_trial_model(table, **named)
    assert_same(found, memory, table)


@pytest.mark.gate
def test_few_rows_come_to_the_driver(in_executors):
    """Then everything is as in memory: chances that differ, and all models, too."""
    table = trial_table(1_500).assign(chance=0.5)
    named = NAMES | {"model": "cvt", "propensity": "chance", "id": "person"}
    found = on_spark.fit_trial_model(frame_of(table, [1_000, 500]), **named)
    expected = models.fit_trial_model(table, **named)
    assert found.evidence.facts == expected.evidence.facts
    np.testing.assert_array_equal(found.predict(table), expected.predict(table))


def test_what_is_refused_of_many_rows(in_executors):
    table = trial_table(1_500).drop(columns="person")
    df = frame_of(table, [1_000, 500])
    with pytest.raises(ValueError, match=r"model should be one of .* allow more by max_rows=\."):
        fitted(df, **NAMES, model="cvt")
    with pytest.raises(ValueError, match="max_rows should be"):
        on_spark.fit_trial_model(df, **NAMES, max_rows=3)
    with pytest.raises(TableError, match="the DataFrame should have rows, got none"):
        fitted(frame_of(table[:0], [0]), **NAMES)


@pytest.mark.gate
def test_a_frame_that_gives_other_rows_is_noticed(in_executors):
    table = trial_table(4_000)
    named = NAMES | {"model": "auucmax", "hold_out": 0.3, "id": "person"}
    df = frame_of(table, [1_000, 3_000])
    readings = []

    class Changing(Partitions):
        def select(self, *columns):
            readings.append(columns)
            other = frame_of(table.iloc[::-1], [1_000, 3_000])
            return Partitions.select(other if len(readings) > 4 else self, *columns)

    df = Changing(df.tables, df.chunk)
    with pytest.raises(TableError, match=r"the same rows in the same order.* write the rows to"):
        fitted(df, **named)
    assert len(readings) > 4


def test_a_table_of_a_frame(in_executors):
    table = trial_table(3_000)
    opened = open_frame(frame_of(table, [0, 1_700, 0, 1_300, 0]), MAX_ROWS)
    assert isinstance(opened, PiecedTable)
    assert (opened.n_rows, opened.tree_rows) == (3_000, MAX_ROWS)
    found = list(opened.pieces(["age", "person"]))
    pd.testing.assert_frame_equal(pd.concat(found), table[["age", "person"]], check_dtype=False)
    assert list(opened.each(lambda piece, first: first, ["age"]))[-1] < 3_000
    drawn = opened.sample(300)
    assert 200 < len(drawn) < 400
    pd.testing.assert_series_equal(drawn["age"], table["age"][drawn.index])


OF_ROWS_AT_HAND = {"randomisation", "people", "drivers", "segments"}


def check_with_few_rows_at_hand(frame, table, monkeypatch):
    """Scores and all evidence are those of memory, but for what is told by the rows at hand."""
    table["town"] = table["town"].fillna("Bern")
    unseen = ~sampled(np.arange(len(table)), 400, len(table)) & (table["arm"] != "phone")
    table.loc[np.flatnonzero(unseen)[:3], "town"] = "Paris"
    rng = np.random.default_rng(0)
    place = rng.integers(0, 60, len(table))
    table["shop"] = [f"shop {k}" for k in place]  # of which outcomes tell
    table["visit"] = np.where(rng.random(len(table)) < (place % 4 == 0) * 0.5, 1, table["visit"])
    monkeypatch.setattr(pieces, "SAMPLE_ROWS", 400)
    named = NAMES | {"model": "shrunk", "hold_out": 0.3, "ignore": ["person"]}
    found = fitted(frame(table), **named)
    expected = models.fit_trial_model(table, **named)
    assert found.encoder.columns_ == expected.encoder.columns_
    assert {"shop: base"} < set(expected.encoder.get_feature_names_out())
    np.testing.assert_allclose(found.predict(table), expected.predict(table), rtol=0, atol=1e-6)
    one, other = ({**model.evidence.facts} for model in (found, expected))
    assert {name for name in one if differences(one[name], other[name])} == OF_ROWS_AT_HAND


@pytest.mark.gate
def test_an_encoder_learns_from_all_rows(in_executors, monkeypatch):
    def frame(table):
        return frame_of(table, [1_000, 0, 3_000])

    check_with_few_rows_at_hand(frame, trial_table(4_000), monkeypatch)


def with_marks(test):
    for mark in MARKS:
        test = mark(test)
    return test


def days(table):
    return table.assign(joined=table["joined"].dt.date)


@with_marks
def test_on_a_cluster_that_loses_an_executor(spark, monkeypatch, tmp_path):
    """One partition has nearly all rows, others none, and slow tasks are begun twice."""
    table = days(trial_table(4_000))
    named = NAMES | {"model": "auucmax", "hold_out": 0.3, "ignore": ["person"]}
    df = partitions(spark, table, [0, 3, 0, 3_600, 0, 0, 397, 0])
    with lost_executor(4, monkeypatch, tmp_path):
        found = fitted(df, **named)
    assert_same(found, models.fit_trial_model(table, **named), table)


@with_marks
def test_an_encoder_learns_from_all_rows_on_a_cluster(spark, monkeypatch):
    def frame(table):
        return partitions(spark, table, [0, 3, 3_600, 0, 397])

    check_with_few_rows_at_hand(frame, days(trial_table(4_000)), monkeypatch)


@with_marks
def test_auto_by_folds_on_a_cluster(spark, two_folds, monkeypatch, tmp_path):
    """Of groups, of money, and in the middle of it an executor is lost."""
    table = with_money(households(900), buyers=0.8)
    named = NAMES | {"groups": "home", "ignore": ["person"], "outcome_range": (0, 400)}
    df = partitions(spark, table, [1_100, len(table) - 1_100])
    with lost_executor(40, monkeypatch, tmp_path):
        found = fitted(df, **named)
    assert_same(found, models.fit_trial_model(table, **named), table)
    assert (found.summary["tree_rows"], found.recipe.n_folds) == (MAX_ROWS, 2)
    scored = on_spark.score(df, found).toPandas()
    np.testing.assert_allclose(scored["score"], found.predict(table), rtol=0, atol=1e-12)


@with_marks
def test_several_arms_with_costs_on_a_cluster(spark, two_folds):
    table = arms_table(4_000)
    named = ARMS | {"id": "person", "model": "auucmax", "cost": COSTS, "budget": 0.5}
    found = fitted(partitions(spark, table, [1_500, 0, 2_500]), **named)
    assert_same_arms(found, models.fit_arms_model(table, **named), table)


STRATA = {"treatment": "mail", "outcome": "visit", "propensity": "chance", "id": "person"}


@with_marks
@pytest.mark.parametrize("max_rows", [MAX_ROWS, 10 * MAX_ROWS])
def test_chances_that_differ_on_a_cluster(spark, two_folds, max_rows):
    """Executors weigh the rows, or all of them come to the driver."""
    table = two_strata(3_000)
    df = partitions(spark, table, [1_900, 0, 1_100])
    found = on_spark.fit_trial_model(df, **STRATA, max_rows=max_rows)
    assert_same(found, models.fit_trial_model(table, **STRATA), table)


@pytest.mark.gate
@pytest.mark.parametrize("model", ["auto", "auucmax", "tm"])
def test_chances_that_differ(in_executors, few_tree_rows, model):
    """By folds, with certificate and rivals, and without chances it is another model."""
    table = two_strata(6_000)
    named = STRATA | {"model": model}
    expected = models.fit_trial_model(table, **named)
    assert expected.evidence["certificate"] is not None
    found = fitted(frame_of(table, [1_000, 0, 4_900, 100]), **named)
    assert_same(found, expected, table)
    other = models.fit_trial_model(table, **(named | {"propensity": None}), despite_check=True)
    assert np.abs(other.predict(table) - expected.predict(table)).max() > 1e-4


@pytest.mark.gate
def test_chances_of_several_arms(in_executors, two_folds):
    table = unequal_arms(6_000)
    chances = {"mail": "chance mail", "phone": "chance phone"}
    named = ARMS | {"id": "person", "model": "shrunk", "propensity": chances}
    named |= {"cost": COSTS, "budget": 0.5}
    found = fitted(frame_of(table, [4_000, 2_000]), **named)
    assert_same_arms(found, models.fit_arms_model(table, **named), table)
