"""Certificates of a split of Hillstrom, and how their outcome model is made."""

import numpy as np
import pytest
from experiments import tightness
from experiments.trials import load_split
from tests.experiments.made_up import rows_of

pytestmark = pytest.mark.gate


def test_a_split_of_hillstrom():
    lines = [tightness.run(task) for task in tightness.tasks(1) if task.trial == "Hillstrom women"]
    assert [line["model"] for line in lines] == list(tightness.MODELS)
    for line in lines:
        assert set(line["certificates"]) == set(tightness.METHODS)
        gain_gap, gain, gap, lower = line["certificates"]["betting"]
        assert 0.002 < gain_gap < 0.0033
        assert 0.004 < gap < 0.0065
        assert 0 < gain < lower
    first, _ = rows_of(tightness.render(lines), "betting")
    assert first[-1] == f"{lines[0]['certificates']['betting'][3]:.5f}"


def test_the_predicted_outcome_takes_noise_off():
    train, test = load_split("Hillstrom women", 0, tightness.TEST_SIZE)
    predicted, (low, high) = tightness.predicted_outcome(train, test)
    assert 0 < low < test.y.mean() < high < 1
    assert predicted.mean() == pytest.approx(test.y.mean(), abs=0.01)
    assert np.var(test.y - predicted) < 0.99 * np.var(test.y)
