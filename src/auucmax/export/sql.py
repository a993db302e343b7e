"""Export the scores of a model as a single SELECT.

The query has steps, nested SELECTs: effects of columns, hinges and sums of trees, the score of each
member, their mean, the uplift, the arm. So each of these is computed once, however often the next
step looks at it. All arms are in the same steps.

Everything that comes from a model or a user goes through ``identifier``, ``text`` or ``number``
of its :class:`Dialect`, or into a comment as JSON; nothing else is put between the words of a
query.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from auucmax._errors import InputError
from auucmax.encoding.columns import WAVE_DIGITS
from auucmax.encoding.kinds import BOOLEAN_TEXTS, END_ZEROS, MISSING_TEXTS
from auucmax.export.dialects import Dialect, dialect_named
from auucmax.export.raw_formula import (
    Effect,
    Knots,
    RawArm,
    RawModel,
    Wave,
    check_names,
    nested,
    raw_model,
)

_BREAK = "\n    "
# Prefix of column names between two steps, which nobody would choose: if the table had a column of
# such a name, DuckDB would silently read that one.
_HIDDEN = "auucmax_7c1e94d2_"
# exp of more leaves the range of doubles, which PostgreSQL treats as an error.
_STEEPEST = "500e0"
_TOGETHER = 50  # terms of a sum without brackets: databases allow some hundred
_IN_A_ROW = 16  # cases of a CASE
_END_ZEROS = "|".join(f"^{number}$" for number in END_ZEROS.split("|"))
_PLAIN_NUMBER = r"-?[0-9]+([.][0-9]*[1-9])?"
#: What columns of each kind may be in every database, for the comment.
_TYPES = {
    "number": "a number",
    "code": "a whole number",
    "category": "text, or boolean for no/yes and true/false",
    "boolean": "boolean, or 0 and 1",
    "date": "date or timestamp",
}


def to_sql(
    model: Any,
    *,
    table: str | Sequence[str],
    dialect: str = "duckdb",
    keep: str | Sequence[str] = (),
    cost: Any = None,
    value: float | None = None,
) -> str:
    """One SELECT that scores the rows of a table as the model does.

    It adds the columns ``score`` and ``uplift`` (with several arms ``score LABEL`` and
    ``uplift LABEL`` for each), and ``arm``: that of the highest value * uplift - cost, or the
    control if none is above 0.

    A missing value (NULL, a NaN, in a category also the empty text, NA and the like) counts as in
    training. A text, or a code, that was not in training counts as *other*, or as no level if there
    is no other: a query cannot raise an error for it as the encoder does.

    Parameters
    ----------
    model : ``UpliftModel``.
    table : name of the table. Dots separate a schema from it; in a sequence of names they do not.
    dialect : "duckdb", "postgres", "bigquery", "snowflake" or "spark" (also "databricks").
    keep : columns of the table that are in the result, an id for example; "all": every column.
    cost, value : cost of treating a person with each arm (by label, in their order, or one number
        for all), and value of one unit of the outcome. By default arms are compared by uplift.

    Examples
    --------
    >>> from auucmax import fit, make_trial
    >>> query = to_sql(fit(make_trial(2_000, random_state=0), "tm"), table="people", keep=["id"])
    >>> print(query.splitlines()[0])
    -- Input columns and their types:
    """
    words = dialect_named(dialect)
    raw = raw_model(model, cost, value)
    read = [name for name, _ in raw.columns]
    kept = None if keep == "all" else keep
    if isinstance(kept, str):
        raise InputError(
            "keep", "'all' or a list of column names", repr(keep), f"Pass [{keep!r}] for one."
        )
    check_names(raw.names, read if kept is None else kept)
    if words.folds_case:
        check_names(dict.fromkeys(read), ())
    prefix = _HIDDEN
    while any(name.casefold().startswith(prefix) for name in (*read, *(kept or ()))):
        prefix += "_"

    row = words.identifier(f"{prefix}row")
    passed = ["*"] if kept is None else [words.identifier(name) for name in kept]
    result = passed
    whole_row = kept is None and not words.but
    if whole_row:  # the row as a whole is one value, opened last
        passed = [row]
        result = [f"({row}).*"]
    source = f"{_table(table, words)} AS {row}"
    arms = [_steps(arm, words, f"{prefix}{k}") for k, arm in enumerate(raw.arms)]
    made: list[str] = []
    for step in zip(*arms, strict=True):
        found = {name: own for of_arm in step for name, own in of_arm.items()}
        if found:
            before = [] if passed == ["*"] else made
            query = _select([*passed, *before, *_as(found)], source)
            source = f"(\n{query}{words.fence}\n) AS {words.identifier(f'{prefix}step')}"
            made += found
    if passed == ["*"]:
        result = [f"* {words.but} ({', '.join(made)})"]
    uplifts: list[str] = []
    for arm, (*_, score, uplift) in zip(raw.arms, arms, strict=True):
        shown = zip([*score, *uplift], arm.names, strict=True)
        result = [*result, *(f"{own} AS {words.identifier(name)}" for own, name in shown)]
        uplifts += uplift
    best = _best_arm(raw, uplifts, words)
    # Nothing is indented afterwards: a line break may be part of a name or a level.
    query = _select([*result, *_as({words.identifier("arm"): best})], source)
    return f"{_comment(raw, words)}{query}\n"


def _comment(raw: RawModel, words: Dialect) -> str:
    """Comment with input columns, types and the choice of arm, as escaped JSON strings."""
    lines = ["Input columns and their types:"]
    for name, kind in raw.columns:
        text = ", or text as 2024-01-31" if kind == "date" and words.reads_dates else ""
        lines.append(f"  {json.dumps(name)}: {_TYPES[kind]}{text}")
    net = "uplift"
    if any(arm.cost for arm in raw.arms):
        costs = ", ".join(f"{json.dumps(arm.label)} {arm.cost:g}" for arm in raw.arms)
        net = f"{raw.value:g} * uplift - cost (cost: {costs})"
    lines.append(f"arm: the one with the highest {net}; the control if none is above 0.")
    return "".join(f"-- {line}\n" for line in lines).replace("${", "$ {")


def _steps(arm: RawArm, words: Dialect, prefix: str) -> list[dict[str, str]]:
    """The columns that each step adds for one arm: expressions by name."""
    formula, number = arm.score, words.number

    def name(stem: str) -> str:
        return words.identifier(f"{prefix}{stem}")

    def named(stem: str, values: Iterable[str]) -> dict[str, str]:
        return {name(f"{stem}{k}"): value for k, value in enumerate(values)}

    def plain(value: float) -> str:
        return f"CAST({number(value)} AS {words.double})"

    features = [_effect(own, words) for own in formula.features]
    bends = [f"GREATEST({name(f'x{k}')} - {number(q)}, {number(0.0)})" for k, q in formula.hinges]

    def branch(feature: int, threshold: float, low: str, high: str) -> str:
        test = f"{name(f'x{feature}')} <= {number(threshold)}"
        return f"CASE WHEN {test} THEN {low} ELSE {high} END"

    trees = [_sum(nested(own, number, branch)) for own in formula.trees]
    linear: list[str] = []
    members = []
    ranks = []
    for k, member in enumerate(formula.members):
        parts = [plain(member.constant)]
        for part in member.parts:
            z = name(f"z{len(linear)}")
            effects = [_effect(own, words) for own in part.effects if not own.is_zero]
            linear.append(f"{_BREAK}+ ".join([plain(part.intercept), *effects]))
            added = [
                f"{number(weight)} * {name(f'{stem}{j}')}"
                for stem, weights in (("x", part.features), ("h", part.hinges), ("t", part.trees))
                for j, weight in enumerate(weights)
                if weight != 0
            ]
            inner = _sum([z, *added])
            if part.link == "identity":
                parts.append(f"{number(part.weight)} * (\n      {inner}\n    )")
            else:  # weight / (1 + exp(-z)), without exp of numbers that are too large for it
                parts.append(
                    f"{number(part.weight)} / (1e0 + EXP(-GREATEST(-{_STEEPEST}, "
                    f"LEAST({_STEEPEST},\n      {inner}\n    ))))"
                )
        members.append(_sum(parts))
        own = name(f"s{k}")
        ranks.append(own if member.knots is None else _lines(member.knots, own, words))
    mean = f"{_BREAK}+ ".join(ranks)
    if len(ranks) > 1:
        mean = f"({mean}) / {number(len(ranks))}"
    score = name("score")
    uplift = _lines(arm.knots, score, words)
    if arm.slope != 0:
        uplift += f" + {number(arm.slope)} * ({score} - ({number(arm.centre)}))"
    return [
        named("z", linear) | named("x", features),
        named("h", bends) | named("t", trees),
        named("s", members),
        {score: mean},
        {name("uplift"): uplift},
    ]


def _best_arm(raw: RawModel, uplifts: Sequence[str], words: Dialect) -> str:
    """Label of the arm with the highest positive value (the first of equal ones)."""
    net = [
        f"({words.number(raw.value)} * {uplift} - {words.number(arm.cost)})"
        for arm, uplift in zip(raw.arms, uplifts, strict=True)
    ]
    whens = []
    for arm, own in zip(raw.arms, net, strict=True):
        tests = [f"{own} > 0e0", *(f"{own} >= {other}" for other in net if other != own)]
        whens.append(f"WHEN {' AND '.join(tests)} THEN {words.text(arm.label)}")
    last = f"ELSE {words.text(raw.control)}"
    return f"{_BREAK}  ".join(["CASE", *whens, last]) + f"{_BREAK}END"


def _as(values: Mapping[str, str]) -> list[str]:
    return [f"{value}\n    AS {name}" for name, value in values.items()]


def _sum(terms: Sequence[str]) -> str:
    """A balanced sum with brackets, to limit the nesting depth."""
    while len(terms) > _TOGETHER:
        groups = range(0, len(terms), _TOGETHER)
        terms = [f"({f'{_BREAK}+ '.join(terms[k : k + _TOGETHER])})" for k in groups]
    return f"{_BREAK}+ ".join(terms) if terms else "0e0"


def _effect(effect: Effect | Wave, words: Dialect) -> str:
    """Effect of a raw column, never NULL."""
    column = words.identifier(effect.column)
    number = words.number
    if isinstance(effect, Wave):
        # In the order in which Python computes, so that both round the same number.
        days = words.days.format(x=column)
        turns = f"(({days}) / {number(effect.period)} + {number(effect.shift)})"
        sine = f"SIN({number(2 * math.pi)} * ({turns} - FLOOR({turns})))"
        unit = number(10.0**WAVE_DIGITS)
        return f"COALESCE(ROUND({sine} * {unit}) / {unit}, 0e0)"
    if effect.kind == "category":
        return _category(effect, words)
    if effect.kind == "code":  # by the number, whatever its type
        real = words.real.format(x=column)
        other = {number(float(level)): w for level, w in effect.levels if w != effect.other}
        among = _among(real, other, number(effect.other), words)
        if effect.missing == effect.other:
            return among  # NULL equals no number
        return f"CASE WHEN {real} IS NULL THEN {number(effect.missing)} ELSE {among} END"
    if effect.kind == "boolean":
        amount = _truth(column, words)
    else:
        amount = (words.days if effect.kind == "date" else words.real).format(x=column)
    if effect.per_unit == 0:
        return f"CASE WHEN {amount} IS NULL THEN {number(effect.when_missing)} ELSE 0e0 END"
    return f"COALESCE({number(effect.per_unit)} * {amount}, {number(effect.when_missing)})"


def _truth(column: str, words: Dialect) -> str:
    """Convert booleans, numbers or texts to 1, 0 or NULL.

    By its text, which every type has. Any other text than these is an error when the query runs:
    it is cast last, so that this does not depend on which branches a database evaluates.
    """
    text = words.as_text(column)

    def one_of(texts: Iterable[str]) -> str:
        return f"IN ({', '.join(map(words.text, texts))})"

    cases = [
        f"WHEN {text} {one_of(texts)} THEN '{truth}'" for truth, texts in enumerate(BOOLEAN_TEXTS)
    ]
    last = f"WHEN {text} NOT {one_of(MISSING_TEXTS)} THEN {text} END AS {words.double})"
    return f"{_BREAK}    ".join(["CAST(CASE", *cases, last])


def _category(effect: Effect, words: Dialect) -> str:
    """Weight of the value's level, or of other or missing values, by its text.

    Databases write the number 1 as 1, 1.0 or 1.00, as the type of the column has it. So zeros at
    the end of decimals are cut where a level is a number, except from texts that are levels.
    """
    text = words.as_text(words.identifier(effect.column))
    levels = {level: w for level, w in effect.levels if words.can_hold(level)}
    weights = {level: w for level, w in levels.items() if w != effect.other}
    value = text
    uncut: dict[str, float] = {}
    if any(re.fullmatch(_PLAIN_NUMBER, level) for level in weights):
        value = f"REGEXP_REPLACE({text}, {words.text(_END_ZEROS)}, {words.text(words.groups)})"
        uncut = {level: w for level, w in levels.items() if re.fullmatch(END_ZEROS, level)}
        weights = {level: w for level, w in weights.items() if level not in uncut}
    if effect.missing != effect.other:  # otherwise NULL, which equals no level, is right
        # No CASE around the other: DuckDB would then cut zeros anew for each level.
        absent = [text for text in MISSING_TEXTS if text not in levels]
        weights |= dict.fromkeys(absent, effect.missing)
        value = f"COALESCE({value}, {words.text(absent[0])})"
    among = _among(value, _texts(weights, words), words.number(effect.other), words)
    return _among(text, _texts(uncut, words), among, words)


def _texts(weights: Mapping[str, float], words: Dialect) -> dict[str, float]:
    return {words.text(text): weight for text, weight in weights.items()}


def _among(value: str, weights: Mapping[str, float], other: str, words: Dialect) -> str:
    """Weight of the matching literal, else ``other``."""
    if not weights:
        return other
    cases = [f"WHEN {literal} THEN {words.number(w)}" for literal, w in weights.items()]
    parts = [f"CASE {value}", *cases, f"ELSE {other} END"]
    line = " ".join(parts)
    return line if len(line) <= 90 else f"{_BREAK}    ".join(parts)


def _lines(knots: Knots, score: str, words: Dialect) -> str:
    """Piecewise linear interpolation, constant outside the knots."""
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
        """A CASE expression; many cases are split in halves so that few are evaluated."""
        if len(some) > _IN_A_ROW:
            half = len(some) // 2
            end, line = some[half]
            below, above = cases(some[:half], line), cases(some[half + 1 :], last)
            test = f"WHEN {score} <= {number(end)} THEN"
            return f"CASE {test}{_BREAK}{below}{_BREAK}ELSE{_BREAK}{above}{_BREAK}END"
        whens = [f"WHEN {score} <= {number(end)} THEN {line}" for end, line in some]
        return f"{_BREAK}  ".join(["CASE", *whens, f"ELSE {last}"]) + f"{_BREAK}END"

    return f"CAST({cases(rows, number(knots[-1][1]))} AS {words.double})"


def _select(columns: Iterable[str], source: str) -> str:
    return "SELECT\n  " + ",\n  ".join(columns) + f"\nFROM {source}"


def _table(table: str | Sequence[str], words: Dialect) -> str:
    names = table.split(".") if isinstance(table, str) else list(table)
    return ".".join(words.identifier(name) for name in names)
