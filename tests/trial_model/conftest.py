import pytest
from tests.trial_model.arms_table import shared_arms_model


@pytest.fixture(scope="session")
def arms_model():
    return shared_arms_model()
