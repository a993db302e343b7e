"""Examples run, and what they print is true of the populations that they simulate."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import rankdata

from auucmax.campaign.verify import ForecastVerdict

pytestmark = pytest.mark.gate

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_after_a_campaign():
    found = load("after_a_campaign").main()
    for verification, truth in found.values():
        own = verification.against("nobody")
        assert own.gain.lower < truth < own.gain.upper
        assert own.certified_lower < truth < own.certified_upper
    kept, worn = (found[name][0] for name in ("as in the trial", "worn out"))
    assert kept.forecast.verdict == ForecastVerdict.CONFIRMED
    assert worn.forecast.verdict == ForecastVerdict.BELOW


def test_the_loop(capsys):
    example = load("the_loop")
    story = example.main()
    page = EXAMPLES.parent / "docs" / "guide" / "loop.md"
    assert f"```text\n{capsys.readouterr().out}```" in page.read_text()
    found, truth = story["found"], story["truth"]
    own, forecast = found.against("nobody"), story["forecast"].gain
    assert own.certified_lower <= own.gain.lower < truth < own.gain.upper <= own.certified_upper
    assert forecast.lower < truth < forecast.upper
    assert found.forecast.verdict == ForecastVerdict.CONFIRMED
    # The gain of a ranking is the covariance of effect and rank.
    people = story["people"]
    effect = example.effect_of(people)

    def gain(score):
        return np.cov(effect, rankdata(score) / len(people))[0, 1]

    by_age = gain(people["age"])
    assert all(look.lower < by_age < look.upper for _, look, _ in story["looks"])
    assert story["looks"][-1][1].lower > 0
    for model in (story["model"], story["again"]):
        assert 0 < model.evidence.arms[0].certificate.gain < gain(model.predict(people))
    assert len(example.draw(story).axes) == 2
