"""``certify``: one call from a model, or scores, and held-out rows to a guarantee in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from auucmax._validation import (
    Floats,
    check_choice,
    check_column,
    check_labels,
    check_level,
    check_treatment,
    check_whole,
)
from auucmax.bounds.bernstein import dkw_bernstein_bound
from auucmax.bounds.betting import betting_bound, betting_difference_bound
from auucmax.bounds.holdout import asymptotic_bound, mcdiarmid_bound, mcdiarmid_conditional_bound
from auucmax.bounds.lower_bound import LowerBound
from auucmax.data.fingerprint import TrainingRecord, fingerprint, hash_ids

__all__ = ["Certificate", "certify", "certify_difference", "certify_thresholds"]

_INDEPENDENT = "rows (or clusters, if given) are independent, and treatment was randomised"
_BEFORE = "the score was fixed before these rows were seen"
_RANGE = "outcomes lie in {range}"


@dataclass(frozen=True)
class _Method:
    """How ``certify`` calls a bound: what it takes beyond rows, target, delta and candidates."""

    function: Callable[..., LowerBound]
    words: str
    options: tuple[str, ...]
    assumptions: tuple[str, ...]


def _fixed(*args: Any, **options: Any) -> LowerBound:
    return betting_bound(*args, bets="fixed", **options)


_BETTING = (
    "outcome_range",
    "outcome_model",
    "outcome_model_range",
    "groups",
    "n_dealings",
    "random_state",
)
METHODS = {
    "betting": _Method(betting_bound, "hedged block betting", _BETTING, (_RANGE,)),
    "betting-fixed": _Method(_fixed, "block betting at one size", _BETTING, (_RANGE,)),
    "mcdiarmid": _Method(mcdiarmid_bound, "McDiarmid's inequality", ("outcome_range",), (_RANGE,)),
    "mcdiarmid-conditional": _Method(
        mcdiarmid_conditional_bound,
        "McDiarmid's inequality, given the numbers of responders",
        (),
        ("it speaks of AUUC at the response rates of these rows, each arm ranked on its own",),
    ),
    "dkw-bernstein": _Method(
        dkw_bernstein_bound, "a DKW band and empirical Bernstein", ("outcome_range",), (_RANGE,)
    ),
    "asymptotic": _Method(
        asymptotic_bound,
        "the normal approximation (not a guarantee)",
        ("outcome_model", "groups"),
        ("there are enough rows for the normal approximation",),
    ),
}


@dataclass(frozen=True)
class Certificate:
    """Lower bounds on AUUC and on the gain over random targeting, and what they rest on.

    ``lower_bound`` (AUUC) and ``gain_lower_bound`` (AUUC - ATE/2) hold *each* with probability
    1 - ``delta``; both at once only if ``joint``. ``estimate`` and ``gain_estimate`` are what the
    rows show, ``gap`` and ``gain_gap`` the differences.
    """

    lower_bound: float
    gain_lower_bound: float
    estimate: float
    gain_estimate: float
    delta: float
    joint: bool
    method: str
    assumptions: tuple[str, ...]
    n_rows: int
    n_candidates: int = 1

    @property
    def gap(self) -> float:
        return self.estimate - self.lower_bound

    @property
    def gain_gap(self) -> float:
        return self.gain_estimate - self.gain_lower_bound

    def __str__(self) -> str:
        sure = f"With probability {1 - self.delta:.4g}"
        verdict = "beats random targeting: it gains at least"
        if self.gain_lower_bound <= 0:
            verdict = "is not shown to beat random targeting: it gains at least"
        together = "both at once" if self.joint else "each statement by itself"
        among = f", the best of {self.n_candidates}," if self.n_candidates > 1 else ""
        return (
            f"{sure}, this ranking{among} {verdict} {self.gain_lower_bound:+.5f} over random "
            f"(estimate {self.gain_estimate:+.5f}), and its AUUC is at least "
            f"{self.lower_bound:.5f} (estimate {self.estimate:.5f}), {together}: by "
            f"{METHODS[self.method].words} on {self.n_rows:,} held-out rows, if "
            f"{'; '.join(self.assumptions)}."
        )


def certify(
    model_or_score: Any,
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    treatment: ArrayLike,
    delta: float = 0.05,
    method: str = "auto",
    joint: bool = False,
    folds: ArrayLike | None = None,
    n_candidates: int = 1,
    ids: ArrayLike | None = None,
    control: Any = None,
    **options: Any,
) -> Certificate:
    """Certify a ranking on held-out rows: how good is it at least, with probability 1 - delta?

    Parameters
    ----------
    model_or_score : a fitted model with ``predict``, or (n,) scores. Certifying a model on the rows
        that it was fitted on is an error; of scores nothing is known, so that they were fixed
        beforehand is printed as an assumption.
    X : (n, d) features of the held-out rows; needed for a model only.
    y, treatment : (n,) outcome and treatment of these rows.
    delta : probability with which a bound may fail.
    method : "auto": "betting" if outcomes lie in [0, 1] or ``outcome_range`` is given, otherwise
        "asymptotic", which is no guarantee. Or one of "betting", "betting-fixed", "mcdiarmid",
        "mcdiarmid-conditional", "dkw-bernstein", "asymptotic", chosen before looking.
    joint : both bounds at once, at delta/2 each.
    folds : (n,) fold of each row, for cross-fitted scores: the scores of a fold come from a model
        fitted on the other folds. Each fold is certified at delta / folds, and the bounds are for
        the mean AUUC of the folds' models, weighted by rows.
    n_candidates : how many scores this one was chosen from on these very rows.
    ids : (n,) names of the rows, checked against those that the model was fitted with.
    options : of the bound, as in :func:`auucmax.bounds.betting_bound`: outcome_range,
        outcome_model (predictions, or with X a fitted model), outcome_model_range, groups,
        n_dealings, random_state.

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
    if y is None:
        raise ValueError(
            "y should be the outcome of the held-out rows, got none. Call certify(model, X, y, "
            "treatment=t), or certify(score, y=y, treatment=t)."
        )
    outcome = check_column(y, "y")
    treated = check_treatment(treatment, len(outcome), control=control)
    score, before = _scores(model_or_score, X, len(outcome))
    record = getattr(model_or_score, "training_record_", None)
    if record is not None:
        n_candidates *= _candidates_of(record, X, outcome, treated, ids)
    options = _outcome_model(options, X)
    if method == "auto":
        method = _auto(outcome, options)
    call = METHODS[method]
    _check_options(options, method)
    level = delta / (2 if joint else 1)
    bounds = {
        target: _over_folds(
            call.function,
            (outcome, score, treated),
            folds,
            target=target,
            delta=level,
            n_candidates=check_whole(n_candidates, "n_candidates", 1),
            **options,
        )
        for target in ("auuc", "gain")
    }
    return Certificate(
        lower_bound=bounds["auuc"].lower,
        gain_lower_bound=bounds["gain"].lower,
        estimate=bounds["auuc"].estimate,
        gain_estimate=bounds["gain"].estimate,
        delta=delta,
        joint=joint,
        method=method,
        assumptions=_assumptions(call, before, folds, options),
        n_rows=len(outcome),
        n_candidates=n_candidates,
    )


def certify_difference(
    first: Any,
    second: Any,
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    treatment: ArrayLike,
    delta: float = 0.05,
    control: Any = None,
    **options: Any,
) -> LowerBound:
    """By how much the first model (or scores) has the larger AUUC at least, by block betting.

    A positive ``lower`` certifies that the first ranks better. Arguments as in :func:`certify`.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> a, b = trial.X["womens"], trial.X["newbie"]
    >>> certify_difference(a, b, y=trial.y, treatment=trial.treatment).lower > 0
    True
    """
    outcome = check_column([] if y is None else y, "y")
    treated = check_treatment(treatment, len(outcome), control=control)
    scores = []
    for model in (first, second):
        scores.append(_scores(model, X, len(outcome))[0])
        record = getattr(model, "training_record_", None)
        if record is not None and _candidates_of(record, X, outcome, treated, None) > 1:
            raise ValueError(
                "the rows should be new to both models, got those that one chose its norm by. "
                "Use other rows."
            )
    return betting_difference_bound(outcome, *scores, treatment=treated, delta=delta, **options)


def certify_thresholds(
    model_or_score: Any,
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    treatment: ArrayLike,
    thresholds: ArrayLike,
    delta: float = 0.05,
    control: Any = None,
    **options: Any,
) -> pd.DataFrame:
    """Gain of treating everyone whose score is above a threshold, over treating as many at random.

    g(s) = V(s) - P(f > s) ATE with V(s) the effect of treating those above s. It is twice the gain
    of the score 1[f > s], so each threshold is certified by block betting, at delta divided by
    their number: all bounds hold together. Thresholds must be fixed beforehand: quantiles of the
    *training* scores, say.

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
    outcome = check_column([] if y is None else y, "y")
    treated = check_treatment(treatment, len(outcome), control=control)
    score, _ = _scores(model_or_score, X, len(outcome))
    record = getattr(model_or_score, "training_record_", None)
    candidates = 1 if record is None else _candidates_of(record, X, outcome, treated, None)
    values = check_column(np.atleast_1d(np.asarray(thresholds, dtype=np.float64)), "thresholds")
    table = []
    for value in values:
        above = (score > value).astype(np.float64)
        bound = betting_bound(
            outcome,
            above,
            treatment=treated,
            target="gain",
            delta=delta,
            n_candidates=candidates * len(values),
            **options,
        )
        table.append((value, above.mean(), 2 * bound.estimate, 2 * bound.lower))
    return pd.DataFrame(table, columns=["threshold", "share", "estimate", "lower_bound"])


def _scores(model_or_score: Any, X: Any, n_rows: int) -> tuple[Floats, bool]:
    """Scores of the rows, and whether they come from a model that remembers its rows."""
    if not hasattr(model_or_score, "predict"):
        if X is not None:
            raise ValueError(
                "X should be left out when scores are certified, got both. Call certify(score, "
                "y=y, treatment=t), or pass a fitted model."
            )
        return check_column(model_or_score, "score", n_rows), False
    if X is None:
        raise ValueError(
            "X should hold the features of the held-out rows when a model is certified, got none. "
            "Call certify(model, X, y, treatment=t)."
        )
    score = check_column(model_or_score.predict(X), "score", n_rows)
    return score, hasattr(model_or_score, "training_record_")


def _candidates_of(
    record: TrainingRecord, X: Any, y: Floats, treated: Any, ids: ArrayLike | None
) -> int:
    """How many candidates the model compared on these rows; an error if it learnt from them."""
    if ids is not None and record.ids is not None:
        seen = np.isin(hash_ids(ids, len(y)), record.ids)
        if seen.any():
            raise ValueError(
                f"the rows should be new to the model, got {int(seen.sum())} of {len(seen)} ids "
                f"that it was fitted on. Certify on rows that were kept apart."
            )
    if len(y) not in (record.given.n_rows, record.set_aside and record.set_aside.n_rows):
        return 1
    rows = fingerprint(X, y, treated)
    if rows == record.given:
        raise ValueError(
            "the rows should be new to the model, got exactly those that it was fitted on: what "
            "they show is no evidence of how it ranks others. Certify on rows that were kept "
            "apart, or fit AUUCMax(selection='certificate'), which keeps half of them apart."
        )
    return record.n_candidates if rows == record.set_aside else 1


def _outcome_model(options: dict[str, Any], X: Any) -> dict[str, Any]:
    """Predictions in place of a fitted outcome model."""
    model = options.get("outcome_model")
    if model is None or not hasattr(model, "predict"):
        return options
    if X is None:
        raise ValueError(
            "X should be given when outcome_model is a model, got none. Pass X, or predictions."
        )
    predict = getattr(model, "predict_proba", None)
    predicted = model.predict(X) if predict is None else predict(X)[:, 1]
    return options | {"outcome_model": predicted}


def _auto(y: Floats, options: dict[str, Any]) -> str:
    """By what is known of the outcome; never by comparing bounds on the data."""
    bounded = "outcome_range" in options or bool(y.min() >= 0 and y.max() <= 1)
    return "betting" if bounded else "asymptotic"


def _check_options(options: dict[str, Any], method: str) -> None:
    for name in options:
        if name not in METHODS[method].options:
            known = [m for m, call in METHODS.items() if name in call.options]
            hint = f"Use one of the methods {', '.join(known)}." if known else "Check its spelling."
            raise ValueError(
                f"options should be those of method={method!r}, got {name!r}, which it does not "
                f"take. {hint}"
            )


def _over_folds(
    bound: Callable[..., LowerBound],
    rows: tuple[Floats, Floats, Any],
    folds: ArrayLike | None,
    *,
    n_candidates: int,
    **options: Any,
) -> LowerBound:
    """The bound; with folds, the mean of theirs, each at its part of delta."""
    y, score, treated = rows
    if folds is None:
        return bound(y, score, treatment=treated, n_candidates=n_candidates, **options)
    labels, fold = np.unique(check_labels(folds, "folds", len(y)), return_inverse=True)
    results = []
    for number in range(len(labels)):
        inside = fold == number
        by_row = {
            name: np.asarray(value)[inside]
            for name, value in options.items()
            if name in ("groups", "outcome_model") and value is not None
        }
        results.append(
            bound(
                y[inside],
                score[inside],
                treatment=treated[inside],
                n_candidates=n_candidates * len(labels),
                **(options | by_row),
            )
        )
    share = np.bincount(fold) / len(fold)
    lower = float(share @ [result.lower for result in results])
    estimate = float(share @ [result.estimate for result in results])
    return replace(results[0], lower=lower, estimate=estimate)


def _assumptions(
    call: _Method, remembered: bool, folds: ArrayLike | None, options: dict[str, Any]
) -> tuple[str, ...]:
    low, high = options.get("outcome_range", (0, 1))
    own = tuple(a.format(range=f"[{low:g}, {high:g}]") for a in call.assumptions)
    if options.get("outcome_model") is not None:
        own += ("the outcome model, and the choice to use it, come from other rows",)
    if options.get("groups") is not None and call.function is not asymptotic_bound:
        own += ("people are counted so that every cluster weighs the same",)
    if folds is not None:
        own += (
            "each fold's scores come from a model fitted on the others; the bounds are for "
            "the mean over these models",
        )
    elif not remembered:
        own += (_BEFORE,)
    return (_INDEPENDENT, *own)
