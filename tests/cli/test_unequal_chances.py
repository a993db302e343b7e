"""Every command on a trial of two strata whose chances of treatment differ, by design."""

import numpy as np
import pandas as pd
import pytest
from tests.cli.commands import numbers, run
from tests.model.arms_table import arms_table
from tests.model.trial_table import two_strata

NAMED = "-t mail -y visit"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A trial, new rows, and a model with its output."""
    place = tmp_path_factory.mktemp("strata")
    two_strata().to_csv(place / "trial.csv", index=False)
    two_strata(random_state=1).to_csv(place / "new.csv", index=False)
    how = f"--id person --propensity chance -m tm -o {place}/m.model"
    result = run(f"fit {place}/trial.csv {NAMED} {how}")
    assert result.exit_code == 0, result.output
    (place / "shown.txt").write_text(result.output)
    return place


SAID = "Chances of treatment were unequal, from 0.2 to 0.8, and are taken from 'chance'"


@pytest.mark.gate
def test_without_the_chances_the_check_fails_and_says_what_to_do(folder):
    for hidden in ("", " --ignore chance", " --after chance"):
        result = run(f"check {folder}/trial.csv {NAMED} --ignore person{hidden}")
        assert result.exit_code == 1
        assert "treatment depends on " in result.output
        assert "kind: not randomised" in result.output
        assert "pass --propensity COLUMN" in result.output
    refused = run(f"fit {folder}/trial.csv {NAMED} --id person -m tm -o {folder}/no.model")
    assert refused.exit_code == 1
    assert not (folder / "no.model").exists()


def test_with_the_chances_it_passes_and_tells_the_right_effect(folder):
    result = run(f"check {folder}/trial.csv {NAMED} --id person --propensity chance --details")
    assert result.exit_code == 0, result.output
    assert "chances of treatment are known, from 0.2 to 0.8" in result.output
    assert "weighted mean of visit" in result.output
    found = numbers(f"check {folder}/trial.csv {NAMED} --id person --propensity chance")
    (effect,) = found["trial"]["effects"]
    truth = 0.2 * 27 / 62
    assert abs(effect["effect"] - truth) < 4 * effect["standard_error"]
    raw = two_strata().groupby("mail")["visit"].mean()
    assert raw[1] - raw[0] - truth > 10 * effect["standard_error"]


def test_fit_evaluate_and_report_say_where_chances_come_from(folder):
    assert SAID in (folder / "shown.txt").read_text()
    alone = numbers(f"evaluate {folder}/m.model")
    assert any(SAID in note for note in alone["notes"])
    assert "known chance, 0.2 to 0.8 by design" in alone["certificate"]["text"]
    new = run(f"evaluate {folder}/m.model {folder}/new.csv")
    assert new.exit_code == 0, new.output
    assert SAID in new.output
    run(f"report {folder}/m.model -o {folder}/r.html")
    assert "Chances of treatment were unequal" in (folder / "r.html").read_text()
    again = run(f"evaluate {folder}/m.model --propensity age")
    assert again.exit_code == 2
    assert "--propensity should be 'chance', as the MODEL was fitted" in again.output


@pytest.mark.gate
def test_new_rows_may_have_chances_of_their_own(folder):
    """A model of a trial with one chance for all, judged on rows of two strata."""
    table = two_strata(random_state=4)
    rng = np.random.default_rng(0)
    mail = rng.random(len(table)) < 0.5
    visit = rng.random(len(table)) < 0.2 + 0.2 * mail * (table["age"] < 45)
    even = table.assign(mail=mail.astype(int), visit=visit.astype(int)).drop(columns="chance")
    even.to_csv(folder / "even.csv", index=False)
    assert (
        run(f"fit {folder}/even.csv {NAMED} --id person -m tm -o {folder}/e.model").exit_code == 0
    )
    found = numbers(f"evaluate {folder}/e.model {folder}/new.csv --propensity chance")
    assert found["failed_check"] is None
    assert any(SAID in note for note in found["notes"])
    assert (
        "kind: not randomised"
        in numbers(f"evaluate {folder}/e.model {folder}/new.csv")["failed_check"]
    )
    how = f"{folder}/e.model {folder}/new.csv --propensity chance -o {folder}/e.html"
    assert run(f"report {how}").exit_code == 0
    assert "taken from" in (folder / "e.html").read_text()


@pytest.mark.gate
def test_scores_of_any_origin_are_judged_by_the_chances(folder):
    table = two_strata(random_state=2)
    table.assign(score=-table["age"]).to_csv(folder / "scored.csv", index=False)
    how = f"{folder}/scored.csv {NAMED} --score-column score"
    found = numbers(f"evaluate {how} --propensity chance")
    assert found["failed_check"] is None
    assert found["auuc"]["gain_lower"] > 0
    assert any(SAID in note for note in found["notes"])
    without = numbers(f"evaluate {how}")
    assert "kind" in without["failed_check"]  # and the chance, in whatever order
    assert "not randomised" in without["failed_check"]


def test_the_model_knows_the_column_and_does_not_learn_from_it(folder):
    from auucmax.model import load_model

    columns = load_model(folder / "m.model").columns
    assert columns.propensity == "chance"
    assert "chance" not in (*columns.features, *columns.ignored)
    new = two_strata(500, random_state=3).drop(columns=["chance", "mail", "visit"])
    new.to_csv(folder / "people.csv", index=False)
    listed = run(f"target {folder}/m.model {folder}/people.csv --share .3 -o {folder}/l.csv")
    assert listed.exit_code == 0, listed.output
    missing = run(f"evaluate {folder}/m.model {folder}/people.csv")
    assert missing.exit_code == 2
    assert missing.output.count("\n") == 1


@pytest.mark.gate
def test_models_are_compared_by_the_chances(folder):
    how = f"{folder}/trial.csv {NAMED} --models tm,response --splits 3"
    assert run(f"compare {how}").exit_code == 1
    found = numbers(f"compare {how} --ignore person --propensity chance")
    means = {one["model"]: one["mean_auuc"] for one in found["summary"]}
    assert means["tm"] > means["response"]  # regulars respond, and gain nothing by it
    against = f"compare {folder}/trial.csv --against {folder}/m.model --models response"
    assert numbers(against)["models"]["response"]["difference"]["estimate"] > 0


@pytest.mark.parametrize(
    ("change", "code", "line"),
    [
        (lambda p: p * 100, 2, "got values from 20 to 80"),
        (lambda p: p.where(p > 0.5), 2, "should have no missing values"),
        (lambda p: (p > 0.5) * 1.0, 2, "got 0 and 1 alone"),
        (lambda p: p * 0 + 0.5, 1, "treatment depends on kind"),
        (lambda p: 1 - p, 1, "the numbers treated contradict the chances (chances: of "),
    ],
)
@pytest.mark.parametrize("command", ["check", "fit"])
def test_wrong_chances_are_refused_in_one_line(tmp_path, command, change, code, line):
    table = two_strata()
    table.assign(chance=change(table["chance"])).to_csv(tmp_path / "wrong.csv", index=False)
    output = f" -m tm -o {tmp_path}/m.model" if command == "fit" else ""
    how = f"{NAMED} --ignore person --propensity chance{output}"
    result = run(f"{command} {tmp_path}/wrong.csv {how}")
    assert result.exit_code == code
    told = result.output.splitlines()
    assert line in told[0]
    assert command == "check" or len(told) == 1
    assert not (tmp_path / "m.model").exists()


@pytest.mark.gate
def test_other_mistakes_are_told_in_one_line(folder):
    for more, line in (
        ("--propensity visit", "--propensity should be another column than treatment"),
        ("--propensity chanc", "'chanc'"),
        ("--propensity chance --expected-share .5", "--expected-share should be left out"),
    ):
        result = run(f"check {folder}/trial.csv {NAMED} --id person {more}")
        assert result.exit_code == 2
        assert line in result.output
        assert result.output.count("\n") == 1


@pytest.mark.gate
def test_a_list_of_several_arms_goes_through_every_command(tmp_path):
    """People are assigned, outcomes are joined to the list, and nothing is renamed."""
    people = arms_table(3_000).drop(columns=["arm", "visit"])
    people.to_csv(tmp_path / "people.csv", index=False)
    how = "--id person --arms none=.2,mail=.5,phone=.3 --key spring"
    assert run(f"assign {tmp_path}/people.csv {how} -o {tmp_path}/list.csv").exit_code == 0
    table = people.merge(pd.read_csv(tmp_path / "list.csv"), on="person")
    rate = 0.2 + 0.3 * ((table["arm"] == "mail") & (table["age"] < 45))
    table["visit"] = (np.random.default_rng(0).random(len(table)) < rate).astype(int)
    table[:2_000].to_csv(tmp_path / "trial.csv", index=False)
    table[2_000:].to_csv(tmp_path / "new.csv", index=False)
    named = f"{tmp_path}/trial.csv -t arm --control none -y visit --id person --propensity chance"
    assert run(f"check {named}").exit_code == 0
    result = run(f"fit {named} -m tm --budget .3 -o {tmp_path}/m.model --details")
    assert result.exit_code == 0, result.output
    assert "Chances of the arms are taken from 'chance mail', 'chance phone'" in result.output
    assert "known chances by design" in " ".join(result.output.split())
    for more in ("", " --propensity chance"):
        found = numbers(f"evaluate {tmp_path}/m.model {tmp_path}/new.csv{more}")
        assert any("Chances of the arms" in note for note in found["policy"]["notes"])
    wrong = run(f"evaluate {tmp_path}/m.model --propensity other")
    assert "--propensity should be 'mail=chance mail,phone=chance phone'" in wrong.output
    page = run(f"report {tmp_path}/m.model -o {tmp_path}/r.html")
    assert page.exit_code == 0, page.output
    against = run(f"compare {tmp_path}/trial.csv --against {tmp_path}/m.model --models response")
    assert against.exit_code == 0, against.output
    one = run(f"fit {named} --treated mail -m tm -o {tmp_path}/one.model")
    assert one.exit_code == 0, one.output
    assert "Chances of 'mail', rather than 'none', were 0.714 for all" in one.output
    alone = run(f"compare {named} --models tm")
    assert "--treated should name one of the arms 'mail', 'phone'" in alone.output
