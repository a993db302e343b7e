"""Words for metrics and certificates: numbers per person, in units of the outcome."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from auucmax.certificates.certify import ALL_BOUNDS, Certificate
from auucmax.certificates.policies import PolicyCertificate, ShareCertificate
from auucmax.certificates.progressive import ProgressiveCertificate
from auucmax.metrics.curves import UpliftBand
from auucmax.metrics.inference import AUUCDifference, AUUCInference
from auucmax.metrics.risk import PolicyRiskInference
from auucmax.present import words
from auucmax.present.brief import brief
from auucmax.results import Brief, Estimate
from auucmax.targeting.calibration import Calibration


def _estimate(
    value: float, ends: tuple[float, float], missing: str | None, *, sign: bool = False
) -> str:
    known = missing is None and all(map(math.isfinite, ends))
    lower, upper = ends if known else (None, None)
    found = Estimate(value=value, lower=lower, upper=upper, missing=missing)
    return words.estimate(found, places=5, sign=sign)


def _rows(found: Any) -> str:
    return f"{found.n_rows:,}, intervals at {words.percent(found.level)}"


def _verdict(ends: tuple[float, float], texts: tuple[str, str, str]) -> str:
    """Better, worse or unclear, by an interval."""
    return texts[0] if ends[0] > 0 else texts[1] if ends[1] < 0 else texts[2]


@brief.register
def _(found: AUUCInference) -> Brief:
    start = _verdict(
        found.gain_interval,
        (
            "The ranking beats random targeting",
            "The ranking is worse than random targeting",
            "No clear gain over random targeting",
        ),
    )
    gain = _estimate(found.gain, found.gain_interval, found.gain_declined, sign=True)
    p_value = "" if found.gain_declined else f", p {words.p_value(found.p_value)}"
    facts = [
        ("AUUC", _estimate(found.estimate, found.interval, found.declined)),
        ("Rows", _rows(found)),
    ]
    if found.bin_error > 0:
        facts.append(("Bins", f"of scores change this by {found.bin_error:.2g} at most"))
    return Brief(verdict=f"{start}: gain {gain} per person{p_value}.", facts=tuple(facts))


@brief.register
def _(found: AUUCDifference) -> Brief:
    start = _verdict(
        found.interval,
        (
            "The first score ranks better",
            "The second score ranks better",
            "No clear difference between the scores",
        ),
    )
    difference = _estimate(found.estimate, found.interval, found.declined, sign=True)
    p_value = "" if found.declined else f", p {words.p_value(found.p_value)}"
    return Brief(verdict=f"{start}: AUUC {difference}{p_value}.", facts=(("Rows", _rows(found)),))


@brief.register
def _(found: PolicyRiskInference) -> Brief:
    columns = map(np.atleast_1d, (found.share, found.estimate, *found.interval))
    missing = found.declined if isinstance(found.declined, tuple) else (found.declined,)
    facts = [
        (f"{share:.1%} treated", _estimate(float(risk), (float(low), float(high)), why))
        for share, risk, low, high, why in zip(*columns, missing, strict=True)
    ]
    return Brief(
        verdict=f"Policy risk of {found.n_rows:,} rows, intervals at {words.percent(found.level)}.",
        facts=tuple(facts),
    )


@brief.register
def _(found: UpliftBand) -> Brief:
    most = int(np.argmax(found.uplift))
    at = f"{found.share[most]:.0%} treated"
    if found.shares is not None:
        at = f"a budget of {found.share[most]:.4g} per person"
    ends = float(found.simultaneous_lower[most]), float(found.simultaneous_upper[most])
    gain = _estimate(float(found.uplift[most]), ends, None, sign=True)
    return Brief(
        verdict=f"Highest gain at {at}: {gain} per person.",
        facts=(
            ("Points", f"{len(found.share)}; the {found.level:.0%} band holds at all together"),
        ),
    )


@brief.register
def _(found: Calibration) -> Brief:
    average = f"{found.average_effect:.4g}"
    ends = f"{found.uplift[0]:.4g} to {found.uplift[-1]:.4g}"
    verdict = f"Uplift from {ends} per person, {average} on average."
    caveat = "uplifts are means of people with similar scores, not of single people."
    if len(found.score) == 1:
        verdict = f"Too few people to calibrate: everybody gets the average effect, {average}."
    elif found.n_values == 1:
        caveat = "do not choose people by this score."
        verdict = f"No clear gain of higher scores: everybody gets the average effect, {average}."
    rows = f"{found.n_rows:,}, at least {found.min_rows:,} of each arm behind every value"
    return Brief(verdict=verdict, facts=(("Rows", rows),), caveats=(caveat,))


def _certified(
    found: Any, gain: float, what: str, facts: list[tuple[str, str]], method: str, n_models: int = 1
) -> Brief:
    """A guarantee: the claim, its numbers, and what it rests on."""
    chance = words.percent(1 - found.delta) if found.delta >= 0.01 else f"{1 - found.delta:.4g}"
    verdict = f"Not certified that {what} beats random targeting ({chance})."
    if gain > 0:
        least = words.number(gain, 5, sign=True)
        verdict = f"Certified: {what} gains at least {least} per person over random ({chance})."
    if n_models > 1:
        facts.append(("Models", f"the mean of {n_models}, each trained on the rows before"))
    if getattr(found, "n_candidates", 1) > 1:
        facts.append(("Candidates", f"the best of {found.n_candidates}"))
    facts.append(("By", f"{method}, {found.n_rows:,} rows"))
    facts += [("If", text) for text in found.assumptions]
    return Brief(verdict=verdict, facts=tuple(facts))


def _bounds(lower: float, upper: float | None = None) -> str:
    ends = [f"at least {lower:+.5f}"] if math.isfinite(lower) else []
    if upper is not None and math.isfinite(upper):
        ends.append(f"at most {upper:+.5f}")
    return " and ".join(ends) or "no bound: too few rows"


@brief.register
def _(found: Certificate) -> Brief:
    how = "all bounds hold together" if found.joint else "each bound by itself"
    kind = "adjusted estimate" if found.adjusted else "estimate"
    kind += " with equal weights of clusters" if found.by_cluster else ""
    facts = [
        ("Gain", f"{_bounds(found.gain_lower_bound, found.gain_upper_bound)} "
         f"({kind} {found.gain_estimate:+.5f})"),
        ("AUUC", f"{_bounds(found.lower_bound, found.upper_bound)} "
         f"({kind} {found.estimate:+.5f})"),
        ("Bounds", how),
    ]  # fmt: skip
    made = _certified(
        found, found.gain_lower_bound, "the ranking", facts, ALL_BOUNDS[found.method].words
    )
    if found.method != "asymptotic":
        return made
    verdict = "No guarantee, an approximation only: see the bounds."
    return Brief(verdict=verdict, facts=made.facts)


@brief.register
def _(found: ProgressiveCertificate) -> Brief:
    low, high = map(words.percent, found.trained_on)
    facts = [
        ("AUUC", _bounds(found.lower_bound)),
        ("Trained on", f"{low} to {high} of the rows; more rows were used for the final model"),
    ]
    return _certified(
        found, found.gain_lower_bound, "the ranking", facts, found.method, found.n_models
    )


@brief.register
def _(found: PolicyCertificate) -> Brief:
    facts = [("Over nobody", _bounds(found.gain_lower_bound))]
    if found.net_lower_bound is not None:
        facts.append(("Net value", _bounds(found.net_lower_bound)))
    method = "block betting at one size"
    return _certified(found, found.random_lower_bound, "the policy", facts, method, found.n_models)


@brief.register
def _(found: ShareCertificate) -> Brief:
    bounds = zip(found.shares, found.gain_lower_bounds, found.share_upper_bounds, strict=True)
    facts = [
        (f"Top {share:.0%}", f"{_bounds(gain)}; at most {most:.2%} of all people")
        for share, gain, most in bounds
    ]
    facts.append(("By", f"block betting at one size, {found.n_rows:,} rows"))
    facts += [("If", text) for text in found.assumptions]
    best = int(np.argmax(found.gain_lower_bounds))
    return Brief(
        verdict=f"Certified gains at {len(found.shares)} shares together "
        f"({words.percent(1 - found.delta)}): most at {found.shares[best]:.0%}, "
        f"{found.gain_lower_bounds[best]:+.5f} per person over treating nobody.",
        facts=tuple(facts),
    )
