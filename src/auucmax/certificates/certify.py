"""``certify``: guarantees for a model or scores on held-out rows.

A fitted model knows the rows that it was fitted on by a checksum (:func:`fitted_on`), and it is an
error to certify it on these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from auucmax._errors import InputError
from auucmax._validation import (
    Bools,
    Floats,
    check_choice,
    check_column,
    check_labels,
    check_level,
    check_rows,
    check_treatment,
    check_whole,
)
from auucmax.certificates.betting import TARGETS, Game, betting_bound, betting_bounds
from auucmax.certificates.blocks import check_whole_clusters, propensity_range
from auucmax.certificates.fixed_bets import histogram_betting_bounds
from auucmax.certificates.types import Guarantee, LowerBound
from auucmax.data.hashing import Checksum
from auucmax.metrics.bins import BinnedLevels
from auucmax.metrics.levels import Levels

#: The methods of certify, described.
METHODS = {
    "betting": "hedged block betting",
    "betting-fixed": "block betting at one size",
    "asymptotic": "the normal approximation (not a guarantee)",
}
HISTOGRAM_METHODS = ("auto", "betting-fixed")
_COLUMNS = ("groups", "outcome_model", "propensity")
_BETTING = ("outcome_range", "outcome_model_range", "n_dealings", "random_state", *_COLUMNS)


@dataclass(frozen=True, repr=False, kw_only=True)
class Certificate(Guarantee):
    """Certified bounds of AUUC and gain over random targeting, with their assumptions.

    ``lower_bound`` (AUUC) and ``gain_lower_bound`` (AUUC - ATE/2), and ``upper_bound`` and
    ``gain_upper_bound`` if they were asked for, hold *each* with probability 1 - ``delta``; all at
    once only if ``joint``. ``estimate`` and ``gain_estimate`` are those of
    :func:`auucmax.auuc_inference`, ``adjusted`` if an outcome model was given, of the models of
    folds if ``cross_fitted``; ``gap`` and ``gain_gap`` are the differences, ``bin_gap`` the part of
    them that is due to the bins of a histogram. Bets are on outcomes less their mean, which has
    less noise: a bound can come close to the estimate, or pass it.

    By ``method`` "asymptotic" nothing is guaranteed, as the text says first. A bound is infinite
    where there are too few rows for a bound.
    """

    lower_bound: float
    gain_lower_bound: float
    estimate: float
    gain_estimate: float
    joint: bool
    method: str
    bin_gap: float = 0.0
    adjusted: bool = False
    cross_fitted: bool = False
    upper_bound: float | None = None
    gain_upper_bound: float | None = None

    @property
    def gap(self) -> float:
        return self.estimate - self.lower_bound

    @property
    def gain_gap(self) -> float:
        return self.gain_estimate - self.gain_lower_bound


def certify(
    model_or_score: Any,
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    treatment: ArrayLike | None = None,
    delta: float = 0.05,
    method: str = "auto",
    joint: bool = False,
    upper: bool = False,
    folds: ArrayLike | None = None,
    n_candidates: int = 1,
    control: Any = None,
    **options: Any,
) -> Certificate:
    """Certify a ranking on held-out rows: lower bounds with probability 1 - delta.

    Parameters
    ----------
    model_or_score : a fitted model with ``predict``, or (n,) scores. The rows must
        be new to it: a model of this package (also inside a Pipeline or a search, or loaded from a
        file) keeps a checksum of its training rows, and it is an error to certify it on exactly
        these. Or the :class:`BinnedLevels` of rows that are too many
        for memory, with 0/1 outcomes: then X, y and treatment are omitted, and the method is
        "betting-fixed". What is certified is the ranking by the exact scores.
    X : (n, d) features of the held-out rows; needed for a model only.
    y, treatment : (n,) outcome and treatment of these rows.
    delta : probability with which a bound may fail.
    method : "auto": "betting" if outcomes are 0/1 or ``outcome_range`` is given, otherwise
        "asymptotic", which is no guarantee; with ``propensity`` "betting-fixed". Or one of
        "betting", "betting-fixed", "asymptotic", chosen before looking.
    joint : both bounds at once, at delta/2 each; all four, if there are upper ones, at delta/4.
    upper : upper bounds, too, which can show that a ranking is *not* better than random.
        They are minus the lower bounds of the same method with the arms swapped.
    folds : (n,) fold of each row, for cross-fitted scores: the scores of a fold come from a model
        fitted on the other folds. Each fold is certified at delta / folds, and the bounds are for
        the mean AUUC of the folds' models, weighted by rows.
    n_candidates : number of scores among which this one was chosen on these rows. A model that
        chose on held-out rows, or a search around it, adds its own.
    control : label of the control group, when treatment is not 0/1 (default: the model's).
    options : options of the bound, as in :func:`auucmax.certificates.betting_bound`: outcome_range,
        outcome_model (predictions, or with X a fitted model), outcome_model_range, groups,
        n_dealings, random_state, propensity (the known chance of treatment of each row).

    Examples
    --------
    >>> from auucmax import AUUCMax, certify, load_hillstrom
    >>> train, test = load_hillstrom().split(test_size=0.5, random_state=0)
    >>> model = AUUCMax(random_state=0).fit(train.X, train.y, treatment=train.treatment)
    >>> certificate = certify(model, test.X, test.y, treatment=test.treatment)
    >>> certificate.gain_lower_bound > 0
    True
    """
    check_level(delta, "delta")
    check_choice(method, "method", ("auto", *METHODS))
    # Two statements that hold together share delta.
    each = delta / ((4 if upper else 2) if joint else 1)
    bin_gap = 0.0
    if isinstance(model_or_score, BinnedLevels):
        check_choice(method, "method", HISTOGRAM_METHODS)
        chosen, n_rows = "betting-fixed", model_or_score.n_rows
        columns = {"X": X, "y": y, "treatment": treatment, "folds": folds, "control": control}
        options = {name: value for name, value in (columns | options).items() if value is not None}
        _check_options(
            options, {"outcome_range", "n_dealings", "random_state"},
            "The histogram stands for all rows: certify the scores of the rows themselves.",
        )  # fmt: skip
        known = tuple(options.pop("outcome_range", (0, 1)))
        if not model_or_score.binary or known != (0, 1):
            low, high = model_or_score.outcome_low, model_or_score.outcome_high
            raise InputError(
                "outcomes", "0/1 to certify a histogram",
                f"{low:g} to {high:g} in the range {known}",
                "Certify the scores of the rows themselves, or take the asymptotic interval, "
                "histogram.inference().",
            )  # fmt: skip
        estimates = [model_or_score.auuc(), model_or_score.gain()]
        swapped = replace(model_or_score, sums=model_or_score.sums[::-1])
        found = [
            histogram_betting_bounds(side, delta=each, n_candidates=n_candidates, **options)
            for side in (model_or_score, swapped)[: 1 + upper]
        ]
        lower = [[auuc.lower, gain.lower] for auuc, gain, _ in found]
        bin_gap = found[0][2]
    else:
        outcome, treated, (score,), n_candidates = scored(
            [model_or_score], X, y, treatment, control, n_candidates
        )
        n_rows = len(outcome)
        if folds is not None and hasattr(model_or_score, "predict"):
            raise InputError(
                "folds", "given together with cross-fitted scores", "a single model",
                "Its scores do not come from the other folds: pass scores, or leave folds out.",
            )  # fmt: skip
        hint = f"It is not an option of method={method!r}."
        chosen = method
        if method == "auto":  # by what is known of the outcome; never by comparing bounds
            chosen = "betting" if options.get("propensity") is None else "betting-fixed"
            if "outcome_range" not in options and not np.isin(outcome, (0, 1)).all():
                chosen = "asymptotic"
                hint = (
                    "y is not 0/1: pass outcome_range=(lowest, highest), as they are possible, to "
                    "get a guarantee."
                )
        allowed = set(_COLUMNS if chosen == "asymptotic" else _BETTING)
        if chosen == "betting":
            allowed.remove("propensity")
        _check_options(options, allowed, hint)
        for name in _COLUMNS:
            values = predicted_outcome(options.get(name), X)
            if np.ndim(values):
                options[name] = check_labels(values, name, n_rows)
        lower, estimates = _by_folds(
            chosen, outcome, score, treated, folds, options, each, n_candidates, upper
        )
    low, high = options.get("outcome_range", (0.0, 1.0))
    return Certificate(
        lower_bound=lower[0][0],
        gain_lower_bound=lower[0][1],
        estimate=estimates[0],
        gain_estimate=estimates[1],
        delta=delta,
        joint=joint,
        method=chosen,
        n_rows=n_rows,
        outcome_range=None if chosen == "asymptotic" else (float(low), float(high)),
        n_candidates=n_candidates,
        bin_gap=bin_gap,
        adjusted=options.get("outcome_model") is not None,
        cross_fitted=folds is not None,
        propensity=propensity_range(options.get("propensity")),
        grouped=options.get("groups") is not None,
        upper_bound=-lower[1][0] if upper else None,
        gain_upper_bound=-lower[1][1] if upper else None,
    )


def _check_options(options: Iterable[str], known: set[str], hint: str) -> None:
    for name in options:
        if name not in known:
            raise InputError(name, f"left out, or one of {', '.join(sorted(known))}", "it", hint)


def _by_folds(
    method: str,
    y: Floats,
    score: Floats,
    treated: Bools,
    folds: ArrayLike | None,
    options: dict[str, Any],
    delta: float,
    n_candidates: int,
    upper: bool,
) -> tuple[list[list[float]], list[float]]:
    """Lower bounds of AUUC and gain, with ``upper`` also with the arms swapped, and estimates.

    With folds all are means, weighted by rows, of bounds that share delta: by the union bound they
    hold together, and so does their mean.
    """
    groups = options.get("groups")
    weight = None
    if groups is not None and method != "asymptotic":
        # Bets are on means over clusters, so each cluster counts once, however many rows it has.
        cluster = pd.factorize(groups)[0]
        weight = 1 / np.bincount(cluster)[cluster]
    labels, fold = np.zeros(1), np.zeros(len(y), np.intp)
    if folds is not None:
        labels, fold = np.unique(check_labels(folds, "folds", len(y)), return_inverse=True)
        if groups is not None:
            check_whole_clusters(groups, fold, "fold")
    lower, estimates = np.zeros((1 + upper, 2)), np.zeros(2)
    for number in range(len(labels)):
        part = fold == number
        if folds is not None and len(np.unique(treated[part])) < 2:
            raise InputError(
                "folds", "such that each has both arms", f"one in fold {labels.tolist()[number]!r}",
                "Make folds by treatment, with TrialKFold.",
            )  # fmt: skip
        own = {
            name: v[part] if name in _COLUMNS and np.ndim(v) else v for name, v in options.items()
        }
        share = part.mean()
        known: dict[str, Any] = {name: own.get(name) for name in ("outcome_model", "propensity")}
        if weight is not None:
            known["sample_weight"] = weight[part]
        elif groups is not None:
            known["groups"] = own["groups"]
        levels = Levels.of(y[part], score[part], treatment=treated[part], **known)
        estimates += share * np.array([levels.auuc(), levels.gain()])
        if method == "asymptotic":
            limits = _normal_limits(levels, delta / (n_candidates * len(labels)))
            lower += share * np.array(limits[: 1 + upper])
            continue
        for side in range(1 + upper):  # minus the upper bound is the lower one, arms swapped
            if side and own.get("propensity") is not None:
                own["propensity"] = 1 - np.asarray(own["propensity"])
            found = betting_bounds(
                y[part],
                score[part],
                treatment=treated[part] != side,
                delta=delta,
                bets="hedged" if method == "betting" else "fixed",
                n_candidates=n_candidates * len(labels),
                **own,
            )
            lower[side] += share * np.array([bound.lower for bound in found])
    return lower.tolist(), estimates.tolist()


def _normal_limits(levels: Levels, delta: float) -> list[list[float]]:
    """Lower limits of AUUC and gain, and those with the arms swapped: **not** guarantees."""
    if min(levels.support.units) < 2:
        raise InputError(
            "each arm", "at least 2 rows (or clusters) for a standard error",
            f"{min(levels.support.units)} in one",
            "Collect more (in Python: or use method='betting').",
        )  # fmt: skip
    # The ends of this two-sided interval are the one-sided limits.
    found = levels.inference(max(1 - 2 * delta, 1e-9))
    lower, upper = np.array([found.interval, found.gain_interval]).T
    return np.nan_to_num([lower, -upper], nan=-np.inf, neginf=-np.inf).tolist()


def certify_difference(
    first: Any,
    second: Any,
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    treatment: ArrayLike,
    delta: float = 0.05,
    n_candidates: int = 1,
    control: Any = None,
    outcome_range: tuple[float, float] = (0.0, 1.0),
    groups: ArrayLike | None = None,
    n_dealings: int | None = None,
    random_state: int = 0,
) -> LowerBound:
    """Lower bound of the difference between two models' AUUC, by block betting.

    A positive ``lower`` certifies that the first ranks better. Models or scores and their rows as
    in :func:`certify`, the others as in :func:`auucmax.certificates.betting_bound`.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> a, b = trial.X["womens"], trial.X["newbie"]
    >>> certify_difference(a, b, y=trial.y, treatment=trial.treatment).lower > 0
    True
    """
    outcome, treated, scores, n_candidates = scored(
        [first, second], X, y, treatment, control, n_candidates
    )
    rows = check_rows(outcome, scores[0], treatment=treated)
    game = Game.of(rows, scores, outcome_range, None, None, groups)
    # The centre cancels in the difference; around 1/2 the two floors are smallest.
    gain = [TARGETS["gain"]]
    (bound,) = game.bounds(gain, delta, n_candidates, "hedged", n_dealings, random_state)
    return replace(bound, name="betting-difference")


def certify_thresholds(
    model_or_score: Any,
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    treatment: ArrayLike,
    thresholds: ArrayLike,
    delta: float = 0.05,
    n_candidates: int = 1,
    control: Any = None,
    **options: Any,
) -> pd.DataFrame:
    """Certify the gain of treating everyone above a score threshold, over random targeting.

    g(s) = V(s) - P(f > s) ATE with V(s) the effect of treating those above s. It is twice the gain
    of the score 1[f > s], so each threshold is certified by block betting, at delta divided by
    their number: all bounds hold together. Thresholds must be fixed beforehand: quantiles of the
    *training* scores, say. Everything else as in :func:`certify`, ``options`` as in
    :func:`auucmax.certificates.betting_bound`.

    Returns a frame: threshold, share (of these rows, above it), estimate, lower_bound.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> certify_thresholds(
    ...     trial.X["womens"], y=trial.y, treatment=trial.treatment, thresholds=[0.5]
    ... ).round(2)
       threshold  share  estimate  lower_bound
    0        0.5   0.55      0.02         0.01
    """
    outcome, treated, (score,), n_candidates = scored(
        [model_or_score], X, y, treatment, control, n_candidates
    )
    values = check_column(np.atleast_1d(thresholds), "thresholds")
    options["outcome_model"] = predicted_outcome(options.get("outcome_model"), X)
    table = []
    for value in values:
        above = (score > value).astype(np.float64)
        bound = betting_bound(
            outcome,
            above,
            treatment=treated,
            target="gain",
            delta=delta,
            n_candidates=n_candidates * len(values),
            **options,
        )
        table.append((value, above.mean(), 2 * bound.estimate, 2 * bound.lower))
    return pd.DataFrame(table, columns=["threshold", "share", "estimate", "lower_bound"])


def scored(
    models: Sequence[Any],
    X: Any,
    y: ArrayLike | None,
    treatment: ArrayLike | None,
    control: Any,
    n_candidates: int,
) -> tuple[Floats, Bools, list[Floats], int]:
    """Validate held-out rows: outcome, treatment, scores by model, and the number of candidates.

    ``models`` are fitted models, or scores.
    """
    if y is None or treatment is None:
        raise InputError(
            "y" if y is None else "treatment", "a column of the held-out rows", "none",
            "Call certify(model, X, y, treatment=t), or certify(score, y=y, treatment=t).",
        )  # fmt: skip
    n_candidates = check_whole(n_candidates, "n_candidates", 1)
    outcome = check_column(y, "y")
    if control is None:
        control = getattr(models[0], "control", None)
    treated = check_treatment(treatment, len(outcome), control=control)
    scores = []
    for model in models:
        scores.append(check_column(_predictions(model, X), "score", len(outcome)))
        fitted = fitted_on(model)
        if fitted is not None:
            n_candidates *= fitted.candidates(Checksum.of(fitted.seen(X), outcome, treated))
    return outcome, treated, scores, n_candidates


@dataclass(frozen=True)
class InnerRows:
    """Rows as seen by a nested model, after the ``steps`` before it.

    A function from X of the outer model to X of the inner one, which has ``n_features``. It can be
    pickled without either model.
    """

    steps: tuple[Any, ...] = ()
    n_features: int | None = None

    def __call__(self, X: Any) -> Any:
        for step in self.steps:
            X = step.transform(X)
        return X


class FittedOn(NamedTuple):
    """The rows a model was fitted on, as the model received them.

    ``n_candidates`` were compared on rows that the model set aside. Such rows look like new ones,
    so a certificate corrects for the candidates on all rows.
    """

    checksum: Checksum
    seen: InnerRows
    n_candidates: int = 1

    def candidates(self, rows: Checksum) -> int:
        """Return ``n_candidates``, or raise an error if these are the training rows."""
        if rows == self.checksum:
            raise InputError(
                "the rows", "new to the model", "the rows that it was fitted on",
                "They are no evidence of how it ranks others: certify on rows that were kept "
                "apart, or fit AUUCMax(selection='certificate'), which keeps half of them apart.",
            )  # fmt: skip
        return self.n_candidates


def fitted_on(model: Any) -> FittedOn | None:
    """The training rows of a model, if known, else None.

    It may be inside a search, a pipeline or an UpliftModel, and these inside each other.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import FunctionTransformer
    >>> from auucmax import TwoModels, make_trial
    >>> trial = make_trial(1000, random_state=0)
    >>> model = TwoModels().fit(trial.X, trial.y, treatment=trial.treatment)
    >>> found = fitted_on(make_pipeline(FunctionTransformer(np.abs), model))
    >>> found.checksum.n_rows
    1000
    >>> np.array_equal(found.seen(trial.X), np.abs(trial.X))
    True
    """
    steps: tuple[Any, ...] = ()
    n_tried = 1
    # From the outermost model inwards, with the steps that its rows take on the way.
    while not hasattr(model, "checksum_"):
        if hasattr(model, "best_estimator_"):
            n_tried *= len(model.cv_results_["params"]) if hasattr(model, "cv_results_") else 1
            model = model.best_estimator_
        elif hasattr(model, "steps"):
            steps += (model[:-1],) if len(model.steps) > 1 else ()
            model = model.steps[-1][1]
        elif hasattr(model, "scorers") and len(model.scorers) == 1:  # an UpliftModel
            if model.evidence.failed_check:
                raise InputError(
                    "the model", "that of a randomised trial", "one whose trial failed the check",
                    "Use model.evaluate(table), which checks the rows first.",
                )  # fmt: skip
            (scorer,) = model.scorers
            seen = InnerRows((*steps, scorer.encoder), len(scorer.encoder.terms_))
            # With a hold-out, rows that were set aside look like new ones.
            n_candidates = model.recipe.n_candidates if model.recipe.hold_out else 1
            return FittedOn(model.checksum, seen, n_candidates)
        else:
            return None
    # A search compared its models on all rows that it was given, those set aside included.
    n_candidates = len(model.selection_path_) * n_tried if hasattr(model, "certificate_") else 1
    return FittedOn(model.checksum_, InnerRows(steps, model.n_features_in_), n_candidates)


def predicted_outcome(model: Any, X: Any) -> Any:
    """Predictions of an outcome model; other values are returned unchanged."""
    if hasattr(model, "predict_proba"):
        return _predictions(model, X, "predict_proba")[:, 1]
    return _predictions(model, X)


def _predictions(model: Any, X: Any, method: str = "predict") -> Any:
    if not hasattr(model, method):
        return model
    if X is None:
        raise InputError(
            "X", "the features of the held-out rows when a model is given", "none",
            "Call certify(model, X, y, treatment=t), or pass predictions.",
        )  # fmt: skip
    return getattr(model, method)(X)
