"""What the layout promises: imports only go down, and importing the package is light."""

import subprocess
import sys
from pathlib import Path

import auucmax
import auucmax.estimators

ROOT = Path(__file__).resolve().parent.parent


def test_imports_only_go_down():
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports; "
         "raise SystemExit(lint_imports(config_filename='pyproject.toml', no_cache=True))"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kept, 0 broken" in done.stdout


def test_import_loads_nothing_heavy():
    heavy = ["matplotlib", "torch", "pyspark", "lightgbm", "numba", "typer", "duckdb"]
    code = f"import sys, auucmax; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_names_exist_and_are_documented():
    for name in auucmax.__all__:
        value = getattr(auucmax, name)
        assert value.__doc__ or name.endswith("_scorer"), name


def test_readme_commands_are_those_that_the_checks_run():
    readme = (ROOT / "README.md").read_text()
    checks = (ROOT / ".ci" / "run").read_text()
    assert "pip install . && auucmax demo" in readme
    command = "pip install -e '.[test]' && pytest"
    assert command in readme
    assert command in checks


def test_readme_example_runs(capsys):
    readme = (ROOT / "README.md").read_text()
    code = readme.split("```python\n")[1].split("```")[0]
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "42,693 rows" in printed
    assert "AUUC difference" in printed
    assert "uplift_auc_score" in printed


def test_examples_of_the_models_page_run(capsys):
    blocks = (ROOT / "docs" / "models.md").read_text().split("```python\n")[1:]
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block.split("```")[0], "models.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "AUUC-max" in printed
    assert "Womens E-Mail" in printed


def test_every_estimator_is_on_the_models_page():
    page = (ROOT / "docs" / "models.md").read_text()
    for estimator in auucmax.estimators.ALL_ESTIMATORS:
        assert f"`{estimator.__name__}`" in page
