"""Who gets which of several treatments: lines of small trials, and what the page says."""

import pytest
from experiments import arms
from experiments.harness import Task

pytestmark = pytest.mark.gate

OTHERS = "each arm helps others"


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(arms, "ROWS", 1_500)
    monkeypatch.setattr(arms, "NEW_PEOPLE", 2_000)


def test_tasks_are_real_trials_and_populations():
    tasks = arms.tasks()
    assert len(tasks) == len(set(tasks)) == 3 + 4 * arms.SEEDS
    assert len(arms.tasks(1)) == 3 + 4
    assert arms.parameters(tasks[0]) == {"model": "tm", "shares": [0.1, 0.3, 0.5, 1.0], "part": 5}


def test_lines_hold_gains_and_the_truth(small):
    line = arms.run(Task(arms.NAME, OTHERS, "tm", 0))
    assert sum(line["rows"].values()) == 1_500
    assert len(line["truth"]) == len(line["policy"]["gain"]) == 4
    # Everybody gets the arm that helps, or nearly so: .15 at most, .075 by either arm alone.
    assert 0.1 < line["truth"][-1] <= 0.15
    assert line["policy"]["gain"][-1] == pytest.approx(line["truth"][-1], abs=0.08)
    alone = [own[-1] for own in line["singles"].values() if own[-1] is not None]
    assert max(alone, default=0.0) < line["policy"]["gain"][-1]
    page = arms.render([line])
    assert f"| {OTHERS}, 100% of people |" in page
    assert "held the truth" in arms.summary([line])


def test_the_page_shows_what_was_found():
    area = {"arm": "a", "area": 0.01, "area_lower": -0.01, "area_upper": 0.03}
    line = Task(arms.NAME, arms.HILLSTROM, "tm", 0)._asdict() | {
        "parameters": {}, "versions": {"numpy": "1"}, "date": "2026-01-01", "fit_seconds": 1.0,
        "rows": {"none": 10, "a": 20, "b": 30},
        "effects": {"a": [0.1, 0.05, 0.15], "b": [0.0, -0.05, 0.05]},
        "policy": {"gain": [0.01, 0.03, 0.05, 0.1], "lower": [None, 0.0, 0.0, 0.0],
                   "upper": [None, 0.1, 0.1, 0.2]},
        "given": [[0.1, 0.2, 0.3, 0.5], [0.0, 0.1, 0.2, 0.5]],
        "singles": {"a": [0.01, 0.02, 0.03, 0.1], "b": [0.0, 0.0, None, 0.0]},
        "everybody": [0.01, 0.02, 0.03, 0.1],
        "differences": {"random": area, "single": area, "everybody": area},
    }  # fmt: skip
    page = arms.render([line])
    assert "| 10% | +0.0100 | a 10%, b 0% | +0.0100 | +0.0000 | +0.0100 |" in page
    assert "| 50% | +0.0500 (+0.0000 to +0.1000) | a 30%, b 20% | +0.0300 | - | +0.0300 |" in page
    assert "against a alone, by its ranking +0.0100 (-0.0100 to +0.0300)" in page
    assert "Hillstrom (tm) +0.0100 (-0.0100 to +0.0300)" in arms.summary([line])
