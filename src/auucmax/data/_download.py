"""Fetch one file over HTTP, whole or not at all; a cut transfer is taken up where it stopped."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["ChecksumError", "DataNotFoundError", "DownloadError", "digest", "download"]

BLOCK = 1 << 18
TRIES = 4
# Statuses that may pass: too many requests, and the server's own troubles.
PASSING = {408, 425, 429, 500, 502, 503, 504}

Update = Callable[[int, int | None], None]


class DataNotFoundError(FileNotFoundError):
    """A data file is neither in the directories searched nor to be had from its address."""


class DownloadError(OSError):
    """The transfer failed; a partial file may be left beside the target, for the next call."""


class ChecksumError(OSError):
    """The whole file came, but it is not the file that was asked for."""


class _CutConnection(OSError):
    """The server closed the connection before the last byte."""


class _Stamp(NamedTuple):
    """What tells one version of a remote file from another; kept beside the partial file."""

    tag: str | None
    size: int | None


def download(
    url: str,
    path: str | os.PathLike[str],
    checksum: str | None = None,
    *,
    progress: bool | None = None,
    timeout: float = 30.0,
    wait: float = 0.5,
) -> str:
    """Put the file at ``url`` in ``path`` and return its sha256.

    The bytes go to ``path.part``, which takes the name ``path`` only when it is whole and verified,
    so ``path`` never holds half a file. An existing ``path.part`` is taken up with a Range request
    if the remote file is still the same one, and a connection that is cut is tried again.

    Parameters
    ----------
    url : str
        An http or https address.
    path : path
        Where the file goes; missing folders are made.
    checksum : str, optional
        "sha256:<hex>" or "md5:<hex>". On a mismatch nothing is kept.
    progress : bool, optional
        Show a bar on stderr; by default only when stderr is a terminal.
    timeout : float, default 30
        Seconds that the server may stay silent.
    wait : float, default 0.5
        Seconds before the second try; doubled at each further one. After four tries in a row that
        brought nothing new the transfer fails.
    """
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"url should start with http:// or https://, got {url!r}.")
    target = Path(path)
    algorithm, expected = _parse_checksum(checksum)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    show = sys.stderr.isatty() if progress is None else progress
    with _bar(target.name, show) as update:
        _transfer(url, part, expected is not None, timeout, wait, update)
    got = digest(part, algorithm)
    if expected is not None and got != expected:
        _discard(part)
        raise ChecksumError(
            f"{target.name} from {url} should have the {algorithm} {expected}, got {got}. "
            f"The file was not kept. Try again; if it happens again, the file at that address has "
            f"changed or a proxy answers in its place."
        )
    sha256 = got if algorithm == "sha256" else digest(part, "sha256")
    os.replace(part, target)
    _stamp_path(part).unlink(missing_ok=True)
    return sha256


def digest(path: str | os.PathLike[str], algorithm: str = "sha256") -> str:
    """Hexadecimal digest of a file, read in blocks."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def _parse_checksum(checksum: str | None) -> tuple[str, str | None]:
    if checksum is None:
        return "sha256", None
    algorithm, _, expected = checksum.partition(":")
    if algorithm not in ("sha256", "md5") or not expected:
        raise ValueError(
            f"checksum should be 'sha256:<hex>' or 'md5:<hex>', got {checksum!r}. Name the "
            f"algorithm before the colon."
        )
    return algorithm, expected.lower()


def _transfer(
    url: str, part: Path, verifiable: bool, timeout: float, wait: float, update: Update
) -> None:
    """Try until the part file is whole; only tries in a row that bring nothing new count."""
    failures, most = 0, 0
    while True:
        try:
            _receive(url, part, verifiable, timeout, update)
            return
        except urllib.error.HTTPError as error:
            error.close()
            if error.code not in PASSING:
                raise DownloadError(
                    f"{url} should answer with the file, got HTTP {error.code} {error.reason}. "
                    f"Check the address in a browser: the file may have moved."
                ) from error
            cause: Exception = error
        except (OSError, http.client.HTTPException) as error:
            cause = error
        size = _size(part)
        failures = 1 if size > most else failures + 1
        most = max(most, size)
        if failures >= TRIES:
            raise DownloadError(
                f"{url} should send the whole file, but the connection failed {TRIES} times in a "
                f"row ({_reason(cause)}). Check the network; the next call goes on from byte "
                f"{size:,}."
            ) from cause
        time.sleep(wait * 2 ** (failures - 1))


def _receive(url: str, part: Path, verifiable: bool, timeout: float, update: Update) -> None:
    """One request: go on with the part file if that is safe, otherwise start it anew."""
    stamp = _read_stamp(part)
    # Without a stamp only the checksum can tell that both halves are of the same file.
    start = _size(part) if stamp is not None or verifiable else 0
    headers = {"User-Agent": "auucmax", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
        if stamp is not None and stamp.tag is not None:
            headers["If-Range"] = stamp.tag
    try:
        response = urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=timeout
        )
    except urllib.error.HTTPError as error:
        if not (start and error.code == 416):
            raise
        # The part is at least as long as the file: keep it only if it is exactly that long.
        error.close()
        if _total(error.headers.get("Content-Range")) == start:
            return
        _discard(part)
        raise _CutConnection("the partial file was longer than the remote one") from error
    with response:
        now = _stamp_of(response)
        partial = response.status == 206
        if partial and not (_same_file(stamp, now) and _first_byte(response) == start):
            _discard(part)
            raise _CutConnection("the remote file has changed since the transfer began")
        _write_stamp(part, now)
        # 200 in answer to a Range request is the whole file, from its first byte.
        _copy(response, part, start if partial else 0, now.size, update)


def _copy(response: Any, part: Path, start: int, size: int | None, update: Update) -> None:
    done = start
    with open(part, "ab" if start else "wb") as file:
        update(done, size)
        while block := response.read(BLOCK):
            file.write(block)
            done += len(block)
            update(done, size)
    # A read in blocks ends without an error when the connection is cut.
    if size is not None and done != size:
        raise _CutConnection(f"the connection ended after {done:,} of {size:,} bytes")


def _stamp_of(response: Any) -> _Stamp:
    headers = response.headers
    tag = headers.get("ETag") or headers.get("Last-Modified")
    # A weak ETag may not be used in If-Range: equal pages need not be equal bytes.
    tag = None if tag is not None and tag.startswith("W/") else tag
    if response.status == 206:
        return _Stamp(tag, _total(headers.get("Content-Range")))
    length = headers.get("Content-Length", "")
    return _Stamp(tag, int(length) if length.isdigit() else None)


def _same_file(before: _Stamp | None, now: _Stamp) -> bool:
    return before is None or all(
        a is None or b is None or a == b for a, b in zip(before, now, strict=True)
    )


def _first_byte(response: Any) -> int | None:
    first = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0]
    return int(first) if first.isdigit() else None


def _total(content_range: str | None) -> int | None:
    total = (content_range or "").rpartition("/")[2]
    return int(total) if total.isdigit() else None


def _stamp_path(part: Path) -> Path:
    return part.with_name(part.name + ".json")


def _read_stamp(part: Path) -> _Stamp | None:
    try:
        saved = json.loads(_stamp_path(part).read_text(encoding="utf-8"))
        return _Stamp(saved["tag"], saved["size"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_stamp(part: Path, stamp: _Stamp) -> None:
    _stamp_path(part).write_text(json.dumps(stamp._asdict()), encoding="utf-8")


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _discard(part: Path) -> None:
    part.unlink(missing_ok=True)
    _stamp_path(part).unlink(missing_ok=True)


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or error) or type(error).__name__


@contextmanager
def _bar(name: str, show: bool) -> Iterator[Update]:
    if not show:
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bars:
        task = bars.add_task(name, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)
