"""Words for a campaign that was verified: what it gained, and whether the forecast held."""

from __future__ import annotations

from auucmax._json import short
from auucmax.campaign.verify import (
    Against,
    Cell,
    Comparison,
    Forecast,
    ForecastVerdict,
    Verification,
)
from auucmax.present import words
from auucmax.present.brief import brief
from auucmax.results import Brief, Estimate, State

_FORECASTS = {
    ForecastVerdict.HARM: "harm instead of a gain",
    ForecastVerdict.BELOW: "clearly below the forecast",
    ForecastVerdict.CONFIRMED: "confirmed",
    ForecastVerdict.TOO_NOISY: "consistent, but too noisy to confirm it",
    None: "no gain was forecast",
}


@brief.register
def _(found: Verification) -> Brief:
    outcome = found.roles.outcome
    extra = words.gains(outcome)
    facts = []
    run = found.against(Against.AS_RUN)
    if run.profit is not None:
        facts.append(("As run", words.gain_or_loss(run.profit)))
    others = [own for own in found.comparisons if own.against != Against.AS_RUN]
    facts += [(_name(own, found), _gain(own, found)) for own in others]
    if found.forecast is not None:
        facts.append(("Forecast", _forecast(found.forecast, extra)))
    if found.ranking is not None:
        facts.append(("Scores", _ranking(found.ranking, found)))
    n_chosen, n_given = sum(found.chosen[1:]), sum(found.given[1:])
    facts.append(
        ("People", f"{found.n_people:,}: {n_chosen:,} chosen, {n_given:,} treated, "
         f"{found.n_chosen_treated:,} both")
    )  # fmt: skip
    lost = {
        "without an outcome": found.n_without_outcome,
        "not in the list": found.n_not_in_list,
        "of the list in no row": found.n_absent,
    }
    left_out = [f"{n:,} {why}" for why, n in lost.items() if n]
    caveats = []
    if not found.has_propensity:
        caveats.append("all people with one chosen arm are assumed to have had equal chances.")
    details = [("Left out", words.joined(left_out))] if left_out else []
    for test in found.tests:
        p_value = f"{cell_name(test.cell, found)}: p {words.p_value(test.p_value)}"
        details.append((f"Test of {test.what}", p_value))
    if found.certificate_missing is not None:
        details.append(("Guarantee", words.why_none(found.certificate_missing)))
    return Brief(
        verdict=_verdict(run, found, extra),
        facts=tuple(facts),
        caveats=tuple(caveats),
        next_step=_next(found),
        details=tuple(details),
    )


def _verdict(run: Comparison, found: Verification, extra: str) -> str:
    if run.gain is None:
        why = "" if run.lacking is None else f": {lacking_words(run, found)}"
        return f"What the campaign gained is not known{why}."
    sure = run.certified_lower
    if found.state == State.GUARANTEED and sure is not None:
        value = words.number(run.gain.value, words.places_of(run.gain))
        return f"The campaign worked: {value} extra {extra}, guaranteed {words.at_least(sure)}."
    gain = words.estimate(run.gain, unit=extra, sign=True)
    starts = {
        State.HARM: "The campaign did harm",
        State.SIGNIFICANT: "The campaign worked",
    }
    return f"{starts.get(found.state, 'It is not clear that the campaign worked')}: {gain}."


def _name(own: Comparison, found: Verification) -> str:
    if own.against == Against.EVERYONE:
        return f"Over {words.arm_name(found.roles, str(own.arm))} for everyone"
    return {Against.NOBODY: "Had all chosen got it", Against.RANDOM: "Over random people"}[
        own.against
    ]


def _gain(own: Comparison, found: Verification) -> str:
    if own.gain is None:
        return f"not known: {lacking_words(own, found)}"
    unit = words.gains(found.roles.outcome)
    if own.certified_lower is not None and own.certified_lower > 0 >= (own.gain.lower or 0):
        value = words.number(own.gain.value, words.places_of(own.gain), sign=True)
        return f"{value} {unit}, guaranteed {words.at_least(own.certified_lower)}"
    gain = words.estimate(own.gain, unit=unit, sign=True)
    return gain if own.profit is None else f"{gain}, {words.gain_or_loss(own.profit)}"


def lacking_words(own: Comparison, found: Verification) -> str:
    """Why a comparison is not known."""
    if own.lacking is None:
        return "not available"
    return f"none of {cell_name(own.lacking.cell, found)} got {short(own.lacking.arm)!r}"


def cell_name(cell: Cell, found: Verification) -> str:
    """The people of a cell."""
    name = (
        "the chosen" if len(found.roles.arms) == 2 else f"those chosen for {short(cell.chosen)!r}"
    )
    if cell.chosen == found.roles.arms[0]:
        name = "the others"
    return (
        name
        if cell.propensity is None
        else f"{name} (treated with {words.percent(cell.propensity)})"
    )


def _forecast(own: Forecast, extra: str) -> str:
    whole = "" if own.all_treated else " of the chosen"
    forecast = words.number(own.forecast.value, words.places_of(own.realised))
    return (
        f"{_FORECASTS[own.verdict]}: {forecast} {extra} forecast, "
        f"{words.estimate(own.realised)} came{whole}"
    )


def _ranking(own: Estimate, found: Verification) -> str:
    gain = words.effect(own, found.roles.outcome)
    if own.lower is not None and own.lower > 0:
        return f"still rank: {gain} over random people"
    if own.upper is not None and own.upper < 0:
        return f"rank worse than chance: {gain}"
    return f"no clear gain over random people: {gain}"


def _next(found: Verification) -> str:
    verdict = None if found.forecast is None else found.forecast.verdict
    if found.state == State.HARM or verdict == ForecastVerdict.HARM:
        return "stop the campaign"
    if verdict == ForecastVerdict.BELOW:
        return "fit again on these rows: people or treatment have changed"
    if found.state in (State.GUARANTEED, State.SIGNIFICANT):
        return "go on; keep a part at random, to verify again"
    return "go on with more people, or a larger part at random"
