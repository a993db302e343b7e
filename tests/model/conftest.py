import numpy as np
import pytest
from tests.model.arms_table import shared_arms_model

from auucmax import make_trial
from auucmax.model import Judged, evidence_of


@pytest.fixture(scope="session")
def arms_model():
    return shared_arms_model()


@pytest.fixture(scope="session")
def judged():
    trial = make_trial(5_000, n_features=4, ate=0.1, heterogeneity=0.9, random_state=1)
    return Judged(trial.y, np.asarray(trial.effect), trial.treatment == 1)


@pytest.fixture(scope="session")
def evidence(judged):
    noise = np.random.default_rng(0).random(len(judged.y))
    return evidence_of(judged, rivals={"noise": noise}, predicted=judged.score)
