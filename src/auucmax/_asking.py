"""A generator that yields requests and is sent the answers."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

Asked = TypeVar("Asked")
Reply = TypeVar("Reply")
Result = TypeVar("Result")


def drive(asking: Generator[Asked, Reply, Result], reply: Callable[[Asked], Reply]) -> Result:
    """Run a generator to its end, calling ``reply`` for each value it yields.

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
