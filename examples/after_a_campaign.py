"""A population whose effects are known: fit, target, a campaign with exploration, verify.

    python examples/after_a_campaign.py

Three campaigns: one of the same people, one in which the offer has lost most of its effect, and one
that treated the whole list and nobody else.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from auucmax import UpliftModel, fit, read_trial
from auucmax.campaign import Verification, verify

BASE, EFFECT, SHARE, EXPLORE = 0.15, 0.2, 0.3, 0.1


def make_people(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """People, and the part of the effect that each of them has: more with age."""
    rng = np.random.default_rng(seed)
    town = rng.choice(["Bern", "Oslo", "Rome"], n)
    people = pd.DataFrame({"person": [f"{seed}-{k}" for k in range(n)], "town": town})
    people["age"] = rng.normal(45, 12, n).round(1)
    return people, 1 / (1 + np.exp(-(people["age"].to_numpy() - 45) / 6))


def answer(people: pd.DataFrame, effect: np.ndarray, mail: np.ndarray, seed: int) -> pd.DataFrame:
    """The rows with mails and visits."""
    rng = np.random.default_rng(seed)
    visit = rng.random(len(people)) < BASE + effect * mail
    return people.assign(mail=mail.astype(int), visit=visit.astype(int))


def run_campaign(
    model: UpliftModel, seed: int, effect: float = EFFECT, explore: float = EXPLORE
) -> tuple[pd.DataFrame, pd.DataFrame, float]:
    """Rows of a campaign, the list behind it, and the true gain of the list in visits."""
    people, part = make_people(20_000, seed)
    listed = model.target(people, share=SHARE)
    chosen = people["person"].isin(listed.chosen()["person"]).to_numpy()
    chance = np.where(chosen, 1 - explore, explore)
    mail = np.random.default_rng(seed + 1).random(len(people)) < chance
    table = answer(people, effect * part, mail, seed + 2).assign(chance=chance)
    return table, listed.chosen(), float(effect * part[chosen].sum())


def main() -> dict[str, tuple[Verification, float]]:
    people, part = make_people(20_000, 0)
    coin = np.random.default_rng(1).random(len(people)) < 0.5
    trial = answer(people, EFFECT * part, coin, 2)
    model = fit(read_trial(trial, treatment="mail", outcome="visit", id="person"), "tm")

    found = {}
    for name, effect, seed in (("as in the trial", EFFECT, 10), ("worn out", EFFECT / 4, 20)):
        table, listed, truth = run_campaign(model, seed, effect)
        found[name] = verify(table, people=listed, propensity="chance", model=model), truth
        print(f"--- {name}: the list is worth {truth:.0f} visits\n{found[name][0]}\n")

    table, listed, truth = run_campaign(model, 30, explore=0.0)
    try:
        verify(table, people=listed, propensity="chance", model=model)
    except ValueError as error:
        print(f"--- without exploration: the list is worth {truth:.0f} visits\n{error}")
    return found


if __name__ == "__main__":
    main()
