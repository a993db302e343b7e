"""A process that is killed while it writes leaves the old or the new file, whole."""

import json
import os
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.gate

# One warm process: each child writes one of four files, from either of two models in turns, and is
# killed in the midst of a write; whatever is then on the disk must be one of the two contents. The
# moment is a share of what a write takes, after some that are done: a busy machine changes nothing.
SCRIPT = """
import json, os, random, signal, sys, time
from pathlib import Path

from auucmax import fit, load, make_trial, read_trial
from auucmax.campaign import Monitor
from auucmax.cli.frame import write_table
from auucmax.present.page import write_report

folder = Path(sys.argv[1])
trial = make_trial(4_000, random_state=0)
table = trial.X.assign(visit=trial.y, mail=trial.treatment)
read = read_trial(table, treatment="mail", outcome="visit")
writers = {"m.state": [], "m.model": [], "list.csv": [], "r.html": []}
running = table.assign(sent="2026-01-01", score=0.5)
for seed in (0, 1):
    model = fit(read, "tm", random_state=seed)
    people = model.target(trial.X, share=0.5).people
    writers["m.model"].append(lambda path, model=model: model.save(path))
    writers["list.csv"].append(lambda path, people=people: write_table(people, path))
    writers["r.html"].append(lambda path, model=model: write_report(model, path))

    monitor = Monitor(treatment="mail", outcome="visit", date="sent", score="score")
    monitor.look(running[: 2_000 * (seed + 1)], as_of="2026-02-01")
    writers["m.state"].append(monitor.save)


def content(path):
    # Two files of one model differ in some bytes; its key tells whose it is.
    if path.suffix == ".state":
        return list(Monitor.load(path).state.n_rows)
    return load(path).recipe.key if path.suffix == ".model" else path.read_bytes()


whole, takes = {}, {}
for name, (first, second) in writers.items():
    contents = []
    for write in (second, first):
        start = time.perf_counter()
        write(folder / name)
        takes[name] = time.perf_counter() - start
        contents.append(content(folder / name))
    assert contents[0] != contents[1]
    whole[name] = contents


def rewrite(name, done):
    while True:
        for write in reversed(writers[name]):
            write(folder / name)
            os.write(done, b".")


draw = random.Random(0)
seen = {name: set() for name in whole}
for number in range(int(sys.argv[2])):
    name = list(writers)[number % len(writers)]
    told, done = os.pipe()
    child = os.fork()
    if child == 0:
        rewrite(name, done)
    for _ in range(number // len(writers) % 3):
        assert os.read(told, 1) == b"."
    time.sleep(draw.uniform(0, 1.5) * takes[name])
    os.kill(child, signal.SIGKILL)
    os.close(told)
    os.close(done)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    for name, contents in whole.items():
        found = content(folder / name)  # an error if it is half a model
        assert found in contents, f"{name} is neither the old nor the new"
        seen[name].add(contents.index(found))
left = [path.name for path in folder.iterdir() if path.name not in whole]
print(json.dumps({"seen": {name: sorted(found) for name, found in seen.items()}, "left": left}))
"""


@pytest.mark.gate
def test_fifty_kills_leave_whole_files(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), "50"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    # Both contents were met of every file: the children did write, and were killed at any place.
    assert all(contents == [0, 1] for contents in found["seen"].values()), found["seen"]
    # What a kill -9 leaves is cleared a minute later; it does not look like an output.
    assert all(name.endswith(".auucmax-part") for name in found["left"])
    assert len(found["left"]) <= 50


@pytest.mark.gate
def test_a_request_to_end_leaves_no_rows_behind(tmp_path):
    """The copy of a table in another encoding is removed, as after Ctrl-C."""
    (temporary := tmp_path / "tmp").mkdir()
    lines = "".join(f"{k % 2},{k % 3 % 2},\xe9{k % 7},{k}\n" for k in range(600_000))
    (tmp_path / "big.csv").write_bytes(f"mail,visit,town,x\n{lines}".encode("latin-1"))
    call = [sys.executable, "-m", "auucmax", "check", "big.csv", "-t", "mail", "-y", "visit",
            "--encoding", "latin-1"]  # fmt: skip
    process = subprocess.Popen(
        call, cwd=tmp_path, env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while not list(temporary.glob("auucmax-rows-*/**/big.csv")) and process.poll() is None:
        time.sleep(0.01)
    process.terminate()
    assert process.wait(timeout=1_800) == 143
    assert not list(temporary.glob("auucmax-rows-*"))
