"""The commands of the README, line by line as they are printed, on made-up people."""

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.cli.commands import run

from auucmax import load_hillstrom

README = Path(__file__).resolve().parents[2] / "README.md"
BLOCKS = re.findall(r"^```\n(auucmax .*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)


def people(n_rows, first=0):
    rng = np.random.default_rng([n_rows, first])
    return pd.DataFrame(
        {
            "customer": np.arange(first, first + n_rows),
            "age": rng.integers(18, 80, n_rows),
            "town": rng.choice(["Ulm", "Bonn"], n_rows),
        }
    )


def visits(table, treated):
    """0/1 outcomes: the treatment helps the older."""
    rng = np.random.default_rng(len(table))
    older = (table["age"] > 50).to_numpy()
    return (rng.random(len(table)) < 0.1 + 0.3 * older * treated).astype(int)


def trial(n_rows, first=0):
    table = people(n_rows, first)
    sent = np.random.default_rng(first).integers(0, 2, n_rows)
    return table.assign(sent=sent, visit=visits(table, sent))


def lines_of(command):
    """The lines of the one block with this command, each as a list of arguments."""
    (block,) = [block for block in BLOCKS if f"auucmax {command} " in block]
    return [shlex.split(line)[1:] for line in block.splitlines()]


def runs(arguments):
    result = run(*arguments)
    assert result.exit_code == 0, f"{shlex.join(arguments)}\n{result.output}"
    return result


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_block_is_run():
    assert len(BLOCKS) == 3
    assert [len(lines_of(command)) for command in ("check", "evaluate", "plan")] == [5, 5, 5]


@pytest.mark.gate
def test_with_a_file_and_no_notebook(folder):
    trial(3_000).to_csv("trial.csv", index=False)
    people(1_000, first=50_000).to_csv("customers.csv", index=False)
    for arguments in lines_of("check"):
        runs(arguments)
    assert {"report.html", "list.csv"} <= {path.name for path in folder.iterdir()}


@pytest.mark.gate
def test_several_treatments(folder):
    table = load_hillstrom(arm="all")
    table = table.X.assign(visit=table.y, segment=table.treatment)
    table = table.sample(12_000, random_state=0)
    table.iloc[:6_000].to_csv("trial.csv", index=False)
    table.iloc[6_000:9_000].to_csv("new_trial.csv", index=False)
    table.iloc[9_000:].drop(columns=["visit", "segment"]).to_csv("customers.csv", index=False)
    for arguments in lines_of("evaluate"):
        runs(arguments)
    assert (folder / "list.csv").exists()


def test_before_and_after(folder):
    trial(3_000).to_csv("trial.csv", index=False)
    everybody = people(4_000, first=50_000)
    everybody.to_csv("people.csv", index=False)
    runs(shlex.split("fit trial.csv -t sent -y visit --id customer -m tm -o visits.auucmax"))
    printed = []
    for arguments in lines_of("plan"):
        if "rows.csv" in arguments:
            rows = everybody.merge(pd.read_csv("assignment.csv"), on="customer")
            rows["visit"] = visits(rows, (rows["arm"] == "mail").to_numpy())
            rows["sent"] = pd.Timestamp("2024-03-01") + pd.to_timedelta(rows.index % 10, "D")
            rows.to_csv("rows.csv", index=False)
        if "outcomes.csv" in arguments:
            campaign = everybody.merge(pd.read_csv("campaign.csv"), on="customer")
            treated = (campaign["arm"].astype(str) == "1").to_numpy()
            assert 0 < treated.mean() < 1
            outcomes = campaign[["customer"]].assign(visit=visits(campaign, treated))
            outcomes.to_csv("outcomes.csv", index=False)
        printed.append(runs(arguments).output)
    assert re.search(r"Average effect +\+\d", printed[2]), printed[2]  # of mail, not of the control
    assert "The campaign worked" in printed[4], printed[4]
