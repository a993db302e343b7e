import pytest
from tests.model.arms_table import shared_arms_model


@pytest.fixture(scope="session")
def arms_model():
    return shared_arms_model()
