import html
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from tests.model.arms_table import COSTS, arms_table, fitted
from tests.present.hostile import HOSTILE

from auucmax.model import ArmLimits, ArmsEvidence, target_arms
from auucmax.present import Economy, render, summarise_arms
from auucmax.present.figures import policy_figure
from auucmax.present.page import embedded_json
from auucmax.present.sentences import segment_lines


def test_numbers_are_those_of_the_evidence(arms_model, arms_summary):
    plan, curve = arms_summary["plan"], arms_summary["curve"]
    kept = arms_model.evidence["curves"][-1]
    assert kept["costs"] == COSTS
    place = len(kept["budget"]) // 2
    at = np.interp(kept["budget"][place], np.linspace(0, kept["budget"][-1], 101), range(101))
    for page, own in ((curve["uplift"], "gain"), (curve["lower"], "simultaneous_lower")):
        near = np.interp(at, range(101), np.array(page, dtype=float))
        assert near == pytest.approx(kept["policy"][own][place], abs=2e-3)
    assert plan["cost"][100] == pytest.approx(5_000 * kept["budget"][-1])
    people = np.array(plan["people"])
    assert np.all(people.sum(axis=0) <= 5_000 + 1e-6)
    assert np.all(np.array(plan["spent"]) <= np.array(plan["cost"]) + 1e-6)
    assert np.allclose(plan["spent"], people[0] + 2 * people[1])
    gain, spent = plan["gain"][50], plan["spent"][50]
    assert plan["profit"][50] == pytest.approx(9 * gain - spent)


@pytest.mark.gate
def test_costs_of_the_same_ratios_and_others(arms_model):
    twice = summarise_arms(arms_model, costs={name: 2 * c for name, c in COSTS.items()})
    once = summarise_arms(arms_model, costs=COSTS)
    assert twice["plan"]["spent"] == pytest.approx([2 * v for v in once["plan"]["spent"]])
    assert twice["plan"]["gain"] == once["plan"]["gain"]
    with pytest.raises(ValueError, match=r"mail=1, phone=2; got others\. Fit again"):
        summarise_arms(arms_model, costs={"mail": 1.0, "phone": 50.0})


@pytest.mark.gate
def test_by_people_there_is_no_money():
    model = fitted(arms_table())
    found = summarise_arms(model, economy=Economy(value=3.0))
    page = render(found)
    assert found["plan"]["by_people"]
    assert found["plan"]["profit"] is None
    told = found["headline"]["text"]
    assert "Treating 30% of the people, each with the arm" in told
    assert "People who can be treated" in page
    assert ">Spent<" not in page
    assert 'id="value"' not in page


def test_sections_and_json(arms_summary):
    page = render(arms_summary)
    places = [page.index(f'id="{name}"') for name in
              ("h-hero", "h-segments", "h-who", "h-caveats", "h-others", "h-trial", "h-tables",
               "h-words")
              ]  # fmt: skip
    assert places == sorted(places)
    assert embedded_json(arms_summary) in page
    assert render(json.loads(json.dumps(arms_summary))) == page
    assert len(page) < 150_000
    assert "<strong>The choice of arms as a whole.</strong> At a budget of 0.5 per person, " in page
    assert "better than random choice: " in page
    assert "block betting" not in page.split("<details>")[0]


def test_a_failed_check_shows_no_number(arms_model):
    facts = arms_model.evidence
    failed = replace(facts, facts=facts.facts | {"failed_check": "Not randomised.",
                                                 "certificate": None})  # fmt: skip
    page = render(summarise_arms(arms_model, failed))
    assert '<p class="banner problem" role="alert"><strong>The trial fails its check' in page
    for section in ("h-hero", "h-who", "h-others", "h-tables"):
        assert f'aria-labelledby="{section}"' not in page


def test_arms_that_the_rows_chose_are_never_shown_to_be_better(arms_model):
    found = summarise_arms(arms_model)
    worse = [one | {"estimate": -0.02, "lower": -0.03, "upper": -0.01}
             for one in found["differences"]]  # fmt: skip
    page = render(found | {"differences": worse})
    assert page.count("chosen arms gain less, beyond chance") == 1
    assert page.count("(chosen on these rows, in its favour)</th>") == 2


@pytest.mark.gate
def test_what_is_not_shown_is_said():
    table = arms_table(effects=(0.0, 0.0))
    found = summarise_arms(fitted(table))
    kinds = {caveat["kind"]: caveat["severity"] for caveat in found["caveats"]}
    assert kinds["not better than random"] == "problem"
    assert kinds["no average effect"] == "caution"
    assert "no certificate" in kinds


def test_nothing_is_told_between_budgets_that_are_far_apart(arms_model):
    evidence = arms_model.evidence
    (curve,) = evidence["curves"][-1:]
    ends = [0, len(curve["budget"]) - 1]

    def cut(part):
        return {k: [v[j] for j in ends] if isinstance(v, list) else v for k, v in part.items()}

    few = {
        "costs": curve["costs"],
        "budget": [curve["budget"][j] for j in ends],
        "policy": cut(curve["policy"]),
        "singles": {label: cut(one) for label, one in curve["singles"].items()},
        "everybody": cut(curve["everybody"]),
        "differences": {name: cut(one) for name, one in curve["differences"].items()},
    }
    found = summarise_arms(arms_model, replace(evidence, facts=evidence.facts | {"curves": [few]}))
    plan = found["plan"]
    assert plan["gain"][30] is None
    assert plan["people"][0][30] is None
    assert plan["gain"][100] == pytest.approx(10_000 * few["policy"]["gain"][1])
    assert "do not tell" in found["headline"]["text"]
    assert "unknown" in render(found)


def test_without_any_interval_no_budget_is_denied_a_profit(arms_model):
    evidence = arms_model.evidence
    curves = json.loads(json.dumps(evidence["curves"]))
    for curve in curves:
        for name in ("gain", "simultaneous_lower", "simultaneous_upper"):
            curve["policy"][name] = [None] * len(curve["budget"])
    vague = replace(evidence, facts=evidence.facts | {"curves": curves})
    for economy, what in ((Economy(), "gain"), (Economy(value=9.0), "profit")):
        found = summarise_arms(arms_model, vague, economy=economy, share=0.3)
        assert found["decision"]["lead"] == f"For these people a {what} is not shown."
        told = found["headline"]["text"]
        assert told.startswith(f"For these people a {what} is not shown. Spending up to ")
        assert "brings what these rows do not tell" in told


@pytest.mark.gate
def test_hostile_labels_stay_text():
    table = arms_table()
    names = {"mail": HOSTILE[0], "phone": "{cost money}" + HOSTILE[1], "none": HOSTILE[2]}
    table["arm"] = table["arm"].map(names)
    page = render(summarise_arms(fitted(table, control=HOSTILE[2])))
    for text in HOSTILE[:3]:
        assert text not in page


def test_the_share_at_first_is_of_people(arms_model):
    found = summarise_arms(arms_model, share=0.5)
    place = round(found["headline"]["share"] * 100)
    treated = np.array(found["plan"]["treated"], dtype=float) / found["plan"]["cohort"]
    assert abs(treated[place] - 0.5) == np.nanmin(np.abs(treated - 0.5))
    assert abs(treated[50] - 0.5) > abs(treated[place] - 0.5)  # half of the largest budget


def headline_of(summary):
    """What a reader sees of the first lines of the page."""
    page = re.sub("<[^>]*hidden>.*?</(p|span)>", "", render(summary))
    return re.sub("<[^>]*>", "", re.search(r'<p class="headline">(.*?)</p>', page).group(1))


def test_what_is_not_shown_is_no_advice(arms_summary):
    plan, n = arms_summary["plan"], 101
    sure = {"profit": [1.0] * n, "profit_lower": [0.5] * n, "profit_upper": [2.0] * n}
    unsure = sure | {"profit_lower": [-0.5] * n}
    better = [one | {"lower": 0.1, "upper": 0.2} for one in arms_summary["differences"]]
    worse = [one | {"lower": -0.1, "upper": 0.2} for one in arms_summary["differences"]]
    for money, differences, word in (
        (sure, better, "Spend"), (unsure, better, "If you spend"), (sure, worse, "If you spend"),
    ):  # fmt: skip
        found = arms_summary | {"plan": plan | money, "differences": differences}
        text = headline_of(found | {"certificate": None})
        assert text.startswith(f"{word} up to ")
        assert "each with the arm that is chosen for them" in text


def test_arms_that_do_harm_are_no_advice():
    """Both arms lower the outcome of everybody."""
    table, chance = arms_table(), np.random.default_rng(0).random(3_000)
    table["visit"] = (chance < np.where(table["arm"] == "none", 0.5, 0.2)).astype(int)
    found = summarise_arms(fitted(table), share=0.5)
    harm = 'On average "mail" and "phone" are shown to do harm.'
    nobody = "At no budget is the gain above zero. The model gives nobody an arm."
    assert found["headline"]["text"] == f"{harm} {nobody}"
    assert headline_of(found) == "Treat nobody: no arm is expected to help anybody."
    assert "Who gets what</h2>" not in render(found)  # an empty picture
    assert html.escape(harm) in render(found).replace("&#34;", "&quot;")
    assert "harm on average" in [one["kind"] for one in found["caveats"]]
    # A policy that gives arms although they do harm.
    n = len(found["plan"]["share"])
    plan = found["plan"] | {"gain_lower": [-9.0] * n, "gain_upper": [-1.0] * n}
    page = render(found | {"plan": plan | {"treated": [10.0] * n}})
    lead = "Treating these people is shown to do harm: treat nobody."
    assert f'<p class="loss problem" id="lead">{lead}</p>' in page
    assert '<span class="chip problem" id="verdict">shown to do harm</span>' in page


@pytest.mark.gate
def test_the_harm_of_an_arm_that_nobody_gets_is_a_note():
    """One arm lowers the outcome of everybody, the other raises it."""
    table, chance = arms_table(), np.random.default_rng(0).random(3_000)
    means = {"none": 0.4, "mail": 0.2, "phone": 0.7}
    table["visit"] = (chance < table["arm"].map(means).to_numpy()).astype(int)
    found = summarise_arms(fitted(table), share=0.5)
    assert not any(found["plan"]["people"][0])
    assert found["headline"]["text"].startswith("Treating 50% of the people, each with the arm")
    note = next(one for one in found["caveats"] if one["kind"] == "harm of an arm that nobody gets")
    assert note["severity"] == "note"
    assert note["text"].startswith('On average "mail" is shown to do harm. Nobody gets it')
    hero = render(found).split('id="h-hero"')[1].split("</section>")[0]
    assert "to do harm" not in hero


def kinds_of(summary):
    return [one["kind"] for one in summary["caveats"]]


@pytest.mark.parametrize("value", [4.0, 6.0, 9.0, 50.0])
def test_the_report_opens_at_the_rule_of_lists(arms_model, value):
    """Of the trial's people about as many get each arm as `target` gives it to."""
    table = arms_table()
    found = summarise_arms(arms_model, costs=COSTS, economy=Economy(cohort=len(table), value=value))
    place = round(found["headline"]["share"] * 100)
    listed = target_arms(arms_model, table, value=value, limits=ArmLimits(cost=COSTS))
    apart = abs(found["plan"]["spent"][place] - listed.choice.cost)
    assert apart < 0.1 * found["plan"]["spent"][100]
    assert "the rule of lists" in kinds_of(found)


def test_what_costs_more_than_it_brings_is_given_to_nobody(arms_model):
    found = summarise_arms(arms_model, costs=COSTS, economy=Economy(value=1e-3))
    assert found["plan"]["rule_share"] == 0
    assert "nobody by the rule of lists" in kinds_of(found)
    listed = target_arms(arms_model, arms_table(), value=1e-3, limits=ArmLimits(cost=COSTS))
    assert listed.nobody is not None


def test_of_older_files_the_report_opens_at_the_highest_profit(arms_model):
    evidence = arms_model.evidence
    (curve,) = evidence["curves"]
    older = {name: own for name, own in curve.items() if name != "rate"}
    read = ArmsEvidence.from_dict(evidence.arms, evidence.facts | {"curves": [older]})
    best = summarise_arms(arms_model, read, costs=COSTS, economy=Economy(value=9.0))
    assert best["headline"]["share"] == best["plan"]["best_share"]
    assert "another rule of lists" in kinds_of(best)
    gain = summarise_arms(arms_model, read, costs=COSTS)
    assert "another rule of lists" not in kinds_of(gain)


def test_the_page_says_who_gets_each_arm(arms_model, arms_summary):
    page = render(arms_summary)
    found = arms_summary["people"]
    assert [own["arm"] for own in found["arms"]] == ["mail", "phone"]
    assert "Who are they?" in page
    assert "get phone</li>" in page
    for own, young in zip(found["arms"], (True, False), strict=True):
        first = own["columns"][0]
        assert first["name"] == "age"  # mail helps the young, the phone helps the old
        bins = [k for k, name in enumerate(first["bins"]) if name.startswith("up to")]
        top, rest = ((first[who][bins[0]] or 0.0) for who in ("top", "rest"))
        assert (top > rest) == young
    old = {name: own for name, own in arms_model.policy.items() if name != "people"}
    read = ArmsEvidence.from_dict(arms_model.evidence.arms, old)
    assert read["people"] is None  # of files of before there were any
    new = arms_model.judge(arms_table(1_500, random_state=5).assign(person=range(1_500)))
    assert new["people"] is None
    assert "Who are they?" not in render(summarise_arms(arms_model, new))


def test_the_page_says_which_arm_for_whom(arms_summary):
    page = html.unescape(re.sub("<[^>]*>", "", render(arms_summary)))
    found = arms_summary["segments"]
    given = {part["arm"]: part for part in found["parts"]}
    assert {*given} == {"mail", "phone"}
    assert found["single"] == "mail"  # it costs less
    assert "Which arm for whom?" in page
    assert "These arms bring more profit than mail for everybody, beyond chance: +" in page
    assert "the arm of the highest profit, where one visit is worth 9 EUR, whatever" in page
    for part in found["parts"]:
        assert " and ".join(part["rule"]) in page
        assert f"{part['arm']}: +{100 * part['effect']['estimate']:.1f}" in page
    net = 9 * given["phone"]["against"]["estimate"] - 1  # it costs 1 more than mail
    assert f"profit against mail for all +{net:.2f} EUR a person (" in page
    lines = segment_lines(arms_summary)
    assert list(lines)[-1] == "all segments"
    assert any(line.startswith("phone: +") for line in lines.values())
    none = arms_summary | {"segments": None}
    assert "In the words of your columns this is not told" in render(none)
    assert segment_lines(none) == {}
    same = found | {"overall": None}
    assert "All segments get mail" in render(arms_summary | {"segments": same})
    assert "h-segments" not in render(none | {"failed_check": "no trial", "banner": "no trial"})


@pytest.mark.gate
def test_costs_count_where_they_can_be_weighed(arms_model):
    """A visit that is worth little is no reason to call; without a worth costs are only told."""
    cheap = summarise_arms(arms_model, economy=Economy(value=0.5))
    given = {part["arm"]: part for part in cheap["segments"]["parts"]}
    assert None in given
    assert given[None]["effect"] is given[None]["certified"] is None
    text = re.sub("<[^>]*>", "", render(cheap))
    assert f"{100 * given[None]['share']:.0f}% of the peoplenone" in text
    plain = summarise_arms(arms_model)
    assert {part["arm"] for part in plain["segments"]["parts"]} == {"mail", "phone"}
    text = re.sub("<[^>]*>", "", render(plain))
    assert "These arms bring more of visit than phone for everybody, beyond chance: +" in text
    assert "for 1 less a person" in text
    assert "no value of one visit was given to weigh costs against" in text
    free = segment_lines(summarise_arms(fitted(arms_table())))
    assert "a person" not in " ".join(free.values())


def test_sums_of_segments_have_their_own_interval(arms_model):
    """The arms of all segments against one arm for everybody, by shares of people."""
    found = summarise_arms(arms_model)["segments"]
    known = [(p["share"], p["against"]) for p in found["parts"] if p["against"] is not None]
    overall = found["overall"]
    total = sum(share * own["estimate"] for share, own in known)
    assert overall["estimate"] == pytest.approx(total)
    error = sum((share * own["standard_error"]) ** 2 for share, own in known) ** 0.5
    # Two segments of three contrasts, and this: a corrected normal quantile.
    assert overall["upper"] - total == pytest.approx(2.69 * error, rel=0.01)


def test_one_unit_where_a_profit_is_known(arms_model, arms_summary):
    plan, place = arms_summary["plan"], round(arms_summary["headline"]["share"] * 100)
    text = arms_summary["headline"]["text"]
    assert f"brings an expected profit of {plan['profit'][place]:,.2f} EUR (95%" in text
    assert "per 100 people" not in text
    drawn = policy_figure(arms_summary)
    assert "profit, EUR" in drawn
    assert "gain per 100 people" in policy_figure(summarise_arms(arms_model))
    spent = arms_summary["curve"]["spent"]
    told = np.array(plan["spent"], dtype=float) / plan["cohort"]
    np.testing.assert_allclose(np.array(spent["policy"], dtype=float), told)
    # An arm alone never spends more than the budget.
    budget = np.array(plan["cost"]) / plan["cohort"]
    for own in spent["singles"]:
        assert (np.array(own, dtype=float)[1:] <= budget[1:] + 1e-9).all()
