"""How a bound is described, and the bounds of the package."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from auucmax.certificates import betting_bound, certify_difference, paper_bound
from auucmax.metrics.ranking import RankingKind


@dataclass(frozen=True)
class Bound:
    """One entry of :data:`experiments.rival_bounds.ALL_BOUNDS`.

    ``target`` is what it bounds from below, ``ranking`` how the estimate ranks ("joint" or
    "separate"), ``rows`` which rows it reads ("training" or "held out"), ``validity`` whether the
    statement is true, and if not, why. Defaults are those of most bounds.
    """

    name: str
    function: Callable[..., Any]
    assumptions: str
    formula: str
    reference: str
    target: str = "AUUC, or gain over random, of the population"
    ranking: RankingKind = "joint"
    rows: str = "held out"
    validity: str = "holds for every n"


_ASSUMPTIONS = (
    "randomised trial; rows (or clusters) independent; score fixed before (or one of n_candidates);"
    " y in a known range"
)
PACKAGE_BOUNDS = (
    Bound(
        name="betting",
        function=betting_bound,
        assumptions=_ASSUMPTIONS,
        formula="largest theta such that it, and all smaller ones on a grid, are rejected by "
        "mean over dealings of prod over superblocks of mean over re-dealings of "
        "prod (1 + lambda (w - theta)) >= 1/delta",
        reference="proved in docs/guarantees.md; betting: Waudby-Smith and Ramdas 2024; hedged "
        "bets: after Voracek and Orabona 2025, arXiv 2505.22422",
    ),
    Bound(
        name="betting-fixed",
        function=partial(betting_bound, bets="fixed"),
        assumptions=_ASSUMPTIONS,
        formula="theta_0 + (ln W - ln(1/delta)) / (lambda N), W as for betting with one lambda",
        reference="proved in docs/guarantees.md",
    ),
    Bound(
        name="betting-difference",
        function=certify_difference,
        target="AUUC of one score minus that of another, of the population",
        assumptions=_ASSUMPTIONS,
        formula="as betting, on the differences of the two scores' block statistics",
        reference="proved in docs/guarantees.md",
    ),
    Bound(
        name="paper",
        function=paper_bound,
        target="AUUC, as the paper states it: population ranking risks at the observed rates",
        ranking="separate",
        rows="training",
        assumptions="linear score, ||w|| <= norm, ||x|| <= radius; y is 0/1",
        formula="AUUC - sum lam_g {C_g + [5/2 sqrt(C_g) + 5/4 sqrt(2) norm radius] sqrt(L/m_g) "
        "+ 25/48 L/m_g}, C_g = norm radius/sqrt(m_g) + sqrt(L/(2 m_g)), L = ln(2/delta)",
        reference="Betlei, Diemert and Amini, arXiv 2012.09897, Theorem 1 with Proposition 2",
        validity="does not hold: a complexity of the scores is used for the 0/1 loss; "
        "tests/certificates/test_paper.py has a counterexample",
    ),
)
