"""Fitted models: shapes, files, frames."""

import json
import zipfile

import numpy as np
import pandas as pd
import pytest
from tests.model.arms_table import COSTS, arms_table
from tests.model.trial_table import trial_table

import auucmax
from auucmax._errors import InputError
from auucmax.model import ModelFileError

NAMES = {"treatment": "arm", "outcome": "visit", "treated": "mail", "control": "none"}


@pytest.fixture(scope="module")
def model():
    return auucmax.fit(auucmax.read_trial(trial_table(2_000), **NAMES, id="person"), "tm")


@pytest.fixture(scope="module")
def arms_model():
    trial = auucmax.read_trial(
        arms_table(2_000), treatment="arm", outcome="visit", control="none", id="person"
    )
    return auucmax.fit(trial, "tm", cost=COSTS, budget=0.5)


@pytest.mark.parametrize("name", ["model", "arms_model"])
def test_a_model_is_the_same_from_its_file(name, request, tmp_path):
    model = request.getfixturevalue(name)
    path = tmp_path / "m.auucmax"
    model.save(path)
    again = auucmax.load(path)
    assert again.evidence == model.evidence
    assert (again.recipe, again.info, again.checksum) == (model.recipe, model.info, model.checksum)
    table = trial_table(500, 3) if name == "model" else arms_table(500, 3)
    np.testing.assert_array_equal(again.predict(table), model.predict(table))
    np.testing.assert_array_equal(again.uplift(table), model.uplift(table))
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    assert path.stat().st_size < 300_000


def test_shapes(model, arms_model):
    one, two = trial_table(50), arms_table(50)
    assert model.predict(one).shape == (50,)
    assert model.uplift(one).shape == (50, 1)
    assert arms_model.predict(two).shape == arms_model.uplift(two).shape == (50, 2)
    with pytest.raises(InputError):
        model.predict(one.head(0))


def test_frames_of_any_library(model):
    pl = pytest.importorskip("polars")
    table = trial_table(300)
    np.testing.assert_array_equal(model.predict(pl.from_pandas(table)), model.predict(table))
    people = model.target(pl.from_pandas(table), share=0.3).people
    assert isinstance(people, pl.DataFrame)


def test_the_people_of_the_fit_are_recognised(model):
    own = trial_table(2_000).query("arm != 'phone'")
    assert model.has_people(own.sample(frac=1, random_state=0))
    assert not model.has_people(own.head(100))
    assert not model.has_people(own.assign(age=own["age"] + 1))


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path, content):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)


def change(*keys, to):
    """A change of an entry of the header."""

    def apply(header):
        place = header
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = to

    return apply


@pytest.mark.parametrize(
    "damage",
    [
        change("recipe", "model", to="os.system"),
        change("recipe", "n_folds", to=10**9),
        change("recipe", "key", to="x"),
        change("more", to=1),
        change("scorers", to=[]),
        change("scorers", 0, "slope", to="steep"),
        change("scorers", 0, "quantiles", "score", to=[1.0, 2.0]),
        change("scorers", 0, "calibration", "uplift", to=[3.0, 1.0]),
        change("evidence", "arms", to=[]),
        change("evidence", "level", to=None),
        change("evidence", "roles", "features", to=["other"]),
        change("info", "n_used", to="many"),
        change("checksum", "rows", to=-0.5),
        change("version", to=10),
    ],
)
def test_a_file_that_no_fit_writes_is_refused(model, tmp_path, damage):
    path = tmp_path / "m"
    model.save(path)
    content = members(path)
    header = json.loads(content["header.json"])
    damage(header)
    write(path, content | {"header.json": json.dumps(header)})
    with pytest.raises(ModelFileError) as caught:
        auucmax.load(path)
    assert "\n" not in str(caught.value)


def test_members_are_arrays_of_numbers(model, tmp_path):
    path = tmp_path / "m"
    model.save(path)
    content = members(path)
    arrays = [name for name in content if name.endswith(".npy")]
    assert arrays
    for name in arrays[:3]:
        for data in (b"", content[name][:-8], b"\x80\x04N."):
            write(path, content | {name: data})
            with pytest.raises(ModelFileError):
                auucmax.load(path)
    write(path, {k: v for k, v in content.items() if k != arrays[0]})
    with pytest.raises(ModelFileError):
        auucmax.load(path)
    for missing in ("absent", "."):
        with pytest.raises(ModelFileError):
            auucmax.load(tmp_path / missing)


def test_no_value_of_a_person_is_in_the_file(tmp_path):
    table = trial_table(2_000)
    table["spent"] = table["spent"] + 0.123456789
    table.loc[7, "town"] = "Secretville"
    model = auucmax.fit(auucmax.read_trial(table, **NAMES, id="person"), "tm")
    model.save(tmp_path / "m")
    content = members(tmp_path / "m")
    text = content["header.json"].decode()
    assert "Secretville" not in text
    assert not any(f'"{person}"' in text for person in table["person"])
    numbers = set(table["spent"].round(9).astype(str))
    assert not numbers & set(pd.Series(json.loads(text)["info"]).astype(str))
