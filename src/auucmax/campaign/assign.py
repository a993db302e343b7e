"""Which person gets which arm: by a keyed hash of the id, so that it can be computed again.

The *place* of a unit (a person, or a group whose people stay together) is the number that the first
13 hexadecimal digits of md5("KEY:UNIT") write, between 0 and 2^52. Each arm owns a range of places
as long as its share. So an arm depends on the key and the id alone: neither the order of the rows
nor other people change it, and a later wave or another machine finds the same arm. Without the key
nobody can predict it.

*Permuted blocks*, on request, make shares exact within strata. The units of a stratum are ordered
by their places and cut into blocks that hold every arm as often as its share says; the slots of a
block are shuffled by md5("KEY/STRATUM/BLOCK/SLOT"), so that every unit, also one of a last block
that is not full, has each arm with the probability of its share. A later wave goes on where the
last block ended.

With a model everybody gets the chosen arm, or the control, except for a random part, who get one of
the others: from them it is later seen what the campaign gained.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._errors import InputError
from auucmax._validation import Floats, listed
from auucmax.data import Trial, check_randomisation
from auucmax.data.read_trial import id_texts
from auucmax.data.reading import table_of
from auucmax.data.roles import check_names
from auucmax.encoding.frames import as_given
from auucmax.model import UpliftModel
from auucmax.results import Decision, Numbers, Result
from auucmax.targeting.choose import choose
from auucmax.targeting.rule import without_guarantee

Places = NDArray[np.int64]
Texts = NDArray[Any]
PLACES = 16**13  #: 52 bits, which a float holds exactly
_LARGEST_BLOCK = 100  # units; shares that need larger ones hardly gain by blocks
_OWN_COLUMNS = ("arm", "propensity", "stratum", "score", "chosen", "rule")


class Balance(Result):
    """Comparison of the arms by what was known of the people, among those with one chosen arm.

    ``chosen`` is None without a model: all people. ``p_values``: of all tests, not corrected;
    ``smallest``: the smallest corrected one.
    """

    chosen: str | None
    passed: bool
    smallest: float
    p_values: Numbers


class Assignment(Result):
    """Which person gets which arm.

    Attributes
    ----------
    people : frame
        The new people in the order of their table, in a frame of the library that it came from:
        id, (group), arm, propensity (with several arms ``chance LABEL`` for each), (stratum), with
        a model score and chosen (with several arms ``uplift LABEL`` and the chosen arm), and the
        fingerprint of the rule. It is left out of JSON.
    id, groups, strata : columns.
    arms : labels, the control first.
    shares : planned shares of the arms; None with a model.
    counts : new people of each arm.
    n_people, n_units, n_before : new people, new people or groups, and people of the table who were
        assigned before and stay where they are.
    rule : fingerprint of key, arms and all else that decides.
    share, explore : the share that the model was to choose, and the part that gets another arm at
        random; None without a model.
    chosen : people for whom the model chose each arm, the control first; None without a model.
    n_explored : people who get another arm than the chosen one.
    decision : whether to treat the chosen at all, by the evidence of the model.
    balance : the arms compared; empty if nothing but ids is known, or it was not asked for.
    """

    people: Any
    id: str
    arms: tuple[str, ...]
    counts: tuple[int, ...]
    n_people: int
    n_units: int
    n_before: int
    rule: str
    groups: str | None = None
    strata: tuple[str, ...] = ()
    shares: Numbers | None = None
    share: float | None = None
    explore: float | None = None
    chosen: tuple[int, ...] | None = None
    n_explored: int | None = None
    decision: Decision | None = None
    balance: tuple[Balance, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """All numbers, without the people, as plain JSON."""
        found = super(Assignment, replace(self, people=None)).to_json()
        del found["people"]
        return found


@dataclass(frozen=True)
class _Rule:
    """Everything that an arm depends on, beside the people."""

    key: str
    arms: Mapping[str, Fraction]  # the control first; even ones with a model
    groups: str | None
    strata: tuple[str, ...] = ()
    blocked: bool = False
    explore: float | None = None  # with a model only

    @property
    def fingerprint(self) -> str:
        """What a list shows of its rule, so that nobody is added to it by another one."""
        arms = [[name, str(share)] for name, share in self.arms.items()]
        what = [self.key, arms, self.groups, list(self.strata), self.blocked, self.explore]
        text = json.dumps(["auucmax assign 1", *what], ensure_ascii=False)
        # A letter first: no reader takes it for a number.
        return f"r{hashlib.sha256(text.encode()).hexdigest()[:15]}"

    @property
    def labels(self) -> Texts:
        return np.array(list(self.arms), dtype=object)

    @property
    def columns(self) -> list[str]:
        """Names of the columns with the probabilities of the arms, the control left out."""
        _, *arms = self.arms
        return ["propensity"] if len(arms) == 1 else [f"chance {name}" for name in arms]

    @property
    def slots(self) -> list[int]:
        """How many slots of a block each arm has: the smallest whole numbers in these shares."""
        size = math.lcm(*(share.denominator for share in self.arms.values()))
        if size > _LARGEST_BLOCK:
            raise InputError(
                "arms", f"shares that a block of at most {_LARGEST_BLOCK} people can have exactly",
                ", ".join(f"{a}={s}" for a, s in self.arms.items()),
                "Round them, to tenths say, or leave out strata and blocks.",
            )  # fmt: skip
        return [int(share * size) for share in self.arms.values()]


def assign(
    people: Any,
    *,
    id: str,
    key: str,
    arms: Mapping[str, float] | str | None = None,
    groups: str | None = None,
    strata: Sequence[str] = (),
    blocked: bool = False,
    model: UpliftModel | None = None,
    share: float | None = None,
    explore: float = 0.1,
    before: Any = None,
    check: bool = True,
) -> Assignment:
    """Assign people to arms by a keyed hash of their ids.

    Parameters
    ----------
    people : frame
        One row for each person, of pandas or polars, an Arrow table or a DuckDB relation.
    id : str
        Column of ids, each once.
    key : str
        Any text. Keep it as you would a password, and use a new one for each trial.
    arms : mapping or str, optional
        Shares by label, the control first, which add up to 1: {"control": .5, "mail": .5},
        "control=.5,mail=.5" or "control=1/3,mail=1/3,phone=1/3".
    groups : str, optional
        Column of the household or shop whose people get one arm; by default that of the model.
    strata : list of str
        Columns within whose values shares are exact except for a last block.
    blocked : bool, default False
        Shares are exact without strata, too.
    model : UpliftModel, optional
        Instead of ``arms``: at most ``share`` of the people are chosen for an arm, those who gain
        most (with one arm, those with the highest scores). Everybody gets the chosen arm, or the
        control, with probability 1 - ``explore``, and each other arm with an even part of
        ``explore``. The people of a group are chosen by their mean score or uplift.
    before : frame, optional
        The list so far. Its people stay where they are and are not in the result. It must have the
        same key, arms, groups, strata and explore.
    check : bool, default True
        Compare the arms in all other columns of the table.

    Examples
    --------
    >>> people = pd.DataFrame({"customer": [f"c{k}" for k in range(1000)]})
    >>> found = assign(people, id="customer", arms="control=.2,mail=.8", key="spring 2026")
    >>> found.counts
    (188, 812)
    >>> found.people.head(2)
      customer      arm  propensity              rule
    0       c0  control         0.8  rf8cea25ff89f110
    1       c1     mail         0.8  rf8cea25ff89f110
    """
    table, people, strata = people, table_of(people), tuple(strata)
    if not isinstance(key, str) or not key.strip():
        raise InputError("key", "a text", repr(key), "Invent one, and keep it.")
    if model is None:
        if arms is None or share is not None:
            got = "no arms" if arms is None else "a share without a model"
            raise InputError(
                "arms", "given, or a model with the share to treat", got,
                "Write them as control=.5,mail=.5, for example.",
            )  # fmt: skip
        rule = _Rule(key, parse_arms(arms), groups, strata, blocked or bool(strata))
        slots = rule.slots if rule.blocked else []
    else:
        if arms is not None or strata or blocked:
            raise InputError(
                "arms", "left out with a model, like strata and blocks", "both", "Leave them out."
            )
        if share is None or not 0 < share < 1:
            raise InputError("share", "the part to treat", repr(share), "Write 0.3 for 30%.")
        if not (isinstance(explore, float) and 0 < explore <= 0.5):
            raise InputError(
                "explore", "above 0 and at most .5", repr(explore),
                "Without exploration nobody can see later what the treatment did. 0.1 is usual.",
            )  # fmt: skip
        if groups is None and model.roles.groups in {*people.columns} - {id}:
            groups = model.roles.groups  # who was treated together stays together
        even = Fraction(1, len(model.roles.arms))
        rule = _Rule(key, dict.fromkeys(model.roles.arms, even), groups, explore=explore)
    named = [id] if groups is None else [id, groups]
    check_names(people, [*named, *strata])
    if len(people) == 0:
        raise InputError("people", "a table with people", "none", "Check its source.")
    if taken := {*named} & {*_OWN_COLUMNS, *rule.columns}:
        raise InputError(
            "id", "a name that is not a column of the list, like that of groups", listed(taken),
            "Rename the column.",
        )  # fmt: skip
    ids = id_texts(people[id], f"the id {id!r}")
    if n_twice := len(ids) - len(pd.unique(ids)):
        raise InputError(
            f"the id {id!r}", "different in every row", f"{n_twice:,} rows with the id of another",
            "Keep one row of each person, or name the column that identifies people.",
        )  # fmt: skip
    new = np.ones(len(people), dtype=bool)
    if before is not None:
        before = _checked_list(before, named, rule)
        new = ~np.isin(ids, id_texts(before[id], f"the id {id!r} of the list"))
    frame, units = people[new], ids[new]
    found = pd.DataFrame({name: frame[name].to_numpy() for name in named})
    if groups is not None:
        units = id_texts(frame[groups], f"the group {groups!r}")
    codes, names = pd.factorize(units)
    names = np.asarray(names, dtype=object)
    places = hash_places(f"{key}:", names)
    labels, n_arms = rule.labels, len(rule.arms) - 1
    chance = np.tile(np.array([float(own) for own in rule.arms.values()]), (len(names), 1))
    more: dict[str, Any] = {}
    own_choice = decision = None
    if model is not None and len(frame):
        # Of the list that `target` makes of them; nothing is guaranteed if some are left untreated.
        decision = model.target(frame, share=share).decision
        if explore or groups is not None:
            decision = without_guarantee(decision)
        own_choice, values = _by_model(rule, model, frame, codes, names, float(share or 0))
        chance[:] = explore / n_arms
        chance[np.arange(len(names)), own_choice] = 1 - explore
        more = {"score": values[:, 0], "chosen": (own_choice == 1)[codes]}
        if n_arms > 1:
            more = {f"uplift {name}": own for name, own in zip(labels[1:], values.T, strict=True)}
            more["chosen"] = labels[own_choice][codes]
    if rule.blocked and len(frame):
        arm, more = _in_blocks(rule, slots, frame, codes, names, places, before, id)
    elif own_choice is not None and n_arms == 1:
        arm = (places < np.rint(chance[:, 1] * PLACES)).astype(np.intp)
    else:
        arm = (places[:, None] >= np.rint(np.cumsum(chance, axis=1)[:, :-1] * PLACES)).sum(axis=1)
    columns = {"arm": labels[arm][codes]}
    columns |= dict(zip(rule.columns, chance[codes, 1:].T, strict=True)) | more
    if before is not None and groups is not None and len(frame):
        columns = _as_their_groups(columns, before, groups, units)
    found = found.assign(**columns, rule=rule.fingerprint)
    given, chosen = found["arm"], None
    if own_choice is not None:
        chosen = found["chosen"]
        if n_arms == 1:
            chosen = chosen.map({False: labels[0], True: labels[1]})
    return Assignment(
        people=as_given(found, table, named),
        id=id,
        arms=tuple(rule.arms),
        counts=_counts(given, labels),
        n_people=len(found),
        n_units=len(names),
        n_before=int((~new).sum()),
        rule=rule.fingerprint,
        groups=groups,
        strata=strata,
        shares=None if model else tuple(float(own) for own in rule.arms.values()),
        share=share,
        explore=rule.explore,
        chosen=None if chosen is None else _counts(chosen, labels),
        n_explored=None if chosen is None else int((given != chosen).sum()),
        decision=decision,
        balance=_balance(found, frame.drop(columns=named), chosen, rule) if check else (),
    )  # fmt: skip


def _counts(column: pd.Series, labels: Texts) -> tuple[int, ...]:
    return tuple(column.value_counts().reindex(labels, fill_value=0).tolist())


def parse_arms(arms: Mapping[str, Any] | str) -> dict[str, Fraction]:
    """Arms and their shares, exactly; the first is the control.

    >>> parse_arms("control=.5, mail=.5")
    {'control': Fraction(1, 2), 'mail': Fraction(1, 2)}
    >>> parse_arms({"a": 1 / 3, "b": 2 / 3})["b"]
    Fraction(2, 3)
    """

    def wrong(expected: str, received: str) -> InputError:
        hint = 'Write "control=.5,mail=.5", the control first, decimals with a point.'
        return InputError("arms", expected, received, hint)

    if isinstance(arms, str):
        parts = [part.rpartition("=") for part in arms.split(",")]
        pairs: list[tuple[Any, Any]] = [(name.strip(), share.strip()) for name, _, share in parts]
    else:
        pairs = list(arms.items())
    found: dict[str, Fraction] = {}
    for name, share in pairs:
        try:
            exact = Fraction(str(share)).limit_denominator(10**6)
        except (ValueError, ZeroDivisionError):
            exact = Fraction(0)
        # Thirds that were written with six digits or more are thirds.
        near = exact.limit_denominator(1000)
        if not isinstance(name, str) or not name or name in found or not 0 < exact < 1:
            raise wrong("different names, each with a share between 0 and 1", f"{name!r}={share}")
        found[name] = near if abs(near - exact) < 1e-6 else exact
    if len(found) < 2 or sum(found.values()) != 1:
        raise wrong("two or more shares that add up to 1", f"{float(sum(found.values())):g}")
    return found


def hash_places(prefix: str, texts: Texts) -> Places:
    """(n,) the place of each text after the prefix, a whole number below 2^52.

    >>> hash_places("spring:", np.array(["c0"], dtype=object)).tolist()
    [4203959017895322]
    """
    hashes = (hashlib.md5(f"{prefix}{text}".encode(), usedforsecurity=False) for text in texts)
    # 7 bytes, of which the last 4 bits are left out.
    found = (int.from_bytes(own.digest()[:7], "big") >> 4 for own in hashes)
    return np.fromiter(found, dtype=np.int64, count=len(texts))


def _checked_list(before: Any, named: list[str], rule: _Rule) -> pd.DataFrame:
    before = table_of(before)
    check_names(before, [*named, "arm", "rule"])
    rules = before["rule"].astype(str).unique().tolist()
    if rules != [rule.fingerprint]:
        raise InputError(
            "before", "a list of the same key, arms, groups, strata and exploration",
            f"the rule {listed(rules)}, not {rule.fingerprint!r}",
            "Pass what it was made with, or write another list.",
        )  # fmt: skip
    check_names(before, [*rule.columns, *(["stratum"] if rule.blocked else [])])
    return before


def _by_model(
    rule: _Rule, model: UpliftModel, frame: pd.DataFrame, codes: Places, names: Texts, share: float
) -> tuple[NDArray[np.intp], Floats]:
    """(units,) the chosen arm, those with equal values at random, and the values of the people."""
    sizes, scores = np.bincount(codes), model.scores(frame)
    n_arms = scores.shape[1]
    values = scores if n_arms == 1 else model.uplift_of(scores)
    sums = np.column_stack([np.bincount(codes, own) for own in values.T])
    # By other places than those that decide the arms: of equal units, the chosen would be the
    # treated, whatever the propensities.
    ties = hash_places(f"{rule.key}/tie/", names)
    chosen = np.zeros(len(names), dtype=np.intp)
    if n_arms == 1:
        order = np.lexsort((names.astype(str), ties, -sums[:, 0] / sizes))
        # A unit is chosen if most of it lies within the share.
        chosen[order] = np.cumsum(sizes[order]) - sizes[order] / 2 < share * len(codes)
    else:
        order = np.lexsort((names.astype(str), ties))
        cost = np.repeat(sizes[order, None], n_arms, axis=1)
        chosen[order] = choose(sums[order], cost=cost, budget=round(share * len(codes))).arm + 1
    return chosen, values


def _in_blocks(
    rule: _Rule,
    slots: list[int],
    frame: pd.DataFrame,
    codes: Places,
    names: Texts,
    places: Places,
    before: pd.DataFrame | None,
    id: str,
) -> tuple[NDArray[np.intp], dict[str, Any]]:
    """Arms (units,) by permuted blocks within strata, which go on where the list so far ended."""
    texts = np.full(len(frame), "", dtype=object)
    for k, name in enumerate(rule.strata):
        own = _stratum_texts(frame[name])
        texts = own if k == 0 else texts + "|" + own
    stratum = texts[np.unique(codes, return_index=True)[1]]
    if (stratum[codes] != texts).any():
        n_apart = len(np.unique(codes[stratum[codes] != texts]))
        raise InputError(
            "strata", f"the same for all people of one {rule.groups!r}", f"{n_apart:,} in several",
            f"Leave out strata that differ within {rule.groups!r}.",
        )  # fmt: skip
    n_strata = len({*stratum.tolist()})
    if n_strata > max(10, len(stratum) / 2):
        raise InputError(
            "strata", "columns with several people for each value",
            f"{n_strata:,} strata of {len(stratum):,}", "Cut numbers into ranges.",
        )  # fmt: skip
    taken, free = dict[str, int](), np.ones(len(names), dtype=bool)
    if before is not None:
        kept = before[rule.groups or id]
        taken = kept.groupby(_stratum_texts(before["stratum"])).nunique().to_dict()
        # Groups of the list have their arm, and take no other slot.
        free = ~np.isin(names, id_texts(kept, "the units of the list"))
    size = sum(slots)
    own, found = np.flatnonzero(free), np.zeros(len(names), dtype=np.intp)
    in_stratum, strata = pd.factorize(stratum[own])
    order = np.lexsort((names[own].astype(str), places[own], in_stratum))
    starts = np.cumsum(np.bincount(in_stratum)) - np.bincount(in_stratum)
    number = np.empty(len(own), dtype=np.int64)
    number[order] = np.arange(len(own)) - starts[in_stratum[order]]
    number += np.array([taken.get(str(name), 0) for name in strata], dtype=np.int64)[in_stratum]
    block, slot = np.divmod(number, size)
    blocks, block_of = np.unique(np.stack([in_stratum, block]), axis=1, return_inverse=True)
    slot_texts = [f"{strata[s]}/{b}/{k}" for s, b in blocks.T.tolist() for k in range(size)]
    shuffled = hash_places(f"{rule.key}/", np.array(slot_texts, dtype=object)).reshape(-1, size)
    turn = np.argsort(np.argsort(shuffled, axis=1), axis=1)[block_of.ravel(), slot]
    found[own] = np.searchsorted(np.cumsum(slots), turn, side="right")
    return found, {"stratum": stratum[codes]}


def _stratum_texts(column: pd.Series) -> Texts:
    """The same texts whatever a file made of the values; "" for what is missing."""
    texts = np.full(len(column), "", dtype=object)
    known = column.notna().to_numpy(dtype=bool)
    own = pd.Series(id_texts(column[known], f"the stratum {column.name!r}", blanks=True), dtype=str)
    texts[known] = own.replace({"True": "true", "False": "false"}).to_numpy(dtype=object)
    return texts


def _as_their_groups(
    columns: dict[str, Any], before: pd.DataFrame, groups: str, units: Texts
) -> dict[str, Any]:
    """New people of a group in the list have its arm, propensity and choice."""
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
    found: pd.DataFrame, known: pd.DataFrame, chosen: pd.Series | None, rule: _Rule
) -> tuple[Balance, ...]:
    """The check of all people, or with a model of those with each chosen arm."""
    parts = [None] if chosen is None else rule.labels.tolist()
    balance = []
    for part in parts:
        own = np.ones(len(found), dtype=bool) if part is None else (chosen == part).to_numpy()
        arm = found["arm"].to_numpy(dtype=object)[own]
        if known.shape[1] == 0 or len({*arm}) < len(rule.arms):
            continue
        shares = found.loc[own, rule.columns].iloc[0].tolist()
        trial = Trial(
            known[own].reset_index(drop=True), np.zeros(len(arm)), arm, control=rule.labels[0]
        )
        report = check_randomisation(
            trial, groups=None if rule.groups is None else found[rule.groups].to_numpy()[own],
            expected_share=dict(zip(rule.arms, (1 - sum(shares), *shares), strict=True)),
        )  # fmt: skip
        balance.append(
            Balance(
                chosen=part,
                passed=report.ok,
                smallest=min((test.adjusted_p_value for test in report.tests), default=1.0),
                p_values=tuple(test.p_value for test in report.tests),
            )
        )
    return tuple(balance)
