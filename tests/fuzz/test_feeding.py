"""What should fail the fuzz tests does, and the number of inputs does not shrink."""

import time

import numpy as np
import pytest
from tests.fuzz.feeding import INPUTS, LEAST, feed, limited_memory
from tests.fuzz.running import HangError, limited_time


def numbers(rng):
    return rng.randrange(100)


def refuse(message, number):
    """A reader that refuses odd numbers."""
    if number % 2:
        raise ValueError(message)


def test_inputs_are_read_and_counted():
    assert sum(INPUTS.values()) >= LEAST
    assert feed("csv", numbers, lambda n: refuse("odd", n), ValueError, n_inputs=300) == 300


@pytest.mark.parametrize(
    ("make", "read", "error"),
    [
        (lambda rng: 1, lambda n: refuse("odd", n), AssertionError),  # all refused
        (lambda rng: 2, lambda n: refuse("odd", n), AssertionError),  # none refused
        (numbers, lambda n: 1 / (n % 2), ZeroDivisionError),  # another error
        (numbers, lambda n: refuse("", n), AssertionError),  # no message
        (numbers, lambda n: refuse("a\nb", n), AssertionError),  # more than a line
    ],
)
def test_what_should_not_happen_is_noticed(make, read, error):
    with pytest.raises(error):
        feed("csv", make, read, ValueError, n_inputs=50)


def test_time_and_memory_are_limited():
    with pytest.raises(HangError), limited_time(0.05):
        time.sleep(60)
    with pytest.raises(HangError), limited_time(0.5):
        for _ in range(10**11):  # computes: the limit is of its own time, however busy others are
            pass
    with pytest.raises(AssertionError, match="MiB of memory"), limited_memory(2**25):
        np.ones(2**26, dtype=np.uint8)  # was there, and is gone
    with limited_memory(2**25), pytest.raises(MemoryError):
        np.empty(2**30, dtype=np.uint8)
