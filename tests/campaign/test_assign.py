"""Which person gets which arm: the same whoever computes it, and nobody moves later."""

import hashlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from tests.campaign.people import make_people
from tests.frame_kinds import KINDS, as_kind

from auucmax.campaign import assign
from auucmax.campaign.assign import PLACES, hash_places, parse_arms
from auucmax.data import read_table
from auucmax.encoding.frames import frame_of
from auucmax.results import State

HALVES = "control=.5,mail=.5"
THREE = "control=.2,mail=.3,phone=.5"
HOWS = [{}, {"groups": "home"}, {"strata": ["town"]}, {"blocked": True},
        {"groups": "home", "blocked": True}]  # fmt: skip


def table(n=600, random_state=0):
    rng = np.random.default_rng(random_state)
    return pd.DataFrame(
        {
            "customer": [f"c{k}" for k in range(n)],
            "age": rng.integers(18, 80, n),
            "town": rng.choice(["north", "south", None], n),
            "home": [f"h{k}" for k in np.sort(rng.integers(0, n // 2, n))],
        }
    )


def arms_of(people, **options):
    options = {"id": "customer", "key": "spring", "arms": THREE} | options
    return assign(people, **options).people.set_index("customer")


@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))))
@settings(max_examples=30, deadline=None)
def test_places_are_the_first_digits_of_the_hash(texts):
    texts = np.array([*texts, "é:日本"], dtype=object)
    found = hash_places("k:", texts)
    digits = [hashlib.md5(f"k:{text}".encode()).hexdigest()[:13] for text in texts]
    assert found.tolist() == [int(own, 16) for own in digits]
    assert found.max() < PLACES


@pytest.mark.parametrize("how", HOWS)
def test_the_order_of_rows_changes_nothing(how):
    people = table()
    found = arms_of(people, **how)
    again = arms_of(people.sample(frac=1.0, random_state=1), **how)
    pd.testing.assert_frame_equal(found, again.loc[found.index])
    assert not found["arm"].equals(arms_of(people, key="autumn", **how)["arm"])


@pytest.mark.parametrize("how", HOWS)
def test_people_who_are_added_leave_the_others_where_they_are(how):
    people = table()
    named = {"id": "customer", "key": "k", "arms": THREE} | how
    first = assign(people[:250], **named)
    then = assign(people, before=first.people, **named)
    assert (then.n_before, then.n_people) == (250, 350)
    assert then.people["customer"].tolist() == people["customer"][250:].tolist()
    both = pd.concat([first.people, then.people])
    if "groups" in how:
        assert (both.groupby("home")["arm"].nunique() == 1).all()
    if how in ({}, {"groups": "home"}):  # then nobody else matters
        assert assign(people, **named).people["arm"].tolist() == both["arm"].tolist()
    if how == {"strata": ["town"]}:  # blocks of 10 go on where the first wave ended
        counts = pd.crosstab(both["stratum"], both["arm"])
        size = counts.sum(axis=1)
        for arm, of_ten in (("control", 2), ("mail", 3), ("phone", 5)):
            assert (counts[arm] >= size // 10 * of_ten).all()
            assert (counts[arm] <= (size // 10 + 1) * of_ten).all()
    nobody = assign(people, before=both, **named)
    assert (len(nobody.people), nobody.counts) == (0, (0, 0, 0))


@pytest.mark.parametrize("column", ["member", "region"])
def test_blocks_go_on_after_a_list_that_was_written_and_read(column, tmp_path):
    """Strata that a reader takes for booleans, or for numbers of which some are missing."""
    people = table(400).assign(
        member=lambda own: own["age"] > 50, region=lambda own: own["age"] % 3
    )
    people["region"] = people["region"].where(people["region"] > 0)
    how = {"id": "customer", "key": "k", "arms": HALVES, "strata": [column]}
    first = assign(people[:151], **how).people
    first.to_csv(tmp_path / "list.csv", index=False)
    then = assign(people, before=read_table(str(tmp_path / "list.csv")), **how).people
    both = pd.concat([first, then], ignore_index=True)
    counts = pd.crosstab(both["stratum"], both["arm"])
    assert (counts["control"] - counts["mail"]).abs().max() <= 1  # one block of two is open
    assert {*then["stratum"]} <= {*first["stratum"]}


@pytest.mark.gate
def test_shares_are_those_of_chance():
    """The sizes of the arms over 200 keys, against what independent draws would have."""
    people, shares = table(400), np.array([0.2, 0.3, 0.5])
    statistic = 0.0
    for number in range(200):
        counts = arms_of(people, key=f"key {number}")["arm"].value_counts()
        expected = shares * 400
        statistic += ((counts[["control", "mail", "phone"]] - expected) ** 2 / expected).sum()
    assert 1e-3 < chi2.sf(statistic, 400) < 1 - 1e-3


@pytest.mark.gate
def test_everybody_of_a_short_block_has_each_arm_by_its_share():
    """One person alone in a stratum is not always a control."""
    people = pd.DataFrame({"customer": ["only"]})
    arms = [arms_of(people, key=f"{k}", blocked=True)["arm"].iloc[0] for k in range(400)]
    share = np.mean(np.array(arms) == "phone")
    assert abs(share - 0.5) < 4 * np.sqrt(0.25 / 400)


def test_every_arm_of_several_has_its_propensity():
    found = assign(table(), id="customer", key="k", arms=THREE, blocked=True)
    assert "propensity" not in found.people
    assert (found.people[["chance mail", "chance phone"]] == [0.3, 0.5]).all(axis=None)
    assert found.shares == (0.2, 0.3, 0.5)
    named = table().rename(columns={"customer": "chance mail"})
    with pytest.raises(ValueError, match="columns overlap"):
        assign(named, id="chance mail", key="k", arms=THREE)


@pytest.mark.parametrize("kind", KINDS)
def test_frames_of_other_libraries(kind):
    people = table(200)
    how = {"id": "customer", "key": "k", "arms": HALVES, "groups": "home"}
    frame = assign(people, **how).people
    found = assign(as_kind(pa.Table.from_pandas(people), kind), **how).people
    pd.testing.assert_frame_equal(frame_of(found).astype(str), frame.astype(str), check_dtype=False)


def test_people_with_equal_scores_are_chosen_at_random(model):
    """Of equal scores the chosen are not the treated."""
    people = make_people(4_000, seed=9)
    people["age"] = people["age"].round(1)
    found = assign(people, id="person", key="ties", model=model, share=0.3).people
    cut = found.loc[found["chosen"], "score"].min()
    for chosen in (True, False):
        at_the_cut = found[(found["score"] == cut) & (found["chosen"] == chosen)]
        n, chance = len(at_the_cut), 0.9 if chosen else 0.1
        if n > 30:
            treated = (at_the_cut["arm"] == "call").mean()
            assert abs(treated - chance) < 4 * np.sqrt(0.09 / n)


def test_a_model_chooses_and_a_part_explores(model):
    later = make_people(4_000, seed=9)
    found = assign(later, id="person", key="wave 1", model=model, share=0.3)
    people = found.people
    assert abs(people["chosen"].sum() - 0.3 * len(later)) < 1
    assert found.chosen == (2_800, 1_200)
    scores = people.groupby("chosen")["score"]
    assert scores.min()[True] >= scores.max()[False]
    assert people["propensity"].tolist() == np.where(people["chosen"], 0.9, 0.1).tolist()
    treated = (people["arm"] == "call").to_numpy()
    assert abs((treated - people["propensity"]).mean()) < 4 * np.sqrt(0.09 / len(later))
    assert found.n_explored == (treated != people["chosen"]).sum()
    assert found.decision.is_good
    shuffled = later.sample(frac=1.0, random_state=0)
    again = assign(shuffled, id="person", key="wave 1", model=model, share=0.3).people
    pd.testing.assert_frame_equal(
        people.set_index("person"), again.set_index("person").loc[people["person"]]
    )


def test_nothing_is_expected_of_people_unlike_those_of_the_trial(model):
    later = make_people(4_000, seed=9)
    young = later[later["age"] < later["age"].quantile(0.3)]
    found = assign(young, id="person", key="wave 1", model=model, share=0.3)
    assert found.decision.state == State.UNKNOWN
    assert found.decision.plan.guaranteed is None


def test_a_model_of_several_arms_chooses_and_a_part_explores(arms_model):
    later = make_people(6_000, seed=9)
    found = assign(later, id="person", key="w", model=arms_model, share=0.5, explore=0.3)
    people = found.people
    assert sum(found.chosen[1:]) == 3_000
    best = arms_model.uplift(later).argmax(axis=1)
    chosen = people["chosen"] != "no"
    assert (np.array(arms_model.arms)[best[chosen]] == people["chosen"][chosen]).all()
    for label, n, size in zip(found.arms, found.counts, found.chosen, strict=True):
        expected = 0.7 * size + 0.15 * (6_000 - size)
        assert abs(n - expected) < 4 * np.sqrt(6_000 * 0.21), label


@pytest.mark.parametrize("which", ["model", "arms_model"])
def test_a_model_chooses_whole_households(which, request):
    model = request.getfixturevalue(which)
    later = make_people(2_001, seed=9)
    later["home"] = [f"h{k // 2}" for k in range(2_001)]
    how = {"id": "person", "key": "w", "share": 0.25, "groups": "home", "model": model}
    first = assign(later[:1_001], **how).people  # the last home is cut in two
    then = assign(later, before=first, **how).people
    both = pd.concat([first, then])
    same = both.drop(columns=["person", *(n for n in both if n.startswith(("score", "uplift")))])
    assert (same.groupby("home").nunique() == 1).all(axis=None)
    assert abs(first["chosen"].isin([True, *model.arms]).mean() - 0.25) < 0.002


def test_people_who_were_treated_together_in_the_trial_of_the_model_stay_together(model):
    later = make_people(2_000, seed=9)
    later["home"] = [f"h{k // 2}" for k in range(2_000)]
    evidence = replace(model.evidence, roles=replace(model.roles, groups="home"))
    knows = replace(model, evidence=evidence)
    how = {"id": "person", "key": "w", "share": 0.25}
    found = assign(later, model=knows, **how)
    assert found.groups == found.to_json()["groups"] == "home"
    assert found.n_units == 1_000
    named = assign(later, model=model, groups="home", **how).people
    pd.testing.assert_frame_equal(found.people, named)
    assert assign(later.drop(columns="home"), model=knows, **how).groups is None


@pytest.mark.parametrize(
    "arms",
    ["control=.5,mail=.6", "control=1", "control=.5,control=.5", "mail", {}, {"a": 0.5, "b": "x"},
     {"a": float("nan"), "b": 0.5}, "=.5,b=.5", "a=1/0,b=.5"],
)  # fmt: skip
def test_arms_that_are_none(arms):
    with pytest.raises(ValueError, match="arms should be") as error:
        parse_arms(arms)
    assert error.value.parameter == "arms"


def test_shares_that_are_exact():
    assert [str(s) for s in parse_arms("a=1/3,b=1/3,c=1/3").values()] == ["1/3"] * 3
    assert [str(s) for s in parse_arms({"a": 1 / 3, "b": 2 / 3}).values()] == ["1/3", "2/3"]


BAD = [
    ({"id": "custmer"}, None),
    ({"id": "town"}, "the id 'town'"),
    ({"id": "home"}, "the id 'home'"),
    ({"key": " "}, "key"),
    ({"arms": None}, "arms"),
    ({"share": 0.3}, "arms"),
    ({"groups": "home", "strata": ["age"]}, "strata"),
    ({"arms": "a=.123,b=.877", "blocked": True}, "arms"),
]


@pytest.mark.parametrize(("options", "parameter"), BAD)
def test_bad_input(options, parameter):
    people = table(random_state=5)
    with pytest.raises(ValueError, match="should") as error:
        arms_of(people, **options)
    assert getattr(error.value, "parameter", None) == parameter


@pytest.mark.parametrize(
    ("options", "parameter"),
    [({}, "share"), ({"share": 0.3, "arms": HALVES}, "arms"), ({"share": 1.0}, "share"),
     ({"share": 0.3, "explore": 0.0}, "explore")],
)  # fmt: skip
def test_bad_input_beside_a_model(model, options, parameter):
    with pytest.raises(ValueError, match=f"{parameter} should be") as error:
        assign(make_people(100), id="person", key="k", model=model, **options)
    assert getattr(error.value, "parameter", parameter) == parameter


def test_a_list_of_another_rule_is_refused():
    first = assign(table(200), id="customer", key="k", arms=HALVES).people
    for other in ({"key": "other"}, {"arms": THREE}, {"groups": "home"}):
        how = {"id": "customer", "key": "k", "arms": HALVES} | other
        with pytest.raises(ValueError, match="should"):
            assign(table(), before=first, **how)
