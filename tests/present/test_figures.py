import math
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auucmax.present import summarise
from auucmax.present.figures import (
    NARROW,
    arms_figure,
    bar,
    decile_figure,
    policy_figure,
    promise_figure,
    swatch,
    ticks,
    uplift_figure,
)


@settings(deadline=None)
@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_are_few_round_and_inside(low, span):
    if low + span == low:
        return
    found = ticks(low, low + span)
    assert 2 <= len(found) <= 6
    slack = 1e-6 * span + 1e-9 * abs(low)
    assert found[0] >= low - slack
    assert found[-1] <= low + span + slack
    assert np.allclose(np.diff(found), found[1] - found[0], rtol=1e-5)


def test_pictures_are_xml_with_places_of_the_numbers(summary):
    for width in (720, NARROW):
        root = ET.fromstring(uplift_figure(summary, width=width))
        data = {key: float(v) for key, v in root.attrib.items() if key.startswith("data-")}
        dot = next(e for e in root.iter() if e.get("class") == "marker-dot")
        x = data["data-x0"] + (data["data-x1"] - data["data-x0"]) * 0.3
        part = (summary["plan"]["profit"][30] - data["data-low"]) / (
            data["data-high"] - data["data-low"]
        )
        y = data["data-y0"] + (data["data-y1"] - data["data-y0"]) * part
        assert float(dot.get("cx")) == pytest.approx(x, abs=0.02)
        assert float(dot.get("cy")) == pytest.approx(y, abs=0.05)
        model = next(e for e in root.iter() if e.get("class") == "model")
        assert model.get("d").count("L") == 100


def test_best_share_and_break_even_are_marked(summary):
    plan = summary["plan"] | {"best_share": 0.4, "break_even": 0.9}
    words = [e.text for e in ET.fromstring(uplift_figure(summary | {"plan": plan})).iter()]
    assert {"best 40%", "break-even 90%", "profit, EUR"} <= set(words)
    unpaid = dict.fromkeys(("profit", "best_share", "break_even"))
    root = ET.fromstring(uplift_figure(summary | {"plan": plan | unpaid}))
    assert "gain per 100 people" in [e.text for e in root.iter()]
    assert [e for e in root.iter() if e.get("class") == "mark"] == []


def test_everything_lies_inside_the_frame(summary):
    root = ET.fromstring(uplift_figure(summary))
    _, _, width, height = map(float, root.get("viewBox").split())
    for path in (e for e in root.iter() if e.tag == "path"):
        numbers = path.get("d").strip("MZ").replace("L", " ").split()
        xs, ys = np.array(numbers, dtype=float).reshape(-1, 2).T
        assert xs.min() >= 0
        assert xs.max() <= width
        assert ys.min() >= 0
        assert ys.max() <= height


def test_tenths_without_an_interval_are_drawn_without_one():
    # Twelve rows: most tenths lack an arm, so they have neither dot nor whisker.
    y, t = np.array([0, 1] * 6), np.array([0, 0, 1, 1] * 3)
    found = summarise(y, np.arange(12), treatment=t)
    root = ET.fromstring(decile_figure(found))
    dots = [e for e in root.iter() if e.get("class") == "actual"]
    assert len(dots) == sum(v is not None for v in found["deciles"]["uplift"]) < 10


def test_a_flat_curve_can_be_drawn():
    found = summarise(np.zeros(40), np.arange(40), treatment=np.arange(40) % 2)
    assert "NaN" not in uplift_figure(found)
    assert "nan" not in decile_figure(found)


def test_bars_go_left_and_right_and_names_are_escaped():
    right, left = (ET.fromstring(bar(v, 2.0))[0] for v in (1.0, -2.0))
    assert (float(right.get("x")), float(right.get("width"))) == (0.0, 0.5)
    assert (float(left.get("x")), float(left.get("width"))) == (-1.0, 1.0)
    assert math.isclose(float(ET.fromstring(bar(None, 1.0))[0].get("width")), 0.0)
    assert "<b>" not in swatch('"><b>')


def test_arms_lie_on_top_of_each_other_and_lines_inside_the_frame(arms_summary):
    for figure, n_lines in ((policy_figure, 6), (arms_figure, 2)):
        for width in (720, NARROW):
            root = ET.fromstring(figure(arms_summary, width=width))
            _, _, size, height = map(float, root.get("viewBox").split())
            paths = [e for e in root.iter() if e.tag == "path"]
            assert len(paths) == n_lines  # a band, two arms, random, everybody, the policy; areas
            for path in paths:
                numbers = path.get("d").strip("MZ").replace("L", " ").split()
                xs, ys = np.array(numbers, dtype=float).reshape(-1, 2).T
                assert 0 <= xs.min() <= xs.max() <= size
                assert 0 <= ys.min() <= ys.max() <= height
    shares = np.array(arms_summary["plan"]["shares"])
    top = paths[-1].get("d").strip("MZ").split("L")[100].split()
    axis = [float(root.get(f"data-{end}")) for end in ("y0", "y1")]
    whole = (float(top[1]) - axis[0]) / (axis[1] - axis[0])
    assert whole == pytest.approx(shares[:, 100].sum(), abs=0.002)
    assert 'class="area a1"' in swatch("area a1")


def test_what_was_promised_and_came_is_drawn_in_its_place():
    bars = {"promised": [50.0, 20.0, 80.0], "came": [-10.0, -30.0, 5.0]}
    for width in (720, NARROW):
        root = ET.fromstring(promise_figure(bars, width=width))
        dots = [float(e.get("cx")) for e in root.iter() if e.get("class") == "actual"]
        first, second = [e for e in root.iter() if e.get("class") == "whisker"]
        assert dots[1] < float(first.get("x1")) < dots[0] < float(first.get("x2")) < width
        assert float(second.get("x1")) < dots[1] < float(second.get("x2"))


def test_what_is_not_known_to_have_come_is_told_and_has_no_dot():
    bars = {"promised": [50.0, None, None], "came": [None, None, None]}
    root = ET.fromstring(promise_figure(bars))
    assert len([e for e in root.iter() if e.get("class") == "actual"]) == 1
    assert "cannot be told: too few rows" in "".join(root.itertext())
