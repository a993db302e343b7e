"""People of whom a mail helps the young and a call the old, a model that knows it, campaigns."""

import numpy as np
import pandas as pd

from auucmax.campaign import assign
from auucmax.model import ArmsModel, name_columns

LABELS = ["mail", "call"]
EFFECT = 0.2


class KnowingModel(ArmsModel):
    """Uplifts as they are, without a fit."""

    def __init__(self):
        frame = pd.DataFrame(
            {"arm": ["no", "mail"], "visit": [0, 1], "age": [1.0, 2.0], "p": [1, 2]}
        )
        super().__init__({}, {}, {})
        self._columns = name_columns(
            frame, treatment="arm", outcome="visit", control="no", treated="mail", id="p",
            features=["age"],
        )  # fmt: skip

    @property
    def labels(self):
        return LABELS

    @property
    def columns(self):
        return self._columns

    def uplift(self, frame):
        return effects(frame["age"].to_numpy())


def effects(age):
    return EFFECT * np.column_stack([1 - age, age])


def make_people(n=6_000, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"p": [f"p{k}" for k in range(n)], "age": rng.random(n).round(3)})


def run(people, *, share=0.6, explore=0.3, seed=0, **named):
    """The list, and the table of ids and outcomes after the campaign."""
    listed = assign(
        people, id="p", key=f"k{seed}", model=KnowingModel(), share=share, explore=explore,
        check=False, **named,
    ).people  # fmt: skip
    gains = np.column_stack([np.zeros(len(people)), effects(people["age"].to_numpy())])
    arm = pd.Index(["no", *LABELS]).get_indexer(listed["arm"])
    rng = np.random.default_rng([seed, 1])
    rate = 0.1 + gains[np.arange(len(people)), arm]
    return listed, people[["p"]].assign(visit=(rng.random(len(people)) < rate).astype(int))


def truth(people, listed):
    """What the policy brings more than each alternative."""
    gains = np.column_stack([np.zeros(len(people)), effects(people["age"].to_numpy())])
    chosen = pd.Index(["no", *LABELS]).get_indexer(listed["chosen"])
    own = gains[np.arange(len(people)), chosen].sum()
    share = np.bincount(chosen, minlength=3) / len(people)
    singles = [own - gains[chosen > 0, k].sum() for k in (1, 2)]
    return {"nobody": own, "random": own - gains.sum(axis=0) @ share, "best single": min(singles)}
