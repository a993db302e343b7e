"""Models by their names."""

import pytest

from auucmax.model.registry import COMPARABLE, MODELS, RIVALS, able_models
from auucmax.results import Kind


@pytest.mark.parametrize("name", [*COMPARABLE])
def test_a_name_makes_a_model_with_the_seed(name):
    made = COMPARABLE[name](7)
    assert made.get_params(deep=False).get("random_state", 7) == 7
    assert made is not COMPARABLE[name](7)


def test_names_that_are_singled_out_are_models():
    named = {*RIVALS, *(rival for rivals in RIVALS.values() for rival in rivals)}
    assert named <= set(MODELS)


def test_all_models_can_be_trained_on_0_1_outcomes_and_some_on_money():
    assert set(able_models(Kind.BINARY)) == set(COMPARABLE)
    assert (
        {"auto", "shrunk", "boosted", "auucmax"} <= set(able_models(Kind.MONEY)) < set(COMPARABLE)
    )
