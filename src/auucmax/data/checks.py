"""Was treatment given at random? Tests of the randomisation of a trial."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from auucmax._validation import check_groups, check_level
from auucmax.data import balance
from auucmax.data.clusters import independent_rows, warn_of_clusters
from auucmax.data.covariates import Covariates, encode
from auucmax.data.randomisation import RandomisationReport, RandomisationTest
from auucmax.data.suspects import Suspect, outcome_suspects, treatment_suspects
from auucmax.data.trial import Trial

__all__ = ["RandomisationReport", "RandomisationTest", "check_randomisation"]

Bools = NDArray[np.bool_]

MAX_CLASSIFIER_ROWS = 60_000
# A feature in disguise shows in this many rows as well as in all of them.
MAX_SUSPECT_ROWS = 200_000


def check_randomisation(
    trial: Trial,
    *,
    groups: ArrayLike | None = None,
    expected_share: float | Mapping[Any, float] | Sequence[float] | None = None,
    alpha: float = 0.01,
    random_state: int | np.random.Generator | None = 0,
) -> RandomisationReport:
    """Test whether the arms of a trial differ before treatment, as they should not.

    A raw AUUC is a difference between the arms among those with high scores. If the chance of
    treatment depends on the features, a score that has learnt who was treated gains by it, and
    comparing rankings misleads: so test first. Four questions, for each arm against the control:

    * *Sample ratio*: are the arms of the planned sizes? Chi-square test of the counts, if
      ``expected_share`` is given.
    * *Balance*: do the features predict treatment? Likelihood ratio of the logistic regression of
      treatment on all features (numbers by their mid-ranks, so that a heavy tail does no harm)
      against none; and the AUC, on unseen rows, of boosted trees. The standardised differences
      that are shown are those of the values themselves.
    * *Missing values*: are they as frequent in both arms? A test for each feature that has any.
    * *Disguise*: does a feature almost settle the outcome, or tell who was treated? Such features
      are named, and left out of the other tests.

    p-values are corrected by Holm's method over all tests, so a properly randomised trial is
    blamed with a probability of about ``alpha`` at most. Weights of the rows are not used. Where
    only some rows were randomised (``trial.randomised``), those are tested. A trial of which
    nothing could be tested is not ``ok``.

    Parameters
    ----------
    trial : Trial
    groups : array of shape (n,), optional
        The cluster of each row (a household, a shop), when treatment was given to clusters: their
        rows are alike and treated alike, which tests of independent rows would take for a lack of
        randomisation. One row of each cluster, drawn at random, then enters all tests; sizes and
        ``expected_share`` are those of clusters. If treatment varies within clusters (half as much
        as among independent rows, or more), rows were randomised by themselves: all are tested.
        Without ``groups``, a ``trial.id`` by which treatment goes gives a warning.
    expected_share : float, mapping or sequence, optional
        Planned share of the treated rows. With several arms: a mapping of labels (or printed
        names) to shares, or the shares in the order of ``trial.arms``, control first.
    alpha : float, default 0.01
    random_state : int, Generator or None, default 0
        Chooses the row of each cluster, and the rows of the classifier.

    Returns
    -------
    RandomisationReport

    Examples
    --------
    >>> from auucmax.data.checks import check_randomisation
    >>> from auucmax.data.synthetic import make_trial
    >>> trial = make_trial(2_000, n_features=4, random_state=0)
    >>> report = check_randomisation(trial, expected_share=0.5)
    >>> report.ok
    True
    >>> print(report.verdict)
    No evidence against randomisation (3 tests, smallest corrected p = 1).
    """
    check_level(alpha, "alpha")
    rng = np.random.default_rng(random_state)
    codes = _check_arguments(trial, groups)
    if trial.randomised is not None:
        codes = None if codes is None else codes[trial.randomised]
        trial = trial.take(trial.randomised)
    grouping = ""
    if codes is None:
        warn_of_clusters(trial)
    else:
        trial, grouping = independent_rows(trial, codes, rng)
    counts = {
        name: int((trial.treatment == label).sum())
        for name, label in zip(trial.arm_names or (), trial.arms, strict=True)
    }
    shares = None if expected_share is None else _planned_shares(expected_share, trial)
    covariates = encode(trial.X)
    suspects = _suspects(covariates, trial, rng)
    covariates = covariates.without({suspect.feature for suspect in suspects})
    # Small matrices and trees: threads cost more than they save, far more on a busy machine.
    with threadpool_limits(1):
        arms = [_check_arm(*arm, rng) for arm in _arms(trial, covariates)]
    tests = [] if shares is None else [_sample_ratio(counts, shares)]
    tests += [test for arm in arms for test in arm.tests]
    notes = [*covariates.skipped, *(note for arm in arms for note in arm.notes)]
    if shares is None:
        notes.insert(0, "the sizes of the arms (pass expected_share, the planned share)")
    return RandomisationReport(
        trial_name=trial.name,
        n_rows=trial.n_rows,
        alpha=alpha,
        counts=counts,
        expected_shares=shares,
        tests=_corrected(tests),
        differences=_stacked([arm.differences for arm in arms], "difference"),
        missing=_stacked([arm.missing for arm in arms], "p_value"),
        suspects=suspects,
        detectable_difference=max(arm.detectable(alpha) for arm in arms),
        notes=tuple(dict.fromkeys(notes)),
        grouping=grouping,
    )


def _check_arguments(trial: object, groups: ArrayLike | None) -> NDArray[np.intp] | None:
    """The cluster numbers of the rows, if any."""
    if not isinstance(trial, Trial):
        raise TypeError(
            f"trial should be a Trial, got {type(trial).__name__}. "
            f"Make one of the columns: Trial(X, y, treatment)."
        )
    return None if groups is None else check_groups(groups, trial.n_rows)


class _Arm(NamedTuple):
    """What was found in one arm against the control."""

    tests: list[RandomisationTest]
    differences: pd.DataFrame
    missing: pd.DataFrame
    notes: list[str]
    treated: Bools

    def detectable(self, alpha: float) -> float:
        return balance.detectable_difference(self.treated, alpha)


def _arms(trial: Trial, covariates: Covariates) -> Iterator[tuple[str, Covariates, Bools]]:
    """Name (blank if there is only one), features and treatment of each arm with the control."""
    if not trial.is_multi_arm:
        yield "", covariates, trial.treated
        return
    for name, label in zip((trial.arm_names or ())[1:], trial.arms[1:], strict=True):
        rows = np.flatnonzero((trial.treatment == label) | (trial.treatment == trial.control))
        yield name, covariates.take(rows), trial.treatment[rows] == label


def _check_arm(arm: str, covariates: Covariates, treated: Bools, rng: np.random.Generator) -> _Arm:
    if not covariates.features:
        note = "balance (no feature can be used)"
        return _Arm([], _empty("difference"), _empty("p_value"), [note], treated)
    moments = balance.compute_moments(covariates, treated)
    differences = balance.differences(covariates, moments)
    ratio = balance.likelihood_ratio_test(covariates, treated)
    trees = balance.classifier_test(covariates, treated, rng, MAX_CLASSIFIER_ROWS)
    missing = balance.missing_by_arm(covariates, treated)
    tests, notes = [], []
    if ratio.p_value is None:
        notes.append("the likelihood ratio (it needs more rows than columns)")
    else:
        few = " (few rows: p of the F test)" if ratio.law == "F" else ""
        detail = f"{ratio.statistic:.1f} on {ratio.degrees} degrees of freedom{few}"
        tests.append(_test("likelihood ratio", arm, ratio.statistic, ratio.p_value, detail))
    if trees.p_value is None:
        notes.append("the classifier (it needs 50 rows of each arm)")
    else:
        detail = f"AUC {trees.auc:.3f} on {trees.n_test:,} unseen rows"
        tests.append(_test("classifier", arm, trees.auc, trees.p_value, detail))
    if len(missing):
        first = missing.iloc[0]
        p_value = min(1.0, len(missing) * float(first["p_value"]))
        detail = (
            f"{first['feature']}: {first['control']:.2%} of control, "
            f"{first['treated']:.2%} of treated"
        )
        gap = float(first["treated"] - first["control"])
        tests.append(_test("missing values", arm, gap, p_value, detail))
    return _Arm(tests, differences.assign(arm=arm), missing.assign(arm=arm), notes, treated)


def _empty(last: str) -> pd.DataFrame:
    return pd.DataFrame(columns=["feature", "control", "treated", last, "arm"], dtype=np.float64)


def _test(name: str, arm: str, statistic: float, p_value: float, detail: str) -> RandomisationTest:
    return RandomisationTest(name, arm, float(statistic), p_value, p_value, detail)


def _sample_ratio(counts: dict[str, int], shares: dict[str, float]) -> RandomisationTest:
    observed = np.array(list(counts.values()))
    statistic, p_value = balance.chi_square_counts(observed, np.array(list(shares.values())))
    total = observed.sum()
    detail = ", ".join(
        f"{name} {n / total:.2%}, planned {shares[name]:.2%}" for name, n in counts.items()
    )
    return _test("sample ratio", "", statistic, p_value, detail)


def _corrected(tests: list[RandomisationTest]) -> tuple[RandomisationTest, ...]:
    """Holm: the i-th smallest of m p-values times m - i + 1, made monotone."""
    p_values = np.array([test.p_value for test in tests])
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(tests), 0, -1)
    adjusted = np.empty(len(tests))
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * p_values[order]), 1.0)
    return tuple(
        RandomisationTest(t.name, t.arm, t.statistic, t.p_value, float(p), t.detail)
        for t, p in zip(tests, adjusted, strict=True)
    )


def _stacked(tables: list[pd.DataFrame], by: str) -> pd.DataFrame:
    """One table, the arm first; the largest differences or the smallest p-values on top."""
    table = pd.concat(tables, ignore_index=True)
    key = -table[by].abs() if by == "difference" else table[by]
    table = table.loc[key.sort_values(kind="stable").index].reset_index(drop=True)
    return table[["arm", *table.columns.drop("arm")]]


def _suspects(
    covariates: Covariates, trial: Trial, rng: np.random.Generator
) -> tuple[Suspect, ...]:
    y, treatment = trial.y, trial.treatment
    if trial.n_rows > MAX_SUSPECT_ROWS:
        rows = np.sort(rng.choice(trial.n_rows, MAX_SUSPECT_ROWS, replace=False))
        covariates, y, treatment = covariates.take(rows), y[rows], treatment[rows]
    found = [
        suspect
        for label in (trial.arms[1:] if not trial.is_multi_arm else trial.arms)
        for suspect in treatment_suspects(covariates, treatment == label)
    ]
    first = {suspect.feature: suspect for suspect in reversed(found)}
    return (*reversed(first.values()), *outcome_suspects(covariates, y))


def _planned_shares(
    expected: float | Mapping[Any, float] | Sequence[float], trial: Trial
) -> dict[str, float]:
    names = trial.arm_names or ()
    try:
        given = _share_by_name(expected, names, trial.arms)
    except (TypeError, ValueError):
        given = {}
    shares = np.array(list(given.values()))
    if set(given) != set(names) or not (shares.min() > 0 and abs(shares.sum() - 1) <= 1e-6):
        raise ValueError(
            f"expected_share should give each arm a positive share, in all 1, for "
            f"{', '.join(map(repr, names))}; got {expected!r}. Pass the share of the treated rows, "
            f"or with several arms a mapping of labels to shares."
        )
    return {name: given[name] for name in names}


def _share_by_name(
    expected: Any, names: tuple[str, ...], labels: tuple[Any, ...]
) -> dict[Any, float]:
    if isinstance(expected, Mapping):
        known = {label: name for name, label in zip(names, labels, strict=True)}
        return {known.get(key, key): float(share) for key, share in expected.items()}
    shares = np.asarray(expected, dtype=np.float64)
    if shares.ndim == 0 and len(names) == 2:
        shares = np.array([1 - shares, shares])
    return dict(zip(names, shares.tolist(), strict=True)) if shares.ndim == 1 else {}
