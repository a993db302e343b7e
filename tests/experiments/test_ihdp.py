import json

import numpy as np
import pytest
from experiments import ihdp
from tests.experiments.made_up import made_up, rows_of

from auucmax.data import DataNotFoundError

pytestmark = pytest.mark.gate
NETWORKS = ("TARNet", "CFRNet", "GANITE")


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
def test_a_split_of_the_networks(monkeypatch):
    monkeypatch.setitem(ihdp.NETWORK, "max_epochs", 20)
    own = run_first(NETWORKS)
    assert set(own) == set(NETWORKS)
    # A hundred steps are enough to see a mean effect of four.
    assert abs(own["TARNet"]["mean_error"]) < 1
    assert own["TARNet"]["parameters"]["max_epochs"] == 20


@needs_data
def test_a_split_of_the_linear_models():
    own = run_first(set(ihdp.MODELS) - set(NETWORKS))
    assert [*own] == ["TM", "MOM", "DDR", "SDR", "MML"]
    # Straight lines come close to the effects of this replication; a constant does not.
    assert own["TM"]["pehe"] < own["TM"]["effect_spread"]
    assert ihdp.gain_of(own["TM"]) > 0.7
    assert "(best constant)" in ihdp.render([*own.values()])


def test_means_over_replications_and_the_best_ranking():
    gains = {"TM": 0.8, "SDR": 0.6, "TARNet": 0.2}
    lines = [
        made_up("ihdp", trial, model, split, pehe=1 - gain, train_pehe=0.5, mean_effect=4.0,
                mean_error=-0.1, effect_spread=1.0, best_auuc=3.0, auuc=2.5 - gain, treated=0.19,
                true_auuc=2.0 + gain + 0.01 * (-1) ** place)
        for place, trial in enumerate(ihdp.REPLICATIONS)
        for model, gain in gains.items()
        for split in range(2)
    ]  # fmt: skip
    page = ihdp.render(lines)
    assert rows_of(page, "SDR")[0][2:6] == ["0.40 ± 0.00", "0.40", "0.10 ± 0.00", "60% ± 0%"]
    assert "Best ranking: TM (80% of the best gain)" in page
    assert "rank correlation of -1.00" in page  # outcomes order the models the other way round
