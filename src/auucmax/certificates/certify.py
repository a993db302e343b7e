"""``certify``: one call from a model, or scores, and held-out rows to a guarantee in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from auucmax._shown import Shown
from auucmax._validation import (
    Bools,
    Floats,
    check_choice,
    check_column,
    check_labels,
    check_level,
    check_whole,
    listed,
)
from auucmax.certificates.betting import (
    BETTING_BOUNDS,
    BETTING_OPTIONS,
    betting_bound,
    betting_bounds,
    betting_difference_bound,
)
from auucmax.certificates.bound import Bound, LowerBound
from auucmax.certificates.classical import CLASSICAL_BOUNDS, binned_dkw_bernstein_bound
from auucmax.certificates.fixed_bets import histogram_betting_bounds
from auucmax.certificates.held_out import HeldOut, predicted_outcome
from auucmax.certificates.known_chances import randomised
from auucmax.certificates.paper import PAPER_BOUNDS
from auucmax.metrics.bins import BinnedLevels
from auucmax.metrics.levels import Levels

#: Every bound by its name. Those with words are the methods that certify chooses from.
ALL_BOUNDS = {bound.name: bound for bound in (*BETTING_BOUNDS, *CLASSICAL_BOUNDS, *PAPER_BOUNDS)}
_BEFORE = "the score was fixed without looking at them, or at rows that depend on them"
_CANDIDATES = (
    "the {n} candidates were fixed without looking at them, or at rows that depend on them"
)

Both = tuple[LowerBound, LowerBound]


@dataclass(frozen=True, repr=False)
class Certificate(Shown):
    """Lower bounds on AUUC and on the gain over random targeting, and what they rest on.

    ``lower_bound`` (AUUC) and ``gain_lower_bound`` (AUUC - ATE/2), and ``upper_bound`` and
    ``gain_upper_bound`` if they were asked for, hold *each* with probability 1 - ``delta``; all at
    once only if ``joint``. ``estimate`` and ``gain_estimate`` are those of
    :func:`auucmax.auuc_inference`, ``adjusted`` if an outcome model was given; ``by_cluster``, with
    every cluster weighing the same, where the bounds are about these; ``gap`` and
    ``gain_gap`` are the differences, ``bin_gap`` the part of them that pays for the bins of a
    histogram. Bets are on outcomes less their mean, which has less noise: a bound can come close to
    the estimate, or pass it.

    By ``method`` "asymptotic" nothing is guaranteed, as the text says first. A bound is infinite
    where there are too few rows for a bound.
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
    adjusted: bool = False
    by_cluster: bool = False
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
    """Certify a ranking on held-out rows: how good is it at least, with probability 1 - delta?

    Parameters
    ----------
    model_or_score : a fitted model with ``predict``, or (n,) scores. The rows must
        be new to it: a model of this package (also inside a Pipeline or a search, or loaded from a
        file) keeps a checksum of its training rows, and it is an error to certify it on exactly
        these. Or the :class:`BinnedLevels` of rows that are too many
        for memory: then X, y and treatment stay out, and "auto" is "betting-fixed" if outcomes are
        0/1, otherwise "dkw-bernstein". What is certified is the ranking by the exact scores.
    X : (n, d) features of the held-out rows; needed for a model only.
    y, treatment : (n,) outcome and treatment of these rows.
    delta : probability with which a bound may fail.
    method : "auto": "betting" if outcomes are 0/1 or ``outcome_range`` is given, otherwise
        "asymptotic", which is no guarantee; with ``propensity`` "betting-fixed". Or one of
        "betting", "betting-fixed", "dkw-bernstein", "asymptotic", chosen before looking.
    joint : both bounds at once, at delta/2 each; all four, if there are upper ones, at delta/4.
    upper : upper bounds, too, which can show that a ranking is *not* better than random.
        They are minus the lower bounds of the same method with the arms swapped.
    folds : (n,) fold of each row, for cross-fitted scores: the scores of a fold come from a model
        fitted on the other folds. Each fold is certified at delta / folds, and the bounds are for
        the mean AUUC of the folds' models, weighted by rows.
    n_candidates : how many scores this one was chosen from on these very rows. A model that kept
        rows apart to choose by, or a search around it, adds its own.
    control : label of the control group, when treatment is not 0/1 (default: the model's).
    options : of the bound, as in :func:`auucmax.certificates.betting_bound`: outcome_range,
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
    check_choice(method, "method", ("auto", *_methods()))
    n_candidates = check_whole(n_candidates, "n_candidates", 1)
    # Two statements that hold together share delta.
    each = delta / ((4 if upper else 2) if joint else 1)
    price: dict[str, Any] = {"delta": each, "n_candidates": n_candidates}
    if isinstance(model_or_score, BinnedLevels):
        given = {"X": X, "y": y, "treatment": treatment, "folds": folds} | options
        swapped = replace(model_or_score, sums=model_or_score.sums[::-1])
        given["control"] = control
        sides = (model_or_score, swapped)[: 1 + upper]
        found = [_histogram_bounds(side, method, price, given) for side in sides]
        (chosen, _, bin_gap), ((auuc, gain), *above) = found[0], [both for _, both, _ in found]
        options = {name: value for name, value in options.items() if value is not None}
        n_rows = model_or_score.n_rows
    else:
        control = getattr(model_or_score, "control", None) if control is None else control
        rows = HeldOut.of(X, y, treatment, control)
        data = rows.y, rows.scores(model_or_score), rows.treated
        n_candidates *= rows.candidates_of(model_or_score)
        _check_folds(folds, model_or_score)
        options = predicted_outcome(options, X)
        price["n_candidates"] = n_candidates
        chosen = _automatic(rows.y, options) if method == "auto" else method
        _check_options(options, chosen, method)
        (auuc, gain), *above = _sides(chosen, data, folds, options, price, upper)
        n_rows, bin_gap = len(rows.y), 0.0
    return Certificate(
        lower_bound=auuc.lower,
        gain_lower_bound=gain.lower,
        estimate=auuc.estimate,
        gain_estimate=gain.estimate,
        delta=delta,
        joint=joint,
        method=chosen,
        assumptions=_assumptions_of(ALL_BOUNDS[chosen], n_candidates, options, folds is not None),
        n_rows=n_rows,
        n_candidates=n_candidates,
        bin_gap=bin_gap,
        adjusted=options.get("outcome_model") is not None,
        by_cluster=options.get("groups") is not None and chosen != "asymptotic",
        upper_bound=-above[0][0].lower if above else None,
        gain_upper_bound=-above[0][1].lower if above else None,
    )


def _sides(
    method: str,
    data: tuple[Floats, Floats, Bools],
    folds: ArrayLike | None,
    options: dict[str, Any],
    price: dict[str, Any],
    upper: bool,
) -> list[Both]:
    """Bounds of AUUC and gain from below and, if asked for, those of the same rows with the arms
    swapped: minus the upper ones."""
    y, score, treated = data
    swapped = options
    if (chance := options.get("propensity")) is not None:
        swapped = options | {"propensity": 1 - np.asarray(chance)}
    found = [
        _over_folds(_both(method), (y, score, arms), folds, options=own, **price)
        for arms, own in ((treated, options), (~treated, swapped))[: 1 + upper]
    ]
    pairs = zip(found[0], _estimates(data, folds, options, method), strict=True)
    auuc, gain = (replace(bound, estimate=estimate) for bound, estimate in pairs)
    return [(auuc, gain), *found[1:]]


def _automatic(y: Floats, options: dict[str, Any]) -> str:
    """The method that is taken if none is named.

    By what is known of the outcome; never by comparing bounds on the data.
    """
    if "outcome_range" not in options and not np.isin(y, (0, 1)).all():
        return "asymptotic"
    return "betting" if options.get("propensity") is None else "betting-fixed"


def _methods(*, from_bins: bool = False) -> list[str]:
    """Names of the methods of certify; of those only for which counts in bins are enough."""
    found = (bound for bound in ALL_BOUNDS.values() if bound.words)
    return [bound.name for bound in found if bound.from_bins or not from_bins]


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
    rows = HeldOut.of(X, y, treatment, control)
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
    control: Any = None,
    **options: Any,
) -> pd.DataFrame:
    """Gain of treating everyone whose score is above a threshold, over treating as many at random.

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
    _check_names(options, BETTING_OPTIONS)
    control = getattr(model_or_score, "control", None) if control is None else control
    rows = HeldOut.of(X, y, treatment, control)
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


def _both(method: str) -> Callable[..., Both]:
    """The bounds of AUUC and gain by a method; bets on both come from one dealing."""
    if method.startswith("betting"):
        bets = "fixed" if method == "betting-fixed" else "hedged"
        bounds: Callable[..., Any] = partial(betting_bounds, bets=bets)
        return bounds
    function: Callable[..., Any] = ALL_BOUNDS[method].function

    def both(*rows: Any, **options: Any) -> Both:
        return function(*rows, target="auuc", **options), function(*rows, target="gain", **options)

    return both


def _over_folds(
    both: Callable[..., Both],
    rows: tuple[Floats, Floats, Bools],
    folds: ArrayLike | None,
    *,
    delta: float,
    n_candidates: int,
    options: dict[str, Any],
) -> Both:
    """The bounds; with folds, the means of theirs, each at its part of delta."""
    y, score, treated = rows
    if folds is None:
        price: dict[str, Any] = {"delta": delta, "n_candidates": n_candidates}
        return both(y, score, treatment=treated, **price, **options)
    labels, fold = np.unique(check_labels(folds, "folds", len(y)), return_inverse=True)
    by_row = {
        name: check_labels(options[name], name, len(y))
        for name in ("groups", "outcome_model", "propensity")
        if options.get(name) is not None
    }
    if "groups" in by_row:
        _check_whole_clusters(by_row["groups"], fold)
    # By the union bound all folds hold together, and so does their mean.
    price = {"delta": delta, "n_candidates": n_candidates * len(labels)}
    results = []
    for number, label in enumerate(labels.tolist()):
        inside = fold == number
        if treated[inside].all() or not treated[inside].any():
            raise ValueError(
                f"each fold should have both arms, got one in fold {label!r}. Make folds by "
                f"treatment, with TrialKFold."
            )
        own = options | {name: column[inside] for name, column in by_row.items()}
        results.append(both(y[inside], score[inside], treatment=treated[inside], **price, **own))
    share = np.bincount(fold) / len(fold)
    auuc, gain = (
        replace(
            of_folds[0],
            lower=float(share @ [bound.lower for bound in of_folds]),
            estimate=float(share @ [bound.estimate for bound in of_folds]),
        )
        for of_folds in zip(*results, strict=True)
    )
    return auuc, gain


def _estimates(
    rows: tuple[Floats, Floats, Bools],
    folds: ArrayLike | None,
    options: dict[str, Any],
    method: str,
) -> tuple[float, float]:
    """AUUC and gain as everywhere; of folds, their means. Clusters weigh what the bound says."""
    y, score, treated = rows
    groups, model = options.get("groups"), options.get("outcome_model")
    chance = options.get("propensity")
    weight = None
    # Bets are on means over clusters, so each cluster counts once, however many rows it has.
    if groups is not None and method != "asymptotic":
        codes = pd.factorize(np.asarray(groups))[0]
        weight = 1 / np.bincount(codes)[codes]
    fold = np.zeros(len(y), np.intp)
    if folds is not None:
        fold = np.unique(check_labels(folds, "folds", len(y)), return_inverse=True)[1]
    found = np.zeros(2)
    for number in range(fold.max() + 1):
        own = fold == number
        levels = Levels.of(
            y[own],
            score[own],
            treatment=treated[own],
            sample_weight=None if weight is None else weight[own],
            outcome_model=None if model is None else np.asarray(model)[own],
            propensity=None if chance is None else np.asarray(chance)[own],
        )
        found += own.mean() * np.array([levels.auuc(), levels.gain()])
    return float(found[0]), float(found[1])


def _check_whole_clusters(groups: Any, fold: Any) -> None:
    """Raise a ValueError for a cluster that is not in one fold."""
    codes = pd.factorize(groups)[0]
    n_pairs = len(np.unique(codes.astype(np.int64) * (fold.max() + 1) + fold))
    if n_pairs > codes.max() + 1:
        raise ValueError(
            f"a cluster should lie in one fold, got {n_pairs - codes.max() - 1} that reach into "
            f"another: its rows depend on those that the fold's model was fitted on. Make folds of "
            f"whole clusters."
        )


def check_histogram_method(method: str) -> None:
    """Raise a ValueError for a method that needs the rows themselves."""
    enough = _methods(from_bins=True)
    if method not in ("auto", *enough):
        raise ValueError(
            f"method should be one of {listed(enough)} for a histogram, got {method!r}, "
            f"which needs the rows. The asymptotic interval is histogram.inference()."
        )


def _histogram_bounds(
    histogram: BinnedLevels, method: str, price: dict[str, Any], given: dict[str, Any]
) -> tuple[str, Both, float]:
    """The method chosen, its bounds of AUUC and gain, and what the bins cost.

    A histogram stands for all the rows: nothing else that was ``given`` may speak of them.
    """
    options = {name: value for name, value in given.items() if value is not None}
    for name in options:
        if name not in ("outcome_range", "n_dealings", "random_state"):
            raise ValueError(
                f"a histogram should be certified without {name}, got it: the histogram stands for "
                f"all rows, and they are no longer there. Leave {name} out, or certify the scores "
                f"of the rows themselves."
            )
    check_histogram_method(method)
    chosen = method
    if method == "auto":
        chosen = "betting-fixed" if histogram.binary else "dkw-bernstein"
        if not (histogram.binary or "outcome_range" in options):
            raise ValueError(
                f"outcomes should be 0/1, or come with outcome_range=(lowest, highest), as they "
                f"are possible, to get a guarantee; got outcomes from {histogram.outcome_low:g} to "
                f"{histogram.outcome_high:g} and no range. Pass it, or take the asymptotic "
                f"interval, histogram.inference()."
            )
    if chosen == "betting-fixed":
        known = tuple(float(v) for v in options.pop("outcome_range", (0, 1)))
        if not histogram.binary or known != (0, 1):
            raise ValueError(
                f"outcomes should be 0/1 to bet on the counts of a histogram, got "
                f"{histogram.outcome_low:g} to {histogram.outcome_high:g} in the range {known}. "
                f"Use method='dkw-bernstein', or certify the scores of the rows themselves."
            )
        auuc, gain, bin_gap = histogram_betting_bounds(histogram, **price, **options)
        auuc = replace(auuc, estimate=histogram.auuc())
        gain = replace(gain, estimate=histogram.gain())
        return chosen, (auuc, gain), bin_gap
    for name in ("n_dealings", "random_state"):
        options.pop(name, None)
    price |= options
    auuc = binned_dkw_bernstein_bound(histogram, target="auuc", **price)
    gain = binned_dkw_bernstein_bound(histogram, target="gain", **price)
    # The same rows with one score a bin: what is left of the gap is what bins cost.
    tied = binned_dkw_bernstein_bound(replace(histogram, low=histogram.high), **price)
    return chosen, (auuc, gain), max(auuc.gap - tied.gap, 0.0) if histogram.rank_error() else 0.0


def _check_options(options: dict[str, Any], method: str, asked: str) -> None:
    """Raise a ValueError for an option that the method does not take; ``asked`` is what the user
    named, "auto" or a method."""
    known = ALL_BOUNDS[method].options
    for name in options:
        if name in known:
            continue
        others = [other for other in _methods() if name in ALL_BOUNDS[other].options]
        if asked == "auto" and method == "asymptotic" and name in BETTING_OPTIONS:
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
    """Raise a ValueError for an option that has none of the known names."""
    for name in options:
        if name not in known:
            raise ValueError(
                f"options should be among {', '.join(known)}, got {name!r}. Leave it out."
            )


def _assumptions_of(
    entry: Bound, n_candidates: int, options: dict[str, Any], cross_fitted: bool
) -> tuple[str, ...]:
    """What a certificate rests on, a sentence each."""
    clustered = options.get("groups") is not None
    own = [randomised("clusters" if clustered else "rows", options.get("propensity"))]
    if "outcome_range" in entry.options:
        low, high = (float(v) for v in options.get("outcome_range", (0, 1)))
        own.append(f"outcomes lie in [{low:g}, {high:g}]")
    if entry.proviso:
        own.append(entry.proviso)
    if cross_fitted:
        own.append(
            "each fold's scores come from a model fitted on the others; the bounds are for the "
            "mean over these models"
        )
    else:
        own.append(_BEFORE if n_candidates == 1 else _CANDIDATES.format(n=n_candidates))
    if options.get("outcome_model") is not None:
        own.append("the outcome model, and the choice to use it, come from other rows")
    if clustered and entry.name != "asymptotic":
        own.append("people are counted so that every cluster weighs the same")
    return tuple(own)
