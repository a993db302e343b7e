"""How large the house is: lines and names of the source, and what one call has to walk through.

Counted by ``ast`` and ``tokenize`` in ``src``; functions and files of auucmax that a call visits
are counted in a process of its own, without those that only an import runs. The case ``before`` is
an earlier commit: ``git worktree add DIR COMMIT``, then ``python -m benchmarks house --tree DIR
--keep``. Without ``--tree`` this tree is counted, as the case ``after``.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LONG = 44  # lines of a function's body
SMALL = 100  # lines of a module

Tree = dict[str, ast.Module]  # by the module's full name


def run(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """One record of a tree; ``--quick``: without the calls."""
    root = ROOT if arguments.tree is None else arguments.tree.resolve()
    case = "after" if arguments.tree is None else "before"
    record = {"benchmark": "house", "case": case, "commit": commit_of(root)}
    record |= counts(root / "src" / "auucmax")
    calls = () if arguments.quick else CALLS
    record["visits"] = {name: visits(name, root) for name in calls}
    return [record]


def table_of(records: list[dict[str, Any]]) -> str:
    """Every number of the trees, side by side."""
    lines = [_line("", [f"{record['case']} ({record['commit']})" for record in records])]
    others = ("benchmark", "case", "commit", "visits", "run")
    lines += [
        _line(name, [_number(record.get(name, "-")) for record in records])
        for name in records[-1]
        if name not in others
    ]
    lines += ["", "functions and files visited by"]
    for call in CALLS:
        lines.append(_line(call, [_visited(record["visits"].get(call, {})) for record in records]))
    return "\n".join(lines)


def _visited(found: dict[str, Any]) -> str:
    if "functions" not in found:
        return found.get("skipped", "-")
    jobs = f", {found['jobs']} jobs" if "jobs" in found else ""
    return f"{found['functions']} in {found['files']}{jobs}"


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def _line(name: str, cells: list[str]) -> str:
    return " ".join([name.ljust(38), *(cell.rjust(26) for cell in cells)]).rstrip()


def commit_of(root: Path) -> str:
    """The commit of a tree, as git tells it."""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "no commit"


# Counted in the source


def counts(package: Path) -> dict[str, Any]:
    """Sizes of a package, by name.

    >>> found = counts(Path(__file__).parent)
    >>> found["modules"] > 5 and found["import cycles"] == 0
    True
    """
    paths = sorted(package.rglob("*.py"))
    texts = {_module(path, package): path.read_text() for path in paths}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    comments, code = (sum(column) for column in zip(*map(_lines, texts.values()), strict=True))
    bodies = sorted(_body(node) for tree in trees.values() for node in _functions(tree))
    lengths = [text.count("\n") for text in texts.values()]
    small = sum(
        path.name != "__init__.py" and length < SMALL
        for path, length in zip(paths, lengths, strict=True)
    )
    return {
        "source lines": sum(lengths),
        "lines of code": code,
        "comment lines per 100 of code": round(100 * comments / code, 1),
        "modules": len(texts),
        f"modules under {SMALL} lines, no __init__": small,
        "public top-level names": sum(_n_public(tree) for tree in trees.values()),
        "functions": len(bodies),
        "lines of a function, median": statistics.median(bodies),
        "lines of a function, 95th percentile": bodies[int(0.95 * len(bodies))],
        "lines of a function, longest": bodies[-1],
        f"functions over {LONG} lines": sum(length > LONG for length in bodies),
        "private helpers used once": _n_used_once(trees),
        "import cycles": len(cycles(imports(trees))),
    }


def _module(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function below its signature and docstring."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (function.end_lineno or 0) - body[0].lineno + 1 if body else 0


def _lines(text: str) -> tuple[int, int]:
    """Lines that are comments, and lines of code: neither blank, comment nor docstring.

    >>> _lines('"Title."\\n\\n# why\\nx = (1,  # one\\n     2)\\n')
    (1, 2)
    """
    skipped = {
        tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
        tokenize.COMMENT,
    }  # fmt: skip
    comments, code, starts = set(), set(), True  # a text that starts a line is a docstring
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        span = range(token.start[0], token.end[0] + 1)
        if token.type == tokenize.COMMENT:
            comments.update(span)
        if token.type not in skipped and not (starts and token.type == tokenize.STRING):
            code.update(span)
        if token.type not in (tokenize.NL, tokenize.COMMENT):
            starts = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    return len(comments - code), len(code)


def _n_public(tree: ast.Module) -> int:
    """Functions and classes of a module without a leading underscore."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    found = {node.name for node in tree.body if isinstance(node, kinds)}
    return sum(not entry.startswith("_") for entry in found)


def _n_used_once(trees: Tree) -> int:
    """Private functions whose name is read in one place of the package."""
    defined = [node.name for tree in trees.values() for node in _functions(tree)]
    private = {name for name in defined if name.startswith("_") and not name.startswith("__")}
    used = Counter(
        node.id if isinstance(node, ast.Name) else node.attr
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute)
    )
    return sum(used[name] == 1 for name in private)


def imports(trees: Tree) -> dict[str, set[str]]:
    """Modules of the package that each imports when it is imported itself."""
    return {name: set(_imported(name, tree, trees)) for name, tree in trees.items()}


def _imported(name: str, tree: ast.Module, trees: Tree) -> Iterator[str]:
    for node in _at_import(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in trees)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                home = inner if inner in trees else node.module
                if home in trees and home != name:
                    yield home


def _at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """Statements that an import runs: none of functions, nor for type checkers only."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from _at_import(node)


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other.

    >>> cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()})
    [['b', 'c']]
    """

    def reached(start: str) -> set[str]:
        found: set[str] = set()
        pending = [start]
        while pending:
            for other in graph[pending.pop()] - found:
                found.add(other)
                pending.append(other)
        return found

    reach = {name: reached(name) for name in graph}
    groups = {
        tuple(sorted({name} | {other for other in reach[name] if name in reach[other]}))
        for name in graph
        if name in reach[name]
    }
    return [list(group) for group in sorted(groups)]


# Visited by a call


class Visits:
    """Functions of a package that run while it is entered, in any thread."""

    def __init__(self, package: Path) -> None:
        self._folder = f"{package}{os.sep}"
        self.codes: set[CodeType] = set()

    def __enter__(self) -> Visits:
        threading.setprofile(self._seen)
        sys.setprofile(self._seen)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _seen(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            self.codes.add(frame.f_code)

    def summary(self) -> dict[str, int]:
        # Modules and bodies of classes run once, when they are imported; "<" begins the names of
        # lambdas and comprehensions, which belong to the function around them.
        found = [
            code
            for code in self.codes
            if code.co_filename.startswith(self._folder)
            and code.co_flags & inspect.CO_OPTIMIZED
            and not code.co_name.startswith("<")
        ]
        return {"functions": len(found), "files": len({code.co_filename for code in found})}


def visits(call: str, root: Path) -> dict[str, Any]:
    """What a call of the tree ``root`` visits, measured in another process."""
    if reason := _obstacle(call):
        return {"skipped": reason}
    environment = os.environ | {"PYTHONPATH": f"{root / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.house", call]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{call} should run in {root}, got:\n{done.stdout}{done.stderr}")
    print(f"  {call:<38} {done.stdout.splitlines()[-1]}", flush=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _obstacle(call: str) -> str | None:
    import shutil

    if call == "spark.fit" and shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        return "no Java"
    return None


def main(call: str) -> int:
    """Run one call and print what it visited; the last line is for the process that started us."""
    import auucmax

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        work = CALLS[call]()
        watch, more = Visits(Path(str(auucmax.__file__)).parent), {}
        with watch:
            more = work() or {}
    print(json.dumps(watch.summary() | {k: v for k, v in more.items() if k == "jobs"}))
    return 0


def command(line: str) -> int:
    """``auucmax`` with these arguments, in this process; its exit code."""
    from auucmax.cli import app

    try:
        app(line.split())
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def either(*lines: str) -> Callable[[], None]:
    """The first of some command lines that a tree understands; the newest comes first."""
    line = next((line for line in lines[:-1] if command(line) == 0), lines[-1])

    def work() -> None:
        if code := command(line):
            raise RuntimeError(f"auucmax {line} should run, got {code}. Add this tree's way.")

    return work


def table() -> None:
    """trial.csv in this folder: the rows of a small trial with numbers and texts."""
    from auucmax import make_trial

    trial = make_trial(6_000, n_features=4, random_state=0)
    frame = trial.X.assign(
        town=["north", "south", "east"] * 2_000, treatment=trial.treatment, y=trial.y
    )
    frame.to_csv("trial.csv", index_label="person")


FIT = "fit trial.csv --treatment treatment --outcome y --id person --output model"


def fit_command() -> Callable[[], Any]:
    table()
    return either(FIT)


def target_command() -> Callable[[], Any]:
    table()
    command(FIT)
    return either("target model trial.csv --share .3 --output list.csv")


def report_command() -> Callable[[], Any]:
    table()
    command(FIT)
    return either("report model --output page.html", "report model trial.csv --output page.html")


def fit_arrays() -> Callable[[], Any]:
    from auucmax import AUUCMax, make_trial

    trial = make_trial(6_000, random_state=0)
    X = trial.X.to_numpy()

    def work() -> None:
        AUUCMax().fit(X, trial.y, treatment=trial.treatment)

    return work


def certify_scores() -> Callable[[], Any]:
    from auucmax import certify, make_trial

    trial = make_trial(6_000, random_state=0)
    score = trial.X.to_numpy()[:, 0]

    def work() -> None:
        certify(score, y=trial.y, treatment=trial.treatment)

    return work


def spark_fit() -> Callable[[], Any]:
    from pyspark.sql import SparkSession

    from auucmax import make_trial, spark

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.retainedJobs", "100000")
        .getOrCreate()
    )
    context = session.sparkContext
    context.setLogLevel("OFF")
    trial = make_trial(6_000, n_features=4, random_state=0)
    frame = session.createDataFrame(trial.X.assign(treatment=trial.treatment, y=trial.y))

    def work() -> dict[str, int]:
        spark.fit(frame, treatment="treatment", outcome="y")
        return {"jobs": len(context.statusTracker().getJobIdsForGroup(None))}

    return work


#: What is called -> a function that prepares it and returns the call.
CALLS: dict[str, Callable[[], Callable[[], Any]]] = {
    "auucmax fit": fit_command,
    "auucmax target": target_command,
    "auucmax report": report_command,
    "AUUCMax().fit": fit_arrays,
    "certify": certify_scores,
    "spark.fit": spark_fit,
}


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
