"""Effects of raw columns add up to the linear predictor of the encoded features."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from tests.export.cases import (
    PLANS,
    cases,
    days,
    example,
    fitted_ensemble,
    model_of,
    plans,
)

from auucmax.encoding.kinds import counted_as, level_text
from auucmax.export import to_json
from auucmax.export.raw_formula import raw_formula


def added(effect, value):
    """What the docstring says, for one value."""
    is_missing = value is None or value != value
    if effect.kind == "wave":
        turns = 0 if is_missing else value / effect.period + effect.shift
        return 0 if is_missing else round(math.sin(2 * math.pi * (turns - math.floor(turns))), 6)
    if effect.kind == "code" and not is_missing:
        value = level_text(float(value))
    if effect.kind not in ("category", "code"):
        return effect.when_missing if is_missing else effect.per_unit * value
    levels = dict(effect.levels)
    level = None if is_missing else counted_as(value, levels)
    return effect.missing if level is None else levels.get(level, effect.other)


@settings(max_examples=30, deadline=None)
@given(cases())
def test_effects_add_up(case):
    formula = raw_formula(case.encoder, case.formula)
    (member,) = formula.members
    for part, raw in zip(case.formula.parts, member.parts, strict=True):
        weighted = list(zip(raw.features, formula.features, strict=True))
        z = [raw.intercept + sum(added(e, row[e.column]) for e in raw.effects)
             + sum(w * added(e, row[e.column]) for w, e in weighted)
             for row in case.rows()]  # fmt: skip
        size = np.abs(case.features) @ np.abs(part.coef)
        expected = case.features @ part.coef + part.intercept
        assert (np.abs(z - expected) <= 1e-9 + 1e-13 * size).all()


# The JSON, scored by the program that the page shows.

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "export.md").read_text()
BLOCKS = [part.split("```")[0] for part in PAGE.split("```python\n")[1:]]
(PROGRAM,) = (block for block in BLOCKS if "def score(model, row)" in block)


def scorer_of_the_page():
    names = {}
    exec(compile(PROGRAM, "export.md", "exec"), names)
    return names


def entry(*model):
    """The score of the only arm in the JSON."""
    (arm,) = json.loads(to_json(model_of(*model)))["arms"]
    return arm["score"]


def check(case):
    names = scorer_of_the_page()
    model = entry(case.encoder, case.formula, case.calibration)
    expected = case.score
    scores = np.array([names["score"](model, row) for row in case.rows()])
    assert (np.abs(scores - expected) <= case.tolerance).all()
    uplifts = [names["uplift"](model, score) for score in expected]
    np.testing.assert_allclose(uplifts, case.calibration(expected), rtol=0, atol=1e-9)


@pytest.mark.gate
@settings(max_examples=40, deadline=None)
@given(cases())
def test_the_program_of_the_page_scores_as_python_does(case):
    check(case)


@pytest.mark.gate
@settings(max_examples=40, deadline=None)
@given(cases(bent=True))
def test_the_program_of_the_page_bends_and_branches_as_python_does(case):
    check(case)


@pytest.mark.gate
@settings(max_examples=20, deadline=None)
@given(cases(bent=True))
def test_features_are_those_of_the_encoder(case):
    formula = raw_formula(case.encoder, case.formula)
    found = np.array([[added(e, row[e.column]) for e in formula.features] for row in case.rows()])
    members = getattr(case.formula, "members", (case.formula,))
    looked_at = {c for m in members for c, _ in m.hinges}
    for trees in (t for m in members for t in m.trees):
        looked_at |= set(trees.feature[trees.left != np.arange(len(trees.left))].tolist())
    coefs = np.concatenate([[p.coef[: case.features.shape[1]] for p in m.parts] for m in members])
    shared = ("sine", "cosine", "base", "effect")
    looked_at |= {
        k for k, t in enumerate(case.encoder.terms_) if t.kind in shared and coefs[:, k].any()
    }
    np.testing.assert_array_equal(
        found.reshape(len(case.frame), -1), case.features[:, sorted(looked_at)]
    )


@pytest.mark.parametrize("kind", list(PLANS))
def test_codes_are_numbers_of_any_type(kind):
    names, model = scorer_of_the_page(), entry(*plans())
    assert model["columns"] == [{"name": "p", "kind": "code"}]
    values, scores = PLANS[kind]
    assert [names["score"](model, {"p": value}) for value in values] == scores


@pytest.mark.parametrize("bent", [False, True])
def test_a_table_with_everything(bent):
    check(example(bent))


@pytest.mark.gate
def test_a_fitted_ensemble():
    frame, encoder, formula, expected = fitted_ensemble()
    names, plain = scorer_of_the_page(), entry(encoder, formula)
    kinds = {effect["kind"] for effect in plain["features"]}
    assert {"number", "boolean", "date", "category", "wave"} <= kinds
    some = frame.iloc[::5].astype(object).where(frame.iloc[::5].notna(), None)
    some["joined"] = [None if moment is None else days(moment) for moment in some["joined"]]
    scores = [names["score"](plain, row) for row in some.to_dict("records")]
    np.testing.assert_allclose(scores, expected[::5], rtol=0, atol=1e-9)


def test_coefficients_are_in_the_units_of_the_table():
    case = example()
    (member,) = entry(case.encoder, case.formula)["members"]
    (first, *_) = member["parts"]
    age = first["effects"][0]
    coef = case.formula.parts[0].coef
    terms = [(term.kind, term.level) for term in case.encoder.terms_ if term.column == 'a"ge']
    assert terms == [("value", None), ("missing", None)]
    assert (age["column"], age["per_unit"], age["missing"]) == ('a"ge', coef[0], coef[1])
    assert age["fill"] == 40.0
    assert set(first["effects"][1]["levels"]) == {"Os'lo"}
