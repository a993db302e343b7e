"""Models saved and loaded: equal afterwards; and no file can do harm."""

import copy
import io
import json
import os
import pickle
import tracemalloc
import warnings
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from tests.model.arms_table import arms_table
from tests.model.trial_table import NAMES, named_model, trial_table

from auucmax import _archive
from auucmax._archive import array_bytes
from auucmax.estimators import BoostedEffect
from auucmax.estimators.formula_rules import formula_of
from auucmax.model import MODELS, ModelFileError, fit_trial_model, load_model, save_model
from auucmax.model.file import FORMAT
from auucmax.present import summarise_model, write_report

COEFFICIENTS = "score.0.coef.npy"
SLOW = {"auto"}


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


@pytest.mark.gate
@pytest.mark.filterwarnings("ignore::UserWarning")  # few rows for so many columns
def test_a_wide_table_with_many_levels_takes_little_room(tmp_path):
    rng = np.random.default_rng(0)
    n, levels = 15_000, np.array([f"level {k}" for k in range(28)])
    table = trial_table(n).assign(
        **{f"column {k}": rng.choice(levels, n) for k in range(12)},
        **{f"zip {k}": [f"{k}{j:04d}" for j in rng.integers(0, 300, n)] for k in range(2)},
    )
    often = table["zip 0"].str.endswith("7") | table["zip 1"].str.endswith("3")
    table.loc[often & (rng.random(n) < 0.5), "visit"] = 1
    model = fit_trial_model(table, **NAMES, id="person", model="tm")
    assert [len(column.base) for column in model.encoder.columns_ if column.learnt] == [301, 301]
    save_model(model, tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert again.encoder.columns_ == model.encoder.columns_
    np.testing.assert_array_equal(again.predict(table), model.predict(table))
    sizes = {name: len(data) for name, data in members((tmp_path / "m").read_bytes()).items()}
    assert sum(n for name, n in sizes.items() if not name.startswith("score.")) < 100_000


@pytest.mark.quick_cases("tm")
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.gate] if n in SLOW else []) for n in MODELS],
)
def test_round_trip(name, tmp_path):
    model, table = named_model(name), trial_table(700, random_state=4)
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
    save_model(again, tmp_path / "n")  # no clock, no chance
    assert (tmp_path / "n").read_bytes() == (tmp_path / "m").read_bytes()


@pytest.fixture(scope="module")
def ensemble():
    """A model by default, with trees however little the rows tell of the effect."""
    model, rows = copy.deepcopy(named_model("auto")), trial_table(1_500)
    rows = rows[rows["arm"] != "phone"]
    grown = BoostedEffect(base_rounds=(20,), effect_rounds=(10,), random_state=0)
    grown.fit(model.encoder.transform(rows), rows["visit"], treatment=rows["arm"] == "mail")
    members = model.formula.members[0], formula_of(grown)
    model.formula = replace(model.formula, members=members)
    return model


@pytest.mark.gate
def test_trees_of_an_ensemble_are_kept_and_score_the_same(ensemble, tmp_path):
    table = trial_table(700, random_state=4)
    save_model(ensemble, tmp_path / "m")
    again = load_model(tmp_path / "m")
    np.testing.assert_array_equal(again.predict(table), ensemble.predict(table))
    assert len(again.formula.members[1].trees) > 0
    save_model(again, tmp_path / "n")
    assert (tmp_path / "n").read_bytes() == (tmp_path / "m").read_bytes()


BAD_ENSEMBLES = {
    "knots do not increase": ("score.0.knots.npy", lambda a: a[:, ::-1]),
    "ranks beyond 1": ("score.1.knots.npy", lambda a: a * [[1], [9]]),
    "no knots": ("score.0.knots.npy", lambda a: a[:, :0]),
    "whole knots": ("score.0.knots.npy", lambda a: a.astype(np.int64)),
    "a hinge of no column": ("score.0.hinge_column.npy", lambda a: a + 99),
    "a hinge before all": ("score.0.hinge_column.npy", lambda a: a - 99),
    "hinges of no whole number": ("score.0.hinge_column.npy", lambda a: a + 0.5),
    "one hinge too few": ("score.0.hinge_knot.npy", lambda a: a[1:]),
    "one weight too many": ("score.0.weight.npy", lambda a: np.append(a, 1.0)),
    "coefficients too narrow": ("score.0.coef.npy", lambda a: a[:, 1:]),
    "two intercepts each": ("score.0.intercept.npy", lambda a: np.append(a, a)),
    "a link that is a number": ("score.0.is_sigmoid.npy", lambda a: a * 1.0),
    "no parts": ("score.0.weight.npy", lambda a: a[:0]),
    "trees of no feature": ("score.1.trees.0.feature.npy", lambda a: a + 99),
    "trees in a circle": ("score.1.trees.0.left.npy", lambda a: a * 0),
    "trees without end": ("score.1.trees.0.depth.npy", lambda a: a * 0 + 10**9),
    "no boolean": ("score.1.trees.0.missing_left.npy", lambda a: a * 1.0),
    "an array gone": ("score.1.coef.npy", lambda a: None),
    "a member's knots gone": ("score.1.knots.npy", lambda a: None),
    "trees gone": ("score.1.trees.0.roots.npy", lambda a: None),
}


@pytest.mark.gate
@pytest.mark.parametrize("name", BAD_ENSEMBLES)
def test_arrays_of_an_ensemble_that_no_model_wrote(ensemble, tmp_path, name):
    path = tmp_path / "m"
    save_model(ensemble, path)
    place, change = BAD_ENSEMBLES[name]
    array = np.load(io.BytesIO(members(path.read_bytes())[place]))
    changed = change(array)
    rewrite(path, **{place: None if changed is None else array_bytes(changed)})
    refused(path)


@pytest.mark.gate
@pytest.mark.parametrize("options", [{"id": None}, {"hold_out": 0.3}])
def test_round_trip_of_other_ways_to_fit(options, tmp_path):
    model = fit("tm", features=["age", "town", "spent"], **options)
    save_model(model, tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert again.evidence.to_dict() == model.evidence.to_dict()
    assert again.judge(trial_table(1_500)) is again.evidence
    found, expected = (one.judge(new_rows(700)) for one in (again, model))
    np.testing.assert_equal(found.to_dict(), expected.to_dict())
    found = {n for n in members((tmp_path / "m").read_bytes()) if not n.startswith("score.")}
    assert found == {"header.json"}


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
    model = fit_trial_model(table, **NAMES, id="person", model=name, **options)
    save_model(model, tmp_path / "m")
    parts = members((tmp_path / "m").read_bytes())
    inner = {n for n in parts if n.startswith("score.")}
    assert set(parts) - inner == {"header.json"}
    text = parts["header.json"]
    for unwanted in ("selection_path_", *table["person"]):
        assert unwanted.encode() not in text
    header = json.loads(parts["header.json"])
    kept = set(inside(header, (int, float)))
    assert len(kept) > 100
    assert not kept & (set(table["visit"]) - {0})
    fills = {column.get("fill") for column in header["encoder"]["columns"]}  # medians
    assert not kept & set(table["spent"]) - fills
    # No list is nearly as long as the rows are many.
    assert max(map(len, inside(header, list))) <= 102


def test_what_few_people_have_is_in_no_file_and_on_no_page(tmp_path):
    table = trial_table(2_000)
    few, some = np.arange(2_000) < 15, np.arange(2_000) < 60
    table.loc[few, "town"] = [f"Jane Doe {k}" for k in range(15)]
    table = table.assign(
        rare_boolean=few, rare_word=np.where(few, "Ann Other", np.where(some, "some", "many")),
        rare_number=np.where(few, 9_876_543.25, 10.0), rare_gap=table["spent"].where(~few),
    )  # fmt: skip
    model = fit_trial_model(table, **NAMES, id="person", model="tm")
    save_model(model, tmp_path / "m")
    write_report(summarise_model(model), tmp_path / "page.html")
    for file in ("m", "page.html"):
        text = (tmp_path / file).read_bytes()
        assert b"rare_word" in text
        for name in (b"Jane Doe", b"Ann Other", b"9876543"):
            assert name not in text
    facts = model.evidence.facts
    shown = [row["name"] for row in facts["drivers"]["features"]]
    shown += [row["feature"].split("=")[0] for row in facts["randomisation"]["differences"]]
    shown += [row["feature"] for row in facts["randomisation"]["missing"]]
    assert {"rare_word", "town", "age"} <= set(shown)
    assert not {"rare_boolean", "rare_number"} & set(shown)
    assert "rare_gap" not in [row["feature"] for row in facts["randomisation"]["missing"]]
    # Nor by what others leave: of an arm, of the top or in the encoding.
    header = json.loads(members((tmp_path / "m").read_bytes())["header.json"])
    kept = {column["name"]: column for column in header["encoder"]["columns"]}
    assert "other_share" not in kept["rare_word"]
    counts = facts["randomisation"]["counts"]
    for arm, n_arm in zip(("control", "treated"), counts.values(), strict=True):
        told = [r[arm] for r in facts["randomisation"]["differences"] if "word=" in r["feature"]]
        assert not told or (1 - sum(told)) * n_arm > 15


@pytest.mark.gate
def test_between_two_numbers_lie_twenty_rows_of_each_arm(model):
    facts, share = model.evidence.facts, model.evidence.expected.share
    assert np.diff(share).min() * facts["rows"]["n_rows"] >= 40
    assert min(facts["deciles"]["rows"]) >= 40
    # Tenths are cut where the curve has numbers: their differences tell of no fewer rows.
    edges = np.linspace(0, 1, len(facts["deciles"]["bin"]) + 1)
    assert np.abs(share[:, None] - edges).min(axis=0).max() < 1e-9


@pytest.mark.gate
@pytest.mark.parametrize("n_rows", [1_500, 30_000])
def test_files_are_small(n_rows, tmp_path):
    for options in ({}, {"id": None}, {"hold_out": 0.3}):
        save_model(fit("tm", n_rows, **options), tmp_path / "m")
        assert (tmp_path / "m").stat().st_size <= 100_000


def test_a_failed_write_leaves_the_old_file_and_no_rest(model, path, monkeypatch):
    before = path.read_bytes()

    def fail(*args):
        raise OSError("disk is full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk is full"):
        save_model(model, path)
    assert path.read_bytes() == before
    assert sorted(os.listdir(path.parent)) == [path.name]


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
    plain = json.loads(parts["header.json"]) | {"version": FORMAT.version + 1, "something": "new"}
    parts |= {"header.json": json.dumps(plain).encode(), "new.npy": b"x"}
    path.write_bytes(archive(parts, compression))
    versions = f"of version {FORMAT.version}, got version {FORMAT.version + 1}"
    refused(path, f"{versions}. A newer auucmax wrote it: upgrade auucmax")


@pytest.mark.parametrize(
    ("version", "header"), [(1, "model.json"), (2, "header.json"), (6, "header.json")]
)
def test_files_of_older_versions_say_to_fit_again(path, version, header):
    """Their members had other names, and the estimator was a file of another library."""
    fields = ("model_name", "encoder", "columns", "split", "calibration", "summary")
    plain = {"format": "auucmax model", "version": version, "estimator_hash": "0" * 32}
    arrays = ("ids", "rows", "some", "others", "strata", "test")
    parts = {header: json.dumps(plain | dict.fromkeys(fields)).encode()}
    parts |= {f"{name}.npy": array_bytes(np.zeros((3, 40))) for name in arrays}
    path.write_bytes(archive(parts | {"estimator.skops": archive({"schema.json": b"{}"})}))
    assert refused(path) == (
        f"trial.model should be a model file of version {FORMAT.version}, got version {version}. "
        f"An older auucmax wrote it: fit the model again."
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(format="auucmax network"),
        lambda d: d.update(version="1"),
        lambda d: d.update(version=0),
        lambda d: d.update(version=True),
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
        lambda d: d["checksum"].update(rows="7"),
        lambda d: d["checksum"].update(digits=4),
        lambda d: d.update(checksum=None),
        lambda d: d.update(evidence=None),
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
        lambda e: e["facts"]["certificate"].update(delta=None),
        lambda e: e["facts"]["certificate"].update(delta="x"),
        lambda e: e["facts"]["certificate"].update(delta=1.5),
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
        lambda e: e["expected"].update(lower="2"),
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
    for name in (COEFFICIENTS,):
        with np.errstate(all="ignore"):
            content = array_bytes(change(w))
        whole = path.read_bytes()
        rewrite(path, **{name: content})
        refused(path, "should be a whole model file")
        path.write_bytes(whole)


def test_arrays_that_are_missing_or_too_many(path):
    whole = path.read_bytes()
    rewrite(path, **{COEFFICIENTS: None})
    refused(path, "KeyError: '0.coef'")
    path.write_bytes(whole)
    rewrite(path, **{"score.0.more.npy": array_bytes(np.zeros(2))})
    refused(path, "the formula of a model, got other arrays")
    path.write_bytes(whole)
    rewrite(path, **{f"score.a{k}.npy": array_bytes(np.zeros(2)) for k in range(3_000)})
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


@pytest.mark.quick_cases("tm")
@pytest.mark.parametrize("name", ["tm", "cvt"])
def test_formulas_of_other_shapes(name, tmp_path):
    path = tmp_path / "m"
    save_model(fit(name), path)
    whole = path.read_bytes()
    arrays = {n: d for n, d in members(whole).items() if n.startswith("score.")}
    for member, content in arrays.items():
        array = np.load(io.BytesIO(content))
        if not array.size:
            continue
        for other in (array[0], array[None], np.repeat(array, 2, axis=0), array[..., :0]):
            path.write_bytes(whole)
            rewrite(path, **{member: array_bytes(other)})
            refused(path)


def test_numbers_that_give_no_scores(path):
    w = np.load(io.BytesIO(members(path.read_bytes())[COEFFICIENTS]))
    rewrite(path, **{"score.0.intercept.npy": array_bytes(np.array([1e308]))})
    assert np.isfinite(load_model(path).predict(trial_table(20))).all()
    rewrite(path, **{COEFFICIENTS: array_bytes(np.full_like(w, np.nan))})
    refused(path, "not finite")


def test_a_model_of_several_arms_comes_back_whole(arms_model, tmp_path):
    save_model(arms_model, tmp_path / "arms.model")
    again = load_model(tmp_path / "arms.model")
    people = arms_table(500, random_state=4)
    assert type(again) is type(arms_model)
    assert again.labels == arms_model.labels
    np.testing.assert_array_equal(again.uplift(people), arms_model.uplift(people))
    assert again.policy == arms_model.policy
    assert again.judge(arms_table()).facts == arms_model.policy
    save_model(again, tmp_path / "again.model")
    assert (tmp_path / "again.model").read_bytes() == (tmp_path / "arms.model").read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        lambda header, members: header["arms"].pop("mail"),
        lambda header, members: header["arms"].update(fax=header["arms"].pop("mail")),
        lambda header, members: header["arms"]["mail"]["columns"].update(outcome="spent"),
        lambda header, members: header["arms"]["mail"]["recipe"].update(key="1" * 16),
        lambda header, members: header["policy"].update(control="phone"),
        lambda header, members: header.update(more=1),
        lambda header, members: members.update({"arm7.more.npy": np.arange(3)}),
        lambda header, members: members.update({"arm1.more.npy": np.arange(3)}),
    ],
)
def test_arms_that_do_not_belong_together_are_refused(arms_model, tmp_path, change):
    place = tmp_path / "arms.model"
    save_model(arms_model, place)
    header, members = FORMAT.read(place, lambda header, members: (header, members))
    change(header, members)
    FORMAT.write(place, header, members)
    with pytest.raises(ModelFileError, match="should be a whole model file"):
        load_model(place)
