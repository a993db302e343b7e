"""People whose effects are known, from plan to verified campaign, and into the next trial.

python examples/the_loop.py            prints each step
python examples/the_loop.py loop.png   and draws it
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from auucmax import fit, read_trial
from auucmax.campaign import assign, monitor_trial, plan_trial, verify

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
    """The true effect of the mail: none on the young, .2 on the old."""
    return np.asarray(0.2 / (1 + np.exp(-(people["age"] - 45) / 6)))


def visits(people: pd.DataFrame, mailed: pd.Series, seed: int) -> np.ndarray:
    chance = BASE + effect_of(people) * mailed.to_numpy()
    return (np.random.default_rng(seed).random(len(people)) < chance).astype(int)


def main() -> dict[str, Any]:
    # 1. How large? The ranking to beat chance with is an old rule of thumb: by age.
    plan = plan_trial(base_rate=BASE, effect=0.1, effect_sd=0.07, explained=0.7)
    n_rows = 10_000  # a model needs more to be trained on
    print(f"1. plan: {plan.rows():,} rows show with 80% power that age ranks; we take {n_rows:,}")

    # 2. Who gets the mail: by a hash of the id and a key.
    people = make_people(n_rows, "a", 0)
    drawn = assign(people, id="person", arms="none=.5,mail=.5", key="spring")
    trial = people.merge(drawn.people[["person", "arm"]])
    trial["visit"] = visits(trial, trial["arm"] == "mail", 1)
    print(f"2. assign: {dict(zip(drawn.arms, drawn.counts, strict=True))}")

    # 3. May we look before the end? Every week, as often as we like.
    looks = _look_every_week(trial)
    first = next((day for day, gain, _ in looks if gain.lower > 0), None)
    print(f"3. monitor: {len(looks)} looks; ranking by age is shown to help from day {first} on")

    # 4. A model of all rows; judged on rows that it was not trained on.
    named = {"treatment": "arm", "outcome": "visit", "treated": "mail", "control": "none"}
    named |= {"id": "person", "features": ["age", "town"]}
    model = fit(read_trial(trial, **named), "tm")
    gain = model.evidence.arms[0].certificate.gain
    print(f"4. fit: guaranteed gain at least {gain:+.4f} AUUC over random targeting")

    # 5. and 6. The next people: the forecast of the top 30%; who gets the mail, with exploration.
    people = make_people(20_000, "b", 2)
    forecast = model.target(people, share=SHARE).plan
    extra = forecast.gain
    print(
        f"5. target: {forecast.counts[0]:,} of {len(people):,} people, forecast to bring "
        f"{extra.value:,.0f} more visits ({extra.lower:,.0f} to {extra.upper:,.0f})"
    )
    listed = assign(people, id="person", model=model, share=SHARE, explore=0.1, key="summer")
    campaign = people.merge(listed.people[["person", "arm", "propensity", "chosen"]])
    campaign["visit"] = visits(campaign, campaign["arm"] == "mail", 3)
    print(
        f"6. assign: propensities {sorted(campaign['propensity'].unique().tolist())} are recorded"
    )

    # 7. A quarter later: was it worth it, as it was run, and was the forecast right?
    found = verify(campaign, chosen="chosen", propensity="propensity", model=model)
    truth = float(effect_of(people)[campaign["chosen"].to_numpy()].sum())
    as_run = found.against("as run").gain
    true_gain = float(effect_of(people)[(campaign["arm"] == "mail").to_numpy()].sum())
    print(
        f"7. verify: the campaign brought {as_run.value:,.0f} more visits ({as_run.lower:,.0f} to "
        f"{as_run.upper:,.0f}), in truth {true_gain:,.0f}; forecast: {found.forecast.verdict.value}"
    )

    # 8. The campaign is the next trial: its propensities are known.
    again = fit(read_trial(campaign, **named, propensity="propensity", ignore=["chosen"]), "tm")
    gain = again.evidence.arms[0].certificate.gain
    print(f"8. fit again, on the campaign: guaranteed gain at least {gain:+.4f} AUUC")
    return {"plan": plan, "looks": looks, "forecast": forecast, "found": found, "truth": truth,
            "model": model, "again": again, "people": people}  # fmt: skip


def _look_every_week(trial: pd.DataFrame) -> list[tuple[int, Any, int]]:
    """Day, gain with its bounds, and rows so far, of each look."""
    named = {"treatment": "arm", "treated": "mail", "control": "none", "outcome": "visit",
             "id": "person", "date": "joined", "score": "age"}  # fmt: skip
    looks = []
    with tempfile.TemporaryDirectory() as folder:
        for day in range(7, DAYS + 8, 7):
            now = pd.Timestamp("2026-03-01") + pd.to_timedelta(day, "D")
            rows = trial[trial["joined"] < now]
            state = Path(folder) / "spring.state"
            look = monitor_trial(rows, state, as_of=str(now.date()), **named)
            if look.arms[0].gain is not None:
                looks.append((day, look.arms[0].gain, look.n_rows))
    return looks


def draw(story: dict[str, Any]) -> Any:
    """Looks at the running trial; the forecast and the gain of the campaign."""
    from matplotlib.figure import Figure

    figure = Figure((9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    days = [day for day, _, _ in story["looks"]]
    bounds = [gain for _, gain, _ in story["looks"]]
    left.fill_between(days, [b.lower for b in bounds], [b.upper for b in bounds], alpha=0.25)
    left.plot(days, [b.value for b in bounds], "o-")
    left.axhline(0, color="0.4", linewidth=1)
    left.set(xlabel="day of the trial", ylabel="gain of the ranking (AUUC)",
             title="Looks: bounds that hold at all of them")  # fmt: skip
    for place, own in enumerate((story["forecast"].gain, story["found"].against("nobody").gain)):
        right.plot([own.lower, own.upper], [place, place], linewidth=3)
        right.plot(own.value, place, "o", color="black")
    right.axvline(story["truth"], color="0.4", linestyle="--")
    right.text(story["truth"], 1.35, " truth", color="0.3")
    right.set(yticks=(0, 1), yticklabels=("forecast", "campaign"), ylim=(-0.6, 1.6),
              xlabel="more visits", title="The list of 30%")  # fmt: skip
    return figure


if __name__ == "__main__":
    story = main()
    if len(sys.argv) > 1:
        draw(story).savefig(sys.argv[1], dpi=130, metadata={"Software": None})
