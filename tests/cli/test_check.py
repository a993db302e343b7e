"""``auucmax check``: the verdict first, then what the trial can show."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from tests.cli.commands import ALL_BUT_PERSON, numbers, run

from auucmax import Trial
from auucmax.cli.check import POWER, detectable_effect
from auucmax.model import load_model


def test_the_smallest_effect_is_found_as_often_as_it_is_said():
    """By a two-sided test at 5%: the power of that effect, from the normal law."""
    rng = np.random.default_rng(0)
    treatment = np.arange(2_000) % 4 == 0
    trial = Trial(pd.DataFrame({"x": rng.random(2_000)}), rng.normal(size=2_000), treatment)
    (effect,) = trial.summary().effects
    shift = detectable_effect(trial.summary()) / effect.standard_error
    assert norm.sf(norm.isf(0.025) - shift) == pytest.approx(POWER)


def test_json_has_what_the_screen_says(files):
    command = f"check {files.trial} {ALL_BUT_PERSON} --expected-share .5"
    found, shown = numbers(command), run(command).stdout
    assert found["randomisation"]["verdict"] in shown
    assert f"{found['detectable_effect']:.4g}" in shown
    assert found["power"] == POWER
    assert "sample ratio" in {test["name"] for test in found["randomisation"]["tests"]}


def test_rows_of_other_arms_are_counted(tmp_path):
    rows = {"arm": ["a", "b", "c"] * 40, "visit": [0, 1] * 60, "age": range(120)}
    pd.DataFrame(rows).to_csv(tmp_path / "t.csv", index=False)
    line = f"check {tmp_path}/t.csv -t arm -y visit --control a"
    told = run(f"{line} --treated b").stdout
    assert re.search(r"rows of other arms, left out +c 40\n", told)
    assert numbers(f"{line} --treated b")["left_out"] == {"c": 40}
    assert "left out" not in run(line).stdout  # which compares all arms


def test_the_interval_of_the_effect_is_that_of_the_model(files):
    (effect,) = numbers(f"check {files.trial} {ALL_BUT_PERSON}")["trial"]["effects"]
    fitted = load_model(files.model).evidence["effect"]
    assert effect["low"] == pytest.approx(fitted["lower"])
    assert effect["high"] == pytest.approx(fitted["upper"])


def test_without_an_interval_it_says_why(tmp_path):
    rng = np.random.default_rng(0)
    spent = np.where(rng.random(400) < 0.05, rng.lognormal(3, 1, 400).round(2), 0.0)
    table = pd.DataFrame({"t": np.arange(400) % 2, "x": rng.random(400), "y": spent})
    table.to_csv(tmp_path / "few.csv", index=False)
    shown = run(f"check {tmp_path}/few.csv -t t -y y").stdout
    assert "95% interval cannot be said: only " in shown


@pytest.mark.parametrize("chances", ["", "--propensity chance"])
def test_people_lost_within_shops_are_found_with_groups(tmp_path, chances):
    """People were randomised, not the shops that they belong to."""
    rng = np.random.default_rng(0)
    n = 8_000
    mail, shop = rng.integers(2, size=n), rng.integers(60, size=n)
    table = pd.DataFrame(
        {"shop": shop, "mail": mail, "age": rng.normal(shop / 10, 1), "chance": 0.5}
    )
    table["shop"] = "shop " + table["shop"].astype(str)
    lost = rng.random(n) < np.where(mail == 1, 0.148, 0.009)
    table["visit"] = np.where(lost, np.nan, rng.random(n) < 0.2)
    table.to_csv(tmp_path / "t.csv", index=False)
    line = f"check {tmp_path}/t.csv -t mail -y visit {chances or '--ignore chance'}"
    for command in (line, f"{line} --groups shop"):
        result = run(command)
        assert result.exit_code == 1
        assert "outcomes are missing more often in one arm" in result.stdout
    counted = f"1 {lost[mail == 1].mean():.2%} ({lost[mail == 1].sum():,} of"
    assert chances or counted in " ".join(result.stdout.split())
    # Three arms are each compared with the control.
    table["mail"] = np.where((mail == 1) & (rng.random(n) < 0.5), 2, mail)
    table.drop(columns="chance").to_csv(tmp_path / "t.csv", index=False)
    arms = run(f"check {tmp_path}/t.csv -t mail -y visit --control 0 --groups shop")
    assert arms.stdout.count("The check fails: outcomes are missing more often") == 2


def test_exit_code_1_if_the_check_fails(files, tmp_path):
    table = pd.read_csv(files.trial)
    table["sent"] = (table["arm"] == "mail").astype(int)
    table.to_csv(tmp_path / "sent.csv", index=False)
    assert run(f"check {tmp_path}/sent.csv {ALL_BUT_PERSON}").exit_code == 1


def test_a_page_shows_the_check(files, tmp_path):
    found = run(f"check {files.trial} {ALL_BUT_PERSON} --page {tmp_path}/check.html")
    assert found.exit_code == 0
    assert f"Written to {tmp_path}/check.html." in found.stdout
    page = (tmp_path / "check.html").read_text(encoding="utf-8")
    assert "Can this trial be trusted?" in page
    assert files.trial.name in page
    same = run(f"check {files.trial} {ALL_BUT_PERSON} --page {files.trial}")
    assert same.exit_code == 2
    assert "another file than the input" in same.stderr


def test_a_share_in_per_cent_is_told_without_words_of_python(files):
    result = run(f"check {files.trial} {ALL_BUT_PERSON} --expected-share 50")
    assert result.exit_code == 2
    assert "Pass the share of the treated rows, such as 0.5." in result.stderr
    assert "mapping" not in result.stderr
