"""Slow reference versions of the encoder, written directly from the definitions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from math import floor, log, pi, sin
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

from auucmax._validation import Floats
from auucmax.encoding.columns import _CLEARLY, _SPREADS, CYCLES, SHIFTS, WAVE_DIGITS, Means, Term
from auucmax.encoding.encoder import TableEncoder
from auucmax.encoding.kinds import TRUTHS, counted_as, level_text


def truth_slow(value: Any) -> float | None:
    """Slow twin of ``truths_of``: one value as 0, 1 or None."""
    if not isinstance(value, str):
        return float(value)
    text = counted_as(value, TRUTHS)
    return None if text is None else float(TRUTHS.index(text) % 2)


def encode_slow(frame: pd.DataFrame, encoder: TableEncoder) -> Floats:
    """Slow twin of ``transform``: one row and term at a time."""
    columns = {column.name: column for column in encoder.columns_}

    def feature(term: Term, value: Any) -> float:
        column = columns[term.column]
        missing = bool(pd.isna(value))
        if column.kind == "boolean" and not missing:
            value = truth_slow(value)
            missing = value is None
        if isinstance(value, (date, np.datetime64)) and not missing:
            moment = pd.Timestamp(value)  # which is a date, too
            moment = moment if moment.tzinfo else moment.tz_localize(UTC)
            since = moment.to_pydatetime() - datetime(1970, 1, 1, tzinfo=UTC)
            value = since / timedelta(days=1)
        if term.kind == "value":
            return term.fill if missing else float(value)
        if term.kind in SHIFTS:
            turns = 0.0 if missing else value / CYCLES[str(term.level)] + SHIFTS[term.kind]
            return 0.0 if missing else round(sin(2 * pi * (turns - floor(turns))), WAVE_DIGITS)
        if not column.has_levels:
            return float(missing)
        if column.kind == "code" and not missing:
            value = float(value)
        text = None if missing else counted_as(level_text(value), column.levels)
        if term.kind in column.outcome_terms and text is not None:
            known = dict(zip(column.levels, getattr(column, term.kind), strict=False))
            return known.get(text, getattr(column, term.kind)[-1])
        if term.kind in ("missing", *column.outcome_terms):
            return float(text is None and term.kind == "missing")
        if term.kind == "level":
            return float(text == term.level)
        return float(text is not None and text not in column.levels)

    rows = range(len(frame))
    return np.array([[feature(t, frame[t.column].iloc[k]) for t in encoder.terms_] for k in rows])


def means_slow(
    texts: Sequence[str | None],
    y: Sequence[float],
    treated: Sequence[bool],
    levels: Sequence[str],
    fewest_rows: int,
) -> Means:
    """Slow twin of ``means_of``: one level at a time.

    ``clearly`` is True.
    """
    rows = [(text, float(value), bool(t)) for text, value, t in zip(texts, y, treated, strict=True)]
    arms = {arm: [value for _, value, t in rows if t == arm] for arm in (False, True)}
    mean = {arm: sum(own) / len(own) for arm, own in arms.items()}
    chance = {arm: sum((v - mean[arm]) ** 2 for v in own) / len(own) for arm, own in arms.items()}
    numbers: list[list[tuple[float, float]]] = [[], []]  # base and effect, each with its variance
    for level in (*levels, None):
        inside = {
            arm: [value - mean[arm] for text, value, t in rows if t == arm and text is not None
                  and (text == level if level is not None else text not in levels)]
            for arm in arms
        }  # fmt: skip
        counts = {arm: len(own) for arm, own in inside.items()}
        n = sum(counts.values())
        base = effect = (0.0, 0.0)
        if n >= fewest_rows:
            variance = sum(counts[arm] * chance[arm] for arm in arms) / n**2
            base = sum(map(sum, inside.values())) / n, variance
        if min(counts.values()) >= fewest_rows:
            of_arm = {arm: sum(own) / counts[arm] for arm, own in inside.items()}
            variance = sum(chance[arm] / counts[arm] for arm in arms)
            effect = of_arm[True] - of_arm[False], variance
        numbers[0].append(base)
        numbers[1].append(effect)
    return Means(*(np.array(_shrunk_slow(own)) for own in numbers))


def _shrunk_slow(numbers: Sequence[tuple[float, float]]) -> list[float]:
    """Shrink deviations with these variances; the last is that of other texts."""
    known = [(d, v) for d, v in numbers[:-1] if v > 0]
    if not known:
        return [0.0] * len(numbers)

    def loss(t: float) -> float:
        return sum(log(t + v) + d * d / (t + v) for d, v in known)

    unit = median(v for _, v in known)
    best = min((unit * float(t) for t in _SPREADS), key=loss)
    if loss(0.0) - loss(best) <= _CLEARLY:
        return [0.0] * len(numbers)
    return [d * best / (best + v) if v > 0 else 0.0 for d, v in numbers]
