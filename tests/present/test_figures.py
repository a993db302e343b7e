"""Figures: numbers lie in their places, and everything inside the frame."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from tests.present.cases import model

from auucmax.present.figures import slider
from auucmax.present.page import templates
from auucmax.results import Terms


def moved(kind="works", **terms):
    return slider(model(kind).evidence, Terms(**terms), 10_000, "EUR")


def drawn(found, is_wide):
    figures = templates().get_template("figures.html.jinja").module
    return ET.fromstring(figures.curve(found, found.axes(is_wide)))


def frame(root):
    """Functions from parts of the figure to places."""
    x0, x1, y0, y1 = (float(root.get(f"data-{end}")) for end in ("x0", "x1", "y0", "y1"))
    return lambda x, y: (x0 + (x1 - x0) * x, y0 + (y1 - y0) * y)


@pytest.mark.parametrize("is_wide", [True, False])
def test_the_marker_stands_where_the_script_puts_it(is_wide):
    found = moved(share=0.3, cost=(0.15,), value=1.0)
    root = drawn(found, is_wide)
    dot = next(e for e in root.iter() if e.get("class") == "marker-dot")
    point = found.first.json(*found.range())
    place = frame(root)(point["at"], point["y"])
    assert (float(dot.get("cx")), float(dot.get("cy"))) == pytest.approx(place, abs=0.05)


@pytest.mark.parametrize("is_wide", [True, False])
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
def test_everything_lies_inside_the_frame(kind, terms, is_wide):
    found = moved(kind, **terms)
    root = drawn(found, is_wide)
    _, _, size, height = map(float, root.get("viewBox").split())
    paths = [e for e in root.iter() if e.tag == "path"]
    assert len(paths) == 2 + len(found.lines)  # band, lines and the curve
    for path in paths:
        numbers = path.get("d").strip("MZ").replace("L", " ").split()
        xs, ys = np.array(numbers, dtype=float).reshape(-1, 2).T
        assert 0 <= xs.min() <= xs.max() <= size
        assert 0 <= ys.min() <= ys.max() <= height
