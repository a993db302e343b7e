"""TARNet, CFRNet, BNN, GANITE: their formulas, their training, their files.

Networks saved and loaded: equal afterwards, and no file can do harm.
"""

import io
import json
import os
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from tests.estimators.networks.small_networks import QUICK, SMALL, fitted, small_trial, torch

from auucmax import TwoModels, auuc_inference, certify, make_trial
from auucmax.estimators.networks import (
    GANITE,
    CFRNet,
    TARNet,
    load_network,
    models,
    network,
    save_network,
    training,
)


@pytest.fixture(params=QUICK, ids=lambda name: name.replace(" ", "-"))
def quick(request):
    return clone(QUICK[request.param])


def test_parameter_counts():
    trial = small_trial(n_features=22)
    assert fitted(TARNet(max_epochs=1), trial).n_parameters_ == 22_402
    assert fitted(CFRNet(max_epochs=1), trial).n_parameters_ == 22_402
    # one head of 65 -> 64 -> 64 -> 1
    assert fitted(CFRNet(max_epochs=1, one_head=True), trial).n_parameters_ == 5632 + 4224 + 4225
    ganite = fitted(GANITE(generator_epochs=1, max_epochs=1), trial)
    assert ganite.n_parameters_ == 3602 + 1711 + 3542
    assert sum(array.size for array in ganite.weights_.values()) == 3542


def test_score_is_the_difference_of_the_heads():
    trial = small_trial()
    model = fitted(clone(QUICK["TARNet"]), trial)
    w, scales = model.weights_, model.network_.scales
    x = (trial.X.to_numpy(float) - scales.shift) * scales.factor

    def arm(name):
        phi = np.maximum(x @ w["shared.0.weight"] + w["shared.0.bias"], 0)
        hidden = np.maximum(phi @ w[f"{name}.0.weight"] + w[f"{name}.0.bias"], 0)
        return 1 / (1 + np.exp(-(hidden @ w[f"{name}.1.weight"] + w[f"{name}.1.bias"])[:, 0]))

    assert model.predict(trial.X) == pytest.approx(arm("treated") - arm("control"), abs=1e-12)


def test_smallest_batches_can_be_trained_on():
    trial = small_trial(treatment_share=0.2)
    model = TARNet(shared=(4,), heads=(), batch_size=2, max_epochs=1, random_state=0)
    assert np.isfinite(fitted(model, trial).predict(trial.X)).all()


def test_a_lost_penalty_is_told_once():
    trial = small_trial(treatment_share=0.1)
    model = CFRNet(**SMALL | {"batch_size": 10}, max_epochs=2, random_state=0)
    expected = (
        r"at least 2 rows of each arm in every batch, got [01] in some batches of training rows "
        r"with batch_size=10: these batches have no penalty\. Use a larger batch_size, or alpha=0"
    )
    with pytest.warns(UserWarning, match=expected) as caught:
        fitted(model, trial)
    assert len(caught) == 1
    assert caught[0].filename == fitted.__code__.co_filename  # who called fit
    fitted(clone(model).set_params(alpha=0), trial)  # warnings are errors here
    fitted(clone(model).set_params(batch_size=None), trial)
    rng = np.random.default_rng(13)
    X, y, t = rng.normal(size=(12, 2)), np.arange(12) % 2, np.arange(12) == 0
    with pytest.warns(UserWarning, match=r"got 1 in some.*Use more rows of the smaller arm"):
        clone(model).set_params(batch_size=None).fit(X, y, treatment=t)


def test_same_seed_same_network_and_torch_is_left_as_it_was(quick):
    trial = small_trial()
    torch.manual_seed(5)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    first = fitted(clone(quick), trial).predict(trial.X)
    torch.manual_seed(6)
    try:
        torch.set_num_threads(2)
        with torch.no_grad():
            second = fitted(clone(quick), trial).predict(trial.X)
        assert torch.get_num_threads() == 2
        third = fitted(clone(quick).set_params(random_state=1), trial).predict(trial.X)
        generator = np.random.default_rng(0)
        fourth = fitted(clone(quick).set_params(random_state=generator), trial).predict(trial.X)
    finally:
        torch.set_num_threads(threads)
    assert (first == second).all()
    assert (first == fourth).all()
    assert (first != third).any()
    torch.manual_seed(5)
    assert torch.equal(state, torch.get_rng_state())


def test_history_and_attributes(quick):
    trial = small_trial()
    model = fitted(quick, trial)
    assert model.n_epochs_ == len(model.history_["train"]) == len(model.history_["validation"])
    assert all(np.isfinite(losses).all() for losses in model.history_.values())
    assert all(type(array) is np.ndarray for array in model.weights_.values())
    assert all(array.dtype == np.float32 for array in model.weights_.values())
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict(trial.X) == model.predict(trial.X)).all()
    if isinstance(model, GANITE):
        assert len(model.history_["generator"]) == len(model.history_["discriminator"]) == 2


def test_alpha_0_is_tarnet():
    trial = small_trial()
    tarnet = fitted(clone(QUICK["TARNet"]), trial).predict(trial.X)
    for name in training.IPMS:
        model = CFRNet(ipm=name, alpha=0, **SMALL, max_epochs=3, random_state=0)
        assert (fitted(model, trial).predict(trial.X) == tarnet).all()


def test_weights_equal_repetition_without_chance(quick):
    trial = small_trial()
    if quick.get_params().get("ipm") == "mmd-rbf":
        pytest.skip("the copies of a row are pairs of rows, a row with a weight is none")
    copies = np.random.default_rng(8).integers(0, 4, len(trial.y))
    index = np.repeat(np.arange(len(trial.y)), copies)
    quick.set_params(batch_size=None, validation_share=0)
    X = trial.X.to_numpy()
    weighted = clone(quick).fit(X, trial.y, treatment=trial.treatment, sample_weight=copies)
    repeated = clone(quick).fit(X[index], trial.y[index], treatment=trial.treatment[index])
    expected = repeated.predict(X)
    assert weighted.predict(X) == pytest.approx(expected, abs=1e-2 * np.ptp(expected))


def test_continuous_outcomes_have_no_units(quick):
    trial = small_trial(outcome="continuous")
    X, t = trial.X.to_numpy(), trial.treatment
    plain = clone(quick).fit(X, trial.y, treatment=t).predict(X)
    moved = clone(quick).fit(X, 1000 * trial.y + 5e4, treatment=t).predict(X)
    assert moved == pytest.approx(1000 * plain, abs=1000 * 1e-3 * np.ptp(plain))
    huge = clone(quick).fit(X, 1e200 * trial.y, treatment=t).predict(X)
    assert np.isfinite(huge).all()


def test_penalty_brings_the_arms_together():
    rng = np.random.default_rng(9)
    t = np.arange(800) % 2
    X = rng.normal(size=(800, 3)) + np.column_stack([t, np.zeros((800, 2))])  # arms that differ
    y = (rng.random(800) < 0.5).astype(float)

    def distance(model):
        model.fit(X, y, treatment=t)
        x = model.network_.scales.features(X)
        phi = network.represent(model.weights_, x, normalise=True)
        return np.linalg.norm(phi[t == 1].mean(0) - phi[t == 0].mean(0))

    for name in training.IPMS:
        options = {"normalise": True, **SMALL, "max_epochs": 10, "random_state": 0}
        free = distance(CFRNet(ipm=name, alpha=0, **options))
        assert distance(CFRNet(ipm=name, alpha=5, **options)) < 0.5 * free


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (TARNet(shared=64), r"shared should be a list of widths of layers, got 64"),
        (TARNet(heads=(0,)), "each width of heads should be a whole number of at least 1"),
        (TARNet(learning_rate=0), "learning_rate should be a positive number, got 0"),
        (TARNet(l2=-1), "l2 should be a number of at least 0, got -1"),
        (TARNet(batch_size=0), "batch_size should be a whole number"),
        (TARNet(batch_size=1), "batch_size should be a whole number of at least 2, got 1"),
        (GANITE(batch_size=1), "batch_size should be a whole number of at least 2, got 1"),
        (TARNet(max_epochs=0), "max_epochs should be a whole number"),
        (TARNet(patience=0), "patience should be a whole number"),
        (TARNet(validation_share=1.0), "validation_share should be at least 0 and below 1"),
        (TARNet(scale="none"), "scale should be one of 'z-score', 'min-max', got 'none'"),
        (CFRNet(ipm="kl"), "ipm should be one of"),
        (CFRNet(alpha=-0.1), "alpha should be a number of at least 0"),
        (GANITE(hidden=0), "hidden should be a whole number"),
        (GANITE(generator_epochs=0), "generator_epochs should be a whole number"),
        (GANITE(alpha=None), "alpha should be a number of at least 0"),
        (TARNet(learning_rate=1e30, l2=0), "the loss should stay finite"),
        (
            GANITE(learning_rate=1e30, generator_epochs=2, batch_size=99),
            "generator's loss should stay finite",
        ),
    ],
)
def test_bad_parameters(model, message):
    with pytest.raises(ValueError, match=message):
        fitted(model, small_trial())


def test_scoring_needs_no_torch_and_fitting_says_what_to_install(tmp_path):
    trial = small_trial()
    model = fitted(clone(QUICK["BNN"]), trial)
    save_network(model, tmp_path / "bnn.npz")
    X = trial.X.to_numpy(np.float64)
    np.save(tmp_path / "X.npy", X)
    code = f"""
import sys
import numpy as np
from auucmax.estimators.networks import TARNet, load_network
model = load_network(r"{tmp_path}/bnn.npz")
np.save(r"{tmp_path}/scores.npy", model.network_.uplift(np.load(r"{tmp_path}/X.npy")))
print("torch" in sys.modules)
sys.modules["torch"] = None  # as if it were not installed
try:
    TARNet().fit(np.eye(4), [0, 1, 0, 1], treatment=[0, 0, 1, 1])
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded, message = done.stdout.splitlines()
    assert loaded == "False"
    assert message.endswith('Run: pip install "auucmax[deep]"')
    assert (np.load(tmp_path / "scores.npy") == model.network_.uplift(X)).all()


LEARNERS = {
    "TARNet": TARNet(random_state=0),
    "CFRNet mmd-linear": CFRNet(random_state=0),
    "CFRNet mmd-rbf": CFRNet(ipm="mmd-rbf", random_state=0),
    "CFRNet wasserstein": CFRNet(ipm="wasserstein", normalise=True, random_state=0),
    "BNN": CFRNet(one_head=True, random_state=0),
    "GANITE": GANITE(random_state=0),
}


@pytest.mark.gate
@pytest.mark.parametrize(
    ("name", "outcome"),
    [*((name, "binary") for name in LEARNERS), ("TARNet", "continuous"), ("GANITE", "continuous")],
)
def test_it_beats_chance(name, outcome):
    options = {"n_features": 6, "n_noise": 1, "heterogeneity": 1.0, "signal": 0.3}
    options |= {"base_rate": 0.4, "ate": 0.1, "nonlinearity": 0.3, "outcome": outcome}
    train, test = (make_trial(8_000, random_state=seed, **options) for seed in (0, 1))
    model = fitted(clone(LEARNERS[name]), train)
    score = model.predict(test.X)
    result = auuc_inference(test.y, score, treatment=test.treatment)
    assert result.gain > 3 * result.gain_standard_error
    population = test.population
    best = population.best_auuc - population.ate / 2
    assert population.auuc(model.predict) - population.ate / 2 > 0.5 * best


SHORT = {"shared": (8,), "heads": (4,), "batch_size": 64, "max_epochs": 2, "random_state": 0}
MODELS = {
    "TARNet": TARNet(**SHORT),
    "CFRNet": CFRNet(ipm="wasserstein", normalise=True, **SHORT),
    "BNN": CFRNet(one_head=True, **SHORT),
    "GANITE": GANITE(hidden=8, generator_epochs=2, batch_size=64, max_epochs=2, random_state=0),
}


@pytest.mark.parametrize("name", MODELS)
def test_saved_and_loaded(name, tmp_path):
    trial = small_trial()
    ids = np.arange(len(trial.y))
    model = fitted(clone(MODELS[name]).set_params(control=np.int64(0)), trial, ids=ids)
    path = tmp_path / "model.npz"
    save_network(model, path)
    again = load_network(path)
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    assert (again.predict(trial.X) == model.predict(trial.X)).all()
    assert again.n_parameters_ == model.n_parameters_
    assert again.n_epochs_ == model.n_epochs_
    for stage, losses in model.history_.items():
        assert (again.history_[stage] == losses).all()
    assert again.training_record_.learnt.n_rows == len(trial.y)
    with pytest.raises(ValueError, match="feature names"):
        again.predict(trial.X.rename(columns={"x0": "other"}))
    first = path.read_bytes()
    save_network(again, path)
    assert path.read_bytes() == first
    with np.load(path, allow_pickle=False) as arrays:
        assert (arrays["weights.shared.0.weight"] == model.weights_["shared.0.weight"]).all()


def test_continuous_and_unnamed_saved_and_loaded(tmp_path):
    trial = small_trial(outcome="continuous")
    X = trial.X.to_numpy()
    model = clone(MODELS["TARNet"]).set_params(random_state=np.random.default_rng(0))
    model.fit(X, trial.y, treatment=trial.treatment)
    save_network(model, tmp_path / "model.npz")
    again = load_network(tmp_path / "model.npz")
    assert (again.predict(X) == model.predict(X)).all()
    assert again.random_state is None
    assert not hasattr(again, "feature_names_in_")


def test_a_file_does_not_tell_who_was_in_the_trial(tmp_path):
    trial = small_trial()
    ids = np.arange(len(trial.y))
    model = fitted(clone(MODELS["TARNet"]), trial, ids=ids)
    save_network(model, tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz", allow_pickle=False) as arrays:
        assert not {"ids", "contents"} & set(arrays.files)
    # Neither are there hashes of all rows together, by which a table could be told.
    total = model.training_record_.learnt.total
    assert total.encode() not in (tmp_path / "model.npz").read_bytes()
    new = make_trial(600, n_features=4, n_noise=1, random_state=9)
    with pytest.raises(ValueError, match="whether these are new cannot be seen"):
        certify(load_network(tmp_path / "model.npz"), new.X, y=new.y, treatment=new.treatment)


def test_what_cannot_be_saved(tmp_path):
    trial = small_trial()
    with pytest.raises(ValueError, match="model should be one of TARNet, CFRNet, GANITE, got Two"):
        save_network(fitted(TwoModels(), trial), tmp_path / "model.npz")
    with pytest.raises(NotFittedError):
        save_network(TARNet(), tmp_path / "model.npz")
    model = fitted(clone(MODELS["TARNet"]), trial)
    with pytest.raises(ValueError, match="control should be a number, a string or a list"):
        save_network(model.set_params(control=b"none"), tmp_path / "model.npz")
    assert list(tmp_path.iterdir()) == []


def test_what_was_fitted_is_saved_whatever_the_parameters_say_now(tmp_path):
    trial, path = small_trial(), tmp_path / "model.npz"
    for normalise in (False, True):
        model = fitted(CFRNet(normalise=normalise, **SHORT), trial)
        before = model.predict(trial.X)
        save_network(model.set_params(normalise=not normalise, max_epochs=7), path)
        again = load_network(path)
        assert (again.predict(trial.X) == before).all()
        assert again.get_params() == model.get_params()
        assert again.network_.normalise is normalise


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        (
            "TARNet",
            {"shared": (16,)},
            r"those that TARNet was fitted with, got others: control\.0\.weight should have shape "
            r"\(16, 4\) by them, and has \(8, 4\)\. Set .* or fit again",
        ),
        ("TARNet", {"heads": ()}, "TARNet was fitted with, got others"),
        ("BNN", {"one_head": False}, r"control\.0\.bias should have shape \(4,\) by them, .*None"),
        ("GANITE", {"hidden": 9}, "GANITE was fitted with, got others"),
        ("TARNet", {"learning_rate": "x"}, "learning_rate should be a positive number, got 'x'"),
        ("CFRNet", {"ipm": "kl"}, "ipm should be one of"),
    ],
)
def test_parameters_that_were_changed_after_fit(name, changes, message, tmp_path):
    model = fitted(clone(MODELS[name]), small_trial())
    with pytest.raises(ValueError, match=message):
        save_network(model.set_params(**changes), tmp_path / "model.npz")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    trial = small_trial()
    model = fitted(clone(MODELS["TARNet"]), trial)
    path = tmp_path / "model.npz"
    save_network(model, path)
    before = path.read_bytes()

    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    with pytest.raises(OSError, match="No space left"):
        save_network(model, path)
    assert os.listdir(tmp_path) == ["model.npz"]
    assert path.read_bytes() == before


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("networks") / "model.npz"
    save_network(fitted(clone(MODELS["TARNet"]), small_trial()), path)
    return path.read_bytes()


def rewritten(content, change, compression=zipfile.ZIP_STORED):
    """The archive with its members changed by ``change(dict of bytes)``."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def header(**changes):
    def change(members):
        fields = json.loads(members["header.json"])
        parameters = changes.pop("parameters", {})
        fields.update(changes)
        fields["parameters"].update(parameters)
        members["header.json"] = json.dumps(fields).encode()

    return change


def array(name, values, **options):
    def change(members):
        buffer = io.BytesIO()
        np.save(buffer, values, **options)
        members[name] = buffer.getvalue()

    return change


def lying_shape(members):
    buffer = io.BytesIO()
    description = {"descr": "<f8", "fortran_order": False, "shape": (10**6, 10**6)}
    np.lib.format.write_array_header_1_0(buffer, description)
    members["shift.npy"] = buffer.getvalue() + bytes(100)


def raw_field(name, text):
    """A header whose field is ``text``, which need not be JSON that Python would write."""

    def change(members):
        fields = json.loads(members["header.json"])
        fields[name] = "HERE"
        members["header.json"] = json.dumps(fields).replace('"HERE"', text).encode()

    return change


def twice(content):
    """The archive with one of its members in it twice."""
    buffer = io.BytesIO(content)
    with zipfile.ZipFile(buffer, "a") as archive:
        data = archive.read("shift.npy")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("shift.npy", data)
    return buffer.getvalue()


FIELDS = {  # what is wrong -> (field, its text, what is said of it)
    "y_scale nan": ("y_scale", "NaN", "is no finite number"),
    "y_scale 0": ("y_scale", "0.0", "y_scale is 0.0"),
    "y_scale infinite": ("y_scale", "1e400", "is no finite number"),
    "y_scale below 0": ("y_scale", "-1e400", "is no finite number"),
    "y_scale text": ("y_scale", '"1.0"', "y_scale should be float, got str"),
    "y_scale of 0/1 outcomes": ("y_scale", "2.0", "0 and 1 have no other scale"),
    "y_mean nan": ("y_mean", "NaN", "is no finite number"),
    "y_mean infinite": ("y_mean", "1e400", "is no finite number"),
    "binary text": ("binary", '"no"', "binary should be bool"),
    "normalise text": ("normalise", "1", "normalise should be bool"),
    "normalise of TARNet": ("normalise", "true", "TARNet does not normalise"),
    "n_parameters": ("n_parameters", "7", "n_parameters is not"),
    "n_epochs": ("n_epochs", "3", "losses of train have shape"),
    "repeated names": ("feature_names", '["a", "a", "b", "c"]', "3 different names of 4"),
    "names of one string": (
        "feature_names",
        '"abcd"',
        "should be None or a list of str",
    ),
    "unknown field": ("extra", "1", "they differ in extra"),
    "no hashes": ("trained_on", '{"n_rows": 9, "total": 1, "sample": []}', "rows that were seen"),
    "unsorted": (
        "trained_on",
        '{"n_rows": 9, "total": 1, "sample": [2, 1]}',
        "rows that were seen",
    ),
    "large": ("trained_on", '{"n_rows": 9, "total": 1e30, "sample": [1]}', "rows that were seen"),
}


@pytest.mark.parametrize("kind", FIELDS)
def test_bad_fields(kind, saved, tmp_path):
    name, text, message = FIELDS[kind]
    path = tmp_path / "model.npz"
    path.write_bytes(rewritten(saved, raw_field(name, text)))
    with pytest.raises(ValueError, match=rf"(?s)should be a whole file of save_network.*{message}"):
        load_network(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learning_rate", "x"),
        ("batch_size", -3),
        ("batch_size", 1),
        ("max_epochs", 0),
        ("patience", 1.5),
        ("l2", -1),
        ("validation_share", 1),
        ("scale", "none"),
        ("random_state", "today"),
        ("control", {"a": 1}),
        ("heads", [[4]]),
    ],
)
def test_bad_parameters_in_a_file(name, value, saved, tmp_path):
    path = tmp_path / "model.npz"
    path.write_bytes(rewritten(saved, header(parameters={name: value})))
    with pytest.raises(ValueError, match="should be a whole file of save_network"):
        load_network(path)


def test_the_game_of_ganite_in_a_file(tmp_path):
    path = tmp_path / "model.npz"
    model = fitted(clone(MODELS["GANITE"]), small_trial())
    save_network(model, path)
    whole = path.read_bytes()
    n_scorer = sum(array.size for array in model.weights_.values())
    for change in (
        header(n_parameters=n_scorer),  # without generator and discriminator
        lambda m: m.pop("history.generator.npy"),
        array("history.discriminator.npy", np.zeros(3)),
        header(parameters={"generator_epochs": 0}),
    ):
        path.write_bytes(rewritten(whole, change))
        with pytest.raises(ValueError, match="should be a whole file of save_network"):
            load_network(path)


HOSTILE = {
    "unknown array": lambda content: rewritten(content, array("extra.npy", np.ones(2))),
    "unknown stage": lambda content: rewritten(content, array("history.extra.npy", np.ones(2))),
    "unknown member": lambda content: rewritten(content, lambda m: m.update({"run.py": b"1"})),
    "member twice": twice,
    "parameter left out": lambda content: rewritten(
        content, lambda m: m.update({"header.json": m["header.json"].replace(b'"l2"', b'"l3"')})
    ),
    "weights of other precision": lambda content: rewritten(
        content, array("weights.treated.0.bias.npy", np.full(4, 1e300))
    ),
    "factor below 0": lambda content: rewritten(content, array("factor.npy", -np.ones(4))),
    "hashes of ids": lambda content: rewritten(
        content, array("ids.npy", np.array([1, 2], dtype=np.uint64))
    ),
    "a filter of rows": lambda content: rewritten(
        content, array("contents.npy", np.zeros(8, dtype=np.uint8))
    ),
    "empty": lambda content: b"",
    "text": lambda content: b"not an archive",
    "truncated": lambda content: content[: len(content) // 2],
    "last bytes lost": lambda content: content[:-5],
    "one byte changed": lambda content: (
        content[:3000] + bytes([content[3000] ^ 255]) + content[3001:]
    ),
    "no header": lambda content: rewritten(content, lambda m: m.pop("header.json")),
    "no weights": lambda content: rewritten(content, lambda m: m.pop("weights.treated.0.bias.npy")),
    "more weights": lambda content: rewritten(content, array("weights.x.npy", np.ones(2))),
    "no scales": lambda content: rewritten(content, lambda m: m.pop("shift.npy")),
    "short scales": lambda content: rewritten(content, array("shift.npy", np.ones(2))),
    "pickle": lambda content: rewritten(
        content, array("shift.npy", np.array([print], dtype=object), allow_pickle=True)
    ),
    "nan": lambda content: rewritten(content, array("shift.npy", np.full(4, np.nan))),
    "text array": lambda content: rewritten(content, array("shift.npy", np.array(["a"] * 4))),
    "lying shape": lambda content: rewritten(content, lying_shape),
    "broken shape": lambda content: rewritten(
        content, lambda m: m.update({"shift.npy": m["shift.npy"].replace(b"(4,)", b"((((")})
    ),
    "no array": lambda content: rewritten(content, lambda m: m.update({"shift.npy": b"123"})),
    "compressed": lambda content: rewritten(content, lambda m: None, zipfile.ZIP_DEFLATED),
    "other format": lambda content: rewritten(content, header(format="pandas")),
    "unknown class": lambda content: rewritten(content, header(**{"class": "Popen"})),
    "unknown parameter": lambda content: rewritten(content, header(parameters={"x": 1})),
    "other widths": lambda content: rewritten(content, header(parameters={"shared": [10**12]})),
    "no widths": lambda content: rewritten(content, header(parameters={"shared": None})),
    "no version": lambda content: rewritten(content, header(version="one")),
    "no names": lambda content: rewritten(content, header(feature_names=["x0"])),
    "rows that are none": lambda content: rewritten(content, header(trained_on={"n_rows": 1})),
    "bad count": lambda content: rewritten(content, header(n_epochs=-1)),
    "header is a list": lambda content: rewritten(
        content, lambda m: m.update({"header.json": b"[]"})
    ),
    "deep header": lambda content: rewritten(
        content, lambda m: m.update({"header.json": b"[" * 100_000})
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files(kind, saved, tmp_path):
    path = tmp_path / "model.npz"
    path.write_bytes(HOSTILE[kind](saved))
    with pytest.raises(ValueError, match=r"model\.npz should be a whole file of save_network"):
        load_network(path)


def test_any_truncation_is_noticed(saved, tmp_path):
    path = tmp_path / "model.npz"
    for length in np.linspace(1, len(saved) - 1, 40).astype(int):
        path.write_bytes(saved[:length])
        with pytest.raises(ValueError, match="should be a whole file"):
            load_network(path)


def test_newer_and_absent_files(saved, tmp_path):
    path = tmp_path / "model.npz"
    path.write_bytes(rewritten(saved, header(version=models.FORMAT.version + 1)))
    with pytest.raises(ValueError, match=r"of version 3, got version 4\. .* upgrade auucmax"):
        load_network(path)
    path.write_bytes(rewritten(saved, header()))  # the same, rewritten
    load_network(path)
    with pytest.raises(ValueError, match="should be a file of save_network that can be read"):
        load_network(tmp_path / "absent.npz")
