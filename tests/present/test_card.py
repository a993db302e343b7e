"""The card of a model: what it says, in which order, and that names stay names."""

import re
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.arms_table import arms_table, fitted
from tests.model.trial_table import NAMES, named_model, trial_table
from tests.present.hostile import HOSTILE

from auucmax.model import fit_trial_model
from auucmax.present import model_card, summarise_arms, summarise_model
from auucmax.present.card import escaped
from auucmax.present.sentences import certificate_sentence

SECTIONS = [
    "## Model description",
    "## Intended uses & limitations",
    "## Training procedure",
    "## Evaluation results",
    "## How to get started with the model",
]


def lines(card):
    return card.splitlines()


def headings(card):
    return [line for line in lines(card) if line.startswith("#")]


@pytest.fixture(scope="module")
def model():
    return named_model("tm")


@pytest.fixture(scope="module")
def card(model):
    return model_card(model)


def test_head_and_sections(card):
    head, body = card.removeprefix("---\n").split("\n---\n", 1)
    assert "library_name: auucmax" in lines(head)
    assert [line for line in lines(head) if line.startswith("- ")]
    assert headings(body) == ["# Who should get mail? Effect on visit", *SECTIONS]
    assert "\n\n\n" not in card


def test_it_tells_the_trial_and_the_evidence(model, card):
    found = summarise_model(model)
    rows = found["rows"]
    for arm, name in (("treated", "mail"), ("control", "none")):
        assert f"| {name} | {rows[arm]:,} | {rows[f'mean_{arm}']:.5g} |" in lines(card)
    for text in (
        found["headline"]["text"],
        found["auuc"]["text"],
        found["trial"]["balance"],
        found["trial"]["effect"],
        certificate_sentence(found),
        *(caveat["text"] for caveat in found["caveats"]),
        *found["notes"],
    ):
        assert escaped(text) in card
    for name, kind in model.inputs.items():
        assert f"| {name} | {kind} |" in lines(card)
    shares = [line for line in lines(card) if re.match(r"\| \d+% \|", line)]
    assert len(shares) == 10


def test_it_has_no_row_of_the_trial(card):
    assert not set(re.findall(r"\w+", card)) & set(trial_table(1_500)["person"])


def test_a_failed_check_comes_first():
    table = trial_table(1_500)
    table.loc[(table["arm"] == "mail") & (table["age"] < 60), "age"] = 20.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the check, and of few rows
        model = fit_trial_model(table, **NAMES, id="person", model="tm", despite_check=True)
    card = model_card(model)
    assert model.warning is not None
    first = card.index("**The trial fails its check.**")
    assert card.index("# Who should") < first < card.index(SECTIONS[0])
    assert (
        escaped(model.evidence["randomisation"]["verdict"]) in card[first : card.index(SECTIONS[0])]
    )
    results = card[card.index(SECTIONS[3]) : card.index(SECTIONS[4])]
    assert "tell nothing of a ranking" in results
    assert "|" not in results


def test_several_arms(arms_model):
    card, found = model_card(arms_model), summarise_arms(arms_model)
    assert headings(card) == ["# Who should get what? Effect on visit", *SECTIONS]
    assert 'each of "mail" and "phone" against none' in card
    for arm in found["arms"]:
        assert f"| {arm['label']} | {arm['rows']:,} |" in card
    assert escaped(found["headline"]["text"]) in card
    for other in found["differences"]:
        assert f"| {escaped(other['name'])} |" in card
    assert escaped(found["certificate"]["text"]) in card
    assert card.count(escaped(found["certificate"]["text"])) == 1
    assert "\n\n\n" not in card


def test_a_failed_check_of_several_arms(arms_model):
    failed = {"failed_check": "It is no trial.", "banner": "It is no trial."}
    card = model_card(arms_model, summarise_arms(arms_model) | failed)
    assert card.index("**The trial fails its check.** It is no trial.") < card.index(SECTIONS[0])
    results = card[card.index(SECTIONS[3]) : card.index(SECTIONS[4])]
    assert "|" not in results
    assert "Certificate" not in results


@pytest.mark.gate
def test_names_of_data_stay_names():
    bad = [*HOSTILE, "# x\n# y", "| a | b |", "![x](http://y)", "`code", "---", "1. one", "$$"]
    columns, labels = ("visit", "age", "town", "spent", "person"), ("mail", "phone", "none")
    names = dict(zip((*columns, *labels), bad, strict=False))
    table = arms_table(1_500).replace({"arm": names}).rename(columns=names)
    renamed = {"outcome": names["visit"], "id": names["person"], "control": names["none"]}
    card = model_card(fitted(table, **renamed))
    assert [line.partition(" ")[0] for line in headings(card)] == ["#", *["##"] * 5]
    assert set(re.findall(r"(?<!\\)[<>`]", card.split("```python")[0])) == set()
    assert not re.search(r"(?i)\b(https?:|www\.)", card)
    tables = [line for line in lines(card) if line[:1] == "|"]
    assert {line.count("|") - line.count("\\|") for line in tables} == {3, 4, 7}


@given(st.text())
def test_escaped_texts_are_one_line_and_begin_nothing(text):
    found = escaped(text)
    assert len(found.splitlines()) <= 1
    assert not re.match(r"([-+=#>]|\d+[.)])(\s|$)", found)
    assert not re.search(r"(?<!\\)(?:\\\\)*[`*_\[\]<>|~&$#!]", found)
