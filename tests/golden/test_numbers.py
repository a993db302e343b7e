"""The numbers of the library are those that were recorded: see ``numbers.py``."""

import pytest
from tests.golden import adapter, numbers

SECTIONS = [
    pytest.param(name, marks=() if own.fast else pytest.mark.gate)
    for name, own in numbers.SECTIONS.items()
]


@pytest.mark.parametrize("name", SECTIONS)
def test_numbers_are_those_recorded(name):
    if name == "networks":
        pytest.importorskip("torch")
    if name == "estimators":
        pytest.importorskip("lightgbm")
    found = numbers.computed(f"{name}/")
    assert "\n".join(numbers.differences(found, numbers.recorded(f"{name}/"))) == ""


def test_every_estimator_is_recorded():
    known = {*numbers.ESTIMATORS, *numbers.TORCH, *numbers.OTHERS}
    assert sorted(known) == adapter.estimator_names()


def test_every_recorded_number_has_a_section():
    assert {key.partition("/")[0] for key in numbers.recorded()} == set(numbers.SECTIONS)


def test_what_agrees():
    limit = numbers.METRICS
    assert numbers.agree(0.1 + 1e-12, 0.1, limit)
    assert not numbers.agree(0.1 + 1e-8, 0.1, limit)
    assert numbers.agree(1e6 + 1e-4, 1e6, limit)
    assert numbers.agree(float("nan"), float("nan"), limit)
    assert numbers.agree(2, 2.0, limit)
    for found, known in ((2, 3), (None, 0.0), (True, 1.0), ("a", "b"), (float("inf"), 1e300)):
        assert not numbers.agree(found, known, limit)


def test_differences_name_the_value():
    known = {"metrics/a/*": ["auuc", 0.5, "qini", 0.25], "metrics/b": [1, 2], "metrics/c": 1.0}
    assert numbers.differences(known, known) == []
    found = {"metrics/a/*": ["auuc", 0.5, "qini", 0.26], "metrics/b": [1], "metrics/d": 1.0}
    assert numbers.differences(found, known) == [
        "missing: metrics/c",
        "new: metrics/d",
        "metrics/a/* qini: 0.26, recorded 0.25",
        "metrics/b: 1 values, recorded 2",
    ]
