"""Which outcome to learn from to rank by money: lines of a small trial, and what is noise."""

import numpy as np
import pytest
from experiments import money
from experiments.harness import Task
from tests.experiments.made_up import made_up, rows_of

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


def test_lines_hold_differences_to_two_models_of_visits(small):
    rival, conversion, spend = (
        money.run(Task(money.NAME, WOMEN, name, 0))
        for name in ("TM, visit", "SI, conversion", "SI, spend")
    )
    assert rival["against"] == [0.0, 0.0]
    assert conversion["auuc"] - rival["auuc"] == pytest.approx(conversion["against"][0], abs=1e-3)
    assert conversion["against"][1] > 0
    assert {line["unit"] for line in (rival, conversion, spend)} == {rival["unit"]}
    assert rival["buyers"] == 311
    # The same amount for all: the ranking by money is that by whether.
    assert spend["auuc"] == pytest.approx(conversion["auuc"], abs=0.02)


def test_means_over_splits_and_what_is_significant():
    def line(trial, name, split, value, error=0.04):
        against = [0.0, 0.0] if name == money.RIVAL else [value, error]
        return made_up(money.NAME, trial, name, split, auuc=0.2 + value, random=0.15, unit=0.04,
                       against=against, rows=1_000, buyers=30)  # fmt: skip

    lines = [line(trial, name, split, 0.01 * (name == "SI, spend"))
             for trial in money.TRIALS for name in money.NAMES for split in range(2)]  # fmt: skip
    page = money.render(lines)
    assert money.render(lines[::-1]) == page
    assert rows_of(page, "SI on spend")[0][1:] == ["21.00", "+1.00 (4.00)", "+0.25", "noise"]
    assert not any(money.found_of(lines, WOMEN, name).is_significant for name in money.NAMES)
    clear = [*lines, *(line(WOMEN, "HB, spend", s, 0.2) for s in (2, 3, 4, 5, 6, 7))]
    assert money.found_of(clear, WOMEN, "HB, spend").is_significant
