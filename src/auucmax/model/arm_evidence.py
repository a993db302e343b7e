"""What is known of a policy of several arms, as numbers: made once from rows, kept without them.

The policy gives each person the arm, or the control, that uplifts and costs choose, for every
budget (:mod:`auucmax.metrics.budget`). It is told against what needs no model, or a simpler one:
random people with the same arms, each arm alone by its own ranking, and one arm for everybody.

A model file holds these numbers, so any two of them, of whatever policies and budgets, and any of
them and a top share of the evidence of one arm, are of choices that differ for nobody, or for at
least 20 rows of each arm and of the control for whom they differ. What else there is, is not told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from auucmax._json import plain, read
from auucmax._shown import Shown
from auucmax._validation import Bools, Floats
from auucmax.certificates.policies import certify_policy
from auucmax.data.few import LEAST_ROWS
from auucmax.metrics.arm_policy import Policy
from auucmax.metrics.arm_steps import Steps, arm_steps
from auucmax.metrics.budget import (
    ArmRows,
    BudgetCurve,
    PolicyTerms,
    curve_of,
    difference_of,
)
from auucmax.model.columns import Bounded
from auucmax.model.evidence import (
    EFFECT,
    Evidence,
    are_bins_of_people,
    are_parts,
    is_effect,
    provided,
)
from auucmax.targeting.arms import choose_arms

_STEPS = 50  # that the budgets are cut into, of which those are joined that have too few rows
_AT_ONCE = 2**22  # parts of rows that are compared at once
_PARTS, _ROWS_A_TERM = 5, 20  # of rows that expect outcomes of each other, and that a line needs
_GUIDES = 10  # one row in so many of a chunk tells the policy's cut, and is not bet on

_Column = tuple[Policy, Floats]  # a policy, and the budgets at which it is told


class JudgedArms(NamedTuple):
    """Rows of the control and of all arms, with uplifts by models that have not learnt from them.

    ``arm`` (n,): 0 for the control, 1 to K. ``uplift`` (n, K). ``groups`` (n,): codes, or None.
    ``fold`` (n,): if uplifts are of models of several folds; the policy is that of each by itself.
    ``chance`` (n, K + 1): of the control and of each arm, if these were not the same for all.
    """

    y: Floats
    arm: NDArray[np.intp]
    uplift: Floats
    groups: NDArray[np.intp] | None = None
    fold: NDArray[Any] | None = None
    chance: Floats | None = None

    def expected_outcomes(self) -> Floats | None:
        """(n, K + 1) outcomes with the control and each arm to expect of each row, by other rows.

        Straight lines in uplifts and chances, by least squares on the rows of an arm in other
        folds. What the chances explain is not left to weights alone: less noise, and less harm if
        chances are not quite right. None where they were the same for all.
        """
        if self.chance is None:
            return None
        n, n_arms = self.uplift.shape
        X = np.column_stack([self.uplift, self.chance[:, 1:]])
        X = np.column_stack([np.ones(n), X - X.mean(axis=0)])
        # Without models of folds, parts of the rows, by groups, are as good.
        unit = np.arange(n) if self.groups is None else self.groups
        fold = unit % _PARTS if self.fold is None else self.fold
        found = np.full((n, n_arms + 1), float(self.y.mean()))
        for number in np.unique(fold):
            inside = fold == number
            for k in range(n_arms + 1):
                own = ~inside & (self.arm == k)
                if own.sum() >= _ROWS_A_TERM * X.shape[1]:
                    line = np.linalg.lstsq(X[own], self.y[own], rcond=1e-9)[0]
                    found[inside, k] = X[inside] @ line
        return np.clip(found, self.y.min(), self.y.max())


@dataclass(frozen=True, eq=False, repr=False)
class ArmsEvidence(Shown):
    """What is known of each arm, and of the policy: numbers and lists of them, no rows.

    Attributes
    ----------
    arms : :class:`auucmax.model.Evidence` of each arm against the control, by label.
    facts : plain JSON of the policy, with the entries

        * ``control``; ``rows``: how many of each label; ``level`` of all intervals;
        * ``curves``: a list of one, for the costs of the fit: ``costs`` (by label) and
          ``budget``, money per person, with at each budget the gain per person over treating
          nobody of the ``policy``, of each arm alone by its ranking (``singles``, by label) and of
          one arm for ``everybody``: ``gain``, ``standard_error``, ``lower``, ``upper`` (at one),
          ``simultaneous_lower``, ``simultaneous_upper`` (at all), ``shares`` (people who get each
          arm, in the order of the labels), ``declined``. ``differences``: the policy minus
          ``random`` people, minus the best ``single`` arm, minus ``everybody``: ``arm``,
          ``difference``, ``standard_error``, ``lower``, ``upper`` at each budget, and their mean
          ``area`` with ``area_lower``, ``area_upper``, ``p_value``, ``declined``. The two arms are
          chosen on these rows, in their favour: there is no ``p_value``, and an upper end below 0
          shows nothing. ``rate``: uplift for the money of the last step that each budget pays for,
          by the models of the folds; None in older files. With a cost of 1 for each arm a budget is
          a share of people. None: not told;
        * ``people``: who gets each arm, against all others, at a part of the largest budget, or
          None; ``segments``: parts of the people, in words of their columns, with effects of the
          arms (:func:`auucmax.model.segments.arm_segments_of`, by labels), or None;
        * ``certificate``: of the policy at a budget that was fixed beforehand, or None;
        * ``failed_check``, ``notes``: as in :class:`auucmax.model.Evidence`.
    """

    arms: dict[str, Evidence]
    facts: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.facts[name]

    def __str__(self) -> str:
        arms = "\n".join(f"{label}: {known}" for label, known in self.arms.items())
        certificate = self["certificate"]
        if self["failed_check"] is not None:
            arms = f"The rows cannot be taken for those of a trial: {self['failed_check']}"
        return arms if certificate is None else f"{certificate['text']}\n{arms}"

    @property
    def labels(self) -> list[str]:
        return list(self.arms)

    @classmethod
    def of(cls, arms: Mapping[str, Evidence], facts: Mapping[str, Any]) -> Self:
        """With what all arms share."""
        checks = (own["failed_check"] for own in arms.values())
        failed = next((check for check in checks if check is not None), None)
        found = dict(plain({**facts, "failed_check": failed}))
        if failed is not None:
            found |= {"certificate": None, "segments": None}
        return cls(dict(arms), found)

    @classmethod
    def from_dict(cls, arms: Mapping[str, Evidence], values: Mapping[str, Any]) -> Self:
        """Restore ``facts`` from a file, or raise a ValueError for anything else."""
        # Files of before there were any tell nothing of people, of segments, or of rates.
        given = {**values, **{name: values.get(name) for name in ("people", "segments")}}
        if isinstance(curves := values.get("curves"), list):
            given["curves"] = [
                own | {"rate": own.get("rate")} if isinstance(own, dict) else own for own in curves
            ]
        facts = read(_FACTS, given, "the policy")
        read(dict.fromkeys([facts["control"], *arms], int), facts["rows"], "rows")
        if not facts["curves"]:
            raise ValueError("the policy should have a curve, got none.")
        for curve in facts["curves"]:
            n = len(curve["budget"])
            read(dict.fromkeys(arms, float), curve["costs"], "costs")
            read(dict.fromkeys(arms, _OF_CURVE), curve["singles"], "singles")
            own = [curve["policy"], curve["everybody"], *curve["singles"].values()]
            lists = [c for part in (*own, *curve["differences"].values()) for c in part.values()]
            right = (
                n > 0
                and list(curve["costs"]) == list(curve["singles"]) == list(arms)
                and all(len(one) == n for one in lists if isinstance(one, list))
                and (curve["rate"] is None or _are_rates(curve["rate"], n))
                and all(len(row) == len(arms) for one in own for row in one["shares"])
                and bool((np.diff([0.0, *curve["budget"]]) >= 0).all())
                and all(map(_has_both_ends, (*own, *curve["differences"].values())))
            )
            if not right:
                raise ValueError("the policy should have numbers that belong together, got others.")
        if not _are_people(facts["people"], facts["curves"][0]["costs"]):
            raise ValueError("people of the policy should be shares of each arm, got others.")
        if not _are_segments(facts["segments"], [facts["control"], *arms]):
            raise ValueError("segments should be parts of the people with arms, got others.")
        return cls(dict(arms), facts)

    def curve_for(self, costs: Sequence[float]) -> tuple[dict[str, Any], float] | None:
        """The curve whose costs have the same ratios, and what they are to be multiplied by."""
        given = np.asarray(costs, dtype=np.float64)
        for curve in self.facts["curves"]:
            own = np.array(list(curve["costs"].values()))
            factor = given.max() / own.max() if own.max() > 0 else 1.0
            if factor > 0 and np.allclose(given, factor * own, rtol=1e-9, atol=0):
                return curve, float(factor)
        return None


def _are_people(people: Mapping[str, Any] | None, costs: Mapping[str, float]) -> bool:
    """Whether these are people of some of the arms, each once, at a budget that there is."""
    if people is None:
        return True
    labels = [own["arm"] for own in people["arms"]]
    return (
        0 < people["part"] <= 1
        and 0 <= people["budget"] <= max(costs.values())
        and len(set(labels)) == len(labels)
        and set(labels) <= set(costs)
        and all(map(are_bins_of_people, people["arms"]))
    )


def segments_told(found: Mapping[str, Any] | None, names: Sequence[str]) -> dict[str, Any] | None:
    """Segments by the labels of arms, of which the control is the first."""
    if found is None:
        return None
    parts = [
        part
        | {
            "learnt": dict(zip(names[1:], part["learnt"], strict=True)),
            "contrasts": [
                one | {"arm": names[one["arm"]], "over": names[one["over"]]}
                for one in part["contrasts"]
            ],
            "certified": part["certified"] and dict(zip(names[1:], part["certified"], strict=True)),
        }
        for part in found["parts"]
    ]
    return {**found, "parts": parts}


def _are_segments(found: Mapping[str, Any] | None, names: Sequence[str]) -> bool:
    """Whether these are parts of the people, with effects of the arms and of all pairs of them."""
    if found is None:
        return True
    pairs = [(high, low) for low, high in combinations(names, 2)]
    for part in found["parts"]:
        read(dict.fromkeys(names[1:], float), part["learnt"], "segments")
        if part["certified"] is not None:
            read(dict.fromkeys(names[1:], float), part["certified"], "segments")
    return (
        0 < found["level"] <= 1 - 1e-9  # nearer to 1, it has no quantile
        and are_parts(found["parts"])
        and all(
            [(one["arm"], one["over"]) for one in part["contrasts"]] == pairs
            and all(map(is_effect, part["contrasts"]))
            for part in found["parts"]
        )
    )


def _has_both_ends(part: Mapping[str, Any]) -> bool:
    """Whether each interval has both ends, in order, around a number that is told."""
    for of in ("", "simultaneous_", "area_"):
        if f"{of}lower" not in part:
            continue
        middle = part["area" if of == "area_" else "gain" if "gain" in part else "difference"]
        columns = [middle, part[f"{of}lower"], part[f"{of}upper"]]
        for value, low, high in zip(*columns, strict=True) if of != "area_" else [columns]:
            if (low is None) != (high is None):
                return False
            if low is not None and (value is None or low > high):
                return False
    return True


FAR = 0.35  #: of the largest budget: budgets so far from each other tell nothing between them


def is_judged(spent: float | Floats, budgets: Floats) -> Any:
    """Whether the policy was judged at a budget, or close on both sides of it.

    >>> is_judged(np.array([0.3, 0.96, 1.0]), np.array([0.0, 0.95, 1.0])).tolist()
    [False, True, True]
    """
    last = len(budgets) - 1
    place = np.clip(np.searchsorted(budgets, spent), min(1, last), last)
    left, right = budgets[np.maximum(place - 1, 0)], budgets[place]
    near = right - left <= FAR * budgets[-1]
    return near | np.isclose(spent, left) | np.isclose(spent, right)


def policy_curve(
    rows: JudgedArms,
    costs: Mapping[str, float],
    *,
    private: bool = True,
    known: Sequence[_Column] = (),
    level: float = 0.95,
) -> dict[str, Any]:
    """An entry of ``curves``: the policy at every budget, alone and against others.

    ``private``: only numbers that tell nothing of a few people, nor do so together with those that
    are ``known`` (:func:`top_shares`).
    """
    labels = list(costs)
    cost = np.broadcast_to(np.array(list(costs.values())), rows.uplift.shape)
    more: dict[str, Any] = {"chance": rows.chance, "clusters": rows.groups}
    trial = ArmRows.of(rows.y, rows.arm, cost, model=rows.expected_outcomes(), **more)
    best = int(trial.effects.argmax())
    fold = np.zeros(len(rows.y)) if rows.fold is None else rows.fold
    policies = [
        Policy.of_folds(rows.uplift, cost, fold),
        *(Policy.of_one_arm(rows.uplift, cost, k, fold) for k in range(len(labels))),
    ]
    # An arm for everybody is a part of its average effect, which is known: it is left out here.
    everyone = Policy.of_everybody(len(rows.y), cost, best)
    most = max(everyone.most, *(policy.most for policy in policies))
    grid = np.linspace(0, most, _STEPS + 1) if most > 0 else np.zeros(1)
    told = [np.ones(len(grid), dtype=bool)] * len(policies)
    if private and most > 0:
        grid, told = _told(trial, policies, known, most)
    terms = [PolicyTerms(trial, policy, grid) for policy in (*policies, everyone)]
    options: dict[str, Any] = {"level": level, "cross_fitted": rows.fold is not None}
    own, *singles = (curve_of(one, **options) for one in terms[:-1])
    everybody = curve_of(terms[-1], level=level)
    alone = int(np.argmax([one.gain.mean() for one in singles]))
    return {
        "costs": dict(costs),
        "budget": grid,
        "rate": _rates(policies[0].steps, grid, len(rows.y)),
        "policy": _curve(own, told[0]),
        "singles": {
            label: _curve(one, kept)
            for label, one, kept in zip(labels, singles, told[1:], strict=True)
        },
        "everybody": {"arm": labels[best], **_curve(everybody, np.ones(len(grid), dtype=bool))},
        "differences": {
            "random": _difference(None, terms[:1], told[0], options),
            "single": _difference(
                labels[alone], [terms[0], terms[1 + alone]], told[0] & told[1 + alone], options
            ),
            "everybody": _difference(labels[best], [terms[0], terms[-1]], told[0], options),
        },
    }


def _are_rates(rates: Sequence[float | None], n: int) -> bool:
    """Whether there are n rates as budgets have them: none of free steps first, then falling to 0.

    >>> _are_rates([None, 0.3, 0.3, 0.0], 4), _are_rates([0.1, 0.3], 2), _are_rates([0.1, None], 2)
    (True, False, False)
    """
    known = np.array([np.inf if own is None else own for own in rates])
    return len(known) == n and bool((known[1:] <= known[:-1]).all() and (known >= 0).all())


def _rates(steps: Steps, budget: Floats, n_people: int) -> Floats:
    """(J,) uplift for the money of the last step that each budget pays for; 0 where none is left.

    Steps of all people together, from the highest rate down: whoever gives an arm to everybody
    whose uplift is worth more than it costs spends the budget at which this is the money's worth.

    >>> steps = arm_steps(np.array([[0.3, 0.5], [0.2, 0.1]]), np.array([[1.0, 3.0], [1.0, 3.0]]))
    >>> _rates(steps, np.array([0.1, 0.5, 0.6, 2.0, 2.1]), 2).round(2).tolist()
    [0.3, 0.3, 0.2, 0.1, 0.0]
    """
    order = np.argsort(-steps.rate, kind="stable")
    spent = np.cumsum(steps.cost[order]) / n_people
    rates = np.append(steps.rate[order], 0.0)[np.searchsorted(spent, budget * (1 - 1e-12))]
    # That of an arm that costs nothing is none; that of one person is not told to all digits.
    return np.array([float(f"{own:.3g}") if np.isfinite(own) else np.nan for own in rates])


def _curve(found: BudgetCurve, told: Bools) -> dict[str, Any]:
    names = "gain", "standard_error", "lower", "upper", "simultaneous_lower", "simultaneous_upper"
    numbers = {name: np.where(told, getattr(found, name), np.nan) for name in names}
    return numbers | {"shares": found.shares, "declined": found.declined}


def _difference(
    arm: str | None, terms: Sequence[PolicyTerms], told: Bools, options: Mapping[str, Any]
) -> dict[str, Any]:
    """The first of the policies minus the second, at budgets that are told; also their mean, which
    with those that are told would tell another."""
    some = told if told.any() else ~told
    if not some.all():
        terms = [PolicyTerms(one.rows, one.policy, one.budget[some]) for one in terms]
    found = difference_of(*terms, **options)
    lower, upper = found.area_interval
    # An arm that these rows chose as the best looks better on them than it is: no test of that.
    p_value = found.p_value if arm is None else np.nan
    area = {"area": found.area, "area_lower": lower, "area_upper": upper, "p_value": p_value}
    if told.sum() < min(2, len(told)):
        area = dict.fromkeys(area, np.nan)
    numbers: dict[str, Any] = {"arm": arm, "declined": found.declined, **area}
    for name in ("difference", "standard_error", "lower", "upper"):
        numbers[name] = np.full(len(told), np.nan)
        numbers[name][some] = getattr(found, name)
        numbers[name][~told] = np.nan
    return numbers


def _told(
    rows: ArmRows, policies: Sequence[Policy], known: Sequence[_Column], most: float
) -> tuple[Floats, list[Bools]]:
    """Budgets (J,), and at which of them each policy is told, (J,) each; the first one leads."""
    # Two places for each budget: one of them may be too near to a number that is known.
    grid, last = np.linspace(0, most, 2 * _STEPS + 1), 2 * _STEPS
    few = _few(rows, [(policies[0], grid)], known)
    few[0, last] = few[last, 0] = False  # all rows that count stand behind the whole policy
    ends = [end for end in (0, last) if not few[end, len(grid) :].any()]
    kept = _compatible(few, ends, range(1, last), len(grid), apart=2)
    places = sorted({*kept, 0, last})
    grid, told = grid[places], np.isin(places, kept)
    others = [(policy, grid) for policy in policies[1:]]
    few = _few(rows, others, [*known, (policies[0], grid[told])])
    size = len(few)
    # The largest budget first: means over budgets end there.
    order = sorted(range(size), key=lambda one: (one + 1) % len(grid) > 0)
    kept = _compatible(few, [], order, size)
    return grid, [told, *np.isin(np.arange(size), kept).reshape(-1, len(grid))]


def _compatible(
    few: Bools, kept: Sequence[int], more: Iterable[int], n_own: int, apart: int = 1
) -> list[int]:
    """Columns that differ for rows enough from all that is known, and from each other."""
    found = list(kept)
    for one in more:
        near = any(abs(one - other) < apart for other in found)
        if not near and not few[one, n_own:].any() and not few[one, found].any():
            found.append(one)
    return sorted(found)


def _few(rows: ArmRows, own: Sequence[_Column], known: Sequence[_Column]) -> Bools:
    """(own columns, own and known columns) whether choices differ for some rows of an arm, or of
    the control, but for fewer than 20."""
    n_own, n_known = (sum(len(budget) for _, budget in some) for some in (own, known))
    pairs = np.argwhere(np.triu(np.ones((n_own, n_own + n_known), dtype=bool), 1))
    counts = np.zeros((rows.n_arms + 1, len(pairs)), dtype=np.int64)
    parts = (policy.parts(budget, rows.n_arms) for policy, budget in (*own, *known))
    for blocks in zip(*parts, strict=True):
        arm = rows.arm[blocks[0][0]]
        part = np.concatenate([one for _, one in blocks], axis=2)
        _add_differing(part[arm == 0], pairs, counts[0])
        for k in range(rows.n_arms):
            _add_differing(part[arm == k + 1, k : k + 1], pairs, counts[k + 1])
    found = np.zeros((n_own, n_own + n_known), dtype=bool)
    found[tuple(pairs.T)] = ((counts > 0) & (counts < LEAST_ROWS)).any(axis=0)
    found[:, :n_own] |= found[:, :n_own].T
    return found


def _add_differing(part: Floats, pairs: NDArray[np.intp], counts: NDArray[np.int64]) -> None:
    """Add the rows of ``part`` (rows, K, columns) that differ to ``counts`` (pairs,), until there
    are rows enough: soon few pairs are left to be counted."""
    open_pairs = np.flatnonzero(counts < LEAST_ROWS)
    if not len(open_pairs) or not len(part):
        return
    used, place = np.unique(pairs[open_pairs], return_inverse=True)
    place = place.reshape(-1, 2)
    columns = np.ascontiguousarray(part[:, :, used].transpose(2, 1, 0))
    own = counts[open_pairs]
    if len(own) > len(columns):  # most pairs differ for many: one matrix product tells
        own[_surely_differing(columns)[tuple(place.T)] >= LEAST_ROWS] = LEAST_ROWS
    content = np.array([hash(column.tobytes()) for column in columns])
    unlike = content[place[:, 0]] != content[place[:, 1]]
    start = 0
    while start < len(part) and len(left := np.flatnonzero(unlike & (own < LEAST_ROWS))):
        stop = start + max(16, _AT_ONCE // (len(left) * part.shape[1]))
        one, other = columns[..., start:stop][place[left].T]
        own[left] += (np.abs(one - other) > 1e-9).any(axis=1).sum(axis=1)
        start = stop
    counts[open_pairs] = own


def _surely_differing(columns: Floats) -> NDArray[np.float32]:
    """(columns, columns) for at least so many rows an arm is whole in one, and not there in the
    other; ``columns`` are (columns, K, rows)."""
    found = np.zeros((len(columns),) * 2, dtype=np.float32)
    for own in columns.transpose(1, 0, 2):
        alone = (own == 1).astype(np.float32) @ (own == 0).astype(np.float32).T
        np.maximum(found, alone + alone.T, out=found)
    return found


def top_shares(
    rank: Floats,
    own: NDArray[np.intp],
    arm: int,
    n_people: int,
    share: Floats,
    weight: Floats | None = None,
) -> _Column:
    """What the evidence of an arm (0, 1, ...) by itself tells: its top shares, of its own rows.

    ``rank`` (own rows,): the highest comes first, equal ones in equal parts; ``own``: their places;
    ``weight``: how many people they stand for.
    """
    order = np.argsort(own)
    n, rank, own = len(own), rank[order], own[order]
    weight = np.ones(n) if weight is None else weight[order]
    by_rank = np.argsort(rank, kind="stable")
    below = np.concatenate([[0.0], np.cumsum(weight[by_rank])])
    start = 1 - below[np.searchsorted(rank[by_rank], rank, side="right")] / below[-1]
    end = 1 - below[np.searchsorted(rank[by_rank], rank, side="left")] / below[-1]
    steps = Steps(
        own, np.zeros(n, np.intp), np.full(n, -1), np.full(n, arm), np.ones(n), np.ones(n),
        np.ones(n),
    )  # fmt: skip
    # Nobody is told by nothing.
    return Policy(steps, start, end, n_people, 1.0), share[share > 0]


@dataclass(frozen=True)
class FixedBudget:
    """A budget per person, and costs (K,), that were fixed before anybody looked at the rows."""

    budget: float
    costs: tuple[float, ...]


class PolicyChunkRows(NamedTuple):
    """Rows of a chunk with uplifts by models, and calibrations, of the chunks before it.

    ``guide`` (n,): rows that are not bet on, and tell the policy how high rates have to be.
    ``chance`` (n, K + 1): of the control and of each arm, if these were not the same for all.
    """

    y: Floats
    arm: NDArray[np.intp]
    uplift: Floats
    guide: Bools
    chance: Floats | None = None


def policy_certificate(
    first: tuple[Floats, NDArray[np.intp], Floats | None],
    chunks: Sequence[PolicyChunkRows],
    fixed: FixedBudget,
    bounded: Bounded,
    n_candidates: int,
) -> dict[str, Any]:
    """What the policies of the chunks gain at least at a budget that was fixed beforehand.

    ``first``: outcomes, arms and chances of the rows before the first chunk. The policy of a chunk
    is fixed by other rows: by the models and calibrations of the chunks before it, and by a few
    rows of its own, which are not bet on, that tell which rate of uplift to cost spends the budget.
    """
    cost, (low, high) = np.array(fixed.costs), bounded.range
    given: list[Any] = [(np.clip(first[0], low, high), None, first[1])]
    chances = None if first[2] is None else [first[2]]
    spent, n_bet = 0.0, 0
    for chunk in chunks:
        rate = _rate(chunk.uplift[chunk.guide], cost, fixed.budget)
        bet = ~chunk.guide
        chosen = _chosen(chunk.uplift[bet], cost, rate)
        given.append((np.clip(chunk.y[bet], low, high), chosen, chunk.arm[bet]))
        if chances is not None and chunk.chance is not None:
            chances.append(chunk.chance[bet])
        spent += float(np.concatenate([[0.0], cost])[chosen].sum())
        n_bet += len(chosen)
    found = certify_policy(
        given,
        n_arms=len(cost),
        outcome_range=bounded.range,
        n_candidates=n_candidates,
        propensity=chances,
    )
    spent /= max(n_bet, 1)
    text = f"At a budget of {fixed.budget:g} per person, of which {spent:.4g} were spent: {found}"
    return asdict(found) | {
        "text": f"{text} {bounded.told}".rstrip(),
        "budget": fixed.budget,
        "costs": list(fixed.costs),
        "spent": spent,
    }


def _rate(uplift: Floats, cost: Floats, budget: float) -> float:
    """The lowest rate of uplift to cost that is worth its money; 0 if money is left."""
    found = choose_arms(uplift, cost=cost, budget=budget * len(uplift))
    return found.rate if found.part is not None else 0.0


def _chosen(uplift: Floats, cost: Floats, rate: float) -> NDArray[np.intp]:
    """(n,) the arm, 1 to K, that each person gets if steps of this rate and above are taken."""
    steps = arm_steps(uplift, np.broadcast_to(cost, uplift.shape))
    steps = steps.take(np.flatnonzero(steps.rate >= rate))
    chosen = np.zeros(len(uplift), dtype=np.intp)
    for number in range(int(steps.number.max(initial=-1)) + 1):
        now = steps.number == number
        chosen[steps.person[now]] = steps.arm[now] + 1
    return chosen


def arms_at(uplift: Floats, cost: Floats, budget: float) -> NDArray[np.intp]:
    """(n,) the arm, 1 to K, that each person gets at a budget per person; 0: none."""
    return _chosen(uplift, cost, _rate(uplift, cost, budget))


def guides(keys: NDArray[np.uint64]) -> Bools:
    """(n,) one row in ten, by other bits of the keys than those that deal folds."""
    mixed = keys * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray((mixed >> np.uint64(32)) % np.uint64(_GUIDES) == 0)


def with_provisos(facts: Mapping[str, Any], checks: Sequence[Any]) -> dict[str, Any]:
    """Facts whose certificate says which questions of the arms' checks are open."""
    doubts = [doubt for check in checks if check is not None for doubt in check["doubts"]]
    certificate = facts["certificate"]
    if certificate is None or not doubts:
        return dict(facts)
    text = provided(certificate["text"], {"doubts": doubts})
    return {**facts, "certificate": {**certificate, "text": text}}


_MAYBE, _MAYBE_TEXT = (float, None), (str, None)
_OF_CURVE: dict[str, Any] = {
    **{name: [_MAYBE] for name in ("gain", "standard_error", "lower", "upper")},
    **{f"simultaneous_{end}": [_MAYBE] for end in ("lower", "upper")},
    "shares": [[float]],
    "declined": _MAYBE_TEXT,
}
_OF_DIFFERENCE: dict[str, Any] = {
    **{name: [_MAYBE] for name in ("difference", "standard_error", "lower", "upper")},
    **dict.fromkeys(("area", "area_lower", "area_upper", "p_value"), _MAYBE),
    "arm": _MAYBE_TEXT,
    "declined": _MAYBE_TEXT,
}

_FACTS: dict[str, Any] = {
    "control": str,
    "rows": {...: ...},
    "level": float,
    "tilt": float,
    "curves": [{
        "costs": {...: ...},
        "budget": [float],
        "rate": (None, [_MAYBE]),
        "policy": _OF_CURVE,
        "singles": {...: ...},
        "everybody": _OF_CURVE | {"arm": str},
        "differences": dict.fromkeys(("random", "single", "everybody"), _OF_DIFFERENCE),
    }],
    "people": (None, {
        "part": float, "budget": float,
        "arms": [{"arm": str, "n_columns": int, "columns": [{
            "name": str, "bins": [str], "top": [_MAYBE], "rest": [_MAYBE], "distance": float,
        }]}],
    }),
    "segments": (None, {"level": float, "parts": [{
        "rule": [str], "rows": int, "share": float, "learnt": {...: ...},
        "contrasts": [{"arm": str, "over": str, **EFFECT}], "certified": (None, {...: ...}),
    }]}),
    "certificate": (None, {"text": str, "gain_lower_bound": float, "budget": float, ...: ...}),
    "failed_check": _MAYBE_TEXT,
    "notes": [str],
}  # fmt: skip
