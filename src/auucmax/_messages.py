"""What is shown to people: nothing that steers a terminal, no password; lines of warnings."""

from __future__ import annotations

import re
import sys

# Up to the user; a path has made one slash of two, and some write an address without a scheme.
_SCHEME, _USER = r"[A-Za-z][\w+.-]*:/{1,2}", r"[^\s:@/'\"]*"
_SECRET = r"\w*(?:password|passwd|pwd|token|secret|api_?key|access_?key)"


def visible(text: str) -> str:
    r"""A line without the control characters by which a text could steer a terminal.

    A name from a file must not begin a new line either, which might look like ours.

    >>> visible("fine\x1b[2J"), visible("age\nThe check passes.")
    ('fine�[2J', 'age�The check passes.')
    """
    return "".join(c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in text)


def visible_lines(text: str) -> str:
    r"""A text of several lines without control characters; its line breaks stay.

    >>> visible_lines("SELECT\n1\x1b")
    'SELECT\n1�'
    """
    return "\n".join(map(visible, text.split("\n")))


def without_passwords(text: str) -> str:
    """A message, or an address, without the passwords of the addresses in it.

    >>> without_passwords("got nothing at 'mysql://me:secret@shop/trial'")
    "got nothing at 'mysql://me:***@shop/trial'"
    >>> without_passwords("host=shop password=secret PGPASSWORD='se cret'")
    'host=shop password=*** PGPASSWORD=***'
    """
    # A text that is an address: a password may have blanks and quotes in it, and even an @.
    text = re.sub(rf"^({_SCHEME}{_USER}):.*@", r"\1:***@", text, flags=re.DOTALL)
    text = re.sub(r"[^\s'\"]+", _without_password, text)
    return re.sub(rf"(?i)\b({_SECRET})=('[^']*'|\"[^\"]*\"|[^\s&;'\"]+)", r"\1=***", text)


def _without_password(run: re.Match[str]) -> str:
    """Characters without blanks, less what stands between the colon of a user and the last @.

    By hand: a pattern of an address tries each character as its first one, and takes the square of
    the time that this does.
    """
    before, at, after = run[0].rpartition("@")
    colon = re.search(":(?!/)", before)
    return run[0] if colon is None else f"{before[: colon.end()]}***{at}{after}"


def level_of_caller() -> int:
    """``stacklevel`` of the nearest frame outside this package, for a warning of the caller.

    However many functions of the package lie between: arrays and streams take different ways to
    the same warning.

    >>> outside = {"__name__": "elsewhere", "level_of_caller": level_of_caller}
    >>> exec("level = level_of_caller()", outside)  # no frame of the package lies between
    >>> outside["level"]
    1
    """
    frame, level = sys._getframe(1), 1
    own = __name__.partition(".")[0]
    while frame.f_globals.get("__name__", "").partition(".")[0] == own and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    return level
