import pytest
from tests.campaign.campaigns import make_model, run_campaign


@pytest.fixture(scope="session")
def model():
    return make_model()


@pytest.fixture(scope="session")
def campaign(model):
    """The rows, the list and the truth."""
    return run_campaign(model)
