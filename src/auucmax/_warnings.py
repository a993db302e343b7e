"""Warnings that point at the user's own line."""

from __future__ import annotations

import sys


def level_of_caller() -> int:
    """``stacklevel`` of the nearest frame outside this package, for a warning of the caller.

    However many functions of the package lie between: arrays and streams take different ways to
    the same warning.

    >>> outside = {"__name__": "elsewhere", "level_of_caller": level_of_caller}
    >>> exec("level = level_of_caller()", outside)  # no frame of the package lies between
    >>> outside["level"]
    1
    """
    frame, level = sys._getframe(1), 1
    own = __name__.partition(".")[0]
    while frame.f_globals.get("__name__", "").partition(".")[0] == own and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    return level
