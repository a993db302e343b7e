"""``auucmax export``: what is written, and what --json says about it."""

import json

import duckdb
import numpy as np
import pandas as pd
import pytest
from tests.cli.commands import FIT, numbers, run
from tests.model.trial_table import trial_table

from auucmax.model import load

COLUMNS = {
    "age": "number", "town": "category", "member": "category", "joined": "date", "spent": "number",
}  # fmt: skip


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Fits tm on a table, and returns the file."""

    def fit(table, model="tm"):
        folder = tmp_path_factory.mktemp("model")
        table.to_parquet(folder / "t.parquet")
        how = FIT.replace("tm", model)
        result = run(f"fit {folder}/t.parquet {how} --id person -o {folder}/m.model")
        assert result.exit_code == 0, result.output
        return folder / "m.model"

    return fit


def test_json_has_the_text_if_there_is_no_file(files):
    line = f"export {files.model} --to sql --dialect postgres --table customers"
    found = numbers(line)
    assert found["text"] == run(line).stdout
    assert found["file"] is None
    assert (found["kind"], found["dialect"], found["model"]) == ("sql", "postgres", "tm")
    assert {column["name"]: column["kind"] for column in found["columns"]} == COLUMNS


@pytest.mark.parametrize("to", ["sql", "json", "onnx", "card"])
def test_json_names_the_file_that_was_written(files, tmp_path, to):
    path = tmp_path / "score"
    found = numbers(f"export {files.model} --to {to} -o {path}")
    assert (found["kind"], found["file"], found["text"]) == (to, str(path), None)
    assert found["dialect"] == ("duckdb" if to == "sql" else None)
    assert path.stat().st_size > 0


def test_the_columns_are_those_that_the_query_needs(files):
    found = numbers(f"export {files.model_without_id} --to sql")
    names = [column["name"] for column in found["columns"]]
    with duckdb.connect() as db:
        db.execute(f"CREATE TABLE rows AS FROM read_csv('{files.new}')")
        db.execute(f"CREATE TABLE people AS SELECT {', '.join(names)} FROM rows")
        assert len(db.sql(found["text"]).df()) == 1_000
        db.execute(f"ALTER TABLE people DROP COLUMN {names[0]}")
        with pytest.raises(duckdb.BinderException, match=names[0]):
            db.sql(found["text"])


@pytest.mark.parametrize(
    ("keep", "kept"),
    [("", ["person"]), ("--keep age,town", ["age", "town"]), ("--keep all", None)],
)
def test_columns_that_pass(files, keep, kept):
    query = run(f"export {files.model} --to sql {keep}").stdout
    people = pd.read_csv(files.new)
    with duckdb.connect() as db:
        db.register("people", people)
        found = db.sql(query).df()
    expected = list(people) if kept is None else kept
    assert set(found) - {"score", "uplift", "arm"} == set(expected)


def test_a_name_of_several_lines_stays_in_the_comment(fitted):
    table = trial_table(1_500).rename(columns={"age": "a\nSELECT 1"})
    query = run(f"export {fitted(table)} --to sql").stdout
    with duckdb.connect() as db:
        db.register("people", table)
        assert len(db.execute(query).fetchall()) == 1_500


@pytest.mark.gate
def test_names_that_spark_would_replace_are_refused(fitted):
    own = fitted(trial_table(1_500).rename(columns={"age": "age ${user}"}))
    for dialect, code in (("spark", 2), ("databricks", 2), ("duckdb", 0)):
        assert run(f"export {own} --to sql --dialect {dialect}").exit_code == code


@pytest.mark.gate
@pytest.mark.filterwarnings("ignore::UserWarning")  # few rows
def test_the_default_model_is_exported(fitted, tmp_path):
    table = trial_table(1_500)
    path = fitted(table, "auto")
    model = load(path)
    for to in ("sql", "json", "onnx"):
        assert numbers(f"export {path} --to {to} -o {tmp_path}/{to}")["model"] == "auto"
    with duckdb.connect() as db:
        db.register("people", table)
        db.execute(f"CREATE TABLE scored AS {(tmp_path / 'sql').read_text()}")
        found = db.sql("SELECT score, uplift FROM scored").df()
    np.testing.assert_allclose(found["score"], model.predict(table), rtol=0, atol=1e-9)
    np.testing.assert_allclose(found["uplift"], model.uplift(table)[:, 0], rtol=0, atol=1e-8)


def test_a_card_is_markdown(files):
    shown = run(f"export {files.model} --to card").stdout
    assert shown.startswith("---\nlibrary_name: auucmax\n")


@pytest.fixture(scope="module")
def coloured(fitted):
    """A model of a category that would colour a terminal."""
    table = trial_table(1_500)
    table["town"] = table["town"].replace("Rome", "Ro\x1b[31mme")
    return fitted(table)


def test_a_pipe_gets_what_a_file_would(coloured, tmp_path):
    """Categories with control characters stay what they are, or scores would be others."""
    run(f"export {coloured} --to sql -o {tmp_path}/filed.sql")
    piped = run(f"export {coloured} --to sql").stdout
    assert "\x1b[31m" in piped
    assert piped == (tmp_path / "filed.sql").read_text()


def test_a_terminal_is_not_steered(coloured, monkeypatch):
    monkeypatch.setattr("auucmax.cli.frame.sys.stdout.isatty", lambda: True, raising=False)
    from auucmax.cli.frame import print_text

    query = json.loads(run(f"export {coloured} --to sql --json").stdout)["text"]
    shown = []
    monkeypatch.setattr("typer.echo", lambda text, **_: shown.append(text))
    print_text(query)
    assert "\x1b" not in "".join(shown)
    assert any(text.startswith("note: ") for text in shown)
