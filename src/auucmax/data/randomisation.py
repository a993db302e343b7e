"""Tests of the randomisation of a trial."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from auucmax._validation import Bools, Floats, check_groups, check_labels, check_level
from auucmax.data import balance
from auucmax.data.balance import Suspect
from auucmax.data.chances import chances_told, check_chances, compare_counts, even_rows
from auucmax.data.clustered import LEAST_GROUPS, Codes, compare_shares, group_codes
from auucmax.data.covariates import Covariates, encode
from auucmax.data.few import LEAST_ROWS
from auucmax.data.randomisation_report import RandomisationReport, RandomisationTest
from auucmax.data.trial import Trial
from auucmax.encoding.kinds import kind_of

MAX_CLASSIFIER_ROWS = 60_000
# A feature in disguise shows in this many rows as well as in all of them.
MAX_SUSPECT_ROWS = 200_000

# Shares of the variation that rows randomised one by one would have: below the first, treatment
# goes by cluster; below the second it does so beyond doubt, with a few wrong records.
BY_CLUSTER = 0.5
NEARLY_NONE = 0.1
# With less expected than this, clusters without variation may be an accident.
ENOUGH = 10.0
_SIZES_UNTESTED = "the sizes of the arms (the planned share is not given)"


def check_randomisation(
    trial: Trial,
    *,
    groups: ArrayLike | None = None,
    expected_share: float | Mapping[Any, float] | Sequence[float] | None = None,
    propensity: ArrayLike | None = None,
    missing_outcomes: Mapping[str, tuple[int, int]] | None = None,
    missing_propensity: Mapping[str, ArrayLike] | None = None,
    missing_groups: Mapping[str, ArrayLike] | None = None,
    ignore: Collection[str] = (),
    after: Collection[str] = (),
    names: Collection[str] = (),
    alpha: float = 0.01,
    random_state: int | np.random.Generator | None = 0,
) -> RandomisationReport:
    """Test whether the arms of a trial differ before treatment.

    A raw AUUC is a difference between the arms among those with high scores. If the chance of
    treatment depends on the features, a score that depends on who was treated gains by it, and
    comparing rankings misleads: so test first. Five questions, for each arm against the control:

    * *Sample ratio*: are the arms of the planned sizes? Chi-square test of the counts, if
      ``expected_share`` is given.
    * *Balance*: do the features predict treatment? Likelihood ratio of the logistic regression of
      treatment on all features (numbers by their mid-ranks, so that a heavy tail does no harm)
      against none; and the AUC, on unseen rows, of boosted trees. The standardised differences
      that are shown are those of the values themselves.
    * *Missing values*: are they as frequent in both arms? A test for each feature that has any.
    * *Attrition*: are outcomes missing as often in both arms? If ``missing_outcomes`` is given.
    * *Disguise*: does a feature almost settle the outcome, or tell treated from control almost
      without fail (an AUC above .99, or values in one arm only)? It was then known only after
      treatment, and says nothing of the randomisation: it is named, and left out of the other
      tests. Any lesser dependence of treatment on a feature is a lack of randomisation. A feature
      that predicts the outcome well, if not so well (an AUC above .85 within an arm), is asked
      about. If the arms differ in one that predicts it at all well (above .75; by itself, p below
      .001), it may be what became of the outcome, and the check fails.

    p-values are corrected by Holm's method over all tests, so a properly randomised trial is
    blamed with a probability of about ``alpha`` at most. Below .0001 the check ``stops`` what would
    follow, such as :func:`auucmax.fit`; so does a feature in disguise.
    Weights of the rows are not used. Where only some rows were randomised (``trial.randomised``),
    those are tested. A trial of which nothing could be tested is not ``ok``.

    Parameters
    ----------
    trial : Trial
    groups : array of shape (n,), optional
        The cluster of each row (a household, a shop). If whole clusters were treated, tests of
        independent rows would take the resemblance of their rows for a lack of randomisation. One
        row of each cluster, drawn at random, then enters all tests; sizes and ``expected_share``
        are those of clusters. If treatment varies within clusters (half as much as among
        independent rows, or more), rows were randomised one by one: all are tested, with standard
        errors by cluster if there are 20 clusters or more. Default: ``trial.groups``. Without
        groups, a ``trial.id`` by which treatment goes gives a warning.
    expected_share : float, mapping or sequence, optional
        Planned share of the treated rows. With several arms: a mapping of labels (or printed
        names) to shares, or the shares in the order of ``trial.arms``, control first.
    propensity : array of shape (n,), optional
        The chance of treatment that each row had by design, where it differed: strata, waves, an
        assignment with exploration. The sample ratio is then that of each stratum of equal chance
        (tenths, if chances are many). All else is tested on rows that are drawn by their chances,
        such that each of them had the same. Two arms only, in place of ``expected_share``.
    missing_outcomes : mapping, optional
        By the printed name of each arm: how many rows have no outcome, and how many were assigned,
        these included. The rows themselves are not in the trial. Where whole groups were treated,
        count each once, by its first row; counts of rows are scaled down to the number of groups,
        which is right where these are of one size. Where treatment varies within groups, count
        rows.
    missing_propensity : mapping, optional
        By the printed name of each arm: the chances of its rows without an outcome, to go with
        ``propensity``; one row of each group, if whole groups were treated.
    missing_groups : mapping, optional
        By the printed name of each arm: the groups of its rows without an outcome, for standard
        errors by group where treatment varies within groups.
    ignore : names of features, default none
        Features that no model learns from. They are tested as all others; but one in disguise does
        no harm then, and becomes a note.
    after : names of features, default none
        What was recorded after treatment, such as other outcomes. It is not tested, and the verdict
        says on which condition it holds.
    names : names of features, default none
        Features that name rows or groups. Treatment must not depend on these either, so they are
        tested, but no model learns from them. So are ``trial.id`` and ``trial.groups``, as "id"
        and "groups", if they are numbers or dates.
    alpha : float, default 0.01
    random_state : int, Generator or None, default 0
        Chooses the row of each cluster, and the rows of the classifier.

    Returns
    -------
    RandomisationReport

    Examples
    --------
    >>> from auucmax.data import check_randomisation, make_trial
    >>> trial = make_trial(2_000, n_features=4, random_state=0)
    >>> report = check_randomisation(trial, expected_share=0.5)
    >>> report.ok
    True
    >>> print(report)
    The trial looks randomised (3 tests).
      Arms  1,000 control, 1,000 treated
    """
    _check_given(trial, alpha)
    rng = np.random.default_rng(random_state)
    groups = trial.groups if groups is None else groups
    codes = None if groups is None else check_groups(groups, trial.n_rows)
    chance = None if propensity is None else _chances(propensity, trial, expected_share)
    trial, names = _with_names(trial, names)
    if groups is not None:
        trial = replace(trial, groups=check_labels(groups, "groups", trial.n_rows))
    if trial.randomised is not None:
        codes = None if codes is None else codes[trial.randomised]
        trial, chance = _taken(trial, chance, np.flatnonzero(trial.randomised))
    n_given = trial.n_rows
    places, grouping = independent_rows(trial, codes, rng, chance)
    trial, chance = _taken(trial, chance, places)
    counts, shares, tests = _sizes(trial, expected_share)
    if chance is None:
        tests += _attrition(missing_outcomes, trial, n_given, missing_groups)
        evened = ""
    else:
        tests = _by_chances(trial, chance, missing_propensity)
        trial, evened = _evened(trial, chance, rng)
    households = () if codes is not None else group_columns(trial.X, trial.treatment)
    covariates = encode(trial.X[[name for name in trial.X if name not in after]])
    suspects, in_disguise, doubts = _suspects(covariates, trial, rng)
    arms = _check_arms(trial, covariates.without(in_disguise), rng, alpha)
    ignore = {*ignore, *names}
    harmless = [found for found in suspects if found.feature in ignore and found.is_after]
    notes = [*covariates.skipped, *(note for arm in arms for note in arm.notes)]
    return RandomisationReport(
        trial_name=trial.name,
        n_rows=sum(counts.values()),
        alpha=alpha,
        counts=counts,
        expected_shares=shares,
        tests=_corrected([*tests, *(test for arm in arms for test in arm.tests)]),
        differences=_stacked([arm.differences for arm in arms], "difference"),
        missing=_stacked([arm.missing for arm in arms], "p_value"),
        suspects=tuple(suspect for suspect in suspects if suspect not in harmless),
        detectable_difference=max(arm.detectable for arm in arms),
        notes=_notes(bool(shares or evened), notes, harmless),
        grouping=grouping,
        evened=evened,
        provided=(*after, *(found.feature for found in harmless if found.target == "treatment")),
        households=tuple(households),
        names=tuple(names),
        doubts=tuple(found for found in doubts if found.feature not in ignore),
    )


def _with_names(trial: Trial, names: Collection[str]) -> tuple[Trial, list[str]]:
    """Add ids and groups that are numbers or dates to the features, with all names.

    Texts that name each row are not tested: they have no order that means something.
    """
    given = {"id": trial.id, "groups": trial.groups}
    columns = {name: pd.Series(own) for name, own in given.items() if own is not None}
    found = {
        name: own.to_numpy()
        for name, own in columns.items()
        if name not in trial.X and kind_of(own) in ("number", "date")
    }
    return replace(trial, X=trial.X.assign(**found)) if found else trial, [*names, *found]


def _notes(sizes_tested: bool, notes: list[str], harmless: list[Suspect]) -> tuple[str, ...]:
    """Tests that were not run, with reasons."""
    sizes = [] if sizes_tested else [_SIZES_UNTESTED]
    return tuple(dict.fromkeys([*sizes, *notes, *map(_why_untested, harmless)]))


def _chances(propensity: ArrayLike, trial: Trial, expected_share: object) -> Floats:
    if trial.is_multi_arm:
        raise ValueError(
            f"propensity should come with two arms, got {len(trial.arms)}. Compare two of them."
        )
    if expected_share is not None:
        raise ValueError(
            "expected_share should be left out with propensity, got both. The chances say how many "
            "rows should be treated."
        )
    chance = check_chances(pd.Series(np.asarray(propensity)), "propensity")
    if len(chance) != trial.n_rows:
        raise ValueError(
            f"propensity should have {trial.n_rows:,} values, one for each row, got "
            f"{len(chance):,}. Pass the chance of each row."
        )
    return chance


def _taken(
    trial: Trial, chance: Floats | None, places: NDArray[np.intp]
) -> tuple[Trial, Floats | None]:
    """Select rows by position."""
    if len(places) == trial.n_rows:
        return trial, chance
    return trial.take(places), None if chance is None else chance[places]


def _by_chances(
    trial: Trial, chance: Floats, missing: Mapping[str, ArrayLike] | None
) -> list[RandomisationTest]:
    """Test treated counts against propensities, with and without an outcome."""
    found = compare_counts(trial.treated, chance)
    tests = [RandomisationTest("chances", "", 0.0, found.p_value, found.detail)]
    lost = [np.asarray((missing or {}).get(name, ())) for name in trial.arm_names or ()]
    if any(map(len, lost)):
        treated = np.repeat([False, True], [len(own) for own in lost])
        found = compare_counts(treated, np.concatenate(lost))
        tests.append(RandomisationTest("missing outcomes", "", 0.0, found.p_value, found.detail))
    return tests


def _evened(trial: Trial, chance: Floats, rng: np.random.Generator) -> tuple[Trial, str]:
    """A random subset with equal propensities, and a sentence about it."""
    kept = np.flatnonzero(even_rows(trial.treated, chance, rng))
    found = f"chances of treatment are known, {chances_told(chance)}"
    if len(kept) == trial.n_rows:
        return trial, found
    if len(np.unique(trial.treated[kept])) < 2:
        raise ValueError(
            f"propensity should leave rows of both arms to compare, got {len(kept):,} rows of one "
            f"arm among those of like chances. Collect more rows."
        )
    return trial.take(kept), (
        f"{found}: the arms are compared on {len(kept):,} of the {trial.n_rows:,} rows, drawn such "
        f"that each had the same chance"
    )


def _check_given(trial: object, alpha: float) -> None:
    check_level(alpha, "alpha")
    if not isinstance(trial, Trial):
        raise TypeError(
            f"trial should be a Trial, got {type(trial).__name__}. "
            f"Make one of the columns: Trial(X, y, treatment)."
        )


def _counts(trial: Trial) -> dict[str, int]:
    """Rows of each arm by its name, control first."""
    return {
        name: int((trial.treatment == label).sum())
        for name, label in zip(trial.arm_names or (), trial.arms, strict=True)
    }


class _Arm(NamedTuple):
    """Results for one arm against the control."""

    tests: list[RandomisationTest]
    differences: pd.DataFrame
    missing: pd.DataFrame
    notes: list[str]
    detectable: float


def _arms(
    trial: Trial, covariates: Covariates
) -> Iterator[tuple[str, Covariates, Bools, Codes | None]]:
    """Name (blank if only one), features, treatment and groups of each arm with control."""
    if not trial.is_multi_arm:
        yield "", covariates, trial.treated, group_codes(trial.groups)
        return
    for name, label in zip((trial.arm_names or ())[1:], trial.arms[1:], strict=True):
        rows = np.flatnonzero((trial.treatment == label) | (trial.treatment == trial.control))
        codes = group_codes(None if trial.groups is None else trial.groups[rows])
        yield name, covariates.take(rows), trial.treatment[rows] == label, codes


def _check_arms(
    trial: Trial, covariates: Covariates, rng: np.random.Generator, alpha: float
) -> list[_Arm]:
    # Small matrices and trees: threads cost more than they save, far more on a busy machine.
    with threadpool_limits(1):
        return [_check_arm(*arm, rng, alpha) for arm in _arms(trial, covariates)]


def _check_arm(
    arm: str,
    covariates: Covariates,
    treated: Bools,
    codes: Codes | None,
    rng: np.random.Generator,
    alpha: float,
) -> _Arm:
    detectable = balance.detectable_difference(treated, alpha)
    if not covariates.features:
        note = "balance (no feature can be used)"
        return _Arm([], _empty("difference", "few"), _empty("p_value", "few"), [note], detectable)
    moments = balance.compute_moments(covariates, treated)
    differences = balance.differences(covariates, moments, treated)
    ratio = balance.likelihood_ratio_test(covariates, treated, codes)
    trees = balance.classifier_test(covariates, treated, rng, MAX_CLASSIFIER_ROWS, codes)
    missing = balance.missing_by_arm(covariates, treated, codes)
    tests, notes = [], []
    if ratio.p_value is None:
        notes.append("the likelihood ratio (it needs more rows than columns)")
    else:
        few = " (few rows: p of the F test)" if ratio.law == "F" else ""
        detail = f"{ratio.statistic:.1f} on {ratio.degrees} degrees of freedom{few}"
        tests.append(
            RandomisationTest("likelihood ratio", arm, ratio.statistic, ratio.p_value, detail)
        )
    if trees.p_value is None:
        notes.append("the classifier (it needs 50 rows of each arm)")
    else:
        detail = f"AUC {trees.auc:.3f} on {trees.n_test:,} unseen rows"
        tests.append(RandomisationTest("classifier", arm, trees.auc, trees.p_value, detail))
    if len(missing):
        first = missing.iloc[0]
        p_value = min(1.0, len(missing) * float(first["p_value"]))
        detail = (
            f"{first['feature']}: {first['control']:.2%} of control, "
            f"{first['treated']:.2%} of treated"
        )
        gap = float(first["treated"] - first["control"])
        test = RandomisationTest("missing values", arm, gap, p_value, detail)
        tests.append(replace(test, few=bool(first["few"])))
    return _Arm(tests, differences.assign(arm=arm), missing.assign(arm=arm), notes, detectable)


def _empty(*last: str) -> pd.DataFrame:
    return pd.DataFrame(columns=["feature", "control", "treated", *last, "arm"], dtype=np.float64)


def _sizes(
    trial: Trial, expected_share: Any
) -> tuple[dict[str, int], dict[str, float] | None, list[RandomisationTest]]:
    """Arm sizes, planned shares, and the sample-ratio test if there are any."""
    counts = _counts(trial)
    if expected_share is None:
        return counts, None, []
    shares = _planned_shares(expected_share, trial)
    observed = np.array(list(counts.values()))
    statistic, p_value = balance.chi_square_counts(observed, np.array(list(shares.values())))
    total = observed.sum()
    detail = ", ".join(
        f"{name} {n / total:.2%}, planned {shares[name]:.2%}" for name, n in counts.items()
    )
    return counts, shares, [RandomisationTest("sample ratio", "", statistic, p_value, detail)]


def _attrition(
    missing: Mapping[str, tuple[int, int]] | None,
    trial: Trial,
    n_given: int,
    groups: Mapping[str, ArrayLike] | None,
) -> list[RandomisationTest]:
    """Test whether outcomes are missing equally often in each arm and the control.

    ``n_given``: rows, of which those of the trial count as independent; rows of a cluster may all
    be lost. ``groups``: of the rows without an outcome, by arm.
    """
    names = trial.arm_names or ()
    if missing is None or not any(lost for lost, _ in missing.values()):
        return []
    if set(missing) != set(names) or not all(0 <= lost <= n > 0 for lost, n in missing.values()):
        raise ValueError(
            f"missing_outcomes should give the rows without an outcome, and all rows, of each of "
            f"{', '.join(map(repr, names))}; got {missing!r}. Count rows by arm."
        )
    tests, found = [], sum(n - lost for lost, n in missing.values())
    # Of rows: the part that counts. Groups that were counted themselves all do.
    scale = min(1.0, trial.n_rows / max(min(n_given, found), 1))
    units = "groups" if found < n_given else "rows"
    for arm in names[1:]:
        rows = np.array([missing[arm], missing[names[0]]])
        table = np.rint(scale * np.column_stack([rows[:, 0], rows[:, 1] - rows[:, 0]]))
        p_value = balance.equal_shares(table.astype(np.int64)) if table.any(axis=0).all() else 1.0
        if groups is not None and group_codes(trial.groups) is not None:
            p_value = max(p_value, _attrition_by_group(missing, trial, groups, arm))
        shares = rows[:, 0] / rows[:, 1]
        detail = ", ".join(
            f"{name} {share:.2%} ({lost:,} of {n:,} {units})"
            for name, share, (lost, n) in zip((arm, names[0]), shares, rows, strict=True)
        )
        gap, of_arm = float(shares[0] - shares[1]), arm if trial.is_multi_arm else ""
        test = RandomisationTest("missing outcomes", of_arm, gap, p_value, detail)
        tests.append(replace(test, few=bool(rows[:, 0].min() < LEAST_ROWS)))
    return tests


def _attrition_by_group(
    missing: Mapping[str, tuple[int, int]],
    trial: Trial,
    groups: Mapping[str, ArrayLike],
    arm: str,
) -> float:
    """Clustered p-value for missing outcomes in one arm; 0 with too few groups.

    Rows of the trial may be a sample of those that were counted.
    """
    labels = dict(zip(trial.arm_names or (), trial.arms, strict=True))
    names = (trial.arm_names or ())[0], arm
    kept = [np.asarray(trial.groups)[trial.treatment == labels[name]] for name in names]
    lost = [np.asarray(groups.get(name, ())) for name in names]
    parts = [own.astype(object) for own in (*kept, *lost)]
    codes = group_codes(np.concatenate(parts))
    if codes is None:
        return 0.0
    ends = np.cumsum([len(own) for own in parts])[:-1]
    most = int(codes.max()) + 1
    counts = np.stack([np.bincount(own, minlength=most) for own in np.split(codes, ends)])
    n_kept = np.array([missing[name][1] - missing[name][0] for name in names])
    scale = n_kept / np.maximum(counts[:2].sum(axis=1), 1)
    return compare_shares(counts[2:], counts[2:] + counts[:2] * scale[:, None])


def _why_untested(suspect: Suspect) -> str:
    if suspect.target == "outcome":
        return f"{suspect.feature}, which almost settles the outcome and is left out of the model"
    return f"{suspect.feature}, which reveals who was treated and is left out of the model"


def _corrected(tests: list[RandomisationTest]) -> tuple[RandomisationTest, ...]:
    adjusted = balance.holm(np.array([test.p_value for test in tests])).tolist()
    found = zip(tests, adjusted, strict=True)
    return tuple(replace(test, adjusted_p_value=p_value) for test, p_value in found)


def _stacked(tables: list[pd.DataFrame], by: str) -> pd.DataFrame:
    """Stack the tables of all arms, sorted by difference or p-value."""
    table = pd.concat(tables, ignore_index=True)
    key = -table[by].abs() if by == "difference" else table[by]
    table = table.loc[key.sort_values(kind="stable").index].reset_index(drop=True)
    return table[["arm", *table.columns.drop("arm")]]


def _suspects(
    covariates: Covariates, trial: Trial, rng: np.random.Generator
) -> tuple[tuple[Suspect, ...], set[str], tuple[Suspect, ...]]:
    """Suspicious features, features to ignore in the tests, and questions."""
    if trial.n_rows > MAX_SUSPECT_ROWS:
        rows = np.sort(rng.choice(trial.n_rows, MAX_SUSPECT_ROWS, replace=False))
        covariates, trial = covariates.take(rows), trial.take(rows)
    y, treatment = trial.y, trial.treatment
    found = [
        suspect
        for label in (trial.arms[1:] if not trial.is_multi_arm else trial.arms)
        for suspect in balance.treatment_suspects(covariates, treatment == label)
    ]
    # With several arms: that it tells one of them without fail, if it does.
    first = {suspect.feature: suspect for suspect in sorted(found, key=lambda s: s.is_after)}
    suspects = (*first.values(), *balance.outcome_suspects(covariates, y))
    rest = covariates.without({suspect.feature for suspect in suspects})
    strong = balance.outcome_hints(rest, y, treatment)
    shifted = {
        suspect.feature: suspect
        for label in trial.arms[1:]
        for suspect in _shifted(rest, strong, trial, label)
    }
    suspects = (*suspects, *shifted.values())
    depends = {suspect.feature for suspect in suspects if not suspect.is_after}
    named = {suspect.feature for suspect in suspects}
    doubts = tuple(hint for hint in strong if hint.is_high or hint.feature in shifted)
    return suspects, named - depends, doubts


def _shifted(
    covariates: Covariates, strong: Sequence[Suspect], trial: Trial, label: Any
) -> tuple[Suspect, ...]:
    if not strong:
        return ()
    treatment = trial.treatment
    rows = np.flatnonzero((treatment == label) | (treatment == trial.control))
    codes = group_codes(None if trial.groups is None else trial.groups[rows])
    return balance.shifted_suspects(covariates.take(rows), strong, treatment[rows] == label, codes)


def _planned_shares(
    expected: float | Mapping[Any, float] | Sequence[float], trial: Trial
) -> dict[str, float]:
    names = trial.arm_names or ()
    given: dict[Any, float] = {}
    with suppress(TypeError, ValueError):
        if isinstance(expected, Mapping):
            known = dict(zip(trial.arms, names, strict=True))
            given = {known.get(key, key): float(share) for key, share in expected.items()}
        else:
            each = np.asarray(expected, dtype=np.float64)
            if each.ndim == 0:  # that of the treated
                each = np.array([1 - each, each])
            if each.ndim == 1:
                given = dict(zip(names, each.tolist(), strict=True))
    shares = np.array(list(given.values()))
    if set(given) != set(names) or not (shares.min() > 0 and abs(shares.sum() - 1) <= 1e-6):
        raise ValueError(
            f"expected_share should give each arm a positive share, in all 1, for "
            f"{', '.join(map(repr, names))}; got {expected!r}. Pass the share of the treated rows, "
            f"such as 0.5, or one of each arm."
        )
    return {name: given[name] for name in names}


class Variation(NamedTuple):
    """Variation of treatment within clusters of at least two rows."""

    found: float
    expected: float  # if rows had been randomised one by one
    repeated: int  # clusters of two rows or more
    mixed: int  # those of them with more than one arm

    @property
    def is_by_row(self) -> bool:
        """Whether rows, rather than whole clusters, were randomised."""
        return self.repeated > 0 and self.found >= BY_CLUSTER * self.expected


def within_clusters(
    codes: Codes, treatment: NDArray[np.generic], chance: Floats | None = None
) -> Variation:
    """Compare the variation of treatment within clusters with that of independent rows.

    found = sum over clusters of n - sum over arms of n_arm^2 / n, which for independent rows has
    the mean sum of (n - 1) (1 - sum over arms of share^2). ``chance``: of treatment of each row, of
    two arms, if known; the mean is then by these.
    """
    size = np.bincount(codes)
    squares, concentration = np.zeros(len(size)), 0.0
    arm_codes, arms = pd.factorize(treatment)
    largest = np.zeros(len(size), dtype=size.dtype)
    for arm in range(len(arms)):
        count = np.bincount(codes[arm_codes == arm], minlength=len(size))
        squares += count.astype(np.float64) ** 2
        largest = np.maximum(largest, count)
        concentration += (count.sum() / len(codes)) ** 2
    found = float(np.sum(size - squares / np.maximum(size, 1)))
    extra = len(codes) - np.count_nonzero(size)
    expected = float(extra * (1 - concentration))
    if chance is not None:
        total, noise = np.bincount(codes, chance), np.bincount(codes, chance * (1 - chance))
        expected = float(np.sum(2 * (total - (total**2 + noise) / np.maximum(size, 1))))
    mixed = int(np.count_nonzero(largest < size))
    return Variation(found, expected, int(np.count_nonzero(size > 1)), mixed)


def varies_within(
    codes: Codes, treatment: NDArray[np.generic], chance: Floats | None = None
) -> bool:
    """Whether rows were randomised one by one, rather than whole clusters.

    >>> shop = np.arange(400) // 20
    >>> varies_within(shop, np.arange(400) % 2), varies_within(shop, shop % 2)
    (True, False)
    """
    return within_clusters(codes, treatment, chance).is_by_row


def group_columns(features: pd.DataFrame, treatment: NDArray[np.generic]) -> list[str]:
    """Columns that look like clusters of randomisation, such as households.

    >>> home = np.arange(400) // 2
    >>> frame = pd.DataFrame({"home": home, "age": np.arange(400) % 70})
    >>> group_columns(frame, np.random.default_rng(0).random(200)[home] < 0.5)
    ['home']
    """
    found = []
    for name in features.columns:
        values = features[name]
        codes = pd.factorize(values if values.dtype != object else values.astype(str))[0]
        codes, kept = codes[codes >= 0], treatment[codes >= 0]
        if len(codes) == 0 or codes.max() < LEAST_GROUPS:
            continue
        variation = within_clusters(codes, kept)
        if variation.expected >= 2 * ENOUGH and variation.found < NEARLY_NONE * variation.expected:
            found.append(str(name))
    return found


def independent_rows(
    trial: Trial, codes: Codes | None, rng: np.random.Generator, chance: Floats | None = None
) -> tuple[NDArray[np.intp], str]:
    """Positions of rows that can be tested as independent, and a sentence about them.

    One row of each cluster, drawn at random, where treatment goes by cluster; all rows where it
    varies within clusters about as much as it would if rows had been randomised one by one.
    Without clusters, a warning if rows share an id and treatment goes by it.
    """
    if codes is None:
        if trial.id is not None:
            _warn_of_clusters(within_clusters(pd.factorize(trial.id)[0], trial.treatment))
        return np.arange(trial.n_rows), ""
    variation = within_clusters(codes, trial.treatment, chance)
    if variation.repeated == 0:
        return np.arange(trial.n_rows), "each cluster has one row"
    if variation.is_by_row:
        errors = "" if group_codes(codes) is None else ", with standard errors by cluster"
        return np.arange(trial.n_rows), (
            f"all rows are tested, for treatment varies within clusters{errors}"
        )
    order = rng.permutation(trial.n_rows)
    rows = np.sort(order[~pd.Series(codes[order]).duplicated().to_numpy()])
    exceptions = f" (but in {variation.mixed:,})" if variation.mixed else ""
    return rows, (
        f"one row of each of the {len(rows):,} clusters is tested (of {trial.n_rows:,} rows), for "
        f"treatment is the same within clusters{exceptions}"
    )


def _warn_of_clusters(variation: Variation) -> None:
    """Warn if treatment depends on the ids of rows more than chance allows."""
    if variation.expected < ENOUGH or variation.found > NEARLY_NONE * variation.expected:
        return
    same = 1 - variation.mixed / variation.repeated
    warnings.warn(
        f"trial.id should name each row, or groups should be given; got {variation.repeated:,} ids "
        f"of several rows, {same:.1%} of them with one treatment for all. Rows of one id are then "
        f"not independent, and a fair trial may be blamed: pass groups=trial.id. (If each row was "
        f"randomised by itself, pass groups=range(len(y)).)",
        stacklevel=4,
    )
