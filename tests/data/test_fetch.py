"""Data sets are found on disk or downloaded once, and are those that were published."""

from __future__ import annotations

import functools
import gzip
import http.server
import os
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pooch
import pytest

from auucmax.data import fetch
from auucmax.data.fetch import (
    DataNotFoundError,
    _table,
    fetch_criteo,
    fetch_ihdp,
    fetch_jobs,
    fetch_social_pressure,
    load_hillstrom,
)

DATA = os.environ.get("AUUCMAX_DATA")
CUT_ARCHIVE = gzip.compress(bytes(9999), mtime=0)[:-9]  # no clock: part of a name of a test


def needs(*parts):
    """Skip unless the data directory has this file."""
    found = DATA is not None and Path(DATA, *parts).is_file()
    return pytest.mark.skipif(not found, reason=f"AUUCMAX_DATA has no {'/'.join(parts)}")


@pytest.fixture
def empty_world(tmp_path, monkeypatch):
    """No data directory, and a cache of our own."""
    monkeypatch.delenv("AUUCMAX_DATA", raising=False)
    cache = tmp_path / "cache"
    monkeypatch.setattr(fetch, "user_cache_dir", lambda *args, **more: str(cache))
    monkeypatch.setattr("pooch.core.time.sleep", lambda seconds: None)
    return cache


@pytest.fixture
def shelf(tmp_path):
    """A folder behind a local web server."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    handler = functools.partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


def write_ihdp(path, rows=8, seed=0):
    rng = np.random.default_rng(seed)
    table = np.column_stack([np.arange(rows) % 2, rng.normal(size=(rows, 29))])
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savetxt(path, table, delimiter=",", fmt="%.6g")


def write_criteo(path, rows=6):
    table = pd.DataFrame(np.arange(rows * 12).reshape(rows, 12) / 7, columns=fetch.CRITEO_FEATURES)
    table["treatment"] = np.arange(rows) % 2
    table["conversion"] = 0
    table["visit"] = (np.arange(rows) % 3 == 0).astype(int)
    table["exposure"] = 0
    table.to_csv(path, index=False)
    return table


# Where files are looked for, and where they go.


def test_the_argument_comes_before_the_environment_and_the_cache(
    empty_world, tmp_path, monkeypatch
):
    homes = [tmp_path / "argument", tmp_path / "environment", empty_world]
    for number, home in enumerate(homes):
        write_ihdp(home / "ihdp" / "ihdp_npci_1.csv", rows=4 + 2 * number)
    monkeypatch.setenv("AUUCMAX_DATA", str(homes[1]))
    assert fetch_ihdp(data_dir=homes[0], download=False).n_rows == 4
    assert fetch_ihdp(download=False).n_rows == 6
    monkeypatch.delenv("AUUCMAX_DATA")
    assert fetch_ihdp(download=False).n_rows == 8
    assert fetch_ihdp(data_dir=str(tmp_path / "nowhere"), download=False).n_rows == 8
    write_ihdp(tmp_path / "flat" / "ihdp_npci_1.csv", rows=10)
    assert fetch_ihdp(data_dir=tmp_path / "flat", download=False).n_rows == 10


@pytest.mark.parametrize("way", ["argument", "environment", "cache"])
def test_a_download_goes_to_the_first_folder_given(empty_world, shelf, tmp_path, monkeypatch, way):
    folder, url = shelf
    write_ihdp(folder / "ihdp_npci_3.csv")
    monkeypatch.setitem(fetch.ADDRESSES, "ihdp", f"{url}/{{}}")
    monkeypatch.delitem(fetch.CHECKSUMS, "ihdp_npci_3.csv")
    if way == "environment":
        monkeypatch.setenv("AUUCMAX_DATA", str(tmp_path / way))
    home = empty_world if way == "cache" else tmp_path / way
    argument = home if way == "argument" else None
    trial = fetch_ihdp(3, data_dir=argument)
    path = home / "ihdp" / "ihdp_npci_3.csv"
    assert path.read_bytes() == (folder / "ihdp_npci_3.csv").read_bytes()
    assert [p.name for p in path.parent.iterdir()] == ["ihdp_npci_3.csv"]
    (folder / "ihdp_npci_3.csv").unlink()
    np.testing.assert_array_equal(fetch_ihdp(3, data_dir=argument).y, trial.y)


def test_a_wrong_file_at_the_address_is_not_kept(empty_world, shelf, monkeypatch):
    folder, url = shelf
    (folder / "wrong.csv.gz").write_bytes(gzip.compress(b"not the file"))
    monkeypatch.setitem(fetch.ADDRESSES, "criteo", f"{url}/wrong.csv.gz")
    with pytest.raises(ValueError, match="not match the known hash: expected 2716e1bf"):
        fetch_criteo()
    assert not any(path.is_file() for path in empty_world.rglob("*"))


def test_nothing_is_made_or_asked_when_downloading_is_off(empty_world, tmp_path):
    for call in (fetch_criteo, fetch_jobs, fetch_social_pressure, fetch_ihdp):
        with pytest.raises(DataNotFoundError, match="was not to be downloaded"):
            call(data_dir=tmp_path / "mine", download=False)
    assert list(tmp_path.iterdir()) == []


# What the files should contain.


@pytest.mark.parametrize(
    ("name", "content", "call"),
    [
        ("ihdp_npci_1.csv", b"<html>moved</html>", fetch_ihdp),
        ("ihdp_npci_1.csv", b"1,2,3\n4,5,6\n", fetch_ihdp),
        ("criteo-research-uplift-v2.1.csv.gz", b"no gzip", fetch_criteo),
        ("criteo-research-uplift-v2.1.csv", b"f0,f1\n1,2\n", fetch_criteo),
        ("criteo-research-uplift-v2.1.csv.gz", CUT_ARCHIVE, fetch_criteo),
        ("jobs_DW_bin.train.npz", b"no archive", fetch_jobs),
        ("social_pressure.csv", b"sex,yob\nmale,1950\n", fetch_social_pressure),
    ],
)
def test_a_file_of_another_shape_is_named(empty_world, tmp_path, name, content, call):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=rf"{name} should have .*Delete the file") as caught:
        call(data_dir=tmp_path, download=False)
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("compressed", [True, False])
def test_criteo_reads_the_full_file_packed_or_not(empty_world, tmp_path, compressed):
    path = tmp_path / f"criteo-research-uplift-v2.1.csv{'.gz' if compressed else ''}"
    table = write_criteo(path)
    trial = fetch_criteo("visit", data_dir=tmp_path, download=False)
    assert list(trial.X.columns) == fetch.CRITEO_FEATURES
    assert trial.X.dtypes.eq(np.float32).all()
    np.testing.assert_allclose(trial.X, table[fetch.CRITEO_FEATURES], rtol=1e-6)
    assert trial.y.tolist() == table["visit"].tolist()
    assert trial.treatment.tolist() == table["treatment"].tolist()


LABELLED = pd.DataFrame(
    {
        "sex": ["male", "female", "female", "male", "male"],
        "yob": [1941, 1947, 1951, 1950, 1982],
        "g2000": ["yes", "yes", "no", "yes", "no"],
        "g2002": ["yes", "no", "yes", "yes", "no"],
        "g2004": ["yes"] * 5,
        "p2000": ["no", "no", "yes", "no", "no"],
        "p2002": ["yes", "yes", "no", "no", "no"],
        "p2004": ["No", "No", "Yes", "No", "Yes"],
        "treatment": [" Civic Duty", " Hawthorne", " Control", " Self", " Neighbors"],
        "voted": ["No", "Yes", "No", "Yes", "Yes"],
        "hh_size": [2, 2, 3, 1, 1],
    }
)


def test_social_pressure_reads_labels_and_codes_alike(empty_world, tmp_path):
    codes = {"yes": 1, "no": 0, "Yes": 1, "No": 0, "male": 0, "female": 1}
    codes |= {" Control": 0, " Hawthorne": 1, " Civic Duty": 2, " Neighbors": 3, " Self": 4}
    coded = LABELLED.map(lambda value: codes.get(value, value))
    coded.insert(9, "cluster", 1)
    coded["hh_id"] = [5, 5, 6, 7, 7]
    forms = {
        "social_pressure.csv.gz": (LABELLED, ","),
        "GerberGreenLarimer_APSR_2008_social_pressure.csv": (LABELLED.assign(hh_id=1), ","),
        "GerberGreenLarimer_APSR_2008_social_pressure.tab": (coded, "\t"),
    }
    trials = []
    for number, (name, (table, separator)) in enumerate(forms.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        table.to_csv(folder / name, sep=separator, index=False)
        trials.append(fetch_social_pressure("all", data_dir=folder, download=False))
    for trial in trials:
        assert list(trial.X.columns) == [
            *("sex", "yob", "g2000", "g2002", "p2000", "p2002", "p2004", "hh_size")
        ]
        assert trial.X.iloc[1].tolist() == [1, 1947, 1, 0, 0, 1, 0, 2]
        assert trial.y.tolist() == [0, 1, 0, 1, 1]
        labels = ["Civic Duty", "Hawthorne", "Control", "Self", "Neighbors"]
        assert trial.treatment.tolist() == labels
    assert trials[0].id is None
    assert trials[2].id.tolist() == [5, 5, 6, 7, 7]


# The real files.


@pytest.mark.gate
@needs("social_pressure", "social_pressure.csv.gz")
def test_social_pressure_as_published():
    trial = fetch_social_pressure("all", download=False)
    turnout = {a.name: round(100 * a.mean, 2) for a in trial.summary().arms}
    assert turnout == {
        **{"Control": 29.66, "Civic Duty": 31.45, "Hawthorne": 32.24},
        **{"Self": 34.52, "Neighbors": 37.79},
    }
    assert trial.n_rows == 344_084
    assert trial.X.notna().all(axis=None)
    pair = fetch_social_pressure(download=False)
    assert pair.n_rows == 229_444
    assert pair.arm_names == ("Control", "Neighbors")
    assert round(pair.summary().effects[0].effect, 4) == 0.0813
    civic = fetch_social_pressure("civic", download=False)
    assert civic.arm_names == ("Control", "Civic Duty")


@needs("ihdp", "ihdp_npci_1.csv")
@needs("jobs", "jobs_DW_bin.new.10.test.npz")
def test_the_files_on_disk_have_the_sums_that_a_download_needs():
    for name, checksum in fetch.CHECKSUMS.items():
        path = Path(DATA, name.partition("_")[0], name)
        if path.parent.name in ("ihdp", "jobs"):
            assert checksum == pooch.file_hash(str(path)), path


@needs("ihdp", "ihdp_npci_10.csv")
@pytest.mark.parametrize("replication", [1, 10])
def test_ihdp(replication):
    trial = fetch_ihdp(replication, download=False)
    assert (trial.n_rows, trial.n_features, trial.treated.sum()) == (747, 25, 139)
    assert list(trial.X.columns)[::24] == ["x1", "x25"]
    table = np.loadtxt(Path(DATA, "ihdp", f"ihdp_npci_{replication}.csv"), delimiter=",")
    np.testing.assert_allclose(trial.effect, table[:, 4] - table[:, 3])
    np.testing.assert_allclose(trial.y, table[:, 1])


def test_the_published_facts_of_the_default():
    trial = load_hillstrom()
    y, treated = trial.y, trial.treated
    assert (trial.n_rows, trial.n_features) == (42_693, 22)
    assert (treated.sum(), (~treated).sum()) == (21_387, 21_306)
    assert (y[treated].sum(), (1 - y[treated]).sum()) == (3_238, 18_149)
    assert (y[~treated].sum(), (1 - y[~treated]).sum()) == (2_262, 19_044)
    p_t, p_c = y[treated].mean(), y[~treated].mean()
    facts = [p_t, p_c, p_t * (1 - p_t), p_c * (1 - p_c), p_t - p_t**2 / 2 - p_c**2 / 2, p_t - p_c]
    published = [0.151400, 0.106167, 0.128478, 0.094896, 0.134304, 0.045233]
    assert np.round(facts, 6).tolist() == published
    assert round(treated.mean(), 5) == 0.50095
    assert round(y.mean(), 5) == 0.12883
    assert trial.summary().effects[0].effect == pytest.approx(p_t - p_c)


def test_the_raw_columns_and_the_codes_agree():
    raw = load_hillstrom("all", encoding="raw").X
    assert list(raw.columns) == [
        *("recency", "history_segment", "history", "mens"),
        *("womens", "zip_code", "newbie", "channel"),
    ]
    text = ["history_segment", "zip_code", "channel"]
    assert [c for c in raw if isinstance(raw[c].dtype, pd.CategoricalDtype)] == text
    X = load_hillstrom("all", encoding=18).X.join(load_hillstrom("all").X.filter(like="recency_"))
    segment = raw["history_segment"].astype(str)
    for number in range(1, 8):
        np.testing.assert_array_equal(
            X[f"history_segment_{number}"] == 1, segment.str.startswith(f"{number})")
        )
    np.testing.assert_array_equal(X["zip_Surburban"] == 1, raw["zip_code"] == "Surburban")
    np.testing.assert_array_equal(X["channel_Web"] == 1, raw["channel"] == "Web")
    np.testing.assert_array_equal(X["recency_12"] == 1, raw["recency"] == 12)
    assert raw.iloc[0].tolist() == [10, "2) $100 - $200", 142.44, 1, 0, "Surburban", 0, "Phone"]


@pytest.mark.parametrize("outcome", ["visit", "conversion", "spend"])
@pytest.mark.parametrize("encoding", ["22", "18", "raw"])
@pytest.mark.parametrize("arm", ["all", "any", "mens"])
def test_a_trial_shares_nothing_with_the_table_in_memory(arm, outcome, encoding):
    trial, table = load_hillstrom(arm, outcome, encoding), _table()
    kept = [table[name].to_numpy() for name in table]
    given = [trial.y, trial.treatment]
    given += [trial.X[name].to_numpy() for name in trial.X if trial.X[name].dtype.kind in "if"]
    assert not any(np.shares_memory(a, b) for a in given for b in kept if a.dtype == b.dtype)
    before = trial.y.sum()
    trial.y[:] = 0
    trial.treatment[:] = trial.control
    again = load_hillstrom(arm, outcome, encoding)
    assert again.y.sum() == before
    assert len(again.arms) == (3 if arm == "all" else 2)
