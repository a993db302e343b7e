"""A newcomer with a raw file: from the first look to the list, only by commands."""

import gzip
import json
import os
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from tests.cli.commands import run

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

    assert "No evidence against randomisation" in good(f"check {trial} {NAMED}")

    screen = good(f"fit {trial} {NAMED} -o {model} {model_option} --details")
    assert "g2004: with one value" in screen
    assert "Civic Duty" in screen  # rows of other arms, left out
    assert f"Written to {model}." in screen
    numbers = json.loads(good(f"evaluate {model} --json"))

    rivals = "cvt" if model_option else "tm,cvt"  # of all rows, one rival takes long enough
    assert f", on {numbers['rows']['n_rows']:,} rows." in good(
        f"compare {trial} --against {model} --models {rivals}"
    )
    screen = good(f"evaluate {model} --details")
    assert f"{numbers['auuc']['estimate']:.5f}" in screen
    assert "Every row was ranked by a model that had not seen it" in screen
    # Its own file tells nothing new, which is said.
    assert json.loads(good(f"evaluate {model} {trial} --json")) == numbers
    own = good(f"evaluate {model} {trial} --details")
    assert own.startswith("DATA is the file that the model was fitted on, which shows nothing new")
    assert f"{numbers['auuc']['estimate']:.5f}" in own

    chosen_by_commands(folder, model, new)

    screen = good(f"report {model} -o {folder}/vote.html --cost .4 --value 10")
    page = (folder / "vote.html").read_text(encoding="utf-8")
    assert screen.splitlines()[0].startswith("Treat the ")
    assert "people of a trial, trial.csv, ranked on 20" in page
    assert "What these data cannot support" in page
    assert "Neighbors" in page
    names = {path.name for path in folder.iterdir()}
    assert not any(name.endswith(".part") for name in names)
    return numbers


def chosen_by_commands(folder, model, new):
    """By a share, by a budget, and by SQL: the same people with the same scores."""
    n_new = len(pd.read_csv(new))
    n_treated = round(0.3 * n_new)
    screen = good(f"target {model} {new} --share .3 -o {folder}/share.csv")
    assert f"{n_treated:,} of {n_new:,} people" in screen
    share = pd.read_csv(folder / "share.csv", skipinitialspace=True)
    assert share["rank"].tolist() == list(range(1, n_treated + 1))
    assert share["score"].is_monotonic_decreasing
    assert share["uplift"].is_monotonic_decreasing
    assert set(share["arm"]) == {"Neighbors"}

    screen = good(f"target {model} {new} --budget 100 --cost .5 --all -o {folder}/all.csv")
    assert "200 of" in screen
    assert "cost 100.00" in screen
    everyone = pd.read_csv(folder / "all.csv", skipinitialspace=True)
    assert (everyone["arm"] == "Neighbors").sum() == 200
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
    assert numbers["rows"]["n_rows"] > 220_000
    assert numbers["auuc"]["lower"] > 0.03
