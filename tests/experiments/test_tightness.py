import numpy as np
import pytest
from experiments import tightness
from experiments.trials import load_split

pytestmark = pytest.mark.gate


@pytest.fixture(scope="module")
def lines():
    return [tightness.run(task) for task in tightness.tasks(1) if task.trial == "Hillstrom women"]


def test_a_split_of_hillstrom(lines):
    assert [line["model"] for line in lines] == list(tightness.MODELS)
    for line in lines:
        assert set(line["certificates"]) == set(tightness.METHODS)
        gain_gap, gain, gap, lower = line["certificates"]["betting"]
        assert 0.002 < gain_gap < 0.0033
        assert 0.004 < gap < 0.0065
        assert 0 < gain < lower


def test_what_is_not_met_is_said(lines):
    said = tightness.render(lines)
    assert "gap of the gain at most 0.0033: met" in said
    assert "household" not in said
    worse = [
        line | {"certificates": line["certificates"] | {"betting": [0.004, -0.001, 0.004, 0.02]}}
        for line in lines
    ]
    said = tightness.render([*worse, lines[0] | {"trial": "neighbours"}])
    assert "gap of the gain at most 0.0033: **not met** (0.00400)" in said
    assert "**not met** (0 of 1" in said
    assert "household" in said


def test_the_predicted_outcome_takes_noise_off():
    train, test = load_split("Hillstrom women", 0, tightness.TEST_SIZE)
    predicted, (low, high) = tightness.predicted_outcome(train, test)
    assert 0 < low < test.y.mean() < high < 1
    assert predicted.mean() == pytest.approx(test.y.mean(), abs=0.01)
    assert np.var(test.y - predicted) < 0.99 * np.var(test.y)
