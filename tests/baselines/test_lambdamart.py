import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata

from auucmax import TrialKFold, auuc_inference, auuc_score, make_trial
from auucmax.baselines.lambdamart import (
    PromotedGainObjective,
    UpliftLambdaMART,
)


def pair_gradients_slow(y, treated, score):
    """Slow twin of :class:`PromotedGainObjective`: all pairs, without bins or weights."""
    n = len(y)
    relevance = np.where(treated, y / treated.sum(), -y / (~treated).sum())
    lead = relevance[:, None] - relevance  # (n, n): row's relevance minus the column's
    tied = score[:, None] == score
    rank = rankdata(score)
    gap = np.where(tied, (tied.sum(axis=1) + 1) / 3, np.abs(rank[:, None] - rank))
    delta = np.abs(lead) * gap * 12 * n / ((n + 1) * np.abs(lead).sum())
    with np.errstate(over="ignore"):
        wrong = 1 / (1 + np.exp(np.sign(lead) * (score[:, None] - score)))
    return -(delta * np.sign(lead) * wrong).sum(1), (delta * wrong * (1 - wrong)).sum(1)


def score_rows(seed, n, *, levels=None, share=0.5, rate=0.4):
    """Rows of a trial with both arms and both outcomes; ``levels``: that many tied scores."""
    rng = np.random.default_rng(seed)
    treated = rng.random(n) < share
    y = (rng.random(n) < rate).astype(float)
    treated[:2], y[:2] = (True, False), (1, 0)
    score = 2 * rng.normal(size=n)
    return y, treated, score if levels is None else rng.integers(levels, size=n).astype(float)


def promoted_gain(y, score, treated):
    """PCG by its definition; tied ranks are averaged."""
    relevance = np.where(treated, y / treated.sum(), -y / (~treated).sum())
    return relevance @ rankdata(score)


sizes = st.integers(3, 40)
ties = st.sampled_from([None, 1, 2, 5])


@given(seed=st.integers(0, 10_000), n=sizes, levels=ties)
@settings(deadline=None)
def test_gain_is_auuc_in_other_units(seed, n, levels):
    y, treated, score = score_rows(seed, n, levels=levels)
    effect = y[treated].mean() - y[~treated].mean()
    auuc = auuc_score(y, score, treatment=treated)
    gain = promoted_gain(y, score, treated)
    assert gain == pytest.approx(n * auuc + effect / 2, abs=1e-12)


@given(seed=st.integers(0, 10_000), n=sizes, levels=ties, share=st.sampled_from([0.15, 0.5]))
@settings(deadline=None)
def test_one_row_a_bin_is_exact(seed, n, levels, share):
    y, treated, score = score_rows(seed, n, levels=levels, share=share)
    fast = PromotedGainObjective(y, treated, n_bins=n)(score)
    for ours, expected in zip(fast, pair_gradients_slow(y, treated, score), strict=True):
        assert ours == pytest.approx(expected, abs=1e-10 * np.abs(expected).max() + 1e-300)


@given(seed=st.integers(0, 10_000))
@settings(deadline=None, max_examples=20)
def test_fewer_bins_are_near(seed):
    y, treated, score = score_rows(seed, 600, share=0.4)
    exact = pair_gradients_slow(y, treated, score)
    top = score > np.median(score)
    for n_bins in (15, 60, 240):
        fast = PromotedGainObjective(y, treated, n_bins=n_bins)(score)
        for ours, expected in zip(fast, exact, strict=True):
            # A row's error is of the order of a bin's width; in sums, as trees take them, errors
            # partly cancel.
            assert np.abs(ours - expected).mean() < 1.2 / n_bins * np.abs(expected).mean()
            total = abs((ours - expected)[top].sum())
            assert total < 0.6 / n_bins * np.abs(expected[top]).sum()


@pytest.mark.parametrize("levels", [None, 6])
def test_gradients_are_those_of_the_loss_with_ranks_fixed(levels):
    """An independent check of the slow twin, by differences."""
    n, step = 25, 1e-5
    y, treated, score = score_rows(3, n, levels=levels)
    relevance = np.where(treated, y / treated.sum(), -y / (~treated).sum())
    places = np.empty(n)
    gap = np.zeros((n, n))
    rng = np.random.default_rng(0)
    for _ in range(4000 if levels else 1):  # ties in random order
        places[np.lexsort((rng.random(n), score))] = np.arange(n)
        gap += np.abs(places[:, None] - places)
    gap /= 4000 if levels else 1
    pairs = [(a, b) for a in range(n) for b in range(n) if relevance[a] > relevance[b]]
    weight = {(a, b): (relevance[a] - relevance[b]) * gap[a, b] for a, b in pairs}
    scale = 12 * n / ((n + 1) * 2 * sum(relevance[a] - relevance[b] for a, b in pairs))

    def loss(s):
        return scale * sum(weight[a, b] * np.log1p(np.exp(s[b] - s[a])) for a, b in pairs)

    gradient, hessian = pair_gradients_slow(y, treated, score)
    tolerance = 0.02 if levels else 1e-4
    for i in range(0, n, 4):
        move = step * (np.arange(n) == i)
        up, here, down = loss(score + 1e3 * move), loss(score), loss(score - 1e3 * move)
        slope = (loss(score + move) - loss(score - move)) / (2 * step)
        curvature = (up - 2 * here + down) / (1e3 * step) ** 2
        assert gradient[i] == pytest.approx(slope, rel=tolerance, abs=tolerance)
        assert hessian[i] == pytest.approx(curvature, rel=tolerance, abs=tolerance)


def test_weights_are_copies_and_order_does_not_matter():
    y, treated, score = score_rows(5, 300, levels=90)
    rng = np.random.default_rng(0)
    copies = rng.integers(1, 4, 300)
    index = np.repeat(np.arange(300), copies)
    for n_bins in (300, 20):
        weighted = PromotedGainObjective(y, treated, copies.astype(float), n_bins)(score)
        repeated = PromotedGainObjective(y[index], treated[index], None, n_bins)(score[index])
        order = rng.permutation(300)
        shuffled = PromotedGainObjective(
            y[order], treated[order], copies[order].astype(float), n_bins
        )(score[order])
        for a, b, c in zip(weighted, repeated, shuffled, strict=True):
            assert a == pytest.approx(np.bincount(index, weights=b), rel=1e-9)
            assert a[order] == pytest.approx(c, rel=1e-9)


def test_scale_and_far_scores():
    y, treated, _ = score_rows(6, 400)
    objective = PromotedGainObjective(y, treated)
    gradient, hessian = objective(np.zeros(400))
    assert hessian.sum() == pytest.approx(400)
    assert gradient.sum() == pytest.approx(0, abs=1e-9)
    assert gradient[treated & (y == 1)].max() < 0 < gradient[~treated & (y == 1)].min()
    # Scores that are far apart, and right: nothing is left to do.
    relevance = np.where(treated, y, -y)
    gradient, hessian = objective(1e6 * relevance)
    assert np.abs(gradient).max() < 1e-9
    assert hessian.min() >= 0
    assert np.isfinite(objective(-1e6 * relevance)[0]).all()


pytest.importorskip("lightgbm", reason="needs the extra lightgbm")

GAINS = ("pcg", "ndcg")
SMALL = {"n_trees": 8, "early_stopping": None, "group_size": 200, "n_jobs": 1}


def trial(seed, n_rows=3000, **options):
    usual = {"n_features": 5, "n_noise": 1, "base_rate": 0.3, "ate": 0.1, "heterogeneity": 1.0}
    return make_trial(n_rows, random_state=seed, **(usual | options))


@pytest.fixture(scope="module")
def rows():
    made = trial(0)
    return made.X.to_numpy(np.float64), made.y, made.treatment


@pytest.mark.parametrize("gain", GAINS)
@pytest.mark.parametrize("nonlinearity", [0.0, 1.0])
def test_beats_random(gain, nonlinearity):
    train, test = (trial(seed, 6000, nonlinearity=nonlinearity) for seed in (0, 1))
    model = UpliftLambdaMART(gain, n_trees=40, early_stopping=None, group_size=200)
    model.set_params(random_state=0, n_jobs=1).fit(train.X, train.y, treatment=train.treatment)
    result = auuc_inference(test.y, model.predict(test.X), treatment=test.treatment)
    assert result.gain > 3 * result.gain_standard_error


@pytest.mark.parametrize("gain", GAINS)
def test_count_of_parameters(rows, gain):
    X, y, t = rows
    model = UpliftLambdaMART(gain, n_leaves=3, **SMALL).fit(X, y, treatment=t)
    assert model.n_trees_ == 8
    assert model.n_parameters_ == 8 * (3 + 2)
    assert model.validation_auuc_ is None
    frame = model.booster_.trees_to_dataframe()
    assert len(frame) == model.n_parameters_


@pytest.mark.gate_cases("pcg")
@pytest.mark.parametrize("gain", GAINS)
def test_early_stopping(rows, gain):
    X, y, t = rows
    model = UpliftLambdaMART(
        gain, n_trees=25, patience=3, group_size=200, n_jobs=1, random_state=0
    ).fit(X, y, treatment=t)  # fmt: skip
    path = model.validation_auuc_
    assert model.n_trees_ == np.argmax(path) + 1
    assert len(path) == min(25, model.n_trees_ + 3)
    alone = UpliftLambdaMART(
        gain, n_trees=model.n_trees_, early_stopping=None, group_size=200, n_jobs=1
    )
    if gain == "pcg":  # the model is that of all rows with so many trees
        assert np.array_equal(alone.fit(X, y, treatment=t).predict(X), model.predict(X))


def test_the_path_is_auuc_of_rows_that_were_left_out(rows):
    """By hand: the folds' models, fitted on their own, score the held-out rows."""
    X, y, t = rows
    model = UpliftLambdaMART(n_trees=4, patience=9, n_jobs=1, random_state=7).fit(X, y, treatment=t)
    rng = np.random.default_rng(7)
    rng.integers(2**31 - 1)
    folds = TrialKFold(5, by="treatment-outcome", random_state=rng).split(X, y, treatment=t)
    by_hand = [
        UpliftLambdaMART(n_trees=4, early_stopping=None, n_jobs=1)
        .fit(X[train], y[train], treatment=t[train])
        .score(X[test], y[test], treatment=t[test])
        for train, test in folds
    ]
    assert model.validation_auuc_[3] == pytest.approx(np.mean(by_hand), abs=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gain": "map"}, "gain should be one of 'pcg', 'ndcg', got 'map'"),
        ({"early_stopping": True}, "early_stopping should be 'cv' or None, got True"),
        ({"n_trees": 0}, "n_trees should be a whole number of at least 1, got 0"),
        ({"n_leaves": 1}, "n_leaves should be a whole number from 2"),
        ({"group_size": 10_001}, "group_size should be a whole number from 2 to 10000"),
        ({"learning_rate": -0.1}, "learning_rate should be a positive number, got -0.1"),
        ({"learning_rate": None}, "learning_rate should be a positive number, got None. 0.05 is"),
        ({"min_leaf_share": 2}, "min_leaf_share should be a number strictly between 0 and 1"),
        ({"n_jobs": 0}, "n_jobs should be a whole number of at least 1, got 0"),
    ],
)
def test_bad_parameters(rows, change, message):
    X, y, t = rows
    with pytest.raises(ValueError, match=message):
        UpliftLambdaMART(**change).fit(X, y, treatment=t)


def test_too_few_rows_to_stop_early(rows):
    X, y, t = rows
    keep = (y == 0) | (t == 0)
    keep[np.flatnonzero((y == 1) & (t == 1))[0]] = True
    with pytest.raises(ValueError, match="at least 2 rows of each outcome for early stopping"):
        UpliftLambdaMART().fit(X[keep], y[keep], treatment=t[keep])
    UpliftLambdaMART(**SMALL).fit(X[keep], y[keep], treatment=t[keep])
