"""Briefs of metrics and certificates, in outcome units per person."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from auucmax.certificates.bound import Guarantee
from auucmax.certificates.certify import METHODS, Certificate
from auucmax.certificates.policies import PolicyCertificate, ShareCertificate
from auucmax.certificates.progressive import ProgressiveCertificate
from auucmax.metrics.curves import UpliftBand
from auucmax.metrics.inference import AUUCDifference, AUUCInference
from auucmax.metrics.risk import PolicyRiskInference
from auucmax.present import words
from auucmax.present.brief import brief, in_words
from auucmax.results import Brief, Estimate
from auucmax.targeting.calibration import Calibration


def _estimate(
    value: float, ends: tuple[float, float], missing: str | None, *, sign: bool = False
) -> str:
    found = Estimate(value=value, missing=missing)
    if missing is None and all(map(math.isfinite, ends)):
        found = replace(found, lower=ends[0], upper=ends[1])
    return words.estimate(found, places=5, sign=sign)


def _rows(found: Any) -> tuple[str, str]:
    return "Rows", f"{found.n_rows:,}, intervals at {words.percent(found.level)}"


@brief.register
def _(found: AUUCInference) -> Brief:
    ends, missing = found.gain_interval, found.gain_declined
    start = "No clear gain over random targeting"
    if ends[0] > 0 or ends[1] < 0:
        start = f"The ranking {'beats' if ends[0] > 0 else 'is worse than'} random targeting"
    p_value = "" if missing else f", p {words.p_value(found.p_value)}"
    gain = _estimate(found.gain, ends, missing, sign=True)
    auuc = _estimate(found.estimate, found.interval, found.declined)
    return in_words(f"{start}: gain {gain} per person{p_value}.", [("AUUC", auuc), _rows(found)])


@brief.register
def _(found: AUUCDifference) -> Brief:
    ends, missing = found.interval, found.declined
    start = "No clear difference between the scores"
    if ends[0] > 0 or ends[1] < 0:
        start = f"The {'first' if ends[0] > 0 else 'second'} score ranks better"
    p_value = "" if missing else f", p {words.p_value(found.p_value)}"
    difference = _estimate(found.estimate, ends, missing, sign=True)
    return in_words(f"{start}: AUUC {difference}{p_value}.", [_rows(found)])


@brief.register
def _(found: PolicyRiskInference) -> Brief:
    columns = map(np.atleast_1d, (found.share, found.estimate, *found.interval))
    missing = found.declined if isinstance(found.declined, tuple) else (found.declined,)
    return in_words(
        f"Policy risk of {found.n_rows:,} rows, intervals at {words.percent(found.level)}.",
        [
            (f"{share:.1%} treated", _estimate(float(risk), (float(low), float(high)), why))
            for share, risk, low, high, why in zip(*columns, missing, strict=True)
        ],
    )


@brief.register
def _(found: UpliftBand) -> Brief:
    most = int(np.argmax(found.uplift))
    at = f"{found.share[most]:.0%} treated"
    if found.shares is not None:
        at = f"a budget of {found.share[most]:.4g} per person"
    ends = float(found.simultaneous_lower[most]), float(found.simultaneous_upper[most])
    gain = _estimate(float(found.uplift[most]), ends, None, sign=True)
    return in_words(f"Highest gain at {at}: {gain} per person.")


@brief.register
def _(found: Calibration) -> Brief:
    average = f"{found.average_effect:.4g}"
    verdict = f"Uplift from {found.uplift[0]:.4g} to {found.uplift[-1]:.4g} per person, {average} "
    verdict += "on average."
    caveat = "uplifts are means of people with similar scores, not of single people."
    if len(found.score) == 1 or found.n_values == 1:
        verdict = f"No clear gain of higher scores: everybody gets the average effect, {average}."
        caveat = "do not choose people by this score."
    return in_words(verdict, [("Rows", f"{found.n_rows:,}")], [caveat])


def _certified(
    found: Guarantee,
    gain: float,
    what: str,
    sources: Sequence[str],
    *facts: tuple[str, str],
    ways: str = "",
) -> Brief:
    """Brief of a guarantee: the claim, its numbers and its assumptions.

    ``sources``: where what is judged comes from; ``ways``: what was made in several ways.
    """
    chance = words.percent(1 - found.delta) if found.delta >= 0.01 else f"{1 - found.delta:.4g}"
    verdict = f"Not certified that {what} beats random targeting ({chance})."
    if gain > 0:
        verdict = f"Certified: {what} gains {_bounds(gain)} per person over random ({chance})."
    drawn = "treatment was randomised with the same chance for all"
    if found.propensity is not None:
        low, high = found.propensity
        drawn = (
            f"each was treated by an independent draw with its known chance, {low:.3g} to "
            f"{high:.3g} by design (statistics after Horvitz and Thompson)"
        )
    rests = [f"{'clusters' if found.grouped else 'rows'} are independent, and {drawn}"]
    if found.outcome_range is None:
        rests.append("there are enough rows for the normal approximation")
    else:
        low, high = found.outcome_range
        rests.append(f"outcomes lie in [{low:g}, {high:g}]")
    rests += sources
    if ways and found.n_candidates > 1:
        rests.append(
            f"the {found.n_candidates} ways of making {ways} were fixed without looking at them"
        )
    if found.grouped and found.outcome_range is not None:
        rests.append("people are counted so that every cluster weighs the same")
    conditions = [("If", text) for text in rests]
    return in_words(verdict, [*facts, ("Rows", f"{found.n_rows:,}"), *conditions])


def _bounds(lower: float, upper: float | None = None) -> str:
    ends = [f"at least {lower:+.5f}"] if math.isfinite(lower) else []
    if upper is not None and math.isfinite(upper):
        ends.append(f"at most {upper:+.5f}")
    return " and ".join(ends) or "no bound: too few rows"


@brief.register
def _(found: Certificate) -> Brief:
    gain = _bounds(found.gain_lower_bound, found.gain_upper_bound)
    auuc = _bounds(found.lower_bound, found.upper_bound)
    n = found.n_candidates
    one = "the score was" if n == 1 else f"the {n} candidates were"
    sources = [f"{one} fixed without looking at them, or at rows that depend on them"]
    if found.cross_fitted:
        sources = [
            "each fold's scores come from a model fitted on the others; the bounds are for the "
            "mean over these models"
        ]
    if found.adjusted:
        sources.append("the outcome model, and the choice to use it, come from other rows")
    made = _certified(
        found,
        found.gain_lower_bound,
        "the ranking",
        sources,
        ("Gain", f"{gain} (estimate {found.gain_estimate:+.5f})"),
        ("AUUC", f"{auuc} (estimate {found.estimate:+.5f})"),
        ("Method", METHODS[found.method]),
    )
    if found.method == "asymptotic":
        return replace(made, verdict="No guarantee, an approximation only: see the bounds.")
    return made


@brief.register
def _(found: ProgressiveCertificate) -> Brief:
    low, high = map(words.percent, found.trained_on)
    trained = f"{low} to {high} of the rows; more rows were used for the final model"
    facts = ("AUUC", _bounds(found.lower_bound)), ("Trained on", trained)
    source = (
        "rows were assigned to chunks at random, and each model, with all its choices, comes from "
        "the chunks before the one that it is judged on"
    )
    return _certified(found, found.gain_lower_bound, "the ranking", [source], *facts, ways="models")


_OTHER_ROWS = "each policy comes from other rows than those that judge it"


@brief.register
def _(found: PolicyCertificate) -> Brief:
    net = "" if found.net_lower_bound is None else _bounds(found.net_lower_bound)
    facts = ("Over nobody", _bounds(found.gain_lower_bound)), ("Net value", net)
    return _certified(
        found, found.random_lower_bound, "the policy", [_OTHER_ROWS], *facts, ways="policies"
    )


@brief.register
def _(found: ShareCertificate) -> Brief:
    best = int(np.argmax(found.gain_lower_bounds))
    made = _certified(found, 0.0, "the policy", [_OTHER_ROWS], ways="policies")
    return replace(
        made,
        verdict=f"Certified gains at {len(found.shares)} shares together "
        f"({words.percent(1 - found.delta)}): most at {found.shares[best]:.0%}, "
        f"{_bounds(found.gain_lower_bounds[best])} per person over treating nobody.",
    )
