"""Who goes into which arm: by a keyed hash of the id, so that everybody can compute it again.

The *place* of a unit (a person, or a household whose people stay together) is the number that the
first 13 hexadecimal digits of md5("KEY:UNIT") write, between 0 and 2^52. Arms own ranges of places
as long as their shares. So an arm depends on the key and the id alone: neither the order of the
rows nor who else is in the table changes it, and a later wave, another machine and SQL
(:func:`assignment_sql`) come to the same. Nobody who has not the key can tell an arm beforehand.

*Permuted blocks*, on request, make shares exact within strata. Units of a stratum are ordered by
their places and cut into blocks that hold every arm as often as its share says; which arm has which
slot of a block is shuffled by md5("KEY/STRATUM/BLOCK/SLOT"), so that also the units of a last block
that is not full have each arm with the chance of its share. Who is in the list then matters, and a
later wave goes on where the last block ended.

With a model, the top share is treated but for a random part of it, and a random part of the rest
is: those parts are what the next trial is made of. The chance of treatment is in the list. With a
model of several arms everybody has the arm that it chooses, or the control, but for a random part,
who get one of the others.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._shown import Shown
from auucmax._validation import (
    Bools,
    Floats,
    check_choice,
    check_level,
    listed,
    unknown_columns_message,
)
from auucmax.data import RandomisationReport, Trial, check_randomisation
from auucmax.data.databases import connect
from auucmax.encoding.frames import as_given, frame_of
from auucmax.export.dialects import Dialect, dialect_named
from auucmax.model import ArmsModel, TrialModel
from auucmax.model.rows import id_texts
from auucmax.targeting.arms import choose_arms

Places = NDArray[np.int64]
Texts = NDArray[Any]

DIGITS = 13  #: of the hash, hexadecimal: 52 bits, which a float holds exactly
PLACES = 16**DIGITS
MANY = 10_000  #: units, from which on a database is quicker
LARGEST_BLOCK = 100  #: units; shares that need larger ones hardly gain by blocks
OWN_COLUMNS = ("arm", "propensity", "stratum", "score", "chosen", "rule")
SQL_PLACES = {
    "duckdb": "CAST('0x' || substr(md5({text}), 1, 13) AS BIGINT)",
    "postgres": "CAST(CAST('x' || substr(md5({text}), 1, 13) AS bit(52)) AS bigint)",
}
_WRONG_TYPE = "ids, groups and strata should be whole numbers or texts, cast them from "
# Of these types alone values have the text that they have here: 7.0 is 7, and moments are told in
# other words. What PostgreSQL writes for a date depends on the session.
SQL_TEXTS = {
    "duckdb": "CASE WHEN regexp_full_match(typeof({x}), 'U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER"
    "|VARCHAR|UUID|DATE|ENUM.*')\n        THEN CAST({x} AS VARCHAR)\n        "
    f"ELSE error('{_WRONG_TYPE}' || typeof({{x}})) END",
    "postgres": "CASE WHEN CAST(pg_typeof({x}) AS text) IN (\n        'smallint', 'integer', "
    "'bigint', 'text', 'character varying', 'uuid') THEN CAST({x} AS VARCHAR)\n        "
    f"ELSE CAST(CAST('{_WRONG_TYPE}'\n        "
    "|| CAST(pg_typeof({x}) AS text) AS integer) AS VARCHAR) END",
}
_SLOT = "/"  # beside ":" of units: no slot of a block can be hashed as an id
_TIE = "/tie/"  # of a unit whose score is that of others
_STEP = "auucmax_"


@dataclass(frozen=True)
class Rule:
    """Everything that an arm depends on, beside the people."""

    key: str
    arms: Mapping[str, Fraction]  # the control first
    groups: str | None = None
    strata: tuple[str, ...] = ()
    blocked: bool = False
    explore: float | None = None  # with a model only

    @property
    def fingerprint(self) -> str:
        """What a list shows of its rule, so that others are not added by another one."""
        # A list shows arms, by which a short key could be guessed anyway: no slower hash is needed.
        arms = [[name, str(share)] for name, share in self.arms.items()]
        what = [self.key, arms, self.groups, list(self.strata), self.blocked, self.explore]
        text = json.dumps(["auucmax assign 1", *what], ensure_ascii=False)
        # A letter first: no reader takes it for a number.
        return f"r{hashlib.sha256(text.encode()).hexdigest()[:15]}"

    @property
    def chances(self) -> dict[str, float]:
        """Columns of the list with the chance of treatment: of one arm, or of each of several."""
        _, *arms = self.arms.items()
        if len(arms) == 1:
            return {"propensity": float(arms[0][1])}
        return {f"chance {name}": float(share) for name, share in arms}

    @property
    def ends(self) -> list[int]:
        """Where the range of places of each arm ends."""
        return [
            round(sum(list(self.arms.values())[: k + 1]) * PLACES) for k in range(len(self.arms))
        ]

    @property
    def slots(self) -> list[int]:
        """How many slots of a block each arm has; the least whole numbers in these shares."""
        size = math.lcm(*(share.denominator for share in self.arms.values()))
        if size > LARGEST_BLOCK:
            raise ValueError(
                f"arms should have shares that a block of at most {LARGEST_BLOCK} people can have "
                f"exactly, got {', '.join(f'{a}={s}' for a, s in self.arms.items())}. Round them, "
                f"to tenths say, or leave strata and blocks out."
            )
        return [int(share * size) for share in self.arms.values()]


@dataclass(frozen=True, eq=False, repr=False)
class Assignment(Shown):
    """Who is in which arm.

    Attributes
    ----------
    people : the new people in the order of their table, in a frame of the library that it came from
        (of a DuckDB relation, an Arrow table): id, (group), arm, propensity (the chance of
        treatment; with several arms ``chance LABEL`` of each), (stratum), with a model score and
        chosen (whether it chose the person; of several arms ``uplift LABEL`` of each, and the arm
        that it chose), and the fingerprint of the rule.
    n_before : how many people of the table were assigned before; they stay where they are.
    balance : by whom it compares, the check of what was known of the people beforehand; empty
        where there is nothing to compare.
    fingerprint : of key, arms and what else decides. groups : column whose people stay together.
    """

    people: Any
    n_before: int
    fingerprint: str
    arms: tuple[str, ...]
    balance: Mapping[str, RandomisationReport] = field(default_factory=dict)
    groups: str | None = None

    @property
    def counts(self) -> dict[str, int]:
        """People in each arm, the control first."""
        given = frame_of(self.people, ["arm"])["arm"]
        return {arm: int((given == arm).sum()) for arm in self.arms}

    def __str__(self) -> str:
        counts = ", ".join(f"{arm} {n:,}" for arm, n in self.counts.items())
        checks = [f"{name}: {check.verdict}" for name, check in self.balance.items()]
        return "\n".join([f"{len(self.people):,} people assigned: {counts}", *checks])

    def to_dict(self) -> dict[str, Any]:
        """All numbers but the people, as plain JSON."""
        found: dict[str, Any] = {"n_people": len(self.people), "n_before": self.n_before}
        found |= {"arms": self.counts, "rule": self.fingerprint, "groups": self.groups}
        people = frame_of(self.people)
        if "chosen" in people:
            found["n_chosen"] = int((~people["chosen"].isin([False, self.arms[0]])).sum())
        return found | {"balance": {name: own.to_dict() for name, own in self.balance.items()}}


def assign(
    people: Any,
    *,
    id: str,
    key: str,
    arms: Mapping[str, float] | str | None = None,
    groups: str | None = None,
    strata: Sequence[str] = (),
    blocked: bool = False,
    model: TrialModel | ArmsModel | None = None,
    share: float | None = None,
    explore: float = 0.1,
    before: Any = None,
    check: bool = True,
) -> Assignment:
    """Assign people to arms by a keyed hash of their ids.

    Parameters
    ----------
    people : a row for each person: a frame of pandas or polars, an Arrow table or a DuckDB
        relation; so may be ``before``.
    id : column of ids, each once.
    key : any text; keep it as you would a password, and take a new one for each trial.
    arms : shares by name, which add up to 1, the control first: {"control": .5, "mail": .5}, or
        "control=.5,mail=.5", or "control=1/3,mail=1/3,phone=1/3".
    groups : column of the household or shop whose people go into one arm; that of the model, if it
        was fitted with one that the table has.
    strata : columns within whose values shares are exact but for a last block.
    blocked : shares are exact without strata, too.
    model : in place of arms: treat the top ``share`` by its scores but for ``explore`` of them, and
        ``explore`` of the rest; both at random. Arms are those of the model. A household counts by
        the mean score of its people. A model of several arms chooses an arm for at most ``share``
        of the people; everybody gets what it chose with the chance 1 - ``explore``, and each other
        arm, or the control, with an even part of ``explore``.
    before : the list so far. Its people stay where they are, and are not in the result; it must be
        of the same key, arms, groups, strata and explore.
    check : compare the arms in all other columns of the table.

    Examples
    --------
    >>> people = pd.DataFrame({"customer": [f"c{k}" for k in range(1000)]})
    >>> found = assign(people, id="customer", arms="control=.2,mail=.8", key="spring 2026")
    >>> found.counts
    {'control': 188, 'mail': 812}
    >>> found.people.head(2)
      customer      arm  propensity              rule
    0       c0  control         0.8  rf8cea25ff89f110
    1       c1     mail         0.8  rf8cea25ff89f110
    """
    table, strata, people = people, tuple(strata), frame_of(people)
    if groups is None and model is not None and model.columns.groups in {*people.columns} - {id}:
        groups = model.columns.groups  # who was treated together stays together
    rule = _rule(key, arms, groups, strata, blocked, model, share, explore)
    _check_columns(people, id, rule)
    known = id_texts(people[id], f"the id {id!r}")
    _check_once(known, id)
    before = None if before is None else _checked_list(before, id, rule)
    new = np.ones(len(people), bool)
    if before is not None:
        new = ~np.isin(known, id_texts(before[id], f"the id {id!r} of the list"))
    found, frame = pd.DataFrame({id: people[id].to_numpy()[new]}), people[new]
    units = known[new]
    if groups is not None:
        found[groups] = frame[groups].to_numpy()
        units = id_texts(frame[groups], f"the group {groups!r}")
    if len(frame):
        columns = _arms_of(rule, frame, units, before, id, model, share)
        found = found.assign(**columns, rule=rule.fingerprint)
    else:
        found = found.assign(arm=pd.Series(dtype=object))
    balance = _balance(found, frame, rule, id) if check and len(frame) else {}
    found = as_given(found, table, [id, groups])
    return Assignment(found, int((~new).sum()), rule.fingerprint, tuple(rule.arms), balance, groups)


def parse_arms(arms: Mapping[str, Any] | str) -> dict[str, Fraction]:
    """Arms and their shares, exactly; the first is the control.

    >>> parse_arms("control=.5, mail=.5")
    {'control': Fraction(1, 2), 'mail': Fraction(1, 2)}
    >>> parse_arms({"a": 1 / 3, "b": 2 / 3})["b"]
    Fraction(2, 3)
    """
    example = 'Write "control=.5,mail=.5", the control first, decimals with a point.'
    pairs: list[tuple[str, Any]] = list(arms.items()) if isinstance(arms, Mapping) else []
    if isinstance(arms, str):
        for part in arms.split(","):
            name, equals, share = part.rpartition("=")
            if not equals:
                raise ValueError(f"arms should be names and shares, got {part!r}. {example}")
            pairs.append((name.strip(), share.strip()))
    found: dict[str, Fraction] = {}
    for name, share in pairs:
        try:
            exact = Fraction(str(share))
        except (ValueError, ZeroDivisionError):
            exact = Fraction(-1)
        if not isinstance(name, str) or not name or name in found:
            raise ValueError(f"arms should have different names, got {name!r}. {example}")
        if not 0 < exact < 1:
            raise ValueError(
                f"arms should have shares between 0 and 1, got {share!r} for {name!r}. {example}"
            )
        found[name] = exact.limit_denominator(10**6)
    if len(found) < 2:
        raise ValueError(f"arms should be at least two, got {len(found)}. {example}")
    if sum(found.values()) != 1:
        # Thirds that were written with six digits or more are thirds.
        rounded = {name: share.limit_denominator(1000) for name, share in found.items()}
        near = all(abs(rounded[name] - share) < 1e-6 for name, share in found.items())
        if not near or sum(rounded.values()) != 1:
            raise ValueError(
                f"arms should have shares that add up to 1, got {float(sum(found.values())):g}. "
                f"{example}"
            )
        found = rounded
    return found


def hash_places(texts: Texts) -> Places:
    """(n,) the place of each text, a whole number below 2^52; of many, DuckDB computes them.

    >>> hash_places(np.array(["spring:c0"], dtype=object)).tolist()
    [4203959017895322]
    """
    if len(texts) < MANY:
        return hash_places_slow(texts)
    units = pd.Series(texts, dtype=object)  # as they are: of another type they would be copied
    table = pd.DataFrame({"number": np.arange(len(texts)), "unit": units})
    place = SQL_PLACES["duckdb"].format(text="unit")
    with connect() as db:
        db.register("units", table)
        found = db.execute(f"SELECT {place} AS place FROM units ORDER BY number").fetchnumpy()
    return np.asarray(found["place"], dtype=np.int64)


def hash_places_slow(texts: Texts) -> Places:
    """The twin of :func:`hash_places`, one text after the other."""
    digits = [hashlib.md5(str(text).encode()).hexdigest()[:DIGITS] for text in texts]
    return np.array([int(own, 16) for own in digits], dtype=np.int64)


def assignment_sql(
    *,
    id: str,
    key: str,
    arms: Mapping[str, float] | str,
    table: str,
    dialect: str = "duckdb",
    groups: str | None = None,
    strata: Sequence[str] = (),
    blocked: bool = False,
) -> str:
    """The rule as SQL, "duckdb" or "postgres": a query of id, arm and chances.

    It is that of :func:`assign` without a model. Ids, groups and strata are taken as the database
    writes them as texts: whole numbers and texts are the same everywhere, and at others, as 7.0 of
    a double, the query stops. Blocks are those of a first wave: who is in the table decides. The
    query holds the key.

    Examples
    --------
    >>> query = assignment_sql(id="customer", arms="no=.5,mail=.5", key="k", table="people")
    >>> print(query[:70])
    SELECT id AS "customer", CASE WHEN place < 2251799813685248 THEN 'no'
    """
    check_choice(dialect, "dialect", SQL_PLACES)
    rule = _rule(key, arms, groups, tuple(strata), blocked, None, None, 0.1)
    words = dialect_named(dialect)
    source = ".".join(map(words.identifier, table.split(".")))
    own_id, own_unit = words.identifier(id), words.identifier(groups or id)
    unit = SQL_TEXTS[dialect].format(x=own_unit)
    place = SQL_PLACES[dialect].format(text=f"{words.text(f'{key}:')} || {unit}")
    end = ", ".join(
        f"{chance!r} AS {name if name in OWN_COLUMNS else words.identifier(name)}"
        for name, chance in rule.chances.items()
    )
    if not rule.blocked:
        # Only these two columns leave the inner query: one of the table may be called place, too.
        return (
            f"SELECT id AS {own_id}, {_case(rule, 'place', rule.ends, words)} AS arm,\n    {end}\n"
            f"FROM (SELECT {own_id} AS id,\n    {place} AS place\n    FROM {source}) AS placed"
        )
    own = [_stratum_sql(words.identifier(name), dialect) for name in rule.strata]
    stratum = " || '|' || ".join(own) or "''"
    text = f"{words.text(key + _SLOT)} || stratum || '/' || CAST(block AS VARCHAR) || '/' || slot"
    slots, size = rule.slots, sum(rule.slots)
    order = SQL_PLACES[dialect].format(text=text)
    values = ", ".join(f"('{slot}')" for slot in range(size))
    p = _STEP  # of the names of steps, none of which is to be that of the table
    while table.casefold().startswith(p):
        p += "_"
    arm = _case(rule, f"{p}slots.turn", [end + 1 for end in np.cumsum(slots).tolist()], words)
    return f"""WITH {p}units AS (SELECT DISTINCT {unit} AS unit, {stratum} AS stratum,
    {place} AS place FROM {source}),
{p}numbered AS (SELECT unit, stratum, CAST(row_number() OVER (
    PARTITION BY stratum ORDER BY place, unit) - 1 AS BIGINT) AS number FROM {p}units),
{p}dealt AS (SELECT unit, stratum, CAST((number - number % {size}) / {size} AS BIGINT) AS block,
    CAST(number % {size} AS VARCHAR) AS slot FROM {p}numbered),
{p}slots AS (SELECT stratum, block, slot, row_number() OVER (PARTITION BY stratum, block ORDER BY
    {order}) AS turn
    FROM (SELECT DISTINCT stratum, block FROM {p}dealt) AS blocks
    CROSS JOIN (VALUES {values}) AS all_slots(slot))
SELECT {p}people.{own_id}, {arm} AS arm,
    {end}
FROM {source} AS {p}people JOIN {p}dealt ON {p}dealt.unit = CAST({p}people.{own_unit} AS VARCHAR)
JOIN {p}slots ON {p}slots.stratum = {p}dealt.stratum AND {p}slots.block = {p}dealt.block
    AND {p}slots.slot = {p}dealt.slot"""


def _stratum_sql(column: str, dialect: str) -> str:
    spelt = "WHEN 'True' THEN 'true' WHEN 'False' THEN 'false' WHEN 'true' THEN 'true'"
    return (
        f"CASE CAST({column} AS VARCHAR) {spelt} WHEN 'false' THEN 'false' "
        f"ELSE COALESCE({SQL_TEXTS[dialect].format(x=column)}, '') END"
    )


def _case(rule: Rule, number: str, ends: Sequence[int], words: Dialect) -> str:
    *first, last = map(words.text, rule.arms)
    cases = [f"WHEN {number} < {end} THEN {arm}" for arm, end in zip(first, ends, strict=False)]
    # Somebody without an id has no place, and no arm.
    return f"CASE {' '.join(cases)} WHEN {number} IS NOT NULL THEN {last} END"


def _rule(
    key: str,
    arms: Mapping[str, float] | str | None,
    groups: str | None,
    strata: tuple[str, ...],
    blocked: bool,
    model: TrialModel | ArmsModel | None,
    share: float | None,
    explore: float,
) -> Rule:
    """What was asked for, checked."""
    if not isinstance(key, str) or not key.strip():
        raise ValueError(f"key should be a text, got {key!r}. Invent one, and keep it.")
    if model is None:
        if arms is None or share is not None:
            wrong = "got no arms" if arms is None else "got a share without a model"
            raise ValueError(
                f"arms should be given, or a model with the share to treat; {wrong}. Pass "
                f"arms='control=.5,mail=.5', for example."
            )
        rule = Rule(key, parse_arms(arms), groups, strata, blocked or bool(strata))
        if rule.blocked:
            rule.slots  # noqa: B018 (shares that blocks cannot have are told here)
        return rule
    if arms is not None or strata or blocked:
        raise ValueError(
            "arms, strata and blocks should be left out with a model, which has its own arms and "
            "chooses by its scores; got both. Leave them out."
        )
    if share is None:
        raise ValueError("share should say which part is treated, got none. Pass share=0.3, say.")
    check_level(share, "share")
    if not (isinstance(explore, float) and 0 < explore <= 0.5):
        raise ValueError(
            f"explore should be a share above 0, at most .5, got {explore!r}: without it nobody "
            f"can tell later what the treatment did. 0.1 is usual."
        )
    treated = model.labels if isinstance(model, ArmsModel) else [model.columns.treated]
    even = Fraction(1, 1 + len(treated))  # ranges of places are each person's own
    own = dict.fromkeys([model.columns.control, *treated], even)
    return Rule(key, own, groups, explore=explore)


def _check_columns(people: pd.DataFrame, id: str, rule: Rule) -> None:
    wanted = [id, *([] if rule.groups is None else [rule.groups]), *rule.strata]
    if unknown := [name for name in wanted if name not in people.columns]:
        raise ValueError(unknown_columns_message("the table", unknown, list(people.columns)))
    if len(people) == 0:
        raise ValueError("the table should have people, got none. Check its source.")
    own = (*OWN_COLUMNS, *rule.chances)
    if taken := [name for name in (id, rule.groups) if name in own]:
        raise ValueError(
            f"ids and groups should have other names than the list's own columns, got "
            f"{listed(taken)}. Rename the column."
        )


def _check_once(ids: Texts, name: str) -> None:
    twice = pd.Series(ids).duplicated()
    if n := int(twice.sum()):
        raise ValueError(
            f"each person should be in the table once, got {n:,} rows more, such as "
            f"{ids[int(np.argmax(twice))]!r} in {name!r}. Keep one row of each, or name the column "
            f"that tells people apart."
        )


def _checked_list(before: pd.DataFrame, id: str, rule: Rule) -> pd.DataFrame:
    before = frame_of(before)
    named = [id, *([] if rule.groups is None else [rule.groups])]
    _check_listed([*named, "arm", "rule"], before)
    rules = before["rule"].astype(str).unique().tolist()
    if rules != [rule.fingerprint]:
        raise ValueError(
            f"the list so far should be of the same key, arms, groups, strata and exploration, got "
            f"one of the rule {listed(rules)} for {rule.fingerprint!r}. Pass what it was made "
            f"with, or write another list."
        )
    _check_listed([*rule.chances, *(["stratum"] if rule.blocked else [])], before)
    return before


def _check_listed(names: list[str], before: pd.DataFrame) -> None:
    if unknown := [name for name in names if name not in before.columns]:
        raise ValueError(unknown_columns_message("the list so far", unknown, list(before.columns)))


def _arms_of(
    rule: Rule,
    frame: pd.DataFrame,
    units: Texts,
    before: pd.DataFrame | None,
    id: str,
    model: TrialModel | ArmsModel | None,
    share: float | None,
) -> dict[str, Any]:
    """The columns of the list for new people, by their units."""
    codes, names = pd.factorize(units)
    names = np.asarray(names, dtype=object)
    places = hash_places(_joined(f"{rule.key}:", names))
    if isinstance(model, ArmsModel) and share is not None:
        columns = _explored_arms(rule, model.uplift(frame), codes, places, names, share)
    elif model is not None and not isinstance(model, ArmsModel) and share is not None:
        columns = _explored(rule, model.predict(frame), codes, places, names, share)
    elif rule.blocked:
        columns = _in_blocks(rule, frame, codes, places, names, before, id)
    else:
        arm = np.searchsorted(rule.ends, places, side="right")
        columns = {"arm": _labels(rule)[arm][codes], **rule.chances}
    if before is not None and rule.groups is not None:
        columns = _as_their_households(columns, before, rule.groups, units)
    return columns


def _labels(rule: Rule) -> Texts:
    return np.array(list(rule.arms), dtype=object)


def _joined(prefix: str, texts: Texts) -> Texts:
    return np.asarray(prefix + pd.Series(texts, dtype=object).astype(str), dtype=object)


def _explored(
    rule: Rule, score: Floats, codes: Places, places: Places, names: Texts, share: float
) -> dict[str, Any]:
    """The top share by the mean score of each unit; of equal scores, at random."""
    explore = float(rule.explore or 0)
    sizes = np.bincount(codes)
    mean = np.bincount(codes, score) / sizes
    # By other places than those that decide who is treated: of equal scores, the chosen would be
    # the treated, whatever the chances that are recorded.
    ties = hash_places(_joined(rule.key + _TIE, names))
    order = np.lexsort((names.astype(str), ties, -mean))
    chosen = np.zeros(len(names), bool)
    # A unit is chosen if most of it lies within the share.
    chosen[order] = np.cumsum(sizes[order]) - sizes[order] / 2 < share * len(codes)
    chance = np.where(chosen, 1 - explore, explore)
    treated = places < np.rint(chance * PLACES)
    return {
        "arm": _labels(rule)[treated.astype(int)][codes],
        "propensity": chance[codes],
        "score": score,
        "chosen": chosen[codes],
    }


def _explored_arms(
    rule: Rule, uplift: Floats, codes: Places, places: Places, names: Texts, share: float
) -> dict[str, Any]:
    """The best arm for those who gain most, by the mean uplifts of each unit; of equal ones, at
    random. ``uplift`` (n, K)."""
    explore, n_arms = float(rule.explore or 0), uplift.shape[1]
    sizes = np.bincount(codes)
    sums = np.column_stack([np.bincount(codes, own) for own in uplift.T])
    # The first of equal ones is taken: whose hash is smallest, whatever the order of the rows.
    order = np.lexsort((names.astype(str), hash_places(_joined(rule.key + _TIE, names))))
    cost = np.repeat(sizes[order, None], n_arms, axis=1)
    found = choose_arms(sums[order], cost=cost, budget=round(share * len(codes)))
    chosen = np.zeros(len(names), dtype=np.intp)
    chosen[order] = found.arm + 1
    chance = np.full((len(names), 1 + n_arms), explore / n_arms)
    chance[np.arange(len(names)), chosen] = 1 - explore
    ends = np.rint(np.cumsum(chance, axis=1)[:, :-1] * PLACES)
    arm = (places[:, None] >= ends).sum(axis=1)
    labels = _labels(rule)
    found_columns = {"arm": labels[arm][codes]}
    found_columns |= {f"chance {name}": chance[codes, k + 1] for k, name in enumerate(labels[1:])}
    found_columns |= {f"uplift {name}": uplift[:, k] for k, name in enumerate(labels[1:])}
    return found_columns | {"chosen": labels[chosen][codes]}


def _in_blocks(
    rule: Rule,
    frame: pd.DataFrame,
    codes: Places,
    places: Places,
    names: Texts,
    before: pd.DataFrame | None,
    id: str,
) -> dict[str, Any]:
    """Permuted blocks within strata, which go on where the list so far ended."""
    stratum = _strata(rule, frame, codes)
    taken, free = dict[str, int](), np.ones(len(names), bool)
    if before is not None:
        kept = pd.DataFrame({"stratum": _stratum_texts(before["stratum"])})
        kept["unit"] = before[rule.groups or id].to_numpy()
        taken = kept.groupby("stratum")["unit"].nunique().to_dict()
        # Households of the list have their arm, and take no other slot.
        free = ~np.isin(names, id_texts(kept["unit"], "the units of the list"))
    arm = np.zeros(len(names), dtype=np.int64)
    arm[free] = _block_arms(rule, stratum[free], places[free], names[free], taken)
    columns = {"arm": _labels(rule)[arm][codes], **rule.chances}
    return columns | {"stratum": stratum[codes]}


def _stratum_texts(column: pd.Series) -> Texts:
    """The same texts whatever a file or a database made of the values; "" for what is missing."""
    texts = np.full(len(column), "", dtype=object)
    there = column.notna().to_numpy(dtype=bool)
    named = id_texts(column[there], f"the stratum {column.name!r}", blanks=True)
    found = pd.Series(named, dtype=object)
    texts[there] = found.replace({"True": "true", "False": "false"}).to_numpy()
    return texts


def _strata(rule: Rule, frame: pd.DataFrame, codes: Places) -> Texts:
    """The stratum of each unit, as a text."""
    texts = np.full(len(frame), "", dtype=object)
    for k, name in enumerate(rule.strata):
        own = _stratum_texts(frame[name])
        texts = own if k == 0 else texts + "|" + own
    first = np.zeros(codes.max() + 1, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    stratum = texts[first]
    if (differ := stratum[codes] != texts).any():
        group = frame[rule.groups].iloc[int(np.argmax(differ))]
        raise ValueError(
            f"people of one {rule.groups!r} should be in one stratum, for they go into one arm; "
            f"{group!r} is in several. Leave out strata that differ within {rule.groups!r}."
        )
    n_strata = len(set(stratum.tolist()))
    if n_strata > max(10, len(stratum) / 2):
        raise ValueError(
            f"strata should have several people each, got {n_strata:,} strata of "
            f"{len(stratum):,}. Name columns of few values, or cut numbers into ranges."
        )
    return stratum


def _block_arms(
    rule: Rule, stratum: Texts, places: Places, names: Texts, old: Mapping[str, int]
) -> Places:
    """(units,) the arm of each unit: 0 is the control."""
    slots, size = rule.slots, sum(rule.slots)
    codes, strata = pd.factorize(stratum)
    order = np.lexsort((names.astype(str), places, codes))
    starts = np.cumsum(np.bincount(codes)) - np.bincount(codes)
    number = np.empty(len(codes), dtype=np.int64)
    number[order] = np.arange(len(codes)) - starts[codes[order]]
    number += np.array([old.get(str(name), 0) for name in strata], dtype=np.int64)[codes]
    block, slot = np.divmod(number, size)
    pairs, pair = np.unique(np.stack([codes, block]), axis=1, return_inverse=True)
    begins = pd.Series(strata)[pairs[0]].astype(str) + "/" + pd.Series(pairs[1].astype(str)).array
    texts = np.repeat(begins.to_numpy(dtype=object), size) + np.tile(
        np.array([f"/{k}" for k in range(size)], dtype=object), len(begins)
    )
    shuffled = hash_places(_joined(rule.key + _SLOT, texts)).reshape(-1, size)
    turn = np.argsort(np.argsort(shuffled, axis=1), axis=1)[pair.ravel(), slot]
    return np.searchsorted(np.cumsum(slots), turn, side="right")


def _as_their_households(
    columns: dict[str, Any], before: pd.DataFrame, groups: str, units: Texts
) -> dict[str, Any]:
    """New people of a household that is in the list have its arm, chance and choice."""
    known = before.assign(**{groups: id_texts(before[groups], f"the group {groups!r}")})
    known = known.drop_duplicates(groups).set_index(groups)
    place = known.index.get_indexer(pd.Index(units))
    result = {}
    for name, own in columns.items():
        values = np.broadcast_to(np.asarray(own), (len(units),)).copy()
        if name in known and name != "score" and not name.startswith("uplift "):
            values[place >= 0] = known[name].to_numpy()[place[place >= 0]]
        result[name] = values
    return result


def _balance(
    found: pd.DataFrame, frame: pd.DataFrame, rule: Rule, id: str
) -> dict[str, RandomisationReport]:
    """The check of all people, or with a model of those it chose and of the others."""
    parts: dict[str, Bools] = {"everybody": np.ones(len(found), bool)}
    if "chosen" in found:
        chosen = found["chosen"].to_numpy()
        parts = {"those the model chose": chosen == True, "the others": chosen == False}  # noqa: E712
        if len(rule.arms) > 2:
            parts = {f"those to get {name!r}": chosen == name for name in rule.arms}
    known = frame.drop(columns=[id, *([] if rule.groups is None else [rule.groups])])
    reports = {}
    for name, own in parts.items():
        arm = found["arm"].to_numpy(dtype=object)[own]
        if known.shape[1] == 0 or len(set(arm.tolist())) < len(rule.arms):
            continue
        trial = Trial(
            known[own].reset_index(drop=True),
            np.zeros(len(arm)),
            arm,
            control=next(iter(rule.arms)),
        )
        groups = None if rule.groups is None else found[rule.groups].to_numpy()[own]
        shares = _expected(rule, found[own])
        reports[name] = check_randomisation(trial, groups=groups, expected_share=shares)
    return reports


def _expected(rule: Rule, found: pd.DataFrame) -> dict[str, float]:
    """The shares of the arms that were planned for people of one chance."""
    if rule.explore is None:
        return {name: float(share) for name, share in rule.arms.items()}
    chances = [float(found[name].iloc[0]) for name in rule.chances]
    return dict(zip(rule.arms, (1 - sum(chances), *chances), strict=True))
