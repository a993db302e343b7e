"""Model files: archives of JSON, arrays and bytes. Reading one never runs code from it.

A file is a zip archive, stored without compression, so that what it holds is never larger than the
file itself. Its member ``header.json`` says which format it has, and in which version. Members that
are named ``*.npy`` are arrays of finite numbers, never pickles; ``*.json`` is plain data; any other
name is bytes. ``numpy.load(path, allow_pickle=False)`` opens such a file, too.
"""

from __future__ import annotations

import io
import json
import math
import os
import stat
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from auucmax._files import whole_file
from auucmax._messages import visible

LARGEST_FILE = 2**31  #: bytes
DEEPEST = 50  #: entries in entries of a JSON member
HEADER = "header.json"
_FIRST_HEADER = "model.json"  # the header of version 1, to recognise old files
_LARGEST_COMPRESSED = 2**20  # bytes of a header that are read, if another version compressed it
_EPOCH_ZERO = (1980, 1, 1, 0, 0, 0)  # no clock in the file: the same model, the same bytes
T = TypeVar("T")


class ModelFileError(ValueError):
    """A file is not a model that can be loaded."""


@dataclass(frozen=True)
class ArchiveFormat:
    """One kind of model file.

    Parameters
    ----------
    name : str
        What the header says, as ``"auucmax model"``.
    version : int
        The one version that is read and written. Every change of what a file holds raises it.
    noun : str
        What messages call such a file, as ``"model file"``.
    again : str
        What to do where an older version wrote it.
    remedy : str
        What to do where it is damaged.

    Examples
    --------
    >>> import tempfile
    >>> squares = ArchiveFormat("squares", 1, "file of squares")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     squares.write(f"{folder}/s", {"unit": "m"}, {"squares.npy": np.arange(3) ** 2})
    ...     squares.read(f"{folder}/s", lambda header, members: (header["unit"], *members.values()))
    ('m', array([0, 1, 4]))
    """

    name: str
    version: int
    noun: str
    again: str = "fit the model again"
    remedy: str = "save the model again, or fetch the file again"

    def write(
        self,
        path: str | os.PathLike[str],
        header: Mapping[str, Any],
        members: Mapping[str, Any],
        *,
        private: bool = False,
    ) -> None:
        """Put a header and members into the file ``path``, whole or not at all.

        ``private``: nobody else can read it.
        """
        marked = {"format": self.name, "version": self.version, **header}
        with whole_file(path, private=private) as beside, zipfile.ZipFile(beside, "w") as archive:
            for name, value in {HEADER: marked, **members}.items():
                archive.writestr(zipfile.ZipInfo(name, _EPOCH_ZERO), _encoded(name, value))

    def read(
        self,
        path: str | os.PathLike[str],
        restore: Callable[[dict[str, Any], dict[str, Any]], T],
    ) -> T:
        """Open the file and return what ``restore(header, members)`` makes of it.

        The header comes without format and version. A missing field or member, or anything else
        that ``restore`` cannot use, may be whatever exception it likes: the caller gets a
        ModelFileError of one line. An ImportError passes, for it is not the file's fault.
        """
        name = visible(Path(path).name or str(Path(path)))  # "." has no name, nor has the root
        content = self._bytes(Path(path), name)
        if not content:
            raise ModelFileError(
                f"{name} should be a whole {self.noun}, got one that cannot be used (it is empty). "
                f"{self.remedy[:1].upper()}{self.remedy[1:]}."
            )
        if not content.startswith(b"PK"):
            raise ModelFileError(
                f"{name} should be a whole {self.noun}, got one that cannot be used, a table "
                f"perhaps. Where a {self.noun} and a table are named, the {self.noun} comes first."
            )
        try:
            # Another version may have other members, in another form: the version comes first.
            version = self._version(content)
            if version == self.version:
                members = {
                    member: _decoded(member, data)
                    for member, data in stored_members(content).items()
                }
                header = members.pop(HEADER)
                del header["format"], header["version"]
                return restore(header, members)
        except ImportError:
            raise
        except Exception as error:  # a damaged file makes parsers raise whatever they like
            reason = visible(" ".join(f"{type(error).__name__}: {error}".split()))
            raise ModelFileError(
                f"{name} should be a whole {self.noun}, got one that cannot be used "
                f"({reason[:200]}). {self.remedy[:1].upper()}{self.remedy[1:]}."
            ) from error
        remedy = (
            "A newer auucmax wrote it: upgrade auucmax."
            if version > self.version
            else f"An older auucmax wrote it: {self.again}."
        )
        raise ModelFileError(
            f"{name} should be a {self.noun} of version {self.version}, got version {version}. "
            f"{remedy}"
        )

    def _bytes(self, path: Path, name: str) -> bytes:
        try:
            found = path.stat()
            # A device or a pipe has no size, and may have no end.
            is_file, size = stat.S_ISREG(found.st_mode), found.st_size
            if (is_file or stat.S_ISDIR(found.st_mode)) and size <= LARGEST_FILE:
                return path.read_bytes()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ModelFileError(
                f"{name} should be a {self.noun} that can be read, got: {reason}. Check the path."
            ) from error
        if not is_file:
            raise ModelFileError(
                f"{name} should be a {self.noun}, got a device or a pipe. Name a file: what comes "
                f"by a pipe has to be written to one first."
            )
        raise ModelFileError(
            f"{name} should be a {self.noun} of at most {LARGEST_FILE:,} bytes, got {size:,}. "
            f"auucmax wrote no such file: check the path."
        )

    def _version(self, content: bytes) -> int:
        """Return the version in the header, or raise a ValueError if it has another format."""
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = archive.namelist()
            place = _FIRST_HEADER if HEADER not in names and _FIRST_HEADER in names else HEADER
            entry = archive.getinfo(place)
            # Other compressions cannot be read a few bytes at a time.
            limits = {zipfile.ZIP_STORED: len(content), zipfile.ZIP_DEFLATED: _LARGEST_COMPRESSED}
            limit = limits.get(entry.compress_type, -1)
            if entry.file_size > limit:
                raise ValueError("its header is too large, or its members are compressed")
            with archive.open(entry) as stream:
                text = stream.read(limit + 1)
        header = json.loads(text) if len(text) <= limit else None
        if not isinstance(header, dict) or header.get("format") != self.name:
            raise ValueError(f"it is not marked as {self.name}")
        version = header.get("version")
        if type(version) is not int or version < 1:
            raise ValueError("its version is no number")
        return version


def stored_members(content: bytes) -> dict[str, bytes]:
    """The members of an uncompressed archive, whose total size is at most that of the file."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = archive.infolist()
        is_stored = all(entry.compress_type == zipfile.ZIP_STORED for entry in entries)
        if not is_stored or sum(entry.file_size for entry in entries) > len(content):
            raise ValueError("its members are compressed")
        if len({entry.filename for entry in entries}) < len(entries):
            raise ValueError("its members have equal names")
        return {entry.filename: archive.read(entry) for entry in entries}


def array_bytes(array: NDArray[Any]) -> bytes:
    """An array of numbers in .npy format."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def array_of(name: str, content: bytes) -> NDArray[Any]:
    """Read an .npy file: finite numbers, of the length that its header states.

    The header is compared with the number of bytes before anything is allocated: a few bytes can
    claim to be an array of any size.
    """
    stream = io.BytesIO(content)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError(f"{name[:50]} has an unknown array format")
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    expected = math.prod(shape) * dtype.itemsize
    if dtype.kind not in "biuf" or expected != len(content) - stream.tell():
        raise ValueError(f"{name[:50]} has {len(content)} bytes for shape {shape} of {dtype}")
    array = np.asarray(np.load(io.BytesIO(content), allow_pickle=False))
    if not np.isfinite(array).all():
        raise ValueError(f"{name[:50]} has values that are not finite")
    return array


def check_same_names(what: str, found: set[str], expected: set[str]) -> None:
    """Raise a ValueError that lists the names missing from either set."""
    if found != expected:
        odd = visible(", ".join(sorted(found ^ expected)))[:100]
        raise ValueError(f"its {what} differ in {odd}")


def _encoded(name: str, value: Any) -> bytes:
    if name.endswith(".npy"):
        return array_bytes(value)
    if name.endswith(".json"):
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    return bytes(value)


def _decoded(name: str, content: bytes) -> Any:
    if name.endswith(".npy"):
        return array_of(name, content)
    if name.endswith(".json"):
        value = json.loads(content, parse_constant=_finite, parse_float=_finite)
        _check_depth(value)
        return value
    return content


def _check_depth(value: Any) -> None:
    """Raise a ValueError if entries are nested too deeply for recursive functions."""
    level, depth = [value], 0
    while level:
        if depth > DEEPEST:
            raise ValueError(f"its entries are nested more than {DEEPEST} deep")
        inner = [one.values() if isinstance(one, dict) else one for one in level
                 if isinstance(one, dict | list)]  # fmt: skip
        level, depth = [item for items in inner for item in items], depth + 1


def _finite(text: str) -> float:
    """Parse a JSON number and reject NaN and infinities."""
    if math.isfinite(value := float(text)):
        return value
    raise ValueError(f"{text[:50]} is no finite number")
