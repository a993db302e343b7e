"""A model is judged on rows that it has not learnt from, whatever file it is given."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.cli.commands import FIT, run
from tests.trial_model.trial_table import households, trial_table

from auucmax.trial_model import load_model


def numbers(line):
    result = run(f"{line} --json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture(params=["model", "model_without_id"])
def model(request, files):
    return getattr(files, request.param)


def test_the_file_of_the_fit_shows_what_was_found_then(files, model, tmp_path):
    """Every row judges, and none was ranked by a model that had learnt from it."""
    facts = load_model(model).evidence.facts
    two_arms = pd.read_csv(files.trial)["arm"].isin(["mail", "none"]).sum()
    assert facts["rows"]["n_rows"] == load_model(model).summary["table"]["learnt"] == two_arms
    assert numbers(f"evaluate {model}") == numbers(f"evaluate {model} {files.trial}") == facts
    alone, given = (
        numbers(f"report {model} {data} -o {tmp_path}/r.html") for data in ("", files.trial)
    )
    assert alone == given
    assert alone["rows"]["n_rows"] == two_arms
    compared = numbers(f"compare {files.trial} --against {model} --models cvt")
    assert compared["models"][str(model)]["auuc"] == facts["auuc"]
    assert compared["notes"][:-1] == facts["notes"]
    said = "Every row was ranked by a model that had not seen it: one of 5, each of which learnt"
    assert facts["notes"][0].startswith(said)
    screens = [
        run(f"evaluate {model}").stdout,
        run(f"compare {files.trial} --against {model} --models cvt").stdout,
        (tmp_path / "r.html").read_text(),
    ]
    assert all(said in screen for screen in screens)


def test_no_data_of_the_trial_is_needed_afterwards(files, model, tmp_path):
    """A model file alone, in a folder of its own: evidence, page and list."""
    moved = tmp_path / "alone.model"
    moved.write_bytes(model.read_bytes())
    new = tmp_path / "new.csv"
    new.write_bytes(files.new.read_bytes())
    assert run(f"evaluate {moved}").exit_code == 0
    assert run(f"report {moved} -o {tmp_path}/r.html --cost 1 --value 9").exit_code == 0
    assert run(f"target {moved} {new} --share .3 -o {tmp_path}/list.csv").exit_code == 0
    assert len(pd.read_csv(tmp_path / "list.csv")) == 300


def test_a_hold_out_is_judged_by_the_model_itself(files, tmp_path):
    path = tmp_path / "m.model"
    found = numbers(f"fit {files.trial} {FIT} --id person --hold-out .3 -o {path}")
    n_judged, table = found["rows"]["n_rows"], found["table"]
    assert n_judged + table["learnt"] == table["used"]
    assert n_judged == pytest.approx(0.3 * table["used"], rel=0.15)
    assert found["notes"] == [
        f"Judged on {n_judged:,} rows that were set aside: this model has not seen them."
    ]
    assert "betting" in found["certificate"]["text"]
    assert "fewer rows than this one" not in found["certificate"]["text"]
    assert numbers(f"evaluate {path} {files.trial}") == numbers(f"evaluate {path}")
    # Of an extract, rows that were not learnt from may judge.
    pd.read_csv(files.trial).head(1_500).to_csv(tmp_path / "some.csv", index=False)
    some = numbers(f"evaluate {path} {tmp_path}/some.csv")
    assert 0.2 * 1_350 < some["rows"]["n_rows"] < 0.4 * 1_350
    assert "the others are rows that the model learnt from" in some["notes"][0]


@pytest.fixture(scope="module")
def reordered(files, tmp_path_factory):
    path = tmp_path_factory.mktemp("reordered") / "trial.csv"
    pd.read_csv(files.trial).sample(frac=1, random_state=0).to_csv(path, index=False)
    return path


def test_a_reordered_file_is_the_same_file(model, reordered):
    assert numbers(f"evaluate {model} {reordered}") == numbers(f"evaluate {model}")


def test_an_extract_is_refused_for_the_model_has_learnt_from_it(files, model, reordered, tmp_path):
    pd.read_csv(reordered).head(1_500).to_csv(tmp_path / "some.csv", index=False)
    for line in (
        f"evaluate {model} {tmp_path}/some.csv",
        f"report {model} {tmp_path}/some.csv -o {tmp_path}/r.html",
    ):
        result = run(line)
        assert result.exit_code == 2
        with_ids = "rows that it learnt from. What they show was found when it was fitted"
        without = "there are no ids, so the others cannot be told"
        assert (with_ids if model == files.model else without) in result.stderr
    assert not (tmp_path / "r.html").exists()


def alike_table(n=6_000):
    """Rows of some 200 kinds."""
    rng = np.random.default_rng(4)
    return pd.DataFrame(
        {
            "pid": np.arange(n),
            "arm": rng.choice(["mail", "none"], n),
            "visit": rng.integers(0, 2, n),
            "age": rng.integers(0, 10, n),
            "town": rng.choice(list("abcdefghij"), n),
        }
    )


def judged(model, data, folder):
    """The two commands that judge a model on data."""
    return f"evaluate {model} {data}", f"report {model} {data} -o {folder}/r.html"


def test_ids_that_are_written_in_another_way(files, tmp_path):
    table = pd.read_csv(files.trial).iloc[:-3]
    table.assign(person="x" + table["person"]).to_csv(tmp_path / "padded.csv", index=False)
    for line in judged(files.model, tmp_path / "padded.csv", tmp_path):
        result = run(line)
        assert result.exit_code == 2
        assert "look like rows that it learnt from" in result.stderr
        assert "write the ids as the file of the fit has them" in result.stderr


@pytest.mark.parametrize("forget", ["", "--forget-rows"])
def test_nothing_is_certified_where_it_cannot_be_told_which_rows_are_new(tmp_path, forget):
    """Rows look alike, or the model was told to forget them."""
    table = alike_table().drop(columns="pid")
    if forget:
        table["spent"] = np.random.default_rng(0).random(len(table))
    model, some = tmp_path / "m.model", tmp_path / "s.csv"
    table.to_csv(tmp_path / "t.csv", index=False)
    assert run(f"fit {tmp_path}/t.csv {FIT} {forget} -o {model}").exit_code == 0
    own = numbers(f"evaluate {model} {tmp_path}/t.csv")
    assert (own["certificate"] is None) == bool(forget)
    table[:300].to_csv(some, index=False)
    evaluate, report = judged(model, some, tmp_path)
    found = numbers(evaluate)
    assert found["certificate"] is None
    words = "was told to forget its rows" if forget else "look too much alike"
    assert words in found["notes"][0]
    assert words in found["doubt"]
    assert "none, for the model may have learnt from these rows" in run(evaluate).stdout
    found = numbers(report)
    assert found["certificate"] is None
    (caveat,) = (c for c in found["caveats"] if c["kind"] == "rows perhaps known")
    assert caveat["severity"] == "problem"
    page = (tmp_path / "r.html").read_text()
    assert "rows that it may have been fitted on" in page
    assert "each ranked by a model that was not fitted on it" not in page


def test_a_model_that_forgets_its_rows_does_not_know_its_file(files, tmp_path):
    path = tmp_path / "m.model"
    line = f"fit {files.trial} {FIT} --id person -o {path}"
    assert run(f"{line} --forget-rows").exit_code == 0
    small = path.stat().st_size
    assert numbers(f"evaluate {path} {files.trial}")["certificate"] is None
    assert numbers(f"evaluate {path}")["certificate"] is not None
    rivals = run(f"compare {files.trial} --against {path} --models cvt")
    assert "was told to forget its rows" in rivals.stderr
    assert run(line).exit_code == 0
    n_learnt = load_model(path).summary["table"]["learnt"]
    assert 2 * n_learnt < path.stat().st_size - small < 2 * n_learnt + 1_000


def test_rows_that_are_new_are_all_used_and_have_no_rivals(files, tmp_path):
    table = trial_table(1_000, random_state=9).assign(person=range(1_000))
    table = table[table["arm"] != "phone"]
    table.to_csv(tmp_path / "t.csv", index=False)
    found = numbers(f"evaluate {files.model} {tmp_path}/t.csv")
    n_known = len(table) - found["rows"]["n_rows"]  # by chance, of a filter of their ids
    assert 0 <= n_known <= 0.03 * len(table)
    assert found["notes"][0].startswith(f"All {len(table):,} rows")
    assert "none was recognised as one that the model learnt from." in found["notes"][0]
    assert found["certificate"] is not None
    report = numbers(f"report {files.model} {tmp_path}/t.csv -o {tmp_path}/r.html")
    assert report["rivals"] == []
    assert report["rows"]["n_rows"] == found["rows"]["n_rows"]
    assert report["auuc"]["estimate"] == found["auuc"]["estimate"]


def test_rivals_are_drawn_on_the_rows_of_the_fit(files, model, tmp_path):
    page = tmp_path / "r.html"
    found = numbers(f"report {model} {files.trial} --rivals cvt,mom -o {page}")
    assert [rival["name"] for rival in found["rivals"]] == ["cvt", "mom"]
    compared = numbers(f"compare {files.trial} --against {model} --models cvt,mom")
    for rival in found["rivals"]:
        assert rival["difference"] == compared["models"][rival["name"]]["difference"]
    assert "mom" in page.read_text()


@pytest.fixture(scope="module")
def homes(tmp_path_factory):
    """A trial of households, later ones, and a model that knows of them."""
    folder = tmp_path_factory.mktemp("homes")
    households().to_csv(folder / "trial.csv", index=False)
    new = households(random_state=1)
    new = new.assign(home="new " + new["home"], score=new["x0"])
    new.to_csv(folder / "new.csv", index=False)
    line = f"fit {folder}/trial.csv {FIT} --id person --groups home -o {folder}/m.model"
    result = run(line)
    assert result.exit_code == 0, result.output
    return folder


def test_every_command_takes_groups(homes, tmp_path):
    trial, new, model = homes / "trial.csv", homes / "new.csv", homes / "m.model"
    n_homes = households()["home"].nunique()
    by = "--groups home"
    assert numbers(f"evaluate {model}")["rows"]["groups"] == n_homes
    assert numbers(f"evaluate {model} {trial} {by}")["rows"]["groups"] == n_homes
    assert 0.97 * n_homes < numbers(f"evaluate {model} {new}")["rows"]["groups"] <= n_homes
    columns = FIT.replace("-m tm", "")
    scored = f"evaluate {new} --score-column score {columns}"
    alone, grouped = numbers(scored), numbers(f"{scored} {by}")
    assert (alone["rows"]["groups"], grouped["rows"]["groups"]) == (None, n_homes)
    assert width(grouped["auuc"]) > 1.2 * width(alone["auuc"])
    assert "every cluster weighs the same" in grouped["certificate"]["text"]
    checked = numbers(f"check {trial} {columns} --id person {by}")
    assert checked["randomisation"]["grouping"].startswith(f"one row of each of the {n_homes:,}")
    rows = numbers(f"check {trial} {columns} --id person --after home")
    assert checked["detectable_effect"] > 1.2 * rows["detectable_effect"]
    page = tmp_path / "r.html"
    assert numbers(f"report {model} {by} -o {page}")["rows"]["groups"] == n_homes
    compared = numbers(f"compare {trial} --against {model} --models cvt {by}")
    assert compared["rows"]["groups"] == n_homes
    assert run(f"target {model} {new} --share .3 {by} -o {tmp_path}/list.csv").exit_code == 0
    splits = f"compare {trial} {columns} --models tm --splits 2 --id person"
    with_homes, without = numbers(f"{splits} {by}"), numbers(f"{splits} --ignore home")
    errors = [
        np.mean([line["standard_error"] for line in found["splits"]])
        for found in (with_homes, without)
    ]
    assert errors[0] > 1.2 * errors[1]


def width(auuc):
    return auuc["upper"] - auuc["lower"]


def test_groups_that_the_model_does_not_know(homes, files, tmp_path):
    for line in (
        f"evaluate {homes}/m.model --groups x0",
        f"report {homes}/m.model --groups x0 -o {tmp_path}/r.html",
        f"target {homes}/m.model {homes}/new.csv --share .3 --groups x0 -o {tmp_path}/l.csv",
        f"compare {homes}/trial.csv --against {homes}/m.model --groups x0",
    ):
        result = run(line)
        assert result.exit_code == 2
        assert "--groups should be 'home', as the MODEL was fitted; got 'x0'" in result.stderr
    result = run(f"evaluate {files.model} --groups home")
    assert "--groups should be left out, for the model has none" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_without_groups_a_command_asks(homes, tmp_path):
    columns = f"{homes}/trial.csv {FIT.replace('-m tm', '')}"
    told = run(f"check {columns} --id person")
    assert "rows of one 'home' belong together" in " ".join(told.stdout.split())
    assert "pass --groups home" in " ".join(told.stdout.split())
    repeated = run(f"check {columns} --id home")
    assert repeated.exit_code == 2
    assert "Do the rows of an id belong together? Then pass --groups home;" in repeated.stderr
    copies = pd.concat([pd.read_csv(homes / "trial.csv")] * 2).drop(columns=["home", "person"])
    copies.to_csv(tmp_path / "twice.csv", index=False)
    for command in (f"fit {tmp_path}/twice.csv {FIT} -o {tmp_path}/m",
                    f"compare {tmp_path}/twice.csv {FIT.replace('-m', '--models')}"):  # fmt: skip
        result = run(command)
        assert result.exit_code == 2
        assert "Remove the copies, or pass --groups COLUMN" in result.stderr
    named = np.arange(len(copies)) % (len(copies) // 2)
    few = (copies["x0"] > 0) * 1  # a score that many people share
    copies.assign(few=few, who=named).to_csv(tmp_path / "scored.csv", index=False)
    for score in ("x0", "few"):
        line = f"evaluate {tmp_path}/scored.csv --score-column {score} {FIT.replace('-m tm', '')}"
        result = run(line)
        assert result.exit_code == 2
        assert "Remove the copies, or pass --groups COLUMN" in result.stderr
        assert run(f"{line} --groups who").exit_code == 0
    noted = run(f"check {tmp_path}/twice.csv {FIT.replace('-m tm', '')}")
    assert "note: rows should be different people" in noted.stderr


def test_candidates_of_the_command(homes, tmp_path):
    line = f"fit {homes}/trial.csv {FIT} --id person --groups home -o {tmp_path}/m.model"
    found = numbers(f"{line} --candidates 5")["certificate"]
    assert found["n_candidates"] == 5
    one = numbers(f"evaluate {homes}/m.model")["certificate"]
    assert found["gain_lower_bound"] < one["gain_lower_bound"]
    assert "each the best of 5" in run(f"evaluate {tmp_path}/m.model").stdout
    assert "--candidates should be a whole number" in run(f"{line} --candidates 0").stderr
