"""``auucmax report``: the page and its numbers."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from tests.cli.commands import run
from tests.model.arms_table import arms_table


def test_json_of_the_report_is_what_the_page_holds(files, tmp_path):
    found = run(f"report {files.model} -o {tmp_path}/r.html --json")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    (embedded,) = re.findall(r'<script type="application/json" id="numbers">(.*?)</script>', page)
    assert json.loads(embedded) == json.loads(found.stdout)


def test_a_page_of_few_new_rows_tells_no_outcome_of_one_of_them(files, tmp_path):
    rows = pd.read_csv(files.trial)
    rows = rows[rows["arm"].isin(["mail", "none"])].head(150)
    rows.assign(person="new " + rows["person"].astype(str), age=rows["age"] + 0.123).to_csv(
        tmp_path / "few.csv", index=False
    )
    found = json.loads(
        run(f"report {files.model} {tmp_path}/few.csv -o {tmp_path}/r.html --json").stdout
    )
    curve = np.array(found["curve"]["uplift"])
    step = round(100 * found["curve"]["step"])
    assert step >= 20
    kept = np.arange(0, 101, step)
    np.testing.assert_allclose(curve, np.interp(np.arange(101), kept, curve[kept]))
    shown = json.loads(run(f"evaluate {files.model} {tmp_path}/few.csv --json").stdout)
    assert len(shown["ratio"]) == 101  # a look at one's own rows


def test_amounts_that_nobody_can_count_with_are_refused_in_a_line(files, tmp_path):
    for given, words in (
        ("--cohort 9007199254740993 --cost 1 --value 1", "--cohort should be a whole number"),
        ("--cost 1e300 --value 1", "--cost should be a number, 0 or more, up to 1e+50"),
        ("--cost 1 --value 1e300", "--value should be a number, 0 or more, up to 1e+50"),
    ):
        wrong = run(f"report {files.model} -o {tmp_path}/r.html {given}")
        assert wrong.exit_code == 2
        assert words in wrong.stderr
        assert wrong.stderr.count("\n") == 1


@pytest.mark.gate
def test_the_page_of_several_arms(tmp_path):
    arms_table().to_csv(tmp_path / "t.csv", index=False)
    model = tmp_path / "m.model"
    run(
        f"fit {tmp_path}/t.csv -t arm --control none -y visit --id person -m tm "
        f"--cost mail=1,phone=2 -o {model}"
    )
    found = run(f"report {model} -o {tmp_path}/r.html --cost mail=.5,phone=1 --value 9 --json")
    numbers = json.loads(found.stdout)
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    (embedded,) = re.findall(r'<script type="application/json" id="numbers">(.*?)</script>', page)
    assert json.loads(embedded) == numbers
    assert numbers["plan"]["prices"] == [0.5, 1.0]
    told = run(f"report {model} -o {tmp_path}/r.html")
    assert "the arm that is chosen" in told.stdout
    assert "all segments" not in told.stdout
    details = " ".join(run(f"report {model} -o {tmp_path}/r.html --details").stdout.split())
    assert "all segments" in details
    assert "phone: +" in details
    for cost, words in (
        ("mail=1,phone=9", "Fit again with these costs"),
        ("mail=1", "--cost should name each arm"),
        ("fax=1", "the arms are 'mail', 'phone'"),
    ):
        wrong = run(f"report {model} -o {tmp_path}/r.html --cost {cost}")
        assert wrong.exit_code == 2
        assert words in wrong.output
    wrong = run(f"report {model} {tmp_path}/t.csv -o {tmp_path}/r.html --rivals cvt")
    assert "should get a MODEL of two arms" in wrong.output


def test_half_of_a_profit_is_told_of(files, tmp_path):
    line = f"report {files.model} -o {tmp_path}/r.html"
    for one, other in (("cost", "value"), ("value", "cost")):
        told = run(f"{line} --{one} 2").stderr
        assert f"no profit is told: --{one} is there, and --{other} is not. Pass both" in told
    assert run(f"{line} --cost 1 --value 2").stderr == run(line).stderr == ""


def test_what_was_promised_and_what_came(files, tmp_path):
    people = pd.read_csv(files.new)
    chosen = np.arange(len(people)) < len(people) * 0.3
    rng = np.random.default_rng(0)
    chance = np.where(chosen, 0.9, 0.1)
    arm = np.where(rng.random(len(people)) < chance, "mail", "none")
    visit = (rng.random(len(people)) < 0.2 + 0.3 * (arm == "mail")).astype(int)
    people.assign(chosen=chosen, chance=chance, arm=arm, visit=visit).to_csv(
        tmp_path / "campaign.csv", index=False
    )
    line = f"verify {tmp_path}/campaign.csv --chosen chosen --propensity chance -m {files.model}"
    found = run(f"{line} --json")
    assert found.exit_code == 0, found.output
    (tmp_path / "c.json").write_text(found.stdout)
    line = f"report {files.model} -o {tmp_path}/r.html --campaign {tmp_path}/c.json"
    assert run(line).exit_code == 0
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "What was promised, what came" in page
    assert json.loads(found.stdout)["told"]["title"] in page
    same = run(line.replace("r.html", "c.json"))
    assert "another file than the input" in same.stderr
    assert (tmp_path / "c.json").read_text() == found.stdout
    for text in ("[]", "{", json.dumps({"told": {"title": 3}})):
        (tmp_path / "c.json").write_text(text)
        wrong = run(line)
        assert wrong.exit_code == 2
        assert "campaign" in wrong.output
        assert "Error" not in wrong.output
