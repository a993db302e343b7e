"""Interrupts and readers who go away: one line, and no trace."""

import subprocess
import sys

import pytest
from tests.cli.commands import ALL_BUT_PERSON, FIT

pytestmark = pytest.mark.gate


def test_a_reader_who_goes_away_is_no_failed_check(files):
    command = f"{sys.executable} -m auucmax check {files.trial} {ALL_BUT_PERSON}"
    line = f"{command} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (141, "")


INTERRUPTING = """
import os, signal, sys
from auucmax.__main__ import main

class Interrupts:
    def find_spec(self, name, *rest):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
main()
"""


@pytest.mark.parametrize("name", ["typer", "pandas", "auucmax.model.pipeline"])
def test_an_interrupt_is_one_line_from_the_start(files, tmp_path, name):
    code = INTERRUPTING.format(name=name)
    call = [sys.executable, "-c", code, "fit", files.trial, *FIT.split(), "-o", tmp_path / "m"]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    told = "auucmax: interrupted; no file was changed\n"
    assert (done.returncode, done.stderr) == (130, told)
