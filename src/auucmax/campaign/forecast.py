"""The forecast of a campaign against its gain: a verdict, and the words for both.

Both are of the campaign as it was run: of the people who were treated, with what they got, over
treating nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from auucmax._shown import Shown
from auucmax.campaign.contrasts import Estimate

#: Whose gain is compared with the forecast.
ALL_TREATED = "all who were treated"
CHOSEN_TREATED = "the chosen people who were treated"  # no forecast is known of the others


class ForecastVerdict(StrEnum):
    """What the gain of a campaign says about its forecast: the first of these that holds."""

    HARM = "harm"  #: the interval of the gain lies below 0
    BELOW_FORECAST = "below_forecast"  #: that of the gain minus the forecast does, with both errors
    CONFIRMED = "confirmed"  #: the interval of the gain lies above half of the forecast
    TOO_NOISY = "too_noisy"  #: none of these


_WORDS = {
    ForecastVerdict.HARM: "The campaign did harm.",
    ForecastVerdict.BELOW_FORECAST: "The gain was below the forecast.",
    ForecastVerdict.CONFIRMED: "The gain confirms the forecast.",
    ForecastVerdict.TOO_NOISY: "Consistent with the forecast, but too noisy to confirm it.",
    None: "The forecast was not above 0, so there is nothing to confirm.",
}
_ABOVE = "The gain was above the forecast."
_NO_INTERVAL = "Without an interval it cannot be compared with the forecast."


def verdict_on(realised: Estimate, forecast: Estimate) -> ForecastVerdict | None:
    """The verdict on a forecast, from other rows than the gain; None if it was 0 or less.

    A loss that was forecast is no promise that a gain could confirm, so of such a forecast harm is
    the only verdict.

    >>> forecast = Estimate(443.0, 50.0, 345.0, 541.0)
    >>> verdict_on(Estimate(-251.0, 126.0, -498.0, -4.0), forecast).value
    'harm'
    >>> verdict_on(Estimate(300.0, 30.0, 241.0, 359.0), forecast).value
    'below_forecast'
    >>> verdict_on(Estimate(400.0, 60.0, 282.0, 518.0), forecast).value
    'confirmed'
    >>> verdict_on(Estimate(400.0, 120.0, 165.0, 635.0), forecast).value
    'too_noisy'
    """
    if realised.declined is None and realised.upper < 0:
        return ForecastVerdict.HARM
    if forecast.value <= 0:
        return None
    if realised.declined is not None:
        return ForecastVerdict.TOO_NOISY
    if realised.minus(forecast).upper < 0:
        return ForecastVerdict.BELOW_FORECAST
    if realised.lower > forecast.value / 2:
        return ForecastVerdict.CONFIRMED
    return ForecastVerdict.TOO_NOISY


@dataclass(frozen=True, repr=False)
class Promise(Shown):
    """The forecast of a campaign and its gain as it was run, in outcomes of all its people.

    Attributes
    ----------
    source : what the forecast rests on. covers : whose gain is compared with it; "all who were
        treated", unless nothing is known of those who were treated without having been chosen.
    promised : the forecast; its error and ends are None if they are not known, and the forecast is
        then compared as if it had none.
    came : the gain. difference : the gain minus the forecast, with the errors of both.
    verdict : a :class:`ForecastVerdict`; None if the forecast is 0 or less and no harm is shown.

    Ends are None if there is no interval.
    """

    source: str
    covers: str
    promised: float
    promised_error: float | None
    promised_lower: float | None
    promised_upper: float | None
    came: float
    came_lower: float | None
    came_upper: float | None
    difference: float
    lower: float | None
    upper: float | None
    verdict: ForecastVerdict | None

    @property
    def is_exceeded(self) -> bool:
        """Whether the gain was above the forecast, beyond the errors of both."""
        return self.lower is not None and self.lower > 0

    def __str__(self) -> str:
        ends = "" if self.lower is None else f" ({self.lower:+,.1f} to {self.upper:+,.1f})"
        error = "" if self.promised_error is not None else " (whose own error is not known)"
        return (
            f"forecast {self.promised:,.1f}{error}, realised {self.came:,.1f}: a difference of "
            f"{self.difference:+,.1f}{ends}. {self._words}"
        )

    @property
    def _words(self) -> str:
        if self.verdict is ForecastVerdict.TOO_NOISY and self.came_lower is None:
            return _NO_INTERVAL
        if self.verdict is ForecastVerdict.CONFIRMED and self.is_exceeded:
            return _ABOVE
        return _WORDS[self.verdict]

    def said_after(self, gain: str) -> str:
        """A sentence on the gain, which needs its full stop, and what it says about the forecast.

        >>> gain = Estimate(412.0, 150.0, 120.0, 704.0)
        >>> found = promise_of(gain, Estimate(900.0, 90.0, 724.0, 1076.0), "the trial")
        >>> found.said_after("The campaign gained +412 visits (95% interval 120 to 704)")
        'The campaign gained +412 visits (95% interval 120 to 704), below the forecast of 900.'
        """
        amount = _number(self.promised, abs(self.promised))
        of = f"the forecast of {amount}"
        match self.verdict:
            case ForecastVerdict.BELOW_FORECAST:
                return f"{gain}, below {of}."
            case ForecastVerdict.CONFIRMED if not self.is_exceeded:
                return f"{gain}, which confirms {of}."
            case ForecastVerdict.CONFIRMED:
                return f"{gain}, above {of}."
            case ForecastVerdict.TOO_NOISY:
                return f"{gain}. {self._words.replace('the forecast', of)}"
        return f"{gain}. The forecast was {amount}."


def promise_of(
    realised: Estimate, forecast: Estimate, source: str, covers: str = ALL_TREATED
) -> Promise:
    """A forecast without a standard error is one whose error is not known."""
    off, known = realised.minus(forecast), forecast.standard_error > 0
    has_interval = realised.declined is None
    return Promise(
        source=source,
        covers=covers,
        promised=forecast.value,
        promised_error=forecast.standard_error if known else None,
        promised_lower=forecast.lower if known else None,
        promised_upper=forecast.upper if known else None,
        came=realised.value,
        came_lower=realised.lower if has_interval else None,
        came_upper=realised.upper if has_interval else None,
        difference=off.value,
        lower=off.lower if has_interval else None,
        upper=off.upper if has_interval else None,
        verdict=verdict_on(realised, forecast),
    )


def gain_words(
    value: float, lower: float | None, upper: float | None, outcome: str, level: float
) -> str:
    """A gain with its unit and interval.

    >>> gain_words(412.3, 120.4, 704.2, "visit", 0.95)
    '+412 in visit (95% interval 120 to 704)'
    """
    if lower is None or upper is None:
        return f"{_number(value, abs(value), '+')} in {outcome}"
    width = upper - lower
    ends = f"{_number(lower, width)} to {_number(upper, width)}"
    return f"{_number(value, width, '+')} in {outcome} ({100 * level:.4g}% interval {ends})"


def _number(value: float, scale: float, sign: str = "") -> str:
    """Whole where units are small beside the scale, otherwise with a decimal or more."""
    digits = 0 if scale >= 20 else 1 if scale >= 2 else 3
    return f"{value:{sign}z,.{digits}f}"
