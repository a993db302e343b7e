from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from auucmax.data import balance
from auucmax.data.covariates import encode
from auucmax.data.randomisation import check_randomisation
from auucmax.data.trial import Trial


def test_differences_by_hand_with_missing_values() -> None:
    rng = np.random.default_rng(0)
    arm = rng.random(300) < 0.5
    X = pd.DataFrame({"a": rng.normal(size=300), "spent": rng.lognormal(0, 2, 300)})
    X["b"] = np.where(rng.random(300) < 0.1, np.nan, rng.normal(size=300))
    X["visits"] = pd.array(
        np.where(rng.random(300) < 0.2, None, rng.poisson(2, 300)), dtype="Int64"
    )
    X["never"] = X["a"]
    features, _ = encode(X)
    # One arm and the control may lack a feature altogether.
    never = dataclasses.replace(features[-1], values=np.full(300, np.nan))
    table = pd.DataFrame(balance.differences([*features[:-1], never], arm)).set_index("feature")
    assert np.isnan(table.loc["never", "control"])
    for name in ("a", "b", "spent", "visits"):
        values = X[name].astype("float64")
        control, treated = values[~arm], values[arm]
        spread = np.sqrt((control.var(ddof=0) + treated.var(ddof=0)) / 2)
        assert table.loc[name, "control"] == pytest.approx(control.mean())
        assert table.loc[name, "treated"] == pytest.approx(treated.mean())
        expected = (treated.mean() - control.mean()) / spread
        assert table.loc[name, "difference"] == pytest.approx(expected)


def test_likelihood_ratio_equals_a_fitted_logistic_regression(monkeypatch) -> None:
    monkeypatch.setattr(balance, "BLOCK", 2_048)
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.normal(size=(5_000, 3)), columns=list("abc"))
    treated = rng.random(5_000) < 1 / (1 + np.exp(-1 - 0.1 * X["a"].to_numpy()))
    # Copies (of the same order) and a full set of indicators change neither the fit nor the
    # degrees of freedom.
    copies = X.assign(copy=-np.exp(X["a"]), zone=np.where(X["c"] > 0, "p", "q"))
    for frame, degrees in ((X, 3), (copies, 4)):
        test = balance.likelihood_ratio_test(encode(frame)[0], treated)
        matrix = frame.assign(**({"zone": frame["zone"] == "p"} if "zone" in frame else {}))
        matrix = matrix.rank() / len(matrix) * 3
        fit = LogisticRegression(C=1e10, tol=1e-10, max_iter=1_000).fit(matrix, treated)
        p = fit.predict_proba(matrix)[:, 1]
        share = treated.mean()
        gain = np.log(np.where(treated, p / share, (1 - p) / (1 - share))).sum()
        assert f" on {degrees} degrees of freedom" in test.detail
        assert test.statistic == pytest.approx(2 * gain, abs=1e-4)
        assert test.p_value == pytest.approx(stats.chi2.sf(2 * gain, degrees), rel=1e-3)


def test_few_rows_use_the_f_test() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(100, 5))
    treated = rng.random(100) < 0.4
    test = balance.likelihood_ratio_test(encode(pd.DataFrame(X))[0], treated)
    design = np.column_stack([np.ones(100), stats.rankdata(X, axis=0)])
    residual = treated - design @ np.linalg.lstsq(design, treated, rcond=None)[0]
    explained = 1 - residual.var() / treated.var()
    expected = stats.f.sf(explained / (1 - explained) * 94 / 5, 5, 94)
    assert "p of the F test" in test.detail
    assert test.p_value == pytest.approx(expected, rel=1e-4)


def test_likelihood_ratio_survives_perfect_separation() -> None:
    treated = np.arange(1_000) % 2 == 0
    features, _ = encode(pd.DataFrame({"t": treated, "noise": np.arange(1_000) % 7}))
    assert balance.likelihood_ratio_test(features, treated).p_value < 1e-100


def test_likelihood_ratio_depends_on_the_order_of_the_values_alone() -> None:
    rng = np.random.default_rng(5)
    X = pd.DataFrame({"a": rng.normal(size=2_000), "b": rng.integers(5, size=2_000)})
    X.loc[:99, "a"] = np.nan
    treated = rng.random(2_000) < 0.3
    plain = balance.likelihood_ratio_test(encode(X)[0], treated)
    tails = balance.likelihood_ratio_test(encode(X.assign(a=np.exp(9 * X["a"])))[0], treated)
    assert tails == plain


@pytest.mark.quick_cases("4")
@pytest.mark.parametrize("levels", [4, 10**6])
def test_rank_auc_and_its_error(levels: int) -> None:
    rng = np.random.default_rng(3)
    score, positive = rng.integers(levels, size=300).astype(float), rng.random(300) < 0.3
    auc, p_value = balance.rank_auc(score, positive)
    assert auc == pytest.approx(roc_auc_score(positive, score))
    shuffled = [balance.rank_auc(score, rng.permutation(positive))[0] for _ in range(2_000)]
    assert (auc - 0.5) / np.std(shuffled) == pytest.approx(stats.norm.isf(p_value), rel=0.06)


def test_missing_values_are_tested_by_feature() -> None:
    treated = np.arange(1_000) < 400
    few, many = np.zeros(1_000), np.zeros(1_000)
    few[[1, 2, 3, 900]] = np.nan
    many[300:600] = np.nan
    features, _ = encode(pd.DataFrame({"few": few, "many": many}))
    table = pd.DataFrame(balance.missing_by_arm(features, treated)).set_index("feature")
    assert table.loc["many", "treated"] == pytest.approx(0.25)
    assert table.loc["many", "control"] == pytest.approx(200 / 600)
    chi_square = stats.chi2_contingency([[100, 300], [200, 400]], correction=False).pvalue
    assert table.loc["many", "p_value"] == pytest.approx(chi_square)
    exact = stats.fisher_exact([[3, 397], [1, 599]]).pvalue
    assert table.loc["few", "p_value"] == pytest.approx(exact)


def test_counts_against_shares() -> None:
    arm = np.repeat([0, 1, 2], [480, 260, 260])
    trial = Trial(pd.DataFrame({"x": np.arange(1_000) % 7}), np.arange(1_000) % 2, arm)
    report = check_randomisation(trial, expected_share=[0.5, 0.25, 0.25])
    (test,) = (test for test in report.tests if test.name == "sample ratio")
    expected = stats.chisquare([480, 260, 260], [500, 250, 250])
    assert (test.statistic, test.p_value) == pytest.approx((expected.statistic, expected.pvalue))


def test_detectable_difference_has_the_power_it_claims() -> None:
    treated = np.arange(1_000) < 300
    trial = Trial(pd.DataFrame({"x": np.arange(1_000) % 7}), np.arange(1_000) % 2, treated)
    shift = check_randomisation(trial, alpha=0.05).detectable_difference
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(2_000, 1_000)) + shift * treated
    p_values = stats.ttest_ind(draws[:, treated], draws[:, ~treated], axis=1).pvalue
    assert np.mean(p_values < 0.05) == pytest.approx(0.8, abs=0.03)


@pytest.mark.gate
@pytest.mark.parametrize(
    ("n", "d", "share", "sigma", "trials"),
    [(2_000, 5, 0.5, 3.0, 1_500), (600, 3, 0.1, 2.0, 2_500), (20_000, 5, 0.15, 2.5, 300)],
)
def test_heavy_tails_raise_no_false_alarm(
    n: int, d: int, share: float, sigma: float, trials: int
) -> None:
    p_values = np.empty(trials)
    with threadpool_limits(1):
        for seed in range(trials):
            rng = np.random.default_rng(seed)
            features, _ = encode(pd.DataFrame(rng.lognormal(0, sigma, (n, d))))
            test = balance.likelihood_ratio_test(features, rng.random(n) < share)
            p_values[seed] = test.p_value
    for level in (0.01, 0.05):
        rate, error = np.mean(p_values < level), np.sqrt(level * (1 - level) / trials)
        assert abs(rate - level) < 3 * error, (level, rate)


@pytest.mark.parametrize("n_known", [1, 2])
def test_a_column_that_one_half_of_the_rows_lacks_is_left_out_of_the_classifier(n_known):
    rng = np.random.default_rng(0)
    rare = np.r_[np.arange(n_known), np.full(400 - n_known, np.nan)]
    frame = pd.DataFrame({"age": rng.normal(size=400), "rare": rare})
    found = balance.classifier_test(encode(frame)[0], rng.random(400) < 0.5, rng, 1_000)
    assert found is not None
