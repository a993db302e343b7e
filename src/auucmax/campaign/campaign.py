"""The rows of a campaign that was targeted: what was chosen for whom, by which chance, and given.

An *arm* is a number: 0 is the control, and of one treatment 1 is the treated arm. The *policy* of a
row is the arm that was chosen for it. A *cell* holds the rows for which the same arm was chosen,
with the same chances. :func:`read_campaign` reads a campaign of one treatment,
:mod:`auucmax.campaign.arm_verification` one of several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats, check_column, check_groups, listed
from auucmax.campaign.assignment import OWN_COLUMNS
from auucmax.campaign.contrasts import CellMeans
from auucmax.data import Trial, check_randomisation
from auucmax.data.balance import equal_shares, holm
from auucmax.data.randomisation import BY_CLUSTER, within_clusters
from auucmax.data.randomisation_report import FailedCheckError
from auucmax.data.reading import table_of
from auucmax.encoding.frames import frame_of
from auucmax.encoding.kinds import arm_text
from auucmax.model import (
    ArmsModel,
    ColumnNames,
    TrialModel,
    TrialRows,
    name_columns,
    trial_rows,
)
from auucmax.model.columns import NO_AND_YES, check_named, check_names
from auucmax.model.rows import id_texts

Codes = NDArray[np.intp]
MOST_CELLS = 20  #: different chances among the chosen and the rest
NEXT_TIME = "auucmax assign PEOPLE --model MODEL --id ID --key NAME --share .3 --explore .1"
_DIGITS = 6  # chances that agree in so many are one
_FEWEST = 50  # rows of each arm of a cell whose features are compared
_STOPS, _DOUBTFUL = 1e-4, 0.01  # corrected p-values: as in check_randomisation
_CHOSEN = "auucmax_chosen"


class Cell(NamedTuple):
    """Rows for which the same arm was chosen, with the same chances.

    ``chances`` of the arms, the control first; None if none were recorded. ``who``: in words.
    """

    policy: int
    chances: tuple[float, ...] | None
    who: str

    def __str__(self) -> str:
        return self.who


@dataclass(frozen=True, eq=False)
class Campaign:
    """Checked rows with an outcome, n of them, of A arms, and the cells that they are in.

    ``score`` and ``uplift`` (n, A - 1) are those of the list, or of the model; None if neither
    knows. ``lost`` and ``told`` (cells, A): rows without an outcome, which are left out, and with
    one; of each group its first row.
    """

    frame: pd.DataFrame
    y: Floats
    arm: Codes
    cell: Codes
    cells: tuple[Cell, ...]
    labels: tuple[str, ...]
    columns: ColumnNames
    groups: Codes | None
    score: Floats | None
    uplift: Floats | None
    lost: NDArray[np.intp]
    told: NDArray[np.intp]
    has_features: bool
    notes: tuple[str, ...] = ()

    @cached_property
    def means(self) -> CellMeans:
        return CellMeans.of(
            self.y, self.arm, self.cell, self.groups, len(self.cells), len(self.labels)
        )

    @property
    def of_arms(self) -> bool:
        """Whether there are several beside the control."""
        return len(self.labels) > 2

    @property
    def cell_policy(self) -> Codes:
        """(cells,)"""
        return np.array([cell.policy for cell in self.cells], dtype=np.intp)

    @property
    def policy(self) -> Codes:
        """(n,)"""
        return self.cell_policy[self.cell]

    @property
    def is_chosen(self) -> Bools:
        """(cells,) whether an arm was chosen."""
        return self.cell_policy > 0

    @property
    def chosen(self) -> Bools:
        """(n,)"""
        return self.policy > 0

    @property
    def sizes(self) -> NDArray[np.intp]:
        """(cells,) rows."""
        return self.means.counts.sum(axis=1)

    def why_unknown(self, coefficients: Floats) -> str | None:
        """Why a sum of means with these (cells, A) cannot be told; None if it can."""
        for cell, lacking in zip(
            self.cells, (coefficients != 0) & (self.means.counts == 0), strict=True
        ):
            for arm in np.flatnonzero(lacking).tolist():
                got = f"got {self.labels[arm]!r}"
                if not self.of_arms:
                    got = "was treated" if arm else "was left untreated"
                return f"nobody of {cell} {got}"
        return None


def effects_of(weights: Floats) -> Floats:
    """(cells, 2) coefficients of the means, from those of the effects in the cells."""
    return np.outer(weights, [-1.0, 1.0])


def read_campaign(
    table: Any,
    *,
    chosen: str | None,
    propensity: str | None,
    people: Any,
    model: TrialModel | None,
    **named: Any,
) -> Campaign:
    """The rows of a campaign; parameters as in :func:`auucmax.campaign.verify`."""
    table, people = table_of(table), None if people is None else frame_of(people)
    # A list of `assign` says who was chosen, the arm that was given and the chance of it.
    is_assignment = people is not None and "chosen" in people.columns
    _check_targeted(people)
    named = _known_names(model, named, [str(name) for name in table.columns], is_assignment)
    frame = table.copy(deep=False)  # ours to add columns to
    _check_who(chosen, people, named["id"])
    notes: tuple[str, ...] = ()
    if people is not None:
        wanted = "propensity" if propensity is None else propensity
        named, told = with_groups(people, is_assignment, wanted, named)
        frame, notes = _with_list(frame, people, is_assignment, wanted, named)
        notes = told + notes
        propensity = wanted if is_assignment and wanted in frame.columns else propensity
    _check_parts(frame, chosen, propensity, named)
    if chosen is not None:
        frame[_CHOSEN] = _is_chosen(frame[chosen], chosen, named["treated"])
    if not frame[_CHOSEN].any():
        raise ValueError(
            "somebody should be among the chosen, got nobody. Check the column, or the list."
        )
    _check_both_arms(frame, named["treatment"])
    columns = name_columns(frame, features=[_CHOSEN], **named)
    rows = trial_rows(frame, columns)
    if rows.left_out:
        others = ", ".join(f"{n:,} of {arm!r}" for arm, n in rows.left_out.items())
        notes += (f"Rows of other arms are left out: {others}.",)
    if any(rows.lost):
        notes += (f"{sum(rows.lost):,} rows without an outcome are left out.",)
    cell, cells = _cells(frame, propensity)
    return _campaign(frame, rows, columns, cell, cells, model, notes)


def _campaign(
    frame: pd.DataFrame,
    rows: TrialRows,
    columns: ColumnNames,
    cell: Codes,
    cells: tuple[Cell, ...],
    model: TrialModel | None,
    notes: tuple[str, ...],
) -> Campaign:
    kept = rows.frame
    has_features = model is not None and set(model.columns.features) <= set(kept.columns)
    score, uplift = (_numbers(kept, name, model) for name in ("score", "uplift"))
    if has_features and model is not None:
        score = model.predict(kept)
    if uplift is None and score is not None and model is not None:
        uplift, known = np.full(len(score), np.nan), np.isfinite(score)
        uplift[known] = model.calibration(score[known])
    codes, labels = _labels(frame[columns.treatment])
    arm = pd.Index([columns.control, columns.treated]).get_indexer(pd.Index(labels))[codes]
    groups = None if columns.groups is None else frame[columns.groups].to_numpy()
    missing = frame[columns.outcome].isna().to_numpy(dtype=bool)
    lost, told = missing_counts(missing, cell, arm, groups, (len(cells), 2))
    return Campaign(
        frame=kept,
        y=rows.y,
        arm=rows.treated.astype(np.intp),
        cell=cell[rows.positions],
        cells=cells,
        labels=(columns.control, columns.treated),
        columns=columns,
        groups=None if rows.groups is None else check_groups(rows.groups, len(rows.y)),
        score=None if score is None else score[:, None],
        uplift=None if uplift is None else uplift[:, None],
        lost=lost,
        told=told,
        has_features=has_features,
        notes=notes,
    )


def drawn_rows(groups: NDArray[Any] | None, cell: Codes, arm: Codes) -> Codes:
    """Places of one row of each draw: the first of each group, or all if people were drawn.

    People were drawn where there are no groups, or where treatment varies within groups, cell by
    cell, about as much as if each had been drawn separately.
    """
    if groups is None:
        return np.arange(len(arm))
    codes, found, expected = pd.factorize(groups)[0], 0.0, 0.0
    for number in np.unique(cell):
        own = cell == number
        variation = within_clusters(pd.factorize(codes[own])[0], arm[own])
        found, expected = found + variation.found, expected + variation.expected
    if expected > 0 and found >= BY_CLUSTER * expected:
        return np.arange(len(arm))
    return np.flatnonzero(~pd.Series(codes).duplicated().to_numpy())


def missing_counts(
    missing: Bools, cell: Codes, arm: Codes, groups: NDArray[Any] | None, shape: tuple[int, int]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """(cells, arms) rows without an outcome and with one, one of each draw; arm -1 is left out."""
    ours = np.flatnonzero(arm >= 0)
    first = ours[drawn_rows(None if groups is None else groups[ours], cell[ours], arm[ours])]
    place = cell * shape[1] + arm
    lost, told = (
        np.bincount(place[first][own], minlength=shape[0] * shape[1]).reshape(shape)
        for own in (missing[first], ~missing[first])
    )
    return lost, told


def _known_names(
    model: TrialModel | None, named: dict[str, Any], there: Sequence[str], is_assignment: bool
) -> dict[str, Any]:
    """Columns and labels as they were given, otherwise those of the model."""
    if model is not None:
        own = model.columns
        _check_outcome_of(own, named)
        if named["treatment"] in (None, own.treatment):
            # Labels go with their column: those of another one are not the model's.
            for name in ("treatment", "treated", "control"):
                named[name] = getattr(own, name) if named[name] is None else named[name]
        named["groups"] = own.groups if named["groups"] is None else named["groups"]
        if named["id"] is None and own.id in there:
            named["id"] = own.id
        named |= {"outcome": own.outcome, "lower_is_better": own.lower_is_better}
        named["outcome_range"] = named["outcome_range"] or own.outcome_range or None
    elif is_assignment and named["treatment"] is None:
        named["treatment"] = "arm"
    check_named(named)
    return named


def _check_outcome_of(own: ColumnNames, named: dict[str, Any]) -> None:
    """Another outcome than the model's would be compared with a promise that nobody made."""
    for name, given, known in (
        ("outcome", named["outcome"], own.outcome),
        ("lower_is_better", named["lower_is_better"] or None, own.lower_is_better),
    ):
        if given is not None and given != known:
            raise ValueError(
                f"{name} should be {known!r}, as the model was fitted, got {given!r}. Leave it "
                f"out: the model decides it."
            )


def _check_who(chosen: str | None, people: pd.DataFrame | None, id: str | None) -> None:
    if (chosen is None) == (people is None):
        got = "neither" if chosen is None else "both"
        raise ValueError(
            f"who was chosen should be said by a column or by the list, got {got}. Pass "
            f"chosen=COLUMN or people=LIST."
        )
    if people is not None and id is None:
        raise ValueError(
            "the list should come with the column that names people in both tables, got none. "
            "Pass id=COLUMN."
        )


def _check_targeted(people: pd.DataFrame | None) -> None:
    """ValueError for a list of a trial: nobody was chosen, so no targeting can have gained."""
    if people is not None and "rule" in people.columns and "chosen" not in people.columns:
        raise ValueError(
            "the list should be of people whom a model chose, got one of a trial in which arms "
            "were assigned without a model. What arms and rankings gained is told by fit and "
            "evaluate."
        )


def _check_parts(
    frame: pd.DataFrame, chosen: str | None, propensity: str | None, named: dict[str, Any]
) -> None:
    parts = [named[name] for name in ("treatment", "outcome", "id")] + [chosen, propensity]
    given = [name for name in parts if name is not None]
    check_names(frame, [*given, *([] if named["groups"] is None else [named["groups"]])])
    if twice := {name for name in given if given.count(name) > 1}:
        raise ValueError(
            f"chosen, propensity, treatment, outcome and id should be different columns, got "
            f"{twice.pop()!r} twice. Who was chosen and who was treated differ where there is "
            f"anything to learn."
        )


def with_groups(
    people: pd.DataFrame, is_assignment: bool, propensity: str, named: dict[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The names with the groups by which ``assign`` wrote the list, if none are known; and notes.

    They are the column that is not one of the list's own. Of several (somebody has
    added to the list) it is the first whose people all have one arm.
    """
    if not is_assignment or named["groups"] is not None:
        return named, ()
    known = {
        *OWN_COLUMNS,
        propensity,
        "uplift",
        *(named[n] for n in ("id", "treatment", "outcome")),
    }
    others = [
        name
        for name in map(str, people.columns)
        if name not in known and people[name].notna().all() and people[name].duplicated().any()
    ]
    if len(others) > 1 and "arm" in people.columns:
        others = [name for name in others if people.groupby(name)["arm"].nunique().max() == 1]
    if not others:
        return named, ()
    told = f"People of one {others[0]!r} are taken together, for the list was assigned by it."
    return named | {"groups": others[0]}, (told,)


def _with_list(
    frame: pd.DataFrame,
    people: pd.DataFrame,
    is_assignment: bool,
    propensity: str,
    named: dict[str, Any],
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The rows with what a list of ``target``, or of ``assign``, says of them, by id; and notes."""
    notes, place = [], found_places(frame, people, named["id"])
    if is_assignment and (place < 0).any():
        n_others = int((place < 0).sum())
        notes.append(f"People who are not in the list are left out: {n_others:,}.")
        frame, place = frame[place >= 0].copy(deep=False), place[place >= 0]
    is_chosen = np.ones(len(people), dtype=bool)
    if is_assignment:
        is_chosen = _is_chosen(people["chosen"], "chosen", named["treated"])
    elif "arm" in people.columns and len(people["arm"].unique()) > 1:
        is_chosen = _is_chosen(people["arm"], "arm", named["treated"])
    frame[_CHOSEN] = np.where(place >= 0, is_chosen[place], False)
    brought = {name: name for name in ("score", "uplift")}
    if is_assignment:
        brought |= {propensity: propensity, named["treatment"]: "arm"}
        brought |= {} if named["groups"] is None else {named["groups"]: named["groups"]}
    for name, own in brought.items():
        if own in people.columns and name not in frame.columns:
            values = people[own].iloc[place].set_axis(frame.index)
            frame[name] = values.where(place >= 0)
    if n_absent := int(is_chosen.sum()) - int(frame[_CHOSEN].sum()):
        notes.append(f"{n_absent:,} of the list are not among the rows.")
    return frame, tuple(notes)


def found_places(frame: pd.DataFrame, people: pd.DataFrame, id: str) -> Codes:
    """The place of each row's person in the list, -1 for those who are not in it."""
    for table in (frame, people):
        check_names(table, [id])
    own, texts = (id_texts(t[id], f"the id {id!r}") for t in (frame, people))
    if n_twice := len(texts) - len(np.unique(texts)):
        raise ValueError(
            f"the list should name each person once, got {n_twice:,} rows with the {id!r} of "
            f"another. Keep one row of each."
        )
    place = pd.Index(texts).get_indexer(pd.Index(own))
    if not (place >= 0).any():
        raise ValueError(
            f"people of the list should be among the rows, got {len(texts):,} such as {texts[0]!r} "
            f"that no row has; rows have {id!r} such as {own[0]!r}. Write them in the same way."
        )
    return np.asarray(place, dtype=np.intp)


def _is_chosen(column: pd.Series, name: str, treated: Any) -> Bools:
    """Who was chosen, by yes and no, or by the label of the treated arm."""
    if n_missing := int(column.isna().sum()):
        raise ValueError(
            f"the column {name!r} should say of everyone whether they were chosen, got nothing in "
            f"{n_missing:,} rows. Write 0 for those who were not."
        )
    codes, labels = _labels(column)
    lower = {label.lower() for label in labels}
    yes = next((pair[1] for pair in NO_AND_YES if lower <= set(pair)), None)
    if yes is not None:
        found = np.array([label.lower() == yes for label in labels])
    elif treated is not None and arm_text(treated) in labels:
        found = labels == arm_text(treated)
    else:
        arm = "the label of the treated arm" if treated is None else repr(arm_text(treated))
        raise ValueError(
            f"the column {name!r} should be 0/1 or yes and no, or hold {arm} for the chosen; got "
            f"{listed(sorted(labels))}. Pass treated=..., or write 1 for the chosen and 0 for the "
            f"rest."
        )
    return np.asarray(found[codes], dtype=bool)


def _labels(column: pd.Series) -> tuple[Codes, NDArray[Any]]:
    """The label of each row as a number, and the labels as texts: of the few, not of all rows."""
    codes, values = pd.factorize(column)
    return codes, np.array([arm_text(value) for value in values], dtype=object)


def _check_both_arms(frame: pd.DataFrame, treatment: str) -> None:
    if frame[treatment].isna().any():
        return  # told when the rows are read
    (codes, labels), chosen = _labels(frame[treatment]), frame[_CHOSEN].to_numpy(dtype=bool)
    if all(len(set(labels[np.unique(codes[own])])) < 2 for own in (chosen, ~chosen)):
        raise ValueError(
            f"some of the chosen should be left untreated, or some of the rest treated, got "
            f"neither: all {int(chosen.sum()):,} chosen are alike in {treatment!r}, and so are the "
            f"other {int((~chosen).sum()):,}. What the targeting gained cannot be told. Next time "
            f"keep a random part of the list untreated and treat a random part of the rest: "
            f"{NEXT_TIME}"
        )


def _cells(frame: pd.DataFrame, propensity: str | None) -> tuple[Codes, tuple[Cell, ...]]:
    """The cell of each row, and the cells: the chosen first, then by their chances."""
    rest = (~frame[_CHOSEN].to_numpy(dtype=bool)).astype(np.intp)
    names = [] if propensity is None else [propensity]
    cell, keys = cells_by(rest, frame, names)
    cells = []
    for is_rest, *chance in keys:
        who = "the rest" if is_rest else "the chosen"
        told = f"{who} at a chance of {chance[0]:g}" if chance else who
        cells.append(Cell(int(1 - is_rest), (1 - chance[0], chance[0]) if chance else None, told))
    return cell, tuple(cells)


def cells_by(
    first: Codes, frame: pd.DataFrame, names: Sequence[str]
) -> tuple[Codes, list[tuple[float, ...]]]:
    """The cell of each row, and of each cell its key: ``first``, and chances in columns, in order.

    Chances of the arms but the control, which has the rest.
    """
    told = f"the chance{'s' if len(names) > 1 else ''} of treatment {listed(names)}"
    columns = [check_column(frame[name].to_numpy(), f"the chance {name!r}") for name in names]
    chances = np.round(columns, _DIGITS)
    total = chances.sum(axis=0)
    if names and (chances.min() < 0 or total.max() > 1 + 1e-6):
        together = " together" if len(names) > 1 else ""
        raise ValueError(
            f"{told} should lie between 0 and 1{together}, got {chances.min():g} to "
            f"{total.max():g}{together}. Write .9 for 90 per cent."
        )
    found, cell = np.unique(first, return_inverse=True)
    keys: list[tuple[float, ...]] = [(float(value),) for value in found]
    for own in chances:
        values, code = np.unique(own, return_inverse=True)
        found, cell = np.unique(cell * len(values) + code, return_inverse=True)
        places = (divmod(int(one), len(values)) for one in found)
        keys = [(*keys[before], float(values[place])) for before, place in places]
    if len(keys) > MOST_CELLS:
        raise ValueError(
            f"{told} should have few values, one for each stratum of the assignment, got "
            f"{len(keys):,} among what was chosen. Pass those that `auucmax assign` wrote."
        )
    return np.asarray(cell, dtype=np.intp), keys


def _numbers(frame: pd.DataFrame, name: str, model: TrialModel | None) -> Floats | None:
    """A column as ``target`` writes it, if everyone among the rows has a number in it."""
    if name not in frame.columns or (model is not None and name in model.columns.features):
        return None
    try:
        values = frame[name].to_numpy(dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return values if np.isfinite(values[frame[_CHOSEN].to_numpy(dtype=bool)]).all() else None


class CheckedTest(NamedTuple):
    """A test of the randomisation within a cell; ``p_value`` is corrected for all of them."""

    what: str
    p_value: float
    detail: str


def check_campaign(
    campaign: Campaign, model: TrialModel | ArmsModel | None
) -> tuple[CheckedTest, ...]:
    """Test in each cell whether arms were given with the chances that were recorded, by chance.

    Counts against chances, features (or scores, or uplifts) of the arms, and outcomes that are
    missing; FailedCheckError where chance does not explain it.
    """
    found = [*_count_tests(campaign), *_lost_tests(campaign), *_balance_tests(campaign, model)]
    adjusted = holm(np.array([test.p_value for test in found]))
    tests = tuple(test._replace(p_value=float(p)) for test, p in zip(found, adjusted, strict=True))
    if failed := [test for test in tests if test.p_value < _STOPS]:
        worst = min(failed, key=lambda test: test.p_value)
        within = "those of each arm" if campaign.of_arms else "the chosen"
        raise FailedCheckError(
            f"treatment should have been given by chance within {within} and the rest, and was "
            f"not: {worst.detail} (corrected p {_p(worst.p_value)}). Nothing is told of the "
            f"targeting: find out how people were assigned, and what was recorded of it."
        )
    return tests


def doubts(tests: tuple[CheckedTest, ...]) -> tuple[str, ...]:
    """A sentence on each test that is close to failing."""
    return tuple(
        f"Chance hardly explains that {test.detail} (corrected p {_p(test.p_value)}): check how "
        f"people were assigned."
        for test in tests
        if test.p_value < _DOUBTFUL
    )


def _count_tests(campaign: Campaign) -> list[CheckedTest]:
    found, first = [], drawn_rows(campaign.groups, campaign.cell, campaign.arm)
    units = "" if len(first) == len(campaign.y) else "groups "
    for number, cell in enumerate(campaign.cells):
        if cell.chances is None:
            continue
        # Where chance has no say, no row is an exception.
        rows = np.arange(len(campaign.y)) if 1.0 in cell.chances else first
        arms = campaign.arm[rows[campaign.cell[rows] == number]]
        n, counts = len(arms), np.bincount(arms, minlength=len(campaign.labels))
        if n == 0:
            continue
        detail = f"{counts[-1]:,} of {n:,} ({counts[-1] / n:.1%}) {units}of {cell} were treated"
        if campaign.of_arms:
            detail = f"{cell} got {_shares(counts / n, campaign.labels)}"
        found.append(CheckedTest("counts", _counts_p(counts, np.array(cell.chances)), detail))
    return found


def _shares(share: Floats, labels: Sequence[str]) -> str:
    return ", ".join(f"{part:.1%} {label!r}" for part, label in zip(share, labels, strict=True))


def _counts_p(counts: Codes, chance: Floats) -> float:
    """The p-value of arms' counts: exact for each arm, whatever the counts, corrected for all."""
    from scipy.stats import binomtest

    n = int(counts.sum())
    p_values = [
        float(binomtest(int(own), n, float(p)).pvalue)
        for own, p in zip(counts, np.clip(chance, 0, 1), strict=True)
        if p > 0 or own
    ]
    # Of two arms, one says it all.
    return float(holm(np.array(p_values[-1:] if len(p_values) == 2 else p_values)).min(initial=1.0))


def _lost_tests(campaign: Campaign) -> list[CheckedTest]:
    """Each arm against the first, corrected for all."""
    found = []
    for cell, lost, told in zip(campaign.cells, campaign.lost, campaign.told, strict=True):
        there = np.flatnonzero(lost + told)
        if not lost.any() or len(there) < 2:
            continue
        table = np.column_stack([lost, told])[there]
        p_values = [equal_shares(np.stack([table[0], own])) for own in table[1:]]
        share = lost[there] / table.sum(axis=1)
        detail = f"{share[-1]:.1%} of the treated and {share[0]:.1%} of the untreated"
        if campaign.of_arms:
            detail = _shares(share, [campaign.labels[arm] for arm in there])
        detail = f"{detail} of {cell} have no outcome"
        p_value = float(holm(np.array(p_values)).min())
        found.append(CheckedTest("missing outcomes", p_value, detail))
    return found


def _balance_tests(campaign: Campaign, model: TrialModel | ArmsModel | None) -> list[CheckedTest]:
    """Features, scores or uplifts of the arms of each cell that has many rows of each."""
    known = campaign.uplift if campaign.score is None else campaign.score
    if campaign.has_features and model is not None:
        features = campaign.frame[list(model.columns.features)].reset_index(drop=True)
    elif known is None:
        return []
    else:
        features = pd.DataFrame(known).rename(columns=str)
    found, names = [], np.array(campaign.labels, dtype=object)
    arms = "arms" if campaign.of_arms else "treated and the untreated"
    for number, cell in enumerate(campaign.cells):
        rows = campaign.cell == number
        # A list of `target` knows nothing of those who are not in it.
        is_known = campaign.has_features or (known is not None and np.isfinite(known[rows]).all())
        if not is_known or campaign.means.counts[number].min() < _FEWEST:
            continue
        own = None if campaign.groups is None else campaign.groups[rows]
        trial = Trial(
            features[rows], campaign.y[rows], names[campaign.arm[rows]],
            control=campaign.labels[0], groups=own,
        )  # fmt: skip
        p_values = [test.adjusted_p_value for test in check_randomisation(trial).tests]
        if p_values:
            detail = f"the {arms} of {cell} differ before treatment"
            found.append(CheckedTest("balance", float(min(p_values)), detail))
    return found


def _p(value: float) -> str:
    return "< 0.0001" if value < 1e-4 else f"= {value:.2g}"
