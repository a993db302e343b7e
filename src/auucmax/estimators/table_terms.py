"""What a table encoder has learnt, as plain data: its columns, and the terms that are features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from auucmax.estimators.column_kinds import KINDS

__all__ = ["TERMS", "Column", "Term", "category_terms", "column_of", "term_of"]

TERMS = ("value", "missing", "level", "other")


@dataclass(frozen=True)
class Column:
    """A raw column: its kind, its levels if it is a category, the fill of missing values if not.

    ``other_share`` is the share of rare texts among those of the training rows.
    """

    name: str
    kind: str
    levels: tuple[str, ...] = ()
    has_other: bool = False
    has_missing: bool = False
    fill: float | None = None
    other_share: float = 0.0


@dataclass(frozen=True)
class Term:
    """A feature: what of a column's value becomes a number, and the name it is printed by."""

    kind: str
    column: str
    level: str | None = None
    fill: float = 0.0
    name: str = ""


def category_terms(column: Column) -> list[Term]:
    """Terms of a category: its levels, other, missing.

    >>> [term.name for term in category_terms(Column("town", "category", ("a", "b"), True))]
    ['town=a', 'town=b', 'town: other']
    """
    name = column.name
    terms = [Term("level", name, level, 0.0, f"{name}={level}") for level in column.levels]
    terms += [Term("other", name, None, 0.0, f"{name}: other")] if column.has_other else []
    return terms + (
        [Term("missing", name, None, 0.0, f"{name}: missing")] if column.has_missing else []
    )


def column_of(entry: Mapping[str, Any]) -> Column:
    """The column of a dictionary; an error if no encoder wrote it."""
    column = Column(**{**entry, "levels": tuple(entry["levels"])})
    texts = [column.name, *column.levels]
    flags = [column.has_other, column.has_missing]
    is_filled = type(column.fill) is float and bool(np.isfinite(column.fill))
    right = all(type(t) is str for t in texts) and all(type(f) is bool for f in flags)
    right = right and type(column.other_share) is float and 0 <= column.other_share <= 1
    if column.kind not in KINDS or not right or is_filled == (column.kind == "category"):
        raise ValueError(f"there is no such column as {column!r}"[:200])
    if len(set(column.levels)) < len(column.levels):
        raise ValueError(f"the levels of {column.name!r} are not different")
    return column


def term_of(entry: Mapping[str, Any], columns: tuple[Column, ...]) -> Term:
    """The term of a dictionary, of one of these columns; an error if no encoder wrote it."""
    term = Term(**entry)
    found = [column for column in columns if column.name == term.column]
    is_level = term.kind in ("level", "other")
    right = (
        len(found) == 1
        and term.kind in TERMS
        and type(term.name) is str
        and type(term.fill) is float
        and bool(np.isfinite(term.fill))
        and (term.kind == "missing" or is_level == (found[0].kind == "category"))
        and (term.level in found[0].levels if term.kind == "level" else term.level is None)
    )
    if not right:
        raise ValueError(f"there is no such term as {term!r}"[:200])
    return term
