import numpy as np
import pytest
from experiments import hillstrom_linear as own
from experiments.harness import Task
from experiments.searched import RATES

pytestmark = pytest.mark.gate


def made_up(shifts, splits=3):
    """Lines with AUUC = .03 + noise of the split + a shift by model, in units of .00001."""
    lines = []
    for seed in range(splits):
        for model in own.MODELS:
            auuc = 0.03 + 0.001 * np.cos(seed) + 1e-5 * (shifts.get(model, 0) + 0.1 * seed)
            lines.append(
                Task(own.NAME, own.TRIAL, model, seed)._asdict()
                | {
                    "versions": {"Python": "3"}, "date": "2026-01-01", "fit_seconds": 1.0,
                    "auuc": auuc, "auuc_separate": auuc, "random": 0.0226,
                    "chosen": {"smallest": True},
                }
            )  # fmt: skip
    return lines


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


@pytest.mark.parametrize(
    ("low", "said_of_it"), [(20, "by 120 and turns its sign,"), (-50, "by 50, beside")]
)
def test_the_explanation_is_chosen_by_the_lines(low, said_of_it):
    shifts = {
        own.name_of("TM", "min-max", "Adam at 0.1"): low,
        own.name_of("TM", "min-max", "Adam at 0.5"): -100,
        own.name_of(own.OWN, "min-max"): -50,
        own.CLASS_MEANS: 48,
    }
    said = own.summary(made_up(shifts))
    assert said_of_it in said
    assert "AUUC-max minus TM is -50 (0) over 3 splits; the paper has +46" in said
    assert "minus exact TM is +48 (0)" in said
    assert "is the start of AUUC-max" in said
    assert "is the start of AUUC-max" not in own.summary(made_up(shifts | {own.CLASS_MEANS: -1}))
    page = own.render(made_up(shifts))
    assert "| class means | +48 (0) |  |  |  | +0 (0) |  |" in page
    assert f"| TM | 0 | +0 (0) | {low:+d} (0) | -100 (0) | +0 (0) | +0 (0) |" in page


def test_there_is_no_summary_before_all_models_have_a_split():
    lines = [line for line in made_up({}) if line["model"] != "SDR"]
    assert own.summary(lines) == ""
