"""Rows of a running trial as they arrive: which have closed outcome windows, in which order.

A row belongs to the day of its date. Days enter whole, when the outcome window after their end has
closed. Within a day the order is that of keyed hashes, which know nothing of arms or outcomes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats, check_column, listed, missing_message
from auucmax.campaign.arm_balance import LARGEST
from auucmax.campaign.settings import Settings
from auucmax.data.hashing import keyed_hashes
from auucmax.data.pieces import PiecedTable, pieces_of
from auucmax.data.randomisation_report import FailedCheckError, RandomisationReport
from auucmax.encoding.kinds import arm_text, kind_of, numbers_of, outcome_numbers
from auucmax.model.columns import check_names
from auucmax.model.rows import check_trial_rows, id_texts, trial_rows

if TYPE_CHECKING:
    from auucmax.model import TrialModel

Hashes = NDArray[np.uint64]
Days = NDArray[np.int64]
USUAL = 20  #: rows of a day: without any a week later something is missing, not chance
FEWEST = 50  #: rows of an arm, below which features are not compared
#: What to do once treatment was found not to be given by chance.
ANEW = "To go on, start anew, with another state file and rows since treatment was given by chance."
_ARM = np.uint64(1)  # the last bit of a person's hash


class Arrivals(NamedTuple):
    """Rows of both arms whose windows have closed.

    ``person`` (n,): keyed hashes of ids, or of places in the table, the last bit is the arm;
    ``home`` (n,) the same of groups, or of each person. ``turn`` (2, n): of people and groups with
    another key, by which rows of a day are ordered. ``chance`` (n,) of treatment, if it is known.
    ``y`` in [0, 1], higher is better; ``scores`` (scores, n) and ``values`` (columns of a model, n)
    as :mod:`auucmax.campaign.arm_balance` counts them, none of rows that are not needed.
    ``beyond`` (n,): outcomes that were clipped. ``n_waiting`` rows have open windows; ``n_given``
    rows were read in all, of which ``last`` is the last day; None of no rows.
    """

    day: Days
    person: Hashes
    home: Hashes
    turn: Hashes
    y: Floats
    chance: Floats
    scores: Floats
    values: NDArray[np.float32]
    beyond: Bools
    n_waiting: int
    n_given: int
    last: int | None

    @property
    def treated(self) -> Bools:
        return (self.person & _ARM) == _ARM

    @property
    def first(self) -> Bools:
        """(n,) whether a row is the first of its group, in the order of arrival."""
        return np.append(True, self.home[1:] != self.home[:-1])[: len(self.home)]

    def take(self, rows: Any) -> Arrivals:
        parts: list[Any] = [*(own[..., rows] for own in self[:-3]), *self[-3:]]
        return Arrivals(*parts)

    def row_hashes(self, key: bytes) -> Hashes:
        """(n,) person, arm and outcome as one hash."""
        return keyed_hashes(self.person ^ np.ascontiguousarray(self.y).view(np.uint64), key)


def other_arm(person: Hashes) -> Hashes:
    """The same people, in the other arm."""
    return person ^ _ARM


def last_closed_day(as_of: Any, window: float) -> int:
    """The latest day, since 1970-01-01, whose window has closed at a moment.

    >>> last_closed_day("2026-03-01", 0), last_closed_day("2026-03-01 12:00", 28)
    (20512, 20484)
    """
    # 03.02.2026 is a day in February, or in March.
    if isinstance(as_of, str) and not re.match(r"\d{4}-\d{2}-\d{2}", as_of):
        raise ValueError(
            f"as_of should be a date such as '2026-03-01', got {as_of!r}. Write it so."
        )
    try:
        moment = pd.Timestamp.now("UTC") if as_of is None else pd.Timestamp(as_of)
        moment = moment.tz_localize("UTC") if moment.tzinfo is None else moment.tz_convert("UTC")
        days = moment.timestamp() / 86400
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(
            f"as_of should be a date such as '2026-03-01', got {as_of!r}. Write it so."
        ) from error
    return int(np.floor(days - window + 1e-9)) - 1


def skipped_days(day: Days, rows: Days, after: int | None, last: int) -> Days:
    """Days without a row, later than ``after`` up to ``last``, that should have had some.

    ``day``, ``rows``: days that have rows, from early to late, and how many each has. There were
    ``USUAL`` or more on the same day of the week before; in the first week, on both days beside.

    >>> days = np.array([0, 1, 3, 4, 7, 8, 10, 14, 15])  # no day 2, 5, 6, 9 or 11
    >>> skipped_days(days, np.full(9, 100), None, 15), skipped_days(days, np.full(9, 100), 9, 15)
    (array([ 2, 11]), array([11]))
    """
    many = day[rows >= USUAL]
    between = many[np.isin(many + 2, many) & (many + 1 < day[:1] + 7)] + 1
    found = np.union1d(many + 7, between)
    found = found[(found <= last) & ~np.isin(found, day)]
    return found if after is None else found[found > after]


def read_arrivals(
    table: pd.DataFrame | PiecedTable,
    settings: Settings,
    key: bytes,
    last_day: int | None,
    day: int,
    model: TrialModel | None,
) -> tuple[Arrivals, Arrivals]:
    """Rows of days up to ``last_day``, which entered before, and of those after it up to ``day``.

    The latter in the order of arrival, with scores. The rows of the fit of the model are refused.
    """
    entered = -(2**62) if last_day is None else last_day
    parts, first = [], 0
    for frame in _frames(table, settings, model):
        rows, frame = _closed_rows(frame, settings, key, first, day)
        first += rows.n_given
        fresh = rows.day > entered
        new = rows.take(fresh)
        if fresh.any():
            own = frame[fresh]
            new = new._replace(scores=_scores(own, settings, model), values=_values(own, model))
        parts.append((rows.take(~fresh), new))
    old, new = (_joined(own) for own in zip(*parts, strict=True))
    if model is not None and len(new.day) and model.is_own(table):
        raise ValueError(
            "the rows should be new to the model, got those that it was fitted on. Monitor a model "
            "that was fitted on other rows."
        )
    return old, new.take(np.lexsort((*new.turn, new.day)))


def check_arrivals(
    table: pd.DataFrame | PiecedTable,
    settings: Settings,
    key: bytes,
    day: int,
    model: TrialModel,
    level: float,
) -> tuple[str, int] | None:
    """What a check of the rows with closed windows found, as of any trial, and how many they are.

    None of too few. Rows that are not those of a randomised trial, by tests at a ``level``, raise a
    FailedCheckError. Of a table in pieces a sample of the rows is compared.
    """
    own = settings
    columns = replace(
        model.columns, treatment=own.treatment, outcome=own.outcome, treated=own.treated,
        control=own.control, id=own.id, groups=own.groups, propensity=own.propensity,
    )  # fmt: skip
    if isinstance(table, PiecedTable):
        ignored = [name for name in columns.ignored if name in table.columns]
        table = table.sample(table.sample_rows, [*columns.all, own.date, *ignored])
    kept = _closed_rows(table, own, key, 0, day)[1]
    sizes = kept[own.treatment].map(arm_text).value_counts().reindex([own.control, own.treated])
    if not sizes.min() >= FEWEST:
        return None
    report = check_trial_rows(trial_rows(kept, columns), columns)
    # What no model learns from is tested as well: ignored columns, ids and groups.
    tested = {*columns.features, *columns.ignored, columns.id, columns.groups} & {*kept.columns}
    return told_of_check(report, len(tested), level, own.rule), len(kept)


def told_of_check(
    report: RandomisationReport, n_columns: int, level: float, rule: str = "the same for all"
) -> str:
    """What a check says that is one of many, each of which may stop a good trial with ``level``."""
    smallest = min((test.adjusted_p_value for test in report.tests), default=1.0)
    # Each column that predicts the outcome well has a test of its own beside these.
    shifted = [n_columns * own.value for own in report.suspects if own.measure == "p"]
    smallest = min([smallest, *shifted])
    if len(shifted) < len(report.suspects) or smallest < level / 2:
        # Columns of a model are of before the treatment: none is to be named as one of after.
        advice = [text for text in report.advice if "after=" not in text]
        raise FailedCheckError(
            f"treatment should be given by chance, {rule}. {report.verdict} So nothing is "
            f"told of the trial, no row was taken, and the state keeps that it was found. "
            f"{' '.join(advice)} {ANEW}",
            report,
        )
    if report.stops:
        return (
            f"chance makes arms differ so at one look in {1 / min(smallest, 1.0):,.0f} (corrected "
            f"p), which one of many looks may well be. Watch them."
        )
    return report.verdict


def check_not_ahead(as_of: Any, table: pd.DataFrame | PiecedTable, settings: Settings) -> None:
    """Raise a ValueError for a look in the future, beyond the windows of all rows of the table.

    All windows would count as closed, and later looks, at the right date, as looks at the past.
    """
    today = last_closed_day(None, 0.0) + 1
    if as_of is None or (asked := last_closed_day(as_of, 0.0) + 1) <= today + 1:  # of any zone
        return
    if settings.date not in table.columns:
        return  # told when the rows are read
    frames = pieces_of(table, [settings.date])
    days = [_days(piece[settings.date], settings.date) for piece in frames]
    last = max((int(own.max()) for own in days if len(own)), default=today)
    if asked > last + settings.window + 1:
        raise ValueError(
            f"as_of should not be after today, {date_of(today)}, or the windows of the rows, whose "
            f"last date is {date_of(last)}, got {date_of(asked)}. Check the year: windows "
            f"that are open would be taken for closed."
        )


def date_of(day: int) -> str:
    """A day since 1970 as it is written."""
    return str(np.datetime64(day, "D"))


def _frames(
    table: pd.DataFrame | PiecedTable, settings: Settings, model: TrialModel | None
) -> Iterator[pd.DataFrame]:
    wanted = settings.columns
    if model is not None:
        wanted += model.score_columns
    check_names(table, wanted)
    yield from pieces_of(table, list(dict.fromkeys(wanted)))


def _closed_rows(
    frame: pd.DataFrame, settings: Settings, key: bytes, first: int, day: int
) -> tuple[Arrivals, pd.DataFrame]:
    """Rows of both arms whose windows have closed, without scores; and these rows as they came."""
    arms = frame[settings.treatment]
    if n_missing := int(arms.isna().sum()):
        raise ValueError(missing_message(f"the treatment {settings.treatment!r}", n_missing))
    codes, values = pd.factorize(arms)
    labels = np.array([arm_text(value) for value in values], dtype=object)
    ours = np.isin(labels[codes], (settings.treated, settings.control))
    arms_known = settings.treated, settings.control, *settings.others
    if n_unknown := int((~np.isin(labels[codes], arms_known)).sum()):
        raise ValueError(
            f"the treatment {settings.treatment!r} should hold {listed(arms_known)}, as at the "
            f"first look, got {listed(sorted({*labels} - {*arms_known}))} in {n_unknown:,} rows. "
            f"Check the spelling, or leave these rows out: the state is as it was."
        )
    days = _days(frame[settings.date], settings.date)
    closed = ours & (days <= day)
    kept = frame.iloc[np.flatnonzero(closed)]
    treated = labels[codes[closed]] == settings.treated
    people = _people(kept, settings, key, first + np.flatnonzero(closed), treated)
    y, beyond = _outcomes(kept, settings)
    none = np.empty((0, len(y))), np.empty((0, len(y)), np.float32)
    known = days[closed], *people, y, _chances(kept, settings), *none, beyond
    last = int(days.max()) if len(days) else None
    return Arrivals(*known, int((ours & ~closed).sum()), len(frame), last), kept


def _days(column: pd.Series, name: str) -> Days:
    if n_missing := int(column.isna().sum()):
        raise ValueError(missing_message(f"the date {name!r}", n_missing))
    kind, moments = kind_of(column) if len(column) else "date", column
    if kind in ("text", "category"):
        # 03/02/2026 is a day in February, or in March: no guess decides which rows have entered.
        moments = pd.to_datetime(column.astype(str), format="ISO8601", utc=True, errors="coerce")
        kind = "date"
    days = numbers_of(moments, kind) if kind == "date" else np.full(len(column), np.nan)
    wrong = np.flatnonzero(~np.isfinite(days))
    if len(wrong):
        raise ValueError(
            f"the date {name!r} should hold the day on which people came into the trial, written "
            f"as 2026-03-01, got {len(wrong):,} of {len(column):,} rows with another form, such as "
            f"{str(column.iloc[wrong[0]])!r}. Write all days so, or name another column."
        )
    return np.floor(days).astype(np.int64)


def _people(
    frame: pd.DataFrame, settings: Settings, key: bytes, places: NDArray[np.intp], treated: Bools
) -> tuple[Hashes, Hashes, Hashes]:
    """Hashes of people and of groups, with their arms, by the key; both by that of the seed."""
    texts = places.astype(str).astype(object)
    if settings.id is not None:
        texts = id_texts(frame[settings.id], f"the id {settings.id!r}")
    people = homes = np.asarray(pd.util.hash_array(texts), dtype=np.uint64)
    if settings.groups is not None:
        texts = id_texts(frame[settings.groups], f"the group {settings.groups!r}")
        homes = np.asarray(pd.util.hash_array(texts), dtype=np.uint64)
    arm = treated.astype(np.uint64)
    # The same seed, the same order: the same rows give the same bounds.
    seeded = np.random.default_rng([settings.random_state, 1]).bytes(len(key))
    person, home = (keyed_hashes(own, key) & ~_ARM | arm for own in (people, homes))
    return person, home, np.array([keyed_hashes(own, seeded) for own in (people, homes)])


def _chances(frame: pd.DataFrame, settings: Settings) -> Floats:
    """Chances of treatment within what was said of them beforehand; 1/2 if none are known."""
    if settings.propensity is None or settings.least_chance is None or not len(frame):
        return np.full(len(frame), 0.5)
    name, least = f"the chance of treatment {settings.propensity!r}", settings.least_chance
    chance = check_column(frame[settings.propensity].to_numpy(), name)
    far = np.minimum(chance, 1 - chance) < least - 1e-9
    if far.any():
        raise ValueError(
            f"{name} should lie between {least:g} and {1 - least:g}, as least_chance= says, got "
            f"{chance[far][0]:g} and others beyond in {int(far.sum()):,} of {len(far):,} rows. "
            f"Monitor the other people, or start anew with the least chance of the design."
        )
    return chance


def _outcomes(frame: pd.DataFrame, settings: Settings) -> tuple[Floats, Bools]:
    """Outcomes in [0, 1], higher is better, and which were clipped."""
    column, name = frame[settings.outcome], f"the outcome {settings.outcome!r}"
    if n_missing := int(column.isna().sum()):
        raise ValueError(
            f"{name} should be known of every row whose window has closed, got none in "
            f"{n_missing:,} rows. Write 0 where nothing happened, or pass a longer window=."
        )
    if not len(column):
        return np.empty(0), np.empty(0, bool)
    y = check_column(outcome_numbers(column).to_numpy(), name)
    low, high = settings.outcome_range
    if (low, high) == (0.0, 1.0) and not np.isin(y, (0, 1)).all():
        raise ValueError(
            f"{name} should be 0/1, or come with its range, got {y.min():g} to {y.max():g}. Pass "
            f"outcome_range=(lowest, highest), as they are possible."
        )
    scaled = (np.clip(y, low, high) - low) / (high - low)
    return (1 - scaled if settings.lower_is_better else scaled), (y < low) | (y > high)


def _scores(frame: pd.DataFrame, settings: Settings, model: TrialModel | None) -> Floats:
    """(scores, n) of the ranking and its rival."""
    names = [settings.score_column, settings.rival_column]
    return np.array(
        [
            model.predict(frame)
            if model is not None and number == 0
            else check_column(frame[name].to_numpy(), f"the scores {name!r}", len(frame))
            for number, name in enumerate(names)
            if name is not None
        ]
    )


def _values(frame: pd.DataFrame, model: TrialModel | None) -> NDArray[np.float32]:
    """(columns, n) of a model, in four bytes each: all columns of all new rows are in memory."""
    if model is None:
        return np.empty((0, len(frame)), np.float32)
    return np.clip(model.encoder.column_values(frame), -LARGEST, LARGEST).astype(np.float32)


def _joined(parts: tuple[Arrivals, ...]) -> Arrivals:
    *columns, scores, values, beyond, waiting, given, lasts = zip(*parts, strict=True)
    joined: list[Any] = [np.concatenate(own, axis=-1) for own in columns]
    for made in (scores, values):  # of the rows that need them
        known = [own for own in made if own.shape[0]] or [np.empty((0, sum(map(len, beyond))))]
        joined.append(np.concatenate(known, axis=1))
    last = max((own for own in lasts if own is not None), default=None)
    joined += [np.concatenate(beyond), sum(waiting), sum(given), last]
    return Arrivals(*joined)
