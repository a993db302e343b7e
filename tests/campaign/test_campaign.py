from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.campaign.campaigns import make_people

from auucmax.campaign import assign, verify
from auucmax.campaign.campaign import check_campaign, doubts, read_campaign
from auucmax.data.randomisation_report import FailedCheckError

NAMES = {
    "treatment": "mail", "outcome": "visit", "treated": None, "control": None, "id": None,
    "groups": None, "lower_is_better": False, "drop_missing_outcomes": False, "outcome_range": None,
}  # fmt: skip


def read(table, **change):
    parts = {"chosen": "top", "propensity": "chance", "people": None, "model": None}
    return read_campaign(table, **(parts | NAMES | change))


@pytest.fixture(scope="module")
def table(campaign):
    return campaign[0]


def test_cells_are_the_chosen_and_the_rest_by_their_chances(table):
    found = read(table)
    assert [(cell.policy, cell.chances[1]) for cell in found.cells] == [(1, 0.9), (0, 0.1)]
    assert found.sizes.tolist() == [1_800, 4_200]
    assert (found.chosen == (table["top"] == 1)).all()
    assert [str(cell) for cell in read(table, propensity=None).cells] == ["the chosen", "the rest"]
    # A thirtieth digit is no other chance.
    noisy = table.assign(chance=table["chance"] + np.arange(len(table)) % 7 * 1e-12)
    assert read(noisy).sizes.tolist() == found.sizes.tolist()


@pytest.mark.parametrize("labels", [("no", "yes"), (False, True), ("False", "TRUE"), (0.0, 1.0)])
def test_who_was_chosen_may_be_said_in_any_words(table, labels):
    spelt = table.assign(top=[labels[flag] for flag in table["top"]])
    assert (read(spelt).cell == read(table).cell).all()


def test_the_arm_of_the_list_says_who_was_chosen(table):
    spelt = table.assign(arm=np.where(table["top"], "mail", "none"))
    spelt["mail"] = np.where(spelt["mail"], "mail", "none")
    found = read(spelt, chosen="arm", treated="mail", control="none")
    assert (found.cell == read(table).cell).all()


def test_a_list_is_matched_by_id_and_brings_its_uplifts(table, campaign):
    chosen = campaign[1].chosen()
    bare = table.drop(columns="top").sample(frac=1, random_state=0)
    found = read(bare, chosen=None, people=chosen, id="person")
    assert found.chosen.sum() == len(chosen)
    own = chosen.set_index("person")["uplift"].loc[bare.loc[found.chosen, "person"]]
    assert (found.uplift[found.chosen, 0] == own.to_numpy()).all()
    # The whole list has the arm to give.
    everyone = read(bare, chosen=None, people=campaign[1].people, id="person", treated="1")
    assert (everyone.cell == found.cell).all()
    more = pd.concat([chosen, chosen.head(2).assign(person=["x", "y"])])
    assert (
        "2 of the list are not among the rows."
        in read(bare, chosen=None, people=more, id="person").notes
    )


def test_a_list_of_an_assignment_brings_arms_and_chances(table):
    """Outcomes and ids are enough then; people who were not assigned are left out."""
    names = {"top": "chosen", "chance": "propensity", "mail": "arm"}
    listed = table.rename(columns=names)[["person", "arm", "propensity", "chosen"]]
    outcomes = table[["person", "visit"]].sample(frac=1, random_state=0)
    more = pd.concat([outcomes, pd.DataFrame({"person": ["x"], "visit": [1]})])
    options = {"chosen": None, "propensity": None, "people": listed, "id": "person"}
    found = read(more, **(options | {"treatment": None}))
    whole = read(table)
    assert found.columns.treatment == "arm"
    assert found.cells == whole.cells
    assert (found.means.counts == whole.means.counts).all()
    assert found.notes == ("People who are not in the list are left out: 1.",)
    # What the table says itself is not replaced.
    own = read(table.drop(columns="top").assign(propensity=table["chance"]), **options)
    assert own.columns.treatment == "mail"
    assert (own.means.counts == whole.means.counts).all()


def test_a_list_of_a_trial_says_that_nobody_was_chosen(table):
    arms = assign(table[["person"]], id="person", key="k", arms="none=.5,mail=.5").people
    with pytest.raises(ValueError, match="the list should be of people whom a model chose"):
        read(table, people=arms, chosen=None, id="person")


@pytest.mark.gate
def test_people_assigned_by_household_are_taken_by_household(model):
    """Homes of four that answer alike: as single people they would be certified a gain by luck."""
    people, _, rng = make_people(4_000, 5)
    people["home"] = np.arange(4_000) // 4
    options = {"id": "person", "key": "k", "model": model, "share": 0.3, "explore": 0.1}
    listed = assign(people, groups="home", **options).people
    outcomes = people[["person"]].assign(visit=np.repeat(rng.random(1_000) < 0.2, 4) * 1)
    known = {"id": "person", "model": model}
    found = verify(outcomes, people=listed, **known)
    told = "People of one 'home' are taken together, for the list was assigned by it."
    assert told in found.notes
    assert "if groups, each treated as a whole, are independent" in found.certificate
    gain = found.comparisons["nobody"]
    assert gain.certified_lower < 0 < gain.certified_upper
    named = verify(outcomes, people=listed, groups="home", **known)
    assert told not in named.notes
    assert named.comparisons == found.comparisons
    # What somebody added to the list is not what it was assigned by.
    added = listed.assign(**people[["town", "age"]], mail_address=people["person"] + "@x.org")
    added = added[["person", "town", "mail_address", *listed.columns[1:]]]
    assert verify(outcomes, people=added, **known).comparisons == found.comparisons
    alone = assign(people, **options).people
    assert "certified number" in verify(outcomes, people=alone, **known).certificate


def test_rows_without_an_outcome_are_left_out_and_counted_by_arm(table):
    some = table.astype({"visit": float})
    some.loc[:99, "visit"] = np.nan
    with pytest.raises(ValueError, match="pass drop_missing_outcomes=True"):
        read(some)
    found = read(some, drop_missing_outcomes=True)
    assert len(found.y) == len(table) - 100
    assert found.lost.sum() == 100
    first = table.head(100)
    assert found.lost[0, 1] == ((first["top"] == 1) & (first["mail"] == 1)).sum()
    assert {test.what for test in check_campaign(found, None)} >= {"counts", "missing outcomes"}


def _without_control(table):
    return table.assign(mail=table["top"])


BAD = {
    "nobody chose": (lambda t: (t, {"chosen": None}), "by the list, got neither"),
    "both": (lambda t: (t, {"people": t}), "by the list, got both"),
    "a list without ids": (lambda t: (t, {"chosen": None, "people": t}), "Pass id=COLUMN"),
    "no such column": (lambda t: (t, {"chosen": "topp"}), "Did you mean 'top'?"),
    "one column twice": (lambda t: (t, {"chosen": "mail"}), "got 'mail' twice"),
    "no outcome": (lambda t: (t, {"outcome": None}), "outcome should name a column, got none"),
    "chances in per cent": (lambda t: (t.assign(chance=90), {}), "Write .9 for 90 per cent"),
    "chances of everyone": (
        lambda t: (t.assign(chance=np.linspace(0.1, 0.9, len(t))), {}), "should have few values",
    ),
    "a chance that is missing": (
        lambda t: (t.assign(chance=t["chance"].where(t.index > 3)), {}), "no missing values, got 4",
    ),
    "words for the chosen": (
        lambda t: (t.assign(top="maybe"), {}), "write 1 for the chosen and 0 for the rest",
    ),
    "a choice that is missing": (
        lambda t: (t.assign(top=t["top"].where(t.index > 3)), {}), "got nothing in 4 rows",
    ),
    "nobody is chosen": (lambda t: (t.assign(top=0), {}), "got nobody"),
    "nobody untreated, nobody else treated": (
        lambda t: (_without_control(t), {}), "Next time keep a random part of the list untreated",
    ),
    "a list of others": (
        lambda t: (t, {"chosen": None, "id": "person",
                       "people": pd.DataFrame({"person": ["a", "b"]})}),
        "2 such as 'a' that no row has",
    ),
    "a list with people twice": (
        lambda t: (t, {"chosen": None, "id": "person", "people": pd.concat([t, t])[["person"]]}),
        "each person once, got 6,000",
    ),
    "people twice": (lambda t: (pd.concat([t, t]), {"id": "person"}), "different in every row"),
    "a treatment that is missing": (
        lambda t: (t.assign(mail=t["mail"].where(t.index > 3)), {}), "no missing values, got 4",
    ),
    "three arms": (
        lambda t: (t.assign(mail=t.index % 3), {}), "Pass treated=... and control=...",
    ),
    "an outcome of words": (lambda t: (t.assign(visit="red"), {}), "should hold numbers"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_told_in_one_line(table, name):
    make, words = BAD[name]
    changed, change = make(table)
    with pytest.raises(ValueError, match=words.replace("?", r"\?")) as failure:
        read(changed, **change)
    assert "\n" not in str(failure.value)


def test_chances_that_the_counts_contradict_are_refused(table, model):
    wrong = table.assign(chance=np.where(table["top"], 0.8, 0.1))
    with pytest.raises(FailedCheckError, match=r"of the chosen at a chance of 0.8 were treated"):
        verify(wrong, chosen="top", propensity="chance", treatment="mail", outcome="visit")
    never = table.assign(chance=np.where(table["top"], 0.9, 0.0))
    with pytest.raises(FailedCheckError, match="of the rest at a chance of 0 were treated"):
        verify(never, chosen="top", propensity="chance", treatment="mail", outcome="visit")


def test_a_control_group_that_was_not_drawn_at_random_is_refused(table, model):
    """The oldest of the list were treated, the youngest left out."""
    rank = table["age"].where(table["top"] == 1).rank(pct=True)
    chosen = table["top"] == 1
    picked = table.assign(mail=np.where(chosen, rank > 0.1, table["mail"]).astype(int))
    options = {"chosen": "top", "propensity": "chance"}
    with pytest.raises(FailedCheckError, match=r"of the chosen at a chance of 0\.9 differ before"):
        verify(picked, model=model, **options)


@pytest.mark.gate
def test_groups_are_counted_whole(table):
    """Homes of four that are treated together: as rows their counts would be blamed too often."""
    rng = np.random.default_rng(4)
    n = len(table) // 4
    home = np.repeat(np.arange(n), 4)
    drawn = table.assign(home=home, chance=0.5, top=home % 2)
    homes, rows = read(drawn, groups="home"), read(drawn)
    blamed = np.zeros(2)
    for _ in range(300):
        treated = (rng.random(n) < 0.5)[home]
        for k, found in enumerate((homes, rows)):
            try:
                tests = check_campaign(replace(found, arm=treated.astype(int)), None)
                blamed[k] += min(test.p_value for test in tests) < 0.05
            except FailedCheckError:
                blamed[k] += 1
    assert blamed[0] / 300 < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300) < blamed[1] / 300


def test_few_groups_at_a_small_chance_are_counted_exactly():
    """None of 50 homes treated at a chance of .05 is no wonder, .08; by a t-test it would be."""
    home = np.repeat(np.arange(150), 2)
    table = pd.DataFrame({"home": home, "top": (home < 100).astype(int), "visit": home % 3 == 0})
    table["chance"] = np.where(table["top"], 0.5, 0.05)
    table["mail"] = ((home < 50) & (table["top"] == 1)).astype(int)
    tests = check_campaign(read(table.astype({"visit": int}), groups="home"), None)
    assert [test.p_value > 0.05 for test in tests] == [True, True]
    assert "0 of 50 (0.0%) groups of the rest" in tests[1].detail
    # Nobody can be treated at a chance of 0, not even the second of a home.
    table.loc[len(table) - 1, "mail"] = 1
    never = table.assign(chance=np.where(table["top"], 0.5, 0.0)).astype({"visit": int})
    with pytest.raises(FailedCheckError, match="at a chance of 0 were treated"):
        check_campaign(read(never, groups="home"), None)


def test_people_lost_within_shops_are_counted_one_by_one():
    """Shops have both arms, so people were drawn: 1% of one arm and 11% of the other are lost."""
    n = 4_000
    rng = np.random.default_rng(0)
    mail, shop = rng.integers(2, size=n), np.arange(n) % 40
    table = pd.DataFrame({"shop": shop, "top": 1, "chance": 0.5, "mail": mail, "visit": 0.0})
    table.loc[rng.random(n) < np.where(mail == 1, 0.11, 0.01), "visit"] = np.nan
    found = read(table, groups="shop", drop_missing_outcomes=True)
    lost = table["visit"].isna()
    assert found.lost.tolist() == [[(lost & (mail == k)).sum() for k in (0, 1)]]
    with pytest.raises(FailedCheckError, match="have no outcome"):
        check_campaign(found, None)


def test_a_group_that_is_lost_is_lost_once():
    """Of 40 homes of 30 people, 5 treated ones and 1 other are lost: chance does that."""
    home = np.repeat(np.arange(40), 30)
    table = pd.DataFrame({"home": home, "top": 1, "chance": 0.5, "mail": home % 2, "visit": 0.0})
    table.loc[np.isin(home, [1, 3, 5, 7, 9, 0]), "visit"] = np.nan
    found = read(table, groups="home", drop_missing_outcomes=True)
    assert found.lost.tolist() == [[1, 5]]
    assert found.told.tolist() == [[19, 15]]
    tests = {test.what: test for test in check_campaign(found, None)}
    assert tests["missing outcomes"].p_value > 0.1
    assert "25.0% of the treated and 5.0% of the untreated" in tests["missing outcomes"].detail
    with pytest.raises(FailedCheckError, match="have no outcome"):
        check_campaign(read(table, drop_missing_outcomes=True), None)


def test_what_is_near_to_failing_is_told(table):
    found = check_campaign(read(table), None)
    assert doubts(found) == ()
    (said,) = doubts((found[0]._replace(p_value=0.002),))
    assert said.startswith("Chance hardly explains that 1,6")
