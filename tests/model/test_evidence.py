"""What a model file may hold of a ranking, and what is refused."""

import json

import numpy as np
import pytest

from auucmax.model import Evidence


def test_json_and_back(evidence):
    plain = json.loads(json.dumps(evidence.to_dict(), allow_nan=False))
    again = Evidence.from_dict(plain)
    assert again.facts == evidence.facts
    for name in ("share", "uplift", "standard_error", "lower", "upper"):
        np.testing.assert_array_equal(
            getattr(again.expected, name), getattr(evidence.expected, name)
        )
    assert again.to_dict() == plain


def test_certified_shares_without_a_bound_on_the_people_are_forgotten(evidence):
    """Files of before had costs of the share itself, which was not proven."""
    own = {"share": [1.0], "gain_lower": [0.1], "delta": 0.05, "text": "so"}
    plain = evidence.with_facts(certified_shares=own).to_dict()
    assert Evidence.from_dict(plain)["certified_shares"] is None
    sound = evidence.with_facts(certified_shares=own | {"share_upper": [1.0]})
    assert Evidence.from_dict(sound.to_dict())["certified_shares"] == sound["certified_shares"]


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["facts"].pop("auuc"),
        lambda d: d["facts"].update(more=1),
        lambda d: d["facts"]["auuc"].update(gain="much"),
        lambda d: d["facts"]["rows"].update(n_rows=True),
        lambda d: d["facts"].update(notes="text"),
        lambda d: d["facts"]["rivals"][0]["uplift"].pop(),
        lambda d: d["facts"]["ratio"].pop(),
        lambda d: d["facts"]["deciles"]["lower"].pop(),
        lambda d: d["facts"]["drivers"].update(features=[{"name": "a"}]),
        lambda d: d["expected"].pop("share"),
        lambda d: d["expected"]["share"].pop(),
        lambda d: d["expected"].update(share=[0.0, 1.0], uplift=[0, 1]),
        lambda d: d["expected"]["lower"].__setitem__(-1, None),
        lambda d: d["expected"].update(upper=None),
        lambda d: d["expected"].update(declined=1),
        lambda d: d["expected"]["standard_error"].__setitem__(1, -1.0),
        lambda d: d["expected"]["score"].reverse(),
        lambda d: d["expected"].update(n_rows=0),
    ],
)
def test_what_no_fit_wrote_is_refused(evidence, change):
    plain = json.loads(json.dumps(evidence.to_dict()))
    change(plain)
    with pytest.raises((ValueError, KeyError, TypeError)):
        Evidence.from_dict(plain)


def test_segments_are_parts_of_the_people_with_effects(evidence):
    effect = {
        "estimate": 0.1, "standard_error": 0.02, "detectable": 0.05, "lower": 0.05, "upper": 0.15,
        "declined": None,
    }  # fmt: skip
    part = {"rule": ["age up to 40"], "rows": 50, "share": 0.5, "effect": effect, "certified": None}
    told = evidence.with_facts(segments=[part, part])
    assert Evidence.from_dict(told.to_dict())["segments"] == [part, part]
    for odd in (
        {"rows": -5}, {"share": 0.6}, {"share": -0.5}, {"rule": []}, {"rule": [" "]},
        *({"effect": effect | own} for own in (
            {"standard_error": 1e200}, {"standard_error": -1.0}, {"estimate": 5.0}, {"upper": None},
        )),
    ):  # fmt: skip
        wrong = evidence.with_facts(segments=[part, part | odd])
        with pytest.raises(ValueError, match="numbers that belong together"):
            Evidence.from_dict(wrong.to_dict())
    many = evidence.with_facts(segments=[part | {"share": 0.01}] * 9)
    with pytest.raises(ValueError, match="numbers that belong together"):
        Evidence.from_dict(many.to_dict())
