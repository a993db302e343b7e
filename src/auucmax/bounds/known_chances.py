"""Blocks of rows whose chances of treatment are known and differ: by the design of the trial.

Rows are independent, row i was treated with its known chance e_i, by a draw of its own. With

    h_i = (y_i - m_i) (1/e_i if treated, else -1/(1 - e_i)),   m_i = (1 - e_i) mu_T + e_i mu_C,

mu fixed beforehand, the mean of h_i given the features is the effect on the person (Horvitz and
Thompson 1952; m_i takes noise away and no bias in). A block is any M rows, dealt without looking at
anything, and

    w = 1/M sum over its rows of h_i v_i,

v_i as in ``blocks.py``, is unbiased for AUUC, or for the gain. As |h| <= B, w is at least
-B/M sum over k < M of |k / (M - 1) - c|. So bets of one size hold (``fixed_bets.py``); the proof is
in docs/guarantees.md. To the dealing, all rows are one arm whose outcome is h.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from auucmax._validation import Bools, Floats
from auucmax.bounds.blocks import BlockDesign, DealtUnits
from auucmax.bounds.fixed_bets import LARGEST_LOSS, Stake

_PRIOR_ROWS, _PRIOR_VARIANCE = 3, 0.1
_NEARER = 0.8  # chances may be so much nearer to 0 and 1 than those of the pilot


class ChancesBeyond(ValueError):
    """Rows to bet on have chances that those which size bets did not let expect."""


class ChancePilot(NamedTuple):
    """What is known before the first bet: guesses from rows that are not bet on, and the design.

    ``mu_treated`` and ``mu_control`` are in [0, 1], as outcomes are; ``square`` is the mean of h^2,
    ``largest`` is B, of rows whose chances lie in [``least``, 1 - ``least``]. It must not depend on
    the rows that are bet on, so their own chances do not tell it.
    """

    mu_treated: float
    mu_control: float
    square: float
    largest: float
    shift: float = 0.0  # nothing more is taken off h
    least: float = 0.0

    @classmethod
    def of(cls, y: Floats, treated: Bools, chance: Floats) -> ChancePilot:
        """From rows that are not bet on."""
        weight = 1 / np.where(treated, chance, 1 - chance)
        # A prior of one row of each outcome keeps the guesses sane if there are hardly any.
        mu_treated, mu_control = (
            float((weight[arm] @ y[arm] + 0.5) / (weight[arm].sum() + 1))
            for arm in (treated, ~treated)
        )
        farthest = max(mu_treated, mu_control, 1 - mu_treated, 1 - mu_control)
        rarest = float(np.minimum(chance, 1 - chance).min(initial=0.5))
        least = _NEARER * rarest
        pilot = cls(mu_treated, mu_control, 0.0, farthest / least, least=least)
        h = pilot.effects(y, treated, chance)
        prior = _PRIOR_ROWS * _PRIOR_VARIANCE / rarest
        return pilot._replace(square=(float(h @ h) + prior) / (len(h) + _PRIOR_ROWS))

    def effects(self, y: Floats, treated: Bools, chance: Floats) -> Floats:
        """h (n,): unbiased for the effect on each person."""
        far = np.minimum(chance, 1 - chance) < self.least
        if far.any():
            raise ChancesBeyond(
                f"chances of treatment should lie between {self.least:.3g} and "
                f"{1 - self.least:.3g}, as those of the rows that size bets let expect, to be "
                f"certified; got {chance[far][0]:.3g} and others beyond in {int(far.sum()):,} of "
                f"{len(far):,} rows. Leave such people out: the certificate is then of the others."
            )
        m = (1 - chance) * self.mu_treated + chance * self.mu_control
        return (y - m) / np.where(treated, chance, chance - 1)

    def stake(self, designs: Sequence[BlockDesign], centre: float, level: float) -> Stake:
        """The bet that would be best if ranks knew nothing of outcomes."""
        sizes = np.concatenate([np.diff(design.ends[0], prepend=0) for design in designs])
        spread = 1 / 12 + (0.5 - centre) ** 2  # mean square of a uniform rank around the centre
        variance = spread * self.square * float((1 / sizes).mean())
        floor = self.largest * max(rank_distance(int(size), centre) for size in np.unique(sizes))
        # What a random order has; not so low that a bet on it would be without bounds.
        theta = max((1 - 2 * centre) * (self.mu_treated - self.mu_control) / 2, -0.25)
        best = float(np.sqrt(2 * np.log(1 / level) / (len(sizes) * variance)))
        return Stake(theta, min(best, LARGEST_LOSS / (floor + theta)), floor)


def rank_distance(size: int, centre: float) -> float:
    """The mean of |k / (size - 1) - centre| over k = 0, ..., size - 1.

    >>> rank_distance(3, 0.5)
    0.3333333333333333
    """
    return float(np.abs(np.arange(size) / (size - 1) - centre).mean())


def as_one_arm(units: DealtUnits) -> DealtUnits:
    """The units, whatever their arm, in the order of their rows: nothing is dealt by treatment."""
    return units._replace(
        treated=np.sort(np.concatenate([units.treated, units.control])), control=units.control[:0]
    )


def randomised(units: str, chance: Floats | None) -> str:
    """What a certificate says of the randomisation of its rows, or clusters.

    >>> randomised("rows", None)
    'rows are independent, and treatment was randomised with the same chance for all'
    >>> randomised("rows", np.array([0.1, 0.9]))[:60]
    'rows are independent, each was treated by a draw of its own '
    """
    if chance is None or not len(chance):
        return f"{units} are independent, and treatment was randomised with the same chance for all"
    low, high = np.min(chance), np.max(chance)
    return (
        f"{units} are independent, each was treated by a draw of its own with its known chance, "
        f"{low:.3g} to {high:.3g} by design (statistics after Horvitz and Thompson)"
    )
