"""Whom to treat of a new table, and what to expect of it: no row of the trial is needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._shown import Shown
from auucmax._validation import Bools, Floats, check_shares
from auucmax.data.reading import table_of
from auucmax.encoding.frames import as_given, first_rows, frame_of
from auucmax.model.arms import ArmsModel
from auucmax.model.evidence import Evidence, provided
from auucmax.model.model import TrialModel
from auucmax.model.reasons_old import others_of, reasons_of
from auucmax.model.rows import id_texts
from auucmax.targeting import Plan, PlanRow, ScoreShift, Selection, top_share, within_budget
from auucmax.targeting.calibration import scaled_to_gain
from auucmax.targeting.decision import Decision, certified_place, decide, of_list, unknown
from auucmax.targeting.planning import EVERY_PERCENT, Expectation
from auucmax.targeting.policy import check_money

FAR = 0.2  #: of the people above a score, from which on a table is not like the trial
_RANKED_ROWS = 20_000  # of the people, of whom some are compared with the chosen
_PROFITS = ("profit", "profit_lower", "profit_upper")
_EFFECTS = ("effect", "gain", "gain_lower", "gain_upper", *_PROFITS)


class Excluded(NamedTuple):
    """How many people were left out by their ids, and how many of these ids nobody has."""

    n_people: int
    n_unknown: int

    def __str__(self) -> str:
        told = f"{self.n_people:,} people are left out."
        if self.n_unknown:
            told += f" {self.n_unknown:,} of the ids to leave out are not among the people."
        return told


class CertifiedGain(NamedTuple):
    """What treating all above the cut of ``share`` brings at least, of people like in the trial.

    The cut is the score above which the share lay among rows of the trial that were set apart; of
    all people at most ``share_upper`` lie above it. ``gain`` in outcomes, ``profit`` in money, the
    cost being that of ``share_upper``, None without cost and value. Those of all shares hold
    together with probability ``chance``: for models that learnt from fewer rows, if rows were not
    held out.
    """

    share: float
    share_upper: float
    gain: float
    profit: float | None
    chance: float


@dataclass(frozen=True, repr=False)
class Targeting(Shown):
    """People of a table, best first, and the plan that they are part of.

    Attributes
    ----------
    people : a row for each person of the table: the id (or ``row``, counted from 1), rank, score,
        uplift, decile (1 is the best tenth) and the arm to give. If
        the id has one of these names, the other column is called ``auucmax_rank``, and so on. It is
        a frame of the library that the table came from; of a DuckDB relation, an Arrow table.
    selection : who is treated. expected : what that brings, from rows of the trial that the model
        has not seen; its intervals hold however the share was chosen. NaN where it is unknown.
    plan : the same for every percent, with the shares of highest profit among those at which the
        trial has rows enough. The report of the model has the same intervals.
    unknown : why the gain is unknown, in a sentence; None if it is known.
    failed_check : why the trial of the model is none; None if it passed its check.
    cost, value : as they were given.
    is_own : the people are those of the trial itself, all of them and nobody else, with outcomes or
        without, and the gain is known: uplifts are scaled to add up to it.
    nobody : why nobody is treated, in a sentence; None if somebody is.
    excluded : how many people of the table were left out because their ids were to be, and how
        many of these ids nobody has; None if no ids were given.
    proviso : on which condition the expected gain holds, if the check of the trial leaves a
        question open; otherwise None.
    certified : :class:`CertifiedGain` at several shares, which hold together; empty if nothing is
        certified, as of people some of whom were left out, or whose scores are distributed
        otherwise: they are not like the trial's.
    repeated : rows of the table with the id of one before, which are left out: everybody is on the
        list once. nameless : people without an id.
    """

    people: Any
    selection: Selection
    expected: PlanRow
    plan: Plan
    unknown: str | None = None
    failed_check: str | None = None
    cost: float | None = None
    value: float | None = None
    is_own: bool = False
    nobody: str | None = None
    excluded: Excluded | None = None
    proviso: str | None = None
    certified: tuple[CertifiedGain, ...] = ()
    repeated: int = 0
    nameless: int = 0

    @property
    def certified_near(self) -> CertifiedGain | None:
        """What is certified at the share that is nearest to the one that is treated."""
        if not self.certified or not self.selection.n_treated or self.unknown:
            return None
        share = self.selection.n_treated / len(self.people)
        return min(self.certified, key=lambda own: abs(own.share - share))

    @property
    def certified_best(self) -> CertifiedGain | None:
        """The highest certified profit, whatever the share: they hold together."""
        found = [own for own in self.certified if own.profit is not None]
        return max(found, key=lambda own: own.profit or 0.0, default=None)

    def __str__(self) -> str:
        if self.nobody is not None:
            return self.nobody
        row, reason = self.expected, self.failed_check or self.unknown
        who = f"{self.selection.n_treated:,} of {len(self.people):,} people"
        if reason is not None:
            return f"{of_list(self.decision, who, 'what that brings is not known')}\n{reason}"
        what = "profit" if self.has_profit else "gain"
        value, lower, upper = (getattr(row, f"{what}{end}") for end in ("", "_lower", "_upper"))
        # One number next to the verdict: the one that it rests on.
        ends = "no interval: too few rows"
        if self.decision.at_least is not None:
            ends = f"guaranteed: at least {self.decision.at_least:,.1f}"
        elif np.isfinite(lower):
            ends = f"{lower:,.1f} to {upper:,.1f}"
        return of_list(self.decision, who, f"expected {what} {value:,.1f} ({ends})")

    @property
    def decision(self) -> Decision:
        """Whether to treat those who are chosen, by the rule of the report."""
        if self.failed_check or self.unknown:
            return unknown("profit" if self.has_profit else "gain")
        table, near = self.plan.table, self.certified_near
        known = np.array([self.is_known(share) for share in table["share"]], dtype=bool)
        # Those who are chosen come last, after every percent.
        plan: dict[str, Any] = {"share": np.append(table["share"], self.expected.share)}
        for name in _EFFECTS:
            own = np.append(np.where(known, table[name], np.nan), getattr(self.expected, name))
            plan[name] = own if self.has_profit or name not in _PROFITS else None
        share = self.selection.n_treated / max(len(self.people), 1)
        certified = None
        if near is not None and certified_place([near.share], share) is not None:
            certified = near.profit if self.has_profit else near.gain
        return decide(plan, len(table), certified)

    def chosen(self) -> Any:
        """The people to treat alone."""
        return first_rows(self.people, self.selection.n_treated)

    @property
    def uplift(self) -> float:
        """The sum of the uplifts of those who are treated."""
        return float(frame_of(self.chosen()).iloc[:, 3].sum())  # whatever the name of the column

    @property
    def of_repeated(self) -> str | None:
        """That people stand in the table more than once; None if all ids differ."""
        return repeated_ids(self.repeated)

    @property
    def of_nameless(self) -> str | None:
        """That people have no id; None if all have one."""
        return without_ids(self.nameless)

    @property
    def of_uplift(self) -> str | None:
        """How the sum of the uplifts goes with the expected gain; None if there is no gain."""
        if self.nobody or self.unknown:
            return None
        if self.is_own:
            return (
                "These are the people of the trial: their uplifts are scaled to add up to the "
                "expected gain, and depend on how many are treated."
            )
        return (
            "The expected gain is that of as many people of the trial above the same score. The "
            "sum of the uplifts differs from it: each follows the person's own score, and where "
            "chance may explain why some gained more, uplifts are drawn towards the average effect."
        )

    def to_dict(self) -> dict[str, Any]:
        """All numbers but the people, as plain JSON; None for what is not known.

        Without a cost there is no cost, and without cost and value no profit and no best share; if
        nobody is treated, no decision.
        """
        plan = self.plan.to_dict()
        del plan["certified"]  # it is told of the model, below
        plan["rows"] = [self._told(row, self.is_known(row["share"])) for row in plan["rows"]]
        for name in ("best", "cautious"):
            row = plan[name]
            plan[name] = self._told(row, self.is_known(row["share"])) if self.has_profit else None
        expected = {name: _finite(value) for name, value in self.expected._asdict().items()}
        return {
            "failed_check": self.failed_check,
            "n_people": len(self.people),
            "n_treated": self.selection.n_treated,
            "threshold": _finite(self.selection.threshold),
            "cost": None if self.cost is None else self.selection.cost,
            "decision": None if self.nobody else self.decision.to_dict(),
            "expected": self._told(expected, self.unknown is None),
            "unknown": self.unknown,
            "uplift": None if self.failed_check else self.uplift,
            "of_uplift": self.of_uplift,
            "is_own": self.is_own,
            "nobody": self.nobody,
            "excluded": None if self.excluded is None else self.excluded._asdict(),
            "proviso": self.proviso,
            "certified": [own._asdict() for own in self.certified],
            "repeated": self.repeated,
            "nameless": self.nameless,
            "plan": plan | {"cost": self.cost, "value": self.value},
        }

    @property
    def has_profit(self) -> bool:
        return self.cost is not None and self.value is not None

    def is_known(self, share: float) -> bool:
        """Whether the trial has rows enough for the gain at a share of the plan."""
        return self.failed_check is None and self.plan.expected.is_reliable(share)

    def _told(self, row: dict[str, Any], is_known: bool) -> dict[str, Any]:
        """A row of the plan, without what money or rows do not tell."""
        hidden = [] if is_known else [*_EFFECTS]
        hidden += [] if self.cost is not None else ["cost"]
        hidden += [] if self.has_profit else [*_PROFITS]
        return row | dict.fromkeys(hidden)


def target(
    model: TrialModel,
    table: Any,
    *,
    share: float | None = None,
    budget: float | None = None,
    cost: float | None = None,
    value: float | None = None,
    exclude: Iterable[Any] | None = None,
    reasons: bool = False,
) -> Targeting:
    """Rank the people of a table and choose whom to treat.

    Parameters
    ----------
    model : fitted by :func:`fit_trial_model`.
    table : a row for each person, with the feature columns of the trial: a frame of pandas or
        polars, an Arrow table or a DuckDB relation.
    share : treat this part of the people; or
    budget : treat as many as the money pays for, at ``cost`` each; or neither, with ``cost`` and
        ``value``: the share with the highest expected profit.
    cost, value : of treating one person, and of one unit of the outcome.
    exclude : ids of people who may not be treated, such as those who opted out; the table needs
        the column of ids that the model was fitted with. They are not in the list, and shares are
        of all others. Ids that nobody has are counted.
    reasons : add the two or three columns that move the score of each of the chosen most away from
        others' scores, in words (:mod:`auucmax.model.reasons`).

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> from auucmax.model import fit_trial_model
    >>> trial = load_hillstrom()
    >>> table = trial.X.assign(visit=trial.y, mail=trial.treatment)
    >>> model = fit_trial_model(table, treatment="mail", outcome="visit", model="tm")
    >>> found = target(model, trial.X.head(1000), share=0.3)
    >>> len(found.chosen()), found.expected.n_treated
    (300, 300)
    """
    check_policy(share, budget, cost, value)
    failed = _failed_check(model, share, budget)
    given, table = table, table_of(table, model.score_columns, model.columns.all)
    everybody, scores, _, repeated = scored_people(model, table)
    kept, excluded = kept_people(exclude, everybody, model)
    names, score, known = everybody[kept], scores[kept], model.evidence.expected.on(EVERY_PERCENT)
    worth, price = 1.0 if value is None else value, 0.0 if cost is None else cost
    planned = partial(known.plan, new_score=score, value=worth, cost=price, only_reliable=True)
    if share is None and budget is None:
        found = planned(share=())
        at = found.best.share
        selection = top_share(score, found.best.n_treated / len(score), cost=price)
    else:
        if budget is None:
            selection = top_share(score, share, cost=price)  # type: ignore[arg-type]
        else:
            selection = within_budget(score, budget, cost=price)
        found = planned(share=(at := known.share_of(selection),))
    expected = _scaled(found.at(at), selection, value=worth, cost=price)
    unknown = failed or unlike(found.shift) or _too_few(model.evidence, known, selection, at)
    if unknown is not None:
        expected = expected._replace(**dict.fromkeys(_EFFECTS, np.nan))  # type: ignore[arg-type]
    others = (excluded and excluded.n_people) or (found.shift and found.shift.is_large)
    is_own = unknown is None and excluded is None and model.is_own(table)
    gains = (expected.gain, found.at(1).gain) if is_own else None
    why = reasons_for([model], table, names, np.where(selection.treat, 0, -1)) if reasons else None
    people = _people(model, names, score, selection, gains, why)
    return Targeting(
        people=as_given(people, given, [model.columns.id]),
        selection=selection,
        expected=expected,
        plan=found,
        unknown=unknown,
        failed_check=failed,
        cost=cost,
        value=value,
        is_own=is_own,
        nobody=None if selection.n_treated else _nobody(known, len(score), share, budget, cost),
        excluded=excluded,
        proviso=_proviso(model.evidence),
        certified=() if failed or others else _certified(model.evidence, len(score), cost, value),
        repeated=repeated,
        nameless=int(nameless(names, model.columns.id).sum()),
    )


def reasons_for(
    models: Sequence[TrialModel],
    table: pd.DataFrame,
    names: pd.Series,
    given: NDArray[np.intp],
) -> NDArray[Any]:
    """(n,) why people get what they get, in words; empty of those who get nothing.

    ``names`` from :func:`scored_people`, of all people or some; ``given`` (n,): by which of the
    models each of them was chosen, -1: by none.
    """
    place, found = names.index.to_numpy(), np.full(len(names), "", dtype=object)
    for k, model in enumerate(models):
        own = np.flatnonzero(given == k)
        if len(own):
            others = others_of(model, table.head(_RANKED_ROWS))
            found[own] = reasons_of(model, table.iloc[place[own]], others)
    return found


def _certified(
    evidence: Evidence, n_people: int, cost: float | None, value: float | None
) -> tuple[CertifiedGain, ...]:
    known = evidence["certified_shares"]
    if known is None:
        return ()
    found = []
    columns = known["share"], known["share_upper"], known["gain_lower"]
    for share, most, lower in zip(*columns, strict=True):
        profit = None
        if cost is not None and value is not None:
            profit = n_people * (value * lower - cost * most)
        found.append(CertifiedGain(share, most, n_people * lower, profit, 1 - known["delta"]))
    return tuple(found)


def _failed_check(model: TrialModel, share: float | None, budget: float | None) -> str | None:
    """Why the model's trial is none, if so: then no profit can say whom to treat."""
    failed: str | None = model.evidence["failed_check"]
    if failed is not None and share is None and budget is None:
        raise ValueError(
            f"share or budget should be given, got neither: no profit is known. {failed} Pass "
            f"share=0.3, for example."
        )
    return failed


def check_policy(
    share: float | None, budget: float | None, cost: float | None, value: float | None
) -> None:
    """A share, or a budget with its cost, or cost and value: as :func:`target` takes them."""
    if share is not None:
        check_shares(share)
    for name, amount in (("budget", budget), ("cost", cost), ("value", value)):
        if amount is not None:
            check_money(amount, name)
    if share is not None and budget is not None:
        raise ValueError("share or budget should be given, got both. Leave one out.")
    if budget is not None and not cost:
        raise ValueError(
            "a budget should come with the cost of treating one person, got none above 0. Pass a "
            "cost."
        )
    if share is None and budget is None and (cost is None or value is None):
        half = "a value without a cost" if value is not None else "a cost without a value"
        raise ValueError(
            f"whom to treat should be said by a share, by a budget with its cost, or by cost and "
            f"value; got {'none of them' if cost is None and value is None else half}. Pass "
            f"share=0.3, for example."
        )


def _proviso(evidence: Evidence) -> str | None:
    sentence = "The expected gain is that of the trial."
    found = provided(sentence, evidence["randomisation"])
    return None if found == sentence else found


def unlike(shift: ScoreShift | None, arm: str | None = None) -> str | None:
    """Why the trial tells nothing of these people, if their scores are quite different; or None.

    ``arm``: whose scores they are, if there are several.
    """
    if shift is None or not shift.is_large or shift.distance < FAR:
        return None
    of_arm = "" if arm is None else f" of the arm {arm!r}"
    return (
        f"What treating these people brings is not known: they are not like those of the trial. "
        f"The shares of people above a score{of_arm} differ by up to {shift.distance:.0%} (chance "
        f"alone stays below {shift.by_chance:.1%}). Check that columns and units are "
        f"those of the trial."
    )


def _too_few(
    evidence: Evidence, known: Expectation, selection: Selection, share: float
) -> str | None:
    """Why it is not known what these people bring; None if it is."""
    # Nobody is exact; but people above all scores of the trial have no share of it.
    if not selection.n_treated or (share > 0 and known.is_reliable(share)):
        return None
    n_rows, why = evidence["rows"]["n_rows"], evidence.expected.declined
    n_above = int(np.floor(share * n_rows + 1e-9))
    # After a share with rows enough all larger ones have them.
    where = "larger shares" if known.reliable.any() else "no share"
    return (
        f"What treating these people brings is not known: {n_above:,} of the {n_rows:,} rows of "
        f"the trial that judge have scores as high{f' ({why})' if why else ''}. It is known of "
        f"{where}."
    )


def _scaled(row: PlanRow, selection: Selection, *, value: float, cost: float) -> PlanRow:
    """The row of the plan for the number of people that are treated indeed."""
    factor = selection.n_treated / row.n_treated if row.n_treated else 0.0
    gains = {name: factor * getattr(row, name) for name in ("gain", "gain_lower", "gain_upper")}
    spent = cost * selection.n_treated
    profits = {name.replace("gain", "profit"): value * gain - spent for name, gain in gains.items()}
    return row._replace(n_treated=selection.n_treated, cost=spent, **gains, **profits)


def scored_people(
    model: TrialModel | ArmsModel, table: pd.DataFrame, more: Sequence[str] = ()
) -> tuple[pd.Series, Floats, pd.DataFrame, int]:
    """The ids of the people, or their rows from 1 on, their scores, and more columns.

    The index of the ids has their places in the table.
    ``table`` is one of :func:`auucmax.data.reading.table_of`, with these columns.

    Of the rows of an id the first is taken, unless they were fitted as one group; how many others
    there are comes last.
    """
    id = model.columns.id
    scores = model.predict(table)
    everybody = pd.Series(np.arange(1, len(table) + 1), name="row")
    if id in table.columns:
        everybody = table[id].reset_index(drop=True)  # so that it tells places in the table
    once = np.ones(len(everybody), dtype=bool)
    if id is not None and everybody.name == id != model.columns.groups:
        # Those without an id, or with a blank one, may be anybody: they are not taken for one.
        once = ~everybody.duplicated().to_numpy(dtype=bool) | nameless(everybody, id)
    people = everybody[once], scores[once], table[list(more)][once]
    return *people, int((~once).sum())


def nameless(names: pd.Series, id: str | None) -> Bools:
    """Whose id is missing or blank; nobody's, where ``names`` are no ids."""
    if id is None or names.name != id:
        return np.zeros(len(names), dtype=bool)
    found = names.isna()
    if names.dtype.kind == "O":
        found |= names.astype(str).str.strip() == ""
    return found.to_numpy(dtype=bool)


def without_ids(n: int) -> str | None:
    """That n people have no id; None if all have one."""
    if not n:
        return None
    who = "person has" if n == 1 else "people have"
    return f"{n:,} {who} no id: if chosen, they stand on the list without a name."


def kept_people(
    exclude: Iterable[Any] | None, names: pd.Series, model: TrialModel | ArmsModel
) -> tuple[Bools, Excluded | None]:
    """The people who are not to be left out, and a count of the others."""
    if exclude is None:
        return np.ones(len(names), dtype=bool), None
    if names.name != model.columns.id:
        known = model.columns.id
        raise ValueError(
            "people to leave out should be named by ids, "
            + (f"got a table without the column {known!r}. Add it." if known else
               "and the model knows none. Fit it with the column of ids, id=.")
        )  # fmt: skip
    unwanted = np.unique(id_texts(pd.Series(list(exclude)), "the ids to leave out"))
    texts = id_texts(names, f"the id {names.name!r}")
    out: Bools = np.isin(texts, unwanted)
    if out.all():
        raise ValueError(
            f"somebody should be left to choose from, got ids to leave out that all {len(out):,} "
            f"people have. Check the ids."
        )
    if len(unwanted) and not out.any():
        raise ValueError(
            f"ids to leave out should be among those of the people, got {len(unwanted):,} such as "
            f"{unwanted[0]!r} that nobody has; people have ids such as {texts[0]!r}. Write them in "
            f"the same way."
        )
    return ~out, Excluded(int(out.sum()), len(unwanted) - len(np.unique(texts[out])))


def repeated_ids(n: int) -> str | None:
    """That n rows with the id of one before are left out; None if all ids differ."""
    if not n:
        return None
    has = "row of the table has" if n == 1 else "rows of the table have"
    left = "is" if n == 1 else "are"
    return (
        f"{n:,} {has} the id of one before and {left} left out: everybody is chosen, and counted, "
        f"once, by their first row."
    )


def _nobody(
    known: Expectation, n: int, share: float | None, budget: float | None, cost: float | None
) -> str:
    if share is not None:
        why = f"a share of {share:g} of {n:,} people is less than one person"
    elif budget is not None:
        why = f"a budget of {budget:g} does not pay for one person at {cost:g}"
    elif not known.reliable.any():
        why = "the trial has rows enough at no share, so that no profit is known"
    else:
        why = "at no share for which the trial has rows enough is the expected profit above 0"
    return f"Treat nobody: {why}."


def _people(
    model: TrialModel,
    names: pd.Series,
    score: Floats,
    selection: Selection,
    gains: tuple[float, float] | None,
    reasons: NDArray[Any] | None,
) -> pd.DataFrame:
    """The list; ``gains`` of the chosen and of everybody, if uplifts are to add up to them."""
    n = len(score)
    # Those who are treated come first, whatever rule broke the ties.
    order = np.lexsort((np.arange(n), ~selection.treat, -score))
    score, rank = score[order], np.arange(1, n + 1)
    uplift = np.asarray(model.calibration(score))
    if gains is not None:
        uplift = scaled_to_gain(uplift, score, selection.n_treated, *gains)
    labels = np.array([model.columns.control, model.columns.treated], dtype=object)
    columns: dict[str, Any] = {"rank": rank, "score": score, "uplift": uplift}
    columns["decile"] = (rank - 1) * 10 // n + 1
    columns["arm"] = labels[selection.treat[order].astype(int)]
    if reasons is not None:
        columns["reasons"] = reasons[order]
    columns = {"auucmax_" * (name == names.name) + name: own for name, own in columns.items()}
    return pd.DataFrame({names.name: names.to_numpy()[order], **columns})


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
