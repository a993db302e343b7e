"""Seconds of commands."""

import argparse

import pytest
from benchmarks import commands


def test_seconds_are_those_of_the_process(tmp_path):
    place = {"cwd": tmp_path}
    idle = commands.user_seconds(["-c", "import time; time.sleep(.3)"], place)
    busy = commands.user_seconds(["-c", "sum(range(10_000_000))"], place)
    assert idle < busy
    assert idle < 0.3


@pytest.mark.gate
def test_the_line_of_a_command_is_the_first_that_works(tmp_path):
    place = {"cwd": tmp_path}
    assert commands._working("version", ("--nonsense", "--version"), place) == "--version"
    assert commands._working("wrong name", ("--version", "--nonsense"), place) == "--nonsense"
    with pytest.raises(RuntimeError, match="Adapt COMMANDS"):
        commands._working("version", ("--nonsense",), place)


def write_few_rows(path, write_table=commands.write_table):
    write_table(path)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:3_001]))


@pytest.mark.gate
def test_commands_are_measured(monkeypatch):
    # Each line is tried, on a part of the table; what its seconds are, another test shows.
    monkeypatch.setattr(commands, "user_seconds", lambda call, place: 0.5)
    monkeypatch.setattr(commands, "write_table", write_few_rows)
    records = commands.run(argparse.Namespace(quick=True, tree=None))
    assert [record["command"] for record in records] == ["import", *commands.COMMANDS]
    for record in records:
        assert record["seconds"] > 0
        assert record["command"] in commands.table_of(records)
    assert records[0]["ratio"] == 1
