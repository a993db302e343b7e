"""Standard errors by group, against their definitions."""

import numpy as np
import pytest
from scipy import stats

from auucmax.data import balance
from auucmax.data.balance import halves, rank_auc


def test_few_groups_or_groups_of_one_row_give_no_codes():
    assert balance.group_codes(None) is None
    assert balance.group_codes(np.arange(100)) is None
    assert balance.group_codes(np.arange(100) % 19) is None
    assert balance.group_codes(np.arange(100) % 20).max() == 19


def test_the_p_value_of_one_estimate_is_that_of_the_t_test():
    scores = np.random.default_rng(0).normal(size=(40, 1))
    error = np.sqrt((scores**2).sum() * 40 / 39)
    expected = 2 * stats.t.sf(1.7 / error, 39)
    assert balance.clustered_p(1.7**2, scores) == pytest.approx(expected)
    assert balance.clustered_p(1.0, np.zeros((40, 1))) == 0


def test_rows_of_their_own_group_give_the_usual_tests():
    """Each row a group: the shares of Welch's test, nearly, and the AUC of DeLong."""
    rng = np.random.default_rng(1)
    arm, lacking = rng.random(4_000) < 0.4, rng.random(4_000) < 0.2
    welch = stats.ttest_ind(lacking[arm], lacking[~arm], equal_var=False).pvalue
    assert balance.compare_shares(lacking, arm, np.arange(4_000)) == pytest.approx(welch, rel=0.01)
    score = rng.normal(size=4_000).round(1) + 0.05 * arm
    auc, p_value = rank_auc(score, arm)
    found = balance.auc_p(score, arm, auc, np.arange(4_000))
    assert found == pytest.approx(p_value, rel=0.1)


def test_copies_of_rows_count_for_nothing():
    rng = np.random.default_rng(2)
    score, arm = rng.normal(size=300), rng.random(300) < 0.5
    auc = rank_auc(score, arm)[0]
    once = balance.auc_p(score, arm, auc, np.arange(300))
    twice = np.tile(score, 2), np.tile(arm, 2)
    assert balance.auc_p(*twice, auc, np.tile(np.arange(300), 2)) == pytest.approx(once)


def test_halves_keep_groups_whole():
    codes = np.random.default_rng(3).integers(25, size=500)
    arm = np.arange(500) % 2 == 0
    fit, test = halves(arm, codes, np.random.default_rng(0), 1_000)
    assert sorted([*fit, *test]) == list(range(500))
    assert not set(codes[fit]) & set(codes[test])
    some = halves(arm, codes, np.random.default_rng(0), 100)
    assert sum(map(len, some)) == 100
