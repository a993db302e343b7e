import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.metrics.reference import auuc_by_pairs, bootstrap
from tests.strategies import small_trials

from auucmax import load_hillstrom
from auucmax.metrics import Levels
from auucmax.metrics.functions import auuc_difference, auuc_inference, auuc_score

pytestmark = pytest.mark.filterwarnings("ignore:score should tell rows apart")
quick = settings(deadline=None, max_examples=100)
RANKINGS = ["joint", "separate"]


def simulated(n=4000, share=0.5, tied=False, seed=0):
    rng = np.random.default_rng(seed)
    score = rng.normal(size=n)
    if tied:
        score = score.round(0)
    t = rng.random(n) < share
    y = (rng.random(n) < 0.2 + 0.1 * t * (score > 0)).astype(float)
    return y, score, t, rng


def jackknife_error(statistic, n, treated):
    """Leave one row out, within arms: an independent route to the first-order variance."""
    variance = 0.0
    for arm in (True, False):
        rows = np.flatnonzero(treated == arm)
        left_out = np.array([statistic(np.delete(np.arange(n), i)) for i in rows])
        variance += (len(rows) - 1) / len(rows) * np.sum((left_out - left_out.mean()) ** 2)
    return np.sqrt(variance)


@pytest.mark.gate
@pytest.mark.parametrize("ranking", RANKINGS)
@pytest.mark.parametrize("kind", ["plain", "weight", "propensity", "both"])
def test_standard_errors_agree_with_the_jackknife(ranking, kind):
    y, score, t, rng = simulated(600, 0.7, tied=True)
    y = y + 0.3 * rng.normal(size=len(y))
    given = {}
    if kind in ("weight", "both"):
        given["sample_weight"] = rng.uniform(0.5, 2, len(y))
    if kind in ("propensity", "both"):
        given["propensity"] = rng.uniform(0.4, 0.9, len(y))

    def take(rows, gain=False):
        kept = {k: v[rows] for k, v in given.items()}
        of, own = {"treatment": t[rows], "ranking": ranking, **kept}, y[rows]
        if not gain:
            return auuc_score(own, score[rows], **of)
        own = own - np.average(own, weights=kept.get("sample_weight"))
        return auuc_score(own, score[rows], **of) - auuc_score(own, 0 * own, **of)

    result = auuc_inference(y, score, treatment=t, ranking=ranking, **given)
    assert result.standard_error == pytest.approx(jackknife_error(take, len(y), t), rel=0.02)
    gain_error = jackknife_error(lambda rows: take(rows, gain=True), len(y), t)
    assert result.gain_standard_error == pytest.approx(gain_error, rel=0.02)


@pytest.mark.quick_cases("True-joint")
@pytest.mark.parametrize("ranking", RANKINGS)
@pytest.mark.parametrize("clustered", [False, True])
def test_standard_errors_agree_with_the_bootstrap(ranking, clustered):
    y, score, t, _ = simulated(1500, 0.7, tied=True)
    groups = None
    if clustered:  # households of three that are treated together and answer alike
        groups = np.repeat(np.arange(500), 3)
        y, score, t = (np.repeat(v[::3], 3) for v in (y, score, t))
    draws = bootstrap(
        auuc_score,
        y,
        score,
        treatment=t,
        ranking=ranking,
        groups=groups,
        n_draws=600,
        random_state=1,
    )
    result = auuc_inference(y, score, treatment=t, ranking=ranking, groups=groups)
    # The bootstrap's own standard deviation has a relative error of 1/sqrt(2 * 600) = .03.
    assert result.standard_error == pytest.approx(draws.std(), rel=0.1)
    if clustered:
        rows = auuc_inference(y, score, treatment=t, ranking=ranking)
        assert result.standard_error == pytest.approx(rows.standard_error * 3**0.5, rel=0.01)


@quick
@given(small_trials(min_arm=2), st.sampled_from(RANKINGS))
def test_one_row_clusters_are_rows(rows, ranking):
    given = {"treatment": rows.treated, "ranking": ranking, "sample_weight": rows.weight}
    plain = auuc_inference(rows.y, rows.score, **given)
    clusters = auuc_inference(rows.y, rows.score, groups=np.arange(len(rows.y)), **given)
    for name in ("standard_error", "gain_standard_error"):
        expected = pytest.approx(getattr(plain, name), rel=1e-6, abs=1e-9)
        assert getattr(clusters, name) == expected


def test_few_clusters_make_no_intervals():
    y, score, t, _ = simulated(400)
    one = auuc_inference(y, score, treatment=t, groups=np.where(t, 0, 1 + np.arange(len(y))))
    assert np.isnan([one.standard_error, *one.interval, one.p_value]).all()
    assert "only 1 clusters of an arm" in one.declined
    assert "no interval" in str(one)
    two = np.where(t, np.arange(len(y)) % 2, 2 + np.arange(len(y)))
    few = auuc_inference(y, score, treatment=t, groups=two)
    for why in (few.declined, few.gain_declined):
        assert why == "only 2 clusters of an arm are there, where at least 5 are needed"


@quick
@given(small_trials(min_arm=2), st.sampled_from(RANKINGS))
def test_estimates_and_invariances(rows, ranking):
    result = auuc_inference(rows.y, rows.score, treatment=rows.treated, ranking=ranking)
    value = auuc_score(rows.y, rows.score, treatment=rows.treated, ranking=ranking)
    half = auuc_score(rows.y, 0 * rows.score, treatment=rows.treated, ranking=ranking)
    assert result.estimate == value
    centred = rows.y - rows.y.mean()
    less = auuc_by_pairs(centred, rows.score, rows.treated, ranking=ranking) - half
    assert result.gain == pytest.approx(less, abs=1e-12)
    if ranking == "separate":
        assert result.gain == pytest.approx(value - half, abs=1e-12)
    order = np.argsort(rows.y, kind="stable")[::-1]
    again = auuc_inference(
        rows.y[order], np.exp(rows.score[order] / 1e6), treatment=rows.treated[order],
        ranking=ranking,
    )  # fmt: skip
    assert again.standard_error == pytest.approx(result.standard_error, rel=1e-9, abs=1e-12)
    flipped = auuc_inference(rows.y, rows.score, treatment=~rows.treated, ranking=ranking)
    assert flipped.gain_standard_error == pytest.approx(
        result.gain_standard_error, rel=1e-9, abs=1e-12
    )


@pytest.mark.parametrize("ranking", RANKINGS)
@pytest.mark.parametrize("given", [{}, {"sample_weight": True}, {"groups": True}])
def test_a_constant_score_has_no_gain_and_says_so(ranking, given):
    y, score, t, rng = simulated(101)
    y = y + rng.normal(size=len(y))
    if "sample_weight" in given:
        given = {"sample_weight": rng.random(len(y))}
    if "groups" in given:
        given = {"groups": np.arange(len(y)) // 2}
    with pytest.warns(UserWarning, match="score should tell rows apart"):
        result = auuc_inference(y, 0 * score, treatment=t, ranking=ranking, **given)
    assert (result.gain, result.gain_standard_error, result.p_value) == (0.0, 0.0, 1.0)


def test_one_row_in_an_arm_has_an_estimate_but_no_standard_error():
    result = auuc_inference([1, 0, 1], [3, 2, 1], treatment=[1, 0, 0])
    assert result.estimate == pytest.approx(5 / 6 - 1 / 12)
    assert np.isnan(result.standard_error)
    assert np.isnan(result.p_value)


def test_difference_is_the_difference_and_is_paired():
    y, score, t, rng = simulated()
    near = score + 0.01 * rng.normal(size=len(y))
    pair = auuc_difference(y, score, near, treatment=t)
    a, b = (auuc_inference(y, s, treatment=t) for s in (score, near))
    assert pair.estimate == pytest.approx(a.gain - b.gain, abs=1e-15)
    assert pair.standard_error < 0.2 * a.standard_error
    same = auuc_difference(y, score, 2 * score + 1, treatment=t)
    assert (same.estimate, same.p_value) == (0.0, 1.0)
    # Against a constant score the difference is the gain over random.
    gain = auuc_difference(y, score, np.zeros(len(y)), treatment=t)
    assert gain.estimate == pytest.approx(a.gain, abs=1e-15)
    assert gain.standard_error == pytest.approx(a.gain_standard_error, rel=1e-9)


@pytest.mark.parametrize("ranking", RANKINGS)
def test_an_outcome_model_is_subtracted_everywhere(ranking):
    y, score, t, rng = simulated(300, 0.7, tied=True)
    model, groups = rng.normal(size=len(y)), np.arange(len(y)) // 2
    options = {"treatment": t, "ranking": ranking, "propensity": rng.uniform(0.4, 0.9, len(y))}
    for chosen in (options, options | {"groups": groups}):
        adjusted = auuc_inference(y, score, outcome_model=model, **chosen)
        assert adjusted == auuc_inference(y - model, score, **chosen)
        pair = auuc_difference(y, score, -score, outcome_model=model, **chosen)
        assert pair == auuc_difference(y - model, score, -score, **chosen)


def test_hillstrom_standard_errors():
    trial = load_hillstrom()
    result = auuc_inference(trial.y, trial.X["womens"], treatment=trial.treatment)
    assert 0.0015 < result.standard_error < 0.0025
    assert result.gain_standard_error == pytest.approx(result.standard_error / 2, rel=0.2)
    assert result.n_rows == 42_693


def rare_flag(seed, share, n=3_000, treated=2_700):
    """No effect at all, and a score that sets few rows apart."""
    rng = np.random.default_rng(seed)
    t = np.zeros(n, dtype=bool)
    t[rng.permutation(n)[:treated]] = True
    flag = (rng.random(n) < share) * 1.0
    return (rng.random(n) < 0.1) * 1.0, flag, rng.random(n), t


@pytest.mark.parametrize("share", [0.02, 0.05])
def test_a_gain_that_few_rows_of_an_arm_carry_has_no_interval(share):
    """Without, 20 to 40 in 100 such trials would show a gain that is not there."""
    y, flag, base, t = rare_flag(0, share)
    found = auuc_inference(y, flag, treatment=t)
    assert "rests on the ranks of few" in found.gain_declined
    assert np.isnan(found.gain_interval).all()
    assert np.isnan(found.p_value)
    difference = auuc_difference(y, base + 0.3 * flag, base, treatment=t)
    assert "rests on the ranks of few" in difference.declined
    assert np.isnan(difference.p_value)


def test_a_gain_that_many_rows_carry_has_one():
    for seed, share in enumerate((0.25, 0.5, 0.75)):
        y, flag, base, t = rare_flag(seed, share)
        assert auuc_inference(y, flag, treatment=t).gain_declined is None
        assert auuc_inference(y, base, treatment=t).gain_declined is None
        assert auuc_difference(y, base, flag, treatment=t).declined is None


@pytest.mark.gate
@pytest.mark.parametrize("share", [0.1, 0.2, 0.4])
def test_gains_of_flags_miss_as_rarely_as_promised(share):
    misses = 0
    for seed in range(600):
        y, flag, _, t = rare_flag(seed, share)
        low, high = auuc_inference(y, flag, treatment=t).gain_interval
        misses += low > 0 or high < 0
    assert misses / 600 < 0.07 + 3 * np.sqrt(0.05 * 0.95 / 600)


@pytest.mark.parametrize(
    ("chances", "n", "is_told"),
    [((0.02, 0.2, 0.5, 0.8, 0.98), 2_000, False), ((0.2, 0.8), 2_000, True), ((0.5,), 500, True)],
)
def test_a_few_rows_of_large_weight_give_no_interval(chances, n, is_told):
    """If none of them responded, nothing would show how little is known of their arm."""
    rng = np.random.default_rng(0)
    stratum = rng.integers(0, len(chances), n)
    chance = np.array(chances)[stratum]
    treated, score = rng.random(n) < chance, stratum + rng.normal(size=n)
    y = (rng.random(n) < 0.15).astype(float)
    found = Levels.of(y, score, treatment=treated, propensity=chance).inference()
    assert np.isfinite(found.gain_interval[0]) == is_told
    if not is_told:
        assert "a few rows have most of the weight" in found.gain_declined
    homes = np.arange(n) // 2
    found = Levels.of(y, score, treatment=treated, propensity=chance, groups=homes).inference()
    assert np.isfinite(found.gain_interval[0]) == is_told


@pytest.mark.parametrize("given", ["plain", "weight", "propensity", "groups"])
@pytest.mark.parametrize("base", [0.02, 0.5, 0.93])
def test_gains_of_an_outcome_and_of_its_opposite_are_equally_sure(given, base):
    rng = np.random.default_rng(0)
    n = 3000
    score, t = rng.normal(size=n).round(1), rng.random(n) < 0.4
    y = (rng.random(n) < base).astype(float)
    more = {
        "plain": {},
        "weight": {"sample_weight": rng.uniform(0.5, 2, n)},
        "propensity": {"propensity": np.where(score > 0, 0.3, 0.5)},
        "groups": {"groups": np.arange(n) // 3},
    }[given]
    levels, turned = (Levels.of(own, score, treatment=t, **more) for own in (y, 1 - y))
    one, other = levels.inference(), turned.inference()
    assert other.gain == pytest.approx(-one.gain, abs=1e-12)
    assert other.gain_standard_error == pytest.approx(one.gain_standard_error, rel=1e-9)
    assert other.gain_interval == pytest.approx(
        [-end for end in one.gain_interval[::-1]], abs=1e-12, nan_ok=True
    )
    noise = rng.normal(size=n)
    pairs = [own.difference(Levels.of(own_y, noise, treatment=t, **more))
             for own, own_y in ((levels, y), (turned, 1 - y))]  # fmt: skip
    assert pairs[1].estimate == pytest.approx(-pairs[0].estimate, abs=1e-12)
    assert pairs[1].standard_error == pytest.approx(pairs[0].standard_error, rel=1e-9)
    band, back = levels.band([0.2, 0.5, 1.0]), turned.band([0.2, 0.5, 1.0])
    assert back.uplift == pytest.approx(-band.uplift, abs=1e-12)
    assert back.lower == pytest.approx(-band.upper, abs=1e-12, nan_ok=True)
    assert back.simultaneous_lower == pytest.approx(
        -band.simultaneous_upper, abs=1e-12, nan_ok=True
    )
