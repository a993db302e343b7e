"""Effects of raw columns add up to the linear predictor of the encoded features."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from tests.export.cases import cases, example

from auucmax.encoding import TableEncoder
from auucmax.encoding.texts import counted_as
from auucmax.estimators.formula import Formula, Part
from auucmax.export.raw_formula import raw_formula


def added(effect, value):
    """What the docstring says, for one value."""
    if effect.kind != "category":
        is_missing = value is None or value != value
        return effect.when_missing if is_missing else effect.per_unit * value
    levels = dict(effect.levels)
    level = None if value is None else counted_as(value, levels)
    return effect.missing if level is None else levels.get(level, effect.other)


@settings(max_examples=30, deadline=None)
@given(cases())
def test_effects_add_up(case):
    formula = raw_formula(case.encoder, case.formula)
    for part, raw in zip(case.formula.parts, formula.parts, strict=True):
        z = [raw.intercept + sum(added(e, row[e.column]) for e in raw.effects)
             for row in case.rows()]  # fmt: skip
        size = np.abs(case.features) @ np.abs(part.coef)
        expected = case.features @ part.coef + part.intercept
        assert (np.abs(z - expected) <= 1e-9 + 1e-13 * size).all()


def test_columns_are_those_that_are_read():
    train = pd.DataFrame({"a": [1.0, 2.0], "one": [1.0, 1.0], "b": ["x", "y"]})
    with pytest.warns(UserWarning, match="one"):
        encoder = TableEncoder(min_level_rows=1).fit(train)
    formula = Formula((Part(1.0, "identity", 0.0, np.ones(3)),))
    assert raw_formula(encoder, formula).columns == (("a", "number"), ("b", "category"))


def test_a_column_that_changes_nothing_is_known():
    case = example()
    coef = np.zeros(len(case.encoder.terms_))
    coef[0] = 1.0
    (part,) = raw_formula(case.encoder, Formula((Part(1.0, "identity", 0.0, coef),))).parts
    assert [effect.is_zero for effect in part.effects] == [False, True, True, True]
