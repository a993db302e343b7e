"""A raw table of a trial with several arms, and what is known of it, for tests."""

import numpy as np
import pandas as pd

from auucmax.trial_model import fit_arms_model

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
    given = NAMES | {"id": "person", "model": "tm", **options}
    return fit_arms_model(table, **given)
