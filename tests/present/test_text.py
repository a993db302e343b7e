"""Results in words: one text for each kind and state, and what no text may do."""

import json

import pytest
from tests.present.cases import CASES, FOLDER, chosen, snapshot, table, trial

from auucmax.present.brief import as_json, brief, html, text
from auucmax.results import Brief, Estimate, State

EVIL = "<script>alert(1)</script>\x1b[2J"


@pytest.mark.parametrize("name", CASES)
def test_texts_are_those_of_the_snapshots(name):
    """``python tests/present/regenerate.py`` writes them again."""
    assert snapshot(name) == (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def test_every_snapshot_has_a_case():
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(CASES)


@pytest.mark.parametrize("name", ["fit_works", "target_profit", "check_fails", "verify_works"])
def test_json_has_the_result_and_its_words(name):
    result = CASES[name]()
    found = json.loads(json.dumps(as_json(result), allow_nan=False))
    assert set(found) >= {"result", "brief"}
    assert Brief.from_json(found["brief"]) == brief(result)


def test_an_interval_that_contradicts_the_guarantee_is_not_shown():
    found = chosen("works", share=0.3).decision
    plan = found.plan
    assert found.state == State.GUARANTEED
    wide = Estimate(value=plan.gain.value, lower=-1.0, upper=300.0)
    shown = brief(
        type(found)(**(vars(found) | {"plan": type(plan)(**(vars(plan) | {"gain": wide}))}))
    )
    assert "-1" not in shown.verdict
    assert any("Guaranteed" in name for name, _ in shown.facts)


def test_names_from_data_cannot_steer_a_terminal_or_a_notebook():
    data = table(900).rename(columns={"visit": EVIL, "city": f"city {EVIL}"})
    found = trial(data, outcome=EVIL)
    for shown in (text(found, details=True), html(found)):
        assert "\x1b" not in shown
    assert "<script" not in html(found)


def test_only_results_have_words():
    with pytest.raises(TypeError, match="known kind"):
        brief(object())
