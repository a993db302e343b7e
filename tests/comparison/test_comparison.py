"""Tables and pictures of a comparison."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from tests.comparison.spies import LINEAR, TRIAL, Spy

from auucmax import TwoModels
from auucmax.comparison import Comparison, compare


class Noise(Spy):
    """Scores at random, from its own random state."""

    def predict(self, X):
        return np.random.default_rng(self.random_state).normal(size=len(X))


@pytest.mark.gate
def test_a_model_that_failed_is_never_the_one_to_compare_with():
    lines = [
        {"model": name, "split": split, "auuc": auuc, "standard_error": 0.01, "gain": auuc - 0.1,
         "effect": 0.2, "gain_standard_error": 0.01, "fit_seconds": 1.0, "n_parameters": 3,
         "n_train": 70,
         "n_test": 30, "error": None if auuc == auuc else "ValueError: no."}
        for name, values in {
            "lucky": [0.9, *[np.nan] * 7],
            "mostly": [0.5] * 6 + [np.nan] * 2,
            "never": [np.nan] * 8,
            "good": [0.30, 0.31, 0.32, 0.30, 0.33, 0.31, 0.30, 0.32],
            "worse": [0.20, 0.22, 0.21, 0.20, 0.24, 0.21, 0.22, 0.20],
        }.items()
        for split, auuc in enumerate(values)
    ]  # fmt: skip
    found = Comparison(pd.DataFrame(lines), 0.3, tuple(range(8)), "made up", 100)
    assert found.summary().index.tolist() == ["good", "worse", "mostly", "lucky", "never"]
    assert found.summary()["n_failed"].tolist() == [0, 0, 2, 7, 8]
    table = found.differences()
    assert table.attrs["reference"] == "good"
    assert table.loc["worse", "p_value"] < 0.05
    # The same splits on both sides.
    assert table.loc["lucky", "difference"] == pytest.approx(0.9 - 0.30)
    assert table.loc["mostly", "n_splits"] == 6
    hollow = [line.get_markerfacecolor() for line in found.plot().lines if line.get_marker() == "o"]
    assert [colour == "white" for colour in hollow] == [False, False, True, True, True]


def test_differences_are_nadeau_and_bengios():
    found = compare([*LINEAR, Noise()], TRIAL, splits=6, test_size=0.2)
    auuc = found.frame.pivot(index="split", columns="model", values="gain")
    table = found.differences(reference="Noise", level=0.9)
    assert "Noise" not in table.index
    assert table.attrs["reference"] == "Noise"
    for name, row in table.iterrows():
        d = (auuc[name] - auuc["Noise"]).to_numpy()
        t = d.mean() / np.sqrt((1 / 6 + 120 / 480) * d.var(ddof=1))
        assert row["difference"] == pytest.approx(d.mean())
        assert row["p_value"] == pytest.approx(2 * stats.t.sf(abs(t), 5))
        half = stats.t.ppf(0.95, 5) * abs(d.mean() / t)
        assert row["lower"] == pytest.approx(d.mean() - half)
        assert row["upper"] == pytest.approx(d.mean() + half)
        # Without the correction the same numbers would look far more certain.
        assert row["p_value"] > stats.ttest_1samp(d, 0).pvalue
    p = np.sort(table["p_value"])
    holm = np.minimum(np.maximum.accumulate(p * [3, 2, 1]), 1)
    np.testing.assert_allclose(np.sort(table["p_holm"]), holm)
    best = found.differences()
    assert best.attrs["reference"] == found.summary().index[0]
    assert (best["difference"] <= 0).all()
    assert best.index.tolist() == found.summary().index.tolist()[1:]


def test_equal_models_do_not_differ():
    found = compare({"one": TwoModels(), "two": TwoModels()}, TRIAL, splits=3)
    row = found.differences().iloc[0]
    assert (row["difference"], row["p_value"], row["p_holm"]) == (0, 1, 1)
    assert found.summary()["mean_rank"].tolist() == [1.5, 1.5]
    assert found.summary()["share_best"].tolist() == [1, 1]


def test_summary_by_hand():
    found = compare([*LINEAR, Noise()], TRIAL, splits=5)
    table = found.summary()
    assert table["mean_auuc"].is_monotonic_decreasing
    auuc = found.frame.pivot(index="split", columns="model", values="auuc")
    ranks = stats.rankdata(-auuc.to_numpy(), axis=1).mean(axis=0)
    for name, rank in zip(auuc.columns, ranks, strict=True):
        assert table.loc[name, "mean_auuc"] == pytest.approx(auuc[name].mean())
        assert table.loc[name, "sd_auuc"] == pytest.approx(auuc[name].std(ddof=1))
        assert table.loc[name, "mean_rank"] == pytest.approx(rank)
    assert table["share_best"].sum() == pytest.approx(1)
    seconds = found.frame.groupby("model")["fit_seconds"].median()
    assert table["fit_seconds"].to_dict() == pytest.approx(seconds.to_dict())
    assert table["n_parameters"].drop("Noise").to_dict() == {
        "TwoModels": 10, "TransformedOutcome": 5, "MinimaxLinear(scale='column-l2')": 10,
    }  # fmt: skip
    assert np.isnan(table.loc["Noise", "n_parameters"])


@pytest.mark.gate
def test_drawn():
    found = compare([*LINEAR, Noise()], TRIAL, splits=4)
    ax = found.plot()
    assert [label.get_text().replace("\n", " ") for label in ax.get_yticklabels()] == list(
        found.summary().index
    )
    means = [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "o"]
    np.testing.assert_allclose(means, found.summary()["mean_auuc"])
    low, high = ax.get_xlim()
    half_effect = found.frame["effect"].mean() / 2
    assert low < half_effect < high
    assert any(np.allclose(line.get_xdata(), half_effect) for line in ax.lines)
    assert found.plot(ax=ax) is ax
