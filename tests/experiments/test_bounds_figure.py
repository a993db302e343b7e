"""Bounds of two splits, and the formula of the paper's gap."""

import json

import numpy as np
import pytest
from experiments import bounds_figure
from experiments.__main__ import draw_pictures
from experiments.harness import Task, results_file, write_lines
from experiments.models import as_paper, rounded, start_line
from experiments.trials import load_split
from tests.experiments.made_up import rows_of

from auucmax import auuc_score

pytestmark = pytest.mark.gate


@pytest.fixture(scope="module")
def lines():
    """Two splits of the first chunk, with all bounds, and two of the last."""
    found = []
    for chunk in (0, bounds_figure.CHUNKS - 1):
        task = Task(bounds_figure.NAME, bounds_figure.TRIAL, bounds_figure.MODEL, chunk)
        line = start_line(task, bounds_figure.parameters(task)) | {"fit_seconds": 0.0}
        line |= rounded(bounds_figure.run_chunk(chunk, n_splits=2))
        found.append(json.loads(json.dumps(line)))
    return found


def test_bounds_of_a_chunk(lines):
    first, last = lines
    assert set(last["bounds"]) < set(first["bounds"])
    assert len(first["bounds"]) == 20
    assert first["classes"] == [3238, 18149, 2262, 19044]
    data = bounds_figure.Figure2(lines)
    assert len(data.auuc) == 4
    assert data.gaps("betting") == pytest.approx(data.upper - np.array(first["bounds"]["betting"]))
    order = data.order()
    assert order.index("betting") < order.index("mcdiarmid") < order.index("agarwal-uniform")
    assert rows_of(bounds_figure.render(lines), "paper")[0][2] == "does not hold"


def test_known_ranges_keep_the_ranking():
    train, _ = load_split(bounds_figure.TRIAL, 0, bounds_figure.TEST_SIZE)
    model = as_paper(0).fit(train.X, train.y, treatment=train.treatment)
    u, w = bounds_figure._in_known_ranges(model, train)
    assert np.linalg.norm(w) == pytest.approx(1)
    assert np.linalg.norm(u, axis=1).max() <= bounds_figure._known_radius()
    found, expected = (
        auuc_score(train.y, score.round(9), treatment=train.treatment)
        for score in (u @ w, model.predict(train.X) / np.abs(model.predict(train.X)).max())
    )
    assert found == pytest.approx(expected, abs=1e-5)


def test_the_gap_of_the_paper_is_explained_by_its_formula(lines):
    classes = lines[0]["classes"]
    assert bounds_figure.gap(classes, 1.0, 0.5) == pytest.approx(0.0191, abs=5e-5)
    for count, size in (("rarer", 0.54), ("printed", 1.02)):
        assert bounds_figure.size_for(classes, 1.0, 0.02, count) == pytest.approx(size, abs=0.01)
    share = bounds_figure.share_for(classes, 0.025, 0.02)
    assert bounds_figure.gap(classes, share, 0.025 / share**0.5) == pytest.approx(0.02)
    page = bounds_figure.render(lines)
    assert [row[1] for row in rows_of(page, "column-l2")] == ["0.051"] * 3


def test_the_picture_is_a_pure_function_of_the_lines(tmp_path, lines):
    drawn = []
    for name, own in (("a", lines), ("b", lines[::-1])):
        write_lines(results_file(bounds_figure.NAME, tmp_path / name), own)
        draw_pictures(tmp_path / name, tmp_path / name)
        drawn.append((tmp_path / name / "bounds.png").read_bytes())
    assert drawn[0] == drawn[1]
    draw_pictures(tmp_path / "none", tmp_path / "none")
    assert not (tmp_path / "none").exists()
