"""From files and options to rows: columns by name, labels, order."""

import pandas as pd
from tests.cli.commands import FIT, numbers, run


def test_the_order_of_columns_does_not_matter(files, tmp_path):
    new = pd.read_csv(files.new)
    new[new.columns[::-1]].to_csv(tmp_path / "new.csv", index=False)
    for name, source in (("a", files.new), ("b", tmp_path / "new.csv")):
        assert run(f"target {files.model} {source} -s .2 -o {tmp_path}/{name}.csv").exit_code == 0
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_the_fit_says_what_it_left_out(files, tmp_path):
    found = numbers(f"fit {files.trial} {FIT} --id person -o {tmp_path}/m.model")
    info = found["fit"]
    n_phone = int((pd.read_csv(files.trial)["arm"] == "phone").sum())
    assert info["other_arms"] == {"phone": n_phone}
    assert info["n_given"] == info["n_used"] + n_phone
    assert info["file"] == "trial.csv"
