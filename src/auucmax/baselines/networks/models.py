"""Networks with a head for each arm: TARNet, CFRNet, GANITE. They need torch to fit only."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats, check_choice, check_positive, check_whole
from auucmax.baselines.networks.network import (
    SCALES,
    Network,
    Shapes,
    chain,
    fit_scales,
    initialise,
    one_headed,
    two_headed,
)
from auucmax.baselines.networks.training import (
    IPMS,
    HeadsTask,
    History,
    NetworkRows,
    Settings,
    split_rows,
    train_ganite,
    train_heads,
)
from auucmax.estimators.base import UpliftEstimator


class NetworkEstimator(UpliftEstimator):
    """How TARNet and CFRNet are fitted, and all networks score."""

    network_: Network
    random_state: int | np.random.Generator | None
    scale: str
    validation_share: float

    def _fit(
        self, X: NDArray[Any], y: Floats, treated: Bools, sample_weight: Floats | None
    ) -> None:
        settings, task = check_settings(self), self._task()
        rng = np.random.default_rng(self.random_state)
        start = initialise(self._shapes(X.shape[1]), rng)
        scales = fit_scales(X, y, sample_weight, self.scale)
        rows = split_rows(
            X, y, treated, sample_weight, scales,
            validation_share=self.validation_share, balanced=True, rng=rng,
        )  # fmt: skip
        if task.alpha:
            warn_of_lost_penalty(*rows, settings.batch_size)
        weights, history = train_heads(
            start, *rows, binary=scales.binary, task=task, settings=settings, rng=rng
        )
        keep(self, Network(weights, scales, task.normalise), history)

    def _predict(self, X: NDArray[Any]) -> Floats:
        return self.network_.uplift(X)

    def _task(self) -> Any:
        return HeadsTask()

    def _shapes(self, n_features: int) -> Shapes:
        return two_headed(n_features, check_widths(self, "shared"), check_widths(self, "heads"))


class TARNet(NetworkEstimator):
    """A shared representation and a head for each arm (Shalit, Johansson and Sontag, 2017).

    Minimises, over the weights of Phi, h_0 and h_1,

        mean of w_i loss(h_{t_i}(Phi(x_i)), y_i) + l2 / 2 * (sum of squared weights)

    where w_i gives both arms the same total; log-loss for 0/1 outcomes, else the squared error of
    standardised outcomes. score(x) = the mean outcome of h_1 minus that of h_0 at Phi(x).

    Parameters
    ----------
    shared, heads : widths of the rectified layers of Phi, and of each head before its output.
    learning_rate, l2, batch_size : of Adam. A batch has at least 2 rows, and each arm the share
        that it has of all rows. ``batch_size=None``: all rows at once.
    max_epochs, patience : training ends when the loss of the validation rows has not fallen for
        ``patience`` epochs; the weights of the best epoch are kept.
    validation_share : of the rows, drawn from each arm and level of the outcome. 0, or too few
        rows for both arms to be in both parts: train for ``max_epochs``.
    scale : "z-score" or "min-max", of the features. Part of the model.
    random_state : of the starting weights, the validation rows and the batches.
    control : label of the control group, when treatment is not 0/1.

    Attributes
    ----------
    weights_ : name -> array, the weights of the best epoch. Scoring uses numpy only.
    n_parameters_ : how many numbers they hold.
    history_ : losses by epoch, "train" and "validation".
    n_epochs_ : epochs run.

    Notes
    -----
    Training uses one thread of torch and none of its random generators: the same seed gives the
    same network, whatever torch is set to; other processors or versions may round differently.

    Examples
    --------
    >>> from auucmax import make_trial
    >>> trial = make_trial(2_000, n_features=22, random_state=0)
    >>> model = TARNet(max_epochs=2, random_state=0).fit(
    ...     trial.X, trial.y, treatment=trial.treatment
    ... )
    >>> model.n_parameters_, model.n_epochs_
    (22402, 2)
    >>> model.predict(trial.X).shape
    (2000,)
    """

    def __init__(
        self,
        *,
        shared: Sequence[int] = (64, 64),
        heads: Sequence[int] = (64, 64),
        learning_rate: float = 1e-3,
        l2: float = 3e-3,
        batch_size: int | None = 512,
        max_epochs: int = 200,
        patience: int = 10,
        validation_share: float = 0.2,
        scale: str = "z-score",
        random_state: int | np.random.Generator | None = None,
        control: Any = None,
    ) -> None:
        self.shared = shared
        self.heads = heads
        self.learning_rate = learning_rate
        self.l2 = l2
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.validation_share = validation_share
        self.scale = scale
        self.random_state = random_state
        self.control = control


class CFRNet(NetworkEstimator):
    """TARNet with a penalty on the distance between the arms' representations; BNN with one head.

    Minimises, with Phi_T and Phi_C the representations of the treated and the control rows,

        mean of w_i loss(h_{t_i}(Phi(x_i)), y_i) + alpha IPM(Phi_T, Phi_C)
        + l2 / 2 * (sum of squared weights)

    (Shalit, Johansson and Sontag, 2017, eq. 3). In a randomised trial the arms have one
    distribution to begin with, and the penalty only keeps Phi from overfitting their differences.

    Parameters
    ----------
    ipm : "mmd-linear", "mmd-rbf" or "wasserstein", computed in each batch. A batch with fewer than
        two rows of an arm has no penalty; a warning says so.
    alpha : weight of the penalty; 0 is TARNet. Two batches of one distribution have a linear and a
        Wasserstein distance above 0, so a large alpha makes Phi flat instead of balanced.
    one_head : a single head that is fed with Phi(x) and t (BNN: Johansson, Shalit and Sontag,
        2016) instead of a head for each arm.
    normalise : divide each Phi(x) by its norm, so that the penalty cannot be met by shrinking it.
    shared, heads, learning_rate, l2, batch_size, max_epochs, patience, validation_share, scale, \
random_state, control : as for :class:`TARNet`. The validation loss has the penalty in it.

    Attributes
    ----------
    weights_, n_parameters_, history_, n_epochs_ : as for :class:`TARNet`.

    Examples
    --------
    >>> from auucmax import make_trial
    >>> trial = make_trial(2_000, n_features=22, random_state=0)
    >>> model = CFRNet(ipm="wasserstein", one_head=True, max_epochs=2, random_state=0)
    >>> model.fit(trial.X, trial.y, treatment=trial.treatment).n_parameters_
    14081
    """

    def __init__(
        self,
        *,
        ipm: str = "mmd-linear",
        alpha: float = 0.1,
        one_head: bool = False,
        normalise: bool = False,
        shared: Sequence[int] = (64, 64),
        heads: Sequence[int] = (64, 64),
        learning_rate: float = 1e-3,
        l2: float = 3e-3,
        batch_size: int | None = 512,
        max_epochs: int = 200,
        patience: int = 10,
        validation_share: float = 0.2,
        scale: str = "z-score",
        random_state: int | np.random.Generator | None = None,
        control: Any = None,
    ) -> None:
        self.ipm = ipm
        self.alpha = alpha
        self.one_head = one_head
        self.normalise = normalise
        self.shared = shared
        self.heads = heads
        self.learning_rate = learning_rate
        self.l2 = l2
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.validation_share = validation_share
        self.scale = scale
        self.random_state = random_state
        self.control = control

    def _task(self) -> HeadsTask:
        check_choice(self.ipm, "ipm", IPMS)
        return HeadsTask(self.ipm, _at_least_zero(self.alpha, "alpha"), bool(self.normalise))

    def _shapes(self, n_features: int) -> Shapes:
        layout = one_headed if self.one_head else two_headed
        return layout(n_features, check_widths(self, "shared"), check_widths(self, "heads"))


class GANITE(NetworkEstimator):
    """Outcomes that were not observed are made up by a generator, then both are learned.

    As in the code of Yoon, Jordon and van der Schaar (2018):

    1. a generator G(x, t, y) gives both outcomes, a discriminator D(x, y_0, y_1) sees the observed
       one in its place and guesses t; D minimises L_D, the log-loss of t, and G minimises the loss
       of the observed outcome - alpha L_D; two steps of D for one of G, on the same batch;
    2. a network I(x) with two heads learns both outcomes, the observed one and that of G.

    score(x) = I_1(x) - I_0(x). Outcomes that are not 0/1 are standardised, with squared error
    for log-loss.

    Parameters
    ----------
    hidden : width of all layers: two shared ones and one in each head of G and I, two in D.
    alpha : weight of the discriminator in the loss of G. (1 in the authors' code; they tried up to
        1000.)
    generator_epochs : of the first stage, which has no loss to stop by: G sees the outcome that
        it has to return.
    learning_rate, l2, batch_size, validation_share, scale, random_state, control : as for
        :class:`TARNet`.
    max_epochs, patience : of the second stage, as for :class:`TARNet`.

    Attributes
    ----------
    weights_ : name -> array, of I alone, which is all that scoring needs.
    n_parameters_ : of G, D and I, which are all trained.
    history_ : losses by epoch: "generator" (observed outcomes) and "discriminator" of the first
        stage, "train" and "validation" of the second.
    n_epochs_ : epochs of the second stage.

    Examples
    --------
    >>> from auucmax import make_trial
    >>> trial = make_trial(2_000, n_features=22, random_state=0)
    >>> model = GANITE(generator_epochs=2, max_epochs=2, random_state=0)
    >>> model.fit(trial.X, trial.y, treatment=trial.treatment).n_parameters_
    8855
    """

    def __init__(
        self,
        *,
        hidden: int = 30,
        alpha: float = 10.0,
        generator_epochs: int = 20,
        learning_rate: float = 1e-3,
        l2: float = 3e-3,
        batch_size: int | None = 256,
        max_epochs: int = 200,
        patience: int = 10,
        validation_share: float = 0.2,
        scale: str = "z-score",
        random_state: int | np.random.Generator | None = None,
        control: Any = None,
    ) -> None:
        self.hidden = hidden
        self.alpha = alpha
        self.generator_epochs = generator_epochs
        self.learning_rate = learning_rate
        self.l2 = l2
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.validation_share = validation_share
        self.scale = scale
        self.random_state = random_state
        self.control = control

    def _fit(
        self, X: NDArray[Any], y: Floats, treated: Bools, sample_weight: Floats | None
    ) -> None:
        settings = check_settings(self)
        alpha, n_epochs = self._task()
        rng = np.random.default_rng(self.random_state)
        layouts = *self._shapes_of_the_game(X.shape[1]), self._shapes(X.shape[1])
        generator, guesser, scorer = (initialise(shapes, rng) for shapes in layouts)
        scales = fit_scales(X, y, sample_weight, self.scale)
        rows = split_rows(
            X, y, treated, sample_weight, scales,
            validation_share=self.validation_share, balanced=False, rng=rng,
        )  # fmt: skip
        weights, history = train_ganite(
            (generator, guesser, scorer), *rows,
            binary=scales.binary, alpha=alpha, generator_epochs=n_epochs,
            settings=settings, rng=rng,
        )  # fmt: skip
        keep(self, Network(weights, scales), history)

    def _task(self) -> tuple[float, int]:
        n_epochs = check_whole(self.generator_epochs, "generator_epochs", 1)
        return _at_least_zero(self.alpha, "alpha"), n_epochs

    def _shapes(self, n_features: int) -> Shapes:
        width = check_whole(self.hidden, "hidden", 1)
        return two_headed(n_features, (width, width), (width,))

    def _shapes_of_the_game(self, n_features: int) -> tuple[Shapes, Shapes]:
        """Shapes of the generator, fed with (x, t, y), and discriminator, with (x, y_0, y_1)."""
        width = check_whole(self.hidden, "hidden", 1)
        guesser = chain("discriminator", [n_features + 2, width, width, 1])
        return self._shapes(n_features + 2), guesser


def keep(model: Any, network: Network, history: History) -> None:
    """Set the attributes of a fitted model."""
    model.network_, model.weights_ = network, network.weights
    shapes = [array.shape for array in network.weights.values()]
    if isinstance(model, GANITE):
        game = model._shapes_of_the_game(len(network.scales.shift))
        shapes += [shape for part in game for shape in part.values()]
    model.n_parameters_ = sum(math.prod(shape) for shape in shapes)
    model.history_, model.n_epochs_ = history, len(history["train"])


def check_settings(model: Any) -> Settings:
    """The settings of the descent, from parameters that are checked here."""
    check_choice(model.scale, "scale", SCALES)
    share: Any = model.validation_share
    if isinstance(share, bool) or not (isinstance(share, Real) and 0 <= float(share) < 1):
        raise ValueError(
            f"validation_share should be at least 0 and below 1, got {share!r}. 0.2 keeps a fifth "
            f"of the rows to stop by."
        )
    size = model.batch_size
    return Settings(
        learning_rate=check_positive(model.learning_rate, "learning_rate", "Try 0.001."),
        l2=_at_least_zero(model.l2, "l2"),
        # With two rows a batch, the larger arm has a row for every batch: none is empty.
        batch_size=None if size is None else check_whole(size, "batch_size", 2),
        max_epochs=check_whole(model.max_epochs, "max_epochs", 1),
        patience=check_whole(model.patience, "patience", 1),
    )


def check_widths(model: Any, name: str) -> list[int]:
    """Widths of layers, none or more."""
    widths = getattr(model, name)
    if isinstance(widths, (str, bytes)) or not isinstance(widths, (Sequence, np.ndarray)):
        raise ValueError(
            f"{name} should be a list of widths of layers, got {widths!r}. For two layers of 64, "
            f"pass (64, 64)."
        )
    return [check_whole(width, f"each width of {name}", 1) for width in widths]


def _at_least_zero(value: Any, name: str) -> float:
    return check_positive(value, name, "0 turns it off.", or_zero=True)


def warn_of_lost_penalty(
    train: NetworkRows, validation: NetworkRows | None, batch_size: int | None
) -> None:
    """Say it, once, if some batch has too few rows of an arm to compare the arms by."""
    for part, rows in (("training", train), ("validation", validation)):
        if rows is None or rows.fewest_of_an_arm(batch_size) >= 2:
            continue
        would_help = rows.fewest_of_an_arm(None) >= 2
        remedy = "a larger batch_size" if would_help else "more rows of the smaller arm"
        warnings.warn(
            f"CFRNet should have at least 2 rows of each arm in every batch, got "
            f"{rows.fewest_of_an_arm(batch_size)} in some batches of {part} rows with "
            f"batch_size={batch_size}: these batches have no penalty. Use {remedy}, or alpha=0.",
            UserWarning,
            stacklevel=4,  # the line that calls fit
        )
        return
