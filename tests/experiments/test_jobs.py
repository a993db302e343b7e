import json
import re

import numpy as np
import pytest
from experiments import jobs, jobs_page
from experiments.harness import Task, run_tasks
from experiments.jobs_page import Curve, Gap
from scipy.stats import ttest_1samp

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
@pytest.mark.gate
def test_a_small_search_of_the_networks(monkeypatch, tmp_path):
    monkeypatch.setattr(jobs, "POINTS", 2)
    for name in ("TARNet", "GANITE"):
        grid = jobs.SEARCHED[name]
        values = grid.values | {"max_epochs": (1, 2), "batch_size": (500,)}
        fixed = grid.fixed | ({"generator_epochs": 1} if name == "GANITE" else {})
        monkeypatch.setitem(jobs.SEARCHED, name, grid._replace(values=values, fixed=fixed))
    tasks = [task for task in jobs.tasks(1) if task.model in ("TARNet", "GANITE")]
    path = tmp_path / "jobs.jsonl"
    run_tasks(tasks, path, run=jobs.run, parameters=jobs.parameters, jobs=1)
    text = path.read_text()
    run_tasks(tasks, path, run=jobs.run, parameters=jobs.parameters, jobs=1)
    assert path.read_text() == text  # nothing is done again
    lines = [json.loads(line) for line in text.splitlines()]
    assert len(lines) == 4
    for line in lines:
        points = jobs.drawn_points(jobs.SEARCHED[line["model"]], 0)
        assert len(points) == 2
        assert line["chosen"] in points
        assert line["parameters"]["points"] == 2
    said = jobs_page.render(lines)
    assert "TARNet (1 of 10 splits), GANITE (1 of 10 splits)." in said


def test_grids_are_those_of_the_paper():
    """Table 5 of the paper, value by value."""
    l2, batch, epochs = (0, 1e-6, 1e-4, 1e-2), (100, 500, 1000), (50, 100, 500)
    searched = {name: grid.values for name, grid in jobs.SEARCHED.items()}
    assert searched == {
        # Solved exactly: learning rate, batch size and epochs have no part in it.
        "TM": {"l2": l2},
        "SDR": {"l2": l2},
        "TARNet": {
            "learning_rate": (1e-4, 1e-3, 1e-2),
            "l2": tuple(2 * value for value in l2),  # of half the squared weights
            "batch_size": batch,
            "max_epochs": epochs,
        },
        "GANITE": {
            "learning_rate": (1e-5, 1e-4, 1e-3),
            "batch_size": batch,
            "max_epochs": epochs,
            "hidden": (30, 50, 100),
            "alpha": (1, 100, 1000),
        },
    }
    ours = jobs.parameters(Task(jobs.NAME, jobs.ALL, "AUUC-max", 0))
    assert ours["grid"] == (0.005, 0.01, 0.05, 0.1, 0.5)
    assert (ours["solver"], ours["selection"]) == ("auto", "bound")
    assert (jobs.POINTS, jobs.SPLITS) == (50, 10)


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


def test_quick_models_come_first():
    assert [t.model for t in jobs.tasks(1)][::2] == list(jobs.MODELS)
    assert jobs.MODELS[-1] == "GANITE"
    assert len(jobs.tasks()) == 120
    assert set(jobs.MODELS) == set(jobs_page.MODELS)
    assert jobs_page.SPLITS == jobs.SPLITS


# The page. Made-up lines: a valley around one share.


def made_up(best, depth=0.3, gain=0.0, noise=0.002, splits=10, trial="all rows"):
    """Lines of the models in ``best``, whose mean risk is lowest at the share given there."""
    lines, shares = [], np.linspace(0, 1, 41)
    for number, (model, share) in enumerate(best.items()):
        for split in range(splits):
            rng = np.random.default_rng([number, split])
            risk = 0.2 + depth * (shares - share) ** 2 + noise * rng.normal()
            risk[[0, -1]] += 0.01 * rng.normal(size=2)
            error = [None, *[0.05] * 40]
            grid = [0.005, 0.5] if model == "AUUC-max" else {"l2": [0.0]}
            lines.append(
                {
                    "experiment": "jobs", "trial": trial, "model": model, "split": split,
                    "parameters": {"grid": grid, "points": 50, "fixed": {"generator_epochs": 20}},
                    "versions": {"Python": "3"}, "date": "2026-01-01", "fit_seconds": 60.0,
                    "risk": risk.tolist(), "risk_error": error,
                    "sign_rule": {"share": 0.7, "risk": 0.3, "error": 0.1},
                    "auuc": 0.04 + gain + 0.01 * rng.normal(), "random": 0.04,
                    "chosen": {"norm": 0.005 if split else 0.5},
                    "train_rows": 2570, "train_randomised": 578, "test_rows": 144,
                }
            )  # fmt: skip
    return lines


def test_the_claims_are_chosen_by_the_lines():
    (claim,) = jobs_page.claims(made_up({"AUUC-max": 0.5, "TARNet": 0.95}))
    assert (claim.holds, "AUUC-max at 0.5, TARNet at 0.95" in claim.found) == ("yes", True)
    (claim,) = jobs_page.claims(made_up({"AUUC-max": 0.9, "TARNet": 0.5}))
    assert claim.holds == "no"
    (claim,) = jobs_page.claims(made_up({"AUUC-max": 0.5, "TARNet": 0.5}))
    assert claim.holds == "in part"


def test_an_unfinished_model_is_left_out_and_said():
    whole = made_up({"AUUC-max": 0.5, "TM": 0.5})
    # Treating everyone has another risk on the splits that the others have.
    part = [line | {"risk": [0.9] * 41} for line in made_up({"TARNet": 0.5}, splits=9)]
    said, alone = jobs_page.render(whole + part), jobs_page.render(whole)
    assert "TARNet (9 of 10 splits), GANITE (0 of 10 splits)." in said
    assert "| TARNet |" not in said
    rows = [[x for x in text.splitlines() if x.startswith("| AUUC")] for text in (said, alone)]
    assert rows[0] == rows[1]
    figure = jobs_page.draw(whole + part)
    assert sum(len(line.get_xdata()) == 41 for line in figure.axes[0].lines) == 3
    texts = [text.get_text() for text in figure.axes[2].texts]
    assert texts == [f"unfinished: {n} of 10 splits" for n in (0, 9, 0)]


def test_a_part_of_a_run_can_be_shown():
    said = jobs_page.render(made_up({"TM": 0.5}, splits=1, trial="randomised rows"))
    assert "## Trained on randomised rows: 2,570" in said
    assert "TM (1 of 10 splits)" in said
    assert "| TM |" not in said
    assert "## Trained on all rows" not in said
    assert "inf" not in said
    assert "nan" not in said


def with_two_ranges():
    """Lines whose risk at .425 to .475, and at 0, is above that of the others, all alike."""
    lines = made_up({"TARNet": 0.5}, depth=0.0)
    for line in lines:
        risk = np.full(41, 0.2)
        risk[20] = 0.15 + 0.2 * (-1) ** line["split"]
        risk[[0, 17, 18, 19]] = risk[20] + 0.1
        line["risk"] = risk.tolist()
    return lines


def test_what_is_not_told_from_the_lowest_need_not_be_one_range():
    lines = with_two_ranges()
    curve = Curve("TARNet", tuple(lines))
    assert curve.best_share == 0.5
    assert curve.ranges() == [pytest.approx((0.025, 0.4)), pytest.approx((0.5, 1.0))]
    assert " | 0.025 to 0.4, 0.5 to 1 | " in jobs_page.render(lines)
    strip = jobs_page.draw(lines).axes[2]
    drawn = [line.get_xdata() for line in strip.lines if len(line.get_xdata()) == 2]
    assert drawn == [pytest.approx([0.0125, 0.4125]), pytest.approx([0.4875, 1.0])]
    alone = jobs_page.render(made_up({"TM": 0.5}, depth=1.0))
    assert re.search(r"\| TM \| 10 \| 0\.5 \| [^|]* \| 0\.5 \| ", alone)


def test_a_gap_is_wider_for_splits_that_share_rows():
    values = np.array([0.1, 0.3, 0.15, 0.35])
    alone, shared = Gap.of(values, 0.0), Gap.of(values, 0.25)
    low, high = ttest_1samp(values, 0).confidence_interval()
    assert (alone.mean - alone.half, alone.mean + alone.half) == pytest.approx((low, high))
    assert shared.half == pytest.approx(alone.half * np.sqrt(2))
    assert alone.is_clear
    assert not shared.is_clear
    assert not Gap.of([0.3], 0.25).is_clear


def test_the_lowest_point_and_what_is_not_told_from_it():
    lines = made_up({"TM": 0.5}, depth=1.0)
    curve = Curve("TM", tuple(lines))
    assert curve.best_share == 0.5
    inner = curve.not_told_from_best()
    assert inner.tolist() == [0.5]  # noise is common to all inner shares of a split
    assert curve.chosen_elsewhere() == pytest.approx(curve.mean[20])
    assert np.isnan(curve.errors[0])
    assert curve.errors[1:] == pytest.approx(0.05)
    two = [line | {"risk": risk} for line, risk in zip(lines, ([0, 1], [1, 0.5]), strict=False)]
    # Each split is judged at the share that is best on the other one.
    assert Curve("TM", tuple(two)).chosen_elsewhere() == 1.0


def test_the_picture(tmp_path):
    best = {"AUUC-max": 0.5, "TM": 0.6, "TARNet": 0.95, "AUUCMax()": 0.2}
    figure = jobs_page.draw(made_up(best) + made_up({"GANITE": 0.3}, trial="randomised rows"))
    figure.savefig(tmp_path / "jobs.png")
    curves, strip = figure.axes[0], figure.axes[2]
    assert [ax.get_title() for ax in figure.axes[:2]] == [
        "trained on all rows", "trained on randomised rows",
    ]  # fmt: skip
    points = [line for line in strip.lines if len(line.get_xdata()) == 1]
    assert [line.get_xdata()[0] for line in points] == pytest.approx([0.5, 0.6, 0.95])
    assert sum(len(line.get_xdata()) == 41 for line in curves.lines) == 4  # and a random ranking
