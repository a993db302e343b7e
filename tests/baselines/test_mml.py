import numpy as np
import pytest
from scipy.special import expit

from auucmax import auuc_inference, make_trial
from auucmax.baselines import MinimaxLinear
from auucmax.baselines.mml import SeparateLabels, minimax_linear
from auucmax.estimators import TransformedOutcome


@pytest.fixture(scope="module")
def rows():
    trial = make_trial(2000, n_features=4, heterogeneity=0.8, base_rate=0.3, random_state=0)
    return trial.X.to_numpy(np.float64), trial.y, trial.treatment


def separate_samples(n_rows, seed, sizes=(0.5, 0.5)):
    """Two policies whose treatment depends on x; effect 1 + x0 - 2 x1; no row has both labels."""
    rng = np.random.default_rng(seed)

    def draw(share):
        X, policy = rng.normal(size=(n_rows, 3)), rng.random(n_rows) < share
        t = rng.random(n_rows) < np.where(policy, expit(1 + X[:, 2]), expit(-1 + 0.5 * X[:, 0]))
        y = X[:, 2] + t * (1 + X[:, 0] - 2 * X[:, 1]) + rng.normal(size=n_rows)
        return X, y, t, policy

    X, y, _, policy = draw(sizes[0])
    outcomes = SeparateLabels(X, y, policy, np.ones(n_rows))
    X, _, t, policy = draw(sizes[1])
    return outcomes, SeparateLabels(X, t, policy, np.ones(n_rows))


@pytest.mark.parametrize("sizes", [(0.5, 0.5), (0.2, 0.7)])
def test_it_recovers_the_effect_from_truly_separate_labels(sizes):
    found = np.array(
        [minimax_linear(*separate_samples(20_000, seed, sizes), r_f=0, r_g=0).alpha
         for seed in range(12)]
    )  # fmt: skip
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    assert (error < 0.1).all()
    assert np.abs(found.mean(axis=0) - [1, -2, 0, 1]).max() < 3.5 * error.max()
    # More rows, less error.
    few = [minimax_linear(*separate_samples(1250, seed, sizes)).alpha for seed in range(12)]
    truth = [1, -2, 0, 1]
    assert np.mean((found - truth) ** 2) < np.mean((np.array(few) - truth) ** 2) / 4


@pytest.mark.parametrize(("r_f", "r_g"), [(0.01, 0.01), (1.0, 0.1), (0.0, 0.0)])
def test_the_solution_is_a_saddle_point(r_f, r_g):
    outcomes, treatments = separate_samples(500, 0)
    found = minimax_linear(outcomes, treatments, r_f=r_f, r_g=r_g)

    def criterion(alpha, beta):
        def mean(sample, values):
            return (values[sample.policy].mean() + values[~sample.policy].mean()) / 2

        g_y = outcomes.X @ beta[:-1] + beta[-1]
        f_t, g_t = (treatments.X @ c[:-1] + c[-1] for c in (alpha, beta))
        z = np.where(outcomes.policy, 1, -1) * outcomes.label
        w = np.where(treatments.policy, 1, -1) * (2 * treatments.label - 1)
        squares = (mean(outcomes, g_y**2) + mean(treatments, g_t**2)) / 2
        penalty = r_f * alpha[:-1] @ alpha[:-1] - r_g * beta[:-1] @ beta[:-1]
        return 2 * mean(treatments, w * f_t * g_t) - 4 * mean(outcomes, z * g_y) - squares + penalty

    here = criterion(found.alpha, found.beta)
    for step in np.random.default_rng(0).normal(size=(20, 4)) * 0.1:
        assert criterion(found.alpha, found.beta + step) <= here + 1e-12
        assert criterion(found.alpha + step, found.beta) >= here - 1e-9


def test_weights_equal_repetition_and_policies_count_equally():
    outcomes, treatments = separate_samples(300, 1)
    rng = np.random.default_rng(0)
    copies = [rng.integers(1, 4, 300) for _ in range(2)]
    weighted = minimax_linear(
        *(s._replace(weight=c) for s, c in zip((outcomes, treatments), copies, strict=True))
    )
    repeated = minimax_linear(
        *(
            SeparateLabels(*(np.repeat(column, c, axis=0) for column in s))
            for s, c in zip((outcomes, treatments), copies, strict=True)
        )
    )
    assert weighted.alpha == pytest.approx(repeated.alpha, abs=1e-9)
    plain = minimax_linear(outcomes, treatments)
    twice = SeparateLabels(*(np.append(c, c[outcomes.policy], axis=0) for c in outcomes))
    assert minimax_linear(twice, treatments).alpha == pytest.approx(plain.alpha, abs=1e-9)


def test_joint_design_without_regularisation_is_the_transformed_outcome(rows):
    X, y, t = rows
    assert t.mean() == 0.5
    model = MinimaxLinear(design="joint", r_f=0, r_g=0).fit(X, y, treatment=t)
    regression = TransformedOutcome().fit(X, y, treatment=t)
    assert model.predict(X) == pytest.approx(regression.predict(X), abs=1e-9)
    assert model.n_parameters_ == 2 * regression.n_parameters_


@pytest.mark.parametrize("design", ["pure-arms", "joint"])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_it_ranks(design, share):
    train, test = (
        make_trial(
            20_000, treatment_share=share, heterogeneity=1.0, base_rate=0.4, random_state=seed
        )
        for seed in (0, 1)
    )
    model = MinimaxLinear(design=design, random_state=0)
    model.fit(train.X, train.y, treatment=train.treatment)
    result = auuc_inference(test.y, model.predict(test.X), treatment=test.treatment)
    assert result.gain > 3 * result.gain_standard_error


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"design": "thinned"}, "design should be one of"),
        ({"r_f": -1}, "r_f should be a number of at least 0"),
        ({"r_g": []}, "r_g should be a number of at least 0"),
        ({"r_g": "small"}, "r_g should be a number of at least 0"),
        ({"scale": "standard"}, "scale should be one of"),
    ],
)
def test_bad_parameters(rows, parameters, message):
    X, y, t = rows
    with pytest.raises(ValueError, match=message):
        MinimaxLinear(**parameters).fit(X, y, treatment=t)


def test_too_few_rows_to_part_the_labels():
    with pytest.raises(ValueError, match="each arm should have at least 2 rows"):
        MinimaxLinear().fit(np.eye(4), [0, 1, 1, 0], treatment=[1, 0, 0, 0])
