"""How CSV files are written where they do not show it: their decimal sign, and their encoding.

DuckDB reads UTF-8. A file of another encoding is copied to a private folder, as UTF-8, for as long
as it is read.
"""

from __future__ import annotations

import codecs
import gzip
import io
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from auucmax._files import private_folder
from auucmax.data.table_errors import TableError

DECIMALS = (".", ",")
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_CHUNK = 1 << 20  # characters that are copied at a time


class TextForm(NamedTuple):
    """What the user says of a CSV file; None: the file shows it, and is UTF-8.

    >>> TextForm.checked(",", "Latin-1")
    TextForm(decimal=',', encoding='iso8859-1')
    >>> TextForm.checked(";", None)
    Traceback (most recent call last):
    auucmax.data.table_errors.TableError: decimal should be '.' or ',', got ';'. Pass the sign \
before the decimals of its numbers.
    """

    decimal: str | None = None
    encoding: str | None = None

    @classmethod
    def checked(cls, decimal: str | None, encoding: str | None) -> TextForm:
        """A decimal sign that there is, and the name of an encoding as Python spells it."""
        if decimal is not None and decimal not in DECIMALS:
            raise TableError(
                f"decimal should be '.' or ',', got {decimal!r:.50}. Pass the sign before the "
                f"decimals of its numbers."
            )
        if encoding is None:
            return cls(decimal)
        try:
            info = codecs.lookup(encoding)
        except (LookupError, TypeError, ValueError):
            info = None
        # Some codecs are not of texts: base64, say.
        if info is None or not getattr(info, "_is_text_encoding", True):
            raise TableError(
                f"encoding should be the name of a text encoding, such as latin-1, cp1252 or "
                f"utf-16, got {encoding!r:.50}. Check the name."
            )
        return cls(decimal, None if info.name in ("utf-8", "utf-8-sig") else info.name)

    def check_kind(self, kind: str, name: str) -> None:
        """TableError if something is said of a file that is no CSV file."""
        for option, given in self._asdict().items():
            if given is not None and kind != "csv":
                raise TableError(
                    f"{option} should come with a CSV file, got it with {name}, which needs none. "
                    f"Leave it out."
                )


def open_unpacked(file: str) -> AbstractContextManager[Any]:
    """The bytes of a file, packed or not."""
    with Path(file).open("rb") as plain:
        start = plain.read(4)
    if start.startswith(_GZIP):
        return gzip.open(file)
    if start.startswith(_ZSTD):
        import pyarrow as pa

        return pa.input_stream(file, compression="zstd")
    return Path(file).open("rb")


def utf8_files(files: Sequence[str], encoding: str | None, stack: ExitStack) -> list[str]:
    """The files, or copies of them in UTF-8 that are there until the stack is closed."""
    if encoding is None:
        return list(files)
    folder = stack.enter_context(private_folder())
    copies = []
    for place, file in enumerate(files):
        # Of the same name, for messages; two files may have one.
        copy = folder / str(place) / Path(file).name.removesuffix(".gz").removesuffix(".zst")
        copy.parent.mkdir()
        _copy(file, encoding, copy)
        copies.append(str(copy))
    return copies


def _copy(file: str, encoding: str, copy: Path) -> None:
    try:
        with (
            open_unpacked(file) as source,
            io.TextIOWrapper(source, encoding=encoding, newline="") as text,
            copy.open("w", encoding="utf-8", newline="") as target,
        ):
            while chunk := text.read(_CHUNK):
                target.write(chunk)
    except UnicodeError as error:
        raise TableError(
            f"{Path(file).name} should be text in {encoding}, got other bytes. Check encoding=."
        ) from error
