"""Progress on a terminal, which is a real one, and without."""

import os
import pty
import re
import subprocess
import sys
import threading

import pytest

from auucmax._progress import is_quiet, quiet

PARTS = """
import time
from auucmax import _progress
_progress.PATIENCE = 0.0
with _progress.working_on("fitting") as work:
    with work.part("checking"):
        time.sleep(0.6)
    work.expect(3)
    for k in range(3):
        with work.part(f"fold {k + 1}", 1):
            list(_progress.track(range(3), 3, "inner"))
            time.sleep(0.9)
"""
LONG = """
from auucmax import _progress
clock = iter(range(0, 10_000, 20))
_progress.time.perf_counter = lambda: next(clock)
with _progress.speaking(), _progress.working_on("fitting auto") as work:
    work.expect(10)
    for k in range(10):
        with work.part("fold", 1):
            pass
"""


def on_a_terminal(*command):
    """What a command writes to standard error, if that is a terminal; its exit code, its output."""
    own, its = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=its, stdin=its, env=environment
    )
    os.close(its)
    shown = b""
    while True:
        try:
            some = os.read(own, 65_536)
        except OSError:  # the other end is closed
            break
        if not some:
            break
        shown += some
    os.close(own)
    output, _ = process.communicate()
    return shown.decode(), process.returncode, output.decode()


def plain(shown):
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)


@pytest.mark.gate
def test_one_bar_for_all_parts_with_the_time_that_is_left():
    shown, code, _ = on_a_terminal(sys.executable, "-c", PARTS)
    text = plain(shown)
    assert code == 0, text
    assert "fitting: checking" in text
    assert "fitting: fold 3" in text
    assert re.search(r"fold 2 .*about \d+ seconds? left", text)
    assert "inner" not in text  # no bar within the bar
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1  # the cursor is there again


@pytest.mark.gate
def test_nothing_without_a_terminal_but_a_line_of_what_takes_long():
    for code, expected in ((PARTS, ""), (LONG, "note: fitting auto takes about 3 minutes.\n")):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", expected)
    silent = LONG.replace("_progress.speaking(), ", "")
    done = subprocess.run([sys.executable, "-c", silent], capture_output=True, text=True)
    assert done.stderr == ""


def test_quiet_blocks_are_counted_over_threads():
    with quiet():
        with quiet():
            pass
        seen = []
        thread = threading.Thread(target=lambda: seen.append(is_quiet()))
        thread.start()
        thread.join()
        assert seen == [True]
    assert not is_quiet()
