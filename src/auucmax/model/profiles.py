"""Describe rankings: who is at the top, what drives the score, and reasons for single people.

For reasons a person is compared with a few others, spread over the ranking. One column after the
other takes the person's own value in place of the other person's; the change of the score is the
contribution of the column. It depends on the order of the columns, so contributions are averaged
over an order and its reverse, and over the others. They add up to the score minus the mean score of
the others. For a score that is a sum over columns, or over columns and pairs of columns, they are
the Shapley values: whatever comes before a column in one order comes after it in the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._errors import short
from auucmax._validation import Floats
from auucmax.data.covariates import Binned, Feature, encode
from auucmax.model.uplift_model import Scorer
from auucmax.results import LEAST_ROWS, Driver, Drivers, People, Profile, Term, plain

TOPS = tuple(k / 10 for k in range(1, 10))  #: shares whose top is described
MOST_COLUMNS = 8  #: of a profile
MOST_DRIVERS = 25
MOST_REASONS = 3  #: columns per person
OTHERS = 8  #: people that everybody is compared with for reasons
_BATCH = 50_000  # people per batch
_SMALL = 0.05  # of the largest part: a smaller one is no reason


def describe_top(columns: Sequence[Binned], score: Floats) -> tuple[People, ...]:
    """Distribution of each column in the top and the rest, at shares of 10% to 90%.

    >>> import pandas as pd
    >>> from auucmax.data.covariates import binned
    >>> frame = pd.DataFrame({"age": np.arange(200), "home": ["yes", "no"] * 100})
    >>> half = describe_top(binned(frame, 2), np.arange(200.0))[4]
    >>> half.share, [(one.bins, one.inside) for one in half.columns]
    (0.5, [(('up to 100', 'over 100'), (None, 0.99)), (('yes', 'no'), (0.5, 0.5))])
    """
    kept = _with_enough(columns)
    return tuple(_compare(kept, top_part(score, share), share, None) for share in TOPS)


def describe_arms(
    columns: Sequence[Binned], given: NDArray[np.intp], labels: Sequence[str], share: float
) -> tuple[People, ...]:
    """Profiles of those who get each arm; ``given`` (n,) is 0 for no arm.

    Arms that fewer than 20 people get, or all but fewer than 20, are left out.
    """
    kept, found = _with_enough(columns), []
    for number, label in enumerate(labels, start=1):
        own = given == number
        if LEAST_ROWS <= own.sum() <= len(own) - LEAST_ROWS:
            found.append(_compare(kept, own.astype(np.float64), share, label))
    return tuple(found)


def _with_enough(columns: Sequence[Binned]) -> list[Binned]:
    """Columns with at least 20 people in each bin."""
    found = (column.with_least(LEAST_ROWS) for column in columns)
    return [column for column in found if column is not None]


def _compare(columns: Sequence[Binned], inside: Floats, share: float, arm: str | None) -> People:
    """Compare a (fractional) group (n,) with the others, largest differences first."""
    found = []
    for column in columns:
        own = column.counts(inside)
        counts = np.array([own, column.counts() - own])
        # Shares among people with a value; NaN for a bin of fewer than 20.
        known = np.where(counts >= LEAST_ROWS - 1e-6, counts, np.nan)
        parts = known / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
        distance = float(np.abs(np.subtract(*np.nan_to_num(parts))).sum() / 2)
        found.append(
            Profile(
                name=column.name,
                bins=column.names,
                inside=tuple(plain(parts[0])),
                outside=tuple(plain(parts[1])),
                distance=distance,
            )
        )
    found.sort(key=lambda one: -one.distance)
    return People(share=share, n_columns=len(found), columns=tuple(found[:MOST_COLUMNS]), arm=arm)


def top_part(score: Floats, share: float) -> Floats:
    """Fraction of each row in the top share, (n,); ties at the cut are split.

    >>> top_part(np.array([1.0, 3.0, 2.0, 2.0]), 0.5).tolist()
    [0.0, 1.0, 0.5, 0.5]
    """
    level, size = np.unique(score, return_inverse=True, return_counts=True)[1:]
    n_above = len(score) - np.cumsum(size)
    return np.asarray(np.clip((share * len(score) - n_above) / size, 0, 1)[level])


def describe_drivers(
    features: pd.DataFrame, score: Floats, share: float, linear: tuple[Term, ...] | None = None
) -> Drivers:
    """Correlation of the score with columns and categories, strongest first.

    ``correlation`` is that of the ranks of the score with the column: ranks of a number, 0 or 1 of
    a category. ``top`` and ``rest`` are means in the top-scored share and in the rest (of a
    category the share of people who have it), ``difference`` is that of the two in standard
    deviations. Means of dates are days since 1970. Missing values are left out.

    >>> frame = pd.DataFrame({"age": [20, 30, 40, 50] * 10, "home": ["yes", "no"] * 20})
    >>> found = describe_drivers(frame, np.array([1.0, 2.0, 3.0, 4.0] * 10), 0.5)
    >>> first = found.drivers[0]
    >>> first.name, round(first.correlation, 6), first.top, first.rest
    ('age', 1.0, 45.0, 25.0)
    """
    encoded, _ = encode(features)
    rank, on_top = pd.Series(score).rank().to_numpy(), top_part(score, share)
    found, n_columns = [], 0
    for feature in encoded:
        values = feature.numbers(slice(None))
        known = ~np.isnan(values)
        inside = on_top[known]
        columns = [values[known]]
        if feature.levels:
            columns = [(values[known] == k).astype(np.float64) for k in range(len(feature.levels))]
        n_columns += len(columns)
        for k, column in enumerate(columns):
            common = np.median(column)  # a value that most people have is the median
            n_apart = np.count_nonzero(column != common)
            n_common = len(column) - n_apart if feature.levels else n_apart
            if min(n_apart, n_common) < LEAST_ROWS:  # it would be about these people
                continue
            top, rest = (_mean(column, part, feature) for part in (inside, 1 - inside))
            scale = float(column.std())
            ranks = column if feature.levels else pd.Series(column).rank().to_numpy()
            with np.errstate(invalid="ignore"):  # a constant score
                correlation = np.corrcoef(ranks, rank[known])[0, 1]
            found.append(
                Driver(
                    name=short(feature.name),
                    category=short(feature.levels[k]) if feature.levels else None,
                    correlation=plain(correlation),
                    top=top,
                    rest=rest,
                    difference=None
                    if top is None or rest is None or not scale
                    else (top - rest) / scale,
                    is_date=feature.kind == "date",
                )
            )
    found.sort(key=lambda one: -abs(one.correlation or 0.0))
    return Drivers(
        share=share,
        drivers=tuple(found[:MOST_DRIVERS]),
        n_columns=n_columns,
        linear=linear,
    )


def _mean(values: Floats, part: Floats, feature: Feature) -> float | None:
    """Mean over a group; None if it has fewer than 20 people."""
    about = part @ values if feature.levels else part.sum()
    if about < LEAST_ROWS - 1e-6:
        return None
    return float(np.average(values, weights=part))


def linear_terms(coef: Floats, names: Sequence[str], deviation: Floats) -> tuple[Term, ...]:
    """Terms of a linear score by coefficient times standard deviation, largest first.

    ``names`` and ``deviation`` (p,) are those of the encoded columns that ``coef`` (p,) multiplies.

    >>> linear_terms(np.array([2.0, 0.5]), ["a", "b"], np.array([0.5, 4.0]))[0]
    Term(name='b', coefficient=0.5, weight=2.0)
    """
    weight = coef * deviation
    # Two categories of one column have equal weights: rounding must not decide their order.
    size = np.array([float(f"{abs(w):.9g}") for w in weight.tolist()])
    order = np.argsort(-size, kind="stable")[:MOST_DRIVERS]
    return tuple(
        Term(name=short(names[j]), coefficient=float(coef[j]), weight=float(weight[j]))
        for j in order
    )


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
        order = np.argsort(-np.abs(parts), axis=1, kind="stable")[:, :MOST_REASONS]
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
