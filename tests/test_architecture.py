"""What the layout promises: imports only go down, and importing the package is light."""

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import auucmax
import auucmax.baselines
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


HEAVY = (
    "duckdb", "lightgbm", "matplotlib", "numba", "numpy", "pandas", "pyarrow", "pyspark", "scipy",
    "sklearn", "torch",
)  # fmt: skip


def loaded_by(code):
    """Heavy libraries that a fresh interpreter has loaded after ``code``."""
    tell = f"\nimport sys; print([m for m in {HEAVY} if m in sys.modules])"
    command = [sys.executable, "-c", code + tell]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_import_loads_nothing_heavy():
    assert loaded_by("import auucmax") == ["[]"]


def test_a_command_says_at_once_that_a_file_is_not_there():
    code = """
from auucmax.cli import app
try:
    app("fit absent.csv --treatment t --outcome y -o model".split())
except SystemExit as stop:
    print(stop.code)
"""
    assert loaded_by(code) == ["2", "[]"]


@pytest.mark.gate
def test_submodules_are_attributes():
    names = [name for name in auucmax.__all__ if isinstance(getattr(auucmax, name), ModuleType)]
    assert {"data", "export", "model", "present", "targeting"} <= set(names)
    readme = (ROOT / "README.md").read_text()
    for name in re.findall(r"\bauucmax\.([a-z_]+)", readme):
        assert name in auucmax.__all__, name
    (last,) = loaded_by(f"import auucmax\nfor name in {names}: getattr(auucmax, name).__doc__")
    for library in ("duckdb", "lightgbm", "matplotlib", "numba", "pyspark", "torch"):
        assert library not in last
    assert dir(auucmax) == sorted(auucmax.__all__)


def test_models_that_the_readme_names_are_public():
    readme = (ROOT / "README.md").read_text()
    for name in auucmax.estimators.__all__:
        if re.search(rf"\b{name}\b", readme):
            assert getattr(auucmax, name) is getattr(auucmax.estimators, name)


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


def test_every_estimator_is_on_the_models_page():
    page = (ROOT / "docs" / "models.md").read_text()
    for name in (*auucmax.estimators.__all__, *auucmax.baselines.__all__):
        assert f"`{name}`" in page
