"""From a table of trial rows to a model with its evidence: cross-fit, fit on all rows, judge.

Other models on the folds of a fitted one, judged on the same rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from auucmax._json import plain
from auucmax._progress import Work, working_on
from auucmax._validation import (
    Bools,
    Floats,
    check_choice,
    check_level,
    check_whole,
)
from auucmax._version import __version__
from auucmax.certificates.known_chances import ChancesBeyond
from auucmax.certificates.progressive import ProgressiveCertificate, progressive_certificate
from auucmax.data import FailedCheckError, RandomisationReport
from auucmax.data.binning import binned
from auucmax.data.databases import Signs
from auucmax.data.few import LEAST_ROWS
from auucmax.data.outcomes import range_for
from auucmax.data.reading import table_of
from auucmax.encoding import TableEncoder
from auucmax.estimators.formula import Formula, RankMean
from auucmax.model.by_name import (
    COMPARABLE,
    MODELS,
    able_with,
    check_able,
    learnt_of_outcome,
    make_model,
    makers,
    rivals_of,
    tree_rows,
)
from auucmax.model.columns import Bounded, ColumnNames, name_columns
from auucmax.model.crossfit import (
    LEAST,
    Chosen,
    Codes,
    Fitted,
    OutOfFold,
    Recipe,
    Scored,
    TableRows,
    accepting,
    cross_fit,
    every_row,
    fewest_rows,
    number_of_folds,
    work_of,
)
from auucmax.model.evidence import Evidence
from auucmax.model.judging import Judged, describe_drivers, evidence_of, linear_weights
from auucmax.model.model import CHANCES_BEYOND, TrialModel, certified, certified_shares
from auucmax.model.people import describe_people
from auucmax.model.rows import quantity_columns
from auucmax.model.segments_old import segments_of
from auucmax.targeting import Calibration, calibrate
from auucmax.targeting.planning import ScoreQuantiles


def with_rivals(model: TrialModel, table: Any, names: Sequence[str]) -> Evidence:
    """The evidence of a model with rivals, which are fitted on the folds of the model.

    ``table`` is the one that the model was fitted on. The model's own recipe is fitted anew beside
    them, with the same seed, and all are ranked on the same rows: differences are paired. With a
    hold-out, rivals learn from the rows that the model learnt from.

    Examples
    --------
    >>> from auucmax import make_trial
    >>> from auucmax.model import fit_trial_model
    >>> trial = make_trial(4_000, random_state=0)
    >>> table = trial.X.assign(visit=trial.y, mail=trial.treatment)
    >>> model = fit_trial_model(table, treatment="mail", outcome="visit", model="tm")
    >>> [rival["name"] for rival in with_rivals(model, table, ["cvt", "mom"])["rivals"]]
    ['cvt', 'mom']
    """
    for name in names:
        check_choice(name, "a rival", COMPARABLE)
    rows, recipe = model.own_rows(table), model.recipe
    able = able_with(rows)
    for name in names:
        check_able(name, rows, able, "a rival")
    others = [name for name in dict.fromkeys(names) if name != recipe.model]
    makes = makers([recipe.model, *others], recipe)
    apart = np.ones(len(rows.y), dtype=bool)
    with working_on(f"fitting {', '.join(makes)}") as work:
        if recipe.hold_out:
            made = {name: make() for name, make in makes.items()}
            apart = recipe.held_out(rows.keys)
            fitted = rows.fit(made, lambda keys: ~recipe.held_out(keys))
            ranks = dict(zip(makes, rows.scores(fitted, recipe.held_out), strict=True))
        else:
            share = recipe.size(1 - 1 / recipe.n_folds, len(rows.y))
            work.expect(recipe.n_folds * share * work_of(makes))
            ranks = cross_fit(rows, makes, recipe, with_chunks=False, work=work).ranks
    judged = rows.judged(ranks.pop(recipe.model), apart)
    return model.evidence.with_facts(
        rivals=evidence_of(judged, rivals=ranks, cross_fitted=not recipe.hold_out)["rivals"]
    )


MOSTLY = 0.5  #: of the rows, with a level that has no feature of its own, is told
_SIZES_BETS = 0.05  # of the rows that are held out: not bet on, they size the bets on shares
DRIVER_SHARE = 0.3  #: whom the kept description of the top is about


def fit_trial_model(
    table: Any,
    *,
    treatment: str,
    outcome: str,
    treated: Any = None,
    control: Any = None,
    id: str | None = None,
    groups: str | None = None,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] | None = None,
    after: Sequence[str] | None = None,
    lower_is_better: bool = False,
    drop_missing_outcomes: bool = False,
    categorical: Sequence[str] | None = None,
    numeric: Sequence[str] | None = None,
    despite_check: bool = False,
    model: str = "auto",
    hold_out: float = 0.0,
    n_candidates: int = 1,
    outcome_range: tuple[float, float] | None = None,
    propensity: str | Mapping[Any, str] | None = None,
    random_state: int | np.random.Generator | None = 0,
) -> TrialModel:
    """Fit a model on all rows of a table, and judge it by models that have not seen the rows.

    Rows are dealt into 5 folds (2 of more than a million rows; more of few) by a keyed hash of the
    group, the id, or the place in the table. Each fold is scored by a model that was fitted on the
    others, encoding and all choices included: AUUC, curve, intervals and calibration are of these
    scores, so they speak of models that learnt from 80% of the rows. The model that is kept learns
    from all of them. Its certificate is for models that learnt from fewer rows (see
    docs/guarantees.md).

    Before that, :func:`auucmax.check_randomisation` looks at the rows, and at all columns that were
    known before treatment, whether they are learnt from or not. What chance does not explain, or a
    feature that gives the outcome away, raises a ``FailedCheckError``, a ValueError.

    Parameters
    ----------
    table : a row for each person, raw: numbers, texts, booleans, dates, missing values; or a table
        of ibis. All rows are held in memory.
    treatment, outcome : names of columns. The treatment is the one that a person was assigned to,
        taken or not. A higher outcome is better.
    treated, control : labels of the two arms, when treatment is not 0/1 or boolean. A label
        "control" is the control unless another is given. Rows of other arms are left out, and
        counted in ``summary``.
    id : name of a column that tells rows apart, whatever their order.
    groups : name of the column of the household or shop, if its rows belong together: a group is
        in one fold, and intervals and certificate are by group. It is no feature.
    features : names of the columns to learn from; None: all others.
    ignore : names of columns not to learn from. They are checked all the same.
    after : names of columns that were recorded after treatment, such as other outcomes: neither
        learnt from nor checked.
    lower_is_better : the outcome is a cost, a relapse: effects and gains are told as what is
        avoided of it.
    drop_missing_outcomes : leave rows without an outcome out, as lost or not known yet. If they are
        more frequent in one arm than chance explains, the check fails. False: they are an error.
    categorical : names of features whose numbers are levels, as of a shop or a plan.
    numeric : names of features whose whole numbers are quantities: 3 to 10 different ones are
        levels otherwise, as ``summary["features"]["codes"]`` tells. See :class:`TableEncoder`.
    despite_check : fit even if the check fails. There is no certificate then, and the model, its
        lists and its report say first that the check failed.
    model : "auto" (the mean of the ranks of "shrunk" and "boosted"), or another
        of :data:`MODELS`: "shrunk", "boosted", "auucmax", "tm", "cvt", "response".
    hold_out : a share of rows, .3 say, that the model does not learn from: it is judged, calibrated
        and certified on them, itself and no other. 0: cross-fitting.
    n_candidates : how many models were tried on these rows, of which this one is kept: the
        certificate pays for all of them. Models that were not compared on these rows do not count.
    outcome_range : lowest and highest outcome that the certificate counts, named before looking at
        the outcomes, for those that are not 0/1; others are clipped to it, and the certificate says
        how much lies beyond. None: of such outcomes there is no certificate.
    propensity : name of the column with the chance of treatment that each row had by design, where
        it was not the same for all (strata, waves, exploration): rows are weighted by it, wherever
        they are learnt from, judged or certified. It is no feature, unless it is named as one. Of
        two of several arms: a column for each arm but the control, by label.
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
    table = table_of(table)
    check_options(model, hold_out)
    columns = name_columns(
        table,
        treatment=treatment,
        outcome=outcome,
        treated=treated,
        control=control,
        id=id,
        groups=groups,
        features=features,
        ignore=ignore,
        after=after,
        lower_is_better=lower_is_better,
        drop_missing_outcomes=drop_missing_outcomes,
        categorical=categorical,
        numeric=numeric,
        outcome_range=outcome_range,
        propensity=propensity,
    )
    recipe = new_recipe(model, hold_out, n_candidates, random_state)
    with collected() as messages, working_on(f"fitting {model}") as work:
        with work.part("checking the trial"):
            rows = TableRows(table, columns, recipe.key)
            rivals = rivals_of(model, rows)
            check = checked(rows, despite_check)
        if not hold_out:
            recipe = replace(recipe, n_folds=number_of_folds(rows, recipe.key))
        found, _ = fit_checked(rows, FitPlan(recipe, rivals, check), work)
    found.summary["warnings"] = messages
    return found


def new_recipe(model: str, hold_out: float, n_candidates: int, random_state: Any) -> Recipe:
    """A recipe, of which the number of folds is not known yet."""
    n_candidates = check_whole(n_candidates, "n_candidates", 1, 2**31 - 1)
    rng = np.random.default_rng(random_state)
    key, seed = rng.bytes(8).hex(), int(rng.integers(2**31 - 1))
    return Recipe(model, key, seed, float(hold_out), 1, n_candidates)


class FitPlan(NamedTuple):
    """What is fitted on rows that were checked."""

    recipe: Recipe
    rivals: tuple[str, ...]
    check: RandomisationReport


def fit_checked(
    rows: TableRows, plan: FitPlan, work: Work, also: Sequence[TableRows] = ()
) -> tuple[TrialModel, OutOfFold | None]:
    """A model of two arms, and the scores of its rows, and of further ones, by models of folds."""
    recipe, rivals, check = plan
    work.expect(_work(recipe, rivals, len(rows.y)))
    if recipe.hold_out:
        found, apart = _hold_out(rows, recipe, rivals, check, work), None
    else:
        found, apart = _cross_fitted(rows, recipe, rivals, check, work, also)
    encoder, formula = found.model.encoder, found.formula
    summary = plain(_summary(rows, recipe, found) | {"warnings": []})
    known = found.calibration, found.evidence, found.passed.checksum
    return TrialModel(encoder, formula, recipe, rows.columns, *known, summary), apart


def check_options(model: str, hold_out: float) -> None:
    check_choice(model, "model", MODELS)
    if hold_out != 0:
        check_level(hold_out, "hold_out")


def _work(recipe: Recipe, rivals: Sequence[str], n_rows: int) -> float:
    """The sizes of all parts of a fit, and a little for the evidence."""
    sizes = [recipe.size(share, n_rows) for share in recipe.fits]
    shared = sum(sizes[: 1 if recipe.hold_out else recipe.n_folds])
    return 1.05 * (sum(sizes) * work_of([recipe.model]) + shared * work_of(rivals))


def checked(rows: TableRows, despite_check: bool) -> RandomisationReport:
    """The check of the rows, which stops a fit, or warns."""
    rows.raw.check_sizes(rows.columns)
    # Copies of rows would fail the check, too, for a reason that it cannot name.
    rows.raw.check_copies(rows.columns)
    report = rows.check()
    if report.stops and not despite_check:
        hint = "To go on all the same, without a certificate, pass despite_check=True."
        raise FailedCheckError(" ".join([report.verdict, *report.advice, hint]), report)
    if report.failures and not report.stops:
        warnings.warn(" ".join([report.verdict, *report.advice]), stacklevel=3)
    else:
        for doubt in report.doubts:
            warnings.warn(doubt.question, stacklevel=3)
    return report


def _summary(rows: TableRows, recipe: Recipe, found: _Found) -> dict[str, Any]:
    """What was fitted on which rows."""
    encoder, (estimator,) = found.model.encoder, found.model.estimators.values()
    return {
        "auucmax": __version__,
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "model": recipe.model,
        "about": (type(estimator).__doc__ or "").partition("\n")[0],
        "tree_rows": tree_rows(estimator),
        "n_parameters": getattr(estimator, "n_parameters_", None),
        "learnt": learnt_of_outcome(estimator, rows),
        "table": {
            "given": len(rows.table),
            "used": len(rows.y),
            "learnt": int((~found.held_out).sum()),
            "left_out": rows.left_out,
            "without_outcome": sum(rows.raw.lost),
            "decimal": Signs.of(rows.table).decimal,
        },
        "folds": None if recipe.hold_out else recipe.n_folds,
        "hold_out": recipe.hold_out or None,
        "features": {
            "columns": len(encoder.columns_),
            "terms": len(encoder.terms_),
            "dropped": dict(encoder.dropped_),
            "codes": encoder.code_columns,
            "quantities": quantity_columns(rows.raw, rows.columns),
            "rare_levels": {
                column.name: column.other_share
                for column in encoder.columns_
                if column.other_share > MOSTLY
            },
        },
    }


class _Found(NamedTuple):
    """The model that is kept, the formula of its score, and what is known of it."""

    model: Fitted
    formula: Formula | RankMean
    passed: Scored
    calibration: Calibration
    evidence: Evidence
    held_out: Bools


def _cross_fitted(
    rows: TableRows,
    recipe: Recipe,
    rivals: Sequence[str],
    check: RandomisationReport,
    work: Work,
    also: Sequence[TableRows] = (),
) -> tuple[_Found, OutOfFold]:
    bounded = rows.columns.bounded(rows.y)
    makes = makers([recipe.model, *rivals], recipe)
    apart = cross_fit(rows, makes, recipe, with_chunks=bounded is not None, work=work, also=also)
    fitted, formula, passed, _ = _kept(rows, recipe, (), every_row, work)
    ranks = dict(apart.ranks)
    judged = rows.judged(ranks.pop(recipe.model))
    # Knots that are nobody's own score.
    calibration = _in_scores(
        calibrated(judged), ScoreQuantiles.of(passed.score).smoothed(LEAST_ROWS)
    )
    certificate = _progressive(apart, judged, bounded, recipe)
    # Proven for rows that are independent and had the same chance.
    sound = not check.stops and judged.groups is None and judged.propensity is None
    shares = certified_shares(apart.chunks, bounded, recipe.n_candidates) if sound else None
    notes = [
        f"Every row was ranked by a model that had not seen it: one of {recipe.n_folds}, each of "
        f"which learnt from {1 - 1 / recipe.n_folds:.0%} of the rows. The model that is kept "
        f"learnt from all of them."
    ]
    notes += [*rows.chances_told, *check.questions]
    if certificate is None:
        notes.append(_no_certificate(judged, rows.columns, few=not apart.chunks))
    evidence = evidence_of(
        judged,
        scores=ScoreQuantiles.of(passed.score, judged.weight),
        cross_fitted=True,
        predicted=_cross_calibrated(judged, apart.fold),
        caveat=_of_predicted(calibration),
        drivers=_drivers(rows, fitted.encoder, formula, passed),
        certificate=certificate,
        beyond="" if bounded is None else bounded.told,
        randomisation=check,
        lower_is_better=rows.columns.lower_is_better,
        rivals=ranks,
        notes=notes,
        certified_shares=shares,
        # Of several arms, all of them make segments, once: those of each by itself would tell of
        # other parts of the same control rows.
        **_people(rows, passed, None if also else apart.fold < recipe.n_folds // 2, bounded, check),
    )
    none = np.zeros(len(rows.y), dtype=bool)
    return _Found(fitted, formula, passed, calibration, evidence, none), apart


def _progressive(
    apart: OutOfFold, judged: Judged, bounded: Bounded | None, recipe: Recipe
) -> ProgressiveCertificate | None:
    """The certificate of models that learnt from ever more chunks, if it can be had."""
    if bounded is None or not apart.chunks or judged.has_mixed_groups:
        return None
    try:
        apart = apart.evenly_drawn()
        return progressive_certificate(
            [(np.clip(y, *bounded.range), score, arms) for y, score, arms in apart.chunks],
            groups=None if judged.groups is None else apart.keys,
            propensity=apart.chances or None,
            n_candidates=recipe.n_candidates,
            outcome_range=bounded.range,
        )
    except ChancesBeyond:
        return None


def _no_certificate(judged: Judged, columns: ColumnNames, *, few: bool = False) -> str:
    """Why there is none, and how to get one."""
    if columns.bounded(judged.y) is None:
        low, high = range_for(columns.in_table(judged.y))
        why = "no range of them is known"
        if columns.outcome_range:
            why = "too much of them lies beyond the range for what is counted to stand for all"
        return (
            f"There is no certificate: outcomes are not 0/1, and {why}. Fit with "
            f"outcome_range=({low:g}, {high:g}), say, or another range that you would have named "
            f"beforehand: outcomes beyond it are clipped for the certificate."
        )
    if not few and not judged.has_mixed_groups:
        return CHANCES_BEYOND
    why = "too few rows to learn from a part of them"
    why = "groups have rows of both arms" if judged.has_mixed_groups else why
    return f"There is no certificate: {why}."


def _hold_out(
    rows: TableRows, recipe: Recipe, rivals: Sequence[str], check: RandomisationReport, work: Work
) -> _Found:
    held_out = recipe.held_out(rows.keys)
    least = min(fewest_rows(rows.y, rows.treated, part) for part in (held_out, ~held_out))
    if least < LEAST:
        raise ValueError(
            f"hold_out should leave at least {LEAST} rows of each arm, with and without the "
            f"outcome if most have none, to learn from and to judge on; got {least} of one kind in "
            f"{recipe.hold_out:g} of {len(rows.y):,} rows. Collect more, or leave hold_out= out."
        )
    fitted, formula, passed, others = _kept(
        rows, recipe, rivals, lambda keys: ~recipe.held_out(keys), work
    )
    judged = rows.judged(passed.score[held_out], held_out)
    calibration, bounded = calibrated(judged), rows.columns.bounded(judged.y)
    certificate = certified(judged, bounded, recipe.n_candidates)
    notes = [f"Judged on {len(judged.y):,} rows that were set aside: this model has not seen them."]
    notes += [*rows.chances_told, *check.questions]
    if certificate is None:
        notes.append(_no_certificate(judged, rows.columns))
    # Other bits of the keys than those that chose the hold-out.
    halves = replace(recipe, n_folds=2).folds(~rows.keys[held_out] * np.uint64(0x9E3779B97F4A7C15))
    shares = None
    if not check.stops and judged.groups is None and judged.propensity is None:
        first = np.random.default_rng(recipe.seed).random(len(judged.y)) < _SIZES_BETS
        sizing = judged.y[first], None, judged.treated[first]
        rest = judged.y[~first], judged.score[~first], judged.treated[~first]
        shares = certified_shares([sizing, rest], bounded, recipe.n_candidates)
    evidence = evidence_of(
        judged,
        predicted=_cross_calibrated(judged, halves),
        caveat=_of_predicted(calibration),
        drivers=_drivers(rows, fitted.encoder, formula, passed),
        certificate=certificate,
        beyond="" if bounded is None else bounded.told,
        randomisation=check,
        lower_is_better=rows.columns.lower_is_better,
        rivals=others,
        notes=notes,
        certified_shares=shares,
        **_people(rows, passed, ~held_out, bounded, check),
    )
    return _Found(fitted, formula, passed, calibration, evidence, held_out)


def _kept(
    rows: TableRows, recipe: Recipe, rivals: Sequence[str], keep: Chosen, work: Work
) -> tuple[Fitted, Formula | RankMean, Scored, dict[str, Floats]]:
    """The model that is kept, fitted on some of the rows, its formula, and its scores of all rows.

    Then scores of rivals, fitted on the same rows, of the others.
    """
    from auucmax.estimators.formula_rules import formula_of  # late: it imports all estimators

    names = [recipe.model, *rivals]
    size = work_of(names) * recipe.size(1 - recipe.hold_out, len(rows.y))
    with work.part("the model that is kept", size):
        made = {name: make_model(name, recipe) for name in names}
        fitted = rows.fit(made, keep)
        estimator = made.pop(recipe.model)
        others = {}
        if made:
            scores = rows.scores(Fitted(fitted.encoder, made), recipe.held_out)
            others = dict(zip(made, scores, strict=True))
        kept, formula = Fitted(fitted.encoder, {recipe.model: estimator}), formula_of(estimator)
        return kept, formula, rows.scored(accepting(kept.encoder), formula), others


def calibrated(rows: Judged, some: Bools | slice = slice(None)) -> Calibration:
    groups = None if rows.groups is None else rows.groups[some]
    chance = None if rows.propensity is None else rows.propensity[some]
    weight = None if rows.weight is None else rows.weight[some]
    return calibrate(
        rows.y[some],
        rows.score[some],
        treatment=rows.treated[some],
        groups=groups,
        propensity=chance,
        sample_weight=weight,
    )


def _cross_calibrated(rows: Judged, fold: Codes) -> Floats:
    """(n,) the uplift that a calibration on the other folds gives each row."""
    predicted = np.empty(len(rows.y))
    for k in np.unique(fold):
        inside = fold == k
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the calibration of all rows has told it
            own = calibrated(rows, ~inside)
        predicted[inside] = own(rows.score[inside])
    return predicted


def _of_predicted(calibration: Calibration) -> str:
    """What a caption says of :func:`_cross_calibrated` uplifts."""
    told = (
        "Predicted is what a calibration on the other rows gives each person: the model's own has "
        "seen these."
    )
    return " ".join(filter(None, [told, calibration.caveat]))


def _in_scores(calibration: Calibration, scores: ScoreQuantiles) -> Calibration:
    """A calibration of ranks as one of the scores of the model that is kept.

    A rank r stands for the score that cuts off the share 1 - r. Where several ranks have one
    score, it gets the mean of their uplifts.
    """
    # Ranks of folds have no scores of the model that is kept; shares are what they have in common.
    knots, _ = scores.cut(1 - np.array(calibration.score))
    levels, code = np.unique(np.clip(knots, scores.score[-1], scores.score[0]), return_inverse=True)
    uplift = np.bincount(code, weights=calibration.uplift) / np.bincount(code)
    return replace(calibration, score=tuple(levels.tolist()), uplift=tuple(uplift.tolist()))


def _people(
    rows: TableRows,
    passed: Scored,
    learn: Bools | None,
    bounded: Bounded | None,
    check: RandomisationReport,
) -> dict[str, Any]:
    """Who the top are, and segments that some rows make and the others judge; None: no segments."""
    columns = binned(rows.features)
    found = describe_people(columns, passed.score, share=DRIVER_SHARE)
    if check.stops or learn is None:
        return {"people": found}
    return {
        "people": found,
        "segments": segments_of(columns, rows.judged(passed.score), learn, bounded),
    }


def _drivers(
    rows: TableRows, encoder: TableEncoder, formula: Formula | RankMean, passed: Scored
) -> dict[str, Any]:
    found = describe_drivers(rows.features, passed.score, share=DRIVER_SHARE)
    linear = None
    if isinstance(formula, Formula) and formula.is_linear:
        names = list(map(str, encoder.get_feature_names_out()))
        (part,) = formula.parts
        linear = linear_weights(part.weight * part.coef, names, passed.deviation)
    return found | {"linear": linear}


@contextmanager
def collected() -> Iterator[list[str]]:
    """Messages of the warnings inside, which are given again afterwards."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # Rows of other folds of a column of many rare levels: the summary tells of these.
        warnings.filterwarnings("ignore", message=".*should mostly hold levels of training")
        yield messages
        own = [w for w in caught if issubclass(w.category, UserWarning)]
        messages.extend(dict.fromkeys(str(w.message) for w in own))
    for warning in {str(w.message): w for w in own}.values():
        warnings.warn(warning.message, warning.category, stacklevel=4)
