"""Is a campaign still like the trial of its model: the people, their scores, rates and effects?

A model's evidence holds numbers and no rows, so each test compares a campaign's number with the one
of the trial, and both errors count:

* **scores**: the largest difference, over thresholds, of the shares of people above it;
* **people**: of the features that tell high scores from low ones, the largest difference of means
  in standard deviations;
* **base rate**: the mean outcome of the untreated;
* **average effect**, if some of the rest were treated;
* **ranking**: how much more the chosen gain than people on average, if there is one arm.

Of several arms, scores and average effects are compared arm by arm.

With many rows any two groups of people differ, so the first two ask whether they differ by more
than what matters (``TOLERANCE``): that is also what a model's own rows may differ from new ones in
their scores. p-values are corrected by Holm's method: without any drift, one of them is below .05
with a probability of .05 at most.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import kolmogi, kolmogorov, ndtr, ndtri

from auucmax._json import short
from auucmax._validation import Floats
from auucmax.campaign.campaign import Campaign
from auucmax.campaign.contrasts import Estimate
from auucmax.campaign.forecast import ForecastVerdict
from auucmax.data.balance import holm
from auucmax.encoding.kinds import kind_of, numbers_of, texts_of
from auucmax.model import ArmsModel, Evidence, TrialModel

TOLERANCE = {"scores": 0.05, "people": 0.1}  #: shares of people, and standard deviations
LEVEL = 0.05
_POWER = float(ndtri(0.8))
_NAMED = {"ranking": "gain of the chosen over others"}
_LEAST_ROWS = 20  # of each arm of a cell, of whom rates and effects are compared


class DriftTest(NamedTuple):
    """One number of the trial against that of the campaign.

    ``p_value`` is corrected for the number of tests; ``detectable``: how large a change would be
    found four times in five, or oftener. Of a date, numbers are days since 1970.
    """

    what: str
    trial: float
    campaign: float
    p_value: float
    detectable: float
    is_date: bool = False

    @property
    def kind(self) -> str:
        """What was compared, whatever the feature or the arm: its first word."""
        return self.what.split(":")[0].split(" ")[0]

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


def evidence_by_label(campaign: Campaign, model: TrialModel | ArmsModel) -> dict[str, Evidence]:
    """What a model knows of each arm of its trial."""
    if isinstance(model, TrialModel):
        return {campaign.labels[1]: model.evidence}
    return model.evidence.arms


def drift_tests(
    campaign: Campaign, model: TrialModel | ArmsModel, share: float | None = None
) -> tuple[DriftTest, ...]:
    """All tests that the rows and the model's evidence allow.

    ``share``: of the trial's people, that the chosen stand for, if there is one arm; None if it is
    not known.
    """
    known = evidence_by_label(campaign, model)
    arms = {k: known[label] for k, label in enumerate(campaign.labels) if label in known}
    if not arms:
        return ()
    most = 3 + 2 * len(arms)
    found = list[DriftTest]()
    for arm, evidence in arms.items():
        of = f" of {campaign.labels[arm]}" if campaign.of_arms else ""
        found += _score_tests(campaign, evidence, arm, f"scores{of}", most)
    found += _people_tests(campaign, list(arms.values()), most)
    found += _rate_tests(campaign, next(iter(arms.values())), most)
    for arm, evidence in arms.items():
        of = f" of {campaign.labels[arm]}" if campaign.of_arms else ""
        found += _effect_tests(campaign, evidence, arm, f"average effect{of}", most)
    if not campaign.of_arms:
        found += _ranking_tests(campaign, arms[1], share, most)
    adjusted = holm(np.array([test.p_value for test in found]))
    tests = [t._replace(p_value=float(p)) for t, p in zip(found, adjusted, strict=True)]
    return tuple(tests)


def advise(
    tests: Sequence[DriftTest],
    verdict: ForecastVerdict | None = None,
    *,
    exceeded: bool = False,
    is_better: bool | None = None,
    harm: str | None = None,
) -> Advice:
    """What to do with the model; ``verdict``: that on its forecast, if there is one.

    ``exceeded``: whether the gain was above the forecast, beyond chance. ``is_better``: whether the
    chosen are shown to gain more than random people; None if that is not known. ``harm``: who is
    shown to lose by the treatment, in words; None if nobody is.

    >>> moved = DriftTest("average effect", 0.05, 0.02, 0.001, 0.01)
    >>> print(advise([moved]))
    recalibrate: the average effect is 0.02, in the trial it was 0.05; the order of people is not
    shown to be wrong, the amounts are.
    >>> advise([moved], is_better=False).action
    'refit'
    >>> advise([]).action, advise([moved._replace(p_value=0.9)]).action
    ('cannot tell', 'keep')
    >>> print(advise([], harm="the chosen lose 12 visit by it"))
    stop: the chosen lose 12 visit by it, beyond chance. Send nothing until it is known why.
    """
    if harm is not None:
        return Advice("stop", f"{harm}, beyond chance. Send nothing until it is known why.")
    found = [test for test in tests if test.is_found]
    kinds = {test.kind for test in found}
    ranking = next((test for test in found if test.kind == "ranking"), None)
    told = "; ".join(_told(test) for test in found)
    below = verdict in (ForecastVerdict.BELOW_FORECAST, ForecastVerdict.HARM)
    missed = below or exceeded
    fell = below or any(test.campaign < test.trial for test in found if test.kind == "average")
    if fell and is_better is False:
        short = told or "the gain was below the forecast"
        return Advice("refit", f"{short}, and the chosen are not shown to gain more than others.")
    # Where all effects fell, so did what the chosen gain more; the order may hold.
    if ranking is not None and ranking.campaign < ranking.trial and not (fell and is_better):
        return Advice("refit", f"{told}: those who were chosen gain too little more than others.")
    moved = missed or {"base", "average"} & kinds
    if moved and {"scores", "people"} & kinds:
        return Advice("refit", f"{told}: the people are others, and gain otherwise.")
    if found or missed:
        short = f"the gain was {'above' if exceeded else 'below'} the forecast"
        why = "; ".join(filter(None, [told, short if missed else ""]))
        order = "the order of people is not shown to be wrong, the amounts are"
        if is_better:
            order = "the chosen still gain more than others, but other amounts"
        if not moved and not ranking:
            order = "the amounts are those of other people"
        return Advice("recalibrate", f"{why}; {order}.")
    confirmed = verdict is ForecastVerdict.CONFIRMED
    if not tests and not confirmed:
        return Advice("cannot tell", "nothing of the campaign could be compared with the trial.")
    # A confirmed forecast shows an effect; otherwise its loss must be one that would be seen.
    effects = [test for test in tests if test.kind == "average"]
    unseen = next((test for test in effects if test.detectable >= abs(test.trial)), None)
    found_nothing = _nothing_found(tests)
    if not effects or unseen is not None:
        if not confirmed:
            return Advice("cannot tell", _too_few(unseen, found_nothing))
        found_nothing += " The gain confirms the forecast."
    return Advice("keep", found_nothing)


def _too_few(effect: DriftTest | None, found: str) -> str:
    """Why nothing follows from no change being found."""
    if effect is None:
        return f"{found} Whether the treatment still works could not be tested."
    return (
        f"{found} In the trial the {effect.what} was {effect.trial:.2g}: had it gone altogether, "
        f"that might not have been seen. More rows, or more exploration, tell more."
    )


def _nothing_found(tests: Sequence[DriftTest]) -> str:
    """What was looked for, and how large it would have had to be."""
    least = [
        f"a change of the {_NAMED.get(test.what, test.what)} by {test.detectable:.2g}"
        for test in tests
        if test.kind in ("average", "ranking", "base")
    ]
    seen = f"; {' or '.join(least)} would have been found four times in five" if least else ""
    return f"no change since the trial was found in {len(tests)} tests{seen}."


def _told(test: DriftTest) -> str:
    if test.kind == "scores":
        of = test.what.removeprefix("scores")
        return f"the share of people above some score{of} differs by {test.campaign:.1%}"
    name, now, then = _NAMED.get(test.what, test.what), f"{test.campaign:.4g}", f"{test.trial:.4g}"
    if test.kind == "people":
        name = f"mean of {test.what.removeprefix('people: ')}"
    if test.is_date:
        now, then = (str(np.datetime64(round(day), "D")) for day in (test.campaign, test.trial))
    return f"the {name} is {now}, in the trial it was {then}"


def _errors_found(most: int) -> float:
    """Errors of a change that is found four times in five by the first of so many corrected tests.

    >>> round(_errors_found(5), 2)
    3.42
    """
    return float(-ndtri(LEVEL / 2 / most)) + _POWER


def _test(
    what: str, trial: tuple[float, float], own: tuple[float, float], most: int
) -> list[DriftTest]:
    """A normal test of two numbers, each with its standard error."""
    error = float(np.hypot(trial[1], own[1]))
    if not np.isfinite(error) or error == 0:
        return []
    p_value = float(2 * ndtr(-abs(own[0] - trial[0]) / error))
    return [DriftTest(what, trial[0], own[0], p_value, _errors_found(most) * error)]


def _score_tests(
    campaign: Campaign, evidence: Evidence, arm: int, what: str, most: int
) -> list[DriftTest]:
    scores = evidence.expected.scores
    score = None if campaign.score is None else campaign.score[:, arm - 1]
    if score is None or not np.isfinite(score).all():
        return []
    n_units = len(score)
    if campaign.groups is not None:  # cautious: as if people of a group had one score
        n_units = len(np.unique(campaign.groups))
    distance = scores.shift(np.sort(score)).distance
    # Kish's size of both samples; the distance beyond what matters is due to sampling alone.
    size = 1 / (1 / scores.n_rows + 1 / n_units)
    beyond = max(distance - TOLERANCE["scores"], 0.0)
    p_value = float(kolmogorov(np.sqrt(size) * beyond))
    # A share of people has a standard error of at most 1/2 over the root of their number.
    far = float(kolmogi(LEVEL / most)) + _POWER / 2
    least = TOLERANCE["scores"] + far / float(np.sqrt(size))
    return [DriftTest(what, 0.0, distance, p_value, least)]


def _people_tests(campaign: Campaign, evidences: Sequence[Evidence], most: int) -> list[DriftTest]:
    """Features whose mean and deviation follow from what the model keeps of its drivers."""
    if not campaign.has_features or campaign.groups is not None:
        return []
    found = dict[str, DriftTest]()
    for evidence in evidences:
        error = float(np.sqrt(1 / evidence["rows"]["n_rows"] + 1 / len(campaign.y)))
        for old in evidence["drivers"]["features"]:
            level = "" if old["level"] is None else f" = {old['level']}"
            name = f"people: {old['name']}{level}"
            gap = None if name in found else _gap(old, campaign, evidence["drivers"]["share"])
            if gap is None:
                continue
            was, now, deviation = gap
            beyond = max(abs(now - was) / deviation - TOLERANCE["people"], 0.0) / error
            least = (TOLERANCE["people"] + _errors_found(most) * error) * deviation
            # One-sided beyond either edge of what matters.
            p_value = float(min(2 * ndtr(-beyond), 1.0))
            found[name] = DriftTest(name, was, now, p_value, least, old["is_date"])
    # One test of them all, told by the feature that differs most: many must not drown the others.
    worst = min(found.values(), key=lambda test: test.p_value, default=None)
    return [] if worst is None else [worst._replace(p_value=min(len(found) * worst.p_value, 1.0))]


def _gap(
    old: dict[str, Any], campaign: Campaign, share: float
) -> tuple[float, float, float] | None:
    """The mean of a feature then and now, and its deviation then; None if they do not follow."""
    if not old["difference"] or old["top"] is None or old["rest"] is None:
        return None
    deviation = (old["top"] - old["rest"]) / old["difference"]
    now = _mean_of(campaign.frame[old["name"]], old) if old["name"] in campaign.frame else np.nan
    was = share * old["top"] + (1 - share) * old["rest"]
    return (was, now, deviation) if deviation > 0 and np.isfinite(now) else None


def _mean_of(column: pd.Series, driver: dict[str, Any]) -> float:
    """The mean of a number, of a date as a model counts it, or of having a level; NaN if none."""
    try:
        if pd.api.types.is_timedelta64_dtype(column.dtype):
            column = column / pd.Timedelta(days=1)
        kind = kind_of(column)
        if driver["level"] is not None:
            codes, texts = texts_of(column, kind)
            has = np.array([short(text) == driver["level"] for text in texts], dtype=bool)
            known = has[codes[codes >= 0]]
            # What stands for several others is no level.
            is_one = not re.fullmatch(r"\(\d+ others\)", driver["level"])
            return float(known.mean()) if is_one and len(known) else np.nan
        usual = ("date",) if driver["is_date"] else ("number", "boolean")
        values = numbers_of(column, kind) if kind in usual else np.empty(0)
    except (OverflowError, TypeError, ValueError):
        return np.nan
    values = values[np.isfinite(values)]
    return float(values.mean()) if len(values) else np.nan


def _rate_tests(campaign: Campaign, evidence: Evidence, most: int) -> list[DriftTest]:
    counts, rows = campaign.means.counts, evidence["rows"]
    if counts[:, 0].min() < _LEAST_ROWS:
        return []
    own = campaign.means.contrast(np.outer(campaign.sizes / len(campaign.y), _of(campaign, 0)))
    columns = campaign.columns
    mean = float(columns.in_table(np.array([rows["mean_control"]]))[0])
    # The error of one arm's mean is at most that of the difference of both.
    error = evidence["effect"]["standard_error"]
    if rows["binary"] and rows["groups"] is None:
        error = float(np.sqrt(mean * (1 - mean) / rows["control"]))
    return _test("base rate", (mean, error), own[:2], most)


def _of(campaign: Campaign, arm: int) -> Floats:
    """(A,) 1 for an arm."""
    return np.eye(len(campaign.labels))[arm]


def _effect_tests(
    campaign: Campaign, evidence: Evidence, arm: int, what: str, most: int
) -> list[DriftTest]:
    if campaign.means.counts[:, [0, arm]].min() < _LEAST_ROWS:
        return []
    whole = evidence["effect"]["estimate"], evidence["effect"]["standard_error"]
    against = _of(campaign, arm) - _of(campaign, 0)
    own = campaign.means.contrast(np.outer(campaign.sizes / len(campaign.y), against))
    return _test(what, whole, own[:2], most)


def _ranking_tests(
    campaign: Campaign, evidence: Evidence, share: float | None, most: int
) -> list[DriftTest]:
    few = campaign.means.counts.min() < _LEAST_ROWS
    if few or share is None or not 0 < share < 1 or not campaign.is_chosen.any():
        return []
    top, effect = expected_effect(evidence, share), evidence["effect"]
    if top.declined is not None:
        return []
    # V(q) / q - V(1) = (1/q - 1) V(q) - R, R the part of the effect below the top: other rows, and
    # of no larger variance than the whole.
    error = np.hypot((1 - share) * top.standard_error, effect["standard_error"])
    then = top.value - effect["estimate"], float(error)
    own = campaign.means.effect(beyond_random(campaign) / campaign.chosen.sum())
    return _test("ranking", then, own[:2], most)


def beyond_random(campaign: Campaign) -> Floats:
    """(cells,) weights of the gain of the chosen over as many people at random."""
    share = float(campaign.chosen.mean())
    return np.asarray(campaign.sizes * np.where(campaign.is_chosen, 1 - share, -share), np.float64)
