"""The documentation: its code prints what is shown, and the site builds without a network.

``python -m tests.test_docs_site [PAGE ...]`` writes what the code prints into the pages, all or
those that are named ("guide/trial"); then read the change.
"""

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import zlib
from html.parser import HTMLParser
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from inspect import signature
from pathlib import Path
from types import ModuleType

import matplotlib
import numpy as np
import pytest
from experiments.harness import read_lines, run_tasks
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from tests.pairs.reference import pair_sums
from typer.main import get_command
from typer.testing import CliRunner

import auucmax
from auucmax import make_trial
from auucmax.cli import app
from auucmax.pairs import ScoreObjective

pytestmark = pytest.mark.gate

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


def script(name):
    """A script of the docs folder, as a module."""
    spec = spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hooks, notebook, pictures = map(script, ("hooks", "notebook", "pictures"))
COMMANDS_PAGE = DOCS / "guide" / "command-line.md"
EXTENDING = DOCS / "extending.md"
TOP = ("index", "tour", "conventions", "reading", "faq", "coming-from", "export")
#: The page of the loop shows what an example prints: tests/test_examples.py compares it.
PAGES = [
    *(DOCS / f"{name}.md" for name in TOP),
    *(page for page in sorted((DOCS / "guide").glob("*.md")) if page.stem != "loop"),
]
#: Code, and what it prints if a block of text follows.
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
#: Modules whose public names must be in the reference.
DOCUMENTED = (
    "data", "estimators", "baselines", "metrics", "certificates", "comparison", "targeting",
    "model", "export", "present", "campaign",
)  # fmt: skip


def run_page(page, folder):
    """Run the blocks of a page one after the other: (shown, printed) of each, and their names."""
    names, found = {}, []
    with contextlib.chdir(folder), matplotlib.rc_context({"backend": "agg"}):
        for code, shown in BLOCK.findall(page.read_text()):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, page.name, "exec", dont_inherit=True), names)
            found.append((shown, printed.getvalue()))
    return found, names


def check_page(page, folder):
    found, names = run_page(page, folder)
    assert found, f"{page.name} has no code"
    for shown, printed in found:
        assert shown.split() == printed.split()  # lines may be folded
    return names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_prints_what_the_page_shows(page, tmp_path):
    check_page(page, tmp_path)


def test_the_python_of_the_readme_runs(tmp_path):
    trial, new = auucmax.load_hillstrom(encoding="raw").split(test_size=0.2, random_state=0)
    table = trial.X.assign(customer=range(trial.n_rows), sent=trial.treatment, visit=trial.y)
    table.head(6_000).to_csv(tmp_path / "trial.csv", index=False)
    new.X.assign(customer=range(new.n_rows)).to_csv(tmp_path / "customers.csv", index=False)
    _, names = run_page(ROOT / "README.md", tmp_path)
    assert len(names["listed"].people) == new.n_rows


@pytest.mark.parametrize("name", notebook.BOOKS)
def test_notebooks_are_the_pages_that_are_run(name):
    """If not: ``python docs/notebook.py``."""
    text = (notebook.EXAMPLES / f"{name}.ipynb").read_text()
    assert text == notebook.notebook(name)
    pages = [DOCS / f"{page}.md" for page in notebook.BOOKS[name]]
    assert set(pages) <= set(PAGES)
    book = json.loads(text)
    code = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert len(code) == sum(len(BLOCK.findall(page.read_text())) for page in pages) > 0
    text = "".join(line for cell in book["cells"] for line in cell["source"])
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    missing = {link for link in links if not (ROOT / "examples" / link).exists()}
    assert missing <= {"../docs/demo.html"}  # which is made with the site


@pytest.mark.gate
@pytest.mark.filterwarnings("ignore")  # of other libraries
def test_calls_of_other_libraries_are_theirs():
    """Names and order of the arguments on the page for newcomers, of the installed versions."""
    page = (DOCS / "coming-from.md").read_text()
    calls = re.findall(r"`((?:sklift|causalml|econml)[\w.]+)\(([\w, ]*)\)`", page)
    assert len(calls) >= 15
    for library in ("sklift", "causalml", "econml"):
        pytest.importorskip(library, reason=f"needs {library}")
    for path, arguments in calls:
        value, *rest = _found(path)
        for name in rest:
            value = getattr(value, name)
        expected = [name for name in signature(value).parameters if name != "self"]
        assert arguments.split(", ") == expected[: len(arguments.split(", "))], path


def _found(path):
    """The longest module at the beginning of a dotted path, and the names after it."""
    names = path.split(".")
    for end in range(len(names) - 1, 0, -1):
        with contextlib.suppress(ModuleNotFoundError):
            return [import_module(".".join(names[:end])), *names[end:]]
    raise AssertionError(f"{path} is in no module")


def test_our_calls_on_that_page_are_ours():
    page = (DOCS / "coming-from.md").read_text()
    right = re.findall(r"\| `?.*?\| (.*?) \|$", page, re.MULTILINE)
    named = set(re.findall(r"`([A-Za-z_]\w+)[.(]", " ".join(right))) - {"model"}
    packages = ("auucmax", "auucmax.estimators", "auucmax.baselines", "auucmax.metrics")
    rooms = [import_module(package) for package in packages]
    assert len(named) > 6
    assert [name for name in named if not any(hasattr(room, name) for room in rooms)] == []


def test_every_picture_of_a_page_is_there_and_shown():
    shown = set()
    for page in DOCS.rglob("*.md"):
        for address in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text()):
            assert (page.parent / address).is_file(), (page.name, address)
            shown.add((page.parent / address).resolve())
    assert {DOCS / "images" / f"{name}.png" for name in pictures.PICTURES} <= shown


def test_no_two_entries_of_the_navigation_have_one_name():
    text = (ROOT / "mkdocs.yml").read_text()
    nav = text[text.index("nav:") : text.index("validation:")]
    names = re.findall(r"- (.+): [\w/-]+\.md$", nav, re.MULTILINE)
    assert len(names) > 40
    assert len(names) == len(set(names))


def test_formulas_become_mathml():
    html = hooks.on_page_markdown("a\n\n```math\n\\frac{1}{n}\n```\n\nb")
    assert "<mfrac>" in html
    assert "```" not in html
    assert html.startswith("a\n\n<p><math")


@pytest.mark.gate
@pytest.mark.filterwarnings("ignore")  # of other libraries
def test_the_page_of_models_runs(tmp_path):
    pytest.importorskip("causalml", reason="needs causalml")
    _, names = run_page(DOCS / "models.md", tmp_path)
    found = names["with_x"].frame
    assert set(found["model"]) == {"X-learner", "TM"}
    assert np.isfinite(found["auuc"]).all()


@pytest.fixture(scope="module")
def extensions(tmp_path_factory):
    """The names that the page on extending defines."""
    return check_page(EXTENDING, tmp_path_factory.mktemp("extending"))


def test_the_surrogate_agrees_with_all_pairs_written_out(extensions):
    surrogate, trial = extensions["Exponential"](0.7), make_trial(300, random_state=1)
    score = trial.X.to_numpy(dtype=float)[:, 0]
    objective = ScoreObjective(trial.y, treatment=trial.treatment, surrogate=surrogate)
    treated = trial.treatment == 1
    slow, got = pair_sums(score, trial.y, treated, surrogate), objective.derivatives(score)
    each = np.where(treated, *objective.multipliers)
    assert got.value == pytest.approx(np.dot(objective.multipliers, slow.losses), rel=1e-8)
    assert got.gradient == pytest.approx(each * slow.gradient, rel=1e-6, abs=1e-9)


def test_the_baseline_is_an_estimator_of_ours(extensions):
    trial = make_trial(1_000, random_state=1)
    model = clone(extensions["OneModel"](LogisticRegression()))
    model.fit(trial.X, trial.y, treatment=trial.treatment)
    assert np.ptp(model.predict(trial.X)) > 0
    with pytest.raises(ValueError, match="fitted on"):
        auucmax.certify(model, trial.X, trial.y, treatment=trial.treatment)
    with pytest.raises(ValueError, match="0 or 1"):
        model.fit(trial.X, trial.y * 2, treatment=trial.treatment)


def test_the_experiment_fits_the_harness(extensions, tmp_path):
    tasks, path = extensions["tasks"](2), tmp_path / "lines.jsonl"
    how = {"run": extensions["run"], "parameters": extensions["parameters"], "jobs": 1}
    assert run_tasks(tasks, path, **how) == 4
    assert run_tasks(tasks, path, **how) == 0  # all lines are there
    page = extensions["render"](read_lines(path))
    assert page.startswith("# how-many-rows")
    assert [line.split()[1] for line in page.splitlines()[-2:]] == ["2,000", "8,000"]


def shown_commands(page=COMMANDS_PAGE):
    lines = re.findall(r"^ *\$ auucmax (.*)$", page.read_text(), re.MULTILINE)
    return [shlex.split(line) for line in lines]


def test_the_guide_shows_every_command_with_options_that_exist():
    there = get_command(app).commands
    assert {name for name, *_ in shown_commands()} == set(there) - {"demo"}
    others = [page for page in PAGES if page != COMMANDS_PAGE and shown_commands(page)]
    assert len(others) > 8
    for name, *arguments in sum(map(shown_commands, others), shown_commands()):
        known = {option for parameter in there[name].params for option in parameter.opts}
        assert {a for a in arguments if a.startswith("-")} <= known, name


@pytest.mark.gate
def test_commands_run(tmp_path):
    run_page(COMMANDS_PAGE, tmp_path)
    with contextlib.chdir(tmp_path):
        for command in shown_commands():
            done = CliRunner().invoke(app, command)
            assert done.exit_code == 0, (command, done.output)
    written = {"mail.auucmax", "list.csv", "report.html", "score.sql"}
    assert written <= {path.name for path in tmp_path.iterdir()}


# --- the site -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed: pip install -e '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    nowhere = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:1")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env=os.environ | nowhere | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=1_800,  # if it hangs: it takes some seconds
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


class Loads(HTMLParser):
    """Addresses that a browser fetches to show a page; links to follow are none."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        attributes = {name: value or "" for name, value in attrs}
        if tag == "link" and attributes.get("rel") in ("canonical", "prev", "next", "alternate"):
            return
        names = ["src", "srcset", "data", "poster", *([] if tag in ("a", "base") else ["href"])]
        self.found += [attributes[name] for name in names if name in attributes]
        self.found += re.findall(r"url\(['\"]?([^'\")]+)", attributes.get("style", ""))


def loaded(html):
    parser = Loads()
    parser.feed(html)
    return parser.found


def is_elsewhere(address):
    return re.match(r"\s*(\w+:)?//", address) is not None


@pytest.mark.gate
def test_pages_load_nothing_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        addresses = loaded(page.read_text())
        assert any(address.endswith(".js") for address in addresses) or page.name == "demo.html"
        assert [a for a in addresses if is_elsewhere(a)] == [], page.name
        for address in addresses:
            if page.name != "404.html" and not address.startswith(("#", "data:")):
                assert (page.parent / address.split("#")[0].split("?")[0]).exists(), address
    for sheet in site.rglob("*.css"):
        used = re.findall(r"(?:url\(|@import )['\"]?([^'\")]+)", sheet.read_text())
        assert [a for a in used if is_elsewhere(a)] == [], sheet.name


@pytest.mark.gate
def test_every_public_name_is_in_the_reference(site):
    packed = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    known = {line.split()[0] for line in zlib.decompress(packed).decode().splitlines()}
    public = {
        f"auucmax.{module}.{name}"
        for module in DOCUMENTED
        for name in import_module(f"auucmax.{module}").__all__
        if not name.isupper()  # constants are shown where there is something to say
    }
    # A function with the name of its own file is found below the file.
    missing = {n for n in public if n not in known and f"{n}.{n.split('.')[-1]}" not in known}
    assert missing == set()
    own = {n for n in auucmax.__all__ if not isinstance(getattr(auucmax, n), ModuleType | str)}
    assert own <= {name.split(".")[-1] for name in known}


@pytest.mark.gate
def test_search_works_on_files_without_a_network(site):
    browser = shutil.which("chromium")
    if browser is None or find_spec("playwright") is None:
        pytest.skip("needs chromium and playwright")
    from playwright.sync_api import sync_playwright

    asked, errors = [], []
    with sync_playwright() as play:
        window = play.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = window.new_page(viewport={"width": 1400, "height": 900})
        page.set_default_timeout(300_000)  # other work may slow the browser
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto((site / "guide" / "trial.html").as_uri())
        page.get_by_role("textbox", name="Search").click()
        page.keyboard.type("hedged betting")
        page.wait_for_selector(".md-search-result__link")
        assert "guarantees.html" in page.inner_html(".md-search-result__list")
        window.close()
    assert errors == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "about:"))] == []


def write_outputs(names):
    """Put what the code prints into the pages, long lines folded."""
    for page in [*PAGES, EXTENDING]:
        if names and str(page.relative_to(DOCS).with_suffix("")) not in names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            found, _ = run_page(page, folder)
        printed = iter([printed for _, printed in found])

        def filled(block, printed=printed):
            code, text = block[1], next(printed).rstrip()
            lines = [fold(line) for line in text.splitlines()]
            shown = "\n```text\n{}\n```\n".format("\n".join(lines)) if text else ""
            return f"```python\n{code}```\n{shown}"

        page.write_text(BLOCK.sub(filled, page.read_text()))


def fold(line, width=90):
    """A long line on several; what follows a name goes on below itself."""
    if len(line) <= width:
        return line.rstrip()
    named = re.match(r"  \S.{0,30}?  +(?=\S)", line)
    indent = " " * (named.end() if named else 4)
    return textwrap.fill(line, width, subsequent_indent=indent, break_on_hyphens=False)


if __name__ == "__main__":
    write_outputs(sys.argv[1:])
