"""Certificates of 100 thousand to 5 million rows, against one `auuc_score` of the same rows.

`certify` is what users call, bounds of AUUC and gain by hedged bets; `betting-fixed` the same by
bets of one size, `histogram` from counts in 65,536 bins of scores.
`progressive` certifies four scores on four fifths of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Case

SIZES = (100_000, 1_000_000, 5_000_000)
REFERENCES = {"to auuc_score": ["auuc_score"]}
LIBRARIES = {
    "auuc_score": "score",
    "certify": "certified",
    "betting-fixed": "fixed",
    "histogram": "histogram",
    "progressive": "progressive",
    "asymptotic": "asymptotic",
}


def cases(*, quick: bool = False) -> list[Case]:
    return [
        Case("held out", name, rows, 0, f"benchmarks.certify:{function}", {"rows": rows})
        for rows in (SIZES[:1] if quick else SIZES)
        for name, function in LIBRARIES.items()
    ]


def _rows(rows: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    score = rng.random(rows)
    treatment = rng.random(rows) < 0.5
    y = (rng.random(rows) < 0.1 + 0.06 * treatment * score).astype(np.float64)
    return y, score, treatment


def score(rows: int) -> Callable[[], Any]:
    from auucmax import auuc_score

    y, score, treatment = _rows(rows)
    return lambda: auuc_score(y, score, treatment=treatment)


def _certificate(rows: int, method: str) -> Callable[[], Any]:
    from auucmax import certify

    y, score, treatment = _rows(rows)
    certify(score[:1000], y=y[:1000], treatment=treatment[:1000], method=method)  # compile
    return lambda: certify(score, y=y, treatment=treatment, method=method)


def certified(rows: int) -> Callable[[], Any]:
    return _certificate(rows, "auto")


def fixed(rows: int) -> Callable[[], Any]:
    return _certificate(rows, "betting-fixed")


def asymptotic(rows: int) -> Callable[[], Any]:
    return _certificate(rows, "asymptotic")


def histogram(rows: int) -> Callable[[], Any]:
    from auucmax import certify
    from auucmax.metrics import BinnedLevels, score_edges

    y, score, treatment = _rows(rows)
    binned = BinnedLevels.of(y, score, treatment, score_edges(score))
    return lambda: certify(binned)


def progressive(rows: int) -> Callable[[], Any]:
    from auucmax.certificates import progressive_certificate

    columns = zip(*(np.array_split(column, 5) for column in _rows(rows)), strict=True)
    chunks = [(y, score if k else None, t) for k, (y, score, t) in enumerate(columns)]
    return lambda: progressive_certificate(chunks)
