"""``verify``: what a campaign that was targeted has gained, against what it could have and should.

With d_1 and d_0 the average effects among the N_1 people who were chosen and the N_0 others, p =
N_1 / (N_1 + N_0), treating all who were chosen brings

    N_1 d_1                      more outcomes than treating nobody,
    N_1 (1 - p) (d_1 - d_0)      more than treating as many people at random,
    - N_0 d_0                    more than treating everybody.

d_1 needs some of the chosen untreated and d_0 some of the others treated, by chance: an assignment
with exploration. Within people of the same chance the arms' means are compared, so the estimates
are free of bias whatever the chances.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri

from auucmax._json import plain
from auucmax._shown import Shown
from auucmax._validation import Bools, Floats, check_level
from auucmax.campaign.campaign import (
    NEXT_TIME,
    Campaign,
    CheckedTest,
    check_campaign,
    doubts,
    effects_of,
    read_campaign,
)
from auucmax.campaign.contrasts import Estimate
from auucmax.campaign.drift import (
    Advice,
    DriftTest,
    advise,
    beyond_random,
    drift_tests,
    evidence_by_label,
    expected_effect,
)
from auucmax.campaign.forecast import (
    ALL_TREATED,
    CHOSEN_TREATED,
    ForecastVerdict,
    Promise,
    gain_words,
    promise_of,
)
from auucmax.certificates.strata import GroupsError, StrataBounds, strata_bounds
from auucmax.data.outcomes import MONEY
from auucmax.model import ArmsModel, Evidence, TrialModel
from auucmax.model.columns import Bounded
from auucmax.targeting.decision import Decision, of_gain

#: What a gain is over what, in words; all but the first are of treating all who were chosen.
AGAINST = {
    "as_run": "as run, against treating nobody",
    "nobody": "had all the chosen been treated, against nobody",
    "random": "against as many at random",
    "everybody": "against treating everybody",
}
_NO_RANGE = (
    "Nothing is certified, for outcomes are not 0/1, and no range of them is known that holds most "
    "of them. Pass outcome_range=(0, 500), say."
)
_NO_SCORES = (
    "Scores are not known, for neither the features of the model nor a column 'score' are there: "
    "neither the forecast of the trial nor a drift of the scores is known."
)
_NEEDS_OTHERS = ("random", "everybody")  # people who were not chosen
BEST_SINGLE = "best single"
LOST, LOST_AS_RUN = "the chosen lost {} by the treatment", "the campaign as run lost {}"
_LOST_BY_ALL = "treating everybody would have lost {}"
CHOSEN = "those who were chosen"  #: whom the decision is about
_BY_UPLIFTS = "the sum of the uplifts"
_BY_TRIAL = "the trial's people with such scores"


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """What treating all who were chosen brings more than something else, in outcomes of them all.

    ``unknown`` says why it cannot be told: all numbers are then None. ``certified_lower`` and
    ``certified_upper`` each hold with probability 1 - delta by itself, for every number of rows;
    None without a certificate.
    """

    against: str
    estimate: float | None = None
    standard_error: float | None = None
    lower: float | None = None
    upper: float | None = None
    declined: str | None = None
    certified_lower: float | None = None
    certified_upper: float | None = None
    unknown: str | None = None

    def __str__(self) -> str:
        if self.estimate is None:
            return f"cannot be told: {self.unknown}"
        told = f"{self.estimate:+,.1f}"
        if self.lower is None:
            told += f" (interval cannot be said: {self.declined})"
        else:
            told += f" ({self.lower:+,.1f} to {self.upper:+,.1f})"
        if self.certified_lower is not None:
            told += f", certified {self.certified_lower:+,.1f} to {self.certified_upper:+,.1f}"
        return told


@dataclass(frozen=True, repr=False)
class Verification(Shown):
    """What :func:`verify` found; printing it tells all of it, ``to_dict`` gives plain JSON.

    Attributes
    ----------
    n_people, n_chosen, n_treated, n_treated_rest : people with an outcome, those for whom an arm
        was chosen, and how many of the chosen and of the rest were treated.
    comparisons : "as_run": what the campaign as it was run, with its exploration, gained over
        treating nobody; and what treating all the chosen gains over "nobody", "random" people and
        "everybody".
    promise : the forecast of the campaign against its gain; None if there is no forecast. drift :
        tests against the trial of the model. advice : what to do with it.
    check : tests of the randomisation within the chosen and the rest.
    certificate : a sentence on what certified numbers rest on, or why there are none.
    next_time : what to change so that more can be told; None if all is.
    """

    against: ClassVar[Mapping[str, str]] = AGAINST

    outcome: str
    n_people: int
    n_chosen: int
    n_treated: int
    n_treated_rest: int
    level: float
    delta: float
    comparisons: dict[str, Comparison]
    promise: Promise | None
    drift: tuple[DriftTest, ...]
    advice: Advice | None
    check: tuple[CheckedTest, ...]
    certificate: str
    next_time: str | None
    notes: tuple[str, ...]

    @property
    def title(self) -> str:
        """Who was chosen, and who was treated."""
        rest = self.n_people - self.n_chosen
        return (
            f"{self.n_chosen:,} of {self.n_people:,} people were chosen; {self.n_treated:,} of "
            f"them and {self.n_treated_rest:,} of the other {rest:,} were treated"
        )

    @property
    def headline(self) -> str:
        """What the campaign gained as it was run, and what that says about its forecast."""
        gain, promise = self.comparisons["as_run"], self.promise
        if gain.estimate is None:
            said = f"What the campaign gained is not known: {gain.unknown}"
        else:
            words = gain_words(gain.estimate, gain.lower, gain.upper, self.outcome, self.level)
            if gain.lower is None or gain.upper is None:
                said = f"The campaign gained {words}, without an interval: {gain.declined}"
            elif gain.upper < 0:
                said = f"The campaign did harm: {words}"
            elif gain.lower <= 0:
                said = f"The campaign has no significant gain: {words}"
            else:
                said = f"The campaign gained {words}"
        if promise is None:
            return f"{said.rstrip('.')}."
        if promise.covers == CHOSEN_TREATED:
            ends = promise.came_lower, promise.came_upper
            own = gain_words(promise.came, *ends, self.outcome, self.level)
            said = f"{said.rstrip('.')}. {CHOSEN_TREATED.capitalize()} gained {own}"
        return promise.said_after(said.rstrip("."))

    @property
    def doubts(self) -> tuple[str, ...]:
        """What has to be known before the numbers: tests of the check that are close to failing."""
        return doubts(self.check)

    @property
    def decision(self) -> Decision:
        """Whether to treat such people again, by the rule of the report."""
        gain = self.comparisons["nobody"]
        upper = gain.certified_upper if gain.upper is None else gain.upper
        return of_gain(gain.lower, upper, gain.certified_lower, CHOSEN)

    def rows(self) -> dict[str, str]:
        """Names and values for a printed table."""
        found = {
            f"gain in {self.outcome}, {words}": str(self.comparisons[name])
            for name, words in self.against.items()
        }
        if self.promise is not None:
            found[f"forecast ({self.promise.source})"] = str(self.promise)
        if self.advice is not None:
            found["what to do with the model"] = str(self.advice)
        return found

    def sentences(self) -> tuple[str, ...]:
        """What has to be known with the numbers."""
        next_time = () if self.next_time is None else (self.next_time,)
        return (*self.notes, self.certificate, *next_time)

    def __str__(self) -> str:
        rows = [f"{name}: {value}" for name, value in self.rows().items()]
        return "\n".join([*self.doubts, self.headline, self.title, *rows, *self.sentences()])

    def to_dict(self) -> dict[str, Any]:
        """All numbers and sentences as plain JSON; ``told`` is what is printed."""
        found = dict(vars(self)) | {"headline": self.headline}
        notes = (*self.doubts, *self.sentences())
        found["told"] = {"title": self.title, "rows": self.rows(), "notes": notes}
        found["doubts"] = self.doubts
        found["decision"] = self.decision.to_dict(CHOSEN)
        found["comparisons"] = {name: vars(one) for name, one in self.comparisons.items()}
        found["promise"] = None if self.promise is None else vars(self.promise)
        found["advice"] = None if self.advice is None else self.advice._asdict()
        found["drift"] = [t._asdict() | {"is_found": t.is_found} for t in self.drift]
        found["check"] = [test._asdict() for test in self.check]
        return dict(plain(found))


def verify(
    table: Any,
    *,
    chosen: str | None = None,
    propensity: str | None = None,
    treatment: str | None = None,
    outcome: str | None = None,
    treated: Any = None,
    control: Any = None,
    id: str | None = None,
    groups: str | None = None,
    largest_group: int | None = None,
    people: Any = None,
    model: TrialModel | None = None,
    lower_is_better: bool = False,
    drop_missing_outcomes: bool = False,
    outcome_range: tuple[float, float] | None = None,
    level: float = 0.95,
    delta: float = 0.05,
    random_state: int = 0,
) -> Verification:
    """Say what a targeted campaign gained, what that says about its forecast, and about the model.

    Parameters
    ----------
    table : a row for each person of the campaign, chosen or not.
    chosen : column that says who was chosen: 0/1, yes and no, or the label of the treated arm, as
        in the list that ``target`` writes.
    people : the list itself, in the place of ``chosen``; rows are matched by ``id``. Of a list of
        ``target``: who is in it (with the arm to give, if all are) was chosen. One of ``assign``
        has columns ``chosen``, ``propensity`` and ``arm``, which are taken where the table lacks
        them: outcomes and ids are then enough, and people who are not in it are left out. Its
        households are the ``groups``, unless they or the model name others.
    largest_group : people that a group has at most, known without these rows. Without it, certified
        numbers are about groups of at most so many people as the certificate says.
    propensity : column with the chance of treatment that everyone had; without it, all who were
        chosen, and all others, are taken to have had one chance.
    treatment, outcome, treated, control, id, groups, lower_is_better, drop_missing_outcomes,
        outcome_range : as in :func:`auucmax.model.fit_trial_model`; a ``model`` knows them.
    model : that chose the people. With its features, or a column ``score`` (as ``target`` writes
        it), it has a forecast, and tells whether people and effects are still those of its trial.
        Without a model, the forecast is the sum of a column ``uplift`` of the list, if there is
        one, and its error is not known.
    level : of the intervals. delta : probability with which a certified bound may fail.
    random_state : of the dealing into blocks for the certificate; fix it beforehand.

    Examples
    --------
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> chosen = rng.random(20_000) < 0.3
    >>> chance = np.where(chosen, 0.9, 0.1)
    >>> mail = rng.random(20_000) < chance
    >>> visit = rng.random(20_000) < 0.1 + 0.08 * chosen * mail
    >>> table = pd.DataFrame({"top": chosen, "chance": chance, "mail": mail, "visit": visit})
    >>> found = verify(
    ...     table, chosen="top", propensity="chance", treatment="mail", outcome="visit"
    ... )
    >>> gain = found.comparisons["random"]
    >>> bool(gain.certified_lower > 0), bool(gain.lower < 0.7 * 0.08 * found.n_chosen < gain.upper)
    (True, True)
    """
    check_level(level)
    check_level(delta, "delta")
    campaign = read_campaign(
        table, chosen=chosen, propensity=propensity, people=people, model=model,
        treatment=treatment, outcome=outcome, treated=treated, control=control, id=id,
        groups=groups, lower_is_better=lower_is_better, outcome_range=outcome_range,
        drop_missing_outcomes=drop_missing_outcomes,
    )  # fmt: skip
    check = check_campaign(campaign, model)
    own = _coefficients(campaign)
    of_all = "everybody was chosen" if campaign.chosen.all() else None
    found = {
        name: compared(campaign, name, one, level, of_all if name in _NEEDS_OTHERS else None)
        for name, one in own.items()
    }
    found, certificate = certified(campaign, found, own, delta, largest_group, random_state)
    share, promise, drift = None, None, tuple[DriftTest, ...]()
    if model is None or not model.warning:
        share = None if model is None else _share_of_chosen(campaign, model)
        promise = promised(campaign, own["as_run"], level, model, share)
    if model is not None and not model.warning:
        drift = drift_tests(campaign, model, share)
    lost = {LOST: own["nobody"], LOST_AS_RUN: own["as_run"]}
    harm = harm_shown(
        campaign, lost | {_LOST_BY_ALL: effects_of(campaign.sizes.astype(float))}, level
    )
    return Verification(
        comparisons=found,
        promise=promise,
        drift=drift,
        advice=advice_on(model, drift, promise, found["random"], harm),
        certificate=certificate,
        next_time=_next_time(found),
        notes=(*campaign.notes, *_notes(campaign, model)),
        **shared_facts(campaign, level, delta, check),
    )


def shared_facts(
    campaign: Campaign, level: float, delta: float, check: tuple[CheckedTest, ...]
) -> dict[str, Any]:
    """Fields of a :class:`Verification` that are what the rows say, whatever the arms."""
    n_treated, n_treated_rest = (
        int(campaign.means.counts[own, 1:].sum())
        for own in (campaign.is_chosen, ~campaign.is_chosen)
    )
    return {
        "outcome": campaign.columns.gain, "n_people": len(campaign.y),
        "n_chosen": int(campaign.chosen.sum()), "n_treated": n_treated,
        "n_treated_rest": n_treated_rest, "level": level, "delta": delta, "check": check,
    }  # fmt: skip


def _coefficients(campaign: Campaign) -> dict[str, Floats]:
    """(cells, 2) of each comparison."""
    sizes, is_chosen = campaign.sizes.astype(np.float64), campaign.is_chosen
    weights = {
        "nobody": sizes * is_chosen,
        "random": beyond_random(campaign),
        "everybody": -sizes * ~is_chosen,
    }
    found = {name: effects_of(own) for name, own in weights.items()}
    return {"as_run": as_run(campaign), **found}


def as_run(campaign: Campaign) -> Floats:
    """(cells, A) coefficients of the gain of what was done, over treating nobody."""
    found = campaign.means.counts.astype(np.float64)
    found[:, 0] = -found[:, 1:].sum(axis=1)
    return found


def compared(
    campaign: Campaign, name: str, coefficients: Floats, level: float, unknown: str | None = None
) -> Comparison:
    """A sum of the cells' means with its interval; ``unknown``: a reason not to tell it."""
    why = unknown or campaign.why_unknown(coefficients)
    if why is not None:
        return Comparison(name, unknown=why)
    if not coefficients.any():  # the same for all: there is no difference
        return Comparison(name, 0.0, 0.0, 0.0, 0.0)
    value, error, lower, upper, declined = campaign.means.contrast(coefficients, level)
    low, high = (None, None) if declined else (lower, upper)
    return Comparison(name, value, error, low, high, declined)


def certified(
    campaign: Campaign,
    found: dict[str, Comparison],
    coefficients: Mapping[str, Floats],
    delta: float,
    largest_group: int | None,
    random_state: int,
    singles: Sequence[str] = (),
) -> tuple[dict[str, Comparison], str]:
    """The comparisons with certified ends, and words on them.

    ``singles``: those of which "best single" is the least, whichever that is.
    """
    told = [name for name in coefficients if found[name].unknown is None]
    some = [name for name in told if coefficients[name].any()]
    bounded = campaign.columns.bounded(campaign.y)
    if not some:
        return found, "Nothing is certified, for nothing can be told."
    if bounded is None:
        return found, _NO_RANGE
    y = np.clip(campaign.y, *bounded.range)
    rows: dict[str, Any] = {
        "treatment": campaign.arm, "stratum": campaign.cell, "groups": campaign.groups,
        "outcome_range": bounded.range, "largest_group": largest_group,
        "random_state": random_state,
    }  # fmt: skip
    # What is no difference at all is 0. All of them at either level: pilots are the same.
    rows["weights"] = np.stack([coefficients[name] for name in some])
    try:
        bounds = strata_bounds(y, delta=delta, **rows)
        ends = dict.fromkeys(told, (0.0, 0.0)) | _ends(some, bounds)
        if singles and found[BEST_SINGLE].unknown is None:
            # The least of the lower ends is one of the best; upper ends must hold together.
            together = ends | _ends(some, strata_bounds(y, delta=delta / len(singles), **rows))
            lower = min(ends[name][0] for name in singles)
            ends[BEST_SINGLE] = lower, min(together[name][1] for name in singles)
    except GroupsError as error:
        return found, f"Nothing is certified: {error}"
    for name, (low, high) in ends.items():
        found[name] = replace(found[name], certified_lower=low, certified_upper=high)
    given = "got each arm" if campaign.of_arms else "were treated"
    return found, _certificate_words(bounds.largest_group, bounded, delta, given)


def _ends(names: Sequence[str], bounds: StrataBounds) -> dict[str, tuple[float, float]]:
    both = zip(bounds.lower.tolist(), bounds.upper.tolist(), strict=True)
    return dict(zip(names, both, strict=True))


def _certificate_words(
    largest_group: int | None, bounded: Bounded, delta: float, given: str
) -> str:
    """What certified numbers rest on."""
    low, high = bounded.range
    units, about = "rows", ""
    if largest_group is not None:
        units = "groups, each treated as a whole,"
        about = f" of people in groups of at most {largest_group:,}"
    return (
        f"Each certified number{about} holds by itself with probability {1 - delta:.4g}, whatever "
        f"the number of rows, if {units} are independent, all of the same recorded chance {given} "
        f"with the same chance, who was chosen does not depend on these outcomes, and outcomes lie "
        f"in [{low:g}, {high:g}]. {bounded.told}"
    ).rstrip()


def _share_of_chosen(campaign: Campaign, model: TrialModel) -> float | None:
    """The share of the trial's people that the chosen stand for; None if they are not a top share.

    They are if nobody else has a higher score than the lowest of them.
    """
    chosen = campaign.chosen
    if campaign.score is None or not chosen.any():
        return None
    score = campaign.score[:, 0]
    lowest = float(score[chosen].min())
    known = np.isfinite(score)
    if chosen.all():
        return 1.0
    if (score[known & ~chosen] > lowest).any():
        return None
    at = score == lowest
    part = float(np.count_nonzero(at & chosen)) / np.count_nonzero(at)
    share = model.evidence.expected.scores.share_of(lowest, part)
    return share if share > 0 else None


def promised(
    campaign: Campaign,
    as_run: Floats,
    level: float,
    model: TrialModel | ArmsModel | None = None,
    share: float | None = None,
) -> Promise | None:
    """The forecast of the people who were treated against their gain; None if either is unknown.

    ``as_run``: coefficients of that gain. ``share``: of the trial's people, that the chosen stand
    for. Of people who were treated without having been chosen a list may have no forecast: then
    both are of the chosen who were treated.
    """
    harmed = False
    for covers, who in ((ALL_TREATED, True), (CHOSEN_TREATED, campaign.is_chosen)):
        own = as_run * np.reshape(who, (-1, 1))
        if campaign.why_unknown(own) is not None or not own.any():
            continue
        realised = campaign.means.contrast(own, level)
        harmed = harmed or (realised.declined is None and realised.upper < 0)
        rows = (campaign.arm > 0) & np.broadcast_to(who, len(campaign.cells))[campaign.cell]
        forecast, source = _by_trial(campaign, model, share, rows), _BY_TRIAL
        if forecast is None:
            known = {} if model is None else evidence_by_label(campaign, model)
            forecast, source = _by_uplifts(campaign, known, rows), _BY_UPLIFTS
        if forecast is None:
            continue
        reach = float(ndtri((1 + level) / 2)) * forecast.standard_error
        low, high = forecast.value - reach, forecast.value + reach
        found = promise_of(realised, forecast._replace(lower=low, upper=high), source, covers)
        return replace(found, verdict=ForecastVerdict.HARM) if harmed else found
    return None


def _by_trial(
    campaign: Campaign, model: TrialModel | ArmsModel | None, share: float | None, rows: Bools
) -> Estimate | None:
    """What as many of the trial's people gained, of the top share and of the rest.

    None if the chosen are no top share, or those who were treated no random part of either.
    """
    if share is None or not isinstance(model, TrialModel):
        return None
    top, n_chosen_cells = expected_effect(model.evidence, share), int(campaign.is_chosen.sum())
    if top.declined or n_chosen_cells > 1 or len(campaign.cells) - n_chosen_cells > 1:
        return None
    found = top.scaled(int((rows & campaign.chosen).sum()))
    n_rest = int((rows & ~campaign.chosen).sum())
    if n_rest == 0:
        return found
    if share >= 1:
        return None
    # The rest of the trial are other rows, and of no larger variance than the whole.
    whole = expected_effect(model.evidence, 1.0)
    value = found.value + n_rest * (whole.value - share * top.value) / (1 - share)
    error = float(np.hypot(found.standard_error, n_rest * whole.standard_error / (1 - share)))
    return Estimate(value, error, np.nan, np.nan)


def _by_uplifts(campaign: Campaign, known: Mapping[str, Evidence], rows: Bools) -> Estimate | None:
    """The sum of the uplifts of what people got; None if they are not known of all.

    The error is that of the trial's gain of as large a part of its people with the highest scores,
    for each arm; 0 without the evidence of each.
    """
    if campaign.uplift is None:
        return None
    arm = campaign.arm[rows]
    total, squares = float(campaign.uplift[rows, arm - 1].sum()), 0.0
    if not np.isfinite(total):
        return None
    for own, n in zip(*np.unique(arm, return_counts=True), strict=True):
        if (evidence := known.get(campaign.labels[own])) is None:
            return Estimate(total, 0.0, np.nan, np.nan)
        squares += (n * expected_effect(evidence, n / len(campaign.y)).standard_error) ** 2
    return Estimate(total, float(np.sqrt(squares)), np.nan, np.nan)


def advice_on(
    model: TrialModel | ArmsModel | None,
    drift: tuple[DriftTest, ...],
    promise: Promise | None,
    over_random: Comparison,
    harm: str | None,
) -> Advice | None:
    """What to do with the model; None if there is none."""
    if model is None:
        return None
    if model.warning:
        return Advice("refit", model.warning)
    is_better = None if over_random.lower is None else over_random.lower > 0
    verdict = None if promise is None else promise.verdict
    exceeded = promise is not None and promise.is_exceeded
    return advise(drift, verdict, exceeded=exceeded, is_better=is_better, harm=harm)


def harm_shown(campaign: Campaign, contrasts: Mapping[str, Floats], level: float) -> str | None:
    """Who is shown to lose by the treatment; by words, asked in turn until some gain."""
    for words, coefficients in contrasts.items():
        if campaign.why_unknown(coefficients) is None:
            came = campaign.means.contrast(coefficients, level)
            if came.declined is None and came.upper < 0:
                return words.format(f"{-came.value:,.1f} {campaign.columns.gain}")
            if came.declined is None and came.lower > 0:
                return None
    return None


def _next_time(found: dict[str, Comparison]) -> str | None:
    """What to change so that more can be told."""
    reasons = dict.fromkeys(one.unknown for one in found.values() if one.unknown is not None)
    if not reasons or set(reasons) == {"everybody was chosen"}:
        return None
    return (
        f"Next time, keep a random part of the list untreated and treat a random part of the rest "
        f"({'; '.join(map(str, reasons))}): {NEXT_TIME}"
    )


def _notes(campaign: Campaign, model: TrialModel | None) -> tuple[str, ...]:
    found = []
    if campaign.cells[0].chances is None:
        found.append(
            "No chances were given: all who were chosen are taken to have had one chance of "
            "treatment, and all others another one. The rows cannot tell whether that is so: name "
            "the column, if there is one, by propensity=COLUMN."
        )
    if model is not None and campaign.score is None:
        found.append(_NO_SCORES)
    if campaign.columns.kind(campaign.y) == MONEY:
        found.append("Gains are sums of money over all who were chosen.")
    return tuple(found)
