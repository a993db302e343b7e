"""May we stop now? Bounds on a running trial that hold at every look.

A :class:`Monitor` is told of rows as their outcome windows close, and keeps a small state: the
wealth of bets (``bounds/anytime.py``), the few rows of the open superblock, and, to see that rows
stay what they were, counts and sums of hashes of each day and 8 bytes a person. The rows of earlier
days are not needed again.
"""

from __future__ import annotations

import os
import re
import secrets
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from scipy.special import betaln

from auucmax._archive import ArchiveFormat, check_same_names
from auucmax._json import read
from auucmax._shown import Shown
from auucmax._validation import Bools, Floats, check_level, check_range, check_whole
from auucmax.bounds.anytime import TARGETS, AnytimeBets, Known, WaitingRows, Wealth
from auucmax.data.pieces import PiecedTable
from auucmax.trial.arrivals import (
    MOST_DAYS,
    Arrivals,
    Days,
    Hashes,
    Settings,
    last_closed_day,
    other_arm,
    read_arrivals,
    window_days,
)
from auucmax.trial_model.rows import name_columns

if TYPE_CHECKING:
    from auucmax.trial_model import TrialModel

FORMAT = ArchiveFormat("auucmax monitor", 1, "state file")
RATIO_LEVEL = 0.01  #: chance of an alarm, ever, if arms are as they should be
_RATIO_ROWS = 1000.0  # how many rows the guess of another share is worth
#: What the bounds are of.
WORDS = {
    "gain": "gain over a random order",
    "effect": "average effect",
    "difference": "AUUC beyond the rival's",
}


@dataclass(frozen=True, repr=False)
class Look(Shown):
    """What is known at a look; every bound holds at all looks together.

    ``bounds``: of each target "gain" (over a random order), "effect" (of treating everybody) and
    "difference" (AUUC of the ranking minus that of the rival), per person in units of the outcome:
    estimate, lower, upper; None before anything is known. ``n_rows`` have entered, of which
    ``n_bet`` were bet on, ``n_new`` at this look; ``n_waiting`` have open windows. ``until`` is the
    last day that entered. ``ratio`` is the smallest anytime p-value of the share of treated rows
    so far, None if no share was named; ``failed`` says why nothing is told, or is None.
    """

    bounds: dict[str, dict[str, float]] | None
    n_rows: int
    n_new: int
    n_bet: int
    n_waiting: int
    n_beyond: int
    until: str
    delta: float
    ratio: float | None
    failed: str | None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)

    @property
    def verdict(self) -> str:
        """In a sentence, what may be acted on."""
        if self.failed is not None:
            return self.failed
        if self.bounds is None:
            return f"Nothing can be said yet: {self.n_rows:,} rows have closed windows."
        gain = self.bounds["gain"]
        found = "is not told from a random order yet"
        if gain["lower"] > 0:
            found = "is better than a random order"
        elif gain["upper"] < 0:
            found = "is worse than a random order"
        rival = self.bounds.get("difference")
        beside = ""
        if rival is not None:
            beside = ", and is not told from its rival yet"
            if rival["lower"] > 0:
                beside = ", and better than its rival"
            elif rival["upper"] < 0:
                beside = ", and worse than its rival"
        return (
            f"The ranking {found}{beside}. All bounds hold together, at this look and at every "
            f"other, with probability {1 - self.delta:.4g}: you may act on them whenever you like."
        )

    def __str__(self) -> str:
        lines = [
            f"{self.n_rows:,} rows until {self.until}, {self.n_new:,} new, {self.n_waiting:,} "
            f"waiting for their outcome."
        ]
        for name, own in ({} if self.failed else self.bounds or {}).items():
            lines.append(
                f"{WORDS[name]}: {own['estimate']:+.5f}, at least {own['lower']:+.5f}, at most "
                f"{own['upper']:+.5f}"
            )
        return "\n".join([*lines, self.verdict])


@dataclass(eq=False)
class Monitor:
    """A running trial, looked at as often as one likes.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> days = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(trial.n_rows) // 500, "D")
    >>> rows = pd.DataFrame({"mail": trial.treatment, "visit": trial.y, "sent": days,
    ...                      "score": trial.X["womens"], "person": np.arange(trial.n_rows)})
    >>> monitor = Monitor.of(rows, treatment="mail", outcome="visit", date="sent",
    ...                      score_column="score", id="person", window="14d")
    >>> monitor.look(rows[:20_000], as_of="2026-02-20").n_waiting
    2000
    >>> monitor.look(rows[18_000:], as_of="2026-06-01").bounds["gain"]["lower"] > 0
    True
    """

    settings: Settings
    key: bytes = field(repr=False)
    bets: AnytimeBets = field(repr=False)
    last_day: int | None = None
    counts: tuple[int, int] = (0, 0)  # control and treated rows that entered
    log_ratio: float = 0.0  # the largest so far
    n_beyond: int = 0
    day: Days = field(default_factory=lambda: np.empty(0, np.int64), repr=False)
    day_rows: Days = field(default_factory=lambda: np.empty(0, np.int64), repr=False)
    day_totals: Hashes = field(default_factory=lambda: np.empty(0, np.uint64), repr=False)
    people: Hashes = field(default_factory=lambda: np.empty(0, np.uint64), repr=False)

    @classmethod
    def of(
        cls, table: pd.DataFrame | PiecedTable, *, model: TrialModel | None = None, **named: Any
    ) -> Self:
        """A monitor that has seen nothing; ``table`` only shows the labels of the arms.

        Parameters
        ----------
        model : a fitted model that makes the score from raw features; it must not have learnt from
            rows of this trial.
        named : treatment, outcome, date: columns; score_column: scores that were fixed without
            rows of this trial, in the place of a model; rival_column: other scores; id: of the
            people; treated, control: labels of the arms; window: "30d" or so, after the day of a
            row, until its outcome counts; delta: chance that any bound ever fails; outcome_range:
            lowest and highest outcome, if not 0/1; treated_share: as it was designed;
            lower_is_better; random_state.
        """
        settings = settings_of(table, model, **named)
        bets = AnytimeBets(1 + (settings.rival_column is not None), settings.random_state)
        return cls(settings, secrets.token_bytes(16), bets)

    @property
    def n_rows(self) -> int:
        return sum(self.counts)

    @property
    def level(self) -> float:
        """The chance of each bound: two of each target share delta."""
        return self.settings.delta / (2 * self.bets.n_targets)

    def look(
        self,
        table: pd.DataFrame | PiecedTable,
        *,
        model: TrialModel | None = None,
        as_of: Any = None,
    ) -> Look:
        """Take rows whose windows have closed at ``as_of`` (now), and tell what is known.

        The table may have all rows so far, those of some last days, or new ones only. What does not
        agree with earlier looks raises a ValueError, and nothing is taken.
        """
        own = self.settings
        check_model(own, model)
        day = last_closed_day(as_of, own.window)
        if self.last_day is not None and day < self.last_day:
            raise ValueError(
                f"as_of should not be before the last look, got windows that closed until "
                f"{_date(day)} after a look at those until {_date(self.last_day)}. Leave it out."
            )
        old, new = read_arrivals(table, own, self.key, self.last_day, day, model)
        self._check_people(new)
        self._check_old(old)
        self._take(new, day)
        return self._tell(len(new.day), new.n_waiting)

    def _check_people(self, new: Arrivals) -> None:
        if self.settings.id is None:
            return
        people = np.sort(new.person & ~np.uint64(1))
        repeated = int((people[1:] == people[:-1]).sum())
        changed = int(_is_in(other_arm(new.person), self.people).sum())
        repeated += int(_is_in(new.person, self.people).sum())
        if changed:
            raise ValueError(
                f"people should stay in their arm, got {changed:,} who were in the other one "
                f"before. Find out who changed them: the state is as it was."
            )
        if repeated:
            raise ValueError(
                f"each person should come into the trial once, got {repeated:,} rows of people who "
                f"are in it already. Keep the first row of each: the state is as it was."
            )

    def _check_old(self, old: Arrivals) -> None:
        """Rows of days that have entered: all of such a day, as they were, or none."""
        if not len(old.day):
            return
        if self.settings.id is not None:
            self._check_old_people(old)
        code = np.searchsorted(self.day, old.day)
        known = np.append(self.day, 2**62)[code] == old.day
        rows = np.bincount(code[known], minlength=len(self.day))
        late = int((~known).sum()) + int(np.maximum(rows - self.day_rows, 0).sum())
        if late:
            raise ValueError(_late(late, self.last_day))
        # Days before the first of the table need not be there.
        due = self.day >= old.day.min()
        if gone := int((self.day_rows - rows)[due].sum()):
            raise ValueError(
                f"rows should stay in the table, or whole days of them go, the oldest first; got "
                f"{gone:,} rows fewer of the days since {_date(int(old.day.min()))} than before. "
                f"Find out where they are: the state is as it was."
            )
        if (self._totals(old, code) != self.day_totals)[due].any():
            raise ValueError(
                "rows should stay as they were when their outcome window closed, got other "
                "outcomes, or arms, than before. Pass a longer window= from the start, or the rows "
                "as they were: the state is as it was."
            )

    def _check_old_people(self, old: Arrivals) -> None:
        there = _is_in(old.person, self.people)
        if changed := int(_is_in(other_arm(old.person[~there]), self.people).sum()):
            raise ValueError(
                f"people should stay in their arm, got {changed:,} who were in the other one "
                f"before. Find out who changed them: the state is as it was."
            )
        if not there.all():
            raise ValueError(_late(int((~there).sum()), self.last_day))

    def _totals(self, rows: Arrivals, code: Any) -> Hashes:
        totals = np.zeros(len(self.day), np.uint64)
        # Without ids rows have no names: only arms and outcomes are compared.
        named = rows if self.settings.id is not None else rows._replace(
            person=rows.person & np.uint64(1)
        )  # fmt: skip
        np.add.at(totals, code, named.row_hashes(self.key))
        return totals

    def _take(self, new: Arrivals, day: int) -> None:
        """Everything is checked: from here on nothing fails."""
        self.last_day = day
        if not len(new.day):
            return
        self.bets.add(new.y, new.scores, new.treated, self.level)
        if self.settings.treated_share is not None:
            path = ratio_path(new.treated, self.counts, self.settings.treated_share)
            self.log_ratio = max(self.log_ratio, float(path.max()))
        n_treated = int(new.treated.sum())
        control, treated = self.counts
        self.counts = control + len(new.day) - n_treated, treated + n_treated
        self.n_beyond += int(new.beyond.sum())
        if self.settings.id is not None:
            self.people = np.sort(np.concatenate([self.people, new.person]))
        days, code, rows = np.unique(new.day, return_inverse=True, return_counts=True)
        before = len(self.day)
        self.day = np.concatenate([self.day, days])
        self.day_rows = np.concatenate([self.day_rows, rows])
        totals = self._totals(new, before + code)
        totals[:before] = self.day_totals
        self.day_totals = totals

    def _tell(self, n_new: int, n_waiting: int) -> Look:
        low, high = self.settings.outcome_range
        ratio = failed = None
        if self.settings.treated_share is not None:
            ratio = float(np.exp(-max(self.log_ratio, 0.0)))
            if ratio <= RATIO_LEVEL:
                failed = (
                    f"The arms are not as they should be: {self.counts[1]:,} of {self.n_rows:,} "
                    f"rows are treated, where {self.settings.treated_share:.4g} of them should be "
                    f"(p = {ratio:.2g}, however often one looks). So nothing is told of the trial: "
                    f"find out which rows are missing."
                )
        bounds = None
        if self.bets.n_blocks and failed is None:
            limits = self.bets.wealth.limits(self.level) * (high - low)
            estimates = self.bets.estimates * (high - low)
            bounds = {
                name: {"estimate": float(value), "lower": float(lower), "upper": float(upper)}
                for name, value, (lower, upper) in zip(TARGETS, estimates, limits, strict=False)
            }
        return Look(
            bounds=bounds,
            n_rows=self.n_rows,
            n_new=n_new,
            n_bet=self.bets.n_rows,
            n_waiting=n_waiting,
            n_beyond=self.n_beyond,
            until=_date(self.last_day or 0),
            delta=self.settings.delta,
            ratio=ratio,
            failed=failed,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state, whole or not at all; nobody else can read it."""
        bets = self.bets
        header = {
            "settings": asdict(self.settings) | {"outcome_range": [*self.settings.outcome_range]},
            "key": self.key.hex(),
            "last_day": self.last_day,
            "counts": [*self.counts],
            "log_ratio": self.log_ratio,
            "n_beyond": self.n_beyond,
            "known": None if bets.known is None else asdict(bets.known),
            "bets": [bets.n_superblocks, bets.n_blocks, bets.n_rows],
        }
        arrays = {
            "day": self.day, "day_rows": self.day_rows, "day_totals": self.day_totals,
            "people": self.people, "credit": bets.wealth.credit, "staked": bets.wealth.staked,
            "sums": bets.sums, "y": bets.waiting.y, "scores": bets.waiting.scores,
            "treated": bets.waiting.treated,
        }  # fmt: skip
        members = {f"{name}.npy": array for name, array in arrays.items()}
        FORMAT.write(path, header, members, private=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The monitor whose state is in a file; what is none raises a ValueError."""
        return FORMAT.read(path, cls._restored)

    @classmethod
    def _restored(cls, header: dict[str, Any], members: dict[str, Any]) -> Self:
        plain = read(_HEADER, header, "the state")
        check_same_names("fields", set(header), set(_HEADER))
        check_same_names("members", set(members), {f"{name}.npy" for name in _ARRAYS})
        settings = read(Settings, plain["settings"], "settings")
        _check_restored(settings, plain)
        arrays = {name.removesuffix(".npy"): array for name, array in members.items()}
        n_scores = 1 + (settings.rival_column is not None)
        fresh = AnytimeBets(n_scores, settings.random_state)
        _check_arrays(settings, plain, arrays, fresh)
        n_superblocks, n_blocks, n_rows = plain["bets"]
        bets = replace(
            fresh,
            known=plain["known"],
            n_superblocks=n_superblocks,
            n_blocks=n_blocks,
            n_rows=n_rows,
            wealth=Wealth(arrays["credit"], arrays["staked"]),
            sums=arrays["sums"],
            waiting=WaitingRows(arrays["y"], arrays["scores"], arrays["treated"]),
        )
        control, treated = plain["counts"]
        return cls(
            settings,
            bytes.fromhex(plain["key"]),
            bets,
            plain["last_day"],
            (control, treated),
            plain["log_ratio"],
            plain["n_beyond"],
            *(arrays[name] for name in ("day", "day_rows", "day_totals", "people")),
        )


_HEADER: dict[str, Any] = {
    "settings": {...: ...},
    "key": str,
    "last_day": (int, None),
    "counts": [int],
    "log_ratio": float,
    "n_beyond": int,
    "known": (None, Known),
    "bets": [int],
}
_ARRAYS: dict[str, Any] = {
    "day": np.int64, "day_rows": np.int64, "day_totals": np.uint64, "people": np.uint64,
    "credit": np.float64, "staked": np.float64, "sums": np.float64, "y": np.float64,
    "scores": np.float64, "treated": np.bool_,
}  # fmt: skip


def _check_restored(settings: Settings, plain: dict[str, Any]) -> None:
    """Raise a ValueError for numbers that no monitor has: a file may come from anywhere."""
    check_level(settings.delta, "delta")
    if settings.treated_share is not None:
        check_level(settings.treated_share, "treated_share")
    if not 0 <= settings.window < MOST_DAYS:
        raise ValueError(f"window should be days, fewer than {MOST_DAYS}, got {settings.window!r}")
    check_range(settings.outcome_range, "outcome_range")
    check_whole(settings.random_state, "random_state", 0)
    known, counts, bets = plain["known"], plain["counts"], plain["bets"]
    right = (
        re.fullmatch("[0-9a-f]{32}", plain["key"]) is not None
        and (len(counts), len(bets)) == (2, 3)
        and min(*counts, *bets, plain["n_beyond"]) >= 0
        and plain["n_beyond"] <= sum(counts)
        and bets[2] <= sum(counts)
        and bets[0] <= bets[1] <= bets[2]
        and (plain["last_day"] is None or abs(plain["last_day"]) < 2**31)
        and (known is not None or not any(bets))
        and (known is None or (0 <= known.shift <= 1 and abs(known.effect) <= 0.5))
        and (known is None or min(known.deviations, default=0.0) > 0)
    )
    if not right:
        raise ValueError("its numbers do not belong together")


def _check_arrays(
    settings: Settings, plain: dict[str, Any], arrays: dict[str, Any], fresh: AnytimeBets
) -> None:
    """Raise a ValueError for arrays that no monitor of these settings has."""
    y, people, day, n_rows = arrays["y"], arrays["people"], arrays["day"], sum(plain["counts"])
    wealth = [arrays[name] for name in ("credit", "staked", "sums")]
    right = (
        all(arrays[name].dtype == kind for name, kind in _ARRAYS.items())
        and y.ndim == people.ndim == day.ndim == 1
        and wealth[0].shape == wealth[1].shape == fresh.wealth.credit.shape
        and wealth[2].shape == fresh.sums.shape
        and bool((wealth[1] >= 0).all())
        and (any(plain["bets"]) or not any(array.any() for array in wealth))
        and arrays["scores"].shape == (fresh.n_scores, len(y))
        and arrays["treated"].shape == y.shape
        and bool(((y >= 0) & (y <= 1)).all())
        and day.shape == arrays["day_rows"].shape == arrays["day_totals"].shape
        and bool((np.diff(day) > 0).all())
        and bool((arrays["day_rows"] > 0).all())
        and arrays["day_rows"].sum() == n_rows
        and len(people) == (n_rows if settings.id is not None else 0)
        and bool((people[1:] >= people[:-1]).all())
        and (plain["known"] is None or len(plain["known"].deviations) == fresh.n_targets)
    )
    if not right:
        raise ValueError("its numbers do not belong together")


def monitor_trial(
    table: pd.DataFrame | PiecedTable,
    state: str | os.PathLike[str],
    *,
    model: TrialModel | None = None,
    as_of: Any = None,
    **named: Any,
) -> Look:
    """One look: read the state, if there is one, take new rows, write the state, tell.

    ``named`` as in :meth:`Monitor.of`. What is left out is that of the state; what is given must be
    the same as before. If anything is wrong the state stays as it was.
    """
    if Path(state).exists():
        monitor = Monitor.load(state)
        check_settings(monitor.settings, model, Path(state).name, named)
    else:
        monitor = Monitor.of(table, model=model, **named)
    look = monitor.look(table, model=model, as_of=as_of)
    monitor.save(state)
    return look


def settings_of(
    table: pd.DataFrame | PiecedTable,
    model: TrialModel | None,
    *,
    date: str | None = None,
    score_column: str | None = None,
    rival_column: str | None = None,
    window: Any = None,
    delta: float | None = None,
    treated_share: float | None = None,
    random_state: int = 0,
    **columns: Any,
) -> Settings:
    """The settings of a new monitor; what a model knows of its columns need not be told."""
    given = {name: value for name, value in columns.items() if value is not None}
    if (score_column is None) == (model is None):
        got = "both" if score_column is not None else "neither"
        raise ValueError(
            f"the ranking should be a column of scores or a model, got {got}. Pass "
            f"score_column=..., or a model that was fitted on other rows."
        )
    if date is None:
        raise ValueError("date should be the column of the day of each row, got none. Name it.")
    if model is not None:
        if model.columns.groups is not None:
            raise ValueError(
                "a monitor should be of rows that are independent, got a model with groups of "
                "rows. Monitor one row of each group, with a column of scores."
            )
        own = ("treatment", "outcome", "id", "treated", "control", "lower_is_better")
        given = {name: getattr(model.columns, name) for name in own} | given
        if model.columns.outcome_range:
            given.setdefault("outcome_range", model.columns.outcome_range)
    features = [*model.columns.features] if model is not None else [score_column]
    names = name_columns(table, **(given | {"features": features}))
    delta = 0.05 if delta is None else delta
    check_level(delta, "delta")
    if treated_share is not None:
        check_level(treated_share, "treated_share")
    return Settings(
        names.treatment,
        names.outcome,
        date,
        names.treated,
        names.control,
        model_name(model) if model is not None else str(score_column),
        names.id,
        rival_column,
        window_days(0 if window is None else window),
        float(delta),
        check_range(given.get("outcome_range") or (0, 1), "outcome_range"),
        treated_share,
        names.lower_is_better,
        check_whole(random_state, "random_state", 0),
    )


def model_name(model: TrialModel) -> str:
    """What tells a model from others: how it was made, and of which rows."""
    import hashlib

    made = repr((model.recipe, model.summary.get("date"), model.calibration.score))
    return f"model {hashlib.sha256(made.encode()).hexdigest()[:16]}"


def check_model(settings: Settings, model: TrialModel | None) -> None:
    """Raise a ValueError if scores come from elsewhere than at the first look."""
    if settings.by_model and (model is None or model_name(model) != settings.score_column):
        got = "none" if model is None else "another"
        raise ValueError(
            f"the model should be that of the first look, got {got}. A ranking that is changed on "
            f"the way needs a monitor of its own: start one with another state file."
        )
    if not settings.by_model and model is not None:
        raise ValueError(
            f"the scores should be those of the first look, the column "
            f"{settings.score_column!r}, got a model. Name another state file to start with it."
        )


def check_settings(
    settings: Settings, model: TrialModel | None, name: str, named: dict[str, Any]
) -> None:
    """Raise a ValueError if a look says something else than the first one did."""
    if model is not None or named.get("score_column") is not None:
        check_model(settings, model)
    for option, given in named.items():
        known = getattr(settings, option)
        if given is None:
            continue
        if option == "window":
            given = window_days(given)
        if option == "outcome_range":
            given = check_range(given, option)
        if given != known and str(given) != str(known):
            raise ValueError(
                f"{option} should be {known!r}, as in the state file {name}, got {given!r}. It is "
                f"the state of another score or trial: name another file, or leave {option}= out."
            )


def ratio_path(treated: Bools, before: tuple[int, int], share: float) -> Floats:
    """(n,) ln of the mixture over shares of the likelihood ratio against ``share``, row by row.

    With k of n rows treated and a Beta(a, b) mixture around the share e,

        M = B(a + k, b + n - k) / (B(a, b) e^k (1 - e)^(n - k)),

    a non-negative martingale that starts at 1 if each row is treated with probability e.

    >>> even, odd = np.arange(5000) % 2 == 0, np.arange(5000) % 9 < 5
    >>> [round(float(np.exp(-ratio_path(arms, (0, 0), 0.5).max())), 3) for arms in (even, odd)]
    [1.0, 0.0]
    """
    a, b = _RATIO_ROWS * share, _RATIO_ROWS * (1 - share)
    k = before[1] + np.cumsum(treated)
    others = before[0] + np.cumsum(~treated)
    expected = k * np.log(share) + others * np.log1p(-share)
    return np.asarray(betaln(a + k, b + others) - betaln(a, b) - expected)


def _is_in(hashes: Hashes, known: Hashes) -> Bools:
    """Whether each is among some that are sorted."""
    place = np.searchsorted(known, hashes)
    return np.append(known, np.uint64(0))[place] == hashes if len(known) else place < 0


def _late(n: int, day: int | None) -> str:
    return (
        f"rows should come in the order of their dates, got {n:,} of days until "
        f"{_date(day or 0)}, which have entered without them. A longer window= from the start "
        f"gives them time: the state is as it was."
    )


def _date(day: int) -> str:
    return str(np.datetime64(day, "D"))
