"""Training: rows in batches, distances of the arms, descent. The only file that uses torch.

Weights start from, and batches are drawn by, a numpy generator; torch's own generators are never
used. Training runs on one thread, whatever torch is set to: the networks are too small to gain
from a second, and sums then have one order, so a seed gives the same network on the same machine.
(Another processor or another version of torch may round differently.)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from auucmax._optional import import_optional
from auucmax._progress import track
from auucmax._validation import Bools, Floats
from auucmax.baselines.networks.network import (
    Scales,
    Weights,
    both_arms,
    head,
    layers_of,
    output,
    represent,
)
from auucmax.data.folds import make_strata, places_in_strata

Tensor = Any
Arrays = dict[str, NDArray[np.float32]]
History = dict[str, NDArray[np.float64]]  #: losses by epoch

BETAS = (0.9, 0.999)  # of Adam
DISCRIMINATOR_STEPS = 2  # for each of the generator
_BLOCK = 8_192  # rows at once where nothing is learned
STRENGTH = 10.0  # of Sinkhorn: the kernel falls by a factor of e over a tenth of the mean distance
ITERATIONS = 10  # of Sinkhorn


# Rows


@dataclass(frozen=True)
class NetworkRows:
    """Scaled rows, the treated ones first; ``weight`` has mean 1."""

    x: NDArray[np.float32]
    y: NDArray[np.float32]
    weight: NDArray[np.float32]
    n_treated: int

    def batches(
        self, size: int | None, rng: np.random.Generator | None
    ) -> Iterator[tuple[NDArray[np.intp], int]]:
        """Positions of the rows of each batch, treated first, and how many are treated.

        Each arm is split over the batches in equal parts, so all have the same share of treated.
        """
        n = len(self.y)
        arms = np.arange(self.n_treated), np.arange(self.n_treated, n)
        if rng is not None:
            arms = rng.permutation(arms[0]), rng.permutation(arms[1])
        parts = (np.array_split(arm, self._n_batches(size)) for arm in arms)
        for treated, control in zip(*parts, strict=True):
            yield np.concatenate([treated, control]), len(treated)

    def fewest_of_an_arm(self, size: int | None) -> int:
        """Rows of the smaller arm in the batch that has fewest of them."""
        return min(self.n_treated, len(self.y) - self.n_treated) // self._n_batches(size)

    def _n_batches(self, size: int | None) -> int:
        return 1 if size is None else -(-len(self.y) // size)


def split_rows(
    X: NDArray[Any],
    y: Floats,
    treated: Bools,
    weight: Floats | None,
    scales: Scales,
    *,
    validation_share: float,
    balanced: bool,
    rng: np.random.Generator,
) -> tuple[NetworkRows, NetworkRows | None]:
    """Training rows, and validation rows drawn from each arm and level of the outcome.

    There are no validation rows if the share is 0, or if there are too few rows for both arms to
    be in both parts. ``balanced``: both arms have the same sum of weights.
    """

    def rows(mask: Bools) -> NetworkRows:
        index = np.concatenate([np.flatnonzero(mask & treated), np.flatnonzero(mask & ~treated)])
        n_treated = int(np.sum(mask & treated))
        own = np.ones(len(index)) if weight is None else weight[index]
        arms = (slice(n_treated), slice(n_treated, None)) if balanced else (slice(None),)
        scaled = np.empty(len(index))
        for arm in arms:
            scaled[arm] = own[arm] * (len(index) / len(arms) / own[arm].sum())
        target = (y[index] - scales.y_mean) / scales.y_scale
        return NetworkRows(
            scales.features(X, index),
            target.astype(np.float32),
            scaled.astype(np.float32),
            n_treated,
        )

    strata = make_strata(treated, y, by="treatment-outcome").codes
    taken = np.floor(validation_share * np.bincount(strata))
    held = places_in_strata(strata, rng) < taken[strata]
    if not ((held & treated).any() and (held & ~treated).any()):
        return rows(np.ones(len(y), dtype=bool)), None
    return rows(~held), rows(held)


# Distances between the representations of treated and control rows (Shalit et al. 2017).
#
# Each takes torch tensors ``treated`` (n_t, k) and ``control`` (n_c, k) and the weights of their
# rows, and returns a scalar with a gradient. All are 0 in expectation for arms with the same
# distribution, or as the rows grow in number. The reference code of the paper multiplies the arms
# by their shares in the trial; here both count one half, so that equal distributions have distance
# 0 whatever the shares.


def mmd_linear(treated: Tensor, control: Tensor, w_t: Tensor, w_c: Tensor) -> Tensor:
    """Distance of the means, || mean of treated - mean of control ||."""
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


# Descent


@dataclass(frozen=True)
class Settings:
    """How to descend. ``l2`` multiplies half the sum of squared weights, biases apart."""

    learning_rate: float
    l2: float
    batch_size: int | None
    max_epochs: int
    patience: int


@dataclass(frozen=True)
class HeadsTask:
    """What TARNet and its kin minimise besides the loss of the outcomes: alpha * ipm."""

    ipm: str = "mmd-linear"
    alpha: float = 0.0
    normalise: bool = False


class TensorBatch(NamedTuple):
    """Rows as tensors, the treated ones first."""

    x: Tensor
    y: Tensor
    weight: Tensor
    n_treated: int
    places: Tensor  # of these rows among all

    def treatment(self) -> Tensor:
        """1 for treated rows, 0 for the others."""
        column = self.y.new_zeros(len(self.y))
        column[: self.n_treated] = 1.0
        return column


def train_heads(
    start: Arrays,
    train: NetworkRows,
    validation: NetworkRows | None,
    *,
    binary: bool,
    task: HeadsTask,
    settings: Settings,
    rng: np.random.Generator,
) -> tuple[Arrays, History]:
    """TARNet, CFRNet, BNN: mean of weight * loss(h_t(Phi(x)), y) + alpha * IPM(Phi_T, Phi_C).

    Returns the weights of the best epoch, and the losses.
    """
    torch = import_optional("torch", extra="deep")
    loss = _pointwise(torch, binary)
    ipm = IPMS[task.ipm]

    def objective(weights: Weights, batch: TensorBatch) -> Tensor:
        k = batch.n_treated
        phi = represent(weights, batch.x, normalise=task.normalise)
        outputs = head(weights, phi[:k], "treated"), head(weights, phi[k:], "control")
        total = (batch.weight * loss(torch.cat(outputs), batch.y)).sum() / len(batch.y)
        if task.alpha and min(k, len(batch.y) - k) > 1:
            total = total + task.alpha * ipm(phi[:k], phi[k:], batch.weight[:k], batch.weight[k:])
        return total

    with _alone(torch):
        parameters = Parameters(torch, start)
        held = None if validation is None else _Rows(torch, validation)
        rows = _Rows(torch, train)
        history = _minimise(torch, parameters, objective, rows, held, settings, rng)
    return parameters.arrays(), history


def train_ganite(
    starts: tuple[Arrays, Arrays, Arrays],
    train: NetworkRows,
    validation: NetworkRows | None,
    *,
    binary: bool,
    alpha: float,
    generator_epochs: int,
    settings: Settings,
    rng: np.random.Generator,
) -> tuple[Arrays, History]:
    """Generator against discriminator, then the network that scores; ``starts`` in this order.

    Returns the weights of the last, and the losses. ``settings`` are those of all three.
    """
    torch = import_optional("torch", extra="deep")
    loss = _pointwise(torch, binary)
    with _alone(torch):
        generator, discriminator, scorer = (Parameters(torch, start) for start in starts)
        rows = _Rows(torch, train)
        game = _Game(torch, generator, discriminator, binary, alpha)
        losses = game.play(rows, generator_epochs, settings, rng)

        def objective(weights: Weights, batch: TensorBatch) -> Tensor:
            total = loss(torch.stack(both_arms(weights, batch.x), 1), batch.y).sum(1)
            return (batch.weight * total).sum() / len(batch.y)

        held = None if validation is None else game.complete(_Rows(torch, validation))
        rows = game.complete(rows)
        history = _minimise(torch, scorer, objective, rows, held, settings, rng)
    return scorer.arrays(), losses | history


class Parameters:
    """Weights as views of one vector, so that a step of Adam is a few operations on it."""

    def __init__(self, torch: Any, start: Arrays) -> None:
        self.values = torch.from_numpy(np.concatenate([a.ravel() for a in start.values()]))
        self.gradient = torch.zeros_like(self.values)
        self.mean, self.square = torch.zeros_like(self.values), torch.zeros_like(self.values)
        self.decays = torch.ones_like(self.values)
        self.n_steps, self.weights, position = 0, {}, 0
        for name, array in start.items():
            part = slice(position, position + array.size)
            position += array.size
            leaf = self.values[part].view(array.shape).detach().requires_grad_()
            leaf.grad = self.gradient[part].view(array.shape)  # backward adds to it in place
            self.weights[name] = leaf
            if name.endswith(".bias"):
                self.decays[part] = 0.0

    def descend(self, loss: Tensor, settings: Settings) -> None:
        """One step of Adam down the gradient of ``loss`` + l2 / 2 * squared weights."""
        self.gradient.zero_()
        loss.backward()
        if settings.l2:
            self.gradient.addcmul_(self.decays, self.values, value=settings.l2)
        self.n_steps += 1
        first, second = (1 - beta**self.n_steps for beta in BETAS)
        self.mean.lerp_(self.gradient, 1 - BETAS[0])
        self.square.mul_(BETAS[1]).addcmul_(self.gradient, self.gradient, value=1 - BETAS[1])
        size = (self.square / second).sqrt_().add_(1e-8)
        self.values.addcdiv_(self.mean, size, value=-settings.learning_rate / first)

    def arrays(self) -> Arrays:
        """Copies as numpy arrays."""
        return {name: leaf.detach().numpy().copy() for name, leaf in self.weights.items()}


class _Rows:
    """Rows as tensors, taken batch by batch."""

    def __init__(self, torch: Any, rows: NetworkRows, y: Tensor | None = None) -> None:
        self.rows, self._torch = rows, torch
        self.x, self.weight = torch.from_numpy(rows.x), torch.from_numpy(rows.weight)
        self.y = torch.from_numpy(rows.y) if y is None else y

    def batches(self, size: int | None, rng: np.random.Generator | None) -> Iterator[TensorBatch]:
        for index, n_treated in self.rows.batches(size, rng):
            places = self._torch.from_numpy(index)
            x, y, weight = (c.index_select(0, places) for c in (self.x, self.y, self.weight))
            yield TensorBatch(x, y, weight, n_treated, places)


def _minimise(
    torch: Any,
    parameters: Parameters,
    objective: Callable[[Weights, TensorBatch], Tensor],
    train: _Rows,
    validation: _Rows | None,
    settings: Settings,
    rng: np.random.Generator,
) -> History:
    """Descend until the validation loss has not improved for ``patience`` epochs; keep its best.

    Without validation rows: all epochs, and the last weights.
    """
    history: dict[str, list[float]] = {"train": [], "validation": []}
    best, best_loss, since = parameters.values.clone(), np.inf, 0
    most = settings.max_epochs
    for _ in track(range(most), most, f"network, at most {most} epochs"):
        batches = train.batches(settings.batch_size, rng)
        loss = _epoch(parameters, objective, batches, settings)
        history["train"].append(loss)
        if validation is not None:
            with torch.no_grad():
                batches = validation.batches(settings.batch_size, None)
                losses = [float(objective(parameters.weights, b)) * len(b.y) for b in batches]
            loss = sum(losses) / len(validation.y)
            history["validation"].append(loss)
        if not (np.isfinite(loss) and parameters.values.isfinite().all()):
            raise ValueError(
                f"the loss should stay finite, got {loss} after {len(history['train'])} epochs "
                f"with learning_rate={settings.learning_rate:g}. Use a lower learning_rate."
            )
        since = 0 if loss < best_loss or validation is None else since + 1
        if since == 0:
            best, best_loss = parameters.values.clone(), loss
        elif since >= settings.patience:
            break
    parameters.values.copy_(best)
    return {name: np.array(values) for name, values in history.items()}


def _epoch(
    parameters: Parameters,
    objective: Callable[[Weights, TensorBatch], Tensor],
    batches: Iterator[TensorBatch],
    settings: Settings,
) -> float:
    """Mean loss of the rows while the weights pass over them once."""
    total, n_rows = 0.0, 0
    for batch in batches:
        loss = objective(parameters.weights, batch)
        parameters.descend(loss, settings)
        total += float(loss.detach()) * len(batch.y)
        n_rows += len(batch.y)
    return total / n_rows


class _Game:
    """First stage of GANITE: complete the pair of outcomes so that nobody can tell the treated."""

    def __init__(
        self,
        torch: Any,
        generator: Parameters,
        discriminator: Parameters,
        binary: bool,
        alpha: float,
    ) -> None:
        self.torch, self.binary, self.alpha = torch, binary, alpha
        self.generator, self.discriminator = generator, discriminator
        self.loss, self.log_loss = _pointwise(torch, binary), _pointwise(torch, True)

    def complete(self, rows: _Rows) -> _Rows:
        """The rows with both outcomes, (n, 2): what was observed, and the generator's other one."""
        y = rows.y.new_empty(len(rows.y), 2)
        with self.torch.no_grad():
            for batch in rows.batches(_BLOCK, None):
                y[batch.places] = self.torch.stack(self.completed(batch)[1], 1)
        return _Rows(self.torch, rows.rows, y)

    def completed(self, batch: TensorBatch) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Outputs for the observed arms; (y_0, y_1): observed where known, else generated."""
        is_treated = batch.treatment()
        inputs = self.torch.cat([batch.x, is_treated[:, None], batch.y[:, None]], 1)
        control, treated = both_arms(self.generator.weights, inputs)
        observed = self.torch.where(is_treated > 0, treated, control)
        if self.binary:
            control, treated = control.sigmoid(), treated.sigmoid()
        y_0 = self.torch.where(is_treated > 0, control, batch.y)
        y_1 = self.torch.where(is_treated > 0, batch.y, treated)
        return observed, (y_0, y_1)

    def play(
        self, rows: _Rows, n_epochs: int, settings: Settings, rng: np.random.Generator
    ) -> History:
        """Mean losses by epoch: of the observed outcomes, and of the discriminator."""
        history = np.zeros((n_epochs, 2))
        for epoch in track(range(n_epochs), n_epochs, f"generator, {n_epochs} epochs"):
            for batch in rows.batches(settings.batch_size, rng):
                history[epoch] += np.array(self._round(batch, settings)) * len(batch.y)
        history /= len(rows.rows.y)
        if not np.isfinite(history).all():
            raise ValueError(
                f"the generator's loss should stay finite, got nan or infinity with alpha="
                f"{self.alpha:g} and learning_rate={settings.learning_rate:g}. Lower one of them."
            )
        return {"generator": history[:, 0], "discriminator": history[:, 1]}

    def _round(self, batch: TensorBatch, settings: Settings) -> tuple[float, float]:
        with self.torch.no_grad():
            _, pair = self.completed(batch)
        for _ in range(DISCRIMINATOR_STEPS):
            self.discriminator.descend(self._telling(batch, pair), settings)
        observed, pair = self.completed(batch)
        factual = (batch.weight * self.loss(observed, batch.y)).sum() / len(batch.y)
        telling = self._telling(batch, pair)
        self.generator.descend(factual - self.alpha * telling, settings)
        return float(factual.detach()), float(telling.detach())

    def _telling(self, batch: TensorBatch, pair: tuple[Tensor, Tensor]) -> Tensor:
        """Log-loss of the discriminator's guess of the treatment."""
        inputs = self.torch.cat([batch.x, pair[0][:, None], pair[1][:, None]], 1)
        guess = output(layers_of(self.discriminator.weights, "discriminator"), inputs)
        losses = self.log_loss(guess, batch.treatment())
        return (batch.weight * losses).sum() / len(batch.y)


def _pointwise(torch: Any, binary: bool) -> Callable[[Tensor, Tensor], Tensor]:
    """Log-loss of log-odds, or squared error."""
    softplus = torch.nn.functional.softplus
    if binary:
        return lambda outputs, y: softplus(outputs) - y * outputs
    return lambda outputs, y: (outputs - y) ** 2


_threads_lock = threading.Lock()
_threads = {"fits": 0, "before": 1}


@contextmanager
def _alone(torch: Any) -> Iterator[None]:
    """Let torch use one thread, and gradients, inside; restore its threads after the last fit."""
    with _threads_lock:
        if _threads["fits"] == 0:
            _threads["before"] = torch.get_num_threads()
        _threads["fits"] += 1
        torch.set_num_threads(1)
    try:
        with torch.enable_grad():
            yield
    finally:
        with _threads_lock:
            _threads["fits"] -= 1
            if _threads["fits"] == 0:
                torch.set_num_threads(_threads["before"])
