"""``auucmax export``: what is written, and what --json tells of it."""

import io
import json
import subprocess
import sys
import warnings
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from tests.cli.commands import run
from tests.model.trial_table import NAMES, trial_table

from auucmax.cli.export import export
from auucmax.data import read_table
from auucmax.model import fit_trial_model, load_model, save_model

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


@pytest.mark.gate
def test_names_that_spark_would_replace_are_refused(tmp_path):
    table, own = trial_table(400).rename(columns={"age": "age ${user}"}), tmp_path / "model"
    save_model(fit_trial_model(table, **NAMES, id="person", model="tm"), own)
    for to in ("sql", f"dbt -o {tmp_path}"):
        result = run(f"export {own} --table people --dialect spark --to {to}")
        assert result.exit_code != 0
        assert "should be without ${, which it replaces" in result.output
    assert run(f"export {own} --to sql").exit_code == 0


def test_a_query_begins_with_the_types_of_its_columns(files):
    text = run(f"export {files.model} --to sql").stdout
    first, *lines = text[: text.index("SELECT")].splitlines()
    assert first == "-- Columns that the scores are made of, and what they hold:"
    assert all(line.startswith("--   ") for line in lines)
    assert [json.loads(line[5:].split(": ")[0]) for line in lines] == list(COLUMNS)
    assert "date or timestamp, or text as 2024-01-31\n" in text
    assert "or text as" not in run(f"export {files.model} --to sql --dialect snowflake").stdout
    assert "or boolean)" in text
    assert "or boolean)" not in run(f"export {files.model} --to sql --dialect mysql").stdout


def test_a_name_of_several_lines_stays_in_the_comment(tmp_path):
    table = trial_table(1_500).rename(columns={"age": "a\nSELECT 1"})
    save_model(fit_trial_model(table, **NAMES, id="person", model="tm"), tmp_path / "m")
    with duckdb.connect() as db:
        db.register("people", table)
        assert len(db.execute(run(f"export {tmp_path}/m --to sql").stdout).fetchall()) == 1_500


@pytest.mark.parametrize("to", ["sql", "json", "onnx", "python", "card"])
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


@pytest.mark.gate
@pytest.mark.filterwarnings("ignore::UserWarning")  # on what small trials allow to say
def test_what_is_fitted_by_default_is_exported(tmp_path):
    table = trial_table(1_500)
    model = fit_trial_model(table, **NAMES, model="auto")
    save_model(model, tmp_path / "m")
    for to in ("sql", "json", "onnx", "python"):
        found = told(f"export {tmp_path / 'm'} --to {to} -o {tmp_path / to} --json")
        assert found["model"] == "auto"
    with duckdb.connect() as db:
        db.register("people", table)
        db.execute(f"CREATE TABLE scored AS {(tmp_path / 'sql').read_text()}")
        found = db.sql("SELECT score, uplift FROM scored").df()
    np.testing.assert_allclose(found["score"], model.predict(table), rtol=0, atol=1e-9)
    np.testing.assert_allclose(found["uplift"], model.uplift(table), rtol=0, atol=1e-8)
    found = scores_of_file(tmp_path / "python", table)
    np.testing.assert_allclose(found["score"], model.predict(table), rtol=0, atol=1e-9)
    np.testing.assert_allclose(found["uplift"], model.uplift(table), rtol=0, atol=1e-9)


def scores_of_file(path, table):
    names = {"__name__": "scores"}
    exec(compile(path.read_text(), path, "exec"), names)
    return names["scores"](table)


@pytest.mark.parametrize("name", ["auucmax", "tm"])
@pytest.mark.gate
@pytest.mark.filterwarnings("ignore:column .* should mostly hold levels")
def test_a_python_file_gives_the_scores_of_the_model(tmp_path, name):
    """Linear and logistic models; dates, booleans, texts, missing values, codes."""
    table = trial_table(1_500)
    rng = np.random.default_rng(0)
    table["plan"] = rng.choice([1, 2, 3, 10], 1_500)
    table["rare"] = rng.choice(
        ["a", "b", *(f"r{k}" for k in range(20))], 1_500, p=[0.4, 0.4, *[0.01] * 20]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few rows
        model = fit_trial_model(table, **NAMES, id="person", model=name)
    save_model(model, tmp_path / "m")
    assert run(f"export {tmp_path}/m --to python -o {tmp_path}/scores.py").exit_code == 0
    assert set(model.inputs.values()) == {"number", "category", "boolean", "date", "code"}
    new = table.assign(age=None, town="Rome", rare="new", plan=7)[:50]
    for rows in (table, new):
        found = scores_of_file(tmp_path / "scores.py", rows)
        np.testing.assert_allclose(found["score"], model.predict(rows), rtol=0, atol=1e-9)
        np.testing.assert_allclose(found["uplift"], model.uplift(rows), rtol=0, atol=1e-9)


def test_a_python_file_scores_the_csv_file_that_commands_read(files, tmp_path):
    run(f"export {files.model} --to python -o {tmp_path}/scores.py")
    line = [sys.executable, "scores.py", str(files.new)]
    shown = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=True)
    found = pd.read_csv(io.StringIO(shown.stdout))
    people, model = read_table(files.new), load_model(files.model)
    assert list(found) == ["person", "score", "uplift"]
    assert found["person"].tolist() == people["person"].tolist()
    np.testing.assert_allclose(found["score"], model.predict(people), rtol=0, atol=1e-9)
    np.testing.assert_allclose(found["uplift"], model.uplift(people), rtol=0, atol=1e-9)


def test_a_card_speaks_of_options(files):
    shown = run(f"export {files.model} --to card").stdout
    assert shown.startswith("---\nlibrary_name: auucmax\n")
    assert "pass --groups" in shown
    assert "groups=" not in shown


@pytest.mark.gate
def test_a_pipe_gets_what_a_file_would(tmp_path):
    """Levels with codes of a terminal in them stay what they are, or scores would be others."""
    table = trial_table(1_500)
    table["town"] = table["town"].replace("Rome", "Ro\x1b[31mme")
    model = fit_trial_model(table, **NAMES, id="person", model="tm")
    save_model(model, tmp_path / "m.model")
    run(f"export {tmp_path}/m.model --to sql --table people -o {tmp_path}/filed.sql")
    piped = run(f"export {tmp_path}/m.model --to sql --table people").stdout
    assert "\x1b[31m" in piped
    assert piped == (tmp_path / "filed.sql").read_text()


def test_a_terminal_is_not_steered_and_says_so(tmp_path, monkeypatch, capsys):
    table = trial_table(1_500)
    table["town"] = table["town"].replace("Rome", "Ro\x1b[31mme")
    save_model(fit_trial_model(table, **NAMES, id="person", model="tm"), tmp_path / "m.model")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for to in ("sql", "python"):
        export(tmp_path / "m.model", to=to)
        shown = capsys.readouterr()
        assert "\x1b" not in shown.out
        # The model of a Python file is in ASCII.
        assert ("what is on the screen is not to be copied" in shown.err) == (to == "sql")


def test_mysql_is_told_of_names_beyond_ascii(tmp_path, files):
    table = trial_table(1_500).rename(columns={"age": "âge"})
    save_model(fit_trial_model(table, **NAMES, id="person", model="tm"), tmp_path / "m")
    text = "-- Its names are not ASCII: send it in UTF-8 (SET NAMES utf8mb4)."
    assert text in run(f"export {tmp_path}/m --to sql --dialect mysql").stdout
    assert text not in run(f"export {tmp_path}/m --to sql").stdout
    assert text not in run(f"export {files.model} --to sql --dialect mysql").stdout


def test_dbt_files_go_to_a_project(files, tmp_path):
    found = told(f"export {files.model} --to dbt --table shop.people -o {tmp_path} --json")
    assert (found["kind"], found["dialect"], found["file"]) == ("dbt", "duckdb", str(tmp_path))
    name = "shop_people_m_scores"
    text = (tmp_path / "models" / f"{name}.sql").read_text()
    assert "FROM {{ source('shop', 'people') }}" in text
    assert '"person"' in (tmp_path / "models" / f"{name}.yml").read_text()
    assert '"uplift" BETWEEN' in (tmp_path / "tests" / f"{name}_in_range.sql").read_text()
    shown = run(f"export {files.model} --to dbt -o {tmp_path}")
    assert f"{tmp_path}/models/people_m_scores.sql" in shown.stdout
    assert f"note: {tmp_path} has no dbt_project.yml: dbt reads these files only" in shown.stderr
    (tmp_path / "dbt_project.yml").write_text("name: shop\n")
    assert run(f"export {files.model} --to dbt -o {tmp_path}").stderr == ""
    before = everything(tmp_path)
    beside = run(f"export {files.model_without_id} --to dbt -o {tmp_path}")
    assert (beside.exit_code, beside.stderr) == (0, "")
    assert before.items() < everything(tmp_path).items()  # another model replaces nothing
    other = run(f"export {files.model} --to dbt -o {tmp_path} --keep all")
    assert "note: files of an earlier export, of a model of this name, are rep" in other.stderr
    assert "Give the model file another name to keep both." in other.stderr


def everything(folder):
    return {
        path: path.read_bytes() if path.is_file() else path.is_symlink()
        for path in folder.rglob("*")
    }


def a_folder_in_the_place_of_a_file(project, model):
    (project / "tests" / "people_m_scores_in_range.sql").mkdir(parents=True)
    return "the output should be a file, got the folder"


def a_file_in_the_place_of_a_folder(project, model):
    (project / "tests").write_text("mine")
    return "should be in a folder, got the file"


def a_file_of_the_user(project, model):
    (project / "models").mkdir()
    (project / "models" / "people_m_scores.yml").write_text("version: 2  # mine\n")
    return "people_m_scores.yml, which auucmax did not write. Move it, or name another --table."


def a_link_to_a_folder(project, model):
    (project.parent / "elsewhere").mkdir()
    (project / "tests").symlink_to(project.parent / "elsewhere")
    return "should be in the project itself, got the link"


def a_link_to_a_file(project, model):
    (project / "models").mkdir()
    (project / "models" / "people_m_scores.sql").symlink_to(project.parent / "elsewhere.sql")
    return "should be in the project itself, got the link"


def the_model(project, model):
    (project / "models").mkdir()
    (project / "models" / "people_m_scores.sql").hardlink_to(model)
    return "should be another file than the input"


@pytest.mark.parametrize(
    "case",
    [a_folder_in_the_place_of_a_file, a_file_in_the_place_of_a_folder, a_file_of_the_user,
     a_link_to_a_folder, a_link_to_a_file, the_model],
)  # fmt: skip
def test_a_dbt_model_is_written_whole_or_not_at_all(files, tmp_path, case):
    model, project = tmp_path / "m.auucmax", tmp_path / "project"
    model.write_bytes(files.model.read_bytes())
    project.mkdir()
    message = case(project, model)
    before = everything(tmp_path)
    shown = run(f"export {model} --to dbt -o {project}")
    assert shown.exit_code == 2, shown.output
    assert message in " ".join(shown.stderr.split())
    assert everything(tmp_path) == before


def test_a_dbt_model_that_cannot_be_written_to_its_end_leaves_nothing(files, tmp_path, monkeypatch):
    write = Path.write_bytes

    def full(path, content):
        if b"BETWEEN" in content and b"Rows whose" in content:
            raise OSError(28, "No space left on device")
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    assert run(f"export {files.model} --to dbt -o {tmp_path}").exit_code != 0
    assert not everything(tmp_path)


@pytest.mark.parametrize("output", ["", "-o {}/nowhere"])
def test_a_dbt_model_needs_the_folder_of_a_project(files, tmp_path, output):
    shown = run(f"export {files.model} --to dbt {output.format(tmp_path)}")
    assert shown.exit_code == 2
    assert "--output should be the folder of a dbt project, got" in shown.stderr
