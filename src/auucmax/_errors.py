"""Shared exceptions, and helpers that make text safe to print."""

from __future__ import annotations

import re
import sys

LONGEST_NAME = 120
# Up to the user; a path merges the two slashes, and the scheme may be missing.
_SCHEME, _USER = r"[A-Za-z][\w+.-]*:/{1,2}", r"[^\s:@/'\"]*"
_SECRET = r"\w*(?:password|passwd|pwd|token|secret|api_?key|access_?key)"


class InputError(ValueError):
    """An input that cannot be used.

    Parameters
    ----------
    parameter : name of the input, as the user knows it.
    expected, received : what it should be, and what it is.
    hint : what to do, as a sentence.

    Examples
    --------
    >>> raise InputError("share", "between 0 and 1", "30", "Pass 0.3 for 30%.")
    Traceback (most recent call last):
    auucmax._errors.InputError: share should be between 0 and 1, got 30. Pass 0.3 for 30%.
    """

    def __init__(self, parameter: str, expected: str, received: str, hint: str) -> None:
        super().__init__(parameter, expected, received, hint)
        self.parameter, self.expected = parameter, expected
        self.received, self.hint = received, hint

    def __str__(self) -> str:
        return f"{self.parameter} should be {self.expected}, got {self.received}. {self.hint}"


def visible(text: str) -> str:
    r"""Remove control characters, which could manipulate a terminal, from a line.

    Line breaks are removed too: a name from a file must not look like a line of ours.

    >>> visible("fine\x1b[2J"), visible("age\nThe check passes.")
    ('fine�[2J', 'age�The check passes.')
    """
    return "".join(c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in text)


def visible_lines(text: str) -> str:
    r"""Remove control characters from a text, except line breaks.

    >>> visible_lines("SELECT\n1\x1b")
    'SELECT\n1�'
    """
    return "\n".join(map(visible, text.split("\n")))


def short(name: object, most: int = LONGEST_NAME) -> str:
    """Shorten a name to at most 120 characters.

    >>> short("x" * 500)[-3:], len(short("x" * 500))
    ('xx…', 120)
    """
    text = str(name)
    return text if len(text) <= most else text[: most - 1] + "…"


def without_passwords(text: str) -> str:
    """Mask the passwords of database addresses in a message.

    >>> without_passwords("got nothing at 'mysql://me:secret@shop/trial'")
    "got nothing at 'mysql://me:***@shop/trial'"
    >>> without_passwords("host=shop password=secret PGPASSWORD='se cret'")
    'host=shop password=*** PGPASSWORD=***'
    """
    # A text that is an address: its password may contain blanks, quotes and even an @.
    text = re.sub(rf"^({_SCHEME}{_USER}):.*@", r"\1:***@", text, flags=re.DOTALL)
    text = re.sub(r"[^\s'\"]+", _without_password, text)
    return re.sub(rf"(?i)\b({_SECRET})=('[^']*'|\"[^\"]*\"|[^\s&;'\"]+)", r"\1=***", text)


def _without_password(run: re.Match[str]) -> str:
    """Mask the password in one word: all between the user's colon and the last @.

    Without a regular expression, which would take quadratic time.
    """
    before, at, after = run[0].rpartition("@")
    colon = re.search(":(?!/)", before)
    return run[0] if colon is None else f"{before[: colon.end()]}***{at}{after}"


def level_of_caller() -> int:
    """``stacklevel`` of the nearest frame outside this package, for warnings.

    Arrays and streams reach the same warning through different numbers of calls.

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
