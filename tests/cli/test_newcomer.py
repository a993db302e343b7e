"""A newcomer with a raw file: from the first look to the list, only by commands."""

import gzip
import json
import os
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from tests.cli.commands import result_of, run

from auucmax.data.reading import read_table

pytestmark = pytest.mark.gate

NAMED = "-t treatment -y voted --treated Neighbors --control Control"  # the file has " Neighbors"


@pytest.fixture(scope="module")
def raw():
    folder = os.environ.get("AUUCMAX_DATA")
    if not folder:
        pytest.skip("AUUCMAX_DATA is not set: no real rows")
    path = Path(folder) / "social_pressure" / "social_pressure.csv.gz"
    if not path.is_file():
        pytest.skip(f"AUUCMAX_DATA has no {path.name}")
    return path


def sample(raw, folder, n_rows, n_new):
    """Lines as they are: rows of the trial, and people of later, who have a number."""
    with gzip.open(raw, "rt") as file:
        header, *lines = file.read().splitlines()
    order = np.random.default_rng(1).permutation(len(lines))
    trial = [lines[k] for k in sorted(order[:n_rows])]
    (folder / "trial.csv").write_text("\n".join([header, *trial]) + "\n")
    new = pd.read_csv(raw, skipinitialspace=True).iloc[np.sort(order[-n_new:])]
    new = new.drop(columns=["treatment", "voted"])
    new.insert(0, "person", np.arange(len(new)) + 70_001)
    new.to_csv(folder / "new.csv", index=False)


def good(line):
    result = run(line)
    assert result.exit_code == 0, result.output
    assert all(text.startswith("note: ") for text in result.stderr.splitlines())
    return result.stdout


def scores_in_duckdb(query, people):
    """The exported query, run on a table of the people with the types that they have here."""
    frame = read_table(people)
    with duckdb.connect() as db:
        db.register("frame", frame)
        db.execute("CREATE TABLE people AS FROM frame")
        return db.sql(query).df().set_index("person")


def from_the_file_to_the_list(folder, model_option=""):
    trial, new, model = folder / "trial.csv", folder / "new.csv", folder / "vote.model"

    good(f"check {trial} {NAMED}")
    fitted = json.loads(good(f"fit {trial} {NAMED} -o {model} {model_option} --json"))
    assert "g2004" in fitted["fit"]["dropped"]
    assert any("Civic Duty" in label for label in fitted["fit"]["other_arms"])
    numbers = result_of(f"evaluate {model}")

    rivals = "cvt" if model_option else "tm,cvt"  # of all rows, one rival takes long enough
    (arm,) = result_of(f"compare {trial} --against {model} --models {rivals}")["arms"]
    assert len(arm["rivals"]) == len(rivals.split(","))
    # Its own file is recognised.
    assert result_of(f"evaluate {model} {trial}") == numbers

    chosen_by_commands(folder, model, new)

    good(f"report {model} -o {folder}/vote.html --cost .4 --value 10")
    assert "trial.csv" in (folder / "vote.html").read_text(encoding="utf-8")
    names = {path.name for path in folder.iterdir()}
    assert not any(name.endswith(".part") for name in names)
    return numbers


def chosen_by_commands(folder, model, new):
    """By a share, by a budget, and by SQL: the same people with the same scores."""
    n_new = len(pd.read_csv(new))
    n_treated = round(0.3 * n_new)
    good(f"target {model} {new} --share .3 -o {folder}/share.csv")
    share = pd.read_csv(folder / "share.csv", skipinitialspace=True)
    assert share["rank"].tolist() == list(range(1, n_treated + 1))
    assert share["score"].is_monotonic_decreasing
    assert share["uplift"].is_monotonic_decreasing
    assert {label.strip() for label in share["arm"]} == {"Neighbors"}

    good(f"target {model} {new} --budget 100 --cost .5 --all -o {folder}/all.csv")
    everyone = pd.read_csv(folder / "all.csv", skipinitialspace=True)
    assert (everyone["arm"].str.strip() == "Neighbors").sum() == 200
    assert everyone["row"].tolist()[:n_treated] == share["row"].tolist()
    assert sorted(everyone["row"]) == list(range(1, n_new + 1))

    good(f"export {model} --to sql --keep person -o {folder}/score.sql")
    scored = scores_in_duckdb((folder / "score.sql").read_text(), new)
    people = pd.read_csv(new)["person"].to_numpy()[everyone["row"].to_numpy() - 1]
    for column in ("score", "uplift"):
        expected = scored.loc[people, column].to_numpy()
        np.testing.assert_allclose(expected, everyone[column], rtol=0, atol=1e-9)


def test_from_the_raw_file_to_the_list(raw, tmp_path):
    sample(raw, tmp_path, 12_000, 1_000)
    from_the_file_to_the_list(tmp_path)


@pytest.mark.gate
def test_from_the_whole_file_to_the_list(raw, tmp_path):
    sample(raw, tmp_path, 340_000, 4_000)
    # Trees of all folds and chunks, twice, would take minutes; the small file has them.
    numbers = from_the_file_to_the_list(tmp_path, "-m shrunk")
    # All rows of two arms; the mail had an effect of 8 points on the vote.
    assert numbers["n_rows"] > 220_000
    assert numbers["arms"][0]["auuc"]["lower"] > 0.03
