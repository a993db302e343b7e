import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import RobustScaler

from auucmax import AUUCMax, TwoModels, auuc_score, load_hillstrom
from auucmax.estimators.multi_arm import MultiArm
from auucmax.estimators.score_only import ScoreOnly
from auucmax.metrics import budget_curve

ARMS = ("a", "b")


def three_arms(seed, n=12_000):
    """Arm a helps the people of positive x0 only, by .2; arm b helps everybody by .12."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=["x0", "x1", "x2"])
    label = rng.choice(["none", "a", "b"], size=n)
    effects = np.column_stack([0.2 * (X["x0"] > 0), np.full(n, 0.12)])
    own = np.select([label == "a", label == "b"], effects.T, 0.0)
    y = (rng.random(n) < 0.3 + 0.1 * (X["x1"].to_numpy() > 0) + own).astype(float)
    return X, y, label, effects


@pytest.fixture(scope="module")
def rows():
    return three_arms(0)


@pytest.fixture(scope="module")
def fitted(rows):
    X, y, label, _ = rows
    return MultiArm(AUUCMax(selection=None), control="none", random_state=0).fit(
        X, y, treatment=label
    )


def test_each_arm_is_a_model_of_its_own(rows):
    X, y, label, _ = rows
    model = MultiArm(TwoModels(), calibrate=None, control="none").fit(X, y, treatment=label)
    assert model.arms_ == ARMS
    assert model.n_parameters_ == 2 * 2 * 4
    assert model.calibration_ is None
    scores = model.predict(X)
    for place, arm in enumerate(ARMS):
        part = (label == arm) | (label == "none")
        alone = TwoModels().fit(X[part], y[part], treatment=(label == arm)[part])
        assert np.array_equal(scores[:, place], alone.predict(X))


def test_calibration_by_hand(rows, fitted):
    X, y, label, _ = rows
    table = fitted.calibration_.set_index("arm")
    for place, arm in enumerate(ARMS):
        part = (label == arm) | (label == "none")
        effect = y[label == arm].mean() - y[label == "none"].mean()
        assert table.effect[arm] == pytest.approx(effect)
        assert table.slope[arm] == pytest.approx(12 * max(table.gain[arm], 0), rel=1e-6)
        score = fitted.estimators_[arm].predict(X[part])
        u = (rankdata(score) - 0.5) / part.sum()
        expected = effect + table.slope[arm] * (u - 0.5)
        assert fitted.predict(X[part])[:, place] == pytest.approx(expected, abs=1e-9)
    # Arm a's gain is E[effect (u - 1/2)] = .2 / 8 if people are ranked by x0, arm b's is 0.
    assert table.gain["a"] == pytest.approx(0.025, abs=0.008)
    assert abs(table.gain["b"]) < 0.008


def test_calibrated_effects_choose_the_right_arm(rows, fitted):
    X, _, _, effects = three_arms(1)
    truth = np.array(ARMS)[effects.argmax(axis=1)]
    assert np.mean(fitted.best_arm(X) == truth) > 0.85
    error = fitted.predict(X) - effects
    assert np.sqrt(np.mean(error**2, axis=0)) == pytest.approx([0, 0], abs=0.07)
    # A constant guess misses arm a's effects by .1.
    X, y, label, _ = rows
    raw = MultiArm(AUUCMax(selection=None), calibrate=None, control="none")
    raw.fit(X, y, treatment=label)
    assert np.abs(raw.predict(X)).max() < 0.03  # not effects


def test_ties_in_the_calibration(rows):
    """With a score of two values the calibrated effects are the effects of the two groups."""
    X, y, label, _ = rows
    model = MultiArm(ScoreOnly(lambda X: X["x0"] > 0), control="none", random_state=0)
    predicted = model.fit(X, y, treatment=label).predict(X)
    high = X["x0"].to_numpy() > 0
    for place, arm in enumerate(ARMS):
        for group in (high, ~high):
            effect = y[group & (label == arm)].mean() - y[group & (label == "none")].mean()
            assert predicted[group, place] == pytest.approx(effect, abs=0.02)
    constant = MultiArm(ScoreOnly(lambda X: np.zeros(len(X))), control="none")
    constant.fit(X, y, treatment=label)
    effect = y[label == "b"].mean() - y[label == "none"].mean()
    assert constant.predict(X)[:, 1] == pytest.approx(np.full(len(y), effect))


def test_each_person_at_most_one_arm(rows, fitted):
    X = rows[0]
    scores = fitted.predict(X)
    pairs = fitted.rank_pairs(X, share=0.25)
    assert len(pairs) == 3000
    assert pairs["row"].is_unique
    assert pairs["score"].is_monotonic_decreasing
    place = pairs["arm"].map({"a": 0, "b": 1})
    assert np.array_equal(scores[pairs["row"], place], pairs["score"])
    assert np.array_equal(fitted.best_arm(X)[pairs["row"]], pairs["arm"])
    rest = np.setdiff1d(np.arange(len(X)), pairs["row"])
    assert scores[rest].max() <= pairs["score"].min()
    whole = fitted.rank_pairs(X)
    assert sorted(whole["row"]) == list(range(len(X)))
    assert fitted.rank_pairs(X, share=0).empty


def test_nobody_is_treated_below_the_minimum(rows, fitted):
    X = rows[0]
    scores = fitted.predict(X)
    bar = float(np.median(scores.max(axis=1)))
    arms = fitted.best_arm(X, minimum=bar)
    assert np.array_equal(arms == "none", scores.max(axis=1) <= bar)
    assert fitted.rank_pairs(X, minimum=bar)["row"].tolist() == [
        row for row in fitted.rank_pairs(X)["row"] if arms[row] != "none"
    ]


def test_the_score_is_the_mean_auuc_of_the_arms(fitted):
    X, y, label, _ = three_arms(1)
    scores = fitted.predict(X)
    auucs = []
    for place, arm in enumerate(ARMS):
        part = (label == arm) | (label == "none")
        auucs.append(auuc_score(y[part], scores[part, place], treatment=(label == arm)[part]))
    assert fitted.score(X, y, treatment=label) == pytest.approx(np.mean(auucs))


def test_an_arm_without_gain_has_the_same_effect_for_everybody(rows):
    X, y, label, _ = rows
    model = MultiArm(ScoreOnly(lambda X: -X["x0"]), control="none", random_state=0)
    model.fit(X, y, treatment=label)
    assert model.calibration_.slope[0] == 0
    assert model.predict(X)[:, 0] == pytest.approx(model.calibration_.effect[0])


def test_the_policy_is_judged_by_the_budget_curve(fitted):
    X, y, label, _ = three_arms(1)
    found = budget_curve(
        y, fitted.predict(X), treatment=label, control="none", arms=fitted.arms_,
        budget=[0, 0.4, 1],
    )  # fmt: skip
    pairs = fitted.rank_pairs(X, share=0.4)
    chosen = pd.Series("nothing", index=range(len(y)))
    chosen[pairs["row"]] = pairs["arm"].to_numpy()
    y = y - y.mean()
    expected = sum(
        (y * (chosen == arm))[label == arm].mean() - (y * (chosen == arm))[label == "none"].mean()
        for arm in ARMS
    )
    assert found.gain[1] == pytest.approx(expected, abs=1e-3)
    # Everybody gets the better arm: E max(effects) = (.2 + .12) / 2, more than either arm alone.
    assert found.gain[2] == pytest.approx(0.16, abs=4 * found.standard_error[2])
    assert found.gain[2] > 0.12


@pytest.mark.gate
def test_weights_are_copies(rows):
    X, y, label, _ = rows
    copies = np.random.default_rng(0).integers(1, 4, len(y))
    index = np.repeat(np.arange(len(y)), copies)
    new = MultiArm(TwoModels(), calibrate=None, control="none")
    weighted = clone(new).fit(X, y, treatment=label, sample_weight=copies)
    repeated = clone(new).fit(X.iloc[index], y[index], treatment=label[index])
    assert weighted.predict(X) == pytest.approx(repeated.predict(X), abs=1e-6)
    ours = weighted.score(X, y, treatment=label, sample_weight=copies)
    theirs = repeated.score(X.iloc[index], y[index], treatment=label[index])
    assert ours == pytest.approx(theirs, abs=1e-6)
    calibrated = MultiArm(TwoModels(), control="none", random_state=0)
    calibrated.fit(X, y, treatment=label, sample_weight=copies)
    effect = np.average(y[label == "a"], weights=copies[label == "a"]) - np.average(
        y[label == "none"], weights=copies[label == "none"]
    )
    assert calibrated.calibration_.effect[0] == pytest.approx(effect)


@pytest.mark.gate
def test_arrays_polars_numbers_seeds_and_clones():
    X, y, label, _ = three_arms(0, n=3000)
    number = pd.Series(label).map({"none": 0, "a": 2, "b": 10}).to_numpy()
    model = MultiArm(
        AUUCMax(control="none", random_state=3), random_state=3
    )  # its control gives way
    model.fit(X.to_numpy(), y, treatment=number)
    assert model.arms_ == (2, 10)
    scores = model.predict(X.to_numpy())
    assert clone(model).fit(X, y, treatment=number).predict(X) == pytest.approx(scores, abs=1e-9)
    frame = pl.DataFrame({c: X[c].to_numpy() for c in X})
    other = clone(model).fit(frame, y, treatment=number)
    assert other.predict(frame) == pytest.approx(scores, abs=1e-9)
    assert set(model.best_arm(X.to_numpy())) <= {2, 10}


def test_one_arm_is_the_estimator(rows):
    X, y, label, _ = rows
    part = label != "b"
    model = MultiArm(TwoModels(), calibrate=None, control="none")
    model.fit(X[part], y[part], treatment=label[part])
    alone = TwoModels(control="none").fit(X[part], y[part], treatment=label[part])
    assert np.array_equal(model.predict(X)[:, 0], alone.predict(X))
    assert model.score(X[part], y[part], treatment=label[part]) == alone.score(
        X[part], y[part], treatment=label[part]
    )


@pytest.mark.gate
def test_hillstrom_with_both_mails():
    train, test = load_hillstrom(arm="all").split(test_size=0.5, random_state=0)
    model = MultiArm(TwoModels(), control="No E-Mail", random_state=0)
    model.fit(train.X, train.y, treatment=train.treatment)
    assert model.arms_ == ("Mens E-Mail", "Womens E-Mail")
    rows = {"treatment": test.treatment}
    table = model.calibration_.set_index("arm")
    # The men's mail works for nearly all; the women's depends on whom it is sent to.
    assert table.effect["Mens E-Mail"] == pytest.approx(0.077, abs=0.015)
    assert table.effect["Womens E-Mail"] == pytest.approx(0.045, abs=0.015)
    assert model.calibration_.slope[1] > 2 * model.calibration_.slope[0]
    assert model.score(test.X, test.y, **rows) == pytest.approx(0.034, abs=0.006)
    # Averages of the predicted effects are the average effects of the training rows.
    assert model.predict(train.X).mean(axis=0) == pytest.approx(
        model.calibration_.effect.to_numpy(), abs=0.003
    )
    pairs = model.rank_pairs(test.X)
    arms = pairs["arm"].value_counts(normalize=True)
    assert arms["Mens E-Mail"] > 0.6
    women_only = (test.X["womens"] == 1) & (test.X["mens"] == 0)
    to_women = pairs.loc[pairs["arm"] == "Womens E-Mail", "row"]
    assert women_only.mean() < 0.5
    assert women_only.iloc[to_women].mean() > 0.75
    found = budget_curve(
        test.y, model.predict(test.X), control="No E-Mail", arms=model.arms_, budget=[0.3, 1.0],
        **rows,
    )  # fmt: skip
    assert found.gain[1] == pytest.approx(0.075, abs=0.015)
    assert 0.15 < found.gain[0] / found.gain[1] < 0.5
    assert (found.gain > 3 * found.standard_error).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"control": "nothing"}, "should hold the label of the control group, 'nothing'"),
        ({"control": None}, "should hold the label of the control group, 0, and"),
        ({"calibrate": "isotonic"}, "calibrate should be 'linear' or None, got 'isotonic'"),
    ],
)
def test_bad_parameters(rows, change, message):
    X, y, label, _ = rows
    model = MultiArm(TwoModels(), control="none").set_params(**change)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, treatment=label)


def test_bad_rows(rows, fitted):
    X, y, label, _ = rows
    new = MultiArm(TwoModels(), control="none")
    with pytest.raises(NotFittedError):
        new.predict(X)
    with pytest.raises(ValueError, match="y should have as many rows as X, 11999"):
        new.fit(X[:-1], y, treatment=label)
    with pytest.raises(ValueError, match="y should have no missing values"):
        new.fit(X, np.where(X["x0"] > 2, np.nan, y), treatment=label)
    with pytest.raises(ValueError, match="sample_weight should not be negative"):
        new.fit(X, y, treatment=label, sample_weight=-np.ones(len(y)))
    with pytest.raises(ValueError, match=r"arms that the model was fitted on, 'a', 'b'; got 'a'\."):
        fitted.score(X[label != "b"], y[label != "b"], treatment=label[label != "b"])
    with pytest.raises(ValueError, match="share should lie between 0 and 1"):
        fitted.rank_pairs(X, share=2)
    few = np.flatnonzero((label != "b") | (np.cumsum(label == "b") <= 1))
    with pytest.raises(ValueError, match="at least 2 rows, to be calibrated; got 1"):
        MultiArm(ScoreOnly(lambda X: X["x0"]), control="none").fit(
            X.iloc[few], y[few], treatment=label[few]
        )


def test_labels_keep_their_types():
    X, y, label, _ = three_arms(0, n=1500)
    mixed = pd.Series(label).map({"none": "none", "a": 1, "b": 2}).to_numpy(dtype=object)
    model = MultiArm(TwoModels(), calibrate=None, control="none").fit(X, y, treatment=mixed)
    best = model.best_arm(X, minimum=0.1)
    assert set(best) == {1, 2, "none"}
    assert best.dtype == object
    words = MultiArm(TwoModels(), calibrate=None, control="none").fit(X, y, treatment=label)
    assert words.best_arm(X).dtype.kind == "U"


@pytest.mark.gate
def test_a_seed_makes_all_of_it_deterministic():
    X, y, label, _ = three_arms(0, n=900)
    forest = RandomForestClassifier(n_estimators=3, max_depth=3)
    model = MultiArm(TwoModels(forest), control="none", random_state=0)
    first, again = (clone(model).fit(X, y, treatment=label).predict(X) for _ in range(2))
    assert np.array_equal(first, again)
    other = clone(model).set_params(random_state=1).fit(X, y, treatment=label).predict(X)
    assert not np.array_equal(first, other)
    assert model.estimator.estimator.random_state is None


@pytest.mark.gate
def test_pipelines():
    X, y, label, _ = three_arms(0, n=1500)
    weight = np.linspace(1, 2, len(y))
    pipeline = make_pipeline(RobustScaler(), TwoModels(control="none"))
    model = MultiArm(pipeline, control="none", random_state=0)
    model.fit(X, y, treatment=label, sample_weight=weight)
    plain = MultiArm(TwoModels(), control="none", random_state=0)
    plain.fit(X, y, treatment=label, sample_weight=weight)
    assert model.predict(X) == pytest.approx(plain.predict(X), abs=0.02)
    assert model.n_parameters_ == plain.n_parameters_ == 2 * 2 * 4
    assert pipeline[-1].control == "none"  # the user's own is left alone


def test_models_that_are_fitted_already_are_left_alone():
    X, y, label, _ = three_arms(0, n=1500)
    part = label != "b"
    fitted = TwoModels(control="none").fit(X[part], y[part], treatment=label[part])
    model = MultiArm(ScoreOnly(fitted), calibrate=None, control="none").fit(X, y, treatment=label)
    assert fitted.control == "none"
    assert np.array_equal(model.predict(X)[:, 1], fitted.predict(X))
    rule = MultiArm(ScoreOnly(lambda X: X["x0"]), calibrate=None, control="none")
    assert rule.fit(X, y, treatment=label).n_parameters_ is None


def test_scores_beyond_those_of_training_keep_their_order(fitted):
    """None of the first people is tied with the next: the model orders them, so the list does."""
    X, *_ = three_arms(5, n=400)
    X[:40] *= 8  # far outside
    for place, arm in enumerate(fitted.arms_):
        raw, effect = fitted.estimators_[arm].predict(X), fitted.predict(X)[:, place]
        if fitted._scales[arm].slope == 0:
            continue
        order = np.argsort(raw)
        assert (np.diff(effect[order])[np.diff(raw[order]) > 1e-6] > 0).all()
        scale = fitted._scales[arm]
        within = scale.effect + scale.slope * (np.array([0.0, 1.0]) - 0.5)
        assert within[0] <= effect.min() <= effect.max() <= within[1]
