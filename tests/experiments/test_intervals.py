"""The grid of cells on which intervals are measured: its truth, its tasks, its page."""

import numpy as np
import pytest
from experiments import intervals
from experiments.harness import Task
from tests.experiments.made_up import made_up, rows_of

from auucmax import auuc_inference

pytestmark = pytest.mark.gate


@pytest.mark.parametrize("name", intervals.OUTCOMES)
def test_the_truth_is_that_of_many_rows(name):
    outcome, rng = intervals.OUTCOMES[name], np.random.default_rng(0)
    rows = intervals.Cell(200_000, 0.5, False).draw(outcome, rng)
    found = auuc_inference(rows["y"], rows["score"], treatment=rows["treatment"])
    truth = intervals.truth_of(outcome, intervals.MOOD)
    assert abs(found.estimate - truth.auuc) < 4 * found.standard_error
    assert abs(found.gain - truth.gain) < 4 * found.gain_standard_error
    assert truth.curve[-1] == pytest.approx(2 * (truth.auuc - truth.gain))


def test_every_cell_has_its_chunks():
    tasks = intervals.tasks()
    assert len(tasks) == len(set(tasks)) == 4 * len(intervals.tasks(splits=1)) == 4 * 199
    assert {task.model for task in tasks} >= {"200 rows, 5% treated", "400 clusters, 40 treated"}


@pytest.mark.parametrize("cell", ["200 rows, 10% treated", "400 clusters, 40 treated"])
def test_a_chunk_counts_misses_and_what_was_declined(cell):
    task = Task("intervals", "5% respond", cell, 0)
    line = intervals.run_chunk(task, repetitions=3)
    assert line == intervals.run_chunk(task, repetitions=3)
    for what in intervals.WHAT:
        assert 0 <= line["missed"][what] <= 3
        assert 0 <= line["declined"][what] <= 3


def test_cells_outside_are_counted_over_all_lines():
    def line(split, misses):
        counts = dict.fromkeys(intervals.WHAT, 25)
        return made_up(
            "intervals", "1% respond", "200 rows, 5% treated", split, trials=500,
            missed=counts | {"band": misses}, declined=dict.fromkeys(intervals.WHAT, 0.0),
        )  # fmt: skip

    assert "0 of 4 cells are outside" in intervals.render([line(0, 25), line(1, 25)])
    page = intervals.render([line(0, 25), line(1, 60)])
    assert "1 of 4 cells are outside: band (1% respond, 200 rows, 5% treated)." in page
    assert rows_of(page, "200 rows, 5% treated")[3][1] == "8.5%"
