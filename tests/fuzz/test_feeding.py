"""The net itself: what should fail does, and the number of inputs does not shrink."""

import time

import numpy as np
import pytest
from tests.fuzz.feeding import (
    INPUTS,
    LEAST,
    HangError,
    feed,
    limited_memory,
    limited_time,
)


def test_there_are_enough_inputs():
    assert sum(INPUTS.values()) >= LEAST


def odd_is_refused(number):
    if number % 2:
        raise ValueError("odd")


def numbers(rng):
    return rng.randrange(100)


def test_every_input_is_read_and_counted(capsys):
    assert feed("csv", numbers, odd_is_refused, ValueError, n_inputs=300) == 300
    assert "csv: 300 inputs" in capsys.readouterr().out


def test_inputs_that_are_all_refused_or_never_are_noticed():
    with pytest.raises(AssertionError):
        feed("csv", lambda rng: 1, odd_is_refused, ValueError, n_inputs=20)
    with pytest.raises(AssertionError):
        feed("csv", lambda rng: 2, odd_is_refused, ValueError, n_inputs=20)


def test_other_errors_are_noticed():
    with pytest.raises(ZeroDivisionError):
        feed("csv", numbers, lambda number: 1 / (number % 2), ValueError, n_inputs=50)


@pytest.mark.parametrize("message", ["", "a\nb"])
def test_errors_that_are_not_one_line_are_noticed(message):
    def read(number):
        raise ValueError(message)

    with pytest.raises(AssertionError):
        feed("csv", numbers, read, ValueError, n_inputs=20)


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
    assert np.empty(2**30, dtype=np.uint8).size == 2**30  # the limit is lifted
