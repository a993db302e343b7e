"""The same features and optimisers for all models, and differences that are computed."""

import pytest
from experiments import hillstrom_linear as own
from experiments.searched import RATES
from tests.experiments.made_up import made_up, rows_of

pytestmark = pytest.mark.gate


def test_every_model_has_the_same_features_and_is_solved_in_both_ways():
    for scale in own.SCALES:
        for model in RATES:
            for how in ("", "Adam"):
                made = own.MODELS[own.name_of(model, scale, how)](0)
                assert getattr(made, "scale", "min-max") == scale
                rates = getattr(made, "rates", (None,))
                if model == own.OWN:
                    rates = made.learning_rates if made.solver == "adam" else (None,)
                assert rates == (RATES[model] if how else (None,))
    number = {m: sum(task.model == m for task in own.tasks()) for m in own.MODELS}
    assert {number[model] for model in own.MANY} == {100}
    assert {number[model] for model in own.FEW} == {20}


def test_differences_are_those_of_the_lines():
    shifts = {
        own.name_of("TM", "min-max", "Adam at 0.1"): 20,
        own.name_of("TM", "min-max", "Adam at 0.5"): -100,
        own.name_of(own.OWN, "min-max"): -50,
        own.CLASS_MEANS: 48,
    }
    lines = [
        made_up(own.NAME, own.TRIAL, model, k, auuc=0.03 + 1e-5 * (shifts.get(model, 0) + k),
                auuc_separate=0.03, random=0.0226, chosen={"smallest": True})
        for k in range(3) for model in own.MODELS
    ]  # fmt: skip
    page, summary = own.render(lines), own.summary(lines)
    cells = ["+48 (0)", "", "", "", "+0 (0)", ""]
    assert rows_of(page, "class means")[0][1:] == cells
    assert rows_of(page, "TM")[0][1:5] == ["0", "+0 (0)", "+20 (0)", "-100 (0)"]
    assert "AUUC-max minus TM is -50 (0) over 3 splits; the paper has +46" in summary
    assert "moves it by 120" in summary
    assert own.summary([line for line in lines if line["model"] != "SDR"]) == ""
