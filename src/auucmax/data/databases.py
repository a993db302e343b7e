"""Rows of databases as pandas frames: what DuckDB found or has, and what PostgreSQL answers.

Databases are opened to read only, and whole numbers keep all their digits.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pandas as pd

from auucmax._errors import InputError
from auucmax._files import private_folder
from auucmax._optional import import_optional
from auucmax._validation import listed
from auucmax.data.selects import check_select
from auucmax.data.table_errors import TableError, check_columns, check_different, one_line
from auucmax.encoding.kinds import (
    ANY_KIND,
    KINDS_BY_DECIMAL,
    OTHER_KINDS,
    PLAIN_DIGITS,
    WRITTEN_AS,
    WRITTEN_WORDS,
    ZONE_TYPE,
    TextKinds,
    are_some_points,
    decimal_sign,
    has_another_decimal,
    has_dates,
    is_unclear,
    kind_of_cell,
    kinds_of_columns,
    level_text,
    points_of,
    type_of_texts,
    with_seconds,
    without_blanks,
)

SELECT = re.compile(r"\s*(select|with|from|table|values)\s", re.IGNORECASE)
_AS_TEXT = ("UUID", "TIME", "TIME WITH TIME ZONE", "INTERVAL", "BIT")
_WHOLE = re.compile(r"U?HUGEINT|UBIGINT|DECIMAL\(\d+,0\)")
_CONNECT_SECONDS = 15
_TABLES = """
    SELECT table_name FROM duckdb_tables()
    UNION ALL SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1
"""


@contextmanager
def connect(database: str = ":memory:") -> Iterator[Any]:
    """A DuckDB connection that reads only, and fetches nothing from elsewhere.

    A database may hold views that read any file of the machine: of it, only tables are read.
    """
    import duckdb

    is_file = database != ":memory:"
    with private_folder() as folder:
        config: Any = {
            # Reading a table is no reason to fetch software.
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,  # or a variable of ours could be read as a table
            "enable_external_access": not is_file,
            "temp_directory": str(folder),  # not beside the database
        }
        with duckdb.connect(database, read_only=is_file, config=config) as db:
            yield db


def write_parquet(frame: pd.DataFrame, path: Path) -> None:
    """Write the rows of a frame to a Parquet file, in their order."""
    import duckdb

    check_different([str(c) for c in frame.columns], "the list")
    copy = f"COPY given TO {literal(str(path))} (FORMAT parquet, USE_TMP_FILE false)"
    with one_line("the list", "one that a Parquet file can hold", "Write a .csv file."):
        try:
            with connect() as db:
                # All values of a column of objects tell its type, not some of them.
                db.execute(f"SET pandas_analyze_sample = {len(frame)}")
                db.register("given", frame.rename(columns=str))
                db.execute(copy)
        except duckdb.IOException as error:
            found = re.findall(r'": (\w[\w ]+)', str(error))  # by the system, after the file's name
            why = found[-1] if found else str(error)
            raise TableError(
                f"the list should be written to its end, got: {why}. Make room, or write elsewhere."
            ) from error


def duckdb_select(db: Any, query: str | None, name: str) -> str:
    """The one SELECT that a query, or the name of a table, stands for."""
    tables = [row[0] for row in db.execute(_TABLES).fetchall()]
    sql = table_query(query, tables, name, quoted)
    statements = db.extract_statements(sql)
    if len(statements) != 1 or not str(statements[0].type).endswith("SELECT"):
        raise TableError(
            f"query should be one SELECT, got {sql[:80]!r}. Other statements are not run."
        )
    return sql


def table_query(
    query: str | None, tables: Sequence[str], name: str, as_sql: Callable[[str], str]
) -> str:
    """SQL of a query, or of the name of a table."""
    has = f"It has {listed(tables)}." if tables else "It has no tables."
    if query is None or not query.strip():
        raise TableError(
            f"{name} is a database and should come with a query, got none. Pass a SELECT or the "
            f"name of a table. {has}"
        )
    if query in tables:
        return f"SELECT * FROM {as_sql(query)}"
    if SELECT.match(query):
        return query.strip().rstrip(";")
    near = get_close_matches(query, tables, 1)
    advice = f"Did you mean {near[0]!r}?" if near else has
    raise TableError(
        f"query should be a SELECT or the name of a table of {name}, got {query[:80]!r}. {advice}"
    )


def read_postgres(url: str, query: str | None) -> pd.DataFrame:
    """The rows of a SELECT, or of a table, of a PostgreSQL database, which stays as it is.

    The transaction only reads, and is rolled back.
    """
    psycopg = import_optional("psycopg", extra="postgres")
    string = import_optional("psycopg.types.string", extra="postgres")
    name = address_name(url)
    advice = "Check the address, the rights and the query."
    with (
        one_line(name, "a PostgreSQL database that answers the query", advice),
        psycopg.connect(url, connect_timeout=_CONNECT_SECONDS) as connection,
    ):
        connection.read_only = True
        connection.execute("SET default_transaction_read_only = on")
        for kind in ("uuid", "time", "timetz"):
            connection.adapters.register_loader(kind, string.TextLoader)
        tables = connection.execute(
            "SELECT schemaname, relname FROM (SELECT schemaname, tablename AS relname FROM "
            "pg_tables UNION ALL SELECT schemaname, viewname FROM pg_views) t WHERE schemaname "
            "NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2"
        ).fetchall()
        names = [table if schema == "public" else f"{schema}.{table}" for schema, table in tables]
        sql = table_query(query, names, name, lambda table: ".".join(map(quoted, table.split("."))))
        if query not in names:
            check_select(sql, "postgres")
        # The protocol of a pipeline takes one statement: none that ends the transaction, say.
        with connection.pipeline():
            cursor = connection.execute(sql.encode())
            rows = cursor.fetchall()
        connection.rollback()  # the end of the block would commit
        titles = [column.name for column in cursor.description or ()]
        frame = pd.DataFrame(rows, columns=titles, dtype=object)
    parts = []
    for place in range(len(titles)):
        values = frame.iloc[:, place]
        # Not whole numbers among missing ones: floats would round the long ones.
        whole = pd.api.types.infer_dtype(values, skipna=True) == "integer"
        parts.append(values if whole and values.isna().any() else values.infer_objects())
    return pd.concat(parts, axis=1) if parts else frame


def address_name(url: str) -> str:
    """Host and database, never the password."""
    try:
        # An unescaped password would be split, and its rest shown as a host or a port.
        user, _, _ = url.split("://", 1)[1].rpartition("@")
        if re.search(r"[\s/?#@]|%(?![0-9A-Fa-f]{2})", user):
            raise ValueError
        parts = urlsplit(url)
        return f"{parts.hostname or 'localhost'}{parts.path}"
    except ValueError:
        raise TableError(
            f"source should be an address {url.partition('://')[0]}://user:password@host/database, "
            f"got one that cannot be parsed. Check it; in a password write %40 for @, %2F for / "
            f"and %25 for %."
        ) from None


def texts_as_values(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """A frame whose columns of texts are numbers or dates where all of their texts are."""
    holds = {c: _holds(frame[c]) for c in frame.columns}
    texts = [c for c, kind in holds.items() if kind in ("string", "mixed", "mixed-integer")]
    if not texts:
        return frame
    with connect() as db:
        cells = frame[texts].map(level_text, na_action="ignore").astype("string")
        db.register("given", cells.rename(columns={c: f"c{k}" for k, c in enumerate(texts)}))
        names = ", ".join(f"c{k} AS {quoted(str(c))}" for k, c in enumerate(texts))
        kinds = dict.fromkeys(map(str, texts), ANY_KIND)
        typed = [str(c) for c in texts if holds[c] == "string"]  # not texts among numbers
        table = f"SELECT {names} FROM given"
        found = Reading.of(db, table, None, name, kinds, typed=typed).frame(db)
    changed = {c: found[str(c)].to_numpy() for c in texts if found[str(c)].dtype.kind in "iufM"}
    if not changed:
        return frame
    frame = frame.assign(**changed)
    frame.attrs |= found.attrs
    return frame


def _holds(column: pd.Series) -> str:
    """What pandas infers of a column of texts or objects."""
    if isinstance(column.dtype, pd.StringDtype):
        return "string"
    return pd.api.types.infer_dtype(column, skipna=True) if column.dtype == object else ""


class Signs(NamedTuple):
    """The sign before decimals that texts were read by, None if there is none or both; and columns
    of numbers such as 1.696, of which it was guessed whether the point is such a sign.
    """

    decimal: str | None = None
    guessed: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: pd.DataFrame) -> Signs:
        """Those of a frame that was read from texts."""
        return cls(*table.attrs.get(_SIGNS, ()))

    def check(self, decimal: str | None, columns: Collection[str]) -> None:
        """Raise an InputError if points in ``columns`` are read otherwise than ``decimal`` says."""
        guessed = [name for name in self.guessed if name in columns]
        # Where the sign is not known points are decimal, though no column shows it.
        if guessed and decimal is not None and (self.decimal or ".") != decimal:
            meant = {".": "a decimal sign", ",": "between thousands"}
            raise InputError(
                "decimal", f"known for {listed(guessed)}, where points are {meant[decimal]} in the "
                f"table of the fit", f"numbers such as 1.696, whose points would be "
                f"{meant[',' if decimal == '.' else '.']} here",
                f"Pass the sign: {decimal!r} if they are written as in the fit.",
            )  # fmt: skip


_SIGNS = "auucmax signs"  # a list in the attrs of a frame, which pandas hands on


class Reading(NamedTuple):
    """SQL that gives the columns of a table as pandas takes them, and what is left to do then.

    ``whole`` are columns of whole numbers that may be too long for 64 bits, ``zoned`` moments whose
    zone is UTC. ``signs`` say how texts were read.
    """

    columns: tuple[str, ...]
    sql: str
    whole: tuple[str, ...] = ()
    zoned: tuple[str, ...] = ()
    signs: Signs = Signs()

    @classmethod
    def of(
        cls,
        db: Any,
        table: str,
        columns: Sequence[str] | None,
        name: str,
        texts: Mapping[str, int] = MappingProxyType({}),
        decimal: str | None = None,
        typed: Collection[str] = (),
    ) -> Reading:
        """How to read the columns that are asked for of what the SQL ``table`` gives.

        ``texts`` are columns without a type, with the kinds that each may turn out to be;
        ``decimal`` is the decimal sign, if it is known. Columns that are ``typed`` are texts by
        their type: few different ones of digits alone, as of a code, stay texts.
        """
        relation = db.sql(table)
        types = dict(zip(relation.columns, map(str, relation.types), strict=True))
        chosen = list(types) if columns is None else list(columns)
        check_columns(chosen, list(types), name)
        blank: list[str] = []
        signs = Signs()
        rows = Cells(db, table)
        if untyped := _to_look_at(rows, [c for c in chosen if c in texts], typed):
            cells = rows.of(untyped)
            kinds = text_kinds(cells, untyped, decimal)
            types |= {c: type_of_texts(kinds[c].decided, texts[c]) for c in untyped}
            settled, guessed = _points_settled(rows, kinds, texts, name)
            types |= settled
            unsure = [c for c in untyped if c in typed and (
                types[c] == "VARCHAR" or not kinds[c].decided & ~PLAIN_DIGITS
            )]  # fmt: skip
            few = [c for c in unsure if _n_different(cells, c) <= MANY_TEXTS]
            types |= dict.fromkeys(few, "VARCHAR")
            shown = decimal_sign(types, {c: kinds[c].decided for c in untyped})
            signs = Signs(decimal or shown, tuple(c for c in guessed if c not in few))
            written = [c for c in untyped if c not in few and texts[c] == KINDS_BY_DECIMAL[decimal]]
            _tell_written(name, types, {c: kinds[c].decided for c in written}, decimal)
            blank = [c for c in untyped if kinds[c].has_blanks and types[c] != "VARCHAR"]
            _tell_blanks(name, cells, blank)
            slips = [c for c in written if kinds[c].is_nearly_one and types[c] == "VARCHAR"]
            _tell_slips(name, cells, slips, decimal)
            plain = ("BIGINT", "DOUBLE", "DATE", "TIMESTAMP", ZONE_TYPE)
            own = [c for c in untyped if c in typed and types[c] in plain and c not in blank]
            _tell_typed(name, own)
        whole = tuple(c for c in chosen if _WHOLE.fullmatch(types[c]))
        zoned = tuple(c for c in chosen if types[c] == ZONE_TYPE)
        source = {c: without_blanks(quoted(c)) if c in blank else quoted(c) for c in chosen}
        source |= {c: with_seconds(source[c]) for c in zoned if c in untyped}
        parts = [f"{_converted(source[c], types[c])} AS {quoted(c)}" for c in chosen]
        parts += [f"CAST({quoted(c)} AS VARCHAR) AS {quoted(_digits(c))}" for c in whole]
        sql = f"SELECT {', '.join(parts)} FROM ({table})"
        return cls(tuple(chosen), sql, whole, zoned, signs=signs)

    def frame(self, db: Any) -> pd.DataFrame:
        """All rows, as a frame."""
        found = self._finished(db.sql(self.sql).df())
        if self.signs != Signs():
            found.attrs[_SIGNS] = list(self.signs)
        return found

    def sample(self, db: Any, n_rows: int) -> tuple[pd.DataFrame, int]:
        """About ``n_rows`` of the rows, from all parts of the table, and how many rows it has."""
        ((n_all,),) = db.sql(f"SELECT count(*) FROM ({self.sql})").fetchall()
        some = f"SELECT * FROM ({self.sql}) USING SAMPLE {n_rows} ROWS (reservoir, 0)"
        return self._finished(db.sql(some).df()), n_all

    def _finished(self, frame: pd.DataFrame) -> pd.DataFrame:
        for column in self.whole:
            digits = frame.pop(_digits(column))
            if (frame[column].isna() & digits.notna()).any():
                frame[column] = digits
        for column in self.zoned:
            frame[column] = frame[column].dt.tz_localize("UTC")
        return frame


MANY_TEXTS = 30  #: different texts of a column, beyond which they are no levels
_LOOK = 2048  # rows that show of most columns of texts that they are no numbers


class Cells(NamedTuple):
    """Columns of texts that SQL gives, to be asked by more SQL, in which they are called cells.

    Relations of DuckDB would do, and take three times as long to prepare a question.
    """

    db: Any
    sql: str

    def of(self, columns: Sequence[str], n_rows: int | None = None) -> Cells:
        """Some columns, perhaps of the first rows alone."""
        first = "" if n_rows is None else f" LIMIT {n_rows}"
        names = ", ".join(map(quoted, columns))
        return self._replace(sql=f"SELECT {names} FROM ({self.sql}){first}")

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a SELECT from cells."""
        found: list[tuple[Any, ...]] = self.db.execute(
            f"WITH cells AS ({self.sql}) SELECT * FROM ({sql})"
        ).fetchall()
        return found


def text_kinds(
    cells: Cells, columns: Sequence[str], decimal: str | None = None
) -> dict[str, TextKinds]:
    """What the texts of each column are, which must be all of the cells."""
    found = cells.ask(kinds_of_columns(decimal))
    return dict.fromkeys(columns, TextKinds()) | {column: TextKinds(*own) for column, *own in found}


def _points_settled(
    rows: Cells, kinds: Mapping[str, TextKinds], texts: Mapping[str, int], table: str
) -> tuple[dict[str, str], list[str]]:
    """The type of columns of 1.696, where other columns of the file show that it is a thousand.

    And all columns of which this, or that nobody can tell, had to be guessed.
    """
    free = [c for c, allowed in texts.items() if allowed == ANY_KIND]
    some = [c for c in kinds if c in free]
    known = {c: kinds[c].decided for c in some}
    if not any(map(are_some_points, known.values())):
        return {}, []
    if others := [c for c in free if c not in kinds]:  # columns that are not read tell, too
        found = text_kinds(rows.of(others), others)
        known |= {c: own.decided for c, own in found.items()}
    thousands, unsure = points_of(known, some)
    if thousands:
        _warn(
            f"{listed(thousands)} of {table} is read as numbers with points between thousands, for "
            f"other columns have decimal commas. If they are decimal points, name the decimal sign."
        )
    if unsure:
        _warn(
            f"{listed(unsure)} of {table} is read as numbers with decimal points, 1.234 as less "
            f"than two. If they are between thousands, name the decimal sign."
        )
    return dict.fromkeys(thousands, "POINTS BETWEEN THOUSANDS"), thousands + unsure


def _to_look_at(rows: Cells, columns: list[str], typed: Collection[str]) -> list[str]:
    """Columns whose texts may be something else; of most ``typed`` ones the first rows tell."""
    if not (some := [c for c in columns if c in typed]):
        return columns
    first = text_kinds(rows.of(some, _LOOK), some)
    plain = {c for c, own in first.items() if 10 * own.n_other > own.n}
    return [c for c in columns if c not in plain]


def _n_different(cells: Cells, column: str) -> int:
    ((n,),) = cells.ask(f"SELECT count(DISTINCT {quoted(column)}) FROM cells")
    return int(n)


def _tell_blanks(table: str, cells: Cells, columns: Sequence[str]) -> None:
    """Warn of texts among numbers and dates that count as missing values."""
    for column in columns:
        own = quoted(column)
        sql = f"""SELECT {own}, count(*) FROM cells
            WHERE {own} IS NOT NULL AND {without_blanks(own)} IS NULL
            GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 5"""
        found = ", ".join(f"{text!r} ({n:,})" for text, n in cells.ask(sql))
        _warn(
            f"{column!r} of {table} is read as numbers or dates, and these texts as missing "
            f"values: {found}."
        )


def _tell_slips(table: str, cells: Cells, columns: Sequence[str], decimal: str | None) -> None:
    """Which texts keep a column of many others from being numbers or dates."""
    for column in columns:
        if _n_different(cells, column) <= MANY_TEXTS:
            continue
        sql = f"""SELECT value, count(*) FROM (SELECT {quoted(column)} AS value FROM cells)
            WHERE value IS NOT NULL AND {kind_of_cell(decimal)} & {OTHER_KINDS} > 0
            GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 5"""
        found = [text for text, _ in cells.ask(sql)]
        _warn(
            f"{column!r} of {table} is read as texts, of which most are numbers or dates, but not "
            f"{listed(found)}. Correct these, or leave them empty, to have numbers or dates."
        )


def _tell_typed(table: str, columns: Sequence[str]) -> None:
    if columns:
        verb = "is" if len(columns) == 1 else "are"
        _warn(f"{listed(columns)} of {table} {verb} read as numbers or dates, which its texts are.")


def _warn(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=7)


def _tell_written(
    table: str, types: Mapping[str, str], kinds: Mapping[str, int], decimal: str | None
) -> None:
    """Warn of what was decided about numbers and dates that can be read in two ways."""
    found: dict[str, list[str]] = {}
    for column, own in kinds.items():
        if text := _told_of(types[column], own, decimal):
            found.setdefault(text, []).append(column)
    for text, columns in found.items():
        verb = "is" if len(columns) == 1 else "are"
        message = f"{listed(columns)} of {table} {verb} read as {text}"
        warnings.warn(message, UserWarning, stacklevel=6)


def _told_of(type_: str, kinds: int, decimal: str | None) -> str | None:
    """Words for what a column is read as, and how to change it; None if it is clear."""
    if decimal is not None and has_another_decimal(kinds, decimal):
        return (
            f"texts: not all are numbers with the decimal sign that was named, {decimal!r}. Check "
            f"it."
        )
    if decimal is not None and not has_dates(kinds):
        return None
    if type_ in WRITTEN_WORDS and not are_some_points(kinds):
        return f"{WRITTEN_WORDS[type_]}."
    if not is_unclear(kinds):
        return None
    if has_dates(kinds):
        return (
            "texts: dates as 1/2/2024 can mean two things. Write 2024-02-01 to have them read as "
            "such."
        )
    return "texts: numbers as 1,234 can mean two things. Name the decimal sign, a point or a comma."


def _converted(column: str, type_: str) -> str:
    """SQL of a column as pandas takes it."""
    if _WHOLE.fullmatch(type_):
        return f"TRY_CAST({column} AS BIGINT)"
    if type_ in WRITTEN_AS:
        return WRITTEN_AS[type_].format(column)
    if type_ == ZONE_TYPE:  # in UTC, whatever the zone of the machine
        return f"make_timestamp(epoch_us(CAST({column} AS {type_})))"
    return f"CAST({column} AS {'VARCHAR' if type_ in _AS_TEXT else type_})"


def _digits(column: str) -> str:
    return f"{column}\x1fdigits"


def list_of(files: list[str]) -> str:
    """SQL of a list of files, none of whose names is a pattern.

    >>> print(list_of(["a.csv", "b[1].csv"]))
    ['a.csv', 'b[[]1].csv']
    """
    return f"[{', '.join(literal(exact_name(file)) for file in files)}]"


def exact_name(file: str) -> str:
    """The pattern that only this file matches."""
    return re.sub(r"[\[*?]", lambda found: f"[{found[0]}]", file)


def literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'
