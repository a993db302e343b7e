"""Models of the arena: ours, a direction that is not trained, and those of other libraries.

None has a setting that was tuned on the trials of the arena: ours and LightGBM come as they are,
the others too but for what is said beside them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from lightgbm import LGBMClassifier, LGBMRegressor
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning

from auucmax import AUUCMax, TwoModels, make_trial
from auucmax._optional import import_optional
from auucmax.estimators import BoostedEffect, ResponseModel, ShrunkInteractions, UpliftEnsemble
from auucmax.estimators.base import UpliftEstimator
from experiments.learnt import AUUCNet, OnEnsemble
from experiments.models import describe
from experiments.searched import ClassMeans, settings_of

Floats = NDArray[np.float64]
Score = Callable[[Floats], Floats]

REFERENCE, AUTO, CLASS_MEANS = "TM", "auto", "class means"
MAX_ROWS = 20_000  # that forests of other libraries learn from
TREES = 100  # of forests
FOREST_SPLITS = 5  # their fits take longer than those of all others together
#: Threads and silence: nothing that changes a tree.
QUIET: dict[str, Any] = {"n_jobs": 1, "verbose": -1}


Fit = Callable[[Floats, Floats, NDArray[np.bool_], int], Score]


class Peer(NamedTuple):
    """A model of another library: its packages, how to fit it, what is set in it, in words.

    It is trained on at most ``max_rows`` rows, and run on at most ``max_splits`` splits of a trial.
    """

    package: str
    distribution: str
    fit: Fit
    settings: str
    max_rows: int | None = None
    max_splits: int | None = None


class OfPeer(UpliftEstimator):
    """A model of another library, by its name in PEERS; of many rows it may learn from a part."""

    needs_binary = True

    def __init__(self, name: str, random_state: int = 0, control: Any = None) -> None:
        self.name = name
        self.random_state = random_state
        self.control = control

    def _fit(self, X: Any, y: Any, treated: Any, sample_weight: Any) -> None:
        peer = PEERS[self.name]
        rows = np.arange(len(y))
        if peer.max_rows is not None and len(y) > peer.max_rows:
            rng = np.random.default_rng(self.random_state)
            rows = np.sort(rng.choice(len(y), peer.max_rows, replace=False))
        self.n_rows_ = len(rows)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of names of columns, and of things to come
            self.score_ = peer.fit(X[rows], y[rows], treated[rows], self.random_state)

    def _predict(self, X: Any) -> Floats:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.asarray(self.score_(X), dtype=np.float64).ravel()


def _sklift(words: str, make: Callable[[Any], Any]) -> Peer:
    """A model of scikit-uplift, made from its module of models."""

    def fit(X: Floats, y: Floats, treated: Any, seed: int) -> Score:
        model = make(import_optional("sklift.models", extra="bench"))
        return model.fit(X, y.astype(int), treated.astype(int)).predict

    return Peer("sklift", "scikit-uplift", fit, words)


def _lightgbm() -> LGBMClassifier:
    return LGBMClassifier(**QUIET)


def _x_learner(X: Floats, y: Floats, treated: Any, seed: int) -> Score:
    meta = import_optional("causalml.inference.meta", extra="bench")
    model = meta.BaseXClassifier(LGBMClassifier(**QUIET), LGBMRegressor(**QUIET))
    share = float(treated.mean())
    model.fit(X, treated.astype(int), y.astype(int), p=np.full(len(X), share))
    return lambda rows: model.predict(rows, p=np.full(len(rows), share), verbose=False)


def _uplift_forest(X: Floats, y: Floats, treated: Any, seed: int) -> Score:
    tree = import_optional("causalml.inference.tree", extra="bench")
    model = tree.UpliftRandomForestClassifier(
        "control", n_estimators=TREES, n_jobs=1, random_state=seed
    )
    model.fit(X, np.where(treated, "treated", "control"), y.astype(int))
    return lambda rows: model.predict(rows)[:, 0]


def _causal_forest(X: Floats, y: Floats, treated: Any, seed: int) -> Score:
    dml = import_optional("econml.dml", extra="bench")
    model = dml.CausalForestDML(
        model_y=LGBMClassifier(**QUIET),
        model_t=DummyClassifier(),
        discrete_outcome=True,
        discrete_treatment=True,
        n_estimators=TREES,
        n_jobs=1,
        random_state=seed,
    )
    model.fit(y.astype(int), treated.astype(int), X=X)
    return model.effect


PEERS = {
    "scikit-uplift solo": _sklift("SoloModel", lambda m: m.SoloModel(_lightgbm())),
    "scikit-uplift T": _sklift("TwoModels", lambda m: m.TwoModels(_lightgbm(), _lightgbm())),
    "scikit-uplift DDR": _sklift(
        "TwoModels, ddr_control",
        lambda m: m.TwoModels(_lightgbm(), _lightgbm(), method="ddr_control"),
    ),
    "scikit-uplift CT": _sklift(
        "ClassTransformation", lambda m: m.ClassTransformation(_lightgbm())
    ),
    "CausalML X": Peer(
        "causalml",
        "causalml",
        _x_learner,
        "BaseXClassifier of LightGBM, with the treated share as propensity",
    ),
    "CausalML forest": Peer(
        "causalml",
        "causalml",
        _uplift_forest,
        f"UpliftRandomForestClassifier of {TREES} trees",
        MAX_ROWS,
        FOREST_SPLITS,
    ),
    "EconML forest": Peer(
        "econml",
        "econml",
        _causal_forest,
        f"CausalForestDML of {TREES} trees, LightGBM for the outcome, a constant for the treatment",
        MAX_ROWS,
        FOREST_SPLITS,
    ),
}

OURS: dict[str, Callable[[int], Any]] = {
    AUTO: lambda seed: UpliftEnsemble(random_state=seed),
    "SI": lambda seed: ShrunkInteractions(random_state=seed),
    "HB": lambda seed: BoostedEffect(random_state=seed),
    "AUUCMax": lambda seed: AUUCMax(random_state=seed),
    REFERENCE: lambda seed: TwoModels(),
    "response": lambda seed: ResponseModel(),
    CLASS_MEANS: lambda seed: ClassMeans(),
}
#: AUUC-max on representations that other models have learned; run on some trials.
LEARNT: dict[str, Callable[[int], Any]] = {
    "auto + leaves": lambda seed: OnEnsemble("leaves", random_state=seed),
    "auto + logits": lambda seed: OnEnsemble("logits", random_state=seed),
    "net": lambda seed: AUUCNet(auuc_epochs=0, random_state=seed),
    "AUUCNet": lambda seed: AUUCNet(random_state=seed),
}
MODELS: dict[str, Callable[[int], Any]] = {
    **OURS,
    **LEARNT,
    **{name: (lambda seed, name=name: OfPeer(name, seed)) for name in PEERS},  # type: ignore[misc]
}


def missing_peers() -> dict[str, str]:
    """Models whose library is not installed, and what to install."""
    needed = {name: (peer.package, peer.distribution, "bench") for name, peer in PEERS.items()}
    needed |= dict.fromkeys(("net", "AUUCNet"), ("torch", "torch", "deep"))
    return {
        name: f'{distribution} is not installed; run: pip install "auucmax[{extra}]"'
        for name, (package, distribution, extra) in needed.items()
        if find_spec(package) is None
    }


def settings(name: str, seed: int) -> dict[str, Any]:
    """Every parameter of a model, of members of the ensemble too: a change makes lines stale."""
    model = MODELS[name](seed)
    found = describe(model)
    if isinstance(model, UpliftEnsemble):
        found["members"] = [settings_of(member) for member in model.new_members()]
    if name in PEERS:
        return found | {"settings": PEERS[name].settings, "max_rows": PEERS[name].max_rows}
    return found | {"fingerprint": fingerprint(name)}


@cache
def fingerprint(name: str) -> float:
    """AUUC of a model of ours on a small trial, to four digits: another model has another one.

    Parameters do not show everything: a model that chooses its folds in another way has the same
    ones, and its lines are stale all the same.
    """
    trial = make_trial(1_000, n_features=4, base_rate=0.3, heterogeneity=1.0, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = MODELS[name](0).fit(trial.X, trial.y, treatment=trial.treatment)
    return round(float(model.score(trial.X, trial.y, treatment=trial.treatment)), 4)
