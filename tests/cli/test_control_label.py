"""A label "control" is the control in every command, unless --control names another."""

import pandas as pd
import pytest
from tests.cli.commands import result_of, run
from tests.model.trial_table import trial_table

TRIAL = "-t arm -y visit --ignore person --after sent"
LOOK = "-t arm -y visit --id person --date sent --score-column spent --as-of 2026-06-01"


def table_of(arms, names):
    """Rows of these arms of the trial, under other names, with the day of each row."""
    table = trial_table(3_000, random_state=3).query("arm in @arms").reset_index(drop=True)
    sent = pd.Timestamp("2024-01-01") + pd.to_timedelta(table.index % 20, "D")
    return table.assign(arm=table["arm"].map(dict(zip(arms, names, strict=True))), sent=sent)


@pytest.fixture(params=["control", " Control"])
def two(request, tmp_path):
    """A trial whose first arm by the alphabet is the treated one."""
    path = tmp_path / "two.csv"
    table_of(["none", "mail"], [request.param, "a-mail"]).to_csv(path, index=False)
    return path


@pytest.fixture
def three(tmp_path):
    path = tmp_path / "three.csv"
    names = ["control", "mail", "phone"]
    table_of(["none", "mail", "phone"], names).to_csv(path, index=False)
    return path


def effect_in(found):
    return found["arms"][0]["effect"]


def test_of_two_labels_the_other_one_is_treated(two, tmp_path):
    for line in (
        f"check {two} {TRIAL}",
        f"fit {two} {TRIAL} -m tm -o {tmp_path}/m.auucmax",
        f"evaluate {two} -t arm -y visit --score-column spent --after sent",
    ):
        assert effect_in(result_of(line))["value"] > 0.05
    look = result_of(f"monitor {two} --state {tmp_path}/s {LOOK}")
    assert effect_in(look)["lower"] > 0
    verified = result_of(f"verify {two} -t arm -y visit --chosen member")
    gain = next(one for one in verified["comparisons"] if one["against"] == "nobody")
    assert gain["gain"]["lower"] > 0
    assert run(f"plan {two} -t arm -y visit --effect .03 --gain .006").exit_code == 0
    assert run(f"compare {two} {TRIAL} --models tm,cvt --splits 2").exit_code == 0


def test_another_control_may_be_named(two, tmp_path):
    named = "--control a-mail"
    assert effect_in(result_of(f"check {two} {TRIAL} {named}"))["value"] < -0.05
    fitted = result_of(f"fit {two} {TRIAL} -m tm -o {tmp_path}/m {named}")
    assert effect_in(fitted)["value"] < -0.05
    look = result_of(f"monitor {two} --state {tmp_path}/s {LOOK} {named}")
    assert effect_in(look)["upper"] < 0


def test_empty_cells_are_no_label(two):
    table = pd.read_csv(two)
    table.assign(arm=table["arm"].where(table["arm"] == "a-mail")).to_csv(two, index=False)
    found = run(f"check {two} {TRIAL} --control", "")
    assert found.exit_code == 2
    assert "write a label" in found.stderr
