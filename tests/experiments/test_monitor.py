import numpy as np
import pytest
from experiments import monitor
from experiments.harness import RESULTS, Task, read_lines, results_file
from tests.experiments.made_up import made_up, rows_of

from auucmax.metrics import auuc_inference

pytestmark = pytest.mark.gate


def test_a_line_and_the_page():
    task = Task("monitor", next(iter(monitor.POPULATIONS)), monitor.MODEL, 0)
    found = monitor.run_chunk(task, trials=2, n_rows=2000)
    line = made_up(**task._asdict()) | found | {"parameters": {"trials": 2}}
    wrong = [f"{found['wrong'][name] / 2:.1%}" for name in found["wrong"]]
    assert rows_of(monitor.render([line]), "all")[0][1:-2] == ["2", *wrong]
    assert len(found["widths"]) == 3


def test_the_normal_path_is_the_usual_test():
    rng = np.random.default_rng(0)
    y, score, treated = monitor.draw(0.5, 0.2, 3000, rng)
    z = monitor.normal_path(y, treated)
    spread = [y[arm].var(ddof=1) / arm.sum() for arm in (treated, ~treated)]
    usual = (y[treated].mean() - y[~treated].mean()) / np.sqrt(sum(spread))
    assert z[-1] == pytest.approx(usual, rel=1e-6)
    gain = monitor.normal_path(y * (score - 0.5), treated)[-1]
    found = auuc_inference(y, score, treatment=treated)
    assert gain == pytest.approx(found.gain / found.gain_standard_error, abs=0.15)


def test_what_the_kept_lines_show():
    """Ever wrong in at most 5%, where a normal interval is wrong far more often; and the width."""
    lines = read_lines(results_file("monitor", RESULTS))
    n, rates = monitor._rates(lines)
    assert n == monitor.TRIALS
    assert rates["monitor"] <= 0.05
    assert rates["sizes"] <= 0.01 + 3 * np.sqrt(0.01 * 0.99 / n)
    assert rates["normal, effect"] > 0.3
    assert monitor._ratio(lines, 1) <= 1.3
