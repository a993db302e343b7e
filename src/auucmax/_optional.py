"""Import optional libraries on first use, with an error that names the extra to install."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def import_optional(name: str, *, extra: str) -> Any:
    """Import the module ``name``, or raise an error that says what to install.

    Examples
    --------
    >>> import_optional("math", extra="deep").sqrt(4.0)
    2.0
    >>> import_optional("no_such_library", extra="deep")
    Traceback (most recent call last):
    ImportError: no_such_library should be installed to use this, got no such module. Run: pip
    install "auucmax[deep]"
    """
    library = name.split(".")[0]
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != library:
            raise  # it is installed, but lacks a dependency
        raise ImportError(
            f"{library} should be installed to use this, got no such module. "
            f'Run: pip install "auucmax[{extra}]"'
        ) from error


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Make a module ``__getattr__`` that imports names on first use.

    ``homes``: the module below ``package`` that has each name; a module is its own home.

    >>> lazy_names("json", {"JSONDecoder": "decoder"})("JSONDecoder").__name__
    'JSONDecoder'
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = import_module(f"{package}.{homes[name]}")
        value = home if homes[name] == name else getattr(home, name)
        setattr(sys.modules[package], name, value)
        return value

    return get


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile with numba on first use, and cache on disk if a folder is writable."""
    import numba  # takes half a second, which only kernel modules should pay

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            result: Callable[..., Any] = numba.njit(cache=True, **options)(function)
        except RuntimeError:  # numba found no folder to write to
            result = numba.njit(**options)(function)
        return result

    return decorate
