import pytest
from tests.campaign.people import make_model


@pytest.fixture(scope="session")
def model():
    """A model of one arm."""
    return make_model(1)


@pytest.fixture(scope="session")
def arms_model():
    """A model of two arms."""
    return make_model(2)
