"""Columns of many levels: they help where levels matter, cost nothing where not, and do not leak.

Judged out of fold, as a fit judges itself.
"""

import numpy as np
import pandas as pd
import pytest

from auucmax import TwoModels, auuc_inference, auuc_score, fit, read_trial
from auucmax._progress import Work
from auucmax.data.pair import Pair, row_keys
from auucmax.encoding import TableEncoder, columns
from auucmax.model.folds import Recipe, cross_fit
from auucmax.model.registry import MODELS

pytestmark = [
    pytest.mark.gate,
    # On what trials of so few rows allow to say.
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
ROLES = {"treatment": "t", "outcome": "y"}


def table_of(n, n_levels, seed, *, base=0.0, effect=0.0, varies=0.05, n_columns=1):
    """Rows of a trial; levels of the columns zip0, zip1, ... move the base rate and the effect."""
    rng = np.random.default_rng(seed)
    x, treated = rng.normal(size=(n, 3)), rng.random(n) < 0.5
    frame = pd.DataFrame(x, columns=list("abc"))
    weight = 1 / np.arange(1, n_levels + 1) ** 0.5
    rate, lift = 0.35 + 0.06 * x[:, 0], 0.05 + varies * x[:, 1]
    for k in range(n_columns):
        place = rng.choice(n_levels, n, p=weight / weight.sum())
        frame[f"zip{k}"] = np.array([f"z{j:03d}" for j in range(n_levels)])[place]
        rate = rate + rng.normal(0, base, n_levels)[place]
        lift = lift + rng.normal(0, effect, n_levels)[place]
    y = rng.random(n) < np.clip(rate + lift * treated, 0.02, 0.98)
    return frame.assign(t=treated.astype(int), y=y.astype(int))


def out_of_fold(table, model, **options):
    """AUUC of rows ranked by models that were not trained on them."""
    trial = read_trial(table, **ROLES, **options)
    recipe = Recipe(model=model, key="0" * 16, seed=0, n_folds=5)
    keys = row_keys(trial, recipe.key)
    (pair,) = Pair.each(trial, keys)
    makes = {model: lambda: MODELS[model](0)}
    found = cross_fit(pair, makes, recipe, keys, with_chunks=False, work=Work("folds"))
    return auuc_inference(pair.y, found.ranks[model], treatment=pair.treated)


def differences(model, seeds, ignore=("zip0",), **world):
    """AUUC with the column minus without it, of each trial, and the mean standard error of one."""
    found, errors = [], []
    for seed in seeds:
        table = table_of(seed=seed, **world)
        given, without = out_of_fold(table, model), out_of_fold(table, model, ignore=list(ignore))
        found.append(given.estimate - without.estimate)
        errors.append(without.standard_error)
    return np.array(found), np.mean(errors)


@pytest.mark.parametrize("model", ["tm", "shrunk"])
def test_levels_that_matter_help(model):
    world = {"n": 10_000, "n_levels": 100, "base": 0.05, "effect": 0.12}
    found, _ = differences(model, range(6), **world)
    assert found.mean() > 3 * found.std(ddof=1) / np.sqrt(len(found))
    assert found.mean() > 0.002


@pytest.mark.parametrize(
    ("model", "n_trials", "base"),
    [("tm", 8, 0.0), ("tm", 8, 0.1), ("shrunk", 5, 0.0), ("shrunk", 5, 0.1), ("auto", 3, 0.0)],
)
def test_levels_that_do_not_move_the_effect_cost_next_to_nothing(model, n_trials, base):
    n = 4_000 if model == "auto" else 8_000
    world = {"n": n, "n_levels": 80, "base": base, "n_columns": 2}
    found, error = differences(model, range(n_trials), ignore=("zip0", "zip1"), **world)
    assert found.mean() > -error
    # Nor is it told from none over all trials, but for 4 standard errors.
    assert found.mean() > -4 * max(found.std(ddof=1), error / 10) / np.sqrt(n_trials)


def halved(deviation, variance, known, clearly=True):
    """In the place of ``shrunk``: numbers of levels are used though they are all chance."""
    return np.where(known, deviation / 2, 0.0)


@pytest.mark.parametrize("trusting", [False, True])
def test_without_effects_that_vary_there_is_no_wrong_certificate(monkeypatch, trusting):
    if trusting:
        monkeypatch.setattr(columns, "shrunk", halved)
    n_trials, wrong, gains = 20, 0, []
    for seed in range(n_trials):
        table = table_of(2_500, 50, seed, varies=0.0, n_columns=3)
        model = fit(read_trial(table, **ROLES), "tm", random_state=seed)
        (arm,) = model.evidence.arms
        wrong += arm.certificate.gain > 0
        gains.append(arm.gain.value)
        terms = model.scorers[0].encoder.terms_
        n_means = sum(term.kind in ("base", "effect") for term in terms)
        assert n_means == 6 if trusting else n_means <= 2
    assert wrong <= 0.05 * n_trials + 2 * np.sqrt(0.05 * 0.95 * n_trials)
    assert abs(np.mean(gains)) < 3 * np.std(gains) / np.sqrt(n_trials)


def test_numbers_that_were_learnt_from_the_judged_rows_would_be_seen(monkeypatch):
    """What the test above looks for is there, if an encoder learns from all rows."""
    monkeypatch.setattr(columns, "shrunk", halved)
    gains = []
    for seed in range(30):
        table = table_of(2_500, 50, seed, varies=0.0, n_columns=3)
        X, y, treated = table.drop(columns=["t", "y"]), table["y"].to_numpy(), table["t"].to_numpy()
        features = TableEncoder().fit(X, y, treated).transform(X)
        first = np.arange(len(y)) < len(y) // 2
        model = TwoModels().fit(features[first], y[first], treatment=treated[first])
        score, rest = model.predict(features[~first]), ~first
        effect = y[rest][treated[rest] == 1].mean() - y[rest][treated[rest] == 0].mean()
        gains.append(auuc_score(y[rest], score, treatment=treated[rest]) - effect / 2)
    assert np.mean(gains) > 6 * np.std(gains) / np.sqrt(len(gains))
