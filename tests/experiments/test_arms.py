"""Who gets which of several treatments: a small trial whose truth is known."""

import pytest
from experiments import arms
from experiments.harness import Task
from tests.experiments.made_up import rows_of

pytestmark = pytest.mark.gate

OTHERS = "each arm helps others"


def test_lines_hold_gains_and_the_truth(monkeypatch):
    monkeypatch.setattr(arms, "ROWS", 1_500)
    monkeypatch.setattr(arms, "NEW_PEOPLE", 2_000)
    line = arms.run(Task(arms.NAME, OTHERS, "tm", 0))
    assert sum(line["rows"].values()) == 1_500
    assert len(line["truth"]) == len(line["policy"]["gain"]) == 4
    # Everybody gets the arm that helps, or nearly so: .15 at most, .075 by either arm alone.
    assert 0.1 < line["truth"][-1] <= 0.15
    assert line["policy"]["gain"][-1] == pytest.approx(line["truth"][-1], abs=0.08)
    alone = [own[-1] for own in line["singles"].values() if own[-1] is not None]
    assert max(alone, default=0.0) < line["policy"]["gain"][-1]
    ((_, estimate, true, inside, _),) = rows_of(arms.render([line]), f"{OTHERS}, 100% of people")
    assert float(estimate) == pytest.approx(line["policy"]["gain"][-1], abs=5e-5)
    assert float(true) == pytest.approx(line["truth"][-1], abs=5e-5)
    assert inside == f"{sum(map(bool, arms.insides(line)[-1:]))} of 1"


def test_tasks_are_real_trials_and_populations():
    tasks = arms.tasks()
    assert len(tasks) == len(set(tasks)) == 3 + 4 * arms.SEEDS
    assert len(arms.tasks(1)) == 3 + 4
