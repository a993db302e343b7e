"""Files are old or new, never half, and what is no place for a file is told beforehand."""

import os

import pytest

from auucmax._files import check_source, check_target, private_folder, whole_file


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


def test_a_link_stays_one(tmp_path):
    (tmp_path / "lists").mkdir()
    real, link = tmp_path / "lists" / "monday.csv", tmp_path / "latest.csv"
    real.write_text("old")
    link.symlink_to(real)
    with whole_file(link) as beside:
        beside.write_text("new")
    assert link.is_symlink()
    assert real.read_text() == "new"


@pytest.mark.parametrize(
    ("name", "words"),
    [(".", "a folder or a device"), ("no/list.csv", "should exist"), ("pipe", "a device")],
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


@pytest.mark.parametrize(
    "address",
    ["oracle://me:se cret'@shop/trial", "https://me:se/cret@shop/a.csv", "s3://me:se@cret@shop/x"],
)
def test_no_password_in_the_message_of_an_address_that_is_none_of_ours(address):
    with pytest.raises(ValueError, match="got nothing at") as caught:
        check_source(address)
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    ["mysql://me:s3cret@h/db", "//me:s3cret@h/db", "me:s3cret@h/db", "PGPASSWORD=s3cret/db",
     "a?access_token=s3cret/db", "x://me:a s3cret@h/db"],
)  # fmt: skip
def test_no_password_in_the_message_of_an_output(address):
    with pytest.raises(ValueError, match="folder of the output should exist") as caught:
        check_target(address)
    assert "s3cret@" not in str(caught.value)
    assert "=s3cret" not in str(caught.value)


def test_what_is_being_written_is_private(tmp_path):
    with whole_file(tmp_path / "list.csv") as beside:
        assert beside.stat().st_mode & 0o777 == 0o600
        beside.write_text("id")
    with whole_file(tmp_path / "key", private=True) as beside:
        beside.write_text("id")
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600


def test_what_dead_processes_left_is_cleared(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (left := tmp_path / ".list.csv.deadbeef.auucmax-part").write_text("half")
    (other := tmp_path / ".else.csv.deadbeef.auucmax-part").write_text("half")
    (folder := tmp_path / "auucmax-rows-deadbeef").mkdir()
    (folder / "rows.parquet").write_text("half")
    (folder / ".auucmax-temporary").touch()
    for path in (left, folder):
        os.utime(path, (0, 0))
    with whole_file(tmp_path / "list.csv") as beside, private_folder() as own:
        assert not left.exists()
        assert not folder.exists()
        # Those of living ones stay, however old: theirs are locked.
        for path in (beside, own):
            os.utime(path, (0, 0))
        with whole_file(tmp_path / "list.csv"), private_folder():
            assert beside.exists()
            assert own.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [other.name, "list.csv"]


def test_what_the_user_named_so_stays(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in ("auucmax-demo.png", "auucmax-rows-deadbeef.csv", ".list.csv.oldolder.part"):
        (tmp_path / name).write_text("mine")
    (tmp_path / "auucmax-rows-december" / "more").mkdir(parents=True)
    (tmp_path / "auucmax-rows-december" / "rows.parquet").write_text("mine")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    for path in tmp_path.rglob("*"):
        os.utime(path, (0, 0))
    with private_folder(), whole_file(tmp_path / "list.csv") as beside:
        beside.write_text("id")
    (tmp_path / "list.csv").unlink()
    assert sorted(path.name for path in tmp_path.rglob("*")) == before
