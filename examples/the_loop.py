"""People whose effects are known, from plan to verified campaign, and into the next trial.

python examples/the_loop.py            tells it
python examples/the_loop.py loop.png   and draws it
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from auucmax.campaign import assign, monitor_trial, plan_trial, verify
from auucmax.model import fit_trial_model, target

BASE, SHARE = 0.15, 0.3
DAYS = 30


def make_people(n: int, wave: str, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    day = pd.to_timedelta(np.sort(rng.integers(0, DAYS, n)), "D")
    return pd.DataFrame(
        {
            "person": [f"{wave}{k}" for k in range(n)],
            "age": rng.normal(45, 12, n).round(1),
            "town": rng.choice(["Bern", "Oslo", "Rome"], n),
            "joined": pd.Timestamp("2026-03-01") + day,
        }
    )


def effect_of(people: pd.DataFrame) -> np.ndarray:
    """What the mail truly does: nothing to the young, .2 to the old."""
    return np.asarray(0.2 / (1 + np.exp(-(people["age"] - 45) / 6)))


def visits(people: pd.DataFrame, mailed: pd.Series, seed: int) -> np.ndarray:
    chance = BASE + effect_of(people) * mailed.to_numpy()
    return (np.random.default_rng(seed).random(len(people)) < chance).astype(int)


def main() -> dict[str, Any]:
    # 1. How large? The ranking to beat chance with is an old rule of thumb: by age.
    plan = plan_trial(base_rate=BASE, effect=0.1, effect_sd=0.07, explained=0.7)
    needed, n_rows = plan.table()[0]["rows"], 10_000  # a model that learns from it wants more
    print(f"1. plan: {needed:,} rows show four times in five that age ranks; we take {n_rows:,}")

    # 2. Who gets the mail: by a hash of the id and a key.
    people = make_people(n_rows, "a", 0)
    drawn = assign(people, id="person", arms="none=.5,mail=.5", key="spring")
    trial = people.merge(drawn.people[["person", "arm"]])
    trial["visit"] = visits(trial, trial["arm"] == "mail", 1)
    print(f"2. assign: {drawn.counts}")
    print(f"   {drawn.balance['everybody'].verdict}")

    # 3. May we look before the end? Every week, as often as we like.
    looks = _look_every_week(trial)
    first = next((day for day, gain, _ in looks if gain["lower"] > 0), None)
    print(
        f"3. monitor: {len(looks)} looks; the ranking by age is shown to help from day {first} on"
    )

    # 4. Learn whom to mail, from all rows; judged by rows that a model has not seen.
    named = {"treatment": "arm", "outcome": "visit", "treated": "mail", "control": "none"}
    features = {"id": "person", "features": ["age", "town"], "model": "tm"}
    model = fit_trial_model(trial, **named, **features)
    gain = model.evidence["certificate"]["gain_lower_bound"]
    print(f"4. fit: certified to gain at least {gain:+.4f} AUUC over a random order")

    # 5. and 6. The next people: the forecast of the top 30%; who gets the mail, with exploration.
    people = make_people(20_000, "b", 2)
    promise = target(model, people, share=SHARE).expected
    print(
        f"5. target: {promise.n_treated:,} of {len(people):,} people, forecast to bring "
        f"{promise.gain:,.0f} visits more ({promise.gain_lower:,.0f} to {promise.gain_upper:,.0f})"
    )
    listed = assign(people, id="person", model=model, share=SHARE, explore=0.1, key="summer")
    campaign = people.merge(listed.people[["person", "arm", "propensity", "chosen"]])
    campaign["visit"] = visits(campaign, campaign["arm"] == "mail", 3)
    print(f"6. assign: chances {sorted(campaign['propensity'].unique().tolist())} are recorded")

    # 7. A quarter later: was it worth it, as it was run, and was the forecast right?
    found = verify(campaign, chosen="chosen", propensity="propensity", model=model)
    truth = float(effect_of(people)[campaign["chosen"].to_numpy()].sum())
    as_run = float(effect_of(people)[(campaign["arm"] == "mail").to_numpy()].sum())
    print(f"7. verify: {found.headline}")
    print(f"   in truth {as_run:,.0f}; the model: {found.advice.action}")

    # 8. The campaign is the next trial: its chances are known.
    again = fit_trial_model(
        campaign, **named, **features, propensity="propensity", ignore=["chosen"]
    )
    gain = again.evidence["certificate"]["gain_lower_bound"]
    print(f"8. fit again, on the campaign: certified to gain at least {gain:+.4f} AUUC")
    return {"plan": plan, "looks": looks, "promise": promise, "found": found, "truth": truth,
            "model": model, "again": again, "people": people}  # fmt: skip


def _look_every_week(trial: pd.DataFrame) -> list[tuple[int, Any, int]]:
    """Day, gain with its bounds, and rows so far, of each look."""
    told = {"treatment": "arm", "treated": "mail", "control": "none", "outcome": "visit",
            "id": "person", "date": "joined", "score_column": "age"}  # fmt: skip
    looks = []
    with tempfile.TemporaryDirectory() as folder:
        for day in range(7, DAYS + 8, 7):
            now = pd.Timestamp("2026-03-01") + pd.to_timedelta(day, "D")
            rows = trial[trial["joined"] < now]
            look = monitor_trial(rows, Path(folder) / "spring.state", as_of=str(now.date()), **told)
            if look.bounds is not None:
                looks.append((day, look.bounds["gain"], look.n_rows))
    return looks


def draw(story: dict[str, Any]) -> Any:
    """Looks at the running trial, and what was promised and came."""
    from matplotlib.figure import Figure

    figure = Figure((9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    days = [day for day, _, _ in story["looks"]]
    bounds = [gain for _, gain, _ in story["looks"]]
    left.fill_between(days, [b["lower"] for b in bounds], [b["upper"] for b in bounds], alpha=0.25)
    left.plot(days, [b["estimate"] for b in bounds], "o-")
    left.axhline(0, color="0.4", linewidth=1)
    left.set(xlabel="day of the trial", ylabel="gain of the ranking (AUUC)",
             title="Looks: bounds that hold at all of them")  # fmt: skip
    promise, came = story["promise"], story["found"].comparisons["nobody"]
    rows = (("promised", promise.gain, promise.gain_lower, promise.gain_upper),
            ("came", came.estimate, came.lower, came.upper))  # fmt: skip
    for place, (_, value, low, high) in enumerate(rows):
        right.plot([low, high], [place, place], linewidth=3)
        right.plot(value, place, "o", color="black")
    right.axvline(story["truth"], color="0.4", linestyle="--")
    right.text(story["truth"], 1.35, " truth", color="0.3")
    right.set(yticks=(0, 1), yticklabels=("promised", "came"), ylim=(-0.6, 1.6),
              xlabel="visits more", title="The list of 30%")  # fmt: skip
    return figure


if __name__ == "__main__":
    story = main()
    if len(sys.argv) > 1:
        draw(story).savefig(sys.argv[1], dpi=130, metadata={"Software": None})
