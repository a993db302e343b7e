import numpy as np
import pytest

from auucmax import make_trial


@pytest.fixture(scope="module")
def trial():
    return make_trial(4000, n_features=6, heterogeneity=0.8, base_rate=0.3, random_state=0)


@pytest.fixture(scope="module")
def rows(trial):
    X = trial.X.to_numpy(np.float64) * [1, 10, 0.1, 1, 1, 1] + [0, 5, 0, -3, 0, 0]
    return X, trial.y, trial.treatment
