"""Several arms in the commands: fit, evaluate, target, and what is told of unknown arms."""

import json

import duckdb
import numpy as np
import onnxruntime
import pandas as pd
import pytest
import sqlglot
from tests.cli.commands import numbers, run
from tests.model.arms_table import arms_table

from auucmax.cli.arms import amount_of, costs_by_arm, numbers_by_arm, texts_by_arm
from auucmax.model import load_model

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
    result = run(f"{line} --budget .5 -o {folder}/m.model --details")
    assert result.exit_code == 0, result.output
    (folder / "fit.txt").write_text(result.stdout)
    return folder


def test_fit_tells_a_line_for_each_arm_and_what_the_policy_gains(trial):
    shown = (trial / "fit.txt").read_text()
    for line in ("mail", "phone"):
        (told,) = (text for text in shown.split("\n") if text.startswith(f"│ {line} "))
        for word in ("rows; effect +", "AUUC", "over a random order", "certified gain"):
            assert word in told
    for words in (
        "Choosing the arm of each person beats", "none, ",
        "costs", "mail 1, phone 2", "policy, 2 per person",
        "policy, against random people with the same arms", "for everybody",
        "alone, by its ranking", "certificate of the policy", "chosen on these rows",
        "At a budget of 0.5 per person",
    ):  # fmt: skip
        assert words in shown


@pytest.mark.gate
def test_evaluate_shows_what_was_found_and_judges_new_rows(trial, tmp_path):
    found = numbers(f"evaluate {trial}/m.model")
    assert set(found["arms"]) == {"mail", "phone"}
    assert found["policy"]["curves"][0]["costs"] == {"mail": 1.0, "phone": 2.0}
    assert numbers(f"evaluate {trial}/m.model {trial}/trial.csv") == found
    own = run(f"evaluate {trial}/m.model {trial}/trial.csv").stdout
    assert own.startswith("DATA is the file that the model was fitted on, which shows nothing new")
    assert "beats the same arms for random people" in own
    new = arms_table(2_000, random_state=5)
    new.assign(person="new " + new["person"]).to_csv(tmp_path / "new.csv", index=False)
    judged = run(f"evaluate {trial}/m.model {tmp_path}/new.csv")
    assert judged.exit_code == 0
    assert "policy, against random people with the same arms" in judged.stdout
    assert "Nothing is certified of a policy on new rows." in judged.stdout


def test_target_writes_who_gets_which_arm(trial, tmp_path):
    line = f"target {trial}/m.model {trial}/new.csv -o {tmp_path}/list.csv"
    found = numbers(f"{line} --budget 700 {COST} --value 9")
    people = pd.read_csv(tmp_path / "list.csv")
    assert list(people) == ["person", "rank", "arm", "uplift mail", "uplift phone", "cost"]
    assert people["arm"].value_counts().to_dict() == found["arms"]
    assert people["cost"].sum() == found["cost"] <= 700
    assert found["expected"]["lower"] < found["expected"]["gain"] < found["expected"]["upper"]
    assert found["decision"]["is_good"] == (found["decision"]["state"] in ("certified", "shown"))
    assert found["decision"].keys() == {"who", "is_good", "state", "lead", "verdict", "at_least"}
    assert found["decision"]["verdict"].startswith("profit above zero: ")
    page = numbers(f"report {trial}/m.model -o {tmp_path}/r.html")
    assert page["decision"].keys() == found["decision"].keys()
    judged = numbers(f"evaluate {trial}/m.model")["arms"]
    assert {own["decision"]["who"] for own in judged.values()} == {"everybody"}
    shown = run(f"{line} --budget 700 {COST} --value 9").stdout
    for words in ("expected gain in visit", "expected profit", "sum of the uplifts", " phone "):
        assert words in shown
    run(f"{line} --share .2 --all")
    everybody = pd.read_csv(tmp_path / "list.csv")
    assert len(everybody) == 1_000
    assert (everybody["arm"] != "none").sum() == 200


def test_target_says_that_people_are_unlike_those_of_the_trial(trial, tmp_path):
    new = pd.read_csv(trial / "new.csv")
    uplift = load_model(trial / "m.model").uplift(new).max(axis=1)
    new[uplift < np.quantile(uplift, 0.3)].to_csv(tmp_path / "low.csv", index=False)
    line = f"target {trial}/m.model {tmp_path}/low.csv -o {tmp_path}/list.csv --budget 210"
    found, shown = numbers(line), run(line)
    assert found["expected"] is found["profit"] is None
    assert "What treating these people brings is not known: they are not like" in found["unknown"]
    assert max(own["distance"] for own in found["shifts"].values()) >= 0.2
    assert (found["decision"]["is_good"], found["decision"]["state"]) == (False, "not shown")
    words = " ".join(shown.stdout.replace("│", " ").split())
    assert words.startswith("For these people a gain is not shown. If you treat ")
    assert "they are not like those of the trial. The shares of people above a score of" in words
    assert "sum of the uplifts" not in words
    assert "expected gain in" not in words
    assert "the scores of the cohort should be distributed like those of the trial" in shown.stderr
    assert len(pd.read_csv(tmp_path / "list.csv")) == found["n_treated"]


@pytest.mark.gate
def test_a_value_alone_takes_the_costs_of_the_fit(trial, tmp_path):
    line = f"target {trial}/m.model {trial}/new.csv -o {tmp_path}/list.csv --value 8"
    found, priced = numbers(line), numbers(f"{line} {COST}")
    assert found.pop("assumed").endswith("that the model was fitted with: mail 1, phone 2.")
    assert found == {name: priced[name] for name in found}
    rule = "An arm goes to everybody whose own uplift is worth more than it costs."
    assert rule in " ".join(run(line).stdout.split())
    assert rule not in " ".join(run(f"{line} --budget 300").stdout.split())
    query = f"export {trial}/m.model --to sql --value 8"
    assert run(query).stdout == run(f"{query} {COST}").stdout


def test_exports_say_by_which_costs_and_value_an_arm_is_chosen(trial, tmp_path):
    (tmp_path / "dbt_project.yml").write_text("name: shop\n")
    line = f"export {trial}/m.model --to"
    priced = (
        '-- arm: that of the highest 8 times uplift minus cost: "mail" 1, "phone" 2; the control '
        "if none is above 0.\n"
    )
    assert priced in run(f"{line} sql --value 8").stdout
    bare = run(f"{line} sql").stdout
    assert "-- arm: that of the highest uplift, whatever arms cost; the control if" in bare
    run(f"{line} dbt --value 8 -o {tmp_path}")
    assert priced in (tmp_path / "models" / "people_m_scores.sql").read_text()


@pytest.mark.gate
def test_target_keeps_to_limits(trial, tmp_path):
    (tmp_path / "out.csv").write_text("person\n" + "new p1\nnew p2\n")
    line = f"target {trial}/m.model {trial}/new.csv -o {tmp_path}/list.csv"
    limits = (
        f"--at-most mail=40 --at-least phone=60 --forbid phone=far --exclude {tmp_path}/out.csv"
    )
    found = numbers(f"{line} --budget 300 {COST} {limits}")
    assert found["arms"]["mail"] <= 40
    assert found["arms"]["phone"] >= 60
    assert found["excluded"]["n_people"] == 2
    assert found["expected"] is None
    far = pd.read_csv(trial / "new.csv").set_index("person")["far"]
    people = pd.read_csv(tmp_path / "list.csv")
    assert not far[people.query("arm == 'phone'")["person"]].any()
    assert "has no interval" in run(f"{line} --budget 300 {COST} {limits}").stdout
    own = numbers(f"{line} --budget 300 --cost-column mail=age,phone=spent")
    assert own["cost"] <= 300


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("target {m} {n} --budget 3 --cost fax=1", "the arms are 'mail', 'phone', got 'fax'"),
        ("target {m} {n} --budget 3 --cost mail=1,mail=5,phone=2", "arm once, got 'mail' twice"),
        ("target {m} {n} --budget 3 --cost mail=1", "every arm, got none for 'phone'"),
        ("target {m} {n} --share .3 --at-most mail", "the arms are 'mail', 'phone', got 'mail'"),
        ("target {m} {n} --share .3 --at-most mail=few", "--at-most should be a number"),
        ("target {m} {n} --share .3 --forbid mail=nowhere", "'nowhere'"),
        ("target {m} {n} --share .3 --at-least mail=5000", "together, got 5,000 for 1,000 people."),
        ("target {m} {n} --share .3 --at-least mail=9,phone=5000", "got 9 + 5,000 for 1,000"),
        ("target {m} {n}", "Pass --share 0.3"),
        ("fit {t} -t arm -y visit --control none -m tm --hold-out .3", "--hold-out should be left"),
        ("fit {t} -t arm -y visit --control none -m tm --cost a=1", "the arms are 'mail', 'phone'"),
        (
            "fit {t} -t arm -y visit -m tm --id person",
            "control alone takes all others for arms.",
        ),
        (
            "fit {t} -t arm -y visit --control none --treated mail -m tm --budget 3",
            "--budget should come with several arms",
        ),
        (
            "fit {t} -t arm -y visit --control none -m tm --id person --budget 500",
            "--budget should be money per person here, at most the cost of the dearest arm, 1;",
        ),
        ("export {m} --to sql --table people --cost mail=1,phone=2", "should come with --value"),
        (
            "report {m} {t} --rivals cvt",
            "report --rivals should get a MODEL of two arms, got one of 'mail', 'phone'",
        ),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(trial, tmp_path, line, words):
    files = {"m": trial / "m.model", "n": trial / "new.csv", "t": trial / "trial.csv"}
    result = run(f"{line.format(**files)} -o {tmp_path}/out.csv")
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.gate
def test_numbers_of_the_command_are_those_of_the_file(trial, tmp_path):
    line = f"fit {trial}/trial.csv -t arm --control none -y visit --id person -m tm {COST}"
    found = numbers(f"{line} --budget .5 -o {tmp_path}/m.model")
    evaluated = numbers(f"evaluate {trial}/m.model")
    assert found["policy"] == evaluated["policy"]
    assert found["file"] == f"{tmp_path}/m.model"
    json.dumps(found, allow_nan=False)


def test_blanks_around_a_label_are_hard_to_see():
    assert texts_by_arm("call=2,mail =1", ["call ", "mail"], "--cost") == {
        "call ": "2",
        "mail": "1",
    }
    assert texts_by_arm("a =1,a=2", ["a", "a "], "--cost") == {"a ": "1", "a": "2"}
    with pytest.raises(ValueError, match="should name each arm once, got 'call ' twice"):
        texts_by_arm("call=2,call =1", ["call ", "mail"], "--cost")


def test_labels_with_commas_and_blanks():
    labels = ["a, b", "c=d"]
    assert texts_by_arm("a, b=1,c=d = 2", labels, "--cost") == {"a, b": "1", "c=d": "2"}
    assert numbers_by_arm("c=d=.5", labels, "--cost") == {"c=d": 0.5}
    assert costs_by_arm(".2", labels) == {"a, b": 0.2, "c=d": 0.2}
    assert costs_by_arm(None, labels) is None
    assert amount_of("a=1", "--cost") is None
    with pytest.raises(ValueError, match="--cost should be a number"):
        amount_of("much", "--cost")


@pytest.mark.gate
@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_export_gives_every_uplift_and_the_arm(trial, dialect):
    model, people = load_model(trial / "m.model"), pd.read_csv(trial / "new.csv")
    uplift = model.uplift(people)
    for more, net in (("", uplift), (f"{COST} --value 8", 8 * uplift - [1, 2])):
        line = f"export {trial}/m.model --to sql --dialect {dialect} {more}"
        query = run(line).stdout
        if dialect == "postgres":  # its own server reads it in the gate; here the grammar
            query = sqlglot.transpile(query, read="postgres", write="duckdb")[0]
        with duckdb.connect() as db:
            db.register("people", people)
            found = db.sql(query).df()
        expected = np.array(["none", "mail", "phone"])[
            np.where(net.max(axis=1) > 0, net.argmax(axis=1) + 1, 0)
        ]
        assert list(found) == ["person", "uplift mail", "uplift phone", "arm"]
        assert (found["person"] == people["person"]).all()
        np.testing.assert_allclose(found.iloc[:, 1:3], uplift, rtol=0, atol=1e-9)
        assert (found["arm"] == expected).all()
        assert len(set(expected)) > 1


def test_onnx_python_and_json_give_the_same(trial, tmp_path):
    model, people = load_model(trial / "m.model"), pd.read_csv(trial / "new.csv")
    uplift = model.uplift(people)
    line = f"export {trial}/m.model {COST} --value 8"
    told = json.loads(run(f"{line} --to onnx -o {tmp_path}/arms.onnx --json").stdout)
    assert told["arms"] == ["mail", "phone"]
    session = onnxruntime.InferenceSession(tmp_path / "arms.onnx")
    inputs = {
        c["name"]: people[c["name"]].to_numpy(object if c["kind"] == "category" else float)
        for c in told["columns"]
    }
    *found, arm = session.run(["uplift mail", "uplift phone", "arm"], inputs)
    np.testing.assert_allclose(np.column_stack(found), uplift, rtol=0, atol=1e-9)
    net = 8 * uplift - [1, 2]
    expected = np.where(net.max(axis=1) > 0, net.argmax(axis=1) + 1, 0)
    assert (arm == np.array(["none", "mail", "phone"])[expected]).all()
    names = {"__name__": "scores"}
    exec(run(f"{line} --to python").stdout, names)
    *found, arms = names["scores"](people).values()
    np.testing.assert_allclose(np.column_stack(found), uplift, rtol=0, atol=1e-9)
    assert (arms == arm).all()
    text = json.loads(run(f"{line} --to json").stdout)
    assert [one["label"] for one in text["arms"]] == ["mail", "phone"]
    assert [one["cost"] for one in text["arms"]] == [1.0, 2.0]
    assert text["value"] == 8.0
    assert text["arms"][0]["score"]["format"] == "auucmax score"
    slopes = [(one["slope"], one["centre"]) for one in text["arms"]]
    assert slopes == model.slopes()


@pytest.mark.gate
def test_rivals_are_compared_arm_by_arm(trial):
    line = f"compare {trial}/trial.csv --against {trial}/m.model --models response"
    found = numbers(line)["arms"]
    own = numbers(f"evaluate {trial}/m.model")["arms"]
    for label in ("mail", "phone"):
        first, rival = found[label]["models"].values()
        assert first["auuc"] == own[label]["auuc"]
        assert rival["verdict"] in ("worse", "better", "not told apart")
    shown = run(line).stdout
    assert "m.model, mail" in shown
    assert "m.model, phone" in shown


@pytest.mark.gate
def test_rows_that_are_left_out_or_stand_twice_are_told(trial, tmp_path):
    table = arms_table(2_000, random_state=5)
    table["person"] = "new " + table["person"]
    table.loc[:59, "arm"] = "fax"
    table.to_csv(tmp_path / "new.csv", index=False)
    assert "does not know: fax 60" in run(f"evaluate {trial}/m.model {tmp_path}/new.csv").stdout
    lost = arms_table()
    lost["visit"] = lost["visit"].astype(float).where(lost.index % 50 != 0)
    lost.to_csv(tmp_path / "lost.csv", index=False)
    line = f"fit {tmp_path}/lost.csv -t arm --control none -y visit --id person -m tm"
    found = run(f"{line} --drop-missing-outcomes -o {tmp_path}/m.model")
    assert "Rows without an outcome are left out" in found.stdout
    assert "60 (none " in found.stdout
    people = pd.read_csv(trial / "new.csv")
    pd.concat([people, people.head(3)]).to_csv(tmp_path / "twice.csv", index=False)
    found = run(f"target {trial}/m.model {tmp_path}/twice.csv --share .3 -o {tmp_path}/list.csv")
    assert "3 rows of the table have the id of one before and are left out" in found.stdout


@pytest.mark.gate
def test_a_campaign_of_several_arms_from_assign_to_verify(trial, tmp_path):
    listed = tmp_path / "list.csv"
    line = f"assign {trial}/new.csv --id person --model {trial}/m.model -s .5 --explore .4 --key k"
    shown = run(f"{line} -o {listed}")
    assert shown.exit_code == 0, shown.output
    assert "chosen by the model" in shown.stdout
    again = numbers(f"{line} -o {tmp_path}/again.csv")["decision"]
    # The trial judges budgets of money, and a share of people is another policy.
    assert again["lead"] == "For the people whom the model chooses a gain is not shown."
    people = pd.read_csv(listed)
    assert {"chance mail", "chance phone", "uplift mail", "chosen"} <= set(people.columns)
    rng = np.random.default_rng(0)
    helped = (people["arm"] == people["chosen"]) & (people["arm"] != "none")
    outcomes = people[["person"]].assign(visit=rng.random(len(people)) < 0.1 + 0.6 * helped)
    outcomes.to_csv(tmp_path / "outcomes.csv", index=False)
    line = f"verify {tmp_path}/outcomes.csv --list {listed}"
    found = numbers(f"{line} -m {trial}/m.model")
    assert found["comparisons"]["nobody"]["certified_lower"] > 0
    assert found["comparisons"]["best single"]["lower"] is not None
    bare = run(f"{line} --id person -y visit --control none")
    assert bare.exit_code == 0, bare.output
    assert "against the same arms at random" in bare.stdout
    with_model = run(f"{line} -m {trial}/m.model")
    assert with_model.exit_code == 0, with_model.output
    assert " gain in visit, had all got the chosen arm, against nobody" in with_model.stdout
    wrong = run(f"{line} -m {trial}/m.model --treated mail")
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "should be verified as a whole, got --treated mail" in wrong.stderr


@pytest.mark.gate
@pytest.mark.parametrize("everyone", ["", "--all"])
def test_verify_takes_the_list_that_target_wrote_for_several_arms(trial, tmp_path, everyone):
    listed = tmp_path / "list.csv"
    run(f"target {trial}/m.model {trial}/new.csv -s .5 -o {listed} {everyone}")
    picked = pd.read_csv(listed).set_index("person")["arm"]
    people = pd.read_csv(trial / "new.csv")
    chosen = people["person"].map(picked).fillna("none")
    rng = np.random.default_rng(0)
    given = rng.choice(["none", "mail", "phone"], len(people))
    people["arm"] = np.where(rng.random(len(people)) < 0.4, given, chosen)
    helped = (people["arm"] == chosen) & (chosen != "none")
    people["visit"] = rng.random(len(people)) < 0.1 + 0.6 * helped
    people.to_csv(tmp_path / "c.csv", index=False)
    people.assign(chosen=chosen).to_csv(tmp_path / "known.csv", index=False)
    by_list = numbers(f"verify {tmp_path}/c.csv --list {listed} -m {trial}/m.model")
    by_column = numbers(f"verify {tmp_path}/known.csv --chosen chosen -m {trial}/m.model")
    assert by_list["comparisons"] == by_column["comparisons"]
    assert by_list["promise"]["verdict"] == "confirmed"
    bare = f"verify {tmp_path}/c.csv --list {listed} --id person -t arm -y visit --control none"
    assert numbers(bare)["comparisons"]["nobody"] == by_list["comparisons"]["nobody"]


@pytest.mark.gate
def test_monitor_takes_one_arm_of_several_or_all_of_them(trial, tmp_path):
    table = arms_table(2_000, random_state=7)
    table["person"] = "later " + table["person"].astype(str)
    table["sent"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(2_000) // 100, "D")
    table.to_csv(tmp_path / "rows.csv", index=False)
    line = f"monitor {trial}/m.model {tmp_path}/rows.csv --date sent --state {tmp_path}/s"
    refused = run(f"{line} --treated fax")
    assert refused.exit_code == 2
    assert "--treated should be one of the 2 arms 'mail', 'phone', got 'fax'" in refused.stderr
    found = numbers(f"{line} --treated phone --delta .025 --as-of 2026-06-01")
    assert found["bounds"]["gain"]["lower"] < found["bounds"]["gain"]["upper"]
    assert found["n_rows"] < 2_000  # the other arm is left out
    both = f"{line}2 --as-of 2026-06-01 --treated-share mail=.333,phone=.333"
    together = numbers(both)
    assert together["arms"]["phone"]["bounds"] == found["bounds"]
    assert together["ratio"] > 0.01
    shown = " ".join(run(both).stdout.split())
    assert "mail: gain over a random order" in shown
    assert "All bounds of all arms hold together" in shown
    bad = run(f"{line}3 --treated-share mail=x,phone=.3")
    assert "--treated-share should be a share, as .5, or one of each arm" in bad.stderr
