from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from auucmax.data import balance
from auucmax.data.balance import compare_counts, differences, even_rows, rank_auc
from auucmax.data.covariates import encode
from auucmax.data.pair import chance_weights, own_chance
from auucmax.data.randomisation import check_randomisation
from auucmax.data.read_trial import check_chances, propensities, propensity_columns
from auucmax.data.trial import Trial
from auucmax.results import Kind, Outcome, Roles


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
    few, many = (balance.compare_shares(own.missing, treated) for own in features)
    assert many.treated == pytest.approx(0.25)
    assert many.control == pytest.approx(200 / 600)
    chi_square = stats.chi2_contingency([[100, 300], [200, 400]], correction=False).pvalue
    assert many.p_value == pytest.approx(chi_square)
    exact = stats.fisher_exact([[3, 397], [1, 599]]).pvalue
    assert few.p_value == pytest.approx(exact)


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


def test_means_about_few_people_are_marked():
    n = 400
    frame = pd.DataFrame(
        {
            "flag": np.arange(n) < 30,  # 30 people, 25 of them in the first arm
            "age": np.arange(n) % 50,
            "town": np.where(np.arange(n) == 7, "Zed", np.where(np.arange(n) % 2, "a", "b")),
            "most": np.where(np.arange(n) < 30, "no", "yes"),
        }
    )
    first = np.isin(np.arange(n), np.r_[0:25, 100:250])
    features, _ = encode(frame)
    few = pd.DataFrame(differences(features, first)).set_index("feature")["few"]
    assert few[few].index.sort_values().tolist() == ["flag", "most=no", "most=yes", "town=Zed"]
    even = (np.arange(n) // 2) % 2 == 1  # the flag is of 15 people of each arm
    assert pd.DataFrame(differences(features, even)).set_index("feature")["few"]["flag"]


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
    shares = balance.compare_shares(lacking, arm)
    gap = shares.treated - shares.control
    found = balance.clustered_p_of_means(gap, lacking, arm, np.arange(4_000))
    assert found == pytest.approx(welch, rel=0.01)
    score = rng.normal(size=4_000).round(1) + 0.05 * arm
    auc, p_value = rank_auc(score, arm)
    by_group, found = rank_auc(score, arm, np.arange(4_000))
    assert by_group == auc
    assert p_value <= found == pytest.approx(p_value, rel=0.1)


NAME = "the propensity 'p'"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0.5, None], "the propensity 'p' should be .* in every row, got nan in 1 rows"),
        ([0.5, -0.1], "above 0 and below 1, in every row, got -0.1 in 1 rows"),
        ([90.0, 10.0], "got 90.0, 10.0 in 2 rows. If these are percentages, divide by 100"),
        ([0.5, 1.0, 0.0], "got 1.0, 0.0 in 2 rows. .* Leave out rows"),
        (["0.5", "high"], "got 'high'"),
    ],
)
def test_wrong_chances_are_refused_in_one_line(values, message):
    with pytest.raises(ValueError, match=message) as error:
        check_chances(pd.Series(values), NAME)
    assert "\n" not in str(error.value)


chances = st.floats(0.02, 0.98)


def test_drawn_rows_had_one_chance_whatever_their_stratum():
    """Within 4 standard errors, in strata of chances from .05 to .95; an arm of each is whole."""
    rng = np.random.default_rng(1)
    values = np.array([0.05, 0.3, 0.5, 0.95])
    chance = rng.choice(values, 100_000)
    treated = rng.random(len(chance)) < chance
    kept = even_rows(treated, chance, np.random.default_rng(2))
    odds = np.exp(np.mean(np.log(chance) - np.log1p(-chance)))
    share = odds / (1 + odds)
    for value in values:
        own = kept & (chance == value)
        error = np.sqrt(share * (1 - share) / own.sum())
        assert abs(treated[own].mean() - share) < 4 * error
        rarer = treated if value < share else ~treated
        assert kept[(chance == value) & rarer].all()


def test_numbers_that_contradict_the_chances_are_found():
    rng = np.random.default_rng(3)
    chance = np.repeat([0.9, 0.2], 1_000)
    right = rng.random(2_000) < chance
    assert compare_counts(right, chance).p_value > 0.01
    half = np.where(chance == 0.9, rng.random(2_000) < 0.5, right)
    found = compare_counts(half, chance)
    assert found.p_value < 1e-10
    assert found.detail.startswith("of 1,000 rows of chance 0.9, ")
    # The chance of the arm that a row is in, a common slip.
    assert compare_counts(right, own_chance(right, chance)).p_value < 1e-10


@pytest.mark.gate
def test_false_alarms_are_rare_of_few_and_of_many_chances():
    """400 trials each; p below .05 at most 5% of the time, and 3.5 standard errors."""
    rng = np.random.default_rng(4)
    most = 0.05 + 3.5 * np.sqrt(0.05 * 0.95 / 400)
    for few in (True, False):
        alarms = 0
        for _ in range(400):
            chance = rng.choice([0.1, 0.7], 300) if few else rng.uniform(0.05, 0.95, 300)
            alarms += compare_counts(rng.random(300) < chance, chance).p_value < 0.05
        assert alarms / 400 < most


ARMS = ("no", "mail", "phone")
FRAME = pd.DataFrame({"arm": ARMS, "a": [0.2, 0.5, 0.1], "b": [0.3, 0.5, 0.1]})


def roles_of(**named: str) -> Roles:
    outcome = Outcome(name="y", kind=Kind.BINARY)
    return Roles(
        treatment="arm", arms=ARMS, outcome=outcome, features=(), propensity=(*named.items(),)
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mail": "a"}, "a column for each arm of .* got {'mail': 'a'}"),
        ({"mail": "a", "phone": "b", "no": "c"}, "a column for each arm"),
        ({"mail": "a", "fone": "b"}, "of 'mail', 'no', 'phone', .* got {'mail': 'a', 'fone'"),
        ({"mail": "a", "phone": "c"}, "should be a table with the column 'c'"),
        ({"mail": "a", "phone": "a"}, "a column for each arm"),
        ("chance", "got 'chance'"),
    ],
)
def test_columns_that_are_not_those_of_the_arms_are_refused(given, message):
    with pytest.raises(ValueError, match=message) as error:
        propensity_columns(FRAME, "arm", given)
    assert "\n" not in str(error.value)


def test_chances_that_leave_the_control_none_are_refused():
    named = roles_of(mail="a", phone="b")
    with pytest.raises(ValueError, match=r"'a', 'b' should be less than 1 together .* in 1 rows"):
        propensities(FRAME, named)
    with pytest.raises(ValueError, match="percentages"):
        propensities(FRAME[["a", "b"]] * 100, named)
    with pytest.raises(ValueError, match="nothing was left to chance"):
        propensities(FRAME.assign(a=[0.0, 0.2, 0.2]), named)


def test_weights_of_two_of_several_arms_are_of_all_people():
    """Rows of two arms are mostly people who had a small chance of the third."""
    rng = np.random.default_rng(1)
    x = rng.random(200_000)
    frame = pd.DataFrame({"a": 0.2 + 0.1 * x, "b": 0.1 + 0.5 * x})
    chances = propensities(frame, roles_of(mail="a", phone="b"))
    got = (rng.random(len(x))[:, None] > np.cumsum(chances, axis=1)).sum(axis=1)
    both = got < 2
    either = chances[both][:, :2].sum(axis=1)
    chance, treated = chances[both][:, 1] / either, got[both] == 1
    for people, is_right in ((None, False), (1 / either, True)):
        weight = chance_weights(treated, chance, people)
        for arm in (treated, ~treated):
            terms = weight[arm] * (x[both][arm] - 0.5)
            assert (abs(terms.sum()) < 4 * np.sqrt((terms**2).sum())) == is_right
            assert weight[arm].sum() == pytest.approx(arm.sum(), rel=0.02)
