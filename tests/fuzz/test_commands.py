"""Whole commands on odd tables: no traceback, no hang, no nan, whatever the table holds."""

import sys
from itertools import count

import pytest
from tests.cli.commands import COMMANDS
from tests.fuzz.running import Found, run_line, run_seed, shown_by, wrong_of

pytestmark = pytest.mark.gate
RUNS = 2_000


def test_that_a_wrong_run_is_seen(tmp_path, monkeypatch):
    def raises(*_, **__):
        raise ZeroDivisionError

    line = ["evaluate", str(tmp_path / "m.model")]
    assert run_line(line, tmp_path)[0] == 2
    monkeypatch.setattr(sys.modules["auucmax.cli.evaluate"], "read_model", raises)
    assert "ZeroDivisionError" in run_line(line, tmp_path)[2]


@pytest.mark.parametrize("first", [0, 1])  # two halves, which run side by side
def test_commands_on_odd_tables(first):
    found = Found()
    for seed in count(first, 2):
        found.add(run_seed(seed))
        if found.runs >= RUNS / 2:
            break
    assert not found.failures, "\n\n".join(found.failures[:5])
    assert found.reached >= found.runs / 2
    assert found.fitted >= found.commands["fit"] / 2
    assert set(found.commands) == set(COMMANDS) - {"demo"}


def test_a_page_or_a_list_that_tells_nan_is_seen(tmp_path):
    class Done:
        stdout = ""

    (tmp_path / "page.html").write_text("<script>NaN</script><p>gain nan</p>")
    assert [text for text in shown_by(["report"], Done, tmp_path) if "nan" in text]
    for command, name in (("target", "list.csv"), ("assign", "assigned.csv")):
        (tmp_path / name).write_text("who,uplift\n1,\n")
        assert f"nan in {name}" in list(shown_by([command], Done, tmp_path))


def test_parameters_in_the_place_of_options_are_seen(tmp_path):
    class Done:
        exit_code, stdout = 2, ""
        stderr = "auucmax: hold_out should be below 1."

    assert "speaks of hold_out" in wrong_of(["fit"], Done, tmp_path)
    Done.stderr = "auucmax: use selection='cv' or 'bound'."
    assert "speaks of selection=" in wrong_of(["fit"], Done, tmp_path)
    Done.stderr = "auucmax: --hold-out of 'a_column' in /tmp/tmp_ab_c/a_file.csv should be below 1."
    assert wrong_of(["fit"], Done, tmp_path) == ""
