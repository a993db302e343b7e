"""Files are old or new, never half, and what is no place for a file is told beforehand."""

import os

import pytest

from auucmax._files import check_target, whole_file


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    (tmp_path / "list.csv").write_text("old")

    def fail():
        with whole_file(tmp_path / "list.csv") as beside:
            beside.write_text("ne")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert (tmp_path / "list.csv").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["list.csv"]


def test_the_new_file_has_the_rights_of_the_old(tmp_path):
    target = tmp_path / "list.csv"
    target.write_text("old")
    target.chmod(0o640)
    with whole_file(target) as beside:
        beside.write_text("new")
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_file_that_was_not_there_has_the_rights_of_any_other(tmp_path):
    (tmp_path / "other").write_text("")
    with whole_file(tmp_path / "list.csv") as beside:
        beside.write_text("new")
    assert (tmp_path / "list.csv").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_link_stays_one(tmp_path):
    (tmp_path / "lists").mkdir()
    real, link = tmp_path / "lists" / "monday.csv", tmp_path / "latest.csv"
    real.write_text("old")
    link.symlink_to(real)
    with whole_file(link) as beside:
        beside.write_text("new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_the_working_folder_will_do(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with whole_file("list.csv") as beside:
        beside.write_text("new")
    assert (tmp_path / "list.csv").read_text() == "new"


@pytest.mark.parametrize(
    ("name", "words"),
    [(".", "got the folder"), ("no/list.csv", "should exist"), ("pipe", "a device")],
)
def test_what_is_no_place_for_a_file(tmp_path, name, words):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match=words):
        check_target(tmp_path / name)
    with pytest.raises(ValueError, match=words), whole_file(tmp_path / name):
        pass  # pragma: no cover
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_folder_of_others(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ValueError, match="may write to"):
        check_target(tmp_path / "list.csv")


def test_the_input_is_no_output(tmp_path):
    data, link = tmp_path / "data.csv", tmp_path / "link.csv"
    data.write_text("a")
    link.symlink_to(data)
    for same in (data, link, tmp_path / "." / "data.csv"):
        with pytest.raises(ValueError, match="another file than the input"):
            check_target(same, "postgresql://host/db", data)
    assert check_target(tmp_path / "list.csv", data) == tmp_path / "list.csv"
