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

    def number(value: Any, *, sign: bool = False) -> str:
        return words.number(_SCALE * value, places, sign=sign)

    facts = []
    for name, own in rows.items():
        text = f"{number(own['mean_gain'], sign=True)} {_PER}"
        if math.isnan(own["mean_gain"]):
            text = "failed"
        elif name != best and not math.isnan((gap := gaps.loc[name])["difference"]):
            text += f", {number(-gap['difference'])} below the best"
            if not math.isnan(gap["lower"]):
                text += f" ({number(-gap['upper'])} to {number(-gap['lower'])})"
                text += f", {words.p_value(gap['p_holm'])}"
        facts.append((short(str(name)), text))
    splits = f"{n_splits} split{'s' * (n_splits > 1)}: {words.percent(1 - found.test_size)}"
    rows_of_trial = f"{short(found.trial_name)}, {words.people(found.n_rows)}"
    facts.append(("Trial", f"{rows_of_trial}, {splits} for training"))

    name, gain = short(best), f"{number(rows[best]['mean_gain'])} {_PER}"
    worse = [str(other) for other, gap in gaps.iterrows() if gap["p_holm"] < 0.05]
    if not len(gaps):
        verdict = f"{name} gains {gain} over random targeting."
    elif len(worse) == len(gaps):
        verdict = f"{name} ranks best: it gains {gain} over random targeting."
    else:
        clearly = f" Clearly worse: only {words.joined(worse)}." if worse else ""
        verdict = f"{name} has the largest gain, {gain} over random targeting.{clearly}"
        verdict = verdict if worse else f"No clear winner: {verdict}"
    failed = words.joined(str(name) for name, own in rows.items() if own["n_failed"])
    return in_words(
        verdict,
        facts,
        [f"{failed} failed on some splits and are ranked last."] if failed else [],
        "compare with more splits" if n_splits == 1 and len(rows) > 1 else None,
        [("Test", "corrected resampled t-test, p adjusted for the number of models")],
    )
