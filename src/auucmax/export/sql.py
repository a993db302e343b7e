"""A score as one SELECT, for databases where the rows are.

A score that is linear in the columns is one expression. Others are made in steps, a SELECT around
the other: what columns give, hinges and sums of trees, the score of each member, their mean. So
each of these is computed once, however often the next step looks at it.

Everything that comes from a model or a user goes through ``identifier``, ``text`` or ``number``
of its :class:`Dialect`; nothing else is put between the words of a query.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from auucmax.encoding import TableEncoder
from auucmax.encoding.columns import WAVE_DIGITS
from auucmax.encoding.kinds import BOOLEAN_TEXTS, END_ZEROS, MISSING_TEXTS
from auucmax.estimators.trees import TreeScores
from auucmax.export.dialects import Dialect, dialect_named
from auucmax.export.raw_formula import (
    ArmScore,
    Effect,
    RawFormula,
    RawMember,
    RawPart,
    Wave,
    knots_of,
    raw_formula,
)

_BREAK = "\n    "
# What names of columns between two steps begin with. Where a table has a column of such a name,
# DuckDB would silently take that one: no word that a person would choose.
_HIDDEN = "auucmax_7c1e94d2_"
# exp of more leaves the range of doubles, which PostgreSQL takes for an error.
_STEEPEST = "500e0"
_TOGETHER = 50  # terms of a sum without brackets: databases allow some hundred
_IN_A_ROW = 16  # cases of a CASE
_END_ZEROS = "|".join(f"^{number}$" for number in END_ZEROS.split("|"))
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

    or the mean of the ranks of such scores, with hinges and trees: see ``raw_formula``.

    A missing value (NULL, a NaN, in a category also the empty text, NA and the like) counts as in
    training. A text, or a code, that training did not have counts as *other*, or to no level if
    there is no other: a query cannot stop for it as the encoder does.

    Parameters
    ----------
    encoder : fitted ``TableEncoder``.
    scorer : ``Formula``, ``RankMean`` or fitted estimator that is one; see ``formula_of``.
    table : name of the table. Dots separate a schema from it; a sequence of names has none.
    dialect : one of ``DIALECTS``: "duckdb", "postgres", "bigquery", "snowflake", "databricks",
        "spark", "redshift", "trino" or "mysql".
    keep : columns that the result has beside the score, an id for example; "all": every column
        (in trino and mysql only of a score that is one expression).
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
    _check_cases(_read(formula), words)
    kept = _kept(keep)
    present = _read(formula) if kept is None else kept
    _check_names(present, score_name, *([] if calibration is None else [uplift_name]))
    columns = ["*"] if kept is None else [words.identifier(name) for name in kept]
    # The table may have a column that is called as the score, too, which is not the one to read.
    is_hidden = kept is None and calibration is not None and bool(words.but)
    score = words.identifier(f"{_HIDDEN}score" if is_hidden else score_name)
    # Nothing is indented afterwards: a line break may be part of a name or a level.
    if formula.is_plain:
        (only,) = formula.members
        source = _table(table, words, _called(table, [*_read(formula), *present], words))
        query = _select([*columns, f"{_score(only, words)}\n    AS {score}"], source)
    else:
        query = _Steps(formula, words, kept, [*present, score_name]).query(table, score)
    if calibration is None:
        return query
    uplift = (
        f"{_lines(knots_of(calibration), score, words)}\n    AS {words.identifier(uplift_name)}"
    )
    outer = ["*"] if kept is None else [*columns, score]
    if is_hidden:
        outer = [f"* {words.but} ({score})", f"{score} AS {words.identifier(score_name)}"]
    return _select(
        [*outer, uplift], f"(\n{query}{words.fence}\n) AS {words.identifier(f'{_HIDDEN}scored')}"
    )


class _Source(str):
    """Another SELECT, in brackets, in the place of a table."""


def arms_to_sql(
    arms: Sequence[ArmScore],
    *,
    control: str,
    table: str | Sequence[str],
    dialect: str = "duckdb",
    keep: str | Sequence[str] = (),
    value: float = 1.0,
    arm_name: str = "arm",
) -> str:
    """One SELECT that gives the uplift of each of several arms, and the arm of each person.

    That is the arm of the highest value * uplift - cost, or the control if none is above 0. The
    columns are ``uplift LABEL`` for each arm, and ``arm_name``. Others as in :func:`to_sql`; what
    the table itself calls so decides nothing.
    """
    words = dialect_named(dialect)
    formulas = [raw_formula(arm.encoder, arm.scorer) for arm in arms]
    if not (words.but or words.has_rows or all(formula.is_plain for formula in formulas)):
        raise ValueError(
            f"several arms should have linear scores to be SQL of {words.name}, which cannot leave "
            f"columns of inner queries out of the result; got scores with trees, hinges, ranks, "
            f"dates or many levels. Export them as Python, ONNX or JSON, or for another database."
        )
    kept = _kept(keep)
    columns = [column.name for arm in arms for column in arm.encoder.columns_]
    _check_names([*columns, *(kept or [])], *(arm.uplift_name for arm in arms), arm_name)
    # Where a column cannot be left out of *, it has its last name at once; databases that lack the
    # word for it stop at a name that the table has, too.
    is_hidden = kept is not None or bool(words.but)
    scores = [f"{_HIDDEN}score{k}" if is_hidden else a.score_name for k, a in enumerate(arms)]
    found = [f"{_HIDDEN}uplift{k}" if is_hidden else a.uplift_name for k, a in enumerate(arms)]
    scored, uplifts = [words.identifier(n) for n in scores], [words.identifier(n) for n in found]
    made = [_arm_uplift(arm, score, words) for arm, score in zip(arms, scored, strict=True)]
    source = _table(_all_scored(arms, scores, table, words), words)
    inner = _select(["*", *_as(dict(zip(uplifts, made, strict=True)))], source)
    last = [words.identifier(arm.uplift_name) for arm in arms]
    shown = [f"{own} AS {name}" for own, name in zip(uplifts, last, strict=True)]
    outer = ["*"]
    if kept is not None:
        outer = [*map(words.identifier, kept), *shown]
    elif is_hidden:
        outer = [f"* {words.but} ({', '.join([*scored, *uplifts])})", *shown]
    chosen = _as({words.identifier(arm_name): _best_arm(arms, uplifts, control, value, words)})
    return _select(
        [*outer, *chosen],
        f"(\n{inner}{words.fence}\n) AS {words.identifier(f'{_HIDDEN}estimated')}",
    )


def _all_scored(
    arms: Sequence[ArmScore], names: Sequence[str], table: str | Sequence[str], words: Dialect
) -> str | Sequence[str]:
    """The table with the score of each arm: each query scores the rows of the one before."""
    source = table
    for arm, name in zip(arms, names, strict=True):
        query = to_sql(
            arm.encoder, arm.scorer, table=source, dialect=words.name, keep="all", score_name=name
        )
        source = _Source(f"(\n{query}{words.fence}\n)")
    return source


def _arm_uplift(arm: ArmScore, score: str, words: Dialect) -> str:
    tilt = f"{words.number(arm.slope)} * ({score} - {_bracketed(arm.centre, words)})"
    return f"{_lines(knots_of(arm.calibration), score, words)} + {tilt}"


def _best_arm(
    arms: Sequence[ArmScore], uplifts: Sequence[str], control: str, value: float, words: Dialect
) -> str:
    """The label of the first arm that is worth more than nothing and no less than another."""
    net = [
        f"({_bracketed(value, words)} * {uplift} - {_bracketed(arm.cost, words)})"
        for arm, uplift in zip(arms, uplifts, strict=True)
    ]
    whens = []
    for k, arm in enumerate(arms):
        tests = [f"{net[k]} > 0e0", *(f"{net[k]} >= {own}" for own in net if own != net[k])]
        whens.append(f"WHEN {' AND '.join(tests)} THEN {words.text(arm.label)}")
    return f"{_BREAK}  ".join(["CASE", *whens, f"ELSE {words.text(control)}"]) + f"{_BREAK}END"


def _bracketed(value: float, words: Dialect) -> str:
    """A number that may be negative, for the right side of an operator."""
    return f"({words.number(value)})"


class _Steps:
    """A score in several SELECTs, each around the one before; ``kept`` is None for all columns."""

    def __init__(
        self, formula: RawFormula, words: Dialect, kept: list[str] | None, taken: Iterable[str]
    ) -> None:
        self.formula, self.words, self.kept, self.taken = formula, words, kept, list(taken)
        self.prefix = _HIDDEN
        while any(name.casefold().startswith(self.prefix) for name in self.taken):
            self.prefix += "_"

    def query(self, table: str | Sequence[str], score: str) -> str:
        """The whole of it."""
        words, row = self.words, self.name("row")
        source = _table(table, words, _called(table, [*_read(self.formula), *self.taken], words))
        passed = ["*"] if self.kept is None else [words.identifier(name) for name in self.kept]
        result = passed
        if self.kept is None and not words.but:
            if not words.has_rows:
                raise ValueError(
                    f"keep should name columns for {words.name}, which cannot leave columns of "
                    f"inner queries out of the result, got 'all'. Name those to keep."
                )
            # The row as a whole is one value, opened last.
            source, passed, result = _table(table, words, row), [row], [f"({row}).*"]
        made: list[str] = []
        for step in filter(None, (self.of_columns(), self.bends_and_trees(), self.scores())):
            before = [] if passed == ["*"] else made
            query = _select([*passed, *before, *_as(step)], source)
            source = f"(\n{query}{words.fence}\n) AS {self.name('step')}"
            made += step
        if passed == ["*"]:
            result = [f"* {words.but} ({', '.join(made)})"]
        return _select([*result, f"{self.mean()}\n    AS {score}"], source)

    def of_columns(self) -> dict[str, str]:
        """What is made of raw columns: the linear predictor of each part, and features."""
        parts = [part for member in self.formula.members for part in member.parts]
        linear = [_predictor(part, self.words, _BREAK) for part in parts]
        features = [_effect(e, self.words, _BREAK) for e in self.formula.features]
        return self.named("z", linear) | self.named("x", features)

    def name(self, stem: str) -> str:
        return self.words.identifier(f"{self.prefix}{stem}")

    def named(self, stem: str, values: Iterable[str]) -> dict[str, str]:
        """Expressions by new names."""
        return {self.name(f"{stem}{k}"): value for k, value in enumerate(values)}

    def bends_and_trees(self) -> dict[str, str]:
        number, zero = self.words.number, self.words.number(0.0)
        bends = [
            f"GREATEST({self.name(f'x{k}')} - {number(q)}, {zero})" for k, q in self.formula.hinges
        ]
        sums = [_sum([*self._trees(trees)]) for trees in self.formula.trees]
        return self.named("h", bends) | self.named("t", sums)

    def _trees(self, trees: TreeScores) -> Iterable[str]:
        """Each tree as a CASE in which cases are nested."""
        number, found = self.words.number, {}
        for node in range(len(trees.feature) - 1, -1, -1):  # children come after their parents
            left, right = int(trees.left[node]), int(trees.right[node])
            found[node] = number(float(trees.value[node]))
            if left != node:
                feature = self.name(f"x{int(trees.feature[node])}")
                test = f"{feature} <= {number(float(trees.threshold[node]))}"
                found[node] = f"CASE WHEN {test} THEN {found.pop(left)} ELSE {found.pop(right)} END"
        return [found[int(root)] for root in trees.roots]

    def scores(self) -> dict[str, str]:
        """The score of each member."""
        found, k = [], 0
        for member in self.formula.members:
            terms = [_double(member.constant, self.words)]
            for part in member.parts:
                terms.append(_linked(part, self._inner(part, k), self.words))
                k += 1
            found.append(_sum(terms))
        return self.named("s", found)

    def _inner(self, part: RawPart, k: int) -> str:
        """intercept + effects, which are a column, + features + hinges + trees."""
        more = [(f"x{j}", w) for j, w in enumerate(part.features)]
        more += [(f"h{j}", w) for j, w in enumerate(part.hinges)]
        more += [(f"t{j}", w) for j, w in enumerate(part.trees)]
        number = self.words.number
        added = [f"{number(w)} * {self.name(stem)}" for stem, w in more if w != 0]
        return _sum([self.name(f"z{k}"), *added])

    def mean(self) -> str:
        """The mean of the scores of the members, each as a rank if it has knots."""
        members, found = self.formula.members, []
        for k, member in enumerate(members):
            own = self.name(f"s{k}")
            found.append(own if member.knots is None else _lines(member.knots, own, self.words))
        total = f"{_BREAK}+ ".join(found)
        return total if len(found) == 1 else f"({total}) / {self.words.number(len(found))}"


def _as(values: Mapping[str, str]) -> list[str]:
    return [f"{value}\n    AS {name}" for name, value in values.items()]


def _sum(terms: Sequence[str]) -> str:
    """A sum with brackets, so that no expression is nested as deep as it has terms."""
    while len(terms) > _TOGETHER:
        groups = range(0, len(terms), _TOGETHER)
        terms = [f"({f'{_BREAK}+ '.join(terms[k : k + _TOGETHER])})" for k in groups]
    return f"{_BREAK}+ ".join(terms) if terms else "0e0"


def _score(member: RawMember, words: Dialect) -> str:
    """The whole score; a double from its first term on, so that no sum is a decimal."""
    if member.constant == 0 and len(member.parts) == 1:
        (only,) = member.parts
        if only.weight == 1 and only.link == "identity":
            return _predictor(only, words, _BREAK)
    terms = [
        _linked(part, _predictor(part, words, f"{_BREAK}    "), words) for part in member.parts
    ]
    return f"{_BREAK}+ ".join([_double(member.constant, words), *terms])


def _predictor(part: RawPart, words: Dialect, line_break: str) -> str:
    effects = [_effect(e, words, line_break) for e in part.effects if not e.is_zero]
    return f"{line_break}+ ".join([_double(part.intercept, words), *effects])


def _linked(part: RawPart, inner: str, words: Dialect) -> str:
    """weight * link(inner)."""
    if part.link == "identity":
        return f"{words.number(part.weight)} * (\n      {inner}\n    )"
    # weight / (1 + exp(-z)), without exp of what is too large for it.
    return (
        f"{words.number(part.weight)} / (1e0 + EXP(-GREATEST(-{_STEEPEST}, LEAST({_STEEPEST},\n"
        f"      {inner}\n    ))))"
    )


def _effect(effect: Effect | Wave, words: Dialect, line_break: str) -> str:
    if isinstance(effect, Wave):
        return _wave(effect, words)
    if effect.kind == "category":
        return _category(effect, words, line_break)
    if effect.kind == "code":
        return _code(effect, words, line_break)
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


def _wave(wave: Wave, words: Dialect) -> str:
    """In the order in which Python computes, so that both round the same number."""
    days = words.days.format(x=words.identifier(wave.column))
    turns = f"(({days}) / {words.number(wave.period)} + {words.number(wave.shift)})"
    sine = f"SIN({words.number(2 * math.pi)} * ({turns} - FLOOR({turns})))"
    unit = words.number(10.0**WAVE_DIGITS)
    return f"COALESCE(ROUND({sine} * {unit}) / {unit}, 0e0)"


def _truth(column: str, words: Dialect, line_break: str) -> str:
    """1 or 0, NULL where it is missing, of booleans, of numbers and of texts.

    By its text, which every type has. Any other text than these is an error when the query runs:
    it is cast last, so that this does not depend on which branches a database evaluates.
    """
    if words.truth:
        return words.truth.format(x=column)
    text = words.as_text.format(x=column)

    def one_of(texts: Iterable[str]) -> str:
        return f"IN ({', '.join(map(words.text, texts))})"

    cases = [
        f"WHEN {text} {one_of(texts)} THEN '{truth}'" for truth, texts in enumerate(BOOLEAN_TEXTS)
    ]
    last = f"WHEN {text} NOT {one_of(MISSING_TEXTS)} THEN {text} END"
    before, after = words.strictly.split("{x}")
    return f"{line_break}    ".join([f"{before}CASE", *cases, f"{last}{after}"])


def _category(effect: Effect, words: Dialect, line_break: str) -> str:
    """The weight of the level, of other or of missing, by the text of the value.

    Databases write the number 1 as 1, 1.0 or 1.00, as the type of the column has it. So zeros at
    the end of decimals are cut where a level is a number, except from texts that are levels.
    """
    text = words.as_text.format(x=words.identifier(effect.column))
    levels = {level: w for level, w in effect.levels if words.can_hold(level)}
    told = {level: w for level, w in levels.items() if w != effect.other}
    value, uncut = text, {}
    if any(re.fullmatch(_PLAIN_NUMBER, level) for level in told):
        value = words.without_zeros(text, _END_ZEROS)
        uncut = {level: w for level, w in levels.items() if re.fullmatch(END_ZEROS, level)}
        told = {level: w for level, w in told.items() if level not in uncut}
    if effect.missing != effect.other:  # otherwise NULL, which equals no level, is right
        # No CASE around the other: DuckDB would then cut zeros anew for each level.
        absent = [text for text in MISSING_TEXTS if text not in levels]
        told |= dict.fromkeys(absent, effect.missing)
        value = f"COALESCE({value}, {words.text(absent[0])})"
    among = _when(value, told, words.number(effect.other), words, line_break)
    return _when(text, uncut, among, words, line_break)


def _code(effect: Effect, words: Dialect, line_break: str) -> str:
    """The weight of the whole number, of other or of missing: by the number, whatever its type."""
    value = words.real.format(x=words.identifier(effect.column))
    told = {words.number(float(level)): w for level, w in effect.levels if w != effect.other}
    among = _among(value, told, words.number(effect.other), words, line_break)
    if effect.missing == effect.other:
        return among  # NULL equals no number
    return f"CASE WHEN {value} IS NULL THEN {words.number(effect.missing)} ELSE {among} END"


def _when(
    value: str, weights: Mapping[str, float], other: str, words: Dialect, line_break: str
) -> str:
    """The weight of a text."""
    texts = {words.text(text): weight for text, weight in weights.items()}
    return _among(value, texts, other, words, line_break)


def _among(
    value: str, weights: Mapping[str, float], other: str, words: Dialect, line_break: str
) -> str:
    """The weight of the literal that the value equals, or ``other``."""
    if not weights:
        return other
    cases = [f"WHEN {literal} THEN {words.number(w)}" for literal, w in weights.items()]
    parts = [f"CASE {value}", *cases, f"ELSE {other} END"]
    line = " ".join(parts)
    return line if len(line) <= 90 else f"{line_break}    ".join(parts)


def _lines(knots: Sequence[tuple[float, float]], score: str, words: Dialect) -> str:
    """Straight lines between knots, constant outside."""
    number = words.number
    rows = [(knots[0][0], number(knots[0][1]))]  # the end of each line, and the line
    for (left, low), (right, high) in pairwise(knots):
        line = number(low)
        if high != low:
            # The run over the width, since the slope of a narrow step may be too large a number.
            share = f"(({score} - {number(left)}) / {number(right - left)})"
            line = f"{number(low)} + {number(high - low)} * {share}"
        rows.append((right, line))

    def cases(some: Sequence[tuple[float, str]], last: str) -> str:
        """Cases one after the other; of many, those below the middle first: few are looked at."""
        if len(some) > _IN_A_ROW:
            half = len(some) // 2
            end, line = some[half]
            below, above = cases(some[:half], line), cases(some[half + 1 :], last)
            test = f"WHEN {score} <= {number(end)} THEN"
            return f"CASE {test}{_BREAK}{below}{_BREAK}ELSE{_BREAK}{above}{_BREAK}END"
        whens = [f"WHEN {score} <= {number(end)} THEN {line}" for end, line in some]
        return f"{_BREAK}  ".join(["CASE", *whens, f"ELSE {last}"]) + f"{_BREAK}END"

    return f"CAST({cases(rows, number(knots[-1][1]))} AS {words.double})"


def _double(value: float, words: Dialect) -> str:
    return f"CAST({words.number(value)} AS {words.double})"


def _select(columns: Iterable[str], source: str) -> str:
    return "SELECT\n  " + ",\n  ".join(columns) + f"\nFROM {source}"


def _table(table: str | Sequence[str], words: Dialect, called: str = "") -> str:
    """What comes after FROM; ``called``: another name for it."""
    if isinstance(table, _Source):
        return f"{table} AS {called or words.identifier(f'{_HIDDEN}scored')}"
    names = table.split(".") if isinstance(table, str) else list(table)
    if not names:
        raise ValueError("table should be a name, got none. Pass table='customers', for example.")
    found = ".".join(words.identifier(name) for name in names)
    return f"{found} AS {called}" if called else found


def _read(formula: RawFormula) -> list[str]:
    return [name for name, _ in formula.columns]


def _called(table: str | Sequence[str], columns: Iterable[str], words: Dialect) -> str:
    """Another name for a table that is called as one of its columns, where that means a row."""
    if isinstance(table, _Source) or not words.rows_first:
        return ""
    own = (table.split(".") if isinstance(table, str) else [*table] or [""])[-1].casefold()
    clashes = own in {name.casefold() for name in columns}
    return words.identifier(f"{_HIDDEN}table") if clashes else ""


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
                f"Keep fewer columns (in Python: or set score_name or uplift_name)."
            )
        taken.add(name.casefold())
