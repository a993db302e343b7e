"""Every call that takes a table gives the same from a frame of every library."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.frame_kinds import KINDS, as_kind

from auucmax.campaign import Monitor, assign, verify, verify_arms
from auucmax.data import Trial, check_randomisation, make_trial, read_table
from auucmax.data.table_errors import NoRowsError, TableError
from auucmax.model import (
    fit_arms_model,
    fit_trial_model,
    target,
    target_arms,
    with_rivals,
)
from auucmax.present import summarise

OTHERS = tuple(kind for kind in KINDS if kind != "numpy")
NAMED = {"treatment": "mail", "outcome": "visit", "id": "customer"}


def rows_of(n=1500, seed=0):
    """Customers of a trial, with columns of many types, some of them with missing values."""
    rng = np.random.default_rng(seed)
    trial = make_trial(n, random_state=seed)
    holes = rng.random(n) < 0.1
    town = np.array(["Oslo", "Rome", "Bonn"])[rng.integers(0, 3, n)]
    joined = np.datetime64("2024-01-01", "s") + rng.integers(0, 10**7, n).astype("m8[s]")
    return pa.table({
        "customer": pa.array(rng.permutation(n) + 1000, pa.int32()),
        "mail": pa.array(np.where(trial.treatment == 1, "yes", "no")).dictionary_encode(),
        "visit": pa.array(trial.y.astype(int), pa.int16()),
        **{name: pa.array(trial.X[name].to_numpy()) for name in trial.X.columns[:2]},
        "town": pa.array(town, pa.string(), mask=holes),
        "plan": pa.array(rng.integers(1, 5, n), pa.int64(), mask=holes[::-1]),
        "active": pa.array(rng.random(n) < 0.5, pa.bool_(), mask=holes),
        "spent": pa.array(np.round(rng.gamma(2, 20, n), 2)).cast(pa.decimal128(10, 2)),
        "joined": pa.array(joined),
        "born": pa.array(joined.astype("M8[D]") - 9000, pa.date32()),
        "note": pa.array([f"free text {k}" for k in range(n)], pa.large_string()),
    })  # fmt: skip


@pytest.fixture(scope="module")
def fitted():
    """Models of each kind of frame."""
    found = {}
    for kind in KINDS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a column that names rows
            table = as_kind(rows_of(), kind)
            found[kind] = fit_trial_model(table, **NAMED, model="tm", random_state=0)
    return found


@pytest.mark.gate
@pytest.mark.parametrize("kind", OTHERS)
def test_the_model_is_the_same_bit_for_bit(fitted, kind):
    own, other, table = fitted["numpy"], fitted[kind], rows_of(400, seed=1)
    assert other.columns == own.columns
    assert other.encoder.terms_ == own.encoder.terms_
    assert other.evidence.facts == own.evidence.facts
    assert own.is_own(as_kind(rows_of(), kind))
    frame = as_kind(table, kind)
    assert other.predict(frame).tobytes() == own.predict(table.to_pandas()).tobytes()
    assert other.uplift(frame).tobytes() == own.uplift(table.to_pandas()).tobytes()


@pytest.mark.gate
@pytest.mark.parametrize("kind", OTHERS)
def test_evidence_and_lists_are_the_same(fitted, kind):
    model, table = fitted["numpy"], rows_of(400, seed=1)
    pandas, frame = table.to_pandas(), as_kind(table, kind)
    assert model.judge(as_kind(rows_of(), kind)) is model.evidence
    new = table.set_column(0, "customer", pa.array(np.arange(400) + 10**6, pa.int32()))
    assert model.judge(as_kind(new, kind)).facts == model.judge(new.to_pandas()).facts
    options = {"share": 0.3, "reasons": True, "exclude": pandas["customer"][:5].tolist()}
    expected, found = target(model, pandas, **options), target(model, frame, **options)
    assert found.to_dict() == expected.to_dict()
    in_library = {"polars": pl.DataFrame, "pyarrow": pa.Table, "duckdb": pa.Table}
    library = in_library.get(kind.split()[0], pd.DataFrame)
    assert isinstance(found.people, library)
    assert isinstance(found.chosen(), library)
    people = found.people if library is pd.DataFrame else pd.DataFrame(_lists(found.people))
    pd.testing.assert_frame_equal(people, expected.people, check_dtype=False)
    own = target(model, as_kind(rows_of(), kind), share=0.3)
    assert own.is_own
    verified = {**NAMED, "people": found.people, "control": "no", "treated": "yes"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = [verify(own, **(verified | {"people": list_})).to_dict()
                for own, list_ in ((frame, found.people), (pandas, expected.people))]  # fmt: skip
    assert told[0] == told[1]


def _lists(frame):
    return frame.to_dict(as_series=False) if isinstance(frame, pl.DataFrame) else frame.to_pydict()


@pytest.mark.gate
@pytest.mark.parametrize("kind", ["polars lazy", "duckdb"])
def test_rivals_and_several_arms(fitted, kind):
    model = fitted["numpy"]
    expected = with_rivals(model, rows_of().to_pandas(), ["cvt"])["rivals"]
    assert with_rivals(model, as_kind(rows_of(), kind), ["cvt"])["rivals"] == expected
    rng = np.random.default_rng(0)
    arms = np.array(["no", "mail", "call"])[rng.integers(0, 3, 1500)]
    visit = pa.array((rng.random(1500) < 0.2 + 0.2 * (arms != "no")).astype(int))
    table = rows_of().drop_columns(["mail", "note", "visit"]).append_column("arm", pa.array(arms))
    table = table.append_column("visit", visit)
    found = []
    later = table.drop_columns(["arm"])  # who got what is in the list
    for own, rows in ((as_kind(table, k), as_kind(later, k)) for k in ("numpy", kind)):
        several = fit_arms_model(
            own, treatment="arm", outcome="visit", control="no", model="tm", id="customer"
        )
        chosen = target_arms(several, own, share=0.2)
        listed = assign(own, id="customer", key="k", model=several, share=0.3, check=False)
        told = verify_arms(rows, people=listed.people, model=several, treatment="arm", level=0.9)
        found.append((several.uplift(own).tobytes(), several.judge(own).facts, chosen.to_dict(),
                      several.policy, len(chosen.chosen()), told.to_dict()))  # fmt: skip
    assert found[0] == found[1]


@pytest.mark.quick_cases("duckdb", "polars", "pyarrow")
@pytest.mark.parametrize("kind", OTHERS)
def test_people_are_assigned_alike(kind):
    table = rows_of(300).select(["customer", "town", "joined", "plan"])
    options = {"id": "customer", "key": "k", "arms": "no=.5,mail=.5", "strata": ["town"]}
    expected, found = (assign(own, **options) for own in (table.to_pandas(), as_kind(table, kind)))
    assert found.to_dict() == expected.to_dict()
    assert str(found) == str(expected)
    more = assign(as_kind(table, kind), **options, before=found.people)
    assert (len(more.people), more.n_before) == (0, 300)
    if kind.startswith("polars"):
        assert found.people.schema["customer"] == pl.Int32
        assert found.people["arm"].to_list() == expected.people["arm"].tolist()


@pytest.mark.gate
@pytest.mark.parametrize("kind", OTHERS)
def test_checks_read_tables_and_looks_are_the_same(kind):
    table = rows_of(600)
    pandas, frame = table.to_pandas(), as_kind(table, kind)
    names = ["town", "plan", "active", "spent", "joined"]
    reports, shown = [], []
    for own in (pandas, as_kind(table.select(names), kind)):
        X = own[names] if isinstance(own, pd.DataFrame) else own
        trial = Trial(X, pandas["visit"], pandas["mail"], control="no")
        reports.append(check_randomisation(trial).to_dict())
        score = np.arange(600) % 97
        arm = (pandas["mail"] == "yes").to_numpy()
        shown.append(summarise(pandas["visit"], score, treatment=arm, features=X)["drivers"])
    assert reports[0] == reports[1]
    assert shown[0] == shown[1]
    read = read_table(frame, columns=["town", "customer"])
    assert isinstance(read, pd.DataFrame)
    assert read["customer"].tolist() == pandas["customer"].tolist()
    assert list(read.columns) == ["town", "customer"]
    assert list(read_table(frame).columns) == table.column_names
    looks = []
    for own in (pandas, frame):
        monitor = Monitor.of(
            own, **NAMED, date="joined", score_column="spent", treated="yes", control="no"
        )
        monitor.key = b"0" * 16
        looks.append(monitor.look(own, as_of="2025-01-01").to_dict())
    assert looks[0] == looks[1]


def test_frames_that_cannot_be_read_are_told():
    frame = pl.DataFrame({"a": [1]})
    with pytest.raises(TableError, match=r"query should come with a database, got one with a fr"):
        read_table(frame, query="t")
    with pytest.raises(TableError, match=r"decimal should come with a CSV file, got it with a fr"):
        read_table(frame, decimal=",")
    with pytest.raises(NoRowsError, match=r"the table should have rows"):
        read_table(frame[:0])
    with pytest.raises(ValueError, match=r"the table should be a frame with named columns, got l"):
        fit_trial_model([[1, 2]], treatment="t", outcome="y")
    with pytest.raises(ValueError, match=r"should have the columns? 'treat'"):
        fit_trial_model(frame, treatment="treat", outcome="a")
