"""From a raw table to a model: honest evidence of every row, clear errors."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from tests.trial_model.trial_table import NAMES, trial_table

from auucmax import auuc_inference, certify
from auucmax.evaluation import auuc_score
from auucmax.targeting import calibrate
from auucmax.trial_model import MODELS, fit_trial_model
from auucmax.trial_model.crossfit import TableRows, cross_fit
from auucmax.trial_model.fitting import makers
from auucmax.trial_model.rows import _arm_labels as arm_labels


def fit(frame, **options):
    return fit_trial_model(frame, **(NAMES | {"id": "person", "model": "tm"} | options))


def apart(model, frame):
    """Rows and out-of-fold ranks, made again from what the model remembers."""
    rows = TableRows(frame, model.columns, model.recipe.key)
    makes = makers([model.model_name], model.recipe.seed)
    return rows, cross_fit(rows, makes, model.recipe, with_chunks=False)


@pytest.fixture(scope="module")
def table():
    return trial_table()


@pytest.fixture(scope="module")
def model(table):
    return fit(table)


def test_summary_is_plain_and_tells_all(table, model):
    summary = json.loads(json.dumps(model.summary, allow_nan=False))
    assert summary == model.summary
    assert summary["table"] == {
        "given": len(table),
        "used": int((table["arm"] != "phone").sum()),
        "learnt": int((table["arm"] != "phone").sum()),
        "left_out": {"phone": int((table["arm"] == "phone").sum())},
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
    whole = rows.fit({"tm": MODELS["tm"](0)}, lambda keys: np.ones(len(keys), dtype=bool))
    np.testing.assert_array_equal(whole.predict(table)[0], model.predict(table))


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


def test_same_seed_same_model_other_seed_other_folds(table, model):
    again = fit(table, random_state=np.random.default_rng(0))
    np.testing.assert_array_equal(again.predict(table), model.predict(table))
    assert again.recipe == model.recipe
    assert again.evidence.facts == model.evidence.facts
    assert fit(table, random_state=1).recipe.key != model.recipe.key


def test_order_of_rows_does_not_matter_with_ids(table, model):
    again = fit(table.sample(frac=1, random_state=1))
    np.testing.assert_allclose(again.predict(table), model.predict(table), atol=1e-9)
    assert again.evidence["rows"] == model.evidence["rows"]
    assert again.evidence["auuc"]["gain"] == pytest.approx(model.evidence["auuc"]["gain"])


def test_rivals_are_ranked_on_the_same_folds(table):
    model = fit(table, model="cvt")
    (rival,) = model.evidence["rivals"]
    assert rival["name"] == "tm"
    assert rival["auuc"]["estimate"] == pytest.approx(fit(table).evidence["auuc"]["estimate"])
    difference = model.evidence["auuc"]["estimate"] - rival["auuc"]["estimate"]
    assert rival["difference"]["estimate"] == pytest.approx(difference)


SLOW = {"pcg", "ndcg", "tarnet", "cfrnet", "ganite"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.gate] if n in SLOW else []) for n in MODELS],
)
def test_every_model_by_name(name, table):
    small = table.head(1_500)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few rows
        model = fit(small, model=name)
    scores = model.predict(small)
    assert scores.shape == (len(small),)
    assert np.isfinite(scores).all()
    assert np.isfinite(model.uplift(small)).all()
    assert model.summary["model"] == model.model_name == name


def test_outcomes_that_are_not_binary(table):
    frame = table.rename(columns={"visit": "bought", "spent": "visit"})
    model = fit(frame, model="mom")
    assert model.evidence["rows"]["binary"] is False
    assert model.evidence["certificate"] is None
    assert any("outcomes are not 0/1" in note for note in model.evidence["notes"])
    with pytest.raises(ValueError, match="y should be 0 or 1 for this model"):
        fit(frame, model="auucmax")


def test_labels_of_arms():
    arms = pd.Series(["mail", "none", "mail", None])
    for given in (("mail", "none"), ("mail", None), (None, "none")):
        assert arm_labels(arms.dropna(), "arm", *given) == ("mail", "none")
    for zero_one in ([0, 1], [0.0, 1.0], ["0", "1"]):
        assert arm_labels(pd.Series(zero_one), "arm", None, None) == ("1", "0")
    assert arm_labels(pd.Series([True, False]), "arm", None, None) == ("true", "false")
    # The command line knows texts only.
    assert arm_labels(pd.Series([1.0, 2.0, 3.0]), "arm", "2", "1") == ("2", "1")
    assert arm_labels(pd.Series([1, 2]), "arm", 2, None) == ("2", "1")


def test_arms_of_numbers_are_the_same_as_arms_of_texts(table, model):
    number = table["arm"].map({"mail": 2.0, "none": 1.0, "phone": 3.0})
    again = fit(table.assign(arm=number), treated="2", control=1)
    np.testing.assert_array_equal(again.predict(table), model.predict(table))


def test_warnings_are_given_and_kept(table):
    with pytest.warns(UserWarning, match="'constant' with one value"):
        model = fit(table.assign(constant=1))
    assert any("'constant' with one value" in text for text in model.summary["warnings"])
    assert model.summary["features"]["dropped"] == {"constant": "with one value"}


def test_a_feature_that_tells_the_treatment_is_reported(table):
    frame = table.assign(letter=(table["arm"] == "mail").astype(float))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fit(frame)
    assert model.evidence["randomisation"]["ok"] is False
    assert "letter" in model.evidence["randomisation"]["verdict"]


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"treatment": "amr"}, "'amr'.*Did you mean 'arm'"),
        ({}, {"outcome": "nothing"}, "should have the column 'nothing'"),
        ({}, {"id": "persona"}, "Did you mean 'person'"),
        ({}, {"features": ["age", "twon"]}, "Did you mean 'town'"),
        ({}, {"features": ["age", "visit"]}, "other columns than treatment, outcome and id"),
        ({}, {"features": []}, "features should be at least one column"),
        ({}, {"model": "best"}, "model should be one of 'auucmax'"),
        ({}, {"treated": "post"}, "treated should be one of the labels of 'arm'.*got 'post'"),
        ({}, {"treated": "mail", "control": "mail"}, "come with the labels of two arms"),
        ({}, {"treated": None, "control": None}, "Pass treated=... and control=..., two of them"),
        ({}, {"treated": "mail", "control": None}, "Pass treated=... and control=..., two of them"),
        ({}, {"hold_out": 1}, "hold_out should be a number strictly between 0 and 1"),
        ({}, {"hold_out": -0.1}, "hold_out should be a number strictly between 0 and 1"),
        ({"visit": None}, {}, "the outcome 'visit' should have no missing values, got 1"),
        ({"arm": None}, {}, "the treatment 'arm' should have no missing values, got 1"),
        ({"person": None}, {}, "the id 'person' should have no missing values, got 1"),
        ({"person": "p5"}, {}, "the id 'person' should be different in every row"),
        ({"spent": np.inf}, {}, "column 'spent' should hold finite numbers"),
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


def test_left_out_rows_may_lack_an_outcome(table):
    frame = table.astype({"visit": "float64"})
    frame.loc[frame["arm"] == "phone", "visit"] = np.nan
    assert fit(frame).summary["table"]["left_out"] == {
        "phone": int((table["arm"] == "phone").sum())
    }


def test_index_of_the_frame_does_not_matter(table, model):
    odd = table.set_index(pd.Index([0] * len(table)))
    np.testing.assert_array_equal(fit(odd).predict(odd), model.predict(table))


def test_names_of_columns_are_made_texts():
    table = trial_table(4_000)
    expected = fit(table.rename(columns={"age": "1", "visit": "2"}), outcome="2")
    numbered = table.rename(columns={"age": 1, "visit": 2})
    model = fit(numbered, outcome=2)
    assert model.columns == expected.columns
    np.testing.assert_array_equal(model.predict(numbered), expected.predict(numbered))
    assert fit(numbered, outcome=2, features=[1, "town"]).columns.features == ("1", "town")


def test_an_outcome_of_yes_and_no():
    table = trial_table(4_000)
    words = fit(table.assign(visit=np.where(table["visit"] == 1, "yes", "no")))
    assert words.evidence["auuc"] == fit(table).evidence["auuc"]
