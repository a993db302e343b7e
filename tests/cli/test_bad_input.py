"""Bad input is one line on stderr, with exit code 2; files stay as they were."""

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

# What is wrong, the command, and an option, column or file that the message names.
CASES = {
    "no such file": ("fit {bad}/no.csv {fit} -o {out}.model", "no.csv"),
    "a name that is near": ("fit {trial} -t arn -y visit -o {out}.model", "Did you mean 'arm'?"),
    "an outcome that is near": ("check {trial} -t arm -y visits", "Did you mean 'visit'?"),
    "one arm twice": (
        "fit {trial} -t arm -y visit --treated mail --control mail -o {out}.model", "--control",
    ),
    "one column twice": ("check {trial} -t visit -y visit", "should be another column"),
    "an unknown arm": ("check {trial} -t arm -y visit --treated male", "--treated"),
    "no control": ("fit {trial} -t arm -y visit -o {out}.model", "--control"),
    "an empty file": ("fit {bad}/empty.csv {fit} -o {out}.model", "empty.csv"),
    "only a header": ("fit {bad}/header.csv {fit} -o {out}.model", "header.csv"),
    "noise": ("fit {bad}/noise.csv {fit} -o {out}.model", "noise.csv"),
    "noise without a name": ("check {bad}/noise {named}", "noise"),
    "noise named Parquet": ("check {bad}/noise.parquet {named}", "readable as parquet"),
    "an id twice": ("fit {bad}/twice.csv {fit} --id person -o {out}.model", "'person'"),
    "an outcome that is missing": ("fit {bad}/unknown.csv {fit} -o {out}.model", "'visit'"),
    "an outcome of text": ("check {trial} -t arm -y person --control none", "'person'"),
    "a query of a file": ("check {trial} {named} -q x", "query"),
    "nobody answers": (
        "check postgresql://me:secret@127.0.0.1:1/shop {named} -q rows", "postgresql://127.0.0.1",
    ),
    "an unknown model": ("fit {trial} {named} -m best -o {out}.model", "--model should be one of"),
    "a share of rows": ("fit {trial} {fit} --hold-out 2 -o {out}.model", "--hold-out"),
    "too few rows": ("fit {bad}/few.csv {fit} -o {out}.model", "rows"),
    "limits with one arm": (
        "target {model} {new} -s .3 --at-most mail=3 -o {out}.csv", "--at-most should be left out"
    ),
    "an ignored column": ("fit {trial} {fit} --ignore agee -o {out}.model", "Did you mean 'age'?"),
    "a new category": ("target {model} {bad}/town.csv -s .3 -o {out}.csv", "'Paris'"),
    "a missing column": ("target {model} {bad}/ageless.csv -s .3 -o {out}.csv", "'age'"),
    "text for a number": ("target {model} {bad}/words.csv -s .3 -o {out}.csv", "'age'"),
    "a share of 30": ("target {model} {new} --share 30 -o {out}.csv", "--share"),
    "a share that is no number": ("target {model} {new} -s x -o {out}.csv", "--share"),
    "a budget without cost": ("target {model} {new} -b 9 -o {out}.csv", "--budget"),
    "share and budget": ("target {model} {new} -s .1 -b 9 --cost 1 -o {out}.csv", "--share"),
    "no policy": ("target {model} {new} -o {out}.csv", "--share"),
    "a negative cost": ("target {model} {new} --cost -1 --value 2 -o {out}.csv", "--cost"),
    "half a model": ("target {bad}/half.model {new} -s .3 -o {out}.csv", "half.model"),
    "no model": ("target {trial} {new} -s .3 -o {out}.csv", "trial.csv"),
    "a folder as model": ("target {bad} {new} -s .3 -o {out}.csv", "Is a directory"),
    "data in the place of the model": ("evaluate {trial} {model}", "trial.csv"),
    "a model in the place of data": ("check {model} {named}", "model file"),
    "an archive": ("check {bad}/rows.zip {named}", "rows.zip"),
    "lists as outcome": ("check {bad}/lists.parquet -t arm -y list --control none", "list"),
    "huge outcomes": ("check {bad}/huge.csv -t arm -y spent --control none", "1e+100"),
    "amounts for a model of 0 and 1": (
        "fit {trial} -t arm -y spent --control none -m cvt --ignore person --after visit "
        "-o {out}.model", "--model",
    ),
    "no such model": ("evaluate {bad}/no.model {trial}", "(no such file)"),
    "a table as model": ("evaluate {trial} {model}", "(it is of another kind)"),
    "no such folder": ("target {model} {new} -s .3 -o {tmp}/no/list.csv", "should exist"),
    "a folder as output": ("fit {trial} {fit} -o {tmp}", "a folder or a device"),
    "a device as output": ("report {model} -o /dev/null", "a device"),
    "an unknown kind of list": ("target {model} {new} -s .3 -o {out}.xls", "--output"),
    "the input as output": ("target {model} {out}.csv -s .3 -o {out}.csv", "another file than"),
    "the data as output": ("fit {out}.csv {fit} -o {out}.csv", "another file than the input"),
    "a model as output": ("export {out}.model --to json -o {out}.model", "another file than"),
    "too many files": ("evaluate {model} {trial} {trial}", "[MODEL] [DATA]"),
    "rivals without rows": ("report {model} --rivals tm -o {out}.html", "--rivals"),
    "rivals on other rows": ("report {model} {bad}/other.csv --rivals tm -o {out}.html", "fit"),
    "an old model": ("target {bad}/old.model {new} -s .3 -o {out}.csv", "old.model"),
    "compare what": ("compare {trial}", "--treatment"),
    "an unknown rival": ("compare {trial} --against {model} --models best", "'best'"),
    "another treatment": ("evaluate {model} {trial} --treatment nonsense", "--treatment"),
    "another outcome": ("evaluate {model} {trial} -y foo", "--outcome"),
    "splits of a model": ("compare {trial} --against {model} --splits -3", "--splits"),
    "unknown levels": ("evaluate {model} {trial} --new-levels any", "--new-levels"),
    "no splits": ("compare {trial} {named} --ignore person --splits 0", "--splits"),
    "a cohort of nobody": ("report {model} --cohort 0 -o {out}.html", "--cohort"),
    "ONNX on the screen": ("export {model} --to onnx", "--output"),
    "an unknown format": ("export {model} --to pmml", "--to should be one of"),
    "an unknown dialect": ("export {model} --to sql --dialect mysql", "--dialect"),
    "no such command": ("predict {model}", "No such command 'predict'"),
    "no such option": ("fit {trial} {fit} --outputs x", "See: auucmax fit --help"),
    "nothing at all": ("fit", "See: auucmax fit --help"),
    "a share in per cent": ("target {model} {trial} -s 30% -o {out}.csv", "--share"),
    "a decimal comma": ("plan --power=0,8", "--power"),
    "a picture in no folder": ("demo -o {tmp}/no/curve.png", "should exist"),
    "a plan without a base rate": ("plan --effect .03 --gain .006", "--base-rate"),
    "a picture of an unknown kind": (
        "plan --base-rate .1 --effect .03 --gain .006 --picture {out}.gif", "--picture",
    ),
    "shares above 1": (
        "assign {new} --id person --arms a=.5,b=.6 --key k -o {tmp}/l.csv", "--arms",
    ),
    "adding to no list": (
        "assign {new} --id person --arms a=.5,b=.5 --key k -o {tmp}/l.csv --add", "--add",
    ),
    "nobody was chosen": ("verify {trial} {named}", "--chosen"),
    "a model of another outcome": ("verify {trial} --chosen member -m {model} -y age", "--outcome"),
    "details and quiet": ("evaluate {model} --details --quiet", "--details"),
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
def test_bad_input_is_one_line_and_files_stay(case, files, bad, outputs):
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
    assert lines_of(result) == ["auucmax: interrupted; no file was changed"]
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
        "auucmax: No space left on device. Fix this and run it again. No partial file was written."
    ]


def test_new_categories_can_be_let_in(files, bad, tmp_path):
    command = f"target {files.model} {bad}/town.csv -s .2 --all -o {tmp_path}/list.csv"
    assert run(f"{command} --new-levels other").exit_code == 0
    assert len(pd.read_csv(tmp_path / "list.csv")) == 1_000
    assert "--new-levels should be one of" in run(f"{command} --new-levels any").stderr
