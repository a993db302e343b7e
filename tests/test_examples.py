"""Examples run, and what they print is true of the populations that they simulate."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import rankdata

pytestmark = pytest.mark.gate

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.gate
def test_after_a_campaign(capsys):
    found = load("after_a_campaign").main()
    for verification, truth in found.values():
        gain = verification.comparisons["nobody"]
        assert gain.lower < truth < gain.upper
        assert gain.certified_lower < truth < gain.certified_upper
    kept, worn = (found[name][0] for name in ("as in the trial", "worn out"))
    assert kept.promise.verdict == "confirmed"
    assert kept.advice.action == "keep"
    assert worn.promise.verdict == "below_forecast"
    assert worn.advice.action in ("recalibrate", "refit")
    assert (
        "auucmax assign PEOPLE --model MODEL --id ID --key NAME --share .3 --explore .1"
        in capsys.readouterr().out
    )


@pytest.mark.gate
def test_the_loop(capsys):
    example = load("the_loop")
    story = example.main()
    page = EXAMPLES.parent / "docs" / "guide" / "loop.md"
    assert f"```text\n{capsys.readouterr().out}```" in page.read_text()
    found, truth = story["found"], story["truth"]
    came, promise = found.comparisons["nobody"], story["promise"]
    assert came.certified_lower <= came.lower < truth < came.upper <= came.certified_upper
    assert promise.gain_lower < truth < promise.gain_upper
    assert (found.promise.verdict, found.advice.action) == ("confirmed", "keep")
    # The gain of a ranking is the covariance of effect and rank.
    people = story["people"]
    effect = example.effect_of(people)

    def gain(score):
        return np.cov(effect, rankdata(score) / len(people))[0, 1]

    by_age = gain(people["age"])
    assert all(bounds["lower"] < by_age < bounds["upper"] for _, bounds, _ in story["looks"])
    assert story["looks"][-1][1]["lower"] > 0
    for model in (story["model"], story["again"]):
        assert 0 < model.evidence["certificate"]["gain_lower_bound"] < gain(model.predict(people))
    assert len(example.draw(story).axes) == 2
