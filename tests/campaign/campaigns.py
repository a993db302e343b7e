"""A simulated population with a known effect, a model of its trial, and campaigns by that model."""

import numpy as np
import pandas as pd

from auucmax.model import fit_trial_model, target

BASE, EFFECT = 0.15, 0.2


def make_people(n, random_state, *, shift=0.0):
    """People, and the part of the effect that each has: it rises with age, from 0 to 1."""
    rng = np.random.default_rng(random_state)
    age, town = rng.normal(shift, 1, n), rng.choice(["Oslo", "Rome", "Bern"], n)
    person = [f"p{random_state}-{k}" for k in range(n)]
    people = pd.DataFrame({"person": person, "age": age, "town": town})
    return people, 1 / (1 + np.exp(-2 * age)), rng


def treat(people, rate, treated, rng):
    """The rows after a campaign."""
    visit = rng.random(len(people)) < rate
    return people.assign(mail=treated.astype(int), visit=visit.astype(int))


def make_model(n=8_000, random_state=0, **options):
    people, part, rng = make_people(n, random_state)
    treated = rng.random(n) < 0.5
    table = treat(people, BASE + EFFECT * part * treated, treated, rng)
    named = {"treatment": "mail", "outcome": "visit", "id": "person", "model": "tm"} | options
    return fit_trial_model(table, **named)


def run_campaign(
    model, n=6_000, random_state=1, *, explore=(0.1, 0.1), effect=EFFECT, base=BASE, shift=0.0
):
    """Rows of a campaign with exploration, the list behind it, and the true gains by name.

    ``explore``: the part of the chosen that is left out, and of the rest that is treated.
    """
    people, part, rng = make_people(n, random_state, shift=shift)
    found = target(model, people, share=0.3)
    ours = found.people.set_index("person").loc[people["person"]]
    chosen = (ours["arm"] == model.columns.treated).to_numpy()
    chance = np.where(chosen, 1 - explore[0], explore[1])
    treated = rng.random(n) < chance
    table = treat(people, base + effect * part * treated, treated, rng)
    table = table.assign(top=chosen.astype(int), chance=chance)
    top, rest = effect * part[chosen].mean(), effect * part[~chosen].mean()
    truth = {
        "nobody": chosen.sum() * top,
        "random": chosen.sum() * (1 - chosen.mean()) * (top - rest),
        "everybody": -(~chosen).sum() * rest,
    }
    return table, found, truth
