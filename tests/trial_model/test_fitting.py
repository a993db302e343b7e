"""From a raw table to a model: disjoint parts, honest evidence, clear errors."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from tests.trial_model.trial_table import NAMES, trial_table

from auucmax import auuc_inference, certify
from auucmax.trial_model import MODELS, PARTS, fit_trial_model
from auucmax.trial_model.dealing import deal
from auucmax.trial_model.fitting import _arm_labels as arm_labels


def fit(frame, **options):
    return fit_trial_model(frame, **(NAMES | {"id": "person", "model": "tm"} | options))


@pytest.fixture(scope="module")
def table():
    return trial_table()


@pytest.fixture(scope="module")
def model(table):
    return fit(table)


def test_summary_is_plain_and_tells_all(table, model):
    summary = json.loads(json.dumps(model.summary, allow_nan=False))
    assert summary == model.summary
    two_arms = table[table["arm"] != "phone"]
    rows = summary["rows"]
    assert rows["given"] == len(table)
    assert rows["used"] == len(two_arms)
    assert rows["left_out"] == {"phone": int((table["arm"] == "phone").sum())}
    assert sum(sum(part.values()) for part in rows["parts"].values()) == len(two_arms)
    assert list(rows["parts"]) == list(PARTS)
    assert summary["randomisation"]["ok"] is True
    assert summary["outcome"]["binary"] is True
    assert summary["warnings"] == []
    assert summary["test"]["interval"][0] < summary["test"]["estimate"]
    assert summary["certificate"]["gain_lower_bound"] < summary["certificate"]["gain_estimate"]
    assert "held-out rows" in summary["certificate"]["text"]
    assert summary["date"].endswith("Z")


def test_evidence_is_that_of_the_test_rows(table, model):
    held_out = model.held_out(table)
    score = model.predict(held_out.frame)
    found = auuc_inference(held_out.y, score, treatment=held_out.treatment)
    assert model.summary["test"]["estimate"] == pytest.approx(found.estimate)
    assert model.summary["test"]["n_rows"] == len(score)
    certificate = certify(score, y=held_out.y, treatment=held_out.treatment)
    assert model.summary["certificate"]["lower_bound"] == pytest.approx(certificate.lower_bound)


def test_nothing_is_learnt_from_test_rows(table, model):
    """Another world, with other test rows under the same ids, has the same model."""
    held_out = model.held_out(table)
    other = table.copy()
    where = other.columns.get_loc
    rng = np.random.default_rng(0)
    test = held_out.positions
    other.iloc[test, where("age")] = rng.integers(200, 300, len(test))
    other.iloc[test, where("visit")] = 1 - other.iloc[test, where("visit")]
    other.iloc[test, where("town")] = "Atlantis"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the check of the randomisation has its doubts
        again = fit(other)
    assert again.encoder.terms_ == model.encoder.terms_
    assert again.calibration == model.calibration
    new = trial_table(200, random_state=5)
    np.testing.assert_array_equal(again.predict(new), model.predict(new))
    assert again.summary["test"] != model.summary["test"]
    # A town that only test rows have is no error, here or later.
    assert len(again.predict(other)) == len(other)


def test_calibration_rows_do_not_move_the_scores(table, model):
    ids = table.loc[table["arm"] != "phone"].reset_index(drop=True)
    rows = model.held_out(table)
    _, parts = deal_again(model, ids)
    changed = table.set_index("person")
    people = ids["person"].to_numpy()[parts == 1]
    assert not set(people) & set(rows.frame["person"])
    changed.loc[people, "visit"] = 1 - changed.loc[people, "visit"]
    again = fit(changed.reset_index())
    new = trial_table(200, random_state=5)
    np.testing.assert_array_equal(again.predict(new), model.predict(new))
    assert again.calibration != model.calibration


def deal_again(model, frame):
    from auucmax.trial_model.rows import trial_rows

    split = model.split
    marks = trial_rows(frame, model.columns).marks(model.columns.features)
    return deal(
        marks,
        test_share=split.test_share,
        calibration_share=split.calibration_share,
        key=split.key,
    )


def test_same_seed_same_model_other_seed_other_parts(table, model):
    again = fit(table, random_state=np.random.default_rng(0))
    np.testing.assert_array_equal(again.predict(table), model.predict(table))
    assert again.split.to_dict() == model.split.to_dict()
    assert fit(table, random_state=1).split.key != model.split.key


def test_order_of_rows_does_not_matter_with_ids(table, model):
    again = fit(table.sample(frac=1, random_state=1))
    np.testing.assert_allclose(again.predict(table), model.predict(table), atol=1e-9)
    assert again.summary["rows"] == model.summary["rows"]


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
    assert model.summary["model"] == name


def test_outcomes_that_are_not_binary(table):
    frame = table.rename(columns={"visit": "bought", "spent": "visit"})
    model = fit(frame, model="mom")
    assert model.summary["outcome"]["binary"] is False
    assert model.summary["certificate"]["method"] == "asymptotic"
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


def test_without_calibration_rows(table):
    model = fit(table, calibration_share=0)
    assert model.calibration is None
    assert model.summary["rows"]["parts"]["calibration"] == {"treated": 0, "control": 0}
    with pytest.raises(ValueError, match="fitted with calibration rows to tell uplift"):
        model.uplift(table)


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
    assert model.summary["randomisation"]["ok"] is False
    assert "letter" in model.summary["randomisation"]["verdict"]


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
        ({}, {"test_share": 0}, "test_share should be a number strictly between 0 and 1"),
        ({}, {"calibration_share": 0.8}, "should leave rows to learn from"),
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
    with pytest.raises(ValueError, match=r"rows should hold both arms.*too few rows"):
        fit(table[table["arm"] != "phone"].groupby("arm").head(2))


def test_left_out_rows_may_lack_an_outcome(table):
    frame = table.astype({"visit": "float64"})
    frame.loc[frame["arm"] == "phone", "visit"] = np.nan
    assert fit(frame).summary["rows"]["left_out"] == {"phone": int((table["arm"] == "phone").sum())}


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
    assert words.summary["test"] == fit(table).summary["test"]
