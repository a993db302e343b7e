"""Words for a comparison of models over splits of a trial."""

from __future__ import annotations

import math
from typing import Any

from auucmax._json import short
from auucmax.comparison.comparison import Comparison
from auucmax.present import words
from auucmax.present.brief import brief
from auucmax.results import Brief, Estimate

_SCALE, _PER = 100.0, "per 100 people"


@brief.register
def _(found: Comparison) -> Brief:
    table, gaps = found.summary(), found.differences()
    best, rows = str(table.index[0]), dict(table.iterrows())
    n_splits = len(found.seeds)
    smallest = min((abs(float(own["mean_gain"])) for own in rows.values()), default=1.0) or 1e-3
    places = min(max(words.digits(_SCALE * smallest / 10), 2), 5)
    facts = []
    details = []
    for name, own in rows.items():
        gap = None if name == best else gaps.loc[name]
        facts.append((short(str(name)), _gain(own, gap, places)))
        size = "" if _none(own["n_parameters"]) else f", {own['n_parameters']:,.0f} parameters"
        details.append(
            (short(str(name)), f"AUUC {own['mean_auuc']:.5f}, rank {own['mean_rank']:.1f}, best in "
             f"{words.percent(own['share_best'])} of splits, {own['fit_seconds']:.3g} s{size}")
        )  # fmt: skip
    n_train = 1 - found.test_size
    facts.append(
        ("Trial", f"{short(found.trial_name)}, {found.n_rows:,} people, {n_splits} "
         f"split{'s' * (n_splits > 1)}: {words.percent(n_train)} to train on")
    )  # fmt: skip
    details.append(("Random targeting", f"AUUC {found.random:.5f}"))
    if n_splits > 1 and len(rows) > 1:
        details.append(("Test", "corrected resampled t-test, p adjusted for the number of models"))
    failed = [str(name) for name, own in rows.items() if own["n_failed"]]
    caveats = [f"{words.joined(failed)} failed on some splits, and come last."] if failed else []
    return Brief(
        verdict=_verdict(best, rows[best], gaps, places),
        facts=tuple(facts),
        caveats=tuple(caveats),
        next_step="compare with more splits" if n_splits == 1 and len(rows) > 1 else None,
        details=tuple(details),
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
        return f"{name} gains most, {gain}; clearly more than {words.joined(worse)} only."
    return f"No clear winner: {name} gains most, {gain}."


def _gain(own: Any, gap: Any, places: int) -> str:
    if _none(own["mean_gain"]):
        return "failed"
    gain = f"{words.number(_SCALE * own['mean_gain'], places, sign=True)} {_PER}"
    if gap is None or _none(gap["difference"]):
        return gain
    known = not _none(gap["lower"])
    difference = Estimate(
        value=float(gap["difference"]),
        lower=float(gap["lower"]) if known else None,
        upper=float(gap["upper"]) if known else None,
    )
    if not known:
        less = words.number(_SCALE * difference.value, places, sign=True)
        return f"{gain}, {less} from the best"
    less = words.estimate(difference, scale=_SCALE, places=places, sign=True)
    return f"{gain}, {less} from the best, p {words.p_value(float(gap['p_holm']))}"


def _none(value: Any) -> bool:
    return value is None or math.isnan(float(value))
