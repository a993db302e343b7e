"""Tests follow the source: tests/ROOM/test_MODULE.py holds those of src/auucmax/ROOM/MODULE.py.

Checked both ways: a test file names a module, and a module with logic has a test file.
"""

from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.conftest import GATE, KEPT, TOGETHER, pytest_ignore_collect

TESTS = Path(__file__).resolve().parent
SOURCE = TESTS.parent / "src" / "auucmax"
#: Test files that name no module, and why.
OTHERS = {
    "cli/test_bad_input.py": "every command, on what it should refuse",
    "cli/test_killed.py": "every command that writes, killed while it does",
    "cli/test_large.py": "commands on a table that does not fit into memory",
    "cli/test_money.py": "every command, on money",
    "cli/test_control_label.py": "the label of the control, by every command",
    "cli/test_newcomer.py": "all commands in the order of the first page",
    "cli/test_reading.py": "options that say how a file is written, by every command",
    "cli/test_readme.py": "the commands of the README",
    "cli/test_rows.py": "groups, rivals and model files alone, by every command",
    "cli/test_screen.py": "what every command shows",
    "cli/test_sound_trial.py": "every command, on a table that is no trial",
    "cli/test_unequal_chances.py": "every command, on a trial whose chances differ",
    "estimators/test_all.py": "every estimator of the folder",
    "export/test_sql_googlesql.py": "sql.py, in the reference implementation of GoogleSQL",
    "export/test_sql_servers.py": "sql.py, in servers",
    "report/test_browser.py": "the whole page, in a browser",
    "spark/test_ibis_tables.py": "data/warehouses.py, with tables of Spark",
    "spark/test_exported_sql.py": "export/sql.py, by Spark SQL",
    "spark/test_connect.py": "the whole folder, through Spark Connect",
    "trial/test_frames.py": "every call that takes a table, on frames of every library",
}
#: Modules without a test file of their own, and where they are tested.
ELSEWHERE = {
    "__main__": "by every command that runs in a process of its own",
    "_version": "it is one text",
    "bounds/bound": "it is two records; test_certify.py reads all of them",
    "bounds/kernels": "with its callers, against bounds/reference.py",
    "bounds/reference": "it is the slow twin that tests compare with",
    "data/hashing_kernel": "with data/hashing.py, whose twin it is",
    "encoding/reference": "it is the slow twin that tests compare with",
    "estimators/trees_kernel": "with its callers, boosting.py and trees.py, whose twin it is",
    "evaluation/reference": "it is the slow twin that tests compare with",
    "pairs/kernels": "with pairs/passes.py, against pairs/kernels_numpy.py",
    "pairs/kernels_numpy": "it is the slow twin that tests compare with",
    "pairs/reference": "it is the slow twin that tests compare with",
}
ROOMS = sorted(folder.name for folder in SOURCE.iterdir() if (folder / "__init__.py").is_file())


def names_a_module(room: str, file: Path) -> bool:
    """Whether there is a module, or a folder of modules, of the name of a test file."""
    place = SOURCE / room / file.stem.removeprefix("test_")
    return place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()


@pytest.mark.parametrize("room", ROOMS)
def test_test_files_name_modules(room):
    strangers = {
        f"{room}/{file.name}"
        for file in (TESTS / room).glob("test_*.py")
        if not names_a_module(room, file)
    }
    listed = {name for name in OTHERS if name.startswith(f"{room}/")}
    assert strangers == listed, "rename the file after its module, or mend OTHERS"


def test_modules_have_test_files():
    modules = {
        path.relative_to(SOURCE).with_suffix("")
        for path in SOURCE.rglob("*.py")
        if path.name != "__init__.py"  # these name and import, and nothing else
    }
    untested = {
        str(module)
        for module in modules
        if not (TESTS / module.parent / f"test_{module.name.lstrip('_')}.py").is_file()
    }
    assert untested == set(ELSEWHERE), "add the test file of the module, or mend ELSEWHERE"


def test_every_room_is_tested():
    found = [room for room in ROOMS if list((TESTS / room).glob("test_*.py"))]
    apart = {room for room in ROOMS if (TESTS / f"test_{room}.py").is_file()}
    assert sorted({*found, *apart}) == ROOMS


def test_entries_of_the_tiers_name_tests_that_exist():
    """A test that is renamed would else change its tier in silence."""
    for entry in (*GATE, *KEPT, *TOGETHER):
        path, _, name = entry.partition("::")
        assert (TESTS.parent / path).exists(), entry
        text = (TESTS.parent / path).read_text() if name else ""
        assert not name or f"def {name.split('[')[0]}" in text, entry


def test_what_is_kept_is_part_of_what_is_left_to_the_gate():
    assert [entry for entry in KEPT if not entry.startswith(GATE)] == []


def test_the_inner_loop_does_not_import_what_only_the_gate_runs():
    def is_left_out(path, tier):
        config = SimpleNamespace(rootpath=TESTS.parent, option=SimpleNamespace(markexpr=tier))
        return bool(pytest_ignore_collect(TESTS / path, config))

    assert is_left_out("test_docs_site.py", "not gate")
    assert not is_left_out("test_docs_site.py", "gate")
    assert not is_left_out("test_layout.py", "not gate")
    assert not is_left_out("fuzz/test_feeding.py", "not gate")  # is kept
    assert not is_left_out("pairs/test_passes.py", "not gate")  # has others
