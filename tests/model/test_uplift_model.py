"""Fitted models: shapes, files, frames."""

import numpy as np
import pytest
from tests.model.arms_table import COSTS, arms_table
from tests.model.trial_table import trial_table

import auucmax

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


def change(*keys, to):
    """A change of an entry of the header."""

    def apply(header):
        place = header
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = to

    return apply
