"""The rows of one arm and the control of a trial."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._errors import InputError
from auucmax._validation import LARGEST, Bools, Floats
from auucmax.data.balance import compare_counts, even_rows
from auucmax.data.hashing import Hashes, numbers_for, row_hashes
from auucmax.data.randomisation import (
    STOP,
    RandomisationReport,
    check_randomisation,
    within_clusters,
)
from auucmax.data.read_trial import names_rows
from auucmax.data.trial import Trial

_TOGETHER = 0.8  # of the variation of independent rows, below which rows were treated together


def row_keys(trial: Trial, key: str = "0" * 16) -> Hashes:
    """Keyed hashes (n,) of each row's group, id or position."""
    names = trial.id if trial.groups is None else trial.groups
    if names is None:
        names = trial.place.astype(str).astype(object)
    return np.asarray(pd.util.hash_array(np.asarray(names, dtype=object), hash_key=key))


@dataclass(frozen=True, eq=False)
class Pair:
    """The rows of one arm and the control; ``index`` are their positions in the trial.

    ``arm`` is the code of the arm, ``keys`` the keyed hashes of the rows, which number folds and
    groups.
    """

    trial: Trial
    arm: int
    index: NDArray[np.intp]
    keys: Hashes

    @classmethod
    def each(cls, trial: Trial, keys: Hashes) -> Iterator[Pair]:
        """One pair for each arm."""
        for arm in range(1, len(trial.roles.arms)):
            index = np.flatnonzero((trial.arm == 0) | (trial.arm == arm))
            yield cls(trial, arm, index, keys[index])

    def take(self, some: Bools | NDArray[np.intp]) -> Pair:
        """Some of the rows."""
        return replace(self, index=self.index[some], keys=self.keys[some])

    @property
    def name(self) -> str:
        """The label of the arm."""
        return self.trial.roles.arms[self.arm]

    @cached_property
    def y(self) -> Floats:
        """Outcomes (m,) as benefits: more is better."""
        return self.trial.benefit[self.index]

    @cached_property
    def treated(self) -> Bools:
        """Whether each row received the arm, (m,)."""
        return self.trial.arm[self.index] > 0

    @property
    def X(self) -> pd.DataFrame:
        """Features of the rows."""
        whole = len(self.index) == self.trial.n_rows
        return self.trial.X if whole else self.trial.X.iloc[self.index]

    @cached_property
    def groups(self) -> NDArray[np.intp] | None:
        """Group codes (m,), if there are groups."""
        if self.trial.groups is None:
            return None
        return np.unique(self.keys, return_inverse=True)[1]

    @property
    def has_mixed_groups(self) -> bool:
        """Whether any group has rows in both arms."""
        if self.groups is None:
            return False
        shares = np.bincount(self.groups, self.treated) / np.bincount(self.groups)
        return not np.isin(shares, (0, 1)).all()

    @cached_property
    def propensity(self) -> Floats | None:
        """Probability of the arm given arm or control, (m,), if it differs between rows."""
        if self.trial.propensity is None:
            return None
        control, own = self.trial.propensity[self.index][:, [0, self.arm]].T
        return np.asarray(own / (own + control))

    @cached_property
    def people(self) -> Floats | None:
        """Number of people that each row represents, (m,), with several arms."""
        if self.trial.propensity is None:
            return None
        both = self.trial.propensity[self.index][:, [0, self.arm]].sum(axis=1)
        return None if np.abs(both - 1).max(initial=0.0) < 1e-9 else 1 / both

    @property
    def design(self) -> dict[str, Any]:
        """The design (groups and propensities), as arguments of metrics and calibration."""
        return {
            "treatment": self.treated, "groups": self.groups, "propensity": self.propensity,
            "sample_weight": self.people,
        }  # fmt: skip

    @property
    def weight(self) -> Floats | None:
        """Inverse-propensity weights (m,) with mean about 1."""
        if self.propensity is None:
            return None
        return chance_weights(self.treated, self.propensity, self.people)

    def check(self, expected_share: float | None = None) -> RandomisationReport:
        """Run :func:`check_randomisation` on all columns known before treatment."""
        whole = len(self.index) == self.trial.n_rows
        rows = self.trial if whole else self.trial.take(self.index)
        rows = replace(rows, y=self.y, randomised=None, name="the table")
        return check_randomisation(rows, expected_share=expected_share)

    def check_copies(self, *, all_columns: bool = False) -> None:
        """Raise an InputError if duplicate rows share their treatment.

        People who happen to have equal features are in both arms. Copies of a row share their arm,
        and would be among training and test rows. ``all_columns``: rows are compared by all columns
        but identifiers.
        """
        some = np.ones(len(self.y), dtype=bool)
        if self.groups is not None:  # rows of one group may be equal
            some = ~pd.Series(self.groups).duplicated().to_numpy()
        if self.propensity is not None:  # rows of one stratum have the same features by design
            if compare_counts(self.treated, self.propensity).p_value < STOP:
                return  # the check reports wrong propensities
            some &= even_rows(self.treated, self.propensity, np.random.default_rng(0))
        features = self.X[some]
        if all_columns and self.trial.extra is not None:
            extra = self.trial.extra.iloc[self.index][some]
            names = [n for n in self.trial.roles.ignored if n in extra and not names_rows(extra[n])]
            features = pd.concat([features, extra[names]], axis=1)
        kind = row_hashes(numbers_for(features))  # equal for rows with the same features
        found, expected = within_clusters(kind, self.treated[some])
        if found >= _TOGETHER * expected or expected - found <= 5 * np.sqrt(expected):
            return
        n = int(pd.Series(kind).duplicated(keep=False).sum())
        raise InputError(
            "the table", "rows of different people, each treated by chance",
            f"{n:,} rows with all features of another row and, more often than chance explains, "
            f"its treatment",
            "Remove copies of rows. If rows belong together (one person, one household), name the "
            "column of groups; if propensities differed by design, name their column.",
        )  # fmt: skip

    def check_sizes(self) -> None:
        """Raise an InputError for a feature whose squares overflow float64."""
        floats = self.X.select_dtypes(np.floating)
        sizes = np.maximum(floats.max(), -floats.min()).astype(np.float64)
        if (sizes > LARGEST).any():
            raise InputError(
                f"column {sizes.idxmax()!r}", f"numbers of at most {LARGEST:g} in size",
                f"{sizes.max():g}", "Clip them, use another unit, or ignore the column.",
            )  # fmt: skip


def own_chance(treated: Bools, chance: Floats) -> Floats:
    """Probability of the arm that each row received, (n,)."""
    return np.where(treated, chance, 1 - chance)


def chance_weights(treated: Bools, chance: Floats, people: Floats | None = None) -> Floats:
    """Inverse-propensity weights, (n,): share of the arm / own propensity.

    The expected weight of a person is 1 whatever the chance, so that sums of weights are numbers of
    people; the same chance for all gives the same weight to all rows of an arm. ``people``: how
    many people a row stands for, where not everybody was as likely to be among the rows.

    >>> treated, chance = np.array([True, True, False, False]), np.array([0.5, 0.25, 0.5, 0.25])
    >>> chance_weights(treated, chance)
    array([1.        , 2.        , 1.        , 0.66666667])
    """
    share = float(treated.mean())
    weight = np.where(treated, share, 1 - share) / own_chance(treated, chance)
    return weight if people is None else weight * people / float(people.mean())
