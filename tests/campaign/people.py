"""A simulated population with known effects of up to three arms, its trials and campaigns."""

import numpy as np
import pandas as pd

from auucmax import fit, read_trial
from auucmax.campaign import assign

ARMS = ("no", "call", "mail")
LABELS = (*ARMS, "letter")
EFFECT = 0.25


def make_people(n, seed=0, start=0):
    """People: calls help the old, mails the young, letters those in Oslo."""
    rng = np.random.default_rng([seed, 1])
    person = [f"p{k}" for k in range(start, start + n)]
    return pd.DataFrame(
        {"person": person, "age": rng.random(n).round(3), "town": rng.choice(["Oslo", "Bern"], n)}
    )


def effects(people):
    """(n, 4) the effect of no treatment, of a call, a mail and a letter."""
    age, in_oslo = people["age"].to_numpy(), (people["town"] == "Oslo").to_numpy()
    return EFFECT * np.column_stack([np.zeros(len(age)), age, 1 - age, in_oslo])


def outcomes(people, arm, seed=0, base=0.1, factor=1.0):
    """Whether people visit, given the labels of their arms."""
    rng = np.random.default_rng([seed, 2])
    place = pd.Index(LABELS).get_indexer(pd.Index(arm))
    rate = base + factor * effects(people)[np.arange(len(people)), place]
    return (rng.random(len(people)) < rate).astype(int)


def make_trial(n_arms, n=4_000, seed=0):
    people = make_people(n, seed)
    arm = np.array(LABELS)[np.random.default_rng([seed, 3]).integers(0, n_arms + 1, n)]
    return people.assign(arm=arm, visit=outcomes(people, arm, seed))


def make_model(n_arms, n=4_000, seed=0):
    table = make_trial(n_arms, n, seed)
    trial = read_trial(table, treatment="arm", outcome="visit", control="no", id="person")
    return fit(trial, "tm")


def run_campaign(model, n=6_000, seed=1, *, share=0.4, explore=0.3, factor=1.0, **options):
    """The table of ids and outcomes of a campaign, its list, and the true gains."""
    people = make_people(n, seed, start=100_000)
    listed = assign(
        people, id="person", key=f"campaign {seed}", model=model, share=share, explore=explore,
        **options,
    ).people  # fmt: skip
    table = people.assign(visit=outcomes(people, listed["arm"], seed, factor=factor))
    gains = factor * effects(people)
    chosen = listed["chosen"]
    if len(model.arms) == 1:
        chosen = chosen.map({True: model.arms[0], False: "no"})
    place = pd.Index(LABELS).get_indexer(pd.Index(chosen))
    own = gains[np.arange(n), place].sum()
    given = pd.Index(LABELS).get_indexer(pd.Index(listed["arm"]))
    truth = {
        ("as run", None): gains[np.arange(n), given].sum(),
        ("nobody", None): own,
        ("random", None): own - gains.sum(axis=0) @ np.bincount(place, minlength=4) / n,
    }
    return (
        table,
        listed,
        truth
        | {("everyone", label): own - gains[:, LABELS.index(label)].sum() for label in model.arms},
    )
