"""A trial that runs for some days, as its table looks."""

import numpy as np
import pandas as pd

LOOK = "-t mail -y visit --id person --date sent --score-column score --window 5d"


def running(n_rows=4_000, *, per_day=100, effect=0.3, seed=0):
    """Rows of one day after the other from 2026-01-01 on; the score knows whom treatment helps."""
    rng = np.random.default_rng(seed)
    score, treated = rng.random(n_rows), rng.random(n_rows) < 0.5
    days = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(n_rows) // per_day, "D")
    return pd.DataFrame(
        {
            "person": np.arange(n_rows) + 1000,
            "sent": days,
            "mail": treated.astype(int),
            "visit": (rng.random(n_rows) < 0.2 + effect * treated * score).astype(int),
            "score": score,
        }
    )
