"""What a prompt and a notebook show: short, the verdict first, no HTML that comes from data."""

import dataclasses
from importlib import import_module

import pytest

from auucmax import (
    AUUCMax,
    Trial,
    auuc_difference,
    auuc_inference,
    certify,
    check_randomisation,
    make_trial,
)
from auucmax.metrics import policy_risk_inference, uplift_band
from auucmax.results import Result, Shown
from auucmax.targeting import calibrate

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def results():
    trial = make_trial(2_000, random_state=0)
    train, test = trial.split(test_size=0.5, random_state=0)
    model = AUUCMax(norm=0.1, selection=None).fit(train.X, train.y, treatment=train.treatment)
    score, how = model.predict(test.X), {"treatment": test.treatment}
    return {
        "trial": trial,
        "summary": trial.summary(),
        "check": check_randomisation(trial),
        "inference": auuc_inference(test.y, score, **how),
        "difference": auuc_difference(test.y, score, test.X["x0"], **how),
        "risk": policy_risk_inference(test.y, score, share=[0.2, 0.5], **how),
        "band": uplift_band(test.y, score, **how),
        "certificate": certify(model, test.X, test.y, **how),
        "calibration": calibrate(test.y, score, **how),
    }


def test_every_result_is_short_and_begins_with_its_verdict(results):
    for name, result in results.items():
        text = str(result)
        assert isinstance(result, Shown), name
        assert repr(result) == text, name
        assert len(text) < 1500, name
        assert "array(" not in text, name
        assert 10 < len(text.splitlines()[0]) < 200, name
        assert result._repr_html_().startswith("<p><strong>"), name


def test_names_from_data_are_text(results):
    trial = results["trial"]
    named = Trial(trial.X, trial.y, treatment=trial.treatment, name=EVIL, outcome_name="a\x1b[2J")
    assert "\x1b" not in repr(named)
    html = named._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "\x1b" not in html


def test_no_result_writes_out_all_its_fields():
    """A dataclass that forgets ``repr=False`` would write its own repr over the short one."""
    for room in ("data", "metrics", "certificates", "comparison", "targeting", "model", "campaign"):
        module = import_module(f"auucmax.{room}")
        for name in module.__all__:
            kind = getattr(module, name)
            if (
                isinstance(kind, type)
                and issubclass(kind, Shown)
                and not issubclass(kind, Result)
                and dataclasses.is_dataclass(kind)
            ):
                assert not kind.__dataclass_params__.repr, name
