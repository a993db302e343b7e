"""TARNet, CFRNet, BNN, GANITE: their formulas, their training, their files."""

import io
import multiprocessing
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment, linprog
from scipy.spatial.distance import cdist
from sklearn.base import clone

from auucmax import auuc_inference, make_trial
from auucmax._progress import quiet
from auucmax.estimators.networks import (
    GANITE,
    CFRNet,
    TARNet,
    network,
    save_network,
    training,
)
from auucmax.estimators.networks.network import fit_scales
from auucmax.estimators.networks.training import NetworkRows, split_rows

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'auucmax[deep]'")

SMALL = {"shared": (8,), "heads": (4,), "batch_size": 64, "learning_rate": 0.01}
QUICK = {
    "TARNet": TARNet(**SMALL, max_epochs=3, random_state=0),
    "CFRNet mmd-linear": CFRNet(**SMALL, max_epochs=3, random_state=0),
    "CFRNet mmd-rbf": CFRNet(ipm="mmd-rbf", **SMALL, max_epochs=3, random_state=0),
    "CFRNet wasserstein": CFRNet(
        ipm="wasserstein", normalise=True, **SMALL, max_epochs=3, random_state=0
    ),
    "BNN": CFRNet(one_head=True, **SMALL, max_epochs=3, random_state=0),
    "GANITE": GANITE(hidden=8, generator_epochs=2, batch_size=64, max_epochs=3, random_state=0),
}


@pytest.fixture(params=QUICK, ids=lambda name: name.replace(" ", "-"))
def quick(request):
    return clone(QUICK[request.param])


def small_trial(seed=0, **options):
    options = {"n_features": 4, "n_noise": 1, "base_rate": 0.4, "ate": 0.1} | options
    return make_trial(600, random_state=seed, **options)


def fitted(model, trial, **options):
    return model.fit(trial.X, trial.y, treatment=trial.treatment, **options)


# Shapes and formulas


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


def test_one_head_is_fed_with_the_treatment():
    rng = np.random.default_rng(0)
    weights = network.initialise(network.one_headed(3, (5,), (4,)), rng)
    weights = {name: rng.normal(size=array.shape) for name, array in weights.items()}
    phi = network.represent(weights, rng.normal(size=(7, 3)))
    for arm, t in (("control", 0.0), ("treated", 1.0)):
        inputs = np.column_stack([phi, np.full(7, t)])
        hidden = np.maximum(inputs @ weights["head.0.weight"] + weights["head.0.bias"], 0)
        expected = hidden @ weights["head.1.weight"] + weights["head.1.bias"]
        assert network.head(weights, phi, arm) == pytest.approx(expected[:, 0])


@pytest.mark.parametrize("shapes", [network.two_headed, network.one_headed])
@pytest.mark.parametrize("normalise", [False, True])
def test_numpy_and_torch_compute_the_same(shapes, normalise):
    rng = np.random.default_rng(1)
    weights = network.initialise(shapes(6, (8, 8), (8,)), rng)
    x = rng.normal(size=(20, 6)).astype(np.float32)
    tensors = {name: torch.from_numpy(array) for name, array in weights.items()}
    there = network.both_arms(tensors, torch.from_numpy(x), normalise=normalise)
    here = network.both_arms(weights, x, normalise=normalise)
    for a, b in zip(here, there, strict=True):
        assert a == pytest.approx(b.numpy(), abs=1e-6)
    norms = np.linalg.norm(network.represent(weights, x, normalise=True), axis=1)
    assert norms == pytest.approx(1.0, abs=1e-6)


@pytest.fixture
def arms():
    rng = np.random.default_rng(2)
    treated, control = rng.normal(0.3, 1.0, (7, 3)), rng.normal(0.0, 1.5, (5, 3))
    weights = rng.uniform(0.5, 2.0, 7), rng.uniform(0.5, 2.0, 5)
    return treated, control, *weights


def as_tensors(arrays):
    return [torch.from_numpy(a).requires_grad_() for a in arrays]


def test_mmd_linear_is_the_distance_of_means(arms):
    treated, control, w_t, w_c = arms
    means = np.average(treated, 0, w_t) - np.average(control, 0, w_c)
    value = training.mmd_linear(*as_tensors(arms))
    assert float(value.detach()) == pytest.approx(np.sqrt((means**2).sum()))


def test_mmd_rbf_is_the_sum_over_pairs(arms):
    treated, control, w_t, w_c = arms
    scale = np.average(cdist(treated, control) ** 2, weights=np.outer(w_t, w_c))

    def mean_kernel(a, b, w_a, w_b, same):
        total = weight = 0.0
        for i in range(len(a)):
            for j in range(len(b)):
                if not (same and i == j):
                    total += w_a[i] * w_b[j] * np.exp(-((a[i] - b[j]) ** 2).sum() / scale)
                    weight += w_a[i] * w_b[j]
        return total / weight

    expected = (
        mean_kernel(treated, treated, w_t, w_t, True)
        + mean_kernel(control, control, w_c, w_c, True)
        - 2 * mean_kernel(treated, control, w_t, w_c, False)
    )
    value = training.mmd_rbf(*as_tensors(arms))
    assert float(value.detach()) == pytest.approx(expected)
    tensors = as_tensors(arms)
    bigger = training.mmd_rbf(tensors[0] * 100, tensors[1] * 100, *tensors[2:])
    assert float(bigger.detach()) == pytest.approx(expected)  # units do not matter


def exact_transport(treated, control, w_t, w_c):
    """Earth mover's distance as a linear program."""
    n, m = len(treated), len(control)
    rows = [np.kron(np.eye(n)[i], np.ones(m)) for i in range(n)]
    columns = [np.kron(np.ones(n), np.eye(m)[j]) for j in range(m)]
    done = linprog(
        cdist(treated, control).ravel(),
        A_eq=np.array(rows + columns),
        b_eq=np.concatenate([w_t / w_t.sum(), w_c / w_c.sum()]),
    )
    return done.fun


def test_wasserstein_comes_to_the_exact_transport(arms):
    exact = exact_transport(*arms)
    sharp = training.wasserstein(*as_tensors(arms), strength=200.0, iterations=5000)
    assert float(sharp.detach()) == pytest.approx(exact, rel=1e-3)
    # With the defaults the plan is smoother, so it costs more, by a little.
    default = float(training.wasserstein(*as_tensors(arms)).detach())
    assert exact * 0.98 < default < exact * 1.25
    equal = [arms[0][:5], arms[1], np.ones(5), np.ones(5)]
    cost = cdist(equal[0], equal[1])
    matched = cost[linear_sum_assignment(cost)].mean()
    sharp = training.wasserstein(*as_tensors(equal), strength=200.0, iterations=5000)
    assert float(sharp.detach()) == pytest.approx(matched, rel=5e-3)


def test_wasserstein_survives_an_outlier(arms):
    treated = arms[0].astype(np.float32).copy()
    treated[0] += 1e4
    tensors = as_tensors([treated, *(a.astype(np.float32) for a in arms[1:])])
    value = training.wasserstein(*tensors)
    value.backward()
    assert np.isfinite(float(value.detach()))
    assert np.isfinite(tensors[0].grad.numpy()).all()


@pytest.mark.parametrize("name", training.IPMS)
def test_equal_arms_have_a_small_distance_and_gradients_pull_together(name):
    rng = np.random.default_rng(3)
    weight = np.ones(300)
    arms = [rng.normal(size=(300, 2)), rng.normal(size=(300, 2)), weight, weight]
    near = float(training.IPMS[name](*as_tensors(arms)).detach())
    arms[0] = arms[0] + [3.0, 0.0]
    tensors = as_tensors(arms)
    far = training.IPMS[name](*tensors)
    assert float(far.detach()) > 5 * abs(near)
    far.backward()
    # A step down the gradient moves treated rows towards the control rows.
    assert tensors[0].grad[:, 0].sum() > 0 > tensors[1].grad[:, 0].sum()


@pytest.mark.parametrize("name", training.IPMS)
def test_representations_that_are_all_the_same(name):
    same = [torch.ones(4, 2, requires_grad=True), torch.ones(3, 2), torch.ones(4), torch.ones(3)]
    value = training.IPMS[name](*same)
    value.backward()
    assert float(value.detach()) == pytest.approx(0.0, abs=1e-5)
    assert np.isfinite(same[0].grad.numpy()).all()


def test_adam_is_that_of_torch():
    rng = np.random.default_rng(4)
    start = network.initialise(network.chain("net", [3, 4, 1]), rng)
    own = training.Parameters(torch, {name: array.copy() for name, array in start.items()})
    theirs = {
        name: torch.from_numpy(array.copy()).requires_grad_() for name, array in start.items()
    }
    groups = [
        {"params": [p for n, p in theirs.items() if n.endswith("weight")], "weight_decay": 0.1},
        {"params": [p for n, p in theirs.items() if n.endswith("bias")]},
    ]
    adam = torch.optim.Adam(groups, lr=0.01)
    settings = training.Settings(0.01, 0.1, None, 1, 1)
    x = torch.from_numpy(rng.normal(size=(10, 3)).astype(np.float32))
    for _ in range(20):
        own.descend(
            (network.output(network.layers_of(own.weights, "net"), x) ** 2).mean(), settings
        )
        adam.zero_grad()
        (network.output(network.layers_of(theirs, "net"), x) ** 2).mean().backward()
        adam.step()
    for name, array in own.arrays().items():
        assert array == pytest.approx(theirs[name].detach().numpy(), abs=1e-5)


# The first stage of GANITE, by hand

RATE = 1e-3


def linear_game(*, binary, alpha=0.0, guess=(1.0, 2.0, -3.0, 0.5)):
    """G(x, t, y) = (2x + 10t + y/2 + 1, -x + 4t + 3y - 2); D's log-odds = guess . (x, y_0, y_1, 1).

    With one feature and no hidden layers.
    """
    heads = {"control": (2.0, 10.0, 0.5, 1.0), "treated": (-1.0, 4.0, 3.0, -2.0)}

    def linear(values):
        values = np.array(values, dtype=np.float32)
        return {"weight": values[:-1, None], "bias": values[-1:]}

    generator = {f"{a}.0.{k}": v for a, w in heads.items() for k, v in linear(w).items()}
    guesser = {f"discriminator.0.{k}": v for k, v in linear(guess).items()}
    parts = (training.Parameters(torch, part) for part in (generator, guesser))
    return training._Game(torch, *parts, binary, alpha)


def batch_of(x, y, weight, n_treated):
    columns = (torch.tensor(c, dtype=torch.float32) for c in ([[v] for v in x], y, weight))
    return training.Batch(*columns, n_treated, torch.arange(len(y)))


def test_observed_outcomes_are_put_in_their_place():
    batch = batch_of([1.0, 0.5], [3.0, -1.0], [1.0, 1.0], 1)  # treated, then control
    # treated: G(1, 1, 3) = (14.5, 10); control: G(0.5, 0, -1) = (1.5, -5.5)
    observed, (y_0, y_1) = linear_game(binary=False).completed(batch)
    assert observed.tolist() == [10.0, 1.5]
    assert y_0.tolist() == [14.5, -1.0]
    assert y_1.tolist() == [3.0, -5.5]


def test_made_up_outcomes_of_0_and_1_are_probabilities():
    batch = batch_of([1.0, 0.5], [1.0, 0.0], [1.0, 1.0], 1)
    # log-odds: treated, G(1, 1, 1) = (13.5, 4); control, G(0.5, 0, 0) = (2, -2.5)
    observed, (y_0, y_1) = linear_game(binary=True).completed(batch)
    assert observed.tolist() == [4.0, 2.0]
    assert y_0.tolist() == pytest.approx([1 / (1 + np.exp(-13.5)), 0.0])
    assert y_1.tolist() == pytest.approx([1.0, 1 / (1 + np.exp(2.5))])


def test_all_rows_are_completed_in_their_order():
    x = np.array([[1.0], [2.0], [0.5], [-1.0]], dtype=np.float32)
    y = np.array([3.0, 0.0, -1.0, 2.0], dtype=np.float32)
    rows = NetworkRows(x, y, np.ones(4, dtype=np.float32), 2)
    done = linear_game(binary=False).complete(training._Rows(torch, rows))
    assert done.y.tolist() == [[14.5, 3.0], [15.0, 0.0], [-1.0, -5.5], [2.0, 5.0]]
    assert (done.x.numpy() == x).all()


def test_loss_of_the_discriminator():
    batch = batch_of([1.0, 0.5], [0.0, 0.0], [1.5, 0.5], 1)
    pair = torch.tensor([0.5, -1.0]), torch.tensor([1.0, -0.25])
    # log-odds of being treated: 1 + 1 - 3 + 0.5 = -0.5 and 0.5 - 2 + 0.75 + 0.5 = -0.25
    of_treated, of_control = -np.log(1 / (1 + np.exp(0.5))), -np.log(1 / (1 + np.exp(-0.25)))
    expected = (1.5 * of_treated + 0.5 * of_control) / 2
    assert linear_game(binary=False)._telling(batch, pair).item() == pytest.approx(expected)


@pytest.mark.parametrize(("alpha", "sign"), [(0.0, -1.0), (1e5, 1.0)])
def test_the_generator_makes_guessing_hard(alpha, sign):
    # D says control where y_0 is high and treated where y_1 is: both made-up outcomes must rise to
    # mislead it. What was observed lies below what G gives for it: without D, both biases fall.
    game = linear_game(binary=False, alpha=alpha, guess=(0.0, -0.5, 0.5, 0.0))
    batch = batch_of([0.0, 2.0], [-1.0, 1.0], [1.0, 1.0], 1)
    observed, (y_0, y_1) = game.completed(batch)
    assert observed.tolist() == [-1.0, 5.5]  # of -1 and 1
    assert y_0.tolist() == [10.5, 1.0]
    assert y_1.tolist() == [-1.0, -1.0]
    game.generator.values[-1] += 1.0  # the bias of the treated head: 0 of -1, too
    before = {name: leaf.detach().clone() for name, leaf in game.generator.weights.items()}
    game._round(batch, training.Settings(RATE, 0.0, None, 1, 1))
    for arm in ("control", "treated"):
        step = (game.generator.weights[f"{arm}.0.bias"] - before[f"{arm}.0.bias"]).item()
        assert step == pytest.approx(sign * RATE, rel=1e-2)  # Adam's first step has this size


def test_two_steps_of_the_discriminator_for_one_of_the_generator():
    game = linear_game(binary=False, alpha=1.0, guess=(0.0, 0.0, 0.0, 0.0))
    batch = batch_of([0.0, 2.0, 1.0], [-1.0, 1.0, 0.0], [1.0, 1.0, 1.0], 1)
    _, pair = game.completed(batch)
    before = float(game._telling(batch, pair).detach())
    assert before == pytest.approx(np.log(2))
    factual, telling = game._round(batch, training.Settings(RATE, 0.0, None, 1, 1))
    assert (game.discriminator.n_steps, game.generator.n_steps) == (2, 1)
    assert telling < before  # of the same outcomes: G steps last
    # G: -1 for the treated, of -1; 5.5 and 3 for the others, of 1 and 0
    assert factual == pytest.approx((0.0 + 4.5**2 + 3.0**2) / 3)
    # One row in three is treated, so D's bias falls, by about RATE in each step.
    assert game.discriminator.values[-1].item() == pytest.approx(-2 * RATE, rel=0.05)


# Scales, parts and batches


@pytest.mark.parametrize("kind", ["z-score", "min-max"])
def test_scales(kind):
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.normal(1e6, 3.0, 50), np.full(50, 7.0), rng.exponential(1e-6, 50)])
    weight = rng.integers(1, 4, 50).astype(float)
    y = rng.normal(3.0, 10.0, 50)
    scales = fit_scales(X, y, weight, kind)
    Z = scales.features(X).astype(float)
    assert (Z[:, 1] == 0).all()
    if kind == "z-score":
        assert np.average(Z, axis=0, weights=weight) == pytest.approx([0, 0, 0], abs=1e-5)
        assert np.average(Z**2, axis=0, weights=weight) == pytest.approx([1, 0, 1], abs=1e-5)
    else:
        assert Z.min(axis=0) == pytest.approx([0, 0, 0], abs=1e-6)
        assert Z.max(axis=0) == pytest.approx([1, 0, 1], abs=1e-6)
    assert not scales.binary
    assert scales.y_mean == pytest.approx(np.average(y, weights=weight))
    with pytest.raises(ValueError, match="y should have two levels, got 2 in all rows"):
        fit_scales(X, np.full(50, 2.0), None, kind)


def test_validation_rows_have_all_levels_and_batches_both_arms():
    trial = small_trial(treatment_share=0.25)
    X, y, treated = trial.X.to_numpy(), trial.y, trial.treatment.astype(bool)
    scales = fit_scales(X, y, None, "z-score")
    rng = np.random.default_rng(6)
    parts = split_rows(X, y, treated, None, scales, validation_share=0.2, balanced=True, rng=rng)
    for part, share in zip(parts, (0.8, 0.2), strict=True):
        k = part.n_treated
        assert k == pytest.approx(share * treated.sum(), abs=2)
        assert part.y[:k].sum() == pytest.approx(share * y[treated].sum(), abs=1)
        assert part.y[k:].sum() == pytest.approx(share * y[~treated].sum(), abs=1)
        assert part.weight[:k].sum() == pytest.approx(part.weight[k:].sum(), rel=1e-5)
        assert part.weight.mean() == pytest.approx(1.0, rel=1e-5)
    train = parts[0]
    seen = []
    for index, n_treated in train.batches(50, rng):
        assert n_treated == pytest.approx(0.25 * len(index), abs=1)
        assert (index[:n_treated] < train.n_treated).all()
        assert (index[n_treated:] >= train.n_treated).all()
        seen.extend(index.tolist())
    assert sorted(seen) == list(range(len(train.y)))


def test_no_batch_is_empty_and_the_smallest_is_known():
    for n in (2, 3, 7, 20):
        for n_treated in range(1, n):
            columns = np.zeros((n, 1), np.float32), *np.zeros((2, n), np.float32)
            rows = NetworkRows(*columns, n_treated)
            for size in (2, 3, 5, 50, None):
                batches = list(rows.batches(size, None))
                assert min(len(index) for index, _ in batches) > 0
                fewest = min(min(k, len(index) - k) for index, k in batches)
                assert rows.fewest_of_an_arm(size) == fewest


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
    assert caught[0].filename == __file__
    fitted(clone(model).set_params(alpha=0), trial)  # warnings are errors here
    fitted(clone(model).set_params(batch_size=None), trial)
    rng = np.random.default_rng(13)
    X, y, t = rng.normal(size=(12, 2)), np.arange(12) % 2, np.arange(12) == 0
    with pytest.warns(UserWarning, match=r"got 1 in some.*Use more rows of the smaller arm"):
        clone(model).set_params(batch_size=None).fit(X, y, treatment=t)


def test_few_rows_leave_none_for_validation():
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(6, 2)), np.array([0.0, 1, 0, 1, 0, 1])
    model = clone(QUICK["TARNet"]).fit(X, y, treatment=[0, 0, 0, 1, 1, 1])
    assert len(model.history_["validation"]) == 0
    assert model.n_epochs_ == len(model.history_["train"]) == 3


# Training


def test_early_stopping_keeps_the_best_epoch():
    trial = small_trial()
    model = TARNet(learning_rate=0.02, l2=0, patience=4, random_state=0)
    fitted(model, trial)
    losses = model.history_["validation"]
    best = int(losses.argmin())
    assert model.n_epochs_ == len(losses) == best + 1 + 4 < 200
    # Fewer epochs from the same seed end at the best one.
    shorter = fitted(clone(model).set_params(max_epochs=best + 1), trial)
    assert shorter.n_epochs_ == best + 1
    assert (shorter.predict(trial.X) == model.predict(trial.X)).all()


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


def test_fits_at_the_same_time_do_not_disturb_each_other():
    trial = small_trial()
    expected = fitted(clone(QUICK["TARNet"]), trial).predict(trial.X)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with ThreadPoolExecutor(3) as pool:
            jobs = [pool.submit(fitted, clone(QUICK["TARNet"]), trial) for _ in range(6)]
        assert all((job.result().predict(trial.X) == expected).all() for job in jobs)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


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


def test_progress_is_shown_on_a_terminal_when_training_takes_long(monkeypatch, capsys):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    trial = small_trial()
    fitted(clone(QUICK["TARNet"]), trial)
    assert capsys.readouterr() == ("", "")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    fitted(clone(QUICK["TARNet"]), trial)
    assert "epochs" not in screen.getvalue()  # three quick ones
    monkeypatch.setattr("auucmax._progress.PATIENCE", 0.0)
    with quiet(), quiet():
        fitted(clone(QUICK["TARNet"]), trial)
    with monkeypatch.context() as patch:
        patch.setattr(multiprocessing.current_process(), "_name", "LokyProcess-1")
        fitted(clone(QUICK["TARNet"]), trial)
    assert "epochs" not in screen.getvalue()  # somebody else's bar may be there
    fitted(clone(QUICK["TARNet"]), trial)
    assert "at most 3 epochs" in screen.getvalue()


# Without torch


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


# Do they learn?

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
