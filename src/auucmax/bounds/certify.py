"""``certify``: one call from a model, or scores, and held-out rows to a guarantee in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from auucmax._validation import Floats, check_choice, check_column, check_level, check_whole
from auucmax.bounds.betting import betting_bound, betting_difference_bound
from auucmax.bounds.certificate import Certificate, assumptions_of
from auucmax.bounds.certify_histogram import check_no_rows, histogram_bounds
from auucmax.bounds.cross_fitted import over_folds
from auucmax.bounds.held_out import HeldOut, predicted_outcome
from auucmax.bounds.lower_bound import LowerBound
from auucmax.bounds.methods import (
    BETTING_OPTIONS,
    METHODS,
    auto_method,
    check_names,
    check_options,
)
from auucmax.evaluation.bins import BinnedLevels

__all__ = ["certify", "certify_difference", "certify_thresholds"]


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
        values. Of scores nothing is known. Or the :class:`BinnedLevels` of rows that are too many
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
    share = delta / (2 if joint else 1)
    if isinstance(model_or_score, BinnedLevels):
        own = {"X": X, "y": y, "treatment": treatment, "folds": folds, "ids": ids}
        check_no_rows(own | {"control": control} | options)
        options = {name: value for name, value in options.items() if value is not None}
        price = {"delta": share, "n_candidates": n_candidates}
        chosen, auuc, gain, bin_gap = histogram_bounds(model_or_score, method, price | options)
        n_rows = model_or_score.n_rows
    else:
        control = getattr(model_or_score, "control", None) if control is None else control
        rows = HeldOut.of(X, y, treatment, ids, control)
        score = rows.scores(model_or_score)
        n_candidates *= rows.candidates_of(model_or_score)
        _check_folds(folds, model_or_score)
        options = predicted_outcome(options, X)
        price = {"delta": share, "n_candidates": n_candidates}
        chosen, auuc, gain = _row_bounds(rows, score, method, folds, price, options)
        n_rows, bin_gap = len(rows.y), 0.0
    return Certificate(
        lower_bound=auuc.lower,
        gain_lower_bound=gain.lower,
        estimate=auuc.estimate,
        gain_estimate=gain.estimate,
        delta=delta,
        joint=joint,
        method=chosen,
        assumptions=assumptions_of(
            METHODS[chosen], n_candidates, options, cross_fitted=folds is not None
        ),
        n_rows=n_rows,
        n_candidates=n_candidates,
        bin_gap=bin_gap,
    )


def _row_bounds(
    rows: HeldOut,
    score: Floats,
    method: str,
    folds: ArrayLike | None,
    price: dict[str, Any],
    options: dict[str, Any],
) -> tuple[str, LowerBound, LowerBound]:
    """The method chosen, and its bounds of AUUC and gain."""
    chosen = auto_method(rows.y, options) if method == "auto" else method
    check_options(options, chosen, method)
    auuc, gain = (
        over_folds(
            METHODS[chosen].function,
            (rows.y, score, rows.treated),
            folds,
            target=target,
            **price,
            **options,
        )
        for target in ("auuc", "gain")
    )
    return chosen, auuc, gain


def _check_folds(folds: ArrayLike | None, model_or_score: Any) -> None:
    if folds is not None and hasattr(model_or_score, "predict"):
        raise ValueError(
            "folds should come with cross-fitted scores, got a single model, whose scores do not "
            "come from the other folds. Pass scores, or leave folds out."
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
    check_names(options, ("outcome_range", "groups", "n_dealings", "random_state"))
    n_candidates = check_whole(n_candidates, "n_candidates", 1)
    rows = HeldOut.of(X, y, treatment, ids, control)
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
    check_names(options, BETTING_OPTIONS)
    control = getattr(model_or_score, "control", None) if control is None else control
    rows = HeldOut.of(X, y, treatment, ids, control)
    score = rows.scores(model_or_score)
    values = check_column(np.atleast_1d(thresholds), "thresholds")
    price = check_whole(n_candidates, "n_candidates", 1) * rows.candidates_of(model_or_score)
    options = predicted_outcome(options, X)
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
