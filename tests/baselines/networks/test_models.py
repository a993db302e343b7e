"""TARNet, CFRNet, BNN, GANITE: their formulas and their training."""

import pickle
import subprocess
import sys

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from tests.baselines.networks.small_networks import QUICK, SMALL, fitted, small_trial, torch

from auucmax import auuc_inference, make_trial
from auucmax.baselines.networks import (
    GANITE,
    CFRNet,
    TARNet,
    network,
    training,
)

pytestmark = pytest.mark.gate


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
    joblib.dump(model, tmp_path / "bnn.joblib")
    X = trial.X.to_numpy(np.float64)
    np.save(tmp_path / "X.npy", X)
    code = f"""
import sys
import joblib
import numpy as np
from auucmax.baselines.networks import TARNet
model = joblib.load(r"{tmp_path}/bnn.joblib")
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
    n_rows = 8_000 if outcome == "binary" else 4_000  # more is told by amounts, and learnt slower
    train, test = (make_trial(n_rows, random_state=seed, **options) for seed in (0, 1))
    model = fitted(clone(LEARNERS[name]), train)
    score = model.predict(test.X)
    result = auuc_inference(test.y, score, treatment=test.treatment)
    assert result.gain > 3 * result.gain_standard_error
    population = test.population
    best = population.best_auuc - population.ate / 2
    assert population.auuc(model.predict) - population.ate / 2 > 0.5 * best
