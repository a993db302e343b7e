"""Who they are: the top of a ranking, or those who get an arm, against the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Floats
from auucmax.data.binning import Binned
from auucmax.data.few import LEAST_ROWS, rounded, step_of
from auucmax.model.judging import top_part

MOST_COLUMNS = 8  #: of the top against the rest that are kept


def describe_people(columns: Sequence[Binned], score: Floats, *, share: float) -> dict[str, Any]:
    """Of each column, which parts of the top-scored share and of the rest are in which bin.

    The columns that differ most are kept. Bins of fewer than 20 people are not told (None), and
    the others are parts of those who are told, rounded (:mod:`auucmax.data.few`).

    >>> import pandas as pd
    >>> from auucmax.data.binning import binned
    >>> frame = pd.DataFrame({"age": np.arange(200), "home": ["yes", "no"] * 100})
    >>> found = describe_people(binned(frame, 2), np.arange(200.0), share=0.5)
    >>> [(one["bins"], one["top"].tolist()) for one in found["columns"]]
    [(['up to 100', 'over 100'], [nan, 1.0]), (['yes', 'no'], [0.5, 0.5])]
    """
    found = compared(columns, top_part(score, share))
    return {"share": share, "n_columns": len(found), "columns": found[:MOST_COLUMNS]}


def describe_arms(
    columns: Sequence[Binned], given: NDArray[np.intp], labels: Sequence[str]
) -> list[dict[str, Any]]:
    """The same of those who get each arm, against all others: ``given`` (n,) is 0 for no arm.

    Those who get an arm that is told of are among the others of the next, so numbers of two arms
    can be subtracted: what is left is nobody, or 20 people. Hence arms that fewer than 20 people
    get, or all but fewer than 20, are left out, and smaller ones until that goes for those who get
    none that is told of; and in a bin of a column are 20 people of each of these parts, or nobody.
    """
    part = _told_parts(given)
    kept = [own for column in columns if (own := _in_parts(column, part)) is not None]
    found = []
    for number, label in enumerate(labels, start=1):
        own = part == number
        if own.any() and kept:
            told = compared(kept, own.astype(np.float64))
            found.append({"arm": label, "n_columns": len(told), "columns": told[:MOST_COLUMNS]})
    return found


def _told_parts(given: NDArray[np.intp]) -> NDArray[np.intp]:
    """(n,) the arm of those who get one that is told of; 0 of all others."""
    size = np.bincount(given, minlength=1)
    told = (size >= LEAST_ROWS) & (size <= len(given) - LEAST_ROWS)
    told[0] = False
    while told.any() and 0 < size[~told].sum() < LEAST_ROWS:
        told[np.flatnonzero(told)[size[told].argmin()]] = False
    return np.where(told[given], given, 0)


def _in_parts(column: Binned, part: NDArray[np.intp]) -> Binned | None:
    """A column whose bins have 20 people of each part, or nobody; None if that leaves one bin."""
    own, known = column.with_least(LEAST_ROWS), column.code >= 0
    while own is not None and len(own.names) > 1:
        size = int(part.max(initial=0)) + 1, len(own.names)
        cell = part[known] * size[1] + own.code[known]
        counts = np.bincount(cell, minlength=size[0] * size[1]).reshape(size)
        few = ((counts > 0) & (counts < LEAST_ROWS)).any(axis=0)
        if not few.any():
            return own
        # Levels are sorted by their people: rarer ones become one until it is large enough.
        left = size[1] - 2
        if own.ordered:
            people = counts.sum(axis=0).astype(np.float64)
            worst = int(np.where(few, people, np.inf).argmin())
            around = np.concatenate([[np.inf], people, [np.inf]])
            left = worst if around[worst + 2] < around[worst] else worst - 1
        own = own.merged(left)
    return None


def compared(columns: Sequence[Binned], weight: Floats) -> list[dict[str, Any]]:
    """Bins of some people, by the ``weight`` (n,) of each, and of the others; most unlike first."""
    found: list[dict[str, Any]] = []
    for column in columns:
        own = column.with_least(LEAST_ROWS)
        if own is None:
            continue
        top, rest = _shares(own.counts(weight)), _shares(own.counts(1 - weight))
        bins = {"name": own.name, "bins": list(own.names), "top": top, "rest": rest}
        distance = float(np.abs(np.nan_to_num(top) - np.nan_to_num(rest)).sum() / 2)
        found.append(bins | {"distance": distance})
    return sorted(found, key=lambda one: -one["distance"])


def _shares(counts: Floats) -> Floats:
    """Parts of some people in each bin; bins of fewer than 20 are not told, nor counted.

    Fractions of all who are told would tell how many these are, and so the others: hence rounded.
    """
    told = np.where(counts >= LEAST_ROWS - 1e-6, counts, np.nan)
    total = max(float(np.nansum(told)), 1.0)
    return rounded(told / total, step_of(total))
