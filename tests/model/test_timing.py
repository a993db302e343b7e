"""Within some minutes: what is left out, in which order, and that it is said."""

import json
import os
import re
import resource
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.commands import run
from tests.model.trial_table import trial_table

from auucmax import make_trial
from auucmax.estimators import UpliftEnsemble
from auucmax.model import fit_trial_model, load_model, save_model, timing, with_rivals
from auucmax.model.by_name import MODELS, make_model
from auucmax.model.columns import name_columns
from auucmax.model.crossfit import Recipe, TableRows
from auucmax.model.timing import LEAST_ROWS, Pace, keep_within

NAMES = {"treatment": "arm", "outcome": "visit", "treated": "mail", "control": "none"}
RIVALS = ("response", "tm", "auucmax")
KEY = "0123456789abcdef"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Rows:
    """As many rows as are told: nothing but their number counts."""

    def __init__(self, n):
        self.y = np.zeros(n)


def kept(pace, n, seconds, monkeypatch, recipe=None):
    recipe = Recipe("auto", KEY, 0, 0.0, 5) if recipe is None else recipe
    monkeypatch.setattr(timing, "pace_of", lambda *_: pace)
    monkeypatch.setattr(timing.time, "perf_counter", lambda: 0.0)
    return keep_within(Rows(n), recipe, RIVALS, seconds, make_model)


def test_what_gives_way_first(monkeypatch):
    pace = Pace(1e-6, 1e-5, 1e-4, dict.fromkeys(RIVALS, 1e-5))
    n = 100_000
    every = kept(pace, n, 1e3, monkeypatch)
    assert (every.recipe.max_rows, every.recipe.learn_rows, every.rivals) == (0, 0, RIVALS)
    assert every.told is None
    fewer = kept(pace, n, 60, monkeypatch)
    assert LEAST_ROWS < fewer.recipe.max_rows < n
    assert (fewer.recipe.learn_rows, fewer.rivals) == (0, RIVALS)
    assert fewer.told == f"To be in time, trees learnt from {fewer.recipe.max_rows:,} rows at most."
    alone = kept(pace, n, 25, monkeypatch)
    assert (alone.recipe.learn_rows, alone.rivals) == (0, ())
    assert alone.told.endswith("; rivals (response, tm, auucmax) were left out.")
    few = kept(pace, n, 15, monkeypatch)
    assert LEAST_ROWS < few.recipe.learn_rows < n
    assert few.recipe.max_rows == LEAST_ROWS
    least = kept(pace, n, 1, monkeypatch)
    assert least.recipe.learn_rows == LEAST_ROWS
    assert "there is no quicker way" in least.told


def test_a_model_without_trees_loses_its_rivals_and_then_rows(monkeypatch):
    pace = Pace(1e-6, 1e-4, 0.0, dict.fromkeys(RIVALS, 1e-5))
    alone = kept(pace, 100_000, 85, monkeypatch)
    assert (alone.recipe.max_rows, alone.recipe.learn_rows, alone.rivals) == (0, 0, ())
    assert alone.told == "To be in time, rivals (response, tm, auucmax) were left out."
    few = kept(pace, 100_000, 30, monkeypatch)
    assert (few.recipe.max_rows, few.rivals) == (0, ())
    assert LEAST_ROWS < few.recipe.learn_rows < 100_000


@given(
    paces=st.lists(st.floats(1e-7, 1e-3), min_size=6, max_size=6),
    n=st.integers(1_000, 5_000_000),
    seconds=st.floats(1, 1e4),
    hold_out=st.sampled_from([0.0, 0.3]),
)
def test_what_is_done_fits_into_the_time_or_it_is_said(paces, n, seconds, hold_out):
    encoding, model, trees, *others = paces
    pace = Pace(encoding, model, trees, dict(zip(RIVALS, others, strict=True)))
    recipe = Recipe("auto", KEY, 0, hold_out, 1 if hold_out else 5)
    with pytest.MonkeyPatch.context() as patch:
        found = kept(pace, n, seconds, patch, recipe)
    takes = pace.seconds(n, found.recipe, found.rivals)
    assert takes <= seconds or "no quicker way" in found.told
    assert (found.told is None) == (found.recipe == recipe and found.rivals == RIVALS)


def test_fits_of_a_recipe():
    assert sum(Recipe("tm", "k", 0, 0.0, 5).fits) == pytest.approx(4 + (0.2 + 0.4 + 0.6) + 1)
    assert sum(Recipe("tm", "k", 0, 0.0, 2).fits) == pytest.approx(1 + 1)
    assert sum(Recipe("tm", "k", 0, 0.0, 10).fits) == pytest.approx(9 + (0.2 + 0.4 + 0.6 + 0.8) + 1)
    assert Recipe("tm", "k", 0, 0.25, 1).fits == [0.75]


@pytest.mark.gate
def test_the_pace_of_small_fits(monkeypatch):
    # Computing alone: other work must not make one of the small fits look slow.
    monkeypatch.setattr(timing.time, "perf_counter", time.process_time)
    table = trial_table(3_000, random_state=0)
    rows = TableRows(table, name_columns(table, **NAMES, ignore=["person"]), KEY)
    models = {"auto": UpliftEnsemble(random_state=0), "tm": MODELS["tm"](0)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of small fits nothing is told
        pace = timing.pace_of(rows, models, KEY)
    assert pace.trees > pace.model > 0
    assert 0 < pace.rivals["tm"] < pace.trees
    assert timing.pace_of(rows, {"tm": models["tm"]}, KEY).trees == 0


@pytest.fixture(scope="module")
def short():
    """A model that learnt from few rows, and its table."""
    table = trial_table(6_000, random_state=0)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few rows
        patch.setattr(timing, "LEAST_ROWS", 1_000)
        model = fit_trial_model(table, **NAMES, id="person", model="cvt", minutes=1e-3)
    return model, table


@pytest.mark.gate
def test_all_models_learn_from_so_many_rows_and_all_rows_are_judged(short):
    model, table = short
    assert model.recipe.learn_rows == 1_000
    assert model.summary["table"]["learnt"] == 1_000
    assert model.evidence["rows"]["n_rows"] == (table["arm"] != "phone").sum()
    assert "learnt from about 1,000 rows, drawn at random" in model.evidence["notes"][0]
    assert model.evidence["rivals"] == []
    assert (
        "models learnt from 1,000 rows at most; rivals (tm) were left out"
        in (model.summary["within"])
    )


@pytest.mark.gate
def test_a_fit_within_minutes_is_saved_and_its_rivals_learn_from_as_many(short, tmp_path):
    model, table = short
    save_model(model, tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert again.recipe == model.recipe
    assert again.summary["within"] == model.summary["within"]
    rows, seen = model.own_rows(table), []
    fitted = rows.fit({}, lambda keys: seen.append(len(keys)) or keys % np.uint64(2) == 0, 500)
    assert fitted.estimators == {}
    chosen = rows._at_most(lambda keys: keys % np.uint64(2) == 0, 500)(rows.keys)
    assert 400 < chosen.sum() < 600
    assert [rival["name"] for rival in with_rivals(again, table, ["tm"])["rivals"]] == ["tm"]


def test_minutes_are_positive():
    with pytest.raises(ValueError, match="minutes should be"):
        fit_trial_model(trial_table(600), **NAMES, minutes=-1)


def computing_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.gate
def test_a_command_takes_no_longer_than_it_may(tmp_path):
    trial = make_trial(30_000, n_features=20, nonlinearity=1.0, heterogeneity=1.0, random_state=0)
    trial.X.assign(mail=trial.treatment, visit=trial.y).to_parquet(tmp_path / "hard.parquet")
    command = [sys.executable, "-m", "auucmax", "fit", str(tmp_path / "hard.parquet")]
    command += ["-t", "mail", "-y", "visit", "-o", str(tmp_path / "m"), "--json"]
    for more in (["--minutes", "0.35"], ["--minutes", "0.2", "-m", "pcg"]):
        begin = computing_of_children()
        environment = os.environ | ONE_THREAD
        done = subprocess.run(
            [*command, *more], env=environment, capture_output=True, text=True, check=True
        )
        # Of one thread, computing is the time on an idle machine. Others may take the processors
        # meanwhile: then it does less.
        spent = computing_of_children() - begin
        within = json.loads(done.stdout)["within"]
        # What a start takes is no part of it; unless it was said that it cannot be done.
        assert spent < 60 * float(more[1]) + 15 or "no quicker way" in within


@pytest.mark.gate
def test_trees_of_many_rows_learn_from_a_part_and_it_is_printed(tmp_path, monkeypatch):
    monkeypatch.setitem(
        MODELS, "auto", lambda seed: UpliftEnsemble(max_rows=500, random_state=seed)
    )
    trial_table(3_000, random_state=0).to_csv(tmp_path / "trial.csv", index=False)
    line = "-t arm -y visit --treated mail --control none --id person --hold-out .3"
    shown = run(f"fit {tmp_path}/trial.csv {line} -o {tmp_path}/m")
    assert shown.exit_code == 0, shown.stderr
    told = " ".join(shown.stdout.split())
    assert re.search(r"Trees learnt from 500 of 1,\d+ rows, drawn at random\.", told)
