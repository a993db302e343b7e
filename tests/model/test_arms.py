"""A model of several arms: one of two arms for each, one scale, new rows."""

from dataclasses import replace

import numpy as np
import pytest
from tests.model.arms_table import NAMES, arms_table

from auucmax.model import fit_trial_model
from auucmax.model.arm_evidence import policy_curve
from auucmax.model.arms import AllRows
from auucmax.model.crossfit import TableRows
from auucmax.model.model import NEW_ROWS


@pytest.fixture(scope="module")
def table():
    return arms_table()


def test_each_arm_is_the_model_of_two_arms(arms_model, table):
    alone = fit_trial_model(table, **NAMES, treated="mail", id="person", model="tm")
    own = arms_model.models["mail"]
    np.testing.assert_array_equal(own.predict(table), alone.predict(table))
    assert own.evidence["auuc"] == alone.evidence["auuc"]
    assert own.evidence["certificate"] == alone.evidence["certificate"]
    assert own.calibration == alone.calibration


def test_uplifts_are_calibrated_and_keep_the_order_of_scores(arms_model, table):
    score, uplift = arms_model.predict(table), arms_model.uplift(table)
    for k, model in enumerate(arms_model.models.values()):
        order = np.argsort(score[:, k])
        rises = np.diff(score[order, k]) > 0
        assert (np.diff(uplift[order, k])[rises] > 0).all()
        away = uplift[:, k] - model.calibration(score[:, k])
        assert np.abs(away).max() < 2 * arms_model.policy["tilt"]
    assert arms_model.policy["tilt"] == pytest.approx(1e-4 * table["visit"].std(ddof=0))


def test_control_rows_have_one_key_whatever_the_arm(arms_model, table):
    """Without ids, too: otherwise a control row would be in different folds."""
    columns = [model.columns for model in arms_model.models.values()]
    tables = [TableRows(table, own, "0" * 16) for own in columns]
    rows = AllRows.of(tables)
    assert rows.counts() == table["arm"].value_counts()[["none", "mail", "phone"]].tolist()
    for id in ("person", None):
        control = [
            TableRows(table, replace(own, id=id), "0" * 16).of_arm(False).keys for own in columns
        ]
        np.testing.assert_array_equal(*control)
        assert len(np.unique(control[0])) == len(control[0])


@pytest.mark.gate
def test_own_rows_show_what_was_found_and_new_rows_are_judged(arms_model, table):
    own = arms_model.judge(table.sample(frac=1, random_state=1))
    assert own.facts == arms_model.evidence.facts
    assert all(own.arms[label] is one.evidence for label, one in arms_model.models.items())
    new = arms_table(2_000, random_state=5).assign(person=lambda t: "new " + t["person"])
    found = arms_model.judge(new, every_percent=True)
    assert found["rows"] == new["arm"].value_counts().to_dict()
    assert found["certificate"] is None
    for curve in found["curves"]:
        assert curve["policy"]["gain"][0] == 0
        assert curve["policy"]["gain"][-1] > curve["everybody"]["gain"][-1] > 0
        assert len(curve["budget"]) == 51
    assert found["notes"][0] == NEW_ROWS


def test_numbers_of_new_rows_tell_of_nobody_alone(arms_model, monkeypatch):
    new = arms_table(1_000, random_state=5).assign(person=lambda t: "new " + t["person"])
    asked = {}

    def noted(rows, costs, **how):
        asked.update(how, rows=rows)
        return policy_curve(rows, costs, **how)

    monkeypatch.setattr("auucmax.model.arms.policy_curve", noted)
    found = arms_model.judge(new)
    assert asked["private"]
    rows = asked["rows"]
    for k, (own, (policy, share)) in enumerate(
        zip(found.arms.values(), asked["known"], strict=True)
    ):
        # All numbers are of the same rows, and those of the arm alone are known to the policy.
        some = np.flatnonzero(np.isin(rows.arm, (0, k + 1)))
        assert own["rows"]["n_rows"] == len(some)
        np.testing.assert_array_equal(share, own.expected.share[1:])
        part = np.concatenate([block for _, block in policy.parts(share, 2)])[:, k]
        assert not np.delete(part, some, axis=0).any()
        np.testing.assert_allclose(part[some].mean(axis=0), share)
        order = np.argsort(-rows.uplift[some, k])
        assert (np.diff(part[some][order], axis=0) <= 1e-9).all()
    assert len(found["curves"][0]["budget"]) < 51
