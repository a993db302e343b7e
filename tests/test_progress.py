"""Bars: only on a terminal, only of work that takes long, none of inner work."""

import io
import sys
import threading
import time

from auucmax import _progress
from auucmax._progress import is_quiet, quiet, track


class Terminal(io.StringIO):
    def isatty(self):
        return True


def slowly(items):
    """A bar is drawn ten times a second."""
    for item in items:
        yield item
        time.sleep(0.15)


def test_items_come_as_they_are_whether_there_is_a_bar_or_not(monkeypatch):
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    monkeypatch.setattr(_progress, "PATIENCE", 0.0)
    with quiet():
        assert list(track(iter("abc"), 3, "reading")) == ["a", "b", "c"]
    assert screen.getvalue() == ""
    assert list(track(slowly("abc"), 3, "reading [red]x")) == ["a", "b", "c"]
    assert "[red]x" in screen.getvalue()  # a name is no markup


def test_quick_work_shows_no_bar(monkeypatch):
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    list(track(range(3), 3, "counting"))
    assert "counting" not in screen.getvalue()


def test_no_terminal_no_bar(capsys, monkeypatch):
    monkeypatch.setattr(_progress, "PATIENCE", 0.0)
    assert list(track(range(3), 3, "counting")) == [0, 1, 2]
    assert capsys.readouterr() == ("", "")


def test_quiet_blocks_are_counted_over_threads():
    with quiet():
        with quiet():
            pass
        seen = []
        thread = threading.Thread(target=lambda: seen.append(is_quiet()))
        thread.start()
        thread.join()
        assert seen == [True]
    assert not is_quiet()
