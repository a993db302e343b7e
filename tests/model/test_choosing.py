"""Whom to treat of a table, and what the plan says of it."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
from tests.model.trial_table import NAMES, trial_table

from auucmax.model import fit_trial_model, target
from auucmax.present import Economy, summarise_model
from auucmax.present.sentences import decision_of

MONEY = ("cost", "profit", "profit_lower", "profit_upper")


@pytest.fixture(scope="module")
def model():
    return fit_trial_model(trial_table(4_000), **NAMES, id="person", model="tm")


@pytest.fixture(scope="module")
def tied_model():
    """Two levels of the score only."""
    return fit_trial_model(
        trial_table(4_000), **NAMES, id="person", features=["member"], model="tm"
    )


@pytest.fixture(scope="module")
def new():
    return trial_table(1_000, random_state=9).drop(columns=["arm", "visit"])


def check_expected(found, share, *, value=1.0, cost=0.0):
    """Expected is the plan's row at the share, for the number of people who are treated."""
    row, expected = found.plan.at(share), found.expected
    n = found.selection.n_treated
    assert expected.n_treated == n
    # The plan counts from the score of somebody of the trial, which lies a little higher.
    assert 0 <= n - row.n_treated <= 0.01 * len(found.people)
    assert (expected.share, expected.threshold) == (row.share, row.threshold)
    factor = n / row.n_treated if row.n_treated else 0.0
    for end in ("", "_lower", "_upper"):
        gain = getattr(expected, f"gain{end}")
        assert gain == pytest.approx(factor * getattr(row, f"gain{end}"), rel=1e-12)
        profit = getattr(expected, f"profit{end}")
        assert profit == pytest.approx(value * gain - cost * n, rel=1e-12, abs=1e-9)
    assert expected.cost == pytest.approx(cost * n)
    assert expected.gain_lower <= expected.gain <= expected.gain_upper


@pytest.mark.parametrize("share", [0.2, 0.3])
def test_the_report_of_the_same_people_has_the_same_interval(model, share):
    """People of the trial; between two scores that the model keeps, their shares are rounded."""
    people = trial_table(4_000).query("arm != 'phone'")
    n = len(people)
    report = summarise_model(model, economy=Economy(cohort=n, cost=0.2, value=3))
    found = target(model, people, share=share, cost=0.2, value=3).plan
    row, shown, place = found.at(share), report["plan"], round(100 * share)
    for name in ("gain", "gain_lower", "gain_upper"):
        assert getattr(row, name) == pytest.approx(shown[name][place], rel=0.01)
    for end in ("lower", "upper"):  # the same curve and band, with no rounding
        place_of = found.expected.share.searchsorted(share - 1e-9)
        assert getattr(found.expected, end)[place_of] == report["curve"][end][place]
    assert found.best.share == pytest.approx(shown["best_share"], abs=0.02)
    assert found.cautious.share == pytest.approx(shown["cautious_share"], abs=0.02)


@pytest.mark.parametrize("share", [0.2, 0.3, 0.77])
def test_expected_is_the_row_of_the_plan(model, new, share):
    found = target(model, new, share=share, cost=0.2, value=3)
    at = model.evidence.expected.scores.share_of(found.selection.threshold, 1.0)
    check_expected(found, at, cost=0.2, value=3)
    # The scores that the model keeps tell the share of the trial's people to a per cent.
    trial = model.predict(trial_table(4_000).query("arm != 'phone'"))
    assert at == pytest.approx(np.mean(trial >= found.selection.threshold), abs=0.01)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_expected_with_ties(tied_model, new, share):
    found = target(tied_model, new, share=share)
    assert found.selection.n_tied > found.selection.n_tied_treated > 0
    trial = tied_model.predict(trial_table(4_000).query("arm != 'phone'"))
    chosen = found.selection
    part = chosen.n_tied_treated / chosen.n_tied
    at = np.mean(trial > chosen.threshold) + part * np.mean(trial == chosen.threshold)
    check_expected(found, at)
    # Among equals the first rows are treated, and they are on top of the list.
    assert found.people["arm"].tolist() == ["mail"] * chosen.n_treated + ["none"] * (
        len(new) - chosen.n_treated
    )


def test_everybody(model, new):
    found = target(model, new, share=1, cost=0.5, value=2)
    check_expected(found, 1.0, cost=0.5, value=2)
    means = trial_table(4_000).groupby("arm")["visit"].mean()
    effect = means["mail"] - means["none"]
    assert found.expected.gain == pytest.approx(len(new) * effect)
    assert len(found.chosen()) == len(new)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"share": 0.0004}, "a share of 0.0004 of 1,000 people is less than one person"),
        ({"budget": 0.4, "cost": 0.5}, "a budget of 0.4 does not pay for one person at 0.5"),
        (
            {"cost": 100, "value": 1},
            "at no share for which the trial has rows enough is the expected profit above 0",
        ),
    ],
)
def test_nobody(model, new, how, why):
    found = target(model, new, **how)
    assert found.nobody == found.to_dict()["nobody"] == str(found) == f"Treat nobody: {why}."
    assert found.uplift == 0
    assert len(found.chosen()) == 0
    assert found.expected == found.plan.at(0)._replace(effect=found.expected.effect)
    assert found.expected.gain == found.expected.gain_upper == found.expected.cost == 0
    assert found.to_dict()["threshold"] is None
    assert found.to_dict()["expected"]["effect"] is None


def test_a_list_is_advice_only_where_its_gain_or_profit_is_shown(model, new):
    good = target(model, new, share=0.3)
    assert good.decision.is_good
    assert str(good).startswith("Treat 300 of 1,000 people; expected gain ")
    value = 60 / good.expected.gain_upper  # so that a profit may be, and is not shown
    doubtful = target(model, new, share=0.3, cost=0.2, value=value * 1.1)
    assert doubtful.decision.state == "not shown"
    assert doubtful.decision.lead in str(doubtful)
    assert "If you treat 300 of 1,000 people: expected profit " in str(doubtful)
    lost = target(model, new, share=0.3, cost=0.2, value=value * 0.9)
    assert str(lost).startswith("Treating these people is shown to cost more than it brings: ")
    page = summarise_model(model, economy=Economy(cost=0.2, value=value * 0.9), share=0.3)
    assert page["headline"]["text"].startswith(lost.decision.lead)


def test_a_budget_pays_for_as_many_as_it_does(model, new):
    found = target(model, new, budget=100, cost=0.3)
    assert found.selection.n_treated == 333
    assert found.selection.cost == pytest.approx(99.9)
    same = target(model, new, share=0.333, cost=0.3)
    pd.testing.assert_frame_equal(found.people, same.people)
    assert found.expected == same.expected


def test_the_share_of_highest_profit_is_that_of_the_plan(model, new):
    found = target(model, new, cost=0.3, value=2)
    assert found.expected == found.plan.best
    assert found.selection.n_treated == found.plan.best.n_treated
    assert found.plan.best.profit == found.plan.table["profit"].max()


def test_a_treatment_that_is_not_worth_it(model, new):
    found = target(model, new, cost=100, value=1)
    assert found.selection.n_treated == 0
    assert found.expected.profit == 0


@pytest.fixture(scope="module")
def own():
    return trial_table(4_000).query("arm != 'phone'")


def check_adds_up(found):
    """The announced gain is the sum of the list, and the order of scores that of uplifts."""
    uplift, score = found.people["uplift"], found.people["score"]
    assert found.is_own
    assert found.uplift == pytest.approx(found.chosen()["uplift"].sum())
    assert found.uplift == pytest.approx(found.expected.gain)
    assert (np.diff(uplift) <= 1e-12).all()
    assert found.people.groupby(score)["uplift"].agg(np.ptp).max() < 1e-12
    assert "scaled to add up to the expected gain" in found.to_dict()["of_uplift"]


@pytest.mark.quick_cases("0.3")
@pytest.mark.parametrize("share", [0.1, 0.3, 0.77, 1])
def test_uplifts_of_the_own_people_add_up_to_the_gain(model, tied_model, own, share):
    for fitted in (model, tied_model):
        found = target(fitted, own.sample(frac=1, random_state=1), share=share)
        check_adds_up(found)
        without = target(fitted, own.drop(columns=["arm", "visit"]), share=share)
        assert without.uplift == pytest.approx(found.uplift)
        uplift, effect = found.people["uplift"], found.plan.at(1).effect
        # No order is left where the chosen gained less than people did on average.
        if share == 1 or found.expected.effect > effect:
            assert uplift.mean() == pytest.approx(effect)
        else:
            assert uplift.nunique() == 1


def test_few_rows_have_uplifts_that_add_up_too():
    few = trial_table(330).query("arm != 'phone'")
    fitted = fit_trial_model(few, **NAMES, id="person", features=["age"], model="tm")
    assert few["arm"].value_counts().max() < 200
    assert fitted.calibration.n_values > 1
    check_adds_up(target(fitted, few, share=0.5))


def test_other_people_have_two_numbers_and_a_reason(model, new, own):
    twice = own.iloc[np.arange(len(own)) // 2].drop(columns="visit")  # as many, but half of them
    for table in (new, twice, own.iloc[1:], trial_table(4_000)):
        found = target(model, table, share=0.3)
        assert not found.is_own
        assert found.uplift == pytest.approx(found.chosen()["uplift"].sum())
        assert found.uplift != pytest.approx(found.expected.gain, rel=1e-6)
        expected = model.calibration(found.people["score"])
        np.testing.assert_array_equal(found.people["uplift"], expected)
        plain = found.to_dict()
        assert plain["uplift"] == found.uplift
        assert "differs from it: each follows the person's own score" in plain["of_uplift"]


def test_the_list(model, new):
    found = target(model, new, share=0.3)
    people = found.people
    assert people.columns.tolist() == ["person", "rank", "score", "uplift", "decile", "arm"]
    assert sorted(people["person"]) == sorted(new["person"])
    scores = dict(zip(new["person"], model.predict(new), strict=True))
    assert people["score"].tolist() == [scores[person] for person in people["person"]]
    assert people["score"].is_monotonic_decreasing
    assert people["decile"].value_counts().tolist() == [100] * 10
    unnamed = target(model, new.drop(columns="person"), share=0.3).people
    assert new["person"].to_numpy()[unnamed["row"] - 1].tolist() == people["person"].tolist()


@pytest.mark.parametrize("nothing", ["", " ", None])
def test_people_without_an_id_are_not_taken_for_one(model, new, nothing):
    people = new.assign(person=new["person"].where(new.index >= new.index[3], nothing))
    found = target(model, people, share=0.3)
    assert found.repeated == 0
    assert len(found.people) == len(new)


@pytest.mark.filterwarnings("ignore:the scores of the cohort should")
def test_people_above_all_scores_of_the_trial_have_an_unknown_gain(model, new):
    expected = model.evidence.expected
    scores = dataclasses.replace(expected.scores, score=expected.scores.score - 10)
    expected = dataclasses.replace(expected, scores=scores)
    low = dataclasses.replace(
        model, evidence=dataclasses.replace(model.evidence, expected=expected)
    )
    found = target(low, new, share=0.2, cost=1, value=2)
    assert found.selection.n_treated == 200
    assert np.isnan(found.expected.gain)
    plain = found.to_dict()["expected"]
    for name in ("gain", "gain_lower", "gain_upper", "profit", "profit_lower", "effect"):
        assert plain[name] is None
    assert plain["cost"] == 200
    assert "not known: they are not like those of the trial" in found.unknown
    assert (found.certified, found.decision.is_good) == ((), False)
    json.dumps(found.to_dict(), allow_nan=False)


def test_too_few_rows_of_the_trial_for_an_interval(model, new):
    small, large = (target(model, new, share=share) for share in (0.005, 0.5))
    assert small.expected.n_treated == 5
    assert small.to_dict()["expected"]["gain"] is None
    assert small.to_dict()["unknown"] == small.unknown
    assert large.unknown is None
    assert large.to_dict()["expected"]["gain"] == large.expected.gain > 0
    # The rule is one for all rows of the plan: that of the last share before it that was judged.
    judged = model.evidence.expected
    for row in large.to_dict()["plan"]["rows"][1:]:
        last = np.flatnonzero(judged.share <= row["share"] + 1e-9)[-1]
        assert (row["gain"] is None) == (not judged.reliable[last])
    assert not judged.reliable[0]
    assert judged.reliable[-1]


def test_a_trial_that_tells_no_share():
    """Money of so few people that no interval can be said, not even that of everybody."""
    rng = np.random.default_rng(0)
    x, mail = rng.normal(size=500), rng.integers(0, 2, 500)
    buys = rng.random(500) < 0.16 + 0.3 * mail * (x > 0)
    table = pd.DataFrame({"x": x, "mail": mail, "spend": np.exp(rng.normal(3, 1, 500)) * buys})
    vague = fit_trial_model(table, treatment="mail", outcome="spend", model="tm")
    found = target(vague, table, share=1)
    assert found.unknown.startswith("What treating these people brings is not known: 500 of the 50")
    assert found.unknown.endswith(" It is known of no share.")
    assert found.decision.lead == "For these people a gain is not shown."
    nobody = target(vague, table, cost=1, value=1).nobody
    assert nobody == (
        "Treat nobody: the trial has rows enough at no share, so that no profit is known."
    )
    assert str(vague.evidence.decision_at(0.5, "them").lead) == "For them a gain is not shown."


def test_without_money_there_is_no_profit(model, new):
    plain = target(model, new, share=0.3).to_dict()
    assert plain["cost"] is plain["plan"]["best"] is plain["plan"]["cautious"] is None
    assert plain["plan"]["value"] is plain["plan"]["cost"] is None
    for row in (plain["expected"], *plain["plan"]["rows"]):
        assert all(row[name] is None for name in MONEY)
    plain = target(model, new, budget=100, cost=0.3).to_dict()
    assert plain["cost"] == pytest.approx(99.9)
    assert plain["expected"]["cost"] == pytest.approx(99.9)
    assert plain["expected"]["profit"] is plain["plan"]["best"] is None
    plain = target(model, new, share=0.3, cost=0.3, value=2).to_dict()
    assert plain["expected"]["profit"] > 0
    assert plain["plan"]["best"]["profit"] > 0


@pytest.mark.parametrize("name", ["rank", "score", "uplift", "decile", "arm"])
def test_an_id_that_has_the_name_of_another_column(model, new, name):
    columns = dataclasses.replace(model.columns, id=name)
    same = dataclasses.replace(model, columns=columns)
    expected = target(model, new, share=0.3).people
    found = target(same, new.rename(columns={"person": name}), share=0.3).people
    pd.testing.assert_frame_equal(
        found, expected.rename(columns={"person": name, name: f"auucmax_{name}"})
    )


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({}, "got none of them"),
        ({"value": 3}, "got a value without a cost"),
        ({"cost": 3}, "got a cost without a value"),
        ({"share": 0.1, "budget": 3, "cost": 1}, "got both"),
        ({"budget": 3}, "should come with the cost"),
        ({"budget": 3, "cost": 0}, "should come with the cost"),
        ({"share": 30}, "between 0 and 1, got 30. 0.3 means"),
        ({"share": np.nan}, "between 0 and 1"),
        ({"budget": -3, "cost": 1}, "budget should be a number, 0 or more"),
        ({"cost": -3, "value": 1}, "cost should be a number, 0 or more"),
        ({"cost": 3, "value": np.inf}, "value should be a number, 0 or more"),
    ],
)
def test_what_is_no_policy(model, new, policy, words):
    with pytest.raises(ValueError, match=words):
        target(model, new, **policy)


def test_what_is_certified_goes_with_share_value_and_cost(model, new):
    known = model.evidence["certified_shares"]
    assert len(known["share"]) == len(known["gain_lower"]) == 20
    found = target(model, new, share=0.3, cost=0.2, value=10)
    near = found.certified_near
    assert near.share == pytest.approx(0.3)
    assert near.gain == pytest.approx(1000 * known["gain_lower"][5])
    assert 0.25 < near.share_upper == known["share_upper"][5] < 0.4
    assert near.profit == pytest.approx(10 * near.gain - 0.2 * 1000 * near.share_upper)
    assert near.gain < found.expected.gain
    assert found.certified_best.profit == max(own.profit for own in found.certified)
    assert found.to_dict()["certified"][5] == near._asdict()
    free = target(model, new, share=0.3)
    assert free.certified_near.profit is free.certified_best is None


def test_a_decision_is_certified_at_the_cut_that_was_certified_alone(model, new):
    """Of people whose own interval holds 0 nothing is certified by what is of others."""
    facts = {"certified_shares": model.evidence["certified_shares"] | {"gain_lower": [0.01] * 20}}
    sure = dataclasses.replace(model, evidence=model.evidence.with_facts(**facts))
    states = {share: target(sure, new, share=share).decision.state for share in (0.3, 0.32, 0.03)}
    assert states[0.3] == "certified"
    assert "certified" not in (states[0.32], states[0.03])
    for share, state in states.items():
        assert (sure.evidence.decision_at(share, "them").state == "certified") == (share == 0.3)
        page = summarise_model(sure, share=share)
        assert (decision_of(page).state == "certified") == (state == "certified")


def test_a_model_with_rows_held_out_is_certified_itself(new):
    model = fit_trial_model(trial_table(4_000), **NAMES, id="person", model="tm", hold_out=0.5)
    known = model.evidence["certified_shares"]
    assert "by this ranking gains" in known["text"]
    assert target(model, new, share=0.5).certified_near.share == 0.5


@pytest.mark.gate
def test_nothing_is_certified_of_few_rows_or_groups(new):
    few = fit_trial_model(trial_table(300), **NAMES, id="person", model="tm")
    found = few.evidence["certified_shares"]
    assert found is None or len(found["share"]) <= 4
    table = trial_table(2_000)
    grouped = table.assign(home=np.arange(len(table)))
    model = fit_trial_model(grouped, **NAMES, groups="home", ignore=["person"], model="tm")
    assert model.evidence["certified_shares"] is None
    assert target(model, new.assign(home=0), share=0.3).certified_near is None
