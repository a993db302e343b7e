"""``auucmax evaluate``: what was found at the fit, or new rows; never those learnt from."""

import numpy as np
import pandas as pd
import pytest
from tests.cli.commands import FIT, numbers, run
from tests.model.trial_table import trial_table

from auucmax.cli.output import told
from auucmax.model import load_model


@pytest.mark.gate
def test_the_file_of_the_fit_shows_what_was_found_then(files, model, tmp_path):
    """Every row judges, and none was ranked by a model that had learnt from it."""
    facts = load_model(model).evidence.facts
    two_arms = pd.read_csv(files.trial)["arm"].isin(["mail", "none"]).sum()
    assert facts["rows"]["n_rows"] == load_model(model).summary["table"]["learnt"] == two_arms
    shown, known = numbers(f"evaluate {model}"), load_model(model).evidence.told()
    assert shown == numbers(f"evaluate {model} {files.trial}") == told(known)
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
        run(f"evaluate {model} --details").stdout,
        run(f"compare {files.trial} --against {model} --models cvt --details").stdout,
        (tmp_path / "r.html").read_text(),
    ]
    assert all(said in screen for screen in screens)


@pytest.mark.gate
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


def test_a_reordered_file_is_the_same_file_and_shows_nothing_new(model, reordered):
    assert numbers(f"evaluate {model} {reordered}") == numbers(f"evaluate {model}")
    first, *lines = run(f"evaluate {model} {reordered}").stdout.splitlines()
    assert first.startswith("DATA is the file that the model was fitted on, which shows nothing")
    verdict = run(f"evaluate {model}").stdout.splitlines()[0]
    assert "beats a random order" in verdict
    assert any("found at the fit" in line and verdict in line for line in lines)


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


@pytest.mark.gate
def test_ids_that_are_written_in_another_way(files, tmp_path):
    table = pd.read_csv(files.trial).iloc[:-3]
    table.assign(person="x" + table["person"]).to_csv(tmp_path / "padded.csv", index=False)
    for line in judged(files.model, tmp_path / "padded.csv", tmp_path):
        result = run(line)
        assert result.exit_code == 2
        assert "look like rows that it learnt from" in result.stderr
        assert "write the ids as the file of the fit has them" in result.stderr


@pytest.mark.gate_cases("--forget-rows")
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
    assert "The people may not be new to the model." in page
    assert words in page


@pytest.mark.gate
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
    assert "none was recognised as one that the model learnt from" in found["notes"][0]
    assert found["certificate"] is not None
    report = numbers(f"report {files.model} {tmp_path}/t.csv -o {tmp_path}/r.html")
    assert report["rivals"] == []
    assert report["rows"]["n_rows"] == found["rows"]["n_rows"]
    assert report["auuc"]["estimate"] == found["auuc"]["estimate"]


@pytest.mark.parametrize("column", ["arm", "visit"])
def test_scores_are_neither_outcome_nor_treatment(files, column):
    line = f"evaluate {files.trial} -t arm -y visit --treated mail --control none"
    result = run(f"{line} --score-column {column}")
    assert result.exit_code == 2
    words = f"--score-column should be another column than --treatment and --outcome, got '{column}"
    assert words in result.stderr
