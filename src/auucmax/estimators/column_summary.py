"""What a table encoder has to know of a column: counts, wherever they were made."""

from __future__ import annotations

from dataclasses import dataclass

from auucmax.estimators.table_terms import Column, Term, category_terms

__all__ = ["ColumnSummary", "learn_column"]


@dataclass(frozen=True)
class ColumnSummary:
    """A column of the training rows: what it holds, and what its terms depend on.

    Of a category: ``levels``, sorted, and the number of rows with another text. Of another kind:
    ``fill``, the median (None if all is missing), and whether values ``differ``.
    """

    name: str
    kind: str
    n_rows: int
    n_missing: int
    levels: tuple[str, ...] = ()
    n_other: int = 0
    fill: float | None = None
    differ: bool = False


def learn_column(summary: ColumnSummary) -> tuple[Column, list[Term], str]:
    """The column, its terms, and if it has none the reason.

    >>> age = ColumnSummary("age", "number", n_rows=9, n_missing=1, fill=40.0, differ=True)
    >>> [term.name for term in learn_column(age)[1]]
    ['age', 'age: missing']
    """
    name, kind, has_missing = summary.name, summary.kind, summary.n_missing > 0
    if kind == "category":
        return _learn_category(summary)
    if summary.fill is None:
        return Column(name, "number"), [], "without values"
    column = Column(name, kind, has_missing=has_missing, fill=summary.fill)
    # One value and missing ones: all that there is to know is which.
    terms = [Term("value", name, None, summary.fill, name)] if summary.differ else []
    terms += [Term("missing", name, None, 0.0, f"{name}: missing")] if has_missing else []
    return column, terms, "with one value"


def _learn_category(summary: ColumnSummary) -> tuple[Column, list[Term], str]:
    column = Column(
        summary.name,
        "category",
        summary.levels,
        summary.n_other > 0,
        summary.n_missing > 0,
        other_share=summary.n_other / max(summary.n_rows - summary.n_missing, 1),
    )
    several = len(column.levels) + column.has_other + column.has_missing > 1
    reason = "with rare levels only" if column.has_other else "with one value"
    reason = reason if column.has_other or column.levels else "without values"
    return column, category_terms(column) if several else [], reason
