import numpy as np
import pytest

from auucmax import AUUCMax, auuc_inference, make_trial
from auucmax.estimators.scaling import SCALES
from auucmax.pairs import PairObjective, s_poly


def scaled(X, kind):
    """The scalings, written out."""
    if kind == "min-max":
        return (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))
    if kind == "column-l2":
        return X / np.linalg.norm(X, axis=0)
    return X / np.linalg.norm(X, axis=1, keepdims=True) if kind == "unit-rows" else X


@pytest.mark.parametrize("scale", SCALES)
def test_it_minimises_the_objective_of_the_scaled_features_over_the_ball(rows, scale):
    X, y, t = rows
    Z = scaled(X, scale)
    objective = PairObjective(Z, y, treatment=t, surrogate=s_poly(1.0))
    free = AUUCMax(s_poly(1.0), scale=scale, selection=None).fit(X, y, treatment=t)
    norm = 0.3 * np.linalg.norm(free.scaled_coef_)
    model = AUUCMax(s_poly(1.0), scale=scale, selection=None, norm=norm).fit(X, y, treatment=t)
    assert model.converged_
    assert model.residual_ < 1e-6
    assert np.linalg.norm(model.scaled_coef_) == pytest.approx(norm, rel=1e-6)
    assert model.radius_ == pytest.approx(np.linalg.norm(Z, axis=1).max())
    # No other point of the sphere is better, and the scores are those of the scaled features.
    best = objective.value(model.scaled_coef_)
    rng = np.random.default_rng(0)
    for step in rng.normal(size=(20, 6)):
        other = model.scaled_coef_ + 0.1 * norm * step / np.linalg.norm(step)
        assert objective.value(other * min(1, norm / np.linalg.norm(other))) >= best - 1e-12
    assert model.predict(X) == pytest.approx(Z @ model.scaled_coef_, abs=1e-9 * norm)


def test_the_same_seed_gives_the_same_model(rows):
    X, y, t = rows
    adam = {"solver": "adam", "selection": "bound", "grid": [0.5], "learning_rates": [1e-3]}
    for options in ({}, adam):
        a, b = (
            AUUCMax(random_state=3, **options).fit(X[:1500], y[:1500], treatment=t[:1500])
            for _ in range(2)
        )
        assert np.array_equal(a.coef_, b.coef_)
        assert a.selection_path_.drop(columns="seconds").equals(
            b.selection_path_.drop(columns="seconds")
        )


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"selection": "magic"}, "selection should be 'bound', 'cv', 'certificate' or None"),
        ({"scale": "z-score"}, "scale should be one of 'min-max'"),
        ({"solver": "sgd"}, "solver should be one of 'auto'"),
        ({"norm": -1.0, "selection": None}, "norm should be a positive number or None"),
        ({"grid": "fine"}, "grid should be one of 'relative'"),
        ({"grid": []}, "grid should be 'relative', 'paper' or positive norms"),
        ({"grid": 0.5}, "grid should be 'relative'"),
        ({"norm": 0.5}, "norm should be None while selection='cv' chooses it"),
        ({"learning_rates": [-1.0]}, "learning_rates should be positive numbers"),
        ({"delta": 2.0}, "delta should be a number strictly between"),
        ({"weights": "equal"}, "weights should be 'lambda'"),
        ({"surrogate": "square"}, "surrogate"),
    ],
)
def test_bad_parameters(rows, parameters, message):
    X, y, t = rows
    with pytest.raises(ValueError, match=message):
        AUUCMax(**parameters).fit(X, y, treatment=t)


def test_outcomes_that_cannot_be_ranked(rows):
    X, y, t = rows
    with pytest.raises(ValueError, match="each arm should have both outcomes"):
        AUUCMax().fit(X, y * t, treatment=t)
    with pytest.raises(ValueError, match="y should have two levels, got 3 in all rows"):
        AUUCMax().fit(X, np.full(len(y), 3.0), treatment=t)
    with pytest.raises(ValueError, match="each arm should have different outcomes"):
        AUUCMax().fit(X, np.arange(len(y)) * t, treatment=t)
    with pytest.raises(ValueError, match="at least 2 rows of each outcome"):
        AUUCMax().fit(X, np.where(np.arange(len(y)) == np.flatnonzero(t == 0)[0], 5.0, 7.0 * t * y),
                      treatment=t)  # fmt: skip
    with pytest.raises(ValueError, match="so that squares are finite"):
        AUUCMax().fit(X, y * 1e300, treatment=t)
    for selection in ("bound", "certificate"):
        with pytest.raises(ValueError, match=r"0 or 1 with selection=.* Use selection='cv'"):
            AUUCMax(selection=selection).fit(X, 2.0 * y, treatment=t)


def test_more_features_than_rows_and_many_features():
    rng = np.random.default_rng(0)
    X, (y, t) = rng.normal(size=(150, 600)), rng.integers(0, 2, (2, 150))
    model = AUUCMax(selection="bound", grid=[0.001, 0.01]).fit(X, y, treatment=t)
    assert np.isfinite(model.coef_).all()
    assert (model.selection_path_["norm_reached"] <= model.selection_path_["norm"] * 1.000001).all()


def test_rows_of_weight_zero_are_no_rows(rows):
    X, y, t = rows
    X = X.copy()
    X[5] = 1e4  # an extreme row that does not count
    weight = np.ones(len(y))
    weight[[5, 9]] = 0
    kept = weight > 0
    for surrogate in ("s_poly", "s_log", "sigmoid"):
        options = {"surrogate": surrogate, "selection": "bound", "grid": [0.01, 0.1]}
        zero = AUUCMax(**options).fit(X, y, treatment=t, sample_weight=weight)
        without = AUUCMax(**options).fit(X[kept], y[kept], treatment=t[kept])
        assert zero.coef_ == pytest.approx(without.coef_, rel=1e-9)
        objective = PairObjective(X, y, treatment=t, surrogate=surrogate, sample_weight=weight)
        assert np.isfinite(objective.hessian(0.001 * np.ones(6))).all()


def money(trial, seed=0):
    """Who responds spends a skewed amount; the outcome is what they spend."""
    rng = np.random.default_rng(seed)
    return np.where(trial.y == 1, rng.lognormal(3.0, 1.0, len(trial.y)).round(2), 0.0)


def cosine(one, other):
    a, b = one.scaled_coef_, other.scaled_coef_
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def test_it_ranks_by_money():
    """The effect on what people spend is told, to three standard errors, by rows left out."""
    big = make_trial(20_000, n_features=5, heterogeneity=1.0, base_rate=0.3, random_state=1)
    train, test = big.split(random_state=0)
    model = AUUCMax(random_state=0).fit(train.X, money(train), treatment=train.treatment)
    assert model.converged_
    assert model.paper_bound_ is None
    assert 0.98 < model.gap_share_ < 1
    result = auuc_inference(money(test, 1), model.predict(test.X), treatment=test.treatment)
    assert result.gain > 3 * result.gain_standard_error
    # Amounts are noise here, so the ranking is near that by responses.
    responses = AUUCMax(random_state=0).fit(train.X, train.y, treatment=train.treatment)
    assert cosine(model, responses) > 0.8
    assert responses.gap_share_ == 1


def test_one_order_does_not_decide_a_ranking(rows, trial):
    """An order ten times as large as the largest, of the treated person who is extreme in X."""
    X, _, t = rows
    spend = money(trial)
    usual = AUUCMax(selection=None).fit(X, spend, treatment=t)
    spend[np.argmax(X[:, 0] * (t == 1))] = 10 * spend.max()
    assert cosine(AUUCMax(selection=None).fit(X, spend, treatment=t), usual) > 0.98
