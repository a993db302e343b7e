"""The people of a campaign in cells of chosen arm and propensity, with checks, and their means.

A *cell* holds rows with the same chosen arm and the same propensities. With m_ca the mean outcome
of arm a in cell c, every gain of a campaign is a contrast, sum over cells and arms of k_ca m_ca:
for the gain of treating a list k is plus or minus its people in the cell, in the treated and in the
control arm.

Intervals: for 0/1 outcomes of independent rows the score limits of each mean, joined as Newcombe
joins two (Donner and Zou 2012); otherwise Student's t with Hall's transformation, on the totals of
groups if rows belong together. With too few rows there is no interval, and the reason is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import binomtest

from auucmax._errors import InputError
from auucmax._validation import Bools, Floats, check_column, listed
from auucmax.data import FailedCheckError, Trial, check_randomisation
from auucmax.data.balance import equal_shares, holm
from auucmax.data.randomisation import within_clusters
from auucmax.data.read_trial import NO_AND_YES, check_names, id_texts, read_trial
from auucmax.data.reading import table_of
from auucmax.encoding.kinds import arm_text
from auucmax.metrics.inference import ClusterUnits, support_of_rows
from auucmax.metrics.intervals import ArmMean, Moments, Spread, area_limits
from auucmax.model import UpliftModel
from auucmax.results import Estimate, Result

Codes = NDArray[np.intp]

_CHOSEN = "auucmax_chosen"
_MOST_CELLS = 20
_DIGITS = 6  # in which equal propensities agree
_FEWEST = 50  # rows of each arm of a cell whose features are compared
_STOPS = 1e-4  # corrected p-value, as in check_randomisation


class Cell(Result):
    """People with the same chosen arm and the same (known) treatment probabilities.

    ``given``: how many of them got each arm, the control first. ``p_values``: of the tests of
    randomisation within the cell ("propensity", "missing outcomes", "balance"), corrected for all
    tests of all cells.
    """

    chosen: str
    propensity: float | None
    given: tuple[int, ...]
    p_values: dict[str, float]


class CellMeans:
    """Mean outcomes of the rows of each cell and arm.

    ``y`` are kept in units of the largest one, so that fourth powers do not overflow. ``place``
    (n,): the number of arms times the row's cell, plus its arm, 0 for the control. ``groups``:
    codes of rows that belong together, or None. ``counts`` and ``means``: (cells, arms), 0 where
    there is no row.
    """

    def __init__(
        self,
        y: Floats,
        arm: Bools | Codes,
        cell: Codes,
        groups: Codes | None = None,
        n_cells: int = 0,
    ) -> None:
        n_arms = int(arm.max()) + 1
        n_places = n_arms * max(n_cells, int(cell.max()) + 1)
        self.unit = float(np.abs(y).max()) or 1.0
        self.y = y / self.unit
        self.groups = groups
        self.place: Codes = n_arms * cell + arm
        counts = np.bincount(self.place, minlength=n_places)
        means = np.bincount(self.place, self.y, minlength=n_places) / np.maximum(counts, 1)
        self.counts = counts.reshape(-1, n_arms)
        self.means: Floats = means.reshape(-1, n_arms)

    def contrast(self, coefficients: Floats, level: float = 0.95) -> Estimate:
        """The contrast with these ``coefficients`` (cells, arms) of the means, with its interval.

        >>> y, treated = np.array([0, 1, 0, 1, 1, 1.0] * 20), np.arange(120) % 6 > 2
        >>> found = CellMeans(y, treated, np.zeros(120, dtype=np.intp))
        >>> found = found.contrast(np.array([[-1.0, 1.0]]))
        >>> [round(end, 3) for end in (found.value, found.se, found.lower, found.upper)]
        [0.667, 0.061, 0.527, 0.773]
        """
        used = np.flatnonzero(coefficients)
        if not len(used):  # both sides are the same
            return Estimate(value=0.0, se=0.0, lower=0.0, upper=0.0)
        size, mean, counts = (own.ravel()[used] for own in (coefficients, self.means, self.counts))
        # The rows behind it, whose cell and arm together are one "arm".
        some = np.isin(self.place, used)
        arm, y = np.searchsorted(used, self.place[some]), self.y[some]
        terms = (size / counts)[arm] * y
        moments = [Moments.of(terms[arm == k]) for k in range(len(used))]
        units, means = None, None
        if self.groups is not None:
            units = ClusterUnits(arm, np.unique(self.groups[some], return_inverse=True)[1])
            moments = [Moments.of_clusters(units.totals(terms), units.rest)]
        elif np.isin(self.y, (0.0, 1.0)).all():
            means = [
                ArmMean(abs(k) * m, abs(k), 1.0, n, int(np.sign(k)))
                for k, m, n in zip(size, mean, counts, strict=True)
            ]
        value = float(size @ mean)
        error = float(Spread.of(moments).error)
        support = support_of_rows(y, arm, None, units, None, binary=means is not None)
        support = replace(
            support, of="of an arm in a part of the list",
            is_zero_one=bool(np.isin(self.y, (0.0, 1.0)).all()),
        )  # fmt: skip
        if why := support.why_no_area():
            known = error if np.isfinite(error) else None
            return Estimate(value=value, se=known, missing=why).scaled(self.unit)
        lower, upper = area_limits(value, moments, float(ndtri((1 + level) / 2)), means=means)
        found = Estimate(value=value, se=error, lower=float(lower), upper=float(upper))
        return found.scaled(self.unit)


@dataclass(frozen=True, eq=False)
class Campaign:
    """The rows of a campaign with an outcome, and their cells.

    ``cells`` and the ``chosen`` arm of each, (cells,); ``cell`` (n,): of each row.
    """

    trial: Trial
    frame: pd.DataFrame
    cells: tuple[Cell, ...]
    chosen: Codes
    cell: Codes
    means: CellMeans
    n_not_in_list: int
    n_absent: int


def read_campaign(
    table: Any,
    people: Any,
    chosen: str | None,
    propensity: str | None,
    model: UpliftModel | None,
    named: dict[str, Any],
) -> Campaign:
    """The rows of a campaign, by cell; parameters as in :func:`auucmax.campaign.verify`.

    Each cell is tested: counts against propensities, missing outcomes and features.

    ``named``: columns and labels, as in :func:`auucmax.read_trial`.
    """
    frame = table_of(table).reset_index(drop=True)
    if (chosen is None) == (people is None):
        got = "neither" if chosen is None else "both"
        raise InputError("chosen", "given, or a list, but not both", got, "Pass one of them.")
    if model is not None:
        # Names and labels as given, else those of the model.
        own = model.roles
        known: dict[str, Any] = {
            "outcome": own.outcome.name,
            "lower_is_better": own.outcome.lower_is_better,
            "groups": own.groups,
            "outcome_range": own.outcome.range,
            "id": own.id if own.id in frame else None,
        }
        for name in ("outcome", "lower_is_better"):
            if named[name] and named[name] != known[name]:
                expected = f"{known[name]!r}, as the model was fitted"
                raise InputError(name, expected, repr(named[name]), "Leave it out.")
        if named["treatment"] in (None, own.treatment):
            known |= {"treatment": own.treatment, "control": own.arms[0], "treated": own.arms[1:]}
        named |= {name: value for name, value in known.items() if not named[name]}
    is_assigned, n_not_in_list, n_absent = False, 0, 0
    if people is None:
        check_names(frame, [chosen or ""])
        frame[_CHOSEN] = frame[chosen]
    else:
        people, id = table_of(people), named["id"]
        if id is None:
            raise InputError("id", "given with a list", "none", "Name the column of ids in both.")
        check_names(frame, [id])
        check_names(people, [id])
        ids, texts = (id_texts(rows[id], f"the id {id!r}") for rows in (frame, people))
        people = people.set_index(pd.Index(texts))
        in_list, in_table = pd.Index(ids).isin(texts), people.index.isin(ids)
        if not people.index.is_unique or not in_table.any():
            raise InputError(
                "people", f"people of the table, each once, with {id!r} such as {ids[0]!r}",
                f"{len(texts):,} rows of {len({*texts}):,} people, such as {texts[0]!r}",
                "Write ids in the same way, and keep one row of each.",
            )  # fmt: skip
        n_absent = int((~in_table).sum())
        columns = people.reindex(ids).set_axis(frame.index)
        is_assigned = "chosen" in people
        if is_assigned:  # by `assign`, which writes the id and the group first; others are left out
            n_not_in_list = int((~in_list).sum())
            frame, columns = frame[in_list], columns[in_list]
            second = str(people.columns[1])
            named["treatment"] = named["treatment"] or "arm"
            named["groups"] = named["groups"] or (second if second != "arm" else None)
            columns = columns.rename(columns={"arm": named["treatment"], "chosen": _CHOSEN})
        else:  # by `target`: others were not chosen
            given = in_list.astype(int)
            if "arm" in people and (people["arm"].nunique() > 1 or named["control"] is not None):
                given = columns["arm"].astype(object).where(in_list, named["control"] or "0")
            columns = columns.filter(regex="^(score|uplift)").assign(**{_CHOSEN: given})
        frame = frame.join(columns[columns.columns.difference(frame.columns)])
    trial = read_trial(frame, **named, features=[_CHOSEN])
    roles, arms = trial.roles, trial.roles.arms
    code = _codes(frame[_CHOSEN], arms)
    if (code < 0).any() and len(arms) == 2:
        texts = frame[_CHOSEN].map(arm_text).str.lower()
        code = _codes(texts, next((own for own in NO_AND_YES if {*texts} <= {*own}), arms))
    if (code < 0).any():
        raise InputError(
            "chosen", f"for each row an arm of the campaign, {listed(arms)}, or 0 and 1 for one",
            listed(frame[_CHOSEN][code < 0].drop_duplicates().map(arm_text)),
            "Write labels as in the treatment, and the control for all others.",
        )  # fmt: skip
    word = propensity or ("propensity" if len(arms) == 2 else "chance")
    names = [word] if len(arms) == 2 else [f"{word} {label}" for label in arms[1:]]
    if propensity is None and not (is_assigned and {*names} <= {*frame}):
        names = []
    check_names(frame, names)
    # Certificates are drawn in the order of the cells: with one arm the chosen come first.
    order = -1 if len(arms) == 2 else 1
    columns = [check_column(frame[name].to_numpy(), f"the propensity {name!r}") for name in names]
    keys = np.column_stack([order * code, *np.round(np.reshape(columns, (-1, len(code))), _DIGITS)])
    keys, cell = np.unique(keys, axis=0, return_inverse=True)
    cell, chance = cell.ravel().astype(np.intp), keys[:, 1:]
    most = chance.sum(axis=1).max()
    if len(keys) > _MOST_CELLS or chance.min(initial=0) < 0 or most > 1 + 1e-6:
        raise InputError(
            "propensity", f"between 0 and 1, at most {_MOST_CELLS} values among the chosen arms",
            f"{len(keys):,} up to {most:g}", "Pass those that `auucmax assign` wrote.",
        )  # fmt: skip

    # (cells, K + 1, 2): rows that were assigned with an outcome and without one; of a group one,
    # unless arms vary in it.
    arm = _codes(frame[roles.treatment], arms)
    drawn = arm >= 0
    if roles.groups is not None:
        unit = frame.groupby([frame[roles.groups], cell]).ngroup().to_numpy()[drawn]
        if not within_clusters(unit, arm[drawn]).is_by_row:
            drawn[drawn] = ~pd.Series(unit).duplicated().to_numpy()
    lost = frame[roles.outcome.name].isna().to_numpy(dtype=int)
    assigned = np.zeros((len(keys), len(arms), 2), dtype=np.intp)
    np.add.at(assigned, (cell[drawn], arm[drawn], lost[drawn]), 1)
    cell = cell[trial.place]
    groups = None if trial.groups is None else pd.factorize(trial.groups)[0].astype(np.intp)
    means = CellMeans(trial.benefit, trial.arm, cell, groups, len(keys))
    if not (code > 0).any() or ((means.counts > 0).sum(axis=1) < 2).all():
        raise InputError(
            "table", "some of the chosen untreated, or some of the others treated, at random",
            "neither",
            "Next time keep a random part of the list untreated and treat a random part of the "
            "others: auucmax assign --model MODEL --share .3 --explore .1.",
        )  # fmt: skip
    frame = frame.iloc[trial.place]
    chosen_arm = (order * keys[:, 0]).astype(np.intp)
    features = frame.filter(regex="^(score|uplift)")
    if model is not None and {*model.roles.features} <= {*frame}:
        features = frame[[*model.roles.features]]
    # The p-value of each test, corrected for the arms and, below, for all tests of all cells.
    found: dict[tuple[int, str], float] = {}
    for k, own in enumerate(chance):
        counts = assigned[k].sum(axis=1)
        if len(own) and counts.any():
            planned = np.clip([1 - own.sum(), *own], 0, 1)
            p_values = [
                binomtest(n, int(counts.sum()), p).pvalue
                for n, p in zip(counts.tolist(), planned, strict=True)
                if p > 0 or n
            ]
            n_tests = len(p_values) if len(p_values) > 2 else 1  # counts of two arms are one number
            found[k, "propensity"] = n_tests * min(p_values)
        there = assigned[k, counts > 0]
        if there[:, 1].any() and len(there) > 1:
            tests = [equal_shares(there[[0, j]]) for j in range(1, len(there))]
            found[k, "missing outcomes"] = len(tests) * min(tests)
        rows = cell == k
        X = features[rows]
        # A list of `target` says nothing about people who are not in it.
        if means.counts[k].min() >= _FEWEST and not X.isna().all(axis=1).any():
            part = replace(trial.take(rows), X=X, id=None, extra=None, lost=None, propensity=None)
            if tests := [test.adjusted_p_value for test in check_randomisation(part).tests]:
                found[k, "balance"] = min(tests)
    corrected = dict(zip(found, holm(np.array([*found.values()])).tolist(), strict=True))
    for (k, what), p_value in corrected.items():
        if p_value < _STOPS:
            raise FailedCheckError(
                f"arms should be random among people with the chosen arm "
                f"{arms[chosen_arm[k]]!r}, but a test of the {what} fails (corrected p < 0.0001). "
                f"Find out how people were assigned, and what was recorded."
            )
    cells = tuple(
        Cell(
            chosen=arms[chosen_arm[k]],
            propensity=round(float(own.sum()), _DIGITS) if len(own) else None,
            given=tuple(means.counts[k].tolist()),
            p_values={what: p for (number, what), p in corrected.items() if number == k},
        )
        for k, own in enumerate(chance)
    )
    return Campaign(
        trial=trial,
        frame=frame,
        cells=cells,
        chosen=chosen_arm,
        cell=cell,
        means=means,
        n_not_in_list=n_not_in_list,
        n_absent=n_absent,
    )


def _codes(column: pd.Series, labels: tuple[str, ...]) -> Codes:
    """The code of each row's label, (n,); -1 for other labels."""
    codes, values = pd.factorize(column, use_na_sentinel=False)
    return pd.Index(labels).get_indexer([arm_text(value) for value in values])[codes]
