import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.preprocessing import StandardScaler

from auucmax import auuc_score, load_hillstrom, make_trial
from auucmax.estimators import (
    DependentDataRepresentation,
    SharedDataRepresentation,
    TwoModels,
)


@pytest.fixture(scope="module")
def rows():
    trial = make_trial(3000, n_features=4, treatment_share=0.3, base_rate=0.3, random_state=0)
    return trial.X.to_numpy(np.float64), trial.y, trial.treatment


def stacked(X, t, scale, with_treatment):
    """The design of SDR, row by row."""
    zero = np.zeros(X.shape[1])
    made = [
        np.concatenate([x, scale * x if a else zero, zero if a else scale * x, [a]])
        for x, a in zip(X, t, strict=True)
    ]
    return np.array(made)[:, : None if with_treatment else -1]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("order", ["control-first", "treatment-first"])
def test_ddr_by_hand(rows, order, weighted):
    X, y, t = rows
    weight = np.random.default_rng(0).uniform(1, 2, len(y)) if weighted else None
    first_arm = t == (order == "treatment-first")

    def fit(features, arm):
        own = None if weight is None else weight[arm] / weight[arm].mean()
        return LogisticRegression().fit(features, y[arm], sample_weight=own)

    first = fit(X[first_arm], first_arm)
    z = first.predict_proba(X)[:, 1]
    second = fit(np.column_stack([X, z])[~first_arm], ~first_arm)
    gain = second.predict_proba(np.column_stack([X, z]))[:, 1] - z
    expected = gain if order == "control-first" else -gain
    model = DependentDataRepresentation(LogisticRegression(), order=order)
    model.fit(X, y, treatment=t, sample_weight=weight)
    assert model.predict(X) == pytest.approx(expected, abs=1e-12)
    assert model.n_parameters_ == 5 + 6


def test_the_first_model_never_sees_the_rows_of_the_second(rows):
    X, y, t = rows
    model, other = (
        DependentDataRepresentation().fit(X, outcome, treatment=t)
        for outcome in (y, np.where(t == 1, 1 - y, y))
    )
    assert np.array_equal(model.control_model_.coef_, other.control_model_.coef_)
    assert not np.allclose(model.treated_model_.coef_, other.treated_model_.coef_)


def test_ddr_of_least_squares_is_two_models(rows):
    X, y, t = rows
    model, two = (
        cls(LinearRegression()).fit(X, y, treatment=t)
        for cls in (DependentDataRepresentation, TwoModels)
    )
    assert model.predict(X) == pytest.approx(two.predict(X), abs=1e-9)


@pytest.mark.parametrize("treatment_column", [False, True])
@pytest.mark.parametrize("scale", [0.1, 1.0])
def test_sdr_is_scikit_learn_on_the_stacked_design(scale, treatment_column):
    train, test = load_hillstrom().split(random_state=0)
    t_train, t_test = ((part.treatment != part.control).astype(int) for part in (train, test))
    X, X_new = (part.X.to_numpy() / [*[1] * 18, 100, 1, 1, 1] for part in (train, test))
    X, y, t_train = X[:6000], train.y[:6000], t_train[:6000]
    base = LogisticRegression(solver="newton-cholesky")
    by_hand = base.fit(stacked(X, t_train, scale, treatment_column), y)
    treated, control = (
        by_hand.predict_proba(stacked(X_new, np.full(len(X_new), arm), scale, treatment_column))
        for arm in (1, 0)
    )
    expected = auuc_score(test.y, (treated - control)[:, 1], treatment=t_test)
    model = SharedDataRepresentation(base, arm_scale=scale, treatment_column=treatment_column)
    model.fit(X, y, treatment=t_train)
    found = auuc_score(test.y, model.predict(X_new), treatment=t_test)
    assert found == pytest.approx(expected, abs=1e-6)
    assert model.n_parameters_ == 67 + treatment_column


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("treatment_column", [False, True])
@pytest.mark.parametrize("scale", [0.1, 1.0])
def test_sdr_standardises_before_it_stacks(rows, scale, treatment_column, binary):
    X, y, t = rows
    X = X * [1, 10, 0.1, 3] + [0, 1, 2, 3]
    y = y if binary else y + X[:, 1]
    options = {"arm_scale": scale, "treatment_column": treatment_column}
    base = LogisticRegression(solver="newton-cholesky") if binary else LinearRegression()
    # Without the column, the shifts are what tells the levels of the arms apart.
    Z = StandardScaler(with_mean=treatment_column).fit_transform(X)
    expected = SharedDataRepresentation(base, **options).fit(Z, y, treatment=t).predict(Z)
    model = SharedDataRepresentation(**options).fit(X, y, treatment=t)
    assert model.predict(X) == pytest.approx(expected, abs=1e-9 * np.ptp(expected))
    by_hand = model.model_.intercept_ + stacked(X, t, scale, treatment_column) @ np.ravel(
        model.model_.coef_
    )
    if not binary:
        fitted = LinearRegression().fit(stacked(X, t, scale, treatment_column), y)
        expected = fitted.predict(stacked(X, t, scale, treatment_column))
        assert by_hand == pytest.approx(expected, abs=1e-8 * np.ptp(expected))


def test_sdr_without_the_treatment_column_takes_large_units():
    trial = make_trial(3000, n_features=4, ate=0.1, random_state=0)
    X = trial.X.to_numpy(np.float64)
    far = np.column_stack([X, 1.7e9 + 3e7 * np.random.default_rng(0).random(len(X))])
    plain, changed = (
        SharedDataRepresentation(treatment_column=False)
        .fit(rows, trial.y, treatment=trial.treatment).predict(rows)
        for rows in (X, far)
    )  # fmt: skip
    assert np.corrcoef(plain, changed)[0, 1] > 0.9


def test_prediction_goes_by_the_scale_of_the_fit(rows):
    X, y, t = rows
    model = SharedDataRepresentation(arm_scale=0.5).fit(X, y, treatment=t)
    before = model.predict(X)
    assert np.array_equal(model.set_params(arm_scale=5.0).predict(X), before)


def test_a_small_scale_pools_the_arms(rows):
    X, y, t = rows
    spreads = [
        np.std(SharedDataRepresentation(LogisticRegression(C=0.1), arm_scale=s)
               .fit(X, y, treatment=t).predict(X))
        for s in (1.0, 0.1, 1e-4)
    ]  # fmt: skip
    assert spreads[0] > spreads[1] > spreads[2]
    # Only an effect on the log-odds is left, none at all without its column.
    none = SharedDataRepresentation(arm_scale=1e-6, treatment_column=False)
    assert np.abs(none.fit(X, y, treatment=t).predict(X)).max() < 1e-6


def test_the_treatment_column_carries_an_effect_common_to_all():
    rng = np.random.default_rng(0)
    X, t = rng.normal(size=(4000, 3)), rng.random(4000) < 0.5
    y = (rng.random(4000) < np.where(t, 0.7, 0.3)).astype(float)
    with_column, without = (
        SharedDataRepresentation(treatment_column=column).fit(X, y, treatment=t).predict(X).mean()
        for column in (True, False)
    )
    assert with_column == pytest.approx(y[t].mean() - y[~t].mean(), abs=0.01)
    assert abs(without) < 0.1


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (DependentDataRepresentation(order="both"), "order should be one of"),
        (SharedDataRepresentation(arm_scale=0), "arm_scale should be a positive number, got 0"),
        (SharedDataRepresentation(arm_scale="1"), "arm_scale should be a positive number"),
        (SharedDataRepresentation(arm_scale=np.inf), "arm_scale should be a positive number"),
    ],
)
def test_bad_parameters(rows, model, message):
    X, y, t = rows
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, treatment=t)
