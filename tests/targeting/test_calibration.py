import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import small_trials

from auucmax.data import make_trial
from auucmax.evaluation.metrics import uplift_by_decile
from auucmax.targeting import Calibration, calibrate, calibration_table

quietly = pytest.mark.filterwarnings("ignore:calibration should have at least two bins")


def arm_mean(values, rows, w, a, arm):
    own = rows.treated == arm
    return np.sum((w * a * values)[own]) / np.sum((w * a)[own])


def slow_calibration(rows, min_rows, weighted):
    """Bins by a loop over score levels, the min-max formula of isotonic regression, medians."""
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
    k = len(bins)

    def mean_of(i, j):  # of z in the bins i to j
        inside = np.any(bins[i : j + 1], axis=0)
        return np.average(z[inside], weights=w[inside])

    values = [max(min(mean_of(i, j) for j in range(b, k)) for i in range(b + 1)) for b in range(k)]
    knots = []
    for inside in bins:
        order = np.argsort(rows.score[inside], kind="stable")
        half = np.cumsum(w[inside][order]) >= w[inside].sum() / 2
        knots.append(rows.score[inside][order][np.argmax(half)])
    effect = means[1] - means[0]
    off = effect - np.average(np.interp(rows.score, knots, values), weights=w)
    return np.array(knots), np.array(values) + off, effect


@quietly
@settings(deadline=None, max_examples=80)
@given(small_trials(max_rows=30), st.integers(1, 6), st.booleans())
def test_it_is_the_slow_twin(rows, min_rows, weighted):
    given = {"sample_weight": rows.weight, "propensity": rows.propensity} if weighted else {}
    fast = calibrate(rows.y, rows.score, treatment=rows.treated, min_rows=min_rows, **given)
    knots, values, effect = slow_calibration(rows, min_rows, weighted)
    assert list(fast.score) == knots.tolist()
    assert list(fast.uplift) == pytest.approx(values.tolist(), abs=1e-9)
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
    again = Calibration.from_dict(json.loads(json.dumps(found.to_dict())))
    assert again == found


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
def test_weights_are_copies(rows):
    copies = rows.weight.astype(int)
    weighted = calibrate(
        rows.y, rows.score, treatment=rows.treated, min_rows=1, sample_weight=rows.weight
    )
    y, score, treated = (np.repeat(c, copies) for c in (rows.y, rows.score, rows.treated))
    copied = calibrate(y, score, treatment=treated, min_rows=1)
    assert weighted.score == copied.score
    assert weighted.uplift == pytest.approx(copied.uplift, abs=1e-9)


def test_on_levels_it_is_close_to_the_difference_of_means_of_each():
    rng = np.random.default_rng(3)
    score, treated = rng.integers(0, 3, 30_000).astype(float), rng.random(30_000) < 0.3
    y = 20 + score * treated + rng.normal(size=30_000)
    found = calibrate(y, score, treatment=treated)
    assert found.score == (0, 1, 2)
    table = uplift_by_decile(y, score, treatment=treated, bins=3)
    # The arms' unequal numbers in a level leave some .01 of y - m; of y itself, some .2.
    assert list(found.uplift) == pytest.approx(table["uplift"].tolist()[::-1], abs=0.05)


def test_a_score_that_ranks_backwards_gets_one_value_and_says_so():
    trial = make_trial(20_000, heterogeneity=1.0, random_state=0)
    found = calibrate(trial.y, -trial.effect, treatment=trial.treatment)
    assert found.n_values == 1
    assert found(0.0) == pytest.approx(found.average_effect)
    assert "did not gain more" in found.caveat


def test_it_brings_a_distorted_score_close_to_the_true_effect():
    held_out, fresh = (make_trial(40_000, heterogeneity=1.0, random_state=seed) for seed in (1, 2))
    found = calibrate(held_out.y, np.exp(40 * held_out.effect), treatment=held_out.treatment)
    error = found(np.exp(40 * fresh.effect)) - fresh.effect
    assert np.sqrt(np.mean(error**2)) < 0.3 * fresh.effect.std()
    assert "not known of any single person" in found.caveat


def test_few_rows_or_one_score_give_the_average_effect_with_a_warning():
    y, treated = [1, 0, 1, 0], [1, 1, 0, 0]
    with pytest.warns(UserWarning, match="got one bin of 2 treated and 2 control"):
        found = calibrate(y, [1, 2, 3, 4], treatment=treated)
    assert found([0, 9]).tolist() == [0, 0]
    assert "too few" in found.caveat
    with pytest.warns(UserWarning, match="everybody gets the average effect"):
        calibrate(y, [1, 1, 1, 1], treatment=treated, min_rows=1)


def test_knots_of_wide_integers_are_scores_and_not_ranks():
    score = np.array([2**60, 2**61, 2**60, 2**61])
    found = calibrate([1, 2, 0, 0], score, treatment=[1, 1, 0, 0], min_rows=1)
    assert found.score == (2.0**60, 2.0**61)
    assert found(score.astype(float)[:2]).tolist() == [1.0, 2.0]


def test_scores_that_are_no_numbers_are_refused():
    found = Calibration((0.0,), (1.0,), 1.0, 2, 1, 1)
    assert found(3) == 1.0
    with pytest.raises(ValueError, match="no missing values"):
        found([np.nan])
    with pytest.raises(ValueError, match="min_rows should be a whole number"):
        calibrate([1, 0], [1, 0], treatment=[1, 0], min_rows=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"score": [1.0, 0.0]}, "scores that increase"),
        ({"uplift": [0.3, 0.1]}, "do not decrease"),
        ({"uplift": [0.3]}, "as many uplifts as scores"),
        ({"score": [0.0, float("nan")]}, "missing"),
        ({"score": ["a", "b"]}, "should hold numbers"),
        ({"n_rows": 1.5}, "n_rows should be a whole number"),
        ({"extra": 1}, "should have the entries"),
    ],
)
def test_a_damaged_dictionary_is_refused(change, message):
    good = Calibration((0.0, 1.0), (0.1, 0.2), 0.15, 20, 10, 5).to_dict()
    with pytest.raises(ValueError, match=message):
        Calibration.from_dict(good | change)
    with pytest.raises(ValueError, match="should have the entries"):
        Calibration.from_dict([1])


@quietly
@settings(deadline=None, max_examples=60)
@given(small_trials(min_arm=2), st.integers(1, 5), st.booleans())
def test_table_has_the_mean_prediction_of_each_bin(rows, bins, weighted):
    given = {"sample_weight": rows.weight} if weighted else {}
    found = calibrate(rows.y, rows.score, treatment=rows.treated, min_rows=1)
    table = calibration_table(found, rows.y, rows.score, treatment=rows.treated, bins=bins, **given)
    w = rows.weight if weighted else np.ones(len(rows.y))
    number = []
    for s in rows.score:
        above = w[rows.score > s].sum() + w[rows.score == s].sum() / 2
        number.append(min(int(above / w.sum() * bins + 1e-12), bins - 1))
    predicted = [
        np.average(found(rows.score[here]), weights=w[here]) if here.any() else np.nan
        for here in (np.array(number) == b for b in range(bins))
    ]
    assert table["predicted"].tolist() == pytest.approx(predicted, nan_ok=True, abs=1e-9)
    actual = uplift_by_decile(rows.y, rows.score, treatment=rows.treated, bins=bins, **given)
    assert table.drop(columns="predicted").equals(actual)
