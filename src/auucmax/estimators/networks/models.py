"""Networks with a head for each arm: TARNet, CFRNet, GANITE. They need torch to fit only.

A file of a fitted network is an archive of arrays with a JSON header; reading it runs no code.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auucmax._archive import ArchiveFormat, check_same_names
from auucmax._json import read
from auucmax._validation import Bools, Floats, check_choice, check_positive, check_whole
from auucmax.data.seen import SeenRows, TrainingRecord
from auucmax.estimators.base import UpliftEstimator
from auucmax.estimators.networks.network import (
    SCALES,
    Network,
    Scales,
    Shapes,
    chain,
    fit_scales,
    initialise,
    one_headed,
    two_headed,
)
from auucmax.estimators.networks.training import (
    IPMS,
    HeadsTask,
    History,
    NetworkRows,
    Settings,
    split_rows,
    train_ganite,
    train_heads,
)


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


def check_parameters(model: Any) -> None:
    """Raise a ValueError for parameters that ``fit`` would refuse before it sees a row."""
    check_settings(model)
    model._task()
    np.random.default_rng(model.random_state)


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


Model = TARNet | CFRNet | GANITE

FORMAT = ArchiveFormat("auucmax network", 3, "file of save_network")
_CLASSES: dict[str, Any] = {cls.__name__: cls for cls in (TARNet, CFRNet, GANITE)}
_FIELDS = {
    "class": str, "parameters": {...: ...}, "normalise": bool, "n_features": int,
    "feature_names": (None, [str]), "binary": bool, "y_mean": float, "y_scale": float,
    "n_parameters": int, "n_epochs": int, "trained_on": {...: ...},
}  # fmt: skip
_DTYPES = {  # by what the name begins with
    "shift": (np.float32, np.float64),
    "factor": (np.float32, np.float64),
    "weights": (np.float32,),
    "history": (np.float64,),
}


def save_network(model: Model, path: str | os.PathLike[str]) -> None:
    """Write a fitted network to ``path``, whole or not at all.

    The file is an archive of arrays that ``numpy.load(path, allow_pickle=False)`` opens, with
    the parameters as JSON. A ``random_state`` that is a generator is stored as None. What was
    fitted is stored; if the widths of layers were changed since, it is an error. Which rows it
    learnt from is not stored: whoever has the file cannot ask whether a person was in the trial.

    Examples
    --------
    >>> import tempfile
    >>> from auucmax import make_trial
    >>> trial = make_trial(500, random_state=0)
    >>> model = TARNet(max_epochs=1, random_state=0).fit(
    ...     trial.X, trial.y, treatment=trial.treatment
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_network(model, f"{folder}/tarnet.npz")
    ...     again = load_network(f"{folder}/tarnet.npz")
    >>> bool((again.predict(trial.X) == model.predict(trial.X)).all())
    True
    """
    if type(model) not in _CLASSES.values():
        raise ValueError(
            f"model should be one of {', '.join(_CLASSES)}, got {type(model).__name__}. "
            f"Other models are saved in other ways."
        )
    model._check_is_fitted()
    check_parameters(model)
    _check_widths_since_fit(model)
    FORMAT.write(path, _header(model), _arrays(model))


def load_network(path: str | os.PathLike[str]) -> Model:
    """Read a network that :func:`save_network` wrote; it scores without torch.

    It cannot tell whether rows are new to it, and :func:`auucmax.certify` says so: certify its
    scores of rows that you know to be new.

    The file must hold what a network of its kind has, no less and no more: the parameters that
    ``fit`` would take, arrays of the shapes that follow from them, finite numbers. For any other
    file there is a ModelFileError (a ValueError) of one line.
    """
    return FORMAT.read(path, _restored)


def _check_widths_since_fit(model: Model) -> None:
    has = {name: array.shape for name, array in model.network_.weights.items()}
    asks = model._shapes(model.n_features_in_)
    if has != asks:
        changed = sorted(
            name for name in has.keys() | asks.keys() if has.get(name) != asks.get(name)
        )
        name = changed[0]
        raise ValueError(
            f"the parameters should be those that {type(model).__name__} was fitted with, got "
            f"others: {name} should have shape {asks.get(name)} by them, and has {has.get(name)}. "
            f"Set the widths of layers back with set_params, or fit again."
        )


def _header(model: Model) -> dict[str, Any]:
    scales = model.network_.scales
    names = getattr(model, "feature_names_in_", None)
    return {
        "class": type(model).__name__,
        "parameters": {k: _plain(k, v) for k, v in model.get_params(deep=False).items()},
        # As fitted: the parameter of this name may have been changed since.
        "normalise": bool(model.network_.normalise),
        "n_features": int(model.n_features_in_),
        "feature_names": None if names is None else [str(name) for name in names],
        "binary": scales.binary,
        "y_mean": scales.y_mean,
        "y_scale": scales.y_scale,
        "n_parameters": int(model.n_parameters_),
        "n_epochs": model.n_epochs_,
        # Networks set no rows aside: what they were given they have learnt from.
        "trained_on": model.training_record_.learnt.forgotten().to_dict(),
    }


def _arrays(model: Model) -> dict[str, NDArray[Any]]:
    network = model.network_
    arrays: dict[str, NDArray[Any]] = {
        "shift": network.scales.shift,
        "factor": network.scales.factor,
        **{f"weights.{name}": array for name, array in network.weights.items()},
        **{f"history.{name}": array for name, array in model.history_.items()},
    }
    return {f"{name}.npy": array for name, array in arrays.items()}


def _plain(name: str, value: Any) -> Any:
    """A parameter as JSON can hold it."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.random.Generator | np.random.RandomState):
        return None
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(name, entry) for entry in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ValueError(
        f"{name} should be a number, a string or a list of them to be saved, got {value!r}. "
        f"Set it to one of these first."
    )


def _restored(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Model:
    header = read(_FIELDS, header, "its header")
    for name, array in arrays.items():
        if array.dtype not in _DTYPES.get(name.split(".")[0], ()):
            raise ValueError(f"there is no place for {name[:50]}, numbers of {array.dtype}")
    model = _unfitted(header["class"], header["parameters"])
    d = header["n_features"]
    weights = {name: arrays.pop(f"weights.{name}.npy") for name in model._shapes(d)}
    if {name: array.shape for name, array in weights.items()} != model._shapes(d):
        raise ValueError(f"the weights are not those of {header['class']} on {d} features")
    normalise = header["normalise"]
    if normalise and not isinstance(model, CFRNet):
        raise ValueError(f"{header['class']} does not normalise")
    network = Network(weights, _scales(header, arrays, d), normalise)
    n_epochs, seen = header["n_epochs"], SeenRows.from_dict(header["trained_on"], {})
    if seen.total or seen.mark:
        raise ValueError("the rows that were seen should be forgotten")
    keep(model, network, _history(model, arrays, n_epochs))
    if arrays:
        raise ValueError(f"there are unknown arrays: {', '.join(sorted(arrays))}")
    if header["n_parameters"] != model.n_parameters_:
        raise ValueError(f"n_parameters is not {model.n_parameters_}, which the arrays have")
    model.n_features_in_ = d
    model.training_record_ = TrainingRecord((seen.n_rows, 0), seen)
    if (names := header["feature_names"]) is not None:
        if len(names) != d or len(set(names)) != d:
            raise ValueError(f"there are {len(set(names))} different names of {d} features")
        model.feature_names_in_ = np.array(names, dtype=object)
    return model


def _unfitted(name: str, stored: dict[str, Any]) -> Model:
    """A model with parameters that ``fit`` would take."""
    cls = _CLASSES[name]
    check_same_names("parameters", set(stored), set(cls().get_params(deep=False)))
    plain = {key: _plain(key, value) for key, value in stored.items()}
    model: Model = cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in plain.items()})
    check_parameters(model)
    return model


def _scales(header: dict[str, Any], arrays: dict[str, NDArray[Any]], d: int) -> Scales:
    shift, factor = arrays.pop("shift.npy"), arrays.pop("factor.npy")
    if shift.shape != (d,) or factor.shape != (d,) or (factor < 0).any():
        raise ValueError(f"the scales are not those of {d} features")
    binary, y_mean, y_scale = header["binary"], header["y_mean"], header["y_scale"]
    if y_scale <= 0:
        raise ValueError(f"y_scale is {y_scale!r}")
    if binary and (y_mean, y_scale) != (0.0, 1.0):
        raise ValueError("outcomes of 0 and 1 have no other scale")
    return Scales(shift, factor, binary, y_mean, y_scale)


def _history(
    model: Model, arrays: dict[str, NDArray[Any]], n_epochs: int
) -> dict[str, NDArray[Any]]:
    """Losses by epoch, of the stages that the model has; taken out of ``arrays``."""
    first = ("generator", "discriminator") if isinstance(model, GANITE) else ()
    stages = (*first, "train", "validation")
    history = {stage: arrays.pop(f"history.{stage}.npy") for stage in stages}
    allowed = {"train": (n_epochs,), "validation": (0, n_epochs)}
    for stage, losses in history.items():
        lengths = allowed.get(stage, (len(history[stages[0]]),))
        if losses.ndim != 1 or len(losses) not in lengths:
            raise ValueError(f"the losses of {stage} have shape {losses.shape}")
    return history
