"""Rivals are fitted on the folds of a model, and judged on the same rows."""

import pytest
from tests.trial_model.trial_table import NAMES, trial_table

from auucmax.trial_model import fit_trial_model, with_rivals


@pytest.fixture(scope="module")
def table():
    return trial_table(2_500)


def fit(table, **options):
    return fit_trial_model(table, **(NAMES | {"id": "person", "model": "cvt"} | options))


@pytest.mark.parametrize("hold_out", [0, 0.4])
def test_a_rival_has_the_numbers_of_its_own_fit(table, hold_out):
    model, tm = fit(table, hold_out=hold_out), fit(table, model="tm", hold_out=hold_out)
    found = with_rivals(model, table, ["tm", "cvt"])
    (rival,) = found["rivals"]  # a model is no rival of itself
    assert rival["auuc"] == pytest.approx(tm.evidence["auuc"])
    difference = model.evidence["auuc"]["estimate"] - tm.evidence["auuc"]["estimate"]
    assert rival["difference"]["estimate"] == pytest.approx(difference)
    assert rival["uplift"][-1] == pytest.approx(tm.evidence.expected.uplift[-1])
    assert len(rival["uplift"]) == len(found.expected.share)
    # All else is that of the fit.
    assert {name: found[name] for name in found.facts if name != "rivals"} == {
        name: model.evidence[name] for name in model.evidence.facts if name != "rivals"
    }


def test_rivals_need_the_table_of_the_fit(table):
    model = fit(table)
    with pytest.raises(ValueError, match="should be the one that the model was fitted on"):
        with_rivals(model, trial_table(800, random_state=4).assign(person=range(800)), ["tm"])
    with pytest.raises(ValueError, match="a rival should be one of"):
        with_rivals(model, table, ["best"])
