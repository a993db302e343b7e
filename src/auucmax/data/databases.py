"""Tables that DuckDB reads: all their rows, a random sample, or batches; and rows of PostgreSQL.

Databases are opened to read only, and whole numbers keep all their digits.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import pandas as pd

from auucmax._errors import InputError
from auucmax._files import private_folder
from auucmax._optional import import_optional
from auucmax._validation import listed
from auucmax.data.memory import N_BUCKETS, buckets_of_sample, most_rows
from auucmax.data.selects import check_select
from auucmax.data.table_errors import (
    NoRowsError,
    TableError,
    check_columns,
    check_different,
    one_line,
)
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
from auucmax.encoding.frames import frame_of
from auucmax.encoding.kinds import level_text, moments_of

SELECT = re.compile(r"\s*(select|with|from|table|values)\s", re.IGNORECASE)
_AS_TEXT = ("UUID", "TIME", "TIME WITH TIME ZONE", "INTERVAL", "BIT")
_WHOLE = re.compile(r"U?HUGEINT|UBIGINT|DECIMAL\(\d+,0\)")
_EXACT_FLOATS = 2**53
_CONNECT_SECONDS = 15
_LOOK = 2048  # rows that show of most columns of texts that they are no numbers
_SAMPLE_ROWS = 10_000  # that show how much memory all rows take
_VECTORS = 49  # of DuckDB in a batch, of 2,048 rows each
BUCKET = "auucmax_bucket"  #: the column by which a sample is drawn
MANY_TEXTS = 30  #: different texts of a column, beyond which they are no levels
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


class Draw(NamedTuple):
    """A random sample: of at most ``max_rows`` rows, or as many as fit into memory.

    Rows are drawn by a hash of the column ``by``, whose equal values stay together; or, without
    such a column, one by one.
    """

    by: str | None = None
    max_rows: int | None = None

    def most_rows(self, some: Callable[[], pd.DataFrame]) -> int:
        """How many rows may be drawn of a table with rows such as ``some``."""
        return most_rows(some()) if self.max_rows is None else self.max_rows

    def sql(self, read: Callable[[str], pd.DataFrame], table: str, hashed: str, most: int) -> str:
        """SQL of the rows that are drawn; ``hashed`` is SQL of the hash of a text."""
        key = "row_number() OVER ()" if self.by is None else quoted(self.by)
        bucket = hashed.format(f"CAST({key} AS VARCHAR)")
        keyed = f"SELECT *, {bucket} AS {BUCKET} FROM ({table}) AS every"
        found = read(f"SELECT {BUCKET}, count(*) FROM ({keyed}) AS k GROUP BY 1 ORDER BY 1")
        last = found.iloc[buckets_of_sample(found.iloc[:, 1], most) - 1, 0]
        return f"SELECT * FROM ({keyed}) AS k WHERE {BUCKET} <= {last}"

    def of_frame(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The rows that are drawn of a frame."""
        if self.max_rows is None or len(frame) <= self.max_rows:
            return frame
        keys = np.arange(len(frame))
        if self.by is not None:
            keys = frame[self.by].astype(str).to_numpy(object)
        bucket = (pd.util.hash_array(keys) % N_BUCKETS).astype(np.intp)
        found, n_rows = np.unique(bucket, return_counts=True)
        return frame[bucket <= found[buckets_of_sample(n_rows, self.max_rows) - 1]]


def read_postgres(url: str, query: str | None, draw: Draw | None) -> tuple[pd.DataFrame, int]:
    """Rows of a SELECT, or of a table, of a PostgreSQL database, which stays as it is.

    The transaction only reads, and is rolled back. Also how many rows there are: with ``draw`` the
    server draws a sample of them.
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

        n_rows = None
        if draw is not None:
            n_rows = int(read(f"SELECT count(*) FROM ({sql}) AS every").iloc[0, 0])
            most = draw.most_rows(lambda: read(f"SELECT * FROM ({sql}) AS f LIMIT {_SAMPLE_ROWS}"))
            if n_rows > most:
                hashed = f"hashtext({{}}) & {N_BUCKETS - 1}"
                sql = draw.sql(read, sql, hashed, most)
        frame = read(sql)
        connection.rollback()  # the end of the block would commit
    parts = []
    for place in range(frame.shape[1]):
        values = frame.iloc[:, place]
        # Not whole numbers among missing ones: floats would round the long ones.
        whole = pd.api.types.infer_dtype(values, skipna=True) == "integer"
        parts.append(values if whole and values.isna().any() else values.infer_objects())
    frame = pd.concat(parts, axis=1) if parts else frame
    return frame.drop(columns=BUCKET, errors="ignore"), n_rows or len(frame)


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
        table = f"SELECT {names} FROM given"
        found = Table.of_sql(db, table, None, name, allowed, typed=typed).frame()
    changed = {c: found[str(c)].to_numpy() for c in texts if found[str(c)].dtype.kind in "iufM"}
    if not changed:
        return frame
    frame = frame.assign(**changed)
    frame.attrs |= found.attrs
    return frame


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


NO_SIGNS = Signs()
_SIGNS = "auucmax signs"  # a list in the attrs of a frame, which pandas hands on


@dataclass(frozen=True, eq=False)
class Table:
    """A table that is open: in memory (``held``), or behind the SELECT ``sql`` of DuckDB.

    ``words`` say what it should be, and what to do if it is not. ``zoned`` are columns of moments
    whose zone is UTC; ``signs`` say how texts were read.
    ``is_small``: it fits into memory in any case. With ``draw`` its rows are a random sample if
    they do not all fit, or are more than may be drawn; ``n_drawn_from`` is the number of all where
    a server drew them.
    """

    name: str
    columns: tuple[str, ...]
    held: Any = None
    db: Any = None
    sql: str = ""
    words: tuple[str, str] = ("", "")
    zoned: tuple[str, ...] = ()
    signs: Signs = NO_SIGNS
    is_small: bool = False
    draw: Draw | None = None
    n_drawn_from: int | None = None

    @classmethod
    def of_sql(
        cls,
        db: Any,
        table: str,
        columns: Sequence[str] | None,
        name: str,
        texts: Mapping[str, int] = MappingProxyType({}),
        *,
        decimal: str | None = None,
        typed: Collection[str] = (),
        **more: Any,
    ) -> Table:
        """The columns that are asked for of what the SQL ``table`` gives.

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
        return cls(name, tuple(chosen), db=db, sql=sql, zoned=tuple(zoned), signs=signs, **more)

    @cached_property
    def n_rows(self) -> int:
        """The number of all rows."""
        if self.held is not None:
            return self.n_drawn_from or len(self.held)
        return self.n_drawn_from or int(self._read(f"SELECT count(*) FROM ({self.sql})").iloc[0, 0])

    @cached_property
    def fits(self) -> bool:
        """Whether all rows fit into memory, and the work on them."""
        if self.held is not None or self.is_small:
            return True
        return self.n_rows <= most_rows(self._some())

    def _some(self) -> pd.DataFrame:
        """Rows from all parts of the table."""
        some = f"SELECT * FROM ({self.sql}) USING SAMPLE {_SAMPLE_ROWS} ROWS (reservoir, 0)"
        return self._finished(self._read(some))

    def _read(self, sql: str) -> pd.DataFrame:
        with one_line(self.name, *self.words):
            found: pd.DataFrame = self.db.sql(sql).df()
            return found

    def frame(self) -> pd.DataFrame:
        """All rows, or those that are drawn; an InputError if they do not fit into memory."""
        sql = self.sql
        if self.held is not None:
            found = frame_of(self.held)
            found = found if self.draw is None else self.draw.of_frame(found)
        else:
            is_whole = self.is_small and (self.draw is None or self.draw.max_rows is None)
            if not is_whole and self.draw is not None:
                most = self.draw.most_rows(self._some)
                if self.n_rows > most:
                    hashed = f"hash({{}}) % {N_BUCKETS}"
                    sql = self.draw.sql(self._read, sql, hashed, most)
            elif not self.fits:
                raise InputError(
                    self.name, "a table that fits into a quarter of the free memory",
                    f"{self.n_rows:,} rows and {len(self.columns):,} columns",
                    "Pass fewer rows or columns. A fit trains on a random sample of the rows, and "
                    "a model scores all of them in batches, if they are given the file.",
                )  # fmt: skip
            found = self._finished(self._read(sql).drop(columns=BUCKET, errors="ignore"))
        if not len(found):
            raise NoRowsError(
                f"{self.name} should have rows, got a table without. Check how it was written.",
                [str(c) for c in found.columns],
            )
        return found

    def batches(self, columns: Sequence[str], also: Sequence[str] = ()) -> Iterator[pd.DataFrame]:
        """The rows in their order, in one batch if they fit into memory.

        ``columns`` must be there, ``also`` are further ones, if there.
        """
        if self.fits:
            yield frame_of(self.frame() if self.held is None else self.held, columns, also)
            return
        check_columns(columns, self.columns, self.name)
        wanted = [c for c in self.columns if c in {*columns, *also}]
        names = ", ".join(map(quoted, wanted))
        with one_line(self.name, *self.words), self.db.cursor() as own:
            own.execute(f"SELECT {names} FROM ({self.sql})")
            while len(batch := own.fetch_df_chunk(_VECTORS)):
                yield self._finished(batch)

    def _finished(self, frame: pd.DataFrame) -> pd.DataFrame:
        for column in self.zoned:
            if column in frame:
                frame[column] = frame[column].dt.tz_localize("UTC")
        if self.signs != NO_SIGNS:
            frame.attrs[_SIGNS] = list(self.signs)
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
    """What columns of texts are read as, those with texts for missing values, and their signs.

    See :meth:`Table.of_sql`. Decisions that may be wrong are reported by warnings.
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
        return {}, [], NO_SIGNS
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
    """The frame with columns of objects as the kinds that these are."""
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
    """Numbers of objects: whole ones that a float would round keep their digits."""
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
