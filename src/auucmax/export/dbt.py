"""A score as a model of a dbt project: its SELECT, what its columns are, and tests of them.

The tests are those that dbt has itself and a query that should find no row, so that a project needs
no package for them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence

from auucmax.export.dialects import Dialect, dialect_named

#: What the first line of each file says, by which it is known as one that may be replaced.
WRITTEN = "Written by auucmax, which replaces this file at the next export."
_REFERENCE = re.compile(r"(?:\w+[.])?\w+", re.ASCII)
_UNFIT = re.compile(r"""\{(?=[{%#])|["`\\]""")  # templates; and dbt doubles no quotes
_ODD = re.compile(r"\{(?=[{%#\r])|\r")
_LONGEST = 63  # characters of a name
_MARK = 6  # those of a hash
_NEAR = 1e-9  # what scores of a database may differ by


def dbt_files(
    query: Callable[..., str],
    *,
    table: str,
    columns: Sequence[str],
    model: str = "",
    dialect: str = "duckdb",
    id: str | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    labels: Mapping[str, Sequence[str]] | None = None,
    comment: str = "",
) -> dict[str, str]:
    """Texts of the files of a dbt model, by their places in a project.

    ``models/NAME.sql`` has the query; ``models/NAME.yml`` says that no ``columns`` are missing, and
    that ``id`` is unique; ``tests/NAME_in_range.sql`` finds rows whose values are none that the
    model gives. NAME is TABLE_MODEL_scores, MODEL in small letters, digits and _; one that is not
    ASCII, or too long, ends in a part of its hash. Models that differ in capitals, blanks or signs
    alone have one NAME, and so have model c of table a_b and model b_c of table a.

    Parameters
    ----------
    query : a function that gives SQL for table=...: ``partial(to_sql, encoder, model, ...)``.
    table : name of a model, seed or snapshot of the project; ``shop.people`` is a source.
    columns : names of what the query adds.
    model : what the model is called, whatever characters that has; without, NAME is TABLE_scores.
    dialect : the one that the query is written in.
    id : a column that the query keeps, which has no value twice.
    ranges : lowest and highest value of columns; ``labels``: all values of columns of texts.
    comment : lines that the query begins with.

    Examples
    --------
    >>> def query(table):
    ...     return f'SELECT "id", 1e0 AS "score" FROM "{table[0]}"'
    >>> files = dbt_files(query, table="people", columns=["score"], id="id")
    >>> print(files["models/people_scores.sql"])
    -- Written by auucmax, which replaces this file at the next export.
    SELECT "id", 1e0 AS "score" FROM {{ ref('people') }}
    >>> print(files["models/people_scores.yml"])
    # Written by auucmax, which replaces this file at the next export.
    version: 2
    models:
      - name: people_scores
        columns:
          - name: "id"
            quote: true
            data_tests: [not_null, unique]
          - name: "score"
            quote: true
            data_tests: [not_null]
    """
    words = dialect_named(dialect)
    if not _REFERENCE.fullmatch(table):
        raise ValueError(
            f"the table should be the name of a model of the dbt project, or of a source and its "
            f"table as in shop.people, got {table!r:.80}. Use letters, digits and _."
        )
    *source, own = table.split(".")
    reference = f"source('{source[0]}', '{own}')" if source else f"ref('{own}')"
    name = _name([*source, own], model)
    tested = [(id, "[not_null, unique]")] if id is not None else []
    tested += [(column, "[not_null]") for column in columns]
    _check_names([column for column, _ in tested])
    text = f"{_escaped(comment)}{_of_reference(query, f'{{{{ {reference} }}}}', words)}\n"
    lines = [
        f"      - name: {_yaml(column)}\n        quote: true\n        data_tests: {tests}\n"
        for column, tests in tested
    ]
    files = {
        f"models/{name}.sql": f"-- {WRITTEN}\n{text}",
        f"models/{name}.yml": f"# {WRITTEN}\nversion: 2\nmodels:\n  - name: {name}\n"
        f"    columns:\n{''.join(lines)}",
    }
    if strange := _strange(ranges or {}, labels or {}, words):
        files[f"tests/{name}_in_range.sql"] = (
            f"-- {WRITTEN}\n-- Rows whose values are none that the model gives.\n"
            f"SELECT *\nFROM {{{{ ref('{name}') }}}}\nWHERE {_escaped(strange)}\n"
        )
    return files


def _name(table: Sequence[str], model: str) -> str:
    """What the dbt model is called, not longer than PostgreSQL allows.

    >>> _name(["shop", "people"], "Mail (spring)"), _name(["people"], "")
    ('shop_people_mail_spring_scores', 'people_scores')
    >>> _name(["people"], "\u041c\u043e\u0434\u0435\u043b\u044c 2")
    'people_2_5cdf9b_scores'
    """
    begin, end = "_".join(table), "_scores"
    room = max(_LONGEST - len(begin) - len(end) - 1, 0)
    called = re.sub("[^a-z0-9]+", "_", model.lower()).strip("_")
    if not model.isascii() or len(called) > room:
        mark = hashlib.sha256(model.encode(errors="surrogatepass")).hexdigest()[:_MARK]
        called = f"{called[: max(room - _MARK - 1, 0)]}_{mark}".lstrip("_")[:room]
    return f"{begin}_{called}{end}" if called else f"{begin}{end}"


def _of_reference(query: Callable[..., str], reference: str, words: Dialect) -> str:
    """The query of what a template refers to, with all its texts as they are."""
    table = "people"
    while table in query(table=["x"]):  # a level may be called like anything
        table += "_"
    return _escaped(query(table=[table])).replace(words.identifier(table), reference)


def _strange(
    ranges: Mapping[str, tuple[float, float]], labels: Mapping[str, Sequence[str]], words: Dialect
) -> str:
    """SQL that is true for values out of their range, and for other texts."""
    tests = []
    for column, (low, high) in ranges.items():
        ends = f"{words.number(low - _NEAR)} AND {words.number(high + _NEAR)}"
        tests.append(f"NOT ({words.identifier(column)} BETWEEN {ends})")
    for column, texts in labels.items():
        allowed = ", ".join(map(words.text, texts))
        tests.append(f"{words.identifier(column)} NOT IN ({allowed})")
    return "\n  OR ".join(tests)


def _check_names(columns: Sequence[str]) -> None:
    """Raise a ValueError for a name that dbt would take for a template, or not keep in quotes."""
    if bad := [column for column in columns if _UNFIT.search(column)]:
        raise ValueError(
            f"columns of a dbt model should have names without {{{{, {{%, {{#, quotes, backticks "
            f"and backslashes, got {bad[0]!r}. Rename it, or the arm that it tells of, and fit "
            f"again."
        )


def _escaped(text: str) -> str:
    """A text that dbt's templates leave as it is: levels may hold whatever they like.

    >>> _escaped("'{{ x }}' {")
    "'{{ '{' }}{ x }}' {"
    """
    # A carriage return would become a line feed; what replaces it begins with a brace itself.
    return _ODD.sub(lambda odd: f"{{{{ {odd[0]!r} }}}}", text)


def _yaml(text: str) -> str:
    """A text in quotes, whatever it holds.

    >>> print(_yaml('a "b" é'))
    "a \\"b\\" \\u00e9"
    """
    found = []
    for c in text:
        if c in '"\\':
            found.append(f"\\{c}")
        elif " " <= c <= "~":
            found.append(c)
        else:
            found.append(f"\\u{ord(c):04x}" if ord(c) < 2**16 else f"\\U{ord(c):08x}")
    return f'"{"".join(found)}"'
