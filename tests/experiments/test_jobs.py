"""Policy risk on Jobs: the search, small runs, and the curves of the page."""

import json

import numpy as np
import pytest
from experiments import jobs
from experiments.harness import Task
from experiments.jobs import Curve
from experiments.summaries import paired
from scipy.stats import ttest_1samp
from tests.experiments.made_up import made_up, rows_of

from auucmax import AUUCMax, Trial
from auucmax.certificates.bound import paper_bound
from auucmax.data import DataNotFoundError

pytestmark = pytest.mark.gate


def why_missing():
    try:
        jobs.load_split(jobs.ALL, 0)
    except DataNotFoundError:
        return "AUUCMAX_DATA has no jobs folder with the ten splits"
    return None


REASON = why_missing()
needs_data = pytest.mark.skipif(REASON is not None, reason=str(REASON))


# Running.


@needs_data
@pytest.mark.parametrize("trial", [jobs.RANDOMISED, jobs.ALL])
@pytest.mark.parametrize("model", ["AUUC-max", "AUUCMax()", "TM", "SDR"])
def test_a_split_with_the_quick_models(trial, model):
    task = Task(jobs.NAME, trial, model, 0)
    line = jobs.run(task)
    json.dumps(line, allow_nan=False)
    _, test = jobs.load_split(trial, 0)
    assert test.randomised.all()
    assert test.n_features == 17
    assert line["train_rows"] == {jobs.RANDOMISED: 578, jobs.ALL: 2570}[trial]
    assert (line["train_randomised"], line["test_rows"]) == (578, 144)
    ends = [1 - test.y[test.treatment == arm].mean() for arm in (0, 1)]
    assert [line["risk"][0], line["risk"][-1]] == pytest.approx(ends)
    assert len(line["risk"]) == len(line["risk_error"]) == 41
    assert (line["sign_rule"] is None) == (model in jobs.DIRECT)
    assert json.dumps(line["parameters"]) == json.dumps(jobs.parameters(task))


@needs_data
def test_the_norm_has_the_highest_of_the_papers_bounds():
    train, _ = jobs.load_split(jobs.ALL, 0)
    _, chosen = jobs.fit("AUUC-max", train, 0)
    bounds = {}
    for norm in (0.005, 0.01, 0.05, 0.1, 0.5):
        model = AUUCMax("s_poly", scale="column-l2", norm=norm, weights="uniform", selection=None)
        model.fit(train.X, train.y, treatment=train.treatment)
        score, reached = model.predict(train.X), float(np.linalg.norm(model.scaled_coef_))
        rows = {"treatment": train.treatment, "norm": reached, "radius": model.radius_}
        bounds[norm] = paper_bound(train.y, score, **rows).lower
    assert chosen == {"norm": max(bounds, key=bounds.get)}


@needs_data
def test_a_small_search_of_the_networks(monkeypatch):
    monkeypatch.setattr(jobs, "POINTS", 2)
    for name in ("TARNet", "GANITE"):
        grid = jobs.SEARCHED[name]
        values = grid.values | {"max_epochs": (1, 2), "batch_size": (500,)}
        fixed = grid.fixed | ({"generator_epochs": 1} if name == "GANITE" else {})
        monkeypatch.setitem(jobs.SEARCHED, name, grid._replace(values=values, fixed=fixed))
        line = jobs.run(Task(jobs.NAME, jobs.RANDOMISED, name, 0))
        points = jobs.drawn_points(jobs.SEARCHED[name], 0)
        assert len(points) == line["parameters"]["points"] == 2
        assert line["chosen"] in points
        assert f"Unfinished: {', '.join(jobs.SHOWN_MODELS)}." in jobs.render([line])


def test_points_are_drawn_once_for_a_split():
    for name, size in (("TARNet", 108), ("GANITE", 243)):
        grid = jobs.SEARCHED[name]
        drawn = jobs.drawn_points(grid, 3)
        assert len(jobs._points(grid)) == size
        assert len({str(point) for point in drawn}) == jobs.POINTS == 50
        assert drawn == jobs.drawn_points(grid, 3)
        assert drawn != jobs.drawn_points(grid, 4)
    assert jobs.drawn_points(jobs.SEARCHED["TM"], 3) == [{"l2": v} for v in (0, 1e-6, 1e-4, 1e-2)]


def test_the_search_looks_at_randomised_rows_and_fits_all():
    rng = np.random.default_rng(0)
    x, treated = rng.normal(size=4_000), rng.random(4_000) < 0.5
    randomised = np.arange(4_000) < 2_000
    # A higher x helps those who were randomised, and harms the others three times as much.
    y = np.where(randomised, x, -3 * x) * treated
    train = Trial(x[:, None], y, treated, randomised=randomised)
    fitted = []

    class ByHand:
        def __init__(self, sign, random_state):
            self.sign = sign

        def fit(self, X, y, *, treatment):
            fitted.append((self.sign, len(y)))
            return self

        def predict(self, X):
            return self.sign * X.to_numpy()[:, 0]

    grid = jobs.Grid(ByHand, {"sign": (-1, 1)}, {})
    _, chosen = jobs.search(grid, train, 0)
    assert chosen == {"sign": 1}
    assert fitted == [(-1, 3_000), (1, 3_000), (1, 4_000)]


# The page. Made-up lines: a valley around one share.


def valley(best, depth=0.3, splits=10, trial=jobs.ALL):
    """Lines of the models in ``best``, whose mean risk is lowest at the share given there."""
    lines, shares = [], np.linspace(0, 1, 41)
    for number, (model, share) in enumerate(best.items()):
        for split in range(splits):
            rng = np.random.default_rng([number, split])
            risk = 0.2 + depth * (shares - share) ** 2 + 0.002 * rng.normal()
            risk[[0, -1]] += 0.01 * rng.normal(size=2)
            lines.append(
                made_up(
                    "jobs", trial, model, split, risk=risk.tolist(),
                    risk_error=[None, *[0.05] * 40], auuc=0.04 + 0.01 * rng.normal(), random=0.04,
                    sign_rule={"share": 0.7, "risk": 0.3, "error": 0.1}, chosen={},
                    train_rows=2570, train_randomised=578, test_rows=144,
                )
            )  # fmt: skip
    return lines


@pytest.mark.parametrize(
    ("best", "holds"), [((0.5, 0.95), "yes"), ((0.9, 0.5), "no"), ((0.5, 0.5), "in part")]
)
def test_the_claims_are_chosen_by_the_lines(best, holds):
    (claim,) = jobs.claims(valley(dict(zip(("AUUC-max", "TARNet"), best, strict=True))))
    assert claim.holds == holds
    assert claim.found.startswith(f"AUUC-max at {best[0]:g}, TARNet at {best[1]:g};")


def test_an_unfinished_model_is_left_out():
    lines = valley({"AUUC-max": 0.5, "TM": 0.5}) + valley({"TARNet": 0.5}, splits=9)
    assert list(jobs.curves(lines, jobs.ALL)) == ["AUUC-max", "TM"]
    page = jobs.render(lines)
    assert rows_of(page, "TARNet") == []
    assert "Unfinished: AUUCMax(), SDR, TARNet, GANITE." in page
    figure = jobs.draw(lines)
    assert sum(len(line.get_xdata()) == 41 for line in figure.axes[0].lines) == 3


def test_what_is_not_above_the_lowest_need_not_be_one_range():
    lines = valley({"TARNet": 0.5}, depth=0.0)
    for line in lines:
        risk = np.full(41, 0.2)
        risk[20] = 0.15 + 0.2 * (-1) ** line["split"]
        risk[[0, 17, 18, 19]] = risk[20] + 0.1
        line["risk"] = risk.tolist()
    curve = Curve("TARNet", tuple(lines))
    assert curve.best_share == 0.5
    assert curve.ranges() == [pytest.approx((0.025, 0.4)), pytest.approx((0.5, 1.0))]
    assert rows_of(jobs.render(lines), "TARNet")[0][4] == "0.025 to 0.4, 0.5 to 1"
    strip = jobs.draw(lines).axes[2]
    drawn = [line.get_xdata() for line in strip.lines if len(line.get_xdata()) == 2]
    assert drawn == [pytest.approx([0.0125, 0.4125]), pytest.approx([0.4875, 1.0])]


def test_an_interval_is_wider_for_splits_that_share_rows():
    values = np.array([0.1, 0.3, 0.15, 0.35])
    alone, shared = (paired(values, np.zeros(4), overlap=ratio) for ratio in (0.0, 0.25))
    low, high = ttest_1samp(values, 0).confidence_interval()
    assert (alone.mean - alone.half, alone.mean + alone.half) == pytest.approx((low, high))
    assert shared.half == pytest.approx(alone.half * np.sqrt(2))
    assert alone.is_clear
    assert not shared.is_clear
    assert not paired([0.3], [0.0], overlap=0.25).is_clear


def test_the_lowest_point_and_the_share_that_is_best_elsewhere():
    lines = valley({"TM": 0.5}, depth=1.0)
    curve = Curve("TM", tuple(lines))
    assert curve.ranges() == [(0.5, 0.5)]  # noise is common to all inner shares of a split
    assert curve.chosen_elsewhere() == pytest.approx(curve.mean[20])
    assert np.isnan(curve.errors[0])
    assert curve.errors[1:] == pytest.approx(0.05)
    two = [line | {"risk": risk} for line, risk in zip(lines, ([0, 1], [1, 0.5]), strict=False)]
    # Each split is judged at the share that is best on the other one.
    assert Curve("TM", tuple(two)).chosen_elsewhere() == 1.0
