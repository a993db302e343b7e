"""Rivals learn from the rows that the model learnt from, and from no other."""

import numpy as np
import pytest
from tests.trial_model.trial_table import NAMES, trial_table

from auucmax.trial_model import MODELS, fit_trial_model, rival_scores


@pytest.fixture(scope="module")
def table():
    return trial_table(4_000)


@pytest.fixture(scope="module")
def model(table):
    return fit_trial_model(table, **NAMES, id="person", model="tm")


def test_rivals_are_fitted_on_what_the_model_learnt_from(table, model):
    held_out, scores = rival_scores(model, table, ["cvt"])
    trained = model.trained(table)
    counts = model.summary["rows"]["parts"]["train"]
    assert trained.treatment.sum() == counts["treated"]
    assert (1 - trained.treatment).sum() == counts["control"]
    assert not set(trained.positions) & set(held_out.positions)
    by_hand = MODELS["cvt"](0).fit(
        model.encoder.transform(trained.frame), trained.y, treatment=trained.treatment
    )
    expected = by_hand.predict(model.encoder.transform(held_out.frame))
    np.testing.assert_array_equal(scores["cvt"], expected)


def test_outcomes_of_held_out_rows_change_no_rival(table, model):
    held_out, scores = rival_scores(model, table, ["tm"])
    changed = table.copy()
    changed.loc[changed.index[held_out.positions], "visit"] = 0
    np.testing.assert_array_equal(rival_scores(model, changed, ["tm"])[1]["tm"], scores["tm"])


def test_a_rival_of_the_same_kind_is_the_model_itself(table, model):
    """Neither has learnt from more rows than the other, so they are one: no calibration rows."""
    held_out, scores = rival_scores(model, table, ["tm"])
    np.testing.assert_allclose(scores["tm"], model.predict(held_out.frame), rtol=0, atol=1e-12)


def test_a_table_without_rows_of_the_fit_has_no_rivals(model):
    new = trial_table(1_000, random_state=5).assign(person=np.arange(1_000) + 10_000_000)
    held_out, scores = rival_scores(model, new, None)
    assert scores == {}
    assert not held_out.seen_before
    assert rival_scores(model, new, [])[1] == {}
    with pytest.raises(ValueError, match="Pass the file of the fit, or no rivals"):
        rival_scores(model, new, ["tm"])


def test_by_default_there_is_one_where_there_can_be(table, model):
    assert list(rival_scores(model, table, None)[1]) == ["tm"]
    assert rival_scores(model, table, [])[1] == {}


def test_an_unknown_rival(table, model):
    with pytest.raises(ValueError, match="a rival should be one of"):
        rival_scores(model, table, ["best"])
