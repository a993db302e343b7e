"""Encode raw tables as numeric features.

``frames`` takes tables of any library and gives results back in it, ``kinds`` recognises what a
column holds and gives equal values one text whatever the file, ``columns`` holds fitted columns and
their terms, and ``encoder`` turns tables into numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auucmax._optional import lazy_names

if TYPE_CHECKING:
    from auucmax.encoding.encoder import TableEncoder

__all__ = ["TableEncoder"]


# Late: who only reads a table has no need of scikit-learn.
__getattr__ = lazy_names(__name__, {"TableEncoder": "encoder"})
