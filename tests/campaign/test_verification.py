import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.campaign.campaigns import run_campaign

from auucmax.campaign import ForecastVerdict, verify
from auucmax.campaign.contrasts import Estimate
from auucmax.campaign.forecast import promise_of, verdict_on
from auucmax.campaign.verification import AGAINST

NAMES = {"chosen": "top", "propensity": "chance", "treatment": "mail", "outcome": "visit"}


def plain_rows(seed=0, n=3_000, share=0.3, chances=(0.1, 0.9), effects=(0.0, 0.2)):
    rng = np.random.default_rng(seed)
    top = rng.random(n) < share
    chance = np.where(top, chances[1], chances[0])
    mail = rng.random(n) < chance
    visit = rng.random(n) < 0.2 + np.where(top, effects[1], effects[0]) * mail
    columns = {"top": top, "chance": chance, "mail": mail, "visit": visit}
    return pd.DataFrame({name: values.astype(float) for name, values in columns.items()})


def test_gains_are_those_of_their_formulas():
    table = plain_rows()
    found = verify(table, **NAMES)
    means = table.groupby(["top", "mail"])["visit"].mean()
    rest, top = (means[s, 1] - means[s, 0] for s in (0, 1))
    n_chosen, n = int(table["top"].sum()), len(table)
    treated = table.groupby("top")["mail"].sum()
    expected = {
        "nobody": n_chosen * top,
        "random": n_chosen * (1 - n_chosen / n) * (top - rest),
        "everybody": -(n - n_chosen) * rest,
        "as_run": treated[1] * top + treated[0] * rest,
    }
    assert set(found.comparisons) == set(AGAINST) == set(expected)
    for name, value in expected.items():
        one = found.comparisons[name]
        assert one.estimate == pytest.approx(value)
        assert one.certified_lower < one.lower < one.estimate < one.upper < one.certified_upper
    assert found.promise is None
    assert found.advice is None
    assert found.next_time is None


def test_chances_that_differ_among_the_chosen_do_not_bias():
    """Half of the chosen have a higher base rate and a higher chance: pooled means would lie."""
    rng = np.random.default_rng(0)
    n = 40_000
    top, dear = rng.random(n) < 0.5, rng.random(n) < 0.5
    chance = np.where(top, np.where(dear, 0.9, 0.3), 0.1)
    mail = rng.random(n) < chance
    visit = rng.random(n) < 0.1 + 0.3 * dear  # no effect at all
    table = pd.DataFrame({"top": top, "chance": chance, "mail": mail, "visit": visit})
    right = verify(table, **NAMES).comparisons["nobody"]
    pooled = verify(table, **(NAMES | {"propensity": None})).comparisons["nobody"]
    assert right.lower < 0 < right.upper
    assert pooled.lower > 0


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 1_000))
def test_neither_the_order_of_rows_nor_labels_matter(seed):
    table = plain_rows(seed, n=1_000)
    found = verify(table, **NAMES).to_dict()
    order = np.random.default_rng(seed).permutation(len(table))
    words = table.iloc[order].assign(
        top=lambda t: np.where(t["top"] == 1, "Yes", "No"),
        mail=lambda t: np.where(t["mail"] == 1, "letter", "silence"),
        visit=lambda t: np.where(t["visit"] == 1, "yes", "no"),
    )
    again = verify(words, **NAMES, treated="letter", control="silence").to_dict()
    for name, one in found["comparisons"].items():
        assert again["comparisons"][name] == {
            k: pytest.approx(v) if isinstance(v, float) else v for k, v in one.items()
        }


def test_arms_turned_round_turn_the_gain_round():
    table = plain_rows(chances=(0.5, 0.5))
    one = verify(table, **NAMES).comparisons["nobody"]
    other = verify(table, **NAMES, treated="0", control="1").comparisons["nobody"]
    assert other.estimate == pytest.approx(-one.estimate)
    assert [other.lower, other.upper] == pytest.approx([-one.upper, -one.lower])


def test_lower_is_better_tells_what_was_avoided():
    table = plain_rows()
    turned = table.assign(visit=1 - table["visit"])
    found = verify(turned, **NAMES, lower_is_better=True)
    assert found.outcome == "visit avoided"
    expected = verify(table, **NAMES).comparisons["random"]
    assert found.comparisons["random"].estimate == pytest.approx(expected.estimate)


def test_what_cannot_be_told_is_not_told():
    table = plain_rows()
    never = table.assign(mail=table["mail"] * table["top"], chance=0.9 * table["top"])
    found = verify(never, **NAMES)
    assert found.comparisons["nobody"].estimate is not None
    assert found.comparisons["as_run"].estimate is not None
    for name in ("random", "everybody"):
        assert found.comparisons[name].estimate is None
        assert found.comparisons[name].unknown == "nobody of the rest at a chance of 0 was treated"
    assert (
        "auucmax assign PEOPLE --model MODEL --id ID --key NAME --share .3 --explore .1"
        in found.next_time
    )
    always = table.assign(
        mail=np.where(table["top"] == 1, 1, table["mail"]),
        chance=np.where(table["top"] == 1, 1, 0.1),
    )
    found = verify(always, **NAMES)
    assert found.comparisons["everybody"].estimate is not None
    assert "was left untreated" in found.comparisons["nobody"].unknown
    assert "cannot be told: nobody of the chosen" in str(found)


def test_everybody_chosen_is_compared_with_nobody_only():
    table = plain_rows(share=1.1)
    found = verify(table, **NAMES)
    assert found.comparisons["nobody"].estimate is not None
    assert found.comparisons["random"].unknown == "everybody was chosen"
    assert found.next_time is None


def test_money_needs_a_range_for_a_certificate():
    rng = np.random.default_rng(1)
    table = plain_rows(n=8_000, chances=(0.3, 0.7))
    table["visit"] *= rng.gamma(4, 20, len(table)).round(2)
    found = verify(table, **NAMES)
    assert found.comparisons["nobody"].lower > 0
    assert found.comparisons["nobody"].certified_lower is None
    assert found.certificate.startswith("Nothing is certified, for outcomes are not 0/1")
    bounded = verify(table, **NAMES, outcome_range=(0, 150)).comparisons["nobody"]
    assert 0 < bounded.certified_lower < bounded.estimate


def test_groups_widen_the_interval_and_are_certified_as_a_whole():
    table = plain_rows(n=2_000)
    twice = pd.concat([table, table]).assign(home=[*range(2_000)] * 2)
    rows, homes = verify(twice, **NAMES), verify(twice, **NAMES, groups="home")
    one, other = rows.comparisons["nobody"], homes.comparisons["nobody"]
    assert other.standard_error == pytest.approx(np.sqrt(2) * one.standard_error, rel=0.01)
    # Two rows of a home that are the same tell as much as one.
    once = verify(table, **NAMES).comparisons["nobody"]
    widths = [c.certified_upper - c.certified_lower for c in (one, other, once)]
    assert widths[1] == pytest.approx(2 * widths[2], rel=0.2)
    assert widths[1] > 1.2 * widths[0]
    assert "if groups, each treated as a whole, are independent" in homes.certificate
    about = "Each certified number of people in groups of at most {} holds"
    assert homes.certificate.startswith(about.format(4))
    declared = verify(twice, **NAMES, groups="home", largest_group=3)
    assert declared.certificate.startswith(about.format(3))
    beyond = verify(twice, **NAMES, groups="home", largest_group=1)
    assert "Nothing is certified: groups should have at most 1 rows" in beyond.certificate
    assert beyond.comparisons["nobody"].certified_lower is None


def test_groups_of_several_arms_are_not_certified_and_it_is_said_why():
    """People who were treated one by one within homes."""
    table = plain_rows(n=2_000).assign(home=np.arange(2_000) // 2)
    found = verify(table, **NAMES, groups="home")
    assert found.comparisons["nobody"].certified_lower is None
    assert "Nothing is certified: the rows of a group should be in one arm" in found.certificate


def test_the_forecast_of_the_model_is_what_target_announced_of_the_treated(campaign, model):
    table, listed, truth = campaign
    found = verify(table, chosen="top", propensity="chance", model=model)
    # Of those who were treated: a part of the list, and some of the rest.
    top, whole = listed.expected.gain / found.n_chosen, model.evidence["effect"]["estimate"]
    rest = (whole - 0.3 * top) / 0.7
    forecast = found.n_treated * top + found.n_treated_rest * rest
    assert found.promise.promised == pytest.approx(forecast, rel=0.02)
    assert found.promise.came == found.comparisons["as_run"].estimate
    assert found.promise.promised_error > 0
    assert found.promise.verdict == "confirmed"
    assert found.advice.action == "keep"
    for name, value in truth.items():
        assert found.comparisons[name].lower < value < found.comparisons[name].upper
    # A column of scores does as well as the features.
    scored = table[["top", "chance", "mail", "visit", "person"]].assign(score=model.predict(table))
    again = verify(scored, chosen="top", propensity="chance", model=model)
    assert again.promise == found.promise


def test_the_forecast_of_a_list_alone_is_the_sum_of_its_uplifts(campaign):
    """It has none of people beside the list, so the gain of the listed is compared with it."""
    table, listed, _ = campaign
    options = {k: v for k, v in NAMES.items() if k != "chosen"}
    rows = table.drop(columns="top")
    found = verify(rows, people=listed.chosen(), id="person", **options)
    mailed = (
        listed.chosen()
        .set_index("person")["uplift"]
        .reindex(table["person"][(table["top"] == 1) & (table["mail"] == 1)])
    )
    assert found.promise.promised == pytest.approx(mailed.sum())
    assert found.promise.promised_lower is found.promise.promised_error is None
    assert found.promise.source == "the sum of the uplifts"
    assert found.promise.covers == "the chosen people who were treated"
    gain = found.comparisons["nobody"].estimate * found.n_treated / found.n_chosen
    assert found.promise.came == pytest.approx(gain)
    assert ". The chosen people who were treated gained +" in found.headline
    assert "whose own error is not known" in str(found.promise)


def test_without_exploration_of_the_rest_the_list_forecasts_the_campaign(campaign):
    table, listed, _ = campaign
    options = {k: v for k, v in NAMES.items() if k not in ("chosen", "propensity")}
    rows = table[(table["top"] == 1) | (table["mail"] == 0)].drop(columns="top")
    found = verify(rows, people=listed.chosen(), id="person", **options)
    assert found.promise.covers == "all who were treated"
    assert found.promise.came == found.comparisons["as_run"].estimate


def test_people_who_are_no_top_share_were_promised_their_uplifts(campaign, model):
    """Some with high scores were left out of the list."""
    table = campaign[0]
    score = model.predict(table)
    out = (table["top"] == 1) & (score > np.quantile(score, 0.95))
    found = verify(
        table.assign(top=table["top"].where(~out, 0)), chosen="top", propensity="chance",
        model=model,
    )  # fmt: skip
    assert found.promise.source == "the sum of the uplifts"
    assert found.promise.promised_error > 0  # that of the trial


def test_chances_that_differ_among_the_chosen_are_forecast_by_uplifts(campaign, model):
    """Who was treated is then no random part of the chosen."""
    rng = np.random.default_rng(0)
    table = campaign[0]
    chance = np.where((table["age"] > 1) & (table["top"] == 1), 0.3, table["chance"])
    kept = (table["mail"] == 0) | (rng.random(len(table)) < chance / table["chance"])
    rows = table.assign(chance=chance, mail=table["mail"].where(kept, 0))
    found = verify(rows, chosen="top", propensity="chance", model=model)
    assert found.promise.source == "the sum of the uplifts"
    uplift = model.calibration(model.predict(rows))
    assert found.promise.promised == pytest.approx(uplift[rows["mail"] == 1].sum())


FORECAST = Estimate(443.0, 50.0, 345.0, 541.0)


@pytest.mark.parametrize(
    ("realised", "forecast", "verdict"),
    [
        ((-251.0, 126.0, -498.0, -4.0), FORECAST, "harm"),
        # The forecast is so uncertain that the interval of the difference holds 0.
        ((-251.0, 126.0, -498.0, -4.0), Estimate(443.0, 340.0, -223.0, 1_109.0), "harm"),
        ((-251.0, 126.0, -498.0, -4.0), Estimate(-200.0, 0.0, -200.0, -200.0), "harm"),
        ((222.0, 40.0, 144.0, 300.0), FORECAST, "below_forecast"),
        # The interval of the gain lies below the forecast, but the forecast has an error, too.
        ((340.0, 45.0, 252.0, 428.0), FORECAST, "confirmed"),
        ((340.0, 45.0, 252.0, 428.0), Estimate(443.0, 0.0, 443.0, 443.0), "below_forecast"),
        ((340.0, 75.0, 193.0, 487.0), FORECAST, "too_noisy"),
        ((443.0, 110.0, 227.4, 658.6), FORECAST, "confirmed"),
        ((443.0, 115.0, 217.6, 668.4), FORECAST, "too_noisy"),
        ((100.0, 300.0, -488.0, 688.0), FORECAST, "too_noisy"),
        ((900.0, 100.0, 704.0, 1096.0), FORECAST, "confirmed"),
        ((443.0, 1.0, np.nan, np.nan, "too few rows"), FORECAST, "too_noisy"),
        ((300.0, 10.0, 280.0, 320.0), Estimate(0.0, 0.0, 0.0, 0.0), None),
        ((300.0, 10.0, 280.0, 320.0), Estimate(-50.0, 9.0, -68.0, -32.0), None),
    ],
)
def test_verdicts_on_a_forecast(realised, forecast, verdict):
    assert verdict_on(Estimate(*realised), forecast) == verdict
    found = promise_of(Estimate(*realised), forecast, "the trial")
    assert found.verdict == verdict
    if verdict != "confirmed":
        assert "confirms" not in str(found) + found.said_after("The campaign gained +1")


def test_sentences_on_a_forecast():
    def said(*realised):
        return promise_of(Estimate(*realised), FORECAST, "the trial").said_after("It gained")

    assert said(-251.0, 126.0, -498.0, -4.0) == "It gained. The forecast was 443."
    assert said(222.0, 40.0, 144.0, 300.0) == "It gained, below the forecast of 443."
    assert said(443.0, 60.0, 325.0, 561.0) == "It gained, which confirms the forecast of 443."
    assert said(900.0, 60.0, 782.0, 999.0) == "It gained, above the forecast of 443."
    noisy = "It gained. Consistent with the forecast of 443, but too noisy to confirm it."
    assert said(443.0, 300.0, -145.0, 999.0) == noisy
    unknown = "It gained. Without an interval it cannot be compared with the forecast of 443."
    assert said(443.0, 300.0, np.nan, np.nan, "few rows") == unknown


def test_harm_is_never_a_confirmed_forecast(model):
    """The interval of the gain lies below 0, and that of the difference held 0 once."""
    table = run_campaign(model, 6_000, 5, effect=-0.1)[0].assign(uplift=0.01)
    found = verify(table, chosen="top", propensity="chance", treatment="mail", outcome="visit")
    assert found.comparisons["as_run"].upper < 0 < found.promise.promised
    assert found.promise.verdict is ForecastVerdict.HARM
    assert found.headline.startswith("The campaign did harm: -")
    assert "confirm" not in found.headline


def test_a_gain_below_the_forecast(model):
    table, _, _ = run_campaign(model, 12_000, 5, effect=0.0)
    found = verify(table, chosen="top", propensity="chance", model=model)
    assert found.promise.verdict == "below_forecast"
    assert found.promise.upper < 0
    assert found.advice.action == "refit"
    assert found.headline.startswith("The campaign has no significant gain: ")
    assert ", below the forecast of " in found.headline


def test_few_rows_confirm_nothing(model):
    table, _, _ = run_campaign(model, 400, 6, explore=(0.3, 0.3))
    found = verify(table, chosen="top", propensity="chance", model=model)
    assert found.promise.verdict == "too_noisy"
    assert "Consistent with the forecast of " in found.headline


def test_the_first_line_is_the_gain_of_the_campaign_as_it_was_run():
    table = plain_rows()
    found = verify(table, **NAMES)
    gain = found.comparisons["as_run"]
    line = f"The campaign gained +{gain.estimate:.0f} in visit (95% interval {gain.lower:.0f} to "
    assert str(found).startswith(line)
    assert found.to_dict()["headline"] == found.headline
    assert "forecast" not in str(found)  # there is none
    always = table.assign(mail=np.where(table["top"] == 1, 1, table["mail"]), chance=0.1)
    always["chance"] = np.where(table["top"] == 1, 1, 0.1)
    unknown = verify(always, **NAMES).headline
    assert unknown.startswith("What the campaign gained is not known: nobody of the chosen")


def test_a_model_of_a_failed_trial_promises_nothing(campaign, model):
    failed = "a column was known after treatment"
    broken = replace(
        model,
        evidence=model.evidence.with_facts(failed_check=failed),
    )
    found = verify(campaign[0], chosen="top", propensity="chance", model=broken)
    assert found.promise is None
    assert found.drift == ()
    assert found.advice.action == "refit"
    assert "despite a failed check" in found.advice.reason


def test_json_has_every_number_of_the_text(campaign, model):
    found = verify(campaign[0], chosen="top", propensity="chance", model=model)
    known = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert known["promise"]["verdict"] == "confirmed"
    assert {test["what"].split(":")[0] for test in known["drift"]} == {
        "scores", "people", "base rate", "average effect", "ranking"
    }  # fmt: skip
    text = str(found)
    for one in known["comparisons"].values():
        assert f"{one['estimate']:+,.1f} ({one['lower']:+,.1f} to" in text
    assert known["n_treated"] + known["n_treated_rest"] == campaign[0]["mail"].sum()
    for sentence in found.sentences():
        assert sentence in text


def test_the_model_decides_what_is_better(campaign, model):
    with pytest.raises(ValueError, match="the model decides it"):
        verify(campaign[0], chosen="top", model=model, lower_is_better=True)


def test_without_scores_it_is_said_what_is_missing(campaign, model):
    bare = campaign[0][["top", "chance", "mail", "visit", "person"]]
    found = verify(bare, chosen="top", propensity="chance", model=model)
    assert found.promise is None
    assert any("Scores are not known" in note for note in found.notes)
    assert [test.what for test in found.drift] == ["base rate", "average effect"]


def test_a_seed_gives_the_same_certificate():
    table = plain_rows()
    one, two, other = (verify(table, **NAMES, random_state=k) for k in (1, 1, 2))
    assert one == two
    assert one.comparisons["nobody"].certified_lower != other.comparisons["nobody"].certified_lower


def test_nothing_is_told_where_no_cell_has_both_arms():
    table = plain_rows(n=400)
    half = np.arange(400) % 2
    found = verify(table.assign(mail=half, chance=half), **NAMES)
    assert all(one.estimate is None for one in found.comparisons.values())
    assert found.certificate == "Nothing is certified, for nothing can be told."
    assert "auucmax assign" in found.next_time


@pytest.mark.gate
def test_a_list_without_the_rest_and_a_model_without_features(campaign, model):
    """Scores are known of the chosen alone, as `target` writes them."""
    table, listed, _ = campaign
    bare = table[["person", "chance", "mail", "visit"]]
    found = verify(bare, people=listed.chosen(), propensity="chance", model=model)
    whole = verify(table, chosen="top", propensity="chance", model=model)
    assert found.promise.promised == pytest.approx(whole.promise.promised, rel=1e-6)
    assert "scores" not in {test.what for test in found.drift}


def test_a_table_without_the_ids_of_the_model_will_do(campaign, model):
    found = verify(
        campaign[0].drop(columns="person"), chosen="top", propensity="chance", model=model
    )
    assert found.promise is not None


def odd_rows(rng, kind):
    """A few rows, of any chances, and outcomes of any kind."""
    n = int(rng.integers(2, 60))
    outcomes = {
        "0/1": rng.integers(0, 2, n),
        "zeros": np.zeros(n),
        "numbers": rng.normal(size=n),
        "money": rng.gamma(0.3, 9, n) * (rng.random(n) < 0.4),
        "huge": rng.choice([1e99, 1, 0], n),
    }
    chance = rng.choice([0.5, 0.3, 0.0, 1.0][: rng.integers(1, 5)], n)
    columns = {"chance": chance, "mail": (rng.random(n) < chance).astype(int)}
    columns |= {"top": rng.integers(0, 2, n), "home": rng.integers(0, max(2, n // 3), n)}
    columns |= {"uplift": rng.normal(size=n), "score": rng.choice([1.0, 2, 3], n)}
    return pd.DataFrame(columns | {"visit": outcomes[kind]})


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 100_000),
    kind=st.sampled_from(["0/1", "zeros", "numbers", "money", "huge"]),
    change=st.sampled_from([{}, {"groups": "home"}, {"outcome_range": (-5, 99)}]),
    propensity=st.sampled_from([None, "chance"]),
)
def test_odd_tables_are_told_of_without_a_number_that_is_none(seed, kind, change, propensity):
    table = odd_rows(np.random.default_rng(seed), kind)
    try:
        found = verify(table, **(NAMES | change | {"propensity": propensity}))
    except ValueError:  # nobody chosen, or nobody to compare with: test_campaign.py has the words
        return
    json.dumps(found.to_dict(), allow_nan=False)
    assert "nan" not in str(found)
    for one in found.comparisons.values():
        assert (one.estimate is None) == (one.unknown is not None)
        assert (one.lower is None) == (one.declined is not None or one.unknown is not None)
