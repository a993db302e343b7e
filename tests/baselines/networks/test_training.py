"""Distances of arms, Adam, the game of GANITE, batches and early stopping."""

import io
import multiprocessing
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from auucmax.baselines.networks.network import fit_scales
from auucmax.baselines.networks.training import NetworkRows, split_rows
from scipy.optimize import linear_sum_assignment, linprog
from scipy.spatial.distance import cdist
from sklearn.base import clone
from tests.baselines.networks.small_networks import QUICK, fitted, small_trial, torch

from auucmax._progress import quiet
from auucmax.baselines.networks import (
    TARNet,
    network,
    training,
)

pytestmark = pytest.mark.gate


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
    return training.TensorBatch(*columns, n_treated, torch.arange(len(y)))


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


def test_few_rows_leave_none_for_validation():
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(6, 2)), np.array([0.0, 1, 0, 1, 0, 1])
    model = clone(QUICK["TARNet"]).fit(X, y, treatment=[0, 0, 0, 1, 1, 1])
    assert len(model.history_["validation"]) == 0
    assert model.n_epochs_ == len(model.history_["train"]) == 3


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
