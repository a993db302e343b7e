"""Random assignment by a keyed hash of the id, so that it is reproducible.

The *place* of a unit (a person, or a group whose people stay together) is the number that the first
13 hexadecimal digits of md5("KEY:UNIT") write, between 0 and 2^52. Each arm owns a range of places
as long as its share. So an arm depends on the key and the id alone: neither the order of the rows
nor other people change it, and a later wave or another machine finds the same arm. Without the key
nobody can predict it.

*Permuted blocks*, on request, make shares exact within strata. The units of a stratum are ordered
by their places and cut into blocks that hold every arm as often as its share says; the slots of a
block are shuffled by md5("KEY/STRATUM/BLOCK/SLOT"), so that every unit, even in an incomplete last
block, has each arm with the probability of its share. A later wave continues where the last block
ended.

With a model everybody gets the chosen arm, or the control, except for a random part, who get one of
the others: they later show what the campaign gained.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Annotated, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field

from auucmax._errors import InputError
from auucmax._validation import check_level, listed
from auucmax.data.read_trial import check_names, id_texts
from auucmax.data.reading import table_of
from auucmax.encoding.frames import as_given
from auucmax.model import UpliftModel
from auucmax.results import Decision, Numbers, Result
from auucmax.targeting.choose import choose
from auucmax.targeting.rule import without_guarantee

Places = NDArray[np.int64]
Texts = NDArray[Any]
PLACES = 16**13  #: 52 bits, which a float holds exactly
_LARGEST_BLOCK = 100  # units; shares that need larger ones hardly gain by blocks


class Assignment(Result):
    """The arm of each person, with balance checks.

    Attributes
    ----------
    people : frame
        The new people in the order of their table, in a frame of the library that it came from:
        id, (group), arm, propensity (with several arms ``chance LABEL`` for each), (stratum), with
        a model score, uplift and chosen (with several arms ``uplift LABEL`` and the chosen arm),
        and the fingerprint of the rule. It is left out of JSON.
    id, groups, strata : columns.
    arms : labels, the control first.
    shares : planned shares of the arms; None with a model.
    counts : new people of each arm.
    n_people, n_units, n_before : new people, new people or groups, and people of the table who were
        assigned before and stay where they are.
    rule : fingerprint of key, arms and other settings.
    share, explore : the share that the model was to choose, and the part that gets another arm at
        random; None without a model.
    chosen : people for whom the model chose each arm, the control first; None without a model.
    n_explored : number of people who get a different arm than the chosen one.
    decision : whether to treat the chosen at all, by the evidence of the model.
    """

    people: Annotated[Any, Field(exclude=True)]
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


def assign(
    people: Any,
    *,
    id: str,
    key: str,
    arms: Mapping[str, Any] | str | None = None,
    groups: str | None = None,
    strata: Sequence[str] = (),
    blocked: bool = False,
    model: UpliftModel | None = None,
    share: float | None = None,
    explore: float = 0.1,
    before: Any = None,
) -> Assignment:
    """Assign people to arms by a keyed hash of their ids.

    Parameters
    ----------
    people : frame
        One row for each person, of pandas or polars, an Arrow table or a DuckDB relation.
    id : str
        Column of unique ids.
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
        raise InputError("key", "a text", repr(key), "Choose one, and keep it.")
    blocked = blocked or bool(strata)
    if (arms is None) == (model is None) or (share is not None if model is None else blocked):
        raise InputError(
            "arms", "given, or else a model with the share to treat and without strata and blocks",
            "neither" if arms is None and share is None else "both",
            "Write arms as control=.5,mail=.5, for example.",
        )  # fmt: skip
    if model is not None:
        check_level(share or 0, "share")
        # Without exploration nobody can see later what the treatment did.
        check_level(explore, "explore")
        if groups is None and model.roles.groups in {*people.columns} - {id}:
            groups = model.roles.groups  # who was treated together stays together
        arms = dict.fromkeys(model.roles.arms, Fraction(1, len(model.roles.arms)))
    shares = parse_arms(arms)
    labels, n_arms = np.array([*shares], dtype=object), len(shares) - 1
    part = None if model is None else explore
    # A fingerprint of all settings, so that nobody is added to a list under others. It begins with
    # a letter, so that no reader parses it as a number.
    exact = [[name, str(own)] for name, own in shares.items()]
    text = ["auucmax assign 1", key, exact, groups, list(strata), blocked, part]
    digest = hashlib.sha256(json.dumps(text, ensure_ascii=False).encode()).hexdigest()
    rule = f"r{digest[:15]}"
    chances = ["propensity"] if n_arms == 1 else [f"chance {name}" for name in labels[1:]]

    named = [id] if groups is None else [id, groups]
    check_names(people, [*named, *strata])
    ids = id_texts(people[id], f"the id {id!r}")
    if n_twice := len(ids) - len(pd.unique(ids)):
        raise InputError(
            f"the id {id!r}", "different in every row", f"{n_twice:,} rows with the id of another",
            "Keep one row of each person, or name the column that identifies people.",
        )  # fmt: skip
    is_new = np.ones(len(people), dtype=bool)
    if before is not None:
        before = table_of(before)
        check_names(before, [*named, "arm", "rule"])
        rules = before["rule"].astype(str).unique().tolist()
        if rules != [rule]:
            raise InputError(
                "before", "a list of the same key, arms, groups, strata and exploration",
                f"the rule {listed(rules)}, not {rule!r}",
                "Pass what it was made with, or write another list.",
            )  # fmt: skip
        is_new = ~pd.Index(ids).isin(id_texts(before[id], f"the id {id!r} of the list"))
    frame, units = people[is_new], ids[is_new]
    if groups is not None:
        units = id_texts(frame[groups], f"the group {groups!r}")

    # For each unit, a person or a group: its place, the probabilities of the arms, and its arm.
    codes, names = pd.factorize(units)
    places = hash_places(f"{key}:", names)
    chance = np.tile(np.array([*shares.values()], dtype=float), (len(names), 1))
    columns: dict[str, Any] = {}
    decision = None
    if model is not None and share is not None and len(frame):
        # The decision of `target`, without its guarantee, since some are left untreated.
        decision = without_guarantee(model.target(frame, share=share).decision)
        scores = model.scores(frame)
        uplift, sizes = model.uplift_of(scores), np.bincount(codes)
        ranked = scores if n_arms == 1 else uplift
        sums = np.column_stack([np.bincount(codes, own) for own in ranked.T])
        choice = np.zeros(len(names), dtype=np.intp)
        # Break ties by other hashes than those that decide the arms: otherwise, of equal units, the
        # chosen would be the treated.
        ties = names.astype(str), hash_places(f"{key}/tie/", names)
        if n_arms == 1:
            order = np.lexsort((*ties, -sums[:, 0] / sizes))
            # A unit is chosen if most of it lies within the share.
            choice[order] = np.cumsum(sizes[order]) - sizes[order] / 2 < share * len(frame)
            columns = {"score": scores[:, 0], "uplift": uplift[:, 0], "chosen": choice[codes] > 0}
        else:
            order = np.lexsort(ties)
            cost = np.repeat(sizes[order, None], n_arms, axis=1)
            choice[order] = choose(sums[order], cost=cost, budget=round(share * len(frame))).arm + 1
            columns = {f"uplift {name}": uplift[:, k] for k, name in enumerate(labels[1:])}
            columns["chosen"] = labels[choice][codes]
        chance[:] = explore / n_arms
        chance[np.arange(len(names)), choice] = 1 - explore
    if decision is not None and n_arms == 1:
        arm = (places < np.rint(chance[:, 1] * PLACES)).astype(np.intp)
    else:
        arm = (places[:, None] >= np.rint(np.cumsum(chance, axis=1)[:, :-1] * PLACES)).sum(axis=1)
    if blocked and len(frame):
        texts = _stratum_texts(frame, strata)
        stratum = texts[np.unique(codes, return_index=True)[1]]
        if n_apart := len(np.unique(codes[stratum[codes] != texts])):
            raise InputError(
                "strata", f"the same for all people of one {groups!r}", f"{n_apart:,} in several",
                f"Leave out strata that differ within {groups!r}.",
            )  # fmt: skip
        n_taken, free = dict[str, int](), np.ones(len(names), dtype=bool)
        if before is not None:
            kept = before[groups or id]
            n_taken = kept.groupby(_stratum_texts(before, ["stratum"])).nunique().to_dict()
            # Groups of the list have their arm, and take no other slot.
            free = ~pd.Index(names).isin(id_texts(kept, "the units of the list"))
        arm[free] = _in_blocks(key, shares, stratum[free], names[free], places[free], n_taken)
        columns["stratum"] = texts
    columns = {
        "arm": labels[arm][codes], **dict(zip(chances, chance[codes, 1:].T, strict=True)), **columns
    }  # fmt: skip
    if before is not None and groups is not None:
        # New people of a group in the list have its arm, propensity and choice.
        known = before.drop_duplicates(groups)
        place = pd.Index(id_texts(known[groups], f"the group {groups!r}")).get_indexer(units)
        for name in {*columns} & {"arm", "chosen", "stratum", *chances}:
            kept = known[name].to_numpy()[place]
            columns[name] = np.where(place >= 0, kept, columns[name]).astype(columns[name].dtype)
    # An id or group whose column has the name of one of these is an error here.
    found = frame[named].reset_index(drop=True).join(pd.DataFrame(columns | {"rule": rule}))

    given, chosen = found["arm"], None
    if decision is not None:
        chosen = found["chosen"]
        if n_arms == 1:
            chosen = chosen.map({False: labels[0], True: labels[1]})
    return Assignment(
        people=as_given(found, table, named),
        id=id,
        arms=tuple(labels),
        counts=tuple(int((given == label).sum()) for label in labels),
        n_people=len(found),
        n_units=len(names),
        n_before=int((~is_new).sum()),
        rule=rule,
        groups=groups,
        strata=strata,
        shares=None if model else tuple(map(float, shares.values())),
        share=share,
        explore=part,
        chosen=None if chosen is None else tuple(int((chosen == own).sum()) for own in labels),
        n_explored=None if chosen is None else int((given != chosen).sum()),
        decision=decision,
    )


def parse_arms(arms: Mapping[str, Any] | str | None) -> dict[str, Fraction]:
    """Parse arms and their exact shares; the first is the control.

    >>> parse_arms("control=.5, mail=.5")
    {'control': Fraction(1, 2), 'mail': Fraction(1, 2)}
    >>> parse_arms({"a": 1 / 3, "b": 2 / 3})["b"]
    Fraction(2, 3)
    """
    pairs: list[Any] = [*arms.items()] if isinstance(arms, Mapping) else []
    if isinstance(arms, str):
        pairs = [part.rpartition("=")[::2] for part in arms.split(",")]
    found: dict[str, Fraction] = {}
    for name, share in pairs:
        with suppress(ValueError, ZeroDivisionError):
            found[str(name).strip()] = Fraction(str(share)).limit_denominator(10**6)
    is_each = len(found) == len(pairs) > 1 and all(found) and min(found.values()) > 0
    if not is_each or sum(found.values()) != 1:
        raise InputError(
            "arms", "two or more different names, with shares above 0 that add up to 1", repr(arms),
            'Write "control=.5,mail=.5", the control first, decimals with a point.',
        )  # fmt: skip
    return found


def hash_places(prefix: str, texts: Texts) -> Places:
    """Hash each text with a prefix to a whole number below 2^52, (n,).

    >>> hash_places("spring:", np.array(["c0"], dtype=object)).tolist()
    [4203959017895322]
    """
    hashes = (hashlib.md5(f"{prefix}{text}".encode(), usedforsecurity=False) for text in texts)
    # 7 bytes, of which the last 4 bits are left out.
    found = (int.from_bytes(own.digest()[:7], "big") >> 4 for own in hashes)
    return np.fromiter(found, dtype=np.int64, count=len(texts))


def _in_blocks(
    key: str,
    shares: Mapping[str, Fraction],
    stratum: Texts,
    names: Texts,
    places: Places,
    n_taken: Mapping[str, int],
) -> NDArray[np.intp]:
    """Arms by permuted blocks within strata, which continue after earlier assignments."""
    # The smallest blocks that have these shares exactly.
    size = math.lcm(*(share.denominator for share in shares.values()))
    if size > _LARGEST_BLOCK:
        raise InputError(
            "arms", f"shares that a block of at most {_LARGEST_BLOCK} people can have exactly",
            ", ".join(f"{name}={share}" for name, share in shares.items()),
            "Round them, to tenths say, or leave out strata and blocks.",
        )  # fmt: skip
    units = pd.DataFrame({"stratum": stratum, "place": places, "name": names.astype(str)})
    number = units.sort_values(["place", "name"]).groupby("stratum").cumcount().sort_index()
    number += units["stratum"].map(n_taken).fillna(0).astype(np.int64)
    block, blocks = pd.factorize(units["stratum"] + "/" + (number // size).astype(str))
    slots = np.array([f"{own}/{k}" for own in blocks for k in range(size)], dtype=object)
    shuffled = hash_places(f"{key}/", slots).reshape(-1, size)
    turn = np.argsort(np.argsort(shuffled, axis=1), axis=1)[block, number % size]
    ends = np.cumsum([int(share * size) for share in shares.values()])
    return np.searchsorted(ends, turn, side="right")


def _stratum_texts(frame: pd.DataFrame, columns: Sequence[str]) -> Texts:
    """Stratum values as text, independent of the file format; "" where missing."""
    parts = []
    for name in columns:
        column = frame[name].reset_index(drop=True)
        known = column.dropna()
        texts = id_texts(known, f"the stratum {name!r}", blanks=True)
        own = pd.Series(texts, known.index, str).replace({"True": "true", "False": "false"})
        parts.append(own.reindex(column.index, fill_value=""))
    found = ["|".join(own) for own in zip(*parts, strict=True)] if parts else [""] * len(frame)
    return np.array(found, dtype=object)
