"""Helpers for generators that yield requests and are sent the answers."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

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


def relay(
    asking: Generator[Asked, Reply, Result], reply: Callable[[Asked], Generator[Any, Any, Reply]]
) -> Generator[Any, Any, Result]:
    """Run a generator to its end, where each answer is itself computed by a generator.

    ``reply`` is a generator, too: what it yields is passed on to whoever drives this one.
    """
    try:
        asked = next(asking)
        while True:
            asked = asking.send((yield from reply(asked)))
    except StopIteration as stop:
        result: Result = stop.value
        return result
