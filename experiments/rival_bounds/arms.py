"""The two arms of a trial with a 0/1 outcome, as the bounds see them.

Arm g has m+ rows with y = 1 and m- with y = 0, n = m+ + m-; p = m+ / n and lam = p (1 - p). Its
m+ m- pairs of a positive and a negative row are what a score ranks: A is the share of pairs whose
positive row comes first (ties 1/2), the arm's AUC. Ranking each arm on its own,

    AUUC = (lam_T A_T + p_T^2 / 2) - (lam_C A_C + p_C^2 / 2) = gamma - lam_T R_T - lam_C R_C,

R_T = 1 - A_T, R_C = A_C (the control labels are flipped), gamma = p_T - p_T^2/2 - p_C^2/2
(Proposition 1 of arXiv 2012.09897).

**Conditional AUUC.** Given all treatments and outcomes, the x of a class are independent draws of
one distribution. Put the *population's* ranking risks in place of R_T and R_C and keep the observed
p: this is the target of most bounds here. It differs from the population's AUUC only in that the
outcome rates are those of the rows.

**How much one row matters.** A new x in a class of m rows moves the arm's A by at most 1 / m, so
the AUUC by c = lam / m; the squares of these numbers, summed over all rows of both arms, come to

    V = sum over arms of lam^2 (1 / m+ + 1 / m-) = lam_T / n_T + lam_C / n_C.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from auucmax._validation import ScoredRows, check_rows


@dataclass(frozen=True)
class Arm:
    """Class counts of one arm, and what follows from them.

    >>> arm = Arm(positive=1, negative=3)
    >>> arm.size, arm.rate, arm.weight, arm.rarer
    (4, 0.25, 0.1875, 1)
    """

    positive: float
    negative: float

    def __post_init__(self) -> None:
        if not self.rarer > 0:
            raise ValueError(
                f"each arm should have both outcomes, got {self.positive:g} positive and "
                f"{self.negative:g} negative rows in one. The bound needs pairs to rank: use more "
                f"rows."
            )

    @property
    def size(self) -> float:
        return self.positive + self.negative

    @property
    def rate(self) -> float:
        return self.positive / self.size

    @property
    def weight(self) -> float:
        """lam = p (1 - p)."""
        return self.rate * (1 - self.rate)

    @property
    def rarer(self) -> float:
        """Rows of the rarer class: so many pairs can be formed that share no row."""
        return min(self.positive, self.negative)

    @property
    def inverse_sizes(self) -> float:
        """1 / m+ + 1 / m-."""
        return 1 / self.positive + 1 / self.negative


class ClassRows(NamedTuple):
    """Numbers of an arm's rows, by outcome."""

    positive: NDArray[np.intp]
    negative: NDArray[np.intp]


def binary_rows(
    y: ArrayLike, score: ArrayLike, *, treatment: ArrayLike
) -> tuple[ScoredRows, tuple[Arm, Arm]]:
    """Checked rows with a 0/1 outcome, both outcomes in both arms; and the arms."""
    rows = check_rows(y, score, treatment=treatment)
    if not np.array_equal(rows.y, rows.y.astype(bool)):
        raise ValueError(
            "y should be 0 or 1 for a bound on ranking risks, got other values. Use a binary "
            "outcome, or an interval for any outcome: auuc_inference."
        )
    counts = [
        int(np.count_nonzero(arm & (rows.y == value)))
        for arm in (rows.treated, ~rows.treated)
        for value in (1, 0)
    ]
    return rows, (Arm(*counts[:2]), Arm(*counts[2:]))


def class_rows(rows: ScoredRows) -> tuple[ClassRows, ClassRows]:
    """Row numbers of the treated and of the control arm, by outcome."""
    positive = rows.y == 1
    treated, control = (
        ClassRows(np.flatnonzero(arm & positive), np.flatnonzero(arm & ~positive))
        for arm in (rows.treated, ~rows.treated)
    )
    return treated, control


def auuc_of_risks(arms: tuple[Arm, Arm], treated_risk: float, control_risk: float) -> float:
    """gamma - lam_T R_T - lam_C R_C.

    >>> auuc_of_risks((Arm(1, 1), Arm(1, 1)), 0.0, 0.5)
    0.125
    """
    treated, control = arms
    gamma = treated.rate - treated.rate**2 / 2 - control.rate**2 / 2
    return gamma - treated.weight * treated_risk - control.weight * control_risk
