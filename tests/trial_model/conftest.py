import pytest
from tests.trial_model.arms_table import COSTS, arms_table, fitted


@pytest.fixture(scope="session")
def arms_model():
    return fitted(arms_table(), cost=COSTS, budget=0.5)
