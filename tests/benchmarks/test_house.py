"""What is counted of the source and of calls is what is there."""

import argparse
import json

import pytest
from benchmarks import __main__ as command
from benchmarks import commands, house

PACKAGE = {
    "__init__.py": '"""A package."""\n\nfrom box.first import one\n',
    "first.py": (
        '"""Two lines,\nof text."""\n\nimport box.second\n\n\ndef one():\n    """Say."""\n'
        "    # why\n    return _once()  # not a line of its own\n\n\ndef _once():\n    return 1\n"
    ),
    "second.py": (
        "from box import first\n\nLIMIT = '''a\nb'''\n\n\nclass Thing:\n    def _no(self): ...\n"
    ),
    "late.py": "def use():\n    from box import first\n    return first\n",
}


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "box"
    folder.mkdir()
    for name, text in PACKAGE.items():
        (folder / name).write_text(text)
    return folder


def test_sizes_of_a_package(package):
    found = house.counts(package)
    assert found["modules"] == 4
    assert found["modules under 100 lines, no __init__"] == 3
    assert found["source lines"] == sum(text.count("\n") for text in PACKAGE.values())
    # 1 import; import, def, return, def, return; import, 2 of a text, class, def; def, 2 in it.
    assert found["lines of code"] == 1 + 5 + 5 + 3
    assert found["comment lines per 100 of code"] == round(100 / 14, 1)
    assert found["public top-level names"] == 3  # one, Thing, use
    assert found["functions"] == 4
    assert found["lines of a function, longest"] == 2
    assert found["private helpers used once"] == 1  # _once; _no is not used
    assert found["import cycles"] == 1  # first and second; what a function imports is no cycle


def test_a_long_function_is_counted(package):
    (package / "long.py").write_text("def long():\n" + "    x = 1\n" * 45)
    found = house.counts(package)
    assert found["functions over 44 lines"] == 1
    assert found["lines of a function, longest"] == 45


@pytest.mark.gate
def test_the_source_has_no_import_cycle():
    assert house.counts(house.ROOT / "src" / "auucmax")["import cycles"] == 0


def test_functions_that_a_call_visits(tmp_path):
    (tmp_path / "work.py").write_text(
        "import threading\n\n\nclass A:\n    def run(self):\n        other = threading.Thread("
        "target=helped)\n        other.start()\n        other.join()\n"
        "        return [(lambda: 1)() for _ in 'ab']\n\n\n"
        "def helped(): ...\n\n\ndef unused(): ...\n"
    )
    code = compile((tmp_path / "work.py").read_text(), str(tmp_path / "work.py"), "exec")
    names = {"__name__": "work"}
    with house.Visits(tmp_path) as watch:
        exec(code, names)
        names["A"]().run()
        names["A"]().run()
    assert watch.summary() == {"functions": 2, "files": 1}  # run, and helped in a thread
    assert house.Visits(tmp_path / "elsewhere").summary() == {"functions": 0, "files": 0}


def test_a_call_that_fails_is_told(tmp_path):
    with pytest.raises(RuntimeError, match="nothing should run in"):
        house.visits("nothing", house.ROOT)


@pytest.mark.gate
@pytest.mark.parametrize("call", [call for call in house.CALLS if call != "spark.fit"])
def test_calls_of_this_tree_are_visited(call):
    found = house.visits(call, house.ROOT)
    assert 10 < found["functions"] < 1_000
    assert 3 < found["files"] < 200


def test_before_and_after_stand_side_by_side(package, tmp_path, monkeypatch):
    for name in ("RESULTS", "PAGE"):
        monkeypatch.setattr(command, name, tmp_path / name)
    monkeypatch.setattr(command, "page", str)
    (tmp_path / "src").mkdir()
    package.rename(tmp_path / "src" / "auucmax")
    monkeypatch.setattr(house, "ROOT", tmp_path)
    for more in (["--tree", str(tmp_path)], []):
        monkeypatch.setattr("sys.argv", ["benchmarks", "house", "--quick", "--keep", *more])
        assert command.main() == 0
    records = json.loads((tmp_path / "RESULTS" / "house.json").read_text())
    assert [record["case"] for record in records] == ["before", "after"]
    text = (tmp_path / "RESULTS" / "house.txt").read_text()
    (line,) = [line for line in text.splitlines() if line.startswith("modules  ")]
    assert line.split()[1:] == ["4", "4"]
    assert str(tmp_path) not in text


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
