"""TARNet, CFRNet (including BNN) and GANITE: networks with one output per arm, in torch."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from auucmax._errors import InputError, level_of_caller
from auucmax._optional import import_optional
from auucmax._validation import (
    Bools,
    Floats,
    check_choice,
    check_level,
    check_positive,
    check_whole,
)
from auucmax.estimators.base import UpliftEstimator
from auucmax.estimators.scaling import fit_scaling

SCALES = ("z-score", "min-max")


@dataclass(frozen=True)
class Scales:
    """Scaling of features, (x - shift) * factor, and of outcomes that are not 0/1."""

    shift: Floats
    factor: Floats
    binary: bool
    y_mean: float = 0.0
    y_scale: float = 1.0

    def features(self, X: NDArray[Any]) -> Floats:
        """Scaled rows, (n, d)."""
        return np.asarray((X - self.shift) * self.factor, dtype=np.float64)


def fit_scales(X: NDArray[Any], y: Floats, weight: Floats | None, kind: str) -> Scales:
    """Compute the scales of these rows; a constant column gets factor 0."""
    scaling = fit_scaling(X, "min-max")
    shift, factor = scaling.shift, scaling.factor
    if kind == "z-score":
        scaler = StandardScaler().fit(X, sample_weight=weight)
        shift, factor = scaler.mean_, np.where(factor > 0, 1 / scaler.scale_, 0.0)
    if np.ptp(y) == 0:
        raise InputError(
            "y", "of two levels at least", f"{y[0]:g} in all rows", "There is nothing to learn."
        )
    if np.isin(y, (0, 1)).all():
        return Scales(shift, factor, binary=True)
    y_mean = float(np.average(y, weights=weight))
    largest = float(np.abs(y - y_mean).max())  # no square overflows
    y_scale = largest * np.sqrt(np.average(((y - y_mean) / largest) ** 2, weights=weight))
    return Scales(shift, factor, binary=False, y_mean=y_mean, y_scale=float(y_scale))


@dataclass(kw_only=True, eq=False, repr=False)
class NetworkEstimator(UpliftEstimator):
    """Base class of the networks: training settings, ``fit`` and ``predict``."""

    learning_rate: float = 1e-3
    l2: float = 3e-3
    batch_size: int | None = 512
    max_epochs: int = 200
    patience: int = 10
    validation_share: float = 0.2
    scale: str = "z-score"
    random_state: int | Generator | None = None
    control: Any = None

    _balanced: ClassVar[bool] = True  # whether both arms have the same total weight

    def _fit(
        self, X: NDArray[Any], y: Floats, treated: Bools, sample_weight: Floats | None
    ) -> None:
        self._check_parameters()
        import_optional("torch", extra="deep")
        from auucmax.baselines import torch_networks

        rng = np.random.default_rng(self.random_state)
        scales = fit_scales(X, y, sample_weight, self.scale)
        with torch_networks.one_thread(gradients=True):
            networks = self._networks(X.shape[1])
            for network in networks:
                torch_networks.initialise(network, rng)
            rows, validation = torch_networks.split_rows(
                scales.features(X),
                (y - scales.y_mean) / scales.y_scale,
                treated,
                sample_weight,
                validation_share=self.validation_share,
                balanced=self._balanced,
                rng=rng,
            )
            self.history_ = self._train(networks, rows, validation, scales.binary, rng)
        self.scales_ = scales
        # In double precision a row's score does not depend on the rows around it.
        self.network_ = networks[-1].double()
        self.n_parameters_ = sum(p.numel() for network in networks for p in network.parameters())
        self.n_epochs_ = len(self.history_["train"])

    def _predict(self, X: NDArray[Any]) -> Floats:
        from auucmax.baselines.torch_networks import BLOCK, uplift

        scales, effect = self.scales_, np.empty(len(X))
        for start in range(0, len(X), BLOCK):
            part = slice(start, start + BLOCK)
            effect[part] = uplift(self.network_, scales.features(X[part]), scales.binary)
        return effect * scales.y_scale

    @property
    def weights_(self) -> dict[str, NDArray[Any]]:
        """Weights of the scoring network, by name."""
        return {name: tensor.numpy() for name, tensor in self.network_.state_dict().items()}

    def _networks(self, n_features: int) -> list[Any]:
        """The networks to train; the last one produces the scores."""
        raise NotImplementedError

    def _train(
        self, networks: list[Any], rows: Any, validation: Any, binary: bool, rng: Generator
    ) -> dict[str, Floats]:
        raise NotImplementedError

    def _check_parameters(self) -> None:
        check_choice(self.scale, "scale", SCALES)
        check_positive(self.learning_rate, "learning_rate", "Try 0.001.")
        check_positive(self.l2, "l2", "0 turns it off.", or_zero=True)
        check_whole(self.max_epochs, "max_epochs", 1)
        check_whole(self.patience, "patience", 1)
        if self.validation_share != 0:
            check_level(self.validation_share, "validation_share")
        # With two rows a batch, the larger arm has a row for every batch: none is empty.
        if self.batch_size is not None:
            check_whole(self.batch_size, "batch_size", 2)


@dataclass(kw_only=True, eq=False, repr=False)
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
    network_ : the ``torch.nn.Module`` of the best epoch, in double precision. weights_ : its
        weights, name -> array.
    n_parameters_ : number of weights.
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

    shared: Sequence[int] = (64, 64)
    heads: Sequence[int] = (64, 64)

    # What CFRNet adds; 0 turns the penalty off.
    ipm: ClassVar[Any] = "mmd-linear"
    alpha: ClassVar[Any] = 0.0
    one_head: ClassVar[Any] = False
    normalise: ClassVar[Any] = False

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("shared", "heads"):
            widths = getattr(self, name)
            if np.ndim(widths) != 1:
                raise InputError(
                    name, "a list of widths of layers", repr(widths), "Pass for example (64, 64)."
                )
            for width in widths:
                check_whole(width, f"each width of {name}", 1)

    def _networks(self, n_features: int) -> list[Any]:
        from auucmax.baselines.torch_networks import TwoArms

        return [
            TwoArms(
                n_features,
                self.shared,
                self.heads,
                one_head=self.one_head,
                normalise=self.normalise,
            )
        ]

    def _train(
        self, networks: list[Any], rows: Any, validation: Any, binary: bool, rng: Generator
    ) -> dict[str, Floats]:
        from auucmax.baselines.torch_networks import train_heads

        parts = [rows] if validation is None else [rows, validation]
        fewest = min(part.fewest_of_an_arm(self.batch_size) for part in parts)
        if self.alpha and fewest < 2:
            warnings.warn(
                f"CFRNet should have at least 2 rows of each arm in every batch, got {fewest} in "
                f"some batches with batch_size={self.batch_size}: these batches have no penalty. "
                f"Use a larger batch_size, more rows of the smaller arm, or alpha=0.",
                UserWarning,
                stacklevel=level_of_caller(),
            )
        return train_heads(self, networks[0], rows, validation, binary, rng)


@dataclass(kw_only=True, eq=False, repr=False)
class CFRNet(TARNet):
    """TARNet with a penalty on the distance between the arms' representations; BNN with one head.

    Minimises, with Phi_T and Phi_C the representations of the treated and the control rows,

        mean of w_i loss(h_{t_i}(Phi(x_i)), y_i) + alpha IPM(Phi_T, Phi_C)
        + l2 / 2 * (sum of squared weights)

    (Shalit, Johansson and Sontag, 2017, eq. 3). In a randomised trial the arms have one
    distribution to begin with, and the penalty only keeps Phi from overfitting their differences.

    Parameters
    ----------
    ipm : "mmd-linear", "mmd-rbf" or "wasserstein", computed in each batch. A batch with fewer than
        two rows of an arm has no penalty, and gives a warning.
    alpha : weight of the penalty; 0 is TARNet. Two batches of one distribution have a linear and a
        Wasserstein distance above 0, so a large alpha makes Phi flat instead of balanced.
    one_head : a single head that takes Phi(x) and t (BNN: Johansson, Shalit and Sontag, 2016)
        instead of a head for each arm.
    normalise : divide each Phi(x) by its norm, so that the penalty cannot be met by shrinking it.
    shared, heads, learning_rate, l2, batch_size, max_epochs, patience, validation_share, scale, \
random_state, control : as for :class:`TARNet`. The validation loss includes the penalty.

    Attributes
    ----------
    network_, weights_, n_parameters_, history_, n_epochs_ : as for :class:`TARNet`.

    Examples
    --------
    >>> from auucmax import make_trial
    >>> trial = make_trial(2_000, n_features=22, random_state=0)
    >>> model = CFRNet(ipm="wasserstein", one_head=True, max_epochs=2, random_state=0)
    >>> model.fit(trial.X, trial.y, treatment=trial.treatment).n_parameters_
    14081
    """

    ipm: str = "mmd-linear"  # type: ignore[misc]
    alpha: float = 0.1  # type: ignore[misc]
    one_head: bool = False  # type: ignore[misc]
    normalise: bool = False  # type: ignore[misc]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice(self.ipm, "ipm", ("mmd-linear", "mmd-rbf", "wasserstein"))
        check_positive(self.alpha, "alpha", "0 turns it off.", or_zero=True)


@dataclass(kw_only=True, eq=False, repr=False)
class GANITE(NetworkEstimator):
    """A generator imputes counterfactual outcomes, from which a network learns both arms.

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
    network_, weights_ : of I alone, which is all that scoring needs.
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

    hidden: int = 30
    alpha: float = 10.0
    generator_epochs: int = 20
    batch_size: int | None = 256

    _balanced = False

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_whole(self.hidden, "hidden", 1)
        check_positive(self.alpha, "alpha", "0 turns it off.", or_zero=True)
        check_whole(self.generator_epochs, "generator_epochs", 1)

    def _networks(self, n_features: int) -> list[Any]:
        from auucmax.baselines.torch_networks import TwoArms, one_output

        width = self.hidden
        generator = TwoArms(n_features + 2, (width, width), (width,))
        discriminator = one_output([n_features + 2, width, width])
        return [generator, discriminator, TwoArms(n_features, (width, width), (width,))]

    def _train(
        self, networks: list[Any], rows: Any, validation: Any, binary: bool, rng: Generator
    ) -> dict[str, Floats]:
        from auucmax.baselines.torch_networks import Game, train_ganite

        generator, discriminator, scorer = networks
        game = Game(
            generator,
            discriminator,
            binary=binary,
            alpha=self.alpha,
            learning_rate=self.learning_rate,
            l2=self.l2,
        )
        return train_ganite(self, game, self.generator_epochs, scorer, rows, validation, rng)
