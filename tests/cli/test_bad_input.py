"""Bad input is told in one line, with exit code 2; files stay as they were."""

import json
import os
import resource
import subprocess
import sys
import zipfile
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from tests.cli.commands import FIT, NAMED, run
from tests.model.trial_table import trial_table

from auucmax.model.file import FORMAT

# What is wrong, the command, and words of the line that tells it.
CASES = {
    "no such file": ("fit {bad}/no.csv {fit} -o {out}.model", "got nothing at"),
    "a name that is near": ("fit {trial} -t arn -y visit -o {out}.model", "Did you mean 'arm'?"),
    "an outcome that is near": ("check {trial} -t arm -y visits", "Did you mean 'visit'?"),
    "one arm twice": (
        "fit {trial} -t arm -y visit --treated mail --control mail -o {out}.model",
        "--treated and --control should be different labels, got 'mail' for both",
    ),
    "one column twice": ("check {trial} -t visit -y visit", "should be different columns"),
    "an unknown arm": ("check {trial} -t arm -y visit --treated male", "got 'male'"),
    "three arms": (
        "fit {trial} -t arm -y visit -o {out}.model",
        "got the labels 'mail', 'none', 'phone'. Pass --treated ... and --control ...",
    ),
    "an empty file": ("fit {bad}/empty.csv {fit} -o {out}.model", "got an empty file"),
    "only a header": ("fit {bad}/header.csv {fit} -o {out}.model", "should have rows"),
    "noise": ("fit {bad}/noise.csv {fit} -o {out}.model", "noise.csv should be"),
    "noise without a name": ("check {bad}/noise {named}", "noise should be"),
    "noise named Parquet": ("check {bad}/noise.parquet {named}", "a Parquet file"),
    "another encoding": ("check {bad}/latin.csv {named}", "UTF-8"),
    "an id twice": (
        "fit {bad}/twice.csv {fit} --id person -o {out}.model",
        "got 1 row with the id of another one. Do the rows of an id belong together? Then pass "
        "--groups person;",
    ),
    "an outcome that is missing": ("fit {bad}/unknown.csv {fit} -o {out}.model", "visit"),
    "an outcome of text": (
        "check {trial} -t arm -y person --treated mail --control none", "should hold numbers",
    ),
    "a query of a file": ("check {trial} {named} -q x", "query should come with a database"),
    "nobody answers": (
        "check postgresql://me:secret@127.0.0.1:1/shop {named} -q rows",
        "127.0.0.1/shop should be a PostgreSQL database",
    ),
    "an unknown model": ("fit {trial} {named} -m best -o {out}.model", "should be one of"),
    "a share of rows": ("fit {trial} {fit} --hold-out 2 -o {out}.model", "--hold-out should"),
    "too few rows": ("fit {bad}/few.csv {fit} -o {out}.model", "There are too few rows: collect"),
    "an ignored column": ("fit {trial} {fit} --ignore agee -o {out}.model", "Did you mean 'age'?"),
    "a new category": (
        "target {model} {bad}/town.csv -s .3 -o {out}.csv",
        "got 'Paris' in 1 row. Correct the values, train again with them, or use --new-levels "
        "other",
    ),
    "a missing column": ("target {model} {bad}/ageless.csv -s .3 -o {out}.csv", "'age'"),
    "text for a number": ("target {model} {bad}/words.csv -s .3 -o {out}.csv", "should hold num"),
    "a share of 30": (
        "target {model} {new} --share 30 -o {out}.csv",
        "--share should lie between 0 and 1, got 30. 0.3 means the top 30 percent.",
    ),
    "a share that is no number": ("target {model} {new} -s x -o {out}.csv", "--share"),
    "a budget without cost": ("target {model} {new} -b 9 -o {out}.csv", "come with the cost"),
    "share and budget": ("target {model} {new} -s .1 -b 9 --cost 1 -o {out}.csv", "got both"),
    "no policy": ("target {model} {new} -o {out}.csv", "Pass --share 0.3, for example"),
    "a negative cost": ("target {model} {new} --cost -1 --value 2 -o {out}.csv", "--cost should"),
    "half a model": ("target {bad}/half.model {new} -s .3 -o {out}.csv", "a whole model file"),
    "no model": ("target {trial} {new} -s .3 -o {out}.csv", "a whole model file"),
    "a folder as model": ("target {bad} {new} -s .3 -o {out}.csv", "Is a directory"),
    "data in the place of the model": ("evaluate {trial} {model}", "the model file comes first"),
    "a model in the place of data": ("check {model} {named}", "got a model file of auucmax"),
    "Stata": ("check {bad}/rows.dta {named}", "got a file of Stata"),
    "an archive": ("check {bad}/rows.zip {named}", "got a file of zip. Unpack it"),
    "lists as outcome": (
        "check {bad}/lists.parquet -t arm -y list --treated mail --control none", "as '[1 2]'",
    ),
    "lists as ids": ("check {bad}/lists.parquet {named} --id list", "should hold numbers or texts"),
    "huge outcomes": (
        "check {bad}/huge.csv -t arm -y spent --treated mail --control none", "between 1e-100 and",
    ),
    "huge numbers": ("fit {bad}/huge.csv {fit} -o {out}.model", "column 'spent' should hold"),
    "huge numbers to compare on": (
        "compare {bad}/huge.csv {named} --ignore person --models tm --splits 2", "at most 1e+100",
    ),
    "no model can be fitted": (
        "compare {trial} -t arm -y spent --treated mail --control none --models cvt --splits 2 "
        "--ignore person --after visit", "got cvt, which learn from 0/1 only. Leave them out",
    ),
    "amounts for a model of 0 and 1": (
        "fit {trial} -t arm -y spent --treated mail --control none -m cvt --ignore person "
        "--after visit -o {out}.model", "--model should be one of 'auto', 'auucmax', 'boosted',",
    ),
    "no such model": ("evaluate {bad}/no.model {trial}", "No such file"),
    "no such folder": ("target {model} {new} -s .3 -o {tmp}/no/list.csv", "should exist"),
    "a folder as output": ("fit {trial} {fit} -o {tmp}", "got the folder"),
    "a device as output": ("report {model} -o /dev/null", "a device"),
    "an unknown kind of list": ("target {model} {new} -s .3 -o {out}.xls", ".csv or .parquet"),
    "the input as output": ("target {model} {out}.csv -s .3 -o {out}.csv", "another file than"),
    "the data as output": ("fit {out}.csv {fit} -o {out}.csv", "another file than the input"),
    "a model as output": ("export {out}.model --to json -o {out}.model", "another file than"),
    "too many files": ("evaluate {model} {trial} {trial}", "Name two at most."),
    "rivals without rows": (
        "report {model} --rivals tm -o {out}.html", "--rivals should come with the DATA of the fit",
    ),
    "rivals on other rows": (
        "report {model} {bad}/other.csv --rivals tm -o {out}.html",
        "should be the one that the model was fitted on, all of it, got another.",
    ),
    "a comparison on other rows": (
        "compare {bad}/other.csv --against {model}", "should be the one that the model was fitted",
    ),
    "an old model": (
        "target {bad}/old.model {new} -s .3 -o {out}.csv",
        f"old.model should be a model file of version {FORMAT.version}, got version 1. An older "
        "auucmax wrote it: fit the model again.",
    ),
    "a report of an old model": ("report {bad}/old.model -o {out}.html", "fit the model again."),
    "compare what": ("compare {trial}", "no --treatment or no --outcome"),
    "an unknown rival": ("compare {trial} --against {model} --models best", "--models should be"),
    "another treatment": (
        "evaluate {model} {trial} --treatment nonsense",
        "--treatment should be 'arm', as the MODEL was fitted; got 'nonsense'. Leave --treatment",
    ),
    "another outcome": ("evaluate {model} {trial} -y foo", "--outcome should be 'visit', as the"),
    "another arm": ("evaluate {model} {trial} --treated x", "--treated should be 'mail', as the"),
    "another rivalry": ("compare {trial} --against {model} -t nonsense", "--treatment should be"),
    "another id": ("compare {trial} --against {model} --id age", "--id should be 'person'"),
    "other columns": (
        "compare {trial} --against {model} --features age", "--features should be 'age', 'town'",
    ),
    "ignored by no model": ("compare {trial} --against {model} --ignore age", "--ignore should be"),
    "splits of a model": ("compare {trial} --against {model} --splits -3", "got --splits -3"),
    "a seed of a model": ("compare {trial} --against {model} --seed 3", "got --seed 3"),
    "jobs of a model": ("compare {trial} --against {model} --jobs 2", "without --against"),
    "levels of splits": (
        "compare {trial} {named} --new-levels other", "--new-levels should come with --against",
    ),
    "levels of scores": (
        "evaluate {trial} {named} --score-column age --new-levels other", "come with a MODEL",
    ),
    "unknown levels": ("evaluate {model} {trial} --new-levels any", "--new-levels should be"),
    "no splits": ("compare {trial} {named} --splits 0", "at least 1, got 0"),
    "a cohort of nobody": ("report {model} --cohort 0 -o {out}.html", "--cohort should"),
    "ONNX on the screen": ("export {model} --to onnx", "should go to a file"),
    "an unknown format": ("export {model} --to pmml", "--to should be one of"),
    "no such command": ("predict {model}", "No such command 'predict'. See: auucmax --help"),
    "no such option": ("fit {trial} {fit} --outputs x", "See: auucmax fit --help"),
    "nothing at all": ("fit", "Missing argument 'DATA'. See: auucmax fit --help"),
    "a share in per cent": (
        "target {model} {trial} -s 30% -o {out}.csv", "--share should be a number, got '30%'.",
    ),
    "a decimal comma": ("plan --power=0,8", "got '0,8'. Write it as 0.3, with a point"),
    "half a row": ("plan --rows 3.5", "--rows should be a whole number, got '3.5'. Write it as 3"),
    "a range of words": (
        "plan --outcome-range 0 x", "--outcome-range should be 2 numbers, got '0 x'.",
    ),
    "a picture in no folder": ("demo -o {tmp}/no/curve.png", "should exist"),
}  # fmt: skip


@pytest.fixture(scope="session")
def bad(files, tmp_path_factory):
    """Files that nobody should be able to use."""
    folder = tmp_path_factory.mktemp("bad")
    noise = np.random.default_rng(0).bytes(100_000)
    table, new = pd.read_csv(files.trial), pd.read_csv(files.new)
    header = ",".join(table.columns) + "\n"
    contents = {
        "empty.csv": b"",
        "header.csv": header.encode(),
        "noise.csv": noise,
        "noise": noise,
        "noise.parquet": noise,
        "latin.csv": (header + "é,mail,1,2,Bern,true,2020-01-01,3\n").encode("latin-1"),
        "half.model": files.model.read_bytes()[:5_000],
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    pd.concat([table, table.iloc[[5]]]).to_csv(folder / "twice.csv", index=False)
    unknown = table.assign(visit=table["visit"].where(table.index != 7))
    unknown.to_csv(folder / "unknown.csv", index=False)
    town = new.assign(town=new["town"].where(new.index != 3, "Paris"))
    town.to_csv(folder / "town.csv", index=False)
    new.drop(columns="age").to_csv(folder / "ageless.csv", index=False)
    new.assign(age="old").to_csv(folder / "words.csv", index=False)
    table.head(120).to_csv(folder / "few.csv", index=False)
    trial_table(900, random_state=9).assign(person=range(900)).to_csv(
        folder / "other.csv", index=False
    )
    (folder / "rows.dta").write_bytes(b"<stata_dta>" + noise)
    with zipfile.ZipFile(folder / "rows.zip", "w") as packed:
        packed.write(files.trial, "rows.csv")
    table.assign(list=[[1, 2]] * len(table)).to_parquet(folder / "lists.parquet")
    table.assign(spent=1e249 * table["spent"]).to_csv(folder / "huge.csv", index=False)
    with zipfile.ZipFile(folder / "old.model", "w") as old:  # as the first format had it
        old.writestr("model.json", json.dumps({"format": "auucmax model", "version": 1}))
        old.writestr("test.npy", b"")
    return folder


@pytest.fixture
def outputs(tmp_path):
    """Outputs of before, which must stay."""
    for kind in ("model", "csv", "html", "xls", "png", "parquet", "json"):
        (tmp_path / f"out.{kind}").write_text(f"old {kind}")
    return tmp_path


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def lines_of(result):
    """Lines on stderr, without notes."""
    return [line for line in result.stderr.splitlines() if not line.startswith("note: ")]


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_told_in_one_line(case, files, bad, outputs):
    command, words = CASES[case]
    before = contents(outputs)
    result = run(command.format(
        trial=files.trial, new=files.new, model=files.model, bad=bad, tmp=outputs,
        out=outputs / "out", fit=FIT, named=NAMED,
    ))  # fmt: skip
    assert result.exit_code == 2
    (line,) = lines_of(result)
    assert line.startswith("auucmax: ")
    assert words in line
    assert "secret" not in line
    assert result.stdout == ""
    assert contents(outputs) == before


WRITERS = {
    "fit": "fit {trial} {fit} --id person -o {out}.model",
    "target": "target {model} {new} -s .3 --all -o {out}.csv",
    "target to Parquet": "target {model} {new} -s .3 --all -o {out}.parquet",
    "report": "report {model} -o {out}.html",
    "export": "export {model} --to json -o {out}.json",
}


def written(command, files, folder):
    return run(command.format(
        trial=files.trial, new=files.new, model=files.model, out=folder / "out", fit=FIT,
    ))  # fmt: skip


@pytest.mark.quick_cases("target")
@pytest.mark.parametrize("name", WRITERS)
def test_an_interrupted_command_leaves_the_old_file(name, files, outputs, monkeypatch):
    before = contents(outputs)

    def interrupted(source, target):
        assert os.path.getsize(source) > 100  # all is written, only the renaming is missing
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupted)
        result = written(WRITERS[name], files, outputs)
    assert result.exit_code == 130
    assert lines_of(result) == ["auucmax: interrupted; files are as they were"]
    assert contents(outputs) == before


@contextmanager
def disk_of(n_bytes):
    """No file may grow larger."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.quick_cases("fit")
@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_the_old_file(name, files, outputs):
    before = contents(outputs)
    with disk_of(500):
        result = written(WRITERS[name], files, outputs)
    assert result.exit_code == 2
    (line,) = lines_of(result)
    assert line.startswith("auucmax: ")
    assert "too large" in line
    assert contents(outputs) == before


def command_line(*arguments, **options):
    code = "from auucmax.cli import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], stderr=subprocess.PIPE, **options
    )


@pytest.mark.gate
def test_a_screen_that_takes_nothing(files):
    with open("/dev/full", "w") as full:
        process = command_line("export", files.model, "--to", "json", stdout=full)
        _, told = process.communicate()
    assert process.returncode == 2
    assert told.decode().splitlines() == [
        "auucmax: No space left on device. Mend that and run it again: no file is half written."
    ]


def test_new_categories_can_be_let_in(files, bad, tmp_path):
    command = f"target {files.model} {bad}/town.csv -s .2 --all -o {tmp_path}/list.csv"
    assert run(f"{command} --new-levels other").exit_code == 0
    assert len(pd.read_csv(tmp_path / "list.csv")) == 1_000
    assert "--new-levels should be one of" in run(f"{command} --new-levels any").stderr


@pytest.mark.gate
def test_the_seed_of_the_model_reaches_the_rivals(files, tmp_path):
    lines = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        model = tmp_path / name
        fitted = run(f"fit {files.trial} {FIT} --id person --seed {seed} -o {model}")
        assert fitted.exit_code == 0
        compared = run(f"compare {files.trial} --against {model} --models mml --json")
        lines.append(json.loads(compared.stdout)["models"]["mml"])
    assert lines[0] == lines[1] != lines[2]


@pytest.mark.gate
@pytest.mark.parametrize("name", ["noise.csv", "noise.parquet"])
def test_a_gigabyte_of_noise(name, tmp_path):
    block = np.random.default_rng(0).bytes(2**23)
    with (tmp_path / name).open("wb") as file:
        for _ in range(128):
            file.write(block)
    # A child's peak counts what its parent held when it forked, so a small process is in between.
    code = (
        "import resource, subprocess, sys\n"
        "code = subprocess.call(sys.argv[1:])\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(used.ru_maxrss, used.ru_utime + used.ru_stime)\n"
        "raise SystemExit(code)"
    )
    command = [sys.executable, "-m", "auucmax", "check", tmp_path / name, *NAMED.split()]
    done = subprocess.run(
        [sys.executable, "-c", code, *command], capture_output=True, text=True, check=False
    )
    (tmp_path / name).unlink()
    kilobytes, seconds = map(float, done.stdout.split())
    assert done.returncode == 2
    assert done.stderr.startswith(f"auucmax: {name} should be ")
    assert done.stderr.count("\n") == 1
    assert kilobytes < 700_000  # less than the file
    assert seconds < 60
