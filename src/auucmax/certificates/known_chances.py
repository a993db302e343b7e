"""Blocks of rows with known, unequal propensities.

Rows are independent; a row got its arm by an independent draw, with known propensities p_0 of the
control and p_a of arm a. With mean_a, guesses of the mean outcomes that were fixed beforehand,

    h_a = mean_a - mean_0 + 1{got a} (y - mean_a) / p_a - 1{got control} (y - mean_0) / p_0

has the effect of arm a on the person as its mean given the features (Horvitz and Thompson 1952; the
guesses take noise away and no bias in). A block is any M rows, drawn without looking at anything,
and for one arm

    w = 1/M sum over its rows of h_i v_i,

v_i as in ``blocks.py``, is unbiased for AUUC, or for the gain. As |h| <= B, w is at least
-B/M sum over k < M of |k / (M - 1) - c|. So bets of one size hold (``fixed_bets.py``); the proof is
in docs/guarantees.md. To the dealing, all rows are one arm whose outcome is h.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from auucmax._errors import InputError
from auucmax._validation import Bools, Floats

NEARER = 0.8  #: propensities may be so much nearer to 0 and 1 than those of the pilot


class ChancesBeyond(InputError):
    """Propensities outside the range seen in the pilot rows."""


class ArmMeans(NamedTuple):
    """Prior guesses of mean outcomes by arm, in [0, 1], from rows that are not bet on; (K + 1,).

    ``least`` (K + 1,): the smallest propensities that are certified. They must not depend on the
    rows that are bet on, because they decide the size of the bets.
    """

    mean: Floats
    least: Floats

    @classmethod
    def of(cls, y: Floats, got: NDArray[Any], chance: Floats) -> ArmMeans:
        """Estimate from pilot rows with propensities ``chance``, (n, K + 1) or of one arm (n,)."""
        got, chance = got.astype(np.intp), _by_arm(chance)
        weight = 1 / chance[np.arange(len(y)), got]
        total, n = (
            np.bincount(got, own, minlength=chance.shape[1]) for own in (weight * y, weight)
        )
        # A prior of one row of each outcome keeps the guesses sane if there are hardly any.
        return cls((total + 0.5) / (n + 1), NEARER * chance.min(axis=0, initial=0.5))

    def effects(self, y: Floats, got: NDArray[Any], chance: Floats) -> Floats:
        """Unbiased effect of each arm on each person, (n, K + 1); 0 for the control."""
        got, chance = got.astype(np.intp), _by_arm(chance)
        least = ", ".join(f"{least:.3g}" for least in self.least)
        check_beyond(np.any(chance < self.least * (1 - 1e-9), axis=1), least)
        h = np.tile(self.mean - self.mean[0], (len(y), 1))
        rows, treated = np.arange(len(y)), got > 0
        away = (y - self.mean[got]) / chance[rows, got]
        h[treated, got[treated]] += away[treated]
        h[~treated] -= away[~treated, None]
        h[:, 0] = 0.0
        return h


def _by_arm(chance: Floats) -> Floats:
    """Propensities of the control and of each arm, (n, K + 1)."""
    return chance if chance.ndim == 2 else np.column_stack([1 - chance, chance])


def check_beyond(far: Bools, least: str) -> None:
    """Raise ChancesBeyond if propensities lie below the pilot's ``least``."""
    if far.any():
        raise ChancesBeyond(
            "propensity", f"at least {least} (of each arm), the range seen in the pilot rows",
            f"smaller ones in {int(far.sum()):,} of {len(far):,} rows",
            "Leave such people out: the certificate is then about the others.",
        )  # fmt: skip


def most_people(people: Floats) -> float:
    """The largest inverse propensity, from rows that are not bet on."""
    return float(people.max(initial=1.0)) / NEARER


def evenly_drawn(people: Floats, most: float, draw: Floats) -> Bools:
    """A random subset of the rows of two arms in which all people are equally likely.

    ``people`` (n,): one over the chance to be in one of the two. A row is kept with probability
    people / ``most``, ``most`` fixed beforehand: who is in the two arms and kept is then a draw
    with probability 1 / most for everybody, and among these the chance of treatment stays. ``draw``
    (n,): uniform in [0, 1), the same for rows of a group.
    """
    check_beyond(people > most, f"{1 / most:.3g}, to be in one of the two arms")
    return np.asarray(draw * most < people)


def propensity_range(chance: ArrayLike | None) -> tuple[float, float] | None:
    """Lowest and highest propensity; None if there are none."""
    return None if chance is None else (float(np.min(chance)), float(np.max(chance)))
