"""The file by which a comparison goes on: what is done is not done again, nothing else is taken."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from tests.compare.spies import TRIAL, Spy, Stubborn, fits, same

from auucmax import Trial
from auucmax.compare import compare

SRC = Path(__file__).resolve().parents[2] / "src"


def test_resume_does_only_what_is_missing(tmp_path):
    path = tmp_path / "new" / "results.jsonl"
    first = compare([Spy(), Spy(1)], TRIAL, splits=3, resume=path)
    assert fits() == 6
    text = path.read_text()
    renamed = compare({"a": Spy(), "b": Spy(1)}, TRIAL, splits=3, resume=path)
    assert fits() == 6
    assert path.read_text() == text
    pd.testing.assert_frame_equal(
        renamed.frame.replace({"model": {"a": "Spy", "b": "Spy(number=1)"}}), first.frame
    )
    compare([Spy(), Spy(2)], TRIAL, splits=4, resume=str(path))
    assert fits() == 6 + 1 + 4
    assert path.read_text().startswith(text)


@pytest.mark.parametrize(
    "changes",
    [
        {"random_state": 1},
        {"test_size": 0.25},
        {"models": [Spy(random_state=0)]},
        {"trial": Trial(TRIAL.X, 1 - TRIAL.y, TRIAL.treatment)},
        {"trial": TRIAL.take(np.arange(600)[::-1])},
        {"trial": Trial(TRIAL.X.rename(columns=str.upper), TRIAL.y, TRIAL.treatment)},
        {"trial": Trial(TRIAL.X, TRIAL.y, TRIAL.treatment, np.arange(600) + 1.0)},
    ],
    ids=["seed", "test_size", "parameter", "outcome", "row order", "column names", "weight"],
)
def test_what_was_made_from_something_else_is_not_used(tmp_path, changes):
    path = tmp_path / "results.jsonl"
    call = {"models": [Spy()], "trial": TRIAL, "splits": 2, "resume": path}
    compare(**call)
    before = path.read_text()
    fresh = compare(**call | changes)
    assert fits() == 4
    assert path.read_text().startswith(before)
    same(fresh, compare(**call | changes))  # as read, to the last digit
    assert fits() == 4


def test_the_hash_of_a_frame_is_that_of_its_values(tmp_path):
    words = pd.DataFrame({"x": np.arange(600.0), "word": ["a", "b", "c"] * 200})
    path = tmp_path / "results.jsonl"
    for frame in (words, words[["x"]].assign(word=words["word"])):
        model = Spy(make_pipeline(OneHotEncoder(), Ridge()))
        compare([model], Trial(frame, TRIAL.y, TRIAL.treatment), splits=1, resume=path)
    assert fits() == 1
    assert len(path.read_text().splitlines()) == 1


NOTEBOOK = """
import functools, sys
from auucmax import make_trial
from auucmax.compare import compare
from auucmax.estimators import ScoreOnly

class Holder:
    a, b = 1.0, -1.0

def scaled(by):
    def wrap(function):
        @functools.wraps(function)
        def wrapper(X):
            return by * function(X)
        return wrapper
    return wrap

{code}

trial = make_trial(200, n_features=4, random_state=0)
found = compare([ScoreOnly(rule)], trial, splits=1, resume=sys.argv[1])
print(found.frame["auuc"][0], found.seeds[0])
"""


def test_an_edited_function_of_the_same_name_is_another(tmp_path):
    path = tmp_path / "results.jsonl"
    versions = {
        "def rule(X): return X.iloc[:, 0]": 1,
        "# moved\n\ndef rule(X): return X.iloc[:, 0]": 1,
        "def rule(X): return X.iloc[:, 1]": 2,  # a constant
        "def rule(X): return -X.iloc[:, 0]": 3,  # an instruction
        "def rule(X, by=2): return by * X.iloc[:, 0]": 4,
        "def rule(X, by=-2): return by * X.iloc[:, 0]": 5,  # a default
        "def rule(X): return X.iloc[:, 0] * Holder.a": 6,
        "def rule(X): return X.iloc[:, 0] * Holder.b": 7,  # a name
        "@scaled(1)\ndef rule(X): return X.iloc[:, 0]": 8,
        "@scaled(-1)\ndef rule(X): return X.iloc[:, 0]": 9,  # what a closure holds
        "@scaled(-1)\ndef rule(X): return X.iloc[:, 1]": 10,  # a function that it holds
        "def rule(X): return X.apply(lambda row: row.iloc[0], axis=1)": 11,
        "def rule(X): return X.apply(lambda row: row.iloc[1], axis=1)": 12,  # one inside it
    }
    for code, n_lines in versions.items():
        _run_as_main(NOTEBOOK.format(code=code), path)
        assert len(path.read_text().splitlines()) == n_lines, code


def _run_as_main(text: str, path: Path) -> None:
    """As a notebook does: functions belong to ``__main__``, under whatever name is current."""
    main = sys.modules["__main__"]
    argv, sys.argv = sys.argv, ["notebook", str(path)]
    space = types.ModuleType("__main__")
    sys.modules["__main__"] = space
    try:
        exec(compile(text, "notebook", "exec"), space.__dict__)
    finally:
        sys.modules["__main__"], sys.argv = main, argv


def test_a_torn_last_line_is_dropped_and_done_again(tmp_path):
    path = tmp_path / "results.jsonl"
    whole = compare([Spy()], TRIAL, splits=3, resume=path)
    text = path.read_bytes()
    for cut in (1, 30, len(text.splitlines()[-1]), len(text.splitlines()[-1]) - 3):
        path.write_bytes(text[:-cut])
        before = fits()
        same(whole, compare([Spy()], TRIAL, splits=3, resume=path))
        assert fits() == before + 1
        assert len(path.read_bytes().splitlines()) == 3


@pytest.mark.parametrize(
    "content", [b"a,b\n1,2\n", b"notes without an end", b'{"auucmax": 1', b"\n"]
)
def test_a_file_of_something_else_is_left_alone(tmp_path, content):
    path = tmp_path / "mine.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"resume should name a new file.*got .*Choose another"):
        compare([Spy()], TRIAL, splits=1, resume=path)
    assert path.read_bytes() == content


def test_a_damaged_line_is_named(tmp_path):
    path = tmp_path / "results.jsonl"
    compare([Spy()], TRIAL, splits=2, resume=path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0] + lines[1][:60] + "\n" + lines[1])
    with pytest.raises(ValueError, match=r"line 2 cannot be read\. Delete that line"):
        compare([Spy()], TRIAL, splits=2, resume=path)


def test_an_interrupt_leaves_the_file_whole(tmp_path):
    path = tmp_path / "results.jsonl"
    Stubborn.fails, Stubborn.error = (3,), KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        compare([Stubborn()], TRIAL, splits=4, resume=path)
    assert len([json.loads(line) for line in path.read_text().splitlines()]) == 2
    compare([Stubborn()], TRIAL, splits=4, resume=path)
    assert Stubborn.count == 3 + 2


@pytest.mark.gate
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_killed_run_goes_on(tmp_path, n_jobs):
    path, other = tmp_path / "results.jsonl", tmp_path / "whole.jsonl"
    (tmp_path / "slow_models.py").write_text(
        textwrap.dedent("""
        import os, time
        from pathlib import Path
        from auucmax import TwoModels, make_trial
        from auucmax.compare import compare

        class Slow(TwoModels):
            def _fit(self, *rows):
                path = Path(os.environ["WAITS_AT_FOUR_LINES"])
                while path.name and path.exists() and path.read_bytes().count(b"\\n") >= 4:
                    time.sleep(0.02)  # to be killed
                super()._fit(*rows)

        def run(path, n_jobs):
            trial = make_trial(600, n_features=4, base_rate=0.4, random_state=0)
            found = compare({"a": Slow(), "b": TwoModels()}, trial, splits=8, resume=path,
                            n_jobs=n_jobs)
            found.frame.drop(columns="fit_seconds").to_json(path + ".frame", double_precision=15)
    """)
    )
    code = "import slow_models, sys; slow_models.run(sys.argv[1], int(sys.argv[2]))"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(SRC), str(tmp_path)])}

    def start(to, jobs, waits=""):
        command = [sys.executable, "-c", code, str(to), str(jobs)]
        variables = environment | {"WAITS_AT_FOUR_LINES": str(waits)}
        return subprocess.Popen(command, env=variables, start_new_session=True)

    running = start(path, n_jobs, waits=path)
    while running.poll() is None and (not path.exists() or path.read_bytes().count(b"\n") < 4):
        time.sleep(0.02)
    os.killpg(running.pid, signal.SIGKILL)  # its workers with it
    assert running.wait(1_800) == -signal.SIGKILL
    before = path.read_bytes()
    done = before.count(b"\n")
    assert 4 <= done < 16
    assert start(path, n_jobs).wait(1_800) == 0
    assert start(other, 3 - n_jobs).wait(1_800) == 0
    after = path.read_bytes()
    assert after.startswith(before[: before.rindex(b"\n") + 1])
    assert after.count(b"\n") == 16  # each once, none done again
    assert (
        len({(line["model"], line["seed"]) for line in map(json.loads, after.splitlines())}) == 16
    )
    frames = [Path(f"{p}.frame").read_text() for p in (path, other)]
    assert frames[0] == frames[1]
