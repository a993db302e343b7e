"""Lines of experiments with numbers that a test chooses."""

from experiments.harness import Task


def made_up(experiment, trial, model, split, **numbers):
    own = Task(experiment, trial, model, split)._asdict()
    run = {"parameters": {}, "versions": {"Python": "3"}, "date": "2026-01-01"}
    return own | run | {"fit_seconds": 1.0, "cpu_seconds": 1.0} | numbers


def rows_of(page, start):
    """The cells of the rows of a page's tables whose first cell is ``start``."""
    found = [[cell.strip(" *") for cell in line.split("|")[1:-1]] for line in page.splitlines()]
    return [row for row in found if row and row[0] == start]
