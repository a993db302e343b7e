"""How often bounds fail: a few trials, and the truth against large samples."""

import json

import numpy as np
import pytest
from experiments import coverage
from experiments.harness import Task, task_of
from experiments.known_populations import POPULATIONS
from experiments.models import rounded, start_line
from tests.experiments.made_up import rows_of

from auucmax import auuc_inference, auuc_score

pytestmark = pytest.mark.gate


def line_of(task, found):
    line = start_line(task, coverage.parameters(task)) | rounded(found) | {"fit_seconds": 0.0}
    return json.loads(json.dumps(line))


@pytest.fixture(scope="module")
def lines():
    """Two trials of each population, and a small counterexample."""
    found = []
    for name in POPULATIONS:
        task = Task(coverage.NAME, name, coverage.SIMULATION, 3)
        found.append(line_of(task, coverage.run_chunk(task, trials=2, n_rows=600)))
    noise = Task(coverage.NAME, coverage.NOISE, coverage.COUNTEREXAMPLE, 0)
    return [*found, line_of(noise, coverage.run_noise(0, n_rows=320, n_features=400))]


def test_a_line_counts_trials_misses_and_gaps(lines):
    *simulated, noise = lines
    for line in simulated:
        assert set(line["bounds"]) == set(coverage.COMPETITORS)
        for by_target in line["bounds"].values():
            for trials, misses, gap in by_target.values():
                assert trials == 2
                assert 0 <= misses <= 2
                assert gap >= 0
    assert noise["paper"] > 0.05
    assert abs(noise["fresh_auuc"]) < 0.04
    assert noise["margin"] < 0
    again = coverage.run_chunk(task_of(simulated[0]), trials=2, n_rows=600)
    assert rounded(again)["bounds"] == simulated[0]["bounds"]


def test_a_bound_that_misses_too_often_is_flagged(lines):
    lines = json.loads(json.dumps(lines))
    tables = coverage._Tables(lines[:-1])
    assert tables.outside(True) == []
    lines[0]["bounds"]["mcdiarmid"]["gain"] = [100, 12, 1.0]
    assert coverage._Tables(lines[:-1]).outside(True) == ["mcdiarmid (balanced, gain)"]
    assert rows_of(coverage.render(lines), "mcdiarmid")[1][1] == "12.0% ± 3.2%**; 0.0100"
    (claim,) = coverage.claims(lines)
    assert claim.holds == "no"


@pytest.mark.parametrize("name", ["balanced", "85% treated", "strong effect"])
def test_the_truth_is_the_limit_of_samples(name):
    population = POPULATIONS[name]
    weights = population.weights(0, np.random.default_rng(0))
    y, score, treated = population.draw(weights, 400_000, np.random.default_rng(1))
    truth = population.truth(weights)
    found = auuc_inference(y, score, treatment=treated)
    assert abs(found.estimate - truth.value("auuc")) < 4 * found.standard_error
    assert abs(found.gain - truth.value("gain")) < 4 * found.gain_standard_error
    assert truth.rates == pytest.approx([y[~treated].mean(), y[treated].mean()], abs=0.006)
    # At the rates of the rows only the error of the AUCs is left, half as large.
    separate = auuc_score(y, score, treatment=treated, ranking="separate")
    assert truth.conditional("auuc", y, treated) == pytest.approx(separate, abs=0.002)
