"""Progress of long work: a bar on a terminal, after two seconds; otherwise nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

__all__ = ["track"]

Item = TypeVar("Item")

PATIENCE = 2.0  #: seconds without a bar


def track(items: Iterable[Item], total: int, label: str) -> Iterator[Item]:
    """The items, one by one, with a bar on standard error if they take long.

    >>> list(track([1, 2], 2, "counting"))
    [1, 2]
    """
    if not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import Progress

    started = time.perf_counter()
    with Progress(console=Console(stderr=True), transient=True, disable=False) as progress:
        task = progress.add_task(label, total=total, visible=False)
        for item in items:
            yield item
            late = time.perf_counter() - started > PATIENCE
            progress.update(task, advance=1, visible=late)
