"""May we stop now? Bounds on a running trial that hold at every look.

A row belongs to the day of its date. Days enter whole, once the outcome window after their end has
closed; within a day the order is that of hashes, which know nothing of arms or outcomes. The rows
of an arm and the control are bet on in this order (:mod:`auucmax.certificates.anytime`). What is
kept between two looks is small: the wealth of the bets, the rows of the open superblock, and for
each day the number of rows and a checksum, by which it is seen that rows stay what they were.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from auucmax._errors import InputError
from auucmax._files import whole_file
from auucmax._validation import (
    Bools,
    Floats,
    check_column,
    check_level,
    check_range,
    check_whole,
    control_among,
    listed,
    missing_message,
)
from auucmax.certificates.anytime import AnytimeBets, Known, WaitingRows, Wealth
from auucmax.data.chances import check_arm_chances, of_labels
from auucmax.data.hashing import MODULUS, keyed_hashes, mix_bits
from auucmax.data.read_trial import id_texts
from auucmax.data.reading import table_of
from auucmax.data.roles import NO_AND_YES, check_names
from auucmax.encoding.kinds import arm_text, kind_of, numbers_of, outcome_numbers
from auucmax.model import UpliftModel
from auucmax.results import Estimate, Kind, Numbers, Outcome, Result

Hashes = NDArray[np.uint64]
Days = NDArray[np.int64]

_WINDOW = re.compile(r"(\d{1,9}(?:\.\d*)?) ?([dwh])?")
_UNITS = {"d": 1.0, "w": 7.0, "h": 1 / 24}
_MOST_DAYS = 36500  # of a window
_FAILED_RATIO = 0.01  # probability of ever blaming a trial whose arms have the planned sizes
_PRIOR_ROWS = 1000.0  # that the planned shares are worth in the test of the sizes
#: ln of how many times as large the odds of an arm might be, where propensities are known.
_TILTS = np.concatenate([sign * np.array([0.02, 0.05, 0.1, 0.2, 0.5]) for sign in (-1, 1)])
_USUAL = 20  # rows of a day: without any a week later, rows are missing
_NEVER = -(2**62)  # before any day


class Verdict(StrEnum):
    """What a look shows, in the order in which it is asked. Each holds at all looks together."""

    STOP_FAILED_RATIO = "the arms do not have the planned sizes"  #: no bounds are given
    STOP_FAILED_BOUNDS = "the bounds contradict each other"  #: no bounds are given
    HARM = "harm"  #: the average effect is below 0
    EFFECT_SHOWN = "effect shown"  #: the average effect is above 0
    GAIN_SHOWN = "gain shown"  #: the score gains over random targeting
    LOSS_SHOWN = "loss shown"  #: the score loses against random targeting
    CONTINUE = "continue"  #: nothing is shown yet
    TOO_EARLY = "too early"  #: too few rows for any bound

    @property
    def is_failure(self) -> bool:
        """Whether the trial is broken: nothing is known of the treatment."""
        return self in (Verdict.STOP_FAILED_RATIO, Verdict.STOP_FAILED_BOUNDS)

    @property
    def is_stop(self) -> bool:
        """Whether the trial may be stopped, once ``check`` on all rows has passed."""
        return self not in (Verdict.CONTINUE, Verdict.TOO_EARLY)


class Stop(Result):
    """The first look at which something was shown, of ``arm`` unless the trial failed."""

    verdict: Verdict
    arm: str | None
    until: str
    n_rows: int


class ArmLook(Result):
    """One arm against the control, per person and in units of the outcome as a benefit.

    ``effect``: the average effect; ``gain``: of treating by the score, over random targeting (its
    AUUC less half of the effect). Both have ``lower`` and ``upper``, and no standard error. None
    before the first bound, for a trial that failed, and ``gain`` without a score. ``n_bet``: rows
    behind the bounds; the rest waits until a batch of 240 is full.
    """

    arm: str
    verdict: Verdict
    n_rows: int
    n_bet: int
    effect: Estimate | None = None
    gain: Estimate | None = None


class Look(Result):
    """What a running trial shows at a look.

    Attributes
    ----------
    verdict : the first verdict that holds for any arm.
    arms : one :class:`ArmLook` per arm.
    control : label of the control.
    outcome : the outcome; bounds of a ``lower_is_better`` outcome are of what is avoided.
    until : the last day whose rows have entered, as "2026-03-01"; None if there is none.
    n_rows, n_new, n_waiting : rows that have entered, those of them at this look, and rows whose
        outcome window is still open.
    n_clipped : outcomes beyond the range.
    counts : people (groups, if there are any) of the control and of each arm.
    shares : their planned shares; None if they are not known.
    ratio_p_value : smallest p-value so far of the planned sizes (or propensities), valid at every
        look; None if they are not known.
    delta : probability that any bound of any arm ever fails.
    score : the column of scores, or "model"; None without.
    groups : the column of groups.
    stops : what was shown, at this look or before, the earliest first.
    skipped : days without any row although others like them have many.
    needs_check : something is shown. Before it is acted on, run ``check`` on all rows.
    """

    verdict: Verdict
    arms: tuple[ArmLook, ...]
    control: str
    outcome: Outcome
    until: str | None
    n_rows: int
    n_new: int
    n_waiting: int
    n_clipped: int
    counts: tuple[int, ...]
    shares: tuple[float, ...] | None
    ratio_p_value: float | None
    delta: float
    score: str | None
    groups: str | None
    stops: tuple[Stop, ...]
    skipped: tuple[str, ...]

    @property
    def needs_check(self) -> bool:
        """Whether something is shown that ``check`` on all rows should precede."""
        return bool(self.stops) and not self.verdict.is_failure


class _Bets(Result):
    """:class:`AnytimeBets` of one arm as plain numbers; ``waiting`` is its open superblock."""

    known: Known | None
    n_superblocks: int
    n_blocks: int
    n_rows: int
    wealth: tuple[tuple[tuple[Numbers, Numbers], ...], tuple[tuple[Numbers, Numbers], ...]]
    sums: Numbers
    waiting: tuple[Numbers, tuple[Numbers], tuple[bool, ...], tuple[bool, ...], Numbers]


class _State(Result):
    """All that is kept between two looks.

    ``options`` are those of the first look. ``days`` has for each day the number of rows and an
    order-independent checksum of their ids, arms and outcomes.
    """

    options: dict[str, Any]
    arms: tuple[str, ...]
    model: str | None
    bets: tuple[_Bets, ...]
    n_rows: tuple[int, ...]
    counts: tuple[int, ...]
    n_clipped: int
    log_ratio: float
    tilts: Numbers
    last_day: int | None
    days: tuple[tuple[int, int, int], ...]
    stops: tuple[Stop, ...]


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows whose windows have closed; ``y`` is a benefit in [0, 1].

    ``person`` and ``unit`` (n,) are hashes of ids and of groups, ``place`` the place in the table.
    """

    day: Days
    arm: NDArray[np.intp]
    y: Floats
    clipped: Bools
    person: Hashes
    unit: Hashes
    place: NDArray[np.intp]
    propensity: Floats | None  # (n, K + 1)

    def take(self, rows: Any) -> _Rows:
        parts: Any = (None if own is None else own[rows] for own in vars(self).values())
        return _Rows(*parts)


@dataclass(eq=False, kw_only=True)
class Monitor:
    """A running trial, looked at as often as you like: whatever it shows may be acted on.

    A row enters when the outcome window of its day has closed, and is then bet on. All bounds of
    all arms hold together at all looks with probability 1 - ``delta``, if arms were given at random
    as planned. Of that, only the sizes of the arms are watched: before you act on what is shown,
    run ``check`` on all rows.

    Parameters
    ----------
    date : str
        Column of the day on which a person came into the trial.
    treatment, outcome, treated, control, id, groups, lower_is_better, outcome_range : as in
        :func:`auucmax.read_trial`; a ``model`` knows them. All people of a group have one arm, one
        day and one propensity.
    model : UpliftModel, optional
        Makes the score whose gain is bounded. It was trained on other rows.
    score : str, optional
        Instead of a model, a column of scores that were fixed beforehand; with several arms also
        the word that their columns begin with ("score" for "score mail"). Without a score there is
        only the average effect.
    window : str or number, default 0
        Time after the day of a row until its outcome counts: "30d", "4w", "36h", or days.
    delta : float, default 0.05
        Probability that any bound ever fails.
    treated_share : float or mapping, optional
        Planned share of all arms together, in equal parts, or of each arm by label. The sizes of
        the arms are tested against it, at a level that holds at every look.
    propensity, least_propensity : optional
        Column with the probability of treatment, with several arms a mapping of labels to columns,
        and the smallest probability of an arm by design (among the arm and the control). They
        replace ``treated_share``.
    random_state : int, default 0

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> days = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(trial.n_rows) // 500, "D")
    >>> rows = pd.DataFrame({"mail": trial.treatment, "visit": trial.y, "sent": days,
    ...                      "score": trial.X["womens"], "person": np.arange(trial.n_rows)})
    >>> monitor = Monitor(treatment="mail", outcome="visit", date="sent", score="score",
    ...                   id="person", window="14d", treated_share=0.5)
    >>> monitor.look(rows[:20_000], as_of="2026-02-20").n_waiting
    2000
    >>> look = monitor.look(rows, as_of="2026-06-01")
    >>> look.verdict.value, look.arms[0].gain.lower > 0
    ('effect shown', True)
    """

    date: str = ""
    treatment: str = ""
    outcome: str = ""
    model: UpliftModel | None = None
    score: str | None = None
    treated: Any = None
    control: Any = None
    id: str | None = None
    groups: str | None = None
    window: str | float = 0
    delta: float = 0.05
    treated_share: float | Mapping[str, float] | None = None
    propensity: str | Mapping[str, str] | None = None
    least_propensity: float | None = None
    outcome_range: tuple[float, float] | None = None
    lower_is_better: bool = False
    random_state: int = 0

    def __post_init__(self) -> None:
        given = {own.name: getattr(self, own.name) for own in fields(self) if own.name != "model"}
        self.options = {name: _plain(own) for name, own in given.items() if own not in (None, "")}
        kind = Kind.BINARY if self.outcome_range is None else Kind.NUMBER
        if self.model is not None:
            roles = self.model.roles
            kind = roles.outcome.kind
            known = {
                "treatment": roles.treatment, "control": roles.arms[0], "id": roles.id,
                "treated": list(roles.arms[1:]), "groups": roles.groups,
                "outcome": roles.outcome.name, "outcome_range": roles.outcome.range,
            }  # fmt: skip
            for name, own in known.items():
                if getattr(self, name) in (None, ""):
                    setattr(self, name, own)
            self.lower_is_better = self.lower_is_better or roles.outcome.lower_is_better
            if self.score is not None:
                raise InputError("score", "left out with a model", self.score, "Leave one out.")
        for name in ("date", "treatment", "outcome"):
            if not getattr(self, name):
                raise InputError(name, "the name of a column", "none", "Name the column.")
        check_level(self.delta, "delta")
        check_whole(self.random_state, "random_state", 0)
        least = self.least_propensity
        if (self.propensity is None) != (least is None):
            raise InputError(
                "least_propensity", "given together with propensity", "only one of them",
                "Name the column and the smallest probability, 0.1 say.",
            )  # fmt: skip
        if least is not None and not 0 < least <= 0.5:
            raise InputError(
                "least_propensity", "above 0 and at most .5", repr(least),
                "It is the smallest probability of an arm by design.",
            )  # fmt: skip
        if self.propensity is not None and self.treated_share is not None:
            raise InputError(
                "treated_share", "left out with propensity", repr(self.treated_share),
                "Leave it out.",
            )  # fmt: skip
        if self.treated is not None and not isinstance(self.treated, list | tuple):
            self.treated = [self.treated]
        if self.outcome_range is not None:
            self.outcome_range = check_range(self.outcome_range, "outcome_range")
        self._outcome = Outcome(
            name=self.outcome,
            kind=kind,
            lower_is_better=self.lower_is_better,
            range=self.outcome_range,
        )
        self._days_open = window_days(self.window)
        self.last_day: int | None = None
        self.stops: list[Stop] = []
        self._written: str | None = None

    def _begin(self, arms: tuple[str, ...]) -> None:
        """The state before any row has entered."""
        share = self.treated_share
        self.arms, self.shares = arms, None
        if share is not None:
            if not isinstance(share, Mapping):
                share = dict.fromkeys(arms[1:], share / (len(arms) - 1))
            parts = {arm_text(label): float(own) for label, own in share.items()}
            rest = 1 - sum(parts.values())
            if {*parts} != {*arms[1:]} or min(rest, *parts.values()) <= 0:
                raise InputError(
                    "treated_share", f"above 0 for each of {listed(arms[1:])}, with a rest for the "
                    f"control", repr(self.treated_share), "Write .3 for 30%.",
                )  # fmt: skip
            self.shares = (rest, *(parts[label] for label in arms[1:]))
        least = self.least_propensity
        self.bets = [AnytimeBets.fresh(1, self.random_state, least) for _ in arms[1:]]
        self.n_rows = self.counts = np.zeros(len(arms), dtype=np.int64)
        self.n_clipped, self.log_ratio = 0, 0.0
        self.tilts = np.zeros(len(_TILTS) * (len(arms) - 1))
        self.days: dict[int, tuple[int, int]] = {}

    def _arms_of(self, frame: pd.DataFrame) -> tuple[str, ...]:
        """The control and the arms among the labels of the first table."""
        labels = sorted({arm_text(value) for value in frame[self.treatment].dropna().unique()})
        control = control_among(labels) if self.control is None else arm_text(self.control)
        if control is None and tuple(map(str.lower, labels)) in NO_AND_YES:
            control = labels[0]
        arms = [own for own in labels if own != control]
        if self.treated is not None:
            arms = sorted(map(arm_text, self.treated))
        if control is None or control in arms or not {control} < {control, *arms} <= {*labels}:
            raise InputError(
                "control", f"a label of {self.treatment!r}, beside rows of each other arm",
                f"{control!r} and the labels {listed(labels)}",
                "Name the control, or look once there are rows of all arms.",
            )  # fmt: skip
        return (control, *arms)

    def look(self, table: Any, *, as_of: Any = None) -> Look:
        """Enter the rows whose windows have closed at ``as_of`` (now), and see what they show.

        ``table`` has all rows so far, or those of some last days. What contradicts earlier looks is
        an :class:`InputError`, and nothing is entered.
        """
        frame = table_of(table)
        check_names(frame, [self.treatment, self.outcome, self.date])
        if self.last_day is None:
            self._begin(self._arms_of(frame))
        if any(stop.verdict.is_failure for stop in self.stops):
            return self._found(0, 0, ())
        days = self._days(frame)
        latest = int(days.max(initial=_NEVER))
        closed = self._last_closed(as_of, latest)
        rows, n_waiting = self._read(frame, days, closed)
        before = _NEVER if self.last_day is None else self.last_day
        self._check_entered(rows.take(rows.day <= before))
        new = rows.take(rows.day > before)
        # The same seed, the same order: the same rows give the same bounds.
        seeded = np.random.default_rng([self.random_state, 1]).bytes(16)
        turns = [keyed_hashes(own, seeded) for own in (new.person, new.unit)]
        new = new.take(np.lexsort((*turns, new.day)))
        scores = self._scores(frame, new.place)
        # Everything is checked: from here on nothing fails.
        # A day without rows may be one whose rows are not here yet: the next one closes it.
        if len(frame):
            self.last_day = max(before, min(closed, latest))
        if len(new.day):
            self._enter(new, scores)
        skipped: tuple[str, ...] = ()
        if self.last_day is not None:
            known = np.array(sorted(self.days), dtype=np.int64)
            n_rows = np.array([self.days[day][0] for day in known.tolist()], dtype=np.int64)
            gone = skipped_days(known, n_rows, before, self.last_day)
            skipped = tuple(map(date_of, gone.tolist()))
        return self._found(len(new.day), n_waiting, skipped)

    def _last_closed(self, as_of: Any, latest: int) -> int:
        """The last day whose windows have closed."""
        now, closed = last_closed_day(as_of, 0.0), last_closed_day(as_of, self._days_open)
        if now > max(last_closed_day(None, 0.0), latest + self._days_open) + 1:
            raise InputError(
                "as_of", "at most today, or the day when the last window closes", date_of(now + 1),
                "Check the year: open windows would count as closed.",
            )  # fmt: skip
        if self.last_day is not None and closed < self.last_day:
            raise InputError(
                "as_of", f"after the last look, which had rows until {date_of(self.last_day)}",
                f"a day at which windows have closed until {date_of(closed)}", "Leave it out.",
            )  # fmt: skip
        return closed

    def _days(self, frame: pd.DataFrame) -> Days:
        column = frame[self.date]
        if n_missing := int(column.isna().sum()):
            raise ValueError(missing_message(f"the date {self.date!r}", n_missing))
        kind, moments = kind_of(column) if len(column) else "date", column
        if kind in ("text", "category"):
            # 03/02/2026 is a day in February, or in March: nothing is guessed.
            moments = pd.to_datetime(
                column.astype(str), format="ISO8601", utc=True, errors="coerce"
            )
            kind = "date"
        days = numbers_of(moments, kind) if kind == "date" else np.full(len(column), np.nan)
        if not np.isfinite(days).all():
            wrong = np.flatnonzero(~np.isfinite(days))
            raise InputError(
                f"the date {self.date!r}", "a day such as 2026-03-01 in every row",
                f"{len(wrong):,} other values such as {str(column.iloc[wrong[0]])!r}",
                "Write all days like this, or name another column.",
            )  # fmt: skip
        return np.floor(days).astype(np.int64)

    def _read(self, frame: pd.DataFrame, days: Days, closed: int) -> tuple[_Rows, int]:
        """The rows with closed windows, and how many are open."""
        if n_missing := int(frame[self.treatment].isna().sum()):
            raise ValueError(missing_message(f"the treatment {self.treatment!r}", n_missing))
        codes, values = pd.factorize(frame[self.treatment])
        texts = [arm_text(value) for value in values]
        unknown = [text for text in texts if text not in self.arms]
        if unknown and self.treated is None:
            raise InputError(
                f"the treatment {self.treatment!r}", f"one of {listed(self.arms)}, as at the first "
                f"look", listed(unknown), "Check the spelling, or leave these rows out.",
            )  # fmt: skip
        places = {label: k for k, label in enumerate(self.arms)}
        arm = np.array([places.get(text, -1) for text in texts], dtype=np.intp)[codes]
        place = np.flatnonzero((arm >= 0) & (days <= closed))
        own, arm_of, day = frame.iloc[place], arm[place], days[place]
        texts_of = place.astype(str).astype(object)
        if self.id is not None:
            check_names(frame, [self.id])
            texts_of = id_texts(own[self.id], f"the id {self.id!r}")
            if n_twice := len(texts_of) - len(pd.unique(texts_of)):
                raise InputError(
                    f"the id {self.id!r}", "different in every row",
                    f"{n_twice:,} rows with the id of another one", "Keep the first row of each.",
                )  # fmt: skip
        person = unit = np.asarray(pd.util.hash_array(texts_of), dtype=np.uint64)
        propensity = self._propensities(own)
        if self.groups is not None:
            check_names(frame, [self.groups])
            texts_of = id_texts(own[self.groups], f"the group {self.groups!r}")
            unit = np.asarray(pd.util.hash_array(texts_of), dtype=np.uint64)
            same = {"arm": arm_of, "day": day}
            if propensity is not None:
                same |= {f"propensity of {self.arms[k]}": own for k, own in enumerate(propensity.T)}
            by_unit = pd.DataFrame(same).groupby(unit)
            for name, apart in (by_unit.max() != by_unit.min()).sum().items():
                if apart:
                    raise InputError(
                        f"the group {self.groups!r}", f"people with the same {name}",
                        f"{apart:,} groups that differ in it",
                        "Leave groups out if people were randomised one by one.",
                    )  # fmt: skip
        y, clipped = self._outcomes(own[self.outcome])
        rows = _Rows(day, arm_of, y, clipped, person, unit, place, propensity)
        return rows, int(np.count_nonzero(arm >= 0)) - len(place)

    def _propensities(self, frame: pd.DataFrame) -> Floats | None:
        """(n, K + 1) propensities of the arms, within what the design allows."""
        named = self.propensity
        if named is None or self.least_propensity is None:
            return None
        if isinstance(named, str):
            several = len(self.arms) > 2
            named = {label: f"{named} {label}" if several else named for label in self.arms[1:]}
        pairs = tuple((arm_text(label), column) for label, column in named.items())
        check_names(frame, [column for _, column in pairs])
        found = of_labels(check_arm_chances(frame, pairs), pairs, self.arms)
        of_pair = found[:, 1:] / (found[:, 1:] + found[:, :1])
        smallest = float(np.minimum(of_pair, 1 - of_pair).min(initial=0.5))
        if smallest < self.least_propensity - 1e-9:
            raise InputError(
                "propensity", f"at least {self.least_propensity:g} by design",
                f"{smallest:g}", "Leave these people out, or begin anew with a smaller one.",
            )  # fmt: skip
        return found

    def _outcomes(self, column: pd.Series) -> tuple[Floats, Bools]:
        """Benefits in [0, 1], and which outcomes were clipped to the range."""
        name, own = f"the outcome {self.outcome!r}", self.outcome_range
        if n_missing := int(column.isna().sum()):
            raise InputError(
                name, "known in every row whose window has closed", f"none in {n_missing:,} rows",
                "Write 0 where nothing happened, or begin with a longer window.",
            )  # fmt: skip
        if not len(column):
            return np.empty(0), np.empty(0, bool)
        y = check_column(outcome_numbers(column).to_numpy(), name)
        if own is None and not np.isin(y, (0, 1)).all():
            raise InputError(
                "outcome_range", "given for outcomes other than 0/1",
                f"outcomes from {y.min():g} to {y.max():g}", "Pass (lowest, highest) possible.",
            )  # fmt: skip
        low, high = own or (0.0, 1.0)
        scaled = (np.clip(y, low, high) - low) / (high - low)
        return (1 - scaled if self.lower_is_better else scaled), (y < low) | (y > high)

    def _scores(self, frame: pd.DataFrame, place: NDArray[np.intp]) -> Floats:
        """(K, n) the score of each arm; zeros without scores."""
        own = frame.iloc[place]
        if len(own) and self.model is not None:
            if self.model.has_people(frame):
                raise InputError(
                    "model", "one that was trained on other rows", "the rows of its own trial",
                    "Monitor new rows.",
                )  # fmt: skip
            of_arms = dict(zip(self.model.arms, self.model.scores(own).T, strict=True))
            return np.array([of_arms[label] for label in self.arms[1:]])
        if not len(own) or self.score is None:
            return np.zeros((len(self.arms) - 1, len(own)))
        names = [f"{self.score} {label}" for label in self.arms[1:]]
        names = [name if name in frame else self.score for name in names]
        check_names(frame, names)
        return np.array(
            [check_column(own[name], f"the score {name!r}", len(own)) for name in names]
        )

    def _check_entered(self, rows: _Rows) -> None:
        """Days that have entered have their rows as they were, but for the oldest days."""
        if not len(rows.day):
            return
        found, start = self._checksums(rows), int(rows.day.min())
        known = {day: own for day, own in self.days.items() if day >= start}
        for day in sorted({*found, *known}):
            (n, total), (n_known, total_known) = (own.get(day, (0, 0)) for own in (found, known))
            if (n, total) != (n_known, total_known):
                changed = " with other ids, arms or outcomes" if n == n_known else ""
                raise InputError(
                    "table", f"the {n_known:,} rows of {date_of(day)} as they entered",
                    f"{n:,} rows{changed}", "Begin with a longer window if rows come late or "
                    "change, or bring the rows as they were.",
                )  # fmt: skip

    def _checksums(self, rows: _Rows) -> dict[int, tuple[int, int]]:
        """The number of rows of each day, and the sum of their hashes."""
        days, code, counts = np.unique(rows.day, return_inverse=True, return_counts=True)
        person = rows.person if self.id is not None else np.zeros_like(rows.person)
        arm = mix_bits(rows.arm.astype(np.uint64))
        hashes = mix_bits(person ^ arm ^ np.ascontiguousarray(rows.y).view(np.uint64))
        sums = np.zeros(len(days), dtype=np.uint64)
        np.add.at(sums, code, hashes)
        numbers = zip(counts.tolist(), (int(own) % MODULUS for own in sums), strict=True)
        return dict(zip(days.tolist(), numbers, strict=True))

    def _enter(self, rows: _Rows, scores: Floats) -> None:
        first = np.append(True, rows.unit[1:] != rows.unit[:-1])
        arm = rows.arm[first]
        path = np.zeros(1)
        if self.shares is not None:
            path = ratio_path(arm, self.counts, np.array(self.shares))
        if rows.propensity is not None:
            path, self.tilts = tilt_path(arm, rows.propensity[first], self.tilts)
        self.log_ratio = max(self.log_ratio, float(path.max()))
        self.counts = self.counts + np.bincount(arm, minlength=len(self.arms))
        self.n_rows = self.n_rows + np.bincount(rows.arm, minlength=len(self.arms))
        self.n_clipped += int(rows.clipped.sum())
        self.days |= self._checksums(rows)
        for k, bets in enumerate(self.bets, start=1):
            pair = (rows.arm == 0) | (rows.arm == k)
            chance = None
            if rows.propensity is not None:
                both = rows.propensity[pair][:, [0, k]]
                chance = both[:, 1] / both.sum(axis=1)
            bets.add(
                rows.y[pair], scores[k - 1 : k, pair], rows.arm[pair] == k, self._level,
                first[pair], chance,
            )  # fmt: skip
        p_value = self._ratio_p_value
        if p_value is not None and p_value <= _FAILED_RATIO:
            self._stop(Verdict.STOP_FAILED_RATIO, None)
        for k, label in enumerate(self.arms[1:]):
            limits = self._limits(k)
            if limits is None:
                continue
            (gain_lower, gain_upper), (lower, upper) = limits.tolist()
            shown = {
                Verdict.HARM: upper < 0, Verdict.EFFECT_SHOWN: lower > 0,
                Verdict.GAIN_SHOWN: gain_lower > 0, Verdict.LOSS_SHOWN: gain_upper < 0,
            }  # fmt: skip
            for verdict in (own for own, is_shown in shown.items() if is_shown):
                self._stop(verdict, label)
            so_far = {stop.verdict for stop in self.stops if stop.arm == label}
            if (
                (limits[:, 0] > limits[:, 1] - 1e-9).any()
                or {Verdict.HARM, Verdict.EFFECT_SHOWN} <= so_far
                or {Verdict.GAIN_SHOWN, Verdict.LOSS_SHOWN} <= so_far
            ):
                self._stop(Verdict.STOP_FAILED_BOUNDS, None)

    def _stop(self, verdict: Verdict, arm: str | None) -> None:
        """Remember the first look that shows something."""
        if (verdict, arm) not in {(stop.verdict, stop.arm) for stop in self.stops}:
            until, n_rows = date_of(self.last_day or 0), int(self.n_rows.sum())
            self.stops.append(Stop(verdict=verdict, arm=arm, until=until, n_rows=n_rows))

    @property
    def _has_score(self) -> bool:
        return self.score is not None or self.model is not None

    @property
    def _level(self) -> float:
        """The probability that one bound fails: two of each target and arm share delta."""
        return self.delta / (len(self.arms) - 1) / (4 if self._has_score else 2)

    def _limits(self, k: int) -> Floats | None:
        """(2, 2) lower and upper bounds of gain and effect; None before the first."""
        if not self.bets[k].n_blocks:
            return None
        low, high = self.outcome_range or (0.0, 1.0)
        found = self.bets[k].wealth.limits(self._level) * (high - low)
        if not self._has_score:
            found[0] = -np.inf, np.inf
        return found

    @property
    def _ratio_p_value(self) -> float | None:
        known = self.shares is not None or self.propensity is not None
        return float(np.exp(-self.log_ratio)) if known else None

    def _found(self, n_new: int, n_waiting: int, skipped: tuple[str, ...]) -> Look:
        failed = next((stop.verdict for stop in self.stops if stop.verdict.is_failure), None)
        low, high = self.outcome_range or (0.0, 1.0)
        arms = []
        for k, label in enumerate(self.arms[1:]):
            bets, limits = self.bets[k], self._limits(k)
            gain = effect = None
            verdict = Verdict.TOO_EARLY
            if failed is not None:
                verdict = failed
            elif limits is not None:
                gain, effect = (
                    Estimate(value=float(value) * (high - low), lower=ends[0], upper=ends[1])
                    for value, ends in zip(bets.estimates, limits.tolist(), strict=True)
                )
                own = {stop.verdict for stop in self.stops if stop.arm == label}
                verdict = next((v for v in Verdict if v in own), Verdict.CONTINUE)
            arms.append(
                ArmLook(
                    arm=label,
                    verdict=verdict,
                    n_rows=int(self.n_rows[0] + self.n_rows[k + 1]),
                    n_bet=bets.n_rows,
                    effect=effect,
                    gain=gain if self._has_score else None,
                )
            )
        of_arms = {one.verdict for one in arms}
        return Look(
            verdict=next(v for v in Verdict if v in of_arms),
            arms=tuple(arms),
            control=self.arms[0],
            outcome=self._outcome,
            until=None if self.last_day is None else date_of(self.last_day),
            n_rows=int(self.n_rows.sum()),
            n_new=n_new,
            n_waiting=n_waiting,
            n_clipped=self.n_clipped,
            counts=_tuples(self.counts),
            shares=self.shares,
            ratio_p_value=self._ratio_p_value,
            delta=self.delta,
            score="model" if self.model is not None else self.score,
            groups=self.groups,
            stops=tuple(self.stops),
            skipped=skipped,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state, whole or not at all; nobody else can read it.

        A file that another run wrote since this one read it is not replaced.
        """
        if Path(path).exists() and _digest(_state_in(path)) != self._written:
            raise InputError(
                "state", "the file that this look began with", "one that another run has written",
                "Look again, one run at a time.",
            )  # fmt: skip
        state = _State(
            options=self.options,
            arms=self.arms,
            model=None if self.model is None else _model_key(self.model),
            bets=tuple(
                _Bets(**{name: _tuples(getattr(own, name)) for name in _Bets.__annotations__})
                for own in self.bets
            ),
            n_rows=_tuples(self.n_rows),
            counts=_tuples(self.counts),
            n_clipped=self.n_clipped,
            log_ratio=self.log_ratio,
            tilts=_tuples(self.tilts),
            last_day=self.last_day,
            days=tuple((day, *own) for day, own in self.days.items()),
            stops=tuple(self.stops),
        )
        plain = state.to_json()
        file = {"format": "auucmax monitor", "version": 1, "sha256": _digest(plain), "state": plain}
        with whole_file(path, private=True) as beside:
            beside.write_text(json.dumps(file, separators=(",", ":")), encoding="utf-8")
        self._written = _digest(plain)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, model: UpliftModel | None = None) -> Self:
        """The monitor whose state is in a file, with the model of its first look, if any."""
        plain = _state_in(path)
        state = _State.from_json(plain)
        key = None if model is None else _model_key(model)
        if key != state.model:
            raise InputError(
                "model", "the model of the first look" if state.model else "left out: the "
                "state has scores of another kind, or none", "another one" if key else "none",
                "Pass the same model at every look, or begin another state file.",
            )  # fmt: skip
        monitor = cls(**state.options, model=model)
        monitor._begin(state.arms)
        monitor.bets = [
            _restored_bets(own, fresh) for own, fresh in zip(state.bets, monitor.bets, strict=True)
        ]
        for name in ("n_rows", "counts", "tilts"):
            setattr(monitor, name, np.array(getattr(state, name)))
        for name in ("n_clipped", "log_ratio", "last_day"):
            setattr(monitor, name, getattr(state, name))
        monitor.days = {day: (n, total) for day, n, total in state.days}
        monitor.stops = list(state.stops)
        monitor._written = _digest(plain)
        return monitor


def monitor_trial(
    table: Any,
    state: str | os.PathLike[str],
    *,
    model: UpliftModel | None = None,
    as_of: Any = None,
    **options: Any,
) -> Look:
    """Look once: read the state file, if it exists, enter new rows, and write it.

    ``options`` are those of :class:`Monitor`. At later looks they may be left out; what is given
    must be the same as before. If anything is wrong the file stays as it was.
    """
    options = {name: own for name, own in options.items() if own is not None}
    if Path(state).exists():
        monitor = Monitor.load(state, model=model)
        for name, own in options.items():
            if (known := monitor.options.get(name)) != _plain(own):
                raise InputError(
                    name, f"{known!r}, as at the first look", repr(own),
                    "Leave it out, or begin another state file.",
                )  # fmt: skip
    else:
        monitor = Monitor(model=model, **options)
    look = monitor.look(table, as_of=as_of)
    monitor.save(state)
    return look


def ratio_path(arm: NDArray[np.intp], before: NDArray[np.int64], shares: Floats) -> Floats:
    """(n,) ln of the mixture over shares of the likelihood ratio against ``shares``, row by row.

    With n_a rows of arm a and a Dirichlet(c p) mixture around the planned shares p,

        M = B(c p + n) / (B(c p) prod over a of p_a^n_a),

    a non-negative martingale in the rows that starts at 1 if each is of arm a with probability p_a.
    By Ville's inequality it ever reaches 1/alpha with probability at most alpha.

    >>> even, odd = np.arange(5000) % 2, (np.arange(5000) % 9 < 5) * 1
    >>> paths = [ratio_path(own, np.zeros(2, int), np.full(2, 0.5)) for own in (even, odd)]
    >>> [round(float(np.exp(-path.max())), 3) for path in paths]
    [1.0, 0.0]
    """
    counts = before + np.cumsum(np.eye(len(shares), dtype=np.int64)[arm], axis=0)
    prior = _PRIOR_ROWS * shares
    grown = gammaln(prior + counts).sum(axis=1) - gammaln(_PRIOR_ROWS + counts.sum(axis=1))
    start = gammaln(prior).sum() - gammaln(_PRIOR_ROWS)
    return np.asarray(grown - start - counts @ np.log(shares))


def tilt_path(arm: NDArray[np.intp], propensity: Floats, before: Floats) -> tuple[Floats, Floats]:
    """(n,) ln of the mean over arms and tilts b of the likelihood ratios; and those at the end.

    If the odds of an arm were exp(b) times what its propensity e says, a row would be
    exp(b [the row has the arm]) / (1 - e + e exp(b)) times as likely: the mean of it is 1 if
    propensities are right, so the product over rows is a non-negative martingale that starts at 1.

    >>> chance = np.tile([[0.8, 0.2], [0.2, 0.8]], (1000, 1))
    >>> right, wrong = (np.arange(2000) % 10 < part for part in (5, 6))
    >>> [bool(tilt_path(own * 1, chance, np.zeros(10))[0].max() > 4.6) for own in (right, wrong)]
    [False, True]
    """
    steps = [
        _TILTS * (arm == k)[:, None] - np.log1p(np.outer(propensity[:, k], np.expm1(_TILTS)))
        for k in range(1, propensity.shape[1])
    ]
    path = before + np.cumsum(np.hstack(steps), axis=0)
    return np.asarray(logsumexp(path, axis=1) - np.log(path.shape[1])), path[-1]


def skipped_days(day: Days, rows: Days, after: int, last: int) -> Days:
    """Days without a row, later than ``after`` up to ``last``, that should have had some.

    ``day``, ``rows``: days that have rows, from early to late, and how many each has. Days like a
    skipped one had 20 rows or more: the same day of the week before or, in the first week, both
    days beside it.

    >>> days = np.array([0, 1, 3, 4, 7, 8, 10, 14, 15])  # no day 2, 5, 6, 9 or 11
    >>> skipped_days(days, np.full(9, 100), -1, 15), skipped_days(days, np.full(9, 100), 9, 15)
    (array([ 2, 11]), array([11]))
    """
    many = day[rows >= _USUAL]
    between = many[np.isin(many + 2, many) & (many + 1 < day[:1] + 7)] + 1
    found = np.union1d(many + 7, between)
    return found[(found > after) & (found <= last) & ~np.isin(found, day)]


def window_days(window: Any) -> float:
    """A window as days: "30d", "4w", "36h", or a number of days.

    >>> window_days("4w"), window_days(0)
    (28.0, 0.0)
    """
    found = _WINDOW.fullmatch(str(window).strip().lower())
    days = float(found[1]) * _UNITS[found[2] or "d"] if found else np.nan
    if not 0 <= days < _MOST_DAYS:
        raise InputError(
            "window", "a time such as '30d', '4w' or '36h'", repr(window),
            "It is the time after the day of a row until its outcome is known.",
        )  # fmt: skip
    return days


def last_closed_day(as_of: Any, window: float) -> int:
    """The latest day, since 1970-01-01, whose window has closed at a moment; None is now.

    >>> last_closed_day("2026-03-01", 0), last_closed_day("2026-03-01 12:00", 28)
    (20512, 20484)
    """
    try:
        # 03.02.2026 is a day in February, or in March.
        if isinstance(as_of, str) and not re.match(r"\d{4}-\d{2}-\d{2}", as_of):
            raise ValueError
        moment = pd.Timestamp.now("UTC") if as_of is None else pd.Timestamp(as_of)
        moment = moment.tz_localize("UTC") if moment.tzinfo is None else moment.tz_convert("UTC")
        days = moment.timestamp() / 86400
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(
            "as_of", "a date such as '2026-03-01'", repr(as_of), "Write it like this."
        ) from error
    return int(np.floor(days - window + 1e-9)) - 1


def date_of(day: int) -> str:
    """A day since 1970 as a date."""
    return str(np.datetime64(day, "D"))


def _restored_bets(own: _Bets, fresh: AnytimeBets) -> AnytimeBets:
    """The bets, to go on."""
    y, score, treated, first, chance = (np.array(part) for part in own.waiting)
    rows = WaitingRows(y, score, treated.astype(bool), first.astype(bool), chance)
    wealth = Wealth(*map(np.array, own.wealth))
    more = {"wealth": wealth, "sums": np.array(own.sums), "waiting": rows}
    return replace(fresh, **vars(own) | more)


def _plain(own: Any) -> Any:
    """An option as JSON has it."""
    if isinstance(own, Mapping):
        return {str(name): _plain(value) for name, value in own.items()}
    if isinstance(own, list | tuple):
        return [_plain(value) for value in own]
    return own.item() if isinstance(own, np.generic) else own


def _tuples(own: Any) -> Any:
    """Arrays, and tuples of them, as nested tuples of numbers."""
    own = own.tolist() if isinstance(own, np.ndarray) else own
    return tuple(map(_tuples, own)) if isinstance(own, list | tuple) else own


def _state_in(path: str | os.PathLike[str]) -> Any:
    """The state in a file, as it was written; an InputError for any other file."""
    try:
        file = json.loads(Path(path).read_bytes())
        if (file["format"], file["version"]) != ("auucmax monitor", 1):
            raise ValueError("it is of another version")
        if file["sha256"] != _digest(file["state"]):
            raise ValueError("its contents have changed")
        _State.from_json(file["state"])
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise InputError(
            "state", "a state file of this version of auucmax", f"{Path(path).name}: {error}",
            "Put back a copy of it, or begin another state file.",
        ) from error  # fmt: skip
    return file["state"]


def _digest(plain: Any) -> str:
    return hashlib.sha256(json.dumps(plain).encode()).hexdigest()


def _model_key(model: UpliftModel) -> str:
    """Tells a fitted model from others."""
    made = repr((model.recipe, model.info.date, model.checksum))
    return hashlib.sha256(made.encode()).hexdigest()[:16]
