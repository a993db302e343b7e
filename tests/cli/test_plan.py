"""``auucmax plan``: rows, power and widths, from numbers, rows of the past or a model."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.cli.commands import numbers, run
from tests.model.arms_table import COSTS, arms_table, fitted

from auucmax.model import save_model

ASSUMED = "--base-rate .1 --effect .03 --gain .006"


@pytest.fixture
def past(tmp_path):
    rng = np.random.default_rng(0)
    home = np.repeat(np.arange(300), 2)
    visit = (rng.random(300) < 0.2)[home].astype(int)
    path = tmp_path / "past.csv"
    frame = pd.DataFrame({"visit": visit, "home": [f"h{k}" for k in home], "age": 30})
    frame.to_csv(path, index=False)
    return path


@pytest.mark.gate
def test_the_screen_tells_rows_power_and_width(tmp_path):
    shown = run(f"plan {ASSUMED} -n 5000 -s .3 --other-gain .002 --picture {tmp_path}/p.png")
    assert shown.exit_code == 0, shown.output
    text = " ".join(shown.stdout.split())
    found = numbers(f"plan {ASSUMED} -n 5000 -s .3 --other-gain .002")
    assert text.startswith(
        f"{found['statements'][0]['rows']:,} rows are enough to show, with a chance (power) of "
        f"80%, that the ranking is better than random. assumed base rate 0.1, average effect 0.03, "
        f"gain over a random order 0.006"
    )
    for line in found["statements"]:
        assert f"{line['statement']} ({line['by']})" in text
        assert f"{line['rows']:,} rows for a power of 80%" in text
        assert f"5,000 rows have {line['power']:.0%}" in text
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_rows_of_the_past_tell_base_rate_and_clusters(past):
    alone = numbers(f"plan {past} -y visit --effect .03 --gain .006")
    assert alone["assumed"]["base_rate"] == pytest.approx(pd.read_csv(past)["visit"].mean())
    assert alone["assumed"]["design_effect"] == 1
    homes = numbers(f"plan {past} -y visit --groups home --effect .03 --gain .006")
    assert homes["assumed"]["design_effect"] == pytest.approx(2)
    first, then = (found["statements"][0]["rows"] for found in (alone, homes))
    assert then == pytest.approx(2 * first, rel=0.01)


def test_the_base_rate_is_that_of_the_control_rows(past, tmp_path):
    assumed = "--effect .03 --gain .006"
    both = pd.read_csv(past).assign(sent=lambda rows: np.where(rows.index % 3 == 0, "Yes", "No"))
    both.to_csv(tmp_path / "both.csv", index=False)
    line = f"plan {tmp_path}/both.csv -y visit {assumed}"
    alone = run(line).stdout
    assert "Base rate: the mean of all 600 rows of PAST, as if none had been treated" in alone
    untreated = both.query("sent == 'No'")["visit"].mean()
    assert untreated != both["visit"].mean()
    for control in ("", "--control No"):
        found = numbers(f"{line} -t sent {control}")
        assert found["assumed"]["base_rate"] == pytest.approx(untreated)
    assert found["origin"] == ["Base rate: the mean of the 400 control rows of PAST."]
    wrong = run(f"{line} -t sent --control none")
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "one of 'No', 'Yes', got 'none'" in wrong.stderr


def test_what_interval_and_certificate_are_is_told(past):
    both = run(f"plan {ASSUMED} --details").stdout
    assert "Interval: two-sided, at a level of 0.95" in both
    assert "a lower bound alone, which fails with probability 0.05 at most" in both
    rng = np.random.default_rng(0)
    money = pd.read_csv(past).assign(visit=rng.gamma(2, 30, 600).round(2))
    money.to_csv(past, index=False)
    alone = run(f"plan {past} -y visit --effect 2 --gain 1").stdout
    assert "(certificate)" not in alone
    assert "No certificate: outcomes are not 0/1" in alone


def test_a_model_is_a_pilot(files):
    evidence = numbers(f"evaluate {files.model}")
    found = numbers(f"plan --model {files.model}")
    assert found["assumed"]["gain"] == pytest.approx(evidence["auuc"]["gain"])
    assert "uncertain as such" in found["notes"][0]
    other = numbers(f"plan --model {files.model} --gain .01")
    assert other["assumed"]["gain"] == 0.01
    assert other["notes"] == []
    scored = numbers(f"plan {files.trial} -y visit --model {files.model}")
    assert scored["assumed"]["base_gain"] != 0


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("--effect .03 --gain .006", "got none. Pass --base-rate .1, the mean outcome without"),
        ("--base-rate .1 --gain .006", "--effect should be given, got none"),
        (
            "--base-rate .1 --effect .03",
            "--gain, or --effect-sd with --explained, should be given, got neither",
        ),
        ("--outcome visit", "should name columns of PAST, got no table"),
        ("PAST", "--outcome should name a column of PAST, got none"),
        ("PAST -y vist --effect .1 --gain .01", "Did you mean 'visit'?"),
        ("PAST -y age --effect .1 --gain .01", "the outcome should have different outcomes"),
        (f"{ASSUMED} --picture p.gif", "--picture should be a .png, .svg or .pdf file"),
        (f"{ASSUMED} --treated-share 1", "--treated-share should be a number strictly between"),
    ],
)
def test_bad_input_is_one_line(past, line, told):
    shown = run(f"plan {line}".replace("PAST", str(past), 1) if "PAST" in line else f"plan {line}")
    assert shown.exit_code == 2
    assert told in shown.stderr
    assert shown.stderr.count("\n") == 1


def test_json_is_one_document():
    assert json.loads(run(f"plan {ASSUMED} --json").stdout)["power"] == 0.8


def test_several_arms_are_compared_with_the_control_together():
    line = "plan --base-rate .1 --effect .03 --gain .006 --rows 20000"
    one, three = numbers(line), numbers(f"{line} --arms 3 --treated-share .6")
    assert three["n_arms"] == 3
    assert three["treated_share"] == pytest.approx(0.6)
    assert three["statements"][0]["rows"] > one["statements"][0]["rows"]
    shown = run(f"{line} --arms 3")
    assert "in 3 arms" in " ".join(shown.stdout.replace("│", " ").split())
    assert "--arms should be" in run(f"{line} --arms 0").stderr


@pytest.mark.gate
def test_a_model_of_several_arms_plans_its_arms_and_its_policy(tmp_path):
    path = tmp_path / "arms.auucmax"
    save_model(fitted(arms_table(4_000), cost=COSTS, budget=0.5), path)
    found = numbers(f"plan --model {path} -n 9000")
    names = [line["statement"] for line in found["statements"]]
    assert "mail: better than random" in names
    assert any(name.startswith("the policy better than ") for name in names)
    assert set(found["arms"]) == {"mail", "phone"}
    text = " ".join(run(f"plan --model {path} -n 9000").stdout.split())
    assert "assumed of phone" in text
    assert "each in its share of the model's own trial" in text
    for name in names:
        assert name in text
    refused = run(f"plan --model {path} --gain .01")
    assert refused.exit_code == 2
    assert "--gain should be left out with a MODEL of several arms" in refused.stderr
    alone = run(f"plan {ASSUMED} --budget 3")
    assert "--budget should come with a MODEL of several arms" in alone.stderr
