"""``auucmax plan``, ``assign``, ``monitor`` and ``verify``."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.cli.commands import numbers, result_of, run
from tests.cli.days import LOOK, running

ASSUMED = "--base-rate .1 --effect .03 --gain .006"
HALVES = "--id person --arms none=.5,mail=.5 --key spring"
LATER = "--as-of 2026-06-01"


def one_line(result, word):
    """Whether bad input is one line that names this."""
    lines = [text for text in result.stderr.splitlines() if not text.startswith("note: ")]
    assert result.exit_code == 2, result.output
    assert len(lines) == 1
    assert word in lines[0], lines[0]
    return True


# plan


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
def test_a_plan_has_a_picture(tmp_path):
    found = numbers(f"plan {ASSUMED} -n 5000 --picture {tmp_path}/p.png")
    assert found["result"]["n_rows"] == 5_000
    assert found["file"] == f"{tmp_path}/p.png"
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_a_model_is_a_pilot(files):
    gain = result_of(f"evaluate {files.model}")["arms"][0]["gain"]["value"]
    assert result_of(f"plan --model {files.model}")["assumed"][0]["gain"] == pytest.approx(gain)
    assert result_of(f"plan --model {files.model} --gain .01")["assumed"][0]["gain"] == 0.01
    scored = result_of(f"plan {files.trial} -y visit --model {files.model}")
    assert scored["assumed"][0]["base_gain"] != 0


# assign


@pytest.mark.gate
def test_people_are_added_and_nobody_moves(files, tmp_path):
    people, first, out = pd.read_csv(files.new), tmp_path / "first.csv", tmp_path / "list.csv"
    people[:400].to_csv(first, index=False)
    assert "people" not in result_of(f"assign {first} {HALVES} -o {out}")
    before = out.read_bytes()
    assert list(pd.read_csv(out).columns) == ["person", "arm", "propensity", "rule"]
    assert one_line(run(f"assign {files.new} {HALVES} -o {out}"), "--output")
    other = run(f"assign {files.new} {HALVES.replace('spring', 'autumn')} -o {out} --add")
    assert one_line(other, "key")
    assert out.read_bytes() == before
    assert result_of(f"assign {files.new} {HALVES} -o {out} --add")["n_before"] == 400
    assert out.read_bytes().startswith(before)
    assert pd.read_csv(out)["person"].tolist() == people["person"].tolist()
    whole = tmp_path / "whole.parquet"
    run(f"assign {files.new} {HALVES} -o {whole}")
    assert pd.read_parquet(whole)["arm"].tolist() == pd.read_csv(out)["arm"].tolist()
    assert result_of(f"assign {files.new} {HALVES} -o {whole} --add")["n_people"] == 0
    assert len(pd.read_parquet(whole)) == len(people)


@pytest.mark.parametrize(
    "changed",
    [
        lambda text: text.replace(",", ";").encode(),
        lambda text: text.replace("person,arm,propensity", "person,propensity,arm").encode(),
        lambda text: text.replace("person", '"person"').encode(),
        lambda text: text.encode("utf-16"),
    ],
)
def test_lines_are_not_added_to_a_list_of_another_form(tmp_path, changed):
    first, more, out = (tmp_path / name for name in ("first.csv", "more.csv", "list.csv"))
    pd.DataFrame({"person": [f"p{k}" for k in range(9)]}).to_csv(first, index=False)
    pd.DataFrame({"person": [f"p{k}" for k in range(20)]}).to_csv(more, index=False)
    run(f"assign {first} {HALVES} -o {out}")
    out.write_bytes(before := changed(out.read_text()))
    assert one_line(run(f"assign {more} {HALVES} -o {out} --add"), "list.csv")
    assert out.read_bytes() == before


def test_lines_are_added_as_a_spreadsheet_wrote_the_others(tmp_path):
    first, more, out = (tmp_path / name for name in ("first.csv", "more.csv", "list.csv"))
    pd.DataFrame({"person": [f"p{k}" for k in range(9)]}).to_csv(first, index=False)
    pd.DataFrame({"person": ["p0", "=1+1", "@x", "p10"]}).to_csv(more, index=False)
    run(f"assign {first} {HALVES} -o {out}")
    written = out.read_bytes().replace(b"\n", b"\r\n").removesuffix(b"\r\n")
    out.write_bytes(b"\xef\xbb\xbf" + written)
    shown = run(f"assign {more} {HALVES} -o {out} --add")
    assert shown.exit_code == 0, shown.output
    assert "'person'" in shown.stderr  # a spreadsheet would run these ids
    lines = out.read_bytes().split(b"\r\n")
    assert not any(b"\n" in line for line in lines)
    assert [line.split(b",")[0] for line in lines[-4:]] == [b"=1+1", b"@x", b"p10", b""]
    assert len(pd.read_csv(out, encoding="utf-8-sig")) == 12


def test_a_model_chooses_with_propensities_in_the_list(files, tmp_path):
    line = f"assign {files.new} --id person --model {files.model} --share .3 --key w1"
    result = result_of(f"{line} --explore .2 -o {tmp_path}/list.csv")
    found = pd.read_csv(tmp_path / "list.csv")
    names = ["person", "arm", "propensity", "score", "uplift", "chosen", "rule"]
    assert list(found.columns) == names
    each = found.groupby("chosen")["propensity"].unique().explode().to_dict()
    assert each == {False: 0.2, True: 0.8}
    assert set(found["arm"]) == {"mail", "none"}
    assert result["n_explored"] == int(((found["arm"] == "mail") != found["chosen"]).sum())


# monitor


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.csv"
    running().to_csv(path, index=False)
    return path


def test_a_look_after_another(tmp_path, rows):
    state = tmp_path / "trial.state"
    first = result_of(f"monitor {rows} --state {state} {LOOK} --as-of 2026-01-16")
    assert (first["n_rows"], first["n_new"], first["n_waiting"]) == (1_000, 1_000, 3_000)
    second = result_of(f"monitor {rows} --state {state} {LATER}")
    assert (second["n_rows"], second["n_new"]) == (4_000, 3_000)
    assert second["arms"][0]["gain"]["lower"] > 0
    again = result_of(f"monitor {rows} --state {state} {LATER}")
    assert again["n_new"] == 0
    assert again["arms"] == second["arms"]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ("--as-of 03.02.2026", "--as-of"),
        ("--score-column other", "--score-column"),
        ("--window 1y", "--window"),
        ("--delta 0.2", "--delta"),
    ],
)
def test_a_look_that_cannot_be_taken_leaves_the_state(tmp_path, rows, options, word):
    state = tmp_path / "trial.state"
    run(f"monitor {rows} --state {state} {LOOK} --as-of 2026-01-16")
    before = state.read_bytes()
    assert one_line(run(f"monitor {rows} --state {state} {options}"), word)
    assert state.read_bytes() == before


@pytest.mark.parametrize(
    "line",
    [
        "report {m} -o {s}",
        "export {m} --to sql -o {s}",
        "target {m} {n} --share .3 -o {s}",
        "demo -o {s}",
        "fit {t} -t arm -y visit --control none -m tm -o {s}",
    ],
)
def test_no_other_command_replaces_the_state(tmp_path, rows, files, line):
    state = tmp_path / "state.csv"
    run(f"monitor {rows} --state {state} {LOOK} --as-of 2026-01-16")
    before = state.read_bytes()
    refused = run(line.format(m=files.model, n=files.new, t=files.trial, s=state))
    assert one_line(refused, "state of a monitor")
    assert state.read_bytes() == before


def test_arms_that_are_not_as_designed_stop_the_trial(tmp_path, rows):
    line = f"monitor {rows} --state {tmp_path}/s {LOOK} --treated-share 0.6 {LATER}"
    for _ in range(2):  # and at every later look
        result = run(f"{line} --json")
        assert result.exit_code == 1
        found = json.loads(result.stdout)["result"]
        assert found["verdict"] == "the arms do not have the planned sizes"


# verify


@pytest.fixture(scope="module")
def campaign(files):
    """The later people of the trial, listed by `target`, after a campaign with exploration."""
    listed = files.folder / "listed.csv"
    assert run(f"target {files.model} {files.new} -s .4 -o {listed}").exit_code == 0
    rng = np.random.default_rng(0)
    people = pd.read_csv(files.new)
    top = people["person"].isin(pd.read_csv(listed)["person"]).to_numpy()
    chance = np.where(top, 0.7, 0.3)
    mail = rng.random(len(people)) < chance
    effect = np.where(people["age"].fillna(50) < 45, 0.3, 0.0)
    table = people.assign(
        top=np.where(top, "yes", "no"),
        chance=chance,
        arm=np.where(mail, "mail", "none"),
        visit=(rng.random(len(people)) < 0.2 + effect * mail).astype(int),
    )
    path = files.folder / "campaign.csv"
    table.to_csv(path, index=False)
    return path


def gains_of(found):
    return {one["against"]: one["gain"] for one in found["comparisons"]}


def test_a_column_and_a_list_give_the_same(files, campaign):
    by_list = result_of(
        f"verify {campaign} --list {files.folder}/listed.csv --propensity chance -m {files.model}"
    )
    by_column = result_of(f"verify {campaign} --chosen top --propensity chance -m {files.model}")
    assert gains_of(by_column) == gains_of(by_list)
    assert by_column["forecast"] == by_list["forecast"]
    assert sorted(sum(cell["given"]) for cell in by_list["cells"]) == [400, 600]
    assert by_list["forecast"]["verdict"] in ("confirmed", "too noisy")
    bare = result_of(f"verify {campaign} --chosen top -t arm -y visit --control none")
    assert bare["forecast"] is None


def test_propensities_that_are_contradicted_fail_the_check(files, campaign, tmp_path):
    pd.read_csv(campaign).assign(chance=0.5).to_csv(tmp_path / "wrong.csv", index=False)
    result = run(f"verify {tmp_path}/wrong.csv --chosen top --propensity chance -m {files.model}")
    assert result.exit_code == 1  # a check that fails is a result, not bad input
