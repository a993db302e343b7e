import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest
from tests.cli.commands import numbers, run


@pytest.fixture(scope="module")
def campaign(files):
    """The later people of the trial, listed by `target`, after a campaign with exploration."""
    listed = files.folder / "listed.csv"
    assert run(f"target {files.model} {files.new} -s .4 -o {listed}").exit_code == 0
    rng = np.random.default_rng(0)
    people = pd.read_csv(files.new)
    top = people["person"].isin(pd.read_csv(listed)["person"]).to_numpy()
    chance = np.where(top, 0.7, 0.3)
    mail = rng.random(len(people)) < chance
    effect = np.where(people["age"].fillna(50) < 45, 0.3, 0.0)
    table = people.assign(
        top=np.where(top, "yes", "no"),
        chance=chance,
        arm=np.where(mail, "mail", "none"),
        visit=(rng.random(len(people)) < 0.2 + effect * mail).astype(int),
    )
    path = files.folder / "campaign.csv"
    table.to_csv(path, index=False)
    return path


@pytest.fixture
def by_model(files, campaign):
    return (
        f"verify {campaign} --list {files.folder}/listed.csv --propensity chance -m {files.model}"
    )


def test_the_screen_tells_gain_promise_and_advice(by_model):
    result = run(f"{by_model} --details")
    assert result.exit_code == 0, result.output
    for words in (
        "400 of 1,000 people were chosen",
        "gain in visit, as run, against treating nobody",
        "gain in visit, had all the chosen been treated, against nobody",
        "against as many at random",
        "forecast ",
        "what to do with the model",
        "Each certified number holds by itself with probability 0.95",
    ):
        assert words in result.stdout
    found = numbers(by_model)
    gain = found["comparisons"]["nobody"]
    assert f"{gain['estimate']:+,.1f} ({gain['lower']:+,.1f} to" in result.stdout
    assert gain["certified_lower"] < gain["lower"]
    assert found["promise"]["verdict"] in ("confirmed", "too_noisy")
    assert result.stdout.startswith(found["headline"][:60])
    as_run = found["comparisons"]["as_run"]
    assert found["promise"]["came"] == as_run["estimate"]
    assert found["headline"].startswith(f"The campaign gained +{as_run['estimate']:.0f} in visit (")
    assert found["decision"]["state"] == ("certified" if gain["certified_lower"] > 0 else "shown")
    assert found["decision"]["who"] == "those who were chosen"
    assert {test["what"] for test in found["drift"]} >= {"scores", "base rate", "average effect"}


@pytest.mark.gate
def test_a_column_and_a_list_say_the_same(by_model, campaign, files):
    column = f"verify {campaign} --chosen top --propensity chance -m {files.model}"
    by_list, by_column = numbers(by_model), numbers(column)
    assert by_column["comparisons"] == by_list["comparisons"]
    assert by_column["promise"] == by_list["promise"]
    bare = numbers(f"verify {campaign} --chosen top -t arm -y visit --control none")
    assert bare["comparisons"] == by_list["comparisons"]
    assert bare["promise"] is None
    assert bare["advice"] is None
    assert bare["notes"][0].startswith("No chances were given: all who were chosen are taken to")
    assert bare["notes"][0].endswith("by --propensity COLUMN.")


CASES = {
    "no such file": ("verify no.csv --chosen top", "got nothing at"),
    "nobody says who": ("verify {data} -t arm -y visit", "Pass --chosen COLUMN or --list LIST."),
    "no treatment": (
        "verify {data} --chosen top -y visit",
        "Pass --treatment COLUMN, or the model",
    ),
    "a name that is near": ("verify {data} --chosen tip {named}", "Did you mean 'top'?"),
    "a list without ids": (
        "verify {data} --list {data} {named}",
        "the list should come with the column that names people",
    ),
    "a list that is no table": (
        "verify {data} --list {model} {named} --id person",
        "m.model should",
    ),
    "chances that are none": ("verify {data} --chosen top {named} --propensity age", "age"),
    "words": ("verify {data} --chosen town {named}", "town"),
    "the wrong model": ("verify {data} --chosen top -m {data}", "campaign.csv should be"),
    "another direction": (
        "verify {data} --chosen top -m {model} --lower-is-better",
        "--lower-is-better should be False, as the model was fitted",
    ),
    "another outcome": (
        "verify {data} --chosen top -m {model} -y age",
        "--outcome should be 'visit', as the model was fitted, got 'age'",
    ),
    "nobody left to compare": (
        "verify {all} --chosen top {named}",
        "auucmax assign PEOPLE --model MODEL --id ID --key NAME --share .3 --explore .1",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_one_line(files, campaign, name, tmp_path):
    line, words = CASES[name]
    table = pd.read_csv(campaign)
    table["arm"] = np.where(table["top"] == "yes", "mail", "none")
    table.to_csv(tmp_path / "all.csv", index=False)
    named = "-t arm -y visit --treated mail --control none"
    result = run(
        line.format(data=campaign, model=files.model, named=named, all=tmp_path / "all.csv")
    )
    assert result.exit_code == 2
    assert result.stdout == ""
    (said,) = result.stderr.splitlines()
    assert said.startswith("auucmax: ")
    assert words in said


def test_chances_that_are_contradicted_fail_the_check(files, campaign, tmp_path):
    table = pd.read_csv(campaign).assign(chance=0.5)
    table.to_csv(tmp_path / "wrong.csv", index=False)
    result = run(f"verify {tmp_path}/wrong.csv --chosen top --propensity chance -m {files.model}")
    assert result.exit_code == 1  # a check that fails is a result, not bad input
    assert "treatment should have been given by chance" in result.stderr


@pytest.mark.gate
def test_chances_that_are_nearly_contradicted_are_told_before_the_numbers(campaign, tmp_path):
    table = pd.read_csv(campaign)
    mailed = (table["arm"] == "mail")[table["top"] == "yes"]
    chances = np.linspace(mailed.mean(), 1, 200, endpoint=False)
    p_values = [binomtest(int(mailed.sum()), len(mailed), chance).pvalue for chance in chances]
    table["chance"] = table["chance"].where(
        table["top"] == "no", chances[np.argmin(np.abs(np.log(p_values) - np.log(0.0005)))]
    )
    table.to_csv(tmp_path / "c.csv", index=False)
    line = f"verify {tmp_path}/c.csv --chosen top --propensity chance -t arm -y visit"
    line += " --treated mail --control none"
    result = run(line)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("WARNING. Chance hardly explains that ")
    assert result.stdout.count("hardly explains") == 1
    found = numbers(line)
    assert found["doubts"] == [found["told"]["notes"][0]]
    assert found["doubts"][0].startswith("Chance hardly explains that ")
