"""Reasons for individual scores: the raw columns that change them most.

A person is compared with a few others, spread over the ranking. One column after the other takes
the person's own value in place of the other person's; the change of the score is the contribution
of the column. It depends on the order of the columns, so contributions are averaged over an order
and its reverse, and over the others. They add up to the score minus the mean score of the others.
For a score that is a sum over columns, or over columns and pairs of columns, they are the Shapley
values: whatever comes before a column in one order comes after it in the other.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._errors import short
from auucmax._validation import Floats
from auucmax.model.uplift_model import Scorer

MOST = 3  #: columns per person
OTHERS = 8  #: people that everybody is compared with
_BATCH = 50_000  # people per batch
_SMALL = 0.05  # of the largest part: a smaller one is no reason


def others_of(scorer: Scorer, frame: pd.DataFrame) -> Floats:
    """Reference people, evenly spaced in the ranking, encoded (others, terms)."""
    encoded = np.asarray(scorer.encoder.transform(frame), dtype=np.float64)
    order = np.argsort(scorer.formula(encoded), kind="stable")
    places = (np.arange(OTHERS) + 0.5) * len(order) / OTHERS
    return encoded[order[np.unique(places.astype(np.intp))]]


def parts_of(scorer: Scorer, encoded: Floats, others: Floats) -> tuple[list[str], Floats]:
    """Raw column names, and their contributions to scores, (people, columns)."""
    blocks = _places(scorer)
    names = list(blocks)
    found = np.zeros((len(encoded), len(names)))
    for other in others:
        for order in (range(len(names)), range(len(names) - 1, -1, -1)):
            rows = np.tile(other, (len(encoded), 1))
            before = scorer.formula(rows)
            for k in order:
                rows[:, blocks[names[k]]] = encoded[:, blocks[names[k]]]
                after = scorer.formula(rows)
                found[:, k] += after - before
                before = after
    return names, found / (2 * len(others))


def reasons_of(scorer: Scorer, frame: pd.DataFrame, others: Floats) -> list[str]:
    """Columns that contribute most to each person's score, strongest first.

    ``others`` from :func:`others_of`. (+) raises the score, (-) lowers it.

    Examples
    --------
    >>> from auucmax import fit, load_hillstrom
    >>> people = load_hillstrom(encoding="raw").X
    >>> (scorer,) = fit(load_hillstrom(encoding="raw"), "tm").scorers
    >>> reasons_of(scorer, people.head(2), others_of(scorer, people))[0]
    '...'
    """
    found: list[str] = []
    for start in range(0, len(frame), _BATCH):
        some = frame.iloc[start : start + _BATCH]
        encoded = np.asarray(scorer.encoder.transform(some), dtype=np.float64)
        names, parts = parts_of(scorer, encoded, others)
        words = _in_words(scorer, some, encoded, others)
        order = np.argsort(-np.abs(parts), axis=1, kind="stable")[:, :MOST]
        size = np.abs(np.take_along_axis(parts, order, axis=1))
        least = np.maximum(_SMALL * size[:, :1], 1e-15)
        for row, (own, is_reason) in enumerate(zip(order, size > least, strict=True)):
            found.append(
                ", ".join(
                    f"{words[names[k]][row]} ({'+' if parts[row, k] > 0 else '-'})"
                    for k in own[is_reason]
                )
            )
    return found


def _places(scorer: Scorer) -> dict[str, NDArray[np.intp]]:
    """Indices of the encoded features of each raw column."""
    names = np.array([term.column for term in scorer.encoder.terms_], dtype=object)
    return {name: np.flatnonzero(names == name) for name in dict.fromkeys(names)}


def _in_words(
    scorer: Scorer, frame: pd.DataFrame, encoded: Floats, others: Floats
) -> dict[str, list[str]]:
    """Values of each person in each column, as text."""
    places, found = _places(scorer), dict[str, list[str]]()
    for column in scorer.encoder.columns_:
        if column.name not in places:
            continue
        first, values = places[column.name][0], frame[column.name]
        # The value itself of a number that hardly varies, such as 0 and 1.
        hardly = len(np.unique(others[:, first])) <= 2
        if column.has_levels or column.kind == "boolean" or hardly:
            given = [f"{value:g}" if isinstance(value, float) else value for value in values]
            words = [f"= {short(value, 60)}" for value in given]
        else:
            low, high = ("early", "late") if column.kind == "date" else ("low", "high")
            middle = column.fill or 0.0
            words = [low if number < middle else high for number in encoded[:, first]]
        found[column.name] = [
            f"{short(column.name)} {'missing' if lacks else word}"
            for lacks, word in zip(values.isna(), words, strict=True)
        ]
    return found
