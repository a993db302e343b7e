import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import small_trials

from auucmax import load_hillstrom
from auucmax.bounds.setting import rate_limits
from auucmax.bounds.threshold_band import threshold_band_bound

quick = settings(deadline=None, max_examples=100)


@quick
@given(small_trials(outcomes=("binary",)), st.sampled_from(["counts", "rates"]), st.integers(1, 4))
def test_by_the_formulas(rows, form, n_candidates):
    y, score, t = rows.y, rows.score, rows.treated
    band = threshold_band_bound(y, score, treatment=t, form=form, n_candidates=n_candidates)
    d = 0.05 / n_candidates
    thresholds = [np.inf, *np.unique(score)[::-1]]
    assert band.threshold.tolist() == thresholds
    for k, s in enumerate(thresholds):
        value = {g: np.mean((y * (score >= s))[t == g]) for g in (True, False)}
        assert band.share[k] == pytest.approx(np.mean(score >= s))
        assert band.estimate[k] == pytest.approx(value[True] - value[False], abs=1e-12)
        if form == "counts":
            gap = sum(np.sqrt(np.log(2 / d) / (2 * np.sum(t == g))) for g in (True, False))
            assert band.estimate[k] - band.lower[k] == pytest.approx(gap)
            continue
        limits = {}
        for g, sign in ((True, -1), (False, 1)):
            n, m = np.sum(t == g), y[t == g].sum()
            rate = rate_limits(m, n, 0.05 / 4)[0 if g else 1]
            with np.errstate(divide="ignore"):
                error = np.sqrt(np.log(4 / d) / (2 * m))
            share = value[g] * n / m if m else 0.0
            limits[g] = rate * np.clip(share + sign * error, 0, 1)
        assert band.lower[k] == pytest.approx(limits[True] - limits[False], abs=1e-12)


def test_gaps_on_half_of_hillstrom():
    trial = load_hillstrom()
    half = np.random.default_rng(0).permutation(trial.n_rows)[: trial.n_rows // 2]
    y, t = trial.y[half], trial.treatment[half]
    score = np.random.default_rng(1).random(len(half))
    counts = threshold_band_bound(y, score, treatment=t)
    assert counts.estimate - counts.lower == pytest.approx(0.0263, abs=6e-5)
    rates = threshold_band_bound(y, score, treatment=t, form="rates")
    gap = rates.estimate - rates.lower
    for share in (0.1, 0.3, 0.5):
        place = np.searchsorted(rates.share, share)
        assert gap[place] == pytest.approx(0.010 + 0.0145 * share, abs=0.001)


def test_bad_input():
    y, score, t = [1, 0, 1, 0], [4, 3, 2, 1], [1, 1, 0, 0]
    with pytest.raises(ValueError, match="y should be 0 or 1"):
        threshold_band_bound([3, 0, 1, 0], score, treatment=t)
    with pytest.raises(ValueError, match="form should be one of 'counts', 'rates'"):
        threshold_band_bound(y, score, treatment=t, form="both")
    with pytest.raises(ValueError, match="delta should be a number strictly"):
        threshold_band_bound(y, score, treatment=t, delta=1)
    with pytest.raises(ValueError, match="n_candidates should be a whole number"):
        threshold_band_bound(y, score, treatment=t, n_candidates=0)
