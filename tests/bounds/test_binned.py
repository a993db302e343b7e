import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import binned_trials

from auucmax import certify, make_trial
from auucmax.bounds import (
    binned_dkw_bernstein_bound,
    binned_mcdiarmid_bound,
    dkw_bernstein_bound,
    mcdiarmid_bound,
)
from auucmax.evaluation import BinnedLevels, score_edges

quick = settings(deadline=None, max_examples=60)
PAIRS = {
    "dkw-bernstein": (binned_dkw_bernstein_bound, dkw_bernstein_bound),
    "mcdiarmid": (binned_mcdiarmid_bound, mcdiarmid_bound),
}
OUTCOMES = {(0, 1): ("binary",), (-40, 50): ("real",)}
kinds = st.sampled_from(list(PAIRS))
targets = st.sampled_from(["auuc", "gain"])


@st.composite
def cases(draw):
    outcome_range = draw(st.sampled_from(list(OUTCOMES)))
    return outcome_range, *draw(binned_trials(min_arm=2, outcomes=OUTCOMES[outcome_range]))


@quick
@given(cases(), kinds, targets, st.integers(1, 9))
def test_one_score_a_bin_is_the_bound_of_the_rows(case, kind, target, n_candidates):
    outcome_range, rows, edges, number = case
    binned, exact = PAIRS[kind]
    histogram = BinnedLevels.of(rows.y, number, rows.treated, np.arange(len(edges)) + 0.5)
    options = {"target": target, "n_candidates": n_candidates, "outcome_range": outcome_range}
    found = binned(histogram, **options)
    expected = exact(rows.y, number, treatment=rows.treated, **options)
    assert found.name == expected.name == kind
    assert found.estimate == pytest.approx(expected.estimate, abs=1e-12 * np.ptp(outcome_range))
    assert found.lower == pytest.approx(expected.lower, rel=1e-12)


@quick
@given(cases(), kinds, targets)
def test_bins_only_lower_the_bound(case, kind, target):
    """Whatever they hide, the bound of the exact scores is at least as high."""
    outcome_range, rows, edges, _ = case
    binned, exact = PAIRS[kind]
    histogram = BinnedLevels.of(rows.y, rows.score, rows.treated, edges)
    options = {"target": target, "outcome_range": outcome_range}
    found = binned(histogram, **options)
    expected = exact(rows.y, rows.score, treatment=rows.treated, **options)
    assert found.lower <= expected.lower + 1e-9


def test_the_band_is_wider_by_the_largest_bin():
    rng = np.random.default_rng(0)
    y, treated = (rng.random(60) < 0.4).astype(float), np.arange(60) % 3 == 0
    score = np.arange(60.0)
    edges = [9.5, 29.5]  # 10, 20 and 30 rows
    histogram = BinnedLevels.of(y, score, treated, edges)
    flat = BinnedLevels.of(y, np.searchsorted(edges, score), treated, [0.5, 1.5])
    assert histogram.rank_error() == 29 / 120
    found, tied = binned_dkw_bernstein_bound(histogram), binned_dkw_bernstein_bound(flat)
    root = np.sqrt(sum(y[g].mean() / (g.sum() - 1) for g in (treated, ~treated)))
    more = y[treated].mean() + y[~treated].mean() + np.sqrt(2 * np.log(2 / 0.04)) * root
    assert found.gap - tied.gap == pytest.approx(29 / 120 * more)


@pytest.fixture(scope="module")
def trial():
    return make_trial(4000, random_state=0)


@pytest.fixture(scope="module")
def score(trial):
    return np.asarray(trial.X)[:, 0]


@pytest.mark.parametrize("method", ["auto", *PAIRS])
def test_a_histogram_is_certified(trial, score, method):
    edges = score_edges(score, n_bins=500)
    histogram = BinnedLevels.of(trial.y, score, trial.treatment, edges)
    certificate = certify(histogram, method=method, joint=True, n_candidates=2)
    assert certificate.method == ("dkw-bernstein" if method == "auto" else method)
    binned, _ = PAIRS[certificate.method]
    for target, lower in (
        ("auuc", certificate.lower_bound),
        ("gain", certificate.gain_lower_bound),
    ):
        assert lower == binned(histogram, target=target, delta=0.025, n_candidates=2).lower
    assert 0 < certificate.bin_gap < certificate.gap / 10
    assert certificate.n_rows == 4000
    assert "4,000 held-out rows in bins of scores, which cost 0.00" in str(certificate)
    assert "the 2 candidates were fixed" in str(certificate)


def test_bins_of_one_score_are_not_mentioned(trial, score):
    histogram = BinnedLevels.of(
        trial.y, score.round(1), trial.treatment, score_edges(score.round(1))
    )
    certificate = certify(histogram)
    rows = {"y": trial.y, "treatment": trial.treatment, "method": "dkw-bernstein"}
    exact = certify(score.round(1), **rows)
    assert certificate.bin_gap == 0
    assert certificate.gain_lower_bound == pytest.approx(exact.gain_lower_bound, abs=1e-12)
    # 5e-6 may round to either side
    assert str(certificate).split("by a DKW")[1] == str(exact).split("by a DKW")[1]


def test_what_a_histogram_cannot_do(trial, score):
    edges = score_edges(score, n_bins=50)
    histogram = BinnedLevels.of(trial.y, score, trial.treatment, edges)
    for name in ("X", "y", "treatment", "folds", "ids", "groups", "outcome_model", "n_dealings"):
        with pytest.raises(ValueError, match=f"certified without {name}, got it"):
            certify(histogram, **{name: trial.y})
    for method in ("betting", "asymptotic", "mcdiarmid-conditional"):
        with pytest.raises(ValueError, match=r"needs the rows. The asymptotic .*inference\(\)"):
            certify(histogram, method=method)
    money = BinnedLevels.of(30 * trial.y, score, trial.treatment, edges)
    with pytest.raises(ValueError, match=r"got outcomes from 0 to 30 and no range.*inference\(\)"):
        certify(money)
    with pytest.raises(ValueError, match="y should lie in outcome_range, 0 to 1; got values"):
        certify(money, method="dkw-bernstein")
    bounded = certify(money, outcome_range=(0, 30))
    assert "[0, 30]" in str(bounded)
    assert bounded.lower_bound == pytest.approx(30 * certify(histogram).lower_bound)
    with pytest.raises(ValueError, match="got outcomes from 0 to 30 and no range"):
        certify(money, outcome_range=None)
    few = BinnedLevels.of([1, 0, 1], [1, 2, 3], [True, False, False], [])
    with pytest.raises(ValueError, match="two rows, got 1 treated and 2 control"):
        certify(few)
    with pytest.raises(ValueError, match="treatment should say which held-out rows"):
        certify(score, y=trial.y)
