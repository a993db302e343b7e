import numpy as np
import pytest
from experiments import progressive
from experiments.harness import RESULTS, Task, read_lines, results_file
from tests.experiments.made_up import made_up, rows_of

pytestmark = pytest.mark.gate


def test_the_truth_of_the_population():
    """Against a large sample: 4 standard errors."""
    population = progressive.Population(treated=0.5, effect=0.2)
    rng, w = np.random.default_rng(0), np.array([1.0, 0.3, -0.2])
    x, y, treated = population.draw(200_000, rng)
    result = progressive.auuc_inference(y, x @ w, treatment=treated)
    auuc, gain = population.truth(w)
    assert result.estimate == pytest.approx(auuc, abs=4 * result.standard_error)
    assert result.gain == pytest.approx(gain, abs=4 * result.gain_standard_error)
    assert progressive.Population(0.1, 0.0).truth(w).tolist() == [0, 0]


def test_a_line_of_each_kind_and_the_page():
    name = f"{next(iter(progressive.POPULATIONS))}, 600 rows"
    task = Task("progressive", name, progressive.SIMULATION, 0)
    found = progressive.run_simulation(task, trials=2)
    assert len(found["misses"]) == len(found["gaps"]) == 2
    line = made_up(**task._asdict()) | found | {"parameters": progressive.parameters(task)}
    (row,) = rows_of(progressive.render([line]), name)
    assert float(row[3]) == pytest.approx(found["gaps"][1] / 50, abs=5e-5)


def test_what_the_kept_lines_show():
    lines = read_lines(results_file("progressive", RESULTS))
    simulated = [line for line in lines if line["model"] == progressive.SIMULATION]
    for trial in {line["trial"] for line in simulated}:
        own = [line for line in simulated if line["trial"] == trial]
        n = sum(line["parameters"]["trials"] for line in own)
        misses = np.sum([line["misses"] for line in own], axis=0) / n
        assert (misses <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n)).all()
    hillstrom = [line for line in lines if line["trial"] == "Hillstrom women"]
    ours, other = (
        np.mean([line[name]["gain"] for line in hillstrom], axis=0)
        for name in ("progressive", "hold-out")
    )
    assert ours[0] < other[0]
    assert ours[1] > other[1]
