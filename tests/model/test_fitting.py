"""From a raw table to a model: honest evidence of every row, clear errors."""

import dataclasses
import json
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from tests.model.trial_table import (
    NAMES,
    households,
    named_model,
    trial_table,
    two_strata,
)

from auucmax import auuc_inference, certify
from auucmax.certificates.certify import certify_thresholds
from auucmax.data import FailedCheckError
from auucmax.data.pieces import open_table
from auucmax.estimators import TwoModels
from auucmax.metrics import auuc_score
from auucmax.model import (
    MODELS,
    fit_trial_model,
    load_model,
    name_columns,
    save_model,
    target,
    with_rivals,
)
from auucmax.model.by_name import makers
from auucmax.model.crossfit import TableRows, cross_fit
from auucmax.targeting import calibrate


def fit(frame, **options):
    return fit_trial_model(frame, **(NAMES | {"id": "person", "model": "tm"} | options))


def _everyone(keys):
    return np.ones(len(keys), dtype=bool)


def apart(model, frame):
    """Rows and out-of-fold ranks, made again from what the model remembers."""
    rows = TableRows(frame, model.columns, model.recipe.key)
    makes = makers([model.model_name], model.recipe)
    return rows, cross_fit(rows, makes, model.recipe, with_chunks=False)


@pytest.fixture(scope="module")
def table():
    return trial_table()


@pytest.fixture(scope="module")
def model():
    return named_model("tm", 6_000)  # of the table


def test_summary_is_plain_and_tells_all(table, model):
    summary = json.loads(json.dumps(model.summary, allow_nan=False))
    assert summary == model.summary
    assert summary["table"] == {
        "given": len(table),
        "used": int((table["arm"] != "phone").sum()),
        "learnt": int((table["arm"] != "phone").sum()),
        "left_out": {"phone": int((table["arm"] == "phone").sum())},
        "without_outcome": 0,
        "decimal": None,  # it was no text
    }
    assert (summary["folds"], summary["hold_out"]) == (5, None)
    assert summary["warnings"] == []
    assert summary["date"].endswith("Z")
    facts = json.loads(json.dumps(model.evidence.to_dict(), allow_nan=False))["facts"]
    assert facts == model.evidence.facts
    assert facts["randomisation"]["ok"] is True
    assert facts["rows"]["binary"] is True
    assert facts["auuc"]["lower"] < facts["auuc"]["estimate"]
    assert "certified for models that learnt from fewer rows" in facts["certificate"]["text"]


def test_evidence_is_that_of_models_that_had_not_seen_the_rows(table, model):
    rows, found = apart(model, table)
    ranks = found.ranks["tm"]
    expected = auuc_inference(rows.y, ranks, treatment=rows.treated)
    facts = model.evidence
    assert facts["auuc"]["estimate"] == pytest.approx(expected.estimate)
    half = np.sqrt(2) * (expected.gain - expected.gain_interval[0])  # folds learn from each other
    assert facts["auuc"]["gain_lower"] == pytest.approx(expected.gain - half)
    # Ranks within folds, taken together: the mean over folds but for their sizes.
    by_fold = [
        (inside.mean(), auuc_score(rows.y[inside], ranks[inside], treatment=rows.treated[inside]))
        for inside in (found.fold == k for k in range(5))
    ]
    mean = sum(share * auuc for share, auuc in by_fold)
    assert facts["auuc"]["estimate"] == pytest.approx(mean, abs=0.1 * expected.standard_error)
    assert facts["rows"]["n_rows"] == len(rows.y)


def test_the_model_that_is_kept_learnt_from_all_rows(table, model):
    rows = TableRows(table, model.columns, model.recipe.key)
    whole = rows.fit({"tm": MODELS["tm"](0)}, _everyone)
    of_arms = table.iloc[rows.sample.positions]
    np.testing.assert_array_equal(rows.scores(whole, _everyone)[0], model.predict(of_arms))


def test_outcomes_of_a_row_do_not_move_its_own_rank(table, model):
    """Another world, in which one fold's outcomes are turned: that fold has the same scores."""
    rows, before = apart(model, table)
    inside = before.fold == 2
    other = table.copy()
    where = rows.sample.positions[inside]
    other.iloc[where, other.columns.get_loc("visit")] = 1 - rows.y[inside].astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, after = apart(fit(other), other)
    np.testing.assert_array_equal(after.fold, before.fold)
    np.testing.assert_array_equal(after.ranks["tm"][inside], before.ranks["tm"][inside])
    assert (after.ranks["tm"][~inside] != before.ranks["tm"][~inside]).any()


def test_uplift_is_calibrated_out_of_fold(table, model):
    rows, found = apart(model, table)
    of_ranks = calibrate(rows.y, found.ranks["tm"], treatment=rows.treated)
    assert model.calibration.uplift == pytest.approx(of_ranks.uplift)
    assert model.evidence["deciles"]["caveat"].startswith("Predicted is what a calibration on the")
    # A knot at the rank r of the folds is at the score of which a share r is below.
    score = model.predict(rows.sample.frame)
    below = [np.mean(score <= knot) for knot in model.calibration.score]
    np.testing.assert_allclose(below, of_ranks.score, atol=2e-3)


def test_a_hold_out_is_judged_by_the_very_model(table):
    model = fit(table, hold_out=0.3)
    rows = TableRows(table, model.columns, model.recipe.key)
    held_out = model.recipe.held_out(rows.keys)
    y, treated = rows.y[held_out], rows.treated[held_out]
    score = model.predict(rows.sample.frame[held_out])
    found = auuc_inference(y, score, treatment=treated)
    assert model.evidence["auuc"]["estimate"] == pytest.approx(found.estimate)
    certificate = certify(score, y=y, treatment=treated)
    assert model.evidence["certificate"]["lower_bound"] == pytest.approx(certificate.lower_bound)
    assert model.summary["table"]["learnt"] == int((~held_out).sum())
    assert "this model has not seen them" in model.evidence["notes"][0]
    # Nothing is learnt from what was set aside.
    other = table.copy()
    where = rows.sample.positions[held_out]
    other.iloc[where, other.columns.get_loc("visit")] = 1 - y.astype(int)
    other.iloc[where, other.columns.get_loc("town")] = "Atlantis"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = fit(other, hold_out=0.3)
    new = trial_table(200, random_state=5)
    np.testing.assert_array_equal(again.predict(new), model.predict(new))


def test_a_hold_out_that_leaves_too_little(table):
    few = table[table["arm"] != "phone"].groupby("arm").head(12)
    with pytest.raises(ValueError, match=r"hold_out should leave at least 20 rows.*Collect more"):
        fit(few, hold_out=0.97)


@pytest.mark.gate
def test_same_seed_same_model_other_seed_other_folds(table, model):
    again = fit(table, random_state=np.random.default_rng(0))
    np.testing.assert_array_equal(again.predict(table), model.predict(table))
    assert again.recipe == model.recipe
    assert again.evidence.facts == model.evidence.facts
    assert fit(table, random_state=1).recipe.key != model.recipe.key


@pytest.mark.gate
def test_order_of_rows_does_not_matter_with_ids(table, model):
    again = fit(table.sample(frac=1, random_state=1))
    np.testing.assert_allclose(again.predict(table), model.predict(table), atol=1e-9)
    assert again.evidence["rows"] == model.evidence["rows"]
    assert again.evidence["auuc"]["gain"] == pytest.approx(model.evidence["auuc"]["gain"])


@pytest.mark.gate
def test_rivals_are_ranked_on_the_same_folds(table, model):
    first = fit(table, model="cvt")
    (rival,) = first.evidence["rivals"]
    assert rival["name"] == "tm"
    assert rival["auuc"]["estimate"] == pytest.approx(model.evidence["auuc"]["estimate"])
    difference = first.evidence["auuc"]["gain"] - rival["auuc"]["gain"]
    assert rival["difference"]["estimate"] == pytest.approx(difference)


SLOW = {"auto", "boosted"}


@pytest.mark.quick_cases("tm")
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.gate] if n in SLOW else []) for n in MODELS],
)
def test_every_model_by_name(name):
    model, small = named_model(name), trial_table(1_500)
    scores = model.predict(small)
    assert scores.shape == (len(small),)
    assert np.isfinite(scores).all()
    assert np.isfinite(model.uplift(small)).all()
    assert model.summary["model"] == model.model_name == name


@pytest.mark.gate
def test_auto_is_the_default_and_is_compared_with_what_people_use(table):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few rows
        model = fit_trial_model(table, **NAMES, id="person")
    assert model.recipe.model == "auto"
    assert [rival["name"] for rival in model.evidence["rivals"]] == ["response", "tm", "auucmax"]
    assert model.summary["about"].startswith("Mean of the ranks of a logistic model")
    assert model.summary["tree_rows"] == (table["arm"] != "phone").sum()
    assert model.evidence["certificate"] is not None


@pytest.mark.gate
def test_rivals_of_a_hold_out_are_paired_on_its_rows(table):
    model = fit(table, model="cvt", hold_out=0.3)
    (rival,) = model.evidence["rivals"]
    assert rival["name"] == "tm"
    other = fit(table, model="tm", hold_out=0.3)
    assert rival["auuc"]["estimate"] == pytest.approx(other.evidence["auuc"]["estimate"])
    expected = model.evidence["auuc"]["gain"] - rival["auuc"]["gain"]
    assert rival["difference"]["estimate"] == pytest.approx(expected)
    again = with_rivals(model, table, ["tm"])
    assert again["rivals"][0]["difference"] == rival["difference"]


@pytest.mark.gate
def test_outcomes_that_are_not_binary(table):
    frame = table.rename(columns={"visit": "bought", "spent": "visit"})
    model = fit(frame, model="auucmax", after=["bought"])
    assert model.evidence["rows"]["binary"] is False
    assert model.evidence["certificate"] is None
    assert any("outcomes are not 0/1" in note for note in model.evidence["notes"])
    with pytest.raises(ValueError, match=r"'tm' for the outcome 'visit' .any number., got 'cvt'"):
        fit(frame, model="cvt", after=["bought"])
    with pytest.raises(ValueError, match=r"a rival should be one of 'auto', .* got 'cvt', which"):
        with_rivals(model, frame, ["cvt"])
    linear = fit(frame, model="auucmax", after=["bought"])
    assert linear.evidence["rows"]["binary"] is False
    assert np.isfinite(linear.predict(frame)).all()


@pytest.fixture(scope="module")
def money(table):
    """The table with what people spend, most of them nothing, in place of visits."""
    amount = np.random.default_rng(5).gamma(2, 30, len(table)).round(2)
    return table.drop(columns="spent").assign(visit=table["visit"] * amount)


@pytest.mark.gate
def test_money_is_fitted_as_it_comes(money, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fit_trial_model(money, **NAMES, id="person")
    facts = model.evidence
    assert facts["rows"]["outcome"] == "money with zeros"
    assert model.summary["learnt"].startswith("visit is money with zeros, mostly 0: learnt is")
    able = [rival["name"] for rival in facts["rivals"]]
    assert able[:2] == ["response", "tm"]
    assert facts["auuc"]["gain_lower"] > 0
    assert facts["certificate"] is None
    assert any("Fit with outcome_range=(0, 200), say" in note for note in facts["notes"])
    # Calibrated uplift is money: those of the young gain, others do not.
    uplift, young = model.uplift(money), (money["age"] < 45).to_numpy()
    assert uplift[young].mean() > 3 * abs(uplift[~young].mean())
    treated, control = (money.loc[money["arm"] == arm, "visit"].mean() for arm in ("mail", "none"))
    assert uplift.mean() == pytest.approx(treated - control, rel=0.1)
    save_model(model, tmp_path / "money.model")
    again = load_model(tmp_path / "money.model")
    np.testing.assert_array_equal(again.predict(money), model.predict(money))
    assert again.evidence.to_dict() == model.evidence.to_dict()


@pytest.mark.gate
@pytest.mark.parametrize("hold_out", [0.0, 0.4])
def test_a_range_of_money_makes_a_certificate(money, tmp_path, hold_out):
    options = {"model": "shrunk", "hold_out": hold_out}
    model = fit(money, **options, outcome_range=(0, 100))
    certificate = model.evidence["certificate"]
    own = money.loc[money["arm"] != "phone", "visit"]
    share = (own - 100).clip(lower=0).sum() / own.sum()
    told = f"{share:.1%} of all money" if not hold_out else "of all money"
    assert f"{told} lies above 100 and is not counted." in certificate["text"]
    assert "outcomes lie in [0, 100]" in certificate["text"]
    assert "Its numbers are visit per person, counted from 0 to 100 only." in certificate["text"]
    save_model(model, tmp_path / "money.model")
    again = load_model(tmp_path / "money.model")
    assert again.columns.outcome_range == (0, 100)
    # Of new rows, too, and nothing is said to lie beyond if nothing does.
    new = trial_table(3_000, random_state=9).drop(columns="spent")
    new = new.assign(person="new" + new["person"], visit=new["visit"] * 99.5)
    found = again.judge(new)["certificate"]
    assert found["gain_lower_bound"] > -100
    assert "not counted" not in found["text"]


@pytest.mark.gate
def test_costs_are_learnt_as_money(money):
    """If lower is better, most cost nothing still, and what is avoided is told."""
    model = fit(money, model="shrunk", lower_is_better=True, outcome_range=(0, 100))
    assert model.evidence["rows"]["outcome"] == "money with zeros"
    assert "learnt is whether" in model.summary["learnt"]
    assert model.evidence["effect"]["estimate"] < 0
    text = model.evidence["certificate"]["text"]
    assert "outcomes lie in [-100, 0]" in text
    assert model.evidence["rows"]["mean_treated"] > 0
    assert "of all money lies above 100" in text
    higher = fit(money, model="shrunk")
    np.testing.assert_allclose(model.predict(money), -higher.predict(money), rtol=1e-6, atol=1e-8)
    # Intervals stand or fall with those of the outcome itself: they count those who spend.
    assert model.evidence["effect"]["lower"] == pytest.approx(-higher.evidence["effect"]["upper"])
    assert load(money, "lower_is_better").y.max() == 0
    assert load(money.assign(visit=money["visit"] > 0), "lower_is_better").y.max() == 1


def load(frame, *switches):
    columns = name_columns(frame, **NAMES, id="person", **dict.fromkeys(switches, True))
    return TableRows(frame, columns, "0" * 16)


@pytest.mark.gate
def test_counts_and_numbers_are_fitted(money):
    rng = np.random.default_rng(0)
    often = money.assign(visit=rng.poisson(3 + 2 * (money["visit"] > 0)))
    model = fit(often, model="shrunk")
    assert model.summary["learnt"] == (
        "visit is count, learnt as a number (the lowest and highest 1% clipped)"
    )
    rarely = money.assign(visit=rng.poisson(0.3 + 0.3 * (money["visit"] > 0)))
    assert fit(rarely, model="shrunk").summary["learnt"].startswith("visit is count, mostly 0: ")
    profit = money.assign(visit=money["visit"] - 5.0)
    profit["visit"] += rng.normal(size=len(profit))
    model = fit(profit, model="shrunk")
    assert model.evidence["rows"]["outcome"] == "any number"
    assert "learnt as a number" in model.summary["learnt"]
    assert model.evidence["auuc"]["gain_lower"] > 0


def test_too_few_buyers_are_refused(money):
    few = money.assign(visit=np.where(np.arange(len(money)) % 200 == 0, money["visit"] + 1, 0))
    with pytest.raises(ValueError, match="20 rows with the outcome and 20 without it"):
        fit(few)


@pytest.mark.gate
def test_money_of_a_table_in_pieces(money, tmp_path):
    money.to_parquet(tmp_path / "money.parquet")
    pieces = open_table(tmp_path / "money.parquet", memory=1)
    model = fit(pieces, model="shrunk")
    whole = fit(money, model="shrunk")
    np.testing.assert_allclose(model.predict(money), whole.predict(money), rtol=0, atol=1e-6)
    for one, other in zip(model.evidence["rivals"], whole.evidence["rivals"], strict=True):
        assert one["auuc"]["estimate"] == pytest.approx(other["auuc"]["estimate"], abs=1e-6)
    numbers = money.assign(visit=np.arange(len(money)) % 997 * 1.0)
    numbers.to_parquet(tmp_path / "numbers.parquet")
    model = fit(open_table(tmp_path / "numbers.parquet", memory=1), model="tm")
    np.testing.assert_allclose(
        model.predict(money), fit(numbers, model="tm").predict(money), rtol=0, atol=1e-4
    )


@pytest.mark.gate
def test_arms_of_numbers_are_the_same_as_arms_of_texts(table, model):
    number = table["arm"].map({"mail": 2.0, "none": 1.0, "phone": 3.0})
    again = fit(table.assign(arm=number), treated="2", control=1)
    np.testing.assert_array_equal(again.predict(table), model.predict(table))


@pytest.mark.gate
def test_warnings_are_given_and_kept(table):
    with pytest.warns(UserWarning, match="'constant' with one value"):
        model = fit(table.assign(constant=1))
    assert any("'constant' with one value" in text for text in model.summary["warnings"])
    assert model.summary["features"]["dropped"] == {"constant": "with one value"}


def test_a_feature_that_tells_the_treatment_is_not_learnt_from(table):
    frame = table.assign(letter=(table["arm"] == "mail").astype(float))
    with pytest.raises(FailedCheckError, match=r"letter: known only after.*after=\['letter'\]"):
        fit(frame)
    model = fit(frame, ignore=["letter"])
    assert model.evidence["randomisation"]["ok"] is True
    assert model.evidence["certificate"] is not None
    notes = " ".join(model.evidence["randomisation"]["notes"])
    assert "letter, which tells who was treated and is left out of the model" in notes


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"treatment": "amr"}, "'amr'.*Did you mean 'arm'"),
        ({}, {"outcome": "nothing"}, "should have the column 'nothing'"),
        ({}, {"id": "persona"}, "Did you mean 'person'"),
        ({}, {"features": ["age", "twon"]}, "Did you mean 'town'"),
        ({}, {"features": ["age", "visit"]}, "other columns than treatment, outcome and id"),
        ({}, {"features": []}, "features should be at least one column"),
        ({}, {"model": "best"}, "model should be one of 'auto'"),
        ({}, {"treated": "post"}, "treated should be one of the labels of 'arm'.*got 'post'"),
        ({}, {"treated": "mail", "control": "mail"}, "come with the labels of two arms"),
        ({}, {"treated": None, "control": None}, "Pass treated=... and control=..., two of them"),
        ({}, {"treated": "mail", "control": None}, "Pass treated=... and control=..., two of them"),
        ({}, {"hold_out": 1}, "hold_out should be a number strictly between 0 and 1"),
        ({}, {"hold_out": -0.1}, "hold_out should be a number strictly between 0 and 1"),
        ({"visit": None}, {}, r"'visit' should be known of every row, got none in 0 of 163"),
        ({"arm": None}, {}, "the treatment 'arm' should have no missing values, got 1"),
        ({"person": None}, {}, "the id 'person' should have no missing values, got 1"),
        ({"person": "p5"}, {}, "'person' should be different in every row.*groups='person'"),
        ({"town": None}, {"groups": "town"}, "the group 'town' should have no missing values"),
        ({}, {"groups": "arm"}, "groups should be another column than treatment and outcome"),
        ({}, {"groups": "home"}, "should have the column 'home'"),
        ({}, {"n_candidates": 0}, "n_candidates should be a whole number from 1"),
        ({"spent": np.inf}, {}, "column 'spent' should hold numbers of at most"),
    ],
)
def test_bad_input(table, change, options, message):
    frame = table.head(400).astype({"visit": object})
    for name, value in change.items():
        row = frame.index[(frame["arm"] == "none") & (frame["person"] != "p5")][0]
        frame.loc[row, name] = value
        if value == "p5":
            frame.loc[frame.index[frame["person"] != "p5"][0], name] = "p5"
    with pytest.raises(ValueError, match=message):
        fit(frame, **options)


def test_texts_as_outcome_and_too_few_rows(table):
    with pytest.raises(ValueError, match="the outcome 'visit' should hold numbers"):
        fit(table.assign(visit=table["visit"].map({0: "no", 1: "maybe"})))
    with pytest.raises(ValueError, match=r"at least 20 rows with the outcome.*too few rows"):
        fit(table[table["arm"] != "phone"].groupby("arm").head(2))


@pytest.mark.gate
def test_left_out_rows_may_lack_an_outcome(table):
    frame = table.astype({"visit": "float64"})
    frame.loc[frame["arm"] == "phone", "visit"] = np.nan
    assert fit(frame).summary["table"]["left_out"] == {
        "phone": int((table["arm"] == "phone").sum())
    }


@pytest.mark.gate
def test_index_of_the_frame_does_not_matter(table, model):
    odd = table.set_index(pd.Index([0] * len(table)))
    np.testing.assert_array_equal(fit(odd).predict(odd), model.predict(table))


@pytest.mark.gate
def test_names_of_columns_are_made_texts():
    table = trial_table(4_000)
    expected = fit(table.rename(columns={"age": "1", "visit": "2"}), outcome="2")
    numbered = table.rename(columns={"age": 1, "visit": 2})
    model = fit(numbered, outcome=2)
    assert model.columns == expected.columns
    np.testing.assert_array_equal(model.predict(numbered), expected.predict(numbered))
    assert fit(numbered, outcome=2, features=[1, "town"]).columns.features == ("1", "town")


@pytest.mark.gate
def test_an_outcome_of_yes_and_no():
    table = trial_table(4_000)
    words = fit(table.assign(visit=np.where(table["visit"] == 1, "yes", "no")))
    assert words.evidence["auuc"] == fit(table).evidence["auuc"]


# Rivals are fitted on the folds of a model, and judged on the same rows


@pytest.fixture(scope="module")
def small_table():
    return trial_table(2_500)


def fit_cvt(small_table, **options):
    return fit_trial_model(small_table, **(NAMES | {"id": "person", "model": "cvt"} | options))


@pytest.mark.gate
@pytest.mark.parametrize("hold_out", [0, 0.4])
def test_a_rival_has_the_numbers_of_its_own_fit(small_table, hold_out):
    model = fit_cvt(small_table, hold_out=hold_out)
    tm = fit_cvt(small_table, model="tm", hold_out=hold_out)
    found = with_rivals(model, small_table, ["tm", "cvt"])
    (rival,) = found["rivals"]  # a model is no rival of itself
    assert rival["auuc"] == pytest.approx(tm.evidence["auuc"])
    difference = model.evidence["auuc"]["gain"] - tm.evidence["auuc"]["gain"]
    assert rival["difference"]["estimate"] == pytest.approx(difference)
    assert rival["uplift"][-1] == pytest.approx(tm.evidence.expected.uplift[-1])
    assert len(rival["uplift"]) == len(found.expected.share)
    # All else is that of the fit.
    assert {name: found[name] for name in found.facts if name != "rivals"} == {
        name: model.evidence[name] for name in model.evidence.facts if name != "rivals"
    }


@pytest.mark.gate
def test_rivals_need_the_table_of_the_fit(small_table):
    model = fit_cvt(small_table)
    with pytest.raises(ValueError, match="should be the one that the model was fitted on"):
        with_rivals(model, trial_table(800, random_state=4).assign(person=range(800)), ["tm"])
    with pytest.raises(ValueError, match="a rival should be one of"):
        with_rivals(model, small_table, ["best"])


# Tables that are no trials.


@pytest.fixture(scope="module")
def sorted_table():
    """Those who spent more are treated more often."""
    table, rng = trial_table(2_000), np.random.default_rng(0)
    chance = 1 / (1 + np.exp(-(table["spent"] - 100) / 60))
    return table.assign(arm=np.where(rng.random(2_000) < chance, "mail", "none"))


@pytest.mark.parametrize(
    "options", [{}, {"ignore": ["spent"]}, {"features": ["age", "town"]}, {"hold_out": 0.4}]
)
def test_a_table_that_is_no_trial_is_not_learnt_from(sorted_table, options, monkeypatch):
    monkeypatch.setattr(TableRows, "fit", None)  # nothing is fitted before the check
    with pytest.raises(FailedCheckError, match=r"The check fails: .*despite_check=True") as caught:
        fit(sorted_table, **options)
    assert isinstance(caught.value, ValueError)
    assert caught.value.report.differences.loc[0, "feature"] == "spent"


@pytest.mark.gate_cases("0.0")
@pytest.mark.parametrize("hold_out", [0.0, 0.4])
def test_despite_the_check(sorted_table, hold_out, tmp_path):
    model = fit(sorted_table, despite_check=True, hold_out=hold_out, ignore=["member"])
    assert model.evidence["certificate"] is None
    assert model.evidence["failed_check"].startswith("The check fails: ")
    assert model.warning.startswith("This model was fitted despite a failed check of its trial.")
    save_model(model, tmp_path / "m.model")
    again = load_model(tmp_path / "m.model")
    assert again.warning == model.warning
    assert again.columns.ignored == ("member",)
    found = target(again, sorted_table, share=0.3)
    assert found.failed_check == found.unknown == model.evidence["failed_check"]
    assert np.isnan(found.expected.gain)
    with pytest.raises(ValueError, match="share or budget should be given, got neither: no profit"):
        target(again, sorted_table, cost=1.0, value=2.0)
    assert with_rivals(model, sorted_table, ["cvt"])["failed_check"] is not None
    new = trial_table(1_000, random_state=9)
    for call in (certify, partial(certify_thresholds, thresholds=[0.0])):
        with pytest.raises(ValueError, match=r"of a trial, got one that is not\. This"):
            call(again, new, new["visit"], treatment=new["arm"] == "mail")


def test_new_rows_that_are_no_trial_certify_nothing(model, sorted_table):
    found = model.judge(sorted_table.assign(person="new " + sorted_table["person"]))
    assert found["failed_check"] is not None
    assert found["certificate"] is None
    assert model.warning is None


def test_a_sound_trial_has_no_warning(model):
    assert model.warning is None
    assert model.evidence["failed_check"] is None


@pytest.mark.gate
def test_a_trial_that_looks_odd_is_warned_of_and_fitted(table):
    mailed = np.flatnonzero(table["arm"] == "mail")
    odd = table.copy()
    odd.loc[mailed[:1_100], "spent"] += 9.0
    with pytest.warns(UserWarning, match=r"The check warns: .* One in 100 of properly"):
        model = fit(odd)
    assert model.evidence["failed_check"] is None
    assert model.evidence["certificate"] is not None
    assert any("The check warns" in text for text in model.summary["warnings"])


@pytest.mark.gate
def test_columns_that_are_left_out_are_tested_in_pieces_too(sorted_table, tmp_path):
    sorted_table.to_csv(tmp_path / "rows.csv", index=False)
    pieces = open_table(tmp_path / "rows.csv", memory=1.0)
    with pytest.raises(FailedCheckError, match="The check fails"):
        fit(pieces, model="auucmax", ignore=["spent"])


@pytest.mark.gate
def test_rows_without_an_outcome_in_pieces(table, tmp_path):
    gone = np.random.default_rng(0).random(len(table)) < 0.05
    some = table.assign(visit=table["visit"].mask(gone))
    some.to_csv(tmp_path / "rows.csv", index=False)
    pieces = dataclasses.replace(open_table(tmp_path / "rows.csv", memory=1.0), piece_rows=1_000)
    with pytest.raises(ValueError, match=r"'visit' should be known of every row, got none in \d+ "):
        fit(pieces, model="auucmax")
    columns = name_columns(pieces, **NAMES, id="person", drop_missing_outcomes=True)
    rows, whole = TableRows(pieces, columns, "0" * 16), TableRows(some, columns, "0" * 16)
    np.testing.assert_array_equal(rows.y, whole.y)
    assert rows.sample.lost == whole.sample.lost
    assert sum(whole.sample.lost) == (gone & (table["arm"] != "phone")).sum()
    assert rows.check().tests == whole.check().tests
    assert sum(len(batch.y) for batch in rows.rows.batches()) == len(whole.y)


@pytest.mark.gate
def test_outcomes_that_are_missing_in_one_arm_fail_the_check(table):
    gone = (table["arm"] == "mail") & (np.arange(len(table)) % 9 == 0)
    lost = table.assign(visit=table["visit"].mask(gone))
    with pytest.raises(FailedCheckError, match="outcomes are missing more often in one arm"):
        fit(lost, drop_missing_outcomes=True)
    model = fit(lost, drop_missing_outcomes=True, despite_check=True)
    assert model.evidence["certificate"] is None


@pytest.mark.gate
@pytest.mark.parametrize("outcome", ["visit", "spent"])
def test_lower_is_better_turns_the_outcome_round(table, outcome):
    options = {"outcome": outcome, "model": "tm"}
    options |= {"after": ["visit"]} if outcome == "spent" else {}
    one = fit(table, **options)
    turn = 1 if outcome == "visit" else 0  # 0/1 stays 0/1, and money of 0 stays 0
    cost = table.assign(**{outcome: turn - table[outcome]})
    other = fit(cost, **options, lower_is_better=True)
    new = trial_table(300, random_state=5)
    np.testing.assert_allclose(other.predict(new), one.predict(new), atol=1e-9)
    assert other.evidence["auuc"]["gain"] == pytest.approx(one.evidence["auuc"]["gain"])
    assert other.evidence["rows"]["mean_treated"] == pytest.approx(
        cost.loc[cost["arm"] == "mail", outcome].mean()
    )
    assert other.columns.gain == f"{outcome} avoided"
    assert (other.evidence["certificate"] is None) == (outcome == "spent")


@pytest.fixture(scope="module")
def homes():
    return households()


@pytest.fixture(scope="module")
def by_home(homes):
    return fit(homes, groups="home")


def test_a_group_is_in_one_fold_and_no_feature(homes, by_home):
    assert by_home.columns.groups == "home"
    assert by_home.columns.features == ("x0", "x1", "x2")
    _, found = apart(by_home, homes)
    assert (pd.Series(found.fold).groupby(homes["home"]).nunique() == 1).all()
    # Whatever the order of the rows.
    again = TableRows(homes.iloc[::-1], by_home.columns, by_home.recipe.key)
    np.testing.assert_array_equal(by_home.recipe.folds(again.keys)[::-1], found.fold)
    assert by_home.judge(homes.iloc[::-1]) is by_home.evidence


def test_intervals_and_certificate_are_by_group(homes, by_home):
    rows, found = apart(by_home, homes)
    facts = by_home.evidence
    expected = auuc_inference(
        rows.y, found.ranks["tm"], treatment=rows.treated, groups=homes["home"]
    )
    half = np.sqrt(2) * (expected.gain - expected.gain_interval[0])
    assert facts["auuc"]["gain_lower"] == pytest.approx(expected.gain - half)
    alone = auuc_inference(rows.y, found.ranks["tm"], treatment=rows.treated)
    assert expected.gain_standard_error > 1.1 * alone.gain_standard_error
    n_homes = homes["home"].nunique()
    assert facts["rows"]["groups"] == n_homes
    assert "clusters are independent" in facts["certificate"]["text"]
    assert "every cluster weighs the same" in facts["certificate"]["text"]
    assert facts["randomisation"]["grouping"].startswith(f"one row of each of the {n_homes:,}")
    rival = with_rivals(by_home, homes, ["cvt"])["rivals"][0]
    with_rows = auuc_inference(rows.y, found.ranks["tm"], treatment=rows.treated).standard_error
    assert rival["auuc"]["upper"] - rival["auuc"]["lower"] > 2 * 1.96 * with_rows


@pytest.mark.gate
def test_a_hold_out_and_new_rows_by_group(homes, tmp_path):
    model = fit(homes, groups="home", hold_out=0.4)
    save_model(model, tmp_path / "m")
    model = load_model(tmp_path / "m")
    facts = model.evidence
    assert facts["rows"]["groups"] == pytest.approx(0.4 * 1_200, rel=0.15)
    assert "every cluster weighs the same" in facts["certificate"]["text"]
    other = households(random_state=1)
    new = other.assign(home="new " + other["home"], person="n" + other["person"].astype(str))
    found = model.judge(new)
    assert found["rows"]["groups"] == 1_200
    assert "every cluster weighs the same" in found["certificate"]["text"]


@pytest.mark.gate
def test_groups_with_both_arms_have_intervals_and_no_certificate(homes):
    mixed = homes.assign(arm=np.random.default_rng(0).choice(["mail", "none"], len(homes)))
    for options, where in (({}, -1), ({"hold_out": 0.4}, None)):
        facts = fit(mixed, groups="home", **options).evidence
        assert facts["certificate"] is None
        assert facts["rows"]["groups"]
        if where is not None:
            assert facts["notes"][where] == (
                "There is no certificate: groups have rows of both arms."
            )


@pytest.mark.filterwarnings("ignore:columns should tell rows apart, got 'home'")
def test_without_groups_there_are_questions(homes):
    asks = r"rows of one 'home' belong together.*pass groups='home'"
    with pytest.raises(FailedCheckError, match=asks):
        fit(homes)
    repeated = homes.assign(person=homes["home"]).drop(columns="home")
    with pytest.raises(
        ValueError, match=r"rows of an id belong together\? Then pass groups='person'"
    ):
        fit(repeated)
    assert fit(repeated, groups="person").evidence["rows"]["groups"] == homes["home"].nunique()


def noise(n=400, n_features=15, random_state=0):
    rng = np.random.default_rng(random_state)
    X = pd.DataFrame(rng.normal(size=(n, n_features))).add_prefix("x")
    return X.assign(arm=rng.choice(["mail", "none"], n), visit=rng.integers(0, 2, n))


@pytest.mark.gate_cases("0")
@pytest.mark.parametrize("some", [1.0, 0.3])
def test_rows_that_stand_several_times_are_refused(some):
    """Copies of a row would be learnt from in one fold and judged in another."""
    rows = noise()
    copies = pd.concat([rows, *[rows.sample(frac=some, random_state=k) for k in range(3)]])
    for options in ({}, {"hold_out": 0.4}):
        with pytest.raises(ValueError, match=r"have all features of another one.*groups=COLUMN"):
            fit(copies, id=None, **options)
    named = copies.assign(number=copies.index)
    facts = fit(named, id=None, groups="number").evidence
    assert facts["rows"]["groups"] == len(rows)
    assert facts["certificate"]["gain_lower_bound"] < 0
    # Nor do they judge.
    model = fit(noise(2_000, random_state=1), id=None)
    with pytest.raises(ValueError, match="have all features of another one"):
        model.judge(copies)


@pytest.mark.gate
def test_people_who_happen_to_be_alike_are_no_copies(table):
    assert fit(table[["arm", "visit", "member", "town"]], id=None).evidence["certificate"]


@pytest.mark.gate
def test_candidates_are_paid_for(table, model, tmp_path):
    tried = fit(table, n_candidates=8)
    one, many = model.evidence["certificate"], tried.evidence["certificate"]
    assert (one["n_candidates"], many["n_candidates"]) == (1, 8)
    assert many["gain_lower_bound"] < one["gain_lower_bound"]
    assert "each the best of 8" in many["text"]
    assert "the 8 ways of making models were fixed" in many["text"]
    assert tried.evidence["auuc"] == model.evidence["auuc"]
    # New rows chose nothing; rows that were set aside may have, and cannot be told from new ones.
    other = trial_table(2_000, random_state=9)
    new = other.assign(person="new " + other["person"])
    assert tried.judge(new)["certificate"]["n_candidates"] == 1
    aside = fit(table, n_candidates=8, hold_out=0.4)
    assert aside.evidence["certificate"]["n_candidates"] == 8
    save_model(aside, tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert again.judge(new)["certificate"]["n_candidates"] == 8
    new = new[new["arm"] != "phone"]
    rows = {"treatment": new["arm"] == "mail", "method": "dkw-bernstein"}
    assert certify(again, new, new["visit"], **rows).n_candidates == 8


@pytest.mark.gate
@pytest.mark.filterwarnings("ignore:The check warns")  # one fair trial in a hundred looks so
def test_households_miss_as_rarely_as_promised():
    """Nothing has an effect; by rows alone, intervals would miss three times as often."""
    n, missed = 40, {"effect": 0, "gain": 0, "certificate": 0}
    for seed in range(n):
        facts = fit(households(400, random_state=seed), groups="home").evidence
        missed["effect"] += facts["effect"]["lower"] > 0 or facts["effect"]["upper"] < 0
        missed["gain"] += facts["auuc"]["gain_lower"] > 0
        missed["certificate"] += facts["certificate"]["gain_lower_bound"] > 0
    assert missed["effect"] <= 6  # 5% of 40, and three standard errors
    assert missed["gain"] <= 4
    assert missed["certificate"] <= 2


# Chances of treatment that differ.

STRATA = {"treatment": "mail", "outcome": "visit", "id": "person", "propensity": "chance"}


@pytest.fixture(scope="module")
def strata():
    return two_strata(4_000)


def fit_strata(frame, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few rows
        return fit_trial_model(frame, **(STRATA | {"model": "tm"} | options))


@pytest.fixture(scope="module")
def of_strata(strata):
    return fit_strata(strata)


def test_chances_enter_ranks_intervals_and_calibration(strata, of_strata):
    model = of_strata
    rows, found = apart(model, strata)
    ranks = found.ranks["tm"]
    np.testing.assert_array_equal(rows.propensity, strata["chance"])
    more = {"treatment": rows.treated, "propensity": strata["chance"]}
    expected = auuc_inference(rows.y, ranks, **more)
    facts = model.evidence
    assert facts["auuc"]["estimate"] == pytest.approx(expected.estimate)
    assert facts["auuc"]["lower"] == pytest.approx(expected.interval[0], abs=0.02)
    assert model.calibration.uplift == pytest.approx(calibrate(rows.y, ranks, **more).uplift)
    truth, error = 0.2 * 27 / 62, facts["effect"]["standard_error"]
    assert abs(facts["effect"]["estimate"] - truth) < 4 * error
    means = facts["rows"]["mean_treated"] - facts["rows"]["mean_control"]
    assert means == pytest.approx(facts["effect"]["estimate"])
    naive = rows.y[rows.treated].mean() - rows.y[~rows.treated].mean()
    assert naive - truth > 5 * error
    assert "taken from 'chance'" in facts["notes"][1]
    assert "0.2 to 0.8 by design" in facts["certificate"]["text"]
    assert facts["certified_shares"] is None  # proven for equal chances only


def test_models_are_fitted_with_the_weights(strata, of_strata):
    model = of_strata
    X = model.encoder.transform(strata)
    arm, chance = strata["mail"] == 1, strata["chance"]
    share = arm.mean()
    weight = np.where(arm, share / chance, (1 - share) / (1 - chance))
    alone = TwoModels().fit(X, strata["visit"], treatment=strata["mail"], sample_weight=weight)
    np.testing.assert_allclose(model.predict(strata), alone.predict(X), atol=1e-6)
    raw = TwoModels().fit(X, strata["visit"], treatment=strata["mail"])
    assert np.abs(model.predict(strata) - raw.predict(X)).max() > 1e-4


def test_a_hold_out_is_certified_by_its_chances(strata):
    model = fit_strata(strata, hold_out=0.4)
    rows = TableRows(strata, model.columns, model.recipe.key)
    held_out = model.recipe.held_out(rows.keys)
    score = model.predict(strata[held_out])
    own = {"y": rows.y[held_out], "treatment": rows.treated[held_out]}
    certificate = certify(score, **own, propensity=rows.propensity[held_out])
    assert model.evidence["certificate"]["lower_bound"] == pytest.approx(certificate.lower_bound)
    assert model.evidence["certificate"]["method"] == "betting-fixed"
    assert model.evidence["certified_shares"] is None


@pytest.mark.gate
@pytest.mark.parametrize("more", [{}, {"hold_out": 0.4}])
def test_a_chance_far_beyond_the_others_leaves_no_certificate(strata, more):
    plain = fit_strata(strata, **more)
    assert plain.evidence["certificate"] is not None
    held_out = np.ones(len(strata), dtype=bool)
    if more:
        keys = TableRows(strata, plain.columns, plain.recipe.key).keys
        held_out = plain.recipe.held_out(keys)
    # Some row is in the part that sizes bets: others are not.
    place = [np.flatnonzero(held_out)[k] for k in (3, 50, 200)]
    found = []
    for row in place:
        rare = strata.copy()
        rare.loc[rare.index[row], "chance"] = 0.01
        facts = fit_strata(rare, **more).evidence
        found.append(facts["certificate"] is None)
        told = "some chances of treatment lie nearer to 0 or 1" in " ".join(facts["notes"])
        assert told == found[-1]
    assert any(found)


@pytest.mark.gate
def test_one_chance_for_all_is_no_news(table, model):
    """Estimates are the same; intervals no longer know that outcomes are 0/1, and are close."""
    same = fit(table.assign(p=0.5), propensity="p")
    alone = model
    for name in ("estimate", "gain"):
        assert same.evidence["auuc"][name] == pytest.approx(alone.evidence["auuc"][name], abs=1e-4)
    assert same.calibration.uplift == pytest.approx(alone.calibration.uplift, abs=1e-3)
    low, high = (model.evidence["auuc"]["lower"] for model in (alone, same))
    assert low == pytest.approx(high, abs=0.003)


@pytest.mark.gate
def test_chances_are_a_feature_only_if_named(strata):
    assert "chance" not in name_columns(strata, **STRATA).features
    named = name_columns(strata, **STRATA, features=["age", "chance"])
    assert named.features == ("age", "chance")
    assert "chance" in {column.name for column in fit_strata(
        strata, features=["age", "income", "chance"]
    ).encoder.columns_}  # fmt: skip


@pytest.mark.gate
@pytest.mark.parametrize("name", MODELS)
def test_every_model_takes_the_weights(name, strata):
    model = fit_strata(strata.head(1_000), model=name, hold_out=0.4)  # fitted once, not by fold
    assert np.isfinite(model.predict(strata)).all()


@pytest.mark.gate
def test_a_table_in_pieces_is_weighed_by_its_chances(strata, of_strata, tmp_path):
    strata.to_parquet(tmp_path / "t.parquet", row_group_size=500)
    new = two_strata(3_000, random_state=1)
    new.to_parquet(tmp_path / "n.parquet", row_group_size=500)
    for name in ("auto", "auucmax"):
        named = STRATA | {"model": name, "hold_out": 0.3}
        found = fit_trial_model(open_table(tmp_path / "t.parquet", memory=1), **named)
        expected = fit_trial_model(strata, **named)
        np.testing.assert_allclose(found.predict(new), expected.predict(new), rtol=0, atol=1e-6)
    pieces = of_strata.judge(open_table(tmp_path / "n.parquet", memory=1))
    assert pieces["auuc"] == of_strata.judge(new)["auuc"]


@pytest.mark.gate
def test_lost_outcomes_are_tested_by_the_chances(strata):
    """Regulars are lost more often: by arm that differs, by the chances it does not."""
    rng = np.random.default_rng(0)
    lost = (strata["kind"] == "regular") & (rng.random(len(strata)) < 0.3)
    table = strata.assign(visit=strata["visit"].where(~lost))
    model = fit_strata(table, drop_missing_outcomes=True)
    tests = {test["name"]: test for test in model.evidence["randomisation"]["tests"]}
    assert tests["missing outcomes"]["adjusted_p_value"] > 0.01
    more = lost & (strata["mail"] == 1)
    table = strata.assign(visit=strata["visit"].where(~more))
    with pytest.raises(FailedCheckError, match="outcomes are missing more often in one arm"):
        fit_strata(table, drop_missing_outcomes=True)


@pytest.mark.gate
def test_strata_of_coarse_features_are_no_copies(tmp_path):
    """Nearly all of one stratum were treated, and rows look alike: new ones can be judged."""
    tables = [
        two_strata(4_000, random_state=seed, chances=(0.98, 0.02))
        .assign(age=lambda frame: frame["age"] // 20)
        .drop(columns=["income", "person"])
        for seed in (0, 1)
    ]
    model = fit_strata(tables[0], id=None)
    evidence = model.judge(tables[1])
    assert evidence["failed_check"] is None
