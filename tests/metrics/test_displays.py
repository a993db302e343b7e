import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")
from matplotlib import pyplot as plt

from auucmax import UpliftCurveDisplay, auuc_score, load_hillstrom, uplift_curve
from auucmax.metrics import (
    DecileDisplay,
    PolicyRiskDisplay,
    policy_risk,
    policy_risk_inference,
    uplift_band,
    uplift_by_decile,
)


@pytest.fixture(scope="module")
def rows():
    trial = load_hillstrom()
    return trial.y, trial.X["womens"] + trial.X["history"] / 1e4, trial.treatment


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_the_curve_that_is_drawn_is_the_curve(rows):
    y, score, t = rows
    display = UpliftCurveDisplay.from_predictions(y, score, treatment=t, name="history")
    drawn, random = display.ax_.lines[0].get_data(), display.ax_.lines[1].get_data()
    share, uplift = uplift_curve(y - np.mean(y), score, treatment=t)
    assert len(drawn[0]) <= 1100  # many points make a heavy picture, not a better one
    assert drawn[1] == pytest.approx(np.interp(drawn[0], share, uplift), abs=1e-12)
    assert (drawn[0][-1], drawn[1][-1]) == (1, pytest.approx(uplift[-1]))
    assert random[1].tolist() == [0, drawn[1][-1]]
    (filled,) = display.ax_.collections
    corners = filled.get_paths()[0].vertices
    band = uplift_band(y, score, treatment=t)
    assert corners[:, 0].min() == band.share[0]
    assert set(band.simultaneous_lower) <= set(corners[:, 1])
    assert set(band.simultaneous_upper) <= set(corners[:, 1])
    label = display.ax_.lines[0].get_label()
    assert label.startswith(f"history: AUUC {auuc_score(y, score, treatment=t):.4f} (")


def test_several_curves_share_axes_and_one_random_line(rows):
    y, score, t = rows
    first = UpliftCurveDisplay.from_predictions(y, score, treatment=t, band=False)
    second = UpliftCurveDisplay.from_predictions(
        y, -score, treatment=t, band=False, ax=first.ax_, ranking="separate"
    )
    assert second.ax_ is first.ax_
    labels = [line.get_label() for line in first.ax_.lines]
    assert labels.count("random") == 1
    assert len(labels) == 3
    assert first.ax_.lines[0].get_color() != first.ax_.lines[2].get_color()


@pytest.mark.parametrize("display", [UpliftCurveDisplay, PolicyRiskDisplay, DecileDisplay])
def test_from_estimator(display, rows):
    y, score, t = rows

    class Model:
        def predict(self, X):
            return X["score"]

    display = display.from_estimator(Model(), {"score": score}, y, treatment=t)
    assert display.name == "Model"


def test_policy_risk_display(rows):
    y, score, t = rows
    display = PolicyRiskDisplay.from_predictions(y, score, treatment=t, name="model")
    assert display.ax_.lines[0].get_ydata() == pytest.approx(
        policy_risk(y, score, treatment=t, share=np.linspace(0, 1, 101))
    )
    assert display.risk.min() == display.risk[display.share == display.best_share]
    corners = display.ax_.collections[0].get_paths()[0].vertices
    for bound in policy_risk_inference(y, score, treatment=t, share=display.share).interval:
        assert set(bound) <= set(corners[:, 1])
    plain = PolicyRiskDisplay.from_predictions(y, score, treatment=t, band=False)
    assert len(plain.ax_.collections) == 0


def test_policy_risk_display_without_intervals():
    rng = np.random.default_rng(0)
    score, t = rng.random(200), np.arange(200) % 4 == 0
    none = PolicyRiskDisplay.from_predictions(np.zeros(200), score, treatment=t)
    assert len(none.ax_.collections) == 0
    assert len(none.ax_.get_legend().get_texts()) == 1
    some = PolicyRiskDisplay.from_predictions(1.0 * (rng.random(200) < 0.2), score, treatment=t)
    (band,) = some.ax_.collections
    given = [why is None for why in some.inference.declined]
    assert 0 < sum(given) < len(given)
    assert np.isfinite(np.concatenate([path.vertices for path in band.get_paths()])).all()
    some.ax_.figure.canvas.draw()


def test_decile_display(rows):
    y, score, t = rows
    display = DecileDisplay.from_predictions(y, score, treatment=t)
    table = uplift_by_decile(y, score, treatment=t)
    bars = [bar.get_height() for bar in display.ax_.patches]
    assert bars == pytest.approx(table["uplift"].tolist())
    (whiskers,) = display.ax_.collections
    ends = np.array([segment[:, 1] for segment in whiskers.get_segments()])
    assert ends == pytest.approx(table[["lower", "upper"]].to_numpy())
    assert display.average == pytest.approx(0.045233, abs=1e-6)
