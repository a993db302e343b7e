"""Result types: frozen, read back from JSON, and nothing else is taken."""

import json
from dataclasses import FrozenInstanceError

import pytest

from auucmax.results import Curve, Estimate, Kind, Outcome, Roles

ROLES = Roles(
    treatment="arm",
    arms=("none", "mail"),
    outcome=Outcome(name="visit", kind=Kind.BINARY, range=(0.0, 1.0)),
    features=("age", "town"),
    propensity=(("mail", "chance"),),
)


def test_a_result_is_read_back_from_json():
    again = Roles.from_json(json.loads(json.dumps(ROLES.to_json())))
    assert again == ROLES
    assert isinstance(again.outcome, Outcome)


def test_results_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        ROLES.treatment = "mail"


@pytest.mark.parametrize(
    "change",
    [
        {"more": 1},
        {"features": 3},
        {"outcome": {"name": "visit"}},
        {"outcome": {"name": "visit", "kind": "text"}},
        {"arms": None},
    ],
)
def test_anything_else_is_refused(change):
    with pytest.raises(ValueError, match=r"."):
        Roles.from_json(ROLES.to_json() | change)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "much", None])
def test_numbers_are_finite(value):
    with pytest.raises(ValueError, match=r"."):
        Estimate.from_json({"value": value})


def test_unknown_numbers_of_a_curve_are_none():
    own = dict.fromkeys(("spend", "gain", "se", "random"), (0.0, 1.0))
    ends = dict.fromkeys(("lower", "upper", "band_lower", "band_upper"), (None, 2.0))
    curve = Curve(costs=(1.0,), shares=((0.0,), (1.0,)), **own, **ends)
    assert Curve.from_json(json.loads(json.dumps(curve.to_json()))) == curve
