import json

import numpy as np
import pandas as pd
import pytest

from auucmax import Trial, check_randomisation, make_trial
from auucmax.present import Economy, render, summarise
from auucmax.present.sentences import short_list


def kinds(summary):
    return {caveat["kind"]: caveat for caveat in summary["caveats"]}


def of(trial, score, **options):
    return kinds(summarise(trial.y, score, treatment=trial.treatment, **options))


def test_a_good_ranking_has_only_notes(summary):
    found = kinds(summary)
    assert "not better than random" not in found
    assert "not checked" not in found
    assert "no profit" not in found
    # It cannot be told from its near copy, and it can from noise.
    assert '"close"' in found["not told apart"]["text"]
    assert '"random"' not in found["not told apart"]["text"]


def test_noise_is_not_better_than_random():
    trial = make_trial(2000, random_state=0)
    noise = np.random.default_rng(0).standard_normal(2000)
    assert of(trial, noise)["not better than random"]["severity"] == "problem"


def test_constant_and_tied_scores():
    trial = make_trial(2000, random_state=0)
    assert "ranks nobody" in of(trial, np.zeros(2000))["constant"]["text"]
    assert "3 different values" in of(trial, np.arange(2000) % 3)["ties"]["text"]


def test_a_trial_that_was_not_randomised():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(2000)
    treatment = (x + 3 * rng.standard_normal(2000) > 0).astype(int)
    trial = Trial(pd.DataFrame({"x": x}), rng.integers(0, 2, 2000), treatment)
    found = of(trial, x, randomisation=check_randomisation(trial))
    assert found["not randomised"]["severity"] == "problem"
    assert "predict who was treated" in found["not randomised"]["text"]
    assert of(trial, x)["not checked"]["severity"] == "problem"


def test_few_outcomes_a_lopsided_trial_and_a_wide_band():
    trial = make_trial(3000, treatment_share=0.05, base_rate=0.02, random_state=0)
    found = of(trial, trial.effect)
    n = int(trial.y[trial.treatment == 1].sum())
    assert f"{n:,} treated" in found["few outcomes"]["text"]
    assert "5.0% of the rows" in found["lopsided"]["text"]
    assert found["small shares"]["severity"] == "problem"
    assert "cannot be said: no top share holds 5 rows" in found["small shares"]["text"]
    more = make_trial(3000, treatment_share=0.05, base_rate=0.2, random_state=0)
    assert "wide band" in of(more, more.effect)


def test_what_cannot_be_said_is_said_in_words():
    rng = np.random.default_rng(0)
    y, score, t = rng.lognormal(size=60), rng.normal(size=60), np.arange(60) % 4 == 0
    found = summarise(y, score, treatment=t, rivals={"other": -score})
    for text in (found["headline"]["text"], found["auuc"]["text"], found["trial"]["effect"]):
        assert "95% interval cannot be said: only 15 rows of an arm" in text
        assert "None" not in text
    assert found["auuc"]["text"].startswith("These rows do not tell whether the ranking beats")
    assert found["rivals"][0]["verdict"] == "not told apart"
    page = render(found)
    assert "NaN" not in page.replace("isNaN", "")
    assert "no interval: too few rows" in page


def test_without_an_interval_no_share_is_denied_a_profit(vague_summary):
    plan = vague_summary["plan"]
    assert plan["profit"][100] > 0
    assert plan["profit_lower"][1:] == [None] * 100
    told = vague_summary["headline"]["text"]
    assert told.startswith("For these people a profit is not shown. If you treat the 100% ")
    assert vague_summary["decision"]["lead"] == "For these people a profit is not shown."
    text = "No profit is shown: at no share can an interval of it be said."
    assert kinds(vague_summary)["profit not shown"]["text"] == text
    assert "At no share" not in json.dumps(vague_summary)


def test_a_better_rival_is_a_problem():
    trial = make_trial(8000, ate=0.08, heterogeneity=0.9, random_state=0)
    found = of(trial, -trial.effect, rivals={"true effect": trial.effect})
    assert "true effect" in found["rival better"]["text"]
    assert found["rival better"]["severity"] == "problem"


def test_groups():
    trial = make_trial(400, random_state=0)
    assert "independence" in of(trial, trial.effect)
    found = of(trial, trial.effect, groups=np.arange(400) // 40)
    assert "independence" not in found
    assert "few groups" in found


@pytest.mark.parametrize(
    ("economy", "kind", "text"),
    [
        (Economy(), "no profit", "no cost and no value"),
        (Economy(cost=1.0), "no profit", "no value"),
        (Economy(cost=1.0, value=0.1), "profit not shown", "At no share"),
    ],
)
def test_profit(material, economy, kind, text):
    found = summarise(material.y, material.score, treatment=material.treatment, economy=economy)
    assert text in kinds(found)[kind]["text"]


def test_the_worst_comes_first():
    trial = make_trial(300, random_state=0)
    found = summarise(trial.y, np.zeros(300), treatment=trial.treatment)
    order = [caveat["severity"] for caveat in found["caveats"]]
    assert order == sorted(order, key=("problem", "caution", "note").index)
    assert order[0] == "problem"


def test_lists_of_names():
    assert short_list([]) == ""
    assert short_list(["a"]) == '"a"'
    assert short_list(["a", "b"]) == '"a" and "b"'
    assert short_list(["a", "b", "c"]) == '"a", "b" and "c"'
