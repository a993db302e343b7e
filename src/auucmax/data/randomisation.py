"""Was treatment given at random? Tests of the randomisation of a trial, and their report."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from auucmax._messages import visible
from auucmax._validation import Bools, check_groups, check_level
from auucmax.data import balance
from auucmax.data.balance import Suspect
from auucmax.data.covariates import Covariates, encode
from auucmax.data.trial import Trial
from auucmax.encoding.kinds import kind_of

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
LEAST_GROUPS = 20  #: different values of a column that may be a household or a shop
_SIZES_UNTESTED = "the sizes of the arms (pass expected_share=, the planned share)"
_GROUPS_ASKED = (
    "Do rows of one {} belong together, as of a household or a shop? Treatment goes by it. Then "
    "pass groups={!r}: without, intervals and certificates are too good, and the tests may blame a "
    "fair trial."
)
# A corrected p-value below this stops what would follow; one good trial in a hundred must not be.
STOP = 1e-4


class FailedCheckError(ValueError):
    """The rows do not look like those of a randomised trial, or a feature gives the outcome away.

    ``report`` is the :class:`RandomisationReport` that says so, if rows were just checked.
    """

    exit_code = 1  # of commands: nothing is wrong with the input as such

    def __init__(self, message: str, report: RandomisationReport | None = None) -> None:
        super().__init__(message)
        self.report = report


def check_randomisation(
    trial: Trial,
    *,
    groups: ArrayLike | None = None,
    expected_share: float | Mapping[Any, float] | Sequence[float] | None = None,
    missing_outcomes: Mapping[str, tuple[int, int]] | None = None,
    ignore: Collection[str] = (),
    after: Collection[str] = (),
    names: Collection[str] = (),
    alpha: float = 0.01,
    random_state: int | np.random.Generator | None = 0,
) -> RandomisationReport:
    """Test whether the arms of a trial differ before treatment, as they should not.

    A raw AUUC is a difference between the arms among those with high scores. If the chance of
    treatment depends on the features, a score that has learnt who was treated gains by it, and
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
    follow, such as :func:`auucmax.trial_model.fit_trial_model`; so does a feature in disguise.
    Weights of the rows are not used. Where only some rows were randomised (``trial.randomised``),
    those are tested. A trial of which nothing could be tested is not ``ok``.

    Parameters
    ----------
    trial : Trial
    groups : array of shape (n,), optional
        The cluster of each row (a household, a shop), when treatment was given to clusters: their
        rows are alike and treated alike, which tests of independent rows would take for a lack of
        randomisation. One row of each cluster, drawn at random, then enters all tests; sizes and
        ``expected_share`` are those of clusters. If treatment varies within clusters (half as much
        as among independent rows, or more), rows were randomised by themselves: all are tested.
        Default: ``trial.groups``. Without groups, a ``trial.id`` by which treatment goes gives a
        warning.
    expected_share : float, mapping or sequence, optional
        Planned share of the treated rows. With several arms: a mapping of labels (or printed
        names) to shares, or the shares in the order of ``trial.arms``, control first.
    missing_outcomes : mapping, optional
        By the printed name of each arm: how many rows have no outcome, and how many were assigned,
        these included. The rows themselves are not in the trial.
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
    >>> print(report.verdict)
    No evidence against randomisation (3 tests, smallest corrected p = 1).
    """
    _check_kind(trial)
    check_level(alpha, "alpha")
    rng = np.random.default_rng(random_state)
    groups = trial.groups if groups is None else groups
    codes = None if groups is None else check_groups(groups, trial.n_rows)
    trial, names = _with_names(trial, names)
    ignore = {*ignore, *names}
    if trial.randomised is not None:
        codes = None if codes is None else codes[trial.randomised]
        trial = trial.take(trial.randomised)
    n_given = trial.n_rows
    households = () if codes is not None else group_columns(trial.X, trial.treatment)
    trial, grouping = independent_rows(trial, codes, rng)
    counts = _counts(trial)
    shares = None if expected_share is None else _planned_shares(expected_share, trial)
    covariates = encode(trial.X[[name for name in trial.X if name not in after]])
    suspects, in_disguise, doubts = _suspects(covariates, trial, rng)
    covariates = covariates.without(in_disguise)
    # Small matrices and trees: threads cost more than they save, far more on a busy machine.
    with threadpool_limits(1):
        arms = [_check_arm(*arm, rng, alpha) for arm in _arms(trial, covariates)]
    tests = [] if shares is None else [_sample_ratio(counts, shares)]
    tests += _attrition(missing_outcomes, trial, trial.n_rows / n_given)
    tests += [test for arm in arms for test in arm.tests]
    harmless = [found for found in suspects if found.feature in ignore and found.is_after]
    notes = [*covariates.skipped, *(note for arm in arms for note in arm.notes)]
    return RandomisationReport(
        trial_name=trial.name,
        n_rows=trial.n_rows,
        alpha=alpha,
        counts=counts,
        expected_shares=shares,
        tests=_corrected(tests),
        differences=_stacked([arm.differences for arm in arms], "difference"),
        missing=_stacked([arm.missing for arm in arms], "p_value"),
        suspects=tuple(suspect for suspect in suspects if suspect not in harmless),
        detectable_difference=max(arm.detectable for arm in arms),
        notes=_notes(shares, notes, harmless),
        grouping=grouping,
        provided=(*after, *(found.feature for found in harmless if found.target == "treatment")),
        households=tuple(households),
        names=tuple(names),
        doubts=tuple(found for found in doubts if found.feature not in ignore),
    )


def _with_names(trial: Trial, names: Collection[str]) -> tuple[Trial, list[str]]:
    """The trial with ids and groups that are numbers or dates among its features, and all names.

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


def _notes(shares: Any, notes: list[str], harmless: list[Suspect]) -> tuple[str, ...]:
    """What was not tested, and why, each once."""
    sizes = [_SIZES_UNTESTED] if shares is None else []
    return tuple(dict.fromkeys([*sizes, *notes, *map(_why_untested, harmless)]))


def _check_kind(trial: object) -> None:
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
    """What was found in one arm against the control."""

    tests: list[RandomisationTest]
    differences: pd.DataFrame
    missing: pd.DataFrame
    notes: list[str]
    detectable: float


def _arms(trial: Trial, covariates: Covariates) -> Iterator[tuple[str, Covariates, Bools]]:
    """Name (blank if there is only one), features and treatment of each arm with the control."""
    if not trial.is_multi_arm:
        yield "", covariates, trial.treated
        return
    for name, label in zip((trial.arm_names or ())[1:], trial.arms[1:], strict=True):
        rows = np.flatnonzero((trial.treatment == label) | (trial.treatment == trial.control))
        yield name, covariates.take(rows), trial.treatment[rows] == label


def _check_arm(
    arm: str, covariates: Covariates, treated: Bools, rng: np.random.Generator, alpha: float
) -> _Arm:
    detectable = balance.detectable_difference(treated, alpha)
    if not covariates.features:
        note = "balance (no feature can be used)"
        return _Arm([], _empty("difference"), _empty("p_value"), [note], detectable)
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
        tests.append(RandomisationTest("missing values", arm, gap, p_value, detail))
    return _Arm(tests, differences.assign(arm=arm), missing.assign(arm=arm), notes, detectable)


def _empty(last: str) -> pd.DataFrame:
    return pd.DataFrame(columns=["feature", "control", "treated", last, "arm"], dtype=np.float64)


def _sample_ratio(counts: dict[str, int], shares: dict[str, float]) -> RandomisationTest:
    observed = np.array(list(counts.values()))
    statistic, p_value = balance.chi_square_counts(observed, np.array(list(shares.values())))
    total = observed.sum()
    detail = ", ".join(
        f"{name} {n / total:.2%}, planned {shares[name]:.2%}" for name, n in counts.items()
    )
    return RandomisationTest("sample ratio", "", statistic, p_value, detail)


def _attrition(
    missing: Mapping[str, tuple[int, int]] | None, trial: Trial, scale: float
) -> list[RandomisationTest]:
    """Are outcomes missing as often in each arm as in the control?

    ``scale``: the rows that count as independent, of each row; rows of a cluster may all be lost.
    """
    names = trial.arm_names or ()
    if missing is None or not any(lost for lost, _ in missing.values()):
        return []
    if set(missing) != set(names) or not all(0 <= lost <= n > 0 for lost, n in missing.values()):
        raise ValueError(
            f"missing_outcomes should give the rows without an outcome, and all rows, of each of "
            f"{', '.join(map(repr, names))}; got {missing!r}. Count rows by arm."
        )
    tests = []
    for arm in names[1:]:
        rows = np.array([missing[arm], missing[names[0]]])
        table = np.rint(scale * np.column_stack([rows[:, 0], rows[:, 1] - rows[:, 0]]))
        p_value = balance.equal_shares(table.astype(np.int64)) if table.any(axis=0).all() else 1.0
        shares = rows[:, 0] / rows[:, 1]
        detail = ", ".join(
            f"{name} {share:.2%} ({lost:,} of {n:,} rows)"
            for name, share, (lost, n) in zip((arm, names[0]), shares, rows, strict=True)
        )
        gap, of_arm = float(shares[0] - shares[1]), arm if trial.is_multi_arm else ""
        tests.append(RandomisationTest("missing outcomes", of_arm, gap, p_value, detail))
    return tests


def _why_untested(suspect: Suspect) -> str:
    if suspect.target == "outcome":
        return f"{suspect.feature}, which almost settles the outcome and is left out of the model"
    return f"{suspect.feature}, which tells who was treated and is left out of the model"


def _corrected(tests: list[RandomisationTest]) -> tuple[RandomisationTest, ...]:
    adjusted = balance.holm(np.array([test.p_value for test in tests])).tolist()
    found = zip(tests, adjusted, strict=True)
    return tuple(replace(test, adjusted_p_value=p_value) for test, p_value in found)


def _stacked(tables: list[pd.DataFrame], by: str) -> pd.DataFrame:
    """One table, the arm first; the largest differences or the smallest p-values on top."""
    table = pd.concat(tables, ignore_index=True)
    key = -table[by].abs() if by == "difference" else table[by]
    table = table.loc[key.sort_values(kind="stable").index].reset_index(drop=True)
    return table[["arm", *table.columns.drop("arm")]]


def _suspects(
    covariates: Covariates, trial: Trial, rng: np.random.Generator
) -> tuple[tuple[Suspect, ...], set[str], tuple[Suspect, ...]]:
    """Features to look at, names of those that say nothing of the randomisation, and questions."""
    y, treatment = trial.y, trial.treatment
    if trial.n_rows > MAX_SUSPECT_ROWS:
        rows = np.sort(rng.choice(trial.n_rows, MAX_SUSPECT_ROWS, replace=False))
        covariates, y, treatment = covariates.take(rows), y[rows], treatment[rows]
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
        for suspect in _shifted(rest, strong, treatment, label, trial.control)
    }
    suspects = (*suspects, *shifted.values())
    depends = {suspect.feature for suspect in suspects if not suspect.is_after}
    named = {suspect.feature for suspect in suspects}
    doubts = tuple(hint for hint in strong if hint.is_high or hint.feature in shifted)
    return suspects, named - depends, doubts


def _shifted(
    covariates: Covariates,
    strong: Sequence[Suspect],
    treatment: NDArray[np.generic],
    label: Any,
    control: Any,
) -> tuple[Suspect, ...]:
    if not strong:
        return ()
    rows = np.flatnonzero((treatment == label) | (treatment == control))
    return balance.shifted_suspects(covariates.take(rows), strong, treatment[rows] == label)


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
            f"or with several arms a mapping of labels to shares."
        )
    return {name: given[name] for name in names}


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


def group_columns(features: pd.DataFrame, treatment: NDArray[np.generic]) -> list[str]:
    """Columns that look like households or shops: many values, and treatment goes by them.

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
    trial: Trial, codes: Codes | None, rng: np.random.Generator
) -> tuple[Trial, str]:
    """The rows that may be tested as independent, and a sentence that says which.

    One row of each cluster, drawn at random, where treatment goes by cluster; all rows where it
    varies within clusters about as much as it would if rows had been randomised one by one.
    Without clusters, a warning if rows share an id and treatment goes by it.
    """
    if codes is None:
        if trial.id is not None:
            _warn_of_clusters(within_clusters(pd.factorize(trial.id)[0], trial.treatment))
        return trial, ""
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


def _warn_of_clusters(variation: Variation) -> None:
    """Warn if treatment goes by the ids of rows, more than chance would have it."""
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


@dataclass(frozen=True)
class RandomisationTest:
    """One test of one arm against the control (of all arms, for the sample ratio).

    ``name`` is "sample ratio", "likelihood ratio", "classifier", "missing values" or
    "missing outcomes"; ``adjusted_p_value`` is corrected by Holm's method over all tests of the
    report.
    """

    name: str
    arm: str
    statistic: float
    p_value: float
    detail: str
    adjusted_p_value: float = 1.0


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
        first; rows, how many the feature tells from the others (those of a level, say).
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
    provided : tuple of str
        Features that were not tested, for they are said to be known only after treatment.
    households : tuple of str
        Columns that look like a household or a shop, if no groups were given.
    doubts : tuple of Suspect
        Features that predict the outcome so well that one has to ask when they were recorded.
    names : tuple of str
        Those of the tested features that name rows or groups.
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
    provided: tuple[str, ...] = ()
    households: tuple[str, ...] = ()
    doubts: tuple[Suspect, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def failures(self) -> tuple[RandomisationTest, ...]:
        """The tests that fail, at level ``alpha`` over all tests together."""
        return tuple(test for test in self.tests if test.adjusted_p_value <= self.alpha)

    @property
    def ok(self) -> bool:
        """Something could be tested, no test fails and no feature is suspect."""
        return bool(self.tests) and not self.failures and not self.suspects

    @property
    def stops(self) -> bool:
        """Nothing should be learnt from these rows: chance does not explain what was found."""
        return bool(self.suspects) or any(t.adjusted_p_value < STOP for t in self.failures)

    @property
    def verdict(self) -> str:
        """One sentence: no evidence against randomisation, or what fails or is lacking."""
        if self.stops:
            return f"The check fails: {'; '.join(_reasons(self))}."
        if self.failures:
            return (
                f"The check warns: {'; '.join(_reasons(self))}. One in {1 / self.alpha:,.0f} of "
                f"properly randomised trials looks so."
            )
        if not self.tests:
            return (
                "Nothing could be tested, so nothing is known of the randomisation: pass "
                "expected_share=, or features (numbers or categories) of more rows."
            )
        smallest = min(test.adjusted_p_value for test in self.tests)
        plural = "" if len(self.tests) == 1 else "s"
        return (
            f"No evidence against randomisation ({len(self.tests)} test{plural}, smallest "
            f"corrected p {_p(smallest, '= ')}){_condition(self.provided)}."
        )

    @property
    def questions(self) -> tuple[str, ...]:
        """What only someone who knows the trial can answer; empty if there is nothing to ask."""
        asked = [doubt.question for doubt in self.doubts]
        if self.households:
            names = " or ".join(map(repr, self.households))
            asked.insert(0, _GROUPS_ASKED.format(names, self.households[0]))
        return tuple(asked)

    @property
    def advice(self) -> tuple[str, ...]:
        """What to do about each thing that fails or is asked; empty if there is nothing."""
        failed = {test.name for test in self.failures}
        after = list(dict.fromkeys(found.feature for found in self.suspects if found.is_after))
        depends = failed & {"likelihood ratio", "classifier"} or len(after) < len(self.suspects)
        advice = list(self.questions)
        if after:
            advice.append(
                f"{', '.join(after)}: known only after treatment? Then nothing may be learnt from "
                f"it: pass after={after}."
            )
        if "sample ratio" in failed:
            advice.append(
                "Find out which rows were lost or added after assignment: no analysis of the rows "
                "that are left can repair it."
            )
        if depends:
            advice.append(
                "Find out how treatment was assigned. Do not compare rankings by a raw AUUC: it "
                "rewards a score that has learnt who was treated (in Python, metrics take a "
                "propensity, known or estimated)."
            )
            largest = self.differences["difference"].abs().max()
            if failed and largest < balance.SMALL:
                advice.append(
                    f"No feature differs by more than {largest:.3f} standard deviations: with so "
                    f"many rows a trace shows, and may matter little."
                )
        if numbered := [name for name in _treated_by(self) if name in self.names]:
            advice.append(
                f"If {', '.join(numbered)} was given after treatment, as by numbering the rows of "
                f"a sorted file, it tells nothing of the randomisation: pass after={numbered}."
            )
        if (failed or depends) and not self.grouping:
            advice.append(
                "If treatment was given to whole groups of rows (households, shops), pass groups=, "
                "for rows of one group are not independent, and the tests take them to be."
            )
        if "missing values" in failed:
            advice.append("Find out why values are missing more often in one arm.")
        if "missing outcomes" in failed:
            advice.append(
                "Find out why outcomes are missing more often in one arm: the rows that are left "
                "are not comparable, and no analysis of them can repair it."
            )
        return tuple(advice)

    def to_dict(self) -> dict[str, Any]:
        """The same numbers as lists and dictionaries."""
        plain = ("trial_name", "n_rows", "alpha", "counts", "expected_shares", "grouping")
        return {name: getattr(self, name) for name in (*plain, "verdict", "ok", "stops")} | {
            "households": list(self.households),
            "advice": list(self.advice),
            "tests": [asdict(test) for test in self.tests],
            "failures": [asdict(test) for test in self.failures],
            "suspects": [asdict(suspect) for suspect in self.suspects],
            "doubts": [asdict(doubt) for doubt in self.doubts],
            "differences": self.differences.to_dict("records"),
            "missing": self.missing.to_dict("records"),
            "detectable_difference": self.detectable_difference,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        lines = [self.verdict, *(f"  {advice}" for advice in self.advice)]
        total = max(sum(self.counts.values()), 1)
        arms = (f"{name} {n:,} ({n / total:.1%})" for name, n in self.counts.items())
        lines.append(f"{self.trial_name}: {self.n_rows:,} rows: {', '.join(arms)}")
        lines += [f"  {self.grouping}"] if self.grouping else []
        width = max((len(_label(test)) for test in self.tests), default=0)
        lines += [
            f"  {_label(test):<{width}}  p {_p(test.p_value, '= ')} (corrected "
            f"{_p(test.adjusted_p_value)}); {test.detail}"
            for test in self.tests
        ]
        # A feature without values in one arm has no difference.
        if len(largest := self.differences.dropna(subset="difference").head(5)):
            shown = ", ".join(
                f"{row.feature}{f' ({row.arm})' if row.arm else ''} {row.difference:+.3f}"
                for row in largest.itertuples()
            )
            lines.append(f"  largest standardised differences: {shown}")
            lines.append(
                f"  (one of {self.detectable_difference:.3f} would be found four times in five)"
            )
        lines += [f"  suspect: {suspect}" for suspect in self.suspects]
        lines += [f"  not tested: {note}" for note in self.notes]
        return "\n".join(map(visible, lines))

    __repr__ = __str__


def _reasons(report: RandomisationReport) -> list[str]:
    reasons = []
    if names := _treated_by(report):
        reasons.append(f"treatment depends on {', '.join(names)}: not randomised")
    told = {"treatment": "tell who was treated", "outcome": "almost settle the outcome"}
    after = [found for found in report.suspects if found.is_after]
    for target, text in told.items():
        if names := [found.feature for found in after if found.target == target]:
            reasons.append(f"these features {text}: {', '.join(names)}")
    texts = {
        "sample ratio": "the arms do not have the planned sizes",
        "likelihood ratio": "the features predict who was treated",
        "classifier": "the features predict who was treated",
        "missing values": "missing values differ between the arms",
        "missing outcomes": "outcomes are missing more often in one arm",
    }
    by_text: dict[str, list[str]] = {}
    for test in report.failures:
        by_text.setdefault(texts[test.name], []).append(f"{_label(test)}: {test.detail}")
    return reasons + [f"{text} ({'; '.join(found)})" for text, found in by_text.items()]


def _treated_by(report: RandomisationReport, most: int = 3) -> list[str]:
    """Features that treatment depends on beyond chance, by themselves."""
    names = [found.feature for found in report.suspects if not found.is_after]
    sure = {test.name for test in report.failures if test.adjusted_p_value < STOP}
    if sure & {"likelihood ratio", "classifier"}:
        table = report.differences
        large = table["difference"].abs() > report.detectable_difference
        # A level, "town=Oslo", stands for its feature.
        names += [str(name).partition("=")[0] for name in table["feature"][large].head(most)]
    return list(dict.fromkeys(names))


def _condition(untested: Sequence[str]) -> str:
    if not untested:
        return ""
    were = "was" if len(untested) == 1 else "were"
    return f", provided that {', '.join(untested)} {were} known only after treatment"


def _label(test: RandomisationTest) -> str:
    return f"{test.name} ({test.arm})" if test.arm else test.name


def _p(value: float, sign: str = "") -> str:
    return "< 0.0001" if value < 1e-4 else f"{sign}{value:.2g}"
