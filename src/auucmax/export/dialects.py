"""SQL dialects: names, texts, numbers, missing values and dates.

Each entry is written for its database, without a translator: databases differ in meaning, which a
translator of grammars does not know. Spark, for example, writes the text of a TIMESTAMP in the zone
of the session and does not say in which.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from auucmax._errors import InputError
from auucmax._validation import check_choice
from auucmax.data.text_types import with_seconds
from auucmax.encoding.kinds import MISSING_TEXTS

_DAY = 86_400
# Characters that would end a line, or that cannot be seen, in a text with backslash escapes.
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_DOLLAR = "\\u0024{"  # ${, as a text that only the parser sees


@dataclass(frozen=True)
class Dialect:
    """The differences between databases; ``{x}`` stands for an expression.

    ``real``: a double, NULL where it is not a number. ``days``: days since 1970-01-01 (UTC), from
    microseconds as the encoder has them, so that both are the same double; ``reads_dates``: also of
    ISO texts.

    ``backslash``: whether a backslash escapes in texts: "no", "yes", "marked" (only in E'...') or
    "quotes" (quotes, too, and control characters; in names if ``escapes_names``).
    ``substitutes``: whether ``${...}`` is replaced in the whole query before it is parsed.
    ``groups``: what was found between brackets, for REGEXP_REPLACE, all but one of them empty.
    ``folds_case``: whether quoted names of columns that differ in case only are the same.
    ``but``: the word that leaves columns out of *; where there is none, a row as a whole can be a
    column in its place. ``fence``: the end of a SELECT whose expressions the planner would
    otherwise compute again wherever a column of it is used.
    """

    name: str
    double: str
    varchar: str
    real: str
    days: str
    reads_dates: bool = True
    quote: str = '"'
    backslash: str = "no"
    escapes_names: bool = False
    substitutes: bool = False
    has_nul: bool = True
    groups: str = r"\1\2\3\4"
    folds_case: bool = False
    but: str = "EXCLUDE"
    fence: str = ""

    def identifier(self, name: str) -> str:
        """Quote a name as an identifier, whatever characters it has.

        >>> print(dialect_named("postgres").identifier('age"; DROP TABLE x; --'))
        "age""; DROP TABLE x; --"
        >>> print(dialect_named("bigquery").identifier("a`b"))
        `a\\`b`
        """
        if not name or "\0" in name:
            raise InputError(
                "a name of a table or column", "a text with characters other than NUL", repr(name),
                "Rename it before you export.",
            )  # fmt: skip
        if self.substitutes and "${" in name:
            raise InputError(
                f"a name in a query of {self.name}",
                "without ${, which is replaced before the query is read", repr(name),
                "Rename it and fit again.",
            )  # fmt: skip
        if self.escapes_names:
            return f"{self.quote}{_escaped(name, self.quote)}{self.quote}"
        return f"{self.quote}{name.replace(self.quote, self.quote * 2)}{self.quote}"

    def text(self, value: str) -> str:
        """A text literal.

        >>> print(dialect_named("duckdb").text("it's"), dialect_named("bigquery").text("it's"))
        'it''s' 'it\\'s'
        >>> print(dialect_named("spark").text("${x}"))
        '\\u0024{x}'
        """
        if self.backslash == "quotes":
            escaped = _escaped(value, "'")
            return f"'{escaped.replace('${', _DOLLAR) if self.substitutes else escaped}'"
        doubled = value.replace("'", "''")
        if self.backslash == "no" or "\\" not in value:
            return f"'{doubled}'"
        # Escaped like this it means the same whatever the server's settings for backslashes.
        escaped = doubled.replace("\\", "\\\\")
        return f"E'{escaped}'" if self.backslash == "marked" else f"'{escaped}'"

    def can_hold(self, value: str) -> bool:
        """Whether the database can represent this text.

        >>> dialect_named("postgres").can_hold("a\\0b"), dialect_named("duckdb").can_hold("a\\0b")
        (False, True)
        """
        whole = not any("\ud800" <= c <= "\udfff" for c in value)
        return whole and (self.has_nul or "\0" not in value)

    def number(self, value: float) -> str:
        """A number literal that reads back as the same double.

        >>> dialect_named("duckdb").number(0.1)
        '0.1e0'
        """
        if not math.isfinite(value):
            raise InputError("a number in a query", "finite", f"{value}", "Fit again.")
        digits, _, exponent = repr(float(value)).partition("e")
        # With an exponent a literal is a double. Without, DuckDB reads a decimal.
        whole, _, part = digits.partition(".")
        part = part.rstrip("0")
        return f"{whole}.{part}e{int(exponent or 0)}" if part else f"{whole}e{int(exponent or 0)}"

    def as_text(self, x: str) -> str:
        """SQL that casts a value of any type to text with binary comparison."""
        return f"CAST({x} AS {self.varchar})"


def dialect_named(name: str) -> Dialect:
    """The dialect with this name; the error lists all names."""
    check_choice(name, "dialect", tuple(DIALECTS))
    return DIALECTS[name]


def _escaped(text: str, quote: str) -> str:
    """Escape quotes, backslashes and control characters."""
    escapes = _ESCAPES | {quote: f"\\{quote}"}
    return "".join(
        escapes.get(c) or (f"\\u{ord(c):04x}" if ord(c) < 32 or c in "\x7f\x85\u2028\u2029" else c)
        for c in text
    )


def _moment(
    varchar: str,
    moment: str = "TIMESTAMP WITH TIME ZONE",
    utc: str = "+00",
    full: Callable[[str], str] = str,
) -> str:
    """SQL that converts a date, timestamp (with or without zone) or ISO text to UTC.

    By its text, which every type has; without a zone it is UTC, whatever that of the session.
    ``full`` is SQL of a text as this database reads it. Other texts are errors when the query runs:
    05.02.2020 may be in May or in February.
    """
    text = f"CAST({{x}} AS {varchar})"
    # Databases read a backslash in different ways: \N is an error there.
    absent = ", ".join(f"'{text}'" for text in MISSING_TEXTS if "\\" not in text)
    clock = f"{text} LIKE '____-__-__%:%"
    return (
        f"CAST(CASE WHEN {text} IN ({absent}) THEN NULL "
        f"WHEN {text} LIKE '____-__-__' THEN {text} || ' 00:00:00{utc}' "
        f"WHEN NOT {clock}' THEN 'not an ISO date: ' || {text} "
        f"WHEN {clock}+%' OR {clock}-%' OR {clock}Z' THEN {full(text)} "
        f"ELSE {full(text)} || '{utc}' END AS {moment})"
    )


_NAN = "NULLIF(CAST({x} AS DOUBLE), CAST('NaN' AS DOUBLE))"  # where NaN equals itself

_ALL = (
    Dialect(
        "duckdb",
        double="DOUBLE",
        varchar="VARCHAR",
        real=_NAN,
        days=f"CAST(EPOCH_US({_moment('VARCHAR', full=with_seconds)}) AS DOUBLE) / {_DAY}e6",
        folds_case=True,
    ),
    Dialect(
        "postgres",
        double="DOUBLE PRECISION",
        varchar="TEXT",
        real=_NAN.replace("DOUBLE", "DOUBLE PRECISION"),
        days=f"CAST(EXTRACT(EPOCH FROM {_moment('TEXT')}) * 1000000 AS DOUBLE PRECISION) "
        f"/ {_DAY}e6",
        backslash="marked",
        has_nul=False,
        but="",
        fence="\nOFFSET 0",
    ),
    Dialect(
        "bigquery",
        double="FLOAT64",
        varchar="STRING",
        real="IF(IS_NAN(CAST({x} AS FLOAT64)), NULL, CAST({x} AS FLOAT64))",
        days=f"UNIX_MICROS(CAST({{x}} AS TIMESTAMP)) / {_DAY}e6",
        quote="`",
        backslash="quotes",
        escapes_names=True,
        folds_case=True,
        but="EXCEPT",
    ),
    Dialect(
        "snowflake",
        double="DOUBLE",
        varchar="VARCHAR",
        real=_NAN,
        days=f"DATE_PART(EPOCH_SECOND, {{x}}) / {_DAY}e0",
        reads_dates=False,
        backslash="yes",
    ),
    Dialect(
        "spark",
        double="DOUBLE",
        varchar="STRING",
        real=_NAN,
        # Text of a TIMESTAMP is in the zone of the session, and does not say in which.
        days="CAST(UNIX_MICROS(CASE WHEN TYPEOF({x}) = 'timestamp' THEN CAST({x} AS TIMESTAMP) "
        f"ELSE {_moment('STRING', 'TIMESTAMP', '+00:00')} END) AS DOUBLE) / {_DAY}e6",
        quote="`",
        backslash="quotes",
        substitutes=True,
        groups="$1$2$3$4",
        folds_case=True,
        but="EXCEPT",
    ),
)
_BY_NAME = {dialect.name: dialect for dialect in _ALL}
DIALECTS: Mapping[str, Dialect] = MappingProxyType(_BY_NAME | {"databricks": _BY_NAME["spark"]})
