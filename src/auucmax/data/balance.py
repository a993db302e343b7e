"""Tests whether the arms of a trial differ before treatment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import chdtrc, expit, fdtrc, log_expit, logit

from auucmax._validation import Bools, Floats
from auucmax.data.covariates import Feature
from auucmax.data.trial import Lost, Trial
from auucmax.results import LEAST_ROWS

Codes = NDArray[np.intp]

#: With fewer groups than this, standard errors by group are too uncertain to be used.
LEAST_GROUPS = 20
MOST_STRATA = 20  #: different propensities that are a stratum each; if there are more, tenths
_BINS = 10
BLOCK = 2**14
MAX_CLASSIFIER_ROWS = 60_000
# Below these rows for each degree of freedom the chi-square law of the likelihood ratio is too
# short in the tail, and the F law of the linear regression is used.
ROWS_PER_DEGREE = 200


@dataclass(frozen=True)
class RandomisationTest:
    """One test of one arm against the control (of all arms, for the sample ratio).

    ``name`` is "sample ratio", "chances", "likelihood ratio", "classifier", "missing values" or
    "missing outcomes"; ``adjusted_p_value`` is corrected by Holm's method over all tests of the
    report. ``few``: whether it counts fewer than 20 people of an arm.
    """

    name: str
    arm: str
    statistic: float
    p_value: float
    detail: str
    adjusted_p_value: float = 1.0
    few: bool = False


def arms_of(trial: Trial) -> Iterator[tuple[str, NDArray[np.intp], Bools, Codes | None]]:
    """Each arm with the control: name (blank if only one), rows, treatment and group codes."""
    for k, name in enumerate(trial.arm_names[1:], start=1):
        rows = np.flatnonzero((trial.arm == 0) | (trial.arm == k))
        codes = group_codes(None if trial.groups is None else trial.groups[rows])
        yield name if trial.is_multi_arm else "", rows, trial.arm[rows] == k, codes


def differences(features: Sequence[Feature], treated: Bools) -> list[dict[str, Any]]:
    """Means by arm and standardised differences of numbers and levels.

    difference = (mean_T - mean_C) / sqrt((var_T + var_C) / 2)

    ``few``: fewer than 20 people of an arm differ from the median, or have a level, or lack it.
    """
    lines = []
    for feature in features:
        numbers = pd.Series(feature.numbers()).dropna()
        arm = treated[numbers.index]
        columns = {feature.name: numbers}
        if feature.levels:
            columns = {
                f"{feature.name}={level}": (numbers == k).astype(np.float64)
                for k, level in enumerate(feature.levels)
            }
        for name, column in columns.items():
            by_arm = column.groupby(arm)
            control, own = by_arm.mean().reindex([False, True])
            spread = np.sqrt(by_arm.var(ddof=0).mean())
            with np.errstate(invalid="ignore", divide="ignore"):
                difference = 0.0 if own == control else float(np.divide(own - control, spread))
            # A value that most people have is the median; without one, many differ from it.
            apart = (column != (1.0 if feature.levels else column.median())).groupby(arm).sum()
            about = [*apart, *(by_arm.size() - apart)] if feature.levels else [*apart]
            lines.append(
                {
                    "feature": name,
                    "control": control,
                    "treated": own,
                    "difference": difference,
                    "few": len(apart) < 2 or min(about) < LEAST_ROWS,
                }
            )
    return lines


def likelihood_ratio_test(
    features: Sequence[Feature], treated: Bools, codes: Codes | None = None
) -> RandomisationTest | None:
    """Test a logistic regression of treatment on all features against the intercept.

    Levels are one-hot, and numbers are replaced by their mid-ranks: the few largest values of a
    heavy tail would otherwise carry the fit, and the laws below would need far more rows. Twice the
    gain in log-likelihood is chi-square with as many degrees of freedom as the columns have rank,
    so one-hot blocks and copies of a column do no harm. With fewer than 200 rows for each degree
    the p-value is that of the F test of the linear regression of treatment on the columns, which
    holds for few rows too. None if there are not more rows than columns. ``codes``: the group of
    each row; the p-value is then at least that with standard errors by group (Rao and Scott 1984).
    """
    n = len(treated)
    share = treated.mean()
    columns = [_centred(feature) for feature in features]

    def blocks(to: Floats | None = None) -> Iterator[tuple[slice, Floats]]:
        for start in range(0, n, BLOCK):
            rows = slice(start, start + BLOCK)
            x = np.hstack([column(rows) for column in columns])
            yield rows, x if to is None else x @ to

    gram = sum(x.T @ x for _, x in blocks()) / n
    # Whitened columns are orthogonal. Directions without variance, as of one-hot blocks or copies,
    # are no degrees of freedom.
    scale = np.sqrt(np.diag(gram))
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    values, vectors = np.linalg.eigh(gram * np.outer(inverse, inverse))
    kept = values > 1e-9 * len(values)
    white = inverse[:, None] * vectors[:, kept] / np.sqrt(values[kept])
    degrees = white.shape[1]
    rest = n - 1 - degrees
    if degrees == 0 or rest <= 0:
        return None

    def evaluate(weights: Floats) -> tuple[float, Floats, Floats]:
        """Log-likelihood, gradient and negative Hessian."""
        value, gradient, hessian = 0.0, np.zeros(degrees + 1), np.zeros((degrees + 1, degrees + 1))
        for rows, x in blocks(white):
            z = np.column_stack([np.ones(len(x)), x])
            margin = z @ weights
            p = expit(margin)
            value += float(log_expit(np.where(treated[rows], margin, -margin)).sum())
            gradient += (treated[rows] - p) @ z
            hessian += (z * (p * (1 - p))[:, None]).T @ z
        return value, gradient, hessian

    weights = np.zeros(degrees + 1)
    weights[0] = logit(share)
    null, gradient, hessian = evaluate(weights)
    # R^2 of the linear regression: whitened columns are orthogonal, so their shares add up.
    variance = n * share * (1 - share)
    explained = float((gradient[1:] ** 2).sum()) / (n * variance)
    value = null
    for _ in range(30):
        step = np.linalg.lstsq(hessian, gradient, rcond=1e-12)[0]
        # The gain still possible is about half of this: far below what a p-value shows.
        if step @ gradient < 1e-6:
            break
        while (new := evaluate(weights + step))[0] < value:
            step = step / 2
        weights = weights + step
        value, gradient, hessian = new
    statistic = max(2 * (value - null), 0.0)
    law = ""
    p_value = float(chdtrc(degrees, statistic))
    if n < ROWS_PER_DEGREE * degrees:
        law = " (few rows: p of the F test)"
        odds = explained / max(1 - explained, 1e-300)
        p_value = float(fdtrc(degrees, rest, odds * rest / degrees))
    if codes is not None:
        # A group of n_g rows has its part n_g / n of the slopes taken off. (Residuals of the
        # regression would be too small: with few groups, features of whole groups fit much of
        # their errors.)
        scores = np.zeros((int(codes.max()) + 1, degrees))
        for rows, x in blocks(white):
            np.add.at(scores, codes[rows], x * (treated[rows] - share)[:, None])
        scores -= np.outer(np.bincount(codes) / n, scores.sum(axis=0))
        p_value = max(p_value, clustered_p(statistic, scores / np.sqrt(variance)))
    detail = f"{statistic:.1f} on {degrees} degrees of freedom{law}"
    return RandomisationTest("likelihood ratio", "", statistic, p_value, detail)


def _centred(feature: Feature) -> Callable[[slice], Floats]:
    """Mid-ranks of numbers or indicators of levels, less their mean, 0 where missing."""
    if not feature.levels:
        rank = pd.Series(feature.numbers()).rank()
        ranks = ((rank - rank.mean()) / rank.count()).to_numpy(np.float32)  # there may be many
        centre = pd.Series(ranks, dtype=np.float64).mean()
        return lambda rows: np.nan_to_num(ranks[rows, None] - centre)
    codes = feature.values
    levels = np.arange(len(feature.levels))
    counts = np.bincount(codes[codes >= 0], minlength=len(levels))
    shares = counts / max(counts.sum(), 1)
    return lambda rows: (codes[rows, None] == levels) - shares * (codes[rows, None] >= 0)


def classifier_test(
    features: Sequence[Feature],
    treated: Bools,
    rng: np.random.Generator,
    max_rows: int = MAX_CLASSIFIER_ROWS,
    codes: Codes | None = None,
) -> RandomisationTest | None:
    """Train boosted trees to predict treatment on half of the rows, and test AUC on the rest.

    Under randomisation the AUC is 1/2 on average and, given the first half, has the variance of
    the Mann-Whitney statistic. (Pooling folds would not do: their AUCs are correlated.) At most
    ``max_rows`` rows are used; None with fewer than 50 rows in an arm. ``codes``: the group of each
    row; each half then has whole groups, and the standard error is at least that by group.
    """
    fit, test = halves(treated, codes, rng, max_rows)
    if min(treated[test].sum(), (~treated[test]).sum()) < 25 or len(np.unique(treated[fit])) < 2:
        return None
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(
        max_iter=50, max_leaf_nodes=15, early_stopping=False, random_state=int(rng.integers(2**31))
    )
    train, unseen = (np.column_stack([f.numbers(rows) for f in features]) for rows in (fit, test))
    # A half may have no value of a column that few rows have.
    varies = np.fmin.reduce(train, axis=0) < np.fmax.reduce(train, axis=0)
    if not varies.any():
        return None
    model.fit(train[:, varies], treated[fit])
    score = model.decision_function(unseen[:, varies])
    auc, p_value = rank_auc(score, treated[test], None if codes is None else codes[test])
    detail = f"AUC {auc:.3f} on {len(test):,} unseen rows"
    return RandomisationTest("classifier", "", auc, p_value, detail)


def halves(
    treated: Bools, codes: Codes | None, rng: np.random.Generator, max_rows: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Split at most ``max_rows`` rows at random into two halves.

    Each arm is halved or, if ``codes`` of groups are given, the set of groups.
    """
    n = len(treated)
    half = np.full(n, -1)
    if codes is None:
        for arm in (treated, ~treated):
            rows = rng.permutation(np.flatnonzero(arm))[: int(min(1.0, max_rows / n) * arm.sum())]
            half[rows] = np.arange(len(rows)) >= len(rows) // 2
    else:
        some = np.arange(n) if n <= max_rows else rng.choice(n, max_rows, replace=False)
        n_groups = codes.max() + 1
        half[some] = (rng.permutation(n_groups) >= n_groups // 2)[codes[some]]
    return np.flatnonzero(half == 0), np.flatnonzero(half == 1)


def rank_auc(score: Floats, positive: Bools, codes: Codes | None = None) -> tuple[float, float]:
    """AUC with ties counted half, and the one-sided p-value of AUC <= 1/2.

    ``codes``: the group of each row; the p-value is at least that with errors by group. The AUC is
    the mean share of the other class that a positive row is above, and one minus that of a negative
    row.
    """
    from scipy.stats import mannwhitneyu

    above, below = score[positive], score[~positive]
    found = mannwhitneyu(
        above, below, use_continuity=False, alternative="greater", method="asymptotic"
    )
    auc = float(found.statistic / (len(above) * len(below)))
    p_value = float(np.nan_to_num(found.pvalue, nan=1.0))  # where all scores are equal
    if codes is not None:
        order = pd.Series(score)
        n_others = np.where(positive, len(below), len(above))
        share = (order.rank() - order.groupby(positive).rank()).to_numpy() / n_others
        by_group = clustered_p_of_means(auc - 0.5, share, positive, codes) / 2
        p_value = max(p_value, by_group if auc > 0.5 else 1 - by_group)
    return auc, p_value


class Shares(NamedTuple):
    """Share of marked rows in each arm, and the p-value for equal shares.

    ``few``: whether fewer than 20 people of an arm are marked, or are not.
    """

    control: float
    treated: float
    p_value: float
    few: bool


def compare_shares(marked: Bools, treated: Bools, codes: Codes | None = None) -> Shares:
    """Test for equal shares of marked rows in two arms.

    ``codes``: the group of each row; the p-value is at least that with errors by group.
    """
    table = np.array([np.bincount(marked[own], minlength=2) for own in (~treated, treated)])
    control, own = (table[:, 1] / table.sum(axis=1)).tolist()
    p_value = equal_shares(table)
    if codes is not None:
        p_value = max(p_value, clustered_p_of_means(own - control, marked, treated, codes))
    return Shares(control, own, p_value, bool(table.min() < LEAST_ROWS))


def attrition_tests(kept: Trial, lost: Lost, units: str) -> list[RandomisationTest]:
    """Test whether outcomes are missing equally often in each arm and the control.

    ``kept`` and ``lost``: the rows (or the first of each group) with and without an outcome.
    """
    arms = np.concatenate([kept.arm, lost.arm])
    is_lost = np.arange(len(arms)) >= kept.n_rows
    groups = None
    if kept.groups is not None and lost.groups is not None:
        groups = np.concatenate([kept.groups.astype(object), lost.groups.astype(object)])
    n_lost = np.bincount(lost.arm, minlength=len(kept.arms))
    n_all = np.bincount(arms, minlength=len(kept.arms))
    tests = []
    for k, name in enumerate(kept.arm_names[1:], start=1):
        both = (arms == 0) | (arms == k)
        codes = group_codes(None if groups is None else groups[both])
        shares = compare_shares(is_lost[both], arms[both] == k, codes)
        detail = ", ".join(
            f"{kept.arm_names[j]} {share:.2%} ({n_lost[j]:,} of {n_all[j]:,} {units})"
            for j, share in ((k, shares.treated), (0, shares.control))
        )
        tests.append(
            RandomisationTest(
                "missing outcomes", name if kept.is_multi_arm else "",
                shares.treated - shares.control, shares.p_value, detail, few=shares.few,
            )
        )  # fmt: skip
    return tests


def equal_shares(table: NDArray[np.int64]) -> float:
    """p-value for equal shares in two arms, from a 2 x 2 table of counts."""
    from scipy.stats import chi2_contingency, fisher_exact
    from scipy.stats.contingency import expected_freq

    # Fisher's exact test needs no number of rows. The far tail, by which a trial is stopped, needs
    # far more of them than the 5 in each cell that are enough for the middle of chi-square's law.
    if expected_freq(table).min() < 100:
        return float(fisher_exact(table)[1])
    return float(chi2_contingency(table, correction=False)[1])


def holm(p: Floats) -> Floats:
    """p-values adjusted by Holm's method, ignoring NaN."""
    known = pd.Series(p).dropna().sort_values()
    adjusted = (known * np.arange(len(known), 0, -1)).cummax().clip(upper=1)
    return adjusted.reindex(range(len(p))).to_numpy()


# Rows of known, different propensities


def even_rows(treated: Bools, chance: Floats, rng: np.random.Generator) -> Bools:
    """Draw rows so that all of them had the same propensity; returns a mask (n,).

    With odds o = chance / (1 - chance) and r their geometric mean, a treated row is kept with
    probability min(1, r / o), a control with min(1, o / r): among kept rows of any features the
    odds of treatment are o min(1, r / o) / min(1, o / r) = r. So tests of equal chances hold for
    them as they stand. One arm of each stratum is kept whole.
    """
    log_odds = np.log(chance) - np.log1p(-chance)
    above = log_odds - log_odds.mean()
    kept = np.exp(np.minimum(np.where(treated, -above, above), 0.0))
    # A separate stream: data simulated with the same seed would be correlated with the draw. And
    # rounding must not lose a row where all chances are the same.
    return np.asarray(rng.spawn(1)[0].random(len(chance)) < kept + 1e-9)


def compare_counts(treated: Bools, chance: Floats, name: str = "chances") -> RandomisationTest:
    """Test the treated counts in strata of equal propensity; the detail is of the worst stratum.

    The smallest p-value of the strata times their number. With more than 20 different chances
    strata are tenths of the rows by their chance; the number treated then varies less than a
    binomial one of the mean chance (Hoeffding 1956), so that p-values are too large, if anything.
    They are also where the number treated of a stratum was fixed.
    """
    from scipy.stats import binomtest

    code, values = pd.factorize(np.round(chance, 9))
    if len(values) > MOST_STRATA:
        rank = pd.Series(chance).rank(method="min").to_numpy() - 1
        code = pd.factorize(rank * _BINS // len(chance))[0]
    n = np.bincount(code)
    found = np.bincount(code, treated).astype(np.int64)
    mean = np.bincount(code, chance) / n
    strata = zip(found.tolist(), n.tolist(), mean.tolist(), strict=True)
    tests = [float(binomtest(*stratum).pvalue) for stratum in strata]
    worst = int(np.argmin(tests))
    share = found[worst] / n[worst]
    detail = f"of {n[worst]:,} rows of chance {mean[worst]:.3g}, {share:.1%} treated"
    return RandomisationTest(name, "", 0.0, min(1.0, len(tests) * tests[worst]), detail)


# People randomised one by one but grouped, as in shops. Those of one group may resemble each other,
# so standard errors come from sums over groups. They can only widen those of independent people:
# callers use the larger of the two p-values.


def group_codes(groups: NDArray[Any] | None) -> Codes | None:
    """Group codes (n,); None if there are too few groups, or none has two rows.

    >>> group_codes(np.repeat(np.arange(30), 2)).tolist()[:4]
    [0, 0, 1, 1]
    """
    if groups is None:
        return None
    codes, labels = pd.factorize(groups)
    if len(labels) < LEAST_GROUPS or len(labels) == len(codes):
        return None
    return codes.astype(np.intp, copy=False)


def clustered_p(statistic: float, scores: NDArray[Any]) -> float:
    """Cluster-robust p-value of k estimates, from group scores (G, k).

    With V the covariance by group, the statistic over the trace of V has, nearly, an F law
    with d = tr(V)^2 / tr(V^2) and d (G - 1) degrees of freedom (Thomas and Rao 1987). For one
    estimate this is the t test with the cluster-robust standard error. 0 if no group varies.
    """
    n_groups = len(scores)
    covariance = scores.T @ scores * (n_groups / (n_groups - 1))
    trace = float(np.trace(covariance))
    if trace <= 0:
        return 0.0
    degrees = trace**2 / float((covariance**2).sum())
    return float(fdtrc(degrees, degrees * (n_groups - 1), statistic / trace))


def clustered_p_of_means(
    estimate: float, values: NDArray[Any], treated: Bools, codes: Codes
) -> float:
    """p-value of an estimate with the error of the difference between the means of two arms."""
    by_arm = pd.Series(values, dtype=np.float64).groupby(treated)
    errors = (values - by_arm.transform("mean")) / by_arm.transform("size")
    signed = np.where(treated, errors, -errors)
    return clustered_p(estimate**2, np.bincount(pd.factorize(codes)[0], signed)[:, None])
