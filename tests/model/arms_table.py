"""A raw table of a trial with several arms, and what is known of it, for tests."""

from functools import cache

import numpy as np
import pandas as pd

import auucmax

NAMES = {"treatment": "arm", "outcome": "visit", "control": "none"}
COSTS = {"mail": 1.0, "phone": 2.0}


def arms_table(n=3_000, random_state=0, effects=(0.3, 0.3)):
    """Mail helps the young, the phone helps the old; ids in no order."""
    rng = np.random.default_rng(random_state)
    arm = rng.choice(["none", "mail", "phone"], n)
    age = rng.integers(18, 80, n)
    effect = np.where(arm == "mail", effects[0] * (age < 45), effects[1] * (age >= 45))
    visit = rng.random(n) < 0.2 + np.where(arm == "none", 0, effect)
    return pd.DataFrame(
        {
            "person": [f"p{k}" for k in rng.permutation(n)],
            "arm": arm,
            "visit": visit.astype(int),
            "age": age.astype(float),
            "town": rng.choice(["Oslo", "Rome", "Bern"], n),
            "spent": rng.gamma(2, 30, n),
        }
    )


def fitted(table, **options):
    """A model of two logistic models; ``options`` of the fit."""
    return auucmax.fit(auucmax.read_trial(table, **NAMES, id="person"), "tm", **options)


@cache
def shared_arms_model():
    """A model of the table, with costs and a budget: tests share it, and leave it as it is."""
    return fitted(arms_table(), cost=COSTS, budget=0.5)


def unequal_arms(n=4_000, random_state=0):
    """Regulars visit anyway and mostly got the phone, which helps nobody; mail helps the young."""
    rng = np.random.default_rng([random_state, 7])
    table = arms_table(n, random_state).drop(columns=["arm", "visit"])
    regular, age = rng.random(n) < 0.5, table["age"].to_numpy()
    chance = np.where(regular[:, None], [0.2, 0.2, 0.6], [0.5, 0.35, 0.15])
    code = (rng.random(n)[:, None] > np.cumsum(chance, axis=1)).sum(axis=1)
    rate = 0.1 + 0.3 * regular + 0.3 * ((code == 1) & (age < 45))
    return table.assign(
        kind=np.where(regular, "regular", "other"),
        arm=np.array(["none", "mail", "phone"])[code],
        visit=(rng.random(n) < rate).astype(int),
        **{"chance mail": chance[:, 1], "chance phone": chance[:, 2]},
    )
