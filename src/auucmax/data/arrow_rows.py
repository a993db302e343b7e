"""From Arrow batches, which Parquet files, DuckDB and Spark all give, to rows of a trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Bools
from auucmax.data.batches import Batch
from auucmax.data.table_errors import TableError

__all__ = ["ArrowRows"]


@dataclass(frozen=True)
class ArrowRows:
    """Which columns are features (numbers), outcome and treatment, and what its two arms are.

    ``treated`` and ``control`` None: treatment is 0/1 or boolean. Otherwise they are its two
    values, compared as texts, and rows with others are left out.
    """

    features: tuple[str, ...]
    outcome: str
    treatment: str
    dtype: str = "float32"
    treated: str | None = None
    control: str | None = None

    @classmethod
    def of(
        cls,
        schema: Any,
        features: Sequence[str],
        outcome: str,
        treatment: str,
        *,
        treated: Any = None,
        control: Any = None,
        name: str = "the table",
    ) -> ArrowRows:
        """Checked against an Arrow schema; float32 if every feature is exact in it."""
        _check_arms(treated, control)
        kinds = {column: schema.field(column).type for column in features}
        texts = [column for column, kind in kinds.items() if _width(kind) is None]
        if texts or not kinds:
            raise TableError(
                f"{name} should have columns of numbers for features, got "
                + (f"{texts[0]!r} of type {kinds[texts[0]]}" if texts else "none")
                + ". Name columns of numbers, or encode it first."
            )
        single = all(_width(kind) == 4 for kind in kinds.values())
        return cls(
            tuple(features),
            outcome,
            treatment,
            "float32" if single else "float64",
            None if treated is None else str(treated),
            None if control is None else str(control),
        )

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.features, self.outcome, self.treatment)

    def batch(self, table: Any, keys: NDArray[np.uint64]) -> Batch:
        """The rows of an Arrow table or record batch; ``keys`` (m,) name them."""
        treated, known = self._arms(table.column(self.treatment))
        y = _numbers(table.column(self.outcome)).astype(np.float64)
        X = np.empty((len(self.features), table.num_rows), dtype=self.dtype)
        for k, column in enumerate(self.features):
            X[k] = _numbers(table.column(column))
        rows = Batch(X.T, y, treated, keys)
        if not known.all():
            rows = rows.take(known)
        if np.isnan(rows.y).any():
            raise TableError(
                f"the column {self.outcome!r} should have a number in every row, got a missing "
                f"value. Drop the rows without an outcome."
            )
        return rows

    def _arms(self, column: Any) -> tuple[Bools, Bools]:
        """Whether each row is treated, and whether it is in one of the two arms."""
        if self.treated is None:
            value = _numbers(column)
            treated = value == 1
            if not (treated | (value == 0)).all():
                other = value[~(treated | (value == 0))][0]
                raise TableError(
                    f"the column {self.treatment!r} should be 0 or 1 in every row, got {other}. "
                    f"Name the two arms with treated= and control=."
                )
            return treated, np.ones(len(value), dtype=bool)
        import pyarrow as pa
        import pyarrow.compute as pc

        text = pc.cast(column, pa.string())
        treated, control = (
            np.asarray(pc.fill_null(pc.equal(text, label), False).to_numpy(zero_copy_only=False))
            for label in (self.treated, self.control)
        )
        return treated, treated | control


def _check_arms(treated: Any, control: Any) -> None:
    if (treated is None) != (control is None):
        raise TableError(
            f"treated and control should be given together, got "
            f"{'control' if treated is None else 'treated'} only. Name both arms."
        )
    if treated is not None and str(treated) == str(control):
        raise TableError(
            f"treated and control should be two values, got {treated!r} for both. Name both arms."
        )


def _width(kind: Any) -> int | None:
    """Bytes of a float that holds the numbers of an Arrow type exactly; None: not numbers."""
    import pyarrow.types as types

    if types.is_boolean(kind) or types.is_float16(kind) or types.is_float32(kind):
        return 4
    if types.is_integer(kind):
        return 4 if kind.bit_width <= 16 else 8
    return 8 if types.is_float64(kind) or types.is_decimal(kind) else None


def _numbers(column: Any) -> NDArray[Any]:
    """An Arrow column as numbers, missing ones as NaN."""
    if hasattr(column, "combine_chunks"):
        column = column.combine_chunks()
    values = column.to_numpy(zero_copy_only=False)
    return values.astype(np.float64) if values.dtype.kind in "OV" else values
