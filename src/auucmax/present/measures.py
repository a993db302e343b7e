"""Briefs of metrics, certificates and comparisons, in outcome units per person."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from auucmax._errors import short
from auucmax.certificates.certify import METHODS, Certificate
from auucmax.certificates.fixed_bets import ProgressiveCertificate
from auucmax.certificates.policies import PolicyCertificate, ShareCertificate
from auucmax.certificates.types import Guarantee
from auucmax.comparison import Comparison
from auucmax.metrics.curves import PolicyRiskInference, UpliftBand
from auucmax.metrics.inference import AUUCDifference, AUUCInference
from auucmax.present import words
from auucmax.present.brief import brief, in_words
from auucmax.results import Brief, Estimate
from auucmax.targeting.calibration import Calibration

_in_words = partial(words.estimate, places=5)


def _p_value(found: AUUCInference | AUUCDifference) -> str:
    return f", {words.p_value(found.p_value)}" if math.isfinite(found.p_value) else ""


def _rows(found: Any) -> tuple[str, str]:
    return "Rows", f"{found.n_rows:,}, intervals at {words.percent(found.level)}"


@brief.register
def _(found: AUUCInference) -> Brief:
    gain = Estimate.of(found.gain, found.gain_interval, missing=found.gain_declined)
    starts = {
        1: "The ranking beats random targeting",
        0: "No clear gain over random targeting",
        -1: "The ranking is worse than random targeting",
    }
    text = f"{starts[words.side(gain)]}: gain {_in_words(gain, sign=True)} per person"
    auuc = _in_words(Estimate.of(found.estimate, found.interval, missing=found.declined))
    return in_words(f"{text}{_p_value(found)}.", [("AUUC", auuc), _rows(found)])


@brief.register
def _(found: AUUCDifference) -> Brief:
    difference = Estimate.of(found.estimate, found.interval, missing=found.declined)
    starts = {
        1: "The first score ranks better",
        0: "No clear difference between the scores",
        -1: "The second score ranks better",
    }
    text = f"{starts[words.side(difference)]}: AUUC {_in_words(difference, sign=True)}"
    return in_words(f"{text}{_p_value(found)}.", [_rows(found)])


@brief.register
def _(found: PolicyRiskInference) -> Brief:
    columns = map(np.atleast_1d, (found.share, found.estimate, *found.interval))
    missing = found.declined if isinstance(found.declined, tuple) else (found.declined,)
    return in_words(
        f"Policy risk of {found.n_rows:,} rows, intervals at {words.percent(found.level)}.",
        [
            (f"{share:.1%} treated", _in_words(Estimate.of(risk, ends, missing=why)))
            for share, risk, *ends, why in zip(*columns, missing, strict=True)
        ],
    )


@brief.register
def _(found: UpliftBand) -> Brief:
    most = int(np.argmax(found.uplift))
    at = f"{found.share[most]:.0%} treated"
    if found.shares is not None:
        at = f"a budget of {found.share[most]:.4g} per person"
    ends = (found.simultaneous_lower[most], found.simultaneous_upper[most])
    gain = _in_words(Estimate.of(found.uplift[most], ends), sign=True)
    return in_words(f"Highest gain at {at}: {gain} per person.")


@brief.register
def _(found: Calibration) -> Brief:
    average = f"{found.average_effect:.4g}"
    verdict = f"Uplift from {found.uplift[0]:.4g} to {found.uplift[-1]:.4g} per person, {average} "
    verdict += "on average."
    caveat = "uplifts are means of people with similar scores, not of single people."
    if len(found.score) == 1 or found.n_values == 1:
        verdict = f"Higher scores show no clear gain: everybody gets the average effect, {average}."
        caveat = "do not choose people by this score."
    return in_words(verdict, [("Rows", f"{found.n_rows:,}")], [caveat])


def _bounds(lower: float, upper: float | None = None) -> str:
    ends = [f"at least {lower:+.5f}"] if math.isfinite(lower) else []
    if upper is not None and math.isfinite(upper):
        ends.append(f"at most {upper:+.5f}")
    return " and ".join(ends) or "no bound: too few rows"


@brief.register
def _(found: Guarantee) -> Brief:
    """Brief of a guarantee: the claim, its numbers and its assumptions."""
    chance = words.percent(1 - found.delta) if found.delta >= 0.01 else f"{1 - found.delta:.4g}"
    n, what, verdict, over_random = found.n_candidates, "the ranking", "", 0.0
    facts, sources, ways = [], [], ""
    if isinstance(found, Certificate):
        over_random = found.gain_lower_bound
        gain = _bounds(over_random, found.gain_upper_bound)
        auuc = _bounds(found.lower_bound, found.upper_bound)
        facts.append(("Gain", f"{gain} (estimate {found.gain_estimate:+.5f})"))
        facts.append(("AUUC", f"{auuc} (estimate {found.estimate:+.5f})"))
        facts.append(("Method", METHODS[found.method]))
        one = "the score was" if n == 1 else f"the {n} candidates were"
        sources = [f"{one} fixed without looking at these rows, or at rows that depend on them"]
        if found.cross_fitted:
            sources = [
                "each fold's scores come from a model fitted on the others; the bounds are for the "
                "mean over these models"
            ]
        if found.adjusted:
            sources.append("the outcome model, and the choice to use it, come from other rows")
        if found.method == "asymptotic":
            verdict = "No guarantee, an approximation only: see the bounds."
    elif isinstance(found, ProgressiveCertificate):
        over_random, ways = found.gain_lower_bound, "models"
        facts.append(("AUUC", _bounds(found.lower_bound)))
        low, high = map(words.percent, found.trained_on)
        trained = f"{low} to {high} of the rows; more rows were used for the final model"
        facts.append(("Trained on", trained))
        sources.append(
            "rows were assigned to chunks at random, and each model and every choice in it depend "
            "only on chunks before the one that it is evaluated on"
        )
    else:
        what, ways = "the policy", "policies"
        sources.append("each policy is evaluated on rows that it does not depend on")
    if isinstance(found, PolicyCertificate):
        over_random = found.random_lower_bound
        facts.append(("Over nobody", _bounds(found.gain_lower_bound)))
        if found.net_lower_bound is not None:
            facts.append(("Net value", _bounds(found.net_lower_bound)))
    if isinstance(found, ShareCertificate):
        best = int(np.argmax(found.gain_lower_bounds))
        verdict = (
            f"Certified gains at {len(found.shares)} shares together ({chance}): most at "
            f"{found.shares[best]:.0%}, {_bounds(found.gain_lower_bounds[best])} per person over "
            f"treating nobody."
        )

    drawn = "treatment was randomised with equal probability"
    if found.propensity is not None:
        least, most = found.propensity
        drawn = (
            f"each was treated independently with its known probability, {least:.3g} to "
            f"{most:.3g} by design (Horvitz-Thompson statistics)"
        )
    rests = [f"{'clusters' if found.grouped else 'rows'} are independent, and {drawn}"]
    if found.outcome_range is None:
        rests.append("there are enough rows for the normal approximation")
    else:
        least, most = found.outcome_range
        rests.append(f"outcomes lie in [{least:g}, {most:g}]")
    rests += sources
    if ways and n > 1:
        rests.append(f"the {n} methods that make {ways} were fixed without looking at these rows")
    if found.by_cluster:
        rests.append("every cluster has the same weight")
    if not verdict:
        verdict = f"Not certified that {what} beats random targeting ({chance})."
        if over_random > 0:
            gain = _bounds(over_random)
            verdict = f"Certified: {what} gains {gain} per person over random ({chance})."
    facts.append(("Rows", f"{found.n_rows:,}"))
    return in_words(verdict, [*facts, *(("If", text) for text in rests)])


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
