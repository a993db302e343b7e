"""Generators that ask, and what answers them."""

import pytest

from auucmax._asking import drive


def total(*numbers):
    """Asks about each number, and returns the sum of the answers."""
    found = 0
    for number in numbers:
        found += yield number
    return found


def test_a_function_answers():
    assert drive(total(1, 2, 3), lambda number: number**2) == 14


def test_a_generator_that_asks_nothing():
    assert drive(total(), None) == 0


def test_an_error_of_the_answer_reaches_the_caller():
    def refuse(number):
        raise ArithmeticError(number)

    with pytest.raises(ArithmeticError, match="1"):
        drive(total(1), refuse)
