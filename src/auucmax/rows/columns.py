"""From Arrow batches, which Parquet files, DuckDB and Spark all give, to rows of a trial."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Bools
from auucmax.data.table_errors import TableError, check_two
from auucmax.encoding.texts import arm_text
from auucmax.rows.base import Batch

CHECK_ARMS = "Check the values of the treatment, and what treated= and control= name."


@dataclass(frozen=True)
class ArrowColumns:
    """Which columns are features (numbers), outcome and treatment, and what its two arms are.

    ``treated`` and ``control`` None: treatment is 0/1 or boolean. Otherwise they are its two
    values as :func:`auucmax.encoding.texts.arm_text` writes them, and rows with others are left
    out.
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
    ) -> ArrowColumns:
        """Checked against an Arrow schema; float32 where the same columns in memory are.

        Outcomes are numbers, booleans or decimals, which may be a feature, too (a score may be
        evaluated as the outcome of itself).
        """
        check_two(treatment, outcome, name)
        _check_arms(treated, control)
        _check_outcome(outcome, schema.field(outcome).type)
        _check_treatment(treatment, schema.field(treatment).type, named=treated is not None)
        kinds = {column: schema.field(column).type for column in features}
        texts = [column for column, kind in kinds.items() if _width(kind) is None]
        if texts or not kinds:
            raise TableError(
                f"{name} should have columns of numbers for features, got "
                + (f"{texts[0]!r} of type {_short(kinds[texts[0]])}" if texts else "none")
                + ". Name columns of numbers, or encode it first."
            )
        single = _is_single(kinds.values())
        return cls(
            tuple(features),
            outcome,
            treatment,
            "float32" if single else "float64",
            None if treated is None else arm_text(treated),
            None if control is None else arm_text(control),
        )

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.features, self.outcome, self.treatment)

    @property
    def wanted(self) -> str:
        """What is missing of a table without rows, for a message."""
        if self.treated is None:
            return "rows"
        return f"rows with {self.treated!r} or {self.control!r} in {self.treatment!r}"

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
        if not (known := np.isfinite(rows.y)).all():
            what = "a missing value" if np.isnan(rows.y[~known][0]) else "an infinite one"
            raise TableError(
                f"the column {self.outcome!r} should have a finite number in every row, got "
                f"{what}. Drop the rows without an outcome."
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
        codes, texts = _arm_codes(column)
        # Code -1 is of missing values, and -1 is the place of the last: neither arm.
        treated, control = (
            np.array([*(text == label for text in texts), False])[codes]
            for label in (self.treated, self.control)
        )
        return treated, treated | control


def _arm_codes(column: Any) -> tuple[NDArray[np.int64], list[str | None]]:
    """Code of each row (-1 where missing), and the texts of the different values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = _in_one(column)
    kind = column.type
    if pa.types.is_decimal(kind) and kind.bit_width < 128:  # which Arrow cannot encode
        column = column.cast(pa.decimal128(kind.precision, kind.scale))
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    codes = pc.fill_null(column.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    values = column.dictionary
    if pa.types.is_floating(values.type):  # single precision stays: its 0.1 prints as such
        values = values.to_numpy(zero_copy_only=False)
    else:
        values = values.to_pylist()
    return codes, [None if value is None else arm_text(value) for value in values]


def _check_arms(treated: Any, control: Any) -> None:
    if (treated is None) != (control is None):
        raise TableError(
            f"treated and control should be given together, got "
            f"{'control' if treated is None else 'treated'} only. Name both arms."
        )
    if treated is not None and arm_text(treated) == arm_text(control):
        raise TableError(
            f"treated and control should be two values, got {treated!r} and {control!r}. Name both "
            f"arms."
        )


def _check_outcome(name: str, kind: Any) -> None:
    if _width(kind) is None:
        raise TableError(
            f"the column {name!r} should hold numbers or booleans, for it is the outcome, got type "
            f"{_short(kind)}. Convert it first."
        )


def _check_treatment(name: str, kind: Any, *, named: bool) -> None:
    if not _is_label(kind):
        raise TableError(
            f"the column {name!r} should hold numbers, booleans, texts or dates, for it is the "
            f"treatment, got type {_short(kind)}. Convert it first."
        )
    if not named and _width(kind) is None:
        raise TableError(
            f"the column {name!r} should be 0 or 1 in every row, got type {_short(kind)}. Name the "
            f"two arms with treated= and control=."
        )


def _is_label(kind: Any) -> bool:
    """Whether values of an Arrow type can name an arm."""
    import pyarrow.types as types

    if types.is_dictionary(kind):
        return _is_label(kind.value_type)
    texts = types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view"
    return _width(kind) is not None or texts or types.is_date(kind)


def _short(kind: Any) -> str:
    """An Arrow type for a message; nested ones can be long."""
    return f"{kind!s:.50}"


def _width(kind: Any) -> int | None:
    """Bytes of a float that holds the numbers of an Arrow type exactly; None: not numbers."""
    import pyarrow.types as types

    if types.is_boolean(kind) or types.is_float16(kind) or types.is_float32(kind):
        return 4
    if types.is_integer(kind):
        return 4 if kind.bit_width <= 16 else 8
    return 8 if types.is_float64(kind) or types.is_decimal(kind) else None


def _is_single(kinds: Iterable[Any]) -> bool:
    """Whether numpy would make one float32 matrix of columns of these Arrow types."""
    import pyarrow.types as types

    found = list(kinds)
    small = [kind for kind in found if _width(kind) == 4 and not types.is_boolean(kind)]
    return len(small) == len(found) and any(map(types.is_float32, found))


def _numbers(column: Any) -> NDArray[Any]:
    """An Arrow column as numbers, missing ones as NaN."""
    values = _in_one(column).to_numpy(zero_copy_only=False)
    return values.astype(np.float64) if values.dtype.kind in "OV" else values


def _in_one(column: Any) -> Any:
    """A column of a record batch, or of a table, whose pieces are joined."""
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column
