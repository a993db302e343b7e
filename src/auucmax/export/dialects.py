"""How databases write names, texts, numbers, missing values and dates.

Each entry is in the words of its database, so that a query needs no translator: what differs is
meaning, which a translator of grammars does not know. In MySQL, ``CAST('NaN' AS DOUBLE)`` is 0 and
'Oslo' equals 'oslo'; Redshift cannot write a boolean as a text; Trino writes the double 1 as 1.0E0.

That of MySQL is for MariaDB, too. It has only words that mean the same to both: neither collations
that one of them lacks, nor CAST AS JSON, nor groups of REGEXP_REPLACE, which are $1 or \\1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from auucmax._validation import check_choice
from auucmax.encoding.kinds import BOOLEAN_TEXTS, MISSING_TEXTS, with_seconds

_DAY = 86_400
# Characters that would end a line, or that cannot be seen, in a text with backslash escapes.
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_DOLLAR = "\\u0024{"  # ${, as a text that only the parser sees


@dataclass(frozen=True)
class Dialect:
    """What differs between databases; ``{x}`` stands for an expression.

    ``as_text``: the text of a value of any type, compared character by character. ``real``: a
    double, NULL where it is not a number. ``days``: days since 1970-01-01 (UTC), from microseconds
    as the encoder has them, so that both are the same double; ``reads_dates``: also of ISO texts.
    ``strictly``: the double that a text is, or an error. ``truth``: 1 or 0 of a boolean where
    ``strictly`` cannot tell it; empty: by its text. ``has_truths``: whether booleans have a type,
    whose text says true or false.

    ``backslash``: whether a backslash escapes in texts: "no", "yes", "marked" (only in E'...') or
    "quotes" (quotes, too, and control characters; in names if ``escapes_names``); "hex": texts with
    one, or with others than ASCII, are written by their bytes, since servers read them otherwise if
    the character set or the mode of the session is another.
    ``substitutes``: whether ``${...}`` is replaced in the whole query before it is parsed.
    ``groups``: what was found between brackets, for REGEXP_REPLACE, all but one of them empty;
    ``cut``: SQL that cuts zeros without it. ``literal``: a double from its digits.
    ``folds_case``: whether quoted names of columns that differ in case only are the same.
    ``but``: the word that leaves columns out of *; empty, if there is none; ``has_rows``: whether a
    row as a whole can be a column in its place; ``rows_first``: whether a name that table and
    column share means the row. ``fence``: the end of a SELECT whose expressions
    the planner would else write anew wherever a column of it is used.
    """

    name: str
    double: str
    as_text: str
    real: str
    days: str
    strictly: str = ""
    truth: str = ""
    has_truths: bool = True
    reads_dates: bool = True
    quote: str = '"'
    backslash: str = "no"
    escapes_names: bool = False
    substitutes: bool = False
    has_nul: bool = True
    groups: str = r"\1\2\3\4"
    cut: str = ""
    literal: str = "{x}"
    folds_case: bool = False
    but: str = "EXCLUDE"
    has_rows: bool = False
    rows_first: bool = False
    fence: str = ""

    def identifier(self, name: str) -> str:
        """A name, quoted so that whatever it holds stays a name.

        >>> print(dialect_named("postgres").identifier('age"; DROP TABLE x; --'))
        "age""; DROP TABLE x; --"
        >>> print(*(dialect_named(name).identifier("a`b") for name in ("bigquery", "mysql")))
        `a\\`b` `a``b`
        """
        self.check_name(name)
        if self.escapes_names:
            return f"{self.quote}{_escaped(name, self.quote)}{self.quote}"
        return f"{self.quote}{name.replace(self.quote, self.quote * 2)}{self.quote}"

    def check_name(self, name: str) -> None:
        """Raise a ValueError for a name that no quotes keep a name.

        >>> dialect_named("spark").check_name("${system:user.name}")
        Traceback (most recent call last):
        ValueError: a name in a query of spark should be without ${, which it replaces before it \
reads the query, got '${system:user.name}'. Rename it and fit again.
        """
        if not name or "\0" in name:
            raise ValueError(
                f"a name of a table or column should have characters, none of them NUL, got "
                f"{name!r}. Rename it before you export."
            )
        if self.substitutes and "${" in name:
            raise ValueError(
                f"a name in a query of {self.name} should be without ${{, which it replaces before "
                f"it reads the query, got {name!r}. Rename it and fit again."
            )
        if self.backslash == "hex" and not name.isascii() and ("`" in name or "\\" in name):
            raise ValueError(
                f"a name in a query of {self.name} that is not ASCII should have neither ` nor "
                f"\\, which sessions in GBK or Big5 take for a part of another character, got "
                f"{name!r}. Rename it and fit again."
            )

    def text(self, value: str) -> str:
        """A text literal.

        >>> print(dialect_named("duckdb").text("it's"), dialect_named("bigquery").text("it's"))
        'it''s' 'it\\'s'
        >>> print(dialect_named("mysql").text("\u4e2d"), dialect_named("spark").text("${x}"))
        _utf8mb4 X'E4B8AD' '\\u0024{x}'
        """
        if self.backslash == "quotes":
            escaped = _escaped(value, "'")
            return f"'{escaped.replace('${', _DOLLAR) if self.substitutes else escaped}'"
        if self.backslash == "hex" and ("\\" in value or not value.isascii()):
            return f"_utf8mb4 X'{value.encode().hex().upper()}'"
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
        return whole and (self.has_nul or "\0" not in value)

    def number(self, value: float) -> str:
        """A literal that reads back as the same double.

        >>> dialect_named("duckdb").number(0.1), dialect_named("redshift").number(-2.0)
        ('0.1e0', "'-2e0'::FLOAT8")
        """
        if not math.isfinite(value):
            raise ValueError(f"a number in a query should be finite, got {value}. Fit again.")
        digits, _, exponent = repr(float(value)).partition("e")
        # With an exponent a literal is a double. Without, DuckDB takes it for a decimal.
        whole, _, part = digits.partition(".")
        part = part.rstrip("0")
        found = f"{whole}.{part}e{int(exponent or 0)}" if part else f"{whole}e{int(exponent or 0)}"
        return self.literal.format(x=found)

    def without_zeros(self, text: str, pattern: str) -> str:
        """SQL of a text without the zeros at the end of its decimals, which ``pattern`` finds."""
        if self.cut:
            return self.cut.format(x=text)
        return f"REGEXP_REPLACE({text}, {self.text(pattern)}, {self.text(self.groups)})"


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


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(f"'{text}'" for text in texts)


def _moment(
    varchar: str,
    moment: str = "TIMESTAMP WITH TIME ZONE",
    utc: str = "+00",
    full: Callable[[str], str] = str,
) -> str:
    """SQL of the moment that a date, a timestamp with or without a zone, or an ISO text is.

    By its text, which every type has; without a zone it is UTC, whatever that of the session.
    ``full`` is SQL of a text as this database reads it. Other texts are errors when the query runs:
    05.02.2020 may be in May or in February.
    """
    text, absent = f"CAST({{x}} AS {varchar})", _listed(MISSING_TEXTS)
    clock = f"{text} LIKE '____-__-__%:%"
    return (
        f"CAST(CASE WHEN {text} IN ({absent}) THEN NULL "
        f"WHEN {text} LIKE '____-__-__' THEN {text} || ' 00:00:00{utc}' "
        f"WHEN NOT {clock}' THEN 'not an ISO date: ' || {text} "
        f"WHEN {clock}+%' OR {clock}-%' OR {clock}Z' THEN {full(text)} "
        f"ELSE {full(text)} || '{utc}' END AS {moment})"
    )


_NAN = "NULLIF(CAST({x} AS DOUBLE), CAST('NaN' AS DOUBLE))"  # where NaN equals itself

_DUCKDB = Dialect(
    "duckdb",
    double="DOUBLE",
    as_text="CAST({x} AS VARCHAR)",
    real=_NAN,
    days=f"CAST(EPOCH_US({_moment('VARCHAR', full=with_seconds)}) AS DOUBLE) / {_DAY}e6",
    strictly="CAST({x} AS DOUBLE)",
    folds_case=True,
)
_POSTGRES = Dialect(
    "postgres",
    double="DOUBLE PRECISION",
    as_text="CAST({x} AS TEXT)",
    real=_NAN.replace("DOUBLE", "DOUBLE PRECISION"),
    days=f"CAST(EXTRACT(EPOCH FROM {_moment('TEXT')}) * 1000000 AS DOUBLE PRECISION) / {_DAY}e6",
    strictly="CAST({x} AS DOUBLE PRECISION)",
    backslash="marked",
    has_nul=False,
    but="",
    has_rows=True,
    fence="\nOFFSET 0",
)
_BIGQUERY = Dialect(
    "bigquery",
    double="FLOAT64",
    as_text="CAST({x} AS STRING)",
    real="IF(IS_NAN(CAST({x} AS FLOAT64)), NULL, CAST({x} AS FLOAT64))",
    days=f"UNIX_MICROS(CAST({{x}} AS TIMESTAMP)) / {_DAY}e6",
    strictly="CAST({x} AS FLOAT64)",
    quote="`",
    backslash="quotes",
    escapes_names=True,
    folds_case=True,
    but="EXCEPT",
    rows_first=True,
)
_SNOWFLAKE = Dialect(
    "snowflake",
    double="DOUBLE",
    as_text="CAST({x} AS VARCHAR)",
    real=_NAN,
    days=f"DATE_PART(EPOCH_SECOND, {{x}}) / {_DAY}e0",
    strictly="CAST({x} AS DOUBLE)",
    reads_dates=False,
    backslash="yes",
)
_DATABRICKS = Dialect(
    "databricks",
    double="DOUBLE",
    as_text="CAST({x} AS STRING)",
    real=_NAN,
    # Text of a TIMESTAMP is in the zone of the session, and does not say in which.
    days="CAST(UNIX_MICROS(CASE WHEN TYPEOF({x}) = 'timestamp' THEN CAST({x} AS TIMESTAMP) "
    f"ELSE {_moment('STRING', 'TIMESTAMP', '+00:00')} END) AS DOUBLE) / {_DAY}e6",
    strictly="CAST({x} AS DOUBLE)",
    quote="`",
    backslash="quotes",
    substitutes=True,
    groups="$1$2$3$4",
    folds_case=True,
    but="EXCEPT",
)
_REDSHIFT = Dialect(
    "redshift",
    double="DOUBLE PRECISION",
    as_text="CAST({x} AS VARCHAR(65535))",  # without a length it would have 256 bytes
    # Right whether NaN equals nothing or is the largest of all numbers.
    real="CASE WHEN CAST({x} AS DOUBLE PRECISION) <= CAST('Infinity' AS DOUBLE PRECISION) "
    "THEN CAST({x} AS DOUBLE PRECISION) END",
    days="DATEDIFF(MICROSECOND, CAST('1970-01-01' AS TIMESTAMP), CAST({x} AS TIMESTAMP)) "
    f"/ '{_DAY}e6'::FLOAT8",
    truth="CAST(CAST({x} AS INTEGER) AS DOUBLE PRECISION)",
    has_truths=False,
    reads_dates=False,
    backslash="yes",
    has_nul=False,
    cut="CASE WHEN {x} ~ '^-0+[.]0+$' OR {x} = '-0' THEN SUBSTRING(SPLIT_PART({x}, '.', 1), 2) "
    "WHEN {x} ~ '^-?[0-9]+[.][0-9]*0$' THEN RTRIM(RTRIM({x}, '0'), '.') ELSE {x} END",
    literal="'{x}'::FLOAT8",  # decimals have 38 digits
    folds_case=True,
    fence="\nOFFSET 0",  # without it PostgreSQL, where it comes from, does not end with a plan
)
_TRINO = Dialect(
    "trino",
    double="DOUBLE",
    as_text="CAST({x} AS VARCHAR)",
    real="IF(IS_NAN(CAST({x} AS DOUBLE)), NULL, CAST({x} AS DOUBLE))",
    # Seconds in a double are less than half a microsecond off.
    days=f"ROUND(TO_UNIXTIME({{x}}) * 1e6) / {_DAY}e6",
    strictly="CAST({x} AS DOUBLE)",
    reads_dates=False,
    groups="$1$2$3$4",
    folds_case=True,
    but="",
)
_MYSQL_TEXT = "CONVERT({x} USING utf8mb4)"
# Collations take texts for equal that differ in capitals, accents or blanks at the end.
_MYSQL_BYTES = f"CAST({_MYSQL_TEXT} AS BINARY)"
# A SELECT of MySQL takes 0 or NULL for a text that is no number or date; at this it stops.
_MYSQL_STOP = f"EXP(1e4 + CHAR_LENGTH({_MYSQL_TEXT}))"
_MYSQL_TIME = "[0-9][0-9]:[0-9][0-9](:[0-9][0-9]([.][0-9]+)?)?"
_MYSQL = Dialect(
    "mysql",
    double="DOUBLE",
    as_text=_MYSQL_BYTES,
    real="CAST({x} AS DOUBLE)",  # it has no NaN
    days=f"CASE WHEN {_MYSQL_BYTES} NOT IN ({_listed(MISSING_TEXTS)}) "
    f"AND {_MYSQL_TEXT} NOT LIKE '0000-00-00%' THEN COALESCE("  # a missing date of old tables
    f"CASE WHEN {_MYSQL_TEXT} REGEXP '^[0-9]{{{{4}}}}-[0-9][0-9]-[0-9][0-9]([ T]{_MYSQL_TIME})?$' "
    "THEN TIMESTAMPDIFF(MICROSECOND, CAST('1970-01-01' AS DATETIME(6)), "
    f"CAST({{x}} AS DATETIME(6))) / {_DAY}e6 END, {_MYSQL_STOP}) END",
    truth=f"CASE WHEN {_MYSQL_BYTES} IN ({_listed(BOOLEAN_TEXTS[1])}) THEN 1e0 "
    f"WHEN {_MYSQL_BYTES} IN ({_listed(BOOLEAN_TEXTS[0])}) THEN 0e0 "
    f"WHEN {_MYSQL_BYTES} NOT IN ({_listed(MISSING_TEXTS)}) THEN CASE WHEN {_MYSQL_TEXT} "
    f"REGEXP '^-?[0-9]+([.][0-9]+)?$' THEN CAST({{x}} AS DOUBLE) ELSE {_MYSQL_STOP} END END",
    has_truths=False,
    quote="`",
    backslash="hex",
    cut="CASE WHEN {x} = '-0' OR {x} LIKE '%0' AND CONVERT({x} USING utf8mb4) REGEXP "
    "'^-0+[.]0+$' THEN SUBSTRING(SUBSTRING_INDEX({x}, '.', 1), 2) "
    "WHEN CONVERT({x} USING utf8mb4) REGEXP '^-?[0-9]+[.][0-9]*0$' "
    "THEN TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM {x})) ELSE {x} END",
    folds_case=True,
    but="",
    fence="\nLIMIT 9223372036854775807",
)

DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {
        dialect.name: dialect
        for dialect in (
            _DUCKDB,
            _POSTGRES,
            _BIGQUERY,
            _SNOWFLAKE,
            _DATABRICKS,
            replace(_DATABRICKS, name="spark"),
            _REDSHIFT,
            _TRINO,
            _MYSQL,
        )
    }
)
