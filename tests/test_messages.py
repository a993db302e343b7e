"""Texts that are shown: they neither steer a terminal nor tell a password."""

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auucmax._messages import level_of_caller, visible, visible_lines, without_passwords


@given(st.text())
def test_what_is_shown_can_be_printed_and_is_one_line(text):
    shown = visible(text)
    assert all(c.isprintable() or c == "\t" for c in shown)
    assert len(shown) == len(text)
    assert visible(shown) == shown


@given(st.lists(st.text(), min_size=1))
def test_lines_stay_lines(texts):
    lines = [text.replace("\n", "") for text in texts]
    assert visible_lines("\n".join(lines)).split("\n") == [visible(line) for line in lines]


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://me:{}@host/db",
        "got nothing at 'mysql://me:{}@shop/trial'.",
        "host=shop password={} dbname=trial",
    ],
)
@pytest.mark.parametrize("secret", ["hunter2", "a:b", "p%40ss"])
def test_no_password_is_told(text, secret):
    told = without_passwords(text.format(secret))
    assert secret not in told
    assert "***" in told


def test_texts_that_have_no_password_stay():
    for text in ("rows at 10:30, mail me@home", "http://shop:80/a.csv", "C:\\rows.csv", "a=b@c"):
        assert without_passwords(text) == text


INSIDE = """
def warn(depth):
    if depth:
        return warn(depth - 1)
    warnings.warn("hm", UserWarning, stacklevel=level_of_caller())
"""


def test_the_line_of_the_caller_is_named():
    space = {
        "__name__": "auucmax.made_up",
        "warnings": warnings,
        "level_of_caller": level_of_caller,
    }
    exec(INSIDE, space)
    for depth in (0, 1, 5):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            space["warn"](depth)
        assert [one.filename for one in found] == [__file__]
