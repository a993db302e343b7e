"""A raw table of trial rows with all kinds of columns, for the tests of this folder."""

import warnings
from functools import cache

import numpy as np
import pandas as pd

import auucmax

NAMES = {"treatment": "arm", "outcome": "visit", "treated": "mail", "control": "none"}


def trial_table(n=6_000, random_state=0):
    """Texts, numbers, dates, booleans, missing values, three arms; an effect for the young."""
    rng = np.random.default_rng(random_state)
    arm = rng.choice(["mail", "none", "phone"], n, p=[0.45, 0.45, 0.1])
    age = rng.integers(18, 80, n).astype(float)
    town = rng.choice(["Oslo", "Rome", "Bern"], n).astype(object)
    effect = np.where(age < 45, 0.3, 0.0)
    visit = rng.random(n) < 0.2 + effect * (arm != "none")
    age[rng.random(n) < 0.1] = np.nan
    town[rng.random(n) < 0.05] = None
    return pd.DataFrame(
        {
            "person": [f"p{k}" for k in rng.permutation(n)],
            "arm": arm,
            "visit": visit.astype(int),
            "age": age,
            "town": town,
            "member": rng.random(n) < 0.5,
            "joined": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 999, n), "D"),
            "spent": rng.gamma(2, 30, n),
        }
    )


@cache
def named_model(name, rows=1_500):
    """A model of some rows, by its name: tests share it, and leave it as it is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few rows
        return auucmax.fit(auucmax.read_trial(trial_table(rows), **NAMES, id="person"), name)


def households(n_homes=1_200, random_state=0):
    """Homes of 1 to 4 people who are treated together and alike in all else; no effect at all."""
    rng = np.random.default_rng(random_state)
    home = np.repeat(np.arange(n_homes), rng.integers(1, 5, n_homes))
    mood, treated = rng.normal(size=n_homes)[home], (rng.random(n_homes) < 0.5)[home]
    X = rng.normal(size=(len(home), 3)) + rng.normal(size=(n_homes, 3))[home]
    return pd.DataFrame(
        {
            "person": np.arange(len(home)),
            "home": [f"h{k}" for k in home],
            "arm": np.where(treated, "mail", "none"),
            "visit": (rng.random(len(home)) < 1 / (1 + np.exp(-3 * mood))).astype(int),
            **{f"x{k}": column for k, column in enumerate(X.T)},
        }
    )


def two_strata(n=6_000, random_state=0, chances=(0.8, 0.2)):
    """Regulars visit anyway and were mostly mailed, others hardly; the young gain from a mail."""
    rng = np.random.default_rng([random_state, 1])
    regular, age = rng.random(n) < 0.5, rng.integers(18, 80, n)
    chance = np.where(regular, *chances)
    mail = rng.random(n) < chance
    visit = rng.random(n) < 0.1 + 0.3 * regular + 0.2 * mail * (age < 45)
    return pd.DataFrame(
        {
            "person": np.arange(n) + 10_000 * random_state,
            "kind": np.where(regular, "regular", "other"),
            "age": age,
            "income": rng.gamma(4, 500, n).round(2),
            "chance": chance,
            "mail": mail.astype(int),
            "visit": visit.astype(int),
        }
    )
