"""``auucmax check``: the verdict first, then what the trial can show."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from tests.cli.commands import ALL_BUT_PERSON, numbers, run

from auucmax import Trial
from auucmax.cli.check import POWER, detectable_effect


def test_the_smallest_effect_is_found_as_often_as_it_is_said():
    """By a two-sided test at 5%: the power of that effect, from the normal law."""
    rng = np.random.default_rng(0)
    treatment = np.arange(2_000) % 4 == 0
    trial = Trial(pd.DataFrame({"x": rng.random(2_000)}), rng.normal(size=2_000), treatment)
    (effect,) = trial.summary().effects
    shift = detectable_effect(trial) / effect.standard_error
    assert norm.sf(norm.isf(0.025) - shift) == pytest.approx(POWER)


def test_json_has_what_the_screen_says(files):
    command = f"check {files.trial} {ALL_BUT_PERSON} --expected-share .5"
    found, shown = numbers(command), run(command).stdout
    assert found["randomisation"]["verdict"] in shown
    assert f"{found['detectable_effect']:.4g}" in shown
    assert found["power"] == POWER
    assert "sample ratio" in {test["name"] for test in found["randomisation"]["tests"]}


def test_exit_code_1_if_the_check_fails(files, tmp_path):
    table = pd.read_csv(files.trial)
    table["sent"] = (table["arm"] == "mail").astype(int)
    table.to_csv(tmp_path / "sent.csv", index=False)
    assert run(f"check {tmp_path}/sent.csv {ALL_BUT_PERSON}").exit_code == 1
