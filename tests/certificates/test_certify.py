import pickle
import tempfile
from functools import cache

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.batches_in_memory import ListedRows

import auucmax
from auucmax import (
    AUUCMax,
    TrialKFold,
    TwoModels,
    auuc_inference,
    certify,
    load_hillstrom,
    make_trial,
)
from auucmax.certificates import certify_difference, certify_thresholds
from auucmax.certificates.certify import METHODS
from auucmax.metrics import BinnedLevels, score_edges
from auucmax.rows import part_of


@pytest.fixture(scope="module")
def halves():
    trial = make_trial(6000, random_state=0)
    return trial.split(test_size=0.5, random_state=1)


@pytest.fixture(scope="module")
def model(halves):
    train, _ = halves
    return TwoModels().fit(train.X, train.y, treatment=train.treatment)


@pytest.mark.parametrize("method", METHODS)
def test_a_model_is_certified_on_new_rows(halves, model, method):
    _, test = halves
    certificate = certify(model, test.X, test.y, treatment=test.treatment, method=method)
    score = model.predict(test.X)
    shown = auuc_inference(test.y, score, treatment=test.treatment)
    assert certificate.estimate == pytest.approx(shown.estimate, abs=1e-12)
    assert certificate.gain_estimate == pytest.approx(shown.gain, abs=1e-12)
    assert certificate.lower_bound < certificate.estimate
    assert certificate.gain_gap == certificate.gain_estimate - certificate.gain_lower_bound
    assert ("No guarantee" in str(certificate)) == (method == "asymptotic")
    same = certify(score, y=test.y, treatment=test.treatment, method=method)
    assert same.lower_bound == certificate.lower_bound
    assert same == certificate


def test_joint_halves_delta_and_candidates_divide_it(halves, model):
    _, test = halves
    rows = {"y": test.y, "treatment": test.treatment, "method": "betting-fixed"}
    score = model.predict(test.X)
    joint = certify(score, **rows, joint=True)
    assert joint.lower_bound == certify(score, **rows, delta=0.025).lower_bound
    assert joint.joint
    many = certify(score, **rows, n_candidates=2)
    assert many.lower_bound == joint.lower_bound
    assert many.n_candidates == 2


def test_training_rows_are_refused(halves, model):
    train, test = halves
    order = np.random.default_rng(0).permutation(train.n_rows)
    shuffled = train.X.iloc[order], train.y[order]
    with pytest.raises(ValueError, match="got the rows that it was fitted on"):
        certify(model, *shuffled, treatment=train.treatment[order])
    with pytest.raises(ValueError, match="got the rows that it was fitted on"):
        certify_difference(
            model, np.arange(train.n_rows), train.X, train.y, treatment=train.treatment
        )
    with pytest.raises(ValueError, match="got the rows that it was fitted on"):
        certify(model, train.X.astype(np.float32), train.y, treatment=train.treatment)
    assert certify(model, test.X, test.y, treatment=test.treatment)


@pytest.mark.gate
def test_training_rows_are_refused_by_all_kinds_of_models(halves):
    """By models, pipelines, models of tables, and what is loaded from files."""
    train, test = halves
    for model in models_of(train):
        with pytest.raises(ValueError, match="rows should be new to the model"):
            certify(model, train.X, train.y, treatment=train.treatment, method="betting-fixed")
        found = certify(model, test.X, test.y, treatment=test.treatment, method="betting-fixed")
        assert found.n_candidates == 1


def taken(trial, rows):
    return trial.X.iloc[rows], trial.y[rows], trial.treatment[rows]


@cache
def models_of(train):
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), TwoModels())
        pipeline.fit(train.X, train.y, treatment=train.treatment)
    alone = AUUCMax(selection=None).fit(train.X, train.y, treatment=train.treatment)
    stream = ListedRows(train.X, train.y, train.treatment, [700], names=list(train.X.columns))
    streamed = AUUCMax(selection=None).fit(stream)
    table = train.X.assign(y=train.y, t=train.treatment)
    named = {"treatment": "t", "outcome": "y"}
    of_table = auucmax.fit(auucmax.read_trial(table, **named), "tm")
    with tempfile.TemporaryDirectory() as folder:
        of_table.save(f"{folder}/m")
        loaded = auucmax.load(f"{folder}/m")
    ids = table.assign(person=np.arange(len(table)))
    with_ids = auucmax.fit(auucmax.read_trial(ids, id="person", **named), "tm")
    pickled = pickle.loads(pickle.dumps(alone))
    return alone, pipeline, streamed, of_table, with_ids, loaded, pickled


@pytest.mark.gate
def test_a_search_pays_for_its_candidates_on_the_rows_that_it_compared_them_on(halves):
    train, test = halves
    inner = AUUCMax(selection="certificate", grid=[0.1, 0.3], random_state=0)
    search = GridSearchCV(
        inner, {"surrogate": ["s_poly", "s_log"]}, cv=TrialKFold(2, random_state=0)
    )
    with sklearn.config_context(enable_metadata_routing=True):
        search.fit(train.X, train.y, treatment=train.treatment)
    seed = int(np.random.default_rng(0).integers(2**62))
    kept = np.flatnonzero(part_of(np.arange(train.n_rows, dtype=np.uint64), 2, seed) == 1)
    X, y, t = taken(train, kept)
    assert certify(search, X, y, treatment=t).n_candidates == 4
    # Nobody can tell new rows from those that were set aside: the price is the same.
    assert certify(search, test.X, test.y, treatment=test.treatment).n_candidates == 4


@pytest.mark.parametrize("adjusted", [False, True])
def test_certificate_and_interval_show_one_estimate(adjusted):
    """A small arm: less their mean, outcomes have quite another estimate."""
    rng = np.random.default_rng(0)
    y, score = (rng.random(600) < 0.6).astype(float), rng.normal(size=600)
    t = rng.random(600) < 0.05
    options = {"outcome_model": 0.6 + 0.1 * np.tanh(score)} if adjusted else {}
    found = certify(score, y=y, treatment=t, **options)
    shown = auuc_inference(y, score, treatment=t, **options)
    assert found.estimate == pytest.approx(shown.estimate)
    assert found.gain_estimate == pytest.approx(shown.gain)
    assert found.adjusted == adjusted


def test_unbounded_revenue_opens_without_a_probability():
    rng = np.random.default_rng(1)
    y, score, t = rng.lognormal(size=2000), rng.normal(size=2000), rng.random(2000) < 0.5
    found = certify(score, y=y, treatment=t)
    assert found.method == "asymptotic"
    few = certify(score[:30], y=y[:30], treatment=t[:30])
    assert few.lower_bound == -np.inf
    assert few.gain_lower_bound == -np.inf
    assert "inf" not in str(few)


def test_auto_goes_by_the_outcome_alone(halves, model):
    _, test = halves
    score, t = model.predict(test.X), test.treatment
    assert certify(score, y=test.y, treatment=t).method == "betting"
    money = 30.0 * test.y
    assert certify(score, y=money, treatment=t).method == "asymptotic"
    part = np.where(test.y == 1, 0.5, 0)  # within [0, 1], but who knows
    assert certify(score, y=part, treatment=t).method == "asymptotic"
    with pytest.raises(ValueError, match="y is not 0/1: pass outcome_range"):
        certify(score, y=money, treatment=t, n_dealings=3)
    bounded = certify(score, y=money, treatment=t, outcome_range=(0, 30))
    assert bounded.method == "betting"
    assert bounded.outcome_range == (0, 30)


def test_selection_by_certificate(halves):
    train, _ = halves
    model = AUUCMax(selection="certificate", random_state=0)
    model.fit(train.X, train.y, treatment=train.treatment)
    table, certificate = model.selection_path_, model.certificate_
    assert certificate.n_candidates == len(table) == 4
    seed = int(np.random.default_rng(0).integers(2**62))
    part = part_of(np.arange(train.n_rows, dtype=np.uint64), 2, seed)
    learnt, kept = np.flatnonzero(part == 0), np.flatnonzero(part == 1)
    assert certificate.n_rows == len(kept)
    assert table.held_out_auuc.idxmax() == table.index[table.chosen][0]
    # It learnt from the other half only, so there is nothing to refit.
    alone = AUUCMax(selection=None, norm=model.norm_)
    rows = train.X.iloc[learnt], train.y[learnt]
    alone.fit(*rows, treatment=train.treatment[learnt])
    np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-4, atol=1e-7)
    # The rows kept apart may be certified again, and pay for the candidates again.
    again = certify(model, train.X.iloc[kept], train.y[kept], treatment=train.treatment[kept])
    assert again.n_candidates == 4
    assert again.lower_bound == certificate.lower_bound
    some = kept[:900]
    rows = train.X.iloc[some], train.y[some]
    assert certify(model, *rows, treatment=train.treatment[some]).n_candidates == 4
    assert "the 4 candidates were fixed" in str(certificate)
    model.set_params(selection=None).fit(train.X, train.y, treatment=train.treatment)
    assert not hasattr(model, "certificate_")
    model.set_params(selection="certificate")
    with pytest.raises(ValueError, match="got the rows that it was fitted on"):
        certify(model, train.X, train.y, treatment=train.treatment)
    with pytest.raises(ValueError, match="equal for all rows"):
        model.fit(
            train.X, train.y, treatment=train.treatment, sample_weight=np.arange(train.n_rows) + 1
        )


def test_cross_fitted_scores(halves):
    trial, _ = halves
    folds = np.arange(trial.n_rows) % 2
    score = np.empty(trial.n_rows)
    parts = []
    for fold in (0, 1):
        inside = folds == fold
        other = TwoModels().fit(
            trial.X[~inside], trial.y[~inside], treatment=trial.treatment[~inside]
        )
        score[inside] = other.predict(trial.X[inside])
        parts.append(
            certify(
                score[inside],
                y=trial.y[inside],
                treatment=trial.treatment[inside],
                delta=0.025,
            )
        )
    whole = certify(score, y=trial.y, treatment=trial.treatment, folds=folds)
    assert whole.lower_bound == pytest.approx(np.mean([p.lower_bound for p in parts]))
    assert whole.gain_estimate == pytest.approx(np.mean([p.gain_estimate for p in parts]))
    assert "mean over these models" in str(whole)


@pytest.mark.gate
def test_thresholds_hold_together():
    train, test = load_hillstrom().split(test_size=0.5, random_state=0)
    model = TwoModels().fit(train.X, train.y, treatment=train.treatment)
    thresholds = np.quantile(model.predict(train.X), [0.7, 0.5, 0.3])
    table = certify_thresholds(
        model, test.X, test.y, treatment=test.treatment, thresholds=thresholds
    )
    assert isinstance(table, pd.DataFrame)
    np.testing.assert_allclose(table.share, [0.3, 0.5, 0.7], atol=0.02)
    assert (table.lower_bound > 0).all()
    assert (table.lower_bound < table.estimate).all()
    score, t = model.predict(test.X), test.treatment
    above = score > thresholds[1]
    effect = test.y[t == 1].mean() - test.y[t == 0].mean()
    direct = (test.y * above)[t == 1].mean() - (test.y * above)[t == 0].mean()
    assert table.estimate[1] == pytest.approx(direct - above.mean() * effect, abs=0.002)


def test_outcome_model_and_groups(halves, model):
    train, test = halves
    from sklearn.linear_model import LogisticRegression

    outcome = LogisticRegression().fit(train.X, train.y)
    rows = {"y": test.y, "treatment": test.treatment}
    by_model = certify(model, test.X, outcome_model=outcome, **rows)
    predicted = outcome.predict_proba(test.X)[:, 1]
    assert (
        by_model.lower_bound == certify(model, test.X, outcome_model=predicted, **rows).lower_bound
    )
    assert by_model.adjusted
    assert "outcome model" in str(by_model)
    pairs = np.empty(test.n_rows, int)  # households of two within an arm
    for arm in (0, 1):
        inside = np.flatnonzero(test.treatment == arm)
        pairs[inside] = 10_000 * arm + np.arange(len(inside)) // 2
    clustered = certify(model, test.X, groups=pairs, **rows)
    assert clustered.by_cluster
    assert certify(model, test.X, groups=pairs, method="asymptotic", **rows)


def test_bad_input(halves, model):
    _, test = halves
    score, y, treatment = model.predict(test.X), test.y, test.treatment
    halves_of_rows, fours = np.arange(test.n_rows) % 2, np.arange(test.n_rows) // 4
    one_treated = np.arange(test.n_rows) == 3
    cases = [
        (certify, (score,), {}, "y"),
        (certify, (model,), {"y": y}, "X"),
        (certify, (score,), {"y": y, "method": "hope"}, "method"),
        (certify, (score,), {"y": y, "method": "asymptotic", "n_dealings": 3}, "n_dealings"),
        (certify, (score,), {"y": y, "dealings": 3}, "dealings"),
        (certify, (score,), {"y": y, "delta": 0}, "delta"),
        (certify, (score,), {"y": y, "n_candidates": 0.25}, "n_candidates"),
        (certify, (model, test.X, y), {"folds": halves_of_rows}, "folds"),
        (certify, (score,), {"y": y, "folds": treatment}, "folds"),
        (certify, (score,), {"y": y, "folds": halves_of_rows, "groups": fours}, "groups"),
        (certify, (score,), {"y": y, "random_state": -1}, "random_state"),
        (certify, (score,), {"y": y, "outcome_model": score, "outcome_model_range": (2, 3)},
         "outcome_model_range"),
        (certify, (score,), {"y": y, "outcome_model_range": (0, 1)}, "outcome_model_range"),
        (certify, (score,), {"y": 10 * y, "treatment": one_treated}, "each arm"),
        (certify_difference, (score, score), {}, "y"),
        (certify_thresholds, (score,), {"y": y, "thresholds": "median"}, "thresholds"),
    ]  # fmt: skip
    for function, args, options, parameter in cases:
        with pytest.raises(ValueError, match=f"^{parameter} should "):
            function(*args, **({"treatment": treatment} | options))
    with pytest.raises(TypeError, match="folds"):
        certify_difference(score, score, y=y, treatment=treatment, folds=fours)


def test_nothing_is_claimed_without_evidence():
    """One treated row; all outcomes equal; a level that no wealth can reach."""
    score, y = np.arange(30.0), np.ones(30)
    for treatment in (np.arange(30) == 4, np.arange(30) % 2 == 0):
        assert certify(score, y=y, treatment=treatment).gain_lower_bound <= 0
    y[::3] = 0
    tiny = certify(score, y=y, treatment=np.arange(30) % 2, delta=1e-12)
    assert tiny.gain_lower_bound <= 0
    assert str(tiny).startswith("Not certified")


@pytest.mark.gate_cases("betting-")
@pytest.mark.parametrize("method", METHODS)
def test_upper_bounds_are_lower_bounds_with_the_arms_swapped(method):
    test = load_hillstrom()
    score, options = test.X["womens"], {"method": method, "delta": 0.1}
    if method.startswith("betting"):
        options["n_dealings"] = 2
    found = certify(score, y=test.y, treatment=test.treatment, upper=True, **options)
    swapped = certify(score, y=test.y, treatment=1 - test.treatment, **options)
    assert found.upper_bound == pytest.approx(-swapped.lower_bound, rel=1e-12)
    assert found.gain_upper_bound == pytest.approx(-swapped.gain_lower_bound, rel=1e-12)
    assert found.gain_lower_bound < found.gain_estimate < found.gain_upper_bound
    alone = certify(score, y=test.y, treatment=test.treatment, **options)
    assert alone.gain_lower_bound == found.gain_lower_bound
    assert alone.upper_bound is alone.gain_upper_bound is None


@pytest.mark.gate
def test_upper_bounds_of_a_histogram():
    test = load_hillstrom()
    score = test.X["history"].to_numpy()
    histogram = BinnedLevels.of(test.y, score, test.treatment, score_edges(score, 100))
    found = certify(histogram, upper=True)
    assert found.gain_lower_bound < found.gain_estimate < found.gain_upper_bound
    assert found.lower_bound < found.estimate < found.upper_bound
    assert found.gain_lower_bound == certify(histogram).gain_lower_bound
