"""Validation of array arguments; inner functions trust what has passed it.

Each message says what was expected, what was received, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from auucmax._errors import InputError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
#: The setting with which scikit-learn passes the treatment on.
ROUTING = "sklearn.set_config(enable_metadata_routing=True)"
LARGEST = 1e100  #: largest absolute value in computations


class ScoredRows(NamedTuple):
    """Validated scores, outcomes and treatment of the same rows, with both arms present."""

    y: Floats
    score: Floats
    treated: Bools
    weight: Floats | None = None
    propensity: Floats | None = None

    def take(self, index: NDArray[np.intp]) -> ScoredRows:
        """Select rows; both arms must remain."""
        optional = (None if c is None else c[index] for c in (self.weight, self.propensity))
        rows = ScoredRows(self.y[index], self.score[index], self.treated[index], *optional)
        if len(index) == 0 or rows.treated.all() or not rows.treated.any():
            raise InputError(
                "the rows that remain", "of both arms",
                f"{int(rows.treated.sum())} treated of {len(index)}",
                "Check the mask that selects them.",
            )  # fmt: skip
        if rows.weight is not None:
            _check_some_weight(rows.weight, rows.treated)
        return rows


def check_column(
    values: ArrayLike, name: str, n_rows: int | None = None, *, than: str = "y"
) -> Floats:
    """Validate one finite number per row, as float64 (copied only if necessary)."""
    array = check_one_dimensional(values, name, n_rows, than=than)
    if array.dtype == object and (missing := np.asarray(pd.isna(array))).any():
        raise missing_values(name, int(missing.sum()))
    if array.dtype.kind in "cmM":
        raise InputError(name, "real numbers", str(array.dtype), "Convert the column first.")
    try:
        array = np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            name, "numbers", f"{array.dtype} values such as {str(array[0])!r}",
            "Convert the column to numbers first.",
        ) from error  # fmt: skip
    # One pass and no temporary: the sum is finite unless an entry is not, or it overflows.
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(array.sum())
    if suspicious and not (finite := np.isfinite(array)).all():
        if n_missing := int(np.isnan(array).sum()):
            raise missing_values(name, n_missing)
        raise InputError(
            name, "finite numbers", f"{int((~finite).sum())} infinite values",
            "Clip them or drop these rows.",
        )  # fmt: skip
    return array


def check_outcome(
    values: ArrayLike, name: str = "y", n_rows: int | None = None, *, than: str = "y"
) -> Floats:
    """Validate an outcome whose squares and differences fit into float64."""
    array = check_column(values, name, n_rows, than=than)
    low, high = float(array.min()), float(array.max())
    size = max(abs(low), abs(high))
    if size > 0 and not 1 / LARGEST <= size <= LARGEST:
        raise InputError(
            name, f"numbers between {1 / LARGEST:g} and {LARGEST:g} in size, so that squares are "
            f"finite", f"{size:g}", "Use another unit.",
        )  # fmt: skip
    is_coarse = high - low < 1000 * np.finfo(np.float64).eps * size
    if is_coarse and (high > low or size >= 2.0**53):
        raise InputError(
            name, "numbers that differ in their first 12 digits", f"{low!r} to {high!r}",
            "Floats round such differences away: subtract a constant first.",
        )  # fmt: skip
    return array


def check_treatment(
    treatment: ArrayLike, n_rows: int | None = None, *, control: Any = None
) -> Bools:
    """True for treated rows.

    ``treatment`` holds 0/1 or booleans, or two labels of which ``control`` names the untreated one,
    by default "control".
    """
    array = check_labels(treatment, "treatment", n_rows)
    if array.dtype.kind in "iu" and array.min() == 0 and array.max() == 1:
        levels = [0, 1]  # avoids the table of all values of the general case
    else:
        levels = sorted(pd.unique(array).tolist(), key=None if array.dtype.kind in "biuf" else str)
    if control is None:
        control = control_among(levels)
    if len(levels) > 2 or (control is None and not set(levels) <= {0, 1}):
        raise InputError(
            "treatment", "0/1 or boolean, or two labels of which control names one",
            listed(levels), f"Keep the rows of one arm and the control; pass control=..., for "
            f"example control={levels[0]!r}.",
        )  # fmt: skip
    if control is not None and control not in levels:
        raise InputError(
            "control", f"one of the labels in treatment, {listed(levels)}", repr(control),
            "Check the spelling.",
        )  # fmt: skip
    treated = np.asarray(array != (0 if control is None else control), dtype=bool)
    if treated.all() or not treated.any():
        raise InputError(
            "treatment", "of two levels, treated and control",
            f"{'treated' if treated.all() else 'control'} in all {len(treated)} rows",
            "An effect needs both arms.",
        )  # fmt: skip
    return treated


class RoutingDisabled(BaseException):
    """The treatment was not passed to ``score``: scikit-learn's metadata routing is off.

    Not an ``Exception``: ``cross_validate`` and ``GridSearchCV`` turn those of a scorer into nan.
    """


def check_treatment_given(treatment: ArrayLike | None, *, scoring: bool = False) -> ArrayLike:
    """Return the treatment, or raise an error that explains metadata routing.

    A TypeError, or ``RoutingDisabled`` where a score is computed (``scoring``).
    """
    if treatment is None:
        error = RoutingDisabled if scoring else TypeError
        raise error(
            f"treatment should be given, one label per row, got none. Pass treatment=...; to "
            f"cross_validate and cross_val_score params={{'treatment': ...}}, to GridSearchCV.fit "
            f"treatment=..., and add the line {ROUTING} before, without which scikit-learn does "
            f"not pass it on."
        )
    return treatment


def control_among(labels: Iterable[Any]) -> Any:
    """The only label that reads "control", ignoring case and outer blanks; else None.

    >>> control_among(["mail", "Control"]), control_among(["mail", "none"])
    ('Control', None)
    """
    found = [v for v in labels if isinstance(v, str) and v.strip().casefold() == "control"]
    return found[0] if len(found) == 1 else None


def check_rows(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    control: Any = None,
    sample_weight: ArrayLike | None = None,
    propensity: ArrayLike | None = None,
    score_name: str = "score",
) -> ScoredRows:
    """Validate outcome, score, treatment and optional weights and propensities of the same rows."""
    y = check_outcome(y)
    n_rows = len(y)
    array = np.asarray(score)
    # Integers that float64 would merge are replaced by their ranks: only the order matters.
    wide = array.dtype.kind in "iu" and array.itemsize == 8 and array.size > 0
    if wide and max(-int(array.min()), int(array.max())) > 2**53:
        score = np.unique(array, return_inverse=True)[1].reshape(array.shape)
    score = check_column(score, score_name, n_rows)
    treated = check_treatment(treatment, n_rows, control=control)
    weight = None if sample_weight is None else check_weight(sample_weight, treated)
    chance = None if propensity is None else check_chance(propensity, n_rows)
    return ScoredRows(y, score, treated, weight, chance)


def check_chance(propensity: ArrayLike, n_rows: int) -> Floats:
    """Validate propensities, strictly between 0 and 1, as an array (n,)."""
    values = np.full(n_rows, propensity) if np.ndim(propensity) == 0 else propensity
    chance = check_column(values, "propensity", n_rows)
    if chance.min() <= 0 or chance.max() >= 1:
        raise InputError(
            "propensity", "strictly between 0 and 1 (the probability of treatment)",
            f"values from {chance.min():g} to {chance.max():g}",
            "Drop the rows that could not have been in both arms.",
        )  # fmt: skip
    return chance


def check_labels(
    values: ArrayLike, name: str, n_rows: int | None = None, *, than: str = "y"
) -> NDArray[Any]:
    """Validate one label per row, of any type, none missing."""
    array = check_one_dimensional(values, name, n_rows, than=than)
    if n_missing := int(np.asarray(pd.isna(array)).sum()):
        raise missing_values(name, n_missing)
    return array


def check_whole(value: object, name: str, least: int, most: int | None = None) -> int:
    """Validate a whole number from ``least`` to ``most``.

    >>> check_whole(1e4, "n_rows", 2)
    10000
    """
    if isinstance(value, Real) and not isinstance(value, bool) and float(value).is_integer():
        number = int(float(value))
        if number >= least and (most is None or number <= most):
            return number
    allowed = f"of at least {least}" if most is None else f"from {least} to {most}"
    raise InputError(
        name, f"a whole number {allowed}", repr(value), "Pass an integer in that range."
    )


def check_groups(groups: ArrayLike, n_rows: int) -> NDArray[np.intp]:
    """Encode group labels as 0, 1, ...; at least two groups are needed."""
    codes, labels = pd.factorize(check_labels(groups, "groups", n_rows))
    if len(labels) < 2:
        raise InputError(
            "groups", "labels of at least two clusters", f"one for all {n_rows} rows",
            "Leave groups out if rows are independent.",
        )  # fmt: skip
    return codes.astype(np.intp, copy=False)


def check_mask(mask: ArrayLike, name: str, n_rows: int) -> Bools:
    """Validate a boolean or 0/1 mask, one value per row."""
    array = check_one_dimensional(mask, name, n_rows)
    if array.dtype != bool and not np.isin(array, (0, 1)).all():
        raise InputError(
            name, "boolean or 0/1", f"{array.dtype} values", "Convert the column first."
        )
    return array.astype(bool)


def check_shares(share: float | ArrayLike) -> Floats:
    """Validate shares of people between 0 and 1, as an array."""
    try:
        shares = np.atleast_1d(np.asarray(share, dtype=np.float64))
    except (TypeError, ValueError):
        shares = np.array([])
    # np.arange(0, 1.01, 0.05) passes 1 a bit.
    is_share = (shares >= -1e-9) & (shares <= 1 + 1e-9)
    if shares.ndim != 1 or len(shares) == 0 or not is_share.all():
        raise InputError(
            "share", "a number or a list of numbers between 0 and 1", f"{share!r:.80}",
            "0.3 means the top 30 percent.",
        )  # fmt: skip
    return np.clip(shares, 0, 1)


def check_choice(value: object, name: str, choices: Iterable[str]) -> None:
    """Raise an InputError unless ``value`` is one of ``choices``."""
    choices = list(choices)
    if value not in choices:
        known = listed(choices, len(choices))
        raise InputError(name, f"one of {known}", repr(value), "Check the spelling.")


def check_level(level: float, name: str = "level") -> None:
    """Validate a probability strictly between 0 and 1."""
    if not isinstance(level, Real) or not 0 < level < 1:
        raise InputError(
            name, "a number strictly between 0 and 1", repr(level), "0.3 means 30 percent."
        )


def check_positive(value: Any, name: str, advice: str, *, or_zero: bool = False) -> float:
    """Validate a finite number that is positive (or at least 0), as a float."""
    number = -1.0 if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    if not 0 <= number < np.inf or (number == 0 and not or_zero):
        expected = "a number of at least 0" if or_zero else "a positive number"
        raise InputError(name, expected, repr(value), advice)
    return number


def check_range(value: Any, name: str) -> tuple[float, float]:
    """Validate a range: two finite numbers, the first below the second."""
    try:
        low, high = (float(v) for v in value)
    except (TypeError, ValueError):
        low, high = 1.0, 0.0
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise InputError(
            name, "two finite numbers, the lowest and, above it, the highest", repr(value),
            "0/1 outcomes need no range.",
        )  # fmt: skip
    return low, high


def check_one_dimensional(
    values: ArrayLike, name: str, n_rows: int | None = None, *, than: str = "y"
) -> NDArray[Any]:
    """Validate a one-dimensional array of the same length as ``than``."""
    if np.ma.isMaskedArray(values) and np.ma.count_masked(values):
        raise missing_values(name, int(np.ma.count_masked(values)))
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InputError(
            name, "one-dimensional, one value per row", f"an array of shape {array.shape}",
            "Pass a single column.",
        )  # fmt: skip
    if len(array) == 0:
        raise InputError(name, "a column with at least one row", "none", "Check the data source.")
    if n_rows is not None and len(array) != n_rows:
        raise InputError(
            name, f"of as many rows as {than}, {n_rows}", str(len(array)),
            "Pass columns of the same rows.",
        )  # fmt: skip
    return array


def check_weight(sample_weight: ArrayLike, treated: Bools) -> Floats:
    """Validate row weights: non-negative, with some positive ones in each arm."""
    weight = check_column(sample_weight, "sample_weight", len(treated))
    if weight.min() < 0:
        raise InputError(
            "sample_weight", "0 or positive", f"a smallest weight of {weight.min():g}",
            "Drop these rows.",
        )  # fmt: skip
    _check_some_weight(weight, treated)
    # Only ratios of weights matter; in these units neither products nor sums can overflow.
    largest = float(weight.max())
    return weight if 1e-100 < largest < 1e100 else weight / largest


def _check_some_weight(weight: Floats, treated: Bools) -> None:
    for arm, name in ((treated, "treated"), (~treated, "control")):
        if not weight[arm].any():
            raise InputError(
                "sample_weight", "positive for some rows of each arm",
                f"only zeros for the {name} rows", "Drop the weights, or these rows.",
            )  # fmt: skip


def missing_values(name: str, count: int) -> InputError:
    """The error for a column with missing values."""
    return InputError(
        name, "without missing values", str(count),
        "Drop these rows, or find out why they are missing: it may differ between the arms.",
    )  # fmt: skip


def listed(values: Iterable[Any], most: int = 6) -> str:
    """List values for a message, shortened after the first few."""
    values = [repr(v.item() if isinstance(v, np.generic) else v) for v in values]
    more = f", ... ({len(values)} in all)" if len(values) > most else ""
    return ", ".join(values[:most]) + more


def unknown_columns(
    table: str,
    unknown: Sequence[str],
    names: Sequence[str],
    taken: Iterable[str] = (),
    question: str = "Did you mean {}?",
) -> InputError:
    """The error for unknown columns, with suggestions of similar names.

    ``taken``: names with another role, such as the treatment. ``question``: about similar names.

    >>> print(unknown_columns("rows.csv", ["agee"], ["age", "town"]))
    rows.csv should be a table with the column 'agee', got 'age', 'town'. Did you mean 'age'?
    """
    free = {n.strip().lower(): n for n in names if n not in set(taken)}  # ignoring case
    near = {
        free[found]: None
        for name in unknown
        for found in get_close_matches(name.strip().lower(), free, 2, 0.6)
    }
    advice = "Check the names of the columns."
    if near:
        advice = question.format(" or ".join(map(repr, near)))
    plural = "s" if len(unknown) > 1 else ""
    expected = f"a table with the column{plural} {listed(unknown)}"
    return InputError(table, expected, listed(names), advice)
