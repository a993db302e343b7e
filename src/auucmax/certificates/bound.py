"""The bound as printed in the paper: a selection criterion here, not a guarantee.

Theorem 1 with Proposition 2 of Betlei, Diemert and Amini (arXiv 2012.09897): with probability at
least 1 - delta, for every linear score with ||w|| <= Lambda on rows with ||x|| <= R,

    AUUC >= AUUC_separate - sum over arms g of
            lam_g { C_g + [ 5/2 sqrt(C_g) + 5/4 sqrt(2) Lambda R ] sqrt(L / m_g) + 25/48 L / m_g },

    C_g = Lambda R / sqrt(m_g) + sqrt(L / (2 m_g)),   L = ln(2 / delta),   lam_g = p_g (1 - p_g),

m_g the number of rows of the rarer class of arm g.

**This statement does not hold.** The 0/1 ranking risk of a linear score does not change when w is
made shorter, but the right-hand side does: with Lambda near 0 the complexity vanishes whatever the
dimension. With more features than rows a vanishing w ranks *pure noise* perfectly on the training
rows, so the formula promises an AUC near 1 where the truth is 1/2
(``tests/certificates/test_paper.py`` does it). The gap lies in applying a complexity of the scores
to the 0/1 loss, which no contraction allows; factors of 2 (symmetrisation, ||x - x'|| <= 2 R) and
the two confidence levels of Proposition 2 are missing as well, and R is taken from the sample.

Which count for the controls? The theorem prints n_-^C. After the control labels are flipped, the
rarer class of the control sample is that of the *original responders* (when they are the minority)
and only the smaller class bounds the number of independent pairs, so ``control_count="rarer"`` is
the default; ``"printed"`` reads n_-^C as the original non-responders and gives smaller gaps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from auucmax._validation import check_choice, check_level, check_positive, check_rows
from auucmax.certificates.types import LowerBound
from auucmax.metrics.functions import auuc_score

CONTROL_COUNTS = ("rarer", "printed")


def paper_bound(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    norm: float,
    radius: float,
    delta: float = 0.05,
    control_count: str = "rarer",
    sample_weight: ArrayLike | None = None,
    control: Any = None,
) -> LowerBound:
    """The lower bound of Theorem 1 for a linear score, on its training rows.

    Not a guarantee: see :mod:`auucmax.certificates.bound` for what is wrong with it.

    Parameters
    ----------
    y, treatment : (n,) 0/1 outcome and treatment of the rows that the score was fitted on.
    score : (n,) their scores x.w.
    norm : Lambda, the bound on ||w||.
    radius : R, the largest ||x||.
    sample_weight : (n,) weights; an integer weight equals that many copies of the row.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> bound = paper_bound(trial.y, trial.X["womens"], treatment=trial.treatment, norm=1, radius=1)
    >>> round(bound.gap, 4)
    0.029
    """
    rows = check_rows(y, score, treatment=treatment, control=control, sample_weight=sample_weight)
    if not np.array_equal(rows.y, rows.y.astype(bool)):
        raise ValueError(
            "y should be 0 or 1 for the paper's bound, got other values. Use a binary outcome, or "
            "choose hyper-parameters by cross-validation."
        )
    cell = 2 * ~rows.treated + (rows.y == 0)
    counts = np.bincount(cell, rows.weight, minlength=4).tolist()
    gap = paper_gap(*counts, norm=norm, radius=radius, delta=delta, control_count=control_count)
    auuc = auuc_score(
        rows.y, rows.score, treatment=rows.treated, ranking="separate", sample_weight=rows.weight
    )
    return LowerBound("paper", lower=auuc - gap, estimate=auuc, delta=delta)


def paper_gap(
    treated_positive: float,
    treated_negative: float,
    control_positive: float,
    control_negative: float,
    *,
    norm: float,
    radius: float,
    delta: float = 0.05,
    control_count: str = "rarer",
) -> float:
    """The gap of Theorem 1 with Proposition 2, C_delta in the paper.

    Examples
    --------
    >>> round(paper_gap(3238, 18149, 2262, 19044, norm=0.5, radius=1), 4)
    0.0191
    """
    check_level(delta, "delta")
    check_choice(control_count, "control_count", CONTROL_COUNTS)
    for name, value in (("norm", norm), ("radius", radius)):
        check_positive(value, name, "It is the length of a vector.", or_zero=True)
    log_term = np.log(2 / delta)
    size = norm * radius
    gap = 0.0
    for positive, negative, count in (
        (treated_positive, treated_negative, "rarer"),
        (control_positive, control_negative, control_count),
    ):
        # Pairs of an arm are as many as its rarer class allows: see the top of the module.
        effective = min(positive, negative) if count == "rarer" else negative
        if effective <= 0:
            raise ValueError(
                f"each arm should have both outcomes, got {positive:g} positive and {negative:g} "
                f"negative rows in one. The bound needs pairs to rank."
            )
        rate = positive / (positive + negative)
        complexity = size / np.sqrt(effective) + np.sqrt(log_term / (2 * effective))
        factor = 2.5 * np.sqrt(complexity) + 1.25 * np.sqrt(2) * size
        term = complexity + factor * np.sqrt(log_term / effective)
        gap += rate * (1 - rate) * (term + 25 / 48 * log_term / effective)
    return float(gap)
