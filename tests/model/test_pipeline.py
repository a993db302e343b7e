"""From a trial to a model with evidence: one arm and several."""

import warnings

import numpy as np
import pytest
from tests.model.arms_table import COSTS, arms_table, unequal_arms
from tests.model.trial_table import households, trial_table, two_strata

import auucmax
from auucmax import auuc_inference, auuc_score, certify
from auucmax._errors import InputError
from auucmax._progress import Work
from auucmax.data import FailedCheckError
from auucmax.data.pair import Pair, row_keys
from auucmax.model.folds import cross_fit, train
from auucmax.model.registry import COMPARABLE, MODELS
from auucmax.results import Basis, Kind, Why
from auucmax.targeting import calibrate

NAMES = {"treatment": "arm", "outcome": "visit", "treated": "mail", "control": "none"}
ARMS = {"treatment": "arm", "outcome": "visit", "control": "none", "id": "person"}
STRATA = {"treatment": "mail", "outcome": "visit", "id": "person", "propensity": "chance"}


def read(table, **options):
    return auucmax.read_trial(table, **(NAMES | {"id": "person"} | options))


def fit(trial, model="tm", **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few rows
        return auucmax.fit(trial, model, **options)


def apart(model, trial, arm=1):
    """The rows of an arm and the control, and their scores by models of other folds."""
    keys = row_keys(trial, model.recipe.key)
    pair = list(Pair.each(trial, keys))[arm - 1]
    name = model.recipe.model
    makes = {name: lambda: COMPARABLE[name](model.recipe.seed)}
    return pair, cross_fit(pair, makes, model.recipe, keys, with_chunks=True, work=Work(""))


@pytest.fixture(scope="module")
def table():
    return trial_table()


@pytest.fixture(scope="module")
def trial(table):
    return read(table)


@pytest.fixture(scope="module")
def model(trial):
    return fit(trial)


def test_what_was_fitted(table, trial, model):
    info = model.info
    assert (info.n_given, info.n_used, info.n_trained) == (6_000, trial.n_rows, trial.n_rows)
    assert info.other_arms == {"phone": int((table["arm"] == "phone").sum())}
    assert info.without_outcome == (0, 0)
    assert model.evidence.basis == Basis.CROSS_FITTED
    assert model.recipe.n_folds == model.evidence.n_folds == 5
    assert model.arms == ("mail",)


def test_evidence_rests_on_models_not_trained_on_the_rows(trial, model):
    pair, found = apart(model, trial)
    ranks = found.ranks["tm"]
    expected = auuc_inference(pair.y, ranks, treatment=pair.treated)
    (own,) = model.evidence.arms
    assert own.auuc.value == pytest.approx(expected.estimate)
    half = np.sqrt(2) * (expected.gain - expected.gain_interval[0])  # folds share training rows
    assert own.gain.lower == pytest.approx(expected.gain - half)
    by_fold = [
        (inside.mean(), auuc_score(pair.y[inside], ranks[inside], treatment=pair.treated[inside]))
        for inside in (found.fold == k for k in range(5))
    ]
    mean = sum(share * auuc for share, auuc in by_fold)
    assert own.auuc.value == pytest.approx(mean, abs=0.1 * expected.standard_error)
    assert own.certificate.trained_on[0] < own.certificate.trained_on[1] < 1
    assert own.curve.gain[-1] == pytest.approx(own.effect.value)


def test_the_kept_model_is_trained_on_all_rows(trial, model):
    pair = next(Pair.each(trial, row_keys(trial, model.recipe.key)))
    whole = train(pair, {"tm": lambda: MODELS["tm"](0)}, np.ones(len(pair.y), dtype=bool))
    np.testing.assert_allclose(whole.scores(trial.X)["tm"], model.predict(trial.X), atol=1e-12)


def test_outcomes_of_a_fold_do_not_move_its_own_ranks(table, trial, model):
    _, before = apart(model, trial)
    inside = before.fold == 2
    other = table.copy()
    where = trial.place[inside]
    other.iloc[where, other.columns.get_loc("visit")] = 1 - trial.y[inside].astype(int)
    changed = read(other)
    _, after = apart(model, changed)
    np.testing.assert_array_equal(after.fold, before.fold)
    np.testing.assert_array_equal(after.ranks["tm"][inside], before.ranks["tm"][inside])
    assert (after.ranks["tm"][~inside] != before.ranks["tm"][~inside]).any()


def test_uplift_is_calibrated_out_of_fold(trial, model):
    pair, found = apart(model, trial)
    of_ranks = calibrate(pair.y, found.ranks["tm"], treatment=pair.treated)
    calibration = model.scorers[0].calibration
    assert calibration.uplift == pytest.approx(of_ranks.uplift)
    score = model.predict(trial.X)
    below = [np.mean(score <= knot) for knot in calibration.score]
    np.testing.assert_allclose(below, of_ranks.score, atol=2e-3)
    assert model.uplift(trial.X).shape == (trial.n_rows, 1)


def test_a_hold_out_is_judged_by_the_model_itself(table, trial):
    model = fit(trial, hold_out=0.3)
    keys = row_keys(trial, model.recipe.key)
    held_out = model.recipe.held_out(keys)
    y, treated = trial.y[held_out], trial.arm[held_out] > 0
    score = model.predict(trial.X[held_out])
    (own,) = model.evidence.arms
    assert own.auuc.value == pytest.approx(auuc_inference(y, score, treatment=treated).estimate)
    certificate = certify(score, y=y, treatment=treated)
    assert own.certificate.auuc == pytest.approx(certificate.lower_bound)
    assert own.certificate.trained_on == (1.0, 1.0)
    assert model.info.n_trained == int((~held_out).sum())
    assert (model.evidence.basis, model.evidence.n_folds) == (Basis.HELD_OUT, None)
    other = table.copy()
    where = trial.place[held_out]
    other.iloc[where, other.columns.get_loc("visit")] = 1 - y.astype(int)
    other.iloc[where, other.columns.get_loc("town")] = "Atlantis"
    again = fit(read(other), hold_out=0.3)
    new = trial_table(200, random_state=5)
    np.testing.assert_array_equal(again.predict(new), model.predict(new))


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"hold_out": 0.97}, "hold_out"),
        ({"cost": 1.0}, "cost"),
        ({"budget": 1.0}, "budget"),
    ],
)
def test_options_that_do_not_fit_one_arm(table, options, parameter):
    few = read(table[table["arm"] != "phone"].groupby("arm").head(60))
    with pytest.raises(InputError) as caught:
        fit(few, **options)
    assert caught.value.parameter == parameter


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n == "tm" else [pytest.mark.gate]) for n in MODELS],
)
def test_every_model_by_name(name):
    small = trial_table(1_500)
    model = fit(read(small), name)
    assert np.isfinite(model.predict(small)).all()
    assert np.isfinite(model.uplift(small)).all()
    assert model.info.model == name
    rivals = [one.against for one in model.evidence.arms[0].rivals]
    assert rivals == (["response", "tm", "auucmax"] if name == "auto" else ["tm"] * (name != "tm"))


@pytest.mark.gate
def test_rivals_are_paired_on_the_same_rows(trial, model):
    for hold_out in (0.0, 0.3):
        first = fit(trial, "cvt", hold_out=hold_out)
        (rival,) = first.evidence.arms[0].rivals
        other = fit(trial, "tm", hold_out=hold_out).evidence.arms[0]
        assert rival.against == "tm"
        assert rival.auuc == other.auuc
        gain = first.evidence.arms[0].gain.value - other.gain.value
        assert rival.difference.value == pytest.approx(gain)
        again = first.compare(trial, ["tm"]).arms[0].rivals[0]
        assert again.difference == rival.difference
    with pytest.raises(InputError) as caught:
        model.compare(trial.take(np.arange(3_000)), ["cvt"])
    assert caught.value.parameter == "trial"


@pytest.fixture(scope="module")
def money(table):
    """What people spend, most of them nothing, instead of visits."""
    amount = np.random.default_rng(5).gamma(2, 30, len(table)).round(2)
    return table.drop(columns="spent").assign(visit=table["visit"] * amount)


@pytest.mark.gate
def test_money(money, tmp_path):
    trial = read(money)
    model = auucmax.fit(trial)
    assert trial.roles.outcome.kind == Kind.MONEY
    (own,) = model.evidence.arms
    assert own.gain.lower > 0
    assert own.certificate is None
    assert own.missing == Why.NO_RANGE
    uplift, young = model.uplift(money)[:, 0], (money["age"] < 45).to_numpy()
    assert uplift[young].mean() > 3 * abs(uplift[~young].mean())
    with pytest.raises(InputError) as caught:
        fit(trial, "cvt")
    assert caught.value.parameter == "model"
    narrow = fit(read(money, outcome_range=(0, 1))).evidence.arms[0]
    assert narrow.missing == Why.NARROW_RANGE


@pytest.mark.gate
@pytest.mark.parametrize("outcome", ["visit", "spent"])
def test_lower_is_better(table, outcome):
    more = {"after": ["visit"]} if outcome == "spent" else {}
    one = fit(read(table, outcome=outcome, **more))
    turn = 1 if outcome == "visit" else 0
    cost = table.assign(**{outcome: turn - table[outcome]})
    other = fit(read(cost, outcome=outcome, lower_is_better=True, **more))
    new = trial_table(300, random_state=5)
    np.testing.assert_allclose(other.predict(new), one.predict(new), atol=1e-9)
    first, second = one.evidence.arms[0], other.evidence.arms[0]
    assert second.gain.value == pytest.approx(first.gain.value)
    assert second.rows[1].mean == pytest.approx(cost.loc[cost["arm"] == "mail", outcome].mean())


@pytest.fixture(scope="module")
def sorted_table():
    """Those who spent more are treated more often."""
    table, rng = trial_table(2_000), np.random.default_rng(0)
    chance = 1 / (1 + np.exp(-(table["spent"] - 100) / 60))
    return table.assign(arm=np.where(rng.random(2_000) < chance, "mail", "none"))


@pytest.mark.parametrize("options", [{}, {"ignore": ["spent"]}, {"features": ["age", "town"]}])
def test_a_table_that_is_no_trial_is_not_fitted(sorted_table, options, monkeypatch):
    monkeypatch.setattr("auucmax.model.pipeline.train", None)  # nothing is fitted before the check
    with pytest.raises(FailedCheckError) as caught:
        fit(read(sorted_table, **options))
    assert isinstance(caught.value, ValueError)
    assert caught.value.report.differences.loc[0, "feature"] == "spent"


def test_despite_the_check(sorted_table):
    model = fit(read(sorted_table), despite_check=True)
    (own,) = model.evidence.arms
    assert model.evidence.failed_check
    assert (own.certificate, own.cuts) == (None, None)
    assert own.missing == Why.FAILED_CHECK
    assert model.evidence.policy.segments is None


def test_new_rows_that_are_no_trial(model, sorted_table):
    found = model.evaluate(sorted_table.assign(person="new " + sorted_table["person"]))
    assert found.failed_check
    assert found.arms[0].certificate is None
    assert not model.evidence.failed_check


def test_new_rows_are_judged_by_the_model_itself(trial, model):
    new = trial_table(3_000, random_state=9)
    found = model.evaluate(new)
    own = read(new)
    score = model.predict(own.X)
    assert found.basis == Basis.NEW_ROWS
    expected = auuc_inference(own.y, score, treatment=own.arm > 0)
    assert found.arms[0].auuc.value == pytest.approx(expected.estimate)
    certificate = certify(score, y=own.y, treatment=own.arm > 0)
    assert found.arms[0].certificate.gain == pytest.approx(certificate.gain_lower_bound)
    with pytest.warns(UserWarning, match="new to the model"):
        assert model.evaluate(trial) is model.evidence
    with pytest.raises(InputError) as caught:
        model.evaluate(new.groupby("arm").head(12))
    assert caught.value.parameter == "new rows"


@pytest.fixture(scope="module")
def homes():
    return households()


@pytest.fixture(scope="module")
def by_home(homes):
    return fit(read(homes, groups="home"))


def test_intervals_and_certificate_are_by_group(homes, by_home):
    trial = read(homes, groups="home")
    pair, found = apart(by_home, trial)
    (own,) = by_home.evidence.arms
    expected = auuc_inference(
        pair.y, found.ranks["tm"], treatment=pair.treated, groups=homes["home"]
    )
    half = np.sqrt(2) * (expected.gain - expected.gain_interval[0])
    assert own.gain.lower == pytest.approx(expected.gain - half)
    alone = auuc_inference(pair.y, found.ranks["tm"], treatment=pair.treated)
    assert expected.gain_standard_error > 1.1 * alone.gain_standard_error
    assert own.n_groups == homes["home"].nunique()
    assert own.certificate is not None
    assert own.cuts is None  # proven for independent rows


@pytest.mark.gate
@pytest.mark.filterwarnings("ignore:The check warns")  # one fair trial in a hundred
def test_households_miss_as_rarely_as_promised():
    """Nothing has an effect; by rows alone, intervals would miss three times as often."""
    n, missed = 40, {"effect": 0, "gain": 0, "certificate": 0}
    for seed in range(n):
        (own,) = fit(read(households(400, random_state=seed), groups="home")).evidence.arms
        missed["effect"] += own.effect.lower > 0 or own.effect.upper < 0
        missed["gain"] += own.gain.lower > 0
        missed["certificate"] += own.certificate.gain > 0
    assert missed["effect"] <= 6  # 5% of 40, and three standard errors
    assert missed["gain"] <= 4
    assert missed["certificate"] <= 2


@pytest.mark.gate
def test_candidates_are_paid_for(trial, model):
    tried = fit(trial, n_candidates=8)
    one, many = model.evidence.arms[0], tried.evidence.arms[0]
    assert many.certificate.gain < one.certificate.gain
    assert many.auuc == one.auuc
    new = trial_table(2_000, random_state=9)
    assert tried.evaluate(new).arms[0].certificate.n_candidates == 1
    aside = fit(trial, n_candidates=8, hold_out=0.4)
    assert aside.evaluate(new).arms[0].certificate.n_candidates == 8


@pytest.fixture(scope="module")
def strata():
    return two_strata(4_000)


@pytest.fixture(scope="module")
def of_strata(strata):
    return fit(auucmax.read_trial(strata, **STRATA))


def test_propensities_enter_ranks_intervals_and_calibration(strata, of_strata):
    trial = auucmax.read_trial(strata, **STRATA)
    pair, found = apart(of_strata, trial)
    ranks = found.ranks["tm"]
    more = {"treatment": pair.treated, "propensity": strata["chance"]}
    (own,) = of_strata.evidence.arms
    assert own.auuc.value == pytest.approx(auuc_inference(pair.y, ranks, **more).estimate)
    assert of_strata.scorers[0].calibration.uplift == pytest.approx(
        calibrate(pair.y, ranks, **more).uplift
    )
    truth = 0.2 * 27 / 62
    assert abs(own.effect.value - truth) < 4 * own.effect.se
    naive = pair.y[pair.treated].mean() - pair.y[~pair.treated].mean()
    assert naive - truth > 5 * own.effect.se
    assert own.propensity == (0.2, 0.8)
    assert own.cuts is None


# Several arms


@pytest.fixture(scope="module")
def arms_trial():
    return auucmax.read_trial(arms_table(), **ARMS)


@pytest.fixture(scope="module")
def arms_model(arms_trial):
    return fit(arms_trial, cost=COSTS, budget=0.5)


def test_each_arm_is_fitted_as_if_it_were_alone(arms_trial, arms_model):
    assert arms_model.arms == ("mail", "phone")
    for k, label in enumerate(arms_model.arms):
        alone = auucmax.read_trial(arms_table(), **ARMS, treated=label)
        one = fit(alone)
        own = arms_model.evidence.arms[k]
        first = one.evidence.arms[0]
        assert (own.auuc, own.gain, own.effect) == (first.auuc, first.gain, first.effect)
        assert own.certificate == first.certificate
        np.testing.assert_array_equal(
            arms_model.predict(arms_trial.X)[:, k], one.predict(arms_trial.X)
        )
    uplift = arms_model.uplift(arms_trial.X)
    assert uplift.shape == (arms_trial.n_rows, 2)
    young = arms_trial.X["age"].to_numpy() < 45
    assert uplift[young, 0].mean() > uplift[young, 1].mean()
    assert uplift[~young, 1].mean() > uplift[~young, 0].mean()


def test_the_policy_beats_simpler_allocations(arms_model):
    policy = arms_model.evidence.policy
    against = {one.against: one.difference for one in policy.contrasts}
    assert against["random"].lower > 0
    assert next(own for name, own in against.items() if name.startswith("everyone")).lower > 0
    curve = policy.curve
    assert curve.costs == (1.0, 2.0)
    assert curve.spend[0] == 0 == curve.gain[0]
    assert policy.certificate.over_random > 0
    assert policy.certificate.budget == 0.5
    assert policy.certificate.spent == pytest.approx(0.5, abs=0.1)
    assert (np.diff([rate for rate in policy.rate if rate is not None]) <= 0).all()


def test_without_a_budget_the_policy_has_no_certificate(arms_trial):
    model = fit(arms_trial)
    assert model.evidence.policy.missing == Why.NO_BUDGET
    curve = model.evidence.policy.curve
    treated = np.sum(curve.shares, axis=1)
    np.testing.assert_allclose(treated, curve.spend, atol=1e-9)  # a budget is a number of people


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"hold_out": 0.3}, "hold_out"),
        ({"cost": {"mail": 1.0}}, "cost"),
        ({"cost": {"mail": 1.0, "fax": 1.0}}, "cost"),
        ({"cost": COSTS, "budget": 3.0}, "budget"),
        ({"cost": [1.0, -1.0]}, "cost"),
    ],
)
def test_options_that_do_not_fit_several_arms(arms_trial, options, parameter):
    with pytest.raises(ValueError, match=parameter):
        fit(arms_trial, **options)


@pytest.mark.gate
def test_arms_with_unequal_propensities():
    table = unequal_arms(6_000)
    trial = auucmax.read_trial(table, **ARMS, propensity="chance")
    model = fit(trial)
    effects = {own.arm: own.effect for own in model.evidence.arms}
    truth = 0.3 * np.mean(table["age"] < 45)
    assert abs(effects["mail"].value - truth) < 4 * effects["mail"].se
    assert abs(effects["phone"].value) < 4 * effects["phone"].se


def test_a_category_that_only_another_arm_has(arms_trial):
    table = arms_table()
    place = table.index[table["arm"] == "phone"][:3]
    table.loc[place, "town"] = "Lima"
    model = fit(auucmax.read_trial(table, **ARMS))
    assert np.isfinite(model.predict(table)).all()


# Folds
