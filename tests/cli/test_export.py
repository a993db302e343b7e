"""``auucmax export``: what is written, and what --json says about it."""

import json

import duckdb
import pandas as pd
import pytest
from tests.cli.commands import FIT, numbers, run
from tests.model.trial_table import trial_table

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
