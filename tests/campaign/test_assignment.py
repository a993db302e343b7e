"""Who goes into which arm: the same whoever computes it, and nobody moves later."""

import itertools
import re
from copy import copy
from dataclasses import replace

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from tests.campaign.arm_campaigns import KnowingModel, make_people
from tests.model.trial_table import trial_table

from auucmax.campaign import assign, assignment, assignment_sql
from auucmax.campaign.assignment import PLACES, hash_places, hash_places_slow, parse_arms
from auucmax.data import read_table
from auucmax.data.databases import connect
from auucmax.model import fit_trial_model

HALVES = "control=.5,mail=.5"
THREE = "control=.2,mail=.3,phone=.5"


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
    options = {"id": "customer", "key": "spring", "arms": THREE, "check": False} | options
    return assign(people, **options).people.set_index("customer")


HOWS = [{}, {"groups": "home"}, {"strata": ["town"]}, {"blocked": True},
        {"groups": "home", "blocked": True}]  # fmt: skip


@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))))
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_places_are_those_of_the_slow_twin(monkeypatch, texts):
    monkeypatch.setattr(assignment, "MANY", 0)
    texts = np.array([*texts, "é:日本"], dtype=object)
    found = hash_places(texts)
    assert (found == hash_places_slow(texts)).all()
    assert found.min() >= 0
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
    first = assign(people[:250], id="customer", key="k", arms=THREE, check=False, **how)
    then = assign(
        people, id="customer", key="k", arms=THREE, before=first.people, check=False, **how
    )
    assert then.n_before == 250
    assert then.people["customer"].tolist() == people["customer"][250:].tolist()
    both = pd.concat([first.people, then.people])
    if "groups" in how:
        assert (both.groupby("home")["arm"].nunique() == 1).all()
    if how in ({}, {"groups": "home"}):  # then nobody else matters
        whole = assign(people, id="customer", key="k", arms=THREE, check=False, **how).people
        assert whole["arm"].tolist() == both["arm"].tolist()
    if how == {"strata": ["town"]}:  # blocks of 10 go on where the first wave ended
        counts = pd.crosstab(both["stratum"], both["arm"])
        size = counts.sum(axis=1)
        for arm, of_ten in (("control", 2), ("mail", 3), ("phone", 5)):
            assert (counts[arm] >= size // 10 * of_ten).all()
            assert (counts[arm] <= (size // 10 + 1) * of_ten).all()
    nobody = assign(people, id="customer", key="k", arms=THREE, before=both, **how)
    assert len(nobody.people) == 0
    assert nobody.counts == {"control": 0, "mail": 0, "phone": 0}


@pytest.mark.parametrize("column", ["member", "region"])
def test_blocks_go_on_after_a_list_that_was_written_and_read(column, tmp_path):
    """Strata that a reader takes for booleans, or for numbers of which some are missing."""
    people = table(400).assign(
        member=lambda own: own["age"] > 50, region=lambda own: own["age"] % 3
    )
    people["region"] = people["region"].where(people["region"] > 0)
    how = {"id": "customer", "key": "k", "arms": HALVES, "strata": [column], "check": False}
    first = assign(people[:151], **how).people
    first.to_csv(tmp_path / "list.csv", index=False)
    then = assign(people, before=read_table(str(tmp_path / "list.csv")), **how).people
    both = pd.concat([first, then])
    counts = pd.crosstab(both["stratum"], both["arm"])
    assert (counts["control"] - counts["mail"]).abs().max() <= 1  # one block of two is open
    assert set(then["stratum"]) <= set(first["stratum"])


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


@pytest.mark.parametrize("how", HOWS)
def test_sql_gives_the_same_arms_in_duckdb(how):
    people = table().assign(customer=lambda own: "o'" + own["customer"])
    found = arms_of(people, key="it's", **how)
    query = assignment_sql(id="customer", key="it's", arms=THREE, table="main.people", **how)
    with connect() as db:
        db.register("people", people)
        rows = db.execute(query).df().set_index("customer").loc[found.index]
    assert rows["arm"].tolist() == found["arm"].tolist()
    chances = ["chance mail", "chance phone"]
    assert rows[chances].astype(float).to_numpy().tolist() == found[chances].to_numpy().tolist()


WRONG_TYPE = "should be whole numbers or texts, cast them from "


@pytest.mark.parametrize("how", [{}, {"blocked": True}, {"groups": "home"}, {"strata": ["home"]}])
@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT", "DECIMAL(9, 1)", "TIMESTAMP"])
def test_sql_stops_at_ids_that_have_other_texts(how, kind):
    """As 7.0 of a double, which is 7 here: people would have other arms, and nobody would know."""
    name = "home" if "home" in str(how) else "customer"
    query = assignment_sql(id="customer", key="k", arms=THREE, table="people", **how)
    value = "TIMESTAMP '2024-01-31'" if kind == "TIMESTAMP" else "7"
    with connect() as db:
        db.execute("CREATE TABLE people AS SELECT 1 AS customer, 'a' AS home")
        assert len(db.execute(query).fetchall()) == 1
        db.execute(f"CREATE OR REPLACE TABLE people AS SELECT * REPLACE ({value}::{kind} AS {name})"
                   " FROM people")  # fmt: skip
        with pytest.raises(duckdb.Error, match=WRONG_TYPE + re.escape(kind.replace(", ", ","))):
            db.execute(query).fetchall()


@pytest.mark.parametrize("how", [{}, {"blocked": True}])
def test_sql_gives_no_arm_to_somebody_without_an_id(how):
    with connect() as db:
        db.execute("CREATE TABLE people AS SELECT unnest([1, 2, NULL]) AS customer")
        query = assignment_sql(id="customer", key="k", arms=THREE, table="people", **how)
        arms = {customer: arm for customer, arm, *_ in db.execute(query).fetchall()}
    assert arms.pop(None, None) is None
    assert set(arms) == {1, 2}
    assert None not in arms.values()


@pytest.mark.parametrize(
    "kind", ["TINYINT", "UBIGINT", "HUGEINT", "ENUM('7', '8')", "DATE", "UUID"]
)
def test_sql_takes_types_that_have_one_text(kind):
    value = {"DATE": "2024-01-31", "UUID": "a81bc81b-dead-4e5d-abff-90865d1e13b1"}.get(kind, "7")
    given = {"id": "customer", "key": "k", "arms": THREE}
    with connect() as db:
        db.execute(f"CREATE TABLE people AS SELECT '{value}'::{kind} AS customer")
        ((_, arm, *_),) = db.execute(assignment_sql(table="people", **given)).fetchall()
        people = db.sql("FROM people").df()
    assert arm == assign(people, **given).people["arm"].iloc[0]


@pytest.mark.parametrize("kind", ["BOOLEAN", "VARCHAR"])
def test_strata_of_booleans_are_those_of_their_texts(kind):
    people = pd.DataFrame({"customer": range(60), "member": [k % 3 == 0 for k in range(60)]})
    found = arms_of(people, strata=["member"])
    query = assignment_sql(
        id="customer", key="spring", arms=THREE, table="people", strata=["member"]
    )
    with connect() as db:
        db.register("given", people)
        db.execute(f"CREATE TABLE people AS SELECT customer, member::{kind} AS member FROM given")
        rows = db.execute(query).df().set_index("customer").loc[found.index]
    assert rows["arm"].tolist() == found["arm"].tolist()


def test_every_arm_of_several_has_its_chance():
    """The chance of any arm is none that a fit could take."""
    found = assign(table(), id="customer", key="k", arms=THREE, blocked=True).people
    assert "propensity" not in found
    assert (found[["chance mail", "chance phone"]] == [0.3, 0.5]).all(axis=None)
    more = table(60).assign(customer=lambda own: "new " + own["customer"])
    assert len(assign(more, id="customer", key="k", arms=THREE, blocked=True, before=found).people)
    named = table().rename(columns={"customer": "chance mail"})
    with pytest.raises(ValueError, match="other names than the list's own columns"):
        assign(named, id="chance mail", key="k", arms=THREE)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("name", ["people", "slots", "Units", "dealt", "auucmax_slots"])
def test_names_of_the_table_and_its_columns_decide_nothing(how, name):
    people = table(60)
    found = arms_of(people, **how)
    taken = ["Place", "turn", "slot", "stratum", "block", "unit", "number", "auucmax_place"]
    query = assignment_sql(id="customer", key="spring", arms=THREE, table=name, **how)
    with connect() as db:
        db.register(name, people.assign(**dict.fromkeys(taken, 0)))
        rows = db.execute(query).df().set_index("customer").loc[found.index]
    assert rows["arm"].tolist() == found["arm"].tolist()


@pytest.mark.parametrize("id", ["place", "Place", "id", "unit", "stratum"])
@pytest.mark.parametrize("blocked", [False, True])
def test_ids_may_have_any_name(id, blocked):
    people = table(60).rename(columns={"customer": id})
    how = {"id": id, "key": "spring", "arms": THREE, "blocked": blocked}
    with connect() as db:
        db.register("people", people)
        rows = db.execute(assignment_sql(**how, table="people")).df().set_index(id)
    found = arms_of(table(60), blocked=blocked)
    assert rows.loc[found.index, "arm"].tolist() == found["arm"].tolist()
    people = table(60).rename(columns={"home": id})  # and households
    how |= {"id": "customer", "groups": id}
    with connect() as db:
        db.register("people", people)
        rows = db.execute(assignment_sql(**how, table="people")).df().set_index("customer")
    found = arms_of(table(60), groups="home", blocked=blocked)
    assert rows.loc[found.index, "arm"].tolist() == found["arm"].tolist()


def test_backslashes_mean_themselves_whatever_the_server_makes_of_them():
    given = {"id": "customer", "key": "a\\", "arms": "no\\=.5,mail=.5", "table": "people"}
    for blocked in (False, True):
        query = assignment_sql(**given, dialect="postgres", blocked=blocked)
        assert r"E'a\\:' ||" in query
        assert r"THEN E'no\\' WHEN" in query
        assert "E'" not in assignment_sql(**given, blocked=blocked)


@pytest.mark.gate
def test_sql_gives_the_same_arms_in_postgresql():
    psycopg = pytest.importorskip("psycopg")
    from tests.postgres_server import postgres_server

    people = table().assign(customer=np.arange(600))
    with postgres_server() as url, psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE TABLE people (customer integer, age integer, town text, home text)")
        with db.cursor().copy("COPY people FROM STDIN") as copy:
            for row in people.astype(object).where(people.notna(), None).itertuples(index=False):
                copy.write_row(row)
        for how, standard in itertools.product(HOWS, ["on", "off"]):
            db.execute(f"SET standard_conforming_strings = {standard}".encode())
            found = arms_of(people, key="a\\'b", **how)
            given = {"id": "customer", "key": "a\\'b", "arms": THREE, "dialect": "postgres"}
            query = assignment_sql(**given, table="people", **how)
            rows = pd.DataFrame(db.execute(query.encode()).fetchall()).set_index(0)
            assert rows.loc[found.index, 1].tolist() == found["arm"].tolist()
        db.execute("ALTER TABLE people ALTER customer TYPE double precision")
        query = assignment_sql(
            id="customer", key="k", arms=THREE, table="people", dialect="postgres"
        )
        with pytest.raises(psycopg.errors.DataError, match=f"{WRONG_TYPE}double precision"):
            db.execute(query.encode())


@pytest.fixture(scope="module")
def model():
    trial = trial_table(3_000, random_state=3)
    named = {"treatment": "arm", "outcome": "visit", "treated": "mail", "control": "none"}
    return fit_trial_model(trial, **named, model="tm", id="person")


@pytest.fixture(scope="module")
def later():
    people = trial_table(4_000, random_state=9).drop(columns=["arm", "visit"])
    return people.assign(home=[f"h{k // 2}" for k in range(len(people))])


class FewLevels:
    """Stands for a model whose scores tie: a function of the rows, as ``predict`` of any model."""

    def __init__(self, model):
        self.model = model

    def __getattr__(self, name):
        return getattr(self.model, name)

    def predict(self, frame):
        return np.round(self.model.predict(frame) * 5) / 5


def test_of_equal_scores_the_chosen_are_not_the_treated(model, later):
    people = assign(later, id="person", key="ties", model=FewLevels(model), share=0.3).people
    cut = people.loc[people["chosen"], "score"].min()
    for chosen in (True, False):
        at_the_cut = people[(people["score"] == cut) & (people["chosen"] == chosen)]
        n, chance = len(at_the_cut), 0.9 if chosen else 0.1
        assert n > 100
        treated = (at_the_cut["arm"] == "mail").mean()
        assert abs(treated - chance) < 4 * np.sqrt(0.09 / n)


def test_a_model_chooses_and_a_part_explores(model, later):
    found = assign(later, id="person", key="wave 1", model=model, share=0.3)
    people = found.people
    assert abs(people["chosen"].sum() - 0.3 * len(later)) < 1
    assert (
        people.loc[people["chosen"], "score"].min() >= people.loc[~people["chosen"], "score"].max()
    )
    assert people["propensity"].tolist() == np.where(people["chosen"], 0.9, 0.1).tolist()
    treated = (people["arm"] == "mail").to_numpy()
    error = np.sqrt(0.09 / len(later))
    assert abs((treated - people["propensity"]).mean()) < 4 * error
    assert set(found.balance) == {"those the model chose", "the others"}
    assert all(report.ok for report in found.balance.values())
    shuffled = later.sample(frac=1.0, random_state=0)
    again = assign(shuffled, id="person", key="wave 1", model=model, share=0.3, check=False).people
    pd.testing.assert_frame_equal(
        people.set_index("person"), again.set_index("person").loc[people["person"]]
    )


def test_a_model_chooses_whole_households(model, later):
    how = {"id": "person", "key": "w", "model": model, "share": 0.25, "groups": "home"}
    first = assign(later[:1001], check=False, **how).people  # the last home is cut in two
    assert (first.groupby("home")[["arm", "chosen", "propensity"]].nunique() == 1).all(axis=None)
    assert abs(first["chosen"].mean() - 0.25) < 0.002
    then = assign(later, check=False, before=first, **how).people
    both = pd.concat([first, then])
    assert (both.groupby("home")[["arm", "chosen", "propensity"]].nunique() == 1).all(axis=None)


def test_people_who_were_treated_together_in_the_trial_of_the_model_stay_together(model, later):
    knows = copy(model)
    knows.columns = replace(model.columns, groups="home")
    how = {"id": "person", "key": "w", "share": 0.25, "check": False}
    found = assign(later, model=knows, **how)
    assert found.groups == found.to_dict()["groups"] == "home"
    told = assign(later, model=model, groups="home", **how).people
    pd.testing.assert_frame_equal(found.people, told)
    assert assign(later.drop(columns="home"), model=knows, **how).groups is None


def test_one_value_of_a_known_column_in_one_arm_is_no_failure_of_the_check():
    found = assign(table(), id="customer", key="k", arms=HALVES, groups="home")
    assert found.balance["everybody"].ok
    assert found.to_dict()["balance"]["everybody"]["ok"]
    assert assign(table()[["customer"]], id="customer", key="k", arms=HALVES).balance == {}


@pytest.mark.parametrize(
    ("arms", "told"),
    [
        ("control=.5,mail=.6", "add up to 1, got 1.1"),
        ("control=1", "shares between 0 and 1, got '1'"),
        ("control=.5,control=.5", "different names, got 'control'"),
        ("mail", "names and shares, got 'mail'"),
        ({}, "at least two, got 0"),
        ({"a": 0.5, "b": "x"}, "shares between 0 and 1, got 'x'"),
        ({"a": float("nan"), "b": 0.5}, "shares between 0 and 1"),
    ],
)
def test_arms_that_are_none(arms, told):
    with pytest.raises(ValueError, match=f"arms should .*{told}"):
        parse_arms(arms)


def test_shares_that_are_exact():
    assert [str(s) for s in parse_arms("a=1/3,b=1/3,c=1/3").values()] == ["1/3"] * 3
    assert [str(s) for s in parse_arms({"a": 1 / 3, "b": 2 / 3}).values()] == ["1/3", "2/3"]


BAD = [
    ({"id": "custmer"}, "should have the column 'custmer'.*Did you mean 'customer'"),
    ({"id": "town"}, "should have no missing values"),
    ({"id": "home"}, "each person should be in the table once"),
    ({"key": " "}, "key should be a text"),
    ({"arms": None}, "got no arms"),
    ({"share": 0.3}, "got a share without a model"),
    ({"groups": "home", "strata": ["age"]}, "should be in one stratum"),
    ({"strata": ["home"]}, "strata should have several people each"),
    ({"arms": "a=.123,b=.877", "blocked": True}, "a block of at most 100 people"),
]


@pytest.mark.parametrize(("options", "told"), BAD)
def test_bad_input(options, told):
    people = table(random_state=5)
    if "strata" in options and "groups" not in options:
        people["home"] = people["customer"]
    with pytest.raises(ValueError, match=told):
        arms_of(people, **options)


def test_bad_input_beside_a_model(model, later):
    for options, told in (
        ({}, "share should say which part"),
        ({"share": 0.3, "arms": HALVES}, "should be left out with a model"),
        ({"share": 1.0}, "share should be a number strictly between"),
        ({"share": 0.3, "explore": 0.0}, "explore should be a share above 0"),
    ):
        with pytest.raises(ValueError, match=told):
            assign(later, id="person", key="k", model=model, **options)


def test_a_list_of_another_rule_is_refused():
    people = table()
    old = assign(people[:50], id="customer", key="k", arms=THREE, check=False).people
    for options in ({"key": "l"}, {"arms": HALVES}, {"groups": "home"}):
        before = old.assign(home=people["home"][:50])
        with pytest.raises(ValueError, match="the list so far should be of the same key"):
            arms_of(people, **({"key": "k"} | options), before=before)
    with pytest.raises(ValueError, match="the list so far should have the column 'rule'"):
        arms_of(people, before=old.drop(columns="rule"))
    with pytest.raises(ValueError, match=r"got 'arm'\. Rename"):
        assign(people.rename(columns={"customer": "arm"}), id="arm", key="k", arms=THREE)
    with pytest.raises(ValueError, match="should have people, got none"):
        arms_of(people[:0])


@pytest.mark.gate
def test_a_model_of_several_arms_explores_them_all():
    people = make_people(5_000)
    options = {"id": "p", "key": "k", "model": KnowingModel(), "share": 0.5, "explore": 0.2}
    found = assign(people, **options)
    own = found.people
    assert list(own.columns) == [
        "p", "arm", "chance mail", "chance call", "uplift mail", "uplift call", "chosen", "rule",
    ]  # fmt: skip
    assert found.to_dict()["n_chosen"] == 2_500
    # Who gains most gets the arm that helps most, with most of the chance.
    best = np.where(people["age"] > 0.5, "call", "mail")
    some = own["chosen"] != "no"
    assert (own["chosen"][some] == best[some]).all()
    top = np.maximum(people["age"], 1 - people["age"])
    assert top[some].min() >= top[~some].max()
    for label in ("no", "mail", "call"):
        rows = own[own["chosen"] == label]
        chances = [1 - rows["chance mail"] - rows["chance call"], rows["chance mail"]]
        chances += [rows["chance call"]]
        for name, chance in zip(("no", "mail", "call"), chances, strict=True):
            expected = 0.8 if name == label else 0.1
            assert chance.to_numpy() == pytest.approx(expected)
            share, error = (
                (rows["arm"] == name).mean(),
                np.sqrt(expected * (1 - expected) / len(rows)),
            )
            assert abs(share - expected) < 4 * error
    assert set(found.balance) == {f"those to get {arm!r}" for arm in ("no", "mail", "call")}
    assert all(report.ok for report in found.balance.values())
    # Neither the order of the rows nor the time matters to the arm of a choice.
    turned = assign(people[::-1], **options).people.set_index("p").loc[people["p"]]
    assert (turned["chosen"].to_numpy() == own["chosen"].to_numpy()).all()
    assert (turned["arm"].to_numpy() == own["arm"].to_numpy()).all()


@pytest.mark.gate
def test_households_of_a_model_of_several_arms_stay_together():
    people = make_people(2_000)
    people["home"] = np.arange(2_000) // 3
    options = {"id": "p", "key": "k", "model": KnowingModel(), "share": 0.4, "groups": "home"}
    first = assign(people[:1_000], **options)
    for name in ("arm", "chosen", "chance mail"):
        assert first.people.groupby("home")[name].nunique().max() == 1
    later = assign(people, **options, before=first.people)
    whole = pd.concat([first.people, later.people])
    assert later.n_before == 1_000
    assert whole.groupby("home")["arm"].nunique().max() == 1
