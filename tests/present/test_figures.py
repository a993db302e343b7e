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
    areas_figure,
    deciles_figure,
    differences_figure,
    ticks,
)
from auucmax.present.slider import slider
from auucmax.results import Terms


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
    root = ET.fromstring(found.figure.draw(width))
    dot = next(e for e in root.iter() if e.get("class") == "marker-dot")
    point = found.first.json(*found.figure.range())
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
    root = ET.fromstring(found.figure.draw(width))
    _, _, size, height = map(float, root.get("viewBox").split())
    paths = [e for e in root.iter() if e.tag == "path"]
    assert len(paths) == 3 + len(found.legend) - 1  # band, lines and the curve
    for path in paths:
        numbers = path.get("d").strip("MZ").replace("L", " ").split()
        xs, ys = np.array(numbers, dtype=float).reshape(-1, 2).T
        assert 0 <= xs.min() <= xs.max() <= size
        assert 0 <= ys.min() <= ys.max() <= height


def test_marks_are_at_the_best_share():
    found = moved(cost=(0.15,), value=1.0)
    words = [e.text for e in ET.fromstring(found.figure.draw(WIDE)).iter()]
    assert f"best {found.first.label}" in words
    assert moved(share=0.3).figure.marks == ()


def test_arms_lie_on_top_of_each_other():
    found = moved("arms", cost=(1.0, 2.0), value=9.0)
    shares = [[(own.at, own.plan.counts[k] / 10_000) for own in found.points] for k in range(2)]
    root = ET.fromstring(areas_figure(shares, found.figure, WIDE))
    first, second = [e for e in root.iter() if e.tag == "path"]
    assert (first.get("class"), second.get("class")) == ("area c0", "area c1")
    top = second.get("d").strip("MZ").split("L")[len(found.points) - 1].split()
    place = frame(root)(1.0, found.points[-1].treated)
    assert [float(own) for own in top] == pytest.approx(place, abs=0.05)


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
    found = moved(share=0.3).figure
    flat = [(x, 0.0) for x, _ in found.curve]
    figure = replace(found, curve=flat, lower=flat, upper=flat, lines=(), guarantees=[])
    assert "nan" not in figure.draw(WIDE).lower()


def test_differences_are_drawn_in_order_and_long_names_are_cut():
    rows = [["<b>" * 40, 0.3], ["age", -0.05]]
    root = ET.fromstring(differences_figure(rows, NARROW))
    dots = [float(e.get("cx")) for e in root.iter() if e.get("class") == "actual"]
    assert dots[0] > dots[1]
    assert any((e.text or "").endswith("\u2026") for e in root.iter())
