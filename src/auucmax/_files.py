"""Files to read, and files to write: beside and renamed, so that nobody ever finds half of one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import glob
from pathlib import Path

DATABASES = ("postgresql://", "postgres://")  #: what the address of a database begins with


def files_at(source: str) -> list[str]:
    """The file or folder that is named so, or the files that match it as a pattern; or nothing."""
    path = Path(source).expanduser()
    try:
        return [str(path)] if path.exists() else sorted(glob(str(path), recursive=True))
    except (OSError, ValueError):  # a name that no file can have
        return []


def check_source(source: str, kind: type[ValueError] = ValueError) -> None:
    """An error of this kind if nothing is at ``source``, which may also be a database's address.

    A command can ask this before the libraries are loaded that would read it.
    """
    if not source.startswith(DATABASES) and not files_at(source):
        raise kind(
            f"{Path(source).name or source} should be a file, a folder or a pattern that matches "
            f"files, got nothing at {source!r}. Check the path."
        )


def _files_of(source: str | os.PathLike[str]) -> list[str]:
    """The file itself, those that match a pattern, or all that are in a folder."""
    found = files_at(os.fspath(source))
    if len(found) == 1 and os.path.isdir(found[0]):
        return [str(file) for file in Path(found[0]).rglob("*")]
    return found


def check_target(path: str | os.PathLike[str], *inputs: str | os.PathLike[str]) -> Path:
    """``path`` as a place where a file can be put; told before the work is done.

    It must not be one of ``inputs``, the files that the work reads.
    """
    target = Path(path)
    if target.is_dir():
        raise ValueError(
            f"the output should be a file, got the folder {target}. Name a file in it."
        )
    if not target.absolute().parent.is_dir():
        raise ValueError(
            f"the folder of the output should exist, got {target}. Make {target.parent} first."
        )
    if target.exists() and not target.is_file():  # a device would be replaced by a file
        raise ValueError(f"the output should be a file, got {target}, a device. Name a file.")
    if not os.access(target.absolute().parent, os.W_OK):
        raise ValueError(
            f"the folder of the output should be one that you may write to, got {target}. Name a "
            f"file elsewhere."
        )
    for given in [file for source in inputs for file in _files_of(source)]:
        if target.exists() and os.path.exists(given) and target.samefile(given):
            raise ValueError(
                f"the output should be another file than the input, got {target} for both. Name "
                f"another."
            )
    return target


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to; it takes the place of ``path`` if no error comes.

    A link stays a link: what it points to is replaced.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_file(f"{folder}/list.csv") as beside:
    ...         _ = beside.write_text("id")
    ...     Path(f"{folder}/list.csv").read_text()
    'id'
    """
    target = Path(os.path.realpath(check_target(path)))
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    os.close(handle)
    beside = Path(name)
    try:
        yield beside
        with beside.open("rb") as file:
            os.fsync(file.fileno())  # or a power cut could leave a name without its contents
        beside.chmod(_mode(target))
        os.replace(beside, target)
    finally:
        with suppress(FileNotFoundError):
            beside.unlink()


def _mode(target: Path) -> int:
    """That of the file that is replaced, or what the user's mask says."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
