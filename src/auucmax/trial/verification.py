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

from auucmax._json import plain
from auucmax._shown import Shown
from auucmax._validation import Floats, check_level
from auucmax.bounds.strata import GroupsError, StrataBounds, strata_bounds
from auucmax.data.outcomes import MONEY
from auucmax.targeting.decision import Decision, of_gain
from auucmax.trial.campaign import (
    NEXT_TIME,
    Campaign,
    CheckedTest,
    check_campaign,
    doubts,
    effects_of,
    read_campaign,
)
from auucmax.trial.contrasts import Estimate
from auucmax.trial.drift import (
    Advice,
    DriftTest,
    advise,
    beyond_random,
    drift_tests,
    expected_effect,
)
from auucmax.trial_model import ArmsModel, TrialModel
from auucmax.trial_model.columns import Bounded

#: What treating the chosen is compared with, and how it is said.
AGAINST = {
    "nobody": "against treating nobody",
    "random": "against as many at random",
    "everybody": "against treating everybody",
    "as_run": "as it was run, against nobody",
}
_NO_RANGE = (
    "Nothing is certified, for outcomes are not 0/1, and no range of them is known that holds most "
    "of them. Pass outcome_range=(0, 500), say."
)
_NO_SCORES = (
    "Scores are not known, for neither the features of the model nor a column 'score' are there: "
    "neither the promise of the trial nor a drift of the scores can be told."
)
_NEEDS_OTHERS = ("random", "everybody")  # people who were not chosen
BEST_SINGLE = "best single"
CHOSEN = "those who were chosen"  #: whom the decision is about
_BY_UPLIFTS = "the sum of the uplifts"


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
class Promise(Shown):
    """What was promised of the chosen, and what came; in outcomes of them all.

    ``verdict``: "kept", if the interval of the difference holds 0 and that of what came does not;
    "fell short"; "exceeded"; "open", if the rows tell neither a kept promise nor no gain at all
    apart.
    """

    source: str
    promised: float
    promised_lower: float | None
    promised_upper: float | None
    came: float
    difference: float
    lower: float | None
    upper: float | None
    verdict: str

    def __str__(self) -> str:
        ends = "" if self.lower is None else f" ({self.lower:+,.1f} to {self.upper:+,.1f})"
        return (
            f"promised {self.promised:,.1f}, came {self.came:,.1f}: a difference of "
            f"{self.difference:+,.1f}{ends}. {_VERDICTS[self.verdict]}"
        )


_VERDICTS = {
    "kept": "The promise was kept, as far as chance lets it be told.",
    "fell short": "The promise was not kept: less came than chance explains.",
    "exceeded": "More came than was promised, and than chance explains.",
    "open": "Too few rows to tell whether the promise was kept.",
}


@dataclass(frozen=True, repr=False)
class Verification(Shown):
    """What :func:`verify` found; printing it tells all of it, ``to_dict`` gives plain JSON.

    Attributes
    ----------
    n_people, n_chosen, n_treated, n_treated_rest : people with an outcome, those for whom an arm
        was chosen, and how many of the chosen and of the rest were treated.
    comparisons : by what the chosen are compared with: "nobody", "random", "everybody", and
        "as_run": what the campaign as it was run, with its exploration, brought over nobody.
    promise : None if nothing is known to have been promised. drift : tests against the trial of the
        model. advice : what to do with it.
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
            found[f"what was promised ({self.promise.source})"] = str(self.promise)
        if self.advice is not None:
            found["what to do with the model"] = str(self.advice)
        return found

    def sentences(self) -> tuple[str, ...]:
        """What has to be known with the numbers."""
        next_time = () if self.next_time is None else (self.next_time,)
        return (*self.notes, self.certificate, *next_time)

    def __str__(self) -> str:
        rows = [f"{name}: {value}" for name, value in self.rows().items()]
        return "\n".join([*self.doubts, self.title, *rows, *self.sentences()])

    def to_dict(self) -> dict[str, Any]:
        """All numbers and sentences as plain JSON; ``told`` is what is printed."""
        found = dict(vars(self))
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
    """Say what a targeted campaign gained, whether it was as promised, and whether it still is.

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
        outcome_range : as in :func:`auucmax.trial_model.fit_trial_model`; a ``model`` knows them.
    model : that chose the people. With its features, or a column ``score`` (as ``target`` writes
        it), it says what was promised, and whether people and effects are still those of its trial.
        Without a model, a column ``uplift`` of the list says what was promised.
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
        promise = promised(campaign, own["nobody"], level, _by_trial(campaign, model, share))
    if model is not None and not model.warning:
        drift = drift_tests(campaign, model, share)
    return Verification(
        comparisons=found,
        promise=promise,
        drift=drift,
        advice=advice_on(model, drift, promise, found["random"], _harm(campaign, own, level)),
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
        "as_run": campaign.means.counts[:, 1].astype(np.float64),
    }
    return {name: effects_of(own) for name, own in weights.items()}


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


def _by_trial(campaign: Campaign, model: TrialModel | None, share: float | None) -> Estimate | None:
    """What the trial's people of such scores gained, if the chosen are a top share of them."""
    if model is None or share is None:
        return None
    found = expected_effect(model.evidence, share).scaled(int(campaign.chosen.sum()))
    return None if found.declined else found


def promised(
    campaign: Campaign, nobody: Floats, level: float, by_trial: Estimate | None = None
) -> Promise | None:
    """What was promised of what was chosen against what came; None if either is not known.

    ``nobody``: coefficients of the gain over treating nobody. Without a promise ``by_trial``, it is
    the sum of the uplifts, which has no error of its own.
    """
    if campaign.why_unknown(nobody) is not None:
        return None
    expected, source = by_trial, "the trial's people of such scores"
    if expected is None:
        if campaign.uplift is None:
            return None
        chosen = campaign.chosen
        total = float(campaign.uplift[chosen, campaign.policy[chosen] - 1].sum())
        if not np.isfinite(total):
            return None
        expected, source = Estimate(total, 0.0, total, total), _BY_UPLIFTS
    came = campaign.means.contrast(nobody, level)
    off = came.minus(expected)
    return Promise(
        source=source,
        promised=expected.value,
        promised_lower=None if by_trial is None else expected.lower,
        promised_upper=None if by_trial is None else expected.upper,
        came=came.value,
        difference=off.value,
        lower=None if off.declined else off.lower,
        upper=None if off.declined else off.upper,
        verdict=_promise_verdict(off, came),
    )


def _promise_verdict(difference: Estimate, came: Estimate) -> str:
    """Whether a promise was kept, by what came and its difference to what was promised."""
    if difference.declined is not None:
        return "open"
    if difference.upper < 0:
        return "fell short"
    if difference.lower > 0:
        return "exceeded"
    return "kept" if came.lower > 0 or came.upper < 0 else "open"


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
    kept = None if promise is None else promise.verdict
    return advise(drift, kept, is_better=is_better, harm=harm)


def harm_of_chosen(campaign: Campaign, came: Estimate) -> str | None:
    """That the chosen are shown to lose by what was chosen for them; None if they are not."""
    if came.declined is not None or came.upper >= 0:
        return None
    return f"the chosen lost {-came.value:,.1f} {campaign.columns.gain} by the treatment"


def _harm(campaign: Campaign, own: Mapping[str, Floats], level: float) -> str | None:
    """Who is shown to lose by the treatment: the chosen, or all people where these do not gain."""
    if not campaign.why_unknown(own["nobody"]):
        came = campaign.means.contrast(own["nobody"], level)
        harm = harm_of_chosen(campaign, came)
        if harm is not None or (came.declined is None and came.lower > 0):
            return harm
    everybody = effects_of(campaign.sizes / len(campaign.y))
    if campaign.why_unknown(everybody):
        return None
    whole = campaign.means.contrast(everybody, level)
    if whole.declined is None and whole.upper < 0:
        return f"the average effect on {campaign.columns.gain} is {whole.value:.3g}"
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
