from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.strategies import small_trials

from auucmax.data import make_trial
from auucmax.results import read_json
from auucmax.targeting import Calibration, calibrate
from auucmax.targeting.calibration import NOISE, scaled_to_gain

quietly = pytest.mark.filterwarnings("ignore:calibration should have at least two bins")


def arm_mean(values, rows, w, a, arm):
    own = rows.treated == arm
    return np.sum((w * a * values)[own]) / np.sum((w * a)[own])


def slow_isotonic(mean, size):
    def mean_of(i, j):  # of the bins i to j
        return np.average(mean[i : j + 1], weights=size[i : j + 1])

    k = range(len(mean))
    return np.array([max(min(mean_of(i, j) for j in k[b:]) for i in k[: b + 1]) for b in k])


def slow_calibration(rows, min_rows, weighted):
    """Bins by a loop over score levels, the min-max formula of isotonic regression, medians.

    The slope by Stein's formula: how far each bin's own mean moves its value, found by moving it.
    """
    n = len(rows.y)
    w = rows.weight if weighted else np.ones(n)
    p = np.where(rows.treated, rows.propensity, 1 - rows.propensity) if weighted else np.ones(n)
    rarer = min(rows.treated.sum(), n - rows.treated.sum())
    least = rarer // max(1, rarer // min_rows)
    bins, current = [], np.zeros(n, dtype=bool)
    for level in np.unique(rows.score)[::-1]:
        current = current | (rows.score == level)
        if min((current & rows.treated).sum(), (current & ~rows.treated).sum()) >= least:
            bins.append(current)
            current = np.zeros(n, dtype=bool)
    bins[-1] = bins[-1] | current
    bins = bins[::-1]
    e = np.average(rows.treated, weights=w)
    means = [arm_mean(rows.y, rows, w, 1 / p, arm) for arm in (False, True)]
    centred = rows.y - (1 - e) * means[1] - e * means[0]
    z = np.empty(n)
    for arm, sign in ((True, 1), (False, -1)):
        own = rows.treated == arm
        z[own] = sign * w.sum() * (centred / p)[own] / np.sum((w / p)[own])
    size = np.array([w[inside].sum() for inside in bins])
    mean = np.array([np.average(z[inside], weights=w[inside]) for inside in bins])
    assume((abs(np.diff(mean)) > 1e-4).all())  # or a small step changes which bins share a value
    values = slow_isotonic(mean, size)
    noise = 0.0
    for b, inside in enumerate(bins):
        variance = np.sum((w * (z - values[b]))[inside] ** 2) / size[b] ** 2
        step = 1e-6 * (np.arange(len(bins)) == b)
        moved = (slow_isotonic(mean + step, size) - slow_isotonic(mean - step, size))[b] / 2e-6
        noise += size[b] * variance * (moved - size[b] / w.sum())
    spread = np.sum(size * (values - np.average(values, weights=size)) ** 2)
    slope = min(1, max(0, 1 - NOISE * noise / spread)) if spread > 1e-20 else 0
    knots = []
    for inside in bins:
        order = np.argsort(rows.score[inside], kind="stable")
        half = np.cumsum(w[inside][order]) >= w[inside].sum() / 2
        middle = np.argmax(half)  # and ten rows on each side: a knot is nobody's own score
        knots.append(rows.score[inside][order][max(middle - 10, 0) : middle + 11].mean())
    effect = means[1] - means[0]
    values = effect + slope * (values - effect)
    off = effect - np.average(np.interp(rows.score, knots, values), weights=w)
    return np.array(knots), np.array(values) + off, effect


@quietly
@settings(deadline=None, max_examples=80)
@given(small_trials(max_rows=30), st.integers(1, 6), st.booleans(), st.sampled_from([0, 3, 99]))
def test_it_is_the_slow_twin(rows, min_rows, weighted, signal):
    rows = rows._replace(y=rows.y + signal * np.argsort(np.argsort(rows.score)) * rows.treated)
    given = {"sample_weight": rows.weight, "propensity": rows.propensity} if weighted else {}
    fast = calibrate(rows.y, rows.score, treatment=rows.treated, min_rows=min_rows, **given)
    knots, values, effect = slow_calibration(rows, min_rows, weighted)
    assert list(fast.score) == pytest.approx(knots.tolist())
    assert list(fast.uplift) == pytest.approx(values.tolist(), rel=1e-6, abs=1e-6)
    assert fast.average_effect == pytest.approx(effect, abs=1e-10)


@quietly
@settings(deadline=None, max_examples=60)
@given(small_trials(max_rows=30), st.integers(1, 6), st.booleans())
def test_it_does_not_decrease_and_has_the_average_effect_as_its_mean(rows, min_rows, weighted):
    given = {"sample_weight": rows.weight, "propensity": rows.propensity} if weighted else {}
    found = calibrate(rows.y, rows.score, treatment=rows.treated, min_rows=min_rows, **given)
    anywhere = np.sort(np.concatenate([rows.score, rows.score + 0.01, [-1e9, 1e9]]))
    assert (np.diff(found(anywhere)) >= -1e-12).all()
    mean = np.average(found(rows.score), weights=rows.weight if weighted else None)
    assert mean == pytest.approx(found.average_effect, abs=1e-9)
    assert read_json(tuple[Calibration], [asdict(found)]) == (found,)


@quietly
@settings(deadline=None, max_examples=40)
@given(small_trials(), st.integers(1, 4), st.randoms(use_true_random=False))
def test_row_order_and_the_scale_of_the_score_do_not_matter(rows, min_rows, random):
    order = list(range(len(rows.y)))
    random.shuffle(order)
    first = calibrate(rows.y, rows.score, treatment=rows.treated, min_rows=min_rows)
    second = calibrate(
        rows.y[order], 4 * rows.score[order] + 1, treatment=rows.treated[order], min_rows=min_rows
    )
    assert second(4 * rows.score + 1) == pytest.approx(first(rows.score), abs=1e-9)
    shifted = calibrate(rows.y + 5, rows.score, treatment=rows.treated, min_rows=min_rows)
    assert shifted(rows.score) == pytest.approx(first(rows.score), abs=1e-9)


@quietly
@settings(deadline=None, max_examples=40)
@given(small_trials())
def test_weights_are_copies_but_no_more_rows(rows):
    copies = rows.weight.astype(int)
    weighted = calibrate(
        rows.y, rows.score, treatment=rows.treated, min_rows=1, sample_weight=rows.weight
    )
    y, score, treated = (np.repeat(c, copies) for c in (rows.y, rows.score, rows.treated))
    copied = calibrate(y, score, treatment=treated, min_rows=1)
    assert len(weighted.score) == len(copied.score)  # knots are means of other rows
    # Copies would be taken for as many rows of their own, and be drawn in less.
    one, other = (np.diff(c.uplift) for c in (weighted, copied))
    np.testing.assert_allclose(one[:, None] * other, other[:, None] * one, atol=1e-6)
    assert (one <= other + 1e-9).all()


def test_a_score_that_ranks_backwards_gets_one_value_and_says_so():
    trial = make_trial(20_000, heterogeneity=1.0, random_state=0)
    found = calibrate(trial.y, -trial.effect, treatment=trial.treatment)
    assert found.n_values == 1
    assert found(0.0) == pytest.approx(found.average_effect)


def test_it_brings_a_distorted_score_close_to_the_true_effect():
    held_out, fresh = (make_trial(40_000, heterogeneity=1.0, random_state=seed) for seed in (1, 2))
    found = calibrate(held_out.y, np.exp(40 * held_out.effect), treatment=held_out.treatment)
    error = found(np.exp(40 * fresh.effect)) - fresh.effect
    assert np.sqrt(np.mean(error**2)) < 0.3 * fresh.effect.std()


def test_few_rows_or_one_score_give_the_average_effect_with_a_warning():
    y, treated = [1, 0, 1, 0], [1, 1, 0, 0]
    with pytest.warns(UserWarning, match="got one bin of 2 treated and 2 control"):
        found = calibrate(y, [1, 2, 3, 4], treatment=treated)
    assert found([0, 9]).tolist() == [0, 0]
    with pytest.warns(UserWarning, match="everybody gets the average effect"):
        calibrate(y, [1, 1, 1, 1], treatment=treated, min_rows=1)


def test_noise_is_drawn_in_and_real_differences_are_kept():
    """Twenty times the rows of one table: what may have been chance in it is none any more."""
    rng = np.random.default_rng(0)
    score, treated = rng.random(2_000), rng.random(2_000) < 0.5
    y = (rng.random(2_000) < 0.1 + 0.1 * score * treated).astype(float)
    few = calibrate(y, score, treatment=treated, min_rows=100)
    many = calibrate(*(np.tile(c, 20) for c in (y, score)), treatment=np.tile(treated, 20))
    assert 0 < np.ptp(few.uplift) < 0.8 * np.ptp(many.uplift)


@settings(deadline=None, max_examples=60)
@given(small_trials(), st.integers(0, 25), st.floats(-5, 5), st.floats(-5, 5))
def test_uplifts_are_scaled_to_a_gain(rows, chosen, gain, whole):
    score, n = np.sort(rows.score)[::-1], len(rows.score)
    uplift = np.interp(score, np.unique(score), np.sort(rows.y)[: len(np.unique(score))])
    found = scaled_to_gain(uplift, score, min(chosen, n), gain=gain, whole=whole)
    assert (np.diff(found) <= 1e-9).all()
    assert all(np.ptp(found[score == s]) < 1e-9 for s in score)
    if 0 < chosen < n:
        assert found[:chosen].sum() == pytest.approx(gain, abs=1e-6)
    if not 0 < chosen < n or (score[0] > score[-1] and gain / chosen > whole / n):
        assert found.sum() == pytest.approx(whole, abs=1e-6)


def test_a_knot_is_nobodys_own_score():
    trial = make_trial(3_000, random_state=0)
    score = np.random.default_rng(0).normal(size=3_000)
    knots = calibrate(trial.y, score, treatment=trial.treatment).score
    assert len(knots) > 3
    assert not np.isin(knots, score).any()


def test_copies_of_rows_add_nothing_if_groups_tell_them():
    trial = make_trial(3_000, random_state=1)
    copies = np.repeat(np.arange(3_000), 4)
    y, score, t = trial.y[copies], trial.X["x0"].to_numpy()[copies], trial.treatment[copies]
    plain = calibrate(trial.y, trial.X["x0"], treatment=trial.treatment)
    told = calibrate(y, score, treatment=t, groups=copies)
    # A knot is the mean of twenty rows, here of five people.
    assert told.score == pytest.approx(plain.score, abs=0.05)
    assert told.uplift == pytest.approx(plain.uplift, abs=1e-4)
    taken_for_people = calibrate(y, score, treatment=t)
    assert np.ptp(taken_for_people.uplift) > np.ptp(plain.uplift)
