"""What a prompt and a notebook show: short, the verdict first, no HTML that comes from data."""

import dataclasses
from importlib import import_module

import numpy as np
import pandas as pd
import pytest

from auucmax import (
    AUUCMax,
    Trial,
    UpliftCurveDisplay,
    auuc_difference,
    auuc_inference,
    certify,
    check_randomisation,
    load_hillstrom,
    make_trial,
)
from auucmax._shown import Shown, text_as_html
from auucmax.campaign import assign, plan_trial
from auucmax.metrics import DecileDisplay, PolicyRiskDisplay, budget_curve, uplift_band
from auucmax.model import fit_arms_model, fit_trial_model, target, target_arms
from auucmax.targeting import calibrate, plan, top_share

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def results():
    trial = make_trial(2_000, random_state=0)
    train, test = trial.split(test_size=0.5, random_state=0)
    model = AUUCMax(norm=0.1, selection=None).fit(train.X, train.y, treatment=train.treatment)
    score, how = model.predict(test.X), {"treatment": test.treatment}
    table = trial.X.assign(mail=trial.treatment, visit=trial.y)
    fitted = fit_trial_model(table, treatment="mail", outcome="visit", model="tm")
    people = pd.DataFrame({"id": range(300), "age": np.arange(300) % 50})
    return {
        "trial": trial,
        "check": check_randomisation(trial),
        "inference": auuc_inference(test.y, score, **how),
        "difference": auuc_difference(test.y, score, test.X["x0"], **how),
        "band": uplift_band(test.y, score, **how),
        "certificate": certify(model, test.X, test.y, **how),
        "plan": plan(test.y, score, **how, new_score=score, cost=0.1, value=2.0),
        "selection": top_share(score, 0.3),
        "calibration": calibrate(test.y, score, **how),
        "model": fitted,
        "evidence": fitted.evidence,
        "targeting": target(fitted, table, share=0.3),
        "assignment": assign(people, id="id", arms="none=.5,mail=.5", key="spring"),
        "size": plan_trial(base_rate=0.1, effect=0.03, gain=0.006),
    }


def test_every_result_is_short_and_begins_with_its_verdict(results):
    for name, result in results.items():
        text = str(result)
        assert isinstance(result, Shown), name
        assert len(repr(result)) < 1500, name
        assert "array(" not in text, name
        assert 10 < len(text.splitlines()[0]) < 800, name
        assert result._repr_html_().startswith("<p><strong>"), name
    assert (
        results["certificate"]
        ._repr_html_()
        .startswith("<p><strong>This ranking is not shown to beat random targeting: </strong>")
    )
    assert "gain over random" in str(results["model"]).splitlines()[0]
    assert str(results["targeting"]).startswith("At no share is the gain above zero")
    assert "If you treat 600 of 2,000 people: expected gain" in str(results["targeting"])
    assert str(results["size"]).startswith("better than random")


def test_names_from_data_are_text(results):
    trial = results["trial"]
    named = Trial(trial.X, trial.y, treatment=trial.treatment, name=EVIL, outcome_name="a\x1b[2J")
    for shown in (named, check_randomisation(named)):
        html = shown._repr_html_()
        assert "<script" not in html
        assert "&lt;script&gt;" in html
        assert "\x1b" not in html


def test_prompt_and_print_show_no_control_characters():
    class Found(Shown):
        def __str__(self):
            return "arm a\x1b[2J\u202e\n10 rows"

    class Further(Found):
        pass

    for found in (Found(), Further()):
        assert repr(found) == str(found) == f"{found}" == "arm a\ufffd[2J\ufffd\n10 rows"


def test_a_long_first_line_is_bold_up_to_its_colon():
    html = text_as_html("It works: " + "because " * 20)
    assert html.startswith("<p><strong>It works: </strong>because ")
    html = text_as_html("a: b\nc")
    assert html.startswith("<p><strong>a: b</strong></p><pre ")
    assert html.endswith('"white-space: pre-wrap">c</pre>')


def test_no_result_writes_out_all_its_fields():
    """A dataclass that forgets ``repr=False`` would write its own repr over the short one."""
    for room in ("data", "metrics", "certificates", "comparison", "targeting", "model", "campaign"):
        module = import_module(f"auucmax.{room}")
        for name in module.__all__:
            kind = getattr(module, name)
            if (
                isinstance(kind, type)
                and issubclass(kind, Shown)
                and dataclasses.is_dataclass(kind)
            ):
                assert not kind.__dataclass_params__.repr, name
                assert kind.__str__ is not object.__str__, name


@pytest.mark.parametrize("display", [UpliftCurveDisplay, DecileDisplay, PolicyRiskDisplay])
def test_a_long_name_leaves_room_for_the_picture(display, results):
    import matplotlib

    trial = results["trial"]
    with matplotlib.rc_context({"backend": "agg"}):
        from matplotlib import pyplot as plt

        how = {"treatment": trial.treatment, "name": "a long name of a model, " * 4}
        shown = display.from_predictions(trial.y, trial.X["x0"], **how)
        figure = shown.ax_.figure
        figure.canvas.draw()
        axes = shown.ax_.get_window_extent()
        assert shown.ax_.get_legend().get_window_extent().width < 0.9 * axes.width
        assert axes.width > 0.75 * figure.bbox.width
        assert repr(shown) == str(shown)
        assert shown.figure_ is figure
        plt.close(figure)


@pytest.mark.gate
def test_results_of_several_arms():
    trial = load_hillstrom("all", encoding="raw")
    table = trial.X.assign(segment=trial.treatment, visit=trial.y).head(12_000)
    names = {"treatment": "segment", "outcome": "visit", "control": trial.control}
    model = fit_arms_model(table, **names, model="tm")
    found = target_arms(model, table.drop(columns=["segment", "visit"]), share=0.3)
    assert str(found).startswith("For these people a gain is not shown. If you treat 3,600 of 12,0")
    assert "what that brings is not known.\n" in str(found) or "expected gain" in str(found)
    assert "Womens E-Mail" in str(model)
    assert repr(model) in str(model)
    assert model._repr_html_().startswith("<p><strong>")
    arm = pd.Categorical(table["segment"], [trial.control, *model.labels]).codes
    uplift = np.random.default_rng(0).normal(size=(len(table), 2))
    curve = budget_curve(table["visit"], uplift, treatment=arm)
    assert repr(curve).startswith("gains at ")
