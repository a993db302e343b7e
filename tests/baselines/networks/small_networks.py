"""Networks and trials that are quick to fit."""

import pytest

from auucmax import make_trial
from auucmax.baselines.networks import (
    GANITE,
    CFRNet,
    TARNet,
)

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'auucmax[deep]'")


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
