"""The report of a model is of rows that it has not learnt from."""

import numpy as np
import pytest
from tests.trial_model.trial_table import NAMES, trial_table

from auucmax import auuc_score, check_randomisation
from auucmax.report import Economy, render, summarise_model
from auucmax.trial_model import fit_trial_model, trial_rows


@pytest.fixture(scope="module")
def table():
    return trial_table(4_000)


@pytest.fixture(scope="module")
def model(table):
    return fit_trial_model(table, **NAMES, id="person", model="tm")


@pytest.fixture(scope="module")
def summary(model, table):
    return summarise_model(
        model, table, economy=Economy(cohort=500, cost=1.0, value=9.0), share=0.2, rivals=["cvt"]
    )


def test_numbers_are_of_the_test_rows(model, table, summary):
    held_out = model.held_out(table)
    assert summary["rows"]["n_rows"] == len(held_out.y)
    score = model.predict(held_out.frame)
    expected = auuc_score(held_out.y, score, treatment=held_out.treatment)
    assert summary["auuc"]["estimate"] == pytest.approx(expected)
    assert held_out.note in render(summary)


def test_names_and_options_arrive(summary):
    page = render(summary)
    assert "visit" in page
    assert "mail" in page
    assert [rival["name"] for rival in summary["rivals"]] == ["cvt"]
    assert summary["plan"]["cohort"] == 500
    assert summary["plan"]["cost_per_person"] == 1.0
    assert summary["headline"]["share"] == 0.2


def test_randomisation_is_checked_on_all_rows(model, table, summary):
    found = summary["randomisation"]
    for frame, same in ((table, True), (model.held_out(table).frame, False)):
        report = check_randomisation(trial_rows(frame, model.columns).trial(model.columns))
        differences = report.to_dict()["differences"][: len(found["differences"])]
        assert (found["differences"] == differences) == same


def test_weights_are_shown_of_linear_scores_only(table, summary):
    assert summary["drivers"]["linear"] is None  # two logistic models
    linear = fit_trial_model(table, **NAMES, id="person", model="mom")
    terms = summarise_model(linear, table)["drivers"]["linear"]
    assert terms
    assert all(np.isfinite(term["weight"]) for term in terms)


def test_labels_that_say_nothing_come_with_their_column(table):
    numbered = table[table["arm"] != "phone"]
    numbered = numbered.assign(mailed=(numbered["arm"] == "mail").astype(int)).drop(columns="arm")
    model = fit_trial_model(numbered, treatment="mailed", outcome="visit", id="person", model="tm")
    assert "mailed = 1" in render(summarise_model(model, numbered))
