"""``certify``: one call from a model, or scores, and held-out rows to a guarantee in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from auucmax._validation import (
    Bools,
    Floats,
    check_choice,
    check_column,
    check_labels,
    check_level,
    check_treatment,
    check_whole,
    listed,
)
from auucmax.bounds.bernstein import dkw_bernstein_bound
from auucmax.bounds.betting import betting_bound, betting_difference_bound
from auucmax.bounds.binned import binned_dkw_bernstein_bound, binned_mcdiarmid_bound
from auucmax.bounds.holdout import asymptotic_bound, mcdiarmid_bound, mcdiarmid_conditional_bound
from auucmax.bounds.lower_bound import LowerBound
from auucmax.data.fingerprint import Fingerprint, TrainingRecord, fingerprint, hash_ids
from auucmax.evaluation.histogram import ScoreHistogram

__all__ = ["Certificate", "certify", "certify_difference", "certify_thresholds"]

_RANDOMISED = "{rows} are independent, and treatment was randomised with the same chance for all"
_BEFORE = "the score was fixed without looking at them, or at rows that depend on them"
_CANDIDATES = (
    "the {n} candidates were fixed without looking at them, or at rows that depend on them"
)
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
#: The methods that a histogram of scores is enough for.
_BINNED: dict[str, Callable[..., LowerBound]] = {
    "dkw-bernstein": binned_dkw_bernstein_bound,
    "mcdiarmid": binned_mcdiarmid_bound,
}


@dataclass(frozen=True)
class Certificate:
    """Lower bounds on AUUC and on the gain over random targeting, and what they rest on.

    ``lower_bound`` (AUUC) and ``gain_lower_bound`` (AUUC - ATE/2) hold *each* with probability
    1 - ``delta``; both at once only if ``joint``. ``estimate`` and ``gain_estimate`` are what the
    rows show, ``gap`` and ``gain_gap`` the differences, ``bin_gap`` the part of them that pays for
    the bins of a histogram.
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
    bin_gap: float = 0.0

    @property
    def gap(self) -> float:
        return self.estimate - self.lower_bound

    @property
    def gain_gap(self) -> float:
        return self.gain_estimate - self.gain_lower_bound

    def __str__(self) -> str:
        chance = f"{1 - self.delta:.4g}" if self.delta > 1e-4 else f"1 - {self.delta:.1g}"
        verdict = "is not shown to beat random targeting: it gains at least"
        if self.gain_lower_bound > 0:
            verdict = "beats random targeting: it gains at least"
        together = "both at once" if self.joint else "each statement by itself"
        bins = f" in bins of scores, which cost {self.bin_gap:.2g}" if self.bin_gap > 0 else ""
        among = f", the best of {self.n_candidates}," if self.n_candidates > 1 else ""
        return (
            f"With probability {chance}, this ranking{among} {verdict} "
            f"{self.gain_lower_bound:+.5f} over random "
            f"(estimate {self.gain_estimate:+.5f}), and its AUUC is at least "
            f"{self.lower_bound:.5f} (estimate {self.estimate:.5f}), {together}: by "
            f"{METHODS[self.method].words} on {self.n_rows:,} held-out rows{bins}, if "
            f"{'; '.join(self.assumptions)}."
        )


def certify(
    model_or_score: Any,
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    treatment: ArrayLike | None = None,
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
    model_or_score : a fitted model with ``predict``, or (n,) scores. A model of this package (also
        inside a Pipeline or a search) remembers a fingerprint of its rows: certifying it on them,
        or on a part of them, is an error, as far as they can be told from new rows with equal
        values. Of scores nothing is known. Or the :class:`ScoreHistogram` of rows that are too many
        for memory: then X, y and treatment stay out, and "auto" is "dkw-bernstein".
    X : (n, d) features of the held-out rows; needed for a model only.
    y, treatment : (n,) outcome and treatment of these rows.
    delta : probability with which a bound may fail.
    method : "auto": "betting" if outcomes are 0/1 or ``outcome_range`` is given, otherwise
        "asymptotic", which is no guarantee. Or one of "betting", "betting-fixed", "mcdiarmid",
        "mcdiarmid-conditional", "dkw-bernstein", "asymptotic", chosen before looking.
    joint : both bounds at once, at delta/2 each.
    folds : (n,) fold of each row, for cross-fitted scores: the scores of a fold come from a model
        fitted on the other folds. Each fold is certified at delta / folds, and the bounds are for
        the mean AUUC of the folds' models, weighted by rows.
    n_candidates : how many scores this one was chosen from on these very rows.
    ids : (n,) names of the rows, checked against those that the model was fitted with.
    control : label of the control group, when treatment is not 0/1 (default: the model's).
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
    n_candidates = check_whole(n_candidates, "n_candidates", 1)
    if isinstance(model_or_score, ScoreHistogram):
        own = {"X": X, "y": y, "treatment": treatment, "folds": folds, "ids": ids}
        _check_no_rows(own | {"control": control} | options)
        return _of_histogram(model_or_score, delta, method, joint, n_candidates, options)
    control = getattr(model_or_score, "control", None) if control is None else control
    rows = _HeldOut.of(X, y, treatment, ids, control)
    score = rows.scores(model_or_score)
    n_candidates *= rows.candidates_of(model_or_score)
    if folds is not None and hasattr(model_or_score, "predict"):
        raise ValueError(
            "folds should come with cross-fitted scores, got a single model, whose scores do not "
            "come from the other folds. Pass scores, or leave folds out."
        )
    options = _outcome_model(options, X)
    chosen = _auto(rows.y, options) if method == "auto" else method
    _check_options(options, chosen, method)
    call = METHODS[chosen]
    auuc, gain = (
        _over_folds(
            call.function,
            (rows.y, score, rows.treated),
            folds,
            target=target,
            delta=delta / (2 if joint else 1),
            n_candidates=n_candidates,
            **options,
        )
        for target in ("auuc", "gain")
    )
    return Certificate(
        lower_bound=auuc.lower,
        gain_lower_bound=gain.lower,
        estimate=auuc.estimate,
        gain_estimate=gain.estimate,
        delta=delta,
        joint=joint,
        method=chosen,
        assumptions=_assumptions(call, n_candidates, folds, options),
        n_rows=len(rows.y),
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
    n_candidates: int = 1,
    ids: ArrayLike | None = None,
    control: Any = None,
    **options: Any,
) -> LowerBound:
    """By how much the first model (or scores) has the larger AUUC at least, by block betting.

    A positive ``lower`` certifies that the first ranks better. ``options``: outcome_range, groups,
    n_dealings, random_state. Everything else as in :func:`certify`.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> a, b = trial.X["womens"], trial.X["newbie"]
    >>> certify_difference(a, b, y=trial.y, treatment=trial.treatment).lower > 0
    True
    """
    _check_names(options, ("outcome_range", "groups", "n_dealings", "random_state"))
    n_candidates = check_whole(n_candidates, "n_candidates", 1)
    rows = _HeldOut.of(X, y, treatment, ids, control)
    scores = [rows.scores(model, mixed=True) for model in (first, second)]
    for model in (first, second):
        n_candidates *= rows.candidates_of(model)
    return betting_difference_bound(
        rows.y,
        *scores,
        treatment=rows.treated,
        delta=delta,
        n_candidates=n_candidates,
        **options,
    )


def certify_thresholds(
    model_or_score: Any,
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    treatment: ArrayLike,
    thresholds: ArrayLike,
    delta: float = 0.05,
    n_candidates: int = 1,
    ids: ArrayLike | None = None,
    control: Any = None,
    **options: Any,
) -> pd.DataFrame:
    """Gain of treating everyone whose score is above a threshold, over treating as many at random.

    g(s) = V(s) - P(f > s) ATE with V(s) the effect of treating those above s. It is twice the gain
    of the score 1[f > s], so each threshold is certified by block betting, at delta divided by
    their number: all bounds hold together. Thresholds must be fixed beforehand: quantiles of the
    *training* scores, say. Everything else as in :func:`certify`, ``options`` as in
    :func:`auucmax.bounds.betting_bound`.

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
    _check_names(options, _BETTING)
    control = getattr(model_or_score, "control", None) if control is None else control
    rows = _HeldOut.of(X, y, treatment, ids, control)
    score = rows.scores(model_or_score)
    values = check_column(np.atleast_1d(thresholds), "thresholds")
    price = check_whole(n_candidates, "n_candidates", 1) * rows.candidates_of(model_or_score)
    options = _outcome_model(options, X)
    table = []
    for value in values:
        above = (score > value).astype(np.float64)
        bound = betting_bound(
            rows.y,
            above,
            treatment=rows.treated,
            target="gain",
            delta=delta,
            n_candidates=price * len(values),
            **options,
        )
        table.append((value, above.mean(), 2 * bound.estimate, 2 * bound.lower))
    return pd.DataFrame(table, columns=["threshold", "share", "estimate", "lower_bound"])


def _check_no_rows(given: dict[str, Any]) -> None:
    """A histogram stands for all the rows: nothing else may speak of them."""
    for name, value in given.items():
        if value is not None and name != "outcome_range":
            raise ValueError(
                f"a histogram should be certified without {name}, got it: the histogram stands for "
                f"all rows, and they are no longer there. Leave {name} out, or certify the scores "
                f"of the rows themselves."
            )


def _of_histogram(
    histogram: ScoreHistogram,
    delta: float,
    method: str,
    joint: bool,
    n_candidates: int,
    options: dict[str, Any],
) -> Certificate:
    chosen = "dkw-bernstein" if method == "auto" else method
    if chosen not in _BINNED:
        raise ValueError(
            f"method should be one of {listed(_BINNED)} for a histogram, got {chosen!r}, which "
            f"needs the rows. The asymptotic interval is histogram.inference()."
        )
    if method == "auto" and not (histogram.binary or "outcome_range" in options):
        raise ValueError(
            f"outcomes should be 0/1, or come with outcome_range=(lowest, highest), as they are "
            f"possible, to get a guarantee; got outcomes from {histogram.outcome_low:g} to "
            f"{histogram.outcome_high:g} and no range. Pass it, or take the asymptotic interval, "
            f"histogram.inference()."
        )
    options = {name: options[name] for name in options if name == "outcome_range"}
    share = {"delta": delta / (2 if joint else 1), "n_candidates": n_candidates} | options
    auuc, gain = (_BINNED[chosen](histogram, target=target, **share) for target in ("auuc", "gain"))
    # The same rows with one score a bin: what is left of the gap is what bins cost.
    tied = _BINNED[chosen](replace(histogram, low=histogram.high), **share)
    return Certificate(
        lower_bound=auuc.lower,
        gain_lower_bound=gain.lower,
        estimate=auuc.estimate,
        gain_estimate=gain.estimate,
        delta=delta,
        joint=joint,
        method=chosen,
        assumptions=_assumptions(METHODS[chosen], n_candidates, None, options),
        n_rows=histogram.n_rows,
        n_candidates=n_candidates,
        bin_gap=max(auuc.gap - tied.gap, 0.0) if histogram.rank_error() else 0.0,
    )


class _HeldOut(NamedTuple):
    """The checked rows of a certificate."""

    X: Any
    y: Floats
    treated: Bools
    ids: ArrayLike | None

    @classmethod
    def of(
        cls,
        X: Any,
        y: ArrayLike | None,
        treatment: ArrayLike | None,
        ids: ArrayLike | None,
        control: Any,
    ) -> _HeldOut:
        if y is None:
            raise ValueError(
                "y should be the outcome of the held-out rows, got none. Call certify(model, X, y, "
                "treatment=t), or certify(score, y=y, treatment=t)."
            )
        if treatment is None:
            raise ValueError(
                "treatment should say which held-out rows were treated, got none. Call "
                "certify(model, X, y, treatment=t), or certify(score, y=y, treatment=t)."
            )
        outcome = check_column(y, "y")
        treated = check_treatment(treatment, len(outcome), control=control)
        return cls(X, outcome, treated, ids)

    def scores(self, model_or_score: Any, mixed: bool = False) -> Floats:
        """Scores of the rows; ``mixed``: models and scores may come together."""
        if hasattr(model_or_score, "predict"):
            if self.X is None:
                raise ValueError(
                    "X should hold the features of the held-out rows when a model is certified, "
                    "got none. Call certify(model, X, y, treatment=t)."
                )
            return check_column(model_or_score.predict(self.X), "score", len(self.y))
        if self.X is not None and not mixed:
            raise ValueError(
                "X should be left out when scores are certified, got both. Call certify(score, "
                "y=y, treatment=t), or pass a fitted model."
            )
        return check_column(model_or_score, "score", len(self.y))

    def candidates_of(self, model: Any) -> int:
        """How many candidates the model compared on these rows; an error if it learnt from them."""
        record, X = _record_of(model, self.X)
        self._check_ids(record)
        if record is None:
            return 1
        return candidates_compared(record, fingerprint(X, self.y, self.treated))

    def _check_ids(self, record: TrainingRecord | None) -> None:
        if self.ids is None:
            return
        if record is None or record.ids is None:
            raise ValueError(
                "ids should be checked against those that a model was fitted with, got no such "
                "model. Fit it with ids=..., or leave ids out."
            )
        seen = np.isin(hash_ids(self.ids, len(self.y)), record.ids)
        if seen.any():
            raise ValueError(
                f"the rows should be new to the model, got {int(seen.sum())} of {len(seen)} ids "
                f"that it was fitted on. Certify on rows that were kept apart."
            )


def candidates_compared(record: TrainingRecord, rows: Fingerprint) -> int:
    """How many candidates a model compared on these rows; an error if it learnt from them."""
    if rows in (record.given, record.learnt) or rows.overlaps(record.learnt):
        share = 1.0 if rows in (record.given, record.learnt) else rows.share_seen(record.learnt)
        raise ValueError(
            f"the rows should be new to the model, got rows of which {share:.0%} are rows that "
            f"it was fitted on: what they show is no evidence of how it ranks others. Certify "
            f"on rows that were kept apart, or fit AUUCMax(selection='certificate'), which "
            f"keeps half of them apart."
        )
    aside = record.set_aside
    known = aside is not None and (rows == aside or rows.overlaps(aside))
    return record.n_candidates if known else 1


def _record_of(model: Any, X: Any) -> tuple[TrainingRecord | None, Any]:
    """What a model remembers of its rows, also inside a search or a pipeline; X as it sees it."""
    if hasattr(model, "best_estimator_"):
        return _record_of(model.best_estimator_, X)
    if hasattr(model, "steps"):
        inner = model[:-1].transform(X) if len(model.steps) > 1 else X
        return _record_of(model.steps[-1][1], inner)
    return getattr(model, "training_record_", None), X


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
    bounded = "outcome_range" in options or bool(np.isin(y, (0, 1)).all())
    return "betting" if bounded else "asymptotic"


def _check_options(options: dict[str, Any], method: str, asked: str) -> None:
    known = METHODS[method].options
    for name in options:
        if name in known:
            continue
        others = [m for m, call in METHODS.items() if name in call.options]
        if asked == "auto" and method == "asymptotic" and name in _BETTING:
            hint = (
                "It was chosen because y is not 0/1: pass outcome_range=(lowest, highest), as they "
                "are possible, to get a guarantee."
            )
        elif others:
            hint = f"Use one of the methods {', '.join(others)}."
        else:
            hint = "Check its spelling."
        raise ValueError(
            f"options should be those of method={method!r}, got {name!r}, which it does not take. "
            f"{hint}"
        )


def _check_names(options: dict[str, Any], known: tuple[str, ...]) -> None:
    for name in options:
        if name not in known:
            raise ValueError(
                f"options should be among {', '.join(known)}, got {name!r}. Leave it out."
            )


def _over_folds(
    bound: Callable[..., LowerBound],
    rows: tuple[Floats, Floats, Bools],
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
    by_row = {
        name: check_labels(options[name], name, len(y))
        for name in ("groups", "outcome_model")
        if options.get(name) is not None
    }
    if "groups" in by_row:
        _check_whole_clusters(by_row["groups"], fold)
    results = []
    for number, label in enumerate(labels.tolist()):
        inside = fold == number
        if treated[inside].all() or not treated[inside].any():
            raise ValueError(
                f"each fold should have both arms, got one in fold {label!r}. Make folds by "
                f"treatment, with TrialKFold."
            )
        results.append(
            bound(
                y[inside],
                score[inside],
                treatment=treated[inside],
                n_candidates=n_candidates * len(labels),
                **(options | {name: column[inside] for name, column in by_row.items()}),
            )
        )
    share = np.bincount(fold) / len(fold)
    lower = float(share @ [result.lower for result in results])
    estimate = float(share @ [result.estimate for result in results])
    return replace(results[0], lower=lower, estimate=estimate)


def _check_whole_clusters(groups: Any, fold: Any) -> None:
    codes = pd.factorize(groups)[0]
    n_pairs = len(np.unique(codes.astype(np.int64) * (fold.max() + 1) + fold))
    if n_pairs > codes.max() + 1:
        raise ValueError(
            f"a cluster should lie in one fold, got {n_pairs - codes.max() - 1} that reach into "
            f"another: its rows depend on those that the fold's model was fitted on. Make folds of "
            f"whole clusters."
        )


def _assumptions(
    call: _Method, n_candidates: int, folds: ArrayLike | None, options: dict[str, Any]
) -> tuple[str, ...]:
    clustered = options.get("groups") is not None
    first = _RANDOMISED.format(rows="clusters" if clustered else "rows")
    low, high = (float(v) for v in options.get("outcome_range", (0, 1)))
    own = tuple(a.format(range=f"[{low:g}, {high:g}]") for a in call.assumptions)
    if folds is not None:
        own += (
            "each fold's scores come from a model fitted on the others; the bounds are for the "
            "mean over these models",
        )
    else:
        own += (_BEFORE if n_candidates == 1 else _CANDIDATES.format(n=n_candidates),)
    if options.get("outcome_model") is not None:
        own += ("the outcome model, and the choice to use it, come from other rows",)
    if clustered and call.function is not asymptotic_bound:
        own += ("people are counted so that every cluster weighs the same",)
    return (first, *own)
