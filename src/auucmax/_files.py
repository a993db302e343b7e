"""Find input files, and write output files atomically (write beside, then rename).

Temporary files are private, and those of killed processes are removed.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape, glob
from pathlib import Path

from auucmax._errors import without_passwords

#: Address prefixes of databases that ibis reads, and of all databases.
WAREHOUSES = tuple(
    f"{name}://" for name in ("bigquery", "databricks", "snowflake", "sqlite", "trino")
)
DATABASES = ("postgresql://", "postgres://", *WAREHOUSES)
DUCKDB = "duckdb://"  #: before the path of a file
_FOLDER, _MARK = "auucmax-rows-", ".auucmax-temporary"
_PART = ".auucmax-part"
_RANDOM = "????????"  # what tempfile puts into a name
# First bytes of a monitor's state file, which only the monitor replaces.
_STATE = b'{"format":"auucmax monitor",'
_FRESH = 60.0  # seconds during which a temporary file may not be locked yet


def files_at(source: str) -> list[str]:
    """The file or folder with this name, or the files that match it as a glob pattern."""
    path = Path(source.removeprefix(DUCKDB)).expanduser()
    try:
        return [str(path)] if path.exists() else sorted(glob(str(path), recursive=True))
    except (OSError, ValueError):  # a name that no file can have
        return []


def check_source(source: str, kind: type[ValueError] = ValueError) -> None:
    """Raise an error if nothing exists at ``source``, a path or a database address.

    A command can check this before it loads the libraries that read it.
    """
    if not source.startswith(DATABASES) and not files_at(source):
        source = without_passwords(source.removeprefix(DUCKDB))
        raise kind(
            f"{Path(source).name or source} should be a file, a folder or a pattern that matches "
            f"files, got nothing at {source!r}. Check the path."
        )


def check_target(
    path: str | os.PathLike[str], *inputs: str | os.PathLike[str], is_own: bool = False
) -> Path:
    """Check that a file can be written to ``path`` before the work begins.

    It must not be one of ``inputs``, the files that are read, nor a monitor's state, which cannot
    be recreated, unless ``is_own``.
    """
    target, shown = Path(path), without_passwords(os.fspath(path))
    folder = target.absolute().parent
    if target.exists() and not target.is_file():  # a device would be replaced by a file
        raise ValueError(
            f"the output should be a file, got {shown}, a folder or a device. Name a file."
        )
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ValueError(
            f"the folder of the output should exist and be one that you may write to, got {shown}. "
            f"Make it first, or name a file elsewhere."
        )
    given = [Path(file) for source in inputs for file in files_at(os.fspath(source))]
    given += [file for folder in given if folder.is_dir() for file in folder.rglob("*")]
    for file in given:
        if target.exists() and file.exists() and target.samefile(file):
            raise ValueError(
                f"the output should be another file than the input, got {shown} for both. Name "
                f"another."
            )
    if not is_own and _is_state(target):
        raise ValueError(
            f"the output should be another file than the state of a monitor, got {shown}. Name "
            f"another."
        )
    return target


def _is_state(target: Path) -> bool:
    """Whether a file is the state of a monitor; False if it is unreadable."""
    with suppress(OSError), target.open("rb") as file:
        return file.read(len(_STATE)) == _STATE
    return False


@contextmanager
def whole_file(path: str | os.PathLike[str], *, private: bool = False) -> Iterator[Path]:
    """Context manager: write to a temporary file that replaces ``path`` if no error occurs.

    Only this user can read it while it is written, and later if it is ``private``, as a monitor's
    state is. A link stays a link: its target is replaced.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_file(f"{folder}/list.csv") as beside:
    ...         _ = beside.write_text("id")
    ...     Path(f"{folder}/list.csv").read_text()
    'id'
    """
    target = Path(os.path.realpath(check_target(path, is_own=private)))
    prefix = f".{target.name}."
    _clear(target.parent, f"{escape(prefix)}{_RANDOM}{_PART}")
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=prefix, suffix=_PART)
    beside = Path(name)
    try:
        _lock(handle)
        yield beside
        with beside.open("rb") as file:
            os.fsync(file.fileno())  # or a power cut could leave a name without contents
        # The mode of the replaced file, or the default of the user's umask.
        if private:
            mode = 0o600
        elif target.exists():
            mode = target.stat().st_mode & 0o777
        else:
            os.umask(mask := os.umask(0))
            mode = 0o666 & ~mask
        beside.chmod(mode)
        os.replace(beside, target)
    finally:
        os.close(handle)
        with suppress(FileNotFoundError):
            beside.unlink()


@contextmanager
def private_folder() -> Iterator[Path]:
    """A temporary folder for rows that do not fit into memory, private to this user.

    >>> with private_folder() as folder:
    ...     oct(folder.stat().st_mode)[-3:]
    '700'
    """
    _clear(Path(tempfile.gettempdir()), f"{_FOLDER}{_RANDOM}")
    with tempfile.TemporaryDirectory(prefix=_FOLDER, ignore_cleanup_errors=True) as name:
        handle = os.open(Path(name) / _MARK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock(handle)
            yield Path(name)
        finally:
            os.close(handle)


def _clear(folder: Path, pattern: str) -> None:
    """Remove temporary files of processes that have ended, whose locks are free.

    A folder is ours only if it contains our mark: names may coincide.
    """
    if not _locks():
        return
    for path in folder.glob(pattern):
        with suppress(OSError):  # another's, or gone already
            found = path.lstat()
            if found.st_uid != os.getuid() or time.time() - found.st_mtime < _FRESH:
                continue
            locked = path / _MARK if stat.S_ISDIR(found.st_mode) else path
            handle = os.open(locked, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                if _lock(handle):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            finally:
                os.close(handle)


def _locks() -> bool:
    """Whether the system supports file locks that end with their process."""
    return os.name == "posix"


def _lock(handle: int) -> bool:
    """Lock a file until its handle is closed; False if another process holds the lock."""
    if not _locks():
        return False
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
