"""Infer types of text columns from all values: number, date or text.

DuckDB looks at every text. Each has one kind, a bit; the kinds of a column add up, and decide what
it is read as. Numbers and dates as people write them (1,5 and 1,234.00, 31/1/2024) are read as such
where the column shows which of two meanings they have.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

ZONE_TYPE = "TIMESTAMP WITH TIME ZONE"
#: What people write where they have no number and no date, in letters of any case.
BLANKS = (
    "?", "-", "--", ".", "na", "n/a", "nan", "null", "none", "unknown", "missing", "#n/a", "#na",
    "#value!", "#ref!", "#div/0!", "#name?", "#num!", "#null!",
)  # fmt: skip
_IS_BLANK = "lower(trim({})) IN (" + ", ".join(f"'{text}'" for text in BLANKS) + ")"

# Whole numbers that fit into 64 bits or not, other numbers, ISO dates, and texts of no kind.
INTEGER, LONG, NUMBER, DATE, MOMENT, ZONED, OTHER = (1 << bit for bit in range(7))
# 1,5 and 1,234.00, 31/1/2024 and 1/31/2024; 1,234 and 1/2/2024 may be either.
COMMA, GROUPED, SOME_COMMA, DAY_FIRST, MONTH_FIRST, SLASHES = (1 << bit for bit in range(7, 13))
# A text for a missing value; 1.696 may be a decimal or a thousand, 1.234.567 is a million.
BLANK, SOME_POINT, POINTS = (1 << bit for bit in range(13, 16))
DECIMALS = NUMBER | SOME_POINT
NUMBERS = INTEGER | LONG | DECIMALS
DATES = DATE | MOMENT | ZONED
WRITTEN_DATES = DAY_FIRST | MONTH_FIRST | SLASHES
ANY_KIND = NUMBERS | DATES | COMMA | GROUPED | SOME_COMMA | WRITTEN_DATES | POINTS
#: What texts of a file may be whose decimal sign is known, or not.
KINDS_BY_DECIMAL = {
    None: ANY_KIND,
    ".": ANY_KIND & ~(COMMA | SOME_COMMA),
    ",": ANY_KIND & ~(NUMBER | GROUPED | SOME_COMMA),
}

_CURRENCY = "[$€£¥%]"  # or per cent
_BEFORE, _AFTER = "-?[$€£¥]? ?-?", f" ?{_CURRENCY}?"
_SLASHED = "regexp_replace({}, '[.-]', '/', 'g')"


class Form(NamedTuple):
    """The type that a text column can be read as.

    Some of its texts ``need`` to be of these kinds, all others of those that it ``allows``. ``sql``
    makes a value of a text; ``words`` name a form that is reported.
    """

    type: str
    need: int
    allows: int
    sql: str
    words: str = ""


THOUSANDS = Form(
    "POINTS BETWEEN THOUSANDS", POINTS, INTEGER | SOME_POINT,
    "CAST(replace({}, '.', '') AS DOUBLE)", "numbers with points between thousands",
)  # fmt: skip
FORMS = (
    Form(
        "DECIMAL COMMA", COMMA, INTEGER | SOME_COMMA | SOME_POINT | POINTS,
        f"CAST(replace(regexp_replace({{}}, '{_CURRENCY}|[ .]', '', 'g'), ',', '.') AS DOUBLE)",
        "numbers with decimal commas",
    ),
    THOUSANDS,
    Form(
        "GROUPED NUMBER", GROUPED, NUMBERS | SOME_COMMA,
        f"CAST(regexp_replace({{}}, '{_CURRENCY}|[ ,]', '', 'g') AS DOUBLE)",
        "numbers with commas between thousands, or with a currency or %",
    ),
    Form(
        "DAY FIRST", DAY_FIRST, SLASHES,
        f"CAST(strptime({_SLASHED}, ['%d/%m/%y', '%d/%m/%Y']) AS DATE)",
        "dates with the day first",
    ),
    Form(
        "MONTH FIRST", MONTH_FIRST, SLASHES,
        f"CAST(strptime({_SLASHED}, ['%m/%d/%y', '%m/%d/%Y']) AS DATE)",
        "dates with the month first",
    ),
    Form("BIGINT", INTEGER, 0, "CAST({} AS BIGINT)"),
    Form("DOUBLE", DECIMALS, NUMBERS, "CAST({} AS DOUBLE)"),
    Form("DATE", DATE, 0, "CAST({} AS DATE)"),
    Form("TIMESTAMP", MOMENT, DATE, "CAST({} AS TIMESTAMP)"),
    Form(ZONE_TYPE, ZONED, 0, f"CAST({{}} AS {ZONE_TYPE})"),
)  # fmt: skip
TEXT = Form("VARCHAR", 0, 0, "CAST({} AS VARCHAR)")


def form_of(kinds: int, allowed: int = ANY_KIND) -> Form:
    """Decide the type of a column from the kinds of its texts.

    >>> form_of(INTEGER | NUMBER).type, form_of(INTEGER | DATE).type
    ('DOUBLE', 'VARCHAR')
    """
    if kinds & ~allowed:
        return TEXT
    fitting = (f for f in FORMS if kinds & f.need and not kinds & ~(f.need | f.allows))
    return next(fitting, TEXT)


class TextKinds(NamedTuple):
    """Counts of the kinds of text in a column: all, blank, and others.

    >>> TextKinds(NUMBER | BLANK, 100, 3, 0).has_blanks
    True
    """

    kinds: int = 0
    n: int = 0
    n_blank: int = 0
    n_other: int = 0

    @property
    def has_blanks(self) -> bool:
        """Whether some texts, but not too many, mean missing."""
        return 0 < self.n_blank < self.n - self.n_blank

    @property
    def decided(self) -> int:
        """The kinds that decide the type; a frequent blank counts as text."""
        is_text = bool(self.kinds & BLANK) and not self.has_blanks
        return self.kinds & ~BLANK | (OTHER if is_text else 0)

    @property
    def is_nearly_one(self) -> bool:
        """Whether most, but not all, texts are numbers or dates (up to a tenth may be typos)."""
        wrong = self.n_other + (0 if self.has_blanks else self.n_blank)
        return 0 < wrong < 0.1 * self.n


def are_some_points(kinds: int) -> bool:
    """Whether all texts are numbers with ambiguous points, such as 1.696."""
    return bool(kinds & SOME_POINT) and not kinds & ~(INTEGER | LONG | SOME_POINT)


def points_of(kinds: Mapping[str, int], columns: Collection[str]) -> tuple[list[str], list[str]]:
    """Columns where a point separates thousands, and columns where it is ambiguous.

    ``kinds`` are those of all columns of a file, ``columns`` the ones that are read. All points of
    such a column are before three digits. Where the file has decimal commas, and no decimal points,
    they are between thousands. Where it has decimal points, they are decimals, unless whole
    numbers are beside them.

    >>> points_of({"a": SOME_POINT, "b": COMMA}, ["a"])
    (['a'], [])
    >>> points_of({"a": SOME_POINT | INTEGER, "b": NUMBER}, ["a"])
    ([], ['a'])
    """
    own = [c for c in columns if are_some_points(kinds[c])]
    has_point = any(not found & ~NUMBERS and found & NUMBER for found in kinds.values())
    has_comma = any(form_of(found).type == "DECIMAL COMMA" for found in kinds.values())
    if has_comma and not has_point:
        return own, []
    return [], [c for c in own if not has_point or kinds[c] & INTEGER]


def reported(form: Form, kinds: int, decimal: str | None) -> str:
    """A report for a column with ambiguous numbers, or None."""
    has_dates = bool(kinds & (DATES | WRITTEN_DATES))
    if decimal is not None and not has_dates:
        if kinds & OTHER or not kinds & ~KINDS_BY_DECIMAL[decimal]:
            return ""
        return (
            f"texts: not all are numbers with the decimal sign that was named, {decimal!r}. Check "
            f"it."
        )
    if form.words and not are_some_points(kinds):
        return f"{form.words}."
    if kinds & OTHER or not kinds & (COMMA | GROUPED | SOME_COMMA | WRITTEN_DATES):
        return ""
    if has_dates:
        return (
            "texts: dates as 1/2/2024 can mean two things. Write 2024-02-01 to have them read as "
            "such."
        )
    return "texts: numbers as 1,234 can mean two things. Name the decimal sign, a point or a comma."


# SQL


def with_seconds(text: str) -> str:
    """SQL that adds seconds to a timestamp, needed by DuckDB 1 to read time zones."""
    return rf"regexp_replace({text}, '^(.............:..)( |Z|[+-]|$)', '\1:00\2')"


def without_blanks(column: str) -> str:
    """SQL of a text column with missing-value texts set to NULL."""
    return f"(CASE WHEN {_IS_BLANK.format(column)} THEN NULL ELSE {column} END)"


_SLASHED_VALUE = _SLASHED.format("value")
_KIND_OF_WRITTEN = rf"""CASE
    WHEN regexp_full_match(value, '[0-9]{{1,2}}[/.-][0-9]{{1,2}}[/.-][0-9]{{4}}')
        OR regexp_full_match(value, '[0-9]{{1,2}}/[0-9]{{1,2}}/[0-9]{{2}}') THEN CASE
        WHEN try_strptime({_SLASHED_VALUE}, '%m/%d/%Y') IS NULL
        THEN CASE WHEN try_strptime({_SLASHED_VALUE}, '%d/%m/%Y') IS NULL
            THEN {OTHER} ELSE {DAY_FIRST} END
        WHEN try_strptime({_SLASHED_VALUE}, '%d/%m/%Y') IS NULL
        THEN {MONTH_FIRST} ELSE {SLASHES} END
    WHEN regexp_full_match(value, '{_BEFORE}[1-9][0-9]{{0,2}},[0-9]{{3}}{_AFTER}')
        THEN {SOME_COMMA}
    WHEN regexp_full_match(value, '{_BEFORE}([0-9]+|[0-9]{{1,3}}([ .][0-9]{{3}})+),[0-9]+{_AFTER}')
        THEN {COMMA}
    WHEN regexp_full_match(
        value, '{_BEFORE}([0-9]+|[0-9]{{1,3}}(,[0-9]{{3}})+)([.][0-9]+)?{_AFTER}'
    ) AND regexp_matches(value, ',|{_CURRENCY}') THEN {GROUPED}
    ELSE {OTHER} END"""
_DAY, _CLOCK = r"\d{4}-\d{2}-\d{2}", r"[ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?"
# Numbers where the decimal sign is known: 1.234 and 1,234 mean one thing then.
_WHOLE_PART = r"0|[1-9]\d*|[1-9]\d{0,2}([ %s]\d{3})+"
_NUMBER_BY_DECIMAL = {
    None: rf"""WHEN regexp_full_match(value, ' *-?[1-9]\d{{0,2}}[.]\d{{3}} *') THEN {SOME_POINT}
    WHEN regexp_full_match(value, ' *-?[1-9]\d{{0,2}}([.]\d{{3}}){{2,}} *') THEN {POINTS}""",
    ",": rf"""WHEN regexp_full_match(value,
        ' *{_BEFORE}(({_WHOLE_PART % "."})(,\d*)?|,\d+)([eE][+-]?\d{{1,2}})?{_AFTER} *')
        THEN {COMMA}""",
    ".": rf"""WHEN regexp_full_match(value,
        ' *{_BEFORE}(({_WHOLE_PART % ","})(\.\d*)?|\.\d+){_AFTER} *')
        AND regexp_matches(value, ',|{_CURRENCY}|\d \d') THEN {GROUPED}""",
}


def kind_of_text(decimal: str | None = None) -> str:
    """SQL for the kind of the text ``value``, with the decimal sign if known."""
    return rf"""CASE
    WHEN regexp_full_match(value, ' *-?(0|[1-9]\d*) *')
        THEN CASE WHEN TRY_CAST(value AS BIGINT) IS NULL THEN {LONG} ELSE {INTEGER} END
    {_NUMBER_BY_DECIMAL[decimal]}
    WHEN regexp_full_match(value, ' *-?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d+)? *')
        THEN CASE WHEN isfinite(TRY_CAST(value AS DOUBLE)) THEN {NUMBER} ELSE {OTHER} END
    WHEN NOT regexp_matches(value, '^{_BEFORE}\d')
        THEN CASE WHEN {_IS_BLANK.format("value")} THEN {BLANK} ELSE {OTHER} END
    WHEN NOT regexp_matches(value, '^{_DAY}') THEN {_KIND_OF_WRITTEN}
    WHEN regexp_full_match(value, '{_DAY}')
        THEN CASE WHEN TRY_CAST(value AS DATE) IS NULL THEN {OTHER} ELSE {DATE} END
    WHEN regexp_full_match(value, '{_DAY}{_CLOCK}')
        THEN CASE WHEN TRY_CAST(value AS TIMESTAMP) IS NULL THEN {OTHER} ELSE {MOMENT} END
    WHEN regexp_full_match(value, '{_DAY}{_CLOCK} ?(Z|[+-]\d{{2}}(:?\d{{2}})?)')
        THEN CASE WHEN TRY_CAST({with_seconds("value")} AS TIMESTAMPTZ) IS NULL
            THEN {OTHER} ELSE {ZONED} END
    ELSE {OTHER} END"""


def kinds_of_columns(decimal: str | None = None) -> str:
    """SQL for the :class:`TextKinds` of each column of ``cells``."""
    # One expression for all cells, without the missing ones: one a column takes long to prepare.
    return f"""
        SELECT name, bit_or(kind), count(*), count(*) FILTER (kind = {BLANK}),
            count(*) FILTER (kind = {OTHER})
        FROM (SELECT name, {kind_of_text(decimal)} AS kind
              FROM (UNPIVOT cells ON COLUMNS(*) INTO NAME name VALUE value))
        GROUP BY name
    """
