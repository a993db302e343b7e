import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auucmax import auuc_inference, certify, make_trial
from auucmax._errors import InputError
from auucmax.certificates import betting_bounds, fixed_bets, histogram_betting_bounds
from auucmax.certificates.blocks import DealtUnits, dense_ranks
from auucmax.certificates.fixed_bets import BetRows, Pilot, one_size_bounds
from auucmax.metrics import BinnedLevels, score_edges


@pytest.fixture(scope="module")
def trial():
    return make_trial(20_000, random_state=0)


@pytest.fixture(scope="module")
def score(trial):
    return np.asarray(trial.X)[:, 0]


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 10**6), n=st.integers(4, 80), width=st.integers(1, 50))
def test_bins_only_lower_the_bound(seed, n, width):
    """The same dealings of the same rows, with exact scores and with bins of them."""
    rng = np.random.default_rng(seed)
    y, treated = rng.integers(2, size=n).astype(float), np.arange(n) % 2 == 0
    score = rng.integers(50, size=n)
    bins = score // width
    mixed = np.array([len(set(score[bins == k])) > 1 for k in np.unique(bins)])
    units, pilot = DealtUnits.of(treated), Pilot.of(y[:4], treated[:4])

    def bounds(numbers, mixed):
        part = BetRows(dense_ranks(numbers.astype(float))[None], y, units, mixed)
        seeds = np.random.SeedSequence(seed)
        return one_size_bounds(pilot, [part], 0.3, 3, seeds)

    (exact, _), (binned, paid) = bounds(score, None), bounds(bins, mixed)
    assert (np.array(binned) <= np.array(exact) + 1e-12).all()
    assert (paid > 0) or not mixed.any() or binned == pytest.approx(bounds(bins, None)[0])


@pytest.mark.gate
@pytest.mark.parametrize("target", [0, 1])
def test_counts_say_what_the_rows_say(trial, score, target):
    rounded = score.round(1)  # every bin has one score
    edges = np.unique(rounded)[:-1] + 0.05
    histogram = BinnedLevels.of(trial.y, rounded, trial.treatment, edges)
    *bounds, bin_gap = histogram_betting_bounds(histogram)
    rows = betting_bounds(trial.y, rounded, treatment=trial.treatment, bets="fixed")
    assert bin_gap == 0
    # Other draws of the pilot and of the blocks.
    assert bounds[target].gap == pytest.approx(rows[target].gap, rel=0.25)
    result = auuc_inference(trial.y - trial.y.mean(), rounded, treatment=trial.treatment)
    estimate = result.gain if target else result.estimate
    assert bounds[target].estimate == pytest.approx(estimate, abs=0.3 * rows[target].gap)
    assert histogram_betting_bounds(histogram) == (*bounds, 0)


@pytest.mark.quick_cases("8000")
@pytest.mark.parametrize("most", [20_000_000, 8_000])
def test_many_rows_are_drawn_in_batches(trial, score, most, monkeypatch):
    histogram = BinnedLevels.of(trial.y, score, trial.treatment, score_edges(score, 500))
    _, whole, _ = histogram_betting_bounds(histogram)
    monkeypatch.setattr(fixed_bets, "_BATCH", 3000)
    monkeypatch.setattr(fixed_bets, "MOST_ROWS", most)
    _, batched, bin_gap = histogram_betting_bounds(histogram)
    if most > trial.n_rows:
        assert batched.gap == pytest.approx(whole.gap, rel=0.25)
    else:  # the estimate of the drawn rows is off by a standard error or so, gap / 2.4
        expected = whole.gap * np.sqrt(trial.n_rows / most)
        assert batched.gap == pytest.approx(expected, rel=0.8)
        assert batched.gap > whole.gap
    assert 0 < bin_gap < 0.1 * batched.gap


def test_what_a_histogram_cannot_do(trial, score):
    edges = score_edges(score, n_bins=50)
    histogram = BinnedLevels.of(trial.y, score, trial.treatment, edges)
    for name in ("X", "y", "treatment", "folds", "ids", "groups", "outcome_model", "control"):
        with pytest.raises(InputError) as raised:
            certify(histogram, **{name: trial.y})
        assert raised.value.parameter == name
    for method in ("betting", "asymptotic"):
        with pytest.raises(InputError) as raised:
            certify(histogram, method=method)
        assert raised.value.parameter == "method"
    money = BinnedLevels.of(30 * trial.y, score, trial.treatment, edges)
    for options in ({}, {"outcome_range": (0, 30)}, {"method": "betting-fixed"}):
        with pytest.raises(InputError, match=r"got 0 to 30 .*inference\(\)") as raised:
            certify(money, **options)
        assert raised.value.parameter == "outcomes"
    same = certify(histogram, outcome_range=(0, 1), n_dealings=None)
    assert same == certify(histogram)
    few = BinnedLevels.of([1, 0, 1], [1, 2, 3], [True, False, False], [])
    assert certify(few).gain_lower_bound == -0.25
    with pytest.raises(InputError) as raised:
        certify(score, y=trial.y)
    assert raised.value.parameter == "treatment"
