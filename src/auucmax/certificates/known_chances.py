"""Blocks of rows whose chances of treatment are known and differ: by the design of the trial.

Rows are independent, row i was treated with its known propensity e_i, by an independent draw. With

    h_i = (y_i - m_i) (1/e_i if treated, else -1/(1 - e_i)),   m_i = (1 - e_i) mu_T + e_i mu_C,

mu fixed beforehand, the mean of h_i given the features is the effect on the person (Horvitz and
Thompson 1952; m_i takes noise away and no bias in). A block is any M rows, drawn without looking at
anything, and

    w = 1/M sum over its rows of h_i v_i,

v_i as in ``blocks.py``, is unbiased for AUUC, or for the gain. As |h| <= B, w is at least
-B/M sum over k < M of |k / (M - 1) - c|. So bets of one size hold (``fixed_bets.py``); the proof is
in docs/guarantees.md. To the dealing, all rows are one arm whose outcome is h. Policies of several
arms have an h for each arm (:class:`PolicyPilot`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats
from auucmax.certificates.blocks import BlockDesign, DealtUnits
from auucmax.certificates.fixed_bets import LARGEST_LOSS, Stake

_PRIOR_ROWS, _PRIOR_VARIANCE = 3, 0.1
_NEARER = 0.8  # chances may be so much nearer to 0 and 1 than those of the pilot


class ChancesBeyond(ValueError):
    """Propensities outside the range seen in the pilot rows."""


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
                f"{1 - self.least:.3g}, the range seen in the pilot rows, to be "
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


class PolicyPilot(NamedTuple):
    """The same of several arms: guesses from rows that are not bet on, and the design.

    With ``mean`` (K + 1,) guessed mean outcomes of the control and of each arm, in [0, 1], and p_a
    the chances of a row,

        h_a = mean_a - mean_0 + 1{got a} (y - mean_a) / p_a - 1{got control} (y - mean_0) / p_0

    has the effect of arm a on the person as its mean given the features. ``least`` (K + 1,): the
    chances are at least so large. ``square`` (K,): the mean of h_a^2.
    """

    mean: Floats
    least: Floats
    square: Floats

    @classmethod
    def of(cls, y: Floats, got: NDArray[np.intp], chance: Floats) -> PolicyPilot:
        """From rows that are not bet on; ``chance`` (n, K + 1)."""
        n_arms = chance.shape[1] - 1
        weight = 1 / chance[np.arange(len(y)), got]
        total, n = (np.bincount(got, own, minlength=n_arms + 1) for own in (weight * y, weight))
        # Priors of a row of each outcome, and of some rows, keep guesses sane if there are few.
        mean, least = (total + 0.5) / (n + 1), _NEARER * chance.min(axis=0, initial=0.5)
        pilot = cls(mean, least, np.zeros(n_arms))
        h = pilot.effects(y, got, chance)[:, 1:]
        prior = _PRIOR_ROWS * _PRIOR_VARIANCE * (1 / least[1:] + 1 / least[0])
        return pilot._replace(square=((h**2).sum(axis=0) + prior) / (len(y) + _PRIOR_ROWS))

    def effects(self, y: Floats, got: NDArray[np.intp], chance: Floats) -> Floats:
        """h (n, K + 1): unbiased for the effect of each arm on each person, 0 for the control."""
        far = np.any(chance < self.least * (1 - 1e-9), axis=1)
        if far.any():
            named = ", ".join(f"{least:.3g}" for least in self.least)
            raise ChancesBeyond(
                f"chances of the control and of each arm should be at least {named}, the range "
                f"seen in the pilot rows, to be certified; got smaller ones in "
                f"{int(far.sum()):,} of {len(y):,} rows. Leave such people out: the certificate "
                f"is then of the others."
            )
        h = np.tile(self.mean - self.mean[0], (len(y), 1))
        rows, treated = np.arange(len(y)), got > 0
        away = (y - self.mean[got]) / chance[rows, got]
        h[treated, got[treated]] += away[treated]
        h[~treated] -= away[~treated, None]
        h[:, 0] = 0.0
        return h

    @property
    def floors(self) -> tuple[float, float]:
        """How far below 0 the h of any row and arm may be, and above."""
        rise, (mean_0, *mean) = self.mean[1:] - self.mean[0], self.mean.tolist()
        least_0, least = float(self.least[0]), self.least[1:]
        below = np.maximum(np.array(mean) / least, (1 - mean_0) / least_0) - rise
        above = np.maximum((1 - np.array(mean)) / least, mean_0 / least_0) + rise
        return max(float(below.max()), 0.0), max(float(above.max()), 0.0)


def most_people(people: Floats) -> float:
    """The most people that a row may stand for, from rows that are not bet on."""
    return float(people.max(initial=1.0)) / _NEARER


def evenly_drawn(people: Floats, most: float, draw: Floats) -> Bools:
    """(n,) rows of two of several arms, drawn such that everybody is as likely to be among them.

    ``people`` (n,): one over the chance to be in one of the two. A row is kept with probability
    people / ``most``, ``most`` fixed beforehand: who is in the two arms and kept is then a draw
    with probability 1 / most for everybody, and among these the chance of treatment stays. ``draw``
    (n,): uniform in [0, 1), the same for rows of a group.
    """
    if (far := people > most).any():
        raise ChancesBeyond(
            f"chances of being in one of the two arms should be at least {1 / most:.3g}, the range "
            f"seen in the pilot rows, to be certified; got "
            f"{1 / people[far].max():.3g} and others beyond in {int(far.sum()):,} of "
            f"{len(far):,} rows. Leave such people out: the certificate is then of the others."
        )
    return np.asarray(draw * most < people)


def rank_distance(size: int, centre: float) -> float:
    """The mean of |k / (size - 1) - centre| over k = 0, ..., size - 1.

    >>> rank_distance(3, 0.5)
    0.3333333333333333
    """
    return float(np.abs(np.arange(size) / (size - 1) - centre).mean())


def as_one_arm(units: DealtUnits) -> DealtUnits:
    """The units, whatever their arm, in the order of their rows."""
    return units._replace(
        treated=np.sort(np.concatenate([units.treated, units.control])), control=units.control[:0]
    )


def randomised(units: str, chance: Floats | None) -> str:
    """What a certificate says of the randomisation of its rows, or clusters.

    >>> randomised("rows", None)
    'rows are independent, and treatment was randomised with the same chance for all'
    >>> randomised("rows", np.array([0.1, 0.9]))[:62]
    'rows are independent, each was treated by an independent draw '
    """
    if chance is None or not len(chance):
        return f"{units} are independent, and treatment was randomised with the same chance for all"
    low, high = np.min(chance), np.max(chance)
    return (
        f"{units} are independent, each was treated by an independent draw with its known chance, "
        f"{low:.3g} to {high:.3g} by design (statistics after Horvitz and Thompson)"
    )
