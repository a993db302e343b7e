"""Generators that ask: one driver answers at once, another passes questions on."""

import pytest

from auucmax._asking import drive, relay


def total(*numbers):
    """Asks about each number, and returns the sum of the answers."""
    found = 0
    for number in numbers:
        found += yield number
    return found


def squared(number):
    """Answers by asking for two factors."""
    one = yield ("first", number)
    other = yield ("second", number)
    return one * other


def test_a_function_answers():
    assert drive(total(1, 2, 3), lambda number: number**2) == 14


def test_a_generator_that_asks_nothing():
    assert drive(total(), None) == 0
    assert drive(relay(total(), None), None) == 0


def test_questions_of_the_answers_are_passed_on_in_their_order():
    asked = []

    def reply(question):
        asked.append(question)
        return question[1]

    assert drive(relay(total(2, 3), squared), reply) == 13
    assert asked == [("first", 2), ("second", 2), ("first", 3), ("second", 3)]


def test_an_error_of_the_answer_reaches_the_caller():
    def refuse(number):
        raise ArithmeticError(number)

    with pytest.raises(ArithmeticError, match="1"):
        drive(total(1), refuse)
