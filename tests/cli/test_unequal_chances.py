"""Every command on a trial of two strata whose propensities differ, by design."""

import numpy as np
import pandas as pd
import pytest
from tests.cli.commands import result_of, run
from tests.model.arms_table import arms_table
from tests.model.trial_table import two_strata

from auucmax.model import load

NAMED = "-t mail -y visit"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A trial, new rows, and a model."""
    place = tmp_path_factory.mktemp("strata")
    two_strata().to_csv(place / "trial.csv", index=False)
    two_strata(random_state=1).to_csv(place / "new.csv", index=False)
    how = f"--id person --propensity chance -m tm -o {place}/m.model"
    result = run(f"fit {place}/trial.csv {NAMED} {how}")
    assert result.exit_code == 0, result.output
    return place


def test_evaluate_and_report_know_them(folder):
    for data in ("", f"{folder}/new.csv"):
        (arm,) = result_of(f"evaluate {folder}/m.model {data}")["arms"]
        assert arm["propensity"] == pytest.approx([0.2, 0.8])
        assert arm["certificate"] is not None
    assert run(f"report {folder}/m.model -o {folder}/r.html").exit_code == 0


@pytest.mark.parametrize(
    ("change", "code", "word"),
    [
        (lambda p: p * 100, 2, "chance"),
        (lambda p: p.where(p > 0.5), 2, "missing"),
        (lambda p: (p > 0.5) * 1.0, 2, "chance"),
        (lambda p: p * 0 + 0.5, 1, "kind"),
        (lambda p: 1 - p, 1, ""),
    ],
)
@pytest.mark.parametrize("command", ["check", "fit"])
def test_wrong_propensities_are_refused(tmp_path, command, change, code, word):
    table = two_strata()
    table.assign(chance=change(table["chance"])).to_csv(tmp_path / "wrong.csv", index=False)
    output = f" -m tm -o {tmp_path}/m.model" if command == "fit" else ""
    how = f"{NAMED} --ignore person --propensity chance{output}"
    result = run(f"{command} {tmp_path}/wrong.csv {how}")
    assert result.exit_code == code
    assert word in result.output.splitlines()[0]
    assert not (tmp_path / "m.model").exists()


@pytest.mark.gate
def test_a_list_of_several_arms_goes_through_every_command(tmp_path):
    """People are assigned, outcomes are joined to the list, and nothing is renamed."""
    people = arms_table(3_000).drop(columns=["arm", "visit"])
    people.to_csv(tmp_path / "people.csv", index=False)
    how = "--id person --arms none=.2,mail=.5,phone=.3 --key spring"
    assert run(f"assign {tmp_path}/people.csv {how} -o {tmp_path}/list.csv").exit_code == 0
    table = people.merge(pd.read_csv(tmp_path / "list.csv"), on="person")
    rate = 0.2 + 0.3 * ((table["arm"] == "mail") & (table["age"] < 45))
    table["visit"] = (np.random.default_rng(0).random(len(table)) < rate).astype(int)
    table[:2_000].to_csv(tmp_path / "trial.csv", index=False)
    table[2_000:].to_csv(tmp_path / "new.csv", index=False)
    named = f"{tmp_path}/trial.csv -t arm --control none -y visit --id person --propensity chance"
    assert run(f"check {named}").exit_code == 0
    result = run(f"fit {named} -m tm --budget .3 -o {tmp_path}/m.model")
    assert result.exit_code == 0, result.output
    columns = dict(load(tmp_path / "m.model").roles.propensity)
    assert columns == {"mail": "chance mail", "phone": "chance phone"}
    for more in ("", " --propensity chance"):
        assert run(f"evaluate {tmp_path}/m.model {tmp_path}/new.csv{more}").exit_code == 0
    by_arm = "--propensity 'mail=chance mail,phone=chance phone'"
    same = run(
        "evaluate",
        f"{tmp_path}/m.model",
        f"{tmp_path}/new.csv",
        *by_arm.replace("'", "").split(" ", 1),
    )
    assert same.exit_code == 0, same.output
    one = run(f"fit {named} --treated mail -m tm -o {tmp_path}/one.model")
    assert one.exit_code == 0, one.output
