"""Brief of a verified campaign: its gain, and whether the forecast held."""

from __future__ import annotations

from auucmax.campaign.cells import Cell
from auucmax.campaign.verify import Against, Comparison, Forecast, ForecastVerdict, Verification
from auucmax.present import words
from auucmax.present.brief import brief, in_words
from auucmax.results import Brief, State

_FORECASTS = {
    ForecastVerdict.HARM: "harm instead of a gain",
    ForecastVerdict.BELOW: "clearly below the forecast",
    ForecastVerdict.CONFIRMED: "confirmed",
    ForecastVerdict.TOO_NOISY: "consistent, but too noisy to confirm it",
    None: "no gain was forecast",
}


@brief.register
def _(found: Verification) -> Brief:
    extra = words.gains(found.roles.outcome)
    run = found.against(Against.AS_RUN)
    facts = [("Campaign as run", words.profit(run.profit) if run.profit else "")]
    others = [own for own in found.comparisons if own.against != Against.AS_RUN]
    facts += [(_name(own, found), _gain(own, found)) for own in others]
    if found.forecast is not None:
        facts.append(("Forecast", _forecast(found.forecast, extra)))
    every = [cell.given for cell in found.cells]
    chosen = [cell.given for cell in found.cells if cell.chosen != found.roles.arms[0]]
    n_given, n_both = (sum(sum(own[1:]) for own in some) for some in (every, chosen))
    n_people, n_chosen = (sum(map(sum, some)) for some in (every, chosen))
    both = f"{n_chosen:,} chosen, {n_given:,} treated, {n_both:,} both"
    facts.append(("People", f"{n_people:,}: {both}"))
    lost = {
        "without an outcome": found.n_without_outcome,
        "not in the list": found.n_not_in_list,
        "in the list but not in the table": found.n_absent,
    }
    details = [("Left out", words.joined(f"{n:,} {why}" for why, n in lost.items() if n))]
    smallest = min((p for own in found.cells for p in own.p_values.values()), default=None)
    if smallest is not None:
        details.append(("Check", f"smallest corrected p {words.p_value(smallest)}"))
    assumed = "this assumes equal probabilities of treatment for all people with one chosen arm."
    return in_words(
        _verdict(run, found, extra),
        facts,
        [assumed] if found.cells[0].propensity is None else [],
        _next(found, run),
        details,
    )


def _verdict(run: Comparison, found: Verification, extra: str) -> str:
    if run.gain is None:
        return f"The gain of the campaign is not known: {_lacking(run, found)}."
    sure = run.certified_lower
    if found.state == State.GUARANTEED and sure is not None:
        value = words.number(run.gain.value, words.places_of(run.gain))
        return f"The campaign worked: {value} extra {extra}, guaranteed {words.at_least(sure)}."
    gain = words.estimate(run.gain, unit=extra, sign=True)
    starts = {
        State.HARM: "The campaign did harm",
        State.SIGNIFICANT: "The campaign worked",
    }
    return f"{starts.get(found.state, 'It is not clear whether the campaign worked')}: {gain}."


def _name(own: Comparison, found: Verification) -> str:
    if own.against == Against.EVERYONE:
        return f"Compared with {words.arm_name(found.roles, str(own.arm))} for everyone"
    return "Compared with random" if own.against == Against.RANDOM else "If all chosen were treated"


def _gain(own: Comparison, found: Verification) -> str:
    if own.gain is None:
        return f"not known: {_lacking(own, found)}"
    unit = words.gains(found.roles.outcome)
    if own.certified_lower is not None and own.certified_lower > 0 >= (own.gain.lower or 0):
        value = words.number(own.gain.value, words.places_of(own.gain), sign=True)
        return f"{value} {unit}, guaranteed {words.at_least(own.certified_lower)}"
    gain = words.estimate(own.gain, unit=unit, sign=True)
    return gain if own.profit is None else f"{gain}, {words.profit(own.profit)}"


def _lacking(own: Comparison, found: Verification) -> str:
    if own.lacking is None:
        return "not available"
    cell, arm = own.lacking
    return f"none of {_cell(found.cells[cell], found)} got {words.arm_name(found.roles, arm)}"


def _cell(cell: Cell, found: Verification) -> str:
    name = "the chosen"
    if cell.chosen == found.roles.arms[0]:
        name = "the others"
    elif len(found.roles.arms) > 2:
        name = f"those chosen for {words.arm_name(found.roles, cell.chosen)}"
    given = cell.propensity
    return name if given is None else f"{name} (treated with {words.percent(given)})"


def _forecast(own: Forecast, extra: str) -> str:
    whole = "" if own.all_treated else " of the chosen"
    forecast = words.number(own.forecast.value, words.places_of(own.realised))
    return (
        f"{_FORECASTS[own.verdict]}: {forecast} {extra} forecast, "
        f"{words.estimate(own.realised)} measured{whole}"
    )


def _next(found: Verification, run: Comparison) -> str:
    verdict = None if found.forecast is None else found.forecast.verdict
    if found.state == State.HARM or verdict == ForecastVerdict.HARM:
        return "stop the campaign"
    if run.profit is not None and words.side(run.profit) < 0:
        return "stop, or treat fewer people: the campaign costs more than it earns"
    if verdict == ForecastVerdict.BELOW:
        return "fit again on these rows: the people or the treatment have changed"
    if found.state in (State.GUARANTEED, State.SIGNIFICANT):
        return "go on, and keep treating a part at random to verify again"
    return "go on with more people, or with a larger random part"
