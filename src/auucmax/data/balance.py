"""Balance tests before treatment, and detection of leaking features.

Only numbers are made here; :mod:`auucmax.data.randomisation_report` says what they mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import chdtrc, fdtrc, ndtr, ndtri

from auucmax._validation import Bools, Floats
from auucmax.data import clustered
from auucmax.data.clustered import Codes
from auucmax.data.covariates import Covariates, Feature
from auucmax.data.few import LEAST_ROWS

# Below these rows for each degree of freedom the chi-square law of the likelihood ratio is too
# short in the tail, and the F law of the linear regression is used.
ROWS_PER_DEGREE = 200
# An AUC or a correlation beyond this almost settles what it goes with.
ALMOST_ONE = 0.99
# Within an arm, little that was known before treatment predicts an outcome better than this: an
# AUC, or the rank correlation of two normal numbers of which as many pairs agree.
HIGH_AUC, HIGH_CORRELATION = 0.85, 0.9
# What predicts it as well as this, and differs between the arms with a p-value below SHIFTED by
# SMALL standard deviations or more, may be what became of the outcome.
STRONG_AUC, STRONG_CORRELATION = 0.75, 0.6
SHIFTED = 1e-3
# Below this standardised difference an imbalance is too small to matter much to an average.
SMALL = 0.02
# Fewer rows of a class than this can be separated by chance.
FEWEST = 20
# A run of rows of one class at the end of a feature is no accident below this probability.
RARE = 1e-9


class ArmMoments(NamedTuple):
    """Sums of k real columns by arm (control, treated), ignoring missing values."""

    known: Floats  # (2, k) rows with a value
    mean: Floats  # (2, k)
    variance: Floats  # (2, k)
    centre: Floats  # (k,) mean of both arms together
    gram: Floats  # (k, k) sum of centred products, a missing value counted as the centre
    cross: Floats  # (k,) sum of centred values over the treated rows


def compute_moments(covariates: Covariates, treated: Bools) -> ArmMoments:
    """Means and cross products of the real columns, in two passes over blocks of rows."""
    k = len(covariates.columns)
    count, total = np.zeros((2, k)), np.zeros((2, k))
    for rows, x in covariates.blocks():
        known = ~np.isnan(x)
        x = np.where(known, x, 0.0)
        arms = np.vstack([~treated[rows], treated[rows]]).astype(np.float64)
        count += arms @ known
        total += arms @ x
    centre = total.sum(axis=0) / np.maximum(count.sum(axis=0), 1)
    # Centred before squaring: a date far from zero would lose its variance to rounding.
    squares, shifted, gram = np.zeros((2, k)), np.zeros((2, k)), np.zeros((k, k))
    for rows, x in covariates.blocks():
        x = np.nan_to_num(x - centre, nan=0.0)
        arms = np.vstack([~treated[rows], treated[rows]]).astype(np.float64)
        squares += arms @ (x * x)
        shifted += arms @ x
        gram += x.T @ x
    with np.errstate(invalid="ignore", divide="ignore"):
        offset = shifted / count
        variance = np.maximum(squares / count - offset**2, 0.0)
    return ArmMoments(count, centre + offset, variance, centre, gram, shifted[1])


def differences(covariates: Covariates, moments: ArmMoments, arms: Bools) -> pd.DataFrame:
    """Means by arm and standardised differences of the real columns, largest first.

    difference = (mean_T - mean_C) / sqrt((var_T + var_C) / 2)

    ``few``: fewer than 20 people of an arm differ from the median, or have a level, or lack it.
    """
    (control, treated), spread = moments.mean, np.sqrt(moments.variance.mean(axis=0))
    gap = treated - control
    with np.errstate(invalid="ignore", divide="ignore"):
        standardised = np.where(gap == 0, 0.0, gap / spread)
    found = {"feature": covariates.columns, "control": control, "treated": treated}
    few = [
        min(np.count_nonzero(part & arm) for part in parts for arm in (arms, ~arms)) < LEAST_ROWS
        for feature in covariates.features
        for parts in _parts(feature)
    ]
    table = pd.DataFrame(found | {"difference": standardised, "few": few})
    order = np.argsort(-np.abs(np.nan_to_num(standardised, nan=0.0)), kind="stable")
    return table.iloc[order].reset_index(drop=True)


def _parts(feature: Feature) -> Iterator[list[Bools]]:
    """For each real column, the people whom its mean is about."""
    known = ~feature.missing
    for level in range(len(feature.levels)):
        own = feature.values == level
        yield [own, known & ~own]
    if not feature.levels:
        # A value that most people have is the median; without one, many differ from it.
        middle = np.median(feature.values[known]) if known.any() else 0.0
        yield [known & (feature.values != middle)]


def detectable_difference(treated: Bools, alpha: float, power: float = 0.8) -> float:
    """Smallest standardised difference that a test at ``alpha`` detects with ``power``."""
    n_treated = int(treated.sum())
    error = np.sqrt(1 / n_treated + 1 / (len(treated) - n_treated))
    return float((ndtri(1 - alpha / 2) + ndtri(power)) * error)


class RatioTest(NamedTuple):
    """Result of the likelihood-ratio test of treatment on covariates."""

    statistic: float
    degrees: int
    p_value: float | None
    law: str = "chi-square"  # or "F": where the p-value comes from


def likelihood_ratio_test(
    covariates: Covariates, treated: Bools, codes: Codes | None = None
) -> RatioTest:
    """Test a logistic regression of treatment on all real columns against the intercept.

    Numbers are replaced by their mid-ranks: the few largest values of a heavy tail would otherwise
    carry the fit, and the laws below would need far more rows. Twice the gain in log-likelihood is
    chi-square with as many degrees of freedom as the columns have rank, so one-hot blocks and
    copies of a column do no harm. With fewer than 200 rows for each degree the p-value is that of
    the F test of the linear regression of treatment on the columns, which holds for few rows too.
    None if there are not more rows than columns. ``codes``: the group of each row; the p-value is
    then at least that with standard errors by group (Rao and Scott 1984).
    """
    covariates = covariates.ranked()
    moments = compute_moments(covariates, treated)
    n = covariates.n_rows
    white = _whiten(moments.gram, n)
    degrees = white.shape[1]
    if degrees == 0 or n - 1 - degrees <= 0:
        return RatioTest(0.0, degrees, None)
    share = treated.mean()
    null = n * (share * np.log(share) + (1 - share) * np.log1p(-share))
    statistic = max(2 * (_fit_logistic(covariates, treated, moments.centre, white) - null), 0.0)
    least = 0.0
    if codes is not None:
        scores = _group_scores(covariates, treated, moments, white, codes)
        least = clustered.clustered_p(statistic, scores)
    if n >= ROWS_PER_DEGREE * degrees:
        return RatioTest(statistic, degrees, max(float(chdtrc(degrees, statistic)), least))
    # R^2 of the linear regression: whitened columns are orthogonal, so their shares add up.
    explained = np.sum((white.T @ moments.cross) ** 2) / (n * n * share * (1 - share))
    odds = explained / max(1 - explained, 1e-300)
    rest = n - 1 - degrees
    p_value = float(fdtrc(degrees, rest, odds * rest / degrees))
    return RatioTest(statistic, degrees, max(p_value, least), "F")


def _group_scores(
    covariates: Covariates, treated: Bools, moments: ArmMoments, white: Floats, codes: Codes
) -> Floats:
    """Score contributions by group of the whitened slopes, (G, r).

    A group of n_g rows has its part n_g / n of the slopes taken off. (Residuals of the regression
    would be too small: with few groups, features of whole groups fit much of their errors.)
    """
    n, share = covariates.n_rows, treated.mean()
    sums = np.zeros((int(codes.max()) + 1, white.shape[1]))
    for rows, x in covariates.blocks():
        z = np.nan_to_num(x - moments.centre, nan=0.0) @ white
        clustered.add_by_group(sums, codes[rows], z * (treated[rows] - share)[:, None])
    sums -= np.outer(np.bincount(codes) / n, sums.sum(axis=0))
    return sums / np.sqrt(n * share * (1 - share))


def _whiten(gram: Floats, n: int) -> Floats:
    """Whitening matrix (k, r) of centred columns of rank r."""
    scale = np.sqrt(np.diag(gram) / n)
    used = scale > 0
    inverse = np.where(used, 1 / np.where(used, scale, 1.0), 0.0)
    correlation = gram / n * np.outer(inverse, inverse)
    values, vectors = np.linalg.eigh(correlation)
    # Directions without variance, as of one-hot blocks or copies, are no degrees of freedom.
    kept = values > 1e-9 * max(len(values), 1)
    return inverse[:, None] * vectors[:, kept] / np.sqrt(values[kept])


def _fit_logistic(
    covariates: Covariates, treated: Bools, centre: Floats, white: Floats, most_steps: int = 30
) -> float:
    """Maximise the log-likelihood by damped Newton steps."""
    share, size = treated.mean(), white.shape[1] + 1
    weights = np.zeros(size)
    weights[0] = np.log(share / (1 - share))

    def evaluate(weights: Floats) -> tuple[float, Floats, Floats]:
        """Log-likelihood, gradient and negative Hessian."""
        value, gradient, hessian = 0.0, np.zeros(size), np.zeros((size, size))
        for rows, x in covariates.blocks():
            z = np.ones((len(x), size))
            z[:, 1:] = np.nan_to_num(x - centre, nan=0.0) @ white
            margin, t = z @ weights, treated[rows]
            value -= float(np.logaddexp(0.0, np.where(t, -margin, margin)).sum())
            p = 0.5 * (1 + np.tanh(0.5 * margin))
            gradient += (t - p) @ z
            hessian += (z * (p * (1 - p))[:, None]).T @ z
        return value, gradient, hessian

    value, gradient, hessian = evaluate(weights)
    for _ in range(most_steps):
        step = np.linalg.lstsq(hessian, gradient, rcond=1e-12)[0]
        # The gain still possible is about half of this: far below what a p-value shows.
        if step @ gradient < 1e-6:
            break
        for _ in range(20):
            new = evaluate(weights + step)
            if new[0] >= value:
                break
            step = step / 2
        else:
            break
        weights, (value, gradient, hessian) = weights + step, new
    return value


class ClassifierTest(NamedTuple):
    """Result of the classifier test: predicting treatment on unseen rows."""

    auc: float
    n_test: int
    p_value: float | None


def classifier_test(
    covariates: Covariates,
    treated: Bools,
    rng: np.random.Generator,
    max_rows: int,
    codes: Codes | None = None,
) -> ClassifierTest:
    """Train boosted trees to predict treatment on half of the rows, and test AUC on the rest.

    Under randomisation the AUC is 1/2 on average and, given the first half, has the variance of
    the Mann-Whitney statistic. (Pooling folds would not do: their AUCs are correlated.) At most
    ``max_rows`` rows are used; None with fewer than 50 rows in an arm. ``codes``: the group of each
    row; each half then has whole groups, and the standard error is at least that by group.
    """
    if codes is None:
        fit, test = _halves(treated, rng, max_rows)
    else:
        fit, test = clustered.halves_by_group(codes, rng, max_rows)
    if min(treated[test].sum(), (~treated[test]).sum()) < 25 or len(np.unique(treated[fit])) < 2:
        return ClassifierTest(0.5, len(test), None)
    from sklearn.ensemble import HistGradientBoostingClassifier

    seed = int(rng.integers(2**31))
    model = HistGradientBoostingClassifier(
        max_iter=50, max_leaf_nodes=15, early_stopping=False, random_state=seed
    )
    table = covariates.table(fit)
    varies = _varying(table)  # of a column that few rows have, a half may have none
    if not varies.any():
        return ClassifierTest(0.5, len(test), None)
    model.fit(table[:, varies], treated[fit])
    score = model.decision_function(covariates.table(test)[:, varies])
    auc, error = rank_auc(score, treated[test])
    p_value = float(ndtr((0.5 - auc) / error)) if error > 0 else 1.0
    if codes is not None:
        p_value = max(p_value, clustered.auc_p(score, treated[test], auc, codes[test]))
    return ClassifierTest(auc, len(test), p_value)


def _varying(table: NDArray[np.float32]) -> Bools:
    """Which columns vary, missing values aside."""
    low = np.where(np.isnan(table), np.inf, table).min(axis=0)
    high = np.where(np.isnan(table), -np.inf, table).max(axis=0)
    return np.asarray(low < high)


def _halves(
    treated: Bools, rng: np.random.Generator, max_rows: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Two disjoint random halves of at most ``max_rows`` rows, stratified by arm."""
    kept = min(1.0, max_rows / len(treated))
    fit, test = [], []
    for arm in (treated, ~treated):
        rows = rng.permutation(np.flatnonzero(arm))[: int(kept * arm.sum())]
        fit.append(rows[: len(rows) // 2])
        test.append(rows[len(rows) // 2 :])
    return np.sort(np.concatenate(fit)), np.sort(np.concatenate(test))


def rank_auc(score: Floats, positive: Bools) -> tuple[float, float]:
    """AUC with ties counted half, and its standard error under independence."""
    ranks = pd.Series(score).rank().to_numpy()
    n, n_positive = len(score), int(positive.sum())
    pairs = n_positive * (n - n_positive)
    auc = (ranks[positive].sum() - n_positive * (n_positive + 1) / 2) / pairs
    # The ranks of the positives are drawn without replacement from all ranks, ties averaged.
    return float(auc), float(np.sqrt(ranks.var() / ((n - 1) * pairs)))


def missing_by_arm(
    covariates: Covariates, treated: Bools, codes: Codes | None = None
) -> pd.DataFrame:
    """Share of missing values by arm, with a test of equality, for incomplete features.

    ``few``: fewer than 20 people of an arm lack the value, or have it. ``codes``: the group of
    each row, for standard errors by group.
    """
    records = []
    n_treated = int(treated.sum())
    n_control = len(treated) - n_treated
    for feature in covariates.features:
        missing = feature.missing
        if not (n_missing := int(missing.sum())):
            continue
        in_treated = int((missing & treated).sum())
        table = np.array(
            [
                [in_treated, n_treated - in_treated],
                [n_missing - in_treated, n_control - n_missing + in_treated],
            ]
        )
        shares = table[1, 0] / n_control, table[0, 0] / n_treated
        few = bool(table.min() < LEAST_ROWS)
        p_value = equal_shares(table)
        if codes is not None:
            arms = ~treated, treated
            lacking = np.stack([np.bincount(codes, missing & arm) for arm in arms])
            rows = np.stack([np.bincount(codes, arm) for arm in arms])
            p_value = max(p_value, clustered.compare_shares(lacking, rows))
        records.append((feature.name, *shares, p_value, few))
    frame = pd.DataFrame(records, columns=["feature", "control", "treated", "p_value", "few"])
    return frame.sort_values("p_value", kind="stable").reset_index(drop=True)


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
    order, adjusted = np.argsort(p, kind="stable"), np.full(len(p), np.nan)
    known = order[: np.count_nonzero(~np.isnan(p))]  # NaN is sorted last
    times = len(known) - np.arange(len(known))
    adjusted[known] = np.minimum(np.maximum.accumulate(times * p[known]), 1)
    return adjusted


def chi_square_counts(counts: NDArray[np.int64], shares: Floats) -> tuple[float, float]:
    """Chi-square test of arm counts against the planned shares."""
    expected = counts.sum() * shares
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return statistic, float(chdtrc(len(counts) - 1, statistic))


@dataclass(frozen=True)
class Suspect:
    """A suspicious feature, which should be looked at before it is used.

    ``target`` is "outcome" or "treatment"; ``measure`` is "AUC" or "Spearman" (of the feature with
    the target), "rows" (how many rows at one end of the feature all have the same target), "values"
    (how many values the feature has, all of them in one arm: it is missing in the other), or "p"
    (that arms differ as much by chance, of a feature that predicts the outcome). ``is_high``: it
    predicts the outcome so well, chance apart, that one has to ask when it was recorded.
    """

    feature: str
    target: str
    measure: str
    value: float
    is_high: bool = False

    @property
    def is_after(self) -> bool:
        """Whether the feature was probably recorded after treatment.

        It settles the outcome, or tells treated from control almost without fail. Treatment that
        merely depends on a feature was not randomised.
        """
        return self.target == "outcome" or self.measure not in ("rows", "p")


def outcome_suspects(covariates: Covariates, y: Floats) -> tuple[Suspect, ...]:
    """Features that almost determine the outcome.

    With two outcomes: an AUC of a feature alone above .99 (or below .01); or rows at one end of
    its values, at least 50 and 1% of the rarer outcome, that all have the rarer outcome where the
    rows next to them mostly have not (a sum spent, when the outcome is a visit). With more
    outcomes: a rank correlation beyond .99; or the same as with two, of the lowest outcome against
    all others, if a tenth of the rows have it (a visit, when the outcome is a sum spent).
    """
    values = pd.unique(y)
    if len(values) < 2:
        return ()
    above = y > values.min()
    rarer = above if 2 * above.sum() <= len(y) else ~above
    least = max(50, int(0.01 * rarer.sum()))
    has_two = len(values) == 2 or above.mean() <= 0.9
    return _found(
        (len(values) > 2 and _correlate(feature, y))
        or (_separator(feature, rarer, "outcome", least) if has_two else None)
        for feature in covariates.features
    )


def outcome_hints(
    covariates: Covariates, y: Floats, treatment: NDArray[np.generic]
) -> tuple[Suspect, ...]:
    """Features that predict the outcome suspiciously well.

    Within one of the arms, where treatment explains nothing: an AUC beyond .75 of the lowest
    outcome against all others; or, of more than two outcomes, a rank correlation beyond .6. Levels
    are ordered by the means of other arms, or they would follow the noise of their own.
    """
    arms = [treatment == label for label in pd.unique(treatment)]
    hints = (_hints(feature, y, arm) for feature in covariates.features for arm in arms)
    strongest: dict[str, Suspect] = {}
    for hint in (one for some in hints for one in some):
        known = strongest.get(hint.feature)
        if known is None or (hint.is_high, hint.value) > (known.is_high, known.value):
            strongest[hint.feature] = hint
    return tuple(strongest.values())


def _hints(feature: Feature, y: Floats, arm: Bools) -> Iterator[Suspect]:
    above = y > y.min()
    two = len(pd.unique(y)) == 2
    for rows, order in _orders(feature, y, ~arm):
        own, order = rows & arm, order[arm[rows]]
        label = above[own]
        if min(label.sum(), (~label).sum()) >= FEWEST and (two or above.mean() <= 0.9):
            auc = rank_auc(order, label)[0]
            auc = max(auc, 1 - auc)
            error = np.sqrt(auc * (1 - auc) / min(label.sum(), (~label).sum()))
            if auc > STRONG_AUC:
                is_high = bool(auc - 2 * error > HIGH_AUC)
                yield Suspect(feature.name, "outcome", "AUC", auc, is_high)
        correlation = 0.0 if two else _rank_correlation(order, y[own])
        if correlation > STRONG_CORRELATION:
            is_high = correlation > HIGH_CORRELATION
            yield Suspect(feature.name, "outcome", "Spearman", correlation, is_high)


def shifted_suspects(
    covariates: Covariates,
    strong: Sequence[Suspect],
    treated: Bools,
    codes: Codes | None = None,
) -> tuple[Suspect, ...]:
    """Features that predict the outcome well and differ between the arms.

    What was known before treatment is the same in both arms but for chance; what follows the
    outcome, however noisily, differs as the outcome does. One fair trial in a thousand has such a
    feature, for each that it has at all. By each feature alone: among many others its difference
    may pass for chance.
    """
    names = {suspect.feature for suspect in strong}
    return _found(_shifted(f, treated, codes) for f in covariates.features if f.name in names)


def _shifted(feature: Feature, treated: Bools, codes: Codes | None) -> Suspect | None:
    from scipy.stats import chi2_contingency

    known = ~feature.missing
    arm = treated[known]
    if min(arm.sum(), (~arm).sum()) < FEWEST:
        return None
    if feature.levels:
        level = feature.values[known]
        table = np.stack([np.bincount(level[own], minlength=len(feature.levels))
                          for own in (arm, ~arm)])  # fmt: skip
        shares = (table / table.sum(axis=1, keepdims=True))[:, used := table.any(axis=0)]
        p_value = float(chi2_contingency(table[:, used])[1]) if used.sum() > 1 else 1.0
        middle = shares.mean(axis=0)
        spread = np.sqrt(np.maximum(middle * (1 - middle), 1e-12))
        size = float(np.max(np.abs(shares[0] - shares[1]) / spread))
    else:
        values = feature.numbers(known)
        auc, error = rank_auc(values, arm)
        p_value = float(2 * ndtr(-abs(auc - 0.5) / error)) if error > 0 else 1.0
        size = float(abs(ndtri(np.clip(auc, 1e-9, 1 - 1e-9))) * np.sqrt(2))
    if p_value < SHIFTED and codes is not None:
        own = Covariates((replace(feature, values=feature.values[known]),), (), len(arm))
        found = likelihood_ratio_test(own, arm, pd.factorize(codes[known])[0])
        p_value = max(p_value, found.p_value or 0.0)
    if p_value < SHIFTED and size >= SMALL:
        return Suspect(feature.name, "treatment", "p", p_value)
    return None


def treatment_suspects(covariates: Covariates, treated: Bools) -> tuple[Suspect, ...]:
    """Features that reveal who was treated.

    An AUC of a feature alone above .99 (or below .01), or values in one arm only: the treatment
    itself, or something that followed it. Or rows at one end of its values that are all of one arm,
    more than chance could give: treatment depends on it.
    """
    return _found(_follower(feature, treated) for feature in covariates.features)


def _follower(feature: Feature, treated: Bools) -> Suspect | None:
    found = _separator(feature, treated, "treatment", FEWEST)
    found = found or _separator(feature, ~treated, "treatment", FEWEST)
    if found is None or found.measure == "AUC":
        return found
    missing = feature.missing
    if missing[treated].all() or missing[~treated].all():
        return Suspect(feature.name, "treatment", "values", float(np.count_nonzero(~missing)))
    return found


def _found(candidates: Iterable[Suspect | Literal[False] | None]) -> tuple[Suspect, ...]:
    return tuple(suspect for suspect in candidates if suspect)


def _separator(feature: Feature, positive: Bools, target: str, least: int) -> Suspect | None:
    chance = np.log(positive.mean()) if positive.any() else 0.0
    for rows, order in _orders(feature, positive.astype(np.float64)):
        label = positive[rows]
        if min(label.sum(), (~label).sum()) >= FEWEST:
            auc = rank_auc(order, label)[0]
            if max(auc, 1 - auc) > ALMOST_ONE:
                return Suspect(feature.name, target, "AUC", max(auc, 1 - auc))
        for end in (order, -order):
            length, next_rate = _pure_end(end, label)
            # A strong predictor of the outcome also has a pure end, but one that fades out.
            sharp = target == "treatment" or next_rate < 0.5
            if length >= least and length * chance < np.log(RARE) and sharp:
                return Suspect(feature.name, target, "rows", float(length))
    return None


def _correlate(feature: Feature, y: Floats) -> Suspect | None:
    for rows, order in _orders(feature, y):
        correlation = _rank_correlation(order, y[rows])
        if correlation > ALMOST_ONE:
            return Suspect(feature.name, "outcome", "Spearman", correlation)
    return None


def _rank_correlation(order: Floats, y: Floats) -> float:
    """Absolute rank correlation; 0 for few rows or constant values."""
    if len(order) < FEWEST:
        return 0.0
    ranks = pd.DataFrame({"x": order, "y": y}).rank().to_numpy()
    spread = ranks.std(axis=0)
    if spread.min() == 0:
        return 0.0
    centred = ranks - ranks.mean(axis=0)
    return abs(float(np.mean(centred[:, 0] * centred[:, 1]) / spread.prod()))


def _orders(
    feature: Feature, target: Floats, training: Bools | None = None
) -> Iterator[tuple[Bools, Floats]]:
    """Orderings of the rows by a feature, each with its mask.

    Numbers order the rows that have one; being missing or not orders all rows; levels (missing
    among them) are ordered by the mean of the target, if there are rows enough for means: that of
    the ``training`` rows, or of all.
    """
    every = np.ones(len(target), dtype=bool)
    if feature.levels:
        codes = feature.values + 1
        if len(codes) >= FEWEST * (len(feature.levels) + 1):
            some = slice(None) if training is None else training
            known = pd.Series(target[some]).groupby(codes[some]).mean()
            means = known.reindex(range(len(feature.levels) + 1), fill_value=target.mean())
            yield every, means.to_numpy()[codes]
        return
    missing = feature.missing
    if not missing.all():
        yield ~missing, feature.numbers(~missing)
    if missing.any():
        yield every, missing.astype(np.float64)


def _pure_end(order: Floats, label: Bools) -> tuple[int, float]:
    """Number of top rows that all have the label, and its share among as many below.

    Tied rows stay together. 0 and 0 if the top has none, or if all rows have the label.
    """
    if label.all():
        return 0, 0.0
    top = order > order[~label].max()
    length = int(top.sum())
    if length == 0:
        return 0, 0.0
    rest, rest_label = order[~top], label[~top]
    place = max(len(rest) - length, 0)
    after = rest >= np.partition(rest, place)[place]
    return length, float(rest_label[after].mean())
