"""Is a campaign still like the trial of its model: the people, their scores, rates and effects?

A model's evidence holds numbers and no rows, so each test compares a campaign's number with the one
of the trial, and both errors count:

* **scores**: the largest difference, over thresholds, of the shares of people above it;
* **people**: of the features that tell high scores from low ones, the largest difference of means
  in standard deviations;
* **base rate**: the mean outcome of the untreated;
* **average effect**, if some of the rest were treated;
* **ranking**: how much more the chosen gain than people on average.

With many rows any two groups of people differ, so the first two ask whether they differ by more
than what matters (``TOLERANCE``): that is also what a model's own rows may differ from new ones in
their scores. p-values are corrected by Holm's method: without any drift, one of them is below .05
with a probability of .05 at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import kolmogi, kolmogorov, ndtr, ndtri

from auucmax._validation import Floats
from auucmax.data.balance import holm
from auucmax.trial.campaign import Campaign, effects_of
from auucmax.trial.contrasts import Estimate
from auucmax.trial_model import Evidence, TrialModel
from auucmax.trial_model.judging import describe_drivers

TOLERANCE = {"scores": 0.05, "people": 0.1}  #: shares of people, and standard deviations
LEVEL = 0.05
MOST_TESTS = 5
_POWER = float(ndtri(0.8))
# Errors of a change that is found four times in five, by the first of five corrected tests.
_FOUND = float(-ndtri(LEVEL / 2 / MOST_TESTS)) + _POWER
_NAMED = {"ranking": "gain of the chosen over others"}
_LEAST_ROWS = 20  # of the untreated, of whom a rate is compared


class DriftTest(NamedTuple):
    """One number of the trial against that of the campaign.

    ``p_value`` is corrected for the number of tests; ``detectable``: how large a change would be
    found four times in five, or oftener.
    """

    what: str
    trial: float
    campaign: float
    p_value: float
    detectable: float

    @property
    def is_found(self) -> bool:
        return self.p_value < LEVEL


class Advice(NamedTuple):
    """What to do: "keep", "recalibrate", "refit", "stop" or "cannot tell", and why."""

    action: str
    reason: str

    def __str__(self) -> str:
        return f"{self.action}: {self.reason}"


def expected_effect(evidence: Evidence, share: float) -> Estimate:
    """The effect on a person among the top share of the trial; ends hold at all shares together."""
    at = evidence.expected.on([share])
    numbers = (at.uplift, at.standard_error, at.lower, at.upper)
    value, error, lower, upper = (float(number[0]) / share for number in numbers)
    why = None if np.isfinite(lower) else evidence.expected.declined or "too few rows of the trial"
    return Estimate(value, error, lower, upper, why)


def drift_tests(
    campaign: Campaign, model: TrialModel, share: float | None
) -> tuple[DriftTest, ...]:
    """All tests that the rows and the model's evidence allow.

    ``share``: of the trial's people, that the chosen stand for; None if it is not known.
    """
    evidence = model.evidence
    found = [*_score_tests(campaign, evidence), *_people_tests(campaign, evidence, model)]
    found += _rate_tests(campaign, evidence)
    found += _effect_tests(campaign, evidence, share)
    adjusted = holm(np.array([test.p_value for test in found]))
    tests = [t._replace(p_value=float(p)) for t, p in zip(found, adjusted, strict=True)]
    return tuple(tests)


def advise(
    tests: Sequence[DriftTest],
    promise: str | None = None,
    *,
    is_better: bool | None = None,
    harm: str | None = None,
) -> Advice:
    """What to do with the model; ``promise``: the verdict on what it had promised, if there is one.

    ``is_better``: whether the chosen are shown to gain more than random people; None if that cannot
    be told. ``harm``: who is shown to lose by the treatment, in words; None if nobody is.

    >>> moved = DriftTest("average effect", 0.05, 0.02, 0.001, 0.01)
    >>> print(advise([moved]))
    recalibrate: the average effect is 0.02, in the trial it was 0.05; the order of people is not
    shown to be wrong, the amounts are.
    >>> advise([moved], is_better=False).action
    'refit'
    >>> advise([]).action, advise([moved._replace(p_value=0.9)], "kept").action
    ('cannot tell', 'keep')
    >>> print(advise([], harm="the chosen lose 12 visit by it"))
    stop: the chosen lose 12 visit by it, beyond chance. Send nothing until it is known why.
    """
    if harm is not None:
        return Advice("stop", f"{harm}, beyond chance. Send nothing until it is known why.")
    found = {test.what.split(":")[0].split(" ")[0]: test for test in tests if test.is_found}
    ranking, effect = found.get("ranking"), found.get("average")
    told = "; ".join(_told(test) for test in found.values())
    missed = promise in ("fell short", "exceeded")
    fell = promise == "fell short" or (effect is not None and effect.campaign < effect.trial)
    if fell and is_better is False:
        short = told or "the promise fell short"
        return Advice("refit", f"{short}, and the chosen are not shown to gain more than others.")
    # Where all effects fell, so did what the chosen gain more; the order may hold.
    if ranking is not None and ranking.campaign < ranking.trial and not (fell and is_better):
        return Advice("refit", f"{told}: those who were chosen gain too little more than others.")
    moved = missed or {"base", "average"} & set(found)
    if moved and {"scores", "people"} & set(found):
        return Advice("refit", f"{told}: the people are others, and gain otherwise.")
    if found or missed:
        short = f"the promise {'was exceeded' if promise == 'exceeded' else promise}"
        why = "; ".join(filter(None, [told, short if missed else ""]))
        order = "the order of people is not shown to be wrong, the amounts are"
        if is_better:
            order = "the chosen still gain more than others, but other amounts"
        if not moved and not ranking:
            order = "the amounts are those of other people"
        return Advice("recalibrate", f"{why}; {order}.")
    if not tests and promise in (None, "open"):
        return Advice("cannot tell", "nothing of the campaign could be compared with the trial.")
    # A promise that is kept shows an effect; otherwise its loss must be one that would be seen.
    whole = next((test for test in tests if test.what == "average effect"), None)
    found_nothing = _nothing_found(tests)
    if whole is None or whole.detectable >= abs(whole.trial):
        if promise != "kept":
            return Advice("cannot tell", _too_few(whole, found_nothing))
        found_nothing += " The chosen gained, as was promised."
    return Advice("keep", found_nothing)


def _too_few(effect: DriftTest | None, found: str) -> str:
    """Why nothing follows from no change being found."""
    if effect is None:
        return f"{found} Whether the treatment still works could not be tested."
    return (
        f"{found} In the trial the average effect was {effect.trial:.2g}: had it gone altogether, "
        f"that might not have been seen. More rows, or more exploration, tell more."
    )


def _nothing_found(tests: Sequence[DriftTest]) -> str:
    """What was looked for, and how large it would have had to be."""
    least = [
        f"a change of the {_NAMED.get(test.what, test.what)} by {test.detectable:.2g}"
        for test in tests
        if test.what in ("average effect", "ranking", "base rate")
    ]
    seen = f"; {' or '.join(least)} would have been found four times in five" if least else ""
    return f"no change since the trial was found in {len(tests)} tests{seen}."


def _told(test: DriftTest) -> str:
    if test.what == "scores":
        return f"the share of people above some score differs by {test.campaign:.1%}"
    if test.what.startswith("people"):
        name = test.what.removeprefix("people: ")
        return f"the mean of {name} is {test.campaign:.4g}, in the trial it was {test.trial:.4g}"
    name = _NAMED.get(test.what, test.what)
    return f"the {name} is {test.campaign:.4g}, in the trial it was {test.trial:.4g}"


def _test(what: str, trial: tuple[float, float], own: tuple[float, float]) -> list[DriftTest]:
    """A normal test of two numbers, each with its standard error."""
    error = float(np.hypot(trial[1], own[1]))
    if not np.isfinite(error) or error == 0:
        return []
    p_value = float(2 * ndtr(-abs(own[0] - trial[0]) / error))
    return [DriftTest(what, trial[0], own[0], p_value, _FOUND * error)]


def _score_tests(campaign: Campaign, evidence: Evidence) -> list[DriftTest]:
    scores = evidence.expected.scores
    if campaign.score is None or not np.isfinite(campaign.score).all():
        return []
    score = campaign.score[:, 0]
    n_units = len(score)
    if campaign.groups is not None:  # cautious: as if people of a group had one score
        n_units = len(np.unique(campaign.groups))
    distance = scores.shift(np.sort(score)).distance
    # Kish's size of both samples; the distance beyond what matters is due to sampling alone.
    size = 1 / (1 / scores.n_rows + 1 / n_units)
    beyond = max(distance - TOLERANCE["scores"], 0.0)
    p_value = float(kolmogorov(np.sqrt(size) * beyond))
    # A share of people has a standard error of at most 1/2 over the root of their number.
    far = float(kolmogi(LEVEL / MOST_TESTS)) + _POWER / 2
    least = TOLERANCE["scores"] + far / float(np.sqrt(size))
    return [DriftTest("scores", 0.0, distance, p_value, least)]


def _people_tests(campaign: Campaign, evidence: Evidence, model: TrialModel) -> list[DriftTest]:
    """Features whose mean and deviation follow from what the model keeps of its drivers."""
    if not campaign.has_features or campaign.score is None or campaign.groups is not None:
        return []
    known = evidence["drivers"]
    features = campaign.frame[list(model.columns.features)]
    own = describe_drivers(features, campaign.score[:, 0], share=known["share"])
    new = {(one["name"], one["level"]): one for one in own["features"]}
    found = []
    for old in known["features"]:
        match = new.get((old["name"], old["level"]))
        gap = _gap(old, match, known["share"])
        if gap is None:
            continue
        was, now, deviation = gap
        error = float(np.sqrt(1 / evidence["rows"]["n_rows"] + 1 / len(campaign.y)))
        beyond = max(abs(now - was) / deviation - TOLERANCE["people"], 0.0) / error
        level = "" if old["level"] is None else f" = {old['level']}"
        least = (TOLERANCE["people"] + _FOUND * error) * deviation
        # One-sided beyond either edge of what matters.
        p_value = float(min(2 * ndtr(-beyond), 1.0))
        found.append(DriftTest(f"people: {old['name']}{level}", was, now, p_value, least))
    # One test of them all, told by the feature that differs most: many must not drown the others.
    worst = min(found, key=lambda test: test.p_value, default=None)
    return [] if worst is None else [worst._replace(p_value=min(len(found) * worst.p_value, 1.0))]


def _gap(
    old: dict[str, Any], new: dict[str, Any] | None, share: float
) -> tuple[float, float, float] | None:
    """The mean of a feature then and now, and its deviation then; None if they do not follow."""
    if new is None or not old["difference"]:
        return None
    ends = [old["top"], old["rest"], new["top"], new["rest"]]
    if any(end is None for end in ends):
        return None
    deviation = (old["top"] - old["rest"]) / old["difference"]
    was, now = (share * one["top"] + (1 - share) * one["rest"] for one in (old, new))
    return (was, now, deviation) if deviation > 0 else None


def _rate_tests(campaign: Campaign, evidence: Evidence) -> list[DriftTest]:
    counts, rows = campaign.means.counts, evidence["rows"]
    if counts[:, 0].min() < _LEAST_ROWS:
        return []
    weights = np.column_stack([campaign.sizes, np.zeros(len(counts))]) / len(campaign.y)
    own = campaign.means.contrast(weights)
    columns = campaign.columns
    mean = float(columns.in_table(np.array([rows["mean_control"]]))[0])
    # The error of one arm's mean is at most that of the difference of both.
    error = evidence["effect"]["standard_error"]
    if rows["binary"] and rows["groups"] is None:
        error = float(np.sqrt(mean * (1 - mean) / rows["control"]))
    return _test("base rate", (mean, error), own[:2])


def _effect_tests(campaign: Campaign, evidence: Evidence, share: float | None) -> list[DriftTest]:
    sizes, n = campaign.sizes.astype(np.float64), len(campaign.y)
    if campaign.why_unknown(effects_of(sizes)) or campaign.means.counts.min() < _LEAST_ROWS:
        return []
    effect = evidence["effect"]
    whole = effect["estimate"], effect["standard_error"]
    found = _test("average effect", whole, campaign.means.effect(sizes / n)[:2])
    if share is None or not 0 < share < 1 or not campaign.is_chosen.any():
        return found
    top = expected_effect(evidence, share)
    if top.declined is not None:
        return found
    # V(q) / q - V(1) = (1/q - 1) V(q) - R, R the part of the effect below the top: other rows, and
    # of no larger variance than the whole.
    error = np.hypot((1 - share) * top.standard_error, whole[1])
    then = top.value - whole[0], float(error)
    own = campaign.means.effect(beyond_random(campaign) / campaign.chosen.sum())
    return found + _test("ranking", then, own[:2])


def beyond_random(campaign: Campaign) -> Floats:
    """(cells,) weights of the gain of the chosen over as many people at random."""
    share = float(campaign.chosen.mean())
    return np.asarray(campaign.sizes * np.where(campaign.is_chosen, 1 - share, -share), np.float64)
