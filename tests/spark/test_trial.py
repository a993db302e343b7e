from datetime import date, timedelta

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from tests.model.arms_table import arms_table, fitted
from tests.spark.cases import MARKS, lost_executor, partitions

from auucmax import (
    AUUCMax,
    auuc_inference,
    make_trial,
    read_trial,
)
from auucmax import spark as on_spark
from auucmax.data import tables
from auucmax.data.tables import TableError
from auucmax.encoding import TableEncoder
from auucmax.rows import part_of
from auucmax.spark import trial as spark_trial

pytestmark = [pytest.mark.gate, *MARKS]
COLUMNS = {"treatment": "t", "outcome": "y"}
N_ROWS = 4000


@pytest.fixture(scope="module")
def trial():
    return make_trial(N_ROWS, n_features=5, random_state=0)


@pytest.fixture(scope="module")
def frame(trial):
    return trial.X.assign(y=trial.y, t=trial.treatment)


@pytest.fixture(scope="module")
def even(spark, frame):
    return partitions(spark, frame, [N_ROWS // 2] * 2)


@pytest.fixture(scope="module")
def model(trial):
    return AUUCMax(selection=None, norm=0.5).fit(trial.X, trial.y, treatment=trial.treatment)


def distance(one, other):
    return np.abs(one.coef_ - other.coef_).max() / np.abs(other.coef_).max()


@pytest.mark.parametrize("how", [{"selection": None, "norm": 0.5}, {"selection": "bound"}])
def test_fit_is_that_in_memory(even, trial, how):
    settings = AUUCMax(**how)
    found = on_spark.fit(even, **COLUMNS, model=settings)
    expected = AUUCMax(**how).fit(trial.X, trial.y, treatment=trial.treatment)
    assert not hasattr(settings, "coef_")
    assert distance(found, expected) < 1e-6
    assert found.intercept_ == pytest.approx(expected.intercept_, abs=1e-9)
    assert found.checksum_ == expected.checksum_
    assert np.allclose(found.predict(trial.X), expected.predict(trial.X), rtol=0, atol=1e-9)


def one_class_first(frame):
    treated_responders = (frame.t == 1) & (frame.y == 1)
    return pd.concat([frame[treated_responders], frame[~treated_responders]])


@pytest.mark.parametrize("case", ["skewed", "empty", "one class"])
def test_partitions_of_all_kinds(spark, frame, model, case):
    sizes = {"skewed": [1, N_ROWS - 8, 7], "empty": [0, N_ROWS // 2, 0, 0, N_ROWS // 2, 0]}
    rows = frame
    if case == "one class":
        rows = one_class_first(frame)
        n_first = int(((frame.t == 1) & (frame.y == 1)).sum())
        sizes[case] = [n_first, N_ROWS - n_first]
    df = partitions(spark, rows, sizes[case])
    found = on_spark.fit(df, **COLUMNS, model=AUUCMax(selection=None, norm=0.5))
    assert distance(found, model) < 1e-6


@pytest.mark.parametrize("search_rows", [10**6, 2500])
def test_a_fit_as_it_comes_takes_few_jobs(spark, even, trial, search_rows, monkeypatch):
    """Of many rows a part is searched, in the memory of the driver."""
    monkeypatch.setattr("auucmax.estimators.auucmax.SEARCH_ROWS", search_rows)
    monkeypatch.setattr("auucmax.estimators.auucmax.RARE_ROWS", 150)
    context = spark.sparkContext
    context.setJobGroup(f"fit {search_rows}", "")
    found = on_spark.fit(even, **COLUMNS, model=AUUCMax(random_state=0))
    context.setLocalProperty("spark.jobGroup.id", None)
    jobs = context.statusTracker().getJobIdsForGroup(f"fit {search_rows}")
    assert len(jobs) <= 25
    assert found.selection_path_["cv"].notna().all()
    assert (found.search_rows_ < N_ROWS) == (search_rows < N_ROWS)
    expected = AUUCMax(selection=None, norm=found.norm_)
    expected.fit(trial.X, trial.y, treatment=trial.treatment)
    assert distance(found, expected) < 1e-6


def test_a_lost_executor_changes_nothing(even, monkeypatch, tmp_path):
    monkeypatch.setattr("auucmax.estimators.auucmax.SEARCH_ROWS", 2500)
    monkeypatch.setattr("auucmax.estimators.auucmax.RARE_ROWS", 150)
    settings = AUUCMax(selection=None, norm=0.5, random_state=0)
    expected = on_spark.fit(even, **COLUMNS, model=settings)
    with lost_executor(3, monkeypatch, tmp_path):
        found = on_spark.fit(even, **COLUMNS, model=settings)
    assert np.array_equal(found.coef_, expected.coef_)
    assert found.checksum_ == expected.checksum_


def test_rows_in_another_order_are_noticed_where_it_matters(even, model):
    def in_any_order(batches):
        rng = np.random.default_rng()  # as rows may come after a shuffle
        for batch in batches:
            yield batch.take(rng.permutation(batch.num_rows))

    df = even.mapInArrow(in_any_order, even.schema)
    found = on_spark.fit(df, **COLUMNS, model=AUUCMax(selection=None, norm=0.5), cache=False)
    assert distance(found, model) < 1e-6
    halves = AUUCMax(selection="certificate", grid=[0.5], random_state=0)
    with pytest.raises(TableError, match=r"the same rows in the same order.* write the rows to"):
        on_spark.fit(df, **COLUMNS, model=halves, cache=False)
    assert on_spark.fit(df, **COLUMNS, model=halves).certificate_.n_rows > 0


def test_labels_of_the_arms(spark, frame, model):
    other = frame.iloc[:500].assign(t=2)
    named = pd.concat([frame, other])
    named["t"] = named["t"].map({0: "control", 1: "mail", 2: "phone"})
    df = spark.createDataFrame(named)
    arms = {"treated": "mail", "control": "control"}
    found = on_spark.fit(df, **COLUMNS, **arms, model=AUUCMax(selection=None, norm=0.5))
    assert distance(found, model) < 1e-6
    assert on_spark.evaluate(df, **COLUMNS, **arms, score=found).n_rows == N_ROWS


@pytest.fixture(scope="module")
def raw():
    rng = np.random.default_rng(1)
    n = 3001
    start, days = date(2024, 1, 1), rng.integers(0, 300, n)
    frame = pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.normal(40, 10, n)),
            "town": rng.choice(["Oslo", "Rome", "1", "1.0", "NA", None, "rare"], n, p=[
                0.3, 0.3, 0.1, 0.1, 0.1, 0.095, 0.005
            ]),
            "member": rng.random(n) < 0.4,
            "day": [start + timedelta(days=int(k)) for k in days],
            "at": pd.Timestamp("2024-01-01") + pd.to_timedelta(days * 997, unit="min"),
            "t": rng.choice(["no", "yes", "maybe"], n),
        }
    )  # fmt: skip
    lift = 0.3 * ((frame["t"] == "yes") & (frame["town"] == "Oslo"))
    return frame.assign(y=(rng.random(n) < 0.3 + lift).astype(int))


def test_raw_columns_are_encoded_as_in_memory(spark, raw):
    df = spark.createDataFrame(raw).repartition(3).cache()
    arms = {"treated": "yes", "control": "no"}
    settings = AUUCMax(selection=None, norm=1.0)
    found = on_spark.fit(df, **COLUMNS, **arms, model=settings, cache=True)
    df.unpersist()
    local = raw[raw["t"] != "maybe"]
    X = local.drop(columns=["t", "y"])
    encoder = TableEncoder().fit(X)
    treatment = (local["t"] == "yes").to_numpy()
    expected = settings.fit(encoder.transform(X), local["y"], treatment=treatment)
    assert found["encoder"].columns_ == encoder.columns_
    assert found["encoder"].terms_ == encoder.terms_
    assert distance(found["model"], expected) < 1e-6
    scores = expected.predict(encoder.transform(X))
    assert np.allclose(found.predict(X), scores, rtol=0, atol=1e-9)
    scored = on_spark.score(df, found).toPandas()
    assert np.allclose(scored["score"], found.predict(scored), rtol=0, atol=1e-12)


def test_many_levels_are_learnt_from_as_in_memory(spark, raw):
    rng = np.random.default_rng(0)
    place = rng.integers(0, 45, len(raw))
    y = np.where(rng.random(len(raw)) < 0.5 * (place % 3 == 0), 1, raw["y"])
    days = pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 900, len(raw)), "D")
    table = raw.assign(zip=[f"z{k}" for k in place], day=days, y=y)[["zip", "day", "age", "t", "y"]]
    df = spark.createDataFrame(table).coalesce(1).cache()  # rows of one partition have its places
    settings = AUUCMax(selection=None, norm=1.0)
    arms = {"treated": "yes", "control": "no"}
    settled = {"encoder": TableEncoder(min_level_rows=5), "model": settings}
    found = on_spark.fit(df, **COLUMNS, **arms, **settled)
    local = table[table["t"] != "maybe"]
    X, treatment = local[["zip", "day", "age"]], (local["t"] == "yes").to_numpy()
    encoder = TableEncoder(min_level_rows=5)
    outcome_terms = encoder.fit_transform(X, local["y"], treatment)
    assert {"base", "sine", "cosine"} <= {term.kind for term in encoder.terms_}
    assert found["encoder"].columns_ == encoder.columns_
    expected = clone(settings).fit(outcome_terms, local["y"], treatment=treatment)
    assert distance(found["model"], expected) < 1e-6
    # Its rows are told, though it learnt from other numbers than they have now.
    with pytest.raises(ValueError, match="the rows should be new to the model"):
        on_spark.certify(df, **COLUMNS, **arms, score=found)
    # Rows that are kept apart for a certificate tell nothing of levels.
    certified = AUUCMax(selection="certificate", grid=[0.2, 0.5], random_state=0)
    found = on_spark.fit(df, **COLUMNS, **arms, **(settled | {"model": certified}))
    assert not any(column.outcome_terms for column in found["encoder"].columns_)
    df.unpersist()


def test_scores_and_all_other_columns(even, frame, model):
    scored = on_spark.score(even, model, column="uplift")
    assert scored.columns == [*frame.columns, "uplift"]
    local = scored.toPandas()
    for name in frame.columns:
        assert np.array_equal(local[name], frame[name])
    assert np.array_equal(local["uplift"], model.predict(local.drop(columns=["uplift", "y", "t"])))
    again = on_spark.score(scored, model, column="uplift")
    assert again.columns == scored.columns


def test_evaluation_and_certificate_of_a_column_and_a_model(even, trial, model):
    score = model.predict(trial.X)
    exact = auuc_inference(trial.y, score, treatment=trial.treatment)
    for rows, what in ((even, model), (on_spark.score(even, model), "score")):
        found = on_spark.evaluate(rows, **COLUMNS, score=what)
        assert found.n_rows == N_ROWS
        assert abs(found.estimate - exact.estimate) <= found.bin_error + 1e-12
        assert found.standard_error == pytest.approx(exact.standard_error, rel=1e-3)
    coarse = on_spark.evaluate(even, **COLUMNS, score=model, n_bins=50, level=0.9)
    assert coarse.bin_error > 0
    assert abs(coarse.estimate - exact.estimate) <= coarse.bin_error
    scored = on_spark.score(even, model)
    certificate = on_spark.certify(scored, **COLUMNS, delta=0.1, n_candidates=3)
    assert certificate.delta == 0.1
    assert certificate.n_candidates == 3
    assert certificate.lower_bound < exact.estimate
    assert certificate.method == "betting-fixed"
    # One estimate stands beside certificate and interval.
    assert certificate.estimate == pytest.approx(exact.estimate, abs=1e-3)


def test_a_model_is_not_certified_on_its_own_rows(spark, even, model):
    with pytest.raises(ValueError, match="got the rows that it was fitted on"):
        on_spark.certify(even, **COLUMNS, score=model)
    new = make_trial(1000, n_features=5, random_state=1)
    df = spark.createDataFrame(new.X.assign(y=new.y, t=new.treatment))
    assert on_spark.certify(df, **COLUMNS, score=model).n_rows == 1000


def test_an_encoder_is_fitted_on_a_sample_of_many_rows(spark, raw, monkeypatch):
    monkeypatch.setattr(spark_trial, "ENCODER_ROWS", 1_000)
    two = raw[raw["t"] != "maybe"].reset_index(drop=True)
    two.loc[0, "town"] = "nowhere else"
    df = spark.createDataFrame(two)
    found = on_spark.fit(
        df, **COLUMNS, treated="yes", control="no", model=AUUCMax(selection=None, norm=1.0)
    )
    whole = TableEncoder().fit(two.drop(columns=["t", "y"]))
    assert found["encoder"].terms_ != whole.terms_
    names = {term.column for term in found["encoder"].terms_}
    assert names == {term.column for term in whole.terms_}
    assert found["encoder"].columns_[0].fill == pytest.approx(two["age"].median(), rel=0.05)
    assert np.isfinite(found.predict(two)).all()


def test_a_trial_in_memory_is_the_rows_or_a_sample_of_them(spark, monkeypatch):
    frame = arms_table(3_000).assign(house=lambda f: np.arange(len(f)) // 2)
    df = spark.createDataFrame(frame).repartition(3)
    arms = {"treatment": "arm", "outcome": "visit", "control": "none"}
    roles = {**arms, "id": "person", "groups": "house"}
    whole = on_spark.read_trial(df, **roles)
    assert sorted(whole.id) == sorted(read_trial(frame, **roles).id)
    found = on_spark.read_trial(df, **roles, max_rows=1_000)
    assert 800 < found.n_rows < 1_200
    assert set(np.unique(found.groups, return_counts=True)[1]) == {2}
    monkeypatch.setattr(tables, "_ALWAYS", 0)
    monkeypatch.setattr(tables, "free_memory", lambda: 100_000.0)
    with pytest.warns(UserWarning, match="DataFrame has 3,000 rows: a random sample of about"):
        assert on_spark.read_trial(df, **roles).n_rows < 2_000
    some = on_spark.read_trial(df.drop("person"), **arms, max_rows=1_000)
    assert 800 < some.n_rows < 1_200


@pytest.fixture(scope="module")
def three_arms(frame):
    """The rows of the frame, and between them some of a third arm."""
    whole = pd.concat([frame, frame.iloc[:500].assign(t=2)]).sample(frac=1, random_state=0)
    return whole.assign(t=whole["t"].map({0: "none", 1: "mail", 2: "phone"}))


def test_certified_selection_of_two_arms_among_three(spark, three_arms, tmp_path):
    from pyspark.sql import functions

    for name, some in (("one", slice(0, 3000)), ("two", slice(3000, None))):
        three_arms[some].to_parquet(tmp_path / f"{name}.parquet", index=False)
    df = spark.read.parquet(str(tmp_path))  # rows of a shuffle would change their order
    arms = {"treated": "mail", "control": "none"}
    rows = df.withColumn("part", functions.spark_partition_id()).toPandas()
    parts, rows = rows["part"].to_numpy(), rows.drop(columns="part")
    assert parts.max() == 1
    settings = AUUCMax(selection="certificate", grid=[0.2, 0.5], random_state=0)
    found, again = (
        on_spark.fit(df, **COLUMNS, **arms, model=settings, cache=cache) for cache in (True, False)
    )
    assert distance(again, found) < 1e-12
    assert again.certificate_ == found.certificate_
    assert again.checksum_ == found.checksum_
    assert not df.storageLevel.useMemory
    # The rows of the two arms are counted in each partition, and a hash of that keeps them apart.
    other = (rows["t"] == "phone").to_numpy()
    keys = [
        np.uint64(part << 40) + np.arange((~other[parts == part]).sum(), dtype=np.uint64)
        for part in (0, 1)
    ]
    seed = int(np.random.default_rng(0).integers(2**62))
    apart = np.zeros(len(other), dtype=bool)
    apart[~other] = part_of(np.concatenate(keys), 2, seed) == 1
    assert found.checksum_.n_rows == N_ROWS
    assert apart.sum() == found.certificate_.n_rows
    outcome_terms = rows[~other & ~apart]
    expected = AUUCMax(selection=None, norm=found.norm_, control="none")
    expected.fit(
        outcome_terms.drop(columns=["y", "t"]), outcome_terms["y"], treatment=outcome_terms["t"]
    )
    assert distance(found, expected) < 1e-6

    kept = spark.createDataFrame(rows[apart | other])
    certificate = on_spark.certify(kept, **COLUMNS, **arms, score=found)
    assert certificate.n_rows == apart.sum()
    assert certificate.n_candidates == len(found.selection_path_) == 2
    with pytest.raises(ValueError, match="rows should be new to the model"):
        on_spark.certify(df, **COLUMNS, **arms, score=found)


def test_scores_and_uplifts_of_several_arms(spark):
    model = fitted(arms_table(1_000))
    people = arms_table(300, random_state=8)
    found = on_spark.score(spark.createDataFrame(people).repartition(3), model).toPandas()
    assert list(found)[-4:] == ["score mail", "uplift mail", "score phone", "uplift phone"]
    found = found.set_index("person").loc[people["person"]].iloc[:, -4:]
    np.testing.assert_allclose(found, model.scored(people), rtol=0, atol=1e-12)


# Spark's type of the arms; control, treated, and a third arm; labels that name the first two.
def fit_encoder(rows, encoder):
    return spark_trial.fit_encoder(rows, encoder, with_outcomes=False)
