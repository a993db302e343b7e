"""Tests of whether the arms of a trial differ before treatment, and features in disguise.

No printing, no verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import chdtrc, fdtrc, ndtr, ndtri

from auucmax._validation import Bools, Floats
from auucmax.data.covariates import Covariates, Feature

# Below these rows for each degree of freedom the chi-square law of the likelihood ratio is too
# short in the tail, and the F law of the linear regression is used.
ROWS_PER_DEGREE = 200
# An AUC or a correlation beyond this almost settles what it goes with.
ALMOST_ONE = 0.99
# Fewer rows of a class than this can be separated by chance.
FEWEST = 20
# A run of rows of one class at the end of a feature is no accident below this probability.
RARE = 1e-9


class Moments(NamedTuple):
    """Sums over the rows of each arm (control, treated), k real columns, missing left out."""

    known: Floats  # (2, k) rows with a value
    mean: Floats  # (2, k)
    variance: Floats  # (2, k)
    centre: Floats  # (k,) mean of both arms together
    gram: Floats  # (k, k) sum of centred products, a missing value counted as the centre
    cross: Floats  # (k,) sum of centred values over the treated rows


def compute_moments(covariates: Covariates, treated: Bools) -> Moments:
    """Means and products of the real columns, in two passes over blocks of rows."""
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
    return Moments(count, centre + offset, variance, centre, gram, shifted[1])


def differences(covariates: Covariates, moments: Moments) -> pd.DataFrame:
    """Means by arm and standardised difference of each real column, the largest first.

    difference = (mean_T - mean_C) / sqrt((var_T + var_C) / 2)
    """
    (control, treated), spread = moments.mean, np.sqrt(moments.variance.mean(axis=0))
    gap = treated - control
    with np.errstate(invalid="ignore", divide="ignore"):
        standardised = np.where(gap == 0, 0.0, gap / spread)
    table = pd.DataFrame(
        {
            "feature": covariates.columns,
            "control": control,
            "treated": treated,
            "difference": standardised,
        }
    )
    order = np.argsort(-np.abs(np.nan_to_num(standardised, nan=0.0)), kind="stable")
    return table.iloc[order].reset_index(drop=True)


def detectable_difference(treated: Bools, alpha: float, power: float = 0.8) -> float:
    """The standardised difference of one feature that a test at ``alpha`` finds with ``power``."""
    n_treated = int(treated.sum())
    error = np.sqrt(1 / n_treated + 1 / (len(treated) - n_treated))
    return float((ndtri(1 - alpha / 2) + ndtri(power)) * error)


class RatioTest(NamedTuple):
    """Likelihood ratio of treatment on covariates."""

    statistic: float
    degrees: int
    p_value: float | None
    law: str = "chi-square"  # or "F": where the p-value comes from


def likelihood_ratio_test(covariates: Covariates, treated: Bools) -> RatioTest:
    """Logistic regression of treatment on all real columns against the intercept alone.

    Numbers are replaced by their mid-ranks: the few largest values of a heavy tail would otherwise
    carry the fit, and the laws below would need far more rows. Twice the gain in log-likelihood is
    chi-square with as many degrees of freedom as the columns have rank, so one-hot blocks and
    copies of a column do no harm. With fewer than 200 rows for each degree the p-value is that of
    the F test of the linear regression of treatment on the columns, which holds for few rows too.
    None if there are not more rows than columns.
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
    if n >= ROWS_PER_DEGREE * degrees:
        return RatioTest(statistic, degrees, float(chdtrc(degrees, statistic)))
    explained = np.sum((white.T @ moments.cross) ** 2) / (n * n * share * (1 - share))
    odds = explained / max(1 - explained, 1e-300)
    rest = n - 1 - degrees
    return RatioTest(statistic, degrees, float(fdtrc(degrees, rest, odds * rest / degrees)), "F")


def _whiten(gram: Floats, n: int) -> Floats:
    """The (k, r) map of centred columns to r uncorrelated ones of variance 1, r their rank."""
    scale = np.sqrt(np.diag(gram) / n)
    used = scale > 0
    inverse = np.where(used, 1 / np.where(used, scale, 1.0), 0.0)
    correlation = gram / n * np.outer(inverse, inverse)
    values, vectors = np.linalg.eigh(correlation)
    kept = values > 1e-9 * max(len(values), 1)
    return inverse[:, None] * vectors[:, kept] / np.sqrt(values[kept])


def _fit_logistic(
    covariates: Covariates, treated: Bools, centre: Floats, white: Floats, most_steps: int = 30
) -> float:
    """The largest log-likelihood, by Newton steps that are halved until they gain."""
    share = treated.mean()
    weights = np.zeros(white.shape[1] + 1)
    weights[0] = np.log(share / (1 - share))

    def evaluate(w: Floats) -> tuple[float, Floats, Floats]:
        return _logistic_terms(covariates, treated, centre, white, w)

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


def _logistic_terms(
    covariates: Covariates, treated: Bools, centre: Floats, white: Floats, weights: Floats
) -> tuple[float, Floats, Floats]:
    """Log-likelihood, its gradient and minus its Hessian."""
    size = len(weights)
    value, gradient, hessian = 0.0, np.zeros(size), np.zeros((size, size))
    for rows, x in covariates.blocks():
        z = np.empty((len(x), size))
        z[:, 0] = 1.0
        z[:, 1:] = np.nan_to_num(x - centre, nan=0.0) @ white
        margin = z @ weights
        t = treated[rows]
        value -= float(np.logaddexp(0.0, np.where(t, -margin, margin)).sum())
        p = 0.5 * (1 + np.tanh(0.5 * margin))
        gradient += (t - p) @ z
        hessian += (z * (p * (1 - p))[:, None]).T @ z
    return value, gradient, hessian


class ClassifierTest(NamedTuple):
    """How well treatment can be predicted for rows the classifier has not seen."""

    auc: float
    n_test: int
    p_value: float | None


def classifier_test(
    covariates: Covariates, treated: Bools, rng: np.random.Generator, max_rows: int
) -> ClassifierTest:
    """Boosted trees learn treatment from one half of the rows; the AUC on the other half is tested.

    Under randomisation the AUC is 1/2 on average and, given the first half, has the variance of
    the Mann-Whitney statistic. (Pooling folds would not do: their AUCs are correlated.) At most
    ``max_rows`` rows are used; None with fewer than 50 rows in an arm.
    """
    fit, test = _halves(treated, rng, max_rows)
    if min(treated[test].sum(), (~treated[test]).sum()) < 25:
        return ClassifierTest(0.5, len(test), None)
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(
        max_iter=50,
        max_leaf_nodes=15,
        early_stopping=False,
        random_state=int(rng.integers(2**31)),
    )
    model.fit(covariates.table(fit), treated[fit])
    score = model.decision_function(covariates.table(test))
    auc, error = rank_auc(score, treated[test])
    p_value = float(ndtr((0.5 - auc) / error)) if error > 0 else 1.0
    return ClassifierTest(auc, len(test), p_value)


def _halves(
    treated: Bools, rng: np.random.Generator, max_rows: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Two disjoint halves of at most ``max_rows`` random rows, each with the arms in proportion."""
    kept = min(1.0, max_rows / len(treated))
    fit, test = [], []
    for arm in (treated, ~treated):
        rows = rng.permutation(np.flatnonzero(arm))[: int(kept * arm.sum())]
        fit.append(rows[: len(rows) // 2])
        test.append(rows[len(rows) // 2 :])
    return np.sort(np.concatenate(fit)), np.sort(np.concatenate(test))


def rank_auc(score: Floats, positive: Bools) -> tuple[float, float]:
    """AUC with ties counted half, and its standard error when score and class are independent."""
    ranks = pd.Series(score).rank().to_numpy()
    n, n_positive = len(score), int(positive.sum())
    pairs = n_positive * (n - n_positive)
    auc = (ranks[positive].sum() - n_positive * (n_positive + 1) / 2) / pairs
    # The ranks of the positives are drawn without replacement from all ranks, ties averaged.
    return float(auc), float(np.sqrt(ranks.var() / ((n - 1) * pairs)))


def missing_by_arm(covariates: Covariates, treated: Bools) -> pd.DataFrame:
    """Share of missing values by arm and a test of equality, for features that have any."""
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
        records.append(
            (
                feature.name,
                table[1, 0] / n_control,
                table[0, 0] / n_treated,
                _two_by_two(table),
            )
        )
    frame = pd.DataFrame(records, columns=["feature", "control", "treated", "p_value"])
    return frame.sort_values("p_value", kind="stable").reset_index(drop=True)


def _two_by_two(table: NDArray[np.int64]) -> float:
    """p-value of independence: chi-square, or Fisher's exact test if a cell is expected below 5."""
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    if expected.min() < 5:
        from scipy.stats import fisher_exact

        return float(fisher_exact(table)[1])
    return float(chdtrc(1, ((table - expected) ** 2 / expected).sum()))


def chi_square_counts(counts: NDArray[np.int64], shares: Floats) -> tuple[float, float]:
    """Chi-square statistic and p-value of arm counts against the shares that were planned."""
    expected = counts.sum() * shares
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return statistic, float(chdtrc(len(counts) - 1, statistic))


@dataclass(frozen=True)
class Suspect:
    """A feature that should not be used before someone has looked at it.

    ``target`` is "outcome" or "treatment"; ``measure`` is "AUC" or "Spearman" (of the feature with
    the target), or "rows" (how many rows at one end of the feature all have the same target).
    """

    feature: str
    target: str
    measure: str
    value: float

    def __str__(self) -> str:
        if self.measure == "rows":
            return (
                f"{self.feature}: {self.value:,.0f} rows at one end of its values all have the "
                f"same {self.target}"
            )
        return f"{self.feature}: {self.measure} {self.value:.4f} with the {self.target}"


def outcome_suspects(covariates: Covariates, y: Floats) -> tuple[Suspect, ...]:
    """Features that almost settle the outcome.

    With two outcomes: an AUC of a feature alone above .99 (or below .01); or rows at one end of
    its values, at least 50 and 1% of the rarer outcome, that all have the rarer outcome where the
    rows next to them mostly have not (a sum spent, when the outcome is a visit). With more
    outcomes: a rank correlation beyond .99.
    """
    values = pd.unique(y)
    if len(values) == 2:
        positive = y == values.max()
        rarer = positive if 2 * positive.sum() <= len(y) else ~positive
        least = max(50, int(0.01 * rarer.sum()))
        return _found(_separator(f, rarer, "outcome", least) for f in covariates.features)
    if len(values) > 2:
        return _found(_correlate(feature, y) for feature in covariates.features)
    return ()


def treatment_suspects(covariates: Covariates, treated: Bools) -> tuple[Suspect, ...]:
    """Features that tell who was treated: the treatment itself, or something that followed it.

    An AUC of a feature alone above .99 (or below .01); or rows at one end of its values that are
    all of one arm, more than chance could give (an e-mail opened, when only the treated got one).
    """
    return _found(
        _separator(feature, treated, "treatment", FEWEST)
        or _separator(feature, ~treated, "treatment", FEWEST)
        for feature in covariates.features
    )


def _found(candidates: Iterable[Suspect | None]) -> tuple[Suspect, ...]:
    return tuple(suspect for suspect in candidates if suspect is not None)


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
        if len(order) < FEWEST:
            continue
        ranks = pd.DataFrame({"x": order, "y": y[rows]}).rank().to_numpy()
        spread = ranks.std(axis=0)
        if spread.min() == 0:
            continue
        centred = ranks - ranks.mean(axis=0)
        correlation = abs(float(np.mean(centred[:, 0] * centred[:, 1]) / spread.prod()))
        if correlation > ALMOST_ONE:
            return Suspect(feature.name, "outcome", "Spearman", correlation)
    return None


def _orders(feature: Feature, target: Floats) -> Iterator[tuple[Bools, Floats]]:
    """Ways to order rows by a feature: their mask, and a number for each.

    Numbers order the rows that have one; being missing or not orders all rows; levels (missing
    among them) are ordered by the mean of the target, if there are rows enough for means.
    """
    every = np.ones(len(target), dtype=bool)
    if feature.levels:
        codes = feature.values + 1
        if len(codes) >= FEWEST * (len(feature.levels) + 1):
            size = np.maximum(np.bincount(codes), 1)
            yield every, (np.bincount(codes, weights=target) / size)[codes]
        return
    missing = feature.missing
    if not missing.all():
        yield ~missing, feature.numbers(~missing)
    if missing.any():
        yield every, missing.astype(np.float64)


def _pure_end(order: Floats, label: Bools) -> tuple[int, float]:
    """How many rows at the top all have the label, and its share in as many rows after them.

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
