"""Models by their names."""

import pytest

from auucmax.data.outcomes import BINARY, MONEY
from auucmax.model.by_name import COMPARABLE, IN_PIECES, MODELS, RIVALS, able_models


@pytest.mark.parametrize("name", [*COMPARABLE])
def test_a_name_makes_a_model_with_the_seed(name):
    made = COMPARABLE[name](7)
    assert made.get_params(deep=False).get("random_state", 7) == 7
    assert made is not COMPARABLE[name](7)


def test_names_that_are_singled_out_are_models():
    named = {*IN_PIECES, *RIVALS, *(rival for rivals in RIVALS.values() for rival in rivals)}
    assert named <= set(MODELS)


def test_all_learn_from_responses_and_some_from_money():
    assert able_models(BINARY) == set(COMPARABLE)
    assert {"auto", "shrunk", "boosted", "auucmax"} <= able_models(MONEY) < set(COMPARABLE)
