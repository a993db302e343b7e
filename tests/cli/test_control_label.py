"""A label "control" is the control in every command, unless --control names another."""

import pandas as pd
import pytest
from tests.cli.commands import numbers, run
from tests.model.trial_table import trial_table

TRIAL = "-t arm -y visit --ignore person --after sent"
LOOK = "-t arm -y visit --id person --date sent --score-column spent"


def table_of(arms, names):
    """Rows of these arms of the trial, under other names, with the day of each row."""
    table = trial_table(3_000, random_state=3).query("arm in @arms").reset_index(drop=True)
    sent = pd.Timestamp("2024-01-01") + pd.to_timedelta(table.index % 20, "D")
    return table.assign(arm=table["arm"].map(dict(zip(arms, names, strict=True))), sent=sent)


@pytest.fixture(params=["control", " Control"])
def two(request, tmp_path):
    """A trial whose first arm by the alphabet may be the treated one, and the label as a text."""
    path = tmp_path / "two.csv"
    table_of(["none", "mail"], [request.param, "a-mail"]).to_csv(path, index=False)
    return path


@pytest.fixture
def three(tmp_path):
    path = tmp_path / "three.csv"
    names = ["control", "mail", "phone"]
    table_of(["none", "mail", "phone"], names).to_csv(path, index=False)
    return path


def effect_in(rows):
    return rows["mean_treated"] - rows["mean_control"]


def test_of_two_labels_the_other_one_is_treated(two, tmp_path):
    assert numbers(f"check {two} {TRIAL}")["trial"]["effects"][0]["effect"] > 0.05
    assert numbers(f"monitor {two} --state {tmp_path}/s {LOOK}")["bounds"]["effect"]["lower"] > 0
    fitted = numbers(f"fit {two} {TRIAL} -m tm -o {tmp_path}/m.auucmax")
    assert effect_in(fitted["rows"]) > 0.05
    scored = numbers(f"evaluate {two} -t arm -y visit --score-column spent --after sent")
    assert effect_in(scored["rows"]) > 0.05
    verified = numbers(f"verify {two} -t arm -y visit --chosen member")
    assert verified["comparisons"]["nobody"]["lower"] > 0
    planned = run(f"plan {two} -t arm -y visit --effect .03 --gain .006")
    assert planned.exit_code == 0, planned.output
    compared = run(f"compare {two} {TRIAL} --models tm,cvt --splits 2")
    assert compared.exit_code == 0, compared.output


def test_another_control_may_be_named(two, tmp_path):
    named = "--control a-mail"
    assert numbers(f"check {two} {TRIAL} {named}")["trial"]["effects"][0]["effect"] < -0.05
    look = numbers(f"monitor {two} --state {tmp_path}/s {LOOK} {named}")
    assert look["bounds"]["effect"]["upper"] < 0
    assert effect_in(numbers(f"fit {two} {TRIAL} -m tm -o {tmp_path}/m {named}")["rows"]) < -0.05


def test_one_arm_of_several_against_the_control(three, tmp_path):
    for line in (f"check {three} {TRIAL}", f"fit {three} {TRIAL} -m tm -o {tmp_path}/m"):
        found = numbers(f"{line} --treated phone")
        assert "arms" not in found
    assert found["table"]["left_out"].keys() == {"mail"}


def test_the_control_of_a_model_goes_before_the_label(three, tmp_path):
    model = tmp_path / "m.auucmax"
    fitted = numbers(f"fit {three} {TRIAL} -m tm -o {model} --treated mail --control phone")
    assert fitted["table"]["left_out"].keys() == {"control"}
    found = numbers(f"verify {three} -t arm --chosen member --model {model}")
    assert found["n_people"] == fitted["rows"]["n_rows"]


def test_of_more_labels_all_others_are_arms(three, tmp_path):
    named = numbers(f"check {three} {TRIAL} --control control")
    assert numbers(f"check {three} {TRIAL}") == named
    assert set(named["arms"]) == {"mail", "phone"}
    look = numbers(f"monitor {three} --state {tmp_path}/s {LOOK}")
    assert set(look["arms"]) == {"mail", "phone"}
    again = run(f"monitor {three} --state {tmp_path}/s")  # the state knows the control
    assert again.exit_code == 0, again.output
    fitted = numbers(f"fit {three} {TRIAL} -m tm -o {tmp_path}/m.auucmax")
    assert fitted["policy"]["control"] == "control"
    assert set(fitted["arms"]) == {"mail", "phone"}
