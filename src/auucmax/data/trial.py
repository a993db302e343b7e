"""The rows of a randomised trial, checked once and kept together.

Printing a trial shows its arms, their average effects and how uncertain these are. Folds keep
the share of each arm, and on request of each outcome within it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit
from sklearn.base import BaseEstimator

from auucmax._errors import InputError
from auucmax._shown import Shown
from auucmax._validation import (
    ROUTING,
    Bools,
    Floats,
    check_choice,
    check_column,
    check_labels,
    check_level,
    check_mask,
    check_one_dimensional,
    check_outcome,
    check_treatment,
    check_weight,
    check_whole,
    control_among,
    listed,
)
from auucmax.data.outcomes import outcome_kind
from auucmax.encoding.frames import frame_of, is_frame
from auucmax.results import Kind, Outcome, Roles


@dataclass(frozen=True)
class ArmSummary:
    """Rows, share of all rows and mean outcome of one arm."""

    label: Any
    name: str
    n_rows: int
    share: float
    mean: float
    standard_error: float


@dataclass(frozen=True)
class EffectSummary:
    """Average effect of one arm against the control, with a 95% interval.

    ``declined``: why there is no interval, where that is known; otherwise None.
    """

    label: Any
    name: str
    effect: float
    standard_error: float
    low: float
    high: float
    p_value: float
    declined: str | None = None


@dataclass(frozen=True, repr=False)
class TrialSummary(Shown):
    """The numbers of a trial; ``str`` renders them, ``to_dict`` hands them on."""

    name: str
    outcome_name: str
    treatment_name: str
    n_rows: int
    n_features: int
    weighted: bool
    n_randomised: int | None
    true_effect: float | None
    arms: tuple[ArmSummary, ...]
    effects: tuple[EffectSummary, ...]

    def to_dict(self) -> dict[str, Any]:
        """The numbers of the summary as nested dictionaries, for JSON."""
        return asdict(self)


def _mean_and_error(
    y: Floats, weight: Floats | None, groups: NDArray[Any] | None
) -> tuple[float, float, int]:
    """Mean, its standard error, and how many rows, or groups, it comes from."""
    if weight is not None:  # a row of weight zero is no observation
        y, groups = y[weight > 0], None if groups is None else groups[weight > 0]
        weight = weight[weight > 0]
    if len(y) == 0:
        return float("nan"), float("nan"), 0
    mean = float(np.average(y, weights=weight))
    share = np.full(len(y), 1 / len(y)) if weight is None else weight / weight.sum()
    parts = share * (y - mean)
    if groups is not None:
        parts = np.bincount(pd.factorize(groups)[0], weights=parts)
    n = len(parts)
    if n == 1:
        return mean, float("nan"), n
    if y.min() == y.max():  # rounding must not look like a spread
        return float(y[0]), 0.0, n
    return mean, float(np.sqrt(n / (n - 1) * np.sum(parts**2))), n


def _clustered_error(
    y: Floats, treated: Bools, weight: Floats | None, groups: NDArray[Any]
) -> tuple[float, int] | None:
    """Standard error of an effect, and its groups, if some of these have rows of both arms.

    The arms are then not independent: what their rows share cancels within a group.
    """
    codes = pd.factorize(groups)[0]
    counts = np.stack([np.bincount(codes[own], minlength=codes.max() + 1)
                       for own in (treated, ~treated)])  # fmt: skip
    if not (counts > 0).all(axis=0).any():
        return None
    weight = np.ones(len(y)) if weight is None else weight
    terms = np.zeros(len(y))
    for own, sign in ((treated, 1.0), (~treated, -1.0)):
        mean = np.average(y[own], weights=weight[own])
        terms[own] = sign * weight[own] * (y[own] - mean) / weight[own].sum()
    totals = np.bincount(codes, terms)
    n = int((np.bincount(codes, weight) > 0).sum())
    return (float(np.sqrt(n / (n - 1) * np.sum(totals**2))), n) if n > 1 else None


def _effect(
    arm: ArmSummary,
    control: ArmSummary,
    n_arm: int,
    n_control: int,
    shared: tuple[float, int] | None = None,
) -> EffectSummary:
    """``shared``: standard error and number of groups that have rows of both arms."""
    effect = arm.mean - control.mean
    parts = np.array([arm.standard_error, control.standard_error]) ** 2
    error = float(np.sqrt(parts.sum())) if shared is None else shared[0]
    if error > 0:
        # Welch-Satterthwaite degrees of freedom.
        freedom = parts.sum() ** 2 / np.sum(parts**2 / (np.array([n_arm, n_control]) - 1))
        freedom = freedom if shared is None else shared[1] - 1
        half = float(stdtrit(freedom, 0.975)) * error
        p_value = float(2 * stdtr(freedom, -abs(effect) / error))
    else:  # no spread at all, or an arm of one row whose spread is not known (NaN)
        half, p_value = error, error if np.isnan(error) else float(effect == 0)
    return EffectSummary(arm.label, arm.name, effect, error, effect - half, effect + half, p_value)


PER_ROW = (
    "y", "treatment", "sample_weight", "id", "effect", "randomised", "groups", "propensity", "place"
)  # fmt: skip


class Lost(NamedTuple):
    """Rows without an outcome, (m,) each: their arms, propensities (m, K + 1) and groups.

    ``first`` marks the first row of each group among all rows.
    """

    arm: NDArray[np.intp]
    propensity: Floats | None
    groups: NDArray[Any] | None
    first: Bools | None


@dataclass(frozen=True, repr=False, eq=False)
class Trial(Shown):
    """Features, outcome and treatment of the same rows; printing it shows the average effect.

    Parameters
    ----------
    X : DataFrame of shape (n, d)
        Features known before treatment. A 2-D array becomes a frame with columns x0, x1, ...; a
        polars frame, an Arrow table or a DuckDB relation becomes a pandas frame.
    y : array of shape (n,)
        Outcome, any real numbers; higher is better.
    treatment : array of shape (n,)
        0/1, booleans, or labels with ``control`` naming the untreated group. Two arms are stored
        as int8 0/1 (and ``control`` as 0); with more arms the labels stay as they are.
    sample_weight : array of shape (n,), optional
        Weights of the rows in every average, not negative.
    id : array of shape (n,), optional
        Names of the rows, carried along.
    control : label, default 0
        The control group in ``treatment``; without 0 among the labels, a label "control" is.
    name, outcome_name, treatment_name : str
        What is printed.
    arm_names : tuple of str, optional
        Printed names of the arms, control first, the others in the order of their sorted labels.
    effect : array of shape (n,), optional
        The true effect of each row, known only in simulations.
    randomised : array of bool of shape (n,), optional
        Which rows were randomised, when only some were.
    groups : array of shape (n,), optional
        The household or shop of each row, if its rows belong together. ``split`` keeps a group
        whole, and standard errors and checks are by group.
    propensity : array of shape (n, K + 1), or (n,) with one arm, optional
        The probability of the control and of each arm by design, where it differed between rows.
    roles : Roles, optional
        How the table was read, from :func:`auucmax.read_trial`; made from the names otherwise.
    extra : DataFrame, optional
        Columns known before treatment that no model uses; the randomisation check tests them.
    lost : Lost, optional
        Rows without an outcome, which are not among the rows; the check compares their numbers.
    place : array of shape (n,), optional
        The place of each row in the table that it was read from.
    other_arms : dict, optional
        The number of rows of arms that are not part of the trial, by label.

    Examples
    --------
    >>> from auucmax.data.trial import Trial
    >>> sent = ["none", "none", "none", "mail", "mail", "mail"]
    >>> trial = Trial([[1], [2], [3], [1], [2], [3]], [0, 0, 1, 1, 0, 1], sent, control="none")
    >>> trial.treatment
    array([0, 0, 0, 1, 1, 1], dtype=int8)
    >>> print(trial)
    trial: 6 rows, 1 feature; outcome y.
      none            3 rows (50.0%), mean 33.33 per 100 people
      mail            3 rows (50.0%), mean 66.67 per 100 people
      Effect of mail  +33 y per 100 people (-98 to 164), p 0.52
    """

    X: pd.DataFrame
    y: NDArray[Any]
    treatment: NDArray[Any]
    sample_weight: NDArray[Any] | None = None
    id: NDArray[Any] | None = None
    control: Any = 0
    name: str = "trial"
    outcome_name: str = "y"
    treatment_name: str = "treatment"
    arm_names: tuple[str, ...] | None = None
    effect: NDArray[Any] | None = None
    randomised: NDArray[Any] | None = None
    groups: NDArray[Any] | None = None
    propensity: NDArray[Any] | None = None
    roles: Roles = None  # type: ignore[assignment]
    extra: pd.DataFrame | None = None
    lost: Lost | None = None
    place: NDArray[np.intp] = None  # type: ignore[assignment]
    other_arms: dict[str, int] | None = None

    def __post_init__(self) -> None:
        y = check_outcome(self.y)
        treatment, control, names = _check_arms(
            self.treatment, len(y), self.control, self.arm_names
        )
        checked: dict[str, Any] = {
            "X": _check_features(self.X, len(y)),
            "y": y,
            "treatment": treatment,
            "control": control,
            "arm_names": names,
        }
        if self.sample_weight is not None:
            checked["sample_weight"] = _check_weight(self.sample_weight, treatment, control)
        for name in ("id", "groups"):
            if getattr(self, name) is not None:
                checked[name] = check_labels(getattr(self, name), name, len(y))
        if self.effect is not None:
            checked["effect"] = check_column(self.effect, "effect", len(y))
        if self.randomised is not None:
            checked["randomised"] = check_mask(self.randomised, "randomised", len(y))
        if self.propensity is not None:
            checked["propensity"] = _check_propensity(self.propensity, len(y), len(names))
        if self.place is None:
            checked["place"] = np.arange(len(y))
        if self.roles is None:
            checked["roles"] = Roles(
                treatment=self.treatment_name,
                arms=names,
                outcome=Outcome(name=self.outcome_name, kind=Kind(outcome_kind(y))),
                features=tuple(str(name) for name in checked["X"].columns),
            )
        for field, value in checked.items():
            object.__setattr__(self, field, value)

    @cached_property
    def arm(self) -> NDArray[np.intp]:
        """(n,) the arm of each row: 0 for the control, 1 to K in the order of ``arm_names``."""
        codes, labels = pd.factorize(self.treatment)
        place = {label: k for k, label in enumerate(self.arms)}
        return np.array([place[label] for label in labels.tolist()], dtype=np.intp)[codes]

    @cached_property
    def benefit(self) -> Floats:
        """(n,) outcomes of which more is better: 1 - y or -y if a lower outcome is better."""
        outcome = self.roles.outcome
        if not outcome.lower_is_better:
            return self.y
        return (1.0 if outcome.kind == Kind.BINARY else 0.0) - self.y

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.y)

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        return self.X.shape[1]

    @property
    def arms(self) -> tuple[Any, ...]:
        """The labels in ``treatment``, control first, in the order of ``arm_names``."""
        return _ordered_labels(self.treatment, self.control)

    @property
    def is_multi_arm(self) -> bool:
        """Whether there is more than one treatment beside the control."""
        return len(self.arm_names or ()) > 2

    @property
    def treated(self) -> NDArray[np.bool_]:
        """True for the treated rows of a two-arm trial."""
        if self.is_multi_arm:
            raise ValueError(
                f"treated needs a trial of two arms, got the arms {listed(self.arms)}. "
                f"Choose one with select_arm, for example select_arm({self.arms[1]!r})."
            )
        return self.treatment == 1

    def take(self, indices: ArrayLike) -> Trial:
        """The trial of these rows: positions (in their order, repeats allowed) or a boolean mask.

        >>> from auucmax.data.trial import Trial
        >>> trial = Trial([[1], [2], [3], [4]], [0, 0, 1, 1], [0, 1, 0, 1])
        >>> trial.take([2, 3]).y
        array([1., 1.])
        """
        rows = _check_positions(indices, self.n_rows)
        kept: dict[str, Any] = {
            field: None if getattr(self, field) is None else getattr(self, field)[rows]
            for field in PER_ROW
        }
        present = set(pd.unique(kept["treatment"]).tolist())
        own = [k for k, arm in enumerate(self.arms) if arm in present or not self.is_multi_arm]
        kept["arm_names"] = tuple((self.arm_names or ())[k] for k in own)
        if self.propensity is not None:
            kept["propensity"] = kept["propensity"][:, own]
        if self.extra is not None:
            kept["extra"] = self.extra.iloc[rows]
        roles = replace(self.roles, arms=kept["arm_names"])
        return replace(self, X=self.X.iloc[rows], roles=roles, **kept)

    def select_arm(self, label: Any) -> Trial:
        """The two-arm trial of one arm (its label or its printed name) against the control."""
        names = self.arm_names or ()
        choices = dict(zip(names[1:], self.arms[1:], strict=True))
        arm = choices.get(label, label) if isinstance(label, str) else label
        if arm not in self.arms[1:]:
            raise ValueError(
                f"select_arm needs one of the arms {listed(self.arms[1:])}, got {label!r}. "
                f"The control, {self.control!r}, is always kept."
            )
        return self.take((self.treatment == self.control) | (self.treatment == arm))

    def split(
        self,
        test_size: float = 0.3,
        by: str = "treatment",
        random_state: int | np.random.Generator | None = None,
    ) -> tuple[Trial, Trial]:
        """A random training and test part with the same share of each arm, groups kept whole.

        Parameters
        ----------
        test_size : float, default 0.3
            Share of the rows, between 0 and 1, that go to the test part.
        by : {"treatment", "treatment-outcome"}, default "treatment"
            What has equal shares in both parts. "treatment-outcome" also balances the outcome
            within each arm (see :class:`~auucmax.data.trial.TrialKFold`). That steadies
            comparisons of models, but the class counts of the parts are then no longer random, so
            unconditional finite-sample certificates no longer hold on such a split.
        random_state : int, Generator or None
            The same seed gives the same split.

        Returns
        -------
        train, test : Trial
            Both keep the order of the rows.
        """
        check_level(test_size, "test_size")
        # A group goes by its first row; without groups every row is its own.
        group, first = np.arange(self.n_rows), np.arange(self.n_rows)
        if self.groups is not None:
            group = pd.factorize(self.groups)[0]
            first = np.unique(group, return_index=True)[1]
        strata = make_strata(self.treatment[first], self.y[first], by=by)
        strata.require(2, "one for each part")
        position = places_in_strata(strata.codes, np.random.default_rng(random_state))
        sizes = np.bincount(strata.codes)
        # A row of each stratum in both parts, however small the share.
        n_test = np.clip(np.rint(test_size * sizes), 1, sizes - 1)
        test = (position < n_test[strata.codes])[group]
        return self.take(~test), self.take(test)

    def summary(self) -> TrialSummary:
        """All numbers that printing the trial shows.

        The effect of an arm is its mean outcome minus that of the control, with Welch's standard
        error and Student t interval. With weights, means are weighted and the squared standard
        error of a mean m is n/(n-1) * sum w^2 (y - m)^2 / (sum w)^2; with groups, n is their
        number, and w (y - m) is summed over each. Where only some rows were randomised, the arms
        and effects are those of the randomised rows.
        """
        used = slice(None) if self.randomised is None else self.randomised
        y, treatment, truth = self.y[used], self.treatment[used], self.effect
        weight = None if self.sample_weight is None else self.sample_weight[used]
        arms: list[ArmSummary] = []
        counted: list[int] = []
        for label, name in zip(self.arms, self.arm_names or (), strict=True):
            rows = treatment == label
            n, own = int(rows.sum()), None if weight is None else weight[rows]
            mean, error, units = _mean_and_error(
                y[rows], own, None if self.groups is None else self.groups[used][rows]
            )
            arms.append(ArmSummary(label, name, n, n / len(y), mean, error))
            counted.append(units)
        shared: dict[Any, tuple[float, int] | None] = {}
        if self.groups is not None:
            for arm in arms[1:]:
                rows = np.isin(treatment, [arm.label, arms[0].label])
                own = None if weight is None else weight[rows]
                pair = y[rows], treatment[rows] == arm.label, own, self.groups[used][rows]
                shared[arm.label] = _clustered_error(*pair)
        same = ("name", "outcome_name", "treatment_name", "n_rows", "n_features")
        return TrialSummary(
            **{name: getattr(self, name) for name in same},
            weighted=weight is not None,
            n_randomised=None if self.randomised is None else len(y),
            true_effect=(
                None if truth is None else float(np.average(truth, weights=self.sample_weight))
            ),
            arms=tuple(arms),
            effects=tuple(
                _effect(arm, arms[0], n, counted[0], shared.get(arm.label))
                for arm, n in zip(arms[1:], counted[1:], strict=True)
            ),
        )


def _check_features(X: Any, n_rows: int) -> pd.DataFrame:
    if not isinstance(X, pd.DataFrame) and is_frame(X):
        X = frame_of(X)
    elif not isinstance(X, pd.DataFrame):
        if hasattr(X, "toarray"):
            raise TypeError(
                f"X should be a frame or a dense array, got a sparse {type(X).__name__}. Pass "
                f"X.toarray(), with fewer columns if that does not fit into memory."
            )
        array = np.asarray(X)
        if array.ndim != 2:
            raise ValueError(
                f"X should be a frame or a two-dimensional array, a row for each row of y; got "
                f"{type(X).__name__} of shape {array.shape}. "
                f"Pass a pandas or polars frame, or reshape to (rows, features)."
            )
        X = pd.DataFrame(array, columns=[f"x{j}" for j in range(array.shape[1])])
    if len(X) != n_rows:
        raise ValueError(
            f"X should have as many rows as y, {n_rows}; got {len(X)}. Pass columns of the same "
            f"rows."
        )
    if X.shape[1] == 0:
        raise ValueError("X should have at least one column, got none. Pass the features.")
    if not X.columns.is_unique:
        repeated = X.columns[X.columns.duplicated()].unique().tolist()
        raise ValueError(
            f"X should have columns of different names, got {listed(repeated)} more than once. "
            f"Rename or drop them."
        )
    return X


def _check_arms(
    treatment: ArrayLike, n_rows: int, control: Any, names: tuple[str, ...] | None
) -> tuple[NDArray[Any], Any, tuple[str, ...]]:
    array = check_labels(treatment, "treatment", n_rows)
    present = pd.unique(array).tolist()
    if control == 0 and 0 not in present and (usual := control_among(present)) is not None:
        control = usual
    if len(present) > 2:
        if control not in present:
            raise ValueError(
                f"control should name the control group among the {len(present)} labels in "
                f"treatment, {listed(sorted(present, key=str))}; got {control!r}. "
                f"Pass control=..., for example control={present[0]!r}."
            )
        stored, labels = array, _ordered_labels(array, control)
    else:
        # 0 is only the default: labels without it are reported as labels that need `control`.
        named = None if control not in present and control == 0 else control
        stored = check_treatment(array, n_rows, control=named).astype(np.int8)
        others = [v for v in present if v != control]
        coded = control == 0 and others[0] == 1
        labels = ("control", "treated") if coded else (control, others[0])
        control = 0
    names = tuple(str(v) for v in (labels if names is None else names))
    if len(names) != len(labels):
        raise ValueError(
            f"arm_names should name each of the {len(labels)} arms, control first, got "
            f"{len(names)}: {listed(names)}. Their labels are {listed(labels)}."
        )
    return stored, control, names


def _check_propensity(propensity: ArrayLike, n_rows: int, n_arms: int) -> Floats:
    chance = np.asarray(propensity, dtype=np.float64)
    if chance.ndim == 1 and n_arms == 2:
        chance = np.column_stack([1 - chance, chance])
    if chance.shape != (n_rows, n_arms) or not (chance > 0).all():
        raise InputError(
            "propensity", f"the probabilities, above 0, of the {n_arms} arms in each of the rows",
            f"an array of shape {chance.shape}", "Pass one column per arm, the control first.",
        )  # fmt: skip
    return chance


def _ordered_labels(treatment: NDArray[Any], control: Any) -> tuple[Any, ...]:
    others = [label for label in pd.unique(treatment).tolist() if label != control]
    return (control, *sorted(others, key=lambda v: (isinstance(v, str), v)))


def _check_weight(sample_weight: ArrayLike, treatment: NDArray[Any], control: Any) -> Floats:
    weight = check_weight(sample_weight, treatment != control)
    for label in pd.unique(treatment).tolist():
        if not weight[treatment == label].any():  # with two arms, found above
            raise ValueError(
                f"sample_weight should be positive for some rows of each arm, got only zeros for "
                f"treatment {label!r}. Drop this arm or correct the weights."
            )
    return weight


def _check_positions(indices: ArrayLike, n_rows: int) -> NDArray[np.intp]:
    rows = np.asarray(indices)
    if rows.ndim != 1 or rows.size == 0 or rows.dtype.kind not in "biu":
        raise ValueError(
            f"indices should be a one-dimensional list of row positions or a boolean mask, with "
            f"at least one row; got {rows.dtype} of shape {rows.shape}."
        )
    if rows.dtype != bool:
        return rows.astype(np.intp, copy=False)
    if len(rows) != n_rows:
        raise ValueError(
            f"A boolean mask should have as many entries as the trial has rows, {n_rows}; got "
            f"{len(rows)}."
        )
    return np.flatnonzero(rows)


BY = ("treatment", "treatment-outcome")


class Strata(NamedTuple):
    """A stratum for each row: ``codes`` in 0..len(names)-1, every code with at least one row."""

    codes: NDArray[np.intp]
    names: tuple[str, ...]

    def require(self, at_least: int, reason: str, *remedies: str) -> None:
        """Raise an error that names the smallest stratum if it has fewer rows than ``at_least``."""
        sizes = np.bincount(self.codes, minlength=len(self.names))
        smallest = int(sizes.argmin())
        if sizes[smallest] < at_least:
            crossed = " and outcome " in self.names[smallest]
            advice = [*(['use by="treatment"'] if crossed else []), *remedies, "drop these rows"]
            raise ValueError(
                f"Each stratum should have at least {at_least} rows, {reason}; got "
                f"{sizes[smallest]} with {self.names[smallest]}. To go on, {', or '.join(advice)}."
            )


class TrialKFold(BaseEstimator):
    """K folds, each with the same share of every arm, for scikit-learn's cross-validation.

    Parameters
    ----------
    n_splits : int, default 5
        Number of folds, at least 2.
    by : {"treatment", "treatment-outcome"}, default "treatment"
        What has equal shares in all folds. "treatment-outcome" crosses the arm with the outcome:
        its values if there are at most two, otherwise zero and the tertiles of the rest. That
        steadies comparisons of models, but class counts of a fold are then no longer random, so
        unconditional finite-sample certificates no longer hold on it.
    shuffle : bool, default True
        Deal the rows of a stratum to the folds in random order; otherwise in the order of rows.
    random_state : int, Generator or None
        The same seed gives the same folds. Ignored without ``shuffle``.

    Notes
    -----
    The request for ``treatment`` is declared on the class. With
    ``sklearn.set_config(enable_metadata_routing=True)`` pass ``params={"treatment": t}`` to
    ``cross_validate``, or ``treatment=t`` to ``GridSearchCV.fit``. Without that line scikit-learn
    passes the treatment neither to folds nor to scorers.

    Examples
    --------
    >>> import numpy as np
    >>> from auucmax.data.trial import TrialKFold
    >>> t = np.array(["mail", "none", "none", "mail", "none", "none"])
    >>> folds = TrialKFold(2, random_state=0)
    >>> [t[test].tolist() for _, test in folds.split(np.zeros((6, 1)), treatment=t)]
    [['none', 'mail', 'none'], ['mail', 'none', 'none']]
    """

    # Whatever splits is a cross-validator for scikit-learn, whose own base class takes long to
    # import: it brings all of model selection.
    __metadata_request__split: ClassVar = {"treatment": True}

    def __init__(
        self,
        n_splits: int = 5,
        *,
        by: str = "treatment",
        shuffle: bool = True,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.n_splits = n_splits
        self.by = by
        self.shuffle = shuffle
        self.random_state = random_state

    def split(
        self,
        X: Any,
        y: ArrayLike | None = None,
        groups: Any = None,
        *,
        treatment: ArrayLike | None = None,
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield (train, test) row positions, each in increasing order; the tests part the rows."""
        n_splits = self.get_n_splits()
        if treatment is None:
            raise ValueError(
                f"TrialKFold needs treatment, one label a row, got none. Call split(X, y, "
                f"treatment=t); for cross_validate or GridSearchCV add the line {ROUTING} and pass "
                f"treatment there."
            )
        n_rows = X.shape[0] if hasattr(X, "shape") else None if X is None else len(X)
        strata = make_strata(treatment, y, by=self.by, n_rows=n_rows, than="X")
        strata.require(n_splits, "one for each fold", "use fewer folds")
        rng = np.random.default_rng(self.random_state) if self.shuffle else None
        # Dealing on from stratum to stratum keeps the folds equal in size as well as in shares: no
        # two folds differ by more than one row, in all or within a stratum.
        fold = np.empty(len(strata.codes), dtype=np.intp)
        fold[_order_by_stratum(strata.codes, rng)] = np.arange(len(fold)) % n_splits
        for k in range(n_splits):
            test = fold == k
            yield np.flatnonzero(~test), np.flatnonzero(test)

    def get_n_splits(
        self, X: Any = None, y: Any = None, groups: Any = None, *, treatment: Any = None
    ) -> int:
        """Number of folds; the arguments are there for scikit-learn."""
        return check_whole(self.n_splits, "n_splits", 2)


def make_strata(
    treatment: ArrayLike,
    y: ArrayLike | None = None,
    *,
    by: str,
    n_rows: int | None = None,
    than: str = "y",
) -> Strata:
    """The stratum of each row: its arm, or its arm crossed with the level of its outcome.

    Columns should have ``n_rows`` rows, as many as the argument ``than`` of the caller has.
    """
    check_choice(by, "by", BY)
    labels = check_labels(treatment, "treatment", n_rows, than=than)
    if y is not None:
        y = check_one_dimensional(y, "y", len(labels), than="treatment" if n_rows is None else than)
    arm_codes, arms = pd.factorize(labels, sort=True)
    if len(arms) < 2:
        raise ValueError(
            f"treatment should have at least two levels, treated and control; all {len(labels)} "
            f"rows have {arms.tolist()[0]!r}. An effect needs both arms."
        )
    names = [f"treatment {arm!r}" for arm in arms.tolist()]
    if by == "treatment":
        return Strata(arm_codes, tuple(names))
    if y is None:
        raise ValueError('by="treatment-outcome" needs y, got none. Pass the outcomes.')
    y = check_column(y, "y")
    if len(pd.unique(y)) <= 2:
        levels, values = pd.factorize(y, sort=True)
        level_names = [f"outcome {value:g}" for value in values]
    else:  # often most outcomes are 0, and quantiles of all of them would be too
        cuts = np.quantile(y[y != 0], [1 / 3, 2 / 3])
        levels = np.where(y != 0, 1 + np.searchsorted(cuts, y), 0)
        thirds = ("lowest", "middle", "highest")
        level_names = ["outcome 0", *(f"outcome in the {third} third" for third in thirds)]
    crossed = arm_codes * len(level_names) + levels
    # Arms need not have every level: number only the strata that occur.
    codes, present = pd.factorize(crossed, sort=True)
    pairs = [divmod(int(code), len(level_names)) for code in present]
    return Strata(codes, tuple(f"{names[a]} and {level_names[v]}" for a, v in pairs))


def places_in_strata(codes: NDArray[np.intp], rng: np.random.Generator | None) -> NDArray[np.intp]:
    """Position 0, 1, 2, ... of each row within its stratum, in random order if ``rng`` is given."""
    order = _order_by_stratum(codes, rng)
    starts = np.cumsum(np.bincount(codes)) - np.bincount(codes)
    position = np.empty(len(codes), dtype=np.intp)
    position[order] = np.arange(len(codes)) - starts[codes[order]]
    return position


def _order_by_stratum(codes: NDArray[np.intp], rng: np.random.Generator | None) -> NDArray[np.intp]:
    if rng is None:
        return np.argsort(codes, kind="stable")
    shuffled = rng.permutation(len(codes))
    return shuffled[np.argsort(codes[shuffled], kind="stable")]
