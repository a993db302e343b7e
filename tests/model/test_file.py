"""Models saved and loaded: equal afterwards; and no file can do harm."""

import io
import json
import os
import pickle
import tracemalloc
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tests.model.trial_table import NAMES, named_model, trial_table

import auucmax
from auucmax.estimators import BoostedEffect
from auucmax.model import MODELS, ModelFileError
from auucmax.model import file as model_file
from auucmax.model.file import VERSION, array_bytes, array_of

COEFFICIENTS = "arm0.0.coef.npy"
SLOW = {"auto"}


def fit(name, rows=1_500, hold_out=0.0, **reading):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few rows
        trial = auucmax.read_trial(trial_table(rows), **(NAMES | {"id": "person"} | reading))
        return auucmax.fit(trial, name, hold_out=hold_out)


@pytest.fixture(scope="module")
def model():
    return fit("auucmax")


@pytest.fixture
def path(model, tmp_path):
    model.save(tmp_path / "trial.model")
    return tmp_path / "trial.model"


def members(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive(parts, compression=zipfile.ZIP_STORED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as made:
        for name, content in parts.items():
            made.writestr(name, content)
    return buffer.getvalue()


def rewrite(path, change=None, **more):
    """A file whose checks of wholeness pass, with other contents; None takes a member out."""
    parts = members(path.read_bytes())
    plain = json.loads(parts["header.json"])
    parts |= more
    if change is not None:
        change(plain)
    if "header.json" not in more:
        parts["header.json"] = json.dumps(plain).encode()
    path.write_bytes(archive({name: data for name, data in parts.items() if data is not None}))


def refused(path, message="should be"):
    with pytest.raises(ModelFileError, match=message) as caught:
        auucmax.load(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.quick_cases("tm")
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.gate] if n in SLOW else []) for n in MODELS],
)
def test_every_model_is_the_same_from_its_file(name, tmp_path):
    model, table = named_model(name), trial_table(700, random_state=4)
    model.save(tmp_path / "m")
    again = auucmax.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict(table), model.predict(table))
    np.testing.assert_array_equal(again.uplift(table), model.uplift(table))
    assert (again.recipe, again.info, again.evidence) == (model.recipe, model.info, model.evidence)
    assert again.scorers[0].calibration == model.scorers[0].calibration
    assert again.scorers[0].encoder.terms_ == model.scorers[0].encoder.terms_
    with pytest.warns(UserWarning, match="new to the model"):
        assert again.evaluate(trial_table(1_500)) is again.evidence  # it knows its own rows
    parts = members((tmp_path / "m").read_bytes())
    small = {name: data for name, data in parts.items() if ".trees." not in name}
    assert len(archive(small)) <= 100_000
    again.save(tmp_path / "n")  # no clock, no chance
    assert (tmp_path / "n").read_bytes() == (tmp_path / "m").read_bytes()


@pytest.fixture(scope="module")
def ensemble():
    """A model by default, with trees however little the rows tell of the effect."""
    model, rows = named_model("auto"), trial_table(1_500)
    (scorer,) = model.scorers
    rows = rows[rows["arm"] != "phone"]
    grown = BoostedEffect(base_rounds=(20,), effect_rounds=(10,), random_state=0)
    grown.fit(scorer.encoder.transform(rows), rows["visit"], treatment=rows["arm"] == "mail")
    members = scorer.formula.members[0], grown.formula()
    scorer = replace(scorer, formula=replace(scorer.formula, members=members))
    return replace(model, scorers=(scorer,))


BAD_ENSEMBLES = {
    "knots do not increase": ("arm0.0.knots.npy", lambda a: a[:, ::-1]),
    "ranks beyond 1": ("arm0.1.knots.npy", lambda a: a * [[1], [9]]),
    "no knots": ("arm0.0.knots.npy", lambda a: a[:, :0]),
    "whole knots": ("arm0.0.knots.npy", lambda a: a.astype(np.int64)),
    "a hinge of no column": ("arm0.0.hinge_column.npy", lambda a: a + 99),
    "a hinge before all": ("arm0.0.hinge_column.npy", lambda a: a - 99),
    "hinges of no whole number": ("arm0.0.hinge_column.npy", lambda a: a + 0.5),
    "one hinge too few": ("arm0.0.hinge_knot.npy", lambda a: a[1:]),
    "one weight too many": ("arm0.0.weight.npy", lambda a: np.append(a, 1.0)),
    "coefficients too narrow": ("arm0.0.coef.npy", lambda a: a[:, 1:]),
    "two intercepts each": ("arm0.0.intercept.npy", lambda a: np.append(a, a)),
    "a link that is a number": ("arm0.0.is_sigmoid.npy", lambda a: a * 1.0),
    "no parts": ("arm0.0.weight.npy", lambda a: a[:0]),
    "trees of no feature": ("arm0.1.trees.0.feature.npy", lambda a: a + 99),
    "trees in a circle": ("arm0.1.trees.0.left.npy", lambda a: a * 0),
    "trees without end": ("arm0.1.trees.0.depth.npy", lambda a: a * 0 + 10**9),
    "no boolean": ("arm0.1.trees.0.missing_left.npy", lambda a: a * 1.0),
    "an array gone": ("arm0.1.coef.npy", lambda a: None),
    "a member's knots gone": ("arm0.1.knots.npy", lambda a: None),
    "trees gone": ("arm0.1.trees.0.roots.npy", lambda a: None),
}


@pytest.mark.gate
@pytest.mark.parametrize("name", BAD_ENSEMBLES)
def test_arrays_of_an_ensemble_that_no_model_wrote(ensemble, tmp_path, name):
    path = tmp_path / "m"
    ensemble.save(path)
    place, change = BAD_ENSEMBLES[name]
    array = np.load(io.BytesIO(members(path.read_bytes())[place]))
    changed = change(array)
    rewrite(path, **{place: None if changed is None else array_bytes(changed)})
    refused(path)


def inside(tree, kinds):
    """Every value of some kinds in a JSON tree."""
    if isinstance(tree, kinds) and not isinstance(tree, bool):
        yield tree
    if isinstance(tree, dict | list):
        for value in tree.values() if isinstance(tree, dict) else tree:
            yield from inside(value, kinds)


@pytest.mark.parametrize(("name", "options"), [("response", {}), ("tm", {"hold_out": 0.3})])
def test_no_row_of_a_person_is_in_the_file(name, options, tmp_path):
    """Neither ids, nor outcomes, nor features; the digits of a number tell whose it is."""
    rng = np.random.default_rng(0)
    table = trial_table(2_000).assign(
        person=[f"id-{k:x}" for k in rng.integers(2**60, size=2_000)],
        visit=lambda t: np.where(t["visit"] == 1, rng.gamma(2, 30, 2_000), 0),
    )
    model = auucmax.fit(auucmax.read_trial(table, **NAMES, id="person"), name, **options)
    model.save(tmp_path / "m")
    parts = members((tmp_path / "m").read_bytes())
    inner = {n for n in parts if n.startswith("arm0.")}
    assert set(parts) - inner == {"header.json"}
    text = parts["header.json"]
    for unwanted in ("selection_path_", *table["person"]):
        assert unwanted.encode() not in text
    header = json.loads(parts["header.json"])
    kept = set(inside(header, (int, float)))
    assert len(kept) > 100
    assert not kept & (set(table["visit"]) - {0})
    fills = {own.get("fill") for own in header["scorers"][0]["encoder"]["columns"]}  # medians
    assert not kept & set(table["spent"]) - fills
    # No list is nearly as long as the rows are many.
    assert max(map(len, inside(header, list))) <= 102


def test_what_few_people_have_is_in_no_file(tmp_path):
    table = trial_table(2_000)
    few, some = np.arange(2_000) < 15, np.arange(2_000) < 60
    table.loc[few, "town"] = [f"Jane Doe {k}" for k in range(15)]
    table = table.assign(
        rare_boolean=few, rare_word=np.where(few, "Ann Other", np.where(some, "some", "many")),
        rare_number=np.where(few, 9_876_543.25, 10.0), rare_gap=table["spent"].where(~few),
    )  # fmt: skip
    model = auucmax.fit(auucmax.read_trial(table, **NAMES, id="person"), "tm")
    model.save(tmp_path / "m")
    text = (tmp_path / "m").read_bytes()
    assert b"rare_word" in text
    for name in (b"Jane Doe", b"Ann Other", b"9876543"):
        assert name not in text
    arm = model.evidence.arms[0]
    shown = [own.name for own in arm.drivers.drivers]
    shown += [row["feature"].split("=")[0] for row in arm.check["differences"]]
    shown += [row["feature"] for row in arm.check["missing"]]
    assert {"rare_word", "town", "age"} <= set(shown)
    assert not {"rare_boolean", "rare_number"} & set(shown)
    assert "rare_gap" not in [row["feature"] for row in arm.check["missing"]]


def test_files_of_other_kinds(path, tmp_path, monkeypatch):
    refused(tmp_path / "absent", "no such file")
    refused(tmp_path, "Is a directory")
    refused(tmp_path / "a\x00b", "null byte")
    whole = path.read_bytes()
    for content in (b"", b"text", whole[: len(whole) // 2], whole[:-30], b"PK\x03\x04" + bytes(99)):
        path.write_bytes(content)
        refused(path, "should be a whole model file")
    path.write_bytes(archive({"header.json": "{}"}))
    refused(path, "it is not marked as auucmax model")
    path.write_bytes(whole)
    monkeypatch.setattr(model_file, "LARGEST_FILE", 1000)
    refused(path, "it has more than 1,000 bytes")


def test_a_newer_version(path):
    parts = members(path.read_bytes())
    plain = json.loads(parts["header.json"]) | {"version": VERSION + 1, "something": "new"}
    parts |= {"header.json": json.dumps(plain).encode(), "new.npy": b"x"}
    path.write_bytes(archive(parts))
    versions = f"of version {VERSION}, got version {VERSION + 1}"
    refused(path, f"{versions}. A newer auucmax wrote it: upgrade auucmax")


@pytest.mark.parametrize("version", [0, 2, 6, True])
def test_files_of_older_versions_say_to_fit_again(path, version):
    """Their members had other names, and the estimator was a file of another library."""
    plain = {"format": "auucmax model", "version": version, "estimator_hash": "0" * 32}
    parts = {"header.json": json.dumps(plain).encode(), "ids.npy": array_bytes(np.zeros((3, 40)))}
    path.write_bytes(archive(parts | {"estimator.skops": archive({"schema.json": b"{}"})}))
    assert refused(path) == (
        f"trial.model should be a model file of version {VERSION}, got version {version}. "
        f"An older auucmax wrote it: fit the model again."
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(format="auucmax network"),
        lambda d: d.update(version="1"),
        lambda d: d["recipe"].update(model="os.system"),
        lambda d: d["recipe"].update(key="short"),
        lambda d: d["recipe"].update(n_folds=10**9),
        lambda d: d["recipe"].update(hold_out=1.0),
        lambda d: d.update(recipe=None),
        lambda d: d.update(more=1),
        lambda d: d.pop("info"),
        lambda d: d["scorers"][0].update(calibration={"score": [0], "uplift": [1]}),
        lambda d: d["scorers"][0].update(encoder=None),
        lambda d: d["scorers"][0]["encoder"]["columns"].pop(),
        lambda d: d["scorers"][0]["encoder"]["columns"][0].update(name="other"),
        lambda d: d["scorers"][0].update(slope=1e300),
        lambda d: d["scorers"][0].update(slope=float("nan")),
        lambda d: d["scorers"].clear(),
        lambda d: d["evidence"]["roles"].update(features=["age"]),
        lambda d: d["evidence"]["roles"]["arms"].append("fax"),
        lambda d: d["checksum"].update(rows="7"),
        lambda d: d.update(checksum=None),
    ],
)
def test_contents_that_no_model_wrote(path, change):
    rewrite(path)
    auucmax.load(path)  # rewriting alone does no damage
    rewrite(path, change)
    refused(path, "should be a whole model file")


@pytest.mark.parametrize(
    "change",
    [
        lambda e: e.update(level=float("nan")),
        lambda e: e.update(basis="hearsay"),
        lambda e: e.pop("policy"),
        lambda e: e["arms"].clear(),
        lambda e: e["arms"][0]["certificate"].update(text=["x"]),
        lambda e: e["arms"][0]["auuc"].update(value=None),
        lambda e: e["arms"][0]["rows"].pop(),
        lambda e: e["arms"][0]["ratio"].pop(),
        lambda e: e["arms"][0]["risk"].pop(),
        lambda e: e["arms"][0]["rivals"][0]["curve"].pop(),
        lambda e: e["arms"][0]["curve"].update(spend=[1, 0]),
        lambda e: e["arms"][0]["curve"]["gain"].pop(),
        lambda e: e["policy"]["curve"]["spend"].reverse(),
        lambda e: e["policy"]["curve"]["shares"][0].append(0.5),
    ],
)
def test_evidence_that_no_model_wrote(path, change):
    rewrite(path, lambda plain: change(plain["evidence"]))
    refused(path, "should be a whole model file")


def test_json_that_is_none_or_too_deep(path):
    original = path.read_bytes()
    for text in (b"[" * 100_000, b"[1, 2]", b"\xff\xfe", b"9" * 10_000):
        path.write_bytes(original)
        rewrite(path, **{"header.json": text})
        refused(path, "should be a whole model file")


def test_archives_that_are_bombs_or_have_odd_members(path):
    parts = members(path.read_bytes())
    bomb = b"[" + b" " * 50_000_000 + b"]"
    path.write_bytes(archive(parts | {"header.json": bomb}, zipfile.ZIP_DEFLATED))
    tracemalloc.start()
    refused(path, "compressed")
    assert tracemalloc.get_traced_memory()[1] < 5_000_000
    tracemalloc.stop()
    path.write_bytes(archive(parts | {"../../etc/passwd": "x"}))
    refused(path, "should be a whole model file")
    path.write_bytes(archive(parts | {"estimator.../up.npy": array_bytes(np.zeros(3))}))
    refused(path, "should be a whole model file")
    path.write_bytes(archive(parts | {"code.pkl": pickle.dumps(1)}))
    refused(path, "should be a whole model file")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as twice:
            for name, content in [*parts.items(), (COEFFICIENTS, b"x")]:
                twice.writestr(name, content)
    path.write_bytes(buffer.getvalue())
    refused(path, "equal names")


def test_an_array_that_says_it_is_larger_than_the_file(path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (10**11,)}
    )
    tracemalloc.start()
    rewrite(path, **{COEFFICIENTS: header.getvalue()})
    refused(path, "bytes for shape")
    assert tracemalloc.get_traced_memory()[1] < 50_000_000
    tracemalloc.stop()


@pytest.mark.parametrize(
    "change",
    [
        lambda w: w[:-1],
        lambda w: np.append(w, 0.0),
        lambda w: w[None],
        lambda w: w[:, None],
        lambda w: w[0],
        lambda w: w[:0],
        lambda w: np.diag(w),
        lambda w: w > 0,
        lambda w: w.astype(np.float16),
        lambda w: w.astype(np.uint8),
        lambda w: w * np.nan,
        lambda w: np.full_like(w, 1e308) * 10,
    ],
)
def test_arrays_of_other_shapes_and_types(path, change):
    w = np.load(io.BytesIO(members(path.read_bytes())[COEFFICIENTS]))
    with np.errstate(all="ignore"):
        content = array_bytes(change(w))
    rewrite(path, **{COEFFICIENTS: content})
    refused(path, "should be a whole model file")


def test_arrays_that_are_missing_or_too_many(path):
    whole = path.read_bytes()
    rewrite(path, **{COEFFICIENTS: None})
    refused(path, "a score should be the formula")
    path.write_bytes(whole)
    rewrite(path, **{"arm0.0.more.npy": array_bytes(np.zeros(2))})
    refused(path, "the formula of a model, got other arrays")
    path.write_bytes(whole)
    rewrite(path, **{"arm7.0.more.npy": array_bytes(np.zeros(2))})
    refused(path)
    path.write_bytes(whole)
    rewrite(path, **{f"arm0.a{k}.npy": array_bytes(np.zeros(2)) for k in range(3_000)})
    refused(path)


class Harm:
    """Makes a file when it is unpickled."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return (os.mkdir, (str(self.target),))


def object_array(value):
    buffer = io.BytesIO()
    array = np.empty(1, dtype=object)
    array[0] = value
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def test_a_pickle_in_any_place_is_not_run(path, tmp_path):
    target = tmp_path / "harm"
    harm = pickle.dumps(Harm(target))
    pickle.loads(harm)
    target.rmdir()  # it would have worked
    original = path.read_bytes()
    for name in (COEFFICIENTS, "header.json", "estimator.pkl"):
        for content in (harm, object_array(Harm(target))):
            path.write_bytes(original)
            rewrite(path, **{name: content})
            refused(path)
    path.write_bytes(harm)
    refused(path)
    assert not target.exists()


kinds = st.one_of(
    arrays.floating_dtypes(endianness="="),
    arrays.integer_dtypes(endianness="="),
    arrays.unsigned_integer_dtypes(endianness="="),
    arrays.boolean_dtypes(),
)
shapes = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


@given(arrays.arrays(kinds, shapes), st.booleans())
def test_arrays_of_finite_numbers_come_back(array, transpose):
    array = array.T if transpose else array
    content = array_bytes(array)
    if np.isfinite(array).all():
        again = array_of("a.npy", content)
        assert again.dtype == array.dtype
        np.testing.assert_array_equal(again, array)
    else:
        with pytest.raises(ValueError, match="not finite"):
            array_of("a.npy", content)


def test_devices_and_pipes_are_not_read(tmp_path):
    """They have no size, and no end: reading them would take all memory, or wait for ever."""
    os.mkfifo(tmp_path / "pipe")
    for place in (Path("/dev/zero"), tmp_path / "pipe"):
        refused(place, "it is a device or a pipe")


def test_any_byte_that_changed_is_noticed_or_has_no_effect(path):
    whole, table = path.read_bytes(), trial_table(20)
    expected = auucmax.load(path).predict(table)
    noticed = 0
    places = np.random.default_rng(0).integers(0, len(whole), 60)
    for k in places.tolist():
        path.write_bytes(whole[:k] + bytes([whole[k] ^ 1]) + whole[k + 1 :])
        try:
            np.testing.assert_array_equal(auucmax.load(path).predict(table), expected)
        except ModelFileError:
            noticed += 1
    assert noticed > len(places) / 2


def test_names_in_a_file_do_not_steer_a_terminal(path):
    rewrite(path, lambda plain: plain.update({"\x1b[2J": 1}))
    assert "\x1b" not in refused(path)
