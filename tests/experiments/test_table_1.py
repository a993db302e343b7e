"""Table 1: every model on few rows, the searches, and numbers of the page."""

import json

import numpy as np
import pytest
from experiments import table_1, trials
from experiments.harness import RESULTS, Task, read_lines, results_file
from experiments.models import SHARES
from experiments.searched import (
    C_GRID,
    FIXED,
    GRIDS,
    L2_GRID,
    RATES,
    ClassMeans,
    MeanLogistic,
    Searched,
    Tuned,
)
from experiments.table_1 import PAPERS_OWN, TM, draw, scores_of
from sklearn.linear_model import LogisticRegression
from tests.experiments.made_up import made_up, rows_of

from auucmax import AUUCMax, load_hillstrom, make_trial
from auucmax.pairs import PairObjective

pytestmark = pytest.mark.gate

QUICK = {
    "TARNet": {"max_epochs": 2},
    "GANITE": {"max_epochs": 2, "generator_epochs": 1},
}


@pytest.fixture
def few_rows(monkeypatch):
    """4,000 training rows and short training; the models and their grids are what they are."""
    small = trials.with_few_rows(table_1.MAIN)
    monkeypatch.setattr(
        table_1, "load_split", lambda _, seed, share: trials.load_split(small, seed, share)
    )
    for name, options in QUICK.items():
        monkeypatch.setitem(FIXED, name, FIXED[name] | options)


def run(models, splits=2, trial=table_1.MAIN):
    return [
        json.loads(json.dumps(table_1.run(Task(table_1.NAME, trial, model, seed)), allow_nan=False))
        for seed in range(splits)
        for model in models
    ]


def test_two_splits_of_the_linear_models(few_rows):
    lines = run(table_1.LINEAR)
    assert all(np.isfinite(line["auuc"]) and line["cpu_seconds"] > 0 for line in lines)
    counts = {line["model"]: line["n_parameters"] for line in lines}
    assert (counts["TM"], counts["DDR"], counts["SDR"], counts["CVT"]) == (46, 47, 67, 23)
    own, *_ = rows_of(table_1.render(lines), PAPERS_OWN)
    mean = np.mean([line["auuc"] for line in lines if line["model"] == PAPERS_OWN])
    assert (own[1], own[2][:7]) == ("2", f"{mean:.5f}")
    assert draw(lines).axes


@pytest.mark.filterwarnings("ignore:adam should", "ignore:score should tell")  # on few rows
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_rows_by_adam(few_rows):
    lines = run(table_1.BY_ADAM, splits=1)
    chosen = {line["model"].removesuffix(", Adam"): line["chosen"] for line in lines}
    for model in ("TM", "CVT", "DDR", "SDR"):
        assert chosen[model]["learning_rate"] in RATES[model]
        assert chosen[model]["l2"] in L2_GRID
    # The same features as when they are solved exactly.
    for name, make in table_1.BY_ADAM.items():
        exact = table_1.LINEAR[name.removesuffix(", Adam")](0)
        assert getattr(make(0), "scale", None) == getattr(exact, "scale", "min-max")


def test_two_splits_of_the_slow_models(few_rows):
    lines = run([*table_1.SLOW, TM])
    assert {line["n_parameters"] for line in lines if line["model"] == "TARNet"} == {22402}
    chosen = next(line["chosen"] for line in lines if line["model"] == "GANITE")
    assert set(chosen) == {"hidden", "alpha"}
    assert all(len(line["policy_risk"]) == len(SHARES) for line in lines)


def test_grids_are_the_papers():
    assert GRIDS["TARNet"][1]["learning_rate"] == (1e-3, 5e-3)
    assert GRIDS["TARNet"][1]["l2"] == tuple(2 * l2 for l2 in L2_GRID)  # half the sum of squares
    assert GRIDS["GANITE"][1] == {"hidden": (30, 50, 100), "alpha": (1.0, 100.0, 1000.0)}
    assert (L2_GRID, C_GRID) == ((0.0, 1e-6, 1e-4), (0.1, 1.0, 10.0))


def test_a_search_takes_the_best_point_and_fits_it_on_all_rows():
    trial = make_trial(3_000, n_features=4, random_state=0)
    given = {"treatment": trial.treatment}
    found = Searched("SVM-DP", random_state=3).fit(trial.X, trial.y, **given)
    alone = next(model for point, model in found.candidates() if point == found.chosen_)
    alone.fit(np.asarray(trial.X), trial.y, **given)
    np.testing.assert_array_equal(found.predict(trial.X), alone.predict(np.asarray(trial.X)))
    assert Tuned("TM").fit(trial.X, trial.y, **given).chosen_["l2"] in L2_GRID


@pytest.mark.parametrize("scale", ["min-max", "column-l2"])
def test_logistic_models_on_any_scale_are_scikit_learns(scale):
    trial = make_trial(2_000, n_features=3, n_noise=1, base_rate=0.3, random_state=0)
    X = 1 + 5 * trial.X.to_numpy()
    exact = MeanLogistic(scale=scale).fit(X, trial.y)
    alone = LogisticRegression(C=np.inf, tol=1e-8).fit(X, trial.y)
    np.testing.assert_allclose(exact.coef_, alone.coef_, atol=1e-3)
    np.testing.assert_allclose(exact.predict_proba(X), alone.predict_proba(X), atol=1e-3)
    # A penalty means something else on other features.
    strong = [MeanLogistic(0.1, scale=own).fit(X, trial.y).coef_ for own in (scale, "none")]
    assert not np.allclose(*strong, rtol=0.01)


def test_adam_comes_near_the_exact_solution_of_a_logistic_model():
    trial = make_trial(20_000, n_features=3, n_noise=1, base_rate=0.3, signal=1.0, random_state=0)
    X = trial.X.to_numpy()
    exact, adam = (MeanLogistic(1e-4, learning_rate=rate).fit(X, trial.y) for rate in (None, 0.1))
    assert 1 < adam.n_epochs_ < 200
    np.testing.assert_allclose(adam.coef_, exact.coef_, atol=0.1)
    weighted = MeanLogistic(learning_rate=0.1).fit(X, trial.y, sample_weight=1 + trial.y)
    assert weighted.intercept_[0] == pytest.approx(adam.intercept_[0] + np.log(2), abs=0.1)


def test_class_means_are_where_auuc_max_starts():
    trial = make_trial(2_000, n_features=4, base_rate=0.3, random_state=0)
    X, given = trial.X.to_numpy(), {"treatment": trial.treatment}
    model = ClassMeans("none").fit(X, trial.y, **given)
    objective = PairObjective(X, trial.y, weights="uniform", surrogate="s_log", **given)
    slope = objective.value_and_gradient(np.zeros(4))[1]
    unit_slope, unit = slope / np.linalg.norm(slope), model.coef_ / np.linalg.norm(model.coef_)
    np.testing.assert_allclose(-unit_slope, unit, atol=1e-5)
    # As AUUC-max does under a small norm.
    small = AUUCMax(weights="uniform", selection=None, norm=1e-4).fit(X, trial.y, **given)
    scaled = ClassMeans().fit(X, trial.y, **given)
    assert np.corrcoef(small.predict(X), scaled.predict(X))[0, 1] > 0.9999


# The page.


def shifted(shift=0.0, trial=table_1.MAIN, splits=3):
    """Lines with AUUC = .03 + noise of the split, the paper's own model shifted."""
    found = []
    for k in range(splits):
        for place, model in enumerate(table_1.MODELS):
            own = shift if model == PAPERS_OWN else 1e-6 * place * (1 + k)
            auuc, risk = 0.03 + 0.001 * np.cos(k), [0.9 - 0.001 * j - own for j in range(9)]
            found.append(
                made_up(
                    table_1.NAME, trial, model, k, cpu_seconds=1.0 + place, auuc=auuc + own,
                    auuc_separate=auuc, random=0.0226, n_parameters=23, policy_risk=risk,
                    policy_risk_error=[0.004] * 9,
                )
            )  # fmt: skip
    return found


def test_the_papers_two_tables_disagree():
    """AUUC is the mean over shares of the risk of treating nobody less that at the share."""

    def implied(risks):
        ends = 1 - control_rate, 1 - treated_rate
        return float(np.trapezoid(ends[0] - np.array([ends[0], *risks, ends[1]]), dx=0.1))

    hillstrom = load_hillstrom()
    control_rate, treated_rate = (hillstrom.y[hillstrom.treatment == arm].mean() for arm in (0, 1))
    found = {model: implied(risks) for model, risks in table_1.PAPER_RISK.items()}
    assert found == pytest.approx({"TM": 0.0312, "SDR": 0.0318, PAPERS_OWN: 0.0315}, abs=1e-4)
    # The same sum of our own risks is the AUUC of the same lines.
    main = scores_of(read_lines(results_file(table_1.NAME, RESULTS)))
    risks = np.mean([main.lines[TM][k]["policy_risk"] for k in main.splits(TM)], axis=0)
    assert implied(risks) == pytest.approx(main.mean(TM), abs=2e-4)


def test_claims_are_judged_by_the_lines():
    for shift, holds in ((0.001, "yes"), (-0.001, "no")):
        first, by_bound, time, risk = table_1.claims(shifted(shift))
        assert first.holds == by_bound.holds == holds
        assert time.holds == "no"  # made-up times grow with the place in the table
        assert risk.holds == "no"
    risks = table_1.render(shifted(0.001)).split("## Table 6")[1].splitlines()
    lowest = next(row for row in risks if row.startswith(f"| {PAPERS_OWN} |"))
    assert lowest.count("**") == 2 * len(SHARES)


def test_the_picture_and_paired_columns_use_the_splits_that_both_have():
    lines = [x for x in shifted(splits=5) if not (x["model"] == "TARNet" and x["split"] > 2)]
    scores = scores_of(lines)
    assert rows_of(table_1.render(lines), "TARNet")[0][1] == "3"
    expected = scores.difference("CVT", TM, splits=scores.common)
    assert expected != scores.difference("CVT", TM)
    drawn = draw(lines).axes[0].containers
    halves = [float(np.ptp(c.lines[2][0].get_segments()[0][:, 1])) / 2 for c in drawn]
    assert min(abs(h - (expected.high - expected.low) / 2) for h in halves) < 1e-12


def test_other_trials_get_ranks_only_when_they_are_there():
    alone = shifted(splits=20)
    assert "mean rank" not in table_1.render(alone)
    assert "mean rank" in table_1.render(alone + shifted(-0.02, trial="neighbours", splits=20))


def test_kept_means_are_within_the_papers_deviation():
    lines = read_lines(results_file(table_1.NAME, RESULTS))
    main = scores_of(lines)
    for model in ("TM", "CVT", "SDR", PAPERS_OWN, "AUUC-max s_poly, cv"):
        assert len(main.splits(model)) == table_1.LINEAR_SPLITS
        assert table_1.is_within(main, model), model
