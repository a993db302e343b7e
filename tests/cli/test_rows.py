"""From files and options to rows: columns by name, labels, order."""

import numpy as np
import pandas as pd
import pytest
from tests.cli.commands import FIT, NAMED, numbers, result_of, run


@pytest.mark.gate
def test_a_column_without_values_gets_a_note(files, tmp_path):
    table = pd.read_csv(files.trial).assign(income=np.nan)
    table.to_csv(tmp_path / "trial.csv", index=False)
    result = run(f"fit {tmp_path}/trial.csv {FIT} --id person -o {tmp_path}/m.model")
    assert result.exit_code == 0
    assert "'income'" in result.stderr


def test_the_order_of_columns_does_not_matter(files, tmp_path):
    new = pd.read_csv(files.new)
    new[new.columns[::-1]].to_csv(tmp_path / "new.csv", index=False)
    for name, source in (("a", files.new), ("b", tmp_path / "new.csv")):
        assert run(f"target {files.model} {source} -s .2 -o {tmp_path}/{name}.csv").exit_code == 0
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


@pytest.mark.gate
def test_names_with_commas(files, tmp_path):
    table = pd.read_csv(files.trial).rename(columns={"age": "age, in years", "town": "town,city"})
    table.to_csv(tmp_path / "t.csv", index=False)
    line = ["fit", f"{tmp_path}/t.csv", *FIT.split(), "--id", "person", "-o", tmp_path / "m.model"]
    for option, names, n in (
        ("--features", ("age, in years", "town,city", "spent,member"), 4),
        ("--ignore", ("age, in years", "spent,member"), 2),
    ):
        given = [text for name in names for text in (option, name)]
        assert run(*line, *given).exit_code == 0
        assert len(result_of(f"evaluate {tmp_path}/m.model")["roles"]["features"]) == n


def test_options_that_agree_with_the_model_pass(files):
    assert run(f"evaluate {files.model} {files.trial} {NAMED}").exit_code == 0


def test_the_fit_says_what_it_left_out(files, tmp_path):
    found = numbers(f"fit {files.trial} {FIT} --id person -o {tmp_path}/m.model")
    info = found["fit"]
    n_phone = int((pd.read_csv(files.trial)["arm"] == "phone").sum())
    assert info["other_arms"] == {"phone": n_phone}
    assert info["n_given"] == info["n_used"] + n_phone
    assert info["file"] == "trial.csv"
