"""Monitoring of a running trial with bounds that hold at every look.

A row belongs to the day of its date. Days enter whole, once the outcome window after their end has
closed; within a day the order is that of hashes, which know nothing of arms or outcomes. The rows
of an arm and the control are bet on in this order (:mod:`auucmax.certificates.anytime`). What is
kept between two looks is small: the wealth of the bets, the rows of the open superblock, and a
checksum of each day, which shows that its rows have not changed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from auucmax._errors import InputError
from auucmax._files import whole_file
from auucmax._validation import Floats, check_column, check_level, check_range, listed
from auucmax.certificates.anytime import AnytimeBets
from auucmax.data.hashing import keyed_hashes
from auucmax.data.read_trial import (
    FEWEST_ROWS,
    arm_counts,
    check_names,
    name_arms,
    propensity_columns,
    trial_of,
)
from auucmax.data.reading import table_of
from auucmax.model import UpliftModel
from auucmax.results import Estimate, Kind, Numbers, Outcome, Result, Roles, plain
from auucmax.targeting.choose import by_arm

Days = NDArray[np.int64]

_KNOWN_TO_MODELS = (
    "treatment", "outcome", "score", "treated", "control", "id", "groups", "outcome_range",
    "lower_is_better",
)  # fmt: skip
_FAILED_RATIO = 0.01  # probability of ever giving a false alarm about the sizes of the arms
_PRIOR_ROWS = 1000.0  # that the planned shares are worth in the test of the sizes
#: ln of how many times as large the odds of an arm might be, where propensities are known.
_TILTS = np.outer([-1, 1], [0.02, 0.05, 0.1, 0.2, 0.5]).ravel()


class Verdict(StrEnum):
    """The verdict of a look, in order of precedence; each holds at all looks together."""

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
        """Whether the trial is broken, so that its results cannot be interpreted."""
        return self in (Verdict.STOP_FAILED_RATIO, Verdict.STOP_FAILED_BOUNDS)


#: What is bounded, its place among the bets, and what is shown by a bound below 0 and above it.
_TARGETS = (
    ("effect", 1, Verdict.HARM, Verdict.EFFECT_SHOWN),
    ("gain", 0, Verdict.LOSS_SHOWN, Verdict.GAIN_SHOWN),
)


class Stop(Result):
    """The first look at which a verdict was reached, and the arm it applies to."""

    verdict: Verdict
    arm: str | None
    until: str
    n_rows: int


class ArmLook(Result):
    """Bounds for one arm against the control, per person; positive is better.

    ``effect``: the average effect; ``gain``: of treating by the score, over random targeting (its
    AUUC less half of the effect). Both have ``lower`` and ``upper``, and no standard error. None
    before the first bound, for a trial that failed, and ``gain`` without a score. ``n_bet``: rows
    behind the bounds; the rest waits until a batch of 240 is full.
    """

    arm: str
    n_rows: int
    n_bet: int
    effect: Estimate | None = None
    gain: Estimate | None = None


class Look(Result):
    """Results of a look at a running trial.

    Attributes
    ----------
    verdict : the first verdict that holds for any arm.
    arms : one :class:`ArmLook` per arm.
    roles : the control, the columns and the outcome; bounds of a ``lower_is_better`` outcome are of
        what is avoided.
    until : the last day whose rows have entered, as "2026-03-01"; None if there is none.
    n_rows, n_new, n_waiting : rows that have entered, those of them at this look, and rows whose
        outcome window is still open.
    n_clipped : outcomes beyond the range.
    counts : people (groups, if there are any) of the control and of each arm.
    ratio_p_value : smallest p-value so far of the planned sizes (or propensities), valid at every
        look; None if they are not known.
    delta : probability that any bound of any arm ever fails.
    stops : verdicts reached at this look or before, the earliest first.
    needs_check : whether to run ``check`` on all rows before acting on the verdict.
    """

    verdict: Verdict
    arms: tuple[ArmLook, ...]
    roles: Roles
    until: str | None
    n_rows: int
    n_new: int
    n_waiting: int
    n_clipped: int
    counts: tuple[int, ...]
    ratio_p_value: float | None
    delta: float
    stops: tuple[Stop, ...]

    @property
    def needs_check(self) -> bool:
        """Whether ``check`` should be run on all rows before acting on the verdict."""
        return bool(self.stops) and not self.verdict.is_failure


class State(Result):
    """State kept between two looks.

    ``options`` are those of the first look, with a hash of its model. ``days`` has for each day an
    order-independent checksum of the ids, arms and outcomes of its rows.
    """

    options: dict[str, Any]
    roles: Roles
    shares: Numbers | None
    bets: tuple[AnytimeBets, ...]
    n_rows: tuple[int, ...]
    counts: tuple[int, ...]
    tilts: Numbers
    log_ratio: float = 0.0
    n_clipped: int = 0
    last_day: int = -1
    days: dict[int, int]
    stops: tuple[Stop, ...] = ()


@dataclass(eq=False, kw_only=True)
class Monitor:
    """Monitor of a running trial: its bounds hold at all looks together.

    A row enters when the outcome window of its day has closed, and is then bet on. All bounds of
    all arms hold together at all looks with probability 1 - ``delta``, if arms were given at random
    as planned. Of that, only the sizes of the arms are monitored: before you act on a verdict, run
    ``check`` on all rows.

    Parameters
    ----------
    date : str
        Column of the day on which a person came into the trial.
    treatment, outcome, treated, control, id, groups, lower_is_better, outcome_range : as in
        :func:`auucmax.read_trial`. Leave them out with a ``model``, which knows them. All people
        of a group have one arm, one day and one propensity.
    model : UpliftModel, optional
        The model of the score whose gain is bounded, trained on other rows.
    score : str, optional
        Instead of a model, a column of scores that were fixed beforehand; with several arms also
        the prefix of their columns ("score" for "score mail"). Without a score there is only the
        average effect.
    window : str or number, default 0
        Days after that of a row until its outcome counts, such as 30 or "30d".
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
        given = vars(self) | {"model": self.model and _model_key(self.model)}
        self.options = plain({name: own for name, own in given.items() if own is not None})
        of_model = [name for name in _KNOWN_TO_MODELS if getattr(self, name)]
        if self.model and of_model:
            raise InputError(
                of_model[0], "left out with a model, which knows it", "both",
                "Leave out what the model knows.",
            )  # fmt: skip
        for name in ("date",) if self.model else ("date", "treatment", "outcome"):
            if not getattr(self, name):
                raise InputError(name, "the name of a column", "none", "Name the column.")
        check_level(self.delta, "delta")
        least = self.least_propensity
        if (self.propensity is None) != (least is None) or not 0 < (least or 0.5) <= 0.5:
            raise InputError(
                "least_propensity", "above 0 and at most .5, and given together with propensity",
                repr(least), "It is the smallest probability of an arm by design.",
            )  # fmt: skip
        if self.outcome_range is not None:
            self.outcome_range = check_range(self.outcome_range, "outcome_range")
        days = str(self.window).removesuffix("d")
        if not days.replace(".", "", 1).isdecimal():
            raise InputError(
                "window", "days such as '30d'", repr(self.window),
                "It is the time after the day of a row until its outcome is known.",
            )  # fmt: skip
        self._days_open = float(days)
        self._targets = _TARGETS if self.model or self.score else _TARGETS[:1]
        self.state: State | None = None

    def look(self, table: Any, *, as_of: Any = None) -> Look:
        """Add the rows whose windows have closed at ``as_of`` (default: now), and return a look.

        ``table`` has all rows so far, or those of recent days. Rows that contradict earlier looks
        raise an :class:`InputError`, and none is added.
        """
        frame = table_of(table)
        check_names(frame, [self.date])
        if self.model is not None and self.model.has_people(frame):
            raise InputError(
                "model", "one that was trained on other rows", "the rows of its own trial",
                "Monitor new rows.",
            )  # fmt: skip
        state = self.state or self._begin(frame)
        roles, n_waiting, n_before = state.roles, 0, sum(state.n_rows)
        # Delta is shared by targets, arms and sides.
        level = self.delta / len(roles.arms[1:]) / (2 * len(self._targets))
        if not any(own.verdict.is_failure for own in state.stops):
            day = _days(frame[self.date])
            closed = max(last_closed_day(as_of, self._days_open), state.last_day)
            is_closed = day <= closed
            if not {*roles.arms} <= {*arm_counts(frame[is_closed], roles.treatment)}:
                is_closed[:] = False  # until each arm has a row, closed ones wait as well
            n_waiting = int((~is_closed).sum())
            if is_closed.any():
                state = self._enter(state, frame[is_closed], day[is_closed], level)

        n_rows = sum(state.n_rows)
        until = None if state.last_day < 0 else str(np.datetime64(state.last_day, "D"))
        stops = {(own.verdict, own.arm): own for own in state.stops}

        def show(verdict: Verdict, arm: str | None = None) -> None:
            """Keep the first look at which a verdict was reached."""
            stop = Stop(verdict=verdict, arm=arm, until=until or "", n_rows=n_rows)
            stops.setdefault((verdict, arm), stop)

        p_value = None
        if state.shares is not None or roles.propensity:
            p_value = float(np.exp(-state.log_ratio))
            if p_value <= _FAILED_RATIO:
                show(Verdict.STOP_FAILED_RATIO)
        low, high = roles.outcome.range or (0.0, 1.0)
        arms = []
        for label, n_own, bets in zip(roles.arms[1:], state.n_rows[1:], state.bets, strict=True):
            found = {}
            limits = bets.wealth.limits(level) * (high - low)
            values = bets.estimates * (high - low)
            for name, number, below, above in self._targets if bets.n_blocks else ():
                lower, upper = limits[number].tolist()
                found[name] = Estimate(value=float(values[number]), lower=lower, upper=upper)
                if upper < 0:
                    show(below, label)
                if lower > 0:
                    show(above, label)
                if lower > upper - 1e-9 or {(below, label), (above, label)} <= {*stops}:
                    show(Verdict.STOP_FAILED_BOUNDS)
            n_both = state.n_rows[0] + n_own
            arms.append(ArmLook(arm=label, n_rows=n_both, n_bet=bets.n_rows, **found))
        self.state = replace(state, stops=tuple(stops.values()))
        verdict = Verdict.CONTINUE if any(own.effect for own in arms) else Verdict.TOO_EARLY
        verdict = min((own for own, _ in stops), key=[*Verdict].index, default=verdict)
        if verdict.is_failure:
            arms = [replace(own, effect=None, gain=None) for own in arms]
        return Look(
            verdict=verdict,
            arms=tuple(arms),
            roles=roles,
            until=until,
            n_rows=n_rows,
            n_new=n_rows - n_before,
            n_waiting=n_waiting,
            n_clipped=state.n_clipped,
            counts=state.counts,
            ratio_p_value=p_value,
            delta=self.delta,
            stops=self.state.stops,
        )

    def _begin(self, frame: pd.DataFrame) -> State:
        """The initial state, without rows."""
        if self.model is not None:
            roles = self.model.roles
        else:
            # An arm with few rows at first still counts.
            labels = dict.fromkeys(arm_counts(frame, self.treatment), FEWEST_ROWS)
            roles = Roles(
                treatment=self.treatment,
                arms=name_arms(labels, self.treatment, self.treated, self.control),
                outcome=Outcome(
                    name=self.outcome,
                    kind=Kind.BINARY if self.outcome_range is None else Kind.NUMBER,
                    lower_is_better=self.lower_is_better,
                    range=self.outcome_range,
                ),
                features=(),
                id=self.id,
                groups=self.groups,
            )
        chances = propensity_columns(frame, roles.treatment, self.propensity)
        shares, arms = None, roles.arms[1:]
        if self.treated_share is not None:
            share = self.treated_share
            if not isinstance(share, Mapping):
                share = dict.fromkeys(arms, share / len(arms))
            each = by_arm(share, arms, "treated_share")
            shares = (1 - sum(each), *each)
            if min(shares) <= 0:
                raise InputError(
                    "treated_share", f"above 0 for each of {listed(arms)}, with a rest for the "
                    f"control", repr(self.treated_share), "Write .3 for 30%.",
                )  # fmt: skip
        none = (0,) * len(roles.arms)
        return State(
            options=self.options,
            roles=replace(
                roles, features=(self.date,), ignored=(), after=(), propensity=chances,
                drop_missing_outcomes=True,
            ),
            shares=shares,
            bets=tuple(AnytimeBets.fresh(self.random_state, self.least_propensity) for _ in arms),
            n_rows=none,
            counts=none,
            tilts=(0.0,) * (len(_TILTS) * len(arms)),
            days={},
        )  # fmt: skip

    def _enter(self, state: State, frame: pd.DataFrame, day: Days, level: float) -> State:
        """Update the state with those of the rows, whose windows have closed, that are new."""
        roles = state.roles
        trial = trial_of(frame, roles)
        outcome, n_arms, labels = roles.outcome, len(roles.arms), roles.arms[1:]
        frame, day, arm, y = frame.iloc[trial.place], day[trial.place], trial.arm, trial.y
        if trial.other_arms and self.treated is None and self.model is None:
            raise InputError(
                f"the treatment {trial.treatment_name!r}", f"one of {listed(roles.arms)}",
                listed(trial.other_arms), "Check the spelling.",
            )  # fmt: skip
        if trial.lost is not None:
            raise InputError(
                f"the outcome {outcome.name!r}", "known in every row whose window has closed",
                f"none in {len(trial.lost.arm):,} rows",
                "Write 0 where nothing happened, or begin with a longer window.",
            )  # fmt: skip
        if outcome.range is None and not np.isin(y, (0, 1)).all():
            raise InputError(
                "outcome_range", "given for outcomes other than 0/1",
                f"outcomes from {y.min():g} to {y.max():g}", "Pass (lowest, highest) possible.",
            )  # fmt: skip
        low, high = outcome.range or (0.0, 1.0)
        is_clipped = (y < low) | (y > high)
        y = (np.clip(y, low, high) - low) / (high - low)
        y = 1 - y if outcome.lower_is_better else y

        # (n, K + 1) and, among an arm and the control, (n, K); without columns if not known.
        chance = np.empty((len(y), 0)) if trial.propensity is None else trial.propensity
        both = chance[:, 1:] + chance[:, :1]
        of_pair = chance[:, 1:] / both
        least = self.least_propensity or 0.0
        smallest = np.minimum(of_pair, 1 - of_pair).min(initial=1)
        if smallest < least - 1e-9 or np.ptp(both, axis=0).max(initial=0) > 1e-6:
            raise InputError(
                "propensity", f"at least {least:g} by design for arm and control, and for both "
                f"together the same for everybody",
                f"{smallest:g}, and {both.min():g} to {both.max():g} for both",
                "Monitor people of one design, or one arm against the control.",
            )  # fmt: skip

        ids = trial.place.astype(str).astype(object) if trial.id is None else trial.id
        person = unit = pd.util.hash_array(ids)
        if trial.groups is not None:
            unit = pd.util.hash_array(trial.groups)
            same = pd.DataFrame(np.column_stack([arm, day, chance]))
            if (same.groupby(unit).nunique() > 1).any(axis=None):
                raise InputError(
                    f"the group {roles.groups!r}",
                    "people with the same arm, day and propensity", "groups that differ in them",
                    "Leave groups out if people were randomised one by one.",
                )  # fmt: skip
        rows = pd.DataFrame({"id": 0 if trial.id is None else person, "arm": arm, "y": y})
        days = pd.util.hash_pandas_object(rows, index=False).groupby(day).sum().to_dict()
        for own in sorted({*days, *state.days}):
            if min(days) <= own <= state.last_day and days.get(own) != state.days.get(own):
                raise InputError(
                    "table", f"the rows of {np.datetime64(own, 'D')} as they entered",
                    "more or fewer rows, or other ids, arms or outcomes", "Begin with a longer "
                    "window if rows come late or change, or bring the rows as they were.",
                )  # fmt: skip

        # The same seed, the same order: the same rows give the same bounds.
        seeded = np.random.default_rng([self.random_state, 1]).bytes(16)
        order = np.lexsort((keyed_hashes(person, seeded), keyed_hashes(unit, seeded), day))
        order = order[day[order] > state.last_day]
        if not len(order):
            return state
        people = frame.iloc[order]
        scores = np.zeros((len(labels), len(people)))
        if self.model is not None:
            scores = self.model.scores(people).T
        elif self.score is not None:
            names = [f"{self.score} {label}" for label in labels]
            names = [name if name in frame else self.score for name in names]
            check_names(frame, names)
            scores = np.array([check_column(people[name], f"the score {name!r}") for name in names])
        # Everything is checked: from here on nothing fails.
        arm, y, unit, of_pair = arm[order], y[order], unit[order], of_pair[order]
        first = np.append(True, unit[1:] != unit[:-1])
        path, tilts = np.zeros(1), np.array(state.tilts)
        if roles.propensity:
            path, tilts = tilt_path(arm[first], chance[order][first], tilts)
        elif state.shares is not None:
            path = ratio_path(arm[first], np.array(state.counts), np.array(state.shares))
        for k, bets in enumerate(state.bets, start=1):
            pair = (arm == 0) | (arm == k)
            bets.add(
                y[pair], scores[k - 1, pair], arm[pair] == k, level, first[pair],
                of_pair[pair, k - 1] if of_pair.size else None,
            )  # fmt: skip
        return replace(
            state,
            n_rows=tuple((np.bincount(arm, minlength=n_arms) + state.n_rows).tolist()),
            counts=tuple((np.bincount(arm[first], minlength=n_arms) + state.counts).tolist()),
            tilts=tuple(tilts.tolist()),
            log_ratio=max(state.log_ratio, float(path.max())),
            n_clipped=state.n_clipped + int(is_clipped[order].sum()),
            last_day=int(day.max()),
            days=state.days | days,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state atomically, readable only by this user."""
        assert self.state is not None, "look before you save"
        file = {"format": "auucmax monitor", "state": self.state.to_json()}
        with whole_file(path, private=True) as beside:
            beside.write_text(json.dumps(file, separators=(",", ":")), encoding="utf-8")

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, model: UpliftModel | None = None, **options: Any
    ) -> Self:
        """Load a monitor from its state file; ``options`` that are given must be those in it."""
        try:
            state = State.from_json(json.loads(Path(path).read_bytes())["state"])
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise InputError(
                "state", "a state file of this version of auucmax", f"{Path(path).name}: {error}",
                "Put back a copy of it, or begin another state file.",
            ) from error  # fmt: skip
        for name, own in plain(options | {"model": model and _model_key(model)}).items():
            if (known := state.options.get(name)) != own:
                raise InputError(
                    name, f"{known!r}, as at the first look", "none" if own is None else repr(own),
                    "Pass the same at every look, or begin another state file.",
                )  # fmt: skip
        monitor = cls(**state.options | {"model": model})
        monitor.state = state
        return monitor


def monitor_trial(
    table: Any,
    state: str | os.PathLike[str],
    *,
    model: UpliftModel | None = None,
    as_of: Any = None,
    **options: Any,
) -> Look:
    """Take one look: read the state file if it exists, add new rows, and write it.

    ``options`` are those of :class:`Monitor`. At later looks they may be left out; what is given
    must be the same as before. After an error the file is unchanged.
    """
    options = {name: own for name, own in options.items() if own is not None}
    if Path(state).exists():
        monitor = Monitor.load(state, model=model, **options)
    else:
        monitor = Monitor(model=model, **options)
    look = monitor.look(table, as_of=as_of)
    monitor.save(state)
    return look


def ratio_path(arm: NDArray[np.intp], before: NDArray[np.int64], shares: Floats) -> Floats:
    """Log of the mixture likelihood ratio against the planned ``shares`` after each row, (n,).

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
    """Log of the mean likelihood ratio over arms and tilts b after each row, (n,).

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


def last_closed_day(as_of: Any, window: float) -> int:
    """Last day (since 1970-01-01) whose outcome window has closed at a time; None is now.

    >>> last_closed_day("2026-03-01", 0), last_closed_day("2026-03-01 12:00", 28)
    (20512, 20484)
    """
    now = pd.Timestamp.now("UTC")
    moment = pd.to_datetime(as_of or now, format="ISO8601", utc=True, errors="coerce")
    if not moment <= now + pd.Timedelta(1, "D"):
        raise InputError(
            "as_of", "a date such as '2026-03-01', not in the future", repr(as_of),
            "Outcomes of open windows would count as known.",
        )  # fmt: skip
    return int(np.floor(moment.timestamp() / 86400 - window + 1e-9)) - 1


def _days(column: pd.Series) -> Days:
    """Dates as days since 1970, (n,)."""
    codes, values = pd.factorize(column, use_na_sentinel=False)
    # 03/02/2026 is a day in February, or in March: nothing is guessed.
    moments = pd.to_datetime(
        pd.Series(values).astype(str), format="ISO8601", utc=True, errors="coerce"
    )
    wrong = moments.isna().to_numpy()
    if wrong.any():
        raise InputError(
            f"the date {column.name!r}", "a day such as 2026-03-01 in every row",
            listed(values[wrong]), "Write all days like this, or name another column.",
        )  # fmt: skip
    days = moments.dt.tz_localize(None).to_numpy("datetime64[D]").astype(np.int64)
    return np.asarray(days[codes], np.int64)


def _model_key(model: UpliftModel) -> str:
    """A key that identifies a fitted model."""
    made = repr((model.recipe, model.info.date, model.checksum))
    return hashlib.sha256(made.encode()).hexdigest()
