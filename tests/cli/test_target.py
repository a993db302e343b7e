"""``auucmax target``: the list, and what is told of it."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.cli.commands import numbers, run
from tests.model.trial_table import trial_table

from auucmax.model import load_model
from auucmax.present import model_card


def test_a_cost_is_told_only_if_one_was_given(files, tmp_path):
    command = f"target {files.model} {files.new} -s .3 -o {tmp_path}/list.csv"
    assert "cost" not in run(command).stdout.split("Written to")[0]
    assert "cost 60.00" in run(f"{command} --cost .2").stdout


@pytest.mark.gate
def test_the_file_of_the_trial_has_uplifts_that_add_up_to_the_gain(files, tmp_path):
    own = tmp_path / "own.csv"
    pd.read_csv(files.trial).query("arm != 'phone'").to_csv(own, index=False)
    command = f"target {files.model} {own} -s .3 -o {tmp_path}/list.csv"
    found, screen = json.loads(run(f"{command} --json").stdout), run(f"{command} --details").stdout
    total = pd.read_csv(tmp_path / "list.csv")["uplift"].sum()
    assert total == pytest.approx(found["uplift"])
    assert total == pytest.approx(found["expected"]["gain"])
    assert "certified gain, at least" in screen
    assert f"sum of the uplifts │ {total:,.1f}" in " ".join(screen.split())
    assert "These are the people of the trial" in screen
    # So they are without arm and outcome, in any order; as many other people are not.
    pd.read_csv(own).drop(columns=["arm", "visit"]).sample(frac=1.0).to_csv(own, index=False)
    again = json.loads(run(f"{command} --json").stdout)
    assert again["is_own"]
    assert again["uplift"] == pytest.approx(total)
    others = trial_table(4_000, random_state=77)[: again["n_people"]]
    others.drop(columns=["arm", "visit"]).to_csv(own, index=False)
    new = json.loads(run(f"{command} --json").stdout)
    assert not new["is_own"]
    assert "The sum of the uplifts differs from it" in new["of_uplift"]


def test_an_empty_list_says_why(files, tmp_path):
    command = f"target {files.model} {files.new} -o {tmp_path}/list.csv"
    shown = run(f"{command} --budget .1 --cost .5")
    assert shown.exit_code == 0
    why = "Treat nobody: a budget of 0.1 does not pay for one person at 0.5."
    assert shown.stdout.startswith(why)
    assert "expected gain" not in shown.stdout
    assert len(pd.read_csv(tmp_path / "list.csv")) == 0


def test_people_who_opted_out_are_not_in_the_list(files, tmp_path):
    command = f"target {files.model} {files.new} -s .3 -o {tmp_path}/list.csv"
    run(command)
    first = pd.read_csv(tmp_path / "list.csv")["person"][:7]
    first.to_frame().assign(why="asked").to_csv(tmp_path / "out.csv", index=False)
    told = run(f"{command} --exclude {tmp_path}/out.csv --all")
    assert "7 people are left out. Nothing is certified of the others" in told.stdout
    assert "certified gain, at least" not in told.stdout
    left = pd.read_csv(tmp_path / "list.csv")
    assert not set(first) & set(left["person"])
    assert len(left) == len(pd.read_csv(files.new)) - 7
    assert (left["arm"] == "mail").sum() == round(0.3 * len(left))
    pd.Series([*first[:2], "nobody"], name="person").to_csv(tmp_path / "out.csv", index=False)
    told = run(f"{command} --exclude {tmp_path}/out.csv --json")
    assert json.loads(told.stdout)["excluded"] == {"n_people": 2, "n_unknown": 1}
    assert json.loads(told.stdout)["certified"] == []


@pytest.mark.gate
def test_a_header_alone_means_that_nobody_opted_out(files, tmp_path):
    command = f"target {files.model} {files.new} -s .3 -o {tmp_path}/list.csv"
    run(command)
    everybody = pd.read_csv(tmp_path / "list.csv")
    (tmp_path / "none.csv").write_text("person,why\n")
    told = run(f"{command} --exclude {tmp_path}/none.csv")
    assert told.exit_code == 0, told.output
    assert "0 people are left out." in told.stdout
    assert "certified gain, at least" in told.stdout
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "list.csv"), everybody)
    (tmp_path / "none.csv").write_text("name\n")
    told = run(f"{command} --exclude {tmp_path}/none.csv")
    assert "should have the column 'person', the ids of MODEL; got 'name'" in told.stderr


@pytest.mark.gate
def test_people_who_stand_twice_are_listed_once_and_told(files, tmp_path):
    new = pd.read_csv(files.new, dtype=str)  # numbers as they are written
    again = new.head(3).assign(age="20")  # by other features they would be elsewhere on the list
    pd.concat([new, again]).to_csv(tmp_path / "twice.csv", index=False)
    command = f"target {files.model} {tmp_path}/twice.csv -s .3 -o {tmp_path}/twice-list.csv"
    told = run(command)
    assert "3 rows of the table have the id of one before and are left out" in told.stdout
    assert json.loads(run(f"{command} --json").stdout)["repeated"] == 3
    once = run(f"target {files.model} {files.new} -s .3 -o {tmp_path}/list.csv")
    assert "the id of one before" not in once.stdout
    assert (tmp_path / "twice-list.csv").read_text() == (tmp_path / "list.csv").read_text()


def test_people_without_an_id_are_counted(files, tmp_path):
    new = pd.read_csv(files.new)
    name = next(iter(new.columns))
    new[name] = new[name].astype(object)
    new.loc[:4, name] = None
    new.to_csv(tmp_path / "blank.csv", index=False)
    told = run(f"target {files.model} {tmp_path}/blank.csv -s .3 -o {tmp_path}/list.csv")
    assert "5 people have no id: if chosen, they stand on the list without a name." in told.stdout


def test_half_of_the_money_is_told(files, tmp_path):
    command = f"target {files.model} {files.new} -o {tmp_path}/list.csv --value 8"
    assert "got a value without a cost. Pass --share 0.3" in run(command).stderr
    half = "note: no profit is told: --value is there, and --cost is not. Pass both for it."
    assert half in run(f"{command} -s .3").stderr


@pytest.mark.gate
def test_ids_to_leave_out_that_cannot_be_used(files, tmp_path):
    """A file without a header, a model without ids, ids of everybody: nothing is written."""
    command = f"target {{model}} {files.new} -s .3 -o {tmp_path}/list.csv --exclude"
    (tmp_path / "plain.txt").write_text("p5\np6\n")
    (tmp_path / "other.csv").write_text("person\n7\n8\n")
    pd.read_csv(files.new)[["person"]].to_csv(tmp_path / "all.csv", index=False)
    for model, out, message in (
        (files.model, "plain.txt", "should have the column 'person', the ids of MODEL"),
        (files.model_without_id, "all.csv", "--exclude needs ids, and the MODEL knows none"),
        (files.model, "all.csv", "somebody should be left to choose from"),
        (files.model, "other.csv", "got 2 such as '7' that nobody has"),
        (files.model, "absent.csv", "got nothing at"),
    ):
        told = run(f"{command.format(model=model)} {tmp_path}/{out}")
        assert told.exit_code == 2
        assert message in told.stderr
        assert not (tmp_path / "list.csv").exists()


@pytest.mark.gate
def test_harm_and_a_ranking_that_is_not_shown_are_said(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(3_000, 2)), columns=["a", "b"])
    table["mail"] = rng.integers(0, 2, 3_000)
    table["visit"] = (rng.random(3_000) < 0.4 - 0.2 * table["mail"]).astype(int)
    table.to_csv(tmp_path / "trial.csv", index=False)
    fit = f"fit {tmp_path}/trial.csv -t mail -y visit -m tm -o {tmp_path}/m"
    said = " ".join(run(fit).stdout.split())
    assert said.startswith("Treating everybody is shown to do harm: treat nobody. The ranking is ")
    assert "more rows" not in said
    table.assign(id=range(3_000)).to_csv(tmp_path / "people.csv", index=False)
    given = run(
        f"assign {tmp_path}/people.csv --id id --key k --model {tmp_path}/m --share .3 "
        f"-o {tmp_path}/a.csv"
    )
    assert given.exit_code == 0
    harm = "note: Treating the people whom the model chooses is shown to do harm: treat nobody."
    assert given.stderr.startswith(harm)
    shown = run(
        f"target {tmp_path}/m {tmp_path}/trial.csv -s .3 -o {tmp_path}/l.csv --quiet"
    ).stdout
    lead = "Treating these people is shown to do harm: treat nobody. If you treat 900 of 3,000"
    assert " ".join(shown.split()).startswith(lead)
    loud = run(f"target {tmp_path}/m {tmp_path}/trial.csv -s .3 -o {tmp_path}/l.csv").stdout
    assert f"Written to {tmp_path}/l.csv, as asked." in loud
    assert "The ranking is not shown to beat a random order." in " ".join(shown.split())
    lead = "Treating these people is shown to do harm: treat nobody. If you treat the 30%"
    page = run(f"report {tmp_path}/m -o {tmp_path}/r.html").stdout
    assert " ".join(page.split()).startswith(lead)
    by_column = f"evaluate {tmp_path}/people.csv --score-column a -t mail -y visit"
    for line in (f"evaluate {tmp_path}/m", by_column):
        judged = " ".join(run(line).stdout.split())
        lead = "Treating everybody is shown to do harm: treat nobody. The ranking is "
        assert judged.startswith(lead)
        assert "more rows" not in judged
    for line, who in {
        fit: "everybody",
        f"evaluate {tmp_path}/m": "everybody",
        by_column: "everybody",
        f"target {tmp_path}/m {tmp_path}/trial.csv -s .3 -o {tmp_path}/l.csv": "these people",
        f"report {tmp_path}/m -o {tmp_path}/r.html": "these people",
        f"assign {tmp_path}/people.csv --id id --key k --model {tmp_path}/m --share .3 "
        f"-o {tmp_path}/b.csv": "the people whom the model chooses",
    }.items():
        assert numbers(line)["decision"] == {
            "who": who,
            "is_good": False,
            "state": "harm",
            "lead": f"Treating {who} is shown to do harm: treat nobody.",
            "verdict": "shown to do harm",
        }
    model = load_model(tmp_path / "m")
    lead = "Treating everybody is shown to do harm: treat nobody."
    assert str(model).startswith(lead)
    assert model._repr_html_().startswith(f"<p><strong>{lead}</strong></p>")
    card = model_card(model)
    assert "Treating these people is shown to do harm: treat nobody. If you treat" in card
    assert "| treating the people at this share | shown to do harm |" in card
