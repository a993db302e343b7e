"""Metrics of rankings, each as one function of the rows.

Each function validates its rows, sorts them once (:class:`Levels`) and computes one number. For
several numbers of one ranking use :class:`Levels`.
"""

from __future__ import annotations

from typing import Unpack

import numpy as np
import pandas as pd
from numpy.random import Generator
from numpy.typing import ArrayLike

from auucmax._validation import Floats, check_column
from auucmax.metrics.curves import PolicyRiskInference, UpliftBand
from auucmax.metrics.inference import AUUCDifference, AUUCInference
from auucmax.metrics.levels import Levels, RowOptions
from auucmax.metrics.ranking import RankingKind


def auuc_score(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    ranking: RankingKind = "joint",
    **rows: Unpack[RowOptions],
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
    rows : what else is known of the rows, which all metrics take. ``sample_weight``: (n,) weights;
        an integer weight equals that many copies of the row. ``propensity``: scalar or (n,)
        probability of treatment, for trials whose treatment share was made to depend on x; arm
        means are then weighted by its inverse. ``outcome_model``: (n,) predictions m(x) of the
        outcome, by a model fitted on *other* rows; see below. ``control``: label of the control
        group, when ``treatment`` is not 0/1; "control" by default. ``randomised``: (n,) True for
        rows that were randomised; the others are left out, ranks included. ``groups``: (n,) label
        of the cluster of each row, which only standard errors depend on.

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
    return Levels.of(y, score, treatment=treatment, **rows).auuc(ranking)


def auuc_inference(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    ranking: RankingKind = "joint",
    level: float = 0.95,
    **rows: Unpack[RowOptions],
) -> AUUCInference:
    """AUUC and gain over random targeting, with standard errors and intervals.

    Parameters are those of :func:`auuc_score`, and

    groups : (n,) label of the cluster (household, shop) of each row; the terms psi are summed
        within clusters, which may then be dependent inside and lie in one arm or both. With few
        clusters in an arm the intervals are wide; with fewer than five there are none.
    level : coverage of the intervals.

    The gain is that of outcomes less their mean. It differs from AUUC minus half of the average
    effect by noise only, and its error does not depend on whether y or 1 - y is counted.

    Intervals of AUUC are score intervals for 0/1 outcomes without weights, otherwise Student's,
    corrected where outcomes are skewed; those of the gain are Student's
    (:mod:`auucmax.metrics.intervals`). Where too few rows or responders make all of them
    unreliable there is none, and ``declined`` or ``gain_declined`` says why.

    The score must not have been fitted on these rows, nor the ``outcome_model`` whose predictions
    narrow the intervals. Sampling weights are taken as given.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> print(auuc_inference(trial.y, trial.X["womens"], treatment=trial.treatment))
    The ranking beats random targeting: gain +0.00768 (0.00612 to 0.00923) per person, p < 0.0001.
      AUUC  0.03045 (0.02666 to 0.03425)
      Rows  42,693, intervals at 95%
    """
    return Levels.of(y, score, treatment=treatment, **rows).inference(level, ranking)


def auuc_difference(
    y: ArrayLike,
    score_a: ArrayLike,
    score_b: ArrayLike,
    *,
    treatment: ArrayLike,
    ranking: RankingKind = "joint",
    level: float = 0.95,
    **rows: Unpack[RowOptions],
) -> AUUCDifference:
    """AUUC of ``score_a`` minus AUUC of ``score_b``, paired on the same rows.

    Outcomes are centred at their mean, so the estimate differs from that of two
    :func:`auuc_score` by noise, and has a smaller error. The standard error is that of the sum of
    psi_i(a) - psi_i(b) (:mod:`auucmax.metrics.inference`), so what the two rankings share
    cancels; an ``outcome_model`` can remove more of the noise. Parameters as in
    :func:`auuc_inference`.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> a, b = trial.X["womens"], trial.X["newbie"]
    >>> print(auuc_difference(trial.y, a, b, treatment=trial.treatment))
    The first score ranks better: AUUC +0.00639 (0.00421 to 0.00857), p < 0.0001.
      Rows  42,693, intervals at 95%
    """
    a = Levels.of(y, score_a, treatment=treatment, score_name="score_a", **rows)
    b = Levels.of(y, score_b, treatment=treatment, score_name="score_b", **rows)
    return a.difference(b, level, ranking)


def uplift_curve(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    ranking: RankingKind = "joint",
    **rows: Unpack[RowOptions],
) -> tuple[Floats, Floats]:
    """Gain per person from treating the top share, for every share.

    V(q) = (outcome of treated rows in the top q) / n_T - (the same of control rows) / n_C, at the
    knots where the score changes. V(0) = 0, V(1) is the average effect, and the area under the
    lines that join the knots is exactly :func:`auuc_score`. Parameters as there.

    Returns
    -------
    share, uplift : both (number of knots,)

    Examples
    --------
    >>> share, uplift = uplift_curve([1, 0, 1, 0], [4, 3, 2, 1], treatment=[1, 1, 0, 0])
    >>> share.tolist(), uplift.tolist()
    ([0.0, 0.25, 0.5, 0.75, 1.0], [0.0, 0.5, 0.5, 0.0, 0.0])
    """
    return Levels.of(y, score, treatment=treatment, **rows).curve(ranking)


def qini_curve(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    **rows: Unpack[RowOptions],
) -> tuple[Floats, Floats]:
    """Radcliffe's Qini curve per treated person, for every share of people treated.

    Q(q) = [Y_T(q) - Y_C(q) n_T(q) / n_C(q)] / n_T: controls of the top share are scaled to the
    number of treated people found *there*, where the uplift curve scales by the arms' sizes. No
    control yet: the second term is 0. Q(1) is the average effect.

    Examples
    --------
    >>> share, qini = qini_curve([1, 0, 1, 0], [4, 3, 2, 1], treatment=[1, 1, 0, 0])
    >>> qini.tolist()
    [0.0, 0.5, 0.5, -0.5, 0.0]
    """
    return Levels.of(y, score, treatment=treatment, **rows).qini_curve()


def qini_score(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    **rows: Unpack[RowOptions],
) -> float:
    """Area between the Qini curve and random targeting, per treated person.

    On the scale of AUUC - ATE/2, and close to it in a randomised trial. A constant score has 0.
    Other libraries divide by other areas: see :func:`conventions`.

    Examples
    --------
    >>> qini_score([1, 0, 1, 0], [4, 3, 2, 1], treatment=[1, 1, 0, 0])
    0.125
    """
    return Levels.of(y, score, treatment=treatment, **rows).qini()


def uplift_at_k(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    share: float | ArrayLike = 0.3,
    ranking: RankingKind = "joint",
    **rows: Unpack[RowOptions],
) -> float | Floats:
    """Average effect among the top share of people.

    mean(y | treated, top share) - mean(y | control, top share). A level of equal scores that the
    share cuts counts in part. Not a number where an arm has nobody in the top share. ``"joint"``
    takes the top of all rows, ``"separate"`` the top of each arm.

    Examples
    --------
    >>> uplift_at_k([1, 0, 1, 0], [4, 2, 3, 1], treatment=[1, 1, 0, 0], share=0.5)
    0.0
    """
    return Levels.of(y, score, treatment=treatment, **rows).at_k(share, ranking)


def uplift_by_decile(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    bins: int = 10,
    level: float = 0.95,
    **rows: Unpack[RowOptions],
) -> pd.DataFrame:
    """Average effect in each tenth of the people, highest scores first, with intervals.

    Rows of equal score stay together, in the tenth where the middle of their level falls, so
    tenths of a tied score differ in size. Intervals are Newcombe's for 0/1 outcomes, otherwise
    Student's; none where a skewed outcome has too few rows other than 0. One row a bin: ``rows``,
    ``treated``, ``control``, ``mean_treated``, ``mean_control``, ``uplift``, ``standard_error``,
    ``lower``, ``upper``.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> table = uplift_by_decile(trial.y, trial.X["history"], treatment=trial.treatment, bins=2)
    >>> table[["rows", "uplift"]].round(4)
          rows  uplift
    bin
    1    21346  0.0443
    2    21347  0.0455
    """
    return Levels.of(y, score, treatment=treatment, **rows).deciles(bins, level)


def uplift_band(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    shares: ArrayLike | None = None,
    ranking: RankingKind = "joint",
    level: float = 0.95,
    random_state: int | Generator | None = 0,
    **rows: Unpack[RowOptions],
) -> UpliftBand:
    """The uplift curve on a grid of shares, with pointwise and simultaneous intervals.

    The curve is that of outcomes less their mean: the expectation of :func:`uplift_curve`, with
    less noise.

    Parameters are those of :func:`auuc_inference`, and

    shares : (J,) shares at which the curve is wanted; by default .05, .075, ..., 1 (the normal
        approximation is poor at smaller shares unless there are very many rows).
    random_state : seed of the normal draws from which the simultaneous multiple is read; the same
        seed gives the same band.

    Both bands are approximate, and begin at the share from which on the top holds enough rows and
    responders (``declined``). Choose a share by looking at the curve, and only the simultaneous
    band still covers there.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> band = uplift_band(
    ...     trial.y, trial.X["womens"], treatment=trial.treatment, shares=[0.5, 1.0]
    ... )
    >>> band.uplift.round(4).tolist(), band.lower.round(4).tolist()
    ([0.0366, 0.0452], [0.0321, 0.0389])
    """
    levels = Levels.of(y, score, treatment=treatment, **rows)
    return levels.band(shares, ranking, level, random_state)


def policy_risk(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    share: float | ArrayLike | None = None,
    **rows: Unpack[RowOptions],
) -> float | Floats:
    """One minus the expected outcome if exactly the people picked by a rule are treated.

        risk = 1 - [ q mean(y | treated, picked) + (1 - q) mean(y | control, not picked) ]

    with q the share of people picked; lower is better when y is a success. An empty cell counts 0.

    Parameters
    ----------
    share : pick the top-ranked share of people (the paper's alpha): a number or a grid of them.
        A level of equal scores that the share cuts counts in part. None picks everyone whose
        score is above 0, for scores that estimate an effect (Shalit et al. 2017).

    Other parameters as in :func:`auuc_score`.

    Examples
    --------
    >>> y, score, treatment = [1, 0, 1, 0], [0.3, 0.2, -0.1, -0.2], [1, 0, 0, 1]
    >>> policy_risk(y, score, treatment=treatment)
    0.0
    >>> policy_risk(y, score, treatment=treatment, share=[0, 0.5, 1]).tolist()
    [0.5, 0.0, 0.5]
    """
    return Levels.of(y, score, treatment=treatment, **rows).policy_risk(share)


def policy_risk_inference(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    share: float | ArrayLike | None = None,
    level: float = 0.95,
    **rows: Unpack[RowOptions],
) -> PolicyRiskInference:
    """Policy risk with a closed-form standard error and interval.

    The error is that of the sum of psi_i (:mod:`auucmax.metrics.curves`). Parameters are those
    of :func:`policy_risk`, ``groups`` and ``level`` those of :func:`auuc_inference`. O(n log n),
    and O(n) for each further share.

    Intervals are made as those of AUUC, of the two means that are taken, of the treated who are
    picked and the controls who are not. For 0/1 outcomes: score limits; for others Student's t with
    Welch's degrees of freedom for the rows (or clusters) of the two, after Hall's transformation
    where outcomes are skewed. Where too few rows or responders are left there is no interval, and
    ``declined`` says why. At a share that falls between two large levels of equal scores the risk
    bends, and the estimate is biased by some tenth of its standard error. The score must not have
    been fitted on these rows.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> score = trial.X["womens"]
    >>> print(policy_risk_inference(trial.y, score, treatment=trial.treatment, share=0.5))
    Policy risk of 42,693 rows, intervals at 95%.
      50.0% treated  0.85726 (0.85275 to 0.86162)
    """
    levels = Levels.of(y, score, treatment=treatment, **rows)
    return levels.policy_risk_inference(share, level)


def pehe(effect: ArrayLike, predicted: ArrayLike, *, squared: bool = False) -> float:
    """Root mean squared error of predicted effects (precision in estimating heterogeneous effects).

    sqrt(mean (predicted - effect)^2), or the mean itself if ``squared``. True effects are known
    only in simulations.

    Examples
    --------
    >>> pehe([1.0, 3.0], [1.0, 1.0], squared=True)
    2.0
    """
    effect = check_column(effect, "effect")
    predicted = check_column(predicted, "predicted", len(effect), than="effect")
    mean = float(np.mean((predicted - effect) ** 2))
    return mean if squared else float(np.sqrt(mean))
