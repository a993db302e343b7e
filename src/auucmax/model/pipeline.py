"""The fitting pipeline: check, cross-fit, train on all rows, evaluate."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np

from auucmax._errors import InputError
from auucmax._progress import Work, working_on
from auucmax._validation import (
    Floats,
    check_column,
    check_level,
    check_whole,
    listed,
)
from auucmax._version import __version__
from auucmax.data import FailedCheckError, RandomisationReport
from auucmax.data.covariates import binned
from auucmax.data.databases import DECIMAL
from auucmax.data.hashing import Hashes, second_hashes
from auucmax.data.pair import Pair, row_keys
from auucmax.data.randomisation import CheckWarning
from auucmax.data.trial import Trial
from auucmax.encoding.frames import frame_of
from auucmax.encoding.kinds import MOST_CODES
from auucmax.estimators.formula import Formula
from auucmax.model.folds import (
    LEAST,
    Recipe,
    cross_fit,
    fewest_rows,
    number_of_folds,
    too_few,
    train,
)
from auucmax.model.guarantee import (
    TILT,
    arms_at,
    counted_range,
    guaranteed,
    policy_guarantee,
)
from auucmax.model.judge import (
    FAILED,
    LEVEL,
    arm_evidence,
    certificate_fields,
    policy_evidence,
    quietly_calibrated,
)
from auucmax.model.profiles import describe_arms, describe_drivers, describe_top, linear_terms
from auucmax.model.registry import (
    COMPARABLE,
    MODELS,
    RIVALS,
    able_models,
    check_able,
)
from auucmax.model.segments import find_segments
from auucmax.model.uplift_model import Scorer, UpliftModel
from auucmax.results import (
    LEAST_ROWS,
    TOP,
    ArmEvidence,
    Basis,
    CertifiedGain,
    Evidence,
    Fit,
    PolicyEvidence,
    Why,
)
from auucmax.targeting.calibration import calibrate
from auucmax.targeting.choose import arm_costs, check_money
from auucmax.targeting.quantiles import ScoreQuantiles

_FEW_VALUES = 1000  # different whole numbers that may be codes
_ROWS_EACH = 10


def fit(
    trial: Trial,
    model: str = "auto",
    *,
    cost: Mapping[Any, float] | Sequence[float] | None = None,
    budget: float | None = None,
    hold_out: float = 0.0,
    n_candidates: int = 1,
    despite_check: bool = False,
    random_state: int | np.random.Generator | None = 0,
) -> UpliftModel:
    """Fit a model to a trial, and evaluate it by cross-fitting.

    Each arm is compared with the control. Rows are assigned to 5 folds (2 of more than a million
    rows, more of few rows) by a keyed hash of the group, the id or the place. Each fold is scored
    by a model that was trained on the others, with its own encoder: AUUC, curves, intervals and
    calibration rest on these scores. The model that is kept is trained on all rows.

    Before that, :func:`auucmax.check_randomisation` tests every column that was known before
    treatment. A trial that fails raises a ``FailedCheckError``, a ValueError.

    Parameters
    ----------
    trial : Trial
        From :func:`auucmax.read_trial`, or made from arrays.
    model : str, default "auto"
        A name in ``auucmax.estimators.MODELS``. "auto" is the mean of the ranks of "shrunk" and
        "boosted".
    cost : mapping or sequence of float, optional
        Cost of giving each arm to one person, with several arms: the policy is judged at these
        costs. By default 1 each, so that a budget is a number of people.
    budget : float, optional
        Budget per person, fixed before looking at the rows, at which the policy over several arms
        is certified.
    hold_out : float, default 0
        Share of rows that the model is not trained on: it is judged, calibrated and certified on
        them. 0: cross-fitting.
    n_candidates : int, default 1
        The number of models that were tried on these rows, of which this one is kept: the
        certificate accounts for all of them.
    despite_check : bool, default False
        Fit even if the check fails. There is no certificate then.
    random_state : int, Generator or None, default 0
        Seed of the folds and of the model.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> model = fit(load_hillstrom(), "tm")
    >>> model.evidence.n_rows, model.evidence.arms[0].certificate.gain > 0
    (42693, True)
    >>> model.predict(load_hillstrom().X.head(3)).shape
    (3,)
    """
    if not isinstance(trial, Trial):
        raise InputError(
            "trial", "a Trial", type(trial).__name__, "Pass what auucmax.read_trial returned."
        )
    check_able(model, trial.roles.outcome, "model", MODELS)
    if hold_out != 0:
        check_level(hold_out, "hold_out")
    trial = _usable(trial)
    roles = trial.roles
    costs = arm_costs(cost, roles.arms[1:])
    for name, given in (("cost", cost), ("budget", budget)):
        if len(roles.arms) == 2 and given is not None:
            raise InputError(
                name, "left out with one arm", repr(given), "Pass it to target() or report()."
            )
    if hold_out and len(roles.arms) > 2:
        raise InputError(
            "hold_out", "0 with several arms: their policy is judged by cross-fitting",
            f"{hold_out:g}", "Leave it out, or name one treated arm.",
        )  # fmt: skip
    if budget is not None and check_money(budget, "budget") > max(costs) > 0:
        raise InputError(
            "budget", f"money per person, at most the highest cost, {max(costs):g}", f"{budget:g}",
            "Divide the money for all people by their number.",
        )  # fmt: skip
    n_candidates = check_whole(n_candidates, "n_candidates", 1, 2**31 - 1)
    rng = np.random.default_rng(random_state)
    recipe = Recipe(
        model=model, key=rng.bytes(8).hex(), seed=int(rng.integers(2**31 - 1)),
        hold_out=float(hold_out), n_candidates=n_candidates,
    )  # fmt: skip
    keys = row_keys(trial, recipe.key)
    pairs = list(Pair.each(trial, keys))
    able = able_models(roles.outcome.kind)
    rivals = [name for name in RIVALS.get(model, ("tm",)) if name in able and name != model]
    with warnings.catch_warnings():
        # Rows of other folds of a column of many rare categories: the summary reports these.
        warnings.filterwarnings("ignore", message=".*should mostly hold levels of training")
        checks = []
        for pair in pairs:
            with working_on(f"checking {pair.name}"):
                pair.check_sizes()
                # For copies the check would fail as well, for a reason that it cannot name.
                pair.check_copies()
                report = pair.check()
            if report.stops and not despite_check:
                hint = "To fit all the same, without a certificate, pass despite_check=True."
                raise FailedCheckError(hint, report)
            if report.doubts or (report.failures and not report.stops):
                warnings.warn(report.message, CheckWarning, stacklevel=2)
            checks.append(report)
        if not hold_out:
            n_folds = max(number_of_folds(pair, recipe.key) for pair in pairs)
            recipe = replace(recipe, n_folds=n_folds)
        fitted = []
        for pair, check in zip(pairs, checks, strict=True):
            arm = f" for {pair.name}" if len(pairs) > 1 else ""
            with working_on(f"fitting {model}{arm}") as work:
                fitted.append(_fit_arm(pair, recipe, rivals, check, keys, work))
        with working_on("judging the policy"):
            policy = _policy(trial, fitted, recipe, keys, costs, budget)
    n_held = int(recipe.held_out(keys).sum())
    evidence = replace(
        _on_new_rows(trial, [one.evidence for one in fitted], policy),
        basis=Basis.HELD_OUT if hold_out else Basis.CROSS_FITTED,
        n_rows=n_held or trial.n_rows,
        n_folds=None if hold_out else recipe.n_folds,
    )
    scorers = tuple(one.scorer for one in fitted)
    info = _info(trial, fitted, recipe, n_held)
    return UpliftModel(recipe, scorers, evidence, scorers[0].checksum(trial), info)


def _usable(trial: Trial) -> Trial:
    """The randomised rows, with column names as strings."""
    if trial.sample_weight is not None:
        raise InputError(
            "trial.sample_weight", "left out of a fit", "weights",
            "Pass propensities if people were treated with different probabilities.",
        )  # fmt: skip
    if trial.randomised is not None:
        trial = trial.take(trial.randomised)
    return replace(trial, X=frame_of(trial.X))


@dataclass
class _Arm:
    """Scorer, evidence and estimator of one arm, with what the policy needs.

    ``uplift`` (n,) by models and calibrations of the other folds; ``chunk_score`` (n,) by models
    of the chunks before. With a hold-out there is no policy.
    """

    pair: Pair
    scorer: Scorer
    evidence: ArmEvidence
    estimator: Any
    uplift: Floats
    chunk_score: Any


def _makes(names: Iterable[str], recipe: Recipe) -> dict[str, Callable[[], Any]]:
    return {name: partial(COMPARABLE[name], recipe.seed) for name in names}


def _fit_arm(
    pair: Pair, recipe: Recipe, rivals: Sequence[str], check: RandomisationReport, keys: Hashes,
    work: Work,
) -> _Arm:  # fmt: skip
    """Train the final model of an arm, and evaluate it on out-of-fold scores."""
    held = recipe.held_out(pair.keys)  # no row with cross-fitting
    names = [recipe.model, *rivals]
    apart = chunk_score = None
    if recipe.hold_out:
        least = min(fewest_rows(pair, part) for part in (held, ~held))
        if least < LEAST:
            raise too_few("hold_out", least, pair, "Collect more rows, or leave out the hold-out.")
    else:
        bounded = not isinstance(counted_range(pair), Why)
        apart = cross_fit(pair, _makes(names, recipe), recipe, keys, with_chunks=bounded, work=work)
        names = names[:1]
    with work.part("the model that is kept", 1.0):
        fitted = train(pair, _makes(names, recipe), ~held)
        formula = fitted.estimators[recipe.model].formula()
        # Rows of other arms may have categories of their own.
        X = fitted.encoder.accept(pair.trial.X).transform(pair.X)
        score = np.asarray(formula(X), dtype=np.float64)
    if apart is None:
        judged = pair.take(held)
        place = np.arange(len(judged.y))
        ranks = fitted.scores(judged.X)
        ranks[recipe.model] = rank = score[held]
        # Halves that are drawn apart from the hold-out.
        fold = replace(recipe, n_folds=2).folds(second_hashes(~judged.keys))
        guarantee = guaranteed(judged, rank, recipe.n_candidates, seed=recipe.seed)
        calibration, quantiles = (
            calibrate(judged.y, rank, **judged.design),
            ScoreQuantiles.of(rank, judged.people),
        )
    else:
        judged, place = pair, pair.index
        ranks, rank, fold, chunk_score = apart.ranks, apart.rank, apart.fold, apart.chunk_score
        score_before = chunk_score[pair.index]
        guarantee = guaranteed(pair, score_before, recipe.n_candidates, parts=apart.parts)
        calibration = calibrate(pair.y, ranks[recipe.model], **pair.design)
        # In scores of the model that is kept: a rank r stands for the score that cuts off the share
        # 1 - r. A score of several ranks gets the mean of their uplifts.
        quantiles = ScoreQuantiles.of(score)
        knots, _ = quantiles.cut(1 - np.array(calibration.score))
        knots = np.clip(knots, quantiles.score[-1], quantiles.score[0])
        levels, code = np.unique(knots, return_inverse=True)
        means = np.bincount(code, weights=calibration.uplift) / np.bincount(code)
        means = np.maximum.accumulate(means)  # means of equal uplifts differ by rounding
        calibration = replace(
            calibration, score=tuple(levels.tolist()), uplift=tuple(means.tolist())
        )
        quantiles = ScoreQuantiles.of(score, pair.people)
    uplift = np.empty(len(fold))
    for k in np.unique(fold):
        others = fold[place] != k
        of_others = quietly_calibrated(judged.take(others), rank[place][others])
        uplift[fold == k] = of_others(rank[fold == k])
    linear = None
    if isinstance(formula, Formula) and formula.is_linear:
        terms = list(map(str, fitted.encoder.get_feature_names_out()))
        (part,) = formula.parts
        linear = linear_terms(part.weight * part.coef, terms, X.std(axis=0))
    evidence = arm_evidence(
        judged,
        ranks.pop(recipe.model),
        check=check,
        cross_fitted=not recipe.hold_out,
        rivals=ranks,
        predicted=uplift[place],
        guarantee=guarantee,
        drivers=describe_drivers(pair.X, score, TOP, linear),
        people=describe_top(binned(pair.X), score),
    )
    # With several arms, a slope orders people whom the calibration ties.
    tilt = TILT * float(pair.trial.benefit.std()) if len(pair.trial.roles.arms) > 2 else 0.0
    high, low = quantiles.score[0], quantiles.score[-1]
    slope = tilt / (high - low) if high > low else 0.0
    scorer = Scorer(fitted.encoder, formula, calibration, quantiles, slope, (high + low) / 2)
    uplift = uplift + tilt * (rank - 0.5)
    return _Arm(pair, scorer, evidence, fitted.estimators[recipe.model], uplift, chunk_score)


# The policy over all arms


def _policy(
    trial: Trial, fitted: Sequence[_Arm], recipe: Recipe, keys: Hashes, costs: tuple[float, ...],
    budget: float | None,
) -> PolicyEvidence:  # fmt: skip
    """Evidence of the policy over all arms, with segments."""
    fold = recipe.folds(keys)
    stops = any(one.evidence.missing == FAILED for one in fitted)
    # Control and first arm, then the other arms: the order in which segments are searched.
    order = np.argsort(np.maximum(trial.arm, 1), kind="stable")
    columns = binned(trial.X.iloc[order].reset_index(drop=True))
    segments = None
    if not stops and trial.groups is None and trial.propensity is None:
        trained = ~recipe.held_out(keys) if recipe.hold_out else fold < recipe.n_folds // 2
        segments = find_segments(
            columns, trial.benefit[order], trial.arm[order], trained[order], trial.roles.arms,
            counted_range(trial),
        )  # fmt: skip
    if len(fitted) == 1:
        return PolicyEvidence(curve=fitted[0].evidence.curve, segments=segments)
    uplift = np.column_stack([one.uplift for one in fitted])
    policy = policy_evidence(trial, uplift, costs, fold)
    price = np.array(costs)
    given = arms_at(uplift, uplift, price, TOP * float(price.max()))
    guarantee: CertifiedGain | Why = FAILED
    if not stops:
        scores = [(one.pair, one.chunk_score) for one in fitted]
        guarantee = policy_guarantee(trial, scores, recipe, keys, price, budget)
    return replace(
        policy,
        **certificate_fields(guarantee),
        people=describe_arms(columns, given[order], trial.roles.arms[1:], TOP),
        segments=segments,
    )


# New rows, rivals, and what was fitted


def judge_scores(trial: Trial, score: Any) -> Evidence:
    """Evaluate scores of the rows of a trial, made by any tool.

    The numbers are valid only if the scores were not made from these rows.

    Examples
    --------
    >>> from auucmax.data import make_trial
    >>> trial = make_trial(2_000, n_features=4, random_state=0)
    >>> found = judge_scores(trial, trial.effect)
    >>> found.arms[0].gain.value > 0, found.basis
    (True, <Basis.NEW_ROWS: 'new rows'>)
    """
    if len(trial.roles.arms) > 2:
        raise InputError(
            "treated", "the label of one arm: one score ranks people for one arm",
            listed(trial.roles.arms[1:]), "Name the arm.",
        )  # fmt: skip
    (pair,) = Pair.each(trial, row_keys(trial))
    pair.check_copies(all_columns=True)
    own = check_column(score, "the scores", trial.n_rows)[pair.index]
    arm = arm_evidence(pair, own, check=pair.check(), guarantee=guaranteed(pair, own, 1))
    return _on_new_rows(trial, [arm], PolicyEvidence(curve=arm.curve))


def _on_new_rows(trial: Trial, arms: Sequence[ArmEvidence], policy: PolicyEvidence) -> Evidence:
    """Evidence on rows that no model was trained on."""
    return Evidence(
        roles=trial.roles, basis=Basis.NEW_ROWS, level=LEVEL, n_rows=trial.n_rows, n_folds=None,
        arms=tuple(arms), policy=policy, failed_check=any(one.missing == FAILED for one in arms),
    )  # fmt: skip


def judge_new(model: UpliftModel, trial: Trial) -> Evidence:
    """Evidence of a model on new rows; see :meth:`UpliftModel.evaluate`."""
    trial = _usable(trial)
    # Of a table that does not fit into memory there are scores in place of the features.
    is_narrow = list(trial.roles.features) == model.narrow_names
    if not is_narrow and model.scorers[0].checksum(trial) == model.checksum:
        warnings.warn(
            "the rows should be new to the model, got those of its fit: the evidence is that of "
            "the fit, where every row was scored by a model that was not trained on it.",
            UserWarning,
            stacklevel=4,
        )
        return model.evidence
    keys = row_keys(trial, model.recipe.key)
    scores = trial.X.to_numpy(np.float64) if is_narrow else model.scores(trial.X)
    arms = []
    for pair, scorer, score in zip(Pair.each(trial, keys), model.scorers, scores.T, strict=True):
        if not is_narrow:
            pair.check_copies()
        n_rows = np.bincount(pair.treated, minlength=2)
        if n_rows.min() < LEAST_ROWS:
            raise InputError(
                "new rows", f"at least {LEAST_ROWS} of each arm",
                f"{n_rows[1]} treated and {n_rows[0]} control rows", "Pass more rows.",
            )  # fmt: skip
        own = score[pair.index]
        about: dict[str, Any] = {}
        if not is_narrow:
            known = model.evidence.arms[pair.arm - 1].drivers
            linear = known.linear if known else None
            about = {
                "drivers": describe_drivers(pair.X, own, TOP, linear),
                "people": describe_top(binned(pair.X), own),
            }
        # Rows that were held out look like new ones: all candidates are accounted for.
        n_candidates = model.recipe.n_candidates if model.recipe.hold_out else 1
        arms.append(
            arm_evidence(
                pair,
                own,
                check=pair.check(),
                predicted=scorer.calibration(own),
                guarantee=guaranteed(pair, own, n_candidates),
                **about,
            )
        )
    policy = PolicyEvidence(curve=arms[0].curve)
    if len(arms) > 1:
        costs = model.evidence.policy.curve.costs
        policy = policy_evidence(trial, model.uplift_of(scores), costs, None)
        policy = replace(policy, missing=Why.NO_BUDGET)
    found = _on_new_rows(trial, arms, policy)
    return replace(found, failed_check=found.failed_check or model.evidence.failed_check)


def with_rivals(model: UpliftModel, trial: Trial, names: Sequence[str]) -> Evidence:
    """Evidence of a model with rivals trained on its folds.

    ``trial`` holds exactly the rows of the fit. The model's own recipe is trained again beside
    them, with the same seed, and all are ranked on the same rows: differences are paired.
    """
    trial = _usable(trial)
    recipe = model.recipe
    for name in names:
        check_able(name, trial.roles.outcome, "a rival", COMPARABLE)
    if model.scorers[0].checksum(trial) != model.checksum:
        raise InputError(
            "trial", "the rows that the model was fitted on, all of them", "other rows",
            "Pass the file of the fit.",
        )  # fmt: skip
    keys = row_keys(trial, recipe.key)
    makes = _makes((recipe.model, *names), recipe)
    arms = []
    for pair, known in zip(Pair.each(trial, keys), model.evidence.arms, strict=True):
        with working_on(f"fitting {', '.join(makes)}") as work:
            judged = pair
            if recipe.hold_out:
                held = recipe.held_out(pair.keys)
                judged = pair.take(held)
                ranks = train(pair, makes, ~held).scores(judged.X)
            else:
                ranks = cross_fit(pair, makes, recipe, keys, with_chunks=False, work=work).ranks
        again = arm_evidence(
            judged, ranks.pop(recipe.model), check=None, rivals=ranks,
            cross_fitted=not recipe.hold_out,
        )  # fmt: skip
        arms.append(replace(known, rivals=again.rivals))
    return replace(model.evidence, arms=tuple(arms))


def _info(trial: Trial, fitted: Sequence[_Arm], recipe: Recipe, n_held: int) -> Fit:
    encoders = [one.scorer.encoder for one in fitted]
    estimator = fitted[0].estimator
    given = trial.other_arms or {}
    lost: Any = () if trial.lost is None else trial.lost.arm
    n_lost = np.bincount(lost, minlength=len(trial.roles.arms))
    n_given = trial.n_rows + int(n_lost.sum()) + sum(given.values())
    # Labels of fewer than 20 rows are not named.
    others = {label: n for label, n in given.items() if n >= LEAST_ROWS}
    if rest := sum(given.values()) - sum(others.values()):
        others["other values"] = rest
    return Fit(
        version=__version__,
        date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        model=recipe.model,
        about=(type(estimator).__doc__ or "").partition("\n")[0],
        n_given=n_given,
        n_used=trial.n_rows,
        n_trained=trial.n_rows - n_held,
        n_parameters=getattr(estimator, "n_parameters_", None),
        other_arms=others,
        without_outcome=tuple(n_lost.tolist()),
        dropped={k: str(v) for one in encoders for k, v in one.dropped_.items()},
        codes=tuple(dict.fromkeys(name for one in encoders for name in one.code_columns)),
        quantities=quantities_of(trial),
        decimal=trial.X.attrs.get(DECIMAL),
    )


def quantities_of(trial: Trial) -> tuple[str, ...]:
    """Numeric features with repeated whole numbers, such as zip codes."""
    found = []
    for name in trial.X.columns:
        column = trial.X[name]
        decided = name in (*trial.roles.categorical, *trial.roles.numeric)
        if decided or column.dtype.kind not in "iuf":
            continue
        values = column.dropna().unique()
        most = min(_FEW_VALUES, len(column) / _ROWS_EACH)
        if MOST_CODES < len(values) <= most and bool((values == np.rint(values)).all()):
            found.append(name)
    return tuple(found)
