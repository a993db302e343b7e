"""Brief of a comparison of models."""

from __future__ import annotations

import math
from typing import Any

from auucmax._errors import short
from auucmax.comparison.comparison import Comparison
from auucmax.present import words
from auucmax.present.brief import brief, in_words
from auucmax.results import Brief

_SCALE, _PER = 100.0, "per 100 people"


@brief.register
def _(found: Comparison) -> Brief:
    table, gaps = found.summary(), found.differences()
    best, rows = str(table.index[0]), dict(table.iterrows())
    n_splits = len(found.seeds)
    smallest = min((abs(float(own["mean_gain"])) for own in rows.values()), default=1.0) or 1e-3
    places = min(max(words.digits(_SCALE * smallest / 10), 2), 5)
    facts = []
    for name, own in rows.items():
        gap = None if name == best else gaps.loc[name]
        facts.append((short(str(name)), _gain(own, gap, places)))
    splits = f"{n_splits} split{'s' * (n_splits > 1)}: {words.percent(1 - found.test_size)}"
    rows_of_trial = f"{short(found.trial_name)}, {words.people(found.n_rows)}"
    facts.append(("Trial", f"{rows_of_trial}, {splits} for training"))
    failed = words.joined(str(name) for name, own in rows.items() if own["n_failed"])
    return in_words(
        _verdict(best, rows[best], gaps, places),
        facts,
        [f"{failed} failed on some splits and are ranked last."] if failed else [],
        "compare with more splits" if n_splits == 1 and len(rows) > 1 else None,
        [("Test", "corrected resampled t-test, p adjusted for the number of models")],
    )


def _verdict(best: str, own: Any, gaps: Any, places: int) -> str:
    gain = f"{words.number(_SCALE * own['mean_gain'], places)} {_PER} over random targeting"
    name = short(best)
    worse = [str(other) for other, gap in gaps.iterrows() if gap["p_holm"] < 0.05]
    if not len(gaps):
        return f"{name} gains {gain}."
    if len(worse) == len(gaps):
        return f"{name} ranks best: it gains {gain}."
    if worse:
        return f"{name} gains most, {gain}. Clearly worse: only {words.joined(worse)}."
    return f"No clear winner: {name} gains most, {gain}."


def _gain(own: Any, gap: Any, places: int) -> str:
    if math.isnan(own["mean_gain"]):
        return "failed"
    gain = f"{words.number(_SCALE * own['mean_gain'], places, sign=True)} {_PER}"
    if gap is None or math.isnan(gap["difference"]):
        return gain
    less = words.number(_SCALE * gap["difference"], places, sign=True)
    p_value = ""
    if not math.isnan(gap["lower"]):
        ends = (words.number(_SCALE * gap[end], places) for end in ("lower", "upper"))
        less = f"{less} ({' to '.join(ends)})"
        p_value = f", p {words.p_value(gap['p_holm'])}"
    return f"{gain}, {less} from the best{p_value}"
