"""What a monitor is of, fixed at its first look: columns, arms, window, ranking, range, chances."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from auucmax._validation import check_level, check_range, check_whole, listed
from auucmax.encoding.kinds import arm_text
from auucmax.model.columns import check_named, check_names, different_values, name_columns

if TYPE_CHECKING:
    from auucmax.model import TrialModel

_WINDOW = re.compile(r"(\d{1,9}(?:\.\d*)?) ?([dwh])?")
MOST_DAYS = 36500  #: of a window
_UNITS = {"d": 1.0, "w": 7.0, "h": 1 / 24}


@dataclass(frozen=True)
class Settings:
    """What a monitor is of: the same at every look.

    ``score_column`` and ``rival_column`` have scores; of a score that a model makes it is "model "
    and a hash of it. ``window``: days after the day of a row until its outcome counts. ``groups``:
    column of households, whose rows enter together; ``propensity``: of known chances of treatment,
    which lie between ``least_chance`` and 1 minus it. ``others``: labels of arms that were there at
    the first look, and are left out.
    """

    treatment: str
    outcome: str
    date: str
    treated: str
    control: str
    score_column: str
    id: str | None = None
    rival_column: str | None = None
    window: float = 0.0
    delta: float = 0.05
    outcome_range: tuple[float, ...] = (0.0, 1.0)
    treated_share: float | None = None
    lower_is_better: bool = False
    random_state: int = 0
    groups: str | None = None
    propensity: str | None = None
    least_chance: float | None = None
    others: tuple[str, ...] = ()

    @property
    def by_model(self) -> bool:
        return re.fullmatch("model [0-9a-f]{16}", self.score_column) is not None

    @property
    def rule(self) -> str:
        """How chance should treat people."""
        return (
            "the same for all"
            if self.propensity is None
            else f"by the chances of {self.propensity!r}"
        )

    @property
    def columns(self) -> list[str]:
        """Columns of the table, besides features of a model."""
        own = [self.date, self.treatment, self.outcome, self.id, self.rival_column]
        own += [self.groups, self.propensity]
        own.append(None if self.by_model else self.score_column)
        return [name for name in own if name is not None]


def window_days(window: Any) -> float:
    """A window as days: "30d", "4w", "36h", or a number of days.

    >>> window_days("4w"), window_days(0)
    (28.0, 0.0)
    """
    found = _WINDOW.fullmatch(str(window).strip().lower())
    days = float(found[1]) * _UNITS[found[2] or "d"] if found else np.nan
    if not 0 <= days < MOST_DAYS:
        raise ValueError(
            f"window should be a time such as '30d', '4w' or '36h', got {window!r}. Write how long "
            f"after its day the outcome of a row is known."
        )
    return float(days)


def settings_of(
    table: pd.DataFrame,
    model: TrialModel | None,
    *,
    date: str | None = None,
    score_column: str | None = None,
    rival_column: str | None = None,
    window: Any = None,
    delta: float | None = None,
    treated_share: float | None = None,
    propensity: str | None = None,
    least_chance: float | None = None,
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
        own = ("treatment", "outcome", "id", "treated", "control", "lower_is_better", "groups")
        given = {name: getattr(model.columns, name) for name in own} | given
        if model.columns.outcome_range:
            given.setdefault("outcome_range", model.columns.outcome_range)
    check_named(given)
    labels = labels_of(table, given["treatment"])
    features = [*model.columns.features] if model is not None else [score_column]
    names = name_columns(table, **(given | {"features": features}))
    delta = 0.05 if delta is None else delta
    check_level(delta, "delta")
    if treated_share is not None:
        check_level(treated_share, "treated_share")
    check_chances(table, propensity, least_chance, treated_share)
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
        names.groups,
        propensity,
        least_chance,
        tuple(label for label in labels if label not in (names.treated, names.control)),
    )


def labels_of(table: pd.DataFrame, treatment: str) -> list[str]:
    """The labels of the arms at a first look, sorted; of one arm alone nothing can begin."""
    check_names(table, [treatment])
    labels = sorted({arm_text(value) for value in different_values(table, treatment)})
    if len(labels) < 2:
        got = f"rows of {labels[0]!r} alone" if labels else "no rows"
        raise ValueError(
            f"the table of the first look should have rows of all arms in {treatment!r}, got "
            f"{got}. Look when people of each have come, or check the column."
        )
    return labels


def check_chances(
    table: pd.DataFrame,
    propensity: str | None,
    least_chance: float | None,
    treated_share: float | None,
) -> None:
    """Raise a ValueError if what is said of known chances does not belong together."""
    if propensity is None and least_chance is None:
        return
    if propensity is None or least_chance is None:
        got = "least_chance" if propensity is None else "propensity"
        raise ValueError(
            f"known chances should come as a column with the least that the design allows, got "
            f"{got} alone. Pass propensity=COLUMN and least_chance=0.1, say."
        )
    if treated_share is not None:
        raise ValueError(
            "treated_share should be left out with propensity, by which arms are watched; got "
            "both. Leave it out."
        )
    if not (isinstance(least_chance, float) and 0 < least_chance <= 0.5):
        raise ValueError(
            f"least_chance should be above 0, at most .5, got {least_chance!r}. It is the least "
            f"chance of treatment, or of no treatment, that the design gives anybody."
        )
    check_names(table, [propensity])


def model_name(model: TrialModel) -> str:
    """What tells a model from others: how it was made, and of which rows."""
    import hashlib

    made = repr((model.recipe, model.summary.get("date"), model.calibration.score))
    return f"model {hashlib.sha256(made.encode()).hexdigest()[:16]}"


def check_model(
    settings: Settings, model: TrialModel | None, new_model: TrialModel | None = None
) -> None:
    """Raise a ValueError if scores come from elsewhere than at the last look."""
    if new_model is not None and model_name(new_model) == settings.score_column:
        raise ValueError(
            "the new model should be another one than ranks already, got the same: it has taken "
            "over. Pass it as the model, and no new_model=."
        )
    if settings.by_model and (model is None or model_name(model) != settings.score_column):
        got = "none" if model is None else "another"
        raise ValueError(
            f"the model should be that of the last look, got {got}. Pass the same, and as "
            f"new_model= the one that is to take over; or start with another state file."
        )
    if not settings.by_model and model is not None:
        raise ValueError(
            f"the scores should be those of the first look, the column "
            f"{settings.score_column!r}, got a model. Pass it as new_model= to let it take over, "
            f"or name another state file to start with it."
        )
    if new_model is not None:
        own = new_model.columns
        for name in ("outcome", "lower_is_better"):
            if getattr(own, name) != getattr(settings, name):
                raise ValueError(
                    f"the new model should be of the same {name}, {getattr(settings, name)!r}, "
                    f"got {getattr(own, name)!r}. Fit it so, or start with another state file."
                )


def check_settings(settings: Settings, name: str, named: dict[str, Any]) -> None:
    """Raise a ValueError if a look says something else than the first one did."""
    options = {own.name for own in fields(Settings)} - {"others"}
    for option, given in named.items():
        if option not in options:
            raise ValueError(
                f"{option} should be one of {listed(sorted(options))}, got a name that is none. "
                f"Check the spelling, or leave it out."
            )
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
