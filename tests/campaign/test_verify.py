"""What a campaign gained: against formulas, the truth, its list, its forecast and its check."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.campaign.people import ARMS, run_campaign

from auucmax.campaign import verify
from auucmax.campaign.verify import ForecastVerdict, Verification, verdict_on
from auucmax.data import FailedCheckError
from auucmax.results import Estimate, State, Why

NAMES = {"chosen": "top", "propensity": "chance", "treatment": "mail", "outcome": "visit"}
EVERYONE = ("everyone", "1")


def plain_rows(seed=0, n=3_000, share=0.3, chances=(0.1, 0.9), effects=(0.0, 0.2)):
    rng = np.random.default_rng(seed)
    top = rng.random(n) < share
    chance = np.where(top, chances[1], chances[0])
    mail = rng.random(n) < chance
    visit = rng.random(n) < 0.2 + np.where(top, effects[1], effects[0]) * mail
    columns = {"top": top, "chance": chance, "mail": mail, "visit": visit}
    frame = pd.DataFrame({name: values.astype(float) for name, values in columns.items()})
    return frame.astype({"top": int, "mail": int, "visit": int})


def n_people(found):
    return sum(sum(cell.given) for cell in found.cells)


def test_gains_are_those_of_their_formulas():
    table = plain_rows()
    found = verify(table, **NAMES, cost=0.1, value=2.0)
    means = table.groupby(["top", "mail"])["visit"].mean()
    rest, top = (means[s, 1] - means[s, 0] for s in (0, 1))
    n_chosen, n = int(table["top"].sum()), len(table)
    treated = table.groupby("top")["mail"].sum()
    expected = {
        ("nobody", None): (n_chosen * top, n_chosen),
        ("random", None): (n_chosen * (1 - n_chosen / n) * (top - rest), 0),
        EVERYONE: (-(n - n_chosen) * rest, n_chosen - n),
        ("as run", None): (treated[1] * top + treated[0] * rest, treated.sum()),
    }
    assert {(one.against, one.arm) for one in found.comparisons} == {*expected}
    for name, (value, n_more) in expected.items():
        one = found.against(*name)
        assert one.gain.value == pytest.approx(value)
        assert one.certified_lower < one.gain.lower < value < one.gain.upper < one.certified_upper
        assert one.profit.value == pytest.approx(2 * value - 0.1 * n_more)
        assert one.profit.upper == pytest.approx(2 * one.gain.upper - 0.1 * n_more)
    assert (found.forecast, found.state) == (None, State.GUARANTEED)
    assert {cell.chosen: sum(cell.given) for cell in found.cells} == {
        "0": n - n_chosen, "1": n_chosen
    }  # fmt: skip
    assert Verification.from_json(found.to_json()) == found


def test_gains_of_several_arms_are_those_of_their_formulas(arms_model):
    table, listed, truth = run_campaign(arms_model)
    found = verify(table, people=listed, model=arms_model, cost=[0.1, 0.3], value=1.0)
    rows = listed.assign(visit=table["visit"])
    means = rows.groupby(["chosen", "arm"])["visit"].mean()
    sizes = rows["chosen"].value_counts()
    gain = sum(sizes[own] * (means[own, own] - means[own, "no"]) for own in ARMS)
    assert found.against("nobody").gain.value == pytest.approx(gain)
    share = sizes / len(rows)
    random = sum(
        sizes[own] * (means[own, own] - sum(share[k] * means[own, k] for k in ARMS)) for own in ARMS
    )
    assert found.against("random").gain.value == pytest.approx(random)
    price = {"no": 0.0, "call": 0.1, "mail": 0.3}
    spent = sum(price[own] * sizes[own] for own in ARMS)
    assert found.against("nobody").profit.value == pytest.approx(gain - spent)
    for (name, arm), value in truth.items():
        one = found.against(name, arm)
        assert abs(one.gain.value - value) < 4 * one.gain.se
        assert one.certified_lower < one.gain.lower < one.gain.upper < one.certified_upper
    assert found.forecast.verdict == ForecastVerdict.CONFIRMED
    assert found.roles.arms == ARMS


def test_propensities_that_differ_among_the_chosen_do_not_bias():
    """Half of the chosen have a higher base rate and propensity: pooled means would be wrong."""
    rng = np.random.default_rng(0)
    n = 40_000
    top, dear = rng.random(n) < 0.5, rng.random(n) < 0.5
    chance = np.where(top, np.where(dear, 0.9, 0.3), 0.1)
    mail = rng.random(n) < chance
    visit = rng.random(n) < 0.1 + 0.3 * dear  # no effect at all
    table = pd.DataFrame({"top": top, "chance": chance, "mail": mail, "visit": visit})
    right = verify(table, **NAMES).against("nobody").gain
    pooled = verify(table, **(NAMES | {"propensity": None})).against("nobody").gain
    assert right.lower < 0 < right.upper
    assert pooled.lower > 0


@settings(deadline=None, max_examples=5)
@given(seed=st.integers(0, 1_000))
def test_neither_the_order_of_rows_nor_labels_matter(seed):
    table = plain_rows(seed, n=1_000)
    found = verify(table, **NAMES)
    order = np.random.default_rng(seed).permutation(len(table))
    words = table.iloc[order].assign(
        top=lambda t: np.where(t["top"] == 1, "Yes", "No"),
        mail=lambda t: np.where(t["mail"] == 1, "letter", "silence"),
        visit=lambda t: np.where(t["visit"] == 1, "yes", "no"),
    )
    again = verify(words, **NAMES, treated="letter", control="silence")
    for one, other in zip(found.comparisons, again.comparisons, strict=True):
        assert other.gain.value == pytest.approx(one.gain.value)
        assert other.gain.lower == pytest.approx(one.gain.lower)


def test_lower_is_better_counts_what_was_avoided():
    table = plain_rows()
    turned = table.assign(visit=1 - table["visit"])
    found = verify(turned, **NAMES, lower_is_better=True).against("random")
    assert found.gain.value == pytest.approx(verify(table, **NAMES).against("random").gain.value)
    harmed = verify(turned, **NAMES)
    assert harmed.state == State.HARM
    assert harmed.against("random").gain.upper < 0


def test_what_is_not_known_is_left_out():
    table = plain_rows()
    never = table.assign(mail=table["mail"] * table["top"], chance=0.9 * table["top"])
    found = verify(never, **NAMES)
    assert found.against("nobody").gain is not None
    assert found.against("as run").gain is not None
    for name in (("random", None), EVERYONE):
        one = found.against(*name)
        assert one.gain is one.certified_lower is None
        cell, arm = one.lacking
        assert (found.cells[cell].chosen, found.cells[cell].propensity, arm) == ("0", 0.0, "1")
    always = table.assign(
        mail=np.where(table["top"] == 1, 1, table["mail"]),
        chance=np.where(table["top"] == 1, 1, 0.1),
    )
    found = verify(always, **NAMES)
    assert found.against(*EVERYONE).gain is not None
    assert found.against("nobody").lacking[1] == "0"
    assert found.state == State.UNKNOWN
    neither = always[(always["top"] == 1) | (always["mail"] == 0)].assign(
        chance=lambda t: t["top"] * 1.0
    )
    with pytest.raises(ValueError, match="at random") as error:
        verify(neither, **NAMES)
    assert error.value.parameter == "table"


def test_if_everybody_was_chosen_random_people_are_the_same_people():
    table = plain_rows(share=1.1)
    found = verify(table, **NAMES)
    assert found.against("nobody").gain.value > 0
    for name in (("random", None), EVERYONE):
        one = found.against(*name)
        assert (one.gain.value, one.gain.lower, one.certified_lower) == (0.0, 0.0, 0.0)


def test_money_needs_a_range_for_a_certificate():
    rng = np.random.default_rng(1)
    table = plain_rows(n=8_000, chances=(0.3, 0.7)).astype({"visit": float})
    table["visit"] *= rng.gamma(4, 20, len(table)).round(2)
    found = verify(table, **NAMES)
    assert found.against("nobody").gain.lower > 0
    assert found.against("nobody").certified_lower is None
    assert found.certificate_missing == Why.NO_RANGE
    assert found.state == State.SIGNIFICANT
    bounded = verify(table, **NAMES, outcome_range=(0, 150)).against("nobody")
    assert 0 < bounded.certified_lower < bounded.gain.value
    narrow = verify(table, **NAMES, outcome_range=(0, 1))
    assert narrow.certificate_missing == Why.NARROW_RANGE


def test_groups_widen_the_interval_and_are_certified_as_a_whole():
    table = plain_rows(n=2_000)
    twice = pd.concat([table, table]).assign(home=[*range(2_000)] * 2)
    rows, homes = verify(twice, **NAMES), verify(twice, **NAMES, groups="home")
    one, other = rows.against("nobody"), homes.against("nobody")
    assert other.gain.se == pytest.approx(np.sqrt(2) * one.gain.se, rel=0.01)
    # Two identical rows of a home say as much as one.
    once = verify(table, **NAMES).against("nobody")
    widths = [c.certified_upper - c.certified_lower for c in (one, other, once)]
    assert widths[1] == pytest.approx(2 * widths[2], rel=0.2)
    assert widths[1] > 1.2 * widths[0]
    assert homes.largest_group == 4
    assert verify(twice, **NAMES, groups="home", largest_group=3).largest_group == 3
    beyond = verify(twice, **NAMES, groups="home", largest_group=1)
    assert beyond.certificate_missing == Why.GROUPS
    assert beyond.against("nobody").certified_lower is None


def test_groups_of_several_arms_are_not_certified():
    """People who were treated one by one within homes."""
    table = plain_rows(n=2_000).assign(home=np.arange(2_000) // 2)
    found = verify(table, **NAMES, groups="home")
    assert found.against("nobody").certified_lower is None
    assert found.certificate_missing == Why.GROUPS


# The forecast


def test_the_forecast_of_the_model_is_that_of_the_treated(model):
    table, listed, truth = run_campaign(model)
    found = verify(table, people=listed, model=model)
    chosen, treated = listed["chosen"], listed["arm"] == "call"
    curve = model.evidence.arms[0].curve
    at = np.interp(0.4, curve.spend, curve.gain)
    top, rest = at / 0.4, (curve.gain[-1] - at) / 0.6
    in_trial = (chosen & treated).sum() * top + (~chosen & treated).sum() * rest
    own = found.forecast
    assert own.forecast.value == pytest.approx(model.uplift(table)[treated, 0].sum())
    assert own.forecast.value == pytest.approx(in_trial, rel=0.05)
    assert own.all_treated
    assert own.realised == found.against("as run").gain
    share = treated.mean()
    assert own.forecast.se == pytest.approx(len(table) * np.interp(share, curve.spend, curve.se))
    assert own.verdict == ForecastVerdict.CONFIRMED
    for (name, arm), value in truth.items():
        one = found.against(name, "call" if arm else None).gain
        assert one.lower < value < one.upper
    # A column of uplifts does as well as the features.
    scored = table[["person", "visit"]]
    again = verify(scored, people=listed, model=model)
    assert again.forecast.forecast.value == pytest.approx(own.forecast.value)


def test_the_forecast_of_a_list_alone_is_the_sum_of_its_uplifts(model):
    """Nothing is known of people beside the list, so the chosen are compared."""
    table, listed, _ = run_campaign(model)
    people = listed[listed["chosen"]].assign(uplift=0.1)[["person", "uplift"]]
    rows = table[["person", "visit"]].merge(listed[["person", "arm", "propensity"]])
    named = {"treatment": "arm", "outcome": "visit", "id": "person", "control": "no"}
    found = verify(rows, people=people, propensity="propensity", **named)
    n_treated = (listed["chosen"] & (listed["arm"] == "call")).sum()
    assert found.forecast.forecast.value == pytest.approx(0.1 * n_treated)
    assert not found.forecast.all_treated
    # Its error is not known, so no gain is below it.
    own = found.forecast
    assert own.forecast.se is own.difference.se is own.difference.upper is None
    too_much = verify(rows, people=people.assign(uplift=0.9), propensity="propensity", **named)
    assert too_much.forecast.realised.upper < too_much.forecast.forecast.value
    assert too_much.forecast.verdict == ForecastVerdict.TOO_NOISY
    gain = found.against("nobody").gain.value * n_treated / listed["chosen"].sum()
    assert found.forecast.realised.value == pytest.approx(gain)


def estimate(value, se, lower=None, upper=None):
    return Estimate(value=value, se=se, lower=lower, upper=upper)


FORECAST = estimate(443.0, 50.0, 345.0, 541.0)


@pytest.mark.parametrize(
    ("realised", "forecast", "verdict"),
    [
        ((-251.0, 126.0, -498.0, -4.0), FORECAST, "harm"),
        # The forecast is so uncertain that the interval of the difference holds 0.
        ((-251.0, 126.0, -498.0, -4.0), estimate(443.0, 340.0, -223.0, 1_109.0), "harm"),
        ((-251.0, 126.0, -498.0, -4.0), estimate(-200.0, 0.0, -200.0, -200.0), "harm"),
        ((222.0, 40.0, 144.0, 300.0), FORECAST, "below forecast"),
        # The interval of the gain lies below the forecast, but the forecast has an error, too.
        ((340.0, 45.0, 252.0, 428.0), FORECAST, "confirmed"),
        ((340.0, 45.0, 252.0, 428.0), estimate(443.0, 0.0, 443.0, 443.0), "below forecast"),
        # Without an error of the forecast nothing is below it.
        ((340.0, 45.0, 252.0, 428.0), estimate(443.0, None), "confirmed"),
        ((100.0, 10.0, 80.0, 120.0), estimate(443.0, None), "too noisy"),
        ((-251.0, 126.0, -498.0, -4.0), estimate(443.0, None), "harm"),
        ((340.0, 75.0, 193.0, 487.0), FORECAST, "too noisy"),
        ((443.0, 110.0, 227.4, 658.6), FORECAST, "confirmed"),
        ((443.0, 115.0, 217.6, 668.4), FORECAST, "too noisy"),
        ((100.0, 300.0, -488.0, 688.0), FORECAST, "too noisy"),
        ((900.0, 100.0, 704.0, 1096.0), FORECAST, "confirmed"),
        ((443.0, 1.0), FORECAST, "too noisy"),
        ((300.0, 10.0, 280.0, 320.0), estimate(0.0, 0.0, 0.0, 0.0), None),
        ((300.0, 10.0, 280.0, 320.0), estimate(-50.0, 9.0, -68.0, -32.0), None),
    ],
)
def test_verdicts_on_a_forecast(realised, forecast, verdict):
    assert verdict_on(estimate(*realised), forecast) == verdict


@pytest.mark.parametrize("which", ["model", "arms_model"])
def test_harm_a_small_gain_and_few_rows_confirm_nothing(which, request):
    fitted = request.getfixturevalue(which)
    for factor, n, verdicts in (
        (-0.5, 6_000, {"harm"}), (0.0, 9_000, {"below forecast", "harm"}),
        (1.0, 400, {"too noisy", "confirmed"}),
    ):  # fmt: skip
        table, listed, _ = run_campaign(fitted, n, factor=factor)
        found = verify(table, people=listed, model=fitted)
        assert found.forecast.verdict in verdicts
    assert found.state != State.HARM


# Lists, columns and checks


def test_a_list_of_target_says_who_was_chosen(model, arms_model):
    for fitted in (model, arms_model):
        table, listed, _ = run_campaign(fitted)
        label = listed["chosen"].replace({True: "call", False: "no"})
        chosen = listed[["person"]].assign(arm=label)[label != "no"]
        rows = table.merge(listed.drop(columns=["chosen", "rule", "score"], errors="ignore"))
        named = {"propensity": "propensity" if fitted is model else "chance"}
        found = verify(rows, people=chosen, model=fitted, **named)
        own = verify(table, people=listed, model=fitted)
        for one, other in zip(found.comparisons, own.comparisons, strict=True):
            assert one.gain.value == pytest.approx(other.gain.value)


def test_a_list_of_an_assignment_has_arms_propensities_and_groups(model):
    table, listed, _ = run_campaign(model, n=2_000)
    found = verify(table, people=listed, model=model)
    assert found.cells[0].propensity is not None
    assert found.roles.groups is None
    assert {*found.cells[0].p_values} == {"propensity", "balance"}
    fewer = verify(table[100:], people=listed, model=model)
    assert (fewer.n_absent, n_people(fewer)) == (100, 1_900)
    more = verify(table, people=listed[100:], model=model)
    assert (more.n_not_in_list, n_people(more)) == (100, 1_900)
    own = listed[["person"]].assign(home=np.arange(2_000) // 2)
    in_homes = own.merge(listed, on="person")
    assert verify(table, people=in_homes, model=model).roles.groups == "home"


def test_rows_without_an_outcome_are_left_out_and_compared():
    table = plain_rows(n=4_000).astype({"visit": float})
    lost = np.random.default_rng(0).random(4_000) < 0.1
    table["visit"] = table["visit"].where(~lost)
    found = verify(table, **NAMES, drop_missing_outcomes=True)
    assert found.n_without_outcome == lost.sum()
    assert "missing outcomes" in found.cells[0].p_values
    table["visit"] = table["visit"].where((table["mail"] == 0) | ~(np.arange(4_000) % 5 == 0))
    with pytest.raises(FailedCheckError, match="missing outcomes"):
        verify(table, **NAMES, drop_missing_outcomes=True)
    with pytest.raises(ValueError, match="known in every row"):
        verify(table, **NAMES)


def test_arms_that_were_not_given_as_planned_are_refused(model, arms_model):
    for fitted in (model, arms_model):
        table, listed, _ = run_campaign(fitted)
        lost = (listed["arm"] == "no") & (np.arange(len(listed)) % 3 == 0)
        with pytest.raises(FailedCheckError, match="propensity"):
            verify(table[~lost], people=listed[~lost], model=fitted)
    table, listed, _ = run_campaign(model)
    left = listed.drop(columns="propensity")
    young = table["age"] < table.loc[listed["chosen"], "age"].median()
    kept = ~((left["arm"] == "no") & left["chosen"] & young)
    with pytest.raises(FailedCheckError, match="balance"):
        verify(table[kept], people=left[kept], model=model)


def test_groups_are_drawn_as_a_whole():
    """Of groups of ten, arms of 1 in 2: counts of rows would contradict the propensity."""
    rng = np.random.default_rng(3)
    home = np.repeat(np.arange(200), 10)
    top, mail = ((rng.random(200) < part)[home] for part in (0.5, 0.62))
    visit = rng.random(2_000) < 0.3
    table = pd.DataFrame({"top": top, "chance": 0.5, "mail": mail, "visit": visit, "home": home})
    found = verify(table, **NAMES, groups="home")
    assert min(p for cell in found.cells for p in cell.p_values.values()) > 1e-3
    with pytest.raises(FailedCheckError):
        verify(table, **NAMES)


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"chosen": None}, "chosen"),
        ({"people": pd.DataFrame({"person": [1]})}, "chosen"),
        ({"treatment": None}, "treatment"),
        ({"outcome": None}, "outcome"),
        ({"propensity": "large"}, "propensity"),
        ({"propensity": "many"}, "propensity"),
        ({"chosen": "part"}, "chosen"),
        ({"chosen": "letters"}, "chosen"),
        ({"chosen": "nobody"}, "table"),
        ({"chosen": None, "people": pd.DataFrame({"person": [1]})}, "id"),
        ({"chosen": None, "people": pd.DataFrame({"id": [1, 1]}), "id": "id"}, "people"),
        ({"chosen": None, "people": pd.DataFrame({"id": ["x"]}), "id": "id"}, "people"),
    ],
)
def test_bad_input(options, parameter):
    n = 3_000
    table = plain_rows().assign(
        large=2.0, many=np.linspace(0.1, 0.9, n), letters="x", nobody=0, id=range(n)
    )
    table["part"] = table["top"].astype(float).where(table.index > 5)
    with pytest.raises(ValueError, match="should be") as error:
        verify(table, **(NAMES | options))
    assert error.value.parameter == parameter


def test_a_model_names_the_columns(model):
    table, listed, _ = run_campaign(model, n=2_000)
    with pytest.raises(ValueError, match="as the model was fitted") as error:
        verify(table, people=listed, model=model, outcome="age")
    assert error.value.parameter == "outcome"


def test_people_without_an_outcome_are_counted_and_not_their_groups():
    """In a table that is sorted by arm, as are the numbers of its groups."""
    table = plain_rows(n=2_000).sort_values("mail", kind="stable", ignore_index=True)
    homes = table.loc[table.index.repeat(2)].reset_index(drop=True)
    homes["home"] = [f"h{k // 2}" for k in range(4_000)]
    homes["score"] = np.random.default_rng(5).random(2_000).repeat(2)
    homes["visit"] = homes["visit"].astype(float).where(homes.index // 2 % 10 > 0)
    found = verify(homes, **NAMES, groups="home", drop_missing_outcomes=True)
    assert found.n_without_outcome == 400
    assert {*found.cells[0].p_values} == {"propensity", "missing outcomes", "balance"}
