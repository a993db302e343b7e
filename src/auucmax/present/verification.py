"""Brief of a verified campaign: its gain, and whether the forecast held."""

from __future__ import annotations

from auucmax.campaign.verify import Against, Comparison, ForecastVerdict, Verification
from auucmax.present import words
from auucmax.present.brief import brief, in_words
from auucmax.results import Brief, State

_STATES = {
    State.HARM: "The campaign did harm",
    State.SIGNIFICANT: "The campaign worked",
    State.GUARANTEED: "The campaign worked",
    State.UNCLEAR: "It is not clear whether the campaign worked",
}
_FORECASTS = {
    ForecastVerdict.HARM: "harm instead of a gain",
    ForecastVerdict.BELOW: "clearly below the forecast",
    ForecastVerdict.CONFIRMED: "confirmed",
    ForecastVerdict.TOO_NOISY: "consistent, but too noisy to confirm it",
    None: "no gain was forecast",
}


@brief.register
def _(found: Verification) -> Brief:
    roles, extra, run = found.roles, words.gains(found.roles.outcome), found.comparisons[0]
    verdict = f"The gain of the campaign is not known: {_lacking(run, found)}."
    if run.gain is not None:
        gain = words.estimate(run.gain, unit=extra, sign=True)
        verdict = f"{_STATES[found.state]}: {gain}."
        if found.state == State.GUARANTEED and run.certified_lower is not None:
            gain = words.number(run.gain.value, words.places_of(run.gain))
            sure = words.at_least(run.certified_lower)
            verdict = f"{_STATES[found.state]}: {gain} extra {extra}, guaranteed {sure}."

    facts = [("Campaign as run", words.profit(run.profit) if run.profit else "")]
    for own in found.comparisons[1:]:
        name = "If all chosen were treated"
        if own.against != Against.NOBODY:
            other = "random"
            if own.arm is not None:
                other = f"{words.arm_name(roles, own.arm)} for everyone"
            name = f"Compared with {other}"
        if own.gain is None:
            gain = f"not known: {_lacking(own, found)}"
        elif (own.certified_lower or 0) > 0 >= (own.gain.lower or 0):
            value = words.number(own.gain.value, words.places_of(own.gain), sign=True)
            gain = f"{value} {extra}, guaranteed {words.at_least(own.certified_lower or 0)}"
        else:
            gain = words.estimate(own.gain, unit=extra, sign=True)
            gain += f", {words.profit(own.profit)}" if own.profit else ""
        facts.append((name, gain))
    forecast = found.forecast
    if forecast is not None:
        whole = "" if forecast.all_treated else " of the chosen"
        value = words.number(forecast.forecast.value, words.places_of(forecast.realised))
        measured = f"{words.estimate(forecast.realised)} measured{whole}"
        text = f"{_FORECASTS[forecast.verdict]}: {value} {extra} forecast, {measured}"
        facts.append(("Forecast", text))
    every = [cell.given for cell in found.cells]
    chosen = [cell.given for cell in found.cells if cell.chosen != roles.arms[0]]
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

    held = None if forecast is None else forecast.verdict
    if found.state == State.HARM or held == ForecastVerdict.HARM:
        step = "stop the campaign"
    elif run.profit is not None and words.side(run.profit) < 0:
        step = "stop, or treat fewer people: the campaign costs more than it earns"
    elif held == ForecastVerdict.BELOW:
        step = "fit again on these rows: the people or the treatment have changed"
    elif found.state in (State.GUARANTEED, State.SIGNIFICANT):
        step = "go on, and keep treating a part at random to verify again"
    else:
        step = "go on with more people, or with a larger random part"
    assumed = "this assumes equal probabilities of treatment for all people with one chosen arm."
    caveats = [assumed] if found.cells[0].propensity is None else []
    return in_words(verdict, facts, caveats, step, details)


def _lacking(own: Comparison, found: Verification) -> str:
    """Which people got an arm too rarely for this gain to be known."""
    if own.lacking is None:
        return "not available"
    roles, (number, arm) = found.roles, own.lacking
    cell = found.cells[number]
    name = "the chosen"
    if cell.chosen == roles.arms[0]:
        name = "the others"
    elif len(roles.arms) > 2:
        name = f"those chosen for {words.arm_name(roles, cell.chosen)}"
    if cell.propensity is not None:
        name += f" (treated with {words.percent(cell.propensity)})"
    return f"none of {name} got {words.arm_name(roles, arm)}"
