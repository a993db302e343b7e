"""``auucmax assign``: the list, which nobody overwrites, and the same arms in SQL."""

import json

import pandas as pd
import pytest
from tests.cli.commands import run

from auucmax.data.databases import connect

HALVES = "--id person --arms none=.5,mail=.5 --key spring"


@pytest.mark.gate
def test_people_are_added_and_nobody_moves(files, tmp_path):
    people, first, out = pd.read_csv(files.new), tmp_path / "first.csv", tmp_path / "list.csv"
    people[:400].to_csv(first, index=False)
    shown = run(f"assign {first} {HALVES} -o {out}")
    assert shown.exit_code == 0, shown.output
    assert "balance of everybody" in shown.stdout
    before = out.read_bytes()
    assert list(pd.read_csv(out).columns) == ["person", "arm", "propensity", "rule"]
    refused = run(f"assign {files.new} {HALVES} -o {out}")
    assert refused.exit_code == 2
    assert "the list should be a new file, got list.csv, which is there" in refused.stderr
    other = run(f"assign {files.new} {HALVES.replace('spring', 'autumn')} -o {out} --add")
    assert "the list so far should be of the same key" in other.stderr
    assert out.read_bytes() == before
    added = run(f"assign {files.new} {HALVES} -o {out} --add --json")
    assert json.loads(added.stdout)["n_before"] == 400
    assert out.read_bytes().startswith(before)
    assert pd.read_csv(out)["person"].tolist() == people["person"].tolist()
    whole = tmp_path / "whole.parquet"
    run(f"assign {files.new} {HALVES} -o {whole}")
    assert pd.read_parquet(whole)["arm"].tolist() == pd.read_csv(out)["arm"].tolist()
    again = run(f"assign {files.new} {HALVES} -o {whole} --add")
    assert "Nobody is new" in again.stdout
    assert "Written to" not in again.stdout
    assert again.exit_code == 0
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
    shown = run(f"assign {more} {HALVES} -o {out} --add")
    assert shown.exit_code == 2, shown.output
    assert shown.stderr.count("\n") == 1
    if not before.startswith(b"\xff"):  # which is not read at all
        assert "and the first line person,arm,propensity,rule, got list.csv" in shown.stderr
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
    assert "takes for formulas and runs ('person' 2)" in shown.stderr
    lines = out.read_bytes().split(b"\r\n")
    assert not any(b"\n" in line for line in lines)
    assert [line.split(b",")[0] for line in lines[-4:]] == [b"=1+1", b"@x", b"p10", b""]
    assert len(pd.read_csv(out, encoding="utf-8-sig")) == 12


def test_a_password_is_no_name_of_a_table():
    shown = run(f"assign postgresql://me:hunter2@nowhere/x?password=hunter2 {HALVES} --sql duckdb")
    assert shown.exit_code == 2
    assert "--table should say which table the SQL reads" in shown.stderr
    assert "hunter2" not in shown.output
    assert shown.stderr.count("\n") == 1


def test_the_help_says_that_the_key_is_a_secret():
    help = " ".join(run("assign --help").stdout.replace("│", " ").split())
    assert "A secret" in help
    assert "fingerprint" in help


def test_sql_is_printed_as_it_is(files, tmp_path):
    strata = "--id person --arms none=.3,mail=.7 --key spring --strata member"
    query = run(f"assign {files.new} {strata} --sql duckdb --table people").stdout
    run(f"assign {files.new} {strata} -o {tmp_path}/list.csv")
    found = pd.read_csv(tmp_path / "list.csv").set_index("person")
    with connect() as db:
        db.execute(f"CREATE TABLE people AS SELECT * FROM '{files.new}'")
        rows = db.execute(query).df().set_index("person").loc[found.index]
    assert found["stratum"].nunique() == 2
    assert rows["arm"].tolist() == found["arm"].tolist()


@pytest.mark.parametrize("value", ["7.0", "7.5", "2024-01-31 10:00:00"])
def test_no_sql_is_printed_of_ids_that_databases_write_otherwise(tmp_path, value):
    (tmp_path / "people.csv").write_text(f"person,home\n1,{value}\n2,{value}\n")
    line = f"assign {tmp_path}/people.csv --id person --arms a=.5,b=.5 --key k --sql duckdb"
    shown = run(f"{line} --groups home")
    assert shown.exit_code == 2
    assert "--sql should come with ids, groups and strata that are whole numbers" in shown.stderr
    assert run(line).exit_code == 0


def test_a_model_chooses_with_chances_in_the_list(files, tmp_path):
    line = f"assign {files.new} --id person --model {files.model} --share .3 --key w1"
    shown = run(f"{line} --explore .2 -o {tmp_path}/list.csv")
    assert shown.exit_code == 0, shown.output
    assert "balance of those the model chose" in shown.stdout
    found = pd.read_csv(tmp_path / "list.csv")
    own = ["person", "arm", "propensity", "score", "chosen", "rule"]
    assert list(found.columns) == own
    assert found.groupby("chosen")["propensity"].unique().explode().to_dict() == {
        False: 0.2,
        True: 0.8,
    }
    assert set(found["arm"]) == {"mail", "none"}


@pytest.mark.gate
def test_exploration_and_a_share_that_is_missed_are_told(files, tmp_path):
    line = f"--id person --model {files.model} --share .3 --key w1"
    shown = run(f"assign {files.new} {line} -o {tmp_path}/a.csv").stdout
    people = pd.read_csv(tmp_path / "a.csv")
    out = ((people["arm"] == "none") & people["chosen"]).sum()
    more = ((people["arm"] == "mail") & ~people["chosen"]).sum()
    assert f"{out} of the 300 chosen are left out, and {more} of the 700 others treated" in shown
    assert "was to choose" not in shown
    new = pd.read_csv(files.new)
    new.assign(shop=new.index % 2).to_csv(tmp_path / "shops.csv", index=False)
    missed = run(f"assign {tmp_path}/shops.csv {line} --groups shop -o {tmp_path}/b.csv")
    words = "The model was to choose 30% of the people and chose 50%: 2 groups of 'shop'"
    assert words in missed.stdout


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("--id person --arms a=.5,b=.6 --key k -o OUT", "--arms should have shares that add up"),
        ("--id nobody --arms a=.5,b=.5 --key k -o OUT", "should have the column 'nobody'"),
        ("--id age --arms a=.5,b=.5 --key k -o OUT", "should have no missing values"),
        ("--id member --arms a=.5,b=.5 --key k -o OUT", "should be in the table once"),
        ("--id person --arms a=1 --key k -o OUT", "--arms should have shares between 0 and 1"),
        ("--id person --arms a=.5,b=.5 --key k", "--output should name the list to write"),
        ("--id person --key k -o OUT", "--arms should be given"),
        ("--id person --arms a=.5,b=.5 --key k -o OUT --add", "should be there, got nothing"),
        (
            "--id person --arms a=.5,b=.5 --key k --sql oracle",
            "--sql should be one of 'duckdb', 'postgres', got 'oracle'",
        ),
        ("--id person --model MODEL --share .3 --key k --sql duckdb", "--sql should come with"),
        ("--id person --model MODEL --key k -o OUT", "--share should say which part"),
        ("--id person --model MODEL -s .3 --arms a=.5,b=.5 --key k -o OUT", "left out with a mod"),
        ("--id person --arms a=.5,b=.5 --strata town,x --key k -o OUT", "the column 'x'"),
    ],
)
def test_bad_input_is_one_line(files, tmp_path, line, told):
    line = line.replace("OUT", f"{tmp_path}/list.csv").replace("MODEL", str(files.model))
    shown = run(f"assign {files.new} {line}")
    assert shown.exit_code == 2, shown.output
    assert told in shown.stderr
    assert shown.stderr.count("\n") == 1
    assert not (tmp_path / "list.csv").exists()
