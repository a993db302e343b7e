"""Plan, assign, monitor, fit, target, verify: with one arm besides the control, two and three."""

import numpy as np
import pandas as pd
import pytest
from tests.campaign.people import LABELS, effects, make_people, outcomes

import auucmax
from auucmax.campaign import assign, monitor_trial, plan_trial, verify


@pytest.mark.parametrize("n_arms", [1, 2, 3])
def test_the_loop(n_arms, tmp_path):
    plan = plan_trial(base_rate=0.1, effect=0.12, gain=0.02, n_arms=n_arms)
    n = max(plan.rows("effect"), plan.rows("gain"), 2_500)
    assert n < 6_000

    # Assign in two waves.
    share = 1 / (n_arms + 1)
    arms = dict.fromkeys(LABELS[: n_arms + 1], share)
    people = make_people(n)
    how = {"id": "person", "key": "spring", "arms": arms}
    first = assign(people[: n // 2], **how)
    then = assign(people, before=first.people, **how)
    assert then.n_before == n // 2
    table = people.assign(arm=pd.concat([first.people, then.people])["arm"].to_numpy())

    # Monitor it, with three looks.
    table["visit"] = outcomes(people, table["arm"])
    table["sent"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(n) // 100, "D")
    looks = []
    for day in ("2026-01-12", "2026-01-24", "2026-04-01"):
        so_far = table[table["sent"] < day]
        looks.append(
            monitor_trial(
                so_far, tmp_path / "state.json", as_of=day, date="sent", window="3d",
                treatment="arm", outcome="visit", id="person", control="no",
                treated_share=n_arms * share,
            )
        )  # fmt: skip
    assert [look.n_rows < n for look in looks] == [True, True, False]
    assert looks[-1].verdict == "effect shown"
    assert looks[-1].needs_check
    for arm in looks[-1].arms:
        truth = effects(people)[:, LABELS.index(arm.arm)].mean()
        assert arm.effect.lower < truth < arm.effect.upper

    # Fit, and treat the next people with exploration.
    columns = {"treatment": "arm", "outcome": "visit", "control": "no", "id": "person"}
    model = auucmax.fit(auucmax.read_trial(table, **columns, ignore=["sent"]), "tm")
    assert auucmax.check_randomisation(model.read(table)).ok
    new = make_people(4_000, seed=5, start=n)
    assert len(model.target(new, share=0.4).people) == len(new)
    campaign = assign(new, id="person", key="summer", model=model, share=0.4, explore=0.3)
    assert campaign.decision.is_good
    assert sum(campaign.chosen[1:]) == pytest.approx(0.4 * len(new), abs=1)

    # Verify.
    rows = new[["person"]].assign(visit=outcomes(new, campaign.people["arm"], seed=5))
    found = verify(rows, people=campaign.people, model=model, cost=0.01, value=1.0)
    assert found.state in ("guaranteed", "significant")
    assert found.forecast.verdict == "confirmed"
    gain = found.against("as run")
    given = pd.Index(LABELS).get_indexer(campaign.people["arm"])
    truth = effects(new)[np.arange(len(new)), given].sum()
    assert gain.certified_lower < gain.gain.lower < truth < gain.gain.upper < gain.certified_upper
    assert gain.profit.value == pytest.approx(gain.gain.value - 0.01 * (given > 0).sum())
