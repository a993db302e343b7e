"""One test for each kind of odd table that is read without being told how."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest

from auucmax import check_trial, read_trial
from auucmax.encoding import TableEncoder

N = 400
NAMED = {"treatment": "mail", "outcome": "visit"}


def clean() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "mail": rng.integers(0, 2, N),
            "visit": rng.integers(0, 2, N),
            "spent": np.round(rng.gamma(2, 50, N) + 0.01, 2),
            "joined": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, N), "D"),
        }
    )


def read(tmp_path, frame, **options):
    frame.to_csv(tmp_path / "rows.csv", index=False, **options)
    return read_trial(tmp_path / "rows.csv", **NAMED)


@pytest.mark.parametrize("sign", [";", "\t", "|"])
def test_other_separators(sign, tmp_path):
    assert read(tmp_path, clean(), sep=sign).X["spent"].tolist() == clean()["spent"].tolist()


def test_decimal_commas_and_currency(tmp_path):
    written = clean().assign(spent=clean()["spent"].map("€ {:.2f}".format).str.replace(".", ","))
    with pytest.warns(UserWarning, match="decimal commas"):
        trial = read(tmp_path, written, sep=";")
    assert trial.X["spent"].tolist() == clean()["spent"].tolist()


def test_dates_with_the_day_first(tmp_path):
    with pytest.warns(UserWarning, match="the day first"):
        trial = read(tmp_path, clean(), date_format="%d/%m/%Y")
    assert (trial.X["joined"] == clean()["joined"]).all()


@pytest.mark.parametrize("text", ["N/A", "NULL", "?", r"\N"])
@pytest.mark.filterwarnings("ignore:.*as missing values")
def test_texts_for_missing_values(text, tmp_path):
    gone = np.arange(N) % 10 == 0
    written = clean().assign(spent=clean()["spent"].astype(object).mask(gone, text))
    found = read(tmp_path, written).X["spent"]
    assert found.isna().tolist() == gone.tolist()
    assert found[~gone].tolist() == clean()["spent"][~gone].tolist()


def test_ids_are_not_features(tmp_path):
    with pytest.warns(UserWarning, match="unique in every row .* got 'person'"):
        trial = read(tmp_path, clean().assign(person=[f"p{k}" for k in range(N)]))
    assert "person" not in trial.X


def test_constant_columns_are_dropped(tmp_path):
    trial = read(tmp_path, clean().assign(country="NO"))
    with pytest.warns(UserWarning, match="'country' with one value"):
        encoder = TableEncoder().fit(trial.X)
    assert "country" in encoder.dropped_


def test_a_leak_stops_the_check(tmp_path):
    trial = read(tmp_path, clean().assign(order=clean()["visit"] * 30.0))
    assert check_trial(trial).failed


def test_codes_are_categories(tmp_path):
    trial = read(tmp_path, clean().assign(shop=np.arange(N) % 4 + 1))
    assert TableEncoder().fit(trial.X).code_columns == ["shop"]


def test_whole_decimals_of_an_arrow_file(tmp_path):
    long = pa.array([Decimal(10**30 + k) for k in range(N)], pa.decimal128(31, 0))
    table = pa.Table.from_pandas(clean()).append_column("long", long)
    pyarrow.feather.write_feather(table, tmp_path / "rows.feather")
    trial = read_trial(tmp_path / "rows.feather", **NAMED, features=["long", "spent"])
    assert trial.X["long"].tolist() == [str(10**30 + k) for k in range(N)]
