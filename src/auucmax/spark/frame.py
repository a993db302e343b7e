"""A DataFrame's columns: are they there, can Spark tell them apart, and what do they hold?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from auucmax._optional import import_optional
from auucmax._validation import listed
from auucmax.data.table_errors import TableError, feature_columns
from auucmax.rows.arrow import ArrowColumns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME = "the DataFrame"  #: in messages


def check_frame(
    frame: DataFrame, features: Iterable[str] | None, treatment: str, outcome: str
) -> tuple[str, ...]:
    """The feature columns: those named, or all others; all are there, and have one role each."""
    chosen = feature_columns(features, treatment, outcome, frame.columns, NAME)
    check_told_apart(frame, [*chosen, treatment, outcome])
    return chosen


def check_told_apart(frame: DataFrame, names: Sequence[str]) -> None:
    """Raise a TableError if Spark could not tell which columns are meant: after a join, say."""
    as_spark = _spelling(frame)
    times = Counter(map(as_spark, frame.columns))
    if twice := dict.fromkeys(name for name in names if times[as_spark(name)] > 1):
        raise TableError(
            f"{NAME} should have each column once, capitals aside, got {listed(twice)} more than "
            f"once. Rename or drop the others."
        )


def check_free(frame: DataFrame, column: str) -> None:
    """Raise a TableError if a new column of this name could not be told from another."""
    as_spark = _spelling(frame)
    near = [n for n in frame.columns if n != column and as_spark(n) == as_spark(column)]
    if near:
        raise TableError(
            f"the new column should differ from those of {NAME}, capitals aside, got {column!r} "
            f"beside {near[0]!r}. Take another name."
        )


def _spelling(frame: DataFrame) -> Callable[[str], str]:
    """What of a name counts for Spark: capitals only if they are told apart."""
    exact = frame.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    return str if exact else str.casefold


def arrow_columns(
    frame: DataFrame,
    features: Sequence[str],
    treatment: str,
    outcome: str,
    treated: Any = None,
    control: Any = None,
) -> ArrowColumns:
    """The columns of a DataFrame, checked as :meth:`ArrowColumns.of` checks an Arrow table."""
    types = import_optional("pyspark.sql.pandas.types", extra="spark")
    columns = dict.fromkeys([*features, outcome, treatment])
    schema = types.to_arrow_schema(frame.select(*map(quoted, columns)).schema)
    return ArrowColumns.of(
        schema, features, outcome, treatment, treated=treated, control=control, name=NAME
    )


def quoted(column: str) -> str:
    """A column's name as Spark's expressions take it: with dots that are part of it.

    >>> quoted("a.b")
    '`a.b`'
    """
    return "`" + column.replace("`", "``") + "`"
