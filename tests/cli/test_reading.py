"""Files whose form is not recognised, and numbers that are codes: options of the commands."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.cli.commands import FIT, NAMED, run
from tests.model.trial_table import trial_table


def table(n, random_state):
    """People with a plan, which is a code, children, which are counted, and prices in a shop."""
    frame = trial_table(n, random_state).drop(columns=["joined", "spent", "member"])
    rng = np.random.default_rng(random_state)
    return frame.assign(
        town=frame["town"].fillna("Århus"),
        plan=rng.choice([1, 2, 7], n),
        children=rng.integers(0, 4, n),
        shop=rng.integers(100, 112, n),
        price=[f"{k}.{k % 7}00".replace(".", ",") for k in rng.integers(1, 9, n)],  # 3,300
    )


GERMAN = {"index": False, "sep": ";", "encoding": "latin-1", "decimal": ","}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The trial and later people as files of Latin-1, semicolons and decimal commas."""
    found = tmp_path_factory.mktemp("reading")
    rows = table(3_000, 4)
    rows.iloc[:2_000].to_csv(found / "trial.csv", **GERMAN)
    rows.iloc[2_000:].drop(columns=["arm", "visit"]).to_csv(found / "new.csv", **GERMAN)
    return found


FORM = "--encoding latin-1 --decimal ,"


@pytest.fixture(scope="module")
def model(folder):
    path = folder / "m.model"
    line = f"fit {folder}/trial.csv {FIT} --id person {FORM} --categorical shop --numeric children"
    result = run(f"{line} -o {path} --json")
    assert result.exit_code == 0, result.output
    return path, json.loads(result.stdout)


def test_fit_learns_from_the_file_as_it_is_meant(model):
    from auucmax.model import load

    path, found = model
    assert found["fit"]["codes"] == ["plan"]
    encoder = load(path).scorers[0].encoder
    kinds = {column.name: (column.kind, len(column.levels)) for column in encoder.columns_}
    assert kinds == {
        "age": ("number", 0), "town": ("category", 4), "plan": ("code", 3),
        "children": ("number", 0), "shop": ("category", 12), "price": ("number", 0),
    }  # fmt: skip
    assert "Århus" in encoder.columns_[1].levels
    assert encoder.columns_[-1].fill < 9  # not thousands


@pytest.mark.gate
def test_later_files_need_no_option_but_for_their_form(folder, model, tmp_path):
    path, _ = model
    line = f"target {path} {folder}/new.csv --share .3 -o {tmp_path}/list.csv --all"
    assert run(f"{line} {FORM}").exit_code == 0
    expected = pd.read_csv(tmp_path / "list.csv")
    # As UTF-8 with plain numbers; a plan and a shop that are new are no error.
    plain = pd.read_csv(folder / "new.csv", sep=";", encoding="latin-1", decimal=",")
    plain.to_csv(tmp_path / "plain.csv", index=False)
    line = f"target {path} {tmp_path}/plain.csv --share .3 -o {tmp_path}/list.csv --all"
    assert run(line).exit_code == 0
    np.testing.assert_array_equal(pd.read_csv(tmp_path / "list.csv")["score"], expected["score"])
    plain.assign(plan=plain["plan"].replace(7, 8), shop=plain["shop"] + 1).to_csv(
        tmp_path / "plain.csv", index=False
    )
    assert run(line).exit_code == 0
    refused = run(f"target {path} {folder}/new.csv --share .3 -o {tmp_path}/list.csv")
    assert refused.exit_code == 2
    assert "Name its encoding" in refused.stderr


@pytest.mark.quick_cases("evaluate")
@pytest.mark.parametrize(
    "line",
    [
        "evaluate {model} {folder}/trial.csv --json",
        "report {model} {folder}/trial.csv -o {out}.html --json",
        "compare {folder}/trial.csv --against {model} --models tm --json",
        "compare {folder}/trial.csv {named} --id person --models tm --splits 1 --categorical shop "
        "--numeric plan,children --json",
        "evaluate {folder}/trial.csv --score-column age {named} --drop-missing-outcomes --json",
    ],
)
def test_every_command_takes_them(line, folder, model, tmp_path):
    if "--score-column" in line:
        rows = pd.read_csv(folder / "trial.csv", sep=";", encoding="latin-1", decimal=",")
        rows["age"] = rows["age"].fillna(40)
        rows.to_csv(tmp_path / "trial.csv", **GERMAN)
        folder = tmp_path
    filled = line.format(model=model[0], folder=folder, out=tmp_path / "r", named=NAMED)
    result = run(f"{filled} {FORM}")
    assert result.exit_code == 0, result.output
    json.loads(result.stdout)
    assert run(filled).exit_code == 2
