"""``auucmax check``: exit codes, arms, groups, the page, and the numbers of the effect."""

import numpy as np
import pandas as pd
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


def test_rows_of_other_arms_are_counted(tmp_path):
    rows = {"arm": ["a", "b", "c"] * 40, "visit": [0, 1] * 60, "age": range(120)}
    pd.DataFrame(rows).to_csv(tmp_path / "t.csv", index=False)
    line = f"check {tmp_path}/t.csv -t arm -y visit --control a"
    assert result_of(f"{line} --treated b")["other_arms"] == {"c": 40}
    both = result_of(line)
    assert both["other_arms"] == {}
    assert [arm["arm"] for arm in both["arms"]] == ["b", "c"]


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
        result = run(f"{command} --json")
        assert result.exit_code == 1
        assert '"missing outcomes"' in result.stdout
    # Three arms are each compared with the control.
    table["mail"] = np.where((mail == 1) & (rng.random(n) < 0.5), 2, mail)
    table.drop(columns="chance").to_csv(tmp_path / "t.csv", index=False)
    assert run(f"check {tmp_path}/t.csv -t mail -y visit --control 0 --groups shop").exit_code == 1


def test_a_failed_check_is_a_reason_and_a_next_step(files, tmp_path):
    table = pd.read_csv(files.trial)
    table["sent"] = (table["arm"] == "mail").astype(int)
    table.to_csv(tmp_path / "sent.csv", index=False)
    assert run(f"check {tmp_path}/sent.csv {ALL_BUT_PERSON}").exit_code == 1
    fitted = run(f"fit {tmp_path}/sent.csv {ALL_BUT_PERSON} -o {tmp_path}/m.model")
    assert (fitted.exit_code, fitted.stdout) == (1, "")
    lines = [line for line in fitted.stderr.splitlines() if not line.startswith("note: ")]
    assert len(lines) == 2
    assert "sent" in lines[0]
    assert not (tmp_path / "m.model").exists()


def test_a_page_shows_the_check(files, tmp_path):
    page = tmp_path / "check.html"
    found = numbers(f"check {files.trial} {ALL_BUT_PERSON} --page {page}")
    assert found["file"] == str(page)
    assert files.trial.name in page.read_text(encoding="utf-8")
    same = run(f"check {files.trial} {ALL_BUT_PERSON} --page {files.trial}")
    assert same.exit_code == 2


def test_codes_and_quantities(files, tmp_path):
    table = pd.read_csv(files.trial)
    rng = np.random.default_rng(0)
    table = table.assign(
        plan=rng.choice([1, 2, 7], len(table)), zip=rng.integers(9, 60, len(table))
    )
    table.to_csv(tmp_path / "t.csv", index=False)
    line = f"check {tmp_path}/t.csv {ALL_BUT_PERSON}"
    found = result_of(line)
    assert found["codes"] == ["plan"]
    assert "zip" in found["quantities"]
    decided = result_of(f"{line} --numeric plan --categorical zip")
    assert decided["codes"] == []
    assert "zip" not in decided["quantities"]
