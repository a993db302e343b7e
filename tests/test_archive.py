"""The archive of model files: what goes in comes out; what no model wrote is told in one line."""

import io
import json
import os
import pickle
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from auucmax import _archive
from auucmax._archive import ArchiveFormat, ModelFileError, array_bytes, array_of, check_same_names
from auucmax._messages import visible

FORMAT = ArchiveFormat("auucmax test", 2, "test file")
HEADER = {"name": "é", "numbers": [1, 2.5, None, True]}
MEMBERS = {
    "a.npy": np.arange(6, dtype=np.float32).reshape(2, 3),
    "more.json": {"x": [1]},
    "raw.bin": b"\x00\xff",
}


def both(header, members):
    return header, members


@pytest.fixture
def path(tmp_path):
    FORMAT.write(tmp_path / "file", HEADER, MEMBERS)
    return tmp_path / "file"


def members_of(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewrite(path, compression=zipfile.ZIP_STORED, **changes):
    """The file with other members; None takes one out."""
    members = members_of(path.read_bytes()) | changes
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            if content is not None:
                archive.writestr(name, content)


def header(**changes):
    return json.dumps({"format": FORMAT.name, "version": FORMAT.version} | changes).encode()


def refused(path, message, restore=both):
    with pytest.raises(ModelFileError, match=message) as caught:
        FORMAT.read(path, restore)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{visible(path.name) or path} should be a ")


def test_what_is_written_is_read(path):
    header, members = FORMAT.read(path, both)
    assert header == HEADER
    assert members.keys() == MEMBERS.keys()
    np.testing.assert_array_equal(members["a.npy"], MEMBERS["a.npy"])
    assert members["a.npy"].dtype == np.float32
    assert (members["more.json"], members["raw.bin"]) == ({"x": [1]}, b"\x00\xff")
    with np.load(path, allow_pickle=False) as opened:
        np.testing.assert_array_equal(opened["a"], MEMBERS["a.npy"])


def test_the_same_contents_have_the_same_bytes(path, tmp_path):
    FORMAT.write(tmp_path / "again", HEADER, MEMBERS)
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


kinds = st.one_of(
    arrays.floating_dtypes(endianness="="),
    arrays.integer_dtypes(endianness="="),
    arrays.unsigned_integer_dtypes(endianness="="),
    arrays.boolean_dtypes(),
)
shapes = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


@given(arrays.arrays(kinds, shapes), st.booleans())
def test_arrays_of_finite_numbers_come_back(array, transpose):
    array = array.T if transpose else array
    content = array_bytes(array)
    if np.isfinite(array).all():
        again = array_of("a.npy", content)
        assert again.dtype == array.dtype
        np.testing.assert_array_equal(again, array)
    else:
        with pytest.raises(ValueError, match="not finite"):
            array_of("a.npy", content)


def test_numbers_that_json_has_not_are_not_written(tmp_path):
    with pytest.raises(ValueError, match="JSON compliant"):
        FORMAT.write(tmp_path / "file", {"x": float("nan")}, {})
    with pytest.raises(ValueError, match="Object arrays"):
        FORMAT.write(tmp_path / "file", {}, {"a.npy": np.array([print])})
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file_and_no_rest(path, monkeypatch):
    before = path.read_bytes()

    def fail(*args):
        raise OSError("disk is full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk is full"):
        FORMAT.write(path, {}, {})
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_files_that_cannot_be_read(path, tmp_path, monkeypatch):
    refused(tmp_path / "absent", "test file that can be read, got: No such file")
    refused(tmp_path, "test file that can be read, got: Is a directory")
    refused(tmp_path / "a\x00b", "test file that can be read")
    monkeypatch.setattr(_archive, "LARGEST_FILE", 100)
    refused(path, r"of at most 100 bytes, got \d+\. auucmax wrote no such file: check the path")


def test_devices_and_pipes_are_not_read(tmp_path):
    """They have no size, and no end: reading them would take all memory, or wait for ever."""
    os.mkfifo(tmp_path / "pipe")
    for place in (Path("/dev/zero"), tmp_path / "pipe"):
        refused(place, "should be a test file, got a device or a pipe. Name a file")


def test_every_truncation_and_text_is_refused(path):
    whole = path.read_bytes()
    for content in (b"", b"text", b"PK\x03\x04" + bytes(99), *(whole[:k] for k in range(1, 400))):
        path.write_bytes(content)
        refused(path, "should be a whole test file, got one that cannot be used")


def test_any_byte_that_changed_is_noticed_or_has_no_effect(path):
    def restore(header, members):
        check_same_names("members", set(members), set(MEMBERS))  # the directory may lose some
        return repr((header, members))

    whole = path.read_bytes()
    expected = FORMAT.read(path, restore)
    noticed = 0
    for k in range(len(whole)):
        path.write_bytes(whole[:k] + bytes([whole[k] ^ 1]) + whole[k + 1 :])
        try:
            assert FORMAT.read(path, restore) == expected
        except ModelFileError:
            noticed += 1
    assert noticed > len(whole) / 2


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (
            1,
            "test file of version 2, got version 1. An older auucmax wrote it: fit the model again",
        ),
        (3, "test file of version 2, got version 3. A newer auucmax wrote it: upgrade auucmax"),
    ],
)
@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("place", ["header.json", "model.json"])
def test_other_versions_are_told_whatever_else_they_hold(
    path, version, message, compression, place
):
    changes = {"header.json": None, place: header(version=version), "a.npy": b"another form"}
    rewrite(path, compression, **changes)
    refused(path, message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (header(format="pandas"), "not marked as auucmax test"),
        (header(version="2"), "its version is no number"),
        (header(version=True), "its version is no number"),
        (header(version=0), "its version is no number"),
        (b"[]", "not marked as"),
        (b"[" * 100_000, "cannot be used"),
        (b"\xff\xfe", "cannot be used"),
        (b"9" * 10_000, "cannot be used"),
        (None, "no item named 'header.json'"),
    ],
)
def test_headers_that_are_none(path, text, message):
    rewrite(path, **{"header.json": text})
    refused(path, message)


def test_a_compressed_file_is_not_unpacked(path):
    bomb = b'{"format": "' + b" " * 50_000_000 + b'"}'
    rewrite(path, zipfile.ZIP_DEFLATED, **{"header.json": bomb})
    tracemalloc.start()
    refused(path, "compressed")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000
    rewrite(path, zipfile.ZIP_DEFLATED, **{"header.json": header()})
    refused(path, "compressed")


def test_equal_names_are_refused(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("a.npy", b"other")
    refused(path, "equal names")


def test_an_array_that_says_it_is_larger_than_the_file(path):
    claim = io.BytesIO()
    description = {"descr": "<f8", "fortran_order": False, "shape": (10**11,)}
    np.lib.format.write_array_header_1_0(claim, description)
    rewrite(path, **{"a.npy": claim.getvalue()})
    tracemalloc.start()
    refused(path, r"a\.npy has \d+ bytes for shape")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


class Harm:
    """Makes a folder when it is unpickled."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return (os.mkdir, (str(self.target),))


def test_a_pickle_is_not_run(path, tmp_path):
    target = tmp_path / "harm"
    harm = pickle.dumps(Harm(target))
    pickle.loads(harm)
    target.rmdir()  # it would have worked
    buffer = io.BytesIO()
    np.save(buffer, np.array([Harm(target)], dtype=object), allow_pickle=True)
    for content in (harm, buffer.getvalue()):
        rewrite(path, **{"a.npy": content})
        refused(path, "cannot be used")
    assert not target.exists()


@pytest.mark.parametrize("values", [["a"], [1j], np.array(["2020-01-01"], dtype="M8[D]")])
def test_arrays_of_other_things_than_numbers(path, values):
    rewrite(path, **{"a.npy": array_bytes(np.asarray(values))})
    refused(path, "bytes for shape")


def test_what_the_reader_cannot_use_is_told_in_one_line(path):
    def fails(header, members):
        raise KeyError("two\nlines" * 100)

    refused(path, "KeyError: 'two", fails)

    def steers(header, members):
        raise ValueError("\x1b[2J")

    refused(path, "ValueError: \ufffd.2J", steers)

    def lacks(header, members):
        raise ImportError("no torch")

    with pytest.raises(ImportError, match="no torch"):
        FORMAT.read(path, lacks)


def test_names_that_differ():
    check_same_names("fields", {"a"}, {"a"})
    with pytest.raises(ValueError, match="its fields differ in a, c"):
        check_same_names("fields", {"a", "b"}, {"b", "c"})
    with pytest.raises(ValueError, match=r"its fields differ in \ufffd.2J"):
        check_same_names("fields", {"\x1b[2J"}, set())
