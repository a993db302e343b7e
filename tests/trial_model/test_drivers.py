import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from auucmax.trial_model.evidence import MOST_DRIVERS, describe_drivers, linear_weights


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "skew": rng.exponential(size=500),
            "far": 1e9 + rng.standard_normal(500),
            "city": rng.choice(["a", "b", "c"], 500),
            "holes": np.where(rng.random(500) < 0.2, np.nan, rng.standard_normal(500)),
        }
    )


def by_name(found):
    return {(row["name"], row["level"]): row for row in found["features"]}


def test_correlation_is_spearmans_and_means_are_those_of_the_groups(frame):
    rng = np.random.default_rng(1)
    score = frame["skew"].to_numpy() + rng.standard_normal(500)
    rows = by_name(describe_drivers(frame, score, share=0.2))
    top = score >= np.sort(score)[-100]
    for name in ("skew", "far", "holes"):
        known = frame[name].notna().to_numpy()
        row, x = rows[name, None], frame[name].to_numpy()
        if name != "holes":  # ranks of the score are over all rows, also where the feature is not
            expected = spearmanr(score, x).statistic
            assert row["correlation"] == pytest.approx(expected, abs=1e-6)
        assert row["top"] == pytest.approx(x[top & known].mean(), rel=1e-12)
        assert row["rest"] == pytest.approx(x[~top & known].mean(), rel=1e-12)
        difference = (x[top & known].mean() - x[~top & known].mean()) / x[known].std()
        assert row["difference"] == pytest.approx(difference, rel=1e-5)
    is_b = (frame["city"] == "b").to_numpy()
    assert rows["city", "b"]["top"] == pytest.approx(is_b[top].mean())


def test_strongest_first_and_monotone_transforms_change_nothing(frame):
    score = frame["skew"].to_numpy()
    found = describe_drivers(frame, score, share=0.3)
    assert found["features"][0]["name"] == "skew"
    assert found["features"][0]["correlation"] == pytest.approx(1)
    sizes = [abs(row["correlation"]) for row in found["features"]]
    assert sizes == sorted(sizes, reverse=True)
    assert describe_drivers(frame, np.exp(score), share=0.3) == found


def test_tied_rows_at_the_cut_count_in_part():
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0]})
    row = describe_drivers(frame, np.zeros(4), share=0.25)["features"][0]
    assert row["top"] == row["rest"] == 1.5  # whoever is picked, it is at random
    assert row["correlation"] is None


def test_many_features_are_cut_and_useless_ones_are_named():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((50, 60))).assign(one=1)
    found = describe_drivers(frame, rng.standard_normal(50), share=0.5)
    assert len(found["features"]) == MOST_DRIVERS
    assert found["n_features"] == 60
    assert found["skipped"] == ["'one' has one value only"]


def test_linear_weights_do_not_depend_on_the_units():
    deviation = pd.DataFrame({"a": [0.0, 1.0, 5.0], "b": [2.0, 2.0, 3.0]}).std(ddof=0).to_numpy()
    first = linear_weights(np.array([1.0, 3.0]), ["a", "b"], deviation)
    second = linear_weights(np.array([0.01, 3.0]), ["a", "b"], deviation * [100, 1])
    assert [t["name"] for t in first] == ["a", "b"]
    assert [t["weight"] for t in first] == pytest.approx([t["weight"] for t in second])
