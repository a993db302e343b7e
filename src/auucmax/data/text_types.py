"""Infer types of text columns from all values: number, date or text.

DuckDB looks at every text. Each has one kind, a bit; the kinds of a column add up, and decide what
it is read as. Numbers and dates as people write them (1,5 and 1,234.00, 31/1/2024) are read as such
where the column shows which of two meanings they have.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

from auucmax._errors import level_of_caller
from auucmax._validation import listed
from auucmax.data.tables import quoted

MANY_TEXTS = 30  #: largest number of different texts that are levels
_LOOK = 2048  # rows that show for most text columns that they are not numbers
#: What people write for a missing number or date, ignoring case.
BLANKS = (
    "?", "-", "--", ".", "na", "n/a", "nan", "null", "none", "unknown", "missing", "#n/a", "#na",
    "#value!", "#ref!", "#div/0!", "#name?", "#num!", "#null!", r"\n",
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
UNCLEAR = COMMA | GROUPED | SOME_COMMA | DAY_FIRST | MONTH_FIRST | SLASHES
ANY_KIND = NUMBERS | DATE | MOMENT | ZONED | UNCLEAR | POINTS
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
    """What a text column can be read as.

    Some of its texts ``need`` to be of these kinds, all others of those that it ``allows``. ``sql``
    converts a text to a value, ``words`` name a form that is reported, and ``sign`` is the decimal
    sign that such a column shows.
    """

    need: int
    allows: int
    sql: str
    words: str = ""
    sign: str = ""


def with_seconds(text: str) -> str:
    """SQL that adds seconds to a timestamp, needed by DuckDB 1 to read time zones."""
    return rf"regexp_replace({text}, '^(.............:..)( |Z|[+-]|$)', '\1:00\2')"


TEXT = Form(0, 0, "{}")
DECIMAL_COMMAS = Form(
    COMMA, INTEGER | SOME_COMMA | SOME_POINT | POINTS,
    f"CAST(replace(regexp_replace({{}}, '{_CURRENCY}|[ .]', '', 'g'), ',', '.') AS DOUBLE)",
    "numbers with decimal commas", ",",
)  # fmt: skip
THOUSANDS = Form(
    POINTS, INTEGER | SOME_POINT, "CAST(replace({}, '.', '') AS DOUBLE)",
    "numbers with points between thousands", ",",
)  # fmt: skip
# In UTC, whatever the zone of the machine.
INSTANTS = Form(ZONED, 0, f"make_timestamp(epoch_us(CAST({with_seconds('{}')} AS TIMESTAMPTZ)))")
FORMS = (
    DECIMAL_COMMAS,
    THOUSANDS,
    Form(
        GROUPED, NUMBERS | SOME_COMMA,
        f"CAST(regexp_replace({{}}, '{_CURRENCY}|[ ,]', '', 'g') AS DOUBLE)",
        "numbers with commas between thousands, or with a currency or %",
    ),
    Form(
        DAY_FIRST, SLASHES, f"CAST(strptime({_SLASHED}, ['%d/%m/%y', '%d/%m/%Y']) AS DATE)",
        "dates with the day first",
    ),
    Form(
        MONTH_FIRST, SLASHES, f"CAST(strptime({_SLASHED}, ['%m/%d/%y', '%m/%d/%Y']) AS DATE)",
        "dates with the month first",
    ),
    Form(INTEGER, 0, "CAST({} AS BIGINT)"),
    Form(DECIMALS, NUMBERS, "CAST({} AS DOUBLE)", sign="."),
    Form(DATE, 0, "CAST({} AS DATE)"),
    Form(MOMENT, DATE, "CAST({} AS TIMESTAMP)"),
    INSTANTS,
)  # fmt: skip


def form_of(kinds: int, allowed: int = ANY_KIND) -> Form:
    """Decide what a column is read as from the kinds of its texts.

    >>> form_of(INTEGER | NUMBER).sql, form_of(INTEGER | DATE) == TEXT
    ('CAST({} AS DOUBLE)', True)
    """
    if kinds & ~allowed:
        return TEXT
    fitting = (f for f in FORMS if kinds & f.need and not kinds & ~(f.need | f.allows))
    return next(fitting, TEXT)


class TextKinds(NamedTuple):
    """The kinds of text in a column.

    Texts such as "?" are blanks if they are fewer than the others; else they count as ``OTHER``.
    In a column that ``is_nearly_one`` up to a tenth of the texts are neither numbers nor dates
    (they may be typos); in one that ``is_text`` more are.
    """

    kinds: int = 0
    has_blanks: bool = False
    is_nearly_one: bool = False
    is_text: bool = False


class TextTypes(NamedTuple):
    """What text columns are read as, and which of them have blanks.

    ``sign`` is the decimal sign, None if no column shows it or two show different ones;
    ``guessed`` are columns of numbers such as 1.696, for which it was guessed whether the point is
    such a sign.
    """

    forms: dict[str, Form]
    blank: set[str]
    sign: str | None
    guessed: list[str]


def infer_types(
    db: Any,
    table: str,
    name: str,
    texts: Sequence[str],
    chosen: Sequence[str],
    is_csv: bool,
    decimal: str | None,
) -> TextTypes:
    """Choose the types of the columns ``texts`` of the SQL ``table``, from all of their values.

    In files other than CSV, few different texts of digits alone, as of a code, stay texts.
    Decisions about ``chosen`` columns that may be wrong are reported by warnings.
    """

    def ask(columns: Sequence[str], sql: str, limit: str = "") -> list[tuple[Any, ...]]:
        cells = f"SELECT {', '.join(map(quoted, columns))} FROM ({table}){limit}"
        found: list[tuple[Any, ...]] = db.execute(f"WITH cells AS ({cells}) {sql}").fetchall()
        return found

    def kinds_of(columns: Sequence[str], limit: str = "") -> dict[str, TextKinds]:
        found = {c: TextKinds(*own) for c, *own in ask(columns, kinds_of_columns(decimal), limit)}
        return {c: found.get(c, TextKinds()) for c in columns}

    def has_few(column: str) -> bool:
        ((n,),) = ask([column], f"SELECT count(DISTINCT {quoted(column)}) FROM cells")
        return bool(n <= MANY_TEXTS)

    if texts and not is_csv:
        # For most columns the first rows show that they are neither numbers nor dates.
        first = kinds_of(texts, f" LIMIT {_LOOK}")
        texts = [c for c in texts if not first[c].is_text]
    kinds = kinds_of(texts) if texts else {}
    allowed = KINDS_BY_DECIMAL[decimal]
    forms = {c: form_of(own.kinds, allowed) for c, own in kinds.items()}
    if not is_csv:
        forms = {
            c: form for c, form in forms.items()
            if (form != TEXT and kinds[c].kinds & ~(INTEGER | LONG)) or not has_few(c)
        }  # fmt: skip
    has_commas = DECIMAL_COMMAS in forms.values()
    has_points = any(own.kinds & NUMBER and not own.kinds & ~NUMBERS for own in kinds.values())
    blank = {c for c, form in forms.items() if kinds[c].has_blanks and form != TEXT}
    guessed: list[str] = []
    notes: dict[str, list[str]] = {}
    for c in [c for c in forms if c in chosen]:
        form, own = forms[c], kinds[c].kinds
        # Where the sign is known numbers have one meaning.
        words = "" if decimal and form.need & (COMMA | GROUPED | POINTS) else form.words
        if own & SOME_POINT and not own & ~(INTEGER | LONG | SOME_POINT):
            # All points are before three digits. What they mean, other columns may show.
            if has_commas and not has_points:
                forms[c] = THOUSANDS
            if forms[c] == THOUSANDS or own & INTEGER or not has_points:
                guessed.append(c)
                words = forms[c].words or "numbers with decimal points, 1.234 as less than two"
                words += ". If that is wrong, name the decimal sign"
        elif form == TEXT and not own & OTHER and own & (UNCLEAR | ~allowed):
            words = (
                "texts: not all are numbers with the decimal sign that was named, or clear dates"
                if decimal else "texts: 1,234 and 1/2/2024 can mean two things. Name the decimal "
                "sign, or write dates as 2024-02-01"
            )  # fmt: skip
        elif not (words or is_csv or form == TEXT or c in blank):
            words = "numbers or dates, which its texts are"
        if words:
            notes.setdefault(words, []).append(c)
        if c in blank or (form == TEXT and kinds[c].is_nearly_one and not has_few(c)):
            others = ask(
                [c],
                f"SELECT value, count(*) FROM (SELECT {quoted(c)} AS value FROM cells) "
                f"WHERE {kind_of_text(decimal)} & {BLANK | OTHER} > 0 AND value IS NOT NULL "
                f"GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 5",
            )
            these = ", ".join(f"{text!r} ({n:,})" for text, n in others)
            words = f"texts, of which most are numbers or dates, but not {these}. Correct these"
            if c in blank:
                words = f"numbers or dates, and these texts as missing values: {these}"
            notes[words] = [c]
    for words, columns in notes.items():
        warnings.warn(
            f"{listed(columns)} of {name} {'is' if len(columns) == 1 else 'are'} read as {words}.",
            UserWarning,
            stacklevel=level_of_caller(),
        )
    signs = {form.sign for form in forms.values() if form.sign}
    return TextTypes(forms, blank, decimal or (signs.pop() if len(signs) == 1 else None), guessed)


# SQL


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
    # One expression for all cells, without the missing ones: one per column takes long to prepare.
    return f"""
        SELECT name, kinds | CASE WHEN n_blank > 0 AND NOT has_blanks THEN {OTHER} ELSE 0 END,
            has_blanks, n_wrong > 0 AND 10 * n_wrong < n, 10 * n_other > n
        FROM (SELECT *, 0 < n_blank AND n_blank < n - n_blank AS has_blanks,
                     n_other + CASE WHEN has_blanks THEN 0 ELSE n_blank END AS n_wrong
              FROM (SELECT name, bit_or(kind) & ~{BLANK} AS kinds, count(*) AS n,
                           count(*) FILTER (kind = {BLANK}) AS n_blank,
                           count(*) FILTER (kind = {OTHER}) AS n_other
                    FROM (SELECT name, {kind_of_text(decimal)} AS kind
                          FROM (UNPIVOT cells ON COLUMNS(*) INTO NAME name VALUE value))
                    GROUP BY name))
    """
