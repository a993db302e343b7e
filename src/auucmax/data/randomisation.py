"""Test whether the arms of a trial differ before treatment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri
from threadpoolctl import threadpool_limits

from auucmax._errors import InputError
from auucmax._validation import Floats, check_groups, check_level, listed
from auucmax.data import balance
from auucmax.data.balance import (
    LEAST_GROUPS,
    RandomisationTest,
    compare_counts,
    compare_shares,
    even_rows,
    group_codes,
)
from auucmax.data.covariates import encode
from auucmax.data.suspects import Suspect, find_suspects
from auucmax.data.trial import Trial
from auucmax.encoding.kinds import kind_of
from auucmax.results import Shown

POWER = 0.8  #: with which the detectable difference would be found
# Shares of the variation that rows randomised one by one would have: below the first, treatment
# goes by cluster; below the second it does so beyond doubt, with a few wrong records.
BY_CLUSTER = 0.5
NEARLY_NONE = 0.1
# With less expected than this, clusters without variation may be an accident.
ENOUGH = 20.0
_REVEALS = {"outcome": "almost settles the outcome", "treatment": "reveals who was treated"}

# A corrected p-value below this stops what would follow; one good trial in a hundred must not be.
STOP = 1e-4


class CheckWarning(UserWarning):
    """Warning: a randomisation check failed mildly or has open questions."""


class FailedCheckError(ValueError):
    """The trial does not look randomised, or a feature reveals the outcome.

    ``report``: the :class:`RandomisationReport` with the reasons, if rows were just checked.
    """

    exit_code = 1  # of commands: nothing is wrong with the input as such

    def __init__(self, message: str = "", report: RandomisationReport | None = None) -> None:
        super().__init__(message if report is None else f"{report.message} {message}".strip())
        self.report = report


@dataclass(frozen=True, eq=False, repr=False)
class RandomisationReport(Shown):
    """Results of a randomisation check; printing shows the verdict first.

    Attributes
    ----------
    trial_name, n_rows, alpha
        What was tested, and the accepted probability of a false alarm.
    counts : dict of arm name to rows, control first
    expected_shares : dict of arm name to planned share, or None if none was given
    tests : tuple of RandomisationTest
    differences : DataFrame
        arm, feature, means of control and treated, and their standardised difference, the largest
        first; few, whether that is about fewer than 20 people of an arm.
    missing : DataFrame
        arm, feature, share missing in control and treated, and p_value, the smallest first; few,
        whether fewer than 20 people of an arm lack the value, or have it.
    suspects : tuple of Suspect
        Features that look like the outcome or the treatment in disguise.
    detectable_difference : float
        The standardised difference of a single feature that is detected with 80% power.
    notes : tuple of str
        What was not tested, and why.
    grouping : str
        Whether rows or clusters were tested, and why; empty if no groups were given.
    provided : tuple of str
        Features that were not tested, because the user named them as recorded after treatment.
    households : tuple of str
        Columns that look like a household or a shop, if no groups were given.
    doubts : tuple of Suspect
        Features that predict the outcome so well that one must ask when they were recorded.
    evened : str
        The rows on which arms were compared, if propensities were given; empty otherwise.
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
    evened: str = ""

    @property
    def failures(self) -> tuple[RandomisationTest, ...]:
        """Tests that fail at the joint level ``alpha``."""
        return tuple(test for test in self.tests if test.adjusted_p_value <= self.alpha)

    @property
    def ok(self) -> bool:
        """Whether something was tested, nothing failed and no feature is suspicious."""
        return bool(self.tests) and not self.failures and not self.suspects

    @property
    def stops(self) -> bool:
        """Whether the failure is too clear to train a model on these rows."""
        return bool(self.suspects) or any(t.adjusted_p_value < STOP for t in self.failures)

    @property
    def treated_by(self) -> tuple[str, ...]:
        """Up to three features that treatment depends on individually."""
        names = [found.feature for found in self.suspects if not found.is_after]
        sure = {test.name for test in self.failures if test.adjusted_p_value < STOP}
        if sure & {"likelihood ratio", "classifier"}:
            table = self.differences
            large = table["difference"].abs() > self.detectable_difference
            # A level, "town=Oslo", stands for its feature.
            names += [str(name).partition("=")[0] for name in table["feature"][large].head(3)]
        return tuple(dict.fromkeys(names))

    @property
    def message(self) -> str:
        """Verdict, questions and advice in one line, for errors and warnings."""
        return str(import_module("auucmax.present.randomisation").message(self.to_dict()))

    def for_others(self) -> RandomisationReport:
        """The report without numbers of fewer than 20 people, for pages and files to hand on.

        Of their tests only the result (stops, fails, passes) is kept.
        """
        tests = []
        for test in self.tests:
            if test.few:
                p_value, adjusted = (
                    1.0 if own > self.alpha else min(self.alpha, STOP / 10 if own < STOP else 1.0)
                    for own in (test.p_value, test.adjusted_p_value)
                )
                detail = "fewer than 20 people of an arm: p is at most this"
                test = RandomisationTest(
                    test.name, test.arm, float("nan"), p_value, detail, adjusted, few=True
                )
            tests.append(test)
        differences, missing = (
            table[~table["few"].astype(bool)].reset_index(drop=True)
            for table in (self.differences, self.missing)
        )
        return replace(self, tests=tuple(tests), differences=differences, missing=missing)

    def to_dict(self) -> dict[str, Any]:
        """The numbers of the report as plain dictionaries."""
        found = asdict(self)
        for name in ("ok", "stops", "treated_by"):
            found[name] = getattr(self, name)
        found["failures"] = [asdict(test) for test in self.failures]
        for name in ("suspects", "doubts"):
            found[name] = [asdict(own) | {"is_after": own.is_after} for own in getattr(self, name)]
        for name in ("differences", "missing"):
            found[name] = found[name].to_dict("records")
        return found


def check_randomisation(
    trial: Trial,
    *,
    expected_share: float | Mapping[Any, float] | Sequence[float] | None = None,
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
    * *Attrition*: are outcomes missing as often in both arms? If some are (``trial.lost``).
    * *Disguise*: does a feature almost determine the outcome or the arm (an AUC above .99, or
      values in one arm only)? It was then recorded after treatment, and says nothing about the
      randomisation: it is reported, and left out of the other tests. Any lesser dependence of
      treatment on a feature is a lack of randomisation. A feature that predicts the outcome well
      (an AUC above .85 within an arm) raises a question. If the arms differ (p below .001 by
      itself) in one that predicts it fairly well (above .75), it may follow from the outcome, and
      the check fails.

    p-values are corrected by Holm's method over all tests, so a properly randomised trial fails
    with a probability of about ``alpha`` at most. Below .0001 the check ``stops`` what would
    follow, such as :func:`auucmax.fit`; so does a feature in disguise. Weights of the rows are not
    used. A trial of which nothing could be tested is not ``ok``. What is known of the design comes
    with the trial:

    * ``trial.randomised``: only these rows are tested.
    * ``trial.groups``, the cluster of each row (a household, a shop): if whole clusters were
      treated, tests of independent rows would take the resemblance of their rows for a lack of
      randomisation. One row of each cluster, drawn at random, then enters all tests; sizes and
      ``expected_share`` are those of clusters. If treatment varies within clusters (half as much
      as among independent rows, or more), rows were randomised one by one: all are tested, with
      standard errors by cluster if there are 20 clusters or more. Without groups, columns
      (``trial.id`` among them) by which treatment varies are ``households``.
    * ``trial.propensity``, the chances of treatment by design, where they differed: the sample
      ratio is then that of each stratum of equal chance (tenths, if chances are many). All else is
      tested on rows that are drawn by their chances, such that each of them had the same. Two arms
      only, without ``expected_share``.
    * ``trial.extra``, columns that no model uses: they are tested as all others, but one in
      disguise does no harm if it is ignored, and becomes a note. So are ``trial.id`` and
      ``trial.groups``, as "id" and "groups", if they are numbers or dates.
    * ``trial.roles.after``: what was recorded after treatment is not tested, and the verdict says
      on which condition it holds.

    Parameters
    ----------
    trial : Trial
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
    >>> print(report)
    The trial looks randomised (3 tests).
      Arms  1,000 control, 1,000 treated
    """
    check_level(alpha, "alpha")
    if not isinstance(trial, Trial):
        raise TypeError(
            f"trial should be a Trial, got {type(trial).__name__}. "
            f"Make one of the columns: Trial(X, y, treatment)."
        )
    if trial.propensity is not None and (trial.is_multi_arm or expected_share is not None):
        raise InputError(
            "propensity", "known for two arms, and without expected_share",
            f"{len(trial.arms)} arms and expected_share={expected_share!r}",
            "Compare two arms; propensities say how many rows should be treated.",
        )  # fmt: skip
    if trial.groups is not None:
        check_groups(trial.groups, trial.n_rows)
    rng = np.random.default_rng(random_state)
    # Texts that identify each row are not tested: their order is meaningless.
    ordered = {
        name: own
        for name, own in (("id", trial.id), ("groups", trial.groups))
        if own is not None and name not in trial.X and kind_of(pd.Series(own)) in ("number", "date")
    }
    X, extra = trial.X, list[str]()
    if trial.extra is not None:
        X, extra = pd.concat([X, trial.extra], axis=1), list(trial.extra)
    trial = replace(trial, X=X.assign(**ordered) if ordered else X, extra=None)
    if trial.randomised is not None:
        trial = trial.take(trial.randomised)
    trial, by_group, grouping = independent_rows(trial, rng)
    lost = trial.lost
    kept = trial
    if lost is not None and by_group:
        # A group counts once, by its first row; with some rows lost it is neither lost nor kept.
        kept = trial.take(~pd.Series(trial.groups).isin(lost.groups).to_numpy())
        lost = lost.take(lost.first)
    if lost is not None and not len(lost.arm):
        lost = None
    n_tested = trial.n_rows
    counts = dict(zip(trial.arm_names, np.bincount(trial.arm).tolist(), strict=True))
    tests: list[RandomisationTest] = []
    notes: list[str] = []
    evened, shares = "", None
    if trial.propensity is not None:
        chance = _chance(trial.propensity)
        tests.append(compare_counts(trial.treated, chance))
        if lost is not None and lost.propensity is not None:
            lost_chance = _chance(lost.propensity)
            tests.append(compare_counts(lost.arm == 1, lost_chance, "missing outcomes"))
        evened = f"chances of treatment are known, from {chance.min():.3g} to {chance.max():.3g}"
        drawn = even_rows(trial.treated, chance, rng)
        if not drawn.all():
            evened += (
                f": the arms are compared on {drawn.sum():,} of the {n_tested:,} rows, drawn such "
                f"that each had the same chance"
            )
            trial = trial.take(drawn)
    else:
        if expected_share is None:
            notes.append("the sizes of the arms (the planned share is not given)")
        else:
            shares = _planned_shares(expected_share, trial)
            tests.append(_sample_ratio(counts, shares))
        if lost is not None:
            tests += balance.attrition_tests(kept, lost, "groups" if by_group else "rows")
    households = []
    if trial.groups is None:
        households = group_columns({**trial.X, "id": pd.Series(trial.id)}, trial.arm)
    features, skipped = encode(trial.X)
    notes += skipped
    suspects, doubts = find_suspects(features, trial, rng)
    # What was known only after treatment says nothing of the randomisation.
    depends = {suspect.feature for suspect in suspects if not suspect.is_after}
    late = {suspect.feature for suspect in suspects} - depends
    features = [feature for feature in features if feature.name not in late]
    n = np.bincount(trial.arm)
    error = np.sqrt(1 / n[1:].min() + 1 / n[0])
    differences: list[dict[str, Any]] = []
    missing: list[dict[str, Any]] = []
    for arm, rows, treated, codes in balance.arms_of(trial):
        if not features:
            notes.append("balance (no feature can be used)")
            continue
        own = features
        if trial.is_multi_arm:
            own = [replace(feature, values=feature.values[rows]) for feature in features]
        # Small matrices and trees: threads cost more than they save, far more on a busy machine.
        with threadpool_limits(1):
            ratio = balance.likelihood_ratio_test(own, treated, codes)
            trees = balance.classifier_test(own, treated, rng, codes=codes)
        if ratio is None:
            notes.append("the likelihood ratio (it needs more rows than columns)")
        if trees is None:
            notes.append("the classifier (it needs 50 rows of each arm)")
        tests += [replace(test, arm=arm) for test in (ratio, trees) if test is not None]
        differences += [{"arm": arm} | line for line in balance.differences(own, treated)]
        lines = [
            {"feature": one.name, **compare_shares(one.missing, treated, codes)._asdict()}
            for one in own
            if one.missing.any()
        ]
        if lines:
            missing += [{"arm": arm} | line for line in lines]
            worst = min(lines, key=lambda line: line["p_value"])
            detail = "{feature}: {control:.2%} of control, {treated:.2%} of treated"
            tests.append(
                RandomisationTest(
                    "missing values", arm, float(worst["treated"] - worst["control"]),
                    min(1.0, len(lines) * worst["p_value"]), detail.format(**worst),
                    few=worst["few"],
                )
            )  # fmt: skip
    adjusted = balance.holm(np.array([test.p_value for test in tests])).tolist()
    untrained = {*extra, *ordered}
    harmless = [own for own in suspects if own.feature in untrained and own.is_after]
    notes += [
        f"{own.feature}, which {_REVEALS[own.target]} and is left out of the model"
        for own in harmless
    ]
    columns = ["arm", "feature", "control", "treated"]
    return RandomisationReport(
        trial_name=trial.name,
        n_rows=n_tested,
        alpha=alpha,
        counts=counts,
        expected_shares=shares,
        tests=tuple(
            replace(test, adjusted_p_value=p_value)
            for test, p_value in zip(tests, adjusted, strict=True)
        ),
        differences=pd.DataFrame(differences, columns=[*columns, "difference", "few"]).sort_values(
            "difference", key=lambda own: -own.abs(), kind="stable", ignore_index=True
        ),
        missing=pd.DataFrame(missing, columns=[*columns, "p_value", "few"]).sort_values(
            "p_value", kind="stable", ignore_index=True
        ),
        suspects=tuple(suspect for suspect in suspects if suspect not in harmless),
        detectable_difference=float((ndtri(1 - alpha / 2) + ndtri(POWER)) * error),
        notes=tuple(dict.fromkeys(notes)),
        grouping=grouping,
        evened=evened,
        provided=(
            *trial.roles.after,
            *(own.feature for own in harmless if own.target == "treatment"),
        ),
        households=tuple(households),
        doubts=tuple(hint for hint in doubts if hint.feature not in untrained),
    )


def _chance(propensity: Floats) -> Floats:
    """Probability of the arm given arm or control, (n,), from both probabilities (n, 2)."""
    return np.asarray(propensity[:, 1] / propensity.sum(axis=1))


def _sample_ratio(counts: dict[str, int], shares: dict[str, float]) -> RandomisationTest:
    """Chi-square test of arm counts against the planned shares."""
    from scipy.stats import chisquare

    total, planned = sum(counts.values()), np.array([*shares.values()])
    found = chisquare([*counts.values()], total * planned / planned.sum())
    detail = ", ".join(
        f"{name} {n / total:.2%}, planned {shares[name]:.2%}" for name, n in counts.items()
    )
    return RandomisationTest(
        "sample ratio", "", float(found.statistic), float(found.pvalue), detail
    )


def _planned_shares(
    expected: float | Mapping[Any, float] | Sequence[float], trial: Trial
) -> dict[str, float]:
    names = trial.arm_names
    given: Any = expected
    if isinstance(given, Mapping):
        labels = zip(trial.arms, names, strict=True)
        shares = [given.get(label, given.get(name, 0.0)) for label, name in labels]
    else:
        shares = [1 - given, given] if isinstance(given, Real) else [*given]
    if len(shares) != len(names) or min(shares) <= 0 or abs(sum(shares) - 1) > 1e-6:
        raise InputError(
            "expected_share", f"a positive share for each arm, {listed(names)}, in all 1",
            repr(expected), "Pass the share of the treated rows, such as 0.5, or one of each arm.",
        )  # fmt: skip
    return dict(zip(names, map(float, shares), strict=True))


class Variation(NamedTuple):
    """Variation of treatment within clusters."""

    found: float
    expected: float  # if rows had been randomised one by one

    @property
    def is_by_row(self) -> bool:
        """Whether rows, rather than whole clusters, were randomised."""
        return self.found >= BY_CLUSTER * self.expected


def within_clusters(
    clusters: NDArray[Any], treatment: NDArray[np.generic], chance: Floats | None = None
) -> Variation:
    """Compare the variation of treatment within clusters with that of independent rows.

    found = sum over clusters of n - sum over arms of n_arm^2 / n, which for independent rows has
    the mean sum of (n - 1) (1 - sum over arms of share^2). ``chance``: known probability of
    treatment of each row, with two arms; the mean then uses these.

    >>> shop = np.arange(400) // 20
    >>> within_clusters(shop, np.arange(400) % 2).is_by_row
    True
    >>> within_clusters(shop, shop % 2).is_by_row
    False
    """
    codes = pd.factorize(clusters)[0]
    size, n = np.bincount(codes), len(codes)
    arm, labels = pd.factorize(treatment)
    counts = np.bincount(len(labels) * codes + arm, minlength=len(labels) * len(size))
    counts = counts.reshape(len(size), len(labels)).astype(np.float64)
    found = n - float(((counts**2).sum(axis=1) / size).sum())
    expected = (n - len(size)) * (1 - float(((counts.sum(axis=0) / n) ** 2).sum()))
    if chance is not None:
        total, noise = np.bincount(codes, chance), np.bincount(codes, chance * (1 - chance))
        expected = float(np.sum(2 * (total - (total**2 + noise) / size)))
    return Variation(found, expected)


def group_columns(columns: Mapping[str, pd.Series], treatment: NDArray[np.generic]) -> list[str]:
    """Columns that look like clusters of randomisation, such as households.

    >>> home = np.arange(400) // 2
    >>> frame = pd.DataFrame({"home": home, "age": np.arange(400) % 70})
    >>> group_columns(frame, np.random.default_rng(0).random(200)[home] < 0.5)
    ['home']
    """
    found = []
    for name, values in columns.items():
        codes = pd.factorize(values if values.dtype != object else values.astype(str))[0]
        if codes.max(initial=-1) < LEAST_GROUPS:
            continue
        variation = within_clusters(codes[codes >= 0], treatment[codes >= 0])
        if variation.expected >= ENOUGH and variation.found < NEARLY_NONE * variation.expected:
            found.append(str(name))
    return found


def independent_rows(trial: Trial, rng: np.random.Generator) -> tuple[Trial, bool, str]:
    """The rows that can be tested as independent, whether they stand for groups, and a note.

    One row of each cluster, drawn at random, where treatment goes by cluster; all rows where it
    varies within clusters about as much as it would if rows had been randomised one by one.
    """
    if trial.groups is None:
        return trial, False, ""
    codes, clusters = pd.factorize(trial.groups)
    if len(clusters) == len(codes):
        return trial, True, "each cluster has one row"
    chance = None if trial.propensity is None else _chance(trial.propensity)
    variation = within_clusters(codes, trial.arm, chance)
    if variation.is_by_row:
        errors = "" if group_codes(codes) is None else ", with standard errors by cluster"
        return (
            trial,
            False,
            f"all rows are tested: treatment varies within clusters{errors}",
        )
    order = rng.permutation(trial.n_rows)
    rows = np.sort(order[~pd.Series(codes[order]).duplicated().to_numpy()])
    sentence = (
        f"one row of each of the {len(rows):,} clusters is tested (of {trial.n_rows:,} rows), for "
        "treatment is the same within clusters"
    )
    return trial.take(rows), True, sentence
