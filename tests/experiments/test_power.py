"""Promised and simulated power: the committed lines keep what the page says."""

import numpy as np
import pytest
from experiments import power
from experiments.harness import read_lines, results_file

pytestmark = pytest.mark.gate

LINES = read_lines(results_file("power"))


def test_every_case_has_its_lines():
    found = power.by_case(LINES)
    assert list(found) == [case.name for case in power.CASES]
    assert {len(own) for own in found.values()} == {power.LINES}


@pytest.mark.parametrize("name", power.BY_NAME)
def test_promises_are_within_three_points(name):
    own = [line for line in LINES if line["trial"] == name]
    for by, found in power.compared(own).items():
        assert abs(found.promised - found.simulated) <= power.TOLERANCE, (by, found)
    width = np.mean([line["width"] for line in own])
    assert own[0]["promised_width"] == pytest.approx(width, rel=0.05)


@pytest.mark.parametrize("name", [case.name for case in power.CASES[:3]])
def test_promises_of_the_lines_are_those_of_today(name):
    case = power.BY_NAME[name]
    assumed = power.promised(case)
    (line, *_) = (line for line in LINES if line["trial"] == name)
    what = {"interval": case.shows, "certificate": "guaranteed gain"}
    for by, promise in line["promised"].items():
        assert assumed.power(case.n_rows, what[by]) == pytest.approx(promise, abs=1e-6)


def test_the_same_seed_gives_the_same_line():
    case = power.CASES[1]
    first, again = (power.simulate(case, 0, trials=3) for _ in range(2))
    assert first == again
