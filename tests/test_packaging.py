"""What is shipped: the wheel and the archive of the source, and that the wheel works by itself.

Each test installs, or needs what an earlier one has built, so all are of the gate. An installation
takes a minute, and shows what no test in this environment can: which libraries the base needs.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from benchmarks.install import MOST_MB, packages, site_of

import auucmax

pytestmark = pytest.mark.gate
ROOT = Path(__file__).resolve().parent.parent
#: What the base does without; each is named by the message of whatever needs it.
EXTRA = {"lightgbm", "matplotlib", "onnx", "openpyxl", "psycopg", "pyarrow", "pyspark", "torch"}
#: Fits a model on the embedded trial: what a newcomer with this Python would do first.
SMALL_FIT = """
from auucmax import TwoModels, auuc_inference, load_hillstrom
trial = load_hillstrom()
model = TwoModels().fit(trial.X, trial.y, treatment=trial.treatment)
print(auuc_inference(trial.y, model.predict(trial.X), treatment=trial.treatment).n_rows)
"""


def run(*command, **options):
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, **options
    )
    return done.returncode, done.stdout, done.stderr


def succeed(*command, **options):
    code, out, err = run(*command, **options)
    assert code == 0, f"{command}: {out}{err}"
    return out


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Folder with the wheel and the archive of the source."""
    folder = tmp_path_factory.mktemp("dist")
    succeed(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    (found,) = built.glob("*.whl")
    return found


def environment(folder, wheel, python=sys.executable, *, compiled=False):
    """Python of a new virtual environment that holds the wheel and what it asks for.

    ``compiled``: as pip does it for everybody, which takes room and time.
    """
    succeed(python, "-m", "venv", folder)
    own = folder / "bin" / "python"
    how = os.environ | {"PIP_NO_COMPILE": "0" if compiled else "1"}
    succeed(own, "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel, env=how)
    return own


@pytest.fixture(scope="module")
def base(tmp_path_factory, wheel):
    return environment(tmp_path_factory.mktemp("base") / "venv", wheel, compiled=True)


def clean():
    """The variables of this process without those that would show it this tree."""
    ours = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if name not in ours}


def tracked(*folders):
    """Files that belong to the project."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("needs a git working tree, to tell what belongs to the project")
    return set(succeed("git", "-C", ROOT, "ls-files", *folders).splitlines())


def test_the_pages_of_an_index_can_show_what_is_said_of_it(built):
    files = sorted(built.iterdir())
    assert len(files) == 2
    assert all(f"auucmax-{auucmax.__version__}" in file.name for file in files)
    told = succeed(sys.executable, "-m", "twine", "check", "--strict", *files)
    assert told.count("PASSED") == 2


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    about = {name for name in names if name.split("/")[0].endswith(".dist-info")}
    assert names - about == {name.removeprefix("src/") for name in tracked("src/auucmax")}
    assert [name for name in about if name.endswith("/licenses/LICENSE")]
    for needed in (
        "data/files/hillstrom.csv.gz", "data/files/PROVENANCE.md", "py.typed", "present/page.css",
        "present/page.js", "present/base.html.jinja", "present/report.html.jinja",
        "present/check.html.jinja",
    ):  # fmt: skip
        assert f"auucmax/{needed}" in names
    # Of public trials, only the one whose origin is told may be passed on.
    assert [n for n in names if re.search(r"\.(csv|gz|npz|parquet|xlsx?|dta|tab|zip)$", n)] == [
        "auucmax/data/files/hillstrom.csv.gz"
    ]


def test_the_archive_of_the_source_holds_only_what_belongs_to_the_project(built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        sizes = {m.name.split("/", 1)[1]: m.size for m in archive.getmembers() if m.isfile()}
    assert set(sizes) - tracked() == {"PKG-INFO"}
    for needed in (
        "LICENSE", "README.md", "CHANGES.md", "CONTRIBUTING.md", "CITATION.cff", "SECURITY.md",
        "pyproject.toml", "noxfile.py", "release.py", "constraints-lowest.txt", "mkdocs.yml",
        "tests/test_packaging.py", "src/auucmax/data/files/hillstrom.csv.gz",
    ):  # fmt: skip
        assert needed in sizes
    secret = re.compile(r"(\.key|\.state|\.env|\.pem|\.auucmax|\.duckdb|\.netrc|\.pypirc)$")
    assert [name for name in sizes if secret.search(name)] == []
    tables = [n for n in sizes if re.search(r"\.(csv|gz|npz|parquet|xlsx?|dta|tab|zip)$", n)]
    assert tables == ["src/auucmax/data/files/hillstrom.csv.gz"]
    assert max(sizes.values()) < 5e6


def test_the_first_command_of_the_readme_needs_the_base_alone(base, tmp_path):
    found = {one["package"]: one["mb"] for one in packages(site_of(base))}
    assert EXTRA.isdisjoint(found)
    assert sum(found.values()) < MOST_MB
    command = base.parent / "auucmax"
    shown = succeed(command, "demo", cwd=tmp_path, env=clean())
    assert "of 42,693 people (55%)" in shown
    assert "<svg" in (tmp_path / "auucmax-demo.html").read_text()


def test_files_are_read_and_written_by_the_base_alone(base, tmp_path):
    command, place = base.parent / "auucmax", {"cwd": tmp_path, "env": clean()}
    code = "from auucmax import load_hillstrom; t = load_hillstrom(encoding='raw'); t.X.assign("
    code += "person=range(len(t.y)), mail=t.treatment != t.control, visit=t.y).head(4000)"
    succeed(base, "-c", f"{code}.to_csv('trial.csv', index=False)", **place)
    named = ["--treatment", "mail", "--outcome", "visit", "--id", "person"]
    succeed(command, "check", "trial.csv", *named, **place)
    succeed(command, "fit", "trial.csv", *named, "-m", "tm", "-o", "mail.auucmax", **place)
    chosen = ("target", "mail.auucmax", "trial.csv", "--share", ".3", "-o", "list.parquet")
    succeed(command, *chosen, **place)
    assert "1,200 rows" in succeed(
        base, "-c", "from auucmax.data import read_table; "
        "print(f\"{len(read_table('list.parquet')):,} rows\")", **place,
    )  # fmt: skip
    succeed(command, "assign", "trial.csv", "--id", "person", "--arms", "a=.5,b=.5",
            "--key", "k", "-o", "arms.parquet", **place)  # fmt: skip
    plan = ["--base-rate", ".1", "--effect", ".03", "--gain", ".006", "--picture", "plan.png"]
    code, _, told = run(command, "plan", *plan, **place)
    assert code == 2
    assert told == (
        "auucmax: matplotlib should be installed to use this, got no such module. Run: pip "
        'install "auucmax[plot]"\n'
    )


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_other_versions_of_python_fit_a_model(version, wheel, tmp_path):
    name = f"python{version}"
    # A shim may stand there for a version that is not chosen.
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [shutil.which(name), *map(str, pyenv.glob(f"{version}.*/bin/{name}"))]
    working = [one for one in found if one and run(one, "-c", "import venv, ensurepip")[0] == 0]
    if not working:
        pytest.skip(f"{name} is not installed")
    own = environment(tmp_path / "venv", wheel, working[0])
    assert succeed(own, "-W", "error", "-c", SMALL_FIT, env=clean()) == "42693\n"
