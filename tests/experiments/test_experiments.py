"""The harness: lines are kept, runs continue; pages are pure functions of the lines."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from experiments import coverage, defaults, hillstrom_linear, trials
from experiments.__main__ import DOCS
from experiments.first_page import FIRST, render_pages
from experiments.harness import (
    NAMES,
    RESULTS,
    Task,
    module_of,
    read_lines,
    results_file,
    run_tasks,
    task_of,
    write_lines,
)
from experiments.norm_paths import FAMILIES, RULES, path_line
from experiments.summaries import Scores, mean_ranks, paired
from experiments.trials import available
from scipy.stats import rankdata, ttest_rel
from tests.experiments.made_up import made_up
from threadpoolctl import threadpool_limits

from auucmax import AUUCMax
from auucmax.data import DataNotFoundError
from auucmax.pairs import s_poly

pytestmark = pytest.mark.gate

ROOT = Path(__file__).resolve().parent.parent.parent
TASKS = [Task("tiny", "trial", model, split) for split in range(3) for model in ("a", "b")]


def tiny_parameters(task):
    return {"model": task.model}


def tiny_run(task):
    return task._asdict() | {"parameters": tiny_parameters(task), "auuc": task.split / 7}


def run_tiny(path, done=None, parameters=tiny_parameters):
    def run(task):
        if done is not None:
            done.append(task)
        return tiny_run(task) | {"parameters": parameters(task)}

    return run_tasks(TASKS, path, run=run, parameters=parameters, jobs=1)


def without_times(line):
    return {k: v for k, v in line.items() if k not in ("fit_seconds", "cpu_seconds", "date")}


# Running.


def test_a_torn_last_line_is_done_again(tmp_path):
    path, done = tmp_path / "tiny.jsonl", []
    run_tiny(path)
    whole = path.read_text()
    path.write_text(whole[:-20])
    assert len(read_lines(path)) == len(TASKS) - 1
    assert run_tiny(path, done) == 1
    assert done == TASKS[-1:]
    assert path.read_text() == whole
    assert run_tiny(path, done) == 0


def test_a_killed_run_goes_on(tmp_path):
    path = tmp_path / "tiny.jsonl"
    code = f"""
import os, signal, sys
sys.path[:0] = [{str(ROOT)!r}]
from pathlib import Path
from experiments.harness import Task, run_tasks
tasks = [Task(*fields) for fields in {[tuple(task) for task in TASKS]}]
def run(task):
    if task == tasks[3]:
        os.kill(os.getpid(), signal.SIGKILL)
    return task._asdict() | {{"parameters": {{"model": task.model}}, "auuc": task.split / 7}}
run_tasks(tasks, Path({str(path)!r}), run=run, parameters=lambda t: {{"model": t.model}}, jobs=1)
"""
    killed = subprocess.run([sys.executable, "-c", code], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert [task_of(line) for line in read_lines(path)] == TASKS[:3]
    done = []
    run_tiny(path, done)
    assert done == TASKS[3:]
    assert [task_of(line) for line in read_lines(path)] == TASKS


def test_a_line_made_with_other_parameters_is_replaced(tmp_path):
    path, done = tmp_path / "tiny.jsonl", []
    run_tiny(path)
    run_tiny(path, done, lambda task: {"model": task.model, "new": (1, 2)} if task.model == "a"
             else tiny_parameters(task))  # fmt: skip
    assert {task.model for task in done} == {"a"}
    lines = read_lines(path)
    assert sorted(task_of(line) for line in lines) == sorted(TASKS)
    assert all(line["parameters"].get("new") == [1, 2] for line in lines if line["model"] == "a")


def test_two_runs_at_once_are_refused(tmp_path):
    path = tmp_path / "tiny.jsonl"

    def run(task):
        with pytest.raises(RuntimeError, match="one run at a time"):
            run_tiny(path)
        return tiny_run(task)

    assert run_tasks(TASKS[:1], path, run=run, parameters=tiny_parameters, jobs=1) == 1
    assert run_tiny(path) == len(TASKS) - 1


def test_same_seed_same_lines_in_this_process_and_in_others(tmp_path):
    tasks = [
        Task(hillstrom_linear.NAME, hillstrom_linear.TRIAL, model, 3)
        for model in ("AUUC-max s_poly, bound", 'AUUCMax(selection="bound")')
    ]
    found, environment = [], dict(os.environ)
    for jobs in (1, 2):
        path = tmp_path / f"{jobs}.jsonl"
        run_tasks(
            tasks,
            path,
            run=hillstrom_linear.run,
            parameters=hillstrom_linear.parameters,
            jobs=jobs,
        )
        found.append([without_times(line) for line in read_lines(path)])
    assert found[0] == found[1]
    assert dict(os.environ) == environment
    assert [task_of(line) for line in found[0]] == tasks
    needed = {"auuc", "auuc_separate", "chosen", "norm", "paper_bound", "train_auuc", "versions"}
    assert needed <= set(found[0][0])


def test_a_trial_that_is_missing_is_skipped_with_a_reason(monkeypatch, capsys):
    def missing(name):
        if name in trials.SOCIAL_PRESSURE:
            raise DataNotFoundError("set AUUCMAX_DATA")

    monkeypatch.setattr(trials, "load_trial", missing)
    kept = available(defaults.tasks(1))
    assert {task.trial for task in kept} == {
        *trials.HILLSTROM,
        *(trials.with_few_rows(name) for name in trials.HILLSTROM),
    }
    assert "skipped neighbours: set AUUCMAX_DATA" in capsys.readouterr().err


def test_trials_that_are_drawn_are_never_missing(capsys):
    assert available(coverage.tasks(1)) == coverage.tasks(1)
    assert capsys.readouterr().err == ""


# What is compared.


@pytest.fixture(autouse=True)
def one_thread():
    with threadpool_limits(limits=1):
        yield


@pytest.fixture(scope="module")
def small_split():
    return trials.load_split(trials.with_few_rows("Hillstrom women"), 1000, 0.5)


def test_reading_a_path_is_fitting_the_estimator(small_split):
    train, test = small_split
    assert train.n_rows == trials.FEW_ROWS
    paths = {
        name: path_line(Task("defaults", "", name, 1000), train, test)["path"]
        for name, family in FAMILIES.items()
        if family.weights == "lambda"
    }
    compared = [
        rule
        for rule in RULES
        if rule.family.name in paths
        and rule.selection == "bound"  # folds of "cv" are stratified there, and hashed in AUUCMax
        and (rule.grid, rule.mu) in (("relative", 0.1), ("paper", 1.0))
    ]
    assert compared
    for rule in compared:
        path = paths[rule.family.name]
        model = AUUCMax(
            s_poly(rule.mu), weights=rule.family.weights, scale=rule.family.scale, grid=rule.grid,
            selection=rule.selection, random_state=1000,
        ).fit(train.X, train.y, treatment=train.treatment)  # fmt: skip
        expected = model.score(test.X, test.y, treatment=test.treatment)
        # The two solutions agree to the solver's tolerance, and a few rows may change places.
        assert path["auuc"][rule.pick(path)] == pytest.approx(expected, abs=2e-5), rule.name


def test_the_chosen_rule_is_the_default_of_the_class():
    model, chosen = AUUCMax(), defaults.CHOSEN
    assert chosen in RULES
    assert (model.selection, model.grid, model.weights, model.scale) == (
        chosen.selection,
        chosen.grid,
        chosen.family.weights,
        chosen.family.scale,
    )


def test_paired_difference_agrees_with_the_t_test():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 12))
    found, expected = paired(a, b), ttest_rel(a, b).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    # Test rows are a third of the training rows: the variance is 1/12 + 1/3, not 1/12.
    wide = paired(a, b, overlap=1 / 3)
    assert wide.high - wide.low == pytest.approx((found.high - found.low) * np.sqrt(5))
    assert paired([1, 1, 1, 2], [0, 0, 0, 2]).p_value == 0.25  # the tie drops out
    assert paired([1, 1, 1, 2], [0, 0, 0, 2]).share_above == 0.875
    ranks = [rankdata(-row) for row in rng.normal(size=(5, 3))]
    assert mean_ranks(-np.array(ranks)) == pytest.approx(np.mean(ranks, axis=0))


def test_scores_compare_models_on_the_splits_that_both_have():
    lines = [made_up("e", "t", m, k, auuc=0.1 * k + own)
             for m, own, n in (("b", 0.02, 4), ("a", 0.0, 2)) for k in range(n)]  # fmt: skip
    scores = Scores(lines[::-1], ("a", "b", "absent"))
    assert scores.models == ["a", "b"]
    assert scores.common == scores.splits("b", "a") == [0, 1]
    assert scores.mean("b") == pytest.approx(0.17)
    assert scores.difference("b", "a").mean == pytest.approx(0.02)
    assert scores.spread("b") == pytest.approx(2 * np.std([0.02, 0.12, 0.22, 0.32], ddof=1))


# The page.


def test_the_page_is_a_pure_function_of_the_lines(tmp_path):
    for name in NAMES:
        lines = read_lines(results_file(name))
        random.Random(0).shuffle(lines)
        before = json.dumps(lines)
        module_of(name).render(lines)
        assert json.dumps(lines) == before
        write_lines(results_file(name, tmp_path), lines)
    assert render_pages(tmp_path) == render_pages(RESULTS)


def test_the_pages_that_are_kept_are_those_that_the_lines_give():
    pages = render_pages(RESULTS)
    kept = {FIRST: DOCS / FIRST} | {f"results/{p.name}": p for p in (DOCS / "results").iterdir()}
    assert set(kept) == set(pages)
    for address, path in kept.items():
        text = path.read_text(encoding="utf-8")
        assert text == pages[address], f"{address}: run `python -m experiments all --render`"


def test_the_first_page_leads_to_the_others():
    pages = render_pages(RESULTS)
    assert all(f"({address})" in pages[FIRST] for address in pages if address != FIRST)
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert all(f": {address}\n" in listed for address in pages)
    assert not any("nan" in text.lower().split() for text in pages.values())


def test_the_lines_that_are_kept_are_whole_and_of_the_present_defaults():
    for name in NAMES:
        module = module_of(name)
        kept = {task_of(line): line["parameters"] for line in read_lines(results_file(name))}
        tasks = available(module.tasks(), getattr(module, "probe", None))
        if name in ("intervals", "arena"):  # their pages count what is there
            tasks = [task for task in tasks if task in kept]
        assert set(tasks) <= set(kept), f"run `python -m experiments {name}`"
        for task in tasks:
            now = json.loads(json.dumps(module.parameters(task)))
            then = dict(kept[task])
            if "fingerprint" in now:  # rounded, and the last bit is the processor's
                assert then.pop("fingerprint") == pytest.approx(now.pop("fingerprint"), abs=2e-4)
            assert then == now, f"{task} is stale: run `python -m experiments {name}`"
