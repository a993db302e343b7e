"""Was treatment given at random? Tests of the randomisation of a trial, and their report."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from auucmax._validation import Bools, check_groups, check_level
from auucmax.data import balance
from auucmax.data.balance import Suspect
from auucmax.data.covariates import Covariates, encode
from auucmax.data.trial import Trial

MAX_CLASSIFIER_ROWS = 60_000
# A feature in disguise shows in this many rows as well as in all of them.
MAX_SUSPECT_ROWS = 200_000
Codes = NDArray[np.intp]

# Shares of the variation that rows randomised one by one would have: below the first, treatment
# goes by cluster; below the second it does so beyond doubt, with a few wrong records.
BY_CLUSTER = 0.5
NEARLY_NONE = 0.1
# With less expected than this, clusters without variation may be an accident.
ENOUGH = 10.0
# Below this standardised difference an imbalance is too small to matter much to an average.
SMALL = 0.02


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
    >>> from auucmax.data import check_randomisation, make_trial
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
        replace(test, adjusted_p_value=float(p)) for test, p in zip(tests, adjusted, strict=True)
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
        for suspect in balance.treatment_suspects(covariates, treatment == label)
    ]
    first = {suspect.feature: suspect for suspect in reversed(found)}
    return (*reversed(first.values()), *balance.outcome_suspects(covariates, y))


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


class Variation(NamedTuple):
    """How treatment varies within clusters of two rows or more."""

    found: float
    expected: float  # if rows had been randomised one by one
    repeated: int  # clusters of two rows or more
    mixed: int  # those of them with more than one arm


def within_clusters(codes: Codes, treatment: NDArray[np.generic]) -> Variation:
    """Variation of treatment within clusters, against that of independent rows.

    found = sum over clusters of n - sum over arms of n_arm^2 / n, which for independent rows has
    the mean sum of (n - 1) (1 - sum over arms of share^2).
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
    mixed = int(np.count_nonzero(largest < size))
    return Variation(found, extra * (1 - concentration), int(np.count_nonzero(size > 1)), mixed)


def independent_rows(trial: Trial, codes: Codes, rng: np.random.Generator) -> tuple[Trial, str]:
    """The rows that may be tested as independent, and a sentence that says which.

    One row of each cluster, drawn at random, where treatment goes by cluster; all rows where it
    varies within clusters about as much as it would if rows had been randomised one by one.
    """
    variation = within_clusters(codes, trial.treatment)
    if variation.repeated == 0:
        return trial, "each cluster has one row"
    if variation.found >= BY_CLUSTER * variation.expected:
        return trial, "all rows are tested, for treatment varies within clusters"
    order = rng.permutation(trial.n_rows)
    rows = np.sort(order[~pd.Series(codes[order]).duplicated().to_numpy()])
    exceptions = f" (but in {variation.mixed:,})" if variation.mixed else ""
    return trial.take(rows), (
        f"one row of each of the {len(rows):,} clusters is tested (of {trial.n_rows:,} rows), for "
        f"treatment is the same within clusters{exceptions}"
    )


def warn_of_clusters(trial: Trial) -> None:
    """Warn if rows share an id and treatment goes by it, more than chance would have it."""
    if trial.id is None:
        return
    variation = within_clusters(pd.factorize(trial.id)[0], trial.treatment)
    if variation.expected < ENOUGH or variation.found > NEARLY_NONE * variation.expected:
        return
    same = 1 - variation.mixed / variation.repeated
    warnings.warn(
        f"trial.id should name each row, or groups should be given; got {variation.repeated:,} ids "
        f"of several rows, {same:.1%} of them with one treatment for all. Rows of one id are then "
        f"not independent, and a fair trial may be blamed: pass groups=trial.id. (If each row was "
        f"randomised by itself, pass groups=range(len(y)).)",
        stacklevel=3,
    )


@dataclass(frozen=True)
class RandomisationTest:
    """One test of one arm against the control (of all arms, for the sample ratio).

    ``name`` is "sample ratio", "likelihood ratio", "classifier" or "missing values";
    ``adjusted_p_value`` is corrected by Holm's method over all tests of the report.
    """

    name: str
    arm: str
    statistic: float
    p_value: float
    adjusted_p_value: float
    detail: str


@dataclass(frozen=True, eq=False, repr=False)
class RandomisationReport:
    """All numbers of a check of the randomisation; printing it gives the verdict first.

    Attributes
    ----------
    trial_name, n_rows, alpha
        What was tested, and the chance of a false alarm that was accepted.
    counts : dict of arm name to rows, control first
    expected_shares : dict of arm name to planned share, or None if none was given
    tests : tuple of RandomisationTest
    differences : DataFrame
        arm, feature, means of control and treated, and their standardised difference, the largest
        first.
    missing : DataFrame
        arm, feature, share missing in control and treated, and p_value, the smallest first.
    suspects : tuple of Suspect
        Features that look like the outcome or the treatment in disguise.
    detectable_difference : float
        The standardised difference of a single feature that would be found four times in five.
    notes : tuple of str
        What was not tested, and why.
    grouping : str
        Whether rows or clusters were tested, and why; empty if no groups were given.
    """

    trial_name: str
    n_rows: int
    alpha: float
    counts: dict[str, int]
    expected_shares: dict[str, float] | None
    tests: tuple[RandomisationTest, ...]
    differences: pd.DataFrame
    missing: pd.DataFrame
    suspects: tuple[Suspect, ...]
    detectable_difference: float
    notes: tuple[str, ...]
    grouping: str = ""

    @property
    def failures(self) -> tuple[RandomisationTest, ...]:
        """The tests that fail, at level ``alpha`` over all tests together."""
        return tuple(test for test in self.tests if test.adjusted_p_value <= self.alpha)

    @property
    def ok(self) -> bool:
        """Something could be tested, no test fails and no feature is suspect."""
        return bool(self.tests) and not self.failures and not self.suspects

    @property
    def verdict(self) -> str:
        """One sentence: no evidence against randomisation, or what fails or is lacking."""
        if self.failures or self.suspects:
            return f"The check fails: {'; '.join(_reasons(self))}."
        if not self.tests:
            return (
                "Nothing could be tested, so nothing is known of the randomisation: pass "
                "expected_share, or features (numbers or categories) of more rows."
            )
        smallest = min(test.adjusted_p_value for test in self.tests)
        plural = "" if len(self.tests) == 1 else "s"
        return (
            f"No evidence against randomisation ({len(self.tests)} test{plural}, smallest "
            f"corrected p {_p(smallest, '= ')})."
        )

    @property
    def advice(self) -> tuple[str, ...]:
        """What to do about each thing that fails; empty if nothing does."""
        return tuple(_advice(self))

    def to_dict(self) -> dict[str, Any]:
        """The same numbers as lists and dictionaries."""
        plain = ("trial_name", "n_rows", "alpha", "counts", "expected_shares", "grouping")
        return {name: getattr(self, name) for name in (*plain, "verdict", "ok")} | {
            "advice": list(self.advice),
            "tests": [asdict(test) for test in self.tests],
            "failures": [asdict(test) for test in self.failures],
            "suspects": [asdict(suspect) for suspect in self.suspects],
            "differences": self.differences.to_dict("records"),
            "missing": self.missing.to_dict("records"),
            "detectable_difference": self.detectable_difference,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def __repr__(self) -> str:
        return str(self)


def _reasons(report: RandomisationReport) -> list[str]:
    reasons = []
    for target, text in (
        ("treatment", "these features tell who was treated"),
        ("outcome", "these features almost settle the outcome"),
    ):
        names = [suspect.feature for suspect in report.suspects if suspect.target == target]
        if names:
            reasons.append(f"{text}: {', '.join(names)}")
    texts = {
        "sample ratio": "the arms do not have the planned sizes",
        "likelihood ratio": "the features predict who was treated",
        "classifier": "the features predict who was treated",
        "missing values": "missing values differ between the arms",
    }
    by_text: dict[str, list[str]] = {}
    for test in report.failures:
        by_text.setdefault(texts[test.name], []).append(f"{_label(test)}: {test.detail}")
    return reasons + [f"{text} ({'; '.join(found)})" for text, found in by_text.items()]


def _advice(report: RandomisationReport) -> list[str]:
    failed = {test.name for test in report.failures}
    advice = []
    if report.suspects:
        advice.append(
            "Drop the suspect features unless they were known before treatment, and check again."
        )
    if "sample ratio" in failed:
        advice.append(
            "Find out which rows were lost or added after assignment: no analysis of the rows "
            "that are left can repair it."
        )
    if failed & {"likelihood ratio", "classifier"}:
        advice.append(
            "Find out how treatment was assigned. Do not compare rankings by a raw AUUC: it "
            "rewards a score that has learnt who was treated. Pass propensity, known or "
            "estimated, to the metrics."
        )
        largest = report.differences["difference"].abs().max()
        if largest < SMALL:
            advice.append(
                f"No feature differs by more than {largest:.3f} standard deviations: with so "
                f"many rows a trace shows, and may matter little."
            )
    if failed and not report.grouping:
        advice.append(
            "If treatment was given to whole groups of rows (households, shops), pass groups: rows "
            "of one group are not independent, and the tests take them to be."
        )
    if "missing values" in failed:
        advice.append(
            "Find out whether these features were recorded after treatment, and drop them if so."
        )
    return advice


def _lines(report: RandomisationReport) -> list[str]:
    lines = [report.verdict, *(f"  {advice}" for advice in report.advice)]
    total = max(sum(report.counts.values()), 1)
    arms = (f"{name} {n:,} ({n / total:.1%})" for name, n in report.counts.items())
    lines.append(f"{report.trial_name}: {report.n_rows:,} rows: {', '.join(arms)}")
    lines += [f"  {report.grouping}"] if report.grouping else []
    width = max((len(_label(test)) for test in report.tests), default=0)
    lines += [
        f"  {_label(test):<{width}}  p {_p(test.p_value, '= ')} (corrected "
        f"{_p(test.adjusted_p_value)}); {test.detail}"
        for test in report.tests
    ]
    largest = report.differences.head(5)
    if len(largest):
        shown = ", ".join(
            f"{row.feature}{f' ({row.arm})' if row.arm else ''} {row.difference:+.3f}"
            for row in largest.itertuples()
        )
        lines.append(f"  largest standardised differences: {shown}")
        lines.append(
            f"  (one of {report.detectable_difference:.3f} would be found four times in five)"
        )
    lines += [f"  suspect: {suspect}" for suspect in report.suspects]
    lines += [f"  not tested: {note}" for note in report.notes]
    return lines


def _label(test: RandomisationTest) -> str:
    return f"{test.name} ({test.arm})" if test.arm else test.name


def _p(value: float, sign: str = "") -> str:
    return "< 0.0001" if value < 1e-4 else f"{sign}{value:.2g}"
