"""Torch layers, distances between arms, training and scoring; the only module with torch.

Weights are initialised, and batches are drawn, by a numpy generator; torch's generators are left as
they were. All work runs on one thread, whatever torch is set to: the networks are too small to gain
from a second, and the order of sums is then fixed, so a seed gives the same network on the same
machine. (Another processor or another version of torch may round differently.)
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor, nn
from torch.nn import functional

from auucmax._errors import InputError, level_of_caller
from auucmax._progress import track
from auucmax._validation import Bools, Floats
from auucmax.data.folds import make_strata, places_in_strata

if TYPE_CHECKING:
    from auucmax.baselines.networks import GANITE, NetworkEstimator, TARNet

History = dict[str, Floats]  #: losses by epoch

BLOCK = 8_192  # rows scored at once
DISCRIMINATOR_STEPS = 2  # for each step of the generator
STRENGTH = 10.0  # of Sinkhorn: the kernel falls by a factor of e over a tenth of the mean distance
ITERATIONS = 10  # of Sinkhorn

_lock = threading.Lock()


@contextmanager
def one_thread(*, gradients: bool) -> Iterator[None]:
    """Run torch on one thread, with or without gradients, and restore its state afterwards."""
    with _lock, torch.random.fork_rng(devices=[]), torch.set_grad_enabled(gradients):
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)


# Layers


def rectified(sizes: Sequence[int]) -> nn.Sequential:
    """Dense layers of these sizes, each followed by a rectifier."""
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(sizes):
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    return nn.Sequential(*layers)


def one_output(sizes: Sequence[int]) -> nn.Sequential:
    """Rectified layers and a linear output, (n, sizes[0]) -> (n,)."""
    return nn.Sequential(*rectified(sizes), nn.Linear(sizes[-1], 1), nn.Flatten(0))


class TwoArms(nn.Module):
    """Network with a shared representation Phi and one output per arm, before the link.

    The arms have a head each, or share ``one_head`` that takes Phi(x) and the treatment.
    ``normalise`` divides each Phi(x) by its norm.
    """

    def __init__(
        self,
        n_features: int,
        shared: Sequence[int],
        heads: Sequence[int],
        *,
        one_head: bool = False,
        normalise: bool = False,
    ) -> None:
        super().__init__()
        sizes = [n_features, *shared]
        self.normalise = normalise
        self.one_head = one_head
        self.shared = rectified(sizes)
        if one_head:
            self.head = one_output([sizes[-1] + 1, *heads])
        else:
            self.control = one_output([sizes[-1], *heads])
            self.treated = one_output([sizes[-1], *heads])

    def represent(self, x: Tensor) -> Tensor:
        """Shared representation Phi(x), shape (n, width)."""
        phi: Tensor = self.shared(x)
        if self.normalise:
            phi = phi / ((phi * phi).sum(1, keepdim=True) + 1e-12) ** 0.5
        return phi

    def output(self, phi: Tensor, treated: bool) -> Tensor:
        """Output for one arm, (n,)."""
        if self.one_head:
            phi = torch.cat([phi, phi.new_full((len(phi), 1), treated)], 1)
            result: Tensor = self.head(phi)
        else:
            result = self.treated(phi) if treated else self.control(phi)
        return result

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs for control and for treatment, (n,) each."""
        phi = self.represent(x)
        return self.output(phi, False), self.output(phi, True)


def initialise(network: nn.Module, rng: Generator) -> None:
    """Draw normal weights of variance 2 / fan-in, and set biases to 0.

    Weights of an output are a tenth of that, so that the effect starts near 0.
    """
    for layer in network.modules():
        if isinstance(layer, nn.Linear):
            gain = 0.1 if layer.out_features == 1 else 1.0
            spread = gain * np.sqrt(2.0 / layer.in_features)
            drawn = rng.normal(0.0, spread, (layer.in_features, layer.out_features))
            layer.weight.data.copy_(torch.from_numpy(drawn.T))
            layer.bias.data.zero_()


def uplift(network: nn.Module, x: Floats, binary: bool) -> Floats:
    """Predicted outcome with treatment minus that without, (n,), for scaled rows."""
    effects = []
    with one_thread(gradients=False):
        for rows in torch.from_numpy(x).split(BLOCK):
            control, treated = network(rows)
            if binary:
                control, treated = control.sigmoid(), treated.sigmoid()
            effects.append(treated - control)
        return np.asarray(torch.cat(effects))


# Rows


@dataclass(frozen=True)
class TensorRows:
    """Scaled rows, the treated ones first; ``weight`` has mean 1 over all rows."""

    x: Tensor
    y: Tensor
    weight: Tensor
    n_treated: int

    @property
    def treatment(self) -> Tensor:
        """1 for treated rows, 0 for the others."""
        return (torch.arange(len(self.y)) < self.n_treated).float()

    def batches(self, size: int | None, rng: Generator | None) -> Iterator[TensorRows]:
        """Split each arm evenly over the batches, so that all have the same treated share.

        Rows are shuffled if there is a ``rng``.
        """
        arms = [np.arange(self.n_treated), np.arange(self.n_treated, len(self.y))]
        if rng is not None:
            arms = [rng.permutation(arm) for arm in arms]
        parts = (np.array_split(arm, self._n_batches(size)) for arm in arms)
        for treated, control in zip(*parts, strict=True):
            index = torch.from_numpy(np.concatenate([treated, control]))
            x, y, weight = (c.index_select(0, index) for c in (self.x, self.y, self.weight))
            yield TensorRows(x, y, weight, len(treated))

    def fewest_of_an_arm(self, size: int | None) -> int:
        """The smallest number of rows of an arm in any batch."""
        return min(self.n_treated, len(self.y) - self.n_treated) // self._n_batches(size)

    def _n_batches(self, size: int | None) -> int:
        return 1 if size is None else -(-len(self.y) // size)


def split_rows(
    x: Floats,
    y: Floats,
    treated: Bools,
    weight: Floats | None,
    validation_share: float,
    rng: Generator,
    *,
    balanced: bool = True,
) -> tuple[TensorRows, TensorRows | None]:
    """Split into training and validation rows, stratified by arm and outcome level.

    There are no validation rows if the share is 0, or if there are too few rows for both arms to
    be in both parts. ``balanced``: both arms have the same sum of weights.
    """

    def rows(mask: Bools) -> TensorRows:
        index = np.concatenate([np.flatnonzero(mask & treated), np.flatnonzero(mask & ~treated)])
        n_treated = int(np.sum(mask & treated))
        own = np.ones(len(index)) if weight is None else weight[index]
        arms = [slice(n_treated), slice(n_treated, None)] if balanced else [slice(None)]
        scaled = np.empty(len(index))
        for arm in arms:
            scaled[arm] = own[arm] * (len(index) / len(arms) / own[arm].sum())
        X, Y, W = (torch.from_numpy(c.astype(np.float32)) for c in (x[index], y[index], scaled))
        return TensorRows(X, Y, W, n_treated)

    strata = make_strata(treated, y, by="treatment-outcome")
    taken = np.floor(validation_share * np.bincount(strata))
    held = places_in_strata(strata, rng) < taken[strata]
    if not ((held & treated).any() and (held & ~treated).any()):
        return rows(np.ones(len(y), dtype=bool)), None
    return rows(~held), rows(held)


# Distances between the representations of treated and control rows (Shalit et al. 2017).
#
# Each takes tensors ``treated`` (n_t, k) and ``control`` (n_c, k) and the weights of their rows,
# and returns a scalar with a gradient. All are 0 in expectation for arms with the same
# distribution, or in the limit of many rows. The reference code of the paper multiplies the arms by
# their shares in the trial; here both count one half, so that equal distributions have distance 0
# whatever the shares.


def mmd_linear(treated: Tensor, control: Tensor, w_t: Tensor, w_c: Tensor) -> Tensor:
    """Distance between the means of the arms."""
    a, b = w_t / w_t.sum(), w_c / w_c.sum()
    return (a @ treated - b @ control).norm()


def mmd_rbf(treated: Tensor, control: Tensor, w_t: Tensor, w_c: Tensor) -> Tensor:
    """Squared maximum mean discrepancy of the kernel exp(-||a - b||^2 / sigma^2), unbiased.

        mean of k over treated pairs + the same of control pairs - 2 mean of k between the arms

    over pairs of distinct rows. sigma^2 is the mean squared distance between the arms (no gradient
    passes through it), so the units of the representation do not matter.
    """
    a, b = w_t / w_t.sum(), w_c / w_c.sum()
    between = _squared_distances(treated, control)
    scale = (a @ between.detach() @ b).clip(min=1e-12)

    def within(rows: Tensor, weight: Tensor) -> Tensor:
        kernel = (-_squared_distances(rows, rows) / scale).exp()
        same = (weight * weight * kernel.diagonal()).sum()
        return (weight @ kernel @ weight - same) / (1 - (weight * weight).sum())

    return within(treated, a) + within(control, b) - 2 * (a @ (-between / scale).exp() @ b)


def wasserstein(
    treated: Tensor,
    control: Tensor,
    w_t: Tensor,
    w_c: Tensor,
    *,
    strength: float = STRENGTH,
    iterations: int = ITERATIONS,
) -> Tensor:
    """Earth mover's distance, sum of plan * distance, with the plan of Sinkhorn's iterations.

    The plan is diag(u) exp(-strength * distance / mean distance) diag(v), scaled in turn to the
    marginals; the gradient passes through the distances only.
    """
    distance = (_squared_distances(treated, control) + 1e-12) ** 0.5
    a, b = w_t / w_t.sum(), w_c / w_c.sum()
    cost = distance.detach()
    cost = strength * cost / cost.mean()
    # u and v absorb what is subtracted here; each row and column keeps an entry of 1, so that no
    # sum underflows.
    cost = cost - cost.min(1, keepdim=True).values
    cost = cost - cost.min(0, keepdim=True).values
    kernel = (-cost).exp()
    u = a
    for _ in range(iterations):
        v = b / (u @ kernel)
        u = a / (kernel @ v)
    return (u[:, None] * kernel * v * distance).sum()


def _squared_distances(a: Tensor, b: Tensor) -> Tensor:
    squares = (a * a).sum(1)[:, None] + (b * b).sum(1)
    return (squares - 2 * a @ b.T).clip(min=0)


#: By the name that ``CFRNet`` takes.
IPMS = {"mmd-linear": mmd_linear, "mmd-rbf": mmd_rbf, "wasserstein": wasserstein}


# Training


def train_heads(
    model: TARNet,
    x: Floats,
    y: Floats,
    treated: Bools,
    weight: Floats | None,
    rng: Generator,
) -> tuple[list[nn.Module], History]:
    """Minimise the mean of weight * loss(h_t(Phi(x)), y) + alpha * IPM(Phi_T, Phi_C)."""
    with one_thread(gradients=True):
        network = TwoArms(
            x.shape[1],
            model.shared,
            model.heads,
            one_head=model.one_head,
            normalise=model.normalise,
        )
        initialise(network, rng)
        rows, validation = split_rows(x, y, treated, weight, model.validation_share, rng)
        parts = [rows] if validation is None else [rows, validation]
        fewest = min(part.fewest_of_an_arm(model.batch_size) for part in parts)
        if model.alpha and fewest < 2:
            warnings.warn(
                f"CFRNet should have at least 2 rows of each arm in every batch, got {fewest} in "
                f"some batches with batch_size={model.batch_size}: these batches have no penalty. "
                f"Use a larger batch_size, more rows of the smaller arm, or alpha=0.",
                UserWarning,
                stacklevel=level_of_caller(),
            )

        def objective(batch: TensorRows) -> Tensor:
            k = batch.n_treated
            phi = network.represent(batch.x)
            outputs = torch.cat([network.output(phi[:k], True), network.output(phi[k:], False)])
            total = (batch.weight * _loss(outputs, batch.y, model.binary_)).mean()
            if model.alpha and min(k, len(batch.y) - k) > 1:
                w = batch.weight
                total = total + model.alpha * IPMS[model.ipm](phi[:k], phi[k:], w[:k], w[k:])
            return total

        return [network], _minimise(model, network, objective, rows, validation, rng)


class Game:
    """First stage of GANITE: a generator imputes outcomes, a discriminator guesses the arm.

    G(x, t, y) gives an output for each arm, and D(x, y_0, y_1) the log-odds of being treated.
    """

    def __init__(
        self,
        generator: nn.Module,
        discriminator: nn.Module,
        *,
        binary: bool,
        alpha: float,
        learning_rate: float,
        l2: float = 0.0,
    ) -> None:
        self.generator, self.discriminator = generator, discriminator
        self.binary, self.alpha = binary, alpha
        self.generator_adam = Adam(generator, learning_rate, l2)
        self.discriminator_adam = Adam(discriminator, learning_rate, l2)

    def completed(self, rows: TensorRows) -> tuple[Tensor, Tensor, Tensor]:
        """Outcomes of both arms: observed where known, else generated."""
        is_treated = rows.treatment
        control, treated = self.generator(
            torch.cat([rows.x, is_treated[:, None], rows.y[:, None]], 1)
        )
        observed = torch.where(is_treated > 0, treated, control)
        if self.binary:
            control, treated = control.sigmoid(), treated.sigmoid()
        y_0 = torch.where(is_treated > 0, control, rows.y)
        y_1 = torch.where(is_treated > 0, rows.y, treated)
        return observed, y_0, y_1

    def complete(self, rows: TensorRows) -> TensorRows:
        """Impute both outcomes of each row, (n, 2)."""
        with torch.no_grad():
            _, y_0, y_1 = self.completed(rows)
        return TensorRows(rows.x, torch.stack([y_0, y_1], 1), rows.weight, rows.n_treated)

    def guess_loss(self, rows: TensorRows, y_0: Tensor, y_1: Tensor) -> Tensor:
        """Log-loss of the discriminator's guess of the treatment."""
        guess = self.discriminator(torch.cat([rows.x, y_0[:, None], y_1[:, None]], 1))
        return (rows.weight * _loss(guess, rows.treatment, True)).mean()

    def play(self, batch: TensorRows) -> tuple[float, float]:
        """Take two steps of the discriminator and one of the generator; return their losses."""
        with torch.no_grad():
            _, y_0, y_1 = self.completed(batch)
        for _ in range(DISCRIMINATOR_STEPS):
            self.discriminator_adam.step(self.guess_loss(batch, y_0, y_1))
        observed, y_0, y_1 = self.completed(batch)
        factual = (batch.weight * _loss(observed, batch.y, self.binary)).mean()
        guess = self.guess_loss(batch, y_0, y_1)
        self.generator_adam.step(factual - self.alpha * guess)
        return float(factual.detach()), float(guess.detach())


def train_ganite(
    model: GANITE,
    x: Floats,
    y: Floats,
    treated: Bools,
    weight: Floats | None,
    rng: Generator,
) -> tuple[list[nn.Module], History]:
    """Train generator and discriminator, then the scoring network on the completed outcomes."""
    with one_thread(gradients=True):
        d, width = x.shape[1], model.hidden
        generator = TwoArms(d + 2, (width, width), (width,))
        discriminator = one_output([d + 2, width, width])
        scorer = TwoArms(d, (width, width), (width,))
        networks = [generator, discriminator, scorer]
        for network in networks:
            initialise(network, rng)
        share = model.validation_share
        rows, validation = split_rows(x, y, treated, weight, share, rng, balanced=False)
        game = Game(
            generator,
            discriminator,
            binary=model.binary_,
            alpha=model.alpha,
            learning_rate=model.learning_rate,
            l2=model.l2,
        )
        n_epochs = model.generator_epochs
        losses = np.zeros((n_epochs, 2))
        for epoch in track(range(n_epochs), n_epochs, f"generator, {n_epochs} epochs"):
            for batch in rows.batches(model.batch_size, rng):
                losses[epoch] += np.array(game.play(batch)) * len(batch.y) / len(rows.y)
        _check_finite(losses.sum(), model.learning_rate)

        def objective(batch: TensorRows) -> Tensor:
            both = _loss(torch.stack(scorer(batch.x), 1), batch.y, model.binary_)
            return (batch.weight * both.sum(1)).mean()

        rows = game.complete(rows)
        validation = None if validation is None else game.complete(validation)
        history = _minimise(model, scorer, objective, rows, validation, rng)
        first = {"generator": losses[:, 0], "discriminator": losses[:, 1]}
        return networks, first | history


def _minimise(
    model: NetworkEstimator,
    network: nn.Module,
    objective: Callable[[TensorRows], Tensor],
    rows: TensorRows,
    validation: TensorRows | None,
    rng: Generator,
) -> History:
    """Train until the validation loss stops improving for ``patience`` epochs; keep the best state.

    Without validation rows: all epochs, and the last weights.
    """
    adam = Adam(network, model.learning_rate, model.l2)
    history: dict[str, list[float]] = {"train": [], "validation": []}
    best, best_loss, since = deepcopy(network.state_dict()), np.inf, 0
    most = int(model.max_epochs)
    for _ in track(range(most), most, f"network, at most {most} epochs"):
        loss = 0.0
        for batch in rows.batches(model.batch_size, rng):
            loss += adam.step(objective(batch)) * len(batch.y) / len(rows.y)
        history["train"].append(loss)
        if validation is not None:
            loss = 0.0
            with torch.no_grad():
                for batch in validation.batches(model.batch_size, None):
                    loss += float(objective(batch)) * len(batch.y) / len(validation.y)
            history["validation"].append(loss)
        _check_finite(
            loss + sum(float(p.detach().sum()) for p in network.parameters()), model.learning_rate
        )
        since = 0 if loss < best_loss or validation is None else since + 1
        if since == 0:
            best, best_loss = deepcopy(network.state_dict()), loss
        elif since >= model.patience:
            break
    network.load_state_dict(best)
    return {name: np.array(values) for name, values in history.items()}


class Adam:
    """Adam on a loss + l2 / 2 * sum of squared weights, biases left out."""

    def __init__(self, network: nn.Module, learning_rate: float, l2: float) -> None:
        groups: list[dict[str, Any]] = [
            {"params": [p for p in network.parameters() if p.ndim > 1], "weight_decay": l2},
            {"params": [p for p in network.parameters() if p.ndim == 1]},
        ]
        self.adam = torch.optim.Adam(groups, lr=learning_rate, fused=True)

    def step(self, loss: Tensor) -> float:
        """Take a step down the gradient of the loss; return the loss before it."""
        # Of these weights alone: GANITE's losses depend on two networks.
        parameters = [p for group in self.adam.param_groups for p in group["params"]]
        self.adam.zero_grad()
        loss.backward(inputs=parameters)
        self.adam.step()
        return float(loss.detach())


def _loss(outputs: Tensor, y: Tensor, binary: bool) -> Tensor:
    """Loss of each row: log-loss for log-odds, or squared error."""
    if binary:
        return functional.binary_cross_entropy_with_logits(outputs, y, reduction="none")
    return (outputs - y) ** 2


def _check_finite(loss: float, learning_rate: float) -> None:
    if not np.isfinite(loss):
        raise InputError(
            "learning_rate", "so low that the losses stay finite", f"{learning_rate:g}",
            "Use a lower one, or a lower alpha.",
        )  # fmt: skip
