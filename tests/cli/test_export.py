"""``auucmax export``: what is written, and what --json tells of it."""

import json

import duckdb
import pytest
from tests.cli.commands import run

from auucmax.trial_model import load_model

COLUMNS = {
    "age": "number", "town": "category", "member": "category", "joined": "date", "spent": "number",
}  # fmt: skip


def told(line):
    result = run(line)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_json_has_the_text_if_there_is_no_file(files):
    line = f"export {files.model} --to sql --dialect postgres --table customers"
    found = told(f"{line} --json")
    assert found["text"] == run(line).stdout
    assert found["file"] is None
    assert (found["kind"], found["dialect"], found["model"]) == ("sql", "postgres", "tm")
    assert {column["name"]: column["kind"] for column in found["columns"]} == COLUMNS
    assert found["has_uplift"] is True


@pytest.mark.parametrize("to", ["sql", "json", "onnx"])
def test_json_names_the_file_that_was_written(files, tmp_path, to):
    path = tmp_path / "score"
    found = told(f"export {files.model} --to {to} -o {path} --json")
    assert (found["kind"], found["file"], found["text"]) == (to, str(path), None)
    assert found["dialect"] == ("duckdb" if to == "sql" else None)
    features = load_model(files.model).encoder.terms_
    assert found["n_parameters"] == 2 * (len(features) + 1)  # a logistic model of each arm
    assert path.stat().st_size > 0


def test_the_columns_told_are_those_that_the_query_needs(files):
    found = told(f"export {files.model_without_id} --to sql --json")
    names = [column["name"] for column in found["columns"]]
    with duckdb.connect() as db:
        db.execute(f"CREATE TABLE rows AS FROM read_csv('{files.new}')")
        db.execute(f"CREATE TABLE people AS SELECT {', '.join(names)} FROM rows")
        assert len(db.sql(found["text"]).df()) == 1_000
        db.execute(f"ALTER TABLE people DROP COLUMN {names[0]}")
        with pytest.raises(duckdb.BinderException, match=names[0]):
            db.sql(found["text"])
