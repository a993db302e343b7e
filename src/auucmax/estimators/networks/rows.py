"""What networks are trained on: scaled rows, a part kept for validation, batches of both arms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats
from auucmax.data.splits import deal, make_strata
from auucmax.estimators.networks.network import Scales

__all__ = ["NetworkRows", "split_rows"]


@dataclass(frozen=True)
class NetworkRows:
    """Scaled rows, the treated ones first; ``weight`` has mean 1."""

    x: NDArray[np.float32]
    y: NDArray[np.float32]
    weight: NDArray[np.float32]
    n_treated: int

    def batches(
        self, size: int | None, rng: np.random.Generator | None
    ) -> Iterator[tuple[NDArray[np.intp], int]]:
        """Positions of the rows of each batch, treated first, and how many are treated.

        Each arm is dealt to the batches in equal parts, so all have the same share of treated.
        """
        n = len(self.y)
        arms = np.arange(self.n_treated), np.arange(self.n_treated, n)
        if rng is not None:
            arms = rng.permutation(arms[0]), rng.permutation(arms[1])
        parts = (np.array_split(arm, self._n_batches(size)) for arm in arms)
        for treated, control in zip(*parts, strict=True):
            yield np.concatenate([treated, control]), len(treated)

    def fewest_of_an_arm(self, size: int | None) -> int:
        """Rows of the smaller arm in the batch that has fewest of them."""
        return min(self.n_treated, len(self.y) - self.n_treated) // self._n_batches(size)

    def _n_batches(self, size: int | None) -> int:
        return 1 if size is None else -(-len(self.y) // size)


def split_rows(
    X: NDArray[Any],
    y: Floats,
    treated: Bools,
    weight: Floats | None,
    scales: Scales,
    *,
    validation_share: float,
    balanced: bool,
    rng: np.random.Generator,
) -> tuple[NetworkRows, NetworkRows | None]:
    """Training rows, and validation rows drawn from each arm and level of the outcome.

    There are no validation rows if the share is 0, or if there are too few rows for both arms to
    be in both parts. ``balanced``: both arms have the same sum of weights.
    """

    def rows(mask: Bools) -> NetworkRows:
        index = np.concatenate([np.flatnonzero(mask & treated), np.flatnonzero(mask & ~treated)])
        n_treated = int(np.sum(mask & treated))
        own = np.ones(len(index)) if weight is None else weight[index]
        arms = (slice(n_treated), slice(n_treated, None)) if balanced else (slice(None),)
        scaled = np.empty(len(index))
        for arm in arms:
            scaled[arm] = own[arm] * (len(index) / len(arms) / own[arm].sum())
        target = (y[index] - scales.y_mean) / scales.y_scale
        return NetworkRows(
            scales.features(X, index),
            target.astype(np.float32),
            scaled.astype(np.float32),
            n_treated,
        )

    strata = make_strata(treated, y, by="treatment-outcome").codes
    taken = np.floor(validation_share * np.bincount(strata))
    held = deal(strata, rng) < taken[strata]
    if not ((held & treated).any() and (held & ~treated).any()):
        return rows(np.ones(len(y), dtype=bool)), None
    return rows(~held), rows(held)
