"""The types of all results: frozen dataclasses with named fields.

A result is a frozen dataclass. pydantic reads and writes it as JSON, so that its class is the
schema of every file that holds it: unknown fields, missing fields and numbers that are not finite
are refused. Words are made elsewhere: ``str(result)`` asks :mod:`auucmax.present`.

Curves are columns of numbers (tuples of equal length), which are shorter in a file and quicker to
compute with than a list of points. A number that is not known is None.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import Any, ClassVar, Self, dataclass_transform

from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

Numbers = tuple[float, ...]
MaybeNumbers = tuple[float | None, ...]
Range = tuple[float, float]
LEAST_ROWS = 20  #: fewest people that a number which is passed on may describe to others
TOP = 0.3  #: share of people, or of the highest spending, that is described by default
N_PEOPLE = 10_000  #: to choose from, if nothing else is known
_STRICT: Any = {"extra": "forbid", "allow_inf_nan": False}


class Shown:
    """Mixin: show a result in words at the prompt and in notebooks.

    Dataclasses need ``repr=False``, or they would write all fields.
    """

    def __str__(self) -> str:
        return str(import_module("auucmax.present.brief").text(self))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return str(import_module("auucmax.present.brief").html(self))


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Result(Shown):
    """Base class of results: subclasses are frozen, keyword-only dataclasses.

    Examples
    --------
    >>> class Share(Result):
    ...     value: float
    >>> Share.from_json(Share(value=0.5).to_json())
    Share(value=0.5)
    """

    __pydantic_config__: ClassVar = _STRICT

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)

    def to_json(self) -> Any:
        """The result as plain JSON: a dictionary."""
        kind: type = type(self)
        return _adapter(kind).dump_python(self, mode="json")

    @classmethod
    def from_json(cls, values: Any) -> Self:
        """Restore a result from :meth:`to_json`; raise a ValueError for anything else."""
        return read_json(cls, values)


def read_json(kind: type, values: Any) -> Any:
    """Convert plain JSON to a result or a tuple of dataclasses; raise ValueError otherwise.

    Files come from anywhere: nothing is converted but lists to tuples.
    """
    return _adapter(kind).validate_json(json.dumps(values), strict=True)


def plain(value: Any) -> Any:
    """Convert to dictionaries, lists, text, numbers and None; non-finite numbers become None.

    >>> import numpy as np
    >>> plain({"a": np.array([1.0, np.nan]), "b": (np.int64(2), True)})
    {'a': [1.0, None], 'b': [2, True]}
    """
    if hasattr(value, "tolist"):  # of numpy or pandas
        value = value.tolist()
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    return str(value)


@cache
def _adapter(kind: type) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind, config=None if hasattr(kind, "__pydantic_config__") else _STRICT)


def _check_lengths(*columns: Sized | None) -> None:
    """Raise a ValueError unless the columns that are known have the same length."""
    if len({len(column) for column in columns if column is not None}) > 1:
        raise ValueError("columns should have one length.")


class State(StrEnum):
    """The state of a decision, in order of precedence."""

    HARM = "harm"
    LOSS = "loss"
    GUARANTEED = "guaranteed"
    SIGNIFICANT = "significant"
    UNCLEAR = "unclear"
    UNKNOWN = "unknown"


class Basis(StrEnum):
    """The rows behind the evidence."""

    CROSS_FITTED = "cross-fitted"
    HELD_OUT = "held out"
    NEW_ROWS = "new rows"


class Kind(StrEnum):
    """The kind of an outcome."""

    BINARY = "0/1"
    COUNT = "count"
    MONEY = "money with zeros"
    NUMBER = "any number"


class Why(StrEnum):
    """Reasons why a number is missing."""

    FAILED_CHECK = "failed check"
    FEW_ROWS = "few rows"
    MIXED_GROUPS = "mixed groups"
    GROUPS = "groups"
    NO_RANGE = "no range"
    NARROW_RANGE = "narrow range"
    EXTREME_PROPENSITY = "extreme propensity"
    NO_BUDGET = "no budget"
    OTHER_COSTS = "other costs"
    PEOPLE_NOT_MONEY = "people, not money"
    LIMITS = "limits"
    UNLIKE_TRIAL = "unlike the trial"
    OTHER_ARMS = "other arms"


class Estimate(Result):
    """An estimate with its standard error and interval; ``missing`` says why there is no interval.

    The level of the interval is that of the result it is part of.
    """

    value: float
    se: float | None = None
    lower: float | None = None
    upper: float | None = None
    p_value: float | None = None
    missing: str | None = None

    @classmethod
    def of(
        cls,
        value: float,
        interval: Iterable[float],
        *,
        se: float | None = None,
        p_value: float | None = None,
        missing: str | None = None,
    ) -> Self:
        """Make an estimate from numbers of which all but the value may be NaN, for not known."""
        lower, upper = plain(interval)
        return cls(
            value=float(value), se=plain(se), lower=lower, upper=upper, p_value=plain(p_value),
            missing=missing,
        )  # fmt: skip

    def scaled(self, factor: float, shift: float = 0.0) -> Estimate:
        """The estimate times a nonzero ``factor``, plus ``shift``."""
        given = (self.lower, self.upper) if factor > 0 else (self.upper, self.lower)
        ends = (None if end is None else factor * end + shift for end in given)
        se = None if self.se is None else abs(factor) * self.se
        lower, upper = ends
        return replace(self, value=factor * self.value + shift, se=se, lower=lower, upper=upper)


class Outcome(Result):
    """The outcome of a trial; ``range``: the lowest and highest value that certificates count."""

    name: str
    kind: Kind
    lower_is_better: bool = False
    range: Range | None = None

    @property
    def gain(self) -> str:
        """Name of what is gained if the treatment works."""
        return f"{self.name} avoided" if self.lower_is_better else self.name


class Roles(Result):
    """The roles of a table's columns; ``arms[0]`` is the control.

    ``propensity``: (arm, column) pairs, the probability of every arm but one, which has the rest.
    ``ignored`` columns are checked as features are, but no model uses them; ``after`` columns were
    recorded after treatment and are neither used nor checked.
    """

    treatment: str
    arms: tuple[str, ...]
    outcome: Outcome
    features: tuple[str, ...]
    id: str | None = None
    groups: str | None = None
    propensity: tuple[tuple[str, str], ...] = ()
    ignored: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    drop_missing_outcomes: bool = False

    @property
    def columns(self) -> list[str]:
        """All columns needed to read a trial."""
        chances = [name for _, name in self.propensity]
        names = [self.treatment, self.outcome.name, *self.features, self.id, self.groups, *chances]
        return [name for name in dict.fromkeys(names) if name]


class Curve(Result):
    """Gain per person of an allocation over treating nobody, by spending.

    ``spend`` is the money per person of the population, ``shares`` the part of the people who get
    each arm there. ``lower`` and ``upper`` hold at one point, ``band_lower`` and ``band_upper`` at
    all points together. ``random``: the gain of the same arms for random people. With one arm at a
    cost of 1, the spend is the share of people treated.
    """

    costs: Numbers
    spend: Numbers
    shares: tuple[Numbers, ...]
    gain: Numbers
    se: Numbers
    lower: MaybeNumbers
    upper: MaybeNumbers
    band_lower: MaybeNumbers
    band_upper: MaybeNumbers
    random: Numbers
    missing: str | None = None

    def __post_init__(self) -> None:
        _check_lengths(
            self.spend, self.shares, self.gain, self.se, self.lower, self.upper, self.band_lower,
            self.band_upper, self.random,
        )  # fmt: skip
        _check_lengths(self.costs, *self.shares)
        rises = all(low < high for low, high in pairwise(self.spend))
        if not rises or any(abs(part - 0.5) > 0.5 + 1e-6 for row in self.shares for part in row):
            raise ValueError("a curve should have a rising spend, and shares between 0 and 1.")


class Contrast(Result):
    """Difference between two allocations or rankings on the same rows."""

    against: str
    difference: Estimate
    curve: Numbers = ()
    auuc: Estimate | None = None
    gain: Estimate | None = None


class Cut(Result):
    """A guaranteed gain per person of treating everyone above a cut.

    At most ``share_upper`` of the population lies above the cut.
    """

    share: float
    share_upper: float
    lower: float


class CertifiedGain(Result):
    """A guarantee that holds with probability 1 - ``delta`` for every number of rows.

    ``gain`` is the lower bound of the gain over random targeting (``claim`` "ranking"), or over
    treating nobody at a budget that was fixed in advance (``claim`` "policy"; ``over_random`` is
    then the bound over the same arms for random people). ``trained_on``: the smallest and largest
    part of the rows that the models were trained on; (1, 1) is the model itself.
    ``beyond``: the part of the outcomes outside the range that is counted.
    """

    claim: str
    gain: float
    delta: float
    n_rows: int
    trained_on: Range = (1.0, 1.0)
    n_models: int = 1
    n_candidates: int = 1
    auuc: float | None = None
    over_random: float | None = None
    budget: float | None = None
    spent: float | None = None
    counted: Range = (0.0, 1.0)
    beyond: float = 0.0


class Cuts(Result):
    """Guarantees at several cuts that hold together with probability 1 - ``delta``."""

    delta: float
    n_rows: int
    cuts: tuple[Cut, ...]


class Profile(Result):
    """How a group of people differs from the others in one column: the shares in each bin.

    None: fewer than 20 people.
    """

    name: str
    bins: tuple[str, ...]
    inside: MaybeNumbers
    outside: MaybeNumbers
    distance: float

    def __post_init__(self) -> None:
        _check_lengths(self.bins, self.inside, self.outside)


class Driver(Result):
    """Correlation of the score with a column, or one of its categories."""

    name: str
    category: str | None
    correlation: float | None
    top: float | None
    rest: float | None
    difference: float | None
    is_date: bool


class Term(Result):
    """A term of a linear score: coefficient, and coefficient times standard deviation."""

    name: str
    coefficient: float
    weight: float


class Drivers(Result):
    """The columns most correlated with the score, for the top ``share`` of people."""

    share: float
    drivers: tuple[Driver, ...]
    n_columns: int
    linear: tuple[Term, ...] | None


class People(Result):
    """Profile of the top ``share`` of a ranking, or of those who get ``arm``."""

    share: float
    n_columns: int
    columns: tuple[Profile, ...]
    arm: str | None = None


class ArmContrast(Result):
    """The effect of one arm compared with another."""

    arm: str
    over: str
    effect: Estimate


class Segment(Result):
    """A group described by conditions on columns, with the effects of the arms.

    ``trained`` are the effects on the rows that the segments were found on, ``contrasts`` those on
    the other rows; ``guaranteed`` the lower bounds of the effect of each arm.
    """

    rule: tuple[str, ...]
    n_rows: int
    share: float
    trained: Numbers
    contrasts: tuple[ArmContrast, ...]
    guaranteed: Numbers | None


class Segments(Result):
    """Disjoint segments whose intervals, each of ``level``, hold together at 95%."""

    level: float
    parts: tuple[Segment, ...]


class Deciles(Result):
    """Effects in tenths of a ranking, highest scores first; fewer parts for few rows."""

    n_rows: tuple[int, ...]
    uplift: MaybeNumbers
    se: MaybeNumbers
    lower: MaybeNumbers
    upper: MaybeNumbers
    predicted: MaybeNumbers | None

    def __post_init__(self) -> None:
        _check_lengths(self.n_rows, self.uplift, self.se, self.lower, self.upper, self.predicted)


class ArmRows(Result):
    """Rows, mean outcome (as recorded), events and groups of one arm."""

    name: str
    n_rows: int
    mean: float
    n_events: int | None
    n_groups: int | None


class TestedFacts(TypedDict):
    """One test of the randomisation."""

    name: str
    arm: str
    statistic: float | None
    p_value: float
    detail: str
    adjusted_p_value: float
    few: bool


class SuspectFacts(TypedDict):
    """A suspicious feature, to be checked before it is used."""

    feature: str
    target: str
    measure: str
    value: float
    is_high: bool
    is_after: bool


class DifferenceFacts(TypedDict):
    """Means of a feature in both arms."""

    arm: str
    feature: str
    control: float | None
    treated: float | None
    difference: float | None
    few: bool


class CheckFacts(TypedDict):
    """A check of the randomisation, without numbers about fewer than 20 people."""

    trial_name: str
    n_rows: int
    alpha: float
    counts: dict[str, int]
    expected_shares: dict[str, float] | None
    tests: list[TestedFacts]
    differences: list[DifferenceFacts]
    missing: list[dict[str, Any]]
    suspects: list[SuspectFacts]
    detectable_difference: float | None
    notes: list[str]
    grouping: str
    provided: list[str]
    households: list[str]
    doubts: list[SuspectFacts]
    evened: str
    ok: bool
    stops: bool
    treated_by: list[str]
    failures: list[TestedFacts]


class ArmEvidence(Result):
    """Evidence for one arm against the control; its curve ends at everyone.

    ``ratio``: the part of the total effect that each share captures. ``people``: the top of the
    ranking at several shares.
    """

    arm: str
    rows: tuple[ArmRows, ArmRows]
    n_groups: int | None
    effect: Estimate
    auuc: Estimate
    gain: Estimate
    qini: float
    n_levels: int
    curve: Curve
    ratio: tuple[Estimate | None, ...]
    risk: Numbers | None
    deciles: Deciles
    rivals: tuple[Contrast, ...]
    certificate: CertifiedGain | None
    cuts: Cuts | None
    missing: Why | None
    drivers: Drivers | None
    people: tuple[People, ...]
    check: CheckFacts | None
    propensity: Range | None = None

    def __post_init__(self) -> None:
        rivals = (one.curve for one in self.rivals)
        _check_lengths(self.curve.spend, self.ratio, self.risk, *rivals)


class PolicyEvidence(Result):
    """Evidence for the policy over all arms; with one arm, its curve is that of the arm.

    ``rate``: uplift per unit of money of the last step that each budget pays for.
    """

    curve: Curve
    rate: MaybeNumbers = ()
    contrasts: tuple[Contrast, ...] = ()
    certificate: CertifiedGain | None = None
    missing: Why | None = None
    people: tuple[People, ...] = ()
    segments: Segments | None = None


class Evidence(Result):
    """The evidence of a model: only numbers, none about fewer than 20 people.

    ``level`` is that of all intervals, ``failed_check`` the verdict of a check that the rows do
    not pass: the numbers then say nothing about the treatment.
    """

    roles: Roles
    basis: Basis
    level: float
    n_rows: int
    n_folds: int | None
    arms: tuple[ArmEvidence, ...]
    policy: PolicyEvidence
    failed_check: bool = False


class Terms(Result):
    """The terms of a decision: a share, a budget, or the highest profit.

    ``cost`` of treating one person with each arm, ``value`` of one unit of the outcome,
    ``budget`` for all people together.
    """

    share: float | None = None
    budget: float | None = None
    cost: Numbers | None = None
    value: float | None = None

    @property
    def has_profit(self) -> bool:
        """Whether cost and value are both given."""
        return self.cost is not None and self.value is not None


class Plan(Result):
    """Totals of treating some of ``n_people``; ``counts`` has one entry per arm.

    ``share`` is the part of the trial's people that stands behind it. Intervals hold for all
    shares or budgets together. ``guaranteed``: the gain, or profit if that is known, that is
    guaranteed.
    """

    terms: Terms
    n_people: int
    counts: tuple[int, ...]
    share: float
    spend: float | None
    gain: Estimate | None
    profit: Estimate | None
    guaranteed: float | None = None
    missing: Why | None = None


class Decision(Result):
    """A decision whether to treat, with its plan.

    ``better``: a plan whose gain or profit is significant, if this one's is not; ``everyone``: with
    one arm, the plan of treating everyone.
    """

    outcome: Outcome
    arms: tuple[str, ...]
    state: State
    plan: Plan
    better: Plan | None = None
    everyone: Plan | None = None

    @property
    def is_good(self) -> bool:
        """Whether treating these people is recommended."""
        return self.state in (State.GUARANTEED, State.SIGNIFICANT)


class Fit(Result):
    """Facts about the fit of a model."""

    version: str
    date: str
    model: str
    about: str
    n_given: int
    n_used: int
    n_trained: int
    n_parameters: int | None
    other_arms: dict[str, int]
    without_outcome: tuple[int, ...]
    dropped: dict[str, str]
    codes: tuple[str, ...]
    quantities: tuple[str, ...]
    decimal: str | None = None
    file: str | None = None


class Brief(Result):
    """A result in words: verdict, facts with units, caveats, next step and details."""

    verdict: str
    facts: tuple[tuple[str, str], ...] = ()
    caveats: tuple[str, ...] = ()
    next_step: str | None = None
    details: tuple[tuple[str, str], ...] = ()
