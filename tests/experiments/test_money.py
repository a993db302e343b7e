"""Which outcome to learn from to rank by money: lines of small trials, and what the page says."""

import numpy as np
import pytest
from experiments import money
from experiments.harness import Task

from auucmax import load_hillstrom

pytestmark = pytest.mark.gate

WOMEN = "Hillstrom women"


@pytest.fixture
def small(monkeypatch):
    """Every fourth customer, and a few buyers more."""

    def load(arm, outcome, encoding):
        trial = load_hillstrom(arm, outcome, encoding)
        buys = load_hillstrom(arm, "conversion", encoding).y > 0
        return trial.take(np.flatnonzero((np.arange(trial.n_rows) % 4 == 0) | buys))

    monkeypatch.setattr(money, "load_hillstrom", load)
    money._load_split.cache_clear()
    yield
    money._load_split.cache_clear()


def line_of(name, split=0):
    return money.run(Task(money.NAME, WOMEN, name, split))


def test_all_models_learn_from_all_outcomes_that_they_can():
    tasks = money.tasks()
    assert len(tasks) == len(set(tasks)) == 20 * 2 * 14
    assert "AUUCMax, spend" not in money.NAMES
    assert {task.split for task in money.tasks(2)} == {0, 1}
    assert money.parameters(tasks[0])["target"] == "visit"
    one, other = (money.parameters(Task(money.NAME, WOMEN, f"SI, {y}", 0)) for y in money._ALL[1:])
    assert "of_money" in other
    assert "of_money" not in one


def test_lines_hold_differences_to_two_models_of_visits(small):
    rival, conversion, spend = map(line_of, ("TM, visit", "SI, conversion", "SI, spend"))
    assert rival["against"] == [0.0, 0.0]
    assert conversion["auuc"] - rival["auuc"] == pytest.approx(conversion["against"][0], abs=1e-3)
    assert conversion["against"][1] > 0
    assert {line["unit"] for line in (rival, conversion, spend)} == {rival["unit"]}
    assert rival["buyers"] == 311
    # The same amount for all: the ranking by money is that by whether.
    assert spend["auuc"] == pytest.approx(conversion["auuc"], abs=0.02)


def made_up(trial, name, split, value, error=0.04):
    against = [0.0, 0.0] if name == money.RIVAL else [value, error]
    return Task(money.NAME, trial, name, split)._asdict() | {
        "parameters": {}, "versions": {"numpy": "1"}, "date": "2026-01-01", "fit_seconds": 1.0,
        "auuc": 0.2 + value, "random": 0.15, "against": against, "unit": 0.04, "rows": 1_000,
        "buyers": 30,
    }  # fmt: skip


def test_the_page_calls_noise_noise():
    lines = [
        made_up(trial, name, split, 0.01 * (name == "SI, spend"))
        for trial in money.TRIALS
        for name in money.NAMES
        for split in range(2)
    ]
    page = money.render(lines)
    assert "are beyond noise (1.96 standard errors): none of 26" in page
    assert "Above it on both trials: SI on spend." in page
    assert "| SI on spend | 21.00 | +1.00 (4.00) | +0.25 | noise |" in page
    assert "| TM on visit | 20.00 | 0 | 0 |  |" in page
    assert money.render(lines[::-1]) == page
    clear = [*lines, *(made_up(WOMEN, "HB, spend", s, 0.2) for s in (2, 3, 4, 5, 6, 7))]
    assert "1 of 26: HB on spend (Hillstrom women)" in money.render(clear)
    assert money.summary(lines).count("none of 26") == 1
