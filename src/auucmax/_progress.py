"""Progress of long computations: a bar on a terminal, or a line elsewhere on request."""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from auucmax._errors import visible

Item = TypeVar("Item")

PATIENCE = 2.0  #: seconds without a bar
LONG = 30.0  #: seconds of work after which a line announces the duration


def track(items: Iterable[Item], total: int, label: str) -> Iterator[Item]:
    """Iterate over items, with a progress bar on standard error if it takes long.

    >>> list(track([1, 2], 2, "counting"))
    [1, 2]
    """
    if is_quiet() or not sys.stderr.isatty():
        yield from items
        return
    with working_on(label) as work:
        work.expect(total)
        for item in items:
            with work.part(size=1):
                yield item


class Work:
    """Progress of work with several parts: the current part, its share, and the time left.

    The sizes of parts are in any unit proportional to their time.
    """

    def __init__(self, label: str) -> None:
        self.label, self.now = label, label
        self.total, self.done = 0.0, 0.0
        self.ends: float | None = None  # when all is done, by the clock
        self._times: list[tuple[float, float]] = []  # of what was done, by the clock

    def expect(self, total: float) -> None:
        """Set the total size of the parts; discard earlier progress."""
        self.total, self._times = total, [(0.0, time.perf_counter())]

    @contextmanager
    def part(self, what: str = "", size: float = 0.0) -> Iterator[None]:
        """Record progress while one part runs."""
        self.now = f"{self.label}: {what}" if what else self.label
        yield
        self.done += size
        if not size or not self._times:
            return
        self._times.append((self.done, now := time.perf_counter()))
        # The first part may have waited for libraries: it is left out as soon as there are others.
        done, then = self._times[len(self._times) > 2]
        self.ends = now + (now - then) / (self.done - done) * (self.total - self.done)
        whole = self.ends - self._times[0][1]
        if len(self._times) == 3 and whole > LONG:
            _say(f"{self.label} takes {about(whole)}.")

    @property
    def left(self) -> str:
        """The remaining time in words."""
        return "" if self.ends is None else f"{about(self.ends - time.perf_counter())} left"


@contextmanager
def working_on(label: str) -> Iterator[Work]:
    """Show one bar with the remaining time for all parts, and hide their own bars.

    >>> with working_on("counting") as work:
    ...     work.expect(2)
    ...     with work.part("first", 1):
    ...         pass
    >>> work.done / work.total
    0.5
    """
    work = Work(label)
    if is_quiet() or not sys.stderr.isatty():
        yield work
        return
    from rich import progress as bars
    from rich.console import Console
    from rich.text import Text

    class Told(bars.ProgressColumn):
        """The description of the current work, evaluated when the bar is drawn."""

        max_refresh = 0.5

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def render(self, task: Any) -> Text:
            return Text(visible(getattr(work, self.name)))

    class Drawn(bars.BarColumn):
        def render(self, task: Any) -> Any:
            task.total, task.completed = work.total or None, work.done
            return super().render(task)

    columns = bars.SpinnerColumn(), Told("now"), Drawn(), Told("left")
    shown = bars.Progress(*columns, console=Console(stderr=True), transient=True)
    task = shown.add_task("", total=None, visible=False)
    late = threading.Timer(PATIENCE, lambda: shown.update(task, visible=True))
    late.daemon = True
    late.start()
    try:
        with shown, quiet():
            yield work
    finally:
        late.cancel()


def about(seconds: float) -> str:
    """Format a duration in words.

    >>> about(0.4), about(44), about(100), about(5000), about(86000)
    ('about 1 second', 'about 45 seconds', 'about 2 minutes', 'about 83 minutes', 'about 24 hours')
    """
    for unit, size, most in (("hour", 3600, 7200), ("minute", 60, 90)):
        if seconds >= most:
            return f"about {seconds / size:.0f} {unit}s"
    seconds = max(round(seconds), 1) if seconds < 20 else 5 * round(seconds / 5)
    return f"about {seconds} second{'s' if seconds > 1 else ''}"


_quiet_lock = threading.Lock()
_quiet = {"blocks": 0}  # of the whole process: its threads share one terminal
_speaking = {"blocks": 0}


@contextmanager
def speaking() -> Iterator[None]:
    """Without a terminal, announce long work in a line on standard error."""
    _speaking["blocks"] += 1
    try:
        yield
    finally:
        _speaking["blocks"] -= 1


def _say(text: str) -> None:
    if _speaking["blocks"] and not is_quiet() and not sys.stderr.isatty():
        print(f"note: {visible(text)}", file=sys.stderr, flush=True)


@contextmanager
def quiet() -> Iterator[None]:
    """Hide progress bars of inner work, such as the epochs of a network.

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
    """Whether progress bars are hidden: inside :func:`quiet`, or in a worker process."""
    return _quiet["blocks"] > 0 or multiprocessing.current_process().name != "MainProcess"
