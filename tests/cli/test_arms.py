"""Several arms in every command: the same options, one entry per arm in every result."""

import json

import duckdb
import numpy as np
import onnxruntime
import pandas as pd
import pytest
import sqlglot
from tests.cli.commands import numbers, result_of, run
from tests.cli.days import running
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


def test_people_unlike_those_of_the_trial_have_no_expected_gain(trial, tmp_path):
    new = pd.read_csv(trial / "new.csv")
    uplift = load(trial / "m.model").uplift(new).max(axis=1)
    new[uplift < np.quantile(uplift, 0.3)].to_csv(tmp_path / "low.csv", index=False)
    line = f"target {trial}/m.model {tmp_path}/low.csv -o {tmp_path}/list.csv --budget 210 {COST}"
    found = result_of(line)
    plan = found["decision"]["plan"]
    assert plan["missing"]["why"] == "unlike the trial"
    assert plan["gain"] is plan["profit"] is None
    assert max(own["distance"] for own in found["shifts"]) >= 0.2
    assert len(pd.read_csv(tmp_path / "list.csv")) == sum(plan["counts"])


@pytest.mark.gate
def test_a_value_alone_takes_the_costs_of_the_fit(trial, tmp_path):
    line = f"target {trial}/m.model {trial}/new.csv -o {tmp_path}/list.csv --value 8"
    found, priced = result_of(line), result_of(f"{line} {COST}")
    assert (found["assumed_costs"], priced["assumed_costs"]) == (True, False)
    assert found["decision"]["plan"] == priced["decision"]["plan"]


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
    assert found["decision"]["plan"]["missing"]["why"] == "limits"
    far = pd.read_csv(trial / "new.csv").set_index("person")["far"]
    people = pd.read_csv(tmp_path / "list.csv")
    assert not far[people.query("arm == 'phone'")["person"]].any()
    own = result_of(f"{line} --budget 300 --cost-column mail=age,phone=spent")
    assert own["decision"]["plan"]["spend"] <= 300


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("target {m} {n} --budget 3 --cost fax=1", "--cost"),
        ("target {m} {n} --budget 3 --cost mail=1,mail=5,phone=2", "--cost"),
        ("target {m} {n} --budget 3 --cost mail=1", "--cost"),
        ("target {m} {n} --share .3 --at-most mail", "--at-most"),
        ("target {m} {n} --share .3 --at-most mail=few", "--at-most"),
        ("target {m} {n} --share .3 --at-most fax=3", "--at-most"),
        ("target {m} {n} --share .3 --forbid mail=nowhere", "'nowhere'"),
        ("target {m} {n} --share .3 --at-least mail=9,phone=5000", "--at-least"),
        ("target {m} {n}", "--share"),
        ("fit {t} -t arm -y visit --control none -m tm --hold-out .3", "--hold-out"),
        ("fit {t} -t arm -y visit --control none -m tm --cost a=1", "--cost"),
        ("fit {t} -t arm -y visit --control none --treated mail -m tm --budget 3", "--budget"),
        ("fit {t} -t arm -y visit --control none -m tm --id person --budget 500", "--budget"),
        ("export {m} --to sql --table people --cost mail=1,phone=2", "--value"),
    ],
)
def test_bad_input_names_the_option(trial, tmp_path, line, word):
    files = {"m": trial / "m.model", "n": trial / "new.csv", "t": trial / "trial.csv"}
    result = run(f"{line.format(**files)} -o {tmp_path}/out.csv")
    assert result.exit_code == 2
    (told,) = [text for text in result.stderr.splitlines() if not text.startswith("note: ")]
    assert word in told
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.gate
@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_export_gives_every_uplift_and_the_arm(trial, dialect):
    model, people = load(trial / "m.model"), pd.read_csv(trial / "new.csv")
    uplift = model.uplift(people)
    for more, net in (("", uplift), (f"{COST} --value 8", 8 * uplift - [1, 2])):
        line = f"export {trial}/m.model --to sql --dialect {dialect} {more}"
        query = run(line).stdout
        if dialect == "postgres":  # its own server reads it in the gate; here the grammar
            query = sqlglot.transpile(query, read="postgres", write="duckdb")[0]
        with duckdb.connect() as db:
            db.register("people", people)
            found = db.sql(query).df()
        expected = best_arms(net)
        assert (found["person"] == people["person"]).all()
        np.testing.assert_allclose(
            found[["uplift mail", "uplift phone"]], uplift, rtol=0, atol=1e-9
        )
        assert (found["arm"] == expected).all()
        assert len(set(expected)) > 1


def best_arms(net):
    best = np.where(net.max(axis=1) > 0, net.argmax(axis=1) + 1, 0)
    return np.array(["none", "mail", "phone"])[best]


def test_onnx_gives_the_same(trial, tmp_path):
    model, people = load(trial / "m.model"), pd.read_csv(trial / "new.csv")
    uplift = model.uplift(people)
    line = f"export {trial}/m.model {COST} --value 8"
    told = numbers(f"{line} --to onnx -o {tmp_path}/arms.onnx")
    assert told["arms"] == ["mail", "phone"]
    session = onnxruntime.InferenceSession(tmp_path / "arms.onnx")
    inputs = {
        c["name"]: people[c["name"]].to_numpy(object if c["kind"] == "category" else float)
        for c in told["columns"]
    }
    *found, arm = session.run(["uplift mail", "uplift phone", "arm"], inputs)
    np.testing.assert_allclose(np.column_stack(found), uplift, rtol=0, atol=1e-9)
    assert (arm == best_arms(8 * uplift - [1, 2])).all()
    text = json.loads(run(f"{line} --to json").stdout)
    assert [one["label"] for one in text["arms"]] == ["mail", "phone"]


@pytest.mark.gate
def test_a_campaign_of_several_arms(trial, tmp_path):
    """Assigned by the model with exploration, and verified by the list."""
    listed = tmp_path / "list.csv"
    line = f"assign {trial}/new.csv --id person --key w --model {trial}/m.model --share .5"
    found = result_of(f"{line} --explore .3 -o {listed}")
    people = pd.read_csv(listed)
    assert found["counts"] == [int((people["arm"] == a).sum()) for a in found["arms"]]
    assert {"chance mail", "chance phone", "chosen"} <= set(people)
    rng = np.random.default_rng(0)
    rows = people[["person"]].assign(
        visit=(rng.random(len(people)) < 0.2 + 0.3 * (people["arm"] == "mail")).astype(int)
    )
    rows.to_csv(tmp_path / "outcomes.csv", index=False)
    verified = result_of(
        f"verify {tmp_path}/outcomes.csv --list {listed} --model {trial}/m.model {COST} --value 9"
    )
    assert verified["roles"]["arms"] == ["none", "mail", "phone"]
    assert sum(sum(cell["given"]) for cell in verified["cells"]) == len(people)


@pytest.mark.gate
def test_monitor_and_plan_take_all_arms(trial, tmp_path):
    table = running(3_000)
    rng = np.random.default_rng(0)
    table["mail"] = rng.choice(["none", "mail", "phone"], len(table))
    table.to_csv(tmp_path / "rows.csv", index=False)
    line = f"monitor {tmp_path}/rows.csv -t mail -y visit --control none --id person --date sent"
    look = result_of(
        f"{line} --score-column score --state {tmp_path}/s --as-of 2026-06-01 "
        f"--treated-share mail=.333,phone=.333"
    )
    assert [arm["arm"] for arm in look["arms"]] == ["mail", "phone"]
    planned = result_of(f"plan --model {trial}/m.model -n 9000")
    assert planned["arms"] == ["mail", "phone"]
    hoped = result_of(f"plan --model {trial}/m.model --gain .01")
    assert [own["gain"] for own in hoped["assumed"]] == [0.01, 0.01]


@pytest.mark.gate
def test_rivals_are_compared_arm_by_arm(trial):
    line = f"compare {trial}/trial.csv --against {trial}/m.model --models response"
    for arm in result_of(line)["arms"]:
        assert [rival["against"] for rival in arm["rivals"]] == ["response"]
