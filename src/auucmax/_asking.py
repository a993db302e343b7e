"""Generators that ask: each yields what it wants to know, and is sent the answer."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

Asked = TypeVar("Asked")
Reply = TypeVar("Reply")
Result = TypeVar("Result")


def drive(asking: Generator[Asked, Reply, Result], reply: Callable[[Asked], Reply]) -> Result:
    """What a generator comes to whose questions a function answers.

    >>> def sum_of_squares(n):
    ...     total = 0
    ...     for k in range(n):
    ...         total += yield k
    ...     return total
    >>> drive(sum_of_squares(4), lambda k: k * k)
    14
    """
    try:
        asked = next(asking)
        while True:
            asked = asking.send(reply(asked))
    except StopIteration as stop:
        result: Result = stop.value
        return result


def relay(
    asking: Generator[Asked, Reply, Result], reply: Callable[[Asked], Generator[Any, Any, Reply]]
) -> Generator[Any, Any, Result]:
    """As :func:`drive`, where finding an answer takes questions of its own, which are passed on."""
    try:
        asked = next(asking)
        while True:
            asked = asking.send((yield from reply(asked)))
    except StopIteration as stop:
        result: Result = stop.value
        return result
