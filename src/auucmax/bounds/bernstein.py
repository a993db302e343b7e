"""Lower bounds on AUUC and on the gain over random whose width follows the variance of the rows.

Both are empirical Bernstein bounds; :mod:`auucmax.bounds.holdout` has the setting and the notation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from auucmax._validation import Bools, Floats, Rows, check_whole
from auucmax.bounds.blocks import block_floor
from auucmax.bounds.lower_bound import LowerBound
from auucmax.bounds.setting import Target, centre_of, held_out_rows, log_inverse, lower_bound
from auucmax.evaluation.ranking import ranked_parts

__all__ = ["ArmMeans", "block_bernstein_bound", "dkw_bernstein_bound", "dkw_bernstein_of_means"]

DKW_SHARE = 0.2  # of delta, for the band of G; the rest goes to the means


def dkw_bernstein_bound(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    target: Target = "auuc",
    delta: float = 0.05,
    n_candidates: int = 1,
    outcome_range: tuple[float, float] = (0.0, 1.0),
    control: Any = None,
) -> LowerBound:
    """Population AUUC, or gain: a band for G from all rows, an empirical Bernstein bound for means.

    With y scaled to [0, 1], G_n the share of all rows below (ties and the row itself half), z_i =
    y_i (G_n(f_i) - c), s_g^2 its sample variance in an arm, K = min(n_T, n_C), d = delta /
    n_candidates, eps = sqrt(ln(2 / .2d) / (2n)) and L = ln(2 / .8d), the estimate is mean(z | T) -
    mean(z | C) and

        gap = eps (mean(y | T) + mean(y | C)) + 7 L / (3 (K - 1))
              + sqrt(2L) [ sqrt(s_T^2/n_T + s_C^2/n_C)
                           + eps sqrt(mean(y^2 | T)/(n_T - 1) + mean(y^2 | C)/(n_C - 1)) ].

    *Proof.* All rows have one law of f, so |G_n - G| <= eps everywhere with probability 1 - .2d
    (Dvoretzky, Kiefer, Wolfowitz, Massart; G is the mean of a distribution function and its left
    limit). Then means of z differ from those with G by at most eps mean(y), and sqrt(W), W =
    s_T^2/n_T + s_C^2/n_C, being a seminorm, by at most the last term. With G the z are independent,
    in an interval of length 1, and the theorem of Maurer and Pontil (2009) extends from one sample
    to two: Bernstein's inequality gives theta >= estimate - sqrt(2 L E[W]) - L / (3K) with error
    .4d; replacing row k of arm g by the mean of its arm's others lowers W by (z_k - mean)^2 / n_g^2
    <= 1/K^2, and these sum to at most K/(K-1) W, so K^2 W is self-bounding and sqrt(E[W]) <=
    sqrt(W) + sqrt(2 L / (K (K-1))) with error .4d.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> score = trial.X["womens"]
    >>> round(dkw_bernstein_bound(trial.y, score, treatment=trial.treatment, target="gain").gap, 4)
    0.0049
    """
    centre = centre_of(target)
    rows, scale = held_out_rows(
        y, score, treatment=treatment, control=control, outcome_range=outcome_range
    )
    n_rows = len(rows.y)
    (part,) = ranked_parts(rows, "joint")
    z = part.y * (part.ranking.mid_cumsum(None) / n_rows - centre)
    treated, control_arm = (
        ArmMeans.of(z[part.treated == arm], part.y[part.treated == arm]) for arm in (True, False)
    )
    return dkw_bernstein_of_means(treated, control_arm, scale, delta, n_candidates)


class ArmMeans(NamedTuple):
    """What the bound needs of an arm: its rows, and mean(z), var(z), mean(y) and mean(y^2)."""

    n_rows: int
    z: float
    z_variance: float
    y: float
    y_square: float

    @classmethod
    def of(cls, z: Floats, y: Floats) -> ArmMeans:
        means = float(z.mean()), float(z.var(ddof=1)), float(y.mean()), float(np.mean(y**2))
        return cls(len(z), *means)


def dkw_bernstein_of_means(
    treated: ArmMeans,
    control: ArmMeans,
    scale: float,
    delta: float,
    n_candidates: int,
    rank_error: float = 0.0,
) -> LowerBound:
    """The bound of :func:`dkw_bernstein_bound`; ``rank_error`` widens the band of G."""
    band_log = log_inverse(delta, n_candidates, parts=2 / DKW_SHARE)
    log_term = log_inverse(delta, n_candidates, parts=2 / (1 - DKW_SHARE))
    eps = np.sqrt(band_log / (2 * (treated.n_rows + control.n_rows))) + rank_error
    arms = treated, control
    estimate = treated.z - control.z
    outcome = sum(arm.y for arm in arms)
    variance = sum(arm.z_variance / arm.n_rows for arm in arms)
    square = sum(arm.y_square / (arm.n_rows - 1) for arm in arms)
    smallest = min(arm.n_rows for arm in arms)
    gap = eps * outcome + 7 * log_term / (3 * (smallest - 1))
    gap += np.sqrt(2 * log_term) * (np.sqrt(variance) + eps * np.sqrt(square))
    return lower_bound("dkw-bernstein", scale * estimate, scale * gap, delta)


def block_bernstein_bound(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    target: Target = "auuc",
    delta: float = 0.05,
    n_candidates: int = 1,
    outcome_range: tuple[float, float] = (0.0, 1.0),
    control: Any = None,
    block_size: int = 10,
    random_state: int | Generator | None = 0,
) -> LowerBound:
    """Population AUUC, or gain, from small blocks of rows, each an unbiased estimate by itself.

    Rows are dealt at random into K blocks of about ``block_size`` that hold both arms. In a block
    with a treated and b control rows, v_i the share of the *other* rows of the block that rank
    below row i (ties half), w = mean(y (v - c) | T) - mean(y (v - c) | C) lies in an interval whose
    length R depends on a and b only. With L = ln(2 n_candidates / delta) and V the sample variance
    of the w,

        lower = mean(w) - sqrt(2 V L / K) - 7 R L / (3 (K - 1)).

    *Proof.* Which rows share a block depends on t and on the dealing only, so the w are
    independent, and given row i each comparison has mean G(f_i): E[w] = theta. The theorem of
    Maurer and Pontil (2009) asks for independence, not for equal laws. Range: without ties the
    v - c are the numbers k/(a + b - 1) - c in some order, and the smallest w puts controls with
    y = 1 at the b places where they lower w most; ties average over such orders.

    Dealing at random makes the order of the file irrelevant. Fix ``random_state`` beforehand:
    taking the best of many dealings is not valid.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> score = trial.X["womens"]
    >>> bound = block_bernstein_bound(trial.y, score, treatment=trial.treatment, target="gain")
    >>> round(bound.estimate, 3), round(bound.gap, 4)
    (0.008, 0.0047)
    """
    centre = centre_of(target)
    log_term = log_inverse(delta, n_candidates, parts=2)
    block_size = check_whole(block_size, "block_size", 2)
    rows, scale = held_out_rows(
        y, score, treatment=treatment, control=control, outcome_range=outcome_range
    )
    n_treated = int(rows.treated.sum())
    n_control = len(rows.y) - n_treated
    n_blocks = min(len(rows.y) // block_size, n_treated, n_control)
    if n_blocks < 2:
        raise ValueError(
            f"block_bernstein_bound needs rows for at least two blocks of {block_size}, each with "
            f"both arms; got {n_treated} treated and {n_control} control rows. Use mcdiarmid_bound."
        )
    block = _deal(rows.treated, n_blocks, np.random.default_rng(random_state))
    w, shapes = _block_statistics(rows, block, centre)
    # The largest w is minus the smallest w with the arms exchanged.
    length = max(block_floor(a, b, centre) for a, b in shapes)
    length += max(block_floor(b, a, centre) for a, b in shapes)
    gap = np.sqrt(2 * w.var(ddof=1) * log_term / n_blocks)
    gap += 7 * length * log_term / (3 * (n_blocks - 1))
    return lower_bound("block-bernstein", scale * float(w.mean()), scale * gap, delta)


def _deal(treated: Bools, n_blocks: int, rng: Generator) -> NDArray[np.intp]:
    """A block number for each row: each arm shuffled and dealt, so sizes differ by at most one."""
    block = np.empty(len(treated), dtype=np.intp)
    for arm in (True, False):
        own = np.flatnonzero(treated == arm)
        block[rng.permutation(own)] = np.arange(len(own)) % n_blocks
    return block


def _block_statistics(
    rows: Rows, block: NDArray[np.intp], centre: float
) -> tuple[Floats, set[tuple[int, int]]]:
    """w of each block, and the numbers of treated and control rows that occur."""
    order = np.lexsort((rows.score, block))
    block, score, treated = block[order], rows.score[order], rows.treated[order]
    new_block = np.concatenate([[True], block[1:] != block[:-1]])
    level_starts = np.flatnonzero(new_block | np.concatenate([[True], score[1:] != score[:-1]]))
    level_sizes = np.diff(level_starts, append=len(score))
    sizes = np.bincount(block)
    # Others below: those before the level, and half of the level without the row itself.
    below = np.repeat(level_starts + (level_sizes - 1) / 2, level_sizes)
    below -= np.repeat(np.flatnonzero(new_block), sizes)
    value = rows.y[order] * (below / (sizes - 1)[block] - centre)
    n_treated = np.bincount(block[treated])
    n_control = sizes - n_treated
    w = np.bincount(block, weights=value * treated) / n_treated
    w -= np.bincount(block, weights=value * ~treated) / n_control
    return w, set(zip(n_treated.tolist(), n_control.tolist(), strict=True))
