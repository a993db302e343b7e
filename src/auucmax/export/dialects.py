"""How four databases write names, texts, numbers, missing values and dates.

Everything that comes from a model or a user goes through ``identifier``, ``text`` or ``number``
of its dialect; nothing else is put between the words of a query.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from auucmax._validation import check_choice

_DAY = 86_400
# Characters that would end a line, or that cannot be seen, in a text with backslash escapes.
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


@dataclass(frozen=True)
class Dialect:
    """What differs between databases; ``{x}`` stands for an expression.

    ``days``: days since 1970-01-01 (UTC). ``real``: a double, NULL where it is not a number.
    ``backslash``: whether a backslash escapes in texts ("no", "yes", or "marked": only in E'...').
    ``folds_case``: whether quoted names of columns that differ in case only are the same.
    """

    name: str
    double: str
    varchar: str
    real: str
    days: str
    quote: str = '"'
    backslash: str = "no"
    folds_case: bool = False

    def identifier(self, name: str) -> str:
        """A name, quoted so that whatever it holds stays a name.

        >>> print(dialect_named("postgres").identifier('age"; DROP TABLE x; --'))
        "age""; DROP TABLE x; --"
        >>> print(dialect_named("bigquery").identifier("a`b"))
        `a\\`b`
        """
        if not name or "\0" in name:
            raise ValueError(
                f"a name of a table or column should have characters, none of them NUL, got "
                f"{name!r}. Rename it before you export."
            )
        if self.quote == "`":
            return f"`{_escaped(name, '`')}`"
        return f'"{name.replace(self.quote, self.quote * 2)}"'

    def text(self, value: str) -> str:
        """A text literal.

        >>> print(dialect_named("duckdb").text("it's"), dialect_named("bigquery").text("it's"))
        'it''s' 'it\\'s'
        """
        if self.quote == "`":
            return f"'{_escaped(value, chr(39))}'"
        doubled = value.replace("'", "''")
        if self.backslash == "no" or "\\" not in value:
            return f"'{doubled}'"
        # Escaped like this it means the same whatever the server's settings for backslashes.
        escaped = doubled.replace("\\", "\\\\")
        return f"E'{escaped}'" if self.backslash == "marked" else f"'{escaped}'"

    def can_hold(self, value: str) -> bool:
        """Whether a text of the database can equal this one at all.

        >>> dialect_named("postgres").can_hold("a\\0b"), dialect_named("duckdb").can_hold("a\\0b")
        (False, True)
        """
        whole = not any("\ud800" <= c <= "\udfff" for c in value)
        return whole and not (self.name == "postgres" and "\0" in value)

    def number(self, value: float) -> str:
        """A literal that reads back as the same double.

        >>> dialect_named("duckdb").number(0.1), dialect_named("duckdb").number(-2.0)
        ('0.1e0', '-2e0')
        """
        if not math.isfinite(value):
            raise ValueError(f"a number in a query should be finite, got {value}. Fit again.")
        digits, _, exponent = repr(float(value)).partition("e")
        # With an exponent a literal is a double. Without, DuckDB takes it for a decimal.
        whole, _, part = digits.partition(".")
        part = part.rstrip("0")
        return f"{whole}.{part}e{int(exponent or 0)}" if part else f"{whole}e{int(exponent or 0)}"


def dialect_named(name: str) -> Dialect:
    """The dialect, or an error that names all."""
    check_choice(name, "dialect", tuple(DIALECTS))
    return DIALECTS[name]


def _escaped(text: str, quote: str) -> str:
    """With backslashes before quotes and backslashes, and control characters by their code."""
    escapes = _ESCAPES | {quote: f"\\{quote}"}
    return "".join(
        escapes.get(c) or (f"\\u{ord(c):04x}" if ord(c) < 32 or c in "\x7f\x85\u2028\u2029" else c)
        for c in text
    )


_NAN = "NULLIF(CAST({x} AS DOUBLE), CAST('NaN' AS DOUBLE))"  # NaN equals itself in these databases

DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {
        dialect.name: dialect
        for dialect in (
            Dialect(
                "duckdb",
                double="DOUBLE",
                varchar="VARCHAR",
                real=_NAN,
                days=f"EXTRACT(EPOCH FROM {{x}}) / {_DAY}e0",
                folds_case=True,
            ),
            Dialect(
                "postgres",
                double="DOUBLE PRECISION",
                varchar="TEXT",
                real=_NAN.replace("DOUBLE", "DOUBLE PRECISION"),
                days=f"CAST(EXTRACT(EPOCH FROM {{x}}) AS DOUBLE PRECISION) / {_DAY}e0",
                backslash="marked",
            ),
            Dialect(
                "bigquery",
                double="FLOAT64",
                varchar="STRING",
                real="IF(IS_NAN(CAST({x} AS FLOAT64)), NULL, CAST({x} AS FLOAT64))",
                days=f"UNIX_MICROS(CAST({{x}} AS TIMESTAMP)) / {_DAY}e6",
                quote="`",
                backslash="yes",
                folds_case=True,
            ),
            Dialect(
                "snowflake",
                double="DOUBLE",
                varchar="VARCHAR",
                real=_NAN,
                days=f"DATE_PART(EPOCH_SECOND, {{x}}) / {_DAY}e0",
                backslash="yes",
            ),
        )
    }
)
