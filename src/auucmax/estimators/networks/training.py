"""Training: the only file that uses torch, and only once a network is fitted.

Weights start from, and batches are drawn by, a numpy generator; torch's own generators are never
used. Training runs on one thread, whatever torch is set to: the networks are too small to gain
from a second, and sums then have one order, so a seed gives the same network on the same machine.
(Another processor or another version of torch may round differently.)
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from auucmax._optional import import_optional
from auucmax._progress import is_quiet
from auucmax.estimators.networks.ipm import IPMS
from auucmax.estimators.networks.layers import (
    Weights,
    both_arms,
    head,
    layers_of,
    output,
    represent,
)
from auucmax.estimators.networks.rows import NetworkRows

__all__ = ["Fitted", "HeadsTask", "Settings", "train_ganite", "train_heads"]

Tensor = Any
Arrays = dict[str, NDArray[np.float32]]

BETAS = (0.9, 0.999)  # of Adam
DISCRIMINATOR_STEPS = 2  # for each of the generator
_BLOCK = 8_192  # rows at once where nothing is learned
_PATIENT_SECONDS = 3.0  # before a progress bar is shown


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


@dataclass(frozen=True)
class Fitted:
    """Weights of the best epoch, and losses by epoch."""

    weights: Arrays
    history: dict[str, NDArray[np.float64]]
    n_epochs: int


class Batch(NamedTuple):
    """Rows as tensors, the treated ones first."""

    x: Tensor
    y: Tensor
    weight: Tensor
    n_treated: int

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
) -> Fitted:
    """TARNet, CFRNet, BNN: mean of weight * loss(h_t(Phi(x)), y) + alpha * IPM(Phi_T, Phi_C)."""
    torch = import_optional("torch", extra="deep")
    loss = _pointwise(torch, binary)
    ipm = IPMS[task.ipm]

    def objective(weights: Weights, batch: Batch) -> Tensor:
        k = batch.n_treated
        phi = represent(weights, batch.x, normalise=task.normalise)
        outputs = head(weights, phi[:k], "treated"), head(weights, phi[k:], "control")
        total = (batch.weight * loss(torch.cat(outputs), batch.y)).sum() / len(batch.y)
        if task.alpha and min(k, len(batch.y) - k) > 1:
            total = total + task.alpha * ipm(phi[:k], phi[k:], batch.weight[:k], batch.weight[k:])
        return total

    with _alone(torch), _bar("network", settings.max_epochs) as bar:
        parameters = Parameters(torch, start)
        held = None if validation is None else _Rows(torch, validation)
        rows = _Rows(torch, train)
        history = _minimise(torch, parameters, objective, rows, held, settings, rng, bar)
    return Fitted(parameters.arrays(), history, len(history["train"]))


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
) -> Fitted:
    """Generator against discriminator, then the network that scores; ``starts`` in this order.

    Returns the weights of the last. ``settings`` are those of all three.
    """
    torch = import_optional("torch", extra="deep")
    loss = _pointwise(torch, binary)
    with _alone(torch), _bar("network", generator_epochs + settings.max_epochs) as bar:
        generator, discriminator, scorer = (Parameters(torch, start) for start in starts)
        rows = _Rows(torch, train)
        game = _Game(torch, generator, discriminator, binary, alpha)
        losses = game.play(rows, generator_epochs, settings, rng, bar)

        def objective(weights: Weights, batch: Batch) -> Tensor:
            total = loss(torch.stack(both_arms(weights, batch.x), 1), batch.y).sum(1)
            return (batch.weight * total).sum() / len(batch.y)

        held = None if validation is None else game.complete(_Rows(torch, validation))
        rows = game.complete(rows)
        history = _minimise(torch, scorer, objective, rows, held, settings, rng, bar)
    return Fitted(scorer.arrays(), losses | history, len(history["train"]))


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

    def batches(self, size: int | None, rng: np.random.Generator | None) -> Iterator[Batch]:
        return (batch for _, batch in self.indexed_batches(size, rng))

    def indexed_batches(
        self, size: int | None, rng: np.random.Generator | None
    ) -> Iterator[tuple[Tensor, Batch]]:
        for index, n_treated in self.rows.batches(size, rng):
            chosen = self._torch.from_numpy(index)
            x, y, weight = (c.index_select(0, chosen) for c in (self.x, self.y, self.weight))
            yield chosen, Batch(x, y, weight, n_treated)


def _minimise(
    torch: Any,
    parameters: Parameters,
    objective: Callable[[Weights, Batch], Tensor],
    train: _Rows,
    validation: _Rows | None,
    settings: Settings,
    rng: np.random.Generator,
    bar: Callable[[], None],
) -> dict[str, NDArray[np.float64]]:
    """Descend until the validation loss has not improved for ``patience`` epochs; keep its best.

    Without validation rows: all epochs, and the last weights.
    """
    history: dict[str, list[float]] = {"train": [], "validation": []}
    best, best_loss, since = parameters.values.clone(), np.inf, 0
    for _ in range(settings.max_epochs):
        batches = train.batches(settings.batch_size, rng)
        loss = _epoch(parameters, objective, batches, settings)
        history["train"].append(loss)
        if validation is not None:
            with torch.no_grad():
                batches = validation.batches(settings.batch_size, None)
                losses = [float(objective(parameters.weights, b)) * len(b.y) for b in batches]
            loss = sum(losses) / len(validation.y)
            history["validation"].append(loss)
        bar()
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
    objective: Callable[[Weights, Batch], Tensor],
    batches: Iterator[Batch],
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
            for chosen, batch in rows.indexed_batches(_BLOCK, None):
                y[chosen] = self.torch.stack(self.completed(batch)[1], 1)
        return _Rows(self.torch, rows.rows, y)

    def completed(self, batch: Batch) -> tuple[Tensor, tuple[Tensor, Tensor]]:
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
        self,
        rows: _Rows,
        n_epochs: int,
        settings: Settings,
        rng: np.random.Generator,
        bar: Callable[[], None],
    ) -> dict[str, NDArray[np.float64]]:
        """Mean losses by epoch: of the observed outcomes, and of the discriminator."""
        history = np.zeros((n_epochs, 2))
        for epoch in range(n_epochs):
            for batch in rows.batches(settings.batch_size, rng):
                history[epoch] += np.array(self._round(batch, settings)) * len(batch.y)
            bar()
        history /= len(rows.rows.y)
        if not np.isfinite(history).all():
            raise ValueError(
                f"the generator's loss should stay finite, got nan or infinity with alpha="
                f"{self.alpha:g} and learning_rate={settings.learning_rate:g}. Lower one of them."
            )
        return {"generator": history[:, 0], "discriminator": history[:, 1]}

    def _round(self, batch: Batch, settings: Settings) -> tuple[float, float]:
        with self.torch.no_grad():
            _, pair = self.completed(batch)
        for _ in range(DISCRIMINATOR_STEPS):
            self.discriminator.descend(self._telling(batch, pair), settings)
        observed, pair = self.completed(batch)
        factual = (batch.weight * self.loss(observed, batch.y)).sum() / len(batch.y)
        telling = self._telling(batch, pair)
        self.generator.descend(factual - self.alpha * telling, settings)
        return float(factual.detach()), float(telling.detach())

    def _telling(self, batch: Batch, pair: tuple[Tensor, Tensor]) -> Tensor:
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
    """One thread, and gradients, inside; as many threads as before when the last fit ends."""
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


@contextmanager
def _bar(name: str, total: int) -> Iterator[Callable[[], None]]:
    """A function to call after each epoch; shows a bar on a terminal once training takes long.

    Where others show their progress, or in a worker, it shows none: bars overwrite each other.
    """
    began, done, bars = time.perf_counter(), 0, None

    def advance() -> None:
        nonlocal done, bars
        done += 1
        if bars is None:
            is_early = time.perf_counter() - began < _PATIENT_SECONDS
            if is_early or is_quiet() or not sys.stderr.isatty():
                return
            from rich.console import Console
            from rich.progress import Progress

            bars = Progress(console=Console(stderr=True), transient=True)
            bars.add_task(f"{name}, at most {total} epochs", total=total)
            bars.start()
        bars.update(bars.task_ids[0], completed=done)

    try:
        yield advance
    finally:
        if bars is not None:
            bars.stop()
