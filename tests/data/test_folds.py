import numpy as np
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV, cross_validate

from auucmax.data.folds import TrialKFold, make_strata


def rows(n=203, seed=0, arms=("none", "mail")):
    rng = np.random.default_rng(seed)
    t = rng.choice(arms, n)
    y = (rng.random(n) < 0.4).astype(float)
    return rng.normal(size=(n, 2)), y, t


@given(
    n_splits=st.integers(2, 6),
    by=st.sampled_from(["treatment", "treatment-outcome"]),
    n_arms=st.integers(2, 4),
    seed=st.integers(0, 10**6),
)
@settings(deadline=None, max_examples=40)
def test_folds_part_the_rows_in_equal_shares(n_splits, by, n_arms, seed):
    X, y, t = rows(seed=seed, arms=("d", "a", "c", "b")[:n_arms])
    folds = TrialKFold(n_splits, by=by, random_state=seed)
    tests = []
    for train, test in folds.split(X, y, treatment=t):
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(len(y)))
        assert (np.diff(test) > 0).all()
        assert (np.diff(train) > 0).all()
        tests.append(test)
    assert len(tests) == n_splits == folds.get_n_splits()
    np.testing.assert_array_equal(np.sort(np.concatenate(tests)), np.arange(len(y)))
    sizes = [len(test) for test in tests]
    assert max(sizes) - min(sizes) <= 1
    cells = [f"{a}{b}" for a, b in zip(t, y, strict=True)] if by != "treatment" else t
    cells = np.asarray(cells)
    for cell in np.unique(cells):
        counts = [(cells[test] == cell).sum() for test in tests]
        assert max(counts) - min(counts) <= 1


def test_folds_follow_the_seed():
    X, y, t = rows()

    def fold_lists(**settings):
        splitter = TrialKFold(3, **settings)
        return [test.tolist() for _, test in splitter.split(X, y, treatment=t)]

    assert fold_lists(random_state=1) == fold_lists(random_state=1)
    assert fold_lists(random_state=1) != fold_lists(random_state=2)
    generator = fold_lists(random_state=np.random.default_rng(1))
    assert generator == fold_lists(random_state=1)
    splitter = TrialKFold(3, random_state=4)
    first, second = ([b.tolist() for _, b in splitter.split(X, treatment=t)] for _ in range(2))
    assert first == second


def test_strata_of_a_continuous_outcome():
    y = np.concatenate([np.zeros(50), np.arange(1, 61), -np.arange(1, 31)])
    t = np.tile([0, 1], 70)
    strata = make_strata(t, y, by="treatment-outcome")
    per_level = np.bincount(strata).reshape(2, 4).sum(axis=0)
    assert per_level.tolist() == [50, 30, 30, 30]
    lowest = np.isin(strata, [1, 5])
    assert y[lowest].max() < y[~lowest & (y != 0)].min()
    # Two values of any kind are two classes, and an arm may lack one of them.
    strata = make_strata([0, 0, 1, 1], [-1, 3, -1, -1], by="treatment-outcome")
    assert strata.tolist() == [0, 1, 2, 2]


class Difference(BaseEstimator):
    """Learns the effect plus a shift; its score fails unless both arms are in the fold."""

    __metadata_request__fit = {"treatment": True}  # noqa: RUF012
    __metadata_request__score = {"treatment": True}  # noqa: RUF012

    def __init__(self, shift=0.0):
        self.shift = shift

    def fit(self, X, y, *, treatment):
        self.effect_ = y[treatment == 1].mean() - y[treatment == 0].mean() + self.shift
        return self

    def score(self, X, y, *, treatment):
        effect = y[treatment == 1].mean() - y[treatment == 0].mean()
        return -abs(self.effect_ - effect)


def test_metadata_routing_needs_no_request_from_the_user():
    X, y, t = rows()
    t = (t == "mail").astype(int)
    folds = TrialKFold(4, by="treatment-outcome", random_state=0)
    with sklearn.config_context(enable_metadata_routing=True):
        result = cross_validate(Difference(), X, y, cv=folds, params={"treatment": t})
        search = GridSearchCV(Difference(), {"shift": [0.0, 5.0]}, cv=folds)
        search.fit(X, y, treatment=t)
    expected = []
    for train, test in folds.split(X, y, treatment=t):
        model = Difference().fit(X[train], y[train], treatment=t[train])
        expected.append(model.score(X[test], y[test], treatment=t[test]))
    np.testing.assert_allclose(result["test_score"], expected)
    assert search.best_params_ == {"shift": 0.0}
    assert search.n_splits_ == 4
