"""The only file of the recorded numbers that calls the package.

Each function calls one thing and returns plain numbers, strings, lists and dictionaries. A name
that changes in the package changes here and nowhere else: the keys of the results stay, so that
``numbers.json`` stays as it is.
"""

import tempfile
import warnings
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

from auucmax import campaign, certificates, data, estimators, export, metrics, targeting
from auucmax import model as models
from auucmax.certificates.anytime import AnytimeBets

METRIC_OPTIONS = {"weights": "sample_weight", "propensity": "propensity", "groups": "groups"}


def _ranking(joint):
    return "joint" if joint else "separate"


def _options(**given):
    """Options under the names of the package; those that are None are left out."""
    names = METRIC_OPTIONS
    return {names.get(name, name): own for name, own in given.items() if own is not None}


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
    own = _trial(X, y, treatment, control, groups=groups, id=ids)
    return _check_numbers(data.check_randomisation(own, expected_share=expected_share, **options))


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


# --- metrics --------------------------------------------------------------------------------------


def auuc(y, score, treatment, joint=True, weights=None, propensity=None, outcome_model=None):
    more = _options(weights=weights, propensity=propensity, outcome_model=outcome_model)
    return metrics.auuc_score(y, score, treatment=treatment, ranking=_ranking(joint), **more)


def qini(y, score, treatment, **options):
    return metrics.qini_score(y, score, treatment=treatment, **_options(**options))


def qini_curve(y, score, treatment, **options):
    share, found = metrics.qini_curve(y, score, treatment=treatment, **_options(**options))
    return {"share": plain(share), "value": plain(found)}


def uplift_at(y, score, treatment, shares, joint=True, **options):
    return plain(
        metrics.uplift_at_k(
            y, score, treatment=treatment, share=shares, ranking=_ranking(joint),
            **_options(**options),
        )
    )  # fmt: skip


def pehe(effect, score):
    return float(metrics.pehe(effect, score))


def inference(y, score, treatment, joint=True, level=0.95, **options):
    """AUUC and gain with their errors; ``weights``, ``propensity``, ``groups``..."""
    found = metrics.auuc_inference(
        y, score, treatment=treatment, ranking=_ranking(joint), level=level, **_options(**options)
    )
    return _read(
        found, "estimate", "standard_error", "interval", "gain", "gain_standard_error",
        "gain_interval", "p_value", "n_rows",
    )  # fmt: skip


def difference(y, first, second, treatment, joint=True, **options):
    found = metrics.auuc_difference(
        y, first, second, treatment=treatment, ranking=_ranking(joint), **_options(**options)
    )
    return _read(found, "estimate", "standard_error", "interval", "p_value", "n_rows")


def uplift_curve(y, score, treatment, joint=True, **options):
    share, uplift = metrics.uplift_curve(
        y, score, treatment=treatment, ranking=_ranking(joint), **_options(**options)
    )
    return {"share": plain(share), "uplift": plain(uplift)}


def band(y, score, treatment, shares=None, joint=True, **options):
    found = metrics.uplift_band(
        y, score, treatment=treatment, shares=shares, ranking=_ranking(joint), **_options(**options)
    )
    return _read(
        found, "uplift", "standard_error", "lower", "upper", "simultaneous_lower",
        "simultaneous_upper", "critical", "multiple",
    )  # fmt: skip


def deciles(y, score, treatment, bins=10, **options):
    found = metrics.uplift_by_decile(
        y, score, treatment=treatment, bins=bins, **_options(**options)
    )
    return {
        name: plain(found[name])
        for name in (
            "rows", "treated", "control", "mean_treated", "mean_control", "uplift",
            "standard_error", "lower", "upper",
        )
    }  # fmt: skip


def policy_risk(y, score, treatment, share=None, **options):
    found = metrics.policy_risk(y, score, treatment=treatment, share=share, **_options(**options))
    return plain(found)


def policy_risk_inference(y, score, treatment, share=None, **options):
    found = metrics.policy_risk_inference(
        y, score, treatment=treatment, share=share, **_options(**options)
    )
    return _read(found, "share", "estimate", "standard_error", "interval", "n_rows")


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
    return numbers | {"bin_error": found.bin_error} | _certificate(certificates.certify(levels))


def budget_curve(y, uplift, treatment, control, cost, budget, **options):
    found = metrics.budget_curve(
        y, uplift, treatment=treatment, control=control, cost=cost, budget=budget,
        **_options(**options),
    )  # fmt: skip
    return _read(
        found, "budget", "gain", "standard_error", "lower", "upper", "simultaneous_lower",
        "simultaneous_upper", "shares", "n_rows",
    )  # fmt: skip


def policy_difference(y, uplift, other, treatment, control, cost, budget, **options):
    found = metrics.policy_difference(
        y, uplift, other, treatment=treatment, control=control, cost=cost, budget=budget,
        **_options(**options),
    )  # fmt: skip
    return _read(
        found, "difference", "standard_error", "lower", "upper", "area", "area_standard_error",
        "area_interval", "p_value",
    )  # fmt: skip


# --- certificates ---------------------------------------------------------------------------------


def _certificate(found):
    return _read(
        found, "lower_bound", "gain_lower_bound", "upper_bound", "gain_upper_bound", "estimate",
        "gain_estimate", "delta", "joint", "method", "n_rows", "n_candidates", "bin_gap",
        "adjusted", "by_cluster",
    )  # fmt: skip


def certify(y, score, treatment, **options):
    """``method``, ``joint``, ``upper``, ``folds``, ``groups``, ``propensity``..."""
    return _certificate(
        certificates.certify(score, y=y, treatment=treatment, **_options(**options))
    )


def certify_thresholds(y, score, treatment, thresholds, **options):
    found = certificates.certify_thresholds(
        score, y=y, treatment=treatment, thresholds=thresholds, **options
    )
    return {name: plain(found[name]) for name in ("share", "estimate", "lower_bound")}


def certify_difference(y, first, second, treatment, **options):
    found = certificates.certify_difference(first, second, y=y, treatment=treatment, **options)
    return _read(found, "lower", "estimate", "delta")


def paper_bound(y, score, treatment, norm, radius, count="rarer", **options):
    found = certificates.paper_bound(
        y, score, treatment=treatment, norm=norm, radius=radius, control_count=count,
        **_options(**options),
    )  # fmt: skip
    return _read(found, "lower", "estimate", "gap")


def paper_gap(counts, norm, radius):
    return certificates.paper_gap(*counts, norm=norm, radius=radius)


def progressive(chunks, **options):
    found = certificates.progressive_certificate(chunks, **options)
    return _read(
        found, "lower_bound", "gain_lower_bound", "delta", "n_rows", "n_models", "learnt",
        "n_candidates",
    )  # fmt: skip


def certify_policy(chunks, n_arms, **options):
    found = certificates.certify_policy(chunks, n_arms=n_arms, **options)
    return _read(
        found, "gain_lower_bound", "random_lower_bound", "net_lower_bound", "n_rows", "n_models"
    )


def certify_shares(chunks, **options):
    found = certificates.certify_shares(chunks, **options)
    return _read(
        found, "shares", "gain_lower_bounds", "share_upper_bounds", "delta", "n_rows", "n_models"
    )


def strata_bounds(y, treatment, stratum, weights, **options):
    found = certificates.strata_bounds(
        y, treatment=treatment, stratum=stratum, weights=weights, **options
    )
    return _read(found, "lower", "upper", "n_rows", "largest_group")


def anytime(y, scores, treated, batches, level=0.0125, least=None, chance=None):
    """Bounds from below and from above after each batch of rows, in units of the outcome."""
    bets = AnytimeBets.fresh(len(scores), least=least)
    found = {}
    for number, part in enumerate(batches):
        bets.add(
            y[part], scores[:, part], treated[part], level,
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
    return sorted({own for own in estimators.__all__ if own != "ALL_ESTIMATORS"})


def make_estimator(name, **parameters):
    return getattr(estimators, name)(**parameters)


def fit_predict(name, X, y, treatment, new_X, weights=None, **parameters):
    """Scores of new rows."""
    model = make_estimator(name, **parameters)
    model.fit(X, y, treatment=treatment, **_options(weights=weights))
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
        found["certificate"] = _certificate(model.certificate_)
    return found


def score_only(X, y, treatment, column, new_X):
    """Scores that come from elsewhere, as an estimator."""
    model = estimators.ScoreOnly(lambda frame: np.asarray(frame[column], float))
    return np.asarray(model.fit(X, y, treatment=treatment).predict(new_X))


# --- trial models ---------------------------------------------------------------------------------


def fit_model(table, *, model="auto", **columns):
    """A model of a raw table: ``treatment``, ``outcome``, ``control``, ``groups``..."""
    return _quietly(models.fit_trial_model, table, model=model, **columns)


def fit_arms(table, *, model="auto", **columns):
    return _quietly(models.fit_arms_model, table, model=model, **columns)


def with_rivals(model, table, names):
    evidence = _quietly(models.with_rivals, model, table, names)
    return [_rival(one) for one in evidence["rivals"]]


def judge(model, table):
    """The evidence of a model on other rows."""
    return _evidence(_quietly(model.judge, table))


def _quietly(function, *given, **named):
    """Without warnings, which are sentences."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*given, **named)


def evidence_numbers(model):
    """Every number of the evidence of a model of one arm."""
    return _evidence(model.evidence) | {
        "n_columns": len(model.columns.features),
        "n_folds": int(model.recipe.n_folds),
        "encoded_names": [str(name) for name in model.encoder.get_feature_names_out()],
    }


def _evidence(evidence):
    known, facts = evidence.expected, evidence.facts
    found = {
        "level": facts["level"],
        "passes": facts["failed_check"] is None,
        "qini": facts["qini"],
        "risk": facts["risk"],
        "ratio": facts["ratio"],
        "score_levels": facts["score_levels"],
        "rows": _numbers(facts["rows"]),
        "effect": _numbers(facts["effect"]),
        "auuc": _numbers(facts["auuc"]),
        "deciles": _numbers(facts["deciles"]),
        "curve": _read(known, "share", "uplift", "standard_error", "lower", "upper", "step"),
        "certificate": _numbers(facts["certificate"]),
        "certified_shares": _numbers(facts["certified_shares"]),
        "rivals": {one["name"]: _rival(one) for one in facts["rivals"]},
        "decision": evidence.decision_at(1.0, "everybody").state,
        "decision at .3": evidence.decision_at(0.3, "the top").state,
    }
    found["segments"] = {
        str(k): _numbers(
            {"rows": own["rows"], "share": own["share"], "certified": own["certified"]}
        )
        | _numbers(own["effect"])
        for k, own in enumerate(facts["segments"])
    }
    found["people"] = _people_bins(facts["people"])
    drivers = facts["drivers"]
    features = drivers["features"]
    found["drivers"] = {
        "names": [f"{own['name']}={own['level']}" for own in features],
        "correlation": [own["correlation"] for own in features],
        "top": [own["top"] for own in features],
        "rest": [own["rest"] for own in features],
        "difference": [own["difference"] for own in features],
        "n_features": drivers["n_features"],
    }
    check = facts["randomisation"]
    if check is not None:
        found["check"] = {
            "passes": check["ok"],
            "stops": check["stops"],
            "p_values": [own["p_value"] for own in check["tests"]],
            "adjusted_p_values": [own["adjusted_p_value"] for own in check["tests"]],
        }
    return found


def _numbers(facts):
    """The entries that are numbers, booleans, or lists of them."""
    if facts is None:
        return None
    found = {}
    for name, value in facts.items():
        if name.endswith("declined"):  # a sentence, or None
            found[name] = value is not None
            continue
        values = value if isinstance(value, list | tuple) else [value]
        if not any(isinstance(own, str | dict) for own in values):
            found[name] = plain(value)
    return found


#: Of a rival against the model.
VERDICTS = {"better": 1, "not told apart": 0, "worse": -1}


def _rival(one):
    return {
        "verdict": VERDICTS[one["verdict"]],
        "uplift": one["uplift"],
        "auuc": _numbers(one["auuc"]),
        "difference": _numbers(one["difference"]),
    }


def _people_bins(people):
    if people is None:
        return None
    return {
        "names": [own["name"] for own in people["columns"]],
        "n_bins": [len(own["bins"]) for own in people["columns"]],
        "top": [share for own in people["columns"] for share in own["top"]],
        "rest": [share for own in people["columns"] for share in own["rest"]],
        "distance": [own["distance"] for own in people["columns"]],
    }


def score_numbers(model, table):
    """Scores of rows, and what is known of scores: knots of the calibration, quantiles, weights."""
    known, calibration = model.evidence.expected.scores, model.calibration
    linear = model.evidence["drivers"]["linear"] or []
    return {
        "predict": model.predict(table),
        "uplift": model.uplift(table),
        "calibration_score": calibration.score,
        "calibration_uplift": calibration.uplift,
        "calibration_effect": calibration.average_effect,
        "calibration_rows": [calibration.n_rows, calibration.n_treated, calibration.min_rows],
        "quantile_scores": plain(known.score),
        "quantile_above": plain(known.above),
        "quantile_reach": plain(known.reach),
        "linear_names": [own["name"] for own in linear],
        "linear_coefficients": [own["coefficient"] for own in linear],
        "linear_weights": [own["weight"] for own in linear],
    }


def arms_numbers(model):
    """Every number of the evidence of a model of several arms: each arm, and their policy."""
    return {
        "labels": list(model.labels),
        "arms": {label: _evidence(own) for label, own in model.evidence.arms.items()},
        "policy": _policy(model.evidence.facts),
    }


def judge_arms(model, table):
    return _policy(_quietly(model.judge, table).facts)


def _policy(facts):
    found = {"rows": plain(facts["rows"]), "certificate": _numbers(facts["certificate"])}
    for k, curve in enumerate(facts["curves"]):
        found[f"curve {k}"] = {
            "budget": curve["budget"],
            "rate": curve["rate"],
            "costs": curve["costs"],
            "policy": _curve(curve["policy"]),
            "everybody": _curve(curve["everybody"]) | {"arm": curve["everybody"]["arm"]},
            "singles": {label: _curve(own) for label, own in curve["singles"].items()},
            "differences": {name: _numbers(own) for name, own in curve["differences"].items()},
        }
    if facts["people"] is not None:
        found["people"] = {own["arm"]: _people_bins(own) for own in facts["people"]["arms"]}
    if facts["segments"] is not None:
        found["segments"] = {
            str(k): {
                "rows": part["rows"],
                "share": part["share"],
                "learnt": part["learnt"],
                "certified": part["certified"],
                "contrasts": {
                    f"{own['arm']} over {own['over']}": _numbers(own) for own in part["contrasts"]
                },
            }
            for k, part in enumerate(facts["segments"]["parts"])
        }
    return found


def _curve(own):
    shares = own["shares"]
    return _numbers(own) | {"shares": [share for row in shares for share in row]}


def arms_score_numbers(model, table):
    return {
        "predict": model.predict(table),
        "uplift": model.uplift(table),
        "slopes": plain(model.slopes()),
        "calibrations": {
            label: {"score": own.calibration.score, "uplift": own.calibration.uplift}
            for label, own in model.models.items()
        },
    }


def saved_and_loaded(model):
    """The model from its own file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "golden.auucmax"
        models.save_model(model, path)
        return models.load_model(path)


# --- targeting ------------------------------------------------------------------------------------

ROW = (
    "share", "threshold", "n_treated", "cost", "effect", "gain", "gain_lower", "gain_upper",
    "profit", "profit_lower", "profit_upper",
)  # fmt: skip


def _row(found):
    """The numbers of a row of a plan, in the order of ``ROW``."""
    return [plain(getattr(found, name)) for name in ROW]


def plan(y, score, treatment, *, at=(), budget=None, certify=False, **options):
    """What shares cost and bring, of rows and scores: the best, the cautious, those ``at``."""
    found = _quietly(
        targeting.plan, y, score, treatment=treatment, share=list(at) or None, certify=certify,
        **_options(**options),
    )  # fmt: skip
    numbers = {"best": _row(found.best), "cautious": _row(found.cautious)}
    numbers |= {f"at {share:g}": _row(found.at(share)) for share in at}
    if budget is not None:
        numbers["affordable"] = _row(found.affordable(budget))
    if found.shift is not None:
        numbers["shift"] = _read(found.shift, "distance", "by_chance", "above", "below", "is_large")
    if certify:
        numbers["certified_profit"] = plain(found.certified_profit)
    return numbers | {"table_sum": plain(found.table.select_dtypes("number").iloc[5:].sum())}


def target_list(model, table, **options):
    """The list of people, and what to expect: ``share``, ``budget``, ``cost``, ``value``..."""
    found = _quietly(models.target, model, table, **options)
    people, selection = found.people, found.selection
    id_name = people.columns[0]
    return {
        "ids": [str(own) for own in people[id_name]],
        "ranks": plain(people["rank"]),
        "scores": people["score"].to_numpy(),
        "uplifts": plain(people["uplift"]),
        "arms": [str(own) for own in people["arm"]],
        "n_chosen": len(found.chosen()),
        "n_treated": int(selection.n_treated),
        "threshold": float(selection.threshold),
        "cost": float(selection.cost),
        "uplift_sum": found.uplift,
        "expected": _row(found.expected),
        "best": _row(found.plan.best),
        "known": found.unknown is None,
        "is_own": bool(found.is_own),
        "decision": found.decision.state,
        "certified": [plain(list(own)) for own in found.certified],
        "repeated": int(found.repeated),
        "excluded": None if found.excluded is None else list(found.excluded),
    }


def arms_list(model, table, *, share=None, budget=None, value=None, exclude=None, **limits):
    """The list of several arms; ``limits``: cost, cost_column, at_most, at_least, forbid."""
    found = _quietly(
        models.target_arms, model, table, share=share, budget=budget, value=value,
        exclude=exclude, limits=models.ArmLimits(**limits),
    )  # fmt: skip
    people = found.people
    uplifts = [f"uplift {label}" for label in model.labels]
    return {
        "ids": [str(own) for own in people.iloc[:, 0]],
        "ranks": plain(people["rank"]),
        "arms": [str(own) for own in people["arm"]],
        "uplifts": plain(people[uplifts].to_numpy(float)),
        "counts": plain(list(found.choice.counts)),
        "cost": float(found.choice.cost),
        "uplift_sum": float(found.choice.uplift),
        "rate": float(found.choice.rate),
        "n_tied": [int(found.choice.n_tied), int(found.choice.n_tied_taken)],
        "expected": None if found.expected is None else plain(list(found.expected)),
        "profit": None if found.profit is None else plain(list(found.profit)),
        "decision": found.decision.state,
        "is_unlike": bool(found.is_unlike),
        "shifts": {label: plain(list(own)) for label, own in found.shifts.items()},
    }


def selection(kind, score, amount, **options):
    """Who is treated: by ``share``, within a ``budget``, or by what is ``worth`` it."""
    functions = {"share": targeting.top_share, "budget": targeting.within_budget}
    if kind == "worth":
        found = targeting.worth_treating(score, value=amount, **options)
    else:
        found = functions[kind](score, amount, **options)
    numbers = _read(found, "n_treated", "threshold", "cost", "n_tied", "n_tied_treated")
    return numbers | {"rows": np.flatnonzero(found.treat).tolist()}


def choose_arms(uplift, **options):
    found = targeting.choose_arms(uplift, **options)
    return {"arm": plain(found.arm)} | _read(
        found, "counts", "cost", "uplift", "rate", "n_tied", "n_tied_taken"
    )


def calibrate(y, score, treatment, new_y, new_score, new_treatment, **options):
    """Knots of the calibration, uplifts of new scores, and their table by tenths."""
    found = targeting.calibrate(y, score, treatment=treatment, **_options(**options))
    table = targeting.calibration_table(found, new_y, new_score, treatment=new_treatment)
    return {
        "score": plain(found.score),
        "uplift": plain(found.uplift),
        "average_effect": found.average_effect,
        "rows": [found.n_rows, found.n_treated, found.min_rows],
        "new_uplift": plain(found(new_score)),
        "table_predicted": plain(table["predicted"]),
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
    query = export.to_sql(
        model.encoder, model.formula, table="people", keep=[key], calibration=model.calibration
    )
    found = _executed(query, table).sort_values(key)
    return {"score": found["score"].to_numpy(), "uplift": plain(found["uplift"])}


def sql_arms(model, table, key, costs, value):
    parts = zip(model.models.items(), model.slopes(), costs, strict=True)
    arms = [
        export.ArmScore(label, own.encoder, own.formula, own.calibration, *slope, cost)
        for (label, own), slope, cost in parts
    ]
    query = export.arms_to_sql(arms, control=model.control, table="people", keep=[key], value=value)
    found = _executed(query, table).sort_values(key)
    return {
        "uplift": {label: found[f"uplift {label}"].to_numpy() for label in model.labels},
        "arm": [str(own) for own in found["arm"]],
    }


# --- before and after a trial ---------------------------------------------------------------------


def plan_trial(**assumed):
    return _plan(campaign.plan_trial(**assumed))


def plan_arms(model, **options):
    return _plan(campaign.plan_arms(model, **options))


def _plan(found):
    table = found.table()
    return {
        "rows": found.rows,
        "best_share": found.best_share,
        "treated_share": found.treated_share,
        "gain": found.assumed.gain,
        "line_rows": [line["rows"] for line in table],
        "line_values": [line["value"] for line in table],
        "line_power": [line["power"] for line in table],
        "line_width": [line["width"] for line in table],
        "line_by": [line["by"] for line in table],
    }


def past_rows(y, **options):
    from auucmax.campaign.planning import past_rows as function

    return plain(function(y, **options))


def assign(people, **options):
    """Ids of each arm, in the order of the table; chances; who was chosen; the rule."""
    found = _quietly(campaign.assign, people, **options)
    table = found.people
    chances = [name for name in table if str(name).startswith(("propensity", "chance"))]
    numbers = {
        "counts": plain(found.counts),
        "rule": found.fingerprint,
        "n_before": int(found.n_before),
        "ids": {
            arm: [str(own) for own in table.loc[table["arm"] == arm].iloc[:, 0]]
            for arm in found.arms
        },
        "chances": {str(name): plain(table[name].astype(float)) for name in chances},
        "checks": {
            name: {"passes": bool(own.ok), "p_values": [float(test.p_value) for test in own.tests]}
            for name, own in found.balance.items()
        },
    }
    if "chosen" in table:
        numbers["n_chosen"] = int((table["chosen"].astype(str) != found.arms[0]).sum())
    return numbers, table


def monitor(looks, **named):
    """Looks at a running trial by one state file; ``looks``: tables and the days of the looks."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, (table, day) in enumerate(looks):
            state = Path(folder) / "state"
            look = _quietly(campaign.monitor_trial, table, state, as_of=day, **named)
            arms = getattr(look, "arms", None)
            numbers = {label: _look(own) for label, own in arms.items()} if arms else _look(look)
            found[f"look {number}"] = numbers | {"share_p_value": plain(look.ratio)}
    return found


def _look(look):
    counts = _read(look, "n_rows", "n_new", "n_bet", "n_waiting", "n_beyond", "blocks")
    return counts | {"bounds": plain(look.bounds), "fails": look.failed is not None}


def verify(table, **options):
    return _verified(_quietly(campaign.verify, table, **options))


def verify_arms(table, **options):
    found = _quietly(campaign.verify_arms, table, **options)
    return _verified(found) | _read(found, "chosen", "given")


def _verified(found):
    names = (
        "estimate", "standard_error", "lower", "upper", "certified_lower", "certified_upper",
    )  # fmt: skip
    numbers = _read(found, "n_people", "n_chosen", "n_treated", "n_treated_rest", "level", "delta")
    numbers["comparisons"] = {name: _read(one, *names) for name, one in found.comparisons.items()}
    numbers["decision"] = found.decision.state
    if found.promise is not None:
        numbers["promise"] = _read(
            found.promise, "promised", "promised_lower", "promised_upper", "came", "difference",
            "lower", "upper", "verdict",
        )  # fmt: skip
    numbers["drift"] = {
        "trial": [float(one.trial) for one in found.drift],
        "campaign": [float(one.campaign) for one in found.drift],
        "p_values": [float(one.p_value) for one in found.drift],
        "detectable": [float(one.detectable) for one in found.drift],
        "is_found": [bool(one.is_found) for one in found.drift],
    }
    numbers["check_p_values"] = [float(one.p_value) for one in found.check]
    numbers["action"] = None if found.advice is None else found.advice.action
    return numbers
