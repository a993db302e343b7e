import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.metrics.reference import bootstrap
from tests.strategies import small_trials

from auucmax import load_hillstrom
from auucmax.metrics.functions import (
    pehe,
    policy_risk,
    policy_risk_inference,
    uplift_at_k,
)


def by_hand(y, picked, treated):
    q = picked.mean()
    a = y[picked & treated].mean() if (picked & treated).any() else 0
    b = y[~picked & ~treated].mean() if (~picked & ~treated).any() else 0
    return 1 - (q * a + (1 - q) * b)


@settings(deadline=None, max_examples=100)
@given(small_trials())
def test_sign_rule_and_untied_shares_by_hand(rows):
    risk = policy_risk(rows.y, rows.score, treatment=rows.treated)
    assert risk == pytest.approx(by_hand(rows.y, rows.score > 0, rows.treated), abs=1e-12)
    for threshold in np.unique(rows.score):
        picked = rows.score >= threshold
        at_share = policy_risk(rows.y, rows.score, treatment=rows.treated, share=picked.mean())
        assert at_share == pytest.approx(by_hand(rows.y, picked, rows.treated), abs=1e-9)


@settings(deadline=None, max_examples=100)
@given(small_trials(), st.floats(0, 1), st.booleans())
def test_weighted_risk_equals_its_slow_twin(rows, share, at_knot):
    """Each row's part in the top share, row by row; copies stand for weights."""
    w = rows.weight
    if at_knot:
        share = w[rows.score >= rows.score[0]].sum() / w.sum()
    part = np.empty(len(w))
    for i in range(len(w)):
        above, level = w[rows.score > rows.score[i]].sum(), w[rows.score == rows.score[i]].sum()
        part[i] = np.clip((share * w.sum() - above) / level, 0, 1)
    value = 0.0
    for q, inside in ((share, part * rows.treated), (1 - share, (1 - part) * ~rows.treated)):
        if (inside * w).sum() > 1e-9:
            value += q * np.average(rows.y, weights=inside * w)
    risk = policy_risk(
        rows.y, rows.score, treatment=rows.treated, share=share, sample_weight=rows.weight
    )
    assert risk == pytest.approx(1 - value, abs=1e-5)
    copies = np.repeat(np.arange(len(w)), w.astype(int))
    by_sign = policy_risk(rows.y, rows.score, treatment=rows.treated, sample_weight=w)
    repeated = by_hand(rows.y[copies], rows.score[copies] > 0, rows.treated[copies])
    assert by_sign == pytest.approx(repeated, abs=1e-12)


def test_rounding_of_a_share_does_not_conjure_people():
    y, score = np.zeros(10), np.arange(10.0)[::-1]
    t = np.isin(np.arange(10), (3, 7))
    y[3] = 1
    for three_tenths in (0.3, 0.1 * 3, 0.1 + 0.2):
        assert policy_risk(y, score, treatment=t, share=three_tenths) == 1.0
        assert np.isnan(uplift_at_k(y, score, treatment=t, share=three_tenths))


def test_nobody_and_everybody_on_hillstrom():
    trial = load_hillstrom()
    risk = policy_risk(trial.y, trial.X["history"], treatment=trial.treatment, share=[0, 1])
    assert risk == pytest.approx([1 - 0.106167, 1 - 0.151400], abs=1e-6)


def test_only_randomised_rows_count():
    rng = np.random.default_rng(0)
    y, score, t = rng.random(60), rng.normal(size=60), rng.random(60) < 0.5
    e = np.arange(60) < 40
    some = policy_risk(y, score, treatment=t, share=0.3, randomised=e)
    assert some == policy_risk(y[:40], score[:40], treatment=t[:40], share=0.3)
    with pytest.raises(ValueError, match="be of both arms"):
        policy_risk(y, score, treatment=t, randomised=np.zeros(60))


def test_pehe():
    assert pehe([1, 2], [1, 4]) == pytest.approx(2**0.5)
    assert pehe([1, 2], [1, 4], squared=True) == 2
    with pytest.raises(ValueError, match="as many rows"):
        pehe([1, 2], [1, 4, 3])


def steep(n, levels=None, seed=0):
    """Outcomes that follow the score: most of the risk's variance is then that of the cut."""
    rng = np.random.default_rng(seed)
    score = rng.random(n)
    if levels:
        score = np.floor(score * levels) / levels
    t = rng.random(n) < 0.7
    return 4 * score + t * score**2 + 0.3 * rng.normal(size=n), score - 0.4, t, rng


@pytest.mark.gate
@pytest.mark.parametrize("share", [0.2, 0.5, None])
@pytest.mark.parametrize("kind", ["plain", "tied", "weighted", "clustered"])
def test_standard_errors_agree_with_the_bootstrap(kind, share):
    y, score, t, rng = steep(1500, levels=3 if kind == "tied" else None)
    options = {"share": share}
    if kind == "weighted":
        options["sample_weight"] = 0.5 + rng.random(1500)
        options["propensity"] = rng.uniform(0.5, 0.9, 1500)
    if kind == "clustered":  # households of three, treated together and alike
        y, score, t = (np.repeat(v[::3], 3) for v in (y, score, t))
        options["groups"] = np.repeat(np.arange(500), 3)
    result = policy_risk_inference(y, score, treatment=t, **options)
    draws = bootstrap(policy_risk, y, score, treatment=t, n_draws=800, random_state=1, **options)
    # The bootstrap's own standard deviation has a relative error of 1/sqrt(2 * 800) = .025.
    assert result.standard_error == pytest.approx(draws.std(), rel=0.09)


@pytest.mark.quick_cases("weighted-None")
@pytest.mark.parametrize("share", [0.5, None])
@pytest.mark.parametrize("kind", ["plain", "weighted"])
def test_standard_errors_agree_with_the_jackknife(kind, share):
    """Inside a wide level of equal scores the risk is smooth in each row, and leaving rows out
    gives the same first-order variance."""
    y, score, t, rng = steep(600, levels=3)
    options = {}
    if kind == "weighted":
        options["sample_weight"] = 0.5 + rng.random(600)
        options["propensity"] = rng.uniform(0.5, 0.9, 600)
    variance = 0.0
    for arm in (True, False):
        left_out = []
        for i in np.flatnonzero(t == arm):
            kept = {name: np.delete(v, i) for name, v in options.items()}
            others = (np.delete(v, i) for v in (y, score))
            left_out.append(policy_risk(*others, treatment=np.delete(t, i), share=share, **kept))
        variance += (len(left_out) - 1) * np.var(left_out)
    result = policy_risk_inference(y, score, treatment=t, share=share, **options)
    assert result.standard_error == pytest.approx(variance**0.5, rel=0.02)


@settings(deadline=None, max_examples=100)
@given(
    small_trials(min_arm=2),
    st.integers(0, 60).map(lambda k: k / 60) | st.none(),
    st.floats(0.1, 10),
)
def test_inference_and_its_invariances(rows, share, scale):
    given = {"treatment": rows.treated, "share": share, "sample_weight": rows.weight}
    result = policy_risk_inference(rows.y, rows.score, **given)
    assert result.estimate == pytest.approx(policy_risk(rows.y, rows.score, **given), abs=1e-9)

    def same(other, times=1.0):
        for a, b in zip(result.interval, other.interval, strict=True):
            assert a - result.estimate == pytest.approx(
                (b - other.estimate) / times, rel=1e-6, abs=1e-7, nan_ok=True
            )

    # Clusters of one row: the same, or wider where the kurtosis of their totals makes them so.
    one_row = policy_risk_inference(rows.y, rows.score, groups=np.arange(len(rows.y)), **given)
    assert np.isnan(one_row.interval).all() or (
        one_row.interval[0] <= result.interval[0] + 1e-7
        and one_row.interval[1] >= result.interval[1] - 1e-7
    )
    same(policy_risk_inference(scale * rows.y, rows.score, **given), scale)
    same(policy_risk_inference(rows.y, np.arctan(rows.score), **given))
    backwards = {**given, "treatment": rows.treated[::-1], "sample_weight": rows.weight[::-1]}
    same(policy_risk_inference(rows.y[::-1], rows.score[::-1], **backwards))
    if share is not None:  # the arms and the two ends of the ranking change places
        mirror = {**given, "treatment": ~rows.treated, "share": 1 - share}
        same(policy_risk_inference(rows.y, -rows.score, **mirror))
    flat = policy_risk_inference(0 * rows.y, rows.score, **given)
    assert flat.standard_error == 0 or np.isnan(result.standard_error)
    assert np.isnan(flat.interval).all()


@pytest.mark.parametrize("share", [None, 0.0, 0.4])
def test_clusters_of_one_row_have_the_interval_of_the_rows_where_outcomes_are_skewed(share):
    """Third and fourth moments count there, those of both arms."""
    rng = np.random.default_rng(3)
    y, score = rng.exponential(size=120) ** 2, rng.normal(size=120)
    given = {"treatment": np.arange(120) % 3 == 0, "share": share}
    rows = policy_risk_inference(y, score, **given)
    clusters = policy_risk_inference(y, score, groups=np.arange(120), **given)
    assert np.isfinite(rows.interval).all()
    assert clusters.interval == pytest.approx(rows.interval, rel=1e-9)


def test_nobody_and_everybody_have_the_interval_of_a_mean():
    y, score, t, _ = steep(40)
    result = policy_risk_inference(y, score, treatment=t, share=[0, 1], level=0.9)
    for end, arm in ((0, ~t), (1, t)):
        low, high = stats.ttest_1samp(y[arm], 0).confidence_interval(0.9)
        interval = [bound[end] for bound in result.interval]
        assert interval == pytest.approx([1 - high, 1 - low], rel=1e-9)
    # One control row says nothing of an error, but is not asked where all are treated.
    alone = policy_risk_inference(y, score, treatment=np.arange(40) > 0, share=[0, 0.5, 1])
    assert np.isnan(alone.standard_error).tolist() == [True, True, False]
    assert np.isnan(alone.interval[0]).tolist() == [True, True, False]


def test_few_clusters_make_wide_intervals_and_fewer_make_none():
    y, score, t, _ = steep(400)
    for n_clusters in (1, 9, 12):
        groups = np.where(t, np.arange(400) % n_clusters, n_clusters + np.arange(400))
        result = policy_risk_inference(y, score, treatment=t, share=1, groups=groups)
        half = (result.interval[1] - result.interval[0]) / 2
        assert np.isnan(result.standard_error) == (n_clusters == 1)
        if n_clusters < 12:
            assert np.isnan(half)
            assert "clusters of an arm" in result.declined
        else:
            assert half >= stats.t(11).ppf(0.975) * result.standard_error * (1 - 1e-9)
            assert half < stats.t(5).ppf(0.975) * result.standard_error
    # Clusters with rows of both arms are no more for that.
    both = policy_risk_inference(y, score, treatment=t, share=0.5, groups=np.arange(400) % 12)
    half = (both.interval[1] - both.interval[0]) / 2
    assert half >= stats.t(11).ppf(0.975) * both.standard_error * (1 - 1e-9)


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_score_limits_of_risk_are_joined_from_those_of_the_cells(share):
    """Without a slope at the cut nothing is inflated: Wilson's limits of two proportions."""
    rng = np.random.default_rng(5)
    score, t = rng.permutation(4000) / 4000, np.arange(4000) % 2 == 0
    y = (rng.random(4000) < 0.3).astype(float)
    found = policy_risk_inference(y, score, treatment=t, share=share)
    top = score >= 1 - share
    below = above = 0.0
    for part, cell in ((share, y[top & t]), (1 - share, y[~top & ~t])):
        if part:
            wilson = stats.binomtest(int(cell.sum()), len(cell)).proportion_ci(method="wilson")
            below = np.hypot(below, part * (wilson.high - cell.mean()))
            above = np.hypot(above, part * (cell.mean() - wilson.low))
    expected = found.estimate - below, found.estimate + above
    assert found.interval == pytest.approx(expected, abs=2e-4 if 0 < share < 1 else 1e-12)
    one_row = policy_risk_inference(y, score, treatment=t, share=share, groups=np.arange(4000))
    assert one_row.interval == pytest.approx(found.interval, abs=2e-4)


def test_no_responder_in_a_cell_is_no_certainty():
    rng = np.random.default_rng(6)
    score, t = rng.random(300), np.arange(300) % 5 == 0
    y = ((rng.random(300) < 0.2) & ~t).astype(float)  # no treated responder
    found = policy_risk_inference(y, score, treatment=t, share=[0.5, 1.0])
    assert found.declined == (None, None)
    assert found.standard_error[1] == 0
    low, high = np.array(found.interval)
    assert (low < found.estimate).all()
    assert high[0] > found.estimate[0]
    assert low[1] == pytest.approx(1 - stats.binomtest(0, 60).proportion_ci(method="wilson").high)


def test_risk_of_too_few_rows_is_declined():
    rng = np.random.default_rng(7)
    score, t = rng.random(200), np.arange(200) % 4 == 0
    some, none = (rng.random(200) < 0.2).astype(float), np.zeros(200)
    money = some * np.exp(rng.normal(size=200))
    cases = [(none, 0.5), (none + 3, 0.5), (some, 0.001), (some, 0.05), (score, 0.05), (money, 0.1)]
    reasons = set()
    for y, share in cases:
        found = policy_risk_inference(y, score, treatment=t, share=share)
        assert np.isnan(found.interval).all()
        reasons.add(found.declined)
    assert len(reasons - {None}) == len(cases)
    grid = policy_risk_inference(some, score, treatment=t, share=[0.001, 0.5])
    assert [why is None for why in grid.declined] == [False, True]
    assert np.isfinite(grid.interval).tolist() == [[False, True]] * 2
