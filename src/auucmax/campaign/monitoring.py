"""May we stop now? Bounds on a running trial that hold at every look.

A :class:`Monitor` is told of rows as their outcome windows close, and keeps a small state: the
wealth of bets (``certificates/anytime.py``), the few rows of the open superblock, counts of all
people by columns and arms (``arm_balance.py``), and, to see that rows stay what they were, counts
and sums of hashes of each day and 8 bytes a person. The rows of earlier days are not needed again.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from auucmax._shown import Shown
from auucmax._validation import Bools, Floats, listed
from auucmax.campaign.arm_balance import DAY, TILTS, ArmBalance, ratio_path, tilt_path
from auucmax.campaign.arrivals import (
    ANEW,
    FEWEST,
    USUAL,
    Arrivals,
    Days,
    Hashes,
    check_arrivals,
    check_not_ahead,
    date_of,
    last_closed_day,
    other_arm,
    read_arrivals,
    skipped_days,
)
from auucmax.campaign.monitor_state import fresh_bets, read_states, state_digest, write_states
from auucmax.campaign.settings import Settings, check_model, model_name, settings_of
from auucmax.certificates.anytime import TARGETS, AnytimeBets
from auucmax.data.randomisation_report import STOP, FailedCheckError
from auucmax.data.reading import table_of

if TYPE_CHECKING:
    from auucmax.model import TrialModel

RATIO_LEVEL = 0.01  #: chance of an alarm, ever, if arms are as they should be
GROWN = 1.25  #: how many times as many rows there are at the next check of the balance, at least
#: What the bounds are of.
WORDS = {
    "gain": "gain over a random order",
    "effect": "average effect",
    "difference": "AUUC beyond the rival's",
}


def guarantee(delta: float, of: str = "", rule: str = "the same for all") -> str:
    """How sure all bounds are."""
    return (
        f"All bounds{of} hold together, at this look and at every other, with probability "
        f"{1 - delta:.4g}, if treatment was given by chance, {rule}: you may then act on them "
        f"whenever you like."
    )


def untested(compared: str | None, who: str = "the arms") -> str:
    """What was not compared, where no model was there or rows were too few."""
    ways = "" if compared is None else " in other ways"
    return f"whether {who} are alike{ways} (it takes a model and {FEWEST} rows of each)"


@dataclass(frozen=True, repr=False)
class Look(Shown):
    """What is known at a look; every bound holds at all looks together.

    ``bounds``: of each target "gain" (over a random order), "effect" (of treating everybody) and
    "difference" (AUUC of the ranking minus that of the rival), per person in units of the outcome:
    estimate, lower, upper; None before anything is known. ``n_rows`` have entered, of which
    ``n_bet`` were bet on, ``n_new`` at this look; ``n_waiting`` have open windows. ``until`` is the
    last day that entered. ``ratio`` is the smallest anytime p-value of the share of treated rows
    so far, None if neither a share nor chances were named; ``failed`` says why nothing is told, or
    is None. ``blocks``: how many blocks each model ranked, the last one last; the gain is that of
    their mean, each counted by its blocks. ``taken_over``: whether a new model ranks from here on;
    None if none was brought. ``balance``: what the last check of the rows of a table found, as of
    any trial; None if they were not compared. ``compared``: by which columns all who ever entered
    were compared; None before there are enough. ``rule``: how chance should treat people.
    ``skipped``: days that entered at this look without any row, though such days have many.
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
    blocks: tuple[int, ...] = ()
    taken_over: bool | None = None
    balance: str | None = None
    compared: str | None = None
    rule: str = "the same for all"
    skipped: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)

    @property
    def verdict(self) -> str:
        """In a sentence, what may be acted on."""
        if self.failed is not None or self.bounds is None:
            return self.found
        return f"{self.found} {guarantee(self.delta, rule=self.rule)}"

    @property
    def found(self) -> str:
        """What the bounds say, without the words on how sure that is."""
        if self.failed is not None:
            return self.failed
        if self.bounds is None:
            return f"Nothing can be said yet: {self.n_rows:,} rows have closed windows."
        gain = self.bounds["gain"]
        found = "cannot be told from a random order yet"
        if gain["lower"] > 0:
            found = "is better than a random order"
        elif gain["upper"] < 0:
            found = "is worse than a random order"
        rival = self.bounds.get("difference")
        beside = ""
        if rival is not None:
            beside = ", and cannot be told from its rival yet"
            if rival["lower"] > 0:
                beside = ", and better than its rival"
            elif rival["upper"] < 0:
                beside = ", and worse than its rival"
        who = "The ranking"
        if (n_models := sum(n > 0 for n in self.blocks)) > 1:
            who = f"The mean of the {n_models} models so far, each counted by its blocks,"
        harm = ""
        if self.bounds["effect"]["upper"] < 0:
            harm = "The treatment does harm on average: stop it, or treat few. "
        return f"{harm}{who} {found}{beside}."

    @property
    def checked(self) -> str:
        """What was tested of treatment being given by chance, and what not; "" if that failed."""
        if self.failed is not None:
            return ""
        told = [text for text in (self.balance, self.compared) if text is not None]
        lacking = []
        if self.balance is None:
            lacking.append(untested(self.compared))
        if self.ratio is None:
            lacking.append("whether the arms have the sizes of the design (pass treated_share=...)")
        if lacking:
            told.append(f"Not tested: {', '.join(lacking)}.")
        return " ".join(told)

    @property
    def handover(self) -> str | None:
        """What became of a new model; None if none was brought."""
        if self.taken_over is None:
            return None
        if self.taken_over:
            return "The new model ranks the rows from here on: pass it as the model from now on."
        return (
            "The new model has not taken over: the rows so far do not fill the superblock that the "
            "last one ranks. Pass both again at the next look."
        )

    @property
    def title(self) -> str:
        """How many rows there are, and until when."""
        return (
            f"{self.n_rows:,} rows until {self.until} ({self.n_new:,} new, {self.n_waiting:,} "
            f"waiting for their outcome)"
        )

    @property
    def gap(self) -> str | None:
        """Which days have no rows though others like them have; None if there are none."""
        if not self.skipped:
            return None
        more = f" and {len(self.skipped) - 3} days more" if len(self.skipped) > 3 else ""
        return (
            f"No row is of {', '.join(self.skipped[:3])}{more}, though days like these have "
            f"{USUAL} rows or more. They are closed now, and rows of them are refused from now on: "
            f"if some are still to come, put back a copy of the state from before this look."
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What became of a new model, which days are missing, and what was tested."""
        return tuple(note for note in (self.handover, self.gap, self.checked) if note)

    def rows(self) -> dict[str, str]:
        """Names and bounds for a printed table."""
        return {
            WORDS[name]: f"{own['estimate']:+.5f}, at least {own['lower']:+.5f}, at most "
            f"{own['upper']:+.5f}"
            for name, own in ({} if self.failed else self.bounds or {}).items()
        }

    def __str__(self) -> str:
        lines = [
            f"{self.n_rows:,} rows until {self.until}, {self.n_new:,} new, {self.n_waiting:,} "
            f"waiting for their outcome."
        ]
        lines += [f"{name}: {text}" for name, text in self.rows().items()]
        return "\n".join([*lines, self.verdict, *self.notes])


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
    counts: tuple[int, int] = (0, 0)  # control and treated people, or households, that entered
    log_ratio: float = 0.0  # the largest so far
    n_beyond: int = 0
    starts: tuple[int, ...] = (0,)  # blocks before each model
    day: Days = field(default_factory=lambda: np.empty(0, np.int64), repr=False)
    day_rows: Days = field(default_factory=lambda: np.empty(0, np.int64), repr=False)
    day_totals: Hashes = field(default_factory=lambda: np.empty(0, np.uint64), repr=False)
    people: Hashes = field(default_factory=lambda: np.empty(0, np.uint64), repr=False)
    homes: Hashes = field(default_factory=lambda: np.empty(0, np.uint64), repr=False)
    tilts: Floats = field(default_factory=lambda: np.zeros(len(TILTS)), repr=False)
    n_together: int = 1  # arms in the state, whose checks share what may be blamed by chance
    n_checks: int = 0  # of the balance of the arms
    checked_rows: int = 0  # at the last of them
    balance: str | None = None
    alike: ArmBalance | None = field(default=None, repr=False)  # by columns of the last model
    log_uneven: float = 0.0  # the largest so far
    stopped: str | None = None  # why nothing is told any more
    written: str | None = field(default=None, repr=False)  # the digest of its file

    @classmethod
    def of(cls, table: Any, *, model: TrialModel | None = None, **named: Any) -> Self:
        """A monitor that has seen nothing; ``table`` only shows the labels of the arms.

        Parameters
        ----------
        model : a fitted model that makes the score from raw features; it must not have learnt from
            rows that it is to rank.
        named : treatment, outcome, date: columns; score_column: scores that were fixed without
            rows of this trial, in the place of a model; rival_column: other scores; id: of the
            people; treated, control: labels of the arms; window: "30d" or so, after the day of a
            row, until its outcome counts; delta: chance that any bound ever fails; outcome_range:
            lowest and highest outcome, if not 0/1; treated_share: as it was designed; groups:
            column of households, each in one arm and of one day; propensity, least_chance: column
            of known chances of treatment, and the least of them, or of those of no treatment, by
            design; lower_is_better; random_state.
        """
        settings = settings_of(table_of(table), model, **named)
        return cls(settings, secrets.token_bytes(16), fresh_bets(settings))

    @property
    def n_rows(self) -> int:
        return int(self.day_rows.sum())

    @property
    def level(self) -> float:
        """The chance of each bound: two of each target share delta."""
        return self.settings.delta / (2 * self.bets.n_targets)

    @property
    def uneven(self) -> float:
        """The smallest anytime p-value so far of treatment going with no column, of all arms."""
        return float(min(self.n_together * np.exp(-min(self.log_uneven, 690.0)), 1.0))

    def look(
        self,
        table: Any,
        *,
        model: TrialModel | None = None,
        new_model: TrialModel | None = None,
        as_of: Any = None,
    ) -> Look:
        """Take rows whose windows have closed at ``as_of`` (now), and tell what is known.

        The table may have all rows so far, those of some last days, or new ones only. What does not
        agree with earlier looks raises a ValueError, and nothing is taken; so do, with a model,
        rows of the table that are not those of a randomised trial, a FailedCheckError. Once these
        were found, here or by what is counted of all who entered, nothing is taken or told any
        more. ``new_model`` ranks the rows from the next superblock on, none of which it may have
        learnt from; ``model`` ranks those that fill the open one.
        """
        if self.stopped is not None:
            return self.tell()
        own, table = self.settings, table_of(table)
        check_model(own, model, new_model)
        self._check_columns(model)
        check_not_ahead(as_of, table, own)
        day = last_closed_day(as_of, own.window)
        if self.last_day is not None and day < self.last_day:
            raise ValueError(
                f"as_of should not be before the last look, which was at rows until "
                f"{date_of(self.last_day)}; got a day at which the outcomes of rows until "
                f"{date_of(day)} are known. Leave it out."
            )
        old, new = read_arrivals(table, own, self.key, self.last_day, day, model)
        newer = None
        if new_model is not None:
            newer = read_arrivals(table, own, self.key, self.last_day, day, new_model)[1]
        self._check_people(new)
        self._check_homes(new)
        self._check_old(old)
        if model is not None:
            self._check_balance(table, day, model, self.n_rows + len(new.day))
        before = self.last_day
        taken_over = self._take(new, day, new_model, newer)
        if self.stopped is None and not self._has_bounds_in_order():
            self.stopped = (
                "A lower bound lies above its upper bound, so that one of them is wrong, and "
                "nothing is told of the trial: find out whether treatment was given by chance."
            )
        look = self.tell(len(new.day), new.n_waiting, taken_over)
        if self.last_day is None:
            return look
        gone = skipped_days(self.day, self.day_rows, before, self.last_day)
        return replace(look, skipped=tuple(date_of(int(one)) for one in gone))

    def _check_columns(self, model: TrialModel | None) -> None:
        """People are counted by the columns that they were counted by before."""
        own = balance_columns(self.settings, model)
        if self.alike is None:
            self.alike = ArmBalance.of(own, by_chance=self.settings.propensity is not None)
        if not self.alike.is_of(own):
            raise ValueError(
                f"the state should be of the columns {listed(name for name, _ in own)}, as the "
                f"model is, got one of {listed(self.alike.names)}. Pass the model of the last look."
            )

    def _check_balance(self, table: pd.DataFrame, day: int, model: TrialModel, n_rows: int) -> None:
        """Compare the arms, if there are a quarter more rows than at the last time.

        The m-th of these checks may blame what chance does once in m^2 / STOP times, so that all
        of them together blame a good trial with a probability below STOP pi^2 / 6. Only rows of the
        table can be compared so, and how many these were is told. What was found is kept.
        """
        if n_rows < GROWN * self.checked_rows:
            return
        level = STOP / (self.n_checks + 1) ** 2 / self.n_together
        try:
            found = check_arrivals(table, self.settings, self.key, day, model, level)
        except FailedCheckError as error:
            self.stopped = f"Found in rows until {date_of(day)}: {error}"
            raise
        if found is not None:
            told, n_compared = found
            self.n_checks += 1
            part = "" if n_compared >= n_rows else (
                f", of which {n_compared:,} were compared (pass all rows so far to compare all)"
            )  # fmt: skip
            self.checked_rows, self.balance = n_rows, f"At {n_rows:,} rows{part}: {told}"

    def _check_people(self, new: Arrivals) -> None:
        if self.settings.id is None:
            return
        people = np.sort(new.person & ~np.uint64(1))
        repeated = int((people[1:] == people[:-1]).sum())
        changed = int(_is_in(other_arm(new.person), self.people).sum())
        repeated += int(_is_in(new.person, self.people).sum())
        if changed:
            raise ValueError(
                f"everybody should stay in one arm, got {changed:,} who were in the other one "
                f"before. Find out who changed them: the state is as it was."
            )
        if repeated:
            raise ValueError(
                f"each person should come into the trial once, got {repeated:,} rows of people who "
                f"are in it already. Keep the first row of each: the state is as it was."
            )

    def _check_homes(self, new: Arrivals) -> None:
        """Households are in one arm, of one day and one chance, and come once."""
        name = self.settings.groups
        if name is None or not len(new.day):
            return
        _, code = np.unique(new.home & ~np.uint64(1), return_inverse=True)
        n_apart = [
            int(np.count_nonzero(_ends(code, own, np.maximum) != _ends(code, own, np.minimum)))
            for own in (new.treated, new.day, new.chance)
        ]
        homes = new.home[new.first]
        again = int(_is_in(homes, self.homes).sum() + _is_in(other_arm(homes), self.homes).sum())
        for n, what, todo in (
            (n_apart[0], "be in one arm", "Leave groups= out if people were randomised one by one"),
            (n_apart[1], "come on one day", "Write the day on which the first of them came"),
            (n_apart[2], "have one chance", "Check the column of chances"),
            (again, "come once", "Monitor one row of each if people come one after the other"),
        ):
            if n:
                raise ValueError(
                    f"people of one {name!r} should {what}, got {n:,} that do not. {todo}: the "
                    f"state is as it was."
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
                f"{gone:,} rows fewer of the days since {date_of(int(old.day.min()))} than before. "
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
                f"everybody should stay in one arm, got {changed:,} who were in the other one "
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

    def _take(
        self, new: Arrivals, day: int, new_model: TrialModel | None, newer: Arrivals | None
    ) -> bool | None:
        """Everything is checked: from here on nothing fails. Whether a new model has taken over."""
        # A day without rows may be one whose rows are not here yet: the last that came closes it.
        reached = None if new.last is None else min(day, new.last)
        closed = [own for own in (self.last_day, reached) if own is not None]
        self.last_day = max(closed, default=None)
        taken_over = self._bet(new, new_model, newer)
        if not len(new.day):
            return taken_over
        treated, chance = new.treated[new.first], new.chance[new.first]
        self._watch(treated, chance)
        self._compare(new.day[new.first], treated, chance)
        n_treated = int(treated.sum())
        control, before = self.counts
        self.counts = control + len(treated) - n_treated, before + n_treated
        self.n_beyond += int(new.beyond.sum())
        if self.settings.id is not None:
            self.people = np.sort(np.concatenate([self.people, new.person]))
        if self.settings.groups is not None:
            self.homes = np.sort(np.concatenate([self.homes, new.home[new.first]]))
        days, code, rows = np.unique(new.day, return_inverse=True, return_counts=True)
        n_days = len(self.day)
        self.day = np.concatenate([self.day, days])
        self.day_rows = np.concatenate([self.day_rows, rows])
        totals = self._totals(new, n_days + code)
        totals[:n_days] = self.day_totals
        self.day_totals = totals
        return taken_over

    def _bet(
        self, new: Arrivals, new_model: TrialModel | None, newer: Arrivals | None
    ) -> bool | None:
        """Bet on the rows; those after the open superblock are ranked by a new model, if any."""
        stop: int | None = len(new.day)
        if new_model is not None:
            stop = self.bets.rows_to_close(new.treated, new.first)
        self._add(new.take(slice(stop)))
        if new_model is None or newer is None or stop is None:
            return None if new_model is None else False
        self.settings = replace(self.settings, score_column=model_name(new_model))
        self.starts += (self.bets.n_blocks,)
        assert self.alike is not None
        self.alike.hand_over(balance_columns(self.settings, new_model))
        self._add(newer.take(slice(stop, None)))
        return True

    def _add(self, rows: Arrivals) -> None:
        if not len(rows.day):
            return
        own = rows.y, rows.scores, rows.treated, self.level, rows.first, rows.chance
        self.bets.add(*own)
        assert self.alike is not None
        # A household counts once, by its first row.
        first, chances = rows.first, () if self.settings.propensity is None else (rows.chance,)
        values = [own[first] for own in (*rows.values, *rows.scores, *chances)]
        self.alike.add(values, rows.treated[first], rows.chance[first])

    def _compare(self, day: Days, treated: Bools, chance: Floats) -> None:
        """Whether treatment goes with a column, or the day, of all who ever entered."""
        assert self.alike is not None
        self.alike.add_days(day, treated, chance)
        self.log_uneven = max(self.log_uneven, self.alike.log_evidence)
        if self.stopped is not None or self.uneven > STOP:
            return
        suspects = self.alike.suspects(-float(np.log(STOP / self.n_together)))
        asked = ""
        if self.settings.propensity is None:
            when = " from day to day" if DAY in suspects else ""
            asked = (
                f"If chances differed by design{when} (strata, waves, a share that was raised), "
                f"name them: propensity=COLUMN. "
            )
        if self.settings.groups is None:
            asked += "If households, or shops, were in one arm, name them: groups=COLUMN. "
        self.stopped = (
            f"Treatment was not given by chance, {self.settings.rule}: of "
            f"{sum(self.alike.totals):,} {self._units} that entered until {date_of(int(day[-1]))} "
            f"it goes with {listed(suspects)} (p = {self.uneven:.2g}, however often one looks). So "
            f"nothing is told of the trial: find out who was treated, and why. {asked}{ANEW}"
        )

    @property
    def _units(self) -> str:
        return "rows" if self.settings.groups is None else "groups"

    def _has_bounds_in_order(self) -> bool:
        """Whether a number lies between the bounds of each target; if none does, one is wrong."""
        with np.errstate(over="ignore", invalid="ignore"):
            lower, upper = np.moveaxis(self.bets.wealth.limits(self.level), -1, 0)
        return bool((upper - lower > 1e-9).all())

    def _watch(self, treated: Bools, chance: Floats) -> None:
        """Whether as many are treated as should be."""
        if self.settings.propensity is not None:
            path, self.tilts = tilt_path(treated, chance, self.tilts)
        elif self.settings.treated_share is not None:
            path = ratio_path(treated, self.counts, self.settings.treated_share)
        else:
            return
        self.log_ratio = max(self.log_ratio, float(path.max()))

    def tell(self, n_new: int = 0, n_waiting: int = 0, taken_over: bool | None = None) -> Look:
        """What is known by now, after a look at so many new rows."""
        own = self.settings
        low, high = own.outcome_range
        ratio, failed = None, self.stopped
        if own.treated_share is not None or own.propensity is not None:
            ratio = float(np.exp(-max(self.log_ratio, 0.0)))
            if ratio <= RATIO_LEVEL and failed is None:
                should = "their chances do not explain so many"
                if own.treated_share is not None:
                    should = f"{own.treated_share:.4g} of them should be"
                failed = (
                    f"The arms are not as they should be: {self.counts[1]:,} of "
                    f"{sum(self.counts):,} {self._units} are treated by now, where {should} (p = "
                    f"{ratio:.2g} at its worst, however often one looks). So nothing is told of "
                    f"the trial: find out which rows are missing."
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
            until="now" if self.last_day is None else date_of(self.last_day),
            delta=own.delta,
            ratio=ratio,
            failed=failed,
            blocks=tuple(np.diff([*self.starts, self.bets.n_blocks]).tolist()),
            taken_over=taken_over,
            balance=self.balance,
            compared=self._compared(),
            rule=own.rule,
        )

    def _compared(self) -> str | None:
        """By which columns all who entered were compared."""
        if self.alike is None or not self.alike.totals.any():
            return None
        found = "nothing found" if self.uneven > RATIO_LEVEL else "watch them"
        n_all = int(self.alike.totals.sum())
        by_size = dict[int, list[str]]()
        for n, name in zip((*self.alike.n_units, n_all), (*self.alike.names, DAY), strict=True):
            by_size.setdefault(n, []).append(name)
        told = [f"{n_all:,} {self._units} were compared by {listed(by_size.pop(n_all))}"]
        told += [
            f"{n:,} since a model brought it by {listed(by_size[n])}"
            for n in sorted(by_size, reverse=True)
            if n
        ]
        return (
            f"At all looks together {', '.join(told)}: {found} (p = {self.uneven:.2g}, however "
            f"often one looks)."
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state, whole or not at all; nobody else can read it.

        A file that another run wrote since this one was read, or that is of another trial, raises a
        ValueError.
        """
        self.written = write_states(path, [self], before=self.written)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The monitor whose state is in a file; what is none raises a ValueError."""
        written = state_digest(path) if Path(path).is_file() else None
        states, shared = read_states(path)
        if shared is not None:
            raise ValueError(
                f"{Path(path).name} should be the state of one arm, got one of {len(states)}. "
                f"Name another file."
            )
        return cls(**states[0], written=written)


def balance_columns(settings: Settings, model: TrialModel | None) -> list[tuple[str, int | None]]:
    """By what people are compared: raw columns of the model, if any, scores, known chances."""
    columns = list[tuple[str, int | None]]()
    if model is not None:
        columns = [
            (own.name, len(own.levels) if own.has_levels else None)
            for own in model.encoder.columns_
        ]
    score = "score of the model" if settings.by_model else settings.score_column
    named = (score, settings.rival_column, settings.propensity)
    return columns + [(name, None) for name in named if name is not None]


def _ends(code: Any, values: Any, end: Any) -> Any:
    """The largest or smallest value of each code."""
    order = np.argsort(code, kind="stable")
    starts = np.flatnonzero(np.diff(code[order], prepend=-1))
    return end.reduceat(np.asarray(values, np.float64)[order], starts)


def _is_in(hashes: Hashes, known: Hashes) -> Bools:
    """Whether each is among some that are sorted."""
    place = np.searchsorted(known, hashes)
    return np.append(known, np.uint64(0))[place] == hashes if len(known) else place < 0


def _late(n: int, day: int | None) -> str:
    return (
        f"rows should come in the order of their dates, got {n:,} of days until "
        f"{date_of(day or 0)}, which have entered without them. A longer window= from the start "
        f"gives them time: the state is as it was."
    )
