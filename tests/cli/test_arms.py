"""Several arms in every command: the same options, one entry per arm in every result."""

import numpy as np
import pandas as pd
import pytest
from tests.cli.commands import result_of, run
from tests.model.arms_table import arms_table

from auucmax.model import load

COST = "--cost mail=1,phone=2"


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    """A trial of two arms and a control, people of later, and a model of them."""
    folder = tmp_path_factory.mktemp("arms")
    arms_table().to_csv(folder / "trial.csv", index=False)
    new = arms_table(1_000, random_state=9).drop(columns=["arm", "visit"])
    new.assign(person="new " + new["person"], far=new["age"] > 60).to_csv(
        folder / "new.csv", index=False
    )
    line = f"fit {folder}/trial.csv -t arm --control none -y visit --id person -m tm {COST}"
    result = run(f"{line} --budget .5 -o {folder}/m.model")
    assert result.exit_code == 0, result.output
    return folder


@pytest.mark.gate
def test_evaluate_has_the_evidence_of_the_fit_and_of_new_rows(trial, tmp_path):
    found = result_of(f"evaluate {trial}/m.model")
    assert [arm["arm"] for arm in found["arms"]] == ["mail", "phone"]
    assert found["policy"]["curve"]["costs"] == [1.0, 2.0]
    assert found["policy"]["certificate"]["budget"] == 0.5
    assert result_of(f"evaluate {trial}/m.model {trial}/trial.csv") == found
    new = arms_table(2_000, random_state=5)
    new.assign(person="new " + new["person"]).to_csv(tmp_path / "new.csv", index=False)
    judged = result_of(f"evaluate {trial}/m.model {tmp_path}/new.csv")
    assert (judged["basis"], judged["policy"]["certificate"]) == ("new rows", None)
    assert len(judged["policy"]["contrasts"]) == 3


def test_target_writes_who_gets_which_arm(trial, tmp_path):
    line = f"target {trial}/m.model {trial}/new.csv -o {tmp_path}/list.csv"
    plan = result_of(f"{line} --budget 700 {COST} --value 9")["decision"]["plan"]
    people = pd.read_csv(tmp_path / "list.csv")
    assert list(people) == ["person", "rank", "arm", "uplift mail", "uplift phone", "cost"]
    assert [int((people["arm"] == arm).sum()) for arm in ("mail", "phone")] == plan["counts"]
    assert people["cost"].sum() == plan["spend"] <= 700
    assert plan["gain"]["lower"] < plan["gain"]["value"] < plan["gain"]["upper"]
    assert plan["profit"]["value"] == pytest.approx(9 * plan["gain"]["value"] - plan["spend"])
    run(f"{line} --share .2 --all")
    everybody = pd.read_csv(tmp_path / "list.csv")
    assert (len(everybody), (everybody["arm"] != "none").sum()) == (1_000, 200)


@pytest.mark.gate
def test_target_keeps_to_limits(trial, tmp_path):
    (tmp_path / "out.csv").write_text("person\nnew p1\nnew p2\n")
    line = f"target {trial}/m.model {trial}/new.csv -o {tmp_path}/list.csv"
    limits = (
        f"--at-most mail=40 --at-least phone=60 --forbid phone=far --exclude {tmp_path}/out.csv"
    )
    found = result_of(f"{line} --budget 300 {COST} {limits}")
    n_mail, n_phone = found["decision"]["plan"]["counts"]
    assert n_mail <= 40
    assert n_phone >= 60
    assert found["n_excluded"] == 2
    assert found["decision"]["plan"]["missing"] == "limits"
    far = pd.read_csv(trial / "new.csv").set_index("person")["far"]
    people = pd.read_csv(tmp_path / "list.csv")
    assert not far[people.query("arm == 'phone'")["person"]].any()
    own = result_of(f"{line} --budget 300 --cost-column mail=age,phone=spent")
    assert own["decision"]["plan"]["spend"] <= 300


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
    result = run(f"fit {named} -m tm --budget .3 -o {tmp_path}/m.model")
    assert result.exit_code == 0, result.output
    columns = dict(load(tmp_path / "m.model").roles.propensity)
    assert columns == {"mail": "chance mail", "phone": "chance phone"}
    for more in ("", " --propensity chance"):
        assert run(f"evaluate {tmp_path}/m.model {tmp_path}/new.csv{more}").exit_code == 0
    by_arm = ["--propensity", "mail=chance mail,phone=chance phone"]
    same = run("evaluate", f"{tmp_path}/m.model", f"{tmp_path}/new.csv", *by_arm)
    assert same.exit_code == 0, same.output
    one = run(f"fit {named} --treated mail -m tm -o {tmp_path}/one.model")
    assert one.exit_code == 0, one.output
