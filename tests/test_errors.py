"""Errors, and texts of messages: they neither steer a terminal nor show a password."""

import pickle
import re
import time
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auucmax._errors import InputError, level_of_caller, visible, visible_lines, without_passwords


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


def by_one_pattern(text):
    """The slow twin: addresses found by a pattern that tries each character as the first."""
    text = re.sub(r"^([A-Za-z][\w+.-]*:/{1,2}[^\s:@/'\"]*):.*@", r"\1:***@", text, flags=re.DOTALL)
    scheme = r"(?:[A-Za-z][\w+.-]*:/{1,2}|//)?"
    return re.sub(rf"({scheme}[^\s:@/'\"]*):(?!/)[^\s'\"]*@", r"\1:***@", text)


@given(st.text(alphabet="ab1:/@' \"\n.+-"))
def test_passwords_are_found_as_by_one_pattern(text):
    assert without_passwords(text) == by_one_pattern(text)


@pytest.mark.parametrize("piece", ["s", "s:", "s@", "//", "password", "password='", "a:/", "é\x1b"])
def test_ten_times_the_text_takes_about_ten_times_as_long(piece):
    """Not a hundred times, by which a text of a file could stop every command."""

    def seconds(n):
        text = (piece * n)[:n] + " x"
        start = time.process_time()
        without_passwords(text)
        return time.process_time() - start

    least = [min(seconds(n) for _ in range(3)) for n in (10_000, 100_000)]
    assert least[1] < 40 * max(least[0], 1e-4)


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


def test_an_input_error_names_the_input_and_what_to_do():
    error = InputError("share", "between 0 and 1", "30", "Pass 0.3 for 30%.")
    assert isinstance(error, ValueError)
    assert str(error) == "share should be between 0 and 1, got 30. Pass 0.3 for 30%."
    assert (error.parameter, error.expected) == ("share", "between 0 and 1")
    assert (error.received, error.hint) == ("30", "Pass 0.3 for 30%.")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # from a worker process
