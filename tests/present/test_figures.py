"""Figures: numbers lie in their places, and everything inside the frame."""

import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.present.cases import model

from auucmax.present.figures import (
    NARROW,
    WIDE,
    deciles_figure,
    slider,
    ticks,
)
from auucmax.results import Estimate, Terms


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


def moved(kind="works", **terms):
    return slider(model(kind).evidence, Terms(**terms), 10_000, "EUR")


def frame(root):
    """Functions from parts of the figure to places."""
    x0, x1, y0, y1 = (float(root.get(f"data-{end}")) for end in ("x0", "x1", "y0", "y1"))
    return lambda x, y: (x0 + (x1 - x0) * x, y0 + (y1 - y0) * y)


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_the_marker_stands_where_the_script_puts_it(width):
    found = moved(share=0.3, cost=(0.15,), value=1.0)
    root = ET.fromstring(found.draw(width))
    dot = next(e for e in root.iter() if e.get("class") == "marker-dot")
    point = found.first.json(*found.range())
    place = frame(root)(point["at"], point["y"])
    assert (float(dot.get("cx")), float(dot.get("cy"))) == pytest.approx(place, abs=0.05)


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize(
    ("kind", "terms"),
    [
        ("works", {"share": 0.3}),
        ("works", {"cost": (0.15,), "value": 1.0}),
        ("arms", {"cost": (1.0, 2.0), "value": 9.0}),
        ("arms", {"cost": (1.0, 2.0), "budget": 5_000.0}),
        ("few", {"share": 0.3}),
    ],
)
def test_everything_lies_inside_the_frame(kind, terms, width):
    found = moved(kind, **terms)
    root = ET.fromstring(found.draw(width))
    _, _, size, height = map(float, root.get("viewBox").split())
    paths = [e for e in root.iter() if e.tag == "path"]
    assert len(paths) == 2 + len(found.lines)  # band, lines and the curve
    for path in paths:
        numbers = path.get("d").strip("MZ").replace("L", " ").split()
        xs, ys = np.array(numbers, dtype=float).reshape(-1, 2).T
        assert 0 <= xs.min() <= xs.max() <= size
        assert 0 <= ys.min() <= ys.max() <= height


def test_marks_are_at_the_best_share():
    found = moved(cost=(0.15,), value=1.0)
    words = [e.text for e in ET.fromstring(found.draw(WIDE)).iter()]
    assert f"highest profit {found.first.label}" in words
    assert moved(share=0.3).marks == ()


def test_tenths_without_an_estimate_have_no_dot():
    deciles = model("works").evidence.arms[0].deciles
    empty = (None,) * 8
    few = replace(
        deciles, uplift=(0.1, 0.2, *empty), se=(0.1, 0.1, *empty), lower=(0.0, None, *empty),
        upper=(0.2, None, *empty),
    )  # fmt: skip
    root = ET.fromstring(deciles_figure(few, 100.0, "effect", WIDE))
    styles = [e.get("class") for e in root.iter()]
    assert (styles.count("actual"), styles.count("whisker")) == (2, 1)


def test_a_flat_curve_can_be_drawn():
    found = moved(share=0.3)
    zero = Estimate(value=0.0, lower=0.0, upper=0.0)
    flat = tuple(replace(own, y=zero, sure=None) for own in found.points)
    assert "nan" not in replace(found, points=flat, lines=()).draw(WIDE).lower()
