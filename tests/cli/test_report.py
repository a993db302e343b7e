"""``auucmax report``: the page and the decision on it."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.cli.commands import result_of, run


def test_the_decision_is_that_of_the_list(files, tmp_path):
    found = result_of(f"report {files.model} -o {tmp_path}/r.html -s .3 --cohort 1000")
    listed = result_of(f"target {files.model} {files.new} -s .3 -o {tmp_path}/l.csv")
    assert found["state"] == listed["decision"]["state"]
    assert found["plan"]["counts"] == listed["decision"]["plan"]["counts"]
    assert "<script" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_a_page_of_few_new_rows_has_no_number_about_few_of_them(files, tmp_path):
    rows = pd.read_csv(files.trial)
    rows = rows[rows["arm"].isin(["mail", "none"])].head(150)
    rows.assign(person="new " + rows["person"].astype(str), age=rows["age"] + 0.123).to_csv(
        tmp_path / "few.csv", index=False
    )
    assert run(f"report {files.model} {tmp_path}/few.csv -o {tmp_path}/r.html").exit_code == 0
    (arm,) = result_of(f"evaluate {files.model} {tmp_path}/few.csv")["arms"]
    assert np.diff(arm["curve"]["spend"]).min() >= 0.2


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ("--cohort 9007199254740993 --cost 1 --value 1", "--cohort"),
        ("--cost 1e300 --value 1", "--cost"),
        ("--cost 1 --value 1e300", "--value"),
        ("--campaign FILE", "--campaign"),
    ],
)
def test_what_cannot_be_used_names_the_option(files, tmp_path, given, option):
    (tmp_path / "no.json").write_text('{"result": 1}')
    line = f"report {files.model} -o {tmp_path}/r.html {given}"
    wrong = run(line.replace("FILE", f"{tmp_path}/no.json"))
    assert wrong.exit_code == 2
    assert wrong.stderr.startswith(f"auucmax: {option} should")
    assert wrong.stderr.count("\n") == 1


@pytest.mark.gate
def test_a_campaign_is_shown(files, tmp_path):
    later = pd.read_csv(files.trial).assign(top=lambda rows: (rows["age"] < 45).astype(int))
    later.to_csv(tmp_path / "c.csv", index=False)
    verified = run(f"verify {tmp_path}/c.csv --chosen top -m {files.model} --json")
    assert verified.exit_code == 0, verified.output
    (tmp_path / "c.json").write_text(verified.stdout)
    verdict = json.loads(verified.stdout)["brief"]["verdict"]
    page = tmp_path / "r.html"
    assert run(f"report {files.model} -o {page} --campaign {tmp_path}/c.json").exit_code == 0
    assert verdict.split(":")[0] in page.read_text()
