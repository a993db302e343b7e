"""The card of a model: what it says, in which order, and that names stay names."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.arms_table import arms_table
from tests.model.trial_table import named_model
from tests.present.cases import model as case_model
from tests.present.hostile import HOSTILE

import auucmax
from auucmax.present.brief import brief
from auucmax.present.page import escaped, model_card

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


def test_trial_and_evidence(model, card):
    (arm,) = model.evidence.arms
    for rows in arm.rows:
        assert re.search(rf"\| {rows.name} \| {rows.n_rows:,} \| {rows.mean:.5g} \|", card)
    found = brief(model.evidence)
    assert escaped(found.verdict) in card
    for name, value in (*found.facts, *found.details):
        assert f"| {escaped(name)} | {escaped(value)} |" in lines(card)
    for name, kind in model.inputs.items():
        assert f"| {name} | {kind} |" in lines(card)


@pytest.mark.parametrize("kind", ["failed"])
def test_a_failed_check_comes_first(kind):
    model = case_model(kind)
    card = model_card(model)
    first = card.index(f"**{escaped(brief(model.evidence).verdict)}**")
    assert card.index("# Who should") < first < card.index(SECTIONS[0])
    results = card[card.index(SECTIONS[3]) : card.index(SECTIONS[4])]
    assert "|" not in results


@pytest.mark.gate
def test_names_of_data_stay_names():
    bad = [*HOSTILE, "# x\n# y", "| a | b |", "![x](http://y)", "`code", "---", "1. one", "$$"]
    columns, labels = ("visit", "age", "town", "spent", "person"), ("mail", "phone", "none")
    names = dict(zip((*columns, *labels), bad, strict=False))
    table = arms_table(1_500).replace({"arm": names}).rename(columns=names)
    trial = auucmax.read_trial(
        table, treatment="arm", outcome=names["visit"], id=names["person"], control=names["none"]
    )
    card = model_card(auucmax.fit(trial, "tm"))
    assert [line.partition(" ")[0] for line in headings(card)] == ["#", *["##"] * 5]
    assert set(re.findall(r"(?<!\\)[<>`]", card.split("```python")[0])) == set()
    assert not re.search(r"(?i)\b(https?:|www\.)", card)
    tables = [line for line in lines(card) if line[:1] == "|"]
    assert {line.count("|") - line.count("\\|") for line in tables} == {3, 5}


@given(st.text())
def test_escaped_texts_are_one_line_and_begin_nothing(text):
    found = escaped(text)
    assert len(found.splitlines()) <= 1
    assert not re.match(r"([-+=#>]|\d+[.)])(\s|$)", found)
    assert not re.search(r"(?<!\\)(?:\\\\)*[`*_\[\]<>|~&$#!]", found)
