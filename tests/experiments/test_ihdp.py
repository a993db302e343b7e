import json

import numpy as np
import pytest
from experiments import ihdp
from experiments.harness import Task

from auucmax.data import DataNotFoundError

pytestmark = pytest.mark.gate


def why_missing():
    try:
        ihdp.load_split("replication 1", 0)
    except DataNotFoundError:
        return "AUUCMAX_DATA has no ihdp folder"
    return None


REASON = why_missing()
needs_data = pytest.mark.skipif(REASON is not None, reason=str(REASON))


def test_auuc_of_true_effects():
    rng = np.random.default_rng(0)
    effect, score = rng.normal(2, 1, 40), rng.integers(0, 5, 40)

    def slow():
        total = 0.0
        for i in range(40):
            above, tied = np.sum(score > score[i]), np.sum(score == score[i])
            total += effect[i] * (1 - (above + (tied + 1) / 2 - 0.5) / 40)
        return total / 40

    assert ihdp.true_auuc(effect, score) == pytest.approx(slow())
    assert ihdp.true_auuc(effect, np.ones(40)) == pytest.approx(effect.mean() / 2)
    assert ihdp.true_auuc(effect, effect) > ihdp.true_auuc(effect, score)
    assert ihdp.true_auuc(effect, effect) == pytest.approx(ihdp.true_auuc(effect, effect**3))


def run_first(models):
    tasks = [t for t in ihdp.tasks(1) if t.trial == "replication 1" and t.model in models]
    lines = [ihdp.run(task) for task in tasks]
    json.dumps(lines, allow_nan=False)
    for line in lines:
        assert line["true_auuc"] < line["best_auuc"]
        assert line["mean_effect"] == pytest.approx(4.0, abs=0.2)
    return {line["model"]: line for line in lines}


@needs_data
@pytest.mark.gate
def test_a_split_of_the_networks(monkeypatch):
    monkeypatch.setitem(ihdp.NETWORK, "max_epochs", 20)
    own = run_first(ihdp.NETWORKS)
    assert set(own) == set(ihdp.NETWORKS)
    # A hundred steps are enough to see a mean effect of four.
    assert abs(own["TARNet"]["mean_error"]) < 1
    assert own["TARNet"]["parameters"]["max_epochs"] == 20


@needs_data
def test_a_split_of_the_linear_models():
    own = run_first(set(ihdp.MODELS) - set(ihdp.NETWORKS))
    assert [*own] == ["TM", "MOM", "DDR", "SDR", "MML"]
    # Straight lines come close to the effects of this replication; a constant does not.
    assert own["TM"]["pehe"] < own["TM"]["effect_spread"]
    assert ihdp._gain(own["TM"]) > 0.7
    assert "(best constant)" in ihdp.render([*own.values()])


def made_up(pehe, gain, replications=10, splits=2):
    """Lines of the models in ``pehe``, whose gains are those given, give or take a hundredth."""
    return [
        {
            "experiment": "ihdp", "trial": ihdp.REPLICATIONS[number], "model": model,
            "split": split, "versions": {"Python": "3"}, "date": "2026-01-01",
            "pehe": pehe[model], "train_pehe": pehe[model], "mean_effect": 4.0,
            "mean_error": -0.1, "effect_spread": 1.0, "best_auuc": 3.0,
            "true_auuc": 2.0 + gain[model] + 0.01 * (-1) ** (number + place),
            "auuc": 2.5 - gain[model], "treated": 0.19, "fit_seconds": 60.0,
        }
        for place, model in enumerate(pehe)
        for number in range(replications)
        for split in range(splits)
    ]  # fmt: skip


def test_the_text_is_chosen_by_the_lines():
    said = ihdp.render(made_up({"TM": 0.6, "TARNet": 0.9}, {"TM": 0.8, "TARNet": 0.5}))
    assert (
        "TM ranks best (80% of the best gain) and has the smallest PEHE in the middle replication."
        in said
    )
    assert "Its gain is above that of every other model" in said
    assert (
        "larger PEHE than the two straight lines of TM (0.90 against 0.60) and ranks worse" in said
    )
    assert "1.00 ± 0.00" in said
    said = ihdp.render(made_up({"TM": 0.9, "TARNet": 0.6}, {"TM": 0.80, "TARNet": 0.74}))
    assert "TM ranks best" in said
    assert "middle replication is that of TARNet (74% of the best gain)" in said
    assert (
        "smaller PEHE than the two straight lines of TM (0.60 against 0.90) and ranks about as"
        in said
    )
    said = ihdp.render(made_up({"TM": 0.6, "DDR": 0.605}, {"TM": 0.8, "DDR": 0.8}))
    assert "does not differ clearly from" in said
    assert "ranks best (80% of the best gain) and has, with " in said


def test_the_mean_and_the_middle_replication_may_disagree():
    lines = made_up({"TM": 0.6, "TARNet": 0.9}, {"TM": 0.8, "TARNet": 0.5})
    assert "By the mean over replications" not in ihdp.render(lines)
    wide = [
        line | {"pehe": 20.0} if (line["trial"], line["model"]) == ("replication 9", "TM") else line
        for line in lines
    ]
    said = ihdp.render(wide)
    assert "TM ranks best (80% of the best gain) and has the smallest PEHE in the middle" in said
    assert "By the mean over replications" in said
    assert "the smallest PEHE is that of TARNet." in said


def test_models_that_are_still_being_run_are_not_compared():
    lines = made_up({"TM": 0.6, "SDR": 0.7}, {"TM": 0.5, "SDR": 0.4})
    said = ihdp.render(lines + made_up({"GANITE": 0.1}, {"GANITE": 0.9}, replications=2))
    assert "| GANITE |" in said
    assert "TM ranks best" in said


def test_outcomes_that_mislead_are_said():
    models = ("TM", "SDR", "TARNet")
    gain = dict(zip(models, (0.8, 0.5, 0.2), strict=True))
    said = ihdp.render(made_up(dict.fromkeys(models, 0.6), gain))
    assert "rank correlation of -1.00 with the true order" in said
    assert "rank correlation" not in ihdp.render(made_up({"TM": 0.6}, {"TM": 0.8}))


def test_tasks():
    tasks = ihdp.tasks()
    assert len(tasks) == 400
    assert tasks[0] == Task("ihdp", "replication 1", "TM", 0)
    assert {task.split for task in ihdp.tasks(2)} == {0, 1}
