"""A linear score as one SELECT, for databases where the rows are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from auucmax.encoding import TableEncoder
from auucmax.encoding.texts import BOOLEAN_TEXTS, END_ZEROS, MISSING_TEXTS
from auucmax.export.dialects import Dialect, dialect_named
from auucmax.export.raw_formula import Effect, RawFormula, RawPart, knots_of, raw_formula

_BREAK = "\n    "
# exp of more leaves the range of doubles, which PostgreSQL takes for an error.
_STEEPEST = "500e0"
_END_ZEROS = "|".join(f"^{number}$" for number in END_ZEROS.split("|"))
_GROUPS = r"\1\2\3\4"  # all but one of them are empty
_PLAIN_NUMBER = r"-?[0-9]+([.][0-9]*[1-9])?"


def to_sql(
    encoder: TableEncoder,
    scorer: Any,
    *,
    table: str | Sequence[str],
    dialect: str = "duckdb",
    keep: str | Sequence[str] = (),
    calibration: Any = None,
    score_name: str = "score",
    uplift_name: str = "uplift",
) -> str:
    """One SELECT that scores the rows of a table as ``scorer`` does.

        score = constant + sum_k weight_k link_k(intercept_k + what each raw column adds)

    A missing value (NULL, a NaN, in a category also the empty text, NA and the like) counts as in
    training. A text that training did not have counts as *other*, or to no level if there is no
    other: a query cannot stop for it as the encoder does.

    Parameters
    ----------
    encoder : fitted ``TableEncoder``.
    scorer : ``Formula`` or fitted estimator that is one; see ``formula_of``.
    table : name of the table. Dots separate a schema from it; a sequence of names has none.
    dialect : "duckdb", "postgres", "bigquery" or "snowflake".
    keep : columns that the result has beside the score, an id for example; "all": every column.
    calibration : ``Calibration`` or None. With it the result has the calibrated uplift too.
    score_name, uplift_name : names of what is added. With keep="all" the table has none of them.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from auucmax.estimators.formula import Formula, Part
    >>> frame = pd.DataFrame({"age": [30.0, None, 50.0], "town": ["Oslo", "Rome", "Oslo"]})
    >>> encoder = TableEncoder(min_level_rows=1).fit(frame)
    >>> formula = Formula((Part(1.0, "identity", -1.0, np.array([0.5, 0.0, 0.25, 2.0])),))
    >>> print(to_sql(encoder, formula, table="people", keep=["id"]))
    SELECT
      "id",
      CAST(-1e0 AS DOUBLE)
        + COALESCE(0.5e0 * NULLIF(CAST("age" AS DOUBLE), CAST('NaN' AS DOUBLE)), 20e0)
        + CASE CAST("town" AS VARCHAR) WHEN 'Oslo' THEN 0.25e0 WHEN 'Rome' THEN 2e0 ELSE 0e0 END
        AS "score"
    FROM "people"
    """
    words = dialect_named(dialect)
    formula = raw_formula(encoder, scorer)
    _check_cases([name for name, _ in formula.columns], words)
    kept = _kept(keep)
    present = [name for name, _ in formula.columns] if kept is None else kept
    _check_names(present, score_name, *([] if calibration is None else [uplift_name]))
    columns = ["*"] if kept is None else [words.identifier(name) for name in kept]
    score = words.identifier(score_name)
    # Nothing is indented afterwards: a line break may be part of a name or a level.
    query = _select([*columns, f"{_score(formula, words)}\n    AS {score}"], _table(table, words))
    if calibration is None:
        return query
    uplift = (
        f"{_uplift(knots_of(calibration), score, words)}\n    AS {words.identifier(uplift_name)}"
    )
    outer = ["*"] if kept is None else [*columns, score]
    return _select([*outer, uplift], f"(\n{query}\n) AS {words.identifier('scored')}")


def _score(formula: RawFormula, words: Dialect) -> str:
    """The whole score; a double from its first term on, so that no sum is a decimal."""
    if formula.constant == 0 and len(formula.parts) == 1:
        (only,) = formula.parts
        if only.weight == 1 and only.link == "identity":
            return _predictor(only, words, _BREAK)
    terms = [_weighted(part, words) for part in formula.parts]
    return f"{_BREAK}+ ".join([_double(formula.constant, words), *terms])


def _predictor(part: RawPart, words: Dialect, line_break: str) -> str:
    effects = [_effect(e, words, line_break) for e in part.effects if not e.is_zero]
    return f"{line_break}+ ".join([_double(part.intercept, words), *effects])


def _weighted(part: RawPart, words: Dialect) -> str:
    inner = _predictor(part, words, f"{_BREAK}    ")
    if part.link == "identity":
        return f"{words.number(part.weight)} * (\n      {inner}\n    )"
    # weight / (1 + exp(-z)), without exp of what is too large for it.
    return (
        f"{words.number(part.weight)} / (1e0 + EXP(-GREATEST(-{_STEEPEST}, LEAST({_STEEPEST},\n"
        f"      {inner}\n    ))))"
    )


def _effect(effect: Effect, words: Dialect, line_break: str) -> str:
    if effect.kind == "category":
        return _category(effect, words, line_break)
    return _number(effect, words, line_break)


def _number(effect: Effect, words: Dialect, line_break: str) -> str:
    """per_unit * value, or what a missing value adds."""
    column = words.identifier(effect.column)
    if effect.kind == "date":
        value = words.days.format(x=column)
    elif effect.kind == "boolean":
        value = _truth(column, words, line_break)
    else:
        value = words.real.format(x=column)
    if effect.per_unit == 0:
        return f"CASE WHEN {value} IS NULL THEN {words.number(effect.when_missing)} ELSE 0e0 END"
    product = f"{words.number(effect.per_unit)} * {value}"
    return f"COALESCE({product}, {words.number(effect.when_missing)})"


def _truth(column: str, words: Dialect, line_break: str) -> str:
    """1 or 0, NULL where it is missing, of booleans, of numbers and of texts.

    By its text, which every type has. Any other text than these is an error when the query runs:
    it is cast last, so that this does not depend on which branches a database evaluates.
    """
    text = f"CAST({column} AS {words.varchar})"

    def one_of(texts: Iterable[str]) -> str:
        return f"IN ({', '.join(map(words.text, texts))})"

    cases = [
        f"WHEN {text} {one_of(texts)} THEN '{truth}'" for truth, texts in enumerate(BOOLEAN_TEXTS)
    ]
    last = f"WHEN {text} NOT {one_of(MISSING_TEXTS)} THEN {text} END"
    return f"{line_break}    ".join(["CAST(CASE", *cases, f"{last} AS {words.double})"])


def _category(effect: Effect, words: Dialect, line_break: str) -> str:
    """The weight of the level, of other or of missing, by the text of the value.

    Databases write the number 1 as 1, 1.0 or 1.00, as the type of the column has it. So zeros at
    the end of decimals are cut where a level is a number, except from texts that are levels.
    """
    column = words.identifier(effect.column)
    text = f"CAST({column} AS {words.varchar})"
    levels = {level: w for level, w in effect.levels if words.can_hold(level)}
    told = {level: w for level, w in levels.items() if w != effect.other}
    value, uncut = text, {}
    if any(re.fullmatch(_PLAIN_NUMBER, level) for level in told):
        value = f"REGEXP_REPLACE({text}, {words.text(_END_ZEROS)}, {words.text(_GROUPS)})"
        uncut = {level: w for level, w in levels.items() if re.fullmatch(END_ZEROS, level)}
        told = {level: w for level, w in told.items() if level not in uncut}
    among = _when(value, told, words.number(effect.other), words, line_break)
    among = _when(text, uncut, among, words, line_break)
    if effect.missing == effect.other:
        return among  # NULL equals no level
    absent = ", ".join(words.text(t) for t in MISSING_TEXTS if t not in levels)
    missing = f"{column} IS NULL OR {text} IN ({absent})"
    return f"CASE WHEN {missing} THEN {words.number(effect.missing)} ELSE {among} END"


def _when(
    value: str, weights: Mapping[str, float], other: str, words: Dialect, line_break: str
) -> str:
    if not weights:
        return other
    cases = [f"WHEN {words.text(text)} THEN {words.number(w)}" for text, w in weights.items()]
    parts = [f"CASE {value}", *cases, f"ELSE {other} END"]
    line = " ".join(parts)
    return line if len(line) <= 90 else f"{line_break}    ".join(parts)


def _uplift(knots: list[tuple[float, float]], score: str, words: Dialect) -> str:
    """Straight lines between knots, constant outside."""
    number = words.number
    cases = [f"WHEN {score} <= {number(knots[0][0])} THEN {number(knots[0][1])}"]
    for (left, low), (right, high) in pairwise(knots):
        line = number(low)
        if high != low:
            # The run over the width, since the slope of a narrow step may be too large a number.
            share = f"(({score} - {number(left)}) / {number(right - left)})"
            line = f"{number(low)} + {number(high - low)} * {share}"
        cases.append(f"WHEN {score} <= {number(right)} THEN {line}")
    lines = f"{_BREAK}  ".join(["CASE", *cases, f"ELSE {number(knots[-1][1])}"])
    return f"CAST({lines}{_BREAK}END AS {words.double})"


def _double(value: float, words: Dialect) -> str:
    return f"CAST({words.number(value)} AS {words.double})"


def _select(columns: Iterable[str], source: str) -> str:
    return "SELECT\n  " + ",\n  ".join(columns) + f"\nFROM {source}"


def _table(table: str | Sequence[str], words: Dialect) -> str:
    names = table.split(".") if isinstance(table, str) else list(table)
    if not names:
        raise ValueError("table should be a name, got none. Pass table='customers', for example.")
    return ".".join(words.identifier(name) for name in names)


def _kept(keep: str | Sequence[str]) -> list[str] | None:
    """Names of columns; None for all."""
    if isinstance(keep, str):
        if keep != "all":
            raise ValueError(
                f"keep should be 'all' or a list of column names, got {keep!r}. "
                f"Pass [{keep!r}] for one column."
            )
        return None
    return list(keep)


def _check_cases(columns: Iterable[str], words: Dialect) -> None:
    """No two columns are one to the database."""
    seen: dict[str, str] = {}
    for name in columns:
        same = seen.setdefault(name.casefold() if words.folds_case else name, name)
        if same != name:
            raise ValueError(
                f"the columns should differ in more than case, which {words.name} does not tell "
                f"apart, got {same!r} and {name!r}. Rename one of them and fit again."
            )


def _check_names(present: Iterable[str], *added: str) -> None:
    """What is added has a name of its own; databases may not tell cases apart."""
    taken = {name.casefold() for name in present}
    for name in added:
        if name.casefold() in taken:
            raise ValueError(
                f"the columns of the result should have different names, got {name!r} twice. "
                f"Set score_name or uplift_name, or keep fewer columns."
            )
        taken.add(name.casefold())
