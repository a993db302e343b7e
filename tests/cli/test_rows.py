"""A model is judged on rows that it has not learnt from, whatever file it is given."""

import json

import numpy as np
import pandas as pd
import pytest
from auucmax.trial_model.dealing import deal
from tests.cli.commands import run

from auucmax.data.reading import read_table
from auucmax.trial_model import PARTS, load_model, trial_rows


def numbers(line):
    result = run(f"{line} --json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture(params=["model", "model_without_id"])
def model(request, files):
    return getattr(files, request.param)


def parts_of(model, frame):
    """The part of each row, dealt again from what the model file keeps."""
    rows = trial_rows(frame, model.columns)
    split = model.split
    _, parts = deal(
        rows.marks(model.columns.features),
        test_share=split.test_share,
        calibration_share=split.calibration_share,
        key=split.key,
    )
    return rows, parts


def test_the_file_of_the_fit_is_judged_on_test_rows_only(files, model, tmp_path):
    counts = load_model(model).summary["rows"]["parts"]["test"]
    n_test = sum(counts.values())
    evaluated = numbers(f"evaluate {model} {files.trial}")
    assert evaluated["auuc"]["n_rows"] == n_test
    assert evaluated["auuc"]["estimate"] == load_model(model).summary["test"]["estimate"]
    reported = numbers(f"report {model} {files.trial} -o {tmp_path}/r.html")
    assert reported["rows"]["n_rows"] == n_test
    compared = numbers(f"compare {files.trial} --against {model} --models tm")
    said = f"{n_test:,} of 2,7"  # of the two arms
    for note in (evaluated["note"], compared["note"]):
        assert note.startswith(said)
        assert "the others are rows that the model was fitted or calibrated on" in note
    screens = [
        run(f"evaluate {model} {files.trial}").stdout,
        run(f"compare {files.trial} --against {model} --models tm").stdout,
        (tmp_path / "r.html").read_text(),
    ]
    assert all("which are no evidence" in screen for screen in screens)
    assert all(said in screen for screen in screens)


def test_the_parts_have_no_row_in_common(files, model):
    fitted, frame = load_model(model), read_table(files.trial)
    rows, parts = parts_of(fitted, frame)
    held_out, learnt = fitted.held_out(frame), fitted.learnt(frame)
    assert np.array_equal(held_out.positions, rows.positions[parts == PARTS.index("test")])
    assert not set(held_out.positions) & set(learnt.positions)
    assert len(held_out.positions) + len(learnt.positions) == len(rows.y)
    for k, name in enumerate(PARTS):
        counted = fitted.summary["rows"]["parts"][name]
        assert counted["treated"] == int(rows.treated[parts == k].sum()) > 0
        assert counted["control"] == int((~rows.treated[parts == k]).sum()) > 0
    # Evidence in the model file is of those rows.
    assert np.array_equal(fitted.test_rows.score, fitted.predict(held_out.frame))


@pytest.fixture(scope="module")
def reordered(files, tmp_path_factory):
    path = tmp_path_factory.mktemp("reordered") / "trial.csv"
    pd.read_csv(files.trial).sample(frac=1, random_state=0).to_csv(path, index=False)
    return path


def test_a_reordered_file_without_ids_is_refused(files, reordered, tmp_path):
    model = files.model_without_id
    for line in (
        f"evaluate {model} {reordered}",
        f"report {model} {reordered} -o {tmp_path}/r.html",
        f"compare {reordered} --against {model}",
    ):
        result = run(line)
        assert result.exit_code == 2
        assert "there are no ids, so the others cannot be told" in result.stderr
        assert "fit the model with an id column" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_with_ids_any_order_and_any_extract_will_do(files, reordered, tmp_path):
    first = numbers(f"evaluate {files.model} {files.trial}")
    again = numbers(f"evaluate {files.model} {reordered}")
    assert again["auuc"]["n_rows"] == first["auuc"]["n_rows"]
    assert again["auuc"]["estimate"] == pytest.approx(first["auuc"]["estimate"], rel=1e-12)
    assert again["note"] == first["note"]
    pd.read_csv(reordered).head(1_500).to_csv(tmp_path / "some.csv", index=False)
    some = numbers(f"evaluate {files.model} {tmp_path}/some.csv")
    assert 0 < some["auuc"]["n_rows"] < first["auuc"]["n_rows"]


ALIKE = "-t arm -y visit --treated mail --control none -m tm"


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
    """The three commands that judge a model."""
    return (
        f"evaluate {model} {data}",
        f"report {model} {data} --rivals= -o {folder}/r.html",
        f"compare {data} --against {model} --models tm",
    )


def test_ids_that_are_written_in_another_way(tmp_path):
    table, model, padded = alike_table(), tmp_path / "m.model", tmp_path / "padded.csv"
    table.to_csv(tmp_path / "t.csv", index=False)
    assert run(f"fit {tmp_path}/t.csv {ALIKE} --id pid -o {model}").exit_code == 0
    for rows, words in ((table, "these rows under other ids"), (table[:-3], "outcomes agree")):
        rows = rows.assign(pid="p" + rows["pid"].map("{:07d}".format))
        rows.to_csv(padded, index=False)
        for line in judged(model, padded, tmp_path):
            result = run(line)
            assert result.exit_code == 2
            assert words in result.stderr
            assert "write the ids as they are written there" in result.stderr


def test_nothing_is_certified_where_it_cannot_be_told_which_rows_are_new(tmp_path):
    table, model, some = alike_table().drop(columns="pid"), tmp_path / "m.model", tmp_path / "s.csv"
    table.to_csv(tmp_path / "t.csv", index=False)
    assert run(f"fit {tmp_path}/t.csv {ALIKE} -o {model}").exit_code == 0
    assert numbers(f"evaluate {model} {tmp_path}/t.csv")["certificate"] is not None
    table[:-1].to_csv(some, index=False)
    for line in judged(model, some, tmp_path):
        assert "outcomes agree" in run(line).stderr
    table[:300].to_csv(some, index=False)  # so few that nothing can be seen
    evaluate, report, _ = judged(model, some, tmp_path)
    found = numbers(evaluate)
    assert found["certificate"] is None
    assert "look too much alike" in found["note"]
    assert "none, for the model may have learnt from these rows" in run(evaluate).stdout
    found = numbers(report)
    assert found["certificate"] is None
    (caveat,) = (c for c in found["caveats"] if c["kind"] == "rows perhaps known")
    assert caveat["severity"] == "problem"
    page = (tmp_path / "r.html").read_text()
    assert "rows that it may have been fitted on" in page
    assert "rows that it was not fitted on" not in page


def test_rows_that_are_new_are_all_used_and_have_no_rivals(files, tmp_path):
    new = pd.read_csv(files.new)
    rng = np.random.default_rng(0)
    arm = rng.choice(["mail", "none"], len(new))
    new.assign(arm=arm, visit=rng.integers(0, 2, len(new))).to_csv(tmp_path / "t.csv", index=False)
    found = numbers(f"evaluate {files.model} {tmp_path}/t.csv")
    assert found["note"] == "All 1,000 rows are new to the model."
    report = numbers(f"report {files.model} {tmp_path}/t.csv -o {tmp_path}/r.html")
    assert report["rivals"] == []
    assert report["rows"]["n_rows"] == 1_000
    asked = run(f"report {files.model} {tmp_path}/t.csv --rivals tm -o {tmp_path}/r.html")
    assert asked.exit_code == 2
    assert "Pass the file of the fit, or no rivals." in asked.stderr
