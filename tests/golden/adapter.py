"""The only file of the recorded numbers that calls the package.

Each function calls one thing and returns plain numbers, strings, lists and dictionaries. A name
that changes in the package changes here and nowhere else: the keys of the results stay, so that
``numbers.json`` stays as it is.
"""

import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

import auucmax
from auucmax import baselines, certificates, data, estimators, metrics, targeting
from auucmax import model as models
from auucmax.certificates.anytime import AnytimeBets
from auucmax.data import balance
from auucmax.data.trial import Lost
from auucmax.results import Kind, State, Terms
from auucmax.targeting.rule import decide


def _read(found, *names):
    """Attributes, or entries of a dictionary, as plain values."""
    read = found.get if isinstance(found, dict) else lambda name: getattr(found, name)
    return {name: plain(read(name)) for name in names}


def plain(value):
    """Arrays and tuples as lists, numpy's numbers as Python's."""
    if isinstance(value, np.ndarray | pd.Series | pd.Index):
        return plain(value.tolist())
    if isinstance(value, dict):
        return {str(name): plain(own) for name, own in value.items()}
    if isinstance(value, list | tuple):
        return [plain(own) for own in value]
    return value.item() if isinstance(value, np.generic) else value


# --- data -----------------------------------------------------------------------------------------


def hillstrom(arm="womens", outcome="visit", encoding="22"):
    """Features, outcome and treatment of the trial that comes with the package."""
    found = data.load_hillstrom(arm=arm, outcome=outcome, encoding=encoding)
    return found.X, np.asarray(found.y), np.asarray(found.treatment)


def _trial(X, y, treatment, control=0, **more):
    return data.Trial(X, y, treatment, control=control, **more)


def check(X, y, treatment, *, control=0, expected_share=None, groups=None, ids=None, **options):
    """The check of a trial's randomisation; ``propensity``, ``missing_outcomes``, ``ignore``..."""
    ignore, known = options.pop("ignore", []), {"groups": groups, "id": ids}
    known["propensity"] = options.pop("propensity", None)
    own = _trial(X.drop(columns=ignore), y, treatment, control, **known)
    if ignore:
        roles = replace(own.roles, ignored=tuple(ignore))
        own = replace(own, extra=X[ignore], roles=roles)
    missing = options.pop("missing_outcomes", None)
    report = data.check_randomisation(own, expected_share=expected_share, **options)
    if missing is not None:  # of more rows than are here
        lost, total = np.array([missing[name] for name in own.arm_names]).T
        first = [np.argmax(own.arm == k) for k in range(len(lost))]
        kept = own.take(np.repeat(first, total - lost))
        gone = Lost(np.repeat(np.arange(len(lost)), lost))
        tests = [*balance.attrition_tests(kept, gone, "rows"), *report.tests]
        adjusted = balance.holm(np.array([test.p_value for test in tests]))
        pairs = zip(tests, adjusted, strict=True)
        tests = tuple(replace(test, adjusted_p_value=p_value) for test, p_value in pairs)
        report = replace(report, tests=tests)
    return _check_numbers(report)


def _check_numbers(report):
    tests, differences, missing = report.tests, report.differences, report.missing
    return {
        "passes": bool(report.ok),
        "stops": bool(report.stops),
        "n_rows": int(report.n_rows),
        "counts": plain(list(report.counts.values())),
        "n_failures": len(report.failures),
        "detectable": plain(report.detectable_difference),
        "test_names": [test.name for test in tests],
        "test_arms": [test.arm for test in tests],
        "statistics": [float(test.statistic) for test in tests],
        "p_values": [float(test.p_value) for test in tests],
        "adjusted_p_values": [float(test.adjusted_p_value) for test in tests],
        "difference_features": plain(differences["feature"].astype(str)[:12]),
        "differences": plain(differences["difference"][:12]),
        "missing_features": plain(missing["feature"].astype(str)[:12]),
        "missing_p_values": plain(missing["p_value"][:12]),
        "suspects": [one.feature for one in report.suspects],
        "suspect_targets": [one.target for one in report.suspects],
        "suspect_values": [float(one.value) for one in report.suspects],
        "doubts": [one.feature for one in report.doubts],
        "doubt_values": [float(one.value) for one in report.doubts],
        "households": list(report.households),
        "has_grouping": bool(report.grouping),
        "has_evened": bool(report.evened),
    }


# --- metrics and certificates ---------------------------------------------------------------------

ENDS = "lower upper simultaneous_lower simultaneous_upper"
#: What is recorded of the results of functions, if not all.
RECORDED = {
    "auuc_difference": "estimate standard_error interval p_value n_rows",
    "auuc_inference": "estimate standard_error interval gain gain_standard_error gain_interval "
    "p_value n_rows",
    "certify": "lower_bound gain_lower_bound upper_bound gain_upper_bound estimate gain_estimate "
    "delta joint method n_rows n_candidates bin_gap adjusted by_cluster",
    "certify_difference": "lower estimate delta",
    "certify_policy": "gain_lower_bound random_lower_bound net_lower_bound n_rows n_models",
    "certify_shares": "shares gain_lower_bounds share_upper_bounds delta n_rows n_models",
    "certify_thresholds": "share estimate lower_bound",
    "paper_bound": "lower estimate gap",
    "policy_risk_inference": "share estimate standard_error interval n_rows",
    "qini_curve": "share value",
    "strata_bounds": "lower upper n_rows largest_group",
    "uplift_band": f"uplift standard_error {ENDS} critical multiple",
    "uplift_by_decile": "rows treated control mean_treated mean_control uplift standard_error "
    "lower upper",
    "uplift_curve": "share uplift",
}


def _recorded(name, found):
    names = RECORDED.get(name, "").split()
    if name.endswith("_curve"):
        return dict(zip(names, plain(found), strict=True))
    return _read(found, *names) if names else plain(found)


def metric(name, *given, **options):
    """What is recorded of a function of ``auucmax.metrics``."""
    return _recorded(name, getattr(metrics, name)(*given, **options))


def certified(name, *given, **options):
    """What is recorded of a function of ``auucmax.certificates``."""
    return _recorded(name, getattr(certificates, name)(*given, **options))


def conventions(y, score, treatment):
    """Every convention's value, by library and name."""
    found = metrics.conventions(y, score, treatment=treatment)
    names = found["library"] + " " + found["name"]
    return dict(zip(names.tolist(), plain(found["value"]), strict=True))


def binned(y, score, treatment, n_bins):
    """The same numbers of scores that are known by bins only, and their certificate."""
    from auucmax.rows import ArrayRows

    own = ArrayRows(np.asarray(score, float)[:, None], y, np.asarray(treatment).astype(bool))
    levels = metrics.score_levels(own, lambda X: X[:, 0], n_bins=n_bins)
    found = levels.inference()
    numbers = _read(found, "estimate", "standard_error", "interval", "gain", "gain_interval")
    return numbers | {"bin_error": found.bin_error} | certified("certify", levels)


def budget_curve(y, uplift, treatment, **options):
    found = metrics.budget_curve(y, uplift, treatment=treatment, **options)
    own = {"budget": plain(found.share), "gain": plain(found.uplift), "shares": plain(found.shares)}
    return own | _read(found, "standard_error", *ENDS.split())


def policy_difference(y, uplift, other, treatment, control, cost, budget):
    from auucmax.metrics.allocation import Allocation
    from auucmax.metrics.gains import AllocationRows, Gains

    labels = [control, *sorted(set(treatment) - {control})]
    arm = pd.Index(labels).get_indexer(treatment)
    costs = np.broadcast_to(np.asarray(cost, float), uplift.shape)
    rows = AllocationRows(np.asarray(y, float), arm, costs)
    one, two = (
        None if own is None else Gains(rows, Allocation.of(own, costs), np.asarray(budget))
        for own in (uplift, other)
    )
    found = one.difference(two)
    beyond = one.gain - (one.random_gain if two is None else two.gain)
    return {
        "difference": plain(beyond),
        "area": found.estimate,
        "area_standard_error": found.standard_error,
        "area_interval": plain(found.interval),
        "p_value": found.p_value,
    }


def progressive(chunks, **options):
    found = certificates.progressive_certificate(chunks, **options)
    numbers = _read(
        found, "lower_bound", "gain_lower_bound", "delta", "n_rows", "n_models", "n_candidates"
    )
    return numbers | {"learnt": plain(found.trained_on)}


def anytime(y, score, treated, batches, level=0.0125, least=None, chance=None):
    """Bounds from below and from above after each batch of rows, in units of the outcome."""
    bets = AnytimeBets.fresh(least=least)
    found = {}
    for number, part in enumerate(batches):
        bets.add(
            y[part], score[part], treated[part], level,
            chance=None if chance is None else chance[part],
        )  # fmt: skip
        found[f"look {number}"] = {
            "limits": plain(bets.wealth.limits(level)),
            "estimates": plain(bets.estimates),
            "n_blocks": int(bets.n_blocks),
            "n_rows": int(bets.n_rows),
        }
    return found


# --- estimators -----------------------------------------------------------------------------------


def estimator_names():
    """Every public estimator, so that a new one that is not recorded is noticed."""
    return sorted({*estimators.__all__, *baselines.__all__})


def make_estimator(name, **parameters):
    home = baselines if name in baselines.__all__ else estimators
    return getattr(home, name)(**parameters)


def fit_predict(name, X, y, treatment, new_X, weights=None, **parameters):
    """Scores of new rows."""
    model = make_estimator(name, **parameters)
    more = {} if weights is None else {"sample_weight": weights}
    model.fit(X, y, treatment=treatment, **more)
    return np.asarray(model.predict(new_X))


def fit_auucmax(X, y, treatment, new_X, new_y, new_treatment, **parameters):
    """AUUC-max: what it chooses, and scores of new rows."""
    model = estimators.AUUCMax(**parameters).fit(X, y, treatment=treatment)
    path = model.selection_path_
    found = {
        "coef": plain(model.coef_),
        "norm": plain(model.norm_),
        "radius": plain(model.radius_),
        "converged": bool(model.converged_),
        "auuc": float(model.score(new_X, new_y, treatment=new_treatment)),
        "predict": np.asarray(model.predict(new_X)),
    }
    if path is not None:
        numeric = path.select_dtypes("number").drop(columns="seconds", errors="ignore")
        found |= {f"path {name}": plain(own) for name, own in numeric.items()}
    if model.paper_bound_ is not None:
        found["paper_bound"] = plain(getattr(model.paper_bound_, "lower", model.paper_bound_))
    if getattr(model, "certificate_", None) is not None:
        found["certificate"] = _recorded("certify", model.certificate_)
    return found


def score_only(X, y, treatment, column, new_X):
    """Scores that come from elsewhere, as an estimator."""
    model = estimators.ScoreOnly(lambda frame: np.asarray(frame[column], float))
    return np.asarray(model.fit(X, y, treatment=treatment).predict(new_X))


# --- models ---------------------------------------------------------------------------------------

FIT = ("cost", "budget", "hold_out", "n_candidates", "despite_check", "random_state")


def fit_model(table, *, model="auto", **columns):
    """A model of a raw table: ``treatment``, ``outcome``, ``control``, ``groups``..."""
    options = {name: columns.pop(name) for name in FIT if name in columns}
    return _quietly(lambda: models.fit(data.read_trial(table, **columns), model, **options))


fit_arms = fit_model


def with_rivals(model, table, names):
    return [_rival(one) for one in _quietly(model.compare, table, names).arms[0].rivals]


def judge(model, table):
    """The evidence of a model on other rows."""
    found = _quietly(model.evaluate, table)
    return _evidence(found, found.arms[0])


def _quietly(function, *given, **named):
    """Without warnings, which are sentences."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*given, **named)


def evidence_numbers(model):
    """Every number of the evidence of a model of one arm."""
    (scorer,) = model.scorers
    return _evidence(model.evidence, model.evidence.arms[0]) | {
        "n_columns": len(model.roles.features),
        "n_folds": int(model.recipe.n_folds),
        "encoded_names": [str(name) for name in scorer.encoder.get_feature_names_out()],
    }


def _estimate(one):
    return {
        "estimate": one.value, "standard_error": one.se, "lower": one.lower, "upper": one.upper,
        "declined": one.missing is not None,
    }  # fmt: skip


def _auuc(auuc, gain):
    return {
        "estimate": auuc.value, "lower": auuc.lower, "upper": auuc.upper,
        "declined": auuc.missing is not None, "gain": gain.value, "gain_lower": gain.lower,
        "gain_upper": gain.upper, "gain_declined": gain.missing is not None,
        "p_value": gain.p_value,
    }  # fmt: skip


def _rows(evidence, arm):
    kind = evidence.roles.outcome.kind
    found = {
        "n_rows": sum(own.n_rows for own in arm.rows),
        "binary": kind == Kind.BINARY,
        "groups": arm.n_groups,
        "lower_is_better": evidence.roles.outcome.lower_is_better,
    }
    for name, own in zip(("treated", "control"), arm.rows[::-1], strict=True):
        found |= {name: own.n_rows, f"mean_{name}": own.mean}
        found |= {f"events_{name}": own.n_events, f"groups_{name}": own.n_groups}
    return found


def _evidence(evidence, arm):
    curve = arm.curve
    deciles = arm.deciles
    found = {
        "level": evidence.level,
        "passes": not evidence.failed_check,
        "qini": arm.qini,
        "risk": plain(arm.risk),
        "ratio": [None if one is None else [one.value, one.lower, one.upper] for one in arm.ratio],
        "rows": _rows(evidence, arm),
        "effect": _estimate(arm.effect) | {"detectable": 2.8 * arm.effect.se},
        "auuc": _auuc(arm.auuc, arm.gain),
        "deciles": {
            "bin": list(range(1, len(deciles.n_rows) + 1)), "rows": plain(deciles.n_rows),
            "uplift": plain(deciles.uplift), "standard_error": plain(deciles.se),
            "lower": plain(deciles.lower), "upper": plain(deciles.upper),
            "predicted": plain(deciles.predicted),
        },
        "curve": {
            "share": plain(curve.spend), "uplift": plain(curve.gain),
            "standard_error": plain(curve.se), "lower": _nan(curve.band_lower),
            "upper": _nan(curve.band_upper), "step": float(np.diff(curve.spend).max()),
        },
        "certificate": _certified(arm.certificate),
        "certified_shares": _cuts(arm.cuts),
        "rivals": {one.against: _rival(one) for one in arm.rivals},
    }  # fmt: skip
    if len(evidence.arms) == 1:
        known = evidence.n_rows
        for name, share in (("decision", 1.0), ("decision at .3", 0.3)):
            decision = decide(evidence, Terms(share=share), known)
            found[name] = STATES[decision.state]
        segments = evidence.policy.segments
        found["segments"] = (
            {}
            if segments is None
            else {
                str(k): {
                    "rows": own.n_rows,
                    "share": own.share,
                    "certified": None if own.guaranteed is None else own.guaranteed[0],
                }
                | _estimate(own.contrasts[0].effect)
                | {"detectable": 2.8 * own.contrasts[0].effect.se}
                for k, own in enumerate(segments.parts)
            }
        )
    found["people"] = _people_bins(next((own for own in arm.people if own.share == 0.3), None))
    drivers = arm.drivers
    found["drivers"] = {
        "names": [f"{own.name}={own.category}" for own in drivers.drivers],
        "correlation": [own.correlation for own in drivers.drivers],
        "top": [own.top for own in drivers.drivers],
        "rest": [own.rest for own in drivers.drivers],
        "difference": [own.difference for own in drivers.drivers],
        "n_features": drivers.n_columns,
    }
    check = arm.check
    if check is not None:
        found["check"] = {
            "passes": check["ok"],
            "stops": check["stops"],
            "p_values": [own["p_value"] for own in check["tests"]],
            "adjusted_p_values": [own["adjusted_p_value"] for own in check["tests"]],
        }
    return found


#: States as they were recorded.
STATES = {
    State.HARM: "harm", State.LOSS: "loss", State.GUARANTEED: "certified",
    State.SIGNIFICANT: "shown", State.UNCLEAR: "not shown", State.UNKNOWN: "not shown",
}  # fmt: skip


def _nan(values):
    return [float("nan") if own is None else own for own in values]


def _certified(found):
    if found is None:
        return None
    numbers = {
        "gain_lower_bound": found.gain, "delta": found.delta, "n_rows": found.n_rows,
        "n_candidates": found.n_candidates,
    }  # fmt: skip
    if found.claim == "policy":
        return numbers | {
            "random_lower_bound": found.over_random, "n_models": found.n_models,
            "budget": found.budget, "spent": found.spent,
        }  # fmt: skip
    numbers["lower_bound"] = found.auuc
    if found.trained_on != (1.0, 1.0):
        numbers |= {"learnt": list(found.trained_on), "n_models": found.n_models}
    return numbers


def _cuts(found):
    if found is None:
        return None
    return {
        "share": [own.share for own in found.cuts],
        "gain_lower": [own.lower for own in found.cuts],
        "share_upper": [own.share_upper for own in found.cuts],
        "delta": found.delta,
    }


def _rival(one):
    low, high = one.difference.lower, one.difference.upper
    difference = {
        "estimate": one.difference.value, "lower": low, "upper": high,
        "p_value": one.difference.p_value, "declined": one.difference.missing is not None,
    }  # fmt: skip
    return {
        # Of a rival against the model.
        "verdict": -1 if (low or 0) > 0 else 1 if (high or 0) < 0 else 0,
        "uplift": plain(one.curve),
        "auuc": _auuc(one.auuc, one.gain),
        "difference": difference,
    }


def _people_bins(people):
    if people is None:
        return None
    return {
        "names": [own.name for own in people.columns],
        "n_bins": [len(own.bins) for own in people.columns],
        "top": [share for own in people.columns for share in own.inside],
        "rest": [share for own in people.columns for share in own.outside],
        "distance": [own.distance for own in people.columns],
    }


def score_numbers(model, table):
    """Scores of rows, and what is known of scores: knots of the calibration, quantiles, weights."""
    (scorer,) = model.scorers
    known, calibration = scorer.quantiles, scorer.calibration
    linear = model.evidence.arms[0].drivers.linear or ()
    return {
        "predict": model.predict(table),
        "uplift": model.uplift(table)[:, 0],
        "calibration_score": calibration.score,
        "calibration_uplift": calibration.uplift,
        "calibration_effect": calibration.average_effect,
        "calibration_rows": [calibration.n_rows, calibration.n_treated, calibration.min_rows],
        "quantile_scores": plain(known.score),
        "quantile_above": plain(known.above),
        "quantile_reach": plain(known.reach),
        "linear_names": [own.name for own in linear],
        "linear_coefficients": [own.coefficient for own in linear],
        "linear_weights": [own.weight for own in linear],
    }


def arms_numbers(model):
    """Every number of the evidence of a model of several arms: each arm, and their policy."""
    return {
        "labels": list(model.arms),
        "arms": {own.arm: _evidence(model.evidence, own) for own in model.evidence.arms},
        "policy": _policy(model.evidence),
    }


def judge_arms(model, table):
    return _policy(_quietly(model.evaluate, table))


def _policy(evidence):
    policy, curve = evidence.policy, evidence.policy.curve
    labels = evidence.roles.arms
    counts = [evidence.arms[0].rows[0].n_rows, *(own.rows[1].n_rows for own in evidence.arms)]
    found = {
        "rows": dict(zip(labels, counts, strict=True)),
        "certificate": _certified(policy.certificate),
        "curve 0": {
            "budget": plain(curve.spend),
            "rate": plain(policy.rate),
            "costs": dict(zip(labels[1:], curve.costs, strict=True)),
            "policy": {
                "gain": plain(curve.gain), "standard_error": plain(curve.se),
                "lower": plain(curve.lower), "upper": plain(curve.upper),
                "simultaneous_lower": plain(curve.band_lower),
                "simultaneous_upper": plain(curve.band_upper),
                "shares": [share for row in curve.shares for share in row],
                "declined": curve.missing is not None,
            },
            "random": plain(curve.random),
            "differences": {
                one.against: _estimate(one.difference) | {"p_value": one.difference.p_value}
                for one in policy.contrasts
            },
        },
    }  # fmt: skip
    if policy.people:
        found["people"] = {own.arm: _people_bins(own) for own in policy.people}
    if policy.segments is not None:
        found["segments"] = {
            str(k): {
                "rows": part.n_rows,
                "share": part.share,
                "learnt": dict(zip(labels[1:], part.trained, strict=True)),
                "certified": None if part.guaranteed is None else dict(
                    zip(labels[1:], part.guaranteed, strict=True)
                ),
                "contrasts": {
                    f"{own.arm} over {own.over}": _estimate(own.effect)
                    | {"detectable": 2.8 * own.effect.se}
                    for own in part.contrasts
                },
            }
            for k, part in enumerate(policy.segments.parts)
        }  # fmt: skip
    return found


def arms_score_numbers(model, table):
    return {
        "predict": model.predict(table),
        "uplift": model.uplift(table),
        "slopes": [[one.slope, one.centre] for one in model.scorers],
        "calibrations": {
            label: {"score": one.calibration.score, "uplift": one.calibration.uplift}
            for label, one in zip(model.arms, model.scorers, strict=True)
        },
    }


def saved_and_loaded(model):
    """The model from its own file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "golden.auucmax"
        model.save(path)
        return models.load(path)


# --- targeting ------------------------------------------------------------------------------------


def _ends(one):
    return None if one is None else plain([one.value, one.lower, one.upper])


def target_list(model, table, **options):
    """The list of people, and what to expect: ``share``, ``budget``, ``cost``, ``value``..."""
    found = _quietly(model.target, table, **options)
    people, choice, plan = found.people, found.choice, found.plan
    return {
        "ids": [str(own) for own in people[people.columns[0]]],
        "ranks": plain(people["rank"]),
        "scores": people["score"].to_numpy(),
        "uplifts": plain(people["uplift"]),
        "arms": [str(own) for own in people["arm"]],
        "n_chosen": len(found.chosen()),
        "n_treated": int(sum(choice.counts)),
        "threshold": float("inf") if choice.threshold is None else float(choice.threshold),
        "share": plan.share,
        "spend": plan.spend,
        "uplift_sum": found.uplift,
        "gain": _ends(plan.gain),
        "profit": _ends(plan.profit),
        "guaranteed": plan.guaranteed,
        "better": None if found.decision.better is None else found.decision.better.share,
        "known": plan.missing is None,
        "is_own": bool(found.is_own),
        "decision": STATES[found.decision.state],
        "repeated": found.n_repeated,
        "excluded": [found.n_excluded, found.n_unknown_ids],
    }


def arms_list(
    model, table, *, share=None, budget=None, value=None, exclude=None, cost=None, **limits
):
    """The list of several arms; ``limits``: cost_column, at_most, at_least, forbid."""
    found = _quietly(
        model.target, table, share=share, budget=budget, value=value, cost=cost,
        exclude=exclude, limits=models.Limits(**limits),
    )  # fmt: skip
    people, choice, plan = found.people, found.choice, found.plan
    uplifts = [f"uplift {label}" for label in model.arms]
    return {
        "ids": [str(own) for own in people.iloc[:, 0]],
        "ranks": plain(people["rank"]),
        "arms": [str(own) for own in people["arm"]],
        "uplifts": plain(people[uplifts].to_numpy(float)),
        "counts": plain(list(choice.counts)),
        "spend": plan.spend,
        "uplift_sum": float(found.uplift),
        "gain": _ends(plan.gain),
        "profit": _ends(plan.profit),
        "decision": STATES[found.decision.state],
        "shifts": {
            label: [own.distance, own.by_chance, own.above, own.below]
            for label, own in zip(model.arms, found.shifts, strict=True)
        },
    }


def selection(kind, score, amount, cost):
    """Who is treated: by ``share``, within a ``budget``, or by what is ``worth`` it."""
    options = {"budget": amount, "cost": cost}
    if kind == "share":
        options = {"share": amount}
    if kind == "worth":
        options = {"value": amount, "cost": cost}
    treat = targeting.choose(score, **options).arm >= 0
    threshold = float(score[treat].min())
    return {
        "n_treated": int(treat.sum()),
        "threshold": threshold,
        "cost": float(np.broadcast_to(cost, score.shape)[treat].sum()),
        "n_tied": int((score == threshold).sum()),
        "n_tied_treated": int((treat & (score == threshold)).sum()),
        "rows": np.flatnonzero(treat).tolist(),
    }


def choose_arms(uplift, **options):
    found = targeting.choose(uplift, **options)
    own = {"arm": plain(found.arm)} | _read(found, "counts", "cost", "uplift")
    return own | {"rate": found.threshold} | _read(found, "n_tied", "n_tied_taken")


def calibrate(y, score, new_y, new_score, new_treatment, **options):
    """Knots of the calibration, uplifts of new scores, and their table by tenths."""
    found = targeting.calibrate(y, score, **options)
    table = metrics.uplift_by_decile(new_y, new_score, treatment=new_treatment)
    tenth = np.repeat(np.arange(len(table)), table["rows"])
    best_first = np.argsort(-new_score, kind="stable")
    predicted = np.bincount(tenth, found(new_score)[best_first]) / np.bincount(tenth)
    return {
        "score": plain(found.score),
        "uplift": plain(found.uplift),
        "average_effect": found.average_effect,
        "rows": [found.n_rows, found.n_treated, found.min_rows],
        "new_uplift": plain(found(new_score)),
        "table_predicted": plain(predicted),
        "table_uplift": plain(table["uplift"]),
    }


# --- SQL ------------------------------------------------------------------------------------------


def _executed(query, table):
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'; SET threads = 1")
    connection.register("people", table)
    return connection.sql(query).df()


def sql_scores(model, table, key):
    """Scores and uplifts by the exported query, in the order of the column ``key``."""
    query = auucmax.export.to_sql(model, table="people", keep=[key])
    found = _executed(query, table).sort_values(key)
    return {"score": found["score"].to_numpy(), "uplift": plain(found["uplift"])}


def sql_arms(model, table, key, costs, value):
    query = auucmax.export.to_sql(
        model, table="people", keep=[key], cost=list(costs), value=value
    )  # fmt: skip
    found = _executed(query, table).sort_values(key)
    return {
        "uplift": {label: found[f"uplift {label}"].to_numpy() for label in model.arms},
        "arm": [str(own) for own in found["arm"]],
    }


# --- before and after a trial ---------------------------------------------------------------------


def plan_trial(**assumed):
    return _plan(auucmax.campaign.plan_trial(**assumed))


def plan_arms(model, **options):
    return _plan(auucmax.campaign.plan_trial(model=model, **options))


def _plan(found):
    table = [line for line in found.lines if line.what != "effect"]
    return {
        "rows": table[0].rows,
        "best_share": found.best_share,
        "treated_share": found.treated_share,
        "gain": found.assumed[0].gain,
        "line_rows": [line.rows for line in table],
        "line_values": [line.value for line in table],
        "line_power": [line.power for line in table],
        "line_width": [line.width if line.what == "gain" else None for line in table],
        "line_by": ["interval" if line.what == "gain" else "certificate" for line in table],
    }


def past_rows(y, **columns):
    """``columns``: groups and score."""
    names = {name: name for name in columns}
    return plain(auucmax.campaign.past_rows(pd.DataFrame({"y": y} | columns), outcome="y", **names))


def assign(people, **options):
    """Ids of each arm, in the order of the table; chances; who was chosen; the rule."""
    found = _quietly(auucmax.campaign.assign, people, **options)
    table = found.people
    chances = [name for name in table if str(name).startswith(("propensity", "chance"))]
    numbers = {
        "counts": dict(zip(found.arms, found.counts, strict=True)),
        "rule": found.rule,
        "n_before": found.n_before,
        "ids": {
            arm: [str(own) for own in table.loc[table["arm"] == arm].iloc[:, 0]]
            for arm in found.arms
        },
        "chances": {str(name): plain(table[name].astype(float)) for name in chances},
    }
    if found.chosen is not None:
        numbers["n_chosen"] = sum(found.chosen[1:])
    return numbers, table


def monitor(looks, *, score_column, rival_column=None, least_chance=None, **named):
    """Looks at a running trial by one state file; ``looks``: tables and the days of the looks."""
    found = {}
    if rival_column is not None:  # whose bounds took a third of delta
        named["delta"] = 0.05 * 2 / 3
    with tempfile.TemporaryDirectory() as folder:
        for number, (table, day) in enumerate(looks):
            look = _quietly(
                auucmax.campaign.monitor_trial, table, Path(folder) / "state", as_of=day,
                score=score_column, least_propensity=least_chance, **named,
            )  # fmt: skip
            arms = {own.arm: _look(look, own) for own in look.arms}
            numbers = arms if len(arms) > 1 else arms[look.arms[0].arm]
            found[f"look {number}"] = numbers | {"share_p_value": plain(look.ratio_p_value)}
    return found


def _look(look, arm):
    counts = {"n_rows": arm.n_rows}
    if len(look.arms) == 1:
        counts |= {"n_new": look.n_new, "n_bet": arm.n_bet, "n_waiting": look.n_waiting}
    else:
        counts |= {"n_bet": arm.n_bet}
    bounds = {
        name: {"estimate": own.value, "lower": own.lower, "upper": own.upper}
        for name, own in (("effect", arm.effect), ("gain", arm.gain))
    }
    more = {"n_beyond": look.n_clipped, "bounds": bounds, "fails": look.verdict.is_failure}
    return counts | more


def verify(table, **options):
    found = _quietly(auucmax.campaign.verify, table, **options)
    _, *arms = found.roles.arms
    chosen = dict.fromkeys(found.roles.arms, 0)
    given = dict.fromkeys(found.roles.arms, 0)
    treated = {True: 0, False: 0}
    for cell in found.cells:
        chosen[cell.chosen] += sum(cell.given)
        treated[cell.chosen in arms] += sum(cell.given[1:])
        for arm, n in zip(given, cell.given, strict=True):
            given[arm] += n
    numbers = {
        "n_people": sum(given.values()),
        "level": found.level,
        "delta": found.delta,
        "n_chosen": sum(chosen[arm] for arm in arms),
        "n_treated": treated[True],
        "n_treated_rest": treated[False],
    }
    if len(arms) > 1:
        numbers |= {"chosen": chosen, "given": given}
    numbers["comparisons"] = {}
    for one in found.comparisons:
        name = {"as run": "as_run", "everyone": "everybody"}.get(one.against, one.against.value)
        if one.arm is not None and len(arms) > 1:
            continue
        numbers["comparisons"][name] = {
            "estimate": one.gain.value, "standard_error": one.gain.se, "lower": one.gain.lower,
            "upper": one.gain.upper, "certified_lower": one.certified_lower,
            "certified_upper": one.certified_upper,
        }  # fmt: skip
    if found.forecast is not None:
        own = found.forecast
        numbers["promise"] = {
            "promised": own.forecast.value, "promised_lower": own.forecast.lower,
            "promised_upper": own.forecast.upper, "came": own.realised.value,
            "difference": own.difference.value, "lower": own.difference.lower,
            "upper": own.difference.upper, "verdict": own.verdict.value,
        }  # fmt: skip
    numbers["check_p_values"] = [
        cell.p_values[what]
        for what in ("propensity", "missing outcomes", "balance")
        for cell in found.cells
        if what in cell.p_values
    ]
    return numbers


verify_arms = verify
