"""Convert results to plain JSON, and read them back strictly."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from types import EllipsisType, NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from auucmax._messages import visible

LARGEST_NUMBER = 1e200  #: of a file: products of some of them are finite still
LARGEST_WHOLE = 2**53  #: above, a whole number is none to a float


def plain(value: Any) -> Any:
    """Convert to dictionaries, lists, text, numbers and None; non-finite numbers become None.

    >>> plain({"a": np.array([1.0, np.nan]), "b": (np.int64(2), True)})
    {'a': [1.0, None], 'b': [2, True]}
    """
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, np.bool_ | np.integer):
        return value.item()
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    return str(value)


def read(kind: Any, value: Any, name: str = "the value") -> Any:
    """Read plain JSON as a value of the type ``kind``; raise a ValueError if it does not fit.

    Files come from anywhere, so nothing is converted but lists to tuples, and numbers are of a size
    that can be computed with. A kind is

    * ``bool``, ``int``, ``float``, ``str`` or None; whole numbers are floats, too, but bools are no
      numbers;
    * ``[kind]``, a list of it; a tuple of kinds, or ``X | Y``: the first that fits;
    * ``{name: kind}``, entries with these names and no others, but for ``{...: ...}`` among them;
    * a dataclass, from entries with the names of its fields; its types are what they are annotated
      with, among them ``tuple[X, ...]``.

    >>> read({"name": str, "ends": (None, [float])}, {"name": "a", "ends": [0, 0.5]})
    {'name': 'a', 'ends': [0, 0.5]}
    >>> read([int], [1, 2, True], "counts")
    Traceback (most recent call last):
    ValueError: counts should be int, got bool. It is not as auucmax writes it: save it again.
    """
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        entries = {field.name: hints[field.name] for field in fields(kind)}
        return kind(**read(entries, value, name))  # type: ignore[operator]
    if get_origin(kind) is tuple:
        return tuple(read([get_args(kind)[0]], value, name))
    if get_origin(kind) is UnionType:
        kind = get_args(kind)
    if isinstance(kind, tuple):
        for one in kind:
            with suppress(ValueError):
                return read(one, value, name)
    elif isinstance(kind, list):
        if isinstance(value, list):
            return [read(kind[0], one, name) for one in value]
    elif isinstance(kind, dict):
        if isinstance(value, dict):
            return value | _entries(kind, value, name)
    elif _is_single(kind, value):
        return value
    size = " that is too large" if type(value) is kind else ""
    raise ValueError(
        f"{visible(name[:50])} should be {_words(kind)}, got {type(value).__name__}{size}. It is "
        f"not as auucmax writes it: save it again."
    )


def _entries(kind: dict[Any, Any], value: dict[str, Any], name: str) -> dict[str, Any]:
    """Read the fields of a dataclass; raise a ValueError for missing or extra ones."""
    named = {key for key in kind if not isinstance(key, EllipsisType)}
    odd = named - set(value) if ... in kind else named ^ set(value)
    if odd:
        raise ValueError(
            f"{visible(name[:50])} should have the entries that auucmax writes, got others: they "
            f"differ in {visible(', '.join(sorted(odd)))[:100]}. Save it again."
        )
    return {key: read(kind[key], value[key], key) for key in named}


def _words(kind: Any) -> str:
    """The name of a type, for error messages."""
    if isinstance(kind, tuple):
        return " or ".join(map(_words, kind))
    if isinstance(kind, list):
        return f"a list of {_words(kind[0])}"
    return "entries by name" if isinstance(kind, dict) else getattr(kind, "__name__", str(kind))


def _is_single(kind: Any, value: Any) -> bool:
    if kind is float and type(value) is float:
        return abs(value) <= LARGEST_NUMBER
    if kind in (int, float) and type(value) is int:
        return abs(value) <= LARGEST_WHOLE
    return type(value) is (NoneType if kind is None else kind)


LONGEST_NAME = 120


def short(name: object, most: int = LONGEST_NAME) -> str:
    """Shorten a name to at most 120 characters.

    >>> short("x" * 500)[-3:], len(short("x" * 500))
    ('xx…', 120)
    """
    text = str(name)
    return text if len(text) <= most else text[: most - 1] + "…"
