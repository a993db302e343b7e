"""Encode raw tables as numeric features.

``frames`` takes tables of any library and gives results back in it, ``kinds`` recognises what a
column holds and gives equal values one text whatever the file, ``columns`` holds fitted columns and
their terms, and ``encoder`` turns tables into numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from auucmax.encoding.encoder import TableEncoder

__all__ = ["TableEncoder"]


def __getattr__(name: str) -> Any:
    # Late: who only reads a table has no need of scikit-learn.
    if name != "TableEncoder":
        raise AttributeError(f"module 'auucmax.encoding' has no attribute {name!r}")
    from auucmax.encoding.encoder import TableEncoder

    return TableEncoder
