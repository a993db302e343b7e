import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from auucmax import (
    Trial,
    auuc_difference,
    auuc_inference,
    certify,
    check_randomisation,
    load_hillstrom,
    make_trial,
    policy_risk,
)
from auucmax.metrics import uplift_band
from auucmax.present import VERSION, Economy, Names, render, summarise
from auucmax.present.summary import _campaign
from auucmax.targeting import plan

GRID = np.linspace(0, 1, 101)


def test_summary_is_plain_json_and_comes_back_the_same(summary):
    text = json.dumps(summary, allow_nan=False)
    assert json.loads(text) == summary
    assert summary["version"] == VERSION


def test_curve_is_that_of_the_band(summary, material):
    band = uplift_band(material.y, material.score, treatment=material.treatment, shares=GRID)
    assert summary["curve"]["uplift"] == band.uplift.tolist()
    assert summary["curve"]["lower"] == band.simultaneous_lower.tolist()
    assert summary["curve"]["upper"] == band.simultaneous_upper.tolist()
    assert summary["effect"]["lower"] == band.lower[-1]
    assert summary["headline"]["gain"] == band.uplift[30]
    assert summary["headline"]["lower"] == band.simultaneous_lower[30]
    assert summary["headline"]["upper"] == band.simultaneous_upper[30]


def test_one_share_has_one_interval(summary):
    """On the page: headline, curve and plan; the last in people of the cohort."""
    head, curve, plan = (summary[name] for name in ("headline", "curve", "plan"))
    for end in ("lower", "upper"):
        assert head[end] == curve[end][30]
        assert plan[f"gain_{end}"][30] == pytest.approx(plan["cohort"] * head[end])
    assert "for all shares at once)" in head["text"]


def test_auuc_rivals_risk_and_tenths_are_those_of_the_library(summary, material):
    y, score, t = material.y, material.score, material.treatment
    found = auuc_inference(y, score, treatment=t)
    assert (summary["auuc"]["estimate"], summary["auuc"]["gain"]) == (found.estimate, found.gain)
    for rival in summary["rivals"]:
        other = material.rivals[rival["name"]]
        difference = auuc_difference(y, score, other, treatment=t)
        assert rival["difference"]["estimate"] == difference.estimate
        assert (rival["difference"]["lower"], rival["difference"]["upper"]) == difference.interval
        curve = uplift_band(y, other, treatment=t, shares=GRID).uplift
        np.testing.assert_allclose(rival["uplift"], curve, atol=1e-12)
    np.testing.assert_array_equal(
        summary["plan"]["risk"], policy_risk(y, score, treatment=t, share=GRID)
    )
    tenths = np.diff(uplift_band(y, score, treatment=t, shares=GRID).uplift[::10]) / 0.1
    np.testing.assert_allclose(summary["deciles"]["uplift"], tenths)
    assert len(summary["deciles"]["predicted"]) == 10


def test_plan_is_that_of_targeting(summary, material):
    found = plan(
        material.y,
        material.score,
        treatment=material.treatment,
        n_people=20_000,
        value=4.0,
        cost=0.1,
        shares=GRID,
    )
    table, shown = found.table, summary["plan"]
    assert shown["people"] == table["n_treated"].tolist()
    for name in ("share", "cost", "gain", "gain_lower", "profit", "profit_upper"):
        assert shown[name] == table[name].tolist(), name
    assert shown["best_share"] == found.best.share
    assert shown["cautious_share"] == found.cautious.share
    # Intervals along the slider are simultaneous: gain = N times the curve.
    np.testing.assert_allclose(shown["gain_lower"], 2e4 * np.array(summary["curve"]["lower"]))


def test_the_first_share_is_that_of_the_highest_profit(material):
    m = material
    for value, share in ((4.0, None), (0.0, 0.3)):
        money = Economy(cost=0.1, value=value)
        found = summarise(m.y, m.score, treatment=m.treatment, economy=money)
        assert found["headline"]["share"] == (share or found["plan"]["best_share"])
    without = summarise(m.y, m.score, treatment=m.treatment, economy=Economy(cost=0.1))
    assert without["headline"]["share"] == 0.3


def test_headline_gives_the_share_of_the_effect(summary):
    head = summary["headline"]
    assert head["ratio"] == pytest.approx(head["gain"] / summary["effect"]["estimate"])
    assert head["ratio_lower"] < head["ratio"] < head["ratio_upper"]
    assert f"gives {head['ratio']:.0%} of the effect of treating everyone" in head["part"]


def test_headline_states_no_ratio_without_an_effect():
    trial = make_trial(2000, ate=0.0, heterogeneity=0.5, random_state=0)
    found = summarise(trial.y, trial.X.iloc[:, 0], treatment=trial.treatment)
    assert found["headline"]["ratio"] is None
    assert "is not shown to be above zero" in found["headline"]["part"]
    harmful = summarise(
        1 - trial.y * (1 - trial.treatment), trial.effect, treatment=trial.treatment
    )
    assert harmful["headline"]["ratio"] is not None
    swapped = summarise(
        1 - trial.y * (1 - trial.treatment), trial.effect, treatment=1 - trial.treatment
    )
    assert "is below zero" in swapped["headline"]["part"]


def test_headline_states_no_ratio_if_the_effect_is_just_above_zero():
    """Above zero by itself, and not by the multiple that holds for all shares."""
    for seed in range(20):
        trial = make_trial(1500, ate=0.045, random_state=seed)
        found = summarise(trial.y, trial.X.iloc[:, 0], treatment=trial.treatment)
        if found["effect"]["lower"] > 0 and found["headline"]["ratio"] is None:
            assert "is not far enough above zero" in found["headline"]["part"]
            return
    raise AssertionError("no trial has such an effect")


def test_money_has_no_risk_and_is_told_per_100_people():
    trial = load_hillstrom(outcome="spend")
    found = summarise(trial.y, trial.X["womens"], treatment=trial.treatment)
    assert found["plan"]["risk"] is None
    assert (found["unit"]["scale"], found["unit"]["per"]) == (100, "per 100 people")
    assert found["rows"]["outcome"] == "money with zeros"
    assert found["rows"]["events_treated"] == int((trial.y[trial.treated] > 0).sum())
    effect = 100 * (trial.y[trial.treated].mean() - trial.y[~trial.treated].mean())
    assert f"the outcome per 100 people by {effect:+.0f} on average" in found["trial"]["effect"]


def test_any_number_is_told_per_person():
    trial = make_trial(600, random_state=0)
    found = summarise(trial.y - 0.5, trial.X.iloc[:, 0], treatment=trial.treatment)
    assert (found["unit"]["scale"], found["unit"]["per"]) == (1, "per person")
    assert found["rows"]["events_treated"] is None


def test_labels_groups_and_two_valued_scores_pass():
    trial = make_trial(600, random_state=0)
    labels = np.where(trial.treatment == 1, "mail", "none")
    score = (trial.X.iloc[:, 0] > 0).astype(int)
    groups = np.arange(600) // 2
    found = summarise(trial.y, score, treatment=labels, control="none", groups=groups)
    assert found["rows"]["groups"] == 300
    alone = summarise(trial.y, score, treatment=trial.treatment)
    assert found["curve"]["uplift"] == alone["curve"]["uplift"]
    assert found["curve"]["upper"] != alone["curve"]["upper"]


def test_certificate_and_randomisation_are_told_in_their_own_words(summary, material):
    m = material
    assert summary["certificate"]["text"] == str(certify(m.score, y=m.y, treatment=m.treatment))
    assert summary["trial"]["balance"] == check_randomisation(m.trial).verdict


def test_same_seed_same_summary_and_row_order_does_not_matter(material):
    m = material
    first = summarise(m.y, m.score, treatment=m.treatment, random_state=1)
    order = np.random.default_rng(0).permutation(len(m.y))
    second = summarise(m.y[order], m.score[order], treatment=m.treatment[order], random_state=1)
    for name in ("uplift", "lower", "upper"):
        np.testing.assert_allclose(first["curve"][name], second["curve"][name], atol=1e-12)
    assert first["headline"]["text"] == second["headline"]["text"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"share": 0.305}, "whole per cent"),
        ({"share": 0.0}, "whole per cent"),
        ({"share": [0.1, 0.2]}, "whole per cent"),
        ({"features": pd.DataFrame({"a": [1, 2]})}, "as many rows as y"),
        ({"rivals": {"short": [1.0, 2.0]}}, r"rivals\['short'\] should have as many rows"),
    ],
)
def test_bad_input_is_refused_in_words(material, change, message):
    with pytest.raises(ValueError, match=message):
        summarise(material.y, material.score, treatment=material.treatment, **change)


@pytest.mark.filterwarnings("ignore::UserWarning")  # few rows
@pytest.mark.parametrize(("n_rows", "step"), [(100, 50), (60, 100)])
def test_a_page_tells_no_outcome_of_one_person(n_rows, step):
    rng = np.random.default_rng(0)
    y, score, t = rng.integers(0, 2, n_rows), rng.normal(size=n_rows), np.arange(n_rows) % 2
    found = summarise(y, score, treatment=t, rivals={"other": -score})
    for curve in (found["curve"]["uplift"], found["plan"]["risk"], found["rivals"][0]["uplift"]):
        np.testing.assert_allclose(curve, np.interp(GRID, GRID[::step], curve[::step]))
    assert found["deciles"]["rows"] == [n_rows * step // 100] * (100 // step)
    told = [caveat["text"] for caveat in found["caveats"] if caveat["kind"] == "no curve"]
    assert len(told) == (step == 100)
    assert ("too few rows for a curve" in found["headline"]["text"]) == (step == 100)
    assert "None" not in found["headline"]["text"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cost": -1.0}, "cost should be"),
        ({"value": 1e300}, "value should be"),
        ({"cohort": 0}, "cohort should be"),
        ({"cohort": 2**53 + 1}, "cohort should be"),
    ],
)
def test_money_and_people_that_nobody_can_count_with(given, message):
    with pytest.raises(ValueError, match=message):
        Economy(**given)


def test_the_largest_amounts_have_a_page(material):
    most = Economy(cohort=10**15, cost=1e50, value=1e50)
    found = summarise(material.y, material.score, treatment=material.treatment, economy=most)
    assert "Content-Security-Policy" in render(found)


def test_certificate_of_another_kind_is_refused(material):
    with pytest.raises(TypeError, match=r"auucmax\.certify"):
        summarise(
            material.y, material.score, treatment=material.treatment, certificate="it is good"
        )


def test_long_names_are_cut():
    assert len(Names(outcome="x" * 10_000).to_dict()["outcome"]) == 120


def test_rows_that_are_no_trial_have_a_banner_and_no_headline(material):
    m = material
    treatment = np.where(m.features["x0"] > 1, 1, m.treatment)
    report = check_randomisation(Trial(m.features, m.y, treatment))
    certificate = certify(m.score, y=m.y, treatment=treatment)
    given = {"randomisation": report, "certificate": certificate}
    found = summarise(m.y, m.score, treatment=treatment, **given)
    assert found["banner"] == found["failed_check"] == found["headline"]["text"]
    assert found["banner"].startswith("The check fails: ")
    assert found["headline"]["ratio"] is found["headline"]["gain"] is None
    assert found["certificate"] is None
    page = render(found)
    assert page.index(found["banner"]) < page.index("Did the trial work?")
    assert "h-hero" not in page
    assert 'id="share"' not in page
    assert "on average" not in page.split('id="numbers"')[0]
    assert "beats random targeting" not in page.split('id="numbers"')[0]


def test_a_check_that_warns_is_a_caution(material):
    m = material
    report = check_randomisation(m.trial)
    odd = replace(report, tests=(replace(report.tests[0], adjusted_p_value=0.003),))
    found = summarise(m.y, m.score, treatment=m.treatment, randomisation=odd)
    assert found["banner"] is None
    assert found["headline"]["ratio"] is not None
    severity = {caveat["kind"]: caveat["severity"] for caveat in found["caveats"]}
    assert severity["not randomised"] == "caution"
    assert "check warns" in render(found)


@pytest.mark.parametrize(
    ("interval", "certified", "came", "words"),
    [
        ((1.0, 9.0), (None, None), [5.0, 1.0, 9.0], "Lines are intervals"),
        ((None, None), (-3.0, 12.0), [5.0, -3.0, 12.0], "the certified range of what came"),
        ((None, None), (None, None), [None, None, None], "What came has no interval"),
    ],
)
def test_what_came_has_its_interval_or_its_certified_range(interval, certified, came, words):
    ends = dict(zip(("certified_lower", "certified_upper"), certified, strict=True))
    promise = {"promised": 6.0, "promised_lower": None, "promised_upper": None, "came": 5.0}
    promise |= dict(zip(("came_lower", "came_upper"), interval, strict=True))
    promise |= {"covers": "all who were treated", "verdict": "too_noisy"}
    found = _campaign(
        {
            "told": {"title": "T", "rows": {}, "notes": []},
            "promise": promise,
            "comparisons": {"as_run": ends | {"estimate": 5.0}},
        }
    )
    assert found["bars"]["came"] == came
    assert words in found["range"]
