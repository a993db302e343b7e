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

from dataclasses import dataclass
from typing import Any

import numpy as np

from auucmax._json import plain
from auucmax._shown import Shown
from auucmax._validation import Floats, check_level
from auucmax.bounds.strata import GroupsError, strata_bounds
from auucmax.data.outcomes import MONEY
from auucmax.trial.campaign import (
    NEXT_TIME,
    Campaign,
    CheckedTest,
    check_campaign,
    doubts,
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
from auucmax.trial_model import TrialModel
from auucmax.trial_model.columns import Bounded

#: What treating the chosen is compared with, and how it is said.
AGAINST = {
    "nobody": "against treating nobody",
    "random": "against as many at random",
    "everybody": "against treating everybody",
    "as_run": "as it was run, against nobody",
}
NO_RANGE = (
    "Nothing is certified, for outcomes are not 0/1, and no range of them is known that holds most "
    "of them. Pass outcome_range=(0, 500), say."
)


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
    n_people, n_chosen, n_treated, n_treated_rest : people with an outcome, those who were chosen,
        and how many of the chosen and of the rest were treated.
    comparisons : by what the chosen are compared with: "nobody", "random", "everybody", and
        "as_run": what the campaign as it was run, with its exploration, brought over nobody.
    promise : None if nothing is known to have been promised. drift : tests against the trial of the
        model. advice : what to do with it.
    check : tests of the randomisation within the chosen and the rest.
    certificate : a sentence on what certified numbers rest on, or why there are none.
    next_time : what to change so that more can be told; None if all is.
    """

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

    def rows(self) -> dict[str, str]:
        """Names and values for a printed table."""
        found = {
            f"gain in {self.outcome}, {words}": str(self.comparisons[name])
            for name, words in AGAINST.items()
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
    found, certificate = _comparisons(campaign, level, delta, largest_group, random_state)
    share = None if model is None else _share_of_chosen(campaign, model)
    promise = _promise(campaign, model, share, level)
    drift = () if model is None or model.warning else drift_tests(campaign, model, share)
    counts = campaign.means.counts
    return Verification(
        outcome=campaign.columns.gain,
        n_people=len(campaign.y),
        n_chosen=int(campaign.chosen.sum()),
        n_treated=int(counts[campaign.is_chosen, 1].sum()),
        n_treated_rest=int(counts[~campaign.is_chosen, 1].sum()),
        level=level,
        delta=delta,
        comparisons=found,
        promise=promise,
        drift=drift,
        advice=_advice(model, drift, promise, found["random"], _harm(campaign, level)),
        check=check,
        certificate=certificate,
        next_time=_next_time(found),
        notes=(*campaign.notes, *_notes(campaign, model)),
    )


def _weights(campaign: Campaign) -> dict[str, Floats]:
    """(cells,) of each comparison: how often the effect of a cell counts."""
    sizes, is_chosen = campaign.sizes.astype(np.float64), campaign.is_chosen
    return {
        "nobody": sizes * is_chosen,
        "random": beyond_random(campaign),
        "everybody": -sizes * ~is_chosen,
        "as_run": campaign.means.counts[:, 1].astype(np.float64),
    }


def _comparisons(
    campaign: Campaign, level: float, delta: float, largest_group: int | None, random_state: int
) -> tuple[dict[str, Comparison], str]:
    """What the chosen gained against each alternative, and words on the certificate."""
    weights, found = _weights(campaign), dict[str, Comparison]()
    for name, own in weights.items():
        why = _why_unknown(campaign, name, own)
        if why is not None:
            found[name] = Comparison(name, unknown=why)
            continue
        value, error, lower, upper, declined = campaign.means.effect(own, level)
        found[name] = Comparison(
            name,
            estimate=value,
            standard_error=error,
            lower=None if declined else lower,
            upper=None if declined else upper,
            declined=declined,
        )
    told = [name for name, one in found.items() if one.unknown is None]
    bounded = campaign.columns.bounded(campaign.y)
    if not told:
        return found, "Nothing is certified, for nothing can be told."
    if bounded is None:
        return found, NO_RANGE
    try:
        bounds = strata_bounds(
            np.clip(campaign.y, *bounded.range), treatment=campaign.treated, stratum=campaign.cell,
            weights=np.stack([weights[name] for name in told]), groups=campaign.groups, delta=delta,
            outcome_range=bounded.range, largest_group=largest_group, random_state=random_state,
        )  # fmt: skip
    except GroupsError as error:
        return found, f"Nothing is certified: {error}"
    for name, low, high in zip(told, bounds.lower.tolist(), bounds.upper.tolist(), strict=True):
        numbers = vars(found[name]) | {"certified_lower": low, "certified_upper": high}
        found[name] = Comparison(**numbers)
    return found, certificate_words(bounds.largest_group, bounded, delta)


def _why_unknown(campaign: Campaign, name: str, weights: Floats) -> str | None:
    if name != "nobody" and campaign.chosen.all():
        return "everybody was chosen" if name != "as_run" else campaign.without_an_arm(weights)
    return campaign.without_an_arm(weights)


def certificate_words(
    largest_group: int | None, bounded: Bounded, delta: float, given: str = "were treated"
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
    score, chosen = campaign.score, campaign.chosen
    if score is None or not chosen.any():
        return None
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


def _promise(
    campaign: Campaign, model: TrialModel | None, share: float | None, level: float
) -> Promise | None:
    """What was expected of the chosen against what came; None if either is not known."""
    weights = _weights(campaign)["nobody"]
    if campaign.without_an_arm(weights) or (model is not None and model.warning):
        return None
    n_chosen, came = int(campaign.chosen.sum()), campaign.means.effect(weights, level)
    promised: Estimate | None = None
    source = "the trial's people of such scores"
    if model is not None and share is not None:
        promised = expected_effect(model.evidence, share).scaled(n_chosen)
    if promised is None or promised.declined:
        uplift = None if campaign.uplift is None else campaign.uplift[campaign.chosen]
        if uplift is None and model is not None and campaign.score is not None:
            uplift = np.asarray(model.calibration(campaign.score[campaign.chosen]))
        if uplift is None:
            return None
        total = float(uplift.sum())
        promised, source = Estimate(total, 0.0, total, total), "the sum of the uplifts"
    off = came.minus(promised)
    has_ends = off.declined is None
    is_number = source != "the sum of the uplifts"
    return Promise(
        source=source,
        promised=promised.value,
        promised_lower=promised.lower if is_number else None,
        promised_upper=promised.upper if is_number else None,
        came=came.value,
        difference=off.value,
        lower=off.lower if has_ends else None,
        upper=off.upper if has_ends else None,
        verdict=promise_verdict(off, came),
    )


def promise_verdict(difference: Estimate, came: Estimate) -> str:
    """Whether a promise was kept, by what came and its difference to what was promised."""
    if difference.declined is not None:
        return "open"
    if difference.upper < 0:
        return "fell short"
    if difference.lower > 0:
        return "exceeded"
    return "kept" if came.lower > 0 or came.upper < 0 else "open"


def _advice(
    model: TrialModel | None,
    drift: tuple[DriftTest, ...],
    promise: Promise | None,
    over_random: Comparison,
    harm: str | None,
) -> Advice | None:
    if model is None:
        return None
    if model.warning:
        return Advice("refit", model.warning)
    is_better = None if over_random.lower is None else over_random.lower > 0
    kept = None if promise is None else promise.verdict
    return advise(drift, kept, is_better=is_better, harm=harm)


def _harm(campaign: Campaign, level: float) -> str | None:
    """Who is shown to lose by the treatment: the chosen, or all people where these do not gain."""
    gain, n = campaign.columns.gain, len(campaign.y)
    chosen = _weights(campaign)["nobody"]
    own = None if campaign.without_an_arm(chosen) else campaign.means.effect(chosen, level)
    if own is not None and own.declined is None:
        if own.upper < 0:
            return f"the chosen lost {-own.value:,.1f} {gain} by the treatment"
        if own.lower > 0:
            return None
    everybody = campaign.sizes.astype(np.float64)
    if campaign.without_an_arm(everybody):
        return None
    whole = campaign.means.effect(everybody / n, level)
    if whole.declined is None and whole.upper < 0:
        return f"the average effect on {gain} is {whole.value:.3g}"
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
    if campaign.cells[0].chance is None:
        found.append(
            "No chances were given: everyone among the chosen, and everyone else, is taken to have "
            "had the same chance of treatment, which the counts cannot contradict."
        )
    if model is not None and campaign.score is None:
        found.append(
            "Scores are not known, for neither the features of the model nor a column 'score' are "
            "there: neither the promise of the trial nor a drift of the scores can be told."
        )
    if campaign.columns.kind(campaign.y) == MONEY:
        found.append("Gains are sums of money over all who were chosen.")
    return tuple(found)
