"""The :class:`Trial`: validated rows of a randomised trial.

Printing a trial shows its arms, their average effects and how uncertain these are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

from auucmax._errors import InputError
from auucmax._validation import (
    Bools,
    Floats,
    check_column,
    check_labels,
    check_level,
    check_mask,
    check_outcome,
    check_weight,
    control_among,
    listed,
)
from auucmax.data.folds import make_strata, places_in_strata
from auucmax.encoding.frames import frame_of, is_frame
from auucmax.encoding.kinds import outcome_kind
from auucmax.results import Kind, Outcome, Roles, Shown


@dataclass(frozen=True)
class ArmSummary:
    """Rows, share of all rows and mean outcome of one arm."""

    name: str
    n_rows: int
    share: float
    mean: float
    standard_error: float


@dataclass(frozen=True)
class EffectSummary:
    """Average effect of one arm against the control, with a 95% interval."""

    name: str
    effect: float
    standard_error: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True, repr=False)
class TrialSummary(Shown):
    """Summary statistics of a trial; ``arms`` cover only randomised rows."""

    name: str
    roles: Roles
    n_rows: int
    n_features: int
    arms: tuple[ArmSummary, ...]
    effects: tuple[EffectSummary, ...]


PER_ROW = (
    "y", "treatment", "sample_weight", "id", "effect", "randomised", "groups", "propensity", "place"
)  # fmt: skip


class Lost(NamedTuple):
    """Rows without an outcome: arms (m,), propensities (m, K + 1) and groups (m,).

    ``first`` marks the first row of each group among all rows.
    """

    arm: NDArray[np.intp]
    propensity: Floats | None = None
    groups: Any = None
    first: Any = None

    def take(self, rows: Any) -> Lost:
        """Select rows by positions or by a boolean mask."""
        values: Any = [None if own is None else own[rows] for own in self]
        return Lost(*values)

    def of_arms(self, arms: NDArray[np.intp]) -> Lost:
        """The rows of these arms, which become 0, 1, ..."""
        some = self.take(np.isin(self.arm, arms))
        chance = None if some.propensity is None else some.propensity[:, arms]
        return some._replace(arm=np.searchsorted(arms, some.arm), propensity=chance)


@dataclass(frozen=True, repr=False, eq=False)
class Trial(Shown):
    """Features, outcome and treatment of a trial; printing it shows the average effect.

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
        Identifiers of the rows.
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
    trial: 6 rows, 1 feature; outcome: y; treatment: treatment.
      none            3 rows (50.0%), mean 33.33 per 100 people
      mail            3 rows (50.0%), mean 66.67 per 100 people
      Effect of mail  +33 y per 100 people (-98 to 164), p = 0.52
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
    # None, here and for roles and place, stands for what __post_init__ makes of the rest.
    arm_names: tuple[str, ...] = None  # type: ignore[assignment]
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
        n_rows = len(y)
        X = _check_features(self.X, n_rows)
        treatment, control, names = _check_arms(
            self.treatment, n_rows, self.control, self.arm_names
        )
        checked = {
            "X": X, "y": y, "treatment": treatment, "control": control, "arm_names": names,
        }  # fmt: skip
        if self.sample_weight is not None:
            checked["sample_weight"] = check_weight(self.sample_weight, treatment != control)
        for name, check in (
            ("id", check_labels),
            ("groups", check_labels),
            ("effect", check_column),
            ("randomised", check_mask),
        ):
            if getattr(self, name) is not None:
                checked[name] = check(getattr(self, name), name, n_rows)
        if self.propensity is not None:
            chance = np.asarray(self.propensity, dtype=np.float64)
            if chance.ndim == 1 and len(names) == 2:
                chance = np.column_stack([1 - chance, chance])
            if chance.shape != (n_rows, len(names)) or not (chance > 0).all():
                raise InputError(
                    "propensity", f"the probabilities, above 0, of the {len(names)} arms in each "
                    f"of the rows", f"an array of shape {chance.shape}",
                    "Pass one column per arm, the control first.",
                )  # fmt: skip
            checked["propensity"] = chance
        if self.place is None:
            checked["place"] = np.arange(n_rows)
        if self.roles is None:
            checked["roles"] = Roles(
                treatment=self.treatment_name,
                arms=names,
                outcome=Outcome(name=self.outcome_name, kind=outcome_kind(y)),
                features=tuple(str(name) for name in X.columns),
            )
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.y)

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        return self.X.shape[1]

    @cached_property
    def arms(self) -> tuple[Any, ...]:
        """Labels of ``treatment``, control first, in the order of ``arm_names``."""
        return _ordered_labels(self.treatment, self.control)

    @cached_property
    def arm(self) -> NDArray[np.intp]:
        """Arm code of each row, (n,): 0 for the control, 1 to K for the arms."""
        return pd.Index(self.arms).get_indexer(self.treatment)

    @property
    def is_multi_arm(self) -> bool:
        """Whether there is more than one treatment arm."""
        return len(self.arm_names) > 2

    @property
    def treated(self) -> NDArray[np.bool_]:
        """Mask of the treated rows of a two-arm trial."""
        if self.is_multi_arm:
            raise ValueError(
                f"treated needs a trial of two arms, got the arms {listed(self.arms)}. "
                f"Choose one with select_arm, for example select_arm({self.arms[1]!r})."
            )
        return self.treatment == 1

    @cached_property
    def benefit(self) -> Floats:
        """Outcomes (n,) as benefits: 1 - y or -y if a lower outcome is better."""
        outcome = self.roles.outcome
        if not outcome.lower_is_better:
            return self.y
        return (1.0 if outcome.kind == Kind.BINARY else 0.0) - self.y

    def take(self, indices: ArrayLike) -> Trial:
        """Select rows by positions (repeats allowed) or by a boolean mask.

        >>> from auucmax.data.trial import Trial
        >>> trial = Trial([[1], [2], [3], [4]], [0, 0, 1, 1], [0, 1, 0, 1])
        >>> trial.take([2, 3]).y
        array([1., 1.])
        """
        rows = np.arange(self.n_rows)[np.asarray(indices)]
        kept = {name: own[rows] for name in PER_ROW if (own := getattr(self, name)) is not None}
        arms = np.unique(self.arm[rows])
        names = tuple(self.arm_names[k] for k in arms)
        if self.propensity is not None:
            kept["propensity"] = kept["propensity"][:, arms]
        if self.extra is not None:
            kept["extra"] = self.extra.iloc[rows]
        if self.lost is not None and len(arms) < len(self.arms):
            kept["lost"] = self.lost.of_arms(arms)
        roles = replace(self.roles, arms=names)
        return replace(self, X=self.X.iloc[rows], arm_names=names, roles=roles, **kept)

    def select_arm(self, label: Any) -> Trial:
        """The trial of one arm (by label or printed name) against the control."""
        for place, own in enumerate(zip(self.arms, self.arm_names, strict=True)):
            if place and label in own:
                return self.take(np.isin(self.arm, (0, place)))
        raise ValueError(
            f"select_arm needs one of the arms {listed(self.arms[1:])}, got {label!r}. "
            f"The control, {self.control!r}, is always kept."
        )

    def split(
        self,
        test_size: float = 0.3,
        by: str = "treatment",
        random_state: int | np.random.Generator | None = None,
    ) -> tuple[Trial, Trial]:
        """Split into random training and test sets, stratified by arm, groups kept whole.

        Parameters
        ----------
        test_size : float, default 0.3
            Share of the rows, between 0 and 1, that go to the test part.
        by : {"treatment", "treatment-outcome"}, default "treatment"
            What has equal shares in both parts. "treatment-outcome" also balances the outcome
            within each arm (see :class:`~auucmax.data.folds.TrialKFold`). That steadies
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
        # A group is represented by its first row; without groups every row is its own group.
        names = np.arange(self.n_rows) if self.groups is None else self.groups
        group = pd.factorize(names)[0]
        first = np.flatnonzero(~pd.Series(group).duplicated().to_numpy())
        strata = make_strata(self.treatment[first], self.y[first], by=by, least=2)
        position = places_in_strata(strata, np.random.default_rng(random_state))
        sizes = np.bincount(strata)
        # A row of each stratum in both parts, however small the share.
        n_test = np.clip(np.rint(test_size * sizes), 1, sizes - 1)
        test = (position < n_test[strata])[group]
        return self.take(~test), self.take(test)

    def summary(self) -> TrialSummary:
        """Summary statistics, as shown by ``print``.

        The effect of an arm is its mean outcome minus that of the control, with Welch's standard
        error and Student t interval. With weights, means are weighted and the squared standard
        error of a mean m is n/(n-1) * sum w^2 (y - m)^2 / (sum w)^2; with groups, n is their
        number, and w (y - m) is summed over each. If groups have rows of both arms, the sums of
        both arms are subtracted first: what their rows share cancels. Where only some rows were
        randomised, the arms and effects are those of the randomised rows.
        """
        used = np.ones(self.n_rows, dtype=bool) if self.randomised is None else self.randomised
        n_arms, n_rows = len(self.arms), np.bincount(self.arm[used], minlength=len(self.arms))
        weight = np.ones(self.n_rows) if self.sample_weight is None else self.sample_weight
        used = used & (weight > 0)  # a weight of zero is no observation
        y, arm, weight = self.y[used], self.arm[used], weight[used]
        unit = np.arange(len(y)) if self.groups is None else pd.factorize(self.groups[used])[0]
        # Differences to the first outcome of the arm: rounding must not look like a spread.
        first = np.full(n_arms, np.nan)
        first[arm[::-1]] = y[::-1]
        own = weight / np.bincount(arm, weight)[arm]
        mean = first + np.bincount(arm, own * (y - first[arm]), minlength=n_arms)
        shape = n_arms, int(unit.max(initial=-1)) + 1
        cell = np.ravel_multi_index((arm, unit), shape)
        has = np.bincount(cell, minlength=np.prod(shape)).reshape(shape) > 0
        totals = np.bincount(cell, own * (y - mean[arm]), minlength=has.size).reshape(shape)
        errors = np.array([_error(totals[k], has[k]) for k in range(n_arms)])
        share = n_rows / n_rows.sum()
        columns = (column.tolist() for column in (n_rows, share, mean, errors))
        arms = map(ArmSummary, self.arm_names, *columns)
        effects = []
        for k in range(1, n_arms):
            effect = mean[k] - mean[0]
            if (has[0] & has[k]).any():
                error = _error(totals[k] - totals[0], has[0] | has[k])
                freedom = (has[0] | has[k]).sum() - 1
            else:  # Welch and Satterthwaite
                squares = errors[[0, k]] ** 2
                error = np.sqrt(squares.sum())
                spread = np.sum(squares**2 / np.maximum(has[[0, k]].sum(axis=1) - 1, 1))
                freedom = error and error**4 / spread
            half = error and stdtrit(freedom, 0.975) * error  # NaN for an arm of one row
            p_value = 2 * stdtr(freedom, -abs(effect) / error) if error else effect == 0
            numbers = map(float, (effect, error, effect - half, effect + half, p_value))
            effects.append(EffectSummary(self.arm_names[k], *numbers))
        return TrialSummary(
            name=self.name,
            roles=self.roles,
            n_rows=self.n_rows,
            n_features=self.n_features,
            arms=tuple(arms),
            effects=tuple(effects),
        )


def _error(totals: Floats, there: Bools) -> float:
    """Standard error of a sum of ``totals`` over independent units."""
    n = int(there.sum())
    return float(np.sqrt(n / (n - 1) * np.sum(totals**2))) if n > 1 else np.nan


def _check_features(X: Any, n_rows: int) -> pd.DataFrame:
    if is_frame(X):
        X = frame_of(X)
    elif (array := np.asarray(X)).ndim == 2:
        X = pd.DataFrame(array, columns=[f"x{j}" for j in range(array.shape[1])])
    if not isinstance(X, pd.DataFrame) or len(X) != n_rows or X.shape[1] == 0:
        raise InputError(
            "X", f"a frame or a dense two-dimensional array with features of {n_rows} rows, as "
            f"many as y has", f"{type(X).__name__} of shape {np.shape(X)}",
            "Pass the features of the same rows.",
        )  # fmt: skip
    return X


def _check_arms(
    treatment: ArrayLike, n_rows: int, control: Any, names: tuple[str, ...] | None
) -> tuple[NDArray[Any], Any, tuple[str, ...]]:
    """Validate treatment and control, and name the arms, control first."""
    array = check_labels(treatment, "treatment", n_rows)
    present = pd.unique(array).tolist()
    if control == 0 and 0 not in present:
        control = control_among(present) or 0
    if control not in present or len(present) < 2:
        raise InputError(
            "control", "one of two or more labels in treatment",
            f"{control!r} and the labels {listed(present)}",
            f"Pass control=..., for example control={present[0]!r}. An effect needs both arms.",
        )  # fmt: skip
    labels = _ordered_labels(array, control)
    if len(labels) == 2:
        array = np.asarray(array != control).astype(np.int8)
        labels = ("control", "treated") if labels == (0, 1) else labels
        control = 0
    names = tuple(str(v) for v in (labels if names is None else names))
    if len(names) != len(labels):
        raise InputError(
            "arm_names", f"a name for each of the {len(labels)} arms, control first",
            listed(names), f"Their labels are {listed(labels)}.",
        )  # fmt: skip
    return array, control, names


def _ordered_labels(treatment: NDArray[Any], control: Any) -> tuple[Any, ...]:
    others = [label for label in pd.unique(treatment).tolist() if label != control]
    return (control, *sorted(others, key=lambda v: (isinstance(v, str), v)))
