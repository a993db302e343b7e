"""Whom to treat of a table, one arm or several, and what to expect."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.model.arms_table import COSTS, arms_table
from tests.model.trial_table import trial_table

import auucmax
from auucmax._errors import InputError
from auucmax.model import Limits
from auucmax.present.brief import brief
from auucmax.results import State, Why
from auucmax.targeting.rule import at

NAMES = {"treatment": "arm", "outcome": "visit", "treated": "mail", "control": "none"}
ARMS = {"treatment": "arm", "outcome": "visit", "control": "none", "id": "person"}


@pytest.fixture(scope="module")
def model():
    return auucmax.fit(auucmax.read_trial(trial_table(4_000), **NAMES, id="person"), "tm")


@pytest.fixture(scope="module")
def tied_model():
    """Two levels of the score only."""
    trial = auucmax.read_trial(trial_table(4_000), **NAMES, id="person", features=["member"])
    return auucmax.fit(trial, "tm")


@pytest.fixture(scope="module")
def arms_model():
    return auucmax.fit(auucmax.read_trial(arms_table(), **ARMS), "tm", cost=COSTS)


@pytest.fixture(scope="module")
def new():
    return trial_table(1_000, random_state=9).drop(columns=["arm", "visit"])


@pytest.fixture(scope="module")
def new_arms():
    return arms_table(1_000, random_state=7).drop(columns=["arm", "visit"])


@pytest.mark.parametrize("share", [0.2, 0.3, 0.77])
def test_the_gain_is_that_of_the_trial_above_the_same_score(model, new, share):
    found = model.target(new, share=share, cost=0.2, value=3)
    n = found.n_treated
    assert n == round(share * len(new)) == len(found.chosen())
    trial = model.predict(trial_table(4_000).query("arm != 'phone'"))
    assert found.plan.share == pytest.approx(np.mean(trial >= found.choice.threshold), abs=0.01)
    _, gain, lower, _ = at(model.evidence.policy.curve, found.plan.share)
    assert found.plan.gain.value == pytest.approx(n * gain / found.plan.share)
    assert found.plan.gain.lower == pytest.approx(n * lower / found.plan.share)
    assert found.plan.spend == pytest.approx(0.2 * n)
    assert found.plan.profit.value == pytest.approx(3 * found.plan.gain.value - 0.2 * n)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_ties_at_the_cut(tied_model, new, share):
    found = tied_model.target(new, share=share)
    choice = found.choice
    assert choice.n_tied > choice.n_tied_taken > 0
    trial = tied_model.predict(trial_table(4_000).query("arm != 'phone'"))
    part = choice.n_tied_taken / choice.n_tied
    above = np.mean(trial > choice.threshold) + part * np.mean(trial == choice.threshold)
    assert found.plan.share == pytest.approx(above)
    n = found.n_treated
    assert found.people["arm"].tolist() == ["mail"] * n + ["none"] * (len(new) - n)


def test_everybody_has_the_average_effect(model, new):
    found = model.target(new, share=1)
    means = trial_table(4_000).groupby("arm")["visit"].mean()
    assert found.plan.gain.value == pytest.approx(len(new) * (means["mail"] - means["none"]))


@pytest.mark.parametrize(
    "how", [{"share": 0.0004}, {"budget": 0.4, "cost": 0.5}, {"cost": 100, "value": 1}]
)
def test_nobody(model, new, how):
    found = model.target(new, **how)
    assert found.n_treated == len(found.chosen()) == found.uplift == 0
    assert found.plan.gain.value == found.plan.gain.upper == 0
    assert found.plan.missing is None
    assert not found.decision.is_good


def test_a_list_is_advice_only_where_its_gain_or_profit_is_significant(model, new):
    good = model.target(new, share=0.3)
    assert good.decision.is_good
    value = 60 / good.plan.gain.upper
    doubtful = model.target(new, share=0.3, cost=0.2, value=value * 1.1)
    assert doubtful.decision.state == State.UNCLEAR
    lost = model.target(new, share=0.3, cost=0.2, value=value * 0.9)
    assert lost.decision.state == State.LOSS


def test_without_share_and_budget_the_expected_profit_is_highest(model, new):
    best = model.target(new, cost=0.15, value=1)
    profits = [
        plan.profit.value
        for share in np.linspace(0.05, 1, 20)
        if (plan := model.target(new, share=share, cost=0.15, value=1).plan).profit is not None
    ]
    assert best.plan.profit.value >= max(profits) - 1e-9


@pytest.mark.parametrize("share", [0.1, 0.3, 0.77, 1])
def test_uplifts_of_the_own_people_add_up_to_the_gain(model, tied_model, share):
    own = trial_table(4_000).query("arm != 'phone'")
    for fitted in (model, tied_model):
        found = fitted.target(own.sample(frac=1, random_state=1), share=share)
        assert found.is_own
        assert found.chosen()["uplift"].sum() == pytest.approx(found.plan.gain.value)
        assert found.uplift == pytest.approx(found.plan.gain.value)
        assert (np.diff(found.people["uplift"]) <= 1e-12).all()
    assert not model.target(own.head(500), share=0.3).is_own


def test_the_average_effect_is_not_that_of_other_people(model, new):
    older = new[~(new["age"] < 30)]
    (shift,) = model.target(older, share=0.3).shifts
    assert shift.is_large
    assert not shift.is_unlike
    assert model.target(older, share=0.3).plan.gain is not None
    assert model.target(older, share=1).plan.missing == Why.UNLIKE_TRIAL


def test_people_unlike_those_of_the_trial(model, new):
    old = new.assign(age=78.0)
    found = model.target(old, share=0.3)
    assert found.plan.missing == Why.UNLIKE_TRIAL
    assert found.plan.gain is None
    assert found.decision.state == State.UNKNOWN


def test_excluded_repeated_and_nameless_people(model, new):
    people = new.copy()
    people["person"] = people["person"].astype(object)
    people.loc[people.index[:2], "person"] = None
    again = pd.concat([people, people.iloc[10:15]])
    unwanted = [*people["person"].iloc[20:30], "nobody"]
    found = model.target(again, share=0.3, exclude=unwanted)
    assert (found.n_excluded, found.n_unknown_ids) == (10, 1)
    assert found.n_repeated == 5
    assert found.n_nameless == 2
    assert found.people["person"].notna().all()
    assert not set(found.people["person"]) & set(unwanted)
    with pytest.raises(InputError, match="the id 'person'"):
        model.target(people.assign(person=None), share=0.3)
    assert found.plan.guaranteed is None  # of all people alone
    for wrong in (["x"], people["person"].dropna()):
        with pytest.raises(InputError) as caught:
            model.target(people.dropna(subset="person"), share=0.3, exclude=wrong)
        assert caught.value.parameter == "exclude"


def test_a_warning_of_the_check_stays_with_the_list(model, new):
    assert not model.target(new, share=0.3).warnings
    arm = model.evidence.arms[0]
    failed = {"ok": False, "failures": arm.check["tests"][:1], "treated_by": ["age"]}
    doubtful = replace(arm, check=arm.check | failed)
    found = replace(model, evidence=replace(model.evidence, arms=(doubtful,)))
    assert "age" in " ".join(brief(found.target(new, share=0.3)).caveats)


def test_an_id_may_have_the_name_of_a_column_of_the_list():
    table = trial_table(2_000).rename(columns={"person": "rank"})
    model = auucmax.fit(auucmax.read_trial(table, **NAMES, id="rank"), "tm")
    people = model.target(table.head(100), share=0.3).people
    assert list(people.columns[:2]) == ["rank", "auucmax_rank"]


def test_several_arms_get_most_uplift_for_the_money(arms_model, new_arms):
    found = arms_model.target(new_arms, budget=300, cost=COSTS, value=10)
    assert found.plan.spend <= 300
    uplift = arms_model.uplift(new_arms)
    chosen = found.choice.arm
    paid = np.array([1.0, 2.0])[chosen[chosen >= 0]].sum()
    assert paid == pytest.approx(found.plan.spend)
    assert found.uplift == pytest.approx(
        uplift[np.flatnonzero(chosen >= 0), chosen[chosen >= 0]].sum()
    )
    _, gain, _, _ = at(arms_model.evidence.policy.curve, found.plan.share)
    assert found.plan.gain.value == pytest.approx(len(new_arms) * gain)
    people = found.people
    assert list(people.columns) == ["person", "rank", "arm", "uplift mail", "uplift phone", "cost"]
    assert set(people["arm"].head(found.n_treated)) <= {"mail", "phone"}


def test_several_arms_choose_the_budget_of_the_highest_profit(arms_model, new_arms):
    found = arms_model.target(new_arms, cost=COSTS, value=8)
    curve = arms_model.evidence.policy.curve
    profit = 8 * np.array(curve.gain) - np.array(curve.spend)
    assert found.plan.share == pytest.approx(curve.spend[int(profit.argmax())], abs=0.02)
    assumed = arms_model.target(new_arms, value=8)
    assert assumed.assumed_costs
    pd.testing.assert_frame_equal(assumed.people, found.people)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"share": 0.3}, Why.PEOPLE_NOT_MONEY),
        ({"budget": 300, "cost": {"mail": 1.0, "phone": 5.0}}, Why.OTHER_COSTS),
        ({"share": 0.3, "cost": {"mail": 1.0, "phone": 5.0}}, Why.OTHER_COSTS),
        ({"share": 0.3, "cost": COSTS, "limits": Limits(at_most={"mail": 50})}, Why.LIMITS),
        ({"budget": 300, "cost": COSTS, "limits": Limits(at_most={"mail": 50})}, Why.LIMITS),
        ({"budget": 300, "limits": Limits(cost_column={"mail": "m", "phone": "p"})}, Why.LIMITS),
        ({"budget": 300, "cost": COSTS, "limits": Limits(forbid={"mail": "no"})}, Why.LIMITS),
    ],
)
def test_policies_that_the_trial_has_not_judged(arms_model, new_arms, how, why):
    people = new_arms.assign(m=1.0, p=2.0, no=new_arms["age"] < 30)
    found = arms_model.target(people, **how)
    assert found.plan.missing == why
    assert found.plan.gain is None
    assert found.uplift > 0
    assert found.decision.state == State.UNKNOWN


def test_a_share_with_costs_is_the_budget_that_treats_it(arms_model, new_arms):
    found = arms_model.target(new_arms, share=0.3, cost=COSTS, value=10)
    assert found.n_treated == pytest.approx(300, abs=30)
    same = arms_model.target(new_arms, budget=found.plan.terms.budget, cost=COSTS, value=10)
    assert found.plan.profit == same.plan.profit
    assert found.plan.profit is not None
    dear = arms_model.target(new_arms, share=0.3, cost=COSTS, value=1)
    assert dear.choice.counts == found.choice.counts  # a share takes what does not pay, too
    assert dear.decision.state == State.LOSS
    people = auucmax.fit(auucmax.read_trial(arms_table(), **ARMS), "tm")
    free = people.target(new_arms, share=0.3, cost={"mail": 0.0, "phone": 0.0}, value=2)
    assert free.n_treated == 300
    assert free.plan.profit.value == pytest.approx(2 * free.plan.gain.value)


def test_several_arms_without_a_band_have_no_known_gain(new_arms):
    model = auucmax.fit(auucmax.read_trial(arms_table(), **ARMS), "tm")
    policy = model.evidence.policy
    unknown = (None,) * len(policy.curve.spend)
    curve = replace(policy.curve, band_lower=unknown, band_upper=unknown)
    evidence = replace(model.evidence, policy=replace(policy, curve=curve))
    found = replace(model, evidence=evidence).target(new_arms, share=0.3)
    assert found.decision.state == State.UNKNOWN
    assert found.plan.missing == Why.FEW_ROWS
    assert found.plan.gain is None


@pytest.mark.parametrize("share", [0.4, 0.6, 1])
def test_at_a_cut_inside_a_level_people_of_both_levels_count(tied_model, new, share):
    few = new[~new["member"] | (np.arange(len(new)) % 3 > 0)]  # fewer members than in the trial
    found = tied_model.target(few, share=share)
    assert found.plan.missing is None
    score, curve = tied_model.predict(few), tied_model.evidence.policy.curve
    (high, low), own = np.unique(score)[::-1], tied_model.scorers[0].quantiles
    part = own.reach[own.score.index(high)]
    gain = at(curve, part)[1]
    gains = {high: gain / part, low: (curve.gain[-1] - gain) / (1 - part)}
    of_list = found.chosen()["score"].map(gains).sum()
    assert found.plan.gain.value == pytest.approx(of_list)
    assert found.plan.gain.lower < of_list < found.plan.gain.upper


def test_uplifts_that_contradict_the_expected_gain_have_a_caveat(model, new):
    found = model.target(new, share=0.3)
    assert "add up" not in str(found)
    assert "add up" in str(replace(found, uplift=2 * found.plan.gain.upper))


def test_limits_are_kept(arms_model, new_arms):
    people = new_arms.assign(no=new_arms["age"] < 30)
    limits = Limits(at_most={"phone": 40}, at_least={"mail": 10}, forbid={"mail": "no"})
    found = arms_model.target(people, budget=300, cost=COSTS, limits=limits)
    assert found.choice.counts[1] <= 40
    assert found.choice.counts[0] >= 10
    given = found.people.set_index("person")["arm"]
    assert not (given[people.loc[people["no"], "person"]] == "mail").any()
    with pytest.raises(InputError) as caught:
        arms_model.target(people, budget=300, cost=COSTS, limits=Limits(at_most={"fax": 1}))
    assert caught.value.parameter == "at_most"
