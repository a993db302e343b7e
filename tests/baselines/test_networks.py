"""TARNet, CFRNet, BNN, GANITE: their formulas, distances of arms, the game of GANITE, training."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment, linprog
from scipy.spatial.distance import cdist
from scipy.special import expit
from sklearn.base import clone

from auucmax import auuc_inference, make_trial
from auucmax.baselines import GANITE, CFRNet, TARNet

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'auucmax[deep]'")

from auucmax.baselines.torch_networks import (  # noqa: E402
    IPMS,
    Game,
    TensorRows,
    TwoArms,
    mmd_linear,
    mmd_rbf,
    one_output,
    wasserstein,
)

pytestmark = pytest.mark.gate

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


def small_trial(seed=0, **options):
    options = {"n_features": 4, "n_noise": 1, "base_rate": 0.4, "ate": 0.1} | options
    return make_trial(600, random_state=seed, **options)


def fitted(model, trial, **options):
    return model.fit(trial.X, trial.y, treatment=trial.treatment, **options)


@pytest.fixture(params=QUICK, ids=lambda name: name.replace(" ", "-"))
def quick(request):
    return clone(QUICK[request.param])


# The estimators


def test_parameter_counts():
    trial = small_trial(n_features=22)
    assert fitted(TARNet(max_epochs=1), trial).n_parameters_ == 22_402
    assert fitted(CFRNet(max_epochs=1), trial).n_parameters_ == 22_402
    # one head of 65 -> 64 -> 64 -> 1
    assert fitted(CFRNet(max_epochs=1, one_head=True), trial).n_parameters_ == 5632 + 4224 + 4225
    ganite = fitted(GANITE(generator_epochs=1, max_epochs=1), trial)
    assert ganite.n_parameters_ == 3602 + 1711 + 3542
    assert sum(p.numel() for p in ganite.network_.parameters()) == 3542


@pytest.mark.parametrize("name", ["TARNet", "CFRNet wasserstein", "BNN", "GANITE"])
@pytest.mark.parametrize("outcome", ["binary", "continuous"])
def test_score_is_the_difference_of_the_arms(name, outcome):
    """By hand, from the weights."""
    trial = small_trial(outcome=outcome)
    model = fitted(clone(QUICK[name]), trial)
    w = {name: tensor.numpy() for name, tensor in model.network_.state_dict().items()}
    x = model.scaler_.transform(trial.X.to_numpy(float))

    def layers(start, x):
        numbers = sorted(int(key.split(".")[1]) for key in w if key.startswith(start + "."))
        for k in sorted(set(numbers)):
            x = x @ w[f"{start}.{k}.weight"].T + w[f"{start}.{k}.bias"]
            if start == "shared" or k < numbers[-1]:
                x = np.maximum(x, 0)
        return x

    phi = layers("shared", x)
    if name == "CFRNet wasserstein":
        phi /= np.sqrt((phi**2).sum(axis=1, keepdims=True) + 1e-12)
    if name == "BNN":
        outputs = [layers("head", np.column_stack([phi, np.full(len(x), t)])) for t in (0, 1)]
    else:
        outputs = [layers(arm, phi) for arm in ("control", "treated")]
    if outcome == "binary":
        control, treated = map(expit, outputs)
    else:
        control, treated = (model.y_scale_ * own for own in outputs)
    assert model.predict(trial.X) == pytest.approx((treated - control)[:, 0], abs=1e-9)


def test_one_warning_of_a_lost_penalty():
    trial = small_trial(treatment_share=0.1)
    model = CFRNet(**SMALL | {"batch_size": 10}, max_epochs=2, random_state=0)
    expected = r"at least 2 rows of each arm in every batch, got [01] in some batches"
    with pytest.warns(UserWarning, match=expected) as caught:
        fitted(model, trial)
    assert len(caught) == 1
    assert caught[0].filename == fitted.__code__.co_filename  # who called fit
    fitted(clone(model).set_params(alpha=0), trial)  # warnings are errors here
    fitted(clone(model).set_params(batch_size=None), trial)


def test_same_seed_same_network_and_torch_is_left_as_it_was(quick):
    trial = small_trial()
    torch.manual_seed(5)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    first, second = (fitted(clone(quick), trial).predict(trial.X) for _ in range(2))
    other = fitted(clone(quick).set_params(random_state=1), trial).predict(trial.X)
    assert (first == second).all()
    assert (first != other).any()
    assert torch.get_num_threads() == threads
    assert torch.equal(state, torch.get_rng_state())


def test_alpha_0_is_tarnet():
    trial = small_trial()
    tarnet = fitted(clone(QUICK["TARNet"]), trial).predict(trial.X)
    for name in IPMS:
        model = CFRNet(ipm=name, alpha=0, **SMALL, max_epochs=3, random_state=0)
        assert (fitted(model, trial).predict(trial.X) == tarnet).all()


def test_penalty_brings_the_arms_together():
    rng = np.random.default_rng(9)
    t = np.arange(800) % 2
    X = rng.normal(size=(800, 3)) + np.column_stack([t, np.zeros((800, 2))])  # arms that differ
    y = (rng.random(800) < 0.5).astype(float)

    def distance(model):
        model.fit(X, y, treatment=t)
        with torch.no_grad():
            phi = model.network_.represent(torch.from_numpy(model.scaler_.transform(X)))
        return np.linalg.norm(phi[t == 1].mean(0) - phi[t == 0].mean(0))

    for name in IPMS:
        options = {"normalise": True, **SMALL, "max_epochs": 10, "random_state": 0}
        free = distance(CFRNet(ipm=name, alpha=0, **options))
        assert distance(CFRNet(ipm=name, alpha=5, **options)) < 0.5 * free


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (TARNet(shared=64), r"shared should be a list of widths of layers, got 64"),
        (TARNet(learning_rate=0), "learning_rate should be a positive number, got 0"),
        (TARNet(l2=-1), "l2 should be a number of at least 0, got -1"),
        (TARNet(batch_size=1), "batch_size should be a whole number of at least 2, got 1"),
        (TARNet(validation_share=1.0), "validation_share should"),
        (CFRNet(ipm="kl"), "ipm should be one of"),
        (GANITE(hidden=0), "hidden should be a whole number"),
        (GANITE(alpha=None), "alpha should be a number of at least 0"),
        (TARNet(learning_rate=1e30, l2=0), "learning_rate should be so low that the losses stay"),
        (
            GANITE(learning_rate=1e30, generator_epochs=2, batch_size=99),
            "learning_rate should be so low that the losses stay",
        ),
    ],
)
def test_bad_parameters(model, message):
    with pytest.raises(ValueError, match=message):
        fitted(model, small_trial())


LEARNERS = {
    "TARNet": TARNet(random_state=0),
    "CFRNet mmd-linear": CFRNet(random_state=0),
    "CFRNet mmd-rbf": CFRNet(ipm="mmd-rbf", random_state=0),
    "CFRNet wasserstein": CFRNet(ipm="wasserstein", normalise=True, random_state=0),
    "BNN": CFRNet(one_head=True, random_state=0),
    "GANITE": GANITE(random_state=0),
}


@pytest.mark.parametrize(
    ("name", "outcome"),
    [*((name, "binary") for name in LEARNERS), ("TARNet", "continuous"), ("GANITE", "continuous")],
)
def test_it_beats_chance(name, outcome):
    options = {"n_features": 6, "n_noise": 1, "heterogeneity": 1.0, "signal": 0.3}
    options |= {"base_rate": 0.4, "ate": 0.1, "nonlinearity": 0.3, "outcome": outcome}
    n_rows = 8_000 if outcome == "binary" else 4_000  # amounts carry more information
    train, test = (make_trial(n_rows, random_state=seed, **options) for seed in (0, 1))
    model = fitted(clone(LEARNERS[name]), train)
    score = model.predict(test.X)
    result = auuc_inference(test.y, score, treatment=test.treatment)
    assert result.gain > 3 * result.gain_standard_error
    population = test.population
    best = population.best_auuc - population.ate / 2
    assert population.auuc(model.predict) - population.ate / 2 > 0.5 * best


# Layers and scales


# Distances of arms


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
    value = mmd_linear(*as_tensors(arms))
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
    value = mmd_rbf(*as_tensors(arms))
    assert float(value.detach()) == pytest.approx(expected)
    tensors = as_tensors(arms)
    bigger = mmd_rbf(tensors[0] * 100, tensors[1] * 100, *tensors[2:])
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
    sharp = wasserstein(*as_tensors(arms), strength=200.0, iterations=5000)
    assert float(sharp.detach()) == pytest.approx(exact, rel=1e-3)
    # With the defaults the plan is smoother, so it costs more, by a little.
    default = float(wasserstein(*as_tensors(arms)).detach())
    assert exact * 0.98 < default < exact * 1.25
    equal = [arms[0][:5], arms[1], np.ones(5), np.ones(5)]
    cost = cdist(equal[0], equal[1])
    matched = cost[linear_sum_assignment(cost)].mean()
    sharp = wasserstein(*as_tensors(equal), strength=200.0, iterations=5000)
    assert float(sharp.detach()) == pytest.approx(matched, rel=5e-3)


# The game of GANITE

RATE = 1e-3


def set_linear(layer, values):
    """Weights and, last, the bias of a linear layer with one output."""
    values = torch.tensor(values)
    with torch.no_grad():
        layer.weight.copy_(values[None, :-1])
        layer.bias.copy_(values[-1:])


def linear_game(*, binary, alpha=0.0, guess=(1.0, 2.0, -3.0, 0.5)):
    """G(x, t, y) = (2x + 10t + y/2 + 1, -x + 4t + 3y - 2); D's log-odds = guess . (x, y_0, y_1, 1).

    With one feature and no hidden layers.
    """
    generator, discriminator = TwoArms(3, (), ()), one_output([3])
    set_linear(generator.control[0], (2.0, 10.0, 0.5, 1.0))
    set_linear(generator.treated[0], (-1.0, 4.0, 3.0, -2.0))
    set_linear(discriminator[0], guess)
    return Game(generator, discriminator, binary=binary, alpha=alpha, learning_rate=RATE)


def rows_of(x, y, weight, n_treated):
    columns = (torch.tensor(c, dtype=torch.float32) for c in ([[v] for v in x], y, weight))
    return TensorRows(*columns, n_treated)


def test_observed_outcomes_are_put_in_their_place():
    rows = rows_of([1.0, 0.5], [3.0, -1.0], [1.0, 1.0], 1)  # treated, then control
    # treated: G(1, 1, 3) = (14.5, 10); control: G(0.5, 0, -1) = (1.5, -5.5)
    observed, y_0, y_1 = linear_game(binary=False).completed(rows)
    assert observed.tolist() == [10.0, 1.5]
    assert y_0.tolist() == [14.5, -1.0]
    assert y_1.tolist() == [3.0, -5.5]


def test_loss_of_the_discriminator():
    rows = rows_of([1.0, 0.5], [0.0, 0.0], [1.5, 0.5], 1)
    pair = torch.tensor([0.5, -1.0]), torch.tensor([1.0, -0.25])
    # log-odds of being treated: 1 + 1 - 3 + 0.5 = -0.5 and 0.5 - 2 + 0.75 + 0.5 = -0.25
    of_treated, of_control = -np.log(1 / (1 + np.exp(0.5))), -np.log(1 / (1 + np.exp(-0.25)))
    expected = (1.5 * of_treated + 0.5 * of_control) / 2
    loss = linear_game(binary=False).guess_loss(rows, *pair)
    assert float(loss.detach()) == pytest.approx(expected)


@pytest.mark.parametrize(("alpha", "sign"), [(0.0, -1.0), (1e5, 1.0)])
def test_the_generator_makes_guessing_hard(alpha, sign):
    # D says control where y_0 is high and treated where y_1 is: both made-up outcomes must rise to
    # mislead it. What was observed lies below what G gives for it: without D, both biases fall.
    game = linear_game(binary=False, alpha=alpha, guess=(0.0, -0.5, 0.5, 0.0))
    rows = rows_of([0.0, 2.0], [-1.0, 1.0], [1.0, 1.0], 1)
    observed, y_0, y_1 = game.completed(rows)
    assert observed.tolist() == [-1.0, 5.5]  # of -1 and 1
    assert y_0.tolist() == [10.5, 1.0]
    assert y_1.tolist() == [-1.0, -1.0]
    biases = game.generator.control[0].bias, game.generator.treated[0].bias
    biases[1].data += 1.0  # 0 of -1, too
    before = [float(bias.detach()) for bias in biases]
    game.play(rows)
    for bias, start in zip(biases, before, strict=True):
        step = float(bias.detach()) - start
        assert step == pytest.approx(sign * RATE, rel=1e-2)  # Adam's first step has this size


def test_two_steps_of_the_discriminator_for_one_of_the_generator():
    game = linear_game(binary=False, alpha=1.0, guess=(0.0, 0.0, 0.0, 0.0))
    rows = rows_of([0.0, 2.0, 1.0], [-1.0, 1.0, 0.0], [1.0, 1.0, 1.0], 1)
    _, *pair = game.completed(rows)
    before = float(game.guess_loss(rows, *pair).detach())
    assert before == pytest.approx(np.log(2))
    factual, guess = game.play(rows)
    assert guess < before  # of the same outcomes: G steps last
    # G: -1 for the treated, of -1; 5.5 and 3 for the others, of 1 and 0
    assert factual == pytest.approx((0.0 + 4.5**2 + 3.0**2) / 3)
    # One row in three is treated, so D's bias falls, by about RATE in each of two steps.
    bias = float(game.discriminator[0].bias.detach())
    assert bias == pytest.approx(-2 * RATE, rel=0.05)


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
