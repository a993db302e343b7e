"""What is written for dbt: by its text, and by dbt itself where it is installed."""

import os
import re
import shutil
import subprocess
from functools import partial

import duckdb
import jinja2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli.commands import run
from tests.export.cases import cases
from tests.model.arms_table import arms_table, fitted
from tests.model.trial_table import NAMES, trial_table

from auucmax.export import dbt_files, to_sql
from auucmax.export.dbt import WRITTEN
from auucmax.model import fit_trial_model, save_model


def rendered(text):
    """The text as dbt's templates give it."""
    return jinja2.Template(text).render(
        ref=lambda name: f'"{name}"', source=lambda schema, name: f'"{schema}"."{name}"'
    )


@settings(max_examples=20, deadline=None)
@given(cases())
def test_templates_change_nothing_but_the_table(case):
    query = partial(to_sql, case.encoder, case.formula, calibration=case.calibration)
    columns = ["score", "uplift"]
    for table, name in (("people", "people_scores"), ("shop.people", "shop_people_scores")):
        files = dbt_files(query, table=table, columns=columns)
        first, _, text = rendered(files[f"models/{name}.sql"]).partition("\n")
        assert first == f"-- {WRITTEN}"
        assert text == query(table=table)


@pytest.mark.parametrize(
    "level",
    [
        "{{ x }}",
        "{% endraw %}",
        "{# no #}",
        "{{{",
        "{",
        "a\r\nb\r",
        "{\r",
        "{\r{",
        "{\r%}",
        "\r{{",
        "{{%\r",
    ],
)
def test_braces_and_line_ends_of_levels_stay(level):
    files = dbt_files(
        lambda table: f"SELECT '{level}' FROM \"{table[0]}\"", table="people", columns=["score"],
        labels={"arm": [level]},
    )  # fmt: skip
    assert f"'{level}'" in rendered(files["models/people_scores.sql"])
    assert f"NOT IN ('{level}')" in rendered(files["tests/people_scores_in_range.sql"])


@pytest.mark.parametrize(
    "level", ["people", "people_", '"people"', '"people__"', "x", "auucmax_7c1e94d2_table",
              '"auucmax_7c1e94d2_table"'],
)  # fmt: skip
def test_a_text_that_is_called_like_the_table_stays(level):
    def query(table):
        return f"SELECT '{level}' FROM \"{table[0]}\" WHERE '\"people_\"' <> ''"

    files = dbt_files(query, table="people", columns=["score"])
    text = rendered(files["models/people_scores.sql"]).partition("\n")[2]
    assert text == query(["people"])


@pytest.mark.parametrize("table", ["a b", "a.b.c", "x'); DROP", "", "é"])
def test_a_table_is_a_name_of_the_project(table):
    with pytest.raises(ValueError, match="the name of a model of the dbt project"):
        dbt_files(lambda table: "", table=table, columns=["score"])


def test_a_name_is_no_template():
    with pytest.raises(ValueError, match=r"names without {{, {%, {#, quotes, .* 'uplift {{x'"):
        dbt_files(lambda table: "", table="people", columns=["uplift {{x"])


@pytest.mark.parametrize("name", ['b" || (select 1) || "', "a`b", "a\\b"])
def test_a_name_that_dbt_does_not_keep_in_quotes_is_refused(name):
    """dbt puts quotes around a name, and doubles none in it: what follows would be run as SQL."""
    query = "SELECT 1 FROM people".format
    for how in ({"columns": [f"uplift {name}"]}, {"columns": ["score"], "id": name}):
        with pytest.raises(ValueError, match="quotes, backticks and backslashes, got"):
            dbt_files(lambda table: query(), table="people", **how)


def test_without_ranges_and_labels_there_is_no_such_test():
    files = dbt_files(lambda table: "SELECT 1", table="people", columns=["score"])
    assert list(files) == ["models/people_scores.sql", "models/people_scores.yml"]


@given(st.text(), st.text(st.sampled_from("ab_1"), min_size=1, max_size=80))
def test_a_model_of_any_name_has_a_name_of_the_project(model, table):
    files = dbt_files(lambda table: "SELECT 1", table=table, columns=["score"], model=model)
    (name,) = (path.removeprefix("models/")[:-4] for path in files if path.endswith(".sql"))
    assert re.fullmatch("[a-z0-9_]+", name)
    assert name.startswith(table)
    assert name.endswith("_scores")
    assert len(name) <= max(63, len(table) + len("_scores"))
    assert f"  - name: {name}\n" in files[f"models/{name}.yml"]


@pytest.mark.parametrize(
    ("one", "other"), [("Модель", "Отклик"), ("Модель", ""), ("é 1", "è 1"), ("a" * 70, "a" * 71)]
)
def test_models_whose_names_lose_letters_have_files_of_their_own(one, other):
    found = [
        dbt_files(lambda table: "SELECT 1", table="people", columns=["score"], model=model)
        for model in (one, other)
    ]
    assert not set(found[0]) & set(found[1])


def dbt_program():
    """AUUCMAX_DBT, or dbt on the PATH: it needs an environment of its own."""
    found = os.environ.get("AUUCMAX_DBT") or shutil.which("dbt")
    if found is None:
        pytest.skip(
            "dbt is not installed. Its libraries are not those of this environment: make another, "
            'pip install "dbt-duckdb<1.11" "dbt-core<1.11" there, and name it by AUUCMAX_DBT.'
        )
    return found


def built(folder, *, ok=True):
    """What ``dbt build`` says of a project in DuckDB, and a connection to what it made."""
    (folder / "dbt_project.yml").write_text(
        "name: trial\nversion: '1.0'\nprofile: trial\nflags: {send_anonymous_usage_stats: false}\n"
    )
    (folder / "profiles.yml").write_text(
        f"trial:\n  target: dev\n  outputs:\n    dev: {{type: duckdb, path: {folder}/dev.duckdb}}\n"
    )
    line = [dbt_program(), "build", "--no-use-colors", "--project-dir", str(folder)]
    result = subprocess.run(
        [*line, "--profiles-dir", str(folder)], capture_output=True, text=True, cwd=folder,
        check=False,
    )  # fmt: skip
    assert (result.returncode == 0) == ok, result.stdout + result.stderr
    return result.stdout


def project(tmp_path, model, table, line=""):
    dbt_program()
    save_model(model, tmp_path / "m.model")
    folder = tmp_path / "project"
    (folder / "seeds").mkdir(parents=True)
    table.to_csv(folder / "seeds" / "people.csv", index=False)
    shown = run(f"export {tmp_path}/m.model --to dbt -o {folder} {line}")
    assert shown.exit_code == 0, shown.output
    return folder


@pytest.mark.gate
def test_dbt_scores_as_python_does(tmp_path):
    table = trial_table(1_500)
    model = fit_trial_model(table, **NAMES, id="person", model="tm")
    folder = project(tmp_path, model, table)
    said = built(folder)
    assert "ERROR=0" in said
    with duckdb.connect(str(folder / "dev.duckdb"), read_only=True) as db:
        found = db.sql("SELECT * FROM people_m_scores ORDER BY person").df()
    rows = table.sort_values("person")
    assert found["person"].tolist() == rows["person"].tolist()
    np.testing.assert_allclose(found["score"], model.predict(rows), rtol=0, atol=1e-9)
    np.testing.assert_allclose(found["uplift"], model.uplift(rows), rtol=0, atol=1e-9)


@pytest.mark.gate
def test_dbt_finds_ids_that_are_there_twice(tmp_path):
    table = trial_table(1_500)
    model = fit_trial_model(table, **NAMES, id="person", model="tm")
    table["person"] = table["person"].iloc[0]
    assert "FAIL" in built(project(tmp_path, model, table), ok=False)


@pytest.mark.gate
def test_dbt_chooses_among_arms_as_python_does(tmp_path):
    table = arms_table(2_000)
    model = fitted(table)
    folder = project(tmp_path, model, table)
    built(folder)
    with duckdb.connect(str(folder / "dev.duckdb"), read_only=True) as db:
        found = db.sql("SELECT arm, count(*) FROM people_m_scores GROUP BY 1").fetchall()
    assert {arm for arm, _ in found} <= {*model.labels, model.control}
    assert sum(n for _, n in found) == len(table)
