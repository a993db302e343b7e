"""The area under the uplift curve, in one line."""

from __future__ import annotations

from typing import Any, Literal

from numpy.typing import ArrayLike

from auucmax._validation import check_choice, check_column, check_rows
from auucmax.evaluation.ranking import RankedRows, arm_sums, ranked_parts

__all__ = ["RANKINGS", "auuc_score"]

RankingKind = Literal["joint", "separate"]
RANKINGS = ("joint", "separate")


def auuc_score(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    ranking: RankingKind = "joint",
    sample_weight: ArrayLike | None = None,
    propensity: ArrayLike | None = None,
    outcome_model: ArrayLike | None = None,
    control: Any = None,
) -> float:
    """Area under the uplift curve of a ranking (higher score = treated first).

    With u_i = 1 - (rank_i - 1/2) / n, rank 1 the highest score and tied ranks averaged,

        AUUC = mean(y u | treated) - mean(y u | control).

    It is the average, over all shares of people that one could treat, of what treating the
    top-ranked share gains per person. A random or constant score gives half the average effect.

    Parameters
    ----------
    y : (n,) outcome, any real numbers.
    score : (n,) any real numbers; only their order matters.
    treatment : (n,) 0/1 or boolean, or two labels of which ``control`` names one.
    ranking : ``"joint"`` ranks all rows together (the paper's Definition 1 and its tables);
        ``"separate"`` ranks each arm on its own (its Proposition 1, and what its bound is about).
        They agree as n grows.
    sample_weight : (n,) weights; an integer weight equals that many copies of the row.
    propensity : scalar or (n,) probability of treatment, for trials whose treatment share was
        made to depend on x. Arm means are then weighted by its inverse.
    outcome_model : (n,) predictions m(x) of the outcome, by a model fitted on *other* rows; see
        below.
    control : label of the control group, when ``treatment`` is not 0/1.

    Notes
    -----
    With ``outcome_model`` the arm means are those of y - m(x); ranks stay as they are. Randomised
    arms have the same law of x, so m has the same expectation in both and the estimand stays too,
    however bad m is; what changes is the noise. It pays when covariates predict y: the variance
    falls by about the R^2 of m. It also pays with the joint ranking when y is far from 0, even if m
    is a constant near the mean of y, because joint ranks do not centre y (separate ones do). An m
    that does not predict y adds its own variance.

    m must not be fitted on these rows, nor look at their treatment. The best choice is
    m(x) = (1 - e) m1(x) + e m0(x), with m1 and m0 models of the treated and the control outcome and
    e the treated share: this makes it the augmented inverse-propensity-weighted (AIPW) estimator.
    With ``propensity`` e is that of the row, and y - m is weighted as y would be. Weights leave m
    alone: a row of weight two is two rows with the same m. A constant score gives half the effect
    on the adjusted outcome, (mean(y - m | treated) - mean(y - m | control)) / 2.

    Examples
    --------
    >>> auuc_score([1, 0, 1, 0], [4, 3, 2, 1], treatment=[1, 1, 0, 0])
    0.25
    >>> auuc_score([1, 0, 1, 0], [0, 0, 0, 0], treatment=[1, 1, 0, 0])  # the effect is zero
    0.0
    """
    check_choice(ranking, "ranking", RANKINGS)
    rows = check_rows(
        adjusted_outcome(y, outcome_model),
        score,
        treatment=treatment,
        control=control,
        sample_weight=sample_weight,
        propensity=propensity,
    )
    return float(sum(signed_area(part) for part in ranked_parts(rows, ranking)))


def adjusted_outcome(y: ArrayLike, outcome_model: ArrayLike | None) -> ArrayLike:
    """y - m(x), or y as it came when there is no model."""
    if outcome_model is None:
        return y
    y = check_column(y, "y")
    return y - check_column(outcome_model, "outcome_model", len(y))


def signed_area(part: RankedRows) -> float:
    """Area of the treated arm minus that of the control arm, as far as they are in this part."""
    # Sums first, the ratio last: with 0/1 outcomes and no weights every sum is a whole number of
    # halves, so the result is exact whatever the order of the rows.
    below = part.ranking.mid_cumsum(part.weight)
    below *= part.y
    if part.arm_weight is not None:
        below *= part.arm_weight
    sums, total = arm_sums(below, part.treated), part.total_weight
    return sum(sign * sums[arm] / (total * part.arm_total(arm)) for arm, sign in part.arms)
