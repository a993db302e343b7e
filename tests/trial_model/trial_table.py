"""A raw table of trial rows with all kinds of columns, for the tests of this folder."""

import numpy as np
import pandas as pd

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
