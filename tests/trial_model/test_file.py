"""Models saved and loaded: equal afterwards; and no file can do harm."""

import io
import json
import os
import pickle
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest
from tests.trial_model.trial_table import NAMES, trial_table

from auucmax import _archive
from auucmax._archive import array_bytes
from auucmax.trial_model import MODELS, ModelFileError, fit_trial_model, load_model, save_model
from auucmax.trial_model import file as model_file

SLOW = {"pcg", "ndcg", "tarnet", "cfrnet", "ganite"}


def fit(name, rows=1_500, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few rows
        options = NAMES | {"id": "person", "model": name} | options
        return fit_trial_model(trial_table(rows), **options)


def new_rows(n):
    """Rows that are new to the models, and so are their ids."""
    return trial_table(n, random_state=4).assign(person=[f"new{k}" for k in range(n)])


@pytest.fixture(scope="module")
def model():
    return fit("auucmax")


@pytest.fixture
def path(model, tmp_path):
    save_model(model, tmp_path / "trial.model")
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


def rewrite(path, change=None, estimator=None, **more):
    """A file whose checks of wholeness pass, with other contents."""
    parts = members(path.read_bytes())
    plain = json.loads(parts["header.json"])
    parts |= more
    if estimator is not None:
        parts["estimator.skops"] = estimator
    plain["estimator_hash"] = model_file._digest(parts["estimator.skops"])
    if change is not None:
        change(plain)
    if "header.json" not in more:
        parts["header.json"] = json.dumps(plain).encode()
    path.write_bytes(archive({name: data for name, data in parts.items() if data is not None}))


def refused(path, message="should be"):
    with pytest.raises(ModelFileError, match=message) as caught:
        load_model(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("folder", "name"), [(".", "."), ("", "."), ("/", "/"), ("sub", "sub")])
def test_a_folder_is_told_by_its_name(folder, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    message = refused(folder)
    assert message.startswith(
        f"{name} should be a model file that can be read, got: Is a directory"
    )


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.gate] if n in SLOW else []) for n in MODELS],
)
def test_round_trip(name, tmp_path):
    model, table = fit(name), trial_table(700, random_state=4)
    save_model(model, tmp_path / "m")
    again = load_model(tmp_path / "m")
    np.testing.assert_array_equal(again.predict(table), model.predict(table))
    np.testing.assert_array_equal(again.uplift(table), model.uplift(table))
    assert again.summary == model.summary
    assert again.columns == model.columns
    assert again.calibration == model.calibration
    assert again.encoder.terms_ == model.encoder.terms_
    assert again.model_name == name
    assert again.recipe == model.recipe
    assert again.evidence.to_dict() == model.evidence.to_dict()
    assert again.judge(trial_table(1_500)) is again.evidence  # it knows its own rows
    np.testing.assert_equal(again.judge(new_rows(700)).facts, model.judge(new_rows(700)).facts)
    # Saved again, the same plain data: no clock, no chance. (skops names arrays as it likes.)
    save_model(again, tmp_path / "n")
    first, second = (
        json.loads(members((tmp_path / file).read_bytes())["header.json"]) | {"estimator_hash": ""}
        for file in ("m", "n")
    )
    assert first == second


@pytest.mark.parametrize("options", [{"id": None}, {"hold_out": 0.3}, {"forget_rows": True}])
def test_round_trip_of_other_ways_to_fit(options, tmp_path):
    model = fit("tm", features=["age", "town", "spent"], **options)
    save_model(model, tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert again.evidence.to_dict() == model.evidence.to_dict()
    knows = again.judge(trial_table(1_500)) is again.evidence
    assert knows == ("forget_rows" not in options)
    found, expected = (one.judge(new_rows(700)) for one in (again, model))
    np.testing.assert_equal(found.to_dict(), expected.to_dict())
    assert (found["doubt"] is not None) == ("forget_rows" in options)
    filters = {"contents.npy"} | ({"ids.npy"} if "id" not in options else set())
    kept = set() if "forget_rows" in options else filters
    assert set(members((tmp_path / "m").read_bytes())) == {"header.json", "estimator.skops"} | kept


def inside(tree, kinds):
    """Every value of some kinds in a JSON tree."""
    if isinstance(tree, kinds) and not isinstance(tree, bool):
        yield tree
    if isinstance(tree, dict | list):
        for value in tree.values() if isinstance(tree, dict) else tree:
            yield from inside(value, kinds)


@pytest.mark.parametrize(("name", "options"), [("mom", {}), ("tm", {"hold_out": 0.3})])
def test_no_row_of_a_person_is_in_the_file(name, options, tmp_path):
    """Neither ids, nor outcomes, nor features; the digits of a number tell whose it is."""
    rng = np.random.default_rng(0)
    table = trial_table(2_000).assign(
        person=[f"id-{k:x}" for k in rng.integers(2**60, size=2_000)],
        visit=lambda t: np.where(t["visit"] == 1, rng.gamma(2, 30, 2_000), 0),
    )
    model = fit_trial_model(table, **NAMES, id="person", model=name, **options)
    save_model(model, tmp_path / "m")
    parts = members((tmp_path / "m").read_bytes())
    assert set(parts) == {"header.json", "ids.npy", "contents.npy", "estimator.skops"}
    text = parts["header.json"] + members(parts["estimator.skops"])["schema.json"]
    for unwanted in ("training_record_", "selection_path_", *table["person"]):
        assert unwanted.encode() not in text
    header = json.loads(parts["header.json"])
    kept = set(inside(header, (int, float)))
    assert len(kept) > 100
    assert not kept & (set(table["visit"]) - {0})
    fills = {column.get("fill") for column in header["encoder"]["columns"]}  # medians
    assert not kept & set(table["spent"]) - fills
    # No list is nearly as long as the rows are many.
    assert max(map(len, inside(header, list))) <= 102


def test_between_two_numbers_lie_twenty_rows_of_each_arm(model):
    facts, share = model.evidence.facts, model.evidence.expected.share
    assert np.diff(share).min() * facts["rows"]["n_rows"] >= 40
    assert min(facts["deciles"]["rows"]) >= 40
    # Tenths are cut where the curve has numbers: their differences tell of no fewer rows.
    edges = np.linspace(0, 1, len(facts["deciles"]["bin"]) + 1)
    assert np.abs(share[:, None] - edges).min(axis=0).max() < 1e-9


@pytest.mark.parametrize("n_rows", [1_500, 30_000])
def test_files_are_small(n_rows, tmp_path):
    """At most 100 kB beside the estimator, and two bytes for each row that was learnt from."""
    for options in ({}, {"id": None}, {"hold_out": 0.3}, {"forget_rows": True}):
        model = fit("tm", n_rows, **options)
        save_model(model, tmp_path / "m")
        parts = members((tmp_path / "m").read_bytes())
        filters = sum(len(data) for name, data in parts.items() if name.endswith(".npy"))
        n_learnt = 0 if "forget_rows" in options else model.summary["table"]["learnt"]
        assert 2 * n_learnt <= filters <= 2 * n_learnt + 300
        beside = (tmp_path / "m").stat().st_size - len(parts["estimator.skops"]) - filters
        assert beside <= 100_000


def test_a_failed_write_leaves_the_old_file_and_no_rest(model, path, monkeypatch):
    before = path.read_bytes()

    def fail(*args):
        raise OSError("disk is full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk is full"):
        save_model(model, path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_files_of_other_kinds(path, tmp_path, monkeypatch):
    refused(tmp_path / "absent", "should be a model file that can be read, got: No such file")
    refused(tmp_path, "should be a model file that can be read")
    refused(tmp_path / "a\x00b", "should be a model file that can be read")
    whole = path.read_bytes()
    for content in (b"", b"text", whole[: len(whole) // 2], whole[:-30], b"PK\x03\x04" + bytes(99)):
        path.write_bytes(content)
        refused(path, "should be a whole model file")
    path.write_bytes(archive({"header.json": "{}"}))
    refused(path, "it is not marked as auucmax model")
    path.write_bytes(whole)
    monkeypatch.setattr(_archive, "LARGEST_FILE", 1000)
    refused(path, "of at most 1,000 bytes, got")


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_newer_version(path, compression):
    parts = members(path.read_bytes())
    plain = json.loads(parts["header.json"]) | {"version": 3, "something": "new"}
    parts |= {"header.json": json.dumps(plain).encode(), "new.npy": b"x"}
    del parts["contents.npy"]
    path.write_bytes(archive(parts, compression))
    refused(path, "of version 2, got version 3. A newer auucmax wrote it: upgrade auucmax")


def test_a_file_of_version_1_says_to_fit_again(path):
    """Its members had other names, and there were more of them."""
    fields = ("model_name", "encoder", "columns", "split", "calibration", "summary")
    plain = {"format": "auucmax model", "version": 1, "auucmax": "0.1", "estimator_hash": "0" * 32}
    arrays = ("ids", "rows", "some", "others", "strata", "test")
    parts = {"model.json": json.dumps(plain | dict.fromkeys(fields)).encode()}
    parts |= {f"{name}.npy": array_bytes(np.zeros((3, 40))) for name in arrays}
    path.write_bytes(archive(parts | {"estimator.skops": archive({"schema.json": b"{}"})}))
    assert refused(path) == (
        "trial.model should be a model file of version 2, got version 1. An older auucmax wrote "
        "it: fit the model again."
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(format="auucmax network"),
        lambda d: d.update(version="1"),
        lambda d: d.update(version=0),
        lambda d: d.update(version=True),
        lambda d: d["recipe"].update(model="tm"),
        lambda d: d["recipe"].update(model="os.system"),
        lambda d: d["recipe"].update(model=["auucmax"]),
        lambda d: d["recipe"].update(key="short"),
        lambda d: d["recipe"].update(n_folds=0),
        lambda d: d["recipe"].update(n_folds=10**9),
        lambda d: d["recipe"].update(hold_out=1.0),
        lambda d: d["recipe"].update(seed=-1),
        lambda d: d["recipe"].update(more=1),
        lambda d: d.update(recipe=None),
        lambda d: d.update(more=1),
        lambda d: d.pop("summary"),
        lambda d: d.update(summary=[]),
        lambda d: d.update(calibration={"score": [0], "uplift": [1]}),
        lambda d: d.update(calibration="isotonic"),
        lambda d: d.update(encoder=None),
        lambda d: d["encoder"]["columns"].pop(),
        lambda d: d["encoder"]["columns"][0].update(name="other"),
        lambda d: d["columns"].update(features=["age"]),
        lambda d: d.update(columns=[]),
        lambda d: d["seen"].update(n_rows=0),
        lambda d: d["seen"].update(total=7),
        lambda d: d["seen"].update(repeats=2),
        lambda d: d["seen"].update(digits=4),
        lambda d: d.update(seen=None),
        lambda d: d.update(evidence=None),
        lambda d: d.update(estimator_hash="0" * 32),
    ],
)
def test_contents_that_no_model_wrote(path, change):
    rewrite(path)
    load_model(path)  # rewriting alone does no damage
    rewrite(path, change)
    refused(path, "should be a whole model file")


@pytest.mark.parametrize(
    "change",
    [
        lambda e: e.update(facts={}),
        lambda e: e["facts"].update(level="high"),
        lambda e: e["facts"].update(level=7),
        lambda e: e["facts"].update(certificate={}),
        lambda e: e["facts"]["certificate"].update(text=["x"]),
        lambda e: e["facts"]["certificate"].update(gain_lower_bound="x"),
        lambda e: e["facts"].update(randomisation={}),
        lambda e: e["facts"]["randomisation"].update(tests=[{}]),
        lambda e: e["facts"]["randomisation"]["tests"][0].update(adjusted_p_value="x"),
        lambda e: e["facts"]["auuc"].update(estimate=None),
        lambda e: e["facts"]["effect"].update(lower=None),
        lambda e: e["facts"]["rows"].update(n_rows=0),
        lambda e: e["facts"]["rivals"][0].update(verdict="splendid"),
        lambda e: e["facts"]["risk"].pop(),
        lambda e: e["facts"]["deciles"]["rows"].pop(),
        lambda e: e["facts"]["deciles"]["bin"].__setitem__(0, 5),
        lambda e: e["facts"].update(ratio=[[1.0]] * len(e["facts"]["ratio"])),
        lambda e: e["facts"].update(notes="none"),
        lambda e: e["expected"].update(share=[1, 0]),
        lambda e: e["expected"].update(share=None),
        lambda e: e["expected"]["uplift"].pop(),
        lambda e: e["expected"].update(critical="2"),
        lambda e: e["expected"].update(n_rows=-3),
        lambda e: e["expected"].update(score=[]),
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
    refused(path, "its members differ in ../../etc/passwd")
    path.write_bytes(archive(parts))
    inner = members(parts["estimator.skops"])
    rewrite(path, estimator=archive(inner | {"../up.npy": b"x"}))
    refused(path, "has a member")
    rewrite(path, estimator=archive(inner | {"code.pkl": pickle.dumps(1)}))
    refused(path, "has a member")
    rewrite(path, estimator=archive(inner, zipfile.ZIP_DEFLATED))
    refused(path, "compressed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as twice:
            for name, content in [*parts.items(), ("contents.npy", b"x")]:
                twice.writestr(name, content)
    path.write_bytes(buffer.getvalue())
    refused(path, "equal names")


def test_an_array_that_says_it_is_larger_than_the_file(path):
    parts = members(path.read_bytes())
    inner = members(parts["estimator.skops"])
    name = next(n for n in inner if n.endswith(".npy"))
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (10**11,)}
    )
    tracemalloc.start()
    rewrite(path, estimator=archive(inner | {name: header.getvalue()}))
    refused(path, "bytes for shape")
    rewrite(path, estimator=parts["estimator.skops"], **{"ids.npy": header.getvalue()})
    refused(path, "bytes for shape")
    assert tracemalloc.get_traced_memory()[1] < 50_000_000
    tracemalloc.stop()


def array_node(file, place=1):
    return node("NdArrayNode", "numpy", "ndarray", type="numpy", file=file) | {"__id__": place}


def with_parts(path, nodes, **more):
    """A model whose estimator has a list of further parts."""
    inner = members(members(path.read_bytes())["estimator.skops"])
    tree = json.loads(inner["schema.json"])
    tree["content"]["content"]["penalty"] = node("ListNode", "builtins", "list", content=nodes)
    rewrite(path, estimator=archive(inner | {"schema.json": json.dumps(tree)} | more))


def test_one_array_that_is_named_many_times(path):
    big = array_bytes(np.zeros(200_000))
    with_parts(path, [array_node("big.npy", 1000 + k) for k in range(100)], **{"big.npy": big})
    tracemalloc.start()
    refused(path, "names an array more than once")
    assert tracemalloc.get_traced_memory()[1] < 20_000_000  # 160 MB if each were made
    tracemalloc.stop()


def test_an_array_of_objects_and_too_many_parts(path):
    whole = path.read_bytes()
    objects = node("NdArrayNode", "numpy", "ndarray", type="json", content=[], shape=[0])
    with_parts(path, [objects])
    refused(path, "holds one of objects")
    path.write_bytes(whole)
    with_parts(path, [node("ListNode", "builtins", "list", content=[])] * 2_001)
    refused(path, "more than 2000 parts")


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
    inner = members(members(original)["estimator.skops"])
    name = next(n for n in inner if n.endswith(".npy"))
    array = object_array(Harm(target))
    for estimator in (
        harm,
        archive(inner | {"schema.json": harm}),
        archive(inner | {name: harm}),
        archive(inner | {name: array}),
    ):
        path.write_bytes(original)
        rewrite(path, estimator=estimator)
        refused(path)
    path.write_bytes(original)
    rewrite(path, **{"ids.npy": array})
    refused(path)
    path.write_bytes(harm)
    refused(path)
    assert not target.exists()


def node(loader, module, name, **more):
    return {"__loader__": loader, "__module__": module, "__class__": name, "__id__": 1, **more}


ARGUMENTS = node("TupleNode", "builtins", "tuple", content=[
    node("JsonNode", "builtins", "str", content='"mkdir HARM"', is_json=True)
])  # fmt: skip
OF_OS = {"module_path": "os", "function": "system"}
EVIL = {
    "function": node("FunctionNode", "os", "system", content=OF_OS),
    "type": node("TypeNode", "subprocess", "Popen", content=OF_OS),
    "method": node("MethodNode", "os", "system", content={"func": "system", "obj": ARGUMENTS}),
    "object": node("ObjectNode", "subprocess", "Popen", content=ARGUMENTS),
    "reduce": node("ConstructorFromReduceNode", "os", "system", content=ARGUMENTS),
    "partial": node("PartialNode", "functools", "partial", content={"func": ARGUMENTS}),
    "operator": node("OperatorFuncNode", "operator", "methodcaller", attrs=ARGUMENTS),
    "unknown": node("NoSuchNode", "builtins", "dict", content={}),
    "no loader": {"__module__": "os", "__class__": "system"},
    "trusted by skops": node("ObjectNode", "sklearn.svm._classes", "SVC", content={}),
}  # fmt: skip


@pytest.mark.parametrize("name", EVIL)
@pytest.mark.parametrize("place", ["root", "inside"])
def test_types_outside_the_list_are_refused_before_skops_sees_them(
    path, name, place, monkeypatch, tmp_path
):
    import skops.io

    monkeypatch.chdir(tmp_path)
    inner = members(members(path.read_bytes())["estimator.skops"])
    tree = json.loads(inner["schema.json"])
    if place == "root":
        tree = EVIL[name] | {"protocol": tree["protocol"], "_skops_version": "0.1"}
    else:
        tree["content"]["content"]["coef_"] = EVIL[name]
    rewrite(path, estimator=archive(inner | {"schema.json": json.dumps(tree)}))
    monkeypatch.setattr(skops.io, "loads", lambda *a, **k: pytest.fail("skops saw it"))
    assert "types that no model has" in refused(path)
    assert not os.path.exists("HARM")


def test_numbers_that_give_no_scores(path):
    inner = members(members(path.read_bytes())["estimator.skops"])
    arrays = {
        name: np.load(io.BytesIO(data)) for name, data in inner.items() if name != "schema.json"
    }
    for name, array in arrays.items():
        buffer = io.BytesIO()
        np.save(buffer, np.zeros((3, 3)))
        changed = archive(inner | {name: buffer.getvalue()})
        rewrite(path, estimator=changed)
        try:
            again = load_model(path)
        except ModelFileError:
            continue
        # An array that scoring does not use may be anything.
        assert np.isfinite(again.predict(trial_table(20))).all(), array
    buffer = io.BytesIO()
    width = max(arrays.values(), key=lambda a: a.size).size
    np.save(buffer, np.full(width, np.nan))
    every = {name: buffer.getvalue() for name in arrays}
    rewrite(path, estimator=archive(inner | every))
    refused(path)


@pytest.mark.parametrize("name", ["ids.npy", "contents.npy"])
@pytest.mark.parametrize(
    "bits",
    [
        np.zeros((4, 4), dtype=np.uint8),
        np.zeros(100),
        np.zeros(7, dtype=np.uint8),
        np.array(3, dtype=np.uint8),
    ],
)
def test_filters_that_are_none(path, name, bits):
    rewrite(path, **{name: array_bytes(bits)})
    refused(path, "the rows that were seen should be as a fit writes them")


def test_a_list_of_types_that_skops_has_changed_would_be_noticed(model):
    import skops.io

    model_file._check_nodes(skops.io.dumps(model_file._trimmed(model.estimator)))
