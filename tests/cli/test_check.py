"""``auucmax check``: exit codes, arms, groups, the page, and the numbers of the effect."""

import pytest
from scipy.stats import norm
from tests.cli.commands import ALL_BUT_PERSON, numbers, result_of, run

from auucmax.data import make_trial
from auucmax.model import load
from auucmax.model.check import POWER, check_trial


def test_the_smallest_effect_is_detected_as_often_as_reported():
    """By a two-sided test at 5%: the power of that effect, from the normal law."""
    (one,) = check_trial(make_trial(2_000, n_features=4, random_state=0)).arms
    shift = one.detectable / one.effect.se
    assert norm.sf(norm.isf(0.025) - shift) == pytest.approx(POWER)


def test_the_effect_is_that_of_the_model(files):
    (arm,) = result_of(f"check {files.trial} {ALL_BUT_PERSON}")["arms"]
    fitted = load(files.model).evidence.arms[0].effect
    for name in ("value", "lower", "upper"):
        assert arm["effect"][name] == pytest.approx(getattr(fitted, name))
    assert "sample ratio" not in {test["name"] for test in arm["randomisation"]["tests"]}


def test_planned_shares_are_tested_for_one_arm_and_several(files):
    line = f"check {files.trial} -t arm -y visit --control none --ignore person"
    for more, failed in (("mail=.45,phone=.1", False), ("mail=.3,phone=.3", True)):
        result = run(f"{line} --expected-share {more}")
        assert result.exit_code == failed, result.output
    found = result_of(f"check {files.trial} {ALL_BUT_PERSON} --expected-share .5")
    assert "sample ratio" in {test["name"] for test in found["arms"][0]["randomisation"]["tests"]}
    for share in ("50", "mail=.5,fax=.2"):
        refused = run(f"{line} --expected-share {share}")
        assert refused.exit_code == 2
        assert "--expected-share" in refused.stderr


def test_a_page_shows_the_check(files, tmp_path):
    page = tmp_path / "check.html"
    found = numbers(f"check {files.trial} {ALL_BUT_PERSON} --page {page}")
    assert found["file"] == str(page)
    assert files.trial.name in page.read_text(encoding="utf-8")
    same = run(f"check {files.trial} {ALL_BUT_PERSON} --page {files.trial}")
    assert same.exit_code == 2
