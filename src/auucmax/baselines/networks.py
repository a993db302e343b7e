"""TARNet, CFRNet (including BNN) and GANITE: networks with one output per arm, in torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from auucmax._errors import InputError
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


@dataclass(kw_only=True, eq=False, repr=False)
class NetworkEstimator(UpliftEstimator):
    """Base class of the networks: training settings, ``fit`` and ``predict``."""

    learning_rate: float = 1e-3
    l2: float = 3e-3
    batch_size: int | None = 512
    max_epochs: int = 200
    patience: int = 10
    validation_share: float = 0.2
    random_state: int | Generator | None = None

    def _fit(
        self, X: NDArray[Any], y: Floats, treated: Bools, sample_weight: Floats | None
    ) -> None:
        self._check_parameters()
        import_optional("torch", extra="deep")
        if np.ptp(y) == 0:
            raise InputError(
                "y", "of two levels at least", f"{y[0]:g} in all rows", "There is nothing to learn."
            )
        X = X.astype(np.float64)
        self.scaler_ = StandardScaler().fit(X, sample_weight=sample_weight)
        self.scaler_.scale_[np.ptp(X, axis=0) == 0] = np.inf  # a constant column becomes 0
        self.binary_ = bool(np.isin(y, (0, 1)).all())
        self.y_scale_ = 1.0
        if not self.binary_:
            y = y - np.average(y, weights=sample_weight)
            largest = np.abs(y).max()  # no square overflows
            self.y_scale_ = float(
                largest * np.sqrt(np.average((y / largest) ** 2, weights=sample_weight))
            )
        networks, self.history_ = self._train(
            self.scaler_.transform(X),
            y / self.y_scale_,
            treated,
            sample_weight,
            np.random.default_rng(self.random_state),
        )
        # In double precision a row's score does not depend on the rows around it.
        self.network_ = networks[-1].double()
        self.n_parameters_ = sum(p.numel() for network in networks for p in network.parameters())
        self.n_epochs_ = len(self.history_["train"])

    def _predict(self, X: NDArray[Any]) -> Floats:
        from auucmax.baselines.torch_networks import uplift

        rows = self.scaler_.transform(X.astype(np.float64))
        return uplift(self.network_, rows, self.binary_) * self.y_scale_

    def _train(self, *rows: Any) -> tuple[list[Any], dict[str, Floats]]:
        """Trained networks, of which the last one scores, and losses by epoch.

        ``rows`` are scaled features and outcomes, treatment, weights and a generator.
        """
        raise NotImplementedError

    def _check_parameters(self) -> None:
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
    learning_rate, l2, batch_size : settings of Adam. A batch has at least 2 rows, and the arms have
        their shares of all rows. ``batch_size=None``: all rows at once.
    max_epochs, patience : training ends when the loss of the validation rows has not fallen for
        ``patience`` epochs; the weights of the best epoch are kept.
    validation_share : share of the rows, stratified by arm and outcome level. 0, or too few rows
        for both arms to be in both parts: train for ``max_epochs``.
    random_state : seed of the initial weights, the validation rows and the batches.
    control : label of the control group, when treatment is not 0/1.

    Attributes
    ----------
    network_ : the ``torch.nn.Module`` of the best epoch, in double precision.
    scaler_ : the scaler of the features.
    n_parameters_ : number of weights.
    history_ : losses by epoch, "train" and "validation".
    n_epochs_ : epochs run.

    Notes
    -----
    Training uses one thread of torch and none of its random generators: the same seed gives the
    same network, whatever the settings of torch; other processors or versions may round
    differently.

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
    # Parameters of CFRNet, as they are here.
    ipm = "mmd-linear"
    alpha = 0.0
    one_head = False
    normalise = False

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

    def _train(self, *rows: Any) -> tuple[list[Any], dict[str, Floats]]:
        from auucmax.baselines.torch_networks import train_heads

        return train_heads(self, *rows)


@dataclass(kw_only=True, eq=False, repr=False)
class CFRNet(TARNet):
    """TARNet with a penalty on the distance between the arms' representations; BNN with one head.

    Minimises, with Phi_T and Phi_C the representations of the treated and the control rows,

        mean of w_i loss(h_{t_i}(Phi(x_i)), y_i) + alpha IPM(Phi_T, Phi_C)
        + l2 / 2 * (sum of squared weights)

    (Shalit, Johansson and Sontag, 2017, eq. 3). In a randomised trial the arms have the same
    distribution, and the penalty only keeps Phi from overfitting their differences.

    Parameters
    ----------
    ipm : "mmd-linear", "mmd-rbf" or "wasserstein", computed in each batch. A batch with fewer than
        two rows of an arm has no penalty, and gives a warning.
    alpha : weight of the penalty; 0 is TARNet. Two batches of one distribution have a linear and a
        Wasserstein distance above 0, so a large alpha makes Phi flat instead of balanced.
    one_head : a single head that takes Phi(x) and t (BNN: Johansson, Shalit and Sontag, 2016)
        instead of a head for each arm.
    normalise : divide each Phi(x) by its norm, so that the penalty cannot be met by shrinking it.
    shared, heads, learning_rate, l2, batch_size, max_epochs, patience, validation_share, \
random_state, control : as for :class:`TARNet`. The validation loss includes the penalty.

    Attributes
    ----------
    network_, scaler_, n_parameters_, history_, n_epochs_ : as for :class:`TARNet`.

    Examples
    --------
    >>> from auucmax import make_trial
    >>> trial = make_trial(2_000, n_features=22, random_state=0)
    >>> model = CFRNet(ipm="wasserstein", one_head=True, max_epochs=2, random_state=0)
    >>> model.fit(trial.X, trial.y, treatment=trial.treatment).n_parameters_
    14081
    """

    ipm: str = "mmd-linear"
    alpha: float = 0.1
    one_head: bool = False
    normalise: bool = False

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
    instead of log-loss.

    Parameters
    ----------
    hidden : width of all layers: two shared ones and one in each head of G and I, two in D.
    alpha : weight of the discriminator in the loss of G. (1 in the authors' code; they tried up to
        1000.)
    generator_epochs : epochs of the first stage, which cannot stop early: G sees the outcome that
        it has to return.
    learning_rate, l2, batch_size, validation_share, random_state, control : as for
        :class:`TARNet`.
    max_epochs, patience : for the second stage, as for :class:`TARNet`.

    Attributes
    ----------
    network_ : I alone, which is all that scoring needs.
    n_parameters_ : number of parameters of G, D and I, which are all trained.
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

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_whole(self.hidden, "hidden", 1)
        check_positive(self.alpha, "alpha", "0 turns it off.", or_zero=True)
        check_whole(self.generator_epochs, "generator_epochs", 1)

    def _train(self, *rows: Any) -> tuple[list[Any], dict[str, Floats]]:
        from auucmax.baselines.torch_networks import train_ganite

        return train_ganite(self, *rows)
