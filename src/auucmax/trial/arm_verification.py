"""``verify_arms``: what a campaign of several arms has gained, each person having got one of them.

The policy gives a person the arm that was chosen, or the control; the campaign gave it with most of
the chance, and each other arm with the rest. A *cell* holds the people for whom the same arm was
chosen, with the same chances. With n_c people and the mean outcome m_ca of arm a in cell c, whose
policy arm is a(c), giving everybody what was chosen brings

    sum of n_c (m_c,a(c) - m_c,control)          more than treating nobody,
    sum of n_c (m_c,a(c) - m_c,b), treated c     more than giving them all one arm b,
    sum of n_c (m_c,a(c) - sum of q_a m_ca)      more than the same arms, q_a each, at random.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._json import plain
from auucmax._validation import Floats, check_column, check_groups, check_level, listed
from auucmax.bounds.strata import GroupsError, StrataBounds, strata_bounds
from auucmax.data import Trial, check_randomisation
from auucmax.data.balance import equal_shares, holm
from auucmax.data.pieces import PiecedTable
from auucmax.data.randomisation_report import FailedCheckError
from auucmax.encoding.frames import frame_of
from auucmax.encoding.kinds import arm_text, outcome_numbers
from auucmax.trial.campaign import (
    MOST_CELLS,
    NEXT_TIME,
    CheckedTest,
    Codes,
    doubts,
    first_rows,
    found_places,
    missing_counts,
    with_groups,
)
from auucmax.trial.contrasts import CellMeans, Estimate
from auucmax.trial.verification import (
    NO_RANGE,
    Comparison,
    Promise,
    certificate_words,
    promise_verdict,
)
from auucmax.trial_model import ArmsModel, ColumnNames, name_columns
from auucmax.trial_model.columns import check_names

_STOPS = 1e-4  # corrected p-value, as in check_randomisation
_FEWEST = 50  # rows of each arm of a cell whose uplifts are compared


@dataclass(frozen=True)
class ArmsVerification:
    """What :func:`verify_arms` found; printing it tells all of it, ``to_dict`` gives plain JSON.

    Attributes
    ----------
    chosen, given : people for whom each arm was chosen, and who got it, the control first.
    comparisons : by what the policy is compared with: "nobody", "random" (the same arms in the same
        numbers for random people), "single LABEL" (one arm for all who got any) and "best single"
        (the best of these, whichever that is).
    promise : the sum of the uplifts of the list against what came; None if there are none.
    """

    outcome: str
    chosen: dict[str, int]
    given: dict[str, int]
    level: float
    delta: float
    comparisons: dict[str, Comparison]
    promise: Promise | None
    check: tuple[CheckedTest, ...]
    certificate: str
    next_time: str | None
    notes: tuple[str, ...]

    @property
    def title(self) -> str:
        control, *arms = self.chosen
        told = ", ".join(f"{arm} for {self.chosen[arm]:,}" for arm in arms)
        return f"{sum(self.chosen.values()):,} people: chosen were {told}, and {control} for others"

    @property
    def doubts(self) -> tuple[str, ...]:
        """What has to be known before the numbers: tests of the check that are close to failing."""
        return doubts(self.check)

    def rows(self) -> dict[str, str]:
        """Names and values for a printed table."""
        words = {"nobody": "against treating nobody", "random": "against the same arms at random"}
        found = {
            f"gain in {self.outcome}, {words.get(name, f'against the {name}')}": str(one)
            for name, one in self.comparisons.items()
            if not name.startswith("single ")
        }
        if self.promise is not None:
            found[f"what was promised ({self.promise.source})"] = str(self.promise)
        return found

    def sentences(self) -> tuple[str, ...]:
        """What has to be known with the numbers."""
        next_time = () if self.next_time is None else (self.next_time,)
        return (*self.notes, self.certificate, *next_time)

    def __str__(self) -> str:
        rows = [f"{name}: {value}" for name, value in self.rows().items()]
        return "\n".join([*self.doubts, self.title, *rows, *self.sentences()])

    def to_dict(self) -> dict[str, Any]:
        """All numbers and sentences as plain JSON; ``told`` is what is printed."""
        found = dict(vars(self))
        notes = (*self.doubts, *self.sentences())
        found["told"] = {"title": self.title, "rows": self.rows(), "notes": notes}
        found["doubts"] = self.doubts
        found["comparisons"] = {name: vars(one) for name, one in self.comparisons.items()}
        found["promise"] = None if self.promise is None else vars(self.promise)
        found["check"] = [test._asdict() for test in self.check]
        return dict(plain(found))


def verify_arms(
    table: Any,
    *,
    chosen: str = "chosen",
    propensity: str = "chance",
    treatment: str | None = None,
    outcome: str | None = None,
    control: Any = None,
    id: str | None = None,
    groups: str | None = None,
    largest_group: int | None = None,
    people: Any = None,
    model: ArmsModel | None = None,
    lower_is_better: bool = False,
    drop_missing_outcomes: bool = False,
    outcome_range: tuple[float, float] | None = None,
    level: float = 0.95,
    delta: float = 0.05,
    random_state: int = 0,
) -> ArmsVerification:
    """Say what a campaign of several arms gained, and whether it was as promised.

    Parameters
    ----------
    table : a row for each person of the campaign, treated or not.
    chosen : column with the arm that was chosen for each, the control for those who were to get
        none. propensity : chances of the arms are in columns of this name and their labels, as
        "chance Mens E-Mail"; without them all for whom the same was chosen had the same.
    people : the list that ``assign`` wrote, which has all these; rows are matched by ``id``. Or
        that of ``target``, whose ``arm`` is the one that was chosen, the control for all others.
    treatment : column of the arm that each person got; ``arm`` of the list by default.
    model : of several arms, that chose: it knows outcome, control and id.
    control, outcome, groups, largest_group, lower_is_better, drop_missing_outcomes, outcome_range,
        level, delta, random_state : as in :func:`auucmax.trial.verify`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> arms = np.array(["no", "mail", "call"])
    >>> best = rng.integers(0, 3, 20_000)
    >>> arm = np.where(rng.random(20_000) < 0.8, best, rng.integers(0, 3, 20_000))
    >>> visit = rng.random(20_000) < 0.1 + 0.1 * (arm == best) * (arm > 0)
    >>> table = pd.DataFrame({"chosen": arms[best], "arm": arms[arm], "visit": visit})
    >>> found = verify_arms(table, treatment="arm", outcome="visit", control="no")
    >>> bool(found.comparisons["best single"].certified_lower > 0)
    True
    """
    check_level(level)
    check_level(delta, "delta")
    people = None if people is None else frame_of(people)
    named = _known_names(model, treatment, outcome, control, id, groups, lower_is_better, people)
    campaign = _read(
        table, people, chosen, propensity, named,
        outcome_range=outcome_range or (None if model is None else model.columns.outcome_range),
        drop_missing_outcomes=drop_missing_outcomes,
        order=None if model is None else model.labels,
    )  # fmt: skip
    check = _check(campaign)
    found = campaign.comparisons(level)
    found, certificate = _certified(campaign, found, delta, largest_group, random_state)
    reasons = list(dict.fromkeys(one.unknown for one in found.values() if one.unknown))
    notes = campaign.notes
    if model is not None:
        notes += ("Of several arms it is not tested whether people or effects have changed.",)
    names = campaign.labels
    return ArmsVerification(
        outcome=campaign.columns.gain,
        chosen=dict(
            zip(names, np.bincount(campaign.policy, minlength=len(names)).tolist(), strict=True)
        ),
        given=dict(
            zip(names, np.bincount(campaign.arm, minlength=len(names)).tolist(), strict=True)
        ),
        level=level,
        delta=delta,
        comparisons=found,
        promise=_promise(campaign, level),
        check=check,
        certificate=certificate,
        next_time=_next_time(reasons),
        notes=notes,
    )


def _next_time(reasons: list[str]) -> str | None:
    if not reasons:
        return None
    return (
        f"Next time, give everybody each arm with some chance ({'; '.join(reasons)}): {NEXT_TIME}"
    )


@dataclass(frozen=True, eq=False)
class _ArmCampaign:
    """Checked rows with an outcome: arm, policy and cell are numbers, 0 is the control."""

    y: Floats
    arm: Codes
    policy: Codes
    cell: Codes
    cell_policy: Codes
    chances: Floats | None  # (cells, arms)
    labels: list[str]
    columns: ColumnNames
    groups: Codes | None
    uplift: Floats | None  # (n, arms but the control)
    lost: NDArray[np.intp]  # (cells, arms) without an outcome, of each group one row
    told: NDArray[np.intp]  # (cells, arms) with one
    notes: tuple[str, ...]

    @property
    def means(self) -> CellMeans:
        n_cells, n_arms = len(self.cell_policy), len(self.labels)
        return CellMeans.of(self.y, self.arm, self.cell, self.groups, n_cells, n_arms)

    def coefficients(self) -> dict[str, Floats]:
        """(cells, arms) of each comparison."""
        sizes = np.bincount(self.cell, minlength=len(self.cell_policy)).astype(np.float64)
        own = np.eye(len(self.labels))[self.cell_policy]
        share = sizes @ own / sizes.sum()
        found = {"nobody": sizes[:, None] * (own - np.eye(len(self.labels))[0])}
        found["random"] = sizes[:, None] * (own - share)
        treated = sizes * (self.cell_policy > 0)
        for number, label in list(enumerate(self.labels))[1:]:
            found[f"single {label}"] = treated[:, None] * (own - np.eye(len(self.labels))[number])
        return found

    def why_unknown(self, coefficients: Floats) -> str | None:
        for policy, own, counts in zip(
            self.cell_policy, coefficients, self.means.counts, strict=True
        ):
            lacking = np.flatnonzero((own != 0) & (counts == 0))
            if len(lacking):
                arm, to_get = self.labels[int(lacking[0])], self.labels[int(policy)]
                return f"nobody for whom {to_get!r} was chosen got {arm!r}"
        return None

    def comparisons(self, level: float) -> dict[str, Comparison]:
        means, found = self.means, dict[str, Comparison]()
        n_single = len(self.labels) - 1
        wider = 1 - (1 - level) / n_single
        uppers = []
        for name, own in self.coefficients().items():
            if (why := self.why_unknown(own)) is not None:
                found[name] = Comparison(name, unknown=why)
                continue
            if not own.any():  # the same arm for all: there is no difference
                found[name] = Comparison(name, 0.0, 0.0, 0.0, 0.0)
                uppers.append(0.0)
                continue
            value, error, lower, upper, declined = means.contrast(own, level)
            low, high = (None, None) if declined else (lower, upper)
            found[name] = Comparison(name, value, error, low, high, declined)
            if name.startswith("single "):
                uppers.append(means.contrast(own, wider).upper)
        singles = [found[f"single {label}"] for label in self.labels[1:]]
        found["best single"] = _best(singles, uppers)
        return found


def _best(singles: Sequence[Comparison], uppers: Sequence[float]) -> Comparison:
    """The policy against the best of the arms alone, whichever it is.

    The least of the lower ends is one of that; upper ends must hold together.
    """
    name = "best single"
    for one in singles:
        if one.unknown is not None:
            return Comparison(name, unknown=one.unknown)
    least = min(singles, key=lambda one: float(one.estimate or 0))
    why = next((one.declined for one in singles if one.declined), None)
    lower = None if why else min(float(one.lower or 0) for one in singles)
    upper = None if why else float(min(uppers))
    return Comparison(name, least.estimate, least.standard_error, lower, upper, why)


def _certified(
    campaign: _ArmCampaign,
    found: dict[str, Comparison],
    delta: float,
    largest_group: int | None,
    random_state: int,
) -> tuple[dict[str, Comparison], str]:
    """The comparisons with certified ends, and words on them."""
    bounded = campaign.columns.bounded(campaign.y)
    own = campaign.coefficients()
    told = [name for name in own if found[name].unknown is None]
    some = [name for name in told if own[name].any()]
    if not some:
        return found, "Nothing is certified, for nothing can be told."
    if bounded is None:
        return found, NO_RANGE
    y = np.clip(campaign.y, *bounded.range)
    rows: dict[str, Any] = {
        "treatment": campaign.arm, "stratum": campaign.cell, "groups": campaign.groups,
        "outcome_range": bounded.range, "largest_group": largest_group,
        "random_state": random_state,
    }  # fmt: skip
    # What is no difference at all is 0. All of them at either level: pilots are the same.
    rows["weights"] = np.stack([own[name] for name in some])
    try:
        bounds = strata_bounds(y, delta=delta, **rows)
        ends = dict.fromkeys(told, (0.0, 0.0)) | _ends(some, bounds)
        if found["best single"].unknown is None:
            singles = [f"single {label}" for label in campaign.labels[1:]]
            together = ends | _ends(some, strata_bounds(y, delta=delta / len(singles), **rows))
            lower = min(ends[name][0] for name in singles)
            ends["best single"] = lower, min(together[name][1] for name in singles)
    except GroupsError as error:
        return found, f"Nothing is certified: {error}"
    for name, (low, high) in ends.items():
        found[name] = replace(found[name], certified_lower=low, certified_upper=high)
    return found, certificate_words(bounds.largest_group, bounded, delta, "got each arm")


def _ends(names: Sequence[str], bounds: StrataBounds) -> dict[str, tuple[float, float]]:
    both = zip(bounds.lower.tolist(), bounds.upper.tolist(), strict=True)
    return dict(zip(names, both, strict=True))


def _promise(campaign: _ArmCampaign, level: float) -> Promise | None:
    """The sum of the uplifts of what was chosen, against what came."""
    own = campaign.coefficients()["nobody"]
    if campaign.uplift is None or campaign.why_unknown(own) is not None:
        return None
    treated = campaign.policy > 0
    uplifts = campaign.uplift[treated, campaign.policy[treated] - 1]
    if not np.isfinite(uplifts).all():
        return None
    total, came = float(uplifts.sum()), campaign.means.contrast(own, level)
    off = came.minus(Estimate(total, 0.0, total, total))
    low, high = (None, None) if off.declined else (off.lower, off.upper)
    return Promise(
        "the sum of the uplifts", total, None, None, came.value, off.value, low, high,
        promise_verdict(off, came),
    )  # fmt: skip


def _known_names(
    model: ArmsModel | None,
    treatment: str | None,
    outcome: str | None,
    control: Any,
    id: str | None,
    groups: str | None,
    lower_is_better: bool,
    people: pd.DataFrame | None,
) -> dict[str, Any]:
    named = {"treatment": treatment, "outcome": outcome, "control": control, "id": id}
    named |= {"groups": groups, "lower_is_better": lower_is_better}
    if treatment is None and people is not None and "chosen" in people.columns:
        named["treatment"] = "arm"
    if model is not None:
        own = model.columns
        if outcome not in (None, own.outcome):
            raise ValueError(
                f"outcome should be {own.outcome!r}, as the model was fitted, got {outcome!r}. "
                f"Leave it out: the model decides it."
            )
        for name in ("treatment", "outcome", "control", "id", "groups"):
            named[name] = getattr(own, name) if named[name] is None else named[name]
        named["lower_is_better"] = own.lower_is_better
    for name in ("treatment", "outcome", "control"):
        if named[name] is None:
            raise ValueError(
                f"{name} should be given, got none. Pass {name}=..., or the model, which knows it."
            )
    if people is not None and named["id"] is None:
        raise ValueError(
            "the list should come with the column that names people in both tables, got none. "
            "Pass id=COLUMN."
        )
    named["control"] = arm_text(named["control"])
    return named


def _read(
    table: Any,
    people: pd.DataFrame | None,
    chosen: str,
    propensity: str,
    named: dict[str, Any],
    *,
    outcome_range: Any,
    drop_missing_outcomes: bool,
    order: list[str] | None,
) -> _ArmCampaign:
    if isinstance(table, PiecedTable):
        table = pd.concat(list(table.pieces(list(table.columns))), ignore_index=True)
    frame, notes = frame_of(table).copy(deep=False), list[str]()
    if people is not None:
        others = [name for name in people.columns if name.startswith(("chance ", "uplift "))]
        if "chosen" in people.columns:
            named, told = with_groups(people.drop(columns=others), True, propensity, named)
            notes += told
        else:  # of `target`: who is not in it was to get nothing
            people = _of_everybody(frame, people, named)
        frame = _with_list(frame, people, chosen, named, notes)
    parts = [named[name] for name in ("treatment", "outcome", "id", "groups")] + [chosen]
    check_names(frame, [name for name in parts if name is not None])
    arms, chosen_arms = (
        np.array([arm_text(own) for own in frame[name]], dtype=object)
        for name in (named["treatment"], chosen)
    )
    labels = _labels(arms, chosen_arms, named["control"], chosen, order)
    columns = name_columns(
        frame, treatment=named["treatment"], outcome=named["outcome"], id=named["id"],
        groups=named["groups"], treated=labels[1], control=labels[0], features=[chosen],
        lower_is_better=named["lower_is_better"], outcome_range=outcome_range or None,
    )  # fmt: skip
    arm, policy = (
        pd.Index(labels).get_indexer(pd.Index(own)).astype(np.intp) for own in (arms, chosen_arms)
    )
    cell, keys = _cells(frame, policy, [f"{propensity} {label}" for label in labels[1:]])
    known = _known_outcomes(frame[columns.outcome], drop_missing_outcomes, notes)
    of = None if columns.groups is None else frame[columns.groups].to_numpy()
    lost, told_of = missing_counts(~known, cell, arm, of, (len(keys), len(labels)))
    kept = frame[known]
    y = outcome_numbers(kept[columns.outcome]).to_numpy()
    y = columns.in_table(check_column(y, f"the outcome {columns.outcome!r}"))
    groups = None if columns.groups is None else check_groups(kept[columns.groups], len(kept))
    return _ArmCampaign(
        y, arm[known], policy[known], cell[known], keys[:, 0].astype(np.intp),
        None if keys.shape[1] == 1 else np.column_stack([1 - keys[:, 1:].sum(axis=1), keys[:, 1:]]),
        labels, columns, groups, _uplifts(kept, labels), lost, told_of, tuple(notes),
    )  # fmt: skip


def _of_everybody(frame: pd.DataFrame, people: pd.DataFrame, named: dict[str, Any]) -> pd.DataFrame:
    """A list of ``target`` as one of everybody: its arm was chosen, the control for all others."""
    if "arm" not in people.columns:
        raise ValueError(
            f"the list should be one that `assign --model` or `target` wrote for several arms, "
            f"with a column 'chosen' or 'arm', got {listed(people.columns)}. Pass such a list."
        )
    id = named["id"]
    others = frame[id][found_places(frame, people, id) < 0]
    rest = pd.DataFrame({id: others, "chosen": named["control"]})
    return pd.concat([people.rename(columns={"arm": "chosen"}), rest], ignore_index=True)


def _with_list(
    frame: pd.DataFrame,
    people: pd.DataFrame,
    chosen: str,
    named: dict[str, Any],
    notes: list[str],
) -> pd.DataFrame:
    """The rows of people of the list, with all that it says of them and the table does not."""
    place = found_places(frame, people, named["id"])
    if n_others := int((place < 0).sum()):
        notes.append(f"People who are not in the list are left out: {n_others:,}.")
    frame, place = frame[place >= 0].copy(deep=False), place[place >= 0]
    if n_absent := len(people) - len(np.unique(place)):
        notes.append(f"{n_absent:,} of the list are not among the rows.")
    for own in people.columns:
        name = named["treatment"] if own == "arm" else chosen if own == "chosen" else own
        if name not in frame.columns:
            frame[name] = people[own].iloc[place].set_axis(frame.index)
    return frame


def _labels(
    arms: NDArray[Any], chosen_arms: NDArray[Any], control: str, chosen: str, order: Any
) -> list[str]:
    given, picked = set(arms.tolist()), set(chosen_arms.tolist())
    if control not in given:
        raise ValueError(
            f"the control {control!r} should be among the arms that people got, got "
            f"{listed(sorted(given))}. Keep a random part of the people untreated: {NEXT_TIME}"
        )
    if strange := sorted(picked - given):
        raise ValueError(
            f"the column {chosen!r} should hold arms that people got, {listed(sorted(given))}, got "
            f"{listed(strange)}. Write labels as in the treatment, and {control!r} for nobody."
        )
    if picked <= {control}:
        raise ValueError("an arm should have been chosen for somebody, got none. Check the column.")
    others = [label for label in order or sorted(given) if label in given and label != control]
    return [control, *others, *sorted(given - {control, *others})]


def _cells(
    frame: pd.DataFrame, policy: Codes, columns: list[str]
) -> tuple[Codes, NDArray[np.float64]]:
    """The cell of each row; of each cell, the arm that was chosen and the chances of the arms."""
    keys = policy[:, None].astype(np.float64)
    if set(columns) <= set(frame.columns):
        chances = [check_column(frame[name].to_numpy(), f"the chance {name!r}") for name in columns]
        keys = np.column_stack([keys, *np.round(chances, 6)])
        if keys[:, 1:].min() < 0 or keys[:, 1:].sum(axis=1).max() > 1 + 1e-6:
            raise ValueError(
                f"chances {listed(columns)} should be at least 0 and at most 1 together, got "
                f"others. Write .9 for 90 per cent."
            )
    cells, cell = np.unique(keys, axis=0, return_inverse=True)
    if len(cells) > MOST_CELLS:
        raise ValueError(
            f"chances should have few values, got {len(cells):,} different ones among what was "
            f"chosen. Pass those that `auucmax assign` wrote."
        )
    return cell.ravel().astype(np.intp), cells


def _known_outcomes(column: pd.Series, drop: bool, notes: list[str]) -> NDArray[np.bool_]:
    known = column.notna().to_numpy(dtype=bool)
    if n := int((~known).sum()):
        if not drop:
            raise ValueError(
                f"the outcome {column.name!r} should be known of all rows, got none in {n:,}. "
                f"Write 0 where nothing happened, or pass drop_missing_outcomes=True."
            )
        notes.append(f"{n:,} rows without an outcome are left out.")
    return known


def _uplifts(frame: pd.DataFrame, labels: list[str]) -> Floats | None:
    names = [f"uplift {label}" for label in labels[1:]]
    if not set(names) <= set(frame.columns):
        return None
    return frame[names].apply(pd.to_numeric, errors="coerce").to_numpy(dtype=np.float64)


def _check(campaign: _ArmCampaign) -> tuple[CheckedTest, ...]:
    """Test in each cell whether arms were given by chance, with the chances that were recorded."""
    found, n_arms = list[CheckedTest](), len(campaign.labels)
    first = first_rows(campaign.groups, len(campaign.y))
    for number, policy in enumerate(campaign.cell_policy):
        who = f"those for whom {campaign.labels[int(policy)]!r} was chosen"
        units = first[campaign.cell[first] == number]
        counts = np.bincount(campaign.arm[units], minlength=n_arms)
        if campaign.chances is not None and len(units):
            p_value = _counts_p(counts, np.clip(campaign.chances[number], 0, 1))
            shares = ", ".join(
                f"{n / len(units):.1%} {label!r}"
                for n, label in zip(counts, campaign.labels, strict=True)
            )
            found.append(CheckedTest("counts", p_value, f"{who} got {shares}"))
        lost = np.column_stack([campaign.lost[number], campaign.told[number]])
        if lost[:, 0].any() and (lost.sum(axis=1) > 0).sum() > 1:
            p_value = _lost_p(lost[lost.sum(axis=1) > 0])
            found.append(CheckedTest("missing outcomes", p_value, f"outcomes of {who} are missing"))
        found += _balance(campaign, number, who)
    adjusted = holm(np.array([test.p_value for test in found]))
    tests = tuple(test._replace(p_value=float(p)) for test, p in zip(found, adjusted, strict=True))
    if failed := [test for test in tests if test.p_value < _STOPS]:
        worst = min(failed, key=lambda test: test.p_value)
        raise FailedCheckError(
            f"arms should have been given by chance, and were not: {worst.detail} (corrected p < "
            f"0.0001). Nothing is told of the targeting: find out how people were assigned, and "
            f"what was recorded of it."
        )
    return tests


def _counts_p(counts: NDArray[np.intp], chance: Floats) -> float:
    """The p-value of arms' counts: exact for each arm, whatever the counts, corrected for all."""
    from scipy.stats import binomtest

    n = int(counts.sum())
    p_values = [
        float(binomtest(int(own), n, float(p)).pvalue)
        for own, p in zip(counts, chance, strict=True)
        if p > 0 or own
    ]
    # Of two arms, one says it all.
    return float(holm(np.array(p_values[:1] if len(p_values) == 2 else p_values)).min(initial=1.0))


def _lost_p(table: NDArray[np.intp]) -> float:
    """The p-value of equal shares lost (arms, 2): each arm against the first, corrected for all."""
    p_values = [equal_shares(np.stack([own, table[0]])) for own in table[1:]]
    return float(holm(np.array(p_values)).min())


def _balance(campaign: _ArmCampaign, number: int, who: str) -> list[CheckedTest]:
    """Uplifts, as the list has them, of the arms of a cell that has many rows of each."""
    rows = campaign.cell == number
    counts = np.bincount(campaign.arm[rows], minlength=len(campaign.labels))
    # A list of `target` has no uplifts of those who are not in it.
    known = campaign.uplift is not None and bool(np.isfinite(campaign.uplift[rows]).all())
    if campaign.uplift is None or not known or counts.min() < _FEWEST:
        return []
    names = np.array(campaign.labels, dtype=object)
    trial = Trial(
        pd.DataFrame(campaign.uplift[rows]).rename(columns=str), campaign.y[rows],
        names[campaign.arm[rows]], control=campaign.labels[0],
        groups=None if campaign.groups is None else campaign.groups[rows],
    )  # fmt: skip
    p_values = [test.adjusted_p_value for test in check_randomisation(trial).tests]
    detail = f"the arms of {who} differ before treatment"
    return [CheckedTest("balance", float(min(p_values)), detail)] if p_values else []
