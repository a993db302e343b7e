"""Read tables with DuckDB and PostgreSQL, in full or as a random sample.

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

import numpy as np
import pandas as pd

from auucmax._errors import InputError, level_of_caller
from auucmax._files import private_folder
from auucmax._optional import import_optional
from auucmax._validation import listed
from auucmax.data.memory import most_rows
from auucmax.data.selects import check_select
from auucmax.data.table_errors import TableError, check_columns, check_different, one_line
from auucmax.data.text_types import (
    ANY_KIND,
    BLANK,
    DECIMALS,
    INTEGER,
    KINDS_BY_DECIMAL,
    LONG,
    OTHER,
    TEXT,
    THOUSANDS,
    ZONE_TYPE,
    Form,
    TextKinds,
    are_some_points,
    form_of,
    kind_of_text,
    kinds_of_columns,
    points_of,
    reported,
    with_seconds,
    without_blanks,
)
from auucmax.encoding.kinds import level_text, moments_of

SELECT = re.compile(r"\s*(select|with|from|table|values)\s", re.IGNORECASE)
_AS_TEXT = ("JSON", "UUID", "TIME", "TIME WITH TIME ZONE", "INTERVAL", "BIT")
_WHOLE = re.compile(r"U?HUGEINT|UBIGINT|DECIMAL\(\d+,0\)")
_EXACT_FLOATS = 2**53
_CONNECT_SECONDS = 15
_LOOK = 2048  # rows that show of most columns of texts that they are no numbers
_LOOKED_AT = 10_000  # rows that show how much memory all rows take, about
BUCKET, N_BUCKETS = "auucmax_bucket", 2**20  #: rows are hashed into; a sample is the first ones
MANY_TEXTS = 30  #: different texts of a column, beyond which they are no levels
_TABLES = """
    SELECT table_name FROM duckdb_tables()
    UNION ALL SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1
"""


@contextmanager
def connect(database: str = ":memory:") -> Iterator[Any]:
    """Open a read-only DuckDB connection without network access.

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
    """Write a frame to a Parquet file."""
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
    """The SELECT for a query or a table name."""
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
    """SQL for a query or a table name."""
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


class Draw(NamedTuple):
    """A random sample of about ``max_rows`` rows, or as many as fit into memory.

    Rows are drawn by a hash of the column ``by``, whose equal values stay together; or, without
    such a column, one by one.
    """

    by: str | None = None
    max_rows: int | None = None

    def buckets(self, n_rows: int, some: Callable[[], pd.DataFrame], name: str) -> int | None:
        """Number of hash buckets to read; None to read all rows.

        ``some`` gives rows such as those of the table, to see how much memory they take.
        """
        most = most_rows(some()) if self.max_rows is None else self.max_rows
        if n_rows <= most:
            return None
        if self.max_rows is None:
            warnings.warn(
                f"{name} has {n_rows:,} rows: a random sample of about {most:,} is used, which fit "
                f"into a quarter of the free memory. Set max_rows to use more or fewer.",
                UserWarning,
                stacklevel=level_of_caller(),
            )
        return max(most * N_BUCKETS // n_rows, 1)

    def sql(self, table: str, name: str, read: Callable[[str], pd.DataFrame], hashed: str) -> str:
        """SQL that samples the SELECT ``table``; ``hashed`` is the hash expression."""
        n_rows = int(read(f"SELECT count(*) FROM ({table}) AS every").iloc[0, 0])
        part = f"SELECT * FROM ({table}) AS every WHERE random() < {_LOOKED_AT / max(n_rows, 1)}"
        n = self.buckets(n_rows, lambda: read(part), name)
        if n is None:
            return table
        key = "row_number() OVER ()" if self.by is None else quoted(self.by)
        bucket = hashed.format(f"CAST({key} AS VARCHAR)")
        keyed = f"SELECT *, {bucket} AS {BUCKET} FROM ({table}) AS every"
        return f"SELECT * FROM ({keyed}) AS keyed WHERE {BUCKET} < {n}"

    def of_frame(self, frame: pd.DataFrame, name: str) -> pd.DataFrame:
        """Sample the rows of a frame in memory."""
        check_columns([self.by] if self.by else [], list(frame.columns), name)
        n = None if self.max_rows is None else self.buckets(len(frame), lambda: frame, name)
        if n is None:
            return frame
        keys = np.arange(len(frame)) if self.by is None else frame[self.by].astype(str).to_numpy()
        return frame[pd.util.hash_array(keys.astype(object)) % N_BUCKETS < n]


def read_postgres(url: str, query: str | None, draw: Draw | None) -> pd.DataFrame:
    """Read a SELECT or a table from PostgreSQL in a read-only transaction.

    The transaction only reads, and is rolled back. With ``draw`` the server draws a sample.
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

        def read(sql: str) -> pd.DataFrame:
            # The protocol of a pipeline takes one statement: none that ends the transaction, say.
            with connection.pipeline():
                cursor = connection.execute(sql.encode())
                rows = cursor.fetchall()
            titles = [column.name for column in cursor.description or ()]
            return pd.DataFrame(rows, columns=titles, dtype=object)

        if draw is not None:
            sql = draw.sql(sql, name, read, f"(hashtext({{}}) & {N_BUCKETS - 1})")
        frame = read(sql)
        connection.rollback()  # the end of the block would commit
    parts = []
    for place in range(frame.shape[1]):
        values = frame.iloc[:, place]
        # Not whole numbers among missing ones: floats would round the long ones.
        whole = pd.api.types.infer_dtype(values, skipna=True) == "integer"
        parts.append(values if whole and values.isna().any() else values.infer_objects())
    frame = pd.concat(parts, axis=1) if parts else frame
    return frame.drop(columns=BUCKET, errors="ignore")


def address_name(url: str) -> str:
    """Host and database of an address, without the password."""
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
    """Convert text columns to numbers or dates where all values allow it."""
    kinds = {c: pd.api.types.infer_dtype(frame[c], skipna=True) for c in frame.columns}
    texts = [c for c, kind in kinds.items() if kind in ("string", "mixed", "mixed-integer")]
    if not texts:
        return frame
    with connect() as db:
        cells = frame[texts].map(level_text, na_action="ignore").astype("string")
        db.register("given", cells.rename(columns={c: f"c{k}" for k, c in enumerate(texts)}))
        names = ", ".join(f"c{k} AS {quoted(str(c))}" for k, c in enumerate(texts))
        allowed = dict.fromkeys(map(str, texts), ANY_KIND)
        typed = [str(c) for c in texts if kinds[c] == "string"]  # not texts among numbers
        found = read_sql(db, f"SELECT {names} FROM given", None, name, allowed, typed=typed)
    changed = {c: found[str(c)].to_numpy() for c in texts if found[str(c)].dtype.kind in "iufM"}
    if not changed:
        return frame
    frame = frame.assign(**changed)
    frame.attrs |= found.attrs
    return frame


class Signs(NamedTuple):
    """Decimal sign inferred from text columns (None if absent or ambiguous), and columns
    of numbers such as 1.696, of which it was guessed whether the point is such a sign.
    """

    decimal: str | None = None
    guessed: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: pd.DataFrame) -> Signs:
        """Decimal signs of a frame that was read from text."""
        return cls(*table.attrs.get(_SIGNS, ()))

    def check(self, decimal: str | None, columns: Collection[str]) -> None:
        """Raise an InputError if ``columns`` were read with another sign than ``decimal``."""
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


def read_sql(
    db: Any,
    table: str,
    columns: Sequence[str] | None,
    name: str,
    texts: Mapping[str, int] = MappingProxyType({}),
    *,
    decimal: str | None = None,
    typed: Collection[str] = (),
    draw: Draw | None = None,
) -> pd.DataFrame:
    """Read columns of the SQL ``table``, or with ``draw`` a sample of its rows.

    ``texts`` are columns without a type, with the kinds that each may turn out to be;
    ``decimal`` is the decimal sign, if it is known. Columns that are ``typed`` are texts by
    their type: few different ones of digits alone, as of a code, stay texts.
    """
    relation = db.sql(table)
    types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    chosen = list(types) if columns is None else list(columns)
    check_columns(chosen, list(types), name)
    forms, blank, signs = _forms_of_texts(db, table, chosen, name, texts, decimal, typed)
    source = {c: without_blanks(quoted(c)) if c in blank else quoted(c) for c in chosen}
    zoned = []
    for c in chosen:
        form = forms.get(c) or Form(types[c], 0, 0, f"CAST({{}} AS {types[c]})")
        if form.type == ZONE_TYPE:  # in UTC, whatever the zone of the machine
            zoned.append(c)
            text = with_seconds(source[c]) if c in forms else source[c]
            source[c] = f"make_timestamp(epoch_us({form.sql.format(text)}))"
        elif _WHOLE.fullmatch(form.type):
            long = f"{quoted(c)} IS NOT NULL AND TRY_CAST({quoted(c)} AS BIGINT) IS NULL"
            ((is_long,),) = db.execute(f"SELECT bool_or({long}) FROM ({table})").fetchall()
            source[c] = f"CAST({quoted(c)} AS {'VARCHAR' if is_long else 'BIGINT'})"
        else:
            source[c] = (TEXT if form.type in _AS_TEXT else form).sql.format(source[c])
    parts = ", ".join(f"{source[c]} AS {quoted(c)}" for c in chosen)
    sql = f"SELECT {parts} FROM ({table})"

    def read(sql: str) -> pd.DataFrame:
        found: pd.DataFrame = db.sql(sql).df()
        return found

    if draw is not None:
        check_columns([draw.by] if draw.by else [], chosen, name)
        sql = draw.sql(sql, name, read, f"hash({{}}) % {N_BUCKETS}")
    frame = read(sql).drop(columns=BUCKET, errors="ignore")
    for c in zoned:
        frame[c] = frame[c].dt.tz_localize("UTC")
    if signs != Signs():
        frame.attrs[_SIGNS] = list(signs)
    return as_kinds(frame)


def _forms_of_texts(
    db: Any,
    table: str,
    chosen: Sequence[str],
    name: str,
    texts: Mapping[str, int],
    decimal: str | None,
    typed: Collection[str],
) -> tuple[dict[str, Form], list[str], Signs]:
    """Inferred types of text columns, with missing-value texts and decimal signs.

    See :func:`read_sql`. Decisions that may be wrong are reported by warnings.
    """

    def ask(sql: str, columns: Sequence[str], limit: str = "") -> list[tuple[Any, ...]]:
        cells = f"SELECT {', '.join(map(quoted, columns))} FROM ({table}){limit}"
        found: list[tuple[Any, ...]] = db.execute(
            f"WITH cells AS ({cells}) SELECT * FROM ({sql})"
        ).fetchall()
        return found

    def kinds_of(columns: Sequence[str], limit: str = "") -> dict[str, TextKinds]:
        found = {c: TextKinds(*own) for c, *own in ask(kinds_of_columns(decimal), columns, limit)}
        return {c: found.get(c, TextKinds()) for c in columns}

    def n_different(column: str) -> int:
        return int(ask(f"SELECT count(DISTINCT {quoted(column)}) FROM cells", [column])[0][0])

    def frequent(column: str, condition: str) -> list[tuple[str, int]]:
        return ask(
            f"SELECT value, count(*) FROM (SELECT {quoted(column)} AS value FROM cells) "
            f"WHERE value IS NOT NULL AND {condition} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 5",
            [column],
        )

    def warn(columns: Sequence[str], text: str) -> None:
        verb = "is" if len(columns) == 1 else "are"
        message = f"{listed(columns)} of {name} {verb} read as {text}"
        warnings.warn(message, UserWarning, stacklevel=6)

    look = [c for c in chosen if c in texts]
    if some := [c for c in look if c in typed]:
        # Of most columns with a type the first rows show that they are neither numbers nor dates.
        first = kinds_of(some, f" LIMIT {_LOOK}")
        look = [c for c in look if c not in first or 10 * first[c].n_other <= first[c].n]
    if not look:
        return {}, [], Signs()
    found = kinds_of(look)
    kinds = {c: own.decided for c, own in found.items()}
    forms = {c: form_of(kinds[c], texts[c]) for c in look}
    free = [c for c, allowed in texts.items() if allowed == ANY_KIND]
    guessed: list[str] = []
    if any(are_some_points(kinds[c]) for c in look if c in free):
        known = {c: kinds[c] for c in look if c in free}
        if others := [c for c in free if c not in known]:  # columns that are not read show it, too
            known |= {c: own.decided for c, own in kinds_of(others).items()}
        thousands, unsure = points_of(known, [c for c in look if c in free])
        forms |= dict.fromkeys(thousands, THOUSANDS)
        guessed = thousands + unsure
        if thousands:
            warnings.warn(
                f"{listed(thousands)} of {name} is read as numbers with points between thousands, "
                f"for other columns have decimal commas. If they are decimal points, name the "
                f"decimal sign.",
                UserWarning,
                stacklevel=5,
            )
        if unsure:
            warnings.warn(
                f"{listed(unsure)} of {name} is read as numbers with decimal points, 1.234 as less "
                f"than two. If they are between thousands, name the decimal sign.",
                UserWarning,
                stacklevel=5,
            )
    few = {
        c for c in look
        if c in typed and (forms[c] == TEXT or not kinds[c] & ~(INTEGER | LONG))
        and n_different(c) <= MANY_TEXTS
    }  # fmt: skip
    forms |= dict.fromkeys(few, TEXT)
    shown = set()
    for c in look:
        if forms[c].type == "DECIMAL COMMA" or forms[c] == THOUSANDS:
            shown.add(",")
        elif forms[c].type == "DOUBLE" and kinds[c] & DECIMALS:
            shown.add(".")
    sign = decimal or (shown.pop() if len(shown) == 1 else None)
    written = [c for c in look if c not in few and texts[c] == KINDS_BY_DECIMAL[decimal]]
    words: dict[str, list[str]] = {}
    for c in written:
        if text := reported(forms[c], kinds[c], decimal):
            words.setdefault(text, []).append(c)
    for text, columns in words.items():
        warn(columns, text)
    blank = [c for c in look if found[c].has_blanks and forms[c] != TEXT]
    for c in blank:
        most = frequent(c, f"{without_blanks('value')} IS NULL")
        these = ", ".join(f"{text!r} ({n:,})" for text, n in most)
        warn([c], f"numbers or dates, and these texts as missing values: {these}.")
    for c in written:
        if found[c].is_nearly_one and forms[c] == TEXT and n_different(c) > MANY_TEXTS:
            wrong = [text for text, _ in frequent(c, f"{kind_of_text(decimal)} & {BLANK | OTHER}")]
            warn(
                [c], f"texts, of which most are numbers or dates, but not {listed(wrong)}. Correct "
                f"these, or leave them empty, to have numbers or dates.",
            )  # fmt: skip
    own = [
        c for c in look
        if c in typed and c not in blank and forms[c] != TEXT and not forms[c].words
    ]  # fmt: skip
    if own:
        warn(own, "numbers or dates, which its texts are.")
    return forms, blank, Signs(sign, tuple(c for c in guessed if c not in few))


def as_kinds(frame: pd.DataFrame) -> pd.DataFrame:
    """Convert object columns to specific types."""
    for place, column in enumerate(frame.columns):
        values = frame.iloc[:, place]
        if values.dtype == object:
            kind = pd.api.types.infer_dtype(values, skipna=True)
            if kind == "boolean":
                values = values.astype("boolean")
            elif kind in ("date", "datetime"):
                moments = moments_of(values)
                zone = getattr(values[values.notna()].iloc[0], "tzinfo", None)
                values = moments.dt.tz_localize(None) if zone is None else moments
            elif kind in ("decimal", "integer"):
                values = _exact_numbers(values)
            else:
                continue
            frame = frame.assign(**{str(column): values})
    return frame


def _exact_numbers(values: pd.Series) -> pd.Series:
    """Convert objects to numbers; large integers keep all digits."""
    floats, known = values.astype("float64"), values[values.notna()]
    if not (floats.abs() >= _EXACT_FLOATS).any() or (floats.abs() == float("inf")).any():
        return floats
    # Not value % 1: a decimal of more digits than the context of decimal has none.
    if any(value != int(value) for value in known):
        return floats
    whole = known.map(int).astype(object)
    if whole.min() < -(2**63) or whole.max() >= 2**63:
        return whole.map(str).astype("str").reindex(values.index)
    return whole.astype("int64" if len(known) == len(values) else "Int64").reindex(values.index)


def list_of(files: list[str]) -> str:
    """SQL list of file names, escaped as glob patterns.

    >>> print(list_of(["a.csv", "b[1].csv"]))
    ['a.csv', 'b[[]1].csv']
    """
    return f"[{', '.join(literal(exact_name(file)) for file in files)}]"


def exact_name(file: str) -> str:
    """A glob pattern that matches exactly this file."""
    return re.sub(r"[\[*?]", lambda found: f"[{found[0]}]", file)


def literal(text: str) -> str:
    """Quote a text as a SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def quoted(name: str) -> str:
    """Quote a name as a SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
