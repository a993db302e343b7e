"""Outcomes of separate draws agree as chance has it, those of shared rows too well."""

import numpy as np
import pytest
from scipy.stats import hypergeom

from auucmax.trial_model.coincidence import _excess_kurtosis, agrees_too_well, count_outcomes


def draw(rng, rates, n):
    strata = rng.integers(0, len(rates), n).astype(np.uint32)
    return strata, rng.random(n) < rates[strata]


def test_counts_are_those_of_a_loop():
    rng = np.random.default_rng(0)
    strata, high = draw(rng, np.full(30, 0.3), 200)
    expected = [
        [key, int((strata == key).sum()), int(high[strata == key].sum())]
        for key in sorted(set(strata.tolist()))
    ]
    np.testing.assert_array_equal(count_outcomes(strata, high).T, expected)
    assert count_outcomes(strata[:0], high[:0]).shape == (3, 0)


def test_kurtosis_is_that_of_the_distribution():
    rng = np.random.default_rng(0)
    N = rng.integers(4, 60, 200)
    K, n = rng.integers(1, N), rng.integers(1, N)
    found = _excess_kurtosis(*(values.astype(float) for values in (N, K, n)))
    np.testing.assert_allclose(found, hypergeom.stats(N, K, n, moments="k"), atol=1e-9)


@pytest.mark.parametrize("part", [1.0, 0.5])
def test_rows_of_the_other_table_agree_too_well(part):
    rng = np.random.default_rng(0)
    for _ in range(20):
        strata, high = draw(rng, rng.random(100), 1_000)
        some = rng.random(1_000) < part
        first, second = count_outcomes(strata, high), count_outcomes(strata[some], high[some])
        assert agrees_too_well(first, second)
        assert agrees_too_well(second, first)


@pytest.mark.parametrize(("n_strata", "size"), [(25, 4), (100, 10), (1_000, 3), (30, 500)])
def test_separate_draws_do_not(n_strata, size):
    rng = np.random.default_rng(1)
    for _ in range(100):
        rates = 0.6 * rng.random(n_strata)
        tables = [draw(rng, rates, k * n_strata) for k in (size, max(size // 2, 1))]
        assert not agrees_too_well(*(count_outcomes(*table) for table in tables))


def test_neither_quotas_nor_the_same_people_are_taken_for_the_same_rows():
    """Features and treatment may be the same by design; outcomes are drawn anew."""
    rng = np.random.default_rng(2)
    strata = np.repeat(np.arange(200, dtype=np.uint32), 10)
    for _ in range(50):
        rates = rng.random(200)[strata]
        tables = [count_outcomes(strata, rng.random(2_000) < rates) for _ in range(2)]
        assert not agrees_too_well(*tables)


def test_too_little_to_go_by():
    few = count_outcomes(np.arange(10, dtype=np.uint32).repeat(50), np.arange(500) % 2 > 0)
    assert not agrees_too_well(few, few)  # ten strata may agree by chance
    same = count_outcomes(np.arange(100, dtype=np.uint32).repeat(50), np.ones(5_000, dtype=bool))
    assert not agrees_too_well(same, same)
    nothing = few[:, :0]
    assert not agrees_too_well(few, nothing)
    assert not agrees_too_well(nothing, nothing)
