"""Compile with numba, late: importing this module takes half a second; import it where needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile on first use, and keep the result on disk where a folder can be written."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            result: Callable[..., Any] = numba.njit(cache=True, **options)(function)
        except RuntimeError:  # numba found no folder to write to
            result = numba.njit(**options)(function)
        return result

    return decorate
