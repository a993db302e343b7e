from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.campaign.arm_campaigns import LABELS, KnowingModel, effects, make_people, run, truth

from auucmax.campaign import ForecastVerdict, verify_arms
from auucmax.campaign.campaign import CheckedTest
from auucmax.data.randomisation_report import FailedCheckError

KNOWN = {"id": "p", "outcome": "visit", "control": "no"}


@pytest.fixture(scope="module")
def campaign():
    people = make_people()
    return people, *run(people)


def test_gains_against_nobody_random_and_the_best_single_arm(campaign):
    people, listed, outcomes = campaign
    found = verify_arms(outcomes, people=listed, **KNOWN)
    for name, value in truth(people, listed).items():
        one = found.comparisons[name]
        assert abs(one.estimate - value) < 4 * one.standard_error
        assert one.certified_lower < one.lower < value < one.upper < one.certified_upper
    assert found.comparisons["nobody"].certified_lower > 0
    assert found.comparisons["best single"].certified_lower > 0
    text = str(found)
    assert "gain in visit, against the best single: +" in text
    assert "against the same arms at random" in text
    assert found.promise.verdict is ForecastVerdict.CONFIRMED
    gains = np.column_stack([np.zeros(len(people)), effects(people["age"].to_numpy())])
    given = pd.Index(["no", *LABELS]).get_indexer(listed["arm"])
    forecast = gains[np.arange(len(people)), given].sum()  # of the arms that people got
    assert found.promise.promised == pytest.approx(forecast)
    assert found.promise.came == found.comparisons["as_run"].estimate
    assert found.comparisons["as_run"].lower < forecast < found.comparisons["as_run"].upper
    assert found.promise.promised_error is None
    assert text.startswith("The campaign gained +")
    assert sum(found.chosen.values()) == sum(found.given.values()) == len(people)
    assert found.to_dict()["told"]["rows"] == found.rows()


def test_a_label_control_is_the_control(campaign):
    _, listed, outcomes = campaign
    known = verify_arms(outcomes, people=listed, **KNOWN)
    names = {"no": "control", "chance no": "chance control"}
    listed = listed.rename(columns=names).replace({"arm": names, "chosen": names})
    found = verify_arms(outcomes, people=listed, id="p", outcome="visit")
    assert found.comparisons == known.comparisons
    assert found.chosen == {names.get(arm, arm): n for arm, n in known.chosen.items()}
    listed = listed.replace({"arm": {"control": "no"}})
    with pytest.raises(ValueError, match="control should be given, got none"):
        verify_arms(outcomes, people=listed, id="p", outcome="visit")


def test_harm_by_several_arms_is_not_a_confirmed_forecast(campaign):
    _, listed, outcomes = campaign
    rng = np.random.default_rng(3)
    treated = (listed["arm"] != "no").to_numpy()
    worse = outcomes.assign(visit=(rng.random(len(listed)) < 0.4 - 0.2 * treated).astype(int))
    found = verify_arms(worse, people=listed, **KNOWN)
    assert found.promise.verdict is ForecastVerdict.HARM
    assert found.headline.startswith("The campaign did harm: -")


@pytest.mark.gate
def test_columns_a_list_and_a_model_say_the_same(campaign):
    _, listed, outcomes = campaign
    by_list = verify_arms(outcomes, people=listed, **KNOWN)
    table = listed.merge(outcomes, on="p")
    columns = verify_arms(table, treatment="arm", **KNOWN)
    assert columns.comparisons == by_list.comparisons
    model = verify_arms(outcomes, people=listed, model=KnowingModel())
    assert model.comparisons["nobody"].estimate == by_list.comparisons["nobody"].estimate
    assert "people and their scores are still those of its trial cannot be told" in model.notes[-1]
    bare = verify_arms(table.drop(columns=["chance mail", "chance call"]), treatment="arm", **KNOWN)
    assert bare.comparisons["nobody"].estimate == by_list.comparisons["nobody"].estimate
    more = pd.concat([outcomes, outcomes[:5].assign(p=range(5))])
    assert verify_arms(more, people=listed, **KNOWN).notes == (
        "People who are not in the list are left out: 5.",
    )


@pytest.mark.gate
def test_a_check_that_nearly_fails_is_told_first(campaign):
    _, listed, outcomes = campaign
    found = verify_arms(outcomes, people=listed, **KNOWN)
    assert found.doubts == ()
    near = replace(found, check=(CheckedTest("counts", 0.001, "too many got mail"),))
    assert str(near).startswith("Chance hardly explains that too many got mail")
    assert near.to_dict()["told"]["notes"][0] == near.doubts[0]


def test_a_list_without_arms_is_told_of(campaign):
    _, listed, outcomes = campaign
    with pytest.raises(ValueError, match="one that `assign --model` or `target` wrote"):
        verify_arms(outcomes.assign(arm="no"), people=listed[["p"]], treatment="arm", **KNOWN)


def test_the_best_single_arm_is_the_hardest_to_beat(campaign):
    _, listed, outcomes = campaign
    found = verify_arms(outcomes, people=listed, **KNOWN).comparisons
    singles = [found["single mail"], found["single call"]]
    assert found["best single"].lower == min(one.lower for one in singles)
    assert found["best single"].certified_lower == min(one.certified_lower for one in singles)
    assert found["best single"].upper >= min(one.upper for one in singles)


def test_a_policy_of_one_arm_is_no_better_than_that_arm(campaign):
    _, listed, outcomes = campaign
    mailed = listed[listed["chosen"] != "call"]
    found = verify_arms(outcomes, people=mailed, **KNOWN).comparisons
    same = found["single mail"]
    assert (same.estimate, same.lower, same.upper, same.certified_upper) == (0, 0, 0, 0)
    assert found["best single"].estimate == 0
    assert found["best single"].certified_lower <= 0
    assert found["best single"].certified_upper == found["best single"].upper == 0


def test_one_arm_beside_the_control_is_verified():
    rng = np.random.default_rng(0)
    chosen, arm = rng.integers(0, 2, (2, 2_000))
    table = pd.DataFrame({"chosen": chosen, "arm": arm, "p": range(2_000)})
    table["visit"] = (rng.random(2_000) < 0.2 + 0.3 * arm).astype(int)
    found = verify_arms(table, treatment="arm", **(KNOWN | {"control": 0}))
    assert found.comparisons["nobody"].certified_lower > 0
    best = found.comparisons["best single"]
    assert (best.estimate, best.certified_lower, best.certified_upper) == (0, 0, 0)
    # None of the chosen is a control: of what can be told, nothing is a difference.
    only = table[(table["chosen"] == 0) | (table["arm"] == 1)]
    found = verify_arms(only, treatment="arm", **(KNOWN | {"control": 0}))
    assert found.certificate == "Nothing is certified, for nothing can be told."


@pytest.mark.gate
def test_what_nobody_got_cannot_be_told(campaign):
    _, listed, outcomes = campaign
    table = listed.merge(outcomes, on="p").drop(columns=["chance mail", "chance call"])
    kept = ~((table["chosen"] == "mail") & (table["arm"] == "call"))
    found = verify_arms(table[kept], treatment="arm", **KNOWN)
    assert found.comparisons["nobody"].certified_lower > 0
    why = "nobody of those for whom 'mail' was chosen got 'call'"
    assert found.comparisons["best single"].unknown == why
    assert found.comparisons["random"].unknown == why
    assert why in found.next_time


@pytest.mark.gate
def test_households_are_certified_as_a_whole():
    people = make_people(4_000)
    people["home"] = np.arange(4_000) // 2
    listed, outcomes = run(people, groups="home")
    found = verify_arms(outcomes, people=listed, **KNOWN)
    assert (
        "People of one 'home' are taken together, for the list was assigned by it." in found.notes
    )
    assert "of people in groups of at most 4 holds" in found.certificate
    declared = verify_arms(outcomes, people=listed, largest_group=2, **KNOWN)
    assert "of people in groups of at most 2 holds" in declared.certificate
    assert found.comparisons["nobody"].certified_lower is not None
    alone = verify_arms(outcomes.assign(home=range(4_000)), people=listed, groups="home", **KNOWN)
    assert alone.comparisons["nobody"].estimate == found.comparisons["nobody"].estimate


@pytest.mark.parametrize(
    ("change", "named", "match"),
    [
        ({}, {"id": None}, "the list should come with the column that names people"),
        ({}, {"control": None}, "control should be given, got none"),
        ({}, {"control": "none"}, "the control 'none' should be among the arms"),
        ({"chosen": "letter"}, {}, "'chosen' should hold arms that people got"),
        ({"chosen": "no"}, {}, "an arm should have been chosen for somebody"),
        ({"chance mail": 2.0}, {}, "between 0 and 1 together"),
        ({}, {"outcome": "vist"}, "vist"),
        ({}, {"level": 2}, "level should be"),
    ],
)
def test_bad_input(campaign, change, named, match):
    _, listed, outcomes = campaign
    with pytest.raises(ValueError, match=match) as caught:
        verify_arms(outcomes, people=listed.assign(**change), **KNOWN | named)
    assert "\n" not in str(caught.value)


@pytest.mark.gate
def test_outcomes_that_are_missing(campaign):
    _, listed, outcomes = campaign
    lacking = outcomes.assign(visit=outcomes["visit"].where(outcomes.index >= 10))
    with pytest.raises(ValueError, match=r"got none in 10\. Write 0 where nothing happened"):
        verify_arms(lacking, people=listed, **KNOWN)
    found = verify_arms(lacking, people=listed, drop_missing_outcomes=True, **KNOWN)
    assert "10 rows without an outcome are left out." in found.notes


@pytest.mark.gate
def test_outcomes_that_are_missing_in_one_arm_are_told(campaign):
    """A test by simulation has no p-value small enough to stop anything."""
    _, listed, outcomes = campaign
    called = (listed["arm"] == "call").to_numpy()
    gone = called & (np.random.default_rng(0).random(len(called)) < 0.3)
    lacking = outcomes.assign(visit=outcomes["visit"].where(~gone))
    bare = listed.drop(columns=["chance mail", "chance call"])
    with pytest.raises(
        FailedCheckError, match=r"'call', .*of those for whom '.*' was chosen have no outcome"
    ):
        verify_arms(lacking, people=bare, drop_missing_outcomes=True, **KNOWN)


def test_shops_that_are_lost_are_lost_once():
    shop = np.repeat(np.arange(60), 20)
    table = pd.DataFrame({"shop": shop, "arm": shop % 3, "chosen": 1, "visit": (shop % 2) * 1.0})
    table.loc[np.isin(shop, [1, 4, 7, 10, 13]), "visit"] = np.nan
    named = KNOWN | {"id": None, "control": 0, "treatment": "arm", "drop_missing_outcomes": True}
    with pytest.raises(FailedCheckError, match="have no outcome"):
        verify_arms(table, **named)
    (test,) = verify_arms(table, groups="shop", **named).check
    assert test.p_value > 0.05


def test_rare_arms_are_counted_exactly():
    """3 people where .3 are expected: chi-square would stop what happens once in 300."""
    arm = np.repeat([0, 1, 2], [149, 148, 3])
    table = pd.DataFrame({"chosen": 1, "arm": arm, "visit": np.arange(300) % 2})
    table = table.assign(**{"chance 1": 0.4995, "chance 2": 0.001})
    named = KNOWN | {"id": None, "control": 0, "treatment": "arm"}
    (test,) = verify_arms(table, **named).check
    assert test.p_value == pytest.approx(3 * 0.0036, rel=0.05)


@pytest.mark.gate
def test_chances_that_the_counts_contradict(campaign):
    _, listed, outcomes = campaign
    wrong = listed.assign(**{"chance mail": 0.2, "chance call": 0.2})
    with pytest.raises(
        FailedCheckError,
        match="treatment should have been given by chance within those of each arm",
    ):
        verify_arms(outcomes, people=wrong, **KNOWN)


@pytest.mark.gate
def test_intervals_and_certified_ends_fail_no_more_often_than_they_may():
    n_trials, names = 60, ("nobody", "random", "best single")
    misses = {name: np.zeros(4) for name in names}
    for seed in range(n_trials):
        people = make_people(1_500, seed)
        listed, outcomes = run(people, seed=seed)
        listed = listed.drop(columns=["uplift mail", "uplift call"])  # nothing to compare
        found = verify_arms(outcomes, people=listed, random_state=seed, **KNOWN).comparisons
        for name, value in truth(people, listed).items():
            one = found[name]
            misses[name] += [
                one.lower > value, one.upper < value,
                one.certified_lower > value, one.certified_upper < value,
            ]  # fmt: skip
    for own in misses.values():
        assert own[:2].sum() / n_trials <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n_trials)
        assert (own[2:] / n_trials <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n_trials)).all()
