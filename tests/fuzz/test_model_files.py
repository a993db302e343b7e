"""Any bytes in a model file: a model that works, or an error in one line; no hang.

Loading gives a ModelFileError, what commands do with a loaded model a ValueError: nothing else.
"""

import io
import json
import warnings
import zipfile
from typing import NamedTuple

import numpy as np
import pytest
from tests.fuzz.damage import EDGES, damaged, spots, swapped
from tests.fuzz.feeding import feed
from tests.model.trial_table import NAMES, trial_table

from auucmax import fit, load, read_trial
from auucmax.model import ModelFileError
from auucmax.present.brief import as_json, text
from auucmax.present.page import write_report

pytestmark = pytest.mark.gate

#: A linear score, logistic ones, hinges, trees, a mean of ranks; larger ones less often.
MODELS = {"auucmax": 6, "tm": 3, "shrunk": 3, "boosted": 4, "auto": 3}


class Saved(NamedTuple):
    """A whole model file, its members, and the places in its JSON."""

    content: bytes
    members: dict
    plain: dict
    spots: list


def members(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive(parts):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        for name, content in parts.items():
            made.writestr(zipfile.ZipInfo(name), content)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def models(folder):
    """Small models of two columns, as they come from disk, as often as they are to be drawn."""
    found = []
    for name, times in MODELS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # few rows
            options = NAMES | {"id": "person", "features": ["age", "town"]}
            fit(read_trial(trial_table(800), **options), name).save(folder / name)
        content = (folder / name).read_bytes()
        parts = members(content)
        plain = json.loads(parts["header.json"])
        places = list(spots(plain))
        found += [Saved(content, parts, plain, places)] * times
    return found


@pytest.fixture
def read(folder):
    """Loads contents, and scores rows."""
    table, path = trial_table(30, random_state=1), folder / "trial.model"

    def read(content):
        path.unlink(missing_ok=True)  # to write over a file waits for the disk
        path.write_bytes(content)
        try:
            model = load(path)
        except ModelFileError:
            raise
        except ValueError as error:
            raise AssertionError("no ModelFileError") from error
        repr(model)
        assert len(model.predict(table)) == len(model.uplift(table)) == len(table)
        return model

    return read


@pytest.fixture
def use(read, folder):
    """Loads contents, and does with the model what evaluate, report and target do."""
    table, page = trial_table(150, random_state=1), folder / "page.html"

    def use(content):
        model = read(content)
        write_report(model, page, cost=0.1, value=2.0)
        assert "</html>" in page.read_text()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # these people have other scores
            shown = [model, model.evidence, model.evaluate(table)]
            for policy in ({"share": 0.3}, {"cost": 0.1, "value": 2.0}):
                shown.append(model.target(table, **policy))
                assert len(shown[-1].people) == len(table)
        for result in shown:
            text(result, details=True)
            json.dumps(as_json(result), allow_nan=False)

    return use


def test_rewriting_alone_does_no_damage(models, use):
    for saved in models[::3]:
        use(archive(saved.members | {"header.json": json.dumps(saved.plain).encode()}))


def test_any_damage(models, read):
    samples = [saved.content for saved in models]
    feed("model files: any damage", lambda rng: damaged(rng, samples), read, ValueError)


def test_damage_behind_the_checks_of_wholeness(models, use):
    """Members are damaged, and sums made to fit."""

    def make(rng):
        saved = rng.choice(models)
        name = rng.choice(list(saved.members))
        return archive(saved.members | {name: damaged(rng, [saved.members[name]])})

    feed("model files: members", make, use, ValueError)


def test_other_values_in_the_json(models, use):
    def make(rng):
        saved = rng.choice(models)
        text = swapped(rng, saved.plain, saved.spots)
        return archive(saved.members | {"header.json": text})

    feed("model files: values", make, use, ValueError)


def test_arrays_of_other_models(models, read):
    """Arrays of the score are exchanged with those of another kind of model, or are missing."""

    def make(rng):
        saved, other = rng.choice(models), rng.choice(models)
        mixed = saved.members | {
            name: data for name, data in other.members.items() if rng.random() < 0.3
        }
        kept = {name: data for name, data in mixed.items() if rng.random() < 0.95}
        return archive(kept | {"header.json": saved.members["header.json"]})

    feed("model files: other models", make, read, ValueError)


def other_array(rng, content):
    """An array with another header, or other numbers of another type, or another shape."""
    array = np.load(io.BytesIO(content))
    way = rng.random()
    buffer = io.BytesIO()
    if way < 0.4:
        shape = tuple(rng.choice((*EDGES, *array.shape)) for _ in range(rng.randint(0, 3)))
        kind = rng.choice((array.dtype.str, "<f8", "|O", "<U9", "|V8", "<M8[s]", ">f4", "|b1"))
        header = {"descr": kind, "fortran_order": rng.random() < 0.5, "shape": shape}
        np.lib.format.write_array_header_1_0(buffer, header)
        buffer.write(array.tobytes())
        return buffer.getvalue()
    if way < 0.7:
        kind = rng.choice(("f8", "f4", "f2", "i8", "u1", "u4", "i4", "?", "c16", ">f8"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array = array.astype(kind)
    if way > 0.6:
        odd = rng.choice((0, 1, -1, np.nan, np.inf, 1e300, 2**31, 10**6))
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array = np.where(np.random.default_rng(rng.randrange(99)).random(array.shape) < 0.5,
                             array, np.asarray(odd).astype(array.dtype))  # fmt: skip
    if way > 0.9:
        array = rng.choice((array.ravel()[:-1], array.ravel(), array[None], array.T, array[:0]))
    np.save(buffer, array)
    return buffer.getvalue()


def test_other_arrays(models, read):
    def make(rng):
        saved = rng.choice(models)
        name = rng.choice([name for name in saved.members if name.endswith(".npy")])
        return archive(saved.members | {name: other_array(rng, saved.members[name])})

    feed("model files: arrays", make, read, ValueError)
