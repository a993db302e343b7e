"""Progress of long work: a bar on a terminal, after two seconds; otherwise nothing."""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from auucmax._messages import visible

Item = TypeVar("Item")

PATIENCE = 2.0  #: seconds without a bar


def track(items: Iterable[Item], total: int, label: str) -> Iterator[Item]:
    """The items, one by one, with a bar on standard error if they take long.

    >>> list(track([1, 2], 2, "counting"))
    [1, 2]
    """
    if is_quiet() or not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    started = time.perf_counter()
    with Progress(console=Console(stderr=True), transient=True, disable=False) as progress:
        task = progress.add_task(escape(visible(label)), total=total, visible=False)
        for item in items:
            yield item
            late = time.perf_counter() - started > PATIENCE
            progress.update(task, advance=1, visible=late)


_quiet_lock = threading.Lock()
_quiet = {"blocks": 0}  # of the whole process: its threads share one terminal


@contextmanager
def quiet() -> Iterator[None]:
    """No bars of inner work, such as the epochs of a network, while the block runs.

    >>> with quiet():
    ...     is_quiet()
    True
    """
    with _quiet_lock:
        _quiet["blocks"] += 1
    try:
        yield
    finally:
        with _quiet_lock:
            _quiet["blocks"] -= 1


def is_quiet() -> bool:
    """Whether inner work should show no bar: inside :func:`quiet`, or in a worker process."""
    return _quiet["blocks"] > 0 or multiprocessing.current_process().name != "MainProcess"
