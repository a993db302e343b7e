"""From a table of trial rows to a model with its evidence: cross-fit, fit on all rows, judge.

Other models on the folds of a fitted one, judged on the same rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from auucmax._json import plain
from auucmax._validation import Bools, Floats, check_choice, check_level
from auucmax._version import __version__
from auucmax.bounds import certify
from auucmax.bounds.progressive import progressive_certificate
from auucmax.data import check_randomisation
from auucmax.data.pieces import PiecedTable
from auucmax.estimators import (
    GANITE,
    AUUCMax,
    CFRNet,
    ClassTransformation,
    DependentDataRepresentation,
    MinimaxLinear,
    SharedDataRepresentation,
    SVMDifferentialPrediction,
    TARNet,
    TransformedOutcome,
    TwoModels,
    UpliftLambdaMART,
)
from auucmax.estimators.formula import FormulaError, formula_of
from auucmax.targeting import Calibration, calibrate
from auucmax.targeting.planning import ScoreQuantiles
from auucmax.trial_model.crossfit import (
    Codes,
    Fitted,
    Recipe,
    TableRows,
    cross_fit,
    fewest_rows,
    number_of_folds,
)
from auucmax.trial_model.evidence import (
    Evidence,
    Judged,
    describe_drivers,
    evidence_of,
    is_binary,
    linear_weights,
)
from auucmax.trial_model.model import TrialModel
from auucmax.trial_model.rows import name_columns
from auucmax.trial_model.seen import DIGITS, Hashes, SeenRows, content_hashes, row_total


def with_rivals(
    model: TrialModel, table: pd.DataFrame | PiecedTable, names: Sequence[str]
) -> Evidence:
    """The evidence of a model with rivals, which are fitted on the folds of the model.

    ``table`` is the one that the model was fitted on. The model's own recipe is fitted anew beside
    them, with the same seed, and all are ranked on the same rows: differences are paired. With a
    hold-out, rivals learn from the rows that the model learnt from.

    Examples
    --------
    >>> from auucmax import make_trial
    >>> from auucmax.trial_model import fit_trial_model
    >>> trial = make_trial(4_000, random_state=0)
    >>> table = trial.X.assign(visit=trial.y, mail=trial.treatment)
    >>> model = fit_trial_model(table, treatment="mail", outcome="visit", model="tm")
    >>> [rival["name"] for rival in with_rivals(model, table, ["cvt", "mom"])["rivals"]]
    ['cvt', 'mom']
    """
    for name in names:
        check_choice(name, "a rival", MODELS)
    if isinstance(table, PiecedTable):
        raise ValueError(
            f"rivals should be fitted on a table that fits into memory, got {table.name}, "
            f"{table.size}. Name no other models, pass fewer rows, or allow more memory."
        )
    rows, recipe = model.own_rows(table), model.recipe
    others = [name for name in dict.fromkeys(names) if name != recipe.model]
    makes = makers([recipe.model, *others], recipe.seed)
    if recipe.hold_out:
        made = {name: make() for name, make in makes.items()}
        fitted = rows.fit(made, lambda keys: ~recipe.held_out(keys))
        ranks = dict(zip(makes, rows.scores(fitted, recipe.held_out), strict=True))
        apart = recipe.held_out(rows.keys)
        y, treated = rows.y[apart], rows.treated[apart]
    else:
        ranks = cross_fit(rows, makes, recipe, with_chunks=False).ranks
        y, treated = rows.y, rows.treated
    judged = Judged(y, ranks.pop(recipe.model), treated)
    return model.evidence.with_facts(
        rivals=evidence_of(judged, rivals=ranks, cross_fitted=not recipe.hold_out)["rivals"]
    )


#: Estimators by the name that users give, with their defaults; each takes a seed.
MODELS: dict[str, Callable[[int], Any]] = {
    "auucmax": lambda seed: AUUCMax(random_state=seed),
    "tm": lambda seed: TwoModels(),
    "cvt": lambda seed: ClassTransformation(),
    "ddr": lambda seed: DependentDataRepresentation(),
    "sdr": lambda seed: SharedDataRepresentation(),
    "svm-dp": lambda seed: SVMDifferentialPrediction(),
    "mml": lambda seed: MinimaxLinear(random_state=seed),
    "mom": lambda seed: TransformedOutcome(),
    "pcg": lambda seed: UpliftLambdaMART("pcg", random_state=seed),
    "ndcg": lambda seed: UpliftLambdaMART("ndcg", random_state=seed),
    "tarnet": lambda seed: TARNet(random_state=seed),
    "cfrnet": lambda seed: CFRNet(random_state=seed),
    "ganite": lambda seed: GANITE(random_state=seed),
}
DRIVER_SHARE = 0.3  #: whom the kept description of the top is about


def fit_trial_model(
    table: pd.DataFrame | PiecedTable,
    *,
    treatment: str,
    outcome: str,
    treated: Any = None,
    control: Any = None,
    id: str | None = None,
    features: Sequence[str] | None = None,
    model: str = "auucmax",
    hold_out: float = 0.0,
    forget_rows: bool = False,
    random_state: int | np.random.Generator | None = 0,
) -> TrialModel:
    """Fit a model on all rows of a table, and judge it by models that have not seen the rows.

    Rows are dealt into 5 folds (2 of more than a million rows; more of few) by a keyed hash of the
    id, or of the place in the table. Each fold is scored by a model that was fitted on the others,
    encoding and all choices included: AUUC, curve, intervals and calibration are of these scores,
    so they speak of models that learnt from 80% of the rows. The model that is kept learns from all
    of them. Its certificate is for models that learnt from fewer rows (see docs/guarantees.md).

    Parameters
    ----------
    table : a row for each person, raw: numbers, texts, booleans, dates, missing values. A table
        that is read in pieces (:func:`auucmax.data.open_table`) can be learnt from by "auucmax"
        alone, and its encoder learns from a quarter of a million rows.
    treatment, outcome : names of columns. A higher outcome is better.
    treated, control : labels of the two arms, when treatment is not 0/1 or boolean. Rows of other
        arms are left out, and counted in ``summary``.
    id : name of a column that tells rows apart, whatever their order.
    features : names of the columns to learn from; None: all others.
    model : one of "auucmax", "tm", "cvt", "ddr", "sdr", "svm-dp", "mml", "mom", "pcg", "ndcg",
        "tarnet", "cfrnet", "ganite".
    hold_out : a share of rows, .3 say, that the model does not learn from: it is judged, calibrated
        and certified on them, itself and no other. 0: cross-fitting.
    forget_rows : keep no filter of hashed rows. Nobody can then ask the model whether it learnt
        from a row, and it cannot tell whether rows that it is judged on are new.
    random_state : of the folds and of the model.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> table = trial.X.assign(visit=trial.y, mail=trial.treatment)
    >>> model = fit_trial_model(table, treatment="mail", outcome="visit", model="tm")
    >>> model.evidence["rows"]["n_rows"]
    42693
    >>> model.evidence["certificate"]["gain_lower_bound"] > 0
    True
    >>> model.predict(table.head(3)).shape
    (3,)
    """
    check_choice(model, "model", MODELS)
    if hold_out != 0:
        check_level(hold_out, "hold_out")
    if isinstance(table, PiecedTable):
        _check_streams(model, table)
    columns = name_columns(
        table,
        treatment=treatment,
        outcome=outcome,
        treated=treated,
        control=control,
        id=id,
        features=features,
    )
    rng = np.random.default_rng(random_state)
    recipe = Recipe(model, rng.bytes(8).hex(), int(rng.integers(2**31 - 1)), float(hold_out), 1)
    with _collected() as messages:
        rows = TableRows(table, columns, recipe.key)
        if hold_out:
            found = _hold_out(rows, recipe)
        else:
            recipe = replace(recipe, n_folds=number_of_folds(rows, recipe.key))
            found = _cross_fitted(rows, recipe)
        seen = SeenRows.of(
            found.passed.contents,
            found.passed.total,
            None if id is None else rows.keys,
            ~found.held_out,
            forget=forget_rows,
        )
    encoder, (estimator,) = found.model.encoder, found.model.estimators.values()
    summary = _summary(rows, recipe, found) | {"warnings": messages}
    return TrialModel(
        encoder, estimator, recipe, columns, found.calibration, found.evidence, seen, plain(summary)
    )


def _summary(rows: TableRows, recipe: Recipe, found: _Found) -> dict[str, Any]:
    """What was fitted on which rows."""
    encoder = found.model.encoder
    return {
        "auucmax": __version__,
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "model": recipe.model,
        "table": {
            "given": rows.n_given,
            "used": len(rows.y),
            "learnt": int((~found.held_out).sum()),
            "left_out": rows.left_out,
        },
        "folds": None if recipe.hold_out else recipe.n_folds,
        "hold_out": recipe.hold_out or None,
        "features": {
            "columns": len(encoder.columns_),
            "terms": len(encoder.terms_),
            "dropped": dict(encoder.dropped_),
        },
    }


class _Found(NamedTuple):
    """The model that is kept, and what is known of it."""

    model: Fitted
    passed: _Pass
    calibration: Calibration
    evidence: Evidence
    held_out: Bools


def _cross_fitted(rows: TableRows, recipe: Recipe) -> _Found:
    everyone = np.ones(len(rows.y), dtype=bool)
    binary = is_binary(rows.y)
    # Two plain models are the rival that a user would ask for; from a disk they do not learn.
    names = dict.fromkeys([recipe.model, *(["tm"] if rows.in_memory else [])])
    apart = cross_fit(rows, makers(names, recipe.seed), recipe, with_chunks=binary)
    fitted = rows.fit({recipe.model: MODELS[recipe.model](recipe.seed)}, _all)
    passed = _pass(rows, fitted)
    ranks = dict(apart.ranks)
    judged = Judged(rows.y, ranks.pop(recipe.model), rows.treated)
    scores = ScoreQuantiles.of(passed.score)
    calibration = _in_scores(calibrate(judged.y, judged.score, treatment=judged.treated), scores)
    certificate = progressive_certificate(apart.chunks) if apart.chunks else None
    notes = [
        f"Every row was ranked by a model that had not seen it: one of {recipe.n_folds}, each of "
        f"which learnt from {1 - 1 / recipe.n_folds:.0%} of the rows. The model that is kept "
        f"learnt from all of them."
    ]
    randomisation = check_randomisation(rows.sample.trial(rows.columns))
    notes += randomisation.advice
    if certificate is None:
        why = "outcomes are not 0/1, and no range of them is known"
        why = "too few rows to learn from a part of them" if binary else why
        notes.append(f"There is no certificate: {why}.")
    evidence = evidence_of(
        judged,
        scores=scores,
        cross_fitted=True,
        predicted=_cross_calibrated(judged, apart.fold),
        caveat=calibration.caveat,
        drivers=_drivers(rows, fitted, passed),
        certificate=certificate,
        randomisation=randomisation,
        rivals=ranks,
        notes=notes,
    )
    return _Found(fitted, passed, calibration, evidence, ~everyone)


def _hold_out(rows: TableRows, recipe: Recipe) -> _Found:
    held_out = recipe.held_out(rows.keys)
    least = min(fewest_rows(rows.y, rows.treated, part) for part in (held_out, ~held_out))
    if least < rows.least:
        raise ValueError(
            f"hold_out should leave at least {rows.least} rows of each arm, with each outcome if "
            f"it is 0/1, to learn from and to judge on; got {least} of one kind in "
            f"{recipe.hold_out:g} of {len(rows.y):,} rows. Collect more, or leave hold_out out."
        )
    learnt = {recipe.model: MODELS[recipe.model](recipe.seed)}
    fitted = rows.fit(learnt, lambda keys: ~recipe.held_out(keys))
    passed = _pass(rows, fitted)
    judged = Judged(rows.y[held_out], passed.score[held_out], rows.treated[held_out])
    calibration = calibrate(judged.y, judged.score, treatment=judged.treated)
    halves = replace(recipe, n_folds=2).folds(~rows.keys[held_out] * np.uint64(0x9E3779B97F4A7C15))
    binary = is_binary(rows.y)
    evidence = evidence_of(
        judged,
        predicted=_cross_calibrated(judged, halves),
        caveat=calibration.caveat,
        drivers=_drivers(rows, fitted, passed),
        certificate=certify(judged.score, y=judged.y, treatment=judged.treated) if binary else None,
        randomisation=check_randomisation(rows.sample.trial(rows.columns)),
        notes=[
            f"Judged on {len(judged.y):,} rows that were set aside: this model has not seen them."
        ],
    )
    return _Found(fitted, passed, calibration, evidence, held_out)


class _Pass(NamedTuple):
    """What a pass over all rows gives: scores and hashes (n,), deviations of features (p,)."""

    score: Floats
    contents: dict[int, Hashes]
    total: int
    deviation: Floats


def _pass(rows: TableRows, fitted: Fitted) -> _Pass:
    scores, contents = [], {digits: list[Hashes]() for digits in DIGITS}
    total = 0
    centre: Any = None  # keeps the squares from cancelling
    sums = np.zeros((2, len(fitted.encoder.terms_)))
    (estimator,) = fitted.estimators.values()
    for frame, y, treated, *_ in rows.rows.batches():
        X = fitted.encoder.accept(frame).transform(frame)
        scores.append(np.asarray(estimator.predict(X), dtype=np.float64))
        for digits, hashes in contents.items():
            hashes.append(content_hashes(X, digits))
        total += row_total(X, y, treated)
        centre = X[:1] if centre is None else centre
        sums += (X - centre).sum(axis=0), ((X - centre) ** 2).sum(axis=0)
    mean, square = sums / len(rows.y)
    return _Pass(
        np.concatenate(scores),
        {digits: np.concatenate(hashes) for digits, hashes in contents.items()},
        total % 2**64,
        np.sqrt(np.maximum(square - mean**2, 0)),
    )


def _cross_calibrated(rows: Judged, fold: Codes) -> Floats:
    """(n,) the uplift that a calibration on the other folds gives each row."""
    predicted = np.empty(len(rows.y))
    for k in np.unique(fold):
        inside = fold == k
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the calibration of all rows has told it
            own = calibrate(rows.y[~inside], rows.score[~inside], treatment=rows.treated[~inside])
        predicted[inside] = own(rows.score[inside])
    return predicted


def _in_scores(calibration: Calibration, scores: ScoreQuantiles) -> Calibration:
    """A calibration of ranks as one of the scores of the model that is kept.

    A rank r stands for the score that cuts off the share 1 - r. Where several ranks have one
    score, it gets the mean of their uplifts.
    """
    knots, _ = scores.cut(1 - np.array(calibration.score))
    levels, code = np.unique(np.clip(knots, scores.score[-1], scores.score[0]), return_inverse=True)
    uplift = np.bincount(code, weights=calibration.uplift) / np.bincount(code)
    return replace(calibration, score=tuple(levels.tolist()), uplift=tuple(uplift.tolist()))


def _drivers(rows: TableRows, fitted: Fitted, passed: _Pass) -> dict[str, Any]:
    found = describe_drivers(rows.features, passed.score[rows.sampled], share=DRIVER_SHARE)
    names = list(map(str, fitted.encoder.get_feature_names_out()))
    (estimator,) = fitted.estimators.values()
    return found | {"linear": _linear(estimator, names, passed.deviation)}


def _linear(estimator: Any, names: list[str], deviation: Floats) -> list[dict[str, Any]] | None:
    """Weights of a score that is linear in the encoded features; None of any other."""
    try:
        formula = formula_of(estimator)
    except FormulaError:
        return None
    if len(formula.parts) != 1 or formula.parts[0].link != "identity":
        return None
    return linear_weights(formula.parts[0].weight * formula.parts[0].coef, names, deviation)


def _all(keys: Hashes) -> Bools:
    return np.ones(len(keys), dtype=bool)


def makers(names: Iterable[str], seed: int) -> dict[str, Callable[[], Any]]:
    """What makes a new estimator of each name."""
    return {name: partial(MODELS[name], seed) for name in names}


def _check_streams(model: str, table: PiecedTable) -> None:
    if model != "auucmax":
        raise ValueError(
            f"model should be 'auucmax' for a table that does not fit into memory, got {model!r} "
            f"and {table.name}, {table.size}. Pass fewer rows or columns, or allow more memory."
        )


@contextmanager
def _collected() -> Iterator[list[str]]:
    """Messages of the warnings inside, which are given again afterwards."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield messages
        own = [w for w in caught if issubclass(w.category, UserWarning)]
        messages.extend(dict.fromkeys(str(w.message) for w in own))
    for warning in {str(w.message): w for w in own}.values():
        warnings.warn(warning.message, warning.category, stacklevel=4)
